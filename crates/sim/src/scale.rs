//! What a decision and a message cost as tasks, customers and CPUs grow: time of the host's CPU, by the simulation itself.
//!
//! Its figures are those of the simulator's own queues. They grow as those of the kernel's would where both have the same
//! structure (a heap here, a red-black tree there; as many looks at CPUs in both); the nanoseconds are not the kernel's.
//! What CPUs wait for locks is simulated time ([`crate::schedulers::locks`]), with queues for each cache and with one set of
//! queues for all CPUs.

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::{
    Counts, Effort, SECOND, Scenario, SchedulerName, Simulation,
    plot::{Chart, Marks, PlotError, Series},
    report::File,
};

/// Simulated time in which tasks are made, which is not measured, s.
const START_S: f64 = 0.001;

/// The same where locks are simulated, s: by then CPUs that began at the same instant are out of step.
const LOCKS_START_S: f64 = 0.1;

/// CPUs that share a cache where locks are simulated, as many as one domain can have.
pub const CPUS_OF_A_CACHE: u64 = 64;

/// Runs of each scenario.
const RUNS: u32 = 3;

/// Fewer messages than these tell nothing of what one costs.
const FEWEST_MESSAGES: u64 = 1000;

/// What grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Axis {
    /// Tasks, of which nearly all never sleep, beside 100 customers, on 4 CPUs.
    Tasks,
    /// Customers, each with a request every second, on as many CPUs as they need at least.
    Customers,
    /// CPUs, with 4 tasks and 10 customers each.
    Cpus,
}

impl Axis {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Tasks, Self::Customers, Self::Cpus];

    fn sizes(self) -> &'static [u64] {
        match self {
            Self::Tasks => &[10, 100, 1000, 10_000, 100_000, 1_000_000],
            Self::Customers => &[10, 100, 1000, 10_000, 100_000],
            Self::Cpus => &[1, 4, 16, 64, 256, 1024, 4096],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Tasks => "tasks",
            Self::Customers => "customers",
            Self::Cpus => "CPUs",
        }
    }

    /// The scenario of a size, in which about `events` events happen. Each request is answered by one process, or by one
    /// that asks another, which makes two messages more of the same work.
    ///
    /// # Errors
    ///
    /// When the size is more than a scenario may have.
    pub fn scenario(self, size: u64, events: u64, asks: bool) -> Result<Scenario, crate::Error> {
        Scenario::parse(&self.text(size, events, asks, START_S, ""), "scale")
    }

    fn text(self, size: u64, events: u64, asks: bool, start_s: f64, more: &str) -> String {
        let (cpus, workers, hogs, customers) = match self {
            Self::Tasks => (4, 16.min(size / 4), size - 2 * 16.min(size / 4), 100),
            Self::Customers => (size.div_ceil(500), 4 * size.div_ceil(500), 8, size),
            Self::Cpus => (size, 4 * size, 4 * size, 10 * size),
        };
        // A CPU at work has about 200 turns a second, and a customer's request eight events.
        let duration_s = (events as f64 / (200 * cpus + 8 * customers) as f64).clamp(0.02, 1000.0);
        let front = if asks {
            "work_ms = { exponential = 0.5 }\ncalls = [{ to = [\"back\"], then_ms = 0.2 }]"
        } else {
            "work_ms = { exponential = 1 }"
        };
        format!(
            "name = \"scale\"\ncpus = {cpus}\nduration_s = {duration_s}\nsettle_s = {start_s}\n{more}\
             [[hog]]\nid = \"hogs\"\nnumber = {hogs}\n\
             [[server]]\nid = \"front\"\nnumber = {workers}\n{front}\n\
             [[server]]\nid = \"back\"\nnumber = {workers}\nwork_ms = {{ exponential = 0.3 }}\n\
             [[customer]]\nid = \"customers\"\nnumber = {customers}\nto = \"front\"\n\
             arrivals = {{ open_ms = {{ exponential = 1000 }} }}\n"
        )
    }
}

