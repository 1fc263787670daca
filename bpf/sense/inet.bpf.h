/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * TCP and UDP. A port that a rule names is a channel to whoever is at the far end, unless that is this machine itself:
 * inside the machine sockets carry messages, and with them the attention of their writer, if it has any.
 */
#ifndef APPEASE_SENSE_INET_BPF_H
#define APPEASE_SENSE_INET_BPF_H

#include "../channels.bpf.h"
#include "../stamps.bpf.h"

/* From kernel headers; constants do not travel in BTF. */
#define AF_INET 2
#define AF_INET6 10
#define MSG_PEEK 2
#define MSG_ERRQUEUE 0x2000
#define ETH_P_IPV6 0x86dd
#define LOOPBACK_IFINDEX 1
#define PACKET_LOOPBACK 5
#define IFF_LOOPBACK 8
#define IP_OFFSET 0x1fff
#define IP6_OFFSET 0xfff8
#define NEXTHDR_FRAGMENT 44

/* Channels */

/* Both ends of a socket, or of a datagram; IPv4 as IPv6 has it. Addresses in network order, ports in the host's. */
struct inet_ends {
	u64 socket;
	u64 near[2];
	u64 far[2];
	u16 near_port;
	u16 far_port;
	u32 waited_us;	/* since data came, as far as is known */
	u64 now;	/* CLOCK_MONOTONIC */
};

static __always_inline u64 mapped(__be32 address)
{
	return (u64)address << 32 | bpf_htonl(0xffff);
}

static __always_inline bool is_mapped(const struct in6_addr *address)
{
	return !address->in6_u.u6_addr32[0] && !address->in6_u.u6_addr32[1] &&
	       address->in6_u.u6_addr32[2] == bpf_htonl(0xffff);
}

static __always_inline void copy_address(u64 *to, const struct in6_addr *from)
{
	to[0] = *(u64 *)&from->in6_u.u6_addr8[0];
	to[1] = *(u64 *)&from->in6_u.u6_addr8[8];
}

/* The address of this end of a socket. */
static __always_inline void copy_near(u64 *to, const struct sock_common *common)
{
	if (common->skc_family == AF_INET6) {
		copy_address(to, &common->skc_v6_rcv_saddr);
	} else {
		to[0] = 0;
		to[1] = mapped(common->skc_rcv_saddr);
	}
}

static __always_inline void copy_far(u64 *to, const struct sock_common *common)
{
	if (common->skc_family == AF_INET6) {
		copy_address(to, &common->skc_v6_daddr);
	} else {
		to[0] = 0;
		to[1] = mapped(common->skc_daddr);
	}
}

static __always_inline void ends_of_socket(struct sock *sk, struct inet_ends *ends, u64 now)
{
	/* Not copied as a whole: its 136 bytes of stack are too many below an activated handler. */
	const struct sock_common *common = &sk->__sk_common;

	ends->socket = (u64)sk;
	ends->now = now;
	ends->waited_us = 0;
	ends->near_port = common->skc_num;
	ends->far_port = bpf_ntohs(common->skc_dport);
	copy_near(ends->near, common);
	copy_far(ends->far, common);
}

/* Whether an address is the loopback's: ::1, 127.0.0.0/8, or the same of IPv4 in IPv6; none at all stands for it. */
static __always_inline bool is_loopback(const u64 *address)
{
	const u8 *bytes = (const u8 *)address;

	if (address[0])
		return false;
	if ((u32)address[1] == bpf_htonl(0xffff))
		return bytes[12] == 127 || !(address[1] >> 32);
	return !address[1] || address[1] == bpf_cpu_to_be64(1);
}

/* Whether the end at @far is on the machine of the one at @near, in its network name space. @ifindex: where data came in, if that is known. */
static __always_inline bool is_local(const u64 *near, const u64 *far, u32 ifindex)
{
	return ifindex == LOOPBACK_IFINDEX || is_loopback(far) || (near[0] == far[0] && near[1] == far[1]);
}

