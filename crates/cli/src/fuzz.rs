//! Fuzz targets: what a daemon answers, as it is printed. Names in it are what other users' programs call themselves.

use appease_engine::control::{ChannelRow, LatencyPage, LatencyReport, Status, Why};
use appease_fuzz::{is_printable, target};
use openmetrics_parser::openmetrics::parse_openmetrics;

use crate::{channel, latency, openmetrics, status, why};

#[test]
fn a_status() {
    target!("print-status", shown_status);
}

#[test]
fn a_reason() {
    target!("print-why", shown_why);
}

#[test]
fn a_list_of_channels() {
    target!("print-channels", shown_channels);
}

#[test]
fn latencies() {
    target!("print-latency", shown_latency);
}

/// Nothing in it commands a terminal.
fn check(text: &str) {
    assert!(is_printable(text), "{text:?}");
}

fn shown_status(input: &[u8]) {
    if let Ok(answer) = serde_json::from_slice::<Status>(input) {
        check(&status::text(&answer));
    }
}

fn shown_why(input: &[u8]) {
    if let Ok(answer) = serde_json::from_slice::<Why>(input) {
        check(&why::text(&answer));
    }
}

fn shown_channels(input: &[u8]) {
    if let Ok(answer) = serde_json::from_slice::<ChannelRow>(input) {
        check(&channel::one("added", &answer));
        let list = appease_engine::control::ChannelList { channels: vec![answer], restricted: false };
        check(&channel::list(&list));
    }
}

/// Tables, and what a collector of metrics reads.
fn shown_latency(input: &[u8]) {
    let Ok(page) = serde_json::from_slice::<LatencyPage>(input) else { return };
    let Some(total) = page.total else { return };
    let LatencyPage { channels, customers, edges_ns, restricted, .. } = page;
    let report = LatencyReport { total, channels, customers, edges_ns, restricted };
    check(&latency::text(&report));
    let shown = openmetrics::exposition(report).expect("a text");
    let lines = shown.lines().filter(|line| !line.starts_with('#'));
    assert!(lines.clone().all(|line| line.starts_with("appease_")), "{shown}");
    let _ = parse_openmetrics(&shown);
}
