/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Realtime programs that never sleep, on kernels whose deadline server does not serve sched_ext (before 7.0).
 *
 * Problem: such a program keeps a CPU from all that we schedule, the user's terminal and the kernel's own threads included.
 *
 * Rule: at each scan, a CPU that a realtime program has, on which tasks of ours have waited since the scan before and none of them ran,
 * is locked out. Whoever has it and has computed for UNSLEPT_NS without going to sleep is told to user space, which has it stand back for a
 * moment. Others may be behind that one, so looks go on shortly until one of ours runs. A thread that sleeps in between, as those of
 * sound servers do at each period, is not told.
 *
 * Not by ops.cpu_release(): it is not called when a running task becomes realtime, as under chrt(1), nor when an idle CPU takes one.
 *
 * Limits: programs that wake each other go to sleep, and those whose children come and go are new each time. When such ones have locked
 * a CPU out for DOUBT_NS, whoever is there is told. Deadline tasks have asked for no more than they have.
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
/* Longer than a period of PipeWire's, of 2,048 frames at 48 kHz: a thread that serves it has slept. */
#define UNSLEPT_NS 50000000ULL
/* Five times what it takes to find a lock-out. */
#define DOUBT_NS 1000000000ULL

/* Children that are told of at a time: more than a process makes in a turn of LONGEST (reserve/guard.rs). Beyond it they stay as they began. */
#define HEIRS 4096

/* The kernel shows processes' beginnings in ticks of so long (proc(5)). */
#define USER_TICK_NS 10000000ULL

/* A realtime thread that had a CPU at some look. */
struct seen {
	u32 pid;
	u64 slept;	/* how often it had gone to sleep when it was seen last */
	u64 ran_ns;	/* what it had run when it was first seen after that */
	u64 at_ns;	/* when it was seen last */
};

/* So many realtime threads take turns on a CPU that is locked out: more, and it takes longer to tell. */
#define SEEN 4

/* A CPU, by its number; user space says how many there are. */
struct lockout {
	u64 served_ns;	/* what tasks of ours had of it until the scan */
	u64 served_at;	/* when they had some of it, or none waited, last */
	u32 looks;	/* to come until the next scan */
	u32 waits;	/* at the scan, tasks of ours did */
	u32 told;	/* who was told last while it is locked out */
	u32 doubts;	/* nobody was there for long when it was locked out for long */
	struct seen seen[SEEN];
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
	__uint(max_entries, HEIRS * 32);	/* a record of 16 bytes, and its head of 8 */
} hogs SEC(".maps");

/* Threads that stand back, as user space says, and their heirs: children of all these are heirs. The value: the thread that stood back. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, HEIRS);
	__type(key, u32);
	__type(value, u32);
} standing_back SEC(".maps");

static __always_inline bool is_realtime(const struct task_struct *p)
{
	return (p->policy == SCHED_FIFO_POLICY || p->policy == SCHED_RR_POLICY) && !is_kthread(p);
}

/* Tells of @p, an heir of the thread @heir_of if that is not 0. Whether there was room. */
static __always_inline bool tell(const struct task_struct *p, u32 heir_of, u64 flags)
{
	struct appease_hog *hog = bpf_ringbuf_reserve(&hogs, sizeof(*hog), 0);

	if (!hog) {
		count_sched(CNT_HOGS_NOT_TOLD);
		return false;
	}
	hog->tid = p ? p->pid : 0;
	hog->heir_of = heir_of;
	hog->began_ticks = p ? p->start_boottime / USER_TICK_NS : 0;
	bpf_ringbuf_submit(hog, flags);
	return true;
}

/* That @p keeps a CPU, or, without it, that somebody still does. */
static __always_inline void tell_hog(const struct task_struct *p)
{
	tell(p, 0, BPF_RB_FORCE_WAKEUP);
}

/* Whether @p, which comes to us, begins in the class in which a thread stands back. One that has run changes its class, as the thread itself does. */
static __always_inline bool may_be_heir(const struct task_struct *p)
{
	return guards && p->policy == SCHED_IDLE_POLICY && !p->se.sum_exec_runtime;
}

/*
 * @p, which may be an heir, begins. User space takes the class back once the parent has its own again. A look at children from there
 * would miss those that begin during the look, and those of a parent that is gone.
 */
