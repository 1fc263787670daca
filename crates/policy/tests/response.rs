//! When a request is over, and how it ended.

use appease_policy::{Among, End, RESPONSE_QUIET_NS};
use proptest::prelude::*;

const SECOND_NS: u64 = 1_000_000_000;

proptest! {
    /// Nothing ends without an answer, and what more may follow never by it.
    #[test]
    fn only_an_answer_ends(answered in 1..SECOND_NS, served in 0..SECOND_NS, now in 0..2 * SECOND_NS) {
        for among in [Among::Alone, Among::Shared, Among::GoesOn] {
            prop_assert!(!among.ends(0, served, now));
        }
        prop_assert!(Among::Alone.ends(answered, served, now));
        prop_assert!(!Among::GoesOn.ends(answered, served, now));
    }

    /// What others were told of lasts until they have done: for a while after the answer, and after their last work.
    #[test]
    fn others_may_be_at_work(answered in 1..SECOND_NS, served in 0..SECOND_NS, later in 0..SECOND_NS) {
        let last = answered.max(served);
        prop_assert_eq!(Among::Shared.ends(answered, served, last + later), later > u64::from(RESPONSE_QUIET_NS));
    }

    /// An answer is an answer; without one, it depends on whether somebody is still at work.
    #[test]
    fn an_end_has_a_reason(opened in 1..SECOND_NS, after in 1..SECOND_NS, worked in 0..SECOND_NS, later in 0..SECOND_NS) {
        let served = opened + worked;
        let now = served + later;
        prop_assert_eq!(End::of(opened, opened + after, served, now), End::Answered);
        let expected = if later > u64::from(RESPONSE_QUIET_NS) { End::Silent } else { End::TimedOut };
        prop_assert_eq!(End::of(opened, 0, served, now), expected);
    }
}

/// One on which nobody has worked at all is silent when its time is over.
#[test]
fn who_was_never_served_is_silent() {
    assert_eq!(End::of(SECOND_NS, 0, 0, 5 * SECOND_NS), End::Silent);
}
