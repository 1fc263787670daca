//! The Completely Fair Scheduler, section 3.3 of the paper, as Linux had it when that was written (2.6.32): the smallest
//! virtual time runs first, for a share of the latency by weight.
//!
//! Left out: groups, and distances between CPUs. A slice ends on time, as with high resolution ticks.

use super::{Scheduler, Why, percpu::Waiting, tuning_factor, weighted};
use crate::{
    CpuId, MS, Machine, NONE, Nice, TaskId,
    heap::{Heap, Positions},
};

/// The kernel's settings of that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tunables {
    /// Time in which each runnable task shall run once, *sch_lat* of the paper, ns.
    pub latency_ns: u64,
    /// Shortest slice: with more tasks, the latency grows, ns.
    pub min_granularity_ns: u64,
    /// How far who wakes up must be behind the running task to displace it, ns.
    pub wakeup_granularity_ns: u64,
    /// How far who slept is put behind the others, at most, virtual ns: half a latency (`GENTLE_FAIR_SLEEPERS`).
    pub sleeper_credit_ns: u64,
}

impl Tunables {
    /// What the kernel sets on a machine with so many CPUs.
    #[must_use]
    pub fn of(cpus: u32) -> Self {
        let factor = tuning_factor(cpus);
        Self {
            latency_ns: 6 * MS * factor,
            min_granularity_ns: 750_000 * factor,
            wakeup_granularity_ns: MS * factor,
            sleeper_credit_ns: 3 * MS * factor,
        }
    }

    /// As the paper takes it: who wakes up goes to the left of all others, at once, and no farther.
    #[must_use]
    pub fn of_paper() -> Self {
        Self { wakeup_granularity_ns: 0, sleeper_credit_ns: 1, ..Self::of(1) }
    }

    /// Time in which `tasks` run once, ns.
    #[must_use]
    pub fn period_ns(&self, tasks: u64) -> u64 {
        self.latency_ns.max(tasks * self.min_granularity_ns)
    }
}

#[derive(Debug, Clone, Copy)]
struct Entity {
    vruntime: i64,
    weight: u32,
    /// In whose queue it is, or was.
    cpu: CpuId,
}

#[derive(Debug, Default)]
struct Queue {
    tasks: Heap<i64>,
    running: Option<TaskId>,
    since_ns: u64,
    min_vruntime: i64,
    /// Weight and number of all that wait or run.
    weight: u64,
    number: u64,
}

/// The scheduler.
#[derive(Debug)]
pub struct Cfs {
    tunables: Tunables,
    entities: Vec<Entity>,
    queues: Vec<Queue>,
    at: Positions,
    waiting: Waiting,
}

impl Cfs {
    /// With those settings.
    #[must_use]
    pub fn new(tunables: Tunables, cpus: u32, tasks: usize) -> Self {
        Self {
            tunables,
            entities: vec![Entity { vruntime: 0, weight: Nice::WEIGHT_0, cpu: NONE }; tasks],
            queues: (0..cpus).map(|_| Queue::default()).collect(),
            at: Positions::new(tasks),
            waiting: Waiting::new(cpus),
        }
    }

    /// Gives a task another nice value, wherever it is.
    pub fn set_nice(&mut self, machine: &Machine, task: TaskId, nice: Nice) {
        let (new, Entity { weight: old, cpu, .. }) = (nice.weight(), self.entities[task as usize]);
        if new == old {
            return;
        }
        if cpu != NONE {
            let runs = self.queues[cpu as usize].running == Some(task);
            if runs {
                self.advance(machine, cpu);
            }
            if runs || self.at.holds(task) {
                let queue = &mut self.queues[cpu as usize];
                queue.weight = queue.weight + u64::from(new) - u64::from(old);
            }
        }
        self.entities[task as usize].weight = new;
    }

    /// Charges what runs on `cpu` up to now.
    fn advance(&mut self, machine: &Machine, cpu: CpuId) {
        let queue = &mut self.queues[cpu as usize];
        if let Some(task) = queue.running {
            let entity = &mut self.entities[task as usize];
            entity.vruntime += weighted(machine.now_ns() - queue.since_ns, entity.weight);
            queue.since_ns = machine.now_ns();
        }
        self.raise_min(cpu);
    }

    fn raise_min(&mut self, cpu: CpuId) {
        let queue = &mut self.queues[cpu as usize];
        let running = queue.running.map(|task| self.entities[task as usize].vruntime);
        let first = queue.tasks.peek().map(|(vruntime, _)| vruntime);
        if let Some(least) = running.into_iter().chain(first).min() {
            queue.min_vruntime = queue.min_vruntime.max(least);
        }
    }

