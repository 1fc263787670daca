//! Acts by nice value and slice of the kernel's own scheduler, for kernels without sched_ext and for policy rbpe.
//!
//! The eyes tell of changes only; who is served is looked at now and then until nobody waits for it any more, and is charged
//! then for its CPU time. Nothing is changed that its user has changed meanwhile, nor what is not scheduled by nice value.
//!
//! Invariants: the kernel has a record of a change with the thread before it is made (`bpf/changes.bpf.c`), and nothing else says that a
//! change is ours; dropping this takes all back.

mod kernel;
#[cfg(test)]
mod tests;
mod thread;
mod wanted;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

use tracing::warn;

pub(crate) use kernel::BPFFS;
pub use kernel::KernelTasks;
#[cfg(test)]
pub(crate) use kernel::avenrun;
use thread::{Threads, take_back};
use wanted::{LOOK_NS, Raised, Target, Wanted};

use crate::seams::{BpfError, Change, Changed, News, Policy, SenseOptions, Setting, Slice, Witness};

/// Gives back what a daemon has left changed that was killed; how many threads that were.
///
/// # Errors
/// When its records cannot be read.
pub fn restore() -> Result<usize, BpfError> {
    KernelTasks::left()?.map_or(Ok(0), |tasks| take_back(&tasks))
}

/// Threads, as the kernel's own scheduler has them.
pub trait Tasks {
    /// The threads of a process; none when it is gone.
    fn threads(&self, tgid: u32) -> Vec<u32>;
    /// A thread's settings; `None` when it is gone.
    fn setting(&self, tid: u32) -> Option<Setting>;
    /// Sets nice value and slice of one that is scheduled by nice value.
    ///
    /// # Errors
    /// When it is gone, may not be changed, or is realtime.
    fn set(&self, tid: u32, nice: i32, slice: Slice) -> io::Result<()>;
    /// Sets the nice value alone.
    ///
    /// # Errors
    /// When it is gone or may not be changed.
    fn set_nice(&self, tid: u32, nice: i32) -> io::Result<()>;
    /// What of a thread has been changed.
    fn change(&self, tid: u32) -> Option<Change>;
    /// Notes that. Threads that it starts have it from the first moment on.
    ///
    /// # Errors
    /// When it is gone, or the kernel refuses.
    fn note(&self, tid: u32, change: Change) -> Result<(), BpfError>;
    /// Nothing of a thread is changed any more.
    fn erase(&self, tid: u32);
    /// All threads of which something has been noted.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn changed(&self) -> Result<Vec<Changed>, BpfError>;
    /// Nothing of any thread is changed any more, and notes need not outlast the daemon.
    fn end(&self);
    /// CPU time of a process, ns; `None` when it is gone.
    fn process_time_ns(&self, tgid: u32) -> Option<u64>;
    /// The slice of who has not asked for another, ns; 0: this kernel has none that could be set.
    fn default_slice_ns(&self) -> u64;
    /// The load of the last minute, in the kernel's fixed point (`avenrun[0]`).
    fn avenrun(&self) -> u64;
}

/// How often the load is read; the kernel takes it every 5 s.
const LOAD_NS: u64 = 1_000_000_000;
/// How often threads are looked at that have something though nobody waits for them. A record is erased at the third look after its
/// process was let go at the latest.
const SWEEP_NS: u64 = 2_000_000_000;
/// Changes of threads for somebody's sake, a second, in the long run and at once. What is taken back is not limited: it is
/// no more than was done.
const CHANGES_EACH_S: u64 = 500;
const CHANGES_AT_ONCE: u64 = 1000;

/// A process that is served, or was.
#[derive(Debug, Default)]
struct Served {
    target: Target,
    /// When to look at it anew; `None`: when the eyes tell.
    look_ns: Option<u64>,
    raised: Raised,
    /// It has its nice value from a parent that was served.
    is_born: bool,
    /// Nothing is done for it any more. It goes when its last children are known.
    is_over: bool,
}

/// The backend.
pub struct Nice<T: Tasks> {
    options: SenseOptions,
    threads: Threads<T>,
    served: BTreeMap<u32, Served>,
    avenrun: u64,
    load_ns: u64,
    sweep_ns: u64,
    changes: Changes,
    put_off: u64,
    looks: u64,
    failed: u64,
}

