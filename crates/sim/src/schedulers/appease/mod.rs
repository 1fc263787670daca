//! Our policy `appease`. Keys, budgets, loans, virtual times, guarantees and ends are computed by the headers in
//! `bpf/policy`, through `appease-policy`; what is here stands for the hooks (`bpf/sense`) and for the queues
//! (`bpf/sched.bpf.c`, `bpf/charge.bpf.h`, `bpf/attended.bpf.h`):
//!
//! - `requests`: requests and customers, and when a request is over,
//! - `process`: whom a process serves, the turns that it is lent, and who pays for its turns,
//! - `fair`: the attended lane's queues,
//! - `super::others`: the other lane's queues,
//! - `parties`: the root and cgroups, which share the other lane,
//! - `domains`: which CPUs share a cache, and so queues, and when one takes another one's work,
//! - `near`: caches, cores and speeds: which CPU a task wakes up on, and when one of another domain comes for it,
//! - here: the lanes, and who is next.
//!
//! Only what a kernel can see counts: a request is opened when a process reads it, not when it was sent; of an answer
//! it is seen that a process writes back to the customer, not whether that is all. Left out, since nothing here has
//! them: threads, kernel threads, realtime tasks, batch and idle ones, locks, shared memory, programs that must not be
//! interrupted, sound; that a called CPU is waited for, and interrupts of CPUs; and the short cuts for idle CPUs and for two that wake each other on an idle machine with one
//! CPU, which save instructions and change no order that a customer could feel.

mod domains;
mod fair;
mod near;
mod parties;
mod process;
mod requests;

use std::{cell::Cell, collections::VecDeque, ops::Range};

use appease_policy::{
    PLACEMENT_CPU_LOOKS, PROGRESS_PIECE_NS, progress_had, progress_next_share, progress_overdue_fits,
    progress_overdue_until, progress_owed,
};

use self::{
    domains::Domains,
    fair::{FAIR_QUEUES, Fair, queue_of},
    parties::{Parties, PartyId},
    process::{Attention, LOAN_NS, Process},
    requests::Requests,
};
use super::{Call, Scheduler, Waker, Why, locks::Locks, others::SLICE_NS};
use crate::{CpuId, MS, Machine, Message, SECOND, TaskId, Topology, VisitId, heap::Positions};

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
    /// When the other lane last wanted nothing here.
    rested_ns: u64,
    /// It went idle, and has not had a task since.
    is_idle: bool,
    overdue_until_ns: u64,
    /// The other lane is at its guaranteed turn: only modest customers displace it.
    turn: bool,
    /// When that turn ends, whoever runs then; 0: there was none since the last look for a task.
    turn_until_ns: u64,
    /// Whose slice is over; it is queued only when another one is picked.
    held: Option<TaskId>,
    /// Who displaces what runs there: it is next, whoever else waits.
    local: Option<TaskId>,
    /// It is idle, and was given a task directly.
    given: Option<TaskId>,
    /// Ends of turns in a row that found its core shared.
    shared_turns: u32,
}

impl Cpu {
    /// What the other lane had of this epoch's share, or was not in want of.
    fn had_of_share(&self) -> u64 {
        progress_had(self.rested_ns, self.epoch_start_ns, EPOCH_NS, self.other_ns, self.share_ns)
    }
}

/// Queues of a domain that have locks: those of the attended lane, the other lane's, and that of the overdue.
const OF_OTHERS: usize = FAIR_QUEUES;
const OF_OVERDUE: usize = FAIR_QUEUES + 1;
const LOCKS: usize = FAIR_QUEUES + 2;

fn lock(domain: u32, queue: usize) -> usize {
    domain as usize * LOCKS + queue
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
    domains: Domains,
    fair: Fair,
    parties: Parties,
    /// By domain: who was put into the other lane's queue and when, ns, the earliest first. Some are there no more.
    queued: Vec<VecDeque<(u64, TaskId)>>,
    /// By domain.
    overdue: Vec<VecDeque<TaskId>>,
    /// Idle CPUs that shall look for a task.
    calls: Vec<Call>,
    /// Until when what nobody waits for prefers slow CPUs, ns.
    fast_wanted_until_ns: u64,
    locks: Locks,
    at: Positions,
    scans: u64,
}

