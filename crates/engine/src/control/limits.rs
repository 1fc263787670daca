//! What one user may have the daemon do for the control socket, which anybody may write to, while the daemon's own work is urgent.
//!
//! Rule: a user has so many connections at a time, each for a while, and messages of so many bytes. Reads and questions of all of them take from one
//! allowance, which fills up with time. A user that has used it up waits; nobody else does. Root may end the daemon anyway, and is not limited by it.

use std::{
    cell::RefCell,
    collections::HashMap,
    os::fd::{AsFd, BorrowedFd},
    rc::Rc,
    time::Duration,
};

use tokio::{net::UnixStream, time, time::Instant};
use zlink::{
    connection::socket::{ReadHalf, ReadResult, Socket, UnixSocket},
    tokio::unix,
};

/// Connections that one user may have at a time.
pub(super) const CONNECTIONS_PER_USER: u32 = 16;
/// Between two entries of the log that connections of a user are refused.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// What a read costs, and what it asks for costs as much again: twenty questions a second, for a program that shows what goes on.
const STEP: Duration = Duration::from_millis(25);
/// So many at once: the pages of a list of some thousand customers, by several programs.
const BURST: u32 = 128;

/// Bytes of a read: a question has 60 to 200.
const READ_BYTES: usize = 256;
/// Bytes of a message. The longest question, to add a channel, has three paths of 4,096 each at most.
const MESSAGE_BYTES: usize = 64 << 10;

/// Bytes of an answer. The longest, a status for root, has 200 for each command name there ever was.
const ANSWER_BYTES: usize = 8 << 20;

/// One user's account.
#[derive(Debug)]
struct User {
    connections: u32,
    /// When all that was asked so far is paid for.
    paid_at: Instant,
    told_at: Option<Instant>,
}

/// A user that has paid for nothing after that has the whole allowance.
fn allowance_from(now: Instant) -> Instant {
    now.checked_sub(STEP * BURST).unwrap_or(now)
}

/// All users that have a connection, or had one of late.
#[derive(Debug, Clone, Default)]
pub(super) struct Users(Rc<RefCell<HashMap<u32, User>>>);

/// Why a user has no place.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full {
    /// It is a while since that was told.
    pub is_news: bool,
}

impl Users {
    /// A connection for the user, if there is one left.
    pub(super) fn admit(&self, uid: u32) -> Result<Rc<Place>, Full> {
        let now = Instant::now();
        let mut users = self.0.borrow_mut();
        users.retain(|_, user| {
            let is_told = user.told_at.is_some_and(|at| now < at + TOLD_EVERY);
            user.connections > 0 || is_told || user.paid_at > allowance_from(now)
        });
        let user = users.entry(uid).or_insert(User { connections: 0, paid_at: allowance_from(now), told_at: None });
        if user.connections >= CONNECTIONS_PER_USER {
            let is_news = user.told_at.is_none_or(|at| now >= at + TOLD_EVERY);
            if is_news {
                user.told_at = Some(now);
            }
            return Err(Full { is_news });
        }
        user.connections += 1;
        Ok(Rc::new(Place { users: self.clone(), uid }))
    }
}

/// One of the connections that a user may have.
#[derive(Debug)]
pub(super) struct Place {
    users: Users,
    uid: u32,
}

impl Place {
    /// Charges the user for a step, and says when it may be done.
    fn charge(&self) -> Instant {
        let now = Instant::now();
        if self.uid == 0 {
            return now;
        }
        let mut users = self.users.0.borrow_mut();
        let Some(user) = users.get_mut(&self.uid) else { return now };
        user.paid_at = user.paid_at.max(allowance_from(now)) + STEP;
        user.paid_at
    }

    /// Waits until the user may ask something more.
    pub(super) async fn pay(&self) {
        time::sleep_until(self.charge()).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(user) = self.users.0.borrow_mut().get_mut(&self.uid) {
            user.connections -= 1;
        }
    }
}

/// A connection that keeps to what its user may do.
#[derive(Debug)]
pub(super) struct Limited {
    stream: unix::Stream,
    place: Rc<Place>,
}

impl Limited {
    pub(super) fn new(stream: UnixStream, place: Rc<Place>) -> zlink::Result<Self> {
        Ok(Self { stream: unix::Stream::try_from(stream)?, place })
    }
}

impl Socket for Limited {
    type ReadHalf = LimitedRead;
    type WriteHalf = <unix::Stream as Socket>::WriteHalf;

