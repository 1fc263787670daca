/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Histograms of times, which the kernel's side counts and user space reads.
 *
 * Problem: response times go from microseconds to a minute, and their tail matters.
 *
 * Rule: each power of two is cut into HISTOGRAM_STEPS equal buckets, from HISTOGRAM_STEPS units on; below, buckets are a unit wide. So
 * a bucket is at most a sixteenth of what is in it, and what is told of it, its middle, is off by 3 % at most.
 *
 * Limits: the last bucket holds all that is longer than about 68 s.
 */
#ifndef APPEASE_POLICY_HISTOGRAM_H
#define APPEASE_POLICY_HISTOGRAM_H

#include "types.h"

/* Width of the narrowest buckets: 1,024 ns. */
#define HISTOGRAM_UNIT_SHIFT 10U
#define HISTOGRAM_STEPS_SHIFT 4U
#define HISTOGRAM_STEPS (1U << HISTOGRAM_STEPS_SHIFT)
/* Powers of two that are cut, the units below them included. */
#define HISTOGRAM_OCTAVES 23U
#define HISTOGRAM_BUCKETS (HISTOGRAM_OCTAVES * HISTOGRAM_STEPS)

/* Exponent of the largest power of two in @value, which is not 0. */
static inline u32 histogram_log2(u64 value)
{
	u32 log = 0;

	if (value >> 32) {
		value >>= 32;
		log += 32;
	}
	if (value >> 16) {
		value >>= 16;
		log += 16;
	}
	if (value >> 8) {
		value >>= 8;
		log += 8;
	}
	if (value >> 4) {
		value >>= 4;
		log += 4;
	}
	if (value >> 2) {
		value >>= 2;
		log += 2;
	}
	return log + (value >> 1);
}

/* Bucket of a time, ns. */
static inline u32 histogram_bucket(u64 ns)
{
	u64 units = ns >> HISTOGRAM_UNIT_SHIFT;
	u32 log, bucket;

	if (units < HISTOGRAM_STEPS)
		return units;
	log = histogram_log2(units);
	bucket = ((log - HISTOGRAM_STEPS_SHIFT + 1) << HISTOGRAM_STEPS_SHIFT) +
		 ((units >> (log - HISTOGRAM_STEPS_SHIFT)) & (HISTOGRAM_STEPS - 1));
	return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

/* Shortest time of a bucket, ns. */
static inline u64 histogram_floor(u32 bucket)
{
	u32 octave = bucket >> HISTOGRAM_STEPS_SHIFT, step = bucket & (HISTOGRAM_STEPS - 1);

	if (!octave)
		return (u64)step << HISTOGRAM_UNIT_SHIFT;
	return (u64)(HISTOGRAM_STEPS + step) << (octave - 1 + HISTOGRAM_UNIT_SHIFT);
}

#endif
