/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads once from standard input, or writes once to it, by the call that the argument names, and stays. Prints "ready" before, and
 * the result after.
 *
 *	uring		a read by io_uring
 *	uring-hasty	the same, which does not wait, and must find nothing
 *	uring-recv	recv by io_uring
 *	uring-write	a write by io_uring
 *	uring-write-hasty	the same, which does not wait, and must find no room
 *	uring-send	send by io_uring
 *	many		recvmmsg
 *	send-many	sendmmsg, of two messages
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static char buffer[4096];
static const char line[] = "hello\n";

static void *map(int ring, size_t size, off_t what)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, what);
}

/* What the operation gives, or -errno. */
static int uring(int operation, int flags)
{
	int is_read = operation == IORING_OP_READ || operation == IORING_OP_RECV;
	struct io_uring_params params = {};
	int ring = syscall(SYS_io_uring_setup, 1, &params);
	struct io_uring_sqe *entry;
	struct io_uring_cqe *done;
	char *submitted, *completed;

	if (ring < 0)
		return -errno;
	submitted = map(ring, params.sq_off.array + params.sq_entries * sizeof(__u32), IORING_OFF_SQ_RING);
	completed = map(ring, params.cq_off.cqes + params.cq_entries * sizeof(*done), IORING_OFF_CQ_RING);
	entry = map(ring, params.sq_entries * sizeof(*entry), IORING_OFF_SQES);
	if (submitted == MAP_FAILED || completed == MAP_FAILED || (void *)entry == MAP_FAILED)
		return -errno;
	*entry = (struct io_uring_sqe){
		.opcode = operation,
		/* Sockets have no position. */
		.off = operation == IORING_OP_READ || operation == IORING_OP_WRITE ? -1 : 0,
		.addr = (unsigned long)(is_read ? buffer : line),
		.len = is_read ? sizeof(buffer) : sizeof(line) - 1,
		.rw_flags = flags,
	};
	*(__u32 *)(submitted + params.sq_off.array) = 0;
	__atomic_store_n((__u32 *)(submitted + params.sq_off.tail), 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
		return -errno;
	done = (struct io_uring_cqe *)(completed + params.cq_off.cqes);
	return done->res;
}

static int read_many(void)
{
	struct iovec part = { buffer, sizeof(buffer) };
	struct mmsghdr messages[2] = { { .msg_hdr = { .msg_iov = &part, .msg_iovlen = 1 } } };

	messages[1] = messages[0];
	return recvmmsg(0, messages, 2, MSG_WAITFORONE, NULL);
}

static int write_many(void)
{
	struct iovec part = { (char *)line, sizeof(line) - 1 };
	struct mmsghdr messages[2] = { { .msg_hdr = { .msg_iov = &part, .msg_iovlen = 1 } } };

	messages[1] = messages[0];
	return sendmmsg(0, messages, 2, 0);
}

static int carry_out(const char *call)
{
	if (!strcmp(call, "uring"))
		return uring(IORING_OP_READ, 0);
	if (!strcmp(call, "uring-hasty"))
		return uring(IORING_OP_READ, RWF_NOWAIT);
	if (!strcmp(call, "uring-recv"))
		return uring(IORING_OP_RECV, 0);
	if (!strcmp(call, "uring-write"))
		return uring(IORING_OP_WRITE, 0);
	if (!strcmp(call, "uring-write-hasty"))
		return uring(IORING_OP_WRITE, RWF_NOWAIT);
	if (!strcmp(call, "uring-send"))
		return uring(IORING_OP_SEND, 0);
	if (!strcmp(call, "send-many"))
		return write_many();
	return read_many();
}

int main(int argc, char **argv)
{
	int result;

	if (argc != 2)
		return 2;
	puts("ready");
	fflush(stdout);
	result = carry_out(argv[1]);
	printf("%d\n", result);
	fflush(stdout);
	if ((result > 0) == !!strstr(argv[1], "hasty"))
		return 1;
	for (;;)
		pause();
}
