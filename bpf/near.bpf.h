/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Work stays near its cache: which CPUs what nobody waits for is offered to.
 *
 * A task that wakes up takes an idle CPU of its own domain. Where none is idle, it waits there, and another domain's idle CPU comes for it
 * only after PLACEMENT_MOVE_NS: most waits are over sooner, and the task finds its cache warm. Each domain has one timer for
 * that, which is set only while another domain has an idle CPU for a task that waits.
 *
 * What a kernel thread displaces stays where it is while any CPU is idle and nobody is served: kernel threads are mostly done in a moment.
 *
 * What somebody waits for displaces plain work of its own domain, and other domains leave it to the CPU that was called for it, for
 * PLACEMENT_MOVE_NS, too. Where none runs, it takes any idle CPU at once. So do new tasks, which have nothing in a cache yet, and a task that another one
 * wakes which is about to sleep (SCX_WAKE_SYNC): its data is there.
 *
 * Limits: the timer calls one CPU. If that has got other work meanwhile, the next task that is queued sets it again.
 */
#ifndef APPEASE_NEAR_BPF_H
#define APPEASE_NEAR_BPF_H

#include "attended.bpf.h"

/* That a task which wakes up goes where the kernel would have it, and that it stays at its CPU, which is at work. */
#define WAKES_ANYWHERE -1
#define WAKES_THERE -2

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DOMAINS);
	__type(key, u32);
	__type(value, struct timer);
} move_timers SEC(".maps");

/* Takes an idle CPU of @domain, of those in @idle, that @p may run on. -1: there is none. */
static __always_inline s32 idle_cpu_of(struct task_struct *p, const struct domain *domain, const struct cpumask *idle)
{
	u32 i;

	bpf_for(i, 0, DOMAIN_CPUS) {
		s32 cpu = domain->cpus[i % DOMAIN_CPUS];

		if (i >= domain->nr_cpus)
			break;
		if (bpf_cpumask_test_cpu(cpu, idle) && bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && scx_bpf_test_and_clear_cpu_idle(cpu))
			return cpu;
	}
	return -1;
}

/* The same of all idle ones: one with an idle core, if there is one, and of those the one where @p ran. */
__noinline s32 idle_cpu_in(struct task_struct *p __arg_trusted, u32 index)
{
	const struct domain *domain = domain_at(index);
	s32 last = scx_bpf_task_cpu(p), cpu = -1;
	u32 i;

	bpf_for(i, 0, 2) {
		const struct cpumask *idle = i ? scx_bpf_get_idle_cpumask() : scx_bpf_get_idle_smtmask();

		if (bpf_cpumask_test_cpu(last, idle) && bpf_cpumask_test_cpu(last, p->cpus_ptr) && scx_bpf_test_and_clear_cpu_idle(last))
			cpu = last;
		else
			cpu = idle_cpu_of(p, domain, idle);
		scx_bpf_put_idle_cpumask(idle);
		if (cpu >= 0)
			break;
	}
	return cpu;
}

/* After PLACEMENT_MOVE_NS, @cpu of another domain is to come for what waits in @domain, if it is idle then. */
static __always_inline void call_later(u32 index, s32 cpu)
{
	u32 key = index % DOMAINS;
	struct domain *domain = domain_at(key);
	struct timer *timer = domain->is_moving ? NULL : bpf_map_lookup_elem(&move_timers, &key);

	if (!timer)
		return;
	domain->is_moving = 1;
	domain->moves_to = cpu;
	if (bpf_timer_start(&timer->timer, PLACEMENT_MOVE_NS, 0))
		domain->is_moving = 0;
}

static int move_waiting(void *map, u32 *key, struct bpf_timer *timer)
{
	struct domain *domain = domain_at(*key % DOMAINS);

	domain->is_moving = 0;
	scx_bpf_kick_cpu(domain->moves_to, SCX_KICK_IDLE);
	return 0;
}

__noinline s32 init_move_timer(u32 domain)
{
	return ready_timer(move_timers, domain, move_waiting);
}

/*
 * What is left of the turn of @p, which is queued anew, on its CPU. 0: it does not stay there. It stays if a kernel thread has displaced it for a
 * moment, and it takes no turn from anybody: another CPU is idle, and nobody is served. On the idle one it would find a cold cache, or
 * share a core. Not for longer than that turn, or what waits for this CPU alone would wait for good.
 */
