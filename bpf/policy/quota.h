/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Quota: how many requests of one customer may be open at a time.
 *
 * Problem: there is one table for the requests of all. Two customers that may have half of it each use it up, and the keyboard gets no
 * attention. A fixed part for each would be too small for the one web server's customer of a machine, or too large for a thousand of them.
 *
 * Rule: a customer may open one more while fewer of its own are open than records are free. So one alone has half of them, and of n that want
 * more than there is each has one part of n + 1. One such part stays free for the next customer. These are the dynamic thresholds of
 * A. K. Choudhury and E. L. Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches", IEEE/ACM Transactions on Networking
 * 6(2), 1998, with their factor of 1.
 *
 * Addresses cost their owner nothing, and users little. So some records are kept back: what counts as free is smaller for users than for
 * the seat, and for addresses than for users.
 *
 * Limits: all behind one address share its part. A thousand addresses have three records each, and so has an honest one.
 */
#ifndef APPEASE_POLICY_QUOTA_H
#define APPEASE_POLICY_QUOTA_H

#include "types.h"

/* One part of so many is kept from users: 256 of 4,096 records, more than anybody types in the 4 s for which a request counts. */
#define QUOTA_KEPT_FROM_USERS 16
/* And from addresses, users' part included: a quarter is for accounts on the machine. */
#define QUOTA_KEPT_FROM_ADDRESSES 4

/* Whether a customer of @open requests may open another one, when @taken of @all records are in use; one part of @kept_of is kept back, 0: none. */
static inline bool quota_allows(u32 open, u32 taken, u32 all, u32 kept_of)
{
	u32 most = kept_of ? all - all / kept_of : all;

	return taken < most && open < most - taken;
}

#endif
