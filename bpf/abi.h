/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * All that crosses the border between the BPF objects and user space.
 *
 * Fixed width, explicit padding, sizes asserted: user space reads these records as bytes.
 * Times are nanoseconds of CLOCK_MONOTONIC (what bpf_ktime_get_ns() returns).
 */
#ifndef APPEASE_ABI_H
#define APPEASE_ABI_H

#include "policy/confidence.h"
#include "policy/histogram.h"

enum appease_const {
	/* Hops after which attention is not handed on: input, server, terminal, shell, command and three more. */
	APPEASE_MAX_HOPS = 8,
	APPEASE_NR_REQUESTS = 4096,
	/* Customers that are told apart; slot 0 is everybody who finds no other one. */
	APPEASE_NR_CUSTOMERS = 1024,
	/* Customers by channel whose response times are kept, the latest. */
	APPEASE_NR_LATENCIES = 512,
	APPEASE_COMM_LEN = 16,
	/* Rules of channels; slot 0 is none, the first ones are the classes of devices (enum appease_channel). */
	APPEASE_MAX_RULES = 16384,
	/* Rules on the same target, for one user each for example. */
	APPEASE_RULES_AT_TARGET = 8,
	/* Channels of which, and handlers of whom, a process is known to be part; of more, the one that ends first goes. */
	APPEASE_HANDLER_CHANNELS = 4,
	APPEASE_HANDLER_PRIMARIES = 4,
	/* Latest processes that a rule remembers. */
	APPEASE_RULE_HANDLERS = 4,
	/* Requests that a screen's server has yet to show, at most; of more, the oldest are shown unseen. */
	APPEASE_NR_UNSHOWN = 8,
	/* Longest name of a unix socket. */
	APPEASE_UNIX_PATH_LEN = 108,
};

enum appease_policy {
	APPEASE_POLICY_APPEASE,
	APPEASE_POLICY_RSIO,
	APPEASE_POLICY_RBPE,
	APPEASE_POLICY_CAS,
	APPEASE_POLICY_STEADY,
	APPEASE_NR_POLICIES,
};

/* What the clock of CPUs is asked to go by. */
enum appease_clock {
	APPEASE_CLOCK_LEFT,	/* nothing: it is left as it is */
	APPEASE_CLOCK_BY_USE,
	APPEASE_CLOCK_SAVES,	/* power */
};

/* Scheduling classes inside our scheduler, most urgent first. */
enum appease_lane {
	APPEASE_LANE_KERNEL,
	APPEASE_LANE_ATTENDED,
	APPEASE_LANE_OTHER,
	APPEASE_LANE_IDLE,
	APPEASE_NR_LANES,
};

/* Where a customer reaches the machine. */
enum appease_channel {
	APPEASE_CHANNEL_NONE,
	APPEASE_CHANNEL_EVDEV,
	APPEASE_CHANNEL_TTY,
	APPEASE_CHANNEL_MOUSE,
	APPEASE_CHANNEL_JOYSTICK,
	APPEASE_CHANNEL_HIDRAW,
	APPEASE_CHANNEL_AUDIO,
	/* The first that is no class of devices: only rules make one. */
	APPEASE_CHANNEL_FILE,
	APPEASE_CHANNEL_INET,
	APPEASE_CHANNEL_UNIX,
	APPEASE_NR_CHANNELS,
};

/* What is done to a channel; bits. */
enum appease_access {
	APPEASE_READ = 1,
	APPEASE_WRITE = 2,
};

enum appease_rule_flag {
	APPEASE_RULE_HAS_UID = 1,
	APPEASE_RULE_HAS_GID = 2,
	APPEASE_RULE_HAS_CGROUP = 4,
};

/* Who made use of a channel. */
struct appease_rule_handler {
	u64 start_ns;	/* when it began, since the machine's start: its number may be used anew */
	u32 tgid;	/* 0: nobody */
	u32 pad;
};

