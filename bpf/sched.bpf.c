/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The scheduler: kernel threads, then what somebody waits for, then the rest, which keeps a guaranteed share.
 *
 *	kernel		straight to the CPU's local queue; behind realtime and kernel threads, attended tasks pass it for a moment
 *	attended	by customers who share (policy/fairness.h), and of each by unhappiness (policy/unhappiness.h)
 *	other		by parties (policy/party.h), in each by deadlines in virtual time (policy/progress.h)
 *	idle		one queue, by virtual time
 *	overdue		those of the other lanes that waited too long, first come first served
 *	background	kernel threads that have time: when the CPU would be idle, or late, when an attended task goes to sleep
 *
 * An attended wake-up takes an idle CPU, or one that does the least important work. Reads attention, never writes it,
 * but for CPU time spent and loans.
 *
 * CPUs that share a cache have queues of their own (domains.bpf.h).
 *
 * Where it is bad: slices end at ticks.
 */
#include <scx/common.bpf.h>
#include <scx/compat.bpf.h>
#include "cores.bpf.h"
#include "leaving.bpf.h"
#include "scans.bpf.h"
#include "sections.bpf.h"
#include "speed.bpf.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* The idle CPU @cpu has a task. Whether somebody waits for it, a look at the CPU will tell; the clock is asked for now, if it is. */
static __always_inline void begins(s32 cpu, const struct task_ctx *tctx, bool is_attended)
{
	bool is_kernel = tctx->lane == APPEASE_LANE_KERNEL;
	struct cpu_ctx *cctx = (has_more_cpus() && !is_kernel) || clock_by != APPEASE_CLOCK_LEFT ? cpu_ctx_of(cpu) : NULL;

	if (!cctx)
		return;
	if (!is_kernel)
		note_plain(cpu, cctx, true);
	ask_clock(cpu, cctx, !is_attended);
}

/* Of low_cpu(): the CPU is idle, and was taken. */
#define LOW_IDLE (1 << 16)

/*
 * To save power: the first CPU near @prev_cpu that plain work may wake up on: one that is at such work, as long as none waits for longer
 * than a turn, or the next one. -1: there is none, or somebody waits for @p, which may have any.
 */
__noinline s32 low_cpu(struct task_struct *p __arg_trusted, s32 prev_cpu, u64 mono)
{
	u32 index = domain_of(prev_cpu), i;
	struct domain *domain = domain_at(index);
	bool full;

	if (is_kthread(p) || (mono && is_waited_for(p, mono)))
		return -1;
	full = is_full(domain, index, scx_bpf_now());
	bpf_for(i, 0, DOMAIN_CPUS) {
		s32 cpu = domain->cpus[i % DOMAIN_CPUS];
		struct cpu_ctx *cctx;

		if (i >= domain->nr_cpus)
			break;
		if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		if (scx_bpf_test_and_clear_cpu_idle(cpu))
			return cpu | LOW_IDLE;
		/* Also one that was given such work just now, and is still on its way to it. */
		cctx = full ? NULL : cpu_ctx_of(cpu);
		if (cctx && cctx->is_plain)
			return cpu;
	}
	return -1;
}

/* Whether somebody waits for @p, which wakes up. Notes that it woke. */
static __always_inline bool wakes_attended(struct task_struct *p, struct task_ctx *tctx)
{
	u64 mono = mono_if_serving();

	if (!mono)
		return false;
	wakes_up(p, tctx, mono);
	tctx->has_woken = 1;
	return is_waited_for(p, mono);
}

/* On a machine with several domains: the CPU that @p, which wakes up, is to have (speed.bpf.h, near.bpf.h). */
__noinline s32 wake_in_domains(struct task_struct *p __arg_trusted, s32 prev_cpu, u64 wake_flags)
{
	struct task_ctx *tctx = is_kthread(p) ? NULL : try_task_ctx(p);
	s32 cpu;

	if (tctx && may_not_run(tctx))
		return WAKES_ANYWHERE;
	if (fast_domains)
		return tctx ? cpu_by_speed(p, prev_cpu, wakes_attended(p, tctx)) : WAKES_ANYWHERE;
	cpu = wake_near(p, prev_cpu, wake_flags);
	if (cpu != WAKES_THERE || !tctx || !wakes_attended(p, tctx))
		return cpu;
	/* Plain work of its domain makes way for it, and it finds its cache warm. */
	return domain_at(domain_of(prev_cpu))->plain_cpus ? WAKES_THERE : WAKES_ANYWHERE;
}

