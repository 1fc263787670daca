//! Scenario files of the simulator: which tasks and customers there are, on how many CPUs, for how long.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    ops::Range,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::{Alpha, FULL_CAPACITY, Nice, SchedulerName, TaskId, Topology, Weight, distribution::Time};

/// Most CPUs of a simulated machine.
pub const MOST_CPUS: u32 = 4096;
/// Most last-level caches, as many as the scheduler has domains.
pub const MOST_CACHES: u32 = 64;
/// Most CPUs of a core, as POWER has them.
pub const MOST_THREADS: u32 = 8;
/// Most tasks, and most customers.
pub const MOST_TASKS: u64 = 1_000_000;
/// Longest simulated time, s.
const LONGEST_S: f64 = 100_000.0;
/// Most services that a process asks at once.
const MOST_AT_ONCE: usize = 16;

/// One experiment. Times of tasks and customers are [`Time`]s, in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name, for reports.
    pub name: String,
    /// What it is about, in one sentence.
    #[serde(default)]
    pub summary: String,
    /// CPUs of the machine, 1 to 4096.
    pub cpus: Spanned<u32>,
    /// Last-level caches, 1 to 64, each of as many CPUs; of the schedulers, `appease` has queues for each.
    #[serde(default = "one_cache")]
    pub caches: Spanned<u32>,
    /// CPUs of each core, side by side, 1 to 8. Those that are at work share what the core does.
    #[serde(default = "one_cpu")]
    pub threads: Spanned<u32>,
    /// How fast each CPU is, 1 to 1024. Times of work are given for 1024, which all CPUs have without this. Of the schedulers,
    /// `appease` alone knows which CPUs are slow.
    #[serde(default = "all_alike")]
    pub capacities: Spanned<Vec<u32>>,
    /// Whether CPUs wait for each other at the locks of queues: under `appease` alone.
    #[serde(default)]
    pub locks: bool,
    /// Whether all tasks are in one cgroup of weight 100, and not the root's own: under `appease` alone, where that is how fast
    /// the clocks of domains go.
    #[serde(default)]
    pub cgroup: bool,
    /// Simulated time that is measured, s.
    pub duration_s: Spanned<f64>,
    /// Simulated time before that, s.
    #[serde(default = "nothing")]
    pub settle_s: Spanned<f64>,
    /// Where random numbers begin, unless the command line says it.
    #[serde(default = "one")]
    pub seed: u64,
    /// Schedulers, unless the command line names some.
    #[serde(default = "all_schedulers")]
    pub schedulers: Vec<SchedulerName>,
    /// α of eq. 1.
    #[serde(default)]
    pub alpha: Alpha,
    /// Quantum of round robin and of the first feedback queue, ms.
    #[serde(default = "default_quantum")]
    pub quantum_ms: Spanned<f64>,
    /// Distance of the scheduler's ticks, at which alone a turn may end, ms; 0: turns end on time.
    #[serde(default = "nothing")]
    pub tick_ms: Spanned<f64>,
    /// The load average of one minute when the simulation begins.
    #[serde(default = "nothing")]
    pub load: Spanned<f64>,
    /// Those who never sleep.
    #[serde(default, rename = "hog")]
    pub hogs: Vec<Hog>,
    /// Those who work and pause.
    #[serde(default, rename = "interactive")]
    pub interactives: Vec<Interactive>,
    /// Those who answer requests.
    #[serde(default, rename = "server")]
    pub servers: Vec<Server>,
    /// Those who send requests.
    #[serde(default, rename = "customer")]
    pub customers: Vec<CustomerGroup>,
}

/// Tasks that compute all the time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hog {
    /// Name by which results speak of them.
    pub id: Spanned<String>,
    /// How many there are.
    #[serde(default = "one_task")]
    pub number: Spanned<u64>,
    /// Their nice value.
    #[serde(default)]
    pub nice: Nice,
    /// When they are started, ms.
    #[serde(default)]
    pub start_ms: u64,
    /// `cpu.weight` of a cgroup of their own, 1 to 10000; without it they are the root's own tasks. Under `appease` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_weight: Option<Spanned<u32>>,
}

