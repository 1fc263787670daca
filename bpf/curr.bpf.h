/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What runs on each CPU.
 *
 * Since Linux 6.18, the kernel says it. Before, a run queue leads to a pointer that may be read and that no map takes, so each switch is
 * noted here.
 */
#ifndef APPEASE_CURR_BPF_H
#define APPEASE_CURR_BPF_H

#include "attention.bpf.h"

struct curr {
	struct task_struct __kptr *task;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct curr);
} currs SEC(".maps");

/*
 * From here until drop_tasks(), a timer may follow pointers to tasks: before 6.18 the verifier takes timers for code that may sleep, as the
 * program that made them may.
 */
static __always_inline void hold_tasks(void)
{
	if (!bpf_ksym_exists(scx_bpf_cpu_curr))
		bpf_rcu_read_lock();
}

static __always_inline void drop_tasks(void)
{
	if (!bpf_ksym_exists(scx_bpf_cpu_curr))
		bpf_rcu_read_unlock();
}

/* What runs on @cpu; NULL where no switch was seen yet. */
static __always_inline struct task_struct *curr_of(s32 cpu)
{
	struct curr *curr;
	u32 zero = 0;

	if (bpf_ksym_exists(scx_bpf_cpu_curr))
		return scx_bpf_cpu_curr(cpu);
	curr = bpf_map_lookup_percpu_elem(&currs, &zero, cpu);
	return curr ? curr->task : NULL;
}

/* Loaded where the kernel does not say it. */
SEC("tp_btf/sched_switch")
int BPF_PROG(appease_note_curr, bool is_preempted, struct task_struct *prev, struct task_struct *next)
{
	struct task_struct *task, *before;
	struct curr *curr;
	u32 zero = 0;

	curr = bpf_map_lookup_elem(&currs, &zero);
	if (!curr)
		return 0;
	task = bpf_task_acquire(next);
	before = task ? bpf_kptr_xchg(&curr->task, task) : bpf_kptr_xchg(&curr->task, NULL);
	if (before)
		bpf_task_release(before);
	return 0;
}

#endif
