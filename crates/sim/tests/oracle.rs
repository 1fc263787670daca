//! The order that our policy's key gives against eq. 1 to 5, reckoned out directly.
#![allow(clippy::unwrap_used)]

use appease_policy::{POLICY_WEIGHT_DEFAULT, unhappiness_key, unhappiness_opened};
use appease_sim::{
    Alpha, MS, Weight,
    unhappiness::{Ledger, RequestId, ShareId},
};
use proptest::prelude::*;

/// Half a nanosecond for each sum that is rounded.
const ROUNDING_NS: f64 = 1.0;

fn alpha(alpha: f64) -> Alpha {
    alpha.try_into().unwrap()
}

fn weight(weight: f64) -> Weight {
    weight.try_into().unwrap()
}

/// What happens next to one of the requests.
#[derive(Debug, Clone, Copy)]
enum Step {
    Start,
    Stop,
    /// The process asks so many services.
    Call(u32),
    Reply,
    Respond,
}

fn step(services: u32) -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Start),
        3 => Just(Step::Stop),
        2 => (1..=services).prop_map(Step::Call),
        2 => Just(Step::Reply),
        1 => Just(Step::Respond),
    ]
}

/// Requests that processes serve; each has a process that is not waiting for a service: the last.
struct Requests {
    ledger: Ledger,
    now_ns: u64,
    customers: Vec<u32>,
    open: Vec<Open>,
}

struct Open {
    id: RequestId,
    /// Those who wait, and at the end those whom they wait for.
    levels: Vec<Vec<ShareId>>,
    runs: bool,
}

impl Requests {
    fn new(alpha: Alpha, weights: &[f64]) -> Self {
        let mut ledger = Ledger::new(alpha);
        let customers = weights.iter().map(|&w| ledger.add_customer(weight(w))).collect();
        Self { ledger, now_ns: 0, customers, open: Vec::new() }
    }

    fn open(&mut self, which: usize) {
        let customer = self.customers[which % self.customers.len()];
        let (id, share) = self.ledger.open(customer, Weight::ONE, self.now_ns);
        self.open.push(Open { id, levels: vec![vec![share]], runs: false });
    }

    /// Does what can be done; the rest is passed over.
    fn step(&mut self, which: usize, step: Step) {
        if self.open.is_empty() {
            return;
        }
        let which = which % self.open.len();
        let open = &mut self.open[which];
        let share = *open.levels.last().unwrap().last().unwrap();
        match step {
            Step::Start if !open.runs => {
                self.ledger.start(share, self.now_ns);
                open.runs = true;
            }
            Step::Stop if open.runs => {
                self.ledger.stop(share, self.now_ns);
                open.runs = false;
            }
            Step::Call(services) if !open.runs && open.levels.len() < 6 => {
                let mut called = Vec::new();
                self.ledger.call(share, services, self.now_ns, &mut called);
                open.levels.push(called);
            }
            Step::Reply if !open.runs && open.levels.len() > 1 => {
                let level = open.levels.last_mut().unwrap();
                level.pop();
                let is_last = level.is_empty();
                assert_eq!(self.ledger.reply(share, self.now_ns), is_last);
                if is_last {
                    open.levels.pop();
                }
            }
            Step::Respond if !open.runs && open.levels.len() == 1 => {
                self.ledger.respond(open.id, self.now_ns);
                self.open.swap_remove(which);
            }
            _ => {}
        }
    }

    /// Charges those who run up to now, as a scheduler does when it decides.
    fn look(&mut self) {
        for open in self.open.iter().filter(|open| open.runs) {
            let share = *open.levels.last().unwrap().last().unwrap();
            self.ledger.stop(share, self.now_ns);
            self.ledger.start(share, self.now_ns);
        }
    }

    fn key(&self, request: RequestId) -> u64 {
        unhappiness_key(self.ledger.opened_ns(request), self.ledger.served_ns(request), POLICY_WEIGHT_DEFAULT)
    }
}

type Trace = Vec<(u64, usize, Option<Step>)>;

/// Times that pass, and what happens then to which request; `None`: one more comes.
fn trace(services: u32) -> impl Strategy<Value = Trace> {
    let next = prop_oneof![1 => Just(None), 5 => step(services).prop_map(Some)];
    prop::collection::vec((0..20 * MS, any::<usize>(), next), 1..120)
}

