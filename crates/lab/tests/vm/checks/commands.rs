//! Commands: Enter until the answer is there.

use anyhow::ensure;
use appease_scenario::Grouping;

use super::{
    BUILDS, Check, Extent, LOADS_OF_CPUS, LoadsOfCpus, WITHOUT_BLANK,
    figures::{
        Layout, WORK_CONSERVING_PCT, all_answered, all_hold, conserves_work, enough, in_layout, loaded_and_alone,
        loaded_and_alone_in, longest, longest_ms, scopes, spreads, within,
    },
};
use crate::machines::{Machines, Spec, spread, value};

/// A command under load against the same without.
const COMMAND_RATIO: f64 = 1.1;
/// How many times longer the command takes under EEVDF at 16 hogs, at least: else the load is no load.
const COMMAND_EEVDF_RATIO: f64 = 3.0;
/// The same on a host that may stop a virtual CPU in the middle of a wake-up.
const WORK_CONSERVING_BUSY_HOST_PCT: f64 = 95.0;
/// Share of the other lane in the CPU time of a build that nobody waits for.
const SCROLL_OTHER_LANE_PCT: f64 = 95.0;
/// A listing in a terminal against EEVDF's with nothing else running, median and longest: without load, and beside one.
const CONSOLE_TO_EEVDF_RATIO: f64 = 1.1;
const CONSOLE_LOADED_TO_EEVDF_RATIO: f64 = 1.3;
/// Commands there against EEVDF's, which is at its best where all hogs share one cgroup, and is the load that it ought to be in the flat one.
const COMMANDS_ON_CPUS: [(Grouping, f64); 4] = [
    (Grouping::Flat, 1.0 / COMMAND_EEVDF_RATIO),
    (Grouping::Scopes, 1.0),
    (Grouping::ScopesMany, 0.6),
    (Grouping::ScopesShared, 0.6),
];
/// An active console, its worst command (RSIO section 6.1).
const CONSOLE_MAX_RATIO: f64 = 1.5;
/// Commands in Octave over ssh, the worst (6.2), and how many of the ten there must be; the loop is scenario `octave`'s, which
/// prints, or the paper's.
const OCTAVE_MAX_RATIO: f64 = 1.1;
const OCTAVE_LEAST: u64 = 8;
/// Share of the other lane in the CPU time of the long loop there, per cent.
const OCTAVE_LOOP_OTHER_LANE_PCT: f64 = 90.0;
/// Short commands of 20 users, ms (6.5).
const MULTIUSER_P90_MS: f64 = 100.0;
const MULTIUSER_MAX_MS: f64 = 500.0;
/// As many of them at least, or some user had none.
const MULTIUSER_LEAST: u64 = 20;

/// What somebody waits for although it computes: lines of 0.1, 0.75, 5 and 60 s of CPU, and a build of one's own.
const OWN_WORK: [(&str, &str); 5] = [
    ("interpreter-short", "short_line_in_an_interpreter"),
    ("interpreter", "line_in_an_interpreter"),
    ("interpreter-long", "long_line_in_an_interpreter"),
    ("interpreter-minute", "line_of_a_minute_in_an_interpreter"),
    ("own-build", "build_of_ones_own"),
];
const OWN_WORK_TO_EEVDF_RATIO: f64 = 1.0;
/// The worst listing beside a build under policy rsio, against alone: 28 ms and 10 (RSIO section 6.1).
const CONSOLE_BY_RSIO_RATIO: f64 = 2.8;

