//! The scheduler is attached and detached under load, with each policy by turns. Nothing stays in the kernel, and no task in its class.

use std::fs;

use anyhow::{Context, Result};

use super::{
    Backend, Rounds, Tally, Verdicts,
    daemon::{Daemon, since_ms, words},
    stage::Stage,
    state::State,
};
use crate::{check::figure, clock};

/// Policies that schedule by `sched_ext`.
const POLICIES: [&str; 4] = ["appease", "rsio", "cas", "steady"];
/// For how long it stays at most, ms.
const STAYS_MS: u64 = 300;
/// What the kernel keeps for itself.
const KERNELS: [&str; 4] = ["SUnreclaim:", "VmallocUsed:", "Percpu:", "KernelStack:"];

pub fn check(verdicts: &mut Verdicts, mut rounds: Rounds) -> Result<()> {
    let stage = Stage::set()?;
    let pids = stage.pids();
    let before = State::now(&pids)?;
    // The first one makes what the kernel keeps for the next.
    Daemon::ready(Backend::Scx)?.end()?;
    before.is_back(&pids)?;
    let kept_kib = kept_kib()?;
    let mut tally = Tally::new("attached_and_detached");
    let mut longest_ms = 0;
    for round in 0..rounds.number {
        let policy = POLICIES[round as usize % POLICIES.len()];
        let stays_ms = rounds.chance.below(STAYS_MS);
        let begin_ns = clock::now_ns();
        let done = once(policy, stays_ms).and_then(|()| before.is_back(&pids));
        longest_ms = longest_ms.max(since_ms(begin_ns));
        tally.note(&format!("round {round}, policy {policy}, for {stays_ms} ms"), done);
    }
    tally.tell(verdicts);
    figure("longest_round_ms", longest_ms as f64);
    figure("kernel_keeps_more_kib", self::kept_kib()? - kept_kib);
    Ok(())
}

fn once(policy: &str, stays_ms: u64) -> Result<()> {
    let words: Vec<String> = words(Backend::Scx).into_iter().chain(["--policy".into(), policy.into()]).collect();
    let mut daemon = Daemon::start_as("daemon", Backend::Scx, &[], &words)?;
    daemon.wait_until_ready()?;
    clock::sleep_ms(stays_ms);
    daemon.end()
}

/// Memory that the kernel keeps for itself, KiB.
fn kept_kib() -> Result<f64> {
    let text = fs::read_to_string("/proc/meminfo").context("read /proc/meminfo")?;
    let figures = text.lines().filter(|line| KERNELS.iter().any(|name| line.starts_with(name)));
    Ok(figures.filter_map(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok()).sum())
}
