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

/*
 * How long a stream that has been given sound may be about to start. Whoever prepares one and never starts it is heard by nobody. As long as
 * a served process may be silent otherwise: a player that takes longer to begin computes, and its listener hears nothing yet.
 */
#define START_NS 2000000000ULL
/* Streams that are known; a machine has a few for each card. */
#define STREAMS 256

/* A playback stream. */
struct stream {
	u64 position;	/* of the card in the samples, when the stream was heard last */
	u64 given_ns;	/* when it was first seen with sound and not yet started; 0: not since it was heard */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, STREAMS);
	__type(key, u64);	/* its address: a device may have several */
	__type(value, struct stream);
} streams SEC(".maps");

/*
 * Whether somebody hears the stream, or will: the card has gone on in its samples since it was asked last, or was given some
 * a short while ago and is about to start.
 */
static __always_inline bool is_heard(struct snd_pcm_substream *substream, u64 now)
{
	struct snd_pcm_runtime *runtime = BPF_CORE_READ(substream, runtime);
	u64 address = (u64)substream;
	u32 state = BPF_CORE_READ(runtime, state);
	u64 position = BPF_CORE_READ(runtime, status, hw_ptr);
	struct stream fresh = {}, *stream;
	bool goes_on;

	if (state != SNDRV_PCM_STATE_PREPARED && state != SNDRV_PCM_STATE_RUNNING && state != SNDRV_PCM_STATE_DRAINING)
		return false;
	stream = bpf_map_lookup_elem(&streams, &address);
	if (!stream) {
		bpf_map_update_elem(&streams, &address, &fresh, BPF_NOEXIST);
		stream = bpf_map_lookup_elem(&streams, &address);
		if (!stream)
			return false;
	}
	if (state == SNDRV_PCM_STATE_PREPARED) {
		if (BPF_CORE_READ(runtime, control, appl_ptr) == position)
			return false;
		if (!stream->given_ns)
			stream->given_ns = now;
		return now - stream->given_ns < START_NS;
	}
	goes_on = position != stream->position;
	stream->position = position;
	if (goes_on)
		stream->given_ns = 0;
	return goes_on;
}

static __always_inline void note_playback(struct snd_pcm_substream *substream)
{
	if (BPF_CORE_READ(substream, stream) != SNDRV_PCM_STREAM_PLAYBACK)
		return;
	if (is_heard(substream, bpf_ktime_get_ns()))
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
