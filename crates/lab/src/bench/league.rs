//! Who came in where: each race's figures by scheduler, against an unloaded machine and the best of the others.

use std::collections::BTreeMap;

use appease_scenario::{Grouping, Load, Metric, Outcome, Run};

use super::{
    document::Document,
    matrix::{Measure, Race},
};
use crate::{
    report::names::{self, Better},
    scheduler::Scheduler,
};

/// A race by one measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What is measured, beside what and on which kernel.
    pub heat: String,
    /// By which figure.
    pub measure: String,
    /// Whether it has its own schedulers, not those of the league.
    has_own: bool,
    /// Whether less is better, as it mostly is.
    less_is_better: bool,
    /// The same without load, under the scheduler that is best there.
    pub unloaded: Option<f64>,
    /// By scheduler.
    pub entries: Vec<Entry>,
}

/// How one fared.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The scheduler.
    pub scheduler: String,
    /// The figure, or why there is none.
    pub figure: Result<f64, String>,
    /// Whether it counts when the best is looked for: it lost nothing that its race forbids to lose.
    pub counts: bool,
}

impl Entry {
    /// The scheduler and its figure, if it has one.
    fn came_in(&self) -> Option<(&str, f64)> {
        Some((&self.scheduler, *self.figure.as_ref().ok()?))
    }
}

/// Rows of the same schedulers.
#[derive(Debug)]
pub struct Group<'a> {
    /// The heat that has its own schedulers; without one they are those of the league.
    pub heat: Option<&'a str>,
    /// At least one.
    pub rows: Vec<&'a Row>,
}

impl Group<'_> {
    /// Who raced.
    pub fn schedulers(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().take(1).flat_map(|row| &row.entries).map(|entry| entry.scheduler.as_str())
    }
}

/// Those of the league, and of each heat with its own schedulers.
#[must_use]
pub fn groups(rows: &[Row]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for row in rows {
        let heat = row.has_own.then_some(row.heat.as_str());
        match groups.iter_mut().find(|group| group.heat == heat) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group { heat, rows: vec![row] }),
        }
    }
    groups
}

impl Row {
    #[cfg(test)]
    pub(super) fn new(heat: &str, measure: &str, less_is_better: bool) -> Self {
        let (heat, measure) = (heat.into(), measure.into());
        Self { heat, measure, has_own: false, less_is_better, unloaded: None, entries: Vec::new() }
    }

