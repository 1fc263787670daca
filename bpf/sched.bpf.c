/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The scheduler: kernel threads, then what somebody waits for, then the rest, which keeps a guaranteed share.
 *
 *	kernel		straight to the CPU's local queue
 *	attended	one queue, by unhappiness (policy/unhappiness.h)
 *	other, idle	one queue each, by weighted virtual time (policy/progress.h)
 *	overdue		those of the other lanes that waited too long, first come first served
 *
 * An attended wake-up takes an idle CPU, or one that does the least important work. Reads attention, never writes it,
 * but for CPU time spent and loans.
 *
 * Where it is bad: one queue a lane for the whole machine does not scale to many sockets; slices end at ticks.
 */
#include <scx/common.bpf.h>
#include <scx/compat.bpf.h>
#include "attention.bpf.h"
#include "policy/progress.h"

/*
 * Two clocks: attention records carry CLOCK_MONOTONIC ("mono"), as user space reads them; queues and epochs use the
 * cheaper clock of the run queues ("now"). Never compare one with the other.
 */

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

#define PF_KTHREAD 0x00200000
#define SCHED_IDLE_POLICY 5
#define SCHED_EXT_POLICY 7
#define NICE_0_STATIC_PRIO 120
#define MAX_CPUS 1024

#define DSQ_ATTENDED 1
#define DSQ_OTHER 2
#define DSQ_IDLE 3
#define DSQ_OVERDUE 4

/* How often tasks are looked for that waited too long. */
#define SCAN_NS 100000000ULL
/* Most tasks that one look goes through. */
#define SCAN_MAX 1024

/* Equals do not take the CPU from each other for less. */
#define PREEMPT_MARGIN_NS 200000ULL

const volatile u64 slice_ns = 3000000ULL;
const volatile u64 epoch_ns = 200000000ULL;
const volatile u64 longest_wait_ns = 1000000000ULL;
const volatile u32 other_share_pct = 5;
const volatile u32 nr_cpus = 1;
const volatile bool is_partial;

enum sched_counter {
	CNT_DIRECT,		/* put on an idle CPU at once */
	CNT_ATTENDED,		/* queued in the attended lane */
	CNT_OTHER,		/* queued in the other or the idle lane */
	CNT_PREEMPTED,		/* running tasks displaced by attended wake-ups */
	CNT_SHARE_CALLED_IN,	/* turns of the other lane that its share was due for */
	CNT_OVERDUE,		/* tasks that waited too long */
	CNT_REENQUEUED,		/* tasks displaced by realtime work that came back to the queues */
	NR_SCHED_COUNTERS,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NR_SCHED_COUNTERS);
	__type(key, u32);
	__type(value, u64);
} sched_counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, APPEASE_NR_LANES);
	__type(key, u32);
	__type(value, u64);
} lane_totals SEC(".maps");

/* CPU time by lane of exited tasks, by command name. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, char[APPEASE_COMM_LEN]);
	__type(value, struct appease_command);
} commands SEC(".maps");

struct task_ctx {
	u64 lane_ns[APPEASE_NR_LANES];
	u64 queued_ns;	/* since when it waits in a queue of ours */
	u64 ran_ns;	/* sum_exec_runtime when last looked at */
	u64 turn_ns;	/* CPU time since it last woke up */
	u64 vtime;	/* in the other lanes; p->scx.dsq_vtime is the key in whatever queue it was last in */
	u32 lane;	/* in which it was queued last */
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

struct cpu_ctx {
	u64 epoch_start_ns;
	u64 other_ns;	/* CPU time of the other lanes in this epoch */
	u64 turn;	/* the other lane is at its guaranteed turn: nobody displaces it */
	u64 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu_ctx);
} cpu_ctxs SEC(".maps");

struct timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer);
} timers SEC(".maps");

/* Clock of the other lanes: the largest virtual time that was the smallest of the queue when it was dispatched from. */
static u64 queue_vtime;

