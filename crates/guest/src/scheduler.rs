//! Schedulers by name: started before the load, checked after the measurement.

use std::{
    fs,
    path::Path,
    process::{Command, ExitStatus},
};

use anyhow::{Context, Result, bail};
use appease_scenario::scheduler_and_mix;
use rustix::process::Signal;

use crate::{
    app::{Launch, Program},
    clock::{self, Deadline},
    ending::evicted,
    scope::Scopes,
    screen::Screen,
    system::{self, RUN_DIR, TOOLS, kernel_log},
    watchdog::Operations,
};

const AUTOGROUP: &str = "/proc/sys/kernel/sched_autogroup_enabled";
const STATE: &str = "/sys/kernel/sched_ext/state";
const SEQUENCE: &str = "/sys/kernel/sched_ext/enable_seq";
/// Programs pass the verifier slowly in an emulated machine.
const START_LIMIT_S: u64 = 90;
const STOP_LIMIT_S: u64 = 20;
/// `appease x11` owns it once it is at work.
const FOCUS_SELECTION: &str = "_APPEASE_X11_S0";
/// The backend's name for sched_ext with the watchdog that most others have, and what our daemon is told of it.
const BACKEND_AT_5_S: &str = "scx-5s";
const AT_5_S: [&str; 4] = ["--backend", "scx", "--watchdog-ms", "5000"];
/// RSIO section 6.5 compares with users who all raise their priority so.
const RAISED_NICE: i32 = -10;

/// Who schedules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// The kernel's own, everything in one group.
    Eevdf,
    /// The kernel's own, with its own groups: one for each session.
    Autogroup,
    /// The kernel's own, each application in a cgroup.
    Scopes,
    /// The kernel's own, everything that users run at nice -10.
    Nice,
    /// A sched_ext scheduler of somebody else's.
    Peer(String),
    /// Ours.
    Appease {
        /// Its policy, if not the default one.
        policy: Option<String>,
        /// Its backend, if not the default one.
        backend: Option<String>,
    },
}

impl Kind {
    /// Understands `eevdf`, `eevdf-autogroup`, `eevdf-scopes`, `eevdf-nice`, `scx_NAME`, `appease[:POLICY][@BACKEND]`, each with a mix or
    /// without one (`+MIX`), which is no matter of the scheduler's.
    pub fn parse(name: &str) -> Result<Self> {
        let (name, _) = scheduler_and_mix(name);
        let (base, backend) = match name.split_once('@') {
            Some((base, backend)) => (base, Some(backend.to_owned())),
            None => (name, None),
        };
        match (base, base.split_once(':')) {
            ("eevdf", _) if backend.is_none() => Ok(Self::Eevdf),
            ("eevdf-autogroup", _) if backend.is_none() => Ok(Self::Autogroup),
            ("eevdf-scopes", _) if backend.is_none() => Ok(Self::Scopes),
            ("eevdf-nice", _) if backend.is_none() => Ok(Self::Nice),
            ("appease", _) => Ok(Self::Appease { policy: None, backend }),
            (_, Some(("appease", policy))) => Ok(Self::Appease { policy: Some(policy.to_owned()), backend }),
            (peer, None) if peer.starts_with("scx_") && !peer.contains('/') && backend.is_none() => {
                Ok(Self::Peer(peer.to_owned()))
            }
            _ => bail!(
                "scheduler \"{name}\" is not known: write eevdf, eevdf-autogroup, eevdf-scopes, eevdf-nice, scx_NAME or \
                 appease[:POLICY][@BACKEND]"
            ),
        }
    }

    /// Where it wants programs.
    pub fn scopes(&self) -> Result<Scopes> {
        match self {
            Self::Autogroup => {
                fs::write(AUTOGROUP, "1").with_context(|| format!("write 1 to {AUTOGROUP}"))?;
                Ok(Scopes::none())
            }
            Self::Scopes => Scopes::each_its_own(),
            Self::Nice => Ok(Scopes::all_at(RAISED_NICE)),
            _ => Ok(Scopes::none()),
        }
    }

