//! The daemon's side of the control socket.
//!
//! Each connection is a task of its own, for a limited time and only a few for each user, so that a client
//! that never reads its answers keeps nobody else from asking.

use std::{
    cell::RefCell,
    collections::HashMap,
    convert::Infallible,
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    pin::Pin,
    rc::Rc,
    time::Duration,
};

use tokio::{
    net::{UnixListener, UnixStream},
    task, time,
};
use zlink::{ReadyListener, Server, tokio::unix::Stream};

use super::wire::{
    Account, Attended, Chain, ChannelLatency, ChannelPage, ChannelRow, ChannelWords, Command, Confidence, ControlError,
    Counter, CustomerName, CustomerRow, Handler, Handling, HopStep, LaneNs, LatencyPage, Lifted, Missing, Reloaded,
    RequestTotals, Responses, Standing, Status, Times, Why,
};
use crate::Error;

/// Connections that one user may have at a time.
const CONNECTIONS_PER_USER: u32 = 16;
/// How long a connection may last.
const CONNECTION_LIFE: Duration = Duration::from_secs(60);
/// Pause after a failure to accept, which comes from a lack of file descriptors and would repeat at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    /// The user.
    pub uid: u32,
}

impl Peer {
    /// Whether it may learn about processes of `owner`; those that belong to nobody are root's.
    pub(crate) fn may_see(self, owner: Option<u32>) -> bool {
        self.uid == 0 || owner == Some(self.uid)
    }

    /// Fails unless it may change something.
    pub(crate) fn must_be_root(self) -> Result<(), ControlError> {
        if self.uid == 0 { Ok(()) } else { Err(ControlError::RootOnly) }
    }
}

/// What takes a while.
pub(crate) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, ControlError>> + 'a>>;

/// Answers questions.
pub(crate) trait Reports {
    fn status(&self, peer: Peer) -> Result<Status, ControlError>;
    fn why(&self, peer: Peer, pid: u32) -> Result<Why, ControlError>;
    fn list_channels(&self, peer: Peer, after: u32) -> Result<ChannelPage, ControlError>;
    /// Its host name, if it has one, must be resolved.
    fn add_channel(&self, peer: Peer, channel: ChannelWords) -> Answer<'_, ChannelRow>;
    fn remove_channel(&self, peer: Peer, id: u32) -> Result<ChannelRow, ControlError>;
    fn remove_channel_by_words(&self, peer: Peer, channel: &ChannelWords) -> Result<ChannelRow, ControlError>;
    fn latency(&self, peer: Peer, from: u32) -> Result<LatencyPage, ControlError>;
    fn reload(&self, peer: Peer) -> Result<Reloaded, ControlError>;
}

/// The bound socket; dropping it removes the file.
#[derive(Debug)]
pub(crate) struct Listener {
    path: PathBuf,
    listener: UnixListener,
}

impl Listener {
    /// Binds `path`, open to everybody. What is there is stale: the caller holds the daemon's lock.
    pub(crate) fn bind(path: &Path) -> Result<Self, Error> {
        let failed = |what| move |source| Error::File { what, path: path.into(), source };
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("removing stale socket")(error));
            }
            _ => {}
        }
        let listener = UnixListener::bind(path).map_err(failed("binding control socket"))?;
        let bound = Self { path: path.into(), listener };
        fs::set_permissions(path, fs::Permissions::from_mode(0o666)).map_err(failed("opening to all users"))?;
        Ok(bound)
    }

    /// Serves for ever; must run inside a [`task::LocalSet`].
    pub(crate) async fn serve(&self, reports: Rc<dyn Reports>) -> Infallible {
        let connections = Rc::new(RefCell::new(HashMap::new()));
        loop {
            let accepted = async {
                let (stream, _) = self.listener.accept().await?;
                let peer = Peer { uid: stream.peer_cred()?.uid() };
                Ok::<_, io::Error>((stream, peer))
            };
            match accepted.await {
                Ok((stream, peer)) => match Place::take(&connections, peer.uid) {
                    Some(place) => {
                        task::spawn_local(answer(stream, peer, Rc::clone(&reports), place));
                    }
                    None => tracing::warn!(
                        "user {} has {CONNECTIONS_PER_USER} connections to the control socket: one more is refused",
                        peer.uid
                    ),
                },
                Err(error) => {
                    tracing::warn!("a client of the control socket is refused: {error}");
                    time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = fs::remove_file(&self.path);
    }
}

type Connections = Rc<RefCell<HashMap<u32, u32>>>;

/// One of the connections that a user may have.
struct Place {
    connections: Connections,
    uid: u32,
}

impl Place {
    fn take(connections: &Connections, uid: u32) -> Option<Self> {
        let mut counts = connections.borrow_mut();
        let count = counts.entry(uid).or_insert(0);
        (*count < CONNECTIONS_PER_USER).then(|| {
            *count += 1;
            Self { connections: Rc::clone(connections), uid }
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.connections.borrow_mut();
        if let Some(count) = counts.get_mut(&self.uid) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.uid);
            }
        }
    }
}

async fn answer(stream: UnixStream, peer: Peer, reports: Rc<dyn Reports>, _place: Place) {
    let served =
        async { Server::new(ReadyListener::new(Stream::try_from(stream)?), Service { peer, reports }).run().await };
    match time::timeout(CONNECTION_LIFE, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!("a client of user {}: {error}", peer.uid),
        Err(_elapsed) => tracing::debug!("a client of user {} stayed too long", peer.uid),
    }
}

/// One connection's view of the daemon.
struct Service {
    peer: Peer,
    reports: Rc<dyn Reports>,
}

#[zlink::service(
    interface = "appease.control",
    types = [
        Status, Missing, Counter, Command, Attended, Why, Standing, Chain, HopStep, LaneNs, ChannelWords, ChannelPage, ChannelRow,
        Handler, Reloaded, Lifted, Handling, Confidence, RequestTotals, CustomerName, LatencyPage, CustomerRow, Account,
        ChannelLatency, Responses, Times
    ],
    vendor = "appease",
    product = "appease",
    version = env!("CARGO_PKG_VERSION"),
    url = ""
)]
impl Service {
    async fn status(&self) -> Result<Status, ControlError> {
        self.reports.status(self.peer)
    }

    async fn why(&self, pid: u32) -> Result<Why, ControlError> {
        self.reports.why(self.peer, pid)
    }

    async fn list_channels(&self, after: u32) -> Result<ChannelPage, ControlError> {
        self.reports.list_channels(self.peer, after)
    }

    async fn add_channel(&self, channel: ChannelWords) -> Result<ChannelRow, ControlError> {
        self.reports.add_channel(self.peer, channel).await
    }

    async fn remove_channel(&self, id: u32) -> Result<ChannelRow, ControlError> {
        self.reports.remove_channel(self.peer, id)
    }

    async fn remove_channel_by_words(&self, channel: ChannelWords) -> Result<ChannelRow, ControlError> {
        self.reports.remove_channel_by_words(self.peer, &channel)
    }

    async fn latency(&self, from: u32) -> Result<LatencyPage, ControlError> {
        self.reports.latency(self.peer, from)
    }

    async fn reload(&self) -> Result<Reloaded, ControlError> {
        self.reports.reload(self.peer)
    }
}
