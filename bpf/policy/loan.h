/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Loans: the short turn in the attended lane that a wake-up gives before a read has proved anything.
 *
 * Problem: a process must run before it can read, so proof alone leaves the first wake-up after a pause behind every
 * hog. But what every wake-up can have, a build that is woken from a terminal can have too.
 *
 * Rule: a loan that leads to a read costs nothing. CPU time of a loan that comes to nothing is a debt, which decays at
 * LOAN_DECAY_PCT of the time that passes. Who is in debt for more than the limit gets no loan: over a long time, no
 * process gets more than that share from loans alone. The same holds for all that is lent for a customer.
 *
 * Limits: the debt is the process's, so one thread that never reads uses up what another one could have.
 */
#ifndef APPEASE_POLICY_LOAN_H
#define APPEASE_POLICY_LOAN_H

#include "types.h"

/* Share of passing time by which a debt shrinks, per cent. */
#define LOAN_DECAY_PCT 1U

/* Debt of @debt_ns after @passed_ns more, ns. */
static inline u64 loan_debt(u64 debt_ns, u64 passed_ns)
{
	u64 forgiven = passed_ns / 100 * LOAN_DECAY_PCT;

	return debt_ns > forgiven ? debt_ns - forgiven : 0;
}

/* Whether somebody with @debt_ns is lent another turn. */
static inline bool loan_granted(u64 debt_ns, u64 limit_ns)
{
	return debt_ns <= limit_ns;
}

#endif