/* A channel that somebody asked for: who of those that access it counts, and who did. */
struct appease_rule {
	u32 access;	/* enum appease_access; 0: the slot is free */
	u32 flags;	/* enum appease_rule_flag */
	u32 uid;	/* real user and group, in the first user namespace */
	u32 gid;
	u64 cgroup_id;	/* of cgroup 2: this one, or below it */
	u32 cgroup_level;
	u32 next_handler;
	u32 weight;	/* of requests by this channel, POLICY_WEIGHT_DEFAULT: 1 */
	u32 pad;
	u64 hits;
	u64 last_ns;
	struct appease_rule_handler handlers[APPEASE_RULE_HANDLERS];
};
_Static_assert(sizeof(struct appease_rule) == 120, "appease_rule");

/* What tells customers apart. */
enum appease_customer_kind {
	APPEASE_CUSTOMER_NONE,		/* everybody else */
	APPEASE_CUSTOMER_SEAT,		/* who sits at the machine; id[0]: uid of the seat's active user, or APPEASE_NOBODY */
	APPEASE_CUSTOMER_LINE,		/* at a serial line; id[0]: major << 20 | minor */
	APPEASE_CUSTOMER_ADDRESS,	/* id: far end of a socket, as IPv6 in network order */
	APPEASE_CUSTOMER_UID,		/* id[0]: real user, in the first user namespace */
	APPEASE_CUSTOMER_CGROUP,	/* id[0]: cgroup of cgroup 2, that of the process that read */
	APPEASE_NR_CUSTOMER_KINDS,
};

/* What a customer is, set before load. */
enum appease_customer_is {
	APPEASE_CUSTOMER_IS_AUTO,	/* seat, line or address; behind unix sockets and files the user */
	APPEASE_CUSTOMER_IS_USER,	/* the user of the process that read; of a seat its own */
	APPEASE_CUSTOMER_IS_CGROUP,
	APPEASE_NR_CUSTOMER_IS,
};

/* No user is known. */
#define APPEASE_NOBODY 0xffffffffU

struct appease_customer_key {
	u32 kind;	/* enum appease_customer_kind */
	u32 pad;
	u64 id[2];
};
_Static_assert(sizeof(struct appease_customer_key) == 24, "appease_customer_key");

/* Key of a prefix tree: of which customers a weight is. The kind is a part of the prefix, 32 bits of it. */
struct appease_weight_key {
	u32 prefix;	/* bits of what follows that count: 32 and those of the id */
	u32 kind;	/* enum appease_customer_kind */
	u64 id[2];	/* as in appease_customer_key */
};
_Static_assert(sizeof(struct appease_weight_key) == 24, "appease_weight_key");

/* Somebody outside who has sent requests. */
struct appease_customer {
	struct appease_customer_key key;
	u64 latest_ns;		/* its latest request; 0: the slot is free */
	u64 served_ns;		/* CPU time spent on its requests in all */
	u64 opened;		/* requests in all */
	u64 answered;		/* of those: ended by their response */
	u64 silent;		/* ended without one, when nobody had worked on them any more */
	u64 timed_out;		/* ended without one, while somebody still did */
	u64 denied;		/* reads that opened none: this one had too many open, or no record was free */
	u32 weight;		/* POLICY_WEIGHT_DEFAULT: 1 */
	u32 open;		/* requests that are open */
	u32 is_active;		/* its weight is among those of all active customers */
	u32 weights_version;	/* of what the daemon says of weights: this one's is as of that */
	u32 latency;		/* record of its latest response time */
	u32 pad;
	u64 loan_debt_ns;	/* CPU time of loans for its requests that came to nothing, decaying */
	u64 loan_debt_at_ns;	/* when loan_debt_ns was right */
	u64 period_debt_ns;	/* time of the whole machine that periods of its sound have had, decaying */
	u64 period_debt_at_ns;	/* when period_debt_ns was right */
};
_Static_assert(sizeof(struct appease_customer) == 136, "appease_customer");

