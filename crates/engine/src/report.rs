//! Turns the kernel's records into what the control socket tells.

use crate::{
    control::{Attended, Chain, Confidence, CustomerName, Handling, HopStep, LaneNs, Lifted, Standing, Why},
    latency,
    names::{Class, Device, Names},
    seams::{Attention, Channel, Customer, Handler, LaneTimes, Object, Process, Request},
};

// Scheduling policies by number (linux/sched.h).
const SCHED_FIFO: u32 = 1;
const SCHED_RR: u32 = 2;
const SCHED_IDLE: u32 = 5;
const SCHED_DEADLINE: u32 = 6;
const SCHED_EXT: u32 = 7;

/// So long after its last request a customer keeps its place in the kernel's table for certain.
const REMEMBERED_NS: u64 = 60_000_000_000;

/// Explains processes. Ages are relative to one instant.
#[derive(Clone, Copy)]
pub(crate) struct Reporter<'a> {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub now_ns: u64,
    /// Where names come from.
    pub names: &'a Names,
    /// Whether only processes that asked for it are scheduled.
    pub partial: bool,
    /// By slot.
    pub customers: &'a [Customer],
}

impl Reporter<'_> {
    /// What is known of the process `pid`; of `process`, the record of it, that may be nothing.
    pub(crate) fn why(&self, pid: u32, process: Option<&Process>, lane_ns: LaneTimes) -> Why {
        let comm = self.names.comm(pid);
        let attention = process.and_then(|process| process.attention.as_ref());
        let standing = self.standing(attention);
        let loan_left_ns = process.map_or(0, |process| process.loan_until_ns.saturating_sub(self.now_ns));
        let read_ns = process.map_or(0, |process| process.channel_read_ns);
        let lift = process.and_then(|process| process.lift).filter(|lift| self.now_ns < lift.until_ns);
        let handler = process.and_then(|process| process.handler.as_ref()).map(|handler| self.handling(handler));
        let is_wanted = standing == Standing::Current
            || loan_left_ns > 0
            || lift.is_some()
            || handler.as_ref().is_some_and(|handler| handler.left_ns > 0);
        Why {
            pid,
            lane: self.lane(pid, is_wanted).into(),
            standing,
            chain: attention.map(|attention| self.chain(attention, pid, &comm)),
            comm,
            loan_left_ns,
            channel_read_ago_ns: (read_ns > 0).then(|| self.ago(read_ns)),
            lift: lift.map(|lift| Lifted {
                pid: lift.waiter,
                comm: self.names.comm(lift.waiter),
                lock: lift.lock.to_string(),
            }),
            handler,
            lane_ns: LaneNs::from(lane_ns),
        }
    }

    /// Those of `processes` that somebody waits for: most unhappy first, those on loan last.
    pub(crate) fn attended(&self, processes: &[Process]) -> Vec<Attended> {
        let mut attended: Vec<Attended> = processes
            .iter()
            .map(|process| self.why(process.tgid, Some(process), LaneTimes::default()))
            .filter(|why| why.lane == "attended")
            .map(|why| {
                let chain = why.chain.filter(|_| why.standing == Standing::Current);
                Attended { pid: why.pid, comm: why.comm, chain, loan_left_ns: why.loan_left_ns }
            })
            .collect();
        attended.sort_by_key(|one| (std::cmp::Reverse(one.chain.as_ref().map(|chain| chain.unhappy_ns)), one.pid));
        attended
    }

    /// As the scheduler decides it.
    fn lane(&self, pid: u32, wanted: bool) -> &'static str {
        let class = self.names.class(pid).unwrap_or(Class { kernel_thread: false, policy: 0 });
        match class.policy {
            SCHED_FIFO | SCHED_RR | SCHED_DEADLINE => "realtime",
            policy if self.partial && policy != SCHED_EXT => "foreign",
            _ if class.kernel_thread => "kernel",
            _ if wanted => "attended",
            SCHED_IDLE => "idle",
            _ => "other",
        }
    }

    fn standing(&self, attention: Option<&Attention>) -> Standing {
        match attention {
            None => Standing::None,
            Some(attention) if attention.request.is_over && self.now_ns < attention.until_ns => Standing::Answered,
            Some(attention) if attention.is_live(self.now_ns) => Standing::Current,
            Some(attention) if attention.request.served_ns >= attention.request.budget_ns => Standing::Spent,
            Some(_) => Standing::Expired,
        }
    }

    fn chain(&self, attention: &Attention, pid: u32, comm: &str) -> Chain {
        let request = &attention.request;
        let device = self.end(request);
        let opened_ago_ns = self.ago(request.opened_ns);
        let name = |of: u32| if of == pid { comm.to_owned() } else { self.names.comm(of) };
        // A hop says who wrote; who picked it up wrote the next one, and in the end it is this process.
        let readers = attention.path.iter().skip(1).map(|hop| hop.tgid).chain([pid]);
        let hops = attention.path.iter().zip(readers).map(|(hop, reader)| HopStep {
            object: object_name(hop.object).into(),
            pid: reader,
            comm: name(reader),
            ago_ns: self.ago(hop.at_ns),
        });
        Chain {
            request: request.id,
            channel: channel_name(request.channel).into(),
            node: device.node,
            device: device.name,
            reader_pid: request.reader_tgid,
            reader: name(request.reader_tgid),
            opened_ago_ns,
            served_ns: request.served_ns,
            budget_ns: request.budget_ns,
            unhappy_ns: difference(opened_ago_ns, request.served_ns),
            left_ns: difference(attention.until_ns, self.now_ns),
            customer: self.customer(request),
            weight: latency::hundredths(request.weight),
            first_response_after_ns: request.first_response_ns.map(|at| at.saturating_sub(request.opened_ns)),
            last_response_after_ns: request.last_response_ns.map(|at| at.saturating_sub(request.opened_ns)),
            hops: hops.collect(),
        }
    }

    fn handling(&self, handler: &Handler) -> Handling {
        let of = |pid, confidence| Confidence { pid, comm: self.names.comm(pid), confidence };
        Handling {
            left_ns: difference(handler.primary_until_ns.max(handler.co_until_ns), self.now_ns),
            channels: handler.channels.clone(),
            cohandler_of: handler.primaries.iter().map(|&pid| of(pid, None)).collect(),
            candidates: handler.candidates.iter().map(|&(pid, confidence)| of(pid, Some(confidence))).collect(),
        }
    }

    /// Whose request it is. When that has long been over, its customer may have been forgotten for another one.
    fn customer(&self, request: &Request) -> Option<CustomerName> {
        let is_remembered = !request.is_over || self.ago(request.opened_ns) < REMEMBERED_NS;
        let at = self.customers.binary_search_by_key(&request.customer, |customer| customer.slot).ok()?;
        is_remembered.then(|| latency::name(self.customers[at].id, self.names))
    }

    /// What the reader read: a device, or whoever is at the other end.
    fn end(&self, request: &Request) -> Device {
        match (request.device, request.peer) {
            (Some((major, minor)), _) => self.names.device(major, minor),
            (None, Some(peer)) => Device { node: peer.to_string(), name: String::new() },
            (None, None) => Device { node: format!("channel {}", request.rule), name: String::new() },
        }
    }

    fn ago(&self, at_ns: u64) -> u64 {
        self.now_ns.saturating_sub(at_ns)
    }
}