impl Appease {
    /// As it is attached to a machine of one cache.
    #[must_use]
    pub fn new(cpus: u32, tasks: usize) -> Self {
        Self::on(Topology::new(cpus, 1), tasks, false)
    }

    /// As it is attached to a machine, with or without the time that its queues' locks take.
    #[must_use]
    pub fn on(topology: Topology, tasks: usize, has_locks: bool) -> Self {
        let (cpus, domains) = (topology.nr_cpus(), Domains::new(topology));
        let number = domains.number();
        Self {
            requests: Requests::new(),
            processes: vec![Process::NEW; tasks],
            stamps: Vec::new(),
            cpus: vec![Cpu::default(); cpus as usize],
            domains,
            fair: Fair::new(cpus, number),
            parties: Parties::new(tasks, cpus, number),
            queued: vec![VecDeque::new(); number as usize],
            overdue: vec![VecDeque::new(); number as usize],
            calls: Vec::new(),
            fast_wanted_until_ns: 0,
            locks: Locks::new(if has_locks { number as usize * LOCKS } else { 0 }),
            at: Positions::new(tasks),
            scans: 0,
        }
    }

    /// With all tasks in one cgroup of weight 100.
    #[must_use]
    pub fn in_cgroup(mut self) -> Self {
        self.parties.put_in_cgroup();
        self
    }

    /// With these tasks in a cgroup of their own, of that `cpu.weight`. They never sleep.
    #[must_use]
    pub fn with_cgroup(mut self, tasks: Range<TaskId>, cpu_weight: u32) -> Self {
        self.parties.add_cgroup(tasks, cpu_weight);
        self
    }

    fn queue_for(&self, task: TaskId) -> usize {
        queue_of(self.processes[task as usize].turn_for)
    }

    fn worth_of(&self, machine: &Machine, cpu: CpuId, queue: usize, key: u64) -> Worth {
        // One that is called is called once.
        let is_called = machine.is_deciding(cpu) || self.cpus[cpu as usize].local.is_some();
        let Some(running) = machine.running(cpu).filter(|_| !is_called) else {
            return Worth::Keeping;
        };
        let standing = self.judge(running, machine.now_ns());
        if standing.attended {
            let displaces = self.fair.displaces(queue, key, self.queue_for(running), standing.key);
            return if displaces { Worth::Less } else { Worth::Keeping };
        }
        if self.cpus[cpu as usize].turn && !self.fair.is_modest(queue) { Worth::Keeping } else { Worth::Nothing }
    }

    /// A CPU that does less important work than a task would which wakes up: the one that woke it, if it is of the same domain, the one
    /// where it ran, others of its domain, those of other domains. As far as they are looked at, as `find_victim()` does. What wakes up on
    /// a slow one has a fast one first. Clocks and customers interrupt the one where it ran.
    fn find_victim(&mut self, machine: &Machine, task: TaskId, key: u64, waking: Option<CpuId>) -> Option<CpuId> {
        let (own, queue) = (machine.task(task).cpu, self.queue_for(task));
        let (home, looks) = (self.domains.of(own), Cell::new(0));
        let worth = |this: &Self, cpu: CpuId| {
            looks.set(looks.get() + 1);
            this.worth_of(machine, cpu, queue, key)
        };
        let plain_near = |this: &Self, fast_only: bool| {
            let is_asked = |&domain: &u32| !fast_only || this.domains.topology().is_fast(domain);
            this.domains.near(home).filter(is_asked).find_map(|domain| {
                let mut cpus = this.domains.plain_cpus(domain).take(PLACEMENT_CPU_LOOKS as usize);
                cpus.find(|&cpu| worth(this, cpu) == Worth::Nothing)
            })
        };
        let mut find = || {
            let (topology, wakes_on) = (self.domains.topology(), self.domains.of(waking.unwrap_or(own)));
            if topology.has_slow() && !topology.is_fast(wakes_on) {
                let fast = plain_near(self, true);
                if fast.is_some() {
                    return fast;
                }
            }
            let near = waking.filter(|&cpu| cpu != own && self.domains.of(cpu) == home);
            if let Some(cpu) = near.filter(|&cpu| worth(self, cpu) == Worth::Nothing) {
                return Some(cpu);
            }
            let worth_of_own = worth(self, own);
            if worth_of_own == Worth::Nothing {
                return Some(own);
            }
            let plain = plain_near(self, false);
            if plain.is_some() {
                return plain;
            }
            if worth_of_own == Worth::Less {
                return Some(own);
            }
            let first = self.domains.begin_look(home);
            let mut cpus = self.domains.cpus_from(home, first).take(PLACEMENT_CPU_LOOKS as usize);
            cpus.find(|&cpu| worth(self, cpu) == Worth::Less)
        };
        let found = find();
        self.locks.note_search(looks.get());
        found
    }

