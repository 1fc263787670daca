//! Our policy `appease`. Keys, budgets, loans, virtual times, guarantees and ends are computed by the headers in
//! `bpf/policy`, through `appease-policy`; what is here stands for the hooks (`bpf/sense`) and for the queues
//! (`bpf/sched.bpf.c`, `bpf/charge.bpf.h`, `bpf/attended.bpf.h`):
//!
//! - `requests`: requests and customers, and when a request is over,
//! - `process`: whom a process serves, the turns that it is lent, and who pays for its turns,
//! - `fair`: the attended lane's queues,
//! - `super::others`: the other lane's queue,
//! - here: the lanes, and who is next.
//!
//! Only what a kernel can see counts: a request is opened when a process reads it, not when it was sent; of an answer
//! it is seen that a process writes back to the customer, not whether that is all. Left out, since nothing here has
//! them: threads, kernel threads, realtime tasks, batch and idle ones, locks, shared memory, programs that must not be
//! interrupted, sound; and the short cuts for idle CPUs and for two that wake each other on an idle machine with one
//! CPU, which save instructions and change no order that a customer could feel.

mod fair;
mod process;
mod requests;

use std::collections::VecDeque;

use appease_policy::{
    PROGRESS_PIECE_NS, progress_next_share, progress_overdue_fits, progress_overdue_until, progress_owed,
};

use self::{
    fair::{Fair, queue_of},
    process::{Attention, LOAN_NS, Process},
    requests::Requests,
};
use super::{
    Scheduler, Why,
    others::{Others, SLICE_NS},
};
use crate::{CpuId, MS, Machine, Message, SECOND, TaskId, VisitId, heap::Positions};

// Settings of the programs, which stand beside their maps and not in the headers.
const PIECE_NS: u64 = PROGRESS_PIECE_NS as u64;
const EPOCH_NS: u64 = 200 * MS;
const LONGEST_WAIT_NS: u64 = SECOND;
const OTHER_SHARE_PCT: u32 = 5;
const PREEMPT_MARGIN_NS: u64 = 200_000;
const SCAN_NS: u64 = 100 * MS;
const SCAN_MAX: usize = 1024;
/// The daemon has requests swept once a second.
const SCANS_PER_SWEEP: u64 = SECOND / SCAN_NS;
const LATEST_NS: u64 = 250 * MS;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    Attended,
    Other,
}

#[derive(Debug, Clone, Copy, Default)]
struct Cpu {
    epoch_start_ns: u64,
    share_ns: u64,
    other_ns: u64,
    /// What the other lane got since somebody attended last waited for its turn.
    unpaid_ns: u64,
    overdue_until_ns: u64,
    /// The other lane is at its guaranteed turn: only modest customers displace it.
    turn: bool,
    /// When that turn ends, whoever runs then; 0: there was none since the last look for a task.
    turn_until_ns: u64,
    /// Whose slice is over; it is queued only when another one is picked.
    held: Option<TaskId>,
    /// Who displaces what runs there: it is next, whoever else waits.
    local: Option<TaskId>,
}

/// What a task is right now.
#[derive(Debug, Clone, Copy, Default)]
struct Standing {
    attended: bool,
    /// By that alone.
    on_loan: bool,
    key: u64,
    /// The request that it serves; 0: none.
    id: u64,
    slot: u32,
}

/// How much what runs on a CPU is worth to a task that wakes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Worth {
    Keeping,
    Less,
    Nothing,
}

/// The scheduler.
#[derive(Debug)]
pub struct Appease {
    requests: Requests,
    processes: Vec<Process>,
    /// By visit: what the message that is on its way to it says.
    stamps: Vec<Attention>,
    cpus: Vec<Cpu>,
    fair: Fair,
    others: Others,
    overdue: VecDeque<TaskId>,
    at: Positions,
    scans: u64,
}

