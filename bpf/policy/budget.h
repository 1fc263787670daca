/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Budget: how much CPU time a request may take before it is batch work.
 *
 * Problem: an Enter starts a short command, whose answer is waited for, or a long computation, which is left alone. They
 * begin alike. A limit that suits what shows on the screen as it goes on (a browser that starts, a listing) lets a silent
 * loop have the CPU for as long.
 *
 * Rule: a request has a little (quiet) at first. Each answer that comes back towards the customer extends that to as
 * much beyond what was spent by then; all in all it has the budget. Who shows something is waited for; who computes in
 * silence for longer is not, and gets on in the other lane until it shows something.
 *
 * Limits: answers are messages, whatever is in them, so a loop that prints has the whole budget, and so has a script that
 * reads what its commands say and shows nothing of it.
 */
#ifndef APPEASE_POLICY_BUDGET_H
#define APPEASE_POLICY_BUDGET_H

#include "types.h"

/* CPU time up to which a request counts, ns: after an answer that came when it had taken @served_ns. */
static inline u64 budget_extended(u64 until_ns, u64 served_ns, u64 quiet_ns, u64 budget_ns)
{
	u64 extended = served_ns + quiet_ns;

	if (extended > budget_ns)
		extended = budget_ns;
	return extended > until_ns ? extended : until_ns;
}

#endif
