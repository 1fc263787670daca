/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a task is worth right now: whether somebody waits for it, for which request, and who pays for its turn; and the
 * turn that a wake-up lends.
 */
#ifndef APPEASE_STANDING_BPF_H
#define APPEASE_STANDING_BPF_H

#include "spread.bpf.h"

/* So many requests it takes until a task is no longer taken for what it was seen to be. */
#define HABIT_TURNS 16

/* What @p is right now: whether attended, for which request, and its key. */
struct standing {
	u64 key;
	u64 request_id;	/* 0: none */
	u32 slot;	/* of that request's record */
	u32 spent_for;	/* customer of a request beyond its budget, without an answer; 0: none */
	bool attended;
	bool on_loan;	/* attended by that alone */
	bool is_lifted;	/* attended for who waits for its lock: the request is not its own */
	bool is_new;	/* policy cas: by being a new process */
	bool helps;	/* another thread of its process read the request */
	bool is_free;	/* such a one that reads requests itself, and has answered its last one */
};

/* Where a task is judged. Each place has a record of its own, for one may be at work on it when another one begins. */
enum look_at {
	LOOK_QUEUED,	/* ops.enqueue(), at the task that it queues */
	LOOK_NEXT,	/* ops.dispatch(), at the task that had the CPU */
	LOOK_BESIDE,	/* either of them, or ops.cpu_release(), at one more that is charged */
	LOOK_ONCE,	/* anywhere, if no more of it is needed */
	NR_LOOKS_AT,
};

/*
 * By CPU. Not on the stack: Linux 7.2 goes through all that is behind a function anew for each call that hands it a pointer to the stack. Of
 * the time until the scheduler was in charge on four CPUs, that was 0.3 of 5 s. All of it happens with interrupts off.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NR_LOOKS_AT);
	__type(key, u32);
	__type(value, struct standing);
} standings SEC(".maps");

/* That of nobody yet. */
static __always_inline struct standing *new_standing(u32 look)
{
	struct standing *standing = bpf_map_lookup_elem(&standings, &look);

	if (standing)
		__builtin_memset(standing, 0, sizeof(*standing));
	return standing;
}

/* The request of @standing, or NULL: it has none, or that ended meanwhile. */
static __always_inline struct appease_request *request_in(const struct standing *standing)
{
	return standing->request_id ? try_request(standing->slot, standing->request_id) : NULL;
}

/* Policy rsio: so much sooner goes a handler for each step of its nice value. */
#define NICE_STEP_NS 5000000ULL

/*
 * Policy rsio: a handler or cohandler has the paper's bonus (section 5), which here is the lane; among those of one nice
 * value, first come first served.
 */
static __always_inline void judge_handler(struct task_struct *p, u64 mono, struct standing *standing)
{
	u32 tgid = p->tgid;
	struct appease_handler *handler = bpf_map_lookup_elem(&handlers, &tgid);
	struct appease_process *process;

	standing->attended = handler && is_handling(handler, mono);
	if (!standing->attended) {
		process = try_process(p);
		standing->attended = process && policy_before(mono, process->lift.until_ns);
	}
	if (standing->attended)
		standing->key = mono + (s64)(p->static_prio - DEFAULT_PRIO) * (s64)NICE_STEP_NS;
}

/* Policy cas: a new process has a start among the unhappy. */
static __always_inline void judge_newcomer(struct task_struct *p, u64 mono, struct standing *standing)
{
	struct task_ctx *tctx = policy == APPEASE_POLICY_CAS ? try_task_ctx(p) : NULL;

	if (!tctx || !tctx->start_ns)
		return;
	standing->attended = standing->is_new = true;
	standing->key = mono - share_of_newcomer(tctx->made_ns, SHARE_START_NS - tctx->start_ns, mono);
}

/*
 * A server's threads that did not read the request themselves come so much later than the one that did: they clean up behind it, most
 * of them, and it sleeps when it needs them.
 */
