/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Cgroups with the cpu controller: the kernel tells their weights, limits and cpu.idle, and each gets a
 * party (parties.bpf.h).
 */
#ifndef APPEASE_GROUPS_BPF_H
#define APPEASE_GROUPS_BPF_H

#include "parties.bpf.h"

/* Whether the kernel, as before 7.0, does not tell of cpu.idle, so that each scan looks at some cgroups (scans.bpf.h): all within a second. */
const volatile bool asks_for_idle;
#define IDLE_LOOKS 256

/* Cgroups that are told apart at all. */
#define GROUPS_KNOWN 8192

/* Parties of cgroups by their ids. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GROUPS_KNOWN);
	__type(key, u64);
	__type(value, u32);
} group_ids SEC(".maps");

static __always_inline u32 group_of(struct cgroup *cgroup)
{
	u64 id = cgroup->kn->id;
	u32 *group = bpf_map_lookup_elem(&group_ids, &id);

	return group ? *group : 0;
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

/* The kernel's value for no limit. */
#define NO_LIMIT (~0ULL)

static __always_inline void set_limit(struct party *party, u64 period_us, u64 quota_us, u64 burst_us)
{
	bool had_limit = party->quota_ns, has_limit = quota_us != NO_LIMIT;

	party->period_ns = period_us * 1000;
	party->burst_ns = has_limit ? burst_us * 1000 : 0;
	party->period_at = scx_bpf_now();
	party->left_ns = has_limit ? quota_us * 1000 : 0;
	party->quota_ns = has_limit ? quota_us * 1000 : 0;
	if (had_limit != has_limit)
		__sync_fetch_and_add(&nr_limits, has_limit ? 1 : -1);
}

static __always_inline void set_idle(struct party *party, bool is_idle)
{
	if (party->is_idle == is_idle)
		return;
	party->is_idle = is_idle;
	__sync_fetch_and_add(&nr_idle_groups, is_idle ? 1 : -1);
}

/* Whether @group or a cgroup above it is idle. */
__noinline bool is_idle_group(u32 group)
{
	struct party *party;
	u32 i;

	bpf_for(i, 0, GROUP_DEPTH) {
		party = step_up(&group);
		if (!party)
			break;
		if (party->is_idle)
			return true;
	}
	return false;
}

/* Those of the party at @index, in all domains. Some may be there, if there was no memory for all. */
static __always_inline s32 create_party_queues(u32 index)
{
	s32 err = 0;
	u32 i;

	bpf_for(i, 0, nr_domains) {
		s32 failed = scx_bpf_create_dsq(queue_in(DSQ_PARTIES, i, index), -1);

		if (failed && failed != -EEXIST)
			err = failed;
	}
	return err;
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
		struct party *entry = try_party(slot);

		if (!entry || __sync_val_compare_and_swap(&entry->id, 0, id))
			continue;
		/* The queue stays for the next cgroup: a CPU may be looking at it. */
		if (!entry->has_queue && create_party_queues(slot)) {
			entry->id = 0;
			break;
		}
		entry->has_queue = 1;
		entry->weight = progress_group_weight(args->weight);
		if (bpf_core_field_exists(args->bw_quota_us))
			set_limit(entry, args->bw_period_us, args->bw_quota_us, args->bw_burst_us);
		if (bpf_core_field_exists(args->sched_idle))
			set_idle(entry, args->sched_idle);
		entry->parent = parent;
		entry->vtime = entry->whole_vtime = domain_at(domain_here())->clock;
		entry->scale = entry->whole_scale = 0;
		entry->counts[0] = entry->counts[1] = 0;
		group = slot;
		break;
	}
	/* Without room its tasks count as its parent's. */
	bpf_map_update_elem(&group_ids, &id, &group, BPF_ANY);
	return 0;
}

/* Looks whether the cgroup of @party is idle. */
static __noinline int ask_idle(struct party *party)
{
	struct cgroup *cgroup = party ? bpf_cgroup_from_id(party->id) : NULL;
	struct cgroup_subsys_state *css;

	if (!cgroup)
		return 0;
	css = cgroup->subsys[bpf_core_enum_value(enum cgroup_subsys_id, cpu_cgrp_id)];
	/* The first member of a task_group is its css. */
	if (css && party->id == cgroup->kn->id)
		set_idle(party, BPF_CORE_READ((struct task_group *)css, idle));
	bpf_cgroup_release(cgroup);
	return 0;
}

/* Cgroups that this look of the scans may still ask because their tasks wait. */
static u32 idle_asks;

/*
 * The same of that of the party at @index, a task of which waits. By turns alone, one that was made idle might have the part of
 * others for a second.
 */
static __noinline int ask_waiting_idle(u32 index)
{
	if (!index || index >= GROUPS || !idle_asks)
		return 0;
	idle_asks--;
	return ask_idle(try_party(index));
}

/* The same of the next some cgroups. */
static __noinline int ask_some_idle(void)
{
	static u32 next;
	u32 i;

	idle_asks = IDLE_LOOKS;
	bpf_for(i, 0, IDLE_LOOKS) {
		u32 index = next++ % GROUPS;
		struct party *party = index ? try_party(index) : NULL;

		if (party && party->id)
			ask_idle(party);
	}
	return 0;
}

void BPF_STRUCT_OPS(appease_cgroup_exit, struct cgroup *cgroup)
{
	u64 id = cgroup->kn->id;
	u32 group = group_of(cgroup);
	struct party *entry = group ? try_party(group) : NULL;

	bpf_map_delete_elem(&group_ids, &id);
	if (!entry || entry->id != id)
		return;
	set_limit(entry, 0, NO_LIMIT, 0);
	set_idle(entry, false);
	__sync_val_compare_and_swap(&entry->id, id, 0);
}

void BPF_STRUCT_OPS(appease_cgroup_set_weight, struct cgroup *cgroup, u32 weight)
{
	u32 group = group_of(cgroup);
	struct party *entry = group ? try_party(group) : NULL;

	if (entry && entry->id == cgroup->kn->id)
		entry->weight = progress_group_weight(weight);
}

void BPF_STRUCT_OPS(appease_cgroup_set_bandwidth, struct cgroup *cgroup, u64 period_us, u64 quota_us, u64 burst_us)
{
	u32 group = group_of(cgroup);
	struct party *entry = group ? try_party(group) : NULL;

	if (entry && entry->id == cgroup->kn->id)
		set_limit(entry, period_us, quota_us, burst_us);
}

void BPF_STRUCT_OPS(appease_cgroup_set_idle, struct cgroup *cgroup, bool is_idle)
{
	u32 group = group_of(cgroup);
	struct party *entry = group ? try_party(group) : NULL;

	if (entry && entry->id == cgroup->kn->id)
		set_idle(entry, is_idle);
}

#endif
