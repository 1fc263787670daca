//! Requests and customers, as the programs know them (`bpf/requests.bpf.h`, `bpf/accounts.bpf.h`,
//! `bpf/customers.bpf.h`), and when a request is over (`bpf/policy/response.h`).

use appease_policy::{
    Among, FAIRNESS_ACTIVE_NS, POLICY_WEIGHT_DEFAULT, QUOTA_KEPT_FROM_ADDRESSES, budget_extended, budget_limited,
    quota_allows, request_weight, response_is_quiet, unhappiness_key, unhappiness_opened,
};

use super::process::Attention;
use crate::{MS, SECOND, TaskId};

// Settings of the programs, which stand beside their maps and not in the headers.
pub(super) const ATTENTION_NS: u64 = 4 * SECOND;
pub(super) const RETENTION_NS: u64 = 8 * SECOND;
const HORIZON_NS: u64 = 12 * MS;
const REQUEST_WEIGHT: u32 = 25;
const BUDGET_NS: u64 = 2 * SECOND;
const QUIET_NS: u64 = 300 * MS;
const NR_REQUESTS: usize = 4096;
const NR_CUSTOMERS: usize = 1024;
/// Records that are tried before there is none to be had.
const TRIES: usize = 16;

/// How far a request has come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    /// Nobody serves it any more.
    Over,
    /// And its customer has one less.
    Accounted,
}

/// A record of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    /// 0: none so far.
    pub(super) id: u64,
    pub(super) opened_ns: u64,
    served_ns: u64,
    /// When CPU time was spent on it last; 0: never.
    served_at_ns: u64,
    budget_ns: u64,
    /// The last write back to the customer; 0: none yet.
    last_response_ns: u64,
    /// Slot of its customer.
    pub(super) customer: u32,
    line: u32,
    /// Of customer and request together, in hundredths.
    weight: u32,
    /// Who read it first.
    pub(super) reader: TaskId,
    among: Among,
    end: End,
}

impl Request {
    pub(super) fn key(&self, now_ns: u64) -> u64 {
        key(self.opened_ns, now_ns, self.served_ns, REQUEST_WEIGHT * self.weight / POLICY_WEIGHT_DEFAULT)
    }

    pub(super) fn is_spent(&self) -> bool {
        self.served_ns >= self.budget_ns
    }

    /// Whether its time is over, or it was answered and nobody serves it any more.
    fn is_to_end(&self, now_ns: u64) -> bool {
        self.end == End::Over
            || now_ns >= self.opened_ns + ATTENTION_NS
            || (self.among == Among::Shared
                && self.last_response_ns != 0
                && response_is_quiet(self.last_response_ns, self.served_at_ns, now_ns))
    }
}

/// Key of a loan: as of a request of everybody's weight.
pub(super) fn loan_key(opened_ns: u64, now_ns: u64, ran_ns: u64) -> u64 {
    key(opened_ns, now_ns, ran_ns, REQUEST_WEIGHT)
}

fn key(opened_ns: u64, now_ns: u64, served_ns: u64, weight: u32) -> u64 {
    unhappiness_key(unhappiness_opened(opened_ns, now_ns, HORIZON_NS), served_ns, weight)
}

#[derive(Debug, Clone, Copy)]
struct Customer {
    latest_ns: u64,
    weight: u32,
    /// Requests that are not accounted for.
    open: u32,
    is_active: bool,
}

/// The latest request that came by a line; id 0: none.
#[derive(Debug, Clone, Copy, Default)]
struct Latest {
    id: u64,
    slot: u32,
    customer: u32,
}

/// Who asks for something: one of the simulation's customers, each with a line of its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker {
    /// Its index.
    pub(super) line: u32,
    /// W(c) and w, in hundredths.
    pub(super) weight: u32,
    pub(super) request_weight: u32,
    /// It sits at a terminal.
    pub(super) by_terminal: bool,
}

/// All requests and customers.
#[derive(Debug)]
pub(super) struct Requests {
    records: Vec<Request>,
    last_id: u64,
    next_slot: usize,
    customers: Vec<Customer>,
    latest_by: Vec<Latest>,
    /// Of all active customers together.
    active_weight: u64,
    /// Requests that are not accounted for.
    unaccounted: u32,
    /// Requests that found no record, and have no attention.
    denied: u64,
}