s32 BPF_STRUCT_OPS(appease_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false, is_attended = false;
	s32 cpu;

	if (nr_domains > 1 && !packs) {
		cpu = wake_in_domains(p, prev_cpu, wake_flags);
		is_idle = cpu >= 0;
		if (cpu == WAKES_THERE)
			return prev_cpu;
		if (!is_idle)
			cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
	} else if (packs && has_more_cpus() && !(wake_flags & SCX_WAKE_FORK)) {
		struct task_ctx *tctx = try_task_ctx(p);

		cpu = tctx ? low_cpu(p, prev_cpu, mono_if_serving()) : -1;
		is_idle = cpu >= 0 && cpu & LOW_IDLE;
		if (tctx)
			tctx->packed = cpu >= 0 && !is_idle;
		if (cpu >= 0 && !is_idle) {
			count_sched(CNT_PACKED);
			return cpu;
		}
		cpu = is_idle ? cpu & ~LOW_IDLE : scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
	} else {
		cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
		if (!is_idle && hands_turns_over() && has_more_cpus() && wakes_for_turn(p, wake_flags))
			return bpf_get_smp_processor_id();
	}
	if (is_idle) {
		struct task_ctx *tctx = try_task_ctx(p);

		/* ops.enqueue() queues it with its cgroup, and the CPU goes idle again. */
		if (tctx && may_not_run(tctx))
			return cpu;

		if (tctx) {
			if (is_serving()) {
				u64 mono = bpf_ktime_get_ns();

				if (!tctx->has_woken)
					wakes_up(p, tctx, mono);
				tctx->has_woken = 0;
				if (clock_by != APPEASE_CLOCK_LEFT)
					is_attended = is_waited_for(p, mono);
			}
			tctx->lane = is_kthread(p) ? APPEASE_LANE_KERNEL : plain_lane(p, tctx);
			begin_turn(tctx);
			if (spends)
				follow_waker(p, tctx);
			begins(cpu, tctx, is_attended);
		}
		count_sched(CNT_DIRECT);
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	}
	return cpu;
}

/*
 * With one CPU, while nobody is served and nothing waits in a queue: lets a task that wakes up go on with the turn that it
 * did not use up, in place of the running one, which comes after it. Saves those who wake each other to and fro, through
 * a pipe for one, the way through a queue that they would have to themselves. A used up turn is queued for as always, so
 * shares are kept; and whoever finds somebody in the local queue already goes through the queues.
 */
static __always_inline bool went_on(struct task_struct *p, u64 enq_flags)
{
	if (!skips_queues() || is_serving() || is_partial || is_kthread(p) || p->policy == SCHED_IDLE_POLICY ||
	    p->policy == SCHED_BATCH_POLICY || nr_limits || nr_idle_groups || domain_at(0)->attended || plain_may_wait())
		return false;
	if (enq_flags & SCX_ENQ_WAKEUP) {
		struct task_struct *curr = bpf_get_current_task_btf();
		u64 slice = p->scx.slice;

		if (!slice || scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL))
			return false;
		if (!(curr->flags & PF_IDLE)) {
			if (is_kthread(curr) || curr->prio < MAX_RT_PRIO)
				return false;
			gives_way = true;
			enq_flags |= SCX_ENQ_PREEMPT;
		}
		insert_first(p, slice < slice_ns ? slice : slice_ns, enq_flags);
		return true;
	}
	/* One that was displaced is queued without a flag; a new one, or one that a realtime task displaced, has some. */
	if (!gives_way || enq_flags)
		return false;
	gives_way = false;
	insert_first(p, slice_ns, enq_flags);
	return true;
}

/* Policy cas: @p queues up for its request, so it does not wait for another process's answer. */
__noinline int stands_for(struct task_struct *p __arg_trusted, const struct standing *standing __arg_nonnull, u64 mono)
{
	struct appease_request *request = request_in(standing);
	struct appease_process *process = request ? try_process(p) : NULL;

	if (process)
		share_goes_on(request, process, mono);
	return 0;
}