    fn command(&self) -> Option<Vec<String>> {
        match self {
            Self::Eevdf | Self::Autogroup | Self::Scopes | Self::Nice => None,
            Self::Peer(name) => Some(vec![format!("{TOOLS}/{name}")]),
            Self::Appease { policy, backend } => {
                let mut argv = vec![format!("{TOOLS}/appease"), "run".into()];
                argv.extend(policy.iter().flat_map(|policy| ["--policy".into(), policy.clone()]));
                match backend.as_deref() {
                    Some(BACKEND_AT_5_S) => argv.extend(AT_5_S.map(str::to_owned)),
                    Some(backend) => argv.extend(["--backend".into(), backend.to_owned()]),
                    None => {}
                }
                Some(argv)
            }
        }
    }

    /// Whether it has the X server serve the focus first: what our own policy brings, and others do not.
    fn serves_focus(&self) -> bool {
        let ours = |word: &Option<String>, but: &[&str]| word.as_deref().is_none_or(|word| but.contains(&word));
        matches!(self, Self::Appease { policy, backend } if ours(policy, &["appease"]) && ours(backend, &["auto", "scx", BACKEND_AT_5_S, "nice"]))
    }

    /// Whether it has channels: policy `steady` goes by none, and its daemon refuses them.
    fn watches(&self) -> bool {
        matches!(self, Self::Appease { policy, .. } if policy.as_deref() != Some("steady"))
    }

    fn uses_sched_ext(&self) -> bool {
        match self {
            Self::Eevdf | Self::Autogroup | Self::Scopes | Self::Nice => false,
            Self::Peer(_) => true,
            Self::Appease { policy, backend } => {
                let elsewhere = |word: &str| ["nice", "none"].contains(&word);
                policy.as_deref() != Some("rbpe") && !backend.as_deref().is_some_and(elsewhere)
            }
        }
    }
}

/// A scheduler in charge.
pub struct Scheduler {
    kind: Kind,
    daemon: Option<Program>,
    /// The agent of the display.
    agent: Option<Program>,
    sequence: String,
    /// What it gave to sched_ext.
    operations: Option<Operations>,
}

impl Scheduler {
    /// Starts it and waits until it is in charge.
    pub fn start(kind: Kind) -> Result<Self> {
        Self::launch(kind, None, &[])
    }

    /// The same; our own daemon reads this text as its configuration file.
    pub fn start_with(kind: Kind, config: Option<&str>) -> Result<Self> {
        Self::launch(kind, config, &[])
    }

    /// Ours, with these words after `appease run`.
    pub fn start_ours(words: &[&str]) -> Result<Self> {
        Self::launch(Kind::Appease { policy: None, backend: None }, None, words)
    }

    fn launch(kind: Kind, config: Option<&str>, words: &[&str]) -> Result<Self> {
        if !["", "disabled"].contains(&state().as_str()) {
            bail!("another sched_ext scheduler is still in charge ({STATE} is {})", state());
        }
        let mut scheduler = Self { daemon: None, agent: None, sequence: sequence(), operations: None, kind };
        let Some(mut argv) = scheduler.kind.command() else { return Ok(scheduler) };
        if let Some(text) = config.filter(|_| scheduler.is_ours()) {
            let file = Path::new(RUN_DIR).join("config.toml");
            fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
            argv.extend(["--config".into(), file.display().to_string()]);
        }
        argv.extend(words.iter().map(|word| (*word).to_owned()));
        if !Path::new(&argv[0]).exists() {
            bail!("{} was not brought along: build it first (appease-lab peers for scx_ schedulers)", argv[0]);
        }
        if scheduler.kind.uses_sched_ext() && !Path::new(STATE).exists() {
            bail!("this kernel ({}) has no sched_ext: choose another with --kernel", system::kernel_release());
        }
        // The daemon lives outside of the applications' cgroups.
        let mut daemon = Launch::new("scheduler", Scopes::none(), &argv).start()?;
        let deadline = Deadline::after_s(START_LIMIT_S);
        while !scheduler.is_ready() {
            daemon.must_run()?;
            if deadline.has_passed() {
                let error = daemon.complaint(&format!("was not in charge after {START_LIMIT_S} s"));
                daemon.kill();
                return Err(error);
            }
            clock::sleep_ms(100);
        }
        scheduler.sequence = sequence();
        scheduler.daemon = Some(daemon);
        if scheduler.kind.uses_sched_ext() {
            let operations = Operations::newest();
            scheduler.operations = operations.map_err(|error| eprintln!("no time-out of the watchdog: {error:#}")).ok();
        }
        Ok(scheduler)
    }

