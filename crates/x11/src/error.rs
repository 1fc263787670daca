//! Why the agent did not start, or ended.

use std::{io, path::PathBuf};

use nix::errno::Errno;
use x11rb::errors::{ConnectError, ConnectionError, ReplyError, ReplyOrIdError};

/// Why the agent did not start, or ended. Each message names the thing and the cure.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody said which display, and the environment does not know either.
    #[error("there is no X display: name one by --display or by DISPLAY, as in DISPLAY=:0")]
    NoDisplay,
    /// The session has a Wayland compositor and no X server.
    #[error(
        "{wayland} is a display of Wayland, and there is none of X: a compositor decides itself whom it serves, so appease x11 \
         is not needed; for an X server beside it, set DISPLAY"
    )]
    Wayland {
        /// What `WAYLAND_DISPLAY` says.
        wayland: String,
    },
    /// No X server there, or it does not let us in.
    #[error(
        "display {display} cannot be reached: {source}; name one that is there by --display or DISPLAY, and run as its user (XAUTHORITY)"
    )]
    Unreachable {
        /// Its name.
        display: String,
        /// Why not; part of the message, hence not a `source()` that would be printed once more.
        r#source: ConnectError,
    },
    /// Its clients have no priorities.
    #[error(
        "display {display} lacks the extension SYNC, which has the priorities of clients: use an X server with it, as Xorg is"
    )]
    NoSync {
        /// Its name.
        display: String,
    },
    /// There is one agent per display.
    #[error("another appease x11 serves display {display} already: stop that one first")]
    AlreadyServed {
        /// Its name.
        display: String,
    },
    /// The file that says which priorities are ours.
    #[error("{what} {path}: {source}; set XDG_RUNTIME_DIR to a directory of your own that you can write")]
    File {
        /// What was tried.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why not; part of the message.
        r#source: io::Error,
    },
    /// The X server ended, or closed the connection.
    #[error("the X server has gone: {0}")]
    Lost(ConnectionError),
    /// The X server refuses what every X server does.
    #[error("the X server refuses to {what}: {reason}")]
    Refused {
        /// What was asked for.
        what: &'static str,
        /// What it says.
        reason: String,
    },
    /// Signals cannot be waited for.
    #[error("waiting for signals and the X server: {0}")]
    Waiting(#[from] Errno),
}

impl From<ConnectionError> for Error {
    fn from(error: ConnectionError) -> Self {
        Self::Lost(error)
    }
}

impl Error {
    /// An answer that did not come, for whatever reason.
    pub(crate) fn of(what: &'static str) -> impl FnOnce(ReplyError) -> Self {
        move |error| match error {
            ReplyError::ConnectionError(error) => Self::Lost(error),
            ReplyError::X11Error(error) => Self::Refused { what, reason: format!("{:?}", error.error_kind) },
        }
    }

    /// The same where an id was wanted.
    pub(crate) fn of_id(what: &'static str) -> impl FnOnce(ReplyOrIdError) -> Self {
        move |error| match error {
            ReplyOrIdError::ConnectionError(error) => Self::Lost(error),
            ReplyOrIdError::X11Error(error) => Self::Refused { what, reason: format!("{:?}", error.error_kind) },
            ReplyOrIdError::IdsExhausted => Self::Refused { what, reason: "it has no ids left".into() },
        }
    }
}
