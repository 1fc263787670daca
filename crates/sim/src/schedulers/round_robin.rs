//! Round robin, section 3.1 of the paper: one queue, each has a quantum, who comes stands behind all others.

use std::collections::VecDeque;

use super::{Scheduler, Why};
use crate::{CpuId, Machine, TaskId};

/// The scheduler.
#[derive(Debug)]
pub struct RoundRobin {
    quantum_ns: u64,
    queue: VecDeque<TaskId>,
}

impl RoundRobin {
    /// With that quantum.
    #[must_use]
    pub fn new(quantum_ns: u64) -> Self {
        Self { quantum_ns, queue: VecDeque::new() }
    }
}

impl Scheduler for RoundRobin {
    fn add(&mut self, _machine: &Machine, _task: TaskId) {}

    fn enqueue(&mut self, machine: &Machine, task: TaskId, _why: Why) -> Option<CpuId> {
        self.queue.push_back(task);
        machine.idle_cpu(task)
    }

    fn pick(&mut self, _machine: &Machine, _cpu: CpuId) -> Option<TaskId> {
        self.queue.pop_front()
    }

    fn slice_ns(&mut self, _machine: &Machine, _cpu: CpuId, _task: TaskId) -> u64 {
        self.quantum_ns
    }

    fn charge(&mut self, _machine: &Machine, _cpu: CpuId, _task: TaskId, _ran_ns: u64) {}

    fn slept(&mut self, _machine: &Machine, _cpu: CpuId, _task: TaskId) {}
}
