//! The guest's monotonic clock, the one that the kernel's timestamps use.

use std::time::Duration;

use rustix::{
    io::Errno,
    thread::clock_nanosleep_absolute,
    time::{ClockId, Timespec, clock_gettime},
};

/// Nanoseconds in a millisecond.
pub const MS: u64 = 1_000_000;
/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * SECOND + time.tv_nsec.unsigned_abs()
}

/// Sleeps until `CLOCK_MONOTONIC` shows `at_ns`.
pub fn sleep_until(at_ns: u64) {
    let request = timespec(at_ns);
    while clock_nanosleep_absolute(ClockId::Monotonic, &request) == Err(Errno::INTR) {}
}

/// Sleeps for `ms` milliseconds.
pub fn sleep_ms(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// The instant as the kernel writes it.
pub fn timespec(at_ns: u64) -> Timespec {
    Timespec { tv_sec: (at_ns / SECOND).cast_signed(), tv_nsec: (at_ns % SECOND).cast_signed() }
}

/// Milliseconds, with fraction.
#[allow(clippy::cast_precision_loss)]
pub fn to_ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Nanoseconds of a time in seconds.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn from_seconds(seconds: f64) -> u64 {
    (seconds * 1e9).max(0.0) as u64
}

/// How much longer than its busy time a deadline lasts for an idle machine.
const IDLE_FACTOR: u64 = 20;

/// A time by which something must have happened, in seconds of a busy CPU.
///
/// An idle emulated machine leaps to its next timer while the host still fetches a disk block, so that
/// seconds pass in which nothing could happen: idle time counts a twentieth.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    begin_ns: u64,
    begin_idle_ns: u64,
    limit_ns: u64,
}

impl Deadline {
    /// So many busy seconds from now.
    pub fn after_s(seconds: u64) -> Self {
        Self { begin_ns: now_ns(), begin_idle_ns: idle_ns(), limit_ns: seconds * SECOND }
    }

    /// Whether it is too late.
    pub fn has_passed(self) -> bool {
        let passed = now_ns() - self.begin_ns;
        if passed < self.limit_ns {
            return false;
        }
        // With several CPUs, time counts as idle when all together were idle that long.
        let idle = idle_ns().saturating_sub(self.begin_idle_ns).min(passed);
        (passed - idle) + idle / IDLE_FACTOR >= self.limit_ns
    }
}

/// Time that CPUs were idle since boot, all together; 0 where the kernel does not tell.
pub fn idle_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|seconds| seconds.parse().ok()).map_or(0, from_seconds)
}
