//! What a simulation found.

use appease_scenario::{Metric, Summary};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;

use crate::{MS, SchedulerName, unhappiness::Responded};

/// Digits that a histogram keeps.
const DIGITS: u8 = 3;
/// Longest time that it tells apart, ns: two hours.
const LONGEST_NS: u64 = 7_200_000_000_000;

/// Times, ns, summarised without keeping each.
#[derive(Debug, Clone)]
pub(crate) struct Times(Option<Histogram<u64>>);

impl Times {
    pub(crate) fn new() -> Self {
        // The bounds are good ones, so it is there.
        Self(Histogram::new_with_bounds(1000, LONGEST_NS, DIGITS).ok())
    }

    pub(crate) fn record(&mut self, ns: u64) {
        if let Some(histogram) = &mut self.0 {
            histogram.saturating_record(ns);
        }
    }

    pub(crate) fn clear(&mut self) {
        if let Some(histogram) = &mut self.0 {
            histogram.clear();
        }
    }

    fn summary(&self) -> Option<Summary> {
        let histogram = self.0.as_ref().filter(|histogram| !histogram.is_empty())?;
        let ms = |ns: u64| ns as f64 / MS as f64;
        Some(Summary {
            n: histogram.len(),
            min: ms(histogram.min()),
            p50: ms(histogram.value_at_quantile(0.5)),
            p90: ms(histogram.value_at_quantile(0.9)),
            p99: ms(histogram.value_at_quantile(0.99)),
            max: ms(histogram.max()),
            mean: histogram.mean() / MS as f64,
            sd: histogram.stdev() / MS as f64,
            samples: Vec::new(),
        })
    }
}

/// An answer, to the nanosecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// From request to answer.
    pub response_ns: u64,
    /// CPU time that all processes spent on it.
    pub served_ns: u64,
    /// The sum of eq. 3 when the answer came, without weights.
    pub unhappiness_ns: i64,
}

impl Answer {
    pub(crate) fn of(responded: Responded, now_ns: u64) -> Self {
        Self {
            response_ns: now_ns - responded.opened_ns,
            served_ns: responded.served_ns,
            unhappiness_ns: responded.unhappiness_ns,
        }
    }
}

/// What some customers who behave alike had of it.
#[derive(Debug, Clone)]
pub struct CustomerFigures {
    /// Their name in the scenario.
    pub id: String,
    /// Requests that they sent.
    pub sent: u64,
    /// Requests that were answered.
    pub answered: u64,
    /// The latest answer.
    pub latest: Option<Answer>,
    pub(crate) response: Times,
    pub(crate) unhappiness: Times,
}

/// What some tasks that behave alike got.
#[derive(Debug, Clone)]
pub struct TaskFigures {
    /// Their name in the scenario.
    pub id: String,
    /// How many they are.
    pub number: u32,
    /// CPU time of all of them, ns.
    pub ran_ns: u64,
    /// CPU time of the one that got least, ns.
    pub least_ns: u64,
    /// CPU time of the one that got most, ns.
    pub most_ns: u64,
    /// How often one began on a CPU of another domain than where it ran last, in the measured time.
    pub domain_changes: u64,
    pub(crate) wait: Times,
}

/// What happened how often.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Tasks that were woken.
    pub wakeups: u64,
    /// Tasks that went to sleep.
    pub sleeps: u64,
    /// Slices that were used up.
    pub turns_over: u64,
    /// Running tasks that others displaced.
    pub displaced: u64,
    /// Messages that were read.
    pub messages: u64,
    /// Times that a CPU looked for its next task.
    pub decisions: u64,
}

impl Counts {
    /// Scheduling events: all but the decisions, which follow from them.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.wakeups + self.sleeps + self.turns_over + self.displaced + self.messages
    }

    /// What came to `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            wakeups: self.wakeups - before.wakeups,
            sleeps: self.sleeps - before.sleeps,
            turns_over: self.turns_over - before.turns_over,
            displaced: self.displaced - before.displaced,
            messages: self.messages - before.messages,
            decisions: self.decisions - before.decisions,
        }
    }
}

