//! `appease latency --openmetrics`: the same as OpenMetrics 1.0.0 text, for a collector to read.

use std::{collections::HashSet, fmt};

use anyhow::{Context, Result};
use appease_engine::control::{Account, CustomerRow, LatencyReport, Responses, Times};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet, text},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::{Registry, Unit},
};

/// The whole exposition, up to its `# EOF`.
pub fn exposition(report: LatencyReport) -> Result<String> {
    let mut registry = Registry::with_prefix("appease");
    registry.register_collector(Box::new(Report(report)));
    let mut exposed = String::new();
    text::encode(&mut exposed, &registry).context("writing OpenMetrics")?;
    Ok(exposed)
}

/// Numbers that were counted elsewhere.
#[derive(Debug)]
struct Report(LatencyReport);

/// A customer under a name that no other has: each sample must have labels of its own.
struct Named<'a> {
    name: String,
    row: &'a CustomerRow,
}

impl Report {
    fn named(&self) -> Vec<Named<'_>> {
        let mut taken = HashSet::new();
        let name = |row: &CustomerRow| match row.customer.name.clone() {
            name if taken.insert(name.clone()) => name,
            name => format!("{name}, {}", row.id),
        };
        let names: Vec<String> = self.0.customers.iter().map(name).collect();
        names.into_iter().zip(&self.0.customers).map(|(name, row)| Named { name, row }).collect()
    }
}

impl Collector for Report {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let customers = self.named();
        let mut family = counters(&mut encoder, "requests_opened", "Requests of a customer")?;
        for one in &customers {
            count(&mut family, &[("customer", one.name.as_str())], one.row.account.opened)?;
        }
        let mut family = counters(&mut encoder, "requests", "Requests of a customer that ended, by how")?;
        for one in &customers {
            for (outcome, number) in outcomes(&one.row.account) {
                count(&mut family, &[("customer", one.name.as_str()), ("outcome", outcome)], number)?;
            }
        }
        let help = "Reads that opened no request, since the customer had too many open";
        let mut family = counters(&mut encoder, "requests_denied", help)?;
        for one in &customers {
            count(&mut family, &[("customer", one.name.as_str())], one.row.account.denied)?;
        }
        let help = "CPU time spent on requests of a customer";
        let mut family = encoder.encode_descriptor("cpu", help, Some(&Unit::Seconds), MetricType::Counter)?;
        for one in &customers {
            let labels = [("customer", one.name.as_str())];
            ConstCounter::new(seconds(one.row.account.served_ns)).encode(family.encode_family(&labels)?)?;
        }
        let mut family =
            encoder.encode_descriptor("customer_weight", "Weight of a customer", None, MetricType::Gauge)?;
        for one in &customers {
            gauge(&mut family, &[("customer", one.name.as_str())], one.row.weight)?;
        }
        let help = "Requests that are open now";
        let mut family = encoder.encode_descriptor("requests_open", help, None, MetricType::Gauge)?;
        for one in &customers {
            for channel in &one.row.channels {
                let labels = [("customer", one.name.as_str()), ("channel", channel.channel.as_str())];
                ConstGauge::new(channel.open).encode(family.encode_family(&labels)?)?;
            }
        }
        let help = "Unhappiness of a customer now: of its open requests, the time waited less CPU time had, by weight";
        let mut family = encoder.encode_descriptor("unhappiness", help, Some(&Unit::Seconds), MetricType::Gauge)?;
        for one in &customers {
            gauge(&mut family, &[("customer", one.name.as_str())], seconds(one.row.account.unhappiness_ns))?;
        }
        let help = "Unhappiness of all customers together now";
        let unhappiness = seconds(self.0.total.unhappiness_ns);
        let family = encoder.encode_descriptor("system_unhappiness", help, Some(&Unit::Seconds), MetricType::Gauge)?;
        ConstGauge::new(unhappiness).encode(family)?;
        self.histograms(&mut encoder, &customers)
    }
}

