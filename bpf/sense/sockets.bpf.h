/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where data comes into a socket and out of it, whatever its family: two tracepoints, which cost those who serve nobody
 * half of what hooks on each family's functions do. What goes on when it matters is apart, so that the first look saves no
 * registers.
 */
#ifndef APPEASE_SENSE_SOCKETS_BPF_H
#define APPEASE_SENSE_SOCKETS_BPF_H

#include "inet.bpf.h"
#include "unix.bpf.h"

/*
 * Whether what @sk receives may matter to anybody: somebody is served, or a rule may name the socket. It is asked at each
 * message on the machine, so before its family is known; where there are no ports, theirs is 0, which no rule can name.
 */
static __always_inline bool may_matter(struct sock *sk)
{
	return is_armed() || watched.flags & ~(APPEASE_PORTS_DEVICES | APPEASE_PORTS_HOSTS) ||
	       watched.named[sk->__sk_common.skc_num];
}

static __noinline void socket_deliver(struct sock *sk)
{
	u16 family = sk->__sk_common.skc_family;

	if (family == AF_UNIX)
		deliver_unix(sk);
	else if (family == AF_INET || family == AF_INET6)
		inet_deliver(sk);
}

/* Data arrives; then its readers are woken. */
SEC("tp_btf/sk_data_ready")
int appease_socket_deliver(u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];

	if (may_matter(sk))
		socket_deliver(sk);
	return 0;
}

static __noinline void socket_receive(struct sock *sk, u32 flags)
{
	u16 family;

	if (flags & (MSG_PEEK | MSG_ERRQUEUE))
		return;
	family = sk->__sk_common.skc_family;
	if (family == AF_UNIX)
		note_unix_receive(sk);
	else if (family == AF_INET || family == AF_INET6)
		inet_receive(sk);
}

/* A call to receive ends, by whatever system call or by io_uring. Datagrams of UDP have a hook that knows their sender. */
SEC("tp_btf/sock_recv_length")
int appease_socket_receive(u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];

	/* A program that reads all that is there is told so at the end, each time. */
	if ((s32)ctx[1] > 0 && may_matter(sk))
		socket_receive(sk, ctx[2]);
	return 0;
}

#endif
