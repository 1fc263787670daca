/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The other and the idle lane: how tasks queue up that serve no customer, and which one is next (policy/progress.h,
 * policy/party.h).
 */
#ifndef APPEASE_OTHERS_BPF_H
#define APPEASE_OTHERS_BPF_H

#include "handover.bpf.h"
#include "pinned.bpf.h"
#include "spenders.bpf.h"

/* Moves a task to the clock of the party at @index. It takes along its lead, up to a slice. */
static __always_inline struct party *join_party(struct task_ctx *tctx, u32 index)
{
	struct party *party = try_party(index), *former;
	u64 lead;

	if (!party || tctx->party == index)
		return party;
	former = try_party(tctx->party);
	lead = former && policy_before(former->clock, tctx->vtime) ? tctx->vtime - former->clock : 0;
	tctx->vtime = party->clock + (lead < slice_ns ? lead : slice_ns);
	tctx->party = index;
	return party;
}

/* Virtual time that @waker hands on now. 0: none. A kernel thread has that of the task for which it works. */
__noinline u64 hands_on(struct task_struct *waker __arg_trusted, struct task_ctx *wctx __arg_nonnull, u64 now)
{
	if (wctx->lane == APPEASE_LANE_OTHER)
		wctx->handed_vtime = wctx->vtime + vtime_for(waker, ran_since(waker, wctx, now));
	else if (wctx->lane != APPEASE_LANE_KERNEL)
		return 0;
	return wctx->handed_vtime;
}

/*
 * A kernel thread wakes up. If a task of the other lane gives it work, as one that writes to a
 * terminal does, the thread hands the task's virtual time on to the next one.
 */
__noinline int works_for_waker(struct task_ctx *tctx __arg_nonnull)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	struct task_ctx *wctx = try_task_ctx(waker);

	tctx->handed_vtime = 0;
	/* Of another lane, or class: nothing is handed on. */
	if (!wctx || wctx->lane == APPEASE_LANE_ATTENDED || waker->prio < MAX_RT_PRIO || is_interrupt())
		return 0;
	tctx->handed_vtime = hands_on(waker, wctx, scx_bpf_now());
	if (tctx->handed_vtime)
		tctx->party = wctx->party;
	return 0;
}

/*
 * @vtime of @p, with the lead that its waker hands on if both are of one party. An interrupt hands
 * nothing on, @is_called: the task that it interrupts is not the waker. *@by: that of a waker in the lane.
 */
static __always_inline u64 handed_on(struct task_struct *p, const struct task_ctx *tctx, struct party *party, u32 domain, u64 vtime,
				     u64 now, bool is_called, struct task_ctx **by)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	struct task_ctx *wctx = waker == p || is_called ? NULL : try_task_ctx(waker);
	u64 handed, clock;

	if (!wctx || wctx->party != tctx->party)
		return vtime;
	handed = hands_on(waker, wctx, now);
	if (!handed)
		return vtime;
	if (hands_turns_over() && wctx->lane == APPEASE_LANE_OTHER)
		*by = wctx;
	clock = clock_of_both(party, tctx->party, domain);
	return take_over(party, progress_handed_on(vtime, handed, clock, slice_ns), clock);
}

/* A task has gone to sleep that woke another one in this turn. */
__noinline int leave_owed(struct task_ctx *tctx __arg_nonnull)
{
	struct party *party = try_party(tctx->party);
	u64 left;

	if (party) {
		left = progress_leaves(tctx->vtime, tctx->handed_vtime, clock_here(party, tctx->party), slice_ns);
		if (left)
			owe(party, left);
	}
	tctx->handed_vtime = 0;
	return 0;
}

/* Queues @p among the overdue tasks of @domain. */
static __always_inline void enqueue_overdue(struct task_struct *p, u32 domain, u64 enq_flags)
{
	rare_fills(RARE_OVERDUE);
	scx_bpf_dsq_insert(p, queue_in(DSQ_OVERDUE, domain, 0), slice_ns, enq_flags);
}