    /// Starts what it brings for the X server, if anything, and waits until that is at work.
    pub fn serve_display(&mut self) -> Result<()> {
        if !self.kind.serves_focus() {
            return Ok(());
        }
        let argv = [format!("{TOOLS}/appease"), "x11".into(), "--verbose".into()];
        let agent = self.agent.insert(Launch::new("agent", Scopes::none(), &argv).start()?);
        Screen::connect()?.wait_for_selection(FOCUS_SELECTION, agent)
    }

    /// Ends it, and waits until the kernel schedules by itself. Should it stay, the next one says so.
    pub fn stop(mut self) {
        for mut program in self.agent.take().into_iter().chain(self.daemon.take()) {
            if !program.ends_when_asked(STOP_LIMIT_S) {
                eprintln!("{}", program.complaint(&format!("did not end within {STOP_LIMIT_S} s, and is killed")));
            }
            program.kill();
        }
        if self.kind.uses_sched_ext() {
            wait_until_disabled(50);
        }
    }

    /// Sends its daemon a signal; after how many ms the kernel schedules by itself, and how the daemon ended.
    pub fn end_by(mut self, signal: Signal) -> Result<(f64, ExitStatus)> {
        let mut daemon = self.daemon.take().context("the kernel's own scheduler has no daemon")?;
        let begin_ns = clock::now_ns();
        daemon.signal(signal)?;
        if self.kind.uses_sched_ext() {
            wait_until_disabled(1);
        }
        let gone_ms = clock::to_ms(clock::now_ns() - begin_ns);
        let Some((status, _)) = daemon.wait_until(clock::now_ns() + STOP_LIMIT_S * clock::SECOND)? else {
            bail!(daemon.complaint(&format!("did not end within {STOP_LIMIT_S} s")));
        };
        Ok((gone_ms, status))
    }

    /// The process of its daemon; the kernel's own scheduler has none.
    pub fn pid(&self) -> Option<u32> {
        self.daemon.as_ref().map(Program::pid)
    }

    /// CPU time that its daemon had since it began, all threads together; the kernel's own scheduler has none.
    pub fn ran_ns(&self) -> u64 {
        let Some(daemon) = &self.daemon else { return 0 };
        let tasks = fs::read_dir(format!("/proc/{}/task", daemon.pid()));
        let files = tasks.into_iter().flatten().flatten().map(|task| task.path().join("schedstat"));
        files.filter_map(|file| system::ran_ns(&file).ok()).sum()
    }

    fn is_ready(&self) -> bool {
        if self.kind.uses_sched_ext() {
            // The kernel counts it some time after it says so.
            return state() == "enabled" && sequence() != self.sequence;
        }
        self.status().is_ok()
    }