#define HELPER_NS HORIZON_NS

/* Customer of the request of @attention if that is beyond its budget or time, and open. 0: none. */
static __always_inline u32 spent_for(const struct appease_attention *attention)
{
	struct appease_request *request = attention->request_id ? try_request(attention->slot, attention->request_id) : NULL;

	return request ? request->customer : 0;
}

/*
 * Keeps the customer of a request beyond its budget in @tctx, until the task serves another one: a
 * build goes on when its request is long forgotten, or when somebody has waited for its lock.
 */
static __always_inline void note_spent(struct task_ctx *tctx, const struct standing *standing)
{
	if (standing->request_id) {
		if (!standing->is_lifted)
			tctx->spent_for = 0;
	} else if (standing->spent_for) {
		tctx->spent_for = standing->spent_for;
		tctx->followed_ns = 0;
		if (!spends)
			spends = true;
	}
}

/*
 * The request of @process, if it goes before @own of one of its threads, and may be that one's next: what came from a device, a
 * terminal or a file, which one thread may read and another one act upon. Of sockets each thread has its own.
 */
static __always_inline struct appease_request *try_earlier(const struct appease_process *process, const struct appease_request *own,
							   u64 mono)
{
	struct appease_request *request;

	if (policy != APPEASE_POLICY_APPEASE || process->attention.request_id == own->id)
		return NULL;
	request = try_lookup_request(&process->attention, mono);
	if (!request || request->channel > APPEASE_CHANNEL_FILE || !policy_before(request_key(request, mono), request_key(own, mono)))
		return NULL;
	return request;
}

/* The request that @p serves: what it read itself, else its process's. Sets @standing's request and key. */
static __always_inline void judge_request(struct task_struct *p, struct appease_process *process, u64 mono,
					  struct standing *standing)
{
	/*
	 * Pointers of a task are read once: up to 6.18 the verifier looks through all types of the kernel for each such
	 * read, which takes it 12 million instructions.
	 */
	bool threaded = has_threads(p);
	struct appease_thread *thread = threaded ? bpf_task_storage_get(&threads, p, 0, 0) : NULL;
	struct appease_request *request = thread ? try_lookup_request(&thread->attention, mono) : NULL, *earlier;

	standing->slot = thread ? thread->attention.slot : 0;
	if (request) {
		earlier = try_earlier(process, request, mono);
		if (earlier) {
			request = earlier;
			standing->slot = process->attention.slot;
		}
	} else {
		request = try_lookup_request(&process->attention, mono);
		standing->slot = process->attention.slot;
		if (!request) {
			request = try_lifted_for(process, mono);
			standing->is_lifted = request;
			standing->slot = process->lift.slot;
		}
		standing->helps = request && threaded && request->reader_tgid == p->tgid &&
				  request->channel == APPEASE_CHANNEL_INET;
		standing->is_free = standing->helps && thread;
	}
	standing->request_id = request ? request->id : 0;
	if (!request)
		standing->spent_for = spent_for(thread && thread->attention.request_id ? &thread->attention : &process->attention);
	if (request)
		standing->key = request_key(request, mono) + (standing->helps ? HELPER_NS : 0);
}

/* Whether @process, which serves a request, goes before that on a loan, see is_promoted(). */
static __always_inline bool goes_before_on_loan(const struct appease_process *process, const struct standing *standing, u64 mono)
{
	return has_loan(process, mono) && policy_before(loan_key(process, mono), standing->key);
}

