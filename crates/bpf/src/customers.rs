//! Customers: who sends requests, what came of these, and how much each customer weighs.
//!
//! The kernel's side writes these records while they are read: a sum and what it sums up may be an instant apart.

use std::{collections::BTreeMap, net::IpAddr};

use libbpf_rs::{MapCore, MapFlags, ProgramInput};

use crate::{
    Error, Request, Sensor, Slot,
    abi::{Plain, as_bytes, raw},
    rules::{MINOR_BITS, address_of, address_words},
};

/// Weights that fit into the kernel's table.
pub const MAX_WEIGHTS: usize = 4096;
/// Buckets of each histogram (`bpf/policy/histogram.h`).
pub const BUCKETS: usize = raw::HISTOGRAM_BUCKETS as usize;

/// What a customer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CustomerIs {
    /// A seat, a line or an address; behind unix sockets and files the user.
    #[default]
    Auto,
    /// The user of the process that reads; of a seat, its own.
    User,
    /// The cgroup of the process that reads.
    Cgroup,
}

/// Somebody outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CustomerId {
    /// Everybody else: those who found no place of their own.
    Others,
    /// Who sits at the machine, and which user that is.
    Seat(Option<u32>),
    /// At a serial line: major and minor number of its device.
    Line(u32, u32),
    /// At a far end.
    Address(IpAddr),
    /// A user of this machine.
    User(u32),
    /// What runs in a cgroup of the cgroup v2 hierarchy, by its id.
    Cgroup(u64),
}

/// Whom a weight is for. Of several that fit a customer the longest counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Whom {
    /// Whoever sits at the machine.
    Seat,
    /// One user, when sitting at the machine.
    SeatOf(u32),
    /// Far ends whose addresses begin alike in so many bits, of 32 or 128.
    Addresses(IpAddr, u8),
    /// A user of this machine.
    User(u32),
    /// What runs in a cgroup, by its id.
    Cgroup(u64),
}

/// A customer and its account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Customer {
    /// Its place in the kernel's table.
    pub slot: u32,
    /// Who it is.
    pub id: CustomerId,
    /// Hundredths.
    pub weight: u32,
    /// Requests that are open.
    pub open: u32,
    /// Requests in all.
    pub opened: u64,
    /// Of those, ended by their response.
    pub answered: u64,
    /// Ended without one, when nobody worked on them any more.
    pub silent: u64,
    /// Ended without one, while somebody still did.
    pub timed_out: u64,
    /// Reads that opened none, since too many were open.
    pub denied: u64,
    /// CPU time spent on its requests.
    pub served_ns: u64,
}

/// How many times were how long: a count for each bucket of `bpf/policy/histogram.h`.
pub type Buckets = [u32; BUCKETS];

/// Responses to one customer by one channel, the latest customers alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Latency {
    /// Who.
    pub customer: CustomerId,
    /// By which rule.
    pub rule: Slot,
    /// Sum of the times from the opening to the last write back.
    pub response_ns: u64,
    /// Sum of the unhappiness at that.
    pub unhappiness_ns: u64,
    /// Times to the last write back.
    pub response: Box<Buckets>,
    /// Times to the first one.
    pub first: Box<Buckets>,
    /// Unhappiness at the last one.
    pub unhappiness: Box<Buckets>,
}

impl CustomerId {
    fn of(key: &raw::appease_customer_key) -> Self {
        #[allow(clippy::cast_possible_truncation)]
        let low = key.id[0] as u32;
        match key.kind {
            raw::APPEASE_CUSTOMER_SEAT => Self::Seat((low != raw::APPEASE_NOBODY).then_some(low)),
            raw::APPEASE_CUSTOMER_LINE => Self::Line(low >> MINOR_BITS, low & ((1 << MINOR_BITS) - 1)),
            raw::APPEASE_CUSTOMER_ADDRESS => address_of(key.id).map_or(Self::Others, Self::Address),
            raw::APPEASE_CUSTOMER_UID => Self::User(low),
            raw::APPEASE_CUSTOMER_CGROUP => Self::Cgroup(key.id[0]),
            _ => Self::Others,
        }
    }
}

