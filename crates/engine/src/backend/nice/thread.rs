//! Threads one by one: what each had, what it is given, and who else had a hand in it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use appease_policy::elevation_nice;
use tracing::warn;

use super::{
    Tasks,
    journal::{self, Entry, Journal},
    mark::{Mark, Marks},
    wanted::Target,
};
use crate::{
    Error,
    seams::{Setting, Slice},
};

/// Looks for marked threads, at the end: whose parents were not looked at yet while they were born.
const SWEEPS: u32 = 3;
const WORST: i32 = 19;

/// A changed thread that carries no mark.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    tgid: u32,
    entry: Entry,
}

/// What is known of a thread that has something of ours.
#[derive(Debug, Clone, Copy)]
struct Known {
    base: i32,
    given: i32,
}

/// All threads that have something of ours.
pub(super) struct Threads<T: Tasks> {
    pub(super) tasks: T,
    marks: Marks,
    journal: Journal,
    /// Threads without a mark, by number.
    records: BTreeMap<u32, Record>,
    /// Whom somebody else has given another nice value since it was changed, with its process: until nobody waits for it.
    others: BTreeSet<(u32, u32)>,
    changed: u64,
    taken_back: u64,
    left_to_others: u64,
    failed: u64,
}

impl<T: Tasks> Threads<T> {
    pub(super) fn new(tasks: T, run_dir: &Path) -> Self {
        Self {
            marks: Marks::new(tasks.default_slice_ns()),
            tasks,
            journal: Journal::new(journal::path(run_dir)),
            records: BTreeMap::new(),
            others: BTreeSet::new(),
            changed: 0,
            taken_back: 0,
            left_to_others: 0,
            failed: 0,
        }
    }

    /// Gives all threads of a process what is wanted. `is_born`: the process is a child that has its settings from its parent.
    pub(super) fn apply(&mut self, tgid: u32, target: Target, is_born: bool) {
        for tid in self.tasks.threads(tgid) {
            if let Some(setting) = self.tasks.setting(tid) {
                self.apply_one((tgid, tid), &setting, target, is_born);
            }
        }
        if target.is_none() {
            self.forget(tgid);
        }
    }

    fn apply_one(&mut self, (tgid, tid): (u32, u32), setting: &Setting, target: Target, is_born: bool) {
        let known = self.known(tid, setting);
        if !setting.is_fair() {
            // It counts no more, but when it is an ordinary one again.
            if let Some(known) = known.filter(|known| target.is_none() && known.given == setting.nice) {
                self.succeeded(self.tasks.set_nice(tid, known.base).is_ok(), target);
            }
            return;
        }
        if self.others.contains(&(tgid, tid)) {
            return;
        }
        let base = match known {
            None if target.is_none() => return,
            None => setting.nice,
            Some(known) if known.given == setting.nice => known.base,
            Some(known) if is_born && is_relative(known, setting.nice) => {
                (known.base + setting.nice - known.given).min(WORST)
            }
            Some(_) => return self.leave_to_others((tgid, tid), setting),
        };
        if target.is_none() {
            let slice = if self.marks.read(setting.slice_ns).is_some() { Slice::Default } else { own_slice(setting) };
            self.succeeded(self.tasks.set(tid, base, slice).is_ok(), target);
            return;
        }
        self.give((tgid, tid), setting, base, target);
    }

    fn give(&mut self, (tgid, tid): (u32, u32), setting: &Setting, base: i32, target: Target) {
        let given = elevation_nice(base, target.levels);
        if self.marks.can_mark(setting.slice_ns) {
            let Slice::Of(slice_ns) = self.marks.write(Mark { base, given }, target.prompt) else { return };
            if (setting.nice, setting.slice_ns) != (given, slice_ns) {
                self.succeeded(self.tasks.set(tid, given, Slice::Of(slice_ns)).is_ok(), target);
            }
            return;
        }
        if setting.nice == given || !self.note(tgid, tid, base, given) {
            return;
        }
        self.succeeded(self.tasks.set(tid, given, own_slice(setting)).is_ok(), target);
    }

    /// What is known of a thread; its mark knows best.
    fn known(&self, tid: u32, setting: &Setting) -> Option<Known> {
        let marked = self.marks.read(setting.slice_ns).map(|mark| Known { base: mark.base, given: mark.given });
        let noted = || self.records.get(&tid).map(|of| Known { base: of.entry.base, given: of.entry.given });
        marked.or_else(noted)
    }

