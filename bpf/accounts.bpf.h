/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Accounts: whose request a request is, what became of it, and when it was answered (policy/response.h).
 *
 *	opening		finds or makes the customer's slot, with its weight
 *	response	a write back to the customer's own end of the channel, or a picture that shows what came back
 *	end		by the next request of the same channel, the next wake-up, or time; then it is accounted for
 */
#ifndef APPEASE_ACCOUNTS_BPF_H
#define APPEASE_ACCOUNTS_BPF_H

#include "customers.bpf.h"

/* From kernel headers; constants do not travel in BTF. */
#define MINOR_BITS 20
#define TTY_MAJOR_OF_CONSOLES 4
#define CONSOLES 64

/* Set before load. */
const volatile u32 customer_is = APPEASE_CUSTOMER_IS_AUTO;

/* Slots that are tried for a request or a customer before there is none to be had. */
#define TRIES 16

/* A customer without a request for so long may have to give its slot to another one. */
#define CUSTOMER_IDLE_NS 60000000000ULL

struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
void bpf_task_release(struct task_struct *p) __ksym;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, APPEASE_MAX_RULES);
	__type(key, u32);
	__type(value, struct appease_rule);
} rules SEC(".maps");

/* Weights of customers, by the longest prefix. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct appease_weight_key);
	__type(value, u32);
} weights SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, APPEASE_NR_CUSTOMERS);
	__type(key, struct appease_customer_key);
	__type(value, u32);
} customer_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, APPEASE_NR_LATENCIES);
	__type(key, u32);
	__type(value, struct appease_latency);
} latencies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, APPEASE_NR_LATENCIES);
	__type(key, struct appease_latency_key);
	__type(value, u32);
} latency_slots SEC(".maps");

/* A customer's end of a channel: the object of a request, and of a socket for datagrams the far end. */
struct line {
	u64 object;
	u64 far;
};

/* The latest request by an end that can be written back to. */
struct latest {
	u64 id;
	u32 slot;
	u32 customer;
};

/* Of lines, unix sockets, and datagrams' far ends. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, APPEASE_NR_REQUESTS);
	__type(key, struct line);
	__type(value, struct latest);
} latest_by SEC(".maps");

/*
 * What is known of a connection of TCP by which a customer asks: servers answer on one many thousand times a second, and what hangs
 * on the socket itself takes less than half of a look into a table.
 */
struct connection {
	struct latest latest;
	u64 far[2];	/* for whom the rule was found */
	u32 far_port;
	u32 near_port;
	u32 rule;	/* that counts what anybody reads there; 0: none is known */
	u32 version;	/* of the rules, as of then */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct connection);
} connections SEC(".maps");

static __always_inline struct connection *try_connection(struct sock *sk)
{
	return bpf_sk_storage_get(&connections, sk, NULL, 0);
}

static __always_inline struct connection *connection_of(struct sock *sk)
{
	struct connection *connection = bpf_sk_storage_get(&connections, sk, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!connection)
		count(APPEASE_CNT_STORAGE_FAILED);
	return connection;
}

/* Too large for the stack: an empty record. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct appease_latency);
} latency_scratch SEC(".maps");

/* What was accessed, and who is at its other end. */
struct source {
	u64 object;	/* as in appease_request */
	u32 channel;	/* enum appease_channel */
	u32 peer_port;
	u64 peer[2];
	u64 far;	/* what tells the ends of datagrams by one socket apart; 0: nothing has to */
	u32 uid;	/* behind a unix socket */
	u32 waited_us;	/* since its data came, as far as is known */
	u32 customer;	/* who it was the last time, as far as is known */
	bool is_connection;	/* what its latest request is stands at the connection, see note_latest() */
};

/* Customers */

static __always_inline u32 weight_for(const struct appease_customer_key *customer)
{
	struct appease_weight_key key = {
		.prefix = 160,
		.kind = customer->kind,
		.id = { customer->id[0], customer->id[1] },
	};
	u32 *weight = armed.weights_version ? bpf_map_lookup_elem(&weights, &key) : NULL;

	return weight && *weight ? *weight : POLICY_WEIGHT_DEFAULT;
}

