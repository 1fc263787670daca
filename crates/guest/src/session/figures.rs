//! Metrics, from what the meters saw.

use anyhow::{Context, Result};
use appease_scenario::{Job, Load, Meter, MeterKind, Metric, Summary};

use super::{Metrics, Session};
use crate::{
    clock::{self, to_ms},
    ending::stalled,
    events::{Happening, Record},
    meter::{self, Answers, Wait, Window},
    probe::{Sched, Seen},
    scheduler::{Scheduler, lane_time, latency},
    typist,
};

impl Session<'_> {
    pub(super) fn lanes(&self, scheduler: &Scheduler) -> Result<Option<serde_json::Value>> {
        let wanted = self.whole_lanes().next().is_some();
        if wanted && scheduler.is_ours() { scheduler.status().map(Some) } else { Ok(None) }
    }

    /// Lane meters of the whole measurement.
    fn whole_lanes(&self) -> impl Iterator<Item = &Meter> {
        self.job.scenario.meters.iter().filter(|meter| meter.kind == MeterKind::Lane && meter.line.is_none())
    }

    pub(super) fn add_lanes(
        &self,
        scheduler: &Scheduler,
        before: Option<&serde_json::Value>,
        metrics: &mut Metrics,
    ) -> Result<()> {
        let Some(before) = before else { return Ok(()) };
        let after = scheduler.status()?;
        for meter in self.whole_lanes() {
            let read = |status| lane_time(status, &meter.commands).context("appease status --json lists no commands");
            let (start, end) = (read(before)?, read(&after)?);
            let all = end.1 - start.1;
            if all <= 0.0 {
                return Err(stalled(format!("the lane meter saw no CPU time of {}", meter.commands.join(", "))));
            }
            scalar(metrics, "other_lane_pct", 100.0 * (end.0 - start.0) / all);
        }
        Ok(())
    }

    /// Metrics of meters that look at the screen.
    pub(super) fn add_screen(
        &self,
        seen: &Seen,
        log: Option<&typist::Log>,
        begin_ns: u64,
        end_ns: u64,
        metrics: &mut Metrics,
        findings: &mut Vec<anyhow::Error>,
    ) {
        let presses = meter::presses(&seen.records);
        if let Some(log) = log {
            if presses.len() != log.presses.len() {
                findings.push(stalled(format!(
                    "{} keys were typed, the kernel saw {}",
                    log.presses.len(),
                    presses.len()
                )));
                return;
            }
            if log.unanswered > 0 {
                findings.push(stalled(format!("{} strokes were not answered in time", log.unanswered)));
            }
        }
        for meter in &self.job.scenario.meters {
            let Some(window) = self.windows.get(&meter.app) else { continue };
            let found = match meter.kind {
                MeterKind::KeyToScreen | MeterKind::Command => {
                    let waits = self.waits(&meter.app, log, &presses, end_ns);
                    match self.job.scenario.part_of(&meter.app).filter(|_| meter.kind == MeterKind::KeyToScreen) {
                        Some(part) => {
                            let found = meter::echoes(&seen.records, window, &waits);
                            self.add_part(&part.name, &found.ms, found.ms.len(), metrics, findings);
                            Ok(())
                        }
                        None => add_answers(seen, meter, window, &waits, metrics),
                    }
                }
                MeterKind::Video => self.add_video(seen, &meter.app, window, (begin_ns, end_ns), metrics, findings),
                MeterKind::Reload => add_reloads(seen, &meter.app, window, metrics),
                MeterKind::Lane | MeterKind::Answer | MeterKind::Work | MeterKind::Checks | MeterKind::Samples => {
                    Ok(())
                }
            };
            findings.extend(found.err());
        }
    }

    /// The strokes into one application, in the order in which they were typed.
    pub(super) fn waits(&self, app: &str, log: Option<&typist::Log>, presses: &[u64], end_ns: u64) -> Vec<Wait> {
        let typists = self.job.scenario.typists.iter().enumerate().filter(|(_, spec)| spec.into == app);
        let mut waits: Vec<_> = typists
            .flat_map(|(index, _)| log.map(|log| log.waits(index, presses, end_ns)).unwrap_or_default())
            .collect();
        waits.sort_by_key(|wait| wait.from_ns);
        waits
    }

    fn add_video(
        &self,
        seen: &Seen,
        app: &str,
        window: &Window,
        (begin_ns, end_ns): (u64, u64),
        metrics: &mut Metrics,
        findings: &mut Vec<anyhow::Error>,
    ) -> Result<()> {
        let scenario = &self.job.scenario;
        let fps = scenario.app(app).and_then(|app| app.kind.frames_per_second(&scenario.clips));
        let fps = fps.with_context(|| format!("\"{app}\" plays nothing"))?;
        let video = meter::video(&seen.records, window, fps, begin_ns, end_ns);
        let drops = self.drops(app);
        eprintln!("{app}: {} frames shown of {} due; it says that it dropped {drops:?}", video.shown, video.due);
        if let Some(part) = scenario.part_of(app) {
            let intervals = video.interval_ms.as_ref().map(|gaps| gaps.samples.as_slice()).unwrap_or_default();
            self.add_part(&part.name, intervals, usize::try_from(video.shown)?, metrics, findings);
            scalar(metrics, "video_dropped_pct", video.dropped_pct);
            return Ok(());
        }
        // That all frames are lost is believed if the player says so, too.
        if video.shown == 0 && drops.unwrap_or(0) == 0 {
            return Err(stalled(format!("the video meter saw no frame of \"{app}\"")));
        }
        scalar(metrics, "video_dropped_pct", video.dropped_pct);
        scalar(metrics, "video_fps", video.fps);
        if let Some(worst) = video.worst_second {
            #[allow(clippy::cast_precision_loss)]
            scalar(metrics, "video_worst_second_fps", worst as f64);
        }
        if let Some(interval) = video.interval_ms {
            metrics.insert("frame_interval_ms".into(), Metric::Distribution(interval));
        }
        if let Some(drops) = drops {
            #[allow(clippy::cast_precision_loss)]
            scalar(metrics, "video_player_drops", drops as f64);
        }
        Ok(())
    }
}

