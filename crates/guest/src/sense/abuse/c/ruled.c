/* SPDX-License-Identifier: GPL-2.0-only */
/* A rule says who is a customer by a FIFO or a socket's name, but a process may hold both ends. */

#include "trick.h"

#include <stddef.h>
#include <sys/un.h>

static int ends[2];

static void through(void)
{
	give(ends[1]);
	take(ends[0]);
}

/* Each end is opened for itself. */
static void through_fifo(const char *path)
{
	int both = must(open(path, O_RDWR));

	ends[0] = must(open(path, O_RDONLY));
	ends[1] = must(open(path, O_WRONLY));
	close(both);
	keep_trying(through);
}

void ruled_fifo_read(void)
{
	through_fifo(RULED_FIFO_READ);
}

void ruled_fifo_write(void)
{
	through_fifo(RULED_FIFO_WRITE);
}

static socklen_t abstract(struct sockaddr_un *at, const char *name)
{
	*at = (struct sockaddr_un){ .sun_family = AF_UNIX };
	strcpy(at->sun_path + 1, name);
	return offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name);
}

static int listen_by_name(void)
{
	struct sockaddr_un at;
	socklen_t size = abstract(&at, RULED_NAME);
	int listener = must(socket(AF_UNIX, SOCK_STREAM, 0));

	must(bind(listener, (void *)&at, size));
	must(listen(listener, 16));
	return listener;
}

static int call_by_name(void)
{
	struct sockaddr_un at;
	socklen_t size = abstract(&at, RULED_NAME);
	int client = must(socket(AF_UNIX, SOCK_STREAM, 0));

	must(connect(client, (void *)&at, size));
	return client;
}

static void call_and_feed(void)
{
	int client = call_by_name();

	for (;;) {
		work(WORK_US);
		send(client, "x", 1, MSG_DONTWAIT);
		tried();
	}
}

static void take_if_there(void)
{
	char byte;

	recv(ends[0], &byte, 1, MSG_DONTWAIT);
}

void ruled_childs_socket(void)
{
	int listener = listen_by_name();

	child(call_and_feed);
	ends[0] = must(accept(listener, NULL, NULL));
	keep_trying(take_if_there);
}

static int door;

static void call_once(void)
{
	int client = call_by_name();

	give(client);
	work(WORK_US);
	take(client);
}

/* Each caller is a process of its own, and as a customer unknown. */
static void serve_a_new_caller(void)
{
	pid_t caller = child(call_once);
	int connection = must(accept(door, NULL, NULL));

	take(connection);
	work(WORK_US);
	give(connection);
	close(connection);
	must(waitpid(caller, NULL, 0));
}

void ruled_callers(void)
{
	door = listen_by_name();
	keep_trying(serve_a_new_caller);
}
