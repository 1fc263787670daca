//! What schedulers with a queue for each CPU share: which CPU has most to do.

use std::cmp::Reverse;

use crate::{
    CpuId,
    heap::{Heap, Positions},
};

/// How many tasks wait at each CPU. Balancing is ideal: a CPU that looks for its next task sees at once who has more waiting.
#[derive(Debug)]
pub(super) struct Waiting {
    numbers: Vec<u32>,
    longest: Heap<Reverse<u32>>,
    at: Positions,
}

impl Waiting {
    pub(super) fn new(cpus: u32) -> Self {
        let mut waiting =
            Self { numbers: vec![0; cpus as usize], longest: Heap::default(), at: Positions::new(cpus as usize) };
        (0..cpus).for_each(|cpu| waiting.longest.push(&mut waiting.at, cpu, Reverse(0)));
        waiting
    }

    pub(super) fn add(&mut self, cpu: CpuId) {
        self.set(cpu, self.numbers[cpu as usize] + 1);
    }

    pub(super) fn take(&mut self, cpu: CpuId) {
        self.set(cpu, self.numbers[cpu as usize] - 1);
    }

    /// A CPU at which at least two more wait than here, or one more if here nobody does.
    pub(super) fn busier_than(&self, cpu: CpuId) -> Option<CpuId> {
        let own = self.numbers[cpu as usize];
        let (Reverse(most), busiest) = self.longest.peek()?;
        (most > own + u32::from(own > 0)).then_some(busiest)
    }

    fn set(&mut self, cpu: CpuId, number: u32) {
        self.numbers[cpu as usize] = number;
        if self.numbers.len() > 1 {
            self.longest.set(&mut self.at, cpu, Reverse(number));
        }
    }
}
