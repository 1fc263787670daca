/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Policy rsio: handlers of channels, and the processes that communicate with them (policy/confidence.h has the rule).
 *
 *	access to a channel	activates its handler: until sys_expire later, or until others took over
 *	communication, fork	makes a candidate of who communicates with a handler, in the handler's direction
 *	co_delta after		each activation, the handler's candidates are judged; a cohandler lasts as long as its
 *				handler, and is judged itself whenever it took part, so cohandlers have cohandlers
 *
 * Direction: for a handler that reads its channel, who reads what it wrote; for one that writes, who writes to what it
 * reads. The latest reader and writer of each object are kept.
 *
 * Where it is bad: records are changed without a lock, so two CPUs that judge the same handler at once may lose a count.
 */
#ifndef APPEASE_HANDLERS_BPF_H
#define APPEASE_HANDLERS_BPF_H

#include "requests.bpf.h"

/* Policy appease keeps confidence, too, where no message tells: in those who are woken through shared memory. */
const volatile u32 max_conf = 5;
const volatile u32 co_conf = 2;
const volatile u64 co_delta_ns = 5000000ULL;

/* From kernel headers; constants do not travel in BTF. */
#define CLOCK_MONOTONIC 1

/* Half a turn of 100 ms: a child shared what was left of its parent's. */
#define FIRST_TURN_NS 50000000ULL
/* Processes that one activation prolongs, at most: a handler's cohandlers, theirs, and so on. */
#define PROLONGED_MAX 32
/* Activations that one turn of the timer judges, at most. */
#define JUDGED_AT_ONCE 64

/* The latest process at each end of an object. */
struct ends {
	u32 reader;
	u32 writer;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct stamp_key);
	__type(value, struct ends);
} ends_map SEC(".maps");

/* Those of sockets hang on the one that receives. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct ends);
} socket_ends SEC(".maps");

/*
 * Most messages go to and fro between two processes that have nothing to do with a channel. Of each of these objects: the process that wrote
 * there and the one that read when neither had a record, so there is nothing to note and nothing to look up. Another object may have
 * the same place. What is torn by two CPUs ends when somebody else reads or writes.
 */
struct strangers {
	u64 object;
	u64 handlers_made;	/* armed.handlers_made, then */
	u32 reader;
	u32 writer;
};

#define STRANGERS_LOG2 12
static struct strangers strangers[1 << STRANGERS_LOG2];

/* Handlers of each channel, by the object in struct source. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, struct confidence_list);
} channel_handlers SEC(".maps");

/* An activation that is to be judged when its time is over. */
struct activation {
	u64 at_ns;
	u32 tgid;
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1024);
	__type(value, struct activation);
} activations SEC(".maps");

struct judge_timer {
	struct bpf_timer timer;
	u64 is_set;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct judge_timer);
} judge_timers SEC(".maps");

/* Too large for the stack: an empty list and record, and the processes that an activation prolongs. */
struct handler_scratch {
	struct confidence_list list;
	struct appease_handler handler;
	u32 tgids[PROLONGED_MAX];
	u32 nr_tgids;
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct handler_scratch);
} handler_scratches SEC(".maps");

static __always_inline struct handler_scratch *handler_scratch(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&handler_scratches, &zero);
}

static __always_inline struct appease_handler *try_handler(u32 tgid)
{
	return bpf_map_lookup_elem(&handlers, &tgid);
}

/* Index of @id in @list, or of the entry that it may have. Global: a bound that the verifier learns of it stays out of the search. */
__noinline u32 entry_of(const struct confidence_list *list __arg_nonnull, u32 id)
{
	return confidence_index(list, id);
}

/* @id communicated with @handler, or was forked by it. */
static __always_inline void note_communication(struct appease_handler *handler, u32 id, u64 now)
{
	confidence_communicate(&handler->cohandlers, entry_of(&handler->cohandlers, id), id, now);
}