fn add_answers(seen: &Seen, meter: &Meter, window: &Window, waits: &[Wait], metrics: &mut Metrics) -> Result<()> {
    type Matching = fn(&[Record], &Window, &[Wait]) -> Answers;
    let (name, matching): (_, Matching) = match meter.kind {
        MeterKind::KeyToScreen => ("key_to_screen", meter::echoes),
        _ => ("command", meter::outputs),
    };
    let found = matching(&seen.records, window, waits);
    if found.unanswered > 0 {
        #[allow(clippy::cast_precision_loss)]
        scalar(metrics, &format!("{name}_unanswered"), found.unanswered as f64);
    }
    let app = &meter.app;
    let Some(summary) = Summary::of(&found.ms) else {
        let updates: Vec<_> =
            seen.records.iter().filter(|record| matches!(record.what, Happening::Update(_))).take(5).collect();
        eprintln!("{app} is at {:?}; first updates: {updates:?}", window.rect);
        return Err(stalled(format!(
            "{name}_ms: no screen update of \"{app}\" answered any of {} strokes",
            waits.len()
        )));
    };
    metrics.insert(format!("{name}_ms"), Metric::Distribution(summary));
    Ok(())
}

fn add_reloads(seen: &Seen, app: &str, window: &Window, metrics: &mut Metrics) -> Result<()> {
    let waits = meter::reloads(&seen.records);
    let found = meter::outputs(&seen.records, window, &waits);
    if found.unanswered > 0 {
        return Err(stalled(format!("\"{app}\" showed nothing of {} of {} pages", found.unanswered, waits.len())));
    }
    let Some(summary) = Summary::of(&found.ms) else {
        return Err(stalled(format!("reload_ms: \"{app}\" did not ask for a page and then for another")));
    };
    metrics.insert("reload_ms".to_owned(), Metric::Distribution(summary));
    Ok(())
}

/// How processes fared. Of a load: its share of the CPU, and the longest time that any process of it waited.
///
/// Of hogs, each one's share and longest wait as well, for each lives as long as the measurement. The processes of a build live a tenth of
/// a second or so: one's share says how much there was to compile, and the longest wait of any is the figure that holds for all.
pub(super) fn add_sched(sched: &Sched, job: &Job, length_ns: u64, metrics: &mut Metrics) {
    let share = |ns: u64| 100.0 * to_ms(ns) / to_ms(length_ns.max(1)) / f64::from(job.machine.cpus);
    eprintln!("longest wait: {:.3} ms by {}", to_ms(sched.longest_wait_ns), sched.longest_wait_by);
    scalar(metrics, "longest_wait_ms", to_ms(sched.longest_wait_ns));
    if job.machine.cpus > 1 {
        scalar(
            metrics,
            "work_conserving_pct",
            100.0 - 100.0 * to_ms(sched.idle_while_waiting_ns) / to_ms(length_ns.max(1)),
        );
    }
    if matches!(job.load, Load::None | Load::Users(_) | Load::All) {
        return;
    }
    scalar(metrics, "load_share_pct", share(sched.load_ran_ns));
    scalar(metrics, "load_longest_gap_ms", to_ms(sched.load_longest_wait_ns));
    if let Load::Hogs(_) | Load::IdleHogs(_) = job.load {
        let hogs = || sched.load_tasks.iter().filter(|task| task.comm == "stress-ng-cpu" || task.ran_ns > 0);
        let shares: Vec<f64> = hogs().map(|task| share(task.ran_ns)).collect();
        let gaps: Vec<f64> = hogs().map(|task| to_ms(task.longest_wait_ns)).collect();
        for (name, samples) in [("load_process_share_pct", shares), ("load_process_gap_ms", gaps)] {
            if let Some(summary) = Summary::of(&samples) {
                metrics.insert(name.to_owned(), Metric::Distribution(summary));
            }
        }
    }
}

