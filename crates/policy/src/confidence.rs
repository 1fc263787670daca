//! Lists of candidates, as policy rsio keeps one for each channel and one for each handler.

use crate::sys;

/// Those who may be part of an interaction. Ids are those of processes, and not 0.
#[derive(Debug, Clone, Copy, Default)]
pub struct Candidates(sys::confidence_list);

impl Candidates {
    /// `id` accessed the channel: one more for it, up to `max`; one less for all others.
    pub fn interact(&mut self, id: u32, now_ns: u64, max: u32) {
        // SAFETY: the list is live and borrowed alone; the functions stay within it.
        unsafe {
            sys::confidence_interact(&raw mut self.0, sys::confidence_index(&raw const self.0, id), id, now_ns, max)
        }
    }

    /// `id` communicated with the handler, or was forked by it.
    pub fn communicate(&mut self, id: u32, now_ns: u64) {
        // SAFETY: as above.
        unsafe {
            sys::confidence_communicate(&raw mut self.0, sys::confidence_index(&raw const self.0, id), id, now_ns)
        }
    }

    /// The time after an activation is over: one more for those who communicated around it, one less for all others.
    pub fn adjust(&mut self, activated_ns: u64, delta_ns: u64, max: u32) {
        // SAFETY: as above.
        unsafe { sys::confidence_adjust(&raw mut self.0, activated_ns, delta_ns, max) }
    }

    /// `id` ended.
    pub fn forget(&mut self, id: u32) {
        // SAFETY: as above.
        unsafe { sys::confidence_forget(&raw mut self.0, id) }
    }

    /// Confidence in `id`; `None` when it is no candidate.
    #[must_use]
    pub fn confidence(&self, id: u32) -> Option<u32> {
        self.0.entries.iter().find(|entry| entry.id == id).map(|entry| entry.confidence)
    }

    /// Ids of the candidates.
    pub fn ids(&self) -> impl Iterator<Item = u32> {
        self.0.entries.iter().map(|entry| entry.id).filter(|&id| id != 0)
    }
}