impl Whom {
    /// The key in the kernel's prefix tree, whose first 32 bits are the kind.
    fn key(self) -> raw::appease_weight_key {
        const KIND_BITS: u32 = 32;
        const ALL_BITS: u32 = KIND_BITS + 128;
        /// Of the IPv6 address that stands for one of IPv4.
        const MAPPED_BITS: u32 = 96;
        let (prefix, kind, id) = match self {
            Self::Seat => (KIND_BITS, raw::APPEASE_CUSTOMER_SEAT, [0; 2]),
            Self::SeatOf(uid) => (ALL_BITS, raw::APPEASE_CUSTOMER_SEAT, [uid.into(), 0]),
            Self::User(uid) => (ALL_BITS, raw::APPEASE_CUSTOMER_UID, [uid.into(), 0]),
            Self::Cgroup(id) => (ALL_BITS, raw::APPEASE_CUSTOMER_CGROUP, [id, 0]),
            Self::Addresses(address, bits) => {
                let before = if address.is_ipv4() { MAPPED_BITS } else { 0 };
                (KIND_BITS + before + u32::from(bits), raw::APPEASE_CUSTOMER_ADDRESS, address_words(address))
            }
        };
        raw::appease_weight_key { prefix, kind, id }
    }
}

impl raw::appease_customer {
    /// `None`: the slot is free.
    fn resolve(&self, slot: u32) -> Option<Customer> {
        (self.latest_ns > 0).then(|| Customer {
            slot,
            id: CustomerId::of(&self.key),
            weight: self.weight,
            open: self.open,
            opened: self.opened,
            answered: self.answered,
            silent: self.silent,
            timed_out: self.timed_out,
            denied: self.denied,
            served_ns: self.served_ns,
        })
    }
}

impl Sensor {
    /// Has these weights count from now on, hundredths, and no others; also for customers who are known already, from their
    /// next request on. When that fails, those before do.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_weights(&mut self, weights: &BTreeMap<Whom, u32>) -> Result<(), Error> {
        let before = std::mem::take(&mut self.weights);
        if let Err(error) = self.replace_weights(&before, weights) {
            // What was put in is taken out again, and what was there is put back; there was room for it.
            let _ =
                self.replace_weights(weights, &before).and_then(|()| self.replace_weights(&BTreeMap::new(), &before));
            self.weights = before;
            return Err(error);
        }
        self.weights.clone_from(weights);
        if let Some(data) = self.main.maps.data_armed_data.as_deref_mut() {
            // 0 is before anything was said.
            data.armed.weights_version = data.armed.weights_version.wrapping_add(1).max(1);
        }
        Ok(())
    }

    fn replace_weights(&self, before: &BTreeMap<Whom, u32>, after: &BTreeMap<Whom, u32>) -> Result<(), Error> {
        let map = &self.main.maps.weights;
        let failed = |e| Error::libbpf("set the weights of customers", e);
        // First what goes, to make room.
        for whom in before.keys().filter(|whom| !after.contains_key(whom)) {
            match map.delete(as_bytes(&whom.key())) {
                Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => return Err(failed(error)),
                _ => {}
            }
        }
        for (whom, weight) in after.iter().filter(|(whom, weight)| before.get(whom) != Some(weight)) {
            map.update(as_bytes(&whom.key()), &weight.to_ne_bytes(), MapFlags::ANY).map_err(failed)?;
        }
        Ok(())
    }

    /// Says who is the active user of the seat; `None`: nobody.
    pub fn set_seat_user(&mut self, user: Option<u32>) {
        if let Some(data) = self.main.maps.data_armed_data.as_deref_mut() {
            data.armed.seat_uid = user.unwrap_or(raw::APPEASE_NOBODY);
        }
    }

    /// Ends requests whose time is over, and accounts for them. To be called about once a second.
    ///
    /// # Errors
    /// When the kernel does not run it.
    pub fn sweep(&self) -> Result<(), Error> {
        let ran = self.main.progs.appease_sweep.test_run(ProgramInput::default());
        ran.map(drop).map_err(|e| Error::libbpf("account for requests", e))
    }

    /// Those who sent requests.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn customers(&self) -> Result<Vec<Customer>, Error> {
        let records = array::<raw::appease_customer>(&self.main.maps.customers, "read the customers")?;
        Ok((0..).zip(&records).filter_map(|(slot, record)| record.resolve(slot)).collect())
    }

    /// What came of requests that ended by their response.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn latencies(&self) -> Result<Vec<Latency>, Error> {
        let records = array::<raw::appease_latency>(&self.main.maps.latencies, "read response times")?;
        let latency = |record: &raw::appease_latency| Latency {
            customer: CustomerId::of(&record.key.customer),
            rule: record.key.rule,
            response_ns: record.response_ns,
            unhappiness_ns: record.unhappiness_ns,
            response: Box::new(record.response),
            first: Box::new(record.first),
            unhappiness: Box::new(record.unhappiness),
        };
        Ok(records.iter().filter(|record| record.latest_ns > 0).map(latency).collect())
    }

    /// Requests that somebody waits for: neither over, nor periods of something that is given.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn open_requests(&self) -> Result<Vec<Request>, Error> {
        let records = array::<raw::appease_request>(&self.main.maps.requests, "read the requests")?;
        Ok(records.iter().filter(|record| record.is_open()).map(raw::appease_request::resolve).collect())
    }
}

