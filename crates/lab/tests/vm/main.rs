//! What must hold in virtual machines, on short forms of the scenarios: order, ratios, counters and outcomes.
//!
//! Every check asks the [`machines::Machines`] for the runs that it needs. They are made by the `appease-lab` program, one
//! virtual machine for each processor of the host at a time, and a run that two checks need is made once.
//!
//! Ignored unless `APPEASE_VM_TESTS=1`: images are built first, and the runs take minutes. `make test` sets
//! it, and names the kernels in `APPEASE_VM_KERNELS`, with commas. Checks in host time need a quiet host, and run only with
//! `APPEASE_VM_HOST_TIME=1` as well. `APPEASE_VM_TESTS=full` (`make acceptance`) takes the scenarios as they are, on every
//! kernel and at every load that something is promised for, which takes hours; it goes on where it was interrupted, as does
//! `APPEASE_VM_TESTS=soak` (`make soak`), the long runs in which nothing may be left behind. A check that is
//! known to fail says why (`checks/missed.rs`), and fails.

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
    let form = match std::env::var("APPEASE_VM_TESTS").as_deref() {
        Ok("full") => Form::Full,
        Ok("soak") => Form::Soak,
        _ => Form::Short,
    };
    let wanted = form != Form::Short || is("APPEASE_VM_TESTS", "1");
    let host_time = form != Form::Short || is("APPEASE_VM_HOST_TIME", "1");
    let kernels = std::env::var("APPEASE_VM_KERNELS").unwrap_or_else(|_| "default".into());
    if let Some(name) = checks::missed_and_not_there() {
        eprintln!("{name} is known to fail (checks/missed.rs), but there is no such check");
        return ExitCode::FAILURE;
    }
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
            let known = check.missed.map(|why| format!("; known: {why}")).unwrap_or_default();
            Trial::test(check.name, move || {
                (check.holds)(&machines).map_err(|error| format!("{error:#}{known}").into())
            })
            .with_kind(check.missed.map_or("", |_| "known to fail"))
            .with_ignored_flag(ignored)
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}
