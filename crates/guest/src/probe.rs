//! Loads and reads `bpf/meter.bpf.c`.

use std::{cell::RefCell, rc::Rc};

use anyhow::{Context, Result, anyhow, bail};
use appease_scenario::PAGE_PORT;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, RingBufferBuilder};

use crate::{
    clock::now_ns,
    events::{Record, comm_at, u32_at, u64_at},
    keyboard,
};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/meter.bpf.o"));
/// `sizeof(struct meter_task)`.
const TASK_SIZE: usize = 64;

/// What is to be observed.
#[derive(Debug, Clone, Copy)]
pub struct Observe {
    /// Key presses and screen updates.
    pub screen: bool,
    /// Requests for pages.
    pub requests: bool,
    /// Waiting and running of processes.
    pub sched: bool,
    /// Number of CPUs.
    pub cpus: u32,
}

/// The attached programs.
pub struct Probe {
    object: Object,
    _links: Vec<Link>,
    observe: Observe,
    begin_ns: u64,
}

/// What the kernel saw between the measurement's two ends.
pub struct Seen {
    /// Keys and updates, in order of time.
    pub records: Vec<Record>,
    /// Processes, if they were observed.
    pub sched: Option<Sched>,
}

/// How processes fared.
#[derive(Debug, Clone, PartialEq)]
pub struct Sched {
    /// Longest time that a normal task was runnable without running.
    pub longest_wait_ns: u64,
    /// Who that was.
    pub longest_wait_by: String,
    /// CPU time of all load processes together.
    pub load_ran_ns: u64,
    /// Longest time that a load process was runnable without running.
    pub load_longest_wait_ns: u64,
    /// CPU time of each load process that lives at the end, with its longest wait.
    pub load_tasks: Vec<LoadTask>,
    /// Time in which a CPU was idle while a task that may run anywhere waited.
    pub idle_while_waiting_ns: u64,
}

/// One load process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadTask {
    /// Its name.
    pub comm: String,
    /// CPU time within the measurement.
    pub ran_ns: u64,
    /// Longest wait.
    pub longest_wait_ns: u64,
}

impl Probe {
    /// Loads and attaches; nothing is recorded before [`Probe::begin`].
    pub fn attach(observe: Observe) -> Result<Self> {
        let mut open = ObjectBuilder::default().open_memory(OBJECT).context("open the meter's BPF object")?;
        for mut map in open.maps_mut() {
            if map.name().to_string_lossy().ends_with(".rodata") {
                let value = map.initial_value_mut().context("the meter has no settings")?;
                let settings = [
                    u32::from(keyboard::VENDOR),
                    u32::from(keyboard::PRODUCT),
                    observe.cpus,
                    u32::from(observe.sched),
                    u32::from(PAGE_PORT),
                ];
                for (place, setting) in value.chunks_exact_mut(4).zip(settings) {
                    place.copy_from_slice(&setting.to_ne_bytes());
                }
            }
        }
        for mut program in open.progs_mut() {
            let wanted = match program.section().to_string_lossy().as_ref() {
                "fentry/tcp_sendmsg" => observe.requests,
                section if section.starts_with("fentry/") => observe.screen,
                _ => observe.sched,
            };
            program.set_autoload(wanted);
        }
        let object = open.load().context("load the meter's BPF programs (dmesg and the lines above say why not)")?;
        let mut links = Vec::new();
        for program in object.progs_mut() {
            if program.autoload() {
                let name = program.name().to_string_lossy().into_owned();
                links.push(program.attach().with_context(|| format!("attach the meter's program {name}"))?);
            }
        }
        Ok(Self { object, _links: links, observe, begin_ns: 0 })
    }

    /// Counts this process and all that it will start as load.
    pub fn mark_load(&self, pid: u32) -> Result<()> {
        if !self.observe.sched {
            return Ok(());
        }
        let tasks = self.map("tasks")?;
        let key = pid.to_ne_bytes();
        let mut task = tasks.lookup(&key, MapFlags::ANY)?.unwrap_or_else(|| vec![0; TASK_SIZE]);
        task[IS_LOAD..IS_LOAD + 4].copy_from_slice(&1_u32.to_ne_bytes());
        tasks.update(&key, &task, MapFlags::ANY).context("mark the load for the meter")
    }

    /// The measurement begins now.
    pub fn begin(&mut self) -> Result<u64> {
        self.begin_ns = now_ns();
        let control = self.map(".data.control")?;
        control.update(&0_u32.to_ne_bytes(), &self.begin_ns.to_ne_bytes(), MapFlags::ANY).context("start the meter")?;
        Ok(self.begin_ns)
    }

