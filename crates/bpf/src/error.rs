//! What can go wrong between user space and the BPF objects. Each message names the cure.

/// Why a BPF object could not be loaded, attached or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller may not load BPF programs.
    #[error(
        "loading BPF programs is not permitted to this user: run it as root (sudo appease run), or start appease.service"
    )]
    NoPrivilege,
    /// The caller may not change nice values of others.
    #[error(
        "changing nice values of others is not permitted to this user, who lacks CAP_SYS_NICE: run it as root (sudo appease run), \
         or start appease.service"
    )]
    NoNicePrivilege,
    /// The kernel lets nobody, or not this process, attach to its functions.
    #[error(
        "the kernel refuses hooks, to {function} for one ({reason}): nobody who reaches this machine would be known. Boot it without lockdown, and \
         give appease the capabilities of its unit (CAP_BPF, CAP_PERFMON). Where there is sched_ext, --policy steady needs no hooks"
    )]
    HooksRefused {
        /// The kernel function.
        function: &'static str,
        /// What the kernel says.
        reason: String,
    },
    /// There is nowhere to keep what must outlast the daemon.
    #[error("{} is no BPF file system: mount one there (mount -t bpf bpf {}), as systemd does", path.display(), path.display())]
    NoBpfFs {
        /// Where it belongs.
        path: std::path::PathBuf,
    },
    /// Somebody else has made our directory.
    #[error("{} is no directory of root's alone, so what is in it may be another's: remove it (rm -r {})", path.display(), path.display())]
    NotOurs {
        /// The directory.
        path: std::path::PathBuf,
    },
    /// The kernel does not describe its own types.
    #[error(
        "this kernel has no BTF (/sys/kernel/btf/vmlinux): boot a kernel built with CONFIG_DEBUG_INFO_BTF=y, as Debian's are"
    )]
    NoBtf,
    /// The kernel cannot run a scheduler made of BPF programs.
    #[error(
        "kernel {kernel} has no sched_ext: boot Linux 6.18 or later built with CONFIG_SCHED_CLASS_EXT=y (Debian: trixie-backports or sid)"
    )]
    NoSchedExt {
        /// Release of the running kernel.
        kernel: String,
    },
    /// The kernel's description of its scheduler functions is wrong, so that it refuses every caller of them.
    #[error(
        "kernel {kernel} has malformed scx kfunc prototypes in its BTF and loads no sched_ext scheduler at all: \
         boot a kernel whose BTF was made by pahole 1.26 or later (Debian: 6.18 of trixie-backports, or sid's)"
    )]
    MalformedBtf {
        /// Release of the running kernel.
        kernel: String,
    },
    /// The kernel runs no scheduler made of BPF programs beside CPUs that were isolated when it was booted.
    #[error(
        "CPUs {cpus} are isolated by the kernel's parameter isolcpus, and it loads no sched_ext scheduler then: boot without isolcpus, \
         and isolate them by a cpuset (echo isolated > cpuset.cpus.partition), which it allows"
    )]
    Isolated {
        /// As the kernel lists them.
        cpus: String,
    },
    /// There can be one sched_ext scheduler at a time.
    #[error(
        "another sched_ext scheduler is attached: {name}; stop it first (scxctl stop, or end the program that started it)"
    )]
    OtherScheduler {
        /// What the kernel calls it.
        name: String,
    },
    /// Lockdown forbids BPF programs to read kernel memory.
    #[error(
        "kernel lockdown is at \"confidentiality\", which forbids tracing by BPF: boot without lockdown=confidentiality \
         (\"integrity\" is fine)"
    )]
    Lockdown,
    /// Our own memory does not do.
    #[error(
        "{mib} MiB of memory for the kernel's types are not to be had: raise the limit of this process (ulimit -v)"
    )]
    NoMemory {
        /// How much was wanted.
        mib: u64,
    },
    /// There is no process with this id.
    #[error("there is no process {0}: look for it with pgrep or ps")]
    NoSuchProcess(u32),
    /// One target cannot lead to so many rules.
    #[error("there are {most} channels for this already, as many as can be told apart: remove one of them first")]
    TooManyRules {
        /// As many as there may be.
        most: usize,
    },
    /// The kernel has sched_ext, and its verifier does not take ours.
    #[error(
        "kernel {kernel} refuses the scheduler ({reason}): boot another one, such as Linux 6.18 or 7.2; \"appease run -vv\" tells what it \
         says of which program"
    )]
    SchedulerRefused {
        /// Release of the running kernel.
        kernel: String,
        /// What libbpf said.
        reason: String,
    },
    /// Whatever else libbpf or the kernel refused. What the verifier says of a program reaches libbpf's log only.
    #[error(
        "{what}: {why}; \"appease doctor\" tells what this kernel lacks, and \"appease run -vv\" what the kernel says of it"
    )]
    Refused {
        /// What was tried, naming the thing ("attach hook tty_read").
        what: String,
        /// What libbpf said.
        why: String,
    },
}

impl Error {
    /// That `what` was refused.
    pub(crate) fn libbpf(what: &str, why: impl std::fmt::Display) -> Self {
        Self::Refused { what: what.to_owned(), why: format!("{why:#}") }
    }

    /// What the kernel says, for a message that has a cure of its own.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Refused { what, why } => format!("{what}: {why}"),
            other => other.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_what_was_tried_and_the_cure() {
        let error = Error::libbpf("attach hook tty_read", libbpf_rs::Error::from_raw_os_error(22));
        assert_eq!(
            error.to_string(),
            "attach hook tty_read: Invalid argument (os error 22); \"appease doctor\" tells what this kernel lacks, and \
             \"appease run -vv\" what the kernel says of it"
        );
        assert!(std::error::Error::source(&error).is_none());
    }
}