    /// Queues an attended task by its key; if it wakes up, a CPU is called whose task is worth less. The waking CPU, or
    /// an idle one, takes it at once.
    fn queue_attended(
        &mut self,
        machine: &Machine,
        task: TaskId,
        standing: &Standing,
        waker: Option<Waker>,
    ) -> Option<CpuId> {
        let now_ns = machine.now_ns();
        self.note_turn(task, standing, waker.is_some());
        let process = &mut self.processes[task as usize];
        process.lane = Lane::Attended;
        process.queued_ns = now_ns;
        process.slice_ns = if standing.on_loan { LOAN_NS } else { SLICE_NS };
        let (queue, key) = (self.queue_for(task), standing.key.min(now_ns + LATEST_NS));
        self.fair.catches_up(queue);
        let mut called = None;
        if let Some(waker) = waker {
            // The only CPU is the waking one also where a customer's request wakes the task.
            let waking = match waker {
                Waker::Task(writer) => Some(machine.task(writer).cpu),
                Waker::Timer | Waker::Customer => (machine.nr_cpus() == 1).then_some(0),
            };
            let idle = self.wakes_on(machine, task, waker, true);
            called = idle.or_else(|| self.find_victim(machine, task, key, waking));
            if let Some(cpu) = called.filter(|_| idle.is_some() || called == waking) {
                // What a modest customer has in place of the other lane's turn is not the other lane's.
                self.cpus[cpu as usize].turn = false;
                self.cpus[cpu as usize].local = Some(task);
                return Some(cpu);
            }
            called = called.or_else(|| machine.idle_cpu(task));
        } else {
            self.call_any(machine, task);
        }
        let domain = self.domains.of(called.unwrap_or(machine.task(task).cpu));
        self.fair.fills(domain, queue);
        self.fair.push(&mut self.at, domain, queue, task, key);
        self.locks.insert(lock(domain, queue));
        called
    }

    /// The idle CPU that a task takes which wakes up. `None`: there is none, or it waits for another one.
    fn wakes_on(&mut self, machine: &Machine, task: TaskId, waker: Waker, is_attended: bool) -> Option<CpuId> {
        if self.domains.topology().has_slow() {
            self.idle_by_speed(machine, task, is_attended)
        } else {
            self.idle_for(machine, task, waker, is_attended)
        }
    }