static __always_inline u64 stays_behind_kernel(struct task_struct *p, u64 now, u64 enq_flags)
{
	struct cpu_ctx *cctx = has_more_cpus() && !enq_flags && !is_serving() ? cpu_ctx_of(scx_bpf_task_cpu(p)) : NULL;
	const struct cpumask *idle;
	bool stays;
	u64 had;

	if (!cctx || cctx->aside_pid != p->pid)
		return 0;
	cctx->aside_pid = 0;
	had = now - cctx->looked_ns;
	if (had >= slice_ns)
		return 0;
	idle = scx_bpf_get_idle_cpumask();
	stays = bpf_cpumask_intersects(idle, p->cpus_ptr);
	scx_bpf_put_idle_cpumask(idle);
	return stays ? slice_ns - had : 0;
}

/* Calls an idle CPU of @domain for @p, which nobody waits for and which was put into a queue there; or, later, one of another domain. */
__noinline int call_near(struct task_struct *p __arg_trusted, u32 domain)
{
	const struct cpumask *idle;
	u32 other;
	s32 cpu;

	if (nr_domains == 1)
		return kick_idle(p);
	cpu = idle_cpu_in(p, domain);
	if (cpu >= 0) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return 0;
	}
	if (domain_at(domain)->is_moving)
		return 0;
	idle = scx_bpf_get_idle_cpumask();
	other = bpf_cpumask_any_and_distribute(idle, p->cpus_ptr);
	scx_bpf_put_idle_cpumask(idle);
	if (other < nr_cpus)
		call_later(domain, other);
	return 0;
}

/*
 * A CPU of @domain has taken what waited elsewhere: calls the next idle one, as more may wait. One that finds nothing calls nobody.
 */
static __always_inline void call_next(const struct domain *domain)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	u32 i;

	bpf_for(i, 0, DOMAIN_CPUS) {
		s32 cpu = domain->cpus[i % DOMAIN_CPUS];

		if (i >= domain->nr_cpus)
			break;
		if (bpf_cpumask_test_cpu(cpu, idle)) {
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
			break;
		}
	}
	scx_bpf_put_idle_cpumask(idle);
}

/* Whether @tctx's task, which waits in another domain than that of the CPU that looks, has waited for long enough to be moved. */
static __always_inline bool may_move(const struct task_ctx *tctx, u64 now)
{
	return !tctx || placement_moves(tctx->queued_ns, now);
}

/*
 * Whether the attended task that waits in @queue of @there is left to the CPU of that domain which was called for it. Called, a CPU may
 * take a moment to come; meanwhile one of another domain may look, and would move the task. Where a second one waits, the CPU may come for
 * that.
 */
static __always_inline bool is_expected(u32 there, u32 queue, u64 now)
{
	u64 dsq = queue_in(DSQ_ATTENDED, there, queue % FAIR_QUEUES);
	struct task_struct *first = __COMPAT_scx_bpf_dsq_peek(dsq);
	struct task_ctx *tctx = first ? try_task_ctx(first) : NULL;

	return tctx && tctx->is_expected && !may_move(tctx, now) && scx_bpf_dsq_nr_queued(dsq) <= 1;
}

/* Has @cpu run the first of the attended tasks of any other domain than @here that may move. */
__noinline bool take_attended_elsewhere(s32 cpu, u32 here, u64 now)
{
	u64 elsewhere = attended_in & ~bit_of(here);
	u32 i, there, queue = 0;

	if (!elsewhere)
		return false;
	bpf_for(i, 1, nr_domains) {
		there = placement_near(here, i) % DOMAINS;
		if (!(elsewhere & bit_of(there)) || (first_attended_key(cpu, there, &queue, NULL) && is_expected(there, queue, now)))
			continue;
		/* Also when its first may not run here: others behind it may. */
		if (take_attended(there))
			return true;
	}
	return false;
}

/* Whether an attended task of @domain waits for @cpu, which goes idle. If that is left to its own domain, @cpu is called later. */
__noinline bool attended_waits_for(s32 cpu, u32 domain, u64 now)
{
	u32 queue = 0;

	if (!first_attended_key(cpu, domain, &queue, NULL))
		return false;
	if (domain == domain_of(cpu) || !is_expected(domain, queue, now))
		return true;
	call_later(domain, cpu);
	return false;
}

/* Takes an idle CPU for @p, which wakes up and which nobody waits for, or says how it is to have one. */
__noinline s32 wake_near(struct task_struct *p __arg_trusted, s32 prev_cpu, u64 wake_flags)
{
	s32 cpu;

	if (wake_flags & (SCX_WAKE_FORK | SCX_WAKE_SYNC) || !bpf_cpumask_test_cpu(prev_cpu, p->cpus_ptr))
		return WAKES_ANYWHERE;
	cpu = idle_cpu_in(p, domain_of(prev_cpu));
	return cpu >= 0 ? cpu : WAKES_THERE;
}

#endif