/*
 * Whether a queue may hold something: set before each insertion, cleared by whoever finds the queue empty. Saves the
 * look-up of an empty queue at each dispatch.
 */
static bool maybe_attended, maybe_idle, maybe_overdue, maybe_other;

/*
 * With several CPUs the flags say nothing: the insertion happens only after ops.enqueue() has returned, and another CPU
 * may find the queue empty in between and clear the flag of a queue that then holds a task.
 */
static __always_inline bool may_hold(const bool *maybe)
{
	return nr_cpus > 1 || *maybe;
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

static __always_inline struct appease_process *try_process(struct task_struct *p)
{
	return bpf_task_storage_get(&processes, p->group_leader, 0, 0);
}

static __always_inline struct cpu_ctx *this_cpu_ctx(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&cpu_ctxs, &zero);
}

/* A kernel thread that the kernel itself did not put behind others. */
static __always_inline bool is_urgent_kthread(const struct task_struct *p)
{
	return (p->flags & PF_KTHREAD) && p->static_prio <= NICE_0_STATIC_PRIO;
}

/* Lane of @p when nobody waits for it. */
static __always_inline u32 plain_lane(const struct task_struct *p)
{
	return p->policy == SCHED_IDLE_POLICY ? APPEASE_LANE_IDLE : APPEASE_LANE_OTHER;
}

/* What @p is right now: whether attended, for which request, and its key. */
struct standing {
	u64 key;
	struct appease_request *request;
	struct appease_process *process;
	bool attended;
};

static __always_inline void judge(struct task_struct *p, u64 mono, struct standing *standing)
{
	struct appease_process *process = try_process(p);

	standing->process = process;
	standing->request = NULL;
	standing->attended = false;
	standing->key = 0;
	if (!process)
		return;
	standing->request = try_lookup_request(&process->attention, mono);
	if (standing->request) {
		standing->attended = true;
		standing->key = request_key(standing->request, mono);
	} else if (has_loan(process, mono)) {
		standing->attended = true;
		standing->key = unhappiness_key(unhappiness_opened(process->loan_opened_ns, mono, HORIZON_NS),
						process->loan_ran_ns, REQUEST_WEIGHT);
	}
}

/* Whether @process served somebody until a short while ago, and has not spent its budget on it. */
static __always_inline bool is_retained(const struct appease_process *process, u64 mono)
{
	const struct appease_attention *attention = &process->attention;
	struct appease_request *request;
	u32 slot = attention->slot;

	if (!attention->request_id || policy_before(mono, attention->until_ns) ||
	    !policy_before(mono, attention->until_ns + retention_ns - attention_ns))
		return false;
	request = bpf_map_lookup_elem(&requests, &slot);
	return request && request->id == attention->request_id && request->served_ns < request->budget_ns;
}

/*
 * The current task wakes @p: does it hand something on to it? Gives a loan to known readers of channels that an input
 * event wakes, to whoever is woken by an attended write, and to processes that served a request a short while ago.
 */
static __always_inline void consider_loan(struct task_struct *p, u64 mono)
{
	struct handing *handing = this_handing();
	struct appease_process *process;
	u64 opened_ns = mono;

	if (!handing)
		return;
	process = try_process(p);
	if (handing->pid == (u32)bpf_get_current_pid_tgid() && mono - handing->at_ns < HANDING_NS) {
		if (handing->request_id) {
			opened_ns = handing->opened_ns;
			if (!process)
				process = bpf_task_storage_get(&processes, p->group_leader, 0,
							       BPF_LOCAL_STORAGE_GET_F_CREATE);
			if (!process) {
				count(APPEASE_CNT_STORAGE_FAILED);
				return;
			}
			goto grant;
		}
		if (process && process->channel_read_ns)
			goto grant;
	}
	if (!process || !is_retained(process, mono))
		return;
grant:
	if (process->attention.request_id && try_lookup_request(&process->attention, mono))
		return;
	lend(process, opened_ns, mono);
}

