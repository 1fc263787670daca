//! Placement: nearest domains, looks by turns, and tasks that domains share out.
#![allow(clippy::cast_possible_truncation)]

use std::collections::BTreeSet;

use appease_policy::{
    PLACEMENT_DUE_NS, PLACEMENT_FEW, PLACEMENT_LAG_NS, PLACEMENT_MOVE_NS, PLACEMENT_PARTY_TURNS, placement_ahead,
    placement_excess, placement_goes_before, placement_is_due, placement_least_clock, placement_leaves,
    placement_leaves_core, placement_moves, placement_near, placement_other, placement_party_lag, placement_room,
    placement_scaled, placement_spares, placement_turn,
};
use proptest::prelude::*;

/// What the kernel's side can tell apart.
const DOMAINS: u32 = 64;
const DOMAIN_CPUS: u32 = 64;
/// Most tasks that wait: with them products still fit a word.
const MOST_TASKS: u32 = 1_000_000;

/// A machine's domains: CPUs that are on, and tasks that wait.
fn machine() -> impl Strategy<Value = Vec<(u32, u32)>> {
    prop::collection::vec((0..=DOMAIN_CPUS, 0..=MOST_TASKS / DOMAINS), 1..=DOMAINS as usize)
        .prop_filter("some CPU is on", |domains| domains.iter().any(|&(online, _)| online > 0))
}

/// One round of what `share_out()` does: each domain that has too much gives to the one with most room.
fn share_out(domains: &mut [(u32, u32)]) {
    let (cpus, waiting) = domains.iter().fold((0, 0), |sum, &(online, here)| (sum.0 + online, sum.1 + here));
    for domain in 0..domains.len() {
        let (online, here) = domains[domain];
        let excess = placement_excess(waiting, cpus, online, here);
        let room = |&(online, here): &(u32, u32)| placement_room(waiting, cpus, online, here);
        let Some(taker) = (0..domains.len()).max_by_key(|&taker| room(&domains[taker])).filter(|_| excess > 0) else {
            continue;
        };
        let given = excess.min(room(&domains[taker]));
        domains[domain].1 -= given;
        domains[taker].1 += given;
    }
}

