/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The lanes: which one a task belongs in, what its CPU time is charged to, and how it is queued there.
 *
 * Two clocks: attention records carry CLOCK_MONOTONIC ("mono"), as user space reads them; queues and epochs use the
 * cheaper clock of the run queues ("now"). Never compare one with the other.
 */
#ifndef APPEASE_LANES_BPF_H
#define APPEASE_LANES_BPF_H

#include "fair.bpf.h"
#include "groups.bpf.h"

#define MAX_RT_PRIO 100
#define SCHED_BATCH_POLICY 3
#define SCHED_IDLE_POLICY 5
#define SCHED_EXT_POLICY 7

/* Beside those of fair.bpf.h. */
#define DSQ_OTHER 2
#define DSQ_IDLE 3
#define DSQ_OVERDUE 4
#define DSQ_BACKGROUND 5

/* How often tasks are looked for that waited too long. */
#define SCAN_NS 100000000ULL
/* Most tasks that one look goes through. */
#define SCAN_MAX 1024

/* How often a CPU's timer looks whether realtime work is over. */
#define RETRY_NS 20000ULL

/* A kernel thread that works longer than this is batch work; from one slice on it takes turns with attended tasks. */
#define KTHREAD_PATIENCE_NS 50000000ULL

/* One whose turns are as long as that, on the average, does not work for a moment only: nobody who is served shall wait for all of it. */
#define KTHREAD_LONG_NS 500000ULL

/* A background kernel thread that slept for longer begins anew: it holds no lock. */
#define KTHREAD_PAUSE_NS 10000000ULL

/* Slices end at ticks: so much later at most. */
#define LONGEST_TICK_NS 10000000ULL

/* So many requests it takes until a task is no longer taken for what it was seen to be. */
#define HABIT_TURNS 16

/* Equals do not take the CPU from each other for less. */
#define PREEMPT_MARGIN_NS 200000ULL

const volatile u64 slice_ns = 3000000ULL;
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
	u64 vtime;	/* in the other lanes; p->scx.dsq_vtime is the key in whatever queue it was last in */
	u64 woken_for;	/* request of who woke it up last; 0: none */
	u64 turn_request;	/* which request it served when that was looked at last; 0: none */
	u32 turn_for;	/* customer who pays for its turns; 0: nobody has to share */
	u32 customer;	/* whose event woke it up last; 0: not known */
	u32 lane;	/* in which it was queued last */
	u32 group;	/* cgroup whose weight counts; 0: the root */
	u32 sections;	/* so often in a row it went first to leave a program, see sections.bpf.h */
	u32 mistaken;	/* so many more requests that it reads must be of who woke it, until that is believed again */
	u32 mixing;	/* and so many one after the other, until it serves one at a time again */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

struct cpu_ctx {
	u64 lane_ns[APPEASE_NR_LANES];	/* CPU time since the scheduler was attached; first, user space reads it */
	u64 epoch_start_ns;
	u64 share_ns;	/* what the other lanes must get of this epoch */
	u64 other_ns;	/* what they got */
	u64 unpaid_ns;	/* of that, since somebody attended last waited for their turn */
	u64 overdue_until_ns;	/* until when they had what overdue tasks may take */
	u64 kernel_ns;	/* what kernel threads got */
	u64 displaced_ns;	/* when somebody in the other lane last took the CPU from another */
	u64 is_timed;	/* what runs is to end by the CPU's timer */
	u64 releases;	/* ops.cpu_release() is at work: its programs count as the displaced task's */
	u64 turn;	/* the other lane is at its guaranteed turn: only modest customers displace it */
	/* Policy cas: the unhappiest of those who wait, in this look at the queue. */
	s64 best;	/* U of its request; ns */
	s64 best_share;	/* its own */
	s32 best_pid;	/* 0: nobody waits */
	u32 pad;
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

/* By CPU, see end_after(); user space says how many there are. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer);
} cpu_timers SEC(".maps");

/* Clock of the other lanes, see progress_clock(); no less than the smallest virtual time in their queue. */
static u64 queue_vtime;

/*
 * Whether a queue may hold something: set before each insertion, cleared by whoever finds the queue empty. Saves the
 * look-up of an empty queue at each dispatch.
 */
static bool maybe_background, maybe_idle, maybe_overdue, maybe_other;

/*
 * On one CPU: so many tasks of the other lanes may be in the local queue, put there because nobody else waited. Attended
 * tasks go before them.
 */
static u64 plain_waiting;

/* On one CPU: the running task is being displaced by one that goes on with its turn. */
static bool gives_way;

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

static __always_inline struct cpu_ctx *this_cpu_ctx(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&cpu_ctxs, &zero);
}

