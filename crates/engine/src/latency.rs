//! Response times and unhappiness, by customer and by channel, as the control socket tells them.
//!
//! Times are of `CLOCK_MONOTONIC`. The kernel's side goes on while its records are read, so that a request may be younger than
//! "now": it then has waited for nothing yet.

use std::collections::{BTreeMap, HashMap, HashSet};

use appease_policy::{HISTOGRAM_STEPS, POLICY_WEIGHT_DEFAULT, histogram_floor};
use hdrhistogram::Histogram;

use crate::{
    control::{Account, ChannelLatency, CustomerName, CustomerRow, RequestTotals, Responses, Times},
    names::Names,
    seams::{BUCKETS, Buckets, Customer, CustomerId, Latency, Request, Slot},
};

/// Digits that are kept of a time: about what a bucket's middle is right to. Each more is ten times the work.
const DIGITS: u8 = 2;

/// What the kernel's side knows at an instant.
pub(crate) struct Facts {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub now_ns: u64,
    pub customers: Vec<Customer>,
    pub latencies: Vec<Latency>,
    /// Requests that are open.
    pub open: Vec<Request>,
}

/// What channels are called, and what they weigh.
pub(crate) type ChannelNames<'a> = &'a dyn Fn(Slot) -> (String, f64);

/// Requests that are open, and U of them together (Customer Appeasement, eq. 3 to 5).
#[derive(Debug, Clone, Copy, Default)]
struct Waiting {
    open: u64,
    unhappiness_ns: u64,
}

impl Waiting {
    fn add(&mut self, request: &Request, now_ns: u64) {
        self.open += 1;
        self.unhappiness_ns = self.unhappiness_ns.saturating_add(unhappiness(request, now_ns));
    }
}

/// U of a request by weights of customer and request (eq. 3): its processes' shares together are what it waited less what it got.
fn unhappiness(request: &Request, now_ns: u64) -> u64 {
    let sum = now_ns.saturating_sub(request.opened_ns).saturating_sub(request.served_ns);
    let weighted = u128::from(sum) * u128::from(request.weight) / u128::from(POLICY_WEIGHT_DEFAULT);
    u64::try_from(weighted).unwrap_or(u64::MAX)
}

/// Bounds of [`Times::counts`], ns: there is one more of those.
pub(crate) fn edges_ns() -> Vec<u64> {
    (1..octaves()).map(|octave| histogram_floor(octave * HISTOGRAM_STEPS)).collect()
}

fn octaves() -> u32 {
    u32::try_from(BUCKETS).unwrap_or(u32::MAX) / HISTOGRAM_STEPS
}

/// A histogram of the kernel's, or several together.
#[derive(Clone)]
struct Tally {
    counts: Vec<u64>,
    /// Where it is known to the nanosecond.
    sum_ns: Option<u64>,
}

impl Tally {
    fn new(is_summed: bool) -> Self {
        Self { counts: vec![0; BUCKETS], sum_ns: is_summed.then_some(0) }
    }

    fn add(&mut self, buckets: &Buckets, sum_ns: u64) {
        for (count, more) in self.counts.iter_mut().zip(buckets) {
            *count += u64::from(*more);
        }
        self.sum_ns = self.sum_ns.map(|sum| sum.saturating_add(sum_ns));
    }

    fn times(&self, histogram: &mut Histogram<u64>) -> Times {
        let (mut sum_ns, mut max_ns) = (0u64, 0);
        let mut quantiles = [0; 3];
        if self.counts.iter().any(|count| *count > 0) {
            histogram.reset();
            for (bucket, &count) in (0..).zip(&self.counts).filter(|(_, count)| **count > 0) {
                max_ns = middle_ns(bucket);
                sum_ns = sum_ns.saturating_add(max_ns.saturating_mul(count));
                histogram.saturating_record_n(max_ns, count);
            }
            // What stands for several is the highest of them, else.
            let at = |quantile| histogram.median_equivalent(histogram.value_at_quantile(quantile)).min(max_ns);
            quantiles = [0.5, 0.9, 0.99].map(at);
        }
        let (count, sum_ns) = (self.counts.iter().sum(), self.sum_ns.unwrap_or(sum_ns));
        let [p50_ns, p90_ns, p99_ns] = quantiles;
        let steps = usize::try_from(HISTOGRAM_STEPS).unwrap_or(1);
        Times {
            count,
            sum_ns,
            mean_ns: sum_ns.checked_div(count).unwrap_or(0),
            p50_ns,
            p90_ns,
            p99_ns,
            max_ns,
            counts: self.counts.chunks(steps).map(|octave| octave.iter().sum()).collect(),
        }
    }
}

