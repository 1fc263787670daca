//! What `appease doctor` finds: what this kernel offers, and why something is off.

use std::{collections::BTreeMap, fmt, path::Path};

use crate::{
    backend::nice,
    config::{BackendKind, Config, Policy},
    control::{Client, Missing, Status},
    ejections::{self, Ejection},
    names::Names,
    reserve::{self, Keeper},
    seams::{
        Machine, Platform,
        features::{self, Btf, Features, Goal, Lockdown, SchedExt},
    },
};

/// Daemons that change priorities too, by command name (the kernel keeps 15 characters), and how to stop them.
const COMPETITORS: [(&str, &str); 6] = [
    ("ananicy-cpp", "systemctl stop ananicy-cpp"),
    ("ananicy", "systemctl stop ananicy"),
    ("system76-schedu", "systemctl stop com.system76.Scheduler"),
    ("gamemoded", "systemctl --user stop gamemoded"),
    ("uresourced", "systemctl stop uresourced"),
    ("scx_loader", "systemctl stop scx_loader"),
];

/// How a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As it should be.
    Good,
    /// `appease run` works, but less well, or something is not known.
    Warning,
    /// `appease run` would refuse.
    Obstacle,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How it weighs.
    pub level: Level,
    /// What was looked at.
    pub subject: &'static str,
    /// What was found; with the cure, if one is needed.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Finding {
    fn good(subject: &'static str, text: impl Into<String>) -> Self {
        Self { level: Level::Good, subject, text: text.into() }
    }

    fn warning(subject: &'static str, text: impl Into<String>) -> Self {
        Self { level: Level::Warning, subject, text: text.into() }
    }

    fn obstacle(subject: &'static str, text: impl Into<String>) -> Self {
        Self { level: Level::Obstacle, subject, text: text.into() }
    }
}

/// Looks at this machine; `run_dir` is the daemon's.
#[must_use]
pub fn examine(run_dir: &Path) -> Vec<Finding> {
    let running = Client::connect(&Config::socket(run_dir)).and_then(|mut client| client.status()).ok();
    let root = Path::new("/");
    // Only trying shows what a security module, a lockdown or a verifier forbids. Who runs has tried.
    let tries = running.is_none() && rustix::process::geteuid().is_root();
    let refusal = (tries && features::probe_at(root).can_load_schedulers())
        .then(appease_bpf::try_scheduler)
        .and_then(Result::err)
        .filter(|error| matches!(error, appease_bpf::Error::SchedulerRefused { .. }));
    let mut findings = examine_at(root, running.as_ref(), refusal.as_ref());
    if tries {
        findings.push(tried_hooks(appease_bpf::try_hooks()));
    }
    findings.extend(ejected(&ejections::of(run_dir, Machine.now_ns()), running.is_some()));
    findings
}

fn tried_hooks(tried: Result<(), appease_bpf::Error>) -> Finding {
    match tried {
        Ok(()) => Finding::good("hooks", "some of each kind were attached, and taken off again"),
        Err(error) => Finding::obstacle("hooks", error.to_string()),
    }
}

/// What the kernel has ejected, and why, if there was anything.
fn ejected(ejections: &[Ejection], is_running: bool) -> Option<Finding> {
    let (number, last) = (ejections.len(), ejections.last()?);
    let again = if ejections::are_too_many(ejections) && !is_running {
        "so the unit is not started again by itself: systemctl start appease does that, once the cause is gone"
    } else {
        "it may be a program of this machine that our scheduler kept waiting: please report it with the log"
    };
    let times = if number == 1 { "once".into() } else { format!("{number} times") };
    let text =
        format!("the kernel ejected the scheduler {times} within a day, at last for this: {}; {again}", last.reason);
    Some(Finding::warning("ejections", text))
}

