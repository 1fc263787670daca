/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Parties of the other lane (policy/party.h): each cgroup with the cpu controller, the root, and each
 * customer with requests beyond their budgets. Each has a queue of its own.
 *
 * scan_queues() counts the parties that hold something, ten times a second. Sums that are kept at
 * each wake-up and each sleep would cost two callbacks of the kernel each time.
 */
#ifndef APPEASE_PARTIES_BPF_H
#define APPEASE_PARTIES_BPF_H

#include "fair.bpf.h"
#include "policy/limit.h"
#include "policy/party.h"

const volatile u64 slice_ns = 3000000ULL;

/* The root, and cgroups with weights of their own. One beyond that counts as its parent. */
#define GROUPS 1984
/* Cgroups above a task that count. */
#define GROUP_DEPTH 8
/* Customers beyond their budgets at a time. One beyond that stays in its cgroup's party. */
#define SPENDERS 64
/* Slots that are tried for a customer. */
#define SPENDER_TRIES 4
/* A customer's party without a task for so long gives its slot away, ns. */
#define SPENDER_IDLE_NS 10000000000ULL

/* Party 0 is the root's. Those from GROUPS on are customers'. */
#define PARTIES (GROUPS + SPENDERS)
_Static_assert(PARTY_WORDS == PARTIES / 64, "PARTY_WORDS");
/* The idle lane: it has a clock, and no part. */
#define PARTY_IDLE PARTIES

/* Each party has a queue in each domain. */
#define DSQ_PARTIES DSQ_KIND(2)

struct party {
	u64 id;		/* of a cgroup: its id; of a customer: its slot, and the cgroup's party; 0: not in use */
	u64 vtime;	/* CPU time by its scale, ns */
	u64 clock;	/* of its tasks: progress_clock() */
	u64 owed;	/* debt that its tasks left, ns, whole when the clock stood at owed_at */
	u64 owed_at;
	u64 due_ns;	/* CPU time of its tasks in the attended lane that it has not paid for */
	u64 scale;	/* as of the count scaled_at */
	u64 scaled_at;
	/* Of a cgroup: the same of all that is in it, and in the cgroups below, as if it were one party. */
	u64 whole_vtime;
	u64 whole_scale;
	u64 whole_scaled_at;
	u64 counted_at;	/* the count that has it */
	u64 used_ns;	/* latest insertion of a task */
	u64 wanted_ns;	/* time that its tasks ran or waited since the last count, all together */
	u64 has_queue;	/* of a cgroup: its queue exists */
	u64 is_idle;	/* of a cgroup: cpu.idle */
	/* cpu.max: a bucket, see policy/limit.h. */
	u64 quota_ns;	/* 0: no limit */
	u64 period_ns;
	u64 burst_ns;
	u64 period_at;	/* when the present period began */
	s64 left_ns;
	u32 weight;	/* of a cgroup: PROGRESS_WEIGHT_0 for cpu.weight 100; of a customer: POLICY_WEIGHT_DEFAULT for 1 */
	u32 parent;	/* party of the parent; of a customer: of its cgroup */
	/* The last count and the next: child cgroups that want the CPU, and own parties, both by weight. */
	u64 counts[2];
	u64 sums[2];
	u64 members[2];
};

struct timer {
	struct bpf_timer timer;
};

/* Readies the timer @number of @map, which calls @callback. A macro: the verifier wants to see which map it is. */
#define ready_timer(map, number, callback)							\
	({											\
		u32 __number = (number);							\
		struct timer *__timer = bpf_map_lookup_elem(&(map), &__number);			\
		s32 __err = -ENOENT;								\
												\
		if (__timer) {									\
			bpf_timer_init(&__timer->timer, &(map), CLOCK_MONOTONIC);		\
			__err = bpf_timer_set_callback(&__timer->timer, callback);		\
		}										\
		__err;										\
	})

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PARTIES + 1);
	__type(key, u32);
	__type(value, struct party);
} parties SEC(".maps");

/* Cgroups with a limit, and with cpu.idle. */
static u64 nr_limits, nr_idle_groups;

