//! The checks, and the thresholds that they hold figures to. Ratios are to figures of the same kernel and image.

use anyhow::ensure;
use appease_scenario::Summary;

use crate::machines::{Machines, Spec, spread, value};

/// Typing under load against typing without.
const TYPING_P50_RATIO: f64 = 1.1;
const TYPING_P90_RATIO: f64 = 1.2;
const TYPING_MAX_RATIO: f64 = 1.3;
/// Typing without load, against EEVDF: what watching costs.
const TYPING_UNLOADED_TO_EEVDF_RATIO: f64 = 1.2;
/// A command under load against the same without.
const COMMAND_RATIO: f64 = 1.1;
/// How many times longer the command takes under EEVDF at 16 hogs, at least: else the load is no load.
const COMMAND_EEVDF_RATIO: f64 = 3.0;
/// How many times faster than under EEVDF a command is on several CPUs with 4 hogs on each, at least. In host time: a host
/// that slows down between the two rounds spoils it.
const SPEEDUP: f64 = 3.0;
/// Hogs for each CPU there.
const HOGS_PER_CPU: u32 = 4;
/// Least share of the time in which no CPU is idle while a task waits for one, per cent. The laboratory's own figure is 99; this
/// one is lower, for a host that stops a virtual CPU in the middle of a wake-up.
const WORK_CONSERVING_PCT: f64 = 95.0;
/// Instructions of work without any interaction, against EEVDF.
const COST_RATIO: f64 = 1.1;
/// Share of the other lane in the CPU time of a build that nobody waits for.
const SCROLL_OTHER_LANE_PCT: f64 = 95.0;

type Holds = Box<dyn FnOnce(&Machines) -> anyhow::Result<()> + Send>;

/// Something that must hold.
pub struct Check {
    /// Its name.
    pub name: String,
    /// Its figures depend on what else the host does: only on request.
    pub in_host_time: bool,
    /// Makes the runs, and says why it does not hold.
    pub holds: Holds,
}

impl Check {
    fn new(name: &str, holds: impl FnOnce(&Machines) -> anyhow::Result<()> + Send + 'static) -> Self {
        Self { name: name.to_owned(), in_host_time: false, holds: Box::new(holds) }
    }

    /// One whose machines run in host time.
    fn in_host_time(name: &str, holds: impl FnOnce(&Machines) -> anyhow::Result<()> + Send + 'static) -> Self {
        Self { in_host_time: true, ..Self::new(name, holds) }
    }
}

/// All checks. The longest runs come first, so that no processor is idle at the end.
pub fn all(kernels: &[&str]) -> Vec<Check> {
    let mut checks = vec![
        Check::new("command_at_hogs_is_as_fast_as_alone", command_at_hogs),
        Check::new("command_is_slow_under_eevdf", command_under_eevdf),
        Check::new("two_cpus_are_kept_at_work", two_cpus),
        Check::in_host_time("command_is_fast_on_2_cpus", |machines| command_on_cpus(machines, 2)),
        Check::in_host_time("command_is_fast_on_4_cpus", |machines| command_on_cpus(machines, 4)),
        Check::new("video_at_hogs_loses_no_frame", video_at_hogs),
        Check::new("typing_at_hogs_is_as_fast_as_alone", typing_at_hogs),
        Check::new("typing_alone_costs_little", typing_alone),
        Check::new("nobody_served_costs_little", cost),
        Check::new("scrolling_build_stays_in_the_other_lane", scroll),
    ];
    for kernel in kernels {
        let on = (*kernel).to_owned();
        checks.push(Check::new(&format!("sense_{kernel}"), move |machines| sense(machines, &on)));
        let on = (*kernel).to_owned();
        checks.push(Check::new(&format!("scheduler_stays_attached_{kernel}"), move |machines| attached(machines, &on)));
    }
    checks
}

fn within(what: &str, figure: f64, base: f64, limit: f64) -> anyhow::Result<()> {
    ensure!(base > 0.0, "{what}: the figure to compare with is {base}");
    let ratio = figure / base;
    ensure!(ratio <= limit, "{what}: {figure:.3} is {ratio:.2} × {base:.3}; allowed is {limit} ×");
    Ok(())
}

/// A ratio means something only over enough samples.
fn enough(what: &str, summary: &Summary, least: u64) -> anyhow::Result<()> {
    ensure!(summary.n >= least, "{what}: {} samples, at least {least} are needed", summary.n);
    Ok(())
}

fn typing_at_hogs(machines: &Machines) -> anyhow::Result<()> {
    let [alone, loaded] =
        machines.good_runs([Spec::new("typing", "appease", "none"), Spec::new("typing", "appease", "hogs:16")])?;
    let (alone, loaded) = (spread(&alone, "key_to_screen_ms")?, spread(&loaded, "key_to_screen_ms")?);
    enough("keys at hogs:16", loaded, 10)?;
    within("p50 of keys at hogs:16", loaded.p50, alone.p50, TYPING_P50_RATIO)?;
    within("p90 of keys at hogs:16", loaded.p90, alone.p90, TYPING_P90_RATIO)?;
    within("longest of keys at hogs:16", loaded.max, alone.max, TYPING_MAX_RATIO)
}

