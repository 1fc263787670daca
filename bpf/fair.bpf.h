/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The attended lane's queues: one for each customer who has to share with another (policy/fairness.h), and the first one for all
 * others: while one customer is alone, for nobody in particular, and for policies that have no customers.
 */
#ifndef APPEASE_FAIR_BPF_H
#define APPEASE_FAIR_BPF_H

#include "domains.bpf.h"

/* Customers are hashed to these; as many as bits in a word. */
#define FAIR_QUEUES 64

/* Each domain has so many. */
#define DSQ_ATTENDED DSQ_KIND(1)

/* Virtual times of the queues, and their clock. */
static u64 fair_vtimes[FAIR_QUEUES];
static u64 fair_clock;

/* A look through the queues, by CPU: not a local variable, of which the verifier would try every value. */
struct fair_look {
	u64 left;
	u32 best;
	u32 domain;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct fair_look);
} fair_looks SEC(".maps");

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
	if (!(domain_at(domain_here())->attended & ~(1ULL << queue)))
		fair_clock = fairness_clock(fair_clock, fair_vtimes[queue]);
}

/* The customer of @queue wants something. */
static __always_inline void fair_catches_up(u32 queue)
{
	fair_vtimes[queue % FAIR_QUEUES] = fairness_catch_up(fair_vtimes[queue % FAIR_QUEUES], fair_clock);
}

/* Something is about to be put into @queue of the domain at @index. */
static __always_inline void fair_queue_fills(u32 queue, u32 index, u64 now)
{
	struct domain *domain = domain_at(index);

	if (!knows_queues())
		note_filled(domain, now);
	if (mark_filled(&domain->attended, &domain->attended_used, bit_of(queue)) && nr_domains > 1)
		__sync_fetch_and_or(&attended_in, bit_of(index));
}

/* Whether @queue is of a customer who had less than its part: the other lanes have theirs of those who had more. */
static __always_inline bool is_modest(u32 queue)
{
	return queue && fairness_is_modest(fair_vtimes[queue % FAIR_QUEUES], fair_clock);
}

/* @queue was found empty. */
static __always_inline void fair_queue_is_empty(u32 queue)
{
	if (knows_queues())
		domain_at(0)->attended &= ~bit_of(queue);
}

/* See struct domain. */
static __noinline int forget_fair_queues(u32 index)
{
	struct domain *domain = domain_at(index);
	u64 idle = begin_marks(&domain->attended, &domain->attended_used);
	u32 i;

	bpf_for(i, 0, FAIR_QUEUES) {
		if (idle & bit_of(i) && !scx_bpf_dsq_nr_queued(queue_in(DSQ_ATTENDED, index, i)))
			mark_empty(&domain->attended, &domain->attended_used, bit_of(i));
	}
	if (nr_domains > 1 && !domain->attended) {
		__sync_fetch_and_and(&attended_in, ~bit_of(index));
		/* A task may have come in between. */
		if (domain->attended)
			__sync_fetch_and_or(&attended_in, bit_of(index));
	}
	return 0;
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
		if (knows_queues() || scx_bpf_dsq_nr_queued(queue_in(DSQ_ATTENDED, look->domain, i)) > 0)
			look->best = i;
	}
	return look->best;
}

/* That of this CPU, over all queues of a domain that may hold something. NULL: there is none. */
static __always_inline struct fair_look *begin_look(u32 domain)
{
	u64 waiting = domain_at(domain)->attended;
	struct fair_look *look;
	u32 zero = 0;

	if (!waiting)
		return NULL;
	look = bpf_map_lookup_elem(&fair_looks, &zero);
	if (look) {
		look->left = waiting;
		look->domain = domain;
	}
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
	look->left &= ~bit_of(queue);
	return queue;
}

/* Whether an attended task waits in @domain. */
__noinline bool attended_waits(u32 domain)
{
	u64 waiting = domain_at(domain)->attended;
	u32 i;

	bpf_for(i, 0, waiting ? FAIR_QUEUES : 0) {
		if (waiting & bit_of(i) && scx_bpf_dsq_nr_queued(queue_in(DSQ_ATTENDED, domain, i)) > 0)
			return true;
	}
	return false;
}

/* Whether one may: on more than one CPU a task enters its queue after its bit is set. */
static __always_inline bool attended_may_wait(u32 domain)
{
	return knows_queues() ? attended_waits(domain) : domain_at(domain)->attended;
}

/* Whether nobody else waits in @p's queue: in a list of one, what comes before it is what comes after it. */
static __always_inline bool waits_alone(const struct task_struct *p)
{
	return p->scx.dsq_list.node.next == p->scx.dsq_list.node.prev;
}

/*
 * Where the first of the attended tasks of @domain that may run on @cpu waits: in @first, and its key; 0: there is none. In @is_alone, if
 * that is wanted: whether it does so alone.
 */
__noinline u64 first_attended_key(s32 cpu, u32 domain, u32 *first, u32 *is_alone)
{
	struct fair_look *look = begin_look(domain);
	struct task_struct *p;
	u32 i, queue;

	if (!look || !first)
		return 0;
	bpf_for(i, 0, FAIR_QUEUES) {
		queue = next_queue(look);
		if (queue >= FAIR_QUEUES)
			break;
		p = __COMPAT_scx_bpf_dsq_peek(queue_in(DSQ_ATTENDED, domain, queue));
		if (!p) {
			fair_queue_is_empty(queue);
		} else if (bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) {
			*first = queue;
			if (is_alone)
				*is_alone = waits_alone(p);
			return p->scx.dsq_vtime;
		}
	}
	return 0;
}

/* The same, where mostly none waits: without a call then. */
static __always_inline u64 waiting_attended_key(s32 cpu, u32 domain, u32 *first, u32 *is_alone)
{
	return domain_at(domain)->attended ? first_attended_key(cpu, domain, first, is_alone) : 0;
}

/* Has this CPU run the first task in @queue of @domain that may. */
static __always_inline bool take_first_attended(u32 domain, u32 queue)
{
	if (!scx_bpf_dsq_move_to_local(queue_in(DSQ_ATTENDED, domain, queue % FAIR_QUEUES), 0))
		return false;
	fair_clock = fairness_clock(fair_clock, fair_vtimes[queue % FAIR_QUEUES]);
	return true;
}

/* Has this CPU run the first of the attended tasks of @domain that may. */
__noinline bool take_attended(u32 domain)
{
	struct fair_look *look = begin_look(domain);
	u32 i, queue;

	if (!look)
		return false;
	bpf_for(i, 0, FAIR_QUEUES) {
		queue = next_queue(look);
		if (queue >= FAIR_QUEUES)
			break;
		if (take_first_attended(domain, queue))
			return true;
		fair_queue_is_empty(queue);
	}
	return false;
}

#endif
