/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sensing: who reads from a channel, and whom the data reaches.
 *
 * Hooks only, in the order of a message's life: a channel's event wakes a reader, the reader opens a request, writes
 * leave stamps, reads pick them up, forks inherit. Loads without sched_ext too.
 *
 * Rules that all hooks keep: only successful reads count; only a channel opens a request; what is written after a
 * message without a stamp carries none (the reader then works for somebody else); nothing of what is read is
 * looked at. While nobody is served, a hook ends at its first test.
 *
 * Where it is bad: a process that serves several customers at once from different threads has one context, the
 * last message that any of them read.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "stamps.bpf.h"

char _license[] SEC("license") = "GPL";

/* From kernel headers; constants do not travel in BTF. */
#define MSG_PEEK 2
#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define PTY_MAJOR_FIRST 128
#define PTY_MAJOR_LAST 143
#define BSD_PTY_MAJOR_FIRST 2
#define BSD_PTY_MAJOR_LAST 3
#define SNDRV_PCM_STREAM_PLAYBACK 0
#define SNDRV_PCM_STATE_PREPARED 2
#define SNDRV_PCM_STATE_RUNNING 3
#define SNDRV_PCM_STATE_DRAINING 5

/* A channel that is read in quick succession is one interaction. */
#define SAME_REQUEST_NS 5000000ULL

/* Channels: input devices */

static __always_inline void input_device_event(void)
{
	u64 now = bpf_ktime_get_ns();

	/* Its reader may have had no customer for hours: the wake-up must be looked at. */
	arm(now);
	begin_handing(0, now, now);
}

SEC("fentry/evdev_events")
int appease_evdev_event(void *ctx)
{
	input_device_event();
	return 0;
}

SEC("fexit/evdev_events")
int appease_evdev_event_end(void *ctx)
{
	end_handing();
	return 0;
}

static __always_inline u32 file_device(u64 file)
{
	return BPF_CORE_READ((struct file *)file, f_inode, i_rdev);
}

SEC("fexit/evdev_read")
int appease_evdev_read(void *ctx)
{
	if (returned(ctx) > 0)
		open_request(APPEASE_CHANNEL_EVDEV, file_device(argument(ctx, 0)), SAME_REQUEST_NS);
	return 0;
}

SEC("fentry/mousedev_notify_readers")
int appease_mouse_event(void *ctx)
{
	input_device_event();
	return 0;
}

SEC("fexit/mousedev_notify_readers")
int appease_mouse_event_end(void *ctx)
{
	end_handing();
	return 0;
}

SEC("fexit/mousedev_read")
int appease_mouse_read(void *ctx)
{
	if (returned(ctx) > 0)
		open_request(APPEASE_CHANNEL_MOUSE, file_device(argument(ctx, 0)), SAME_REQUEST_NS);
	return 0;
}

SEC("fentry/joydev_event")
int appease_joystick_event(void *ctx)
{
	input_device_event();
	return 0;
}

SEC("fexit/joydev_event")
int appease_joystick_event_end(void *ctx)
{
	end_handing();
	return 0;
}

SEC("fexit/joydev_read")
int appease_joystick_read(void *ctx)
{
	if (returned(ctx) > 0)
		open_request(APPEASE_CHANNEL_JOYSTICK, file_device(argument(ctx, 0)), SAME_REQUEST_NS);
	return 0;
}

/* Channel: sound that somebody hears */

/* Shortest period of a sound stream that is told apart; each is a request of its own. */
#define AUDIO_PERIOD_NS 10000000ULL

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
		open_request(APPEASE_CHANNEL_AUDIO, BPF_CORE_READ(substream, pstr, dev, devt), AUDIO_PERIOD_NS);
}

SEC("fexit/snd_pcm_common_ioctl")
int appease_sound_ioctl(void *ctx)
{
	if (returned_int(ctx) >= 0)
		note_playback((struct snd_pcm_substream *)argument(ctx, 1));
	return 0;
}

SEC("fexit/__snd_pcm_lib_xfer")
int appease_sound_transfer(void *ctx)
{
	if (returned(ctx) > 0)
		note_playback((struct snd_pcm_substream *)argument(ctx, 0));
	return 0;
}

/* Terminals: consoles and serial lines are channels, ptys carry messages */

static __always_inline bool is_pty(struct tty_struct *tty)
{
	s32 major = BPF_CORE_READ(tty, driver, major);

	/* Not by the driver's type: its numbers changed when it became an enum (6.14). */
	return (major >= PTY_MAJOR_FIRST && major <= PTY_MAJOR_LAST) ||
	       (major >= BSD_PTY_MAJOR_FIRST && major <= BSD_PTY_MAJOR_LAST);
}

