//! What nobody waits for: shares by nice value, `SCHED_IDLE` and `SCHED_BATCH`.

use anyhow::Result;

use super::{Verdicts, shares_of, task::Task, within};

/// The kernel's weights of nice values.
const WEIGHT_0: f64 = 1024.0;
const WEIGHT_5: f64 = 335.0;
const WEIGHT_19: f64 = 15.0;
/// How far ratios may be off, as parts of one: turns are of milliseconds, and some are cut by the ends of a window.
const TOLERANCE: f64 = 0.1;
/// The same where a share is some ten turns long, of which one may be cut.
const FEW_TURNS_TOLERANCE: f64 = 0.15;
/// Most that `SCHED_IDLE` may have beside others, per cent: a turn for each second that it waited.
const IDLE_MOST_PCT: f64 = 1.0;
/// Least that one has who is alone, per cent; the rest is the kernel's, and the checks'.
const ALONE_PCT: f64 = 95.0;
/// Half of a CPU, and some turns, per cent.
const HALF_MOST_PCT: f64 = 53.0;
/// One that sleeps for a quarter of its time: what it wants beside a hog, and how far from nothing it must be, per cent.
const NAP_MS: (u64, u64) = (3, 1);
const NAP_LEAST_PCT: f64 = 10.0;

const LONG_MS: u64 = 7000;
const SHORT_MS: u64 = 1500;
const ALONE_MS: u64 = 300;

pub fn check(verdicts: &mut Verdicts) -> Result<()> {
    let hog = Task::hog("nice -n 0")?;
    let idle = Task::hog("chrt --idle 0")?;
    {
        let (five, nineteen) = (Task::hog("nice -n 5")?, Task::hog("nice -n 19")?);
        let [all, some, little, nothing] = shares_of([&hog, &five, &nineteen, &idle], LONG_MS)?;
        let [low, high] = [1.0 - TOLERANCE, 1.0 + TOLERANCE].map(|part| part * WEIGHT_0 / WEIGHT_5);
        within(verdicts, "nice_0_to_5_ratio", all / some, low, high);
        let [low, high] =
            [1.0 - FEW_TURNS_TOLERANCE, 1.0 + FEW_TURNS_TOLERANCE].map(|part| part * WEIGHT_0 / WEIGHT_19);
        within(verdicts, "nice_0_to_19_ratio", all / little, low, high);
        within(verdicts, "idle_beside_others_pct", nothing, f64::MIN_POSITIVE, IDLE_MOST_PCT);
    }
    {
        let batch = Task::hog("chrt --batch 0")?;
        let [one, other] = shares_of([&hog, &batch], SHORT_MS)?;
        within(verdicts, "other_to_batch_ratio", one / other, 1.0 - TOLERANCE, 1.0 + TOLERANCE);
    }
    {
        let napper = Task::napper("chrt --batch 0", NAP_MS.0, NAP_MS.1)?;
        let [share] = shares_of([&napper], SHORT_MS)?;
        within(verdicts, "batch_that_sleeps_pct", share, NAP_LEAST_PCT, HALF_MOST_PCT);
    }
    drop(hog);
    let [share] = shares_of([&idle], ALONE_MS)?;
    within(verdicts, "idle_alone_pct", share, ALONE_PCT, 100.5);
    Ok(())
}
