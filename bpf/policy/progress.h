/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Steady progress: the other lane's order, for everybody whom nobody waits for; under policy steady, for all.
 *
 * Problem: what nobody waits for must still get on, predictably, whatever the attended lane does, and what a user
 * set with nice, or a cgroup's cpu.weight, must have its direct effect. Time-sharing classes that reward sleep take batch work
 * that forks and waits for somebody at a keyboard, and a display server with a backlog for batch work (SVR4 UNIX Scheduler
 * Unacceptable for Multimedia, section 5).
 *
 * Rule: weighted fair queueing by virtual time. A task that ran r nanoseconds at weight w is charged 1024 r / w;
 * the earliest deadline runs first: virtual time, and what it is likely to want now, of which a slice counts at most. That is the
 * average of what it wanted at its last wake-ups. A task that slept comes back at most @credit_ns (one slice; nothing for batch work)
 * behind the clock of the queue, so that it runs soon but cannot save up; and it takes the CPU from one whose deadline is later by
 * PROGRESS_MARGIN_NS. So who wants less than its part has it at once, first whoever wants the least, and who wants more has its part: a
 * display server with a backlog, too. (By virtual times alone a key waited behind a video's frame, whose player wants less than its
 * part as well.) What a child ran ahead of the clock when it ends is
 * its parent's debt, up to a slice, and a parent's debt is its new child's: who lets children do its work has no more than
 * who does it alone.
 *
 * A wake-up hands virtual time on: the woken task starts no farther behind than its waker. The
 * waker may run on before it sleeps. Its lead over the clock by then, or its last turn, is owed by the party, and the
 * next task that is woken or forked there takes it over. What nobody takes over within a slice, the clock forgives as it goes on.
 * So work that is passed from process to process gets the share of one process. With a credit of a
 * slice for each, a ring of 128 processes had 0.88 of a CPU beside 16 hogs.
 *
 * All this holds among the tasks of one party (policy/party.h).
 *
 * Beside it two guarantees:
 *
 *	share	in each epoch the lane gets its share of each CPU where it has work, and what it then did not get, in the
 *		next one: a turn whenever PROGRESS_PIECE_NS are due by the time that has passed, and the rest at the end.
 *		While it wants nothing, nothing becomes due;
 *	wait	a task that waited longer than the limit runs next, as long as such tasks have no more than PROGRESS_OVERDUE_PCT, or
 *		their party had less than those that wait in order.
 *
 * Both by pieces of a millisecond: who is served waits for one at a time. (With 10 ms at the end of each epoch, and up to 50 ms of overdue
 * tasks at its beginning, the 99th percentile of a database's transactions of 5 ms beside 30 compilers was 26 ms. With a part of
 * the epoch so far, whatever became overdue late in it came all at once: one customer beside a thousand waited 57 ms at times.)
 *
 * Kernel threads go before all lanes; past PROGRESS_KERNEL_PCT of an epoch they queue up like everybody.
 *
 * Limits: slices end at scheduler ticks, so a turn may be one tick too long (4 ms at 250 Hz). The second guarantee
 * holds for as many tasks as have room in that share of the limit.
 */
#ifndef APPEASE_POLICY_PROGRESS_H
#define APPEASE_POLICY_PROGRESS_H

#include "types.h"

/* Most CPU time that overdue tasks may take from attended ones, per cent. */
#define PROGRESS_OVERDUE_PCT 25U
/* So much of the share is due before a turn of it is, and so much have overdue tasks at a time, ns. */
#define PROGRESS_PIECE_NS 1000000ULL
/*
 * Turn of an overdue task in the lane itself, ns: 2,000 of them have one each in four seconds.
 * Turned up, a crowd waits longer; turned down, more of the CPU goes into switches.
 */
#define PROGRESS_TURN_NS 500000ULL
/* In so much time overdue tasks may have one piece, ns. */
#define PROGRESS_OVERDUE_NS (PROGRESS_PIECE_NS * 100 / PROGRESS_OVERDUE_PCT)
/* Most of an epoch that kernel threads may take at once, per cent. */
#define PROGRESS_KERNEL_PCT 75U