/// Checks of commands.
pub(super) fn checks(extent: Extent) -> Vec<Check> {
    let mut checks = Vec::new();
    for kernel in extent.thorough() {
        for load in extent.of(&["hogs:16"], &["hogs:64", "hogs:16"]) {
            checks.push(Check::at(kernel, load, "command_is_as_fast_as_alone", in_layout(scopes, command)));
        }
        for load in extent.of(&["none"], &["none", "hogs:4", "hogs:16", "hogs:64", "build:16"]) {
            checks.push(Check::at(kernel, load, "scrolling_build_stays_in_the_other_lane", scroll));
        }
        if !extent.full {
            checks.push(Check::on(kernel, "command_is_slow_under_eevdf", command_under_eevdf));
            checks.push(Check::on(kernel, "two_cpus_are_kept_at_work", two_cpus));
            continue;
        }
        for load in ["hogs:64", "hogs:16"] {
            let in_one = in_layout(Spec::flat, command);
            checks.push(Check::at(kernel, load, "command_in_one_cgroup_is_as_fast_as_alone", in_one));
        }
        for load in ["hogs:16", "build:16"] {
            for (scenario, what) in OWN_WORK {
                let goes_on = move |machines: &Machines, kernel: &str, load| own_work(machines, kernel, load, scenario);
                checks.push(Check::at(kernel, load, &format!("{what}_goes_on"), goes_on));
            }
        }
        for (name, scenario) in
            [("twenty_users_do_not_wait", "multiuser"), ("twenty_users_of_long_commands_do_not_wait", "multiuser-long")]
        {
            let users = move |machines: &Machines, kernel: &str| multiuser(machines, kernel, scenario);
            checks.push(Check::on(kernel, name, users));
        }
        checks.push(Check::at(kernel, "build:64", "console_is_nearly_as_fast_as_alone", console));
        checks.push(Check::at(kernel, "build:64", "console_by_rsio_keeps_the_papers_ratio", console_by_rsio));
        // The paper's loop takes a minute and a half alone: at the highest load only.
        checks.push(Check::at(
            kernel,
            "build:64",
            "octave_that_solves_answers_as_fast_as_alone",
            |machines, kernel, load| octave(machines, kernel, load, "octave-solve"),
        ));
        for load in BUILDS {
            checks.push(Check::at(kernel, load, "octave_answers_as_fast_as_alone", |machines, kernel, load| {
                octave(machines, kernel, load, "octave")
            }));
        }
    }
    for kernel in extent.kernels {
        if extent.full {
            for loads in LOADS_OF_CPUS {
                let commands = move |machines: &Machines, kernel: &str| commands_on_cpus(machines, kernel, loads);
                checks.push(Check::on(kernel, &format!("commands_are_ahead_of_eevdf_on_{}_cpus", loads.0), commands));
            }
            checks.push(Check::at(kernel, "build:64", "console_is_as_fast_as_alone_under_eevdf", console_loaded));
        }
        // Where the vertical blank is not waited for, a listing is a quarter of the work.
        if extent.full || kernel.starts_with(WITHOUT_BLANK) {
            checks.push(Check::on(kernel, "console_alone_is_as_fast_as_under_eevdf", console_alone));
        }
    }
    checks
}

fn command(machines: &Machines, kernel: &str, load: &'static str, layout: Layout) -> anyhow::Result<()> {
    let runs = loaded_and_alone_in(machines, ("command", "appease"), kernel, load, layout)?;
    runs.iter().try_for_each(all_answered)?;
    let [loaded, alone] = spreads(runs.each_ref(), "command_ms")?;
    enough("commands", loaded, 3)?;
    within(&format!("p50 of commands at {load}, {kernel}"), loaded.p50, alone.p50, COMMAND_RATIO)?;
    within(&format!("p90 of commands at {load}, {kernel}"), loaded.p90, alone.p90, COMMAND_RATIO)
}

/// In one cgroup with the hogs: what one of its own gives is asked of EEVDF elsewhere.
fn command_under_eevdf(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    let [eevdf, ours] = machines.good_runs([
        Spec::new("command", "eevdf", "hogs:16").on(kernel).flat(),
        Spec::new("command", "appease", "hogs:16").on(kernel).flat(),
    ])?;
    let [eevdf, ours] = spreads([&eevdf, &ours], "command_ms")?;
    within("p50 of commands against EEVDF's", ours.p50, eevdf.p50, 1.0 / COMMAND_EEVDF_RATIO)
}

/// Commands beside 4 hogs a CPU, against EEVDF's in the same layout.
fn commands_on_cpus(machines: &Machines, kernel: &str, (cpus, hogs, _): LoadsOfCpus) -> anyhow::Result<()> {
    let mut faults = Vec::new();
    for (layout, ratio) in COMMANDS_ON_CPUS {
        let spec = |scheduler| Spec::new("command", scheduler, hogs).on(kernel).on_cpus(cpus).laid_out(layout);
        let [run, eevdf] = machines.good_runs([spec("appease"), spec("eevdf")])?;
        let [ours, eevdf] = spreads([&run, &eevdf], "command_ms")?;
        enough("commands under appease", ours, 3)?;
        let what = |which: &str| format!("{which} of commands on {cpus} CPUs against EEVDF's, {layout}, {kernel}");
        faults.extend(within(&what("p50"), ours.p50, eevdf.p50, ratio).err());
        faults.extend(within(&what("p90"), ours.p90, eevdf.p90, ratio).err());
        faults.extend(conserves_work(&run, WORK_CONSERVING_PCT).err());
    }
    all_hold(&faults)
}

/// With several CPUs, in host time: the scheduler stays attached, and leaves no CPU idle that somebody waits for.
fn two_cpus(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    let [run] = machines.good_runs_in_one_boot("command", ["appease"], "hogs:8", kernel, 2)?;
    enough("commands on 2 CPUs", spread(&run, "command_ms")?, 3)?;
    conserves_work(&run, WORK_CONSERVING_BUSY_HOST_PCT)
}

fn console(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    longest(machines, ("console", "appease", "command_ms", 2), kernel, load, CONSOLE_MAX_RATIO)
}