impl Appease {
    /// As it is attached to a machine.
    #[must_use]
    pub fn new(cpus: u32, tasks: usize) -> Self {
        Self {
            requests: Requests::new(),
            processes: vec![Process::NEW; tasks],
            stamps: Vec::new(),
            cpus: vec![Cpu::default(); cpus as usize],
            fair: Fair::new(cpus),
            others: Others::new(tasks),
            overdue: VecDeque::new(),
            at: Positions::new(tasks),
            scans: 0,
        }
    }

    fn queue_for(&self, task: TaskId) -> usize {
        queue_of(self.processes[task as usize].turn_for)
    }

    fn worth_of(&self, machine: &Machine, cpu: CpuId, queue: usize, key: u64) -> Worth {
        let Some(running) = machine.running(cpu).filter(|_| self.cpus[cpu as usize].local.is_none()) else {
            return Worth::Keeping;
        };
        let standing = self.judge(running, machine.now_ns());
        if standing.attended {
            let displaces = self.fair.displaces(queue, key, self.queue_for(running), standing.key);
            return if displaces { Worth::Less } else { Worth::Keeping };
        }
        if self.cpus[cpu as usize].turn && !self.fair.is_modest(queue) { Worth::Keeping } else { Worth::Nothing }
    }

    /// The CPU that does the least important work, the nearest first.
    fn find_victim(&self, machine: &Machine, task: TaskId, key: u64) -> Option<CpuId> {
        let (own, queue) = (machine.task(task).cpu, self.queue_for(task));
        let mut less = None;
        for cpu in std::iter::once(own).chain((0..machine.nr_cpus()).filter(|&cpu| cpu != own)) {
            match self.worth_of(machine, cpu, queue, key) {
                Worth::Nothing => return Some(cpu),
                Worth::Less => less = less.or(Some(cpu)),
                Worth::Keeping => {}
            }
        }
        less
    }

    /// Queues an attended task by its key; if it wakes up, on the CPU of a task that is worth less. That CPU, if any.
    fn queue_attended(
        &mut self,
        machine: &Machine,
        task: TaskId,
        standing: &Standing,
        wakes_up: bool,
    ) -> Option<CpuId> {
        let now_ns = machine.now_ns();
        self.note_turn(task, standing, wakes_up);
        let process = &mut self.processes[task as usize];
        process.lane = Lane::Attended;
        process.queued_ns = now_ns;
        process.slice_ns = if standing.on_loan { LOAN_NS } else { SLICE_NS };
        let (queue, key) = (self.queue_for(task), standing.key.min(now_ns + LATEST_NS));
        self.fair.fills(queue);
        if wakes_up && let Some(cpu) = machine.idle_cpu(task).or_else(|| self.find_victim(machine, task, key)) {
            // What a modest customer has in place of the other lane's turn is not the other lane's.
            self.cpus[cpu as usize].turn = false;
            self.cpus[cpu as usize].local = Some(task);
            return Some(cpu);
        }
        self.fair.push(&mut self.at, queue, task, key);
        None
    }

    fn queue_other(&mut self, task: TaskId, now_ns: u64) {
        let process = &mut self.processes[task as usize];
        process.lane = Lane::Other;
        process.queued_ns = now_ns;
        process.slice_ns = SLICE_NS;
        self.others.push(&mut self.at, task);
    }

    /// Whether a task that wakes up in the other lane takes its CPU from who has it.
    fn displaces_other(&mut self, machine: &Machine, task: TaskId) -> Option<CpuId> {
        let cpu = machine.task(task).cpu;
        let running = machine.running(cpu)?;
        let is_kept = self.cpus[cpu as usize].local.is_some() || self.judge(running, machine.now_ns()).attended;
        (!is_kept && self.others.displaces(machine, task, cpu, running)).then_some(cpu)
    }

