/* SPDX-License-Identifier: GPL-2.0-only */
/* Input devices: they count when somebody touches them. */
#include "trick.h"

#include <linux/input.h>
#include <sys/ioctl.h>

static int device;

static void read_nothing(void)
{
	struct input_event event;

	read(device, &event, sizeof(event));
}

void devices_input_without_data(void)
{
	device = must(open(INPUT, O_RDONLY | O_NONBLOCK));
	keep_trying(read_nothing);
}

static void grab(void)
{
	must(ioctl(device, EVIOCGRAB, 1));
	read_nothing();
	must(ioctl(device, EVIOCGRAB, 0));
}

void devices_input_grabbed(void)
{
	device = must(open(INPUT, O_RDONLY | O_NONBLOCK));
	keep_trying(grab);
}

/* Keys that this process writes itself come back to all that read the device. */
static void make_up_key(void)
{
	static int pressed;
	struct input_event events[2] = { { .type = EV_KEY, .code = KEY_OK }, { .type = EV_SYN, .code = SYN_REPORT } }, back[8];

	events[0].value = pressed = !pressed;
	must(write(device, events, sizeof(events)));
	must(read(device, back, sizeof(back)));
}

void devices_input_made_up(void)
{
	device = must(open(INPUT, O_RDWR | O_NONBLOCK));
	keep_trying(make_up_key);
}

/* Only root makes devices. */
static void make_devices(void)
{
	must_fail(open("/dev/uinput", O_RDWR));
	must_fail(open("/dev/uhid", O_RDWR));
}

void devices_made_up_refused(void)
{
	keep_trying(make_devices);
}