static __always_inline void tell_heir(const struct task_struct *p)
{
	const struct task_struct *parent = bpf_get_current_task_btf();
	u32 parent_tid = parent->pid, tid = p->pid, *of;
	bool is_late = parent->policy != SCHED_IDLE_POLICY;

	of = bpf_map_lookup_elem(&standing_back, &parent_tid);
	/* Its parent stood back when it was copied, and no longer does. */
	if (!of && is_late)
		of = &parent_tid;
	if (!of)
		return;
	bpf_map_update_elem(&standing_back, &tid, of, BPF_ANY);
	/* Others than late ones are read when the turn ends. Nobody would remove the entry of one that is not told. */
	if (!tell(p, *of, is_late ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP))
		bpf_map_delete_elem(&standing_back, &tid);
}

/* What tasks of ours had of a CPU. While a realtime task has it, all that they ran is charged. */
static __always_inline u64 served_by(const struct cpu_ctx *cctx)
{
	return cctx->lane_ns[APPEASE_LANE_KERNEL] + cctx->lane_ns[APPEASE_LANE_ATTENDED] + cctx->lane_ns[APPEASE_LANE_OTHER] +
	       cctx->lane_ns[APPEASE_LANE_IDLE];
}

/* Notes that @curr is there; for how long it has computed without going to sleep, as far as it was seen. */
static __always_inline u64 note_seen(struct lockout *lockout, const struct task_struct *curr, u64 now)
{
	u64 ran_ns = curr->se.sum_exec_runtime;
	u32 i, oldest = 0;

	bpf_for(i, 0, SEEN) {
		struct seen *seen = &lockout->seen[i % SEEN];

		if (seen->pid == curr->pid) {
			if (seen->slept != curr->nvcsw || ran_ns < seen->ran_ns) {
				seen->slept = curr->nvcsw;
				seen->ran_ns = ran_ns;
			}
			seen->at_ns = now;
			return ran_ns - seen->ran_ns;
		}
		if (seen->at_ns < lockout->seen[oldest % SEEN].at_ns)
			oldest = i;
	}
	lockout->seen[oldest % SEEN] = (struct seen){
		.pid = curr->pid,
		.slept = curr->nvcsw,
		.ran_ns = ran_ns,
		.at_ns = now,
	};
	return 0;
}

/* Tells whoever has to stand back, when the CPU is locked out and @curr is there. */
static __always_inline void look_for_hog(struct lockout *lockout, const struct task_struct *curr, u64 now)
{
	bool is_hog;

	if (!is_realtime(curr))
		return;
	is_hog = note_seen(lockout, curr, now) >= UNSLEPT_NS;
	if (!lockout->looks || lockout->told == curr->pid)
		return;
	if (is_hog) {
		lockout->doubts = 0;
	} else if (!lockout->doubts) {
		/* It came when the one before it stood back, which does so until this one has slept, or is told, too. */
		if (lockout->told)
			tell_hog(NULL);
		return;
	}
	lockout->told = curr->pid;
	tell_hog(curr);
}

/* Looks whether @cpu is locked out, at a scan or soon after; whether to look again soon. */
static __noinline bool look_at(u32 cpu, bool is_scan)
{
	struct task_struct *curr = curr_of(cpu);
	struct lockout *lockout = bpf_map_lookup_elem(&lockouts, &cpu);
	const struct rq *rq = bpf_per_cpu_ptr(&runqueues, cpu);
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	u64 served_ns, now = scx_bpf_now();
	bool is_let_go;
	u32 waits;

	if (!curr || !lockout || !rq || !cctx)
		return false;
	waits = rq->scx.nr_running;
	served_ns = served_by(cctx);
	is_let_go = !waits || curr->prio >= MAX_RT_PRIO || served_ns != lockout->served_ns;
	if (is_let_go)
		lockout->served_at = now;
	if (is_scan) {
		lockout->looks = waits && lockout->waits && served_ns == lockout->served_ns ? LOOKS : 0;
		lockout->waits = waits;
		lockout->served_ns = served_ns;
		if (now - lockout->served_at > DOUBT_NS)
			lockout->doubts = 1;
		else if (curr->prio >= MAX_RT_PRIO || !waits)
			lockout->doubts = 0;
		/* It was told in vain, or has come back. */
		if (!lockout->looks || lockout->told == curr->pid)
			lockout->told = 0;
	} else if (!lockout->looks) {
		return false;
	} else if (is_let_go) {
		lockout->looks = 0;
		return false;
	} else {
		lockout->looks--;
	}
	look_for_hog(lockout, curr, now);
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