/* Queues @p, whose party is lost, among the overdue tasks. */
static __always_inline int enqueue_lost(struct task_struct *p, u64 enq_flags)
{
	enqueue_overdue(p, domain_of(scx_bpf_task_cpu(p)), enq_flags);
	return 0;
}

/* Queues @p, which was overdue and lost its turn (progress_lost_turn()), before all others of its @domain that are, or of its CPU. */
static __always_inline void enqueue_overdue_again(struct task_struct *p, u32 domain, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cpu_ctx *cctx = has_more_cpus() && p->nr_cpus_allowed == 1 ? cpu_ctx_of(cpu) : NULL;

	if (!cctx) {
		enqueue_overdue(p, domain, enq_flags | SCX_ENQ_HEAD);
		return;
	}
	__sync_fetch_and_or(&cctx->pinned, 1);
	scx_bpf_dsq_insert(p, pinned_queue(cpu, 0), slice_ns, enq_flags | SCX_ENQ_HEAD);
}

/*
 * Whether @p, which wakes up at @vtime in @party, the one at @index, comes to a crowd in @domain: another task wakes it, an interrupt does not,
 * as many of the party wait as there are CPUs, and it is not behind their clock.
 *
 * Such a one has the deadline of a whole turn, and displaces nobody. By what it is likely to want, which is little, it would have a CPU
 * at once, find one message, and sleep again. While it waits more is sent, and it reads that, too. (Processes of hackbench beside four hogs on
 * four CPUs slept 3.4 times as often as under EEVDF, and took 1.1 times as long as they do so.) Who wants less than its part is behind the
 * clock, and has it at once. On a CPU that shares its cache with none the turns before its own are those of that CPU, too many to wait for.
 */
static __always_inline bool comes_to_crowd(const struct task_struct *p, const struct party *party, u32 index, u32 domain, u64 vtime)
{
	s32 cpus = domain_at(domain)->nr_online;

	return has_more_cpus() && cpus > 1 && p->nr_cpus_allowed > 1 && !policy_before(vtime + PROGRESS_MARGIN_NS, party->clock) &&
	       scx_bpf_dsq_nr_queued(queue_in(DSQ_PARTIES, domain, index)) >= cpus;
}

/* Queues @p in @party, the one at @index, by @deadline, and in a domain, or on its CPU. */
static __always_inline void enqueue_in_party(struct task_struct *p, struct task_ctx *tctx, struct party *party, u32 index, u32 domain,
					     u64 deadline, u64 credit, u64 now, u64 enq_flags)
{
	if (has_more_cpus() && p->nr_cpus_allowed == 1 && enqueue_pinned(p, tctx, index, credit, enq_flags))
		return;
	party_fills(party, index, domain_at(domain), credit, now);
	scx_bpf_dsq_insert_vtime(p, queue_in(DSQ_PARTIES, domain, index), slice_ns, deadline, enq_flags);
}

/*
 * The domain in which @p waits: that of its CPU. At the end of a turn, another one that has less to do
 * (share_out() in scans.bpf.h).
 */
static __always_inline u32 domain_for(struct task_struct *p, const struct task_ctx *tctx, u64 enq_flags)
{
	u32 home = domain_of(scx_bpf_task_cpu(p));
	struct domain *domain = domain_at(home), *other;
	u32 gives = domain->gives, most = domain->most_waiting;

	if (nr_domains == 1 || !placement_leaves(enq_flags & SCX_ENQ_WAKEUP, gives) || tctx->party >= PARTIES ||
	    !placement_spares(scx_bpf_dsq_nr_queued(queue_in(DSQ_PARTIES, home, tctx->party)), most))
		return home;
	other = domain_at(domain->gives_to);
	if (!other->nr_cpus || !bpf_cpumask_test_cpu(other->cpus[bpf_get_prandom_u32() % other->nr_cpus % DOMAIN_CPUS], p->cpus_ptr))
		return home;
	/* Two CPUs at once may give one too many; counted down in place, they would pass zero. */
	domain->gives = gives - 1;
	domain->most_waiting = most ? most - 1 : 0;
	return domain->gives_to;
}

