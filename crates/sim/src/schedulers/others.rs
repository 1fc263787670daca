//! The other lane of our policies (`bpf/others.bpf.h`): weighted fair queueing by deadlines, computed by
//! `bpf/policy/progress.h` through `appease-policy`. A queue for each domain; the clock is the machine's.

use appease_policy::{
    PLACEMENT_DUE_NS, PLACEMENT_LAG_NS, placement_ahead, placement_goes_before, placement_other, progress_burst,
    progress_catch_up, progress_charge, progress_clock, progress_deadline, progress_keeps_ns, progress_start,
};

use crate::{
    CpuId, MS, Machine, TaskId,
    heap::{Heap, Positions},
    schedulers::Waker,
};

/// A turn's length, which stands beside the programs' maps and not in the headers.
pub(super) const SLICE_NS: u64 = 3 * MS;

#[derive(Debug, Clone, Copy)]
struct Entity {
    vtime: u64,
    /// CPU time since it last woke up.
    turn_ns: u64,
    /// What it wants of that, on the average.
    burst_ns: u64,
    /// CPU time since it was picked last.
    ran_ns: u64,
    /// By its nice value, when it was charged last.
    weight: u32,
}

#[derive(Debug)]
pub(super) struct Others {
    entities: Vec<Entity>,
    queues: Vec<Heap<u64>>,
    vtime: u64,
    /// Which other domain is looked at next: here by turns, and not by chance.
    looks: u32,
}

/// When somebody last took a CPU from another, by CPU, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Displaced(Vec<Option<u64>>);

/// One that wakes up, and one that runs, taken to be in this lane.
pub(super) struct Rivals {
    pub(super) wakee_vtime: u64,
    pub(super) wakee_deadline: u64,
    pub(super) running_vtime: u64,
    pub(super) running_deadline: u64,
    /// In a row.
    pub(super) ran_ns: u64,
}

impl Displaced {
    /// Whether one takes a CPU from the other. Unlike in the scheduler, one that is refused ends no turn early.
    pub(super) fn takes(&mut self, machine: &Machine, waker: Waker, cpu: CpuId, rivals: &Rivals) -> bool {
        let displaced_ns = self.0.get(cpu as usize).copied().flatten();
        let since_ns = displaced_ns.map_or(u64::MAX, |at_ns| machine.now_ns() - at_ns);
        let keeps_ns = progress_keeps_ns(
            rivals.wakee_vtime,
            rivals.wakee_deadline,
            rivals.running_vtime,
            rivals.running_deadline,
            rivals.ran_ns,
            since_ns,
            waker == Waker::Timer,
        );
        if keeps_ns == 0 {
            if self.0.len() <= cpu as usize {
                self.0.resize(machine.nr_cpus() as usize, None);
            }
            self.0[cpu as usize] = Some(machine.now_ns());
        }
        keeps_ns == 0
    }
}

impl Others {
    pub(super) fn new(tasks: usize, domains: u32) -> Self {
        let entity = Entity { vtime: 0, turn_ns: 0, burst_ns: SLICE_NS, ran_ns: 0, weight: crate::Nice::WEIGHT_0 };
        let queues = vec![Heap::default(); domains as usize];
        Self { entities: vec![entity; tasks], queues, vtime: 0, looks: 0 }
    }

    fn of(&mut self, task: TaskId) -> &mut Entity {
        &mut self.entities[task as usize]
    }

    /// A task is there, anew.
    pub(super) fn add(&mut self, task: TaskId) {
        let clock = self.vtime;
        let entity = self.of(task);
        entity.vtime = progress_start(entity.vtime, clock, SLICE_NS);
    }

    /// A task wakes up.
    pub(super) fn wakes(&mut self, task: TaskId) {
        let entity = self.of(task);
        entity.burst_ns = progress_burst(entity.burst_ns, entity.turn_ns);
        entity.turn_ns = 0;
    }

    /// A task has been picked.
    pub(super) fn begins(&mut self, task: TaskId) {
        self.of(task).ran_ns = 0;
    }

    /// A task has run; of what it ran attended, nothing is held against it here.
    pub(super) fn charge(&mut self, task: TaskId, ran_ns: u64, weight: u32, attended: bool) {
        let clock = self.vtime;
        let entity = self.of(task);
        entity.turn_ns += ran_ns;
        entity.ran_ns += ran_ns;
        entity.weight = weight;
        if !attended {
            let queued = entity.vtime;
            entity.vtime += progress_charge(ran_ns, weight);
            // With several domains it follows by itself only when nobody waits.
            if self.queues.len() == 1 || self.queues.iter().all(|queue| queue.len() == 0) {
                self.vtime = progress_clock(clock, queued, ran_ns);
            }
        }
    }