/// What one size cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cost {
    /// What grows.
    pub axis: Axis,
    /// Under which scheduler.
    pub scheduler: SchedulerName,
    /// How many of what grows.
    pub size: u64,
    /// Scheduling events.
    pub events: u64,
    /// Decisions.
    pub decisions: u64,
    /// Messages.
    pub messages: u64,
    /// Host time for each event, ns.
    pub event_ns: f64,
    /// Host time for each decision, ns.
    pub decision_ns: f64,
    /// Host time for each message, with the wake-up, the sleep and the decision that come with it, ns: what a scenario with
    /// more messages takes longer. `None` where that is lost in the noise.
    pub message_ns: Option<f64>,
}

/// What happened in a scenario after its tasks were made, and how long that took, s of the host's CPU time: the shortest of
/// some runs, for caches that others use only make them longer.
#[must_use]
pub fn timed(scenario: &Scenario, scheduler: SchedulerName) -> (Counts, f64) {
    let (mut counts, mut shortest_s) = (Counts::default(), f64::INFINITY);
    for _ in 0..RUNS {
        let (happened, taken_s) = timed_once(scenario, scheduler);
        counts = happened;
        shortest_s = shortest_s.min(taken_s);
    }
    (counts, shortest_s)
}

fn timed_once(scenario: &Scenario, scheduler: SchedulerName) -> (Counts, f64) {
    let (counts, _, taken_s) = observed_once(scenario, scheduler);
    (counts, taken_s)
}

fn observed_once(scenario: &Scenario, scheduler: SchedulerName) -> (Counts, Effort, f64) {
    let mut simulation = Simulation::new(scenario, scheduler, None);
    simulation.run_until((scenario.settle_s.get_ref() * SECOND as f64) as u64);
    let (before, began_s) = (simulation.counts(), cpu_time_s());
    let outcome = simulation.run();
    (outcome.counts.since(&before), outcome.effort, cpu_time_s() - began_s)
}

/// How queues are shared where locks are simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queues {
    /// Each cache of [`CPUS_OF_A_CACHE`] CPUs has its own.
    OfCaches,
    /// The same, with all tasks in one cgroup.
    OfCachesInCgroup,
    /// All CPUs have the same.
    OfAll,
}

impl Queues {
    /// All of these.
    pub const ALL: [Self; 3] = [Self::OfCaches, Self::OfCachesInCgroup, Self::OfAll];

    fn name(self) -> &'static str {
        match self {
            Self::OfCaches => "queues for each cache",
            Self::OfCachesInCgroup => "the same, in one cgroup",
            Self::OfAll => "one set of queues",
        }
    }
}

/// What placing tasks cost on a machine of so many CPUs under `appease`, locks included.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Placing {
    /// How queues are shared.
    pub queues: Queues,
    /// CPUs of the machine.
    pub cpus: u64,
    /// Decisions.
    pub decisions: u64,
    /// Host time for each decision, ns.
    pub decision_ns: f64,
    /// The same where each cache is a machine of its own, ns: as much state, of which no machine has more than one cache's.
    pub apart_ns: f64,
    /// CPUs that a wake-up looked at that found no idle one, on the average.
    pub cpu_looks: f64,
    /// And at most.
    pub most_cpu_looks: u32,
    /// Other domains that were looked at, for each decision.
    pub domain_looks: f64,
    /// Locks that were taken, for each decision.
    pub locked: f64,
    /// Simulated time that CPUs waited for locks, for each decision, ns.
    pub waited_ns: f64,
    /// The longest that one waited, ns.
    pub longest_wait_ns: u64,
}

