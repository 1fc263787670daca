/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the backend by nice values has changed of threads.
 *
 * The kernel keeps each record with its thread: no other program can write it, it ends with the thread, and a child has its parent's, as
 * it has the parent's nice value. Map and hook are pinned, so both outlast a daemon that is killed, and the next one gives back by them.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "abi.h"

char _license[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct appease_change);
} changes SEC(".maps");

/* The nice value of a child, if its parent has @nice, and has asked that its children begin without it (SCHED_FLAG_RESET_ON_FORK). */
static __always_inline s32 begun_with(s32 nice)
{
	return nice < 0 ? 0 : nice;
}

/* The kernel has copied the nice value already, and the child has not run yet. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(appease_inherit, struct task_struct *parent, struct task_struct *child)
{
	struct appease_change *its = bpf_task_storage_get(&changes, parent, NULL, 0), inherited;

	if (!its)
		return 0;
	inherited = *its;
	inherited.flags |= APPEASE_CHANGE_INHERITED;
	if (BPF_CORE_READ_BITFIELD(parent, sched_reset_on_fork)) {
		inherited.base = begun_with(inherited.base);
		inherited.given = begun_with(inherited.given);
		inherited.former = begun_with(inherited.former);
	}
	bpf_task_storage_get(&changes, child, &inherited, BPF_LOCAL_STORAGE_GET_F_CREATE);
	return 0;
}

/* Lists all threads with a record. */
SEC("iter/task")
int appease_changed(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct appease_changed changed = {};
	struct appease_change *its;

	if (!task)
		return 0;
	its = bpf_task_storage_get(&changes, task, NULL, 0);
	if (!its)
		return 0;
	changed.tid = task->pid;
	changed.tgid = task->tgid;
	changed.change = *its;
	bpf_seq_write(ctx->meta->seq, &changed, sizeof(changed));
	return 0;
}
