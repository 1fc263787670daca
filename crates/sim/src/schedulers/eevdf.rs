//! Earliest eligible virtual deadline first, as Linux has it since 6.6, with what 6.12 changed.
//!
//! Each task has a virtual time v that runs by weight, and a virtual deadline v + slice / weight. V is the mean of all v by
//! weight. A task is eligible while its lag V - v is not negative: it got no more than its share. Of the eligible, the
//! earliest deadline runs. Until it has used up its slice it is displaced only when it is no longer eligible
//! (`RUN_TO_PARITY`). Who sleeps keeps its lag, within two slices (`PLACE_LAG`), except that debts decay as virtual time
//! passes: the kernel leaves such a task in the queue until its lag is 0 (`DELAY_DEQUEUE`). Here it is not part of V
//! meanwhile, which is where this model is coarser. Left out, too: groups, slices that tasks ask for, distances between CPUs.

use super::{Scheduler, Why, percpu::Waiting, tuning_factor, weighted};
use crate::{
    CpuId, MS, Machine, NONE, Nice, TaskId,
    heap::{Heap, Positions},
};

/// Shortest time for which lag is kept, whatever the slice: a tick at 250 Hz.
const TICK_NS: u64 = 4 * MS;

/// The kernel's slice on a machine with so many CPUs, ns.
#[must_use]
pub fn base_slice_ns(cpus: u32) -> u64 {
    700_000 * tuning_factor(cpus)
}

#[derive(Debug, Clone, Copy)]
struct Entity {
    vruntime: i64,
    deadline: i64,
    /// What it had when it fell asleep.
    lag: i64,
    weight: u32,
    cpu: CpuId,
}

#[derive(Debug, Default)]
struct Queue {
    /// By deadline. Some may have become ineligible since, when others came or went.
    eligible: Heap<i64>,
    /// By virtual time. Some may have become eligible since.
    ineligible: Heap<i64>,
    running: Option<TaskId>,
    since_ns: u64,
    /// Sums over all that wait or run: of weights, and of virtual times by weight.
    weight: i128,
    weighted: i128,
    /// V when the last one went.
    last: i64,
}

impl Queue {
    /// V; its own clock goes on where it was when nobody is there.
    fn virtual_time(&self) -> i64 {
        if self.weight == 0 { self.last } else { self.weighted.div_euclid(self.weight) as i64 }
    }

    /// Whether v is not above V, without rounding.
    fn is_eligible(&self, vruntime: i64) -> bool {
        i128::from(vruntime) * self.weight <= self.weighted
    }
}

/// The scheduler.
#[derive(Debug)]
pub struct Eevdf {
    slice_ns: u64,
    entities: Vec<Entity>,
    queues: Vec<Queue>,
    /// A task is in one heap of one queue at most.
    at: Positions,
    waiting: Waiting,
}

impl Eevdf {
    /// With that slice.
    #[must_use]
    pub fn new(slice_ns: u64, cpus: u32, tasks: usize) -> Self {
        let entity = Entity { vruntime: 0, deadline: 0, lag: 0, weight: Nice::WEIGHT_0, cpu: NONE };
        Self {
            slice_ns,
            entities: vec![entity; tasks],
            queues: (0..cpus).map(|_| Queue::default()).collect(),
            at: Positions::new(tasks),
            waiting: Waiting::new(cpus),
        }
    }

    /// Lag of a task that waits or runs, virtual ns.
    #[must_use]
    pub fn lag(&self, task: TaskId) -> i64 {
        let entity = &self.entities[task as usize];
        self.queues[entity.cpu as usize].virtual_time() - entity.vruntime
    }

    fn virtual_slice(&self, task: TaskId) -> i64 {
        weighted(self.slice_ns, self.entities[task as usize].weight)
    }

    fn advance(&mut self, machine: &Machine, cpu: CpuId) {
        let queue = &mut self.queues[cpu as usize];
        let Some(task) = queue.running else { return };
        let entity = &mut self.entities[task as usize];
        let passed = weighted(machine.now_ns() - queue.since_ns, entity.weight);
        entity.vruntime += passed;
        queue.weighted += i128::from(passed) * i128::from(entity.weight);
        queue.since_ns = machine.now_ns();
    }

    fn join(&mut self, cpu: CpuId, task: TaskId) {
        let (queue, entity) = (&mut self.queues[cpu as usize], &mut self.entities[task as usize]);
        entity.cpu = cpu;
        queue.weight += i128::from(entity.weight);
        queue.weighted += i128::from(entity.vruntime) * i128::from(entity.weight);
    }

    fn leave(&mut self, cpu: CpuId, task: TaskId) {
        let (queue, entity) = (&mut self.queues[cpu as usize], &self.entities[task as usize]);
        queue.last = queue.virtual_time();
        queue.weight -= i128::from(entity.weight);
        queue.weighted -= i128::from(entity.vruntime) * i128::from(entity.weight);
    }

    fn insert(&mut self, cpu: CpuId, task: TaskId) {
        let vruntime = self.entities[task as usize].vruntime;
        self.queues[cpu as usize].ineligible.push(&mut self.at, task, vruntime);
        self.waiting.add(cpu);
    }

    /// Lag that a task brings along: a debt that V has passed meanwhile is forgiven.
    fn kept_lag(&self, task: TaskId) -> i64 {
        let entity = &self.entities[task as usize];
        if entity.lag >= 0 || entity.cpu == NONE {
            return entity.lag;
        }
        let now = self.queues[entity.cpu as usize].virtual_time() - entity.vruntime;
        now.clamp(entity.lag, 0)
    }

