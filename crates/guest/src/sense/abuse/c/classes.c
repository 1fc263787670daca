/* SPDX-License-Identifier: GPL-2.0-only */
/* What a user may say about its own tasks: slices, classes, nice values, CPUs. */
#include "trick.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define PARTY 4
/* As in linux/sched.h, which contradicts glibc's sched.h. */
#define POLICY_DEADLINE 6
#define KEEP_ALL 0x18
#define CLAMP_MIN 0x20

struct attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
	uint32_t util_min, util_max;
};

static void set_slice(long ns)
{
	struct attributes how = { .size = sizeof(how), .policy = SCHED_OTHER, .runtime = ns };

	must(syscall(SYS_sched_setattr, 0, &how, 0));
}

static void have_slice(long ns)
{
	for (;;) {
		set_slice(ns);
		work(WORK_US);
		tried();
	}
}

static void have_long_slice(void)
{
	have_slice(100000000);
}

static void have_short_slice(void)
{
	have_slice(100000);
}

void classes_long_slice(void)
{
	ready();
	children(PARTY - 1, have_long_slice);
	have_long_slice();
}

void classes_short_slice(void)
{
	ready();
	children(PARTY - 1, have_short_slice);
	have_short_slice();
}

/* There is no way back from the idle class, but its children are what they ask for. */
static void be_idle(void)
{
	struct sched_param none = {};

	must(sched_setscheduler(0, SCHED_IDLE, &none));
	work(WORK_US / 10);
}

static void change_class(void)
{
	static int next;
	struct sched_param none = {};

	must(sched_setscheduler(0, next++ % 2 ? SCHED_OTHER : SCHED_BATCH, &none));
	if (next % 8 == 0)
		child(be_idle);
}

static void change_for_ever(void)
{
	/* Nobody waits for those in the idle class. */
	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		work(WORK_US);
		change_class();
		tried();
	}
}

void classes_batch_and_idle(void)
{
	ready();
	child(change_for_ever);
	change_for_ever();
}

/* A child at nice 19 that ends is followed by one at 0. */
static void be_nice(void)
{
	work(WORK_US);
	must(setpriority(PRIO_PROCESS, 0, 19));
	work(WORK_US / 10);
}

static void bear_nice(void)
{
	for (;;) {
		must(waitpid(child(be_nice), NULL, 0));
		tried();
	}
}

void classes_nice_heirs(void)
{
	ready();
	child(bear_nice);
	bear_nice();
}

static void change_cpus(void)
{
	static int next;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	if (next++ % 2)
		memset(&set, 0xff, sizeof(set));
	must(sched_setaffinity(0, sizeof(set), &set));
}

static void change_cpus_for_ever(void)
{
	for (;;) {
		work(WORK_US);
		change_cpus();
		tried();
	}
}

void classes_affinity(void)
{
	ready();
	child(change_cpus_for_ever);
	change_cpus_for_ever();
}

/* Deadlines, realtime and lower nice values are not a user's. */
static void ask_for_more(void)
{
	struct sched_param one = { .sched_priority = 1 };
	struct attributes deadline = {
		.size = sizeof(deadline),
		.policy = POLICY_DEADLINE,
		.runtime = 1000000,
		.deadline = 2000000,
		.period = 2000000,
	};

	must_fail(sched_setscheduler(0, SCHED_FIFO, &one));
	must_fail(syscall(SYS_sched_setattr, 0, &deadline, 0));
	must_fail(setpriority(PRIO_PROCESS, 0, -5));
}

void classes_realtime_refused(void)
{
	keep_trying(ask_for_more);
}

/* Each in a session of its own, which autogroups go by, where the kernel has them. */
static void begin_session(void)
{
	must(setsid());
	work(WORK_US);
}

static void begin_sessions(void)
{
	for (;;) {
		must(waitpid(child(begin_session), NULL, 0));
		tried();
	}
}

void classes_autogroups(void)
{
	ready();
	child(begin_sessions);
	begin_sessions();
}

/* A user may ask for a slow clock, or for a fast one within limits; not every kernel has that. */
static void clamp(void)
{
	struct attributes how = { .size = sizeof(how), .flags = KEEP_ALL | CLAMP_MIN, .util_min = 1024 };

	if (syscall(SYS_sched_setattr, 0, &how, 0) && errno != EOPNOTSUPP && errno != EPERM && errno != EINVAL)
		must(-1);
}

static void clamp_for_ever(void)
{
	for (;;) {
		work(WORK_US);
		clamp();
		tried();
	}
}

void classes_clamps(void)
{
	ready();
	child(clamp_for_ever);
	clamp_for_ever();
}
