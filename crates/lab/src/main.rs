//! The `appease-lab` command.
#![forbid(unsafe_code)]

use std::{
    io::{ErrorKind, Write},
    process::ExitCode,
};

use anyhow::{Context, Result};
use appease_lab::{
    bench,
    cli::{BuildArgs, Cli, Command, ReportArgs, RunArgs},
    demo,
    fleet::{self, Images},
    host::{Interrupt, Layout, Steps},
    peers,
    plan::{self, Plan},
    report, scheduler, shell,
    store::Store,
    table,
};
use appease_scenario::{Outcome, Report, Scenario};
use clap::Parser;

/// Ended by a signal, as shells tell it.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let interrupt = match Interrupt::install() {
        Ok(interrupt) => interrupt,
        Err(error) => return fail(&error),
    };
    match run(cli, &interrupt) {
        Ok(code) => code,
        Err(_) if interrupt.is_set() => {
            eprintln!("appease-lab: interrupted; no machine is left running");
            ExitCode::from(INTERRUPTED)
        }
        Err(error) => fail(&error),
    }
}

fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("appease-lab: {error:#}");
    ExitCode::FAILURE
}

fn run(cli: Cli, interrupt: &Interrupt) -> Result<ExitCode> {
    let layout = Layout::find()?;
    let steps = Steps::default();
    let store = Store::new(&layout, interrupt, &steps);
    match cli.command {
        Command::Build(args) => build(&layout, &store, &args)?,
        Command::List => print(&list(&layout)?)?,
        Command::Run(args) => return measure(&layout, &store, &args, interrupt),
        Command::Shell(args) => shell::shell(&layout, &store, &args)?,
        Command::Peers(args) => peers::build(&layout, &args.names, &steps)?,
        Command::Bench(args) => bench::run(&layout, &store, &args, interrupt)?,
        Command::Demo(args) => print(&demo::run(&layout, &store, &args, interrupt)?)?,
        Command::Report(ReportArgs { files, out }) => report::write_html(&report::read(&files)?, &out)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn build(layout: &Layout, store: &Store, args: &BuildArgs) -> Result<()> {
    let names =
        if args.scenarios.is_empty() { plan::scenario_names(&layout.scenarios()) } else { args.scenarios.clone() };
    let scenarios = names.iter().map(|name| plan::scenario(layout, name)).collect::<Result<Vec<Scenario>>>()?;
    let scenarios: Vec<&Scenario> = scenarios.iter().collect();
    let images = Images::build(layout, store, &scenarios, &args.kernel, args.update)?;
    for wanted in &args.kernel {
        eprintln!("kernel {wanted}: {}", images.kernel(wanted)?.release);
    }
    Ok(())
}

fn list(layout: &Layout) -> Result<String> {
    let mut text = String::new();
    for name in plan::scenario_names(&layout.scenarios()) {
        let scenario = plan::scenario(layout, &name)?;
        let loads: Vec<String> = scenario.loads.iter().map(ToString::to_string).collect();
        text += &format!("{name:<15} {}\n{:<15} loads: {}\n", scenario.summary, "", loads.join(" "));
    }
    let built = |name: &&str| layout.peer(name).is_file();
    let peers: Vec<&str> = scheduler::PEERS.iter().filter(|name| built(name)).copied().collect();
    let peers = if peers.is_empty() { "none yet (run `appease-lab peers`)".into() } else { peers.join(" ") };
    Ok(text + &format!("schedulers: {}; peers built: {peers}\n", scheduler::OURS.join(" ")))
}

/// Prints; whoever reads may have had enough (`appease-lab list | head`).
fn print(text: &str) -> Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("write to standard output"),
        _ => Ok(()),
    }
}

fn measure(layout: &Layout, store: &Store, args: &RunArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    let plan = Plan::new(layout, args)?;
    let reports = fleet::run(layout, store, &plan, interrupt, args.verbose)?;
    let document = match reports.as_slice() {
        [report] => serde_json::to_string_pretty(report)?,
        reports => serde_json::to_string_pretty(reports)?,
    };
    if let Some(path) = &args.out {
        std::fs::write(path, format!("{document}\n")).with_context(|| format!("write {}", path.display()))?;
    }
    let shown = if args.json { format!("{document}\n") } else { table::text(&reports) };
    print(&shown)?;
    Ok(if reports.iter().any(any_failed) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn any_failed(report: &Report) -> bool {
    report.runs.iter().any(|run| run.outcome == Outcome::Failed)
}
