/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Customers: what each has had of the CPU, and where its requests rank by that. Both objects need it; who a customer is says
 * accounts.bpf.h.
 */
#ifndef APPEASE_CUSTOMERS_BPF_H
#define APPEASE_CUSTOMERS_BPF_H

#include "attention.bpf.h"
#include "policy/budget.h"
#include "policy/fairness.h"
#include "policy/loan.h"
#include "policy/response.h"
#include "policy/share.h"

/* Set before load, in both objects alike: α of eq. 1, and how many CPUs the machine has that are on. */
const volatile u32 alpha_pm;
const volatile u32 cpus_on = 1;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, APPEASE_NR_CUSTOMERS);
	__type(key, u32);
	__type(value, struct appease_customer);
} customers SEC(".maps");

static __always_inline struct appease_customer *try_customer(u32 slot)
{
	return bpf_map_lookup_elem(&customers, &slot);
}

/* Loans */

/* A chain has so many hops, and at each of them one may be in debt. */
#define CUSTOMER_LOAN_LIMIT_NS (APPEASE_MAX_HOPS * loan_debt_limit_ns)

/* Whether @customer is in debt for more than its limit. */
static __always_inline bool may_borrow(struct appease_customer *customer, u64 now)
{
	customer->loan_debt_ns = loan_debt(customer->loan_debt_ns, now - customer->loan_debt_at_ns);
	customer->loan_debt_at_ns = now;
	return loan_granted(customer->loan_debt_ns, CUSTOMER_LOAN_LIMIT_NS);
}

/*
 * Lends a turn to @process, ranked as a request of @weight opened at @opened_ns, for the customer in @slot, if that is known. Refuses
 * who is in debt: the process, or all that was lent for that customer. Global, as the next two: the verifier looks through it once, not for each hook.
 */
__noinline int lend(struct appease_process *process __arg_nonnull, u32 slot, u64 opened_ns, u32 weight, u64 now)
{
	struct appease_customer *customer = slot ? try_customer(slot) : NULL;

	process->loan_debt_ns = loan_debt(process->loan_debt_ns, now - process->loan_debt_at_ns);
	process->loan_debt_at_ns = now;
	if (!loan_granted(process->loan_debt_ns, loan_debt_limit_ns) || (customer && !may_borrow(customer, now))) {
		count(APPEASE_CNT_LOAN_REFUSED);
		return 0;
	}
	/* The loan is a turn of CPU time; this only bounds how long it may wait for that turn. */
	process->loan_until_ns = now + 100 * loan_ns;
	process->loan_opened_ns = opened_ns;
	process->loan_weight = weight;
	process->loan_customer = slot;
	process->loan_ran_ns = 0;
	count(APPEASE_CNT_LENT);
	return 0;
}

/* @process ran for @ran on its loan. */
__noinline int charge_loan(struct appease_process *process __arg_nonnull, u64 ran)
{
	struct appease_customer *customer = process->loan_customer ? try_customer(process->loan_customer) : NULL;

	process->loan_ran_ns += ran;
	process->loan_debt_ns += ran;
	if (customer)
		__sync_fetch_and_add(&customer->loan_debt_ns, ran);
	if (process->loan_ran_ns >= loan_ns)
		process->loan_until_ns = 0;
	return 0;
}

/* A read has proved that the loan of @process was right: it costs nothing. */
__noinline int repay_loan(struct appease_process *process __arg_nonnull)
{
	struct appease_customer *customer;
	u64 debt = process->loan_debt_ns;

	process->loan_until_ns = 0;
	if (!debt)
		return 0;
	process->loan_debt_ns = 0;
	customer = process->loan_customer ? try_customer(process->loan_customer) : NULL;
	if (customer)
		customer->loan_debt_ns = customer->loan_debt_ns > debt ? customer->loan_debt_ns - debt : 0;
	return 0;
}

/* Charges the customer of @request, too. */
static __always_inline void charge_request(struct appease_request *request, u64 ran, u64 now)
{
	struct appease_customer *customer = try_customer(request->customer);

	__sync_fetch_and_add(&request->served_ns, ran);
	request->served_at_ns = now;
	if (customer)
		__sync_fetch_and_add(&customer->served_ns, ran);
}

/* CPU time that the next period of @customer may take (policy/budget.h), ns. */
static __always_inline u64 period_budget(struct appease_customer *customer, u64 quiet_ns, u64 now)
{
	customer->period_debt_ns = budget_period_debt(customer->period_debt_ns, now - customer->period_debt_at_ns);
	customer->period_debt_at_ns = now;
	return budget_period(customer->period_debt_ns, quiet_ns);
}