/* Charges the request that @p serves, or the loan that it runs on; false if it has neither. */
static __always_inline bool charge_attended(struct task_struct *p, u64 ran)
{
	struct standing standing;

	judge(p, bpf_ktime_get_ns(), &standing);
	if (standing.request) {
		__sync_fetch_and_add(&standing.request->served_ns, ran);
	} else if (standing.attended) {
		standing.process->loan_ran_ns += ran;
		standing.process->loan_debt_ns += ran;
		if (standing.process->loan_ran_ns >= loan_ns)
			standing.process->loan_until_ns = 0;
	}
	return standing.attended;
}

/* Charges @p for the CPU time since it was last looked at. */
static __always_inline void charge(struct task_struct *p, struct task_ctx *tctx)
{
	u64 total = p->se.sum_exec_runtime, ran = total - tctx->ran_ns, *lane_total;
	u32 lane = tctx->lane, zero = 0;
	struct cpu_ctx *cctx;

	/* At the end of a slice ops.dispatch() has charged it already. */
	if (!ran)
		return;
	tctx->ran_ns = total;
	tctx->turn_ns += ran;
	if (lane != APPEASE_LANE_KERNEL) {
		/* It may have read in the middle of its turn, or its attention may have ended. */
		lane = tctx->lane = is_armed() && charge_attended(p, ran) ? APPEASE_LANE_ATTENDED : plain_lane(p);
	}
	if (lane >= APPEASE_LANE_OTHER) {
		tctx->vtime += progress_charge(ran, p->scx.weight);
		/* Not of this CPU: a task whose affinity changes is stopped from another one. */
		cctx = bpf_map_lookup_percpu_elem(&cpu_ctxs, &zero, scx_bpf_task_cpu(p));
		if (cctx)
			cctx->other_ns += ran;
	}
	if (lane >= APPEASE_NR_LANES)
		return;
	tctx->lane_ns[lane] += ran;
	lane_total = bpf_map_lookup_elem(&lane_totals, &lane);
	if (lane_total)
		*lane_total += ran;
}

/* Queues @p before everything else on its CPU; a kernel thread that runs there is not displaced. */
static __always_inline void enqueue_kernel(struct task_struct *p, struct task_ctx *tctx, u64 enq_flags)
{
	struct task_struct *curr = __COMPAT_scx_bpf_cpu_curr(scx_bpf_task_cpu(p));

	tctx->lane = APPEASE_LANE_KERNEL;
	if (!curr || !is_urgent_kthread(curr))
		enq_flags |= SCX_ENQ_PREEMPT;
	else
		enq_flags |= SCX_ENQ_HEAD;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, enq_flags);
}

