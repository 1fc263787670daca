//! A customer of a web server who asks again and again, by one connection or a thousand.
//!
//! Closed loop: each connection asks on after its answer. Open loop: requests fall due at fixed times, whatever becomes of those
//! before. A response counts from when its request was due, not from when there was a connection free to ask by: else a server
//! that makes everybody wait is asked less often, and looks better than it is.
//!
//! One thread and one epoll: the asker shares the CPU with the server, at realtime priority, and shall cost as little as can be.

mod response;

use std::{
    collections::VecDeque,
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, SocketAddrV4, TcpStream},
    str::FromStr,
};

use anyhow::{Context, Error, Result, ensure};
use rustix::{
    buffer::spare_capacity,
    event::epoll::{self, CreateFlags, Event, EventData, EventFlags},
    fd::OwnedFd,
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with},
};

use crate::{
    check,
    clock::{self, MS, SECOND, from_seconds, now_ns, to_ms},
};

/// Events taken at once.
const EVENTS: usize = 64;
/// Most samples that are told, spread evenly over the ranks of all: enough for a 99th percentile.
const MOST_TOLD: usize = 2000;

/// When requests fall due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pattern {
    /// So many connections, each of which asks on so long after its answer.
    Closed { connections: usize, pause_ns: u64 },
    /// A request each so long; what falls due while all of so many connections are taken waits for one.
    Open { connections: usize, every_ns: u64 },
}

impl FromStr for Pattern {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let whole = |word: &str| word.parse::<u32>().ok().filter(|&number| number > 0);
        let number = |word: &str| usize::try_from(whole(word)?).ok();
        let words: Vec<&str> = text.split(':').collect();
        let pattern = match words.as_slice() {
            ["closed", connections] => number(connections).map(|connections| Self::Closed { connections, pause_ns: 0 }),
            ["closed", connections, pause_ms] => number(connections)
                .zip(whole(pause_ms))
                .map(|(connections, pause_ms)| Self::Closed { connections, pause_ns: u64::from(pause_ms) * MS }),
            ["open", rate, connections] => number(connections)
                .zip(whole(rate))
                .map(|(connections, rate)| Self::Open { connections, every_ns: SECOND / u64::from(rate) }),
            _ => None,
        };
        pattern.with_context(|| {
            format!(
                "ask: \"{text}\" is no way to ask: write closed:CONNECTIONS[:PAUSE_MS] or open:PER_SECOND:CONNECTIONS"
            )
        })
    }
}

impl Pattern {
    fn connections(self) -> usize {
        match self {
            Self::Closed { connections, .. } | Self::Open { connections, .. } => connections,
        }
    }
}

/// `ask NAME FROM URL HOW SECONDS [READY]` on the command line: asks for a page by connections from an address, once by each so
/// that all is warm, and then for so long; prints the samples `NAME_response_ms`. The file READY is made when the warm part is over.
pub fn act(name: &str, from: &str, url: &str, how: &str, seconds: &str, ready: Option<&str>) -> Result<()> {
    let from: Ipv4Addr = from.parse().with_context(|| format!("ask: \"{from}\" is no address"))?;
    let seconds: f64 = seconds.parse().with_context(|| format!("ask: \"{seconds}\" is no number of seconds"))?;
    let mut asker = Asker::new(from, url, how.parse()?)?;
    asker.warm_up()?;
    if let Some(file) = ready {
        std::fs::write(file, "").with_context(|| format!("make {file}"))?;
    }
    let begin_ns = now_ns();
    let end_ns = begin_ns + from_seconds(seconds);
    asker.ask_until(begin_ns, end_ns)?;
    asker.tell(name, end_ns);
    Ok(())
}

struct Connection {
    stream: TcpStream,
    /// When what it has asked for was due; nothing while it is free.
    due_ns: Option<u64>,
    held: Vec<u8>,
}

struct Asker {
    pattern: Pattern,
    from: Ipv4Addr,
    server: SocketAddrV4,
    request: Vec<u8>,
    connections: Vec<Connection>,
    free: Vec<usize>,
    /// When requests fall due that are not asked yet, in order: the pause after an answer is always the same.
    upcoming: VecDeque<u64>,
    epoll: OwnedFd,
    events: Vec<Event>,
    buffer: Vec<u8>,
    answers_ms: Vec<f64>,
    /// Connections that the server closed.
    closed: usize,
}

