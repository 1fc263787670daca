/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How attended tasks and kernel threads queue up, and which CPU they take.
 */
#ifndef APPEASE_ATTENDED_BPF_H
#define APPEASE_ATTENDED_BPF_H

#include "charge.bpf.h"
#include "clock.bpf.h"
#include "policy/waker.h"

/* A kernel thread that works longer than this is batch work; from one slice on it takes turns with attended tasks. */
#define KTHREAD_PATIENCE_NS 50000000ULL

/* One whose turns are as long as that, on the average, does not work for a moment only: nobody who is served shall wait for all of it. */
#define KTHREAD_LONG_NS 500000ULL

/* A background kernel thread that slept for longer begins anew: it holds no lock. */
#define KTHREAD_PAUSE_NS 10000000ULL

/* Equals do not take the CPU from each other for less. */
#define PREEMPT_MARGIN_NS 200000ULL

/*
 * Whether the kernel thread @p works for its CPU alone. All workers of workqueues refuse another affinity, but those of a pool that has no CPU
 * run anywhere: they encrypt a disk, say, or write files back.
 */
static __always_inline bool is_bound(const struct task_struct *p)
{
	struct worker *worker;

	if (!(p->flags & PF_NO_SETAFFINITY))
		return false;
	if (!(p->flags & PF_WQ_WORKER))
		return true;
	worker = (struct worker *)BPF_CORE_READ((struct kthread *)p->worker_private, data);
	return BPF_CORE_READ(worker, pool, cpu) >= 0;
}

/*
 * Whether the kernel thread @p works at length: it makes pictures, say, or reclaims memory. Not those that are bound to their CPUs:
 * they do what interrupts have put off, for whoever it is.
 */
static __always_inline bool works_long(const struct task_struct *p, const struct task_ctx *tctx)
{
	return tctx->burst_ns >= KTHREAD_LONG_NS && !is_bound(p);
}

/*
 * Key of such a one: as of a request that was opened later, see HELPER_NS. By when it was queued, so that its turn comes. Not by when it
 * woke up: one that encrypts a disk does not sleep for 50 ms, and would so go before each key.
 */
static __always_inline u64 key_of_long(const struct task_ctx *tctx)
{
	return tctx->asked_ns + HELPER_NS;
}

/*
 * Whether the kernel thread of @tctx goes first on the CPU of @cctx: it works for a moment, and such work does not take up the
 * CPU. Where it does, a wake-up would never leave the local queue empty, and nobody else would ever be dispatched.
 */
static __always_inline bool goes_first(const struct task_ctx *tctx, const struct cpu_ctx *cctx)
{
	return tctx->turn_ns < slice_ns && progress_kernel_fits(epoch_ns, cctx->kernel_ns);
}

/*
 * For so long a kernel thread that goes first lets attended tasks pass that are woken after it, ns. Work that the kernel put off
 * comes with most input: each message on the way of a key would wait for it.
 */
#define KTHREAD_PASSED_NS PROGRESS_PIECE_NS

/*
 * Queues the kernel thread @p before everything else on its CPU, that of @cctx; one that runs there, and goes first too, is not
 * displaced. While somebody is served it waits for that one in a queue of the CPU's, which attended tasks may pass.
 */
static __always_inline void enqueue_first(struct task_struct *p, struct cpu_ctx *cctx, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct task_struct *curr = curr_of(cpu);
	struct task_ctx *tctx = curr && is_kthread(curr) ? try_task_ctx(curr) : NULL;
	bool displaces = !curr || !is_kthread(curr) || (tctx && works_long(curr, tctx));

	if (is_serving() && enq_flags & SCX_ENQ_WAKEUP && curr && !(curr->flags & PF_IDLE) && (!displaces || curr->prio < MAX_RT_PRIO)) {
		if (!cctx->kernel_waiting++)
			cctx->kernel_since_ns = scx_bpf_now();
		scx_bpf_dsq_insert(p, queue_of_kernel(cpu), slice_ns, enq_flags);
		return;
	}
	if (displaces && curr)
		cctx->aside_pid = curr->pid;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, enq_flags | (displaces ? SCX_ENQ_PREEMPT : SCX_ENQ_HEAD));
}

