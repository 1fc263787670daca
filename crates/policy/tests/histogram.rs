//! What `histogram.h` promises: buckets without gaps, each narrow for what is in it.

use appease_policy::{
    HISTOGRAM_BUCKETS, HISTOGRAM_STEPS, HISTOGRAM_UNIT_SHIFT, histogram_bucket, histogram_floor, histogram_log2,
};
use proptest::prelude::*;

const LAST: u32 = HISTOGRAM_BUCKETS - 1;

/// Times of every order of magnitude.
fn time() -> impl Strategy<Value = u64> {
    (0u32..64, any::<u64>()).prop_map(|(shift, bits)| bits >> shift)
}

proptest! {
    /// A time lies in its bucket: not before its floor, and before the next one's.
    #[test]
    fn a_time_is_in_its_bucket(ns in time()) {
        let bucket = histogram_bucket(ns);
        prop_assert!(bucket <= LAST);
        prop_assert!(histogram_floor(bucket) <= ns);
        prop_assert!(bucket == LAST || ns < histogram_floor(bucket + 1));
    }

    #[test]
    fn longer_is_never_lower(a in time(), b in time()) {
        prop_assert!(histogram_bucket(a.min(b)) <= histogram_bucket(a.max(b)));
    }

    #[test]
    fn the_logarithm_is_the_integers(value in 1u64..) {
        prop_assert_eq!(histogram_log2(value), value.ilog2());
    }
}

/// Each bucket begins where the one before ends, and is as wide as a sixteenth of what is in it, or as the narrowest.
#[test]
fn buckets_are_narrow() {
    for bucket in 0..LAST {
        let (floor, next) = (histogram_floor(bucket), histogram_floor(bucket + 1));
        assert!(floor < next);
        assert_eq!(histogram_bucket(floor), bucket);
        assert_eq!(histogram_bucket(next - 1), bucket);
        let width = next - floor;
        assert!(width == 1 << HISTOGRAM_UNIT_SHIFT || width <= floor / u64::from(HISTOGRAM_STEPS), "bucket {bucket}");
    }
}

#[test]
fn the_last_bucket_has_all_that_is_longer() {
    assert_eq!(histogram_bucket(u64::MAX), LAST);
    assert_eq!(histogram_bucket(histogram_floor(LAST)), LAST);
    // As the header says: about 68 s, of which the last bucket is the last sixteenth.
    let seconds = histogram_floor(LAST) / 1_000_000_000;
    assert!((64..=68).contains(&seconds), "{seconds} s");
}