/// What of an answer is measured: name, help, and where it is.
type Measured = (&'static str, &'static str, fn(&Responses) -> &Times);

impl Report {
    fn histograms(&self, encoder: &mut DescriptorEncoder<'_>, customers: &[Named<'_>]) -> Result<(), fmt::Error> {
        const MEASURED: [Measured; 3] = [
            ("response", "Time from a request to the last write back to its customer", |of| &of.last),
            ("first_response", "Time from a request to the first write back to its customer", |of| &of.first),
            ("request_unhappiness", "Unhappiness of a request at the last write back to its customer", |of| {
                &of.unhappiness
            }),
        ];
        for (name, help, times) in MEASURED {
            let mut family = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
            for one in customers {
                for channel in &one.row.channels {
                    let labels = [("customer", one.name.as_str()), ("channel", channel.channel.as_str())];
                    let times = times(&channel.responses);
                    let bounds = self.0.edges_ns.iter().map(|ns| seconds(*ns)).chain([f64::INFINITY]);
                    let buckets: Vec<(f64, u64)> = bounds.zip(times.counts.iter().copied()).collect();
                    family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
                        seconds(times.sum_ns),
                        times.count,
                        &buckets,
                        None,
                    )?;
                }
            }
        }
        Ok(())
    }
}

fn outcomes(account: &Account) -> [(&'static str, u64); 3] {
    [("answered", account.answered), ("silent", account.silent), ("timed_out", account.timed_out)]
}

fn counters<'a>(
    encoder: &'a mut DescriptorEncoder<'_>,
    name: &'a str,
    help: &str,
) -> Result<MetricEncoder<'a>, fmt::Error> {
    encoder.encode_descriptor(name, help, None, MetricType::Counter)
}

fn count<const N: usize>(
    family: &mut MetricEncoder<'_>,
    labels: &[(&str, &str); N],
    number: u64,
) -> Result<(), fmt::Error> {
    ConstCounter::new(number).encode(family.encode_family(labels)?)
}

fn gauge<const N: usize>(
    family: &mut MetricEncoder<'_>,
    labels: &[(&str, &str); N],
    value: f64,
) -> Result<(), fmt::Error> {
    ConstGauge::new(value).encode(family.encode_family(labels)?)
}

