//! What is known of a process: whom it serves, for whom it speaks, the turns that it is lent, and who pays for its
//! turns (`bpf/attention.bpf.h`, `bpf/stamps.bpf.h`, and `bpf/standing.bpf.h`).

use appease_policy::{loan_debt, loan_granted};

use super::{
    Appease, Lane, SLICE_NS, Standing,
    requests::{ATTENTION_NS, Asker, RETENTION_NS, loan_key},
};
use crate::{MS, Machine, Message, MessageKind, NONE, Socket, TaskId, schedulers::Waker};

// Settings of the programs, which stand beside their maps and not in the headers.
pub(super) const LOAN_NS: u64 = MS;
const LOAN_DEBT_LIMIT_NS: u64 = 5 * MS;
const MAX_HOPS: usize = 8;
/// So many requests it takes until a task is no longer taken for what it was seen to be.
const HABIT_TURNS: u32 = 16;

/// That a process serves a request, or what a message says of it.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Attention {
    /// 0: none.
    pub(super) id: u64,
    pub(super) until_ns: u64,
    pub(super) slot: u32,
    nr_hops: u32,
    /// Last, since whom nobody waits for has none.
    path: [TaskId; MAX_HOPS],
}

impl Attention {
    pub(super) const NOBODY: Self = Self { id: 0, slot: 0, until_ns: 0, nr_hops: 0, path: [NONE; MAX_HOPS] };

    /// As of who reads it from the customer.
    pub(super) fn new(id: u64, slot: u32, until_ns: u64) -> Self {
        Self { id, slot, until_ns, ..Self::NOBODY }
    }

    /// Whether it has been with `task` on its way from the customer.
    fn has_passed(&self, task: TaskId) -> bool {
        self.path[..self.nr_hops.saturating_sub(1) as usize].contains(&task)
    }
}

/// A process, which here is a task. What each turn needs is in the first 64 bytes, a line of the processor's caches: of a million,
/// none is in them when its turn comes.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Process {
    /// Since when it waits; 0: it was charged since.
    pub(super) queued_ns: u64,
    /// Its next turn, as of when it was queued.
    pub(super) slice_ns: u64,
    loan_until_ns: u64,
    /// Slot of the customer who pays for its turns; 0: nobody has to share.
    pub(super) turn_for: u32,
    /// The domain in which it was queued last.
    pub(super) queued_in: u16,
    pub(super) lane: Lane,
    reads_channel: bool,
    attention: Attention,
    /// Request of the last message that it read; 0: one without.
    context_id: u64,
    context_opened_ns: u64,
    loan_opened_ns: u64,
    loan_debt_ns: u64,
    loan_debt_at_ns: u64,
    loan_ran_ns: u64,
    /// Whose event woke it up last, by slot, and which request; 0: not known, and none.
    customer: u32,
    woken_for: u64,
    /// Which request it served when that was looked at last; 0: none.
    turn_request: u64,
    /// So many more requests that it reads must be of who woke it, until that is believed again.
    mistaken: u32,
    /// And so many one after the other, until it serves one at a time again.
    mixing: u32,
}

impl Process {
    pub(super) const NEW: Self = Self {
        attention: Attention::NOBODY,
        context_id: 0,
        context_opened_ns: 0,
        reads_channel: false,
        loan_until_ns: 0,
        loan_opened_ns: 0,
        loan_debt_ns: 0,
        loan_debt_at_ns: 0,
        loan_ran_ns: 0,
        customer: 0,
        woken_for: 0,
        turn_request: 0,
        turn_for: 0,
        mistaken: 0,
        mixing: 0,
        queued_ns: 0,
        slice_ns: SLICE_NS,
        queued_in: 0,
        lane: Lane::Other,
    };

    /// A turn, ranked as a request opened at `opened_ns`; who is in debt is refused.
    fn lend(&mut self, opened_ns: u64, now_ns: u64) {
        self.loan_debt_ns = loan_debt(self.loan_debt_ns, now_ns - self.loan_debt_at_ns);
        self.loan_debt_at_ns = now_ns;
        if loan_granted(self.loan_debt_ns, LOAN_DEBT_LIMIT_NS) {
            self.loan_until_ns = now_ns + 100 * LOAN_NS;
            self.loan_opened_ns = opened_ns;
            self.loan_ran_ns = 0;
        }
    }

    /// It has come to the request `id` of a customer. Was that of who woke it up? And had it read that one before
    /// others?
    fn note_habits(&mut self, id: u64, customer: u32, was_reader: bool) {
        if self.customer != 0 && self.customer != customer {
            self.mistaken = HABIT_TURNS;
        } else {
            self.mistaken = self.mistaken.saturating_sub(1);
        }
        if was_reader && id < self.turn_request {
            self.mixing = HABIT_TURNS;
        } else {
            self.mixing = self.mixing.saturating_sub(1);
        }
    }
}

