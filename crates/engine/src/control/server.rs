//! The daemon's side of the control socket.
//!
//! Each connection is a task of its own, for a limited time and only a few for each user (`limits.rs`), so that a client that never reads its
//! answers, or never stops to ask, keeps nobody else from asking.

use std::{
    convert::Infallible,
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    pin::Pin,
    rc::Rc,
    time::{Duration, Instant},
};

use tokio::{
    net::{UnixListener, UnixStream},
    task, time,
};
use zlink::{ReadyListener, Server};

use super::{
    limits::{CONNECTIONS_PER_USER, Limited, Place, Users},
    wire::{
        Account, Attended, Chain, ChannelLatency, ChannelPage, ChannelRow, ChannelWords, Command, Confidence,
        ControlError, Counter, CustomerName, CustomerRow, Handler, Handling, HopStep, LaneNs, LatencyPage, Lifted,
        Missing, Reloaded, RequestTotals, Responses, Standing, Status, Times, Why,
    },
};
use crate::Error;

/// How long a connection may last.
const CONNECTION_LIFE: Duration = Duration::from_secs(60);
/// Connections that wait to be accepted. Beyond it connect(2) waits, and refusing all of them takes no longer than an answer may.
const BACKLOG: i32 = 64;
/// Pause after a connection that was refused: to connect and be refused without end shall not keep a CPU busy at the daemon's nice value.
const REFUSED_PAUSE: Duration = Duration::from_millis(1);
/// Pause after a failure to accept, which comes from a lack of file descriptors and would repeat at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// A failure so soon after another has the same cause: the machine may be slow.
const LACK_GOES_ON: Duration = Duration::from_secs(10);

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
        rustix::net::listen(&bound.listener, BACKLOG)
            .map_err(|errno| failed("shortening the queue of control socket")(errno.into()))?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o666)).map_err(failed("opening to all users"))?;
        Ok(bound)
    }

    /// Serves for ever; must run inside a [`task::LocalSet`].
    pub(crate) async fn serve(&self, reports: Rc<dyn Reports>) -> Infallible {
        let users = Users::default();
        let mut lack = Lack::default();
        loop {
            let accepted = async {
                let (stream, _) = self.listener.accept().await?;
                let peer = Peer { uid: stream.peer_cred()?.uid() };
                Ok::<_, io::Error>((stream, peer))
            };
            match accepted.await {
                Ok((stream, peer)) => match users.admit(peer.uid) {
                    Ok(place) => {
                        task::spawn_local(answer(stream, peer, Rc::clone(&reports), place));
                    }
                    Err(full) => {
                        if full.is_news {
                            tracing::warn!(
                                "user {} has {CONNECTIONS_PER_USER} connections to the control socket: more are refused",
                                peer.uid
                            );
                        }
                        drop(stream);
                        time::sleep(REFUSED_PAUSE).await;
                    }
                },
                Err(error) => {
                    if lack.is_news(Instant::now()) {
                        tracing::warn!(
                            "clients of the control socket wait: {error}; when that is over, they are answered"
                        );
                    }
                    time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Failures to accept, which repeat each [`ACCEPT_PAUSE`] for as long as the cause is there: the log has the first.
#[derive(Debug, Default)]
struct Lack {
    last: Option<Instant>,
}

impl Lack {
    /// Notes a failure; whether there was none a short while ago.
    fn is_news(&mut self, now: Instant) -> bool {
        let before = self.last.replace(now);
        before.is_none_or(|last| now.saturating_duration_since(last) > LACK_GOES_ON)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = fs::remove_file(&self.path);
    }
}

/// Answers one client, who is the only one of its user.
#[cfg(test)]
pub(crate) async fn answer_one(stream: std::os::unix::net::UnixStream, peer: Peer, reports: Rc<dyn Reports>) {
    stream.set_nonblocking(true).expect("a socket");
    let stream = UnixStream::from_std(stream).expect("a socket");
    answer(stream, peer, reports, Users::default().admit(peer.uid).expect("a place")).await;
}

async fn answer(stream: UnixStream, peer: Peer, reports: Rc<dyn Reports>, place: Rc<Place>) {
    let served = async {
        let limited = Limited::new(stream, Rc::clone(&place))?;
        Server::new(ReadyListener::new(limited), Service { peer, place, reports }).run().await
    };
    match time::timeout(CONNECTION_LIFE, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!("a client of user {}: {error}", peer.uid),
        Err(_elapsed) => tracing::debug!("a client of user {} stayed too long", peer.uid),
    }
}

/// One connection's view of the daemon.
struct Service {
    peer: Peer,
    place: Rc<Place>,
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
        self.place.pay().await;
        self.reports.status(self.peer)
    }

    async fn why(&self, pid: u32) -> Result<Why, ControlError> {
        self.place.pay().await;
        self.reports.why(self.peer, pid)
    }

    async fn list_channels(&self, after: u32) -> Result<ChannelPage, ControlError> {
        self.place.pay().await;
        self.reports.list_channels(self.peer, after)
    }

    async fn add_channel(&self, channel: ChannelWords) -> Result<ChannelRow, ControlError> {
        self.place.pay().await;
        self.reports.add_channel(self.peer, channel).await
    }

    async fn remove_channel(&self, id: u32) -> Result<ChannelRow, ControlError> {
        self.place.pay().await;
        self.reports.remove_channel(self.peer, id)
    }

    async fn remove_channel_by_words(&self, channel: ChannelWords) -> Result<ChannelRow, ControlError> {
        self.place.pay().await;
        self.reports.remove_channel_by_words(self.peer, &channel)
    }

    async fn latency(&self, from: u32) -> Result<LatencyPage, ControlError> {
        self.place.pay().await;
        self.reports.latency(self.peer, from)
    }

    async fn reload(&self) -> Result<Reloaded, ControlError> {
        self.place.pay().await;
        self.reports.reload(self.peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_descriptors_is_told_once() {
        let (mut lack, begin) = (Lack::default(), Instant::now());
        let told = (0..1000).filter(|turn| lack.is_news(begin + ACCEPT_PAUSE * *turn)).count();
        assert_eq!(told, 1);
        assert!(lack.is_news(begin + ACCEPT_PAUSE * 1000 + LACK_GOES_ON), "another one, later");
    }
}
