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
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <sound/asound.h>

#define RATE 48000
#define CHANNELS 2
#define FRAME_BYTES (CHANNELS * 2)
#define PERIOD_FRAMES 2400
#define BUFFER_FRAMES (4 * PERIOD_FRAMES)

static void choose(struct snd_pcm_hw_params *params, int what, unsigned int value)
{
	struct snd_interval *interval = &params->intervals[what - SNDRV_PCM_HW_PARAM_FIRST_INTERVAL];

	interval->min = interval->max = value;
	interval->integer = 1;
}

static void choose_kind(struct snd_pcm_hw_params *params, int what, unsigned int value)
{
	struct snd_mask *mask = &params->masks[what - SNDRV_PCM_HW_PARAM_FIRST_MASK];

	memset(mask, 0, sizeof(*mask));
	mask->bits[value / 32] = 1U << value % 32;
}

/* Anything goes but what is chosen. */
static int set_hardware(int card)
{
	struct snd_pcm_hw_params params = { .rmask = ~0U };
	int i;

	memset(params.masks, 0xff, sizeof(params.masks));
	for (i = 0; i <= SNDRV_PCM_HW_PARAM_LAST_INTERVAL - SNDRV_PCM_HW_PARAM_FIRST_INTERVAL; i++)
		params.intervals[i].max = ~0U;
	choose_kind(&params, SNDRV_PCM_HW_PARAM_ACCESS, SNDRV_PCM_ACCESS_MMAP_INTERLEAVED);
	choose_kind(&params, SNDRV_PCM_HW_PARAM_FORMAT, SNDRV_PCM_FORMAT_S16_LE);
	choose_kind(&params, SNDRV_PCM_HW_PARAM_SUBFORMAT, SNDRV_PCM_SUBFORMAT_STD);
	choose(&params, SNDRV_PCM_HW_PARAM_CHANNELS, CHANNELS);
	choose(&params, SNDRV_PCM_HW_PARAM_RATE, RATE);
	choose(&params, SNDRV_PCM_HW_PARAM_PERIOD_SIZE, PERIOD_FRAMES);
	choose(&params, SNDRV_PCM_HW_PARAM_BUFFER_SIZE, BUFFER_FRAMES);
	return ioctl(card, SNDRV_PCM_IOCTL_HW_PARAMS, &params);
}

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

	if (card < 0 || set_hardware(card) || set_software(card)) {
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
