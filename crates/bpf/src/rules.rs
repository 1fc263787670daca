//! The kernel's tables of rules: which slot a rule has, and which targets lead to it.

use std::{
    mem,
    net::{IpAddr, Ipv6Addr},
    os::fd::{AsRawFd, BorrowedFd},
};

use libbpf_rs::{MapCore, MapFlags, ProgramInput};

use crate::{
    Begun, Error, Hits, Protocol, RULES_PER_TARGET, Rule, Sensor, Side, Slot, Target,
    abi::{as_bytes, as_bytes_mut, raw},
};

/// What leads to a rule, as the kernel's side looks it up.
enum Key {
    Target(raw::appease_target),
    Name(Box<raw::appease_unix_name>),
}

impl Sensor {
    /// Makes a rule, which has seen nothing yet.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn define(&self, slot: Slot, rule: &Rule) -> Result<(), Error> {
        let mut record = raw::appease_rule::default();
        let flag = |is_set: bool, bit| if is_set { bit } else { 0 };
        let (filter, access) = (&rule.filter, &rule.access);
        record.weight = rule.weight;
        record.access = flag(access.read, raw::APPEASE_READ) | flag(access.write, raw::APPEASE_WRITE);
        record.flags = flag(filter.uid.is_some(), raw::APPEASE_RULE_HAS_UID)
            | flag(filter.gid.is_some(), raw::APPEASE_RULE_HAS_GID)
            | flag(filter.cgroup.is_some(), raw::APPEASE_RULE_HAS_CGROUP);
        record.uid = filter.uid.unwrap_or_default();
        record.gid = filter.gid.unwrap_or_default();
        if let Some(cgroup) = filter.cgroup {
            (record.cgroup_id, record.cgroup_level) = (cgroup.id, cgroup.level);
        }
        self.set_rule(slot, &record)
    }

    /// Takes a rule away; nothing leads to it any more ([`Sensor::unbind`]).
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn forget(&self, slot: Slot) -> Result<(), Error> {
        self.set_rule(slot, &raw::appease_rule::default())
    }

    /// Changes the weight of a rule, hundredths; what it has seen stays. A hit at the same instant may be lost.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn weigh(&self, slot: Slot, weight: u32) -> Result<(), Error> {
        let bytes = self.main.maps.rules.lookup(&slot.to_ne_bytes(), MapFlags::ANY);
        let bytes = bytes.map_err(|e| Error::libbpf("read a rule", e))?;
        match bytes.as_deref().and_then(raw::appease_rule::from_bytes) {
            Some(record) => self.set_rule(slot, &raw::appease_rule { weight, ..record }),
            None => Ok(()),
        }
    }

    fn set_rule(&self, slot: Slot, record: &raw::appease_rule) -> Result<(), Error> {
        let rules = &self.main.maps.rules;
        rules.update(&slot.to_ne_bytes(), as_bytes(record), MapFlags::ANY).map_err(|e| Error::libbpf("set a rule", e))
    }

    /// Has a target lead to a rule, after those that it leads to already.
    ///
    /// # Errors
    /// When it leads to [`RULES_PER_TARGET`] rules, or the kernel refuses.
    pub fn bind(&self, slot: Slot, target: &Target) -> Result<(), Error> {
        let Some(key) = Key::of(target) else { return Ok(()) };
        let mut slots = self.rules_at(&key)?;
        if slots.contains(&slot) {
            return Ok(());
        }
        let free = slots.iter_mut().find(|slot| **slot == 0).ok_or(Error::TooManyRules { most: RULES_PER_TARGET })?;
        *free = slot;
        self.set_rules_at(&key, slots)?;
        self.count_target(target, true)
    }

    /// Has a target no longer lead to a rule.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn unbind(&self, slot: Slot, target: &Target) -> Result<(), Error> {
        let Some(key) = Key::of(target) else { return Ok(()) };
        let slots = self.rules_at(&key)?;
        if !slots.contains(&slot) {
            return Ok(());
        }
        // The order of the others stays: the first that fits counts.
        let mut left = [0; RULES_PER_TARGET];
        let others = slots.into_iter().filter(|&other| other != slot && other != 0);
        left.iter_mut().zip(others).for_each(|(place, other)| *place = other);
        self.set_rules_at(&key, left)?;
        self.count_target(target, false)
    }

    fn rules_at(&self, key: &Key) -> Result<[Slot; RULES_PER_TARGET], Error> {
        let found = match key {
            Key::Target(target) => self.main.maps.targets.lookup(as_bytes(target), MapFlags::ANY),
            Key::Name(name) => self.main.maps.unix_names.lookup(as_bytes(&**name), MapFlags::ANY),
        };
        let found = found.map_err(|e| Error::libbpf("look a target up", e))?;
        let mut slots = [0; RULES_PER_TARGET];
        for (slot, bytes) in slots.iter_mut().zip(found.as_deref().unwrap_or_default().as_chunks::<4>().0) {
            *slot = Slot::from_ne_bytes(*bytes);
        }
        Ok(slots)
    }

    fn set_rules_at(&self, key: &Key, slots: [Slot; RULES_PER_TARGET]) -> Result<(), Error> {
        let value = raw::appease_rules { slots };
        let is_empty = slots[0] == 0;
        let maps = &self.main.maps;
        let done = match key {
            Key::Target(target) if is_empty => maps.targets.delete(as_bytes(target)),
            Key::Target(target) => maps.targets.update(as_bytes(target), as_bytes(&value), MapFlags::ANY),
            Key::Name(name) if is_empty => maps.unix_names.delete(as_bytes(&**name)),
            Key::Name(name) => maps.unix_names.update(as_bytes(&**name), as_bytes(&value), MapFlags::ANY),
        };
        done.map_err(|e| Error::libbpf("bind a target", e))
    }

    /// Keeps the bits by which the kernel's side tells most accesses from those of channels at a glance.
    fn count_target(&self, target: &Target, is_new: bool) -> Result<(), Error> {
        self.glance.borrow_mut().count(target, is_new);
        self.tell_glance()
    }

    fn tell_glance(&self) -> Result<(), Error> {
        let glance = self.glance.borrow();
        let ports = &self.main.maps.data_watched;
        ports
            .update(&0u32.to_ne_bytes(), as_bytes(&*glance.ports), MapFlags::ANY)
            .map_err(|e| Error::libbpf("set what the hooks look for", e))
    }

    /// What a rule has seen.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn hits(&self, slot: Slot) -> Result<Hits, Error> {
        let bytes = self.main.maps.rules.lookup(&slot.to_ne_bytes(), MapFlags::ANY);
        let bytes = bytes.map_err(|e| Error::libbpf("read a rule", e))?;
        let Some(record) = bytes.as_deref().and_then(raw::appease_rule::from_bytes) else { return Ok(Hits::default()) };
        let next = record.next_handler as usize % record.handlers.len();
        let mut handlers = record.handlers;
        // The next place to be written is that of the oldest.
        handlers.rotate_left(next);
        Ok(Hits {
            count: record.hits,
            last_ns: (record.last_ns > 0).then_some(record.last_ns),
            handlers: handlers
                .into_iter()
                .rev()
                .filter(|one| one.tgid != 0)
                .map(|one| Begun { pid: one.tgid, start_ns: one.start_ns })
                .collect(),
        })
    }

    /// Events of this inotify instance count, and of no other.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn adopt_watches(&self, inotify: BorrowedFd<'_>) -> Result<(), Error> {
        let identity = self.identify(inotify)?;
        self.glance.borrow_mut().ports.watches = identity.instance;
        self.tell_glance()
    }

    /// The kernel's identity of a file's inode, good for as long as a watch or a descriptor holds it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn inode_of(&self, file: BorrowedFd<'_>) -> Result<u64, Error> {
        match self.identify(file)?.inode {
            0 => Err(Error::libbpf("identify a file", libbpf_rs::Error::from_raw_os_error(libc::EBADF))),
            inode => Ok(inode),
        }
    }

    fn identify(&self, file: BorrowedFd<'_>) -> Result<raw::appease_identity, Error> {
        let mut identity = raw::appease_identity { fd: file.as_raw_fd().unsigned_abs().into(), ..Default::default() };
        let input = ProgramInput { context_in: Some(as_bytes_mut(&mut identity)), ..Default::default() };
        let ran = self.main.progs.appease_identify.test_run(input);
        ran.map_err(|e| Error::libbpf("identify a file", e))?;
        Ok(identity)
    }
}

