/* SPDX-License-Identifier: GPL-2.0-only */
/* Sleep and clocks: who sleeps comes back before others, and who is away at a tick may not be seen. */
#include "trick.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>

/* The kernels' clock ticks at 250 Hz, or at 1000. */
#define TICK_NS 4000000L
#define BEFORE_NS 100000L
#define SLICE_US 2900
#define SLEEPERS 64
#define PARTY 16

/* Away when the tick comes, and back after it. */
static void sleep_over_tick(void)
{
	struct timespec until;
	long now = now_ns(CLOCK_MONOTONIC), next = (now / TICK_NS + 1) * TICK_NS;

	if (next - now > 2 * BEFORE_NS)
		return;
	next += BEFORE_NS;
	until = (struct timespec){ next / 1000000000, next % 1000000000 };
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	tried();
}

void timing_before_the_tick(void)
{
	must(prctl(PR_SET_TIMERSLACK, 1));
	ready();
	for (;;) {
		work(50);
		sleep_over_tick();
	}
}

static int timer;

/* It asks for an interrupt in the middle of others' turns, and waits for it. */
static void wait_for_timer(void)
{
	struct itimerspec soon = { .it_value = { 0, 50000 } };
	uint64_t times;

	must(timerfd_settime(timer, 0, &soon, NULL));
	must(read(timer, &times, sizeof(times)));
}

void timing_timers(void)
{
	timer = must(timerfd_create(CLOCK_MONOTONIC, 0));
	keep_trying(wait_for_timer);
}

static void note(int signal)
{
	(void)signal;
	tried();
}

/* Interrupted again and again, while it works. */
void timing_timer_signals(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	struct itimerspec each = { { 0, 1000000 }, { 0, 1000000 } };
	struct sigaction action = { .sa_handler = note };
	timer_t own;

	must(sigaction(SIGUSR1, &action, NULL));
	ready();
	must(timer_create(CLOCK_MONOTONIC, &event, &own));
	must(timer_settime(own, 0, &each, NULL));
	hog();
}

static void sleep_a_little(void)
{
	sleep_ns(20000);
}

void timing_short_sleeps(void)
{
	must(prctl(PR_SET_TIMERSLACK, 1));
	keep_trying_each(500, sleep_a_little);
}

/* It ends each turn just before the scheduler does. */
void timing_end_of_slice(void)
{
	must(prctl(PR_SET_TIMERSLACK, 1));
	keep_trying_each(SLICE_US, sleep_a_little);
}

static void work_by_turns(void)
{
	nap(WORK_US, (PARTY - 1) * 1000000L);
}

/* Each of them looks as if somebody worked with it; together they want all of the CPU. */
void timing_by_turns(void)
{
	ready();
	children(PARTY - 1, work_by_turns);
	work_by_turns();
}

static void work_seldom(void)
{
	nap(2 * WORK_US, 20000000);
}

void timing_sleepers(void)
{
	ready();
	children(SLEEPERS - 1, work_seldom);
	work_seldom();
}

static void yield(void)
{
	must(sched_yield());
}

void timing_yields(void)
{
	keep_trying_each(200, yield);
}
