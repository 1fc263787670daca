//! How often the kernel has ejected the scheduler.
//!
//! A unit that fails is started again by systemd, and limits to that go by time: an ejection takes half a minute or more, so it would go on for
//! ever. Hence a record beside the daemon's socket. After the third ejection within a day the daemon ends with a status of its own, for which the
//! unit is not started again. A start by hand then begins anew.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::journal;

/// So many ejections within [`COUNTED_NS`] are the last.
const MOST: usize = 3;
/// Older ones are forgotten.
const COUNTED_NS: u64 = 24 * 3600 * 1_000_000_000;
/// Of what the kernel says: it names processes, and they may have any name.
const REASON_CHARS: usize = 200;

/// An ejection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ejection {
    /// When, nanoseconds of `CLOCK_MONOTONIC`.
    at_ns: u64,
    /// What the kernel said.
    pub reason: String,
}

impl Ejection {
    /// One whose reason fits into a line.
    pub(crate) fn new(at_ns: u64, reason: &str) -> Self {
        Self {
            at_ns,
            reason: reason.chars().map(|c| if c.is_control() { ' ' } else { c }).take(REASON_CHARS).collect(),
        }
    }

    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (at, reason) = line.split_once(' ')?;
        Some(Self::new(at.parse().ok()?, reason))
    }

    pub(crate) fn line(&self) -> String {
        format!("{} {}\n", self.at_ns, self.reason)
    }
}

/// Those on record that count, oldest first. After a boot the clock begins anew, so what is to come yet is of a former one.
pub(crate) fn of(run_dir: &Path, now_ns: u64) -> Vec<Ejection> {
    let text = journal::read(&file(run_dir)).ok().flatten().unwrap_or_default();
    let counts = |one: &Ejection| one.at_ns <= now_ns && now_ns - one.at_ns < COUNTED_NS;
    text.lines().filter_map(Ejection::parse).filter(counts).collect()
}

/// Whether so many are the last.
pub(crate) fn are_too_many(ejections: &[Ejection]) -> bool {
    ejections.len() >= MOST
}

/// Puts another one on record, and returns all that count. The file is whole at any time.
pub(crate) fn note(run_dir: &Path, now_ns: u64, reason: &str) -> io::Result<Vec<Ejection>> {
    let mut all = of(run_dir, now_ns);
    all.push(Ejection::new(now_ns, reason));
    let text: String = all.iter().map(Ejection::line).collect();
    let new = file(run_dir).with_extension("new");
    fs::write(&new, text)?;
    fs::rename(new, file(run_dir))?;
    Ok(all)
}

/// The daemon starts: if it was not to be started again by itself, somebody wants it to begin anew. Returns how many are forgotten.
pub(crate) fn begin(run_dir: &Path, now_ns: u64) -> usize {
    let all = of(run_dir, now_ns);
    // What cannot be removed counts at the next ejection, which is on the safe side.
    if are_too_many(&all) && fs::remove_file(file(run_dir)).is_ok() { all.len() } else { 0 }
}

fn file(run_dir: &Path) -> PathBuf {
    run_dir.join("ejections")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 10 * COUNTED_NS;

    #[test]
    fn three_within_a_day_are_the_last() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path();
        for (at_ns, number) in [(NOW, 1), (NOW + 1, 2), (NOW + COUNTED_NS, 2), (NOW + COUNTED_NS, 3)] {
            let all = note(dir, at_ns, "runnable task stall (a\nb)").expect("written");
            assert_eq!(all.len(), number);
            assert_eq!(are_too_many(&all), number == 3);
            assert_eq!(all[0].reason, "runnable task stall (a b)");
        }
        assert_eq!(begin(dir, NOW + COUNTED_NS), 3);
        assert_eq!(of(dir, NOW + COUNTED_NS), []);
    }

    #[test]
    fn fewer_stay_on_record_over_a_start_and_none_over_a_boot() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path();
        note(dir, NOW, "one").expect("written");
        assert_eq!(begin(dir, NOW + 1), 0);
        assert_eq!(of(dir, NOW + 1).len(), 1);
        assert_eq!(of(dir, 7), []);
        fs::write(file(dir), "no number\n5\n\n9 x\n").expect("written");
        assert_eq!(of(dir, 9), [Ejection { at_ns: 9, reason: "x".into() }]);
    }
}