/* To save power: whether plain tasks of @domain have waited for a CPU for as long as a turn, without a pause. */
static __always_inline bool is_full(struct domain *domain, u32 index, u64 now)
{
	if (others_may_wait(index))
		return now - domain->packed_ns >= slice_ns;
	domain->packed_ns = now;
	return false;
}

/*
 * To save power: whether @p waits where it ran. A kernel thread has its CPU for a moment, or its turn is over and none waits for long. What
 * makes way for attended work, or for a higher class, goes on elsewhere.
 */
static __always_inline bool stays_packed(struct task_struct *p, u32 index, u64 now, u64 enq_flags)
{
	struct cpu_ctx *cctx = enq_flags & SCX_ENQ_REENQ ? NULL : cpu_ctx_of(scx_bpf_task_cpu(p));

	return cctx && cctx->is_plain && !is_full(domain_at(index), index, now);
}

/* Queues @p in the other or the idle lane, or in place of who had more than its part. */
__noinline int enqueue_other(struct task_struct *p __arg_trusted, struct task_ctx *tctx __arg_nonnull, u64 now, u64 enq_flags)
{
	/* Who says that it is batch work is in no hurry when it wakes up. */
	bool hurries = p->policy != SCHED_BATCH_POLICY;
	u32 lane = plain_lane(p, tctx), index, domain;
	bool wakes_up = enq_flags & SCX_ENQ_WAKEUP, is_called = wakes_up && is_interrupt(), stays = false, lost;
	struct task_ctx *by = NULL;
	u64 credit = hurries ? slice_ns : 0, lag = credit, vtime, deadline, left;
	struct party *party;
	s32 cpu;

	left = stays_behind_kernel(p, now, enq_flags);
	if (left) {
		tctx->lane = lane;
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, left, enq_flags);
		return 0;
	}
	domain = domain_for(p, tctx, enq_flags);
	if (packs)
		stays = wakes_up ? tctx->packed : stays_packed(p, domain, now, enq_flags);
	index = lane == APPEASE_LANE_IDLE ? PARTY_IDLE : tctx->spent_for ? spender_of(tctx->spent_for, tctx->group) : tctx->group;
	party = join_party(tctx, index);

	if (!party)
		return enqueue_lost(p, enq_flags);
	/* What its domain is behind is not forgiven at the end of a turn. */
	if (nr_domains > 1) {
		u64 most = vtime_for(p, PLACEMENT_LAG_NS);

		lag = wakes_up ? lag : most;
		/* Few are so far ahead, and the domain's clock asks for a look at a queue. */
		if (policy_before(party->clock + most, tctx->vtime))
			tctx->vtime = placement_ahead(tctx->vtime, clock_in(party, index, domain), most);
	}
	vtime = progress_catch_up(tctx->vtime, party->clock, lag);
	if (wakes_up)
		vtime = handed_on(p, tctx, party, domain, vtime, now, is_called, &by);
	tctx->vtime = vtime;
	/* For the turn that is over it waits now. */
	if (!wakes_up && tctx->handed_vtime)
		tctx->handed_vtime = vtime;
	tctx->lane = lane;
	count_sched(CNT_OTHER);
	lost = !wakes_up && tctx->queued_ns && now - tctx->queued_ns >= longest_wait_ns && !is_kthread(p);
	/* Once: or who yields after a moment would have a turn again and again. */
	tctx->queued_ns = now;
	if (lost) {
		enqueue_overdue_again(p, domain, enq_flags);
		return 0;
	}
	if (lane == APPEASE_LANE_IDLE) {
		rare_fills(RARE_IDLE);
		scx_bpf_dsq_insert_vtime(p, queue_in(DSQ_IDLE, domain, 0), slice_ns, vtime, enq_flags);
		kick_idle(p);
		return 0;
	}
	if (hands_turns_over() && hurries && wakes_up && by && hands_over(p, tctx, by, index, now, enq_flags))
		return 0;
	if (skips_queues() && hurries && wakes_up) {
		/* No attended task waits: @p takes the CPU without ops.dispatch(). A party that had even less waits for this turn. */
		if (!domain_at(domain)->attended) {
			party_wants(party, index, domain_at(domain), credit);
			if (displaces_on(0, tctx, now, is_called, true)) {
				count_sched(CNT_DISPLACED);
				insert_first(p, slice_ns, enq_flags | SCX_ENQ_PREEMPT);
				return 0;
			}
			hurries = false;
		}
	}
	/*
	 * At the end of a turn it has wanted the CPU all the time, and what it lacks is its own, as far as parties keep it. Not if none of its tasks
	 * queued up for as long: then it slept, and came to this turn past the queues.
	 */
	if (!wakes_up && policy_before(now, party->used_ns + PLACEMENT_LAG_NS))
		credit = placement_party_lag(slice_ns, nr_cpus);
	deadline = deadline_of(tctx);
	if (wakes_up && !is_called && comes_to_crowd(p, party, index, domain, vtime)) {
		deadline = vtime + slice_ns;
		hurries = false;
	}
	enqueue_in_party(p, tctx, party, index, domain, deadline, credit, now, enq_flags);
	cpu = hurries && wakes_up ? displaces_other(p, tctx, domain, now, is_called) : -1;
	if (cpu >= 0) {
		/* Not by the CPU's local queue, where it would go before attended tasks, too. */
		count_sched(CNT_DISPLACED);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		return 0;
	}
	/* The CPU that it is packed on looks for the next task when its work is over; it may be so by now. */
	if (stays)
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_IDLE);
	else
		call_near(p, domain);
	return 0;
}

