//! Unhappiness as Customer Appeasement Scheduling defines it in section 2: eq. 1 to 5, term by term.
//!
//! Of each process that serves a request there is a *share*, u of the paper, in nanoseconds. It is the time since the
//! request came to the process less the CPU time that the process got, so
//!
//! - it grows with time while the process waits for a CPU,
//! - it stands still while the process runs, for then both terms grow alike,
//! - it stands still while the process waits for another one (section 2.2, item 4).
//!
//! Where the paper is silent: a process that asks several services at once splits (1 - α) u evenly among them, and goes on
//! when all have answered. A request that no process has taken up yet is a share of the one that it was sent to.

use slab::Slab;

use crate::{Alpha, Weight};

/// Nothing follows.
const NONE: u32 = u32::MAX;

/// Names a share.
pub type ShareId = u32;
/// Names a request.
pub type RequestId = u32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Waits for a CPU.
    Growing,
    Running,
    /// Waits for so many services.
    Waiting(u32),
}

#[derive(Debug, Clone)]
struct Share {
    request: RequestId,
    next: ShareId,
    parent: ShareId,
    /// u at `since_ns`.
    value_ns: i64,
    since_ns: u64,
    state: State,
}

#[derive(Debug, Clone)]
struct Request {
    customer: u32,
    weight: Weight,
    /// W(c) w.
    factor: f64,
    opened_ns: u64,
    served_ns: u64,
    /// First of its shares, the latest.
    first: ShareId,
}

/// Mean of the system's unhappiness over time: eq. 5 is a sum of straight lines between two events.
#[derive(Debug, Clone, Default)]
struct Gauge {
    value: f64,
    rate: f64,
    at_ns: u64,
    since_ns: u64,
    integral: f64,
}

impl Gauge {
    fn advance(&mut self, now_ns: u64) {
        let passed = (now_ns - self.at_ns) as f64;
        self.integral += passed * (self.value + self.rate * passed / 2.0);
        self.value += self.rate * passed;
        self.at_ns = now_ns;
    }

    fn shift(&mut self, now_ns: u64, value: f64, rate: f64) {
        self.advance(now_ns);
        self.value += value;
        self.rate += rate;
    }
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Responded {
    /// When the request was sent.
    pub opened_ns: u64,
    /// CPU time that all processes spent on it.
    pub served_ns: u64,
    /// Sum of its shares when the answer came, without weights.
    pub unhappiness_ns: i64,
}

/// A request's unhappiness as a line in time: `intercept_ns + slope · now`, times the weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// W(c) w of eq. 3.
    pub factor: f64,
    /// How many of its shares grow.
    pub slope: u32,
    /// Its value at time 0, without weights.
    pub intercept_ns: i64,
}

impl Line {
    /// The value of eq. 3 now.
    #[must_use]
    pub fn at(&self, now_ns: u64) -> f64 {
        self.factor * (self.intercept_ns + i64::from(self.slope) * now_ns as i64) as f64
    }
}

/// Who is how unhappy. Times must not go back from call to call.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    alpha: Alpha,
    customers: Vec<Weight>,
    requests: Slab<Request>,
    shares: Slab<Share>,
    gauge: Gauge,
}

impl Ledger {
    /// An empty one.
    #[must_use]
    pub fn new(alpha: Alpha) -> Self {
        Self { alpha, ..Self::default() }
    }

    /// A customer, with W(c).
    pub fn add_customer(&mut self, weight: Weight) -> u32 {
        self.customers.push(weight);
        self.customers.len() as u32 - 1
    }

    /// A customer sends a request of weight w to a process: the request, and the share of that process.
    pub fn open(&mut self, customer: u32, weight: Weight, now_ns: u64) -> (RequestId, ShareId) {
        let factor = self.customers[customer as usize].get() * weight.get();
        let request = Request { customer, weight, factor, opened_ns: now_ns, served_ns: 0, first: NONE };
        let request = self.requests.insert(request) as RequestId;
        self.gauge.shift(now_ns, 0.0, factor);
        (request, self.add_share(request, NONE, 0, now_ns))
    }