/* Weight of nice 0, and of a cgroup with cpu.weight 100. */
#define PROGRESS_WEIGHT_0 1024U
/* Who wakes up does not take the CPU from another for less, in virtual time, ns. */
#define PROGRESS_MARGIN_NS 1000000ULL
/* Who has run for less, in a row, is not displaced for wanting more; nor is one after another on a CPU, ns. */
#define PROGRESS_KEEP_NS 500000ULL
/* It does not give way. */
#define PROGRESS_KEEPS (~0ULL)
/* Weights of nice -20 to 19: each a quarter more than the next, as the kernel's own scheduler has them. */
static const u32 progress_weights[40] = {
	88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,
	9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277,
	1024, 820, 655, 526, 423, 335, 272, 215, 172, 137,
	110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
};

/* Weight of a task of @nice. */
static inline u32 progress_weight(s32 nice)
{
	u64 step = (u32)(nice + 20);

	return progress_weights[step < 40 ? step : 39];
}

/* Weight of a cgroup with @cpu_weight, 1 to 10,000. */
static inline u32 progress_group_weight(u32 cpu_weight)
{
	return cpu_weight * PROGRESS_WEIGHT_0 / 100;
}

/* Virtual time for @ran_ns at @weight, ns. */
static inline u64 progress_charge(u64 ran_ns, u32 weight)
{
	if (weight == PROGRESS_WEIGHT_0)
		return ran_ns;
	return ran_ns * PROGRESS_WEIGHT_0 / (weight ? weight : 1);
}

/* What a task is likely to want at its next wake-up, when it wanted @average_ns so far and @burst_ns at the last one, ns. */
static inline u64 progress_burst(u64 average_ns, u64 burst_ns)
{
	return average_ns / 4 * 3 + burst_ns / 4;
}

/*
 * Deadline of a task that is likely to want @burst_ns now. Not by its weight: one of little weight, whose slice is long in virtual time, would
 * run so far behind the clock that it would lose what it is owed when it queues up.
 */
static inline u64 progress_deadline(u64 vtime, u64 burst_ns, u64 slice_ns)
{
	return vtime + (burst_ns < slice_ns ? burst_ns : slice_ns);
}

/* Whether a task that wakes up takes the CPU from one that has come so far: at virtual times, or at deadlines. */
static inline bool progress_displaces(u64 wakee, u64 running)
{
	return policy_before(wakee + PROGRESS_MARGIN_NS, running);
}

/*
 * For how long one that has run for @ran_ns in a row keeps the CPU from one that wakes up, ns; 0: it gives way now. @since_ns ago somebody
 * last took that CPU so. Of many that wake each other, each would be displaced by the next: so nobody is who has just begun, but
 * for one that is behind, and for that only now and then. perf bench sched messaging took twice the instructions without
 * the one, and hackbench without the other. One that an interrupt wakes is not one of those: @is_called, it takes the CPU at once.
 * The 99th percentile of cyclictest beside four hogs was 0.43 ms without that, and is 0.01.
 */
static inline u64 progress_keeps_ns(u64 wakee_vtime, u64 wakee_deadline, u64 running_vtime, u64 running_deadline, u64 ran_ns,
				    u64 since_ns, bool is_called)
{
	bool is_behind = progress_displaces(wakee_vtime, running_vtime);

	if (!is_behind && !progress_displaces(wakee_deadline, running_deadline))
		return PROGRESS_KEEPS;
	if (is_called || ran_ns >= PROGRESS_KEEP_NS || (is_behind && since_ns >= PROGRESS_KEEP_NS))
		return 0;
	return PROGRESS_KEEP_NS - ran_ns;
}

/*
 * The clock after a task with @vtime has run for @ran_ns. It follows what runs, so that it goes on when nobody queues up;
 * but no faster than time does: a task of little weight, whose virtual time leaps, must not carry it away from the others.
 */
static inline u64 progress_clock(u64 queue_vtime, u64 vtime, u64 ran_ns)
{
	u64 latest = queue_vtime + ran_ns;

	if (!policy_before(queue_vtime, vtime))
		return queue_vtime;
	return policy_before(vtime, latest) ? vtime : latest;
}

/* Virtual time with which a task queues up that may have slept. */
static inline u64 progress_catch_up(u64 vtime, u64 queue_vtime, u64 credit_ns)
{
	u64 floor = queue_vtime - credit_ns;

	return policy_before(vtime, floor) ? floor : vtime;
}