static __always_inline struct appease_handler *make_handler(u32 tgid)
{
	struct appease_handler *handler = try_handler(tgid);
	struct handler_scratch *scratch;

	if (handler)
		return handler;
	scratch = handler_scratch();
	if (!scratch)
		return NULL;
	bpf_map_update_elem(&handlers, &tgid, &scratch->handler, BPF_NOEXIST);
	__sync_fetch_and_add(&armed.handlers_made, 1);
	handler = try_handler(tgid);
	if (!handler)
		count(APPEASE_CNT_STORAGE_FAILED);
	return handler;
}

static __always_inline u64 later(u64 a, u64 b)
{
	return policy_before(a, b) ? b : a;
}

static __always_inline u64 earlier(u64 a, u64 b)
{
	return policy_before(a, b) ? a : b;
}

static __always_inline u64 handling_until(const struct appease_handler *handler)
{
	return later(handler->primary_until_ns, handler->co_until_ns);
}

/* Has the process @tgid judged when the time around its activation at @at_ns is over. */
static __always_inline void judge_later(u32 tgid, u64 at_ns)
{
	struct activation activation = { .at_ns = at_ns, .tgid = tgid };
	struct judge_timer *timer;
	u32 zero = 0;

	if (bpf_map_push_elem(&activations, &activation, 0)) {
		count(APPEASE_CNT_NOT_JUDGED);
		return;
	}
	timer = bpf_map_lookup_elem(&judge_timers, &zero);
	if (timer && !__sync_lock_test_and_set(&timer->is_set, 1))
		bpf_timer_start(&timer->timer, co_delta_ns, 0);
}

/* The process @tgid is a cohandler of @of until @until_ns. */
__noinline int join(u32 tgid, u32 of, u64 until_ns, u32 access)
{
	struct appease_handler *handler = make_handler(tgid);
	u32 i, best = 0;

	if (!handler)
		return 0;
	for (i = 0; i < APPEASE_HANDLER_PRIMARIES; i++) {
		if (handler->primaries[i].tgid == of) {
			best = i;
			break;
		}
		if (policy_before(handler->primaries[i].until_ns, handler->primaries[best].until_ns))
			best = i;
	}
	handler->primaries[best & (APPEASE_HANDLER_PRIMARIES - 1)].tgid = of;
	handler->primaries[best & (APPEASE_HANDLER_PRIMARIES - 1)].until_ns = until_ns;
	handler->co_until_ns = later(handler->co_until_ns, until_ns);
	handler->access |= access;
	return 0;
}

/* The process @tgid is no cohandler of @of any more, if it ever was. */
__noinline int leave(u32 tgid, u32 of)
{
	struct appease_handler *handler = try_handler(tgid);
	bool was_one = false;
	u64 until_ns = 0;
	u32 i;

	if (!handler)
		return 0;
	for (i = 0; i < APPEASE_HANDLER_PRIMARIES; i++) {
		if (handler->primaries[i].tgid == of) {
			handler->primaries[i].tgid = 0;
			handler->primaries[i].until_ns = 0;
			was_one = true;
		}
		until_ns = later(until_ns, handler->primaries[i].until_ns);
	}
	/* A child in its first turn has no such entry, and goes on. */
	if (was_one)
		handler->co_until_ns = until_ns;
	return 0;
}

/* Others took the channel @object over from the process @tgid. */
__noinline int step_down(u32 tgid, u64 object)
{
	struct appease_handler *handler = try_handler(tgid);
	u64 until_ns = 0;
	u32 i;

	if (!handler)
		return 0;
	for (i = 0; i < APPEASE_HANDLER_CHANNELS; i++) {
		if (handler->channels[i].object == object)
			handler->channels[i].until_ns = 0;
		until_ns = later(until_ns, handler->channels[i].until_ns);
	}
	handler->primary_until_ns = until_ns;
	return 0;
}

/*
 * The cohandlers of @tgid, theirs, and so on are part of the interaction for as long as it is. One loop, and its state not
 * in variables: the verifier would try every value of them.
 */
