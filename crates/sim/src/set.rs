//! A set of small numbers: adding, taking out and finding any member take no time that grows.

const ABSENT: u32 = u32::MAX;

#[derive(Debug, Clone)]
pub(crate) struct IdSet {
    members: Vec<u32>,
    at: Vec<u32>,
}

impl IdSet {
    /// For numbers below `ids`, none of which is in it.
    pub(crate) fn new(ids: u32) -> Self {
        Self { members: Vec::with_capacity(ids as usize), at: vec![ABSENT; ids as usize] }
    }

    /// The one that was added last, unless others were taken out since.
    pub(crate) fn any(&self) -> Option<u32> {
        self.members.last().copied()
    }

    pub(crate) fn contains(&self, id: u32) -> bool {
        self.at[id as usize] != ABSENT
    }

    pub(crate) fn insert(&mut self, id: u32) {
        if !self.contains(id) {
            self.at[id as usize] = self.members.len() as u32;
            self.members.push(id);
        }
    }

    pub(crate) fn remove(&mut self, id: u32) {
        let position = self.at[id as usize];
        if position == ABSENT {
            return;
        }
        self.at[id as usize] = ABSENT;
        self.members.swap_remove(position as usize);
        if let Some(&moved) = self.members.get(position as usize) {
            self.at[moved as usize] = position;
        }
    }
}
