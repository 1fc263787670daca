/* SPDX-License-Identifier: GPL-2.0-only */
/* Processes that hand work to each other: each wakes the next one, and one of them always wants the CPU. */
#include "trick.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define MEMBERS 8
#define HOGS 16

/* What is written to the second end comes out of the first, which this member reads. */
static int ends[MEMBERS][2];
static int member;
/* Passes on what was read before it works, and not after. */
static int early;

static void be_member(void)
{
	for (;;) {
		take(ends[member][0]);
		if (early)
			give(ends[(member + 1) % MEMBERS][1]);
		work(WORK_US);
		if (!early)
			give(ends[(member + 1) % MEMBERS][1]);
		tried();
	}
}

static void ring(void)
{
	for (member = 1; member < MEMBERS; member++)
		child(be_member);
	member = 0;
	ready();
	give(ends[0][1]);
	be_member();
}

static void make_pipes(void)
{
	int i;

	for (i = 0; i < MEMBERS; i++)
		must(pipe(ends[i]));
}

void partners_pipe_ring(void)
{
	make_pipes();
	ring();
}

void partners_early_ring(void)
{
	early = 1;
	make_pipes();
	ring();
}

void partners_socket_ring(void)
{
	int i;

	for (i = 0; i < MEMBERS; i++)
		must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[i]));
	ring();
}

/* A kernel thread carries what is written. Terminals hand on whole lines, and without this each byte. */
void partners_terminal_ring(void)
{
	int i;

	for (i = 0; i < MEMBERS; i++) {
		ends[i][1] = must(posix_openpt(O_RDWR | O_NOCTTY));
		must(unlockpt(ends[i][1]));
		ends[i][0] = must(open(ptsname(ends[i][1]), O_RDWR | O_NOCTTY));
		if (system("true"))
			must(-1);
	}
	for (i = 0; i < MEMBERS; i++) {
		char command[128];

		snprintf(command, sizeof(command), "stty raw -echo <%s", ptsname(ends[i][1]));
		must(system(command) ? -1 : 0);
	}
	ring();
}

static void *shared(size_t size)
{
	return (void *)must(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
}

/* Whose turn it is. */
static unsigned int *turn;

static long futex(unsigned int *word, int operation, unsigned int value)
{
	return syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

static void take_turns(unsigned int own)
{
	for (;;) {
		while (__atomic_load_n(turn, __ATOMIC_ACQUIRE) != own)
			futex(turn, FUTEX_WAIT, !own);
		work(WORK_US);
		__atomic_store_n(turn, !own, __ATOMIC_RELEASE);
		must(futex(turn, FUTEX_WAKE, 1));
		tried();
	}
}

static void be_second(void)
{
	take_turns(1);
}

void partners_futexes(void)
{
	turn = shared(sizeof(*turn));
	child(be_second);
	ready();
	take_turns(0);
}

static void *be_second_thread(void *nothing)
{
	take_turns(1);
	return nothing;
}

void partners_threads(void)
{
	pthread_t thread;

	turn = shared(sizeof(*turn));
	must(pthread_create(&thread, NULL, be_second_thread, NULL) ? -1 : 0);
	ready();
	take_turns(0);
}

static pid_t other;
static sigset_t only;

static void answer_signals(void)
{
	int number;

	for (;;) {
		must(sigwait(&only, &number) ? -1 : 0);
		work(WORK_US);
		must(kill(other, SIGUSR1));
		tried();
	}
}

static void answer_parent(void)
{
	other = getppid();
	answer_signals();
}

void partners_signals(void)
{
	sigemptyset(&only);
	sigaddset(&only, SIGUSR1);
	must(sigprocmask(SIG_BLOCK, &only, NULL));
	other = child(answer_parent);
	ready();
	must(kill(other, SIGUSR1));
	answer_signals();
}

static int semaphores;

static void pass(int from, int to)
{
	for (;;) {
		struct sembuf down = { .sem_num = from, .sem_op = -1 }, up = { .sem_num = to, .sem_op = 1 };

		must(semop(semaphores, &down, 1));
		work(WORK_US);
		must(semop(semaphores, &up, 1));
		tried();
	}
}

static void pass_back(void)
{
	pass(1, 0);
}

void partners_semaphores(void)
{
	struct sembuf up = { .sem_num = 0, .sem_op = 1 };

	semaphores = must(semget(IPC_PRIVATE, 2, 0600));
	child(pass_back);
	ready();
	must(semop(semaphores, &up, 1));
	pass(0, 1);
}

/* Sends a socket, and in it a byte; the receiver reads the byte from the socket that it was given. */
static void send_socket(int through)
{
	char room[CMSG_SPACE(sizeof(int))] = {}, byte = 'x';
	struct iovec part = { &byte, 1 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	int pair[2];

	must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	*header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(header), &pair[0], sizeof(int));
	give(pair[1]);
	must(sendmsg(through, &message, 0));
	close(pair[0]);
	close(pair[1]);
}

static void receive_socket(int through)
{
	char room[CMSG_SPACE(sizeof(int))], byte;
	struct iovec part = { &byte, 1 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room) };
	int given;

	must(recvmsg(through, &message, 0));
	memcpy(&given, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
	take(given);
	close(given);
}

static void pass_sockets(int through)
{
	for (;;) {
		receive_socket(through);
		work(WORK_US);
		send_socket(through);
		tried();
	}
}

static void pass_sockets_back(void)
{
	pass_sockets(ends[0][1]);
}

void partners_passed_sockets(void)
{
	must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[0]));
	child(pass_sockets_back);
	ready();
	send_socket(ends[0][0]);
	pass_sockets(ends[0][0]);
}

static pid_t worker;
static volatile int word;

static void touch_child(void)
{
	int value = 0;
	struct iovec here = { &value, sizeof(value) }, there = { (void *)&word, sizeof(word) };

	must(process_vm_readv(worker, &here, 1, &there, 1, 0));
	value++;
	must(process_vm_writev(worker, &here, 1, &there, 1, 0));
}

void partners_memory_of_child(void)
{
	worker = child(hog);
	keep_trying(touch_child);
}

/* All read one pipe and write to it, without ever waiting for it. */
static void through_common(void)
{
	give(ends[0][1]);
	take(ends[0][0]);
	tried();
}

static void be_one_of_many(void)
{
	for (;;) {
		work(WORK_US);
		through_common();
	}
}

void partners_pipe_of_hogs(void)
{
	must(pipe(ends[0]));
	ready();
	children(HOGS - 1, be_one_of_many);
	be_one_of_many();
}
