//! The `appease` command: `run` is the daemon; `status` and `why` ask it over its control socket; `doctor`
//! examines the machine.
#![forbid(unsafe_code)]

mod args;
mod doctor;
mod generate;
mod logging;
mod status;
mod units;
mod why;

use std::{
    io::{self, ErrorKind, Write},
    path::Path,
    process::ExitCode,
};

use anyhow::{Context, Result};
use appease_engine::{config::Config, control::Client, daemon};
use clap::Parser;
use serde::Serialize;

use args::{Args, Command};

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("appease: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<ExitCode> {
    let run_dir = &args.run_dir;
    match &args.command {
        Command::Run(run) => {
            let config = Config::new(&run.options(run_dir))?;
            logging::start(run.verbose);
            daemon::run(&config)?;
        }
        Command::Status { json } => {
            let status = connect(run_dir)?.status()?;
            print(&if *json { to_json(&status)? } else { status::text(&status) })?;
        }
        Command::Why { pid, json } => {
            let why = connect(run_dir)?.why(*pid)?;
            print(&if *json { to_json(&why)? } else { why::text(&why) })?;
        }
        Command::Doctor => {
            let findings = appease_engine::doctor::examine(run_dir);
            print(&doctor::text(&findings))?;
            return Ok(doctor::verdict(&findings));
        }
        Command::Generate { dir } => generate::all(dir)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn connect(run_dir: &Path) -> Result<Client> {
    Ok(Client::connect(&Config::socket(run_dir))?)
}

fn to_json(value: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string_pretty(value).context("writing JSON")? + "\n")
}

/// Prints; whoever reads may have had enough (`appease status | head`).
fn print(text: &str) -> Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("writing to standard output"),
        _ => Ok(()),
    }
}