static __always_inline bool is_tcp_channel(struct sock *sk)
{
	u32 flags = watched.flags;

	if (watched.named[sk->__sk_common.skc_num] & APPEASE_PORT_TCP_ACCEPT || flags & APPEASE_PORTS_ANY_TCP)
		return true;
	return flags & APPEASE_PORTS_TCP_CONNECT &&
	       watched.named[sk->__sk_common.skc_dport] & APPEASE_PORT_TCP_CONNECT;
}

static __always_inline bool is_udp_server(struct sock *sk)
{
	return watched.named[sk->__sk_common.skc_num] & APPEASE_PORT_UDP_ACCEPT;
}

/* Whether a datagram of @sk may have gone through a channel. */
static __always_inline bool is_udp_watched(struct sock *sk)
{
	return is_udp_server(sk) || watched.flags & (APPEASE_PORTS_ANY_UDP | APPEASE_PORTS_UDP_CONNECT);
}

/* The rule for one end: for address and port, for the port, for the address. */
static __always_inline u32 rule_for_end(struct appease_target *target, u32 access)
{
	u64 address[2];
	u32 slot;

	address[0] = target->id[0];
	address[1] = target->id[1];
	if (!(watched.flags & APPEASE_PORTS_HOSTS)) {
		target->id[0] = target->id[1] = 0;
		return rule_for(target, access);
	}
	slot = rule_for(target, access);
	if (slot)
		return slot;
	target->id[0] = target->id[1] = 0;
	slot = rule_for(target, access);
	if (slot)
		return slot;
	target->id[0] = address[0];
	target->id[1] = address[1];
	target->port = 0;
	return rule_for(target, access);
}

/*
 * Whether the machine's own root made the network that @sk is in. Who is root in a user namespace of his own lays wires there
 * as he likes, and names sockets.
 */
static __always_inline bool is_in_real_network(struct sock *sk)
{
	return !bpf_core_field_exists(sk->__sk_common.skc_net.net) ||
	       !readable(sk, struct sock)->__sk_common.skc_net.net->user_ns->level;
}

static __always_inline u64 mix(u64 hash, u64 value)
{
	hash ^= value + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
	return hash * 0xff51afd7ed558ccdULL;
}

/* Which far end of a socket for datagrams. */
static __always_inline u64 far_end(const struct inet_ends *ends)
{
	return mix(mix(ends->far[0], ends->far[1]), ends->far_port);
}

/* The rule that counts what anybody reads on @connection, between @ends; 0: none is known, or the rules changed. */
static __always_inline u32 rule_known_at(const struct connection *connection, const struct inet_ends *ends)
{
	bool is_same = connection->version == watched.version && connection->near_port == ends->near_port &&
		       connection->far_port == ends->far_port && connection->far[0] == ends->far[0] &&
		       connection->far[1] == ends->far[1];

	return is_same && !is_kthread(bpf_get_current_task_btf()) ? connection->rule : 0;
}

/*
 * What was read between @ends fits the rule in @slot, which stands in the table at @target. Keeps it with @connection, if it is everybody's
 * and no other could be before it: one for an address, or for who does it.
 */
static __always_inline void keep_rule_at(struct connection *connection, const struct inet_ends *ends,
					 const struct appease_target *target, u32 slot, u32 version)
{
	const struct appease_rules *found = bpf_map_lookup_elem(&targets, target);
	const struct appease_rule *rule = bpf_map_lookup_elem(&rules, &slot);

	if (watched.flags & APPEASE_PORTS_HOSTS || !found || found->slots[0] != slot || !rule || rule->flags)
		return;
	connection->far[0] = ends->far[0];
	connection->far[1] = ends->far[1];
	connection->far_port = ends->far_port;
	connection->near_port = ends->near_port;
	connection->rule = slot;
	connection->version = version;
}

/*
 * Data went between @ends: by a channel? @connection: what is known of it, if anything is. The slot + 1 of the request that it is
 * part of; 0: there is none.
 */