/// Looks at the machine whose `/proc` and `/sys` are below `root`, on which the daemon `running` runs, and whose kernel gave this `refusal` of the
/// scheduler.
fn examine_at(root: &Path, running: Option<&Status>, refusal: Option<&appease_bpf::Error>) -> Vec<Finding> {
    let features = features::probe_at(root);
    let mut findings = vec![
        Finding::good("kernel", features.kernel.clone()),
        privilege(&features),
        sched_ext(&features, running, refusal),
        btf(&features),
        lockdown(&features),
    ];
    findings.extend(backend(root, &features, running, refusal.is_some()));
    findings.extend(reserve_of(root, &features));
    // The daemon knows; without one, the kernel's description of itself tells.
    let missing = match running {
        Some(status) => status.missing.clone(),
        None => features::missing_hooks_at(root, &appease_bpf::hooks()).into_iter().map(Missing::from).collect(),
    };
    findings.extend(hooks(&missing));
    let rivals = competitors(&Names::new(root));
    if rivals.is_empty() {
        findings.push(Finding::good("other daemons", "none that would interfere"));
    }
    findings.extend(rivals);
    findings
}

/// Running daemons that change priorities too.
pub(crate) fn competitors(names: &Names) -> Vec<Finding> {
    let wanted = COMPETITORS.map(|(comm, _)| comm);
    let found = names.running(&wanted).into_iter();
    found
        .map(|(pid, comm)| {
            let cure = COMPETITORS.iter().find(|(name, _)| *name == comm).map_or("", |(_, cure)| cure);
            Finding::warning(
                "other daemons",
                format!("{comm} (process {pid}) changes priorities too, against ours: stop it ({cure})"),
            )
        })
        .collect()
}

/// The first obstacle that is one `of` these, as a finding.
fn obstacle(features: &Features, subject: &'static str, of: impl Fn(&appease_bpf::Error) -> bool) -> Option<Finding> {
    let found = features.obstacles(Goal::Schedule).into_iter().find(of)?;
    Some(Finding::obstacle(subject, found.to_string()))
}

fn privilege(features: &Features) -> Finding {
    if features.privileged {
        Finding::good("privilege", "may load BPF programs")
    } else {
        // Whoever examines need not be who runs the daemon.
        Finding::warning("privilege", "this user may not load BPF programs; \"appease run\" must be run as root")
    }
}

/// Only root sees it.
fn reserve_of(root: &Path, features: &Features) -> Option<Finding> {
    const SUBJECT: &str = "realtime";
    if !features.privileged || !features.can_load_schedulers() {
        return None;
    }
    Some(match reserve::keeper(root) {
        Keeper::Kernel => Finding::good(
            SUBJECT,
            "programs that never sleep leave others a share, which \"appease run\" has given five times a second",
        ),
        Keeper::Daemon => Finding::good(
            SUBJECT,
            "programs that never sleep leave others a share, which \"appease run\" itself holds for them on this kernel",
        ),
        Keeper::Nobody => {
            let reason = reserve::switched_off(root);
            Finding::warning(SUBJECT, format!("programs that never sleep leave others nothing: {reason}"))
        }
    })
}

fn sched_ext(features: &Features, running: Option<&Status>, refusal: Option<&appease_bpf::Error>) -> Finding {
    const SUBJECT: &str = "sched_ext";
    if let Some(refusal) = refusal {
        return acts_by_nice(SUBJECT, refusal);
    }
    match (&features.sched_ext, running) {
        (SchedExt::Attached { .. }, Some(ours)) => {
            Finding::good(SUBJECT, format!("appease is attached (process {})", ours.pid))
        }
        (SchedExt::Absent, _) => acts_by_nice(SUBJECT, no_sched_ext(features)),
        _ if !features.isolated.is_empty() => {
            acts_by_nice(SUBJECT, appease_bpf::Error::Isolated { cpus: features.isolated.clone() })
        }
        (SchedExt::Idle, _) => Finding::good(SUBJECT, "there, and no scheduler is attached"),
        _ => obstacle(features, SUBJECT, |error| matches!(error, appease_bpf::Error::OtherScheduler { .. }))
            .unwrap_or_else(|| Finding::good(SUBJECT, "there")),
    }
}

fn acts_by_nice(subject: &'static str, why: impl fmt::Display) -> Finding {
    Finding::warning(subject, format!("{why}; until then \"appease run\" acts by nice values (--backend nice)"))
}

fn no_sched_ext(features: &Features) -> appease_bpf::Error {
    appease_bpf::Error::NoSchedExt { kernel: features.kernel.clone() }
}

