//! The threads of this machine.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use appease_bpf::{Change, Changed, Changes, tasks};
use appease_policy::elevation_avenrun;

use super::Tasks;
use crate::seams::{BpfError, Setting, Slice};

/// Where systemd mounts the BPF file system, in which records are pinned.
pub(crate) const BPFFS: &str = "/sys/fs/bpf";
/// Our directory there.
const OURS: &str = "appease";

/// This machine's.
pub struct KernelTasks {
    changes: Changes,
}

impl KernelTasks {
    /// Of which nothing is changed yet.
    ///
    /// # Errors
    /// When there is no BPF file system to keep records in, or the kernel refuses.
    pub fn begin() -> Result<Self, BpfError> {
        Ok(Self { changes: Changes::begin(&Path::new(BPFFS).join(OURS))? })
    }

    /// With what a daemon has left changed that was killed; `None`: nothing.
    ///
    /// # Errors
    /// When its records cannot be read.
    pub fn left() -> Result<Option<Self>, BpfError> {
        Ok(Changes::left(&Path::new(BPFFS).join(OURS))?.map(|changes| Self { changes }))
    }
}

impl Tasks for KernelTasks {
    fn threads(&self, tgid: u32) -> Vec<u32> {
        numbered(format!("/proc/{tgid}/task").into())
    }

    fn setting(&self, tid: u32) -> Option<Setting> {
        tasks::setting(tid).ok()
    }

    fn set(&self, tid: u32, nice: i32, slice: Slice) -> io::Result<()> {
        tasks::set(tid, nice, slice)
    }

    fn set_nice(&self, tid: u32, nice: i32) -> io::Result<()> {
        tasks::set_nice(tid, nice)
    }

    fn change(&self, tid: u32) -> Option<Change> {
        self.changes.of(tid)
    }

    fn note(&self, tid: u32, change: Change) -> Result<(), BpfError> {
        self.changes.note(tid, change)
    }

    fn erase(&self, tid: u32) {
        self.changes.erase(tid);
    }

    fn changed(&self) -> Result<Vec<Changed>, BpfError> {
        self.changes.all()
    }

    fn end(&self) {
        self.changes.end();
    }

    fn process_time_ns(&self, tgid: u32) -> Option<u64> {
        tasks::process_time_ns(tgid)
    }

    fn default_slice_ns(&self) -> u64 {
        tasks::default_slice_ns().unwrap_or(0)
    }

    fn avenrun(&self) -> u64 {
        fs::read_to_string("/proc/loadavg").ok().and_then(|text| avenrun(&text)).unwrap_or(0)
    }
}

/// Names in a directory that are numbers.
fn numbered(dir: PathBuf) -> Vec<u32> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// `0.78 0.51 0.42 1/190 4711`: the first is that of the last minute, in hundredths.
pub(crate) fn avenrun(text: &str) -> Option<u64> {
    let (whole, hundredths) = text.split_whitespace().next()?.split_once('.')?;
    let hundredths = whole.parse::<u64>().ok()?.checked_mul(100)?.checked_add(hundredths.parse().ok()?)?;
    Some(elevation_avenrun(hundredths))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_is_read_in_the_kernels_fixed_point() {
        assert_eq!(avenrun("0.78 0.51 0.42 1/190 4711\n"), Some(1597));
        assert_eq!(avenrun("16.00 0.51 0.42 1/190 4711\n"), Some(32_768));
        assert_eq!(avenrun(""), None);
    }

    #[test]
    fn our_own_threads_are_found() {
        let own = std::process::id();
        assert!(numbered(format!("/proc/{own}/task").into()).contains(&own));
        assert!(numbered(format!("/proc/{}/task", u32::MAX >> 1).into()).is_empty());
    }
}
