/* SPDX-License-Identifier: GPL-2.0-only */
/* Who looks like somebody else: names of programs and of sockets are anybody's to choose. */

#include "trick.h"

#include <stddef.h>
#include <sys/prctl.h>
#include <sys/un.h>

static void rename_itself(void)
{
	static const char *const names[] = { "Xorg", "Xwayland", "x11vnc", "pipewire", "pulseaudio", "sshd", "kworker/0:1", "appease",
					     "systemd-logind", "ld-linux-x86-64" };
	static int next;

	must(prctl(PR_SET_NAME, names[next++ % NR(names)]));
}

void disguise_names(void)
{
	keep_trying(rename_itself);
}

static struct sockaddr_un at;
static socklen_t at_size;

/* By a path, or in the abstract namespace if it begins with "@". */
static int name_socket(const char *name)
{
	int fd = must(socket(AF_UNIX, SOCK_STREAM, 0));

	at = (struct sockaddr_un){ .sun_family = AF_UNIX };
	strcpy(at.sun_path, name);
	at_size = offsetof(struct sockaddr_un, sun_path) + strlen(name);
	if (*name == '@')
		at.sun_path[0] = '\0';
	else
		unlink(name);
	return fd;
}

/* A client that has a question as often as it gets an answer. */
static void ask(void)
{
	int fd = must(socket(AF_UNIX, SOCK_STREAM, 0));

	must(connect(fd, (void *)&at, at_size));
	for (;;) {
		give(fd);
		work(WORK_US);
		take(fd);
	}
}

static int connection;

static void answer(void)
{
	take(connection);
	give(connection);
}

static void serve_as(const char *program, const char *name)
{
	int listener;

	must(prctl(PR_SET_NAME, program));
	listener = name_socket(name);
	must(bind(listener, (void *)&at, at_size));
	must(listen(listener, 1));
	child(ask);
	connection = must(accept(listener, NULL, NULL));
	keep_trying(answer);
}

/* X clients find their server by this name. */
void disguise_display(void)
{
	serve_as("Xorg", "@/tmp/.X11-unix/X0");
}

void disguise_sound_server(void)
{
	must(mkdir("pulse", 0700));
	serve_as("pipewire", "pulse/native");
}

void disguise_message_bus(void)
{
	serve_as("dbus-daemon", "@/tmp/dbus-abuse");
}

/* Kernel threads go first, and have such names, and no program. */
static void look_like_kernel_thread(void)
{
	must(prctl(PR_SET_NAME, "kworker/u2:3-ev"));
	must(prctl(PR_SET_DUMPABLE, 0));
	for (;;) {
		work(WORK_US);
		sleep_ns(20000);
		tried();
	}
}

void disguise_kernel_thread(void)
{
	ready();
	child(look_like_kernel_thread);
	look_like_kernel_thread();
}
