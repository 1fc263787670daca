/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The other and the idle lane: how those queue up whom nobody waits for, and whose turn they end (policy/progress.h).
 */
#ifndef APPEASE_OTHERS_BPF_H
#define APPEASE_OTHERS_BPF_H

#include "attended.bpf.h"

/* What @p, which has the CPU, ran since it was charged last, ns. */
static __always_inline u64 ran_since(const struct task_struct *p, const struct task_ctx *tctx, u64 now)
{
	u64 began = p->se.exec_start, ran = p->se.sum_exec_runtime - tctx->ran_ns;

	/* Since the kernel looked last, which is a tick ago at most. */
	return policy_before(began, now) && now - began < LONGEST_TICK_NS ? ran + (now - began) : ran;
}

/* For how long @curr keeps the CPU of @cctx from who wakes up with @vtime and @deadline, ns. */
static __always_inline u64 keeps_from(struct task_struct *curr, const struct task_ctx *tctx, const struct cpu_ctx *cctx, u64 vtime,
				      u64 deadline, u64 now)
{
	u64 ran = ran_since(curr, tctx, now), more = vtime_for(curr, tctx, ran);

	return progress_keeps_ns(vtime, deadline, tctx->vtime + more, deadline_of(tctx) + more, ran, now - cctx->displaced_ns);
}

/* Whether @p, which wakes up with @vtime and @deadline, takes its CPU from who has it; or has that end its turn soon. */
__noinline bool displaces_other(struct task_struct *p __arg_trusted, u64 vtime, u64 deadline, u64 now)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct task_struct *curr = __COMPAT_scx_bpf_cpu_curr(cpu);
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	struct task_ctx *tctx;
	struct standing standing;
	u64 keeps = 0;

	/* Who ends leaves the CPU soon, and its debt to its parent, whom it wakes. */
	if (!cctx || !curr || curr->prio < MAX_RT_PRIO || curr->flags & (PF_IDLE | PF_EXITING))
		return false;
	if (is_partial && curr->policy != SCHED_EXT_POLICY)
		return false;
	tctx = try_task_ctx(curr);
	if (!tctx || tctx->lane == APPEASE_LANE_KERNEL)
		return false;
	if (plain_lane(curr) == APPEASE_LANE_OTHER)
		keeps = keeps_from(curr, tctx, cctx, vtime, deadline, now);
	if (keeps == PROGRESS_KEEPS || (keeps && cctx->is_timed))
		return false;
	if (is_armed()) {
		/* It may have begun to serve somebody since it was queued. */
		judge(curr, bpf_ktime_get_ns(), &standing);
		if (standing.attended)
			return false;
	}
	if (keeps) {
		end_after(cpu, curr->pid, keeps);
		return false;
	}
	cctx->displaced_ns = now;
	return true;
}

/* Queues @p in the other or the idle lane, or in place of who had more than its part. */
__noinline int enqueue_other(struct task_struct *p __arg_trusted, struct task_ctx *tctx __arg_nonnull, u64 now, u64 enq_flags)
{
	/* Who says that it is batch work is in no hurry when it wakes up. */
	bool hurries = p->policy != SCHED_BATCH_POLICY;
	u32 weight = weight_of(p);
	u64 credit = !hurries ? 0 : tctx->group ? charge_in_group(tctx->group, weight, slice_ns) : slice_ns;
	u64 vtime = progress_catch_up(tctx->vtime, queue_vtime, credit);
	u32 lane = plain_lane(p);
	u64 deadline;

	tctx->vtime = vtime;
	tctx->lane = lane;
	tctx->queued_ns = now;
	count_sched(CNT_OTHER);
	if (lane == APPEASE_LANE_IDLE) {
		maybe_idle = true;
		scx_bpf_dsq_insert_vtime(p, DSQ_IDLE, slice_ns, vtime, enq_flags);
		kick_idle(p);
		return 0;
	}
	maybe_other = true;
	deadline = deadline_of(tctx);
	scx_bpf_dsq_insert_vtime(p, DSQ_OTHER, slice_ns, deadline, enq_flags);
	if (hurries && enq_flags & SCX_ENQ_WAKEUP && displaces_other(p, vtime, deadline, now)) {
		/* Not by the CPU's local queue, where it would go before attended tasks, too. */
		count_sched(CNT_DISPLACED);
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT);
		return 0;
	}
	kick_idle(p);
	return 0;
}

#endif
