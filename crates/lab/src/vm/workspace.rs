//! The directory of one machine: sockets, console, logs. It is gone with its machine; what a killed process of ours
//! left behind is swept up by the next one.

use std::{
    fs,
    path::{Path, PathBuf},
    process,
};

use anyhow::{Context, Result};
use tempfile::TempDir;

/// Begins the names; the owner's process id follows.
const PREFIX: &str = "appease-lab-";

/// Makes a directory. It lies in the host's directory for temporary files, whose path is short: socket addresses
/// have room for 107 bytes.
///
/// # Errors
/// When it cannot be made.
pub fn create() -> Result<TempDir> {
    let prefix = format!("{PREFIX}{}-", process::id());
    tempfile::Builder::new().prefix(&prefix).tempdir().context("create a machine's directory")
}

/// Removes the directories whose owners are gone.
pub fn sweep() {
    for dir in left_behind(&std::env::temp_dir(), |pid| Path::new("/proc").join(pid).exists()) {
        // Another user's stay.
        let _ = fs::remove_dir_all(dir);
    }
}

fn left_behind(dir: &Path, lives: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let abandoned = |name: &str| {
        let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-')).map(|(pid, _)| pid);
        pid.is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()) && !lives(pid))
    };
    fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(abandoned))
        .map(|entry| entry.path())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use anyhow::Result;

    use super::left_behind;

    #[test]
    fn only_what_dead_owners_left_is_swept_up() -> Result<()> {
        let dir = tempfile::tempdir()?;
        for name in ["appease-lab-12-abc", "appease-lab-34-abc", "appease-lab-notes-abc", "other-12-abc"] {
            fs::create_dir(dir.path().join(name))?;
        }
        let found = left_behind(dir.path(), |pid| pid == "34");
        assert_eq!(found, [dir.path().join("appease-lab-12-abc")]);
        Ok(())
    }
}