    /// Queues a task in the other lane, or gives it to an idle CPU. The CPU that is to run it at once, if any.
    fn queue_other(&mut self, machine: &Machine, task: TaskId, waker: Option<Waker>) -> Option<CpuId> {
        let idle = waker.and_then(|waker| self.wakes_on(machine, task, waker, false));
        let cpu = machine.task(task).cpu;
        let waiting = self.parties.waiting(self.domains.of(cpu), self.parties.of(task));
        let domain = self.domains.for_task(cpu, waker.is_some(), waiting);
        let process = &mut self.processes[task as usize];
        process.lane = Lane::Other;
        process.queued_ns = machine.now_ns();
        process.queued_in = domain as u16;
        process.slice_ns = SLICE_NS;
        self.parties.others_of(task).arrives(domain, task, waker.is_some());
        if let Some(cpu) = idle {
            self.cpus[cpu as usize].given = Some(task);
            return idle;
        }
        let clock = self.domains.clock(domain);
        self.parties.push(&mut self.at, domain, clock, task, waker.is_some(), machine.now_ns());
        self.queued[domain as usize].push_back((machine.now_ns(), task));
        self.locks.insert(lock(domain, OF_OTHERS));
        let displaced = waker.and_then(|waker| self.displaces_other(machine, task, waker));
        if displaced.is_none() {
            self.call_near(machine, task, domain);
        }
        displaced
    }

    /// Whether a task that wakes up in the other lane takes its CPU from who has it.
    fn displaces_other(&mut self, machine: &Machine, task: TaskId, waker: Waker) -> Option<CpuId> {
        let cpu = machine.task(task).cpu;
        let running = machine.running(cpu)?;
        let is_kept = machine.is_deciding(cpu)
            || self.cpus[cpu as usize].local.is_some()
            || self.judge(running, machine.now_ns()).attended;
        (!is_kept && self.parties.displaces(machine, task, waker, cpu, running)).then_some(cpu)
    }

    /// Queues a task where it belongs now; a new one wakes up, too. The CPU that is to run it at once, if any.
    fn queue(&mut self, machine: &Machine, task: TaskId, waker: Option<Waker>) -> Option<CpuId> {
        let standing = self.judge(task, machine.now_ns());
        if standing.attended {
            return self.queue_attended(machine, task, &standing, waker);
        }
        self.queue_other(machine, task, waker)
    }

    fn find_overdue(&mut self, domain: u32, now_ns: u64) {
        let mut found = 0;
        while found < SCAN_MAX
            && let Some(&(queued_ns, task)) = self.queued[domain as usize].front()
            && queued_ns + LONGEST_WAIT_NS < now_ns
        {
            self.queued[domain as usize].pop_front();
            let process = &self.processes[task as usize];
            // Or it had its turn since, and may wait again, here or elsewhere.
            let waits = process.queued_ns == queued_ns && u32::from(process.queued_in) == domain;
            if waits && process.lane == Lane::Other && self.at.holds(task) {
                self.parties.others_of(task).remove(&mut self.at, domain, task);
                self.overdue[domain as usize].push_back(task);
                found += 1;
            }
        }
    }

    fn take_overdue(&mut self, domain: u32) -> Option<TaskId> {
        let task = self.overdue[domain as usize].pop_front()?;
        self.locks.remove(lock(domain, OF_OVERDUE));
        Some(task)
    }

    /// Takes a task of the party that goes next in a domain.
    fn take_party(&mut self, domain: u32) -> Option<TaskId> {
        let party = self.next_party(domain)?;
        self.take_of(domain, party)
    }

    /// The party that goes next in a domain: its clock follows.
    fn next_party(&mut self, domain: u32) -> Option<PartyId> {
        let party = self.parties.first_in(domain)?;
        if !self.parties.is_only_root(domain) {
            self.domains.advance(domain, self.parties.vtime(party));
        }
        Some(party)
    }

    fn take_of(&mut self, domain: u32, party: PartyId) -> Option<TaskId> {
        let task = self.parties.pop(&mut self.at, domain, party)?;
        self.locks.remove(lock(domain, OF_OTHERS));
        Some(task)
    }

    /// One of the party that goes next in another domain, if that is due in this one.
    fn take_behind(&mut self, here: u32) -> Option<TaskId> {
        let there = self.domains.behind(here)?;
        self.locks.note_elsewhere(1);
        let Some(party) = self.parties.first_in(there) else {
            self.domains.none_is_due(here, there);
            return None;
        };
        let vtime = self.parties.vtime(party);
        self.domains.advance(there, vtime);
        if self.domains.is_due(vtime, here) { self.take_of(there, party) } else { None }
    }