/* Whether kernel threads that wait for the CPU of @cctx have let others pass for long enough. */
static __always_inline bool is_kernel_due(const struct cpu_ctx *cctx, u64 now)
{
	return cctx->kernel_waiting && now - cctx->kernel_since_ns >= KTHREAD_PASSED_NS;
}

/*
 * Takes a kernel thread that waits for @cpu, that of @cctx. If an @attended task wants the CPU, too, only one that let others
 * pass for long enough.
 */
static __always_inline bool take_kernel(s32 cpu, struct cpu_ctx *cctx, bool attended, u64 now)
{
	if (!cctx->kernel_waiting || (attended && !is_kernel_due(cctx, now)))
		return false;
	if (!scx_bpf_dsq_move_to_local(queue_of_kernel(cpu), 0)) {
		cctx->kernel_waiting = 0;
		return false;
	}
	cctx->kernel_waiting--;
	return true;
}

/* Wakes an idle CPU for @p, which was put in a queue that all CPUs share. */
__noinline int kick_idle(struct task_struct *p __arg_trusted)
{
	s32 cpu;

	if (!has_more_cpus())
		return 0;
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return 0;
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

__noinline enum worth worth_of(s32 cpu, u32 queue, u64 key, u64 mono)
{
	struct task_struct *curr = curr_of(cpu);
	struct standing *standing;
	struct task_ctx *tctx;
	struct cpu_ctx *cctx;
	bool is_kernel, is_idle;
	u64 running_key;
	s32 waiting;

	/* A realtime or deadline task runs as long as it likes; what it displaced is in our queues. */
	if (!curr || curr->prio < MAX_RT_PRIO)
		return WORTH_KEEPING;
	cctx = cpu_ctx_of(cpu);
	if (has_more_cpus() && cctx && cctx->is_called)
		return WORTH_KEEPING;
	is_idle = curr->flags & PF_IDLE;
	/* In partial mode, the fair class is above us. */
	if (is_partial && curr->policy != SCHED_EXT_POLICY && !is_idle)
		return WORTH_KEEPING;
	tctx = is_idle ? NULL : try_task_ctx(curr);
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
	if (is_idle)
		return WORTH_NOTHING;
	standing = judged(curr, mono);
	if (!standing)
		return WORTH_KEEPING;
	running_key = standing->attended || !is_kernel ? standing->key : key_of_long(tctx);
	if (standing->attended || is_kernel)
		return displaces(queue, key, fair_queue_of(tctx ? tctx->turn_for : 0), running_key) ? WORTH_LESS : WORTH_KEEPING;
	return cctx && cctx->turn && !is_modest(queue) ? WORTH_KEEPING : WORTH_NOTHING;
}

/* Looks so far, of one search. The verifier would try every value of a local variable. */
struct victim_look {
	u32 looks;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct victim_look);
} victim_looks SEC(".maps");

/* A CPU of the domain at @index that does what nobody waits for, and gives way to @p. -1: none was found. */
__noinline s32 plain_cpu_of(u32 index, struct task_struct *p __arg_trusted, u32 queue, u64 key, u64 mono)
{
	const struct cpumask *allowed = p->cpus_ptr;
	struct domain *domain = domain_at(index);
	u64 bits = domain->plain_cpus;
	struct victim_look *look;
	u32 zero = 0, i;

	look = bits ? bpf_map_lookup_elem(&victim_looks, &zero) : NULL;
	if (!look)
		return -1;
	look->looks = 0;
	bpf_for(i, 0, DOMAIN_CPUS) {
		u32 bit;
		s32 cpu;

		if (!bits || look->looks >= PLACEMENT_CPU_LOOKS)
			break;
		bit = lowest_bit(bits);
		/* The compiler looks the number up in a table of bytes, of which the verifier knows no bounds. */
		barrier_var(bit);
		cpu = domain->cpus[bit % DOMAIN_CPUS];
		bits &= bits - 1;
		if (!bpf_cpumask_test_cpu(cpu, allowed))
			continue;
		look->looks++;
		if (worth_of(cpu, queue, key, mono) == WORTH_NOTHING)
			return cpu;
	}
	return -1;
}

