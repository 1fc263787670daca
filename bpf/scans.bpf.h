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
#define SCAN_NS 100000000ULL
/* Tasks that a look may go through in that time. After more of them, the next look is later. */
#define SCAN_TASKS 1024
/* Tasks of one queue that a look goes through at most. */
#define SCAN_MAX 16384
/*
 * An attended task that waits for so long is overdue, too: others of much more weight outrank it, or
 * its attention has ended. The kernel ejects a scheduler that keeps a task waiting for 30 s.
 */
#define ATTENDED_WAIT_NS 5000000000ULL

/* Tasks that this look went through. The verifier would try every value of a local variable. */
static u32 scanned_tasks, scanned_of_queue;

/* When the root's own tasks were weighed last. */
static u64 weighed_at;

/* Moves the tasks of a queue that waited since @since to the overdue ones. */
static __noinline int scan(u64 dsq, u64 since)
{
	struct task_struct *p;

	scanned_of_queue = 0;
	bpf_for_each(scx_dsq, p, dsq, 0) {
		struct task_ctx *tctx = try_task_ctx(p);

		if (tctx && policy_before(tctx->queued_ns, since) &&
		    scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, DSQ_OVERDUE, 0)) {
			maybe_overdue = true;
			count_sched(CNT_OVERDUE);
		}
		if (++scanned_of_queue >= SCAN_MAX)
			break;
	}
	scanned_tasks += scanned_of_queue;
	return 0;
}

/* Queues of which there is one, by a table: the verifier then goes through scan() once for all. */
#define NR_SCANNED 2
static const volatile u64 scanned[NR_SCANNED] = { DSQ_IDLE, DSQ_BACKGROUND };

/* The attended queues. Under other policies than appease, only the first one is in use. */
static __always_inline void scan_attended(u64 now)
{
	u64 since = now - (policy == APPEASE_POLICY_APPEASE ? ATTENDED_WAIT_NS : longest_wait_ns);
	u64 left = fair_waiting;
	u32 i;

	bpf_for(i, 0, FAIR_QUEUES) {
		if (!left)
			break;
		scan(DSQ_ATTENDED + lowest_bit(left), since);
		left &= left - 1;
	}
}

/* Counts the party at @index, and looks through its queue. */
static __noinline void scan_party(u32 index, u64 now)
{
	struct party *party = try_party(index);
	bool is_kept;

	if (!party || scx_bpf_dsq_nr_queued(DSQ_PARTIES + index) <= 0)
		return;
	is_kept = nr_limits && limits_keep(group_behind(index, party), now);
	scan(DSQ_PARTIES + index, now - (is_kept ? LIMITED_WAIT_NS : longest_wait_ns));
	count_party(index);
}

static __always_inline void scan_parties(u64 now)
{
	u32 word, i;

	bpf_for(word, 0, PARTY_WORDS) {
		u64 left;

		if (!(party_words >> word & 1))
			continue;
		left = party_waiting[word % PARTY_WORDS];
		bpf_for(i, 0, 64) {
			if (!left)
				break;
			scan_party(word * 64 + lowest_bit(left), now);
			left &= left - 1;
		}
	}
}

/* Counts the parties of the tasks that run. */
static __noinline void count_running(void)
{
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		struct task_struct *curr = __COMPAT_scx_bpf_cpu_curr(i);
		struct task_ctx *tctx = curr ? try_task_ctx(curr) : NULL;

		if (!tctx || tctx->lane != APPEASE_LANE_OTHER || curr->prio < MAX_RT_PRIO || curr->flags & PF_IDLE)
			continue;
		count_party(tctx->party);
	}
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
	u32 i;

	bpf_for(i, GROUPS, PARTIES) {
		u32 index = i;
		struct party *party = try_party(index);

		if (party && party->id && policy_before(party->used_ns + SPENDER_IDLE_NS, now) &&
		    !(party_waiting[word_of(i)] & bit_of(i)))
			party->id = 0;
	}
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

static int scan_queues(void *map, int *key, struct bpf_timer *timer)
{
	u64 now = scx_bpf_now();
	u32 i;

	scanned_tasks = 0;
	scan_attended(now);
	bpf_for(i, 0, NR_SCANNED)
		scan(scanned[i % NR_SCANNED], now - longest_wait_ns);
	scan_parties(now);
	count_running();
	weigh_root(weighed_at, now);
	weighed_at = now;
	party_count++;
	forget_fair_queues();
	forget_parties();
	forget_spenders(now);
	see_off();
	look_for_lockouts();
	bpf_timer_start(timer, SCAN_NS * (1 + scanned_tasks / SCAN_TASKS), 0);
	return 0;
}

__noinline s32 start_scans(void)
{
	u32 zero = 0;
	struct timer *timer = bpf_map_lookup_elem(&timers, &zero);

	if (!timer)
		return -ENOENT;
	bpf_timer_init(&timer->timer, &timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&timer->timer, scan_queues);
	return bpf_timer_start(&timer->timer, SCAN_NS, 0);
}

#endif
