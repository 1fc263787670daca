//! The signals that end the daemon.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::Error;

/// Registered handlers; from here on the signals no longer kill.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    pub(crate) fn register() -> Result<Self, Error> {
        let one = |kind| signal(kind).map_err(|source| Error::Runtime { what: "registering a signal handler", source });
        Ok(Self {
            interrupt: one(SignalKind::interrupt())?,
            terminate: one(SignalKind::terminate())?,
            hangup: one(SignalKind::hangup())?,
        })
    }

    /// Waits for one; its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hangup.recv() => "SIGHUP",
        }
    }
}