/* Who sits behind @source, which the current process read. */
static __always_inline void identify_customer(const struct source *source, struct appease_customer_key *key)
{
	u32 major = source->object >> MINOR_BITS, minor = source->object & ((1U << MINOR_BITS) - 1);
	bool is_line = source->channel == APPEASE_CHANNEL_TTY && (major != TTY_MAJOR_OF_CONSOLES || minor >= CONSOLES);

	key->pad = 0;
	key->id[0] = key->id[1] = 0;
	if (customer_is == APPEASE_CUSTOMER_IS_CGROUP) {
		key->kind = APPEASE_CUSTOMER_CGROUP;
		key->id[0] = bpf_get_current_cgroup_id();
	} else if (is_line && customer_is == APPEASE_CUSTOMER_IS_AUTO) {
		key->kind = APPEASE_CUSTOMER_LINE;
		key->id[0] = source->object;
	} else if (source->channel < APPEASE_CHANNEL_FILE && !is_line) {
		key->kind = APPEASE_CUSTOMER_SEAT;
		key->id[0] = armed.seat_uid;
	} else if (source->channel == APPEASE_CHANNEL_INET && customer_is == APPEASE_CUSTOMER_IS_AUTO) {
		key->kind = APPEASE_CUSTOMER_ADDRESS;
		key->id[0] = source->peer[0];
		key->id[1] = source->peer[1];
	} else {
		key->kind = APPEASE_CUSTOMER_UID;
		key->id[0] = source->channel == APPEASE_CHANNEL_UNIX ? source->uid : (u32)bpf_get_current_uid_gid();
	}
}

/* @customer is active no more, or with another weight. */
static __always_inline void leave_active(const struct appease_customer *customer)
{
	__sync_fetch_and_add(&armed.active_weight, -(u64)customer->weight);
	__sync_fetch_and_add(&armed.nr_active, -1);
}

/* Slots below are not for addresses, of which anybody has as many as there are: a quarter. */
#define LOCAL_CUSTOMERS (APPEASE_NR_CUSTOMERS / 4)

/* The slot that is tried next for a customer, of those that it may have. */
static __always_inline u32 next_customer_slot(bool is_address)
{
	if (is_address)
		return LOCAL_CUSTOMERS + __sync_fetch_and_add(&armed.next_address, 1) % (APPEASE_NR_CUSTOMERS - LOCAL_CUSTOMERS);
	return __sync_fetch_and_add(&armed.next_customer, 1) % APPEASE_NR_CUSTOMERS;
}

/* A slot for a new customer: a free one, or that of one who was not heard of for long; 0: none. Only for addresses the search is short. */
__noinline u32 new_customer(const struct appease_customer_key *key __arg_nonnull, u64 now)
{
	bool is_address = key->kind == APPEASE_CUSTOMER_ADDRESS;
	struct appease_customer *customer;
	u32 i, slot;

	bpf_for(i, 0, is_address ? TRIES : APPEASE_NR_CUSTOMERS) {
		slot = next_customer_slot(is_address);
		customer = try_customer(slot);
		if (!slot || !customer ||
		    (customer->latest_ns && (customer->open || now - customer->latest_ns < CUSTOMER_IDLE_NS)))
			continue;
		if (customer->latest_ns)
			bpf_map_delete_elem(&customer_slots, &customer->key);
		if (customer->is_active)
			leave_active(customer);
		__builtin_memset(customer, 0, sizeof(*customer));
		customer->key = *key;
		if (bpf_map_update_elem(&customer_slots, key, &slot, BPF_NOEXIST))
			return 0;
		return slot;
	}
	return 0;
}

static __always_inline bool is_key_of(const struct appease_customer *customer, const struct appease_customer_key *key)
{
	return customer->key.kind == key->kind && customer->key.id[0] == key->id[0] && customer->key.id[1] == key->id[1];
}