/* A CPU of the domain at @index that serves somebody less unhappy. -1: none was found. */
__noinline s32 lesser_cpu_of(u32 index, struct task_struct *p __arg_trusted, u32 queue, u64 key, u64 mono)
{
	const struct cpumask *allowed = p->cpus_ptr;
	struct domain *domain = domain_at(index);
	u32 i, first = domain->next_look++;

	bpf_for(i, 0, PLACEMENT_CPU_LOOKS) {
		u32 cpus = domain->nr_cpus;
		s32 cpu;

		if (i >= cpus)
			break;
		cpu = domain->cpus[placement_turn(first, i, cpus) % DOMAIN_CPUS];
		if (bpf_cpumask_test_cpu(cpu, allowed) && worth_of(cpu, queue, key, mono) == WORTH_LESS)
			return cpu;
	}
	return -1;
}

/* The same of the nearest domains; if @fast_only, of those of fast CPUs. */
static __always_inline s32 plain_cpu_near(u32 home, bool fast_only, struct task_struct *p, u32 queue, u64 key, u64 mono)
{
	s32 found = -1;
	u32 i;

	bpf_for(i, 0, PLACEMENT_DOMAIN_LOOKS) {
		u32 index = placement_near(home, i) % DOMAINS;

		if (i >= nr_domains)
			break;
		if (fast_only && !is_fast(index))
			continue;
		found = plain_cpu_of(index, p, queue, key, mono);
		if (found >= 0)
			break;
	}
	return found;
}

/*
 * The CPU that does the least important work among those that @p may run on: this one, if it shares a cache with the one where @p
 * ran, that one, others of its domain, those of other domains; -1: all do better, as far as they were looked at. What nobody waits
 * for runs here only where an interrupt or a plain task woke @p, so its data is where it ran.
 */
__noinline s32 find_victim(struct task_struct *p __arg_trusted, u32 queue, u64 key, u64 mono)
{
	s32 cpu = scx_bpf_task_cpu(p), here = bpf_get_smp_processor_id(), found;
	const struct cpumask *allowed = p->cpus_ptr;
	u32 home = domain_of(cpu);
	enum worth worth;

	if (fast_domains && !is_fast(domain_of(here))) {
		found = plain_cpu_near(home, true, p, queue, key, mono);
		if (found >= 0)
			return found;
	}
	if (here != cpu && domain_of(here) == home && bpf_cpumask_test_cpu(here, allowed) &&
	    worth_of(here, queue, key, mono) == WORTH_NOTHING)
		return here;
	worth = worth_of(cpu, queue, key, mono);
	if (worth == WORTH_NOTHING)
		return cpu;
	found = plain_cpu_near(home, false, p, queue, key, mono);
	if (found >= 0)
		return found;
	return worth == WORTH_LESS ? cpu : lesser_cpu_of(home, p, queue, key, mono);
}

/* The domain in whose queues attended tasks of @domain wait. Policy cas compares all that wait. */
static __always_inline u32 attended_domain(u32 domain)
{
	return policy == APPEASE_POLICY_CAS ? 0 : domain;
}

/* The same of those of @cpu. */
static __always_inline u32 attended_domain_of(s32 cpu)
{
	return attended_domain(domain_of(cpu));
}

/* The key stands still while it waits. */
static __always_inline u64 key_in_queue(u64 key, u64 mono)
{
	return policy_before(mono + LATEST_NS, key) ? mono + LATEST_NS : key;
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer);
} stay_timers SEC(".maps");

