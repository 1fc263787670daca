//! Kernels without sched_ext: nice values.

use anyhow::ensure;
use appease_scenario::Run;

use super::{
    Check, Extent,
    figures::{all_answered, checked, enough, spreads, within},
    guest::sense,
};
use crate::machines::{Machines, Spec, value};

/// A kernel without sched_ext, where nice values are what there is.
pub const NICE_KERNEL: &str = "6.12";
/// How many times faster than under EEVDF a command is by nice values at 16 hogs, at least: five sixths of the CPU for one of 17
/// would be 14.
const COMMAND_BY_NICE_RATIO: f64 = 8.0;
/// Policy rbpe on that kernel, against EEVDF on it (Customer Appeasement, sections 7.2 to 7.4): how many times faster a web server's
/// files are mirrored at the highest load, and the mean transaction of a database is at 12 compilers; and frames that a
/// film may lose there, per cent.
const RBPE_WEB_RATIO: f64 = 1.5;
const RBPE_DATABASE_RATIO: f64 = 2.1;
const RBPE_DROPPED_PCT: f64 = 1.0;
/// For how long a load is there before: the policy goes by the load of the last minute.
const RBPE_SETTLE_S: u32 = 60;

/// Checks of nice values.
pub(super) fn checks(extent: Extent) -> Vec<Check> {
    let mut checks = vec![Check::on(NICE_KERNEL, "nice_values_are_given_back", nice)];
    let by_nice = extent.thorough().iter().copied().chain(extent.full.then_some(NICE_KERNEL));
    checks.extend(by_nice.map(|kernel| Check::on(kernel, "command_is_fast_by_nice_values", command_by_nice)));
    if extent.full {
        checks.push(Check::on(NICE_KERNEL, "sense_of_rsio", |machines, kernel| {
            sense(machines, kernel, "appease:rsio@nice")
        }));
        checks.push(Check::at(NICE_KERNEL, "build:30", "web_server_is_faster_by_rbpe", web_server_by_rbpe));
        checks.push(Check::at(NICE_KERNEL, "build:12", "database_is_faster_by_rbpe", database_by_rbpe));
        checks.push(Check::at(NICE_KERNEL, "build:12", "film_loses_hardly_a_frame_by_rbpe", film_by_rbpe));
    }
    checks
}

/// Whose nice values are changed, and that all are given back: the guest's own checks.
fn nice(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    checked(machines, Spec::new("nice", "eevdf", "none").on(kernel)).map(drop)
}

/// In one cgroup with the hogs: a nice value counts among the tasks of a group, and not beside other groups.
fn command_by_nice(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    let runs = ["eevdf", "appease@nice"].map(|scheduler| Spec::new("command", scheduler, "hogs:16").on(kernel).flat());
    let [eevdf, ours] = machines.good_runs(runs)?;
    all_answered(&ours)?;
    let [of_eevdf, of_ours] = spreads([&eevdf, &ours], "command_ms")?;
    enough("commands", of_ours, 3)?;
    within("p50 of commands by nice values against EEVDF's", of_ours.p50, of_eevdf.p50, 1.0 / COMMAND_BY_NICE_RATIO)
}

/// Scenarios at a load that has been there for a while, under each of these; in one cgroup, as the paper's systems had them.
fn settled<const N: usize>(
    machines: &Machines,
    scenario: &'static str,
    schedulers: [&'static str; N],
    kernel: &str,
    load: &'static str,
) -> anyhow::Result<[Run; N]> {
    let spec = |scheduler| Spec::new(scenario, scheduler, load).on(kernel).settled(RBPE_SETTLE_S).flat();
    machines.good_runs(schedulers.map(spec))
}

fn web_server_by_rbpe(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    let [eevdf, ours] = settled(machines, "apache", ["eevdf", "appease:rbpe@nice"], kernel, load)?;
    let [eevdf, ours] = spreads([&eevdf, &ours], "mirror_ms")?;
    enough("mirrored trees", ours, 2)?;
    within(&format!("mean of mirrored trees by rbpe at {load}, {kernel}"), ours.mean, eevdf.mean, 1.0 / RBPE_WEB_RATIO)
}

fn database_by_rbpe(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    let [eevdf, ours] = settled(machines, "mysql", ["eevdf", "appease:rbpe@nice"], kernel, load)?;
    let [eevdf, ours] = spreads([&eevdf, &ours], "transaction_ms")?;
    enough("transactions", ours, 100)?;
    within(&format!("mean transaction by rbpe at {load}, {kernel}"), ours.mean, eevdf.mean, 1.0 / RBPE_DATABASE_RATIO)
}

fn film_by_rbpe(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    let [ours] = settled(machines, "mplayer-cif", ["appease:rbpe@nice"], kernel, load)?;
    let dropped = value(&ours, "video_dropped_pct")?;
    println!("{dropped:.2} % of frames dropped by rbpe at {load}, {kernel}; allowed are {RBPE_DROPPED_PCT} %");
    ensure!(dropped <= RBPE_DROPPED_PCT, "{dropped:.2} % of frames dropped; allowed are {RBPE_DROPPED_PCT} %");
    Ok(())
}
