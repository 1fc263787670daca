//! Section 3.3: the Completely Fair Scheduler.

/// Eq. 14 (section 3.3): slice, s, of each of `tasks` tasks (N): `sch_lat / N`.
#[must_use]
pub fn eq14(sch_lat_s: f64, tasks: u32) -> f64 {
    sch_lat_s / f64::from(tasks)
}

/// Eq. 15 (section 3.3): slice, s, of a task of nice `own` among those of nice `all`, itself included:
/// `w_j sch_lat / Σ w_i`, where nice 0 weighs 1024 and each level less weighs 1.25 times as much.
#[must_use]
pub fn eq15(sch_lat_s: f64, own: i32, all: &[i32]) -> f64 {
    let weight = |nice: i32| 1024.0 * 1.25f64.powi(-nice);
    weight(own) * sch_lat_s / all.iter().map(|&nice| weight(nice)).sum::<f64>()
}

/// Eq. 16 (section 3.3): eq. 15 where all have nice 0: eq. 14.
#[must_use]
pub fn eq16(sch_lat_s: f64, tasks: u32) -> f64 {
    eq14(sch_lat_s, tasks)
}

/// Eq. 17 (section 3.3): least unhappiness, s, over a request that is done in its first slice: 0.
#[must_use]
pub fn eq17() -> f64 {
    0.0
}

/// Eq. 18 (section 3.3): unhappiness over a request of three parts that take `parts_s` seconds (τ1, τ2, τ3):
/// `(N - 1)(τ / q(N) - 3) - τ`.
///
/// Wrong: the difference of a number and a time; [`cfs_unhappiness`] is in seconds.
#[must_use]
pub fn eq18(sch_lat_s: f64, parts_s: [f64; 3], tasks: u32) -> f64 {
    let total_s: f64 = parts_s.into_iter().sum();
    (f64::from(tasks) - 1.0) * (total_s / eq14(sch_lat_s, tasks) - 3.0) - total_s
}

/// Eq. 24 (section 5.2): longest request, s, over which there is no unhappiness under CFS: `sch_lat / N`.
///
/// Sufficient; the kernel lets a process that slept run for longer.
#[must_use]
pub fn eq24(sch_lat_s: f64, tasks: u32) -> f64 {
    eq14(sch_lat_s, tasks)
}

/// Eq. 26 (section 5.2): said to be eq. 18: `(N - 1)(τ / sch_lat - 3) - τ`. It is not: N is missing.
#[must_use]
pub fn eq26(sch_lat_s: f64, total_s: f64, tasks: u32) -> f64 {
    (f64::from(tasks) - 1.0) * (total_s / sch_lat_s - 3.0) - total_s
}

/// What eq. 18 should be by section 2.2, s, for parts of any length: each begins at once, and after each slice but the last
/// all others have theirs: `Σ (⌈(τ_i - c) / q⌉ - 1)(N - 1) q`. The process that begins a part goes on for `credit_s` (c) before
/// the others have their first turn: 0 in the paper, half a sch_lat in the kernel.
#[must_use]
pub fn cfs_unhappiness(sch_lat_s: f64, credit_s: f64, parts_s: &[f64], tasks: u32) -> f64 {
    let slice_s = eq14(sch_lat_s, tasks);
    // A part that fills its slices to the last bit needs no further one.
    let slices = |part_s: f64| ((part_s - credit_s) / slice_s - 1e-6).ceil().max(1.0);
    parts_s.iter().map(|&part_s| (slices(part_s) - 1.0) * (f64::from(tasks) - 1.0) * slice_s).sum()
}