fn typing_alone(machines: &Machines) -> anyhow::Result<()> {
    let [ours, eevdf] =
        machines.good_runs([Spec::new("typing", "appease", "none"), Spec::new("typing", "eevdf", "none")])?;
    let (ours, eevdf) = (spread(&ours, "key_to_screen_ms")?, spread(&eevdf, "key_to_screen_ms")?);
    within("p50 of keys without load", ours.p50, eevdf.p50, TYPING_UNLOADED_TO_EEVDF_RATIO)
}

fn command_at_hogs(machines: &Machines) -> anyhow::Result<()> {
    let [loaded, alone] =
        machines.good_runs([Spec::new("command", "appease", "hogs:16"), Spec::new("command", "appease", "none")])?;
    let (loaded, alone) = (spread(&loaded, "command_ms")?, spread(&alone, "command_ms")?);
    enough("commands at hogs:16", loaded, 3)?;
    within("p50 of commands at hogs:16", loaded.p50, alone.p50, COMMAND_RATIO)?;
    within("p90 of commands at hogs:16", loaded.p90, alone.p90, COMMAND_RATIO)
}

fn command_under_eevdf(machines: &Machines) -> anyhow::Result<()> {
    let [eevdf, ours] =
        machines.good_runs([Spec::new("command", "eevdf", "hogs:16"), Spec::new("command", "appease", "hogs:16")])?;
    let (eevdf, ours) = (spread(&eevdf, "command_ms")?, spread(&ours, "command_ms")?);
    within("p50 of commands against EEVDF's", ours.p50, eevdf.p50, 1.0 / COMMAND_EEVDF_RATIO)
}

/// In host time, and so in one boot; whatever else keeps the host busy meanwhile falls on one of the two.
fn command_on_cpus(machines: &Machines, cpus: u32) -> anyhow::Result<()> {
    let load = format!("hogs:{}", HOGS_PER_CPU * cpus);
    let [eevdf, ours] = machines.good_runs_in_one_boot("command", ["eevdf", "appease"], &load, cpus)?;
    let (eevdf, ours) = (spread(&eevdf, "command_ms")?, spread(&ours, "command_ms")?);
    enough("commands under appease", ours, 3)?;
    within("p50 of commands against EEVDF's in the same boot", ours.p50, eevdf.p50, 1.0 / SPEEDUP)
}

/// With several CPUs, in host time: the scheduler stays attached, and leaves no CPU idle that somebody waits for.
fn two_cpus(machines: &Machines) -> anyhow::Result<()> {
    let [run] = machines.good_runs_in_one_boot("command", ["appease"], "hogs:8", 2)?;
    enough("commands on 2 CPUs", spread(&run, "command_ms")?, 3)?;
    let share = value(&run, "work_conserving_pct")?;
    ensure!(share >= WORK_CONSERVING_PCT, "a CPU was idle while a task waited for {:.1} % of the time", 100.0 - share);
    Ok(())
}

/// In exact mode, where a millisecond is a million instructions.
fn cost(machines: &Machines) -> anyhow::Result<()> {
    let [ours, eevdf] =
        machines.good_runs([Spec::new("cost", "appease", "none"), Spec::new("cost", "eevdf", "none")])?;
    for work in ["pipe", "messaging", "build"] {
        let figure = format!("{work}_busy_ms");
        within(&format!("instructions of {work}"), value(&ours, &figure)?, value(&eevdf, &figure)?, COST_RATIO)?;
    }
    Ok(())
}

fn video_at_hogs(machines: &Machines) -> anyhow::Result<()> {
    let [run] = machines.good_runs([Spec::new("video", "appease", "hogs:16")])?;
    let dropped = value(&run, "video_dropped_pct")?;
    ensure!(value(&run, "video_fps")? > 0.0, "no frame was shown at all");
    ensure!(dropped == 0.0, "{dropped} % of the frames were dropped at hogs:16");
    Ok(())
}

fn scroll(machines: &Machines) -> anyhow::Result<()> {
    let [run] = machines.good_runs([Spec::new("scroll", "appease", "none")])?;
    let share = value(&run, "other_lane_pct")?;
    ensure!(
        share >= SCROLL_OTHER_LANE_PCT,
        "the untouched build had {share:.1} % of its CPU time in the other lane; at least {SCROLL_OTHER_LANE_PCT} % are wanted"
    );
    Ok(())
}

/// Who gets attention, and who does not: the guest's own checks, one for each channel and IPC kind.
fn sense(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    let [run] = machines.good_runs([Spec::new("sense", "appease", "none").on(kernel)])?;
    let (made, failed) = (value(&run, "checks")?, value(&run, "checks_failed")?);
    ensure!(made > 0.0, "no check was made");
    ensure!(failed == 0.0, "{failed} of {made} checks failed: {}", run.detail);
    Ok(())
}

/// The programs load on this kernel, and the scheduler is still attached at the end of a loaded run.
fn attached(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    let [run] = machines.good_runs([Spec::new("typing", "appease", "hogs:16").on(kernel)])?;
    ensure!(!run.kernel.is_empty(), "the kernel's version is not in the result");
    ensure!(kernel == "default" || run.kernel.starts_with(kernel), "kernel {kernel} was asked for, {} ran", run.kernel);
    enough("keys", spread(&run, "key_to_screen_ms")?, 10)
}
