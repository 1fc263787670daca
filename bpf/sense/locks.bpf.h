/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Locks: an attended process that waits for one lifts the process that holds it, for as long as it waits. What the holder
 * then does is done for the waiter's request, and counts against that. A lock of the kernel's is handed from one to the next, so
 * those who wait in front are lifted, too: each would else take a round of the other lane to get the lock, hold it and let go.
 *
 * Inside a process there is nothing to do: all of it is attended. Semaphores and condition variables have no holder. Of several
 * who hold a lock for reading, the kernel knows the last one that came.
 */
#ifndef APPEASE_SENSE_LOCKS_BPF_H
#define APPEASE_SENSE_LOCKS_BPF_H

#include "../stamps.bpf.h"

/* From kernel headers; constants do not travel in BTF. */
#define LCB_F_SPIN 1
#define LCB_F_READ 2
#define LCB_F_WRITE 4
#define LCB_F_RT 8
#define LCB_F_PERCPU 16
#define LCB_F_MUTEX 32
#define OWNER_FLAGS 7UL
#define FLAGS_SHARED 0x10
#define FUTEX_WAITERS 0x80000000U
#define FUT_OFF_INODE 1
#define FUT_OFF_MMSHARED 2

/* Of glibc's pthread_mutex_t. */
#define GLIBC_OWNER_OFFSET 8
#define GLIBC_KIND_OFFSET 16
#define GLIBC_SHARED 0x80
#define GLIBC_CONTENDED 2

/* A lift ends with the waiting; this is for one whose end is not seen. */
#define LIFT_NS 1000000000ULL

/* Since 6.13. */
struct task_struct *bpf_task_from_vpid(s32 vpid) __ksym __weak;

/* Whether the current process is attended, and for what; until when, at most, @lift is to last. */
static __always_inline bool is_waiter_attended(struct appease_lift *lift, u64 now)
{
	struct appease_process *process;

	__builtin_memset(lift, 0, sizeof(*lift));
	lift->waiter = current_tgid();
	lift->until_ns = now + LIFT_NS;
	if (policy == APPEASE_POLICY_RSIO) {
		struct appease_handler *handler = try_handler(lift->waiter);

		if (!handler || !is_handling(handler, now))
			return false;
		lift->until_ns = earlier(lift->until_ns, handling_until(handler));
		return true;
	}
	process = try_current_process();
	if (!process)
		return false;
	if (try_lookup_request(&process->attention, now)) {
		lift->request_id = process->attention.request_id;
		lift->slot = process->attention.slot;
		return true;
	}
	/* Its own holder waits in turn. */
	if (try_lifted_for(process, now)) {
		lift->request_id = process->lift.request_id;
		lift->slot = process->lift.slot;
		return true;
	}
	return false;
}

/* Ends the lift of one process, if it is still the current task's. */
static __always_inline void end_lift_of(s32 tgid, u64 object)
{
	struct task_struct *holder = bpf_task_from_pid(tgid);
	struct appease_process *process;

	if (!holder)
		return;
	process = bpf_task_storage_get(&processes, holder->group_leader, 0, 0);
	if (process && process->lift.waiter == current_tgid() && process->lift.object == object)
		process->lift.until_ns = 0;
	bpf_task_release(holder);
}

/* The current task waits no longer for @object, which is as in appease_lift; 0: for whatever it was. */
static __noinline int end_lifts(u64 object)
{
	struct doing *doing = try_current_doing();
	u32 i, n;

	if (!doing || !doing->nr_lifted || (object && doing->waits_for != object))
		return 0;
	n = doing->nr_lifted;
	doing->nr_lifted = 0;
	bpf_for(i, 0, LIFTED_MAX) {
		if (i >= n)
			break;
		end_lift_of(doing->lifted[i & (LIFTED_MAX - 1)], doing->waits_for);
	}
	return 0;
}

/* The current task begins to wait for @object. False: nobody waits for it, and nobody is to be lifted. */
static __always_inline bool begin_lifts(struct appease_lift *lift, u64 object, u32 lock)
{
	u64 now;

	if (!is_armed())
		return false;
	now = bpf_ktime_get_ns();
	if (!is_waiter_attended(lift, now))
		return false;
	/* On its way to one lock it may have to wait for another. */
	end_lifts(0);
	lift->object = object;
	lift->lock = lock;
	return true;
}

