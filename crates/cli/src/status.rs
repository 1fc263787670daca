//! What `appease status` prints.

use appease_engine::control::{Attended, Command, LaneNs, Missing, Status};

use crate::{
    latency,
    table::{lines, printable, section},
    units::{percent, signed_time, time},
};

/// Commands that are listed; all of them are in the JSON form.
const COMMANDS_SHOWN: usize = 12;

/// All of it, in tables.
pub fn text(status: &Status) -> String {
    let mut text = format!(
        "appease {} on Linux {}: policy {}, backend {}, process {}, running for {}{}\n",
        status.version,
        status.kernel,
        status.policy,
        status.backend,
        status.pid,
        time(status.uptime_ms.saturating_mul(1_000_000)),
        match status.restarts {
            0 => String::new(),
            1 => ", attached anew once".into(),
            n => format!(", attached anew {n} times"),
        },
    );
    if let Some(requests) = status.requests {
        text += &format!("open now: {}; unhappiness {}\n", latency::open(requests), time(requests.unhappiness_ns));
    }
    section(&mut text, "lanes", &lanes(status.lanes));
    section(&mut text, "attended now", &attended(&status.attended, status.attended_left_out));
    section(&mut text, "commands, by CPU time", &commands(&status.commands));
    let counters: Vec<Vec<String>> =
        status.counters.iter().map(|counter| vec![counter.name.clone(), format!(">{}", counter.value)]).collect();
    section(&mut text, "counters", &counters);
    section(&mut text, "not seen on this kernel", &missing(&status.missing));
    if status.restricted {
        text += "\nProcesses of others and counters are left out, and the lanes are of a minute ago: ask as root for all of them.\n";
    }
    lines(&text)
}

fn lanes(lanes: LaneNs) -> Vec<Vec<String>> {
    let row = |(name, ns): (&str, u64)| {
        vec![name.into(), format!(">{}", time(ns)), format!(">{}", percent(ns, lanes.total()))]
    };
    lanes.by_name().into_iter().map(row).collect()
}

fn attended(processes: &[Attended], left_out: u64) -> Vec<Vec<String>> {
    let row = |one: &Attended| {
        let mut row = vec![format!(">{}", one.pid), printable(&one.comm)];
        match &one.chain {
            Some(chain) => row.extend([
                chain.node.strip_prefix("/dev/").unwrap_or(&chain.node).into(),
                format!("{} ago", time(chain.opened_ago_ns)),
                match chain.hops.len() {
                    1 => "1 hop".into(),
                    n => format!("{n} hops"),
                },
                format!("unhappy {}", signed_time(chain.unhappy_ns)),
            ]),
            None => row.push(format!("on loan, {} left", time(one.loan_left_ns))),
        }
        row
    };
    let more = (left_out > 0).then(|| vec![format!("and {left_out} more")]);
    processes.iter().map(row).chain(more).collect()
}

fn commands(commands: &[Command]) -> Vec<Vec<String>> {
    if commands.is_empty() {
        return Vec::new();
    }
    let head = [""].into_iter().chain(LaneNs::default().by_name().map(|(name, _)| name));
    let mut rows = vec![head.map(|name| format!(">{name}")).collect()];
    for command in commands.iter().take(COMMANDS_SHOWN) {
        let mut row = vec![printable(&command.comm)];
        row.extend(
            command.lane_ns.by_name().map(|(_, ns)| if ns == 0 { ">-".into() } else { format!(">{}", time(ns)) }),
        );
        rows.push(row);
    }
    if let Some(more) = commands.len().checked_sub(COMMANDS_SHOWN).filter(|more| *more > 0) {
        rows.push(vec![format!("and {more} more")]);
    }
    rows
}