fn replay(requests: &mut Requests, trace: &Trace, mut check: impl FnMut(&Requests)) {
    for &(passes_ns, which, step) in trace {
        requests.now_ns += passes_ns;
        match step {
            None => requests.open(which),
            Some(step) => requests.step(which, step),
        }
        requests.look();
        check(requests);
    }
}

proptest! {
    /// With equal weights, and one service asked at a time, the smallest `opened + served` is the largest eq. 3, at
    /// any time and whatever α is: what goes from one process to another stays within the request.
    #[test]
    fn the_key_is_the_order_of_eq_3(trace in trace(1), share in 0.0..0.499) {
        let mut requests = Requests::new(alpha(share), &[1.0]);
        replay(&mut requests, &trace, |requests| {
            for a in &requests.open {
                for b in &requests.open {
                    let by_key = requests.key(a.id).cmp(&requests.key(b.id));
                    let unhappiness = |open: &Open| requests.ledger.of_request(open.id, requests.now_ns);
                    let by_definition = unhappiness(b).total_cmp(&unhappiness(a));
                    assert_eq!(by_key, by_definition, "at {} ns", requests.now_ns);
                }
            }
        });
    }

    /// Nobody is unhappy below zero, and totals are sums of their parts, with any weights and any calls.
    #[test]
    fn totals_are_sums(trace in trace(4), share in 0.0..0.499, first in 0.01..100.0, second in 0.01..100.0) {
        let mut requests = Requests::new(alpha(share), &[first, second]);
        replay(&mut requests, &trace, |requests| {
            let (ledger, now_ns) = (&requests.ledger, requests.now_ns);
            let mut of_customers = 0.0;
            for (&customer, weight) in requests.customers.iter().zip([first, second]) {
                let mine = requests.open.iter().filter(|open| ledger.customer_of(open.id) == customer);
                let sum: f64 = mine.clone().map(|open| ledger.of_request(open.id, now_ns)).sum();
                let of_customer = ledger.of_customer(customer, now_ns);
                assert!((of_customer - sum).abs() <= 1e-9 * sum.abs());
                let shares: i64 = mine
                    .flat_map(|open| open.levels.iter().flatten())
                    .map(|&share| ledger.of_process(share, now_ns))
                    .inspect(|&unhappiness| assert!(unhappiness >= 0))
                    .sum();
                assert!((of_customer - weight * shares as f64).abs() <= 1e-9 * sum.abs());
                of_customers += of_customer;
            }
            assert!((ledger.of_system(now_ns) - of_customers).abs() <= 1e-9 * of_customers);
        });
    }

    /// The line by which the scheduler orders requests is eq. 3, now and until something happens.
    #[test]
    fn a_line_is_eq_3(trace in trace(4), share in 0.0..0.499, ahead_ns in 0..100 * MS) {
        let mut requests = Requests::new(alpha(share), &[2.5]);
        replay(&mut requests, &trace, |requests| {
            for open in &requests.open {
                let line = requests.ledger.line(open.id);
                for at_ns in [requests.now_ns, requests.now_ns + ahead_ns] {
                    let direct = requests.ledger.of_request(open.id, at_ns);
                    assert!((line.at(at_ns) - direct).abs() <= ROUNDING_NS);
                }
            }
        });
    }

    /// The mean of eq. 5 that is kept from event to event is the mean of eq. 5.
    #[test]
    fn the_mean_is_that_of_eq_5(trace in trace(4), share in 0.0..0.499) {
        let mut requests = Requests::new(alpha(share), &[1.0, 3.0]);
        let (mut integral, mut last) = (0.0, (0, 0.0));
        for &(passes_ns, which, step) in &trace {
            requests.now_ns += passes_ns;
            let now = (requests.now_ns, requests.ledger.of_system(requests.now_ns));
            integral += (now.0 - last.0) as f64 * f64::midpoint(now.1, last.1);
            match step {
                None => requests.open(which),
                Some(step) => requests.step(which, step),
            }
            last = (requests.now_ns, requests.ledger.of_system(requests.now_ns));
        }
        let mean = integral / last.0.max(1) as f64;
        prop_assert!((requests.ledger.mean_of_system(last.0) - mean).abs() <= 1e-6 * mean + ROUNDING_NS);
    }
}