__noinline int prolong(u32 tgid)
{
	struct handler_scratch *scratch = handler_scratch();
	u32 step;

	if (!scratch)
		return 0;
	scratch->tgids[0] = tgid;
	scratch->nr_tgids = 1;
	bpf_for(step, 0, PROLONGED_MAX * CONFIDENCE_ENTRIES) {
		u32 i = step / CONFIDENCE_ENTRIES, n = scratch->nr_tgids, of;
		struct appease_handler *handler, *next;
		struct confidence_entry *entry;

		if (i >= n)
			break;
		of = scratch->tgids[i & (PROLONGED_MAX - 1)];
		handler = try_handler(of);
		if (!handler)
			continue;
		entry = &handler->cohandlers.entries[step & (CONFIDENCE_ENTRIES - 1)];
		if (!entry->id || entry->confidence <= co_conf)
			continue;
		next = try_handler(entry->id);
		/* Already: a cycle, or two ways to the same process. */
		if (next && !policy_before(handling_until(next), handling_until(handler)))
			continue;
		join(entry->id, of, handling_until(handler), handler->access);
		if (n < PROLONGED_MAX) {
			scratch->tgids[n & (PROLONGED_MAX - 1)] = entry->id;
			scratch->nr_tgids = n + 1;
		}
	}
	return 0;
}

/* The current process accessed the channel of @object: its handler is active. */
__noinline int activate_handler(u64 object, u32 rule, u32 access, u64 now)
{
	u32 tgid = current_tgid(), i, best = 0;
	struct handler_scratch *scratch = handler_scratch();
	struct appease_handler *handler = make_handler(tgid);
	struct confidence_list *list = bpf_map_lookup_elem(&channel_handlers, &object);

	if (!list && scratch) {
		bpf_map_update_elem(&channel_handlers, &object, &scratch->list, BPF_NOEXIST);
		list = bpf_map_lookup_elem(&channel_handlers, &object);
	}
	if (!list || !handler) {
		count(APPEASE_CNT_OPEN_DENIED);
		return 0;
	}
	/* What it did with channels that it left long ago says nothing of its direction now. */
	if (!is_handling(handler, now))
		handler->access = 0;
	confidence_interact(list, entry_of(list, tgid), tgid, now, max_conf);
	bpf_for(i, 0, CONFIDENCE_ENTRIES) {
		struct confidence_entry *entry = &list->entries[i & (CONFIDENCE_ENTRIES - 1)];

		if (entry->id && !entry->confidence) {
			step_down(entry->id, object);
			entry->id = 0;
		}
	}
	for (i = 0; i < APPEASE_HANDLER_CHANNELS; i++) {
		if (handler->channels[i].object == object) {
			best = i;
			break;
		}
		if (policy_before(handler->channels[i].until_ns, handler->channels[best].until_ns))
			best = i;
	}
	best &= APPEASE_HANDLER_CHANNELS - 1;
	handler->channels[best].object = object;
	handler->channels[best].rule = rule;
	handler->channels[best].until_ns = now + sys_expire_ns;
	handler->primary_until_ns = now + sys_expire_ns;
	serve(handler->primary_until_ns);
	handler->access |= access;
	handler->activated_ns = now;
	prolong(tgid);
	judge_later(tgid, now);
	count(APPEASE_CNT_OPENED);
	return 0;
}

/* Policy rsio: user space is told here, and not at the access, whose calls have filled the stack. */
static __always_inline void tell_handler(struct appease_handler *handler, u32 tgid)
{
	if (policy == APPEASE_POLICY_RSIO)
		tell_wanted(&handler->told, APPEASE_TOLD_WANTED, tgid);
}

