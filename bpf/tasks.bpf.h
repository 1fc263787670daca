/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the scheduler knows of each task and of each CPU, and the timers that end turns.
 *
 * Two clocks: attention records carry CLOCK_MONOTONIC ("mono"), as user space reads them; queues and epochs use the
 * cheaper clock of the run queues ("now"). Never compare one with the other.
 *
 * Functions that are not static are global ones of BPF: the verifier looks through each of them once, for every argument
 * that its type allows, and not again for each state of each caller. Inlined into one another, the parts of ops.enqueue()
 * took more than the million instructions that Linux 6.18 verifies, as soon as there was more than one CPU. So whatever
 * several callbacks ask, or what branches a lot, is global, and pointers do not leave it: what a map holds is looked up
 * again by its key.
 */
#ifndef APPEASE_TASKS_BPF_H
#define APPEASE_TASKS_BPF_H

#include "curr.bpf.h"
#include "fair.bpf.h"
#include "limits.bpf.h"

#define MAX_RT_PRIO 100
#define SCHED_BATCH_POLICY 3
#define SCHED_IDLE_POLICY 5
#define SCHED_EXT_POLICY 7

/* Beside those of fair.bpf.h and parties.bpf.h. */
/* Each domain has one. */
#define DSQ_IDLE DSQ_KIND(3)
#define DSQ_OVERDUE DSQ_KIND(4)
/* The machine has one. */
#define DSQ_BACKGROUND DSQ_KIND(5)
/* Each CPU has one. */
#define DSQ_KERNEL DSQ_KIND(6)
/* Each CPU has so many, see pinned.bpf.h. */
#define DSQ_PINNED DSQ_KIND(7)
#define PINNED_QUEUES 16

/* The kernel ejects a scheduler that keeps a task waiting for so long, ns. */
const volatile u64 watchdog_ns = 30000000000ULL;

/* A task that a limit kept from running for so long runs nevertheless: 10 s of 30. */
#define LIMITED_WAIT_NS (watchdog_ns / 3)

/* How often a CPU's timer looks whether realtime work is over. */
#define RETRY_NS 20000ULL

/* Slices end at ticks: so much later at most. */
#define LONGEST_TICK_NS 10000000ULL

const volatile u64 epoch_ns = 200000000ULL;
const volatile u64 longest_wait_ns = 1000000000ULL;
const volatile u32 other_share_pct = 5;
const volatile bool is_partial;

enum sched_counter {
	CNT_DIRECT,		/* put on an idle CPU at once */
	CNT_ATTENDED,		/* queued in the attended lane */
	CNT_OTHER,		/* queued in the other or the idle lane */
	CNT_PREEMPTED,		/* running tasks displaced by attended wake-ups */
	CNT_SHARE_CALLED_IN,	/* turns of the other lane that its share was due for */
	CNT_OVERDUE,		/* tasks that waited too long */
	CNT_REENQUEUED,		/* tasks displaced by realtime work that came back to the queues */
	CNT_DISPLACED,		/* running tasks displaced in the other lane by who had less */
	CNT_SECTIONS,		/* tasks displaced inside a program that went first to leave it */
	CNT_LIMITED,		/* tasks that cpu.max kept from running */
	CNT_CLOCK,		/* times that a CPU was asked for another clock */
	CNT_CORES,		/* tasks that left a core which they shared for an idle one */
	CNT_PACKED,		/* to save power: plain tasks that opened no further CPU */
	CNT_HOGS_NOT_TOLD,	/* realtime programs that never sleep, of which user space was not told */
	NR_SCHED_COUNTERS,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NR_SCHED_COUNTERS);
	__type(key, u32);
	__type(value, u64);
} sched_counters SEC(".maps");

