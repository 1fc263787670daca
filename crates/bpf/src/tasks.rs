//! What the kernel's own scheduler is told about a thread: nice value and slice.

use std::{io, mem, time::Duration};

use crate::sensor::nanos;

/// A thread's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// `SCHED_OTHER` and so on, by number.
    pub policy: u32,
    /// The nice value.
    pub nice: i32,
    /// The slice of EEVDF, ns; 0: this kernel has none that could be set (before 6.12), or the policy has none.
    pub slice_ns: u64,
}

impl Setting {
    /// Whether the kernel schedules the thread by nice value: no realtime, deadline or idle one.
    #[must_use]
    pub fn is_fair(&self) -> bool {
        i32::try_from(self.policy).is_ok_and(|policy| [libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&policy))
    }
}

/// What is to become of a thread's slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slice {
    /// This kernel has none: only the nice value is set.
    Absent,
    /// The kernel's default.
    Default,
    /// So long, ns: 0.1 ms to 100 ms.
    Of(u64),
}

/// The settings of the thread `tid`; 0: of this one.
///
/// # Errors
/// When there is none.
pub fn setting(tid: u32) -> io::Result<Setting> {
    let attr = attributes(tid)?;
    let setting = Setting { policy: attr.sched_policy, nice: attr.sched_nice, slice_ns: 0 };
    // Of a deadline task it is the runtime.
    Ok(if setting.is_fair() { Setting { slice_ns: attr.sched_runtime, ..setting } } else { setting })
}

/// Sets nice value and slice of a thread that is scheduled by nice value, in one step. A thread that is not, any more, keeps
/// all that it has.
///
/// # Errors
/// When there is no such thread, it may not be changed, or it is realtime.
pub fn set(tid: u32, nice: i32, slice: Slice) -> io::Result<()> {
    let runtime = match slice {
        Slice::Absent => return set_nice(tid, nice),
        Slice::Default => 0,
        Slice::Of(ns) => ns,
    };
    let mut attr = empty();
    attr.sched_flags = KEEP_POLICY;
    attr.sched_nice = nice;
    attr.sched_runtime = runtime;
    set_attributes(tid, attr)
}

/// Sets the nice value of a thread of any policy; a realtime one has it when it is none any more.
///
/// # Errors
/// When there is no such thread, or it may not be changed.
pub fn set_nice(tid: u32, nice: i32) -> io::Result<()> {
    // SAFETY: setpriority takes three integers.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, tid, nice) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The slice that this kernel gives to who has not asked for another, ns; `None`: it has none (before 6.12). Asks by giving it
/// to this thread.
#[must_use]
pub fn default_slice_ns() -> Option<u64> {
    let own = setting(0).ok().filter(|own| own.slice_ns > 0)?;
    set(0, own.nice, Slice::Default).ok()?;
    setting(0).ok().map(|own| own.slice_ns)
}

/// What a thread's class is, and is to be given back to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class {
    /// `SCHED_OTHER` and so on, by number.
    pub policy: u32,
    /// The realtime priority; 0 where there is none.
    pub priority: u32,
    /// Whether its children begin without it (`SCHED_FLAG_RESET_ON_FORK`).
    pub resets_on_fork: bool,
}

impl Class {
    /// Whether it is one of those that go before all others for as long as they like.
    #[must_use]
    pub fn is_realtime(&self) -> bool {
        i32::try_from(self.policy).is_ok_and(|policy| [libc::SCHED_FIFO, libc::SCHED_RR].contains(&policy))
    }

    /// The one behind all others. It leaves the nice value alone.
    #[must_use]
    pub fn last(self) -> Self {
        Self { policy: libc::SCHED_IDLE.unsigned_abs(), priority: 0, ..self }
    }
}

/// The class of the thread `tid`.
///
/// # Errors
/// When there is none.
pub fn class(tid: u32) -> io::Result<Class> {
    let attr = attributes(tid)?;
    Ok(Class {
        policy: attr.sched_policy,
        priority: attr.sched_priority,
        resets_on_fork: attr.sched_flags & RESET_ON_FORK != 0,
    })
}

/// Gives the thread `tid` a class that is made of policy and priority alone.
///
/// # Errors
/// When there is no such thread, or it may not be changed.
pub fn set_class(tid: u32, class: Class) -> io::Result<()> {
    let mut attr = empty();
    attr.sched_policy = class.policy;
    attr.sched_priority = class.priority;
    attr.sched_flags = if class.resets_on_fork { RESET_ON_FORK } else { 0 };
    set_attributes(tid, attr)
}

