//! Near caches, cores of several CPUs, fast and slow ones: which CPU a task wakes up on, and when a CPU of another domain comes for it
//! (`bpf/near.bpf.h`, `bpf/cores.bpf.h`, `bpf/speed.bpf.h`). `bpf/policy/placement.h` says when a wait is long enough for that, and
//! when a task leaves its core.
//!
//! A called CPU comes at once. So the kernel's rule for attended tasks to which a CPU is on its way has no use here.

use appease_policy::{placement_leaves_core, placement_moves};

use super::{Appease, EPOCH_NS, Lane, SLICE_NS};
use crate::{
    CpuId, Machine, TaskId,
    schedulers::{Call, Waker},
};

/// Whether the waker of a task is about to sleep, or has just made it (`SCX_WAKE_SYNC`, `SCX_WAKE_FORK`). Then no cache is worth a wait.
/// Sockets wake their readers so; clocks and terminals do not.
fn is_brought(machine: &Machine, task: TaskId, waker: Waker) -> bool {
    waker != Waker::Timer && machine.message_for(task).is_none_or(|message| !message.terminal)
}

impl Appease {
    /// The idle CPU that a task takes which wakes up. `None`: it waits.
    pub(super) fn idle_for(&self, machine: &Machine, task: TaskId, waker: Waker, is_attended: bool) -> Option<CpuId> {
        let home = self.domains.of(machine.task(task).cpu);
        if self.domains.number() == 1 || is_brought(machine, task, waker) {
            return machine.idle_cpu(task);
        }
        machine.idle_cpu_beside(task).or_else(|| {
            // Plain work of its domain makes way for attended work, which finds its cache warm.
            if is_attended && !self.domains.runs_plain(home) { machine.idle_cpu(task) } else { None }
        })
    }

    /// The same where some CPUs are slow.
    pub(super) fn idle_by_speed(&mut self, machine: &Machine, task: TaskId, is_attended: bool) -> Option<CpuId> {
        let now_ns = machine.now_ns();
        if !is_attended {
            let prefers_slow = now_ns < self.fast_wanted_until_ns;
            let slow = if prefers_slow { machine.idle_cpu_of_speed(task, false) } else { None };
            return slow.or_else(|| machine.idle_cpu(task));
        }
        machine.idle_cpu_of_speed(task, true).or_else(|| {
            self.fast_wanted_until_ns = now_ns + EPOCH_NS;
            let mut near = self.domains.near(self.domains.of(machine.task(task).cpu));
            let fast_is_plain =
                near.any(|domain| self.domains.topology().is_fast(domain) && self.domains.runs_plain(domain));
            if fast_is_plain { None } else { machine.idle_cpu(task) }
        })
    }

    /// A CPU looks for a task now, if it is idle.
    fn call_now(&mut self, cpu: CpuId) {
        self.calls.push(Call { cpu, in_ns: 0 });
    }

    /// An idle CPU of another domain is to come for what waits in a domain, if it is idle then.
    fn call_later(&mut self, domain: u32, cpu: CpuId, now_ns: u64) {
        if let Some(in_ns) = self.domains.moves_in(domain, now_ns) {
            self.calls.push(Call { cpu, in_ns });
        }
    }

    /// An attended task was put into a queue at the end of a turn: calls an idle CPU, wherever it is.
    pub(super) fn call_any(&mut self, machine: &Machine, task: TaskId) {
        if self.domains.number() > 1
            && let Some(cpu) = machine.idle_cpu(task)
        {
            self.call_now(cpu);
        }
    }

    /// A plain task was put into a queue of a domain: calls an idle CPU there; or, later, one of another domain. On one domain an idle CPU
    /// has looked.
    pub(super) fn call_near(&mut self, machine: &Machine, task: TaskId, domain: u32) {
        if self.domains.number() == 1 {
            return;
        }
        if let Some(cpu) = machine.idle_cpu_of(domain) {
            self.call_now(cpu);
        } else if let Some(cpu) = machine.idle_cpu(task) {
            self.call_later(domain, cpu, machine.now_ns());
        }
    }

    /// A CPU of a domain has taken what waited elsewhere: the next idle one is called, as more may wait.
    pub(super) fn call_next(&mut self, machine: &Machine, domain: u32) {
        if let Some(cpu) = machine.idle_cpu_of(domain) {
            self.call_now(cpu);
        }
    }

