//! What checks hold figures to, and how they come by them.

use anyhow::ensure;
use appease_scenario::{Run, Summary};

use crate::machines::{Machines, Spec, spread, value};

/// Least share of the time in which no CPU is idle while a task waits for one, per cent.
pub(super) const WORK_CONSERVING_PCT: f64 = 99.0;

/// Puts programs into cgroups, or into one.
pub(super) type Layout = fn(Spec) -> Spec;

/// As a run has it by itself.
pub(super) fn scopes(spec: Spec) -> Spec {
    spec
}

/// A check in a layout.
pub(super) fn in_layout(
    layout: Layout,
    holds: fn(&Machines, &str, &'static str, Layout) -> anyhow::Result<()>,
) -> impl FnOnce(&Machines, &str, &'static str) -> anyhow::Result<()> + Send + 'static {
    move |machines, kernel, load| holds(machines, kernel, load, layout)
}

/// A scenario under a scheduler at a load, and without any.
pub(super) fn loaded_and_alone(
    machines: &Machines,
    of: (&'static str, &'static str),
    kernel: &str,
    load: &'static str,
) -> anyhow::Result<[Run; 2]> {
    loaded_and_alone_in(machines, of, kernel, load, scopes)
}

/// The same in a layout.
pub(super) fn loaded_and_alone_in(
    machines: &Machines,
    (scenario, scheduler): (&'static str, &'static str),
    kernel: &str,
    load: &'static str,
    layout: Layout,
) -> anyhow::Result<[Run; 2]> {
    machines.good_runs([load, "none"].map(|load| layout(Spec::new(scenario, scheduler, load).on(kernel))))
}

pub(super) fn within(what: &str, figure: f64, base: f64, limit: f64) -> anyhow::Result<()> {
    ensure!(base > 0.0, "{what}: the figure to compare with is {base}");
    let ratio = figure / base;
    println!("{what}: {figure:.3} is {ratio:.2} × {base:.3}; allowed is {limit} ×");
    ensure!(ratio <= limit, "{what}: {figure:.3} is {ratio:.2} × {base:.3}; allowed is {limit} ×");
    Ok(())
}

/// A ratio means something only over enough samples.
pub(super) fn enough(what: &str, summary: &Summary, least: u64) -> anyhow::Result<()> {
    ensure!(summary.n >= least, "{what}: {} samples, at least {least} are needed", summary.n);
    Ok(())
}

/// A key or a command without an answer is none of the samples, however long it waits.
pub(super) fn all_answered(run: &Run) -> anyhow::Result<()> {
    for unanswered in
        ["key_to_screen_unanswered", "command_unanswered"].into_iter().filter(|name| run.metrics.contains_key(*name))
    {
        let number = value(run, unanswered)?;
        ensure!(number == 0.0, "{unanswered} is {number} at {}, {}; none may be", run.load, run.kernel);
    }
    Ok(())
}

/// The same distribution of several runs.
pub(super) fn spreads<'a, const N: usize>(runs: [&'a Run; N], metric: &str) -> anyhow::Result<[&'a Summary; N]> {
    let found = runs.into_iter().map(|run| spread(run, metric)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(std::array::from_fn(|i| found[i]))
}

/// The longest that a scenario's wait took, ms; over ssh, the end may have cut off a longer one.
pub(super) fn longest_ms(run: &Run, metric: &str) -> anyhow::Result<f64> {
    let cut_off = metric.replace("_ms", "_unanswered_for_ms");
    let so_far = if run.metrics.contains_key(&cut_off) { value(run, &cut_off)? } else { 0.0 };
    Ok(spread(run, metric)?.max.max(so_far))
}

/// The longest of a scenario's waits under load, of so many at least, against the longest without.
pub(super) fn longest(
    machines: &Machines,
    (scenario, scheduler, metric, least): (&'static str, &'static str, &str, u64),
    kernel: &str,
    load: &'static str,
    ratio: f64,
) -> anyhow::Result<()> {
    let runs = loaded_and_alone(machines, (scenario, scheduler), kernel, load)?;
    runs.iter().try_for_each(all_answered)?;
    let [loaded, alone] = [longest_ms(&runs[0], metric)?, longest_ms(&runs[1], metric)?];
    for run in &runs {
        enough(&format!("{metric} at {}", run.load), spread(run, metric)?, least)?;
    }
    within(&format!("longest {metric} of {scenario} under {scheduler} at {load}, {kernel}"), loaded, alone, ratio)
}

pub(super) fn all_hold(failed: &[anyhow::Error]) -> anyhow::Result<()> {
    let reasons: Vec<String> = failed.iter().map(|error| format!("{error:#}")).collect();
    ensure!(reasons.is_empty(), "{}", reasons.join("; "));
    Ok(())
}

pub(super) fn conserves_work(run: &Run, least: f64) -> anyhow::Result<()> {
    let share = value(run, "work_conserving_pct")?;
    println!("{share:.2} % of the time no CPU was idle while a task waited; at least {least} % are wanted");
    ensure!(share >= least, "a CPU was idle while a task waited for {:.2} % of the time", 100.0 - share);
    Ok(())
}

pub(super) fn no_frame_lost(run: &Run) -> anyhow::Result<()> {
    let dropped = value(run, "video_dropped_pct")?;
    ensure!(value(run, "video_fps")? > 0.0, "no frame was shown at all");
    println!("{dropped} % of the frames dropped at {}, {}", run.load, run.kernel);
    ensure!(dropped == 0.0, "{dropped} % of the frames were dropped at {}", run.load);
    Ok(())
}

/// A scenario of checks, of which none may fail. It makes the cgroups itself that it needs.
pub(super) fn checked(machines: &Machines, spec: Spec) -> anyhow::Result<Run> {
    let [run] = machines.good_runs([spec.flat()])?;
    none_failed(run)
}

pub(super) fn none_failed(run: Run) -> anyhow::Result<Run> {
    let (made, failed) = (value(&run, "checks")?, value(&run, "checks_failed")?);
    ensure!(made > 0.0, "no check was made");
    ensure!(failed == 0.0, "{failed} of {made} checks failed: {}", run.detail);
    Ok(run)
}
