//! The command line as people write it.

use std::path::{Path, PathBuf};

use appease_engine::{
    config::{BackendKind, CONFIG_FILE, ClockWhen, Options, Policy, RUN_DIR},
    control::ChannelWords,
};
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
    /// How long customers wait: response times and unhappiness, by customer and channel. Root sees all customers.
    Latency {
        /// For programs.
        #[arg(long)]
        json: bool,
        /// For collectors of metrics: OpenMetrics 1.0.0 text (application/openmetrics-text).
        #[arg(long, conflicts_with = "json")]
        openmetrics: bool,
    },
    /// Where customers reach this machine: list, add and remove.
    #[command(subcommand)]
    Channel(ChannelCommand),
    /// Have the daemon read its configuration anew; a wrong one changes nothing. Needs root.
    Reload,
    /// Have an X server serve the window with the keyboard focus first, until interrupted; needs no root, and no daemon.
    X11(X11),
    /// What this kernel offers, and why something is off.
    Doctor,
    /// Take back nice values and priorities that a daemon has left changed which was killed; needs root. The next "appease run" does so, too.
    Restore,
    /// Look up host names for the daemon, at a socket that is standard input: what appease-hosts.service runs.
    #[command(hide = true)]
    Hosts,
    /// Write man pages and shell completions into a directory.
    #[command(hide = true)]
    Generate {
        /// The directory; made when it is missing.
        dir: PathBuf,
    },
}

/// What to do with channels.
#[derive(Debug, Subcommand)]
pub enum ChannelCommand {
    /// All channels, with their hits and handlers.
    List {
        /// For programs.
        #[arg(long)]
        json: bool,
    },
    /// Add a channel until the daemon ends; needs root. For good, it goes into the configuration file.
    Add(AddChannel),
    /// Remove a channel until the daemon ends or its configuration is reloaded; needs root.
    Remove(RemoveChannel),
}

/// A new channel.
#[derive(Debug, clap::Args)]
pub struct AddChannel {
    /// Which operations open a request.
    #[arg(value_enum)]
    access: AccessArg,
    /// PATH of a device or FIFO, accept ADDRESS, connect ADDRESS, or class:NAME.
    ///
    /// ADDRESS is [udp:][HOST]:PORT for sockets that accept, [udp:]HOST[:PORT] for those that connect, with IPv6 addresses in
    /// brackets; unix:/PATH, or unix:@NAME for an abstract one. NAME is evdev, tty, mouse, joystick, hidraw or audio: all
    /// devices of a class. What is not there yet is waited for.
    #[arg(required = true, num_args = 1..=2, value_name = "WHAT")]
    what: Vec<String>,
    #[command(flatten)]
    who: WhoArgs,
    /// How much its requests count against those of other channels, 0.01 to 100 [default: 1].
    #[arg(long, value_name = "W", allow_negative_numbers = true)]
    weight: Option<String>,
}

/// Whose operations count: all of what is given must hold.
#[derive(Debug, clap::Args)]
struct WhoArgs {
    /// Only processes of this real user, by name or number.
    #[arg(long)]
    user: Option<String>,
    /// Only processes in this group, by name or number.
    #[arg(long)]
    group: Option<String>,
    /// Only processes in this cgroup or below, as in /proc/PID/cgroup.
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,
}

/// A channel that is there.
#[derive(Debug, clap::Args)]
pub struct RemoveChannel {
    /// The channel's id, or the words that it was added with.
    #[arg(required = true, num_args = 1..=3, value_name = "ID | ACCESS WHAT")]
    which: Vec<String>,
    #[command(flatten)]
    who: WhoArgs,
}

/// Operations by name.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum AccessArg {
    /// Successful reads.
    Read,
    /// Successful writes.
    Write,
    /// Either.
    Both,
}

/// How a channel is called.
#[derive(Debug, PartialEq, Eq)]
pub enum WhichChannel {
    /// By its number in the list.
    Id(u32),
    /// By words.
    Words(ChannelWords),
}

