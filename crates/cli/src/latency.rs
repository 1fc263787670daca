//! What `appease latency` prints.

use appease_engine::control::{Account, ChannelLatency, CustomerRow, LatencyReport, RequestTotals, Responses, Times};

use crate::{
    table::{lines, printable, section},
    units::time,
};

/// How whoever is not told apart is called.
const EVERYBODY: &str = "all together";

/// All of it, in tables: the most unhappy customers first.
pub fn text(report: &LatencyReport) -> String {
    let mut customers: Vec<&CustomerRow> = report.customers.iter().collect();
    customers.sort_by_key(|row| (std::cmp::Reverse((row.account.unhappiness_ns, row.account.opened)), row.id));
    let totals = RequestTotals {
        open: report.total.open,
        customers: report.customers.iter().filter(|row| row.account.open > 0).count() as u64,
        unhappiness_ns: report.total.unhappiness_ns,
    };
    let mut text = if report.restricted {
        format!("open now: {}\n", requests(totals.open)) + &unhappiness(totals.unhappiness_ns)
    } else {
        format!("open now: {}\n", open(totals)) + &unhappiness(totals.unhappiness_ns)
    };
    section(&mut text, "customers", &accounts(report, &customers));
    section(&mut text, "answers, by customer and channel", &answers(report, &customers));
    if report.restricted {
        text += "\nOther customers and the channels of all are left out: ask as root for them.\n";
    }
    lines(&text)
}

/// Requests that are open, in a few words.
pub fn open(totals: RequestTotals) -> String {
    match totals.customers {
        0 => requests(totals.open),
        1 => format!("{} of 1 customer", requests(totals.open)),
        n => format!("{} of {n} customers", requests(totals.open)),
    }
}

fn requests(open: u64) -> String {
    match open {
        1 => "1 request".into(),
        n => format!("{n} requests"),
    }
}

fn unhappiness(ns: u64) -> String {
    format!("unhappiness: {}\n", time(ns))
}

fn accounts(report: &LatencyReport, customers: &[&CustomerRow]) -> Vec<Vec<String>> {
    let head =
        ["", ">weight", ">open", ">unhappy", ">requests", ">answered", ">silent", ">timed out", ">denied", ">CPU time"];
    let row = |name: &str, weight: String, account: &Account| {
        let counts = [account.opened, account.answered, account.silent, account.timed_out, account.denied];
        let mut row =
            vec![printable(name), weight, format!(">{}", account.open), format!(">{}", time(account.unhappiness_ns))];
        row.extend(counts.iter().map(|count| format!(">{count}")));
        row.push(format!(">{}", time(account.served_ns)));
        row
    };
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(customers.iter().map(|one| row(&one.customer.name, format!(">{}", one.weight), &one.account)));
    rows.push(row(EVERYBODY, ">".into(), &report.total));
    rows
}

fn answers(report: &LatencyReport, customers: &[&CustomerRow]) -> Vec<Vec<String>> {
    let head = ["", "channel", "", ">answers", ">mean", ">p50", ">p90", ">p99", ">longest"];
    let mut rows = Vec::new();
    for customer in customers {
        let channels = customer.channels.iter().filter(|one| one.responses.last.count > 0);
        rows.extend(channels.flat_map(|channel| kinds(&customer.customer.name, &label(channel), &channel.responses)));
    }
    let several = customers.len() > 1;
    let channels = report.channels.iter().filter(|one| several && one.responses.last.count > 0);
    rows.extend(channels.flat_map(|channel| kinds(EVERYBODY, &label(channel), &channel.responses)));
    if report.total.responses.last.count > 0 && (several || report.restricted) {
        rows.extend(kinds(EVERYBODY, "", &report.total.responses));
    }
    if rows.is_empty() {
        return rows;
    }
    [vec![head.map(str::to_owned).to_vec()], rows].concat()
}

fn label(channel: &ChannelLatency) -> String {
    if channel.weight == 1.0 {
        channel.channel.clone()
    } else {
        format!("{} (weight {})", channel.channel, channel.weight)
    }
}

