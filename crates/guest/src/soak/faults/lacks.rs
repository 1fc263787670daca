//! No room, no memory, no processes, no descriptors.

use std::{
    ffi::CString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use rustix::{
    mount::{MountFlags, UnmountFlags, mount, unmount},
    process::Signal,
};

use super::{
    super::daemon::{Daemon, restore, words},
    Ground, Group, Outcome, Started, set,
};
use crate::{clock, scheduler::status, system::ran_ns};

/// A file system of some pages.
const SMALL: &str = "/run/small";
const SMALL_OPTIONS: &str = "size=64k,nr_inodes=64";
/// Numbers of descriptors that do for nothing, for a part of the start, and for nearly all of it.
const FILES: [u32; 5] = [8, 24, 48, 96, 160];
/// Of those that it has, none is left.
const NO_FILES: u32 = 4;
const ENOUGH_FILES: u32 = 1024;
/// Address space that does for a part of the start, MiB.
const ADDRESSES_MIB: [u64; 3] = [24, 64, 128];
/// Memory that does not do, and such that does, MiB.
const LITTLE_MIB: [u64; 2] = [4, 24];
/// How much CPU time the daemon may take while clients cannot be accepted, of the time that passes, per cent.
const SPINS_PCT: f64 = 20.0;
const SPINS_MS: u64 = 2000;
/// Lines that may tell of clients that cannot be accepted.
const REFUSAL_LINES: usize = 3;

/// A small file system, as long as this value lives.
struct Small;

impl Small {
    fn mount() -> Result<Self> {
        fs::create_dir_all(SMALL).with_context(|| format!("create {SMALL}"))?;
        let options = CString::new(SMALL_OPTIONS)?;
        mount("tmpfs", SMALL, "tmpfs", MountFlags::empty(), options.as_c_str())
            .with_context(|| format!("mount {SMALL}"))?;
        Ok(Self)
    }

    fn fill(&self) -> Result<()> {
        let file = Path::new(SMALL).join("filler");
        let full = fs::write(&file, vec![0; 1 << 20]);
        ensure!(full.is_err(), "{SMALL} is not full");
        Ok(())
    }

    fn words(&self) -> [&'static str; 2] {
        ["--run-dir", SMALL]
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = unmount(SMALL, UnmountFlags::DETACH);
        let _ = fs::remove_dir(SMALL);
    }
}

pub(super) fn full_run_at_the_start(ground: &Ground) -> Result<Outcome> {
    let small = Small::mount()?;
    small.fill()?;
    ground.start_under(&[], &small.words())?.end()
}

/// It ends well, and a killed one is restored.
pub(super) fn full_run_later(ground: &Ground) -> Result<Outcome> {
    for signal in [Signal::TERM, Signal::KILL] {
        let small = Small::mount()?;
        let Started::Ready(daemon) = ground.start_under(&[], &small.words())? else {
            bail!("it does not start in a small directory that is empty")
        };
        small.fill()?;
        clock::sleep_ms(500);
        if signal == Signal::TERM {
            daemon.end()?;
        } else {
            daemon.kill()?;
        }
        restore(&small.words())?;
    }
    Ok(Outcome::Met)
}

pub(super) fn no_processes(ground: &Ground) -> Result<Outcome> {
    let group = Group::new("few")?;
    group.set("pids.max", "1")?;
    let started = ground.start_under(&group.runs().each_ref().map(String::as_str), &[])?;
    started.end()
}

pub(super) fn little_memory_at_the_start(ground: &Ground) -> Result<Outcome> {
    let mut last = Outcome::Met;
    for mib in LITTLE_MIB {
        let group = Group::new("small")?;
        group.set("memory.max", &(mib << 20).to_string())?;
        let mut daemon = Daemon::start_as(
            "limited",
            ground.backend,
            &group.runs().each_ref().map(String::as_str),
            &words(ground.backend),
        )?;
        if let Some(status) = daemon.ready_or_ended()? {
            let (_, log) = daemon.wait_until_gone()?;
            // By the kernel's hand there is nobody left to say anything.
            ensure!(!log.contains("panicked"), "{status}: {log}");
            if status.code().is_some() {
                last = Outcome::Refused(daemon.must_refuse()?);
            }
        }
    }
    Ok(last)
}

/// Each limit as a command before the daemon's.
fn under_each(ground: &Ground, limits: impl Iterator<Item = String>) -> Result<Outcome> {
    let mut told = Vec::new();
    for limit in limits {
        let started = ground.start_under(&["prlimit", &limit], &[]).with_context(|| limit.clone())?;
        if let Outcome::Refused(line) = started.end()? {
            told.push(format!("{limit}: {line}"));
        }
    }
    Ok(if told.is_empty() { Outcome::Met } else { Outcome::Refused(told.join(" | ")) })
}

pub(super) fn no_address_space(ground: &Ground) -> Result<Outcome> {
    under_each(ground, ADDRESSES_MIB.into_iter().map(|mib| format!("--as={}", mib << 20)))
}

pub(super) fn no_files_at_the_start(ground: &Ground) -> Result<Outcome> {
    under_each(ground, FILES.into_iter().map(|number| format!("--nofile={number}")))
}

/// The kernel's own injection, where it has it: each so manieth allocation of the daemon's fails.
pub(super) fn allocations_fail(ground: &Ground) -> Result<Outcome> {
    let dir = PathBuf::from("/sys/kernel/debug/failslab");
    if !dir.exists() {
        return Ok(Outcome::Absent("this kernel injects no failures of allocations (CONFIG_FAILSLAB)"));
    }
    for (file, text) in
        [("task-filter", "Y"), ("probability", "1"), ("times", "-1"), ("ignore-gfp-wait", "N"), ("verbose", "0")]
    {
        set(&dir.join(file), text)?;
    }
    let made = ["sh", "-c", "echo 1 >/proc/self/make-it-fail && exec \"$@\"", "sh"];
    let started = ground.start_under(&made, &[]);
    set(&dir.join("probability"), "0")?;
    started?.end()
}

/// Memory is taken away from one that runs: the kernel kills it.
pub(super) fn killed_for_memory(ground: &Ground) -> Result<Outcome> {
    let group = Group::new("shrinks")?;
    let Started::Ready(mut daemon) = ground.start_under(&group.runs().each_ref().map(String::as_str), &[])? else {
        bail!("it does not start in a cgroup without limits")
    };
    group.set("memory.max", &(1 << 20).to_string())?;
    // It is killed when it next needs a page.
    let _ = status();
    let (status, log) = daemon.wait_until_gone().context("after its memory was taken away")?;
    ensure!(!status.success(), "it ended as if all were well: {log}");
    Ok(Outcome::Met)
}

/// While no client can be accepted it neither ends nor spins, nor fills the log; then it answers again.
pub(super) fn no_files_later(ground: &Ground) -> Result<Outcome> {
    let mut daemon = ground.ready()?;
    limit_files(&daemon, NO_FILES)?;
    let mut client =
        Command::new(format!("{}/appease", crate::system::TOOLS)).arg("status").spawn().context("start a client")?;
    let stat = PathBuf::from(format!("/proc/{}/schedstat", daemon.pid()));
    let (begin_ns, before_ns) = (clock::now_ns(), ran_ns(&stat)?);
    clock::sleep_ms(SPINS_MS);
    let spent = ran_ns(&stat)? - before_ns;
    let spent_pct = 100.0 * clock::to_ms(spent) / clock::to_ms(clock::now_ns() - begin_ns);
    daemon.must_run()?;
    limit_files(&daemon, ENOUGH_FILES)?;
    let _ = client.wait();
    ensure!(spent_pct < SPINS_PCT, "it took {spent_pct:.0} % of a CPU while it had no descriptors");
    let log = daemon.log();
    let lines = log.lines().filter(|line| line.contains("control socket")).count();
    ensure!(lines <= REFUSAL_LINES, "{lines} lines say that clients cannot be accepted: {log}");
    ground.is_at_work(&mut daemon)?;
    daemon.end()?;
    Ok(Outcome::Met)
}

fn limit_files(daemon: &Daemon, number: u32) -> Result<()> {
    let (pid, limit) = (daemon.pid().to_string(), format!("--nofile={number}:{ENOUGH_FILES}"));
    let out = Command::new("prlimit").args(["--pid", &pid, &limit]).output().context("start prlimit")?;
    ensure!(out.status.success(), "prlimit {limit}: {}", String::from_utf8_lossy(&out.stderr).trim());
    Ok(())
}

/// A figure of the kernel's, as long as this value lives.
struct Figure(&'static str, String);

impl Figure {
    fn set(file: &'static str, text: &str) -> Result<Self> {
        let was = fs::read_to_string(file).with_context(|| format!("read {file}"))?;
        set(Path::new(file), text)?;
        Ok(Self(file, was))
    }
}

impl Drop for Figure {
    fn drop(&mut self) {
        if let Err(error) = fs::write(self.0, self.1.trim()) {
            eprintln!("{} stays: {error}", self.0);
        }
    }
}

pub(super) fn no_inotify(ground: &Ground) -> Result<Outcome> {
    let _few = Figure::set("/proc/sys/fs/inotify/max_user_instances", "1")?;
    ground.start_under(&[], &[])?.end()
}

pub(super) fn no_watches(ground: &Ground) -> Result<Outcome> {
    let _few = Figure::set("/proc/sys/fs/inotify/max_user_watches", "1")?;
    ground.start_under(&[], &[])?.end()
}