/* CPU time by lane of exited tasks, by command name. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, char[APPEASE_COMM_LEN]);
	__type(value, struct appease_command);
} commands SEC(".maps");

struct task_ctx {
	u64 lane_ns[APPEASE_NR_LANES];
	u64 queued_ns;	/* since when it waits in a queue of ours; of a kernel thread that sleeps: since when */
	u64 ran_ns;	/* sum_exec_runtime when last looked at */
	u64 turn_ns;	/* CPU time since it last woke up */
	u64 asked_ns;	/* of a kernel thread: when it last woke up, CLOCK_MONOTONIC */
	u64 burst_ns;	/* what it wants of that, on the average */
	u64 made_ns;	/* policy cas: when its process was made */
	u64 start_ns;	/* and what is left of the CPU time that it stands among the unhappy for by that */
	u64 vtime;	/* in the other lanes, by its party's clock; p->scx.dsq_vtime is the key in its last queue */
	u64 handed_vtime;	/* virtual time when it last woke a task of its party in this turn; 0: it did not */
	u64 woken_for;	/* request of who woke it up last; 0: none */
	u64 followed_ns;	/* when a task that works for @spent_for woke it; 0: its own request, or its parent's, is beyond the budget */
	u64 turn_request;	/* which request it served when that was looked at last; 0: none */
	/* Attended, since it last woke up: */
	u64 place_for;	/* the request for which it was queued last; 0: none */
	u64 place_key;	/* by that key */
	u64 place_ran_ns;	/* ran_ns then */
	u32 turn_for;	/* customer who pays for its turns; 0: nobody has to share */
	u32 customer;	/* whose event woke it up last; 0: not known */
	u32 lane;	/* in which it was queued last */
	u32 group;	/* party of its cgroup; 0: the root's */
	u32 party;	/* of its virtual time */
	u32 spent_for;	/* customer for whom it works beyond a budget; 0: none */
	u32 sections;	/* so often in a row it went first to leave a program, see sections.bpf.h */
	u32 mistaken;	/* so many more requests that it reads must be of who woke it, until that is believed again */
	u32 mixing;	/* and so many one after the other, until it serves one at a time again */
	u32 packed;	/* it opens no further CPU */
	u32 has_woken;	/* its wake-up was noted when its CPU was chosen */
	u32 usual_ns;	/* for so long it goes on after it woke somebody, see policy/waker.h */
	u32 is_expected;	/* attended: the CPU that was called for it was of the domain where it waits */
	u32 pays_at_once;	/* attended: for the period of a channel, which its party pays for at once */
	u32 gave_on;	/* number of the CPU on which it handed its turn over, and one; 0: it did not, or was charged since */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

/*
 * Whether an attended task that was woken on a CPU waits for that one to come, before another one is told (call() in attended.bpf.h). STAYED: it has
 * come, and no other task waits for it until the time is over.
 */
enum stay { STAYS_NOBODY, STAYS, STAYED };

