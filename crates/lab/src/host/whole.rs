//! Files that are there whole or not at all.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// Writes a file, replacing what was there only when it is complete; `what` it is, for messages.
///
/// # Errors
/// When it cannot be written.
pub fn write_whole(what: &str, path: &Path, text: &str) -> Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    fs::write(&part, text).with_context(|| format!("write {what} {}", part.display()))?;
    fs::rename(&part, path).with_context(|| format!("write {what} {}", path.display()))
}