struct appease_latency_key {
	struct appease_customer_key customer;
	u32 rule;
	u32 pad;
};
_Static_assert(sizeof(struct appease_latency_key) == 32, "appease_latency_key");

/* Requests of a customer by one channel, those that ended by their response. */
struct appease_latency {
	struct appease_latency_key key;
	u64 latest_ns;		/* when the latest ended; 0: the record is free */
	u64 response_ns;	/* sums of what the histograms count */
	u64 unhappiness_ns;
	u32 response[HISTOGRAM_BUCKETS];	/* from the opening to the last write back */
	u32 first[HISTOGRAM_BUCKETS];		/* to the first one */
	u32 unhappiness[HISTOGRAM_BUCKETS];	/* of the request, at its last write back */
};

enum appease_target_kind {
	APPEASE_TARGET_DEVICE = 1,	/* id[0]: major << 20 | minor */
	APPEASE_TARGET_FILE,		/* id[0]: watch descriptor of the daemon's inotify instance */
	APPEASE_TARGET_ACCEPT,		/* id: own address, as IPv6 in network order; 0: any. port: own; 0: any */
	APPEASE_TARGET_CONNECT,		/* the same of the far end */
	APPEASE_TARGET_UNIX_ACCEPT,	/* id[0]: inode of the socket's path */
	APPEASE_TARGET_UNIX_CONNECT,
};

/* What leads to a rule. */
struct appease_target {
	u32 kind;	/* enum appease_target_kind */
	u16 port;	/* host order */
	u16 protocol;	/* IPPROTO_TCP or IPPROTO_UDP */
	u64 id[2];
};
_Static_assert(sizeof(struct appease_target) == 24, "appease_target");

/* Abstract name of a unix socket, without its leading NUL, filled up with NULs. */
struct appease_unix_name {
	u32 kind;	/* APPEASE_TARGET_UNIX_ACCEPT or _CONNECT */
	char name[APPEASE_UNIX_PATH_LEN];
};
_Static_assert(sizeof(struct appease_unix_name) == 112, "appease_unix_name");

/* Asked of a descriptor of the daemon's. */
struct appease_identity {
	u64 fd;
	u64 inode;	/* the kernel's address of its inode; 0: no such descriptor */
	u64 instance;	/* of an inotify instance: the kernel's address of that */
};

/* The rules of one target; 0: none. */
struct appease_rules {
	u32 slots[APPEASE_RULES_AT_TARGET];
};

enum appease_ports_flag {
	APPEASE_PORTS_ANY_TCP = 1,	/* a rule for every port of a host */
	APPEASE_PORTS_ANY_UDP = 2,
	APPEASE_PORTS_UNIX = 4,		/* a rule for a unix socket's path */
	APPEASE_PORTS_UNIX_NAME = 8,	/* for an abstract name */
	APPEASE_PORTS_DEVICES = 16,	/* for one device of a class */
	APPEASE_PORTS_UDP_CONNECT = 32,	/* a rule for a far end of datagrams, which a socket need not know */
	APPEASE_PORTS_TCP_CONNECT = 64,	/* a rule for a far end of connections: they are few */
	APPEASE_PORTS_HOSTS = 128,	/* a rule for an address: without one, only ports have to be looked up */
};

enum appease_port_flag {
	APPEASE_PORT_TCP_ACCEPT = 1,
	APPEASE_PORT_UDP_ACCEPT = 2,
	APPEASE_PORT_TCP_CONNECT = 4,	/* at the number in the network's byte order: some verifiers know no bounds after a swap */
};

/* What tells most sockets from channels at a glance: for each port, which rules name it. */
struct appease_ports {
	u32 flags;	/* enum appease_ports_flag */
	u32 version;	/* of the rules: what was found by another one holds no more */
	u64 watches;	/* the daemon's inotify instance for files; 0: none */
	u8 named[65536];	/* enum appease_port_flag */
};

