//! Formulas against simulation: the same request in the same situation, once by equation and once by event.
//!
//! Each point is simulated several times, with the request coming at another moment of the running task's slice, so there is
//! a least and a largest value. The paper gives few numbers; N goes as far as its experiments had parallel compilers
//! (30), Z and *nice* as far as its assumptions (Z ≤ nice + 1, nice ≤ 15), α is 0 and there is one CPU, as there.

use serde::Serialize;

use crate::{
    Alpha, Arrivals, Call, CustomerGroup, MS, Nice, SECOND, Scenario, Scheduler, SchedulerName, Server, Simulation,
    Socket, Weight,
    distribution::Time,
    formula::{self, Elevated},
    scenario::{Hog, plain},
    schedulers::{
        cfs::{Cfs, Tunables},
        mlfq::Mlfq,
        rbpe::{Rbpe, Row},
        round_robin::RoundRobin,
    },
};

/// Quantum of round robin and of the first feedback queue.
const QUANTUM_NS: u64 = 10 * MS;
/// Moments of the running task's slice at which the request comes.
const PHASES: u64 = 4;
/// When it comes at the earliest: the others have found their rhythm.
const ARRIVAL_NS: u64 = SECOND / 2;

/// One situation, at one value of what changes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// What changes.
    pub x: f64,
    /// By the paper's equation, ms.
    pub printed_ms: f64,
    /// By section 2.2, ms.
    pub corrected_ms: f64,
    /// Least by simulation, ms.
    pub least_ms: f64,
    /// Largest by simulation, ms.
    pub most_ms: f64,
}

/// An equation in one situation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Its name in files.
    pub id: &'static str,
    /// Which equation, under which scheduler.
    pub title: &'static str,
    /// What changes.
    pub x: &'static str,
    /// What does not.
    pub setting: &'static str,
    /// The points.
    pub points: Vec<Point>,
}

impl Comparison {
    /// Largest distance of the simulation from the paper's equation, ms: of whichever end of the range is farther.
    #[must_use]
    pub fn printed_error_ms(&self) -> f64 {
        self.points.iter().map(|point| distance(point, point.printed_ms)).fold(0.0, f64::max)
    }

    /// The same from what the equation should be.
    #[must_use]
    pub fn corrected_error_ms(&self) -> f64 {
        self.points.iter().map(|point| distance(point, point.corrected_ms)).fold(0.0, f64::max)
    }

    /// Whether the simulation is never above what the equation should be, but for a microsecond.
    #[must_use]
    pub fn corrected_is_bound(&self) -> bool {
        self.points.iter().all(|point| point.most_ms <= point.corrected_ms + 1e-3)
    }
}

fn distance(point: &Point, ms: f64) -> f64 {
    (point.least_ms - ms).abs().max((point.most_ms - ms).abs())
}

/// A request that finds others at work.
#[derive(Debug, Clone)]
pub struct Situation {
    /// Tasks that never sleep.
    pub others: u64,
    /// When they begin, ns.
    pub others_start_ns: u64,
    /// When the request comes, ns.
    pub arrival_ns: u64,
    /// CPU time of its parts, ns: one part, or three of which the second is done by a service.
    pub parts_ns: Vec<u64>,
    /// Whether the others read a request, too: one that takes longer than the simulation.
    pub others_serve: bool,
}

impl Situation {
    /// One that has settled, at one of [`PHASES`] moments of a slice of that length.
    fn settled(tasks: u32, slice_ns: u64, phase: u64, parts_ns: Vec<u64>) -> Self {
        // A moment later than the slice's beginning, or it would come before its end.
        let arrival_ns = ARRIVAL_NS + slice_ns * phase / PHASES + 1;
        Self { others: u64::from(tasks) - 1, others_start_ns: 0, arrival_ns, parts_ns, others_serve: false }
    }

