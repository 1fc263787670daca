//! Runs a plan: builds what its machines boot from, then several machines side by side.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use anyhow::{Context, Result, anyhow, bail};
use appease_scenario::{Mode, Outcome, Report, Run, Scenario};
use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    debian::{Wanted, resolve},
    host::{Interrupt, Layout, Steps},
    image::{self, Emulator, KernelImages},
    plan::{Plan, Planned},
    store::Store,
    vm::{self, Accelerator, Console, Disk, Progress, Spec},
};

/// Steps of a run's bar.
const BAR: u64 = 1000;

/// What the machines of some scenarios boot from.
#[derive(Debug)]
pub struct Images {
    emulator: Emulator,
    base: PathBuf,
    kernels: BTreeMap<Wanted, KernelImages>,
    overlays: BTreeMap<Vec<String>, PathBuf>,
    clips: BTreeMap<String, PathBuf>,
}

impl Images {
    /// Builds what is missing.
    ///
    /// # Errors
    /// When something cannot be built.
    pub fn build(
        layout: &Layout,
        store: &Store,
        scenarios: &[&Scenario],
        kernels: &[Wanted],
        renew: bool,
    ) -> Result<Self> {
        let emulator = image::emulator(layout, store)?;
        // For both, mostly one processor is at work.
        let (base, kernels) = thread::scope(|scope| {
            let base = scope.spawn(|| image::base(layout, store));
            let kernels = kernel_images(layout, store, kernels, renew);
            (base.join().unwrap_or_else(|_| bail!("building the base image panicked")), kernels)
        });
        let mut images = Self {
            emulator,
            base: base?.join("base.ext4"),
            kernels: kernels?,
            overlays: overlays(layout, store, scenarios)?,
            clips: BTreeMap::new(),
        };
        for scenario in scenarios {
            for clip in &scenario.clips {
                images.clips.insert(clip_key(scenario, &clip.name), image::clip(store, clip)?);
            }
        }
        Ok(images)
    }

    /// The emulator.
    #[must_use]
    pub fn emulator(&self) -> &Emulator {
        &self.emulator
    }

    /// The kernel for `wanted`.
    ///
    /// # Errors
    /// When it was not built.
    pub fn kernel(&self, wanted: &Wanted) -> Result<&KernelImages> {
        self.kernels.get(wanted).with_context(|| format!("kernel {wanted} was not built"))
    }

    /// The disks of a scenario's machine; `tools` beside its clips.
    ///
    /// # Errors
    /// When the tools disk cannot be made.
    pub fn disks(
        &self,
        store: &Store,
        scenario: Option<&Scenario>,
        kernel: &KernelImages,
        tools: &BTreeMap<String, PathBuf>,
    ) -> Result<Vec<Disk>> {
        let mut disks = vec![Disk::new("base", &self.base)];
        let mut files = tools.clone();
        if let Some(scenario) = scenario {
            if let Some(overlay) = self.overlays.get(&scenario.packages) {
                disks.push(Disk::new("overlay0", overlay));
            }
            for clip in &scenario.clips {
                if let Some(file) = self.clips.get(&clip_key(scenario, &clip.name)) {
                    files.insert(format!("{}.{}", clip.name, image::CLIP_EXTENSION), file.clone());
                }
            }
        }
        disks.push(Disk::new("tools", &image::tools(store, &files)?));
        disks.push(Disk::new("modules", &kernel.modules));
        Ok(disks)
    }
}

fn kernel_images(
    layout: &Layout,
    store: &Store,
    kernels: &[Wanted],
    renew: bool,
) -> Result<BTreeMap<Wanted, KernelImages>> {
    let mut images = BTreeMap::new();
    for wanted in kernels {
        if !images.contains_key(wanted) {
            let kernel = resolve(layout, wanted, renew, store.steps())?;
            images.insert(wanted.clone(), image::kernel(layout, store, &kernel)?);
        }
    }
    Ok(images)
}

