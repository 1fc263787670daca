/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Messages between processes: writers leave stamps on what they write, readers pick them up.
 */
#ifndef APPEASE_STAMPS_BPF_H
#define APPEASE_STAMPS_BPF_H

#include "handlers.bpf.h"

/*
 * Stamps: attention left on an object by its last writer, until another one writes or it expires. A stamp without a request says
 * nothing: to take one off, or to write it anew in place, takes a fraction of what a new element does.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct stamp_key);
	__type(value, struct appease_attention);
} stamps SEC(".maps");

/*
 * The same of a socket hangs on the one that receives: a look takes a third of one into a table, and nobody's sockets, however many or
 * whatever their addresses, take it from another's.
 */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct appease_attention);
} socket_stamps SEC(".maps");

/* Processes that a waiter lifts, at most: who holds the lock, and who gets it before. */
#define LIFTED_MAX 32

/*
 * What a task is in the middle of. Of the task, not of the CPU: it may be preempted, by another kernel worker for one.
 * The end of a call is not seen if anybody's hook comes to its function, or goes, meanwhile: so each is bounded, by time or by
 * the task's next call of the kind.
 */
struct doing {
	struct stamp_key via;	/* stamp that a kernel worker carries on */
	u64 via_ns;		/* since when; 0: none */
	u64 sending_ns;		/* since when it sends a datagram for a customer; 0: it does not */
	u64 writes_to;		/* UDP socket that a rule may name, through which it sends; 0: none */
	u64 withheld;		/* inode of a watched file; the call that it is in says itself what it did to it; 0: none */
	u32 withheld_wd;	/* the watch of which an event came meanwhile; 0: none */
	u32 nr_lifted;		/* processes that it lifted while it waits for a lock */
	u64 waits_for;		/* that lock, as in appease_lift */
	u32 lifted[LIFTED_MAX];
};

/* The longest that a task can be in a call that does not wait for anybody. */
#define CALL_NS 100000000ULL

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct doing);
} doings SEC(".maps");

/* Too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct appease_attention);
} scratch SEC(".maps");

static __always_inline struct doing *try_current_doing(void)
{
	return bpf_task_storage_get(&doings, bpf_get_current_task_btf(), 0, 0);
}

static __always_inline struct doing *current_doing(void)
{
	struct doing *doing;

	doing = bpf_task_storage_get(&doings, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!doing)
		count(APPEASE_CNT_STORAGE_FAILED);
	return doing;
}

/* Whether a call that began at @since_ns, if at all, goes on. */
static __always_inline bool is_under_way(u64 since_ns, u64 now)
{
	return since_ns && now - since_ns < CALL_NS;
}

static __always_inline struct stamp_key object_key(const void *object, u32 kind)
{
	return (struct stamp_key){ .a = (u64)object, .b = kind };
}

/* The object of @key was freed: nothing is known of the next one there. */
static __always_inline void forget_object(const struct stamp_key *key)
{
	if (policy == APPEASE_POLICY_RSIO)
		forget_strangers(key);
	if (policy == APPEASE_POLICY_RSIO || key->b == APPEASE_OBJECT_PIPE)
		bpf_map_delete_elem(&ends_map, key);
	if (policy != APPEASE_POLICY_RSIO)
		bpf_map_delete_elem(&stamps, key);
}

/* The hop by which @stamp came; it has one. */
static __always_inline const struct appease_hop *latest_hop(const struct appease_attention *stamp)
{
	return &stamp->path[(stamp->nr_hops - 1) & (APPEASE_MAX_HOPS - 1)];
}

/* Whether who reads @stamp is attended, but what it writes is not stamped. */
static __always_inline bool is_last_hop(const struct appease_attention *stamp)
{
	return latest_hop(stamp)->is_last;
}

/* The request that @attention is for, if an answer could still extend its budget; it may be spent at the moment. */
static __always_inline struct appease_request *try_answerable(const struct appease_attention *attention, u64 now)
{
	struct appease_request *request = try_unexpired(attention, now);

	return request && request->served_ns < most_for(request) ? request : NULL;
}

/* What is kept of stamps on @sk, or, if that is NULL, on the object of @key. NULL: nothing is. */
static __always_inline struct appease_attention *try_place(const struct stamp_key *key, struct sock *sk)
{
	if (sk)
		return bpf_sk_storage_get(&socket_stamps, sk, NULL, 0);
	return bpf_map_lookup_elem(&stamps, key);
}

