//! What competes: CPU hogs, or a compiler run that begins again whenever it is done.

use std::{fs, path::Path};

use anyhow::{Result, bail};
use appease_scenario::Load;

use crate::{
    app::{Launch, Program},
    clock::{self, Deadline},
    ending::stalled,
    probe::Probe,
    scope::Scopes,
    tree,
};

/// Source files of the build load.
const BUILD_FILES: u32 = 200;
const BUILD_DIR: &str = "/tmp/build-load";
const HOG: &str = "stress-ng-cpu";
const START_LIMIT_S: u64 = 120;

/// Prepares what a load needs, before anything is measured.
pub fn prepare(load: Load) -> Result<()> {
    match load {
        Load::Build(_) => tree::generate(Path::new(BUILD_DIR), BUILD_FILES),
        Load::None | Load::Hogs(_) => Ok(()),
    }
}

/// Starts the load and waits until all of it runs.
pub fn start(load: Load, scopes: Scopes, probe: Option<&Probe>) -> Result<Option<Program>> {
    let argv: Vec<String> = match load {
        Load::None => return Ok(None),
        Load::Hogs(n) => ["stress-ng", "--quiet", "--sync-start", "--cpu", &n.to_string(), "--temp-path", "/tmp"]
            .map(str::to_owned)
            .to_vec(),
        Load::Build(n) => {
            let script = format!("cd {BUILD_DIR} && while make -s clean && make -s -j {n}; do :; done");
            ["sh", "-c", &script].map(str::to_owned).to_vec()
        }
    };
    let mut launch = Launch::new("load", scopes, &argv);
    launch.gated = true;
    let mut program = launch.start()?;
    if let Some(probe) = probe {
        probe.mark_load(program.pid())?;
    }
    program.open_gate()?;
    let deadline = Deadline::after_s(START_LIMIT_S);
    while !runs_wholly(load, program.pid()) {
        program.must_run()?;
        if deadline.has_passed() {
            let log = program.log_tail(5);
            stop(load, program);
            return Err(stalled(format!("load {load} was not running after {START_LIMIT_S} s: {log}")));
        }
        clock::sleep_ms(50);
    }
    Ok(Some(program))
}

fn runs_wholly(load: Load, pid: u32) -> bool {
    match load {
        Load::None => true,
        Load::Hogs(n) => {
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
            let is_hog =
                |child: &&str| fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|comm| comm.trim() == HOG);
            children.split_whitespace().filter(is_hog).count() >= n as usize
        }
        Load::Build(_) => fs::read_dir(BUILD_DIR).is_ok_and(|mut entries| {
            entries.any(|entry| entry.is_ok_and(|entry| entry.path().extension().is_some_and(|end| end == "o")))
        }),
    }
}

/// Ends the load and removes what it made.
pub fn stop(load: Load, mut program: Program) {
    program.kill();
    if let Load::Build(_) = load {
        // What stays is compiled once more, or not: it is made anew before the next measurement.
        let _ = fs::remove_dir_all(BUILD_DIR);
    }
}

/// Fails when the load ended, which would make figures better than they are.
pub fn must_still_run(load: Load, program: Option<&mut Program>) -> Result<()> {
    let Some(program) = program else { return Ok(()) };
    match program.ended()? {
        None => Ok(()),
        Some(status) => bail!("load {load} ended during the measurement ({status}): {}", program.log_tail(8)),
    }
}