/// Tasks that work, pause, and work again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interactive {
    /// Name by which results speak of them.
    pub id: Spanned<String>,
    /// How many there are.
    #[serde(default = "one_task")]
    pub number: Spanned<u64>,
    /// Their nice value.
    #[serde(default)]
    pub nice: Nice,
    /// CPU time of each piece of work.
    pub work_ms: Time,
    /// Time between two of them.
    pub pause_ms: Time,
    /// Each has a customer, whose request is the piece of work; else nobody waits for it.
    #[serde(default = "yes")]
    pub attended: bool,
    /// That customer's weight.
    #[serde(default)]
    pub weight: Weight,
    /// Without a customer: each piece of work is a process of its own.
    #[serde(default)]
    pub new_process: bool,
}

/// Tasks that answer requests; any of the group that is free takes the next one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Name by which customers, calls and results speak of them.
    pub id: Spanned<String>,
    /// How many there are.
    #[serde(default = "one_task")]
    pub number: Spanned<u64>,
    /// Their nice value.
    #[serde(default)]
    pub nice: Nice,
    /// CPU time of a request, up to the first call.
    pub work_ms: Time,
    /// What is asked of others meanwhile, one after another.
    #[serde(default)]
    pub calls: Vec<Call>,
    /// How other servers' calls reach it.
    #[serde(default)]
    pub socket: Socket,
    /// Its requests come through a terminal.
    #[serde(default)]
    pub terminal: bool,
}

/// Indirect requests that a server sends, and waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Servers that are asked at the same time.
    pub to: Vec<Spanned<String>>,
    /// CPU time after the last answer, up to the next call or the end.
    #[serde(default = "no_time")]
    pub then_ms: Time,
}

/// Customers who behave alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CustomerGroup {
    /// Name by which results speak of them.
    pub id: Spanned<String>,
    /// How many there are.
    #[serde(default = "one_task")]
    pub number: Spanned<u64>,
    /// The server that they send their requests to.
    pub to: Spanned<String>,
    /// When they do.
    pub arrivals: Arrivals,
    /// W(c): each one's weight.
    #[serde(default)]
    pub weight: Weight,
    /// w: the weight of each request.
    #[serde(default)]
    pub request_weight: Weight,
    /// Where they sit.
    #[serde(default = "network")]
    pub socket: Socket,
}

/// When a customer sends requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Arrivals {
    /// Closed loop: so long after the last answer.
    ClosedMs(Time),
    /// Open loop: so long after the last request.
    OpenMs(Time),
    /// At these times since the beginning.
    AtMs(Vec<f64>),
}

/// What a message comes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Socket {
    /// From this machine.
    #[default]
    Unix,
    /// From another one.
    Network,
}

fn one() -> u64 {
    1
}

fn one_cache() -> Spanned<u32> {
    plain(1)
}

fn one_cpu() -> Spanned<u32> {
    plain(1)
}

fn all_alike() -> Spanned<Vec<u32>> {
    plain(Vec::new())
}

fn one_task() -> Spanned<u64> {
    plain(1)
}

fn nothing() -> Spanned<f64> {
    plain(0.0)
}

fn default_quantum() -> Spanned<f64> {
    plain(10.0)
}

fn all_schedulers() -> Vec<SchedulerName> {
    SchedulerName::ALL.to_vec()
}

fn yes() -> bool {
    true
}

fn network() -> Socket {
    Socket::Network
}

fn no_time() -> Time {
    Time::constant_ns(0)
}

/// A value that stands in no file.
pub(crate) fn plain<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

/// A scenario that cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is not to be had.
    #[error("reading {path}: {source}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What it says makes no sense.
    #[error("{file}, line {line}: {message}")]
    Wrong {
        /// Which file.
        file: String,
        /// Where, from 1.
        line: usize,
        /// What is wrong with which thing, and the cure.
        message: String,
    },
}

/// What is wrong, and at which byte of the file.
type Fault = (usize, String);

impl Scenario {
    /// Reads and checks a file.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or says what makes no sense.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = fs::read_to_string(path).map_err(|source| Error::Read { path: path.into(), source })?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Checks the text of a file; `file` is its name in messages.
    ///
    /// # Errors
    ///
    /// When it says what makes no sense.
    pub fn parse(text: &str, file: &str) -> Result<Self, Error> {
        let wrong = |at: usize, message: String| {
            let line = text[..at.min(text.len())].matches('\n').count() + 1;
            Error::Wrong { file: file.to_owned(), line, message }
        };
        let scenario: Self = toml::from_str(text).map_err(|error| {
            let message = error.message().lines().collect::<Vec<_>>().join("; ");
            wrong(error.span().map_or(0, |span| span.start), message)
        })?;
        scenario.check().map_err(|(at, message)| wrong(at, message))?;
        Ok(scenario)
    }

