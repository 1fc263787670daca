//! What `appease why` prints.

use appease_engine::control::{Chain, Confidence, Handling, LaneNs, Standing, Why};

use crate::{
    table::lines,
    units::{signed_time, time},
};

/// The chain, or why there is none; then what the process has got so far.
pub fn text(why: &Why) -> String {
    let mut text = format!("{} {} ({}): {}\n", why.pid, shown(&why.comm), why.lane, reason(why));
    if let Some(chain) = &why.chain {
        text += &customer(chain);
    }
    if let Some(ago) = why.channel_read_ago_ns {
        text += &format!("  read a channel itself {} ago\n", time(ago));
    }
    lines(&(text + &format!("  CPU time: {}\n", lanes(why.lane_ns))))
}

fn reason(why: &Why) -> String {
    match (why.lane.as_str(), why.standing, &why.chain) {
        ("realtime", ..) => "realtime and deadline processes run before all that appease schedules".into(),
        ("foreign", ..) => "it did not ask for SCHED_EXT, and appease runs with --partial".into(),
        ("kernel", ..) => {
            "kernel threads run before all others, but for those that the kernel itself put behind (nice above 0)"
                .into()
        }
        (_, Standing::Current, Some(chain)) => {
            format!("{}; {}; for another {}", origin(chain, why.pid), cost(chain), signed_time(chain.left_ns))
        }
        (lane, ..) if lane != "idle" && why.lift.is_some() => why.lift.as_ref().map_or_else(String::new, |lift| {
            format!("{} waits for a {} that it holds", process(&lift.comm, lift.pid), lift.lock)
        }),
        (_, Standing::None, _) if why.handler.is_some() => why.handler.as_ref().map_or_else(String::new, handling),
        (_, standing, chain) => {
            let loan = match why.loan_left_ns {
                0 => String::new(),
                left => format!("a turn is lent to it since a wake-up, {} left at most; ", time(left)),
            };
            let idle = if why.lane == "idle" { "it asked for SCHED_IDLE; " } else { "" };
            format!("{loan}{idle}{}", without(standing, chain.as_ref(), why.pid))
        }
    }
}

/// Policy rsio: what it handles, for whom, and who may do so for it.
fn handling(handler: &Handling) -> String {
    let mut parts = Vec::new();
    let list = |of: &[Confidence]| of.iter().map(|one| process(&one.comm, one.pid)).collect::<Vec<_>>().join(", ");
    if !handler.channels.is_empty() {
        let ids: Vec<String> = handler.channels.iter().map(u32::to_string).collect();
        parts.push(format!("handler of channel {}", ids.join(", ")));
    }
    if !handler.cohandler_of.is_empty() {
        parts.push(format!("cohandler of {}", list(&handler.cohandler_of)));
    }
    if parts.is_empty() {
        parts.push("no handler of any channel".into());
    }
    parts.push(match handler.left_ns {
        left if left > 0 => format!("for another {}", signed_time(left)),
        // Never, or so long ago that it does not matter when.
        _ => "nobody waits for it any more".into(),
    });
    if !handler.candidates.is_empty() {
        let shown = handler
            .candidates
            .iter()
            .map(|one| format!("{} (confidence {})", process(&one.comm, one.pid), one.confidence.unwrap_or_default()));
        parts.push(format!("communicates with {}", shown.collect::<Vec<_>>().join(", ")));
    }
    parts.join("; ")
}

/// Why nobody waits for it.
fn without(standing: Standing, chain: Option<&Chain>, pid: u32) -> String {
    match (standing, chain) {
        (Standing::Expired, Some(chain)) => format!(
            "nobody waits for it any more: attention ended {} ago; it was {}; {}",
            time(chain.left_ns.unsigned_abs()),
            origin(chain, pid),
            cost(chain)
        ),
        (Standing::Answered, Some(chain)) => {
            format!(
                "nobody waits for it any more: its request was answered; it was {}; {}",
                origin(chain, pid),
                cost(chain)
            )
        }
        (Standing::Spent, Some(chain)) => {
            format!("batch work: its request has used up its budget; it was {}; {}", origin(chain, pid), cost(chain))
        }
        _ => "nobody waits for it: no request has come to it from any channel".into(),
    }
}

/// From the channel to the process.
fn origin(chain: &Chain, pid: u32) -> String {
    let node = chain.node.strip_prefix("/dev/").unwrap_or(&chain.node);
    let node = node.rsplit('/').next().unwrap_or(node);
    let device = if chain.device.is_empty() { String::new() } else { format!(" \"{}\"", chain.device) };
    let reader = if chain.reader_pid == pid { "itself".into() } else { process(&chain.reader, chain.reader_pid) };
    let verb = if chain.channel == "audio" { "played" } else { "read" };
    let mut text = format!("{node}{device} {verb} by {reader} {} ago", time(chain.opened_ago_ns));
    for hop in &chain.hops {
        text += &format!(" → {} {} ago → {}", object(&hop.object), time(hop.ago_ns), process(&hop.comm, hop.pid));
    }
    text
}