impl Asker {
    fn new(from: Ipv4Addr, url: &str, pattern: Pattern) -> Result<Self> {
        let (server, path) = parts(url)?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", server.ip()).into_bytes();
        let epoll = epoll::create(CreateFlags::CLOEXEC).context("create an epoll")?;
        let mut connections = Vec::with_capacity(pattern.connections());
        for number in 0..pattern.connections() {
            let stream = connected(from, server).with_context(|| format!("connection {number} to {server}"))?;
            watch(&epoll, &stream, number)?;
            connections.push(Connection { stream, due_ns: None, held: Vec::new() });
        }
        Ok(Self {
            pattern,
            from,
            server,
            request,
            free: (0..connections.len()).rev().collect(),
            connections,
            upcoming: VecDeque::new(),
            epoll,
            events: Vec::with_capacity(EVENTS),
            buffer: vec![0; 1 << 16],
            answers_ms: Vec::new(),
            closed: 0,
        })
    }

    /// Has each connection ask once. A server that accepts, and a process of it for each connection, are there then.
    fn warm_up(&mut self) -> Result<()> {
        self.upcoming.extend(std::iter::repeat_n(now_ns(), self.connections.len()));
        while let Some(due_ns) = self.upcoming.pop_front() {
            self.ask(due_ns)?;
        }
        while self.free.len() < self.connections.len() {
            self.take_answers(None, |_, _| ())?;
        }
        Ok(())
    }

    fn ask_until(&mut self, begin_ns: u64, end_ns: u64) -> Result<()> {
        let first = match self.pattern {
            Pattern::Closed { connections, .. } => connections,
            Pattern::Open { .. } => 1,
        };
        self.upcoming.extend(std::iter::repeat_n(begin_ns, first));
        loop {
            let now = now_ns();
            if now >= end_ns {
                return Ok(());
            }
            while !self.free.is_empty()
                && let Some(due_ns) = self.upcoming.front().copied().filter(|&due_ns| due_ns <= now)
            {
                self.upcoming.pop_front();
                self.ask(due_ns)?;
                if let Pattern::Open { every_ns, .. } = self.pattern {
                    self.upcoming.push_back(due_ns + every_ns);
                }
            }
            let next_ns =
                self.upcoming.front().filter(|_| !self.free.is_empty()).map_or(end_ns, |&due| due.min(end_ns));
            self.take_answers(Some(next_ns), |asker, due_ns| {
                let now = now_ns();
                asker.answers_ms.push(to_ms(now - due_ns));
                if let Pattern::Closed { pause_ns, .. } = asker.pattern {
                    asker.upcoming.push_back(now + pause_ns);
                }
            })?;
        }
    }

    fn ask(&mut self, due_ns: u64) -> Result<()> {
        let number = self.free.pop().context("no connection is free")?;
        self.connections[number].due_ns = Some(due_ns);
        self.send(number)
    }

    fn send(&mut self, number: usize) -> Result<()> {
        // It is short: a socket whose other end has answered all before has room for it.
        match self.connections[number].stream.write_all(&self.request) {
            Err(error) if is_end(error.kind()) => self.connect_again(number),
            sent => sent.context("ask"),
        }
    }

    /// A busy server closes connections to have fewer. What was asked by one is asked by the next, and was due when it was due.
    fn connect_again(&mut self, number: usize) -> Result<()> {
        let stream = connected(self.from, self.server).with_context(|| format!("connect to {} again", self.server))?;
        watch(&self.epoll, &stream, number)?;
        self.closed += 1;
        let connection = &mut self.connections[number];
        connection.stream = stream;
        connection.held.clear();
        if connection.due_ns.is_some() { self.send(number) } else { Ok(()) }
    }