fn console_by_rsio(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    longest(machines, ("console", "appease:rsio", "command_ms", 2), kernel, load, CONSOLE_BY_RSIO_RATIO)
}

/// A listing in a terminal with nothing else running, against EEVDF's in the same machine.
fn console_alone(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    console_to_eevdf(machines, kernel, "none", CONSOLE_TO_EEVDF_RATIO)
}

/// The same beside a build, still against EEVDF's with nothing else running.
fn console_loaded(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    console_to_eevdf(machines, kernel, load, CONSOLE_LOADED_TO_EEVDF_RATIO)
}

fn console_to_eevdf(machines: &Machines, kernel: &str, load: &'static str, ratio: f64) -> anyhow::Result<()> {
    let [ours, eevdf] = machines.good_runs([
        Spec::new("console", "appease", load).on(kernel),
        Spec::new("console", "eevdf", "none").on(kernel),
    ])?;
    let [ours, eevdf] = spreads([&ours, &eevdf], "command_ms")?;
    enough("listings", ours, 3)?;
    let what = |which: &str| format!("a listing at {load}, {which}, against EEVDF's alone, {kernel}");
    within(&what("median"), ours.p50, eevdf.p50, ratio)?;
    within(&what("longest"), ours.max, eevdf.max, ratio)
}

/// What somebody typed that computes for long, in one cgroup with the load and in one of its own, against EEVDF's in one of its own.
fn own_work(machines: &Machines, kernel: &str, load: &'static str, scenario: &'static str) -> anyhow::Result<()> {
    let spec = |scheduler| Spec::new(scenario, scheduler, load).on(kernel);
    let [flat, scopes, eevdf] = machines.good_runs([spec("appease").flat(), spec("appease"), spec("eevdf")])?;
    let eevdf = spread(&eevdf, "command_ms")?;
    for (layout, ours) in [("flat", &flat), ("scopes", &scopes)] {
        let ours = spread(ours, "command_ms")?;
        enough(scenario, ours, 3)?;
        let what = |which: &str| format!("{which} of {scenario} at {load}, {layout}, against EEVDF's scopes, {kernel}");
        within(&what("p50"), ours.p50, eevdf.p50, OWN_WORK_TO_EEVDF_RATIO)?;
        within(&what("longest"), ours.max, eevdf.max, OWN_WORK_TO_EEVDF_RATIO)?;
    }
    Ok(())
}

fn octave(machines: &Machines, kernel: &str, load: &'static str, scenario: &'static str) -> anyhow::Result<()> {
    longest(machines, (scenario, "appease", "load_ms", OCTAVE_LEAST), kernel, load, OCTAVE_MAX_RATIO)?;
    for run in loaded_and_alone(machines, (scenario, "appease"), kernel, load)? {
        let (other, allowed) = (value(&run, "other_lane_pct")?, OCTAVE_LOOP_OTHER_LANE_PCT);
        ensure!(
            other >= allowed,
            "{other:.1} % of the loop's CPU time in the other lane at {}; least {allowed} %",
            run.load
        );
    }
    Ok(())
}

fn multiuser(machines: &Machines, kernel: &str, scenario: &'static str) -> anyhow::Result<()> {
    let [run, niced] = machines.good_runs([
        Spec::new(scenario, "appease", "users:20").on(kernel),
        Spec::new(scenario, "eevdf-nice", "users:20").on(kernel).flat(),
    ])?;
    let [short, of_niced] = spreads([&run, &niced], "short_ms")?;
    let longest = longest_ms(&run, "short_ms")?;
    println!("{scenario}, short commands of 20 users: p90 {:.1}, longest {longest:.1} ms, {kernel}", short.p90);
    enough("short commands", short, MULTIUSER_LEAST)?;
    ensure!(short.p90 < MULTIUSER_P90_MS, "p90 is {:.1} ms; allowed are {MULTIUSER_P90_MS} ms", short.p90);
    ensure!(longest < MULTIUSER_MAX_MS, "the longest took {longest:.1} ms; allowed are {MULTIUSER_MAX_MS} ms");
    ensure!(short.p90 < of_niced.p90, "p90 is {:.1} ms, under EEVDF with nice -10 {:.1} ms", short.p90, of_niced.p90);
    Ok(())
}

fn scroll(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    let [run] = machines.good_runs([Spec::new("scroll", "appease", load).on(kernel)])?;
    let share = value(&run, "other_lane_pct")?;
    println!("{share:.2} % of the untouched build's CPU time in the other lane at {load}, {kernel}");
    ensure!(
        share >= SCROLL_OTHER_LANE_PCT,
        "the untouched build had {share:.1} % of its CPU time in the other lane; at least {SCROLL_OTHER_LANE_PCT} % are wanted"
    );
    Ok(())
}
