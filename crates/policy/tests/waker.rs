//! For how long an attended task waits for the CPU that woke it.

use appease_policy::{PROGRESS_KEEP_NS, WAKER_LONGEST_NS, waker_stay, waker_usual};
use proptest::prelude::*;

/// So many in a row decide, whatever was before.
const TIMES: usize = 20;

fn after(usual: u32, went_ns: u64) -> u32 {
    (0..TIMES).fold(usual, |usual, _| waker_usual(usual, went_ns))
}

proptest! {
    /// It stays within what it is told, and follows it.
    #[test]
    fn what_is_usual_lies_between(usual in 0..=WAKER_LONGEST_NS, went in any::<u64>()) {
        let went_at_most = went.min(u64::from(WAKER_LONGEST_NS));
        let next = u64::from(waker_usual(usual, went));
        let usual = u64::from(usual);
        prop_assert!(next <= usual.max(went_at_most) && next + 1 >= usual.min(went_at_most));
    }

    /// A waker that soon sleeps is waited for, and one that computes on is not, however either of them began.
    #[test]
    fn who_soon_sleeps_is_waited_for(usual in 0..=WAKER_LONGEST_NS, soon in 0..u64::from(PROGRESS_KEEP_NS) * 9 / 10) {
        prop_assert!(waker_stay(after(usual, soon)) > 0);
        prop_assert_eq!(waker_stay(after(usual, u64::from(WAKER_LONGEST_NS))), 0);
    }
}

/// From the third time on, a waker that computes for milliseconds each time is not waited for.
#[test]
fn a_new_waker_is_soon_known() {
    let known: Vec<u64> =
        (1..=3).map(|times| waker_stay((0..times).fold(0, |usual, _| waker_usual(usual, 5_000_000)))).collect();
    assert_eq!(known, [u64::from(WAKER_LONGEST_NS), u64::from(WAKER_LONGEST_NS), 0]);
}
