//! The simulated machine, as schedulers see it.

use std::collections::VecDeque;

use rand_pcg::Pcg32;
use slab::Slab;

use crate::{
    Nice, Socket, Weight,
    distribution::Sampler,
    events::EventId,
    topology::{Idle, Topology},
    unhappiness::{Ledger, RequestId, ShareId},
};

/// Index of a task.
pub type TaskId = u32;
/// Index of a CPU.
pub type CpuId = u32;
/// Index of a group of tasks.
pub type GroupId = u32;
/// Names that a process serves a request.
pub type VisitId = u32;

/// No task, visit and so on.
pub const NONE: u32 = u32::MAX;

/// What a task is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Asleep,
    Queued,
    Running,
}

/// A task; each is a process of its own. It is one line of the processor's caches, and not parts of two.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub struct Task {
    /// Its group.
    pub group: GroupId,
    /// Where it ran last, or was put.
    pub cpu: CpuId,
    /// Its own nice value.
    pub nice: Nice,
    pub(crate) state: State,
    /// It was not queued since it was made.
    pub(crate) is_new: bool,
    /// There is a message for it that it reads when it runs.
    pub(crate) unread: bool,
    pub(crate) visit: VisitId,
    /// CPU time to the next thing that it does.
    pub(crate) remaining_ns: u64,
    pub(crate) woken_ns: u64,
    pub(crate) ran_ns: u64,
    pub(crate) rng: Pcg32,
}

/// A CPU.
#[derive(Debug, Clone)]
pub(crate) struct Cpu {
    pub(crate) running: TaskId,
    /// How fast it works now, of [`crate::topology::FULL_CAPACITY`].
    pub(crate) pace: u32,
    /// When the running task was looked at last.
    pub(crate) since_ns: u64,
    pub(crate) slice_end_ns: u64,
    /// The event that ends its turn: those of earlier turns are still to come.
    pub(crate) stop: EventId,
}

/// That a process serves a request, directly or for another process.
#[derive(Debug, Clone)]
pub(crate) struct Visit {
    pub(crate) request: RequestId,
    pub(crate) share: ShareId,
    /// For whom: a visit that waits.
    pub(crate) parent: VisitId,
    pub(crate) task: TaskId,
    /// Which of its calls is next.
    pub(crate) stage: u32,
    pub(crate) message: Message,
    /// The same work under every scheduler, whoever does it.
    pub(crate) rng: Pcg32,
}

/// Something that a task reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// From whom.
    pub kind: MessageKind,
    /// How it came.
    pub socket: Socket,
    /// It came through a terminal.
    pub terminal: bool,
}

/// From whom a message comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    /// From a customer: a direct request.
    Request,
    /// From a process that waits for the answer: an indirect request.
    Call,
    /// An answer to a call.
    Reply,
}

/// What a group's tasks do.
#[derive(Debug)]
pub(crate) enum Kind {
    Hog,
    OnOff {
        work: Sampler,
        pause: Sampler,
        new_process: bool,
    },
    /// `shared`: any of the group takes the next request; else each has a customer of its own.
    Server {
        work: Sampler,
        calls: Vec<Calls>,
        shared: bool,
    },
}

#[derive(Debug)]
pub(crate) struct Calls {
    pub(crate) to: Vec<GroupId>,
    pub(crate) then: Sampler,
}

#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) first: TaskId,
    pub(crate) number: u32,
    pub(crate) kind: Kind,
    pub(crate) start_ns: u64,
    pub(crate) socket: Socket,
    pub(crate) terminal: bool,
    /// Servers without a request, and requests without a server; one of the two is empty.
    pub(crate) free: VecDeque<TaskId>,
    pub(crate) backlog: VecDeque<VisitId>,
}

/// Whom a customer's requests go to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    Group(GroupId),
    Task(TaskId),
}

/// When a customer sends the next request.
#[derive(Debug, Clone)]
pub(crate) enum Pace {
    Closed(Sampler),
    Open(Sampler),
    /// The times left, latest first.
    At(Vec<u64>),
}