SEC("fexit/n_tty_read")
int appease_tty_read(void *ctx)
{
	struct tty_struct *tty = (struct tty_struct *)argument(ctx, 0);

	if (returned(ctx) <= 0)
		return 0;
	if (is_pty(tty)) {
		struct stamp_key key = object_key(tty, APPEASE_OBJECT_PTY);

		if (is_armed())
			note_read(&key);
	} else {
		u32 major = BPF_CORE_READ(tty, driver, major), minor = BPF_CORE_READ(tty, driver, minor_start);

		open_request(APPEASE_CHANNEL_TTY, major << MINOR_BITS | (minor + BPF_CORE_READ(tty, index)),
			     SAME_REQUEST_NS);
	}
	return 0;
}

SEC("fentry/pty_write")
int appease_pty_write(void *ctx)
{
	struct stamp_key key;

	if (!is_armed())
		return 0;
	key = object_key(BPF_CORE_READ((struct tty_struct *)argument(ctx, 0), link), APPEASE_OBJECT_PTY);
	note_write(&key, APPEASE_OBJECT_PTY);
	return 0;
}

/* What was written to a pty reaches its reader through a kernel worker: follow the object, not the current task. */
SEC("fentry/n_tty_receive_buf2")
int appease_tty_deliver(void *ctx)
{
	struct tty_struct *tty = (struct tty_struct *)argument(ctx, 0);
	struct appease_attention *stamp;
	struct appease_request *request;
	struct stamp_key key;
	u64 now;

	if (!is_pty(tty)) {
		input_device_event();
		return 0;
	}
	if (!is_armed())
		return 0;
	key = object_key(tty, APPEASE_OBJECT_PTY);
	stamp = bpf_map_lookup_elem(&stamps, &key);
	if (!stamp)
		return 0;
	now = bpf_ktime_get_ns();
	request = try_lookup_request(stamp, now);
	if (request) {
		struct doing *doing = current_doing();

		if (doing)
			doing->via = key;
		begin_handing(request->id, request->opened_ns, now);
	}
	return 0;
}

SEC("fexit/n_tty_receive_buf2")
int appease_tty_deliver_end(void *ctx)
{
	struct doing *doing = is_armed() ? try_current_doing() : NULL;

	if (doing)
		doing->via.b = 0;
	end_handing();
	return 0;
}

/* Pipes and FIFOs */

static __always_inline struct stamp_key pipe_key(void *ctx)
{
	struct kiocb *iocb = (struct kiocb *)argument(ctx, 0);

	return object_key(BPF_CORE_READ(iocb, ki_filp, private_data), APPEASE_OBJECT_PIPE);
}

SEC("fentry/anon_pipe_write")
int appease_pipe_write(void *ctx)
{
	struct stamp_key key;

	if (!is_armed())
		return 0;
	key = pipe_key(ctx);
	note_write(&key, APPEASE_OBJECT_PIPE);
	return 0;
}

SEC("fexit/anon_pipe_read")
int appease_pipe_read(void *ctx)
{
	struct stamp_key key;

	if (!is_armed() || returned(ctx) <= 0)
		return 0;
	key = pipe_key(ctx);
	note_read(&key);
	return 0;
}

/* The next pipe at this address may be filled by other means than a write. */
SEC("fentry/free_pipe_info")
int appease_pipe_free(void *ctx)
{
	struct stamp_key key;

	if (!is_armed())
		return 0;
	key = object_key((void *)argument(ctx, 0), APPEASE_OBJECT_PIPE);
	bpf_map_delete_elem(&stamps, &key);
	return 0;
}

/* Event counters */

SEC("fentry/eventfd_write")
int appease_eventfd_write(void *ctx)
{
	struct stamp_key key;

	if (!is_armed())
		return 0;
	key = object_key(BPF_CORE_READ((struct file *)argument(ctx, 0), private_data), APPEASE_OBJECT_EVENTFD);
	note_write(&key, APPEASE_OBJECT_EVENTFD);
	return 0;
}

/* The next counter at this address may have something to read from the start. */
SEC("fentry/eventfd_release")
int appease_eventfd_release(void *ctx)
{
	struct stamp_key key;

	if (!is_armed())
		return 0;
	key = object_key(BPF_CORE_READ((struct file *)argument(ctx, 1), private_data), APPEASE_OBJECT_EVENTFD);
	bpf_map_delete_elem(&stamps, &key);
	return 0;
}

SEC("fexit/eventfd_read")
int appease_eventfd_read(void *ctx)
{
	struct stamp_key key;

	if (!is_armed() || returned(ctx) <= 0)
		return 0;
	key = object_key(BPF_CORE_READ((struct kiocb *)argument(ctx, 0), ki_filp, private_data),
			 APPEASE_OBJECT_EVENTFD);
	note_read(&key);
	return 0;
}

