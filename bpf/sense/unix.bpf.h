/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Unix sockets: they carry messages. One whose path or name a rule names is a channel, for its server or its clients.
 */
#ifndef APPEASE_SENSE_UNIX_BPF_H
#define APPEASE_SENSE_UNIX_BPF_H

#include "inet.bpf.h"

#define AF_UNIX 1
#define SOCK_DATAGRAMS 2

/* Too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct appease_unix_name);
} unix_name_scratch SEC(".maps");

/* The abstract name of @unix, if it has one. */
static __always_inline struct appease_unix_name *try_abstract_name(struct unix_sock *sock)
{
	struct unix_address *address = BPF_CORE_READ(sock, addr);
	struct appease_unix_name *name;
	u32 zero = 0, length;

	name = bpf_map_lookup_elem(&unix_name_scratch, &zero);
	if (!address || !name)
		return NULL;
	/* The family, the leading NUL, and what follows. */
	length = BPF_CORE_READ(address, len) - sizeof(u16) - 1;
	if (length >= APPEASE_UNIX_PATH_LEN)
		return NULL;
	__builtin_memset(name, 0, sizeof(*name));
	if (bpf_probe_read_kernel(name->name, 1, address->name[0].sun_path) || name->name[0])
		return NULL;
	if (bpf_probe_read_kernel(name->name, length & 127, address->name[0].sun_path + 1))
		return NULL;
	return name;
}

/* The rules of the socket that was bound, by path or by name. */
static __always_inline bool bound_hit(struct unix_sock *bound, u32 kind, const struct source *source, u32 access,
				      u32 flags)
{
	struct inode *inode = BPF_CORE_READ(bound, path.dentry, d_inode);

	if (inode) {
		struct appease_target target = { .kind = kind, .id = { (u64)inode } };

		return flags & APPEASE_PORTS_UNIX && target_hit(&target, source, access);
	}
	if (flags & APPEASE_PORTS_UNIX_NAME) {
		struct appease_unix_name *name = try_abstract_name(bound);

		if (!name || !is_in_real_network(&bound->sk))
			return false;
		name->kind = kind;
		return any_hit(bpf_map_lookup_elem(&unix_names, name), source, access);
	}
	return false;
}

static __always_inline bool has_unix_rules(void)
{
	struct appease_ports *ports = channel_ports();

	return ports && ports->flags & (APPEASE_PORTS_UNIX | APPEASE_PORTS_UNIX_NAME);
}

/* Data went through @sk: by a channel? Not if the process talks to itself. */
static __noinline void unix_hit(struct sock *sk, u32 access)
{
	struct source source = { .object = (u64)sk, .channel = APPEASE_CHANNEL_UNIX };
	struct unix_sock *sock = (struct unix_sock *)sk, *peer;
	struct appease_ports *ports = channel_ports();

	if (!ports)
		return;
	if (BPF_CORE_READ(sk, sk_peer_pid, numbers[0].nr) == current_tgid() ||
	    (access == APPEASE_READ && sk->sk_type == SOCK_DATAGRAMS && is_own((u64)sk))) {
		count(APPEASE_CNT_LOCAL_PEER);
		return;
	}
	if (bound_hit(sock, APPEASE_TARGET_UNIX_ACCEPT, &source, access, ports->flags))
		return;
	/* It may go away meanwhile: then the reads fail, or see another socket once. */
	peer = (struct unix_sock *)BPF_CORE_READ(sock, peer);
	if (peer)
		bound_hit(peer, APPEASE_TARGET_UNIX_CONNECT, &source, access, ports->flags);
}

/* Data arrives at a socket. For unix sockets of every type that happens in the sender's context. */
SEC("fentry/sock_def_readable")
int appease_socket_deliver(u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	u16 family = sk->__sk_common.skc_family;
	struct stamp_key key;

	if (family == AF_UNIX) {
		/* Who is at the far end of a connection is known, of datagrams it is not. */
		if (sk->sk_type == SOCK_DATAGRAMS && has_unix_rules())
			note_writer((u64)sk);
		if (!is_armed())
			return 0;
		key = object_key(sk, APPEASE_OBJECT_UNIX);
		note_write(&key, APPEASE_OBJECT_UNIX);
	} else if (family == AF_INET || family == AF_INET6) {
		inet_deliver(sk);
	}
	return 0;
}

/* What most sockets have to do with us is nothing: that first. */
static __always_inline bool is_unix_watched(void)
{
	return is_armed() || has_unix_rules();
}

static __always_inline void note_unix_receive(struct socket *socket)
{
	struct sock *sk = socket->sk;
	struct stamp_key key;

	if (is_armed()) {
		key = object_key(sk, APPEASE_OBJECT_UNIX);
		note_read(&key);
	}
	if (has_unix_rules())
		unix_hit(sk, APPEASE_READ);
}

static __always_inline void note_unix_received(u64 *ctx)
{
	if (is_unix_watched() && returned_int(ctx) > 0 && !(ctx[3] & (MSG_PEEK | MSG_ERRQUEUE)))
		note_unix_receive((struct socket *)ctx[0]);
}

SEC("fexit/unix_stream_recvmsg")
int appease_unix_stream_receive(u64 *ctx)
{
	note_unix_received(ctx);
	return 0;
}

SEC("fexit/unix_stream_splice_read")
int appease_unix_splice(u64 *ctx)
{
	if (is_unix_watched() && returned(ctx) > 0)
		note_unix_receive((struct socket *)ctx[0]);
	return 0;
}

/* The compiler may have made it independent of the one for datagrams; to read a message twice does no harm. */
SEC("fexit/unix_seqpacket_recvmsg")
int appease_unix_packet_receive(u64 *ctx)
{
	note_unix_received(ctx);
	return 0;
}

SEC("fexit/unix_dgram_recvmsg")
int appease_unix_dgram_receive(u64 *ctx)
{
	note_unix_received(ctx);
	return 0;
}

SEC("fexit/unix_stream_sendmsg")
int appease_unix_stream_written(u64 *ctx)
{
	if (has_unix_rules() && returned_int(ctx) > 0)
		unix_hit(((struct socket *)ctx[0])->sk, APPEASE_WRITE);
	return 0;
}

/* Packets go through it, too. */
SEC("fexit/unix_dgram_sendmsg")
int appease_unix_dgram_written(u64 *ctx)
{
	if (has_unix_rules() && returned_int(ctx) > 0)
		unix_hit(((struct socket *)ctx[0])->sk, APPEASE_WRITE);
	return 0;
}

#endif
