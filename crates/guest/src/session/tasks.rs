//! Shell applications that are measured by their run, not by the screen.

use std::num::NonZeroU32;

use anyhow::{Result, anyhow};
use appease_scenario::{AppKind, MeterKind, Metric, Summary};

use super::{Metrics, Session, figures::scalar};
use crate::{
    app::Launch,
    check::Checks,
    clock::{self, Deadline, idle_ns, now_ns, to_ms},
    ending::stalled,
    scheduler::Scheduler,
};

/// Time for a first run, in seconds of a busy CPU.
const WARM_LIMIT_S: u64 = 600;

/// A shell application that is measured by its run: started when all else is there.
pub(super) struct Task {
    /// The application.
    pub id: String,
    /// Its command line for the shell.
    pub run: String,
    /// Whether its cost is measured.
    pub works: bool,
    /// How many operations that is, if one counts them.
    pub operations: Option<NonZeroU32>,
    /// Whether it reports checks.
    pub checks: bool,
    /// Whether it reports samples.
    pub samples: bool,
}

impl Session<'_> {
    /// Shell applications with a meter of their run, in the order of the file.
    pub(super) fn tasks(&self) -> Vec<Task> {
        let scenario = &self.job.scenario;
        let has = |id: &str, kind| scenario.meters.iter().any(|meter| meter.app == id && meter.kind == kind);
        let shells = scenario.apps.iter().filter_map(|app| match &app.kind {
            AppKind::Shell { run, .. } => Some(Task {
                id: app.id.clone(),
                run: run.clone(),
                works: has(&app.id, MeterKind::Work),
                operations: scenario
                    .meters
                    .iter()
                    .filter(|meter| meter.app == app.id)
                    .find_map(|meter| meter.operations),
                checks: has(&app.id, MeterKind::Checks),
                samples: has(&app.id, MeterKind::Samples),
            }),
            _ => None,
        });
        let measured = shells.filter(|task| task.works || task.checks || task.samples);
        measured.filter(|task| !self.is_loop(&task.id)).collect()
    }

    /// Runs what will be measured by its work once before, so that no disk is waited for then: an idle
    /// emulated machine leaps over that time.
    pub(super) fn warm_up_tasks(&self, tasks: &[Task]) -> Result<()> {
        for task in tasks.iter().filter(|task| task.works) {
            let mut program = Launch::new(&task.id, self.scopes, &["sh", "-c", &task.run]).start()?;
            let deadline = Deadline::after_s(WARM_LIMIT_S);
            loop {
                match program.ended()? {
                    Some(status) if status.success() => break,
                    Some(status) => return Err(program.complaint(&format!("failed ({status})"))),
                    None if deadline.has_passed() => {
                        program.kill();
                        return Err(stalled(
                            program.complaint(&format!("was not done within {WARM_LIMIT_S} s")).to_string(),
                        ));
                    }
                    None => clock::sleep_ms(10),
                }
            }
        }
        Ok(())
    }

    pub(super) fn run_tasks(
        &mut self,
        tasks: &[Task],
        limit_ns: u64,
        scheduler: &Scheduler,
        metrics: &mut Metrics,
        findings: &mut Vec<anyhow::Error>,
    ) -> Result<()> {
        let mut checks = Checks::default();
        let mut sum = (0.0, 0.0);
        for task in tasks {
            let daemon_before_ns = scheduler.ran_ns();
            let (idle_before, start_ns) = (idle_ns(), now_ns());
            let mut program = Launch::new(&task.id, self.scopes, &["sh", "-c", &task.run]).start()?;
            let ended = program.wait_until(limit_ns)?;
            let idle_ms = to_ms(idle_ns().saturating_sub(idle_before));
            if task.checks {
                let said = Checks::read(&program.log_text());
                checks.total += said.total;
                checks.failed.extend(said.failed);
                said.figures.iter().for_each(|(name, value)| scalar(metrics, name, *value));
                eprintln!("{}:\n{}", task.id, program.log_tail(60));
            }
            if task.samples && add_samples(&program.log_text(), metrics) && ended.is_none() {
                // Under many a load it would never be done: what it has measured until then counts.
                program.kill();
                continue;
            }
            let Some((status, end_ns)) = ended else {
                let error = stalled(program.complaint("was not done when the time was over").to_string());
                program.kill();
                return Err(error);
            };
            if !status.success() && !task.checks {
                return Err(program.complaint(&format!("failed ({status})")));
            }
            if !status.success() && checks.failed.is_empty() {
                findings.push(program.complaint(&format!("failed ({status})")));
            }
            if task.works {
                let work_ms = to_ms(end_ns - start_ns);
                let busy_ms = work_ms * f64::from(self.job.machine.cpus) - idle_ms;
                scalar(metrics, &format!("{}_work_ms", task.id), work_ms);
                scalar(metrics, &format!("{}_busy_ms", task.id), busy_ms);
                let daemon_ms = to_ms(scheduler.ran_ns().saturating_sub(daemon_before_ns));
                scalar(metrics, &format!("{}_daemon_ms", task.id), daemon_ms);
                if let Some(operations) = task.operations {
                    let each_ns = busy_ms * 1e6 / f64::from(operations.get());
                    scalar(metrics, &format!("{}_each_ns", task.id), each_ns);
                }
                sum = (sum.0 + work_ms, sum.1 + busy_ms);
            }
        }
        if tasks.iter().any(|task| task.works) {
            scalar(metrics, "work_ms", sum.0);
            scalar(metrics, "busy_ms", sum.1);
        }
        if tasks.iter().any(|task| task.checks) {
            scalar(metrics, "checks", f64::from(checks.total));
            #[allow(clippy::cast_precision_loss)]
            scalar(metrics, "checks_failed", checks.failed.len() as f64);
            if checks.total == 0 {
                findings.push(anyhow!("not one check was made"));
            }
            if !checks.failed.is_empty() {
                findings.push(anyhow!("failed checks: {}", checks.failed.join("; ")));
            }
        }
        Ok(())
    }
}

/// The samples and figures that a program printed; whether there are any samples.
fn add_samples(output: &str, metrics: &mut Metrics) -> bool {
    let said = Checks::read(output);
    said.figures.iter().for_each(|(name, value)| scalar(metrics, name, *value));
    let summaries = said.samples.into_iter().filter_map(|(name, values)| Some((name, Summary::of(&values)?)));
    let before = metrics.len();
    metrics.extend(summaries.map(|(name, summary)| (name, Metric::Distribution(summary))));
    metrics.len() > before
}
