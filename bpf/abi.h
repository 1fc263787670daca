/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * All that crosses the border between the BPF objects and user space.
 *
 * Fixed width, explicit padding, sizes asserted: user space reads these records as bytes.
 * Times are nanoseconds of CLOCK_MONOTONIC (what bpf_ktime_get_ns() returns).
 */
#ifndef APPEASE_ABI_H
#define APPEASE_ABI_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
typedef __u64 u64;
typedef __u32 u32;
typedef __u16 u16;
typedef __u8 u8;
#endif

enum appease_const {
	/* Hops after which attention is not handed on: input, server, terminal, shell, command and three more. */
	APPEASE_MAX_HOPS = 8,
	APPEASE_NR_REQUESTS = 4096,
	APPEASE_COMM_LEN = 16,
};

/* Scheduling classes inside our scheduler, most urgent first. */
enum appease_lane {
	APPEASE_LANE_KERNEL,
	APPEASE_LANE_ATTENDED,
	APPEASE_LANE_OTHER,
	APPEASE_LANE_IDLE,
	APPEASE_NR_LANES,
};

/* Where a customer reaches the machine. */
enum appease_channel {
	APPEASE_CHANNEL_NONE,
	APPEASE_CHANNEL_EVDEV,
	APPEASE_CHANNEL_TTY,
	APPEASE_CHANNEL_MOUSE,
	APPEASE_CHANNEL_JOYSTICK,
	APPEASE_CHANNEL_AUDIO,
	APPEASE_NR_CHANNELS,
};

/* How attention came from one process to the next. */
enum appease_object {
	APPEASE_OBJECT_NONE,
	APPEASE_OBJECT_UNIX,
	APPEASE_OBJECT_INET,
	APPEASE_OBJECT_PIPE,
	APPEASE_OBJECT_PTY,
	APPEASE_OBJECT_EVENTFD,
	APPEASE_OBJECT_FORK,
	APPEASE_NR_OBJECTS,
};

/* What is counted; nothing is dropped in silence. */
enum appease_counter {
	APPEASE_CNT_OPENED,		/* requests opened by channel reads */
	APPEASE_CNT_OPEN_DENIED,	/* reads that opened nothing: no record to be had */
	APPEASE_CNT_STAMPED,		/* stamps left by writers */
	APPEASE_CNT_PICKED_UP,		/* stamps that gave a reader attention */
	APPEASE_CNT_HOPS_EXCEEDED,	/* stamps not picked up: chain too long */
	APPEASE_CNT_INHERITED,		/* attention handed to a forked child */
	APPEASE_CNT_LENT,		/* loans at a wake-up */
	APPEASE_CNT_LOAN_REFUSED,	/* loans refused: too many came to nothing */
	APPEASE_CNT_STORAGE_FAILED,	/* no memory for a record */
	APPEASE_NR_COUNTERS,
};

/* One step of a chain. */
struct appease_hop {
	u64 at_ns;	/* when the reader picked it up */
	u32 tgid;	/* who wrote */
	u16 object;	/* enum appease_object */
	u16 pad;
};
_Static_assert(sizeof(struct appease_hop) == 16, "appease_hop");

/* One interaction of a customer, shared by all processes that serve it. */
struct appease_request {
	u64 id;		/* never 0 in use, never used twice */
	u64 opened_ns;
	u64 served_ns;	/* CPU time spent on it by all processes together */
	u64 budget_ns;	/* batch work from there on */
	u32 channel;	/* enum appease_channel */
	u32 device;	/* minor number of the device node */
	u32 reader_tgid;
	u32 major;	/* major number of the device node */
};
_Static_assert(sizeof(struct appease_request) == 48, "appease_request");

/* That a process serves a request. */
struct appease_attention {
	u64 request_id;	/* 0: none */
	u64 since_ns;
	u64 until_ns;
	u32 slot;	/* index of the request in its table */
	u32 nr_hops;
	struct appease_hop path[APPEASE_MAX_HOPS];
};
_Static_assert(sizeof(struct appease_attention) == 32 + 16 * APPEASE_MAX_HOPS, "appease_attention");

/* All that is known of a process (thread group). */
struct appease_process {
	struct appease_attention attention;
	u64 context_id;		/* request of the last message it read; 0: message without a stamp */
	u64 channel_read_ns;	/* last successful read from a READ channel; 0: never */
	u64 loan_until_ns;	/* end of a loan; 0: none */
	u64 loan_opened_ns;	/* opening time that a loan ranks by */
	u64 loan_debt_ns;	/* CPU time of loans that came to nothing, decaying */
	u64 loan_debt_at_ns;	/* when loan_debt_ns was right */
	u64 loan_ran_ns;	/* CPU time of this loan so far */
	u64 context_opened_ns;	/* opening time of the context */
};
_Static_assert(sizeof(struct appease_process) == sizeof(struct appease_attention) + 64, "appease_process");

/* CPU time by lane of all processes with one command name, exited ones included. */
struct appease_command {
	u64 lane_ns[APPEASE_NR_LANES];
};

#endif
