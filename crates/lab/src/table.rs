//! Results as a table for people.

use std::collections::BTreeSet;

use appease_scenario::{Metric, Outcome, Report, Run};
use comfy_table::{CellAlignment, Table, presets::NOTHING};

use crate::fleet::outcome_name;

/// The results of some scenarios: a table each, and why runs failed.
#[must_use]
pub fn text(reports: &[Report]) -> String {
    let mut text = String::new();
    for report in reports {
        text.push_str(&format!("{}  (distributions: p50 / p90 / max)\n{}\n", report.scenario, table(report)));
        for run in report.runs.iter().filter(|run| run.outcome != Outcome::Ok) {
            let detail = run.detail.replace('\n', "\n    ");
            text.push_str(&format!("{} at {}: {}\n    {detail}\n", run.scheduler, run.load, outcome_name(run.outcome)));
        }
    }
    text
}

fn table(report: &Report) -> Table {
    let metrics: BTreeSet<&str> = report.runs.iter().flat_map(|run| run.metrics.keys()).map(String::as_str).collect();
    let kernels: BTreeSet<&str> = report.runs.iter().map(|run| run.kernel.as_str()).collect();
    let mut table = Table::new();
    table.load_style(NOTHING);
    let mut header = vec!["scheduler", "load", "outcome"];
    if kernels.len() > 1 {
        header.insert(0, "kernel");
    }
    let figures = header.len();
    header.extend(&metrics);
    table.set_header(header);
    for run in &report.runs {
        let mut row = vec![run.scheduler.clone(), run.load.to_string(), outcome_name(run.outcome).into()];
        if kernels.len() > 1 {
            row.insert(0, run.kernel.clone());
        }
        row.extend(metrics.iter().map(|metric| figure(run, metric)));
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(figures) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn figure(run: &Run, metric: &str) -> String {
    match run.metrics.get(metric) {
        None => "–".into(),
        Some(Metric::Scalar { value }) => number(*value),
        Some(Metric::Distribution(d)) => [d.p50, d.p90, d.max].map(number).join(" / "),
    }
}

/// Three significant digits are what repeated runs agree on.
fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 || v == 0.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use appease_scenario::{Load, Machine, Metric, Mode, Outcome, Report, Run, Summary};

    use super::text;

    fn run(scheduler: &str, outcome: Outcome, metrics: BTreeMap<String, Metric>) -> Run {
        Run {
            scheduler: scheduler.into(),
            load: Load::Hogs(16),
            kernel: "7.2.13".into(),
            machine: Machine::plain(Mode::Exact, 1),
            outcome,
            detail: if outcome == Outcome::Ok {
                String::new()
            } else {
                "sched_ext: runnable task stall\nlast line".into()
            },
            metrics,
        }
    }

    #[test]
    fn a_table() {
        let keys = Summary::of(&[0.181, 0.19, 2.345, 104.2]).map(Metric::Distribution);
        let metrics =
            [("key_to_screen_ms".to_owned(), keys), ("video_dropped_pct".into(), Some(Metric::Scalar { value: 0.0 }))];
        let metrics = metrics.into_iter().filter_map(|(name, metric)| Some((name, metric?))).collect();
        let runs = vec![run("appease", Outcome::Ok, metrics), run("scx_flash", Outcome::Evicted, BTreeMap::new())];
        let trimmed = text(&[Report { scenario: "typing".into(), runs }])
            .lines()
            .map(|l| l.trim_end().to_owned() + "\n")
            .collect::<String>();
        insta::assert_snapshot!(trimmed, @r"
        typing  (distributions: p50 / p90 / max)
         scheduler  load     outcome  key_to_screen_ms  video_dropped_pct
         appease    hogs:16  ok       0.19 / 104 / 104                  0
         scx_flash  hogs:16  evicted                 –                  –
        scx_flash at hogs:16: evicted
            sched_ext: runnable task stall
            last line
        ");
    }
}
