//! What the policy headers promise, on arbitrary numbers, against direct implementations of the formulas.
#![allow(clippy::unwrap_used)]

use appease_policy::{
    LOAN_DECAY_PCT, POLICY_WEIGHT_DEFAULT, PROGRESS_KEEP_NS, PROGRESS_KERNEL_PCT, PROGRESS_MARGIN_NS,
    PROGRESS_OVERDUE_NS, PROGRESS_OVERDUE_PCT, PROGRESS_PIECE_NS, PROGRESS_TURN_NS, PROGRESS_WEIGHT_0, budget_extended,
    budget_limited, loan_debt, loan_granted, progress_burst, progress_catch_up, progress_charge, progress_clock,
    progress_deadline, progress_displaces, progress_had, progress_inherit, progress_keeps_ns, progress_kernel_fits,
    progress_next_overdue, progress_next_share, progress_overdue_fits, progress_overdue_until, progress_owed,
    progress_share, progress_start, progress_weight, unhappiness_keeps_ns, unhappiness_key, unhappiness_ns,
    unhappiness_opened, unhappiness_preempts,
};
use proptest::prelude::*;

/// A year of uptime, ns: far beyond what a request lives, far below where sums wrap.
const YEAR_NS: u64 = 365 * 86_400 * 1_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;
const MS_NS: u64 = 1_000_000;
/// As the header's arithmetic has it.
#[allow(clippy::cast_lossless)]
const PROGRESS_PIECE: u64 = PROGRESS_PIECE_NS as u64;

/// A part of a time.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
fn part(of: u64, f: f64) -> u64 {
    (of as f64 * f) as u64
}

prop_compose! {
    /// A request: opening time and service, both before `now`.
    fn request()(opened in 0..YEAR_NS, served in 0..10 * SECOND_NS) -> (u64, u64) {
        (opened, served)
    }
}

/// Unhappiness as Customer Appeasement section 2.2 defines it, signed.
fn direct_unhappiness(now: u64, (opened, served): (u64, u64)) -> i128 {
    i128::from(now) - i128::from(opened) - i128::from(served)
}

