//! Shares as the kernel's side of policy `cas` keeps them (`bpf/policy/share.h`), against eq. 1 to 3 reckoned out directly; and how
//! often the key that stands still gives another order than eq. 3.
#![allow(clippy::unwrap_used)]

use appease_policy::{
    POLICY_WEIGHT_DEFAULT, SHARE_ALPHA_PARTS, request_weight, share_kept, share_now, share_weighted, unhappiness_key,
};
use appease_sim::{
    MS, Weight,
    unhappiness::{Ledger, RequestId, ShareId},
};
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};

/// A process's share as `struct appease_process` has it.
#[derive(Debug, Clone, Copy)]
struct Share {
    ns: i64,
    /// 0: it stands still.
    since_ns: u64,
    id: ShareId,
}

/// A request, and the processes that serve it: each waits for the next one, the last one does not.
struct Served {
    id: RequestId,
    weight: u32,
    waiting_ns: i64,
    processes: Vec<Share>,
    runs: bool,
    ran_since_ns: u64,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Open { heavy: bool },
    Start,
    Stop,
    Call,
    Reply,
}

fn steps() -> impl Strategy<Value = Vec<(u64, usize, Step)>> {
    let step = prop_oneof![
        2 => any::<bool>().prop_map(|heavy| Step::Open { heavy }),
        4 => Just(Step::Start),
        4 => Just(Step::Stop),
        3 => Just(Step::Call),
        3 => Just(Step::Reply),
    ];
    prop::collection::vec((1..20 * MS, any::<usize>(), step), 1..120)
}

/// The kernel's account and the direct one, side by side.
struct Both {
    ledger: Ledger,
    customers: [u32; 2],
    weights: [u32; 2],
    alpha_parts: u32,
    now_ns: u64,
    served: Vec<Served>,
}

impl Both {
    fn new(alpha_parts: u32, weights: [u32; 2]) -> Self {
        let mut ledger = Ledger::new((f64::from(alpha_parts) / f64::from(SHARE_ALPHA_PARTS)).try_into().unwrap());
        let weight = |of: u32| (f64::from(of) / f64::from(POLICY_WEIGHT_DEFAULT)).try_into().unwrap();
        let customers = weights.map(|of| ledger.add_customer(weight(of)));
        Self { ledger, customers, weights, alpha_parts, now_ns: 1, served: Vec::new() }
    }

    fn step(&mut self, which: usize, step: Step) {
        let now_ns = self.now_ns;
        if let Step::Open { heavy } = step {
            let customer = usize::from(heavy);
            let (id, share) = self.ledger.open(self.customers[customer], Weight::ONE, now_ns);
            let weight = request_weight(self.weights[customer], POLICY_WEIGHT_DEFAULT);
            let processes = vec![Share { ns: 0, since_ns: now_ns, id: share }];
            self.served.push(Served { id, weight, waiting_ns: 0, processes, runs: false, ran_since_ns: 0 });
            return;
        }
        if self.served.is_empty() {
            return;
        }
        let at = which % self.served.len();
        let Served { waiting_ns, processes, runs, ran_since_ns, .. } = &mut self.served[at];
        let depth = processes.len();
        let last = processes.last_mut().unwrap();
        match step {
            Step::Start if !*runs => {
                self.ledger.start(last.id, now_ns);
                (*runs, *ran_since_ns) = (true, now_ns);
            }
            Step::Stop if *runs => {
                self.ledger.stop(last.id, now_ns);
                last.ns -= (now_ns - *ran_since_ns) as i64;
                *runs = false;
            }
            // split_share() of bpf/customers.bpf.h.
            Step::Call if !*runs && depth < 6 => {
                let mut called = Vec::new();
                self.ledger.call(last.id, 1, now_ns, &mut called);
                let share = share_now(last.ns, last.since_ns, now_ns);
                let kept = share_kept(share, self.alpha_parts);
                *waiting_ns += kept;
                (last.ns, last.since_ns) = (kept, 0);
                processes.push(Share { ns: share - kept, since_ns: now_ns, id: called[0] });
            }
            // hand_back_share(), after share_goes_on().
            Step::Reply if !*runs && depth > 1 => {
                self.ledger.reply(last.id, now_ns);
                let handed_back = share_now(last.ns, last.since_ns, now_ns);
                processes.pop();
                let holder = processes.last_mut().unwrap();
                *waiting_ns -= holder.ns;
                holder.since_ns = now_ns;
                holder.ns += handed_back;
            }
            _ => {}
        }
    }

