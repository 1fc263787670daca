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

/* The rule for the socket that was bound, by path or by name. */
static __always_inline u32 rule_for_bound(struct unix_sock *bound, u32 kind, u32 access, u32 flags)
{
	struct inode *inode = BPF_CORE_READ(bound, path.dentry, d_inode);

	if (inode) {
		struct appease_target target = { .kind = kind, .id = { (u64)inode } };

		return flags & APPEASE_PORTS_UNIX ? rule_for(&target, access) : 0;
	}
	if (flags & APPEASE_PORTS_UNIX_NAME) {
		struct appease_unix_name *name = try_abstract_name(bound);

		if (!name || !is_in_real_network(&bound->sk))
			return 0;
		name->kind = kind;
		return first_counting(bpf_map_lookup_elem(&unix_names, name), access);
	}
	return 0;
}

static __always_inline bool has_unix_rules(void)
{
	return watched.flags & (APPEASE_PORTS_UNIX | APPEASE_PORTS_UNIX_NAME);
}

/* Data went through @sk: by a channel? Not if the process talks to itself, or to what it started. */
static __noinline void unix_hit(struct sock *sk, u32 access)
{
	struct source source = { .object = (u64)sk, .channel = APPEASE_CHANNEL_UNIX };
	struct unix_sock *sock = (struct unix_sock *)sk, *peer;
	u32 other = BPF_CORE_READ(sk, sk_peer_pid, numbers[0].nr), slot;

	if (!other && access == APPEASE_READ && sk->sk_type == SOCK_DATAGRAMS)
		other = last_there(&(struct place){ .address = (u64)sk, .access = APPEASE_WRITE });
	source.uid = BPF_CORE_READ(sk, sk_peer_cred, uid.val);
	/* An ancestor may have made the connection for who uses it. */
	if (other && is_offspring(other)) {
		count(APPEASE_CNT_LOCAL_PEER);
		return;
	}
	slot = rule_for_bound(sock, APPEASE_TARGET_UNIX_ACCEPT, access, watched.flags);
	/* It may go away meanwhile: then the reads fail, or see another socket once. */
	peer = (struct unix_sock *)BPF_CORE_READ(sock, peer);
	if (!slot && peer)
		slot = rule_for_bound(peer, APPEASE_TARGET_UNIX_CONNECT, access, watched.flags);
	if (slot)
		channel_hit(slot, &source, access, bpf_ktime_get_ns());
}

/* Data arrives: for unix sockets of every type that happens in the sender's context. */
static __always_inline void deliver_unix(struct sock *sk)
{
	struct stamp_key key;

	/* Who is at the far end of a connection is known, of datagrams it is not. */
	if (sk->sk_type == SOCK_DATAGRAMS && has_unix_rules())
		note_there(&(struct place){ .address = (u64)sk, .access = APPEASE_WRITE });
	if (!is_armed())
		return;
	__builtin_assume(sk);
	key = object_key(sk, APPEASE_OBJECT_UNIX);
	note_write(&key, sk);
}

static __always_inline void note_unix_receive(struct sock *sk)
{
	if (is_armed()) {
		__builtin_assume(sk);
		note_read_from(sk, APPEASE_OBJECT_UNIX);
	}
	if (has_unix_rules())
		unix_hit(sk, APPEASE_READ);
}

SEC("fexit/unix_stream_splice_read")
int appease_unix_splice(u64 *ctx)
{
	if (returned(ctx) > 0)
		note_unix_receive(((struct socket *)ctx[0])->sk);
	return 0;
}

static __noinline int unix_written(struct sock *sk)
{
	struct line line = { .object = (u64)sk };

	if (is_armed())
		respond_by(&line);
	unix_hit(sk, APPEASE_WRITE);
	return 0;
}

SEC("fexit/unix_stream_sendmsg")
int appease_unix_stream_written(u64 *ctx)
{
	if (has_unix_rules() && returned_int(ctx) > 0)
		unix_written(((struct socket *)ctx[0])->sk);
	return 0;
}

/* Packets go through it, too. */
SEC("fexit/unix_dgram_sendmsg")
int appease_unix_dgram_written(u64 *ctx)
{
	if (has_unix_rules() && returned_int(ctx) > 0)
		unix_written(((struct socket *)ctx[0])->sk);
	return 0;
}

#endif
