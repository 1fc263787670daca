//! Native face of the policy arithmetic in `bpf/policy`: the same C code that the BPF objects run, so that property
//! tests and the simulator judge what the kernel executes. Times are nanoseconds.

mod sys {
    // All of the headers, also what only the kernel's side calls.
    #![allow(dead_code)]
    #![allow(missing_docs, non_upper_case_globals, non_camel_case_types, clippy::all, clippy::pedantic)]
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

mod confidence;
mod response;

pub use confidence::Candidates;
pub use response::{Among, End};
pub use sys::{
    CLOCK_HIGHEST, CONFIDENCE_ENTRIES, ELEVATION_BEST_NICE, ELEVATION_LOAD_1, ELEVATION_ROWS, FAIRNESS_ACTIVE_NS,
    FAIRNESS_CREDIT_NS, FAIRNESS_DEBT_NS, FAIRNESS_MARGIN_NS, HISTOGRAM_BUCKETS, HISTOGRAM_STEPS, HISTOGRAM_UNIT_SHIFT,
    LOAN_DECAY_PCT, PARTY_SCALE_1, PARTY_SCALE_MAX, PLACEMENT_CPU_LOOKS, PLACEMENT_DOMAIN_LOOKS, PLACEMENT_DUE_NS,
    PLACEMENT_FEW, PLACEMENT_LAG_NS, PLACEMENT_MOVE_NS, PLACEMENT_PARTY_TURNS, POLICY_WEIGHT_DEFAULT, PROGRESS_KEEP_NS,
    PROGRESS_KERNEL_PCT, PROGRESS_MARGIN_NS, PROGRESS_OVERDUE_NS, PROGRESS_OVERDUE_PCT, PROGRESS_PIECE_NS,
    PROGRESS_TURN_NS, PROGRESS_WEIGHT_0, QUOTA_KEPT_FROM_ADDRESSES, QUOTA_KEPT_FROM_USERS, RESPONSE_QUIET_NS,
    SHARE_ALPHA_PARTS, WAKER_LONGEST_NS,
};

/// Defines safe functions over the C ones of the same name.
macro_rules! native {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $kind:ty),*) -> $ret:ty;)*) => {
        $($(#[$doc])*
        #[must_use]
        pub fn $name($($arg: $kind),*) -> $ret {
            // SAFETY: pure integer arithmetic without pointers, defined for every argument.
            unsafe { sys::$name($($arg),*) }
        })*
    };
}

