//! Runs of the laboratory, each made once, as many at a time as the host has processors.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Condvar, Mutex, OnceLock, PoisonError},
    time::Instant,
};

use anyhow::{Context, bail, ensure};
use appease_scenario::{Grouping, Metric, Outcome, Report, Run, Summary};

use crate::checks::{NICE_KERNEL, SHORT};

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
    /// Length of the measured part, where it is not the scenario's, seconds.
    pub seconds: Option<u32>,
    /// How long the load is there before, where that is not the scenario's, seconds.
    pub settle_s: Option<u32>,
    /// CPUs of the exact machine.
    pub cpus: u32,
    /// Last-level caches of the machine.
    pub caches: u32,
    /// CPUs of each core.
    pub threads: u32,
    /// Memory nodes of the machine.
    pub nodes: u32,
    /// How programs are put into cgroups.
    pub layout: Grouping,
    /// Rounds, and where random numbers begin, of a scenario that has rounds.
    pub rounds_and_seed: Option<(u32, u32)>,
}

impl Spec {
    /// A run on the default kernel, on one CPU, each program in a cgroup of its own as systemd puts them.
    pub fn new(scenario: &'static str, scheduler: &'static str, load: &'static str) -> Self {
        Self {
            scenario,
            scheduler,
            load,
            kernel: "default".into(),
            seconds: None,
            settle_s: None,
            cpus: 1,
            caches: 1,
            threads: 1,
            nodes: 1,
            layout: Grouping::Scopes,
            rounds_and_seed: None,
        }
    }

    /// The same on another kernel.
    pub fn on(mut self, kernel: &str) -> Self {
        kernel.clone_into(&mut self.kernel);
        self
    }

    /// The same, beside a load that has been there for so long.
    pub fn settled(mut self, seconds: u32) -> Self {
        self.settle_s = Some(seconds);
        self
    }

    /// The same, on a machine of so many CPUs.
    pub fn on_cpus(mut self, cpus: u32) -> Self {
        self.cpus = cpus;
        self
    }

    /// The same, whose CPUs share so many last-level caches.
    pub fn on_caches(mut self, caches: u32) -> Self {
        self.caches = caches;
        self
    }

    /// The same, with so many CPUs to a core, and so many memory nodes.
    pub fn with_threads_and_nodes(mut self, threads: u32, nodes: u32) -> Self {
        (self.threads, self.nodes) = (threads, nodes);
        self
    }

    /// The same, all programs in one cgroup.
    pub fn flat(self) -> Self {
        self.laid_out(Grouping::Flat)
    }

    /// The same, programs put into cgroups that way.
    pub fn laid_out(mut self, layout: Grouping) -> Self {
        self.layout = layout;
        self
    }

    /// The same, with so many rounds from this seed.
    pub fn repeated(mut self, rounds: u32, seed: u32) -> Self {
        self.rounds_and_seed = Some((rounds, seed));
        self
    }

    /// The same, so long.
    pub fn lasting(mut self, seconds: u32) -> Self {
        self.seconds = Some(seconds);
        self
    }
}

impl std::fmt::Display for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} under {} at {}, kernel {}", self.scenario, self.scheduler, self.load, self.kernel)?;
        if self.cpus > 1 {
            write!(f, ", {} CPUs", self.cpus)?;
        }
        for (what, number) in [("caches", self.caches), ("threads", self.threads), ("nodes", self.nodes)] {
            if number > 1 {
                write!(f, ", {number} {what}")?;
            }
        }
        if let Some((rounds, seed)) = self.rounds_and_seed {
            write!(f, ", {rounds} rounds from seed {seed}")?;
        }
        if self.layout == Grouping::Scopes { Ok(()) } else { write!(f, ", {}", self.layout) }
    }
}

type Made = Arc<OnceLock<Result<Run, String>>>;

/// How much is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The scenarios' short forms.
    Short,
    /// The scenarios as they are, whose results are kept: from the same files, a run is made once, whenever that was.
    Full,
    /// The same of the long runs alone, all of their machines.
    Soak,
}

/// The runs made so far.
pub struct Machines {
    form: Form,
    made: Mutex<BTreeMap<Spec, Made>>,
    processors: usize,
    line: Mutex<Line>,
    moved: Condvar,
}

/// The runs that wait for processors, and how many processors are free.
#[derive(Debug, Default)]
struct Line {
    free: usize,
    tickets: u64,
    /// By rank, then in the order of their coming.
    waiting: BTreeSet<(u8, u64)>,
}

