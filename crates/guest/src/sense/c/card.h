/* SPDX-License-Identifier: GPL-2.0-only */
/* A playback stream of a sound card, by the kernel's own interface: two channels of 16 bits, four periods of 50 ms. */
#ifndef CARD_H
#define CARD_H

#include <string.h>
#include <sys/ioctl.h>
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
static int set_hardware(int card, unsigned int access)
{
	struct snd_pcm_hw_params params = { .rmask = ~0U };
	int i;

	memset(params.masks, 0xff, sizeof(params.masks));
	for (i = 0; i <= SNDRV_PCM_HW_PARAM_LAST_INTERVAL - SNDRV_PCM_HW_PARAM_FIRST_INTERVAL; i++)
		params.intervals[i].max = ~0U;
	choose_kind(&params, SNDRV_PCM_HW_PARAM_ACCESS, access);
	choose_kind(&params, SNDRV_PCM_HW_PARAM_FORMAT, SNDRV_PCM_FORMAT_S16_LE);
	choose_kind(&params, SNDRV_PCM_HW_PARAM_SUBFORMAT, SNDRV_PCM_SUBFORMAT_STD);
	choose(&params, SNDRV_PCM_HW_PARAM_CHANNELS, CHANNELS);
	choose(&params, SNDRV_PCM_HW_PARAM_RATE, RATE);
	choose(&params, SNDRV_PCM_HW_PARAM_PERIOD_SIZE, PERIOD_FRAMES);
	choose(&params, SNDRV_PCM_HW_PARAM_BUFFER_SIZE, BUFFER_FRAMES);
	return ioctl(card, SNDRV_PCM_IOCTL_HW_PARAMS, &params);
}

#endif
