//! Multilevel feedback queues, section 3.2 of the paper: who wakes up is put at the end of the first queue; who uses up its
//! turn, which is 2^i quanta in queue i, sinks to the next. No queue is served before those above it are empty, so who wakes
//! up takes the CPU from whoever stands lower; that one goes on where it was.

use std::collections::VecDeque;

use super::{Scheduler, Why};
use crate::{CpuId, Machine, TaskId, set::IdSet};

/// How many queues there are, unless somebody says otherwise.
pub const QUEUES: usize = 8;

#[derive(Debug, Clone, Copy, Default)]
struct Standing {
    level: u8,
    /// What is left of its turn.
    left_ns: u64,
}

/// The scheduler.
#[derive(Debug)]
pub struct Mlfq {
    quantum_ns: u64,
    queues: Vec<VecDeque<TaskId>>,
    standings: Vec<Standing>,
    /// CPUs by the level of what they run.
    running: Vec<IdSet>,
}

impl Mlfq {
    /// With that quantum and so many queues.
    #[must_use]
    pub fn new(quantum_ns: u64, queues: usize, cpus: u32, tasks: usize) -> Self {
        Self {
            quantum_ns,
            queues: vec![VecDeque::new(); queues],
            standings: vec![Standing::default(); tasks],
            running: vec![IdSet::new(cpus); queues],
        }
    }

    fn turn_ns(&self, level: u8) -> u64 {
        self.quantum_ns << level
    }

    /// A CPU that runs something of a lower queue than `level`, the lowest.
    fn victim(&self, level: u8) -> Option<CpuId> {
        self.running[usize::from(level) + 1..].iter().rev().find_map(IdSet::any)
    }
}

impl Scheduler for Mlfq {
    fn add(&mut self, _machine: &Machine, task: TaskId) {
        self.standings[task as usize] = Standing { level: 0, left_ns: self.turn_ns(0) };
    }

    fn enqueue(&mut self, machine: &Machine, task: TaskId, why: Why) -> Option<CpuId> {
        let lowest = self.queues.len() as u8 - 1;
        let was = self.standings[task as usize];
        let level = match why {
            Why::New | Why::Woken(_) => 0,
            Why::TurnOver => (was.level + 1).min(lowest),
            Why::Displaced => {
                self.running[usize::from(was.level)].remove(machine.task(task).cpu);
                self.queues[usize::from(was.level)].push_front(task);
                return None;
            }
        };
        self.standings[task as usize] = Standing { level, left_ns: self.turn_ns(level) };
        self.queues[usize::from(level)].push_back(task);
        if why == Why::TurnOver {
            self.running[usize::from(was.level)].remove(machine.task(task).cpu);
            return None;
        }
        machine.idle_cpu(task).or_else(|| self.victim(level))
    }

    fn pick(&mut self, _machine: &Machine, cpu: CpuId) -> Option<TaskId> {
        let (level, queue) = self.queues.iter_mut().enumerate().find(|(_, queue)| !queue.is_empty())?;
        self.running[level].insert(cpu);
        queue.pop_front()
    }

    fn slice_ns(&mut self, _machine: &Machine, _cpu: CpuId, task: TaskId) -> u64 {
        self.standings[task as usize].left_ns
    }

    fn charge(&mut self, _machine: &Machine, _cpu: CpuId, task: TaskId, ran_ns: u64) {
        let left_ns = &mut self.standings[task as usize].left_ns;
        // Displaced at the very end of its turn, it has a moment left.
        *left_ns = left_ns.saturating_sub(ran_ns).max(1);
    }

    fn slept(&mut self, _machine: &Machine, cpu: CpuId, task: TaskId) {
        self.running[usize::from(self.standings[task as usize].level)].remove(cpu);
    }
}