proptest! {
    /// The key puts requests in the order of their unhappiness, at whatever time one looks.
    #[test]
    fn smallest_key_is_unhappiest(a in request(), b in request(), later in 0..YEAR_NS) {
        let now = a.0.max(b.0) + later;
        let by_key = unhappiness_key(a.0, a.1, POLICY_WEIGHT_DEFAULT)
            .cmp(&unhappiness_key(b.0, b.1, POLICY_WEIGHT_DEFAULT));
        let by_definition = direct_unhappiness(now, b).cmp(&direct_unhappiness(now, a));
        prop_assert_eq!(by_key, by_definition);
    }

    #[test]
    fn unhappiness_is_never_negative_and_else_exact(r in request(), later in 0..YEAR_NS) {
        let now = r.0 + later;
        let expected = u64::try_from(direct_unhappiness(now, r).max(0)).unwrap();
        prop_assert_eq!(unhappiness_ns(r.0, r.1, now), expected);
    }

    /// More weight never ranks a request later.
    #[test]
    fn weight_is_monotonic(r in request(), light in 0u32..10_000, more in 0u32..10_000) {
        prop_assert!(unhappiness_key(r.0, r.1, light + more) <= unhappiness_key(r.0, r.1, light));
    }

    #[test]
    fn the_horizon_caps_age_and_nothing_else(opened in 0..YEAR_NS, later in 0..YEAR_NS, horizon in 0..SECOND_NS) {
        let now = opened + later;
        let counted = unhappiness_opened(opened, now, horizon);
        prop_assert_eq!(now - counted, later.min(horizon));
    }

    /// No two tasks displace each other: else they would do so for ever.
    #[test]
    fn displacing_is_one_way(a in 0..YEAR_NS, b in 0..YEAR_NS, margin in 0..SECOND_NS) {
        prop_assert!(!(unhappiness_preempts(a, b, margin) && unhappiness_preempts(b, a, margin)));
    }

    /// Who is to keep the CPU for so long does, however old its request is.
    #[test]
    fn nobody_overtakes_before_it_is_said(
        opened in SECOND_NS..YEAR_NS,
        served in 0..10 * MS_NS,
        behind in 0..50 * MS_NS,
        horizon in 0..50 * MS_NS,
        margin in 0..MS_NS,
        weight in 1u32..10_000,
        part in 0u64..=100,
    ) {
        let key = |now, served| unhappiness_key(unhappiness_opened(opened, now, horizon), served, weight);
        let now = opened + behind;
        let running = key(now, served);
        let waiting = running + behind;
        let keeps = unhappiness_keeps_ns(waiting, running, margin, weight);
        let ran = keeps / 100 * part;
        prop_assert!(!unhappiness_preempts(waiting, key(now + ran, served + ran), margin));
    }

    #[test]
    fn virtual_time_is_charged_by_weight(ran in 0..SECOND_NS, weight in 1u32..10_000) {
        prop_assert_eq!(progress_charge(ran, weight), ran * u64::from(PROGRESS_WEIGHT_0) / u64::from(weight));
    }

    /// Each nice value weighs less than the one before it, by a quarter at most a little off; what is out of range is the last.
    #[test]
    fn nice_values_are_a_quarter_apart(nice in -20..19i32) {
        let ratio = f64::from(progress_weight(nice)) / f64::from(progress_weight(nice + 1));
        prop_assert!((1.18..1.31).contains(&ratio), "{}", ratio);
        prop_assert_eq!(progress_weight(nice + 1000), progress_weight(19));
        prop_assert_eq!(progress_weight(-nice - 1000), progress_weight(19));
    }

    /// Whoever wants less goes before others of the same virtual time, by no more than a slice; and who wants the same each time is known by that.
    #[test]
    fn deadlines_are_within_a_slice(vtime in 0..YEAR_NS, bursts in prop::array::uniform2(0..SECOND_NS), slice in 1..SECOND_NS) {
        let [one, other] = bursts.map(|burst| progress_deadline(vtime, burst, slice) - vtime);
        prop_assert!(one <= slice && other <= slice);
        prop_assert!(one <= other || bursts[0] > bursts[1]);
        let learned = (0..100).fold(bursts[1], |average, _| progress_burst(average, bursts[0]));
        prop_assert!(learned.abs_diff(bursts[0]) <= 16);
    }

    /// Who has just begun gives way at once to who is behind, if that has not just happened, and to nobody who wants less; but then as
    /// soon as it has had its time. To one that an interrupt wakes, it gives way at once.
    #[test]
    fn who_has_just_begun_keeps_its_turn(
        vtime in SECOND_NS..YEAR_NS,
        [behind, less] in prop::array::uniform2(0..2 * PROGRESS_MARGIN_NS as u64),
        [ran, since] in prop::array::uniform2(0..2 * PROGRESS_KEEP_NS as u64),
    ) {
        let [margin, keep] = [PROGRESS_MARGIN_NS as u64, PROGRESS_KEEP_NS as u64];
        let keeps = |ran| progress_keeps_ns(vtime - behind, vtime - less, vtime, vtime, ran, since, false);
        let keeps_from_called = progress_keeps_ns(vtime - behind, vtime - less, vtime, vtime, ran, since, true);
        prop_assert_eq!(keeps_from_called, if keeps(ran) == u64::MAX { u64::MAX } else { 0 });
        prop_assert_eq!(keeps(ran) == u64::MAX, behind <= margin && less <= margin);
        if keeps(ran) != u64::MAX {
            prop_assert_eq!(keeps(ran) == 0, ran >= keep || (behind > margin && since >= keep));
            prop_assert_eq!(keeps(ran + keeps(ran)), 0);
        }
    }

    /// Of two who wake each other, at most one displaces the other.
    #[test]
    fn displacing_in_the_other_lane_is_one_way(a in 0..YEAR_NS, b in 0..YEAR_NS) {
        prop_assert!(!(progress_displaces(a, b) && progress_displaces(b, a)));
    }

    #[test]
    fn a_weight_of_zero_is_harmless(ran in 0..SECOND_NS, r in request()) {
        prop_assert_eq!(progress_charge(ran, 0), progress_charge(ran, 1));
        prop_assert_eq!(unhappiness_key(r.0, r.1, 0), unhappiness_key(r.0, r.1, 1));
    }

    /// The clock never goes back, never passes what runs, and never goes faster than time.
    #[test]
    fn the_clock_is_steady(queue in 0..YEAR_NS, vtime in 0..YEAR_NS, ran in 0..SECOND_NS) {
        let clock = progress_clock(queue, vtime, ran);
        prop_assert!(clock >= queue && clock <= queue + ran && clock <= queue.max(vtime));
        if vtime >= queue && vtime - queue <= ran {
            prop_assert_eq!(clock, vtime);
        }
    }

    /// A sleeper saves up one slice at most, and nobody loses virtual time by queueing up.
    #[test]
    fn sleepers_catch_up(vtime in 0..YEAR_NS, queue in SECOND_NS..YEAR_NS, slice in 0..SECOND_NS) {
        let caught_up = progress_catch_up(vtime, queue, slice);
        prop_assert_eq!(caught_up, vtime.max(queue - slice));
    }

    /// A new task has its parent's debt, and no credit.
    #[test]
    fn children_start_with_the_debt(parent in 0..YEAR_NS, queue in 0..YEAR_NS, slice in 0..SECOND_NS) {
        prop_assert_eq!(progress_start(parent, queue, slice), parent.clamp(queue, queue + slice));
    }

    /// What a child owes when it ends, its parent does, up to a slice; nobody is better off for having had a child.
    #[test]
    fn debts_are_inherited(
        parent in SECOND_NS..YEAR_NS, child in 0..YEAR_NS, queue in SECOND_NS..YEAR_NS, slice in 0..SECOND_NS,
    ) {
        let after = progress_inherit(parent, child, queue, slice);
        let owed = child.saturating_sub(queue);
        prop_assert!(after >= parent);
        prop_assert!(owed == 0 || after >= (parent.max(queue) + owed).min(queue + slice));
        prop_assert!(after == parent || after <= queue + slice);
    }

    /// Called in at any time before it is too late, the share is met by the end of the epoch.
    #[test]
    fn the_share_is_met_in_time(
        start in 0..YEAR_NS, epoch in 1_000_000..SECOND_NS, into in 0.0..1.0f64, got in 0.0..1.0f64, share in 0u32..=50,
    ) {
        let due = progress_share(epoch, share);
        let other = part(due, got);
        let now = start + part(epoch, into);
        let owed = progress_owed(now, start, epoch, other, due);
        let left = start + epoch - now;
        let so_far = due * (now - start) / epoch;
        if owed == 0 {
            prop_assert!(other >= due || left > due - other, "left {left} of the epoch for {}", due - other);
            prop_assert!(so_far < other + PROGRESS_PIECE, "{so_far} were due, and it had {other}");
        } else if owed == due - other {
            prop_assert!(left <= owed || so_far == due);
        } else {
            // By pieces, never before they are due.
            prop_assert!(owed >= PROGRESS_PIECE && other + owed == so_far);
        }
    }

    /// A lane that wanted nothing so far is owed nothing at first, and has its part of the rest of the epoch.
    #[test]
    fn who_wants_nothing_saves_nothing_up(
        start in 0..YEAR_NS, epoch in 1_000_000..SECOND_NS, rested in 0.0..2.0f64, got in 0.0..1.0f64, share in 1u32..=50,
    ) {
        let due = progress_share(epoch, share);
        let (other, rested) = (part(due, got), start + part(epoch, rested));
        let had = progress_had(rested, start, epoch, other, due);
        let passed = rested - start;
        prop_assert_eq!(had, other.max(due * passed.min(epoch) / epoch));
        prop_assert_eq!(progress_had(start, start, epoch, other, due), other);
        if passed < epoch && share < 50 {
            let still = (due - had).saturating_sub(1);
            prop_assert!(still <= due * (epoch - passed) / epoch, "{still} of {due} after {passed} of {epoch}");
            prop_assert_eq!(progress_owed(rested, start, epoch, had, due), 0);
        }
    }

    /// Called in late every time, the lane still gets its share over a long time, and what it saves up has a limit.
    #[test]
    fn what_is_owed_is_carried_on(
        epoch in 1_000_000..SECOND_NS, share in 1u32..=50, late in proptest::collection::vec(0.0..0.9f64, 50..100),
    ) {
        let due = progress_share(epoch, share);
        let (mut target, mut got) = (due, 0u64);
        for late in &late {
            let other = part(target, 1.0 - late);
            prop_assert!(target <= 2 * due, "{target} of {due}");
            prop_assert_eq!(progress_next_share(epoch, share, target, other, false), due);
            got += other;
            let next = progress_next_share(epoch, share, target, other, true);
            prop_assert_eq!(next, due + (target - other).min(due));
            target = next;
        }
        // Nothing was forgiven when no more than one share was owed at a time.
        if late.iter().all(|part| *part < 0.5) {
            let asked = due * late.len() as u64;
            prop_assert!(got + target - due + late.len() as u64 >= asked, "{got} of {asked}");
        }
    }

    #[test]
    fn kernel_threads_have_a_ceiling(epoch in 1_000_000..SECOND_NS, kernel in 0..2 * SECOND_NS) {
        prop_assert_eq!(progress_kernel_fits(epoch, kernel), kernel < epoch * u64::from(PROGRESS_KERNEL_PCT) / 100);
    }

    #[test]
    fn overdue_tasks_have_a_ceiling(most in 1_000..7_000_000u64, turns in prop::collection::vec((1..7_000_000u64, 0..50_000_000u64), 1..200)) {
        let (mut now, mut until, mut ran, mut longest) = (SECOND_NS, 0, 0, 0);
        let part = u64::from(PROGRESS_OVERDUE_PCT);
        for (turn, pause) in turns {
            let turn = turn % most + 1;
            // As long as there are some, they run whenever they may; then attended ones do.
            let mut at_once = 0;
            until = progress_overdue_until(until, now, 0);
            while progress_overdue_fits(until, now) {
                now += turn;
                ran += turn;
                at_once += turn;
                until = progress_overdue_until(until, now, turn);
            }
            let piece = PROGRESS_PIECE_NS as u64;
            prop_assert!(at_once <= piece * 100 / (100 - part) + turn, "{at_once} at once");
            now += pause;
            // A turn may be longer than a piece, which is then forgotten.
            longest = longest.max(turn);
            if longest <= piece {
                prop_assert!(ran <= (now - SECOND_NS) * part / 100 + 2 * piece);
            }
        }
    }

    /// However long the lane has had the CPU to itself, its overdue tasks run again within the time of a piece.
    #[test]
    fn overdue_tasks_owe_little(until in 0..4 * SECOND_NS, ran in 0..100 * SECOND_NS) {
        let now = 2 * SECOND_NS;
        let until = progress_overdue_until(until, now, ran);
        prop_assert!(progress_overdue_fits(until, now + PROGRESS_OVERDUE_NS as u64));
    }

    /// Beside turns of others up to a slice, overdue tasks have their part: no more, and but for one turn no less.
    #[test]
    fn overdue_tasks_have_their_part(slice in 1_000_000..7_000_000u64, turns in prop::collection::vec(1..7_000_000u64, 1..200)) {
        let (mut now, mut due, mut ran) = (SECOND_NS, 0, 0);
        let (part, turn) = (u64::from(PROGRESS_OVERDUE_PCT), PROGRESS_TURN_NS as u64);
        for others in turns {
            while now >= due {
                due = progress_next_overdue(due, now, slice);
                now += turn;
                ran += turn;
            }
            now += others % slice + 1;
            let due_ran = (now - SECOND_NS) * part / 100;
            prop_assert!(ran <= due_ran + slice * part / 100 + turn, "{ran} of {due_ran}");
            prop_assert!(ran + slice * part / 100 + turn >= due_ran, "{ran} of {due_ran}");
        }
    }

    /// Each answer gives as much as the first, and none takes any away; all together no more than the budget.
    #[test]
    fn answers_extend_a_budget(
        (quiet, budget) in (1u64..2_000_000_000, 1u64..10_000_000_000),
        turns in proptest::collection::vec(0u64..1_000_000_000, 0..40),
    ) {
        let mut served = 0;
        let mut until = budget_limited(budget, served, quiet);
        prop_assert_eq!(until, quiet.min(budget));
        for turn in turns {
            served += turn;
            let extended = budget_extended(until, served, quiet, budget);
            prop_assert!(extended >= until && extended <= budget);
            prop_assert!(extended >= (served + quiet).min(budget));
            prop_assert_eq!(budget_limited(extended, served, quiet), extended.min(served + quiet));
            until = extended;
        }
    }

    /// Over a long time nobody gets more from loans that come to nothing than their share of it.
    #[test]
    fn loans_are_rationed(turns in proptest::collection::vec((1u64..2_000_000, 0u64..20_000_000), 1..400)) {
        const LIMIT_NS: u64 = 5_000_000;
        let (mut debt, mut passed, mut lent) = (0u64, 0u64, 0u64);
        let mut longest = 0;
        for (ran, pause) in turns {
            debt = loan_debt(debt, pause);
            passed += pause;
            if loan_granted(debt, LIMIT_NS) {
                debt += ran;
                lent += ran;
                longest = longest.max(ran);
            }
        }
        prop_assert!(lent <= LIMIT_NS + longest + passed / 100 * u64::from(LOAN_DECAY_PCT) + 100);
    }
}

#[test]
fn a_stamp_of_now_waits_for_one_that_waited() {
    let now = 50 * SECOND_NS;
    let waited = unhappiness_key(now - 3_000_000, 1_000_000, POLICY_WEIGHT_DEFAULT);
    let fresh = unhappiness_key(now, 0, POLICY_WEIGHT_DEFAULT);
    assert!(unhappiness_preempts(waited, fresh, 0));
}