    /// One of another domain that is due before the task of its party with which this one would go on.
    fn take_lagging(&mut self, domain: u32, task: Option<TaskId>) -> Option<TaskId> {
        let task = task?;
        let there = self.parties.others_of(task).lagging(domain, task)?;
        self.locks.note_elsewhere(1);
        self.take_of(there, self.parties.of(task))
    }

    fn take_attended(&mut self, domain: u32) -> Option<TaskId> {
        let (task, queue) = self.fair.take(&mut self.at, domain)?;
        self.locks.remove(lock(domain, queue));
        Some(task)
    }

    /// The same of another domain, the nearest first.
    fn take_attended_elsewhere(&mut self, here: u32) -> Option<TaskId> {
        if !self.fair.holds_elsewhere(here) {
            return None;
        }
        let there = self.domains.others(here).find(|&there| self.fair.holds(there))?;
        self.locks.note_elsewhere(1);
        self.take_attended(there)
    }

    /// The next task of the other lane: one that is overdue, one whose party is due here, one of this domain; if the CPU
    /// has nothing to do, one of any other.
    fn take_other(&mut self, machine: &Machine, domain: u32, runs_other: bool) -> Option<TaskId> {
        if let Some(task) = self.take_overdue(domain) {
            return Some(task);
        }
        if let Some(task) = self.take_behind(domain) {
            return Some(task);
        }
        let party = self.next_party(domain);
        let first = party.and_then(|party| self.parties.first(domain, party));
        let task = self.take_lagging(domain, first).or_else(|| self.take_of(domain, party?));
        if task.is_some() || runs_other || self.domains.number() == 1 {
            task
        } else {
            self.take_other_elsewhere(machine, domain)
        }
    }

    /// One of another domain, the nearest first: one that has waited there for long enough, or one that is overdue.
    fn take_other_elsewhere(&mut self, machine: &Machine, here: u32) -> Option<TaskId> {
        for (looks, there) in (1..).zip(self.domains.others(here)) {
            let first = self.parties.first_in(there).and_then(|party| self.parties.first(there, party));
            let waits = first.is_some_and(|first| self.may_move(first, machine.now_ns()));
            let task = if waits { self.take_party(there) } else { None };
            if task.is_some() {
                self.call_next(machine, here);
            }
            let task = task.or_else(|| self.take_overdue(there));
            if task.is_some() {
                self.locks.note_elsewhere(looks);
                return task;
            }
        }
        self.locks.note_elsewhere(self.domains.number() - 1);
        None
    }

    /// Whether the other lane wants something of a domain.
    fn has_work(&self, domain: u32, runs_other: bool) -> bool {
        runs_other || self.parties.len(domain) > 0 || !self.overdue[domain as usize].is_empty()
    }

    fn turn_epoch(&mut self, cpu: CpuId, domain: u32, runs_other: bool, now_ns: u64) {
        let has_work = self.has_work(domain, runs_other);
        let cpu = &mut self.cpus[cpu as usize];
        if now_ns - cpu.epoch_start_ns >= EPOCH_NS {
            let had_ns = cpu.had_of_share();
            cpu.share_ns = progress_next_share(EPOCH_NS, OTHER_SHARE_PCT, cpu.share_ns, had_ns, has_work);
            cpu.epoch_start_ns = now_ns;
            cpu.other_ns = 0;
        }
    }

