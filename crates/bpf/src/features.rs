//! What the running kernel offers, read from `/proc` and `/sys` without loading anything, so that it
//! works unprivileged and so that `run` can refuse before it changes anything.

use std::{collections::BTreeSet, fs, path::Path, sync::OnceLock};

use crate::{MissingHook, error::Error};

pub(crate) mod btf;

// Bits of capability sets (linux/capability.h). Either of the first or both of the others permit loading.
const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_SYS_NICE: u64 = 1 << 23;
const CAP_PERFMON: u64 = 1 << 38;
const CAP_BPF: u64 = 1 << 39;

/// The kernel, as far as it concerns us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Features {
    /// Its release (`uname -r`).
    pub kernel: String,
    /// Whether this process may load BPF programs.
    pub privileged: bool,
    /// Whether it may change everybody's nice values.
    pub renices: bool,
    /// Its description of its own types.
    pub btf: Btf,
    /// Its support of schedulers made of BPF programs.
    pub sched_ext: SchedExt,
    /// CPUs that it keeps from scheduling since it was booted (`isolcpus`), as it lists them; empty: none.
    pub isolated: String,
    /// Its lockdown.
    pub lockdown: Lockdown,
}

/// State of `/sys/kernel/btf/vmlinux`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Btf {
    /// There is none.
    Missing,
    /// It cannot be read, and why.
    Unreadable(String),
    /// These scheduler functions are described with an argument that callers must not give, so the kernel
    /// refuses all their callers (made by pahole before 1.26).
    Malformed(Vec<String>),
    /// Nothing wrong was found.
    Sound,
}

/// State of sched_ext.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchedExt {
    /// Not built in.
    Absent,
    /// No scheduler is attached.
    Idle,
    /// This scheduler is attached, or being attached or detached.
    Attached {
        /// Its own name; empty when the kernel does not tell.
        name: String,
    },
}

/// Kernel lockdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lockdown {
    /// The kernel does not tell (securityfs is not mounted, or lockdown not built in).
    Unknown,
    /// Off.
    Off,
    /// Does not hinder us.
    Integrity,
    /// Forbids programs to read kernel memory.
    Confidentiality,
}

/// What the kernel is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// To observe only.
    Sense,
    /// To observe and to schedule.
    Schedule,
    /// To observe, and to change nice values.
    Renice,
}

/// Looks at the running kernel. Its description of itself stays what it is, and takes long to read: once is enough.
#[must_use]
pub fn probe() -> Features {
    static BTF: OnceLock<Btf> = OnceLock::new();
    let root = Path::new("/");
    probe_with(root, BTF.get_or_init(|| probe_btf(root)).clone())
}

/// Looks at the kernel whose `/proc` and `/sys` are below `root`.
#[must_use]
pub fn probe_at(root: &Path) -> Features {
    probe_with(root, probe_btf(root))
}

fn probe_with(root: &Path, btf: Btf) -> Features {
    let word = |path: &str| fs::read_to_string(root.join(path)).map(|text| text.trim().to_owned()).ok();
    Features {
        kernel: word("proc/sys/kernel/osrelease").unwrap_or_default(),
        privileged: word("proc/self/status").is_some_and(|status| may_load(&status)),
        renices: word("proc/self/status").is_some_and(|status| capabilities(&status) & CAP_SYS_NICE != 0),
        btf,
        sched_ext: probe_sched_ext(root),
        isolated: probe_isolated(root),
        lockdown: word("sys/kernel/security/lockdown").map_or(Lockdown::Unknown, |text| parse_lockdown(&text)),
    }
}

/// Those of `names` that are functions of the kernel itself, of the machine whose `/sys` is below `root`. In one pass: a
/// look-up by libbpf goes through all types for each name, which took 1.1 s of a start on Linux 6.18.
///
/// # Errors
/// When the kernel has no BTF, or that cannot be read.
pub(crate) fn kernel_functions(root: &Path, names: &BTreeSet<&str>) -> Result<Vec<String>, Error> {
    let data = fs::read(root.join("sys/kernel/btf/vmlinux")).map_err(|_| Error::NoBtf)?;
    btf::functions(&data, |name| names.contains(name)).map_err(|_| Error::NoBtf)
}