    /// As a scenario.
    #[must_use]
    pub fn scenario(&self) -> Scenario {
        let work_ns: u64 = self.parts_ns.iter().sum();
        let end_ns = self.arrival_ns + SECOND / 5 + (self.others + 1) * 2 * work_ns;
        let name = |id: &str| plain(id.to_owned());
        let server = |id: &str, number: u64, ns: u64, calls: Vec<Call>| Server {
            id: name(id),
            number: plain(number),
            nice: Nice::default(),
            work_ms: Time::constant_ns(ns),
            calls,
            socket: Socket::Network,
            terminal: false,
        };
        let customers = |id: &str, number: u64, to: &str, at_ns: u64| CustomerGroup {
            id: name(id),
            number: plain(number),
            to: name(to),
            arrivals: Arrivals::AtMs(vec![at_ns as f64 / MS as f64]),
            weight: Weight::ONE,
            request_weight: Weight::ONE,
            socket: Socket::Network,
        };
        let part = |nth: usize| self.parts_ns.get(nth).copied().unwrap_or(0);
        let call = Call { to: vec![name("service")], then_ms: Time::constant_ns(part(2)) };
        let calls = if self.parts_ns.len() > 1 { vec![call] } else { Vec::new() };
        let mut scenario = Scenario {
            name: "situation".into(),
            summary: String::new(),
            cpus: plain(1),
            caches: plain(1),
            threads: plain(1),
            capacities: plain(Vec::new()),
            locks: false,
            cgroup: false,
            duration_s: plain(end_ns as f64 / SECOND as f64),
            settle_s: plain(0.0),
            seed: 1,
            schedulers: Vec::new(),
            alpha: Alpha::ZERO,
            quantum_ms: plain(QUANTUM_NS as f64 / MS as f64),
            tick_ms: plain(0.0),
            load: plain(0.0),
            hogs: Vec::new(),
            interactives: Vec::new(),
            servers: vec![server("front", 1, part(0), calls), server("service", 1, part(1), Vec::new())],
            customers: vec![customers("customer", 1, "front", self.arrival_ns)],
        };
        if self.others > 0 && self.others_serve {
            scenario.servers.push(server("others", self.others, 1000 * SECOND, Vec::new()));
            scenario.customers.push(customers("crowd", self.others, "others", self.others_start_ns));
        } else if self.others > 0 {
            let start_ms = self.others_start_ns / MS;
            let (number, nice) = (plain(self.others), Nice::default());
            scenario.hogs.push(Hog { id: name("others"), number, nice, start_ms, cpu_weight: None });
        }
        scenario
    }

    /// The unhappiness with which the answer comes under a scheduler, ns; `None` if none came.
    #[must_use]
    pub fn unhappiness_ns(
        &self,
        name: SchedulerName,
        scheduler: impl FnOnce(u32, usize) -> Box<dyn Scheduler>,
    ) -> Option<i64> {
        let outcome = Simulation::with(&self.scenario(), name, None, scheduler).run();
        outcome.customer("customer")?.latest.map(|answer| answer.unhappiness_ns)
    }

    /// Under round robin.
    #[must_use]
    pub fn round_robin_ns(&self) -> Option<i64> {
        self.unhappiness_ns(SchedulerName::RoundRobin, |_, _| Box::new(RoundRobin::new(QUANTUM_NS)))
    }

    /// Under feedback queues, of which there are as many as anybody needs.
    #[must_use]
    pub fn feedback_ns(&self) -> Option<i64> {
        self.unhappiness_ns(SchedulerName::Mlfq, |cpus, tasks| Box::new(Mlfq::new(QUANTUM_NS, 12, cpus, tasks)))
    }

    /// Under CFS with those settings.
    #[must_use]
    pub fn cfs_ns(&self, tunables: Tunables) -> Option<i64> {
        self.unhappiness_ns(SchedulerName::Cfs, |cpus, tasks| Box::new(Cfs::new(tunables, cpus, tasks)))
    }

    /// Under CFS/RBPE, whatever the load: so many levels, of which one is lost after each `delay_ns`.
    #[must_use]
    pub fn rbpe_ns(&self, tunables: Tunables, nice: u32, delay_ns: u64) -> Option<i64> {
        let table = vec![Row { load: u64::MAX, unix: nice, network: nice, delay_ns }];
        self.unhappiness_ns(SchedulerName::Rbpe, |cpus, tasks| Box::new(Rbpe::new(table, 0, tunables, cpus, tasks)))
    }
}

/// Time in which each of so many tasks runs once under CFS with one CPU, ns: *sch_lat*, stretched as the kernel does.
#[must_use]
pub fn sch_lat_ns(tasks: u32) -> u64 {
    Tunables::of(1).period_ns(u64::from(tasks))
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / SECOND as f64
}

fn millis(ns: u64) -> f64 {
    ns as f64 / MS as f64
}