void BPF_STRUCT_OPS(appease_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct standing *standing;
	struct task_ctx *tctx;
	bool has_woken, has_run;
	u64 mono;

	if (went_on(p, enq_flags) || answers(p, enq_flags))
		return;
	if (skips_queues() && has_displaced) {
		has_displaced = false;
		/* Else that one has gone on since. */
		if (bpf_get_current_task_btf()->prio < MAX_RT_PRIO)
			looks_behind_displaced = end_after(0, 0, WAKER_STAY_NS);
	}
	tctx = try_task_ctx(p);
	standing = new_standing(LOOK_QUEUED);
	if (!tctx || !standing) {
		/* Without a record it is still run; not from the local queue, which would go before everybody. */
		enqueue_lost(p, enq_flags);
		return;
	}
	has_woken = nr_domains > 1 && tctx->has_woken;
	if (has_woken)
		tctx->has_woken = 0;
	mono = mono_if_serving();
	/* One that slept was charged when it went to sleep. */
	has_run = p->se.sum_exec_runtime != tctx->ran_ns;
	if (has_run) {
		if (mono && tctx->lane != APPEASE_LANE_KERNEL)
			judge(p, mono, standing);
		charge(p, tctx, mono, standing);
	}
	if (gave_turn(p, tctx) && enq_flags & SCX_ENQ_WAKEUP && tctx->handed_vtime && tctx->lane == APPEASE_LANE_OTHER)
		leave_owed(tctx);
	if (left_section_first(p, tctx, enq_flags))
		return;
	if (enq_flags & SCX_ENQ_REENQ)
		count_sched(CNT_REENQUEUED);
	if (enq_flags & SCX_ENQ_WAKEUP) {
		end_pair_turn(p, tctx);
		begin_turn(tctx);
		if (spends)
			follow_waker(p, tctx);
	}
	/* A kernel thread that works for longer must not lock the others out; where nobody is served, none that works at length is worth more. */
	if (is_kthread(p) && tctx->turn_ns < KTHREAD_PATIENCE_NS && !(policy == APPEASE_POLICY_STEADY && works_long(p, tctx))) {
		if (enq_flags & SCX_ENQ_WAKEUP)
			works_for_waker(tctx);
		enqueue_kernel(p, tctx, mono, enq_flags);
		return;
	}
	if (may_not_run(tctx)) {
		enqueue_limited(p, tctx, scx_bpf_now(), enq_flags);
		return;
	}
	if (mono) {
		bool is_stale = tctx->lane == APPEASE_LANE_KERNEL || !has_run;

		if (enq_flags & SCX_ENQ_WAKEUP) {
			is_stale |= has_woken || wakes_up(p, tctx, mono) || tctx->start_ns;
			tctx->start_ns = 0;
		}
		if (is_stale)
			judge(p, mono, standing);
		note_spent(tctx, standing);
		if (policy == APPEASE_POLICY_CAS)
			stands_for(p, standing, mono);
		if (standing->attended) {
			enqueue_attended(p, tctx, standing, mono, enq_flags);
			return;
		}
	}
	if (is_smt && enq_flags & SCX_ENQ_LAST && went_to_core(p, tctx))
		return;
	/* ops.select_cpu() is not asked about tasks that have no choice, which on one CPU is all of them. */
	if ((enq_flags & (SCX_ENQ_WAKEUP | SCX_ENQ_CPU_SELECTED)) == SCX_ENQ_WAKEUP &&
	    (has_more_cpus() || bpf_get_current_task_btf()->flags & PF_IDLE) &&
	    scx_bpf_test_and_clear_cpu_idle(scx_bpf_task_cpu(p))) {
		tctx->lane = plain_lane(p, tctx);
		begins(scx_bpf_task_cpu(p), tctx, false);
		count_sched(CNT_DIRECT);
		insert_first(p, slice_ns, enq_flags);
		return;
	}
	enqueue_other(p, tctx, scx_bpf_now(), enq_flags);
}

/* What the other lanes had of this epoch's share, or were not in want of. */
static __always_inline u64 had_of_share(const struct cpu_ctx *cctx)
{
	return progress_had(cctx->rested_ns, cctx->epoch_start_ns, epoch_ns, cctx->other_ns, cctx->share_ns);
}

/* Starts a new epoch for this CPU when the old one is over; @runs_other: the CPU is at work for the other lanes. */
static __always_inline void turn_epoch(struct cpu_ctx *cctx, u32 domain, u64 now, bool runs_other)
{
	bool has_work;

	if (now - cctx->epoch_start_ns < epoch_ns)
		return;
	note_use(cctx, now - cctx->epoch_start_ns);
	has_work = runs_other || others_may_wait(domain) || may_hold_pinned(cctx) || overdue_waits(domain);
	/* A task that computes goes on with it in the next epoch. */
	cctx->computes &= has_work;
	cctx->share_ns = progress_next_share(epoch_ns, other_share_pct, cctx->share_ns, had_of_share(cctx), has_work);
	cctx->epoch_start_ns = now;
	cctx->other_ns = 0;
	cctx->kernel_ns = 0;
}

/* What the other lanes must get before attended work: their share of the epoch, and whoever waited too long. */
static __always_inline bool take_due(s32 cpu, struct cpu_ctx *cctx, u64 now, bool runs_other)
{
	cctx->overdue_until_ns = progress_overdue_until(cctx->overdue_until_ns, now, cctx->unpaid_ns);
	cctx->unpaid_ns = 0;
	if (!runs_other && !others_may_wait(domain_of(cpu)) && !may_hold_pinned(cctx) && !may_hold(RARE_OVERDUE | RARE_IDLE))
		cctx->rested_ns = now;
	else if (progress_owed(now, cctx->epoch_start_ns, epoch_ns, had_of_share(cctx), cctx->share_ns))
		return take_other(cpu, now, runs_other);
	return progress_overdue_fits(cctx->overdue_until_ns, now) && take_from_overdue(cpu, cctx);
}

/* Tasks that the present look went through. The verifier would try every value of a local variable. */
static u32 seen;

/* Most tasks of a queue among which a lifted one is looked for. */
#define LIFT_MAX 1024

/* Lifts, and threads with a new request, that were looked after. */
static u64 lifts_seen, moves_seen;

