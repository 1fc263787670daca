/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Input devices: keyboards, pointers, touch screens (evdev), /dev/input/mice and its kind, joysticks, and what is read
 * without the kernel's knowing what it means (hidraw): game controllers, drawing tablets, Braille displays.
 * Each event wakes readers of the device, and their reading opens a request.
 */
#ifndef APPEASE_SENSE_INPUT_BPF_H
#define APPEASE_SENSE_INPUT_BPF_H

#include "../channels.bpf.h"

SEC("fentry/evdev_events")
int appease_evdev_event(void *ctx)
{
	channel_event(0, bpf_ktime_get_ns());
	return 0;
}

SEC("fexit/evdev_events")
int appease_evdev_event_end(void *ctx)
{
	end_handing();
	return 0;
}

/* The device of the file that a read function has as its first argument. */
static __always_inline u32 file_device(u64 *ctx)
{
	return ((struct file *)ctx[0])->f_inode->i_rdev;
}

SEC("fexit/evdev_read")
int appease_evdev_read(u64 *ctx)
{
	if (returned(ctx) > 0)
		device_hit(APPEASE_CHANNEL_EVDEV, file_device(ctx), APPEASE_READ);
	return 0;
}

SEC("fentry/mousedev_notify_readers")
int appease_mouse_event(void *ctx)
{
	channel_event(0, bpf_ktime_get_ns());
	return 0;
}

SEC("fexit/mousedev_notify_readers")
int appease_mouse_event_end(void *ctx)
{
	end_handing();
	return 0;
}

SEC("fexit/mousedev_read")
int appease_mouse_read(u64 *ctx)
{
	if (returned(ctx) > 0)
		device_hit(APPEASE_CHANNEL_MOUSE, file_device(ctx), APPEASE_READ);
	return 0;
}

SEC("fentry/joydev_event")
int appease_joystick_event(void *ctx)
{
	channel_event(0, bpf_ktime_get_ns());
	return 0;
}

SEC("fexit/joydev_event")
int appease_joystick_event_end(void *ctx)
{
	end_handing();
	return 0;
}

SEC("fexit/joydev_read")
int appease_joystick_read(u64 *ctx)
{
	if (returned(ctx) > 0)
		device_hit(APPEASE_CHANNEL_JOYSTICK, file_device(ctx), APPEASE_READ);
	return 0;
}

SEC("fentry/hidraw_report_event")
int appease_hidraw_event(void *ctx)
{
	channel_event(0, bpf_ktime_get_ns());
	return 0;
}

SEC("fexit/hidraw_report_event")
int appease_hidraw_event_end(void *ctx)
{
	end_handing();
	return 0;
}

SEC("fexit/hidraw_read")
int appease_hidraw_read(u64 *ctx)
{
	if (returned(ctx) > 0)
		device_hit(APPEASE_CHANNEL_HIDRAW, file_device(ctx), APPEASE_READ);
	return 0;
}

#endif