static __always_inline void lift_task(struct task_struct *holder, const struct appease_lift *lift)
{
	struct appease_process *process;
	struct doing *doing;

	/* Kernel threads go first anyway, but for those that have time. */
	if (holder->tgid == lift->waiter || (is_kthread(holder) && !is_background(holder)))
		return;
	process = bpf_task_storage_get(&processes, holder->group_leader, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	doing = current_doing();
	if (!process || !doing || doing->nr_lifted >= LIFTED_MAX)
		return;
	doing->lifted[doing->nr_lifted++ & (LIFTED_MAX - 1)] = holder->tgid;
	doing->waits_for = lift->object;
	process->lift = *lift;
	__sync_fetch_and_add(&armed.lifts, 1);
	count(APPEASE_CNT_LIFTED);
}

/* Lifts the process of the task @pid; if that is @known, where that is known. */
static __noinline int lift_pid(s32 pid, const struct appease_lift *lift, u64 known)
{
	struct task_struct *holder;

	if (pid <= 0 || !lift)
		return 0;
	holder = bpf_task_from_pid(pid);
	if (!holder)
		return 0;
	if (!known || known == (u64)holder)
		lift_task(holder, lift);
	bpf_task_release(holder);
	return 0;
}

/*
 * By a task's pointer in a lock of the kernel's, which cannot be trusted: the task may end just now, and of readers the pointer
 * stays when they have gone.
 */
static __always_inline void lift_pointed(u64 task, const struct appease_lift *lift)
{
	if (task)
		lift_pid(BPF_CORE_READ((struct task_struct *)task, pid), lift, task);
}

/* As in 6.18. */
struct rw_semaphore___list {
	struct list_head wait_list;
} __attribute__((preserve_access_index));

struct mutex___list {
	struct list_head wait_list;
} __attribute__((preserve_access_index));

/* As in 7.2. */
struct rw_semaphore___first {
	struct rwsem_waiter *first_waiter;
} __attribute__((preserve_access_index));

struct mutex___first {
	struct mutex_waiter *first_waiter;
} __attribute__((preserve_access_index));

/* Whoever waits for a mutex or a semaphore begins with these two. */
struct lock_waiter {
	struct list_head list;
	struct task_struct *task;
};

/* Who waits longest for a lock of the kernel's type @type. */
#define first_waiter_of(type, lock)                                                                     \
	(bpf_core_field_exists(struct type##___first, first_waiter) ?                                   \
		 (u64)BPF_CORE_READ((struct type##___first *)(lock), first_waiter) :                    \
		 (u64)BPF_CORE_READ((struct type##___list *)(lock), wait_list.next))

/* Lifts those who wait from @waiter on, up to the current task. */
static __always_inline void lift_waiters(u64 waiter, const struct appease_lift *lift)
{
	u64 self = (u64)bpf_get_current_task_btf();
	struct lock_waiter read;
	u32 i;

	bpf_for(i, 0, LIFTED_MAX) {
		if (!waiter || bpf_probe_read_kernel(&read, sizeof(read), (void *)waiter) || (u64)read.task == self)
			break;
		lift_pointed((u64)read.task, lift);
		waiter = (u64)read.list.next;
	}
}

/* The kernel's own. */
SEC("tp_btf/contention_begin")
int appease_contention(u64 *ctx)
{
	void *lock = (void *)ctx[0];
	u64 owner, waiter = 0;
	u32 flags = ctx[1];
	struct appease_lift lift;

	if (flags & (LCB_F_SPIN | LCB_F_PERCPU) || !(flags & (LCB_F_MUTEX | LCB_F_RT | LCB_F_READ | LCB_F_WRITE)) ||
	    !begin_lifts(&lift, (u64)lock, APPEASE_LOCK_KERNEL))
		return 0;
	if (flags & LCB_F_MUTEX) {
		owner = BPF_CORE_READ((struct mutex *)lock, owner.counter);
		waiter = first_waiter_of(mutex, lock);
	} else if (flags & LCB_F_RT) {
		/* Among equals the kernel has its own inheritance, and the order is not that of coming. */
		owner = (u64)BPF_CORE_READ((struct rt_mutex_base *)lock, owner);
	} else {
		owner = BPF_CORE_READ((struct rw_semaphore *)lock, owner.counter);
		waiter = first_waiter_of(rw_semaphore, lock);
	}
	lift_pointed(owner & ~OWNER_FLAGS, &lift);
	lift_waiters(waiter, &lift);
	return 0;
}

SEC("tp_btf/contention_end")
int appease_contention_end(u64 *ctx)
{
	if (is_armed())
		end_lifts(ctx[0]);
	return 0;
}

/* Futexes with priority inheritance; the kernel's own inheritance ends among equals. */
SEC("fentry/rt_mutex_wait_proxy_lock")
int appease_pi_wait(u64 *ctx)
{
	struct appease_lift lift;

	if (!begin_lifts(&lift, ctx[0], APPEASE_LOCK_PI_FUTEX))
		return 0;
	lift_pointed((u64)BPF_CORE_READ((struct rt_mutex_base *)ctx[0], owner) & ~OWNER_FLAGS, &lift);
	return 0;
}

SEC("fexit/rt_mutex_wait_proxy_lock")
int appease_pi_wait_end(u64 *ctx)
{
	if (is_armed())
		end_lifts(ctx[0]);
	return 0;
}

/*
 * A mutex of glibc's that processes share: its owner stands beside the word that is waited on, which says that somebody waits:
 * in a number of glibc's, or in a robust mutex by the kernel's own bit. Other words have no known owner; then what stands
 * there is no task, or is not marked as shared.
 */
SEC("fentry/__futex_wait")
int appease_futex_wait(u64 *ctx)
{
	const char *word = (const char *)ctx[0];
	struct task_struct *holder;
	struct appease_lift lift;
	u32 owner = 0, kind = 0;

	if (!bpf_ksym_exists(bpf_task_from_vpid) || !(ctx[1] & FLAGS_SHARED) ||
	    ((u32)ctx[2] != GLIBC_CONTENDED && !((u32)ctx[2] & FUTEX_WAITERS)) ||
	    !begin_lifts(&lift, ctx[0], APPEASE_LOCK_FUTEX))
		return 0;
	if (bpf_probe_read_user(&owner, sizeof(owner), word + GLIBC_OWNER_OFFSET) ||
	    bpf_probe_read_user(&kind, sizeof(kind), word + GLIBC_KIND_OFFSET) || !(kind & GLIBC_SHARED))
		return 0;
	holder = bpf_task_from_vpid(owner);
	if (!holder)
		return 0;
	lift_task(holder, &lift);
	bpf_task_release(holder);
	return 0;
}

SEC("fexit/__futex_wait")
int appease_futex_wait_end(u64 *ctx)
{
	if (is_armed())
		end_lifts(ctx[0]);
	return 0;
}

/* flock and fcntl: the record of who waits is queued behind that of the lock, then no longer. */
SEC("fentry/__locks_insert_block")
int appease_file_lock_wait(u64 *ctx)
{
	struct appease_lift lift;

	if (!begin_lifts(&lift, ctx[1], APPEASE_LOCK_FILE))
		return 0;
	lift_pid(BPF_CORE_READ((struct file_lock_core *)ctx[0], flc_pid), &lift, 0);
	return 0;
}

SEC("fentry/__locks_delete_block")
int appease_file_lock_wait_end(u64 *ctx)
{
	struct appease_process *process;

	if (!is_armed())
		return 0;
	process = try_current_process();
	/* By the holder, which lets go, or by the waiter, which gives up. */
	if (process && process->lift.lock == APPEASE_LOCK_FILE && process->lift.object == ctx[0])
		process->lift.until_ns = 0;
	end_lifts(ctx[0]);
	return 0;
}

/* Shared memory */

/*
 * A futex in memory that processes share wakes a task: no message tells what for. Who is woken by an attended process
 * is lent a turn; who is woken regularly when that process got something from its customer is attended, too.
 */
SEC("fentry/futex_wake_mark")
int appease_futex_wake(u64 *ctx)
{
	struct futex_q *queued = (struct futex_q *)ctx[1];
	struct appease_process *process, *partner;
	struct appease_request *request;
	struct appease_handler *handler;
	struct task_struct *woken;
	u32 tgid, index;
	u64 now;

	if (!follows_messages() || !is_armed() ||
	    !(BPF_CORE_READ(queued, key.both.offset) & (FUT_OFF_INODE | FUT_OFF_MMSHARED)))
		return 0;
	now = bpf_ktime_get_ns();
	process = try_current_process();
	request = try_spoken_for(process, now);
	if (!request || !process || is_spent(request))
		return 0;
	tgid = current_tgid();
	woken = bpf_task_from_pid(BPF_CORE_READ(queued, task, pid));
	if (!woken)
		return 0;
	if (woken->tgid == tgid)
		goto out;
	partner = bpf_task_storage_get(&processes, woken->group_leader, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	/* A record from before is of another process, which had this number once: policy appease hears of no process's end. */
	if (!process->has_partners)
		bpf_map_delete_elem(&handlers, &tgid);
	handler = make_handler(tgid);
	if (!partner || !handler)
		goto out;
	if (!process->has_partners) {
		process->has_partners = 1;
		judge_later(tgid, process->attention.since_ns);
	}
	note_communication(handler, woken->tgid, now);
	index = entry_of(&handler->cohandlers, woken->tgid) & (CONFIDENCE_ENTRIES - 1);
	if (partner->attention.request_id == request->id && policy_before(now, partner->attention.until_ns))
		goto out;
	if (handler->cohandlers.entries[index].confidence <= co_conf) {
		lend(partner, request->customer, request->opened_ns, request->weight, now);
	} else if (hand_on(process, tgid, partner, APPEASE_OBJECT_SHARED, now)) {
		if (policy == APPEASE_POLICY_CAS)
			split_share(request, process, partner, now);
		count(APPEASE_CNT_PICKED_UP);
		tell_wanted(&partner->told, APPEASE_TOLD_WANTED, woken->tgid);
	}
out:
	bpf_task_release(woken);
	return 0;
}

#endif