/* How attention came from one process to the next. */
enum appease_object {
	APPEASE_OBJECT_NONE,
	APPEASE_OBJECT_UNIX,
	APPEASE_OBJECT_INET,
	APPEASE_OBJECT_PIPE,
	APPEASE_OBJECT_PTY,
	APPEASE_OBJECT_EVENTFD,
	APPEASE_OBJECT_FORK,
	APPEASE_OBJECT_SHARED,	/* memory that both have mapped, with a futex in it */
	APPEASE_OBJECT_FEED,	/* pipe that the next one fills for who plays sound */
	APPEASE_NR_OBJECTS,
};

/* What is counted; nothing is dropped in silence. */
enum appease_counter {
	APPEASE_CNT_OPENED,		/* requests opened by channel reads */
	APPEASE_CNT_OPEN_DENIED,	/* reads that opened nothing: no record to be had */
	APPEASE_CNT_STAMPED,		/* stamps left by writers */
	APPEASE_CNT_PICKED_UP,		/* stamps that gave a reader attention */
	APPEASE_CNT_HOPS_EXCEEDED,	/* stamps not picked up: chain too long */
	APPEASE_CNT_INHERITED,		/* attention handed to a forked child */
	APPEASE_CNT_LENT,		/* loans at a wake-up */
	APPEASE_CNT_LOAN_REFUSED,	/* loans refused: too many came to nothing */
	APPEASE_CNT_STORAGE_FAILED,	/* no memory for a record */
	APPEASE_CNT_LIFTED,		/* holders of locks that an attended process waited for */
	APPEASE_CNT_LOCAL_PEER,		/* reads from a channel that came from this machine itself */
	APPEASE_CNT_NOT_JUDGED,		/* activations whose cohandlers' confidence stays as it was: too many at once */
	APPEASE_CNT_NOT_TOLD,		/* news that user space was too slow for */
	APPEASE_CNT_ANSWERED,		/* requests ended by their response */
	APPEASE_CNT_SILENT,		/* requests ended without one, when nobody worked on them any more */
	APPEASE_CNT_TIMED_OUT,		/* requests ended without one, while somebody still did */
	APPEASE_CNT_CUSTOMERS_FULL,	/* requests of customers that find no slot of their own */
	APPEASE_NR_COUNTERS,
};

/* One step of a chain. */
struct appease_hop {
	u64 at_ns;	/* when the reader picked it up */
	u32 tgid;	/* who wrote */
	u16 object;	/* enum appease_object */
	u16 is_last;	/* whoever it came to does not hand it on by what it writes */
};
_Static_assert(sizeof(struct appease_hop) == 16, "appease_hop");

enum appease_request_end {
	APPEASE_OPEN,
	APPEASE_OVER,		/* nobody serves it any more */
	APPEASE_ACCOUNTED,	/* and what it took is in its customer's account */
};

enum appease_request_flag {
	/* More may follow its first answer: it went through a terminal, or a process was started for it, or a screen shows it. */
	APPEASE_REQUEST_GOES_ON = 1,
	/* Others were told of it by messages. */
	APPEASE_REQUEST_SHARED = 2,
	/* A period of a channel that is written to: nobody waits for a response. */
	APPEASE_REQUEST_PERIOD = 4,
};

/* One interaction of a customer, shared by all processes that serve it. */
struct appease_request {
	u64 id;		/* never 0 in use, never used twice */
	u64 opened_ns;
	u64 served_ns;	/* CPU time spent on it by all processes together */
	u64 budget_ns;	/* batch work from there on */
	u64 object;	/* which channel: major << 20 | minor of a device; else the kernel's address of inode or socket */
	u64 served_at_ns;	/* when CPU time was spent on it last */
	u64 first_response_ns;	/* first and last write back to the customer; 0: none yet */
	u64 last_response_ns;
	u32 channel;	/* enum appease_channel */
	u32 rule;	/* slot of the rule that makes it a channel */
	u32 reader_tgid;
	u32 peer_port;	/* of the customer's end of a socket, host order */
	u64 peer[2];	/* its address, as IPv6 in network order */
	u32 customer;	/* slot */
	u32 weight;	/* of customer and channel together */
	u32 flags;	/* enum appease_request_flag */
	u32 is_over;	/* enum appease_request_end */
	/* Policy cas, see policy/share.h. */
	u64 sent_ns;	/* when its data came, as far as is known: no later than it was opened */
	s64 waiting_ns;	/* shares of those who wait for others */
	s64 ready_ns;	/* shares of those who wait for a CPU, as of the look at the queue ready_at */
	u64 ready_at;
};
_Static_assert(sizeof(struct appease_request) == 144, "appease_request");

