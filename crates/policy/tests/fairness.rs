//! Fairness between customers: the tags of weighted fair queueing.
#![allow(clippy::unwrap_used, clippy::cast_lossless)]

use appease_policy::{FAIRNESS_AHEAD_NS, fairness_free, fairness_lag, fairness_tag, fairness_turn};
use proptest::prelude::*;

const SECOND_NS: u64 = 1_000_000_000;
const AHEAD_NS: u64 = FAIRNESS_AHEAD_NS as u64;
const TURN_NS: u64 = 600_000;

/// A customer that takes tags.
struct Customer {
    weight: u64,
    free_ns: u64,
}

impl Customer {
    fn take(&mut self, all_weight: u64, cpus: u32, now_ns: u64) -> u64 {
        let tag_ns = fairness_tag(self.free_ns, now_ns);
        self.free_ns = fairness_free(tag_ns, TURN_NS, self.weight, all_weight, cpus);
        tag_ns
    }
}

proptest! {
    /// Who is alone has no reason to wait, however much it wants.
    #[test]
    fn nobody_alone_waits(weight in 1..10_000u64, now in SECOND_NS..100 * SECOND_NS, turns in 1..1000usize) {
        let mut alone = Customer { weight, free_ns: 0 };
        for _ in 0..turns {
            prop_assert_eq!(alone.take(weight, 1, now), now);
        }
    }

    /// No tag lies in the past, none too far ahead, and none before the one before.
    #[test]
    fn tags_go_on(weight in 0..10_000u64, others in 1..100_000u64, cpus in 0..64u32, steps in prop::collection::vec(0..1_000_000u64, 1..200)) {
        let mut customer = Customer { weight, free_ns: 0 };
        let (mut now, mut last) = (SECOND_NS, 0);
        for passes in steps {
            now += passes;
            let tag = customer.take(weight + others, cpus, now);
            prop_assert!(tag >= now && tag >= last && tag <= now + AHEAD_NS);
            prop_assert_eq!(fairness_lag(tag, now), tag - now);
            prop_assert_eq!(fairness_lag(tag, tag + 1), 0);
            last = tag;
        }
    }

    /// Of two who always want more, each has turns by its weight: so many tags lie before any time to come.
    #[test]
    fn turns_are_shared_by_weight(light in 1..100u64, heavy in 1..100u64) {
        let now = SECOND_NS;
        let until = now + AHEAD_NS / 2;
        let turns = |weight: u64| {
            let mut customer = Customer { weight, free_ns: 0 };
            (0..2000).take_while(|_| customer.take(light + heavy, 1, now) < until).count() as f64
        };
        let (of_light, of_heavy) = (turns(light), turns(heavy));
        let expected = heavy as f64 / light as f64;
        // A turn more or less of each.
        prop_assert!((of_heavy + 1.0) / (of_light - 1.0).max(0.5) >= expected && (of_heavy - 1.0) / (of_light + 1.0) <= expected);
        prop_assert!((of_light + of_heavy) * TURN_NS as f64 <= (AHEAD_NS / 2) as f64 + 3.0 * TURN_NS as f64);
    }

    /// Who seldom wants something goes before a thousand turns that wait.
    #[test]
    fn who_is_modest_does_not_wait(queued in 1..2000usize, later in 0..SECOND_NS) {
        let mut many = Customer { weight: 100, free_ns: 0 };
        let now = SECOND_NS;
        let tags: Vec<u64> = (0..queued).map(|_| many.take(200, 1, now)).collect();
        // By then the CPU has done so many of them, and those that wait lie ahead.
        let done = (later / TURN_NS) as usize;
        let mut one = Customer { weight: 100, free_ns: 0 };
        let tag = one.take(200, 1, now + later);
        prop_assert_eq!(tag, now + later);
        prop_assert!(tags.iter().skip(done + 1).take_while(|&&tag| tag < now + AHEAD_NS).all(|&waiting| waiting >= tag));
    }

    /// The mean of turns is between them, and gets to where they stay.
    #[test]
    fn a_mean_follows(turn in 0..SECOND_NS, ran in 0..SECOND_NS) {
        let next = fairness_turn(turn, ran);
        prop_assert!(next + 8 >= turn.min(ran) && next <= turn.max(ran) + 8);
        let settled = (0..200).fold(turn, |mean, _| fairness_turn(mean, ran));
        prop_assert!(settled.abs_diff(ran) <= 16);
    }
}
