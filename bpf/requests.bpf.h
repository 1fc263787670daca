/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What all hooks of sense.bpf.c need: the current process, what it hands on, the requests that it opens.
 */
#ifndef APPEASE_REQUESTS_BPF_H
#define APPEASE_REQUESTS_BPF_H

#include "accounts.bpf.h"
#include "news.bpf.h"
#include "policy/quota.h"

/* From kernel headers; constants do not travel in BTF. */
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

/* The file of @task, which can be read, at descriptor @fd; it is not held. */
static __always_inline struct file *try_file_of(struct task_struct *task, u64 fd)
{
	struct fdtable *table = task->files->fdt;
	struct file *file = NULL;

	if (fd >= table->max_fds)
		return NULL;
	bpf_probe_read_kernel(&file, sizeof(file), (struct file **)table->fd + fd);
	return file ? readable(file, struct file) : NULL;
}

/* The current task's. */
static __always_inline struct file *try_file_at(u64 fd)
{
	return try_file_of(readable((void *)bpf_get_current_task(), struct task_struct), fd);
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

/* Somebody is served, until @until_ns if not for longer. */
static __always_inline void serve(u64 until_ns)
{
	if (policy_before(armed.until_ns, until_ns))
		armed.until_ns = until_ns;
	armed.on = 1;
	armed.serves = 1;
}

static __always_inline void arm(u64 now)
{
	serve(now + attention_ns + retention_ns);
}

/* CPU time up to which @request may be extended. */
static __always_inline u64 most_for(const struct appease_request *request)
{
	return request->flags & APPEASE_REQUEST_PERIOD ? request->budget_ns : budget_ns;
}

/* Says that wake-ups by the current task on this CPU hand on @request, which it @writes itself; if that is NULL, an input event of @customer. */
static __always_inline void begin_handing(const struct appease_request *request, u32 customer, bool writes, u64 now)
{
	struct handing *handing = this_handing();

	if (!handing)
		return;
	handing->at_ns = now;
	handing->opened_ns = !request ? now : policy == APPEASE_POLICY_CAS ? request->sent_ns : request->opened_ns;
	handing->key = request && policy == APPEASE_POLICY_APPEASE ? request_key(request, now) : now;
	handing->request_id = request ? request->id : 0;
	handing->terminal = 0;
	handing->customer = request ? request->customer : customer;
	handing->weight = request ? request->weight : POLICY_WEIGHT_DEFAULT;
	handing->is_served = writes && request && !is_spent(request);
	handing->channel = request ? request->channel : APPEASE_NR_CHANNELS;
	handing->is_new = 0;
	handing->pid = bpf_get_current_pid_tgid();
}

static __always_inline void end_handing(void)
{
	struct handing *handing = this_handing();

	if (handing)
		handing->pid = 0;
}

/* A channel has something, of @customer if that is known: its known readers are woken. */
static __always_inline void channel_event(u32 customer, u64 now)
{
	/* Its reader may have had no customer for hours: the wake-up must be looked at. */
	arm(now);
	begin_handing(NULL, customer, false, now);
}

/* Requests */

/* Shares, for policy cas (policy/share.h) */

/* The current process, @to, got a message of @request from the process @tgid: it was asked, or answered. */
static __noinline int move_share(struct appease_request *request, u32 tgid, struct appease_process *to, bool is_answer)
{
	struct appease_process *from;
	struct task_struct *task;
	u64 now;

	if (!request || !to)
		return 0;
	task = bpf_task_from_pid(tgid);
	if (!task)
		return 0;
	now = bpf_ktime_get_ns();
	from = try_process(task);
	if (from && is_answer)
		hand_back_share(request, from, to, now);
	else if (from)
		split_share(request, from, to, now);
	bpf_task_release(task);
	return 0;
}

/* Opening */

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

/* One record of sixteen is free for the seat at the least. If they lie anyhow, one of ten million searches finds none. */
#define LOCAL_TRIES 256

/* Of what is kept from whom, see policy/quota.h. */
static __always_inline u32 kept_from(u32 kind)
{
	switch (kind) {
	case APPEASE_CUSTOMER_SEAT:
	case APPEASE_CUSTOMER_LINE:
		return 0;
	case APPEASE_CUSTOMER_UID:
	case APPEASE_CUSTOMER_CGROUP:
		return QUOTA_KEPT_FROM_USERS;
	default:
		return QUOTA_KEPT_FROM_ADDRESSES;
	}
}

static __always_inline bool may_open(const struct appease_customer *customer)
{
	return quota_allows(customer->open, armed.unaccounted, APPEASE_NR_REQUESTS, kept_from(customer->key.kind));
}

/* How many records are tried for a request of @customer. Of addresses, which have more than there are under a flood, the newest go without. */
static __always_inline u32 tries_for(const struct appease_customer *customer)
{
	return kept_from(customer->key.kind) == QUOTA_KEPT_FROM_ADDRESSES ? TRIES : LOCAL_TRIES;
}

/* A free record for a request: never used, over, or of one whose time is over; NULL: all are taken. */
static __always_inline struct appease_request *free_request(u32 tries, u64 now, u32 *slot)
{
	struct appease_request *request;
	u32 i;

	bpf_for(i, 0, tries) {
		u32 at = __sync_fetch_and_add(&armed.next_slot, 1) % APPEASE_NR_REQUESTS;

		request = bpf_map_lookup_elem(&requests, &at);
		if (!request)
			return NULL;
		if (request->id && request->is_over != APPEASE_ACCOUNTED) {
			if (!is_to_end(request, now))
				continue;
			end_request(request, now);
		}
		*slot = at;
		return request;
	}
	return NULL;
}

/* Opens a request; its slot + 1, or 0: there is no record to be had. */
__noinline u32 new_request(const struct source *source __arg_nonnull, u32 slot_of_rule, u32 access, u64 now)
{
	struct appease_customer *customer;
	struct appease_request *request;
	struct appease_rule *rule = bpf_map_lookup_elem(&rules, &slot_of_rule);
	u32 behind, slot = 0;

	if (!rule)
		return 0;
	behind = customer_behind(source, now);
	customer = try_customer(behind);
	if (!customer)
		return 0;
	/* The newest go without, not those that are served. */
	request = may_open(customer) ? free_request(tries_for(customer), now, &slot) : NULL;
	if (!request) {
		__sync_fetch_and_add(&customer->denied, 1);
		return 0;
	}
	__sync_fetch_and_add(&armed.unaccounted, 1);
	__sync_fetch_and_add(&customer->open, 1);
	if (access == APPEASE_READ)
		__sync_fetch_and_add(&customer->opened, 1);
	request->id = __sync_add_and_fetch(&armed.last_id, 1);
	request->opened_ns = now;
	request->sent_ns = now - source->waited_us * 1000ULL;
	request->served_ns = 0;
	request->served_at_ns = 0;
	request->budget_ns = access == APPEASE_WRITE ? period_budget(customer, quiet_ns, now) : budget_ns;
	request->first_response_ns = 0;
	request->last_response_ns = 0;
	request->object = source->object;
	request->channel = source->channel;
	request->rule = slot_of_rule;
	request->reader_tgid = current_tgid();
	request->peer_port = source->peer_port;
	request->peer[0] = source->peer[0];
	request->peer[1] = source->peer[1];
	request->customer = behind;
	request->weight = request_weight(customer->weight, rule->weight);
	/* A screen, a console: what is shown first is seldom all. */
	request->flags = access == APPEASE_WRITE ? APPEASE_REQUEST_PERIOD | APPEASE_REQUEST_GOES_ON :
			 source->channel <= APPEASE_CHANNEL_FILE ? APPEASE_REQUEST_GOES_ON : 0;
	request->waiting_ns = 0;
	request->ready_at = 0;
	request->is_over = APPEASE_OPEN;
	return slot + 1;
}

/* The request in @slot is the latest of its end of a channel, after @known; that one has its answer, or another reader. */
__noinline int follow_latest(struct latest *known __arg_nonnull, u32 slot, u64 now)
{
	struct appease_request *former, *request = bpf_map_lookup_elem(&requests, &slot);
	u32 at = known->slot;

	if (!request || request->id == known->id)
		return 0;
	former = bpf_map_lookup_elem(&requests, &at);
	if (former && former->id == known->id && former->last_response_ns && among(former) != RESPONSE_GOES_ON)
		end_request(former, now);
	/* A look-up meanwhile finds no request of that number in that slot. */
	known->id = request->id;
	known->slot = slot;
	known->customer = request->customer;
	return 0;
}

/* The same of an end that is no connection of TCP: what is known of those hangs on them. */
__noinline int note_latest(const struct appease_request *request __arg_nonnull, u32 slot, u64 far, u64 now)
{
	struct line line = { .far = far };
	struct latest *known, latest = { .slot = slot };

	latest.id = request->id;
	latest.customer = request->customer;
	line.object = request->object;
	known = bpf_map_lookup_elem(&latest_by, &line);
	if (known)
		follow_latest(known, slot, now);
	else
		bpf_map_update_elem(&latest_by, &line, &latest, BPF_ANY);
	return 0;
}

/* The one of several threads of a server, and what it works on. */
__noinline int note_thread(const struct appease_process *process __arg_nonnull)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct appease_thread *thread;

	if (!has_threads(task))
		return 0;
	thread = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		count(APPEASE_CNT_STORAGE_FAILED);
		return 0;
	}
	thread->attention = process->attention;
	thread->context_id = process->context_id;
	return 0;
}

