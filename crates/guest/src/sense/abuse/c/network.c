/* SPDX-License-Identifier: GPL-2.0-only */
/* Ports: what this machine says to itself has no customer, nor what comes from a network that a user has made. */
#include "trick.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/prctl.h>

#define DESKTOP_PORT 5901
#define SSH_PORT 2222
#define CONNECTIONS 64
/* Addresses for examples (RFC 5737). */
#define OWN_NEAR "198.51.100.1"
#define OWN_FAR "198.51.100.2"

/* What is written to the second comes out of the first. */
static int ends[2];

static void through(void)
{
	give(ends[1]);
	take(ends[0]);
}

static struct sockaddr_in address(const char *ip, int port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };

	inet_pton(AF_INET, ip, &at.sin_addr);
	return at;
}

static int listen_at(const char *ip, int port)
{
	struct sockaddr_in at = address(ip, port);
	int listener = must(socket(AF_INET, SOCK_STREAM, 0)), yes = 1;

	must(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)));
	must(bind(listener, (void *)&at, sizeof(at)));
	must(listen(listener, CONNECTIONS));
	return listener;
}

static int call(const char *ip, int port)
{
	struct sockaddr_in at = address(ip, port);
	int client = must(socket(AF_INET, SOCK_STREAM, 0)), yes = 1;

	must(setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)));
	must(connect(client, (void *)&at, sizeof(at)));
	return client;
}

static int port_of(int listener)
{
	struct sockaddr_in at;
	socklen_t size = sizeof(at);

	must(getsockname(listener, (void *)&at, &size));
	return ntohs(at.sin_port);
}

/* A connection within this machine. */
static void connect_ends(const char *ip, int port)
{
	int listener = listen_at(ip, port);

	ends[1] = call(ip, port_of(listener));
	ends[0] = must(accept(listener, NULL, NULL));
	close(listener);
}

void network_tcp(void)
{
	connect_ends("127.0.0.1", 0);
	keep_trying(through);
}

void network_tcp6(void)
{
	struct sockaddr_in6 at = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	socklen_t size = sizeof(at);
	int listener = must(socket(AF_INET6, SOCK_STREAM, 0));

	must(bind(listener, (void *)&at, size));
	must(listen(listener, 1));
	must(getsockname(listener, (void *)&at, &size));
	ends[1] = must(socket(AF_INET6, SOCK_STREAM, 0));
	must(connect(ends[1], (void *)&at, size));
	ends[0] = must(accept(listener, NULL, NULL));
	keep_trying(through);
}

void network_udp(void)
{
	struct sockaddr_in at = address("127.0.0.1", 0);
	socklen_t size = sizeof(at);

	ends[0] = must(socket(AF_INET, SOCK_DGRAM, 0));
	must(bind(ends[0], (void *)&at, size));
	must(getsockname(ends[0], (void *)&at, &size));
	ends[1] = must(socket(AF_INET, SOCK_DGRAM, 0));
	must(connect(ends[1], (void *)&at, size));
	keep_trying(through);
}

/* A group at the loopback: its members get what they send themselves. */
void network_multicast(void)
{
	struct sockaddr_in at = address("0.0.0.0", RULED_PORT), group = address("233.252.0.1", RULED_PORT);
	struct ip_mreq membership = { group.sin_addr, { htonl(INADDR_LOOPBACK) } };

	ends[0] = must(socket(AF_INET, SOCK_DGRAM, 0));
	must(bind(ends[0], (void *)&at, sizeof(at)));
	must(setsockopt(ends[0], IPPROTO_IP, IP_ADD_MEMBERSHIP, &membership, sizeof(membership)));
	ends[1] = must(socket(AF_INET, SOCK_DGRAM, 0));
	must(setsockopt(ends[1], IPPROTO_IP, IP_MULTICAST_IF, &membership.imr_interface, sizeof(struct in_addr)));
	must(connect(ends[1], (void *)&group, sizeof(group)));
	keep_trying(through);
}

/* A rule makes this port a channel. */
void network_own_port(void)
{
	connect_ends("127.0.0.1", RULED_PORT);
	keep_trying(through);
}

