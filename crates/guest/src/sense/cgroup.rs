//! Cgroups that a check makes: no controller, no weight, there to tell processes apart.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::scope::ROOT;

/// A cgroup.
pub struct Cgroup(PathBuf);

impl Cgroup {
    /// Makes the one of this path below the root, unless it is there.
    pub fn new(path: &str) -> Result<Self> {
        let dir = Path::new(ROOT).join(path);
        fs::create_dir_all(&dir).with_context(|| format!("create cgroup {}", dir.display()))?;
        Ok(Self(dir))
    }

    /// Puts a process into it.
    pub fn take(&self, pid: u32) -> Result<()> {
        let file = self.0.join("cgroup.procs");
        fs::write(&file, pid.to_string()).with_context(|| format!("write {pid} to {}", file.display()))
    }

    /// CPU time of all that were in it, us.
    pub fn used_us(&self) -> Result<f64> {
        let file = self.0.join("cpu.stat");
        let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let used = text.lines().find_map(|line| line.strip_prefix("usage_usec "));
        used.and_then(|us| us.parse().ok()).with_context(|| format!("{} has no usage_usec", file.display()))
    }
}