/* The time around an activation is over. */
__noinline int judge_cohandlers(u32 tgid, u64 at_ns)
{
	struct appease_handler *handler = try_handler(tgid);
	u32 i;

	if (!handler)
		return 0;
	tell_handler(handler, tgid);
	confidence_adjust(&handler->cohandlers, at_ns, co_delta_ns, max_conf);
	bpf_for(i, 0, CONFIDENCE_ENTRIES) {
		struct confidence_entry *entry = &handler->cohandlers.entries[i & (CONFIDENCE_ENTRIES - 1)];
		struct appease_handler *cohandler;
		u32 id = entry->id;

		if (!id)
			continue;
		if (entry->confidence <= co_conf) {
			leave(id, tgid);
			continue;
		}
		join(id, tgid, handling_until(handler), handler->access);
		cohandler = try_handler(id);
		if (cohandler)
			tell_handler(cohandler, id);
		/* It took part, so whoever it talked to then may have, too. A primary handler has activations of its own. */
		if (cohandler && !policy_before(at_ns, cohandler->primary_until_ns) &&
		    confidence_within(entry->access_ns, at_ns, co_delta_ns) &&
		    policy_before(cohandler->activated_ns, entry->access_ns)) {
			cohandler->activated_ns = entry->access_ns;
			judge_later(id, entry->access_ns);
		}
	}
	return 0;
}

static int judge_activations(void *map, int *key, struct judge_timer *timer)
{
	struct activation activation;
	u32 i;

	timer->is_set = 0;
	bpf_for(i, 0, JUDGED_AT_ONCE) {
		u64 now = bpf_ktime_get_ns(), due;

		if (bpf_map_peek_elem(&activations, &activation))
			return 0;
		due = activation.at_ns + co_delta_ns;
		if (policy_before(now, due)) {
			if (!__sync_lock_test_and_set(&timer->is_set, 1))
				bpf_timer_start(&timer->timer, due - now, 0);
			return 0;
		}
		if (!bpf_map_pop_elem(&activations, &activation))
			judge_cohandlers(activation.tgid, activation.at_ns);
	}
	if (!__sync_lock_test_and_set(&timer->is_set, 1))
		bpf_timer_start(&timer->timer, 0, 0);
	return 0;
}

/* The two ends of the object @key, of which one may be new. */
static __always_inline struct ends *ends_of(const struct stamp_key *key)
{
	struct ends *ends = bpf_map_lookup_elem(&ends_map, key), fresh = {};

	if (ends)
		return ends;
	bpf_map_update_elem(&ends_map, key, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&ends_map, key);
}

/* The two ends of @sk, or, if that is NULL, of the object of @key. */
static __always_inline struct ends *ends_at(const struct stamp_key *key, struct sock *sk)
{
	struct ends *ends;

	ends = sk ? bpf_sk_storage_get(&socket_ends, sk, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE) : ends_of(key);
	if (!ends)
		count(APPEASE_CNT_STORAGE_FAILED);
	return ends;
}

static __always_inline struct strangers *strangers_at(u64 object)
{
	/* By the golden ratio, whose multiples lie evenly. */
	return &strangers[object * 0x9e3779b97f4a7c15ULL >> (64 - STRANGERS_LOG2)];
}

/*
 * Whether the current process, which does @access to the object of @key, and the one at the other end are strangers. In a function of its
 * own: where a hook has the object, the verifier holds its address for a pointer, which is no number.
 */
__noinline int are_strangers(const struct stamp_key *key __arg_nonnull, u32 access)
{
	const struct strangers *both = strangers_at(key->a);

	return both->object == key->a && (access == APPEASE_WRITE ? both->writer : both->reader) == current_tgid() &&
	       both->handlers_made == armed.handlers_made;
}

/* Nothing is known of the processes at the object of @key. */
__noinline int forget_strangers(const struct stamp_key *key __arg_nonnull)
{
	struct strangers *both = strangers_at(key->a);

	if (both->object == key->a)
		both->object = 0;
	return 0;
}

/* @reader and @writer of the object of @key had no record when so many were @made. */
__noinline int note_strangers(const struct stamp_key *key __arg_nonnull, u32 reader, u32 writer, u64 made)
{
	struct strangers *both = strangers_at(key->a);

	both->reader = reader;
	both->writer = writer;
	both->handlers_made = made;
	both->object = key->a;
	return 0;
}