__noinline int inet_hit(const struct inet_ends *ends, u32 protocol, u32 access, u32 ifindex, struct connection *connection)
{
	struct source source = { .channel = APPEASE_CHANNEL_INET };
	struct appease_target target = {
		.kind = APPEASE_TARGET_ACCEPT,
		.protocol = protocol,
	};
	u32 slot = 0, version = watched.version;

	if (!ends)
		return 0;
	if (is_local(ends->near, ends->far, ifindex) || !is_in_real_network((struct sock *)ends->socket)) {
		count(APPEASE_CNT_LOCAL_PEER);
		return 0;
	}
	source.object = ends->socket;
	source.peer_port = ends->far_port;
	source.peer[0] = ends->far[0];
	source.peer[1] = ends->far[1];
	source.waited_us = ends->waited_us;
	source.far = protocol == IPPROTO_UDP ? far_end(ends) : 0;
	source.is_connection = protocol == IPPROTO_TCP;
	if (connection) {
		source.customer = connection->latest.customer;
		if (access == APPEASE_READ)
			slot = rule_known_at(connection, ends);
	}
	if (!slot) {
		target.port = ends->near_port;
		target.id[0] = ends->near[0];
		target.id[1] = ends->near[1];
		slot = rule_for_end(&target, access);
		if (slot && connection && access == APPEASE_READ)
			keep_rule_at(connection, ends, &target, slot, version);
	}
	if (!slot) {
		target.kind = APPEASE_TARGET_CONNECT;
		target.port = ends->far_port;
		target.id[0] = ends->far[0];
		target.id[1] = ends->far[1];
		slot = rule_for_end(&target, access);
	}
	return slot ? channel_hit(slot, &source, access, ends->now) : 0;
}

/* Set before load: time between two ticks of the kernel's clock. */
const volatile u32 tick_us = 10000;

/* What waits unread for longer, nobody waits for. */
#define LONGEST_UNREAD_US 4000000U

/*
 * Since when the latest data in @sk has been there, at least: it is known by ticks. A server that reads when it comes to it would else
 * have its requests open in the order in which it finds them, and all that it asks others for first would go before.
 */
static __always_inline u32 unread_us(struct sock *sk)
{
	struct inet_connection_sock *connection = (struct inet_connection_sock *)sk;
	u32 ticks = (u32)bpf_jiffies64() - readable(connection, struct inet_connection_sock)->icsk_ack.lrcvtime;

	if (ticks <= 1)
		return 0;
	return ticks < LONGEST_UNREAD_US / tick_us ? (ticks - 1) * tick_us : LONGEST_UNREAD_US;
}

/*
 * Whether what is read on @connection is more of the request that its reader opened just now, as of one that reads a header first. What
 * channel_hit() would do, without its looks.
 */
static __always_inline bool reads_on(struct sock *sk, const struct connection *connection, u64 now)
{
	const struct appease_request *request = try_request(connection->latest.slot, connection->latest.id);
	struct appease_process *process;
	u32 slot = connection->rule;
	struct appease_rule *rule;

	/* Mostly it is the next one. */
	if (!request || request->last_response_ns || policy == APPEASE_POLICY_RSIO || connection->version != watched.version)
		return false;
	rule = bpf_map_lookup_elem(&rules, &slot);
	process = try_current_process();
	if (!slot || !rule || !process || request->id != process->attention.request_id ||
	    !is_part_of_latest(process, (u64)sk, APPEASE_CHANNEL_INET, SAME_REQUEST_NS, now))
		return false;
	__sync_fetch_and_add(&rule->hits, 1);
	process->channel_read_ns = now;
	return true;
}

/* Whether it was part of a request. */
static __always_inline bool tcp_hit(struct sock *sk, u32 access)
{
	struct connection *connection;
	struct inet_ends ends;
	u32 request;
	u64 now;

	if (!is_tcp_channel(sk))
		return false;
	now = bpf_ktime_get_ns();
	connection = try_connection(sk);
	if (connection && access == APPEASE_READ && reads_on(sk, connection, now))
		return true;
	ends_of_socket(sk, &ends, now);
	if (policy == APPEASE_POLICY_CAS && access == APPEASE_READ)
		ends.waited_us = unread_us(sk);
	request = inet_hit(&ends, IPPROTO_TCP, access, sk->sk_rx_dst_ifindex, connection);
	if (request && access == APPEASE_READ && !connection)
		connection = connection_of(sk);
	if (request && access == APPEASE_READ && connection)
		follow_latest(&connection->latest, request - 1, now);
	return request;
}

/* Messages */

