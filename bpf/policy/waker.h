/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * For how long an attended task waits for the CPU that woke it, before another CPU is interrupted for it.
 *
 * Problem: the way of a key leads through the X server, a terminal and a shell, each of which wakes the next one and soon sleeps.
 * Interrupted at once, other CPUs are disturbed in vain, and the data is in another cache. With a waker that works on, the task waits in vain.
 * By traces of keys beside four hogs a CPU, wakers on four CPUs that share one clock go on for 5 to 60 microseconds, and an interrupted
 * CPU takes 20 to 90 to begin; with more such CPUs both take longer, and after 50 microseconds most were interrupted.
 *
 * Rule: the task waits for a waker that soon sleeps: usually, after such a wake-up, within the time for which one keeps the CPU from
 * another in the lane of the rest, PROGRESS_KEEP_NS. It waits for twice that. A waker that usually goes on for longer is not waited for.
 */
#ifndef APPEASE_POLICY_WAKER_H
#define APPEASE_POLICY_WAKER_H

#include "progress.h"

/* What is more tells no more of how long a waker goes on; and so long it is waited for, ns. */
#define WAKER_LONGEST_NS (2 * PROGRESS_KEEP_NS)
/* For a task that an interrupt woke: the current task is not its waker. On one CPU, also what a waker has left to go to sleep, see keeps_waker(). */
#define WAKER_STAY_NS 50000ULL

/* What a waker usually goes on for, ns: a fourth of it is the last time. */
static inline u32 waker_usual(u32 usual_ns, u64 went_ns)
{
	u64 went = went_ns < WAKER_LONGEST_NS ? went_ns : WAKER_LONGEST_NS;

	return usual_ns - usual_ns / 4 + went / 4;
}

/* For how long a task waits for one that usually goes on for @usual_ns, ns; 0: not at all. */
static inline u64 waker_stay(u32 usual_ns)
{
	return usual_ns <= PROGRESS_KEEP_NS ? WAKER_LONGEST_NS : 0;
}

#endif
