//! Our policy `appease`. Keys, budgets, loans, virtual time and guarantees are computed by the headers in `bpf/policy`, through
//! `appease-policy`; what is here stands for the hooks (`bpf/sense`) and for the queues (`bpf/sched.bpf.c`, `bpf/lanes.bpf.h`).
//!
//! Only what a kernel can see counts: a request is opened when a process reads it, not when it was sent; answers are known by
//! nothing but that they are messages. Left out, since nothing here has them: kernel threads, realtime tasks, batch and
//! idle ones, locks, shared memory, sound; and the short cut for two that wake each other on an idle machine with one CPU,
//! which saves instructions and changes no order that a customer could feel.

use std::collections::VecDeque;

use appease_policy::{
    PROGRESS_PIECE_NS, budget_extended, budget_limited, loan_debt, loan_granted, progress_catch_up, progress_charge,
    progress_clock, progress_next_share, progress_overdue_fits, progress_overdue_until, progress_owed, progress_start,
    unhappiness_key, unhappiness_opened, unhappiness_preempts,
};

use super::{Scheduler, Waker, Why};
use crate::{
    CpuId, MS, Machine, Message, MessageKind, NONE, SECOND, TaskId, VisitId,
    heap::{Heap, Positions},
};

// Settings of the programs, which stand beside their maps and not in the headers.
const SLICE_NS: u64 = 3 * MS;
const PIECE_NS: u64 = PROGRESS_PIECE_NS as u64;
const EPOCH_NS: u64 = 200 * MS;
const LONGEST_WAIT_NS: u64 = SECOND;
const OTHER_SHARE_PCT: u32 = 5;
const PREEMPT_MARGIN_NS: u64 = 200_000;
const SCAN_NS: u64 = 100 * MS;
const SCAN_MAX: usize = 1024;
const ATTENTION_NS: u64 = 4 * SECOND;
const RETENTION_NS: u64 = 8 * SECOND;
const LOAN_NS: u64 = MS;
const LOAN_DEBT_LIMIT_NS: u64 = 5 * MS;
const HORIZON_NS: u64 = 12 * MS;
const LATEST_NS: u64 = 250 * MS;
const REQUEST_WEIGHT: u32 = 25;
const BUDGET_NS: u64 = 2 * SECOND;
const QUIET_NS: u64 = 300 * MS;
const MAX_HOPS: usize = 8;
const NR_REQUESTS: usize = 4096;

/// A request as the programs know it; the oldest slot is used anew.
#[derive(Debug, Clone, Copy, Default)]
struct Request {
    /// 0: none.
    id: u64,
    opened_ns: u64,
    served_ns: u64,
    budget_ns: u64,
}

/// That a process serves a request, or what a message says of it.
#[derive(Debug, Clone, Copy)]
struct Attention {
    /// 0: none.
    id: u64,
    slot: u32,
    until_ns: u64,
    nr_hops: usize,
    path: [TaskId; MAX_HOPS],
}

impl Attention {
    const NOBODY: Self = Self { id: 0, slot: 0, until_ns: 0, nr_hops: 0, path: [NONE; MAX_HOPS] };

