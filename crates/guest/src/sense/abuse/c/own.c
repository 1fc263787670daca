/* SPDX-License-Identifier: GPL-2.0-only */
/* Objects that a process has for itself. None of them has a customer behind it, so what is read from them is no evidence. */

#include "trick.h"

#include <linux/io_uring.h>
#include <mqueue.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>

/* What is written to the second comes out of the first. */
static int ends[2];

static void through(void)
{
	give(ends[1]);
	take(ends[0]);
}

void own_pipe(void)
{
	must(pipe(ends));
	keep_trying(through);
}

void own_fifo(void)
{
	must(mkfifo("own-fifo", 0600));
	ends[0] = ends[1] = must(open("own-fifo", O_RDWR));
	keep_trying(through);
}

static void through_sockets(int type)
{
	must(socketpair(AF_UNIX, type, 0, ends));
	keep_trying(through);
}

void own_unix_stream(void)
{
	through_sockets(SOCK_STREAM);
}

void own_unix_datagram(void)
{
	through_sockets(SOCK_DGRAM);
}

void own_unix_packets(void)
{
	through_sockets(SOCK_SEQPACKET);
}

static void through_counter(void)
{
	uint64_t count = 1;

	must(write(ends[0], &count, sizeof(count)));
	must(read(ends[0], &count, sizeof(count)));
}

void own_eventfd(void)
{
	ends[0] = must(eventfd(0, 0));
	keep_trying(through_counter);
}

static void through_signals(void)
{
	struct signalfd_siginfo info;

	must(kill(getpid(), SIGUSR1));
	must(read(ends[0], &info, sizeof(info)));
}

void own_signalfd(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	must(sigprocmask(SIG_BLOCK, &set, NULL));
	ends[0] = must(signalfd(-1, &set, 0));
	keep_trying(through_signals);
}

static void through_watch(void)
{
	char events[512];

	give(ends[1]);
	must(read(ends[0], events, sizeof(events)));
}

void own_inotify(void)
{
	ends[1] = must(open("watched", O_RDWR | O_CREAT, 0600));
	ends[0] = must(inotify_init1(0));
	must(inotify_add_watch(ends[0], "watched", IN_MODIFY));
	keep_trying(through_watch);
}

static int poller;

static void through_poller(void)
{
	struct epoll_event event;

	give(ends[1]);
	must(epoll_wait(poller, &event, 1, -1));
	take(ends[0]);
}

void own_epoll(void)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };

	must(pipe(ends));
	poller = must(epoll_create1(0));
	must(epoll_ctl(poller, EPOLL_CTL_ADD, ends[0], &event));
	keep_trying(through_poller);
}

static struct {
	int fd;
	struct io_uring_params params;
	char *submitted, *completed;
	struct io_uring_sqe *entries;
} ring;

static char *map_ring(size_t size, off_t what)
{
	return (char *)must(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, what));
}

static void submit(int operation, int fd)
{
	static char byte;
	unsigned int *tail = (void *)(ring.submitted + ring.params.sq_off.tail);
	unsigned int *head = (void *)(ring.completed + ring.params.cq_off.head);
	struct io_uring_cqe *done = (void *)(ring.completed + ring.params.cq_off.cqes);

	ring.entries[0] = (struct io_uring_sqe){ .opcode = operation, .fd = fd, .off = -1, .addr = (unsigned long)&byte, .len = 1 };
	((unsigned int *)(ring.submitted + ring.params.sq_off.array))[0] = 0;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	must(syscall(SYS_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0));
	errno = -done[*head % ring.params.cq_entries].res;
	must(errno > 0 ? -1 : 0);
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
}

static void through_ring(void)
{
	submit(IORING_OP_WRITE, ends[1]);
	submit(IORING_OP_READ, ends[0]);
}

void own_uring(void)
{
	must(pipe(ends));
	ring.fd = must(syscall(SYS_io_uring_setup, 1, &ring.params));
	ring.submitted = map_ring(ring.params.sq_off.array + ring.params.sq_entries * sizeof(int), IORING_OFF_SQ_RING);
	ring.completed = map_ring(ring.params.cq_off.cqes + ring.params.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
	ring.entries = (void *)map_ring(ring.params.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
	keep_trying(through_ring);
}

static int second[2];

static void splice_through(void)
{
	static char page[4096] __attribute__((aligned(4096)));
	struct iovec part = { page, sizeof(page) };

	must(vmsplice(ends[1], &part, 1, 0));
	must(tee(ends[0], second[1], sizeof(page), 0));
	must(splice(second[0], NULL, ends[1], NULL, sizeof(page), 0));
	must(read(ends[0], page, sizeof(page)));
	must(read(ends[0], page, sizeof(page)));
}

void own_splice(void)
{
	must(pipe(ends));
	must(pipe(second));
	keep_trying(splice_through);
}

static mqd_t queue;

static void through_queue(void)
{
	char message[16] = "x";

	must(mq_send(queue, message, 1, 0));
	must(mq_receive(queue, message, sizeof(message), NULL));
}

void own_message_queue(void)
{
	struct mq_attr attributes = { .mq_maxmsg = 2, .mq_msgsize = 16 };

	mq_unlink("/abuse");
	queue = must(mq_open("/abuse", O_RDWR | O_CREAT | O_EXCL, 0600, &attributes));
	must(mq_unlink("/abuse"));
	keep_trying(through_queue);
}

static void through_sysv_queue(void)
{
	struct {
		long type;
		char text[8];
	} message = { .type = 1 };

	must(msgsnd(ends[0], &message, sizeof(message.text), 0));
	must(msgrcv(ends[0], &message, sizeof(message.text), 1, 0));
}

/* It goes with the machine: nothing removes it when this is killed. */
void own_sysv_queue(void)
{
	ends[0] = must(msgget(IPC_PRIVATE, 0600));
	keep_trying(through_sysv_queue);
}

/* A new one each time, so that nothing that is remembered of the former one is of use. */
static void through_new_pipe(void)
{
	must(pipe(ends));
	through();
	close(ends[0]);
	close(ends[1]);
}

void own_many_pipes(void)
{
	keep_trying(through_new_pipe);
}
