/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What CPU time is charged to: requests, customers, virtual times, shares of epochs.
 */
#ifndef APPEASE_CHARGE_BPF_H
#define APPEASE_CHARGE_BPF_H

#include "standing.bpf.h"

/*
 * Weight of @p by its nice value. A kernel thread has no less than others: khugepaged, at nice 19, works on the memory of a program, which
 * cannot have a page meanwhile, and would with a sixty-eighth of what others have be at it for long.
 */
static __always_inline u32 weight_of(const struct task_struct *p)
{
	u32 weight = progress_weight(p->static_prio - DEFAULT_PRIO);

	return is_kthread(p) && weight < PROGRESS_WEIGHT_0 ? PROGRESS_WEIGHT_0 : weight;
}

/* What @ran adds to @p's virtual time, ns. */
static __always_inline u64 vtime_for(const struct task_struct *p, u64 ran)
{
	return progress_charge(ran, weight_of(p));
}

/* When a task should have what it is likely to want now, in virtual time. */
static __always_inline u64 deadline_of(const struct task_ctx *tctx)
{
	return progress_deadline(tctx->vtime, tctx->burst_ns, slice_ns);
}

/* What @p, which has the CPU, ran since it was charged last, ns. */
static __always_inline u64 ran_since(const struct task_struct *p, const struct task_ctx *tctx, u64 now)
{
	u64 began = p->se.exec_start, ran = p->se.sum_exec_runtime - tctx->ran_ns;

	/* Since the kernel looked last, which is a tick ago at most. */
	return policy_before(began, now) && now - began < LONGEST_TICK_NS ? ran + (now - began) : ran;
}

/* A new turn begins with a wake-up. */
static __always_inline void begin_turn(struct task_ctx *tctx)
{
	tctx->burst_ns = progress_burst(tctx->burst_ns, tctx->turn_ns);
	tctx->turn_ns = 0;
	tctx->handed_vtime = 0;
	tctx->place_for = 0;
}

/*
 * Charges the request that @p serves by @standing, or the loan or the start that it runs on. True: that may be used up now, so
 * @p is to be judged anew.
 */
__noinline bool charge_attended(struct task_struct *p __arg_trusted, struct task_ctx *tctx __arg_nonnull, u64 mono, u64 ran,
				struct standing *standing __arg_nonnull)
{
	struct appease_process *process;
	struct appease_request *request;
	bool is_used_up = false;

	note_spent(tctx, standing);
	tctx->pays_at_once = false;
	if (!standing->attended)
		return false;
	/* The same request as at the last look changes nothing. */
	if (standing->request_id != tctx->turn_request || tctx->mixing)
		note_turn(p, tctx, standing, false);
	charge_fairly(tctx->turn_for, ran);
	if (standing->is_new)
		tctx->start_ns -= ran < tctx->start_ns ? ran : tctx->start_ns;
	request = request_in(standing);
	if (request) {
		charge_request(request, ran, mono);
		tctx->pays_at_once = charge_period(request, ran);
		standing->key = request_key(request, mono) + (standing->helps ? HELPER_NS : 0);
		is_used_up = is_spent(request);
	}
	process = standing->on_loan || policy == APPEASE_POLICY_CAS ? try_process(p) : NULL;
	if (process && standing->on_loan) {
		charge_loan(process, ran);
	} else if (process && request && process->share_of == request->id) {
		process->share_ns -= ran;
	}
	return is_used_up || standing->on_loan || standing->is_new;
}

/* Whether the request that @p served last is over. */
static __always_inline bool is_done(struct task_struct *p, const struct appease_process *process)
{
	const struct appease_thread *thread = try_thread(p);
	const struct appease_attention *attention = thread && thread->attention.request_id ? &thread->attention :
											     &process->attention;

	return attention->request_id && !try_request(attention->slot, attention->request_id);
}

/*
 * @p was attended until now, or waited so for its turn. Where its request was answered meanwhile, by itself or by whom it answered, or
 * its loan had its time, it is lent a turn, once: to put away what it needed and to come back for the next request, which may be
 * waiting. That is for whoever is next, so no customer pays.
 */
__noinline bool borrows_turn(struct task_struct *p __arg_trusted, struct task_ctx *tctx __arg_nonnull, u64 waited)
{
	struct appease_process *process;
	u64 mono;

	if (policy == APPEASE_POLICY_RSIO)
		return false;
	process = try_process(p);
	if (!process || (waited < slice_ns && (tctx->turn_request == 0 || !is_done(p, process))))
		return false;
	mono = bpf_ktime_get_ns();
	lend(process, 0, mono, POLICY_WEIGHT_DEFAULT, mono);
	tctx->turn_request = 0;
	tctx->turn_for = 0;
	return has_loan(process, mono);
}