/* Gives tasks in @dsq that somebody waits for now their place among the attended: @pid, or, if that is 0, all that were lifted. */
__noinline int move_attended_from(u64 dsq, u64 pid, u64 mono)
{
	struct task_struct *p;

	seen = 0;
	bpf_for_each(scx_dsq, p, dsq, 0) {
		struct appease_process *process = try_process(p);
		bool is_one = policy == APPEASE_POLICY_APPEASE && pid;

		if (process && (is_one ? p->pid == pid : process->lift.until_ns)) {
			const struct standing *standing = judged(p, mono);

			if (standing && standing->attended) {
				struct task_ctx *tctx = try_task_ctx(p);
				u32 queue, domain;

				if (!tctx)
					continue;
				note_turn(p, tctx, standing, false);
				tctx->is_expected = 0;
				queue = fair_queue_of(tctx->turn_for);
				domain = attended_domain_of(scx_bpf_task_cpu(p));
				fair_catches_up(queue);
				fair_queue_fills(queue, domain, scx_bpf_now());
				scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, key_in_queue(standing->key, mono));
				scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, queue_in(DSQ_ATTENDED, domain, queue), 0);
			}
			if (is_one)
				break;
		}
		if (++seen >= LIFT_MAX)
			break;
	}
	return 0;
}

/* The same for the queues of @cpu alone. */
__noinline int move_lifted_on(u32 cpu, u64 mono)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	u32 i;

	bpf_for(i, 0, PINNED_QUEUES) {
		if (cctx && cctx->pinned >> i & 1)
			move_attended_from(pinned_queue(cpu, i), 0, mono);
	}
	return 0;
}

/* The same for all other queues of @domain. */
__noinline int move_lifted_in(u32 domain, u64 mono)
{
	struct party_look *look;
	u32 i, index;

	if (may_hold(RARE_IDLE))
		move_attended_from(queue_in(DSQ_IDLE, domain, 0), 0, mono);
	look = others_may_wait(domain) ? begin_party_look(domain) : NULL;
	if (!look)
		return 0;
	bpf_for(i, 0, PARTIES) {
		index = next_party(look);
		if (index >= PARTIES)
			break;
		move_attended_from(queue_in(DSQ_PARTIES, domain, index), 0, mono);
	}
	return 0;
}

/*
 * Moves tasks that hold what an attended one waits for from the queues of the other lanes to that of the attended, and a task
 * to its new place if somebody waits for it now, see place_anew(). Global, as are others that ops.dispatch() calls: the verifier looks
 * through them once, not for each state of who calls.
 */
__noinline int move_waiting_attended(void)
{
	u64 mono;
	u32 i;

	if (policy == APPEASE_POLICY_APPEASE && armed.moves != moves_seen) {
		moves_seen = armed.moves;
		move_attended_from(armed.moved_from, armed.moved_pid, bpf_ktime_get_ns());
	}
	if (!armed.serves || armed.lifts == lifts_seen)
		return 0;
	lifts_seen = armed.lifts;
	mono = bpf_ktime_get_ns();
	bpf_for(i, 0, nr_domains)
		move_lifted_in(i, mono);
	bpf_for(i, 0, has_more_cpus() ? nr_cpus : 0)
		move_lifted_on(i, mono);
	if (may_hold(RARE_BACKGROUND))
		move_attended_from(DSQ_BACKGROUND, 0, mono);
	return 0;
}

/*
 * Whether who waits in the background is to begin when an attended task goes to sleep: then the next event is farther away than when
 * it is overdue. Not sooner, for it may not let go of the CPU for milliseconds, and a closed loop's next request comes at once.
 */
static __always_inline bool background_is_late(u64 now)
{
	struct task_struct *first = may_hold(RARE_BACKGROUND) ? __COMPAT_scx_bpf_dsq_peek(DSQ_BACKGROUND) : NULL;
	struct task_ctx *tctx = first ? try_task_ctx(first) : NULL;

	return tctx && policy_before(tctx->queued_ns + longest_wait_ns / 4 * 3, now);
}

/* @cpu runs next what somebody waits for, or, if @is_plain, what nobody does. */
static __always_inline void goes_on_with(s32 cpu, struct cpu_ctx *cctx, bool is_plain)
{
	note_plain(cpu, cctx, is_plain);
	ask_clock(cpu, cctx, is_plain);
}

/* Whether the task of @tctx, of the other lane, still goes before all of the lane that wait, here or in the domain, at the end of its turn. */
static __always_inline bool goes_on_first(s32 cpu, const struct cpu_ctx *cctx, const struct task_ctx *tctx, u32 domain)
{
	bool waits_here = may_hold_pinned(cctx) && pinned_waits_for(cpu);

	if (others_may_wait(domain) ? !stays_first(tctx, domain) : !waits_here)
		return false;
	if (waits_here && pinned_goes_before(cpu, tctx))
		return false;
	return !may_hold_overdue(cctx) || goes_before_overdue(cpu, tctx);
}

