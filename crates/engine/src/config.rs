//! Options as people give them ([`Options`]) and as the daemon uses them ([`Config`], validated).

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

pub use crate::channel::config::DEFAULT as CONFIG_FILE;
use crate::seams::{
    Clock, ConfidenceOptions, CustomerIs, SchedOptions, SenseOptions, cpus_of_list,
    features::{Features, Goal},
};
pub use crate::{clock::ClockWhen, seams::Policy};

/// Where the daemon keeps its lock and its control socket.
pub const RUN_DIR: &str = "/run/appease";

/// What acts on the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackendKind {
    /// The best that the kernel offers.
    #[default]
    Auto,
    /// sched_ext.
    Scx,
    /// Nice values and slices of the kernel's own scheduler.
    Nice,
    /// None: who serves whom is seen, and told; the kernel schedules as always.
    None,
}

impl BackendKind {
    /// What the kernel must offer for it.
    #[must_use]
    pub fn goal(self) -> Goal {
        match self {
            Self::Auto | Self::Scx => Goal::Schedule,
            Self::Nice => Goal::Renice,
            Self::None => Goal::Sense,
        }
    }

    /// The best that is there, for a policy, if none was named.
    #[must_use]
    pub fn choose(self, policy: Policy, features: &Features) -> Self {
        match self {
            Self::Auto if policy == Policy::Rbpe => Self::Nice,
            // Nothing else can do what it does: who starts it shall hear why it cannot be.
            Self::Auto if policy == Policy::Steady => Self::Scx,
            Self::Auto if !features.can_load_schedulers() => Self::Nice,
            Self::Auto => Self::Scx,
            named => named,
        }
    }

    /// What acts in the end.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Scx => "scx",
            Self::Nice => "nice",
            Self::None => "none",
        }
    }
}

/// Numbers as given; [`Config::new`] says which make sense.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Order of the attended lane.
    pub policy: Policy,
    /// What acts on the CPU.
    pub backend: BackendKind,
    /// Longest turn in the other lane, microseconds.
    pub slice_us: u64,
    /// Turn lent at a wake-up, microseconds.
    pub loan_us: u64,
    /// CPU time after which a request is batch work, milliseconds.
    pub budget_ms: u64,
    /// The same for who reads a terminal itself, until something is printed, milliseconds.
    pub quiet_ms: u64,
    /// How long attention lasts, milliseconds.
    pub attention_ms: u64,
    /// How long who served a request is lent a turn at its wake-ups, milliseconds.
    pub retention_ms: u64,
    /// Hops after which attention is not handed on.
    pub max_hops: u32,
    /// Share of each epoch that the other lane has for certain, percent.
    pub other_share_pct: u32,
    /// Length of an epoch, milliseconds.
    pub epoch_ms: u64,
    /// Longest wait of a runnable task, milliseconds.
    pub longest_wait_ms: u64,
    /// Policy rsio: ceiling of confidence.
    pub max_conf: u32,
    /// Policy rsio: potential above which a cohandler is active.
    pub co_conf: u32,
    /// Policy rsio: time without access after which a handler is none any more, milliseconds.
    pub sys_expire_ms: u64,
    /// Policy rsio: communication this near to an activation makes a cohandler, milliseconds.
    pub co_delta_ms: u64,
    /// The configuration file; `None`: [`CONFIG_FILE`], which may be missing.
    pub file: Option<PathBuf>,
    /// Seconds between two lines of statistics.
    pub stats: Option<f64>,
    /// Schedule only processes that ask for it (`SCHED_EXT`).
    pub partial: bool,
    /// When the clock of CPUs is asked for.
    pub clock: ClockWhen,
    /// What nobody waits for is kept on few CPUs, and raises no clock.
    pub power_save: bool,
    /// How long a task may wait until the kernel's watchdog ejects the scheduler, milliseconds.
    pub watchdog_ms: u64,
    /// The fast CPUs, as a list of their numbers; `None`: as the kernel tells.
    pub fast_cpus: Option<String>,
    /// Length of the kernel's debug dump after an ejection, bytes; 0 for the kernel's default.
    pub exit_dump_len: u32,
    /// The socket of the service that looks up host names; `None`: the daemon does that itself.
    pub hosts: Option<PathBuf>,
    /// Where lock and control socket are.
    pub run_dir: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        let (sense, sched) = (SenseOptions::default(), SchedOptions::default());
        let confidence = ConfidenceOptions::default();
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Self {
            policy: Policy::default(),
            backend: BackendKind::default(),
            slice_us: micros(sched.slice),
            loan_us: micros(sense.loan),
            budget_ms: millis(sense.budget),
            quiet_ms: millis(sense.quiet),
            attention_ms: millis(sense.attention),
            retention_ms: millis(sense.retention),
            max_hops: sense.max_hops,
            other_share_pct: sched.other_share_pct,
            epoch_ms: millis(sched.epoch),
            longest_wait_ms: millis(sched.longest_wait),
            max_conf: confidence.max_conf,
            co_conf: confidence.co_conf,
            sys_expire_ms: millis(confidence.sys_expire),
            co_delta_ms: millis(confidence.co_delta),
            file: None,
            stats: None,
            partial: sched.partial,
            clock: ClockWhen::default(),
            power_save: sched.packs,
            watchdog_ms: millis(sched.watchdog),
            fast_cpus: None,
            exit_dump_len: sched.exit_dump_len,
            hosts: None,
            run_dir: RUN_DIR.into(),
        }
    }
}

