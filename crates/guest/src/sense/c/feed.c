/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Plays silence for ever, and makes no call but poll: samples and both positions are in mapped memory. The first argument is the
 * node of a playback stream. Prints "plays" when it does. With a second argument, it prepares the stream and gives it sound, prints
 * "waits", and asks for room for ever, but never starts.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include "card.h"

static int set_software(int card)
{
	struct snd_pcm_sw_params params = {
		.period_step = 1,
		.avail_min = PERIOD_FRAMES,
		.start_threshold = BUFFER_FRAMES,
		.stop_threshold = BUFFER_FRAMES,
		.boundary = 1UL << 30,
	};

	return ioctl(card, SNDRV_PCM_IOCTL_SW_PARAMS, &params);
}

int main(int argc, char **argv)
{
	int card = argc > 1 ? open(argv[1], O_RDWR) : -1;
	volatile struct snd_pcm_mmap_status *status;
	volatile struct snd_pcm_mmap_control *control;
	struct pollfd room = { .fd = card, .events = POLLOUT };
	char *samples;

	if (card < 0 || set_hardware(card, SNDRV_PCM_ACCESS_MMAP_INTERLEAVED) || set_software(card)) {
		perror("open and set up the card");
		return 1;
	}
	samples = mmap(NULL, BUFFER_FRAMES * FRAME_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, card,
		       SNDRV_PCM_MMAP_OFFSET_DATA);
	status = mmap(NULL, 4096, PROT_READ, MAP_SHARED, card, SNDRV_PCM_MMAP_OFFSET_STATUS);
	control = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, card, SNDRV_PCM_MMAP_OFFSET_CONTROL);
	if (samples == MAP_FAILED || (void *)status == MAP_FAILED || (void *)control == MAP_FAILED) {
		perror("map the card");
		return 1;
	}
	memset(samples, 0, BUFFER_FRAMES * FRAME_BYTES);
	if (ioctl(card, SNDRV_PCM_IOCTL_PREPARE)) {
		perror("prepare");
		return 1;
	}
	if (argc > 2) {
		struct timespec pause = { .tv_nsec = 10000000 };

		control->appl_ptr = PERIOD_FRAMES;
		puts("waits");
		fflush(stdout);
		for (;;) {
			if (poll(&room, 1, -1) != 1 || room.revents != POLLOUT) {
				perror("wait for room");
				return 1;
			}
			nanosleep(&pause, NULL);
		}
	}
	control->appl_ptr = BUFFER_FRAMES;
	if (ioctl(card, SNDRV_PCM_IOCTL_START)) {
		perror("start");
		return 1;
	}
	puts("plays");
	fflush(stdout);
	for (;;) {
		if (poll(&room, 1, -1) != 1 || room.revents != POLLOUT) {
			perror("wait for room");
			return 1;
		}
		control->appl_ptr = status->hw_ptr + BUFFER_FRAMES;
	}
}