    /// What is measured, beside what, on which kernel and by which figure.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{}: {}", self.heat, self.measure)
    }

    /// The figure of a scheduler.
    ///
    /// # Errors
    /// Why there is none.
    pub fn figure(&self, scheduler: &str) -> Result<f64, &str> {
        let entry = self.entries.iter().find(|entry| entry.scheduler == scheduler);
        entry.map_or(Err(NOT_RUN), |entry| entry.figure.as_ref().copied().map_err(String::as_str))
    }

    /// How many times worse than unloaded policy appease is.
    #[must_use]
    pub fn ours_to_unloaded(&self) -> Option<f64> {
        self.to_unloaded(self.ours().ok()?)
    }

    /// How many times worse than unloaded a figure is.
    #[must_use]
    pub fn to_unloaded(&self, figure: f64) -> Option<f64> {
        self.unloaded.and_then(|unloaded| self.worse(figure, unloaded))
    }

    /// Whether a scheduler was run, with a figure or without.
    #[must_use]
    pub fn was_run(&self, scheduler: &str) -> bool {
        !matches!(self.figure(scheduler), Err(NOT_RUN | AS_EEVDF))
    }

    /// The figure of policy appease.
    ///
    /// # Errors
    /// Why there is none.
    pub fn ours(&self) -> Result<f64, &str> {
        self.figure(OURS)
    }

    /// Whether that is at most `ratio` times as bad as another figure; `None` if it was not run.
    #[must_use]
    pub fn is_ours_within(&self, ratio: f64, other: f64) -> Option<bool> {
        let (one, other) = match self.ours() {
            Ok(ours) if self.less_is_better => (ours, other),
            Ok(ours) => (other, ours),
            Err(NOT_RUN) => return None,
            Err(_) => return Some(false),
        };
        Some(one <= ratio * other)
    }

    /// Who of the others is best, and its figure.
    #[must_use]
    pub fn best_other(&self) -> Option<(&str, f64)> {
        let is_rival = |entry: &&Entry| entry.counts && !is_ours(&entry.scheduler);
        let rivals = self.entries.iter().filter(is_rival).filter_map(Entry::came_in);
        rivals.reduce(|best, next| if self.is_better(next.1, best.1) { next } else { best })
    }

    /// How many times worse than policy appease that one is.
    #[must_use]
    pub fn best_other_to_ours(&self) -> Option<(&str, f64)> {
        let (scheduler, best) = self.best_other()?;
        Some((scheduler, self.worse(best, self.ours().ok()?)?))
    }

    /// Whether the race has schedulers of its own.
    #[must_use]
    pub fn has_own_schedulers(&self) -> bool {
        self.has_own
    }

    /// Whether nobody has a better figure.
    #[must_use]
    pub fn is_best(&self, figure: f64) -> bool {
        !self.figures().any(|(_, other)| self.is_better(other, figure))
    }

    fn figures(&self) -> impl Iterator<Item = (&str, f64)> {
        self.entries.iter().filter_map(Entry::came_in)
    }

    fn is_better(&self, one: f64, other: f64) -> bool {
        if self.less_is_better { one < other } else { one > other }
    }

    fn worse(&self, one: f64, other: f64) -> Option<f64> {
        let (above, below) = if self.less_is_better { (one, other) } else { (other, one) };
        (below > 0.0).then_some(above / below)
    }
}

/// The policy whose ratios are told.
const OURS: &str = "appease";
/// The metric of a scenario that has checks of its own and came to its end.
const CHECKS_FAILED: &str = "checks_failed";
/// Why there is no figure of a run that is still to come.
const NOT_RUN: &str = "not run";
/// Why there is none of a scheduler that puts programs into cgroups itself, where they have some.
const AS_EEVDF: &str = "as EEVDF";

fn is_ours(scheduler: &str) -> bool {
    scheduler == OURS || scheduler.starts_with("appease:") || scheduler.starts_with("appease@")
}

/// The races that were run, as far as they were.
#[must_use]
pub fn rows(races: &[Race], documents: &[Document]) -> Vec<Row> {
    let mut rows = Vec::new();
    for race in races {
        let of_scenario = |document: &&Document| document.report.scenario == race.scenario;
        let documents: Vec<_> = documents.iter().filter(of_scenario).collect();
        let runs = || documents.iter().flat_map(|document| &document.report.runs);
        let mut kernels: Vec<&str> =
            runs().map(|run| series(&run.kernel)).filter(|series| !series.is_empty()).collect();
        kernels.sort_unstable();
        kernels.dedup();
        // Another race of the same scenario may be on more kernels.
        kernels.retain(|kernel| race.kernels().iter().any(|wanted| wanted.may_be_of(kernel)));
        for kernel in kernels {
            for (layout, cpus) in race.machines() {
                let is_here = |run: &&Run| {
                    series(&run.kernel) == kernel && run.machine.layout == layout && run.machine.cpus == cpus
                };
                let at = |load: Load| runs().filter(is_here).filter(move |run| run.load == load);
                for load in &race.loads {
                    let runs: Vec<&Run> = at(*load).collect();
                    let unloaded: Vec<&Run> = at(race.unloaded).collect();
                    let place = place(*load, kernel, layout, cpus);
                    for measure in race.measures.iter().filter(|_| !runs.is_empty()) {
                        rows.push(row(race, &place, layout, measure, &runs, &unloaded));
                    }
                }
            }
        }
    }
    rows
}

/// Beside what, on which kernel and what machine; what is usual is not said.
fn place(load: Load, kernel: &str, layout: Grouping, cpus: u32) -> String {
    let layout = if layout == Grouping::Scopes { String::new() } else { format!(", {}", names::layout(layout)) };
    let cpus = if cpus > 1 { format!(", {cpus} CPUs") } else { String::new() };
    format!("{load} (Linux {kernel}{layout}{cpus})")
}

