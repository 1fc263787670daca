//! Control groups: one for each application, or none at all.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};

const ROOT: &str = "/sys/fs/cgroup";
/// The kernel's default, written nevertheless: it is what the scheduler's name promises.
const WEIGHT: &str = "100";

/// Where programs are put.
#[derive(Debug, Clone, Copy)]
pub struct Scopes {
    each_its_own: bool,
}

impl Scopes {
    /// Everything in the root group, or every application in a group of its own.
    pub fn new(each_its_own: bool) -> Result<Self> {
        if each_its_own {
            let file = format!("{ROOT}/cgroup.subtree_control");
            fs::write(&file, "+cpu").with_context(|| format!("write +cpu to {file}"))?;
        }
        Ok(Self { each_its_own })
    }

    /// The group for the application `name`, made if need be.
    pub fn of(self, name: &str) -> Result<Option<PathBuf>> {
        if !self.each_its_own {
            return Ok(None);
        }
        let dir = PathBuf::from(format!("{ROOT}/app-{name}.scope"));
        fs::create_dir_all(&dir).with_context(|| format!("create cgroup {}", dir.display()))?;
        let file = dir.join("cpu.weight");
        fs::write(&file, WEIGHT).with_context(|| format!("write {WEIGHT} to {}", file.display()))?;
        Ok(Some(dir))
    }
}