impl Requests {
    pub(super) fn new() -> Self {
        let unused = Request {
            id: 0,
            opened_ns: 0,
            served_ns: 0,
            served_at_ns: 0,
            budget_ns: 0,
            last_response_ns: 0,
            customer: 0,
            line: 0,
            weight: POLICY_WEIGHT_DEFAULT,
            reader: 0,
            among: Among::Alone,
            end: End::Accounted,
        };
        let nobody = Customer { latest_ns: 0, weight: POLICY_WEIGHT_DEFAULT, open: 0, is_active: false };
        Self {
            records: vec![unused; NR_REQUESTS],
            last_id: 0,
            next_slot: 0,
            customers: vec![nobody; NR_CUSTOMERS],
            latest_by: Vec::new(),
            active_weight: 0,
            unaccounted: 0,
            denied: 0,
        }
    }

    // Looking

    /// Whatever is in a slot.
    pub(super) fn record(&self, slot: u32) -> &Request {
        &self.records[slot as usize]
    }

    /// The request that an attention is for, unless it is over or its slot is used anew.
    pub(super) fn not_over(&self, attention: &Attention) -> Option<&Request> {
        let request = &self.records[attention.slot as usize];
        (attention.id != 0 && request.id == attention.id && request.end == End::Open).then_some(request)
    }

    /// The same, unless the attention has expired.
    pub(super) fn unexpired(&self, attention: &Attention, now_ns: u64) -> Option<&Request> {
        self.not_over(attention).filter(|_| now_ns < attention.until_ns)
    }

    /// The same, unless its budget is spent, too.
    pub(super) fn served(&self, attention: &Attention, now_ns: u64) -> Option<&Request> {
        self.unexpired(attention, now_ns).filter(|request| !request.is_spent())
    }

    /// The request, if an answer could still extend its budget; it may be spent at the moment.
    pub(super) fn answerable(&self, attention: &Attention, now_ns: u64) -> Option<&Request> {
        self.unexpired(attention, now_ns).filter(|request| request.served_ns < BUDGET_NS)
    }

    /// The slot of a customer if it has to share with others, else 0.
    pub(super) fn if_shares(&self, slot: u32) -> u32 {
        if self.active_weight > self.weight_of(slot).into() { slot } else { 0 }
    }

    /// A customer's weight, in hundredths; of nobody in particular, everybody's.
    pub(super) fn weight_of(&self, slot: u32) -> u32 {
        if slot == 0 { POLICY_WEIGHT_DEFAULT } else { self.customers[slot as usize].weight }
    }

    /// The slot of the customer whose requests come by a line, as far as that is known yet; 0: not.
    pub(super) fn customer_at(&self, line: u32) -> u32 {
        self.latest_by.get(line as usize).map_or(0, |latest| latest.customer)
    }

    // Opening

    /// A request was read: the attention of who read it; `None` if there is no record for it. The newest go without,
    /// not those that are served.
    pub(super) fn open(&mut self, asker: Asker, reader: TaskId, now_ns: u64) -> Option<Attention> {
        let customer = self.customer_behind(asker, now_ns);
        let kept = if asker.by_terminal { 0 } else { QUOTA_KEPT_FROM_ADDRESSES };
        let may_have_more =
            quota_allows(self.customers[customer as usize].open, self.unaccounted, NR_REQUESTS as u32, kept);
        let Some(slot) = may_have_more.then(|| self.free_record(now_ns)).flatten() else {
            self.denied += 1;
            return None;
        };
        self.unaccounted += 1;
        self.customers[customer as usize].open += 1;
        self.last_id += 1;
        let id = self.last_id;
        self.records[slot as usize] = Request {
            id,
            opened_ns: now_ns,
            served_ns: 0,
            served_at_ns: 0,
            budget_ns: BUDGET_NS,
            last_response_ns: 0,
            customer,
            line: asker.line,
            weight: request_weight(self.customers[customer as usize].weight, asker.request_weight),
            reader,
            among: if asker.by_terminal { Among::GoesOn } else { Among::Alone },
            end: End::Open,
        };
        // What comes by a terminal may go on after the next request.
        if !asker.by_terminal {
            self.note_latest(asker.line, Latest { id, slot, customer });
        }
        Some(Attention::new(id, slot, now_ns + ATTENTION_NS))
    }

    /// The slot of a customer, who is active from now on; 0: all are taken.
    fn customer_behind(&mut self, asker: Asker, now_ns: u64) -> u32 {
        let slot = if (asker.line as usize) < NR_CUSTOMERS - 1 { asker.line + 1 } else { 0 };
        let customer = &mut self.customers[slot as usize];
        customer.latest_ns = now_ns;
        if !customer.is_active {
            customer.is_active = true;
            customer.weight = if slot == 0 { POLICY_WEIGHT_DEFAULT } else { asker.weight };
            self.active_weight += u64::from(customer.weight);
        }
        slot
    }

