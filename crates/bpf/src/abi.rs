//! The records of `bpf/abi.h` as Rust types. Times are nanoseconds of the monotonic clock.

use std::{
    fmt, mem,
    net::SocketAddr,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr, slice,
};

use serde::{Deserialize, Serialize};

use crate::{
    Error, Slot,
    rules::{MINOR_BITS, address_of},
};

/// Generated from the header.
#[allow(missing_docs, non_upper_case_globals, non_camel_case_types, dead_code, clippy::all, clippy::pedantic)]
#[allow(clippy::undocumented_unsafe_blocks)]
pub(crate) mod raw {
    include!(concat!(env!("OUT_DIR"), "/abi.rs"));
}

/// Defines an enum whose order is that of its C counterpart, with lower-case names.
macro_rules! mirrored {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident => $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        // Not every one of them comes in by number.
        #[allow(dead_code)]
        impl $name {
            const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The value with this number in the header, or the first for a number that is not known.
            fn from_raw(number: u32) -> Self {
                Self::ALL.get(number as usize).copied().unwrap_or(Self::ALL[0])
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self { $(Self::$variant => $text,)* })
            }
        }
    };
}

mirrored! {
    /// Scheduling class inside our scheduler, most urgent first.
    Lane {
        /// Kernel threads that the kernel did not put behind others.
        Kernel => "kernel",
        /// Somebody waits for it.
        Attended => "attended",
        /// Nobody does.
        Other => "other",
        /// `SCHED_IDLE`.
        Idle => "idle",
    }
}

mirrored! {
    /// Where a customer reaches the machine.
    Channel {
        /// No channel.
        None => "none",
        /// An input device.
        Evdev => "input device",
        /// A console or a serial line.
        Tty => "terminal",
        /// `/dev/input/mice` and its kind.
        Mouse => "mouse",
        /// A joystick.
        Joystick => "joystick",
        /// A device whose reports its reader understands itself.
        Hidraw => "raw HID device",
        /// A playback stream.
        Audio => "sound",
        /// A device node of another kind, or a FIFO, that a rule names.
        File => "file",
        /// A TCP or UDP socket that a rule names.
        Inet => "inet socket",
        /// A unix socket that a rule names.
        Unix => "unix socket",
    }
}

mirrored! {
    /// How attention came from one process to the next.
    Object {
        /// Not at all.
        None => "nothing",
        /// A unix socket.
        Unix => "unix socket",
        /// A TCP or UDP socket.
        Inet => "inet socket",
        /// A pipe or FIFO.
        Pipe => "pipe",
        /// A pseudo-terminal.
        Pty => "pty",
        /// An event counter.
        Eventfd => "eventfd",
        /// From parent to child.
        Fork => "fork",
        /// Memory that both have mapped.
        Shared => "shared memory",
        /// A pipe that the next one fills for who plays sound.
        Feed => "filled pipe",
    }
}

mirrored! {
    /// What a process holds that an attended one waits for.
    Lock {
        /// Nothing.
        None => "nothing",
        /// A mutex, semaphore or rt_mutex inside the kernel.
        Kernel => "kernel lock",
        /// A futex with priority inheritance.
        PiFutex => "futex with priority inheritance",
        /// One of glibc's mutexes, shared between processes.
        Futex => "shared mutex",
        /// flock and its kind.
        File => "file lock",
    }
}

/// All lanes, in the order of [`LaneTimes`].
pub const LANES: [Lane; 4] = [Lane::Kernel, Lane::Attended, Lane::Other, Lane::Idle];

/// CPU time by lane, ns.
pub type LaneTimes = [u64; 4];

/// One step of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// When it was written.
    pub at_ns: u64,
    /// Process that wrote, or forked.
    pub tgid: u32,
    /// What it wrote to.
    pub object: Object,
}

/// One interaction of a customer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Never used twice.
    pub id: u64,
    /// When its channel was read.
    pub opened_ns: u64,
    /// CPU time spent on it by all processes together.
    pub served_ns: u64,
    /// CPU time after which it is batch work.
    pub budget_ns: u64,
    /// Kind of channel.
    pub channel: Channel,
    /// The rule that makes it a channel.
    pub rule: Slot,
    /// Major and minor number of its device node, if it is one of the classes of devices.
    pub device: Option<(u32, u32)>,
    /// Process that read the channel.
    pub reader_tgid: u32,
    /// The customer's end of a socket.
    pub peer: Option<SocketAddr>,
    /// Slot of the customer, which is another's after a while when the request is over.
    pub customer: u32,
    /// Weight of customer and channel together, hundredths.
    pub weight: u32,
    /// First write back to the customer, if there was one.
    pub first_response_ns: Option<u64>,
    /// Last one so far.
    pub last_response_ns: Option<u64>,
    /// Whether nobody serves it any more.
    pub is_over: bool,
}