/// Runs that take a quarter of an hour: were they last, one processor would be idle for as long.
const LONG: [&str; 1] = ["sense"];

/// Runs of a low rank go first: those that take long, then all others. Last, those that want several processors at once, which would
/// keep some idle until the others are free.
fn rank(scenario: &str, processors: usize) -> u8 {
    match processors {
        1 if LONG.contains(&scenario) => 0,
        1 => 1,
        _ => 2,
    }
}

impl Machines {
    /// None made yet.
    pub fn new(form: Form) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let line = Mutex::new(Line { free: processors, ..Line::default() });
        Self { form, made: Mutex::default(), processors, line, moved: Condvar::new() }
    }

    /// Builds the images of the short form beforehand, so that building does not take processors from machines. What the full
    /// form needs is there.
    pub fn prepare(&self, kernels: &str) -> anyhow::Result<()> {
        if self.form == Form::Short {
            let mut build = Command::new(LAB);
            let kernels = format!("{kernels},{NICE_KERNEL}");
            build.current_dir(root()).args(["build", "--kernel", &kernels]).args(SHORT);
            let status = build.status().context("start appease-lab")?;
            ensure!(status.success(), "appease-lab build ended with {status}");
        }
        Ok(())
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
        all_good(&runs)?;
        Ok(runs)
    }

    /// Runs one after another in one machine, in the short form: what is compared are the runs of one boot; all must end well.
    /// With one CPU in exact mode, with several in parallel mode, which has as many of the host's processors for itself.
    pub fn good_runs_in_one_boot<const N: usize>(
        &self,
        scenario: &str,
        schedulers: [&str; N],
        load: &str,
        kernel: &str,
        cpus: u32,
    ) -> anyhow::Result<[Run; N]> {
        let (under, cpus_text) = (schedulers.join(","), cpus.to_string());
        let slots = self.processors.min(usize::try_from(cpus)?);
        let mode = if cpus == 1 { "exact" } else { "parallel" };
        self.take_processors(scenario, slots);
        let more =
            ["--mode", mode, "--cpus", &cpus_text, "--same-boot", "--short", "--layout", "flat", "--kernel", kernel];
        let runs = self.make(scenario, &under, load, &more);
        self.give_processors(slots);
        let runs = runs.with_context(|| format!("{scenario} under {under} at {load}, {cpus} CPUs"))?;
        all_good(&runs)?;
        exactly(runs)
    }

    fn run(&self, spec: &Spec) -> anyhow::Result<Run> {
        let cell = {
            let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(made.entry(spec.clone()).or_default())
        };
        let made = cell.get_or_init(|| {
            self.take_processors(spec.scenario, 1);
            let seconds = spec.seconds.map(|seconds| seconds.to_string());
            let mut more = vec!["--kernel", &spec.kernel];
            more.extend(seconds.iter().flat_map(|seconds| ["--duration", seconds]));
            let settle = spec.settle_s.map(|seconds| seconds.to_string());
            more.extend(settle.iter().flat_map(|seconds| ["--settle", seconds]));
            let cpus = (spec.cpus > 1).then(|| spec.cpus.to_string());
            more.extend(cpus.iter().flat_map(|cpus| ["--mode", "exact", "--cpus", cpus]));
            let parts = [("--caches", spec.caches), ("--threads", spec.threads), ("--nodes", spec.nodes)];
            let parts = parts.map(|(what, number)| (what, number.to_string()));
            more.extend(parts.iter().filter(|(_, number)| number != "1").flat_map(|(what, number)| [*what, number]));
            let repeated = spec.rounds_and_seed.map(|(rounds, seed)| [rounds, seed].map(|number| number.to_string()));
            more.extend(repeated.iter().flat_map(|[rounds, seed]| ["--rounds", rounds, "--seed", seed]));
            let layout = spec.layout.to_string();
            more.extend(["--layout", &layout]);
            more.extend((self.form == Form::Short).then_some("--short"));
            let runs = self.make(spec.scenario, spec.scheduler, spec.load, &more);
            self.give_processors(1);
            let run = runs.and_then(|runs| exactly::<1>(runs).map(|[run]| run));
            run.with_context(|| spec.to_string()).map_err(|error| format!("{error:#}"))
        });
        made.clone().map_err(anyhow::Error::msg)
    }

    /// The runs of one machine: those kept of an earlier time, if they ended well.
    fn make(&self, scenario: &str, under: &str, load: &str, more: &[&str]) -> anyhow::Result<Vec<Run>> {
        let file = format!("scenarios/{scenario}.toml");
        let mut arguments = vec!["run", &file, "--under", under, "--load", load, "--json"];
        arguments.extend(more);
        if self.form == Form::Short {
            ensure!(
                SHORT.contains(&scenario),
                "{scenario} is not named in SHORT of checks/mod.rs, so its images are not built"
            );
            return runs_of(&run_lab(&arguments)?);
        }
        let path = kept(&file, &arguments)?;
        if let Ok(runs) = fs::read(&path).map_err(Into::into).and_then(|document| runs_of(&document))
            && all_good(&runs).is_ok()
        {
            return Ok(runs);
        }
        let document = run_lab(&arguments)?;
        fs::write(&path, &document).with_context(|| format!("write {}", path.display()))?;
        runs_of(&document)
    }

    fn take_processors(&self, scenario: &str, number: usize) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.tickets += 1;
        let place = (rank(scenario, number), line.tickets);
        line.waiting.insert(place);
        let is_early = |line: &mut Line| line.free < number || line.waiting.first() != Some(&place);
        let mut line = self.moved.wait_while(line, is_early).unwrap_or_else(PoisonError::into_inner);
        line.waiting.remove(&place);
        line.free -= number;
        // There may be one for the next in line, too.
        self.moved.notify_all();
    }

    fn give_processors(&self, number: usize) {
        self.line.lock().unwrap_or_else(PoisonError::into_inner).free += number;
        self.moved.notify_all();
    }
}