/// A line for each of what is measured.
fn kinds(customer: &str, channel: &str, responses: &Responses) -> Vec<Vec<String>> {
    let row = |name: &str, channel: &str, kind: &str, times: &Times| {
        let mut row = vec![printable(name), printable(channel), kind.to_owned(), format!(">{}", times.count)];
        let times = [times.mean_ns, times.p50_ns, times.p90_ns, times.p99_ns, times.max_ns];
        row.extend(times.iter().map(|ns| format!(">{}", time(*ns))));
        row
    };
    vec![
        row(customer, channel, "first write", &responses.first),
        row("", "", "last write", &responses.last),
        row("", "", "unhappiness", &responses.unhappiness),
    ]
}

#[cfg(test)]
pub mod tests {
    use appease_engine::control::CustomerName;

    use super::*;

    const MS: u64 = 1_000_000;

    /// So many answers within a millisecond or two, and one that took long.
    fn times(count: u64, ms: u64) -> Times {
        let mut counts = vec![0; 4];
        (counts[1], counts[3]) = (count.saturating_sub(1), count.min(1));
        Times {
            count,
            sum_ns: count * ms * MS,
            mean_ns: ms * MS,
            p50_ns: ms * MS - MS / 2,
            p90_ns: ms * MS + MS / 2,
            p99_ns: 2 * ms * MS,
            max_ns: 4 * ms * MS,
            counts,
        }
    }

    fn responses(count: u64, ms: u64) -> Responses {
        Responses { last: times(count, ms), first: times(count, ms / 2 + 1), unhappiness: times(count, ms / 4 + 1) }
    }

    fn account(opened: u64, open: u64, unhappiness_ns: u64, responses: Responses) -> Account {
        Account {
            opened,
            answered: responses.last.count,
            silent: opened.min(2),
            timed_out: opened.min(1),
            denied: 0,
            served_ns: opened * 12 * MS,
            open,
            unhappiness_ns,
            responses,
        }
    }

    fn customer(
        id: u32,
        kind: &str,
        name: &str,
        weight: f64,
        account: Account,
        channels: Vec<ChannelLatency>,
    ) -> CustomerRow {
        let customer = CustomerName { kind: kind.into(), name: name.into(), uid: None, cgroup_id: None };
        CustomerRow { id, customer, weight, account, channels }
    }

    fn channel(id: u32, channel: &str, weight: f64, open: u64, responses: Responses) -> ChannelLatency {
        ChannelLatency { id, channel: channel.into(), weight, open, unhappiness_ns: open * 3 * MS, responses }
    }

    pub fn report() -> LatencyReport {
        let seat = vec![channel(1, "read class:evdev", 1.0, 1, responses(98, 4))];
        let far = vec![
            channel(9, "read accept :80", 2.0, 0, responses(2, 40)),
            channel(10, "read accept :81", 1.0, 2, responses(0, 1)),
        ];
        LatencyReport {
            total: account(115, 3, 37 * MS, responses(100, 5)),
            channels: vec![seat[0].clone(), far[0].clone()],
            customers: vec![
                customer(0, "others", "everybody else", 1.0, account(0, 0, 0, responses(0, 1)), vec![]),
                customer(1, "seat", "seat0 (alice)", 1.0, account(101, 1, 3 * MS, responses(98, 4)), seat),
                customer(2, "address", "192.0.2.4", 4.0, account(14, 2, 34 * MS, responses(2, 40)), far),
            ],
            edges_ns: vec![MS, 4 * MS, 16 * MS],
            restricted: false,
        }
    }