impl Key {
    /// `None`: a class, whose rule is found by its slot.
    fn of(target: &Target) -> Option<Self> {
        let inode = |kind, id| raw::appease_target { kind, id: [id, 0], ..Default::default() };
        let target = match target {
            Target::Class(_) => return None,
            Target::Device { major, minor } => {
                inode(raw::APPEASE_TARGET_DEVICE, (u64::from(*major) << MINOR_BITS) | u64::from(*minor))
            }
            Target::File { wd } => inode(raw::APPEASE_TARGET_FILE, wd.unsigned_abs().into()),
            Target::Socket { protocol, side, address, port } => raw::appease_target {
                kind: match side {
                    Side::Accept => raw::APPEASE_TARGET_ACCEPT,
                    Side::Connect => raw::APPEASE_TARGET_CONNECT,
                },
                port: port.unwrap_or_default(),
                protocol: match protocol {
                    Protocol::Tcp => IPPROTO_TCP,
                    Protocol::Udp => IPPROTO_UDP,
                },
                id: address.map_or([0; 2], address_words),
            },
            Target::UnixPath { side, inode: id } => inode(side.unix_kind(), *id),
            Target::UnixAbstract { side, name } => {
                let mut key = Box::new(raw::appease_unix_name { kind: side.unix_kind(), name: [0; UNIX_PATH_LEN] });
                key.name.iter_mut().zip(name).for_each(|(to, from)| *to = from.cast_signed());
                return Some(Self::Name(key));
            }
        };
        Some(Self::Target(target))
    }
}