/// Eq. 1 and 2 by numbers: 8 ms are split 2 to 6, the service waits 3 ms more and runs for 1, and hands 9 back.
#[test]
fn unhappiness_is_split_and_handed_back() {
    let mut ledger = Ledger::new(alpha(0.25));
    let customer = ledger.add_customer(weight(2.0));
    let (request, holder) = ledger.open(customer, weight(1.5), 0);
    let mut called = Vec::new();
    ledger.call(holder, 1, 8 * MS, &mut called);
    assert_eq!((ledger.of_process(holder, 8 * MS), ledger.of_process(called[0], 8 * MS)), (2_000_000, 6_000_000));
    ledger.start(called[0], 11 * MS);
    ledger.stop(called[0], 12 * MS);
    assert_eq!(ledger.of_process(holder, 12 * MS), 2_000_000, "who waits for a service does not grow unhappier");
    assert_eq!(ledger.of_process(called[0], 12 * MS), 9_000_000);
    assert!(ledger.reply(called[0], 12 * MS));
    assert_eq!(ledger.of_process(holder, 12 * MS), 11_000_000);
    assert_eq!(ledger.of_request(request, 12 * MS), 33_000_000.0, "W(c) = 2, w = 1.5");
    let responded = ledger.respond(request, 12 * MS);
    assert_eq!((responded.unhappiness_ns, responded.served_ns), (11_000_000, 1_000_000));
    assert_eq!(ledger.of_system(12 * MS), 0.0);
}

/// With weights, the order of two requests changes while nothing happens to them, so no key that stands still can give it.
#[test]
fn with_weights_no_key_stands_for_the_order() {
    let mut ledger = Ledger::new(Alpha::ZERO);
    let (light, heavy) = (ledger.add_customer(Weight::ONE), ledger.add_customer(weight(4.0)));
    let (first, _) = ledger.open(light, Weight::ONE, 0);
    let (second, _) = ledger.open(heavy, Weight::ONE, 12 * MS);
    let is_first = |at_ns| ledger.of_request(first, at_ns) > ledger.of_request(second, at_ns);
    assert!(is_first(15 * MS) && !is_first(17 * MS), "15 to 12, and 17 to 20");
    // In the header a weight makes served time count less, which among requests that got nothing changes nothing.
    assert!(unhappiness_key(0, 0, 100) < unhappiness_key(12 * MS, 0, 400));
}

/// Inside a request, α decides: half of who waits for a service may be unhappier than the service.
#[test]
fn alpha_changes_who_is_unhappiest_inside_a_request_only() {
    let unhappiest = |share: f64| {
        let mut ledger = Ledger::new(alpha(share));
        let customer = ledger.add_customer(Weight::ONE);
        let (request, holder) = ledger.open(customer, Weight::ONE, 0);
        let mut called = Vec::new();
        ledger.call(holder, 2, 10 * MS, &mut called);
        assert_eq!(ledger.of_all_processes(request, 10 * MS), 10_000_000, "nothing is lost");
        ledger.of_process(holder, 10 * MS) > ledger.of_process(called[0], 10 * MS)
    };
    assert!(!unhappiest(0.0) && unhappiest(0.4), "0 to 5, and 4 to 3");
}

/// Of two requests of the same age that got as much, eq. 3 prefers the one that two services work on: both of them wait.
#[test]
fn services_asked_at_once_make_eq_3_differ_from_the_key() {
    let mut ledger = Ledger::new(Alpha::ZERO);
    let customer = ledger.add_customer(Weight::ONE);
    let (early, _) = ledger.open(customer, Weight::ONE, 0);
    let (late, holder) = ledger.open(customer, Weight::ONE, 2 * MS);
    ledger.call(holder, 2, 2 * MS, &mut Vec::new());
    assert!(ledger.opened_ns(early) + ledger.served_ns(early) < ledger.opened_ns(late) + ledger.served_ns(late));
    assert!(ledger.of_request(early, 10 * MS) < ledger.of_request(late, 10 * MS), "10 to 2 x 8");
}

/// Where policy `appease` leaves the paper on purpose: age beyond a horizon does not count, and service counts fourfold.
#[test]
fn the_horizon_and_the_weight_of_service_make_the_order_differ() {
    let (horizon_ns, fourfold) = (12 * MS, 25);
    let key = |opened_ns, served_ns| {
        unhappiness_key(unhappiness_opened(opened_ns, 100 * MS, horizon_ns), served_ns, fourfold)
    };
    let unhappiness = |opened_ns: u64, served_ns: u64| 100 * MS - opened_ns - served_ns;
    // One that came at 0 and got 20 ms, against one that came at 70 ms and got nothing.
    assert!(unhappiness(0, 20 * MS) > unhappiness(70 * MS, 0) && key(0, 20 * MS) > key(70 * MS, 0));
}
