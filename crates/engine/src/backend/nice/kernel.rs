//! The threads of this machine.

use std::{fs, io, path::PathBuf};

use appease_bpf::tasks;
use appease_policy::elevation_avenrun;

use super::Tasks;
use crate::seams::{Setting, Slice};

/// This machine's.
#[derive(Debug, Clone, Copy, Default)]
pub struct KernelTasks;

impl Tasks for KernelTasks {
    fn threads(&self, tgid: u32) -> Vec<u32> {
        numbered(format!("/proc/{tgid}/task").into())
    }

    fn all(&self) -> Vec<u32> {
        numbered("/proc".into()).into_iter().flat_map(|tgid| self.threads(tgid)).collect()
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

    fn began(&self, tid: u32) -> Option<u64> {
        let stat = fs::read_to_string(format!("/proc/{tid}/stat")).ok()?;
        // Fields are numbered as in proc(5); the name, which is the second, may contain anything.
        stat.rsplit_once(") ")?.1.split(' ').nth(22 - 3)?.parse().ok()
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
fn avenrun(text: &str) -> Option<u64> {
    let (whole, hundredths) = text.split_whitespace().next()?.split_once('.')?;
    Some(elevation_avenrun(whole.parse::<u64>().ok()?.checked_mul(100)? + hundredths.parse::<u64>().ok()?))
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
        assert!(KernelTasks.threads(own).contains(&own) && KernelTasks.all().contains(&own));
        assert!(KernelTasks.began(own).is_some_and(|ticks| ticks > 0));
        assert!(KernelTasks.threads(u32::MAX >> 1).is_empty());
    }
}
