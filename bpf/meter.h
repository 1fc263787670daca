/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the laboratory's meter (meter.bpf.c) hands to its reader (crates/guest/src/probe.rs).
 * Fixed width, explicit padding: the reader decodes it by offset.
 */
#ifndef APPEASE_METER_H
#define APPEASE_METER_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;

/* The kernel takes no screen update with more clips (DRM_MODE_FB_DIRTY_MAX_CLIPS). */
#define METER_MAX_CLIPS 256

enum meter_event_kind {
	METER_KEY = 1,		/* press of a key of the typist's keyboard; code is the key */
	METER_UPDATE = 2,	/* a screen update; code is the number of clips, 0 for the whole screen */
	METER_REQUEST = 3,	/* somebody asks a server of pages for one; code is the port */
};

struct meter_clip {
	u16 x1, y1, x2, y2;	/* pixels; x2 and y2 lie outside */
};

struct meter_event {
	u64 at_ns;		/* CLOCK_MONOTONIC */
	u32 kind;
	u32 code;
};

/* A METER_UPDATE. It is handed over with as many clips as it has. */
struct meter_update {
	struct meter_event event;
	struct meter_clip clips[METER_MAX_CLIPS];
};

/* Known when the programs are loaded. */
struct meter_config {
	u32 vendor;		/* of the typist's input device */
	u32 product;
	u32 nr_cpus;
	u32 sched;		/* whether processes are observed, too */
	u32 page_port;		/* of servers of pages */
};

/* Set when the measurement begins; 0 before. */
struct meter_control {
	u64 begin_ns;
};

struct meter_task {
	u64 waiting_since_ns;	/* runnable, not running; 0 otherwise */
	u64 running_since_ns;	/* 0 when not running */
	u64 ran_ns;		/* since the measurement began */
	u64 longest_wait_ns;	/* that ended since the measurement began */
	u32 is_load;
	u32 is_counted;		/* in meter_machine.nr_waiting */
	u32 is_normal;		/* neither realtime, deadline nor SCHED_IDLE */
	u32 pad;
	u8 comm[16];
};

/* One per CPU. */
struct meter_totals {
	u64 load_ran_ns;
	u64 load_longest_wait_ns;
	u64 longest_wait_ns;
	u64 lost_events;
	u64 lost_tasks;
	u32 is_idle;
	u32 pad;
	u8 longest_wait_comm[16];
};

/* One for the machine. */
struct meter_machine {
	u64 idle_while_waiting_since_ns;
	u64 idle_while_waiting_ns;
	s32 nr_waiting;		/* runnable, not running, allowed on every CPU */
	s32 nr_idle;		/* CPUs */
};

_Static_assert(sizeof(struct meter_event) == 16 && sizeof(struct meter_clip) == 8, "decoded by offset");
_Static_assert(sizeof(struct meter_task) == 64, "decoded by offset");
_Static_assert(sizeof(struct meter_totals) == 64, "decoded by offset");
_Static_assert(sizeof(struct meter_machine) == 24, "decoded by offset");

#endif
