//! What `appease channel` prints.

use appease_engine::control::{ChannelList, ChannelRow, Reloaded};

use crate::{
    table::{aligned, lines, printable},
    units::time,
};

/// All channels, in a table.
pub fn list(list: &ChannelList) -> String {
    let head = [">id", "access", "what", "who", ">weight", "state", ">hits", ">last", "handlers", "source"];
    let rows: Vec<Vec<String>> =
        [head.map(str::to_owned).into()].into_iter().chain(list.channels.iter().map(row)).collect();
    let mut text = aligned(&rows);
    if list.restricted {
        text += "\nHits and handlers are left out: ask as root for them.\n";
    }
    lines(&text)
}

/// One channel, after it was added or removed.
pub fn one(done: &str, channel: &ChannelRow) -> String {
    let who = match who(channel) {
        who if who == ANYONE => String::new(),
        who => format!(" ({who})"),
    };
    let weight = if channel.weight == 1.0 { String::new() } else { format!(", weight {}", channel.weight) };
    let state = if done == "added" { format!(", {}", state(channel)) } else { String::new() };
    let what = printable(&channel.what);
    lines(&format!("{done} channel {}: {} {what}{who}{weight}{state}\n", channel.id, channel.access))
}

/// What a reload changed.
pub fn reloaded(changes: Reloaded) -> String {
    let parts: Vec<String> = [
        ("channels added", changes.added),
        ("channels removed", changes.removed),
        ("channels of another weight", changes.weighed),
        ("customers of another weight", changes.customers),
    ]
    .into_iter()
    .filter(|(_, number)| *number > 0)
    .map(|(what, number)| format!("{what}: {number}"))
    .collect();
    if parts.is_empty() { "nothing has changed\n".into() } else { parts.join(", ") + "\n" }
}

const ANYONE: &str = "anyone";

fn row(channel: &ChannelRow) -> Vec<String> {
    let none = || "-".to_owned();
    let handlers: Vec<String> = channel
        .handlers
        .iter()
        .map(|one| format!("{}[{}]", if one.comm.is_empty() { "gone".into() } else { printable(&one.comm) }, one.pid))
        .collect();
    vec![
        format!(">{}", channel.id),
        channel.access.clone(),
        printable(&channel.what),
        who(channel),
        format!(">{}", channel.weight),
        state(channel),
        format!(">{}", channel.hits.map_or_else(none, |hits| hits.to_string())),
        format!(">{}", channel.last_hit_ago_ns.map_or_else(none, |ago| format!("{} ago", time(ago)))),
        if handlers.is_empty() { none() } else { handlers.join(" ") },
        printable(&channel.source),
    ]
}

fn who(channel: &ChannelRow) -> String {
    let parts: Vec<String> = [("user", &channel.user), ("group", &channel.group), ("below", &channel.cgroup)]
        .into_iter()
        .filter_map(|(kind, value)| Some(format!("{kind} {}", printable(value.as_deref()?))))
        .collect();
    if parts.is_empty() { ANYONE.into() } else { parts.join(", ") }
}

fn state(channel: &ChannelRow) -> String {
    let reason = channel.reason.as_deref().map(printable).unwrap_or_default();
    match channel.state.as_str() {
        "waiting" => format!("waiting for {reason}"),
        "off" => format!("off: {reason}"),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use appease_engine::control::Handler;

    use super::*;

    fn channel(id: u32, what: &str) -> ChannelRow {
        ChannelRow {
            id,
            access: "read".into(),
            what: what.into(),
            user: None,
            group: None,
            cgroup: None,
            weight: 1.0,
            state: "armed".into(),
            reason: None,
            hits: Some(0),
            last_hit_ago_ns: None,
            handlers: vec![],
            source: "built-in".into(),
        }
    }

    fn example() -> ChannelList {
        let handler = |pid, comm: &str| Handler { pid, comm: comm.into() };
        ChannelList {
            channels: vec![
                ChannelRow {
                    state: "active".into(),
                    hits: Some(1234),
                    last_hit_ago_ns: Some(4_100_000),
                    handlers: vec![handler(345, "Xorg"), handler(12, ""), handler(9, "\u{1b}[2J")],
                    ..channel(1, "class:evdev")
                },
                ChannelRow { source: "built-in (x11vnc)".into(), ..channel(7, "accept :5900") },
                ChannelRow {
                    access: "both".into(),
                    user: Some("alice".into()),
                    cgroup: Some("/user.slice".into()),
                    weight: 2.5,
                    state: "waiting".into(),
                    reason: Some("/dev/ttyUSB0".into()),
                    source: "/etc/appease/config.toml:12".into(),
                    ..channel(8, "/dev/ttyUSB0")
                },
            ],
            restricted: false,
        }
    }

    #[test]
    fn a_table() {
        insta::assert_snapshot!(list(&example()), @r"
        id  access  what          who                            weight  state                     hits        last  handlers                    source
         1  read    class:evdev   anyone                              1  active                    1234  4.1 ms ago  Xorg[345] gone[12] ?[2J[9]  built-in
         7  read    accept :5900  anyone                              1  armed                        0           -  -                           built-in (x11vnc)
         8  both    /dev/ttyUSB0  user alice, below /user.slice     2.5  waiting for /dev/ttyUSB0     0           -  -                           /etc/appease/config.toml:12
        ");
    }

    #[test]
    fn what_is_left_out_is_told() {
        let channels = vec![ChannelRow { hits: None, ..channel(6, "accept :22") }];
        insta::assert_snapshot!(list(&ChannelList { channels, restricted: true }), @r"
          id  access  what        who     weight  state  hits  last  handlers  source
           6  read    accept :22  anyone       1  armed     -     -  -         built-in

        Hits and handlers are left out: ask as root for them.
        ");
    }

    #[test]
    fn changes_are_told() {
        let channels = example().channels;
        let off = ChannelRow { state: "off".into(), reason: Some("it burns".into()), ..channel(9, "/dev/x") };
        let told = [one("added", &channels[2]), one("removed", &channels[1]), one("added", &off)].concat();
        insta::assert_snapshot!(told, @r"
        added channel 8: both /dev/ttyUSB0 (user alice, below /user.slice), weight 2.5, waiting for /dev/ttyUSB0
        removed channel 7: read accept :5900
        added channel 9: read /dev/x, off: it burns
        ");
        let none = Reloaded { added: 0, removed: 0, weighed: 0, customers: 0 };
        assert_eq!(reloaded(Reloaded { added: 2, ..none }), "channels added: 2\n");
        assert_eq!(
            reloaded(Reloaded { removed: 1, customers: 3, ..none }),
            "channels removed: 1, customers of another weight: 3\n"
        );
        assert_eq!(reloaded(none), "nothing has changed\n");
    }
}
