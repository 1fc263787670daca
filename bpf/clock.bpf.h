/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Asks for the clock of CPUs, by what they run (policy/clock.h); and, to save power, keeps what nobody waits for on few of them.
 *
 * A CPU is told when what it runs changes, and only then: most of all desktops and servers run what computes, which has the
 * highest clock as well. The kernel's own limit (rate_limit_us of schedutil) applies.
 *
 * Packing: a plain task that wakes up takes the first CPU of its domain that is idle, or is at plain work. The latter goes on to it when its
 * task sleeps or has had its turn. Once plain tasks have waited for as long as a turn without a pause, the next CPU is asked. So none
 * waits for much longer than a turn, and idle CPUs stay idle until they are needed. What somebody waits for is not packed, nor what is new.
 */
#ifndef APPEASE_CLOCK_BPF_H
#define APPEASE_CLOCK_BPF_H

#include "policy/clock.h"
#include "tasks.bpf.h"

/* Whether anything follows what we ask for, and what it is to be: enum appease_clock. */
const volatile u32 clock_by = APPEASE_CLOCK_LEFT;
/* Whether plain tasks are packed. */
const volatile bool packs;

/*
 * @cpu is to run what somebody waits for, or, if @is_plain, what nobody does. In a callback for which the kernel holds a CPU's lock,
 * @cpu must be that one.
 */
static __always_inline void ask_clock(s32 cpu, struct cpu_ctx *cctx, bool is_plain)
{
	u32 wanted;

	if (clock_by == APPEASE_CLOCK_LEFT)
		return;
	wanted = is_plain ? clock_of_rest(cctx->use, cctx->computes, clock_by == APPEASE_CLOCK_SAVES) : CLOCK_HIGHEST;
	/* A CPU has the highest clock when the scheduler is attached. */
	if (CLOCK_HIGHEST - wanted == cctx->clock_lacks)
		return;
	cctx->clock_lacks = CLOCK_HIGHEST - wanted;
	count_sched(CNT_CLOCK);
	scx_bpf_cpuperf_set(cpu, wanted);
}

/* @tctx's task used up its slice. */
static __always_inline void note_computes(struct cpu_ctx *cctx, const struct task_ctx *tctx)
{
	if (clock_by == APPEASE_CLOCK_BY_USE && tctx->turn_ns >= slice_ns)
		cctx->computes = 1;
}

/* An epoch of @elapsed_ns is over. */
static __always_inline void note_use(struct cpu_ctx *cctx, u64 elapsed_ns)
{
	u64 busy = 0;
	u32 i;

	if (clock_by != APPEASE_CLOCK_BY_USE)
		return;
	for (i = 0; i < APPEASE_NR_LANES; i++)
		busy += cctx->lane_ns[i];
	cctx->use = clock_use(busy - cctx->busy_ns, elapsed_ns);
	cctx->busy_ns = busy;
}

#endif
