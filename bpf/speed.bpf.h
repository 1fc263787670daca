/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fast and slow CPUs: which one a task wakes up on. A machine with CPUs of one speed pays for none of this.
 *
 * What somebody waits for takes an idle fast CPU. Where all are busy, it takes one from what nobody
 * waits for, which may go on with a slow one. Only then does an idle slow CPU do.
 *
 * What nobody waits for takes any idle CPU. Only after attended work found no idle fast one, it
 * prefers slow ones for an epoch.
 *
 * Limits: while power is saved, wake-ups are packed instead. An attended task that began on a slow CPU
 * stays there until it sleeps. Parts of parties count the time of slow CPUs like that of fast ones.
 */
#ifndef APPEASE_SPEED_BPF_H
#define APPEASE_SPEED_BPF_H

#include "others.bpf.h"

/* Until when what nobody waits for prefers slow CPUs. */
static u64 fast_wanted_until;

/* Takes an idle CPU among the @fast ones, or the slow: one with an idle core, if there is one. -1: there is none. */
__noinline s32 idle_cpu_of_speed(struct task_struct *p __arg_trusted, s32 prev_cpu, bool fast)
{
	u32 home = domain_of(prev_cpu), i;
	s32 cpu = -1;

	bpf_for(i, 0, 2 * PLACEMENT_DOMAIN_LOOKS) {
		bool is_whole = i < PLACEMENT_DOMAIN_LOOKS;
		u32 index = placement_near(home, i % PLACEMENT_DOMAIN_LOOKS) % DOMAINS;
		const struct cpumask *idle;

		if (i % PLACEMENT_DOMAIN_LOOKS >= nr_domains || is_fast(index) != fast)
			continue;
		idle = is_whole ? scx_bpf_get_idle_smtmask() : scx_bpf_get_idle_cpumask();
		cpu = idle_cpu_of(p, domain_at(index), idle);
		scx_bpf_put_idle_cpumask(idle);
		if (cpu >= 0)
			break;
	}
	return cpu;
}

/* Whether what nobody waits for runs on a fast CPU, as far as one near @prev_cpu is looked for. */
static __always_inline bool fast_is_plain(s32 prev_cpu)
{
	u32 home = domain_of(prev_cpu), i;

	bpf_for(i, 0, PLACEMENT_DOMAIN_LOOKS) {
		u32 index = placement_near(home, i) % DOMAINS;

		if (i < nr_domains && is_fast(index) && domain_at(index)->plain_cpus)
			return true;
	}
	return false;
}

/* Takes an idle CPU for @p, which wakes up, or says how it is to have one. */
__noinline s32 cpu_by_speed(struct task_struct *p __arg_trusted, s32 prev_cpu, bool is_attended)
{
	u64 now = scx_bpf_now();
	s32 cpu;

	if (!is_attended && !policy_before(now, fast_wanted_until))
		return WAKES_ANYWHERE;
	cpu = idle_cpu_of_speed(p, prev_cpu, is_attended);
	if (cpu >= 0)
		return cpu;
	if (!is_attended)
		return WAKES_ANYWHERE;
	fast_wanted_until = now + epoch_ns;
	return fast_is_plain(prev_cpu) ? WAKES_THERE : WAKES_ANYWHERE;
}

#endif