proptest! {
    /// From each domain all are reached, each once, itself first; and nearness is mutual.
    #[test]
    fn all_domains_are_near_in_some_order(bits in 0..=6u32, home in 0..DOMAINS) {
        let (number, home) = (1 << bits, home % (1 << bits));
        let order: Vec<u32> = (0..number).map(|nth| placement_near(home, nth)).collect();
        prop_assert_eq!(order[0], home);
        prop_assert_eq!(order.iter().copied().collect::<BTreeSet<_>>(), (0..number).collect::<BTreeSet<_>>());
        for (nth, &other) in (0..).zip(&order) {
            prop_assert_eq!(placement_near(other, nth), home);
        }
    }

    /// Chance leads to each of the other domains, and never to this one, as long as there is another.
    #[test]
    fn others_are_looked_at_by_chance(bits in 1..=6u32, home in 0..DOMAINS, from: u32) {
        let (number, home) = (1 << bits, home % (1 << bits));
        let begin = from / (number - 1) * (number - 1);
        let looked: BTreeSet<u32> =
            (0..number - 1).map(|nth| placement_other(home, begin.wrapping_add(nth), number)).collect();
        prop_assume!(begin <= u32::MAX - number);
        prop_assert_eq!(looked, (0..number).filter(|&other| other != home).collect::<BTreeSet<_>>());
    }

    /// Of two that wait in two domains, at most one goes before the other; neither if they are as far.
    #[test]
    fn one_goes_before_the_other(here in 0..1u64 << 62, lag in 0..1u64 << 40, due in 0..1u64 << 40) {
        prop_assert_eq!(placement_goes_before(here, here + lag, due), lag > due);
        prop_assert!(!placement_goes_before(here + lag, here, due));
    }

    /// The first half of a power of two of domains, as those of one memory node, are nearest to each other.
    #[test]
    fn those_of_a_node_are_nearest(bits in 0..6u32, home in 0..DOMAINS) {
        let node = 1 << bits;
        for nth in 0..node {
            prop_assert_eq!(placement_near(home, nth) / node, home / node);
        }
    }

    /// As many looks as a domain has CPUs go to each once, wherever they begin.
    #[test]
    fn looks_go_around(first: u32, cpus in 1..=DOMAIN_CPUS) {
        // Where the counter wraps around, one round may be uneven.
        prop_assume!(first < u32::MAX - DOMAIN_CPUS);
        let looked: BTreeSet<u32> = (0..cpus).map(|nth| placement_turn(first, nth, cpus)).collect();
        prop_assert_eq!(looked, (0..cpus).collect::<BTreeSet<_>>());
    }

    /// A look is at a CPU that there is, also where the counter wraps around; without CPUs it is at the first place.
    #[test]
    fn looks_stay_inside(first: u32, nth in 0..DOMAIN_CPUS, cpus in 0..=DOMAIN_CPUS) {
        prop_assert!(placement_turn(first, nth, cpus) < cpus.max(1));
    }

    /// No domain has and lacks at once; one that is at its part, rounded either way, does neither.
    #[test]
    fn a_part_is_neither_given_nor_lacked(domains in machine()) {
        let (cpus, waiting) = domains.iter().fold((0u64, 0u64), |sum, &(online, here)| (sum.0 + u64::from(online), sum.1 + u64::from(here)));
        for (online, here) in domains {
            let [excess, room] = [placement_excess, placement_room].map(|of| of(waiting as u32, cpus as u32, online, here));
            let (least, rest) = (waiting * u64::from(online) / cpus, waiting * u64::from(online) % cpus);
            let most = least + u64::from(rest > 0);
            prop_assert_eq!(u64::from(excess), u64::from(here).saturating_sub(most));
            prop_assert_eq!(u64::from(room), least.saturating_sub(u64::from(here)));
        }
    }

    /// However tasks wait, so many rounds as there are domains bring each domain within one task for each domain of its part.
    #[test]
    fn sharing_out_evens_out(domains in machine()) {
        let mut shared = domains.clone();
        for _ in 0..domains.len() {
            share_out(&mut shared);
        }
        let (cpus, waiting) = shared.iter().fold((0u64, 0u64), |sum, &(online, here)| (sum.0 + u64::from(online), sum.1 + u64::from(here)));
        prop_assert_eq!(waiting, domains.iter().map(|&(_, here)| u64::from(here)).sum::<u64>(), "none is lost");
        for (online, here) in shared {
            let part = waiting * u64::from(online) / cpus;
            prop_assert!(u64::from(here).abs_diff(part) <= u64::from(DOMAINS), "{} of {}", here, part);
        }
    }

    /// Even domains give nothing: a difference of one task is none, or tasks would go to and fro.
    #[test]
    fn even_domains_give_nothing(online in 1..=DOMAIN_CPUS, number in 1..=DOMAINS, each in 0..10_000u32, more in 0..DOMAINS) {
        // Some of the domains have one more than the others.
        let (cpus, waiting) = (online * number, each * number + more.min(number - 1));
        for here in [each, each + 1] {
            prop_assert_eq!(placement_excess(waiting, cpus, online, here).min(1), u32::from(waiting == each * number && here > each));
        }
    }

    /// A task that wakes up stays where its data is; one that ends a turn leaves while its domain has some to give.
    #[test]
    fn who_wakes_up_stays(gives: u32) {
        prop_assert!(!placement_leaves(true, gives));
        prop_assert_eq!(placement_leaves(false, gives), gives > 0);
    }

    /// Only the party leaves of which most wait, itself counted; of any that wait, one may.
    #[test]
    fn the_most_numerous_leave(waiting: u32, most: u32) {
        prop_assert_eq!(placement_spares(waiting, most), u64::from(waiting) + 1 >= u64::from(most));
    }

    /// However many CPUs run one party at a time, the others keep what they lack by that.
    #[test]
    fn a_turn_of_all_cpus_is_kept(slice in 0..1u64 << 32, cpus in 1..=4096u32) {
        let lag = placement_party_lag(slice, cpus);
        prop_assert!(lag >= PLACEMENT_LAG_NS.into() && lag >= u64::from(PLACEMENT_PARTY_TURNS) * slice * u64::from(cpus));
    }

    /// What waits is moved once it has waited for long enough, and from then on; also where clocks wrap around.
    #[test]
    fn long_waits_are_moved(queued: u64, waited in prop_oneof![0..2 * u64::from(PLACEMENT_MOVE_NS), 0..u64::MAX / 4]) {
        let moves = placement_moves(queued, queued.wrapping_add(waited));
        prop_assert_eq!(moves, waited >= u64::from(PLACEMENT_MOVE_NS));
    }

    /// A core that is shared for a moment is not left; one that stays shared is, and stays to be left.
    #[test]
    fn cores_are_left_that_stay_shared(turns in 2..u32::MAX) {
        prop_assert!(!placement_leaves_core(0) && !placement_leaves_core(1));
        prop_assert!(placement_leaves_core(turns));
    }

    /// Two domains never take from each other at the same time; and a clock is moved up only where its parties have long been due.
    #[test]
    fn clocks_tell_who_is_due(
        a: u64, ahead in prop_oneof![0..10 * u64::from(PLACEMENT_LAG_NS), 0..u64::MAX / 4], domains in 1..=DOMAINS
    ) {
        let b = a.wrapping_add(ahead);
        let [due, lag] = [PLACEMENT_DUE_NS, PLACEMENT_LAG_NS].map(|ns| placement_scaled(ns.into(), domains));
        prop_assert!(!placement_is_due(b, a, domains));
        prop_assert_eq!(placement_is_due(a, b, domains), ahead > due);
        prop_assert_eq!(b.wrapping_sub(placement_least_clock(b, domains)), lag);
        prop_assert!(lag > due);
    }

    /// A lead is held against a task up to a limit, and who is behind keeps what it lacks.
    #[test]
    fn leads_are_limited(queue: u64, most in 0..10 * u64::from(PLACEMENT_LAG_NS), by in 0..u64::MAX / 4) {
        prop_assert_eq!(placement_ahead(queue.wrapping_add(by), queue, most), queue.wrapping_add(by.min(most)));
        prop_assert_eq!(placement_ahead(queue.wrapping_sub(by), queue, most), queue.wrapping_sub(by));
    }

    /// A step of a cgroup's clock on all domains makes none of them look behind.
    #[test]
    fn a_step_is_no_lag(domains in 1..=DOMAINS) {
        const SLICE_NS: u64 = 3_000_000;
        prop_assert!(placement_scaled(PLACEMENT_DUE_NS.into(), domains) >= SLICE_NS * u64::from(domains));
    }
}

/// On few domains they hold as they are, on more in proportion.
#[test]
fn few_domains_change_nothing() {
    let due = |domains| placement_scaled(PLACEMENT_DUE_NS.into(), domains);
    assert_eq!([1, PLACEMENT_FEW, 2 * PLACEMENT_FEW].map(due), [25_000_000, 25_000_000, 50_000_000]);
}

/// Without any CPU there is nothing to share out.
#[test]
fn no_cpu_has_no_part() {
    assert_eq!((placement_excess(5, 0, 0, 3), placement_room(5, 0, 0, 3)), (3, 0));
}
