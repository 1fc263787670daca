//! What competes: CPU hogs, or a compiler run that begins again whenever it is done.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};
use appease_scenario::Load;
use rustix::process::{Pid, Signal, kill_process};

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
/// Time between one program of a typed load and the next, in seconds of a busy CPU.
const GAP_LIMIT_S: u64 = 10;

/// Prepares what a load needs, before anything is measured.
pub fn prepare(load: Load) -> Result<()> {
    match load {
        Load::Build(_) => tree::generate(Path::new(BUILD_DIR), BUILD_FILES),
        Load::None | Load::Hogs(_) => Ok(()),
    }
}

/// The load at work.
pub struct Competitor {
    load: Load,
    origin: Origin,
}

/// Whose children its processes are.
enum Origin {
    /// A program of ours, in the background.
    Unseen(Program),
    /// An interactive shell in a terminal, into which it was typed.
    Typed {
        /// The shell's process.
        shell: u32,
    },
}

impl Competitor {
    /// Starts the load and waits until all of it runs; `None` when there is none.
    pub fn start(load: Load, scopes: Scopes, probe: Option<&Probe>) -> Result<Option<Self>> {
        let Some(line) = command_line(load, "-s") else { return Ok(None) };
        let mut launch = Launch::new("load", scopes, &["sh", "-c", &line]);
        launch.gated = true;
        let mut program = launch.start()?;
        if let Some(probe) = probe {
            probe.mark_load(program.pid())?;
        }
        program.open_gate()?;
        Self { load, origin: Origin::Unseen(program) }.once_it_runs().map(Some)
    }

    /// The same in the shell of a terminal, by `strike`, which types a line there. What it prints is seen.
    pub fn typed(
        load: Load,
        terminal: &Program,
        probe: Option<&Probe>,
        strike: impl FnOnce(&str) -> Result<()>,
    ) -> Result<Option<Self>> {
        let Some(line) = command_line(load, "") else { return Ok(None) };
        let shell = children(terminal.pid()).first().copied();
        let shell = shell.with_context(|| format!("{} has no shell to run the load in", terminal.name))?;
        if let Some(probe) = probe {
            probe.mark_load(shell)?;
        }
        strike(&format!("{line}\n"))?;
        Self { load, origin: Origin::Typed { shell } }.once_it_runs().map(Some)
    }

    fn once_it_runs(mut self) -> Result<Self> {
        let deadline = Deadline::after_s(START_LIMIT_S);
        while !self.runs_wholly() {
            if let Origin::Unseen(program) = &mut self.origin {
                program.must_run()?;
            }
            if deadline.has_passed() {
                let (load, log) = (self.load, self.log_tail());
                self.stop();
                return Err(stalled(format!("load {load} was not running after {START_LIMIT_S} s: {log}")));
            }
            clock::sleep_ms(50);
        }
        Ok(self)
    }

    fn runs_wholly(&self) -> bool {
        match self.load {
            Load::None => true,
            Load::Hogs(n) => {
                let is_hog = |child: &&u32| {
                    fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|comm| comm.trim() == HOG)
                };
                children(self.shell()).iter().filter(is_hog).count() >= n as usize
            }
            Load::Build(_) => fs::read_dir(BUILD_DIR).is_ok_and(|mut entries| {
                entries.any(|entry| entry.is_ok_and(|entry| entry.path().extension().is_some_and(|end| end == "o")))
            }),
        }
    }

    /// Ends the load and removes what it made.
    pub fn stop(self) {
        match self.origin {
            Origin::Unseen(mut program) => program.kill(),
            // With its leader, what runs in a terminal is hung up on.
            Origin::Typed { shell } => {
                if let Some(shell) = Pid::from_raw(shell.cast_signed()) {
                    let _ = kill_process(shell, Signal::HUP);
                }
            }
        }
        if let Load::Build(_) = self.load {
            // What stays is compiled once more, or not: it is made anew before the next measurement.
            let _ = fs::remove_dir_all(BUILD_DIR);
        }
    }

    /// Fails when the load ended, which would make figures better than they are.
    pub fn must_still_run(&mut self) -> Result<()> {
        match &mut self.origin {
            Origin::Unseen(program) => match program.ended()? {
                None => Ok(()),
                Some(status) => {
                    bail!("load {} ended during the measurement ({status}): {}", self.load, program.log_tail(8))
                }
            },
            Origin::Typed { shell } => {
                let deadline = Deadline::after_s(GAP_LIMIT_S);
                while children(*shell).is_empty() {
                    if deadline.has_passed() {
                        bail!("load {} ended during the measurement: see the terminal", self.load);
                    }
                    clock::sleep_ms(10);
                }
                Ok(())
            }
        }
    }

    fn shell(&self) -> u32 {
        match &self.origin {
            Origin::Unseen(program) => program.pid(),
            Origin::Typed { shell } => *shell,
        }
    }

    fn log_tail(&self) -> String {
        match &self.origin {
            Origin::Unseen(program) => program.log_tail(5),
            Origin::Typed { .. } => "see the terminal".into(),
        }
    }
}

/// What a shell runs; `quiet` is an argument of make's.
fn command_line(load: Load, quiet: &str) -> Option<String> {
    match load {
        Load::None => None,
        Load::Hogs(n) => Some(format!("exec stress-ng --quiet --sync-start --cpu {n} --temp-path /tmp")),
        Load::Build(n) => {
            Some(format!("cd {BUILD_DIR} && while make {quiet} clean && make {quiet} -j {n}; do :; done"))
        }
    }
}

/// The children of a process's first thread.
fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}