struct cpu_ctx {
	u64 lane_ns[APPEASE_NR_LANES];	/* CPU time since the scheduler was attached; first, user space reads it */
	u64 epoch_start_ns;
	u64 share_ns;	/* what the other lanes must get of this epoch */
	u64 other_ns;	/* what they got */
	u64 unpaid_ns;	/* of that, since somebody attended last waited for their turn */
	u64 rested_ns;	/* when they last wanted nothing here */
	u64 overdue_until_ns;	/* until when they had what overdue tasks may take */
	u64 kernel_ns;	/* what kernel threads got */
	u64 looked_ns;	/* when it last looked for who is next */
	u64 next_overdue_ns;	/* when an overdue task may go first again in the other lane */
	u64 displaced_ns;	/* when somebody in the other lane last took the CPU from another */
	u32 is_timed;	/* what runs is to end by the CPU's timer */
	u32 timed_pid;	/* if it is that task; 0: whichever was to run next */
	u64 releases;	/* ops.cpu_release() is at work: its programs count as the displaced task's */
	enum stay stays;	/* an attended task for it */
	u32 stays_in;	/* the task's queue */
	u32 handed_pid;	/* which task woke up here to have what is left of its waker's turn; 0: none */
	u32 woke_pid;	/* which task woke it; while one that did so has the CPU: */
	u64 woke_ns;	/* when it first did; 0: not yet */
	s32 next_cpu;	/* which one is told then */
	u64 compare_at_ns;	/* when its timer is to compare attended tasks, see compare_soon(); 0: it is off */
	u64 is_called;	/* an attended task waits for this CPU to look, or may soon: others call other CPUs */
	u64 turn;	/* the other lane is at its guaranteed turn: only modest customers displace it */
	/* Policy cas: the unhappiest of those who wait, in this look at the queue. */
	s64 best;	/* U of its request; ns */
	s64 best_share;	/* its own */
	s32 best_pid;	/* 0: nobody waits */
	u32 bit;	/* its number in its domain */
	u32 has_bit;	/* it has one: domains have room for so many */
	u32 is_plain;	/* its bit in plain_cpus of the domain */
	u32 kernel_waiting;	/* kernel threads that wait for it in their queue, at most */
	u64 kernel_since_ns;	/* since when */
	/* See clock.bpf.h. */
	u64 busy_ns;	/* CPU time in all lanes when the epoch began */
	u32 use;	/* the part of the last epoch in which it was busy */
	u32 computes;	/* a plain task has used up its slice, and work has not ended since at the end of an epoch */
	u32 ran_in;	/* the party of the other lane that it charged last */
	u32 clock_lacks;	/* what the clock that it was asked for lacks to the highest */
	u32 aside_pid;	/* what a kernel thread displaced here since the last look; 0: nothing */
	u32 shared_turns;	/* so often in a row another CPU of the core was at work when a turn ended, see cores.bpf.h */
	u32 leaving_pid;	/* what is to go to another core; 0: nothing */
	/* See pinned.bpf.h. */
	u64 pinned;		/* its queues that may hold a task */
	u64 pinned_used;	/* those that got one since the last look */
	u64 pinned_vtime;	/* of the best so far, in this look */
	u32 pinned_best;	/* its party */
	u32 pinned_next;	/* where it waits */
	u32 pinned_turn;	/* whether those that waited too long for this CPU alone are asked first, by turns */
	u32 pinned_parties[PINNED_QUEUES];	/* whose they are, beginning at 1; 0: nobody's */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu_ctx);
} cpu_ctxs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer);
} timers SEC(".maps");

/* By CPU, see end_after(); user space says how many there are. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer);
} cpu_timers SEC(".maps");

/* Queues that are mostly empty. The idle lane and overdue tasks have one in each domain. */
enum rare {
	RARE_BACKGROUND = 1,
	RARE_IDLE = 2,
	RARE_OVERDUE = 4,
};

/*
 * Those that may hold something, and those that got something since the last look; set before each insertion, and cleared as the bits
 * of a domain's queues are (domains.bpf.h). Saves the look-up of an empty queue, some 200 instructions: a CPU that went idle made nine.
 */
static u64 rare_waiting, rare_used;

/*
 * On one CPU: so many tasks may be in the local queue because nobody else waited. Attended tasks that wake up go before them.
 */
static u64 plain_waiting;

/* Puts @p into its CPU's own queue, past ours, for it is the next one. */
static __always_inline void insert_first(struct task_struct *p, u64 slice, u64 enq_flags)
{
	if (skips_queues())
		plain_waiting++;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice, enq_flags);
}

/* On one CPU: the running task is being displaced by one that goes on with its turn. */
static bool gives_way;

/* On one CPU: a task that a higher class displaced is first in the local queue, and none was queued since, see stays_displaced(). */
static bool has_displaced;

/* On one CPU: one was, and the CPU's timer is on for it. */
static bool looks_behind_displaced;

/* Whether one of @queues may hold something. */
static __always_inline bool may_hold(u64 queues)
{
	return rare_waiting & queues;
}

/* Something is about to be put into @queue. */
static __always_inline void rare_fills(enum rare queue)
{
	mark_filled(&rare_waiting, &rare_used, queue);
}

/* @queue was found empty. */
static __always_inline void rare_is_empty(enum rare queue)
{
	if (knows_queues())
		rare_waiting &= ~(u64)queue;
}

static __always_inline u64 queue_of_kernel(s32 cpu)
{
	return DSQ_KERNEL + (has_more_cpus() ? cpu : 0);
}

/* On one CPU: whether a task may wait in a queue of which nobody waits for any. */
static __always_inline bool plain_may_wait(void)
{
	return others_may_wait(0) || may_hold(RARE_BACKGROUND | RARE_IDLE | RARE_OVERDUE);
}