fn placing_scenario(queues: Queues, cpus: u64, events: u64) -> Result<Scenario, crate::Error> {
    let caches = if queues == Queues::OfAll { 1 } else { cpus.div_ceil(CPUS_OF_A_CACHE) };
    let cgroup = queues == Queues::OfCachesInCgroup;
    let more = format!("caches = {caches}\nlocks = true\ncgroup = {cgroup}\n");
    Scenario::parse(&Axis::Cpus.text(cpus, events, true, LOCKS_START_S, &more), "scale")
}

/// Host time for each decision on so many machines that know nothing of each other, ns. Their events happen by turns, one of each.
///
/// A kernel's CPU has its own tasks in its own caches. Here one CPU of the host decides for all, so each decision needs lines that it had
/// last thousands of decisions ago, and waits for memory. So it does for machines apart, whose state is as large and somewhat larger. What
/// a decision costs more than that on one machine of as many CPUs is work that grows, the scheduler's or the simulation's.
fn apart_once(scenario: &Scenario, machines: u64) -> f64 {
    let mut all: Vec<Simulation> =
        (0..machines).map(|nth| Simulation::new(scenario, SchedulerName::Appease, Some(nth))).collect();
    all.iter_mut().for_each(|machine| machine.run_until((scenario.settle_s.get_ref() * SECOND as f64) as u64));
    let decisions = |all: &[Simulation]| all.iter().map(|machine| machine.counts().decisions).sum::<u64>();
    let (before, began_s) = (decisions(&all), cpu_time_s());
    // All of them end at the same time, but not with the same event.
    while all.iter_mut().map(|machine| u32::from(machine.step())).sum::<u32>() > 0 {}
    let taken_s = cpu_time_s() - began_s;
    taken_s * 1e9 / (decisions(&all) - before).max(1) as f64
}

/// Measures what placing tasks costs on a machine of so many CPUs, with about so many events.
///
/// # Errors
///
/// When the scenario cannot be made.
pub fn placing(queues: Queues, cpus: u64, events: u64) -> Result<Placing, crate::Error> {
    let scenario = placing_scenario(queues, cpus, events)?;
    let machines = cpus.div_ceil(CPUS_OF_A_CACHE);
    let one_cache = placing_scenario(Queues::OfCaches, cpus.min(CPUS_OF_A_CACHE), events / machines)?;
    let (mut counts, mut effort, mut taken_s, mut apart_ns) =
        (Counts::default(), Effort::default(), f64::INFINITY, f64::INFINITY);
    for _ in 0..RUNS {
        let (happened, spent, this_s) = observed_once(&scenario, SchedulerName::Appease);
        (counts, effort, taken_s) = (happened, spent, taken_s.min(this_s));
        // In turns, so that what else the host does slows both.
        apart_ns = apart_ns.min(apart_once(&one_cache, machines));
    }
    let each = |number: f64| number / counts.decisions.max(1) as f64;
    Ok(Placing {
        queues,
        cpus,
        decisions: counts.decisions,
        decision_ns: each(taken_s * 1e9),
        apart_ns,
        cpu_looks: effort.cpu_looks as f64 / effort.searches.max(1) as f64,
        most_cpu_looks: effort.most_cpu_looks,
        domain_looks: each(effort.domain_looks as f64),
        locked: each(effort.locked as f64),
        waited_ns: each(effort.waited_ns as f64),
        longest_wait_ns: effort.longest_wait_ns,
    })
}

/// The same for all sizes; tells of each as it is done.
///
/// # Errors
///
/// When a scenario cannot be made.
pub fn measure_placing(events: u64, mut tell: impl FnMut(&Placing)) -> Result<Vec<Placing>, crate::Error> {
    let mut all = Vec::new();
    for queues in Queues::ALL {
        for &cpus in Axis::Cpus.sizes() {
            let placing = placing(queues, cpus, events)?;
            tell(&placing);
            all.push(placing);
        }
    }
    Ok(all)
}

