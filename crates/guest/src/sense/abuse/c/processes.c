/* SPDX-License-Identifier: GPL-2.0-only */
/* Children and threads: what is new has no past, and who ends leaves its debts. */
#include "trick.h"

#include <pthread.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#define STORMS 8
#define THREADS 64
#define HOGS 128
/* What a child does in its life, us. */
#define LIFE_US 3000

static void live(void)
{
	work(LIFE_US);
	tried();
}

static void bear(void)
{
	must(waitpid(child(live), NULL, 0));
}

static void bear_for_ever(void)
{
	for (;;)
		bear();
}

/* Its children do the work, each for a few milliseconds. */
void processes_forks(void)
{
	ready();
	bear_for_ever();
}

void processes_fork_storm(void)
{
	ready();
	children(STORMS - 1, bear_for_ever);
	bear_for_ever();
}

/* The child goes on, and the parent ends. The first one stays, and looks on. */
static void inherit(void)
{
	for (;;) {
		live();
		if (must(fork()))
			_exit(0);
	}
}

void processes_heirs(void)
{
	ready();
	child(inherit);
	for (;;)
		pause();
}

/* The child is its parent's sibling. */
static void bear_siblings(void)
{
	for (;;) {
		live();
		if (must(syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL)))
			_exit(0);
	}
}

void processes_siblings(void)
{
	ready();
	child(bear_siblings);
	for (;;) {
		if (wait(NULL) < 0 && errno == ECHILD)
			must(-1);
	}
}

static void become_worker(const char *how)
{
	execl("/proc/self/exe", "attack", "work", how, NULL);
	_exit(1);
}

static void bear_worker(void)
{
	pid_t pid = must(vfork());
	int status;

	if (!pid)
		become_worker("once");
	must(waitpid(pid, &status, 0));
	must(status ? -1 : 0);
}

void processes_vforks(void)
{
	keep_trying(bear_worker);
}

/* The same process is another program each time. */
void processes_execs(void)
{
	ready();
	become_worker("again");
}

static void *live_as_thread(void *nothing)
{
	live();
	return nothing;
}

static void begin_thread(void)
{
	pthread_t thread;

	must(pthread_create(&thread, NULL, live_as_thread, NULL) ? -1 : 0);
	must(pthread_join(thread, NULL) ? -1 : 0);
}

void processes_short_threads(void)
{
	keep_trying_each(1, begin_thread);
}

static void *work_as_thread(void *nothing)
{
	for (;;) {
		work(WORK_US);
		tried();
	}
	return nothing;
}

static void begin_threads(int number)
{
	pthread_t thread;

	for (; number > 0; number--)
		must(pthread_create(&thread, NULL, work_as_thread, NULL) ? -1 : 0);
}

void processes_many_threads(void)
{
	ready();
	begin_threads(THREADS - 1);
	work_as_thread(NULL);
}

static void work_and_count(void)
{
	work_as_thread(NULL);
}

void processes_many_hogs(void)
{
	ready();
	children(HOGS - 1, work_and_count);
	work_and_count();
}

/* The thread whose number is the process's ends, and another one goes on. */
static void lose_leader(void)
{
	begin_threads(1);
	pthread_exit(NULL);
}

void processes_lost_leader(void)
{
	ready();
	child(lose_leader);
	for (;;)
		pause();
}

static pid_t stopped;

static void stop_and_go_on(void)
{
	static int is_stopped;

	is_stopped = !is_stopped;
	must(kill(stopped, is_stopped ? SIGSTOP : SIGCONT));
}

void processes_stopped(void)
{
	stopped = child(hog);
	keep_trying(stop_and_go_on);
}

static void trace(void)
{
	int status;

	must(ptrace(PTRACE_INTERRUPT, stopped, NULL, NULL));
	must(waitpid(stopped, &status, __WALL));
	must(ptrace(PTRACE_CONT, stopped, NULL, NULL));
}

void processes_traced(void)
{
	stopped = child(hog);
	must(ptrace(PTRACE_SEIZE, stopped, NULL, NULL));
	keep_trying(trace);
}