const UNIX_PATH_LEN: usize = raw::APPEASE_UNIX_PATH_LEN as usize;
/// Of the kernel's device numbers.
pub(crate) const MINOR_BITS: u32 = 20;
const IPPROTO_TCP: u16 = 6;
const IPPROTO_UDP: u16 = 17;

impl Side {
    fn unix_kind(self) -> u32 {
        match self {
            Self::Accept => raw::APPEASE_TARGET_UNIX_ACCEPT,
            Self::Connect => raw::APPEASE_TARGET_UNIX_CONNECT,
        }
    }
}

/// An address as the kernel's side keeps it: as IPv6 has it, in network order.
pub(crate) fn address_words(address: IpAddr) -> [u64; 2] {
    let address = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    let mut words = [0; 2];
    for (word, bytes) in words.iter_mut().zip(address.octets().as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    words
}

/// The other way round; `None` for none.
pub(crate) fn address_of(words: [u64; 2]) -> Option<IpAddr> {
    let mut octets = [0; 16];
    for (bytes, word) in octets.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *bytes = word.to_ne_bytes();
    }
    (words != [0; 2]).then(|| Ipv6Addr::from(octets).to_canonical())
}

/// How many targets there are of each kind that the kernel's side looks for at a glance.
pub(crate) struct Glance {
    ports: Box<raw::appease_ports>,
    /// Targets for each bit of `ports`, by kind and port.
    sockets: std::collections::HashMap<(Protocol, Side, u16), usize>,
    /// Targets for each flag.
    flags: [usize; 32],
    /// Files, which need hooks of their own.
    pub(crate) files: usize,
}

impl Default for Glance {
    fn default() -> Self {
        let ports = Box::new(raw::appease_ports::default());
        Self { ports, sockets: Default::default(), flags: [0; 32], files: 0 }
    }
}

impl Glance {
    /// Whether a rule names a socket that is none of TCP.
    pub(crate) fn has_unconnected(&self) -> bool {
        let flags = raw::APPEASE_PORTS_UNIX
            | raw::APPEASE_PORTS_UNIX_NAME
            | raw::APPEASE_PORTS_ANY_UDP
            | raw::APPEASE_PORTS_UDP_CONNECT;
        let is_udp =
            |(&(protocol, ..), &targets): (&(Protocol, Side, u16), &usize)| protocol == Protocol::Udp && targets > 0;
        self.ports.flags & flags != 0 || self.sockets.iter().any(is_udp)
    }