    /// Waits until something is answered, or until an instant, and says of each whole answer when its request was due.
    fn take_answers(&mut self, until_ns: Option<u64>, mut told: impl FnMut(&mut Self, u64)) -> Result<()> {
        let timeout = until_ns.map(|until_ns| clock::timespec(until_ns.saturating_sub(now_ns())));
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("wait for answers"),
        }
        for event in &events {
            let number = usize::try_from(event.data.u64())?;
            if let Some(due_ns) = self.read(number)? {
                self.free.push(number);
                told(self, due_ns);
            }
        }
        self.events = events;
        Ok(())
    }

    /// Reads what has come; when the answer is whole, the instant at which it was due to be asked for.
    fn read(&mut self, number: usize) -> Result<Option<u64>> {
        let connection = &mut self.connections[number];
        let length = match connection.stream.read(&mut self.buffer) {
            Ok(0) => return self.connect_again(number).map(|()| None),
            Ok(length) => length,
            Err(error) if is_end(error.kind()) => return self.connect_again(number).map(|()| None),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error).context("read an answer"),
        };
        connection.held.extend_from_slice(&self.buffer[..length]);
        let Some(whole) = response::length(&connection.held)? else { return Ok(None) };
        if connection.held.len() < whole {
            return Ok(None);
        }
        ensure!(connection.held.len() == whole, "the server says more than it was asked for");
        connection.held.clear();
        connection.due_ns.take().context("the server answers what was not asked for").map(Some)
    }

    fn tell(&self, name: &str, end_ns: u64) {
        for ms in told(&self.answers_ms) {
            check::sample(&format!("{name}_response_ms"), ms);
        }
        let waiting = self.waiting(end_ns);
        #[allow(clippy::cast_precision_loss)]
        for (what, number) in
            [("answers", self.answers_ms.len()), ("unanswered", waiting.len()), ("closed", self.closed)]
        {
            check::figure(&format!("{name}_{what}"), number as f64);
        }
        let longest = waiting.iter().min().map_or(0, |&due_ns| end_ns.saturating_sub(due_ns));
        check::figure(&format!("{name}_unanswered_for_ms"), to_ms(longest));
    }

    /// When the requests were due that have no answer at the end, asked or not.
    fn waiting(&self, end_ns: u64) -> Vec<u64> {
        let asked = self.connections.iter().filter_map(|connection| connection.due_ns);
        let due = self.upcoming.iter().filter(|&&due_ns| due_ns < end_ns).copied();
        let mut all: Vec<u64> = asked.chain(due).collect();
        if let (Pattern::Open { every_ns, .. }, Some(&next_ns)) = (self.pattern, self.upcoming.front()) {
            all.extend((1..).map(|n| next_ns + n * every_ns).take_while(|&due_ns| due_ns < end_ns));
        }
        all
    }
}

fn is_end(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

fn watch(epoll: &OwnedFd, stream: &TcpStream, number: usize) -> Result<()> {
    epoll::add(epoll, stream, EventData::new_u64(number as u64), EventFlags::IN).context("watch a socket")
}

fn connected(from: Ipv4Addr, server: SocketAddrV4) -> Result<TcpStream> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddrV4::new(from, 0)).with_context(|| format!("have address {from}"))?;
    connect(&socket, &server).context("connect")?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Server and path of `http://ADDRESS[:PORT]/PATH`.
fn parts(url: &str) -> Result<(SocketAddrV4, String)> {
    let shown = || format!("ask: \"{url}\" is not http://ADDRESS[:PORT]/PATH");
    let (server, path) = url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).with_context(shown)?;
    let server = server.parse().or_else(|_| server.parse().map(|address| SocketAddrV4::new(address, 80)));
    Ok((server.with_context(shown)?, format!("/{path}")))
}