    /// Queues a task where it belongs now. The CPU that is to run it at once, if any.
    fn queue(&mut self, machine: &Machine, task: TaskId, wakes_up: bool) -> Option<CpuId> {
        let standing = self.judge(task, machine.now_ns());
        if standing.attended {
            return self.queue_attended(machine, task, &standing, wakes_up);
        }
        self.queue_other(task, machine.now_ns());
        machine.idle_cpu(task).or_else(|| if wakes_up { self.displaces_other(machine, task) } else { None })
    }

    fn take_other(&mut self) -> Option<TaskId> {
        self.overdue.pop_front().or_else(|| self.others.pop(&mut self.at))
    }

    fn turn_epoch(&mut self, cpu: CpuId, runs_other: bool, now_ns: u64) {
        let has_work = runs_other || self.others.len() > 0 || !self.overdue.is_empty();
        let cpu = &mut self.cpus[cpu as usize];
        if now_ns - cpu.epoch_start_ns >= EPOCH_NS {
            cpu.share_ns = progress_next_share(EPOCH_NS, OTHER_SHARE_PCT, cpu.share_ns, cpu.other_ns, has_work);
            cpu.epoch_start_ns = now_ns;
            cpu.other_ns = 0;
        }
    }

    /// What the other lane must get before attended work.
    fn take_due(&mut self, cpu: CpuId, now_ns: u64) -> Option<TaskId> {
        let state = &mut self.cpus[cpu as usize];
        let unpaid_ns = std::mem::take(&mut state.unpaid_ns);
        state.overdue_until_ns = progress_overdue_until(state.overdue_until_ns, now_ns, unpaid_ns);
        let Cpu { epoch_start_ns, share_ns, other_ns, overdue_until_ns, .. } = *state;
        if progress_owed(now_ns, epoch_start_ns, EPOCH_NS, other_ns, share_ns) > 0 {
            return self.take_other();
        }
        if progress_overdue_fits(overdue_until_ns, now_ns) { self.overdue.pop_front() } else { None }
    }

    /// The next task, as `appease_dispatch()` finds it; `prev` is the one whose slice is over.
    fn next(&mut self, machine: &Machine, cpu: CpuId, prev: Option<TaskId>) -> Option<TaskId> {
        let now_ns = machine.now_ns();
        let standing = prev.map(|task| self.judge(task, now_ns)).unwrap_or_default();
        let runs_other = prev.is_some_and(|task| self.processes[task as usize].lane == Lane::Other);
        self.turn_epoch(cpu, runs_other, now_ns);
        let first = self.fair.first();
        if first.is_some() || standing.attended {
            // The other lane has its turns of those who had more than their part.
            let is_modest = first.is_some_and(|(queue, _)| self.fair.is_modest(queue));
            if !is_modest && let Some(task) = self.take_due(cpu, now_ns) {
                self.cpus[cpu as usize].turn = true;
                self.cpus[cpu as usize].turn_until_ns = now_ns + PIECE_NS;
                return Some(task);
            }
            let prev_queue = prev.map_or(0, |task| self.queue_for(task));
            let gives_way = first.is_some_and(|(queue, key)| self.fair.displaces(queue, key, prev_queue, standing.key));
            if standing.attended && !gives_way {
                return prev;
            }
        }
        if let Some(task) = self.fair.take(&mut self.at) {
            return Some(task);
        }
        let is_first = prev.is_some_and(|task| self.others.is_first(task));
        if is_first && runs_other && machine.nr_cpus() == 1 && self.overdue.is_empty() {
            return prev;
        }
        self.take_other().or(prev)
    }
}

impl Scheduler for Appease {
    fn add(&mut self, _machine: &Machine, task: TaskId) {
        self.others.add(task);
    }

    fn enqueue(&mut self, machine: &Machine, task: TaskId, why: Why) -> Option<CpuId> {
        match why {
            Why::TurnOver => {
                self.cpus[machine.task(task).cpu as usize].held = Some(task);
                return None;
            }
            Why::Woken(waker) => {
                self.others.wakes(task);
                self.end_answered(task, machine.now_ns());
                self.consider_loan(machine, task, waker, machine.now_ns());
            }
            Why::Displaced | Why::New => {}
        }
        self.queue(machine, task, why != Why::Displaced)
    }

