//! Rules: which files and sockets are channels, beside the devices of the classes that have hooks of their own.
//!
//! A rule has a slot in the kernel's table. A target leads to at most [`RULES_PER_TARGET`] rules; a rule may have several
//! targets (a host with several addresses).

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::Channel;

/// Index into the kernel's table of rules, from 1 to [`MAX_RULES`] − 1; the first are those of the device classes, by the number
/// of their [`Channel`].
pub type Slot = u32;

/// Size of the kernel's table of rules.
pub const MAX_RULES: u32 = 16_384;

/// Rules that one target may lead to.
pub const RULES_PER_TARGET: usize = 8;

/// Which operations on a channel open requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Access {
    /// Successful reads.
    pub read: bool,
    /// Successful writes.
    pub write: bool,
}

/// A directory of the cgroup v2 hierarchy, as the kernel knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cgroup {
    /// Inode number of the directory.
    pub id: u64,
    /// Depth below the root, which has 0.
    pub level: u32,
}

/// Whose operations count; what is `None` does not matter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Filter {
    /// Real user id.
    pub uid: Option<u32>,
    /// Real or supplementary group id.
    pub gid: Option<u32>,
    /// Anywhere below this cgroup.
    pub cgroup: Option<Cgroup>,
}

/// What the kernel has to know of a rule, beside its targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rule {
    /// Operations that count.
    pub access: Access,
    /// Processes that count.
    pub filter: Filter,
    /// Weight of its requests, hundredths.
    pub weight: u32,
}

/// Transport of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
}

/// Which end of a connection the channel is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The one that was there first.
    Accept,
    /// The one that came to it.
    Connect,
}

/// What leads to a rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// All devices of a class that has hooks of its own.
    Class(Channel),
    /// One device of such a class.
    Device {
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
    /// Any other device node, or a FIFO.
    File {
        /// Its watch in the inotify instance that was adopted.
        wd: i32,
    },
    /// A TCP or UDP socket.
    Socket {
        /// Its transport.
        protocol: Protocol,
        /// Accept: address and port are the socket's own. Connect: they are those of the far end.
        side: Side,
        /// `None`: any.
        address: Option<IpAddr>,
        /// `None`: any.
        port: Option<u16>,
    },
    /// A unix socket with a path.
    UnixPath {
        /// Accept: the bound socket's users. Connect: those of its clients.
        side: Side,
        /// The kernel's identity of the path's inode ([`crate::Sensor::inode_of`]).
        inode: u64,
    },
    /// A unix socket in the abstract name space.
    UnixAbstract {
        /// As for a path.
        side: Side,
        /// The name without its leading zero byte, 1 to 107 bytes.
        name: Vec<u8>,
    },
}

/// What a rule has seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hits {
    /// Operations that counted, since the rule was defined.
    pub count: u64,
    /// The last one, nanoseconds of `CLOCK_MONOTONIC`; `None`: there was none.
    pub last_ns: Option<u64>,
    /// Those who did it, latest first, at most 4.
    pub handlers: Vec<Begun>,
}

/// A process, also when its number is another's by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begun {
    /// Process id.
    pub pid: u32,
    /// When it began, nanoseconds of `CLOCK_BOOTTIME`.
    pub start_ns: u64,
}
