/* SPDX-License-Identifier: GPL-2.0-only */
/* Sound: it counts while somebody hears it, or is about to. A user at the seat may open the card. */
#include "trick.h"
#include "card.h"

static int card;

/* A playback stream that begins when it is told to. */
static void open_sound(void)
{
	struct snd_pcm_sw_params software = {
		.period_step = 1,
		.avail_min = PERIOD_FRAMES,
		.start_threshold = 1UL << 30,
		.stop_threshold = 1UL << 30,
		.boundary = 1UL << 30,
	};

	card = must(open(SOUND, O_RDWR | O_NONBLOCK));
	must(set_hardware(card, SNDRV_PCM_ACCESS_RW_INTERLEAVED));
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

static int feed[2];

static void hog_that_feeds(void)
{
	for (;;) {
		work(WORK_US);
		give(feed[1]);
	}
}

static void play_what_comes(void)
{
	play_on();
	take(feed[0]);
}

/* Who works for the player is served with it, as long as that is. */
void sound_fed_by_a_hog(void)
{
	open_sound();
	must(pipe(feed));
	must(ioctl(card, SNDRV_PCM_IOCTL_PREPARE));
	write_silence(BUFFER_FRAMES);
	must(ioctl(card, SNDRV_PCM_IOCTL_START));
	child(hog_that_feeds);
	keep_trying(play_what_comes);
}