/// The picture: waiting for locks against CPUs.
///
/// # Errors
///
/// When it cannot be drawn.
pub fn picture_of_placing(all: &[Placing]) -> Result<File, PlotError> {
    let series = Queues::ALL.map(|queues| {
        let of = all.iter().filter(|placing| placing.queues == queues);
        let points = of.map(|placing| (placing.cpus as f64, placing.waited_ns / 1000.0)).collect();
        Series { name: queues.name().into(), marks: Marks::Line(points) }
    });
    let title = "Waiting for locks at each decision, as CPUs grow";
    let chart = Chart { title, x: "CPUs", y: "simulated µs", log_x: true, series: &series };
    Ok(File { name: "scale-locks.svg".into(), content: chart.svg()? })
}

/// What this thread had of the host's CPUs: what else the host does is not in it.
fn cpu_time_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Measures all sizes of these axes under these schedulers, with about so many events each; tells of each as it is done.
///
/// # Errors
///
/// When a scenario cannot be made.
pub fn measure(
    axes: &[Axis],
    under: &[SchedulerName],
    events: u64,
    mut tell: impl FnMut(&Cost),
) -> Result<Vec<Cost>, crate::Error> {
    let mut costs = Vec::new();
    for &axis in axes {
        for &size in axis.sizes() {
            let (asking, plain) = (axis.scenario(size, events, true)?, axis.scenario(size, events, false)?);
            for &scheduler in under {
                let (counts, taken_s) = timed(&asking, scheduler);
                let (fewer, sooner_s) = timed(&plain, scheduler);
                let more = counts.messages.saturating_sub(fewer.messages);
                let each = |number: u64| taken_s * 1e9 / number.max(1) as f64;
                let cost = Cost {
                    axis,
                    scheduler,
                    size,
                    events: counts.events(),
                    decisions: counts.decisions,
                    messages: counts.messages,
                    event_ns: each(counts.events()),
                    decision_ns: each(counts.decisions),
                    message_ns: (more >= FEWEST_MESSAGES && taken_s > sooner_s)
                        .then(|| (taken_s - sooner_s) * 1e9 / more as f64),
                };
                tell(&cost);
                costs.push(cost);
            }
        }
    }
    Ok(costs)
}

/// The pictures: cost of an event against size, for each axis.
///
/// # Errors
///
/// When one cannot be drawn.
pub fn pictures(costs: &[Cost]) -> Result<Vec<File>, PlotError> {
    let mut axes = Axis::ALL.to_vec();
    axes.retain(|&axis| costs.iter().any(|cost| cost.axis == axis));
    axes.into_iter()
        .map(|axis| {
            let of =
                |scheduler| costs.iter().filter(move |cost: &&Cost| cost.axis == axis && cost.scheduler == scheduler);
            let series: Vec<Series> = SchedulerName::ALL
                .into_iter()
                .filter(|&scheduler| of(scheduler).next().is_some())
                .map(|scheduler| Series {
                    name: scheduler.to_string(),
                    marks: Marks::Line(of(scheduler).map(|cost| (cost.size as f64, cost.event_ns)).collect()),
                })
                .collect();
            let title = format!("Host time for each scheduling event, as {} grow", axis.name());
            let chart = Chart { title: &title, x: axis.name(), y: "ns", log_x: true, series: &series };
            Ok(File { name: format!("scale-{}.svg", axis.name().to_lowercase()), content: chart.svg()? })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn all_sizes_are_scenarios() {
        for axis in Axis::ALL {
            for &size in axis.sizes() {
                assert!(axis.scenario(size, 10_000, true).is_ok(), "{axis:?} {size}");
            }
        }
    }

    /// Making tasks is not part of what is measured.
    #[test]
    fn what_is_measured_is_about_what_was_asked_for() {
        for axis in Axis::ALL {
            let (counts, _) = timed(&axis.scenario(1000, 20_000, true).unwrap(), SchedulerName::Appease);
            assert!((5_000..100_000).contains(&counts.events()), "{axis:?}: {}", counts.events());
        }
    }
}