/// The overlays of the scenarios' packages, as many at a time as there are processors: most of what is done for one, dpkg does one after
/// the other.
fn overlays(layout: &Layout, store: &Store, scenarios: &[&Scenario]) -> Result<BTreeMap<Vec<String>, PathBuf>> {
    let wanted = scenarios.iter().map(|scenario| &scenario.packages).filter(|packages| !packages.is_empty());
    let wanted: Vec<&Vec<String>> = wanted.collect::<BTreeSet<_>>().into_iter().collect();
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(Vec<String>, PathBuf)>> {
        let mut built = Vec::new();
        while let Some(packages) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
            let overlay = image::overlay(layout, store, packages)?.join("overlay.ext4");
            built.push(((*packages).clone(), overlay));
        }
        Ok(built)
    };
    let workers = thread::available_parallelism().map_or(1, usize::from).min(wanted.len());
    let built = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let ended =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| bail!("building an image panicked")));
        ended.collect::<Result<Vec<_>>>()
    })?;
    Ok(built.into_iter().flatten().collect())
}

/// Two scenarios may call different clips the same.
fn clip_key(scenario: &Scenario, clip: &str) -> String {
    format!("{}/{clip}", scenario.name)
}

/// The results of a plan, one document for each scenario, in the plan's order.
///
/// # Errors
/// When images cannot be built, or the user interrupts. What goes wrong in a machine is in its outcome.
pub fn run(layout: &Layout, store: &Store, plan: &Plan, interrupt: &Interrupt, verbose: bool) -> Result<Vec<Report>> {
    run_each(layout, store, plan, interrupt, verbose, &|_, _| Ok(()))
}

/// As [`run`]; tells `keep` the place in the plan and the runs of each machine when it is done.
///
/// # Errors
/// As [`run`], and those of `keep`, after all machines are done.
pub fn run_each(
    layout: &Layout,
    store: &Store,
    plan: &Plan,
    interrupt: &Interrupt,
    verbose: bool,
    keep: &(dyn Fn(usize, &[Run]) -> Result<()> + Sync),
) -> Result<Vec<Report>> {
    vm::sweep();
    let scenarios: Vec<&Scenario> = plan.runs.iter().map(|run| &run.job.scenario).collect();
    let kernels: Vec<Wanted> = plan.runs.iter().map(|run| run.kernel.clone()).collect();
    let images = Images::build(layout, store, &scenarios, &kernels, false)?;
    let kvm = match (plan.machine.mode, plan.runs.first()) {
        (Mode::Parallel, Some(first)) => vm::kvm_works(images.emulator(), images.kernel(&first.kernel)?)?,
        _ => false,
    };
    let accelerator = Accelerator::of(plan.machine.mode, kvm);
    let specs = plan
        .runs
        .iter()
        .map(|run| {
            let kernel = images.kernel(&run.kernel)?;
            Ok(Spec {
                emulator: images.emulator.clone(),
                accelerator,
                machine: run.job.machine,
                kernel: kernel.clone(),
                parameters: run.job.scenario.kernel_parameters.clone(),
                disks: images.disks(store, Some(&run.job.scenario), kernel, &plan.tools)?,
                console: Console::Terminal,
                cable: None,
                sockets: None,
            })
        })
        .collect::<Result<Vec<Spec>>>()?;
    let results = Fleet { plan, specs, interrupt, steps: store.steps(), verbose, keep }.run()?;
    Ok(documents(plan, results))
}

fn documents(plan: &Plan, results: Vec<Vec<Run>>) -> Vec<Report> {
    let mut reports: Vec<Report> = Vec::new();
    for (planned, runs) in plan.runs.iter().zip(results) {
        let name = &planned.job.scenario.name;
        match reports.iter_mut().find(|report| report.scenario == *name) {
            Some(report) => report.runs.extend(runs),
            None => reports.push(Report { scenario: name.clone(), runs }),
        }
    }
    reports
}

struct Fleet<'a> {
    plan: &'a Plan,
    specs: Vec<Spec>,
    interrupt: &'a Interrupt,
    steps: &'a Steps,
    verbose: bool,
    keep: &'a (dyn Fn(usize, &[Run]) -> Result<()> + Sync),
}