    /// Whether it is still in charge; if not, an error that says why.
    pub fn must_be_in_charge(&mut self) -> Result<()> {
        if let Some(agent) = &mut self.agent {
            agent.must_run()?;
        }
        let Some(daemon) = &mut self.daemon else { return Ok(()) };
        let ended = daemon.ended()?;
        let uses_sched_ext = self.kind.uses_sched_ext();
        let in_charge = !uses_sched_ext || (state() == "enabled" && sequence() == self.sequence);
        if ended.is_none() && in_charge {
            return Ok(());
        }
        if uses_sched_ext && !in_charge {
            // Give a daemon that was just ejected the time to say why.
            clock::sleep_ms(300);
        }
        let end = ended.map_or_else(|| "still runs".to_owned(), |status| format!("ended: {status}"));
        Err(evicted(format!(
            "scheduler ejected (daemon {end}).\n{}\n{}",
            kernel_log("sched_ext", 12),
            daemon.log_tail(20)
        )))
    }

    /// How long the kernel's watchdog lets a task wait under it, seconds; nothing where it is not one of sched_ext.
    pub fn watchdog_s(&self) -> Option<f64> {
        let told = self.operations.as_ref()?.watchdog_ms();
        told.map(|ms| f64::from(ms) / 1e3).map_err(|error| eprintln!("no time-out of the watchdog: {error:#}")).ok()
    }

    /// Has our own daemon watch more channels, each given as the arguments of `appease channel add`. Others watch none.
    pub fn add_channels(&self, channels: &[String]) -> Result<()> {
        for channel in channels.iter().filter(|_| self.kind.watches()) {
            let mut command = Command::new(format!("{TOOLS}/appease"));
            command.args(["channel", "add"]).args(channel.split_whitespace());
            let out = command.output().context("start appease channel add")?;
            if !out.status.success() {
                bail!("appease channel add {channel}: {}", String::from_utf8_lossy(&out.stderr).trim());
            }
        }
        Ok(())
    }

    /// What our own daemon tells about itself; an error under other schedulers.
    pub fn status(&self) -> Result<serde_json::Value> {
        if !self.is_ours() {
            bail!("only appease tells about lanes");
        }
        status()
    }

    /// Whether it is our own.
    pub fn is_ours(&self) -> bool {
        matches!(self.kind, Kind::Appease { .. })
    }

    /// All that the daemon logged.
    pub fn log_text(&self) -> String {
        self.daemon.as_ref().map(Program::log_text).unwrap_or_default()
    }

    /// What the daemon logged last.
    pub fn log_tail(&self) -> String {
        let logs = self.daemon.iter().chain(&self.agent).map(|program| program.log_tail(20));
        logs.filter(|log| !log.is_empty()).collect::<Vec<_>>().join("\n")
    }
}

/// What our own daemon tells about itself.
pub fn status() -> Result<serde_json::Value> {
    ask("status")
}

/// What it tells of requests and their responses.
pub fn latency() -> Result<serde_json::Value> {
    ask("latency")
}

fn ask(command: &str) -> Result<serde_json::Value> {
    let out = Command::new(format!("{TOOLS}/appease"))
        .args([command, "--json"])
        .output()
        .with_context(|| format!("start appease {command}"))?;
    if !out.status.success() {
        bail!("appease {command} --json: {}", String::from_utf8_lossy(&out.stderr).trim());
    }
    serde_json::from_slice(&out.stdout).with_context(|| format!("output of appease {command} --json"))
}

/// Looks each so many milliseconds, and not for ever.
fn wait_until_disabled(each_ms: u64) {
    let deadline = Deadline::after_s(STOP_LIMIT_S);
    while state() != "disabled" && !deadline.has_passed() {
        clock::sleep_ms(each_ms);
    }
}

/// `enabled`, `disabled` or something between the two; empty on a kernel without sched_ext.
pub fn state() -> String {
    read(STATE)
}

