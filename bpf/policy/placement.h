/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Placement: which CPUs a wake-up looks at, in which queues a task waits, and when one domain takes another one's work.
 *
 * Problem: one queue for all CPUs has one lock, and moves tasks away from their caches. With a queue for each last-level
 * cache, work may wait in one domain while another has less to do, and a look at all CPUs costs more the more there are.
 *
 * Rule: each domain has its own queues. The n-th nearest domain of domain d is
 *
 *	d ^ n			(each memory node has as many numbers, a power of two, where there is room: small n are near)
 *
 * A wake-up of the attended lane looks at the CPU that woke the task, if it is of the same domain, at the one where it ran last, then at
 * PLACEMENT_CPU_LOOKS CPUs in each of PLACEMENT_DOMAIN_LOOKS domains, nearest first, of those that run what nobody waits
 * for; and last at PLACEMENT_CPU_LOOKS CPUs of its own domain by turns, for one that serves somebody less unhappy.
 *
 * What nobody waits for takes an idle CPU of its own domain. Where none is idle, it waits there, for PLACEMENT_MOVE_NS at least.
 *
 * What computes leaves a core that it shares for an idle one after PLACEMENT_SHARED_TURNS.
 *
 * Of w waiting tasks in all, a domain with c of all C CPUs has a part of w c / C. What it has beyond the part, rounded up,
 * it gives to the domain that lacks most of its own, rounded down.
 *
 *	w c / C = 3.5	waiting here: 3 or 4	neither gives nor lacks one
 *			waiting here: 6		gives 2
 *			waiting here: 1		lacks 2
 *
 * It gives tasks of the party of which most wait there. Else a heavy party's task would leave because a light one's wait. The heavy
 * party would have its tasks in one domain and the light one the other, and they would swing to and fro.
 *
 * A party is due in another domain when it has PLACEMENT_DUE_NS less than that one's clock. A CPU looks at the clock of one other
 * domain, by chance, and at the party that goes next there if the clock is so far behind. A clock that lags behind the foremost
 * by more than PLACEMENT_LAG_NS is moved up. Both hold for up to PLACEMENT_FEW domains, and for more in proportion: clocks
 * are in virtual time, which all CPUs that run a party carry on. One party of scale s (policy/party.h) on all CPUs of k
 * domains, with turns of 3 ms, moves the clock of each by steps of 3 ms s k, and of a cgroup of weight 100, s is 1. A step
 * longer than what is due would make each domain look behind in its turn, and send all CPUs to its queue.
 *
 * Parts count tasks, not weights, so a party's heavy tasks may wait in one domain and its light ones in another. There virtual
 * times part. So a CPU that is to go on with a task of a party looks at the party's first one in one other domain, by chance:
 * what had PLACEMENT_DUE_NS less, in CPU time of the lighter of both, goes before. And a task that is queued at the end of a
 * turn keeps what it lacks, up to PLACEMENT_LAG_NS, where on one domain a slice is enough; a party keeps it on any number. What it
 * is ahead is held against it as far. A party keeps what all CPUs run in PLACEMENT_PARTY_TURNS, if that is more: each turn is charged
 * when it is over, so all CPUs may run one party meanwhile, and the other one is as far behind.
 *
 * Limits: with many domains, the one that is behind is found by one look of as many. Beyond PLACEMENT_FEW domains shares between
 * cgroups are even later. A first task that may not run here hides those behind it.
 */
#ifndef APPEASE_POLICY_PLACEMENT_H
#define APPEASE_POLICY_PLACEMENT_H

#include "types.h"

/*
 * CPUs of a domain that a wake-up looks at. Turned up, it finds a CPU more often, and costs more where all CPUs do attended
 * work. What it misses, it has when the first CPU of its domain ends a turn.
 */
#define PLACEMENT_CPU_LOOKS 8
/* Domains that it looks at. Turned up, it finds a CPU farther away, and its cache lacks the data. */
#define PLACEMENT_DOMAIN_LOOKS 8

/*
 * A party of another domain had so much less, in virtual time, that it is due here. Turned down, more
 * tasks change their caches; turned up, shares between cgroups are late: within 5 % over 2 s, it may
 * be 100 ms.
 */
#define PLACEMENT_DUE_NS 25000000ULL

/* A domain's clock lags behind the foremost by no more, ns: what a party was kept from for so long is forgiven. */
#define PLACEMENT_LAG_NS 100000000ULL

/* Turns of all CPUs that a party is behind at most and keeps: one that is over, and one that was begun before it was charged. */
#define PLACEMENT_PARTY_TURNS 2

