//! Locks of queues: how long CPUs wait for each other at them.
//!
//! A CPU that puts a task into a queue, or takes one off, has the queue's lock for [`Locks::INSERT_NS`] or
//! [`Locks::REMOVE_NS`]. Another one that wants it waits until then, first come first served, and does nothing else. Events
//! are simulated in the order in which CPUs enter the scheduler, and one that waited for a lock wants the next one later than
//! a CPU that enters after it. So a lock has times for which it is taken, and a CPU has the first gap that is long enough. A look at
//! a queue takes no lock, as `scx_bpf_dsq_peek()` takes none, nor does a look that finds it empty.

use std::collections::VecDeque;

use crate::Effort;

/// The locks of all queues, and what CPUs spend at them.
#[derive(Debug, Default)]
pub struct Locks {
    /// When each is taken from now on: beginnings and ends, ns, in order and apart.
    taken: Vec<VecDeque<(u64, u64)>>,
    /// Nobody comes before that, ns.
    now_ns: u64,
    /// How far the CPU has come that is in the scheduler now, ns.
    at_ns: u64,
    effort: Effort,
}

impl Locks {
    /// A lock is held for so long to put a task into its queue, ns: all of `ops.enqueue()`, which takes 11,300
    /// instructions in nine calls (`ARCHITECTURE.md`), at an instruction a nanosecond. The kernel holds the lock for a part
    /// of that, so this is an upper bound. Turned up, CPUs wait longer, and one queue is too few sooner.
    pub const INSERT_NS: u64 = 11_300 / 9;
    /// To take a task off, ns: all of `ops.dispatch()`, 2,000 instructions in one call.
    pub const REMOVE_NS: u64 = 2_000;

    /// For so many queues; without any, nothing is counted and nobody waits.
    #[must_use]
    pub fn new(queues: usize) -> Self {
        Self { taken: vec![VecDeque::new(); queues], ..Self::default() }
    }

    /// An event happens, and a CPU enters the scheduler.
    pub fn advance(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.at_ns = now_ns;
    }

    /// A CPU enters the scheduler by the same event, or goes on in it, at `ns`.
    pub fn enter(&mut self, ns: u64) {
        self.at_ns = ns;
    }

    /// When the CPU that is in the scheduler leaves it, ns.
    #[must_use]
    pub fn at_ns(&self) -> u64 {
        self.at_ns
    }

    /// A task is put into a queue.
    pub fn insert(&mut self, queue: usize) {
        self.hold(queue, Self::INSERT_NS);
    }

    /// A task is taken off a queue.
    pub fn remove(&mut self, queue: usize) {
        self.hold(queue, Self::REMOVE_NS);
    }

    fn hold(&mut self, queue: usize, ns: u64) {
        let Some(taken) = self.taken.get_mut(queue) else { return };
        while taken.front().is_some_and(|&(_, end_ns)| end_ns <= self.now_ns) {
            taken.pop_front();
        }
        let (mut begin_ns, mut place) = (self.at_ns, 0);
        while let Some(&(next_ns, end_ns)) = taken.get(place)
            && begin_ns + ns > next_ns
        {
            begin_ns = begin_ns.max(end_ns);
            place += 1;
        }
        let end_ns = begin_ns + ns;
        let joins_before = place > 0 && taken[place - 1].1 == begin_ns;
        let joins_after = taken.get(place).is_some_and(|&(next_ns, _)| next_ns == end_ns);
        match (joins_before, joins_after) {
            (true, true) => taken[place - 1].1 = taken.remove(place).map_or(end_ns, |after| after.1),
            (true, false) => taken[place - 1].1 = end_ns,
            (false, true) => taken[place].0 = begin_ns,
            (false, false) => taken.insert(place, (begin_ns, end_ns)),
        }
        let waited_ns = begin_ns - self.at_ns;
        self.at_ns = end_ns;
        self.effort.locked += 1;
        self.effort.waited_ns += waited_ns;
        self.effort.longest_wait_ns = self.effort.longest_wait_ns.max(waited_ns);
    }

    /// A wake-up has looked at so many CPUs for one to take.
    pub fn note_search(&mut self, looks: u32) {
        self.effort.searches += 1;
        self.effort.cpu_looks += u64::from(looks);
        self.effort.most_cpu_looks = self.effort.most_cpu_looks.max(looks);
    }

    /// A CPU has looked into the queues of so many other domains.
    pub fn note_elsewhere(&mut self, domains: u32) {
        self.effort.domain_looks += u64::from(domains);
    }

    /// Measuring begins.
    pub fn restart(&mut self) {
        self.effort = Effort::default();
    }

    /// What was spent since then.
    #[must_use]
    pub fn effort(&self) -> Effort {
        self.effort
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A CPU that comes later waits for the one that is there, and for all that wait already; at another queue nobody waits.
    #[test]
    fn who_comes_first_is_served_first() {
        let mut locks = Locks::new(2);
        for nth in 0..3 {
            locks.enter(100);
            locks.remove(0);
            assert_eq!(locks.at_ns(), 100 + (nth + 1) * Locks::REMOVE_NS);
        }
        locks.enter(100);
        locks.insert(1);
        assert_eq!(locks.at_ns(), 100 + Locks::INSERT_NS);
        let effort = locks.effort();
        assert_eq!(
            (effort.locked, effort.waited_ns, effort.longest_wait_ns),
            (4, 3 * Locks::REMOVE_NS, 2 * Locks::REMOVE_NS)
        );
    }

    /// A CPU that comes by an earlier event, but later, leaves a gap for one that comes before that, if it is long enough.
    #[test]
    fn who_comes_sooner_does_not_wait_for_who_comes_later() {
        let mut locks = Locks::new(1);
        let mut had = |at_ns: u64| {
            locks.enter(at_ns);
            locks.insert(0);
            locks.at_ns() - Locks::INSERT_NS
        };
        let ns = Locks::INSERT_NS;
        assert_eq!([had(3 * ns), had(0), had(0), had(0), had(ns / 2)], [3 * ns, 0, ns, 2 * ns, 4 * ns]);
        assert_eq!(locks.taken[0], [(0, 5 * ns)], "they are one");
        locks.advance(5 * ns);
        locks.insert(0);
        assert_eq!((locks.at_ns(), locks.taken[0].len()), (6 * ns, 1));
    }

    /// A lock that is free again costs no waiting.
    #[test]
    fn a_free_lock_is_had_at_once() {
        let mut locks = Locks::new(1);
        locks.enter(0);
        locks.insert(0);
        locks.advance(Locks::INSERT_NS);
        locks.insert(0);
        assert_eq!(locks.effort().waited_ns, 0);
    }

    #[test]
    fn without_locks_time_stands_still() {
        let mut locks = Locks::new(0);
        locks.enter(7);
        locks.insert(0);
        assert_eq!((locks.at_ns(), locks.effort()), (7, Effort::default()));
    }
}
