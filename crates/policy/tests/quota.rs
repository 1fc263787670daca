//! How many requests of one customer may be open at a time.

use appease_policy::{QUOTA_KEPT_FROM_ADDRESSES, quota_allows};
use proptest::prelude::*;

/// What customers have, each of which opens one after the other as many as it may.
fn greedy(customers: usize, all: u32, kept_of: u32) -> Vec<u32> {
    let mut open = vec![0; customers];
    loop {
        let before = open.clone();
        for nth in 0..customers {
            open[nth] += u32::from(quota_allows(open[nth], open.iter().sum(), all, kept_of));
        }
        if open == before {
            return open;
        }
    }
}

proptest! {
    /// However many want all: they have the same, within one, and about as much is free for the next one.
    #[test]
    fn those_who_want_all_share(customers in 1..200_usize, all in 256..8192_u32) {
        let open = greedy(customers, all, 0);
        let (least, most) = (open.iter().min().copied().unwrap_or(0), open.iter().max().copied().unwrap_or(0));
        let free = all - open.iter().sum::<u32>();
        prop_assert!(most - least <= 1, "{open:?}");
        prop_assert!(free <= least && free + 1 >= most, "{free} free of {all}, {open:?}");
        prop_assert!(quota_allows(0, all - free, all, 0));
    }

    /// What is kept back stays free, whatever is taken.
    #[test]
    fn what_is_kept_back_stays_free(open in any::<u32>(), taken in any::<u32>(), all in 1..1_000_000_u32, kept in 2..64_u32) {
        if quota_allows(open, taken, all, kept) {
            prop_assert!(taken < all - all / kept);
        }
    }
}

/// A thousand addresses leave a quarter to accounts on the machine.
#[test]
fn addresses_leave_a_quarter() {
    let taken: u32 = greedy(1000, 4096, QUOTA_KEPT_FROM_ADDRESSES).iter().sum();
    assert!(taken <= 3072 && quota_allows(700, taken, 4096, 0), "{taken}");
}