/// Those of `hooks` that cannot be attached now on the machine whose `/sys` is below `root`: neither the kernel
/// nor a module that is loaded has the function. All of them when the kernel has no BTF.
#[must_use]
pub fn missing_hooks_at(root: &Path, hooks: &[MissingHook]) -> Vec<MissingHook> {
    let dir = root.join("sys/kernel/btf");
    let names = hooks.iter().flat_map(|hook| [Some(hook.function), hook.former]).flatten();
    let there = kernel_functions(root, &names.collect()).unwrap_or_default();
    let is_there = |hook: &MissingHook| {
        let is_its = |name: &str| name == hook.function || hook.former == Some(name);
        there.iter().any(|name| is_its(name)) || hook.module.is_some_and(|module| dir.join(module).exists())
    };
    hooks.iter().filter(|hook| !is_there(hook)).cloned().collect()
}

impl Features {
    /// All that keeps `goal` from working here, the most fundamental first.
    #[must_use]
    pub fn obstacles(&self, goal: Goal) -> Vec<Error> {
        let kernel = || self.kernel.clone();
        let mut found = Vec::new();
        let schedules = goal == Goal::Schedule;
        if schedules && self.sched_ext == SchedExt::Absent {
            found.push(Error::NoSchedExt { kernel: kernel() });
        }
        if schedules && !self.isolated.is_empty() {
            found.push(Error::Isolated { cpus: self.isolated.clone() });
        }
        match &self.btf {
            Btf::Missing | Btf::Unreadable(_) => found.push(Error::NoBtf),
            Btf::Malformed(_) if schedules => found.push(Error::MalformedBtf { kernel: kernel() }),
            Btf::Malformed(_) | Btf::Sound => {}
        }
        if self.lockdown == Lockdown::Confidentiality {
            found.push(Error::Lockdown);
        }
        if let (true, SchedExt::Attached { name }) = (schedules, &self.sched_ext) {
            // While it comes or goes it has no name.
            let name = if name.is_empty() { "one that the kernel does not name" } else { name };
            found.push(Error::OtherScheduler { name: name.into() });
        }
        if !self.privileged {
            found.push(Error::NoPrivilege);
        }
        if goal == Goal::Renice && !self.renices {
            found.push(Error::NoNicePrivilege);
        }
        found
    }

    /// Whether this kernel loads schedulers made of BPF programs, whoever asks, when no other is attached.
    #[must_use]
    pub fn can_load_schedulers(&self) -> bool {
        self.sched_ext != SchedExt::Absent && self.isolated.is_empty() && !matches!(self.btf, Btf::Malformed(_))
    }
}

fn probe_btf(root: &Path) -> Btf {
    match fs::read(root.join("sys/kernel/btf/vmlinux")) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Btf::Missing,
        Err(error) => Btf::Unreadable(error.to_string()),
        Ok(data) => match btf::functions_with_parameter(&data, is_scx_kfunc, "aux") {
            Err(reason) => Btf::Unreadable(reason.to_string()),
            Ok(functions) if functions.is_empty() => Btf::Sound,
            Ok(functions) => Btf::Malformed(functions),
        },
    }
}

/// Whether a program may call the function by this name. The kernel itself passes `aux` to these; their
/// `_impl` twins rightly list it.
fn is_scx_kfunc(name: &str) -> bool {
    (name.starts_with("scx_bpf_") || name.starts_with("__scx_bpf_")) && !name.ends_with("_impl")
}

