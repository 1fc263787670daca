/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Policy cas: of all who wait in the attended lane, a process of the request with the largest total, and of those the
 * unhappiest (Customer Appeasement, section 4, items 4 to 6; policy/share.h).
 *
 * By weights, and where several processes of a request wait, no key that stands still tells the order. So the queue is looked
 * through whenever a CPU is to be given: once for the sums, once for the largest.
 *
 * Where it is bad: a look takes time by the number of those who wait, of whom LOOK_MAX are looked at; two CPUs that look at once
 * may disturb each other's sums, and then take the second unhappiest.
 */
#ifndef APPEASE_UNHAPPIEST_BPF_H
#define APPEASE_UNHAPPIEST_BPF_H

#include "attended.bpf.h"

/* Most tasks that are looked at. */
#define LOOK_MAX 256

/* Looks so far, on all CPUs. */
static u64 looks;

/* Tasks gone through. Not local variables, of which the verifier would try every value. */
static u32 looked;

/* u of @p, which waits for a CPU, over what it is attended for; ns. */
static __always_inline s64 share_of(struct task_struct *p, const struct standing *standing, u64 mono)
{
	const struct appease_process *process = standing->request_id ? try_process(p) : NULL;

	if (process && process->share_of == standing->request_id)
		return share_now(process->share_ns, process->share_since_ns, mono);
	/* Lifted, or told before its request was: it has none. */
	return standing->request_id ? 0 : (s64)(mono - standing->key);
}

static __always_inline void add_share(struct task_struct *p, const struct standing *standing, u64 look, u64 mono)
{
	struct appease_request *request = request_in(standing);

	if (!request)
		return;
	if (request->ready_at != look) {
		request->ready_at = look;
		request->ready_ns = 0;
	}
	request->ready_ns += share_of(p, standing, mono);
}

/* U of what a task is attended for (eq. 3), once all shares were added; ns. */
static __always_inline s64 total_of(const struct standing *standing, u64 mono)
{
	const struct appease_request *request = request_in(standing);

	return request ? share_weighted(request->ready_ns + request->waiting_ns, request->weight) :
			 (s64)(mono - standing->key);
}

/*
 * Finds the unhappiest that may run on @cpu, beside @prev, of which is @standing: both have keys by which they compare. 0: nobody
 * waits.
 */
__noinline u64 find_unhappiest(s32 cpu, struct cpu_ctx *cctx __arg_nonnull, struct task_struct *prev __arg_trusted __arg_nullable,
			       struct standing *standing __arg_nonnull)
{
	struct standing *other = new_standing(LOOK_ONCE);
	struct task_struct *p;
	u64 mono, look;

	cctx->best_pid = 0;
	if (!other || !domain_at(0)->attended || !__COMPAT_scx_bpf_dsq_peek(DSQ_ATTENDED))
		return 0;
	mono = bpf_ktime_get_ns();
	look = __sync_add_and_fetch(&looks, 1);
	if (prev && standing->attended)
		add_share(prev, standing, look, mono);
	looked = 0;
	bpf_for_each(scx_dsq, p, DSQ_ATTENDED, 0) {
		judge(p, mono, other);
		add_share(p, other, look, mono);
		if (++looked >= LOOK_MAX)
			break;
	}
	looked = 0;
	bpf_for_each(scx_dsq, p, DSQ_ATTENDED, 0) {
		s64 total, share;

		if (++looked >= LOOK_MAX)
			break;
		if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		judge(p, mono, other);
		/* Whom nobody waits for any more, or a kernel thread: it has waited since it was queued. */
		if (!other->attended)
			other->key = p->scx.dsq_vtime;
		total = total_of(other, mono);
		share = share_of(p, other, mono) - (other->helps ? HELPER_NS : 0);
		if (cctx->best_pid && (total < cctx->best || (total == cctx->best && share <= cctx->best_share)))
			continue;
		cctx->best = total;
		cctx->best_share = share;
		cctx->best_pid = p->pid;
	}
	if (standing->attended)
		standing->key = mono - total_of(standing, mono) + (standing->helps ? HELPER_NS : 0);
	return cctx->best_pid ? mono - cctx->best : 0;
}

/* Takes what find_unhappiest() found. */
__noinline bool take_unhappiest(struct cpu_ctx *cctx __arg_nonnull)
{
	struct task_struct *p;

	if (!cctx->best_pid)
		return false;
	looked = 0;
	bpf_for_each(scx_dsq, p, DSQ_ATTENDED, 0) {
		if (p->pid == cctx->best_pid)
			return scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0);
		if (++looked >= LOOK_MAX)
			break;
	}
	return false;
}

/* The process of @p ends: what it has of a request goes back to its parent, which may wait for it (eq. 2). */
static __always_inline void return_share(struct task_struct *p)
{
	struct appease_process *from = try_process(p), *to;
	u64 mono = bpf_ktime_get_ns();
	struct appease_request *request;

	if (!from || !from->share_of)
		return;
	request = try_request(from->attention.slot, from->share_of);
	to = try_process(p->real_parent);
	if (request && to)
		hand_back_share(request, from, to, mono);
}

#endif