    /// Whether it has been with `task` on its way from the customer.
    fn has_passed(&self, task: TaskId) -> bool {
        self.path[..self.nr_hops.saturating_sub(1)].contains(&task)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    Attended,
    Other,
}

#[derive(Debug, Clone, Copy)]
struct Process {
    attention: Attention,
    /// Request of the last message that it read; 0: one without.
    context_id: u64,
    context_opened_ns: u64,
    reads_channel: bool,
    loan_until_ns: u64,
    loan_opened_ns: u64,
    loan_debt_ns: u64,
    loan_debt_at_ns: u64,
    loan_ran_ns: u64,
    vtime: u64,
    queued_ns: u64,
    lane: Lane,
}

#[derive(Debug, Clone, Copy, Default)]
struct Cpu {
    epoch_start_ns: u64,
    share_ns: u64,
    other_ns: u64,
    /// CPU time of the other lane in all, and as of the last look at what it is due.
    all_other_ns: u64,
    seen_other_ns: u64,
    overdue_until_ns: u64,
    /// The other lane is at its guaranteed turn.
    turn: bool,
    /// Whose slice is over; it is queued only when another one is picked.
    held: Option<TaskId>,
    /// Who displaces what runs there: it is next, whoever else waits.
    local: Option<TaskId>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Standing {
    attended: bool,
    on_loan: bool,
    key: u64,
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
    requests: Vec<Request>,
    last_id: u64,
    next_slot: usize,
    processes: Vec<Process>,
    /// By visit: what the message that is on its way to it says.
    stamps: Vec<Attention>,
    cpus: Vec<Cpu>,
    attended: Heap<u64>,
    other: Heap<u64>,
    overdue: VecDeque<TaskId>,
    at: Positions,
    queue_vtime: u64,
}

impl Appease {
    /// As it is attached to a machine.
    #[must_use]
    pub fn new(cpus: u32, tasks: usize) -> Self {
        let process = Process {
            attention: Attention::NOBODY,
            context_id: 0,
            context_opened_ns: 0,
            reads_channel: false,
            loan_until_ns: 0,
            loan_opened_ns: 0,
            loan_debt_ns: 0,
            loan_debt_at_ns: 0,
            loan_ran_ns: 0,
            vtime: 0,
            queued_ns: 0,
            lane: Lane::Other,
        };
        Self {
            requests: vec![Request::default(); NR_REQUESTS],
            last_id: 0,
            next_slot: 0,
            processes: vec![process; tasks],
            stamps: Vec::new(),
            cpus: vec![Cpu::default(); cpus as usize],
            attended: Heap::default(),
            other: Heap::default(),
            overdue: VecDeque::new(),
            at: Positions::new(tasks),
            queue_vtime: 0,
        }
    }

    fn process(&mut self, task: TaskId) -> &mut Process {
        &mut self.processes[task as usize]
    }

    /// The request that an attention is for, unless it expired or its slot is used anew.
    fn unexpired(&self, attention: &Attention, now_ns: u64) -> Option<&Request> {
        let request = &self.requests[attention.slot as usize];
        (attention.id != 0 && now_ns < attention.until_ns && request.id == attention.id).then_some(request)
    }

    fn served_by(&self, task: TaskId, now_ns: u64) -> Option<&Request> {
        let attention = &self.processes[task as usize].attention;
        self.unexpired(attention, now_ns).filter(|request| request.served_ns < request.budget_ns)
    }

    fn judge(&self, task: TaskId, now_ns: u64) -> Standing {
        let process = &self.processes[task as usize];
        let key = |opened_ns, served_ns| {
            unhappiness_key(unhappiness_opened(opened_ns, now_ns, HORIZON_NS), served_ns, REQUEST_WEIGHT)
        };
        if let Some(request) = self.served_by(task, now_ns) {
            let key = key(request.opened_ns, request.served_ns);
            Standing { attended: true, on_loan: false, key, slot: process.attention.slot }
        } else if now_ns < process.loan_until_ns {
            let key = key(process.loan_opened_ns, process.loan_ran_ns);
            Standing { attended: true, on_loan: true, key, slot: 0 }
        } else {
            Standing::default()
        }
    }

    fn is_retained(&self, task: TaskId, now_ns: u64) -> bool {
        let attention = &self.processes[task as usize].attention;
        let request = &self.requests[attention.slot as usize];
        let lately = (attention.until_ns..attention.until_ns + RETENTION_NS - ATTENTION_NS).contains(&now_ns);
        attention.id != 0 && lately && request.id == attention.id && request.served_ns < request.budget_ns
    }