/* That a process serves a request. */
struct appease_attention {
	u64 request_id;	/* 0: none */
	u64 since_ns;
	u64 until_ns;
	u32 slot;	/* index of the request in its table */
	u32 nr_hops;
	struct appease_hop path[APPEASE_MAX_HOPS];
};
_Static_assert(sizeof(struct appease_attention) == 32 + 16 * APPEASE_MAX_HOPS, "appease_attention");

/* What a process holds that an attended one waits for. */
enum appease_lock {
	APPEASE_LOCK_NONE,
	APPEASE_LOCK_KERNEL,	/* a mutex, semaphore or rt_mutex inside the kernel */
	APPEASE_LOCK_PI_FUTEX,
	APPEASE_LOCK_FUTEX,	/* one of glibc's mutexes, shared between processes */
	APPEASE_LOCK_FILE,	/* flock and its kind */
	APPEASE_NR_LOCKS,
};

/* That a process is lifted: it serves the request of one who waits for its lock. */
struct appease_lift {
	u64 request_id;	/* 0: policy rsio, which has none */
	u64 until_ns;	/* 0: not lifted */
	u64 object;	/* address of the lock; of a file lock, of the record of who waits */
	u32 slot;	/* of the request */
	u32 waiter;	/* process that waits */
	u32 lock;	/* enum appease_lock */
	u32 pad;
};

/* What a read from a socket is, for policy rbpe; bits. */
enum appease_raise {
	APPEASE_RAISE_UNIX = 1,
	APPEASE_RAISE_NETWORK = 2,
};

/* What a backend in user space knows of a process; bits, of which the first are those of enum appease_raise. */
enum appease_told {
	APPEASE_TOLD_WANTED = 4,	/* that somebody waits for it */
	APPEASE_TOLD_CHANGED = 8,	/* it has changed its threads, whose children must be told of */
};

enum appease_news_kind {
	APPEASE_NEWS_WANTED = 1,	/* tgid is to be served now */
	APPEASE_NEWS_BORN,		/* a thread of tgid has what was changed of one of parent_tgid */
};

/* What a backend in user space is told. */
struct appease_news {
	u32 kind;	/* enum appease_news_kind */
	u32 tgid;
	u32 parent_tgid;
	u32 pad;
};
_Static_assert(sizeof(struct appease_news) == 16, "appease_news");

/* A realtime thread that lets nobody else have its CPU. */
struct appease_hog {
	u32 tid;	/* 0: those that stand back have to go on, as the CPU is kept still */
	u32 heir_of;	/* not 0: it began while that one stood back, as its child or a child's, and inherited that */
	u64 began_ticks;	/* as in /proc/TID/stat */
};
_Static_assert(sizeof(struct appease_hog) == 16, "appease_hog");

/* What is said of a change; bits. */
enum appease_change_flag {
	APPEASE_CHANGE_INHERITED = 1,	/* the thread has record, nice value and slice from its parent */
	APPEASE_CHANGE_OVER = 2,	/* all was given back */
};

/* What the backend by nice values has changed of a thread. */
struct appease_change {
	s32 base;	/* nice value before */
	s32 given;	/* the one that it was given */
	s32 former;	/* the one that it was given before that */
	u32 flags;	/* enum appease_change_flag */
	u64 slice_ns;	/* the slice that it was given in place of the kernel's own; 0: none */
};
_Static_assert(sizeof(struct appease_change) == 24, "appease_change");

