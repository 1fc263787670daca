//! The result document of `appease-lab run --json`. Its form is an interface: keep it stable.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Load, Machine, Outcome};

/// Distribution of a measured quantity, in the unit that ends the metric's name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of samples.
    pub n: u64,
    /// Smallest.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation of the sample.
    pub sd: f64,
    /// The samples themselves, in the order in which they were taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<f64>,
}

/// One metric of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Metric {
    /// A distribution.
    Distribution(Summary),
    /// A single figure.
    Scalar {
        /// In the unit that ends the metric's name.
        value: f64,
    },
}

/// The metric of a run that ended by an ejection: how long the kernel's watchdog let a task wait, seconds.
pub const WATCHDOG: &str = "watchdog_s";

/// One scenario under one scheduler and one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Scheduler's name.
    pub scheduler: String,
    /// What competed.
    pub load: Load,
    /// Version of the kernel; empty if it did not boot.
    pub kernel: String,
    /// The machine.
    pub machine: Machine,
    /// How it ended.
    pub outcome: Outcome,
    /// Why, when not ok, with the tail of the console.
    pub detail: String,
    /// What was measured, by metric name.
    pub metrics: BTreeMap<String, Metric>,
}

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The scenario's name.
    pub scenario: String,
    /// Its runs.
    pub runs: Vec<Run>,
}

impl Summary {
    /// Summarises samples by the nearest-rank method; `None` when there are none.
    #[must_use]
    pub fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let n = sorted.len();
        #[allow(clippy::cast_precision_loss)]
        let count = n as f64;
        let mean = sorted.iter().sum::<f64>() / count;
        let squares = sorted.iter().map(|s| (s - mean).powi(2)).sum::<f64>();
        let sd = if n > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
        let rank = |percent: usize| sorted[(n * percent).div_ceil(100).max(1) - 1];
        Some(Self {
            n: n as u64,
            min,
            p50: rank(50),
            p90: rank(90),
            p99: rank(99),
            max,
            mean,
            sd,
            samples: samples.to_vec(),
        })
    }
}
