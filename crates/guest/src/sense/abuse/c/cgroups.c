/* SPDX-License-Identifier: GPL-2.0-only */
/* Cgroups below one's own: a service manager gives them to a user, controllers included. */
#include "trick.h"

#define GROUPS 16

static void path_of(char *path, size_t size, const char *group, const char *file)
{
	snprintf(path, size, "%s/%s/%s", getenv("CGROUP"), group, file);
}

static void set(const char *group, const char *file, const char *value)
{
	char path[256];

	path_of(path, sizeof(path), group, file);
	put(path, value);
}

static void make(const char *group)
{
	char path[256];

	path_of(path, sizeof(path), group, "");
	must(mkdir(path, 0755));
}

/* Everybody is in a group below, so that the groups may have weights. */
static void divide(void)
{
	make("first");
	make("second");
	set("first", "cgroup.procs", "0");
	set("", "cgroup.subtree_control", "+cpu");
}

static void hog_in_second(void)
{
	set("second", "cgroup.procs", "0");
	for (;;) {
		work(WORK_US);
		tried();
	}
}

static void keep_on(void (*trick)(void))
{
	child(hog_in_second);
	keep_trying(trick);
}

static void nothing(void)
{
}

/* The greatest weights that there are. */
void cgroups_heavy(void)
{
	divide();
	set("first", "cpu.weight", "10000");
	set("second", "cpu.weight", "10000");
	keep_on(nothing);
}

static int number;

/* Into a group of its own. */
static void enter_own(void)
{
	char name[16];

	snprintf(name, sizeof(name), "group%d", number);
	make(name);
	set(name, "cgroup.procs", "0");
}

static void hog_in_own(void)
{
	enter_own();
	hog();
}

void cgroups_many(void)
{
	divide();
	ready();
	for (number = 1; number < GROUPS; number++)
		child(hog_in_own);
	for (;;) {
		work(WORK_US);
		tried();
	}
}

static void move(void)
{
	static int next;

	set(next++ % 2 ? "first" : "second", "cgroup.procs", "0");
}

void cgroups_moves(void)
{
	divide();
	keep_on(move);
}

static void change_idle(void)
{
	static int next;

	set("second", "cpu.idle", next++ % 2 ? "0" : "1");
}

void cgroups_idle_or_not(void)
{
	divide();
	keep_on(change_idle);
}

/* Who has waited for its quota may come back with more than it is due. */
static void change_limit(void)
{
	static int next;

	set("second", "cpu.max", next++ % 2 ? "max" : "1000 10000");
}

void cgroups_limits(void)
{
	divide();
	keep_on(change_limit);
}

static void freeze(void)
{
	static int next;

	set("second", "cgroup.freeze", next++ % 2 ? "0" : "1");
}

void cgroups_frozen(void)
{
	divide();
	keep_on(freeze);
}

static int ends[GROUPS][2];

static void be_member(void)
{
	enter_own();
	for (;;) {
		take(ends[number][0]);
		work(WORK_US);
		give(ends[(number + 1) % GROUPS][1]);
		tried();
	}
}

/* Each member of a ring is in a group of its own, which wants nothing most of the time. */
void cgroups_ring_of_groups(void)
{
	int i;

	divide();
	for (i = 0; i < GROUPS; i++)
		must(pipe(ends[i]));
	for (number = 1; number < GROUPS; number++)
		child(be_member);
	number = 0;
	ready();
	give(ends[0][1]);
	be_member();
}

static void nap_in_own(void)
{
	enter_own();
	nap(WORK_US, GROUPS * 1000000L);
}

void cgroups_sleeping_groups(void)
{
	divide();
	ready();
	for (number = 1; number < GROUPS; number++)
		child(nap_in_own);
	nap_in_own();
}

/* A weight of its own is its parent's to give, and other groups are not this user's. */
static void leave(void)
{
	char path[256];

	path_of(path, sizeof(path), "", "cpu.weight");
	must_fail(open(path, O_WRONLY));
	must_fail(open("/sys/fs/cgroup/cgroup.procs", O_WRONLY));
	must_fail(open("/sys/fs/cgroup/others/cgroup.procs", O_WRONLY));
}

void cgroups_others_refused(void)
{
	keep_trying(leave);
}
