//! Man pages and shell completions, for packages.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;

use crate::args::Args;

/// Writes `appease.1`, `appease-run.1`, … and a completion script for each shell into `dir`.
pub fn all(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
    clap_mangen::generate_to(Args::command(), dir)
        .with_context(|| format!("write man pages into {}", dir.display()))?;
    for shell in Shell::value_variants() {
        clap_complete::generate_to(*shell, &mut Args::command(), "appease", dir)
            .with_context(|| format!("write completions for {shell} into {}", dir.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_man_pages_and_completions() {
        let dir = tempfile::tempdir().expect("a directory");
        all(dir.path()).expect("written");
        let manual = fs::read_to_string(dir.path().join("appease-run.1")).expect("a man page");
        assert!(manual.contains("slice"), "{manual}");
        assert!(dir.path().join("appease.bash").exists());
    }
}
