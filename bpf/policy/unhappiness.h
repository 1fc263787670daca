/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Order inside the attended lane: who has been kept waiting longest.
 *
 * Problem: several requests want the CPU at once. Round robin makes all of them late; a fixed priority makes
 * one kind late always.
 *
 * Rule: the unhappiness of a request opened at t on which s nanoseconds of CPU were spent is
 *
 *	u(now) = (now - t) - s			(Customer Appeasement, section 2.2)
 *
 * and the unhappiest runs first. now is the same for all, so the order is that of the key t + s, smallest first;
 * the key stands still while a task waits, as a priority queue wants it.
 *
 * Limits: the key counts a request's age, not its waiting: a process that sleeps on purpose grows unhappy too.
 * So the age that counts is capped (@horizon_ns): beyond it all are equally old, and served time decides.
 * Service counts by weight: for weight w it counts 100 / w.
 */
#ifndef APPEASE_POLICY_UNHAPPINESS_H
#define APPEASE_POLICY_UNHAPPINESS_H

#include "types.h"

/* Opening time that counts, ns: not longer ago than the horizon. */
static inline u64 unhappiness_opened(u64 opened_ns, u64 now_ns, u64 horizon_ns)
{
	u64 oldest = now_ns > horizon_ns ? now_ns - horizon_ns : 0;

	return policy_before(opened_ns, oldest) ? oldest : opened_ns;
}

/* Key of a request, ns; the smallest runs first. A weight of 0 counts as 1. */
static inline u64 unhappiness_key(u64 opened_ns, u64 served_ns, u32 weight)
{
	if (weight == POLICY_WEIGHT_DEFAULT)
		return opened_ns + served_ns;
	return opened_ns + served_ns * POLICY_WEIGHT_DEFAULT / (weight ? weight : 1);
}

/* Unhappiness at @now_ns, ns; 0 when the request got more than it waited. For people to read. */
static inline u64 unhappiness_ns(u64 opened_ns, u64 served_ns, u64 now_ns)
{
	u64 key = opened_ns + served_ns;

	return policy_before(key, now_ns) ? now_ns - key : 0;
}

/*
 * Whether a task that wakes with @wakee_key takes the CPU from one that runs with @running_key. The margin keeps
 * two equals from taking it from each other all the time.
 */
static inline bool unhappiness_preempts(u64 wakee_key, u64 running_key, u64 margin_ns)
{
	return policy_before(wakee_key + margin_ns, running_key);
}

/*
 * For how long a request of @weight with @running_key keeps the CPU from a task that waits with @waiting_key, ns, at the least: its key comes
 * later by what it is served, and, if its age is capped, with time.
 */
static inline u64 unhappiness_keeps_ns(u64 waiting_key, u64 running_key, u64 margin_ns, u32 weight)
{
	u64 until = waiting_key + margin_ns;

	if (!policy_before(running_key, until))
		return 0;
	if (!weight)
		weight = 1;
	return (until - running_key) / (1 + (POLICY_WEIGHT_DEFAULT + weight - 1) / weight);
}

#endif
