//! Our scheduler goes: asked to, or killed. The kernel's own takes over, and nobody notices.

use std::{os::unix::process::ExitStatusExt, process::ExitStatus};

use anyhow::{Result, bail, ensure};
use rustix::process::Signal;

use super::{
    Verdicts, shares_of,
    task::{Settings, Task, everybody},
    within,
};
use crate::scheduler::{self, Kind, Scheduler};

/// Until the kernel schedules by itself, ms.
const GONE_MS: f64 = 1000.0;
/// Least share of one that goes on, per cent.
const GOES_ON_PCT: f64 = 10.0;
const WINDOW_MS: u64 = 300;

/// One of each kind; only little work, for a daemon that starts beside it.
pub const SLEEPERS: [&str; 6] = [
    "nice -n 7",
    "nice -n -5",
    "chrt --batch 0",
    "chrt --fifo 10",
    "chrt --rr 20",
    "chrt --deadline --sched-runtime 1000000 --sched-deadline 100000000 --sched-period 100000000 0",
];
/// They keep the CPU busy, and hardly delay anybody.
pub const HOGS: [&str; 2] = ["nice -n 15", "chrt --idle 0"];

pub fn check(verdicts: &mut Verdicts) -> Result<()> {
    let _sleepers = SLEEPERS.map(Task::sleeper).into_iter().collect::<Result<Vec<_>>>()?;
    let hogs = HOGS.map(Task::hog).into_iter().collect::<Result<Vec<_>>>()?;
    for (signal, name) in [(Signal::TERM, "SIGTERM"), (Signal::KILL, "SIGKILL")] {
        let before = everybody()?;
        let ours = Scheduler::start(Kind::parse("appease")?)?;
        verdicts.tell(&format!("a daemon starts, to have {name}"), Ok(()));
        verdicts.tell("it schedules", belong_to(&hogs, true));
        verdicts.tell("policies and priorities are as they were beneath it", are_as(&before, &[]));
        let (gone_ms, status) = ours.end_by(signal)?;
        verdicts.tell(&format!("{name} ends the daemon as it should"), ended_by(status, signal));
        within(verdicts, &format!("gone_after_{name}_ms"), gone_ms, 0.0, GONE_MS);
        verdicts.tell(&format!("the kernel schedules after {name}"), belong_to(&hogs, false));
        verdicts.tell(&format!("policies and priorities are as they were after {name}"), are_as(&before, &[]));
        let [share] = shares_of([&hogs[0]], WINDOW_MS)?;
        within(verdicts, &format!("hog_after_{name}_pct"), share, GOES_ON_PCT, 100.5);
    }
    // What a killed one has left behind must not keep the next from starting.
    let next = Scheduler::start(Kind::parse("appease")?);
    verdicts.tell("a daemon starts after one that was killed", next.map(Scheduler::stop));
    Ok(())
}

/// Whether all are scheduled by `sched_ext`, or all by the kernel itself.
fn belong_to(tasks: &[Task], sched_ext: bool) -> Result<()> {
    for task in tasks {
        ensure!(task.is_in_sched_ext()? == sched_ext, "task {} in sched_ext: {}", task.pid(), !sched_ext);
    }
    let (state, wanted) = (scheduler::state(), if sched_ext { "enabled" } else { "disabled" });
    ensure!(state == wanted, "state is {state}");
    Ok(())
}

/// Whether a daemon ended as the signal has it end.
pub fn ended_by(status: ExitStatus, signal: Signal) -> Result<()> {
    let as_wanted = if signal == Signal::KILL { status.signal() == Some(signal.as_raw()) } else { status.success() };
    ensure!(as_wanted, "{status}");
    Ok(())
}

/// Whether whoever was there, and still is, has what it had, but for processes that are `exempt`.
pub(super) fn are_as(before: &Settings, exempt: &[u32]) -> Result<()> {
    let now = everybody()?;
    let both: Vec<_> = before.iter().filter_map(|(task, was)| Some((task.0, was, now.get(task)?))).collect();
    if both.len() < SLEEPERS.len() + HOGS.len() {
        bail!("only {} tasks are left of {}", both.len(), before.len());
    }
    let is_exempt = |tid: u64| exempt.iter().any(|&pid| u64::from(pid) == tid);
    let changed: Vec<_> = both.iter().filter(|(tid, was, is)| was != is && !is_exempt(*tid)).collect();
    ensure!(changed.is_empty(), "task, policy, priority and nice before and now: {changed:?}");
    Ok(())
}
