/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shares: what each process has of a request's unhappiness, for policy cas.
 *
 * Problem: a request is served by several processes, one of which waits for another; both must not be unhappy for the same
 * time.
 *
 * Rule: Customer Appeasement, section 2.2. The share u of a process is the time since the request came to it, less the CPU time
 * that it got. A process that asks another one and blocks keeps α u, which stands still, and the other one begins with the
 * rest (eq. 1); with the answer that is handed back what it has by then (eq. 2). A request's unhappiness is the sum of its shares,
 * by the weights of customer and request (eq. 3).
 *
 * Why opened + served (policy/unhappiness.h) is the same order: while one process at a time is at work on a request, the
 * others' shares stand still, and what it hands over it no longer has. So the sum grows as time does, but for the CPU time that
 * they got: it is (now - opened) - served, whatever α is, and of two sums the larger has the smaller opened + served. The
 * splits only say which of a request's processes is the unhappiest.
 *
 * Where it differs: by weights, for then sums grow at different rates, and cross; and where several processes of one request
 * wait at once, each of whose shares grows. No key that stands still can tell that; so policy cas looks at the sums of all who
 * wait whenever a CPU is free, and uses the key only to say whether a wake-up displaces who runs. crates/sim/tests/oracle.rs holds
 * the key, and shares.rs beside it these functions, against eq. 1 to 5 in random traces. Of all pairs of requests there the
 * key orders none otherwise with equal weights, whatever α is; 10 % with weights of 1 and 2, 16 % with 1 and 4, 21 % with 1 and 16.
 *
 * Where it is bad: the order is one of requests, so customers have no parts of the CPU beyond their weights in these sums. Whoever sends
 * a thousand requests at once has a thousand who are as unhappy as the one of another customer, who waits until his is. Policy appease
 * queues customers for that (policy/fairness.h). And who forks fast has the start of each child: a third of the CPU instead of a
 * quarter, of four.
 *
 * A request is known when it is read, and a server reads when it has the CPU: it is then as unhappy as its data has been there, as far
 * as TCP tells (sent_ns). Who is woken to read a message has, until then, the unhappiness of what the message is for.
 *
 * Where the paper is silent: who asks several services one after the other without waiting splits what it has left each time;
 * who asked and goes on to work grows unhappy again; a new process has START_NS of CPU time and START_UNHAPPINESS_NS to begin with.
 */
#ifndef APPEASE_POLICY_SHARE_H
#define APPEASE_POLICY_SHARE_H

#include "types.h"

/* α is given in so many parts. */
#define SHARE_ALPHA_PARTS 1000U
/* A new process stands among the unhappy ones until it has had so much CPU time. */
#define SHARE_START_NS 3000000ULL
/* It begins as unhappy as that. */
#define SHARE_START_UNHAPPINESS_NS 10000000ULL

/* u of a process, ns: @share_ns at @since_ns, or ever since if that is 0. */
static inline s64 share_now(s64 share_ns, u64 since_ns, u64 now_ns)
{
	return since_ns ? share_ns + (s64)(now_ns - since_ns) : share_ns;
}

/* @ns of @parts in @of, whatever its sign. */
static inline s64 share_part(s64 ns, u64 parts, u64 of)
{
	u64 size = ns < 0 ? -(u64)ns : (u64)ns;

	size = size / of * parts + size % of * parts / of;
	return ns < 0 ? -(s64)size : (s64)size;
}

/* What a process keeps of its share when it asks another one (eq. 1), ns; the other one gets the rest. */
static inline s64 share_kept(s64 share_ns, u32 alpha_parts)
{
	return share_part(share_ns, alpha_parts, SHARE_ALPHA_PARTS);
}

/* Weight of a request: W(c) w of eq. 3. */
static inline u32 request_weight(u32 of_customer, u32 of_channel)
{
	u64 weight = (u64)of_customer * (of_channel ? of_channel : POLICY_WEIGHT_DEFAULT) / POLICY_WEIGHT_DEFAULT;

	return weight ? weight : 1;
}

/* U of a request by its weights (eq. 3), ns. */
static inline s64 share_weighted(s64 sum_ns, u32 weight)
{
	return weight == POLICY_WEIGHT_DEFAULT ? sum_ns : share_part(sum_ns, weight, POLICY_WEIGHT_DEFAULT);
}

/* u of a new process that was made at @made_ns and has had @got_ns, ns. */
static inline s64 share_of_newcomer(u64 made_ns, u64 got_ns, u64 now_ns)
{
	return (s64)SHARE_START_UNHAPPINESS_NS + (s64)(now_ns - made_ns) - (s64)got_ns;
}

#endif