/* Some task may stand for a customer beyond a budget, see spenders.bpf.h. */
static bool spends;

/* The last complete count, and the root's own tasks that wanted the CPU up to it, by weight, on the average. */
static u64 party_count;
static u64 root_weight = PROGRESS_WEIGHT_0;

/* A look through the parties, by CPU. The verifier would try every value of a local variable. */
struct party_look {
	u64 left[PARTY_WORDS];
	u64 words;
	u64 vtime;	/* of the best so far */
	u64 now;	/* if there are limits */
	u32 best;
	u32 word;	/* looked at now */
	u32 domain;
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct party_look);
} party_looks SEC(".maps");

static __always_inline struct party *try_party(u32 index)
{
	return bpf_map_lookup_elem(&parties, &index);
}

/* Weight of the party at @index among those of its cgroup: a customer's own, and that of a customer of weight 1 for all others. */
static __always_inline u32 weight_in_group(u32 index, const struct party *party)
{
	return index >= GROUPS ? party->weight : POLICY_WEIGHT_DEFAULT;
}

/* Party of the cgroup in which the tasks of @index are. */
static __always_inline u32 group_behind(u32 index, const struct party *party)
{
	return index >= GROUPS ? party->parent : index;
}

/* The party at *@group, which becomes its parent. NULL: *@group is the root. */
static __always_inline struct party *step_up(u32 *group)
{
	u32 index = *group;
	struct party *party;

	barrier_var(index);
	party = index ? try_party(index) : NULL;
	if (party)
		*group = party->parent;
	return party;
}

/* @kind of @group in the last count, @least at least. */
static __always_inline u64 counted(const struct party *group, const u64 *kind, u64 least)
{
	u64 count = party_count, found = group->counts[count & 1] == count ? kind[count & 1] : 0;

	return found > least ? found : least;
}

/* Scale of all that is in the cgroup at @group, and below it, by the last count. */
__noinline u64 scale_of_whole(u32 group)
{
	struct party *entry = try_party(group);
	u64 scale = PARTY_SCALE_1;
	u32 i, weight;

	if (!group || !entry)
		return party_scale(scale, PROGRESS_WEIGHT_0, root_weight);
	bpf_for(i, 0, GROUP_DEPTH) {
		weight = entry->weight;
		group = entry->parent;
		entry = group ? try_party(group) : NULL;
		scale = party_scale(scale, entry ? counted(entry, entry->sums, weight) : PROGRESS_WEIGHT_0, weight);
		if (!entry)
			break;
	}
	return scale;
}

/* Scale of party @index, by the last count. */
__noinline u64 scale_of(u32 index)
{
	struct party *entry = try_party(index);
	u32 group, weight;

	if (!entry)
		return PARTY_SCALE_1;
	weight = weight_in_group(index, entry);
	group = group_behind(index, entry);
	entry = try_party(group);
	if (!entry)
		return PARTY_SCALE_1;
	return party_scale(scale_of_whole(group), counted(entry, entry->members, weight), weight);
}

static __always_inline u32 word_of(u32 index)
{
	return index / 64 % PARTY_WORDS;
}

/* Whether no other party than that at @index may wait in @domain. */
static __always_inline bool is_only(const struct domain *domain, u32 index)
{
	u32 word = word_of(index);

	return !(domain->party_words & ~(1ULL << word)) && !(domain->party_waiting[word] & ~bit_of(index));
}

/* A party at @vtime is chosen, the smallest that waits in @domain, or none waits beside it. */
static __always_inline void advance_clock(struct domain *domain, u64 vtime)
{
	if (policy_before(domain->clock, vtime))
		domain->clock = vtime;
}

/* What @ran adds to the virtual time of @party, the one at @index. */
static __always_inline u64 charge_of(struct party *party, u32 index, u64 ran)
{
	u64 count = party_count;

	if (party->scaled_at != count || !party->scale) {
		party->scale = scale_of(index);
		party->scaled_at = count;
	}
	return party_charge(ran, party->scale);
}

