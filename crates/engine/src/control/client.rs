//! Asks the daemon, without async for the caller.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use zlink::tokio::unix;

use super::wire::{ControlError, ControlProxy, Status, Why};

/// How long an answer may take: the daemon is one thread, and other things come first.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error(
        "appease is not running (nobody answers at {socket}): start it with \"systemctl start appease\" or \"sudo appease run\""
    )]
    NotRunning {
        /// The socket.
        socket: PathBuf,
    },
    /// The daemon refuses.
    #[error(transparent)]
    Refused(#[from] ControlError),
    /// It took too long.
    #[error("the daemon at {socket} does not answer within {} s: look at its log (journalctl -u appease)", PATIENCE.as_secs())]
    Silent {
        /// The socket.
        socket: PathBuf,
    },
    /// The conversation failed.
    #[error("asking the daemon at {socket}: {reason}")]
    Broken {
        /// The socket.
        socket: PathBuf,
        /// How.
        reason: String,
    },
}

/// A way to ask the daemon.
#[derive(Debug)]
pub struct Client {
    socket: PathBuf,
    runtime: tokio::runtime::Runtime,
    connection: unix::Connection,
}

impl Client {
    /// Connects to the daemon's control socket.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn connect(socket: &Path) -> Result<Self, ClientError> {
        let socket = socket.to_path_buf();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| ClientError::Broken { socket: socket.clone(), reason: error.to_string() })?;
        match runtime.block_on(unix::connect(&socket)) {
            Ok(connection) => Ok(Self { socket, runtime, connection }),
            Err(zlink::Error::Io(error))
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
            {
                Err(ClientError::NotRunning { socket })
            }
            Err(error) => Err(ClientError::Broken { socket, reason: error.to_string() }),
        }
    }

    /// The daemon and what it does.
    ///
    /// # Errors
    /// When it refuses or does not answer.
    pub fn status(&mut self) -> Result<Status, ClientError> {
        let answer = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, self.connection.status()).await });
        Self::understand(&self.socket, answer)
    }

    /// Why the process runs in its lane.
    ///
    /// # Errors
    /// When the daemon refuses or does not answer, or when there is no such process.
    pub fn why(&mut self, pid: u32) -> Result<Why, ClientError> {
        let answer = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, self.connection.why(pid)).await });
        Self::understand(&self.socket, answer)
    }

    fn understand<T>(
        socket: &Path,
        answer: Result<zlink::Result<Result<T, ControlError>>, tokio::time::error::Elapsed>,
    ) -> Result<T, ClientError> {
        let socket = socket.to_path_buf();
        match answer {
            Err(_elapsed) => Err(ClientError::Silent { socket }),
            Ok(Err(error)) => Err(ClientError::Broken { socket, reason: error.to_string() }),
            Ok(Ok(reply)) => Ok(reply?),
        }
    }
}