/* Queues @p, which a limit keeps from running, in the party of its cgroup, whatever its lane. */
__noinline int enqueue_limited(struct task_struct *p __arg_trusted, struct task_ctx *tctx __arg_nonnull, u64 now, u64 enq_flags)
{
	u32 index = tctx->group;
	struct party *party = join_party(tctx, index);

	if (!party || index >= GROUPS)
		return enqueue_lost(p, enq_flags);
	tctx->vtime = progress_catch_up(tctx->vtime, party->clock, slice_ns);
	tctx->lane = APPEASE_LANE_OTHER;
	tctx->queued_ns = now;
	count_sched(CNT_LIMITED);
	enqueue_in_party(p, tctx, party, index, domain_of(scx_bpf_task_cpu(p)), deadline_of(tctx), slice_ns, now,
			 enq_flags);
	return 0;
}

/*
 * On one CPU, turns of the other lane between two looks whether its queue is empty. Turned up, the
 * look costs less, and a queue counts as filled for longer. An odd number: when two tasks take
 * turns, the queue is empty only after one of them.
 */
#define LOOK_EACH_TURNS 17
static u32 turns;

/*
 * This CPU is to go on with a task of the party at @index, with @deadline and @weight. Takes one from
 * another domain in its place, if that had so much less.
 */
__noinline bool take_lagging(u32 index, u64 deadline, u32 weight)
{
	u32 there = other_domain(domain_here()), weight_there;
	struct task_struct *first = first_of(index, there);

	if (!first)
		return false;
	weight_there = weight_of(first);
	if (!placement_goes_before(first->scx.dsq_vtime, deadline,
				   progress_charge(PLACEMENT_DUE_NS, weight < weight_there ? weight : weight_there)))
		return false;
	if (!bpf_cpumask_test_cpu(bpf_get_smp_processor_id(), first->cpus_ptr))
		return false;
	return scx_bpf_dsq_move_to_local(queue_in(DSQ_PARTIES, there, index), 0);
}

/*
 * Takes the first task of the party at @index in @domain that may run here. If @moves_at is not 0, only one that is to be moved to another
 * domain by then.
 */
__noinline bool take_of(u32 domain, u32 index, u64 moves_at)
{
	u64 queue = queue_in(DSQ_PARTIES, domain, index);
	struct task_struct *first = first_of(index, domain);
	struct task_ctx *tctx = first ? try_task_ctx(first) : NULL;
	struct party *party = try_party(index);

	if (moves_at && !may_move(tctx, moves_at))
		return false;
	if (nr_domains > 1 && first && domain == domain_here() && take_lagging(index, first->scx.dsq_vtime, weight_of(first)))
		return true;
	if (party && tctx)
		party_comes_to(party, index, domain, tctx->vtime);
	if (!first || !scx_bpf_dsq_move_to_local(queue, 0)) {
		party_is_empty(index);
		return false;
	}
	/* It may have been the last one. A look at each turn would cost more than it saves. */
	if (knows_queues() && !(++turns % LOOK_EACH_TURNS) && !scx_bpf_dsq_nr_queued(queue))
		party_is_empty(index);
	return true;
}

