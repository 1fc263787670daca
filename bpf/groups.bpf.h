/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Cgroups with the cpu controller: their weights, and what wants the CPU in each, so that the other lanes' virtual times go by
 * cpu.weight (policy/progress.h). Where no cgroup below the root has the controller, nobody pays for this.
 *
 * Ten times a second all who wait in the other lane or run are counted, by scan_queues(): exactly, for to keep sums at each
 * wake-up and each sleep would cost two callbacks of the kernel each time.
 */
#ifndef APPEASE_GROUPS_BPF_H
#define APPEASE_GROUPS_BPF_H

#include "policy/progress.h"

/* Cgroups that have weights of their own; one beyond that counts as a part of its parent. */
#define GROUPS 1024
/* And so many are told apart at all. */
#define GROUPS_KNOWN 8192
/* Cgroups above a task whose weights count. */
#define GROUP_DEPTH 8

/* Group 0 is the root, which has no weight. */
struct group {
	u64 id;		/* 0: not in use */
	u32 weight;	/* of which PROGRESS_WEIGHT_0 is cpu.weight 100 */
	u32 parent;
	/* Weights of who wants the CPU, and of cgroups in which somebody does; of the last count and of the next. */
	u64 counts[2];
	u64 sums[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, GROUPS);
	__type(key, u32);
	__type(value, struct group);
} groups SEC(".maps");

/* Groups by the id of the cgroup. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GROUPS_KNOWN);
	__type(key, u64);
	__type(value, u32);
} group_ids SEC(".maps");

/* Cgroups below the root; while there are none, nothing is counted. */
static u64 nr_groups;

/* The last complete count. */
static u64 group_count;

static __always_inline struct group *try_group(u32 group)
{
	return bpf_map_lookup_elem(&groups, &group);
}

static __always_inline u32 group_of(struct cgroup *cgroup)
{
	u64 id = cgroup->kn->id;
	u32 *group = bpf_map_lookup_elem(&group_ids, &id);

	return group ? *group : 0;
}

/* What all that wants the CPU in @group weighs, one entity of @weight among it. */
static __always_inline u64 group_sum(const struct group *group, u32 weight)
{
	u64 count = group_count, sum = group->counts[count & 1] == count ? group->sums[count & 1] : 0;

	return sum > weight ? sum : weight;
}

/* What @charge_ns of a task of @weight in @group comes to by the weights of its cgroups, ns. */
__noinline u64 charge_in_group(u32 group, u32 weight, u64 charge_ns)
{
	struct group *entry;
	u32 i;

	/* Or the compiler would look it up inside the loop, by an index that the verifier knows no bounds of there. */
	barrier_var(weight);
	bpf_for(i, 0, GROUP_DEPTH) {
		entry = group ? try_group(group) : NULL;
		if (!entry)
			break;
		charge_ns = progress_group_charge(charge_ns, group_sum(entry, weight), entry->weight);
		weight = entry->weight;
		group = entry->parent;
	}
	return charge_ns;
}

/* The next count has found an entity of @weight in @group. */
static __always_inline void count_in_group(u32 group, u32 weight)
{
	u64 count = group_count + 1, which = count & 1;
	struct group *entry;
	u32 i;

	barrier_var(weight);
	bpf_for(i, 0, GROUP_DEPTH) {
		entry = group ? try_group(group) : NULL;
		if (!entry)
			break;
		if (entry->counts[which] == count) {
			entry->sums[which] += weight;
			break;
		}
		entry->counts[which] = count;
		entry->sums[which] = weight;
		weight = entry->weight;
		group = entry->parent;
	}
}

/* The group of the cgroup above @cgroup. */
static __always_inline u32 parent_group(struct cgroup *cgroup)
{
	struct cgroup *parent = bpf_cgroup_ancestor(cgroup, cgroup->level - 1);
	u32 group = 0;

	if (parent) {
		group = group_of(parent);
		bpf_cgroup_release(parent);
	}
	return group;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(appease_cgroup_init, struct cgroup *cgroup, struct scx_cgroup_init_args *args)
{
	u64 id = cgroup->kn->id;
	u32 i, parent, group;

	if (!cgroup->level)
		return 0;
	group = parent = parent_group(cgroup);
	bpf_for(i, 1, GROUPS) {
		u32 slot = i;
		struct group *entry = try_group(slot);

		if (!entry || __sync_val_compare_and_swap(&entry->id, 0, id))
			continue;
		entry->weight = progress_group_weight(args->weight);
		entry->parent = parent;
		entry->counts[0] = entry->counts[1] = 0;
		group = slot;
		__sync_fetch_and_add(&nr_groups, 1);
		break;
	}
	/* Without room it is as if its tasks were its parent's. */
	bpf_map_update_elem(&group_ids, &id, &group, BPF_ANY);
	return 0;
}

void BPF_STRUCT_OPS(appease_cgroup_exit, struct cgroup *cgroup)
{
	u64 id = cgroup->kn->id;
	u32 group = group_of(cgroup);
	struct group *entry = group ? try_group(group) : NULL;

	bpf_map_delete_elem(&group_ids, &id);
	if (entry && __sync_val_compare_and_swap(&entry->id, id, 0) == id)
		__sync_fetch_and_add(&nr_groups, -1);
}

void BPF_STRUCT_OPS(appease_cgroup_set_weight, struct cgroup *cgroup, u32 weight)
{
	u32 group = group_of(cgroup);
	struct group *entry = group ? try_group(group) : NULL;

	if (entry && entry->id == cgroup->kn->id)
		entry->weight = progress_group_weight(weight);
}

#endif