impl AddChannel {
    /// As the daemon wants them.
    pub fn words(&self) -> ChannelWords {
        let access = match self.access {
            AccessArg::Read => "read",
            AccessArg::Write => "write",
            AccessArg::Both => "both",
        };
        ChannelWords { weight: self.weight.clone(), ..self.who.words(access.into(), self.what.clone()) }
    }
}

impl RemoveChannel {
    /// As the daemon wants it.
    pub fn which(&self) -> WhichChannel {
        match self.which.split_first() {
            Some((first, [])) if let Ok(id) = first.parse() => WhichChannel::Id(id),
            Some((access, what)) => WhichChannel::Words(self.who.words(access.clone(), what.into())),
            None => WhichChannel::Words(ChannelWords::default()),
        }
    }
}

impl WhoArgs {
    fn words(&self, access: String, what: Vec<String>) -> ChannelWords {
        let (user, group, cgroup) = (self.user.clone(), self.group.clone(), self.cgroup.clone());
        ChannelWords { access, what, user, group, cgroup, weight: None }
    }
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
    /// Channels, and which built-in ones there are; read anew on SIGHUP and by "appease reload".
    #[arg(long, value_name = "FILE", long_help = config_help())]
    pub config: Option<PathBuf>,
    /// Longest turn of a task, microseconds.
    #[arg(long, value_name = "N", default_value_t = defaults().slice_us)]
    pub slice_us: u64,
    /// Have the service at this socket look up host names, instead of the daemon: it needs no network then.
    #[arg(long, value_name = "SOCKET")]
    pub hosts: Option<PathBuf>,
    /// Print the lanes' shares every S seconds.
    #[arg(long, value_name = "S")]
    pub stats: Option<f64>,
    /// Schedule only processes that ask for it (SCHED_EXT).
    #[arg(long)]
    pub partial: bool,
    /// Whether the clock of CPUs is asked for by what they run.
    #[arg(long, value_enum, default_value_t)]
    pub clock: ClockArg,
    /// Save power: what nobody waits for is kept on few CPUs, and raises no clock.
    #[arg(long)]
    pub power_save: bool,
    /// The fast CPUs of a machine that has slow ones, too, if the kernel does not tell or is to be overruled.
    #[arg(long, value_name = "LIST")]
    pub fast_cpus: Option<String>,
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
    /// The same for who reads a terminal itself, until something is printed, milliseconds.
    #[arg(long, value_name = "N", default_value_t = defaults().quiet_ms, help_heading = "Tuning")]
    pub quiet_ms: u64,
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
    /// How long a task may wait until the kernel's watchdog ejects the scheduler, milliseconds.
    #[arg(long, value_name = "N", default_value_t = defaults().watchdog_ms, help_heading = "Tuning")]
    pub watchdog_ms: u64,
    /// Ceiling of a handler's confidence.
    #[arg(long, value_name = "N", default_value_t = defaults().max_conf, help_heading = "Policy rsio")]
    pub max_conf: u32,
    /// Potential above which a cohandler is active; less than the ceiling.
    #[arg(long, value_name = "N", default_value_t = defaults().co_conf, help_heading = "Policy rsio")]
    pub co_conf: u32,
    /// Time without access to its channel after which a handler is none any more, milliseconds.
    #[arg(long, value_name = "N", default_value_t = defaults().sys_expire_ms, help_heading = "Policy rsio")]
    pub sys_expire_ms: u64,
    /// Who communicates with a handler this shortly before or after its activation is a cohandler, milliseconds.
    #[arg(long, value_name = "N", default_value_t = defaults().co_delta_ms, help_heading = "Policy rsio")]
    pub co_delta_ms: u64,
}

