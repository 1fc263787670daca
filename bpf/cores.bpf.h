/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Cores of several CPUs: what computes leaves a core that it shares for an idle one. User space says which CPUs are of one core.
 *
 * Problem: a task that wakes up takes an idle core, if there is one (near.bpf.h, and the kernel's own choice). One that never sleeps
 * wakes up once. If no core was idle then, it shares one for good, at half the pace, while others are idle.
 *
 * Rule: when a plain task's turn ends, nothing waits for its CPU, and another CPU of the core was at work at the end of the last turn as well as
 * now, the task goes to an idle core: of its domain if there is one, else any.
 *
 * Limits: of a core's other CPUs the next one is asked alone. A task that shares its core with one that is often asleep stays.
 */
#ifndef APPEASE_CORES_BPF_H
#define APPEASE_CORES_BPF_H

#include "near.bpf.h"

/* Some cores have several CPUs. */
const volatile bool is_smt;
/* The next CPU of the same core, after the last one the first. */
const volatile u16 next_in_core[CPUS_MAX];

/* Ends of turns in a row that found the core shared, before a task leaves it. Turned down, what wakes up beside it for a moment moves it. */
#define CORE_SHARED_TURNS 2

/* Whether @p, whose turn on @cpu ends and for which no other task waits, leaves the core. */
static __always_inline bool leaves_core(s32 cpu, struct cpu_ctx *cctx, struct task_struct *p)
{
	const struct cpumask *idle;
	s32 next = next_in_core[(u32)cpu % CPUS_MAX];
	bool is_shared, found;

	if (packs || next == cpu || p->nr_cpus_allowed == 1)
		return false;
	idle = scx_bpf_get_idle_cpumask();
	is_shared = !bpf_cpumask_test_cpu(next, idle);
	scx_bpf_put_idle_cpumask(idle);
	cctx->shared_turns = is_shared ? cctx->shared_turns + 1 : 0;
	if (cctx->shared_turns < CORE_SHARED_TURNS)
		return false;
	idle = scx_bpf_get_idle_smtmask();
	found = bpf_cpumask_intersects(idle, p->cpus_ptr);
	scx_bpf_put_idle_cpumask(idle);
	return found;
}

/* Puts @p, which leaves its core, on an idle one. If that has got other work, it goes on here. */
__noinline int go_to_core(struct task_struct *p __arg_trusted, struct task_ctx *tctx __arg_nonnull)
{
	const struct cpumask *idle = scx_bpf_get_idle_smtmask();
	s32 cpu = idle_cpu_of(p, domain_at(domain_of(scx_bpf_task_cpu(p))), idle);
	struct cpu_ctx *cctx = this_cpu_ctx();

	scx_bpf_put_idle_cpumask(idle);
	if (cpu < 0)
		cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, SCX_PICK_IDLE_CORE);
	if (cctx)
		cctx->shared_turns = 0;
	if (cpu < 0)
		cpu = scx_bpf_task_cpu(p);
	else
		count_sched(CNT_CORES);
	begins(cpu, tctx, false);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, slice_ns, 0);
	return 0;
}

#endif
