/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Files that a rule names: device nodes without hooks of their own, and FIFOs.
 *
 * The kernel tells inotify of each successful access, whatever the call, and does so for watched inodes only: so the
 * daemon watches the inode, and nobody else's reads and writes pay. What it tells too often: readv at the end of a file,
 * tee, which consumes nothing, and what failed in io_uring. Never: multishot reads.
 */
#ifndef APPEASE_SENSE_FILES_BPF_H
#define APPEASE_SENSE_FILES_BPF_H

#include "../channels.bpf.h"
#include "../stamps.bpf.h"

/* From kernel headers; constants do not travel in BTF. */
#define FS_ACCESS 1
#define FS_MODIFY 2
#define FMODE_READ 1

/* Of a process's open files, so many are looked at. */
#define FILES_LOOKED_AT 256

/* Whether the current process could read @inode itself. */
static __noinline bool can_read(struct inode *inode)
{
	struct fdtable *table = BPF_CORE_READ(bpf_get_current_task_btf(), files, fdt);
	u32 number = BPF_CORE_READ(table, max_fds), i;
	struct file **files = BPF_CORE_READ(table, fd);

	bpf_for(i, 0, FILES_LOOKED_AT) {
		struct file *file = NULL;

		if (i >= number)
			return false;
		bpf_core_read(&file, sizeof(file), &files[i]);
		if (file && BPF_CORE_READ(file, f_inode) == inode && BPF_CORE_READ(file, f_mode) & FMODE_READ)
			return true;
	}
	return true;
}

/*
 * Whether the current process accesses a FIFO at whose other end its family was last. Where nobody has read yet, nobody but
 * itself may be going to. What is written to a device is not read back.
 */
static __always_inline bool is_own_fifo(struct inode *inode, u32 access)
{
	struct place place = { .address = (u64)inode, .access = access };
	u32 other;

	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) != S_IFIFO)
		return false;
	place.number = (u64)BPF_CORE_READ(inode, i_generation) << 32 ^ BPF_CORE_READ(inode, i_ino);
	note_there(&place);
	place.access = access == APPEASE_READ ? APPEASE_WRITE : APPEASE_READ;
	other = last_there(&place);
	if (!other)
		return access == APPEASE_WRITE && can_read(inode);
	return is_family(other);
}

static __noinline void file_hit(u32 wd, struct inode *inode, u32 access)
{
	struct appease_target target = { .kind = APPEASE_TARGET_FILE, .id = { wd } };
	struct source source = { .object = (u64)inode, .channel = APPEASE_CHANNEL_FILE };
	u32 slot;

	if (is_own_fifo(inode, access)) {
		count(APPEASE_CNT_LOCAL_PEER);
		return;
	}
	slot = rule_for(&target, access);
	if (slot)
		channel_hit(slot, &source, access, bpf_ktime_get_ns());
}

/* Runs in the context of who accessed @inode. */
SEC("fentry/inotify_handle_inode_event")
int appease_file_access(u64 *ctx)
{
	struct inotify_inode_mark *mark = (void *)ctx[0];
	struct doing *doing;
	u32 mask = ctx[1], wd;

	/* Others may watch the same file. */
	if (!(mask & (FS_ACCESS | FS_MODIFY)) || !watched.watches ||
	    (u64)BPF_CORE_READ(mark, fsn_mark.group) != watched.watches)
		return 0;
	wd = BPF_CORE_READ(mark, wd);
	doing = try_current_doing();
	if (doing && doing->withheld && doing->withheld == ctx[2]) {
		doing->withheld_wd = wd;
		return 0;
	}
	file_hit(wd, (struct inode *)ctx[2], mask & FS_MODIFY ? APPEASE_WRITE : APPEASE_READ);
	return 0;
}

/* Events of a watched @file by the current task do not count from here on: the call says itself what it did to it. */
static __always_inline void withhold(struct file *file)
{
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	struct doing *doing;

	if (!(BPF_CORE_READ(inode, i_fsnotify_mask) & (FS_ACCESS | FS_MODIFY)))
		return;
	doing = current_doing();
	if (!doing)
		return;
	doing->withheld = (u64)inode;
	doing->withheld_wd = 0;
}

/* Events count again; the watch of the one that was withheld, or 0. */
static __always_inline u32 release(void)
{
	struct doing *doing = try_current_doing();

	if (!doing || !doing->withheld)
		return 0;
	doing->withheld = 0;
	return doing->withheld_wd;
}

SEC("fentry/vfs_readv")
int appease_readv(u64 *ctx)
{
	withhold((struct file *)ctx[0]);
	return 0;
}

SEC("fexit/vfs_readv")
int appease_readv_end(u64 *ctx)
{
	u32 wd = release();

	if (wd && returned(ctx) > 0)
		file_hit(wd, BPF_CORE_READ((struct file *)ctx[0], f_inode), APPEASE_READ);
	return 0;
}

SEC("fentry/do_tee")
int appease_tee(u64 *ctx)
{
	withhold((struct file *)ctx[0]);
	return 0;
}

SEC("fexit/do_tee")
int appease_tee_end(u64 *ctx)
{
	release();
	return 0;
}

SEC("fentry/kiocb_done")
int appease_uring_done(u64 *ctx)
{
	if ((s64)ctx[1] <= 0)
		withhold(BPF_CORE_READ((struct io_kiocb *)ctx[0], file));
	return 0;
}

SEC("fexit/kiocb_done")
int appease_uring_done_end(u64 *ctx)
{
	release();
	return 0;
}

SEC("fentry/io_req_rw_complete")
int appease_uring_complete(u64 *ctx)
{
	/* The request alone in a structure, which goes by value, or a pointer to it: the same. */
	u64 request = 0;

	bpf_get_func_arg(ctx, 0, &request);
	if (BPF_CORE_READ((struct io_kiocb *)request, cqe.res) <= 0)
		withhold(BPF_CORE_READ((struct io_kiocb *)request, file));
	return 0;
}

SEC("fexit/io_req_rw_complete")
int appease_uring_complete_end(u64 *ctx)
{
	release();
	return 0;
}

/* Called by the daemon with a descriptor: the kernel's identity of its inode, and, of an inotify instance, of that. */
SEC("syscall")
int appease_identify(struct appease_identity *args)
{
	struct file *file = try_file_at(args->fd);

	args->inode = args->instance = 0;
	if (!file)
		return 0;
	args->inode = (u64)BPF_CORE_READ(file, f_inode);
	args->instance = (u64)BPF_CORE_READ(file, private_data);
	return 0;
}

#endif