/* Sockets */

static __always_inline u64 mix(u64 hash, u64 value)
{
	hash ^= value + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
	return hash * 0xff51afd7ed558ccdULL;
}

static __always_inline u64 address6(const struct in6_addr *address)
{
	return mix(mix(0, *(u64 *)&address->in6_u.u6_addr8[0]), *(u64 *)&address->in6_u.u6_addr8[8]);
}

static __always_inline bool is_mapped(const struct in6_addr *address)
{
	return !address->in6_u.u6_addr32[0] && !address->in6_u.u6_addr32[1] &&
	       address->in6_u.u6_addr32[2] == bpf_htonl(0xffff);
}

/*
 * Key of the direction of an inet connection: from @sk's local end to the far one if @outgoing, else towards @sk. Both
 * ends of a connection inside this machine so agree on it.
 */
static __always_inline struct stamp_key inet_key(struct sock *sk, u32 protocol, bool outgoing)
{
	struct sock_common common;
	u64 local, remote, ports;
	u16 near_port, far_port;

	bpf_core_read(&common, sizeof(common), &sk->__sk_common);
	near_port = common.skc_num;
	far_port = bpf_ntohs(common.skc_dport);
	/* IPv4 by way of a socket of IPv6: the far end may be a plain one. */
	if (common.skc_family == AF_INET6 && !is_mapped(&common.skc_v6_daddr)) {
		local = address6(&common.skc_v6_rcv_saddr);
		remote = address6(&common.skc_v6_daddr);
	} else {
		local = common.skc_rcv_saddr;
		remote = common.skc_daddr;
	}
	ports = outgoing ? (u64)near_port << 16 | far_port : (u64)far_port << 16 | near_port;
	return (struct stamp_key){
		.a = outgoing ? mix(local, remote) : mix(remote, local),
		.b = ports << 16 | protocol << 8 | APPEASE_OBJECT_INET,
	};
}

/* Whether the current task is in the middle of sending a datagram. */
static __always_inline bool is_sending(void)
{
	struct doing *doing = try_current_doing();

	return doing && doing->sending;
}

/* Data that a TCP peer inside this machine stamped arrives: who waits for it is lent a turn. */
static __always_inline void deliver_tcp(struct sock *sk)
{
	struct stamp_key key = inet_key(sk, IPPROTO_TCP, false);
	struct appease_attention *stamp = bpf_map_lookup_elem(&stamps, &key);
	struct appease_request *request;
	u64 now;

	if (!stamp)
		return;
	now = bpf_ktime_get_ns();
	request = try_lookup_request(stamp, now);
	if (request)
		begin_handing(request->id, request->opened_ns, now);
}

/*
 * A datagram arrives. One from inside this machine does so in its sender's context, so the receiving socket itself is
 * stamped: it need not be connected, and then does not know its peer.
 */
static __always_inline void deliver_udp(struct sock *sk)
{
	struct stamp_key key = object_key(sk, APPEASE_OBJECT_INET);

	if (is_sending())
		note_write(&key, APPEASE_OBJECT_INET);
	else
		bpf_map_delete_elem(&stamps, &key);
}

/* Data arrives at a socket. For unix sockets of every type that happens in the sender's context. */
SEC("fentry/sock_def_readable")
int appease_socket_deliver(void *ctx)
{
	struct stamp_key key;
	struct sock *sk;
	u16 family;

	if (!is_armed())
		return 0;
	sk = (struct sock *)argument(ctx, 0);
	family = BPF_CORE_READ(sk, __sk_common.skc_family);
	if (family == AF_UNIX) {
		key = object_key(sk, APPEASE_OBJECT_UNIX);
		note_write(&key, APPEASE_OBJECT_UNIX);
	} else if (family == AF_INET || family == AF_INET6) {
		u16 protocol = BPF_CORE_READ(sk, sk_protocol);

		if (protocol == IPPROTO_TCP)
			deliver_tcp(sk);
		else if (protocol == IPPROTO_UDP)
			deliver_udp(sk);
	}
	return 0;
}

/* Before the data goes out: inside this machine the reader may run before the sender returns. */
SEC("fentry/tcp_sendmsg")
int appease_tcp_send(void *ctx)
{
	struct stamp_key key;

	if (!is_armed())
		return 0;
	key = inet_key((struct sock *)argument(ctx, 0), IPPROTO_TCP, true);
	note_write(&key, APPEASE_OBJECT_INET);
	return 0;
}