/// That a process serves a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attention {
    /// The request.
    pub request: Request,
    /// When the process got to it.
    pub since_ns: u64,
    /// When it expires.
    pub until_ns: u64,
    /// How it came here from the reader, nearest to the channel first.
    pub path: Vec<Hop>,
}

impl Attention {
    /// Whether it still counts at `now_ns`: not expired, budget left.
    #[must_use]
    pub fn is_live(&self, now_ns: u64) -> bool {
        now_ns < self.until_ns && self.request.served_ns < self.request.budget_ns
    }
}

/// That a process serves the request of one who waits for its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lift {
    /// Process that waits.
    pub waiter: u32,
    /// For what.
    pub lock: Lock,
    /// When it is over at the latest; the end of the waiting comes first.
    pub until_ns: u64,
}

/// Policy rsio: what makes a process part of an interaction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handler {
    /// End of its part as a primary handler; 0: it has none.
    pub primary_until_ns: u64,
    /// End of its part as a cohandler; 0: it has none.
    pub co_until_ns: u64,
    /// Rules of the channels that it handles.
    pub channels: Vec<Slot>,
    /// Processes whose cohandler it is.
    pub primaries: Vec<u32>,
    /// Processes that communicated with it, and the confidence in each.
    pub candidates: Vec<(u32, u32)>,
}

/// What is known of one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its id.
    pub tgid: u32,
    /// Its last attention, live or over; `None` when it never had any, or its request's record is used anew.
    pub attention: Option<Attention>,
    /// End of its last loan; 0: it never had one, or the loan was confirmed or used up.
    pub loan_until_ns: u64,
    /// Last successful read from a channel; 0: never.
    pub channel_read_ns: u64,
    /// Who waits for its lock.
    pub lift: Option<Lift>,
    /// Policy rsio alone.
    pub handler: Option<Handler>,
    /// Policy rbpe alone: latest read from a unix socket, and from a network socket; 0: never.
    pub raised_ns: [u64; 2],
}

impl raw::appease_process {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        read(bytes)
    }

    /// The process, with its request's record if that is still of the same request.
    pub(crate) fn resolve(&self, tgid: u32, request: Option<&raw::appease_request>) -> Process {
        let attention = request.filter(|r| r.id == self.attention.request_id && r.id != 0).map(|r| Attention {
            request: r.resolve(),
            since_ns: self.attention.since_ns,
            until_ns: self.attention.until_ns,
            path: self.attention.path[..(self.attention.nr_hops as usize).min(self.attention.path.len())]
                .iter()
                .map(|hop| Hop { at_ns: hop.at_ns, tgid: hop.tgid, object: Object::from_raw(hop.object.into()) })
                .collect(),
        });
        let lift = (self.lift.until_ns > 0).then(|| Lift {
            waiter: self.lift.waiter,
            lock: Lock::from_raw(self.lift.lock),
            until_ns: self.lift.until_ns,
        });
        let (loan_until_ns, channel_read_ns) = (self.loan_until_ns, self.channel_read_ns);
        Process { tgid, attention, loan_until_ns, channel_read_ns, lift, handler: None, raised_ns: self.raised_ns }
    }
}

impl raw::appease_request {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        read(bytes)
    }

    pub(crate) fn resolve(&self) -> Request {
        let port = u16::try_from(self.peer_port).unwrap_or_default();
        Request {
            id: self.id,
            opened_ns: self.opened_ns,
            served_ns: self.served_ns,
            budget_ns: self.budget_ns,
            channel: Channel::from_raw(self.channel),
            rule: self.rule,
            device: self.device(),
            reader_tgid: self.reader_tgid,
            peer: address_of(self.peer).map(|address| SocketAddr::new(address, port)),
            customer: self.customer,
            weight: self.weight,
            first_response_ns: (self.first_response_ns > 0).then_some(self.first_response_ns),
            last_response_ns: (self.last_response_ns > 0).then_some(self.last_response_ns),
            is_over: self.is_over != 0,
        }
    }

    /// Whether somebody waits for it.
    pub(crate) fn is_open(&self) -> bool {
        self.id != 0 && self.is_over == 0 && self.flags & raw::APPEASE_REQUEST_PERIOD == 0
    }

    fn device(&self) -> Option<(u32, u32)> {
        let number = u32::try_from(self.object).ok().filter(|_| self.channel < raw::APPEASE_CHANNEL_FILE)?;
        Some((number >> MINOR_BITS, number & ((1 << MINOR_BITS) - 1)))
    }
}