    /// The process begins to run.
    pub fn start(&mut self, share: ShareId, now_ns: u64) {
        let share = &mut self.shares[share as usize];
        share.value_ns = value(share, now_ns);
        share.since_ns = now_ns;
        share.state = State::Running;
        let factor = self.requests[share.request as usize].factor;
        self.gauge.shift(now_ns, 0.0, -factor);
    }

    /// It leaves the CPU, or is just looked at: its request got the time that it ran.
    pub fn stop(&mut self, share: ShareId, now_ns: u64) {
        let share = &mut self.shares[share as usize];
        let request = &mut self.requests[share.request as usize];
        request.served_ns += now_ns - share.since_ns;
        share.since_ns = now_ns;
        share.state = State::Growing;
        self.gauge.shift(now_ns, 0.0, request.factor);
    }

    /// The process asks so many services and waits for all of them (eq. 1); their shares are added to `shares`.
    pub fn call(&mut self, holder: ShareId, services: u32, now_ns: u64, shares: &mut Vec<ShareId>) {
        let alpha = self.alpha;
        let share = &mut self.shares[holder as usize];
        let request = share.request;
        let (stays, goes) = alpha.split(value(share, now_ns));
        share.value_ns = stays;
        share.since_ns = now_ns;
        share.state = State::Waiting(services);
        let (part, rest) = (goes / i64::from(services), goes % i64::from(services));
        for nth in 0..services {
            shares.push(self.add_share(request, holder, part + if nth == 0 { rest } else { 0 }, now_ns));
        }
        self.gauge.shift(now_ns, 0.0, self.requests[request as usize].factor * (f64::from(services) - 1.0));
    }

    /// A service answers: its share goes back to who asked (eq. 2). Whether that one has all of its answers now.
    pub fn reply(&mut self, service: ShareId, now_ns: u64) -> bool {
        let share = &self.shares[service as usize];
        let (request, parent, handed_back) = (share.request, share.parent, value(share, now_ns));
        self.unlink(request, service);
        self.shares.remove(service as usize);
        let factor = self.requests[request as usize].factor;
        let holder = &mut self.shares[parent as usize];
        holder.value_ns += handed_back;
        let goes_on = match holder.state {
            State::Waiting(more) if more > 1 => {
                holder.state = State::Waiting(more - 1);
                false
            }
            _ => {
                holder.state = State::Growing;
                holder.since_ns = now_ns;
                true
            }
        };
        self.gauge.shift(now_ns, 0.0, if goes_on { 0.0 } else { -factor });
        goes_on
    }

    /// The customer has its answer: unhappiness over this request ends.
    pub fn respond(&mut self, request: RequestId, now_ns: u64) -> Responded {
        let unhappiness_ns = self.of_all_processes(request, now_ns);
        let line = self.line(request);
        let gone = self.requests.remove(request as usize);
        let mut next = gone.first;
        while next != NONE {
            next = self.shares.remove(next as usize).next;
        }
        self.gauge.shift(now_ns, -line.at(now_ns), -gone.factor * f64::from(line.slope));
        Responded { opened_ns: gone.opened_ns, served_ns: gone.served_ns, unhappiness_ns }
    }

    /// u of one process over one request, ns (section 2.2).
    #[must_use]
    pub fn of_process(&self, share: ShareId, now_ns: u64) -> i64 {
        value(&self.shares[share as usize], now_ns)
    }

    /// The sum of eq. 3 without its weights, ns.
    #[must_use]
    pub fn of_all_processes(&self, request: RequestId, now_ns: u64) -> i64 {
        self.shares_of(request).map(|share| value(share, now_ns)).sum()
    }

    /// U of a request (eq. 3), ns.
    #[must_use]
    pub fn of_request(&self, request: RequestId, now_ns: u64) -> f64 {
        let Request { customer, weight, .. } = self.requests[request as usize];
        self.customers[customer as usize].get() * weight.get() * self.of_all_processes(request, now_ns) as f64
    }

