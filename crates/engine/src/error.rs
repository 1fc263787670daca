//! Why the daemon did not start, or ended.

use std::path::PathBuf;

/// Why the daemon did not start, or ended. Each message names the thing and the cure.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel or its interface refused.
    #[error(transparent)]
    Bpf(#[from] appease_bpf::Error),
    /// There is one daemon per machine.
    #[error(
        "appease is already running: process {pid} ({comm}) holds its lock; ask it with \"appease status\", or stop it first (systemctl stop appease, or kill {pid})"
    )]
    AlreadyRunning {
        /// The process that holds the lock.
        pid: u32,
        /// Its name; empty if it has ended meanwhile.
        comm: String,
    },
    /// Only root can give back what root changed.
    #[error("taking back what a daemon has left changed is root's: sudo appease restore")]
    RestoreNeedsRoot,
    /// The lock is held by a process that this one cannot see.
    #[error(
        "{path} is locked by a process that is not to be seen from here, in another container for one: end what holds it (lsof {path} outside names it)"
    )]
    LockHeld {
        /// The lock.
        path: PathBuf,
    },
    /// A file or directory of the daemon's own.
    #[error(
        "{what} {path}: {source}; appease run must be able to write there: run it as root, or name another directory by --run-dir"
    )]
    File {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not; part of the message, hence not a `source()` that would be printed once more.
        r#source: std::io::Error,
    },
    /// The kernel has detached the scheduler and goes on with its own.
    #[error(
        "the kernel ejected the scheduler: {reason}; every process is scheduled by the kernel's own scheduler again"
    )]
    Ejected {
        /// What the kernel says.
        reason: String,
    },
    /// It has done so often enough for a day.
    #[error(
        "the kernel ejected the scheduler for the third time within a day: {reason}; every process is scheduled by the kernel's own scheduler. The unit is not started again by itself: systemctl start appease does that, once the cause is gone"
    )]
    EjectedTooOften {
        /// What the kernel says.
        reason: String,
    },
    /// The configuration is wrong, or files cannot be watched.
    #[error(transparent)]
    Channels(#[from] crate::channel::Refusal),
    /// Signals or timers cannot be set up.
    #[error("{what}: {source}")]
    Runtime {
        /// What was tried.
        what: &'static str,
        /// Why not; part of the message.
        r#source: std::io::Error,
    },
}