/// One point: formulas, s, and the simulation at each phase, ns.
fn point(x: f64, printed_s: f64, corrected_s: f64, simulate: impl Fn(u64) -> Option<i64>) -> Point {
    let simulated: Vec<f64> = (0..PHASES).filter_map(simulate).map(|ns| ns as f64 / MS as f64).collect();
    Point {
        x,
        printed_ms: printed_s * 1000.0,
        corrected_ms: corrected_s * 1000.0,
        least_ms: simulated.iter().copied().fold(f64::INFINITY, f64::min),
        most_ms: simulated.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    }
}

/// All comparisons.
#[must_use]
pub fn all() -> Vec<Comparison> {
    vec![
        round_robin_by_tasks(),
        round_robin_by_quanta(),
        round_robin_with_service(),
        feedback_among_newcomers(),
        feedback_among_the_sunken(),
        cfs_short_requests(),
        cfs_with_service(),
        cfs_with_service_and_credit(),
        rbpe_short_requests(),
        rbpe_with_service(),
        cfs_and_rbpe(),
    ]
}

/// Eq. 6 and 8 as N grows.
#[must_use]
pub fn round_robin_by_tasks() -> Comparison {
    let quanta = 4;
    let points = (2..=32).step_by(3).map(|tasks| {
        let (printed, corrected) =
            (formula::eq6(0.01, quanta, tasks), formula::round_robin_unhappiness(0.01, &[quanta], tasks));
        point(f64::from(tasks), printed, corrected, |phase| {
            let parts_ns = vec![u64::from(quanta) * QUANTUM_NS];
            Situation::settled(tasks, QUANTUM_NS, phase, parts_ns).round_robin_ns()
        })
    });
    Comparison {
        id: "eq-6-tasks",
        title: "Eq. 6 and 8: round robin, as tasks grow",
        x: "tasks (N)",
        setting: "q = 10 ms, Z = 4",
        points: points.collect(),
    }
}

/// Eq. 6 and 8 as Z grows.
#[must_use]
pub fn round_robin_by_quanta() -> Comparison {
    let points = (1..=16).map(|quanta| {
        let (printed, corrected) =
            (formula::eq6(0.01, quanta, 6), formula::round_robin_unhappiness(0.01, &[quanta], 6));
        point(f64::from(quanta), printed, corrected, |phase| {
            Situation::settled(6, QUANTUM_NS, phase, vec![u64::from(quanta) * QUANTUM_NS]).round_robin_ns()
        })
    });
    Comparison {
        id: "eq-6-quanta",
        title: "Eq. 6 and 8: round robin, as the request grows",
        x: "quanta that the request takes (Z)",
        setting: "q = 10 ms, N = 6",
        points: points.collect(),
    }
}

/// Eq. 7 and 9.
#[must_use]
pub fn round_robin_with_service() -> Comparison {
    let points = (2..=32).step_by(3).map(|tasks| {
        let quanta = [2, 3, 1];
        let (printed, corrected) =
            (formula::eq7(0.01, quanta, tasks), formula::round_robin_unhappiness(0.01, &quanta, tasks));
        point(f64::from(tasks), printed, corrected, |phase| {
            let parts_ns = quanta.map(|part| u64::from(part) * QUANTUM_NS).to_vec();
            Situation::settled(tasks, QUANTUM_NS, phase, parts_ns).round_robin_ns()
        })
    });
    Comparison {
        id: "eq-7",
        title: "Eq. 7 and 9: round robin, with a service",
        x: "tasks (N)",
        setting: "q = 10 ms, Z1, Z2, Z3 = 2, 3, 1",
        points: points.collect(),
    }
}

/// Eq. 12 where the others were started with the request: all pass through all queues, just ahead of it.
#[must_use]
pub fn feedback_among_newcomers() -> Comparison {
    let tasks = 6;
    let points = (1..=15).map(|quanta| {
        let ahead = vec![tasks; 1 + formula::last_queue(quanta)];
        let printed = formula::eq12(0.01, quanta, &ahead);
        let corrected = formula::feedback_unhappiness(0.01, quanta, &ahead);
        point(f64::from(quanta), printed, corrected, |_| {
            let parts_ns = vec![u64::from(quanta) * QUANTUM_NS];
            let mut situation = Situation::settled(tasks, QUANTUM_NS, 0, parts_ns);
            situation.others_start_ns = ARRIVAL_NS;
            situation.feedback_ns()
        })
    });
    Comparison {
        id: "eq-12-newcomers",
        title: "Eq. 10 and 12: feedback queues, among tasks that were just started",
        x: "quanta that the request takes (Z)",
        setting: "q = 10 ms, N = 6, a_i = 6 counted when the process comes to queue i",
        points: points.collect(),
    }
}

