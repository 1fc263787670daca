//! The demonstration: typing, a command and a video at once beside hogs, under the kernel's own scheduler and under
//! appease; a table of both with ratios, a report, and a picture of each screen.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use appease_scenario::{Load, Metric, Outcome, Report, Run};

use crate::{
    cli::{DemoArgs, RunArgs},
    fleet,
    host::{Interrupt, Layout},
    plan::Plan,
    report::{
        self, Picture,
        names::{self, figure, ratio, times},
    },
    store::Store,
};

const SCENARIO: &str = "together";
const FIRST: &str = "eevdf";
const SECOND: &str = "appease";
const LOAD: Load = Load::Hogs(16);

/// Runs it, and leaves result, report and pictures in the folder that `args` names. Returns what to tell people.
///
/// # Errors
/// When a run cannot be made, or ended otherwise than well; the report is written all the same.
pub fn run(layout: &Layout, store: &Store, args: &DemoArgs, interrupt: &Interrupt) -> anyhow::Result<String> {
    let out = &args.out;
    fs::create_dir_all(out).with_context(|| format!("create {} for the demonstration", out.display()))?;
    let plan = Plan::new(layout, &run_args(args)?)?;
    let pictures: Vec<Option<PathBuf>> = plan.runs.iter().map(|run| run.screenshot.clone()).collect();
    for old in pictures.iter().flatten().filter(|path| path.exists()) {
        fs::remove_file(old).with_context(|| format!("remove the old picture {}", old.display()))?;
    }
    let reports = fleet::run(layout, store, &plan, interrupt, false)?;
    let [report] = reports.as_slice() else { bail!("{SCENARIO}: {} result documents instead of one", reports.len()) };

    let json = out.join("together.json");
    fs::write(&json, serde_json::to_string_pretty(report)? + "\n")
        .with_context(|| format!("write {}", json.display()))?;
    let shown: Vec<Picture> = report
        .runs
        .iter()
        .zip(&pictures)
        .filter_map(|(run, path)| Some((run, fs::read(path.as_ref()?).ok()?)))
        .map(|(run, png)| Picture {
            caption: format!("{SCENARIO} at {LOAD} under {}", names::scheduler(&run.scheduler)),
            png,
        })
        .collect();
    let html = out.join("report.html");
    report::write_html_with(&reports, &shown, &html)?;

    let mut text = comparison(report, FIRST, SECOND)?;
    writeln!(text, "\nreport   {}\nresults  {}", html.display(), json.display())?;
    for path in pictures.iter().flatten().filter(|path| path.exists()) {
        writeln!(text, "screen   {}", relative(path).display())?;
    }
    if let Some(bad) = report.runs.iter().find(|run| run.outcome != Outcome::Ok) {
        bail!("{text}\n{} {}: {}", bad.scheduler, names::ending(bad), bad.detail);
    }
    Ok(text)
}

fn run_args(args: &DemoArgs) -> anyhow::Result<RunArgs> {
    Ok(RunArgs {
        scenarios: vec![SCENARIO.into()],
        under: vec![FIRST.parse()?, SECOND.parse()?],
        same_boot: false,
        load: vec![LOAD],
        kernel: vec![args.kernel.clone()],
        machine: args.machine.clone(),
        layout: args.layout.clone(),
        json: false,
        out: None,
        jobs: None,
        short: args.short,
        rounds: None,
        seed: 1,
        duration: None,
        settle: None,
        screenshots: Some(args.out.clone()),
        trace: None,
        time_limit: None,
        verbose: false,
    })
}

/// As seen from the working directory, where it lies below that.
fn relative(path: &Path) -> &Path {
    std::env::current_dir().ok().and_then(|here| path.strip_prefix(here).ok()).unwrap_or(path)
}

/// One line of the table: what, under the first scheduler, under the second, ratio.
type Row = [String; 4];

/// `first` and `second` side by side, one table for each load, kernel and machine at which both were run.
///
/// # Errors
/// When the report has no run of one of them, or none that can be compared.
pub fn comparison(report: &Report, first: &str, second: &str) -> anyhow::Result<String> {
    for wanted in [first, second] {
        if !report.runs.iter().any(|run| run.scheduler == wanted) {
            bail!("scenario {}: there is no run under {wanted} to compare", report.scenario);
        }
    }
    let pairs: Vec<(&Run, &Run)> = report
        .runs
        .iter()
        .filter(|run| run.scheduler == first)
        .filter_map(|one| {
            Some((one, report.runs.iter().find(|other| other.scheduler == second && comparable(one, other))?))
        })
        .collect();
    if pairs.is_empty() {
        bail!("scenario {}: {first} and {second} were not run at the same load on the same machine", report.scenario);
    }
    let mut text = String::new();
    for (one, other) in pairs {
        if !text.is_empty() {
            text.push('\n');
        }
        table(&mut text, &report.scenario, one, other).context("lay out the table")?;
    }
    Ok(text)
}

fn comparable(one: &Run, other: &Run) -> bool {
    // A run that did not boot does not know its kernel.
    let same_kernel = one.kernel == other.kernel || one.kernel.is_empty() || other.kernel.is_empty();
    one.load == other.load && one.machine == other.machine && same_kernel
}

