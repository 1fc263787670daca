/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cpu.max of cgroups (policy/limit.h). Without limits, a task pays for one look at nr_limits.
 */
#ifndef APPEASE_LIMITS_BPF_H
#define APPEASE_LIMITS_BPF_H

#include "groups.bpf.h"

/* Refills the bucket of @party. Whether it is empty at @now. */
static __always_inline bool is_used_up(struct party *party, u64 now)
{
	u64 began = party->period_at, periods;

	if (!party->quota_ns)
		return false;
	periods = limit_periods(began, now, party->period_ns);
	/* One of the CPUs that come here at once refills, and others charge meanwhile. */
	if (periods && __sync_val_compare_and_swap(&party->period_at, began, began + periods * party->period_ns) == began) {
		s64 left = party->left_ns;

		__sync_fetch_and_add(&party->left_ns, limit_refill(left, periods, party->quota_ns, party->burst_ns) - left);
	}
	return party->left_ns <= 0;
}

/* Whether a limit of @group, or of a cgroup above it, keeps its tasks from running. */
static __always_inline bool limits_keep(u32 group, u64 now)
{
	struct party *party;
	u32 i;

	bpf_for(i, 0, GROUP_DEPTH) {
		party = step_up(&group);
		if (!party)
			break;
		if (is_used_up(party, now))
			return true;
	}
	return false;
}

/* The same, for all but timers: the verifier takes a global function of theirs for sleepable. */
__noinline bool is_limited(u32 group, u64 now)
{
	return limits_keep(group, now);
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer);
} limit_timers SEC(".maps");

/* When it goes off, ns. 0: never. */
static u64 limits_end_ns;

/* Lets all CPUs look for tasks again at @at_ns. */
static __always_inline void look_again_at(u64 at_ns, u64 now)
{
	u32 zero = 0;
	struct timer *timer = bpf_map_lookup_elem(&limit_timers, &zero);

	if (!timer || (limits_end_ns && !policy_before(at_ns, limits_end_ns)))
		return;
	limits_end_ns = at_ns;
	bpf_timer_start(&timer->timer, policy_before(now, at_ns) ? at_ns - now : 0, 0);
}

/* Takes @ran out of the buckets of @group and of all cgroups above it. */
__noinline int charge_limits(u32 group, u64 ran, u64 now)
{
	struct party *party;
	u32 i;

	bpf_for(i, 0, GROUP_DEPTH) {
		party = step_up(&group);
		if (!party)
			break;
		if (party->quota_ns) {
			is_used_up(party, now);
			__sync_fetch_and_add(&party->left_ns, -ran);
			if (party->left_ns <= 0)
				look_again_at(party->period_at + party->period_ns, now);
		}
	}
	return 0;
}

/* A period is over: CPUs that found no task that may run look again. */
static int limits_are_over(void *map, int *key, struct bpf_timer *timer)
{
	u64 now = scx_bpf_now(), next = 0;
	u32 i;

	limits_end_ns = 0;
	bpf_for(i, 1, GROUPS) {
		u32 index = i;
		struct party *party = try_party(index);
		u64 end;

		if (!party || !party->quota_ns || !is_used_up(party, now))
			continue;
		end = party->period_at + party->period_ns;
		if (!next || policy_before(end, next))
			next = end;
	}
	bpf_for(i, 0, nr_cpus)
		scx_bpf_kick_cpu(i, SCX_KICK_IDLE);
	if (next)
		look_again_at(next, now);
	return 0;
}

__noinline s32 init_limit_timer(void)
{
	return ready_timer(limit_timers, 0, limits_are_over);
}

#endif