/* Charges the cgroup at @group, and those above it, for @ran. Its own party, or that of one of its customers, is charged apart. */
__noinline int charge_wholes(u32 group, u64 ran)
{
	u64 count = party_count;
	u32 i;

	bpf_for(i, 0, GROUP_DEPTH) {
		u32 index = group;
		struct party *cgroup = step_up(&group);

		if (!cgroup)
			break;
		if (cgroup->whole_scaled_at != count || !cgroup->whole_scale) {
			cgroup->whole_scale = scale_of_whole(index);
			cgroup->whole_scaled_at = count;
		}
		__sync_fetch_and_add(&cgroup->whole_vtime, party_charge(ran, cgroup->whole_scale));
	}
	return 0;
}

/* Charges @party, the one at @index, for @ran and for what it is due. */
__noinline int charge_party(struct party *party __arg_nonnull, u32 index, u64 ran)
{
	struct domain *domain = domain_at(domain_here());
	u32 group = group_behind(index, party);
	bool is_alone = is_only(domain, index);

	if (is_alone)
		advance_clock(domain, party->vtime);
	/* Without a test: the verifier would look through all that follows twice. */
	ran += party->due_ns;
	party->due_ns = 0;
	__sync_fetch_and_add(&party->vtime, charge_of(party, index, ran));
	/* What it has alone, it takes from nobody. */
	if (group && !is_alone)
		charge_wholes(group, ran);
	return 0;
}

/* Brings the debt of @party up to date. Two CPUs at once may forget a part of it. */
static __always_inline void settle_owed(struct party *party)
{
	u64 since = party->owed_at, clock = party->clock;

	party->owed = progress_owed_still(party->owed, since, clock, slice_ns);
	party->owed_at = party->owed ? progress_owed_since(since, clock, slice_ns) : clock;
}

/* A task of @party leaves a debt: in all, a turn of each CPU at most, or some could be owed for seconds. */
static __always_inline void owe(struct party *party, u64 ns)
{
	u64 most = nr_cpus * slice_ns;

	settle_owed(party);
	party->owed = party->owed + ns < most ? party->owed + ns : most;
}

/* @vtime of a task that goes on with the work of @party, with the debt that it takes over where the clock stands at @clock. */
static __always_inline u64 take_over(struct party *party, u64 vtime, u64 clock)
{
	u64 taken;

	if (!party->owed)
		return vtime;
	settle_owed(party);
	taken = progress_takes_over(vtime, party->owed, clock, slice_ns);
	party->owed -= taken;
	return vtime + taken;
}

/* Whether a party of @domain may hold something. */
static __always_inline bool others_may_wait(u32 domain)
{
	return domain_at(domain)->party_words;
}

/* Whether only the root's own party may. */
static __always_inline bool is_only_root(u32 domain)
{
	return domain_at(domain)->party_words == 1 && domain_at(domain)->party_waiting[0] == 1;
}

/* @party has wanted nothing, or could have nothing: it is not owed for that. */
static __always_inline void rise_to(struct party *party, u64 floor)
{
	if (policy_before(party->vtime, floor))
		party->vtime = floor;
}

/* @party is in the cgroup at @group. It goes no farther behind than that has come as a whole, nor than those above. */
__noinline int rise_to_wholes(struct party *party __arg_nonnull, u32 group, u64 clock)
{
	u64 floor = party->vtime;
	u32 i;

	bpf_for(i, 0, GROUP_DEPTH) {
		struct party *cgroup = step_up(&group);

		if (!cgroup)
			break;
		cgroup->whole_vtime = party_whole(cgroup->whole_vtime, clock);
		floor = party_floor(floor, cgroup->whole_vtime, slice_ns, nr_cpus);
	}
	party->vtime = floor;
	return 0;
}

/* The same of the party at @index, and the cgroup that its tasks are in. */
static __always_inline void keep_with_wholes(struct party *party, u32 index, const struct domain *domain)
{
	u32 group = group_behind(index, party);

	if (group)
		rise_to_wholes(party, group, domain->clock);
}