/// Which backend `appease run` takes, and what hinders it.
fn backend(root: &Path, features: &Features, running: Option<&Status>, is_refused: bool) -> Vec<Finding> {
    const SUBJECT: &str = "backend";
    let chosen = match BackendKind::Auto.choose(Policy::default(), features) {
        BackendKind::Scx if is_refused => BackendKind::Nice,
        chosen => chosen,
    };
    let mut findings = vec![match running {
        Some(status) => Finding::good(SUBJECT, format!("the daemon that runs acts by {}", status.backend)),
        None => Finding::good(SUBJECT, format!("{} is what \"appease run\" takes here", chosen.name())),
    }];
    let autogroup = std::fs::read_to_string(root.join("proc/sys/kernel/sched_autogroup_enabled"));
    if chosen == BackendKind::Nice && autogroup.is_ok_and(|text| text.trim() == "1") {
        findings.push(Finding::warning(
            SUBJECT,
            "the kernel groups tasks by session, and a nice value counts within a session only: sysctl -w \
             kernel.sched_autogroup_enabled=0",
        ));
    }
    // A line of it: what is mounted, where, its kind, and so on.
    let mounts = crate::names::read_text(&root.join("proc/self/mounts"));
    let is_bpffs = |line: &str| line.split(' ').skip(1).take(2).eq([nice::BPFFS, "bpf"]);
    if chosen == BackendKind::Nice && mounts.is_ok_and(|text| !text.lines().any(is_bpffs)) {
        let error = appease_bpf::Error::NoBpfFs { path: nice::BPFFS.into() };
        findings.push(Finding::obstacle(SUBJECT, error.to_string()));
    }
    findings
}

fn btf(features: &Features) -> Finding {
    const SUBJECT: &str = "BTF";
    match &features.btf {
        Btf::Sound => Finding::good(SUBJECT, "there, and no malformed scx kfunc prototypes"),
        Btf::Missing => Finding::obstacle(SUBJECT, appease_bpf::Error::NoBtf.to_string()),
        Btf::Unreadable(reason) => Finding::obstacle(
            SUBJECT,
            format!("/sys/kernel/btf/vmlinux cannot be read ({reason}): boot another kernel"),
        ),
        Btf::Malformed(functions) => {
            let error = appease_bpf::Error::MalformedBtf { kernel: features.kernel.clone() };
            let example = functions.first().map_or("", String::as_str);
            let text = format!("{error} ({} functions, {example} among them)", functions.len());
            acts_by_nice(SUBJECT, text)
        }
    }
}

/// What lacks: one line for each module that may yet come, one for each thing that is lost.
fn hooks(missing: &[Missing]) -> Vec<Finding> {
    const SUBJECT: &str = "hooks";
    if missing.is_empty() {
        return vec![Finding::good(SUBJECT, "all there")];
    }
    let mut findings = Vec::new();
    let mut waiting: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut lost: BTreeMap<(&str, Option<&str>), Vec<&str>> = BTreeMap::new();
    for missing in missing {
        let (values, value) = match &missing.waits_for_module {
            Some(module) => (waiting.entry(module).or_default(), missing.lost.as_str()),
            None => (lost.entry((&missing.lost, missing.refused.as_deref())).or_default(), missing.hook.as_str()),
        };
        if !values.contains(&value) {
            values.push(value);
        }
    }
    findings.extend(waiting.into_iter().map(|(module, what)| {
        Finding::good(SUBJECT, format!("module {module} is not loaded; until it is: no {}", what.join(", ")))
    }));
    findings.extend(lost.into_iter().map(|((what, refused), functions)| {
        let functions = functions.join(", ");
        Finding::warning(
            SUBJECT,
            match refused {
                Some(why) => format!("the kernel refuses hooks to {functions} ({why}): left out: {what}"),
                None => format!("this kernel has no function {functions}: left out: {what}"),
            },
        )
    }));
    findings
}