/// A request ends a few seconds after it was opened at the latest.
const REQUEST_ENDS_MS: u64 = 6000;

/// How requests ended, since the scheduler was started.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Requests {
    open: f64,
    answered: f64,
    silent: f64,
    timed_out: f64,
}

impl Requests {
    pub(super) fn so_far() -> Result<Self> {
        let report = latency()?;
        let count = |what: &str| {
            let field = report.pointer(&format!("/total/{what}")).and_then(serde_json::Value::as_f64);
            field.with_context(|| format!("appease latency --json does not tell what was {what}"))
        };
        Ok(Self {
            open: count("open")?,
            answered: count("answered")?,
            silent: count("silent")?,
            timed_out: count("timed_out")?,
        })
    }

    /// Once all are over.
    fn settled() -> Result<Self> {
        let found = Self::so_far()?;
        if found.open == 0.0 {
            return Ok(found);
        }
        clock::sleep_ms(REQUEST_ENDS_MS);
        Self::so_far()
    }

    /// Share of the responses that were seen among those that were due since `before`, per cent; nothing if none was.
    ///
    /// Somebody worked on every request, if only to read it. So one that went quiet has missed its response, like one that timed out;
    /// but for a key that was let go, which has none: of those there were `let_go`.
    fn seen_pct(self, before: Self, let_go: usize) -> Option<f64> {
        let answered = self.answered - before.answered;
        let quiet = (self.silent - before.silent - let_go as f64).max(0.0);
        let due = answered + quiet + self.timed_out - before.timed_out;
        (due > 0.0).then(|| 100.0 * answered / due)
    }
}

/// How many requests were seen to end by their response, since the scheduler was started. Those that ended without one, for nobody worked on
/// them any more, are told beside: a key that is let go has no response. Since the measurement began, with `let_go` keys
/// let go, also how many of all responses were seen.
pub(super) fn add_requests(metrics: &mut Metrics, before: Option<Requests>, let_go: usize) -> Result<()> {
    let found = Requests::settled()?;
    let Requests { open, answered, silent, timed_out } = found;
    if answered + timed_out > 0.0 {
        scalar(metrics, "requests_answered_pct", 100.0 * answered / (answered + timed_out));
    }
    if let Some(seen) = before.and_then(|before| found.seen_pct(before, let_go)) {
        scalar(metrics, "responses_seen_pct", seen);
    }
    for (name, value) in [("open", open), ("answered", answered), ("silent", silent), ("timed_out", timed_out)] {
        scalar(metrics, &format!("requests_{name}"), value);
    }
    Ok(())
}

pub(super) fn scalar(metrics: &mut Metrics, name: &str, value: f64) {
    metrics.insert(name.to_owned(), Metric::Scalar { value });
}

#[cfg(test)]
mod tests {
    use super::Requests;

    #[test]
    fn a_response_that_was_missed_counts_though_its_request_went_quiet() {
        let before = Requests { open: 0.0, answered: 5.0, silent: 7.0, timed_out: 1.0 };
        let after = |answered, silent, timed_out| Requests { open: 0.0, answered, silent, timed_out };
        assert_eq!(after(25.0, 7.0, 1.0).seen_pct(before, 0), Some(100.0));
        assert_eq!(after(23.0, 8.0, 2.0).seen_pct(before, 0), Some(90.0));
        assert_eq!(after(25.0, 26.0, 1.0).seen_pct(before, 20), Some(100.0), "twenty keys were let go");
        assert_eq!(after(23.0, 28.0, 2.0).seen_pct(before, 20), Some(90.0));
        assert_eq!(before.seen_pct(before, 0), None);
    }
}
