/* SPDX-License-Identifier: GPL-2.0-only */
/* Terminals: a user who holds the master of one is the one who types. */
#include "trick.h"

#include <sys/ioctl.h>
#include <termios.h>

#define DEPTH 4

static int master, slave;

static int open_master(void)
{
	int fd = must(posix_openpt(O_RDWR | O_NOCTTY));

	must(unlockpt(fd));
	return fd;
}

/* Each byte is handed on as it comes, and comes back by no echo. */
static int open_slave(int of)
{
	int fd = must(open(ptsname(of), O_RDWR | O_NOCTTY));
	struct termios how;

	must(tcgetattr(fd, &how));
	cfmakeraw(&how);
	must(tcsetattr(fd, TCSANOW, &how));
	return fd;
}

static void type(void)
{
	give(master);
	take(slave);
	give(slave);
	take(master);
}

void terminals_pty(void)
{
	master = open_master();
	slave = open_slave(master);
	keep_trying(type);
}

/* As a login shell has it. */
void terminals_controlling(void)
{
	master = open_master();
	slave = open_slave(master);
	must(setsid());
	must(ioctl(slave, TIOCSCTTY, 0));
	must(tcsetpgrp(slave, getpgrp()));
	keep_trying(type);
}

/* Kernels may refuse it; that is an answer, too. */
static void push_back(void)
{
	int flags = fcntl(slave, F_GETFL);
	char bytes[16];

	if (ioctl(slave, TIOCSTI, "x"))
		give(master);
	must(fcntl(slave, F_SETFL, flags | O_NONBLOCK));
	while (read(slave, bytes, sizeof(bytes)) > 0)
		;
	must(fcntl(slave, F_SETFL, flags));
}

void terminals_pushed_back(void)
{
	master = open_master();
	slave = open_slave(master);
	must(setsid());
	must(ioctl(slave, TIOCSCTTY, 0));
	keep_trying(push_back);
}

static int levels[DEPTH][2];

/* As a terminal multiplexer in another one. */
static void type_through_all(void)
{
	int i;

	for (i = 0; i < DEPTH; i++) {
		give(levels[i][0]);
		take(levels[i][1]);
	}
}

void terminals_nested(void)
{
	int i;

	for (i = 0; i < DEPTH; i++) {
		levels[i][0] = open_master();
		levels[i][1] = open_slave(levels[i][0]);
	}
	keep_trying(type_through_all);
}

/* A shell at a terminal of its own, to which commands are typed. */
static void be_shell(void)
{
	must(setsid());
	must(ioctl(slave, TIOCSCTTY, 0));
	must(dup2(slave, 0));
	must(dup2(slave, 1));
	close(master);
	must(execlp("sh", "sh", "-c", "while read line; do i=0; while [ $i -lt 500 ]; do i=$((i + 1)); done; echo $line; done", NULL));
}

static void type_line(void)
{
	char answer[16];

	must(write(master, "go\n", 3));
	must(read(master, answer, sizeof(answer)));
}

void terminals_shell(void)
{
	struct termios how;

	master = open_master();
	slave = must(open(ptsname(master), O_RDWR | O_NOCTTY));
	must(tcgetattr(slave, &how));
	how.c_lflag &= ~ECHO;
	must(tcsetattr(slave, TCSANOW, &how));
	child(be_shell);
	keep_trying(type_line);
}

/* Consoles and serial lines are not this user's. */
static void try_consoles(void)
{
	must_fail(open("/dev/tty1", O_RDWR | O_NOCTTY));
	must_fail(open("/dev/ttyS0", O_RDWR | O_NOCTTY));
	must_fail(open("/dev/vcs1", O_RDWR));
}

void terminals_console(void)
{
	keep_trying(try_consoles);
}
