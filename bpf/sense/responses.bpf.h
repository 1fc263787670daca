/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What goes back to customers (policy/response.h): by the socket that the request came from, onto the console or serial line, or
 * as a picture of the server of a screen. Unix sockets and datagrams are in the files of theirs.
 */
#ifndef APPEASE_SENSE_RESPONSES_BPF_H
#define APPEASE_SENSE_RESPONSES_BPF_H

#include "inet.bpf.h"
#include "terminals.bpf.h"

/* Each piece of what is sent by TCP, before it is sent. Since 6.16; before, see appease_tcp_sent(). */
SEC("tp_btf/tcp_sendmsg_locked")
int appease_tcp_answer(u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];

	if (is_armed() && is_tcp_channel(sk))
		respond_on(sk);
	return 0;
}

/* Screens: whatever way a server shows pictures by. */

static __noinline int show_picture(void)
{
	return respond_by_picture(bpf_ktime_get_ns());
}

SEC("fentry/drm_mode_page_flip_ioctl")
int appease_page_flip(void *ctx)
{
	if (is_armed())
		show_picture();
	return 0;
}

SEC("fentry/drm_mode_atomic_ioctl")
int appease_atomic_commit(void *ctx)
{
	if (is_armed())
		show_picture();
	return 0;
}

SEC("fentry/drm_mode_dirtyfb_ioctl")
int appease_dirty_picture(void *ctx)
{
	if (is_armed())
		show_picture();
	return 0;
}

/* The pointer moves: its server answers that by itself. */
static __noinline int move_pointer(void)
{
	struct appease_process *process = try_current_process();
	u64 now = bpf_ktime_get_ns();
	struct appease_request *request = try_spoken_for(process, now);

	if (request && request->channel < APPEASE_CHANNEL_FILE && request->reader_tgid == current_tgid())
		respond(request, now);
	return 0;
}

SEC("fentry/drm_mode_cursor_ioctl")
int appease_cursor(void *ctx)
{
	if (is_armed())
		move_pointer();
	return 0;
}

SEC("fentry/drm_mode_cursor2_ioctl")
int appease_cursor2(void *ctx)
{
	if (is_armed())
		move_pointer();
	return 0;
}

/* Consoles and serial lines. What the kernel echoes by itself comes before anybody reads. */

static __noinline int answer_line(u64 *ctx)
{
	struct line line = { .object = tty_device((struct tty_struct *)ctx[0]) };

	return respond_by(&line);
}

SEC("fentry/con_write")
int appease_console_write(u64 *ctx)
{
	if (is_armed())
		answer_line(ctx);
	return 0;
}

SEC("fentry/uart_write")
int appease_serial_write(u64 *ctx)
{
	if (is_armed())
		answer_line(ctx);
	return 0;
}

#endif