    /// When a task should have what it is likely to want now, in virtual time.
    pub(super) fn deadline(&self, task: TaskId) -> u64 {
        let entity = &self.entities[task as usize];
        progress_deadline(entity.vtime, entity.burst_ns, SLICE_NS)
    }

    /// A task is about to be queued in a domain, or to run there.
    pub(super) fn arrives(&mut self, domain: u32, task: TaskId, wakes_up: bool) {
        let (clock, number) = (self.vtime, self.queues.len());
        let there = self.first(domain).map_or(clock, |first| clock.max(self.entities[first as usize].vtime));
        let entity = self.of(task);
        let most_ns = progress_charge(PLACEMENT_LAG_NS.into(), entity.weight);
        if number > 1 {
            entity.vtime = placement_ahead(entity.vtime, there, most_ns);
        }
        let lag_ns = if number > 1 && !wakes_up { most_ns } else { SLICE_NS };
        entity.vtime = progress_catch_up(entity.vtime, clock, lag_ns);
    }

    /// Queues a task that has arrived.
    pub(super) fn push(&mut self, at: &mut Positions, domain: u32, task: TaskId) {
        let deadline = self.deadline(task);
        self.queues[domain as usize].push(at, task, deadline);
    }

    pub(super) fn pop(&mut self, at: &mut Positions, domain: u32) -> Option<TaskId> {
        let (_, task) = self.queues[domain as usize].pop(at)?;
        self.comes_to(domain, task);
        Some(task)
    }

    /// A task of a domain is chosen: the clock follows.
    pub(super) fn comes_to(&mut self, domain: u32, task: TaskId) {
        let vtime = |task: TaskId| self.entities[task as usize].vtime;
        let other = self.other_of(domain).and_then(|there| self.first(there)).map_or(u64::MAX, vtime);
        self.vtime = self.vtime.max(vtime(task).min(other));
    }

    /// The first that waits in a domain.
    pub(super) fn first(&self, domain: u32) -> Option<TaskId> {
        self.queues[domain as usize].peek().map(|(_, task)| task)
    }

    /// The other domain at which one looks now, if there is another.
    fn other_of(&self, here: u32) -> Option<u32> {
        let number = self.queues.len() as u32;
        (number > 1).then(|| placement_other(here, self.looks, number))
    }

    /// Another domain, if one waits there that is due before this task, which is about to go on in a domain.
    pub(super) fn lagging(&mut self, here: u32, task: TaskId) -> Option<u32> {
        self.looks = self.looks.wrapping_add(1);
        let there = self.other_of(here)?;
        let (deadline, first) = self.queues[there as usize].peek()?;
        let weight = self.of(first).weight.min(self.of(task).weight);
        let due_ns = progress_charge(PLACEMENT_DUE_NS.into(), weight);
        placement_goes_before(deadline, self.deadline(task), due_ns).then_some(there)
    }

    pub(super) fn remove(&mut self, at: &mut Positions, domain: u32, task: TaskId) {
        self.queues[domain as usize].remove(at, task);
    }

    /// Whether a task, whose slice is over, comes before all that wait in a domain.
    pub(super) fn is_first(&self, domain: u32, task: TaskId) -> bool {
        self.queues[domain as usize].peek().is_some_and(|(first, _)| self.deadline(task) < first)
    }

    /// One that wakes up, and one that runs on a CPU.
    pub(super) fn rivals(&self, machine: &Machine, wakee: TaskId, cpu: CpuId, running: TaskId) -> Rivals {
        let [wakee_vtime, running_vtime] = [wakee, running].map(|task| self.entities[task as usize].vtime);
        let unseen_ns = machine.unseen_ns(cpu);
        let more = progress_charge(unseen_ns, machine.task(running).nice.weight());
        Rivals {
            wakee_vtime,
            wakee_deadline: self.deadline(wakee),
            running_vtime: running_vtime + more,
            running_deadline: self.deadline(running) + more,
            ran_ns: self.ran_ns(running) + unseen_ns,
        }
    }

    /// What a task is likely to want at its next wake-up.
    pub(super) fn burst_ns(&self, task: TaskId) -> u64 {
        self.entities[task as usize].burst_ns
    }

    /// What a task ran since it was picked, as of its last charge.
    pub(super) fn ran_ns(&self, task: TaskId) -> u64 {
        self.entities[task as usize].ran_ns
    }

    pub(super) fn len(&self, domain: u32) -> usize {
        self.queues[domain as usize].len()
    }
}