fn row(race: &Race, place: &str, layout: Grouping, measure: &Measure, runs: &[&Run], unloaded: &[&Run]) -> Row {
    let less_is_better = names::better(&measure.metric) != Better::More;
    let entry = |scheduler: &Scheduler| {
        let may_be_here = scheduler.may_be_in(layout);
        let scheduler = scheduler.to_string();
        let run = runs.iter().find(|run| run.scheduler == scheduler);
        let figure = match run {
            None if !may_be_here => Err(AS_EEVDF.into()),
            None => Err(NOT_RUN.into()),
            Some(run) if run.outcome != Outcome::Ok && !came_in(run) => Err(names::ending(run)),
            Some(run) => measure.of(run).ok_or_else(|| missing(measure, run).into()),
        };
        let lost = race.lossless.as_ref().and_then(|lossless| lossless.of(run?));
        Entry { scheduler, figure, counts: lost.is_none_or(|lost| lost == 0.0) }
    };
    // Of this race's schedulers: another race of the scenario may have others, with other mixes.
    let is_in = |run: &&&Run| race.schedulers().iter().any(|scheduler| scheduler.to_string() == run.scheduler);
    let bases = unloaded.iter().filter(is_in).filter(|run| run.outcome == Outcome::Ok);
    let best = if less_is_better { f64::min } else { f64::max };
    Row {
        heat: format!("{}, {place}", race.title),
        measure: measure_name(measure),
        has_own: race.has_own_schedulers(),
        less_is_better,
        unloaded: bases.filter_map(|run| measure.of(run)).reduce(best),
        entries: race.schedulers().iter().map(entry).collect(),
    }
}

/// Whether a run ended, though the scenario's own checks failed: it has its figures then.
fn came_in(run: &Run) -> bool {
    run.outcome == Outcome::Failed && run.metrics.contains_key(CHECKS_FAILED)
}

/// Why a run that ended well has no such figure.
fn missing(measure: &Measure, run: &Run) -> &'static str {
    let completed = format!("{}_completed", names::split_unit(&measure.metric).0);
    match run.metrics.get(&completed) {
        Some(Metric::Scalar { value: 0.0 }) => "completed nothing",
        Some(_) => "completed too little",
        None => "not measured",
    }
}

/// What it is of, its statistic and its unit.
fn measure_name(measure: &Measure) -> String {
    let (stem, unit) = names::split_unit(&measure.metric);
    let words = [stem.replace('_', " ").as_str(), measure.statistic().unwrap_or_default()].join(" ");
    let words = words.trim_end();
    if unit.is_empty() { words.into() } else { format!("{words}, {unit}") }
}

/// `7.2` of `7.2.13+deb14-amd64`.
fn series(release: &str) -> &str {
    let end = release.match_indices('.').nth(1).map_or(release.len(), |(at, _)| at);
    &release[..end]
}

/// What ran: the versions of each scheduler, and of the kernel, that the figures are of.
#[must_use]
pub fn versions(documents: &[Document]) -> BTreeMap<&str, Vec<&str>> {
    let mut all: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, version) in documents.iter().flat_map(|document| &document.versions) {
        let known = all.entry(name).or_default();
        if !known.contains(&version.as_str()) {
            known.push(version);
        }
    }
    all
}