#[derive(Debug)]
pub(crate) struct Customer {
    /// Which figures its requests count in.
    pub(crate) figures: u32,
    pub(crate) target: Target,
    pub(crate) request_weight: Weight,
    pub(crate) socket: Socket,
    pub(crate) rng: Pcg32,
}

/// All that a scheduler may look at, and more than a real one can see: only [`crate::schedulers::cas`] looks at the ledger.
#[derive(Debug)]
pub struct Machine {
    pub(crate) now_ns: u64,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) idle: Idle,
    pub(crate) tasks: Vec<Task>,
    pub(crate) visits: Slab<Visit>,
    pub(crate) ledger: Ledger,
    /// Tasks that run or wait for a CPU.
    pub(crate) active: u32,
}

impl Machine {
    /// Time since the simulation began, ns.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// How many CPUs there are.
    #[must_use]
    pub fn nr_cpus(&self) -> u32 {
        self.cpus.len() as u32
    }

    /// How many tasks there are, asleep or not.
    #[must_use]
    pub fn nr_tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Tasks that run or wait for a CPU.
    #[must_use]
    pub fn active(&self) -> u32 {
        self.active
    }

    /// A task.
    #[must_use]
    pub fn task(&self, task: TaskId) -> &Task {
        &self.tasks[task as usize]
    }

    /// What runs on a CPU; `None` when it is idle.
    #[must_use]
    pub fn running(&self, cpu: CpuId) -> Option<TaskId> {
        let running = self.cpus[cpu as usize].running;
        (running != NONE).then_some(running)
    }

    /// What the task that runs on a CPU has run since it was charged last, ns.
    #[must_use]
    pub fn unseen_ns(&self, cpu: CpuId) -> u64 {
        // It may not have begun: its CPU waits for a lock.
        self.now_ns.saturating_sub(self.cpus[cpu as usize].since_ns)
    }

    /// Whether a CPU is still in the scheduler, where it waits for a lock.
    #[must_use]
    pub fn is_deciding(&self, cpu: CpuId) -> bool {
        self.cpus[cpu as usize].since_ns > self.now_ns
    }

    /// Which CPUs share a cache or a core, and how fast they are.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        self.idle.topology()
    }

    /// An idle CPU; one with an idle core, if there is one, and of those the one where the task was last if that is idle; else one
    /// that shares its cache, or is near.
    #[must_use]
    pub fn idle_cpu(&self, task: TaskId) -> Option<CpuId> {
        self.idle.near(self.tasks[task as usize].cpu)
    }

    /// The same of the domain where the task was last.
    #[must_use]
    pub fn idle_cpu_beside(&self, task: TaskId) -> Option<CpuId> {
        self.idle.beside(self.tasks[task as usize].cpu)
    }

    /// An idle CPU of a domain; one with an idle core, if there is one.
    #[must_use]
    pub fn idle_cpu_of(&self, domain: u32) -> Option<CpuId> {
        self.idle.of_domain(domain)
    }

    /// The same of the fast ones near a task, or of the slow.
    #[must_use]
    pub fn idle_cpu_of_speed(&self, task: TaskId, is_fast: bool) -> Option<CpuId> {
        self.idle.of_speed(self.tasks[task as usize].cpu, is_fast)
    }

    /// A CPU of a core that is idle as a whole; of the domain where the task was last, or near that.
    #[must_use]
    pub fn idle_core(&self, task: TaskId) -> Option<CpuId> {
        self.idle.core_near(self.tasks[task as usize].cpu)
    }

    /// The account of unhappiness.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The request that a task serves, and its share of the unhappiness.
    #[must_use]
    pub fn serves(&self, task: TaskId) -> Option<(RequestId, ShareId)> {
        let visit = self.visits.get(self.tasks[task as usize].visit as usize)?;
        Some((visit.request, visit.share))
    }

    /// The message by which a visit goes on.
    #[must_use]
    pub fn message(&self, visit: VisitId) -> Message {
        self.visits[visit as usize].message
    }

    /// What came to a task last; `None` if it is done with it.
    #[must_use]
    pub fn message_for(&self, task: TaskId) -> Option<Message> {
        Some(self.visits.get(self.tasks[task as usize].visit as usize)?.message)
    }
}