static __always_inline u64 address6(const struct in6_addr *address)
{
	return mix(mix(0, *(u64 *)&address->in6_u.u6_addr8[0]), *(u64 *)&address->in6_u.u6_addr8[8]);
}

/*
 * The two ends of @common's socket, mixed; as the far end has them, if @turned. IPv4 by way of a socket of IPv6 is IPv4: the far end may
 * be a plain one.
 */
static __always_inline u64 mixed_ends(const struct sock_common *common, bool turned)
{
	u64 near = common->skc_rcv_saddr, far = common->skc_daddr;

	if (common->skc_family == AF_INET6 && !is_mapped(&common->skc_v6_daddr)) {
		near = address6(&common->skc_v6_rcv_saddr);
		far = address6(&common->skc_v6_daddr);
	}
	/* The port last: no two ports of an address are the same then. */
	near = mix(near, common->skc_num);
	far = mix(far, bpf_ntohs(common->skc_dport));
	return turned ? mix(far, near) : mix(near, far);
}

/* Whether the current task is in the middle of sending a datagram. */
static __always_inline bool is_sending(void)
{
	struct doing *doing = try_current_doing();

	return doing && is_under_way(doing->sending_ns, bpf_ktime_get_ns());
}

/* The socket at descriptor @fd of the current task, if it is one. */
static __always_inline struct sock *try_socket_at(u64 fd)
{
	struct file *file = try_file_at(fd);

	if (!file || (file->f_inode->i_mode & S_IFMT) != S_IFSOCK)
		return NULL;
	return readable(file->private_data, struct socket)->sk;
}

/*
 * Whether what is sent by @from may come to @to: in one network, or from one to another that the machine's root has made. Somebody's own
 * may have a connection with the same ends.
 */
static __always_inline bool are_joined(struct sock *from, struct sock *to)
{
	if (!bpf_core_field_exists(from->__sk_common.skc_net.net))
		return true;
	return readable(from, struct sock)->__sk_common.skc_net.net == readable(to, struct sock)->__sk_common.skc_net.net ||
	       (is_in_real_network(from) && is_in_real_network(to));
}

/* The socket at descriptor @fd of the current task, if it has the @ends, as the far one of @to. */
static __always_inline u64 sends_by(u64 fd, u64 ends, struct sock *to)
{
	struct sock *sk = try_socket_at(fd);

	if (!sk || sk->sk_protocol != IPPROTO_TCP || mixed_ends(&sk->__sk_common, false) != ends)
		return 0;
	return are_joined(sk, to) ? (u64)sk : 0;
}

/*
 * The socket by which the current task is in a call, if @sk is the far end of its connection; 0: it is in none. What
 * is sent to this machine arrives before the call returns, but for what the receiver or the window keeps for later: that may be
 * in anybody's context. The descriptor is the first argument of all that write, the third one of splice.
 */
static __noinline u64 sent_by_current(struct sock *sk)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	u64 ends = mixed_ends(&sk->__sk_common, true), by = sends_by(PT_REGS_PARM1_SYSCALL(regs), ends, sk);

	return by ? by : sends_by(PT_REGS_PARM3_SYSCALL(regs), ends, sk);
}

/* Whether the current task speaks for somebody. */
static __always_inline bool speaks(u64 now)
{
	const struct appease_attention *attention;

	return try_voice(try_current_process(), now, &attention);
}

/* Whether the process that left @stamp still speaks for its request. */
static __noinline bool is_still_meant(const struct appease_attention *stamp, u64 now)
{
	struct task_struct *writer = bpf_task_from_pid(latest_hop(stamp)->tgid);
	struct appease_request *request;

	if (!writer)
		return false;
	request = try_spoken_for(bpf_task_storage_get(&processes, writer->group_leader, 0, 0), now);
	bpf_task_release(writer);
	return request && request->id == stamp->request_id;
}

/* Whether @sk is where the customer of @request asks from, in another network of this machine. */
static __always_inline bool is_at_customer(struct sock *sk, const struct appease_request *request)
{
	const struct sock_common *common = &sk->__sk_common;
	u64 near[2];

	if (request->channel != APPEASE_CHANNEL_INET || request->peer_port != common->skc_num)
		return false;
	copy_near(near, common);
	return request->peer[0] == near[0] && request->peer[1] == near[1];
}