fn lockdown(features: &Features) -> Finding {
    const SUBJECT: &str = "lockdown";
    match features.lockdown {
        Lockdown::Off => Finding::good(SUBJECT, "off"),
        Lockdown::Integrity => Finding::good(SUBJECT, "integrity, which does not hinder"),
        Lockdown::Confidentiality => Finding::obstacle(SUBJECT, appease_bpf::Error::Lockdown.to_string()),
        Lockdown::Unknown => {
            Finding::good(SUBJECT, "the kernel does not tell (no lockdown, or securityfs is not mounted)")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::tests::root;

    fn texts(findings: &[Finding], level: Level) -> Vec<&str> {
        findings.iter().filter(|one| one.level == level).map(|one| one.text.as_str()).collect()
    }

    #[test]
    fn ejections_are_told_with_the_last_reason_and_that_the_unit_stays_stopped() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut noted = Vec::new();
        let texts = ["one", "two", "three"].map(|reason| {
            noted = ejections::note(dir.path(), 5, reason).expect("written");
            ejected(&noted, false).expect("a finding").text
        });
        assert!(texts[0].contains("once within a day, at last for this: one; it may be"), "{}", texts[0]);
        assert!(texts[2].contains("3 times within a day, at last for this: three; so the unit"), "{}", texts[2]);
        assert!(!ejected(&noted, true).expect("a finding").text.contains("the unit"), "it runs again");
        assert_eq!(ejected(&[], false), None);
    }

    #[test]
    fn a_machine_without_anything_is_told_so() {
        let root = root(&[("proc/sys/kernel/osrelease", "6.12.48+deb13-amd64\n")]);
        let findings = examine_at(root.path(), None, None);
        insta::assert_snapshot!(texts(&findings, Level::Obstacle).join("\n"), @r"
        this kernel has no BTF (/sys/kernel/btf/vmlinux): boot a kernel built with CONFIG_DEBUG_INFO_BTF=y, as Debian's are
        ");
    }

    #[test]
    fn without_sched_ext_there_are_nice_values() {
        let root = root(&[
            ("proc/sys/kernel/osrelease", "6.12.48+deb13-amd64\n"),
            ("proc/sys/kernel/sched_autogroup_enabled", "1\n"),
            ("proc/self/mounts", "sysfs /sys sysfs rw 0 0\ntmpfs /sys/fs/bpf tmpfs rw 0 0\n"),
        ]);
        let findings = examine_at(root.path(), None, None);
        let of = |subject: &str| {
            let its = findings.iter().filter(|one| one.subject == subject);
            its.map(|one| format!("{:?}: {one}\n", one.level)).collect::<String>()
        };
        insta::assert_snapshot!(of("sched_ext") + &of("backend"), @r#"
        Warning: kernel 6.12.48+deb13-amd64 has no sched_ext: boot Linux 6.18 or later built with CONFIG_SCHED_CLASS_EXT=y (Debian: trixie-backports or sid); until then "appease run" acts by nice values (--backend nice)
        Good: nice is what "appease run" takes here
        Warning: the kernel groups tasks by session, and a nice value counts within a session only: sysctl -w kernel.sched_autogroup_enabled=0
        Obstacle: /sys/fs/bpf is no BPF file system: mount one there (mount -t bpf bpf /sys/fs/bpf), as systemd does
        "#);
        std::fs::write(root.path().join("proc/self/mounts"), "bpf /sys/fs/bpf bpf rw,mode=700 0 0\n")
            .expect("writable");
        assert!(examine_at(root.path(), None, None).iter().all(|one| !one.text.contains("BPF file system")));
    }

    #[test]
    fn a_refused_scheduler_is_told() {
        let root = root(&[("sys/kernel/sched_ext/state", "disabled\n")]);
        let refusal = appease_bpf::Error::SchedulerRefused {
            kernel: "6.16.12+deb13-amd64".into(),
            reason: "Permission denied".into(),
        };
        let findings = examine_at(root.path(), None, Some(&refusal));
        let of = |subject: &str| {
            let its = findings.iter().filter(|one| one.subject == subject);
            its.map(|one| format!("{:?}: {one}\n", one.level)).collect::<String>()
        };
        insta::assert_snapshot!(of("sched_ext") + &of("backend"), @r#"
        Warning: kernel 6.16.12+deb13-amd64 refuses the scheduler (Permission denied): boot another one, such as Linux 6.18 or 7.2; "appease run -vv" tells what it says of which program; until then "appease run" acts by nice values (--backend nice)
        Good: nice is what "appease run" takes here
        "#);
    }

    #[test]
    fn what_realtime_programs_leave_others_is_told() {
        const RUNTIME: (&str, &str) = ("sys/kernel/debug/sched/ext_server/cpu0/runtime", "50000000\n");
        const PERIOD: (&str, &str) = ("sys/kernel/debug/sched/ext_server/cpu0/period", "1000000000\n");
        let mut text = String::new();
        for more in [&[RUNTIME, PERIOD][..], &[], &[("proc/sys/kernel/sched_rt_runtime_us", "-1\n")]] {
            let root = root(&[more, &[("sys/kernel/sched_ext/state", "disabled\n")]].concat());
            let features = Features { privileged: true, ..features::probe_at(root.path()) };
            let found = reserve_of(root.path(), &features).expect("root sees it");
            text += &format!("{:?}: {found}\n", found.level);
        }
        insta::assert_snapshot!(text, @r#"
        Good: programs that never sleep leave others a share, which "appease run" has given five times a second
        Good: programs that never sleep leave others a share, which "appease run" itself holds for them on this kernel
        Warning: programs that never sleep leave others nothing: kernel.sched_rt_runtime_us is -1 (sysctl -w kernel.sched_rt_runtime_us=950000)
        "#);
    }

    #[test]
    fn sessions_matter_only_where_they_are_grouped() {
        let grouped = |text| ("proc/sys/kernel/sched_autogroup_enabled", text);
        let sched_ext = ("sys/kernel/sched_ext/state", "disabled\n");
        for files in [[grouped("0\n")].as_slice(), &[], &[grouped("1\n"), sched_ext]] {
            let root = root(files);
            let found = backend(root.path(), &features::probe_at(root.path()), None, false);
            assert_eq!(found.len(), 1, "{files:?}");
        }
    }

    #[test]
    fn missing_hooks_are_told_by_what_is_lost() {
        let missing = |hook: &str, lost: &str, module: Option<&str>| Missing {
            hook: hook.into(),
            lost: lost.into(),
            waits_for_module: module.map(Into::into),
            refused: None,
        };
        let refused = |hook: &str| Missing { refused: Some("EPERM".into()), ..missing(hook, "terminals", None) };
        let findings = hooks(&[
            missing("joydev_event", "prompt wake-up", Some("joydev")),
            missing("joydev_read", "joysticks as channels", Some("joydev")),
            missing("pipe_write", "what is behind pipes", None),
            missing("pipe_read", "what is behind pipes", None),
            refused("tty_read"),
            refused("pty_write"),
        ]);
        insta::assert_snapshot!(findings.iter().map(|one| format!("{:?}: {one}\n", one.level)).collect::<String>(), @r"
        Good: module joydev is not loaded; until it is: no prompt wake-up, joysticks as channels
        Warning: the kernel refuses hooks to tty_read, pty_write (EPERM): left out: terminals
        Warning: this kernel has no function pipe_write, pipe_read: left out: what is behind pipes
        ");
        assert_eq!(hooks(&[])[0].text, "all there");
    }

    #[test]
    fn rivals_are_named_with_their_cure() {
        let root = root(&[("proc/77/comm", "system76-schedu\n"), ("proc/78/comm", "gamemoded-not\n")]);
        let rivals: Vec<String> = competitors(&Names::new(root.path())).iter().map(ToString::to_string).collect();
        assert_eq!(
            rivals,
            [
                "system76-schedu (process 77) changes priorities too, against ours: stop it (systemctl stop com.system76.Scheduler)"
            ]
        );
    }

    #[test]
    fn another_scheduler_is_an_obstacle_unless_it_is_ours() {
        let root =
            root(&[("sys/kernel/sched_ext/state", "enabled\n"), ("sys/kernel/sched_ext/root/ops", "lavd_1.0\n")]);
        let features = features::probe_at(root.path());
        let found = sched_ext(&features, None, None);
        assert_eq!(found.level, Level::Obstacle);
        assert!(found.text.contains("lavd_1.0"), "{found}");
    }
}
