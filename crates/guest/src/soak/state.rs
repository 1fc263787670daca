//! All that a daemon of ours may change on a machine, and some that it must not touch.
//!
//! It touches nice values, slices, policies and priorities of threads, the kernel's deadline servers for sched_ext below debugfs, pins below
//! bpffs, and what it loads into the kernel. Cgroups and priorities of disks are none of its business: they are compared to show that.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, ensure};
use libbpf_rs::query::{LinkInfoIter, MapInfoIter, ProgInfoIter};

use crate::{
    classes::task::{Settings, everybody, slice_of},
    clock::{self, Deadline},
    scheduler,
    scope::ROOT,
};

/// How long the kernel may take to free what nobody holds any more, busy seconds.
const FREED_LIMIT_S: u64 = 10;
/// Deadline servers, of which the daemon changes one kind.
const SERVERS: [&str; 2] = ["/sys/kernel/debug/sched/ext_server", "/sys/kernel/debug/sched/fair_server"];
const FIGURES: [&str; 2] = ["runtime", "period"];
const REALTIME_PART: &str = "/proc/sys/kernel/sched_rt_runtime_us";
const BPFFS: &str = "/sys/fs/bpf";
/// Files of a cgroup that say how its tasks are scheduled, and where they may run.
const OF_GROUP: [&str; 4] = ["cpu.weight", "cpu.max", "cpuset.cpus", "cgroup.subtree_control"];

/// The machine at a moment.
#[derive(Debug)]
pub struct State {
    /// Of all threads.
    settings: Settings,
    /// By name, what there is once.
    single: BTreeMap<String, String>,
    /// By kind, numbers of what is loaded into the kernel.
    loaded: BTreeMap<&'static str, BTreeSet<u32>>,
}

impl State {
    /// Now; slices, cgroups and priorities of disks of these processes.
    pub fn now(pids: &[u32]) -> Result<Self> {
        let mut single = BTreeMap::from([("sched_ext".to_owned(), scheduler::state())]);
        single.insert("priorities of disks".into(), disk_priorities(pids)?);
        for pid in pids {
            single.insert(format!("slice of {pid}"), format!("{:?}", slice_of(*pid)));
            let group = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
            single.insert(format!("cgroup of {pid}"), group);
        }
        for servers in SERVERS {
            for cpu in names(Path::new(servers)) {
                for figure in FIGURES {
                    note(&mut single, &format!("{servers}/{cpu}/{figure}"));
                }
            }
        }
        note(&mut single, REALTIME_PART);
        note_groups(&mut single, Path::new(ROOT));
        single.insert(BPFFS.into(), names(Path::new(BPFFS)).into_iter().collect::<Vec<_>>().join(" "));
        let loaded = BTreeMap::from([
            ("program", ProgInfoIter::default().map(|info| info.id).collect::<BTreeSet<_>>()),
            ("map", MapInfoIter::default().map(|info| info.id).collect()),
            ("link", LinkInfoIter::default().map(|info| info.id).collect()),
        ]);
        Ok(Self { settings: everybody()?, single, loaded })
    }

    /// What is another at `now`, in words. Who has ended is not missed, nor who began.
    fn differences(&self, now: &Self) -> Vec<String> {
        let mut found = Vec::new();
        for (task, was) in &self.settings {
            if let Some(is) = now.settings.get(task).filter(|is| *is != was) {
                found.push(format!("task {}: policy, priority, nice are {is:?} and were {was:?}", task.0));
            }
        }
        let all: BTreeSet<&String> = self.single.keys().chain(now.single.keys()).collect();
        for name in all {
            let (was, is) = (self.single.get(name), now.single.get(name));
            if was != is {
                found.push(format!("{name} is {is:?} and was {was:?}"));
            }
        }
        for (kind, is) in &now.loaded {
            let new: Vec<_> = self.loaded.get(kind).map_or_else(Vec::new, |was| is.difference(was).collect());
            if !new.is_empty() {
                found.push(format!("{} of kind {kind} more are loaded: {new:?}", new.len()));
            }
        }
        found
    }

    /// Whether the machine is as it was, or comes to that soon: the kernel frees later than it detaches.
    pub fn is_back(&self, pids: &[u32]) -> Result<()> {
        let deadline = Deadline::after_s(FREED_LIMIT_S);
        loop {
            let found = self.differences(&Self::now(pids)?);
            if found.is_empty() {
                return Ok(());
            }
            ensure!(!deadline.has_passed(), "{}", found.join("; "));
            clock::sleep_ms(50);
        }
    }
}

fn note(single: &mut BTreeMap<String, String>, file: &str) {
    if let Ok(text) = fs::read_to_string(file) {
        single.insert(file.to_owned(), text.trim().to_owned());
    }
}

fn note_groups(single: &mut BTreeMap<String, String>, dir: &Path) {
    for file in OF_GROUP {
        note(single, &dir.join(file).display().to_string());
    }
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            note_groups(single, &entry.path());
        }
    }
}

fn names(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn disk_priorities(pids: &[u32]) -> Result<String> {
    let numbers: Vec<String> = pids.iter().map(ToString::to_string).collect();
    let out = Command::new("ionice").arg("-p").args(numbers).output().context("start ionice")?;
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(settings: &[(u64, i32)], single: &[(&str, &str)], programs: &[u32]) -> State {
        State {
            settings: settings.iter().map(|&(tid, nice)| ((tid, 1), (0, 0, nice))).collect(),
            single: single.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect(),
            loaded: BTreeMap::from([("program", programs.iter().copied().collect())]),
        }
    }

    #[test]
    fn what_is_left_behind_is_told() {
        let before = state(&[(7, 0), (8, 0)], &[("pins", "")], &[1, 2]);
        assert_eq!(before.differences(&state(&[(7, 0), (9, -17)], &[("pins", "")], &[2])), Vec::<String>::new());
        let found = before.differences(&state(&[(7, -17)], &[("pins", "appease"), ("more", "")], &[1, 2, 3]));
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[0].starts_with("task 7:") && found[3].contains("[3]"), "{found:?}");
    }
}