/* The same by an address that is none of the loopback's usual ones. */
void network_port_by_address(void)
{
	struct sockaddr_in from = address("127.9.9.9", 0), to = address("127.8.8.8", RULED_PORT);
	int listener = listen_at("127.8.8.8", RULED_PORT);

	ends[1] = must(socket(AF_INET, SOCK_STREAM, 0));
	must(bind(ends[1], (void *)&from, sizeof(from)));
	must(connect(ends[1], (void *)&to, sizeof(to)));
	ends[0] = must(accept(listener, NULL, NULL));
	keep_trying(through);
}

/* The partner writes as fast as it may; full buffers do not stop it. */
static void feed(void)
{
	for (;;) {
		work(WORK_US);
		send(ends[1], "x", 1, MSG_DONTWAIT);
		tried();
	}
}

static void take_if_there(void)
{
	char byte;

	recv(ends[0], &byte, 1, MSG_DONTWAIT);
}

void network_partner(void)
{
	connect_ends("127.0.0.1", RULED_PORT);
	child(feed);
	keep_trying(take_if_there);
}

static void take_it(void)
{
	take(ends[0]);
}

void network_awaited_partner(void)
{
	connect_ends("127.0.0.1", RULED_PORT);
	child(feed);
	keep_trying(take_it);
}

static int door;

static void call_again(void)
{
	for (;;) {
		int client = call("127.0.0.1", RULED_PORT);

		give(client);
		work(WORK_US);
		take(client);
		close(client);
	}
}

static void accept_again(void)
{
	int connection = must(accept(door, NULL, NULL));

	take(connection);
	give(connection);
	close(connection);
}

/* Each time as a new customer. */
void network_accepted_anew(void)
{
	door = listen_at("127.0.0.1", RULED_PORT);
	child(call_again);
	keep_trying(accept_again);
}

static int connections[CONNECTIONS][2];

static void through_next(void)
{
	static int next;
	int i = next++ % CONNECTIONS;

	give(connections[i][1]);
	take(connections[i][0]);
}

void network_many_connections(void)
{
	int i;

	door = listen_at("127.0.0.1", RULED_PORT);
	for (i = 0; i < CONNECTIONS; i++) {
		connections[i][1] = call("127.0.0.1", RULED_PORT);
		connections[i][0] = must(accept(door, NULL, NULL));
	}
	keep_trying(through_next);
}

/* Servers of remote desktops are known by their names. */
void network_desktop_port(void)
{
	must(prctl(PR_SET_NAME, "x11vnc"));
	connect_ends("0.0.0.0", DESKTOP_PORT);
	listen_at("0.0.0.0", DESKTOP_PORT);
	keep_trying(through);
}

void network_ssh_port(void)
{
	must(prctl(PR_SET_NAME, "sshd"));
	connect_ends("0.0.0.0", SSH_PORT);
	listen_at("0.0.0.0", SSH_PORT);
	keep_trying(through);
}

static int told[2];

/* A machine that a user has made up, which calls the ruled port of another one. */
static void call_from_there(void)
{
	must(unshare(CLONE_NEWNET));
	give(told[1]);
	take(told[1]);
	ends[1] = call(OWN_NEAR, RULED_PORT);
	feed();
}

void network_own_network(void)
{
	char join[512];
	pid_t there;

	must(socketpair(AF_UNIX, SOCK_STREAM, 0, told));
	enter_own_namespaces(CLONE_NEWNET);
	there = child(call_from_there);
	take(told[0]);
	snprintf(join, sizeof(join),
		 "ip link add near type veth peer name far netns %d && ip address add " OWN_NEAR "/24 dev near && ip link set near up && "
		 "nsenter -t %d -n sh -c 'ip address add " OWN_FAR "/24 dev far && ip link set far up'",
		 there, there);
	must(system(join) ? -1 : 0);
	door = listen_at(OWN_NEAR, RULED_PORT);
	give(told[0]);
	ends[0] = must(accept(door, NULL, NULL));
	keep_trying(take_if_there);
}
