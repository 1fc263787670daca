//! Servers: a request until it is answered.

use anyhow::ensure;
use appease_scenario::Run;

use super::{
    BUILDS, Check, Extent,
    figures::{enough, loaded_and_alone, longest, none_failed, spreads, within},
};
use crate::machines::{Machines, Spec, spread, value};

/// A small server without load against EEVDF: a page from a container behind a bridge, a mirrored tree, a transaction.
const SERVER_TO_EEVDF_RATIO: f64 = 1.03;
/// A page that loads itself, the worst (6.3).
const WEB_MAX_RATIO: f64 = 1.2;
/// Responses seen, of all that were due, per cent: a request that somebody worked on and that went quiet has missed its own. What is
/// still open when the measurement begins counts, too, such as a login's: in the first rounds of Octave without load, 5 of 10.
const RESPONSES_SEEN_PCT: f64 = 95.0;
/// Scenarios that they are counted in, with the loads of which other checks have the runs.
const RESPONSES_OF: [(&str, &str); 10] = [
    ("typing", "hogs:16"),
    ("command", "hogs:16"),
    ("console", "build:64"),
    ("web", "build:64"),
    ("octave", "build:64"),
    ("multiuser", "users:20"),
    ("apache", "build:30"),
    ("mysql", "build:30"),
    ("flood", "build:30"),
    ("tiers", "build:30"),
];
/// A tree of files from a web server, on the average (CAS section 7.2).
const APACHE_RATIO: f64 = 1.1;
/// Transactions of a database, on the average and the 99th percentile (7.3); the latter against EEVDF's without load, too, with
/// a cgroup for each program: the best that people have today.
const MYSQL_RATIO: f64 = 1.15;
/// A customer with one connection beside one with a thousand, p99, against the same alone, beside the same build and without any. Measured
/// against alone without any: 1.18 to 1.31 beside the build and 1.11 without.
const FLOOD_RATIO: f64 = 1.3;
/// The weights of scenario `tiers`' customers: so many times as long as the heavy one waits the light one, when both ask for all that there
/// is; and by what factor that may be off.
const TIERS_WEIGHTS: [f64; 2] = [1.0, 4.0];
const TIERS_OFF: f64 = 1.3;
/// How long a process that serves a customer of the least weight waits for the CPU beside one of the most, s. After 5 it is overdue.
const UNEQUAL_WAIT_S: f64 = 6.0;

/// A key, p99, while many addresses ask, to that of a machine on which nobody does.
const ADDRESSES_RATIO: f64 = 1.3;

/// Checks of servers.
pub(super) fn checks(extent: Extent) -> Vec<Check> {
    let mut checks = Vec::new();
    for kernel in extent.thorough() {
        checks.push(Check::at(kernel, "build:30", "web_server_is_as_fast_as_alone", apache));
        if !extent.full {
            continue;
        }
        checks.push(Check::on(kernel, "page_from_a_container_costs_little", bridge));
        checks.push(Check::on(kernel, "web_server_alone_costs_little", apache_alone));
        checks.push(Check::on(kernel, "customer_of_least_weight_is_served_in_the_end", unequal));
        checks.push(Check::on(kernel, "keys_are_served_while_64_addresses_ask", addresses));
        checks.push(Check::on(kernel, "cgroup_pays_for_what_its_server_answers", paying));
        checks.push(Check::on(kernel, "database_alone_costs_little", mysql_alone));
        for load in BUILDS {
            checks.push(Check::at(kernel, load, "page_is_as_fast_as_alone", |machines, kernel, load| {
                web(machines, kernel, load, "appease")
            }));
        }
        checks.push(Check::at(kernel, "build:64", "page_is_as_fast_as_alone_by_rsio", |machines, kernel, load| {
            web(machines, kernel, load, "appease:rsio")
        }));
        for (scenario, load) in RESPONSES_OF {
            let seen = move |machines: &Machines, kernel: &str, load| responses(machines, kernel, load, scenario);
            checks.push(Check::at(kernel, load, &format!("responses_of_{scenario}_are_seen"), seen));
        }
        checks.push(Check::at(kernel, "build:30", "database_is_as_fast_as_alone", mysql));
        for load in ["none", "build:30"] {
            for (name, scenario) in [
                ("thousand_connections_weigh_as_one", "flood"),
                ("thousand_connections_of_threads_weigh_as_one", "flood-threads"),
            ] {
                let weigh = move |machines: &Machines, kernel: &str, load| flood(machines, kernel, load, scenario);
                checks.push(Check::at(kernel, load, name, weigh));
            }
            checks.push(Check::at(kernel, load, "customers_wait_by_their_weights", tiers));
        }
    }
    checks
}

