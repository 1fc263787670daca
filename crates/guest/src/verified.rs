//! What the kernel's verifier had to do for our loaded programs: the figures that veristat calls instructions, from the
//! kernel that loaded them; and how long a daemon takes to be in charge.

use std::{collections::BTreeMap, fs, process::Command};

use anyhow::{Context, Result, anyhow, bail};
use libbpf_rs::query::ProgInfoIter;

use crate::{
    check::{Verdicts, figure},
    clock,
    scheduler::{Kind, Scheduler},
    system::TOOLS,
};

/// Our programs' names begin so; the kernel keeps 15 bytes of them.
const PREFIX: &str = "appease_";
/// More than this, and a kernel that verifies a little differently may refuse: its limit is a million.
const LIMIT: u32 = 100_000;
/// Policies that schedule by `sched_ext`.
const POLICIES: [&str; 4] = ["appease", "rsio", "cas", "steady"];
/// How the daemon says that it goes on without a hook.
const REFUSALS: [&str; 1] = ["hooks left out"];
/// From the daemon's start until it is in charge, s. Longer, and a user takes it for hung.
const IN_CHARGE_S: f64 = 5.0;

/// Prints a check and a figure for each program of ours that is loaded.
pub fn check() -> Result<()> {
    check_loaded(&mut Verdicts::default(), "")
}

/// The same for each policy, one after another, with the time that it took to be in charge.
pub fn check_loads() -> Result<()> {
    let mut verdicts = Verdicts::default();
    // What a disk takes is the host's time, in which this machine's clock goes on: the first policy would have all of it.
    let program = format!("{TOOLS}/appease");
    fs::read(&program).with_context(|| format!("read {program}"))?;
    // The same of its libraries.
    let told = Command::new(&program).arg("--version").output().with_context(|| format!("run {program} --version"))?;
    if !told.status.success() {
        bail!("{program} --version: {}", told.status);
    }
    for policy in POLICIES {
        let begin_ns = clock::now_ns();
        let started =
            Scheduler::start(Kind::Appease { policy: Some(policy.to_owned()), backend: Some("scx".to_owned()) });
        let seconds = clock::to_ms(clock::now_ns() - begin_ns) / 1e3;
        let scheduler = match started {
            Ok(scheduler) => scheduler,
            Err(error) => {
                verdicts.tell(&format!("{policy}_loads"), Err(error));
                continue;
            }
        };
        figure(&format!("in_charge_{policy}_s"), seconds);
        let told = || anyhow!("in charge after {seconds:.1} s, allowed are {IN_CHARGE_S}");
        verdicts.tell(&format!("{policy}_loads"), (seconds <= IN_CHARGE_S).then_some(()).ok_or_else(told));
        check_loaded(&mut verdicts, &format!("{policy}_"))?;
        verdicts.tell(&format!("{policy}_has_its_hooks"), refused_none(&scheduler.log_text()));
        scheduler.stop();
    }
    Ok(())
}

/// The daemon goes on without a hook that the kernel refuses, and something is not seen: on the kernels of the checks there is none.
fn refused_none(log: &str) -> Result<()> {
    match log.lines().find(|line| REFUSALS.iter().any(|words| line.contains(words))) {
        Some(line) => Err(anyhow!("{line}")),
        None => Ok(()),
    }
}

/// A check and a figure for each program that is loaded now, their names after `before`.
fn check_loaded(verdicts: &mut Verdicts, before: &str) -> Result<()> {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for program in ProgInfoIter::default() {
        let name = program.name.to_string_lossy().into_owned();
        if !name.starts_with(PREFIX) {
            continue;
        }
        // Cut off, names may be alike.
        let same = seen.entry(name.clone()).and_modify(|n| *n += 1).or_insert(1);
        let shown = if *same == 1 { name } else { format!("{name}_{same}") };
        let instructions = program.verified_insns;
        figure(&format!("verified_{before}{shown}"), instructions.into());
        let told = || anyhow!("{instructions} instructions verified, allowed are {LIMIT}");
        verdicts.tell(&format!("{before}{shown}"), (instructions <= LIMIT).then_some(()).ok_or_else(told));
    }
    if seen.is_empty() {
        bail!("no program of ours is loaded");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_hook_is_found_in_the_log() {
        let log = "INFO in charge\nWARN hooks left out (not in this kernel): consoles";
        assert!(refused_none(log).is_err_and(|error| error.to_string().contains("consoles")));
        assert!(refused_none("INFO waiting for module hid: raw HID devices as channels").is_ok());
    }
}