/// Who asks for what a task serves; `None` if it serves nobody.
fn asker(machine: &Machine, task: TaskId) -> Option<Asker> {
    let (request, _) = machine.serves(task)?;
    let (ledger, message) = (machine.ledger(), machine.message_for(task)?);
    let line = ledger.customer_of(request);
    Some(Asker {
        line,
        weight: ledger.weight_of_customer(line).hundredths(),
        request_weight: ledger.weight_of(request).hundredths(),
        by_terminal: message.terminal,
    })
}

impl Appease {
    fn process(&mut self, task: TaskId) -> &mut Process {
        &mut self.processes[task as usize]
    }

    /// What a task is right now: whether attended, for which request, and its key.
    pub(super) fn judge(&self, task: TaskId, now_ns: u64) -> Standing {
        let process = &self.processes[task as usize];
        let request = self.requests.served(&process.attention, now_ns).map(|request| {
            let (key, id, slot) = (request.key(now_ns), request.id, process.attention.slot);
            Standing { attended: true, on_loan: false, key, id, slot }
        });
        let loan = (now_ns < process.loan_until_ns).then(|| {
            let key = loan_key(process.loan_opened_ns, now_ns, process.loan_ran_ns);
            Standing { attended: true, on_loan: true, key, id: 0, slot: 0 }
        });
        request.into_iter().chain(loan).min_by_key(|standing| standing.key).unwrap_or_default()
    }

    // Who pays

    /// Who pays for the turn of a task: the customer whose request it has read since the last look, for a busy server's
    /// process need not sleep between two requests; or who woke it up, if it wakes up. For a turn of who serves several
    /// at once nobody pays: it would make all of them wait for that one's turn. Nor until one has read of whom it
    /// cannot be told by who wakes it whom it will serve.
    pub(super) fn note_turn(&mut self, task: TaskId, standing: &Standing, wakes_up: bool) {
        let request = (standing.id != 0).then(|| self.requests.record(standing.slot));
        let process = &mut self.processes[task as usize];
        let (id, comes_to_it) = (standing.id, standing.id != process.turn_request);
        if let Some(request) = request.filter(|_| comes_to_it && !wakes_up) {
            process.note_habits(id, request.customer, request.reader == task);
        }
        if wakes_up && process.customer != 0 {
            let is_known = process.mistaken == 0 || (id != 0 && id == process.woken_for);
            process.turn_for = if is_known { self.requests.if_shares(process.customer) } else { 0 };
        } else if let Some(request) = request.filter(|_| wakes_up || comes_to_it) {
            process.turn_for = self.requests.if_shares(request.customer);
        } else if wakes_up {
            process.turn_for = 0;
        }
        if process.mixing > 0 {
            process.turn_for = 0;
        }
        process.turn_request = id;
    }

    /// Charges the request that a task serves, or the loan that it runs on, and who pays for the turn; `false` if it is
    /// not attended.
    pub(super) fn charge_attended(&mut self, domain: u32, task: TaskId, ran_ns: u64, now_ns: u64) -> bool {
        let standing = self.judge(task, now_ns);
        if !standing.attended {
            return false;
        }
        self.note_turn(task, &standing, false);
        let turn_for = self.process(task).turn_for;
        self.fair.charge(domain, turn_for, self.requests.weight_of(turn_for), ran_ns);
        if standing.on_loan {
            let process = self.process(task);
            process.loan_ran_ns += ran_ns;
            process.loan_debt_ns += ran_ns;
            if process.loan_ran_ns >= LOAN_NS {
                process.loan_until_ns = 0;
            }
        } else {
            self.requests.charge(standing.slot, ran_ns, now_ns);
        }
        true
    }

    // Wake-ups and loans

    /// A task wakes up: a request that it has answered is over, for what wakes it is something else. Before it may be
    /// lent a turn for that.
    pub(super) fn end_answered(&mut self, task: TaskId, now_ns: u64) {
        self.requests.end_at_wakeup(&self.processes[task as usize].attention, now_ns);
    }

