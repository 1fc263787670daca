//! The results of the league that the project keeps.

use appease_lab::{bench, host::Layout};

use super::{Check, Extent};
use crate::machines::root;

/// The checks of this file.
pub(super) fn checks(extent: Extent) -> Vec<Check> {
    if !extent.full {
        return Vec::new();
    }
    vec![Check::new("league_is_lost_in_few_cells_and_for_a_reason", |_| bench::must_lose_few(&Layout::at(&root())))]
}