fn difference(a: u64, b: u64) -> i64 {
    let wide = i128::from(a) - i128::from(b);
    i64::try_from(wide).unwrap_or(if wide < 0 { i64::MIN } else { i64::MAX })
}

/// Names for programs; people's are the command's matter.
pub(crate) fn channel_name(channel: Channel) -> &'static str {
    match channel {
        Channel::None => "none",
        Channel::Evdev => "evdev",
        Channel::Tty => "tty",
        Channel::Mouse => "mouse",
        Channel::Joystick => "joystick",
        Channel::Hidraw => "hidraw",
        Channel::Audio => "audio",
        Channel::File => "file",
        Channel::Inet => "inet",
        Channel::Unix => "unix",
    }
}

fn object_name(object: Object) -> &'static str {
    match object {
        Object::None => "none",
        Object::Unix => "unix",
        Object::Inet => "inet",
        Object::Pipe => "pipe",
        Object::Pty => "pty",
        Object::Eventfd => "eventfd",
        Object::Fork => "fork",
        Object::Shared => "shared",
        Object::Feed => "feed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        latency::tests::customer,
        names::tests::root,
        seams::{CustomerId, Hop},
    };

    const NOW: u64 = 100_000_000_000;

    fn attention(served_ns: u64, until_ns: u64) -> Attention {
        let hop = |tgid, object| Hop { at_ns: NOW - 3_000_000, tgid, object };
        Attention {
            request: Request {
                id: 7,
                opened_ns: NOW - 4_100_000,
                served_ns,
                budget_ns: 2_000_000_000,
                channel: Channel::Evdev,
                rule: 1,
                device: Some((13, 69)),
                reader_tgid: 345,
                peer: None,
                customer: 0,
                weight: 100,
                first_response_ns: None,
                last_response_ns: None,
                is_over: false,
            },
            since_ns: NOW - 3_000_000,
            until_ns,
            path: vec![hop(345, Object::Unix), hop(456, Object::Pty), hop(500, Object::Fork)],
        }
    }

    fn process(tgid: u32, attention: Option<Attention>, loan_until_ns: u64) -> Process {
        Process { tgid, attention, loan_until_ns, channel_read_ns: 0, lift: None, handler: None, raised_ns: [0; 2] }
    }

    fn stat(flags: u32, nice: i32, policy: u32) -> String {
        format!(
            "1 (x) S 1 1 1 0 -1 {flags} 0 0 0 0 0 0 0 0 20 {nice} 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 {policy} 0 0 0"
        )
    }

    #[test]
    fn a_chain_names_who_picked_it_up() {
        let root = root(&[("proc/345/comm", "Xorg\n"), ("proc/456/comm", "xterm\n"), ("proc/812/comm", "mawk\n")]);
        let names = Names::new(root.path());
        let reporter = Reporter { now_ns: NOW, names: &names, partial: false, customers: &[] };
        let why = reporter.why(812, Some(&process(812, Some(attention(1_700_000, NOW + 1)), 0)), [0; 4]);
        let chain = why.chain.expect("a chain");
        let hops: Vec<_> = chain.hops.iter().map(|hop| (hop.object.as_str(), hop.comm.as_str(), hop.pid)).collect();
        assert_eq!(hops, [("unix", "xterm", 456), ("pty", "", 500), ("fork", "mawk", 812)]);
        assert_eq!((chain.reader.as_str(), chain.unhappy_ns, chain.left_ns), ("Xorg", 2_400_000, 1));
        assert_eq!((why.lane.as_str(), why.standing), ("attended", Standing::Current));
    }

    #[test]
    fn a_request_has_its_customer_and_its_answers() {
        let names = Names::new(std::path::Path::new("/nowhere"));
        let customers = [customer(0, CustomerId::Others), customer(4, CustomerId::Seat(Some(1000)))];
        let reporter = Reporter { now_ns: NOW, names: &names, partial: false, customers: &customers };
        let of = |change: fn(&mut Request)| {
            let mut attention = attention(0, NOW + 1);
            change(&mut attention.request);
            let chain = reporter.why(1, Some(&process(1, Some(attention), 0)), [0; 4]).chain.expect("a chain");
            let after = (chain.first_response_after_ns, chain.last_response_after_ns);
            (chain.customer.map(|customer| customer.name), chain.weight, after)
        };
        let answered = of(|request| {
            (request.customer, request.weight) = (4, 250);
            request.first_response_ns = Some(request.opened_ns + 5);
            request.last_response_ns = Some(request.opened_ns - 5);
        });
        assert_eq!(answered, (Some("seat0 (user 1000)".into()), 2.5, (Some(5), Some(0))));
        assert_eq!(of(|_| {}), (Some("everybody else".into()), 1.0, (None, None)));
        assert_eq!(of(|request| request.customer = 9).0, None);
        assert_eq!(of(|request| request.is_over = true).0, Some("everybody else".into()));
        assert_eq!(of(|request| (request.is_over, request.opened_ns) = (true, 0)).0, None, "long ago");
        assert!(of(|request| request.opened_ns = 0).0.is_some());
    }

    #[test]
    fn attention_ends_by_time_and_by_budget() {
        let names = Names::new(std::path::Path::new("/nowhere"));
        let reporter = Reporter { now_ns: NOW, names: &names, partial: false, customers: &[] };
        let of = |attention| {
            let why = reporter.why(1, Some(&process(1, Some(attention), 0)), [0; 4]);
            (why.standing, why.lane)
        };
        assert_eq!(of(attention(0, NOW)), (Standing::Expired, "other".into()));
        assert_eq!(of(attention(2_000_000_000, NOW + 1)), (Standing::Spent, "other".into()));
    }

    #[test]
    fn lanes_follow_the_scheduling_class() {
        let cases = [
            ("1", stat(0, 0, 0), "other"),
            ("2", stat(0, 0, 5), "idle"),
            ("3", stat(0, 0, 1), "realtime"),
            ("4", stat(0x0020_0000, 0, 0), "kernel"),
            ("5", stat(0x0020_0000, 19, 0), "kernel"),
        ];
        for (pid, stat, expected) in cases {
            let root = root(&[(&format!("proc/{pid}/stat"), &stat)]);
            let names = Names::new(root.path());
            let pid = pid.parse().expect("a number");
            let lane = |partial, record: Option<&Process>| {
                Reporter { now_ns: NOW, names: &names, partial, customers: &[] }.why(pid, record, [0; 4]).lane
            };
            assert_eq!(lane(false, None), expected, "{pid}");
            let lent = process(pid, None, NOW + 1);
            let with_loan = if matches!(expected, "other" | "idle") { "attended" } else { expected };
            assert_eq!(lane(false, Some(&lent)), with_loan, "{pid} on loan");
            assert_eq!(lane(true, None), if expected == "realtime" { expected } else { "foreign" }, "{pid} partial");
        }
    }

    #[test]
    fn the_most_unhappy_come_first_and_loans_last() {
        let names = Names::new(std::path::Path::new("/nowhere"));
        let reporter = Reporter { now_ns: NOW, names: &names, partial: false, customers: &[] };
        let processes = [
            process(1, None, NOW + 5),
            process(2, Some(attention(3_000_000, NOW + 1)), 0),
            process(3, Some(attention(1_000_000, NOW + 1)), 0),
            process(4, Some(attention(1_000_000, NOW - 1)), 0),
        ];
        let order: Vec<_> = reporter.attended(&processes).iter().map(|one| (one.pid, one.chain.is_some())).collect();
        assert_eq!(order, [(3, true), (2, true), (1, false)]);
    }
}