/// Eq. 13 where the others sank long ago.
#[must_use]
pub fn feedback_among_the_sunken() -> Comparison {
    let points = (1..=15).map(|quanta| {
        let ahead = vec![1; 1 + formula::last_queue(quanta)];
        let printed = formula::eq13(0.01, [quanta; 3], [&ahead; 3]);
        let corrected = 3.0 * formula::feedback_unhappiness(0.01, quanta, &ahead);
        point(f64::from(quanta), printed, corrected, |phase| {
            let mut situation = Situation::settled(6, QUANTUM_NS, phase, vec![u64::from(quanta) * QUANTUM_NS; 3]);
            // Until then each of the others has had turns of 1, 2, 4 … 128 quanta.
            situation.arrival_ns += 20 * SECOND;
            situation.feedback_ns()
        })
    });
    Comparison {
        id: "eq-13-sunken",
        title: "Eq. 13: feedback queues, among tasks that sank long ago, with a service",
        x: "quanta that each part takes (Z1 = Z2 = Z3)",
        setting: "q = 10 ms, N = 6, a_i = 1",
        points: points.collect(),
    }
}

/// Eq. 17 and 24: requests that take one slice or a few, under the kernel's settings.
#[must_use]
pub fn cfs_short_requests() -> Comparison {
    let (tasks, lat_ns, kernel) = (6, sch_lat_ns(6), Tunables::of(1));
    let points = (1..=24).map(|quarters| {
        let work_ns = quarters * MS / 4;
        let credit_s = seconds(kernel.sleeper_credit_ns);
        let corrected = formula::cfs_unhappiness(seconds(lat_ns), credit_s, &[seconds(work_ns)], tasks);
        point(millis(work_ns), formula::eq17(), corrected, |phase| {
            Situation::settled(tasks, lat_ns / u64::from(tasks), phase, vec![work_ns]).cfs_ns(kernel)
        })
    });
    Comparison {
        id: "eq-17",
        title: "Eq. 17 and 24: CFS, short requests",
        x: "CPU time of the request, ms",
        setting: "sch_lat = 6 ms, N = 6, the kernel's settings; eq. 24 promises 0 up to 1 ms only",
        points: points.collect(),
    }
}

/// CPU time of the three parts of eq. 18 to 27.
const PARTS_NS: [u64; 3] = [8 * MS, 8 * MS, 8 * MS];

/// Eq. 18 as N grows, under those settings.
fn cfs_by_tasks(tunables: Tunables) -> Vec<Point> {
    let points = (2..=31).map(|tasks| {
        let (lat_ns, parts_s) = (sch_lat_ns(tasks), PARTS_NS.map(seconds));
        let printed_ms = formula::eq18(millis(lat_ns), PARTS_NS.map(millis), tasks);
        let credit_s = seconds(tunables.sleeper_credit_ns);
        let corrected = formula::cfs_unhappiness(seconds(lat_ns), credit_s, &parts_s, tasks);
        point(f64::from(tasks), printed_ms / 1000.0, corrected, |phase| {
            let slice_ns = lat_ns / u64::from(tasks);
            Situation::settled(tasks, slice_ns, phase, PARTS_NS.to_vec()).cfs_ns(tunables)
        })
    });
    points.collect()
}

/// Eq. 18 as N grows, where who wakes up goes to the left of all others and no farther, as the paper has it.
#[must_use]
pub fn cfs_with_service() -> Comparison {
    Comparison {
        id: "eq-18",
        title: "Eq. 18: CFS, with a service",
        x: "tasks (N)",
        setting: "τ1 = τ2 = τ3 = 8 ms, sch_lat = 6 ms, from 9 tasks on 0.75 ms for each; eq. 18 reckoned in milliseconds",
        points: cfs_by_tasks(Tunables::of_paper()),
    }
}

/// The same with the kernel's credit for who slept.
#[must_use]
pub fn cfs_with_service_and_credit() -> Comparison {
    Comparison {
        id: "eq-18-credit",
        title: "Eq. 18: CFS, with a service, and the kernel's credit for sleepers",
        x: "tasks (N)",
        setting: "the same; who wakes up goes on for 3 ms before the others have their first turn",
        points: cfs_by_tasks(Tunables::of(1)),
    }
}

