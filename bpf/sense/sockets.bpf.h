/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where data comes into a socket and out of it, whatever its family: two tracepoints, which cost those who serve nobody
 * half of what hooks on each family's functions do.
 */
#ifndef APPEASE_SENSE_SOCKETS_BPF_H
#define APPEASE_SENSE_SOCKETS_BPF_H

#include "inet.bpf.h"
#include "unix.bpf.h"

/* Data arrives; then its readers are woken. */
SEC("tp_btf/sk_data_ready")
int appease_socket_deliver(u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	u16 family = sk->__sk_common.skc_family;

	if (family == AF_UNIX)
		deliver_unix(sk);
	else if (family == AF_INET || family == AF_INET6)
		inet_deliver(sk);
	return 0;
}

/* A call to receive ends, by whatever system call or by io_uring. Datagrams of UDP have a hook that knows their sender. */
SEC("tp_btf/sock_recv_length")
int appease_socket_receive(u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	s32 length = ctx[1];
	u32 flags = ctx[2];
	u16 family;

	if (length <= 0 || flags & (MSG_PEEK | MSG_ERRQUEUE))
		return 0;
	family = sk->__sk_common.skc_family;
	if (family == AF_UNIX)
		note_unix_receive(sk);
	else if (family == AF_INET || family == AF_INET6)
		inet_receive(sk);
	return 0;
}

#endif
