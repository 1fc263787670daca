/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * In the other lane: a task hands its turn over to one of its party that it wakes, and goes to sleep. Tasks that wake each other to and
 * fro, through a pipe for one, so save ops.dispatch(), which looks through all queues. Their party has the same turn and the same
 * charge.
 *
 * With 4 hogs in another cgroup, a message through a pipe took 1.17 times what it takes under the kernel's own scheduler, on 6.18
 * 1.40 times. On four CPUs, where each woken task waited for, or displaced, a hog on another CPU, it was 1.23 and 1.33 times.
 *
 * With several CPUs the waker has to say that it will sleep (SCX_WAKE_SYNC), and have slept soon of late. Who has an idle CPU takes that.
 */
#ifndef APPEASE_HANDOVER_BPF_H
#define APPEASE_HANDOVER_BPF_H

#include "displace.bpf.h"

/* A task may hand its turn over to one that it wakes, see hands_over(). With several caches, such a pair may be of two. */
static __always_inline bool hands_turns_over(void)
{
	return nr_domains == 1;
}

/*
 * By CPU: the task that handed its turn over, see hands_over(), and left the CPU without ops.dispatch(), which would have charged it. 0:
 * none, or it was queued since.
 */
static s32 givers[CPUS_MAX];

static __always_inline s32 *giver_of(u32 cpu)
{
	return &givers[has_more_cpus() ? cpu % CPUS_MAX : 0];
}

/* The last two of which one handed its turn over to the other, their party, when that turn began, and how often they answered since. */
static s32 pair_one, pair_other;
static u32 pair_party;
static u64 pair_at_ns, pair_answers;

static __always_inline bool is_of_pair(const struct task_struct *p)
{
	return p->pid == pair_one || p->pid == pair_other;
}

/* Whether @p, which is queued and is charged by that, handed its turn over when it ran last. */
static __always_inline bool gave_turn(const struct task_struct *p, struct task_ctx *tctx)
{
	s32 *giver;

	if (!hands_turns_over() || (has_more_cpus() && !tctx->gave_on))
		return false;
	giver = giver_of(tctx->gave_on - 1);
	tctx->gave_on = 0;
	if (*giver != p->pid)
		return has_more_cpus();
	*giver = 0;
	return true;
}

static __always_inline void hand_over(struct task_struct *p, struct task_struct *waker, u64 slice, u64 enq_flags)
{
	*giver_of(bpf_get_smp_processor_id()) = waker->pid;
	insert_first(p, slice, enq_flags);
}

/*
 * Whether @p, which wakes up and finds no idle CPU, does so on this one, to have what is left of its waker's turn. That is
 * decided when it is queued: here is told what needs no look at a queue.
 */
static __always_inline bool wakes_for_turn(struct task_struct *p, u64 wake_flags)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	struct task_ctx *tctx, *wctx;
	struct cpu_ctx *cctx;

	if (!(wake_flags & SCX_WAKE_SYNC) || is_kthread(p) || is_interrupt() ||
	    !bpf_cpumask_test_cpu(bpf_get_smp_processor_id(), p->cpus_ptr) || scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL))
		return false;
	tctx = try_task_ctx(p);
	wctx = try_task_ctx(waker);
	cctx = this_cpu_ctx();
	if (!tctx || !wctx || !cctx || wctx->lane != APPEASE_LANE_OTHER || tctx->party != wctx->party)
		return false;
	if (waker_stay(wctx->usual_ns)) {
		cctx->handed_pid = p->pid;
		return true;
	}
	/* It may be one that sleeps soon by now. */
	if (!cctx->woke_ns) {
		cctx->woke_ns = scx_bpf_now();
		cctx->woke_pid = waker->pid;
	}
	return false;
}

/*
 * Puts @p, of the party at @index, into the CPU's own queue. The running task woke it, that of @wctx in the same party. So @p has
 * the rest of that one's turn as soon as it goes to sleep, and tasks that wake each other to and fro save ops.dispatch(). Only if @p would
 * be the next of its party, and for a turn: then other parties are looked at. False: it may not.
 */