/* The stamp there, or NULL: it has none. */
static __always_inline struct appease_attention *try_stamp(const struct stamp_key *key, struct sock *sk)
{
	struct appease_attention *stamp = try_place(key, sk);

	return stamp && stamp->request_id ? stamp : NULL;
}

/* What a process reads by, as far as can be told. */
enum side {
	SIDE_UNKNOWN,	/* a pipe, a terminal, or one of two sockets that are alike */
	SIDE_SERVER,	/* a server's end of a connection: what one of its threads reads there it works on itself */
	SIDE_CLIENT,	/* a client's, of a server in a unix socket: that one has a name, the client none */
};

static __always_inline enum side side_of_unix(struct sock *sk)
{
	const struct unix_sock *sock = readable(sk, struct unix_sock);

	if (sock->addr)
		return SIDE_SERVER;
	return readable(sock->peer, struct unix_sock)->addr ? SIDE_CLIENT : SIDE_UNKNOWN;
}

/* Writers */

static __always_inline void take_stamp_off(const struct stamp_key *key, struct sock *sk)
{
	struct appease_attention *stamp = try_stamp(key, sk);

	if (stamp)
		stamp->request_id = 0;
}

/* What comes to @sk now has a sender of which nothing is known. */
static __always_inline void forget_sender(struct sock *sk)
{
	struct stamp_key key;
	struct ends *ends;

	if (policy != APPEASE_POLICY_RSIO) {
		take_stamp_off(NULL, sk);
		return;
	}
	key = object_key(sk, APPEASE_OBJECT_INET);
	forget_strangers(&key);
	ends = bpf_sk_storage_get(&socket_ends, sk, NULL, 0);
	if (ends)
		ends->writer = 0;
}