/* If nobody waits for the turn of @cpu, that of @cctx, any more: the CPU that was to come in its place may be called for others. */
static __always_inline bool frees_next(s32 cpu, const struct cpu_ctx *cctx)
{
	struct cpu_ctx *next;

	if (scx_bpf_dsq_nr_queued(queue_in(DSQ_ATTENDED, attended_domain_of(cpu), cctx->stays_in % FAIR_QUEUES)))
		return false;
	next = cpu_ctx_of(cctx->next_cpu);
	if (next)
		next->is_called = 0;
	return true;
}

/* An attended task was woken on @cpu, and that has not come to it: another one shall (policy/waker.h). */
static int stay_is_over(void *map, int *cpu, struct bpf_timer *timer)
{
	struct cpu_ctx *cctx = cpu_ctx_of(*cpu);
	enum stay stays;

	if (!cctx)
		return 0;
	stays = cctx->stays;
	cctx->stays = STAYS_NOBODY;
	if (stays == STAYS && !frees_next(*cpu, cctx))
		scx_bpf_kick_cpu(cctx->next_cpu, SCX_KICK_PREEMPT);
	return 0;
}

__noinline s32 init_stay_timer(u32 cpu)
{
	return ready_timer(stay_timers, cpu, stay_is_over);
}

/*
 * @cpu, that of @cctx, has looked, and mostly come to the task. Freed by the timer alone, the CPU that was to come in its place counts as called
 * until then, and the next hop of a key, which goes to another CPU at once, goes to another cache.
 */
static __always_inline void settle_stay(s32 cpu, struct cpu_ctx *cctx)
{
	if (has_more_cpus() && cctx->stays == STAYS && frees_next(cpu, cctx))
		cctx->stays = STAYED;
}

/* Whether this CPU, that of @cctx, has a turn to give to @p, which was woken here. One at a time. */
static __always_inline bool has_turn_for(const struct cpu_ctx *cctx, struct task_struct *p)
{
	return cctx && !cctx->stays && bpf_cpumask_test_cpu(bpf_get_smp_processor_id(), p->cpus_ptr);
}

/*
 * The domain in which @p waits for @victim: that one's, unless @p was woken where its data is, and this CPU has a turn to give, see call().
 * Then it may be free sooner than the data would get to another cache.
 */
static __always_inline u32 waits_in(struct task_struct *p, s32 victim)
{
	u32 home = domain_of(scx_bpf_task_cpu(p));

	if (victim < 0 || (!fast_domains && domain_here() == home && has_turn_for(this_cpu_ctx(), p)))
		return home;
	return domain_of(victim);
}

/* From kernel headers: hard interrupts in the preemption count. */
#define HARDIRQ_MASK 0xf0000
extern const int __preempt_count __ksym __weak;

/* Whether this is an interrupt, or idle: the current task wakes nothing. */
__noinline bool is_interrupt(void)
{
	if (bpf_get_current_task_btf()->flags & PF_IDLE)
		return true;
	return bpf_ksym_exists(&__preempt_count) && *(const int *)bpf_this_cpu_ptr(&__preempt_count) & HARDIRQ_MASK;
}

/* For how long one that the current task wakes waits for the CPU of @cctx, this one, ns; 0: not at all. */
static __always_inline u64 waits_for_waker(struct cpu_ctx *cctx)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	struct task_ctx *tctx = is_interrupt() ? NULL : try_task_ctx(waker);

	if (!tctx)
		return WAKER_STAY_NS;
	if (!cctx->woke_ns) {
		cctx->woke_ns = scx_bpf_now();
		cctx->woke_pid = waker->pid;
	}
	return waker_stay(tctx->usual_ns);
}

