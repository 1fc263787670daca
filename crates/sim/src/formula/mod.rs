//! Eq. 6 to 27 of Customer Appeasement Scheduling (TR-10-18), as printed, and what they should be where they are wrong.
//!
//! All are about one machine with one CPU and one customer, whose request finds N - 1 tasks that never sleep, so that N
//! want the CPU with the one that serves it; α = 0. Times are seconds, as in the paper. Functions named `eqN` are the
//! paper's; the others follow from section 2.2: unhappiness is the time since the request came less the CPU time spent on it,
//! which for an answered request is the time in which nobody who served it had the CPU. [`FINDINGS`] says of each
//! equation what is to be thought of it; `tests/formulas.rs` has the counterexamples.

mod cfs;
mod feedback;
mod rbpe;
mod round_robin;

pub use cfs::{cfs_unhappiness, eq14, eq15, eq16, eq17, eq18, eq24, eq26};
pub use feedback::{eq10, eq11, eq12, eq13, feedback_unhappiness, last_queue};
pub use rbpe::{Elevated, eq19, eq20, eq21, eq22, eq23, eq25, eq27, rbpe_unhappiness, turns};
pub use round_robin::{eq6, eq7, eq8, eq9, round_robin_unhappiness};

/// What is to be thought of an equation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It holds under its assumptions.
    Holds,
    /// It is met in the worst case, or where its assumptions hold to the letter, and is a bound elsewhere.
    Bound,
    /// It contradicts section 2.2, or itself.
    Wrong,
}

/// What is to be thought of which equation, and why.
#[derive(Debug, Clone, Copy)]
pub struct Finding {
    /// Its number.
    pub equation: &'static str,
    /// In one word.
    pub verdict: Verdict,
    /// In some sentences, with the counterexample.
    pub why: &'static str,
}

const fn finding(equation: &'static str, verdict: Verdict, why: &'static str) -> Finding {
    Finding { equation, verdict, why }
}

/// All equations of the analysis.
pub const FINDINGS: [Finding; 16] = [
    finding(
        "6",
        Verdict::Wrong,
        "It takes the CPU time of all quanta but the last off the time spent waiting, not off the time since the request came, \
         in which that CPU time is contained: it counts twice. By section 2.2 the answer comes with Z (N - 1) q. Both agree at \
         Z = 1. Counterexample: N = 2, Z = 2, q = 10 ms gives 10 ms; the request waits for two quanta of the other task, 20 ms.",
    ),
    finding(
        "7",
        Verdict::Wrong,
        "Three times eq. 6, and as much too small in each part. N = 2, Z = 2, 2, 2, q = 10 ms: 30 ms; 60 ms are right.",
    ),
    finding(
        "8",
        Verdict::Wrong,
        "Called the minimum, it is eq. 6 again, which the text before it calls the maximum. Where it agrees with section 2.2 \
         (Z = 1) it is an upper bound: a request that comes near the end of a running quantum waits for up to one quantum less. \
         N = 4, Z = 1, q = 10 ms: 30 ms, but 20 ms and a bit when the running task is about to be replaced.",
    ),
    finding("9", Verdict::Wrong, "Eq. 7 again."),
    finding(
        "10",
        Verdict::Wrong,
        "Counts CPU time twice, as eq. 6. Its a_i must be counted when the request's process comes to queue i, itself \
         included; the text has them at the beginning. Those ahead of it in queue 0 sink to queue 1 before it, and are ahead \
         again. N = 2 newcomers, Z = 3, q = 10 ms: with a = 2, 1 as at the beginning it gives 0; with a = 2, 2 it gives 20 ms; \
         the process waits for 10 + 20 ms.",
    ),
    finding(
        "11",
        Verdict::Bound,
        "The queue in which the last bit of work is done, where Z + 1 is a power of two; else it must be rounded up. Z = 2: \
         0.58, and queue 1 is right.",
    ),
    finding(
        "12",
        Verdict::Wrong,
        "Does not follow from eq. 10: the second sum there is 2^x - 1, here it is 2^x. Among tasks that sank long ago (all \
         a_i = 1) it gives -2^x q, an unhappiness below zero, where the request never waits.",
    ),
    finding(
        "13",
        Verdict::Wrong,
        "Three times eq. 12. And its Z are called seconds, but are used as numbers of quanta.",
    ),
    finding(
        "14 to 16",
        Verdict::Bound,
        "Slices by weight, up to eight tasks: beyond, the kernel stretches sch_lat to 0.75 ms for each. Its weights differ from \
         powers of 1.25 by up to 2.4 %, since they are whole numbers.",
    ),
    finding(
        "17, 20",
        Verdict::Holds,
        "A process that slept for long displaces the running one at once, and is done before its slice is over.",
    ),
    finding(
        "18",
        Verdict::Wrong,
        "τ / q (N - 1) is a number of slices, from which a time is taken: what comes out depends on whether one reckons in \
         seconds or in milliseconds. With the factor q that is missing, it still counts CPU time twice. By section 2.2 it is \
         (N - 1)(τ - 3 q) for whole slices. N = 4, each part one slice of 1.5 ms: nobody waits, and eq. 18 gives -4.5 ms. \
         The kernel lets who slept go on for half a sch_lat before others have their first turn, so there it is a bound.",
    ),
    finding(
        "19",
        Verdict::Holds,
        "Slices where one of N tasks has a better nice value. As the paper says, no smaller than sch_lat / N.",
    ),
    finding(
        "21, 23",
        Verdict::Wrong,
        "The second sums lack sch_lat, so they have no unit, and leave the first and largest turn out (i = 1, not 0); and they \
         are taken off a waiting time that does not contain them. The first sums alone are right, if the process loses one \
         level each turn. With d no longer than its slice, as assumed, it loses more: a turn comes every sch_lat.",
    ),
    finding(
        "22",
        Verdict::Wrong,
        "For Z = 1, a request that is done in its first turn, it says that this took no time at all.",
    ),
    finding(
        "24, 25",
        Verdict::Bound,
        "Sufficient, not necessary: with N = 6, a process that slept gets 3 ms in a row, where eq. 24 promises 1 ms.",
    ),
    finding(
        "26, 27",
        Verdict::Wrong,
        "Eq. 26 is eq. 18 with sch_lat / N replaced by sch_lat: N = 4, τ = 12 ms, sch_lat = 6 ms have -15 there and 3 here, if one \
         reckons in milliseconds. The conclusion, that CFS/RBPE has less unhappiness than CFS, does not follow: \
         for N = 4, τ = 6 ms eq. 26 gives -12, and eq. 27 never less than -6. By section 2.2 it holds when only those who \
         serve the request are elevated. When the others read sockets, too, weights cancel, and what is left comes from the \
         credit of sleepers, which is virtual time: the heavier a task, the more CPU time it makes of it.",
    ),
];
