//! The command line, as it is typed.

use std::{num::NonZeroU32, path::PathBuf};

use appease_scenario::{Grouping, Load, Mode};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::{debian::Wanted, scheduler::Scheduler};

/// Measures schedulers in virtual machines: real kernel, X server and applications.
#[derive(Debug, Parser)]
#[command(name = "appease-lab", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Build the images that scenarios need, or all
    Build(BuildArgs),
    /// List scenarios, schedulers and loads
    List,
    /// Run scenarios and print what they measured
    Run(RunArgs),
    /// Open a shell in a machine; Ctrl-A x ends it
    Shell(ShellArgs),
    /// Build the peer schedulers with cargo
    Peers(PeersArgs),
    /// Write an HTML report from result files
    Report(ReportArgs),
    /// Run the league of schedulers, and write its table and report; goes on where it was interrupted
    Bench(BenchArgs),
    /// Run everything at once under eevdf and under appease, and show both side by side
    Demo(DemoArgs),
}

/// How a machine counts time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ModeName {
    /// An executed instruction is a nanosecond; several CPUs share the clock, so N busy ones have a N-th of the speed each
    Exact,
    /// Several CPUs in host time: only ratios and order mean something
    Parallel,
}

impl From<ModeName> for Mode {
    fn from(name: ModeName) -> Self {
        match name {
            ModeName::Exact => Self::Exact,
            ModeName::Parallel => Self::Parallel,
        }
    }
}

/// How programs are put into cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LayoutName {
    /// All in the root group
    Flat,
    /// Each application, session and load in a group of its own below slices, as systemd puts them
    Scopes,
    /// The same, each of the load's processes in a group of its own
    ScopesMany,
    /// The same, the load in the group of the first application
    ScopesShared,
}

impl From<LayoutName> for Grouping {
    fn from(name: LayoutName) -> Self {
        match name {
            LayoutName::Flat => Self::Flat,
            LayoutName::Scopes => Self::Scopes,
            LayoutName::ScopesMany => Self::ScopesMany,
            LayoutName::ScopesShared => Self::ScopesShared,
        }
    }
}

impl From<Grouping> for LayoutName {
    fn from(grouping: Grouping) -> Self {
        match grouping {
            Grouping::Flat => Self::Flat,
            Grouping::Scopes => Self::Scopes,
            Grouping::ScopesMany => Self::ScopesMany,
            Grouping::ScopesShared => Self::ScopesShared,
        }
    }
}

/// Arguments of `build`.
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// Scenarios (names or files); all when there is none
    pub scenarios: Vec<String>,
    /// Kernels: default, a series (6.18) or a version (6.18.15)
    #[arg(long, value_delimiter = ',', default_value = "default")]
    pub kernel: Vec<Wanted>,
    /// Choose kernels anew: the newest that the archive has today
    #[arg(long)]
    pub update: bool,
}

/// What kind of machine.
#[derive(Debug, Clone, Default, Args)]
pub struct MachineArgs {
    /// How the machine counts time [default: exact, for a shell parallel]
    #[arg(long, value_enum)]
    pub mode: Option<ModeName>,
    /// CPUs of the machine, 1 to 240; beyond 64, an exact machine takes hours to boot [default: 1 in exact mode, 2 in parallel mode]
    #[arg(long, value_name = "N")]
    pub cpus: Option<u32>,
    /// Last-level caches of the machine, each shared by as many CPUs [default: 1]
    #[arg(long, value_name = "N")]
    pub caches: Option<u32>,
    /// CPUs of each core, 1 or 2 [default: 1]
    #[arg(long, value_name = "N")]
    pub threads: Option<u32>,
    /// NUMA nodes of the machine, each with as many caches [default: 1]
    #[arg(long, value_name = "N")]
    pub nodes: Option<u32>,
}