fn elevated(tasks: u32, nice: u32) -> Elevated {
    Elevated { sch_lat_s: seconds(sch_lat_ns(tasks)), tasks, nice }
}

/// Time after which a level is lost such that it is one each turn: turns come each *sch_lat*, but for rounding.
fn level_each_turn_ns(tasks: u32) -> u64 {
    sch_lat_ns(tasks) / 20 * 19
}

/// Eq. 20 and 25: requests that take one slice or a few.
#[must_use]
pub fn rbpe_short_requests() -> Comparison {
    let (tasks, nice) = (6, 5);
    let at = elevated(tasks, nice);
    let points = (1..=24).map(|halves| {
        let work_ns = halves * MS / 2;
        let corrected = formula::rbpe_unhappiness(at, &[seconds(work_ns)]);
        point(millis(work_ns), formula::eq20(), corrected, |phase| {
            let situation = Situation::settled(tasks, MS, phase, vec![work_ns]);
            situation.rbpe_ns(Tunables::of_paper(), nice, level_each_turn_ns(tasks))
        })
    });
    Comparison {
        id: "eq-20",
        title: "Eq. 20 and 25: CFS/RBPE, short requests",
        x: "CPU time of the request, ms",
        setting: "sch_lat = 6 ms, N = 6, nice = 5, a level is lost each turn; eq. 25 promises 0 up to 2.27 ms only",
        points: points.collect(),
    }
}

/// Eq. 23 as N grows.
#[must_use]
pub fn rbpe_with_service() -> Comparison {
    let points = (2..=31).map(|tasks| {
        let (at, parts_s) = (elevated(tasks, NICE), PARTS_NS.map(seconds));
        let turns = parts_s.map(|part_s| formula::turns(at, part_s));
        let printed = formula::eq23(at, turns, parts_s.iter().sum());
        point(f64::from(tasks), printed, formula::rbpe_unhappiness(at, &parts_s), |phase| {
            elevated_situation(tasks, phase).rbpe_ns(Tunables::of_paper(), NICE, level_each_turn_ns(tasks))
        })
    });
    Comparison {
        id: "eq-23",
        title: "Eq. 21 to 23 and 27: CFS/RBPE, with a service",
        x: "tasks (N)",
        setting: "τ1 = τ2 = τ3 = 8 ms, nice = 5, a level is lost each turn",
        points: points.collect(),
    }
}

/// Levels in the comparisons with a service.
const NICE: u32 = 5;

fn elevated_situation(tasks: u32, phase: u64) -> Situation {
    Situation::settled(tasks, sch_lat_ns(tasks) / u64::from(tasks), phase, PARTS_NS.to_vec())
}

/// Section 5.2: eq. 27 against eq. 26. Printed is what eq. 26 has beyond eq. 27, corrected the same by section 2.2, simulated
/// what CFS has beyond CFS/RBPE.
#[must_use]
pub fn cfs_and_rbpe() -> Comparison {
    let points = (2..=31).map(|tasks| {
        let (at, parts_s) = (elevated(tasks, NICE), PARTS_NS.map(seconds));
        let (turns, total_s) = (parts_s.map(|part_s| formula::turns(at, part_s)), parts_s.iter().sum());
        let eq26_ms = formula::eq26(at.sch_lat_s * 1000.0, total_s * 1000.0, tasks);
        let printed = eq26_ms / 1000.0 - formula::eq27(at, turns, total_s);
        let cfs = formula::cfs_unhappiness(at.sch_lat_s, 0.0, &parts_s, tasks);
        point(f64::from(tasks), printed, cfs - formula::rbpe_unhappiness(at, &parts_s), |phase| {
            let (situation, paper) = (elevated_situation(tasks, phase), Tunables::of_paper());
            Some(situation.cfs_ns(paper)? - situation.rbpe_ns(paper, NICE, level_each_turn_ns(tasks))?)
        })
    });
    Comparison {
        id: "eq-26-27",
        title: "Eq. 26 and 27: what CFS has beyond CFS/RBPE",
        x: "tasks (N)",
        setting: "τ1 = τ2 = τ3 = 8 ms, nice = 5, a level is lost each turn; eq. 26 reckoned in milliseconds",
        points: points.collect(),
    }
}
