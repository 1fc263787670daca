/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Looks at all queues, ten times a second: tasks that waited too long, parties that want the CPU,
 * and what else no callback tells.
 */
#ifndef APPEASE_SCANS_BPF_H
#define APPEASE_SCANS_BPF_H

#include "others.bpf.h"
#include "reserve.bpf.h"

/*
 * Time between two looks. Turned up, tasks become overdue later, and shares of cgroups follow their
 * work later. Turned down, a machine with thousands of runnable tasks pays more.
 */
#define SCAN_NS PARTY_COUNT_NS
/* Tasks that a look may go through in that time. After more of them, the next look is later. */
#define SCAN_TASKS 1024
/* Tasks of one queue that a look goes through at most. */
#define SCAN_MAX 16384
/*
 * An attended task that waits for so long is overdue, too: others of much more weight outrank it, or
 * its attention has ended. A sixth of what the kernel bears: 5 s of 30.
 */
#define ATTENDED_WAIT_NS (watchdog_ns / 6)

/* Tasks that this look went through. The verifier would try every value of a local variable. */
static u32 scanned_tasks, scanned_of_queue;

/* When the root's own tasks were weighed last. */
static u64 weighed_at;

/* Moves the tasks of a queue that waited since @since to another one, of overdue tasks. */
static __noinline int scan_to(u64 dsq, u64 overdue, u64 since)
{
	struct task_struct *p;

	scanned_of_queue = 0;
	hold_tasks();
	bpf_for_each(scx_dsq, p, dsq, 0) {
		struct task_ctx *tctx = try_task_ctx(p);

		if (tctx && policy_before(tctx->queued_ns, since)) {
			rare_fills(RARE_OVERDUE);
			if (scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, overdue, 0))
				count_sched(CNT_OVERDUE);
		}
		if (++scanned_of_queue >= SCAN_MAX)
			break;
	}
	drop_tasks();
	scanned_tasks += scanned_of_queue;
	return 0;
}

/* The same, to those of @domain. */
static __always_inline int scan(u64 dsq, u32 domain, u64 since)
{
	/* All its CPUs may be off. */
	if (nr_domains > 1 && !domain_at(domain)->nr_online)
		domain = domain_here();
	return scan_to(dsq, queue_in(DSQ_OVERDUE, domain, 0), since);
}

/* The attended queues. Under other policies than appease, only the first one is in use. */
static __noinline int scan_attended(u32 domain, u64 now)
{
	u64 since = now - (policy == APPEASE_POLICY_APPEASE ? ATTENDED_WAIT_NS : longest_wait_ns);
	u64 left = domain_at(domain)->attended;
	u32 i;

	bpf_for(i, 0, FAIR_QUEUES) {
		if (!left)
			break;
		scan(queue_in(DSQ_ATTENDED, domain, lowest_bit(left)), domain, since);
		left &= left - 1;
	}
	return 0;
}

/*
 * Counts the party at @index with the tasks of its that wait in a queue of the domain @where; @may_leave: they are bound to no CPU.
 * How long they may wait.
 */
static __always_inline u64 count_waiting(u32 where, u32 index, s32 waiting, bool may_leave, u64 now)
{
	struct domain *domain = domain_at(where);
	struct party *party = try_party(index);
	bool is_kept = party && nr_limits && limits_keep(group_behind(index, party), now);

	if (!is_kept) {
		domain->nr_waiting += waiting;
		if (may_leave && waiting > (s32)domain->most_waiting)
			domain->most_waiting = waiting;
	}
	count_party(index);
	return is_kept ? LIMITED_WAIT_NS : longest_wait_ns;
}

/* Counts the party at @index, and looks through its queue. */
static __noinline void scan_party(u32 domain, u32 index, u64 now)
{
	u64 queue = queue_in(DSQ_PARTIES, domain, index);
	s32 waiting = scx_bpf_dsq_nr_queued(queue);

	if (waiting <= 0)
		return;
	if (asks_for_idle)
		ask_waiting_idle(index);
	scan(queue, domain, now - count_waiting(domain, index, waiting, true, now));
}