static __always_inline struct cpu_ctx *cpu_ctx_of(s32 cpu)
{
	u32 zero = 0;

	return nr_cpus == 1 ? this_cpu_ctx() : bpf_map_lookup_percpu_elem(&cpu_ctxs, &zero, cpu);
}

/* Of the CPU that @p runs or waits on, which need not be this one. */
static __always_inline struct cpu_ctx *cpu_ctx_of_task(struct task_struct *p)
{
	return cpu_ctx_of(nr_cpus == 1 ? 0 : scx_bpf_task_cpu(p));
}

static int end_run(void *map, int *cpu, struct bpf_timer *timer)
{
	struct task_struct *curr = __COMPAT_scx_bpf_cpu_curr(*cpu);
	struct cpu_ctx *cctx = cpu_ctx_of(*cpu);

	if (!cctx || !cctx->is_timed)
		return 0;
	/* It has not begun: realtime work is before it. */
	if (curr && curr->prio < MAX_RT_PRIO) {
		bpf_timer_start(timer, RETRY_NS, 0);
		return 0;
	}
	cctx->is_timed = 0;
	scx_bpf_kick_cpu(*cpu, SCX_KICK_PREEMPT);
	return 0;
}

/* What runs on @cpu, or is about to, has @ns, whatever its slice, which ends at a tick; false if that cannot be. */
static __always_inline bool end_after(u32 cpu, u64 ns)
{
	struct timer *timer = bpf_map_lookup_elem(&cpu_timers, &cpu);
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	if (!timer || !cctx)
		return false;
	cctx->is_timed = 1;
	return !bpf_timer_start(&timer->timer, ns, 0);
}

static __always_inline s32 init_cpu_timers(void)
{
	struct timer *timer;
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		u32 cpu = i;

		timer = bpf_map_lookup_elem(&cpu_timers, &cpu);
		if (!timer)
			return -ENOENT;
		bpf_timer_init(&timer->timer, &cpu_timers, CLOCK_MONOTONIC);
		bpf_timer_set_callback(&timer->timer, end_run);
	}
	return 0;
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
	bool on_loan;	/* attended by that alone */
	bool is_new;	/* policy cas: by being a new process */
	bool helps;	/* another thread of its process read the request */
	bool is_free;	/* such a one that reads requests itself, and has answered its last one */
};

/* Policy rsio: so much sooner goes a handler for each step of its nice value. */
#define NICE_STEP_NS 5000000ULL

/*
 * Policy rsio: a handler or cohandler has the paper's bonus (section 5), which here is the lane; among those of one nice
 * value, first come first served.
 */
static __always_inline void judge_handler(struct task_struct *p, u64 mono, struct standing *standing)
{
	u32 tgid = p->tgid;
	struct appease_handler *handler = bpf_map_lookup_elem(&handlers, &tgid);
	struct appease_process *process;

	standing->attended = handler && is_handling(handler, mono);
	if (!standing->attended) {
		process = try_process(p);
		standing->attended = process && policy_before(mono, process->lift.until_ns);
	}
	if (standing->attended)
		standing->key = mono + (s64)(p->static_prio - DEFAULT_PRIO) * (s64)NICE_STEP_NS;
}

/* Policy cas: a new process has a start among the unhappy. */
static __always_inline void judge_newcomer(struct task_struct *p, u64 mono, struct standing *standing)
{
	struct task_ctx *tctx = policy == APPEASE_POLICY_CAS ? try_task_ctx(p) : NULL;

	if (!tctx || !tctx->start_ns)
		return;
	standing->attended = standing->is_new = true;
	standing->key = mono - share_of_newcomer(tctx->made_ns, SHARE_START_NS - tctx->start_ns, mono);
}

/*
 * A server's threads that did not read the request themselves come so much later than the one that did: they clean up behind it, most
 * of them, and it sleeps when it needs them.
 */
#define HELPER_NS HORIZON_NS

