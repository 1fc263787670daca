//! The daemon, or the whole machine, stands still for a while; and clocks that leap.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::{Backend, Ground, Group, Outcome, set};
use crate::{classes::task::Task, clock};

/// For how long the daemon stands still.
const STILL_MS: u64 = 3000;
/// Least that a hog has beside the rest, per cent.
const GOES_ON_PCT: f64 = 2.0;
/// Files of the kernel's by which it suspends in part, and comes back after some seconds (Documentation/power/basic-pm-debugging.rst).
const PM_TEST: &str = "/sys/power/pm_test";
const PM_STATE: &str = "/sys/power/state";
/// How long it stays there, busy: seconds, of which one does.
const PM_DELAY: &str = "/sys/module/suspend/parameters/pm_test_delay";
/// How far it goes, the least first: devices and CPUs are switched off in the last ones.
const DEPTHS: [&str; 3] = ["freezer", "devices", "processors"];
/// By how much clocks leap, seconds.
const LEAPS_S: [i64; 4] = [3600, -7200, 86_400 * 400, -86_400 * 400];

/// By the kernel's freezer, as a container's manager does.
pub(super) fn frozen(ground: &Ground) -> Result<Outcome> {
    let group = Group::new("frozen")?;
    let mut daemon = ground.ready()?;
    group.take(&daemon)?;
    group.set("cgroup.freeze", "1")?;
    let still = stands_still(ground);
    group.set("cgroup.freeze", "0")?;
    still?;
    ground.is_at_work(&mut daemon)?;
    daemon.end()?;
    Ok(Outcome::Met)
}

pub(super) fn stopped(ground: &Ground) -> Result<Outcome> {
    let mut daemon = ground.ready()?;
    daemon.signal(Signal::STOP)?;
    let still = stands_still(ground);
    daemon.signal(Signal::CONT)?;
    still?;
    ground.is_at_work(&mut daemon)?;
    // One that is stopped can be killed, too.
    daemon.signal(Signal::STOP)?;
    daemon.kill()?;
    Ok(Outcome::Met)
}

/// Others go on meanwhile.
fn stands_still(ground: &Ground) -> Result<()> {
    let hog = Task::hog("nice -n 0")?;
    let (begin_ns, before_ns) = (clock::now_ns(), hog.ran_ns()?);
    clock::sleep_ms(STILL_MS);
    let share = 100.0 * clock::to_ms(hog.ran_ns()? - before_ns) / clock::to_ms(clock::now_ns() - begin_ns);
    ensure!(share >= GOES_ON_PCT, "a hog had {share:.1} % while the daemon stood still");
    if ground.backend == Backend::Scx {
        let state = crate::scheduler::state();
        ensure!(state == "enabled", "sched_ext is {state} while the daemon stands still");
    }
    Ok(())
}

pub(super) fn suspended(ground: &Ground) -> Result<Outcome> {
    let (Ok(tests), Ok(states)) = (fs::read_to_string(PM_TEST), fs::read_to_string(PM_STATE)) else {
        return Ok(Outcome::Absent("this kernel cannot try out a suspension (CONFIG_PM_SLEEP_DEBUG)"));
    };
    // An older kernel has no such parameter, and takes longer.
    let _ = fs::write(PM_DELAY, "1");
    let mut daemon = ground.ready()?;
    let words: Vec<&str> = tests.split_whitespace().map(|word| word.trim_matches(['[', ']'])).collect();
    for depth in DEPTHS.into_iter().filter(|depth| words.contains(depth)) {
        set(Path::new(PM_TEST), depth)?;
        for state in states.split_whitespace().filter(|state| ["freeze", "mem"].contains(state)) {
            // What this machine's devices cannot do is not our business.
            if let Err(error) = fs::write(PM_STATE, state) {
                println!("suspension to {state} up to {depth}: {error}");
            }
            clock::sleep_ms(300);
            ground.is_at_work(&mut daemon).with_context(|| format!("after suspension to {state} up to {depth}"))?;
        }
    }
    set(Path::new(PM_TEST), "none")?;
    daemon.end()?;
    Ok(Outcome::Met)
}

/// The clock of the day leaps forward and back while the daemon runs.
pub(super) fn clock_steps(ground: &Ground) -> Result<Outcome> {
    let mut daemon = ground.ready()?;
    let mut moved_s = 0;
    for leap_s in LEAPS_S {
        leap(leap_s)?;
        moved_s += leap_s;
        clock::sleep_ms(1200);
        ground.is_at_work(&mut daemon).with_context(|| format!("after a leap of {leap_s} s"))?;
    }
    leap(-moved_s)?;
    daemon.end()?;
    Ok(Outcome::Met)
}

fn leap(seconds: i64) -> Result<()> {
    let word = format!("{seconds} seconds");
    let out = Command::new("date").args(["--set", &word]).output().context("start date")?;
    ensure!(out.status.success(), "date --set {word:?}: {}", String::from_utf8_lossy(&out.stderr).trim());
    Ok(())
}
