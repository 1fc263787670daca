//! Processes of a policy, and what the kernel says about them.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process, setpriority_process};

use crate::{
    clock::{self, Deadline},
    hog, system,
};

/// How long a program may take to start, busy seconds.
const START_LIMIT_S: u64 = 20;

/// A process, as long as this value lives.
pub struct Task(Child);

impl Task {
    /// Burns CPU time; `by` is the command that gives it its policy, such as `nice -n 5`.
    pub fn hog(by: &str) -> Result<Self> {
        Self::start(by, &hog::words().each_ref().map(String::as_str), hog::NAME)
    }

    /// Only sleeps.
    pub fn sleeper(by: &str) -> Result<Self> {
        Self::start(by, &["sleep", "1000000"], "sleep")
    }

    /// Burns CPU time and sleeps, by turns.
    pub fn napper(by: &str, busy_ms: u64, sleep_ms: u64) -> Result<Self> {
        let guest = format!("{}/appease-guest", crate::system::TOOLS);
        Self::start(by, &[&guest, "nap", &busy_ms.to_string(), &sleep_ms.to_string()], "nap")
    }

    /// Any other program; its arguments follow it.
    pub fn program(by: &str, program: &[&str]) -> Result<Self> {
        let name = program.first().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        Self::start(by, program, name)
    }

    /// Starts `program`, which need not be the first to run in the process, and waits until the process has this `name`.
    fn start(by: &str, program: &[&str], name: &str) -> Result<Self> {
        let mut words = by.split_whitespace().chain(program.iter().copied());
        let first = words.next().context("no program given")?;
        let child = Command::new(first).args(words).stdin(Stdio::null()).spawn();
        let mut task = Self(child.with_context(|| format!("start {first}"))?);
        let deadline = Deadline::after_s(START_LIMIT_S);
        while fs::read_to_string(format!("/proc/{}/comm", task.pid())).is_ok_and(|comm| comm.trim() != name) {
            if let Some(status) = task.0.try_wait().context("look after a task")? {
                bail!("{by} {name}: ended ({status})");
            }
            if deadline.has_passed() {
                bail!("{by} {name}: did not run within {START_LIMIT_S} s");
            }
            clock::sleep_ms(5);
        }
        Ok(task)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// CPU time that it had since it began, ns.
    pub fn ran_ns(&self) -> Result<u64> {
        system::ran_ns(Path::new(&format!("/proc/{}/schedstat", self.pid())))
    }

    /// Its standing with the kernel.
    pub fn standing(&self) -> Result<Standing> {
        Ok(Standing::read(&format!("/proc/{}", self.pid())).with_context(|| format!("task {} is gone", self.pid()))?.1)
    }

    /// Gives it another nice value, as its user would.
    pub fn renice(&self, nice: i32) -> Result<()> {
        setpriority_process(Pid::from_child(&self.0).into(), nice).context("set a nice value")
    }

    /// Has it start a child each time that the device of `node` tells something.
    pub fn bearer(by: &str, node: &str) -> Result<Self> {
        let guest = format!("{}/appease-guest", crate::system::TOOLS);
        Self::start(by, &[&guest, "bear", node], "bear")
    }

    /// The same with children that end after so many seconds.
    pub fn bearer_of(by: &str, node: &str, life_s: &str) -> Result<Self> {
        let guest = format!("{}/appease-guest", crate::system::TOOLS);
        Self::start(by, &[&guest, "bear", node, life_s], "bear")
    }

    /// Its children.
    pub fn children(&self) -> Vec<u32> {
        let path = format!("/proc/{0}/task/{0}/children", self.pid());
        let text = fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    }

    /// Whether a scheduler of `sched_ext` schedules it.
    pub fn is_in_sched_ext(&self) -> Result<bool> {
        let path = format!("/proc/{}/sched", self.pid());
        let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        let line = text.lines().find(|line| line.starts_with("ext.enabled"));
        Ok(line.with_context(|| format!("{path} has no line ext.enabled"))?.ends_with('1'))
    }
}

/// Has a process on these CPUs from now on, by their numbers.
pub fn put_on(pid: u32, cpus: &str) -> Result<()> {
    let out = Command::new("taskset").args(["-pc", cpus, &pid.to_string()]).output().context("start taskset")?;
    ensure!(out.status.success(), "taskset to {cpus} says: {}", String::from_utf8_lossy(&out.stderr).trim());
    Ok(())
}

impl Drop for Task {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// As the kernel numbers policies.
pub const FIFO: u32 = 1;
/// See [`FIFO`].
pub const DEADLINE: u32 = 6;

/// What a user, or an administrator, has set for a task, and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Number of its policy.
    pub policy: u32,
    /// Its realtime priority; 0 for others.
    pub priority: u32,
    /// Its nice value.
    pub nice: i32,
    /// CPU on which it runs, or ran last.
    pub cpu: u32,
}

impl Standing {
    /// That of the task with this directory below /proc, and when it began, which tells it from a later one with its
    /// number; nothing if it is gone.
    fn read(dir: &str) -> Option<(u64, Self)> {
        let text = fs::read_to_string(format!("{dir}/stat")).ok()?;
        // The name is in brackets, and may contain anything. Numbers of fields are those of proc(5); its third is next.
        let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
        let field = |number: usize| fields.get(number - 3);
        let standing = Self {
            nice: field(19)?.parse().ok()?,
            cpu: field(39)?.parse().ok()?,
            priority: field(40)?.parse().ok()?,
            policy: field(41)?.parse().ok()?,
        };
        Some((field(22)?.parse().ok()?, standing))
    }
}

/// The nice value of a process.
pub fn nice_of(pid: u32) -> Result<i32> {
    Ok(Standing::read(&format!("/proc/{pid}")).with_context(|| format!("task {pid} is gone"))?.1.nice)
}

/// Number of a process's policy; nothing if it is gone.
pub fn policy_of(pid: u32) -> Option<u32> {
    Some(Standing::read(&format!("/proc/{pid}"))?.1.policy)
}

/// Ends a process that is no child of this one, if it is there.
pub fn end(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let _ = pid.map(|pid| kill_process(pid, Signal::KILL));
}

/// Slice of a process in nanoseconds, where the kernel shows it.
pub fn slice_of(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/sched")).ok()?;
    text.lines().find(|line| line.starts_with("se.slice "))?.rsplit(' ').next()?.parse().ok()
}

/// Policy, realtime priority and nice value of threads, by number and beginning.
pub type Settings = BTreeMap<(u64, u64), (u32, u32, i32)>;

/// The settings of all threads.
pub fn everybody() -> Result<Settings> {
    let mut found = Settings::new();
    let numbered = |dir: &str| -> Result<Vec<u64>> {
        let entries = fs::read_dir(dir).with_context(|| format!("list {dir}"))?.flatten();
        Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
    };
    for pid in numbered("/proc")? {
        // A process may end meanwhile.
        for tid in numbered(&format!("/proc/{pid}/task")).unwrap_or_default() {
            if let Some((began, is)) = Standing::read(&format!("/proc/{pid}/task/{tid}")) {
                found.insert((tid, began), (is.policy, is.priority, is.nice));
            }
        }
    }
    Ok(found)
}