    fn split(self) -> (Self::ReadHalf, Self::WriteHalf) {
        let (half, write) = self.stream.split();
        let half = Bounded { half, most: MESSAGE_BYTES, left: MESSAGE_BYTES };
        (LimitedRead { half, place: self.place, paid: None }, write)
    }
}

impl AsFd for Limited {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl UnixSocket for Limited {}

/// Its side that reads.
#[derive(Debug)]
pub(super) struct LimitedRead {
    half: Bounded,
    place: Rc<Place>,
    /// When the read that is under way may begin; it may be given up and tried anew, and is charged once.
    paid: Option<Instant>,
}

impl ReadHalf for LimitedRead {
    async fn read(&mut self, buf: &mut [u8]) -> zlink::Result<ReadResult> {
        self.half.is_open()?;
        let at = *self.paid.get_or_insert_with(|| self.place.charge());
        time::sleep_until(at).await;
        let most = buf.len().min(READ_BYTES);
        let result = self.half.read(&mut buf[..most]).await?;
        self.paid = None;
        Ok(result)
    }
}

impl AsFd for LimitedRead {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.half.as_fd()
    }
}

impl UnixSocket for LimitedRead {}

/// The client's connection: an answer has so many bytes at most.
#[derive(Debug)]
pub(super) struct Answered(pub unix::Stream);

impl Socket for Answered {
    type ReadHalf = Bounded;
    type WriteHalf = <unix::Stream as Socket>::WriteHalf;

    fn split(self) -> (Self::ReadHalf, Self::WriteHalf) {
        let (half, write) = self.0.split();
        (Bounded { half, most: ANSWER_BYTES, left: ANSWER_BYTES }, write)
    }
}

/// A side that reads messages of so many bytes at most, and nothing beside bytes.
#[derive(Debug)]
pub(super) struct Bounded {
    half: <unix::Stream as Socket>::ReadHalf,
    most: usize,
    /// Of the message that is under way.
    left: usize,
}

impl Bounded {
    fn is_open(&self) -> zlink::Result<()> {
        if self.left == 0 { Err(zlink::Error::BufferOverflow) } else { Ok(()) }
    }
}

impl ReadHalf for Bounded {
    async fn read(&mut self, buf: &mut [u8]) -> zlink::Result<ReadResult> {
        self.is_open()?;
        let most = buf.len().min(self.left);
        // Files that are passed are closed here: nobody asks for any, and who kept thousands could not open its own.
        let result = ReadResult::new(self.half.read(&mut buf[..most]).await?.bytes_read());
        let read = &buf[..result.bytes_read()];
        // A message ends with a zero.
        self.left = match read.iter().rposition(|byte| *byte == 0) {
            Some(end) => self.most - (read.len() - 1 - end),
            None => self.left - read.len(),
        };
        Ok(result)
    }
}

impl AsFd for Bounded {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.half.as_fd()
    }
}