/// How programs are placed on the machine.
#[derive(Debug, Clone, Default, Args)]
pub struct LayoutArgs {
    /// How programs are put into cgroups [default: scopes, but where the scenario says flat]
    #[arg(long, value_enum)]
    pub layout: Option<LayoutName>,
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Scenarios: names, or files
    #[arg(required = true)]
    pub scenarios: Vec<String>,
    /// Schedulers; with a mix of the scenario's classes and nice values, SCHEDULER+MIX
    #[arg(long, value_delimiter = ',', default_value = "eevdf,appease")]
    pub under: Vec<Scheduler>,
    /// Run all schedulers one after another in one machine: for parallel mode, where two boots hardly compare
    #[arg(long, conflicts_with = "screenshots")]
    pub same_boot: bool,
    /// Loads: none, all, hogs:N, idle:N, build:N, users:N [default: those of the scenario]
    #[arg(long, value_delimiter = ',')]
    pub load: Vec<Load>,
    /// Kernels: default, a series (6.18) or a version (6.18.15)
    #[arg(long, value_delimiter = ',', default_value = "default")]
    pub kernel: Vec<Wanted>,
    /// The machine.
    #[command(flatten)]
    pub machine: MachineArgs,
    /// The layout.
    #[command(flatten)]
    pub layout: LayoutArgs,
    /// Print the result document on standard output; several scenarios make an array of documents
    #[arg(long)]
    pub json: bool,
    /// Write the result document to a file, too
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Machines at a time [default: one for each processor, as memory allows]
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Run the short form, as tests do
    #[arg(long)]
    pub short: bool,
    /// How often a scenario with rounds goes through them [default: the scenario's]
    #[arg(long, value_name = "N")]
    pub rounds: Option<NonZeroU32>,
    /// Where the random numbers of a scenario with rounds begin
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Length of the measured part, virtual seconds [default: the scenario's]; typists and clips go on as long
    #[arg(long, value_name = "SECONDS")]
    pub duration: Option<f64>,
    /// Virtual seconds between the start of the load and the measured part [default: the scenario's]; policy rbpe goes by the load
    /// of the last minute
    #[arg(long, value_name = "SECONDS")]
    pub settle: Option<f64>,
    /// Save a picture of each machine's screen here
    #[arg(long, value_name = "DIR")]
    pub screenshots: Option<PathBuf>,
    /// Save here what the CPUs did while the slowest and the middle keys of each run were answered: wake-ups, kicks, switches
    #[arg(long, value_name = "DIR")]
    pub trace: Option<PathBuf>,
    /// Host seconds after which a run is given up; a machine of several runs has as many times that [default: by its length]
    #[arg(long, value_name = "SECONDS")]
    pub time_limit: Option<u64>,
    /// Tell when each stage of a run is reached
    #[arg(long, short)]
    pub verbose: bool,
}

/// Arguments of `shell`.
#[derive(Debug, Args)]
pub struct ShellArgs {
    /// A scenario whose packages and clips shall be there
    pub scenario: Option<String>,
    /// Kernel: default, a series (6.18) or a version (6.18.15)
    #[arg(long, default_value = "default")]
    pub kernel: Wanted,
    /// The machine.
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Files for /run/tools, beside our own programs and the built peers
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub with: Vec<PathBuf>,
}

/// Arguments of `peers`.
#[derive(Debug, Args)]
pub struct PeersArgs {
    /// Crates [default: scx_bpfland scx_lavd scx_flash scx_cosmos]
    pub names: Vec<String>,
}

/// Arguments of `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Result files, as `run --json` writes them
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// The HTML file
    #[arg(long, short, value_name = "FILE")]
    pub out: PathBuf,
}

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Scenarios of the league [default: all]
    pub scenarios: Vec<String>,
    /// Run only what is under these schedulers; the table shows all that is there
    #[arg(long, value_delimiter = ',')]
    pub under: Vec<Scheduler>,
    /// Run only what is beside these loads
    #[arg(long, value_delimiter = ',')]
    pub load: Vec<Load>,
    /// Run only what is on these kernels, as bench/league.toml names them
    #[arg(long, value_delimiter = ',')]
    pub kernel: Vec<Wanted>,
    /// Run only what is in these layouts
    #[arg(long, value_enum, value_delimiter = ',')]
    pub layout: Vec<LayoutName>,
    /// Run only what is on machines of so many CPUs
    #[arg(long, value_delimiter = ',', value_name = "N")]
    pub cpus: Vec<u32>,
    /// The quick subset, in short form
    #[arg(long)]
    pub quick: bool,
    /// Short forms
    #[arg(long)]
    pub short: bool,
    /// Where results and report go [default: bench/results/league, or league-short, or quick]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Put the table into this file, too, between its marks
    #[arg(long, value_name = "FILE")]
    pub readme: Option<PathBuf>,
    /// Machines at a time [default: one for each processor, as memory allows]
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
}

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Where results, report and screenshots go
    #[arg(long, value_name = "DIR", default_value = "target/demo")]
    pub out: PathBuf,
    /// Kernel: default, a series (6.18) or a version (6.18.15)
    #[arg(long, default_value = "default")]
    pub kernel: Wanted,
    /// The machine.
    #[command(flatten)]
    pub machine: MachineArgs,
    /// The layout.
    #[command(flatten)]
    pub layout: LayoutArgs,
    /// Run the short form
    #[arg(long)]
    pub short: bool,
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::{Cli, Command};

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn lists_are_separated_by_commas() {
        let line =
            "appease-lab run typing --under eevdf,appease --load none,hogs:16,build:16 --kernel default,6.18 --json";
        let Ok(Cli { command: Command::Run(run) }) = Cli::try_parse_from(line.split(' ')) else {
            panic!("{line} is not understood");
        };
        assert_eq!((run.under.len(), run.load.len(), run.kernel.len()), (2, 3, 2));
    }

    #[test]
    fn unknown_names_are_refused() {
        for line in [
            "run typing --under cfs",
            "run typing --load hogs:many",
            "run typing --kernel seven",
            "run",
            "run typing --same-boot --screenshots .",
        ] {
            assert!(Cli::try_parse_from(format!("appease-lab {line}").split(' ')).is_err(), "{line}");
        }
    }
}
