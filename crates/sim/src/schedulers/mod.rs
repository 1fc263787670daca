//! The schedulers, a file each, behind one trait.

pub mod appease;
pub mod cas;
pub mod cfs;
pub mod eevdf;
pub mod locks;
pub mod mlfq;
mod others;
mod percpu;
pub mod rbpe;
pub mod round_robin;
pub mod steady;

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use self::locks::Locks;
use crate::{CpuId, Machine, Message, SECOND, Scenario, TaskId, Topology, VisitId, unhappiness::RequestId};

/// Why a task is queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It was just made.
    New,
    /// It slept.
    Woken(Waker),
    /// It used up its slice. The CPU looks for its next task at once, so the answer of `enqueue()` does not matter.
    TurnOver,
    /// Another task takes its CPU.
    Displaced,
}

/// Who woke a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waker {
    /// A clock.
    Timer,
    /// A customer's request.
    Customer,
    /// A message that this task wrote.
    Task(TaskId),
}

/// That a CPU shall look for a task, if it is idle then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Which.
    pub cpu: CpuId,
    /// In how many ns.
    pub in_ns: u64,
}

/// Decides who runs. What it may know is in the [`Machine`]; what it keeps of tasks and CPUs is its own.
///
/// A task that is running is in none of its queues. Everything between [`Scheduler::enqueue`] and [`Scheduler::pick`] is the
/// scheduler's. It must not leave a task in a queue that an idle CPU would not look into, unless it calls one.
pub trait Scheduler {
    /// A task is there, asleep. Also: its process has ended, and another one takes its place.
    fn add(&mut self, machine: &Machine, task: TaskId);

    /// A task can run: queues it. The CPU that shall look for its next task now: an idle one, or one whose running task shall
    /// give way.
    fn enqueue(&mut self, machine: &Machine, task: TaskId, why: Why) -> Option<CpuId>;

    /// The next task of a CPU, off its queue. `None` only if no task waits that may come to this CPU. The task that ended its turn there
    /// may have gone to another CPU, which the scheduler then calls.
    fn pick(&mut self, machine: &Machine, cpu: CpuId) -> Option<TaskId>;

    /// The turn of a task that was picked, and has read what there was for it, ns; above 0.
    fn slice_ns(&mut self, machine: &Machine, cpu: CpuId, task: TaskId) -> u64;

    /// A task ran for so long since it began, or since the last time this was said.
    fn charge(&mut self, machine: &Machine, cpu: CpuId, task: TaskId, ran_ns: u64);

    /// A running task went to sleep; it was charged.
    fn slept(&mut self, machine: &Machine, cpu: CpuId, task: TaskId);

    /// A running task reads a message. A call is known by the visit of who is called, an answer by that of who asked.
    fn read(&mut self, _machine: &Machine, _task: TaskId, _visit: VisitId, _message: Message) {}

    /// A running task writes a message, known as above.
    fn wrote(&mut self, _machine: &Machine, _task: TaskId, _visit: VisitId) {}

    /// A running task writes back to the customer of the request that it serves, and is done with it afterwards.
    fn responded(&mut self, _machine: &Machine, _task: TaskId) {}

    /// The unhappiness over a request that is open changed otherwise than by time.
    fn changed(&mut self, _machine: &Machine, _request: RequestId) {}

    /// How often it wants to look at things, ns.
    fn looks_each_ns(&self) -> Option<u64> {
        None
    }

    /// It looks at things.
    fn look(&mut self, _machine: &Machine) {}

    /// Idle CPUs that it calls beside those that [`Scheduler::enqueue`] names, for one that does; they are taken off.
    fn calls(&mut self) -> Option<&mut Vec<Call>> {
        None
    }

    /// The locks of its queues, for one that tells of them.
    fn locks(&mut self) -> Option<&mut Locks> {
        None
    }
}

