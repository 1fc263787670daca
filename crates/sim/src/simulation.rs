//! The simulation itself: events in the order of their times, and what follows from each.

use rand::RngExt;
use rand_pcg::Pcg32;
use slab::Slab;

use crate::{
    Answer, Counts, CpuId, CustomerFigures, MS, Machine, Message, MessageKind, NONE, Outcome, SECOND, Scenario,
    Scheduler, SchedulerName, TaskFigures, TaskId, VisitId,
    distribution::stream,
    events::{Event, Events, NO_EVENT},
    machine::{Cpu, Customer, Group, Kind, Pace, State, Target, Visit},
    parts::Parts,
    schedulers::{Call, Waker, Why},
    topology::{FULL_CAPACITY, Idle, Topology},
    unhappiness::{RequestId, ShareId},
};

/// Work that a CPU of a pace does in a time, ns at full capacity.
fn work_in(ns: u64, pace: u32) -> u64 {
    // A division costs more than all the rest of an account.
    if pace == FULL_CAPACITY { ns } else { (u128::from(ns) * u128::from(pace) / u128::from(FULL_CAPACITY)) as u64 }
}

/// The time that it takes for some work, ns; what never ends takes all of it.
fn time_for(work_ns: u64, pace: u32) -> u64 {
    if pace == FULL_CAPACITY {
        return work_ns;
    }
    let ns = (u128::from(work_ns) * u128::from(FULL_CAPACITY)).div_ceil(u128::from(pace));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// What a task does when it has done its work.
enum Next {
    /// It has more to do.
    Goes,
    Sleeps,
}

/// A scenario under a scheduler, from its beginning to its end.
pub struct Simulation {
    machine: Machine,
    scheduler: Box<dyn Scheduler>,
    name: SchedulerName,
    seed: u64,
    events: Events,
    groups: Vec<Group>,
    customers: Vec<Customer>,
    paces: Vec<Pace>,
    counts: Counts,
    customer_figures: Vec<CustomerFigures>,
    task_figures: Vec<TaskFigures>,
    /// The CPU whose task is between two pieces of work, and whether that task is displaced meanwhile.
    stepping: CpuId,
    gives_way: bool,
    /// CPUs wait at the scheduler's locks.
    has_locks: bool,
    /// The scheduler calls CPUs beside those that it names.
    has_calls: bool,
    tick_ns: u64,
    settle_ns: u64,
    end_ns: u64,
    /// Room for the shares of a call.
    shares: Vec<ShareId>,
}

impl Simulation {
    /// A checked scenario under a scheduler; `seed` in place of the scenario's own.
    #[must_use]
    pub fn new(scenario: &Scenario, name: SchedulerName, seed: Option<u64>) -> Self {
        Self::with(scenario, name, seed, |cpus, tasks| name.build(scenario, cpus, tasks))
    }

    /// The same under a scheduler with settings of its own, made for so many CPUs and tasks.
    #[must_use]
    pub fn with(
        scenario: &Scenario,
        name: SchedulerName,
        seed: Option<u64>,
        scheduler: impl FnOnce(u32, usize) -> Box<dyn Scheduler>,
    ) -> Self {
        let (cpus, seed) = (*scenario.cpus.get_ref(), seed.unwrap_or(scenario.seed));
        let nanos = |s: f64| (s * SECOND as f64) as u64;
        let settle_ns = nanos(*scenario.settle_s.get_ref());
        let (parts, topology) = (Parts::of(scenario, seed), Topology::of_scenario(scenario));
        let idle_cpu =
            |cpu| Cpu { running: NONE, pace: topology.capacity(cpu), since_ns: 0, slice_end_ns: 0, stop: NO_EVENT };
        let machine = Machine {
            now_ns: 0,
            cpus: (0..cpus).map(idle_cpu).collect(),
            idle: Idle::all(topology),
            tasks: parts.tasks,
            visits: Slab::new(),
            ledger: parts.ledger,
            active: 0,
        };
        let mut scheduler = scheduler(cpus, machine.tasks.len());
        let mut simulation = Self {
            has_calls: scheduler.calls().is_some(),
            scheduler,
            machine,
            name,
            seed,
            events: Events::default(),
            groups: parts.groups,
            customers: parts.customers,
            paces: parts.paces,
            counts: Counts::default(),
            customer_figures: parts.customer_figures,
            task_figures: parts.task_figures,
            stepping: NONE,
            gives_way: false,
            has_locks: scenario.locks,
            tick_ns: (scenario.tick_ms.get_ref() * MS as f64) as u64,
            settle_ns,
            end_ns: settle_ns + nanos(*scenario.duration_s.get_ref()),
            shares: Vec::new(),
        };
        simulation.prepare();
        simulation
    }

    fn prepare(&mut self) {
        self.events.push(self.settle_ns, Event::Settled);
        for group in 0..self.groups.len() as u32 {
            self.events.push(self.groups[group as usize].start_ns, Event::Begin(group));
        }
        if let Some(each_ns) = self.scheduler.looks_each_ns() {
            self.events.push(each_ns, Event::Look);
        }
        for customer in 0..self.customers.len() as u32 {
            let rng = &mut self.customers[customer as usize].rng;
            let first_ns = match &mut self.paces[customer as usize] {
                Pace::Closed(times) | Pace::Open(times) => times.first(rng),
                Pace::At(times) => match times.pop() {
                    Some(time_ns) => time_ns,
                    None => continue,
                },
            };
            self.events.push(first_ns, Event::Arrive(customer));
        }
    }

    /// Runs it up to a time, ns; never beyond its end.
    pub fn run_until(&mut self, ns: u64) {
        while self.events.next_ns().is_some_and(|at_ns| at_ns < ns) && self.step() {}
    }

    /// What happened so far how often.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Runs it to its end.
    #[must_use]
    pub fn run(mut self) -> Outcome {
        while self.step() {}
        self.account_all();
        let effort = self.scheduler.locks().map(|locks| locks.effort()).unwrap_or_default();
        let mut tasks = self.task_figures;
        for (figures, group) in tasks.iter_mut().zip(&self.groups) {
            let members = &self.machine.tasks[group.first as usize..][..group.number as usize];
            figures.ran_ns = members.iter().map(|task| task.ran_ns).sum();
            figures.least_ns = members.iter().map(|task| task.ran_ns).min().unwrap_or(0);
            figures.most_ns = members.iter().map(|task| task.ran_ns).max().unwrap_or(0);
        }
        Outcome {
            scheduler: self.name,
            seed: self.seed,
            duration_ns: self.end_ns - self.settle_ns,
            cpus: self.machine.nr_cpus(),
            domains: self.machine.topology().number(),
            counts: self.counts,
            effort,
            customers: self.customer_figures,
            tasks,
            mean_unhappiness_ns: self.machine.ledger.mean_of_system(self.end_ns),
        }
    }

    /// One event; `false` when the time is over.
    pub(crate) fn step(&mut self) -> bool {
        let Some((at_ns, id, event)) = self.events.pop().filter(|&(at_ns, ..)| at_ns < self.end_ns) else {
            self.machine.now_ns = self.end_ns;
            return false;
        };
        self.machine.now_ns = at_ns;
        if self.has_locks
            && let Some(locks) = self.scheduler.locks()
        {
            locks.advance(at_ns);
        }
        match event {
            Event::Stop(cpu) if self.machine.cpus[cpu as usize].stop == id => self.stop(cpu),
            Event::Stop(..) => {}
            Event::Wake(task) => self.wake(task, Waker::Timer),
            Event::Arrive(customer) => self.arrive(customer),
            Event::Begin(group) => self.begin_group(group),
            Event::Look => {
                self.scheduler.look(&self.machine);
                if let Some(each_ns) = self.scheduler.looks_each_ns() {
                    self.events.push(at_ns + each_ns, Event::Look);
                }
            }
            Event::Settled => self.begin_measuring(),
            Event::Call(cpu) if self.machine.cpus[cpu as usize].running == NONE => self.dispatch(cpu),
            Event::Call(_) => {}
        }
        true
    }

    fn begin_measuring(&mut self) {
        self.account_all();
        self.machine.tasks.iter_mut().for_each(|task| task.ran_ns = 0);
        self.machine.ledger.restart_mean(self.machine.now_ns);
        if let Some(locks) = self.scheduler.locks() {
            locks.restart();
        }
        for figures in &mut self.customer_figures {
            // What is under way counts as sent.
            figures.sent -= figures.answered;
            figures.answered = 0;
            figures.response.clear();
            figures.unhappiness.clear();
        }
        for figures in &mut self.task_figures {
            figures.wait.clear();
            figures.domain_changes = 0;
        }
    }

    fn begin_group(&mut self, group: u32) {
        let (first, number) = (self.groups[group as usize].first, self.groups[group as usize].number);
        for task in first..first + number {
            // Made by one CPU, one after another, a million would take a second.
            self.enter_scheduler(self.machine.now_ns);
            self.scheduler.add(&self.machine, task);
            match self.groups[group as usize].kind {
                Kind::Hog => {
                    self.machine.tasks[task as usize].remaining_ns = u64::MAX;
                    self.wake(task, Waker::Timer);
                }
                Kind::OnOff { pause, .. } => {
                    let pause_ns = pause.first(&mut self.machine.tasks[task as usize].rng);
                    self.events.push(self.machine.now_ns + pause_ns, Event::Wake(task));
                }
                Kind::Server { shared: false, .. } => {}
                Kind::Server { .. } => self.serve_next_or_wait(group, task),
            }
        }
    }

    /// A server that was just made may find requests already.
    fn serve_next_or_wait(&mut self, group: u32, task: TaskId) {
        match self.groups[group as usize].backlog.pop_front() {
            Some(visit) => {
                self.assign(task, visit);
                self.wake(task, Waker::Timer);
            }
            None => self.groups[group as usize].free.push_back(task),
        }
    }

    // CPUs

    /// A CPU that is in the scheduler now is not further than this.
    fn enter_scheduler(&mut self, ns: u64) {
        if self.has_locks
            && let Some(locks) = self.scheduler.locks()
        {
            locks.enter(ns);
        }
    }

    /// When the CPU that is in the scheduler now will leave it, ns: what waits for its locks comes between.
    fn leaves_scheduler_ns(&mut self) -> u64 {
        let left_ns = if self.has_locks { self.scheduler.locks().map_or(0, |locks| locks.at_ns()) } else { 0 };
        left_ns.max(self.machine.now_ns)
    }

    /// Has those CPUs look for a task, now or later, that the scheduler calls beside the one that it names.
    fn make_calls(&mut self) {
        if !self.has_calls {
            return;
        }
        let Some(calls) = self.scheduler.calls() else { return };
        for Call { cpu, in_ns } in calls.drain(..) {
            if in_ns == 0 {
                // It is found by nobody else meanwhile.
                self.machine.idle.remove(cpu);
            }
            self.events.push(self.machine.now_ns + in_ns, Event::Call(cpu));
        }
    }

    /// Brings all accounts of a running task up to now.
    fn account(&mut self, cpu: CpuId) {
        let Cpu { running, pace, since_ns, .. } = self.machine.cpus[cpu as usize];
        let now_ns = self.machine.now_ns;
        // It may not have begun: its CPU waits for a lock.
        let ran_ns = now_ns.saturating_sub(since_ns);
        let task = &mut self.machine.tasks[running as usize];
        task.ran_ns += ran_ns;
        task.remaining_ns = task.remaining_ns.saturating_sub(work_in(ran_ns, pace));
        self.machine.cpus[cpu as usize].since_ns = now_ns.max(since_ns);
        if ran_ns > 0 {
            self.scheduler.charge(&self.machine, cpu, running, ran_ns);
        }
    }

    fn account_all(&mut self) {
        for cpu in 0..self.machine.nr_cpus() {
            if self.machine.cpus[cpu as usize].running != NONE {
                self.account(cpu);
            }
        }
    }

    /// The work or the slice of what runs on `cpu` is over.
    fn stop(&mut self, cpu: CpuId) {
        self.leave_cpu(cpu);
        let task = self.machine.cpus[cpu as usize].running;
        let mut next = Next::Goes;
        if self.machine.tasks[task as usize].remaining_ns == 0 {
            self.stepping = cpu;
            next = self.do_next(task);
            self.stepping = NONE;
        }
        let gives_way = std::mem::take(&mut self.gives_way);
        match next {
            Next::Sleeps => {
                self.counts.sleeps += 1;
                self.machine.active -= 1;
                self.machine.tasks[task as usize].state = State::Asleep;
                self.scheduler.slept(&self.machine, cpu, task);
                self.dispatch(cpu);
            }
            Next::Goes if gives_way => self.displace(cpu, task),
            Next::Goes if self.machine.now_ns < self.machine.cpus[cpu as usize].slice_end_ns => self.go_on(cpu),
            Next::Goes => {
                self.counts.turns_over += 1;
                self.requeue(cpu, task, Why::TurnOver);
            }
        }
    }

    /// What runs on `cpu` stops for a moment or for longer; the CPU still counts as its own.
    fn leave_cpu(&mut self, cpu: CpuId) {
        self.account(cpu);
        if self.has_locks {
            // One that is called while it waits for a lock hears of it afterwards.
            let ns = self.leaves_scheduler_ns().max(self.machine.cpus[cpu as usize].since_ns);
            self.enter_scheduler(ns);
        }
        if let Some((request, share)) = self.machine.serves(self.machine.cpus[cpu as usize].running) {
            self.machine.ledger.stop(share, self.machine.now_ns);
            self.scheduler.changed(&self.machine, request);
        }
    }

    fn displace(&mut self, cpu: CpuId, task: TaskId) {
        self.counts.displaced += 1;
        self.requeue(cpu, task, Why::Displaced);
    }

    fn requeue(&mut self, cpu: CpuId, task: TaskId, why: Why) {
        self.machine.tasks[task as usize].state = State::Queued;
        self.scheduler.enqueue(&self.machine, task, why);
        self.make_calls();
        self.dispatch(cpu);
    }

    /// Lets `cpu` look for its next task.
    fn dispatch(&mut self, cpu: CpuId) {
        self.counts.decisions += 1;
        self.machine.cpus[cpu as usize].stop = NO_EVENT;
        self.machine.cpus[cpu as usize].running = NONE;
        self.machine.idle.remove(cpu);
        let picked = self.scheduler.pick(&self.machine, cpu);
        self.make_calls();
        let Some(task) = picked else {
            self.machine.idle.insert(cpu);
            self.share_core(cpu);
            return;
        };
        let now_ns = self.leaves_scheduler_ns();
        let entry = &mut self.machine.tasks[task as usize];
        let topology = self.machine.idle.topology();
        if topology.of(entry.cpu) != topology.of(cpu) {
            self.task_figures[entry.group as usize].domain_changes += 1;
        }
        entry.cpu = cpu;
        entry.state = State::Running;
        if entry.woken_ns != u64::MAX {
            self.task_figures[entry.group as usize].wait.record(now_ns - entry.woken_ns);
            entry.woken_ns = u64::MAX;
        }
        let entry = &mut self.machine.cpus[cpu as usize];
        entry.running = task;
        entry.since_ns = now_ns;
        self.share_core(cpu);
        if self.machine.tasks[task as usize].unread {
            self.read(task);
        }
        let mut end_ns = now_ns + self.scheduler.slice_ns(&self.machine, cpu, task);
        if self.tick_ns > 0 {
            end_ns = end_ns.next_multiple_of(self.tick_ns);
        }
        self.machine.cpus[cpu as usize].slice_end_ns = end_ns;
        self.go_on(cpu);
    }

    /// The CPUs of a core that are at work share what it does.
    fn share_core(&mut self, cpu: CpuId) {
        let topology = self.machine.topology();
        if topology.threads() == 1 {
            return;
        }
        let (core, capacity) = (topology.core_of(cpu), topology.capacity(cpu));
        let is_busy = |machine: &Machine, cpu: CpuId| machine.cpus[cpu as usize].running != NONE;
        let busy = core.clone().filter(|&cpu| is_busy(&self.machine, cpu)).count().max(1);
        let pace = (capacity / busy as u32).max(1);
        for other in core {
            let is_affected = is_busy(&self.machine, other) && self.machine.cpus[other as usize].pace != pace;
            if is_affected && other != cpu {
                self.account(other);
            }
            self.machine.cpus[other as usize].pace = pace;
            if is_affected && other != cpu {
                self.set_stop(other);
            }
        }
    }

    /// Lets what is on `cpu` run until its work or its slice ends.
    fn go_on(&mut self, cpu: CpuId) {
        let running = self.machine.cpus[cpu as usize].running;
        let now_ns = self.leaves_scheduler_ns();
        if let Some((request, share)) = self.machine.serves(running) {
            // Time at locks counts as served: accounts are kept in the order of events.
            self.machine.ledger.start(share, self.machine.now_ns);
            self.scheduler.changed(&self.machine, request);
        }
        self.machine.cpus[cpu as usize].since_ns = now_ns;
        self.set_stop(cpu);
    }

    /// The work or the slice of what runs on `cpu`, whose accounts are up to now, will end then.
    fn set_stop(&mut self, cpu: CpuId) {
        let Cpu { running, pace, since_ns, slice_end_ns, .. } = self.machine.cpus[cpu as usize];
        let left_ns = time_for(self.machine.tasks[running as usize].remaining_ns, pace);
        let end_ns = slice_end_ns.max(since_ns).min(since_ns.saturating_add(left_ns));
        self.machine.cpus[cpu as usize].stop = self.events.push(end_ns, Event::Stop(cpu));
    }

    // Tasks

    fn wake(&mut self, task: TaskId, waker: Waker) {
        let entry = &mut self.machine.tasks[task as usize];
        if let Kind::OnOff { work, new_process, .. } = &self.groups[entry.group as usize].kind {
            entry.remaining_ns = work.draw(&mut entry.rng);
            entry.is_new |= new_process;
            if *new_process {
                self.scheduler.add(&self.machine, task);
            }
        }
        let entry = &mut self.machine.tasks[task as usize];
        let serves = entry.visit != NONE;
        let why = if std::mem::take(&mut entry.is_new) && !serves { Why::New } else { Why::Woken(waker) };
        entry.state = State::Queued;
        entry.woken_ns = self.machine.now_ns;
        self.machine.active += 1;
        self.counts.wakeups += 1;
        let called = self.scheduler.enqueue(&self.machine, task, why);
        self.make_calls();
        let Some(cpu) = called else { return };
        if cpu == self.stepping {
            self.gives_way = true;
            return;
        }
        let waker_ns = self.leaves_scheduler_ns();
        if self.machine.cpus[cpu as usize].running == NONE {
            self.dispatch(cpu);
        } else {
            self.leave_cpu(cpu);
            self.displace(cpu, self.machine.cpus[cpu as usize].running);
        }
        // The one that woke the task need not wait for the one that was called.
        self.enter_scheduler(waker_ns);
    }

    /// A task has done its work: what comes of that.
    fn do_next(&mut self, task: TaskId) -> Next {
        let (group, now_ns) = (self.machine.tasks[task as usize].group, self.machine.now_ns);
        match self.groups[group as usize].kind {
            Kind::Hog => Next::Goes,
            Kind::OnOff { pause, .. } => {
                let pause_ns = pause.draw(&mut self.machine.tasks[task as usize].rng);
                self.events.push(now_ns + pause_ns, Event::Wake(task));
                Next::Sleeps
            }
            Kind::Server { .. } => self.serve(group, task),
        }
    }

    fn serve(&mut self, group: u32, task: TaskId) -> Next {
        let visit = self.machine.tasks[task as usize].visit;
        let Kind::Server { calls, shared, .. } = &self.groups[group as usize].kind else { return Next::Sleeps };
        let (shared, stage) = (*shared, self.machine.visits[visit as usize].stage as usize);
        if stage < calls.len() {
            self.call(task, visit, group, stage);
            return Next::Sleeps;
        }
        self.answer(task, visit);
        self.machine.tasks[task as usize].visit = NONE;
        if !shared {
            return Next::Sleeps;
        }
        match self.groups[group as usize].backlog.pop_front() {
            Some(next) => {
                self.assign(task, next);
                self.read(task);
                Next::Goes
            }
            None => {
                self.groups[group as usize].free.push_back(task);
                Next::Sleeps
            }
        }
    }

    // Messages

    fn arrive(&mut self, customer: u32) {
        let now_ns = self.machine.now_ns;
        let Customer { target, request_weight, socket, figures, .. } = self.customers[customer as usize];
        let rng = &mut self.customers[customer as usize].rng;
        let work = stream(rng.random(), 0);
        let next_ns = match &mut self.paces[customer as usize] {
            Pace::Closed(_) => None,
            Pace::Open(times) => Some(now_ns + times.draw(rng)),
            Pace::At(times) => times.pop(),
        };
        if let Some(next_ns) = next_ns {
            self.events.push(next_ns, Event::Arrive(customer));
        }
        self.customer_figures[figures as usize].sent += 1;
        let (request, share) = self.machine.ledger.open(customer, request_weight, now_ns);
        let terminal = matches!(target, Target::Group(group) if self.groups[group as usize].terminal);
        let message = Message { kind: MessageKind::Request, socket, terminal };
        let visit = self.new_visit(request, share, NONE, message, work);
        match target {
            Target::Group(group) => self.deliver(group, visit, Waker::Customer),
            Target::Task(task) => {
                self.assign(task, visit);
                self.wake(task, Waker::Customer);
            }
        }
    }

    fn new_visit(
        &mut self,
        request: RequestId,
        share: ShareId,
        parent: VisitId,
        message: Message,
        rng: Pcg32,
    ) -> VisitId {
        let visit = Visit { request, share, parent, task: NONE, stage: 0, message, rng };
        self.machine.visits.insert(visit) as VisitId
    }

    /// A request comes to a group: whoever is free takes it.
    fn deliver(&mut self, group: u32, visit: VisitId, waker: Waker) {
        match self.groups[group as usize].free.pop_front() {
            Some(task) => {
                self.assign(task, visit);
                self.wake(task, waker);
            }
            None => self.groups[group as usize].backlog.push_back(visit),
        }
    }

    fn assign(&mut self, task: TaskId, visit: VisitId) {
        self.machine.tasks[task as usize].visit = visit;
        self.machine.tasks[task as usize].unread = true;
        self.machine.visits[visit as usize].task = task;
    }

    /// A running task reads what is there for it, and knows what there is to do.
    fn read(&mut self, task: TaskId) {
        let entry = &mut self.machine.tasks[task as usize];
        entry.unread = false;
        let visit = &mut self.machine.visits[entry.visit as usize];
        if let Kind::Server { work, calls, .. } = &self.groups[entry.group as usize].kind {
            let sampler =
                if visit.message.kind == MessageKind::Reply { &calls[visit.stage as usize - 1].then } else { work };
            entry.remaining_ns = sampler.draw(&mut visit.rng);
        }
        let (id, message) = (entry.visit, visit.message);
        self.counts.messages += 1;
        self.scheduler.read(&self.machine, task, id, message);
    }

    /// A task asks others, and waits for their answers.
    fn call(&mut self, task: TaskId, visit: VisitId, group: u32, stage: usize) {
        let caller = &mut self.machine.visits[visit as usize];
        caller.stage += 1;
        let (request, share) = (caller.request, caller.share);
        let Kind::Server { calls, .. } = &self.groups[group as usize].kind else { return };
        let services = calls[stage].to.len();
        let mut shares = std::mem::take(&mut self.shares);
        self.machine.ledger.call(share, services as u32, self.machine.now_ns, &mut shares);
        self.scheduler.changed(&self.machine, request);
        for (nth, &share) in shares.iter().enumerate() {
            let Kind::Server { calls, .. } = &self.groups[group as usize].kind else { continue };
            let to = calls[stage].to[nth];
            let Group { socket, terminal, .. } = self.groups[to as usize];
            let message = Message { kind: MessageKind::Call, socket, terminal };
            let work = stream(self.machine.visits[visit as usize].rng.random(), 0);
            let called = self.new_visit(request, share, visit, message, work);
            self.scheduler.wrote(&self.machine, task, called);
            self.deliver(to, called, Waker::Task(task));
        }
        shares.clear();
        self.shares = shares;
    }

    /// A task has the answer for whoever asked.
    fn answer(&mut self, task: TaskId, visit: VisitId) {
        let now_ns = self.machine.now_ns;
        if self.machine.visits[visit as usize].parent == NONE {
            self.scheduler.responded(&self.machine, task);
        }
        let Visit { request, share, parent, message, .. } = self.machine.visits.remove(visit as usize);
        if parent == NONE {
            let customer = self.machine.ledger.customer_of(request);
            let answer = Answer::of(self.machine.ledger.respond(request, now_ns), now_ns);
            let figures = &mut self.customer_figures[self.customers[customer as usize].figures as usize];
            figures.answered += 1;
            figures.latest = Some(answer);
            figures.response.record(answer.response_ns);
            figures.unhappiness.record(answer.unhappiness_ns.max(0) as u64);
            if let Pace::Closed(pause) = self.paces[customer as usize] {
                let pause_ns = pause.draw(&mut self.customers[customer as usize].rng);
                self.events.push(now_ns + pause_ns, Event::Arrive(customer));
            }
            return;
        }
        let has_all = self.machine.ledger.reply(share, now_ns);
        self.scheduler.changed(&self.machine, request);
        let caller = &mut self.machine.visits[parent as usize];
        caller.message = Message { kind: MessageKind::Reply, ..message };
        let waits = caller.task;
        self.scheduler.wrote(&self.machine, task, parent);
        if has_all {
            self.machine.tasks[waits as usize].unread = true;
            // Its own share waits no more, and the answering one is gone.
            self.machine.tasks[task as usize].visit = NONE;
            self.wake(waits, Waker::Task(task));
        }
    }
}
