//! What host and guest say to each other: one [`Job`] in, one [`Event`] per line out.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::{Load, Metric, Scenario};

/// How the machine counts time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// One executed instruction is one nanosecond. Several CPUs share that clock.
    Exact,
    /// Several CPUs in host time: only ratios and order mean something.
    Parallel,
}

/// The emulated machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// How it counts time.
    pub mode: Mode,
    /// Number of CPUs.
    pub cpus: u32,
    /// Last-level caches, which equal numbers of them share.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub caches: u32,
    /// CPUs of each core.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub threads: u32,
    /// NUMA nodes, which equal numbers of caches share.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub nodes: u32,
    /// How programs are put into cgroups, whatever schedules.
    #[serde(default, skip_serializing_if = "Grouping::is_flat")]
    pub layout: Grouping,
}

impl Machine {
    /// One with one cache and one node, whose cores have a CPU each; all programs are in one cgroup.
    #[must_use]
    pub const fn plain(mode: Mode, cpus: u32) -> Self {
        Self { mode, cpus, caches: 1, threads: 1, nodes: 1, layout: Grouping::Flat }
    }
}

const fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_one(number: &u32) -> bool {
    *number == 1
}

/// How programs are put into cgroups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grouping {
    /// All in the root group.
    #[default]
    Flat,
    /// Each application, session and service in a group of its own with the default weight, below slices, as systemd puts them;
    /// the load, too.
    Scopes,
    /// The same, but each of the load's processes in a group of its own. A build, whose processes come and go, has one.
    ScopesMany,
    /// The same, but the load in the group of the first application.
    ScopesShared,
}

/// As in result files and on command lines.
impl fmt::Display for Grouping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flat => "flat",
            Self::Scopes => "scopes",
            Self::ScopesMany => "scopes-many",
            Self::ScopesShared => "scopes-shared",
        })
    }
}

impl Grouping {
    /// Whether nothing is in a group.
    #[must_use]
    pub fn is_flat(&self) -> bool {
        *self == Self::Flat
    }
}

/// What one virtual machine shall do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The experiment.
    pub scenario: Scenario,
    /// `eevdf`, `eevdf-scopes`, `appease`, `appease:POLICY`, `scx_…`.
    pub scheduler: String,
    /// Further schedulers, measured one after another in the same machine; `eevdf` and sched_ext ones only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub then: Vec<String>,
    /// What competes.
    pub load: Load,
    /// The machine.
    pub machine: Machine,
    /// Ask the host for a screenshot in the middle of the measurement.
    pub screenshot: bool,
    /// Tell what the CPUs did while keys were answered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trace: bool,
}

impl Job {
    /// All schedulers, in the order in which they are measured; each gives an [`Event::Result`].
    pub fn schedulers(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.scheduler).chain(&self.then).map(String::as_str)
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Measured.
    Ok,
    /// The kernel ejected the scheduler.
    Evicted,
    /// A time limit passed, or a meter saw nothing.
    Stalled,
    /// No boot, a panic, a program that does not start, a scheduler that does not load.
    Failed,
}

/// One line of what the guest tells, as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// A stage is reached: `boot`, `xorg-ready`, `scheduler-ready`, `load-ready`, `measuring`, `done`.
    Phase {
        /// Which.
        name: String,
        /// Guest's monotonic clock, milliseconds.
        at_ms: f64,
    },
    /// Share of the measured part that is over, 0 to 1.
    Progress {
        /// 0 to 1.
        fraction: f64,
    },
    /// The host should take a picture of the screen now.
    Screenshot,
    /// What the CPUs did while keys were answered, as text for people.
    Trace {
        /// Lines, or a part of them.
        text: String,
    },
    /// The end of the measurement under one scheduler; after the last one nothing follows.
    Result {
        /// How it ended.
        outcome: Outcome,
        /// Why, when not ok.
        detail: String,
        /// What was measured, by metric name.
        metrics: BTreeMap<String, Metric>,
        /// Version of the running kernel (`uname -r`).
        kernel: String,
    },
}