/* A task of @party, the one at @index, wants a CPU of @domain. */
static __always_inline void party_wants(struct party *party, u32 index, const struct domain *domain, u64 credit)
{
	rise_to(party, domain->clock - credit);
	keep_with_wholes(party, index, domain);
}

/*
 * A task of the party at @index ran for @ran while somebody waited for it, and others waited for the CPU. The party pays for that with its next
 * turn, so the next thing that it does for nobody is not late. A turn is the most that it is due: a request may have two seconds before its
 * budget ends, and what its program does between two requests would wait for as long. Two CPUs at once may forget a part.
 *
 * Periods of a channel that a process writes to come again and again, so they are paid for @at_once and whole, as if nobody had waited.
 */
__noinline int charge_attended_party(u32 index, u64 ran, bool at_once)
{
	struct domain *domain = domain_at(domain_here());
	struct party *party = try_party(index);

	if (!party || is_only(domain, index))
		return 0;
	if (at_once) {
		party_wants(party, index, domain, slice_ns);
		charge_party(party, index, ran);
		return 0;
	}
	ran += party->due_ns;
	party->due_ns = ran < slice_ns ? ran : slice_ns;
	return 0;
}

/*
 * A limit keeps @party from running. It goes on a turn behind the clock: several CPUs may take one party at once
 * before the first pays for its turn, and the refill of a period shows it to all of them at the same moment.
 */
static __always_inline void wait_for_refill(struct party *party, struct domain *domain)
{
	rise_to(party, domain->clock + party_charge(slice_ns, party->scale));
}

/* A task is about to be put into the queue of @party, the one at @index, in @domain. */
static __always_inline void party_fills(struct party *party, u32 index, struct domain *domain, u64 credit, u64 now)
{
	u32 word = word_of(index);

	party->used_ns = now;
	party_wants(party, index, domain, credit);
	if (!knows_queues())
		note_filled(domain, now);
	if (mark_filled(&domain->party_waiting[word], &domain->party_used[word], bit_of(index)))
		__sync_fetch_and_or(&domain->party_words, 1ULL << word);
}

/* The queue of the party at @index was found empty. */
static __always_inline void party_is_empty(u32 index)
{
	struct domain *domain = domain_at(0);
	u32 word = word_of(index);

	if (!knows_queues())
		return;
	domain->party_waiting[word] &= ~bit_of(index);
	if (!domain->party_waiting[word])
		domain->party_words &= ~(1ULL << word);
}

/* See struct domain. */
static __noinline int forget_parties(u32 index)
{
	struct domain *domain = domain_at(index);
	u32 word, i;

	bpf_for(word, 0, PARTY_WORDS) {
		u64 *waiting = &domain->party_waiting[word % PARTY_WORDS], *used = &domain->party_used[word % PARTY_WORDS];
		u64 idle = begin_marks(waiting, used);

		if (!idle)
			continue;
		bpf_for(i, 0, 64) {
			if (idle >> i & 1 && !scx_bpf_dsq_nr_queued(queue_in(DSQ_PARTIES, index, word * 64 + i)))
				mark_empty(waiting, used, 1ULL << i);
		}
		if (!domain->party_waiting[word % PARTY_WORDS])
			__sync_fetch_and_and(&domain->party_words, ~(1ULL << word));
		/* A task may have come in between. */
		if (domain->party_waiting[word % PARTY_WORDS])
			__sync_fetch_and_or(&domain->party_words, 1ULL << word);
	}
	return 0;
}

/* In limits.bpf.h. */
bool is_limited(u32 group, u64 now);

/* This CPU's look, over all parties that may hold a task in the domain at @index. */
static __always_inline struct party_look *begin_party_look(u32 index)
{
	struct party_look *look;
	struct domain *domain = domain_at(index);
	u32 zero = 0, i;
	u64 words;

	look = bpf_map_lookup_elem(&party_looks, &zero);
	if (!look)
		return NULL;
	look->domain = index;
	look->words = words = domain->party_words;
	look->now = nr_limits ? scx_bpf_now() : 0;
	bpf_for(i, 0, PARTY_WORDS) {
		u32 word;

		if (!words)
			break;
		word = lowest_bit(words) % PARTY_WORDS;
		words &= words - 1;
		look->left[word] = domain->party_waiting[word];
	}
	return look;
}

