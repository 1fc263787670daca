//! Threads one by one: what each had, what it is given, and who else had a hand in it.

use std::collections::BTreeSet;

use appease_policy::elevation_nice;
use tracing::warn;

use super::{Tasks, wanted::Target};
use crate::seams::{BpfError, Change, Setting, Slice};

/// Looks for changed threads, at the end: some may be started while others are looked at.
const SWEEPS: u32 = 3;
const WORST: i32 = 19;

/// A slice shorter than any default one: its holder takes the CPU at a wake-up from a task that has the default.
const PROMPT_NS: u64 = 300_000;

/// All threads that have something of ours.
pub(super) struct Threads<T: Tasks> {
    pub(super) tasks: T,
    /// 0: this kernel has no slices.
    default_ns: u64,
    /// Whom somebody else has given another nice value since it was changed, with its process: until nobody waits for it.
    others: BTreeSet<(u32, u32)>,
    /// Whether any thread may have a record.
    has_records: bool,
    /// Threads with a record, of processes that were not served at the last sweep.
    suspects: BTreeSet<u32>,
    changed: u64,
    given_back: u64,
    left_to_others: u64,
    failed: u64,
}

impl<T: Tasks> Threads<T> {
    pub(super) fn new(tasks: T) -> Self {
        Self {
            default_ns: tasks.default_slice_ns(),
            tasks,
            others: BTreeSet::new(),
            has_records: false,
            suspects: BTreeSet::new(),
            changed: 0,
            given_back: 0,
            left_to_others: 0,
            failed: 0,
        }
    }

    /// Whether any thread may have something of ours, or a record of it.
    pub(super) fn has_records(&self) -> bool {
        self.has_records
    }

    /// Gives all threads of a process what is wanted.
    pub(super) fn apply(&mut self, tgid: u32, target: Target) {
        for tid in self.tasks.threads(tgid) {
            if let Some(setting) = self.tasks.setting(tid) {
                self.apply_one((tgid, tid), &setting, target);
            }
        }
        if target.is_none() {
            self.forget(tgid);
        }
    }

    fn apply_one(&mut self, (tgid, tid): (u32, u32), setting: &Setting, target: Target) {
        let change = self.tasks.change(tid);
        if target.is_none() {
            if let Some(change) = change {
                self.give_back(tid, setting, change);
            }
            return;
        }
        if !setting.is_fair() || self.others.contains(&(tgid, tid)) {
            return;
        }
        let base = match change {
            None => setting.nice,
            Some(change) => match own_nice(&change, setting) {
                Some(nice) => nice,
                None if change.is_over => setting.nice,
                None => return self.leave_to_others((tgid, tid), setting, change),
            },
        };
        self.give(tid, setting, base, change, target);
    }

    fn give(&mut self, tid: u32, setting: &Setting, base: i32, change: Option<Change>, target: Target) {
        let given = elevation_nice(base, target.levels);
        let has_ours = change.is_some_and(|change| has_slice(&change, setting));
        let is_default = self.default_ns > 0 && (has_ours || setting.slice_ns == self.default_ns);
        let slice = match (is_default, target.prompt) {
            (false, _) => own_slice(setting),
            (true, true) => Slice::Of(PROMPT_NS),
            (true, false) => Slice::Default,
        };
        let is_inherited = change.is_some_and(|change| change.is_inherited);
        let slice_ns = (is_default && target.prompt).then_some(PROMPT_NS);
        let former = change.map_or(given, |change| if change.given == given { change.former } else { change.given });
        let wanted = Change { base, given, former, slice_ns, is_inherited, is_over: false };
        if change == Some(wanted) && setting.nice == given && has_ours == slice_ns.is_some() {
            return;
        }
        // Before the change: at no time has a thread anything that nobody knows of.
        self.has_records = true;
        if let Err(error) = self.tasks.note(tid, wanted) {
            if self.failed == 0 && !matches!(error, BpfError::NoSuchProcess(_)) {
                warn!("a nice value is left as it is, since it cannot be noted: {error}");
            }
            self.failed += 1;
            return;
        }
        match self.tasks.set(tid, given, slice) {
            Ok(()) => self.changed += 1,
            // Mostly because the thread has ended.
            Err(_) => self.failed += 1,
        }
    }

    /// Gives back what a thread has of ours; whether it had anything.
    fn give_back(&mut self, tid: u32, setting: &Setting, change: Change) -> bool {
        let had = give_back(&self.tasks, tid, setting, change);
        match had {
            Some(true) => self.given_back += 1,
            Some(false) => self.failed += 1,
            None => {}
        }
        had == Some(true)
    }

