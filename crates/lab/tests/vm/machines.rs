//! Runs of the laboratory, each made once, as many at a time as the host has processors.

use std::{
    collections::BTreeMap,
    path::Path,
    process::Command,
    sync::{Arc, Condvar, Mutex, OnceLock, PoisonError},
};

use anyhow::{Context, bail};
use appease_scenario::{Metric, Outcome, Report, Run, Summary};

/// One run that a check needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spec {
    /// Stem of a file in `scenarios/`.
    pub scenario: &'static str,
    /// `eevdf`, `appease`, …
    pub scheduler: &'static str,
    /// `none`, `hogs:16`, …
    pub load: &'static str,
    /// A kernel's series, or `default`.
    pub kernel: String,
}

impl Spec {
    /// A run on the default kernel.
    pub fn new(scenario: &'static str, scheduler: &'static str, load: &'static str) -> Self {
        Self { scenario, scheduler, load, kernel: "default".into() }
    }

    /// The same on another kernel.
    pub fn on(mut self, kernel: &str) -> Self {
        kernel.clone_into(&mut self.kernel);
        self
    }
}

impl std::fmt::Display for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} under {} at {}, kernel {}", self.scenario, self.scheduler, self.load, self.kernel)
    }
}

type Made = Arc<OnceLock<Result<Run, String>>>;

/// The runs made so far.
pub struct Machines {
    made: Mutex<BTreeMap<Spec, Made>>,
    free: Mutex<usize>,
    freed: Condvar,
}

impl Machines {
    /// None made yet.
    pub fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self { made: Mutex::default(), free: Mutex::new(processors), freed: Condvar::new() }
    }

    /// The runs in the order of `specs`, whatever their outcomes.
    pub fn runs<const N: usize>(&self, specs: [Spec; N]) -> anyhow::Result<[Run; N]> {
        let runs: Vec<anyhow::Result<Run>> = std::thread::scope(|scope| {
            let started: Vec<_> = specs.into_iter().map(|spec| scope.spawn(move || self.run(&spec))).collect();
            started.into_iter().map(|run| run.join().unwrap_or_else(|_| bail!("the run panicked"))).collect()
        });
        let runs = runs.into_iter().collect::<anyhow::Result<Vec<Run>>>()?;
        runs.try_into().map_err(|_| anyhow::anyhow!("a run is missing"))
    }

    /// As [`Machines::runs`], each of which must have ended well.
    pub fn good_runs<const N: usize>(&self, specs: [Spec; N]) -> anyhow::Result<[Run; N]> {
        let runs = self.runs(specs)?;
        for run in &runs {
            if run.outcome != Outcome::Ok {
                bail!("{} at {} ended {:?}: {}", run.scheduler, run.load, run.outcome, run.detail);
            }
        }
        Ok(runs)
    }

    fn run(&self, spec: &Spec) -> anyhow::Result<Run> {
        let cell = {
            let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(made.entry(spec.clone()).or_default())
        };
        let made = cell.get_or_init(|| {
            self.take_slot();
            let run = make(spec).with_context(|| spec.to_string()).map_err(|error| format!("{error:#}"));
            self.give_slot();
            run
        });
        made.clone().map_err(anyhow::Error::msg)
    }

    fn take_slot(&self) {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self.freed.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
    }

    fn give_slot(&self) {
        *self.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.freed.notify_one();
    }
}

/// Runs the laboratory's program for one virtual machine.
fn make(spec: &Spec) -> anyhow::Result<Run> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_appease-lab"));
    command.current_dir(&root).arg("run").arg(format!("scenarios/{}.toml", spec.scenario));
    command.args(["--under", spec.scheduler, "--load", spec.load, "--short", "--json"]);
    if spec.kernel != "default" {
        command.args(["--kernel", &spec.kernel]);
    }
    let output = command.output().context("start appease-lab")?;
    // A bad outcome is in the document, beside the exit status.
    let report: Report = serde_json::from_slice(&output.stdout).with_context(|| {
        format!("appease-lab ended with {} and no result: {}", output.status, String::from_utf8_lossy(&output.stderr))
    })?;
    match <[Run; 1]>::try_from(report.runs) {
        Ok([run]) => Ok(run),
        Err(runs) => bail!("appease-lab gave {} results for one run", runs.len()),
    }
}

/// A distribution that the run must have.
pub fn spread<'a>(run: &'a Run, metric: &str) -> anyhow::Result<&'a Summary> {
    match run.metrics.get(metric) {
        Some(Metric::Distribution(summary)) => Ok(summary),
        _ => bail!("{} at {}: no distribution {metric} among {:?}", run.scheduler, run.load, run.metrics.keys()),
    }
}

/// A single figure that the run must have.
pub fn value(run: &Run, metric: &str) -> anyhow::Result<f64> {
    match run.metrics.get(metric) {
        Some(Metric::Scalar { value }) => Ok(*value),
        _ => bail!("{} at {}: no figure {metric} among {:?}", run.scheduler, run.load, run.metrics.keys()),
    }
}