/*
 * The current process communicated with @other, which @access to its channels makes a handler. How many records had been made when neither of
 * them had one; 0: one of them has, or there is no other.
 */
__noinline u64 communicate(u32 other, u32 access)
{
	u64 made = *(volatile u64 *)&armed.handlers_made;
	u32 tgid = current_tgid();
	struct appease_handler *handler;

	if (!other || other == tgid)
		return 0;
	handler = try_handler(other);
	if (!handler)
		return try_handler(tgid) ? 0 : made;
	if (handler->access & access)
		note_communication(handler, tgid, bpf_ktime_get_ns());
	return 0;
}

/* The current process did @access to the object of @key; on @sk, if that is not NULL, hangs what is known of its ends. */
static __always_inline void note_access(const struct stamp_key *key, struct sock *sk, u32 access)
{
	struct ends *ends = are_strangers(key, access) ? NULL : ends_at(key, sk);
	u32 tgid = current_tgid(), other;
	u64 made;

	if (!ends)
		return;
	forget_strangers(key);
	*(access == APPEASE_WRITE ? &ends->writer : &ends->reader) = tgid;
	/* Once: another one may come there meanwhile, of which nothing was found. */
	other = *(volatile u32 *)(access == APPEASE_WRITE ? &ends->reader : &ends->writer);
	made = communicate(other, access);
	if (made)
		note_strangers(key, access == APPEASE_WRITE ? other : tgid, access == APPEASE_WRITE ? tgid : other, made);
}

/*
 * A child is a candidate as if it had communicated with its parent. That makes it a cohandler after some activations at
 * best, and a command is done by then. The scheduler of the paper (Linux 2.6.19) started a child with its parent's
 * priority, bonus included, and looked at it anew after its first turn: FIRST_TURN_NS stands for that.
 */
static __always_inline void handler_forked(u32 parent, u32 child, u64 now)
{
	struct appease_handler *handler = try_handler(parent), *born;

	if (!handler)
		return;
	note_communication(handler, child, now);
	if (!is_handling(handler, now))
		return;
	born = make_handler(child);
	/* No longer than its parent, or a chain of forks would go on for ever. */
	if (born) {
		born->co_until_ns = earlier(now + FIRST_TURN_NS, handling_until(handler));
		tell_wanted(&born->told, APPEASE_TOLD_WANTED, child);
	}
}

/*
 * The process @tgid ended: off the lists of its channels and of those whose cohandler it was. A mere candidate stays on the
 * lists of others until newcomers or its confidence take it off; it is looked for in vain.
 */
static __noinline void forget_handler(u32 tgid)
{
	struct appease_handler *handler = try_handler(tgid);
	u32 i;

	if (!handler)
		return;
	for (i = 0; i < APPEASE_HANDLER_CHANNELS; i++) {
		u64 object = handler->channels[i].object;
		struct confidence_list *list = object ? bpf_map_lookup_elem(&channel_handlers, &object) : NULL;

		if (list)
			confidence_forget(list, tgid);
	}
	for (i = 0; i < APPEASE_HANDLER_PRIMARIES; i++) {
		u32 of = handler->primaries[i].tgid;
		struct appease_handler *primary = of ? try_handler(of) : NULL;

		if (primary)
			confidence_forget(&primary->cohandlers, tgid);
	}
	bpf_map_delete_elem(&handlers, &tgid);
}

/* Called by the daemon once, before anything else. */
SEC("syscall")
int appease_begin(void *ctx)
{
	struct judge_timer *timer;
	u32 zero = 0;

	timer = bpf_map_lookup_elem(&judge_timers, &zero);
	if (!timer)
		return 1;
	if (policy == APPEASE_POLICY_RSIO)
		arm(bpf_ktime_get_ns());
	bpf_timer_init(&timer->timer, &judge_timers, CLOCK_MONOTONIC);
	return bpf_timer_set_callback(&timer->timer, judge_activations);
}

#endif