/// Validated options.
#[derive(Debug, Clone)]
pub struct Config {
    /// What acts on the CPU.
    pub backend: BackendKind,
    /// For the eyes.
    pub sense: SenseOptions,
    /// For the scheduler.
    pub sched: SchedOptions,
    /// When the clock of CPUs is asked for.
    pub clock: ClockWhen,
    /// The configuration file; `None`: [`CONFIG_FILE`], which may be missing.
    pub file: Option<PathBuf>,
    /// Time between two lines of statistics.
    pub stats: Option<Duration>,
    /// The socket of the service that looks up host names; `None`: the daemon does that itself.
    pub hosts: Option<PathBuf>,
    /// Where lock and control socket are.
    pub run_dir: PathBuf,
    /// Below which directory `/proc` and `/sys` are: `/` but in tests.
    pub root: PathBuf,
}

/// An option that makes no sense.
#[derive(Debug, thiserror::Error, PartialEq)]
#[error("--{option} is {given}: allowed is {allowed}")]
pub struct ConfigError {
    option: &'static str,
    given: String,
    allowed: String,
}

/// The kernel's default, and the most that it allows a scheduler (`SCX_WATCHDOG_MAX_TIMEOUT`).
const LONGEST_WATCHDOG_MS: u64 = 30_000;
/// Hops that fit into a record (`APPEASE_MAX_HOPS`).
const MAX_HOPS: u64 = 8;

