/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sound that somebody hears: each period of a playback stream is a request.
 * Most players map the buffer, so what tells is their ioctls or that they poll, not writes.
 */
#ifndef APPEASE_SENSE_SOUND_BPF_H
#define APPEASE_SENSE_SOUND_BPF_H

#include "../channels.bpf.h"

/* From kernel headers; constants do not travel in BTF. */
#define SNDRV_PCM_STREAM_PLAYBACK 0
#define SNDRV_PCM_STATE_PREPARED 2
#define SNDRV_PCM_STATE_RUNNING 3
#define SNDRV_PCM_STATE_DRAINING 5

/* Whether somebody hears the stream, or will: it runs, or has been given sound before its start. */
static __always_inline bool is_heard(struct snd_pcm_runtime *runtime)
{
	u32 state = BPF_CORE_READ(runtime, state);

	if (state == SNDRV_PCM_STATE_PREPARED)
		return BPF_CORE_READ(runtime, control, appl_ptr) != BPF_CORE_READ(runtime, status, hw_ptr);
	return state == SNDRV_PCM_STATE_RUNNING || state == SNDRV_PCM_STATE_DRAINING;
}

static __always_inline void note_playback(struct snd_pcm_substream *substream)
{
	if (BPF_CORE_READ(substream, stream) != SNDRV_PCM_STREAM_PLAYBACK)
		return;
	if (is_heard(BPF_CORE_READ(substream, runtime)))
		device_hit(APPEASE_CHANNEL_AUDIO, BPF_CORE_READ(substream, pstr, dev, devt), APPEASE_WRITE);
}

SEC("fexit/snd_pcm_common_ioctl")
int appease_sound_ioctl(void *ctx)
{
	if (returned_int(ctx) >= 0)
		note_playback((struct snd_pcm_substream *)argument(ctx, 1));
	return 0;
}

/*
 * Where the card's positions are mapped as well, a player may feed it without any call. What is left is that it asks for
 * room, which only who has the stream open can.
 */
SEC("fexit/snd_pcm_poll")
int appease_sound_poll(void *ctx)
{
	struct file *file = (struct file *)argument(ctx, 0);
	struct snd_pcm_file *opened = BPF_CORE_READ(file, private_data);

	note_playback(BPF_CORE_READ(opened, substream));
	return 0;
}

SEC("fexit/__snd_pcm_lib_xfer")
int appease_sound_transfer(void *ctx)
{
	if (returned(ctx) > 0)
		note_playback((struct snd_pcm_substream *)argument(ctx, 0));
	return 0;
}

#endif