void BPF_STRUCT_OPS(appease_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cpu_ctx *cctx = this_cpu_ctx();
	bool prev_runnable = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	struct task_ctx *tctx = NULL;
	struct standing *standing = new_standing(LOOK_NEXT);
	u64 now = scx_bpf_now(), mono, key;
	bool runs_other, pauses = false, is_attended = false;
	u32 first = 0, is_alone = 0, domain = domain_of(cpu);

	if (!cctx || !standing)
		return;
	if (skips_queues()) {
		plain_waiting = 0;
		gives_way = false;
		has_displaced = looks_behind_displaced = false;
	}
	if (prev)
		tctx = try_task_ctx(prev);
	if (tctx) {
		mono = mono_if_serving();
		if (mono && (prev_runnable || tctx->lane != APPEASE_LANE_KERNEL))
			judge(prev, mono, standing);
		charge(prev, tctx, mono, standing);
		/* The standing of a task that goes to sleep was asked for the charge alone. */
		is_attended = prev_runnable && standing->attended;
		if (cctx->woke_ns)
			note_waker(cctx, tctx, prev->pid, now, prev_runnable);
	}
	cctx->looked_ns = now;
	cctx->turn = 0;
	cctx->is_timed = 0;
	cctx->is_called = 0;
	cctx->aside_pid = 0;
	if (hands_turns_over() && *giver_of(cpu))
		settle_giver(cpu, prev);
	if (tctx && prev->flags & PF_EXITING && !prev_runnable)
		bequeath(prev, tctx);
	if (!prev_runnable) {
		if (tctx && tctx->lane == APPEASE_LANE_KERNEL)
			tctx->queued_ns = now;
		pauses = !tctx || tctx->lane == APPEASE_LANE_ATTENDED;
		if (tctx && tctx->handed_vtime && tctx->lane == APPEASE_LANE_OTHER)
			leave_owed(tctx);
		tctx = NULL;
	} else if (tctx && may_not_run(tctx)) {
		/* It is queued with its cgroup, even if no other task waits (SCX_OPS_ENQ_LAST). */
		prev_runnable = is_attended = false;
		tctx = NULL;
	}
	if (tctx && tctx->lane == APPEASE_LANE_OTHER)
		note_computes(cctx, tctx);
	runs_other = tctx && tctx->lane == APPEASE_LANE_OTHER;
	turn_epoch(cctx, domain, now, runs_other);
	move_waiting_attended();

	if (nr_domains == 1 && !is_attended && !cctx->kernel_waiting && !may_wait_in(domain, now) && !may_hold(RARE_BACKGROUND) &&
	    !may_hold_pinned(cctx)) {
		settle_stay(cpu, cctx);
		goes_on_with(cpu, cctx, true);
		goto goes_on;
	}
	if (policy == APPEASE_POLICY_CAS) {
		standing->attended = is_attended;
		key = find_unhappiest(cpu, cctx, prev, standing);
	} else {
		key = waiting_attended_key(cpu, domain, &first, &is_alone);
	}
	if (!key)
		settle_stay(cpu, cctx);
	if (take_kernel(cpu, cctx, key || is_attended, now)) {
		if (is_attended)
			cctx->aside_pid = prev->pid;
		note_plain(cpu, cctx, false);
		ask_clock(cpu, cctx, !key && !is_attended);
		return;
	}
	if (key || is_attended) {
		u32 own = fair_queue_of(tctx ? tctx->turn_for : 0);

		/* A modest customer's request goes on, too, when one of a customer who had more waits behind it. */
		if (!is_modest(first) && !(is_attended && is_modest(own)) && take_due(cpu, cctx, now, runs_other)) {
			cctx->turn = 1;
			goes_on_with(cpu, cctx, true);
			end_after(cpu, 0, PROGRESS_PIECE_NS);
			count_sched(CNT_SHARE_CALLED_IN);
			return;
		}
		/* When a slice ends, its task is not queued again yet: compare, and let the unhappier one go on. */
		if (is_attended && (!key || !displaces(first, key, own, standing->key))) {
			goes_on_with(cpu, cctx, false);
			scx_bpf_task_set_slice(prev, slice_ns);
			if (key)
				compare_soon(cpu, cctx, keeps_attended(first, key, own, standing));
			return;
		}
		if (policy == APPEASE_POLICY_CAS && take_unhappiest(cctx)) {
			goes_on_with(cpu, cctx, false);
			return;
		}
	}
	/* Also when its first may not run here: others behind it may. */
	if ((key && take_first_attended(attended_domain_of(cpu), first)) || take_attended(attended_domain_of(cpu)) ||
	    (nr_domains > 1 && !is_attended && take_attended_elsewhere(cpu, domain, now))) {
		settle_stay(cpu, cctx);
		goes_on_with(cpu, cctx, false);
		if (key && !is_alone)
			compare_soon(cpu, cctx, 0);
		return;
	}
	goes_on_with(cpu, cctx, !is_attended);
	if ((!is_serving() || (pauses && background_is_late(now))) && take(DSQ_BACKGROUND, RARE_BACKGROUND))
		return;
	/* Nobody as urgent waits, or another CPU was quicker: attended tasks and kernel threads go on. */
	if (is_attended ||
	    (tctx && tctx->lane == APPEASE_LANE_KERNEL && tctx->turn_ns < KTHREAD_PATIENCE_NS)) {
		scx_bpf_task_set_slice(prev, slice_ns);
		return;
	}
	if (nr_domains > 1 && runs_other && take_lagging(tctx->party, deadline_of(tctx), weight_of(prev)))
		return;
	if (runs_other && !is_overdue_due(cctx, domain, now) && goes_on_first(cpu, cctx, tctx, domain)) {
		scx_bpf_task_set_slice(prev, slice_ns);
		return;
	}
	if (take_other(cpu, now, runs_other))
		return;
	if (!knows_queues())
		note_empty(domain, now);
	/* It may not let go of the CPU for milliseconds, when the next event may come at any time. */
	if (!prev_runnable && take(DSQ_BACKGROUND, RARE_BACKGROUND))
		return;
	if (!prev_runnable) {
		if (nr_domains > 1)
			take_elsewhere(domain);
		return;
	}
goes_on:
	/* Else it is queued anew (SCX_OPS_ENQ_LAST). */
	if (prev_runnable && (!is_smt || !leaves_core(cpu, cctx, prev)))
		scx_bpf_task_set_slice(prev, slice_ns);
}