/* Wakes an idle CPU for @p, which was put in a queue that all CPUs share. */
static __always_inline void kick_idle(struct task_struct *p)
{
	s32 cpu;

	if (nr_cpus == 1)
		return;
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* Queues @p in the other or the idle lane. */
static __always_inline void enqueue_other(struct task_struct *p, struct task_ctx *tctx, u64 now, u64 enq_flags)
{
	u64 vtime = progress_catch_up(tctx->vtime, queue_vtime, slice_ns);
	u32 lane = plain_lane(p);

	tctx->vtime = vtime;
	tctx->lane = lane;
	tctx->queued_ns = now;
	if (lane == APPEASE_LANE_IDLE) {
		maybe_idle = true;
		scx_bpf_dsq_insert_vtime(p, DSQ_IDLE, slice_ns, vtime, enq_flags);
	} else {
		maybe_other = true;
		scx_bpf_dsq_insert_vtime(p, DSQ_OTHER, slice_ns, vtime, enq_flags);
	}
	count_sched(CNT_OTHER);
	kick_idle(p);
}

/* How much what runs on a CPU is worth to a waking attended task. */
enum worth {
	WORTH_KEEPING,
	WORTH_LESS,	/* attended, but less unhappy */
	WORTH_NOTHING,	/* nobody waits for it */
};

static __always_inline enum worth worth_of(s32 cpu, u64 key, u64 mono)
{
	struct task_struct *curr = __COMPAT_scx_bpf_cpu_curr(cpu);
	struct standing standing;
	struct task_ctx *tctx;
	struct cpu_ctx *cctx;
	u32 zero = 0;

	/* A realtime or deadline task runs as long as it likes; what it displaced is in our queues. */
	if (!curr || curr->prio < 100)
		return WORTH_KEEPING;
	/* In partial mode, the fair class is above us. */
	if (is_partial && curr->policy != SCHED_EXT_POLICY && !(curr->flags & PF_IDLE))
		return WORTH_KEEPING;
	tctx = try_task_ctx(curr);
	if (tctx && tctx->lane == APPEASE_LANE_KERNEL && is_urgent_kthread(curr))
		return WORTH_KEEPING;
	/*
	 * One that already waits in the local queue is about to run, and has displaced the running task: then others
	 * wait their turn by their key.
	 */
	if (scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu))
		return WORTH_KEEPING;
	judge(curr, mono, &standing);
	if (standing.attended)
		return unhappiness_preempts(key, standing.key, PREEMPT_MARGIN_NS) ? WORTH_LESS : WORTH_KEEPING;
	cctx = bpf_map_lookup_percpu_elem(&cpu_ctxs, &zero, cpu);
	return cctx && cctx->turn ? WORTH_KEEPING : WORTH_NOTHING;
}

/* The CPU that does the least important work among those that @p may run on, the nearest first; -1: all do better. */
static __always_inline s32 find_victim(struct task_struct *p, u64 key, u64 mono)
{
	s32 cpu = scx_bpf_task_cpu(p), best = -1;
	enum worth worth;
	u32 i;

	worth = worth_of(cpu, key, mono);
	if (worth == WORTH_NOTHING || nr_cpus == 1)
		return worth == WORTH_KEEPING ? -1 : cpu;
	if (worth == WORTH_LESS)
		best = cpu;
	bpf_for(i, 0, nr_cpus) {
		if (i == cpu || !bpf_cpumask_test_cpu(i, p->cpus_ptr))
			continue;
		worth = worth_of(i, key, mono);
		if (worth == WORTH_NOTHING)
			return i;
		if (worth == WORTH_LESS && best < 0)
			best = i;
	}
	return best;
}

static __always_inline void enqueue_attended(struct task_struct *p, struct task_ctx *tctx,
					     const struct standing *standing, u64 mono, u64 enq_flags)
{
	u64 slice = standing->request ? slice_ns : loan_ns, key = standing->key;

	tctx->lane = APPEASE_LANE_ATTENDED;
	tctx->queued_ns = scx_bpf_now();
	count_sched(CNT_ATTENDED);
	if (enq_flags & SCX_ENQ_WAKEUP) {
		s32 cpu = find_victim(p, key, mono);

		if (cpu >= 0) {
			count_sched(CNT_PREEMPTED);
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, slice, enq_flags | SCX_ENQ_PREEMPT);
			return;
		}
	}
	/* The key stands still while it waits: one far ahead would let fresh requests pass for ever. */
	if (policy_before(mono + HORIZON_NS, key))
		key = mono + HORIZON_NS;
	maybe_attended = true;
	scx_bpf_dsq_insert_vtime(p, DSQ_ATTENDED, slice, key, enq_flags);
	kick_idle(p);
}

s32 BPF_STRUCT_OPS(appease_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle) {
		struct task_ctx *tctx = try_task_ctx(p);

		if (is_armed())
			consider_loan(p, bpf_ktime_get_ns());
		if (tctx) {
			tctx->lane = is_urgent_kthread(p) ? APPEASE_LANE_KERNEL : plain_lane(p);
			tctx->turn_ns = 0;
		}
		count_sched(CNT_DIRECT);
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, 0);
	}
	return cpu;
}

