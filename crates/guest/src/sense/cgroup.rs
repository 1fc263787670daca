//! Cgroups that a check makes: to tell processes apart, or to share the CPU by weight.

use std::{
    fs,
    os::unix::fs::chown,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use crate::{
    clock::{self, Deadline},
    scope::{ROOT, controlled_root},
};

/// The kernel's default, written nevertheless: it is what a check says.
const WEIGHT: &str = "100";
/// How long killed processes may take to be gone, busy seconds.
const KILLED_S: u64 = 20;

/// A cgroup.
pub struct Cgroup(PathBuf);

impl Cgroup {
    /// Makes the one of this path below the root, unless it is there.
    pub fn new(path: &str) -> Result<Self> {
        let dir = Path::new(ROOT).join(path);
        fs::create_dir_all(&dir).with_context(|| format!("create cgroup {}", dir.display()))?;
        Ok(Self(dir))
    }

    /// The same with a part of the CPU of its own, as great as any other's.
    pub fn weighted(path: &str) -> Result<Self> {
        controlled_root()?;
        let cgroup = Self::new(path)?;
        cgroup.set("cpu.weight", WEIGHT)?;
        Ok(cgroup)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Lets a user divide it, as a service manager does.
    pub fn delegate(&self, uid: u32) -> Result<()> {
        for name in ["", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"] {
            let path = self.0.join(name);
            chown(&path, Some(uid), Some(uid)).with_context(|| format!("give {} to user {uid}", path.display()))?;
        }
        Ok(())
    }

    /// Ends all that is in it and below it, and removes it.
    pub fn kill(&self) -> Result<()> {
        self.set("cgroup.kill", "1")?;
        let deadline = Deadline::after_s(KILLED_S);
        let file = self.0.join("cgroup.events");
        while fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?.contains("populated 1") {
            ensure!(!deadline.has_passed(), "{} has processes {KILLED_S} s after they were killed", self.0.display());
            clock::sleep_ms(2);
        }
        let below = fs::read_dir(&self.0).with_context(|| format!("list {}", self.0.display()))?;
        for group in below.flatten().filter(|entry| entry.path().is_dir()) {
            fs::remove_dir(group.path()).with_context(|| format!("remove cgroup {}", group.path().display()))?;
        }
        fs::remove_dir(&self.0).with_context(|| format!("remove cgroup {}", self.0.display()))
    }

    fn set(&self, name: &str, value: &str) -> Result<()> {
        let file = self.0.join(name);
        fs::write(&file, value).with_context(|| format!("write {value} to {}", file.display()))
    }

    /// Puts a process into it.
    pub fn take(&self, pid: u32) -> Result<()> {
        self.set("cgroup.procs", &pid.to_string())
    }

    /// CPU time of all that were in it, us.
    pub fn used_us(&self) -> Result<f64> {
        let file = self.0.join("cpu.stat");
        let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let used = text.lines().find_map(|line| line.strip_prefix("usage_usec "));
        used.and_then(|us| us.parse().ok()).with_context(|| format!("{} has no usage_usec", file.display()))
    }
}