/// What stands for all times of a bucket.
fn middle_ns(bucket: u32) -> u64 {
    let floor = histogram_floor(bucket);
    // The last one has no end.
    if bucket as usize + 1 < BUCKETS { floor + (histogram_floor(bucket + 1) - floor) / 2 } else { floor }
}

/// All three histograms.
#[derive(Clone)]
struct Tallies {
    response: Tally,
    first: Tally,
    unhappiness: Tally,
}

impl Tallies {
    fn new() -> Self {
        Self { response: Tally::new(true), first: Tally::new(false), unhappiness: Tally::new(true) }
    }

    fn of<'a>(latencies: impl IntoIterator<Item = &'a Latency>) -> Self {
        let mut tallies = Self::new();
        latencies.into_iter().for_each(|latency| tallies.add(latency));
        tallies
    }

    fn add(&mut self, latency: &Latency) {
        self.response.add(&latency.response, latency.response_ns);
        self.first.add(&latency.first, 0);
        self.unhappiness.add(&latency.unhappiness, latency.unhappiness_ns);
    }

    fn responses(&self, histogram: &mut Histogram<u64>) -> Responses {
        Responses {
            last: self.response.times(histogram),
            first: self.first.times(histogram),
            unhappiness: self.unhappiness.times(histogram),
        }
    }
}

fn histogram() -> Histogram<u64> {
    let longest = histogram_floor(u32::try_from(BUCKETS).unwrap_or(u32::MAX) - 1) * 2;
    // These bounds are sound, and so are those that it falls back to.
    Histogram::new_with_bounds(1, longest, DIGITS)
        .or_else(|_| Histogram::new(DIGITS))
        .unwrap_or_else(|error| unreachable!("{DIGITS} digits: {error}"))
}

/// Leaves only requests of these customers.
pub(crate) fn keep_open<'a>(open: &mut Vec<Request>, customers: impl Iterator<Item = &'a Customer>) {
    let slots: HashSet<u32> = customers.map(|customer| customer.slot).collect();
    open.retain(|request| slots.contains(&request.customer));
}

/// All requests that are open.
pub(crate) fn totals(open: &[Request], now_ns: u64) -> RequestTotals {
    let mut waiting = Waiting::default();
    open.iter().for_each(|request| waiting.add(request, now_ns));
    let mut customers: Vec<u32> = open.iter().map(|request| request.customer).collect();
    customers.sort_unstable();
    customers.dedup();
    RequestTotals { open: waiting.open, customers: customers.len() as u64, unhappiness_ns: waiting.unhappiness_ns }
}

impl Facts {
    /// Leaves only customers that somebody may see, and what came of their requests.
    pub(crate) fn keep(&mut self, may_see: impl Fn(CustomerId) -> bool) {
        self.customers.retain(|customer| may_see(customer.id));
        self.latencies.retain(|latency| may_see(latency.customer));
        keep_open(&mut self.open, self.customers.iter());
    }

    /// All customers together; by channel, too.
    pub(crate) fn total(&self, names: ChannelNames<'_>) -> (Account, Vec<ChannelLatency>) {
        let mut histogram = histogram();
        let sum = |field: fn(&Customer) -> u64| self.customers.iter().map(field).fold(0, u64::saturating_add);
        let waiting = self.waiting(self.open.iter());
        let account = Account {
            opened: sum(|one| one.opened),
            answered: sum(|one| one.answered),
            silent: sum(|one| one.silent),
            timed_out: sum(|one| one.timed_out),
            denied: sum(|one| one.denied),
            served_ns: sum(|one| one.served_ns),
            open: waiting.open,
            unhappiness_ns: waiting.unhappiness_ns,
            responses: Tallies::of(&self.latencies).responses(&mut histogram),
        };
        let channels = self.channels(self.latencies.iter(), self.open.iter(), names, &mut histogram);
        (account, channels)
    }

