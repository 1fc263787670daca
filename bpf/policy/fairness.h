/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fairness between customers: twenty windows, or a thousand connections, are still one customer.
 *
 * Problem: inside the attended lane requests are ranked by their own waiting. Who sends a thousand at once would have nearly
 * all of the CPU, for each of them waits; and a weight that counts inside a request says little where requests are short.
 *
 * Rule: start-time fair queueing (Goyal, Vin and Cheng, 1996) of customers, each with a virtual time: the CPU time that was spent
 * on it, by its weight. The one who had the least goes next; of its own, the unhappiest (policy/unhappiness.h). The clock is the
 * virtual time of who went last. A customer who comes back after a pause stands no farther behind the clock than FAIRNESS_CREDIT_NS:
 * so much it may have at once before it takes turns with others, and more it does not save up. So of two who always want more
 * than there is, one of weight 4 gets four times as much as one of weight 1; who seldom wants something does not notice a thousand
 * who wait.
 *
 * Why not a tag for each turn, or real time as the clock, which both were tried: a turn is interrupted often, by its own answer for one,
 * and a process that goes to the end of its customer's queue each time, or keeps its place in everybody's, is served by the number
 * of its interruptions; and while realtime work or the other lanes take their part, real time leaves everybody's share behind.
 *
 * Limits: customers are hashed to 64 queues (stochastic fair queueing); those in one queue share its part. In simulations, one who asks now
 * and then has a 99th percentile of 6 to 11 ms beside 60 others who always want something, and of 736 ms beside 1,000. What waits inside a
 * server, and not for a CPU, is in the server's order.
 */
#ifndef APPEASE_POLICY_FAIRNESS_H
#define APPEASE_POLICY_FAIRNESS_H

#include "types.h"

/* So far behind the clock a virtual time lies at most. */
#define FAIRNESS_CREDIT_NS 50000000ULL
/* And so far ahead of it: a turn of the least weight is 300 ms. */
#define FAIRNESS_DEBT_NS 1000000000ULL
/* Customers do not take the CPU from each other for less. */
#define FAIRNESS_MARGIN_NS 1000000ULL
/* A customer without a request for so long is none of the others. */
#define FAIRNESS_ACTIVE_NS 10000000000ULL

/* Virtual time, ns, of a customer who wants something at @clock. */
static inline u64 fairness_catch_up(u64 vtime, u64 clock)
{
	if (policy_before(vtime + FAIRNESS_CREDIT_NS, clock))
		return clock - FAIRNESS_CREDIT_NS;
	return policy_before(clock + FAIRNESS_DEBT_NS, vtime) ? clock + FAIRNESS_DEBT_NS : vtime;
}

/* What @ran_ns of CPU time add to the virtual time of a customer of @weight, ns. A weight of 0 counts as 1. */
static inline u64 fairness_charge(u64 ran_ns, u64 weight)
{
	return weight == POLICY_WEIGHT_DEFAULT ? ran_ns : ran_ns * POLICY_WEIGHT_DEFAULT / (weight ? weight : 1);
}

/* The clock when a customer with @vtime goes next, or has the CPU while nobody else waits; it never goes back. */
static inline u64 fairness_clock(u64 clock, u64 vtime)
{
	return policy_before(clock, vtime) ? vtime : clock;
}

/* Whether a customer with @vtime had less than its part for some time. */
static inline bool fairness_is_modest(u64 vtime, u64 clock)
{
	return policy_before(vtime + FAIRNESS_CREDIT_NS / 2, clock);
}

/* Whether a customer with @wakee_vtime takes the CPU from one with @running_vtime. */
static inline bool fairness_preempts(u64 wakee_vtime, u64 running_vtime)
{
	return policy_before(wakee_vtime + FAIRNESS_MARGIN_NS, running_vtime);
}

#endif
