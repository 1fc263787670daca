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
 * A process that writes to a channel, as a player of sound does, opens a request by each period. All periods of a customer have a budget
 * together, which goes by time: half of the machine, and what a silent request has at once. Nobody can tell a film from a
 * computation that plays silence. Half is what a cgroup has beside one other, and what a period's request was served is charged to
 * its cgroup at once. So a player that needs no more than that has it without a gap, whatever else runs. A process that only
 * says that it plays gains nothing there.
 *
 * Limits: beside two other cgroups and more, half is more than the part of one. Answers are messages, whatever is in them, so a
 * loop that prints has the whole budget, and so has a script that reads what its commands say and shows nothing of it. What reads a
 * console or a serial line itself has the whole budget.
 */
#ifndef APPEASE_POLICY_BUDGET_H
#define APPEASE_POLICY_BUDGET_H

#include "types.h"

/* Part of the machine that a customer's periods may have, all together, per cent. */
#define BUDGET_PERIODS_PCT 50U

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

/* Time of the machine that periods have had beyond their part, ns, @passed_ns after it was @debt_ns. */
static inline u64 budget_period_debt(u64 debt_ns, u64 passed_ns)
{
	u64 forgiven = passed_ns / 100 * BUDGET_PERIODS_PCT;

	return debt_ns > forgiven ? debt_ns - forgiven : 0;
}

/* CPU time that the next period may take, ns. */
static inline u64 budget_period(u64 debt_ns, u64 quiet_ns)
{
	return debt_ns < quiet_ns ? quiet_ns - debt_ns : 0;
}

#endif
