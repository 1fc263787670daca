/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Attention records and stamps: the maps that sense.bpf.c fills and sched.bpf.c reads.
 *
 * sense.bpf.c defines them; user space hands them to the other object by file descriptor. A process is its thread
 * group: records hang on the group's leader as task local storage, so they go when it goes.
 */
#ifndef APPEASE_ATTENTION_BPF_H
#define APPEASE_ATTENTION_BPF_H

#include "abi.h"
#include "policy/unhappiness.h"

/* From kernel headers; constants do not travel in BTF. */
#define PF_KTHREAD 0x00200000
#define PF_IDLE 0x00000002
#define PF_NO_SETAFFINITY 0x04000000
#define DEFAULT_PRIO 120

/*
 * @pointer, of which the verifier knows nothing, as one to @type: its fields can be read in place, where BPF_CORE_READ() calls a
 * function for each. What is not there reads as 0.
 */
#define readable(pointer, type) bpf_core_cast(pointer, type)

/* Set before load, in both objects alike. */
const volatile u64 attention_ns = 4000000000ULL;
const volatile u64 retention_ns = 8000000000ULL;
const volatile u64 loan_ns = 1000000ULL;
const volatile u64 loan_debt_limit_ns = 5000000ULL;
const volatile u32 max_hops = APPEASE_MAX_HOPS;
const volatile u32 policy = APPEASE_POLICY_APPEASE;

/*
 * Age of a request that counts, see policy/unhappiness.h: who was kept waiting has a turn of 3 ms, which counts fourfold, before
 * who comes now. Whoever comes last waits for one turn of each, as in round robin. At 250 ms, twenty turns of each of
 * ten users who had typed a long command at the same time went first, 0.6 s in all.
 */
#define HORIZON_NS 12000000ULL

/* A task waits with a key no farther ahead, or fresh requests would pass it for ever. */
#define LATEST_NS 250000000ULL

/*
 * Weight of a request: its service counts fourfold. With 100 the order is that of Customer Appeasement, where a request
 * that once waited keeps that lead for as long as it runs: a command that has waited 50 ms lets every key press wait for
 * 50 ms. So a request goes before a fresh one only while it has waited three times as long as it was served.
 */
#define REQUEST_WEIGHT 25

/*
 * A writer's wake-ups count as part of its write for this long. There is no hook at the end of a write, for its cost to
 * those who serve nobody; a wake-up follows within microseconds of the data.
 */
#define HANDING_NS 100000ULL

/* Which object a message went through. @a: its address; @b: enum appease_object. */
struct stamp_key {
	u64 a;
	u64 b;
};

/* That this CPU is in the middle of handing something on: who is woken meanwhile is lent a turn. */
struct handing {
	u64 at_ns;
	u64 opened_ns;	 /* rank of the loan */
	u64 key;	 /* of the request, or of the event */
	u64 request_id;	 /* 0: an input event, only known readers of channels are lent */
	u64 terminal;	 /* the end of a pty on which the task left its stamp; 0: it was no pty */
	u32 pid;	 /* by which task; 0: none */
	u32 customer;	 /* whose it is; 0: not known */
	u32 is_new;	 /* it is a new connection: whoever is woken is about to read it */
	u32 weight;	 /* of the request */
	u32 is_served;	 /* the task itself writes for it, and it is not beyond its budget */
	u32 channel;	 /* by which it came */
};

/* Words that all hooks, and the scheduler, look at first. */
struct armed {
	u64 until_ns;	/* latest end of any attention or loan right, or of a handler's time */
	u32 on;		/* there is something to follow */
	u32 serves;	/* somebody may be served; policy rsio also follows what is said before that */
	u32 next_slot;
	u64 last_id;
	u64 lifts;	/* lifts so far: somebody who is queued already may have to be moved */
	u64 moves;	/* so many times a task that waits has got a request by another one, see place_anew() */
	u64 moved_from;	/* the queue of the latest */
	u64 moved_pid;	/* and the thread */
	u64 listeners;	/* so many times TCP sockets began or ceased to listen */
	u32 raises;	/* policy rbpe: reads from which sockets raise the reader at the present load, enum appease_raise */
	u32 weights_version;	/* how often the daemon has said what customers weigh; 0: never */
	u32 seat_uid;	/* active user of the seat, or APPEASE_NOBODY */
	u32 next_customer;
	u32 next_address;
	u64 inet_at_ns;	/* latest request by a socket of TCP or UDP; 0: none so far */
	u64 unaccounted;	/* requests that are not accounted for yet */
	u64 active_weight;	/* of all active customers together (policy/fairness.h) */
	u64 nr_active;	/* how many they are */
	u32 next_latency;
	u64 inet_stamped_until_ns;	/* no stamp on any connection of TCP says anything from then on */
	u64 handlers_made;	/* policy rsio: records of handlers made so far, and one */
	u32 has_written_devices;	/* whether an input device was ever written to (sense/input.bpf.h): mostly not */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct appease_process);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, APPEASE_NR_REQUESTS);
	__type(key, u32);
	__type(value, struct appease_request);
} requests SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct handing);
} handings SEC(".maps");

