//! The league as tables: the same cells for the project's front page and for the report.

use std::fmt::Write as _;

use super::league::{self, Row};
use crate::report::names::{self, figure, times};

/// Lines of cells, each under a heading.
#[derive(Debug)]
pub struct Table {
    /// What it is of, if it is not the league's own.
    pub title: Option<String>,
    /// Of columns.
    pub heads: Vec<String>,
    /// As many cells as there are heads.
    pub lines: Vec<Line>,
}

/// A line of a table.
#[derive(Debug)]
pub struct Line {
    /// Its heading.
    pub head: String,
    /// From left to right.
    pub cells: Vec<Cell>,
}

/// What stands in a table.
#[derive(Debug, Clone)]
pub enum Cell {
    /// The unloaded machine's figure.
    Unloaded(Option<f64>),
    /// A scheduler's.
    Figure {
        /// In the measure's unit.
        value: f64,
        /// Whether nobody has a better one.
        is_best: bool,
        /// How many times worse than unloaded it is.
        to_unloaded: Option<f64>,
    },
    /// Why a scheduler has none.
    Missing(String),
    /// How many times worse than unloaded we are.
    ToUnloaded(Option<f64>),
    /// How many times worse than we the best of the others is, and who that is.
    BestOther(Option<(String, f64)>),
}

/// The league's own table, and one for each heat that has other schedulers: of what was run.
#[must_use]
pub fn tables(rows: &[Row]) -> Vec<Table> {
    let of = |group: &league::Group<'_>| {
        let was_run = |scheduler: &&str| group.rows.iter().any(|row| row.was_run(scheduler));
        let schedulers: Vec<&str> = group.schedulers().filter(was_run).collect();
        let mut heads = vec!["unloaded".to_owned()];
        heads.extend(schedulers.iter().map(|scheduler| names::scheduler(scheduler)));
        heads.extend(["appease to unloaded".to_owned(), "best other to appease".to_owned()]);
        let line = |row: &&Row| Line {
            head: if group.heat.is_some() { row.measure.clone() } else { row.title() },
            cells: cells(row, &schedulers),
        };
        let rows = group.rows.iter().filter(|row| schedulers.iter().any(|scheduler| row.was_run(scheduler)));
        let table = Table { title: group.heat.map(str::to_owned), heads, lines: rows.map(line).collect() };
        // Whoever brings his own schedulers may bring many: they stand below each other.
        if table.title.is_some() { table.transposed() } else { table }
    };
    league::groups(rows).iter().map(of).collect()
}

fn cells(row: &Row, schedulers: &[&str]) -> Vec<Cell> {
    let mut cells = vec![Cell::Unloaded(row.unloaded)];
    cells.extend(schedulers.iter().map(|scheduler| match row.figure(scheduler) {
        Ok(value) => Cell::Figure { value, is_best: row.is_best(value), to_unloaded: row.to_unloaded(value) },
        Err(why) => Cell::Missing(why.into()),
    }));
    let best = row.best_other_to_ours().map(|(scheduler, ratio)| (names::scheduler(scheduler), ratio));
    cells.extend([Cell::ToUnloaded(row.ours_to_unloaded()), Cell::BestOther(best)]);
    cells
}

impl Table {
    fn transposed(self) -> Self {
        let Self { title, heads, lines } = self;
        let cells = |at: usize| lines.iter().map(|line: &Line| line.cells[at].clone()).collect();
        let line = |(at, head)| Line { head, cells: cells(at) };
        let turned = heads.into_iter().enumerate().map(line).collect();
        Self { title, heads: lines.into_iter().map(|line| line.head).collect(), lines: turned }
    }
}

/// All tables for the project's front page.
#[must_use]
pub fn markdown(rows: &[Row]) -> String {
    let mut text = String::new();
    for table in tables(rows) {
        if let Some(title) = &table.title {
            let _ = write!(text, "\n{title}:\n\n");
        }
        let _ = writeln!(text, "| | {} |\n|---|{}", table.heads.join(" | "), "---|".repeat(table.heads.len()));
        for line in &table.lines {
            let cells: Vec<String> = line.cells.iter().map(plain).collect();
            let _ = writeln!(text, "| {} | {} |", line.head, cells.join(" | "));
        }
    }
    text
}

fn plain(cell: &Cell) -> String {
    match cell {
        Cell::Figure { value, is_best: true, .. } => format!("**{}**", figure(*value)),
        Cell::Unloaded(Some(value)) | Cell::Figure { value, .. } => figure(*value),
        Cell::Unloaded(None) => "–".into(),
        Cell::Missing(why) => why.clone(),
        Cell::ToUnloaded(ratio) => times(*ratio),
        Cell::BestOther(best) => times(best.as_ref().map(|(_, ratio)| *ratio)),
    }
}
