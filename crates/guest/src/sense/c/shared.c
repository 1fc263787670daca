/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Processes that wake each other through memory that they share, and stay.
 *
 *	shared FILE wait N		waits for word N of the file, again and again
 *	shared FILE wake N MS		for each message on standard input: wakes who waits for word N, MS milliseconds after it
 *	shared FILE threads TIMES	for each message: wakes a thread of its own through private memory, TIMES times
 *
 * Prints "ready" first, and a line when it has done with a message.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NR_WORDS 16
/* Time in which who was woken waits again. */
#define SETTLE_US 2000

static uint32_t own;

static int futex(uint32_t *word, int operation, uint32_t value)
{
	return syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

static void wait_for(uint32_t *word, int flags)
{
	for (;;)
		futex(word, FUTEX_WAIT | flags, __atomic_load_n(word, __ATOMIC_ACQUIRE));
}

static int wake(uint32_t *word, int flags)
{
	__atomic_add_fetch(word, 1, __ATOMIC_RELEASE);
	return futex(word, FUTEX_WAKE | flags, INT_MAX);
}

static void *wait_in_thread(void *none)
{
	wait_for(&own, FUTEX_PRIVATE_FLAG);
	return none;
}

int main(int argc, char **argv)
{
	char message[4096];
	pthread_t thread;
	uint32_t *words;
	int file, woken, i;

	if (argc < 4 || (!strcmp(argv[2], "wake") && argc < 5))
		return 2;
	file = open(argv[1], O_RDWR | O_CREAT, 0600);
	if (file < 0 || ftruncate(file, NR_WORDS * sizeof(*words)))
		err(1, "%s", argv[1]);
	words = mmap(NULL, NR_WORDS * sizeof(*words), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (words == MAP_FAILED)
		err(1, "map %s", argv[1]);
	if (!strcmp(argv[2], "threads") && pthread_create(&thread, NULL, wait_in_thread, NULL))
		errx(1, "no thread");
	puts("ready");
	fflush(stdout);
	if (!strcmp(argv[2], "wait"))
		wait_for(words + atoi(argv[3]) % NR_WORDS, 0);
	while (read(0, message, sizeof(message)) > 0) {
		woken = 0;
		if (!strcmp(argv[2], "wake")) {
			if (atoi(argv[4]))
				usleep(atoi(argv[4]) * 1000);
			woken = wake(words + atoi(argv[3]) % NR_WORDS, 0);
		} else {
			for (i = 0; i < atoi(argv[3]); i++) {
				woken += wake(&own, FUTEX_PRIVATE_FLAG);
				usleep(SETTLE_US);
			}
		}
		printf("woke %d\n", woken);
		fflush(stdout);
	}
	return 0;
}