impl Config {
    /// Validates `options`.
    ///
    /// # Errors
    /// Names the first option that makes no sense and what it may be.
    pub fn new(options: &Options) -> Result<Self, ConfigError> {
        let micros = |option, given, least, most| within(option, given, least, most).map(Duration::from_micros);
        let millis = |option, given, least, most| within(option, given, least, most).map(Duration::from_millis);
        let max_conf = within("max-conf", options.max_conf.into(), 1, 100)?;
        let confidence = ConfidenceOptions {
            max_conf: small(max_conf),
            // Above it, and still within the ceiling.
            co_conf: small(within("co-conf", options.co_conf.into(), 0, max_conf - 1)?),
            sys_expire: millis("sys-expire-ms", options.sys_expire_ms, 1, 600_000)?,
            co_delta: millis("co-delta-ms", options.co_delta_ms, 1, 1_000)?,
        };
        let sense = SenseOptions {
            budget: millis("budget-ms", options.budget_ms, 1, 600_000)?,
            quiet: millis("quiet-ms", options.quiet_ms, 1, 600_000)?,
            attention: millis("attention-ms", options.attention_ms, 1, 600_000)?,
            retention: millis("retention-ms", options.retention_ms, 0, 600_000)?,
            max_hops: small(within("max-hops", options.max_hops.into(), 1, MAX_HOPS)?),
            loan: micros("loan-us", options.loan_us, 0, 100_000)?,
            policy: options.policy,
            // Known when the backend is chosen.
            tells: false,
            confidence,
            // The configuration file says.
            customer_is: CustomerIs::default(),
            alpha_pm: 0,
        };
        let watchdog_ms = within("watchdog-ms", options.watchdog_ms, 1_000, LONGEST_WATCHDOG_MS)?;
        let sched = SchedOptions {
            slice: micros("slice-us", options.slice_us, 100, 100_000)?,
            other_share_pct: small(within("other-share-pct", options.other_share_pct.into(), 1, 90)?),
            epoch: millis("epoch-ms", options.epoch_ms, 10, 2_000)?,
            // A task that has waited for so long runs next, and that takes a while, too.
            longest_wait: millis("longest-wait-ms", options.longest_wait_ms, 10, watchdog_ms * 2 / 3)?,
            partial: options.partial,
            // Both known when it is attached.
            guards: false,
            clock: Clock::default(),
            packs: options.power_save,
            watchdog: Duration::from_millis(watchdog_ms),
            fast_cpus: options.fast_cpus.as_deref().map(fast_cpus).transpose()?,
            exit_dump_len: options.exit_dump_len,
        };
        if options.policy == Policy::Rbpe && !matches!(options.backend, BackendKind::Auto | BackendKind::Nice) {
            return Err(ConfigError {
                option: "backend",
                given: options.backend.name().into(),
                allowed: "nice or auto with --policy rbpe, which is one of nice values".into(),
            });
        }
        if options.policy == Policy::Steady && matches!(options.backend, BackendKind::Nice | BackendKind::None) {
            return Err(ConfigError {
                option: "backend",
                given: options.backend.name().into(),
                allowed: "scx or auto with --policy steady, which watches nobody whom others could serve".into(),
            });
        }
        if options.partial && options.backend == BackendKind::Nice {
            return Err(ConfigError {
                option: "backend",
                given: options.backend.name().into(),
                allowed: "scx with --partial, which is about processes that ask for SCHED_EXT".into(),
            });
        }
        for (option, is_given) in [("fast-cpus", options.fast_cpus.is_some()), ("power-save", options.power_save)] {
            if is_given && matches!(options.backend, BackendKind::Nice | BackendKind::None) {
                return Err(ConfigError {
                    option: "backend",
                    given: options.backend.name().into(),
                    allowed: format!("scx or auto with --{option}, which is about the CPUs that work is put on"),
                });
            }
        }
        let stats = options.stats.map(stats_period).transpose()?;
        Ok(Self {
            backend: options.backend,
            sense,
            sched,
            clock: options.clock,
            file: options.file.clone(),
            stats,
            hosts: options.hosts.clone(),
            run_dir: options.run_dir.clone(),
            root: "/".into(),
        })
    }

    /// The control socket of the daemon whose files are in `run_dir`.
    #[must_use]
    pub fn socket(run_dir: &Path) -> PathBuf {
        run_dir.join("control")
    }
}

fn within(option: &'static str, given: u64, least: u64, most: u64) -> Result<u64, ConfigError> {
    if (least..=most).contains(&given) {
        Ok(given)
    } else {
        Err(ConfigError { option, given: given.to_string(), allowed: format!("{least} to {most}") })
    }
}