    /// The request for which a process speaks: that of the last message that it read.
    fn spoken_for(&self, task: TaskId, now_ns: u64) -> bool {
        let process = &self.processes[task as usize];
        process.context_id != 0
            && process.context_id == process.attention.id
            && self.unexpired(&process.attention, now_ns).is_some_and(|request| request.served_ns < BUDGET_NS)
    }

    /// A wake-up may lend a turn.
    fn consider_loan(&mut self, task: TaskId, waker: Waker, now_ns: u64) {
        let opened_ns = match waker {
            Waker::Task(writer) if self.spoken_for(writer, now_ns) => self.processes[writer as usize].context_opened_ns,
            Waker::Customer if self.processes[task as usize].reads_channel => now_ns,
            _ if self.is_retained(task, now_ns) => now_ns,
            _ => return,
        };
        if self.served_by(task, now_ns).is_some() {
            return;
        }
        let process = self.process(task);
        process.loan_debt_ns = loan_debt(process.loan_debt_ns, now_ns - process.loan_debt_at_ns);
        process.loan_debt_at_ns = now_ns;
        if loan_granted(process.loan_debt_ns, LOAN_DEBT_LIMIT_NS) {
            process.loan_until_ns = now_ns + 100 * LOAN_NS;
            process.loan_opened_ns = opened_ns;
            process.loan_ran_ns = 0;
        }
    }

    fn open(&mut self, task: TaskId, now_ns: u64) {
        let slot = self.next_slot;
        self.next_slot = (slot + 1) % NR_REQUESTS;
        self.last_id += 1;
        let id = self.last_id;
        self.requests[slot] = Request { id, opened_ns: now_ns, served_ns: 0, budget_ns: BUDGET_NS };
        let process = self.process(task);
        process.reads_channel = true;
        process.attention = Attention { id, slot: slot as u32, until_ns: now_ns + ATTENTION_NS, ..Attention::NOBODY };
        process.context_id = id;
        process.context_opened_ns = now_ns;
        process.loan_until_ns = 0;
        process.loan_debt_ns = 0;
    }

    /// A message of another process.
    fn note_read(&mut self, task: TaskId, stamp: Attention, terminal: bool, now_ns: u64) {
        if self.unexpired(&stamp, now_ns).is_none_or(|request| request.served_ns >= BUDGET_NS) {
            self.process(task).context_id = 0;
            return;
        }
        let request = &mut self.requests[stamp.slot as usize];
        if stamp.has_passed(task) {
            request.budget_ns = budget_extended(request.budget_ns, request.served_ns, QUIET_NS, BUDGET_NS);
        } else if terminal {
            request.budget_ns = budget_limited(request.budget_ns, request.served_ns, QUIET_NS);
        }
        let (is_spent, opened_ns) = (request.served_ns >= request.budget_ns, request.opened_ns);
        let process = self.process(task);
        if is_spent {
            if process.attention.id != stamp.id {
                process.context_id = 0;
            }
            return;
        }
        process.context_id = stamp.id;
        process.context_opened_ns = opened_ns;
        process.loan_until_ns = 0;
        process.loan_debt_ns = 0;
        if process.attention.id != stamp.id {
            process.attention = stamp;
        }
    }

    fn worth_of(&self, machine: &Machine, cpu: CpuId, key: u64) -> Worth {
        let Some(running) = machine.running(cpu).filter(|_| self.cpus[cpu as usize].local.is_none()) else {
            return Worth::Keeping;
        };
        let standing = self.judge(running, machine.now_ns());
        if standing.attended {
            let displaces = unhappiness_preempts(key, standing.key, PREEMPT_MARGIN_NS);
            return if displaces { Worth::Less } else { Worth::Keeping };
        }
        if self.cpus[cpu as usize].turn { Worth::Keeping } else { Worth::Nothing }
    }

    /// The CPU that does the least important work, the nearest first.
    fn find_victim(&self, machine: &Machine, task: TaskId, key: u64) -> Option<CpuId> {
        let own = machine.task(task).cpu;
        let mut less = None;
        for cpu in std::iter::once(own).chain((0..machine.nr_cpus()).filter(|&cpu| cpu != own)) {
            match self.worth_of(machine, cpu, key) {
                Worth::Nothing => return Some(cpu),
                Worth::Less => less = less.or(Some(cpu)),
                Worth::Keeping => {}
            }
        }
        less
    }

