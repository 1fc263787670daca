//! Our daemon, started in every way in which it may have to.

use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::process::Signal;

use super::Backend;
use crate::{
    app::{Launch, Program},
    classes::leaving::ended_by,
    clock::{self, Deadline, MS},
    scheduler,
    scope::Scopes,
    system::TOOLS,
};

/// How long it may take to be ready, and to end, busy seconds.
const READY_LIMIT_S: u64 = 90;
const END_LIMIT_S: u64 = 20;
/// How the daemon says that it is ready.
const READY: &str = "ready: policy";
/// How a program of ours that fails says why.
const COMPLAINT: &str = "appease: ";

/// One that was started.
pub struct Daemon {
    program: Program,
    backend: Backend,
}

/// Words of a command line that has the daemon act by this backend.
pub fn words(backend: Backend) -> Vec<String> {
    [&format!("{TOOLS}/appease"), "run", "--backend", backend.name()].map(|word| word.to_owned()).to_vec()
}

impl Daemon {
    /// Starts it.
    pub fn start(backend: Backend) -> Result<Self> {
        Self::start_as("daemon", backend, &[], &words(backend))
    }

    /// The same under commands that limit it, such as `prlimit --nofile=8`, and with any words of its own. The log has this name.
    pub fn start_as(name: &str, backend: Backend, under: &[&str], words: &[String]) -> Result<Self> {
        let argv: Vec<String> = under.iter().map(|word| (*word).to_owned()).chain(words.iter().cloned()).collect();
        Ok(Self { program: Launch::new(name, Scopes::none(), &argv).start()?, backend })
    }

    /// Starts it, and waits until it is ready.
    pub fn ready(backend: Backend) -> Result<Self> {
        let mut daemon = Self::start(backend)?;
        daemon.wait_until_ready()?;
        Ok(daemon)
    }

    /// Waits for that; an error if it ends before.
    pub fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Deadline::after_s(READY_LIMIT_S);
        while !self.program.log_text().contains(READY) {
            self.program.must_run()?;
            ensure!(!deadline.has_passed(), self.program.complaint(&format!("was not ready after {READY_LIMIT_S} s")));
            clock::sleep_ms(20);
        }
        Ok(())
    }

    /// Waits until it is ready, or has ended by itself: then how.
    pub fn ready_or_ended(&mut self) -> Result<Option<ExitStatus>> {
        let deadline = Deadline::after_s(READY_LIMIT_S);
        loop {
            if let Some(status) = self.program.ended()? {
                return Ok(Some(status));
            }
            if self.program.log_text().contains(READY) {
                return Ok(None);
            }
            ensure!(!deadline.has_passed(), self.program.complaint("is neither ready nor has it ended"));
            clock::sleep_ms(20);
        }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.program.pid()
    }

    /// What it logged.
    pub fn log(&self) -> String {
        self.program.log_text()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.program.signal(signal)
    }

    /// Fails if it has ended.
    pub fn must_run(&mut self) -> Result<()> {
        self.program.must_run()
    }

    /// Kills it. When it is gone the kernel must schedule by itself.
    pub fn kill(mut self) -> Result<()> {
        // It may have ended just now.
        let _ = self.program.signal(Signal::KILL);
        self.wait_until_gone().map(drop)
    }

    /// Asks it to end, which it must do well.
    pub fn end(mut self) -> Result<()> {
        self.program.signal(Signal::TERM)?;
        let (status, log) = self.wait_until_gone()?;
        ended_by(status, Signal::TERM).map_err(|error| anyhow!("{error}: {log}"))
    }

    /// Waits until it has ended, and the kernel schedules by itself: how, and what it logged.
    pub fn wait_until_gone(&mut self) -> Result<(ExitStatus, String)> {
        let status = match self.program.ended()? {
            Some(status) => status,
            None => self.wait_for_end()?,
        };
        if self.backend == Backend::Scx {
            is_detached()?;
        }
        Ok((status, self.program.log_text()))
    }

    fn wait_for_end(&mut self) -> Result<ExitStatus> {
        let limit_ns = clock::now_ns() + END_LIMIT_S * clock::SECOND;
        if let Some((status, _)) = self.program.wait_until(limit_ns)? {
            return Ok(status);
        }
        let error = self.program.complaint(&format!("did not end within {END_LIMIT_S} s"));
        self.program.kill();
        Err(error)
    }

    /// It must end by itself, badly, and say why in one line, which is returned.
    pub fn must_refuse(&mut self) -> Result<String> {
        let (status, log) = self.wait_until_gone()?;
        ensure!(!status.success(), "it ended as if all were well: {log}");
        let lines: Vec<&str> = log.lines().filter(|line| line.starts_with(COMPLAINT)).collect();
        ensure!(status.code().is_some() && !log.contains("panicked"), "{status}: {log}");
        match lines.as_slice() {
            [line] => Ok((*line).to_owned()),
            _ => bail!("{} lines say why it ended, and not one: {log}", lines.len()),
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.program.kill();
    }
}

/// Waits until the kernel schedules by itself.
pub fn is_detached() -> Result<()> {
    let end_ns = clock::now_ns() + END_LIMIT_S * clock::SECOND;
    while !["", "disabled"].contains(&scheduler::state().as_str()) {
        ensure!(clock::now_ns() < end_ns, "sched_ext is {} {END_LIMIT_S} s after its end", scheduler::state());
        clock::sleep_ms(1);
    }
    Ok(())
}

/// `appease restore`, as the unit does after each end of the daemon; how many threads and CPUs it gave back what they had.
pub fn restore(more: &[&str]) -> Result<u32> {
    let out = Command::new(format!("{TOOLS}/appease")).arg("restore").args(more).output();
    let out = out.context("start appease restore")?;
    ensure!(out.status.success(), "appease restore: {}", String::from_utf8_lossy(&out.stderr).trim());
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.split(' ').next().and_then(|word| word.parse().ok()).with_context(|| format!("appease restore says {text:?}"))
}

/// Milliseconds since then.
pub fn since_ms(begin_ns: u64) -> u64 {
    (clock::now_ns() - begin_ns) / MS
}
