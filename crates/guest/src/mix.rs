//! Gives programs the classes and nice values of a mix, and takes them back.
//!
//! Realtime programs are protected against in two places. Where the kernel has realtime groups, `sched_rt_runtime_us` bounds
//! them. Where it has none, as since 6.12 in Debian's kernels, each CPU has a deadline server for those who are not realtime:
//! once they have waited, they have 50 ms of each second (`fair_server`; 7.2 has an `ext_server`, too, for those whom a
//! sched_ext scheduler schedules). A server whose runtime is 0 gives nothing. Where there is no `ext_server`, our daemon does its part, unless
//! `sched_rt_runtime_us` is -1.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use appease_scenario::{Class, Mix};
use rustix::{
    io::Errno,
    process::{Pid, setpriority_process},
};

use crate::processes::Processes;

/// Where the kernel's deadline servers are set.
const SERVERS: [&str; 2] = ["/sys/kernel/debug/sched/fair_server", "/sys/kernel/debug/sched/ext_server"];
const GROUPS: &str = "/proc/sys/kernel/sched_rt_runtime_us";
/// In place of a runtime: no bound at all.
const UNBOUND: &str = "-1";

/// A mix in force.
#[derive(Debug)]
pub struct InForce {
    roots: Vec<u32>,
    /// What stood in the kernel's files.
    files: Vec<(PathBuf, String)>,
}

/// Gives each process, and all that came from it, its class. Whoever calls must be realtime itself: beneath the mix it could
/// wait for ever.
pub fn apply(mix: &Mix, roots: &[(u32, Class)]) -> Result<InForce> {
    // Realtime classes come last: what follows them may have to wait.
    let (realtime, others): (Vec<_>, Vec<_>) = roots.iter().copied().partition(|(_, class)| class.is_realtime());
    others.into_iter().chain(realtime).try_for_each(|(root, class)| set(root, class))?;
    let mut in_force = InForce { roots: roots.iter().map(|(root, _)| *root).collect(), files: Vec::new() };
    if !mix.protected {
        in_force.unprotect()?;
    }
    Ok(in_force)
}

impl InForce {
    fn unprotect(&mut self) -> Result<()> {
        self.write(Path::new(GROUPS), UNBOUND)?;
        let mut servers = 0;
        for dir in SERVERS {
            for cpu in fs::read_dir(dir).into_iter().flatten().flatten() {
                self.write(&cpu.path().join("runtime"), "0")?;
                servers += 1;
            }
        }
        if servers == 0 {
            eprintln!("this kernel has no deadline servers: {GROUPS} alone bounds realtime classes");
        }
        Ok(())
    }

    fn write(&mut self, file: &Path, value: &str) -> Result<()> {
        let before = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        fs::write(file, value).with_context(|| format!("write {value} to {}", file.display()))?;
        self.files.push((file.to_owned(), before.trim().to_owned()));
        Ok(())
    }

    /// Everybody is normal again, at nice 0.
    pub fn end(self) -> Result<()> {
        for (file, before) in &self.files {
            fs::write(file, before).with_context(|| format!("write {before} to {}", file.display()))?;
        }
        self.roots.iter().try_for_each(|root| set(*root, Class::Other(0)))
    }
}

fn set(root: u32, class: Class) -> Result<()> {
    for process in Processes::now().tree(root) {
        let pid = process.to_string();
        let mut command = Command::new("chrt");
        // It goes before whatever the mix has made realtime already.
        command.args(["--fifo", "99", "chrt", "--all-tasks"]).args(arguments(class)).arg(&pid);
        let out = command.output().context("start chrt")?;
        if !out.status.success() && Path::new("/proc").join(&pid).exists() {
            bail!("chrt {class} of process {pid}: {}", String::from_utf8_lossy(&out.stderr).trim());
        }
        if let Class::Other(nice) = class {
            renice(&pid, nice)?;
        }
    }
    Ok(())
}

/// The kernel's nice value is one of a thread.
fn renice(pid: &str, nice: i32) -> Result<()> {
    for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let tid = thread.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw);
        match setpriority_process(tid, nice) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => bail!("set nice {nice} of process {pid}: {error}"),
        }
    }
    Ok(())
}

/// Of `chrt`, before the process.
fn arguments(class: Class) -> Vec<String> {
    let (policy, priority) = match class {
        Class::Other(_) => ("--other", 0),
        Class::Batch => ("--batch", 0),
        Class::Idle => ("--idle", 0),
        Class::Fifo(priority) => ("--fifo", priority),
        Class::RoundRobin(priority) => ("--rr", priority),
    };
    vec![policy.into(), "--pid".into(), priority.to_string()]
}

#[cfg(test)]
mod tests {
    use super::{Class, arguments};

    #[test]
    fn each_class_is_one_of_chrts() {
        let told = |class| arguments(class).join(" ");
        assert_eq!(told(Class::Other(-20)), "--other --pid 0");
        assert_eq!(told(Class::Batch), "--batch --pid 0");
        assert_eq!(told(Class::Fifo(11)), "--fifo --pid 11");
        assert_eq!(told(Class::RoundRobin(9)), "--rr --pid 9");
    }
}
