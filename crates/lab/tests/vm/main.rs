//! What must hold in virtual machines, on short forms of the scenarios: order, ratios, counters and outcomes.
//!
//! Every check asks the [`machines::Machines`] for the runs that it needs. They are made by the `appease-lab` program, one
//! virtual machine for each processor of the host at a time, and a run that two checks need is made once.
//!
//! Ignored unless `APPEASE_VM_TESTS=1`: images are built first, and the runs take minutes. `make test` sets
//! it, and names the kernels in `APPEASE_VM_KERNELS`, with commas. Checks in host time need a quiet host, and run only with
//! `APPEASE_VM_HOST_TIME=1` as well. `APPEASE_VM_TESTS=full` (`make acceptance`) takes the scenarios as they are, on every
//! kernel and at every load that something is promised for, which takes hours; it goes on where it was interrupted.

mod checks;
mod machines;

use std::{process::ExitCode, sync::Arc};

use libtest_mimic::{Arguments, Trial};

use crate::machines::{Form, Machines};

/// Checks mostly wait for virtual machines, whose number is limited elsewhere.
const CHECKS_AT_ONCE: usize = 64;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(CHECKS_AT_ONCE);
    let is = |name, wanted| std::env::var(name).is_ok_and(|value| value == wanted);
    let form = if is("APPEASE_VM_TESTS", "full") { Form::Full } else { Form::Short };
    let wanted = form == Form::Full || is("APPEASE_VM_TESTS", "1");
    let host_time = form == Form::Full || is("APPEASE_VM_HOST_TIME", "1");
    let kernels = std::env::var("APPEASE_VM_KERNELS").unwrap_or_else(|_| "default".into());
    let machines = Arc::new(Machines::new(form));
    if wanted
        && !arguments.list
        && let Err(error) = machines.prepare(&kernels)
    {
        eprintln!("{error:#}");
        return ExitCode::FAILURE;
    }
    let trials = checks::all(form, &kernels.split(',').collect::<Vec<_>>())
        .into_iter()
        .map(|check| {
            let machines = Arc::clone(&machines);
            let ignored = !wanted || check.in_host_time && !host_time;
            Trial::test(check.name, move || (check.holds)(&machines).map_err(|error| format!("{error:#}").into()))
                .with_ignored_flag(ignored)
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}