    /// Puts a task where its lag is what it was. Its coming moves V, the more the heavier it is, so v is farther off.
    fn place(&mut self, cpu: CpuId, task: TaskId, lag: i64, is_new: bool) {
        let (queue, weight) = (&self.queues[cpu as usize], i128::from(self.entities[task as usize].weight));
        let mut distance = 0;
        if queue.weight > 0 {
            distance = (i128::from(lag) * (queue.weight + weight) / queue.weight) as i64;
        }
        let vruntime = queue.virtual_time() - distance;
        // A new task begins with half a slice, to get into its rhythm without delaying others.
        let slice = self.virtual_slice(task) / if is_new { 2 } else { 1 };
        let entity = &mut self.entities[task as usize];
        entity.vruntime = vruntime;
        entity.deadline = vruntime + slice;
    }

    /// The one that should run next of those that wait at `cpu`; it stays in the heap of the eligible.
    fn best(&mut self, cpu: CpuId) -> Option<TaskId> {
        let queue = &mut self.queues[cpu as usize];
        loop {
            while let Some((vruntime, task)) = queue.ineligible.peek()
                && queue.is_eligible(vruntime)
            {
                queue.ineligible.pop(&mut self.at);
                queue.eligible.push(&mut self.at, task, self.entities[task as usize].deadline);
            }
            // Without the running task's, the mean of those who wait may lie before all of them.
            let Some((_, task)) = queue.eligible.peek() else { return queue.ineligible.peek().map(|(_, task)| task) };
            let vruntime = self.entities[task as usize].vruntime;
            if queue.is_eligible(vruntime) {
                return Some(task);
            }
            queue.eligible.pop(&mut self.at);
            queue.ineligible.push(&mut self.at, task, vruntime);
        }
    }

    fn take(&mut self, cpu: CpuId, task: TaskId) {
        let queue = &mut self.queues[cpu as usize];
        if queue.eligible.peek().is_some_and(|(_, first)| first == task) {
            queue.eligible.pop(&mut self.at);
        } else {
            queue.ineligible.remove(&mut self.at, task);
        }
        self.waiting.take(cpu);
    }

    /// Takes a task from where most wait; its lag goes with it.
    fn pull(&mut self, cpu: CpuId) {
        let Some(from) = self.waiting.busier_than(cpu) else { return };
        let Some(task) = self.best(from) else { return };
        let lag = self.lag(task);
        self.take(from, task);
        self.leave(from, task);
        self.place(cpu, task, lag, false);
        self.join(cpu, task);
        self.insert(cpu, task);
    }
}

impl Scheduler for Eevdf {
    fn add(&mut self, machine: &Machine, task: TaskId) {
        let weight = machine.task(task).nice.weight();
        self.entities[task as usize] = Entity { vruntime: 0, deadline: 0, lag: 0, weight, cpu: NONE };
    }

    fn enqueue(&mut self, machine: &Machine, task: TaskId, why: Why) -> Option<CpuId> {
        if matches!(why, Why::TurnOver | Why::Displaced) {
            let cpu = self.entities[task as usize].cpu;
            self.advance(machine, cpu);
            let slice = self.virtual_slice(task);
            let entity = &mut self.entities[task as usize];
            if entity.vruntime >= entity.deadline {
                entity.deadline = entity.vruntime + slice;
            }
            self.queues[cpu as usize].running = None;
            self.insert(cpu, task);
            return None;
        }
        let idle = machine.idle_cpu(task);
        let cpu = idle.unwrap_or(machine.task(task).cpu);
        let lag = self.kept_lag(task);
        self.advance(machine, cpu);
        self.place(cpu, task, lag, why == Why::New);
        self.join(cpu, task);
        self.insert(cpu, task);
        if idle.is_some() {
            return idle;
        }
        let running = self.queues[cpu as usize].running?;
        if self.queues[cpu as usize].is_eligible(self.entities[running as usize].vruntime) {
            return None;
        }
        (self.best(cpu) == Some(task)).then_some(cpu)
    }

    fn pick(&mut self, machine: &Machine, cpu: CpuId) -> Option<TaskId> {
        self.pull(cpu);
        let task = self.best(cpu)?;
        self.take(cpu, task);
        let queue = &mut self.queues[cpu as usize];
        queue.running = Some(task);
        queue.since_ns = machine.now_ns();
        Some(task)
    }

    fn slice_ns(&mut self, _machine: &Machine, _cpu: CpuId, task: TaskId) -> u64 {
        let entity = &self.entities[task as usize];
        let left = (entity.deadline - entity.vruntime).max(1) as u64;
        // Rounded up: at the end of it, v has reached the deadline.
        (left * u64::from(entity.weight)).div_ceil(u64::from(Nice::WEIGHT_0)) + 1
    }

    fn charge(&mut self, machine: &Machine, cpu: CpuId, _task: TaskId, _ran_ns: u64) {
        self.advance(machine, cpu);
    }

    fn slept(&mut self, machine: &Machine, cpu: CpuId, task: TaskId) {
        self.advance(machine, cpu);
        let limit = weighted((2 * self.slice_ns).max(TICK_NS), self.entities[task as usize].weight);
        self.entities[task as usize].lag = self.lag(task).clamp(-limit, limit);
        self.queues[cpu as usize].running = None;
        self.leave(cpu, task);
    }
}