void BPF_STRUCT_OPS(appease_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *tctx = try_task_ctx(p);
	struct standing standing;

	if (!tctx) {
		/* Without a record it is still run; not from the local queue, which would go before everybody. */
		maybe_other = true;
		scx_bpf_dsq_insert_vtime(p, DSQ_OTHER, slice_ns, queue_vtime, enq_flags);
		return;
	}
	if (enq_flags & SCX_ENQ_REENQ)
		count_sched(CNT_REENQUEUED);
	if (enq_flags & SCX_ENQ_WAKEUP)
		tctx->turn_ns = 0;
	/* A kernel thread that works for longer than a slice is no longer urgent: it must not lock the others out. */
	if (is_urgent_kthread(p) && tctx->turn_ns < slice_ns) {
		enqueue_kernel(p, tctx, enq_flags);
		return;
	}
	if (is_armed()) {
		u64 mono = bpf_ktime_get_ns();

		if (enq_flags & SCX_ENQ_WAKEUP)
			consider_loan(p, mono);
		judge(p, mono, &standing);
		if (standing.attended) {
			enqueue_attended(p, tctx, &standing, mono, enq_flags);
			return;
		}
	}
	/* ops.select_cpu() is not asked about tasks that have no choice, which on one CPU is all of them. */
	if ((enq_flags & (SCX_ENQ_WAKEUP | SCX_ENQ_CPU_SELECTED)) == SCX_ENQ_WAKEUP &&
	    scx_bpf_test_and_clear_cpu_idle(scx_bpf_task_cpu(p))) {
		tctx->lane = plain_lane(p);
		count_sched(CNT_DIRECT);
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, enq_flags);
		return;
	}
	enqueue_other(p, tctx, scx_bpf_now(), enq_flags);
}

/* Starts a new epoch for this CPU when the old one is over. */
static __always_inline void turn_epoch(struct cpu_ctx *cctx, u64 now)
{
	if (now - cctx->epoch_start_ns < epoch_ns)
		return;
	cctx->epoch_start_ns = now;
	cctx->other_ns = 0;
}

static __always_inline bool take(u64 dsq, bool *maybe)
{
	if (!may_hold(maybe))
		return false;
	if (scx_bpf_dsq_move_to_local(dsq, 0))
		return true;
	if (nr_cpus == 1)
		*maybe = false;
	return false;
}

/* The next of the other lanes: whoever waited too long, then by virtual time. */
static __always_inline bool take_other(void)
{
	struct task_struct *first;

	if (take(DSQ_OVERDUE, &maybe_overdue))
		return true;
	if (may_hold(&maybe_other)) {
		first = __COMPAT_scx_bpf_dsq_peek(DSQ_OTHER);
		if (first && policy_before(queue_vtime, first->scx.dsq_vtime))
			queue_vtime = first->scx.dsq_vtime;
	}
	return take(DSQ_OTHER, &maybe_other) || take(DSQ_IDLE, &maybe_idle);
}

/* What the other lanes must get before attended work: their share of the epoch, and whoever waited too long. */
static __always_inline bool take_due(const struct cpu_ctx *cctx, u64 now)
{
	if (progress_owed(now, cctx->epoch_start_ns, epoch_ns, cctx->other_ns, other_share_pct))
		return take_other();
	return progress_overdue_fits(epoch_ns, cctx->other_ns) && take(DSQ_OVERDUE, &maybe_overdue);
}

/* Key of the first task in the attended queue if it may run on @cpu, else 0. */
static __always_inline u64 first_attended_key(s32 cpu)
{
	struct task_struct *first;

	if (!may_hold(&maybe_attended))
		return 0;
	first = __COMPAT_scx_bpf_dsq_peek(DSQ_ATTENDED);
	return first && bpf_cpumask_test_cpu(cpu, first->cpus_ptr) ? first->scx.dsq_vtime : 0;
}

