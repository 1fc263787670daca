/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Responses: when a request is over.
 *
 * Problem: a request ends with its response, but whether a write back to the customer is the last one can only be seen
 * afterwards. Customer Appeasement (section 5) gave it up, and let elevated priority decay by time.
 *
 * Rule: the response lasts from the first write back to the last one. By what is behind the request:
 *
 *	one process alone	a server that answers itself: over when it has written back and then wakes up to something else
 *	others, by messages	over when it has written back, and nobody has worked on it for RESPONSE_QUIET_NS since
 *	a terminal, a screen,	a first echo says nothing of what a command may yet print, or a window show: over with the
 *	a new process		customer's attention
 *
 * One that wrote too early is not lost: the next write to the same customer, with nothing read in between, is the same response,
 * and opens the request again. A request that ends with its attention is silent if nobody has worked on it for
 * RESPONSE_QUIET_NS, as after a key is let go: there was nothing to answer. Else it is timed out: the response was not seen, or is late.
 *
 * Limits: a server that sends a part of its response, waits for something that is no part of it, and sends the rest, waits
 * for its CPU in the other lane in between.
 */
#ifndef APPEASE_POLICY_RESPONSE_H
#define APPEASE_POLICY_RESPONSE_H

#include "types.h"

/* Nobody has worked on a request for so long: nobody will. */
#define RESPONSE_QUIET_NS 100000000ULL

/* Who else was told of a request. */
enum response_among {
	RESPONSE_ALONE,
	RESPONSE_SHARED,	/* others, by messages */
	RESPONSE_GOES_ON,	/* by a terminal or a screen, or new processes */
};

/* How a request ended. */
enum response_end {
	RESPONSE_ANSWERED,
	RESPONSE_SILENT,
	RESPONSE_TIMED_OUT,
};

/* Whether nobody has worked on a request lately, on which CPU time was spent last at @served_at_ns (0: never). */
static inline bool response_is_quiet(u64 opened_ns, u64 served_at_ns, u64 now_ns)
{
	u64 latest = policy_before(served_at_ns, opened_ns) ? opened_ns : served_at_ns;

	return policy_before(latest + RESPONSE_QUIET_NS, now_ns);
}

/* Whether a request is over whose process wakes up now; it was answered last at @last_response_ns (0: never). */
static inline bool response_ends(enum response_among among, u64 last_response_ns, u64 served_at_ns, u64 now_ns)
{
	if (!last_response_ns || among == RESPONSE_GOES_ON)
		return false;
	return among == RESPONSE_ALONE || response_is_quiet(last_response_ns, served_at_ns, now_ns);
}

/* How a request ended. */
static inline enum response_end response_end(u64 opened_ns, u64 last_response_ns, u64 served_at_ns, u64 now_ns)
{
	if (last_response_ns)
		return RESPONSE_ANSWERED;
	return response_is_quiet(opened_ns, served_at_ns, now_ns) ? RESPONSE_SILENT : RESPONSE_TIMED_OUT;
}

#endif
