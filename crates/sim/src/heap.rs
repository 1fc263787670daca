//! A heap from which anybody can be taken: the smallest key is first, of equal ones the smallest id.

/// Children of each item. Four of sixteen bytes are a line of the processor's caches, and with them a million items are ten deep
/// and not twenty: each level costs a look at the children, and a write where the one stands that moves.
const CHILDREN: usize = 4;

/// Nobody's position.
const ABSENT: u32 = u32::MAX;

/// Where each id stands. Heaps that never hold the same id at a time share one, so that thousands of heaps of a million
/// ids need no table each.
#[derive(Debug, Clone, Default)]
pub(crate) struct Positions(Vec<u32>);

impl Positions {
    pub(crate) fn new(ids: usize) -> Self {
        Self(vec![ABSENT; ids])
    }

    /// Makes room for ids below `ids`.
    pub(crate) fn grow(&mut self, ids: usize) {
        if self.0.len() < ids {
            self.0.resize(ids, ABSENT);
        }
    }

    /// Whether `id` is in one of the heaps.
    pub(crate) fn holds(&self, id: u32) -> bool {
        self.0[id as usize] != ABSENT
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Heap<K> {
    items: Vec<(K, u32)>,
}

impl<K> Default for Heap<K> {
    fn default() -> Self {
        Self { items: Vec::new() }
    }
}

impl<K: Ord + Copy> Heap<K> {
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn peek(&self) -> Option<(K, u32)> {
        self.items.first().copied()
    }

    /// One that is near the end of the order, if not at it.
    pub(crate) fn late(&self) -> Option<u32> {
        self.items.last().map(|&(_, id)| id)
    }

    pub(crate) fn push(&mut self, at: &mut Positions, id: u32, key: K) {
        self.items.push((key, id));
        self.up(at, self.items.len() - 1);
    }

    pub(crate) fn pop(&mut self, at: &mut Positions) -> Option<(K, u32)> {
        let first = self.peek()?;
        self.take(at, 0);
        Some(first)
    }

    /// Takes `id` out, which must be in this heap.
    pub(crate) fn remove(&mut self, at: &mut Positions, id: u32) {
        self.take(at, at.0[id as usize] as usize);
    }

    /// Gives `id`, which must be in this heap, another key.
    pub(crate) fn set(&mut self, at: &mut Positions, id: u32, key: K) {
        let position = at.0[id as usize] as usize;
        self.items[position].0 = key;
        self.up(at, position);
        self.down(at, at.0[id as usize] as usize);
    }

    fn take(&mut self, at: &mut Positions, position: usize) {
        let (_, id) = self.items.swap_remove(position);
        at.0[id as usize] = ABSENT;
        if position < self.items.len() {
            let moved = self.items[position].1;
            self.up(at, position);
            self.down(at, at.0[moved as usize] as usize);
        }
    }

    fn up(&mut self, at: &mut Positions, mut position: usize) {
        let item = self.items[position];
        while position > 0 {
            let parent = (position - 1) / CHILDREN;
            if self.items[parent] <= item {
                break;
            }
            self.put(at, position, self.items[parent]);
            position = parent;
        }
        self.put(at, position, item);
    }

    fn down(&mut self, at: &mut Positions, mut position: usize) {
        let item = self.items[position];
        loop {
            let first = CHILDREN * position + 1;
            let Some(children) = self.items.get(first..(first + CHILDREN).min(self.items.len())) else { break };
            let Some((nth, &child)) = children.iter().enumerate().min_by_key(|&(_, child)| child) else { break };
            if item <= child {
                break;
            }
            self.put(at, position, child);
            position = first + nth;
        }
        self.put(at, position, item);
    }

    fn put(&mut self, at: &mut Positions, position: usize, item: (K, u32)) {
        self.items[position] = item;
        at.0[item.1 as usize] = position as u32;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever is done to it, the first is the smallest, as in an ordered set.
        #[test]
        fn is_an_ordered_set(steps in prop::collection::vec((0u32..32, 0i64..100, any::<bool>()), 0..200)) {
            let (mut heap, mut at, mut set) = (Heap::default(), Positions::new(32), BTreeSet::new());
            let mut keys = [None; 32];
            for (id, key, takes) in steps {
                match keys[id as usize] {
                    None => {
                        heap.push(&mut at, id, key);
                        set.insert((key, id));
                        keys[id as usize] = Some(key);
                    }
                    Some(old) if takes => {
                        heap.remove(&mut at, id);
                        set.remove(&(old, id));
                        keys[id as usize] = None;
                    }
                    Some(old) => {
                        heap.set(&mut at, id, key);
                        set.remove(&(old, id));
                        set.insert((key, id));
                        keys[id as usize] = Some(key);
                    }
                }
                prop_assert_eq!(heap.peek(), set.first().copied());
                prop_assert_eq!(heap.len(), set.len());
                prop_assert!((0..32).all(|id| at.holds(id) == keys[id as usize].is_some()));
            }
            while let Some(first) = set.pop_first() {
                prop_assert_eq!(heap.pop(&mut at), Some(first));
            }
        }
    }
}