/* The request that @p serves: what it read itself, else its process's. Sets @standing's request and key. */
static __always_inline void judge_request(struct task_struct *p, struct appease_process *process, u64 mono,
					  struct standing *standing)
{
	struct appease_thread *thread = try_thread(p);
	struct appease_request *request = thread ? try_lookup_request(&thread->attention, mono) : NULL;

	if (!request) {
		request = try_served_by(process, mono);
		standing->helps = request && p->signal->nr_threads > 1 && request->reader_tgid == p->tgid &&
				  request->channel == APPEASE_CHANNEL_INET;
		standing->is_free = standing->helps && thread;
	}
	standing->request = request;
	if (request)
		standing->key = request_key(request, mono) + (standing->helps ? HELPER_NS : 0);
}

static __always_inline void judge(struct task_struct *p, u64 mono, struct standing *standing)
{
	struct appease_process *process;

	standing->process = NULL;
	standing->request = NULL;
	standing->attended = false;
	standing->on_loan = false;
	standing->is_new = false;
	standing->helps = false;
	standing->is_free = false;
	standing->key = 0;
	if (policy == APPEASE_POLICY_RSIO) {
		judge_handler(p, mono, standing);
		return;
	}
	process = try_process(p);
	if (!process) {
		judge_newcomer(p, mono, standing);
		return;
	}
	standing->process = process;
	judge_request(p, process, mono, standing);
	if (standing->request) {
		standing->attended = true;
	} else if (has_loan(process, mono)) {
		standing->attended = true;
		standing->on_loan = true;
		standing->key = loan_key(process, mono);
	} else {
		judge_newcomer(p, mono, standing);
	}
}

/*
 * @p wakes up: a request that it has answered is over, for what wakes it is something else. Before it may be lent a turn for
 * that. Of several threads, the one that read it: what the others do after the answer, a database's writing for one, is often
 * in the way of the next request, which cannot fetch them from the other lane's queue.
 */
static __always_inline void end_answered(struct task_struct *p, u64 mono)
{
	struct appease_request *request = NULL;
	struct appease_process *process;
	struct appease_thread *thread;

	if (policy == APPEASE_POLICY_RSIO)
		return;
	if (p->signal->nr_threads > 1) {
		thread = try_thread(p);
		if (thread)
			request = try_unexpired(&thread->attention, mono);
	} else {
		process = try_process(p);
		if (process)
			request = try_unexpired(&process->attention, mono);
	}
	if (request)
		ends_at_wakeup(request, mono);
}

/* Whether @process served somebody until a short while ago, and has not spent its budget on it. */
static __always_inline bool is_retained(const struct appease_process *process, u64 mono)
{
	const struct appease_attention *attention = &process->attention;
	struct appease_request *request;

	if (!attention->request_id || policy_before(mono, attention->until_ns) ||
	    !policy_before(mono, attention->until_ns + retention_ns - attention_ns))
		return false;
	request = try_request(attention->slot, attention->request_id);
	return request && !is_spent(request);
}

/*
 * @p has come to @request. Was it of who woke it up? And had it read that one before others? A proxy does, when the answer comes from
 * whom it asked: what it does next is for any of its customers.
 */
static __always_inline void note_habits(const struct task_struct *p, struct task_ctx *tctx, const struct appease_request *request)
{
	if (tctx->customer && tctx->customer != request->customer)
		tctx->mistaken = HABIT_TURNS;
	else if (tctx->mistaken)
		tctx->mistaken--;
	if (request->reader_tgid == p->tgid && request->id < tctx->turn_request)
		tctx->mixing = HABIT_TURNS;
	else if (tctx->mixing)
		tctx->mixing--;
}

/*
 * Who pays for the turn of a task with @standing: the customer whose request it has read since the last look, for a busy server's process
 * need not sleep between two requests; or who woke it up, if it @wakes_up. For a turn of who serves several at once nobody pays: it
 * would make all of them wait for that one's turn.
 *
 * Of workers that wait for the next connection together, one woken by one customer's may come upon another's: those were woken before,
 * and wait for their turns behind that one. Until such a worker has read, which is soon, nobody pays for it. Nor for a thread of a pool
 * that another one of its process gives something to do: that one reads only next, and for whom.
 */