    /// What the other lane must get before attended work.
    fn take_due(&mut self, machine: &Machine, cpu: CpuId, domain: u32, runs_other: bool) -> Option<TaskId> {
        let now_ns = machine.now_ns();
        let has_work = self.has_work(domain, runs_other);
        let state = &mut self.cpus[cpu as usize];
        let unpaid_ns = std::mem::take(&mut state.unpaid_ns);
        state.overdue_until_ns = progress_overdue_until(state.overdue_until_ns, now_ns, unpaid_ns);
        if !has_work {
            state.rested_ns = now_ns;
        }
        let Cpu { epoch_start_ns, share_ns, overdue_until_ns, .. } = *state;
        if has_work && progress_owed(now_ns, epoch_start_ns, EPOCH_NS, state.had_of_share(), share_ns) > 0 {
            return self.take_other(machine, domain, runs_other);
        }
        if progress_overdue_fits(overdue_until_ns, now_ns) { self.take_overdue(domain) } else { None }
    }

    /// The next task, as `appease_dispatch()` finds it; `prev` is the one whose slice is over, or `given` the one that the idle CPU is
    /// given. `None`: there is none, or `prev` has gone to another core.
    fn next(&mut self, machine: &Machine, cpu: CpuId, prev: Option<TaskId>, given: Option<TaskId>) -> Option<TaskId> {
        let (now_ns, domain) = (machine.now_ns(), self.domains.of(cpu));
        let standing = prev.map(|task| self.judge(task, now_ns)).unwrap_or_default();
        let runs_other = prev.is_some_and(|task| self.processes[task as usize].lane == Lane::Other);
        self.turn_epoch(cpu, domain, runs_other, now_ns);
        let first = self.fair.first(domain);
        if let Some(task) = given {
            self.parties.others_of(task).comes_to(domain, task);
            return given;
        }
        if first.is_some() || standing.attended {
            let prev_queue = prev.map_or(0, |task| self.queue_for(task));
            // The other lane has its turns of those who had more than their part.
            let is_modest = first.is_some_and(|(queue, _)| self.fair.is_modest(queue))
                || (standing.attended && self.fair.is_modest(prev_queue));
            if !is_modest && let Some(task) = self.take_due(machine, cpu, domain, runs_other) {
                self.cpus[cpu as usize].turn = true;
                self.cpus[cpu as usize].turn_until_ns = now_ns + PIECE_NS;
                return Some(task);
            }
            let gives_way = first.is_some_and(|(queue, key)| self.fair.displaces(queue, key, prev_queue, standing.key));
            if standing.attended && !gives_way {
                return prev;
            }
        }
        let attended = self.take_attended(domain);
        let attended = attended.or_else(|| if standing.attended { None } else { self.take_attended_elsewhere(domain) });
        if attended.is_some() {
            return attended;
        }
        if let Some(task) = self.take_lagging(domain, prev.filter(|_| runs_other)) {
            return Some(task);
        }
        let is_first = prev.is_some_and(|task| self.parties.is_first(domain, task));
        if is_first && runs_other && self.overdue[domain as usize].is_empty() {
            return prev;
        }
        let other = self.take_other(machine, domain, runs_other);
        if other.is_some() || prev.is_some_and(|task| self.leaves_core(machine, cpu, task)) { other } else { prev }
    }
}

impl Scheduler for Appease {
    fn add(&mut self, _machine: &Machine, task: TaskId) {
        self.parties.add(task);
    }

    fn enqueue(&mut self, machine: &Machine, task: TaskId, why: Why) -> Option<CpuId> {
        let waker = match why {
            Why::TurnOver => {
                self.cpus[machine.task(task).cpu as usize].held = Some(task);
                return None;
            }
            Why::Woken(waker) => {
                self.parties.others_of(task).wakes(task);
                self.end_answered(task, machine.now_ns());
                self.consider_loan(machine, task, waker, machine.now_ns());
                Some(waker)
            }
            // Its parent wakes it, a task of which the simulation knows nothing.
            Why::New => Some(Waker::Task(task)),
            Why::Displaced => None,
        };
        self.queue(machine, task, waker)
    }

