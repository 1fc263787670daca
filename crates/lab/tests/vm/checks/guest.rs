//! The guest's own checks, and that the scheduler stays.

use anyhow::{Context, ensure};
use appease_scenario::{Outcome, Run};

use super::{
    Check, Extent,
    figures::{WORK_CONSERVING_PCT, checked, conserves_work, enough, none_failed},
};
use crate::machines::{Machines, Spec, spread, value};

/// Machines on which every policy loads: CPUs, last-level caches, CPUs of a core.
const LOADED_ON: [(u32, u32, u32); 8] =
    [(1, 1, 1), (2, 1, 1), (4, 1, 1), (4, 2, 1), (4, 4, 1), (8, 2, 2), (16, 1, 1), (16, 2, 1)];

/// Families of attacks (`crates/guest/src/sense/abuse/kinds.h`): a check for each, so that one that is known to gain hides no other.
const ATTACKS: [&str; 16] = [
    "own",
    "partners",
    "network",
    "ruled",
    "terminals",
    "devices",
    "sound",
    "processes",
    "timing",
    "classes",
    "cgroups",
    "locks",
    "disguise",
    "namespaces",
    "served",
    "memory",
];
/// Begins the reason of a run in which checks failed.
const FAILED: &str = "failed checks: ";

/// The guest's own checks.
pub(super) fn checks(extent: Extent) -> Vec<Check> {
    let mut checks = Vec::new();
    for (number, kernel) in extent.kernels.iter().enumerate() {
        // The short form senses with one policy on the newest kernel, and with the other on older ones.
        if extent.full || number == 0 {
            checks.push(Check::on(kernel, "sense", |machines, kernel| sense(machines, kernel, "appease")));
        }
        if extent.full || number > 0 {
            checks.push(Check::on(kernel, "sense_of_rsio", |machines, kernel| sense(machines, kernel, "appease:rsio")));
        }
    }
    for kernel in extent.thorough() {
        if extent.full {
            for family in ATTACKS {
                let holds = move |machines: &Machines, kernel: &str| no_gain(machines, kernel, "appease", family);
                checks.push(Check::on(kernel, &format!("no_gain_by_{family}"), holds));
                let holds = move |machines: &Machines, kernel: &str| no_gain(machines, kernel, "appease:rsio", family);
                checks.push(Check::on(kernel, &format!("no_gain_of_rsio_by_{family}"), holds));
            }
        } else {
            checks.push(Check::on(kernel, "no_gain_by_tricks", no_gain_at_all));
        }
        checks.push(Check::on(kernel, "keys_are_guessed_by_chance_alone", guess));
        checks.push(Check::on(kernel, "programs_are_served", programs));
        checks.push(Check::on(kernel, "kernel_threads_with_time_wait_for_a_pause", background));
        checks.push(Check::on(kernel, "nice_values_and_policies_keep_their_meaning", classes));
        checks.push(Check::on(kernel, "affinity_is_kept_and_cpus_may_go_and_come", cpus).in_host_time());
        checks.push(Check::on(kernel, "kernel_schedules_as_before_without_us", leaving));
        checks.push(Check::on(kernel, "clock_goes_by_what_runs", power));
        checks.push(Check::on(kernel, "cpus_may_come_late_or_be_isolated", late_and_isolated));
        checks.push(Check::on(kernel, "cpus_of_the_laboratory_are_equal", turns));
        if extent.full {
            checks.push(Check::on(kernel, "cpus_may_have_gaps_in_their_numbers", gaps));
            checks.push(Check::on(kernel, "a_busy_cache_is_left_for_one_of_the_same_node", nodes));
            checks.push(Check::on(kernel, "requests_beyond_their_budgets_share_by_weight", beyond));
        }
        for (caches, nodes) in extent.of(&[(4, 2)], &[(4, 2), (1, 1)]) {
            let cores = move |machines: &Machines, kernel: &str| cores(machines, kernel, *caches, *nodes);
            checks.push(Check::on(kernel, &format!("tasks_have_a_core_each_with_{caches}_caches"), cores));
        }
        for (cpus, caches) in extent.of(&[(1, 1)], &[(1, 1), (2, 1), (4, 1), (4, 2), (4, 4), (8, 1)]) {
            let shares = move |machines: &Machines, kernel: &str| shares(machines, kernel, *cpus, *caches);
            checks.push(Check::on(kernel, &format!("shares_are_kept_on_{cpus}_cpus_with_{caches}_caches"), shares));
        }
    }
    for kernel in extent.kernels {
        checks.push(Check::on(kernel, "children_of_realtime_programs_keep_no_class_of_ours", reserve));
        for (cpus, caches, threads) in extent.of(&[(4, 1, 1)], &LOADED_ON) {
            let loads = move |machines: &Machines, kernel: &str| loads(machines, kernel, *cpus, *caches, *threads);
            let name = format!("every_policy_loads_on_{cpus}_cpus_with_{caches}_caches_and_{threads}_threads");
            checks.push(Check::on(kernel, &name, loads));
        }
        if extent.full {
            for cpus in [2, 4, 8] {
                let stays = move |machines: &Machines, kernel: &str| stress(machines, kernel, cpus);
                checks.push(Check::on(kernel, &format!("scheduler_stays_beside_stress_on_{cpus}_cpus"), stays));
            }
            checks.push(Check::on(kernel, "counts_of_open_requests_heal_on_4_cpus", heals));
            for (load, cpus, caches) in [("hogs:16", 16, 2), ("hogs:32", 32, 4), ("hogs:64", 64, 8)] {
                let stays =
                    move |machines: &Machines, kernel: &str, load| many_cpus(machines, kernel, load, (cpus, caches));
                checks.push(Check::at(kernel, load, &format!("scheduler_stays_attached_on_{cpus}_cpus"), stays));
            }
        } else {
            checks.push(Check::on(kernel, "scheduler_stays_attached_on_4_cpus", attached));
        }
    }
    checks
}