/*
 * On one CPU: whether the current task, attended, which a higher class displaces, may stay first in the CPU's own queue, for nobody
 * waits who would go before it. Who comes meanwhile has the CPU look at its queues soon after. A server with a realtime customer or
 * driver so goes on with its turn, and is not queued and taken out again.
 */
static __always_inline bool stays_displaced(struct cpu_ctx *cctx)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct standing *standing;
	struct task_ctx *tctx;
	u32 own, first = 0;
	u64 mono, key;

	/* Without a slice it is queued, and what is in the local queue is another one. */
	if (!skips_queues() || is_partial || policy == APPEASE_POLICY_CAS || nr_limits || !p->scx.slice || plain_may_wait() || cctx->kernel_waiting ||
	    !(p->scx.flags & SCX_TASK_QUEUED) || scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL) != 1)
		return false;
	mono = mono_if_serving();
	tctx = mono ? try_task_ctx(p) : NULL;
	standing = new_standing(LOOK_BESIDE);
	if (!tctx || !standing || tctx->lane != APPEASE_LANE_ATTENDED)
		return false;
	judge(p, mono, standing);
	charge(p, tctx, mono, standing);
	if (tctx->lane != APPEASE_LANE_ATTENDED || !standing->attended)
		return false;
	key = waiting_attended_key(0, 0, &first, NULL);
	if (key) {
		own = fair_queue_of(tctx->turn_for);
		if (displaces(first, key, own, standing->key))
			return false;
		compare_soon(0, cctx, keeps_attended(first, key, own, standing));
	}
	has_displaced = true;
	return true;
}

/*
 * A higher class takes the CPU. What it displaced, and what waits behind that, goes back to our queues: left in the
 * local one, it would run before anybody who is woken meanwhile. But an attended one alone may stay, see stays_displaced().
 *
 * SCX_OPS_ENQ_MIGRATION_DISABLED is set for this callback: up to 6.18 the entry to a BPF program disables migration of
 * the current task, which here is the very one that was displaced. Without the flag the kernel would take that for the
 * task's own state and leave it in the local queue, with a slice of 20 ms.
 */
void BPF_STRUCT_OPS(appease_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	struct cpu_ctx *cctx = this_cpu_ctx();

	if (cctx) {
		/* What was to end has ended. Else the CPU's timer would look for it as long as that class runs. */
		cctx->is_timed = 0;
		if (stays_displaced(cctx))
			return;
		cctx->releases = 1;
	}
	scx_bpf_reenqueue_local();
	if (cctx)
		cctx->releases = 0;
}

/*
 * A CPU goes idle. One that queued a task just now may have looked for an idle CPU before this one was known to be
 * idle; so this one looks once more. When it has a task again, the other lanes have wanted nothing by then.
 */
void BPF_STRUCT_OPS(appease_update_idle, s32 cpu, bool idle)
{
	u32 home = domain_of(cpu), i;
	u64 now = scx_bpf_now();
	struct cpu_ctx *own;

	if (!idle) {
		struct cpu_ctx *cctx = cpu_ctx_of(cpu);

		if (cctx)
			cctx->rested_ns = now;
		return;
	}
	if (!has_more_cpus())
		return;
	bpf_for(i, 0, nr_domains) {
		u32 domain = placement_near(home, i);

		if (may_wait_in(domain, now) && domain_waits_for(cpu, domain, now)) {
			scx_bpf_kick_cpu(cpu, 0);
			return;
		}
	}
	own = this_cpu_ctx();
	if (rare_waits_for(cpu, DSQ_BACKGROUND, RARE_BACKGROUND) || (own && may_hold_pinned(own) && pinned_waits_for(cpu)))
		scx_bpf_kick_cpu(cpu, 0);
}

/* @cpu is on. */
__noinline int join_domain(s32 cpu)
{
	struct domain *domain = domain_at(domain_of(cpu));
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	u32 bit = domain->nr_cpus;

	__sync_fetch_and_add(&domain->nr_online, 1);
	if (!cctx || cctx->has_bit || bit >= DOMAIN_CPUS)
		return 0;
	cctx->bit = bit;
	cctx->has_bit = 1;
	domain->cpus[bit % DOMAIN_CPUS] = cpu;
	domain->nr_cpus = bit + 1;
	return 0;
}

