//! The checks, and the thresholds that they hold figures to. Ratios are to figures of the same kernel and image.

mod commands;
mod costs;
mod figures;
mod guest;
mod keys;
mod league;
mod media;
mod missed;
mod nice;
mod servers;
mod soak;

pub use nice::NICE_KERNEL;

use crate::machines::{Form, Machines};

/// The scenarios of the short form: the only ones whose images `make test` builds.
pub const SHORT: [&str; 25] = [
    "abuse",
    "apache",
    "background",
    "classes",
    "clock",
    "command",
    "console",
    "cores",
    "cost",
    "cpus",
    "guess",
    "isolated",
    "late",
    "leaving",
    "loads",
    "nice",
    "programs",
    "reserve",
    "runaway",
    "scroll",
    "sense",
    "shares",
    "turns",
    "typing",
    "video",
];

type Holds = Box<dyn FnOnce(&Machines) -> anyhow::Result<()> + Send>;

/// Numbers of CPUs with four hogs each, ordinary ones and of class idle.
type LoadsOfCpus = (u32, &'static str, &'static str);

const LOADS_OF_CPUS: [LoadsOfCpus; 4] =
    [(2, "hogs:8", "idle:8"), (4, "hogs:16", "idle:16"), (8, "hogs:32", "idle:32"), (16, "hogs:64", "idle:64")];
/// The builds of RSIO's scenarios, the heaviest first.
const BUILDS: [&str; 3] = ["build:64", "build:16", "build:4"];
/// The kernel whose emulated display waits for no vertical blank. In one that does, the X server sleeps up to 16.7 ms for each
/// picture, and no scheduler wakes it up for a key.
const WITHOUT_BLANK: &str = "6.18";

/// Which checks are made.
#[derive(Debug, Clone, Copy)]
struct Extent<'a> {
    /// What is promised at every load, and not what `make test` has time for.
    full: bool,
    kernels: &'a [&'a str],
}

impl<'a> Extent<'a> {
    /// The kernels for what is the policy's doing and not the programs': in the short form, the first.
    fn thorough(self) -> &'a [&'a str] {
        if self.full { self.kernels } else { self.kernels.get(..1).unwrap_or_default() }
    }

    /// What the short form takes, and the full one.
    fn of<T>(self, short: &'static [T], long: &'static [T]) -> &'static [T] {
        if self.full { long } else { short }
    }
}

/// Something that must hold.
pub struct Check {
    /// Its name.
    pub name: String,
    /// Its figures depend on what else the host does: only on request.
    pub in_host_time: bool,
    /// Why it fails today, where that is known.
    pub missed: Option<&'static str>,
    /// Makes the runs, and says why it does not hold.
    pub holds: Holds,
}

impl Check {
    fn new(name: impl Into<String>, holds: impl FnOnce(&Machines) -> anyhow::Result<()> + Send + 'static) -> Self {
        let name = name.into();
        let missed = missed::why(&name);
        Self { name, in_host_time: false, missed, holds: Box::new(holds) }
    }

    /// One on a kernel.
    fn on(
        kernel: &str,
        name: &str,
        holds: impl FnOnce(&Machines, &str) -> anyhow::Result<()> + Send + 'static,
    ) -> Self {
        let on = kernel.to_owned();
        Self::new(format!("{name}_{kernel}"), move |machines| holds(machines, &on))
    }

    /// One on a kernel at a load.
    fn at(
        kernel: &str,
        load: &'static str,
        name: &str,
        holds: impl FnOnce(&Machines, &str, &'static str) -> anyhow::Result<()> + Send + 'static,
    ) -> Self {
        let on = kernel.to_owned();
        Self::new(format!("{name}_at_{load}_{kernel}"), move |machines| holds(machines, &on, load))
    }

    /// Its machines run in host time.
    fn in_host_time(self) -> Self {
        Self { in_host_time: true, ..self }
    }
}

/// The kernels that anything is promised for.
const PROMISED: [&str; 2] = ["default", "6.18"];

/// A check of the full form that is known to fail, and is not there.
pub fn missed_and_not_there() -> Option<&'static str> {
    let checks = all(Form::Full, &PROMISED);
    missed::nameless(&checks.iter().map(|check| check.name.as_str()).collect::<Vec<_>>())
}

/// All checks of a form.
pub fn all(form: Form, kernels: &[&str]) -> Vec<Check> {
    if form == Form::Soak {
        return soak::all(kernels);
    }
    let extent = Extent { full: form == Form::Full, kernels };
    let parts = [
        guest::checks(extent),
        keys::checks(extent),
        commands::checks(extent),
        media::checks(extent),
        servers::checks(extent),
        costs::checks(extent),
        league::checks(extent),
        nice::checks(extent),
        soak::checks(extent),
    ];
    parts.into_iter().flatten().collect()
}