/* Whether @request is a period of a channel that its process writes to. Then @ran of a CPU is charged to all periods of its customer. */
static __always_inline bool charge_period(const struct appease_request *request, u64 ran)
{
	struct appease_customer *customer;

	if (!(request->flags & APPEASE_REQUEST_PERIOD))
		return false;
	customer = try_customer(request->customer);
	if (customer)
		__sync_fetch_and_add(&customer->period_debt_ns, ran / cpus_on);
	return true;
}

/* U of a request, as far as one of its processes waits at a time (policy/share.h), ns. */
static __always_inline s64 unhappiness_of(const struct appease_request *request, u64 now)
{
	return share_weighted(unhappiness_ns(request->sent_ns, request->served_ns, now), request->weight);
}

/* Who runs on a loan is about to read something: under policy cas, as unhappy as that. */
static __always_inline u64 loan_key(const struct appease_process *process, u64 now)
{
	if (policy == APPEASE_POLICY_CAS)
		return now - share_weighted(unhappiness_ns(process->loan_opened_ns, process->loan_ran_ns, now), process->loan_weight);
	return unhappiness_key(unhappiness_opened(process->loan_opened_ns, now, HORIZON_NS), process->loan_ran_ns, REQUEST_WEIGHT);
}

/* Weight by which what @request is served counts. */
static __always_inline u32 weight_of_request(const struct appease_request *request)
{
	return REQUEST_WEIGHT * request->weight / POLICY_WEIGHT_DEFAULT;
}

static __always_inline u64 request_key(const struct appease_request *request, u64 now)
{
	if (policy == APPEASE_POLICY_CAS)
		return now - unhappiness_of(request, now);
	return unhappiness_key(unhappiness_opened(request->opened_ns, now, HORIZON_NS), request->served_ns,
			       weight_of_request(request));
}

/* Policy cas: @process, which waited for another one, goes on. */
static __always_inline void share_goes_on(struct appease_request *request, struct appease_process *process, u64 now)
{
	if (process->share_of != request->id || process->share_since_ns)
		return;
	__sync_fetch_and_add(&request->waiting_ns, -process->share_ns);
	process->share_since_ns = now;
}

/* @process begins to have a share of the request @id, ns. */
static __always_inline void give_share(struct appease_process *process, u64 id, s64 share_ns, u64 now)
{
	process->share_of = id;
	process->share_ns = share_ns;
	process->share_since_ns = now;
}

/* @from asks @to for something, for @request: eq. 1. It waits for the answer until it is seen to go on. */
static __always_inline void split_share(struct appease_request *request, struct appease_process *from,
					struct appease_process *to, u64 now)
{
	s64 share, kept;

	if (from->share_of != request->id || to->share_of == request->id)
		return;
	share_goes_on(request, from, now);
	share = share_now(from->share_ns, from->share_since_ns, now);
	kept = share_kept(share, alpha_pm);
	__sync_fetch_and_add(&request->waiting_ns, kept);
	from->share_ns = kept;
	from->share_since_ns = 0;
	give_share(to, request->id, share - kept, now);
}

/* @from answers @to: eq. 2. */
static __always_inline void hand_back_share(struct appease_request *request, struct appease_process *from,
					    struct appease_process *to, u64 now)
{
	if (from->share_of != request->id || to->share_of != request->id)
		return;
	share_goes_on(request, from, now);
	share_goes_on(request, to, now);
	to->share_ns += share_now(from->share_ns, from->share_since_ns, now);
	from->share_of = 0;
}

static __always_inline enum response_among among(const struct appease_request *request)
{
	if (request->flags & APPEASE_REQUEST_GOES_ON)
		return RESPONSE_GOES_ON;
	return request->flags & APPEASE_REQUEST_SHARED ? RESPONSE_SHARED : RESPONSE_ALONE;
}

/* A process of @request wakes up: was it answered? Then nobody serves it any more. */
static __always_inline bool ends_at_wakeup(struct appease_request *request, u64 now)
{
	if (!response_ends(among(request), request->last_response_ns, request->served_at_ns, now))
		return false;
	/* Another CPU may be accounting for it: then it stays accounted for, or it would be so twice. */
	__sync_val_compare_and_swap(&request->is_over, APPEASE_OPEN, APPEASE_OVER);
	return true;
}

#endif
