//! What the kernel's verifier had to do for our loaded programs: the figures that veristat calls instructions, from the
//! kernel that loaded them.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, bail};
use libbpf_rs::query::ProgInfoIter;

use crate::check::{Verdicts, figure};

/// Our programs' names begin so; the kernel keeps 15 bytes of them.
const PREFIX: &str = "appease_";
/// More than this, and a kernel that verifies a little differently may refuse: its limit is a million.
const LIMIT: u32 = 100_000;

/// Prints a check and a figure for each program of ours that is loaded.
pub fn check() -> Result<()> {
    let mut verdicts = Verdicts::default();
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for program in ProgInfoIter::default() {
        let name = program.name.to_string_lossy().into_owned();
        if !name.starts_with(PREFIX) {
            continue;
        }
        // Cut off, names may be alike.
        let same = seen.entry(name.clone()).and_modify(|n| *n += 1).or_insert(1);
        let shown = if *same == 1 { name } else { format!("{name}_{same}") };
        let instructions = program.verified_insns;
        figure(&format!("verified_{shown}"), instructions.into());
        let told = || anyhow!("{instructions} instructions verified, allowed are {LIMIT}");
        verdicts.tell(&shown, (instructions <= LIMIT).then_some(()).ok_or_else(told));
    }
    if seen.is_empty() {
        bail!("no program of ours is loaded");
    }
    Ok(())
}
