//! Realtime and deadline classes, which are none of our business: they go before everything, and stay what they are.

use std::path::Path;

use anyhow::{Result, ensure};

use super::{
    Verdicts, burn, shares, shares_of,
    task::{DEADLINE, FIFO, Standing, Task, end, policy_of, put_on},
    within,
};
use crate::clock::{self, Deadline};

/// Hogs that nobody waits for.
const HOGS: usize = 4;
/// Least that realtime tasks have, per cent, and least that the others do: they have a twentieth, by the kernel, or else by us.
const FIFO_LEAST_PCT: f64 = 93.0;
const OTHERS_LEAST_PCT: f64 = 3.0;
/// What the deadline task has of its period, and how far it may be off by a period at the ends of a window, per cent.
const DEADLINE_BY: &str =
    "chrt --deadline --sched-runtime 50000000 --sched-deadline 100000000 --sched-period 100000000 0";
const DEADLINE_PCT: f64 = 50.0;
const DEADLINE_OFF_PCT: f64 = 5.0;
/// Latest wake-up of a realtime task, ms: a fraction of a slice.
const LATE_MS: f64 = 0.5;
const WAKE_UPS: u64 = 50;
const WAKE_UP_EACH_MS: u64 = 7;
/// A realtime thread that works by periods, as those of sound servers do: what it computes in each, and how late it may be, ms. More than
/// half a period is a gap in what is heard.
const PERIOD_MS: u64 = 5;
const WORK_MS: u64 = 3;
const PERIODS: u64 = 400;
const PERIODIC_LATE_MS: f64 = 1.0;
/// The same where the kernel's own server goes before realtime threads, whichever they are: its turn of 10 ms, and a tick.
const SERVED_LATE_MS: f64 = 15.0;
/// There is one for each CPU, since Linux 7.0.
const SERVERS: &str = "/sys/kernel/debug/sched/ext_server";
/// Several periods in which others have their share.
const FIFO_MS: u64 = 2000;
/// A moment at which nobody stands back for the others who did just now.
const LATER_MS: u64 = 100;
const BOTH_MS: u64 = 1000;
/// A realtime program that starts children, which reset. Its arguments are their number, and how often it counts between two of them.
const PARENT: &str = "chrt --reset-on-fork --fifo 10";
const STARTS: &str =
    "i=0; while [ $i -lt $0 ]; do sleep 1000 & i=$((i+1)); j=0; while [ $j -lt $1 ]; do j=$((j+1)); done; done; wait";
const CHILDREN: usize = 600;
const STARTED_LIMIT_S: u64 = 60;
/// What others compute meanwhile on each CPU, and for how long they sleep, ms; how often the parent counts. They and the children take nearly
/// all of its turns, and a way back through all children is long.
const CROWD_MS: [u64; 2] = [1, 2];
const CROWD_COUNTS: u32 = 100;
/// The same of one on the first CPU. The parent, brought there so often and free to leave, goes on elsewhere when it stands back.
const ONE_MS: [u64; 2] = [1, 8];
const ONE_COUNTS: u32 = 300;
const TIMES: u32 = 10;
/// So long the scheduler may need to have it stand back.
const TIME_MS: u64 = 300;
/// As the kernel numbers the usual policy.
const OTHER: u32 = 0;

pub fn check(verdicts: &mut Verdicts) -> Result<()> {
    let hogs = (0..HOGS).map(|_| Task::hog("nice -n 0")).collect::<Result<Vec<_>>>()?;
    // The checking process is one of them.
    within(verdicts, "fifo_latest_wake_up_ms", latest_ms(), 0.0, LATE_MS);
    {
        let fifo = Task::hog("chrt --fifo 10")?;
        beside_hogs(verdicts, "fifo", &[&fifo], &hogs)?;
        // The one that never sleeps stands back, and never the one that does.
        let most = if Path::new(SERVERS).exists() { SERVED_LATE_MS } else { PERIODIC_LATE_MS };
        within(verdicts, "periodic_beside_fifo_latest_ms", periodic_latest_ms()?, 0.0, most);
    }
    {
        // It would keep the CPU when the one before it stands back. It ends after that one, which would not let it.
        let behind = Task::hog("chrt --fifo 10")?;
        let before = Task::hog("chrt --fifo 11")?;
        beside_hogs(verdicts, "two_fifo", &[&behind, &before], &hogs)?;
        let kept = keeps(&behind, FIFO, 10).and_then(|()| keeps(&before, FIFO, 11));
        verdicts.tell("both of SCHED_FIFO keep policy and priority", kept);
    }
    let deadline = Task::hog(DEADLINE_BY)?;
    let fifo = Task::hog("chrt --fifo 10")?;
    let [first, second] = shares_of([&deadline, &fifo], BOTH_MS)?;
    let (low, high) = (DEADLINE_PCT - DEADLINE_OFF_PCT, DEADLINE_PCT + DEADLINE_OFF_PCT);
    within(verdicts, "deadline_beside_fifo_pct", first, low, high);
    within(verdicts, "deadline_and_fifo_pct", first + second, FIFO_LEAST_PCT, 100.5);
    verdicts.tell("SCHED_FIFO keeps policy and priority", keeps(&fifo, FIFO, 10));
    verdicts.tell("SCHED_DEADLINE keeps its policy", is_still(&deadline.standing()?, DEADLINE, 0));
    Ok(())
}