    /// U of a customer (eq. 4), ns.
    #[must_use]
    pub fn of_customer(&self, customer: u32, now_ns: u64) -> f64 {
        let requests = self.requests.iter().filter(|(_, request)| request.customer == customer);
        let sum: f64 = requests
            .map(|(id, request)| request.weight.get() * self.of_all_processes(id as RequestId, now_ns) as f64)
            .sum();
        self.customers[customer as usize].get() * sum
    }

    /// U of the whole system (eq. 5), ns.
    #[must_use]
    pub fn of_system(&self, now_ns: u64) -> f64 {
        (0..self.customers.len() as u32).map(|customer| self.of_customer(customer, now_ns)).sum()
    }

    /// A request's unhappiness as a line in time, good until something happens to it. No process may wait for a CPU that
    /// does not make it steeper.
    #[must_use]
    pub fn line(&self, request: RequestId) -> Line {
        let mut line = Line { factor: self.requests[request as usize].factor, slope: 0, intercept_ns: 0 };
        for share in self.shares_of(request) {
            line.intercept_ns += share.value_ns;
            if share.state == State::Growing {
                line.intercept_ns -= share.since_ns as i64;
                line.slope += 1;
            }
        }
        line
    }

    /// When the request was sent.
    #[must_use]
    pub fn opened_ns(&self, request: RequestId) -> u64 {
        self.requests[request as usize].opened_ns
    }

    /// CPU time that it has got up to when its processes were looked at last.
    #[must_use]
    pub fn served_ns(&self, request: RequestId) -> u64 {
        self.requests[request as usize].served_ns
    }

    /// The request that a share is of.
    #[must_use]
    pub fn request_of(&self, share: ShareId) -> RequestId {
        self.shares[share as usize].request
    }

    /// Whose request it is.
    #[must_use]
    pub fn customer_of(&self, request: RequestId) -> u32 {
        self.requests[request as usize].customer
    }

    /// w, the weight of a request itself.
    #[must_use]
    pub fn weight_of(&self, request: RequestId) -> Weight {
        self.requests[request as usize].weight
    }

    /// W(c), a customer's weight.
    #[must_use]
    pub fn weight_of_customer(&self, customer: u32) -> Weight {
        self.customers[customer as usize]
    }

    /// Requests that wait for their answers.
    #[must_use]
    pub fn open_requests(&self) -> usize {
        self.requests.len()
    }

    /// One more than the largest id of a request so far.
    #[must_use]
    pub fn request_ids(&self) -> usize {
        self.requests.capacity()
    }

    /// Begins the mean of eq. 5 anew.
    pub fn restart_mean(&mut self, now_ns: u64) {
        self.gauge.advance(now_ns);
        self.gauge.integral = 0.0;
        self.gauge.since_ns = now_ns;
    }

    /// Mean of eq. 5 over the time since then, ns.
    #[must_use]
    pub fn mean_of_system(&self, now_ns: u64) -> f64 {
        let mut gauge = self.gauge.clone();
        gauge.advance(now_ns);
        gauge.integral / (now_ns - gauge.since_ns).max(1) as f64
    }

    fn add_share(&mut self, request: RequestId, parent: ShareId, value_ns: i64, now_ns: u64) -> ShareId {
        let next = self.requests[request as usize].first;
        let share = Share { request, next, parent, value_ns, since_ns: now_ns, state: State::Growing };
        let id = self.shares.insert(share) as ShareId;
        self.requests[request as usize].first = id;
        id
    }

    fn unlink(&mut self, request: RequestId, share: ShareId) {
        let next = self.shares[share as usize].next;
        let mut at = self.requests[request as usize].first;
        if at == share {
            self.requests[request as usize].first = next;
            return;
        }
        while self.shares[at as usize].next != share {
            at = self.shares[at as usize].next;
        }
        self.shares[at as usize].next = next;
    }

    fn shares_of(&self, request: RequestId) -> impl Iterator<Item = &Share> {
        let first = self.shares.get(self.requests[request as usize].first as usize);
        std::iter::successors(first, |share| self.shares.get(share.next as usize))
    }
}

fn value(share: &Share, now_ns: u64) -> i64 {
    match share.state {
        State::Growing => share.value_ns + (now_ns - share.since_ns) as i64,
        State::Running | State::Waiting(_) => share.value_ns,
    }
}