/// The samples, or of many as many as are told: the least, the greatest, and those between at even distances in rank.
fn told(all: &[f64]) -> Vec<f64> {
    if all.len() <= MOST_TOLD {
        return all.to_vec();
    }
    let mut sorted = all.to_vec();
    sorted.sort_by(f64::total_cmp);
    (0..MOST_TOLD).map(|n| sorted[n * (sorted.len() - 1) / (MOST_TOLD - 1)]).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn ways_to_ask_are_understood() -> Result<()> {
        let closed = |connections, pause_ns| Pattern::Closed { connections, pause_ns };
        for (text, pattern) in [
            ("closed:1000", closed(1000, 0)),
            ("closed:1:10", closed(1, 10 * MS)),
            ("open:200:8", Pattern::Open { connections: 8, every_ns: 5 * MS }),
        ] {
            assert_eq!(text.parse::<Pattern>()?, pattern, "{text}");
        }
        let wrong = |text: &str| format!("{:#}", text.parse::<Pattern>().expect_err(text));
        insta::assert_snapshot!(wrong("closed:none"), @r#"ask: "closed:none" is no way to ask: write closed:CONNECTIONS[:PAUSE_MS] or open:PER_SECOND:CONNECTIONS"#);
        assert!("open:0:8".parse::<Pattern>().is_err() && "open:5".parse::<Pattern>().is_err());
        Ok(())
    }

    #[test]
    fn a_url_has_a_server_and_a_path() -> Result<()> {
        assert_eq!(parts("http://192.0.2.1/a/b")?, ("192.0.2.1:80".parse()?, "/a/b".to_owned()));
        assert_eq!(parts("http://192.0.2.1:8000/")?, ("192.0.2.1:8000".parse()?, "/".to_owned()));
        assert!(parts("192.0.2.1").is_err() && parts("http://example.org/").is_err());
        Ok(())
    }

    #[test]
    fn of_many_samples_the_ends_and_the_middle_are_told() {
        let all: Vec<f64> = (0..100_000).rev().map(f64::from).collect();
        let some = told(&all);
        assert_eq!((some.len(), some[0], some[MOST_TOLD - 1]), (MOST_TOLD, 0.0, 99_999.0));
        assert!((some[MOST_TOLD / 2] - 50_000.0).abs() < 100.0);
        assert_eq!(told(&[2.0, 1.0]), [2.0, 1.0]);
    }

    /// A server with one process, which takes so long for each answer.
    fn serve(connections: usize, each_ms: u64) -> Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}/page", listener.local_addr()?);
        let turn = std::sync::Arc::new(std::sync::Mutex::new(()));
        std::thread::spawn(move || {
            for stream in listener.incoming().take(connections).flatten() {
                let turn = std::sync::Arc::clone(&turn);
                std::thread::spawn(move || {
                    let (mut stream, mut buffer) = (stream, [0; 1024]);
                    while let Ok(1..) = stream.read(&mut buffer) {
                        let _mine = turn.lock();
                        clock::sleep_ms(each_ms);
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
                    }
                });
            }
        });
        Ok(url)
    }

    fn asked(url: &str, how: &str, seconds: f64) -> Result<(Asker, u64)> {
        let mut asker = Asker::new(Ipv4Addr::LOCALHOST, url, how.parse()?)?;
        asker.warm_up()?;
        let begin_ns = now_ns();
        let end_ns = begin_ns + from_seconds(seconds);
        asker.ask_until(begin_ns, end_ns)?;
        Ok((asker, end_ns))
    }

    #[test]
    fn a_closed_loop_has_one_request_for_each_connection() -> Result<()> {
        let (asker, end_ns) = asked(&serve(3, 5)?, "closed:3", 0.3)?;
        // One may just have been answered, and does not ask again after the end.
        let waiting = asker.waiting(end_ns).len();
        assert!((2..=3).contains(&waiting), "{waiting} wait");
        // Three stand in a line for one server.
        let longest = asker.answers_ms.iter().copied().fold(0.0, f64::max);
        assert!(asker.answers_ms.len() > 3 && longest >= 14.0, "{} answers, {longest}", asker.answers_ms.len());
        Ok(())
    }

    #[test]
    fn what_a_closed_connection_left_is_asked_by_the_next() -> Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}/page", listener.local_addr()?);
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let (mut stream, mut buffer) = (stream, [0; 1024]);
                // One answer for each connection, and none for the second.
                if stream.read(&mut buffer).is_ok() && number != 1 {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
                }
            }
        });
        let (asker, _) = asked(&url, "closed:1:5", 0.3)?;
        assert!(asker.answers_ms.len() >= 3, "{} answers", asker.answers_ms.len());
        assert!(asker.closed > asker.answers_ms.len(), "{} closed", asker.closed);
        Ok(())
    }

    #[test]
    fn an_open_loop_counts_from_when_a_request_was_due() -> Result<()> {
        // 100 a second, of which a server of 50 a second leaves half.
        let (asker, end_ns) = asked(&serve(8, 20)?, "open:100:8", 0.6)?;
        let (answered, waiting) = (asker.answers_ms.len(), asker.waiting(end_ns).len());
        assert_eq!(answered + waiting, 60);
        assert!(answered <= 30, "{answered} answers");
        Ok(())
    }
}
