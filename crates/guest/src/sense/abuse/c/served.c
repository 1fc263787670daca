/* SPDX-License-Identifier: GPL-2.0-only */
/* Programs of others that somebody waits for: an attended server, and the daemon itself. */
#include "trick.h"

#include <stddef.h>
#include <sys/un.h>

#define CONTROL "/run/appease/control"
/* As many as the daemon lets one user have, and more. */
#define FLOOD 64

static int own;
static struct sockaddr_un server = { .sun_family = AF_UNIX, .sun_path = "\0" ASKED_NAME };

/* Datagrams come back to a name of one's own. */
static void call_server(void)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };

	own = must(socket(AF_UNIX, SOCK_DGRAM, 0));
	must(bind(own, (void *)&name, sizeof(name.sun_family)));
	must(connect(own, (void *)&server, offsetof(struct sockaddr_un, sun_path) + 1 + strlen(ASKED_NAME)));
}

static void ask(void)
{
	give(own);
	take(own);
}

/* The server may just serve somebody when it answers. */
void served_asked(void)
{
	call_server();
	keep_trying(ask);
}

static void ask_again(void)
{
	char byte;

	give(own);
	while (recv(own, &byte, 1, MSG_DONTWAIT) == 1)
		;
}

/* It never waits for an answer, but reads all that come. */
void served_answers_kept(void)
{
	call_server();
	keep_trying_each(WORK_US / 4, ask_again);
}

static int call_daemon(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX, .sun_path = CONTROL };
	int fd = must(socket(AF_UNIX, SOCK_STREAM, 0));

	must(connect(fd, (void *)&at, sizeof(at)));
	return fd;
}

/*
 * One question, and its answer to the end; messages of varlink end with a zero byte. The daemon may hang up, as it does on a user with
 * many connections.
 */
static void question(const char *text)
{
	char answer[4096];
	long size = strlen(text) + 1, got = send(own, text, size, MSG_NOSIGNAL);

	while (got > 0) {
		got = recv(own, answer, sizeof(answer), 0);
		if (got > 0 && !answer[got - 1])
			return;
	}
	close(own);
	own = call_daemon();
}

static void ask_why(void)
{
	char text[128];

	snprintf(text, sizeof(text), "{\"method\":\"appease.control.Why\",\"parameters\":{\"pid\":%d}}", getpid());
	question(text);
}

void served_control_socket(void)
{
	own = call_daemon();
	keep_trying(ask_why);
}

static int calls[FLOOD];

/* Whatever the daemon does with them; it may have closed some. */
static void call_and_keep(void)
{
	static int next;
	int *call = &calls[next++ % FLOOD];
	struct sockaddr_un at = { .sun_family = AF_UNIX, .sun_path = CONTROL };

	if (*call > 0)
		close(*call);
	*call = must(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0));
	if (!connect(*call, (void *)&at, sizeof(at)))
		send(*call, "{\"method\":\"appease.control.Status\"}", 35, MSG_NOSIGNAL);
}

void served_control_floods(void)
{
	keep_trying(call_and_keep);
}

/* Channels are root's to add. */
static void ask_for_rule(void)
{
	question("{\"method\":\"appease.control.AddChannel\",\"parameters\":{\"channel\":{\"access\":\"read\",\"accept\":\":7300\"}}}");
}

void served_rule_refused(void)
{
	own = call_daemon();
	keep_trying(ask_for_rule);
}