/*
 * Data arrives by TCP. Most of it says nothing: it comes from elsewhere, or from somebody whom nobody waits for to somebody who
 * was told so.
 */
static __always_inline void deliver_tcp(struct sock *sk, u64 now)
{
	const struct appease_attention *attention;
	struct appease_attention *stamp;
	struct appease_request *request;
	struct stamp_key key;
	u64 by;

	__builtin_assume(sk);
	key = object_key(sk, APPEASE_OBJECT_INET);
	if (policy == APPEASE_POLICY_RSIO) {
		if (sent_by_current(sk))
			note_access(&key, sk, APPEASE_WRITE);
		return;
	}
	request = try_voice(try_current_process(), now, &attention);
	if (!may_be_stamped() && (!request || is_at_customer(sk, request)))
		return;
	stamp = try_stamp(&key, sk);
	if (!request) {
		/* Or the compiler would make one test of both, which the verifier refuses. */
		barrier();
		if (!stamp)
			return;
	}
	/* From the customer itself, who asks on while it is answered. The server's own call lets that in, which it does not send. */
	if (request && request->object == (u64)sk)
		by = 0;
	else
		by = sent_by_current(sk);
	/* To the customer itself, who is on this machine in another network: that is the response, and serves nobody else. */
	if (by && request && by == request->object) {
		if (stamp)
			stamp->request_id = 0;
		return;
	}
	if (by) {
		note_write(&key, sk);
		return;
	}
	/* The rest of a message, or another one of the same writer. */
	request = stamp && is_still_meant(stamp, now) ? try_answerable(stamp, now) : NULL;
	if (request)
		begin_handing(request, 0, false, now);
	else if (stamp)
		stamp->request_id = 0;
}

/*
 * A datagram arrives. One from inside this machine does so in its sender's context, so the receiving socket itself is
 * stamped: it need not be connected, and then does not know its peer.
 */
static __always_inline void deliver_udp(struct sock *sk)
{
	struct stamp_key key = object_key(sk, APPEASE_OBJECT_INET);

	__builtin_assume(sk);
	if (is_sending())
		note_write(&key, sk);
	else
		forget_sender(sk);
}

/* What the current task hands on is a new connection. A worker that waits for its first one has not read a channel yet. */
static __always_inline void hand_connection(void)
{
	struct handing *handing = this_handing();

	if (handing)
		handing->is_new = 1;
}

/*
 * Whether what comes to @sk by TCP may be a customer's. What this machine says to itself is none, and lends nothing: or who feeds a server so
 * would use up what is lent to it (policy/loan.h). To one that listens comes its newest connection.
 */
static __noinline bool comes_from_elsewhere(struct sock *sk)
{
	const struct request_sock *newest;
	const struct sock *by;
	u64 near[2], far[2];

	if (!sk)
		return false;
	by = readable(sk, struct sock);
	if (sk->__sk_common.skc_state == TCP_LISTEN) {
		newest = readable(sk, struct inet_connection_sock)->icsk_accept_queue.rskq_accept_tail;
		if (!newest)
			return false;
		by = readable(readable(newest, struct request_sock)->sk, struct sock);
	}
	copy_near(near, &by->__sk_common);
	copy_far(far, &by->__sk_common);
	return !is_local(near, far, by->sk_rx_dst_ifindex) && is_in_real_network(sk);
}

/* The same of the newest datagram of a server's. */
static __noinline bool is_sent_from_elsewhere(struct sock *sk)
{
	const struct sk_buff *newest;

	if (!sk)
		return false;
	newest = readable(sk, struct sock)->sk_receive_queue.prev;
	return readable(newest, struct sk_buff)->skb_iif != LOOPBACK_IFINDEX && is_in_real_network(sk);
}