    /// A wake-up may lend a turn, and says who is likely to pay for it.
    pub(super) fn consider_loan(&mut self, machine: &Machine, task: TaskId, waker: Waker, now_ns: u64) {
        self.process(task).customer = 0;
        self.process(task).woken_for = 0;
        // By when a loan is ranked, and the key of what is handed on.
        let handed = match waker {
            Waker::Task(writer) if self.spoken_for(writer, now_ns) => {
                let Process { attention, context_opened_ns, .. } = self.processes[writer as usize];
                let request = self.requests.record(attention.slot);
                let (customer, key) = (request.customer, request.key(now_ns));
                self.process(task).customer = customer;
                self.process(task).woken_for = attention.id;
                Some((context_opened_ns, key))
            }
            Waker::Customer => {
                // Of a new connection it is not known whose it is; who waits for those need not have read a channel
                // yet.
                let line = asker(machine, task).map_or(NONE, |asker| asker.line);
                let customer = self.requests.customer_at(line);
                let socket = machine.message_for(task).map(|message| message.socket);
                let is_new = customer == 0 && socket == Some(Socket::Network);
                self.process(task).customer = customer;
                (is_new || self.process(task).reads_channel).then_some((now_ns, now_ns))
            }
            _ => None,
        };
        let served = self.requests.served(&self.processes[task as usize].attention, now_ns);
        let served = served.map(|request| (request.id, request.key(now_ns)));
        let opened_ns = match (served, handed) {
            (None, None) => self.is_retained(task, now_ns).then_some(now_ns),
            (None, Some((opened_ns, _))) => Some(opened_ns),
            // It is about to come to what goes before that which it serves.
            (Some((id, own)), Some((_, key))) if id != self.processes[task as usize].woken_for && key < own => {
                Some(key)
            }
            _ => None,
        };
        if let Some(opened_ns) = opened_ns {
            self.process(task).lend(opened_ns, now_ns);
        }
    }

    /// Whether it served somebody until a short while ago, and has not spent its budget on it.
    fn is_retained(&self, task: TaskId, now_ns: u64) -> bool {
        let attention = &self.processes[task as usize].attention;
        let lately = (attention.until_ns..attention.until_ns + RETENTION_NS - ATTENTION_NS).contains(&now_ns);
        lately && self.requests.not_over(attention).is_some_and(|request| !request.is_spent())
    }

    /// A task was attended until now, or waited so for its turn. Where its request was answered meanwhile, or its loan
    /// had its time, it is lent a turn, once: to put away what it needed and to come back for the next request, which
    /// may be waiting. That is for whoever is next, so no customer pays.
    pub(super) fn borrows_turn(&mut self, task: TaskId, waited_ns: u64, now_ns: u64) -> bool {
        let Process { attention, turn_request, .. } = self.processes[task as usize];
        let is_done = attention.id != 0 && self.requests.not_over(&attention).is_none();
        if waited_ns < SLICE_NS && (turn_request == 0 || !is_done) {
            return false;
        }
        let process = self.process(task);
        process.lend(now_ns, now_ns);
        process.turn_request = 0;
        process.turn_for = 0;
        now_ns < process.loan_until_ns
    }

    // Messages

    /// Whether it speaks for a request: that of the last message that it read.
    fn spoken_for(&self, task: TaskId, now_ns: u64) -> bool {
        let Process { context_id, attention, .. } = &self.processes[task as usize];
        *context_id != 0 && *context_id == attention.id && self.requests.answerable(attention, now_ns).is_some()
    }

    /// A task reads a message of a customer, or of another process with what that says.
    pub(super) fn note_message(&mut self, machine: &Machine, task: TaskId, stamp: Attention, message: Message) {
        if message.kind == MessageKind::Request {
            self.open_request(machine, task);
        } else {
            self.note_read(task, stamp, message.terminal, machine.now_ns());
        }
    }

    /// Where there is no record for a request, the task speaks for nobody.
    fn open_request(&mut self, machine: &Machine, task: TaskId) {
        let now_ns = machine.now_ns();
        self.process(task).reads_channel = true;
        let Some(attention) = asker(machine, task).and_then(|asker| self.requests.open(asker, task, now_ns)) else {
            self.process(task).context_id = 0;
            return;
        };
        let process = self.process(task);
        process.attention = attention;
        process.context_id = attention.id;
        process.context_opened_ns = now_ns;
        process.loan_until_ns = 0;
        process.loan_debt_ns = 0;
    }

    fn note_read(&mut self, task: TaskId, stamp: Attention, by_terminal: bool, now_ns: u64) {
        if self.requests.answerable(&stamp, now_ns).is_none() {
            self.process(task).context_id = 0;
            return;
        }
        self.requests.note_read(stamp.slot, stamp.has_passed(task), by_terminal);
        let request = self.requests.record(stamp.slot);
        let (is_spent, opened_ns) = (request.is_spent(), request.opened_ns);
        let process = self.process(task);
        if is_spent {
            // Of its own request it may yet carry the answer on.
            if process.attention.id != stamp.id {
                process.context_id = 0;
            }
            return;
        }
        process.context_id = stamp.id;
        process.context_opened_ns = opened_ns;
        process.loan_until_ns = 0;
        process.loan_debt_ns = 0;
        if process.attention.id != stamp.id {
            process.attention = stamp;
        }
    }

