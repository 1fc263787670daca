/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Terminals: consoles and serial lines are channels, ptys carry messages.
 */
#ifndef APPEASE_SENSE_TERMINALS_BPF_H
#define APPEASE_SENSE_TERMINALS_BPF_H

#include "../channels.bpf.h"
#include "../stamps.bpf.h"

/* From kernel headers; constants do not travel in BTF. */
#define PTY_MAJOR_FIRST 128
#define PTY_MAJOR_LAST 143
#define BSD_PTY_MAJOR_FIRST 2
#define BSD_PTY_MAJOR_LAST 3
/* The first half of the new ones are the ends of emulators. */
#define UNIX98_PTY_SLAVES_FIRST 136

static __always_inline bool is_pty(const struct tty_struct *tty)
{
	s32 major = tty->driver->major;

	/* Not by the driver's type: its numbers changed when it became an enum (6.14). */
	return (major >= PTY_MAJOR_FIRST && major <= PTY_MAJOR_LAST) ||
	       (major >= BSD_PTY_MAJOR_FIRST && major <= BSD_PTY_MAJOR_LAST);
}

static __always_inline u32 tty_device(const struct tty_struct *tty)
{
	return (u32)tty->driver->major << MINOR_BITS | (u32)(tty->driver->minor_start + tty->index);
}

/* Once for each read of a user's; the line discipline below is asked for 64 bytes at a time. */
SEC("fexit/tty_read")
int appease_tty_read(u64 *ctx)
{
	const struct tty_struct *tty;

	if (returned(ctx) <= 0)
		return 0;
	tty = readable(((struct kiocb *)ctx[0])->ki_filp->private_data, struct tty_file_private)->tty;
	if (is_pty(tty)) {
		struct stamp_key key = object_key(tty, APPEASE_OBJECT_PTY);

		if (is_armed())
			note_read(&key);
	} else {
		device_hit(APPEASE_CHANNEL_TTY, tty_device(tty), APPEASE_READ);
	}
	return 0;
}

/*
 * Whether the current task has left its stamp at the end @terminal just now, and still speaks for that request. The line discipline writes
 * a line and its end apart, so a listing is written in twice as many pieces as it has lines.
 */
static __always_inline bool is_just_stamped(const struct handing *handing, const struct tty_struct *terminal)
{
	struct appease_process *process;

	if (!handing || handing->terminal != (u64)terminal || handing->pid != (u32)bpf_get_current_pid_tgid() ||
	    bpf_ktime_get_ns() - handing->at_ns >= HANDING_NS || has_threads(bpf_get_current_task_btf()))
		return false;
	process = try_current_process();
	return process && process->context_id == handing->request_id;
}

SEC("fentry/pty_write")
int appease_pty_write(u64 *ctx)
{
	struct tty_struct *other = ((struct tty_struct *)ctx[0])->link;
	struct handing *handing;
	struct stamp_key key;

	if (!is_armed())
		return 0;
	handing = this_handing();
	if (is_just_stamped(handing, other))
		return 0;
	key = object_key(other, APPEASE_OBJECT_PTY);
	if (note_write(&key, NULL) && handing)
		handing->terminal = key.a;
	return 0;
}

/* Whether nobody waits for what comes to @tty, the end of an emulator: it has no echo either. */
static __always_inline bool is_unheard(struct tty_struct *tty)
{
	s32 major = tty->driver->major;

	return (major == BSD_PTY_MAJOR_FIRST || (major >= PTY_MAJOR_FIRST && major < UNIX98_PTY_SLAVES_FIRST)) &&
	       tty->read_wait.head.next == &tty->read_wait.head;
}

/* What was written to a pty reaches its reader through a kernel worker: follow the object, not the current task. */
SEC("fentry/n_tty_receive_buf2")
int appease_tty_deliver(u64 *ctx)
{
	struct tty_struct *tty = (struct tty_struct *)ctx[0];
	struct appease_attention *stamp;
	struct appease_request *request;
	struct stamp_key key;
	u64 now;

	if (!is_pty(tty)) {
		channel_event(0, bpf_ktime_get_ns());
		return 0;
	}
	if (!is_armed() || is_unheard(tty))
		return 0;
	key = object_key(tty, APPEASE_OBJECT_PTY);
	stamp = try_stamp(&key, NULL);
	if (!stamp)
		return 0;
	now = bpf_ktime_get_ns();
	request = try_answerable(stamp, now);
	if (request) {
		struct doing *doing = current_doing();

		if (doing) {
			doing->via = key;
			doing->via_ns = now;
		}
		begin_handing(request, 0, false, now);
	}
	return 0;
}

SEC("fexit/n_tty_receive_buf2")
int appease_tty_deliver_end(void *ctx)
{
	struct doing *doing = is_armed() ? try_current_doing() : NULL;

	if (doing)
		doing->via_ns = 0;
	end_handing();
	return 0;
}

#endif
