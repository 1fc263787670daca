//! Affinity, and a CPU that goes and comes while there is work. In the host's time: shares are far from exact.

use std::fs;

use anyhow::{Context, Result, bail, ensure};

use super::{
    Verdicts, shares_of,
    task::{Task, put_on},
    within,
};
use crate::{
    clock::{self, Deadline},
    scheduler,
};

/// Least share of each, as a part of what is even. Who got ahead while the host kept one CPU waiting waits for the others.
const LEAST_PART: f64 = 0.1;
/// Least that a CPU is at work that has come back, per cent.
const BACK_AT_WORK_PCT: f64 = 50.0;
/// How often a CPU goes and comes.
const TIMES: u32 = 2;
const WINDOW_MS: u64 = 2000;
const LOOKS: u32 = 100;
const LOOK_EACH_MS: u64 = 10;
/// How long the scheduler may need to use a CPU that has come, busy seconds.
const BACK_LIMIT_S: u64 = 5;

pub fn check(verdicts: &mut Verdicts) -> Result<()> {
    let sequence = scheduler::sequence();
    let zero = Task::hog("taskset -c 0")?;
    let one = Task::hog("taskset -c 1")?;
    let free = [Task::hog("nice -n 0")?, Task::hog("nice -n 0")?, Task::hog("nice -n 0")?];
    let all = || [&zero, &one, &free[0], &free[1], &free[2]];

    verdicts.tell("pinned tasks stay", stays(&zero, 0).and_then(|()| stays(&one, 1)));
    verdicts.tell("pinned tasks and others get on", get_on(all()));
    put_on(zero.pid(), "1")?;
    verdicts.tell("a task that is pinned elsewhere goes there", stays(&zero, 1));
    verdicts.tell("pinned to one CPU, they get on", get_on(all()));

    for time in 1..=TIMES {
        set_online(1, false)?;
        verdicts.tell(&format!("CPU 1 is off, time {time}: everybody gets on"), get_on(all()));
        verdicts.tell("all are on CPU 0", all().into_iter().try_for_each(|task| stays_briefly(task, 0)));
        verdicts.tell("the scheduler is still attached", is_attached(&sequence));
        set_online(1, true)?;
        verdicts.tell("a task comes back to CPU 1", comes_back(&free));
        within(verdicts, &format!("cpu_1_at_work_again_{time}_pct"), busy_pct(1)?, BACK_AT_WORK_PCT, 105.0);
        verdicts.tell("everybody gets on again", get_on(all()));
        verdicts.tell("the scheduler is attached yet", is_attached(&sequence));
    }
    Ok(())
}

fn is_attached(sequence: &str) -> Result<()> {
    let (state, now) = (scheduler::state(), scheduler::sequence());
    ensure!(state == "enabled" && now == sequence, "state is {state}, attachment {now} after {sequence}");
    Ok(())
}

/// Whether it is on that CPU whenever one looks.
fn stays(task: &Task, cpu: u32) -> Result<()> {
    for _ in 0..LOOKS {
        stays_briefly(task, cpu)?;
        clock::sleep_ms(LOOK_EACH_MS);
    }
    Ok(())
}

fn stays_briefly(task: &Task, cpu: u32) -> Result<()> {
    let found = task.standing()?.cpu;
    ensure!(found == cpu, "found on CPU {found} instead of {cpu}");
    Ok(())
}

/// Whether nobody is far behind the others.
fn get_on<const N: usize>(tasks: [&Task; N]) -> Result<()> {
    let found = shares_of(tasks, WINDOW_MS)?;
    let least = LEAST_PART * found.iter().sum::<f64>() / f64::from(u32::try_from(N)?);
    ensure!(least > 0.0, "nobody ran");
    ensure!(found.iter().all(|share| *share >= least), "shares are {found:.1?} %; at least {least:.1} % are wanted");
    Ok(())
}

/// Switches a CPU on or off.
pub fn set_online(cpu: u32, on: bool) -> Result<()> {
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    let number = u8::from(on);
    fs::write(&file, number.to_string()).with_context(|| format!("write {number} to {file}"))
}

fn comes_back(tasks: &[Task]) -> Result<()> {
    let deadline = Deadline::after_s(BACK_LIMIT_S);
    while !deadline.has_passed() {
        for task in tasks {
            if task.standing()?.cpu == 1 {
                return Ok(());
            }
        }
        clock::sleep_ms(LOOK_EACH_MS);
    }
    bail!("nobody ran on CPU 1 within {BACK_LIMIT_S} s")
}

/// How much a CPU is at work for users, per cent of the time that it has counted: none while the host keeps it waiting.
fn busy_pct(cpu: u32) -> Result<f64> {
    let before = ticks(cpu)?;
    clock::sleep_ms(WINDOW_MS);
    let (busy, all) = ticks(cpu)?;
    Ok(100.0 * (busy - before.0) / (all - before.1).max(1.0))
}

/// Ticks at work for users, and all of a CPU.
fn ticks(cpu: u32) -> Result<(f64, f64)> {
    let text = fs::read_to_string("/proc/stat").context("read /proc/stat")?;
    let name = format!("cpu{cpu}");
    let line = text.lines().find(|line| line.split(' ').next() == Some(&name));
    let line = line.with_context(|| format!("/proc/stat has no {name}"))?;
    let ticks: Option<Vec<f64>> = line.split(' ').skip(1).map(|word| word.parse().ok()).collect();
    let ticks = ticks.with_context(|| format!("/proc/stat says \"{line}\""))?;
    // The first two are user and nice.
    Ok((ticks.iter().take(2).sum(), ticks.iter().sum()))
}
