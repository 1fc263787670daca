/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An unprivileged user writes to an input device, and reads from it.
 *
 *	forge event NODE	makes a key up and reads that, again and again; prints "ready" before
 *	forge raw NODE		writes a report, prints "wrote"; then reads reports, and prints "read" after each
 */
#include <fcntl.h>
#include <linux/input.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NOBODY 65534
#define PAUSE_US 20000

static int say(const char *word)
{
	return puts(word) < 0 || fflush(stdout);
}

static int make_up(int device)
{
	struct input_event events[2] = {
		{ .type = EV_KEY, .code = KEY_OK },
		{ .type = EV_SYN, .code = SYN_REPORT },
	}, read_back[2];

	if (say("ready"))
		return -1;
	for (;;) {
		events[0].value = !events[0].value;
		if (write(device, events, sizeof(events)) != sizeof(events) || read(device, read_back, sizeof(read_back)) <= 0)
			return -1;
		usleep(PAUSE_US);
	}
}

static int ask(int device)
{
	/* The number of the report, and a byte. */
	char report[2] = { 0, 1 }, answer[64];

	if (write(device, report, sizeof(report)) != sizeof(report) || say("wrote"))
		return -1;
	for (;;) {
		if (read(device, answer, sizeof(answer)) <= 0 || say("read"))
			return -1;
	}
}

int main(int argc, char **argv)
{
	int device = argc > 2 ? open(argv[2], O_RDWR) : -1;

	if (device < 0 || setuid(NOBODY)) {
		perror("open the device as root, and be nobody");
		return 1;
	}
	if (strcmp(argv[1], "event") ? ask(device) : make_up(device))
		perror(argv[1]);
	return 1;
}
