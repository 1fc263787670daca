/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fairness between customers: twenty windows, or a thousand connections, are still one customer.
 *
 * Problem: inside the attended lane requests are ranked by their own waiting. Who sends a thousand at once would have nearly
 * all of the CPU, for each of them waits; and a weight that counts inside a request says little where requests are short.
 *
 * Rule: weighted fair queueing, by start tags in real time. Each turn that a customer's processes queue up for is given a tag: not
 * before now, and not before the end of that customer's turn before, had it its weight's part of the CPUs alone. A turn ranks so
 * much later as its tag lies ahead. So of two who always want more than there is, one of weight 4 gets four times as much as
 * one of weight 1; who seldom wants something goes before a thousand turns that wait. Who is alone has no tags. How long a turn is
 * shows only afterwards: the mean of the customer's turns stands for it.
 *
 * Limits: within the horizon of policy/unhappiness.h, first come goes before fair. A tag lies FAIRNESS_AHEAD_NS ahead at most: of a
 * longer queue, the end is first come first served. What waits inside a server, and not for a CPU, is in the server's order.
 */
#ifndef APPEASE_POLICY_FAIRNESS_H
#define APPEASE_POLICY_FAIRNESS_H

#include "types.h"

/* So far ahead a tag lies at most. */
#define FAIRNESS_AHEAD_NS 1000000000ULL
/* A customer without a request for so long is none of the others. */
#define FAIRNESS_ACTIVE_NS 10000000000ULL

/* Tag of a customer's next turn, the one after which may begin at @free_ns. */
static inline u64 fairness_tag(u64 free_ns, u64 now_ns)
{
	if (policy_before(free_ns, now_ns))
		return now_ns;
	return policy_before(now_ns + FAIRNESS_AHEAD_NS, free_ns) ? now_ns + FAIRNESS_AHEAD_NS : free_ns;
}

/*
 * When the turn after one with @tag_ns, of @turn_ns, may begin: of a customer of @weight, beside others who with it weigh
 * @all_weight, on @cpus. A weight of 0 counts as 1.
 */
static inline u64 fairness_free(u64 tag_ns, u64 turn_ns, u64 weight, u64 all_weight, u32 cpus)
{
	u64 parts = (weight ? weight : 1) * (cpus ? cpus : 1);

	if (all_weight <= weight)
		return tag_ns;
	return tag_ns + turn_ns * all_weight / parts;
}

/* Mean of a customer's turns, ns, after another one: each counts for an eighth. */
static inline u64 fairness_turn(u64 turn_ns, u64 ran_ns)
{
	return turn_ns - turn_ns / 8 + ran_ns / 8;
}

/* How much later something with @tag_ns ranks, ns. */
static inline u64 fairness_lag(u64 tag_ns, u64 now_ns)
{
	return policy_before(now_ns, tag_ns) ? tag_ns - now_ns : 0;
}

#endif