/* What somebody waits for now has come to @task: if that waits for a CPU, by what it did before, its place in the queue is to be a new one. */
static __always_inline void place_anew(struct task_struct *task)
{
	struct scx_dispatch_q *queue;

	if (policy != APPEASE_POLICY_APPEASE || !bpf_core_field_exists(task->scx))
		return;
	queue = BPF_CORE_READ(task, scx.dsq);
	if (!queue)
		return;
	armed.moved_from = BPF_CORE_READ(queue, id);
	armed.moved_pid = BPF_CORE_READ(task, pid);
	__sync_fetch_and_add(&armed.moves, 1);
}

/*
 * The current process has got a request. If another one of its threads read it, the first one, which does the work, may be waiting
 * for a CPU, and nothing wakes it up. Of a display server that was about to show a player's picture, keys waited until it was the
 * player's turn.
 */
static __always_inline void place_first_anew(void)
{
	u64 ids = bpf_get_current_pid_tgid();

	if (ids >> 32 != (u32)ids)
		place_anew(readable(bpf_get_current_task_btf(), struct task_struct)->group_leader);
}

/*
 * Whether what the current process, @process, does with @object of @channel is part of the request that it opened there less than @same_ns
 * ago. Then it speaks for that one.
 */
static __always_inline bool is_part_of_latest(struct appease_process *process, u64 object, u32 channel, u64 same_ns, u64 now)
{
	const struct appease_request *request = try_lookup_request(&process->attention, now);
	struct appease_thread *thread;

	if (!request || process->attention.nr_hops || request->object != object || request->channel != channel ||
	    now - request->opened_ns >= same_ns || request->last_response_ns)
		return false;
	process->context_id = request->id;
	process->gives_on = 0;
	process->context_opened_ns = request->opened_ns;
	thread = try_thread(bpf_get_current_task_btf());
	if (thread) {
		if (thread->attention.request_id != request->id)
			thread->attention = process->attention;
		thread->context_id = request->id;
	}
	tell_current_wanted(process);
	return true;
}