/*
 * No party waits in @domain. What the party that this CPU ran last had beyond others took nothing from them: the clock goes with it, as
 * charge_party() has it go where no other party is known to wait. Left behind, it would give a party that was asleep while CPUs were
 * idle all of them, for as long as it takes to draw level.
 */
static __always_inline void note_alone(u32 domain)
{
	struct cpu_ctx *cctx = this_cpu_ctx();
	struct party *party = cctx && domain == domain_here() ? try_party(cctx->ran_in) : NULL;

	if (party)
		advance_clock(domain_at(domain), party->vtime);
}

/* Takes a task of the party with the smallest virtual time in @domain, see take_of(). */
__noinline bool take_party(u32 domain, u64 moves_at)
{
	bool waits = false, is_own = has_more_cpus() && domain == domain_here();
	struct party_look *look;
	u32 i, index;

	if (!others_may_wait(domain))
		return false;
	if (is_only_root(domain)) {
		if ((is_own && take_pinned(0)) || take_of(domain, 0, moves_at))
			return true;
		waits = scx_bpf_dsq_nr_queued(queue_in(DSQ_PARTIES, domain, 0)) > 0;
	} else {
		look = begin_party_look(domain);
		if (!look)
			return false;
		bpf_for(i, 0, PARTIES) {
			index = next_party(look);
			if (index >= PARTIES)
				break;
			waits = true;
			/* Not at each look: the running task may be of a party that had less, and go on. */
			advance_clock(domain_at(domain), look->vtime);
			if ((is_own && take_pinned(index)) || take_of(domain, index, moves_at))
				return true;
		}
	}
	if (!waits)
		note_alone(domain);
	return false;
}

/*
 * Takes a task of the party that goes next in one other domain, if it is due here. The clock there stands where a party was last
 * chosen, and those that wait may be farther.
 */
__noinline bool take_behind(u32 here)
{
	u32 there = other_domain(here), index;
	struct domain *own = domain_at(here), *other = domain_at(there);
	struct party *party;

	if (own->vain & bit_of(there) || !placement_is_due(other->clock, own->clock, nr_domains))
		return false;
	index = first_party(there);
	party = index < PARTIES ? try_party(index) : NULL;
	if (party) {
		advance_clock(other, party->vtime);
		if (!placement_is_due(party->vtime, own->clock, nr_domains))
			return false;
		if (take_of(there, index, 0))
			return true;
	}
	/* None waits, or none may run here. Until the next look no CPU of this domain tries again. */
	__sync_fetch_and_or(&own->vain, bit_of(there));
	return false;
}

/* Has this CPU run the first task in @dsq, which is @queue, that may. */
static __always_inline bool take(u64 dsq, enum rare queue)
{
	if (!may_hold(queue))
		return false;
	if (scx_bpf_dsq_move_to_local(dsq, 0))
		return true;
	rare_is_empty(queue);
	return false;
}

/* Whether an overdue task waits in @domain. */
static __always_inline bool overdue_waits(u32 domain)
{
	return may_hold(RARE_OVERDUE) && scx_bpf_dsq_nr_queued(queue_in(DSQ_OVERDUE, domain, 0)) > 0;
}

/* Whether an overdue task may go first. */
static __always_inline bool is_overdue_due(const struct cpu_ctx *cctx, u32 domain, u64 now)
{
	return !policy_before(now, cctx->next_overdue_ns) &&
	       (overdue_waits(domain) || may_hold_pinned_overdue(cctx));
}