/// Options of `appease x11`.
#[derive(Debug, clap::Args)]
pub struct X11 {
    /// The display, such as :0 [default: that of $DISPLAY].
    #[arg(long, value_name = "NAME")]
    pub display: Option<String>,
    /// More messages.
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// Policies by name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum PolicyArg {
    /// The request with the most unhappiness first.
    #[default]
    Appease,
    /// Handlers and cohandlers of a channel, by confidence.
    Rsio,
    /// Whoever reads from a socket, by nice values that depend on the load; with --backend nice alone.
    Rbpe,
    /// Requests by their unhappiness times their weight, and the unhappiest process of each first.
    Cas,
    /// Nobody first: steady progress for all, by nice value and cpu.weight.
    Steady,
}

/// When the clock of CPUs is asked for, by name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ClockArg {
    /// Where cpufreq's governor schedutil goes by it.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never: the governor then has the highest clock always.
    Never,
}

/// Backends by name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum BackendArg {
    /// The best that the kernel offers.
    #[default]
    Auto,
    /// sched_ext.
    Scx,
    /// Nice values and slices of the kernel's own scheduler: also where there is no sched_ext.
    Nice,
    /// None: only watch, for `status` and `why`; the kernel schedules as always.
    None,
}

fn config_help() -> String {
    format!(
        "Channels, and which built-in ones there are; read anew on SIGHUP and by \"appease reload\" \
         [default: {CONFIG_FILE}, which may be missing]"
    )
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
                PolicyArg::Rsio => Policy::Rsio,
                PolicyArg::Rbpe => Policy::Rbpe,
                PolicyArg::Cas => Policy::Cas,
                PolicyArg::Steady => Policy::Steady,
            },
            backend: match self.backend {
                BackendArg::Auto => BackendKind::Auto,
                BackendArg::Scx => BackendKind::Scx,
                BackendArg::Nice => BackendKind::Nice,
                BackendArg::None => BackendKind::None,
            },
            slice_us: self.slice_us,
            loan_us: self.loan_us,
            budget_ms: self.budget_ms,
            quiet_ms: self.quiet_ms,
            attention_ms: self.attention_ms,
            retention_ms: self.retention_ms,
            max_hops: self.max_hops,
            other_share_pct: self.other_share_pct,
            epoch_ms: self.epoch_ms,
            longest_wait_ms: self.longest_wait_ms,
            max_conf: self.max_conf,
            co_conf: self.co_conf,
            sys_expire_ms: self.sys_expire_ms,
            co_delta_ms: self.co_delta_ms,
            file: self.config.clone(),
            hosts: self.hosts.clone(),
            stats: self.stats,
            partial: self.partial,
            clock: match self.clock {
                ClockArg::Auto => ClockWhen::Auto,
                ClockArg::Always => ClockWhen::Always,
                ClockArg::Never => ClockWhen::Never,
            },
            power_save: self.power_save,
            watchdog_ms: self.watchdog_ms,
            fast_cpus: self.fast_cpus.clone(),
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
    fn a_channel_is_called_by_id_or_words() {
        let which = |args: &[&str]| {
            let args = Args::try_parse_from(["appease", "channel", "remove"].iter().chain(args)).expect("understood");
            let Command::Channel(ChannelCommand::Remove(remove)) = args.command else { panic!("not remove") };
            remove.which()
        };
        assert_eq!(which(&["7"]), WhichChannel::Id(7));
        let words = ChannelWords {
            access: "read".into(),
            what: vec!["accept".into(), ":22".into()],
            user: Some("alice".into()),
            ..ChannelWords::default()
        };
        assert_eq!(which(&["read", "accept", ":22", "--user", "alice"]), WhichChannel::Words(words));
    }

    #[test]
    fn an_unknown_policy_is_told_the_known_ones() {
        let error = Args::try_parse_from(["appease", "run", "--policy", "cfs"]).expect_err("unknown").to_string();
        insta::assert_snapshot!(error, @r"
        error: invalid value 'cfs' for '--policy <POLICY>'
          [possible values: appease, rsio, rbpe, cas, steady]

          tip: a similar value exists: 'cas'

        For more information, try '--help'.
        ");
    }
}