fn missing(missing: &[Missing]) -> Vec<Vec<String>> {
    let row = |one: &Missing| {
        let cause = match (&one.refused, &one.waits_for_module) {
            (Some(why), _) => format!("refused: {why}"),
            (None, Some(module)) => format!("until module {module} comes"),
            (None, None) => "not in this kernel".into(),
        };
        vec![one.hook.clone(), one.lost.clone(), cause]
    };
    missing.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use appease_engine::control::{Chain, Counter, HopStep, RequestTotals};

    use super::*;

    fn status() -> Status {
        let chain = Chain {
            request: 9,
            channel: "evdev".into(),
            node: "/dev/input/event5".into(),
            device: "keyboard".into(),
            reader_pid: 345,
            reader: "Xorg".into(),
            opened_ago_ns: 4_100_000,
            served_ns: 1_700_000,
            budget_ns: 2_000_000_000,
            unhappy_ns: 2_400_000,
            left_ns: 1,
            customer: None,
            weight: 1.0,
            first_response_after_ns: None,
            last_response_after_ns: None,
            hops: vec![HopStep { object: "unix".into(), pid: 456, comm: "xterm".into(), ago_ns: 1 }],
        };
        Status {
            version: "0.1.0".into(),
            kernel: "7.2.13+deb14-amd64".into(),
            backend: "scx".into(),
            policy: "appease".into(),
            pid: 212,
            uptime_ms: 185_000,
            restarts: 0,
            restricted: false,
            missing: vec![Missing {
                hook: "joydev_read".into(),
                lost: "joysticks as channels".into(),
                waits_for_module: Some("joydev".into()),
                refused: None,
            }],
            lanes: LaneNs { kernel: 12_300_000, attended: 1_230_000_000, other: 9_000_000_000, idle: 0 },
            counters: vec![
                Counter { name: "requests opened".into(), value: 61 },
                Counter { name: "loans".into(), value: 1_234 },
            ],
            attended: vec![
                Attended { pid: 456, comm: "xterm".into(), chain: Some(chain), loan_left_ns: 0 },
                Attended { pid: 1345, comm: "Xorg".into(), chain: None, loan_left_ns: 800_000 },
            ],
            commands: vec![
                Command { comm: "stress-ng-cpu".into(), lane_ns: [0, 0, 9_000_000_000, 0].into() },
                Command { comm: "xterm".into(), lane_ns: [0, 1_200_000_000, 3_000, 0].into() },
            ],
            attended_left_out: 0,
            requests: Some(RequestTotals { open: 3, customers: 2, unhappiness_ns: 34_000_000 }),
        }
    }

    #[test]
    fn tables_are_aligned() {
        insta::assert_snapshot!(text(&status()), @r"
        appease 0.1.0 on Linux 7.2.13+deb14-amd64: policy appease, backend scx, process 212, running for 3 min 5 s
        open now: 3 requests of 2 customers; unhappiness 34 ms

        lanes
          kernel    12.3 ms   0.1 %
          attended    1.2 s  12.0 %
          other         9 s  87.8 %
          idle         0 ns   0.0 %

        attended now
           456  xterm  input/event5          4.1 ms ago  1 hop  unhappy 2.4 ms
          1345  Xorg   on loan, 800 µs left

        commands, by CPU time
                         kernel  attended  other  idle
          stress-ng-cpu       -         -    9 s     -
          xterm               -     1.2 s   3 µs     -

        counters
          requests opened    61
          loans            1234

        not seen on this kernel
          joydev_read  joysticks as channels  until module joydev comes
        ");
    }

    #[test]
    fn the_rest_is_counted_and_restriction_told() {
        let command = status().commands[0].clone();
        let status = Status {
            commands: vec![command; COMMANDS_SHOWN + 3],
            restricted: true,
            restarts: 2,
            attended_left_out: 9,
            ..status()
        };
        let text = text(&status);
        assert!(text.contains("\n  and 3 more\n"), "{text}");
        assert!(text.contains("\n  and 9 more\n"), "{text}");
        assert!(text.contains(", attached anew 2 times\n"), "{text}");
        assert!(text.ends_with("ask as root for all of them.\n"), "{text}");
    }

    #[test]
    fn json_has_what_other_programs_read() {
        let json = serde_json::to_value(status()).expect("JSON");
        assert_eq!(json["commands"][1]["comm"], "xterm");
        let lanes = &json["commands"][1]["lane_ns"];
        for (lane, ns) in [("kernel", 0), ("attended", 1_200_000_000), ("other", 3_000), ("idle", 0)] {
            assert_eq!(lanes[lane], ns, "{lane}");
        }
    }
}
