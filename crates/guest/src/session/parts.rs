//! Parts of a scenario: loops that wait at a gate, and what each part had of the CPU.

use std::collections::BTreeMap;

use anyhow::Result;
use appease_scenario::{AppKind, Class, Load, MeterKind, Metric, Mix, Summary};

use super::{Metrics, Session, figures::scalar};
use crate::{
    app::Program,
    check::Checks,
    clock::{now_ns, to_ms},
    ending::stalled,
    processes::Processes,
};

/// The camera's kernel thread: what would be hardware elsewhere.
const CAMERA_THREAD: &str = "vivid";
const DISPLAY: &str = "display";
const CAPTURE: &str = "capture";

impl Session<'_> {
    /// Whether an application is a part that prints samples: it begins when the measurement does.
    pub(super) fn is_loop(&self, id: &str) -> bool {
        let scenario = &self.job.scenario;
        let shell = scenario.app(id).is_some_and(|app| matches!(app.kind, AppKind::Shell { .. }));
        let samples = scenario.meters.iter().any(|meter| meter.app == id && meter.kind == MeterKind::Samples);
        shell && samples && scenario.part_of(id).is_some()
    }

    /// Lets the loops begin.
    pub(super) fn open_gates(&mut self) -> Result<()> {
        for id in self.loops() {
            self.apps.get_mut(&id).map_or(Ok(()), Program::open_gate)?;
        }
        Ok(())
    }

    fn loops(&self) -> Vec<String> {
        let ids = self.job.scenario.parts.iter().map(|part| part.app.clone());
        ids.filter(|id| self.is_loop(id)).collect()
    }

    /// What the loops have measured until now.
    pub(super) fn add_loops(&self, metrics: &mut Metrics, findings: &mut Vec<anyhow::Error>) {
        for part in self.job.scenario.parts.iter().filter(|part| self.is_loop(&part.app)) {
            let name = format!("{}_ms", part.name);
            let said = self.apps.get(&part.app).map(|program| Checks::read(&program.log_text()));
            let samples = said.and_then(|mut said| said.samples.remove(&name)).unwrap_or_default();
            self.add_part(&part.name, &samples, samples.len(), metrics, findings);
        }
    }

    /// What was measured of a part. That nothing of it was done says something beside the others, and of nothing else alone.
    pub(super) fn add_part(
        &self,
        name: &str,
        samples: &[f64],
        completed: usize,
        metrics: &mut Metrics,
        findings: &mut Vec<anyhow::Error>,
    ) {
        #[allow(clippy::cast_precision_loss)]
        scalar(metrics, &format!("{name}_completed"), completed as f64);
        match Summary::of(samples) {
            Some(summary) => {
                metrics.insert(format!("{name}_ms"), Metric::Distribution(summary));
            }
            None if self.job.load == Load::All => {}
            None => {
                findings.push(stalled(format!("{name}_ms: nothing was completed, although nothing else was there")))
            }
        }
    }

    /// Whom a mix gives which class.
    pub(super) fn roots(&self, mix: &Mix) -> Vec<(u32, Class)> {
        let apps = mix.apps.iter().filter_map(|(id, class)| Some((self.apps.get(id)?.pid(), *class)));
        let server = self.server.as_ref().map(Program::pid).zip(mix.display);
        apps.chain(server).collect()
    }

    /// CPU time so far of each part, the display server and the camera, milliseconds.
    fn spent_ms(&self) -> BTreeMap<String, u64> {
        let processes = Processes::now();
        let parts = self.job.scenario.parts.iter();
        let parts =
            parts.filter_map(|part| Some((part.name.clone(), processes.tree_ms(self.apps.get(&part.app)?.pid()))));
        let server = self.server.as_ref().map(|server| (DISPLAY.to_owned(), processes.tree_ms(server.pid())));
        let camera = (CAPTURE.to_owned(), processes.named_ms(CAMERA_THREAD));
        parts.chain(server).chain([camera]).collect()
    }
}

/// What each part had of the machine's CPU time.
pub(super) struct Shares {
    begin_ns: u64,
    before_ms: BTreeMap<String, u64>,
}

impl Shares {
    pub fn begin(session: &Session<'_>) -> Self {
        let before_ms = if session.job.scenario.parts.is_empty() { BTreeMap::new() } else { session.spent_ms() };
        Self { begin_ns: now_ns(), before_ms }
    }

    /// Shares since then, and what all others than a loop left of the CPU: what it could have at best.
    pub fn add_to(&self, session: &Session<'_>, metrics: &mut Metrics) {
        let scenario = &session.job.scenario;
        if scenario.parts.is_empty() {
            return;
        }
        let machine_ms = to_ms(now_ns() - self.begin_ns) * f64::from(session.job.machine.cpus);
        let share = |name: &str, now_ms: u64| {
            let before_ms = self.before_ms.get(name).copied().unwrap_or(0);
            #[allow(clippy::cast_precision_loss)]
            let spent_ms = now_ms.saturating_sub(before_ms) as f64;
            100.0 * spent_ms / machine_ms
        };
        let shares: BTreeMap<String, f64> =
            session.spent_ms().into_iter().map(|(name, now_ms)| (name.clone(), share(&name, now_ms))).collect();
        let is_own = |name: &str| scenario.parts.iter().any(|part| part.name == name);
        // With the parts by turns, the display server's share is a different one each time.
        for (name, share) in shares.iter().filter(|(name, _)| session.job.load == Load::All || is_own(name)) {
            scalar(metrics, &format!("{name}_cpu_pct"), *share);
        }
        if session.job.load == Load::All {
            let all = shares.values().sum::<f64>();
            for part in scenario.parts.iter().filter(|part| session.is_loop(&part.app)) {
                let own = shares.get(&part.name).copied().unwrap_or(0.0);
                scalar(metrics, &format!("{}_left_cpu_pct", part.name), 100.0 - (all - own));
            }
        }
    }
}
