//! The `appease` command: `run` is the daemon; `status`, `why`, `latency`, `channel` and `reload` ask it over its control socket;
//! `x11` is the agent of an X display; `doctor` examines the machine.
#![forbid(unsafe_code)]

mod args;
mod channel;
mod doctor;
#[cfg(test)]
mod fuzz;
mod generate;
mod latency;
mod logging;
mod openmetrics;
mod status;
mod table;
mod units;
mod why;

use std::{
    io::{self, ErrorKind, Write},
    path::Path,
    process::ExitCode,
};

use anyhow::{Context, Result};
use appease_engine::{channel::Spec, config::Config, control::Client, daemon};
use clap::Parser;
use serde::Serialize;

use args::{Args, ChannelCommand, Command, WhichChannel};

/// The kernel ejected the scheduler once too often: the unit is not started again (`RestartPreventExitStatus`). `EX_UNAVAILABLE` of sysexits(3).
const STAYS_STOPPED: u8 = 69;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("appease: {error:#}");
            match error.downcast_ref() {
                Some(appease_engine::Error::EjectedTooOften { .. }) => ExitCode::from(STAYS_STOPPED),
                _ => ExitCode::FAILURE,
            }
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
        Command::Latency { json, openmetrics } => {
            let report = connect(run_dir)?.latency()?;
            print(&match (json, openmetrics) {
                (true, _) => to_json(&report)?,
                (_, true) => openmetrics::exposition(report)?,
                _ => latency::text(&report),
            })?;
        }
        Command::Channel(command) => print(&channel(command, run_dir)?)?,
        Command::Reload => print(&channel::reloaded(connect(run_dir)?.reload()?))?,
        Command::X11(x11) => {
            logging::start(x11.verbose);
            // The X server wakes it while it serves the first key after a pause. What the agent does has time until that is done.
            if let Err(error) = appease_engine::be_patient() {
                tracing::warn!("cannot become batch work: {error}; the agent delays the X server a little");
            }
            appease_x11::run(x11.display.as_deref())?;
        }
        Command::Doctor => {
            let findings = appease_engine::doctor::examine(run_dir);
            print(&doctor::text(&findings))?;
            return Ok(doctor::verdict(&findings));
        }
        Command::Restore => {
            let found = appease_engine::restore::run(run_dir)?;
            print(&format!("{found} threads have back what they had\n"))?;
        }
        Command::Hosts => appease_engine::resolver::run()?,
        Command::Generate { dir } => generate::all(dir)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Words that make no sense are refused here already, as the daemon would.
fn channel(command: &ChannelCommand, run_dir: &Path) -> Result<String> {
    match command {
        ChannelCommand::List { json } => {
            let list = connect(run_dir)?.channels()?;
            if *json { to_json(&list) } else { Ok(channel::list(&list)) }
        }
        ChannelCommand::Add(add) => {
            let words = add.words();
            Spec::parse(&words)?;
            Ok(channel::one("added", &connect(run_dir)?.add_channel(&words)?))
        }
        ChannelCommand::Remove(remove) => {
            let removed = match remove.which() {
                WhichChannel::Id(id) => connect(run_dir)?.remove_channel(id)?,
                WhichChannel::Words(words) => {
                    Spec::parse(&words)?;
                    connect(run_dir)?.remove_channel_by_words(&words)?
                }
            };
            Ok(channel::one("removed", &removed))
        }
    }
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