    /// What a message says that a task writes.
    pub(super) fn stamp(&mut self, task: TaskId, by_terminal: bool, now_ns: u64) -> Attention {
        if !self.spoken_for(task, now_ns) {
            return Attention::NOBODY;
        }
        let mut stamp = self.processes[task as usize].attention;
        self.requests.tell(stamp.slot, by_terminal);
        if stamp.nr_hops as usize == MAX_HOPS {
            return Attention::NOBODY;
        }
        stamp.path[stamp.nr_hops as usize] = task;
        stamp.nr_hops += 1;
        stamp
    }

    /// A task writes back to the customer of what it serves.
    pub(super) fn respond(&mut self, machine: &Machine, task: TaskId) {
        let Some(asker) = asker(machine, task) else { return };
        let Process { context_id, attention, .. } = &self.processes[task as usize];
        let speaks = *context_id != 0 && *context_id == attention.id;
        self.requests.respond(speaks.then_some(attention), asker.line, machine.now_ns());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// With two customers, whose requests come by lines 0 and 1.
    fn with_two_customers() -> Appease {
        let mut appease = Appease::new(1, 2);
        for line in [0, 1] {
            appease.requests.open(asker(line), 1, 0).unwrap();
        }
        appease
    }

    fn asker(line: u32) -> Asker {
        Asker { line, weight: 100, request_weight: 100, by_terminal: false }
    }

    /// Task 0 reads a request by a line.
    fn reads(appease: &mut Appease, line: u32, now_ns: u64) -> Attention {
        let attention = appease.requests.open(asker(line), 0, now_ns).unwrap();
        let process = appease.process(0);
        process.attention = attention;
        process.context_id = attention.id;
        attention
    }

    /// Task 0 is looked at, and who pays for its turn.
    fn payer(appease: &mut Appease, wakes_up: bool, now_ns: u64) -> u32 {
        let standing = appease.judge(0, now_ns);
        appease.note_turn(0, &standing, wakes_up);
        appease.processes[0].turn_for
    }

    #[test]
    fn who_was_read_pays() {
        let mut appease = with_two_customers();
        reads(&mut appease, 0, MS);
        assert_eq!(payer(&mut appease, false, MS), 1);
        reads(&mut appease, 1, 2 * MS);
        assert_eq!(payer(&mut appease, false, 2 * MS), 2);
        assert_eq!(payer(&mut Appease::new(1, 1), true, 0), 0, "nobody is served");
    }

    /// Who wakes it pays before it has read, unless that told wrong before; then nobody does, until it was right often
    /// enough.
    #[test]
    fn who_wakes_it_pays_if_that_can_be_believed() {
        let mut appease = with_two_customers();
        appease.process(0).customer = 1;
        assert_eq!(payer(&mut appease, true, MS), 1);
        reads(&mut appease, 1, MS);
        assert_eq!(payer(&mut appease, false, MS), 2);
        let wakes = |appease: &mut Appease| {
            appease.process(0).attention = Attention::NOBODY;
            payer(appease, true, MS)
        };
        assert_eq!(wakes(&mut appease), 0);
        for _ in 0..HABIT_TURNS {
            assert_eq!(wakes(&mut appease), 0);
            reads(&mut appease, 0, MS);
            assert_eq!(payer(&mut appease, false, MS), 1);
        }
        assert_eq!(wakes(&mut appease), 1);
    }

    /// For who goes on with a request that it had read before another one, nobody pays.
    #[test]
    fn nobody_pays_for_who_serves_several_at_once() {
        let mut appease = with_two_customers();
        let first = reads(&mut appease, 0, MS);
        assert_eq!(payer(&mut appease, false, MS), 1);
        reads(&mut appease, 1, 2 * MS);
        assert_eq!(payer(&mut appease, false, 2 * MS), 2);
        appease.process(0).attention = first;
        assert_eq!(payer(&mut appease, false, 3 * MS), 0);
    }

    /// Once, and only who was answered for; or who waited for long.
    #[test]
    fn a_turn_is_lent_after_the_answer() {
        let mut appease = with_two_customers();
        let attention = reads(&mut appease, 0, MS);
        assert_eq!(payer(&mut appease, false, MS), 1);
        assert!(!appease.borrows_turn(0, 0, MS), "it is not answered yet");
        appease.requests.respond(Some(&attention), 0, 2 * MS);
        appease.end_answered(0, 2 * MS);
        assert!(appease.borrows_turn(0, 0, 2 * MS));
        assert!(appease.judge(0, 2 * MS).on_loan);
        assert_eq!(appease.processes[0].turn_for, 0);
        assert!(!appease.borrows_turn(0, 0, 2 * MS));
        assert!(appease.borrows_turn(0, SLICE_NS, 2 * MS));
    }
}
