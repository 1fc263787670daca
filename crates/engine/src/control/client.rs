//! Asks the daemon, without async for the caller.

use std::{
    fmt, io,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::net;
use serde::Serialize;
use zlink::tokio::unix;

use super::{
    limits::Answered,
    people::People,
    wire::{
        Account, ChannelLatency, ChannelRow, ChannelWords, ControlError, ControlProxy, CustomerRow, Reloaded, Status,
        Why,
    },
};

type Connection = zlink::Connection<Answered>;

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

/// The channels that are in force, or wait for what they are about.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChannelList {
    /// By id.
    pub channels: Vec<ChannelRow>,
    /// Whether hits and handlers were left out, because the asker is not root: they tell when somebody types.
    pub restricted: bool,
}

/// What came of requests, by customer and by channel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatencyReport {
    /// All customers together that the asker may see.
    pub total: Account,
    /// The same by channel; empty unless root asks.
    pub channels: Vec<ChannelLatency>,
    /// By id.
    pub customers: Vec<CustomerRow>,
    /// Bounds of what [`super::Times`] counts together, nanoseconds.
    pub edges_ns: Vec<u64>,
    /// Whether customers were left out, because the asker is not root.
    pub restricted: bool,
}

/// Connects, and waits its turn where others do: a client that does not wait finds the queue full each time.
fn connect(socket: &Path) -> io::Result<UnixStream> {
    let stream = net::socket_with(net::AddressFamily::UNIX, net::SocketType::STREAM, net::SocketFlags::CLOEXEC, None)?;
    net::sockopt::set_socket_timeout(&stream, net::sockopt::Timeout::Send, Some(PATIENCE))?;
    net::connect(&stream, &net::SocketAddrUnix::new(socket)?)?;
    Ok(stream.into())
}

/// A way to ask the daemon.
#[derive(Debug)]
pub struct Client {
    people: People,
    socket: PathBuf,
    runtime: tokio::runtime::Runtime,
    connection: Connection,
}

impl Client {
    /// Connects to the daemon's control socket.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn connect(socket: &Path) -> Result<Self, ClientError> {
        let socket = socket.to_path_buf();
        let broken = |reason| ClientError::Broken { socket: socket.clone(), reason };
        let stream = connect(&socket).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                ClientError::NotRunning { socket: socket.clone() }
            }
            io::ErrorKind::WouldBlock => ClientError::Silent { socket: socket.clone() },
            _ => broken(error.to_string()),
        })?;
        Self::over(stream, socket, Path::new("/"))
    }

    /// Speaks to whoever is at the other end of `stream`, on the machine whose `/proc` is below `root`.
    pub(crate) fn over(stream: UnixStream, socket: PathBuf, root: &Path) -> Result<Self, ClientError> {
        let broken =
            |error: &dyn fmt::Display| ClientError::Broken { socket: socket.clone(), reason: error.to_string() };
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| broken(&error))?;
        let stream = {
            let _guard = runtime.enter();
            unix::Stream::try_from(stream).map_err(|error| broken(&error))?
        };
        Ok(Self { people: People::new(root), socket, runtime, connection: Connection::new(Answered(stream)) })
    }

    /// The daemon and what it does.
    ///
    /// # Errors
    /// When it refuses or does not answer.
    pub fn status(&mut self) -> Result<Status, ClientError> {
        self.ask(async |connection| connection.status().await)
    }

    /// Why the process runs in its lane.
    ///
    /// # Errors
    /// When the daemon refuses or does not answer, or when there is no such process.
    pub fn why(&mut self, pid: u32) -> Result<Why, ClientError> {
        let mut why = self.ask(async |connection| connection.why(pid).await)?;
        if let Some(customer) = why.chain.as_mut().and_then(|chain| chain.customer.as_mut()) {
            self.people.name(customer);
        }
        Ok(why)
    }

    /// What came of requests.
    ///
    /// # Errors
    /// When the daemon refuses or does not answer, or when its policy tells no requests apart.
    pub fn latency(&mut self) -> Result<LatencyReport, ClientError> {
        let mut page = self.ask(async |connection| connection.latency(0).await)?;
        let total = page.total.take().ok_or_else(|| ClientError::Broken {
            socket: self.socket.clone(),
            reason: "the first page has no totals".into(),
        })?;
        let (channels, edges_ns, restricted) = (page.channels, page.edges_ns, page.restricted);
        let mut report = LatencyReport { total, channels, customers: page.customers, edges_ns, restricted };
        let mut from = 0;
        while let Some(next) = page.next {
            if next <= from {
                return Err(self.endless("customers"));
            }
            from = next;
            page = self.ask(async |connection| connection.latency(from).await)?;
            report.customers.append(&mut page.customers);
        }
        report.customers.iter_mut().for_each(|row| self.people.name(&mut row.customer));
        Ok(report)
    }

    /// All channels.
    ///
    /// # Errors
    /// When the daemon refuses or does not answer.
    pub fn channels(&mut self) -> Result<ChannelList, ClientError> {
        let mut list = ChannelList { channels: Vec::new(), restricted: false };
        loop {
            let after = list.channels.last().map_or(0, |channel| channel.id);
            let page = self.ask(async |connection| connection.list_channels(after).await)?;
            list.restricted = page.restricted;
            list.channels.extend(page.channels);
            if !page.more {
                return Ok(list);
            }
            if list.channels.last().is_none_or(|channel| channel.id <= after) {
                return Err(self.endless("channels"));
            }
        }
    }

    /// Adds a channel, which is returned as it is listed.
    ///
    /// # Errors
    /// When the daemon refuses or does not answer.
    pub fn add_channel(&mut self, channel: &ChannelWords) -> Result<ChannelRow, ClientError> {
        self.ask(async |connection| connection.add_channel(channel).await)
    }

    /// Removes the channel with this id, which is returned as it was listed.
    ///
    /// # Errors
    /// When the daemon refuses or does not answer, or when there is no such channel.
    pub fn remove_channel(&mut self, id: u32) -> Result<ChannelRow, ClientError> {
        self.ask(async |connection| connection.remove_channel(id).await)
    }

    /// As [`Client::remove_channel`], by the words that it was added with.
    ///
    /// # Errors
    /// When the daemon refuses or does not answer, or when there is no such channel.
    pub fn remove_channel_by_words(&mut self, channel: &ChannelWords) -> Result<ChannelRow, ClientError> {
        self.ask(async |connection| connection.remove_channel_by_words(channel).await)
    }

    /// Has the daemon read its configuration file anew.
    ///
    /// # Errors
    /// When the daemon refuses or does not answer; it then goes on with the old configuration.
    pub fn reload(&mut self) -> Result<Reloaded, ClientError> {
        self.ask(async |connection| connection.reload().await)
    }

    /// A page is followed by one that begins no later: so it would go on for ever.
    fn endless(&self, what: &str) -> ClientError {
        ClientError::Broken { socket: self.socket.clone(), reason: format!("its list of {what} has no end") }
    }

    fn ask<T>(
        &mut self,
        question: impl AsyncFnOnce(&mut Connection) -> zlink::Result<Result<T, ControlError>>,
    ) -> Result<T, ClientError> {
        let answered = async { tokio::time::timeout(PATIENCE, question(&mut self.connection)).await };
        let socket = self.socket.clone();
        match self.runtime.block_on(answered) {
            Err(_elapsed) => Err(ClientError::Silent { socket }),
            Ok(Err(error)) => Err(ClientError::Broken { socket, reason: error.to_string() }),
            Ok(Ok(reply)) => Ok(reply?),
        }
    }
}