/* A thread that has one. */
struct appease_changed {
	u32 tid;
	u32 tgid;
	struct appease_change change;
};
_Static_assert(sizeof(struct appease_changed) == 32, "appease_changed");

/* What a backend in user space says of a process. */
struct appease_account {
	u64 total_ns;	/* CPU time that it had since it began */
	u32 tgid;
	u32 begins;	/* that so far is not charged, and its threads are going to be changed */
	u32 keeps;	/* it is let go of, but remains changed */
	u32 pad;
};
_Static_assert(sizeof(struct appease_account) == 24, "appease_account");

/* What one of several threads of a server works on: the request that it read itself. */
struct appease_thread {
	struct appease_attention attention;
	u64 context_id;		/* as in appease_process */
};
_Static_assert(sizeof(struct appease_thread) == sizeof(struct appease_attention) + 8, "appease_thread");

/* Requests that came back to the server of a screen, which has yet to show them. */
struct appease_unshown {
	u64 ids[APPEASE_NR_UNSHOWN];
	u32 slots[APPEASE_NR_UNSHOWN];
	u32 next;
	u32 pad;
};

/* All that is known of a process (thread group). */
struct appease_process {
	struct appease_attention attention;
	struct appease_lift lift;
	u64 context_id;		/* request of the last message it read; 0: message without a stamp */
	u64 channel_read_ns;	/* last successful read from a READ channel; 0: never */
	u64 loan_until_ns;	/* end of a loan; 0: none */
	u64 loan_opened_ns;	/* opening time that a loan ranks by */
	u64 loan_debt_ns;	/* CPU time of loans that came to nothing, decaying */
	u64 loan_debt_at_ns;	/* when loan_debt_ns was right */
	u64 loan_ran_ns;	/* CPU time of this loan so far */
	u64 context_opened_ns;	/* opening time of the context */
	u32 gives;		/* its request is something that it gives its customer, such as sound */
	u32 gives_on;		/* its context is that, though it read something else since */
	u32 has_partners;	/* it woke others through shared memory: their confidence is to be adjusted */
	u32 told;		/* enum appease_told */
	u32 loan_weight;	/* of what a loan was given for */
	u32 loan_customer;	/* for whose request; 0: not known */
	u64 charged_ns;		/* what a backend in user space has charged, of all CPU time of the process */
	u64 raised_ns[2];	/* policy rbpe: latest read from a unix socket, from a network socket */
	u64 share_of;		/* policy cas: request of which it has a share, see policy/share.h */
	s64 share_ns;		/* that share */
	u64 share_since_ns;	/* since when it grows; 0: it stands still */
};
_Static_assert(sizeof(struct appease_process) == sizeof(struct appease_attention) + 176, "appease_process");

/* A channel that a process handles. */
struct appease_handled {
	u64 object;	/* as in appease_request; 0: none */
	u64 until_ns;	/* 0: others took over */
	u32 rule;
	u32 pad;
};

/* A handler whose cohandler a process is. */
struct appease_cohandled {
	u64 until_ns;
	u32 tgid;	/* 0: none */
	u32 pad;
};

/* Policy rsio: a process that accessed a channel, or that communicates with one that did. */
struct appease_handler {
	u64 primary_until_ns;	/* end of its part as a primary handler; 0: none */
	u64 co_until_ns;	/* as a cohandler */
	u64 activated_ns;	/* latest activation for which its cohandlers' confidence was, or will be, adjusted */
	u32 access;		/* enum appease_access: what its customers' channels are read or written for */
	u32 told;		/* enum appease_told */
	struct appease_handled channels[APPEASE_HANDLER_CHANNELS];
	struct appease_cohandled primaries[APPEASE_HANDLER_PRIMARIES];
	struct confidence_list cohandlers;
};

/* CPU time by lane of all processes with one command name, exited ones included. */
struct appease_command {
	u64 lane_ns[APPEASE_NR_LANES];
};

#endif
