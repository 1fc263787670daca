// SPDX-License-Identifier: GPL-2.0-only
/*
 * The laboratory's meter: what a keyboard did, when the screen changed, and how long processes
 * waited for CPU, by the kernel's own clock. It only observes, and nobody reads its ring buffer
 * before the measurement is over, so no user process lies on the measured path.
 *
 * The structures of the kernel that it reads are declared here with the few members used; the
 * loader relocates them to the running kernel.
 */
#include "meter.h"

typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef s32 __s32;
typedef u8 __u8;
typedef long long __s64;
typedef u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;
typedef _Bool bool;
#define false 0
#define true 1

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_NOEXIST = 1,
	BPF_RB_NO_WAKEUP = 1,
};

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

char LICENSE[] SEC("license") = "GPL";

#define RELOCATED __attribute__((preserve_access_index))

struct input_id {
	u16 bustype, vendor, product, version;
} RELOCATED;

struct input_dev {
	struct input_id id;
} RELOCATED;

struct task_struct {
	int pid;
	int prio;
	unsigned int policy;
	int nr_cpus_allowed;
	char comm[16];
} RELOCATED;

struct sock_common {
	__be16 skc_dport;
} RELOCATED;

struct sock {
	struct sock_common __sk_common;
} RELOCATED;

#define EV_KEY 1
#define KEY_PRESSED 1
#define MAX_RT_PRIO 100
#define SCHED_IDLE 5
#define TASK_RUNNING 0
#define TASK_DEAD 0x80

const volatile struct meter_config config;
struct meter_machine machine;
struct meter_control control SEC(".data.control");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u32);
	__type(value, struct meter_task);
} tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct meter_totals);
} totals SEC(".maps");

/* Too large for the stack, and of very different lengths. There is one X server, so nobody else writes it meanwhile. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct meter_update);
} updates SEC(".maps");

static __always_inline u64 measuring_since(void)
{
	return *(volatile u64 *)&control.begin_ns;
}

static __always_inline struct meter_totals *this_cpu(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&totals, &zero);
}

/* There was no room for an event. */
static __always_inline void count_lost_event(void)
{
	struct meter_totals *t = this_cpu();

	if (t)
		t->lost_events++;
}

/* An event of now, to be filled in and submitted; one that there is no room for is counted. */
static __always_inline struct meter_event *try_new_event(void)
{
	struct meter_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (event)
		event->at_ns = bpf_ktime_get_ns();
	else
		count_lost_event();
	return event;
}

