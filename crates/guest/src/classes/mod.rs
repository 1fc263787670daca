//! Checks of what the kernel promises about scheduling, and a scheduler of ours must keep: nice values, policies,
//! realtime classes, affinity, CPUs that go and come, and the kernel's own scheduler when ours has gone.
//!
//! The checking process is realtime itself: it looks on time, whatever runs.

mod boot;
pub mod cpus;
mod fair;
pub mod leaving;
mod nice;
mod power;
mod realtime;
mod requests;
mod speed;
pub mod task;
mod turns;
mod weights;

use std::{
    fs::File,
    io::Read,
    process::{Child, Command},
    time::Duration,
};

use anyhow::{Context, Result, anyhow};
pub use requests::{ask as ask_requests, serve as serve_requests};
use rustix::time::{ClockId, clock_gettime};
use task::Task;
pub use turns::work;

use crate::{
    check::{Verdicts, figure},
    clock,
    session::set_realtime,
    system::take_name,
};

/// Realtime priority of the checking process.
const PRIORITY: u32 = 15;

/// `check-classes`: shares by nice value, policy and cgroup, and realtime classes. Meant for one CPU.
pub fn check() -> Result<()> {
    carry_out(|verdicts| {
        fair::check(verdicts)?;
        weights::check(verdicts)?;
        realtime::check(verdicts)
    })
}

/// `check-cpus`: affinity, and a CPU that goes and comes. Needs two CPUs.
pub fn check_cpus() -> Result<()> {
    carry_out(cpus::check)
}

/// `check-late`: CPUs that come after our scheduler, and leave it for a while. Starts it itself; needs four CPUs, of which two are off.
pub fn check_late() -> Result<()> {
    carry_out(boot::late)
}

/// `check-gaps`: CPUs whose numbers have gaps, one alone in its cache, some without a tick. Starts our scheduler itself; needs eight
/// CPUs of two caches, some of which it switches off.
pub fn check_gaps() -> Result<()> {
    carry_out(boot::gaps)
}

/// `check-isolated`: a machine with isolated CPUs, for which the kernel takes no scheduler of ours. Starts it itself.
pub fn check_isolated() -> Result<()> {
    carry_out(boot::isolated)
}

/// `check-reserve`: what a realtime program starts while it stands back for others. Needs two CPUs.
pub fn check_reserve() -> Result<()> {
    carry_out(|verdicts| {
        realtime::children_are_usual(verdicts);
        Ok(())
    })
}

/// `check-clock`: what clock CPUs are asked for, the saving of power, and fast CPUs beside slow ones. Starts our scheduler itself; needs four CPUs.
pub fn check_clock() -> Result<()> {
    carry_out(power::check)
}

/// `check-turns`: that the machine's CPUs have equal parts of it.
pub fn check_turns() -> Result<()> {
    carry_out(turns::check)
}

/// `check-leaving`: what our scheduler leaves behind when it ends, or is killed. Starts it itself.
pub fn check_leaving() -> Result<()> {
    carry_out(leaving::check)
}

/// `check-nice`: whose nice values the backend of that name changes, and that all are given back. Starts it itself.
pub fn check_nice() -> Result<()> {
    carry_out(|verdicts| {
        nice::check(verdicts)?;
        requests::check(verdicts)
    })
}

/// `bear NODE [LIFE_S]`: reads events of an input device; each has it start a child that sleeps, for ever or so long.
pub fn bear(node: &str, life_s: &str) -> Result<()> {
    take_name("bear")?;
    let mut device = File::open(node).with_context(|| format!("open {node}"))?;
    let mut children: Vec<Child> = Vec::new();
    let mut events = [0; 24 * 64];
    while device.read(&mut events).with_context(|| format!("read {node}"))? > 0 {
        children.push(Command::new("sleep").arg(life_s).spawn().context("start sleep")?);
        children.retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
    }
    Ok(())
}

/// `nap BUSY_MS SLEEP_MS`: burns CPU time and sleeps, by turns, for ever.
pub fn nap(busy_ms: &str, sleep_ms: &str) -> Result<()> {
    take_name("nap")?;
    let (busy_ms, sleep) = (busy_ms.parse()?, Duration::from_millis(sleep_ms.parse()?));
    loop {
        burn(busy_ms)?;
        std::thread::sleep(sleep);
    }
}

/// Takes so much CPU time, ms.
fn burn(ms: u64) -> Result<()> {
    let ran = || Duration::try_from(clock_gettime(ClockId::ProcessCPUTime));
    let end = ran()? + Duration::from_millis(ms);
    while ran()? < end {}
    Ok(())
}

/// Tells a figure, and whether it is within limits.
pub fn within(verdicts: &mut Verdicts, name: &str, found: f64, least: f64, most: f64) {
    figure(name, found);
    let holds = (least..=most).contains(&found);
    let told = || anyhow!("{found:.3}; allowed is {least:.3} to {most:.3}");
    verdicts.tell(name, holds.then_some(()).ok_or_else(told));
}

/// Makes checks as a realtime process, which looks on time.
pub fn carry_out(checks: impl FnOnce(&mut Verdicts) -> Result<()>) -> Result<()> {
    set_realtime(rustix::process::getpid().as_raw_nonzero().get(), PRIORITY)?;
    let mut verdicts = Verdicts::default();
    // What keeps the rest from being checked is a failed check, too.
    if let Err(error) = checks(&mut verdicts) {
        verdicts.tell("checks are made", Err(error));
    }
    verdicts.end()
}

/// CPU time that each had in the next `ms` milliseconds, per cent of a CPU.
fn shares<'a>(tasks: impl IntoIterator<Item = &'a Task> + Clone, ms: u64) -> Result<Vec<f64>> {
    let ran = || tasks.clone().into_iter().map(Task::ran_ns).collect::<Result<Vec<_>>>();
    let (begin_ns, before) = (clock::now_ns(), ran()?);
    clock::sleep_until(begin_ns + ms * clock::MS);
    let (after, length_ns) = (ran()?, clock::now_ns() - begin_ns);
    let share = |(after, before)| 100.0 * clock::to_ms(after - before) / clock::to_ms(length_ns);
    Ok(after.into_iter().zip(before).map(share).collect())
}

/// The same of so many tasks.
fn shares_of<const N: usize>(tasks: [&Task; N], ms: u64) -> Result<[f64; N]> {
    let found = shares(tasks, ms)?;
    Ok(std::array::from_fn(|i| found[i]))
}
