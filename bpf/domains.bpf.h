/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Domains: CPUs that share their last-level cache. User space says which (crates/bpf/src/domains.rs). A
 * machine of one domain has one set of queues, and pays for no look at others.
 *
 * Problem: one queue for all CPUs has one lock, and moves tasks away from their caches.
 *
 * Rule: each domain has its own queues, attended, other and idle. A task waits in the domain where it ran
 * last, or whose CPU is to come for it. A CPU looks at other domains by need alone:
 *
 *	attended work waits there, and here is none;
 *	here is nothing to do;
 *	a party has had so much less there that it is due here (take_behind());
 *	a task has, of the party that is next here (take_lagging());
 *	more tasks wait for a CPU there than here (share_out() in scans.bpf.h), ten times a second.
 *
 * Near domains come first: user space numbers them by memory node (policy/placement.h).
 *
 * Fast and slow CPUs of a cache are two domains (speed.bpf.h).
 *
 * The kernel does not tell which cache a CPU has that is off. When one comes that was off at the start, the daemon attaches us anew.
 */
#ifndef APPEASE_DOMAINS_BPF_H
#define APPEASE_DOMAINS_BPF_H

#include "customers.bpf.h"
#include "single.bpf.h"
#include "policy/placement.h"

/* As many as bits in a word. */
#define DOMAINS 64
/* CPUs of a domain, likewise. User space splits larger caches. */
#define DOMAIN_CPUS 64
/* CPUs of a machine: a CPU beyond that counts as the one at its number without the upper bits. */
#define CPUS_MAX 4096

/* A power of two of them may be in use: some of the last, and between those of two memory nodes, are then without CPUs. */
const volatile u32 nr_domains = 1;
const volatile u8 domain_of_cpus[CPUS_MAX];
/* CPUs that were off when user space looked, by bits. */
const volatile u64 late_cpus[CPUS_MAX / 64];

/* Domains of fast CPUs, on a machine that has slow ones, too. 0: all CPUs are alike. */
const volatile u64 fast_domains;

/* Dispatch queues: a kind has so many numbers for each domain. */
#define DOMAIN_QUEUES 4096
#define DSQ_KIND(n) ((u64)(n) << 20)

/* Words of the bits of parties, see parties.bpf.h. A power of two: the verifier of 6.18 knows the bounds of no other remainder. */
#define PARTY_WORDS 32

/*
 * What waits in a domain. Bits are set before each insertion. On one CPU, a look that finds a
 * queue empty clears its bit. On several, a task enters its queue only after ops.enqueue() has returned, and
 * another CPU may find the queue empty before that. So there a bit is cleared when the queue is empty
 * and nothing was put in since the last look either, ten times a second.
 *
 * Bits outlast what waited, and where three tasks a second queue up, some are set for half of the time. Each CPU that went idle
 * meanwhile found queues empty, four times for a page of a small server, which took a thirtieth longer. So a CPU
 * that finds them all empty says so, and until something is put in no CPU looks again.
 */
struct domain {
	u64 attended;		/* queues of customers that may hold a task */
	u64 attended_used;	/* those that got one since the last look */
	u64 party_words;	/* words of party_waiting that are not 0 */
	u64 filled_ns;		/* when something was put into one of these queues, by FILLED_GRAIN_NS */
	u64 empty_ns;		/* when all of them were found empty ... */
	u64 empty_since_ns;	/* ... filled_ns then */
	u64 clock;		/* smallest virtual time of a party that waited when one was last chosen */
	/* Its CPUs that run what nobody waits for. Attended tasks that wake up look here. */
	u64 plain_cpus;
	u64 vain;		/* domains where a CPU of this one found nothing that is due here, since the last look */
	u64 packed_ns;		/* to save power: since when plain tasks have waited without a pause */
	u32 nr_cpus;		/* in cpus: those that are on, or were */
	u32 nr_online;		/* of them, now */
	u32 next_look;		/* where the next search for a CPU begins */
	u32 nr_waiting;		/* tasks in the queues of parties, at the last look */
	u32 most_waiting;	/* of one party, less those that went since */
	u32 gives;		/* so many of them are to go ... */
	u32 gives_to;		/* ... to that domain */
	u32 is_moving;		/* an idle CPU of another domain will be called for what waits (near.bpf.h) ... */
	s32 moves_to;		/* ... that one */
	u64 party_waiting[PARTY_WORDS];	/* parties whose queues may hold a task */
	u64 party_used[PARTY_WORDS];	/* those that got one since the last look */
	u32 cpus[DOMAIN_CPUS];
} __attribute__((aligned(128)));

