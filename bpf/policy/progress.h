/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The other lane: steady progress for everybody whom nobody waits for.
 *
 * Problem: what nobody waits for must still get on, predictably, whatever the attended lane does, and what a user
 * set with nice must have its direct effect.
 *
 * Rule: weighted fair queueing by virtual time. A task that ran r nanoseconds at weight w is charged 100 r / w;
 * the smallest virtual time runs first. A task that slept comes back at most one slice behind the clock of the
 * queue, so that it runs soon but cannot save up. Beside it two guarantees:
 *
 *	share	in each epoch the lane gets @share_pct of each CPU where it has work, if need be at the end of it;
 *	wait	a task that waited longer than the limit runs next, as long as such tasks together take no
 *		more than PROGRESS_OVERDUE_PCT of the epoch.
 *
 * Limits: slices end at scheduler ticks, so a turn may be one tick too long (4 ms at 250 Hz). The second guarantee
 * holds for as many tasks as have room in that share of the limit.
 */
#ifndef APPEASE_POLICY_PROGRESS_H
#define APPEASE_POLICY_PROGRESS_H

#include "types.h"

/* Most of an epoch that overdue tasks may take from attended ones, per cent. */
#define PROGRESS_OVERDUE_PCT 25U

/* Virtual time for @ran_ns at @weight, ns. */
static inline u64 progress_charge(u64 ran_ns, u32 weight)
{
	if (weight == POLICY_WEIGHT_DEFAULT)
		return ran_ns;
	return ran_ns * POLICY_WEIGHT_DEFAULT / (weight ? weight : 1);
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
static inline u64 progress_catch_up(u64 vtime, u64 queue_vtime, u64 slice_ns)
{
	u64 floor = queue_vtime - slice_ns;

	return policy_before(vtime, floor) ? floor : vtime;
}

/*
 * What of its share the lane must get now, ns; 0: nothing yet. The attended lane goes first in an epoch: the debt
 * is called in when what is left of the epoch is just enough for it.
 */
static inline u64 progress_owed(u64 now_ns, u64 epoch_start_ns, u64 epoch_ns, u64 other_ns, u32 share_pct)
{
	u64 share = epoch_ns * share_pct / 100;
	u64 left, owed;

	if (other_ns >= share)
		return 0;
	owed = share - other_ns;
	left = epoch_start_ns + epoch_ns - now_ns;
	return policy_before(now_ns, epoch_start_ns + epoch_ns) && left > owed ? 0 : owed;
}

/* Whether an overdue task may run now, before attended ones. */
static inline bool progress_overdue_fits(u64 epoch_ns, u64 other_ns)
{
	return other_ns < epoch_ns * PROGRESS_OVERDUE_PCT / 100;
}

#endif