/* Whether the customer in @slot is that of @key. */
static __always_inline bool is_customer(u32 slot, const struct appease_customer_key *key)
{
	const struct appease_customer *customer = slot ? try_customer(slot) : NULL;

	return customer && is_key_of(customer, key);
}

/* The slot of the customer behind @source; 0 if all are taken. */
__noinline u32 customer_behind(const struct source *source __arg_nonnull, u64 now)
{
	struct appease_customer_key key;
	struct appease_customer *customer;
	u32 *known, slot;

	identify_customer(source, &key);
	slot = is_customer(source->customer, &key) ? source->customer : 0;
	if (!slot) {
		known = bpf_map_lookup_elem(&customer_slots, &key);
		slot = known ? *known : new_customer(&key, now);
	}
	if (!slot)
		count(APPEASE_CNT_CUSTOMERS_FULL);
	customer = try_customer(slot);
	if (!customer)
		return 0;
	customer->latest_ns = now;
	if (customer->is_active && customer->weights_version == armed.weights_version)
		return slot;
	if (customer->is_active)
		leave_active(customer);
	customer->weight = slot ? weight_for(&key) : POLICY_WEIGHT_DEFAULT;
	customer->weights_version = armed.weights_version;
	customer->is_active = 1;
	__sync_fetch_and_add(&armed.active_weight, (u64)customer->weight);
	__sync_fetch_and_add(&armed.nr_active, 1);
	return slot;
}

/* Ends */

/* Not inlined thrice: the start takes as long as the verifier takes for the text of each program. */
__noinline u32 bucket_of(u64 ns)
{
	return histogram_bucket(ns);
}

static __always_inline void add_to(u32 *histogram, u32 bucket)
{
	if (bucket < HISTOGRAM_BUCKETS)
		__sync_fetch_and_add(&histogram[bucket], 1);
}

static __always_inline struct appease_latency *try_latency(u32 slot)
{
	return bpf_map_lookup_elem(&latencies, &slot);
}

/* Of some records by turns, a free one, or the one that was in use longest ago. */
static __always_inline u32 oldest_latency(void)
{
	u64 oldest_ns = ~0ULL;
	u32 i, slot, oldest = 0;

	bpf_for(i, 0, TRIES) {
		const struct appease_latency *latency;

		slot = __sync_fetch_and_add(&armed.next_latency, 1) % APPEASE_NR_LATENCIES;
		latency = try_latency(slot);
		if (!latency || latency->latest_ns >= oldest_ns)
			continue;
		oldest_ns = latency->latest_ns;
		oldest = slot;
		if (!oldest_ns)
			break;
	}
	return oldest;
}

/* The record for @request of @customer, which may be new. */
__noinline u32 latency_for(const struct appease_request *request __arg_nonnull, const struct appease_customer *customer __arg_nonnull)
{
	struct appease_latency_key key = {};
	struct appease_latency *latency, *empty;
	u32 zero = 0, slot, *known;

	key.customer = customer->key;
	key.rule = request->rule;
	known = bpf_map_lookup_elem(&latency_slots, &key);
	if (known)
		return *known;
	slot = oldest_latency();
	latency = try_latency(slot);
	empty = bpf_map_lookup_elem(&latency_scratch, &zero);
	if (!latency || !empty)
		return APPEASE_NR_LATENCIES;
	if (latency->latest_ns)
		bpf_map_delete_elem(&latency_slots, &latency->key);
	bpf_map_update_elem(&latencies, &slot, empty, BPF_ANY);
	latency->key = key;
	if (!bpf_map_update_elem(&latency_slots, &key, &slot, BPF_NOEXIST))
		return slot;
	/* Another CPU was first. */
	known = bpf_map_lookup_elem(&latency_slots, &key);
	return known ? *known : APPEASE_NR_LATENCIES;
}

static __always_inline bool is_latency_of(const struct appease_latency *latency, const struct appease_request *request,
					  const struct appease_customer *customer)
{
	return latency->latest_ns && latency->key.rule == request->rule && is_key_of(customer, &latency->key.customer);
}

