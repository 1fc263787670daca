/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks that are interrupted in the middle of a BPF program.
 *
 * Problem: a program of fentry or fexit may be preempted, and the kernel lets it not run again on that CPU until it has ended, lest it
 * call itself. So while a task that was displaced inside one of our hooks waits for the CPU, which may be for seconds, whatever others
 * do there is not seen: keys, requests, messages. With a thousand connections four of five messages were missed.
 *
 * Rule: such a task goes first, for as long as it takes to leave the program; a timer sees to it that it is no longer. It may not be in
 * one of ours: what keeps a task on its CPU is seen, which is short whatever it is for. Who spends much of its time
 * in programs may be in the next one by then; so often in a row, but not for ever, or somebody could live on it.
 */
#ifndef APPEASE_SECTIONS_BPF_H
#define APPEASE_SECTIONS_BPF_H

#include "tasks.bpf.h"

/* Has the field where RCU readers, and so programs, can be preempted. */
struct task_struct___preemptible {
	int rcu_read_lock_nesting;
} __attribute__((preserve_access_index));

/* A hook takes a microsecond or two. */
#define SECTION_NS 20000ULL
#define SECTIONS_IN_A_ROW 8

/*
 * Whether @p was displaced inside a program, as far as programs can be preempted. A callback of ours that runs on its behalf counts, too,
 * and so does the one that called it.
 */
static __always_inline bool is_in_section(const struct task_struct *p)
{
	struct cpu_ctx *cctx;
	u32 depth;

	if (!bpf_core_field_exists(((struct task_struct___preemptible *)p)->rcu_read_lock_nesting) ||
	    !bpf_core_field_exists(p->migration_disabled))
		return false;
	depth = p->migration_disabled;
	if (!depth || p != bpf_get_current_task_btf())
		return depth;
	cctx = this_cpu_ctx();
	return cctx && depth > 1 + cctx->releases;
}

/* Has @p, which was displaced, leave the program that it is in before anybody else runs. */
static __always_inline bool left_section_first(struct task_struct *p, struct task_ctx *tctx, u64 enq_flags)
{
	if (enq_flags & SCX_ENQ_WAKEUP || tctx->sections >= SECTIONS_IN_A_ROW || !is_in_section(p)) {
		tctx->sections = 0;
		return false;
	}
	if (!end_after(scx_bpf_task_cpu(p), p->pid, SECTION_NS))
		return false;
	tctx->sections++;
	count_sched(CNT_SECTIONS);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SECTION_NS, enq_flags | SCX_ENQ_HEAD);
	/* The CPU was to go idle. */
	if (enq_flags & SCX_ENQ_LAST)
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), 0);
	return true;
}

#endif
