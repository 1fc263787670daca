//! The command line as people write it.

use std::path::{Path, PathBuf};

use appease_engine::config::{BackendKind, Options, Policy, RUN_DIR};
use clap::{Parser, Subcommand, ValueEnum};

/// Runs what somebody is waiting for, longest kept waiting first.
#[derive(Debug, Parser)]
#[command(name = "appease", version, arg_required_else_help = true)]
pub struct Args {
    /// Directory of the daemon's lock and control socket.
    #[arg(long, global = true, value_name = "DIR", default_value = RUN_DIR, hide_short_help = true)]
    pub run_dir: PathBuf,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Schedule this machine until interrupted; needs root.
    Run(Box<Run>),
    /// What the running daemon does: lanes, attended processes, counters.
    Status {
        /// For programs.
        #[arg(long)]
        json: bool,
    },
    /// Why a process runs in its lane: who waits for it, and how that is known.
    Why {
        /// The process, or one of its threads.
        pid: u32,
        /// For programs.
        #[arg(long)]
        json: bool,
    },
    /// What this kernel offers, and why something is off.
    Doctor,
    /// Write man pages and shell completions into a directory.
    #[command(hide = true)]
    Generate {
        /// The directory; made when it is missing.
        dir: PathBuf,
    },
}

/// Options of `appease run`; times have their units in their names.
#[derive(Debug, clap::Args)]
pub struct Run {
    /// Order of the attended lane.
    #[arg(long, value_enum, default_value_t)]
    pub policy: PolicyArg,
    /// What acts on the CPU.
    #[arg(long, value_enum, default_value_t)]
    pub backend: BackendArg,
    /// Longest turn of a task, microseconds.
    #[arg(long, value_name = "N", default_value_t = defaults().slice_us)]
    pub slice_us: u64,
    /// Print the lanes' shares every S seconds.
    #[arg(long, value_name = "S")]
    pub stats: Option<f64>,
    /// Schedule only processes that ask for it (SCHED_EXT).
    #[arg(long)]
    pub partial: bool,
    /// Length of the kernel's debug dump after an ejection, bytes; 0: its default.
    #[arg(long, value_name = "N", default_value_t = defaults().exit_dump_len)]
    pub exit_dump_len: u32,
    /// More messages; twice for libbpf's too.
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// CPU time of a turn lent at a wake-up, microseconds.
    #[arg(long, value_name = "N", default_value_t = defaults().loan_us, help_heading = "Tuning")]
    pub loan_us: u64,
    /// CPU time after which a request is batch work, milliseconds.
    #[arg(long, value_name = "N", default_value_t = defaults().budget_ms, help_heading = "Tuning")]
    pub budget_ms: u64,
    /// How long attention lasts, milliseconds.
    #[arg(long, value_name = "N", default_value_t = defaults().attention_ms, help_heading = "Tuning")]
    pub attention_ms: u64,
    /// How long who served a request is lent turns at wake-ups, milliseconds.
    #[arg(long, value_name = "N", default_value_t = defaults().retention_ms, help_heading = "Tuning")]
    pub retention_ms: u64,
    /// Hops after which attention is not handed on.
    #[arg(long, value_name = "N", default_value_t = defaults().max_hops, help_heading = "Tuning")]
    pub max_hops: u32,
    /// Share of each epoch that the other lane has for certain, percent.
    #[arg(long, value_name = "N", default_value_t = defaults().other_share_pct, help_heading = "Tuning")]
    pub other_share_pct: u32,
    /// Length of an epoch, milliseconds.
    #[arg(long, value_name = "N", default_value_t = defaults().epoch_ms, help_heading = "Tuning")]
    pub epoch_ms: u64,
    /// A task of the other lane that waits longer than this runs next, milliseconds.
    #[arg(long, value_name = "N", default_value_t = defaults().longest_wait_ms, help_heading = "Tuning")]
    pub longest_wait_ms: u64,
}

/// Policies by name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum PolicyArg {
    /// The request with the most unhappiness first.
    #[default]
    Appease,
}

/// Backends by name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum BackendArg {
    /// The best that the kernel offers.
    #[default]
    Auto,
    /// sched_ext.
    Scx,
}

fn defaults() -> Options {
    Options::default()
}

impl Run {
    /// As the engine wants them, not validated yet.
    pub fn options(&self, run_dir: &Path) -> Options {
        Options {
            policy: match self.policy {
                PolicyArg::Appease => Policy::Appease,
            },
            backend: match self.backend {
                BackendArg::Auto => BackendKind::Auto,
                BackendArg::Scx => BackendKind::Scx,
            },
            slice_us: self.slice_us,
            loan_us: self.loan_us,
            budget_ms: self.budget_ms,
            attention_ms: self.attention_ms,
            retention_ms: self.retention_ms,
            max_hops: self.max_hops,
            other_share_pct: self.other_share_pct,
            epoch_ms: self.epoch_ms,
            longest_wait_ms: self.longest_wait_ms,
            stats: self.stats,
            partial: self.partial,
            exit_dump_len: self.exit_dump_len,
            run_dir: run_dir.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn without_flags_the_defaults_hold() {
        let args = Args::parse_from(["appease", "run"]);
        let Command::Run(run) = &args.command else { panic!("not run") };
        assert_eq!(run.options(&args.run_dir), Options::default());
    }

    #[test]
    fn an_unknown_policy_is_told_the_known_ones() {
        let error = Args::try_parse_from(["appease", "run", "--policy", "cfs"]).expect_err("unknown").to_string();
        insta::assert_snapshot!(error, @r"
        error: invalid value 'cfs' for '--policy <POLICY>'
          [possible values: appease]

        For more information, try '--help'.
        ");
    }
}