    /// The measurement is over: reads what was recorded. To detach is another matter: some kernels take the better part of a second for it.
    pub fn read(&self) -> Result<Seen> {
        let end_ns = now_ns();
        let totals = self.map("totals")?;
        let each = totals.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY)?.context("the meter has no totals")?;
        let sum = |offset| each.iter().filter_map(|cpu| u64_at(cpu, offset)).sum::<u64>();
        let (lost_events, lost_tasks) = (sum(LOST_EVENTS), sum(LOST_TASKS));
        if lost_events + lost_tasks > 0 {
            bail!(
                "the meter's memory was too small: {lost_events} events and {lost_tasks} processes were not recorded"
            );
        }
        let records = if self.observe.screen { self.records()? } else { Vec::new() };
        let sched = if self.observe.sched { Some(self.sched(&each, end_ns)?) } else { None };
        Ok(Seen { records, sched })
    }

    fn records(&self) -> Result<Vec<Record>> {
        let found = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&found);
        let events = self.map("events")?;
        let mut builder = RingBufferBuilder::new();
        builder.add(&events, move |bytes| {
            sink.borrow_mut().push(Record::decode(bytes));
            0
        })?;
        builder.build()?.consume().context("read the meter's ring buffer")?;
        let mut records: Vec<Record> =
            found.take().into_iter().collect::<Option<_>>().context("the meter recorded something unknown")?;
        records.sort_by_key(|record| record.at_ns);
        Ok(records)
    }

    fn sched(&self, totals: &[Vec<u8>], end_ns: u64) -> Result<Sched> {
        let mut sched = Sched {
            longest_wait_ns: 0,
            longest_wait_by: String::new(),
            load_ran_ns: 0,
            load_longest_wait_ns: 0,
            load_tasks: Vec::new(),
            idle_while_waiting_ns: 0,
        };
        for cpu in totals {
            sched.load_ran_ns += u64_at(cpu, LOAD_RAN).unwrap_or(0);
            sched.load_longest_wait_ns = sched.load_longest_wait_ns.max(u64_at(cpu, LOAD_LONGEST_WAIT).unwrap_or(0));
            let wait = u64_at(cpu, LONGEST_WAIT).unwrap_or(0);
            if wait > sched.longest_wait_ns {
                sched.longest_wait_ns = wait;
                sched.longest_wait_by = comm_at(cpu, LONGEST_WAIT_COMM);
            }
        }
        let tasks = self.map("tasks")?;
        for key in tasks.keys() {
            let Some(task) = tasks.lookup(&key, MapFlags::ANY)? else { continue };
            self.add_task(&mut sched, &task, end_ns);
        }
        let machine =
            self.map(".bss")?.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY)?.context("the meter has no machine")?;
        sched.idle_while_waiting_ns = u64_at(&machine, IDLE_WHILE_WAITING).unwrap_or(0);
        if let Some(since) = u64_at(&machine, IDLE_WHILE_WAITING_SINCE).filter(|&since| since > 0) {
            sched.idle_while_waiting_ns += end_ns.saturating_sub(since.max(self.begin_ns));
        }
        Ok(sched)
    }

    /// Adds what is still going on at the end: a task that runs, or that still waits.
    fn add_task(&self, sched: &mut Sched, task: &[u8], end_ns: u64) {
        let read = |offset| u64_at(task, offset).unwrap_or(0);
        let flag = |offset| u32_at(task, offset) == Some(1);
        let since = |start: u64| if start == 0 { 0 } else { end_ns.saturating_sub(start) };
        let waits = if flag(IS_NORMAL) { since(read(WAITING_SINCE)) } else { 0 };
        let comm = comm_at(task, COMM);
        if waits > sched.longest_wait_ns {
            sched.longest_wait_ns = waits;
            sched.longest_wait_by.clone_from(&comm);
        }
        if flag(IS_LOAD) {
            let runs = match read(RUNNING_SINCE) {
                0 => 0,
                start => since(start.max(self.begin_ns)),
            };
            let longest_wait_ns = read(TASK_LONGEST_WAIT).max(waits);
            sched.load_ran_ns += runs;
            sched.load_longest_wait_ns = sched.load_longest_wait_ns.max(waits);
            sched.load_tasks.push(LoadTask { comm, ran_ns: read(RAN) + runs, longest_wait_ns });
        }
    }

    fn map(&self, name: &str) -> Result<MapHandle> {
        let map = self.object.maps().find(|map| map.name().to_string_lossy().ends_with(name));
        let map = map.ok_or_else(|| anyhow!("the meter's BPF object has no map \"{name}\""))?;
        MapHandle::try_from(&map).with_context(|| format!("open the meter's map \"{name}\""))
    }
}

// Offsets in struct meter_task.
const WAITING_SINCE: usize = 0;
const RUNNING_SINCE: usize = 8;
const RAN: usize = 16;
const TASK_LONGEST_WAIT: usize = 24;
const IS_LOAD: usize = 32;
const IS_NORMAL: usize = 40;
const COMM: usize = 48;
// Offsets in struct meter_totals.
const LOAD_RAN: usize = 0;
const LOAD_LONGEST_WAIT: usize = 8;
const LONGEST_WAIT: usize = 16;
const LOST_EVENTS: usize = 24;
const LOST_TASKS: usize = 32;
const LONGEST_WAIT_COMM: usize = 48;
// Offsets in struct meter_machine.
const IDLE_WHILE_WAITING_SINCE: usize = 0;
const IDLE_WHILE_WAITING: usize = 8;