    /// A CPU goes idle. Tasks that wait in other domains have not waited for long enough: it is called later.
    pub(super) fn goes_idle(&mut self, machine: &Machine, cpu: CpuId) {
        let here = self.domains.of(cpu);
        for there in self.domains.others(here) {
            if self.parties.first_in(there).is_some() {
                self.call_later(there, cpu, machine.now_ns());
            }
        }
    }

    /// Whether a task that waits in another domain than that of the CPU that looks has waited for long enough to be moved.
    pub(super) fn may_move(&self, task: TaskId, now_ns: u64) -> bool {
        placement_moves(self.processes[task as usize].queued_ns, now_ns)
    }

    /// Whether a task, whose turn on a CPU is over and for which no other one waits, leaves the core. It is then on an idle one.
    pub(super) fn leaves_core(&mut self, machine: &Machine, cpu: CpuId, task: TaskId) -> bool {
        let next = self.domains.topology().next_in_core(cpu);
        if next == cpu {
            return false;
        }
        let state = &mut self.cpus[cpu as usize];
        state.shared_turns = if machine.running(next).is_some() { state.shared_turns + 1 } else { 0 };
        if !placement_leaves_core(state.shared_turns) {
            return false;
        }
        let Some(other) = machine.idle_core(task) else { return false };
        state.shared_turns = 0;
        let process = &mut self.processes[task as usize];
        process.lane = Lane::Other;
        process.slice_ns = SLICE_NS;
        self.cpus[other as usize].local = Some(task);
        self.call_now(other);
        true
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use appease_policy::PLACEMENT_MOVE_NS;
    use slab::Slab;

    use super::*;
    use crate::{Scenario, Topology, parts::Parts, topology::Idle};

    /// Four CPUs in so many caches, of which these are busy. A task ran on each.
    fn machine(caches: u32, busy: &[CpuId]) -> (Machine, Appease) {
        let text = format!(
            "name = \"test\"\ncpus = 4\ncaches = {caches}\nduration_s = 1\n[[hog]]\nid = \"hogs\"\nnumber = 4\n"
        );
        let scenario = Scenario::parse(&text, "test").unwrap();
        let (parts, topology) = (Parts::of(&scenario, 1), Topology::of_scenario(&scenario));
        let mut idle = Idle::all(topology.clone());
        busy.iter().for_each(|&cpu| idle.remove(cpu));
        let (cpus, visits) = (Vec::new(), Slab::new());
        let machine = Machine { now_ns: 0, cpus, idle, tasks: parts.tasks, visits, ledger: parts.ledger, active: 0 };
        (machine, Appease::on(topology, 4, false))
    }

    fn calls(appease: &mut Appease) -> Vec<(CpuId, u64)> {
        appease.calls.drain(..).map(|call| (call.cpu, call.in_ns)).collect()
    }

    /// An idle CPU of the domain is called at once, else one of another domain later. A domain has one such call at a time.
    #[test]
    fn near_cpus_are_called_now_and_far_ones_later() {
        let move_ns = u64::from(PLACEMENT_MOVE_NS);
        let (mut machine, mut appease) = machine(2, &[0, 1]);
        appease.call_near(&machine, 2, 1);
        assert_eq!(calls(&mut appease), [(2, 0)]);
        appease.call_near(&machine, 0, 0);
        appease.call_near(&machine, 1, 0);
        assert_eq!(calls(&mut appease), [(2, move_ns)]);
        machine.now_ns = move_ns;
        appease.call_near(&machine, 1, 0);
        assert_eq!(calls(&mut appease), [(2, move_ns)]);
    }

    /// Attended work at the end of a turn calls an idle CPU of any domain at once. One domain has no CPU to call: an idle one has looked.
    #[test]
    fn attended_work_calls_any_cpu_now() {
        let (two, mut appease) = machine(2, &[0, 1]);
        appease.call_any(&two, 0);
        assert_eq!(calls(&mut appease), [(2, 0)]);
        let (one, mut appease) = machine(1, &[0, 1]);
        appease.call_any(&one, 0);
        appease.call_near(&one, 0, 0);
        assert_eq!(calls(&mut appease), []);
    }
}