    fn queue_attended(&mut self, task: TaskId, key: u64, now_ns: u64) {
        let process = self.process(task);
        process.lane = Lane::Attended;
        process.queued_ns = now_ns;
        self.attended.push(&mut self.at, task, key.min(now_ns + LATEST_NS));
    }

    fn queue_other(&mut self, task: TaskId, now_ns: u64) {
        let queue_vtime = self.queue_vtime;
        let process = self.process(task);
        process.vtime = progress_catch_up(process.vtime, queue_vtime, SLICE_NS);
        process.lane = Lane::Other;
        process.queued_ns = now_ns;
        let vtime = process.vtime;
        self.other.push(&mut self.at, task, vtime);
    }

    /// Queues a task where it belongs now.
    fn queue(&mut self, task: TaskId, now_ns: u64) {
        let standing = self.judge(task, now_ns);
        if standing.attended {
            self.queue_attended(task, standing.key, now_ns);
        } else {
            self.queue_other(task, now_ns);
        }
    }

    fn take_attended(&mut self) -> Option<TaskId> {
        self.attended.pop(&mut self.at).map(|(_, task)| task)
    }

    fn take_other(&mut self) -> Option<TaskId> {
        self.overdue.pop_front().or_else(|| {
            let (vtime, task) = self.other.pop(&mut self.at)?;
            self.queue_vtime = self.queue_vtime.max(vtime);
            Some(task)
        })
    }

    fn turn_epoch(&mut self, cpu: CpuId, runs_other: bool, now_ns: u64) {
        let has_work = runs_other || self.other.len() > 0 || !self.overdue.is_empty();
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
        let ran_ns = state.all_other_ns - state.seen_other_ns;
        state.overdue_until_ns = progress_overdue_until(state.overdue_until_ns, now_ns, ran_ns);
        state.seen_other_ns = state.all_other_ns;
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
        let first_key = self.attended.peek().map(|(key, _)| key);
        if first_key.is_some() || standing.attended {
            if let Some(task) = self.take_due(cpu, now_ns) {
                self.cpus[cpu as usize].turn = true;
                return Some(task);
            }
            let gives_way = first_key.is_some_and(|key| unhappiness_preempts(key, standing.key, PREEMPT_MARGIN_NS));
            if standing.attended && !gives_way {
                return prev;
            }
        }
        if let Some(task) = self.take_attended() {
            return Some(task);
        }
        if runs_other && machine.nr_cpus() == 1 && self.overdue.is_empty() {
            let vtime = prev.map_or(u64::MAX, |task| self.processes[task as usize].vtime);
            if self.other.peek().is_some_and(|(first, _)| vtime < first) {
                return prev;
            }
        }
        self.take_other().or(prev)
    }
}

impl Scheduler for Appease {
    fn add(&mut self, _machine: &Machine, task: TaskId) {
        let (vtime, queue_vtime) = (self.processes[task as usize].vtime, self.queue_vtime);
        self.process(task).vtime = progress_start(vtime, queue_vtime, SLICE_NS);
    }

    fn enqueue(&mut self, machine: &Machine, task: TaskId, why: Why) -> Option<CpuId> {
        let now_ns = machine.now_ns();
        match why {
            Why::TurnOver => {
                self.cpus[machine.task(task).cpu as usize].held = Some(task);
                return None;
            }
            Why::Displaced => {
                self.queue(task, now_ns);
                return None;
            }
            Why::Woken(waker) => self.consider_loan(task, waker, now_ns),
            Why::New => {}
        }
        self.queue(task, now_ns);
        if let Some(cpu) = machine.idle_cpu(task) {
            return Some(cpu);
        }
        let standing = self.judge(task, now_ns);
        let cpu = standing.attended.then(|| self.find_victim(machine, task, standing.key)).flatten()?;
        self.attended.remove(&mut self.at, task);
        self.cpus[cpu as usize].local = Some(task);
        Some(cpu)
    }