impl<T: Tasks> Nice<T> {
    /// One that has done nothing yet. What an earlier one left must have been taken back.
    pub fn new(tasks: T, options: &SenseOptions) -> Self {
        Self {
            options: options.clone(),
            threads: Threads::new(tasks),
            served: BTreeMap::new(),
            avenrun: 0,
            load_ns: 0,
            sweep_ns: 0,
            changes: Changes { left: CHANGES_AT_ONCE, at_ns: 0 },
            put_off: 0,
            looks: 0,
            failed: 0,
        }
    }

    /// Hears what the witness has to tell, and looks at whoever is due; when it wants to be called again at the latest.
    pub fn act<W: Witness>(&mut self, witness: &mut W, now_ns: u64) -> Option<u64> {
        self.follow_load(witness, now_ns);
        // News that come later are not of children of these: they were let go of before.
        let over: BTreeSet<u32> = self.served.iter().filter(|(_, one)| one.is_over).map(|(tgid, _)| *tgid).collect();
        match witness.news() {
            Ok(news) => news.into_iter().for_each(|one| self.hear(one, now_ns)),
            Err(error) => warn!("{error}; who is served now is found out about late"),
        }
        self.served.retain(|tgid, one| !(one.is_over && over.contains(tgid)));
        let is_due = |one: &Served| one.look_ns.is_some_and(|look_ns| look_ns <= now_ns);
        let due: Vec<u32> = self.served.iter().filter(|(_, one)| is_due(one)).map(|(tgid, _)| *tgid).collect();
        for tgid in due {
            match self.look(witness, tgid, now_ns) {
                Ok(()) => {}
                Err(BpfError::NoSuchProcess(_)) => self.forget(tgid),
                Err(error) => {
                    if self.failed == 0 {
                        warn!("process {tgid} is served like any other: {error}");
                    }
                    self.failed += 1;
                    self.look_again(tgid, now_ns);
                }
            }
        }
        if now_ns >= self.sweep_ns && self.threads.has_records() {
            self.sweep_ns = now_ns + SWEEP_NS;
            self.threads.sweep(|tgid| self.served.contains_key(&tgid));
        }
        let looks = self.served.values().filter_map(|one| one.look_ns);
        let closes = self.served.values().any(|one| one.is_over).then_some(now_ns + LOOK_NS);
        let load = (self.options.policy == Policy::Rbpe).then_some(self.load_ns);
        let sweep = self.threads.has_records().then_some(self.sweep_ns);
        looks.chain(closes).chain(load).chain(sweep).min()
    }

    /// Policy rbpe goes by the load.
    fn follow_load<W: Witness>(&mut self, witness: &mut W, now_ns: u64) {
        if self.options.policy == Policy::Rbpe && now_ns >= self.load_ns {
            self.avenrun = self.threads.tasks.avenrun();
            self.load_ns = now_ns + LOAD_NS;
            witness.set_raises(wanted::raises(self.avenrun));
        }
    }

    fn hear(&mut self, news: News, now_ns: u64) {
        match news {
            // Our own settings are our own matter.
            News::Wanted { tgid } | News::Born { tgid, .. } if tgid == std::process::id() => {}
            News::Wanted { tgid } => {
                let one = self.served.entry(tgid).or_default();
                (one.look_ns, one.is_over) = (Some(now_ns), false);
            }
            News::Born { tgid, parent_tgid, .. } => {
                let of = self.served.get(&parent_tgid);
                let (target, raised) = of.map(|of| (of.target, of.raised)).unwrap_or_default();
                let one =
                    self.served.entry(tgid).or_insert(Served { target, raised, is_born: true, ..Served::default() });
                // A command may be done by then, and nothing need be done for it.
                one.look_ns = Some(one.look_ns.map_or(now_ns + LOOK_NS, |look_ns| look_ns.min(now_ns + LOOK_NS)));
                one.is_over = false;
            }
        }
    }

