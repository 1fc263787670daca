/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a task of the other lane leaves when it goes to sleep, or ends: its debt (policy/progress.h).
 */
#ifndef APPEASE_LEAVING_BPF_H
#define APPEASE_LEAVING_BPF_H

#include "others.bpf.h"
#include "unhappiest.bpf.h"

/*
 * @p ends: its process takes over its debt, or its parent that of a process. ops.exit_task() may be long after the
 * parent's next child.
 */
__noinline int bequeath(struct task_struct *p __arg_trusted, struct task_ctx *tctx __arg_nonnull)
{
	struct task_struct *next = p->pid == p->tgid ? p->real_parent : p->group_leader;
	u32 next_pid = next->pid;
	struct task_ctx *heir = try_task_ctx(next);
	struct party *party;
	u64 most, clock;

	if (!heir)
		return 0;
	if (policy == APPEASE_POLICY_CAS && p->pid == p->tgid)
		return_share(p);
	party = try_party(tctx->party);
	if (!party)
		return 0;
	most = vtime_for(p, slice_ns);
	clock = clock_here(party, tctx->party);
	tctx->handed_vtime = 0;
	/* The first process adopts orphans, and does not wait for their work. */
	if (heir->party != tctx->party || next_pid == 1) {
		owe(party, progress_leaves(tctx->vtime, clock, clock, slice_ns));
		tctx->vtime = progress_start(tctx->vtime, clock, most);
		return 0;
	}
	heir->vtime = progress_inherit(heir->vtime, tctx->vtime, clock, most);
	/* It may sleep once more on its way out. */
	tctx->vtime = progress_start(tctx->vtime, clock, most);
	return 0;
}

/* @p has left the CPU without ops.dispatch(), see hands_over(). */
__noinline int left_cpu(struct task_struct *p __arg_trusted, struct task_ctx *tctx __arg_nonnull)
{
	struct standing *standing = new_standing(LOOK_BESIDE);
	u64 mono = mono_if_serving();

	if (!standing)
		return 0;
	if (mono)
		judge(p, mono, standing);
	charge(p, tctx, mono, standing);
	if (p->flags & PF_EXITING)
		bequeath(p, tctx);
	if (tctx->handed_vtime && tctx->lane == APPEASE_LANE_OTHER)
		leave_owed(tctx);
	return 0;
}

/* @cpu looks for its next task after @prev: the task that handed its turn over there last has left it, or is @prev. */
__noinline int settle_giver(u32 cpu, struct task_struct *prev __arg_trusted __arg_nullable)
{
	s32 *giver = giver_of(cpu), pid = *giver;
	struct task_struct *p;
	struct task_ctx *tctx;

	*giver = 0;
	if (prev && prev->pid == pid) {
		/* It went on, though it had said that it would sleep. */
		tctx = has_more_cpus() ? try_task_ctx(prev) : NULL;
		if (tctx) {
			tctx->gave_on = 0;
			if (prev->scx.flags & SCX_TASK_QUEUED)
				tctx->usual_ns = waker_usual(tctx->usual_ns, WAKER_LONGEST_NS);
		}
		return 0;
	}
	p = bpf_task_from_pid(pid);
	tctx = p ? try_task_ctx(p) : NULL;
	/* What it ran in another class is not ours to charge. If it is queued or runs elsewhere, that was done. */
	if (tctx && p->prio >= MAX_RT_PRIO && (!has_more_cpus() || tctx->gave_on == cpu + 1)) {
		tctx->gave_on = 0;
		left_cpu(p, tctx);
	}
	if (p)
		bpf_task_release(p);
	return 0;
}

#endif