/* Takes an overdue task: of the domain, or one that waits for @cpu alone, by turns. */
static __always_inline bool take_from_overdue(s32 cpu, struct cpu_ctx *cctx)
{
	u64 queue = queue_in(DSQ_OVERDUE, domain_of(cpu), 0);

	if (!may_hold_pinned_overdue(cctx))
		return take(queue, RARE_OVERDUE);
	cctx->pinned_turn = !cctx->pinned_turn;
	return (cctx->pinned_turn && take_pinned_overdue(cpu)) || take(queue, RARE_OVERDUE) || take_pinned_overdue(cpu);
}

/*
 * Takes an overdue task for a short turn. Overdue tasks have a part of the lane and no more, or a
 * crowd of little weight would have all of it.
 */
static __always_inline bool take_overdue(s32 cpu, struct cpu_ctx *cctx, u64 now)
{
	u32 domain = domain_of(cpu);

	if (!is_overdue_due(cctx, domain, now) || !take_from_overdue(cpu, cctx))
		return false;
	cctx->next_overdue_ns = progress_next_overdue(cctx->next_overdue_ns, now, slice_ns);
	end_after(cpu, 0, PROGRESS_TURN_NS);
	return true;
}

/* Whether any may, here. */
static __always_inline bool may_hold_overdue(const struct cpu_ctx *cctx)
{
	return may_hold(RARE_OVERDUE) || may_hold_pinned_overdue(cctx);
}

/* Whether the overdue task of @tctx goes before those that wait in the queue of the party at @index, which begins with @first; PARTIES: none. */
static __always_inline bool overdue_goes_before_party(const struct task_ctx *tctx, u32 index, const struct task_struct *first)
{
	if (index >= PARTIES)
		return true;
	if (index != tctx->party)
		return had_less(tctx->party, index);
	return !first || !policy_before(first->scx.dsq_vtime, deadline_of(tctx));
}