/// Whose request it is, and what came back so far.
fn customer(chain: &Chain) -> String {
    let mut parts = Vec::new();
    if let Some(customer) = &chain.customer {
        let weight = if chain.weight == 1.0 { String::new() } else { format!(", weight {}", chain.weight) };
        parts.push(format!("customer: {}{weight}", shown(&customer.name)));
    }
    match (chain.first_response_after_ns, chain.last_response_after_ns) {
        (Some(first), Some(last)) if last > first => {
            parts.push(format!("answered after {}, last after {}", time(first), time(last)));
        }
        (Some(first), _) => parts.push(format!("answered after {}", time(first))),
        _ => {}
    }
    if parts.is_empty() { String::new() } else { format!("  {}\n", parts.join("; ")) }
}

fn cost(chain: &Chain) -> String {
    let unhappy = signed_time(chain.unhappy_ns);
    format!("unhappy {unhappy}; CPU spent {} of {}", time(chain.served_ns), time(chain.budget_ns))
}

fn process(comm: &str, pid: u32) -> String {
    format!("{}[{pid}]", shown(comm))
}

/// A process that is gone has no name any more. Names are what programs make them: control characters
/// must not reach the terminal.
fn shown(comm: &str) -> String {
    if comm.is_empty() { "gone".into() } else { comm.chars().map(|c| if c.is_control() { '?' } else { c }).collect() }
}

fn object(object: &str) -> &str {
    match object {
        "unix" => "unix socket",
        "inet" => "inet socket",
        other => other,
    }
}

