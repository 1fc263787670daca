/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Budget: how much CPU time a request may take before it is batch work.
 *
 * Problem: an Enter starts a short command, whose answer is waited for, or a long computation, which is left alone. They
 * begin alike. A limit that suits what works on a picture (a page that is laid out) or shows something as it goes on (a
 * listing) lets a silent loop have the CPU for as long.
 *
 * Rule: a request has the budget. Whoever gets it by its terminal has only a little of that (quiet): programs there say what
 * they do. Each answer that comes back towards the customer extends it to as much beyond what was spent by then; and a process
 * that is started for it gives it the whole budget, for a command is waited for until it ends. Who shows something is waited
 * for; who reads its terminal itself, as an interpreter does, and computes in silence for longer is not, and gets on in the
 * other lane until it shows something.
 *
 * Limits: answers are messages, whatever is in them, so a loop that prints has the whole budget, and so has a script that
 * reads what its commands say and shows nothing of it. What reads a console or a serial line itself has the whole budget.
 */
#ifndef APPEASE_POLICY_BUDGET_H
#define APPEASE_POLICY_BUDGET_H

#include "types.h"

/* CPU time up to which a request counts, ns: for who gets it by its terminal when it had taken @served_ns. */
static inline u64 budget_limited(u64 until_ns, u64 served_ns, u64 quiet_ns)
{
	return served_ns + quiet_ns < until_ns ? served_ns + quiet_ns : until_ns;
}

/* The same: after an answer that came when it had taken @served_ns. */
static inline u64 budget_extended(u64 until_ns, u64 served_ns, u64 quiet_ns, u64 budget_ns)
{
	u64 extended = served_ns + quiet_ns;

	if (extended > budget_ns)
		extended = budget_ns;
	return extended > until_ns ? extended : until_ns;
}

#endif