static __always_inline void count_sched(u32 which)
{
	u64 *counter = bpf_map_lookup_elem(&sched_counters, &which);

	if (counter)
		(*counter)++;
}

static __always_inline struct task_ctx *try_task_ctx(struct task_struct *p)
{
	return bpf_task_storage_get(&task_ctxs, p, 0, 0);
}

static __always_inline struct cpu_ctx *this_cpu_ctx(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&cpu_ctxs, &zero);
}

static __always_inline struct cpu_ctx *cpu_ctx_of(s32 cpu)
{
	u32 zero = 0;

	return has_more_cpus() ? bpf_map_lookup_percpu_elem(&cpu_ctxs, &zero, cpu) : this_cpu_ctx();
}

/* Of the CPU that @p runs or waits on, which need not be this one. */
static __always_inline struct cpu_ctx *cpu_ctx_of_task(struct task_struct *p)
{
	return cpu_ctx_of(has_more_cpus() ? scx_bpf_task_cpu(p) : 0);
}

/* Whether what @cpu runs from now on is work that nobody waits for. */
static __always_inline void note_plain(s32 cpu, struct cpu_ctx *cctx, bool is_plain)
{
	struct domain *domain;

	if (!has_more_cpus() || cctx->is_plain == is_plain || !cctx->has_bit)
		return;
	cctx->is_plain = is_plain;
	domain = domain_at(domain_of(cpu));
	if (is_plain)
		__sync_fetch_and_or(&domain->plain_cpus, bit_of(cctx->bit));
	else
		__sync_fetch_and_and(&domain->plain_cpus, ~bit_of(cctx->bit));
}

static int end_run(void *map, int *cpu, struct bpf_timer *timer)
{
	struct task_struct *curr = curr_of(*cpu);
	struct cpu_ctx *cctx = cpu_ctx_of(*cpu);
	u32 pid;

	if (!cctx || !cctx->is_timed)
		return 0;
	/* It has not begun: realtime work is before it. */
	if (curr && curr->prio < MAX_RT_PRIO) {
		bpf_timer_start(timer, looks_behind_displaced ? PROGRESS_PIECE_NS : RETRY_NS, 0);
		return 0;
	}
	pid = cctx->timed_pid;
	cctx->is_timed = 0;
	/*
	 * It went before a task in the local queue that has a turn of the other lanes, and took its timer. Without one, that task would
	 * keep attended ones from the CPU for a whole slice.
	 */
	if (pid && cctx->turn) {
		cctx->is_timed = 1;
		cctx->timed_pid = 0;
		bpf_timer_start(timer, PROGRESS_PIECE_NS, 0);
	}
	/* That one has ended its turn, and what was in the local queue came next, of which ops.dispatch() hears nothing. */
	if (curr && pid && curr->pid != pid)
		return 0;
	scx_bpf_kick_cpu(*cpu, SCX_KICK_PREEMPT);
	return 0;
}

/*
 * The task @pid, which runs on @cpu or is about to, has @ns, whatever its slice, which ends at a tick; 0: whichever runs next. False
 * if that cannot be.
 */
static __always_inline bool end_after(u32 cpu, u32 pid, u64 ns)
{
	struct timer *timer = bpf_map_lookup_elem(&cpu_timers, &cpu);
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	if (!timer || !cctx)
		return false;
	cctx->is_timed = 1;
	cctx->timed_pid = pid;
	return !bpf_timer_start(&timer->timer, ns, 0);
}

__noinline s32 init_cpu_timer(u32 cpu)
{
	return ready_timer(cpu_timers, cpu, end_run);
}

/* Lane of @p, of which is @tctx, when nobody waits for it. */
static __always_inline u32 plain_lane(const struct task_struct *p, const struct task_ctx *tctx)
{
	if (p->policy == SCHED_IDLE_POLICY || (nr_idle_groups && is_idle_group(tctx->group)))
		return APPEASE_LANE_IDLE;
	return APPEASE_LANE_OTHER;
}

/* Whether a limit keeps @tctx's task from running now. */
static __always_inline bool may_not_run(const struct task_ctx *tctx)
{
	return nr_limits && tctx->group && is_limited(tctx->group, scx_bpf_now());
}

#endif