    #[test]
    fn tables_are_aligned() {
        insta::assert_snapshot!(text(&report()), @r"
        open now: 3 requests of 2 customers
        unhappiness: 37 ms

        customers
                          weight  open  unhappy  requests  answered  silent  timed out  denied  CPU time
          192.0.2.4            4     2    34 ms        14         2       2          1       0    168 ms
          seat0 (alice)        1     1     3 ms       101        98       2          1       0     1.2 s
          everybody else       1     0     0 ns         0         0       0          0       0      0 ns
          all together               3    37 ms       115       100       2          1       0     1.3 s

        answers, by customer and channel
                         channel                                  answers   mean      p50      p90    p99  longest
          192.0.2.4      read accept :80 (weight 2)  first write        2  21 ms  20.5 ms  21.5 ms  42 ms    84 ms
                                                     last write         2  40 ms  39.5 ms  40.5 ms  80 ms   160 ms
                                                     unhappiness        2  11 ms  10.5 ms  11.5 ms  22 ms    44 ms
          seat0 (alice)  read class:evdev            first write       98   3 ms   2.5 ms   3.5 ms   6 ms    12 ms
                                                     last write        98   4 ms   3.5 ms   4.5 ms   8 ms    16 ms
                                                     unhappiness       98   2 ms   1.5 ms   2.5 ms   4 ms     8 ms
          all together   read class:evdev            first write       98   3 ms   2.5 ms   3.5 ms   6 ms    12 ms
                                                     last write        98   4 ms   3.5 ms   4.5 ms   8 ms    16 ms
                                                     unhappiness       98   2 ms   1.5 ms   2.5 ms   4 ms     8 ms
          all together   read accept :80 (weight 2)  first write        2  21 ms  20.5 ms  21.5 ms  42 ms    84 ms
                                                     last write         2  40 ms  39.5 ms  40.5 ms  80 ms   160 ms
                                                     unhappiness        2  11 ms  10.5 ms  11.5 ms  22 ms    44 ms
          all together                               first write      100   3 ms   2.5 ms   3.5 ms   6 ms    12 ms
                                                     last write       100   5 ms   4.5 ms   5.5 ms  10 ms    20 ms
                                                     unhappiness      100   2 ms   1.5 ms   2.5 ms   4 ms     8 ms
        ");
    }

    #[test]
    fn what_is_left_out_is_told() {
        let all = report();
        let report =
            LatencyReport { channels: vec![], customers: vec![all.customers[1].clone()], restricted: true, ..all };
        insta::assert_snapshot!(text(&report), @r"
        open now: 3 requests
        unhappiness: 37 ms

        customers
                         weight  open  unhappy  requests  answered  silent  timed out  denied  CPU time
          seat0 (alice)       1     1     3 ms       101        98       2          1       0     1.2 s
          all together              3    37 ms       115       100       2          1       0     1.3 s

        answers, by customer and channel
                         channel                        answers  mean     p50     p90    p99  longest
          seat0 (alice)  read class:evdev  first write       98  3 ms  2.5 ms  3.5 ms   6 ms    12 ms
                                           last write        98  4 ms  3.5 ms  4.5 ms   8 ms    16 ms
                                           unhappiness       98  2 ms  1.5 ms  2.5 ms   4 ms     8 ms
          all together                     first write      100  3 ms  2.5 ms  3.5 ms   6 ms    12 ms
                                           last write       100  5 ms  4.5 ms  5.5 ms  10 ms    20 ms
                                           unhappiness      100  2 ms  1.5 ms  2.5 ms   4 ms     8 ms

        Other customers and the channels of all are left out: ask as root for them.
        ");
    }

    #[test]
    fn nothing_yet() {
        let none = || account(0, 0, 0, responses(0, 1));
        let report =
            LatencyReport { total: none(), channels: vec![], customers: vec![], edges_ns: vec![], restricted: false };
        insta::assert_snapshot!(text(&report), @r"
        open now: 0 requests
        unhappiness: 0 ns

        customers
                        weight  open  unhappy  requests  answered  silent  timed out  denied  CPU time
          all together             0     0 ns         0         0       0          0       0      0 ns
        ");
    }

    #[test]
    fn names_cannot_play_with_the_terminal() {
        let mut report = report();
        report.customers[1].customer.name = "cgroup /\u{1b}[2J".into();
        assert!(!text(&report).contains('\u{1b}'));
    }

    #[test]
    fn json_has_what_other_programs_read() {
        let json = serde_json::to_value(report()).expect("JSON");
        assert_eq!(json["customers"][2]["customer"]["name"], "192.0.2.4");
        assert_eq!(json["customers"][2]["weight"], 4.0);
        assert_eq!(json["customers"][2]["channels"][0]["responses"]["last"]["p99_ns"], 80 * MS);
        assert_eq!(json["total"]["unhappiness_ns"], 37 * MS);
    }
}
