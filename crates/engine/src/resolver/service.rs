//! The service's side: answers at a socket that it was started with, and ends when nobody asks any more.

use std::{
    io::{self, Read, Write},
    net::IpAddr,
    os::{fd::AsFd, unix::net::UnixListener, unix::net::UnixStream},
    sync::Arc,
    thread,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::{AddressFamily, sockopt},
};

use super::{NAME_MAX, is_name, word};
use crate::{channel::hosts, seams::Lookup};

/// The service ends when nobody has asked for so long. The daemon asks each minute while a rule names a host, so it ends when none does.
const IDLE: Duration = Duration::from_secs(180);
/// How long a question may take to come, and an answer to be taken.
const PATIENCE: Duration = Duration::from_secs(5);
/// Questions at the same time: more means more memory, fewer that one name without an answer keeps others waiting.
const QUESTIONS_MAX: usize = 16;
/// How soon a question is taken when there were too many.
const PAUSE: Duration = Duration::from_millis(50);

/// Why the service ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum Unasked {
    /// It was started by hand.
    #[error(
        "standard input is no listening unix socket: systemd starts this service with one (systemctl start appease-hosts.socket)"
    )]
    NoSocket,
    /// The socket failed.
    #[error("waiting for questions: {0}")]
    Broken(io::Error),
}

/// Answers at the listening socket that is standard input, until nobody has asked for three minutes.
///
/// # Errors
/// When standard input is no such socket, or the socket fails.
pub fn run() -> Result<(), Unasked> {
    let input = io::stdin().as_fd().try_clone_to_owned().map_err(Unasked::Broken)?;
    let listens = sockopt::socket_acceptconn(&input).is_ok_and(|listens| listens);
    if !listens || sockopt::socket_domain(&input).ok() != Some(AddressFamily::UNIX) {
        return Err(Unasked::NoSocket);
    }
    serve(&input.into(), &hosts::system(), IDLE).map_err(Unasked::Broken)
}

fn serve(listener: &UnixListener, lookup: &Lookup, idle: Duration) -> io::Result<()> {
    // Who asked may be gone when a connection is taken.
    listener.set_nonblocking(true)?;
    let idle = Timespec::try_from(idle).map_err(io::Error::other)?;
    // A clone for each question that has no answer yet.
    let questions = Arc::new(());
    loop {
        let mut news = [PollFd::new(listener, PollFlags::IN)];
        match poll(&mut news, Some(&idle)) {
            Ok(0) if Arc::strong_count(&questions) == 1 => return Ok(()),
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        if Arc::strong_count(&questions) > QUESTIONS_MAX {
            thread::sleep(PAUSE);
            continue;
        }
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted) => {
                continue;
            }
            Err(error) => return Err(error),
        };
        let (lookup, question) = (Arc::clone(lookup), Arc::clone(&questions));
        // Who asked hears nothing, and asks again.
        let _ = thread::Builder::new().name("appease-names".into()).spawn(move || {
            let _ = answer(stream, &lookup);
            drop(question);
        });
    }
}

fn answer(mut stream: UnixStream, lookup: &Lookup) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let answer = match question(&mut stream)? {
        Some(name) => resolve(lookup, &name),
        None => Err("that is no host name".into()),
    };
    stream.write_all(word(&answer).as_bytes())
}

/// The name that is asked about, if it is one.
fn question(stream: &mut UnixStream) -> io::Result<Option<String>> {
    let mut asked = Vec::new();
    let mut byte = [0];
    while asked.len() <= NAME_MAX {
        if stream.read(&mut byte)? == 0 {
            return Ok(None);
        }
        if byte == *b"\n" {
            return Ok(String::from_utf8(asked).ok().filter(|name| is_name(name)));
        }
        asked.extend(byte);
    }
    Ok(None)
}

fn resolve(lookup: &Lookup, name: &str) -> Result<Vec<IpAddr>, String> {
    lookup(name)
        .map(|mut addresses| {
            addresses.sort_unstable();
            addresses.dedup();
            addresses
        })
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::{path::Path, sync::mpsc, time::Instant};

    use super::*;
    use crate::resolver::asking;

    /// Long enough for the questions of a test.
    const SHORT: Duration = Duration::from_millis(500);

    /// A service that knows one name, and says nothing about another until it is told.
    fn service(socket: &Path, silence: mpsc::Receiver<()>) -> thread::JoinHandle<io::Result<()>> {
        let listener = UnixListener::bind(socket).expect("bound");
        let silence = std::sync::Mutex::new(silence);
        let lookup: Lookup = Arc::new(move |name| match name {
            "near.example" => Ok(vec![[192, 0, 2, 2].into(), [192, 0, 2, 1].into(), [192, 0, 2, 2].into()]),
            "silent.example" => {
                let _ = silence.lock().map(|silence| silence.recv());
                Ok(Vec::new())
            }
            _ => Err(io::Error::other(format!("nobody knows {name}"))),
        });
        thread::spawn(move || serve(&listener, &lookup, SHORT))
    }

    #[test]
    fn names_are_answered_until_nobody_asks() {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("hosts");
        let (speak, silence) = mpsc::channel();
        let service = service(&socket, silence);
        let lookup = asking(socket.clone());
        let slow = thread::spawn({
            let lookup = Arc::clone(&lookup);
            move || lookup("silent.example")
        });
        // The silent one keeps nobody waiting.
        let addresses = lookup("near.example").expect("an answer");
        assert_eq!(addresses, [[192, 0, 2, 1], [192, 0, 2, 2]].map(IpAddr::from));
        assert_eq!(lookup("far.example").expect_err("unknown").to_string(), "nobody knows far.example");
        for nonsense in ["", "../etc", "a b"] {
            assert_eq!(lookup(nonsense).expect_err("nonsense").to_string(), "that is no host name");
        }
        // Who says nothing, who says too much, and who hangs up, are no harm.
        let mute = UnixStream::connect(&socket).expect("connected");
        let _ = UnixStream::connect(&socket).expect("connected").write_all(&[b'a'; 10_000]);
        drop(UnixStream::connect(&socket).expect("connected"));
        assert!(lookup("near.example").is_ok());
        drop((mute, speak));
        assert!(slow.join().expect("it does not panic").expect("an answer").is_empty());
        let idle = Instant::now();
        service.join().expect("it does not panic").expect("it ends");
        assert!(idle.elapsed() < 10 * SHORT, "{:?}", idle.elapsed());
    }

    #[test]
    fn so_many_questions_have_an_answer_in_the_end() {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("hosts");
        let (speak, silence) = mpsc::channel();
        let service = service(&socket, silence);
        let lookup = asking(socket.clone());
        let asked: Vec<_> = (0..3 * QUESTIONS_MAX)
            .map(|_| {
                let lookup = Arc::clone(&lookup);
                thread::spawn(move || lookup("silent.example"))
            })
            .collect();
        thread::sleep(SHORT / 5);
        drop(speak);
        for one in asked {
            assert!(one.join().expect("it does not panic").is_ok());
        }
        service.join().expect("it does not panic").expect("it ends");
    }
}
