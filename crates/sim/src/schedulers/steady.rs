//! Our policy `steady`: nobody is attended, and the other lane is all there is.

use super::{
    Scheduler, Why,
    others::{Displaced, Others, SLICE_NS},
};
use crate::{CpuId, Machine, TaskId, heap::Positions};

/// The scheduler.
#[derive(Debug)]
pub struct Steady {
    others: Others,
    displaced: Displaced,
    at: Positions,
}

impl Steady {
    /// For so many tasks.
    #[must_use]
    pub fn new(tasks: usize) -> Self {
        Self { others: Others::new(tasks, 1), displaced: Displaced::default(), at: Positions::new(tasks) }
    }
}

impl Scheduler for Steady {
    fn add(&mut self, _machine: &Machine, task: TaskId) {
        self.others.add(task);
    }

    fn enqueue(&mut self, machine: &Machine, task: TaskId, why: Why) -> Option<CpuId> {
        let waker = if let Why::Woken(waker) = why { Some(waker) } else { None };
        let wakes_up = waker.is_some();
        if wakes_up {
            self.others.wakes(task);
        }
        self.others.arrives(0, task, wakes_up);
        self.others.push(&mut self.at, 0, task);
        machine.idle_cpu(task).or_else(|| {
            let cpu = machine.task(task).cpu;
            let running = machine.running(cpu)?;
            let rivals = self.others.rivals(machine, task, cpu, running);
            self.displaced.takes(machine, waker?, cpu, &rivals).then_some(cpu)
        })
    }

    fn pick(&mut self, _machine: &Machine, _cpu: CpuId) -> Option<TaskId> {
        let task = self.others.pop(&mut self.at, 0)?;
        self.others.begins(task);
        Some(task)
    }

    fn slice_ns(&mut self, _machine: &Machine, _cpu: CpuId, _task: TaskId) -> u64 {
        SLICE_NS
    }

    fn charge(&mut self, machine: &Machine, _cpu: CpuId, task: TaskId, ran_ns: u64) {
        self.others.charge(task, ran_ns, machine.task(task).nice.weight(), false);
    }

    fn slept(&mut self, _machine: &Machine, _cpu: CpuId, _task: TaskId) {}
}
