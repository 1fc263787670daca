/* SPDX-License-Identifier: GPL-2.0-only */
/* Namespaces: anybody can be root in one of its own, and many users if so permitted. */
#include "trick.h"

#include <sched.h>
#include <sys/prctl.h>

#define USERS 16
#define MAPPED "0 100000 65536"

void enter_own_namespaces(int more)
{
	char map[64];
	int uid = getuid(), gid = getgid();

	must(unshare(CLONE_NEWUSER | more));
	put("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %d 1", uid);
	put("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "0 %d 1", gid);
	put("/proc/self/gid_map", map);
}

static int asked[2];

/* What newuidmap does, as root, for users who have numbers for it in /etc/subuid. */
static void help(void)
{
	char path[64];

	take(asked[0]);
	snprintf(path, sizeof(path), "/proc/%d/uid_map", getppid());
	put(path, MAPPED);
	snprintf(path, sizeof(path), "/proc/%d/gid_map", getppid());
	put(path, MAPPED);
	give(asked[0]);
}

void namespaces_begin_helper(void)
{
	must(socketpair(AF_UNIX, SOCK_STREAM, 0, asked));
	child(help);
}

static int number;

static void be_user(void)
{
	must(setresuid(number, number, number));
	for (;;) {
		work(WORK_US);
		tried();
	}
}

void namespaces_many_users(void)
{
	must(unshare(CLONE_NEWUSER));
	give(asked[1]);
	take(asked[1]);
	must(wait(NULL));
	must(setresgid(0, 0, 0));
	must(setresuid(0, 0, 0));
	ready();
	for (number = 2; number <= USERS; number++)
		child(be_user);
	number = 1;
	be_user();
}

static void bear_for_ever(void)
{
	for (;;) {
		pid_t pid = must(fork());

		if (!pid) {
			work(2 * WORK_US);
			_exit(0);
		}
		must(waitpid(pid, NULL, 0));
		tried();
	}
}

/* The first process of a namespace, and its children. */
void namespaces_processes(void)
{
	enter_own_namespaces(CLONE_NEWPID);
	ready();
	child(bear_for_ever);
	hog();
}

static void enter_new(void)
{
	static const int kinds[] = { CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWNS };
	static int next;

	must(unshare(kinds[next++ % NR(kinds)]));
}

void namespaces_entered(void)
{
	enter_own_namespaces(CLONE_NEWUTS);
	keep_trying(enter_new);
}

static void work_in_namespace(void)
{
	must(unshare(CLONE_NEWCGROUP));
	for (;;) {
		work(WORK_US);
		tried();
	}
}

void namespaces_cgroups(void)
{
	enter_own_namespaces(CLONE_NEWCGROUP);
	ready();
	child(work_in_namespace);
	work_in_namespace();
}
