/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Channels: which accesses count as an interaction, by rules that the daemon writes.
 *
 *	class		input devices, terminals, mice, joysticks, raw HID, sound: hooks of their own, the rule in the slot of their kind
 *	target		anything else: what was accessed is looked up, and leads to the rules for it
 *
 * A rule says which operation counts and whose: user, group, cgroup. The first that fits is the one that counts.
 */
#ifndef APPEASE_CHANNELS_BPF_H
#define APPEASE_CHANNELS_BPF_H

#include "handlers.bpf.h"

/* From kernel headers; constants do not travel in BTF. */
#define NGROUPS_MAX_LOG2 16

/* A channel that is read in quick succession is one interaction. */
#define SAME_REQUEST_NS 5000000ULL
/* One that is written to goes on while nobody does anything new: shortest period that is told apart. */
#define SAME_PERIOD_NS 10000000ULL

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, APPEASE_MAX_RULES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct appease_target);
	__type(value, struct appease_rules);
} targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, APPEASE_MAX_RULES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct appease_unix_name);
	__type(value, struct appease_rules);
} unix_names SEC(".maps");

/* Kept by the daemon. */
struct appease_ports watched SEC(".data.watched");

/* An end of a file or a socket for datagrams. */
struct place {
	u64 address;
	u64 number;	/* what tells it from others that had that address, if anything does */
	u64 access;	/* enum appease_access: what who is there does */
};

/* Who was there last: a process that feeds itself has no customer. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct place);
	__type(value, u32);
} last_at SEC(".maps");

/* The current process is at @place. */
static __always_inline void note_there(const struct place *place)
{
	u32 tgid = current_tgid();

	bpf_map_update_elem(&last_at, place, &tgid, BPF_ANY);
}

/* Generations by which two processes of a family are apart, at most. */
#define GENERATIONS 16

static __always_inline bool descends_from(struct task_struct *task, u32 tgid)
{
	u32 i, of;

	bpf_for(i, 0, GENERATIONS) {
		of = BPF_CORE_READ(task, tgid);
		/* Everybody's ancestor is nobody's family. */
		if (of <= 1)
			break;
		if (of == tgid)
			return true;
		task = BPF_CORE_READ(task, real_parent);
	}
	return false;
}

/*
 * Whether the process @tgid at the other end is the current one or was started by it, itself or by others. One that has gone
 * waits for nothing, and may have been a child.
 */
__noinline int is_offspring(u32 tgid)
{
	struct task_struct *other;
	bool is;

	if (tgid == current_tgid())
		return true;
	other = bpf_task_from_pid(tgid);
	if (!other)
		return true;
	is = descends_from(other, current_tgid());
	bpf_task_release(other);
	return is;
}

/* The same, or the other way round. */
static __always_inline bool is_family(u32 tgid)
{
	return is_offspring(tgid) || descends_from(bpf_get_current_task_btf(), tgid);
}

/* Who was last at @place; 0: nobody since the rule came. */
static __always_inline u32 last_there(const struct place *place)
{
	u32 *tgid = bpf_map_lookup_elem(&last_at, place);

	return tgid ? *tgid : 0;
}

/* Whether the current task has the supplementary group @gid; they are sorted. */
__noinline int is_in_group(u32 gid)
{
	struct group_info *info = BPF_CORE_READ(bpf_get_current_task_btf(), cred, group_info);
	u32 low = 0, high = BPF_CORE_READ(info, ngroups), i;
	int is_found = 0;

	bpf_for(i, 0, NGROUPS_MAX_LOG2 + 1) {
		u32 middle = low + (high - low) / 2, value = 0;

		if (low >= high || bpf_core_read(&value, sizeof(value), &info->gid[middle]))
			break;
		if (value == gid) {
			is_found = 1;
			break;
		}
		if (value < gid)
			low = middle + 1;
		else
			high = middle;
	}
	return is_found;
}