/* Leaves @attention on @sk or @key, one hop further, as written by the current process; for good if that @is_last. */
static __always_inline void leave_stamp(const struct stamp_key *key, struct sock *sk, const struct appease_attention *attention,
					bool is_last, u64 now)
{
	u32 zero = 0, hop = attention->nr_hops, object = key->b;
	u64 id = attention->request_id;
	struct appease_attention *known = NULL, *stamp;

	if (hop >= max_hops || hop >= APPEASE_MAX_HOPS) {
		count(APPEASE_CNT_HOPS_EXCEEDED);
		take_stamp_off(key, sk);
		return;
	}
	if (sk) {
		stamp = bpf_sk_storage_get(&socket_stamps, sk, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	} else {
		known = try_place(key, NULL);
		stamp = known ? known : bpf_map_lookup_elem(&scratch, &zero);
	}
	if (!stamp) {
		count(APPEASE_CNT_STORAGE_FAILED);
		return;
	}
	/* A reader finds no request meanwhile. */
	*(volatile u64 *)&stamp->request_id = 0;
	stamp->since_ns = attention->since_ns;
	stamp->until_ns = attention->until_ns;
	stamp->slot = attention->slot;
	/* Nobody looks at hops beyond the last one, and most stamps have come by one or two. */
	if (hop > 2)
		__builtin_memcpy(stamp->path, attention->path, sizeof(stamp->path));
	else
		__builtin_memcpy(stamp->path, attention->path, 2 * sizeof(stamp->path[0]));
	stamp->path[hop].at_ns = now;
	stamp->path[hop].tgid = current_tgid();
	stamp->path[hop].object = object;
	stamp->path[hop].is_last = is_last;
	stamp->nr_hops = hop + 1;
	*(volatile u64 *)&stamp->request_id = id;
	if (!known && !sk)
		bpf_map_update_elem(&stamps, key, stamp, BPF_ANY);
	/* No attention lasts longer from now. */
	if (object == APPEASE_OBJECT_INET && policy_before(armed.inet_stamped_until_ns, now + attention_ns))
		armed.inet_stamped_until_ns = now + attention_ns;
	count(APPEASE_CNT_STAMPED);
}

/*
 * The request for which the current process speaks: that of the last message it read; NULL: for nobody's. One that was
 * silent for too long counts: this may be its answer.
 */
static __always_inline struct appease_request *try_spoken_for(struct appease_process *process, u64 now)
{
	if (!process || !process->context_id || process->context_id != process->attention.request_id)
		return NULL;
	return try_answerable(&process->attention, now);
}

/*
 * The same of the current task, and the attention that it hands on. One of several threads of a server speaks for what it read
 * itself; one that read nothing that is still served, for its process.
 */
static __always_inline struct appease_request *try_voice(struct appease_process *process, u64 now,
							 const struct appease_attention **attention)
{
	struct appease_request *request;
	struct appease_thread *thread;

	if (!process)
		return NULL;
	*attention = &process->attention;
	thread = try_thread(bpf_get_current_task_btf());
	request = thread ? try_answerable(&thread->attention, now) : NULL;
	if (!request)
		return try_spoken_for(process, now);
	*attention = &thread->attention;
	return thread->context_id == request->id ? request : NULL;
}

/* Feeders */

/*
 * What who plays sound reads from a pipe is what its customer hears. Its writer gets no message: it may never wait for its
 * reader, which waits for it. Pipes alone: their ends were given to those who have them, while a server hears from anybody.
 */
static __always_inline bool is_fed(const struct appease_process *process, u64 now)
{
	const struct appease_attention *attention = &process->attention;

	if (!try_lookup_request(attention, now))
		return false;
	return attention->nr_hops ? latest_hop(attention)->object == APPEASE_OBJECT_FEED : process->gives;
}

/* The current process fills the pipe @key, for nobody's customer as far as it knows. */
static __always_inline void note_feeder(const struct stamp_key *key)
{
	struct ends *ends = bpf_map_lookup_elem(&ends_map, key);

	if (ends)
		ends->writer = current_tgid();
}

/* From kernel headers; constants do not travel in BTF. */
#define FMODE_WRITE 2
/* As POSIX has it. */
#define STDOUT_FILENO 1
/* Of each generation of a family, so many are looked at, the youngest first: few pipelines are longer. */
#define RELATIVES_LOOKED_AT 32

/* Of the children of @parent, the one that has the pipe @pipe as its standard output; 0: none. Their list is read as it is, and may change. */
static __always_inline u32 child_printing_into(struct task_struct *parent, u64 pipe)
{
	u64 head = (u64)parent + bpf_core_field_offset(struct task_struct, children), at = (u64)parent->children.prev;
	u32 i;

	bpf_for(i, 0, RELATIVES_LOOKED_AT) {
		struct task_struct *child;
		struct file *file;

		if (!at || at == head)
			return 0;
		child = readable((void *)(at - bpf_core_field_offset(struct task_struct, sibling)), struct task_struct);
		file = try_file_of(child, STDOUT_FILENO);
		if (file && (u64)file->private_data == pipe && file->f_mode & FMODE_WRITE)
			return child->tgid;
		at = (u64)child->sibling.prev;
	}
	return 0;
}

/*
 * The process that fills the pipe @key, of which nothing is known, as it wrote before anybody was served: a child of the reader, or of
 * the reader's parent, such as the shell of a pipeline.
 */
static __noinline u32 writer_in_family(const struct stamp_key *key)
{
	struct task_struct *leader = readable(bpf_get_current_task_btf(), struct task_struct)->group_leader;
	u32 writer;

	if (!key)
		return 0;
	writer = child_printing_into(leader, key->a);
	return writer ? writer : child_printing_into(leader->real_parent, key->a);
}

/* The current process plays, and read from the pipe @key: who fills it is attended, but what that one writes is not stamped. */
static __noinline int attend_feeder(const struct stamp_key *key, const struct appease_process *process, u64 now)
{
	struct appease_process *feeder;
	struct ends *ends;
	struct task_struct *writer;
	bool is_new;

	if (!key || !process || !is_fed(process, now))
		return 0;
	ends = bpf_map_lookup_elem(&ends_map, key);
	if (!ends) {
		ends = ends_of(key);
		if (ends)
			ends->writer = writer_in_family(key);
	}
	if (!ends || !ends->writer || ends->writer == current_tgid())
		return 0;
	writer = bpf_task_from_pid(ends->writer);
	if (!writer)
		return 0;
	feeder = bpf_task_storage_get(&processes, writer->group_leader, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	is_new = feeder && !try_unexpired(&feeder->attention, now);
	/* Somebody may wait for itself. */
	if (feeder && feeder->attention.request_id != process->attention.request_id &&
	    (is_new || is_fed(feeder, now)) && hand_on(process, current_tgid(), feeder, APPEASE_OBJECT_FEED, now)) {
		feeder->context_id = 0;
		feeder->gives_on = 0;
		tell_wanted(&feeder->told, APPEASE_TOLD_WANTED, ends->writer);
		count(APPEASE_CNT_PICKED_UP);
		/* It may be in the middle of what is to be heard next. */
		if (is_new)
			place_anew(writer);
	}
	bpf_task_release(writer);
	return 0;
}

/*
 * Whether @process, which gives its customer something by itself, such as sound, tells a client of its own something by @sk. Nobody waits
 * for that: anybody may be a client of a sound server, and would be attended for its messages. Clients that have to fill the next period hear
 * so by other objects, such as an eventfd.
 */
static __always_inline bool tells_client(const struct appease_process *process, struct sock *sk, u32 kind)
{
	return process->gives && !process->attention.nr_hops && kind == APPEASE_OBJECT_UNIX && side_of_unix(sk) == SIDE_CLIENT;
}

/*
 * The current process writes to what receives by @sk, or, if that is NULL, to the object of @key. What an attended one writes for its
 * customer is stamped, and a task that wakes up from it is lent a turn; anything else takes the stamp of an earlier message off. Whether it
 * was stamped for a request.
 */
static __always_inline bool note_write(const struct stamp_key *key, struct sock *sk)
{
	const struct appease_attention *attention = NULL;
	struct appease_process *process;
	struct appease_request *request;
	struct doing *doing;
	u64 now;

	if (policy == APPEASE_POLICY_RBPE)
		return false;
	if (policy == APPEASE_POLICY_RSIO) {
		note_access(key, sk, APPEASE_WRITE);
		return false;
	}
	now = bpf_ktime_get_ns();
	process = try_current_process();
	request = try_voice(process, now, &attention);
	if (request && sk && tells_client(process, sk, key->b))
		request = NULL;
	if (request) {
		/* What a command prints later is its answer, too. */
		request->flags |= key->b == APPEASE_OBJECT_PTY ? APPEASE_REQUEST_GOES_ON : APPEASE_REQUEST_SHARED;
		leave_stamp(key, sk, attention, process->gives_on, now);
		begin_handing(request, 0, true, now);
		return true;
	}
	/* A kernel worker that carries a stamp, such as a terminal's echo. */
	doing = try_current_doing();
	if (doing && is_under_way(doing->via_ns, now)) {
		struct appease_attention *carried = try_stamp(&doing->via, NULL);

		if (carried) {
			leave_stamp(key, sk, carried, is_last_hop(carried), now);
			return false;
		}
	}
	take_stamp_off(key, sk);
	if (key->b == APPEASE_OBJECT_PIPE)
		note_feeder(key);
	return false;
}

/* Readers */

/*
 * The current process read a message of somebody whom nobody waits for, so for that one it speaks now. But who gives its
 * customer something by itself, such as sound and a picture with it, does so between any two messages: what such a one
 * hears from a server changes nothing. The server is then attended, too, but hands nothing on: it may be one that asked
 * in somebody's name, and would have attention from the answer. @pipe: NULL if it was none.
 */
static __always_inline void note_plain_read(enum side side, const struct stamp_key *pipe, u64 now)
{
	struct appease_process *process = try_current_process();

	if (process && pipe)
		attend_feeder(pipe, process, now);
	if (!process || !process->context_id)
		return;
	if (process->gives && !process->attention.nr_hops && process->context_id == process->attention.request_id && side == SIDE_CLIENT)
		process->gives_on = 1;
	else
		process->context_id = 0;
}

/*
 * Whether @stamp has been with the process @tgid on its way from the customer, so that what it is on comes back as an answer.
 * Siblings in a pipeline are on no such way, whatever they tell each other.
 */
static __always_inline bool is_on_way(const struct appease_attention *stamp, u32 tgid)
{
	u32 i;

	for (i = 0; i < APPEASE_MAX_HOPS && i + 1 < stamp->nr_hops; i++)
		if (stamp->path[i].tgid == tgid)
			return true;
	return false;
}

static __always_inline bool is_by_terminal(const struct appease_attention *stamp)
{
	return latest_hop(stamp)->object == APPEASE_OBJECT_PTY;
}

/*
 * The current task, one of several threads, read by @side: for @stamp's request, or, without one, for nobody. What a thread reads elsewhere
 * than at a server's end it may read for another one, which it then wakes.
 */
static __noinline int note_thread_read(enum side side, const struct appease_attention *stamp)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct appease_thread *thread;

	if (!stamp || side != SIDE_SERVER) {
		thread = bpf_task_storage_get(&threads, task, 0, 0);
		if (!thread)
			return 0;
		thread->context_id = 0;
		/* Whatever it is, its process will know. */
		if (stamp)
			thread->attention.request_id = 0;
		return 0;
	}
	thread = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		count(APPEASE_CNT_STORAGE_FAILED);
		return 0;
	}
	/* An answer to what it asked: it is nearer to the customer. */
	if (thread->attention.request_id != stamp->request_id)
		thread->attention = *stamp;
	thread->context_id = is_last_hop(stamp) ? 0 : stamp->request_id;
	return 0;
}