/// Of a value that was checked to be small.
fn small(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn fast_cpus(list: &str) -> Result<Vec<usize>, ConfigError> {
    cpus_of_list(list).map_err(|allowed| ConfigError { option: "fast-cpus", given: list.into(), allowed })
}

fn stats_period(seconds: f64) -> Result<Duration, ConfigError> {
    if (0.1..=86_400.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(ConfigError { option: "stats", given: seconds.to_string(), allowed: "0.1 to 86400 seconds".into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid() {
        let config = Config::new(&Options::default()).expect("valid");
        assert_eq!(config.sched, SchedOptions::default());
        assert_eq!(config.sense, SenseOptions::default());
        assert_eq!(config.stats, None);
    }

    /// RSIO, sections 4.2 and 4.3.
    #[test]
    fn confidence_is_as_the_paper_has_it() {
        let options = Options::default();
        assert_eq!((options.max_conf, options.co_conf), (5, 2));
        assert_eq!((options.sys_expire_ms, options.co_delta_ms), (2000, 5));
    }

    #[test]
    fn rbpe_is_for_the_nice_backend() {
        let of = |backend| Config::new(&Options { policy: Policy::Rbpe, backend, ..Options::default() });
        assert!(of(BackendKind::Auto).is_ok() && of(BackendKind::Nice).is_ok());
        for backend in [BackendKind::Scx, BackendKind::None] {
            let refusal = of(backend).expect_err("nonsense").to_string();
            let given = backend.name();
            assert_eq!(
                refusal,
                format!(
                    "--backend is {given}: allowed is nice or auto with --policy rbpe, which is one of nice values"
                )
            );
        }
    }

    #[test]
    fn steady_is_for_the_scx_backend() {
        let of = |backend| Config::new(&Options { policy: Policy::Steady, backend, ..Options::default() });
        assert!(of(BackendKind::Auto).is_ok() && of(BackendKind::Scx).is_ok());
        let refusal = of(BackendKind::Nice).expect_err("nonsense").to_string();
        assert_eq!(
            refusal,
            "--backend is nice: allowed is scx or auto with --policy steady, which watches nobody whom others could serve"
        );
    }

    #[test]
    fn nice_values_are_taken_where_nothing_else_is() {
        let of = |files: &[(&str, &str)], policy| {
            let root = crate::names::tests::root(files);
            BackendKind::Auto.choose(policy, &crate::seams::features::probe_at(root.path()))
        };
        let sched_ext = [("sys/kernel/sched_ext/state", "disabled\n")];
        assert_eq!(of(&[], Policy::Appease), BackendKind::Nice);
        assert_eq!(of(&sched_ext, Policy::Rsio), BackendKind::Scx);
        assert_eq!(of(&sched_ext, Policy::Rbpe), BackendKind::Nice);
        assert_eq!(of(&[], Policy::Steady), BackendKind::Scx);
        let partial = Options { partial: true, backend: BackendKind::Nice, ..Options::default() };
        let refusal = Config::new(&partial).expect_err("nonsense").to_string();
        assert_eq!(
            refusal,
            "--backend is nice: allowed is scx with --partial, which is about processes that ask for SCHED_EXT"
        );
        for backend in [BackendKind::Nice, BackendKind::None] {
            let saving = Options { power_save: true, backend, ..Options::default() };
            let refusal = Config::new(&saving).expect_err("nonsense").to_string();
            assert!(refusal.ends_with("with --power-save, which is about the CPUs that work is put on"), "{refusal}");
            let told = Options { fast_cpus: Some("0".into()), backend, ..Options::default() };
            let refusal = Config::new(&told).expect_err("nonsense").to_string();
            assert!(refusal.ends_with("with --fast-cpus, which is about the CPUs that work is put on"), "{refusal}");
        }
    }

    #[test]
    fn nonsense_is_named_with_what_is_allowed() {
        let of = |change: fn(&mut Options)| {
            let mut options = Options::default();
            change(&mut options);
            Config::new(&options).expect_err("nonsense").to_string()
        };
        assert_eq!(of(|o| o.slice_us = 0), "--slice-us is 0: allowed is 100 to 100000");
        assert_eq!(of(|o| o.max_conf = 0), "--max-conf is 0: allowed is 1 to 100");
        assert_eq!(of(|o| o.co_conf = 5), "--co-conf is 5: allowed is 0 to 4");
        assert_eq!(of(|o| o.max_hops = 9), "--max-hops is 9: allowed is 1 to 8");
        assert_eq!(of(|o| o.other_share_pct = 100), "--other-share-pct is 100: allowed is 1 to 90");
        assert_eq!(of(|o| o.watchdog_ms = 30_001), "--watchdog-ms is 30001: allowed is 1000 to 30000");
        let longest = "--longest-wait-ms is 4000: allowed is 10 to 3333";
        assert_eq!(of(|o| (o.watchdog_ms, o.longest_wait_ms) = (5000, 4000)), longest);
        assert_eq!(of(|o| o.stats = Some(f64::NAN)), "--stats is NaN: allowed is 0.1 to 86400 seconds");
    }
}