/*
 * What nobody waits for has waited so long before an idle CPU of another domain takes it, ns: the kernel's own estimate of what a
 * move to another cache costs (sysctl_sched_migration_cost). Turned up, CPUs are idle beside work; turned down, short waits move tasks.
 */
#define PLACEMENT_MOVE_NS 500000ULL

/* Ends of turns in a row that found the core shared, before a task leaves it. Turned down, what wakes up beside it for a moment moves it. */
#define PLACEMENT_SHARED_TURNS 2

/* Domains for which what is due and the lag hold: of a cgroup of weight 100, a step is as long as what is due. */
#define PLACEMENT_FEW 8

/* @ns, of one of these two, with so many @domains. */
static inline u64 placement_scaled(u64 ns, u32 domains)
{
	return domains > PLACEMENT_FEW ? ns / PLACEMENT_FEW * domains : ns;
}

/* The @nth nearest domain of @home, of a power of two of them. The 0th is @home. */
static inline u32 placement_near(u32 home, u32 nth)
{
	return home ^ nth;
}

/* Which of a domain's @cpus the @nth look goes to that begins at the @first; any number will do for that. */
static inline u32 placement_turn(u32 first, u32 nth, u32 cpus)
{
	return cpus ? (first + nth) % cpus : 0;
}

/* Whether a task that is queued goes to another domain, which its own owes so many: at the end of a turn, not while its data is hot. */
static inline bool placement_leaves(bool wakes_up, u32 gives)
{
	return !wakes_up && gives;
}

/* Whether one of a party of which @waiting wait there goes, where @most of one party do. It does not wait itself yet. */
static inline bool placement_spares(u32 waiting, u32 most)
{
	return waiting >= most || waiting + 1 == most;
}

/* Whether a task that has waited since @queued_ns goes to an idle CPU of another domain. */
static inline bool placement_moves(u64 queued_ns, u64 now_ns)
{
	return !policy_before(now_ns, queued_ns + PLACEMENT_MOVE_NS);
}

/* Whether a task leaves its core for an idle one, which was shared at the ends of so many turns in a row. */
static inline bool placement_leaves_core(u32 shared_turns)
{
	return shared_turns >= PLACEMENT_SHARED_TURNS;
}

/* Tasks that a domain of @online of all @cpus has beyond its part of all @waiting, when @here wait there. */
static inline u32 placement_excess(u32 waiting, u32 cpus, u32 online, u32 here)
{
	u32 part = cpus ? (waiting * online + cpus - 1) / cpus : 0;

	return here > part ? here - part : 0;
}

/* Tasks that it lacks of that. */
static inline u32 placement_room(u32 waiting, u32 cpus, u32 online, u32 here)
{
	u32 part = cpus ? waiting * online / cpus : 0;

	return part > here ? part - here : 0;
}

/* Whether a party of a domain with its clock at @there is due in one of so many @domains with its clock at @here. */
static inline bool placement_is_due(u64 there, u64 here, u32 domains)
{
	return policy_before(there + placement_scaled(PLACEMENT_DUE_NS, domains), here);
}

/* The other domain at which a domain @here of @domains, which are two or more, looks by @chance. */
static inline u32 placement_other(u32 here, u32 chance, u32 domains)
{
	return placement_near(here, domains > 1 ? 1 + chance % (domains - 1) : 0);
}

/*
 * Whether a party's task that waits in another domain with its deadline @there goes before one with its deadline @here;
 * @due_ns: PLACEMENT_DUE_NS of the lighter one.
 */
static inline bool placement_goes_before(u64 there, u64 here, u64 due_ns)
{
	return policy_before(there + due_ns, here);
}

/*
 * Virtual time with which a task queues up that may have come far ahead of those in its domain, where it had CPUs to itself that they might not
 * use: by @most_ns at most. Else it would wait until they have had as much as it got there, which took nothing from them.
 */
static inline u64 placement_ahead(u64 vtime, u64 queue_vtime, u64 most_ns)
{
	u64 latest = queue_vtime + most_ns;

	return policy_before(latest, vtime) ? latest : vtime;
}

/* How far a party is behind and keeps what it lacks, on @cpus with turns of @slice_ns, ns. */
static inline u64 placement_party_lag(u64 slice_ns, u32 cpus)
{
	u64 turns_ns = PLACEMENT_PARTY_TURNS * slice_ns * cpus;

	return turns_ns < PLACEMENT_LAG_NS ? PLACEMENT_LAG_NS : turns_ns;
}

/* Up to which clock a domain, of so many, is moved that lags behind the @foremost. */
static inline u64 placement_least_clock(u64 foremost, u32 domains)
{
	return foremost - placement_scaled(PLACEMENT_LAG_NS, domains);
}

#endif