fn all_good(runs: &[Run]) -> anyhow::Result<()> {
    for run in runs {
        if run.outcome != Outcome::Ok {
            bail!("{} at {} ended {:?}: {}", run.scheduler, run.load, run.outcome, run.detail);
        }
    }
    Ok(())
}

fn runs_of(document: &[u8]) -> anyhow::Result<Vec<Run>> {
    let report: Report = serde_json::from_slice(document).context("read appease-lab's document")?;
    Ok(report.runs)
}

fn exactly<const N: usize>(runs: Vec<Run>) -> anyhow::Result<[Run; N]> {
    runs.try_into().map_err(|runs: Vec<Run>| anyhow::anyhow!("appease-lab gave {} results instead of {N}", runs.len()))
}

/// Runs the laboratory's program for one virtual machine.
fn run_lab(arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
    let mut command = Command::new(LAB);
    command.current_dir(root()).args(arguments);
    let started = Instant::now();
    let output = command.output().context("start appease-lab")?;
    // What takes the time of the tests.
    println!("{:4} s: appease-lab {}", started.elapsed().as_secs(), arguments.join(" "));
    // A bad outcome is in the document, beside the exit status.
    if output.stdout.is_empty() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("appease-lab ended with {} and no result: {errors}", output.status);
    }
    Ok(output.stdout)
}

const LAB: &str = env!("CARGO_BIN_EXE_appease-lab");

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Where a run's document is kept: under the hash of all that it comes from.
///
/// The arguments name the scenario and the kernel: what they are is in files. The programs carry the rest, their texts for the
/// kernel included.
fn kept(scenario: &str, arguments: &[&str]) -> anyhow::Result<PathBuf> {
    let lab = Path::new(LAB);
    let programs = lab.parent().context("appease-lab has no directory")?;
    let target = programs.parent().context("appease-lab has no target directory")?;
    let sources = [
        lab.to_owned(),
        programs.join("appease"),
        programs.join("appease-guest"),
        programs.join("libappease_turns.so"),
        root().join(scenario),
        target.join("lab/kernels.json"),
    ];
    let dir = target.join("acceptance").join(format!("{:016x}", hash_of(&sources)?));
    fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    let name = arguments.join(" ").replace("scenarios/", "").replace(['/', ' ', ':', ',', '@'], "_").replace("--", "");
    Ok(dir.join(name + ".json"))
}

fn hash_of(files: &[PathBuf]) -> anyhow::Result<u64> {
    let mut hasher = DefaultHasher::new();
    for file in files {
        fs::read(file).with_context(|| format!("read {}", file.display()))?.hash(&mut hasher);
    }
    Ok(hasher.finish())
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
