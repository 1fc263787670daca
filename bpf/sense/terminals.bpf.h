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

SEC("fentry/pty_write")
int appease_pty_write(u64 *ctx)
{
	struct stamp_key key;

	if (!is_armed())
		return 0;
	key = object_key(((struct tty_struct *)ctx[0])->link, APPEASE_OBJECT_PTY);
	note_write(&key, NULL);
	return 0;
}

/* What was written to a pty reaches its reader through a kernel worker: follow the object, not the current task. */
SEC("fentry/n_tty_receive_buf2")
int appease_tty_deliver(u64 *ctx)
{
	const struct tty_struct *tty = (struct tty_struct *)ctx[0];
	struct appease_attention *stamp;
	struct appease_request *request;
	struct stamp_key key;
	u64 now;

	if (!is_pty(tty)) {
		channel_event(0, bpf_ktime_get_ns());
		return 0;
	}
	if (!is_armed())
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
