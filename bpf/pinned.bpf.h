/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks of the other lane that may run on one CPU alone wait in queues of that CPU.
 *
 * Problem: in a domain's queues every other CPU walks past them when it looks for a task, under the queue's lock. A thousand of them
 * are mostly in front, as their CPU is the busiest.
 *
 * Rule: a CPU has a few queues, each for the tasks of one party, and one for those that waited too long. Of the parties that wait in
 * the domain and on the CPU, the one with the smallest virtual time goes next; where it waits at both, its task with the earlier deadline.
 *
 * Limits: tasks of more parties than a CPU has queues wait in the domain's. Attended tasks, those of the idle lane, and those whose
 * migration is disabled for a moment always do. The domain's clock does not know them: while one party runs alone on other CPUs, it
 * goes on, and who wakes up here comes back by it.
 */
#ifndef APPEASE_PINNED_BPF_H
#define APPEASE_PINNED_BPF_H

#include "charge.bpf.h"

/* Queue @number of @cpu. */
static __always_inline u64 pinned_queue(u32 cpu, u32 number)
{
	return DSQ_PINNED + cpu * PINNED_QUEUES + number;
}

/* Whether something may wait for the CPU of @cctx alone. */
static __always_inline bool may_hold_pinned(const struct cpu_ctx *cctx)
{
	return has_more_cpus() && cctx->pinned;
}

/* Whose queue @number on the CPU of @cctx is. The compiler knows what the verifier has to see. */
static __always_inline u32 *pinned_party(struct cpu_ctx *cctx, u32 number)
{
	barrier_var(number);
	return &cctx->pinned_parties[number % PINNED_QUEUES];
}

/* The number of the queue of the party at @index on the CPU of @cctx. 0: all are taken. */
static __noinline u32 pinned_number(struct cpu_ctx *cctx, u32 index)
{
	u32 i;

	if (!cctx)
		return 0;
	bpf_for(i, 1, PINNED_QUEUES) {
		if (*pinned_party(cctx, i) == index + 1)
			return i;
	}
	bpf_for(i, 1, PINNED_QUEUES) {
		if (!__sync_val_compare_and_swap(pinned_party(cctx, i), 0, index + 1))
			return i;
	}
	return 0;
}

/* Whether a task of the party at @index waits in @dsq, which is its own, or is the first in @overdue. */
static __noinline bool waits_pinned(u32 index, u64 dsq, u64 overdue)
{
	struct task_struct *first;
	struct task_ctx *tctx;

	if (scx_bpf_dsq_nr_queued(dsq) > 0)
		return true;
	first = __COMPAT_scx_bpf_dsq_peek(overdue);
	tctx = first ? try_task_ctx(first) : NULL;
	return tctx && tctx->party == index;
}

