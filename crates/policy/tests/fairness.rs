//! Fairness between customers: start-time fair queueing.
#![allow(clippy::unwrap_used, clippy::cast_lossless)]

use appease_policy::{
    FAIRNESS_CREDIT_NS, FAIRNESS_DEBT_NS, FAIRNESS_MARGIN_NS, fairness_catch_up, fairness_charge, fairness_clock,
    fairness_preempts,
};
use proptest::prelude::*;

const SECOND_NS: u64 = 1_000_000_000;
const CREDIT_NS: u64 = FAIRNESS_CREDIT_NS as u64;
const DEBT_NS: u64 = FAIRNESS_DEBT_NS as u64;
const MARGIN_NS: u64 = FAIRNESS_MARGIN_NS as u64;

/// Customers at one CPU, by weight, virtual time and CPU time that they had, ns.
struct Cpu {
    clock: u64,
    customers: Vec<(u64, u64, u64)>,
}

impl Cpu {
    fn new(weights: &[u64]) -> Self {
        Self { clock: SECOND_NS, customers: weights.iter().map(|&weight| (weight, 0, 0)).collect() }
    }

    fn comes(&mut self, customer: usize) {
        let customer = &mut self.customers[customer];
        customer.1 = fairness_catch_up(customer.1, self.clock);
    }

    /// Of those who want it, the one who had least has the CPU for `ran_ns`; which.
    fn turn(&mut self, wanting: impl IntoIterator<Item = usize>, ran_ns: u64) -> usize {
        let next = wanting.into_iter().min_by_key(|&customer| self.customers[customer].1).unwrap();
        let (weight, vtime, had) = &mut self.customers[next];
        self.clock = fairness_clock(self.clock, *vtime);
        *vtime += fairness_charge(ran_ns, *weight);
        *had += ran_ns;
        next
    }
}

proptest! {
    /// Of customers who always want more, each has CPU time by its weight, however long their turns are, and however often those are
    /// interrupted.
    #[test]
    fn the_cpu_is_shared_by_weight(weights in prop::collection::vec(1..1_000u64, 2..6), turns in prop::collection::vec(1_000..3_000_000u64, 6)) {
        let mut cpu = Cpu::new(&weights);
        let all: Vec<usize> = (0..weights.len()).collect();
        let mut ran = 0;
        // Until the lightest one has had many of the longest turns.
        let sum: u64 = weights.iter().sum();
        let least = *weights.iter().min().unwrap();
        let until = 100 * 3_000_000 * sum / least;
        for &customer in &all {
            cpu.comes(customer);
        }
        while ran < until.min(20 * SECOND_NS) {
            let next = all.iter().copied().min_by_key(|&customer| cpu.customers[customer].1).unwrap();
            let turn = turns[next];
            let went = cpu.turn(all.iter().copied(), turn);
            cpu.comes(went);
            ran += turn;
        }
        for &(weight, _, had) in &cpu.customers {
            let fair = ran as f64 * weight as f64 / sum as f64;
            // A turn of each, and what rounding takes of the shortest.
            prop_assert!((had as f64 - fair).abs() <= 2.0 * 3_000_000.0 * weights.len() as f64 + fair * 0.01, "{had} {fair}");
        }
    }

    /// Who seldom wants something goes at once, whoever else has waited, and for how long; and for all it wants up to its credit.
    #[test]
    fn who_is_modest_does_not_wait(busy in 0..10 * SECOND_NS, wants in 1..CREDIT_NS / 2) {
        let mut cpu = Cpu::new(&[100, 100]);
        cpu.comes(0);
        let mut ran = 0;
        while ran < busy {
            cpu.turn([0], 600_000);
            cpu.comes(0);
            ran += 600_000;
        }
        prop_assume!(busy > 2 * CREDIT_NS);
        cpu.comes(1);
        prop_assert!(fairness_preempts(cpu.customers[1].1, cpu.customers[0].1));
        let mut had = 0;
        while had < wants {
            prop_assert_eq!(cpu.turn([0, 1], 600_000), 1);
            had += 600_000;
        }
    }

    /// Nothing is saved up but the credit: whoever comes back after any pause, nobody waits for longer than that makes.
    #[test]
    fn nothing_is_saved_up(pause in 0..100 * SECOND_NS) {
        let mut cpu = Cpu::new(&[100, 100]);
        cpu.comes(0);
        for _ in 0..pause / 3_000_000 {
            cpu.turn([0], 3_000_000);
            cpu.comes(0);
        }
        cpu.comes(1);
        let mut waited = 0;
        while cpu.turn([0, 1], 3_000_000) == 1 {
            cpu.comes(1);
            waited += 3_000_000;
        }
        prop_assert!(waited <= 2 * CREDIT_NS + 2 * 3_000_000, "{waited}");
    }

    /// A virtual time that stands far off the clock is brought near it, and no other is changed.
    #[test]
    fn nobody_is_far_from_the_clock(vtime in 0..100 * SECOND_NS, clock in SECOND_NS..100 * SECOND_NS) {
        let caught_up = fairness_catch_up(vtime, clock);
        prop_assert!(caught_up >= clock - CREDIT_NS && caught_up <= clock + DEBT_NS);
        prop_assert!(caught_up == vtime || vtime + CREDIT_NS < clock || vtime > clock + DEBT_NS);
        prop_assert!(fairness_clock(clock, vtime) >= clock);
        prop_assert!(!fairness_preempts(vtime, vtime + MARGIN_NS));
        prop_assert!(fairness_preempts(vtime, vtime + MARGIN_NS + 1));
    }

    /// Four times the weight, a fourth of the virtual time; a weight of 0 does not divide by it.
    #[test]
    fn weight_divides(ran in 0..SECOND_NS, weight in 0..10_000u64) {
        let charged = fairness_charge(ran, weight);
        prop_assert!(charged.abs_diff(fairness_charge(ran, 4 * weight.max(1)) * 4) <= 4);
    }
}