    /// Somebody else has set its nice value, and it keeps that. Only a slice is taken back.
    fn leave_to_others(&mut self, (tgid, tid): (u32, u32), setting: &Setting, change: Change) {
        self.left_to_others += 1;
        self.others.insert((tgid, tid));
        if has_slice(&change, setting) {
            let _ = self.tasks.set(tid, setting.nice, Slice::Default);
        }
        self.tasks.erase(tid);
    }

    /// Looks at every thread with a record, of processes that have not been served since the last look: one that was started just when its
    /// parent's was given back has it still, and so has one of which nobody told. The rest of the records go.
    pub(super) fn sweep(&mut self, is_served: impl Fn(u32) -> bool) {
        let changed = match self.tasks.changed() {
            Ok(changed) => changed,
            Err(error) => {
                warn!("{error}; what threads have that nobody waits for is given back later");
                return;
            }
        };
        self.has_records = !changed.is_empty();
        let mut suspects = BTreeSet::new();
        for one in changed.into_iter().filter(|one| !is_served(one.tgid)) {
            // Of one that was just started there may be news to come.
            suspects.insert(one.tid);
            if !self.suspects.contains(&one.tid) {
                continue;
            }
            let Some(setting) = self.tasks.setting(one.tid) else { continue };
            if !self.give_back(one.tid, &setting, one.change) {
                self.tasks.erase(one.tid);
            }
        }
        self.suspects = suspects;
    }

    /// Nothing of a process is ours any more.
    pub(super) fn forget(&mut self, tgid: u32) {
        self.others.retain(|(of, _)| *of != tgid);
    }

    /// Everything has been given back that was known of; now the rest.
    pub(super) fn end(&mut self) {
        if let Err(error) = take_back(&self.tasks) {
            warn!("{error}; \"appease restore\" gives back what threads have still");
        }
    }

    pub(super) fn counters(&self) -> [(&'static str, u64); 4] {
        [
            ("threads changed", self.changed),
            ("threads given back what they had", self.given_back),
            ("threads left to who else changed them", self.left_to_others),
            ("threads that could not be changed", self.failed),
        ]
    }
}

/// Whether the thread has the slice that it was given.
fn has_slice(change: &Change, setting: &Setting) -> bool {
    change.slice_ns == Some(setting.slice_ns)
}

/// The nice value that is a thread's own, without what it was given; `None`: somebody else has set the one that it has.
fn own_nice(change: &Change, setting: &Setting) -> Option<i32> {
    if setting.nice == change.given || (change.is_inherited && setting.nice == change.former) {
        return Some(change.base);
    }
    // Meant as so much worse than what it saw as its own, as nice(1) sets it: nobody but root could have set one better than the base.
    let is_relative = change.is_inherited && change.given < setting.nice && setting.nice < change.base;
    is_relative.then(|| (change.base + setting.nice - change.given).min(WORST))
}

/// The slice of a thread whose user chose it, or that has none.
fn own_slice(setting: &Setting) -> Slice {
    if setting.slice_ns > 0 { Slice::Of(setting.slice_ns) } else { Slice::Absent }
}

/// Gives back what a thread has of ours, and notes that; whether that could be done. `None`: it has nothing.
fn give_back<T: Tasks>(tasks: &T, tid: u32, setting: &Setting, change: Change) -> Option<bool> {
    let nice = own_nice(&change, setting).unwrap_or(setting.nice);
    let is_short = has_slice(&change, setting);
    if nice == setting.nice && !is_short {
        return None;
    }
    let done = match (setting.is_fair(), is_short) {
        // It counts no more, but when it is an ordinary one again.
        (false, _) => tasks.set_nice(tid, nice),
        (true, true) => tasks.set(tid, nice, Slice::Default),
        (true, false) => tasks.set(tid, nice, own_slice(setting)),
    };
    // A child that is being started has nice value and record from before or after this; each of both is known by this one.
    let _ = tasks.note(tid, Change { is_over: true, ..change });
    Some(done.is_ok())
}

/// Gives back what all threads have; how many that were.
///
/// # Errors
/// When the records cannot be read.
pub(super) fn take_back<T: Tasks>(tasks: &T) -> Result<usize, BpfError> {
    let mut all = 0;
    for _ in 0..SWEEPS {
        let mut found = 0;
        for one in tasks.changed()? {
            let Some(setting) = tasks.setting(one.tid) else { continue };
            if give_back(tasks, one.tid, &setting, one.change) == Some(true) {
                found += 1;
            }
        }
        if found == 0 {
            break;
        }
        all += found;
    }
    tasks.end();
    Ok(all)
}
