//! The things through which processes talk to each other.

use std::{
    fmt,
    fs::{self, OpenOptions},
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::{
        fd::OwnedFd,
        unix::net::{UnixDatagram, UnixStream},
    },
    path::Path,
    str::FromStr,
};

use anyhow::{Context, Error, Result};
use rustix::{
    event::{EventfdFlags, eventfd},
    fs::{CWD, FileType, Mode, OFlags, fcntl_setfl, mknodat},
    io::{Errno, write},
    net::{AddressFamily, SocketFlags, SocketType, socketpair},
    pipe::{PipeFlags, pipe_with},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};

use super::{
    stage::SETTLE_MS,
    wire::{End, Order},
};
use crate::clock;

/// Kinds of such things, in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Unix socket, stream.
    UnixStream,
    /// Unix socket, datagrams.
    UnixDatagram,
    /// Unix socket, sequenced packets.
    UnixPackets,
    /// TCP over IPv4.
    Tcp,
    /// TCP over IPv6.
    Tcp6,
    /// TCP over IPv4 into a socket of IPv6, as servers listen that serve both.
    TcpMapped,
    /// UDP, both ends connected.
    Udp,
    /// UDP over IPv6, both ends connected.
    Udp6,
    /// UDP to a server that answers everybody: the reader's end is not connected.
    UdpServer,
    /// UDP from such a server: the writer's end is not connected.
    UdpAnswer,
    /// A pipe.
    Pipe,
    /// A pipe with a name.
    Fifo,
    /// From a terminal to the program in it.
    PtyInput,
    /// From a program to its terminal.
    PtyOutput,
    /// An event counter.
    Eventfd,
}

impl Kind {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::UnixStream,
        Self::UnixDatagram,
        Self::UnixPackets,
        Self::Tcp,
        Self::Tcp6,
        Self::TcpMapped,
        Self::Udp,
        Self::Udp6,
        Self::UdpServer,
        Self::UdpAnswer,
        Self::Pipe,
        Self::Fifo,
        Self::PtyInput,
        Self::PtyOutput,
        Self::Eventfd,
    ];

    /// What the daemon calls it.
    pub fn object(self) -> &'static str {
        match self {
            Self::UnixStream | Self::UnixDatagram | Self::UnixPackets => "unix",
            Self::Tcp | Self::Tcp6 | Self::TcpMapped | Self::Udp | Self::Udp6 | Self::UdpServer | Self::UdpAnswer => {
                "inet"
            }
            Self::Pipe | Self::Fifo => "pipe",
            Self::PtyInput | Self::PtyOutput => "pty",
            Self::Eventfd => "eventfd",
        }
    }

    /// Whether a message can be looked at without taking it.
    pub fn can_peek(self) -> bool {
        matches!(self.object(), "unix" | "inet")
    }

    /// Whether it is half of a terminal.
    pub fn is_pty(self) -> bool {
        matches!(self, Self::PtyInput | Self::PtyOutput)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::UnixStream => "unix-stream",
            Self::UnixDatagram => "unix-datagram",
            Self::UnixPackets => "unix-packets",
            Self::Tcp => "tcp",
            Self::Tcp6 => "tcp6",
            Self::TcpMapped => "tcp-mapped",
            Self::Udp => "udp",
            Self::Udp6 => "udp6",
            Self::UdpServer => "udp-server",
            Self::UdpAnswer => "udp-answer",
            Self::Pipe => "pipe",
            Self::Fifo => "fifo",
            Self::PtyInput => "pty-input",
            Self::PtyOutput => "pty-output",
            Self::Eventfd => "eventfd",
        })
    }
}

impl FromStr for Kind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|kind| kind.to_string() == text)
            .with_context(|| format!("no such object: {text}"))
    }
}

/// An object between two processes.
pub struct Link {
    /// What it is.
    pub kind: Kind,
    /// The writer's end.
    pub writer: OwnedFd,
    /// The reader's end.
    pub reader: OwnedFd,
    /// Where a datagram must be addressed to, when the writer's end is not connected.
    to: Option<SocketAddr>,
}

impl Link {
    /// Makes one; a FIFO in `dir`, where it leaves no trace.
    pub fn new(kind: Kind, dir: &Path) -> Result<Self> {
        let (writer, reader, to) = Self::ends(kind, dir).with_context(|| format!("make a {kind}"))?;
        Ok(Self { kind, writer, reader, to })
    }

    /// One between these ends.
    pub fn of(kind: Kind, writer: impl Into<OwnedFd>, reader: impl Into<OwnedFd>) -> Self {
        Self { kind, writer: writer.into(), reader: reader.into(), to: None }
    }

