//! Customer appeasement, section 4 of the paper, in full: it sees requests, and their answers, when they come.
//!
//! Q0 has the processes that serve a request, Q1 all others, under CFS; Q0 goes first. Of the requests, that of the largest
//! total (eq. 3) goes first, and in it the unhappiest process. A new process stands in Q0 until its start is used up.
//!
//! A request's total grows along a straight line, whose slope is its weight times the number of its processes that wait. Of
//! lines with one slope the order stays; so there is a heap for each slope, and a decision looks at the first of each. A
//! request that was just sent has no unhappiness yet, and none a moment later if a CPU is free: it is in Q0 at once, but
//! displaces nobody in Q0.

use super::{
    Scheduler, Why,
    cfs::{Cfs, Tunables},
};
use crate::{
    CpuId, MS, Machine, NONE, TaskId,
    heap::{Heap, Positions},
    set::IdSet,
    unhappiness::RequestId,
};

/// Turn in Q0.
const QUANTUM_NS: u64 = 3 * MS;
/// CPU time for which a new process stands in Q0.
const START_NS: u64 = QUANTUM_NS;
/// Unhappiness that it begins with.
const START_UNHAPPINESS_NS: u64 = 10 * MS;

/// Requests of one slope.
#[derive(Debug)]
struct Class {
    factor: f64,
    slope: u32,
    /// By the line's value at time 0, largest first.
    requests: Heap<i64>,
}

/// What a CPU runs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Runs {
    Nothing,
    Regular,
    Request(RequestId),
    Newcomer(TaskId),
}

/// What is first in Q0.
#[derive(Debug, Clone, Copy)]
enum First {
    Request(RequestId),
    Newcomer,
}

/// The scheduler.
#[derive(Debug)]
pub struct Cas {
    regular: Cfs,
    classes: Vec<Class>,
    at: Positions,
    /// By request: its class, and the first of its tasks in Q0.
    requests: Vec<(u32, TaskId)>,
    /// By task: the next one that serves the same request.
    next: Vec<TaskId>,
    /// New processes, by when they were made and what they got since.
    newcomers: Heap<u64>,
    newcomers_at: Positions,
    /// By task: what is left of its start, and when it was made.
    starts: Vec<(u64, u64)>,
    runs: Vec<Runs>,
    regular_cpus: IdSet,
}

impl Cas {
    /// With Q1 under CFS as the kernel sets it.
    #[must_use]
    pub fn new(cpus: u32, tasks: usize) -> Self {
        Self {
            regular: Cfs::new(Tunables::of(cpus), cpus, tasks),
            classes: Vec::new(),
            at: Positions::default(),
            requests: Vec::new(),
            next: vec![NONE; tasks],
            newcomers: Heap::default(),
            newcomers_at: Positions::new(tasks),
            starts: vec![(0, 0); tasks],
            runs: vec![Runs::Nothing; cpus as usize],
            regular_cpus: IdSet::new(cpus),
        }
    }

    fn newcomer_key(&self, task: TaskId) -> u64 {
        let (left_ns, made_ns) = self.starts[task as usize];
        made_ns + (START_NS - left_ns)
    }

    fn newcomer_value(key: u64, now_ns: u64) -> f64 {
        (START_UNHAPPINESS_NS + now_ns - key.min(now_ns)) as f64
    }

    fn set_runs(&mut self, cpu: CpuId, runs: Runs) {
        self.runs[cpu as usize] = runs;
        if runs == Runs::Regular {
            self.regular_cpus.insert(cpu);
        } else {
            self.regular_cpus.remove(cpu);
        }
    }

    /// Puts a request where its line belongs.
    fn file(&mut self, machine: &Machine, request: RequestId) {
        let line = machine.ledger().line(request);
        let same = |class: &Class| class.slope == line.slope && class.factor.to_bits() == line.factor.to_bits();
        let class = self.classes.iter().position(same).unwrap_or_else(|| {
            self.classes.push(Class { factor: line.factor, slope: line.slope, requests: Heap::default() });
            self.classes.len() - 1
        });
        let key = -line.intercept_ns;
        if self.at.holds(request) {
            let old = self.requests[request as usize].0;
            if old as usize == class {
                self.classes[class].requests.set(&mut self.at, request, key);
                return;
            }
            self.classes[old as usize].requests.remove(&mut self.at, request);
        }
        self.requests[request as usize].0 = class as u32;
        self.classes[class].requests.push(&mut self.at, request, key);
    }

    fn enqueue_serving(&mut self, machine: &Machine, task: TaskId, request: RequestId) {
        if self.requests.len() <= request as usize {
            let ids = machine.ledger().request_ids().max(request as usize + 1);
            self.requests.resize(ids, (0, NONE));
            self.at.grow(ids);
        }
        self.next[task as usize] = std::mem::replace(&mut self.requests[request as usize].1, task);
        self.file(machine, request);
    }

    /// The unhappiest of a request's tasks in Q0, off it.
    fn take_unhappiest(&mut self, machine: &Machine, request: RequestId) -> TaskId {
        let value = |task: TaskId| {
            machine.serves(task).map_or(i64::MIN, |(_, share)| machine.ledger().of_process(share, machine.now_ns()))
        };
        let (mut best, mut before_best) = (self.requests[request as usize].1, NONE);
        let (mut before, mut best_value) = (best, value(best));
        while self.next[before as usize] != NONE {
            let task = self.next[before as usize];
            // Of equals, who came first; the latest is at the head.
            if value(task) >= best_value {
                (best, before_best, best_value) = (task, before, value(task));
            }
            before = task;
        }
        let next = std::mem::replace(&mut self.next[best as usize], NONE);
        if before_best == NONE {
            self.requests[request as usize].1 = next;
        } else {
            self.next[before_best as usize] = next;
        }
        if self.requests[request as usize].1 == NONE {
            let class = self.requests[request as usize].0 as usize;
            self.classes[class].requests.remove(&mut self.at, request);
        }
        best
    }

