/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One CPU: what is simpler there, or takes a shorter way. Whatever depends on it asks one of these, and says there what it does.
 *
 * They are constants to the verifier, which looks through what the machine has use for, and no more.
 */
#ifndef APPEASE_SINGLE_BPF_H
#define APPEASE_SINGLE_BPF_H

/* By number, those that are off, too; user space says. */
const volatile u32 nr_cpus = 1;

/* There are others: idle ones to wake, busy ones to call, and a woken task may run elsewhere. */
static __always_inline bool has_more_cpus(void)
{
	return nr_cpus > 1;
}

/*
 * Nobody else puts anything into a queue, or takes it out: what was found empty is empty until this CPU puts something in. With more
 * CPUs an insertion happens only after ops.enqueue() has returned, and another one may find the queue empty in between.
 */
static __always_inline bool knows_queues(void)
{
	return nr_cpus == 1;
}

/* A task may go straight into the local queue, in its right order, and run without ops.dispatch(): see went_on() and insert_next(). */
static __always_inline bool skips_queues(void)
{
	return nr_cpus == 1;
}

#endif
