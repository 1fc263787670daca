/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Integer types for policy headers and abi.h, which are compiled into BPF, where vmlinux.h has them, and natively.
 */
#ifndef APPEASE_POLICY_TYPES_H
#define APPEASE_POLICY_TYPES_H

#ifndef __VMLINUX_H__
#include <stdbool.h>
#include <stdint.h>
typedef uint64_t u64;
typedef int64_t s64;
typedef int32_t s32;
typedef uint32_t u32;
typedef uint16_t u16;
typedef uint8_t u8;
#endif

/* Weight of a task, a request or a customer that nobody set. */
#define POLICY_WEIGHT_DEFAULT 100U

/* Whether time @a lies before time @b; right also when a counter has wrapped around. */
static inline bool policy_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

#endif