/* Looks through the queues of @cpu alone. One that was empty at two looks in a row is nobody's. */
static __noinline int scan_pinned(u32 cpu, u64 now)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	u64 used, bit;
	s32 waiting;
	u32 i, index;

	if (!cctx || !cctx->pinned)
		return 0;
	used = cctx->pinned_used;
	__sync_fetch_and_and(&cctx->pinned_used, ~used);
	bpf_for(i, 1, PINNED_QUEUES) {
		bit = bit_of(i);
		index = *pinned_party(cctx, i) - 1;
		waiting = scx_bpf_dsq_nr_queued(pinned_queue(cpu, i));
		if (waiting > 0) {
			scan_to(pinned_queue(cpu, i), pinned_queue(cpu, 0),
				now - count_waiting(domain_of(cpu), index, waiting, false, now));
		} else if (cctx->pinned & bit & ~used) {
			__sync_fetch_and_and(&cctx->pinned, ~bit);
			__sync_val_compare_and_swap(pinned_party(cctx, i), index + 1, 0);
			/* A task may have come in between. */
			if (*(volatile u64 *)&cctx->pinned_used & bit && !__sync_val_compare_and_swap(pinned_party(cctx, i), 0, index + 1))
				__sync_fetch_and_or(&cctx->pinned, bit);
		}
	}
	if (scx_bpf_dsq_nr_queued(pinned_queue(cpu, 0)) > 0)
		__sync_fetch_and_or(&cctx->pinned, 1);
	else
		__sync_fetch_and_and(&cctx->pinned, ~1ULL);
	return 0;
}

static __noinline int scan_parties(u32 index, u64 now)
{
	struct domain *domain = domain_at(index);
	u32 word, i;

	/* Until all is counted, it gives nothing. */
	domain->gives = 0;
	domain->nr_waiting = domain->most_waiting = 0;
	domain->vain = 0;
	bpf_for(word, 0, PARTY_WORDS) {
		u64 left;

		if (!(domain->party_words >> word & 1))
			continue;
		left = domain->party_waiting[word % PARTY_WORDS];
		bpf_for(i, 0, 64) {
			if (!left)
				break;
			scan_party(index, word * 64 + lowest_bit(left), now);
			left &= left - 1;
		}
	}
	return 0;
}

/* All queues of a domain. */
static __noinline int scan_domain(u32 index, u64 now)
{
	scan_attended(index, now);
	if (may_hold(RARE_IDLE))
		scan(queue_in(DSQ_IDLE, index, 0), index, now - longest_wait_ns);
	scan_parties(index, now);
	forget_fair_queues(index);
	forget_parties(index);
	return 0;
}

/* Counts the parties of the tasks that run. */
static __noinline void count_running(void)
{
	u32 i;

	hold_tasks();
	bpf_for(i, 0, nr_cpus) {
		struct task_struct *curr = curr_of(i);
		struct task_ctx *tctx = curr ? try_task_ctx(curr) : NULL;

		if (!tctx || tctx->lane != APPEASE_LANE_OTHER || curr->prio < MAX_RT_PRIO || curr->flags & PF_IDLE)
			continue;
		count_party(tctx->party);
	}
	drop_tasks();
}

/*
 * Weighs the root's own tasks, the customers' among them, by the time that they ran or waited since
 * @since: a look at an instant would meet the tasks more often that wake up as it does. Rounded to
 * whole tasks: those that mostly sleep would raise the share of one that never does.
 */
static __noinline void weigh_root(u64 since, u64 now)
{
	u64 wanted_ns = 0, passed_ns = now - since, tasks;
	u32 i;

	bpf_for(i, GROUPS - 1, PARTIES) {
		u32 index = i < GROUPS ? 0 : i;
		struct party *party = try_party(index);

		if (!party || group_behind(index, party))
			continue;
		wanted_ns += party->wanted_ns;
		party->wanted_ns = 0;
	}
	tasks = passed_ns ? (wanted_ns + passed_ns / 2) / passed_ns : 0;
	root_weight = PROGRESS_WEIGHT_0 * (tasks ? tasks : 1);
}

/* Frees the slots of customers without a task in the other lane for long. */
static __noinline void forget_spenders(u64 now)
{
	bool found = false;
	u32 i;

	bpf_for(i, GROUPS, PARTIES) {
		u32 index = i;
		struct party *party = try_party(index);

		if (!party || !party->id)
			continue;
		/* A task that waits for so long is overdue, and none of its party. */
		if (policy_before(party->used_ns + SPENDER_IDLE_NS, now))
			party->id = 0;
		else
			found = true;
	}
	spends = found;
}