/// What a scheduler that tells of it spent on placing tasks, and at locks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Effort {
    /// Wake-ups that looked for a CPU to take from a task that is worth less.
    pub searches: u64,
    /// CPUs that they looked at.
    pub cpu_looks: u64,
    /// Most CPUs that one of them looked at.
    pub most_cpu_looks: u32,
    /// Looks of CPUs into the queues of other domains.
    pub domain_looks: u64,
    /// How often a lock was taken.
    pub locked: u64,
    /// Time that CPUs waited for locks, ns.
    pub waited_ns: u64,
    /// The longest that one waited, ns.
    pub longest_wait_ns: u64,
}

/// A scenario under one scheduler.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Which scheduler.
    pub scheduler: SchedulerName,
    /// Where its random numbers began.
    pub seed: u64,
    /// Measured time, ns.
    pub duration_ns: u64,
    /// CPUs of the machine.
    pub cpus: u32,
    /// Its domains: CPUs that share a cache, and are alike.
    pub domains: u32,
    /// What happened how often, from the beginning.
    pub counts: Counts,
    /// What placing tasks took, in the measured time.
    pub effort: Effort,
    /// Customers, those of interactive tasks first.
    pub customers: Vec<CustomerFigures>,
    /// Tasks.
    pub tasks: Vec<TaskFigures>,
    /// Mean of eq. 5 over the measured time, ns.
    pub mean_unhappiness_ns: f64,
}

impl Outcome {
    /// The customers of that name.
    #[must_use]
    pub fn customer(&self, id: &str) -> Option<&CustomerFigures> {
        self.customers.iter().find(|figures| figures.id == id)
    }

    /// The tasks of that name.
    #[must_use]
    pub fn task(&self, id: &str) -> Option<&TaskFigures> {
        self.tasks.iter().find(|figures| figures.id == id)
    }

    /// By name, as result documents of the project have it.
    #[must_use]
    pub fn metrics(&self) -> BTreeMap<String, Metric> {
        let mut metrics = BTreeMap::new();
        let mut scalar = |name: String, value: f64| metrics.insert(name, Metric::Scalar { value });
        scalar("system_unhappiness_ms".into(), self.mean_unhappiness_ns / MS as f64);
        scalar("events".into(), self.counts.events() as f64);
        if self.effort.locked > 0 {
            scalar("lock_wait_us".into(), self.effort.waited_ns as f64 / self.effort.locked as f64 / 1000.0);
            scalar("lock_wait_most_us".into(), self.effort.longest_wait_ns as f64 / 1000.0);
        }
        for tasks in &self.tasks {
            let capacity = self.duration_ns as f64 * f64::from(self.cpus);
            scalar(format!("{}_cpu_pct", tasks.id), 100.0 * tasks.ran_ns as f64 / capacity);
            scalar(format!("{}_least_ms", tasks.id), tasks.least_ns as f64 / MS as f64);
            if self.domains > 1 {
                scalar(format!("{}_domain_changes", tasks.id), tasks.domain_changes as f64);
            }
        }
        for customers in &self.customers {
            scalar(format!("{}_unanswered", customers.id), customers.sent.saturating_sub(customers.answered) as f64);
        }
        let distributions = (self.customers.iter())
            .flat_map(|c| {
                [(format!("{}_response_ms", c.id), &c.response), (format!("{}_unhappiness_ms", c.id), &c.unhappiness)]
            })
            .chain(self.tasks.iter().map(|t| (format!("{}_wait_ms", t.id), &t.wait)));
        for (name, times) in distributions {
            if let Some(summary) = times.summary() {
                metrics.insert(name, Metric::Distribution(summary));
            }
        }
        metrics
    }

    /// Distribution of the customers' response times, ms; `None` without answers.
    #[must_use]
    pub fn response_ms(&self, id: &str) -> Option<Summary> {
        self.customer(id)?.response.summary()
    }

    /// Distribution of the unhappiness with which their answers came, ms; `None` without answers.
    #[must_use]
    pub fn unhappiness_ms(&self, id: &str) -> Option<Summary> {
        self.customer(id)?.unhappiness.summary()
    }

    /// Distribution of the time from wake-up to CPU, ms; `None` where nobody was woken.
    #[must_use]
    pub fn wait_ms(&self, id: &str) -> Option<Summary> {
        self.task(id)?.wait.summary()
    }
}
