/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a backend in user space is told: that a process is to be served now, or was born to one that it changed. Transitions
 * only: who was told of is not told of again until user space has let go of it. Without such a backend the verifier drops all.
 */
#ifndef APPEASE_NEWS_BPF_H
#define APPEASE_NEWS_BPF_H

#include "attention.bpf.h"

/* Set before load. */
const volatile bool tells;

/* So many bytes of news do not wait for user space to look of itself; its ring has four times as many. */
#define NEWS_URGENT 65536

/* One page is the least that there is: user space gives it more when it listens. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} news SEC(".maps");

static __always_inline struct appease_news *try_news(u32 kind, u32 tgid)
{
	struct appease_news *one = bpf_ringbuf_reserve(&news, sizeof(*one), 0);

	if (!one) {
		count(APPEASE_CNT_NOT_TOLD);
		return NULL;
	}
	one->kind = kind;
	one->tgid = tgid;
	return one;
}

/* The process @tgid is to be served; @told is its word of that. */
static __always_inline void tell_wanted(u32 *told, u32 as, u32 tgid)
{
	struct appease_news *one;

	if (!tells || (*told & as) == as)
		return;
	one = try_news(APPEASE_NEWS_WANTED, tgid);
	if (!one)
		return;
	*told |= as;
	/* By itself the ring wakes nobody up while something is in it that did not: births. */
	bpf_ringbuf_submit(one, BPF_RB_FORCE_WAKEUP);
}

/* The same of the current process. What the kernel does is not changed by user space. */
static __always_inline void tell_current_wanted(struct appease_process *process)
{
	if (tells && !is_kthread(bpf_get_current_task_btf()))
		tell_wanted(&process->told, APPEASE_TOLD_WANTED, bpf_get_current_pid_tgid() >> 32);
}

/*
 * @child has the nice value and the slice of @parent, whose process user space has changed: it must know, but need not hurry. A
 * thread's process is told of already.
 */
static __always_inline void tell_born(struct task_struct *parent, struct task_struct *child)
{
	struct appease_process *from, *to;
	struct appease_news *one;
	bool is_urgent;

	if (!tells)
		return;
	from = bpf_task_storage_get(&processes, parent->group_leader, 0, 0);
	if (!from || !(from->told & APPEASE_TOLD_CHANGED))
		return;
	if (parent->tgid != child->tgid) {
		to = bpf_task_storage_get(&processes, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!to) {
			count(APPEASE_CNT_STORAGE_FAILED);
			return;
		}
		to->told = from->told;
	}
	one = try_news(APPEASE_NEWS_BORN, child->tgid);
	if (!one)
		return;
	one->parent_tgid = parent->tgid;
	is_urgent = bpf_ringbuf_query(&news, BPF_RB_AVAIL_DATA) >= NEWS_URGENT;
	bpf_ringbuf_submit(one, is_urgent ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

/* Policy rbpe: the current process got something from a socket, of which kind @raise says. */
static __always_inline void raise_reader(u32 raise)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct appease_process *process;

	if (!(armed.raises & raise) || is_kthread(task))
		return;
	process = bpf_task_storage_get(&processes, task->group_leader, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!process) {
		count(APPEASE_CNT_STORAGE_FAILED);
		return;
	}
	process->raised_ns[raise == APPEASE_RAISE_NETWORK] = bpf_ktime_get_ns();
	tell_wanted(&process->told, raise, task->tgid);
}

#endif
