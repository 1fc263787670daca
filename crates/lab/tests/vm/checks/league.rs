//! The results of the league that the project keeps.

use std::path::Path;

use anyhow::Context;
use appease_lab::{bench, host::Layout};

use super::{Check, Extent};

/// The checks of this file.
pub fn checks(extent: Extent<'_>) -> Vec<Check> {
    if !extent.full {
        return Vec::new();
    }
    vec![Check::new("league_is_lost_in_few_cells_and_for_a_reason", |_| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).context("find the project")?;
        bench::must_lose_few(&Layout::at(root))
    })]
}
