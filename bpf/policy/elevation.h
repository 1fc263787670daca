/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Elevation: better nice values for who was asked something, for a while.
 *
 * Problem: whoever reads from a socket was asked something, and somebody waits for the answer. When it is answered cannot be
 * seen. And the more the machine is loaded, the smaller is the share of the CPU that one nice level stands for.
 *
 * Rule: Customer Appeasement, sections 5 and 6, Table 1. A non-zero read from a socket raises the reader's nice value by so
 * many levels, by the load of the last minute (avenrun[0], in the kernel's fixed point: 2048 is a load of 1):
 *
 *	avenrun[0] up to	unix sockets	network sockets		a level is lost each
 *	1600			0		0			(silent)
 *	3000			1		0			200 ms
 *	5000			2		1			300 ms
 *	8000			4		2			400 ms
 *	12000			6		3			500 ms
 *	16000			7		4			600 ms
 *	more			15		5			600 ms
 *
 * Each read begins anew. Levels are lost by time; the paper's script looked for what was due when some process polled.
 *
 * Limits: a socket that carries no request, such as a log's, raises its reader like any other. The load is a minute's mean, so a
 * sudden one is met late. Levels are nice levels, which count inside a cgroup, and stop at -20.
 */
#ifndef APPEASE_POLICY_ELEVATION_H
#define APPEASE_POLICY_ELEVATION_H

#include "types.h"

/* The kernel's fixed point of load averages: 1.0. */
#define ELEVATION_LOAD_1 2048U
/* Rows of Table 1, silence first. */
#define ELEVATION_ROWS 7U
/* The best nice value that there is. */
#define ELEVATION_BEST_NICE (-20)

#define ELEVATION_MS 1000000ULL

/* avenrun[0] that the kernel shows as @hundredths of a load, as /proc/loadavg has it. */
static inline u64 elevation_avenrun(u64 hundredths)
{
	return hundredths * ELEVATION_LOAD_1 / 100;
}

/* Largest avenrun[0] of @row; the last one has none. */
static inline u64 elevation_most_load(u32 row)
{
	switch (row) {
	case 0:
		return 1600;
	case 1:
		return 3000;
	case 2:
		return 5000;
	case 3:
		return 8000;
	case 4:
		return 12000;
	case 5:
		return 16000;
	default:
		return ~0ULL;
	}
}

/* Row for a load. */
static inline u32 elevation_row(u64 avenrun)
{
	u32 row;

	for (row = 0; row < ELEVATION_ROWS - 1; row++)
		if (avenrun <= elevation_most_load(row))
			break;
	return row;
}

/* Levels that a read from a unix socket raises by. */
static inline u32 elevation_unix(u32 row)
{
	switch (row) {
	case 0:
		return 0;
	case 1:
		return 1;
	case 2:
		return 2;
	case 3:
		return 4;
	case 4:
		return 6;
	case 5:
		return 7;
	default:
		return 15;
	}
}

/* The same from a network socket. */
static inline u32 elevation_network(u32 row)
{
	switch (row) {
	case 0:
	case 1:
		return 0;
	case 2:
		return 1;
	case 3:
		return 2;
	case 4:
		return 3;
	case 5:
		return 4;
	default:
		return 5;
	}
}

/* Time after which a level is lost, ns; 0: all at once. */
static inline u64 elevation_delay_ns(u32 row)
{
	switch (row) {
	case 0:
		return 0;
	case 1:
		return 200 * ELEVATION_MS;
	case 2:
		return 300 * ELEVATION_MS;
	case 3:
		return 400 * ELEVATION_MS;
	case 4:
		return 500 * ELEVATION_MS;
	default:
		return 600 * ELEVATION_MS;
	}
}

/* Levels that are lost after @passed_ns, of any number. */
static inline u64 elevation_lost(u64 passed_ns, u64 delay_ns)
{
	return delay_ns ? passed_ns / delay_ns : ~0ULL;
}

/* Levels that are left of @levels after @passed_ns. */
static inline u32 elevation_left(u32 levels, u64 passed_ns, u64 delay_ns)
{
	u64 lost = elevation_lost(passed_ns, delay_ns);

	return lost < levels ? levels - (u32)lost : 0;
}

/* Nice value @levels better than @base. */
static inline s32 elevation_nice(s32 base, u32 levels)
{
	return base - ELEVATION_BEST_NICE > (s64)levels ? base - (s32)levels : ELEVATION_BEST_NICE;
}

#endif