    /// What no single value shows.
    fn check(&self) -> Result<(), Fault> {
        let cpus = *self.cpus.get_ref();
        within(&self.cpus, (1..=MOST_CPUS).contains(&cpus), "cpus", "a number from 1 to 4096")?;
        let shares = (1..=MOST_CACHES.min(cpus)).contains(self.caches.get_ref());
        within(&self.caches, shares, "caches", "a number from 1 to 64, and no more than there are CPUs")?;
        self.check_cores()?;
        let duration_s = *self.duration_s.get_ref();
        let lasts = duration_s > 0.0 && duration_s <= LONGEST_S;
        within(&self.duration_s, lasts, "duration_s", "seconds above 0, up to 100000")?;
        let settles = (0.0..=LONGEST_S).contains(self.settle_s.get_ref());
        within(&self.settle_s, settles, "settle_s", "seconds from 0 to 100000")?;
        let quantum = (0.001..=10_000.0).contains(self.quantum_ms.get_ref());
        within(&self.quantum_ms, quantum, "quantum_ms", "milliseconds from 0.001 to 10000")?;
        let tick = (0.0..=1000.0).contains(self.tick_ms.get_ref());
        within(&self.tick_ms, tick, "tick_ms", "milliseconds from 0 (none) to 1000")?;
        let load = (0.0..=1e6).contains(self.load.get_ref());
        within(&self.load, load, "load", "a load average from 0 to 1000000")?;
        if self.schedulers.is_empty() {
            return Err((0, format!("schedulers is empty: name some of {}", SchedulerName::list())));
        }
        self.check_numbers()?;
        self.check_cgroups()?;
        self.check_names()?;
        self.check_calls()
    }

    /// No core is of two caches, or of two speeds.
    fn check_cores(&self) -> Result<(), Fault> {
        let (cpus, threads, capacities) = (*self.cpus.get_ref(), *self.threads.get_ref(), self.capacities.get_ref());
        let in_range = (1..=MOST_THREADS).contains(&threads);
        within(&self.threads, in_range, "threads", "a number from 1 to 8")?;
        let of_cache = cpus.div_ceil(*self.caches.get_ref());
        if !cpus.is_multiple_of(threads) || !of_cache.is_multiple_of(threads) {
            let message =
                format!("threads {threads} fits no machine of {cpus} CPUs, {of_cache} in a cache: have whole cores");
            return Err((at(&self.threads), message));
        }
        let wrong = |message: String| Err((at(&self.capacities), message));
        if capacities.is_empty() {
            return Ok(());
        }
        if capacities.len() != cpus as usize {
            return wrong(format!("there are {} capacities for {cpus} CPUs: write one for each", capacities.len()));
        }
        if let Some(capacity) = capacities.iter().find(|&capacity| !(1..=FULL_CAPACITY).contains(capacity)) {
            return wrong(format!("capacity {capacity} is out of range: write a number from 1 to {FULL_CAPACITY}"));
        }
        if capacities.chunks(threads as usize).any(|core| core.iter().any(|capacity| *capacity != core[0])) {
            return wrong("CPUs of a core have different capacities: give them the same".into());
        }
        let domains = Topology::of_scenario(self).number();
        if domains > MOST_CACHES {
            return wrong(format!("caches with fast and slow CPUs make {domains} domains: have at most {MOST_CACHES}"));
        }
        Ok(())
    }

    fn check_numbers(&self) -> Result<(), Fault> {
        let tasks = (self.hogs.iter().map(|group| &group.number))
            .chain(self.interactives.iter().map(|group| &group.number))
            .chain(self.servers.iter().map(|group| &group.number));
        let (mut of_tasks, mut of_customers) = (0, 0);
        for number in tasks {
            add(number, &mut of_tasks, "tasks")?;
        }
        for customer in &self.customers {
            add(&customer.number, &mut of_customers, "customers")?;
            if let Arrivals::AtMs(times) = &customer.arrivals
                && let Some(time) = times.iter().find(|&&time| !(0.0..=LONGEST_S * 1000.0).contains(&time))
            {
                let id = customer.id.get_ref();
                return Err((at(&customer.id), format!("at_ms of customer \"{id}\" has {time}: write times from 0")));
            }
        }
        if of_tasks == 0 {
            return Err((0, "there is no task: add a [[hog]], an [[interactive]] or a [[server]]".into()));
        }
        Ok(())
    }