/* The task of @tctx and of @pid, which had the CPU of @cctx until @now, woke somebody there, and sleeps if it is not @runnable. */
static __always_inline void note_waker(struct cpu_ctx *cctx, struct task_ctx *tctx, u32 pid, u64 now, bool runnable)
{
	if (pid == cctx->woke_pid && !runnable)
		tctx->usual_ns = waker_usual(tctx->usual_ns, now - cctx->woke_ns);
	cctx->woke_ns = 0;
}

/*
 * @p waits in @queue of @domain, and @victim is to come for it; unless this CPU, which woke it, is free before that.
 */
static __always_inline void call(struct task_struct *p, u32 queue, u32 domain, s32 victim)
{
	u32 here = bpf_get_smp_processor_id();
	struct cpu_ctx *cctx = this_cpu_ctx(), *called = cpu_ctx_of(victim);
	struct timer *timer = bpf_map_lookup_elem(&stay_timers, &here);
	u64 stay_ns;

	if (called)
		called->is_called = 1;
	if (timer && domain_of(here) == domain && has_turn_for(cctx, p) && (stay_ns = waits_for_waker(cctx))) {
		cctx->stays = STAYS;
		cctx->stays_in = queue;
		cctx->next_cpu = victim;
		if (!bpf_timer_start(&timer->timer, stay_ns, 0))
			return;
		cctx->stays = STAYS_NOBODY;
	}
	scx_bpf_kick_cpu(victim, SCX_KICK_PREEMPT);
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer);
} compare_timers SEC(".maps");

