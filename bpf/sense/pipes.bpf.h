/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pipes, FIFOs and event counters.
 */
#ifndef APPEASE_SENSE_PIPES_BPF_H
#define APPEASE_SENSE_PIPES_BPF_H

#include "../stamps.bpf.h"

static __always_inline struct stamp_key pipe_key(u64 *ctx)
{
	return object_key(((struct kiocb *)ctx[0])->ki_filp->private_data, APPEASE_OBJECT_PIPE);
}

static __noinline void note_pipe_write(u64 *ctx)
{
	struct stamp_key key = pipe_key(ctx);

	note_write(&key, NULL);
}

/* What goes on is apart, so that a hook saves no registers while nobody is served. */
SEC("fentry/anon_pipe_write")
int appease_pipe_write(u64 *ctx)
{
	if (is_armed())
		note_pipe_write(ctx);
	return 0;
}

static __noinline void note_pipe_read(u64 *ctx)
{
	struct stamp_key key;

	if (returned(ctx) <= 0)
		return;
	key = pipe_key(ctx);
	note_read(&key);
}

SEC("fexit/anon_pipe_read")
int appease_pipe_read(u64 *ctx)
{
	if (is_armed())
		note_pipe_read(ctx);
	return 0;
}

/* A pipe, or NULL: @file is none. */
static __always_inline struct pipe_inode_info *try_pipe(struct file *file)
{
	file = readable(file, struct file);
	if ((file->f_inode->i_mode & S_IFMT) != S_IFIFO)
		return NULL;
	return file->private_data;
}

/* What goes from one file to another without a read and a write; one of the two is a pipe. */
SEC("fentry/do_splice")
int appease_splice(u64 *ctx)
{
	struct stamp_key key = { .b = APPEASE_OBJECT_PIPE };

	if (!is_armed())
		return 0;
	key.a = (u64)try_pipe((struct file *)ctx[2]);
	if (key.a)
		note_write(&key, NULL);
	return 0;
}

SEC("fexit/do_splice")
int appease_splice_end(u64 *ctx)
{
	struct stamp_key key = { .b = APPEASE_OBJECT_PIPE };

	if (!is_armed() || returned(ctx) <= 0)
		return 0;
	key.a = (u64)try_pipe((struct file *)ctx[0]);
	if (key.a)
		note_read(&key);
	return 0;
}

/* The next pipe at this address may be filled by other means than a write. */
SEC("fentry/free_pipe_info")
int appease_pipe_free(void *ctx)
{
	struct stamp_key key;

	if (!is_armed())
		return 0;
	key = object_key((void *)argument(ctx, 0), APPEASE_OBJECT_PIPE);
	forget_object(&key);
	return 0;
}

SEC("fentry/eventfd_write")
int appease_eventfd_write(u64 *ctx)
{
	struct stamp_key key;

	if (!is_armed())
		return 0;
	key = object_key(((struct file *)ctx[0])->private_data, APPEASE_OBJECT_EVENTFD);
	note_write(&key, NULL);
	return 0;
}

/* The next counter at this address may have something to read from the start. */
SEC("fentry/eventfd_release")
int appease_eventfd_release(u64 *ctx)
{
	struct stamp_key key;

	if (!is_armed())
		return 0;
	key = object_key(((struct file *)ctx[1])->private_data, APPEASE_OBJECT_EVENTFD);
	forget_object(&key);
	return 0;
}

SEC("fexit/eventfd_read")
int appease_eventfd_read(u64 *ctx)
{
	struct stamp_key key;

	if (!is_armed() || returned(ctx) <= 0)
		return 0;
	key = object_key(((struct kiocb *)ctx[0])->ki_filp->private_data, APPEASE_OBJECT_EVENTFD);
	note_read(&key);
	return 0;
}

#endif