fn probe_sched_ext(root: &Path) -> SchedExt {
    let dir = root.join("sys/kernel/sched_ext");
    match fs::read_to_string(dir.join("state")).as_deref().map(str::trim) {
        Err(_) => SchedExt::Absent,
        Ok("disabled") => SchedExt::Idle,
        Ok(_) => {
            let name = fs::read_to_string(dir.join("root/ops")).unwrap_or_default();
            SchedExt::Attached { name: name.trim().to_owned() }
        }
    }
}

/// Both are asked: of the flags of `isolcpus` not all take CPUs from the scheduler, and what isolates them later, as a partition of cpusets
/// does, is no hindrance, whether a kernel lists it or not.
fn probe_isolated(root: &Path) -> String {
    let word = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    if !word("proc/cmdline").split_whitespace().any(|parameter| parameter.starts_with("isolcpus=")) {
        return String::new();
    }
    word("sys/devices/system/cpu/isolated").trim().to_owned()
}

pub(crate) fn capabilities(status: &str) -> u64 {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}

pub(crate) fn may_load(status: &str) -> bool {
    let caps = capabilities(status);
    caps & CAP_SYS_ADMIN != 0 || caps & (CAP_PERFMON | CAP_BPF) == CAP_PERFMON | CAP_BPF
}

