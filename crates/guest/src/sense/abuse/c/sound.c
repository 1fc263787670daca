/* SPDX-License-Identifier: GPL-2.0-only */
/* Sound: it counts while somebody hears it, or is about to. A user at the seat may open the card. */
#include "trick.h"

#include <sound/asound.h>
#include <sys/ioctl.h>

#define RATE 48000
#define CHANNELS 2
#define PERIOD_FRAMES 2400
#define BUFFER_FRAMES (4 * PERIOD_FRAMES)

static int card;

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

/* A playback stream that begins when it is told to. */
static void open_sound(void)
{
	struct snd_pcm_hw_params params = { .rmask = ~0U };
	struct snd_pcm_sw_params software = {
		.period_step = 1,
		.avail_min = PERIOD_FRAMES,
		.start_threshold = 1UL << 30,
		.stop_threshold = 1UL << 30,
		.boundary = 1UL << 30,
	};
	int i;

	card = must(open(SOUND, O_RDWR | O_NONBLOCK));
	memset(params.masks, 0xff, sizeof(params.masks));
	for (i = 0; i <= SNDRV_PCM_HW_PARAM_LAST_INTERVAL - SNDRV_PCM_HW_PARAM_FIRST_INTERVAL; i++)
		params.intervals[i].max = ~0U;
	choose_kind(&params, SNDRV_PCM_HW_PARAM_ACCESS, SNDRV_PCM_ACCESS_RW_INTERLEAVED);
	choose_kind(&params, SNDRV_PCM_HW_PARAM_FORMAT, SNDRV_PCM_FORMAT_S16_LE);
	choose_kind(&params, SNDRV_PCM_HW_PARAM_SUBFORMAT, SNDRV_PCM_SUBFORMAT_STD);
	choose(&params, SNDRV_PCM_HW_PARAM_CHANNELS, CHANNELS);
	choose(&params, SNDRV_PCM_HW_PARAM_RATE, RATE);
	choose(&params, SNDRV_PCM_HW_PARAM_PERIOD_SIZE, PERIOD_FRAMES);
	choose(&params, SNDRV_PCM_HW_PARAM_BUFFER_SIZE, BUFFER_FRAMES);
	must(ioctl(card, SNDRV_PCM_IOCTL_HW_PARAMS, &params));
	must(ioctl(card, SNDRV_PCM_IOCTL_SW_PARAMS, &software));
}

static void write_silence(int frames)
{
	static short silence[BUFFER_FRAMES * CHANNELS];
	struct snd_xferi sound = { .buf = silence, .frames = frames };

	if (ioctl(card, SNDRV_PCM_IOCTL_WRITEI_FRAMES, &sound) && errno != EAGAIN)
		must(-1);
}

/* It is about to play, again and again, and never does. */
static void prepare(void)
{
	struct pollfd room = { .fd = card, .events = POLLOUT };

	must(ioctl(card, SNDRV_PCM_IOCTL_PREPARE));
	write_silence(PERIOD_FRAMES);
	must(poll(&room, 1, 0));
}

void sound_prepared(void)
{
	open_sound();
	keep_trying(prepare);
}

static void begin(void)
{
	must(ioctl(card, SNDRV_PCM_IOCTL_PREPARE));
	write_silence(BUFFER_FRAMES);
	must(ioctl(card, SNDRV_PCM_IOCTL_START));
	must(ioctl(card, SNDRV_PCM_IOCTL_DROP));
}

/* Each time it is heard for no time. */
void sound_begun_anew(void)
{
	open_sound();
	keep_trying_each(10 * WORK_US, begin);
}

static void play_on(void)
{
	struct pollfd room = { .fd = card, .events = POLLOUT };

	must(poll(&room, 1, 0));
	if (room.revents & POLLOUT)
		write_silence(PERIOD_FRAMES);
}

/* A user at the seat plays silence and computes something else. That is no reason for more than its part. */
void sound_played(void)
{
	open_sound();
	must(ioctl(card, SNDRV_PCM_IOCTL_PREPARE));
	write_silence(BUFFER_FRAMES);
	must(ioctl(card, SNDRV_PCM_IOCTL_START));
	keep_trying(play_on);
}