/* An attended task has run on @cpu for a piece while others waited: ops.dispatch() compares them, and starts the timer anew. */
static __always_inline void compare_on(s32 cpu, struct bpf_timer *timer)
{
	struct task_struct *curr = curr_of(cpu);
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	struct task_ctx *tctx;
	u64 ran;

	if (!cctx)
		return;
	if (skips_queues() && has_displaced && curr && curr->prio < MAX_RT_PRIO) {
		bpf_timer_start(timer, PROGRESS_PIECE_NS, 0);
		return;
	}
	/* After a realtime task or the other lanes the next dispatch starts it anew. */
	tctx = curr && curr->prio >= MAX_RT_PRIO && !(curr->flags & PF_IDLE) ? try_task_ctx(curr) : NULL;
	if (!tctx || tctx->lane != APPEASE_LANE_ATTENDED || !attended_may_wait(attended_domain_of(cpu))) {
		cctx->compare_at_ns = 0;
		return;
	}
	ran = scx_bpf_now() - cctx->looked_ns;
	if (ran < PROGRESS_PIECE_NS) {
		bpf_timer_start(timer, PROGRESS_PIECE_NS - ran, 0);
		return;
	}
	cctx->compare_at_ns = 0;
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

static int compare_attended(void *map, int *cpu, struct bpf_timer *timer)
{
	hold_tasks();
	compare_on(*cpu, timer);
	drop_tasks();
	return 0;
}

/*
 * Attended tasks wait while another one runs on @cpu, that of @cctx. Its key comes later with all that it does, but slices end at ticks: a
 * key waited 6 ms for a player's picture whose turn was over after 3. So they are compared after a piece, or after @ns, if it
 * keeps the CPU for as long anyway; but for no longer than a slice, for it may come to another request. The papers of other policies
 * have slices.
 */
static __always_inline void compare_soon(u32 cpu, struct cpu_ctx *cctx, u64 ns)
{
	struct timer *timer;
	u64 at_ns;

	if (policy != APPEASE_POLICY_APPEASE || !cctx)
		return;
	ns = ns > slice_ns ? slice_ns : ns;
	ns = ns > PROGRESS_PIECE_NS ? ns : PROGRESS_PIECE_NS;
	at_ns = scx_bpf_now() + ns;
	if (cctx->compare_at_ns && !policy_before(at_ns, cctx->compare_at_ns))
		return;
	timer = bpf_map_lookup_elem(&compare_timers, &cpu);
	if (!timer)
		return;
	cctx->compare_at_ns = at_ns;
	bpf_timer_start(&timer->timer, ns, 0);
}

/*
 * For how long an attended task that runs with @standing keeps the CPU from the first in @queue, as far as one task can tell: others may work
 * for the same request on other CPUs.
 */
static __always_inline u64 keeps_attended(u32 queue, u64 key, u32 running_queue, const struct standing *standing)
{
	const struct appease_request *request = queue == running_queue ? request_in(standing) : NULL;

	if (!request)
		return 0;
	return unhappiness_keeps_ns(key, standing->key, PREEMPT_MARGIN_NS, weight_of_request(request));
}

__noinline s32 init_compare_timer(u32 cpu)
{
	return ready_timer(compare_timers, cpu, compare_attended);
}

/*
 * On one CPU: puts @p into the CPU's own queue, which saves ops.dispatch(). An attended task that wakes up and displaces the
 * running one goes before it. Only for a millisecond after the last ops.dispatch(), while others wait: it gives the other
 * lanes their share. False: it may not.
 */
static __always_inline bool insert_next(struct task_struct *p, u64 slice, u64 now, u64 enq_flags)
{
	struct cpu_ctx *cctx = skips_queues() ? this_cpu_ctx() : NULL;

	if (!cctx || (plain_may_wait() && now - cctx->looked_ns >= PROGRESS_PIECE_NS) || is_kernel_due(cctx, now))
		return false;
	insert_first(p, slice, enq_flags);
	return true;
}

/* On one CPU: whether an attended task in @queue with @key would take the CPU from all that wait. */
static __always_inline bool is_unhappiest(u32 queue, u64 key)
{
	u32 first = 0;
	u64 waiting = waiting_attended_key(0, 0, &first, NULL);

	return !waiting || displaces(queue, key, first, waiting);
}

/*
 * On one CPU: whether the current task, which wakes @p, keeps the CPU without a look at what both are worth. It hands on what came from an
 * input device or a terminal, and that is what @p serves, by @standing: then they are worth the same. Or @p is another thread of
 * its process, and it has just begun: a thread that fetches input for its process has passed it on, and goes to sleep, so it has
 * WAKER_STAY_NS for that. The main thread of a display server still served an older request, and displaced the thread that brought it a
 * key: 8 us of 193.
 */
static __always_inline bool keeps_waker(struct task_struct *p, const struct standing *standing, u64 mono)
{
	const struct handing *handing = policy == APPEASE_POLICY_APPEASE ? try_handing_now(mono) : NULL;
	struct task_struct *waker;
	struct task_ctx *tctx;
	struct cpu_ctx *cctx;

	if (!handing || !handing->is_served || handing->channel >= APPEASE_CHANNEL_AUDIO)
		return false;
	if (standing->request_id == handing->request_id)
		return true;
	waker = bpf_get_current_task_btf();
	if (waker->tgid != p->tgid)
		return false;
	tctx = try_task_ctx(waker);
	cctx = cpu_ctx_of(0);
	if (!tctx || !cctx || cctx->is_timed || tctx->turn_ns + ran_since(waker, tctx, scx_bpf_now()) >= WAKER_STAY_NS)
		return false;
	return end_after(0, waker->pid, WAKER_STAY_NS);
}

/*
 * Queues @p by @key; if it @may_displace, in place of a task that is worth less: at once where that is on this CPU. Else it stays
 * in the queue of all, and whichever CPU comes first takes it: put into another CPU's own queue, it would wait for that one
 * at each hop.
 */
static __always_inline void enqueue_by_key(struct task_struct *p, struct task_ctx *tctx, u64 key, const struct standing *standing, u64 slice,
					   u64 mono, bool may_displace, u64 enq_flags)
{
	u32 queue = fair_queue_of(tctx->turn_for), domain;
	s32 victim = -1;

	tctx->queued_ns = scx_bpf_now();
	fair_catches_up(queue);
	if (may_displace && !has_more_cpus())
		victim = (standing && keeps_waker(p, standing, mono)) || worth_of(0, queue, key, mono) == WORTH_KEEPING ? -1 : 0;
	else if (may_displace)
		victim = find_victim(p, queue, key, mono);
	if (victim >= 0 && (!has_more_cpus() || victim == (s32)bpf_get_smp_processor_id())) {
		struct cpu_ctx *cctx = cpu_ctx_of(victim);

		/* What a modest customer has in place of the other lane's turn is not the other lane's. */
		if (cctx) {
			cctx->turn = 0;
			cctx->aside_pid = 0;
			note_plain(victim, cctx, false);
			/* The kernel holds the lock of the CPU where @p was. */
			if (!has_more_cpus() || scx_bpf_task_cpu(p) == victim)
				ask_clock(victim, cctx, false);
		}
		count_sched(CNT_PREEMPTED);
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | victim, slice, enq_flags | SCX_ENQ_PREEMPT);
		return;
	}
	if (victim < 0 && may_displace && skips_queues() && !scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL)) {
		plain_waiting = 0;
		if (is_unhappiest(queue, key) && insert_next(p, slice, tctx->queued_ns, enq_flags))
			return;
	}
	domain = waits_in(p, victim);
	tctx->is_expected = victim >= 0 && domain == domain_of(victim);
	fair_queue_fills(queue, attended_domain(domain), tctx->queued_ns);
	scx_bpf_dsq_insert_vtime(p, queue_in(DSQ_ATTENDED, attended_domain(domain), queue), slice, key, enq_flags);
	if (victim < 0) {
		kick_idle(p);
		if (may_displace)
			compare_soon(scx_bpf_task_cpu(p), cpu_ctx_of_task(p), 0);
		return;
	}
	count_sched(CNT_PREEMPTED);
	call(p, queue, domain, victim);
}