static __always_inline void note_turn(const struct task_struct *p, struct task_ctx *tctx, const struct standing *standing,
				      bool wakes_up)
{
	const struct appease_request *request = standing->request;
	u64 id = request ? request->id : 0;

	if (request && id != tctx->turn_request && !wakes_up)
		note_habits(p, tctx, request);
	if (wakes_up && tctx->customer)
		tctx->turn_for = tctx->mistaken && (!id || id != tctx->woken_for) ? 0 : if_shares(tctx->customer);
	else if (request && (wakes_up || id != tctx->turn_request))
		tctx->turn_for = if_shares(request->customer);
	else if (wakes_up)
		tctx->turn_for = 0;
	if (tctx->mixing || (wakes_up && standing->is_free))
		tctx->turn_for = 0;
	tctx->turn_request = id;
}

/*
 * The current task wakes @p: does it hand something on to it? Gives a loan to known readers of channels that an input
 * event wakes, to whoever is woken by an attended write, and to processes that served a request a short while ago.
 */
static __always_inline void consider_loan(struct task_struct *p, struct task_ctx *tctx, u64 mono)
{
	struct handing *handing = this_handing();
	struct appease_process *process;
	u32 weight = POLICY_WEIGHT_DEFAULT;
	u64 opened_ns = mono;

	if (tctx)
		tctx->customer = tctx->woken_for = 0;
	if (policy == APPEASE_POLICY_RSIO || !handing)
		return;
	process = try_process(p);
	if (handing->pid == (u32)bpf_get_current_pid_tgid() && mono - handing->at_ns < HANDING_NS) {
		if (tctx) {
			tctx->customer = handing->customer;
			tctx->woken_for = handing->request_id;
		}
		if (handing->request_id) {
			opened_ns = handing->opened_ns;
			weight = handing->weight;
			if (!process)
				process = bpf_task_storage_get(&processes, p->group_leader, 0,
							       BPF_LOCAL_STORAGE_GET_F_CREATE);
			if (!process) {
				count(APPEASE_CNT_STORAGE_FAILED);
				return;
			}
			goto grant;
		}
		if (handing->is_new && !process)
			process = bpf_task_storage_get(&processes, p->group_leader, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (process && (handing->is_new || process->channel_read_ns))
			goto grant;
	}
	if (!process || !is_retained(process, mono))
		return;
grant:
	if (process->attention.request_id && try_lookup_request(&process->attention, mono))
		return;
	lend(process, opened_ns, weight, mono);
}

/*
 * Weight of @p by its nice value. A kernel thread has no less than others: khugepaged, at nice 19, works on the memory of a program, which
 * cannot have a page meanwhile, and would with a sixty-eighth of what others have be at it for long.
 */
static __always_inline u32 weight_of(const struct task_struct *p)
{
	u32 weight = progress_weight(p->static_prio - DEFAULT_PRIO);

	return is_kthread(p) && weight < PROGRESS_WEIGHT_0 ? PROGRESS_WEIGHT_0 : weight;
}

/* What @ran adds to @p's virtual time, ns. */
static __always_inline u64 vtime_for(const struct task_struct *p, const struct task_ctx *tctx, u64 ran)
{
	u32 weight = weight_of(p);
	u64 charge = progress_charge(ran, weight);

	return tctx->group ? charge_in_group(tctx->group, weight, charge) : charge;
}

/* When a task should have what it is likely to want now, in virtual time. */
static __always_inline u64 deadline_of(const struct task_ctx *tctx)
{
	return progress_deadline(tctx->vtime, tctx->burst_ns, slice_ns);
}

/* A new turn begins with a wake-up. */
static __always_inline void begin_turn(struct task_ctx *tctx)
{
	tctx->burst_ns = progress_burst(tctx->burst_ns, tctx->turn_ns);
	tctx->turn_ns = 0;
}

/* Charges the request that @p serves, or the loan or the start that it runs on; false if it has none. */
static __always_inline bool charge_attended(struct task_struct *p, struct task_ctx *tctx, u64 ran)
{
	u64 mono = bpf_ktime_get_ns();
	struct standing standing;

	judge(p, mono, &standing);
	if (standing.attended) {
		note_turn(p, tctx, &standing, false);
		charge_fairly(tctx->turn_for, ran);
	}
	if (standing.is_new)
		tctx->start_ns -= ran < tctx->start_ns ? ran : tctx->start_ns;
	if (standing.request) {
		charge_request(standing.request, ran, mono);
		if (policy == APPEASE_POLICY_CAS && standing.process->share_of == standing.request->id)
			standing.process->share_ns -= ran;
	} else if (standing.on_loan) {
		standing.process->loan_ran_ns += ran;
		standing.process->loan_debt_ns += ran;
		if (standing.process->loan_ran_ns >= loan_ns)
			standing.process->loan_until_ns = 0;
	}
	return standing.attended;
}

/* Whether the request that @p served last is over. */
static __always_inline bool is_done(struct task_struct *p, const struct appease_process *process)
{
	const struct appease_thread *thread = try_thread(p);
	const struct appease_attention *attention = thread && thread->attention.request_id ? &thread->attention :
											     &process->attention;

	return attention->request_id && !try_request(attention->slot, attention->request_id);
}

/*
 * @p was attended until now, or waited so for its turn. Where its request was answered meanwhile, by itself or by whom it answered, or
 * its loan had its time, it is lent a turn, once: to put away what it needed and to come back for the next request, which may be
 * waiting. That is for whoever is next, so no customer pays.
 */
static __always_inline bool borrows_turn(struct task_struct *p, struct task_ctx *tctx, u64 waited)
{
	struct appease_process *process;
	u64 mono;

	if (policy == APPEASE_POLICY_RSIO)
		return false;
	process = try_process(p);
	if (!process || (waited < slice_ns && (tctx->turn_request == 0 || !is_done(p, process))))
		return false;
	mono = bpf_ktime_get_ns();
	lend(process, mono, POLICY_WEIGHT_DEFAULT, mono);
	tctx->turn_request = 0;
	tctx->turn_for = 0;
	return has_loan(process, mono);
}

/*
 * Charges @p for the CPU time since it was last looked at: whenever a CPU looks for its next task after it, and when it is
 * queued. There is no ops.stopping(), which would cost each switch a call. So on one CPU a task may have run for long
 * unseen, by turns with another, while nobody else wanted the CPU and nobody was served: what is beyond one turn is
 * counted in its lane, but held against nobody. Without @is_alive, in the lane that it was last known in: its process may
 * be gone.
 */
static __always_inline void charge(struct task_struct *p, struct task_ctx *tctx, bool is_alive)
{
	u64 total = p->se.sum_exec_runtime, ran = total - tctx->ran_ns, unseen = 0;
	u32 lane = tctx->lane;
	struct cpu_ctx *cctx;

	if (!ran)
		return;
	tctx->ran_ns = total;
	if (nr_cpus == 1 && lane != APPEASE_LANE_KERNEL && ran > slice_ns + LONGEST_TICK_NS) {
		unseen = ran - slice_ns - LONGEST_TICK_NS;
		ran -= unseen;
	}
	tctx->turn_ns += ran;
	if (lane != APPEASE_LANE_KERNEL && is_alive) {
		u64 waited = tctx->queued_ns ? scx_bpf_now() - tctx->queued_ns - ran : 0;
		bool was_attended = lane == APPEASE_LANE_ATTENDED;

		/* It may have read in the middle of its turn, or its attention may have ended. */
		lane = is_armed() && (charge_attended(p, tctx, ran) || (was_attended && borrows_turn(p, tctx, waited))) ?
			       APPEASE_LANE_ATTENDED :
			       plain_lane(p);
		tctx->lane = lane;
		tctx->queued_ns = 0;
	}
	cctx = cpu_ctx_of_task(p);
	if (!cctx || lane >= APPEASE_NR_LANES)
		return;
	/* A turn of the other lanes is one also if somebody is attended by its end. */
	if (lane >= APPEASE_LANE_OTHER || cctx->turn) {
		cctx->other_ns += ran;
		cctx->unpaid_ns += ran;
	}
	if (lane >= APPEASE_LANE_OTHER) {
		if (lane == APPEASE_LANE_OTHER)
			queue_vtime = progress_clock(queue_vtime, tctx->vtime, ran);
		tctx->vtime += vtime_for(p, tctx, ran);
	} else if (lane == APPEASE_LANE_KERNEL) {
		cctx->kernel_ns += ran;
	}
	tctx->lane_ns[lane] += ran;
	cctx->lane_ns[lane] += ran;
	if (unseen)
		lane = plain_lane(p);
	tctx->lane_ns[lane] += unseen;
	cctx->lane_ns[lane] += unseen;
}

/*
 * Whether the kernel thread @p works at length: it makes pictures, say, or reclaims memory. Not those that are bound to their CPUs:
 * they do what interrupts have put off, for whoever it is.
 */
static __always_inline bool works_long(const struct task_struct *p, const struct task_ctx *tctx)
{
	return tctx->burst_ns >= KTHREAD_LONG_NS && !(p->flags & PF_NO_SETAFFINITY);
}

/* Key of such a one: as of a request that was opened later, see HELPER_NS. By when it woke up, so that its turn comes. */
static __always_inline u64 key_of_long(const struct task_ctx *tctx)
{
	return tctx->asked_ns + HELPER_NS;
}

/*
 * Whether @p is a kernel thread that goes first: it works for a moment, and such work does not take up the CPU. Where it
 * does, a wake-up would never leave the local queue empty, and nobody else would ever be dispatched.
 */
static __always_inline bool goes_first(struct task_struct *p, const struct task_ctx *tctx)
{
	struct cpu_ctx *cctx;

	if (tctx->turn_ns >= slice_ns)
		return false;
	cctx = cpu_ctx_of_task(p);
	return cctx && progress_kernel_fits(epoch_ns, cctx->kernel_ns);
}

/* Queues the kernel thread @p before everything else on its CPU; one that runs there, and goes first too, is not displaced. */
static __always_inline void enqueue_first(struct task_struct *p, u64 enq_flags)
{
	struct task_struct *curr = __COMPAT_scx_bpf_cpu_curr(scx_bpf_task_cpu(p));
	struct task_ctx *tctx = curr && is_kthread(curr) ? try_task_ctx(curr) : NULL;

	if (!curr || !is_kthread(curr) || (tctx && works_long(curr, tctx)))
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

/* Whether an attended task in @queue with @key takes the CPU from another one. */
static __always_inline bool displaces(u32 queue, u64 key, u32 running_queue, u64 running_key)
{
	if (queue == running_queue)
		return unhappiness_preempts(key, running_key, PREEMPT_MARGIN_NS);
	return fairness_preempts(fair_vtimes[queue % FAIR_QUEUES], fair_vtimes[running_queue % FAIR_QUEUES]);
}

/* How much what runs on a CPU is worth to a waking attended task. */
enum worth {
	WORTH_KEEPING,
	WORTH_LESS,	/* attended, but less unhappy */
	WORTH_NOTHING,	/* nobody waits for it */
};

static __always_inline enum worth worth_of(s32 cpu, u32 queue, u64 key, u64 mono)
{
	struct task_struct *curr = __COMPAT_scx_bpf_cpu_curr(cpu);
	struct standing standing;
	struct task_ctx *tctx;
	struct cpu_ctx *cctx;
	bool is_kernel;
	s32 waiting;

	/* A realtime or deadline task runs as long as it likes; what it displaced is in our queues. */
	if (!curr || curr->prio < MAX_RT_PRIO)
		return WORTH_KEEPING;
	/* In partial mode, the fair class is above us. */
	if (is_partial && curr->policy != SCHED_EXT_POLICY && !(curr->flags & PF_IDLE))
		return WORTH_KEEPING;
	tctx = try_task_ctx(curr);
	is_kernel = is_kthread(curr) && !is_background(curr) && tctx && tctx->lane == APPEASE_LANE_KERNEL;
	if (is_kernel && !works_long(curr, tctx))
		return WORTH_KEEPING;
	/*
	 * One that already waits in the local queue is about to run, and has displaced the running task: then others
	 * wait their turn by their key.
	 */
	waiting = scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu);
	if (waiting < plain_waiting)
		plain_waiting = waiting;
	if (waiting > plain_waiting)
		return WORTH_KEEPING;
	judge(curr, mono, &standing);
	if (is_kernel && !standing.attended) {
		standing.attended = true;
		standing.key = key_of_long(tctx);
	}
	if (standing.attended)
		return displaces(queue, key, fair_queue_of(tctx ? tctx->turn_for : 0), standing.key) ? WORTH_LESS : WORTH_KEEPING;
	cctx = cpu_ctx_of(cpu);
	return cctx && cctx->turn && !is_modest(queue) ? WORTH_KEEPING : WORTH_NOTHING;
}

/* The CPU that does the least important work among those that @p may run on, the nearest first; -1: all do better. */
static __always_inline s32 find_victim(struct task_struct *p, u32 queue, u64 key, u64 mono)
{
	s32 cpu = scx_bpf_task_cpu(p), best = -1;
	const struct cpumask *online;
	enum worth worth;
	u32 i;

	worth = worth_of(cpu, queue, key, mono);
	if (worth == WORTH_NOTHING || nr_cpus == 1)
		return worth == WORTH_KEEPING ? -1 : cpu;
	if (worth == WORTH_LESS)
		best = cpu;
	online = scx_bpf_get_online_cpumask();
	bpf_for(i, 0, nr_cpus) {
		if (i == cpu || !bpf_cpumask_test_cpu(i, p->cpus_ptr) || !bpf_cpumask_test_cpu(i, online))
			continue;
		worth = worth_of(i, queue, key, mono);
		if (worth == WORTH_LESS && best < 0)
			best = i;
		if (worth == WORTH_NOTHING) {
			best = i;
			break;
		}
	}
	scx_bpf_put_cpumask(online);
	return best;
}

/* The key stands still while it waits. */
static __always_inline u64 key_in_queue(u64 key, u64 mono)
{
	return policy_before(mono + LATEST_NS, key) ? mono + LATEST_NS : key;
}

/* Queues @p by @key; if it @may_displace, on the CPU of a task that is worth less. */
static __always_inline void enqueue_by_key(struct task_struct *p, struct task_ctx *tctx, u64 key, u64 slice, u64 mono,
					   bool may_displace, u64 enq_flags)
{
	u32 queue = fair_queue_of(tctx->turn_for);

	tctx->queued_ns = scx_bpf_now();
	fair_queue_fills(queue);
	if (may_displace) {
		s32 cpu = find_victim(p, queue, key, mono);

		if (cpu >= 0) {
			struct cpu_ctx *cctx = cpu_ctx_of(cpu);

			/* What a modest customer has in place of the other lane's turn is not the other lane's. */
			if (cctx)
				cctx->turn = 0;
			count_sched(CNT_PREEMPTED);
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, slice, enq_flags | SCX_ENQ_PREEMPT);
			return;
		}
	}
	scx_bpf_dsq_insert_vtime(p, DSQ_ATTENDED + queue, slice, key, enq_flags);
	kick_idle(p);
}