/* Whether the rule in @slot counts what the current task does: such an @access, by such a task. */
__noinline int is_counted(u32 slot, u32 access)
{
	struct appease_rule *rule = bpf_map_lookup_elem(&rules, &slot);
	u64 ids;

	if (!rule || !(rule->access & access) || bpf_get_current_task_btf()->flags & PF_KTHREAD)
		return 0;
	if (!rule->flags)
		return 1;
	ids = bpf_get_current_uid_gid();
	if (rule->flags & APPEASE_RULE_HAS_UID && (u32)ids != rule->uid)
		return 0;
	if (rule->flags & APPEASE_RULE_HAS_GID && ids >> 32 != rule->gid && !is_in_group(rule->gid))
		return 0;
	return !(rule->flags & APPEASE_RULE_HAS_CGROUP) ||
	       bpf_get_current_ancestor_cgroup_id(rule->cgroup_level) == rule->cgroup_id;
}

/* Of the rules of a target, the first that counts this; 0: none. */
static __always_inline u32 first_counting(const struct appease_rules *found, u32 access)
{
	u32 i;

	if (!found)
		return 0;
	bpf_for(i, 0, APPEASE_RULES_AT_TARGET) {
		u32 slot = found->slots[i & (APPEASE_RULES_AT_TARGET - 1)];

		if (slot && is_counted(slot, access))
			return slot;
	}
	return 0;
}

__noinline u32 rule_for(const struct appease_target *target, u32 access)
{
	return target ? first_counting(bpf_map_lookup_elem(&targets, target), access) : 0;
}

/* The current process made use of the channel of @rule. */
static __always_inline void remember_handler(struct appease_rule *rule)
{
	u64 start_ns = readable(bpf_get_current_task_btf(), struct task_struct)->group_leader->start_boottime;
	u32 latest = (rule->next_handler - 1) & (APPEASE_RULE_HANDLERS - 1), tgid = current_tgid();

	if (rule->handlers[latest].start_ns == start_ns && rule->handlers[latest].tgid == tgid)
		return;
	latest = rule->next_handler++ & (APPEASE_RULE_HANDLERS - 1);
	rule->handlers[latest].start_ns = start_ns;
	rule->handlers[latest].tgid = tgid;
}

/*
 * The current process accessed @source, which the rule in @slot counts: an interaction. Each program calls this at one place, when
 * it knows the rule: Linux 7.2 goes anew through a function, and through those behind it, for each call that hands it a pointer to
 * the stack, and most of a program is behind this one. The slot + 1 of its request; 0: there is none.
 */
__noinline int channel_hit(u32 slot, const struct source *source, u32 access, u64 now)
{
	struct appease_rule *rule = bpf_map_lookup_elem(&rules, &slot);
	struct appease_process *process;
	u32 opened;

	if (!rule || !source)
		return 0;
	__sync_fetch_and_add(&rule->hits, 1);
	rule->last_ns = now;
	remember_handler(rule);
	if (policy == APPEASE_POLICY_RBPE)
		return 0;
	if (policy == APPEASE_POLICY_RSIO) {
		activate_handler(source->object, slot, access, now);
		return 0;
	}
	process = current_process();
	if (!process)
		return 0;
	opened = open_request(process, source, slot, access, access == APPEASE_READ ? SAME_REQUEST_NS : SAME_PERIOD_NS, now);
	if (opened && process->has_partners && process->attention.since_ns == now)
		judge_later(current_tgid(), now);
	return opened;
}

/* A device of a class was accessed: the rules for this one, else the rule for its class. */
static __always_inline void device_hit(u32 channel, u32 device, u32 access)
{
	struct source source = { .object = device, .channel = channel };
	u32 slot = 0;

	if (watched.flags & APPEASE_PORTS_DEVICES) {
		struct appease_target target = { .kind = APPEASE_TARGET_DEVICE, .id = { device } };

		slot = rule_for(&target, access);
	}
	if (!slot && is_counted(channel, access))
		slot = channel;
	if (slot)
		channel_hit(slot, &source, access, bpf_ktime_get_ns());
}

#endif