/// The schedulers by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SchedulerName {
    /// [`round_robin`].
    RoundRobin,
    /// [`mlfq`].
    Mlfq,
    /// [`cfs`].
    Cfs,
    /// [`eevdf`].
    Eevdf,
    /// [`rbpe`].
    Rbpe,
    /// [`cas`].
    Cas,
    /// [`appease`].
    Appease,
    /// [`steady`].
    Steady,
}

/// A scheduler that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("scheduler \"{0}\" is not known: write one of {list}", list = SchedulerName::list())]
pub struct UnknownScheduler(String);

impl SchedulerName {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::RoundRobin, Self::Mlfq, Self::Cfs, Self::Eevdf, Self::Rbpe, Self::Cas, Self::Appease, Self::Steady];

    /// As people write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RoundRobin => "rr",
            Self::Mlfq => "mlfq",
            Self::Cfs => "cfs",
            Self::Eevdf => "eevdf",
            Self::Rbpe => "rbpe",
            Self::Cas => "cas",
            Self::Appease => "appease",
            Self::Steady => "steady",
        }
    }

    /// All names, for messages.
    #[must_use]
    pub fn list() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }

    /// The scheduler, for so many CPUs and tasks.
    #[must_use]
    pub fn build(self, scenario: &Scenario, cpus: u32, tasks: usize) -> Box<dyn Scheduler> {
        let quantum_ns = (scenario.quantum_ms.get_ref() * crate::MS as f64) as u64;
        match self {
            Self::RoundRobin => Box::new(round_robin::RoundRobin::new(quantum_ns)),
            Self::Mlfq => Box::new(mlfq::Mlfq::new(quantum_ns, mlfq::QUEUES, cpus, tasks)),
            Self::Cfs => Box::new(cfs::Cfs::new(cfs::Tunables::of(cpus), cpus, tasks)),
            Self::Eevdf => Box::new(eevdf::Eevdf::new(eevdf::base_slice_ns(cpus), cpus, tasks)),
            Self::Rbpe => {
                let load = rbpe::avenrun(*scenario.load.get_ref());
                Box::new(rbpe::Rbpe::new(rbpe::table(), load, cfs::Tunables::of(cpus), cpus, tasks))
            }
            Self::Cas => Box::new(cas::Cas::new(cpus, tasks)),
            Self::Appease => {
                let topology = Topology::of_scenario(scenario);
                let mut appease = appease::Appease::on(topology, tasks, scenario.locks);
                if scenario.cgroup {
                    appease = appease.in_cgroup();
                }
                for (tasks, cpu_weight) in scenario.cgroups() {
                    appease = appease.with_cgroup(tasks, cpu_weight);
                }
                Box::new(appease)
            }
            Self::Steady => Box::new(steady::Steady::new(tasks)),
        }
    }
}

impl fmt::Display for SchedulerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for SchedulerName {
    type Err = UnknownScheduler;

    fn from_str(text: &str) -> Result<Self, UnknownScheduler> {
        Self::ALL.into_iter().find(|name| name.as_str() == text).ok_or_else(|| UnknownScheduler(text.to_owned()))
    }
}

impl TryFrom<String> for SchedulerName {
    type Error = UnknownScheduler;

    fn try_from(text: String) -> Result<Self, UnknownScheduler> {
        text.parse()
    }
}

impl From<SchedulerName> for String {
    fn from(name: SchedulerName) -> Self {
        name.as_str().to_owned()
    }
}

/// The kernel's factor of slices: one more for each doubling of the CPUs, of which it counts eight.
fn tuning_factor(cpus: u32) -> u64 {
    1 + u64::from(cpus.clamp(1, 8).ilog2())
}

/// Virtual time of `ns` at a weight of which 1024 is nice 0's.
fn weighted(ns: u64, weight: u32) -> i64 {
    debug_assert!(ns < 1_000_000 * SECOND);
    (ns * u64::from(crate::Nice::WEIGHT_0) / u64::from(weight)) as i64
}
