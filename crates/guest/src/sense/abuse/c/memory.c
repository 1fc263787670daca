/* SPDX-License-Identifier: GPL-2.0-only */
/* Memory: faults that another process of one's own answers, and calls that take long in the kernel. */
#include "trick.h"

#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define PAGE 4096
#define PAGES 256

static int faults;
static char *watched;

/* One thread's faults wake another one, which works and wakes it. */
static void *answer_faults(void *nothing)
{
	static char page[PAGE] __attribute__((aligned(PAGE)));
	struct uffd_msg message;

	for (;;) {
		struct uffdio_copy copy = { .src = (unsigned long)page, .len = PAGE };

		must(read(faults, &message, sizeof(message)));
		work(WORK_US);
		copy.dst = message.arg.pagefault.address & ~(PAGE - 1UL);
		must(ioctl(faults, UFFDIO_COPY, &copy));
	}
	return nothing;
}

static void fault(void)
{
	static int next;
	char *page = watched + next++ % PAGES * PAGE;

	*(volatile char *)page = 1;
	must(madvise(page, PAGE, MADV_DONTNEED));
}

void memory_faults(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register area = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	pthread_t thread;

	faults = must(syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY));
	must(ioctl(faults, UFFDIO_API, &api));
	watched = (void *)must(mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	area.range = (struct uffdio_range){ .start = (unsigned long)watched, .len = PAGES * PAGE };
	must(ioctl(faults, UFFDIO_REGISTER, &area));
	must(pthread_create(&thread, NULL, answer_faults, NULL) ? -1 : 0);
	keep_trying(fault);
}

static void map_and_unmap(void)
{
	char *area = (void *)must(mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));

	must(munmap(area, PAGES * PAGE));
}

void memory_maps(void)
{
	keep_trying(map_and_unmap);
}

static void look_at_residents(void)
{
	static unsigned char are_there[PAGES];

	must(mincore(watched, PAGES * PAGE, are_there));
	must(madvise(watched, PAGES * PAGE, MADV_COLD));
}

void memory_residents(void)
{
	watched = (void *)must(mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
	keep_trying(look_at_residents);
}