void BPF_STRUCT_OPS(appease_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cpu_ctx *cctx = this_cpu_ctx();
	bool prev_runnable = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	struct task_ctx *tctx = NULL;
	struct standing standing = {};
	u64 now = scx_bpf_now(), key;

	if (!cctx)
		return;
	turn_epoch(cctx, now);
	cctx->turn = 0;
	if (prev_runnable) {
		tctx = try_task_ctx(prev);
		/* ops.stopping() comes after this: the comparisons below need the turn that just ended counted in. */
		if (tctx)
			charge(prev, tctx);
		if (is_armed())
			judge(prev, bpf_ktime_get_ns(), &standing);
	}

	key = first_attended_key(cpu);
	if (key || standing.attended) {
		if (take_due(cctx, now)) {
			cctx->turn = 1;
			count_sched(CNT_SHARE_CALLED_IN);
			return;
		}
		/* When a slice ends, its task is not queued again yet: compare, and let the unhappier one go on. */
		if (standing.attended && (!key || !unhappiness_preempts(key, standing.key, PREEMPT_MARGIN_NS))) {
			scx_bpf_task_set_slice(prev, slice_ns);
			return;
		}
	}
	/* Also when its first may not run here: others behind it may. */
	if (take(DSQ_ATTENDED, &maybe_attended))
		return;
	/* Another CPU was quicker. */
	if (standing.attended) {
		scx_bpf_task_set_slice(prev, slice_ns);
		return;
	}
	if (tctx && tctx->lane == APPEASE_LANE_OTHER && nr_cpus == 1 && !maybe_overdue && maybe_other) {
		struct task_struct *first = __COMPAT_scx_bpf_dsq_peek(DSQ_OTHER);

		if (first && policy_before(tctx->vtime, first->scx.dsq_vtime)) {
			scx_bpf_task_set_slice(prev, slice_ns);
			return;
		}
	}
	if (take_other())
		return;
	if (prev_runnable)
		scx_bpf_task_set_slice(prev, slice_ns);
}

void BPF_STRUCT_OPS(appease_stopping, struct task_struct *p, bool runnable)
{
	struct task_ctx *tctx = try_task_ctx(p);

	if (tctx)
		charge(p, tctx);
}

/*
 * A higher class takes the CPU. What it displaced, and what waits behind that, goes back to our queues: left in the
 * local one, it would run before anybody who is woken meanwhile.
 *
 * SCX_OPS_ENQ_MIGRATION_DISABLED is set for this callback: up to 6.18 the entry to a BPF program disables migration of
 * the current task, which here is the very one that was displaced. Without the flag the kernel would take that for the
 * task's own state and leave it in the local queue, with a slice of 20 ms.
 */
void BPF_STRUCT_OPS(appease_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	scx_bpf_reenqueue_local();
}

/* Whether a queue begins with a task that may run on @cpu. */
static __always_inline bool waits_for(s32 cpu, u64 dsq)
{
	struct task_struct *first = __COMPAT_scx_bpf_dsq_peek(dsq);

	return first && bpf_cpumask_test_cpu(cpu, first->cpus_ptr);
}

/*
 * A CPU goes idle. One that queued a task just now may have looked for an idle CPU before this one was known to be
 * idle; so this one looks once more.
 */
void BPF_STRUCT_OPS(appease_update_idle, s32 cpu, bool idle)
{
	if (idle && nr_cpus > 1 && (waits_for(cpu, DSQ_ATTENDED) || waits_for(cpu, DSQ_OTHER) ||
				    waits_for(cpu, DSQ_OVERDUE) || waits_for(cpu, DSQ_IDLE)))
		scx_bpf_kick_cpu(cpu, 0);
}

/* The queues are the machine's, not a CPU's: nothing to do. Without these two, hotplug would detach us. */
void BPF_STRUCT_OPS(appease_cpu_online, s32 cpu)
{
}

void BPF_STRUCT_OPS(appease_cpu_offline, s32 cpu)
{
}

s32 BPF_STRUCT_OPS_SLEEPABLE(appease_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!tctx)
		return -ENOMEM;
	tctx->lane = APPEASE_LANE_OTHER;
	return 0;
}

