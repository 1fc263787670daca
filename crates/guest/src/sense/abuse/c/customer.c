/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * customer DEVICE DIRECTORY: a program of somebody else's that is served for the device. Each time it takes a lock that anybody may hold,
 * for a moment. It answers datagrams of anybody.
 */
#include "trick.h"

#include <stddef.h>
#include <sys/file.h>
#include <sys/un.h>

static int answer(int door)
{
	struct sockaddr_un from;
	socklen_t size = sizeof(from);
	char byte;

	if (recvfrom(door, &byte, 1, MSG_DONTWAIT, (void *)&from, &size) != 1)
		return -1;
	/* Who does not read has no room. */
	sendto(door, &byte, 1, MSG_DONTWAIT, (void *)&from, size);
	return 0;
}

static int serve(int device, int lock)
{
	char events[4096];

	return read(device, events, sizeof(events)) <= 0 || flock(lock, LOCK_EX) || flock(lock, LOCK_UN) ? -1 : 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX, .sun_path = "\0" ASKED_NAME };
	int device = argc == 3 && !chdir(argv[2]) ? open(argv[1], O_RDONLY) : -1;
	int lock = open(WANTED_LOCK, O_RDONLY | O_CREAT, 0644), door = socket(AF_UNIX, SOCK_DGRAM, 0);
	struct pollfd both[] = { { .fd = device, .events = POLLIN }, { .fd = door, .events = POLLIN } };

	if (device < 0 || lock < 0 || bind(door, (void *)&name, offsetof(struct sockaddr_un, sun_path) + 1 + strlen(ASKED_NAME))) {
		perror("begin");
		return 1;
	}
	while (poll(both, 2, -1) > 0) {
		if ((both[0].revents && serve(device, lock)) || (both[1].revents && answer(door)))
			break;
	}
	perror("serve");
	return 1;
}
