/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The clock that a CPU is asked to have, in parts of the highest one.
 *
 * Problem: a user waits for as long as the clock takes to rise, and what nobody waits for need not raise it.
 * Under sched_ext the kernel's governor, schedutil, goes by what the scheduler asks for, and by nothing else; asked for nothing, it
 * has the highest clock always.
 *
 * Rule: what somebody waits for has the highest clock at once. The rest has what it is used to, as under the kernel's own scheduler:
 * the part of the last epoch in which the CPU was busy. It has the highest once a task has computed for a whole slice, which the
 * kernel's average, with its half-life of 32 ms, would grant some hundred milliseconds later; and as long as work waits or runs when
 * an epoch ends. A part measured at a low clock is larger than it would be at a high one, so it raises the clock by itself. To save
 * power, the rest raises nothing.
 */
#ifndef APPEASE_POLICY_CLOCK_H
#define APPEASE_POLICY_CLOCK_H

#include "types.h"

/* The highest clock: SCX_CPUPERF_ONE. */
#define CLOCK_HIGHEST 1024U

/* The part of @elapsed_ns that a CPU was busy for @busy_ns. */
static inline u32 clock_use(u64 busy_ns, u64 elapsed_ns)
{
	/* More than 2^54 ns are 200 days. */
	if (busy_ns >= elapsed_ns || busy_ns >> 54)
		return CLOCK_HIGHEST;
	return busy_ns * CLOCK_HIGHEST / elapsed_ns;
}

/* What a CPU is asked for that does what nobody waits for. @use: see above; @computes: a task has used up a slice; @saves: power. */
static inline u32 clock_of_rest(u32 use, bool computes, bool saves)
{
	return saves ? 0 : computes ? CLOCK_HIGHEST : use;
}

#endif
