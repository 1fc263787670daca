//! What `fairness.h` promises: use decays by halves, nobody alone is put back, and weights share as they say.

use appease_policy::{FAIRNESS_HALF_NS, FAIRNESS_MAX_NS, fairness_left, fairness_penalty, fairness_use};
use proptest::prelude::*;

/// CPU time, ns. As it halves each half-life, a thousand CPUs that do nothing else come to 150 s.
const MOST_NS: u64 = 1_000_000_000_000;
const HALF_NS: u64 = FAIRNESS_HALF_NS as u64;
const MAX_NS: u64 = FAIRNESS_MAX_NS as u64;
/// Hundredths, as the configuration has them: 0.01 to 100.
const WEIGHTS: std::ops::RangeInclusive<u64> = 1..=10_000;

proptest! {
    /// One half in each half-life, whatever was there; nothing after all of them.
    #[test]
    fn use_halves(used in 0..MOST_NS, halves in 0u64..70) {
        let left = fairness_left(used, halves * HALF_NS);
        prop_assert_eq!(left, used.checked_shr(u32::try_from(halves).unwrap_or(64)).unwrap_or(0));
    }

    /// Never more than there was, never more by waiting longer; between halves it is not far from the exponential.
    #[test]
    fn use_only_falls(used in 0..MOST_NS, passed in 0..100 * HALF_NS, more in 0..10 * HALF_NS) {
        let left = fairness_left(used, passed);
        prop_assert!(left <= used);
        prop_assert!(fairness_left(used, passed + more) <= left);
        #[allow(clippy::cast_precision_loss)]
        let exact = used as f64 * (-(passed as f64) / HALF_NS as f64).exp2();
        #[allow(clippy::cast_precision_loss)]
        let shown = left as f64;
        // A straight line lies above the curve, by 6 % at most.
        prop_assert!(shown <= exact * 1.065 + 64.0 && shown >= exact * 0.995 - 64.0, "{shown} for {exact}");
    }

    #[test]
    fn use_is_by_weight(used in 0..MOST_NS, weight in WEIGHTS) {
        prop_assert_eq!(fairness_use(used, weight), u64::try_from(u128::from(used) * 100 / u128::from(weight)).unwrap_or(u64::MAX));
        prop_assert!(fairness_use(used, weight + 1) <= fairness_use(used, weight));
        prop_assert_eq!(fairness_use(used, 0), fairness_use(used, 1));
    }

    /// Whoever is the only one is never put back, however much they used; also while the sums are a moment old.
    #[test]
    fn nobody_alone_is_put_back(used in 0..MOST_NS, weight in WEIGHTS, all in 0..MOST_NS, less in 0u64..10_000) {
        prop_assert_eq!(fairness_penalty(used, weight, all, weight.saturating_sub(less)), 0);
    }

    #[test]
    fn the_penalty_has_a_ceiling(used: u64, weight: u64, all: u64, all_weight: u64) {
        prop_assert!(fairness_penalty(used, weight, all, all_weight) <= MAX_NS);
    }

    /// More weight never ranks a customer later, more use never earlier; and what others use never does.
    #[test]
    fn the_penalty_is_monotonic(
        used in 0..MOST_NS, others in 0..MOST_NS, more in 0..MOST_NS, weight in WEIGHTS, heavier in 0u64..1_000,
        others_weight in 1u64..100_000,
    ) {
        let of = |used: u64, weight: u64, others: u64| fairness_penalty(used, weight, used + others, weight + others_weight);
        let penalty = of(used, weight, others);
        prop_assert!(of(used, weight + heavier, others) <= penalty);
        prop_assert!(of(used + more, weight, others) >= penalty);
        prop_assert!(of(used, weight, others + more) <= penalty);
    }

    /// Of two, one at most is put back; none if they used what their weights give them.
    #[test]
    fn of_two_one_is_put_back(a in 0..MOST_NS, b in 0..MOST_NS, weight_a in WEIGHTS, weight_b in WEIGHTS, unit in 0..1_000_000_000u64) {
        let of = |used, weight| fairness_penalty(used, weight, a + b, weight_a + weight_b);
        prop_assert!(of(a, weight_a) == 0 || of(b, weight_b) == 0);
        let (a, b) = (unit * weight_a, unit * weight_b);
        prop_assert_eq!(fairness_penalty(a, weight_a, a + b, weight_a + weight_b), 0);
        prop_assert_eq!(fairness_penalty(b, weight_b, a + b, weight_a + weight_b), 0);
    }
}

/// Two who always want more than there is get what their weights say, when the one with the smaller penalty goes first.
#[test]
fn weights_share_the_cpu() {
    const TURN_NS: u64 = 3_000_000;
    for (weight_a, weight_b) in [(100, 100), (400, 100), (1000, 100)] {
        let (mut used, mut got) = ([0u64; 2], [0u64; 2]);
        let weights = [weight_a, weight_b];
        for _ in 0..20_000 {
            let all: u64 = used.iter().sum();
            let penalty = |who: usize| fairness_penalty(used[who], weights[who], all, weights.iter().sum());
            let next = usize::from(penalty(1) < penalty(0));
            used = used.map(|used| fairness_left(used, TURN_NS));
            used[next] += TURN_NS;
            got[next] += TURN_NS;
        }
        #[allow(clippy::cast_precision_loss)]
        let (ratio, wanted) = (got[0] as f64 / got[1] as f64, weight_a as f64 / weight_b as f64);
        assert!((ratio / wanted - 1.0).abs() < 0.15, "{weight_a} to {weight_b}: {ratio}");
    }
}
