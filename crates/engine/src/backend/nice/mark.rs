//! The record of a change inside the change itself: a thread's slice says by its last digits what its nice value was, and what
//! it was made.
//!
//! The kernel copies a slice with a nice value, from parent to child, and keeps it when the daemon is killed. So whoever
//! looks at a thread knows what to give back, however it came by what it has, without any file; and a nice value that is not
//! the marked one was set by somebody else. A microsecond more or less of a slice means nothing.

use crate::seams::Slice;

/// Nice values that there are.
const NICES: u64 = 40;
/// Numbers for a pair of them.
const CODES: u64 = NICES * NICES;
const BEST: i32 = -20;
/// A mark is in so many of a slice's nanoseconds: less than two hundredths of a default one.
const PLACE: u64 = 1 << 14;
/// Where marks begin in it: no default slice is there (0.7 ms and 0.75 ms, times 1 to 4).
const FIRST: u64 = 3072;

/// A slice shorter than any default one: its holder takes the CPU at a wake-up from who has the default.
const PROMPT_NS: u64 = 300_000;

/// What is known of a changed thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Nice value before.
    pub base: i32,
    /// The one that it was given.
    pub given: i32,
}

/// Writes and reads marks on a kernel with that default slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Marks {
    /// 0: this kernel has no slices.
    default_ns: u64,
}

impl Marks {
    /// For a kernel with this default slice, ns; 0: without slices.
    pub(crate) fn new(default_ns: u64) -> Self {
        Self { default_ns }
    }

    /// Whether the kernel has slices at all.
    pub(crate) fn has_slices(self) -> bool {
        self.default_ns > 0
    }

    /// Whether a thread with this slice can be marked: one whose user chose another keeps that.
    pub(crate) fn can_mark(self, slice_ns: u64) -> bool {
        self.default_ns > 0 && (slice_ns == self.default_ns || self.read(slice_ns).is_some())
    }

    /// The slice that says so.
    pub(crate) fn write(self, mark: Mark, prompt: bool) -> Slice {
        let number = |nice: i32| u64::try_from(nice - BEST).unwrap_or(0).min(NICES - 1);
        let near_ns = if prompt { PROMPT_NS } else { self.default_ns };
        Slice::Of(near_ns / PLACE * PLACE + FIRST + number(mark.base) * NICES + number(mark.given))
    }

    /// What a slice says.
    pub(crate) fn read(self, slice_ns: u64) -> Option<Mark> {
        let code = (slice_ns % PLACE).checked_sub(FIRST).filter(|code| *code < CODES && self.has_slices())?;
        let nice = |number: u64| i32::try_from(number).map_or(0, |number| number + BEST);
        Some(Mark { base: nice(code / NICES), given: nice(code % NICES) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for default_ns in [1, 2, 3, 4].into_iter().flat_map(|factor| [700_000 * factor, 750_000 * factor]) {
            let marks = Marks::new(default_ns);
            for base in -20..20 {
                for given in -20..20 {
                    for prompt in [false, true] {
                        let mark = Mark { base, given };
                        let Slice::Of(slice_ns) = marks.write(mark, prompt) else { panic!("no slice") };
                        assert_eq!(marks.read(slice_ns), Some(mark), "{default_ns} {prompt}");
                        assert!(marks.can_mark(slice_ns));
                        assert!(!prompt || slice_ns < default_ns);
                        assert!(prompt || slice_ns.abs_diff(default_ns) < default_ns / 40);
                    }
                }
            }
            assert_eq!(marks.read(default_ns), None);
            assert!(marks.can_mark(default_ns) && !marks.can_mark(5_000_000));
        }
    }

    #[test]
    fn a_kernel_without_slices_has_no_marks() {
        let (marks, marked) = (Marks::new(0), Marks::new(750_000).write(Mark { base: 0, given: -20 }, true));
        let Slice::Of(marked_ns) = marked else { panic!("no slice") };
        assert!(!marks.can_mark(0) && marks.read(0).is_none() && marks.read(marked_ns).is_none());
    }
}
