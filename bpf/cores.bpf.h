/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Cores of several CPUs: what computes leaves a core that it shares for an idle one. User space says which CPUs are of one core.
 *
 * Problem: a task that wakes up takes an idle core, if there is one (near.bpf.h, and the kernel's own choice). One that never sleeps
 * wakes up once. If no core was idle then, it shares one for good, at half the pace, while others are idle.
 *
 * Rule: a plain task's turn ends, and nothing waits for its CPU. If another CPU of the core is at work then, and was the last time that a
 * turn ended so here, the task goes to an idle core: of its domain if there is one, else any.
 *
 * ops.dispatch() gives it no further turn, so the kernel queues it (SCX_OPS_ENQ_LAST), and ops.enqueue() puts it on the other core. If that
 * has got other work meanwhile, it is queued as any other task: a CPU that goes idle looks at the queues.
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

/* Whether @p, whose turn on @cpu ends and for which no other task waits, leaves the core. Not inside a program: it may not change its CPU. */
static __always_inline bool leaves_core(s32 cpu, struct cpu_ctx *cctx, struct task_struct *p)
{
	const struct cpumask *idle;
	s32 next = next_in_core[(u32)cpu % CPUS_MAX];
	bool is_shared, found;

	cctx->leaving_pid = 0;
	if (packs || next == cpu || p->nr_cpus_allowed == 1 || is_migration_disabled(p))
		return false;
	idle = scx_bpf_get_idle_cpumask();
	is_shared = !bpf_cpumask_test_cpu(next, idle);
	scx_bpf_put_idle_cpumask(idle);
	cctx->shared_turns = is_shared ? cctx->shared_turns + 1 : 0;
	if (!placement_leaves_core(cctx->shared_turns))
		return false;
	idle = scx_bpf_get_idle_smtmask();
	found = bpf_cpumask_intersects(idle, p->cpus_ptr);
	scx_bpf_put_idle_cpumask(idle);
	if (found)
		cctx->leaving_pid = p->pid;
	return found;
}

/* Puts @p on an idle core, if it was to leave its own. */
__noinline bool went_to_core(struct task_struct *p __arg_trusted, struct task_ctx *tctx __arg_nonnull)
{
	struct cpu_ctx *cctx = this_cpu_ctx();
	const struct cpumask *idle;
	s32 cpu;

	if (!cctx || cctx->leaving_pid != p->pid || is_migration_disabled(p))
		return false;
	cctx->leaving_pid = 0;
	cctx->shared_turns = 0;
	idle = scx_bpf_get_idle_smtmask();
	cpu = idle_cpu_of(p, domain_at(domain_of(scx_bpf_task_cpu(p))), idle);
	scx_bpf_put_idle_cpumask(idle);
	if (cpu < 0)
		cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, SCX_PICK_IDLE_CORE);
	cctx = cpu < 0 ? NULL : cpu_ctx_of(cpu);
	if (!cctx)
		return false;
	tctx->lane = plain_lane(p, tctx);
	/* Its clock is asked for there: from here it may not be. */
	note_plain(cpu, cctx, true);
	count_sched(CNT_CORES);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, slice_ns, 0);
	return true;
}

#endif