/*
 * Virtual time of a task that is woken by one at @waker_vtime: no less than that, as far as that
 * is no more than a slice ahead of the clock.
 */
static inline u64 progress_handed_on(u64 vtime, u64 waker_vtime, u64 queue_vtime, u64 slice_ns)
{
	u64 latest = queue_vtime + slice_ns;

	if (policy_before(latest, waker_vtime))
		waker_vtime = latest;
	return policy_before(vtime, waker_vtime) ? waker_vtime : vtime;
}

/*
 * Where the clock stood when a debt was still whole that was left when it stood at @since. Only what the clock goes on beyond a
 * slice forgives: the next task mostly takes the debt over sooner, and its own lead does not shrink with the clock either. A ring
 * on four CPUs that passes work on before doing it had 1.16 of its part without that.
 */
static inline u64 progress_owed_since(u64 since, u64 queue_vtime, u64 slice_ns)
{
	u64 latest = queue_vtime - slice_ns;

	return policy_before(since, latest) ? latest : since;
}

/* Rest of that debt of @owed_ns now, ns. */
static inline u64 progress_owed_still(u64 owed_ns, u64 since, u64 queue_vtime, u64 slice_ns)
{
	u64 forgiven = progress_owed_since(since, queue_vtime, slice_ns) - since;

	return forgiven < owed_ns ? owed_ns - forgiven : 0;
}

/* Part of @owed_ns that a task at @vtime takes over, ns: up to a slice ahead of the clock. */
static inline u64 progress_takes_over(u64 vtime, u64 owed_ns, u64 queue_vtime, u64 slice_ns)
{
	u64 latest = queue_vtime + slice_ns, room = policy_before(vtime, latest) ? latest - vtime : 0;

	return owed_ns < room ? owed_ns : room;
}

/*
 * Debt that a task leaves, ns, which sleeps at @vtime and woke another one at @handed_vtime: what it is ahead of the clock since, and at least
 * its last turn, of @slice_ns at most. For the turns before it waited itself. For that one it did not, also where the clock is
 * ahead of it: the task that it woke has its place in the queue. (A ring whose members the clock had overtaken passed that place on for
 * nothing, and had 1.9 times its part on four CPUs with a cache each.)
 */
static inline u64 progress_leaves(u64 vtime, u64 handed_vtime, u64 queue_vtime, u64 slice_ns)
{
	u64 since = vtime - slice_ns;

	if (policy_before(queue_vtime, since))
		since = queue_vtime;
	if (policy_before(since, handed_vtime))
		since = handed_vtime;
	return policy_before(since, vtime) ? vtime - since : 0;
}

/* Virtual time of a new task: its parent's, as far as that is ahead of the clock, but by no more than a slice. */
static inline u64 progress_start(u64 parent_vtime, u64 queue_vtime, u64 slice_ns)
{
	u64 latest = queue_vtime + slice_ns;

	if (policy_before(parent_vtime, queue_vtime))
		return queue_vtime;
	return policy_before(latest, parent_vtime) ? latest : parent_vtime;
}

/*
 * Virtual time of a parent whose child has ended at @vtime: what the child was ahead of the clock is the parent's debt, up
 * to a slice in all. That it slept meanwhile saves nothing up.
 */
static inline u64 progress_inherit(u64 parent_vtime, u64 vtime, u64 queue_vtime, u64 slice_ns)
{
	u64 later = policy_before(parent_vtime, queue_vtime) ? queue_vtime : parent_vtime, latest = queue_vtime + slice_ns;

	if (!policy_before(queue_vtime, vtime))
		return parent_vtime;
	later += vtime - queue_vtime;
	if (policy_before(latest, later))
		later = latest;
	return policy_before(parent_vtime, later) ? later : parent_vtime;
}

/* What the lane must get of an epoch if it has work, ns. */
static inline u64 progress_share(u64 epoch_ns, u32 share_pct)
{
	return epoch_ns * share_pct / 100;
}

/*
 * What it must get of the next epoch, ns: what it is still owed of @share_ns is carried on, but no more than one epoch's
 * worth, and only if it has work: one that wants nothing saves nothing up.
 */
static inline u64 progress_next_share(u64 epoch_ns, u32 share_pct, u64 share_ns, u64 other_ns, bool has_work)
{
	u64 share = progress_share(epoch_ns, share_pct), owed = other_ns < share_ns ? share_ns - other_ns : 0;

	if (!has_work)
		return share;
	return share + (owed < share ? owed : share);
}

