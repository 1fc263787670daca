//! The cells of the league that appease loses, and the reasons that are written down for some of them.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::league::Row;
use crate::report::names::{self, figure, times};

/// How many times worse than the best of the others a cell may be and not count as lost.
pub const ALLOWED: f64 = 1.05;
/// How many cells may be lost, each with its reason.
pub const EXCEPTIONS: usize = 5;

/// The file of reasons.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exceptions {
    #[serde(default, rename = "exception")]
    exceptions: Vec<Exception>,
}

/// A cell that may be lost.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    /// The row's title.
    cell: String,
    /// Why another scheduler is better there.
    reason: String,
}

/// How appease fares in all cells.
#[derive(Debug)]
pub struct Standing<'a> {
    /// How many cells have a figure of another scheduler, and were run under appease.
    pub cells: usize,
    /// Those that appease loses, worst first.
    pub lost: Vec<Lost<'a>>,
}

/// A lost cell.
#[derive(Debug)]
pub struct Lost<'a> {
    /// Where.
    pub row: &'a Row,
    /// Who is best of the others, and by which figure.
    pub best: (&'a str, f64),
    /// Why, if that is written down.
    pub reason: Option<&'a str>,
}

impl Exceptions {
    /// Reads the file.
    ///
    /// # Errors
    /// Names the file, what is wrong, and a cell that has no reason or is there twice.
    pub fn load(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("read {shown}"))?;
        let all: Self = toml::from_str(&text).with_context(|| format!("{shown} is no list of exceptions"))?;
        for (at, Exception { cell, reason }) in all.exceptions.iter().enumerate() {
            if reason.trim().is_empty() {
                bail!("{shown}: cell \"{cell}\" has no reason: write why another scheduler is better there");
            }
            if all.exceptions[..at].iter().any(|earlier| earlier.cell == *cell) {
                bail!("{shown}: cell \"{cell}\" is there twice: remove one");
            }
        }
        Ok(all)
    }

    fn reason(&self, cell: &str) -> Option<&str> {
        self.exceptions.iter().find(|exception| exception.cell == cell).map(|exception| exception.reason.as_str())
    }
}

/// Holds each cell against the best of the others. A race with schedulers of its own is about their mixes, and not counted.
#[must_use]
pub fn standing<'a>(rows: &'a [Row], exceptions: &'a Exceptions) -> Standing<'a> {
    let (mut cells, mut lost) = (0, Vec::new());
    for row in rows.iter().filter(|row| !row.has_own_schedulers()) {
        let Some(best) = row.best_other() else { continue };
        let Some(is_within) = row.is_ours_within(ALLOWED, best.1) else { continue };
        cells += 1;
        if !is_within {
            lost.push(Lost { row, best, reason: exceptions.reason(&row.title()) });
        }
    }
    let badness = |one: &Lost<'_>| one.ratio().unwrap_or(f64::INFINITY);
    lost.sort_by(|one, other| badness(other).total_cmp(&badness(one)));
    Standing { cells, lost }
}

impl Standing<'_> {
    /// Whether no more cells are lost than may be, each for a reason.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.lost.len() <= EXCEPTIONS && self.lost.iter().all(|lost| lost.reason.is_some())
    }

    /// For people.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = format!(
            "\nOf {} cells appease loses {}: they are more than {ALLOWED} times as bad as the best of the others. {EXCEPTIONS} may be lost, each with its reason.\n",
            self.cells,
            self.lost.len()
        );
        if !self.lost.is_empty() {
            text.push_str("\n| | appease | best other | times worse | reason |\n|---|---|---|---|---|\n");
        }
        for one in &self.lost {
            let ours = one.row.ours().map_or_else(str::to_owned, figure);
            let best = format!("{} ({})", figure(one.best.1), names::scheduler(one.best.0));
            let (ratio, reason) = (times(one.ratio()), one.reason.unwrap_or("–"));
            let _ = writeln!(text, "| {} | {ours} | {best} | {ratio} | {reason} |", one.row.title());
        }
        text
    }
}

impl Lost<'_> {
    /// How many times worse than the best ours is; `None` where there is no figure, or the best is nothing.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        self.row.best_other_to_ours().map(|(_, ratio)| 1.0 / ratio).filter(|ratio| ratio.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use anyhow::Result;

    use super::{Exceptions, standing};
    use crate::bench::league::{Entry, Row};

    fn row(measure: &str, less_is_better: bool, ours: Result<f64, &str>, other: f64) -> Row {
        let entry = |scheduler: &str, figure: Result<f64, &str>| Entry {
            scheduler: scheduler.into(),
            figure: figure.map_err(str::to_owned),
            counts: scheduler != "scx_lossy",
        };
        let mut row = Row::new("a film", measure, less_is_better);
        row.entries = vec![
            entry("eevdf", Ok(other)),
            entry("appease", ours),
            entry("appease:cas", Ok(0.0)),
            entry("scx_lossy", Ok(0.0)),
        ];
        row
    }

    /// A cell is lost by more than the share that is allowed, in the direction in which the figure gets worse, where the best has nothing,
    /// and where there is no figure at all. What was not run yet is not lost; and a scheduler that loses what
    /// nobody may is no rival.
    #[test]
    fn cells_are_lost_to_the_best_of_the_others() -> Result<()> {
        let rows = [
            row("late", true, Ok(1.06), 1.0),
            row("as late", true, Ok(1.05), 1.0),
            row("frames", false, Ok(20.0), 25.0),
            row("as many frames", false, Ok(24.0), 25.0),
            row("gaps", true, Ok(1.0), 0.0),
            row("as few gaps", true, Ok(0.0), 0.0),
            row("ejected", true, Err("ejected"), 3.0),
            row("to come", true, Err("not run"), 3.0),
        ];
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("exceptions.toml");
        fs::write(&path, "[[exception]]\ncell = \"a film: gaps\"\nreason = \"none\"\n")?;
        let exceptions = Exceptions::load(&path)?;
        let standing = standing(&rows, &exceptions);
        assert_eq!(standing.cells, 7);
        assert!(!standing.is_kept());
        let names: Vec<_> = standing.lost.iter().map(|one| (one.row.title(), one.reason)).collect();
        let expected = [("gaps", Some("none")), ("ejected", None), ("frames", None), ("late", None)];
        assert_eq!(names, expected.map(|(name, reason)| (format!("a film: {name}"), reason)));
        Ok(())
    }

    #[test]
    fn a_list_without_reasons_is_refused() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("exceptions.toml");
        for (text, wrong) in [
            ("[[exception]]\ncell = \"a\"\nreason = \" \"\n", "has no reason"),
            ("[[exception]]\ncell = \"a\"\n", "is no list of exceptions"),
            (
                "[[exception]]\ncell = \"a\"\nreason = \"b\"\n[[exception]]\ncell = \"a\"\nreason = \"c\"\n",
                "is there twice",
            ),
        ] {
            fs::write(&path, text)?;
            let error = Exceptions::load(&path).map(drop).map_err(|error| error.to_string());
            assert!(error.as_ref().is_err_and(|error| error.contains(wrong)), "{text:?}: {error:?}");
        }
        Ok(())
    }
}
