//! What happens when: events by time, those of one time in the order in which they were made.

use crate::{CpuId, TaskId};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A task's turn or its work ends.
    Stop(CpuId),
    /// A pause ends.
    Wake(TaskId),
    /// A customer sends a request.
    Arrive(u32),
    /// A group's tasks are made.
    Begin(u32),
    /// The scheduler looks at things.
    Look,
    /// Measuring begins.
    Settled,
}

/// Tells events apart.
pub(crate) type EventId = u64;

/// No event.
pub(crate) const NO_EVENT: EventId = 0;

/// Bits of whom an event is about. There are at most as many customers as [`crate::scenario::MOST_TASKS`], and one for each task.
const WHOM_BITS: u32 = 21;
/// Bits of an event altogether. The others number it: a thousand billion fit.
const EVENT_BITS: u32 = WHOM_BITS + 3;

impl Event {
    fn pack(self) -> u64 {
        let (kind, whom) = match self {
            Self::Stop(cpu) => (0, cpu),
            Self::Wake(task) => (1, task),
            Self::Arrive(customer) => (2, customer),
            Self::Begin(group) => (3, group),
            Self::Look => (4, 0),
            Self::Settled => (5, 0),
        };
        kind << WHOM_BITS | u64::from(whom)
    }

    fn unpack(id: EventId) -> Self {
        let whom = (id & ((1 << WHOM_BITS) - 1)) as u32;
        match id >> WHOM_BITS & 7 {
            0 => Self::Stop(whom),
            1 => Self::Wake(whom),
            2 => Self::Arrive(whom),
            3 => Self::Begin(whom),
            4 => Self::Look,
            _ => Self::Settled,
        }
    }
}

/// Children of each item: four of sixteen bytes are a line of the processor's caches.
const CHILDREN: usize = 4;

/// All events to come, as a heap of their times and words. An event's number comes before what it is in its word, so one
/// comparison of both tells the order.
#[derive(Debug, Default)]
pub(crate) struct Events {
    items: Vec<u128>,
    made: u64,
}

impl Events {
    pub(crate) fn push(&mut self, at_ns: u64, event: Event) -> EventId {
        self.made += 1;
        let id = self.made << EVENT_BITS | event.pack();
        let item = u128::from(at_ns) << 64 | u128::from(id);
        self.items.push(item);
        self.up(self.items.len() - 1, item);
        id
    }

    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.items.first().map(|&item| (item >> 64) as u64)
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, EventId, Event)> {
        let last = self.items.pop()?;
        let Some(&first) = self.items.first() else { return Some(Self::unpacked(last)) };
        // The last one mostly belongs near the end: down to there without a look at it, and up from there.
        let mut position = 0;
        loop {
            let child = CHILDREN * position + 1;
            let Some(children) = self.items.get(child..(child + CHILDREN).min(self.items.len())) else { break };
            let Some((nth, &least)) = children.iter().enumerate().min_by_key(|&(_, item)| item) else { break };
            self.items[position] = least;
            position = child + nth;
        }
        self.up(position, last);
        Some(Self::unpacked(first))
    }

    fn unpacked(item: u128) -> (u64, EventId, Event) {
        let id = item as u64;
        ((item >> 64) as u64, id, Event::unpack(id))
    }

    fn up(&mut self, mut position: usize, item: u128) {
        while position > 0 {
            let parent = (position - 1) / CHILDREN;
            if self.items[parent] <= item {
                break;
            }
            self.items[position] = self.items[parent];
            position = parent;
        }
        self.items[position] = item;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::scenario::{MOST_CPUS, MOST_TASKS};

    #[test]
    fn events_fit_their_word() {
        let most = 2 * MOST_TASKS as u32 - 1;
        let last_cpu = MOST_CPUS - 1;
        let all = [
            Event::Stop(last_cpu),
            Event::Wake(most),
            Event::Arrive(most),
            Event::Begin(most),
            Event::Look,
            Event::Settled,
        ];
        let mut events = Events { items: Vec::new(), made: (1 << (64 - EVENT_BITS)) - 100 };
        let ids = all.map(|event| events.push(7, event));
        assert_eq!(all.map(|_| events.pop()), [0, 1, 2, 3, 4, 5].map(|nth| Some((7, ids[nth], all[nth]))));
        assert!(!ids.contains(&NO_EVENT) && events.pop().is_none());
    }

    proptest! {
        /// In the order of their times, and of their making, however they are made and taken.
        #[test]
        fn are_in_order(steps in prop::collection::vec((0..50u64, 0..4u8), 0..300)) {
            let (mut events, mut set, mut nth) = (Events::default(), BTreeSet::new(), 0);
            for (at_ns, step) in steps {
                if step > 0 {
                    nth += 1;
                    events.push(at_ns, Event::Wake(nth));
                    set.insert((at_ns, nth));
                } else {
                    let popped = events.pop().map(|(at_ns, _, event)| (at_ns, event));
                    prop_assert_eq!(popped, set.pop_first().map(|(at_ns, nth)| (at_ns, Event::Wake(nth))));
                }
                prop_assert_eq!(events.next_ns(), set.first().map(|first| first.0));
            }
            while let Some((at_ns, nth)) = set.pop_first() {
                prop_assert_eq!(events.pop().map(|(at_ns, _, event)| (at_ns, event)), Some((at_ns, Event::Wake(nth))));
            }
        }
    }
}
