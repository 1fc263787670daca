//! Processes that burn CPU time and nothing else.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// Hogs, as long as this value lives.
pub struct Hogs(Vec<Child>);

impl Hogs {
    /// Starts so many.
    pub fn start(number: usize) -> Result<Self> {
        let mut hogs = Self(Vec::new());
        for _ in 0..number {
            let child = Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn();
            hogs.0.push(child.context("start sh")?);
        }
        Ok(hogs)
    }

    /// Their processes.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(Child::id)
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}