/* Without this and the next, hotplug would detach us. It shall, when the domain of @cpu is not known. */
void BPF_STRUCT_OPS(appease_cpu_online, s32 cpu)
{
	u32 number = (u32)cpu % CPUS_MAX;

	if (late_cpus[number / 64] & bit_of(number)) {
		scx_bpf_exit(SCX_ECODE_ACT_RESTART | SCX_ECODE_RSN_HOTPLUG, "CPU %d was off before", cpu);
		return;
	}
	join_domain(cpu);
}

/* Whether @p may run on @cpu, and on no other CPU that is on. */
static __always_inline bool is_stranded(struct task_struct *p, s32 cpu, const struct cpumask *online)
{
	const struct cpumask *allowed = p->cpus_ptr;
	s32 i;

	if (!bpf_cpumask_test_cpu(cpu, allowed))
		return false;
	bpf_for(i, 0, scx_bpf_nr_cpu_ids()) {
		if (i != cpu && bpf_cpumask_test_cpu(i, allowed) && bpf_cpumask_test_cpu(i, online))
			return false;
	}
	return true;
}

__noinline int release_stranded(u64 dsq, s32 cpu)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, dsq, 0) {
		if (is_stranded(p, cpu, online))
			scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_GLOBAL, 0);
	}
	scx_bpf_put_cpumask(online);
	return 0;
}

/* All that wait in a queue of one CPU alone, of which no other one takes. */
__noinline int release_all(u64 dsq)
{
	struct task_struct *p;

	bpf_for_each(scx_dsq, p, dsq, 0)
		scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_GLOBAL, 0);
	return 0;
}

/* All that wait in a domain. */
__noinline int release_domain(u32 index, s32 cpu)
{
	struct domain *domain = domain_at(index);
	u32 i;

	bpf_for(i, 0, FAIR_QUEUES) {
		if (domain->attended & bit_of(i))
			release_stranded(queue_in(DSQ_ATTENDED, index, i), cpu);
	}
	bpf_for(i, 0, PARTIES) {
		if (domain->party_waiting[word_of(i)] & bit_of(i))
			release_stranded(queue_in(DSQ_PARTIES, index, i), cpu);
	}
	release_stranded(queue_in(DSQ_IDLE, index, 0), cpu);
	release_stranded(queue_in(DSQ_OVERDUE, index, 0), cpu);
	return 0;
}

/*
 * @cpu asks us for tasks no more. The kernel gives those that may run nowhere else another CPU when it comes upon them, which
 * is in no queue of ours.
 */
void BPF_STRUCT_OPS(appease_cpu_offline, s32 cpu)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	u32 i;

	if (cctx)
		note_plain(cpu, cctx, false);
	__sync_fetch_and_add(&domain_at(domain_of(cpu))->nr_online, -1);
	bpf_for(i, 0, nr_domains)
		release_domain(i, cpu);
	release_all(queue_of_kernel(cpu));
	/* Last those that waited too long: a look may add to them meanwhile. */
	bpf_for(i, 1, PINNED_QUEUES + 1)
		release_all(pinned_queue(cpu, i % PINNED_QUEUES));
	release_stranded(DSQ_BACKGROUND, cpu);
	leaving_cpu = cpu;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(appease_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE), *parent;
	struct task_struct *current = bpf_get_current_task_btf();
	struct party *party;
	u64 ran;

	if (!tctx)
		return -ENOMEM;
	tctx->lane = APPEASE_LANE_OTHER;
	tctx->burst_ns = is_kthread(p) ? 0 : slice_ns;
	if (bpf_core_field_exists(args->cgroup))
		tctx->group = group_of(args->cgroup);
	party = try_party(tctx->group);
	tctx->party = tctx->group;
	tctx->vtime = party ? party->clock : 0;
	if (policy == APPEASE_POLICY_CAS && args->fork && p->pid == p->tgid && is_serving()) {
		tctx->made_ns = bpf_ktime_get_ns();
		tctx->start_ns = SHARE_START_NS;
	}
	if (args->fork && (parent = try_task_ctx(current))) {
		tctx->spent_for = parent->spent_for;
		tctx->followed_ns = parent->followed_ns;
		if (parent->group != tctx->group)
			return 0;
		tctx->party = parent->party;
		tctx->vtime = parent->vtime;
		/* With what it has run since it was charged last, if it is ours. */
		ran = current->se.sum_exec_runtime - parent->ran_ns;
		if (current->scx.flags & SCX_TASK_QUEUED)
			tctx->vtime += vtime_for(current, ran < slice_ns ? ran : slice_ns);
		party = try_party(tctx->party);
		if (party && current->scx.flags & SCX_TASK_QUEUED)
			tctx->vtime = take_over(party, tctx->vtime, party->clock);
		parent->handed_vtime = tctx->vtime;
	}
	return 0;
}

void BPF_STRUCT_OPS(appease_enable, struct task_struct *p)
{
	struct task_ctx *tctx = try_task_ctx(p);
	struct party *party = tctx ? try_party(tctx->party) : NULL;

	if (may_be_heir(p))
		tell_heir(p);
	if (!tctx || !party)
		return;
	tctx->ran_ns = p->se.sum_exec_runtime;
	tctx->vtime = progress_start(tctx->vtime, clock_in(party, tctx->party, domain_of(scx_bpf_task_cpu(p))), vtime_for(p, slice_ns));
}

