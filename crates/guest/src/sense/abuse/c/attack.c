/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * attack KIND CGROUP DIRECTORY: enters the cgroup, gives its privileges up, and gains CPU time, or so it hopes.
 *
 * In the directory it makes the file "ready" when all is prepared, and begins when there is a file "go". "tries" counts what it did.
 */
#include "trick.h"

#include <grp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define NOBODY 65534
/* Work of which its speed is known. */
#define KNOWN_ROUNDS 20000

#define MORE KIND
#define KIND(family, name, processes) void family##_##name(void);
#include "kinds.h"
#undef KIND

static const struct {
	const char *name;
	void (*run)(void);
} kinds[] = {
#define KIND(family, name, processes) { #name, family##_##name },
#include "kinds.h"
#undef KIND
};

/* Before it is somebody else: a helper like newuidmap, for namespaces_many_users(). */
void namespaces_begin_helper(void);

static unsigned long rounds_per_ms = KNOWN_ROUNDS;
static unsigned long *tries;

long must_succeed(long result, const char *call)
{
	if (result == -1) {
		fprintf(stderr, "%s: %s\n", call, strerror(errno));
		exit(1);
	}
	return result;
}

void must_be_refused(long result, const char *call)
{
	if (result != -1) {
		fprintf(stderr, "%s: was not refused\n", call);
		exit(1);
	}
}

#define STEP(x) (x) ^= (x) << 13, (x) ^= (x) >> 7, (x) ^= (x) << 17
#define STEPS(x) STEP(x), STEP(x), STEP(x), STEP(x), STEP(x), STEP(x), STEP(x), STEP(x)

/* As a hog of the loads: the emulator executes long runs without branches the fastest. */
static void compute(unsigned long rounds)
{
	unsigned long x = 1;

	for (; rounds; rounds--) {
		STEPS(x), STEPS(x);
		/* Nobody wants the result, but the compiler must not know. */
		__asm__ volatile("" : "+r"(x));
	}
}

void work(unsigned int us)
{
	compute(us * rounds_per_ms / 1000);
}

static void find_speed(void)
{
	long begin = now_ns(CLOCK_PROCESS_CPUTIME_ID);

	compute(KNOWN_ROUNDS);
	rounds_per_ms = KNOWN_ROUNDS * 1000000UL / (now_ns(CLOCK_PROCESS_CPUTIME_ID) - begin);
}

long now_ns(clockid_t clock)
{
	struct timespec time;

	must(clock_gettime(clock, &time));
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

void tried(void)
{
	__atomic_add_fetch(tries, 1, __ATOMIC_RELAXED);
}

static void count_tries(void)
{
	int file = must(open("tries", O_RDWR | O_CREAT | O_CLOEXEC, 0644));

	must(ftruncate(file, sizeof(*tries)));
	tries = (void *)must(mmap(NULL, sizeof(*tries), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
	close(file);
}

void ready(void)
{
	close(must(open("ready", O_WRONLY | O_CREAT, 0644)));
	while (access("go", F_OK))
		sleep_ns(1000000);
}

void keep_trying_each(unsigned int us, void (*trick)(void))
{
	ready();
	for (;;) {
		work(us);
		trick();
		tried();
	}
}

void keep_trying(void (*trick)(void))
{
	keep_trying_each(WORK_US, trick);
}

pid_t child(void (*does)(void))
{
	pid_t pid = must(fork());

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		does();
		_exit(0);
	}
	return pid;
}

void children(int number, void (*does)(void))
{
	while (number-- > 0)
		child(does);
}

void hog(void)
{
	for (;;)
		work(WORK_US);
}

void nap(unsigned int work_us, long ns)
{
	for (;;) {
		work(work_us);
		sleep_ns(ns);
		tried();
	}
}

void sleep_ns(long ns)
{
	struct timespec time = { ns / 1000000000, ns % 1000000000 };

	nanosleep(&time, NULL);
}

void give(int fd)
{
	must(write(fd, "x", 1));
}

void take(int fd)
{
	char byte;

	must(read(fd, &byte, 1));
}

void put(const char *path, const char *text)
{
	int file = must(open(path, O_WRONLY | O_CLOEXEC));

	if (write(file, text, strlen(text)) < 0) {
		fprintf(stderr, "write %s to %s: %s\n", text, path, strerror(errno));
		exit(1);
	}
	close(file);
}

/* processes_execs() and processes_vforks() execute this program: it works for a moment, and may go on so. */
static void work_as_told(const char *how)
{
	count_tries();
	work(WORK_US);
	tried();
	if (strcmp(how, "again"))
		exit(0);
	execl("/proc/self/exe", "attack", "work", "again", NULL);
	must(-1);
}

int main(int argc, char **argv)
{
	char procs[256];
	unsigned int i;

	if (argc == 3 && !strcmp(argv[1], "work"))
		work_as_told(argv[2]);
	if (argc != 4)
		return 2;
	snprintf(procs, sizeof(procs), "%s/cgroup.procs", argv[2]);
	put(procs, "0");
	must(chdir(argv[3]));
	if (!strcmp(argv[1], "many_users"))
		namespaces_begin_helper();
	must(setgroups(0, NULL));
	must(setresgid(NOBODY, NOBODY, NOBODY));
	must(setresuid(NOBODY, NOBODY, NOBODY));
	/* It may be traced by its own user's processes, and its files in /proc are its own. */
	must(prctl(PR_SET_DUMPABLE, 1));
	must(prctl(PR_SET_PDEATHSIG, SIGKILL));
	setenv("CGROUP", argv[2], 1);
	count_tries();
	find_speed();
	for (i = 0; i < NR(kinds); i++) {
		if (!strcmp(kinds[i].name, argv[1]))
			kinds[i].run();
	}
	fprintf(stderr, "no kind is called %s, or it came to an end\n", argv[1]);
	return 1;
}