    /// Customers from a slot on, at most so many rows of them and their channels, but one customer at least; and the slot from
    /// which on there are more.
    pub(crate) fn rows(
        &self,
        from: u32,
        rows_at_most: usize,
        people: &Names,
        names: ChannelNames<'_>,
    ) -> (Vec<CustomerRow>, Option<u32>) {
        let mut histogram = histogram();
        let mut latencies: HashMap<CustomerId, Vec<&Latency>> = HashMap::new();
        self.latencies.iter().for_each(|latency| latencies.entry(latency.customer).or_default().push(latency));
        let mut open: HashMap<u32, Vec<&Request>> = HashMap::new();
        self.open.iter().for_each(|request| open.entry(request.customer).or_default().push(request));

        let (mut rows, mut number) = (Vec::new(), 0);
        let visible = self.customers.iter().filter(|customer| customer.slot >= from);
        for customer in visible {
            if number >= rows_at_most {
                return (rows, Some(customer.slot));
            }
            let latencies = latencies.get(&customer.id).map(Vec::as_slice).unwrap_or_default();
            let open = open.get(&customer.slot).map(Vec::as_slice).unwrap_or_default();
            let waiting = self.waiting(open.iter().copied());
            let channels = self.channels(latencies.iter().copied(), open.iter().copied(), names, &mut histogram);
            number += 1 + channels.len();
            rows.push(CustomerRow {
                id: customer.slot,
                customer: name(customer.id, people),
                weight: hundredths(customer.weight),
                account: Account {
                    opened: customer.opened,
                    answered: customer.answered,
                    silent: customer.silent,
                    timed_out: customer.timed_out,
                    denied: customer.denied,
                    served_ns: customer.served_ns,
                    open: waiting.open,
                    unhappiness_ns: waiting.unhappiness_ns,
                    responses: Tallies::of(latencies.iter().copied()).responses(&mut histogram),
                },
                channels,
            });
        }
        (rows, None)
    }

    fn channels<'a>(
        &self,
        latencies: impl Iterator<Item = &'a Latency>,
        open: impl Iterator<Item = &'a Request>,
        names: ChannelNames<'_>,
        histogram: &mut Histogram<u64>,
    ) -> Vec<ChannelLatency> {
        let mut channels: BTreeMap<Slot, (Option<Tallies>, Waiting)> = BTreeMap::new();
        for latency in latencies {
            channels.entry(latency.rule).or_default().0.get_or_insert_with(Tallies::new).add(latency);
        }
        for request in open {
            channels.entry(request.rule).or_default().1.add(request, self.now_ns);
        }
        let row = |(id, (tallies, waiting)): (Slot, (Option<Tallies>, Waiting))| {
            let (channel, weight) = names(id);
            let responses = tallies.unwrap_or_else(Tallies::new).responses(histogram);
            ChannelLatency {
                id,
                channel,
                weight,
                open: waiting.open,
                unhappiness_ns: waiting.unhappiness_ns,
                responses,
            }
        };
        channels.into_iter().map(row).collect()
    }

    fn waiting<'a>(&self, open: impl Iterator<Item = &'a Request>) -> Waiting {
        let mut waiting = Waiting::default();
        open.for_each(|request| waiting.add(request, self.now_ns));
        waiting
    }
}

/// A weight as programs have it.
pub(crate) fn hundredths(weight: u32) -> f64 {
    f64::from(weight) / f64::from(POLICY_WEIGHT_DEFAULT)
}

/// The user whose customer it is; nobody's is root's to see.
pub(crate) fn owner(id: CustomerId) -> Option<u32> {
    match id {
        CustomerId::Seat(uid) => uid,
        CustomerId::User(uid) => Some(uid),
        CustomerId::Others | CustomerId::Line(..) | CustomerId::Address(_) | CustomerId::Cgroup(_) => None,
    }
}