/* The lane of the turn that @p had, of @ran after it had waited for @waited. Charges the turn to the request that it served. */
static __always_inline u32 lane_of_turn(struct task_struct *p, struct task_ctx *tctx, u64 mono, u64 ran, u64 waited,
					struct standing *standing)
{
	bool attended = standing->attended, is_stale = charge_attended(p, tctx, mono, ran, standing);

	if (!attended && tctx->lane == APPEASE_LANE_ATTENDED)
		attended = is_stale = borrows_turn(p, tctx, waited);
	if (is_stale || policy == APPEASE_POLICY_CAS)
		judge(p, mono, standing);
	return attended ? APPEASE_LANE_ATTENDED : plain_lane(p, tctx);
}

/*
 * Charges @p, which is worth @standing at @mono, for the CPU time since it was last looked at: whenever a CPU looks for its next
 * task after it, and when it is queued. There is no ops.stopping(), which would cost each switch a call. So on one CPU a task may
 * have run for long unseen, by turns with another, while nobody else wanted the CPU and nobody was served: what is beyond one
 * turn is counted in its lane, but held against nobody. At @mono 0 nobody is served. Without @is_alive, in the lane that it was
 * last known in: its process may be gone. Brings @standing up to date.
 */
static __always_inline int charge_to(struct task_struct *p, struct task_ctx *tctx, u64 mono, struct standing *standing, bool is_alive)
{
	u64 total = p->se.sum_exec_runtime, ran = total - tctx->ran_ns, unseen = 0, waited = 0;
	u32 lane = tctx->lane;
	struct cpu_ctx *cctx;

	if (!ran)
		return 0;
	tctx->ran_ns = total;
	if (skips_queues() && lane != APPEASE_LANE_KERNEL && ran > slice_ns + LONGEST_TICK_NS) {
		unseen = ran - slice_ns - LONGEST_TICK_NS;
		ran -= unseen;
	}
	tctx->turn_ns += ran;
	if (lane != APPEASE_LANE_KERNEL && is_alive) {
		if (tctx->queued_ns) {
			waited = scx_bpf_now() - tctx->queued_ns;
			waited = waited > ran ? waited - ran : 0;
		}
		/* It may have read in the middle of its turn, or its attention may have ended. */
		tctx->lane = lane = mono ? lane_of_turn(p, tctx, mono, ran, waited, standing) : plain_lane(p, tctx);
		if (!progress_lost_turn(waited, ran, longest_wait_ns))
			tctx->queued_ns = 0;
	}
	if (nr_limits && tctx->group)
		charge_limits(tctx->group, ran, scx_bpf_now());
	cctx = cpu_ctx_of_task(p);
	if (!cctx || lane >= APPEASE_NR_LANES)
		return 0;
	/* A turn of the other lanes is one also if somebody is attended by its end. */
	if (lane >= APPEASE_LANE_OTHER || cctx->turn) {
		cctx->other_ns += ran;
		cctx->unpaid_ns += ran;
	}
	if (lane >= APPEASE_LANE_OTHER) {
		struct party *party = try_party(tctx->party);

		if (party) {
			party_goes_on(party, tctx->party, tctx->vtime, ran);
			if (tctx->party < PARTIES) {
				charge_party(party, tctx->party, ran);
				cctx->ran_in = tctx->party;
				__sync_fetch_and_add(&party->wanted_ns, waited + ran);
			}
		}
		tctx->vtime += vtime_for(p, ran);
	} else if (lane == APPEASE_LANE_ATTENDED) {
		if (tctx->party < PARTIES)
			charge_attended_party(tctx->party, ran, tctx->pays_at_once);
	} else if (lane == APPEASE_LANE_KERNEL) {
		cctx->kernel_ns += ran;
	}
	tctx->lane_ns[lane] += ran;
	cctx->lane_ns[lane] += ran;
	if (unseen)
		lane = plain_lane(p, tctx);
	tctx->lane_ns[lane] += unseen;
	cctx->lane_ns[lane] += unseen;
	return 0;
}

/* The same of one that is alive. Global: the verifier looks through it once, not for each state of who calls. */
__noinline int charge(struct task_struct *p __arg_trusted, struct task_ctx *tctx __arg_nonnull, u64 mono,
		      struct standing *standing __arg_nonnull)
{
	return charge_to(p, tctx, mono, standing, true);
}

#endif