/* What an answered request took goes into the histograms of its customer and channel. */
static __always_inline void add_latency(const struct appease_request *request, struct appease_customer *customer)
{
	struct appease_latency *latency = try_latency(customer->latency);
	u64 response, first, unhappiness;
	u32 bucket;

	if (!latency || !is_latency_of(latency, request, customer)) {
		customer->latency = latency_for(request, customer);
		latency = try_latency(customer->latency);
	}
	if (!latency) {
		count(APPEASE_CNT_STORAGE_FAILED);
		return;
	}
	latency->latest_ns = request->last_response_ns;
	response = request->last_response_ns - request->opened_ns;
	unhappiness = unhappiness_ns(request->opened_ns, request->served_ns, request->last_response_ns);
	__sync_fetch_and_add(&latency->response_ns, response);
	__sync_fetch_and_add(&latency->unhappiness_ns, unhappiness);
	first = request->first_response_ns - request->opened_ns;
	bucket = bucket_of(response);
	add_to(latency->response, bucket);
	add_to(latency->first, first == response ? bucket : bucket_of(first));
	add_to(latency->unhappiness, unhappiness == response ? bucket : bucket_of(unhappiness));
}

/* Nobody serves @request any more: what became of it is accounted for, once. */
__noinline int end_request(struct appease_request *request __arg_nonnull, u64 now)
{
	struct appease_customer *customer;
	u64 until;

	if (__sync_lock_test_and_set(&request->is_over, APPEASE_ACCOUNTED) == APPEASE_ACCOUNTED)
		return 0;
	__sync_fetch_and_add(&armed.unaccounted, -1);
	customer = try_customer(request->customer);
	if (!customer)
		return 0;
	__sync_fetch_and_add(&customer->open, -1);
	if (request->flags & APPEASE_REQUEST_PERIOD)
		return 0;
	/* Who worked on it up to the end did so to the end, whenever it is looked at. */
	until = request->opened_ns + attention_ns;
	switch (response_end(request->opened_ns, request->last_response_ns, request->served_at_ns,
			     policy_before(now, until) ? now : until)) {
	case RESPONSE_ANSWERED:
		__sync_fetch_and_add(&customer->answered, 1);
		count(APPEASE_CNT_ANSWERED);
		add_latency(request, customer);
		break;
	case RESPONSE_SILENT:
		__sync_fetch_and_add(&customer->silent, 1);
		count(APPEASE_CNT_SILENT);
		break;
	default:
		__sync_fetch_and_add(&customer->timed_out, 1);
		count(APPEASE_CNT_TIMED_OUT);
	}
	return 0;
}

/* Whether the time of @request is over, or it was answered and nobody serves it any more. */
static __always_inline bool is_to_end(struct appease_request *request, u64 now)
{
	return request->is_over == APPEASE_OVER || !policy_before(now, request->opened_ns + attention_ns) ||
	       (among(request) == RESPONSE_SHARED && request->last_response_ns &&
		response_is_quiet(request->last_response_ns, request->served_at_ns, now));
}

/* Responses */

/* Something of the response to @request goes back. */
static __always_inline void respond(struct appease_request *request, u64 now)
{
	if (!request->first_response_ns)
		request->first_response_ns = now;
	request->last_response_ns = now;
}

/* The request @latest, if it may still be answered: one that was taken for answered too early is open again. */
static __always_inline struct appease_request *try_reopened(const struct latest *latest)
{
	struct appease_request *request;
	u32 slot = latest->slot;

	request = bpf_map_lookup_elem(&requests, &slot);
	if (!request || request->id != latest->id)
		return NULL;
	/* In one step, see ends_at_wakeup(). */
	return __sync_val_compare_and_swap(&request->is_over, APPEASE_OVER, APPEASE_OPEN) == APPEASE_ACCOUNTED ? NULL : request;
}

/*
 * The current task writes to a customer's end of a channel, @object. It answers what it works for, if that came from there; else,
 * a server that answers itself, the latest that came from there: others may have read since, or have handed the answer to it.
 */
