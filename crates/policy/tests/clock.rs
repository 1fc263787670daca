//! The clock that CPUs are asked for.

use appease_policy::{CLOCK_HIGHEST, clock_of_rest, clock_use};
use proptest::prelude::*;

proptest! {
    /// It never asks for more than there is, grows with what is done in a time, and is that part of it but for rounding.
    #[test]
    fn use_is_a_part_of_the_time(busy in any::<u64>(), more in any::<u64>(), elapsed in 1..u64::MAX) {
        let found = clock_use(busy, elapsed);
        prop_assert!(found <= CLOCK_HIGHEST);
        prop_assert!(clock_use(busy.saturating_add(more), elapsed) >= found);
        if busy < 1 << 54 {
            let exact = u128::from(busy.min(elapsed)) * u128::from(CLOCK_HIGHEST) / u128::from(elapsed);
            prop_assert_eq!(u128::from(found), exact);
        }
    }

    /// A task that computes has all of it unless power is saved; then none raises it.
    #[test]
    fn the_rest_raises_it_by_computing_alone(used in 0..=CLOCK_HIGHEST) {
        prop_assert_eq!(clock_of_rest(used, false, false), used);
        prop_assert_eq!(clock_of_rest(used, true, false), CLOCK_HIGHEST);
        prop_assert_eq!(clock_of_rest(used, false, true), 0);
        prop_assert_eq!(clock_of_rest(used, true, true), 0);
    }
}

/// No time has passed, as between two looks at once.
#[test]
fn nothing_of_no_time() {
    assert_eq!(clock_use(0, 0), CLOCK_HIGHEST);
}
