//! Something to do while the machine is set up.
//!
//! In exact mode the clock of an idle machine jumps to its next timer, while a disk answers in the host's time: on a busy
//! host, a program that loads from disk would look minutes slow, and time limits of the set-up would pass in an instant.
//! A task that only runs when nothing else does keeps the clock at the pace of execution.

use std::{
    fs,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result};
use appease_scenario::Mode;

use crate::{clock, hog};

/// Milliseconds that it may take to start.
const SETTLE_LOOKS: u32 = 5000;

/// Spins as long as it lives.
pub struct Spinner(Option<Child>);

impl Spinner {
    /// Starts to spin, in exact mode.
    pub fn start(mode: Mode) -> Result<Self> {
        if mode != Mode::Exact {
            return Ok(Self(None));
        }
        let child = Command::new("chrt")
            .args(["--idle", "0"])
            .args(hog::words())
            .stdin(Stdio::null())
            .spawn()
            .context("start chrt")?;
        let spinner = Self(Some(child));
        spinner.settle();
        Ok(spinner)
    }
}

impl Spinner {
    /// Until it spins. A task that changes its policy while a scheduler of `sched_ext` is being detached goes to the kernel's own class at
    /// once, which is above that of all others: one that spins there keeps them from the CPU, and on Linux 6.18, which has no deadline
    /// server for them, the kernel waits for their RCU threads for ever.
    fn settle(&self) {
        let Some(child) = &self.0 else { return };
        let comm = format!("/proc/{}/comm", child.id());
        for _ in 0..SETTLE_LOOKS {
            if fs::read_to_string(&comm).is_ok_and(|comm| comm.trim() == hog::NAME) {
                return;
            }
            clock::sleep_ms(1);
        }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // It may be gone already; then there is nothing to end.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