/* A section of its own, for the objects share it: a look at it takes two instructions, at an array's entry twelve. */
struct armed armed SEC(".data.armed") = { .seat_uid = APPEASE_NOBODY, .handlers_made = 1 };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, APPEASE_NR_COUNTERS);
	__type(key, u32);
	__type(value, u64);
} counters SEC(".maps");

/* Of threads of servers that have several: each may work for another customer. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct appease_thread);
} threads SEC(".maps");

/* Policy rsio: handlers and cohandlers by process id. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, u32);
	__type(value, struct appease_handler);
} handlers SEC(".maps");

static __always_inline void count(u32 which)
{
	u64 *counter = bpf_map_lookup_elem(&counters, &which);

	if (counter)
		(*counter)++;
}

static __always_inline bool is_armed(void)
{
	return policy != APPEASE_POLICY_STEADY && armed.on;
}

static __always_inline bool is_serving(void)
{
	return policy != APPEASE_POLICY_STEADY && armed.serves;
}

/* CLOCK_MONOTONIC. 0: nobody is served, so nobody asks for it. */
static __always_inline u64 mono_if_serving(void)
{
	return is_serving() ? bpf_ktime_get_ns() : 0;
}

/* Whether messages are followed, each: policies appease and cas. */
static __always_inline bool follows_messages(void)
{
	return policy == APPEASE_POLICY_APPEASE || policy == APPEASE_POLICY_CAS;
}

static __always_inline bool is_kthread(const struct task_struct *p)
{
	return p->flags & PF_KTHREAD;
}

/*
 * A kernel thread that the kernel put behind others, as khugepaged (nice 19). It has time, until somebody waits for a lock
 * that it holds: khugepaged holds a player's mmap_lock. And it may work for 9 ms before it lets go of the CPU.
 */
static __always_inline bool is_background(const struct task_struct *p)
{
	return p->static_prio > DEFAULT_PRIO;
}

static __always_inline struct handing *this_handing(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&handings, &zero);
}

/* The same if the current task hands something on at @now, CLOCK_MONOTONIC, else NULL. */
static __always_inline struct handing *try_handing_now(u64 now)
{
	struct handing *handing = this_handing();

	if (!handing || handing->pid != (u32)bpf_get_current_pid_tgid() || now - handing->at_ns >= HANDING_NS)
		return NULL;
	return handing;
}

/* The request @id, or NULL if it is over, or its @slot is used anew. */
static __always_inline struct appease_request *try_request(u32 slot, u64 id)
{
	struct appease_request *request = bpf_map_lookup_elem(&requests, &slot);

	return request && request->id == id && !request->is_over ? request : NULL;
}

static __always_inline bool is_spent(const struct appease_request *request)
{
	return request->served_ns >= request->budget_ns;
}

/* The request that @attention is for, or NULL if that has expired, or its slot is used anew. */
static __always_inline struct appease_request *try_unexpired(const struct appease_attention *attention, u64 now)
{
	if (!attention->request_id || !policy_before(now, attention->until_ns))
		return NULL;
	return try_request(attention->slot, attention->request_id);
}

/* The same, or NULL if its budget is spent, too. */
static __always_inline struct appease_request *try_lookup_request(const struct appease_attention *attention, u64 now)
{
	struct appease_request *request = try_unexpired(attention, now);

	return request && !is_spent(request) ? request : NULL;
}

/* The request for which @process is lifted, or NULL: it is not, or that is over. */
static __always_inline struct appease_request *try_lifted_for(const struct appease_process *process, u64 now)
{
	struct appease_request *request;

	if (!process->lift.until_ns || !policy_before(now, process->lift.until_ns))
		return NULL;
	request = try_request(process->lift.slot, process->lift.request_id);
	return request && !is_spent(request) ? request : NULL;
}

/* The process of @p, or NULL: nothing is known of it. */
static __always_inline struct appease_process *try_process(struct task_struct *p)
{
	return bpf_task_storage_get(&processes, p->group_leader, 0, 0);
}

/*
 * What the threads of @task have in common. Read as of a task of which the verifier knows nothing: up to Linux 6.18 it looks through all
 * types of the kernel whenever it comes upon a read of a pointer in a task that it trusts.
 */
static __always_inline const struct signal_struct *signal_of(struct task_struct *task)
{
	return readable(task, struct task_struct)->signal;
}

static __always_inline bool has_threads(struct task_struct *task)
{
	return signal_of(task)->nr_threads > 1;
}

static __always_inline struct appease_thread *try_thread(struct task_struct *task)
{
	return has_threads(task) ? bpf_task_storage_get(&threads, task, 0, 0) : NULL;
}

/* The request that @process serves, its own or that of one who waits for its lock; NULL: none. */
static __always_inline struct appease_request *try_served_by(const struct appease_process *process, u64 now)
{
	struct appease_request *request = try_lookup_request(&process->attention, now);

	return request ? request : try_lifted_for(process, now);
}

/* Policy rsio: whether @handler is part of an interaction. */
static __always_inline bool is_handling(const struct appease_handler *handler, u64 now)
{
	return policy_before(now, handler->primary_until_ns) || policy_before(now, handler->co_until_ns);
}

/* Whether @process runs on a loan now. */
static __always_inline bool has_loan(const struct appease_process *process, u64 now)
{
	return process->loan_until_ns && policy_before(now, process->loan_until_ns);
}

#endif
