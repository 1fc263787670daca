//! Who came in where: each race's figures by scheduler, against an unloaded machine and the best of the others.

use std::fmt::Write as _;

use appease_scenario::{Load, Outcome, Run};

use super::{
    document::Document,
    matrix::{Measure, Race},
};
use crate::report::names::{self, Better, figure};

/// A race by one measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What is measured, beside what, by which figure and on which kernel.
    pub title: String,
    /// The scenario and the load, as they are typed.
    pub run: String,
    /// Whether less is better, as it mostly is.
    less_is_better: bool,
    /// The same without load, under EEVDF.
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
}

impl Row {
    /// How many times worse than unloaded a figure is.
    #[must_use]
    pub fn to_unloaded(&self, figure: f64) -> Option<f64> {
        self.unloaded.and_then(|unloaded| self.worse(figure, unloaded))
    }

    /// How many times worse than policy appease the best of the others is.
    #[must_use]
    pub fn best_other_to_ours(&self) -> Option<(&str, f64)> {
        let ours = self.figures().find(|(scheduler, _)| *scheduler == OURS)?.1;
        let others = self.figures().filter(|(scheduler, _)| !is_ours(scheduler));
        let best = others.reduce(|best, next| if self.is_better(next.1, best.1) { next } else { best })?;
        Some((best.0, self.worse(best.1, ours)?))
    }

    /// Whether nobody has a better figure.
    #[must_use]
    pub fn is_best(&self, figure: f64) -> bool {
        !self.figures().any(|(_, other)| self.is_better(other, figure))
    }

    fn figures(&self) -> impl Iterator<Item = (&str, f64)> {
        self.entries.iter().filter_map(|entry| Some((entry.scheduler.as_str(), *entry.figure.as_ref().ok()?)))
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
        for kernel in kernels {
            let at = |load: Load| runs().filter(move |run| run.load == load && series(&run.kernel) == kernel);
            for load in &race.loads {
                let runs: Vec<&Run> = at(*load).collect();
                let unloaded: Vec<&Run> = at(race.unloaded).collect();
                for measure in race.measures.iter().filter(|_| !runs.is_empty()) {
                    rows.push(row(race, *load, kernel, measure, &runs, &unloaded));
                }
            }
        }
    }
    rows
}

fn row(race: &Race, load: Load, kernel: &str, measure: &Measure, runs: &[&Run], unloaded: &[&Run]) -> Row {
    let entry = |scheduler: &str| {
        let run = runs.iter().find(|run| run.scheduler == scheduler);
        let figure = match run {
            None => Err("not run".into()),
            Some(run) if run.outcome != Outcome::Ok => Err(names::outcome(run.outcome).into()),
            Some(run) => measure.of(run).ok_or_else(|| "nothing completed".into()),
        };
        Entry { scheduler: scheduler.to_owned(), figure }
    };
    let base = unloaded.iter().find(|run| run.scheduler == "eevdf" && run.outcome == Outcome::Ok);
    Row {
        title: format!("{}, {load}: {} (Linux {kernel})", race.title, measure_name(measure)),
        run: format!("{} --load {load}", race.scenario),
        less_is_better: names::better(&measure.metric) != Better::More,
        unloaded: base.and_then(|run| measure.of(run)),
        entries: race.schedulers().iter().map(|scheduler| entry(&scheduler.to_string())).collect(),
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

/// The table for the project's front page: every scheduler's figure, and two ratios.
#[must_use]
pub fn markdown(rows: &[Row]) -> String {
    let mut schedulers: Vec<&str> = Vec::new();
    for entry in rows.iter().flat_map(|row| &row.entries) {
        if !schedulers.contains(&entry.scheduler.as_str()) {
            schedulers.push(&entry.scheduler);
        }
    }
    let mut text = String::from("| | unloaded |");
    for scheduler in &schedulers {
        let _ = write!(text, " {} |", names::scheduler(scheduler));
    }
    text += " appease to unloaded | best other to appease |\n|---|---|";
    text += &"---|".repeat(schedulers.len() + 2);
    text.push('\n');
    for row in rows {
        let _ = write!(text, "| {} | {} |", row.title, row.unloaded.map_or_else(|| "–".into(), figure));
        for scheduler in &schedulers {
            let entry = row.entries.iter().find(|entry| entry.scheduler == *scheduler);
            let cell = entry.map_or_else(
                || "not run".into(),
                |entry| match &entry.figure {
                    Ok(value) if row.is_best(*value) => format!("**{}**", figure(*value)),
                    Ok(value) => figure(*value),
                    Err(why) => why.clone(),
                },
            );
            let _ = write!(text, " {cell} |");
        }
        let ours = row.entries.iter().find(|entry| entry.scheduler == OURS).and_then(|entry| entry.figure.clone().ok());
        let _ = writeln!(
            text,
            " {} | {} |",
            names::times(ours.and_then(|ours| row.to_unloaded(ours))),
            names::times(row.best_other_to_ours().map(|(_, ratio)| ratio)),
        );
    }
    text
}

/// Who was ejected, stalled or failed, with the reason.
#[must_use]
pub fn mishaps(documents: &[Document]) -> Vec<String> {
    let runs = documents.iter().flat_map(|document| document.report.runs.iter().map(move |run| (document, run)));
    let bad = runs.filter(|(_, run)| run.outcome != Outcome::Ok);
    bad.map(|(document, run)| {
        let why = run.detail.lines().next().unwrap_or_default();
        let (scenario, kernel) = (&document.report.scenario, series(&run.kernel));
        format!("{} in {scenario}, {}, Linux {kernel}: {}: {why}", run.scheduler, run.load, names::outcome(run.outcome))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs};

    use anyhow::Result;
    use appease_scenario::{Load, Machine, Metric, Mode, Outcome, Report, Run};

    use super::{markdown, mishaps, rows};
    use crate::bench::{document::Document, matrix::Matrix};

    fn document(load: &str, figures: &[(&str, Option<f64>)]) -> Result<Document> {
        let load: Load = load.parse()?;
        let run = |(scheduler, figure): &(&str, Option<f64>)| Run {
            scheduler: (*scheduler).into(),
            load,
            kernel: "7.2.13+deb14-amd64".into(),
            machine: Machine { mode: Mode::Exact, cpus: 1 },
            outcome: if figure.is_some() { Outcome::Ok } else { Outcome::Evicted },
            detail: if figure.is_some() { String::new() } else { "runnable task stall\nmore".into() },
            metrics: figure.map(|value| ("video_fps".to_owned(), Metric::Scalar { value })).into_iter().collect(),
        };
        let report = Report { scenario: "film".into(), runs: figures.iter().map(run).collect() };
        Ok(Document { format: 1, short: true, versions: BTreeMap::new(), report })
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
            "#,
        )?;
        Matrix::load(&path)
    }

    /// More frames are better; whoever was ejected has none, and who is missing was not run.
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
        | | unloaded | EEVDF | scx_lavd | scx_flash | appease | appease:steady | appease to unloaded | best other to appease |
        |---|---|---|---|---|---|---|---|---|
        | a film, hogs:4: video, frames/s (Linux 7.2) | 25.0 | 5.00 | 8.00 | ejected by the kernel | **20.0** | not run | 1.25 × | 2.50 × |
        ");
        assert_eq!(rows[0].best_other_to_ours(), Some(("scx_lavd", 2.5)));
        assert_eq!(
            mishaps(&documents),
            ["scx_flash in film, hogs:4, Linux 7.2: ejected by the kernel: runnable task stall"]
        );
        Ok(())
    }
}
