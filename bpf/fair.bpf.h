/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The attended lane's queues: one for each customer who has to share with another (policy/fairness.h), and the first one for all
 * others: while one customer is alone, for nobody in particular, and for policies that have no customers.
 */
#ifndef APPEASE_FAIR_BPF_H
#define APPEASE_FAIR_BPF_H

#include "customers.bpf.h"

const volatile u32 nr_cpus = 1;

/* Customers are hashed to these; as many as bits in a word. */
#define FAIR_QUEUES 64

/* Queue i is the dispatch queue DSQ_ATTENDED + i. */
#define DSQ_ATTENDED 64

/* Virtual times of the queues, and their clock. */
static u64 fair_vtimes[FAIR_QUEUES];
static u64 fair_clock;

/*
 * Queues that may hold something, by bits: set before each insertion. With one CPU, cleared by whoever finds one empty; with several,
 * only once nothing was put in for a while, see forget_fair_queues().
 */
static u64 fair_waiting;

/* Those something was put in since forget_fair_queues() looked last. */
static u64 fair_used;

/* A look through the queues, by CPU: not a local variable, of which the verifier would try every value. */
struct fair_look {
	u64 left;
	u32 best;
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct fair_look);
} fair_looks SEC(".maps");

/* Number of the lowest bit in @bits, which is not 0. */
static __always_inline u32 lowest_bit(u64 bits)
{
	return __builtin_ctzll(bits) % 64;
}

/* Queue of the customer in @slot; 0: nobody in particular. */
static __always_inline u32 fair_queue_of(u32 slot)
{
	return slot % FAIR_QUEUES;
}

/* @slot if its customer has to share with others, else 0. */
static __always_inline u32 if_shares(u32 slot)
{
	struct appease_customer *customer;

	if (policy != APPEASE_POLICY_APPEASE || !slot)
		return 0;
	customer = try_customer(slot);
	return customer && armed.active_weight > customer->weight ? slot : 0;
}

/* @ran was spent on the customer in @slot. */
static __always_inline void charge_fairly(u32 slot, u64 ran)
{
	struct appease_customer *customer = slot ? try_customer(slot) : NULL;
	u64 weight = customer ? customer->weight : POLICY_WEIGHT_DEFAULT;
	u32 queue = fair_queue_of(slot);

	__sync_fetch_and_add(&fair_vtimes[queue], fairness_charge(ran, weight));
	if (!(fair_waiting & ~(1ULL << queue)))
		fair_clock = fairness_clock(fair_clock, fair_vtimes[queue]);
}

/* The customer of @queue wants something. */
static __always_inline void fair_catches_up(u32 queue)
{
	fair_vtimes[queue % FAIR_QUEUES] = fairness_catch_up(fair_vtimes[queue % FAIR_QUEUES], fair_clock);
}

/* Something is about to be put into @queue. */
static __always_inline void fair_queue_fills(u32 queue)
{
	u64 bit = 1ULL << (queue % FAIR_QUEUES);

	if (fair_waiting & fair_used & bit)
		return;
	__sync_fetch_and_or(&fair_waiting, bit);
	__sync_fetch_and_or(&fair_used, bit);
}

/* Whether @queue is of a customer who had less than its part: the other lanes have theirs of those who had more. */
static __always_inline bool is_modest(u32 queue)
{
	return queue && fairness_is_modest(fair_vtimes[queue % FAIR_QUEUES], fair_clock);
}

/* @queue was found empty. */
static __always_inline void fair_queue_is_empty(u32 queue)
{
	if (nr_cpus == 1)
		fair_waiting &= ~(1ULL << (queue % FAIR_QUEUES));
}

/*
 * With several CPUs, a task is in its queue only once ops.enqueue() has returned, and another CPU may find it empty in between: so a queue
 * counts as empty when it is, and nothing was put in since the last look. Once a while.
 */
static __always_inline void forget_fair_queues(void)
{
	u64 used = fair_used;
	u32 i;

	fair_used = 0;
	bpf_for(i, 0, FAIR_QUEUES) {
		u64 bit = 1ULL << i;

		if (fair_waiting & ~used & bit && !scx_bpf_dsq_nr_queued(DSQ_ATTENDED + i))
			__sync_fetch_and_and(&fair_waiting, ~bit);
	}
}

/*
 * Of the queues that are left, that of the customer who had the least. With several CPUs, of those that hold something: dozens may be
 * empty that are not known to be, and to come back for each would take longer than all else. FAIR_QUEUES: there is none.
 */
static __noinline u32 least_served(struct fair_look *look)
{
	u32 i;

	if (!look)
		return 0;
	look->best = FAIR_QUEUES;
	bpf_for(i, 0, FAIR_QUEUES) {
		if (!(look->left >> i & 1))
			continue;
		if (look->best < FAIR_QUEUES && !policy_before(fair_vtimes[i], fair_vtimes[look->best % FAIR_QUEUES]))
			continue;
		if (nr_cpus == 1 || scx_bpf_dsq_nr_queued(DSQ_ATTENDED + i) > 0)
			look->best = i;
	}
	return look->best;
}

/* That of this CPU, over all queues that may hold something. */
static __always_inline struct fair_look *begin_look(void)
{
	u32 zero = 0;
	struct fair_look *look = bpf_map_lookup_elem(&fair_looks, &zero);

	if (look)
		look->left = fair_waiting;
	return look;
}

/* The next queue by what its customer had; FAIR_QUEUES: that was all. */
static __always_inline u32 next_queue(struct fair_look *look)
{
	u32 queue;

	if (!look->left)
		return FAIR_QUEUES;
	/* Nobody shares with another: on most machines, always. */
	queue = look->left == 1 ? 0 : least_served(look);
	look->left &= ~(1ULL << (queue % FAIR_QUEUES));
	return queue;
}

/* Where the first of the attended tasks that may run on @cpu waits: in @first, and its key; 0: there is none. */
__noinline u64 first_attended_key(s32 cpu, u32 *first)
{
	struct fair_look *look;
	struct task_struct *p;
	u32 i, queue;

	if (!fair_waiting)
		return 0;
	look = begin_look();
	if (!look || !first)
		return 0;
	bpf_for(i, 0, FAIR_QUEUES) {
		queue = next_queue(look);
		if (queue >= FAIR_QUEUES)
			break;
		p = __COMPAT_scx_bpf_dsq_peek(DSQ_ATTENDED + queue);
		if (!p) {
			fair_queue_is_empty(queue);
		} else if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) {
			*first = queue;
			return p->scx.dsq_vtime;
		}
	}
	return 0;
}

/* Has this CPU run the first of the attended tasks that may. */
__noinline bool take_attended(void)
{
	struct fair_look *look;
	u32 i, queue;

	if (!fair_waiting)
		return false;
	look = begin_look();
	if (!look)
		return false;
	bpf_for(i, 0, FAIR_QUEUES) {
		queue = next_queue(look);
		if (queue >= FAIR_QUEUES)
			break;
		if (scx_bpf_dsq_move_to_local(DSQ_ATTENDED + queue, 0)) {
			fair_clock = fairness_clock(fair_clock, fair_vtimes[queue % FAIR_QUEUES]);
			return true;
		}
		fair_queue_is_empty(queue);
	}
	return false;
}

#endif
