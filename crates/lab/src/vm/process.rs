//! A QEMU process that does not outlive whoever holds it.

use std::{
    os::unix::process::CommandExt,
    process::{Child, Command, ExitStatus},
};

use anyhow::{Context, Result};

/// A running QEMU; dropping it ends it. Should we die without dropping, the kernel does it, by the parent-death
/// signal that [`guarded`](crate::host::guarded) asks for.
#[derive(Debug)]
pub struct Qemu(Child);

impl Qemu {
    /// Starts a command in a process group of its own, so that the terminal's Ctrl-C reaches only us and we can
    /// say what was stopped. The thread that calls this must live as long as the machine shall.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(mut command: Command) -> Result<Self> {
        command.process_group(0);
        command.spawn().map(Self).context("start qemu-system-x86_64")
    }

    /// Starts a command that shares our terminal.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_in_foreground(mut command: Command) -> Result<Self> {
        command.spawn().map(Self).context("start qemu-system-x86_64")
    }

    /// How it ended, if it did.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn exited(&mut self) -> Result<Option<ExitStatus>> {
        self.0.try_wait().context("look after qemu-system-x86_64")
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{path::PathBuf, process::Command};

    use anyhow::Result;

    use super::Qemu;
    use crate::host::guarded;

    fn lives(pid: u32) -> bool {
        PathBuf::from(format!("/proc/{pid}/exe")).exists()
    }

    #[test]
    fn dropping_ends_the_process() -> Result<()> {
        let mut command = Command::new("sleep");
        command.arg("1000");
        let qemu = Qemu::start(command)?;
        let pid = qemu.0.id();
        assert!(lives(pid));
        drop(qemu);
        assert!(!lives(pid));
        Ok(())
    }

    #[test]
    fn the_process_ends_with_the_thread_that_started_it() -> Result<()> {
        let thread = std::thread::spawn(|| {
            let mut command = guarded("sleep", "KILL");
            command.arg("1000");
            // Leaked on purpose: nobody drops it.
            Qemu::start(command).map(|qemu| {
                std::thread::sleep(std::time::Duration::from_millis(300));
                let pid = qemu.0.id();
                std::mem::forget(qemu);
                pid
            })
        });
        let pid = thread.join().map_err(|_| anyhow::anyhow!("the thread panicked"))??;
        std::thread::sleep(std::time::Duration::from_millis(300));
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "still there: {state}");
        Ok(())
    }
}