    fn look<W: Witness>(&mut self, witness: &W, tgid: u32, now_ns: u64) -> Result<(), BpfError> {
        let is_new = self.served.get(&tgid).is_some_and(|one| one.target.is_none() && !one.is_born);
        if is_new && !self.changes.has_room(now_ns) {
            self.put_off += 1;
            self.look_again(tgid, now_ns);
            return Ok(());
        }
        self.looks += 1;
        let time_ns = self.threads.tasks.process_time_ns(tgid).ok_or(BpfError::NoSuchProcess(tgid))?;
        let Some(one) = self.served.get(&tgid) else { return Ok(()) };
        let (had, is_born) = (one.target, one.is_born);
        if had.levels > 0 && self.options.policy.follows_attention() {
            witness.charge(tgid, time_ns)?;
        }
        let mut wanted = self.judge(witness, tgid, now_ns)?;
        if wanted.target.levels < had.levels || (had.prompt && !wanted.target.prompt) {
            // What comes from now on is told; what came just before is seen by another look.
            witness.let_go(tgid, true)?;
            wanted = self.judge(witness, tgid, now_ns)?;
        }
        // Who was born to somebody has what that one had, whatever that was.
        if wanted.target != had || (is_born && wanted.target.is_none()) {
            if had.is_none() && !is_born {
                witness.take_on(tgid, time_ns)?;
            }
            if wanted.target.levels > had.levels && !self.changes.take(self.threads.tasks.threads(tgid).len(), now_ns) {
                self.put_off += 1;
                self.look_again(tgid, now_ns);
                return Ok(());
            }
            self.threads.apply(tgid, wanted.target);
        }
        let is_over = wanted.target.is_none();
        if is_over {
            witness.let_go(tgid, false)?;
        }
        if let Some(one) = self.served.get_mut(&tgid) {
            (one.target, one.look_ns, one.is_over) = (wanted.target, wanted.look_ns, is_over);
        }
        Ok(())
    }

    fn judge<W: Witness>(&mut self, witness: &W, tgid: u32, now_ns: u64) -> Result<Wanted, BpfError> {
        let process = witness.process(tgid)?;
        if self.options.policy.follows_attention() {
            let none = Wanted { target: Target::default(), look_ns: None };
            return Ok(process.map_or(none, |process| wanted::by_attention(&self.options, &process, now_ns)));
        }
        let raised = &mut self.served.entry(tgid).or_default().raised;
        Ok(raised.follow(process.map_or([0; 2], |process| process.raised_ns), self.avenrun, now_ns))
    }

    fn look_again(&mut self, tgid: u32, now_ns: u64) {
        if let Some(one) = self.served.get_mut(&tgid) {
            one.look_ns = Some(now_ns + LOOK_NS);
        }
    }

    fn forget(&mut self, tgid: u32) {
        self.served.remove(&tgid);
        self.threads.forget(tgid);
    }

    /// Counters by name.
    #[must_use]
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut counters = vec![
            ("processes looked at", self.looks),
            ("looks that failed", self.failed),
            ("changes put off: too many", self.put_off),
        ];
        counters.extend(self.threads.counters());
        counters
    }
}

impl<T: Tasks> Drop for Nice<T> {
    fn drop(&mut self) {
        for tgid in self.served.keys() {
            self.threads.apply(*tgid, Target::default());
        }
        self.threads.end();
    }
}

/// A limit to the changes in a time.
#[derive(Debug)]
struct Changes {
    left: u64,
    at_ns: u64,
}

impl Changes {
    /// Whether there is any left.
    fn has_room(&mut self, now_ns: u64) -> bool {
        let each_ns = 1_000_000_000 / CHANGES_EACH_S;
        let new = now_ns.saturating_sub(self.at_ns) / each_ns;
        self.at_ns = if self.left + new >= CHANGES_AT_ONCE { now_ns } else { self.at_ns + new * each_ns };
        self.left = (self.left + new).min(CHANGES_AT_ONCE);
        self.left > 0
    }

    /// Takes so many, if they are to be had. More than there can ever be are as many as that.
    fn take(&mut self, number: usize, now_ns: u64) -> bool {
        self.has_room(now_ns);
        let number = u64::try_from(number).unwrap_or(u64::MAX).min(CHANGES_AT_ONCE);
        let is_left = number <= self.left;
        if is_left {
            self.left -= number;
        }
        is_left
    }
}