static __always_inline bool hands_over(struct task_struct *p, const struct task_ctx *tctx, struct task_ctx *wctx, u32 index,
				       u64 now, u64 enq_flags)
{
	struct task_struct *first, *waker = bpf_get_current_task_btf();
	struct cpu_ctx *cctx = this_cpu_ctx();
	struct domain *domain = domain_at(0);
	u64 passed, keeps, queue = queue_in(DSQ_PARTIES, 0, index);
	s32 giver;

	if (!cctx)
		return false;
	if (has_more_cpus()) {
		if (cctx->handed_pid != p->pid)
			return false;
		cctx->handed_pid = 0;
	}
	giver = *giver_of(bpf_get_smp_processor_id());
	if (is_partial || domain->attended || cctx->kernel_waiting || waker->flags & PF_EXITING || waker->prio < MAX_RT_PRIO)
		return false;
	passed = now - cctx->looked_ns;
	keeps = passed < slice_ns ? keeps_from(waker, wctx, cctx, tctx, now, false) : 0;
	/* One that handed over before is charged by ops.dispatch(). */
	if (!keeps || (giver && giver != waker->pid) || scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL))
		return false;
	if (domain->party_waiting[word_of(index)] & bit_of(index)) {
		first = scx_bpf_dsq_nr_queued(queue) > 0 ? __COMPAT_scx_bpf_dsq_peek(queue) : NULL;
		if (first && !policy_before(deadline_of(tctx), first->scx.dsq_vtime))
			return false;
		if (!first && knows_queues())
			party_is_empty(index);
	}
	if (keeps != PROGRESS_KEEPS && !cctx->is_timed)
		end_after(bpf_get_smp_processor_id(), waker->pid, keeps);
	if (has_more_cpus()) {
		wctx->gave_on = bpf_get_smp_processor_id() + 1;
		hand_over(p, waker, slice_ns - passed, enq_flags);
		return true;
	}
	pair_at_ns = cctx->looked_ns;
	pair_one = waker->pid;
	pair_other = p->pid;
	pair_party = index;
	pair_answers = 0;
	hand_over(p, waker, slice_ns - passed, enq_flags);
	return true;
}

/*
 * The same when one of the pair answers the other in the same turn, and nobody else of their party waits: nothing would come of
 * charging them at each message, so that is done at the end of the turn. While somebody is served, each message may change who that is.
 */
static __always_inline bool answers(struct task_struct *p, u64 enq_flags)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	struct domain *domain = domain_at(0);
	struct cpu_ctx *cctx;
	u64 passed;

	if (!skips_queues() || !(enq_flags & SCX_ENQ_WAKEUP) || !is_of_pair(p) || !is_of_pair(waker) || waker == p || is_serving() ||
	    nr_limits || domain->attended || domain->party_waiting[word_of(pair_party)] & bit_of(pair_party) ||
	    waker->flags & PF_EXITING || waker->prio < MAX_RT_PRIO)
		return false;
	cctx = this_cpu_ctx();
	if (!cctx || cctx->looked_ns != pair_at_ns || cctx->kernel_waiting)
		return false;
	passed = scx_bpf_now() - cctx->looked_ns;
	if (passed >= slice_ns || is_interrupt() || scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL))
		return false;
	pair_answers++;
	hand_over(p, waker, slice_ns - passed, enq_flags);
	return true;
}

/* Charges the current task, which is of the pair: else its party would seem to have had less than it had. */
__noinline int charge_waker(void)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	struct task_ctx *wctx = try_task_ctx(waker);
	struct standing *standing = new_standing(LOOK_BESIDE);

	return wctx && standing ? charge(waker, wctx, 0, standing) : 0;
}

/* @p, of which is @tctx, wakes up at the end of such a turn. What it wants at a wake-up is its part of one message. */
static __always_inline void end_pair_turn(const struct task_struct *p, struct task_ctx *tctx)
{
	struct task_struct *waker = bpf_get_current_task_btf();

	if (!skips_queues() || !pair_answers || !is_of_pair(p))
		return;
	tctx->turn_ns /= pair_answers / 2 + 1;
	if (waker != p && is_of_pair(waker))
		charge_waker();
}

#endif