    fn pick(&mut self, machine: &Machine, cpu: CpuId) -> Option<TaskId> {
        let held = self.cpus[cpu as usize].held.take();
        let local = self.cpus[cpu as usize].local.take();
        let next = local.or_else(|| {
            self.cpus[cpu as usize].turn = false;
            self.cpus[cpu as usize].turn_until_ns = 0;
            self.next(machine, cpu, held)
        });
        if let Some(held) = held {
            if next == Some(held) {
                self.processes[held as usize].slice_ns = SLICE_NS;
            } else {
                self.queue(machine, held, false);
            }
        }
        if let Some(next) = next {
            self.others.begins(next);
        }
        next
    }

    fn slice_ns(&mut self, machine: &Machine, cpu: CpuId, task: TaskId) -> u64 {
        let (slice_ns, until_ns) = (self.processes[task as usize].slice_ns, self.cpus[cpu as usize].turn_until_ns);
        // Also who displaces the other lane at its turn is looked at when that is over.
        if until_ns > 0 { slice_ns.min(until_ns.saturating_sub(machine.now_ns())).max(1) } else { slice_ns }
    }

    fn charge(&mut self, machine: &Machine, cpu: CpuId, task: TaskId, ran_ns: u64) {
        let now_ns = machine.now_ns();
        let Process { lane, queued_ns, .. } = self.processes[task as usize];
        let waited_ns = if queued_ns == 0 { 0 } else { now_ns - queued_ns - ran_ns };
        let attended = self.charge_attended(task, ran_ns, now_ns)
            || (lane == Lane::Attended && self.borrows_turn(task, waited_ns, now_ns));
        let process = &mut self.processes[task as usize];
        process.lane = if attended { Lane::Attended } else { Lane::Other };
        process.queued_ns = 0;
        self.others.charge(task, ran_ns, machine.task(task).nice.weight(), attended);
        // A turn of the other lane is one also if somebody is attended by its end.
        let cpu = &mut self.cpus[cpu as usize];
        if !attended || cpu.turn {
            cpu.other_ns += ran_ns;
            cpu.unpaid_ns += ran_ns;
        }
    }

    fn slept(&mut self, _machine: &Machine, _cpu: CpuId, _task: TaskId) {}

    fn read(&mut self, machine: &Machine, task: TaskId, visit: VisitId, message: Message) {
        let stamp = self.stamps.get(visit as usize).copied().unwrap_or(Attention::NOBODY);
        self.note_message(machine, task, stamp, message);
    }

    fn wrote(&mut self, machine: &Machine, task: TaskId, visit: VisitId) {
        if self.stamps.len() <= visit as usize {
            self.stamps.resize(visit as usize + 1, Attention::NOBODY);
        }
        self.stamps[visit as usize] = self.stamp(task, machine.message(visit).terminal, machine.now_ns());
    }

    fn responded(&mut self, machine: &Machine, task: TaskId) {
        self.respond(machine, task);
    }

    fn looks_each_ns(&self) -> Option<u64> {
        Some(SCAN_NS)
    }

    /// Moves who waited too long in the other lane to the overdue: somebody attended waits that long only when it was
    /// outranked. The kernel goes through its queue in order, this in that of its heap.
    fn look(&mut self, machine: &Machine) {
        let now_ns = machine.now_ns();
        let late = |task: TaskId| self.processes[task as usize].queued_ns + LONGEST_WAIT_NS < now_ns;
        let late: Vec<TaskId> = self.others.iter().take(SCAN_MAX).filter(|&task| late(task)).collect();
        for task in late {
            self.others.remove(&mut self.at, task);
            self.overdue.push_back(task);
        }
        self.fair.forget();
        self.scans += 1;
        if self.scans.is_multiple_of(SCANS_PER_SWEEP) {
            self.requests.sweep(now_ns);
        }
    }
}