void BPF_STRUCT_OPS(appease_enable, struct task_struct *p)
{
	struct task_ctx *tctx = try_task_ctx(p);

	if (!tctx)
		return;
	tctx->ran_ns = p->se.sum_exec_runtime;
	tctx->vtime = queue_vtime;
}

void BPF_STRUCT_OPS(appease_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct task_ctx *tctx = try_task_ctx(p);
	struct appease_command *command, fresh = {};
	char comm[APPEASE_COMM_LEN];
	u32 lane;

	if (!tctx || args->cancelled)
		return;
	bpf_probe_read_kernel(comm, sizeof(comm), p->comm);
	command = bpf_map_lookup_elem(&commands, comm);
	if (!command) {
		bpf_map_update_elem(&commands, comm, &fresh, BPF_NOEXIST);
		command = bpf_map_lookup_elem(&commands, comm);
		if (!command)
			return;
	}
	for (lane = 0; lane < APPEASE_NR_LANES; lane++)
		__sync_fetch_and_add(&command->lane_ns[lane], tctx->lane_ns[lane]);
}

/* Moves the tasks of a queue that waited too long to the overdue ones. */
static __always_inline void scan(u64 dsq, u64 now)
{
	struct task_struct *p;
	u32 seen = 0;

	bpf_for_each(scx_dsq, p, dsq, 0) {
		struct task_ctx *tctx = try_task_ctx(p);

		if (tctx && policy_before(tctx->queued_ns + longest_wait_ns, now) &&
		    scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, DSQ_OVERDUE, 0)) {
			maybe_overdue = true;
			count_sched(CNT_OVERDUE);
		}
		if (++seen >= SCAN_MAX)
			break;
	}
}

static int scan_queues(void *map, int *key, struct bpf_timer *timer)
{
	u64 now = scx_bpf_now();

	/* An attended task waits that long only when it was outranked, or its attention ended while it waited. */
	if (may_hold(&maybe_attended))
		scan(DSQ_ATTENDED, now);
	if (may_hold(&maybe_other))
		scan(DSQ_OTHER, now);
	if (may_hold(&maybe_idle))
		scan(DSQ_IDLE, now);
	bpf_timer_start(timer, SCAN_NS, 0);
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(appease_init)
{
	struct timer *timer;
	u32 zero = 0;
	s32 err;

	if ((err = scx_bpf_create_dsq(DSQ_ATTENDED, -1)) || (err = scx_bpf_create_dsq(DSQ_OTHER, -1)) ||
	    (err = scx_bpf_create_dsq(DSQ_IDLE, -1)) || (err = scx_bpf_create_dsq(DSQ_OVERDUE, -1)))
		return err;
	timer = bpf_map_lookup_elem(&timers, &zero);
	if (!timer)
		return -ENOENT;
	bpf_timer_init(&timer->timer, &timers, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&timer->timer, scan_queues);
	return bpf_timer_start(&timer->timer, SCAN_NS, 0);
}

void BPF_STRUCT_OPS(appease_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SCX_OPS_DEFINE(appease_ops,
	       .select_cpu	= (void *)appease_select_cpu,
	       .enqueue		= (void *)appease_enqueue,
	       .dispatch	= (void *)appease_dispatch,
	       .stopping	= (void *)appease_stopping,
	       .cpu_release	= (void *)appease_cpu_release,
	       .update_idle	= (void *)appease_update_idle,
	       .cpu_online	= (void *)appease_cpu_online,
	       .cpu_offline	= (void *)appease_cpu_offline,
	       .init_task	= (void *)appease_init_task,
	       .enable		= (void *)appease_enable,
	       .exit_task	= (void *)appease_exit_task,
	       .init		= (void *)appease_init,
	       .exit		= (void *)appease_exit,
	       .flags		= SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED | SCX_OPS_KEEP_BUILTIN_IDLE,
	       .name		= "appease");