fn lanes(lane_ns: LaneNs) -> String {
    let parts: Vec<String> =
        lane_ns.by_name().iter().filter(|(_, ns)| *ns > 0).map(|(name, ns)| format!("{name} {}", time(*ns))).collect();
    if parts.is_empty() { "none since appease started".into() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use appease_engine::control::{CustomerName, HopStep, Lifted};

    use super::*;

    fn hop(object: &str, ago_ns: u64, pid: u32, comm: &str) -> HopStep {
        HopStep { object: object.into(), pid, comm: comm.into(), ago_ns }
    }

    fn chain() -> Chain {
        Chain {
            request: 7,
            channel: "evdev".into(),
            node: "/dev/input/event5".into(),
            device: "AT Translated Set 2 keyboard".into(),
            reader_pid: 345,
            reader: "Xorg".into(),
            opened_ago_ns: 4_100_000,
            served_ns: 1_700_000,
            budget_ns: 2_000_000_000,
            unhappy_ns: 2_400_000,
            left_ns: 3_995_900_000,
            customer: None,
            weight: 1.0,
            first_response_after_ns: None,
            last_response_after_ns: None,
            hops: vec![
                hop("unix", 4_000_000, 456, "xterm"),
                hop("pty", 3_200_000, 500, ""),
                hop("fork", 900_000, 812, "mawk"),
            ],
        }
    }

    fn why(lane: &str, standing: Standing, chain: Option<Chain>) -> Why {
        Why {
            pid: 812,
            comm: "mawk".into(),
            lane: lane.into(),
            standing,
            chain,
            loan_left_ns: 0,
            channel_read_ago_ns: None,
            lift: None,
            handler: None,
            lane_ns: LaneNs { kernel: 0, attended: 160_000_000, other: 30_000, idle: 0 },
        }
    }

    #[test]
    fn attended_by_a_chain() {
        insta::assert_snapshot!(text(&why("attended", Standing::Current, Some(chain()))), @r#"
        812 mawk (attended): event5 "AT Translated Set 2 keyboard" read by Xorg[345] 4.1 ms ago → unix socket 4 ms ago → xterm[456] → pty 3.2 ms ago → gone[500] → fork 900 µs ago → mawk[812]; unhappy 2.4 ms; CPU spent 1.7 ms of 2 s; for another 3.9 s
          CPU time: attended 160 ms, other 30 µs
        "#);
    }

    #[test]
    fn whose_request_it_is_and_what_came_back() {
        let name =
            |name: &str| Some(CustomerName { kind: "seat".into(), name: name.into(), uid: None, cgroup_id: None });
        let told = [
            Chain { customer: name("seat0 (alice)"), ..chain() },
            Chain { customer: name("192.0.2.4"), weight: 2.5, first_response_after_ns: Some(3_000_000), ..chain() },
            Chain {
                customer: None,
                weight: 2.5,
                first_response_after_ns: Some(3_000_000),
                last_response_after_ns: Some(9_000_000),
                ..chain()
            },
            chain(),
        ]
        .map(|chain| customer(&chain));
        insta::assert_snapshot!(told.concat(), @r"
          customer: seat0 (alice)
          customer: 192.0.2.4, weight 2.5; answered after 3 ms
          answered after 3 ms, last after 9 ms
        ");
    }

    #[test]
    fn a_reader_itself() {
        let chain = Chain { reader_pid: 812, hops: vec![], device: String::new(), node: "/dev/tty1".into(), ..chain() };
        let why = Why { channel_read_ago_ns: Some(4_100_000), ..why("attended", Standing::Current, Some(chain)) };
        insta::assert_snapshot!(text(&why), @r"
        812 mawk (attended): tty1 read by itself 4.1 ms ago; unhappy 2.4 ms; CPU spent 1.7 ms of 2 s; for another 3.9 s
          read a channel itself 4.1 ms ago
          CPU time: attended 160 ms, other 30 µs
        ");
    }

    #[test]
    fn expired() {
        let chain = Chain { left_ns: -1_200_000_000, ..chain() };
        insta::assert_snapshot!(text(&why("other", Standing::Expired, Some(chain))), @r#"
        812 mawk (other): nobody waits for it any more: attention ended 1.2 s ago; it was event5 "AT Translated Set 2 keyboard" read by Xorg[345] 4.1 ms ago → unix socket 4 ms ago → xterm[456] → pty 3.2 ms ago → gone[500] → fork 900 µs ago → mawk[812]; unhappy 2.4 ms; CPU spent 1.7 ms of 2 s
          CPU time: attended 160 ms, other 30 µs
        "#);
    }

    #[test]
    fn budget_used_up() {
        let chain =
            Chain { served_ns: 2_100_000_000, opened_ago_ns: 3_000_000_000, unhappy_ns: 900_000_000, ..chain() };
        insta::assert_snapshot!(text(&why("other", Standing::Spent, Some(chain))), @r#"
        812 mawk (other): batch work: its request has used up its budget; it was event5 "AT Translated Set 2 keyboard" read by Xorg[345] 3 s ago → unix socket 4 ms ago → xterm[456] → pty 3.2 ms ago → gone[500] → fork 900 µs ago → mawk[812]; unhappy 900 ms; CPU spent 2.1 s of 2 s
          CPU time: attended 160 ms, other 30 µs
        "#);
    }

    #[test]
    fn no_chain() {
        let reasons: Vec<String> = [
            why("other", Standing::None, None),
            why("idle", Standing::None, None),
            why("kernel", Standing::None, None),
            why("realtime", Standing::None, None),
            why("foreign", Standing::None, None),
            Why { loan_left_ns: 800_000, ..why("attended", Standing::None, None) },
        ]
        .iter()
        .map(|why| format!("{}: {}", why.lane, reason(why)))
        .collect();
        insta::assert_snapshot!(reasons.join("\n"), @r"
        other: nobody waits for it: no request has come to it from any channel
        idle: it asked for SCHED_IDLE; nobody waits for it: no request has come to it from any channel
        kernel: kernel threads run before all others, but for those that the kernel itself put behind (nice above 0)
        realtime: realtime and deadline processes run before all that appease schedules
        foreign: it did not ask for SCHED_EXT, and appease runs with --partial
        attended: a turn is lent to it since a wake-up, 800 µs left at most; nobody waits for it: no request has come to it from any channel
        ");
    }

    #[test]
    fn names_cannot_play_with_the_terminal() {
        assert_eq!(process("\u{1b}[2J", 1), "?[2J[1]");
    }

    #[test]
    fn whoever_waits_for_a_lock_is_named() {
        let lift = Lifted { pid: 812, comm: "bash".into(), lock: "file lock".into() };
        let why = Why { lift: Some(lift), ..why("attended", Standing::None, None) };
        assert!(text(&why).contains("bash[812] waits for a file lock that it holds"), "{}", text(&why));
    }

    #[test]
    fn handlers_are_explained() {
        let one = |pid, comm: &str, confidence| Confidence { pid, comm: comm.into(), confidence };
        let handler = Handling {
            left_ns: 1_500_000_000,
            channels: vec![1],
            cohandler_of: vec![one(345, "Xorg", None)],
            candidates: vec![one(812, "bash", Some(3))],
        };
        let why = Why { handler: Some(handler), ..why("attended", Standing::None, None) };
        assert_eq!(
            text(&why).lines().next().unwrap_or_default(),
            "812 mawk (attended): handler of channel 1; cohandler of Xorg[345]; for another 1.5 s; communicates with bash[812] \
             (confidence 3)"
        );
    }
}