/// Who gets attention, and who does not: the guest's own checks, one for each channel and IPC kind; and what the verifier
/// had to do for the programs.
pub(super) fn sense(machines: &Machines, kernel: &str, scheduler: &'static str) -> anyhow::Result<()> {
    let run = checked(machines, Spec::new("sense", scheduler, "none").on(kernel))?;
    let verified = run.metrics.keys().filter(|name| name.starts_with("verified_")).count();
    ensure!(verified > 0, "what the verifier had to do is not in the result");
    Ok(())
}

/// Nobody gains CPU time by tricks of a family: the guest's own checks.
fn no_gain(machines: &Machines, kernel: &str, scheduler: &'static str, family: &str) -> anyhow::Result<()> {
    let [run] = machines.runs([Spec::new("abuse", scheduler, "none").on(kernel)])?;
    ensure!(value(&run, "checks")? > 0.0, "no check was made");
    if run.outcome == Outcome::Ok {
        return Ok(());
    }
    let failed = run.detail.strip_prefix(FAILED).with_context(|| format!("{:?}: {}", run.outcome, run.detail))?;
    let own: Vec<&str> = failed.split("; ").filter(|failed| failed.starts_with(&format!("{family}: "))).collect();
    ensure!(own.is_empty(), "{}", own.join("; "));
    Ok(())
}

/// Those of the short form.
fn no_gain_at_all(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    let [run] = machines.good_runs([Spec::new("abuse", "appease", "none").on(kernel)])?;
    none_failed(run).map(drop)
}

/// What a stranger can tell of keys by all that is shown: the guest's own checks.
fn guess(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    checked(machines, Spec::new("guess", "appease", "none").on(kernel)).map(drop)
}

/// Who is served behind programs that people use: the guest's own checks.
fn programs(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    checked(machines, Spec::new("programs", "appease", "none").on(kernel)).map(drop)
}

/// A kernel thread that has time, and may keep the CPU for long, begins when an attended task has gone to sleep.
fn background(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    checked(machines, Spec::new("background", "appease", "hogs:16").on(kernel)).map(drop)
}

/// Nice values, `SCHED_IDLE`, `SCHED_BATCH`, realtime and deadline tasks.
fn classes(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    checked(machines, Spec::new("classes", "appease", "none").on(kernel)).map(drop)
}

fn cpus(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    let [run] = machines.good_runs_in_one_boot("cpus", ["appease"], "none", kernel, 2)?;
    none_failed(run).map(drop)
}

/// Beside what breaks schedulers ours stays, and everybody has turns. Its one time, 20 s, is host time, but ten times what was measured.
fn stress(machines: &Machines, kernel: &str, cpus: u32) -> anyhow::Result<()> {
    let [run] = machines.good_runs_in_one_boot("stress", ["appease"], "none", kernel, cpus)?;
    none_failed(run).map(drop)
}

/// CPUs that open, end and reopen requests at once leave no count wrong: the scenario's own checks.
fn heals(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    let [run] = machines.good_runs_in_one_boot("heals", ["appease"], "none", kernel, 4)?;
    none_failed(run).map(drop)
}