SEC("fentry/input_event")
int BPF_PROG(on_input, struct input_dev *dev, unsigned int type, unsigned int code, int value)
{
	struct meter_event *event;

	if (!measuring_since() || dev->id.vendor != config.vendor || dev->id.product != config.product)
		return 0;
	if (type != EV_KEY || value != KEY_PRESSED)
		return 0;
	event = try_new_event();
	if (!event)
		return 0;
	event->kind = METER_KEY;
	event->code = code;
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

/* By now the kernel has a copy of the clips: in the server's own memory they may be out of reach, as while a page moves. */
SEC("fentry/drm_atomic_helper_dirtyfb")
int BPF_PROG(on_screen_update, void *framebuffer, void *file, unsigned int flags, unsigned int color, void *clips,
	     unsigned int num_clips)
{
	u32 zero = 0, nr = clips ? num_clips : 0;
	struct meter_update *update;

	if (!measuring_since())
		return 0;
	update = bpf_map_lookup_elem(&updates, &zero);
	if (!update)
		return 0;
	/* Keeps the comparison as the verifier needs to see it. */
	barrier_var(nr);
	if (nr > METER_MAX_CLIPS || bpf_probe_read_kernel(update->clips, nr * sizeof(struct meter_clip), clips))
		nr = 0;
	update->event.at_ns = bpf_ktime_get_ns();
	update->event.kind = METER_UPDATE;
	update->event.code = nr;
	if (bpf_ringbuf_output(&events, update, sizeof(update->event) + nr * sizeof(struct meter_clip),
			       BPF_RB_NO_WAKEUP))
		count_lost_event();
	return 0;
}

/* A browser sends a request for a page as one message. */
SEC("fentry/tcp_sendmsg")
int BPF_PROG(on_request, struct sock *sk)
{
	struct meter_event *event;

	if (!measuring_since() || sk->__sk_common.skc_dport != bpf_htons(config.page_port))
		return 0;
	event = try_new_event();
	if (!event)
		return 0;
	event->kind = METER_REQUEST;
	event->code = config.page_port;
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline bool is_normal(struct task_struct *p)
{
	return p->prio >= MAX_RT_PRIO && p->policy != SCHED_IDLE;
}

static struct meter_task *task_of(struct task_struct *p)
{
	struct meter_task fresh = {}, *found;
	u32 pid = p->pid;

	found = bpf_map_lookup_elem(&tasks, &pid);
	if (found)
		return found;
	bpf_probe_read_kernel(fresh.comm, sizeof(fresh.comm), p->comm);
	bpf_map_update_elem(&tasks, &pid, &fresh, BPF_NOEXIST);
	found = bpf_map_lookup_elem(&tasks, &pid);
	if (!found) {
		struct meter_totals *t = this_cpu();

		if (t)
			t->lost_tasks++;
	}
	return found;
}

/*
 * Time in which a CPU was idle while a task that may run anywhere waited. The two counters change
 * one after the other without a lock, so an interval may be off by the time of one context switch.
 */
static __always_inline void account_machine(u64 now, s32 waiting, s32 idle)
{
	u64 since;

	if (waiting)
		__sync_fetch_and_add(&machine.nr_waiting, waiting);
	if (idle)
		__sync_fetch_and_add(&machine.nr_idle, idle);
	if (*(volatile s32 *)&machine.nr_waiting > 0 && *(volatile s32 *)&machine.nr_idle > 0) {
		__sync_val_compare_and_swap(&machine.idle_while_waiting_since_ns, 0, now);
		return;
	}
	since = *(volatile u64 *)&machine.idle_while_waiting_since_ns;
	if (!since || __sync_val_compare_and_swap(&machine.idle_while_waiting_since_ns, since, 0) != since)
		return;
	if (since < measuring_since())
		since = measuring_since();
	if (measuring_since() && now > since)
		__sync_fetch_and_add(&machine.idle_while_waiting_ns, now - since);
}

/* Returns by how much the number of waiting tasks changes. */
static s32 begin_wait(struct meter_task *task, struct task_struct *p, u64 now)
{
	task->waiting_since_ns = now;
	task->is_normal = is_normal(p);
	if (!task->is_normal || task->is_counted || p->nr_cpus_allowed < config.nr_cpus)
		return 0;
	task->is_counted = 1;
	return 1;
}

static s32 end_wait(struct meter_task *task, struct task_struct *p, u64 now)
{
	struct meter_totals *t = this_cpu();
	u64 wait = now - task->waiting_since_ns;
	s32 change = 0;

	if (!task->waiting_since_ns || !t)
		return 0;
	task->waiting_since_ns = 0;
	if (task->is_counted) {
		task->is_counted = 0;
		change = -1;
	}
	if (!measuring_since() || !task->is_normal)
		return change;
	if (wait > task->longest_wait_ns)
		task->longest_wait_ns = wait;
	if (task->is_load && wait > t->load_longest_wait_ns)
		t->load_longest_wait_ns = wait;
	if (wait > t->longest_wait_ns) {
		t->longest_wait_ns = wait;
		bpf_probe_read_kernel(t->longest_wait_comm, sizeof(t->longest_wait_comm), p->comm);
	}
	return change;
}

static void end_run(struct meter_task *task, u64 now)
{
	u64 begin = measuring_since(), since = task->running_since_ns;
	struct meter_totals *t = this_cpu();

	task->running_since_ns = 0;
	if (!t || !since || !begin)
		return;
	if (since < begin)
		since = begin;
	if (now <= since)
		return;
	task->ran_ns += now - since;
	if (task->is_load)
		t->load_ran_ns += now - since;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
{
	struct meter_totals *t = this_cpu();
	u64 now = bpf_ktime_get_ns();
	s32 waiting = 0, idle = 0;
	struct meter_task *task;
	u32 pid = prev->pid;

	if (!t)
		return 0;
	if (pid) {
		task = task_of(prev);
		if (task) {
			end_run(task, now);
			if (preempt || prev_state == TASK_RUNNING)
				waiting += begin_wait(task, prev, now);
			else if (prev_state & TASK_DEAD)
				bpf_map_delete_elem(&tasks, &pid);
		}
	}
	if (next->pid) {
		task = task_of(next);
		if (task) {
			waiting += end_wait(task, next, now);
			task->running_since_ns = now;
		}
	}
	if (t->is_idle != !next->pid) {
		t->is_idle = !next->pid;
		idle = t->is_idle ? 1 : -1;
	}
	account_machine(now, waiting, idle);
	return 0;
}

static void on_runnable(struct task_struct *p)
{
	u64 now = bpf_ktime_get_ns();
	struct meter_task *task = task_of(p);

	/* A task may be woken while it still runs, on its way to sleep: then it never waited. */
	if (task && !task->waiting_since_ns && !task->running_since_ns)
		account_machine(now, begin_wait(task, p, now), 0);
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *p)
{
	on_runnable(p);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *p)
{
	on_runnable(p);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	struct meter_task *of_parent = task_of(parent), *of_child;

	if (!of_parent || !of_parent->is_load)
		return 0;
	of_child = task_of(child);
	if (of_child)
		of_child->is_load = 1;
	return 0;
}

/* A program may have another name than the process that it replaces. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *p)
{
	struct meter_task *task = task_of(p);

	if (task)
		bpf_probe_read_kernel(task->comm, sizeof(task->comm), p->comm);
	return 0;
}
