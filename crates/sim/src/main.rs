//! `appease-sim`: runs scenarios, compares the paper's formulas with the simulation, and measures how costs grow.
#![forbid(unsafe_code)]

use std::{
    fs,
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use appease_scenario::Metric;
use appease_sim::{
    Outcome, Scenario, SchedulerName, Simulation, compare, report,
    scale::{self, Axis},
};
use clap::{Parser, Subcommand};
use comfy_table::{CellAlignment, Table, presets::NOTHING};
use serde_json::json;

/// Schedulers under simulated load, and the analysis of unhappiness.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a scenario file
    Run {
        /// The file
        file: PathBuf,
        /// Schedulers, instead of the file's: rr, mlfq, cfs, eevdf, rbpe, cas, appease, steady
        #[arg(long, value_name = "LIST", value_delimiter = ',')]
        under: Vec<SchedulerName>,
        /// Where random numbers begin, instead of where the file says
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
        /// Print a result document
        #[arg(long)]
        json: bool,
    },
    /// Compare eq. 6 to 27 with the simulation: a page, and its pictures
    Analysis {
        /// Where to put them
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Measure the cost of decisions and messages as tasks, customers and CPUs grow
    Scale {
        /// Where to put figures and pictures
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// About how many events to simulate for each figure
        #[arg(long, value_name = "N", default_value_t = 300_000, value_parser = clap::value_parser!(u64).range(1000..))]
        events: u64,
        /// What grows; "locks" are CPUs, with what they wait for each other at queues, under appease
        #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "tasks,customers,cpus,locks")]
        axes: Vec<Growing>,
        /// Schedulers, instead of all: rr, mlfq, cfs, eevdf, rbpe, cas, appease, steady
        #[arg(long, value_name = "LIST", value_delimiter = ',')]
        under: Vec<SchedulerName>,
    },
}

/// What `scale` measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Growing {
    Tasks,
    Customers,
    Cpus,
    Locks,
}

impl Growing {
    fn axis(self) -> Option<Axis> {
        match self {
            Self::Tasks => Some(Axis::Tasks),
            Self::Customers => Some(Axis::Customers),
            Self::Cpus => Some(Axis::Cpus),
            Self::Locks => None,
        }
    }
}

fn main() -> ExitCode {
    match run(&Args::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("appease-sim: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> Result<()> {
    match command {
        Command::Run { file, under, seed, json } => {
            let scenario = Scenario::read(file)?;
            let under = if under.is_empty() { &scenario.schedulers } else { under };
            let outcomes: Vec<Outcome> =
                under.iter().map(|&scheduler| Simulation::new(&scenario, scheduler, *seed).run()).collect();
            print(&if *json { document(&scenario, &outcomes)? } else { table(&scenario, &outcomes) })
        }
        Command::Analysis { out } => {
            let comparisons = compare::all();
            let mut files = report::report(&comparisons)?;
            files.push(figures("analysis.json", &comparisons)?);
            write(out, &files)
        }
        Command::Scale { out, events, axes, under } => measure(out, *events, axes, under),
    }
}

fn measure(out: &Path, events: u64, growing: &[Growing], under: &[SchedulerName]) -> Result<()> {
    let axes: Vec<Axis> = growing.iter().filter_map(|growing| growing.axis()).collect();
    let under = if under.is_empty() { &SchedulerName::ALL } else { under };
    let costs = scale::measure(&axes, under, events, |cost| {
        let (axis, size, scheduler) = (format!("{:?}", cost.axis), cost.size, cost.scheduler);
        eprintln!("{axis:>9} {size:>8} {scheduler:>8} {:>8.0} ns an event", cost.event_ns);
    })?;
    let mut files = scale::pictures(&costs)?;
    files.push(figures("scale.json", &costs)?);
    if growing.contains(&Growing::Locks) {
        let all = scale::measure_placing(events, |placing| {
            eprintln!(
                "{:>16} {:>8} {:>8.0} ns a decision, {:.0} on machines apart, {:.1} CPUs looked at ({} at most), {:.3} domains, {:.2} locks, \
                 {:.0} ns waited ({} at most)",
                format!("{:?}", placing.queues),
                placing.cpus,
                placing.decision_ns,
                placing.apart_ns,
                placing.cpu_looks,
                placing.most_cpu_looks,
                placing.domain_looks,
                placing.locked,
                placing.waited_ns,
                placing.longest_wait_ns,
            );
        })?;
        files.push(scale::picture_of_placing(&all)?);
        files.push(figures("scale-locks.json", &all)?);
    }
    write(out, &files)
}

fn figures(name: &str, figures: &impl serde::Serialize) -> Result<report::File> {
    let content = serde_json::to_string_pretty(figures).with_context(|| format!("writing {name}"))?;
    Ok(report::File { name: name.into(), content: content + "\n" })
}

fn write(dir: &Path, files: &[report::File]) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("making the directory {}", dir.display()))?;
    for file in files {
        let path = dir.join(&file.name);
        fs::write(&path, &file.content).with_context(|| format!("writing {}", path.display()))?;
        print(&format!("{}\n", path.display()))?;
    }
    Ok(())
}

/// As `appease-lab run --json` has it, where there is the same.
fn document(scenario: &Scenario, outcomes: &[Outcome]) -> Result<String> {
    let runs: Vec<_> = outcomes
        .iter()
        .map(|outcome| {
            json!({
                "scheduler": outcome.scheduler,
                "seed": outcome.seed,
                "machine": { "mode": "simulated", "cpus": outcome.cpus },
                "outcome": "ok",
                "counts": outcome.counts,
                "metrics": outcome.metrics(),
            })
        })
        .collect();
    Ok(serde_json::to_string_pretty(&json!({ "scenario": scenario.name, "runs": runs }))? + "\n")
}

/// A row for each metric, a column for each scheduler.
fn table(scenario: &Scenario, outcomes: &[Outcome]) -> String {
    let metrics: Vec<_> = outcomes.iter().map(Outcome::metrics).collect();
    let mut names: Vec<&String> = metrics.iter().flatten().map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(std::iter::once("metric").chain(outcomes.iter().map(|outcome| outcome.scheduler.as_str())));
    for name in names {
        let figures = metrics.iter().map(|metrics| match metrics.get(name) {
            Some(Metric::Distribution(of)) => format!("{} / {} / {}", figure(of.p50), figure(of.p99), figure(of.max)),
            Some(Metric::Scalar { value }) => figure(*value),
            None => "-".into(),
        });
        table.add_row(std::iter::once(name.clone()).chain(figures));
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    format!("{}  (distributions: p50 / p99 / max)\n{table}\n", scenario.name)
}

fn figure(value: f64) -> String {
    if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// A reader that has enough, such as `head`, is no error.
fn print(text: &str) -> Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("writing to standard output"),
        _ => Ok(()),
    }
}