    /// What is first in Q0, and how unhappy it is.
    fn first(&self, now_ns: u64) -> Option<(f64, First)> {
        let requests = self.classes.iter().filter_map(|class| {
            let (key, request) = class.requests.peek()?;
            let value = class.factor * (i64::from(class.slope) * now_ns as i64 - key) as f64;
            Some((value, First::Request(request)))
        });
        let newcomer = self.newcomers.peek().map(|(key, _)| (Self::newcomer_value(key, now_ns), First::Newcomer));
        requests.chain(newcomer).max_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// The CPU that runs what matters least, if that matters less than `value`.
    fn victim(&self, machine: &Machine, value: f64) -> Option<CpuId> {
        if let Some(cpu) = self.regular_cpus.any() {
            return Some(cpu);
        }
        let now_ns = machine.now_ns();
        let worth = |runs: &Runs| match *runs {
            Runs::Nothing | Runs::Regular => f64::NEG_INFINITY,
            Runs::Request(request) => machine.ledger().of_request(request, now_ns),
            Runs::Newcomer(task) => Self::newcomer_value(self.newcomer_key(task), now_ns),
        };
        let (cpu, least) = self.runs.iter().map(worth).enumerate().min_by(|a, b| a.1.total_cmp(&b.1))?;
        (least < value).then_some(cpu as CpuId)
    }
}

impl Scheduler for Cas {
    fn add(&mut self, machine: &Machine, task: TaskId) {
        self.starts[task as usize] = (0, 0);
        self.regular.add(machine, task);
    }

    fn enqueue(&mut self, machine: &Machine, task: TaskId, why: Why) -> Option<CpuId> {
        let gives_up = matches!(why, Why::TurnOver | Why::Displaced);
        let cpu = machine.task(task).cpu;
        let was = if gives_up { self.runs[cpu as usize] } else { Runs::Nothing };
        if gives_up {
            self.set_runs(cpu, Runs::Nothing);
        }
        if was == Runs::Regular {
            return self.regular.enqueue(machine, task, why);
        }
        if why == Why::New {
            self.starts[task as usize] = (START_NS, machine.now_ns());
        }
        let value = if let Some((request, _)) = machine.serves(task) {
            self.enqueue_serving(machine, task, request);
            machine.ledger().of_request(request, machine.now_ns())
        } else if self.starts[task as usize].0 > 0 {
            let key = self.newcomer_key(task);
            self.newcomers.push(&mut self.newcomers_at, task, key);
            Self::newcomer_value(key, machine.now_ns())
        } else {
            // A newcomer whose start is over is new to Q1.
            return self.regular.enqueue(machine, task, if gives_up { Why::New } else { why });
        };
        if gives_up { None } else { machine.idle_cpu(task).or_else(|| self.victim(machine, value)) }
    }

    fn pick(&mut self, machine: &Machine, cpu: CpuId) -> Option<TaskId> {
        let picked = match self.first(machine.now_ns()) {
            Some((_, First::Request(request))) => {
                Some((self.take_unhappiest(machine, request), Runs::Request(request)))
            }
            Some((_, First::Newcomer)) => {
                self.newcomers.pop(&mut self.newcomers_at).map(|(_, task)| (task, Runs::Newcomer(task)))
            }
            None => self.regular.pick(machine, cpu).map(|task| (task, Runs::Regular)),
        };
        let (task, runs) = picked.unwrap_or((NONE, Runs::Nothing));
        self.set_runs(cpu, runs);
        (task != NONE).then_some(task)
    }

    fn slice_ns(&mut self, machine: &Machine, cpu: CpuId, task: TaskId) -> u64 {
        match self.runs[cpu as usize] {
            Runs::Regular => self.regular.slice_ns(machine, cpu, task),
            Runs::Newcomer(_) => self.starts[task as usize].0.max(1),
            Runs::Request(_) | Runs::Nothing => QUANTUM_NS,
        }
    }

    fn charge(&mut self, machine: &Machine, cpu: CpuId, task: TaskId, ran_ns: u64) {
        match self.runs[cpu as usize] {
            Runs::Regular => self.regular.charge(machine, cpu, task, ran_ns),
            Runs::Newcomer(_) => {
                let left_ns = &mut self.starts[task as usize].0;
                *left_ns = left_ns.saturating_sub(ran_ns);
            }
            Runs::Request(_) | Runs::Nothing => {}
        }
    }

    fn slept(&mut self, machine: &Machine, cpu: CpuId, task: TaskId) {
        if self.runs[cpu as usize] == Runs::Regular {
            self.regular.slept(machine, cpu, task);
        }
        self.starts[task as usize].0 = 0;
        self.set_runs(cpu, Runs::Nothing);
    }

    fn read(&mut self, machine: &Machine, task: TaskId, _visit: u32, _message: crate::Message) {
        // It may have gone on with the next request without a pause.
        let cpu = machine.task(task).cpu;
        if let (Runs::Request(_), Some((request, _))) = (self.runs[cpu as usize], machine.serves(task)) {
            self.set_runs(cpu, Runs::Request(request));
        }
    }

    fn changed(&mut self, machine: &Machine, request: RequestId) {
        if (request as usize) < self.requests.len() && self.at.holds(request) {
            self.file(machine, request);
        }
    }
}