/// Rings of processes, crowds, weights, limits: the guest's own checks.
fn shares(machines: &Machines, kernel: &str, cpus: u32, caches: u32) -> anyhow::Result<()> {
    let spec = Spec::new("shares", "appease", "none").on(kernel);
    checked(machines, spec.on_cpus(cpus).on_caches(caches)).map(drop)
}

/// Two requests beyond their budgets, of customers of two weights: the scenario's own checks.
fn beyond(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    let [run] = machines.good_runs([Spec::new("beyond", "appease", "none").on(kernel)])?;
    none_failed(run).map(drop)
}

/// Each policy gets by the kernel's verifier within a number of instructions, and is in charge soon: the guest's own checks.
fn loads(machines: &Machines, kernel: &str, cpus: u32, caches: u32, threads: u32) -> anyhow::Result<()> {
    let spec = Spec::new("loads", "eevdf", "none").on(kernel).on_cpus(cpus).on_caches(caches);
    checked(machines, spec.with_threads_and_nodes(threads, 1)).map(drop)
}

/// The daemon ends, and is killed.
fn leaving(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    checked(machines, Spec::new("leaving", "eevdf", "none").on(kernel)).map(drop)
}

/// What clock CPUs are asked for, and the saving of power: the guest's own checks.
fn power(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    checked(machines, Spec::new("clock", "eevdf", "none").on(kernel).on_cpus(4)).map(drop)
}

/// The laboratory's own machine: the guest's own checks.
fn turns(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    checked(machines, Spec::new("turns", "eevdf", "none").on(kernel).on_cpus(4)).map(drop)
}

/// Cores of two CPUs each: the scenario's own checks.
fn cores(machines: &Machines, kernel: &str, caches: u32, nodes: u32) -> anyhow::Result<()> {
    let spec = Spec::new("cores", "appease", "none").on(kernel).on_cpus(8).on_caches(caches);
    checked(machines, spec.with_threads_and_nodes(2, nodes)).map(drop)
}

/// CPUs that were off at the start, and those that are isolated: the guest's own checks.
fn late_and_isolated(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    for scenario in ["late", "isolated"] {
        checked(machines, Spec::new(scenario, "eevdf", "none").on(kernel).on_cpus(4).on_caches(2))?;
    }
    Ok(())
}

/// What a realtime program starts while it stands back: the guest's own checks. Where the kernel has the reserve, nobody does.
fn reserve(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    checked(machines, Spec::new("reserve", "appease", "none").on(kernel).on_cpus(2)).map(drop)
}

/// CPUs whose numbers have gaps, one of them alone in its cache, and some without a tick: the guest's own checks.
fn gaps(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    checked(machines, Spec::new("gaps", "eevdf", "none").on(kernel).on_cpus(8).on_caches(2)).map(drop)
}

/// Two memory nodes of two caches each: the scenario's own checks.
fn nodes(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    let spec = Spec::new("nodes", "appease", "none").on(kernel).on_cpus(8).on_caches(4);
    checked(machines, spec.with_threads_and_nodes(1, 2)).map(drop)
}

/// The programs load on this kernel, and the scheduler is still attached at the end of a loaded run on four CPUs, none of which
/// was idle while a task waited.
fn attached(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    let run = typing_on_cpus(machines, Spec::new("typing", "appease", "hogs:16").on(kernel).on_cpus(4))?;
    ensure!(!run.kernel.is_empty(), "the kernel's version is not in the result");
    ensure!(kernel == "default" || run.kernel.starts_with(kernel), "kernel {kernel} was asked for, {} ran", run.kernel);
    Ok(())
}

/// With a hog for each of many CPUs: such a machine has the time of one for all.
fn many_cpus(machines: &Machines, kernel: &str, load: &'static str, (cpus, caches): (u32, u32)) -> anyhow::Result<()> {
    let spec = Spec::new("typing", "appease", load).on(kernel).on_cpus(cpus).on_caches(caches);
    typing_on_cpus(machines, spec).map(drop)
}

/// Keys are answered, and no CPU is idle while a task waits.
fn typing_on_cpus(machines: &Machines, spec: Spec) -> anyhow::Result<Run> {
    let [run] = machines.good_runs([spec])?;
    conserves_work(&run, WORK_CONSERVING_PCT)?;
    enough("keys", spread(&run, "key_to_screen_ms")?, 10)?;
    Ok(run)
}
