//! The attended lane's queues (`bpf/fair.bpf.h`), in each domain: one for each customer who has to share with another
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

/// The queues of a domain.
#[derive(Debug, Clone)]
struct Queues {
    heaps: Vec<Heap<u64>>,
    /// Queues that may hold something, by bits; and those something was put in since [`Fair::forget`] looked last.
    waiting: u64,
    used: u64,
    /// Those that do.
    holding: u64,
}

/// The queues of all domains, with the virtual times of their customers and the clock, which are the machine's.
#[derive(Debug)]
pub(super) struct Fair {
    domains: Vec<Queues>,
    /// Domains whose queues hold something, by bits.
    holding_in: u64,
    vtimes: [u64; FAIR_QUEUES],
    clock: u64,
    /// Only on one CPU a queue that is found empty is known to be empty: with several, the kernel's may be about to
    /// fill.
    has_one_cpu: bool,
}

impl Fair {
    pub(super) fn new(cpus: u32, domains: u32) -> Self {
        let queues = Queues { heaps: vec![Heap::default(); FAIR_QUEUES], waiting: 0, used: 0, holding: 0 };
        Self {
            domains: vec![queues; domains as usize],
            holding_in: 0,
            vtimes: [0; FAIR_QUEUES],
            clock: 0,
            has_one_cpu: cpus == 1,
        }
    }

    fn of(&mut self, domain: u32) -> &mut Queues {
        &mut self.domains[domain as usize]
    }

    /// CPU time was spent on a customer, on a CPU of a domain.
    pub(super) fn charge(&mut self, domain: u32, slot: u32, weight: u32, ran_ns: u64) {
        let queue = queue_of(slot);
        self.vtimes[queue] += fairness_charge(ran_ns, weight.into());
        if self.of(domain).waiting & !(1 << queue) == 0 {
            self.clock = fairness_clock(self.clock, self.vtimes[queue]);
        }
    }

    /// The customer of a queue wants something.
    pub(super) fn catches_up(&mut self, queue: usize) {
        self.vtimes[queue] = fairness_catch_up(self.vtimes[queue], self.clock);
    }

    /// Something is about to be put into a queue.
    pub(super) fn fills(&mut self, domain: u32, queue: usize) {
        let queues = self.of(domain);
        queues.waiting |= 1 << queue;
        queues.used |= 1 << queue;
    }

    pub(super) fn push(&mut self, at: &mut Positions, domain: u32, queue: usize, task: TaskId, key: u64) {
        let queues = self.of(domain);
        queues.heaps[queue].push(at, task, key);
        queues.holding |= 1 << queue;
        self.holding_in |= 1 << domain;
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

    /// The queue of a domain whose customer had the least, of those that hold something, and the first key in it.
    pub(super) fn first(&mut self, domain: u32) -> Option<(usize, u64)> {
        let Queues { waiting, holding, .. } = self.domains[domain as usize];
        let first = self.least_served(waiting & holding);
        if self.has_one_cpu {
            // The kernel finds those empty that it comes upon before.
            let before =
                |queue: usize| first.is_none_or(|first| (self.vtimes[queue], queue) < (self.vtimes[first], first));
            let found = bits(waiting & !holding).filter(|&queue| before(queue));
            let found = found.fold(0, |found, queue| found | 1 << queue);
            self.of(domain).waiting &= !found;
        }
        first.and_then(|queue| Some((queue, self.domains[domain as usize].heaps[queue].peek()?.0)))
    }

    /// The first task of that queue, off it, and which queue that was.
    pub(super) fn take(&mut self, at: &mut Positions, domain: u32) -> Option<(TaskId, usize)> {
        let (queue, _) = self.first(domain)?;
        self.clock = fairness_clock(self.clock, self.vtimes[queue]);
        let queues = self.of(domain);
        let (_, task) = queues.heaps[queue].pop(at)?;
        if queues.heaps[queue].len() == 0 {
            queues.holding &= !(1 << queue);
            if queues.holding == 0 {
                self.holding_in &= !(1 << domain);
            }
        }
        Some((task, queue))
    }

    /// Whether anybody waits in another domain than `here`.
    pub(super) fn holds_elsewhere(&self, here: u32) -> bool {
        self.holding_in & !(1 << here) != 0
    }

    /// Whether anybody waits in a domain.
    pub(super) fn holds(&self, domain: u32) -> bool {
        self.holding_in & 1 << domain != 0
    }

    /// Once a while: a queue counts as empty when it is, and nothing was put in since the last look.
    pub(super) fn forget(&mut self) {
        for queues in &mut self.domains {
            let used = std::mem::take(&mut queues.used);
            queues.waiting &= used | queues.holding;
        }
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
        let (mut fair, mut at) = (Fair::new(1, 1), Positions::new(4));
        for (queue, task, key) in [(1, 0, 5), (2, 1, 9), (2, 2, 7)] {
            fair.catches_up(queue);
            fair.fills(0, queue);
            fair.push(&mut at, 0, queue, task, key);
        }
        fair.charge(0, 1, 100, 3 * MS);
        fair.charge(0, 2, 400, 4 * MS);
        assert_eq!(fair.first(0), Some((2, 7)), "4 ms at weight 4 are less than 3 ms");
        assert!(fair.displaces(2, 1000, 1, 0) && !fair.displaces(1, 0, 2, 1000));
        assert_eq!([(); 3].map(|()| fair.take(&mut at, 0)), [Some((2, 2)), Some((1, 2)), Some((0, 1))]);
        assert_eq!(fair.take(&mut at, 0), None);
    }

    /// Nobody in particular is never modest; a customer is who comes back while others had their turns.
    #[test]
    fn who_comes_back_is_modest() {
        let mut fair = Fair::new(1, 1);
        fair.charge(0, 1, 100, 100 * MS);
        fair.catches_up(2);
        fair.catches_up(0);
        assert!(fair.is_modest(2) && !fair.is_modest(1) && !fair.is_modest(0));
    }

    /// What waits in one domain is not first in another, but known to be elsewhere.
    #[test]
    fn domains_have_queues_of_their_own() {
        let (mut fair, mut at) = (Fair::new(2, 2), Positions::new(1));
        fair.fills(1, 0);
        fair.push(&mut at, 1, 0, 0, 5);
        assert_eq!((fair.first(0), fair.first(1)), (None, Some((0, 5))));
        assert!(fair.holds_elsewhere(0) && fair.holds(1) && !fair.holds_elsewhere(1));
        assert_eq!(fair.take(&mut at, 1), Some((0, 0)));
        assert!(!fair.holds_elsewhere(0));
    }
}
