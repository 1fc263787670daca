/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Input devices: keyboards, pointers, touch screens (evdev), /dev/input/mice and its kind, joysticks, and what is read
 * without the kernel's knowing what it means (hidraw): game controllers, drawing tablets, Braille displays.
 * Each event wakes readers of the device, and their reading opens a request.
 *
 * Who may write to a device may make events up: by its own node, as seats' users may at game controllers, or by uinput. An event that comes
 * in the middle of a process's call, and not by an interrupt or a kernel thread, is made up. It counts if root wrote it, who may do anything, or
 * somebody is waited for, as who passes on what it read from another device.
 *
 * A raw device may answer what is written to it. What its reader gets shortly after that is no input.
 *
 * Limits: a kernel that does not show its preemption count has no events that are made up. A security key answers for as long as it is
 * touched, so it is no channel at all.
 */
#ifndef APPEASE_SENSE_INPUT_BPF_H
#define APPEASE_SENSE_INPUT_BPF_H

#include "../channels.bpf.h"

/* From kernel headers; constants do not travel in BTF. */
#define SERVING_SOFTIRQ 0x100
#define INTERRUPTS 0xff0000 /* hard ones, and those that cannot be masked */
#define HID_PAGE_FIDO 0xf1d0

/* Devices that may have been written to: more than the kernel has numbers for, 1,024 of input devices and 64 of raw ones. */
#define WRITTEN_DEVICES 4096
/* What a raw device's reader gets within this after a write to it is an answer. */
#define ANSWER_NS 100000000ULL

extern const int __preempt_count __ksym __weak;

/* Of the kernel's modules; the rest of the names is ours. */
struct evdev___module {
	struct device dev;
} __attribute__((preserve_access_index));

struct mousedev___module {
	struct device dev;
} __attribute__((preserve_access_index));

struct joydev___module {
	struct device dev;
} __attribute__((preserve_access_index));

struct hidraw___module {
	struct hid_device___module *hid;
} __attribute__((preserve_access_index));

struct hidraw_list___module {
	struct hidraw___module *hidraw;
} __attribute__((preserve_access_index));

struct hid_collection___module {
	unsigned int usage;
} __attribute__((preserve_access_index));

struct hid_device___module {
	struct hid_collection___module *collection;
} __attribute__((preserve_access_index));

/* With full preemption, soft interrupts count in the task. */
struct task_struct___rt {
	int softirq_disable_cnt;
} __attribute__((preserve_access_index));

/* When a device was written to, or its event made up: by its number. An event that is none ends it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WRITTEN_DEVICES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, u64);
} written_devices SEC(".maps");

static __always_inline void note_written(u32 device, u64 now)
{
	bpf_map_update_elem(&written_devices, &device, &now, BPF_ANY);
	armed.has_written_devices = 1;
}

static __always_inline u64 *try_written(u32 device)
{
	return armed.has_written_devices ? bpf_map_lookup_elem(&written_devices, &device) : NULL;
}

/* Whether the current task is in the middle of a system call, and no interrupt has it. */
static __always_inline bool calls_kernel(struct task_struct *task)
{
	const struct task_struct___rt *rt = (const void *)task;

	if (task->flags & (PF_KTHREAD | PF_IDLE) || !bpf_ksym_exists(&__preempt_count))
		return false;
	if (*(const int *)bpf_this_cpu_ptr(&__preempt_count) & (SERVING_SOFTIRQ | INTERRUPTS))
		return false;
	return !bpf_core_field_exists(rt->softirq_disable_cnt) || !(BPF_CORE_READ(rt, softirq_disable_cnt) & SERVING_SOFTIRQ);
}

/* Whether the current task writes, or makes up, what comes from a device, and is nobody to be believed. */
static __noinline bool is_made_up(u64 now)
{
	struct appease_process *process;

	if (!calls_kernel(bpf_get_current_task_btf()) || !(u32)bpf_get_current_uid_gid())
		return false;
	process = try_current_process();
	return !process || !try_served_by(process, now);
}

/* An event comes from the device of that number. */
static __always_inline void device_event(u32 device)
{
	u64 now = bpf_ktime_get_ns();

	if (is_made_up(now)) {
		note_written(device, now);
		return;
	}
	if (try_written(device))
		bpf_map_delete_elem(&written_devices, &device);
	channel_event(0, now);
}

/* What was read from the device of that number came from it, and from nobody who feeds it. */
static __always_inline void device_read(u32 channel, u32 device)
{
	if (!try_written(device))
		device_hit(channel, device, APPEASE_READ);
}

SEC("fentry/evdev_events")
int appease_evdev_event(u64 *ctx)
{
	const struct evdev___module *evdev = BPF_CORE_READ((struct input_handle *)ctx[0], private);

	device_event(BPF_CORE_READ(evdev, dev.devt));
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
		device_read(APPEASE_CHANNEL_EVDEV, file_device(ctx));
	return 0;
}

SEC("fentry/mousedev_notify_readers")
int appease_mouse_event(u64 *ctx)
{
	const struct mousedev___module *mouse = (const void *)ctx[0];

	device_event(BPF_CORE_READ(mouse, dev.devt));
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
		device_read(APPEASE_CHANNEL_MOUSE, file_device(ctx));
	return 0;
}

SEC("fentry/joydev_event")
int appease_joystick_event(u64 *ctx)
{
	const struct joydev___module *joystick = BPF_CORE_READ((struct input_handle *)ctx[0], private);

	device_event(BPF_CORE_READ(joystick, dev.devt));
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
		device_read(APPEASE_CHANNEL_JOYSTICK, file_device(ctx));
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

/* Whether it is a security key: whoever asks one is answered, without a person for seconds. */
static __always_inline bool is_security_key(struct file *file)
{
	const struct hidraw_list___module *opened = BPF_CORE_READ(file, private_data);
	const struct hid_collection___module *first = BPF_CORE_READ(opened, hidraw, hid, collection);

	return BPF_CORE_READ(first, usage) >> 16 == HID_PAGE_FIDO;
}

SEC("fexit/hidraw_write")
int appease_hidraw_write(u64 *ctx)
{
	if (returned(ctx) > 0 && (u32)bpf_get_current_uid_gid())
		note_written(file_device(ctx), bpf_ktime_get_ns());
	return 0;
}

SEC("fexit/hidraw_read")
int appease_hidraw_read(u64 *ctx)
{
	u32 device = file_device(ctx);
	u64 *written_ns;

	if (returned(ctx) <= 0)
		return 0;
	written_ns = try_written(device);
	if ((written_ns && bpf_ktime_get_ns() - *written_ns < ANSWER_NS) || is_security_key((struct file *)ctx[0]))
		return 0;
	device_hit(APPEASE_CHANNEL_HIDRAW, device, APPEASE_READ);
	return 0;
}

#endif
