/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Parents and children, and the end of a process.
 */
#ifndef APPEASE_SENSE_FAMILIES_BPF_H
#define APPEASE_SENSE_FAMILIES_BPF_H

#include "../stamps.bpf.h"

static __noinline void note_fork(struct task_struct *parent, struct task_struct *child)
{
	struct appease_process *from, *to;
	struct appease_request *request;
	u64 now;

	tell_born(parent, child);
	if (parent->tgid == child->tgid || policy == APPEASE_POLICY_RBPE)
		return;
	if (policy == APPEASE_POLICY_RSIO) {
		handler_forked(parent->tgid, child->tgid, bpf_ktime_get_ns());
		return;
	}
	from = bpf_task_storage_get(&processes, parent->group_leader, 0, 0);
	if (!from || (from->attention.nr_hops && is_last_hop(&from->attention)))
		return;
	now = bpf_ktime_get_ns();
	/* Of a request that was silent for too long, too: it may have the answer. */
	request = try_answerable(&from->attention, now);
	if (!request)
		return;
	/* Who starts a command waits for it, also while it says nothing. */
	if (!is_spent(request))
		request->budget_ns = most_for(request);
	request->flags |= APPEASE_REQUEST_GOES_ON;
	to = bpf_task_storage_get(&processes, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!to) {
		count(APPEASE_CNT_STORAGE_FAILED);
		return;
	}
	if (hand_on(from, parent->tgid, to, APPEASE_OBJECT_FORK, now)) {
		if (policy == APPEASE_POLICY_CAS)
			split_share(request, from, to, now);
		count(APPEASE_CNT_INHERITED);
		tell_wanted(&to->told, APPEASE_TOLD_WANTED, child->tgid);
	}
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(appease_fork, struct task_struct *parent, struct task_struct *child)
{
	/* What user space has changed of a process may outlast everybody's attention. */
	if (is_armed() || tells)
		note_fork(parent, child);
	return 0;
}

/* Policy rsio: a record by the process's number must not be the next one's of that number. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(appease_process_exit, struct task_struct *task)
{
	if (!signal_of(task)->live.counter)
		forget_handler(task->tgid);
	return 0;
}

#endif