impl Fleet<'_> {
    fn run(&self) -> Result<Vec<Vec<Run>>> {
        let next = AtomicUsize::new(0);
        let results: Vec<Mutex<Option<Vec<Run>>>> = self.specs.iter().map(|_| Mutex::new(None)).collect();
        let not_kept = Mutex::new(None);
        thread::scope(|scope| {
            for _ in 0..self.plan.jobs {
                scope.spawn(|| {
                    loop {
                        let index = next.fetch_add(1, Ordering::SeqCst);
                        let Some(slot) = results.get(index).filter(|_| !self.interrupt.is_set()) else { return };
                        let run = self.one(index);
                        let kept = run.as_ref().map_or(Ok(()), |runs| (self.keep)(index, runs));
                        if let (Err(error), Ok(mut first)) = (kept, not_kept.lock()) {
                            first.get_or_insert(error);
                        }
                        if let Ok(mut slot) = slot.lock() {
                            *slot = run;
                        }
                    }
                });
            }
        });
        self.interrupt.check()?;
        if let Some(error) = not_kept.into_inner().ok().flatten() {
            return Err(error);
        }
        let taken = results.into_iter().map(|slot| slot.into_inner().ok().flatten());
        taken.collect::<Option<_>>().ok_or_else(|| anyhow!("a run was lost: this is a defect of appease-lab"))
    }

    /// The runs of one machine; `None` when interrupted.
    fn one(&self, index: usize) -> Option<Vec<Run>> {
        let (planned, spec) = (&self.plan.runs[index], &self.specs[index]);
        let Planned { job, .. } = planned;
        let title_of = |scheduler: &str| {
            format!("{} {scheduler} {} {}", job.scenario.name, job.load, short_release(&spec.kernel.release))
        };
        let title = title_of(&job.schedulers().collect::<Vec<_>>().join(","));
        let begun = Instant::now();
        let bar = self.bar(&title);
        let tell = |progress: Progress| match progress {
            Progress::Phase(name) => {
                if self.verbose {
                    self.steps.note(&format!("{title}: {name} after {:.1} s", begun.elapsed().as_secs_f64()));
                }
                bar.set_message(name);
            }
            Progress::Fraction(fraction) => {
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
                bar.set_position((fraction.clamp(0.0, 1.0) * BAR as f64) as u64);
            }
            Progress::Note(note) => self.steps.note(&format!("{title}: {note}")),
        };
        let keep = vm::Keepsakes { screenshot: planned.screenshot.as_deref(), trace: planned.trace.as_deref() };
        let runs = vm::run(spec.clone(), job, planned.limits, keep, self.interrupt, &tell);
        bar.finish_and_clear();
        if self.interrupt.is_set() {
            return None;
        }
        let runs = runs.unwrap_or_else(|error| {
            let failed = |scheduler: &str| Run {
                scheduler: scheduler.to_owned(),
                load: job.load,
                // None booted, see runs_of() in vm/machine.rs.
                kernel: String::new(),
                machine: job.machine,
                outcome: Outcome::Failed,
                detail: format!("{error:#}"),
                metrics: BTreeMap::new(),
            };
            job.schedulers().map(failed).collect()
        });
        let seconds = begun.elapsed().as_secs_f64();
        for run in &runs {
            let why = run.detail.lines().next().filter(|_| run.outcome != Outcome::Ok);
            let why = why.map(|line| format!(" ({line})")).unwrap_or_default();
            let title = title_of(&run.scheduler);
            self.steps.note(&format!("{title}: {}{why} in {seconds:.0} s", outcome_name(run.outcome)));
        }
        Some(runs)
    }

    fn bar(&self, title: &str) -> ProgressBar {
        if !self.steps.on_terminal() {
            return ProgressBar::hidden();
        }
        let bar = self.steps.bars().add(ProgressBar::new(BAR));
        let template = "{prefix:40!} {bar:30} {elapsed_precise} {msg}";
        bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(std::time::Duration::from_millis(500));
        bar.set_prefix(title.to_owned());
        bar.set_message("boot");
        bar
    }
}

/// `7.2.13` of `7.2.13+deb14-amd64`.
fn short_release(release: &str) -> &str {
    release.split('+').next().unwrap_or(release)
}

/// An outcome as the result document writes it.
#[must_use]
pub fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => "ok",
        Outcome::Evicted => "evicted",
        Outcome::Stalled => "stalled",
        Outcome::Failed => "failed",
    }
}
