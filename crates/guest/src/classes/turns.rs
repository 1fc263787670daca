//! That the CPUs of an exact machine have equal parts of it, also where a CPU sets its timer again and again: the laboratory's own
//! promise, without which figures of several CPUs mean nothing.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use super::{Task, Verdicts, within};
use crate::{clock, hog, system::TOOLS};

/// Pieces of work, and how much each is: 0.3 milliseconds of a CPU alone, 60 in all. So a scheduler sets timers that ends turns in time.
const PIECES: u64 = 200;
const STEPS_OF_A_PIECE: u64 = 1000;
/// A timer that is set before each piece is due when that is done, and so never; but mostly before the next tick, so that the CPU's own
/// timer is set anew.
const TIMER_NS: i64 = 2_000_000;
/// Two figures of the same work differ by no more: ticks take some of each CPU.
const APART: f64 = 0.03;

/// The same work alone, and while all other CPUs compute; without timers, and with.
pub(super) fn check(verdicts: &mut Verdicts) -> Result<()> {
    let cpus = std::thread::available_parallelism()?.get();
    let all = f64::from(u32::try_from(cpus)?);
    for how in ["plainly", "with-timers"] {
        let alone = work_on_the_first(how)?;
        let hogs = (1..cpus).map(|cpu| Task::hog(&format!("taskset -c {cpu}"))).collect::<Result<Vec<_>>>()?;
        let beside = work_on_the_first(how)?;
        drop(hogs);
        let name = format!("time_{}_to_alone", how.replace('-', "_"));
        within(verdicts, &name, beside / alone, all * (1.0 - APART), all * (1.0 + APART));
    }
    Ok(())
}

/// How long the work takes that has the first CPU for itself, ms.
fn work_on_the_first(how: &str) -> Result<f64> {
    let program = format!("{TOOLS}/appease-guest");
    let done = Command::new("taskset").args(["-c", "0", &program, "work", how]).output().context("start taskset")?;
    ensure!(done.status.success(), "the work ended: {}", done.status);
    let told = String::from_utf8_lossy(&done.stdout);
    told.trim().parse().with_context(|| format!("the work said \"{told}\""))
}

/// `work plainly|with-timers`: does a fixed piece of work, and says how long it took, ms.
pub fn work(how: &str) -> Result<()> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::empty()).context("make a timer")?;
    let once = Itimerspec {
        it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
        it_value: Timespec { tv_sec: 0, tv_nsec: TIMER_NS },
    };
    let began_ns = clock::now_ns();
    for _ in 0..PIECES {
        if how == "with-timers" {
            timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once).context("set a timer")?;
        }
        hog::compute(STEPS_OF_A_PIECE);
    }
    println!("{}", clock::to_ms(clock::now_ns() - began_ns));
    Ok(())
}