    /// A free record: never used, over, or of one whose time is over.
    fn free_record(&mut self, now_ns: u64) -> Option<u32> {
        for _ in 0..TRIES {
            let slot = self.next_slot;
            self.next_slot = (slot + 1) % NR_REQUESTS;
            if self.records[slot].end != End::Accounted {
                if !self.records[slot].is_to_end(now_ns) {
                    continue;
                }
                self.end(slot);
            }
            return Some(slot as u32);
        }
        None
    }

    /// What came by the line before has its answer, or another reader.
    fn note_latest(&mut self, line: u32, latest: Latest) {
        if self.latest_by.len() <= line as usize {
            self.latest_by.resize(line as usize + 1, Latest::default());
        }
        let former = std::mem::replace(&mut self.latest_by[line as usize], latest);
        let request = &self.records[former.slot as usize];
        if former.id != 0 && request.id == former.id && request.last_response_ns != 0 && request.among != Among::GoesOn
        {
            self.end(former.slot as usize);
        }
    }

    // Serving

    /// CPU time was spent on a request.
    pub(super) fn charge(&mut self, slot: u32, ran_ns: u64, now_ns: u64) {
        let request = &mut self.records[slot as usize];
        request.served_ns += ran_ns;
        request.served_at_ns = now_ns;
    }

    /// One of its processes told another one of a request.
    pub(super) fn tell(&mut self, slot: u32, by_terminal: bool) {
        let among = &mut self.records[slot as usize].among;
        if by_terminal {
            *among = Among::GoesOn;
        } else if *among == Among::Alone {
            *among = Among::Shared;
        }
    }

    /// A message of a request was read, as an answer or else by a terminal, perhaps: what that means for its budget.
    pub(super) fn note_read(&mut self, slot: u32, is_answer: bool, by_terminal: bool) {
        let request = &mut self.records[slot as usize];
        if is_answer {
            request.budget_ns = budget_extended(request.budget_ns, request.served_ns, QUIET_NS, BUDGET_NS);
        } else if by_terminal {
            request.budget_ns = budget_limited(request.budget_ns, request.served_ns, QUIET_NS);
        }
    }

    // Ends

    /// A process writes back by a line. That answers the request for which it speaks, if that came by the line; else
    /// the latest that did: one that was taken for answered too early is open again.
    pub(super) fn respond(&mut self, context: Option<&Attention>, line: u32, now_ns: u64) {
        let own = context.filter(|attention| self.not_over(attention).is_some_and(|request| request.line == line));
        if let Some(attention) = own {
            self.records[attention.slot as usize].last_response_ns = now_ns;
            return;
        }
        let latest = self.latest_by.get(line as usize).copied().unwrap_or_default();
        let request = &mut self.records[latest.slot as usize];
        if latest.id == 0 || request.id != latest.id || request.end == End::Accounted {
            return;
        }
        request.end = End::Open;
        if request.among != Among::GoesOn {
            request.last_response_ns = now_ns;
        }
    }

    /// A process wakes up that serves a request: if that was answered, nobody serves it any more.
    pub(super) fn end_at_wakeup(&mut self, attention: &Attention, now_ns: u64) {
        if self.unexpired(attention, now_ns).is_none() {
            return;
        }
        let request = &mut self.records[attention.slot as usize];
        if request.among.ends(request.last_response_ns, request.served_at_ns, now_ns) {
            request.end = End::Over;
        }
    }

    /// Once a second: ends what is over, and finds who is no longer among the active customers.
    pub(super) fn sweep(&mut self, now_ns: u64) {
        for slot in 0..NR_REQUESTS {
            if self.unaccounted > 0 && self.records[slot].end != End::Accounted && self.records[slot].is_to_end(now_ns)
            {
                self.end(slot);
            }
        }
        for customer in &mut self.customers {
            if customer.is_active && now_ns - customer.latest_ns >= FAIRNESS_ACTIVE_NS {
                customer.is_active = false;
                self.active_weight -= u64::from(customer.weight);
            }
        }
    }