void BPF_STRUCT_OPS(appease_cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	struct task_ctx *tctx = try_task_ctx(p);

	if (tctx)
		tctx->group = group_of(to);
}

/* It ends, or goes to another class: what it ran here is not lost, what it runs there does not count. */
void BPF_STRUCT_OPS(appease_disable, struct task_struct *p)
{
	struct task_ctx *tctx = try_task_ctx(p);
	struct standing standing = {};

	if (tctx)
		charge_to(p, tctx, 0, &standing, false);
}

void BPF_STRUCT_OPS(appease_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct task_ctx *tctx = try_task_ctx(p);
	struct appease_command *command, fresh = {};
	char comm[APPEASE_COMM_LEN];
	u32 lane;

	if (!tctx || args->cancelled)
		return;
	bpf_probe_read_kernel(comm, sizeof(comm), p->comm);
	command = bpf_map_lookup_elem(&commands, comm);
	if (!command) {
		bpf_map_update_elem(&commands, comm, &fresh, BPF_NOEXIST);
		command = bpf_map_lookup_elem(&commands, comm);
		if (!command)
			return;
	}
	for (lane = 0; lane < APPEASE_NR_LANES; lane++)
		__sync_fetch_and_add(&command->lane_ns[lane], tctx->lane_ns[lane]);
}

static __always_inline s32 init_timers(void)
{
	s32 err;
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		if ((err = init_cpu_timer(i)) || (err = init_stay_timer(i)))
			return err;
		if (policy == APPEASE_POLICY_APPEASE && (err = init_compare_timer(i)))
			return err;
	}
	bpf_for(i, 0, nr_domains) {
		if ((err = init_move_timer(i)))
			return err;
	}
	return 0;
}

/* Tells the domains which CPUs are on. */
__noinline int init_domains(void)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	u32 cpu;

	bpf_for(cpu, 0, nr_cpus) {
		if (bpf_cpumask_test_cpu(cpu, online))
			join_domain(cpu);
	}
	scx_bpf_put_cpumask(online);
	return 0;
}

__noinline s32 create_queue(u64 dsq)
{
	return scx_bpf_create_dsq(dsq, -1);
}

__noinline s32 create_queues(u32 domain)
{
	s32 err = 0;
	u32 i;

	bpf_for(i, 0, FAIR_QUEUES)
		err |= create_queue(queue_in(DSQ_ATTENDED, domain, i));
	bpf_for(i, GROUPS, PARTIES)
		err |= create_queue(queue_in(DSQ_PARTIES, domain, i));
	err |= create_queue(queue_in(DSQ_PARTIES, domain, 0));
	err |= create_queue(queue_in(DSQ_IDLE, domain, 0));
	return err | create_queue(queue_in(DSQ_OVERDUE, domain, 0));
}

s32 BPF_STRUCT_OPS_SLEEPABLE(appease_init)
{
	s32 err = 0;
	u32 i;

	bpf_for(i, 0, nr_domains)
		err |= create_queues(i);
	bpf_for(i, 0, nr_cpus)
		err |= create_queue(queue_of_kernel(i));
	bpf_for(i, 0, has_more_cpus() ? nr_cpus * PINNED_QUEUES : 0)
		err |= create_queue(pinned_queue(0, i));
	if (err || (err = create_queue(DSQ_BACKGROUND)))
		return err;
	init_domains();
	if ((err = init_timers()) || (err = init_look_timer()) || (err = init_limit_timer()))
		return err;
	return start_scans();
}

void BPF_STRUCT_OPS(appease_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(appease_ops,
	       .select_cpu	= (void *)appease_select_cpu,
	       .enqueue		= (void *)appease_enqueue,
	       .dispatch	= (void *)appease_dispatch,
	       .cpu_release	= (void *)appease_cpu_release,
	       .update_idle	= (void *)appease_update_idle,
	       .cpu_online	= (void *)appease_cpu_online,
	       .cpu_offline	= (void *)appease_cpu_offline,
	       .init_task	= (void *)appease_init_task,
	       .enable		= (void *)appease_enable,
	       .disable		= (void *)appease_disable,
	       .exit_task	= (void *)appease_exit_task,
	       .cgroup_init	= (void *)appease_cgroup_init,
	       .cgroup_exit	= (void *)appease_cgroup_exit,
	       .cgroup_move	= (void *)appease_cgroup_move,
	       .cgroup_set_weight = (void *)appease_cgroup_set_weight,
	       .cgroup_set_bandwidth = (void *)appease_cgroup_set_bandwidth,
	       .cgroup_set_idle	= (void *)appease_cgroup_set_idle,
	       .init		= (void *)appease_init,
	       .exit		= (void *)appease_exit,
	       .flags		= SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_MIGRATION_DISABLED | SCX_OPS_KEEP_BUILTIN_IDLE,
	       .name		= "appease");
