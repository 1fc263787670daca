/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A lock between two processes.
 *
 *	locks KIND FILE hold MS		takes it, prints "held", waits for a waiter, burns MS of CPU time, lets go, burns as much
 *					again; prints how long each of the two took, in microseconds
 *	locks KIND FILE wait		waits for it
 *
 * KIND: flock, fcntl, mutex (shared between processes), pi (the same with priority inheritance), thread (held by another
 * thread than the first).
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Time in which who is about to wait does wait. */
#define SETTLE_US 50000
#define LOOK_US 2000

struct shared {
	pthread_mutex_t mutex;
	volatile int is_held;
	volatile int is_wanted;
};

static const char *kind;
static int file;
static struct shared *shared;

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
	if (pthread_mutex_init(&shared->mutex, &attributes))
		errx(1, "no mutex");
}

static void *hold(void *ms)
{
	long long us = atoll(ms) * 1000, with_waiter, alone;

	make_mutex();
	set(1);
	shared->is_held = 1;
	puts("held");
	fflush(stdout);
	while (!shared->is_wanted)
		usleep(LOOK_US);
	usleep(SETTLE_US);
	with_waiter = burn(us);
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
	if (argc == 5) {
		if (strcmp(kind, "thread"))
			hold(argv[4]);
		else if (pthread_create(&thread, NULL, hold, argv[4]) || pthread_join(thread, NULL))
			errx(1, "no thread");
		return 0;
	}
	while (!shared->is_held)
		usleep(LOOK_US);
	shared->is_wanted = 1;
	set(1);
	set(0);
	return 0;
}