static __always_inline void note_udp_send(void)
{
	struct doing *doing;

	if (!is_armed() || !try_spoken_for(try_current_process(), bpf_ktime_get_ns()))
		return;
	doing = current_doing();
	if (doing)
		doing->sending = 1;
}

static __always_inline void note_udp_sent(void)
{
	struct doing *doing;

	if (!is_armed())
		return;
	doing = try_current_doing();
	if (doing)
		doing->sending = 0;
}

SEC("fentry/udp_sendmsg")
int appease_udp_send(void *ctx)
{
	note_udp_send();
	return 0;
}

SEC("fexit/udp_sendmsg")
int appease_udp_sent(void *ctx)
{
	note_udp_sent();
	return 0;
}

SEC("fentry/udpv6_sendmsg")
int appease_udp6_send(void *ctx)
{
	note_udp_send();
	return 0;
}

SEC("fexit/udpv6_sendmsg")
int appease_udp6_sent(void *ctx)
{
	note_udp_sent();
	return 0;
}

static __always_inline bool received(void *ctx)
{
	return is_armed() && returned_int(ctx) > 0 && !(argument(ctx, 3) & MSG_PEEK);
}

SEC("fexit/tcp_recvmsg")
int appease_tcp_receive(void *ctx)
{
	struct stamp_key key;

	if (!received(ctx))
		return 0;
	key = inet_key((struct sock *)argument(ctx, 0), IPPROTO_TCP, false);
	note_read(&key);
	return 0;
}

static __always_inline void note_udp_receive(void *ctx)
{
	struct stamp_key key;

	if (!received(ctx))
		return;
	key = object_key((struct sock *)argument(ctx, 0), APPEASE_OBJECT_INET);
	note_read(&key);
}

SEC("fexit/udp_recvmsg")
int appease_udp_receive(void *ctx)
{
	note_udp_receive(ctx);
	return 0;
}

SEC("fexit/udpv6_recvmsg")
int appease_udp6_receive(void *ctx)
{
	note_udp_receive(ctx);
	return 0;
}

static __always_inline void note_unix_receive(void *ctx)
{
	struct stamp_key key;

	if (!received(ctx))
		return;
	key = object_key(BPF_CORE_READ((struct socket *)argument(ctx, 0), sk), APPEASE_OBJECT_UNIX);
	note_read(&key);
}

SEC("fexit/unix_stream_recvmsg")
int appease_unix_stream_receive(void *ctx)
{
	note_unix_receive(ctx);
	return 0;
}

/* The compiler may have made it independent of the one for datagrams; to read a message twice does no harm. */
SEC("fexit/unix_seqpacket_recvmsg")
int appease_unix_packet_receive(void *ctx)
{
	note_unix_receive(ctx);
	return 0;
}

SEC("fexit/unix_dgram_recvmsg")
int appease_unix_dgram_receive(void *ctx)
{
	note_unix_receive(ctx);
	return 0;
}

/* Families */

SEC("tp_btf/sched_process_fork")
int BPF_PROG(appease_fork, struct task_struct *parent, struct task_struct *child)
{
	struct appease_process *from, *to;
	u64 now;
	u32 hop;

	if (!is_armed() || parent->tgid == child->tgid)
		return 0;
	from = bpf_task_storage_get(&processes, parent->group_leader, 0, 0);
	if (!from)
		return 0;
	now = bpf_ktime_get_ns();
	if (!try_lookup_request(&from->attention, now))
		return 0;
	hop = from->attention.nr_hops;
	if (hop >= max_hops || hop >= APPEASE_MAX_HOPS) {
		count(APPEASE_CNT_HOPS_EXCEEDED);
		return 0;
	}
	to = bpf_task_storage_get(&processes, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!to) {
		count(APPEASE_CNT_STORAGE_FAILED);
		return 0;
	}
	to->attention = from->attention;
	to->attention.since_ns = now;
	to->attention.path[hop].at_ns = now;
	to->attention.path[hop].tgid = parent->tgid;
	to->attention.path[hop].object = APPEASE_OBJECT_FORK;
	to->attention.nr_hops = hop + 1;
	to->context_id = from->context_id;
	to->context_opened_ns = from->context_opened_ns;
	count(APPEASE_CNT_INHERITED);
	return 0;
}

/*
 * Called by the daemon now and then: stands the hooks down when nobody has been served for a while. An event that arrives
 * meanwhile arms them again.
 */
SEC("syscall")
int appease_stand_down(void *ctx)
{
	struct armed *armed = armed_state();
	u64 until;

	if (!armed || !armed->on)
		return 0;
	until = armed->until_ns;
	if (policy_before(bpf_ktime_get_ns(), until))
		return 0;
	armed->on = 0;
	if (armed->until_ns != until)
		armed->on = 1;
	return 0;
}
