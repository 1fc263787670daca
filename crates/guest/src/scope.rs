//! Where programs are put: in control groups, one for each application, or at another nice value than 0.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// The root of all cgroups.
pub const ROOT: &str = "/sys/fs/cgroup";
/// The kernel's default, written nevertheless: it is what the scheduler's name promises.
const WEIGHT: &str = "100";

/// Where programs are put.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scopes {
    each_its_own: bool,
    nice: Option<i32>,
}

impl Scopes {
    /// Everything in the root group, at nice 0.
    pub fn none() -> Self {
        Self::default()
    }

    /// Every application in a group of its own.
    pub fn each_its_own() -> Result<Self> {
        controlled_root()?;
        Ok(Self { each_its_own: true, nice: None })
    }

    /// Everything in the root group, at this nice value.
    pub fn all_at(nice: i32) -> Self {
        Self { each_its_own: false, nice: Some(nice) }
    }

    /// The nice value, if it is not 0.
    pub fn nice(self) -> Option<i32> {
        self.nice
    }

    /// Puts all processes of the user `name` into the scope of a session, as a login manager does with a session.
    pub fn adopt(self, name: &str, uid: u32) -> Result<()> {
        if !self.each_its_own {
            return Ok(());
        }
        let slice = format!("user-{name}.slice");
        let dir = below_root(&["user.slice", &slice, "session.scope"])?;
        for entry in fs::read_dir("/proc").context("list processes")?.flatten() {
            let pid = entry.file_name();
            let is_process = pid.to_string_lossy().bytes().all(|byte| byte.is_ascii_digit());
            if is_process && entry.metadata().is_ok_and(|data| data.uid() == uid) {
                put(&dir, &pid.to_string_lossy())?;
            }
        }
        Ok(())
    }

    /// The group for the application `name`, made if need be.
    pub fn of(self, name: &str) -> Result<Option<PathBuf>> {
        if !self.each_its_own {
            return Ok(None);
        }
        let own = format!("app-{name}.scope");
        let place: &[&str] = match name {
            "xorg" => &["user.slice", "user-1000.slice", "session-1.scope"],
            "sshd" => &["system.slice", "sshd.service"],
            _ => &["user.slice", "user-1000.slice", "user@1000.service", "app.slice", &own],
        };
        below_root(place).map(Some)
    }
}

/// The group with this path, each part of it of the default weight, made if need be.
fn below_root(parts: &[&str]) -> Result<PathBuf> {
    let mut dir = controlled_root()?.to_owned();
    for (depth, part) in parts.iter().enumerate() {
        dir.push(part);
        fs::create_dir_all(&dir).with_context(|| format!("create cgroup {}", dir.display()))?;
        let file = dir.join("cpu.weight");
        fs::write(&file, WEIGHT).with_context(|| format!("write {WEIGHT} to {}", file.display()))?;
        if depth + 1 < parts.len() {
            control(&dir)?;
        }
    }
    Ok(dir)
}

/// The root, whose groups have weights from now on.
pub fn controlled_root() -> Result<&'static Path> {
    control(Path::new(ROOT))?;
    Ok(Path::new(ROOT))
}

/// Gives the groups in `dir` weights.
pub fn control(dir: &Path) -> Result<()> {
    let file = dir.join("cgroup.subtree_control");
    fs::write(&file, "+cpu").with_context(|| format!("write +cpu to {}", file.display()))
}

/// Puts a process into the group `dir`.
pub fn put(dir: &Path, pid: &str) -> Result<()> {
    let file = dir.join("cgroup.procs");
    match fs::write(&file, pid) {
        // It has ended meanwhile.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => Ok(()),
        done => done.with_context(|| format!("write {pid} to {}", file.display())),
    }
}
