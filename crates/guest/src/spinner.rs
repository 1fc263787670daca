//! Something to do while the machine is set up.
//!
//! In exact mode the clock of an idle machine jumps to its next timer, while a disk answers in the host's time: on a busy
//! host, a program that loads from disk would look minutes slow, and time limits of the set-up would pass in an instant.
//! A task that only runs when nothing else does keeps the clock at the pace of execution.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use appease_scenario::Mode;

/// Spins as long as it lives.
pub struct Spinner(Option<Child>);

impl Spinner {
    /// Starts to spin, in exact mode.
    pub fn start(mode: Mode) -> Result<Self> {
        if mode != Mode::Exact {
            return Ok(Self(None));
        }
        let spin = ["--idle", "0", "sh", "-c", "while :; do :; done"];
        let child = Command::new("chrt").args(spin).stdin(Stdio::null()).spawn().context("start chrt")?;
        Ok(Self(Some(child)))
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