/* Moves clocks up that lag too far behind the foremost. */
static __noinline int compare_clocks(void)
{
	u64 foremost = domain_at(0)->clock, least_clock;
	u32 i;

	bpf_for(i, 1, nr_domains) {
		if (policy_before(foremost, domain_at(i)->clock))
			foremost = domain_at(i)->clock;
	}
	least_clock = placement_least_clock(foremost, nr_domains);
	bpf_for(i, 0, nr_domains)
		advance_clock(domain_at(i), least_clock);
	return 0;
}

/*
 * Lets domains in which more tasks wait for each CPU than on the average give some to those with less
 * than the average. Whole tasks: a difference of one is none.
 */
static __noinline int share_out(void)
{
	u32 i, waiting = 0, cpus = 0, taker = 0, room;

	bpf_for(i, 0, nr_domains) {
		waiting += domain_at(i)->nr_waiting;
		cpus += domain_at(i)->nr_online;
	}
	if (!cpus)
		return 0;
	bpf_for(i, 0, nr_domains) {
		struct domain *domain = domain_at(i);
		u32 excess = placement_excess(waiting, cpus, domain->nr_online, domain->nr_waiting), most = 0, j;

		domain->gives = 0;
		if (!excess)
			continue;
		/* To the one that has most room. */
		bpf_for(j, 0, nr_domains) {
			struct domain *other = domain_at(j);

			room = placement_room(waiting, cpus, other->nr_online, other->nr_waiting);
			if (room > most) {
				most = room;
				taker = j;
			}
		}
		if (!most)
			continue;
		domain->gives_to = taker;
		domain->gives = excess < most ? excess : most;
		domain_at(taker)->nr_waiting += domain->gives;
	}
	return 0;
}

/* The CPU that goes off. -1: none. */
static s32 leaving_cpu = -1;

/*
 * A CPU goes off when it goes idle and no task counts as its own. Those in our queues that ran there last do, until another
 * CPU takes them, and that does not wake it: so it is told to look again, until it is off.
 */
static __always_inline void see_off(void)
{
	const struct cpumask *online;
	s32 cpu = leaving_cpu;

	if (cpu < 0)
		return;
	online = scx_bpf_get_online_cpumask();
	if (bpf_cpumask_test_cpu(cpu, online))
		scx_bpf_kick_cpu(cpu, 0);
	else
		leaving_cpu = -1;
	scx_bpf_put_cpumask(online);
}

/* Which of the rare queues hold nothing, and got nothing since the last look. */
static __noinline int forget_rare(void)
{
	u64 empty = begin_marks(&rare_waiting, &rare_used);
	u32 i;

	if (empty & RARE_BACKGROUND && scx_bpf_dsq_nr_queued(DSQ_BACKGROUND) > 0)
		empty &= ~(u64)RARE_BACKGROUND;
	bpf_for(i, 0, empty ? nr_domains : 0) {
		if (scx_bpf_dsq_nr_queued(queue_in(DSQ_IDLE, i, 0)) > 0)
			empty &= ~(u64)RARE_IDLE;
		if (scx_bpf_dsq_nr_queued(queue_in(DSQ_OVERDUE, i, 0)) > 0)
			empty &= ~(u64)RARE_OVERDUE;
	}
	if (empty)
		mark_empty(&rare_waiting, &rare_used, empty);
	return 0;
}

static int scan_queues(void *map, int *key, struct bpf_timer *timer)
{
	u64 now = scx_bpf_now();
	u32 i;

	scanned_tasks = 0;
	bpf_for(i, 0, nr_domains)
		scan_domain(i, now);
	bpf_for(i, 0, has_more_cpus() ? nr_cpus : 0)
		scan_pinned(i, now);
	if (may_hold(RARE_BACKGROUND))
		scan(DSQ_BACKGROUND, 0, now - longest_wait_ns);
	forget_rare();
	if (nr_domains > 1) {
		compare_clocks();
		share_out();
	}
	if (asks_for_idle)
		ask_some_idle();
	count_running();
	weigh_root(weighed_at, now);
	weighed_at = now;
	party_count++;
	forget_spenders(now);
	see_off();
	look_for_lockouts();
	bpf_timer_start(timer, SCAN_NS * (1 + scanned_tasks / SCAN_TASKS), 0);
	return 0;
}

__noinline s32 start_scans(void)
{
	s32 err = ready_timer(timers, 0, scan_queues);
	u32 zero = 0;
	struct timer *timer = bpf_map_lookup_elem(&timers, &zero);

	return err || !timer ? err : bpf_timer_start(&timer->timer, SCAN_NS, 0);
}

#endif