    fn pick(&mut self, machine: &Machine, cpu: CpuId) -> Option<TaskId> {
        let held = self.cpus[cpu as usize].held.take();
        let local = self.cpus[cpu as usize].local.take();
        let given = self.cpus[cpu as usize].given.take();
        let was_idle = std::mem::take(&mut self.cpus[cpu as usize].is_idle);
        if was_idle {
            self.cpus[cpu as usize].rested_ns = machine.now_ns();
        }
        let next = local.or_else(|| {
            self.cpus[cpu as usize].turn = false;
            self.cpus[cpu as usize].turn_until_ns = 0;
            self.next(machine, cpu, held, given)
        });
        // Without a next one it is on another core by now.
        if let (Some(held), Some(next)) = (held, next) {
            if next == held {
                self.processes[held as usize].slice_ns = SLICE_NS;
            } else {
                self.queue(machine, held, None);
            }
        }
        let mut is_plain = false;
        if let Some(next) = next {
            self.parties.others_of(next).begins(next);
            is_plain = self.processes[next as usize].lane == Lane::Other;
        } else if !was_idle && self.domains.number() > 1 {
            self.goes_idle(machine, cpu);
        }
        self.cpus[cpu as usize].is_idle = next.is_none();
        self.domains.note_plain(cpu, is_plain);
        next
    }

    fn slice_ns(&mut self, machine: &Machine, cpu: CpuId, task: TaskId) -> u64 {
        let (mut slice_ns, until_ns) = (self.processes[task as usize].slice_ns, self.cpus[cpu as usize].turn_until_ns);
        // Attended tasks that wait are compared with it after a piece.
        if self.processes[task as usize].lane == Lane::Attended && self.fair.first(self.domains.of(cpu)).is_some() {
            slice_ns = slice_ns.min(PIECE_NS);
        }
        // Also who displaces the other lane at its turn is looked at when that is over.
        if until_ns > 0 { slice_ns.min(until_ns.saturating_sub(machine.now_ns())).max(1) } else { slice_ns }
    }

    fn charge(&mut self, machine: &Machine, cpu: CpuId, task: TaskId, ran_ns: u64) {
        let now_ns = machine.now_ns();
        let Process { lane, queued_ns, .. } = self.processes[task as usize];
        let waited_ns = if queued_ns == 0 { 0 } else { now_ns - queued_ns - ran_ns };
        let attended = self.charge_attended(self.domains.of(cpu), task, ran_ns, now_ns)
            || (lane == Lane::Attended && self.borrows_turn(task, waited_ns, now_ns));
        let process = &mut self.processes[task as usize];
        process.lane = if attended { Lane::Attended } else { Lane::Other };
        process.queued_ns = 0;
        let weight = machine.task(task).nice.weight();
        self.parties.others_of(task).charge(task, ran_ns, weight, attended);
        let domain = self.domains.of(cpu);
        if !attended && let Some(vtime) = self.parties.charge(domain, task, ran_ns) {
            self.domains.advance(domain, vtime);
        }
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
    /// outranked. The kernel goes through its queue in order, this by who waited longest.
    fn look(&mut self, machine: &Machine) {
        let now_ns = machine.now_ns();
        for domain in 0..self.domains.number() {
            self.find_overdue(domain, now_ns);
        }
        self.parties.weigh_root(machine.active());
        if self.domains.number() > 1 {
            let mut waiting: Vec<u32> =
                (0..self.domains.number()).map(|domain| self.parties.len(domain) as u32).collect();
            let most: Vec<u32> = (0..self.domains.number()).map(|domain| self.parties.most_waiting(domain)).collect();
            self.domains.compare_clocks();
            self.domains.share_out(&mut waiting, &most);
        }
        self.fair.forget();
        self.scans += 1;
        if self.scans.is_multiple_of(SCANS_PER_SWEEP) {
            self.requests.sweep(now_ns);
        }
    }

    fn calls(&mut self) -> Option<&mut Vec<Call>> {
        let topology = self.domains.topology();
        (topology.number() > 1 || topology.threads() > 1).then_some(&mut self.calls)
    }

    fn locks(&mut self) -> Option<&mut Locks> {
        Some(&mut self.locks)
    }
}
