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
    /// A CPU looks for a task, if it is idle.
    Call(CpuId),
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
            Self::Call(cpu) => (6, cpu),
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
            5 => Self::Settled,
            _ => Self::Call(whom),
        }
    }
}

/// Children of each item: four of sixteen bytes are a line of the processor's caches.
const CHILDREN: usize = 4;

/// An event's time and its word. The event's number comes before what it is in its word, so one comparison tells the order.
type Item = u128;

fn time_of(item: Item) -> u64 {
    (item >> 64) as u64
}

/// The smallest is first.
#[derive(Debug, Default)]
struct Heap(Vec<Item>);

impl Heap {
    fn push(&mut self, item: Item) {
        self.0.push(item);
        self.up(self.0.len() - 1, item);
    }

    fn pop(&mut self) -> Option<Item> {
        let last = self.0.pop()?;
        let Some(&first) = self.0.first() else { return Some(last) };
        // The last one mostly belongs near the end: down to there without a look at it, and up from there.
        let mut position = 0;
        loop {
            let child = CHILDREN * position + 1;
            let Some(children) = self.0.get(child..(child + CHILDREN).min(self.0.len())) else { break };
            let Some((nth, &least)) = children.iter().enumerate().min_by_key(|&(_, item)| item) else { break };
            self.0[position] = least;
            position = child + nth;
        }
        self.up(position, last);
        Some(first)
    }

    fn up(&mut self, mut position: usize, item: Item) {
        while position > 0 {
            let parent = (position - 1) / CHILDREN;
            if self.0[parent] <= item {
                break;
            }
            self.0[position] = self.0[parent];
            position = parent;
        }
        self.0[position] = item;
    }
}

/// Length of a span, ns, as a power of two: a quarter of a millisecond. Shorter ones hold fewer events, and more of them are empty.
const SPAN_BITS: u32 = 18;
/// Spans ahead: a second.
const SPANS: u64 = 4096;

/// All events to come. Those of the present span are in order: what was there when its turn came was sorted at once, which takes
/// fewer instructions than a heap that holds hundreds, and what came since is a heap. Those of each span of the second that follows are
/// without order until it is their turn; what comes later is another heap. So an event costs nearly the same, however many there are.
#[derive(Debug)]
pub(crate) struct Events {
    made: u64,
    /// What was there of the present span when its turn came, the first one last; and what was put in since.
    now: Vec<Item>,
    since: Heap,
    /// The present span, in order from time 0.
    span: u64,
    /// By span, of which there are [`SPANS`] at a time; and which hold something, by bits.
    spans: Vec<Vec<Item>>,
    holding: Vec<u64>,
    later: Heap,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            made: 0,
            now: Vec::new(),
            since: Heap::default(),
            span: 0,
            spans: vec![Vec::new(); SPANS as usize],
            holding: vec![0; SPANS as usize / 64],
            later: Heap::default(),
        }
    }
}

impl Events {
    pub(crate) fn push(&mut self, at_ns: u64, event: Event) -> EventId {
        self.made += 1;
        let id = self.made << EVENT_BITS | event.pack();
        self.put(Item::from(at_ns) << 64 | Item::from(id));
        id
    }

    fn put(&mut self, item: Item) {
        let span = time_of(item) >> SPAN_BITS;
        if span <= self.span {
            self.since.push(item);
        } else if span < self.span + SPANS {
            let place = (span % SPANS) as usize;
            self.spans[place].push(item);
            self.holding[place / 64] |= 1 << (place % 64);
        } else {
            self.later.push(item);
        }
    }

    /// Goes on to the next span that holds something, once the present one holds nothing.
    fn advance(&mut self) {
        if !self.now.is_empty() || !self.since.0.is_empty() {
            return;
        }
        let later = self.later.0.first().map(|&item| time_of(item) >> SPAN_BITS);
        let Some(span) = self.next_span().into_iter().chain(later).min() else { return };
        self.span = span;
        let place = (span % SPANS) as usize;
        self.holding[place / 64] &= !(1 << (place % 64));
        std::mem::swap(&mut self.now, &mut self.spans[place]);
        self.now.sort_unstable_by(|one, other| other.cmp(one));
        // What is in reach now: of this span, too.
        while self.later.0.first().is_some_and(|&item| time_of(item) >> SPAN_BITS < span + SPANS) {
            if let Some(item) = self.later.pop() {
                self.put(item);
            }
        }
    }

    /// The next span after the present one that holds something, of those that are in reach.
    fn next_span(&self) -> Option<u64> {
        let first = self.span + 1;
        let mut span = first;
        while span < first + SPANS {
            let place = (span % SPANS) as usize;
            let left = self.holding[place / 64] >> (place % 64);
            if left != 0 {
                return Some(span + u64::from(left.trailing_zeros()));
            }
            span += 64 - span % 64;
        }
        None
    }

    /// When the next event is, ns.
    pub(crate) fn next_ns(&mut self) -> Option<u64> {
        self.advance();
        self.now.last().into_iter().chain(self.since.0.first()).min().map(|&item| time_of(item))
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, EventId, Event)> {
        self.advance();
        let is_since = self.since.0.first().is_some_and(|since| self.now.last().is_none_or(|now| since < now));
        let item = if is_since { self.since.pop() } else { self.now.pop() }?;
        let id = item as u64;
        Some((time_of(item), id, Event::unpack(id)))
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
            Event::Call(last_cpu),
        ];
        let mut events = Events { made: (1 << (64 - EVENT_BITS)) - 100, ..Events::default() };
        let ids = all.map(|event| events.push(7, event));
        assert_eq!(all.map(|_| events.pop()), [0, 1, 2, 3, 4, 5, 6].map(|nth| Some((7, ids[nth], all[nth]))));
        assert!(!ids.contains(&NO_EVENT) && events.pop().is_none());
    }

    proptest! {
        /// In the order of their times, and of their making, however they are made and taken.
        #[test]
        fn are_in_order(steps in prop::collection::vec((0..50u64, 0..4u8, 0..35u32), 0..300)) {
            let (mut events, mut set, mut nth, mut now_ns) = (Events::default(), BTreeSet::new(), 0, 0);
            for (ahead, step, scale) in steps {
                if step > 0 {
                    nth += 1;
                    // From within a span to far beyond those in reach, and never in the past.
                    let at_ns = now_ns + (ahead << scale);
                    events.push(at_ns, Event::Wake(nth));
                    set.insert((at_ns, nth));
                } else {
                    let popped = events.pop().map(|(at_ns, _, event)| (at_ns, event));
                    now_ns = popped.map_or(now_ns, |(at_ns, _)| at_ns);
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