impl UnixSocket for Bounded {}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use rustix::net;
    use tokio::{io::AsyncWriteExt, task};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_user_has_so_many_connections_and_is_told_of_once() {
        let users = Users::default();
        let places: Vec<_> = (0..CONNECTIONS_PER_USER).map(|_| users.admit(7).expect("a place")).collect();
        assert_eq!(users.admit(7).err(), Some(Full { is_news: true }));
        assert_eq!(users.admit(7).err(), Some(Full { is_news: false }));
        users.admit(8).expect("another user's");
        time::advance(TOLD_EVERY).await;
        assert_eq!(users.admit(7).err(), Some(Full { is_news: true }));
        drop(places);
        users.admit(7).expect("a place");
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_beyond_the_allowance_waits_and_nobody_else_does() {
        let users = Users::default();
        let (first, second) = (users.admit(7).expect("a place"), users.admit(7).expect("a place"));
        let (other, root) = (users.admit(8).expect("a place"), users.admit(0).expect("a place"));
        let begun = Instant::now();
        for _ in 0..BURST / 2 {
            first.pay().await;
            second.pay().await;
        }
        assert!(begun.elapsed() <= STEP, "{:?}", begun.elapsed());
        for _ in 0..20 {
            second.pay().await;
        }
        assert!(begun.elapsed() >= STEP * 19, "{:?}", begun.elapsed());
        let begun = Instant::now();
        for _ in 0..BURST {
            other.pay().await;
        }
        for _ in 0..10 * BURST {
            root.pay().await;
        }
        assert!(begun.elapsed() <= STEP, "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn a_message_has_so_many_bytes_and_no_more() {
        const MESSAGES: usize = 4;
        let (client, daemon) = UnixStream::pair().expect("a pair");
        let client = client.into_std().expect("a socket");
        client.set_nonblocking(false).expect("set");
        let flood = std::thread::spawn(move || {
            let send = |bytes: &[u8]| std::io::Write::write_all(&mut &client, bytes);
            for _ in 0..MESSAGES {
                send(&[b' '; MESSAGE_BYTES / 2]).and_then(|()| send(b"\0")).expect("they are read");
            }
            send(&vec![b' '; 100 * MESSAGE_BYTES]).expect_err("nobody reads all of it");
        });
        let (mut read, _write) =
            Limited::new(daemon, Users::default().admit(0).expect("a place")).expect("one").split();
        let (mut buffer, mut brought) = (vec![0; MESSAGE_BYTES], 0);
        let refused = loop {
            match read.read(&mut buffer).await {
                Ok(result) => {
                    assert!((1..=READ_BYTES).contains(&result.bytes_read()));
                    brought += result.bytes_read();
                }
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, zlink::Error::BufferOverflow), "{refused}");
        assert_eq!(brought, MESSAGES * (MESSAGE_BYTES / 2 + 1) + MESSAGE_BYTES);
        drop((read, _write));
        flood.join().expect("it ends");
    }

    #[tokio::test]
    async fn an_answer_has_so_many_bytes_and_no_more() {
        let (client, mut daemon) = UnixStream::pair().expect("a pair");
        let client = unix::Stream::try_from(client).expect("a stream");
        let flood = task::spawn(async move { daemon.write_all(&vec![b' '; 2 * ANSWER_BYTES]).await });
        let (mut read, _write) = Answered(client).split();
        let (mut buffer, mut brought) = (vec![0; ANSWER_BYTES], 0);
        let refused = loop {
            match read.read(&mut buffer).await {
                Ok(result) => brought += result.bytes_read(),
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, zlink::Error::BufferOverflow), "{refused}");
        assert_eq!(brought, ANSWER_BYTES);
        flood.abort();
    }

    #[tokio::test]
    async fn files_that_are_passed_are_closed() {
        let (client, daemon) = UnixStream::pair().expect("a pair");
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut passed = net::SendAncillaryBuffer::new(&mut space);
        let file = [client.as_fd()];
        assert!(passed.push(net::SendAncillaryMessage::ScmRights(&file)));
        let bytes = [std::io::IoSlice::new(b"{")];
        net::sendmsg(&client, &bytes, &mut passed, net::SendFlags::empty()).expect("sent");
        let (mut read, _write) =
            Limited::new(daemon, Users::default().admit(7).expect("a place")).expect("one").split();
        let result = read.read(&mut [0; 16]).await.expect("read");
        assert_eq!((result.bytes_read(), result.fds().len()), (1, 0));
    }

    #[tokio::test]
    async fn a_user_asking_without_end_leaves_the_others_their_answers() {
        task::LocalSet::new()
            .run_until(async {
                let users = Users::default();
                let reads = Rc::new(Cell::new(0_u32));
                for _ in 0..CONNECTIONS_PER_USER {
                    let place = users.admit(7).expect("a place");
                    let (mut client, daemon) = UnixStream::pair().expect("a pair");
                    task::spawn_local(async move { while client.write_all(&[b' '; 4096]).await.is_ok() {} });
                    let reads = Rc::clone(&reads);
                    task::spawn_local(async move {
                        let (mut read, _write) = Limited::new(daemon, place).expect("one").split();
                        while read.read(&mut [0; 4096]).await.is_ok() {
                            reads.set(reads.get() + 1);
                        }
                    });
                }
                let begun = Instant::now();
                let honest = users.admit(8).expect("a place");
                for _ in 0..20 {
                    let asked = Instant::now();
                    honest.pay().await;
                    assert!(asked.elapsed() < Duration::from_millis(100), "{:?}", asked.elapsed());
                    time::sleep(STEP).await;
                }
                let paid = BURST + u32::try_from(begun.elapsed().as_millis() / STEP.as_millis()).expect("soon") + 1;
                assert!((BURST..=paid).contains(&reads.get()), "{} of {paid}", reads.get());
            })
            .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_that_is_gone_is_forgotten() {
        let users = Users::default();
        for uid in 1..100 {
            drop(users.admit(uid).expect("a place"));
        }
        time::advance(STEP).await;
        users.admit(1000).expect("a place");
        assert_eq!(users.0.borrow().len(), 1);
    }
}