    fn check_cgroups(&self) -> Result<(), Fault> {
        for weight in self.hogs.iter().filter_map(|hogs| hogs.cpu_weight.as_ref()) {
            let in_range = (1..=10_000).contains(weight.get_ref());
            within(weight, in_range, "cpu_weight", "a number from 1 to 10000")?;
            if self.cgroup {
                let message =
                    "cpu_weight is of a cgroup beside the root, and cgroup puts all tasks into one: use either";
                return Err((at(weight), message.into()));
            }
        }
        Ok(())
    }

    /// Tasks that are in a cgroup of their own, and its `cpu.weight`.
    pub(crate) fn cgroups(&self) -> impl Iterator<Item = (Range<TaskId>, u32)> {
        // In the order of `parts`: servers come first.
        let mut next: u64 = self.servers.iter().map(|group| *group.number.get_ref()).sum();
        self.hogs.iter().filter_map(move |hogs| {
            let first = next;
            next += hogs.number.get_ref();
            Some((first as TaskId..next as TaskId, *hogs.cpu_weight.as_ref()?.get_ref()))
        })
    }

    fn check_names(&self) -> Result<(), Fault> {
        let ids = (self.hogs.iter().map(|group| &group.id))
            .chain(self.interactives.iter().map(|group| &group.id))
            .chain(self.servers.iter().map(|group| &group.id))
            .chain(self.customers.iter().map(|group| &group.id));
        let mut seen = BTreeSet::new();
        for id in ids {
            if !seen.insert(id.get_ref()) {
                return Err((at(id), format!("id \"{}\" is taken: give each table an id of its own", id.get_ref())));
            }
        }
        for name in self.customers.iter().map(|customer| &customer.to).chain(self.called()) {
            if !self.servers.iter().any(|server| server.id.get_ref() == name.get_ref()) {
                let known: Vec<&str> = self.servers.iter().map(|server| server.id.get_ref().as_str()).collect();
                let known =
                    if known.is_empty() { "there is none".into() } else { format!("there are {}", known.join(", ")) };
                return Err((at(name), format!("\"{}\" is no [[server]]: {known}", name.get_ref())));
            }
        }
        Ok(())
    }

    fn called(&self) -> impl Iterator<Item = &Spanned<String>> {
        self.servers.iter().flat_map(|server| &server.calls).flat_map(|call| &call.to)
    }

    /// Servers that wait for each other in a circle would never answer.
    fn check_calls(&self) -> Result<(), Fault> {
        let mut reach: BTreeMap<&str, usize> = BTreeMap::new();
        // As many rounds as there are servers: longest chain that begins at each. In a circle it grows without end.
        for round in 0..=self.servers.len() {
            let mut grows = false;
            for server in &self.servers {
                for call in &server.calls {
                    if call.to.is_empty() || call.to.len() > MOST_AT_ONCE {
                        let id = server.id.get_ref();
                        let message =
                            format!("a call of \"{id}\" asks {} servers at once: name 1 to 16", call.to.len());
                        return Err((at(&server.id), message));
                    }
                    for to in &call.to {
                        let longest = 1 + reach.get(to.get_ref().as_str()).copied().unwrap_or(0);
                        let mine = reach.entry(server.id.get_ref()).or_default();
                        grows |= longest > *mine;
                        *mine = longest.max(*mine);
                    }
                }
                if grows && round == self.servers.len() {
                    let id = server.id.get_ref();
                    let message = format!("the calls of \"{id}\" lead back to it: let no server wait for itself");
                    return Err((at(&server.id), message));
                }
            }
        }
        Ok(())
    }
}

fn at<T>(spanned: &Spanned<T>) -> usize {
    spanned.span().start
}

fn within<T: std::fmt::Display>(value: &Spanned<T>, good: bool, name: &str, allowed: &str) -> Result<(), Fault> {
    if good { Ok(()) } else { Err((at(value), format!("{name} {} is out of range: write {allowed}", value.get_ref()))) }
}

fn add(number: &Spanned<u64>, sum: &mut u64, of: &str) -> Result<(), Fault> {
    within(number, (1..=MOST_TASKS).contains(number.get_ref()), "number", "a number from 1 to 1000000")?;
    *sum += number.get_ref();
    if *sum > MOST_TASKS {
        return Err((at(number), format!("with these there are {sum} {of}: have at most {MOST_TASKS}")));
    }
    Ok(())
}