/// All records of an array.
fn array<T: Plain>(map: &impl MapCore, what: &str) -> Result<Vec<T>, Error> {
    let records: Vec<T> = batch(map, what)?.filter_map(|(_, value)| crate::abi::read(&value)).collect();
    // A batch that fails looks like the end.
    if records.len() == map.max_entries() as usize {
        Ok(records)
    } else {
        Err(Error::libbpf(what, libbpf_rs::Error::from_raw_os_error(libc::EIO)))
    }
}

/// All of a map, in one call: there is room for one more than there can be, so that nobody asks for the rest.
fn batch<'a>(map: &'a impl MapCore, what: &str) -> Result<impl Iterator<Item = (Vec<u8>, Vec<u8>)> + 'a, Error> {
    map.lookup_batch(map.max_entries() + 1, MapFlags::ANY, MapFlags::ANY).map_err(|e| Error::libbpf(what, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn customers_are_told_apart_by_kind() {
        let of = |kind, id| CustomerId::of(&raw::appease_customer_key { kind, pad: 0, id });
        let far: IpAddr = "192.0.2.4".parse().expect("an address");
        assert_eq!(of(raw::APPEASE_CUSTOMER_NONE, [7, 7]), CustomerId::Others);
        assert_eq!(of(raw::APPEASE_CUSTOMER_SEAT, [1000, 0]), CustomerId::Seat(Some(1000)));
        assert_eq!(of(raw::APPEASE_CUSTOMER_SEAT, [raw::APPEASE_NOBODY.into(), 0]), CustomerId::Seat(None));
        assert_eq!(of(raw::APPEASE_CUSTOMER_LINE, [4 << 20 | 64, 0]), CustomerId::Line(4, 64));
        assert_eq!(of(raw::APPEASE_CUSTOMER_ADDRESS, address_words(far)), CustomerId::Address(far));
        assert_eq!(of(raw::APPEASE_CUSTOMER_UID, [0, 0]), CustomerId::User(0));
        assert_eq!(of(raw::APPEASE_CUSTOMER_CGROUP, [1 << 40, 0]), CustomerId::Cgroup(1 << 40));
        assert_eq!(of(99, [1, 1]), CustomerId::Others);
    }

    /// In the order of the kernel's tree: kind, then bytes in network order.
    #[test]
    fn keys_of_weights_are_prefixes() {
        let of = |whom: Whom| {
            let key = whom.key();
            (key.prefix, key.kind, key.id[0].to_ne_bytes(), key.id[1].to_ne_bytes())
        };
        let address = |text: &str, bits| of(Whom::Addresses(text.parse().expect("an address"), bits));
        let mapped = [0, 0, 0xff, 0xff, 192, 0, 2, 0];
        assert_eq!(address("192.0.2.0", 24), (32 + 96 + 24, raw::APPEASE_CUSTOMER_ADDRESS, [0; 8], mapped));
        let site = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0];
        assert_eq!(address("2001:db8::", 32), (64, raw::APPEASE_CUSTOMER_ADDRESS, site, [0; 8]));
        assert_eq!(of(Whom::Seat).0, 32);
        let uid = 1000u64.to_ne_bytes();
        assert_eq!(of(Whom::SeatOf(1000)), (160, raw::APPEASE_CUSTOMER_SEAT, uid, [0; 8]));
        assert_eq!(of(Whom::User(1000)), (160, raw::APPEASE_CUSTOMER_UID, uid, [0; 8]));
    }

    #[test]
    fn a_free_slot_is_nobody() {
        let mut record = raw::appease_customer::default();
        assert_eq!(record.resolve(3), None);
        record.latest_ns = 1;
        assert_eq!(record.resolve(3).map(|one| (one.slot, one.id)), Some((3, CustomerId::Others)));
    }

    #[test]
    fn what_is_over_or_given_is_not_open() {
        let open = raw::appease_request { id: 1, ..Default::default() };
        assert!(open.is_open());
        for other in [
            raw::appease_request { id: 0, ..open },
            raw::appease_request { is_over: 1, ..open },
            raw::appease_request { is_over: 2, ..open },
            raw::appease_request { flags: raw::APPEASE_REQUEST_PERIOD, ..open },
        ] {
            assert!(!other.is_open());
        }
    }
}
