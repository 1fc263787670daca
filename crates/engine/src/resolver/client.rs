//! The daemon's side: one question by one connection, and no trust in what comes back.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::IpAddr,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::net;

use super::{ANSWER_MAX, understand};
use crate::seams::Lookup;

/// How long an answer may take in all: longer than the system's resolver tries, twice 5 s at each of three servers.
const PATIENCE: Duration = Duration::from_secs(40);

/// Asks the service that listens at `socket`. Errors of kind [`ErrorKind::NotConnected`] say that there is none.
pub(crate) fn asking(socket: PathBuf) -> Lookup {
    Arc::new(move |name| ask(&socket, name, PATIENCE))
}

fn ask(socket: &Path, name: &str, patience: Duration) -> io::Result<Vec<IpAddr>> {
    let until = Instant::now() + patience;
    let mut stream = connect(socket, patience).map_err(|error| unanswered(socket, &error, patience))?;
    // More than the buffer of a socket takes it is not, so this waits for nobody. One that hangs up at once may still have answered.
    let _ = stream.write_all(format!("{name}\n").as_bytes());
    let mut answer = Vec::new();
    let mut piece = [0; 1024];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(unanswered(socket, &ErrorKind::WouldBlock.into(), patience));
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => answer.extend_from_slice(&piece[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(unanswered(socket, &error, patience)),
        }
        if answer.len() > ANSWER_MAX {
            return Err(nonsense(socket));
        }
    }
    understand(&answer).ok_or_else(|| nonsense(socket))?.map_err(io::Error::other)
}

/// Connects. A service that hangs has a full queue in the end, in which nobody shall wait for ever.
fn connect(socket: &Path, patience: Duration) -> io::Result<UnixStream> {
    let stream = net::socket_with(net::AddressFamily::UNIX, net::SocketType::STREAM, net::SocketFlags::CLOEXEC, None)?;
    net::sockopt::set_socket_timeout(&stream, net::sockopt::Timeout::Send, Some(patience))?;
    net::connect(&stream, &net::SocketAddrUnix::new(socket)?)?;
    Ok(stream.into())
}

fn unanswered(socket: &Path, error: &io::Error, patience: Duration) -> io::Error {
    let socket = socket.display();
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => io::Error::new(
            ErrorKind::NotConnected,
            format!(
                "no service looks up names at {socket}: start it with \"systemctl start appease-hosts.socket\", or run \
                 the daemon without --hosts"
            ),
        ),
        ErrorKind::WouldBlock => io::Error::new(
            ErrorKind::TimedOut,
            format!(
                "the service at {socket} was silent for {} s: look at its log (journalctl -u appease-hosts)",
                patience.as_secs()
            ),
        ),
        kind => io::Error::new(kind, format!("asking the service at {socket}: {error}")),
    }
}

fn nonsense(socket: &Path) -> io::Error {
    let socket = socket.display();
    io::Error::new(
        ErrorKind::InvalidData,
        format!(
            "the answer of the service at {socket} makes no sense, and is left out: look at its log (journalctl -u appease-hosts)"
        ),
    )
}

#[cfg(test)]
mod tests {
    use std::{os::unix::net::UnixListener, thread};

    use super::*;

    /// Time enough for an honest answer, and little enough to wait for.
    const SHORT: Duration = Duration::from_secs(1);

    /// What is made of a service that does this with its only customer.
    fn answered(serve: impl FnOnce(UnixStream) + Send + 'static) -> io::Result<Vec<IpAddr>> {
        let dir = tempfile::tempdir()?;
        let socket = dir.path().join("hosts");
        let listener = UnixListener::bind(&socket)?;
        let service = thread::spawn(move || {
            if let Ok((stream, _)) = listener.accept() {
                serve(stream);
            }
        });
        let answer = ask(&socket, "host.example", SHORT);
        service.join().expect("it does not panic");
        answer
    }

    fn says(text: &'static [u8]) -> impl FnOnce(UnixStream) {
        move |mut stream| {
            let mut question = [0; 64];
            let length = stream.read(&mut question).expect("a question");
            assert_eq!(&question[..length], b"host.example\n");
            // The daemon may have had enough.
            let _ = stream.write_all(text);
        }
    }

    #[test]
    fn an_honest_answer_counts() {
        let addresses = answered(says(b"192.0.2.1\n2001:db8::1\nend\n")).expect("an answer");
        let shown: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["192.0.2.1", "2001:db8::1"]);
        assert_eq!(answered(says(b"error no such name\n")).expect_err("none").to_string(), "no such name");
    }

    #[test]
    fn what_is_no_answer_is_left_out() {
        static LONG: [u8; 100_000] = [b'1'; 100_000];
        for text in [&b""[..], b"192.0.2.1\n", b"end\nend\n", b"\0\xff\n", &LONG] {
            let error = answered(says(text)).expect_err("nonsense");
            assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
            assert!(error.to_string().contains("makes no sense"), "{error}");
        }
    }

    #[test]
    fn silence_has_an_end() {
        let begun = Instant::now();
        let error = answered(|stream| {
            thread::sleep(2 * SHORT);
            drop(stream);
        });
        let error = error.expect_err("silent");
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        assert!(error.to_string().contains("was silent for 1 s"), "{error}");
        // One byte at a time is silence, too.
        let error = answered(|mut stream| {
            while stream.write_all(b"1").is_ok() {
                thread::sleep(SHORT / 10);
            }
        });
        assert_eq!(error.expect_err("slow").kind(), ErrorKind::TimedOut);
        assert!(begun.elapsed() < 10 * SHORT, "{:?}", begun.elapsed());
    }

    #[test]
    fn nobody_waits_in_a_queue_for_ever() {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("hosts");
        // Nobody takes a connection out of its queue.
        let _listener = UnixListener::bind(&socket).expect("bound");
        let queue: Vec<UnixStream> = std::iter::from_fn(|| connect(&socket, SHORT / 10).ok()).take(100_000).collect();
        assert!(!queue.is_empty());
        assert_eq!(ask(&socket, "host.example", SHORT).expect_err("full").kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn an_absent_service_is_told_with_its_cure() {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("hosts");
        let told = |error: io::Error| {
            assert_eq!(error.kind(), ErrorKind::NotConnected);
            error.to_string().replace(&socket.display().to_string(), "SOCKET")
        };
        let absent = "no service looks up names at SOCKET: start it with \"systemctl start appease-hosts.socket\", or run \
                      the daemon without --hosts";
        assert_eq!(told(ask(&socket, "a", SHORT).expect_err("absent")), absent);
        drop(UnixListener::bind(&socket).expect("bound"));
        assert_eq!(told(ask(&socket, "a", SHORT).expect_err("left behind")), absent);
    }
}