/* Whether the first task in @dsq, of overdue ones, goes before all that wait in order for @cpu, this one, or in its domain. */
static __noinline bool overdue_is_first(s32 cpu, u64 dsq)
{
	struct task_struct *p = __COMPAT_scx_bpf_dsq_peek(dsq);
	struct task_ctx *tctx = p ? try_task_ctx(p) : NULL;
	struct cpu_ctx *cctx = this_cpu_ctx();
	u32 domain = domain_of(cpu), index = tctx ? tctx->party : PARTIES;
	struct party *party = try_party(index);

	if (!tctx || !cctx || !party || index >= PARTIES || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		return false;
	if (nr_limits && is_limited(group_behind(index, party), scx_bpf_now()))
		return false;
	index = first_party(domain);
	if (!overdue_goes_before_party(tctx, index, index < PARTIES ? first_of(index, domain) : NULL))
		return false;
	if (!may_hold_pinned(cctx))
		return true;
	index = first_pinned(cctx, cpu);
	return overdue_goes_before_party(tctx, index, index < PARTIES ? __COMPAT_scx_bpf_dsq_peek(pinned_queue(cpu, cctx->pinned_next)) : NULL);
}

/* Overdue tasks that wait for @cpu, this one. Those that wait for it alone have no other: each counts as one for each CPU of the domain. */
static __always_inline s32 overdue_waiting(s32 cpu, const struct cpu_ctx *cctx)
{
	u32 domain = domain_of(cpu);
	s32 waiting = scx_bpf_dsq_nr_queued(queue_in(DSQ_OVERDUE, domain, 0));

	if (may_hold_pinned_overdue(cctx))
		waiting += scx_bpf_dsq_nr_queued(pinned_queue(cpu, 0)) * (s32)domain_at(domain)->nr_online;
	return waiting;
}

/* One of @waiting overdue tasks begins: its turn lets all of them run in time. */
static __always_inline void end_in_time(s32 cpu, s32 waiting)
{
	u64 time_ns = longest_wait_ns * domain_at(domain_of(cpu))->nr_online;

	if (waiting > 0 && time_ns / waiting < slice_ns)
		end_after(cpu, 0, progress_crowd_turn(time_ns, waiting));
}

/*
 * Takes an overdue task that is the next one by the order of the lane, too. With the part alone that all overdue tasks have, a task of a crowd
 * that has just run would be before those that have waited for long.
 */
__noinline bool take_owed_overdue(s32 cpu)
{
	struct cpu_ctx *cctx = this_cpu_ctx();
	u64 queue = queue_in(DSQ_OVERDUE, domain_of(cpu), 0);
	s32 waiting;

	if (!cctx)
		return false;
	waiting = overdue_waiting(cpu, cctx);
	if (!(may_hold_pinned_overdue(cctx) && overdue_is_first(cpu, pinned_queue(cpu, 0)) && take_pinned_overdue(cpu)) &&
	    !(may_hold(RARE_OVERDUE) && overdue_is_first(cpu, queue) && scx_bpf_dsq_move_to_local(queue, 0)))
		return false;
	end_in_time(cpu, waiting);
	return true;
}

/* Takes an overdue task when no other task waits in the lane. */
static __always_inline bool take_any_overdue(s32 cpu, struct cpu_ctx *cctx)
{
	s32 waiting;

	if (!may_hold_overdue(cctx))
		return false;
	waiting = overdue_waiting(cpu, cctx);
	if (!take_from_overdue(cpu, cctx))
		return false;
	end_in_time(cpu, waiting);
	return true;
}

/* Takes a task of a party of any other domain than @here that has waited there for long enough. */
__noinline bool take_party_elsewhere(u32 here, u64 now)
{
	u32 i, there;

	bpf_for(i, 1, nr_domains) {
		there = placement_near(here, i) % DOMAINS;
		if (others_may_wait(there) && take_party(there, now)) {
			call_next(domain_at(here));
			return true;
		}
	}
	return false;
}

/*
 * Takes the next task of the other lanes: an overdue one, one of the next party, one of the idle
 * lane. Not of the idle lane if the CPU comes from a task of the other one, which is not queued yet.
 */
__noinline bool take_other(s32 cpu, u64 now, bool runs_other)
{
	struct cpu_ctx *cctx = this_cpu_ctx();
	u32 domain = domain_of(cpu);

	if (!cctx)
		return false;
	if (take_overdue(cpu, cctx, now))
		return true;
	if (nr_domains > 1 && take_behind(domain))
		return true;
	if (may_hold_overdue(cctx) && take_owed_overdue(cpu))
		return true;
	if (take_party(domain, 0) || (may_hold_pinned(cctx) && take_pinned(PARTIES)) || take_any_overdue(cpu, cctx))
		return true;
	if (runs_other)
		return false;
	return (nr_domains > 1 && take_party_elsewhere(domain, now)) || take(queue_in(DSQ_IDLE, domain, 0), RARE_IDLE);
}

/* Takes what no CPU of another domain has come to: attended tasks and parties were looked for before. */
__noinline bool take_elsewhere(u32 here)
{
	u32 i, there;

	bpf_for(i, 1, nr_domains) {
		there = placement_near(here, i) % DOMAINS;
		if (take(queue_in(DSQ_OVERDUE, there, 0), RARE_OVERDUE) || take(queue_in(DSQ_IDLE, there, 0), RARE_IDLE))
			return true;
	}
	return false;
}

/* Whether a task of the other lane, at the end of its turn, still goes before all that wait. */
__noinline bool stays_first(const struct task_ctx *tctx __arg_nonnull, u32 domain)
{
	struct task_struct *first;
	u32 index;

	/* It was of the idle lane until now, which has no part. */
	if (tctx->party >= PARTIES)
		return false;
	index = first_party(domain);
	first = index == tctx->party ? first_of(index, domain) : NULL;
	/* Its own party had least, but nobody else of it waits. */
	if (!first && knows_queues() && index == tctx->party) {
		party_is_empty(index);
		index = first_party(domain);
	}
	if (index >= PARTIES)
		return false;
	if (index != tctx->party)
		return had_less(tctx->party, index);
	return first && policy_before(deadline_of(tctx), first->scx.dsq_vtime);
}

/* Whether the task of @tctx, which has the CPU, goes before the first in @dsq, of overdue tasks, at the end of its turn. */
static __noinline bool goes_before_overdue_in(s32 cpu, const struct task_ctx *tctx, u64 dsq)
{
	struct task_struct *p = __COMPAT_scx_bpf_dsq_peek(dsq);
	struct task_ctx *first = p ? try_task_ctx(p) : NULL;

	if (!tctx || !first || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		return true;
	if (first->party == tctx->party)
		return policy_before(deadline_of(tctx), deadline_of(first));
	return had_less(tctx->party, first->party);
}

/* The same of all overdue tasks that it would keep waiting. */
__noinline bool goes_before_overdue(s32 cpu, const struct task_ctx *tctx __arg_nonnull)
{
	struct cpu_ctx *cctx = this_cpu_ctx();

	return !cctx || ((!may_hold_pinned_overdue(cctx) || goes_before_overdue_in(cpu, tctx, pinned_queue(cpu, 0))) &&
			 (!may_hold(RARE_OVERDUE) || goes_before_overdue_in(cpu, tctx, queue_in(DSQ_OVERDUE, domain_of(cpu), 0))));
}

/* Whether @dsq, which is @queue, begins with a task that may run on @cpu. */
static __always_inline bool rare_waits_for(s32 cpu, u64 dsq, enum rare queue)
{
	struct task_struct *first = may_hold(queue) ? __COMPAT_scx_bpf_dsq_peek(dsq) : NULL;

	return first && bpf_cpumask_test_cpu(cpu, first->cpus_ptr);
}

/* The same of the party at @index in @domain. A task of another domain than @cpu's has waited for long enough, or @cpu is called later. */
__noinline bool one_waits_for(s32 cpu, u32 domain, u32 index, u64 now)
{
	struct task_struct *first = first_of(index, domain);

	if (!first || !bpf_cpumask_test_cpu(cpu, first->cpus_ptr))
		return false;
	if (domain == domain_of(cpu) || may_move(try_task_ctx(first), now))
		return true;
	call_later(domain, cpu);
	return false;
}

/* The same of any party. */
__noinline bool party_waits_for(s32 cpu, u32 domain, u64 now)
{
	struct party_look *look;
	u32 i, index;

	if (!others_may_wait(domain))
		return false;
	if (is_only_root(domain))
		return one_waits_for(cpu, domain, 0, now);
	look = begin_party_look(domain);
	if (!look)
		return false;
	bpf_for(i, 0, PARTIES) {
		index = next_party(look);
		if (index >= PARTIES)
			break;
		if (one_waits_for(cpu, domain, index, now))
			return true;
	}
	return false;
}

/* Whether a task may wait in a queue of the domain at @index. Most CPUs that go idle ask for no more. */
static __always_inline bool may_wait_in(u32 index, u64 now)
{
	struct domain *domain = domain_at(index);

	if (may_hold(RARE_OVERDUE | RARE_IDLE))
		return true;
	return (domain->attended || domain->party_words) && (knows_queues() || !is_known_empty(domain, now));
}

/* Whether a task of a party waits in @domain. */
static __always_inline bool others_wait(u32 domain)
{
	return is_only_root(domain) ? scx_bpf_dsq_nr_queued(queue_in(DSQ_PARTIES, domain, 0)) > 0 : first_party(domain) < PARTIES;
}

/*
 * This CPU found nothing in the domain at @index. If all its queues are empty, says so, see struct domain. Parties that a limit keeps from
 * running are not looked for, so where there are limits nobody knows.
 */
__noinline int note_empty(u32 index, u64 now)
{
	struct domain *domain = domain_at(index);
	u64 filled_ns = domain->filled_ns;

	if (nr_limits || !policy_before(filled_ns + FILLED_SETTLES_NS, now) || attended_waits(index) || others_wait(index))
		return 0;
	domain->empty_ns = now;
	domain->empty_since_ns = filled_ns;
	return 0;
}

/* Whether any queue of @domain does. */
__noinline bool domain_waits_for(s32 cpu, u32 domain, u64 now)
{
	return attended_waits_for(cpu, domain, now) || party_waits_for(cpu, domain, now) ||
	       rare_waits_for(cpu, queue_in(DSQ_OVERDUE, domain, 0), RARE_OVERDUE) ||
	       rare_waits_for(cpu, queue_in(DSQ_IDLE, domain, 0), RARE_IDLE);
}

#endif