    fn insert(&mut self, cpu: CpuId, task: TaskId) {
        self.queues[cpu as usize].tasks.push(&mut self.at, task, self.entities[task as usize].vruntime);
        self.waiting.add(cpu);
    }

    /// Counts a task as one of `cpu`'s, or no more.
    fn count(&mut self, cpu: CpuId, task: TaskId, comes: bool) {
        let (queue, weight) = (&mut self.queues[cpu as usize], u64::from(self.entities[task as usize].weight));
        if comes {
            self.entities[task as usize].cpu = cpu;
            queue.weight += weight;
            queue.number += 1;
        } else {
            queue.weight -= weight;
            queue.number -= 1;
        }
    }

    /// Virtual time with which a task comes to the queue of `cpu`.
    fn place(&mut self, cpu: CpuId, task: TaskId, is_new: bool) {
        let entity = self.entities[task as usize];
        let mut vruntime = entity.vruntime;
        if entity.cpu != NONE && entity.cpu != cpu {
            vruntime += self.queues[cpu as usize].min_vruntime - self.queues[entity.cpu as usize].min_vruntime;
        }
        let queue = &self.queues[cpu as usize];
        let floor = if is_new {
            let period_ns = self.tunables.period_ns(queue.number + 1);
            let slice_ns = period_ns * u64::from(entity.weight) / (queue.weight + u64::from(entity.weight));
            queue.min_vruntime + weighted(slice_ns, entity.weight)
        } else {
            queue.min_vruntime - self.tunables.sleeper_credit_ns as i64
        };
        self.entities[task as usize].vruntime = if entity.cpu == NONE { floor } else { vruntime.max(floor) };
    }

    /// Whether a task that woke up displaces what runs on `cpu`.
    fn displaces(&self, cpu: CpuId, task: TaskId) -> bool {
        let wakee = self.entities[task as usize];
        self.queues[cpu as usize].running.is_some_and(|running| {
            let behind = self.entities[running as usize].vruntime - wakee.vruntime;
            behind > weighted(self.tunables.wakeup_granularity_ns, wakee.weight)
        })
    }

    /// Takes a task from where most wait.
    fn pull(&mut self, cpu: CpuId) {
        let Some(from) = self.waiting.busier_than(cpu) else { return };
        let Some(task) = self.queues[from as usize].tasks.late() else { return };
        self.queues[from as usize].tasks.remove(&mut self.at, task);
        self.waiting.take(from);
        self.count(from, task, false);
        let shift = self.queues[cpu as usize].min_vruntime - self.queues[from as usize].min_vruntime;
        self.entities[task as usize].vruntime += shift;
        self.count(cpu, task, true);
        self.insert(cpu, task);
    }
}

impl Scheduler for Cfs {
    fn add(&mut self, machine: &Machine, task: TaskId) {
        let weight = machine.task(task).nice.weight();
        self.entities[task as usize] = Entity { vruntime: 0, weight, cpu: NONE };
    }

    fn enqueue(&mut self, machine: &Machine, task: TaskId, why: Why) -> Option<CpuId> {
        if matches!(why, Why::TurnOver | Why::Displaced) {
            let cpu = self.entities[task as usize].cpu;
            self.advance(machine, cpu);
            self.queues[cpu as usize].running = None;
            self.insert(cpu, task);
            return None;
        }
        let idle = machine.idle_cpu(task);
        let cpu = idle.unwrap_or(machine.task(task).cpu);
        self.advance(machine, cpu);
        self.place(cpu, task, why == Why::New);
        self.count(cpu, task, true);
        self.insert(cpu, task);
        self.raise_min(cpu);
        idle.or_else(|| (why != Why::New && self.displaces(cpu, task)).then_some(cpu))
    }

    fn pick(&mut self, machine: &Machine, cpu: CpuId) -> Option<TaskId> {
        self.pull(cpu);
        let queue = &mut self.queues[cpu as usize];
        let (_, task) = queue.tasks.pop(&mut self.at)?;
        queue.running = Some(task);
        queue.since_ns = machine.now_ns();
        self.waiting.take(cpu);
        Some(task)
    }

    fn slice_ns(&mut self, _machine: &Machine, cpu: CpuId, task: TaskId) -> u64 {
        let queue = &self.queues[cpu as usize];
        let weight = u64::from(self.entities[task as usize].weight);
        (self.tunables.period_ns(queue.number) * weight / queue.weight).max(1)
    }

    fn charge(&mut self, machine: &Machine, cpu: CpuId, _task: TaskId, _ran_ns: u64) {
        self.advance(machine, cpu);
    }

    fn slept(&mut self, machine: &Machine, cpu: CpuId, task: TaskId) {
        self.advance(machine, cpu);
        self.queues[cpu as usize].running = None;
        self.count(cpu, task, false);
        self.raise_min(cpu);
    }
}