/* Whether any connection of TCP may have a stamp. On most machines none ever has: who asks there is somewhere else. */
static __always_inline bool may_be_stamped(void)
{
	return armed.inet_stamped_until_ns && policy_before(bpf_ktime_get_ns(), armed.inet_stamped_until_ns);
}

/* The current process read from a connection that has no stamp, so it speaks for nobody now: note_read() without a look for one. */
static __always_inline void note_unstamped_read(void)
{
	struct appease_process *process = try_current_process();
	struct appease_thread *thread = try_thread(bpf_get_current_task_btf());

	if (process)
		process->context_id = 0;
	if (thread)
		thread->context_id = 0;
}

/* The current process successfully read by @side a message with @stamp, if it has one; from @pipe, if that is not NULL. */
static __always_inline void read_stamped(enum side side, const struct appease_attention *stamp, const struct stamp_key *pipe)
{
	struct appease_request *request = NULL;
	struct appease_process *process;
	u64 now;

	now = bpf_ktime_get_ns();
	if (stamp)
		request = try_answerable(stamp, now);
	process = request ? current_process() : NULL;
	if (has_threads(bpf_get_current_task_btf()))
		note_thread_read(side, request ? stamp : NULL);
	if (process && policy == APPEASE_POLICY_CAS)
		move_share(request, latest_hop(stamp)->tgid, process, is_on_way(stamp, current_tgid()));
	if (process && is_on_way(stamp, current_tgid())) {
		request->budget_ns = budget_extended(request->budget_ns, request->served_ns, quiet_ns, most_for(request));
		if (request->channel < APPEASE_CHANNEL_FILE && request->reader_tgid == current_tgid())
			note_unshown(request, stamp->slot);
	} else if (process && is_by_terminal(stamp)) {
		request->budget_ns = budget_limited(request->budget_ns, request->served_ns, quiet_ns);
	}
	if (!process || is_spent(request)) {
		/* Of its own request it may yet carry the answer on. */
		if (!process || process->attention.request_id != request->id)
			note_plain_read(side, pipe, now);
		return;
	}
	process->context_id = is_last_hop(stamp) ? 0 : request->id;
	process->context_opened_ns = request->opened_ns;
	process->gives_on = 0;
	repay_loan(process);
	tell_current_wanted(process);
	/* An echo of what it wrote itself: it is nearer to the customer than its correspondent. */
	if (process->attention.request_id == request->id)
		return;
	process->attention = *stamp;
	process->attention.since_ns = now;
	if (process->has_partners)
		judge_later(current_tgid(), now);
	count(APPEASE_CNT_PICKED_UP);
}