    fn pick(&mut self, machine: &Machine, cpu: CpuId) -> Option<TaskId> {
        let held = self.cpus[cpu as usize].held.take();
        let local = self.cpus[cpu as usize].local.take();
        let next = local.or_else(|| {
            self.cpus[cpu as usize].turn = false;
            self.next(machine, cpu, held)
        });
        if let Some(held) = held.filter(|&held| next != Some(held)) {
            self.queue(held, machine.now_ns());
        }
        next
    }

    fn slice_ns(&mut self, machine: &Machine, cpu: CpuId, task: TaskId) -> u64 {
        if self.cpus[cpu as usize].turn {
            return PIECE_NS;
        }
        if self.judge(task, machine.now_ns()).on_loan { LOAN_NS } else { SLICE_NS }
    }

    fn charge(&mut self, machine: &Machine, cpu: CpuId, task: TaskId, ran_ns: u64) {
        let standing = self.judge(task, machine.now_ns());
        if !standing.attended {
            let (vtime, weight) = (self.processes[task as usize].vtime, machine.task(task).nice.weight_pct());
            self.queue_vtime = progress_clock(self.queue_vtime, vtime, ran_ns);
            self.cpus[cpu as usize].other_ns += ran_ns;
            self.cpus[cpu as usize].all_other_ns += ran_ns;
            let process = self.process(task);
            process.vtime += progress_charge(ran_ns, weight);
            process.lane = Lane::Other;
            return;
        }
        self.process(task).lane = Lane::Attended;
        if standing.on_loan {
            let process = self.process(task);
            process.loan_ran_ns += ran_ns;
            process.loan_debt_ns += ran_ns;
            if process.loan_ran_ns >= LOAN_NS {
                process.loan_until_ns = 0;
            }
        } else {
            self.requests[standing.slot as usize].served_ns += ran_ns;
        }
    }

    fn slept(&mut self, _machine: &Machine, _cpu: CpuId, _task: TaskId) {}

    fn read(&mut self, machine: &Machine, task: TaskId, visit: VisitId, message: Message) {
        let now_ns = machine.now_ns();
        if message.kind == MessageKind::Request {
            self.open(task, now_ns);
        } else {
            let stamp = self.stamps.get(visit as usize).copied().unwrap_or(Attention::NOBODY);
            self.note_read(task, stamp, message.terminal, now_ns);
        }
    }

    fn wrote(&mut self, machine: &Machine, task: TaskId, visit: VisitId) {
        if self.stamps.len() <= visit as usize {
            self.stamps.resize(visit as usize + 1, Attention::NOBODY);
        }
        let mut stamp = Attention::NOBODY;
        let from = &self.processes[task as usize].attention;
        if self.spoken_for(task, machine.now_ns()) && from.nr_hops < MAX_HOPS {
            stamp = *from;
            stamp.path[stamp.nr_hops] = task;
            stamp.nr_hops += 1;
        }
        self.stamps[visit as usize] = stamp;
    }

    fn looks_each_ns(&self) -> Option<u64> {
        Some(SCAN_NS)
    }

    /// Moves who waited too long to the overdue. The kernel goes through its queues in their order, this in that of its heaps.
    fn look(&mut self, machine: &Machine) {
        for heap in [&mut self.attended, &mut self.other] {
            let late = |task: TaskId| self.processes[task as usize].queued_ns + LONGEST_WAIT_NS < machine.now_ns();
            let late: Vec<TaskId> =
                heap.iter().take(SCAN_MAX).map(|(_, task)| task).filter(|&task| late(task)).collect();
            for task in late {
                heap.remove(&mut self.at, task);
                self.overdue.push_back(task);
            }
        }
    }
}
