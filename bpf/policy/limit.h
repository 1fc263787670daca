/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Limits: cpu.max of cgroups.
 *
 * Problem: administrators sell and protect by cpu.max. It must hold for attended tasks, too.
 *
 * Rule: a bucket of CPU time for each cgroup with a limit. Each period adds the quota, and the
 * bucket holds the quota and cpu.max.burst at most. Each run in the cgroup, or in a cgroup below it,
 * is taken out. An empty bucket keeps all of them from running. A turn ends at a tick, so the
 * bucket may go below zero; the next period pays that back.
 *
 * Limits: one period may exceed its quota by a tick on each CPU.
 */
#ifndef APPEASE_POLICY_LIMIT_H
#define APPEASE_POLICY_LIMIT_H

#include "types.h"

/* Number of periods that ended between @since_ns and @now_ns. */
static inline u64 limit_periods(u64 since_ns, u64 now_ns, u64 period_ns)
{
	return policy_before(since_ns, now_ns) && period_ns ? (now_ns - since_ns) / period_ns : 0;
}

/* Content of the bucket after @periods, ns, when it was @left_ns. Below 0: debt. */
static inline s64 limit_refill(s64 left_ns, u64 periods, u64 quota_ns, u64 burst_ns)
{
	s64 most = quota_ns + burst_ns;

	/* These fill any bucket, and the product might not fit. */
	if (periods > 1000000)
		return most;
	left_ns += periods * quota_ns;
	return left_ns < most ? left_ns : most;
}

#endif