impl raw::appease_handler {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Handler> {
        let record: Self = read(bytes)?;
        let candidates = record.cohandlers.entries.iter().filter(|entry| entry.id != 0);
        Some(Handler {
            primary_until_ns: record.primary_until_ns,
            co_until_ns: record.co_until_ns,
            channels: record.channels.iter().filter(|of| of.until_ns > 0).map(|of| of.rule).collect(),
            primaries: record.primaries.iter().map(|of| of.tgid).filter(|&tgid| tgid != 0).collect(),
            candidates: candidates.map(|entry| (entry.id, entry.confidence)).collect(),
        })
    }
}

impl raw::appease_rule {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        read(bytes)
    }
}

impl raw::appease_news {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        read(bytes)
    }
}

impl raw::appease_hog {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        read(bytes)
    }
}

/// A plain record at the head of `bytes`, if there are enough of them.
pub(crate) fn read<T: Plain>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < mem::size_of::<T>() {
        return None;
    }
    // SAFETY: enough bytes, checked above; T is made of integers only, so every pattern is valid; unaligned is allowed.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// Records of integers only, without gaps.
pub(crate) trait Plain: Copy {}
impl Plain for raw::appease_process {}
impl Plain for raw::appease_request {}
impl Plain for raw::appease_handler {}
impl Plain for raw::appease_rule {}
impl Plain for raw::appease_rules {}
impl Plain for raw::appease_target {}
impl Plain for raw::appease_unix_name {}
impl Plain for raw::appease_ports {}
impl Plain for raw::appease_identity {}
impl Plain for raw::appease_news {}
impl Plain for raw::appease_hog {}
impl Plain for raw::appease_change {}
impl Plain for raw::appease_changed {}
impl Plain for raw::appease_account {}
impl Plain for raw::appease_customer {}
impl Plain for raw::appease_weight_key {}
impl Plain for raw::appease_latency {}

/// A record as the kernel reads it.
pub(crate) fn as_bytes<T: Plain>(record: &T) -> &[u8] {
    // SAFETY: the bytes of a live value; integers without gaps, so each has been written.
    unsafe { slice::from_raw_parts(ptr::from_ref(record).cast(), mem::size_of::<T>()) }
}

/// A record as the kernel writes it.
pub(crate) fn as_bytes_mut<T: Plain>(record: &mut T) -> &mut [u8] {
    // SAFETY: as above, and every pattern is valid.
    unsafe { slice::from_raw_parts_mut(ptr::from_mut(record).cast(), mem::size_of::<T>()) }
}

/// A handle of a process or thread, which is also the key of its task local storage.
pub(crate) struct PidFd(OwnedFd);

impl PidFd {
    pub(crate) fn key(&self) -> [u8; 4] {
        self.0.as_raw_fd().to_ne_bytes()
    }
}

/// Opens a handle of the process `pid`, or of that thread.
pub(crate) fn pidfd(pid: u32, thread: bool) -> Result<PidFd, Error> {
    /// Same as `O_EXCL`, from Linux 6.9 on.
    const PIDFD_THREAD: libc::c_int = libc::O_EXCL;
    let flags = if thread { PIDFD_THREAD } else { 0 };
    let id = libc::pid_t::try_from(pid).map_err(|_| Error::NoSuchProcess(pid))?;
    // SAFETY: pidfd_open takes two integers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, id, flags) };
    match i32::try_from(fd) {
        // SAFETY: the kernel has just handed us this descriptor.
        Ok(fd) if fd >= 0 => Ok(PidFd(unsafe { OwnedFd::from_raw_fd(fd) })),
        _ => Err(Error::NoSuchProcess(pid)),
    }
}

/// Integers from the bytes of a map's value, in native order.
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks::<8>().0.iter().map(|chunk| u64::from_ne_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enums_follow_the_header() {
        assert_eq!(Lane::ALL.len(), raw::APPEASE_NR_LANES as usize);
        assert_eq!(Channel::ALL.len(), raw::APPEASE_NR_CHANNELS as usize);
        assert_eq!(Object::ALL.len(), raw::APPEASE_NR_OBJECTS as usize);
        assert_eq!(Lock::ALL.len(), raw::APPEASE_NR_LOCKS as usize);
        assert_eq!(Lane::from_raw(raw::APPEASE_LANE_OTHER), Lane::Other);
        assert_eq!(Channel::from_raw(raw::APPEASE_CHANNEL_AUDIO), Channel::Audio);
        assert_eq!(Object::from_raw(raw::APPEASE_OBJECT_FORK), Object::Fork);
    }

    #[test]
    fn a_record_of_another_request_is_no_attention() {
        let mut process = raw::appease_process::default();
        process.attention.request_id = 7;
        let mut request = raw::appease_request { id: 7, ..Default::default() };
        assert!(process.resolve(1, Some(&request)).attention.is_some());
        request.id = 8;
        assert_eq!(process.resolve(1, Some(&request)).attention, None);
    }

    #[test]
    fn short_bytes_are_no_record() {
        assert!(raw::appease_request::from_bytes(&[0; 8]).is_none());
    }
}