    /// Charges those who run, as a scheduler does when it decides.
    fn look(&mut self) {
        for served in self.served.iter_mut().filter(|served| served.runs) {
            let last = served.processes.last_mut().unwrap();
            self.ledger.stop(last.id, self.now_ns);
            self.ledger.start(last.id, self.now_ns);
            last.ns -= (self.now_ns - served.ran_since_ns) as i64;
            served.ran_since_ns = self.now_ns;
        }
    }

    /// total_of() of bpf/unhappiest.bpf.h.
    fn total(&self, served: &Served) -> i64 {
        let last = served.processes.last().unwrap();
        share_weighted(share_now(last.ns, last.since_ns, self.now_ns) + served.waiting_ns, served.weight)
    }

    fn key(&self, served: &Served) -> u64 {
        let (opened_ns, served_ns) = (self.ledger.opened_ns(served.id), self.ledger.served_ns(served.id));
        unhappiness_key(opened_ns, served_ns, POLICY_WEIGHT_DEFAULT)
    }
}

proptest! {
    /// Each share is the u of eq. 1 and 2, and the total that of eq. 3, with any α and any weights: what is rounded at each split
    /// is less than a nanosecond, and is lost to nobody.
    #[test]
    fn shares_are_those_of_the_paper(steps in steps(), alpha_parts in 0..500u32, light in 1..10_000u32, heavy in 1..10_000u32) {
        let mut both = Both::new(alpha_parts, [light, heavy]);
        for (passes_ns, which, step) in steps {
            both.now_ns += passes_ns;
            both.look();
            both.step(which, step);
            both.look();
            for served in &both.served {
                // Half a nanosecond for each split so far, by either account.
                for share in &served.processes {
                    let ours = share_now(share.ns, share.since_ns, both.now_ns);
                    let direct = both.ledger.of_process(share.id, both.now_ns);
                    prop_assert!((ours - direct).abs() <= 120, "{ours} against {direct}");
                }
                let (ours, direct) = (both.total(served), both.ledger.of_request(served.id, both.now_ns));
                let rounding = 1.0 + f64::from(served.weight) / f64::from(POLICY_WEIGHT_DEFAULT);
                prop_assert!((ours as f64 - direct).abs() <= rounding, "{ours} against {direct}");
            }
        }
    }
}

/// Of all pairs of requests at all times in random traces: how many per thousand the key orders otherwise than eq. 3.
fn pairs_ordered_otherwise(alpha_parts: u32, weights: [u32; 2]) -> u64 {
    let mut runner = TestRunner::deterministic();
    let (mut pairs, mut otherwise) = (0u64, 0u64);
    for _ in 0..200 {
        let mut both = Both::new(alpha_parts, weights);
        for (passes_ns, which, step) in steps().new_tree(&mut runner).unwrap().current() {
            both.now_ns += passes_ns;
            both.look();
            both.step(which, step);
            both.look();
            for (nth, a) in both.served.iter().enumerate() {
                for b in &both.served[..nth] {
                    pairs += 1;
                    let by_key = both.key(b).cmp(&both.key(a));
                    otherwise += u64::from(by_key != both.total(a).cmp(&both.total(b)));
                }
            }
        }
    }
    assert!(pairs > 10_000, "{pairs} pairs");
    otherwise * 1000 / pairs
}

/// α alone changes no order of requests; weights do.
#[test]
fn the_key_differs_by_weights_alone() {
    for alpha_parts in [0, 250, 499] {
        assert_eq!(pairs_ordered_otherwise(alpha_parts, [100, 100]), 0, "α {alpha_parts}");
    }
    let by_weight = [200, 400, 1600].map(|heavy| pairs_ordered_otherwise(0, [100, heavy]));
    println!("per thousand pairs, at weights 1 to 2, 4, 16: {by_weight:?}");
    assert!(by_weight[0] > 20 && by_weight.is_sorted(), "{by_weight:?}");
    assert_eq!(by_weight[1], pairs_ordered_otherwise(400, [100, 400]), "α makes no difference to that");
}