/// What a program starts while it stands back for others is not behind all others for ever. Needs two CPUs.
pub fn children_are_usual(verdicts: &mut Verdicts) {
    verdicts.tell("children of a realtime program beside others begin with the usual policy", beside_a_crowd());
    verdicts.tell("children that it starts elsewhere meanwhile do, too", elsewhere());
}

fn beside_a_crowd() -> Result<()> {
    let nap = |cpu| Task::napper(&format!("taskset -c {cpu}"), CROWD_MS[0], CROWD_MS[1]);
    let _naps = [nap(0)?, nap(1)?];
    all_are_usual(&parent(CROWD_COUNTS)?)
}

fn elsewhere() -> Result<()> {
    let _nap = Task::napper("taskset -c 0", ONE_MS[0], ONE_MS[1])?;
    let parent = parent(ONE_COUNTS)?;
    for _ in 0..TIMES {
        put_on(parent.pid(), "0")?;
        put_on(parent.pid(), "0,1")?;
        clock::sleep_ms(TIME_MS);
    }
    all_are_usual(&parent)
}

fn parent(counts: u32) -> Result<Task> {
    Task::program(PARENT, &["sh", "-c", STARTS, &CHILDREN.to_string(), &counts.to_string()])
}

/// When it has started all children, and its last turn has ended.
fn all_are_usual(parent: &Task) -> Result<()> {
    let limit = Deadline::after_s(STARTED_LIMIT_S);
    while parent.children().len() < CHILDREN {
        ensure!(!limit.has_passed(), "it has {} children after {STARTED_LIMIT_S} s", parent.children().len());
        clock::sleep_ms(LATER_MS);
    }
    clock::sleep_ms(2 * LATER_MS);
    let children = parent.children();
    let policies: Vec<u32> = children.iter().filter_map(|&pid| policy_of(pid)).collect();
    children.iter().for_each(|&pid| end(pid));
    let others = policies.iter().filter(|&&policy| policy != OTHER).count();
    ensure!(others == 0, "{others} of {} have another", policies.len());
    Ok(())
}

/// Realtime tasks have nearly all, and the others what is kept for them.
fn beside_hogs(verdicts: &mut Verdicts, name: &str, realtime: &[&Task], hogs: &[Task]) -> Result<()> {
    let found = shares(realtime.iter().copied().chain(hogs), FIFO_MS)?;
    let (realtime, others) = found.split_at(realtime.len());
    within(verdicts, &format!("{name}_beside_hogs_pct"), realtime.iter().sum(), FIFO_LEAST_PCT, 100.5);
    within(verdicts, &format!("others_beside_{name}_pct"), others.iter().sum(), OTHERS_LEAST_PCT, 100.5);
    Ok(())
}

/// Whether it has them at least at one of two moments: where we hold the reserve, it stands back for others at times.
fn keeps(task: &Task, policy: u32, priority: u32) -> Result<()> {
    is_still(&task.standing()?, policy, priority).or_else(|_| {
        clock::sleep_ms(LATER_MS);
        is_still(&task.standing()?, policy, priority)
    })
}

fn is_still(standing: &Standing, policy: u32, priority: u32) -> Result<()> {
    let found = (standing.policy, standing.priority);
    ensure!(found == (policy, priority), "policy and priority are {found:?} instead of {:?}", (policy, priority));
    Ok(())
}

/// How late the work of a period was done at most, ms.
fn periodic_latest_ms() -> Result<f64> {
    let begin_ns = clock::now_ns();
    let mut latest_ms: f64 = 0.0;
    for period in 1..=PERIODS {
        let at_ns = begin_ns + period * PERIOD_MS * clock::MS;
        clock::sleep_until(at_ns);
        burn(WORK_MS)?;
        latest_ms = latest_ms.max(clock::to_ms(clock::now_ns() - at_ns) - WORK_MS as f64);
    }
    Ok(latest_ms)
}

fn latest_ms() -> f64 {
    let begin_ns = clock::now_ns();
    let late = |wake_up| {
        let at_ns = begin_ns + wake_up * WAKE_UP_EACH_MS * clock::MS;
        clock::sleep_until(at_ns);
        clock::to_ms(clock::now_ns() - at_ns)
    };
    (1..=WAKE_UPS).map(late).fold(0.0, f64::max)
}