static __always_inline void inet_deliver(struct sock *sk)
{
	u16 protocol = sk->sk_protocol;

	if (protocol == IPPROTO_TCP) {
		bool is_channel = is_tcp_channel(sk);
		u64 now;

		if (!is_channel && !is_armed())
			return;
		now = bpf_ktime_get_ns();
		/* Its reader may have had no customer for hours. */
		if (is_channel) {
			struct connection *connection = try_connection(sk);
			u32 customer = connection ? connection->latest.customer : 0;

			if (customer || comes_from_elsewhere(sk)) {
				channel_event(customer, now);
				if (sk->__sk_common.skc_state == TCP_LISTEN)
					hand_connection();
			}
		}
		if (is_armed())
			deliver_tcp(sk, now);
	} else if (protocol == IPPROTO_UDP) {
		if (is_udp_server(sk) && is_sent_from_elsewhere(sk))
			channel_event(0, bpf_ktime_get_ns());
		if (is_armed())
			deliver_udp(sk);
	}
}

/* TCP */

SEC("fexit/tcp_sendmsg")
int appease_tcp_sent(u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];

	if (returned_int(ctx) <= 0 || !is_tcp_channel(sk))
		return 0;
	if (is_armed())
		respond_on(sk);
	tcp_hit(sk, APPEASE_WRITE);
	return 0;
}

static __always_inline void note_tcp_receive(struct sock *sk)
{
	bool is_unstamped = follows_messages() && !may_be_stamped();

	/* What MPTCP carries is stamped nowhere. */
	if (!is_unstamped && is_armed() && sk->sk_protocol == IPPROTO_TCP) {
		__builtin_assume(sk);
		note_read_from(sk, APPEASE_OBJECT_INET);
	}
	if (!tcp_hit(sk, APPEASE_READ) && is_unstamped && is_armed() && sk->sk_protocol == IPPROTO_TCP)
		note_unstamped_read();
}

static __always_inline void inet_receive(struct sock *sk)
{
	u16 protocol = sk->sk_protocol;

	if (protocol == IPPROTO_TCP || protocol == IPPROTO_MPTCP)
		note_tcp_receive(sk);
}

/* splice and sendfile to a pipe do not go through tcp_recvmsg(). */
SEC("fexit/tcp_splice_read")
int appease_tcp_splice(u64 *ctx)
{
	if (returned(ctx) > 0)
		note_tcp_receive(((struct socket *)ctx[0])->sk);
	return 0;
}

/* For the daemon, which looks for servers: their ports may be channels. */
SEC("fexit/inet_csk_listen_start")
int appease_listen(void *ctx)
{
	__sync_fetch_and_add(&armed.listeners, 1);
	return 0;
}

SEC("fexit/inet_csk_listen_stop")
int appease_listen_end(void *ctx)
{
	__sync_fetch_and_add(&armed.listeners, 1);
	return 0;
}

/* UDP */

static __always_inline void note_udp_send(void)
{
	struct doing *doing;
	u64 now;

	if (!is_armed())
		return;
	now = bpf_ktime_get_ns();
	/* Policy rsio asks later whether it is a handler. */
	if (policy != APPEASE_POLICY_RSIO && !speaks(now))
		return;
	doing = current_doing();
	if (doing)
		doing->sending_ns = now;
}

