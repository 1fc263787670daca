/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Parties: the shares of the other lane.
 *
 * Problem: fair queueing of tasks gives more to a program that runs more of them. The kernel
 * answers with cgroups, whose tasks have one share together. Without a cgroup of its own, a
 * computation that a user waits for has a seventeenth of the CPU beside sixteen hogs.
 *
 * Rule: start-time fair queueing (Goyal, Vin and Cheng, 1996) in two stages. A party is the set of
 * tasks that run directly in one cgroup. The tasks of that cgroup that work for a customer, on a
 * request beyond its budget (policy/budget.h), are a party of their own. Each party has a virtual
 * time, and the smallest goes next. Inside the party the order is that of policy/progress.h.
 * A run of r nanoseconds adds r times the scale of the party:
 *
 *	scale = M / w * product over the cgroups above of (S / W)
 *
 *	W	cpu.weight of the cgroup
 *	S	sum of the weights of its siblings that want the CPU, itself included; left out at the
 *		top, where it is the same for all
 *	w	weight of the party in its own cgroup: a customer's, and 1 for the tasks that work for none
 *	M	sum of these weights in that cgroup, of those that want the CPU
 *
 * The root's own tasks count like cgroups of weight 100, one each, as under the kernel's scheduler.
 * A party that was idle comes back at most one slice behind the clock, and one that cpu.max kept
 * from running not behind it. The clock is the smallest virtual time that waited when a party was
 * last chosen. While none waits, it goes with the party that runs: what that one has then, it takes
 * from nobody.
 *
 * A cgroup has a virtual time as a whole, too: what a task below it runs adds as much as if all of it were one party (the product
 * alone, without M / w). No party goes farther behind that than CPUs have in PARTY_TURNS, nor than that of a cgroup farther up. Else
 * groups of one's own that want the CPU by turns had, each time, what a group that slept comes back with: a ring of 16 had 1.46
 * times its part, 16 that slept for most of the time 1.66 times, and a task that moves between two 1.16 times.
 *
 * So a request beyond its budget gets the share of a cgroup of its own, or as many as its customer's
 * weight says. And a crowd of threads in one cgroup keeps a single thread of the next one waiting for
 * one turn.
 *
 * Designs that failed: weights in the virtual times of tasks alone let a thousand threads have a
 * turn each, three seconds in all, before the single one ran again. With the virtual time of the
 * chosen party as the clock, four CPUs that chose the same party carried the clock away.
 *
 * Limits: S and M come from the last count, which is up to a tenth of a second old; so a cgroup as a whole keeps what it lacks for
 * that long, also one that slept. Tasks of the root count alike, whatever their nice values, by the part of that time in which they
 * want the CPU.
 */
#ifndef APPEASE_POLICY_PARTY_H
#define APPEASE_POLICY_PARTY_H

#include "progress.h"

/* A scale of 1: a nanosecond of CPU time adds a nanosecond. */
#define PARTY_SCALE_1 65536ULL
/* The largest scale. Turned up, PARTY_RAN_MAX_NS must go down, or products would not fit. */
#define PARTY_SCALE_MAX (1ULL << 32)
/* Most CPU time that is charged at once, ns: with the largest scale it fits a word. */
#define PARTY_RAN_MAX_NS ((1ULL << 31) - 1)

/* How old the last count may be, ns: for as long it weighs a cgroup too much, or too little. */
#define PARTY_COUNT_NS 100000000ULL
/* Turns of each CPU by which a party may be behind its cgroup: one that runs is charged at its end, when the next one was chosen. */
#define PARTY_TURNS 2U

/* @scale, one cgroup further up: a cgroup of @weight among siblings of @sum, itself included. */
static inline u64 party_scale(u64 scale, u64 sum, u32 weight)
{
	if (scale > PARTY_SCALE_MAX)
		scale = PARTY_SCALE_MAX;
	if (sum > 1ULL << 31)
		sum = 1ULL << 31;
	scale = scale * sum / (weight ? weight : 1);
	if (!scale)
		return 1;
	return scale < PARTY_SCALE_MAX ? scale : PARTY_SCALE_MAX;
}

/* Virtual time that @ran_ns add to a party of @scale, ns. */
static inline u64 party_charge(u64 ran_ns, u64 scale)
{
	if (scale == PARTY_SCALE_1)
		return ran_ns;
	if (ran_ns > PARTY_RAN_MAX_NS)
		ran_ns = PARTY_RAN_MAX_NS;
	if (scale > PARTY_SCALE_MAX)
		scale = PARTY_SCALE_MAX;
	return ran_ns * scale / PARTY_SCALE_1;
}

/* Virtual time of a cgroup as a whole, which came to @vtime, when one of its tasks queues up where the clock stands at @clock. */
static inline u64 party_whole(u64 vtime, u64 clock)
{
	return progress_catch_up(vtime, clock, PARTY_COUNT_NS);
}

/* Virtual time of a party at @vtime in a cgroup that has come to @whole. */
static inline u64 party_floor(u64 vtime, u64 whole, u64 slice_ns, u32 cpus)
{
	return progress_catch_up(vtime, whole, PARTY_TURNS * slice_ns * cpus);
}

#endif
