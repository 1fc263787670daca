/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Realtime programs that never sleep, on kernels whose deadline server does not serve sched_ext (before 7.0).
 *
 * Problem: such a program keeps a CPU from all that we schedule, the user's terminal and the kernel's own threads included.
 *
 * Rule: at each scan, a CPU that a realtime program has, on which tasks of ours have waited since the scan before and none of them ran, is
 * locked out. Whoever has it at two looks in a row without having slept in between is told to user space, which has it stand back for a
 * moment. Others may be behind that one: so looks go on shortly until one of ours runs.
 *
 * Not by ops.cpu_release(): it is not called when a running task becomes realtime, as under chrt(1), nor when an idle CPU takes one.
 *
 * Limits: programs that wake each other are never there twice in a row, nor are those whose children come and go. So at every
 * so many looks it is whoever is there, who may only just have come. Deadline tasks have asked for no more than they have.
 */
#ifndef APPEASE_RESERVE_BPF_H
#define APPEASE_RESERVE_BPF_H

#include "tasks.bpf.h"

/* Set before load: user space gives turns to those who are locked out. */
const volatile bool guards;

#define SCHED_FIFO_POLICY 1
#define SCHED_RR_POLICY 2

/* Between two looks at a CPU that is locked out, and so many until the next scan. */
#define LOOK_NS 2000000ULL
#define LOOKS 49
/* After so many, whoever is there is told. */
#define LOOKS_IN_DOUBT 8

/* The kernel shows processes' beginnings in ticks of so long (proc(5)). */
#define USER_TICK_NS 10000000ULL

/* A CPU, by its number; user space says how many there are. */
struct lockout {
	u64 served_ns;	/* what tasks of ours had of it until the scan */
	u64 slept;	/* how often who had it at the last look had gone to sleep */
	u32 pid;	/* of that one */
	u32 looks;	/* to come until the next scan */
	u32 waits;	/* at the scan, tasks of ours did */
	u32 told;	/* who was told since the scan last */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct lockout);
} lockouts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer);
} look_timer SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} hogs SEC(".maps");

static __always_inline bool is_realtime(const struct task_struct *p)
{
	return (p->policy == SCHED_FIFO_POLICY || p->policy == SCHED_RR_POLICY) && !is_kthread(p);
}

static __always_inline void tell_hog(const struct task_struct *p)
{
	struct appease_hog *hog = bpf_ringbuf_reserve(&hogs, sizeof(*hog), 0);

	if (!hog) {
		count_sched(CNT_HOGS_NOT_TOLD);
		return;
	}
	hog->tid = p->pid;
	hog->pad = 0;
	hog->began_ticks = p->start_boottime / USER_TICK_NS;
	bpf_ringbuf_submit(hog, BPF_RB_FORCE_WAKEUP);
}

/* What tasks of ours had of a CPU. While a realtime task has it, all that they ran is charged. */
static __always_inline u64 served_by(const struct cpu_ctx *cctx)
{
	return cctx->lane_ns[APPEASE_LANE_KERNEL] + cctx->lane_ns[APPEASE_LANE_ATTENDED] + cctx->lane_ns[APPEASE_LANE_OTHER] +
	       cctx->lane_ns[APPEASE_LANE_IDLE];
}

/* One who has @cpu at this look and had it at the last one is told, or else whoever has it at some. */
static __always_inline void look_for_hog(struct lockout *lockout, const struct task_struct *curr)
{
	bool is_there_still;

	if (!is_realtime(curr)) {
		lockout->pid = 0;
		return;
	}
	is_there_still = lockout->pid == curr->pid && lockout->slept == curr->nvcsw;
	lockout->pid = curr->pid;
	lockout->slept = curr->nvcsw;
	if (!lockout->looks || lockout->told == curr->pid)
		return;
	if (is_there_still || lockout->looks % LOOKS_IN_DOUBT == 0) {
		lockout->told = curr->pid;
		tell_hog(curr);
	}
}

/* Looks whether @cpu is locked out, at a scan or soon after; whether to look again soon. */
static __noinline bool look_at(u32 cpu, bool is_scan)
{
	struct task_struct *curr = __COMPAT_scx_bpf_cpu_curr(cpu);
	struct lockout *lockout = bpf_map_lookup_elem(&lockouts, &cpu);
	const struct rq *rq = bpf_per_cpu_ptr(&runqueues, cpu);
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	u32 waits;
	u64 served_ns;

	if (!curr || !lockout || !rq || !cctx)
		return false;
	waits = rq->scx.nr_running;
	served_ns = served_by(cctx);
	if (is_scan) {
		lockout->looks = waits && lockout->waits && served_ns == lockout->served_ns ? LOOKS : 0;
		lockout->waits = waits;
		lockout->served_ns = served_ns;
		lockout->told = 0;
	} else if (!lockout->looks) {
		return false;
	} else if (!waits || curr->prio >= MAX_RT_PRIO || served_ns != lockout->served_ns) {
		lockout->looks = 0;
		return false;
	} else {
		lockout->looks--;
	}
	look_for_hog(lockout, curr);
	return lockout->looks > 0;
}

static __noinline bool look_at_all(bool is_scan)
{
	bool again = false;
	u32 i;

	bpf_for(i, 0, nr_cpus)
		again |= look_at(i, is_scan);
	return again;
}

static int look_again(void *map, int *key, struct bpf_timer *timer)
{
	if (look_at_all(false))
		bpf_timer_start(timer, LOOK_NS, 0);
	return 0;
}

/* To be called at each scan. */
static __always_inline void look_for_lockouts(void)
{
	struct timer *timer;
	u32 zero = 0;

	if (!guards || !look_at_all(true))
		return;
	timer = bpf_map_lookup_elem(&look_timer, &zero);
	if (timer)
		bpf_timer_start(&timer->timer, LOOK_NS, 0);
}

static __always_inline s32 init_look_timer(void)
{
	return guards ? ready_timer(look_timer, 0, look_again) : 0;
}

#endif
