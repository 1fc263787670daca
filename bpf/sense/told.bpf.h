/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a backend in user space is told of, it accounts for: CPU time, by which a request's budget is spent, and the end.
 */
#ifndef APPEASE_SENSE_TOLD_BPF_H
#define APPEASE_SENSE_TOLD_BPF_H

#include "../customers.bpf.h"
#include "../news.bpf.h"

/* @process has had @total of CPU time: what nobody has charged yet goes to its request. */
static __always_inline void charge_up_to(const struct appease_process *process, u64 total)
{
	struct appease_request *request = try_served_by(process, bpf_ktime_get_ns());

	if (!request || total <= process->charged_ns)
		return;
	__sync_fetch_and_add(&request->served_ns, total - process->charged_ns);
	charge_period(request, total - process->charged_ns);
}

/* CPU time of the process of @task, which is its last thread, and ends: what nobody has charged yet goes to its request. */
static __always_inline void charge_rest(struct task_struct *task)
{
	struct appease_process *process = bpf_task_storage_get(&processes, task->group_leader, 0, 0);

	if (!process || !(process->told & APPEASE_TOLD_CHANGED))
		return;
	charge_up_to(process, signal_of(task)->sum_sched_runtime + task->se.sum_exec_runtime);
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(appease_told_exit, struct task_struct *task)
{
	if (tells && is_armed() && !signal_of(task)->live.counter)
		charge_rest(task);
	return 0;
}

/*
 * Called by the daemon: the process has had so much CPU time, which its request is charged. What it had before it was changed
 * was not on our account. The task by the process's number is the one that its record hangs on.
 */
SEC("syscall")
int appease_charge(struct appease_account *account)
{
	struct task_struct *task = bpf_task_from_pid(account->tgid);
	struct appease_process *process;

	if (!task)
		return 0;
	process = bpf_task_storage_get(&processes, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!process)
		goto out;
	if (account->begins)
		__sync_fetch_and_or(&process->told, APPEASE_TOLD_CHANGED);
	else
		charge_up_to(process, account->total_ns);
	process->charged_ns = account->total_ns;
out:
	bpf_task_release(task);
	return 0;
}

/* Called by the daemon before it takes back what it did for a process, or a part of it: the next time it wants to be told. */
SEC("syscall")
int appease_let_go(struct appease_account *account)
{
	struct appease_handler *handler;
	struct appease_process *process;
	struct task_struct *task;
	u32 tgid = account->tgid;

	if (policy == APPEASE_POLICY_RSIO) {
		handler = bpf_map_lookup_elem(&handlers, &tgid);
		if (handler)
			handler->told = 0;
	}
	task = bpf_task_from_pid(tgid);
	if (!task)
		return 0;
	process = bpf_task_storage_get(&processes, task, 0, 0);
	/* What remains changed may yet have children. */
	if (process)
		__sync_lock_test_and_set(&process->told, account->keeps ? APPEASE_TOLD_CHANGED : 0);
	bpf_task_release(task);
	return 0;
}

#endif