/*
 * What of @share_ns counts as had, ns, where the lane last wanted nothing at @rested_ns: what was due by then, if it had less.
 * (Else a daemon that woke up on an idle machine had all that had become due, up to 10 ms, before the key of that moment.)
 */
static inline u64 progress_had(u64 rested_ns, u64 epoch_start_ns, u64 epoch_ns, u64 other_ns, u64 share_ns)
{
	u64 passed = rested_ns - epoch_start_ns, due;

	if (!policy_before(epoch_start_ns, rested_ns))
		return other_ns;
	due = passed < epoch_ns ? share_ns * passed / epoch_ns : share_ns;
	return other_ns < due ? due : other_ns;
}

/*
 * What of its share the lane must get now, ns; 0: nothing yet. Called in when a piece is due by the time that has passed, or what is
 * left of the epoch is just enough for all of it.
 */
static inline u64 progress_owed(u64 now_ns, u64 epoch_start_ns, u64 epoch_ns, u64 other_ns, u64 share_ns)
{
	u64 passed = now_ns - epoch_start_ns, due;

	if (other_ns >= share_ns)
		return 0;
	if (passed >= epoch_ns || epoch_ns - passed <= share_ns - other_ns)
		return share_ns - other_ns;
	due = share_ns * passed / epoch_ns;
	return due >= other_ns + PROGRESS_PIECE_NS ? due - other_ns : 0;
}

/*
 * Until when the lane has had what overdue tasks may take, ns, after @ran_ns more of it up to now: a leaky bucket of one piece. What
 * it has while nobody attended wants the CPU is no more than a piece of debt.
 */
static inline u64 progress_overdue_until(u64 until_ns, u64 now_ns, u64 ran_ns)
{
	u64 earliest = now_ns - PROGRESS_OVERDUE_NS, latest = now_ns + PROGRESS_OVERDUE_NS;

	if (policy_before(until_ns, earliest))
		until_ns = earliest;
	until_ns += ran_ns * 100 / PROGRESS_OVERDUE_PCT;
	return policy_before(latest, until_ns) ? latest : until_ns;
}

/* Whether an overdue task may run now before attended ones. */
static inline bool progress_overdue_fits(u64 until_ns, u64 now_ns)
{
	return !policy_before(now_ns, until_ns);
}

/*
 * When an overdue task may go first again in the lane itself, ns, after one begins at @now_ns that might have begun at @due_ns. A turn of
 * PROGRESS_TURN_NS is their part of four times that. What others had in one turn, up to @slice_ns, is made up for by several of them in a row: with
 * one after each turn of 4 ms it is an eighth, and of 2,000 processes on a CPU one waited for 5.2 s on 6.18.15.
 */
static inline u64 progress_next_overdue(u64 due_ns, u64 now_ns, u64 slice_ns)
{
	u64 earliest = now_ns - slice_ns;

	if (policy_before(due_ns, earliest))
		due_ns = earliest;
	return due_ns + PROGRESS_TURN_NS * 100 / PROGRESS_OVERDUE_PCT;
}

/*
 * Whether a task that had waited for @waited_ns lost its turn, of @ran_ns: it was overdue, and had next to nothing of it. A timer's
 * interrupt may take all of a turn of half a millisecond. (Of 2,000 processes on a CPU, one then waited for all others once more,
 * for 9.9 s in all.)
 */
static inline bool progress_lost_turn(u64 waited_ns, u64 ran_ns, u64 limit_ns)
{
	return waited_ns >= limit_ns && ran_ns < PROGRESS_TURN_NS / 2;
}

/* Turn that lets @waiting tasks have one each in @time_ns, ns: PROGRESS_TURN_NS at least. */
static inline u64 progress_crowd_turn(u64 time_ns, u64 waiting)
{
	u64 turn_ns = time_ns / (waiting ? waiting : 1);

	return turn_ns < PROGRESS_TURN_NS ? PROGRESS_TURN_NS : turn_ns;
}

/* Whether kernel threads may still go before everybody. */
static inline bool progress_kernel_fits(u64 epoch_ns, u64 kernel_ns)
{
	return kernel_ns < epoch_ns * PROGRESS_KERNEL_PCT / 100;
}

#endif