/// What can be said of a customer at once: users and cgroups go by number here, for to look up a name may take long.
pub(crate) fn name(id: CustomerId, people: &Names) -> CustomerName {
    let of = |kind: &str, name: String| CustomerName { kind: kind.into(), name, uid: owner(id), cgroup_id: None };
    match id {
        CustomerId::Others => of("others", "everybody else".into()),
        CustomerId::Seat(None) => of("seat", "seat0".into()),
        CustomerId::Seat(Some(uid)) => of("seat", format!("seat0 (user {uid})")),
        CustomerId::User(uid) => of("user", format!("user {uid}")),
        CustomerId::Address(address) => of("address", address.to_string()),
        CustomerId::Cgroup(id) => CustomerName { cgroup_id: Some(id), ..of("cgroup", format!("cgroup {id}")) },
        CustomerId::Line(major, minor) => {
            let node = people.device(major, minor).node;
            of("line", format!("line {}", node.strip_prefix("/dev/").unwrap_or(&node)))
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use appease_policy::histogram_bucket;

    use super::*;
    use crate::{names::tests::root, seams::Channel};

    const MS: u64 = 1_000_000;
    const NOW: u64 = 100_000 * MS;

    pub(crate) fn customer(slot: u32, id: CustomerId) -> Customer {
        Customer {
            slot,
            id,
            weight: 100,
            open: 0,
            opened: 10,
            answered: 7,
            silent: 2,
            timed_out: 1,
            denied: 3,
            served_ns: 5 * MS,
        }
    }

    /// Responses of so many milliseconds, with a first one and unhappiness of half of that.
    pub(crate) fn latency(customer: CustomerId, rule: Slot, responses_ms: &[u64]) -> Latency {
        let empty = || Box::new([0; BUCKETS]);
        let (response, first, unhappiness) = (empty(), empty(), empty());
        let mut latency = Latency { customer, rule, response_ns: 0, unhappiness_ns: 0, response, first, unhappiness };
        for ms in responses_ms {
            let (ns, half) = (ms * MS, ms * MS / 2);
            latency.response_ns += ns;
            latency.unhappiness_ns += half;
            latency.response[histogram_bucket(ns) as usize] += 1;
            latency.first[histogram_bucket(half) as usize] += 1;
            latency.unhappiness[histogram_bucket(half) as usize] += 1;
        }
        latency
    }

    pub(crate) fn request(customer: u32, rule: Slot, opened_ns: u64, served_ns: u64, weight: u32) -> Request {
        Request {
            id: 1,
            opened_ns,
            served_ns,
            budget_ns: 2000 * MS,
            channel: Channel::Inet,
            rule,
            device: None,
            reader_tgid: 10,
            peer: None,
            customer,
            weight,
            first_response_ns: None,
            last_response_ns: None,
            is_over: false,
        }
    }

    fn facts(customers: Vec<Customer>, latencies: Vec<Latency>, open: Vec<Request>) -> Facts {
        Facts { now_ns: NOW, customers, latencies, open }
    }

    fn channel_name(slot: Slot) -> (String, f64) {
        (format!("channel {slot}"), 1.0)
    }

    fn nobody() -> Names {
        Names::new(std::path::Path::new("/nowhere"))
    }

    fn is_near(got_ns: u64, ms: u64) -> bool {
        got_ns.abs_diff(ms * MS) <= ms * MS / 25
    }

    #[test]
    fn quantiles_are_those_of_the_times() {
        let far = CustomerId::Address([192, 0, 2, 4].into());
        let all: Vec<u64> = (1..=100).collect();
        let (odd, even): (Vec<u64>, Vec<u64>) = all.iter().partition(|ms| *ms % 2 == 1);
        let halves = vec![latency(far, 7, &odd), latency(CustomerId::Others, 8, &even)];
        let facts = facts(vec![customer(1, far)], halves, vec![]);
        let (account, channels) = facts.total(&channel_name);
        let times = &account.responses.last;
        assert_eq!((times.count, times.sum_ns, times.mean_ns), (100, 5050 * MS, 50 * MS + MS / 2));
        assert!(is_near(times.p50_ns, 50) && is_near(times.p90_ns, 90) && is_near(times.p99_ns, 99), "{times:?}");
        assert!(is_near(times.max_ns, 100), "{times:?}");
        assert!(is_near(account.responses.first.p50_ns, 25) && is_near(account.responses.first.sum_ns, 2525));
        assert!(is_near(account.responses.unhappiness.max_ns, 50));
        let split: Vec<_> = channels.iter().map(|one| (one.id, one.responses.last.count)).collect();
        assert_eq!(split, [(7, 50), (8, 50)]);
    }

    #[test]
    fn nothing_is_nothing() {
        let (account, channels) = facts(vec![], vec![], vec![]).total(&channel_name);
        let times = &account.responses.last;
        assert_eq!((times.count, times.mean_ns, times.p99_ns, times.max_ns), (0, 0, 0, 0));
        assert_eq!((account.opened, account.unhappiness_ns, channels.len()), (0, 0, 0));
        assert_eq!(facts(vec![], vec![], vec![]).rows(0, 9, &nobody(), &channel_name), (vec![], None));
    }

    /// Bounds of what is counted together are bounds of buckets, so that no time is on the wrong side.
    #[test]
    fn edges_are_exact() {
        let edges = edges_ns();
        assert_eq!((edges.len() + 1, edges[0]), (octaves() as usize, 16_384));
        assert!(edges.windows(2).all(|two| two[1] == 2 * two[0]));
        for (octave, edge) in edges.iter().enumerate() {
            let mut tally = Tally::new(false);
            let mut buckets: Buckets = [0; BUCKETS];
            buckets[histogram_bucket(edge - 1) as usize] = 1;
            buckets[histogram_bucket(*edge) as usize] = 2;
            tally.add(&buckets, 0);
            let counts = tally.times(&mut histogram()).counts;
            assert_eq!((counts[octave], counts[octave + 1], counts.len()), (1, 2, edges.len() + 1));
        }
    }

    /// Customer Appeasement, eq. 3 to 5, and what becomes of clocks that seem to go back.
    #[test]
    fn unhappiness_is_by_weight() {
        let (far, seat) = (CustomerId::Address([192, 0, 2, 4].into()), CustomerId::Seat(None));
        let open = vec![
            request(1, 7, NOW - 10 * MS, 4 * MS, 400),
            request(1, 8, NOW - 10 * MS, 0, 100),
            // Served longer than it has waited, by several CPUs.
            request(1, 8, NOW - 10 * MS, 30 * MS, 100),
            // Opened after we looked at the clock.
            request(2, 7, NOW + 5 * MS, 0, 100),
            request(2, 7, u64::MAX, u64::MAX, u32::MAX),
        ];
        let facts = facts(vec![customer(1, far), customer(2, seat)], vec![], open);
        let totals = totals(&facts.open, NOW);
        assert_eq!((totals.open, totals.customers, totals.unhappiness_ns), (5, 2, 24 * MS + 10 * MS));
        let (rows, _) = facts.rows(0, 99, &nobody(), &channel_name);
        let told: Vec<_> = rows.iter().map(|row| (row.account.open, row.account.unhappiness_ns)).collect();
        assert_eq!(told, [(3, 34 * MS), (2, 0)]);
        let channels: Vec<_> = rows[0].channels.iter().map(|one| (one.id, one.open, one.unhappiness_ns)).collect();
        assert_eq!(channels, [(7, 1, 24 * MS), (8, 2, 10 * MS)]);
        assert_eq!(
            unhappiness(&request(0, 0, 0, 0, u32::MAX), u64::MAX / 4),
            u64::MAX,
            "no more than there are numbers"
        );
    }

    #[test]
    fn rows_come_in_pages() {
        let all: Vec<Customer> = (0..1024).map(|slot| customer(slot, CustomerId::User(slot))).collect();
        let latencies = (0..512).map(|uid| latency(CustomerId::User(uid), 7, &[1])).collect();
        let mut facts = facts(all, latencies, vec![]);
        facts.keep(|id| owner(id) != Some(5));
        let (mut seen, mut from) = (Vec::new(), Some(0));
        while let Some(next) = from {
            let (rows, more) = facts.rows(next, 40, &nobody(), &channel_name);
            assert!(!rows.is_empty() && rows.len() <= 40);
            seen.extend(rows.iter().map(|row| row.id));
            from = more;
        }
        assert_eq!(seen, (0..1024).filter(|slot| *slot != 5).collect::<Vec<_>>());
        let (rows, _) = facts.rows(0, 0, &nobody(), &channel_name);
        assert_eq!(rows.len(), 0);
    }

    #[test]
    fn customers_have_names_and_owners() {
        let machine = root(&[("sys/dev/char/4:64/uevent", "DEVNAME=ttyS0\n")]);
        let people = Names::new(machine.path());
        let all = [
            CustomerId::Others,
            CustomerId::Seat(None),
            CustomerId::Seat(Some(1000)),
            CustomerId::Line(4, 64),
            CustomerId::Line(9, 9),
            CustomerId::Address("2001:db8::4".parse().expect("an address")),
            CustomerId::User(0),
            CustomerId::Cgroup(77),
        ];
        let told: Vec<String> = all
            .iter()
            .map(|id| {
                let CustomerName { kind, name, uid, cgroup_id } = name(*id, &people);
                format!("{kind}: {name} {uid:?} {cgroup_id:?}")
            })
            .collect();
        insta::assert_snapshot!(told.join("\n"), @r"
        others: everybody else None None
        seat: seat0 None None
        seat: seat0 (user 1000) Some(1000) None
        line: line ttyS0 None None
        line: line char 9:9 None None
        address: 2001:db8::4 None None
        user: user 0 Some(0) None
        cgroup: cgroup 77 None Some(77)
        ");
    }
}
