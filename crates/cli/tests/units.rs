//! The units that packages install: they fit together, and what they may do stays small.

use std::{fs, path::PathBuf, process::Command};

/// Most that `systemd-analyze security` may say of a unit, in tenths.
const EXPOSURE_MAX: [(&str, u32); 2] = [("appease.service", 30), ("appease-hosts.service", 15)];

fn packaging(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../packaging", name].iter().collect()
}

/// Values of a setting, in the order of the unit.
fn values(unit: &str, setting: &str) -> Vec<String> {
    let text = fs::read_to_string(packaging(unit)).expect("a unit");
    let of = |line: &str| line.strip_prefix(setting)?.strip_prefix('=').map(str::to_owned);
    text.lines().filter_map(of).collect()
}

#[test]
fn the_daemon_asks_where_the_service_listens() {
    let sockets = values("appease-hosts.socket", "ListenStream");
    let [socket] = sockets.as_slice() else { panic!("one socket") };
    assert_eq!(values("appease.service", "ExecStart"), [format!("/usr/bin/appease run --hosts {socket}")]);
    assert_eq!(values("appease-hosts.service", "ExecStart"), ["/usr/bin/appease hosts"]);
    assert_eq!(values("appease-hosts.service", "StandardInput"), ["socket"]);
    assert_eq!(values("appease-hosts.socket", "SocketMode"), ["0600"], "root alone asks");
    assert_eq!(values("appease.service", "Wants"), ["appease-hosts.socket"], "nobody has to start it");
}

#[test]
fn only_the_service_reaches_a_network() {
    assert_eq!(values("appease.service", "RestrictAddressFamilies"), ["AF_UNIX"]);
    assert_eq!(values("appease.service", "IPAddressDeny"), ["any"]);
    assert_eq!(values("appease-hosts.service", "DynamicUser"), ["yes"]);
    assert_eq!(values("appease-hosts.service", "CapabilityBoundingSet"), [""]);
}

/// Void where there is no systemd that can say it of a file.
#[test]
fn units_may_do_little() {
    for (unit, most) in EXPOSURE_MAX {
        let mut command = Command::new("systemd-analyze");
        command.args(["security", "--offline=yes", "--no-pager", &format!("--threshold={most}")]).arg(packaging(unit));
        let Ok(output) = command.env("LC_ALL", "C.UTF-8").output() else { return };
        let text = String::from_utf8_lossy(&output.stdout);
        let Some(line) = text.lines().find(|line| line.contains("Overall exposure level")) else { return };
        assert!(output.status.success(), "{unit}: {line}; allowed are {most} tenths");
    }
}
