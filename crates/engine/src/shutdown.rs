//! The signals that end the daemon, and the one that has it read its configuration anew.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::Error;

/// Registered handlers; from here on the signals no longer kill.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn register() -> Result<Self, Error> {
        Ok(Self { interrupt: handler(SignalKind::interrupt())?, terminate: handler(SignalKind::terminate())? })
    }

    /// Waits for one; its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

/// SIGHUP.
pub(crate) struct Hangups(Signal);

impl Hangups {
    pub(crate) fn register() -> Result<Self, Error> {
        handler(SignalKind::hangup()).map(Self)
    }

    /// Waits for one.
    pub(crate) async fn next(&mut self) {
        self.0.recv().await;
    }
}

fn handler(kind: SignalKind) -> Result<Signal, Error> {
    signal(kind).map_err(|source| Error::Runtime { what: "registering a signal handler", source })
}

#[cfg(test)]
mod tests {
    use rustix::process::{self, getpid, kill_process};

    use super::*;

    #[test]
    fn a_hangup_no_longer_kills() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut hangups = Hangups::register().expect("registered");
            kill_process(getpid(), process::Signal::HUP).expect("sent");
            hangups.next().await;
        });
    }
}