/* Says in @standing what @p is worth at @mono. */
__noinline int judge(struct task_struct *p __arg_trusted, u64 mono, struct standing *standing __arg_nonnull)
{
	struct appease_process *process;

	standing->request_id = 0;
	standing->slot = 0;
	standing->spent_for = 0;
	standing->attended = false;
	standing->on_loan = false;
	standing->is_lifted = false;
	standing->is_new = false;
	standing->helps = false;
	standing->is_free = false;
	standing->key = 0;
	if (policy == APPEASE_POLICY_RSIO) {
		judge_handler(p, mono, standing);
		return 0;
	}
	process = try_process(p);
	if (!process) {
		judge_newcomer(p, mono, standing);
		return 0;
	}
	judge_request(p, process, mono, standing);
	if (standing->request_id && (policy != APPEASE_POLICY_APPEASE || !goes_before_on_loan(process, standing, mono))) {
		standing->attended = true;
	} else if (has_loan(process, mono)) {
		standing->request_id = 0;
		standing->helps = standing->is_free = standing->is_lifted = false;
		standing->attended = true;
		standing->on_loan = true;
		standing->key = loan_key(process, mono);
	} else {
		judge_newcomer(p, mono, standing);
	}
	return 0;
}

/* The request that @process served until a short while ago, if it has not spent its budget on it. */
static __always_inline struct appease_request *try_retained(const struct appease_process *process, u64 mono)
{
	const struct appease_attention *attention = &process->attention;
	struct appease_request *request;

	if (!attention->request_id || policy_before(mono, attention->until_ns) ||
	    !policy_before(mono, attention->until_ns + retention_ns - attention_ns))
		return NULL;
	request = try_request(attention->slot, attention->request_id);
	return request && !is_spent(request) ? request : NULL;
}

/*
 * @p has come to @request. Was it of who woke it up? And had it read that one before others? A proxy does, when the answer comes from
 * whom it asked: what it does next is for any of its customers.
 */
static __always_inline void note_habits(const struct task_struct *p, struct task_ctx *tctx, const struct appease_request *request)
{
	if (tctx->customer && tctx->customer != request->customer)
		tctx->mistaken = HABIT_TURNS;
	else if (tctx->mistaken)
		tctx->mistaken--;
	if (request->reader_tgid == p->tgid && request->id < tctx->turn_request)
		tctx->mixing = HABIT_TURNS;
	else if (tctx->mixing)
		tctx->mixing--;
}

/* What @p is worth at @mono, until somebody else asks here. */
static __always_inline struct standing *judged(struct task_struct *p, u64 mono)
{
	u32 look = LOOK_ONCE;
	struct standing *standing = bpf_map_lookup_elem(&standings, &look);

	if (standing)
		judge(p, mono, standing);
	return standing;
}

/* Whether somebody waits for @p. */
__noinline bool is_waited_for(struct task_struct *p __arg_trusted, u64 mono)
{
	struct standing *standing = judged(p, mono);

	return standing && standing->attended;
}

/*
 * Notes the payer of the turn of a task with @standing: the customer of the request that it has read since the last look, for a
 * busy server's process need not sleep between two requests; or the one that woke it up, if this @is_wakeup. For a turn of a
 * process that serves several at once nobody pays: it would make all of them wait for that one's turn.
 *
 * Of workers that wait for the next connection together, one woken by one customer's may come upon another's: those were woken before,
 * and wait for their turns behind that one. Until such a worker has read, which is soon, nobody pays for it. Nor for a thread of a pool
 * that another one of its process gives something to do: that one reads only next, and for whom.
 */
__noinline int note_turn(struct task_struct *p __arg_trusted, struct task_ctx *tctx __arg_nonnull,
			 const struct standing *standing __arg_nonnull, bool is_wakeup)
{
	const struct appease_request *request;
	u64 id;

	/* Nobody shares with another: on most machines, always. */
	if (armed.nr_active <= 1 || policy != APPEASE_POLICY_APPEASE) {
		tctx->turn_for = tctx->mistaken = tctx->mixing = 0;
		tctx->turn_request = standing->request_id;
		return 0;
	}
	request = request_in(standing);
	id = request ? request->id : 0;
	if (request && id != tctx->turn_request && !is_wakeup)
		note_habits(p, tctx, request);
	if (is_wakeup && tctx->customer)
		tctx->turn_for = tctx->mistaken && (!id || id != tctx->woken_for) ? 0 : if_shares(tctx->customer);
	else if (request && (is_wakeup || id != tctx->turn_request))
		tctx->turn_for = if_shares(request->customer);
	else if (is_wakeup)
		tctx->turn_for = 0;
	if (tctx->mixing || (is_wakeup && standing->is_free))
		tctx->turn_for = 0;
	tctx->turn_request = id;
	return 0;
}