/*
 * The current process, @process, got something from its customer, or gave it something: opens a request, or takes it for part of
 * the one that it opened less than @same_ns ago on this channel. Its slot + 1; 0: there is none to be had.
 */
static __always_inline u32 open_request(struct appease_process *process, const struct source *source, u32 rule, u32 access,
					u64 same_ns, u64 now)
{
	struct appease_request *request;
	u32 opened, slot;

	if (access == APPEASE_READ)
		process->channel_read_ns = now;
	if (is_part_of_latest(process, source->object, source->channel, same_ns, now))
		return process->attention.slot + 1;
	opened = new_request(source, rule, access, now);
	slot = opened - 1;
	request = opened ? bpf_map_lookup_elem(&requests, &slot) : NULL;
	if (!request) {
		/* What it does now is not for whom it served before. */
		process->context_id = 0;
		process->gives_on = 0;
		count(APPEASE_CNT_OPEN_DENIED);
		return 0;
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
	repay_loan(process);
	if (policy == APPEASE_POLICY_CAS)
		give_share(process, request->id, now - request->sent_ns, now);
	if (source->channel > APPEASE_CHANNEL_FILE && access == APPEASE_READ) {
		if (source->channel == APPEASE_CHANNEL_INET)
			armed.inet_at_ns = now;
		if (!source->is_connection)
			note_latest(request, slot, source->far, now);
		note_thread(process);
	}
	tell_current_wanted(process);
	arm(now);
	if (access == APPEASE_READ)
		place_first_anew();
	count(APPEASE_CNT_OPENED);
	return opened;
}

#endif