/// Has this thread displace nobody when it wakes up: it becomes batch work, and keeps its nice value. One that was given another class
/// than the usual one keeps that.
///
/// # Errors
/// When the kernel refuses.
pub fn be_patient() -> io::Result<()> {
    let mut attr = attributes(0)?;
    if attr.sched_policy != libc::SCHED_OTHER.unsigned_abs() {
        return Ok(());
    }
    attr.sched_policy = libc::SCHED_BATCH.unsigned_abs();
    // What was read is the slice that it has now, which would become one of its own.
    attr.sched_runtime = 0;
    set_attributes(0, attr)
}

/// Has this thread go before all realtime ones, for `runtime` of each `period`; whether the kernel reserves that. Else it is one of the
/// first among them.
///
/// # Errors
/// When the kernel refuses that, too.
pub fn go_first(runtime: Duration, period: Duration) -> io::Result<bool> {
    let mut attr = empty();
    attr.sched_policy = libc::SCHED_DEADLINE.unsigned_abs();
    attr.sched_runtime = nanos(runtime);
    (attr.sched_deadline, attr.sched_period) = (nanos(period), nanos(period));
    if set_attributes(0, attr).is_ok() {
        return Ok(true);
    }
    // SAFETY: sched_get_priority_max takes an integer.
    let most = unsafe { libc::sched_get_priority_max(libc::SCHED_FIFO) };
    let policy = libc::SCHED_FIFO.unsigned_abs();
    set_class(0, Class { policy, priority: most.unsigned_abs(), resets_on_fork: false }).map(|()| false)
}

/// CPU time of all threads of a process, those that have ended included, ns; `None`: there is no such process.
#[must_use]
pub fn process_time_ns(tgid: u32) -> Option<u64> {
    /// Which clock of the process: the scheduler's own sum (linux/posix-timers.h).
    const CPUCLOCK_SCHED: libc::clockid_t = 2;
    let clock = (!libc::clockid_t::try_from(tgid).ok()? << 3) | CPUCLOCK_SCHED;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime writes into a live record.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    if result < 0 {
        return None;
    }
    let seconds = u64::try_from(time.tv_sec).ok()?;
    Some(seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).ok()?)
}

/// `SCHED_FLAG_RESET_ON_FORK` and `SCHED_FLAG_KEEP_POLICY` (linux/sched.h).
const RESET_ON_FORK: u64 = 0x01;
const KEEP_POLICY: u64 = 0x08;

fn attributes(tid: u32) -> io::Result<libc::sched_attr> {
    let mut attr = empty();
    // SAFETY: sched_getattr writes at most as many bytes as it is told, into a live record of that size.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attr, attr.size, 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(attr) }
}

fn set_attributes(tid: u32, mut attr: libc::sched_attr) -> io::Result<()> {
    // SAFETY: sched_setattr reads a live record, whose size is in it; it may write the size that it knows.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw mut attr, 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn empty() -> libc::sched_attr {
    let size = u32::try_from(mem::size_of::<libc::sched_attr>()).unwrap_or(0);
    libc::sched_attr {
        size,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_thread_is_an_ordinary_one() {
        let own = setting(0).expect("readable");
        assert!(own.is_fair() && (-20..20).contains(&own.nice), "{own:?}");
        assert_eq!(setting(u32::MAX >> 1).expect_err("no such thread").raw_os_error(), Some(libc::ESRCH));
    }

    #[test]
    fn time_passes_for_who_works() {
        let own = std::process::id();
        let before = process_time_ns(own).expect("our own");
        while process_time_ns(own).expect("our own") == before {
            std::hint::spin_loop();
        }
        // Beyond the largest number that a process can have.
        assert_eq!(process_time_ns(1 << 23), None);
    }

    #[test]
    fn a_class_is_set_without_the_nice_value() {
        // A thread of its own: without privilege there is no way back.
        let changed = std::thread::spawn(|| {
            set_nice(0, 7).expect("allowed");
            let own = class(0).expect("readable");
            assert!(!own.is_realtime() && own.last().resets_on_fork == own.resets_on_fork);
            set_class(0, own.last()).expect("allowed");
            assert_eq!(class(0).expect("readable"), own.last());
            // SAFETY: getpriority takes two integers.
            unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
        });
        assert_eq!(changed.join().expect("ended"), 7);
    }

    #[test]
    fn nice_values_get_worse_without_privilege() {
        // A thread of its own: what it is given stays with it.
        let changed = std::thread::spawn(|| {
            let own = setting(0).expect("readable");
            let slice = if own.slice_ns > 0 { Slice::Default } else { Slice::Absent };
            set(0, 19, slice).expect("allowed");
            setting(0).expect("readable").nice
        });
        assert_eq!(changed.join().expect("ended"), 19);
    }
}