/*
 * read_stamped() of all but pipes. Global: up to 6.18 the verifier would go through all that follows it for each of its ends. And without a
 * pointer to the stack, for which 7.2 goes through it anew at each call.
 */
__noinline int note_stamped_read(enum side side, const struct appease_attention *stamp)
{
	read_stamped(side, stamp, NULL);
	return 0;
}

/* The current process successfully read a message from the object of @key. */
static __always_inline void note_read(const struct stamp_key *key)
{
	if (policy == APPEASE_POLICY_RSIO)
		note_access(key, NULL, APPEASE_READ);
	else if (policy != APPEASE_POLICY_RBPE && key->b == APPEASE_OBJECT_PIPE)
		read_stamped(SIDE_UNKNOWN, try_place(key, NULL), key);
	else if (policy != APPEASE_POLICY_RBPE)
		note_stamped_read(SIDE_UNKNOWN, try_place(key, NULL));
}

/* The same from @sk, of @kind: enum appease_object. */
static __always_inline void note_read_from(struct sock *sk, u32 kind)
{
	if (policy == APPEASE_POLICY_RSIO) {
		struct stamp_key key = object_key(sk, kind);

		note_access(&key, sk, APPEASE_READ);
	} else if (policy == APPEASE_POLICY_RBPE) {
		/* Nothing else is watched, see crates/bpf/src/hooks.rs. */
		raise_reader(kind == APPEASE_OBJECT_UNIX ? APPEASE_RAISE_UNIX : APPEASE_RAISE_NETWORK);
	} else {
		note_stamped_read(kind == APPEASE_OBJECT_UNIX ? side_of_unix(sk) : SIDE_SERVER, try_place(NULL, sk));
	}
}

#endif
