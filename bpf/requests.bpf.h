/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What all hooks of sense.bpf.c need: the current process, what it hands on, the requests that it opens.
 */
#ifndef APPEASE_REQUESTS_BPF_H
#define APPEASE_REQUESTS_BPF_H

#include "attention.bpf.h"
#include "news.bpf.h"
#include "policy/budget.h"

/* From kernel headers; constants do not travel in BTF. */
#define MINOR_BITS 20
#define S_IFMT 0170000
#define S_IFIFO 0010000
#define S_IFSOCK 0140000

/*
 * Set before load: CPU time that a request may take, in all, and by who reads a terminal itself before its first answer or
 * the next one, see policy/budget.h. What people wait for shows something sooner (a matrix that Octave loads, after 170 ms).
 */
const volatile u64 budget_ns = 2000000000ULL;
const volatile u64 quiet_ns = 300000000ULL;
/* Policy rsio: how long a process is a handler after its last access. */
const volatile u64 sys_expire_ns = 2000000000ULL;

/* What was accessed, and who is at its other end. */
struct source {
	u64 object;	/* as in appease_request */
	u32 channel;	/* enum appease_channel */
	u32 peer_port;
	u64 peer[2];
};

static __always_inline s64 returned(void *ctx)
{
	u64 ret = 0;

	bpf_get_func_ret(ctx, &ret);
	return (s64)ret;
}

static __always_inline s32 returned_int(void *ctx)
{
	return (s32)returned(ctx);
}

static __always_inline u64 argument(void *ctx, u32 n)
{
	u64 value = 0;

	bpf_get_func_arg(ctx, n, &value);
	return value;
}

/* The current task's file at descriptor @fd; it is not held. */
static __always_inline struct file *try_file_at(u64 fd)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files, *file = NULL;

	if (!table || fd >= BPF_CORE_READ(table, max_fds))
		return NULL;
	files = BPF_CORE_READ(table, fd);
	bpf_probe_read_kernel(&file, sizeof(file), files + fd);
	return file;
}

static __always_inline struct appease_process *try_current_process(void)
{
	return bpf_task_storage_get(&processes, bpf_get_current_task_btf()->group_leader, 0, 0);
}

static __always_inline struct appease_process *current_process(void)
{
	struct appease_process *process;

	process = bpf_task_storage_get(&processes, bpf_get_current_task_btf()->group_leader, 0,
				       BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!process)
		count(APPEASE_CNT_STORAGE_FAILED);
	return process;
}

static __always_inline u32 current_tgid(void)
{
	return bpf_get_current_pid_tgid() >> 32;
}

static __always_inline void arm(u64 now)
{
	armed.until_ns = now + attention_ns + retention_ns;
	armed.on = 1;
}

/* Says that wake-ups by the current task on this CPU hand on a request, or an input event if @request_id is 0. */
static __always_inline void begin_handing(u64 request_id, u64 opened_ns, u64 now)
{
	struct handing *handing = this_handing();

	if (!handing)
		return;
	handing->at_ns = now;
	handing->opened_ns = opened_ns;
	handing->request_id = request_id;
	handing->pid = bpf_get_current_pid_tgid();
}

static __always_inline void end_handing(void)
{
	struct handing *handing = this_handing();

	if (handing)
		handing->pid = 0;
}

/* A channel has something: its known readers are woken. */
static __always_inline void channel_event(void)
{
	u64 now = bpf_ktime_get_ns();

	/* Its reader may have had no customer for hours: the wake-up must be looked at. */
	arm(now);
	begin_handing(0, now, now);
}

/* Requests */

/* Gives @to the attention of @from, one hop further; false if that is one hop too many. */
static __always_inline bool hand_on(const struct appease_process *from, u32 from_tgid, struct appease_process *to,
				    u32 object, u64 now)
{
	u32 hop = from->attention.nr_hops;

	if (hop >= max_hops || hop >= APPEASE_MAX_HOPS) {
		count(APPEASE_CNT_HOPS_EXCEEDED);
		return false;
	}
	to->attention = from->attention;
	to->attention.since_ns = now;
	to->attention.path[hop].at_ns = now;
	to->attention.path[hop].tgid = from_tgid;
	to->attention.path[hop].object = object;
	to->attention.nr_hops = hop + 1;
	to->context_id = from->context_id;
	to->gives_on = from->gives_on;
	to->context_opened_ns = from->context_opened_ns;
	return true;
}

static __always_inline struct appease_request *new_request(const struct source *source, u32 rule, u64 now, u32 *slot)
{
	struct appease_request *request;

	*slot = __sync_fetch_and_add(&armed.next_slot, 1) % APPEASE_NR_REQUESTS;
	request = bpf_map_lookup_elem(&requests, slot);
	if (!request)
		return NULL;
	request->id = __sync_add_and_fetch(&armed.last_id, 1);
	request->opened_ns = now;
	request->served_ns = 0;
	request->budget_ns = budget_ns;
	request->object = source->object;
	request->channel = source->channel;
	request->rule = rule;
	request->reader_tgid = current_tgid();
	request->peer_port = source->peer_port;
	request->peer[0] = source->peer[0];
	request->peer[1] = source->peer[1];
	return request;
}

/*
 * The current process got something from its customer, or gave it something: opens a request, or takes it for part of
 * the one that it opened less than @same_ns ago on this channel. Whether partners of the process are to be judged.
 */
static __always_inline bool open_request(const struct source *source, u32 rule, u32 access, u64 same_ns, u64 now)
{
	struct appease_process *process = current_process();
	struct appease_request *request;
	u32 slot;

	if (!process)
		return false;
	if (access == APPEASE_READ)
		process->channel_read_ns = now;
	request = try_lookup_request(&process->attention, now);
	if (request && !process->attention.nr_hops && request->object == source->object &&
	    request->channel == source->channel && now - request->opened_ns < same_ns) {
		process->context_id = request->id;
		process->gives_on = 0;
		process->context_opened_ns = request->opened_ns;
		tell_current_wanted(process);
		return false;
	}
	request = new_request(source, rule, now, &slot);
	if (!request) {
		count(APPEASE_CNT_OPEN_DENIED);
		return false;
	}
	process->attention.request_id = request->id;
	process->attention.slot = slot;
	process->attention.since_ns = now;
	process->attention.until_ns = now + attention_ns;
	process->attention.nr_hops = 0;
	process->gives = access == APPEASE_WRITE;
	process->gives_on = 0;
	process->context_id = request->id;
	process->context_opened_ns = now;
	process->loan_until_ns = 0;
	process->loan_debt_ns = 0;
	tell_current_wanted(process);
	arm(now);
	count(APPEASE_CNT_OPENED);
	return process->has_partners;
}

#endif