/// Who was ejected, stalled or failed, with the reason.
#[must_use]
pub fn mishaps(documents: &[Document]) -> Vec<String> {
    let runs = documents.iter().flat_map(|document| document.report.runs.iter().map(move |run| (document, run)));
    let bad = runs.filter(|(_, run)| run.outcome != Outcome::Ok);
    bad.map(|(document, run)| {
        let why = run.detail.lines().next().unwrap_or_default();
        let place = place(run.load, series(&run.kernel), run.machine.layout, run.machine.cpus);
        let (scenario, outcome) = (&document.report.scenario, names::ending(run));
        format!("{} in {scenario}, {place}: {outcome}: {why}", run.scheduler)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use anyhow::Result;
    use appease_scenario::{Grouping, Load, Machine, Metric, Mode, Outcome, Report, Run, WATCHDOG};

    use super::{mishaps, rows, versions};
    use crate::bench::{document::Document, matrix::Matrix, table::markdown};

    fn document(load: &str, figures: &[(&str, Option<f64>)]) -> Result<Document> {
        let load: Load = load.parse()?;
        let run = |(scheduler, figure): &(&str, Option<f64>)| Run {
            scheduler: (*scheduler).into(),
            load,
            kernel: "7.2.13+deb14-amd64".into(),
            machine: Machine { layout: Grouping::Scopes, ..Machine::plain(Mode::Exact, 1) },
            outcome: if figure.is_some() { Outcome::Ok } else { Outcome::Evicted },
            detail: if figure.is_some() { String::new() } else { "runnable task stall\nmore".into() },
            metrics: [figure.map_or((WATCHDOG, 5.0), |value| ("video_fps", value))]
                .map(|(name, value)| (name.to_owned(), Metric::Scalar { value }))
                .into(),
        };
        let report = Report { scenario: "film".into(), runs: figures.iter().map(run).collect() };
        Ok(Document { format: 1, short: true, versions: [("appease".to_owned(), format!("of {load}"))].into(), report })
    }

    fn matrix() -> Result<Matrix> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("league.toml");
        fs::write(
            &path,
            r#"
            schedulers = ["eevdf", "scx_lavd", "scx_flash", "appease", "appease:steady"]
            kernels = ["default"]
            [[race]]
            scenario = "film"
            title = "a film"
            loads = ["hogs:4"]
            measures = ["video_fps"]
            [[race]]
            scenario = "film"
            title = "a film in classes"
            loads = ["hogs:4"]
            measures = ["video_fps", "video_ms mean"]
            schedulers = ["eevdf", "eevdf+batch", "appease"]
            [[race]]
            scenario = "film"
            title = "a film on another kernel"
            kernels = ["6.18"]
            loads = ["hogs:4"]
            measures = ["video_fps"]
            "#,
        )?;
        Matrix::load(&path)
    }

    /// More frames are better; whoever was ejected has none, and who is missing was not run and has no column.
    #[test]
    fn ratios_are_to_unloaded_and_to_the_best_other() -> Result<()> {
        let races = matrix()?.races(false, &[])?;
        let documents = [
            document("none", &[("eevdf", Some(25.0)), ("appease", Some(24.0))])?,
            document(
                "hogs:4",
                &[("eevdf", Some(5.0)), ("scx_lavd", Some(8.0)), ("scx_flash", None), ("appease", Some(20.0))],
            )?,
        ];
        let rows = rows(&races, &documents);
        insta::assert_snapshot!(markdown(&rows), @r"
        | | unloaded | EEVDF | scx_lavd | scx_flash | appease | appease to unloaded | best other to appease |
        |---|---|---|---|---|---|---|---|
        | a film, hogs:4 (Linux 7.2): video, frames/s | 25.0 | 5.00 | 8.00 | ejected by the kernel (watchdog: 5 s) | **20.0** | 1.25 × | 2.50 × |

        a film in classes, hogs:4 (Linux 7.2):

        | | video, frames/s | video mean, ms |
        |---|---|---|
        | unloaded | 25.0 | – |
        | EEVDF | 5.00 | not measured |
        | appease | **20.0** | not measured |
        | appease to unloaded | 1.25 × | – |
        | best other to appease | 4.00 × | – |
        ");
        assert_eq!(rows[0].best_other_to_ours(), Some(("scx_lavd", 2.5)));
        assert_eq!(
            mishaps(&documents),
            ["scx_flash in film, hogs:4 (Linux 7.2): ejected by the kernel (watchdog: 5 s): runnable task stall"]
        );
        assert_eq!(versions(&documents), [("appease", vec!["of none", "of hogs:4"])].into());
        Ok(())
    }
}
