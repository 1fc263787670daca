/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The other lane: when a task that wakes up displaces the one that runs (progress_keeps_ns() in policy/progress.h).
 */
#ifndef APPEASE_DISPLACE_BPF_H
#define APPEASE_DISPLACE_BPF_H

#include "near.bpf.h"

/*
 * For how long @curr keeps the CPU of @cctx from a task that wakes up, that of @wakee, ns; an interrupt woke it: @is_called. Tasks of
 * two parties compare by the parties' virtual times.
 */
static __always_inline u64 keeps_from(struct task_struct *curr, const struct task_ctx *tctx, const struct cpu_ctx *cctx,
				      const struct task_ctx *wakee, u64 now, bool is_called)
{
	u64 vtime = wakee->vtime, deadline = deadline_of(wakee);
	u64 ran = ran_since(curr, tctx, now), running = tctx->vtime + vtime_for(curr, ran);
	struct party *wakee_party, *party;

	if (tctx->party != wakee->party) {
		wakee_party = try_party(wakee->party);
		party = try_party(tctx->party);
		if (!wakee_party || !party)
			return PROGRESS_KEEPS;
		deadline += wakee_party->vtime - vtime;
		vtime = wakee_party->vtime;
		running = party->vtime + party_charge(ran, party->scale);
	}
	return progress_keeps_ns(vtime, deadline, running, progress_deadline(running, tctx->burst_ns, slice_ns), ran,
				 now - cctx->displaced_ns, is_called);
}

/* Whether a task that wakes up takes @cpu at once; @wakee is its context. If later, and @is_own, a timer does. */
__noinline bool displaces_on(s32 cpu, const struct task_ctx *wakee __arg_nonnull, u64 now, bool is_called, bool is_own)
{
	struct task_struct *curr = curr_of(cpu);
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	struct task_ctx *tctx;
	u64 keeps = 0;

	/* A task that ends leaves the CPU soon, and its debt to its parent, which it wakes. */
	if (!cctx || !curr || curr->prio < MAX_RT_PRIO || curr->flags & (PF_IDLE | PF_EXITING))
		return false;
	if (is_partial && curr->policy != SCHED_EXT_POLICY)
		return false;
	tctx = try_task_ctx(curr);
	if (!tctx || tctx->lane == APPEASE_LANE_KERNEL)
		return false;
	if (plain_lane(curr, tctx) == APPEASE_LANE_OTHER)
		keeps = keeps_from(curr, tctx, cctx, wakee, now, is_called);
	if (keeps == PROGRESS_KEEPS || (keeps && cctx->is_timed))
		return false;
	/* It may have begun to serve somebody since it was queued. */
	if (is_serving() && is_waited_for(curr, bpf_ktime_get_ns()))
		return false;
	if (keeps) {
		if (is_own)
			end_after(cpu, curr->pid, keeps);
		return false;
	}
	cctx->displaced_ns = now;
	return true;
}

/* A CPU of @domain beside @own, by turns. */
static __always_inline s32 cpu_beside(struct domain *domain, s32 own)
{
	u32 cpus = domain->nr_cpus, first = domain->next_look++;
	s32 cpu = domain->cpus[placement_turn(first, 0, cpus) % DOMAIN_CPUS];

	return cpu == own ? domain->cpus[placement_turn(first, 1, cpus) % DOMAIN_CPUS] : cpu;
}

/*
 * The CPU that @p takes at once, which wakes up and was put into the queue of its party in the domain @index; @wakee is its context. -1: none.
 * It may be another one than where @p ran if nobody else waits in that queue: of two that wake each other, one has the CPU until it
 * sleeps. A crowd gets what it is due at the ends of turns: displacing for each of its wake-ups, messaging took 1.2 times as long beside
 * 4 hogs on 4 CPUs.
 */
static __always_inline s32 displaces_other(struct task_struct *p, const struct task_ctx *wakee, u32 index, u64 now, bool is_called)
{
	/* @p itself enters it after ops.enqueue(). */
	bool is_alone = has_more_cpus() && scx_bpf_dsq_nr_queued(queue_in(DSQ_PARTIES, index, wakee->party)) <= 0;
	s32 own = scx_bpf_task_cpu(p), cpu;

	if (displaces_on(own, wakee, now, is_called, true))
		return own;
	if (!is_alone)
		return -1;
	cpu = cpu_beside(domain_at(index), own);
	return cpu != own && bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && displaces_on(cpu, wakee, now, is_called, false) ? cpu : -1;
}

#endif
