/* SPDX-License-Identifier: GPL-2.0-only */
/* Locks: who holds one that an attended program waits for serves it meanwhile. */
#include "trick.h"

#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>

static int file;

static void hold_file(void)
{
	/* A lock of one's own needs an open file of one's own. */
	file = must(open("lock", O_RDWR | O_CREAT, 0600));
	for (;;) {
		must(flock(file, LOCK_EX));
		work(WORK_US);
		must(flock(file, LOCK_UN));
		tried();
	}
}

void locks_flocks(void)
{
	ready();
	child(hold_file);
	hold_file();
}

static void hold_record(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_len = 1 }, open_again = { .l_type = F_UNLCK, .l_len = 1 };

	file = must(open("lock", O_RDWR | O_CREAT, 0600));
	for (;;) {
		must(fcntl(file, F_SETLKW, &lock));
		work(WORK_US);
		must(fcntl(file, F_SETLK, &open_again));
		tried();
	}
}

void locks_records(void)
{
	ready();
	child(hold_record);
	hold_record();
}

static pthread_mutex_t *mutex;

static void hold_mutex(void)
{
	for (;;) {
		must(pthread_mutex_lock(mutex) ? -1 : 0);
		work(WORK_US);
		must(pthread_mutex_unlock(mutex) ? -1 : 0);
		tried();
	}
}

static void fight_for_mutex(int protocol, int robustness)
{
	pthread_mutexattr_t how;

	mutex = (void *)must(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	must(pthread_mutexattr_init(&how) ? -1 : 0);
	must(pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED) ? -1 : 0);
	must(pthread_mutexattr_setprotocol(&how, protocol) ? -1 : 0);
	must(pthread_mutexattr_setrobust(&how, robustness) ? -1 : 0);
	must(pthread_mutex_init(mutex, &how) ? -1 : 0);
	ready();
	child(hold_mutex);
	hold_mutex();
}

void locks_mutex_with_inheritance(void)
{
	fight_for_mutex(PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED);
}

void locks_robust_mutex(void)
{
	fight_for_mutex(PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST);
}

/* An attended program of somebody else's wants this lock again and again, and is kept waiting. */
static void keep_waiting(void)
{
	must(flock(file, LOCK_UN));
	sleep_ns(1000);
	must(flock(file, LOCK_EX));
}

void locks_wanted(void)
{
	file = must(open(WANTED_LOCK, O_RDONLY));
	must(flock(file, LOCK_EX));
	keep_trying_each(20 * WORK_US, keep_waiting);
}