static __always_inline void enqueue_attended(struct task_struct *p, struct task_ctx *tctx,
					     const struct standing *standing, u64 mono, u64 enq_flags)
{
	tctx->lane = APPEASE_LANE_ATTENDED;
	count_sched(CNT_ATTENDED);
	note_turn(p, tctx, standing, enq_flags & SCX_ENQ_WAKEUP);
	enqueue_by_key(p, tctx, key_in_queue(standing->key, mono), standing->on_loan ? loan_ns : slice_ns, mono,
		       enq_flags & SCX_ENQ_WAKEUP, enq_flags);
}

/*
 * Queues a kernel thread: before everything else, or among the attended tasks as if its work had been asked for now; one that works
 * at length a little later. A background one that begins anew waits while somebody is served, see appease_dispatch(); unless an
 * attended task waits for it.
 */
static __always_inline void enqueue_kernel(struct task_struct *p, struct task_ctx *tctx, u64 enq_flags)
{
	bool fits = goes_first(p, tctx), background = is_background(p);
	bool is_long = !background && works_long(p, tctx);
	struct standing standing;
	u64 mono, key;

	tctx->lane = APPEASE_LANE_KERNEL;
	if (fits && !is_long && !background) {
		enqueue_first(p, enq_flags);
		return;
	}
	key = mono = bpf_ktime_get_ns();
	if (enq_flags & SCX_ENQ_WAKEUP)
		tctx->asked_ns = mono;
	if (fits && is_long)
		key = key_of_long(tctx);
	if (background && is_armed()) {
		u64 now = scx_bpf_now();

		judge(p, mono, &standing);
		if (standing.attended) {
			key = standing.key;
		} else if (enq_flags & SCX_ENQ_WAKEUP && policy_before(tctx->queued_ns + KTHREAD_PAUSE_NS, now)) {
			tctx->queued_ns = now;
			maybe_background = true;
			scx_bpf_dsq_insert(p, DSQ_BACKGROUND, slice_ns, enq_flags);
			kick_idle(p);
			return;
		}
	}
	enqueue_by_key(p, tctx, key_in_queue(key, mono), slice_ns, mono, fits && (enq_flags & SCX_ENQ_WAKEUP), enq_flags);
}

#endif