native! {
    /// Opening time that counts: not longer ago than the horizon.
    unhappiness_opened(opened_ns: u64, now_ns: u64, horizon_ns: u64) -> u64;
    /// Key of a request; the smallest runs first.
    unhappiness_key(opened_ns: u64, served_ns: u64, weight: u32) -> u64;
    /// Unhappiness now: age less service, at least 0.
    unhappiness_ns(opened_ns: u64, served_ns: u64, now_ns: u64) -> u64;
    /// Whether the holder of the first key displaces the holder of the second.
    unhappiness_preempts(wakee_key: u64, running_key: u64, margin_ns: u64) -> bool;
    /// For how long, at the least, the holder of the second key keeps the CPU from the holder of the first.
    unhappiness_keeps_ns(waiting_key: u64, running_key: u64, margin_ns: u64, weight: u32) -> u64;
    /// Weight of a task by its nice value.
    progress_weight(nice: i32) -> u32;
    /// Weight of a cgroup by its `cpu.weight`.
    progress_group_weight(cpu_weight: u32) -> u32;
    /// The part of a time that a CPU was busy for, of [`CLOCK_HIGHEST`].
    clock_use(busy_ns: u64, elapsed_ns: u64) -> u32;
    /// The clock that a CPU is asked for which does what nobody waits for.
    clock_of_rest(used: u32, computes: bool, saves: bool) -> u32;
    /// For how long a waker usually goes on, after another such time.
    waker_usual(usual_ns: u32, went_ns: u64) -> u32;
    /// For how long an attended task waits for the CPU of such a waker, before another one is interrupted.
    waker_stay(usual_ns: u32) -> u64;
    /// Periods of a limit that are over.
    limit_periods(since_ns: u64, now_ns: u64, period_ns: u64) -> u64;
    /// What is in a limit's bucket after that many periods.
    limit_refill(left_ns: i64, periods: u64, quota_ns: u64, burst_ns: u64) -> i64;
    /// Scale of a party, one cgroup further up.
    party_scale(scale: u64, sum: u64, weight: u32) -> u64;
    /// What CPU time adds to the virtual time of a party.
    party_charge(ran_ns: u64, scale: u64) -> u64;
    /// The nth nearest domain of one.
    placement_near(home: u32, nth: u32) -> u32;
    /// Which of a domain's CPUs a look goes to, by turns.
    placement_turn(first: u32, nth: u32, cpus: u32) -> u32;
    /// Whether a task that is queued goes to a domain that has less to do.
    placement_leaves(wakes_up: bool, gives: u32) -> bool;
    /// Whether a task may leave a domain: so many of its party wait there, and so many of the party of which most do.
    placement_spares(waiting: u32, most: u32) -> bool;
    /// How far a party is behind and keeps what it lacks, on so many CPUs.
    placement_party_lag(slice_ns: u64, cpus: u32) -> u64;
    /// Whether a task that has waited since then goes to an idle CPU of another domain.
    placement_moves(queued_ns: u64, now_ns: u64) -> bool;
    /// Whether a task leaves a core that so many ends of turns in a row found shared.
    placement_leaves_core(shared_turns: u32) -> bool;
    /// Tasks that a domain has beyond its part.
    placement_excess(waiting: u32, cpus: u32, online: u32, here: u32) -> u32;
    /// Tasks that it lacks of its part.
    placement_room(waiting: u32, cpus: u32, online: u32, here: u32) -> u32;
    /// Whether a party of a domain is due in another one, by their clocks.
    placement_is_due(there: u64, here: u64, domains: u32) -> bool;
    /// The other domain at which one looks by chance.
    placement_other(here: u32, chance: u32, domains: u32) -> u32;
    /// Whether a task of another domain goes before one of a party here, by their deadlines.
    placement_goes_before(there: u64, here: u64, due_ns: u64) -> bool;
    /// A time that holds for few domains, with so many.
    placement_scaled(ns: u64, domains: u32) -> u64;
    /// Virtual time with which a task queues up that may be far ahead of its domain.
    placement_ahead(vtime: u64, queue_vtime: u64, most_ns: u64) -> u64;
    /// Up to which clock a domain is moved that lags behind the foremost.
    placement_least_clock(foremost: u64, domains: u32) -> u64;
    /// Virtual time with which a task queues up that another one wakes.
    progress_handed_on(vtime: u64, waker_vtime: u64, queue_vtime: u64, slice_ns: u64) -> u64;
    /// What is still owed.
    progress_owed_still(owed_ns: u64, since: u64, queue_vtime: u64, slice_ns: u64) -> u64;
    /// Where the clock stood when that debt was still whole.
    progress_owed_since(since: u64, queue_vtime: u64, slice_ns: u64) -> u64;
    /// What one takes over of that.
    progress_takes_over(vtime: u64, owed_ns: u64, queue_vtime: u64, slice_ns: u64) -> u64;
    /// What one that sleeps leaves to be owed.
    progress_leaves(vtime: u64, handed_vtime: u64, queue_vtime: u64, slice_ns: u64) -> u64;
    /// Turn of each of a crowd.
    progress_crowd_turn(time_ns: u64, waiting: u64) -> u64;
    /// What a task is likely to want at its next wake-up.
    progress_burst(average_ns: u64, burst_ns: u64) -> u64;
    /// Deadline of a task by what it is likely to want.
    progress_deadline(vtime: u64, burst_ns: u64, slice_ns: u64) -> u64;
    /// Whether who wakes up takes the CPU from who has it, by virtual times or deadlines.
    progress_displaces(wakee: u64, running: u64) -> bool;
    /// For how long one that runs keeps the CPU from one that wakes up, by both, ns; all ones: it does not give way.
    progress_keeps_ns(
        wakee_vtime: u64, wakee_deadline: u64, running_vtime: u64, running_deadline: u64, ran_ns: u64, since_ns: u64, is_called: bool
    ) -> u64;
    /// Virtual time for CPU time at a weight.
    progress_charge(ran_ns: u64, weight: u32) -> u64;
    /// The clock of the queue after a task has run.
    progress_clock(queue_vtime: u64, vtime: u64, ran_ns: u64) -> u64;
    /// Virtual time with which a task queues up that may have slept.
    progress_catch_up(vtime: u64, queue_vtime: u64, slice_ns: u64) -> u64;
    /// Virtual time of a new task.
    progress_start(parent_vtime: u64, queue_vtime: u64, slice_ns: u64) -> u64;
    /// Virtual time of a parent whose child has ended at `vtime`.
    progress_inherit(parent_vtime: u64, vtime: u64, queue_vtime: u64, slice_ns: u64) -> u64;
    /// What counts as had of a share by a lane that last wanted nothing at `rested_ns`.
    progress_had(rested_ns: u64, epoch_start_ns: u64, epoch_ns: u64, other_ns: u64, share_ns: u64) -> u64;
    /// What of its share the other lane must get now.
    progress_owed(now_ns: u64, epoch_start_ns: u64, epoch_ns: u64, other_ns: u64, share_ns: u64) -> u64;
    /// What the other lane must get of an epoch.
    progress_share(epoch_ns: u64, share_pct: u32) -> u64;
    /// What it must get of the next epoch.
    progress_next_share(epoch_ns: u64, share_pct: u32, share_ns: u64, other_ns: u64, has_work: bool) -> u64;
    /// Whether kernel threads may still go before everybody.
    progress_kernel_fits(epoch_ns: u64, kernel_ns: u64) -> bool;
    /// Until when a lane has had what overdue tasks may take.
    progress_overdue_until(until_ns: u64, now_ns: u64, ran_ns: u64) -> u64;
    /// When an overdue task may go first again in the lane itself.
    progress_next_overdue(due_ns: u64, now_ns: u64, slice_ns: u64) -> u64;
    /// Whether an overdue task may run before attended ones.
    progress_overdue_fits(until_ns: u64, now_ns: u64) -> bool;
    /// Whether a communication belongs to an activation.
    confidence_within(access_ns: u64, activated_ns: u64, delta_ns: u64) -> bool;
    /// CPU time up to which a request counts, for who gets it by its terminal.
    budget_limited(until_ns: u64, served_ns: u64, quiet_ns: u64) -> u64;
    /// The same, after an answer.
    budget_extended(until_ns: u64, served_ns: u64, quiet_ns: u64, budget_ns: u64) -> u64;
    /// Whether a customer may have one more request open.
    quota_allows(open: u32, taken: u32, all: u32, kept_of: u32) -> bool;
    /// The kernel's `avenrun[0]` for hundredths of a load.
    elevation_avenrun(hundredths: u64) -> u64;
    /// Row of Table 1 for that.
    elevation_row(avenrun: u64) -> u32;
    /// Largest `avenrun[0]` of a row.
    elevation_most_load(row: u32) -> u64;
    /// Nice levels by which a read from a unix socket raises.
    elevation_unix(row: u32) -> u32;
    /// The same from a network socket.
    elevation_network(row: u32) -> u32;
    /// Time after which a level is lost; 0: all at once.
    elevation_delay_ns(row: u32) -> u64;
    /// Levels that are lost after some time.
    elevation_lost(passed_ns: u64, delay_ns: u64) -> u64;
    /// Levels that are left after some time.
    elevation_left(levels: u32, passed_ns: u64, delay_ns: u64) -> u32;
    /// A nice value, so many levels better.
    elevation_nice(base: i32, levels: u32) -> i32;
    /// Whether nobody has worked on a request lately.
    response_is_quiet(opened_ns: u64, served_at_ns: u64, now_ns: u64) -> bool;
    /// What a process keeps of its share when it asks another one.
    share_kept(share_ns: i64, alpha_parts: u32) -> i64;
    /// A process's share at some time.
    share_now(share_ns: i64, since_ns: u64, now_ns: u64) -> i64;
    /// A request's unhappiness by its weight.
    share_weighted(sum_ns: i64, weight: u32) -> i64;
    /// Unhappiness of a new process.
    share_of_newcomer(made_ns: u64, got_ns: u64, now_ns: u64) -> i64;
    /// Weight of a request by those of its customer and its channel.
    request_weight(of_customer: u32, of_channel: u32) -> u32;
    /// Virtual time of a customer who wants something.
    fairness_catch_up(vtime: u64, clock: u64) -> u64;
    /// What CPU time adds to a customer's virtual time.
    fairness_charge(ran_ns: u64, weight: u64) -> u64;
    /// The clock when a customer goes next.
    fairness_clock(clock: u64, vtime: u64) -> u64;
    /// Whether a customer had less than its part.
    fairness_is_modest(vtime: u64, clock: u64) -> bool;
    /// Whether a customer takes the CPU from another one.
    fairness_preempts(wakee_vtime: u64, running_vtime: u64) -> bool;
    /// Bucket of a time.
    histogram_bucket(ns: u64) -> u32;
    /// Shortest time of a bucket.
    histogram_floor(bucket: u32) -> u64;
    /// Exponent of the largest power of two in a value that is not 0.
    histogram_log2(value: u64) -> u32;
    /// A debt after some time.
    loan_debt(debt_ns: u64, passed_ns: u64) -> u64;
    /// Whether somebody in debt is lent another turn.
    loan_granted(debt_ns: u64, limit_ns: u64) -> bool;
}