/*
 * A task that makes way for a kernel thread or for a higher class keeps its place: the key by which it was queued, and what it was served
 * since. A new key counts HORIZON_NS of age at most. One of a thousand servers so came behind 400 others. It was looking up a
 * name, and each of them slept until that was done. A customer with one request waited for 0.4 s.
 *
 * Limits: on a loan it has no key of a request. One that is displaced inside a program of ours goes first (sections.bpf.h), and then has a new
 * key. So has one that makes way for the other lane's turn, for another attended task, or for a kernel thread that works at length.
 *
 * Returns that key; 0: @p does not make way, or for another request, or was not queued in this turn.
 */
static __always_inline u64 place_of(const struct task_struct *p, const struct task_ctx *tctx, const struct standing *standing,
				    u64 enq_flags)
{
	const struct appease_request *request;
	struct cpu_ctx *cctx;

	if (policy != APPEASE_POLICY_APPEASE || tctx->place_for != standing->request_id || tctx->lane != APPEASE_LANE_ATTENDED ||
	    enq_flags & ~SCX_ENQ_REENQ)
		return 0;
	if (!enq_flags) {
		cctx = cpu_ctx_of(scx_bpf_task_cpu(p));
		if (!cctx || cctx->aside_pid != p->pid)
			return 0;
		cctx->aside_pid = 0;
	}
	request = request_in(standing);
	return request ? unhappiness_key(tctx->place_key, tctx->ran_ns - tctx->place_ran_ns, weight_of_request(request)) : 0;
}