static struct domain domains[DOMAINS];

/* Domains in which attended tasks may wait. */
static u64 attended_in;

static __always_inline struct domain *domain_at(u32 domain)
{
	return &domains[nr_domains > 1 ? domain % DOMAINS : 0];
}

static __always_inline u32 domain_of(s32 cpu)
{
	return nr_domains > 1 ? domain_of_cpus[(u32)cpu % CPUS_MAX] : 0;
}

/* That of the CPU on which this runs. */
static __always_inline u32 domain_here(void)
{
	return nr_domains > 1 ? domain_of(bpf_get_smp_processor_id()) : 0;
}

/* Insertions are noted so far apart at least, or CPUs that queue tasks at the same time would take the note's cache line from each other. */
#define FILLED_GRAIN_NS 100000ULL
/*
 * After so long a task is in its queue for which ops.enqueue() has set the bit: the kernel inserts it as the next thing that it does. Half of a tick at
 * 1,000 Hz.
 */
#define FILLED_SETTLES_NS 500000ULL
/*
 * For so long queues are taken for empty that were found so. In between, a virtual machine's CPU may have been stopped between bit and
 * insertion for longer than that takes; such a task waits for as long.
 */
#define EMPTY_LASTS_NS 10000000ULL

/* A task is about to be put into a queue of @domain that has a bit. */
static __always_inline void note_filled(struct domain *domain, u64 now)
{
	/* In one step: the look for an idle CPU that follows comes after it. */
	if (now - domain->filled_ns >= FILLED_GRAIN_NS)
		__sync_lock_test_and_set(&domain->filled_ns, now);
}

/* Whether all queues of @domain that have bits were found empty, a short while ago, and none got anything since. */
static __always_inline bool is_known_empty(const struct domain *domain, u64 now)
{
	return domain->empty_since_ns == domain->filled_ns && now - domain->empty_ns < EMPTY_LASTS_NS;
}

static __always_inline bool is_fast(u32 domain)
{
	return fast_domains >> (domain % DOMAINS) & 1;
}

/* The queue @queue of a kind in @domain. */
static __always_inline u64 queue_in(u64 kind, u32 domain, u32 queue)
{
	return kind + (nr_domains > 1 ? domain * DOMAIN_QUEUES : 0) + queue;
}

/*
 * Marks of queues that may hold a task: in @waiting, and in @used since the last look. One is about to be put into the queue of @bit.
 *
 * A look takes @used away, and asks the queues that are not among it. What comes in meanwhile marks @used first: where the look then clears
 * @waiting, it sees that mark, and puts the bit back. False: it was marked already.
 */
static __always_inline bool mark_filled(u64 *waiting, u64 *used, u64 bit)
{
	if (*waiting & *used & bit)
		return false;
	__sync_fetch_and_or(used, bit);
	__sync_fetch_and_or(waiting, bit);
	return true;
}

/* Begins a look. The bits of queues that got nothing since the last one. */
static __always_inline u64 begin_marks(u64 *waiting, u64 *used)
{
	u64 filled = __sync_fetch_and_and(used, 0);

	return *(volatile u64 *)waiting & ~filled;
}

/* The look found the queues of @empty, of those bits, empty. */
static __always_inline void mark_empty(u64 *waiting, u64 *used, u64 empty)
{
	u64 filled;

	__sync_fetch_and_and(waiting, ~empty);
	filled = *(volatile u64 *)used & empty;
	if (filled)
		__sync_fetch_and_or(waiting, filled);
}

/* Number of the lowest bit in @bits, which is not 0. */
static __always_inline u32 lowest_bit(u64 bits)
{
	return __builtin_ctzll(bits) % 64;
}

static __always_inline u64 bit_of(u32 index)
{
	return 1ULL << (index % 64);
}

#endif