static __always_inline void note_udp_sent(void)
{
	struct doing *doing;

	if (!is_armed())
		return;
	doing = try_current_doing();
	if (doing)
		doing->sending_ns = 0;
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

/*
 * The two ends of a datagram that comes to @sk, or @leaves it; false for all but the first fragment of one. What comes is whole,
 * and its headers have been looked at; of what leaves, only the network header's place is sure.
 */
static __always_inline bool ends_of_datagram(struct sock *sk, struct sk_buff *skb, bool leaves, struct inet_ends *ends)
{
	u64 *source = leaves ? ends->near : ends->far, *destination = leaves ? ends->far : ends->near;
	unsigned char *head = BPF_CORE_READ(skb, head);
	u32 at = BPF_CORE_READ(skb, network_header);
	struct udphdr udp = {};

	ends->socket = (u64)sk;
	ends->now = bpf_ktime_get_ns();
	ends->waited_us = 0;
	ends->near_port = sk->__sk_common.skc_num;
	if (BPF_CORE_READ(skb, protocol) == bpf_htons(ETH_P_IPV6)) {
		struct {
			struct ipv6hdr ip;
			struct frag_hdr fragment;
		} read = {};

		bpf_probe_read_kernel(&read, sizeof(read), head + at);
		at += sizeof(read.ip);
		if (read.ip.nexthdr == NEXTHDR_FRAGMENT) {
			if (read.fragment.frag_off & bpf_htons(IP6_OFFSET))
				return false;
			at += sizeof(read.fragment);
		}
		copy_address(source, &read.ip.saddr);
		copy_address(destination, &read.ip.daddr);
	} else {
		struct iphdr ip = {};

		bpf_probe_read_kernel(&ip, sizeof(ip), head + at);
		if (ip.frag_off & bpf_htons(IP_OFFSET))
			return false;
		at += ip.ihl * 4;
		ends->near[0] = ends->far[0] = 0;
		source[1] = mapped(ip.saddr);
		destination[1] = mapped(ip.daddr);
	}
	if (!leaves)
		at = BPF_CORE_READ(skb, transport_header);
	bpf_probe_read_kernel(&udp, sizeof(udp), head + at);
	ends->far_port = bpf_ntohs(leaves ? udp.dest : udp.source);
	return true;
}

/* The interface that a datagram came in by; what was sent to a group comes back as if by the loopback. */
static __always_inline u32 came_by(struct sk_buff *skb)
{
	if (BPF_CORE_READ_BITFIELD_PROBED(skb, pkt_type) == PACKET_LOOPBACK)
		return LOOPBACK_IFINDEX;
	return BPF_CORE_READ(skb, skb_iif);
}

/* A datagram is received, by whatever call: not peeked at, no error. */
SEC("fentry/skb_consume_udp")
int appease_udp_receive(u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	struct inet_ends ends;

	if ((s32)ctx[2] <= 0)
		return 0;
	if (is_armed()) {
		__builtin_assume(sk);
		note_read_from(sk, APPEASE_OBJECT_INET);
	}
	if (!is_udp_watched(sk))
		return 0;
	if (ends_of_datagram(sk, (struct sk_buff *)ctx[1], false, &ends))
		inet_hit(&ends, IPPROTO_UDP, APPEASE_READ, came_by((struct sk_buff *)ctx[1]), NULL);
	return 0;
}

/*
 * Datagrams to customers. Which address a socket sends from, and whether to this machine itself, is known once the kernel has
 * found the way: a hook sees what is queued at a device, in the middle of the call that sends it, where that is not the loopback.
 */
static __always_inline void begin_udp_write(struct sock *sk)
{
	struct doing *doing;

	if (is_udp_watched(sk) && (doing = current_doing()))
		doing->writes_to = (u64)sk;
}

static __always_inline void end_udp_write(struct sock *sk)
{
	struct doing *doing;

	if (is_udp_watched(sk) && (doing = try_current_doing()))
		doing->writes_to = 0;
}

SEC("fentry/udp_sendmsg")
int appease_udp_write(u64 *ctx)
{
	begin_udp_write((struct sock *)ctx[0]);
	return 0;
}

SEC("fexit/udp_sendmsg")
int appease_udp_write_end(u64 *ctx)
{
	end_udp_write((struct sock *)ctx[0]);
	return 0;
}

SEC("fentry/udpv6_sendmsg")
int appease_udp6_write(u64 *ctx)
{
	begin_udp_write((struct sock *)ctx[0]);
	return 0;
}

SEC("fexit/udpv6_sendmsg")
int appease_udp6_write_end(u64 *ctx)
{
	end_udp_write((struct sock *)ctx[0]);
	return 0;
}

SEC("tp_btf/net_dev_queue")
int appease_udp_written(u64 *ctx)
{
	struct sk_buff *skb = (struct sk_buff *)ctx[0];
	struct sock *sk = skb->sk;
	struct inet_ends ends;
	struct doing *doing;

	if (!sk)
		return 0;
	doing = try_current_doing();
	if (!doing || doing->writes_to != (u64)sk || skb->dev->flags & IFF_LOOPBACK)
		return 0;
	if (ends_of_datagram(sk, skb, true, &ends)) {
		struct line line = { .object = (u64)sk, .far = far_end(&ends) };

		if (is_armed())
			respond_by(&line);
		inet_hit(&ends, IPPROTO_UDP, APPEASE_WRITE, 0, NULL);
	}
	return 0;
}

#endif
