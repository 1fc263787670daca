//! Users at the far side: their logins, and what comes of their lines.

use std::{collections::BTreeMap, thread::JoinHandle};

use anyhow::{Context, Result};
use appease_scenario::{AppKind, Meter, MeterKind, Metric, Summary};

use super::{Metrics, Session, VISITOR_PRIORITY, figures::scalar, set_realtime};
use crate::{
    app::Launch,
    clock::{now_ns, to_ms},
    ending::stalled,
    far::FarSide,
    load::Starter,
    scheduler::{self, Scheduler, lane_time},
    visitor::{Observer, Said, Visitors},
};

/// What was said, and the lanes of meters of a line, in the order of the meters.
pub(super) struct Visited {
    said: Vec<Said>,
    lanes: Vec<LineLanes>,
    until_ns: u64,
}

impl Session<'_> {
    /// The far side, if anybody comes from there.
    pub(super) fn start_far_side(&mut self) -> Result<()> {
        let load = self.job.load;
        let mut users: Vec<String> = self.job.scenario.visitors(load).into_iter().map(|(user, _)| user).collect();
        users.extend(self.job.scenario.load_by.clone());
        if !users.is_empty() {
            self.far = Some(FarSide::new(self.scopes, users)?);
            self.host.phase("far-side-ready");
        }
        Ok(())
    }

    /// Who starts the load.
    pub(super) fn starter(&self) -> Starter<'_> {
        let user = self.far.as_ref().zip(self.job.scenario.load_by.as_deref());
        let first = self.job.scenario.apps.first().map(|app| app.id.as_str());
        Starter { scopes: self.scopes, user, layout: self.job.machine.layout, first }
    }

    /// Everybody who logs in, at their first prompts.
    pub(super) fn visitors(&self) -> Result<Option<Visitors>> {
        let Some(far) = &self.far else { return Ok(None) };
        let mut visitors = Visitors::default();
        for (user, app) in self.job.scenario.visitors(self.job.load) {
            let AppKind::Ssh(visit) = &app.kind else { continue };
            let client = Launch { piped: true, ..far.client(&user, &user, &visit.run) }.start()?;
            visitors.add(&app.id, visit, client)?;
            self.scopes.adopt(&user, far.uid(&user)?)?;
        }
        Ok(Some(visitors).filter(|visitors| !visitors.is_empty()))
    }

    /// Lets the visitors type.
    pub(super) fn start_visits(
        &self,
        visitors: Visitors,
        scheduler: &Scheduler,
        begin_ns: u64,
        end_ns: u64,
    ) -> Result<JoinHandle<Result<Visited>>> {
        let of_lines = self.job.scenario.meters.iter().filter(|meter| scheduler.is_ours() && meter.line.is_some());
        let mut lanes: Vec<LineLanes> =
            of_lines.map(|meter| LineLanes { meter: meter.clone(), since: None, sum: (0.0, 0.0) }).collect();
        let perform = move || {
            set_realtime(rustix::thread::gettid().as_raw_nonzero().get(), VISITOR_PRIORITY)?;
            let said = visitors.perform(begin_ns, end_ns, &mut lanes)?;
            Ok(Visited { said, lanes, until_ns: now_ns() })
        };
        std::thread::Builder::new().name("visitors".into()).spawn(perform).context("start the visitors")
    }

    pub(super) fn add_visits(&self, visited: &Visited, metrics: &mut Metrics, findings: &mut Vec<anyhow::Error>) {
        for meter in self.job.scenario.meters.iter().filter(|meter| meter.kind == MeterKind::Answer) {
            let lines = by_line(&visited.said, &meter.app, visited.until_ns);
            if lines.values().all(|line| line.answered_ms.is_empty()) {
                findings.push(stalled(format!("not one line of \"{}\" was answered", meter.app)));
            }
            for (line, Waits { answered_ms, unanswered_ms }) in lines {
                if let Some(summary) = Summary::of(&answered_ms) {
                    metrics.insert(format!("{line}_ms"), Metric::Distribution(summary));
                }
                if let Some(unanswered) = Summary::of(&unanswered_ms) {
                    scalar(metrics, &format!("{line}_unanswered"), unanswered.n as f64);
                    scalar(metrics, &format!("{line}_unanswered_for_ms"), unanswered.max);
                }
            }
        }
        for lanes in &visited.lanes {
            let (other, all) = lanes.sum;
            if all <= 0.0 {
                let commands = lanes.meter.commands.join(", ");
                findings.push(stalled(format!("the lane meter saw no CPU time of {commands}")));
                continue;
            }
            scalar(metrics, "other_lane_pct", 100.0 * other / all);
        }
    }
}

/// How long answers to a line took, and how long those have taken that are still to come.
#[derive(Debug, Default, PartialEq)]
struct Waits {
    answered_ms: Vec<f64>,
    unanswered_ms: Vec<f64>,
}

/// The waits of each line of an application until the end.
fn by_line<'a>(said: &'a [Said], app: &str, until_ns: u64) -> BTreeMap<&'a str, Waits> {
    let mut lines: BTreeMap<&str, Waits> = BTreeMap::new();
    for said in said.iter().filter(|said| said.app == app) {
        let waits = lines.entry(&said.line).or_default();
        match said.answered_ns {
            Some(at_ns) => waits.answered_ms.push(to_ms(at_ns - said.sent_ns)),
            None => waits.unanswered_ms.push(to_ms(until_ns - said.sent_ns)),
        }
    }
    lines
}

/// CPU time by lane while a line is at work.
struct LineLanes {
    meter: Meter,
    since: Option<(f64, f64)>,
    sum: (f64, f64),
}

impl LineLanes {
    fn observes(&self, app: &str, line: &str) -> bool {
        self.meter.app == app && self.meter.line.as_deref() == Some(line)
    }

    fn now(&self) -> Result<(f64, f64)> {
        lane_time(&scheduler::status()?, &self.meter.commands).context("appease status --json lists no commands")
    }
}

/// Each look is taken between two lines, so it costs the visitor a little time and no line any.
impl Observer for Vec<LineLanes> {
    fn begins(&mut self, app: &str, line: &str) -> Result<()> {
        for lanes in self.iter_mut().filter(|lanes| lanes.observes(app, line)) {
            lanes.since = Some(lanes.now()?);
        }
        Ok(())
    }

    fn ends(&mut self, app: &str, line: &str) -> Result<()> {
        for lanes in self.iter_mut().filter(|lanes| lanes.observes(app, line)) {
            let Some(since) = lanes.since.take() else { continue };
            let until = lanes.now()?;
            lanes.sum = (lanes.sum.0 + until.0 - since.0, lanes.sum.1 + until.1 - since.1);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{BTreeMap, Said, Waits, by_line};

    #[test]
    fn lines_are_told_apart_and_the_unanswered_are_no_figures() {
        let said = |app: &str, line: &str, sent_ms: u64, answered_ms: Option<u64>| Said {
            app: app.into(),
            line: line.into(),
            sent_ns: sent_ms * 1_000_000,
            answered_ns: answered_ms.map(|ms| ms * 1_000_000),
        };
        let all = [
            said("alice", "short", 10, Some(14)),
            said("bob", "short", 10, Some(99)),
            said("alice", "long", 20, None),
            said("alice", "short", 30, Some(37)),
        ];
        let wanted = BTreeMap::from([
            ("short", Waits { answered_ms: vec![4.0, 7.0], unanswered_ms: vec![] }),
            ("long", Waits { answered_ms: vec![], unanswered_ms: vec![30.0] }),
        ]);
        assert_eq!(by_line(&all, "alice", 50_000_000), wanted);
    }
}
