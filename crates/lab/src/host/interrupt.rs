//! Ctrl-C, SIGTERM and SIGHUP: a flag that everything long-running looks at.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use anyhow::{Context, Result, bail};

/// Set by the signal handler, which there is only one of in a process.
static SIGNALLED: AtomicBool = AtomicBool::new(false);

/// Whether a signal asked this process to stop.
#[must_use]
pub fn signalled() -> bool {
    SIGNALLED.load(Ordering::SeqCst)
}

/// Set once the user wants to stop. Clones share the flag.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Installs the signal handlers. A second signal ends the process at once; its children then die by their
    /// parent-death signal.
    ///
    /// # Errors
    /// When handlers are installed already.
    pub fn install() -> Result<Self> {
        let interrupt = Self::default();
        let flag = interrupt.clone();
        ctrlc::set_handler(move || {
            SIGNALLED.store(true, Ordering::SeqCst);
            if flag.0.swap(true, Ordering::SeqCst) {
                std::process::exit(130);
            }
        })
        .context("install signal handlers")?;
        Ok(interrupt)
    }

    /// Whether to stop.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// # Errors
    /// When the user wants to stop.
    pub fn check(&self) -> Result<()> {
        if self.is_set() {
            bail!("interrupted");
        }
        Ok(())
    }

    /// As if the user had pressed Ctrl-C.
    pub fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
