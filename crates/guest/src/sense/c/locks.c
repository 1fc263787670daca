/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A lock between two processes.
 *
 *	locks KIND FILE hold MS [OUTPUT]	takes it, prints "held", waits for a waiter, burns MS of CPU time, lets go, burns as
 *					much again; prints how long each of the two took, in microseconds; to that file
 *	locks KIND FILE wait		waits for it
 *
 * KIND: flock, fcntl, mutex (shared between processes), robust (one that tells who comes next of a holder's end), pi (with
 * priority inheritance), thread (held by another thread than the first); and of the kernel's own: inode (writing to a file),
 * directory (reading one, which keeps others from changing it), queue (inode, of which a third process lets go when there is
 * a waiter: then it is the holder's turn).
 *
 * Who holds a lock of the kernel's is in the middle of a call, which needs a page that is not there: a userfaultfd tells, and
 * the call goes on when the page is given.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Time in which who is about to wait does wait. */
#define SETTLE_US 50000
#define LOOK_US 2000
#define PAGE 4096

struct shared {
	pthread_mutex_t mutex;
	volatile int is_taken;
	volatile int is_held;
	volatile int is_wanted;
};

static const char *kind;
static int file;
static struct shared *shared;
static char directory[4096], entry[sizeof(directory) + 8];
static int inside;

/* Of who holds a lock of the kernel's. */
static int faults;
static char *page;
static pthread_t caller;

static long long now_us(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000LL + time.tv_nsec / 1000;
}

static long long burn(long long us)
{
	long long begin = now_us(CLOCK_MONOTONIC), end = now_us(CLOCK_THREAD_CPUTIME_ID) + us;

	while (now_us(CLOCK_THREAD_CPUTIME_ID) < end)
		;
	return now_us(CLOCK_MONOTONIC) - begin;
}

static int is_kernels(void)
{
	return !strcmp(kind, "inode") || !strcmp(kind, "directory") || !strcmp(kind, "queue");
}

static void *call(void *unused)
{
	long done;

	if (strcmp(kind, "directory"))
		done = pwrite(inside, page, 1, 0);
	else
		done = syscall(SYS_getdents64, open(directory, O_RDONLY | O_DIRECTORY), page, PAGE);
	if (done <= 0)
		err(1, "%s", kind);
	return NULL;
}

/* Begins a call that keeps the lock, once it has it. */
static void begin_call(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .range.len = PAGE, .mode = UFFDIO_REGISTER_MODE_MISSING };

	faults = syscall(SYS_userfaultfd, O_CLOEXEC);
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	range.range.start = (unsigned long)page;
	if (faults < 0 || page == MAP_FAILED || ioctl(faults, UFFDIO_API, &api) ||
	    ioctl(faults, UFFDIO_REGISTER, &range) || pthread_create(&caller, NULL, call, NULL))
		err(1, "a page that is not there");
}

static void await_lock(void)
{
	struct uffd_msg fault;

	if (read(faults, &fault, sizeof(fault)) != sizeof(fault))
		err(1, "fault");
}

static void end_call(void)
{
	struct uffdio_zeropage given = { .range = { .start = (unsigned long)page, .len = PAGE } };

	if (ioctl(faults, UFFDIO_ZEROPAGE, &given) || pthread_join(caller, NULL))
		err(1, "give the page");
}

static void pass_by(void)
{
	if (!strcmp(kind, "directory") ? unlink(entry) : pwrite(inside, "", 1, 0) != 1)
		err(1, "%s", kind);
}

static void set(int locked)
{
	struct flock range = { .l_type = locked ? F_WRLCK : F_UNLCK, .l_whence = SEEK_SET };
	int error;

	if (!strcmp(kind, "flock"))
		error = flock(file, locked ? LOCK_EX : LOCK_UN);
	else if (!strcmp(kind, "fcntl"))
		error = fcntl(file, F_SETLKW, &range);
	else if (locked)
		error = pthread_mutex_lock(&shared->mutex);
	else
		error = pthread_mutex_unlock(&shared->mutex);
	if (error)
		err(1, "%s", kind);
}

static void make_mutex(void)
{
	pthread_mutexattr_t attributes;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	if (!strcmp(kind, "pi"))
		pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
	if (!strcmp(kind, "robust"))
		pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	if (pthread_mutex_init(&shared->mutex, &attributes))
		errx(1, "no mutex");
}

/* Another process, which has the lock before the holder. */
static void start_first(void)
{
	if (!fork()) {
		begin_call();
		await_lock();
		shared->is_taken = 1;
		while (!shared->is_wanted)
			usleep(LOOK_US);
		usleep(SETTLE_US);
		end_call();
		_exit(0);
	}
	while (!shared->is_taken)
		usleep(LOOK_US);
}

static void take(void)
{
	int is_queue = !strcmp(kind, "queue");

	if (is_queue)
		start_first();
	if (!is_kernels())
		set(1);
	else
		begin_call();
	if (is_queue)
		usleep(SETTLE_US);
	else if (is_kernels())
		await_lock();
	shared->is_held = 1;
	puts("held");
	fflush(stdout);
	while (!shared->is_wanted)
		usleep(LOOK_US);
	if (is_queue)
		await_lock();
	else
		usleep(SETTLE_US);
}

static void *hold(void *ms)
{
	long long us = atoll(ms) * 1000, with_waiter, alone;

	make_mutex();
	take();
	with_waiter = burn(us);
	if (is_kernels())
		end_call();
	else
		set(0);
	alone = burn(us);
	printf("%lld %lld\n", with_waiter, alone);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc < 4)
		return 2;
	kind = argv[1];
	file = open(argv[2], O_RDWR | O_CREAT, 0600);
	if (file < 0 || ftruncate(file, sizeof(*shared)))
		err(1, "%s", argv[2]);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (shared == MAP_FAILED)
		err(1, "map %s", argv[2]);
	snprintf(directory, sizeof(directory), "%s.d", argv[2]);
	snprintf(entry, sizeof(entry), "%s/file", directory);
	mkdir(directory, 0700);
	inside = open(entry, O_RDWR | (argc > 4 ? O_CREAT : 0), 0600);
	if (inside < 0)
		err(1, "%s", entry);
	if (argc > 5 && !freopen(argv[5], "w", stdout))
		err(1, "%s", argv[5]);
	if (argc > 4) {
		if (strcmp(kind, "thread"))
			hold(argv[4]);
		else if (pthread_create(&thread, NULL, hold, argv[4]) || pthread_join(thread, NULL))
			errx(1, "no thread");
		return 0;
	}
	while (!shared->is_held)
		usleep(LOOK_US);
	shared->is_wanted = 1;
	if (is_kernels()) {
		pass_by();
	} else {
		set(1);
		set(0);
	}
	return 0;
}