    /// Somebody else has set its nice value, and it keeps that. Only a mark is taken off.
    fn leave_to_others(&mut self, (tgid, tid): (u32, u32), setting: &Setting) {
        self.left_to_others += 1;
        self.records.remove(&tid);
        self.others.insert((tgid, tid));
        if self.marks.read(setting.slice_ns).is_some() {
            let _ = self.tasks.set(tid, setting.nice, Slice::Default);
        }
    }

    /// Notes a change before it is made; false: it must not be made.
    fn note(&mut self, tgid: u32, tid: u32, base: i32, given: i32) -> bool {
        let Some(began) = self.tasks.began(tid) else { return false };
        let entry = Entry { tid, began, base, given };
        let live: Vec<Entry> = self.records.values().map(|record| record.entry).collect();
        if let Err(error) = self.journal.note(&entry, live.into_iter()) {
            if self.failed == 0 {
                warn!("a nice value is left as it is, since its record cannot be written: {error}");
            }
            self.failed += 1;
            return false;
        }
        self.records.insert(tid, Record { tgid, entry });
        true
    }

    /// A thread has what `parent` has: a mark came with it, a record did not.
    pub(super) fn born(&mut self, tgid: u32, tid: u32, parent: u32) {
        if let Some(of) = self.records.get(&parent).copied() {
            self.note(tgid, tid, of.entry.base, of.entry.given);
        }
    }

    /// Nothing of a process is ours any more.
    pub(super) fn forget(&mut self, tgid: u32) {
        self.records.retain(|_, record| record.tgid != tgid);
        self.others.retain(|(of, _)| *of != tgid);
        if self.records.is_empty() {
            self.journal.clear();
        }
    }

    /// Everything has been taken back that was known of; now the rest.
    pub(super) fn end(&mut self) {
        for _ in 0..SWEEPS {
            if sweep(&self.tasks, self.marks) == 0 {
                break;
            }
        }
        self.records.clear();
        self.journal.clear();
    }

    fn succeeded(&mut self, is_done: bool, target: Target) {
        match (is_done, target.is_none()) {
            // Mostly because the thread has ended.
            (false, _) => self.failed += 1,
            (true, true) => self.taken_back += 1,
            (true, false) => self.changed += 1,
        }
    }

    pub(super) fn counters(&self) -> [(&'static str, u64); 4] {
        [
            ("threads changed", self.changed),
            ("threads given back what they had", self.taken_back),
            ("threads left to who else changed them", self.left_to_others),
            ("threads that could not be changed", self.failed),
        ]
    }
}

/// Whether a nice value is meant as so much worse than what its process saw as its own, as nice(1) sets it: nobody but root could
/// have set one better than the base.
fn is_relative(known: Known, nice: i32) -> bool {
    known.given < nice && nice < known.base
}

/// The slice of a thread whose user chose it, or that has none.
fn own_slice(setting: &Setting) -> Slice {
    if setting.slice_ns > 0 { Slice::Of(setting.slice_ns) } else { Slice::Absent }
}

/// Takes back what marked threads have; how many there were.
fn sweep<T: Tasks>(tasks: &T, marks: Marks) -> usize {
    if !marks.has_slices() {
        return 0;
    }
    let mut found = 0;
    for tid in tasks.all() {
        let Some(setting) = tasks.setting(tid) else { continue };
        let Some(mark) = marks.read(setting.slice_ns) else { continue };
        let nice = if mark.given == setting.nice { mark.base } else { setting.nice };
        if tasks.set(tid, nice, Slice::Default).is_ok() {
            found += 1;
        }
    }
    found
}

/// Takes back what a daemon has left changed that was killed; how many threads that were.
///
/// # Errors
/// When its journal cannot be read.
pub fn take_back<T: Tasks>(tasks: &T, run_dir: &Path) -> Result<usize, Error> {
    let path = journal::path(run_dir);
    let mut found = 0;
    // A thread may be there more than once, and the last change may not have been made.
    for entry in journal::read(&path)? {
        let is_its = tasks.began(entry.tid) == Some(entry.began);
        let has_it = is_its && tasks.setting(entry.tid).is_some_and(|setting| setting.nice == entry.given);
        if has_it && tasks.set_nice(entry.tid, entry.base).is_ok() {
            found += 1;
        }
    }
    found += sweep(tasks, Marks::new(tasks.default_slice_ns()));
    Journal::new(path).clear();
    Ok(found)
}