/// Number of schedulers that were attached since boot.
pub fn sequence() -> String {
    read(SEQUENCE)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// CPU time by lane of the processes with these names, nanoseconds: other lane, all lanes.
pub fn lane_time(status: &serde_json::Value, commands: &[String]) -> Option<(f64, f64)> {
    const LANES: [&str; 4] = ["kernel", "attended", "other", "idle"];
    let listed = status.get("commands")?.as_array()?;
    let wanted = |entry: &&serde_json::Value| {
        let comm = entry.get("comm").or_else(|| entry.get("name")).and_then(|name| name.as_str());
        comm.is_some_and(|comm| commands.iter().any(|command| command == comm))
    };
    let mut sum = (0.0, 0.0);
    for entry in listed.iter().filter(wanted) {
        let lanes = entry.get("lane_ns")?;
        let time = |lane: &str| lanes.get(lane).and_then(serde_json::Value::as_f64).unwrap_or(0.0);
        sum.0 += time("other");
        sum.1 += LANES.iter().map(|lane| time(lane)).sum::<f64>();
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_understood() {
        let ours = |policy: Option<&str>, backend: Option<&str>| Kind::Appease {
            policy: policy.map(Into::into),
            backend: backend.map(Into::into),
        };
        for (name, kind) in [
            ("eevdf", Kind::Eevdf),
            ("eevdf-scopes", Kind::Scopes),
            ("scx_lavd", Kind::Peer("scx_lavd".into())),
            ("appease", ours(None, None)),
            ("appease:rsio@none", ours(Some("rsio"), Some("none"))),
            ("appease@nice", ours(None, Some("nice"))),
            ("appease@scx-5s", ours(None, Some("scx-5s"))),
            ("appease@nice+fifo-video", ours(None, Some("nice"))),
            ("eevdf+batch", Kind::Eevdf),
        ] {
            assert_eq!(Kind::parse(name).expect(name), kind);
        }
        assert_eq!(
            ours(Some("rsio"), Some("none")).command().map(|argv| argv.join(" ")).as_deref(),
            Some("/run/tools/appease run --policy rsio --backend none")
        );
        assert_eq!(
            ours(None, Some("scx-5s")).command().map(|argv| argv.join(" ")).as_deref(),
            Some("/run/tools/appease run --backend scx --watchdog-ms 5000")
        );
        for (name, serves) in [
            ("appease", true),
            ("appease:appease@scx", true),
            ("appease@scx-5s", true),
            ("appease:rsio", false),
            ("appease:appease@none", false),
            ("appease@nice", true),
            ("eevdf", false),
            ("scx_lavd", false),
        ] {
            assert_eq!(Kind::parse(name).expect(name).serves_focus(), serves, "{name}");
        }
        for (name, uses) in
            [("appease", true), ("appease@nice", false), ("appease:rbpe", false), ("appease:rsio@none", false)]
        {
            assert_eq!(Kind::parse(name).expect(name).uses_sched_ext(), uses, "{name}");
        }
        for (name, watches) in [
            ("appease", true),
            ("appease:cas", true),
            ("appease@nice", true),
            ("appease:steady", false),
            ("eevdf", false),
        ] {
            assert_eq!(Kind::parse(name).expect(name).watches(), watches, "{name}");
        }
        let error = Kind::parse("eevfd").expect_err("unknown");
        insta::assert_snapshot!(format!("{error}"), @r#"scheduler "eevfd" is not known: write eevdf, eevdf-autogroup, eevdf-scopes, eevdf-nice, scx_NAME or appease[:POLICY][@BACKEND]"#);
        assert!(Kind::parse("scx_../sh").is_err());
        assert!(Kind::parse("eevdf@none").is_err());
    }

    #[test]
    fn lanes_are_summed_over_the_named_commands() {
        let status = serde_json::json!({"commands": [
            {"comm": "cc1", "lane_ns": {"kernel": 0, "attended": 10, "other": 90, "idle": 0}},
            {"comm": "as", "lane_ns": {"kernel": 0, "attended": 0, "other": 100, "idle": 0}},
            {"comm": "xterm", "lane_ns": {"kernel": 0, "attended": 500, "other": 0, "idle": 0}},
        ]});
        assert_eq!(lane_time(&status, &["cc1".into(), "as".into()]), Some((190.0, 200.0)));
    }
}
