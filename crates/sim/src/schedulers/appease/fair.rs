//! The attended lane's queues (`bpf/fair.bpf.h`): one for each customer who has to share with another
//! (`bpf/policy/fairness.h`), and the first one for all others.

use appease_policy::{
    fairness_catch_up, fairness_charge, fairness_clock, fairness_is_modest, fairness_preempts, unhappiness_preempts,
};

use super::PREEMPT_MARGIN_NS;
use crate::{
    TaskId,
    heap::{Heap, Positions},
};

/// Customers are hashed to these; as many as bits in a word.
pub(super) const FAIR_QUEUES: usize = 64;

/// Queue of the customer in a slot; 0: nobody in particular.
pub(super) fn queue_of(slot: u32) -> usize {
    slot as usize % FAIR_QUEUES
}

/// The queues, with the virtual times of their customers and the clock.
#[derive(Debug)]
pub(super) struct Fair {
    heaps: Vec<Heap<u64>>,
    vtimes: [u64; FAIR_QUEUES],
    clock: u64,
    /// Queues that may hold something, by bits; and those something was put in since [`Fair::forget`] looked last.
    waiting: u64,
    used: u64,
    /// Those that do.
    holding: u64,
    /// Only on one CPU a queue that is found empty is known to be empty: with several, the kernel's may be about to
    /// fill.
    has_one_cpu: bool,
}

impl Fair {
    pub(super) fn new(cpus: u32) -> Self {
        Self {
            heaps: vec![Heap::default(); FAIR_QUEUES],
            vtimes: [0; FAIR_QUEUES],
            clock: 0,
            waiting: 0,
            used: 0,
            holding: 0,
            has_one_cpu: cpus == 1,
        }
    }

    /// CPU time was spent on a customer.
    pub(super) fn charge(&mut self, slot: u32, weight: u32, ran_ns: u64) {
        let queue = queue_of(slot);
        self.vtimes[queue] += fairness_charge(ran_ns, weight.into());
        if self.waiting & !(1 << queue) == 0 {
            self.clock = fairness_clock(self.clock, self.vtimes[queue]);
        }
    }

    /// Something is about to be put into a queue, or goes past it to a CPU.
    pub(super) fn fills(&mut self, queue: usize) {
        self.vtimes[queue] = fairness_catch_up(self.vtimes[queue], self.clock);
        self.waiting |= 1 << queue;
        self.used |= 1 << queue;
    }

    pub(super) fn push(&mut self, at: &mut Positions, queue: usize, task: TaskId, key: u64) {
        self.heaps[queue].push(at, task, key);
        self.holding |= 1 << queue;
    }

    /// Whether a queue is of a customer who had less than its part.
    pub(super) fn is_modest(&self, queue: usize) -> bool {
        queue != 0 && fairness_is_modest(self.vtimes[queue], self.clock)
    }

    /// Whether who waits in a queue with a key takes the CPU from who runs.
    pub(super) fn displaces(&self, queue: usize, key: u64, running_queue: usize, running_key: u64) -> bool {
        if queue == running_queue {
            return unhappiness_preempts(key, running_key, PREEMPT_MARGIN_NS);
        }
        fairness_preempts(self.vtimes[queue], self.vtimes[running_queue])
    }

    /// The queue whose customer had the least, of those that hold something, and the first key in it.
    pub(super) fn first(&mut self) -> Option<(usize, u64)> {
        let first = self.least_served(self.waiting & self.holding);
        if self.has_one_cpu {
            // The kernel finds those empty that it comes upon before.
            let before =
                |queue: usize| first.is_none_or(|first| (self.vtimes[queue], queue) < (self.vtimes[first], first));
            let found = bits(self.waiting & !self.holding).filter(|&queue| before(queue));
            self.waiting &= !found.fold(0, |found, queue| found | 1 << queue);
        }
        first.and_then(|queue| Some((queue, self.heaps[queue].peek()?.0)))
    }

    /// The first task of that queue, off it.
    pub(super) fn take(&mut self, at: &mut Positions) -> Option<TaskId> {
        let (queue, _) = self.first()?;
        self.clock = fairness_clock(self.clock, self.vtimes[queue]);
        let (_, task) = self.heaps[queue].pop(at)?;
        if self.heaps[queue].len() == 0 {
            self.holding &= !(1 << queue);
        }
        Some(task)
    }

    /// Once a while: a queue counts as empty when it is, and nothing was put in since the last look.
    pub(super) fn forget(&mut self) {
        let used = std::mem::take(&mut self.used);
        self.waiting &= used | self.holding;
    }

    /// Of some queues, that of the customer who had the least; of equals the first.
    fn least_served(&self, of: u64) -> Option<usize> {
        bits(of).min_by_key(|&queue| self.vtimes[queue])
    }
}

/// Queues that are set in a word.
fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(lowest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MS;

    /// Who had the least goes first, and inside a queue the smallest key.
    #[test]
    fn the_least_served_goes_first() {
        let (mut fair, mut at) = (Fair::new(1), Positions::new(4));
        for (queue, task, key) in [(1, 0, 5), (2, 1, 9), (2, 2, 7)] {
            fair.fills(queue);
            fair.push(&mut at, queue, task, key);
        }
        fair.charge(1, 100, 3 * MS);
        fair.charge(2, 400, 4 * MS);
        assert_eq!(fair.first(), Some((2, 7)), "4 ms at weight 4 are less than 3 ms");
        assert!(fair.displaces(2, 1000, 1, 0) && !fair.displaces(1, 0, 2, 1000));
        assert_eq!([fair.take(&mut at), fair.take(&mut at), fair.take(&mut at)], [Some(2), Some(1), Some(0)]);
        assert_eq!(fair.take(&mut at), None);
    }

    /// Nobody in particular is never modest; a customer is who comes back while others had their turns.
    #[test]
    fn who_comes_back_is_modest() {
        let mut fair = Fair::new(1);
        fair.charge(1, 100, 100 * MS);
        fair.fills(2);
        fair.fills(0);
        assert!(fair.is_modest(2) && !fair.is_modest(1) && !fair.is_modest(0));
    }
}