fn table(text: &mut String, scenario: &str, one: &Run, other: &Run) -> std::fmt::Result {
    let kernel = if one.kernel.is_empty() { &other.kernel } else { &one.kernel };
    let load = if one.load == Load::None { "without load".to_owned() } else { format!("at {}", one.load) };
    writeln!(text, "{scenario} {load}, kernel {kernel}, {}", names::machine(one.machine))?;
    let mut rows: Vec<Row> =
        vec![["".into(), names::scheduler(&one.scheduler), names::scheduler(&other.scheduler), "ratio".into()]];
    let mut metrics: Vec<&str> = one.metrics.keys().chain(other.metrics.keys()).map(String::as_str).collect();
    metrics.retain(|name| !names::is_of_host(name));
    metrics.sort_by_key(|name| (names::is_cost(name), names::rank(name)));
    metrics.dedup();
    for name in metrics {
        add_rows(&mut rows, name, one.metrics.get(name), other.metrics.get(name));
    }
    let widths: Vec<usize> =
        (0..4).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    for [what, left, right, ratio] in &rows {
        let line =
            format!("  {what:<0$}  {left:>1$}  {right:>2$}  {ratio:>3$}", widths[0], widths[1], widths[2], widths[3]);
        writeln!(text, "{}", line.trim_end())?;
    }
    for run in [one, other].into_iter().filter(|run| run.outcome != Outcome::Ok) {
        let reason = run.detail.lines().next().unwrap_or("no reason given");
        writeln!(text, "  {}: {}: {reason}", names::scheduler(&run.scheduler), names::ending(run))?;
    }
    Ok(())
}

fn add_rows(rows: &mut Vec<Row>, name: &str, one: Option<&Metric>, other: Option<&Metric>) {
    let unit = names::unit(name);
    let head = if unit.is_empty() { names::title(name) } else { format!("{}, {unit}", names::title(name)) };
    let spread = [one, other].into_iter().flatten().any(|metric| matches!(metric, Metric::Distribution(_)));
    let parts: &[&str] = if spread { &["median", "p90", "largest"] } else { &[""] };
    for (i, label) in parts.iter().enumerate() {
        let what = match (i, label.is_empty()) {
            (_, true) => head.clone(),
            (0, false) => format!("{head}: {label}"),
            (_, false) => format!("{:>1$}", label, head.chars().count() + 2 + label.chars().count()),
        };
        let (left, right) = (one.map(|metric| part(metric, i)), other.map(|metric| part(metric, i)));
        let shown = |value: Option<f64>| value.map_or_else(|| "–".into(), figure);
        let by = left.zip(right).and_then(|(left, right)| ratio(right, left));
        rows.push([what, shown(left), shown(right), times(by)]);
    }
}

/// Median, p90 or largest; a single figure is each of them.
fn part(metric: &Metric, which: usize) -> f64 {
    match metric {
        Metric::Distribution(summary) => [summary.p50, summary.p90, summary.max][which],
        Metric::Scalar { value } => *value,
    }
}

#[cfg(test)]
mod tests {
    use appease_scenario::{Machine, Mode, Summary};
    use insta::assert_snapshot;

    use super::*;

    /// Invented figures, for the layout only.
    fn run(scheduler: &str, keys: &[f64], dropped: f64) -> Run {
        let metrics = [
            ("key_to_screen_ms", Summary::of(keys).map(Metric::Distribution)),
            ("video_dropped_pct", Some(Metric::Scalar { value: dropped })),
        ];
        Run {
            scheduler: scheduler.into(),
            load: Load::Hogs(16),
            kernel: "1.2.3-test".into(),
            machine: Machine::plain(Mode::Exact, 1),
            outcome: Outcome::Ok,
            detail: String::new(),
            metrics: metrics.into_iter().filter_map(|(name, metric)| Some((name.to_owned(), metric?))).collect(),
        }
    }

    #[test]
    fn two_columns_with_ratios() -> anyhow::Result<()> {
        let runs = vec![run("eevdf", &[1.0, 2.0, 8.0], 50.0), run("appease", &[0.5, 0.5, 1.0], 0.0)];
        let report = Report { scenario: "test".into(), runs };
        assert_snapshot!(comparison(&report, "eevdf", "appease")?, @r"
        test at hogs:16, kernel 1.2.3-test, exact mode, 1 CPU, all in one cgroup
                                                   EEVDF  appease   ratio
          Key press to screen update, ms: median    2.00     0.50  0.25 ×
                                          p90       8.00     1.00  0.12 ×
                                          largest   8.00     1.00  0.12 ×
          Video frames dropped, %                   50.0        0     0 ×
        ");
        Ok(())
    }

    #[test]
    fn a_run_without_figures_shows_its_reason() -> anyhow::Result<()> {
        let mut ejected = run("appease", &[], 0.0);
        ejected.metrics.clear();
        ejected.outcome = Outcome::Evicted;
        ejected.detail = "runnable task stall\nmore".into();
        let report = Report { scenario: "test".into(), runs: vec![run("eevdf", &[1.0], 2.0), ejected] };
        assert_snapshot!(comparison(&report, "eevdf", "appease")?, @r"
        test at hogs:16, kernel 1.2.3-test, exact mode, 1 CPU, all in one cgroup
                                                   EEVDF  appease  ratio
          Key press to screen update, ms: median    1.00        –      –
                                          p90       1.00        –      –
                                          largest   1.00        –      –
          Video frames dropped, %                   2.00        –      –
          appease: ejected by the kernel: runnable task stall
        ");
        Ok(())
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let mut other = run("appease", &[1.0], 0.0);
        let alone = Report { scenario: "test".into(), runs: vec![run("eevdf", &[1.0], 0.0)] };
        other.load = Load::None;
        let apart = Report { scenario: "test".into(), runs: vec![run("eevdf", &[1.0], 0.0), other] };
        let errors: Vec<String> = [alone, apart]
            .iter()
            .filter_map(|report| comparison(report, "eevdf", "appease").err())
            .map(|error| error.to_string())
            .collect();
        assert_snapshot!(errors.join("\n"), @r"
        scenario test: there is no run under appease to compare
        scenario test: eevdf and appease were not run at the same load on the same machine
        ");
    }
}