fn web(machines: &Machines, kernel: &str, load: &'static str, scheduler: &'static str) -> anyhow::Result<()> {
    longest(machines, ("web", scheduler, "reload_ms", 2), kernel, load, WEB_MAX_RATIO)
}

fn apache(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    let runs = loaded_and_alone(machines, ("apache", "appease"), kernel, load)?;
    let [loaded, alone] = spreads(runs.each_ref(), "mirror_ms")?;
    enough("mirrored trees", loaded, 5)?;
    within(&format!("mean of a mirrored tree at {load}, {kernel}"), loaded.mean, alone.mean, APACHE_RATIO)
}

fn mysql(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    let runs = loaded_and_alone(machines, ("mysql", "appease"), kernel, load)?;
    let [loaded, alone] = spreads(runs.each_ref(), "transaction_ms")?;
    enough("transactions", loaded, 1000)?;
    within(&format!("mean of transactions at {load}, {kernel}"), loaded.mean, alone.mean, MYSQL_RATIO)?;
    within(&format!("p99 of transactions at {load}, {kernel}"), loaded.p99, alone.p99, MYSQL_RATIO)?;
    let [eevdf] = machines.good_runs([Spec::new("mysql", "eevdf", "none").on(kernel)])?;
    let eevdf = spread(&eevdf, "transaction_ms")?;
    let what = format!("p99 of transactions at {load} against EEVDF's scopes without load, {kernel}");
    within(&what, loaded.p99, eevdf.p99, MYSQL_RATIO)
}

/// The legal range of weights has nobody wait until the kernel's watchdog ends us.
fn unequal(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    let [run] = machines.good_runs([Spec::new("unequal", "appease", "none").on(kernel)])?;
    let (answers, longest_s) = (value(&run, "light_answers")?, value(&run, "longest_wait_s")?);
    ensure!(answers >= 5.0, "a customer of weight 0.01 had {answers} answers in 45 s, {kernel}");
    ensure!(longest_s <= UNEQUAL_WAIT_S, "who served it waited for {longest_s:.2} s of {UNEQUAL_WAIT_S}, {kernel}");
    Ok(())
}

/// Customers at many addresses, all of whose requests stay open, leave records for the seat.
fn addresses(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    let key = "key_to_screen_ms";
    let [flooded, alone] = machines.good_runs([
        Spec::new("addresses", "appease", "none").on(kernel),
        Spec::new("typing", "appease", "none").on(kernel),
    ])?;
    let (flooded, alone) = (spread(&flooded, key)?, spread(&alone, key)?);
    within(&format!("keys while 64 addresses ask, {kernel}, p99"), flooded.p99, alone.p99, ADDRESSES_RATIO)
}

/// A server's cgroup has half of the CPU beside another one, its answers included: the scenario's own checks.
fn paying(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    let [run] = machines.good_runs([Spec::new("paying", "appease", "none").on(kernel)])?;
    none_failed(run).map(drop)
}

/// What sensing and queues of our own cost a server if its packets pass two wires and a bridge.
fn bridge(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    let [ours, eevdf] = alone_and_eevdf(machines, "bridge", kernel)?;
    let [ours, eevdf] = spreads([&ours, &eevdf], "page_response_ms")?;
    enough("answers from a container", ours, 1000)?;
    within(&format!("a page from a container, {kernel}"), ours.p50, eevdf.p50, SERVER_TO_EEVDF_RATIO)?;
    let what = format!("answers under EEVDF against ours in the same time, {kernel}");
    within(&what, eevdf.n as f64, ours.n as f64, SERVER_TO_EEVDF_RATIO)
}