pub(crate) fn parse_lockdown(text: &str) -> Lockdown {
    match text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(level, _)| level) {
        Some("none") => Lockdown::Off,
        Some("integrity") => Lockdown::Integrity,
        Some("confidentiality") => Lockdown::Confidentiality,
        _ => Lockdown::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A directory that looks like the root of a machine; removed when dropped.
    struct Root(PathBuf);

    impl Root {
        fn new(name: &str, files: &[(&str, &[u8])]) -> Self {
            let root = std::env::temp_dir().join(format!("appease-features-{}-{name}", std::process::id()));
            for (path, content) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().expect("a parent")).expect("create directory");
                fs::write(path, content).expect("write file");
            }
            Self(root)
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const ROOT_STATUS: &[u8] = b"Name:\tx\nCapEff:\t000001ffffffffff\n";

    fn machine(name: &str, kfunc: &str, parameter: &str, more: &[(&str, &[u8])]) -> Features {
        let btf = btf::tests::one_function(kfunc, parameter);
        let mut files: Vec<(&str, &[u8])> = vec![
            ("proc/sys/kernel/osrelease", b"7.2.13\n"),
            ("proc/self/status", ROOT_STATUS),
            ("sys/kernel/btf/vmlinux", &btf),
            ("sys/kernel/sched_ext/state", b"disabled\n"),
            ("sys/kernel/security/lockdown", b"[none] integrity confidentiality\n"),
        ];
        files.extend(more);
        probe_at(&Root::new(name, &files).0)
    }

    fn messages(features: &Features, goal: Goal) -> Vec<String> {
        features.obstacles(goal).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_good_machine_has_no_obstacles() {
        let features = machine("good", "scx_bpf_kick_cpu", "cpu", &[]);
        assert_eq!(features.kernel, "7.2.13");
        assert_eq!(features.sched_ext, SchedExt::Idle);
        assert_eq!(messages(&features, Goal::Schedule), [""; 0]);
    }

    #[test]
    fn malformed_prototypes_hinder_scheduling_only() {
        let features = machine("malformed", "scx_bpf_kick_cpu", "aux", &[]);
        assert_eq!(features.btf, Btf::Malformed(vec!["scx_bpf_kick_cpu".into()]));
        assert_eq!(features.obstacles(Goal::Sense).len(), 0);
        assert!(messages(&features, Goal::Schedule)[0].contains("malformed scx kfunc prototypes"));
        // The kernel's own twin lists the argument rightly.
        assert_eq!(machine("impl", "scx_bpf_kick_cpu_impl", "aux", &[]).btf, Btf::Sound);
        assert_eq!(machine("foreign", "bpf_stream_vprintk", "aux", &[]).btf, Btf::Sound);
    }

    #[test]
    fn broken_btf_counts_as_none() {
        let features = machine("broken", "f", "p", &[("sys/kernel/btf/vmlinux", b"\x7fELF")]);
        assert_eq!(features.btf, Btf::Unreadable("it does not begin as BTF does".into()));
        assert!(matches!(features.obstacles(Goal::Sense)[..], [Error::NoBtf]));
    }

    #[test]
    fn an_attached_scheduler_is_named() {
        let attached: &[(&str, &[u8])] =
            &[("sys/kernel/sched_ext/state", b"enabled\n"), ("sys/kernel/sched_ext/root/ops", b"bpfland_1.0\n")];
        let features = machine("attached", "f", "p", attached);
        assert!(messages(&features, Goal::Schedule)[0].contains("attached: bpfland_1.0;"));
        assert_eq!(features.obstacles(Goal::Sense).len(), 0);
    }

    #[test]
    fn isolated_cpus_hinder_scheduling_only() {
        let isolated = ("sys/devices/system/cpu/isolated", b"2-3\n".as_slice());
        let by_boot = machine("isolated", "f", "p", &[("proc/cmdline", b"quiet isolcpus=2-3\n"), isolated]);
        assert!(messages(&by_boot, Goal::Schedule)[0].starts_with("CPUs 2-3 are isolated"));
        assert_eq!(by_boot.obstacles(Goal::Renice).len(), 0);
        assert!(!by_boot.can_load_schedulers());
        let by_cpuset = machine("partition", "f", "p", &[("proc/cmdline", b"quiet\n"), isolated]);
        assert!(by_cpuset.can_load_schedulers());
        // Of its flags, "domain" alone takes CPUs from the scheduler.
        let from_interrupts = machine("managed", "f", "p", &[("proc/cmdline", b"isolcpus=managed_irq,2-3\n")]);
        assert_eq!(messages(&from_interrupts, Goal::Schedule), [""; 0]);
    }

    #[test]
    fn privilege_and_lockdown() {
        let cases: &[(&str, &str, bool)] = &[
            ("nobody", "0000000000000000", false),
            ("admin", "0000000000200000", true),
            ("perfmon alone", "0000004000000000", false),
            ("bpf and perfmon", "000000c000000000", true),
        ];
        for (name, caps, expected) in cases {
            assert_eq!(may_load(&format!("CapEff:\t{caps}\n")), *expected, "{name}");
        }
        let features =
            machine("lockdown", "f", "p", &[("sys/kernel/security/lockdown", b"none integrity [confidentiality]\n")]);
        assert!(matches!(features.obstacles(Goal::Sense)[..], [Error::Lockdown]));
        assert_eq!(parse_lockdown("none [integrity] confidentiality"), Lockdown::Integrity);
    }

    #[test]
    fn hooks_are_in_the_kernel_or_in_a_loaded_module() {
        let hook = |function, module| MissingHook { function, lost: "", module, refused: None, former: None };
        let hooks = [
            hook("tty_read", None),
            MissingHook { former: Some("tty_read"), ..hook("tty_read_anew", None) },
            hook("pipe_read", None),
            hook("evdev_read", Some("evdev")),
            hook("joydev_read", Some("joydev")),
        ];
        let kernel = btf::tests::one_function("tty_read", "file");
        let root = Root::new("hooks", &[("sys/kernel/btf/vmlinux", &kernel), ("sys/kernel/btf/evdev", b"")]);
        let missing: Vec<_> = missing_hooks_at(&root.0, &hooks).iter().map(|hook| hook.function).collect();
        assert_eq!(missing, ["pipe_read", "joydev_read"]);
        let bare = Root::new("no-hooks", &[("x", b"")]);
        assert_eq!(missing_hooks_at(&bare.0, &hooks).len(), 5);
    }

    #[test]
    fn an_empty_root_lacks_everything() {
        let features = probe_at(&Root::new("empty", &[("x", b"")]).0);
        let names = messages(&features, Goal::Schedule);
        assert!(names[0].contains("has no sched_ext"), "{names:?}");
        assert_eq!(names.len(), 3, "{names:?}");
    }
}
