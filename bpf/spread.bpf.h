/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A party with tasks that wait in several domains (policy/placement.h): the first one in each, and where its clock stands.
 *
 * Its virtual times are the same everywhere, but one domain may be ahead of another by what is due
 * there. The clock is that of the one behind: a task that has slept comes back by it. Where virtual
 * time is handed on, or a debt is left, the clock of the domain counts where the task runs or waits.
 *
 * On one domain, all of this is the party's one clock.
 */
#ifndef APPEASE_SPREAD_BPF_H
#define APPEASE_SPREAD_BPF_H

#include "tasks.bpf.h"

/* The first task of the party at @index that waits in @domain. The idle lane's has no such queue. */
static __always_inline struct task_struct *first_of(u32 index, u32 domain)
{
	return index < PARTIES ? __COMPAT_scx_bpf_dsq_peek(queue_in(DSQ_PARTIES, domain, index)) : NULL;
}

/* The other domain at which @here looks this time. */
static __always_inline u32 other_domain(u32 here)
{
	return placement_other(here, bpf_get_prandom_u32(), nr_domains) % DOMAINS;
}

/* Whether a task of the party at @index waits here, or there. */
static __always_inline bool party_waits(u32 index)
{
	u32 here = domain_here();

	return first_of(index, here) || first_of(index, other_domain(here));
}

/* The clock of @party, the one at @index, for those of its tasks that wait in @domain. */
static __always_inline u64 clock_in(const struct party *party, u32 index, u32 domain)
{
	struct task_struct *first = nr_domains > 1 ? first_of(index, domain) : NULL;
	struct task_ctx *tctx = first ? try_task_ctx(first) : NULL;

	return tctx && policy_before(party->clock, tctx->vtime) ? tctx->vtime : party->clock;
}

/* The same where the current task runs. */
static __always_inline u64 clock_here(const struct party *party, u32 index)
{
	return clock_in(party, index, domain_here());
}

/*
 * The one that is ahead of those here and in @domain, where a task waits that is woken here. By the one behind, a waker
 * would be forgiven what it is ahead, at each wake-up that leads there.
 */
static __always_inline u64 clock_of_both(const struct party *party, u32 index, u32 domain)
{
	u64 there = clock_in(party, index, domain), here;

	if (domain == domain_here())
		return there;
	here = clock_here(party, index);
	return policy_before(there, here) ? here : there;
}

/* A task of @party, the one at @index, with @vtime is the first that waits in @domain, and is chosen. */
static __always_inline void party_comes_to(struct party *party, u32 index, u32 domain, u64 vtime)
{
	struct task_struct *other = nr_domains > 1 ? first_of(index, other_domain(domain)) : NULL;
	struct task_ctx *tctx = other ? try_task_ctx(other) : NULL;

	if (tctx && policy_before(tctx->vtime, vtime))
		vtime = tctx->vtime;
	if (policy_before(party->clock, vtime))
		party->clock = vtime;
}

/* A task of it ran. The clock follows by itself only when none waits. */
static __always_inline void party_goes_on(struct party *party, u32 index, u64 vtime, u64 ran)
{
	if (nr_domains == 1 || !party_waits(index))
		party->clock = progress_clock(party->clock, vtime, ran);
}

#endif