/* Queues @p, of the party at @index, on its CPU, if it may run nowhere else. */
__noinline bool enqueue_pinned(struct task_struct *p __arg_trusted, struct task_ctx *tctx __arg_nonnull, u32 index, u64 credit, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	struct party *party = try_party(index);
	u32 number;

	if (!cctx || !party || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		return false;
	number = pinned_number(cctx, index);
	if (!number)
		return false;
	__sync_fetch_and_or(&cctx->pinned_used, bit_of(number));
	__sync_fetch_and_or(&cctx->pinned, bit_of(number));
	/* A look that found the queue empty may have made it nobody's. */
	if (*(volatile u32 *)pinned_party(cctx, number) != index + 1)
		return false;
	party->used_ns = scx_bpf_now();
	/*
	 * At the end of a turn it has wanted the CPU all the time, and what it lacks is its own; so it has while others of its tasks wait here. In
	 * a crowd of a thousand some wake up now and then, and each took from all what they were owed.
	 */
	if (enq_flags & SCX_ENQ_WAKEUP && !waits_pinned(index, pinned_queue(cpu, number), pinned_queue(cpu, 0)))
		rise_to(party, domain_at(domain_of(cpu))->clock - credit);
	keep_with_wholes(party, index, domain_at(domain_of(cpu)));
	scx_bpf_dsq_insert_vtime(p, pinned_queue(cpu, number), slice_ns, deadline_of(tctx), enq_flags);
	return true;
}

/* Finds the party that goes next of those that wait for @cpu alone; of this CPU's @cctx, pinned_next is where. PARTIES: none waits. */
static __noinline u32 first_pinned(struct cpu_ctx *cctx, u32 cpu)
{
	u64 now = nr_limits ? scx_bpf_now() : 0;
	u32 i;

	if (!cctx)
		return PARTIES;
	cctx->pinned_best = PARTIES;
	bpf_for(i, 1, PINNED_QUEUES) {
		u32 index = *pinned_party(cctx, i) - 1;
		struct party *party;

		if (!(cctx->pinned >> i & 1))
			continue;
		party = try_party(index);
		if (!party || (cctx->pinned_best < PARTIES && !policy_before(party->vtime, cctx->pinned_vtime)))
			continue;
		if (scx_bpf_dsq_nr_queued(pinned_queue(cpu, i)) <= 0)
			continue;
		if (nr_limits && is_limited(group_behind(index, party), now)) {
			wait_for_refill(party, domain_at(domain_of(cpu)));
			continue;
		}
		cctx->pinned_best = index;
		cctx->pinned_vtime = party->vtime;
		cctx->pinned_next = i;
	}
	return cctx->pinned_best;
}

/* Whether the party at @one had less than that at @other. */
__noinline bool had_less(u32 one, u32 other)
{
	struct party *party = try_party(one), *rival = try_party(other);

	return party && rival && policy_before(party->vtime, rival->vtime);
}

/* Whether anything waits for @cpu, this one, alone. */
__noinline bool pinned_waits_for(s32 cpu)
{
	struct cpu_ctx *cctx = this_cpu_ctx();

	return cctx && may_hold_pinned(cctx) &&
	       (first_pinned(cctx, cpu) < PARTIES || scx_bpf_dsq_nr_queued(pinned_queue(cpu, 0)) > 0);
}

/* Whether what waits for @cpu alone goes before the task of @tctx, which has it and is at the end of a turn. */
__noinline bool pinned_goes_before(s32 cpu, const struct task_ctx *tctx __arg_nonnull)
{
	struct cpu_ctx *cctx = this_cpu_ctx();
	u32 index = cctx ? first_pinned(cctx, cpu) : PARTIES;
	struct task_struct *first;

	if (!cctx || index >= PARTIES)
		return false;
	if (index != tctx->party)
		return !had_less(tctx->party, index);
	first = __COMPAT_scx_bpf_dsq_peek(pinned_queue(cpu, cctx->pinned_next));
	return first && !policy_before(deadline_of(tctx), first->scx.dsq_vtime);
}

/*
 * Takes a task that waits for this CPU alone, if its party, or in the same party the task, goes before the first that waits in the domain,
 * of the party at @rival; PARTIES: nobody waits there.
 */
__noinline bool take_pinned(u32 rival)
{
	s32 cpu = bpf_get_smp_processor_id();
	u32 domain = domain_of(cpu), index;
	struct cpu_ctx *cctx = this_cpu_ctx();
	struct task_struct *p, *first;
	struct party *party;
	struct task_ctx *tctx;
	u64 queue;

	if (!cctx || !may_hold_pinned(cctx))
		return false;
	index = first_pinned(cctx, cpu);
	party = try_party(index);
	if (!party || index >= PARTIES)
		return false;
	queue = pinned_queue(cpu, cctx->pinned_next);
	p = __COMPAT_scx_bpf_dsq_peek(queue);
	tctx = p ? try_task_ctx(p) : NULL;
	if (!tctx)
		return false;
	if (rival == index) {
		first = first_of(rival, domain);
		if (first && policy_before(first->scx.dsq_vtime, p->scx.dsq_vtime))
			return false;
	} else if (rival < PARTIES && had_less(rival, index)) {
		return false;
	}
	party_comes_to(party, index, domain, tctx->vtime);
	return scx_bpf_dsq_move_to_local(queue, 0);
}

/* Whether a task that waited too long for the CPU of @cctx alone may wait. */
static __always_inline bool may_hold_pinned_overdue(const struct cpu_ctx *cctx)
{
	return may_hold_pinned(cctx) && cctx->pinned & 1;
}

/* Takes such a task; @cpu is this one. */
static __always_inline bool take_pinned_overdue(s32 cpu)
{
	return scx_bpf_dsq_move_to_local(pinned_queue(cpu, 0), 0);
}

#endif