__noinline int enqueue_attended(struct task_struct *p __arg_trusted, struct task_ctx *tctx __arg_nonnull,
				const struct standing *standing __arg_nonnull, u64 mono, u64 enq_flags)
{
	u64 key = key_in_queue(standing->key, mono);
	/* Who says that it is batch work is in no hurry when it wakes up. */
	bool may_displace = enq_flags & SCX_ENQ_WAKEUP && p->policy != SCHED_BATCH_POLICY;

	/*
	 * Several tasks may work for one request. The one that was woken last has the data. Its waker,
	 * which it displaced, has passed them on and mostly cleans up, so it comes a turn later.
	 */
	if (!may_displace) {
		u64 place = place_of(p, tctx, standing, enq_flags);

		key += slice_ns;
		if (place && policy_before(place, key))
			key = place;
	}
	tctx->lane = APPEASE_LANE_ATTENDED;
	count_sched(CNT_ATTENDED);
	note_turn(p, tctx, standing, enq_flags & SCX_ENQ_WAKEUP);
	tctx->place_for = standing->request_id;
	tctx->place_key = key;
	tctx->place_ran_ns = tctx->ran_ns;
	enqueue_by_key(p, tctx, key, standing, standing->on_loan ? loan_ns : slice_ns, mono, may_displace, enq_flags);
	return 0;
}

/*
 * A kernel thread that an attended task wakes while it writes, such as the one that brings a pseudo-terminal's data to its reader,
 * carries on what was written: it ranks with the request that is handed on, and does not displace the writer. What that one
 * says next then goes along. Else each line of a listing went through terminal and X server by itself: on 6.18,
 * `ls -l /usr/bin` took 301 ms instead of 34. From an interrupt nobody writes.
 */
static __always_inline bool carries_on(u64 mono, u64 *key)
{
	const struct handing *handing = try_handing_now(mono);
	const struct standing *writer;

	if (!handing || !handing->request_id)
		return false;
	if (policy == APPEASE_POLICY_APPEASE) {
		*key = handing->key;
		return handing->is_served;
	}
	writer = judged(bpf_get_current_task_btf(), mono);
	*key = writer ? writer->key : 0;
	return writer && writer->attended;
}

/*
 * Queues a kernel thread: before everything else, or among the attended tasks as if its work had been asked for now; one that works
 * at length, or in the background, a little later. A background one that begins anew waits while somebody is served, see
 * appease_dispatch(); unless an attended task waits for it.
 *
 * As if asked for now, khugepaged, displaced by a key, went before the X server that had just passed the key on, and worked for 6 ms.
 */
__noinline int enqueue_kernel(struct task_struct *p __arg_trusted, struct task_ctx *tctx __arg_nonnull, u64 mono, u64 enq_flags)
{
	struct cpu_ctx *cctx = cpu_ctx_of_task(p);
	bool wakes_up = enq_flags & SCX_ENQ_WAKEUP, background = is_background(p);
	bool is_long = background || works_long(p, tctx), displaces = cctx && goes_first(tctx, cctx);
	const struct standing *standing;
	u64 key, at_ns = mono;

	tctx->lane = APPEASE_LANE_KERNEL;
	if (mono && !background && wakes_up && carries_on(mono, &key)) {
		/* It works for a moment, so it goes before other attended tasks that wait. */
		if (insert_next(p, slice_ns, scx_bpf_now(), enq_flags))
			return 0;
		displaces = true;
	} else {
		if (displaces && !is_long) {
			enqueue_first(p, cctx, enq_flags);
			return 0;
		}
		key = at_ns = mono ? mono : bpf_ktime_get_ns();
		if (wakes_up || is_long)
			tctx->asked_ns = at_ns;
		if (is_long)
			key = key_of_long(tctx);
		if (background && mono) {
			u64 now = scx_bpf_now();

			standing = judged(p, mono);
			if (standing && standing->attended) {
				key = standing->key;
			} else if (wakes_up && policy_before(tctx->queued_ns + KTHREAD_PAUSE_NS, now)) {
				tctx->queued_ns = now;
				rare_fills(RARE_BACKGROUND);
				scx_bpf_dsq_insert(p, DSQ_BACKGROUND, slice_ns, enq_flags);
				kick_idle(p);
				return 0;
			}
		}
	}
	enqueue_by_key(p, tctx, key_in_queue(key, at_ns), NULL, slice_ns, at_ns, displaces && wakes_up, enq_flags);
	return 0;
}

#endif