    fn count(&mut self, target: &Target, is_new: bool) {
        self.ports.version = self.ports.version.wrapping_add(1);
        let change = |number: &mut usize| {
            *number = if is_new { *number + 1 } else { number.saturating_sub(1) };
            *number > 0
        };
        let mut flag = |bit: u32| {
            let is_set = change(&mut self.flags[bit.trailing_zeros() as usize]);
            self.ports.flags = if is_set { self.ports.flags | bit } else { self.ports.flags & !bit };
        };
        match target {
            Target::Class(_) => {}
            Target::Device { .. } => flag(raw::APPEASE_PORTS_DEVICES),
            Target::File { .. } => {
                change(&mut self.files);
            }
            Target::UnixPath { .. } => flag(raw::APPEASE_PORTS_UNIX),
            Target::UnixAbstract { .. } => flag(raw::APPEASE_PORTS_UNIX_NAME),
            Target::Socket { protocol, side, address, port } => {
                if address.is_some() {
                    flag(raw::APPEASE_PORTS_HOSTS);
                }
                match (protocol, side) {
                    (Protocol::Tcp, Side::Connect) => flag(raw::APPEASE_PORTS_TCP_CONNECT),
                    (Protocol::Udp, Side::Connect) => flag(raw::APPEASE_PORTS_UDP_CONNECT),
                    (_, Side::Accept) => {}
                }
                match (port, protocol) {
                    (None, Protocol::Tcp) => flag(raw::APPEASE_PORTS_ANY_TCP),
                    (None, Protocol::Udp) => flag(raw::APPEASE_PORTS_ANY_UDP),
                    (Some(port), _) => {
                        let is_set = change(self.sockets.entry((*protocol, *side, *port)).or_default());
                        let (bit, index) = match (protocol, side) {
                            (Protocol::Tcp, Side::Accept) => (raw::APPEASE_PORT_TCP_ACCEPT, *port),
                            (Protocol::Tcp, Side::Connect) => (raw::APPEASE_PORT_TCP_CONNECT, port.to_be()),
                            (Protocol::Udp, Side::Accept) => (raw::APPEASE_PORT_UDP_ACCEPT, *port),
                            // A socket for datagrams need not know its far end: it is looked at by the flag.
                            (Protocol::Udp, Side::Connect) => return,
                        };
                        #[allow(clippy::cast_possible_truncation)]
                        let bit = bit as u8;
                        let named = &mut self.ports.named[usize::from(index)];
                        *named = if is_set { *named | bit } else { *named & !bit };
                    }
                }
            }
        }
    }
}

/// Bytes of the map's value must be as many as the kernel's.
const _: () = assert!(mem::size_of::<raw::appease_rules>() == RULES_PER_TARGET * mem::size_of::<Slot>());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_go_there_and_back() {
        for text in ["192.0.2.1", "2001:db8::1", "::1", "127.0.0.1"] {
            let address: IpAddr = text.parse().expect("an address");
            assert_eq!(address_of(address_words(address)), Some(address));
        }
        assert_eq!(address_of([0; 2]), None);
    }

    /// A server's port, of one address or of all.
    fn target(address: &str) -> Target {
        Target::Socket { protocol: Protocol::Tcp, side: Side::Accept, address: address.parse().ok(), port: Some(22) }
    }

    #[test]
    fn a_port_is_known_until_its_last_rule_goes() {
        let mut glance = Glance::default();
        let has = |glance: &Glance| u32::from(glance.ports.named[22]) == raw::APPEASE_PORT_TCP_ACCEPT;
        glance.count(&target("192.0.2.1"), true);
        glance.count(&target(""), true);
        glance.count(&target(""), false);
        assert!(has(&glance));
        glance.count(&target("192.0.2.1"), false);
        assert!(!has(&glance));
        assert_eq!(glance.ports.named, [0; 65536]);
    }

    #[test]
    fn addresses_are_looked_up_while_a_rule_names_one() {
        let mut glance = Glance::default();
        glance.count(&target(""), true);
        assert_eq!(glance.ports.flags, 0);
        glance.count(&target("192.0.2.1"), true);
        assert_eq!(glance.ports.flags, raw::APPEASE_PORTS_HOSTS);
        glance.count(&target("192.0.2.1"), false);
        assert_eq!(glance.ports.flags, 0);
    }

    #[test]
    fn a_flag_is_set_while_something_needs_it() {
        let mut glance = Glance::default();
        let name = Target::UnixAbstract { side: Side::Connect, name: b"bus".to_vec() };
        glance.count(&name, true);
        assert_eq!(glance.ports.flags, raw::APPEASE_PORTS_UNIX_NAME);
        glance.count(&name, false);
        assert_eq!(glance.ports.flags, 0);
    }
}