/* Finds the party with the smallest virtual time in one word, if it beats the best so far. */
static __noinline int least_of_word(struct party_look *look)
{
	u64 bits;
	u32 i;

	if (!look)
		return 0;
	bits = look->left[look->word % PARTY_WORDS];
	bpf_for(i, 0, 64) {
		struct party *party;
		u32 index;

		if (!bits)
			break;
		index = look->word * 64 + lowest_bit(bits);
		bits &= bits - 1;
		party = try_party(index);
		if (!party || (look->best < PARTIES && !policy_before(party->vtime, look->vtime)))
			continue;
		if (!knows_queues() && scx_bpf_dsq_nr_queued(queue_in(DSQ_PARTIES, look->domain, index)) <= 0)
			continue;
		if (nr_limits && is_limited(group_behind(index, party), look->now)) {
			wait_for_refill(party, domain_at(look->domain));
			continue;
		}
		look->best = index;
		look->vtime = party->vtime;
	}
	return 0;
}

/* Takes the party with the smallest virtual time out of the look. PARTIES: none is left. */
static __noinline u32 next_party(struct party_look *look)
{
	u64 words;
	u32 i;

	if (!look)
		return PARTIES;
	look->best = PARTIES;
	words = look->words;
	bpf_for(i, 0, PARTY_WORDS) {
		if (!words)
			break;
		look->word = lowest_bit(words) % PARTY_WORDS;
		words &= words - 1;
		least_of_word(look);
	}
	if (look->best < PARTIES)
		look->left[word_of(look->best)] &= ~bit_of(look->best);
	return look->best;
}

/* The party that goes next in @domain. PARTIES: none waits. */
__noinline u32 first_party(u32 domain)
{
	struct party_look *look;

	if (!others_may_wait(domain))
		return PARTIES;
	if (is_only_root(domain))
		return 0;
	look = begin_party_look(domain);
	return look ? next_party(look) : PARTIES;
}

/* The party of the customer in @slot in @group, or @group itself if there are too many. */
__noinline u32 spender_of(u32 slot, u32 group)
{
	u64 id = (u64)slot << 32 | group | 1ULL << 63;
	struct appease_customer *customer;
	u32 i;

	bpf_for(i, 0, SPENDER_TRIES) {
		u32 index = GROUPS + (slot * 31 + group + i) % SPENDERS;
		struct party *party = try_party(index);

		if (!party)
			break;
		if (party->id == id)
			return index;
		if (party->id || __sync_val_compare_and_swap(&party->id, 0, id))
			continue;
		customer = try_customer(slot);
		party->weight = customer ? customer->weight : POLICY_WEIGHT_DEFAULT;
		party->parent = group;
		party->vtime = domain_at(domain_here())->clock;
		party->scale = 0;
		spends = true;
		return index;
	}
	return group;
}

/* Adds the party at @index, which wants the CPU, to the next count. */
static __noinline void count_party(u32 index)
{
	u64 count = party_count + 1, which = count & 1;
	struct party *entry = try_party(index);
	u32 i, group, weight = 0, weight_here;

	if (!entry || entry->counted_at == count)
		return;
	entry->counted_at = count;
	weight_here = weight_in_group(index, entry);
	group = group_behind(index, entry);
	barrier_var(group);
	bpf_for(i, 0, GROUP_DEPTH) {
		bool is_first;

		entry = try_party(group);
		if (!entry)
			break;
		is_first = entry->counts[which] != count;
		if (is_first) {
			entry->counts[which] = count;
			entry->sums[which] = entry->members[which] = 0;
		}
		if (weight)
			entry->sums[which] += weight;
		else
			entry->members[which] += weight_here;
		if (!is_first || !group)
			break;
		weight = entry->weight;
		group = entry->parent;
	}
}

#endif
