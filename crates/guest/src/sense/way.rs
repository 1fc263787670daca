//! System calls by which data is taken from a descriptor or given to one.

use std::{
    fmt,
    fs::File,
    io::{IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{BorrowedFd, OwnedFd},
    path::Path,
    str::FromStr,
};

use anyhow::{Context, Error, Result};
use rustix::{
    fs::sendfile,
    io::{ReadWriteFlags, preadv2, pwritev2, readv, writev},
    net::{RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, recv, recvfrom, recvmsg, send, sendmsg},
    pipe::{PipeFlags, SpliceFlags, pipe_with, splice, tee},
};

/// What is written; a terminal hands on whole lines.
pub const LINE: &[u8] = b"hello\n";
/// For reads and writes by position: there is none.
const NO_POSITION: u64 = u64::MAX;

/// A system call that transfers data, in either direction; one of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// readv or writev.
    Vector,
    /// preadv2 or pwritev2.
    VectorAt,
    /// recv or send; recvfrom for who wants the sender's address.
    Socket,
    /// recvfrom.
    SocketFrom,
    /// recvmsg or sendmsg.
    Message,
    /// splice to or from a pipe.
    Splice,
    /// sendfile to a pipe, or from a file.
    Sendfile,
    /// tee to another pipe: takes nothing.
    Tee,
}

impl Way {
    const ALL: &[Self] = &[
        Self::Vector,
        Self::VectorAt,
        Self::Socket,
        Self::SocketFrom,
        Self::Message,
        Self::Splice,
        Self::Sendfile,
        Self::Tee,
    ];

    /// Those that send by a socket, beside write.
    pub const SENDING: [Self; 5] = [Self::Vector, Self::Socket, Self::Message, Self::Splice, Self::Sendfile];

    /// Takes what there is from `end`; the bytes.
    pub fn take(self, end: BorrowedFd<'_>) -> Result<usize> {
        let mut buffer = [0; 4096];
        Ok(match self {
            Self::Vector => readv(end, &mut [IoSliceMut::new(&mut buffer)])?,
            Self::VectorAt => preadv2(end, &mut [IoSliceMut::new(&mut buffer)], NO_POSITION, ReadWriteFlags::empty())?,
            Self::Socket => recv(end, &mut buffer[..], RecvFlags::empty())?.0,
            Self::SocketFrom => recvfrom(end, &mut buffer[..], RecvFlags::empty())?.0,
            Self::Message => {
                let mut control = RecvAncillaryBuffer::new(&mut [] as &mut [MaybeUninit<u8>]);
                recvmsg(end, &mut [IoSliceMut::new(&mut buffer)], &mut control, RecvFlags::empty())?.bytes
            }
            Self::Splice => splice(end, None, &a_pipe()?.1, None, buffer.len(), SpliceFlags::empty())?,
            Self::Sendfile => sendfile(&a_pipe()?.1, end, None, buffer.len())?,
            Self::Tee => tee(end, &a_pipe()?.1, buffer.len(), SpliceFlags::empty())?,
        })
    }

    /// Gives a line to `end`; the bytes. Where the call wants a file, `dir` has one.
    pub fn give(self, end: BorrowedFd<'_>, dir: &Path) -> Result<usize> {
        let line = [IoSlice::new(LINE)];
        Ok(match self {
            Self::Vector => writev(end, &line)?,
            Self::VectorAt => pwritev2(end, &line, NO_POSITION, ReadWriteFlags::empty())?,
            Self::Socket | Self::SocketFrom => send(end, LINE, SendFlags::empty())?,
            Self::Message => sendmsg(end, &line, &mut SendAncillaryBuffer::default(), SendFlags::empty())?,
            Self::Splice => splice(full_pipe()?.0, None, end, None, LINE.len(), SpliceFlags::empty())?,
            Self::Sendfile => {
                let path = dir.join("line");
                std::fs::write(&path, LINE).with_context(|| format!("write {}", path.display()))?;
                let file = File::open(&path).with_context(|| format!("open {}", path.display()))?;
                sendfile(end, file, None, LINE.len())?
            }
            Self::Tee => tee(full_pipe()?.0, end, LINE.len(), SpliceFlags::empty())?,
        })
    }
}

/// Reader's and writer's end.
fn a_pipe() -> Result<(OwnedFd, OwnedFd)> {
    pipe_with(PipeFlags::CLOEXEC).context("make a pipe")
}

fn full_pipe() -> Result<(OwnedFd, OwnedFd)> {
    let pipe = a_pipe()?;
    rustix::io::write(&pipe.1, LINE).context("fill a pipe")?;
    Ok(pipe)
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Vector => "vector",
            Self::VectorAt => "vector-at",
            Self::Socket => "socket",
            Self::SocketFrom => "socket-from",
            Self::Message => "message",
            Self::Splice => "splice",
            Self::Sendfile => "sendfile",
            Self::Tee => "tee",
        })
    }
}

impl FromStr for Way {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.iter().copied().find(|way| way.to_string() == text).with_context(|| format!("no such way: {text}"))
    }
}