static __always_inline bool responds_itself(u64 object, u64 now)
{
	struct appease_request *request = NULL;
	struct appease_process *process;

	process = bpf_task_storage_get(&processes, bpf_get_current_task_btf()->group_leader, 0, 0);
	if (process && process->context_id && process->context_id == process->attention.request_id)
		request = try_request(process->attention.slot, process->context_id);
	if (!request || request->object != object)
		return false;
	respond(request, now);
	return true;
}

static __always_inline void respond_to_latest(const struct latest *latest, u64 now)
{
	struct appease_request *request = latest ? try_reopened(latest) : NULL;

	if (request && among(request) != RESPONSE_GOES_ON)
		respond(request, now);
}

static __noinline int respond_by(const struct line *line)
{
	u64 now = bpf_ktime_get_ns();

	if (line && !responds_itself(line->object, now))
		respond_to_latest(bpf_map_lookup_elem(&latest_by, line), now);
	return 0;
}

/* The same by a connection of TCP. */
static __noinline int respond_on(struct sock *sk)
{
	u64 now = bpf_ktime_get_ns();
	struct connection *connection;

	if (responds_itself((u64)sk, now))
		return 0;
	connection = try_connection(sk);
	if (connection)
		respond_to_latest(&connection->latest, now);
	return 0;
}

/* Requests that came back to servers of screens. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct appease_unshown);
} unshown SEC(".maps");

/* @request came back to the current process, which read it from its channel: it may have to show what that says. */
static __noinline int note_unshown(const struct appease_request *request, u32 slot)
{
	struct appease_unshown *list;
	u32 at;

	if (!request)
		return 0;
	list = bpf_task_storage_get(&unshown, bpf_get_current_task_btf()->group_leader, 0,
				    BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!list) {
		count(APPEASE_CNT_STORAGE_FAILED);
		return 0;
	}
	at = (list->next - 1) & (APPEASE_NR_UNSHOWN - 1);
	if (list->ids[at] == request->id)
		return 0;
	at = list->next++ & (APPEASE_NR_UNSHOWN - 1);
	list->ids[at] = request->id;
	list->slots[at] = slot;
	return 0;
}

/* The current process shows a picture, and in it all that came back to it. */
static __noinline int respond_by_picture(u64 now)
{
	struct appease_unshown *list;
	struct appease_request *request;
	u32 i;

	list = bpf_task_storage_get(&unshown, bpf_get_current_task_btf()->group_leader, 0, 0);
	if (!list)
		return 0;
	bpf_for(i, 0, APPEASE_NR_UNSHOWN) {
		u32 at = i & (APPEASE_NR_UNSHOWN - 1);

		request = list->ids[at] ? try_request(list->slots[at], list->ids[at]) : NULL;
		if (request)
			respond(request, now);
		list->ids[at] = 0;
	}
	return 0;
}

/* Called by the daemon once a second: ends what is over, and finds who is no longer among the active customers. */
static __always_inline void sweep_requests(u64 now)
{
	struct appease_request *request;
	u32 i;

	bpf_for(i, 0, APPEASE_NR_REQUESTS) {
		u32 slot = i;

		request = bpf_map_lookup_elem(&requests, &slot);
		if (request && request->id && request->is_over != APPEASE_ACCOUNTED && is_to_end(request, now))
			end_request(request, now);
	}
}

static __always_inline void sweep_customers(u64 now)
{
	struct appease_customer *customer;
	u32 i;

	bpf_for(i, 0, APPEASE_NR_CUSTOMERS) {
		customer = try_customer(i);
		if (!customer || !customer->is_active || now - customer->latest_ns < FAIRNESS_ACTIVE_NS)
			continue;
		customer->is_active = 0;
		leave_active(customer);
	}
}

SEC("syscall")
int appease_sweep(void *ctx)
{
	u64 now = bpf_ktime_get_ns();

	if (armed.unaccounted)
		sweep_requests(now);
	if (armed.active_weight)
		sweep_customers(now);
	return 0;
}

#endif
