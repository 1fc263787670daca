//! Machines some of whose CPUs are off, isolated or without a tick: what the kernel's parameters of the scenario ask for.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;

use super::{Verdicts, cpus, shares, task::Task};
use crate::{
    clock::{self, Deadline},
    scheduler::{self, Scheduler},
    scope::{self, ROOT},
    sense::answer,
    system::TOOLS,
};

/// CPUs that are off when the machine has booted.
const LATE: [u32; 2] = [2, 3];
/// CPUs that are off before the daemon starts. The numbers have gaps then, and the last CPU has a cache for itself.
const GAPS: [u32; 4] = [1, 4, 5, 6];
const ALONE: &str = "7";
/// One of these comes, and one goes that has no tick.
const COMES: u32 = 5;
const GOES: u32 = 2;
/// As many hogs as find a CPU of their own, and one more.
const HOGS: usize = 5;
/// How long the daemon may need, busy seconds.
const LIMIT_S: u64 = 30;
/// Some turns of all.
const WINDOW_MS: u64 = 1000;
/// Least that each has of an even share.
const LEAST_PART: f64 = 0.5;
/// How long some have more than others, in a partition: each wait that may follow is far shorter than what they are ahead.
const AHEAD_MS: u64 = 3000;

/// CPUs come that were off when the daemon started; then two are a partition for a while.
pub(super) fn late(verdicts: &mut Verdicts) -> Result<()> {
    let ours = Scheduler::start_ours(&[])?;
    let hogs = (0..HOGS).map(|_| Task::hog("nice -n 0")).collect::<Result<Vec<_>>>()?;
    verdicts.tell("on the CPUs that are on, all get on", get_on(&hogs, 2.0));
    for cpu in LATE {
        cpus::set_online(cpu, true)?;
    }
    verdicts.tell("the scheduler is attached anew for the CPUs that came", tells(is_anew));
    clock::sleep_ms(WINDOW_MS);
    verdicts.tell("all CPUs are used", get_on(&hogs, 4.0));

    let partition = Partition::new("partition")?;
    partition.take(&hogs[0])?;
    clock::sleep_ms(AHEAD_MS);
    verdicts.tell("who has CPUs alone is at work", get_on(&hogs[..1], 1.0));
    partition.dissolve()?;
    clock::sleep_ms(WINDOW_MS / 10);
    verdicts.tell("who had CPUs alone gets on beside others", get_on(&hogs, 4.0));
    // Up to 6.18 the kernel refuses that while tasks are in it.
    match partition.set("cpuset.cpus", "\n") {
        Ok(()) => verdicts.tell("all get on when the set has no CPUs of its own", get_on(&hogs, 4.0)),
        Err(error) => verdicts.tell("all get on when the kernel leaves the set its CPUs", {
            eprintln!("{error:#}");
            get_on(&hogs, 4.0)
        }),
    }
    ours.end_by(Signal::TERM).map(drop)
}

/// CPUs whose numbers have gaps, one of them alone in its cache, and two without a tick; then one comes and another goes.
pub(super) fn gaps(verdicts: &mut Verdicts) -> Result<()> {
    for cpu in GAPS {
        cpus::set_online(cpu, false)?;
    }
    let ours = Scheduler::start_ours(&[])?;
    let mut hogs = (1..HOGS).map(|_| Task::hog("nice -n 0")).collect::<Result<Vec<_>>>()?;
    hogs.push(Task::hog(&format!("taskset -c {ALONE}"))?);
    clock::sleep_ms(WINDOW_MS);
    verdicts.tell("all CPUs are used, and whoever may use one alone gets on", get_on(&hogs, 4.0));
    cpus::set_online(COMES, true)?;
    cpus::set_online(GOES, false)?;
    verdicts.tell("the scheduler is attached anew for other gaps", tells(is_anew));
    clock::sleep_ms(WINDOW_MS);
    verdicts.tell("all CPUs are used then, too", get_on(&hogs, 4.0));
    ours.end_by(Signal::TERM).map(drop)
}

/// The kernel runs no scheduler of ours: that is said, and nice values do instead.
pub(super) fn isolated(verdicts: &mut Verdicts) -> Result<()> {
    let refused = answer::command(&["run", "--backend", "scx"]).map(drop).err().map(|error| format!("{error:#}"));
    verdicts.tell("sched_ext is refused, with the cause and the cure", says(refused.unwrap_or_default()));
    let told = answer::command(&["doctor"]).map(|text| String::from_utf8_lossy(&text).into_owned());
    verdicts.tell("the doctor says so, too", told.and_then(says));
    let daemon = format!("{TOOLS}/appease");
    let _ours = Task::program("nice -n 0", &[&daemon, "run"])?;
    verdicts.tell("it acts by nice values instead", tells(|status| status["backend"] == "nice"));
    let state = scheduler::state();
    verdicts.tell("the kernel schedules", if state == "disabled" { Ok(()) } else { bail!("state is {state}") });
    Ok(())
}

/// Attached anew, once for all CPUs or for each, and at work.
fn is_anew(status: &serde_json::Value) -> bool {
    status["restarts"].as_u64() > Some(0) && scheduler::state() == "enabled"
}

/// Whether each has its part of so many CPUs.
fn get_on(tasks: &[Task], cpus: f64) -> Result<()> {
    let found = shares(tasks, WINDOW_MS)?;
    let least = LEAST_PART * (100.0 * cpus / f64::from(u32::try_from(tasks.len())?)).min(100.0);
    ensure!(found.iter().all(|share| *share >= least), "shares are {found:.1?} %; at least {least:.1} % are wanted");
    Ok(())
}

/// Waits until the daemon tells of itself what is wanted.
fn tells(wanted: impl Fn(&serde_json::Value) -> bool) -> Result<()> {
    let deadline = Deadline::after_s(LIMIT_S);
    loop {
        match scheduler::status() {
            Ok(status) if wanted(&status) => return Ok(()),
            found if deadline.has_passed() => {
                bail!("state is {} after {LIMIT_S} s, and the daemon says {found:?}", scheduler::state())
            }
            _ => clock::sleep_ms(100),
        }
    }
}

fn says(text: String) -> Result<()> {
    let all = ["isolcpus", "cpuset.cpus.partition"].iter().all(|word| text.contains(word));
    ensure!(all, "it says {text:?}");
    Ok(())
}

/// A cgroup with CPUs of its own.
struct Partition(String);

impl Partition {
    fn new(name: &str) -> Result<Self> {
        let partition = Self(format!("{ROOT}/{name}"));
        write(&format!("{ROOT}/cgroup.subtree_control"), "+cpuset")?;
        fs::create_dir(&partition.0).with_context(|| format!("create cgroup {}", partition.0))?;
        partition.set("cpuset.cpus", &LATE.map(|cpu| cpu.to_string()).join(","))?;
        partition.set("cpuset.cpus.partition", "isolated")?;
        Ok(partition)
    }

    fn take(&self, task: &Task) -> Result<()> {
        scope::put(Path::new(&self.0), &task.pid().to_string())
    }

    /// Its CPUs are everybody's again, and its tasks may use all.
    fn dissolve(&self) -> Result<()> {
        self.set("cpuset.cpus.partition", "member")?;
        self.set("cpuset.cpus", "0-3")
    }

    fn set(&self, file: &str, text: &str) -> Result<()> {
        write(&format!("{}/{file}", self.0), text)
    }
}

fn write(file: &str, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("write {text:?} to {file}"))
}