#[allow(clippy::cast_precision_loss)]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use openmetrics_parser::{OpenMetricsType, OpenMetricsValue, openmetrics::parse_openmetrics};

    use super::*;
    use crate::latency::tests::report;

    #[test]
    fn an_exposition() {
        let mut report = report();
        report.customers.remove(0);
        report.customers[1].channels.pop();
        insta::assert_snapshot!(exposition(report).expect("text"), @r#"
        # HELP appease_requests_opened Requests of a customer
        # TYPE appease_requests_opened counter
        appease_requests_opened_total{customer="seat0 (alice)"} 101
        appease_requests_opened_total{customer="192.0.2.4"} 14
        # HELP appease_requests Requests of a customer that ended, by how
        # TYPE appease_requests counter
        appease_requests_total{customer="seat0 (alice)",outcome="answered"} 98
        appease_requests_total{customer="seat0 (alice)",outcome="silent"} 2
        appease_requests_total{customer="seat0 (alice)",outcome="timed_out"} 1
        appease_requests_total{customer="192.0.2.4",outcome="answered"} 2
        appease_requests_total{customer="192.0.2.4",outcome="silent"} 2
        appease_requests_total{customer="192.0.2.4",outcome="timed_out"} 1
        # HELP appease_requests_denied Reads that opened no request, since the customer had too many open
        # TYPE appease_requests_denied counter
        appease_requests_denied_total{customer="seat0 (alice)"} 0
        appease_requests_denied_total{customer="192.0.2.4"} 0
        # HELP appease_cpu_seconds CPU time spent on requests of a customer
        # TYPE appease_cpu_seconds counter
        # UNIT appease_cpu_seconds seconds
        appease_cpu_seconds_total{customer="seat0 (alice)"} 1.212
        appease_cpu_seconds_total{customer="192.0.2.4"} 0.168
        # HELP appease_customer_weight Weight of a customer
        # TYPE appease_customer_weight gauge
        appease_customer_weight{customer="seat0 (alice)"} 1.0
        appease_customer_weight{customer="192.0.2.4"} 4.0
        # HELP appease_requests_open Requests that are open now
        # TYPE appease_requests_open gauge
        appease_requests_open{customer="seat0 (alice)",channel="read class:evdev"} 1
        appease_requests_open{customer="192.0.2.4",channel="read accept :80"} 0
        # HELP appease_unhappiness_seconds Unhappiness of a customer now: of its open requests, the time waited less CPU time had, by weight
        # TYPE appease_unhappiness_seconds gauge
        # UNIT appease_unhappiness_seconds seconds
        appease_unhappiness_seconds{customer="seat0 (alice)"} 0.003
        appease_unhappiness_seconds{customer="192.0.2.4"} 0.034
        # HELP appease_system_unhappiness_seconds Unhappiness of all customers together now
        # TYPE appease_system_unhappiness_seconds gauge
        # UNIT appease_system_unhappiness_seconds seconds
        appease_system_unhappiness_seconds 0.037
        # HELP appease_response_seconds Time from a request to the last write back to its customer
        # TYPE appease_response_seconds histogram
        # UNIT appease_response_seconds seconds
        appease_response_seconds_sum{customer="seat0 (alice)",channel="read class:evdev"} 0.392
        appease_response_seconds_count{customer="seat0 (alice)",channel="read class:evdev"} 98
        appease_response_seconds_bucket{le="0.001",customer="seat0 (alice)",channel="read class:evdev"} 0
        appease_response_seconds_bucket{le="0.004",customer="seat0 (alice)",channel="read class:evdev"} 97
        appease_response_seconds_bucket{le="0.016",customer="seat0 (alice)",channel="read class:evdev"} 97
        appease_response_seconds_bucket{le="+Inf",customer="seat0 (alice)",channel="read class:evdev"} 98
        appease_response_seconds_sum{customer="192.0.2.4",channel="read accept :80"} 0.08
        appease_response_seconds_count{customer="192.0.2.4",channel="read accept :80"} 2
        appease_response_seconds_bucket{le="0.001",customer="192.0.2.4",channel="read accept :80"} 0
        appease_response_seconds_bucket{le="0.004",customer="192.0.2.4",channel="read accept :80"} 1
        appease_response_seconds_bucket{le="0.016",customer="192.0.2.4",channel="read accept :80"} 1
        appease_response_seconds_bucket{le="+Inf",customer="192.0.2.4",channel="read accept :80"} 2
        # HELP appease_first_response_seconds Time from a request to the first write back to its customer
        # TYPE appease_first_response_seconds histogram
        # UNIT appease_first_response_seconds seconds
        appease_first_response_seconds_sum{customer="seat0 (alice)",channel="read class:evdev"} 0.294
        appease_first_response_seconds_count{customer="seat0 (alice)",channel="read class:evdev"} 98
        appease_first_response_seconds_bucket{le="0.001",customer="seat0 (alice)",channel="read class:evdev"} 0
        appease_first_response_seconds_bucket{le="0.004",customer="seat0 (alice)",channel="read class:evdev"} 97
        appease_first_response_seconds_bucket{le="0.016",customer="seat0 (alice)",channel="read class:evdev"} 97
        appease_first_response_seconds_bucket{le="+Inf",customer="seat0 (alice)",channel="read class:evdev"} 98
        appease_first_response_seconds_sum{customer="192.0.2.4",channel="read accept :80"} 0.042
        appease_first_response_seconds_count{customer="192.0.2.4",channel="read accept :80"} 2
        appease_first_response_seconds_bucket{le="0.001",customer="192.0.2.4",channel="read accept :80"} 0
        appease_first_response_seconds_bucket{le="0.004",customer="192.0.2.4",channel="read accept :80"} 1
        appease_first_response_seconds_bucket{le="0.016",customer="192.0.2.4",channel="read accept :80"} 1
        appease_first_response_seconds_bucket{le="+Inf",customer="192.0.2.4",channel="read accept :80"} 2
        # HELP appease_request_unhappiness_seconds Unhappiness of a request at the last write back to its customer
        # TYPE appease_request_unhappiness_seconds histogram
        # UNIT appease_request_unhappiness_seconds seconds
        appease_request_unhappiness_seconds_sum{customer="seat0 (alice)",channel="read class:evdev"} 0.196
        appease_request_unhappiness_seconds_count{customer="seat0 (alice)",channel="read class:evdev"} 98
        appease_request_unhappiness_seconds_bucket{le="0.001",customer="seat0 (alice)",channel="read class:evdev"} 0
        appease_request_unhappiness_seconds_bucket{le="0.004",customer="seat0 (alice)",channel="read class:evdev"} 97
        appease_request_unhappiness_seconds_bucket{le="0.016",customer="seat0 (alice)",channel="read class:evdev"} 97
        appease_request_unhappiness_seconds_bucket{le="+Inf",customer="seat0 (alice)",channel="read class:evdev"} 98
        appease_request_unhappiness_seconds_sum{customer="192.0.2.4",channel="read accept :80"} 0.022
        appease_request_unhappiness_seconds_count{customer="192.0.2.4",channel="read accept :80"} 2
        appease_request_unhappiness_seconds_bucket{le="0.001",customer="192.0.2.4",channel="read accept :80"} 0
        appease_request_unhappiness_seconds_bucket{le="0.004",customer="192.0.2.4",channel="read accept :80"} 1
        appease_request_unhappiness_seconds_bucket{le="0.016",customer="192.0.2.4",channel="read accept :80"} 1
        appease_request_unhappiness_seconds_bucket{le="+Inf",customer="192.0.2.4",channel="read accept :80"} 2
        # EOF
        "#);
    }

    /// The parser refuses units of histograms, which the standard (OpenMetrics 1.0.0, "Unit") has; they are no part of samples.
    fn parsed(text: &str) -> openmetrics_parser::MetricsExposition<OpenMetricsType, OpenMetricsValue> {
        let lines = text.lines().filter(|line| !(line.starts_with("# UNIT ") && line.contains("response")));
        let lines = lines.filter(|line| !line.starts_with("# UNIT appease_request_unhappiness"));
        let text: String = lines.map(|line| format!("{line}\n")).collect();
        parse_openmetrics(&text).unwrap_or_else(|error| panic!("{error:?}: {text}"))
    }

    #[test]
    fn a_parser_understands_it() {
        let mut report = report();
        report.customers[2].customer.name = "cgroup /a\\b \"c\"\nd=é,{}".into();
        let text = exposition(report).expect("text");
        assert!(text.ends_with("\n# EOF\n"), "{text}");
        let exposed = parsed(&text);
        let mut names: Vec<&str> = exposed.families.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "appease_cpu_seconds",
                "appease_customer_weight",
                "appease_first_response_seconds",
                "appease_request_unhappiness_seconds",
                "appease_requests",
                "appease_requests_denied",
                "appease_requests_open",
                "appease_requests_opened",
                "appease_response_seconds",
                "appease_system_unhappiness_seconds",
                "appease_unhappiness_seconds",
            ]
        );
        assert_eq!(exposed.families["appease_response_seconds"].iter_samples().count(), 3);
        assert_eq!(exposed.families["appease_requests"].iter_samples().count(), 9);
    }

    #[test]
    fn two_of_a_name_are_two() {
        let mut report = report();
        report.customers[2].customer.name = report.customers[1].customer.name.clone();
        let text = exposition(report).expect("text");
        assert!(text.contains("appease_requests_opened_total{customer=\"seat0 (alice), 2\"} 14\n"), "{text}");
        parsed(&text);
    }
}
