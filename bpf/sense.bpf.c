/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sensing: who reads from a channel, and whom the data reaches.
 *
 * Hooks only, by what they watch (sense/). In the order of a message's life: a channel's event wakes a reader, the reader
 * opens a request, writes leave stamps, reads pick them up, forks inherit. Loads without sched_ext too.
 *
 * Rules that all hooks keep: only successful reads count; only a channel opens a request; what is written after a
 * message without a stamp carries none (the reader then works for somebody else); nothing of what is read is
 * looked at. While nobody is served, a hook ends at its first test.
 *
 * Where it is bad: a process that serves several customers at once from different threads, and does not let each read its own
 * message from a socket, has one context, the last message that any of them read.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "sense/input.bpf.h"
#include "sense/terminals.bpf.h"
#include "sense/sound.bpf.h"
#include "sense/files.bpf.h"
#include "sense/sockets.bpf.h"
#include "sense/responses.bpf.h"
#include "sense/pipes.bpf.h"
#include "sense/locks.bpf.h"
#include "sense/families.bpf.h"
#include "sense/told.bpf.h"

char _license[] SEC("license") = "GPL";

/*
 * Called by the daemon now and then: stands the scheduler and the hooks down when nobody has been served for a while. An event that
 * arrives meanwhile arms them again. In policy rsio the hooks go on: what was said just before an event makes cohandlers, too.
 */
SEC("syscall")
int appease_stand_down(void *ctx)
{
	u64 until;

	if (!armed.serves)
		return 0;
	until = armed.until_ns;
	if (policy_before(bpf_ktime_get_ns(), until))
		return 0;
	if (follows_messages())
		armed.on = 0;
	/* An exchange, for the order of what comes next. */
	__sync_lock_test_and_set(&armed.serves, 0);
	if (*(volatile u64 *)&armed.until_ns != until)
		armed.on = armed.serves = 1;
	return 0;
}
