/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Work beyond a budget that is handed to another task.
 *
 * A request beyond its budget attends nobody. Its tasks are a party of its customer in their cgroup (spender_of() in parties.bpf.h), and
 * hand the customer to their children. A server that they ask, such as that of a build system, is no child, and what they write to it is not
 * stamped. So a wake-up tells: a task stands for the customer of the task that woke it, in the same cgroup, until another task wakes it.
 *
 * An interrupt does not tell for whom the work is: it may be that of a disk, or of a clock. A task that it wakes goes on as before; but not
 * for longer than SPENDER_IDLE_NS after the latest hand-over, or a server that wakes by its clock would stay in the party for good. Kernel
 * threads work for everybody, and hand nothing on.
 *
 * Limits: nothing is handed to another cgroup. The server has that one's share, and a build would take all SPENDERS slots by what it wakes. A
 * server that does not sleep between two requests is not woken.
 */
#ifndef APPEASE_SPENDERS_BPF_H
#define APPEASE_SPENDERS_BPF_H

#include "displace.bpf.h"

/* @p, that of @tctx, wakes up, and stands for the customer of its waker from now on, unless it works on a request of its own. */
__noinline int follow_waker(struct task_struct *p __arg_trusted, struct task_ctx *tctx __arg_nonnull)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	struct task_ctx *wctx;
	u64 now;

	if (is_kthread(p) || (tctx->spent_for && !tctx->followed_ns))
		return 0;
	now = scx_bpf_now();
	wctx = is_kthread(waker) || is_interrupt() ? NULL : try_task_ctx(waker);
	if (wctx) {
		tctx->spent_for = wctx->group == tctx->group ? wctx->spent_for : 0;
		tctx->followed_ns = now;
	} else if (tctx->spent_for && policy_before(tctx->followed_ns + SPENDER_IDLE_NS, now)) {
		tctx->spent_for = 0;
	}
	return 0;
}

#endif
