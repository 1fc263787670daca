//! Parties of the other lane: start-time fair queueing by weights of cgroups, and work that is passed on.
#![allow(clippy::unwrap_used, clippy::cast_lossless)]

use appease_policy::{
    PARTY_SCALE_1, PARTY_SCALE_MAX, PROGRESS_TURN_NS, PROGRESS_WEIGHT_0, limit_periods, limit_refill, party_charge,
    party_scale, progress_charge, progress_clock, progress_crowd_turn, progress_group_weight, progress_handed_on,
    progress_leaves, progress_owed_since, progress_owed_still, progress_takes_over,
};
use proptest::prelude::*;

const SECOND_NS: u64 = 1_000_000_000;
const SLICE_NS: u64 = 3_000_000;
const WEIGHT_0: u64 = PROGRESS_WEIGHT_0 as u64;
const SCALE_1: u64 = PARTY_SCALE_1 as u64;
const SCALE_MAX: u64 = PARTY_SCALE_MAX;

proptest! {
    /// Two cgroups side by side that always want the CPU have it by their weights.
    #[test]
    fn the_cpu_is_shared_by_weight(weights in prop::array::uniform2(1u32..=10_000)) {
        let weights = weights.map(progress_group_weight);
        let scales = weights.map(|weight| party_scale(SCALE_1, WEIGHT_0, weight));
        let (mut vtimes, mut had) = ([0u64; 2], [0u64; 2]);
        let lightest = u64::from(*weights.iter().min().unwrap());
        let sum: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
        for _ in 0..(100 * sum / lightest).min(200_000) {
            let next = usize::from(vtimes[1] < vtimes[0]);
            vtimes[next] += party_charge(SLICE_NS, scales[next]);
            had[next] += SLICE_NS;
        }
        prop_assume!(had.iter().all(|&had| had >= 100 * SLICE_NS));
        let ratio = had[0] as f64 / had[1] as f64;
        let wanted = f64::from(weights[0]) / f64::from(weights[1]);
        prop_assert!((0.97..1.03).contains(&(ratio / wanted)), "{} for {}", ratio, wanted);
    }

    /// One of two cgroups inside another has its part of that one's part.
    #[test]
    fn cgroups_in_cgroups_multiply(outer in 1u32..=10_000, [inner, beside] in prop::array::uniform2(1u32..=10_000)) {
        let [outer, inner, beside] = [outer, inner, beside].map(progress_group_weight);
        let within = party_scale(SCALE_1, u64::from(inner + beside), inner);
        let scale = party_scale(within, WEIGHT_0, outer);
        let wanted = f64::from(inner + beside) / f64::from(inner) * 1024.0 / f64::from(outer) * SCALE_1 as f64;
        prop_assert!((scale as f64 - wanted).abs() <= 1.0 + wanted * 0.01 + 1024.0, "{} for {}", scale, wanted);
    }

    /// Whatever the weights: who runs pays something, and what is longer is no less.
    #[test]
    fn charges_do_not_wrap(scale: u64, sum: u64, weight: u32, ran in 1..SECOND_NS, more in 0..SECOND_NS) {
        let scale = party_scale(scale, sum, weight);
        prop_assert!((1..=SCALE_MAX).contains(&scale));
        prop_assert!(party_charge(ran + more, scale) >= party_charge(ran, scale));
        prop_assert!(party_charge(u64::MAX, SCALE_MAX) > 0);
    }

    /// A ring of processes, of which one at a time computes and wakes the next, has what one of them would have beside the others, give or take
    /// a slice each; however many they are.
    #[test]
    fn passing_work_on_gains_nothing(members in 2usize..200, others in 1usize..20, burn in 100_000u64..2_000_000) {
        let (mut clock, mut ring_had, mut all) = (0u64, 0u64, 0u64);
        let mut ring = vec![0u64; members];
        let mut hogs = vec![0u64; others];
        let mut at = 0;
        while all < 20 * SECOND_NS {
            let hog = (0..others).min_by_key(|&hog| hogs[hog]).unwrap();
            // By deadlines: the member's is by what it burns, the hog's by a slice.
            let goes = ring[at] + burn.min(SLICE_NS) <= hogs[hog] + SLICE_NS;
            clock = clock.max(hogs[hog].min(ring[at]));
            let (vtime, ran) = if goes { (&mut ring[at], burn) } else { (&mut hogs[hog], SLICE_NS) };
            clock = progress_clock(clock, *vtime, ran);
            *vtime += progress_charge(ran, PROGRESS_WEIGHT_0);
            all += ran;
            if goes {
                ring_had += ran;
                let next = (at + 1) % members;
                let woken = ring[next].max(clock.saturating_sub(SLICE_NS));
                ring[next] = progress_handed_on(woken, ring[at], clock, SLICE_NS);
                at = next;
            }
        }
        let fair = all as f64 / (others + 1) as f64;
        prop_assert!(ring_had as f64 <= fair * 1.05 + 3.0 * SLICE_NS as f64, "{} of {}", ring_had, fair);
    }

    /// Who is woken is put no farther ahead of the clock than a slice, and never back.
    #[test]
    fn work_handed_on_costs_a_slice_at_most(vtime in 0..SECOND_NS, waker in 0..SECOND_NS, clock in 0..SECOND_NS) {
        let handed = progress_handed_on(vtime, waker, clock, SLICE_NS);
        prop_assert!(handed >= vtime);
        prop_assert!(handed == vtime || handed <= clock + SLICE_NS);
    }

    /// What is owed is taken over once, or forgiven as the clock goes on beyond a slice: it does not grow.
    #[test]
    fn what_is_owed_does_not_grow(
        [vtime, handed, clock, passed] in prop::array::uniform4(0..SECOND_NS),
        taker in 0..SECOND_NS,
    ) {
        let left = progress_leaves(vtime, handed, clock, SLICE_NS);
        prop_assert!(left <= vtime.saturating_sub(handed));
        prop_assert!(left <= vtime.saturating_sub(clock).max(SLICE_NS));
        prop_assert!(left >= vtime.saturating_sub(handed).min(SLICE_NS));
        let still = progress_owed_still(left, clock, clock + passed, SLICE_NS);
        prop_assert_eq!(still, left.saturating_sub(passed.saturating_sub(SLICE_NS)));
        let taken = progress_takes_over(taker, still, clock + passed, SLICE_NS);
        prop_assert!(taken <= still);
        prop_assert!(taken == 0 || taker + taken <= clock + passed + SLICE_NS);
    }

    /// However often a debt is looked at, as much of it is forgiven.
    #[test]
    fn looks_forgive_nothing(owed in 0..SECOND_NS, steps in prop::collection::vec(0..2 * SLICE_NS, 0..20)) {
        let (mut still, mut since, mut clock) = (owed, SECOND_NS, SECOND_NS);
        for step in &steps {
            clock += step;
            still = progress_owed_still(still, since, clock, SLICE_NS);
            since = progress_owed_since(since, clock, SLICE_NS);
        }
        let passed: u64 = steps.iter().sum();
        prop_assert_eq!(still, owed.saturating_sub(passed.saturating_sub(SLICE_NS)));
    }

    /// Whoever takes all that there is, a turn too long each time, has the quota of each period in the long run, and never more than that and the
    /// burst beyond it.
    #[test]
    fn a_limit_holds(quota in 1_000_000u64..100_000_000, burst in 0u64..100_000_000, turn in 1_000_000u64..8_000_000) {
        const PERIOD_NS: u64 = 100_000_000;
        let (mut left, mut since, mut ran) = (i64::try_from(quota).unwrap(), 0u64, 0u64);
        let mut now = 0;
        while now < 20 * SECOND_NS {
            let periods = limit_periods(since, now, PERIOD_NS);
            since += periods * PERIOD_NS;
            left = limit_refill(left, periods, quota, burst);
            if left > 0 {
                left -= i64::try_from(turn).unwrap();
                ran += turn;
            }
            now += turn;
        }
        let periods = now / PERIOD_NS + 1;
        prop_assert!(ran <= periods * quota + burst + turn);
        prop_assert!(ran + 2 * quota + 2 * turn >= (periods * quota).min(now), "{} of {}", ran, periods * quota);
    }

    /// A crowd has a turn each in the time that is given, as long as turns are not shorter than a task's start is worth.
    #[test]
    fn a_crowd_gets_through(time in SECOND_NS..60 * SECOND_NS, waiting in 0u64..100_000) {
        let turn = progress_crowd_turn(time, waiting);
        prop_assert!(turn >= PROGRESS_TURN_NS as u64);
        prop_assert!(turn * waiting <= time || turn == PROGRESS_TURN_NS as u64);
    }
}