/*
 * @p, of @process, wakes up: a request that it has answered is over, for what wakes it is something else. Of several threads, the
 * one that read it: what the others do after the answer, a database's writing for one, is often in the way of the next request,
 * which cannot fetch them from the other lane's queue.
 */
static __always_inline bool end_answered(struct task_struct *p, const struct appease_process *process, u64 mono)
{
	struct appease_request *request = NULL;
	struct appease_thread *thread;

	if (has_threads(p)) {
		thread = bpf_task_storage_get(&threads, p, 0, 0);
		if (thread)
			request = try_unexpired(&thread->attention, mono);
	} else if (process) {
		request = try_unexpired(&process->attention, mono);
	}
	return request && ends_at_wakeup(request, mono);
}

/*
 * Whether @process, which serves a request, is about to come to one that goes before that: by what the current task, or the device,
 * hands on. A display server that works for a player, which had much of the CPU, would come to a key when it is the player's turn.
 */
static __always_inline bool is_promoted(const struct handing *handing, const struct appease_request *request, u64 mono)
{
	return policy == APPEASE_POLICY_APPEASE && request->id != handing->request_id &&
	       policy_before(handing->key, request_key(request, mono));
}

/*
 * The current task wakes @p: does it hand something on to it? Gives a loan to known readers of channels that an input
 * event wakes, to processes that an attended write wakes, and to those that served a request a short while ago. True: it did.
 */
static __always_inline bool consider_loan(struct task_struct *leader, struct appease_process *process, struct task_ctx *tctx, u64 mono)
{
	struct handing *handing = try_handing_now(mono);
	struct appease_request *request;
	u32 weight = POLICY_WEIGHT_DEFAULT, customer = 0;
	u64 opened_ns = mono;
	bool is_given = false;

	if (handing) {
		tctx->customer = customer = handing->customer;
		tctx->woken_for = handing->request_id;
		if (!process && (handing->request_id || handing->is_new)) {
			process = bpf_task_storage_get(&processes, leader, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
			if (!process)
				count(APPEASE_CNT_STORAGE_FAILED);
		}
		if (handing->request_id) {
			opened_ns = handing->opened_ns;
			weight = handing->weight;
		}
		is_given = handing->request_id || handing->is_new || (process && process->channel_read_ns);
	}
	if (!process)
		return false;
	if (!is_given) {
		request = try_retained(process, mono);
		if (!request)
			return false;
		customer = request->customer;
	}
	request = process->attention.request_id ? try_lookup_request(&process->attention, mono) : NULL;
	if (request) {
		if (!is_given || !is_promoted(handing, request, mono))
			return false;
		opened_ns = handing->key;
	}
	lend(process, customer, opened_ns, weight, mono);
	return true;
}

/* @p wakes up: what it has answered is over, before it may be lent a turn. True: it is to be judged anew. */
__noinline bool wakes_up(struct task_struct *p __arg_trusted, struct task_ctx *tctx __arg_nonnull, u64 mono)
{
	struct appease_process *process;
	struct task_struct *leader;
	bool has_ended;

	tctx->customer = tctx->woken_for = 0;
	if (policy == APPEASE_POLICY_RSIO)
		return false;
	leader = p->group_leader;
	process = bpf_task_storage_get(&processes, leader, 0, 0);
	has_ended = end_answered(p, process, mono);
	return consider_loan(leader, process, tctx, mono) || has_ended;
}

#endif
