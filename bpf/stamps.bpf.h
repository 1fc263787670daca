/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the hooks of sense.bpf.c do: open requests, leave stamps on what is written, pick them up from what is read.
 */
#ifndef APPEASE_STAMPS_BPF_H
#define APPEASE_STAMPS_BPF_H

#include "attention.bpf.h"

/* From kernel headers; constants do not travel in BTF. */
#define MINOR_BITS 20

/* Stamps: attention left on an object by its last writer, until another one writes or it expires. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct stamp_key);
	__type(value, struct appease_attention);
} stamps SEC(".maps");

/* What a task is in the middle of. Of the task, not of the CPU: it may be preempted, by another kernel worker for one. */
struct doing {
	struct stamp_key via;	/* stamp that a kernel worker carries on; .b is 0: none */
	u64 sending;		/* it sends a datagram for a customer */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct doing);
} doings SEC(".maps");

/* Too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct appease_attention);
} scratch SEC(".maps");

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

static __always_inline struct doing *try_current_doing(void)
{
	return bpf_task_storage_get(&doings, bpf_get_current_task_btf(), 0, 0);
}

static __always_inline struct doing *current_doing(void)
{
	struct doing *doing;

	doing = bpf_task_storage_get(&doings, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!doing)
		count(APPEASE_CNT_STORAGE_FAILED);
	return doing;
}

static __always_inline u32 current_tgid(void)
{
	return bpf_get_current_pid_tgid() >> 32;
}

static __always_inline void arm(u64 now)
{
	struct armed *armed = armed_state();

	if (!armed)
		return;
	armed->until_ns = now + attention_ns + retention_ns;
	armed->on = 1;
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

/* Requests */

static __always_inline struct appease_request *new_request(u32 channel, u32 device, u64 now, u32 *slot)
{
	struct armed *armed = armed_state();
	struct appease_request *request;

	if (!armed)
		return NULL;
	*slot = __sync_fetch_and_add(&armed->next_slot, 1) % APPEASE_NR_REQUESTS;
	request = bpf_map_lookup_elem(&requests, slot);
	if (!request)
		return NULL;
	request->id = __sync_add_and_fetch(&armed->last_id, 1);
	request->opened_ns = now;
	request->served_ns = 0;
	request->budget_ns = budget_ns;
	request->channel = channel;
	request->device = device & ((1 << MINOR_BITS) - 1);
	request->major = device >> MINOR_BITS;
	request->reader_tgid = current_tgid();
	return request;
}

/*
 * The current process got something from its customer: opens a request, or takes it for part of the one that it opened
 * less than @same_ns ago on this device.
 */
static __always_inline void open_request(u32 channel, u32 device, u64 same_ns)
{
	u64 now = bpf_ktime_get_ns();
	struct appease_process *process = current_process();
	struct appease_request *request;
	u32 slot;

	if (!process)
		return;
	if (channel != APPEASE_CHANNEL_AUDIO)
		process->channel_read_ns = now;
	request = try_lookup_request(&process->attention, now);
	if (request && !process->attention.nr_hops && request->channel == channel &&
	    request->device == (device & ((1 << MINOR_BITS) - 1)) && now - request->opened_ns < same_ns) {
		process->context_id = request->id;
		process->context_opened_ns = request->opened_ns;
		return;
	}
	request = new_request(channel, device, now, &slot);
	if (!request) {
		count(APPEASE_CNT_OPEN_DENIED);
		return;
	}
	process->attention.request_id = request->id;
	process->attention.slot = slot;
	process->attention.since_ns = now;
	process->attention.until_ns = now + attention_ns;
	process->attention.nr_hops = 0;
	process->context_id = request->id;
	process->context_opened_ns = now;
	process->loan_until_ns = 0;
	process->loan_debt_ns = 0;
	arm(now);
	count(APPEASE_CNT_OPENED);
}

/* Writers */

/* Leaves @attention on @key, one hop further, as written by the current process. */
static __always_inline void leave_stamp(const struct stamp_key *key, const struct appease_attention *attention,
					u32 object, u64 now)
{
	u32 zero = 0, hop = attention->nr_hops;
	struct appease_attention *stamp = bpf_map_lookup_elem(&scratch, &zero);

	if (!stamp)
		return;
	if (hop >= max_hops || hop >= APPEASE_MAX_HOPS) {
		count(APPEASE_CNT_HOPS_EXCEEDED);
		bpf_map_delete_elem(&stamps, key);
		return;
	}
	*stamp = *attention;
	stamp->path[hop].at_ns = now;
	stamp->path[hop].tgid = current_tgid();
	stamp->path[hop].object = object;
	stamp->nr_hops = hop + 1;
	bpf_map_update_elem(&stamps, key, stamp, BPF_ANY);
	count(APPEASE_CNT_STAMPED);
}

/* The request for which the current process speaks: that of the last message it read; NULL: for nobody's. */
static __always_inline struct appease_request *try_spoken_for(struct appease_process *process, u64 now)
{
	if (!process || !process->context_id || process->context_id != process->attention.request_id)
		return NULL;
	return try_lookup_request(&process->attention, now);
}

/*
 * The current process writes to @key. What an attended one writes for its customer is stamped, and who wakes up from
 * it is lent a turn; anything else takes the stamp of an earlier message off.
 */
static __always_inline void note_write(const struct stamp_key *key, u32 object)
{
	u64 now = bpf_ktime_get_ns();
	struct appease_process *process = try_current_process();
	struct appease_request *request = try_spoken_for(process, now);
	struct doing *doing;

	if (request) {
		leave_stamp(key, &process->attention, object, now);
		begin_handing(request->id, request->opened_ns, now);
		return;
	}
	/* A kernel worker that carries a stamp, such as a terminal's echo. */
	doing = try_current_doing();
	if (doing && doing->via.b) {
		struct appease_attention *carried = bpf_map_lookup_elem(&stamps, &doing->via);

		if (carried) {
			leave_stamp(key, carried, object, now);
			return;
		}
	}
	bpf_map_delete_elem(&stamps, key);
}

/* Readers */

/* The current process successfully read a message from @key. */
static __always_inline void note_read(const struct stamp_key *key)
{
	u64 now = bpf_ktime_get_ns();
	struct appease_attention *stamp = bpf_map_lookup_elem(&stamps, key);
	struct appease_request *request = NULL;
	struct appease_process *process;

	if (stamp)
		request = try_lookup_request(stamp, now);
	if (!request) {
		process = try_current_process();
		if (process)
			process->context_id = 0;
		return;
	}
	process = current_process();
	if (!process)
		return;
	process->context_id = request->id;
	process->context_opened_ns = request->opened_ns;
	process->loan_until_ns = 0;
	process->loan_debt_ns = 0;
	/* An echo of what it wrote itself: it is nearer to the customer than its correspondent. */
	if (process->attention.request_id == request->id)
		return;
	process->attention = *stamp;
	process->attention.since_ns = now;
	count(APPEASE_CNT_PICKED_UP);
}

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

static __always_inline struct stamp_key object_key(const void *object, u32 kind)
{
	return (struct stamp_key){ .a = (u64)object, .b = kind };
}

#endif
