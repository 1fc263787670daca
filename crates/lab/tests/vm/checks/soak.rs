//! Long runs: nothing is left behind, and nothing breaks. Each is divided into machines of some minutes, so that it goes on where it was interrupted.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use anyhow::ensure;

use super::{Check, Extent, NICE_KERNEL, figures::checked};
use crate::machines::{Machines, Spec, value};

/// Something that is done again and again.
struct Long {
    scenario: &'static str,
    /// Figures that say how many rounds were made, all together.
    rounds_by: &'static [&'static str],
    /// How many are promised, and how many a machine makes.
    rounds: u32,
    each: u32,
    /// CPUs of its machines.
    cpus: u32,
    /// A kernel, where it is not each of those of sched_ext.
    kernel: Option<&'static str>,
}

const KILLED: &[&str] =
    &["killed_while_it_runs_rounds", "killed_while_it_starts_rounds", "killed_while_it_ends_rounds"];
const SWITCHED: &[&str] = &["stays_attached_and_all_run_rounds"];
/// Kills of a daemon for each backend, attachments, and CPUs that go or come on machines of two and of four.
const KILLS: u32 = 1000;
const RELOADS: u32 = 2048;
const SWITCHES: u32 = 500;

/// What is most likely to fail goes first.
static LONG: [Long; 5] = [
    Long { scenario: "soak-kills", rounds_by: KILLED, rounds: KILLS, each: 20, cpus: 1, kernel: None },
    Long {
        scenario: "soak-kills-nice",
        rounds_by: KILLED,
        rounds: KILLS,
        each: 20,
        cpus: 1,
        kernel: Some(NICE_KERNEL),
    },
    Long { scenario: "soak-hotplug", rounds_by: SWITCHED, rounds: SWITCHES, each: 125, cpus: 2, kernel: None },
    Long { scenario: "soak-hotplug", rounds_by: SWITCHED, rounds: SWITCHES, each: 125, cpus: 4, kernel: None },
    Long {
        scenario: "soak-reloads",
        rounds_by: &["attached_and_detached_rounds"],
        rounds: RELOADS,
        each: 32,
        cpus: 1,
        kernel: None,
    },
];

/// In the full form, the first machine of each.
pub(super) fn checks(extent: Extent) -> Vec<Check> {
    if extent.full { machines(extent.kernels, 1).map(Check::from).collect() } else { Vec::new() }
}

/// All machines of all; each that is done says how many are.
pub(super) fn all(kernels: &[&str]) -> Vec<Check> {
    let parts: Vec<Part> = machines(kernels, u32::MAX).collect();
    let (number, done) = (parts.len(), Arc::new(AtomicUsize::new(0)));
    let told = |part: Part| {
        let done = Arc::clone(&done);
        let Check { name, holds, .. } = Check::from(part);
        let shown = name.clone();
        Check::new(name, move |machines| {
            let held = holds(machines);
            let how = if held.is_ok() { "as it should" } else { "FAILED" };
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            println!("soak: {done} of {number} machines: {shown}: {how}");
            held
        })
    };
    parts.into_iter().map(told).collect()
}

/// What one machine does.
struct Part {
    spec: Spec,
    rounds: u32,
    rounds_by: &'static [&'static str],
    name: String,
}

fn machines<'a>(kernels: &'a [&'a str], most: u32) -> impl Iterator<Item = Part> + 'a {
    let faults = kernels.iter().map(|kernel| (*kernel, "faults")).chain([(NICE_KERNEL, "faults-nice")]);
    let faults = faults.map(|(kernel, scenario)| Part {
        spec: Spec::new(scenario, "eevdf", "none").on(kernel).flat(),
        rounds: 0,
        rounds_by: &[],
        name: format!("{scenario}_{kernel}"),
    });
    let long = LONG.iter().flat_map(move |long| {
        let own = long.kernel.as_slice();
        let kernels = if own.is_empty() { kernels } else { own };
        kernels.iter().flat_map(move |kernel| parts_of(long, kernel, most))
    });
    faults.chain(long)
}

fn parts_of<'a>(long: &'a Long, kernel: &'a str, most: u32) -> impl Iterator<Item = Part> + 'a {
    let number = long.rounds.div_ceil(long.each);
    (1..=number.min(most)).map(move |part| {
        let spec = Spec::new(long.scenario, "eevdf", "none").on(kernel).flat().on_cpus(long.cpus);
        let cpus = if long.cpus > 1 { format!("_on_{}_cpus", long.cpus) } else { String::new() };
        Part {
            spec: spec.repeated(long.each, part),
            rounds: long.each,
            rounds_by: long.rounds_by,
            name: format!("{}{cpus}_{part}_of_{number}_{kernel}", long.scenario),
        }
    })
}

impl From<Part> for Check {
    fn from(part: Part) -> Self {
        Self::new(part.name.clone(), move |machines| part.holds(machines))
    }
}

impl Part {
    /// The guest's own checks, over as many rounds as were asked for.
    fn holds(self, machines: &Machines) -> anyhow::Result<()> {
        let run = checked(machines, self.spec)?;
        let made = self.rounds_by.iter().map(|name| value(&run, name)).sum::<anyhow::Result<f64>>()?;
        ensure!(made >= f64::from(self.rounds), "{made} rounds were made, and not {}", self.rounds);
        Ok(())
    }
}
