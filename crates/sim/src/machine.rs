//! The simulated machine, as schedulers see it.

use std::{collections::VecDeque, ops::Range};

use appease_policy::placement_near;
use rand_pcg::Pcg32;
use slab::Slab;

use crate::{
    Nice, Socket, Weight,
    distribution::Sampler,
    events::EventId,
    set::IdSet,
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

/// Which CPUs share a last-level cache: as many each, side by side, and fewer in the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caches {
    cpus: u32,
    each: u32,
}

impl Caches {
    /// So many CPUs in so many caches, of which those are left out that would have none.
    #[must_use]
    pub fn new(cpus: u32, caches: u32) -> Self {
        Self { cpus, each: cpus.div_ceil(caches.max(1)).max(1) }
    }

    /// How many there are.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.cpus.div_ceil(self.each)
    }

    /// How many CPUs there are.
    #[must_use]
    pub fn nr_cpus(&self) -> u32 {
        self.cpus
    }

    /// That of a CPU.
    #[must_use]
    pub fn of(&self, cpu: CpuId) -> u32 {
        // A division takes as long as the rest of a look.
        if self.each >= self.cpus { 0 } else { cpu / self.each }
    }

    /// The CPUs of a cache; of one that is not there, none.
    #[must_use]
    pub fn cpus_of(&self, cache: u32) -> Range<CpuId> {
        (cache * self.each).min(self.cpus)..((cache + 1) * self.each).min(self.cpus)
    }
}

/// The idle CPUs, by cache.
#[derive(Debug)]
pub(crate) struct Idle {
    caches: Caches,
    sets: Vec<IdSet>,
    /// Caches with idle CPUs, by bits.
    some: u64,
}

impl Idle {
    /// All are.
    pub(crate) fn all(caches: Caches) -> Self {
        let sets: Vec<IdSet> =
            (0..caches.number()).map(|cache| IdSet::new(caches.cpus_of(cache).len() as u32, true)).collect();
        Self { caches, some: u64::MAX >> (64 - sets.len()), sets }
    }

    /// The set that a CPU is in, and its number there.
    fn place(&self, cpu: CpuId) -> (u32, u32) {
        let cache = self.caches.of(cpu);
        (cache, cpu - self.caches.cpus_of(cache).start)
    }

    pub(crate) fn insert(&mut self, cpu: CpuId) {
        let (cache, id) = self.place(cpu);
        self.sets[cache as usize].insert(id);
        self.some |= 1 << cache;
    }

    pub(crate) fn remove(&mut self, cpu: CpuId) {
        if self.some == 0 {
            return;
        }
        let (cache, id) = self.place(cpu);
        self.sets[cache as usize].remove(id);
        if self.sets[cache as usize].any().is_none() {
            self.some &= !(1 << cache);
        }
    }

    /// `cpu`, if it is idle; else one near it.
    fn near(&self, cpu: CpuId) -> Option<CpuId> {
        if self.some == 0 {
            return None;
        }
        let (home, id) = self.place(cpu);
        if self.sets[home as usize].contains(id) {
            return Some(cpu);
        }
        let most = (self.sets.len() as u32).next_power_of_two();
        let cache = (0..most).map(|nth| placement_near(home, nth)).find(|&cache| self.some >> cache & 1 == 1)?;
        Some(self.caches.cpus_of(cache).start + self.sets[cache as usize].any()?)
    }
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

    /// An idle CPU, the one where the task was last if that is idle; else one that shares its cache, or is near.
    #[must_use]
    pub fn idle_cpu(&self, task: TaskId) -> Option<CpuId> {
        self.idle.near(self.tasks[task as usize].cpu)
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
