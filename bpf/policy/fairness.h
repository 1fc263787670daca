/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fairness between customers: twenty windows, or a thousand connections, are still one customer.
 *
 * Problem: inside the attended lane requests are ranked by their own waiting. Who sends a thousand at once would have nearly
 * all of the CPU, for each of them waits; and a weight that counts inside a request says little where requests are short.
 *
 * Rule: of each customer the CPU time is kept that its requests got lately: it loses half in FAIRNESS_HALF_NS. Divided by the
 * customer's weight, that is its use. All its requests come so much later as its use is above that of the others together, by
 * FAIRNESS_MAX_NS at most. So of two who always want more than there is, one of weight 4 gets four times as much as one of
 * weight 1, and who seldom wants something gets it at once. Who is alone loses nothing.
 *
 * Limits: within the horizon of policy/unhappiness.h, first come goes before fair. What a customer used before the last second
 * counts for nothing: who is fair on the whole is not asked for.
 */
#ifndef APPEASE_POLICY_FAIRNESS_H
#define APPEASE_POLICY_FAIRNESS_H

#include "types.h"

/* Time in which what was used loses half. */
#define FAIRNESS_HALF_NS 100000000ULL
/* So much later a request is ranked at most. */
#define FAIRNESS_MAX_NS 50000000ULL
/* A customer without a request for so long is none of the others. */
#define FAIRNESS_ACTIVE_NS 1000000000ULL

/* What is left of @used_ns after @passed_ns more, ns: halves, and between them straight lines. */
static inline u64 fairness_left(u64 used_ns, u64 passed_ns)
{
	u64 halves = passed_ns / FAIRNESS_HALF_NS;

	if (halves >= 64)
		return 0;
	used_ns >>= halves;
	return used_ns - used_ns / 2 * ((passed_ns % FAIRNESS_HALF_NS) >> 10) / (FAIRNESS_HALF_NS >> 10);
}

/* CPU time by weight, ns. A weight of 0 counts as 1. */
static inline u64 fairness_use(u64 used_ns, u64 weight)
{
	return used_ns * POLICY_WEIGHT_DEFAULT / (weight ? weight : 1);
}

/*
 * How much later requests of a customer are ranked, ns: it used @used_ns, all customers together, itself included, @all_used_ns;
 * weights the same way.
 */
static inline u64 fairness_penalty(u64 used_ns, u64 weight, u64 all_used_ns, u64 all_weight)
{
	u64 own, others;

	if (all_weight <= weight)
		return 0;
	own = fairness_use(used_ns, weight);
	others = fairness_use(all_used_ns > used_ns ? all_used_ns - used_ns : 0, all_weight - weight);
	if (own <= others)
		return 0;
	return own - others < FAIRNESS_MAX_NS ? own - others : FAIRNESS_MAX_NS;
}

#endif
