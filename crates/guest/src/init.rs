//! The first process: prepares the system, reaps, powers off.
//!
//! It stays apart from the session so that a session that dies, even by the kernel's hand, still
//! ends in a result.

use std::{
    collections::BTreeMap,
    fs,
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context, Result, bail};
use appease_scenario::{Event, Outcome};
use rustix::{
    process::{WaitOptions, wait},
    system::{RebootCommand, reboot},
};

use crate::{host::Host, system};

/// Kernel command line word that asks for a shell on the serial line instead of the job.
const SHELL_WORD: &str = "appease.shell";
const SERIAL: &str = "/dev/ttyS0";

/// Runs until the machine is off.
pub fn run() -> ExitCode {
    if rustix::process::getpid().as_raw_nonzero().get() != 1 {
        eprintln!("appease-guest init: this is no laboratory machine (I am not process 1); use appease-lab");
        return ExitCode::FAILURE;
    }
    if let Err(error) = live() {
        eprintln!("appease-guest init: {error:#}");
        tell_failure(&format!("{error:#}"));
    }
    rustix::fs::sync();
    let error = reboot(RebootCommand::PowerOff);
    eprintln!("appease-guest init: power off: {error:?}");
    loop {
        std::thread::park();
    }
}

fn live() -> Result<()> {
    system::mount_all()?;
    let line = fs::read_to_string("/proc/cmdline").context("read /proc/cmdline")?;
    let mut command = if line.split_whitespace().any(|word| word == SHELL_WORD) {
        shell()?
    } else {
        let mut session = Command::new("/proc/self/exe");
        session.arg("session").stdin(Stdio::null());
        session
    };
    let child = command
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", "/root")
        .env("LC_ALL", "C.UTF-8")
        .spawn()
        .context("start the session")?;
    let status = reap_until(child.id())?;
    if status != 0 {
        bail!("the session ended without a result (wait status {status:#x})");
    }
    Ok(())
}

/// A login-less shell that owns the serial line.
fn shell() -> Result<Command> {
    let open = || fs::OpenOptions::new().read(true).write(true).open(SERIAL).with_context(|| format!("open {SERIAL}"));
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait", "sh", "-c", "sh -i; exit 0"]).env("TERM", "vt100");
    command.stdin(open()?).stdout(open()?).stderr(open()?);
    Ok(command)
}

/// Reaps every child until `pid` ends; its raw wait status.
fn reap_until(pid: u32) -> Result<i32> {
    loop {
        let reaped = wait(WaitOptions::empty()).context("wait for children")?;
        if let Some((child, status)) = reaped
            && child.as_raw_nonzero().get().unsigned_abs() == pid
        {
            return Ok(status.as_raw());
        }
    }
}

fn tell_failure(detail: &str) {
    Host::open().tell(&Event::Result {
        outcome: Outcome::Failed,
        detail: detail.to_owned(),
        metrics: BTreeMap::new(),
        kernel: system::kernel_release(),
    });
}