    fn end(&mut self, slot: usize) {
        let request = &mut self.records[slot];
        if std::mem::replace(&mut request.end, End::Accounted) != End::Accounted {
            self.unaccounted -= 1;
            self.customers[request.customer as usize].open -= 1;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn asker(line: u32) -> Asker {
        Asker { line, weight: 100, request_weight: 100, by_terminal: false }
    }

    /// More open requests than records: the newest go without, until the first ones' time is over.
    #[test]
    fn the_newest_go_without_a_record() {
        let mut requests = Requests::new();
        let most = NR_REQUESTS as u32 - NR_REQUESTS as u32 / QUOTA_KEPT_FROM_ADDRESSES;
        // Ten that want all have one part each of eleven.
        for nth in 0..most / 11 * 10 {
            assert!(requests.open(asker(nth % 10), 0, 1).is_some());
        }
        while requests.open(asker(3), 0, 1).is_some() {}
        let denied = requests.denied;
        assert!(requests.open(asker(3), 0, 2).is_none() && requests.denied == denied + 1);
        requests.sweep(1 + ATTENTION_NS);
        assert!(requests.open(asker(3), 0, 1 + ATTENTION_NS).is_some());
    }

    /// One customer has half of the records that addresses may have; the next one finds some, and so do keys.
    #[test]
    fn no_number_of_customers_has_all_records() {
        let mut requests = Requests::new();
        let opened = (0..NR_REQUESTS).filter(|_| requests.open(asker(0), 0, 1).is_some()).count() as u32;
        let most = NR_REQUESTS as u32 - NR_REQUESTS as u32 / QUOTA_KEPT_FROM_ADDRESSES;
        assert_eq!(opened, most / 2);
        for nth in 0..NR_REQUESTS as u32 * 2 {
            requests.open(asker(nth % 64), 0, 1);
        }
        assert!(requests.open(asker(64), 0, 1).is_some());
        let keys = (0..100).filter(|_| requests.open(Asker { by_terminal: true, ..asker(65) }, 0, 1).is_some()).count();
        assert_eq!(keys, 100);
    }

    /// Answered by one process alone, a request is over when that wakes up; the next write back opens it again, and the
    /// customer's next request ends it for good.
    #[test]
    fn answered_requests_are_over() {
        let mut requests = Requests::new();
        let first = requests.open(asker(0), 0, MS).unwrap();
        requests.end_at_wakeup(&first, 2 * MS);
        assert!(requests.not_over(&first).is_some(), "nothing was written back");
        requests.respond(Some(&first), 0, 3 * MS);
        assert!(requests.not_over(&first).is_some(), "more may follow");
        requests.end_at_wakeup(&first, 4 * MS);
        assert!(requests.not_over(&first).is_none());
        requests.respond(Some(&first), 0, 5 * MS);
        assert!(requests.not_over(&first).is_some());
        let second = requests.open(asker(0), 0, 6 * MS).unwrap();
        assert!(requests.not_over(&first).is_none() && requests.not_over(&second).is_some());
        requests.respond(None, 0, 7 * MS);
        assert_eq!((requests.record(second.slot).last_response_ns, requests.unaccounted), (7 * MS, 1));
    }

    /// With others behind it, only when nobody works on it any more; behind a terminal, with its time.
    #[test]
    fn others_may_still_work_on_what_was_answered() {
        let mut requests = Requests::new();
        for (line, by_terminal, quiet_end) in [(0, false, true), (1, true, false)] {
            let attention = requests.open(asker(line), 0, MS).unwrap();
            requests.tell(attention.slot, by_terminal);
            requests.respond(Some(&attention), line, 2 * MS);
            requests.charge(attention.slot, MS, 50 * MS);
            requests.end_at_wakeup(&attention, 140 * MS);
            assert!(requests.not_over(&attention).is_some(), "{line}");
            requests.end_at_wakeup(&attention, 160 * MS);
            assert_eq!(requests.not_over(&attention).is_none(), quiet_end, "{line}");
            requests.sweep(MS + ATTENTION_NS);
            assert!(requests.not_over(&attention).is_none(), "{line}");
        }
    }

    /// Nobody shares who is alone; and who did not ask for ten seconds is none of the others.
    #[test]
    fn customers_share_with_active_ones() {
        let mut requests = Requests::new();
        requests.open(asker(0), 0, 0);
        assert_eq!(requests.if_shares(1), 0);
        requests.open(asker(1), 0, SECOND);
        assert_eq!((requests.if_shares(1), requests.if_shares(2), requests.if_shares(0)), (1, 2, 0));
        requests.sweep(FAIRNESS_ACTIVE_NS);
        assert_eq!(requests.if_shares(2), 0);
    }
}
