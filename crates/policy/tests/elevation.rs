//! What `elevation.h` promises: Table 1 of Customer Appeasement to the letter, and decay by time.

use appease_policy::{
    ELEVATION_BEST_NICE, ELEVATION_LOAD_1, ELEVATION_ROWS, elevation_avenrun, elevation_delay_ns, elevation_left,
    elevation_lost, elevation_most_load, elevation_network, elevation_nice, elevation_row, elevation_unix,
};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// As printed: `avenrun[0]` up to, levels for unix sockets, for network sockets, delay in ms.
const PRINTED: [(u64, u32, u32, u64); 7] = [
    (1600, 0, 0, 0),
    (3000, 1, 0, 200),
    (5000, 2, 1, 300),
    (8000, 4, 2, 400),
    (12000, 6, 3, 500),
    (16000, 7, 4, 600),
    (u64::MAX, 15, 5, 600),
];

#[test]
fn the_table_is_the_papers() {
    assert_eq!(PRINTED.len(), ELEVATION_ROWS as usize);
    let mut least = 0;
    for (row, (most, unix, network, delay_ms)) in (0..).zip(PRINTED) {
        for load in [least, least + (most - least) / 2, most] {
            assert_eq!(elevation_row(load), row, "at {load}");
        }
        assert_eq!(elevation_most_load(row), most);
        assert_eq!((elevation_unix(row), elevation_network(row)), (unix, network), "row {row}");
        assert_eq!(elevation_delay_ns(row), delay_ms * MS, "row {row}");
        least = most.wrapping_add(1);
    }
}

proptest! {
    /// The more load, the more levels, for longer; local readers before remote ones; never more than 15.
    #[test]
    fn load_raises(load in 0u64..40_000, more in 0u64..40_000) {
        let (here, there) = (elevation_row(load), elevation_row(load + more));
        prop_assert!(here <= there);
        prop_assert!(elevation_unix(here) <= elevation_unix(there) && elevation_unix(there) <= 15);
        prop_assert!(elevation_network(here) <= elevation_network(there));
        prop_assert!(elevation_delay_ns(here) <= elevation_delay_ns(there));
        prop_assert!(elevation_network(here) <= elevation_unix(here));
        prop_assert_eq!(elevation_network(here) == elevation_unix(here), here == 0);
    }

    /// One level for each whole delay, down to none; where there is no delay, all at once.
    #[test]
    fn levels_are_lost_by_time(levels in 0u32..=40, delays in 0u64..50, part in 0u64..1000, delay_ms in 1u64..1000) {
        let delay_ns = delay_ms * MS;
        let passed_ns = delays * delay_ns + delay_ns * part / 1000;
        let left = elevation_left(levels, passed_ns, delay_ns);
        prop_assert_eq!(u64::from(left), u64::from(levels).saturating_sub(delays));
        prop_assert_eq!(elevation_lost(passed_ns, delay_ns), delays);
        prop_assert_eq!(elevation_left(levels, passed_ns, 0), 0);
    }

    /// For every argument, however large: never more than there was.
    #[test]
    fn nothing_is_gained_by_waiting(levels: u32, passed_ns: u64, delay_ns: u64) {
        prop_assert!(elevation_left(levels, passed_ns, delay_ns) <= levels);
    }

    /// On top of what the user set, and never beyond what there is.
    #[test]
    fn the_users_value_is_the_base(base in -20i32..=19, levels in 0u32..100) {
        let nice = elevation_nice(base, levels);
        #[allow(clippy::cast_possible_wrap)]
        let wanted = (base - levels as i32).max(ELEVATION_BEST_NICE);
        prop_assert_eq!(nice, wanted);
        prop_assert!(elevation_nice(base, u32::MAX) == ELEVATION_BEST_NICE);
    }

    /// `/proc/loadavg` shows hundredths, rounded: what is read from it is as near as they are.
    #[test]
    fn the_load_is_the_kernels(avenrun in 0u64..1_000_000) {
        let fixed = u64::from(ELEVATION_LOAD_1);
        // As fs/proc/loadavg.c prints it.
        let shown = avenrun + fixed / 200;
        let hundredths = shown / fixed * 100 + (shown % fixed) * 100 / fixed;
        prop_assert!(elevation_avenrun(hundredths).abs_diff(avenrun) <= fixed / 100);
    }
}