    fn ends(kind: Kind, dir: &Path) -> Result<(OwnedFd, OwnedFd, Option<SocketAddr>)> {
        let (writer, reader) = match kind {
            Kind::UnixStream => both(UnixStream::pair()?),
            Kind::UnixDatagram => both(UnixDatagram::pair()?),
            Kind::UnixPackets => socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?,
            Kind::Tcp => tcp("127.0.0.1:0", "127.0.0.1")?,
            Kind::Tcp6 => tcp("[::1]:0", "::1")?,
            Kind::TcpMapped => tcp("[::]:0", "127.0.0.1")?,
            Kind::Udp => udp("127.0.0.1:0", true)?,
            Kind::Udp6 => udp("[::1]:0", true)?,
            Kind::UdpServer => udp("127.0.0.1:0", false)?,
            Kind::UdpAnswer => {
                let (client, server) = udp_pair("127.0.0.1:0", false)?;
                let to = client.local_addr()?;
                return Ok((server.into(), client.into(), Some(to)));
            }
            Kind::Pipe => {
                let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
                (writer, reader)
            }
            Kind::Fifo => {
                let path = dir.join("fifo");
                let ends = fifo(&path)?;
                fs::remove_file(&path)?;
                ends
            }
            Kind::PtyInput => pty()?,
            Kind::PtyOutput => {
                let (master, slave) = pty()?;
                (slave, master)
            }
            Kind::Eventfd => {
                let counter = eventfd(0, EventfdFlags::CLOEXEC)?;
                (counter.try_clone()?, counter)
            }
        };
        Ok((writer, reader, None))
    }

    /// How `end` is written to, if it is the writer's end of this.
    pub fn message(&self, end: End) -> Order {
        match (self.kind, self.to) {
            (Kind::Eventfd, _) => Order::Signal(end),
            (_, Some(to)) => Order::SendTo(end, to),
            _ => Order::Write(end),
        }
    }
}

fn both(ends: (impl Into<OwnedFd>, impl Into<OwnedFd>)) -> (OwnedFd, OwnedFd) {
    (ends.0.into(), ends.1.into())
}

fn tcp(listen: &str, connect: &str) -> Result<(OwnedFd, OwnedFd)> {
    let listener = TcpListener::bind(listen)?;
    let client = TcpStream::connect((connect, listener.local_addr()?.port()))?;
    client.set_nodelay(true)?;
    Ok(both((client, listener.accept()?.0)))
}

fn udp_pair(address: &str, connected: bool) -> Result<(UdpSocket, UdpSocket)> {
    let (client, server) = (UdpSocket::bind(address)?, UdpSocket::bind(address)?);
    client.connect(server.local_addr()?)?;
    if connected {
        server.connect(client.local_addr()?)?;
    }
    Ok((client, server))
}

fn udp(address: &str, connected: bool) -> Result<(OwnedFd, OwnedFd)> {
    udp_pair(address, connected).map(both)
}

/// Fills what is behind `end`, until a write finds no room; writes wait no more from then on.
pub fn fill(end: &OwnedFd) -> Result<()> {
    fcntl_setfl(end, OFlags::NONBLOCK).context("make a writer's end not wait")?;
    let mut had_room = true;
    while had_room {
        had_room = false;
        while write_some(end)? {
            had_room = true;
        }
        // What is on its way to the other end makes room yet.
        clock::sleep_ms(SETTLE_MS);
    }
    Ok(())
}

/// Whether there was room.
fn write_some(end: &OwnedFd) -> Result<bool> {
    match write(end, &[b'x'; 4096]) {
        Ok(_) => Ok(true),
        Err(Errno::AGAIN) => Ok(false),
        Err(error) => Err(error).context("fill"),
    }
}

/// Makes a FIFO at `path`, and opens both ends.
pub fn fifo(path: &Path) -> Result<(OwnedFd, OwnedFd)> {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
    // Opening one end waits for the other, but not while somebody holds both.
    let _both = OpenOptions::new().read(true).write(true).open(path)?;
    let reader = OpenOptions::new().read(true).open(path)?;
    let writer = OpenOptions::new().write(true).open(path)?;
    Ok(both((writer, reader)))
}

fn pty() -> Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let master = openpt(flags | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let path = ptsname(&master, Vec::new())?;
    let slave = rustix::fs::open(path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    Ok((master, slave))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sense::actor::{read_once, write_message};

    #[test]
    fn what_goes_in_comes_out() {
        let dir = std::env::temp_dir().join(format!("appease-objects-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        for &kind in Kind::ALL {
            let link = match Link::new(kind, &dir) {
                Ok(link) => link,
                // Build machines need not have IPv6, nor terminals.
                Err(error) if matches!(kind, Kind::Tcp6 | Kind::TcpMapped | Kind::Udp6) || kind.is_pty() => {
                    eprintln!("not tried: {error:#}");
                    continue;
                }
                Err(error) => panic!("{kind}: {error:#}"),
            };
            write_message(&link.writer, &link.message(End::Output)).unwrap_or_else(|error| panic!("{kind}: {error:#}"));
            let read = read_once(&link.reader).unwrap_or_else(|error| panic!("{kind}: {error:#}"));
            assert!(read > 0, "{kind}");
        }
        fs::remove_dir_all(&dir).expect("remove the directory");
    }
}