fn apache_alone(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    let [ours, eevdf] = alone_and_eevdf(machines, "apache", kernel)?;
    let [ours, eevdf] = spreads([&ours, &eevdf], "mirror_ms")?;
    enough("mirrored trees", ours, 5)?;
    within(&format!("mean of a mirrored tree, {kernel}"), ours.mean, eevdf.mean, SERVER_TO_EEVDF_RATIO)
}

fn mysql_alone(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    let [ours, eevdf] = alone_and_eevdf(machines, "mysql", kernel)?;
    let [ours, eevdf] = spreads([&ours, &eevdf], "transaction_ms")?;
    enough("transactions", ours, 1000)?;
    within(&format!("mean of transactions, {kernel}"), ours.mean, eevdf.mean, SERVER_TO_EEVDF_RATIO)?;
    within(&format!("p99 of transactions, {kernel}"), ours.p99, eevdf.p99, SERVER_TO_EEVDF_RATIO)
}

/// A scenario without load under appease, and under EEVDF.
fn alone_and_eevdf(machines: &Machines, scenario: &'static str, kernel: &str) -> anyhow::Result<[Run; 2]> {
    machines.good_runs(["appease", "eevdf"].map(|scheduler| Spec::new(scenario, scheduler, "none").on(kernel)))
}

fn flood(machines: &Machines, kernel: &str, load: &'static str, scenario: &'static str) -> anyhow::Result<()> {
    let [run, without] = loaded_and_alone(machines, (scenario, "appease"), kernel, load)?;
    let [beside, alone] = [spread(&run, "one_response_ms")?, spread(&run, "alone_response_ms")?];
    enough("answers beside a flood", beside, 200)?;
    ensure!(
        value(&run, "many_answers")? > 1000.0,
        "who has a thousand connections was answered less than once on each"
    );
    let waited = value(&run, "one_unanswered_for_ms")?.max(beside.p99);
    let what = format!("p99 of answers beside a flood, {scenario} at {load}, {kernel}");
    within(&what, waited, alone.p99, FLOOD_RATIO)?;
    let unloaded = spread(&without, "alone_response_ms")?;
    within(&format!("{what}, against alone without load"), waited, unloaded.p99, FLOOD_RATIO)
}

fn tiers(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    let [run] = machines.good_runs([Spec::new("tiers", "appease", load).on(kernel)])?;
    let [light, heavy] = [spread(&run, "closed_light_response_ms")?, spread(&run, "closed_heavy_response_ms")?];
    enough("answers to the light one", light, 50)?;
    let [weight, weight_of_heavy] = TIERS_WEIGHTS;
    let what = |name: &str| format!("mean response times by weight, {name}, at {load}, {kernel}");
    let [light, heavy] = [light.mean * weight, heavy.mean * weight_of_heavy];
    within(&what("light to heavy"), light, heavy, TIERS_OFF)?;
    within(&what("heavy to light"), heavy, light, TIERS_OFF)
}

/// Of the responses that were due, hardly one was missed.
fn responses(machines: &Machines, kernel: &str, load: &'static str, scenario: &'static str) -> anyhow::Result<()> {
    let [run] = machines.good_runs([Spec::new(scenario, "appease", load).on(kernel)])?;
    let seen = value(&run, "responses_seen_pct")?;
    println!(
        "{seen:.1} % of the responses of {scenario} at {load} were seen, {kernel}; at least {RESPONSES_SEEN_PCT} %"
    );
    ensure!(
        seen >= RESPONSES_SEEN_PCT,
        "{seen:.1} % of the responses of {scenario} at {load} were seen; at least {RESPONSES_SEEN_PCT} % are wanted"
    );
    Ok(())
}
