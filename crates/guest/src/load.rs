//! What competes: CPU hogs, or a compiler run that begins again whenever it is done; started here, or by a user who logs
//! in for it.

use std::{fs, os::unix::fs::chown, path::Path};

use anyhow::{Context, Result, bail};
use appease_scenario::{Grouping, Load};
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    app::{Launch, Program},
    clock::{self, Deadline},
    ending::stalled,
    far::FarSide,
    probe::Probe,
    scope::Scopes,
    system::TOOLS,
    tree,
};

/// Source files of the build load.
const BUILD_FILES: u32 = 200;
const BUILD_DIR: &str = "/tmp/build-load";
const HOG: &str = "stress-ng-cpu";
/// Where the session of a user tells its process.
const SESSION_FILE: &str = "/tmp/load-session";
const START_LIMIT_S: u64 = 120;
/// Time between one program of a typed load and the next, in seconds of a busy CPU.
const GAP_LIMIT_S: u64 = 10;

/// Who starts the load.
#[derive(Clone, Copy)]
pub struct Starter<'a> {
    /// Where its processes are put.
    pub scopes: Scopes,
    /// The user who logs in for it; nobody if it starts locally.
    pub user: Option<(&'a FarSide, &'a str)>,
    /// How the load's processes are put into groups, where `scopes` has some.
    pub layout: Grouping,
    /// The first application.
    pub first: Option<&'a str>,
}

/// A load at work.
pub struct Competitor {
    load: Load,
    /// What we started for it; nothing where it was typed into a terminal.
    program: Option<Program>,
    /// The process from which all others of it come: where it was typed, the terminal's shell.
    root: u32,
}

/// Prepares what a load needs, before anything is measured.
pub fn prepare(load: Load, starter: Starter<'_>) -> Result<()> {
    let Load::Build(n) = load else { return Ok(()) };
    let dir = Path::new(BUILD_DIR);
    if starter.user.is_none() && starter.layout == Grouping::ScopesMany {
        return (0..n).try_for_each(|build| tree::generate(&dir.join(build.to_string()), (BUILD_FILES / n).max(1)));
    }
    tree::generate(dir, BUILD_FILES)?;
    let Some((far, user)) = starter.user else { return Ok(()) };
    let uid = Some(far.uid(user)?);
    let give = |path: &Path| chown(path, uid, uid).with_context(|| format!("give {} to {user}", path.display()));
    for entry in fs::read_dir(dir).with_context(|| format!("list {BUILD_DIR}"))?.flatten() {
        give(&entry.path())?;
    }
    give(dir)
}

/// Starts the load and waits until all of it runs; `None` when there is none.
pub fn start(load: Load, starter: Starter<'_>, probe: Option<&Probe>) -> Result<Option<Competitor>> {
    let Some(script) = command_line(load, "-s") else { return Ok(None) };
    let mut competitor = at_gate(load, starter, &script)?;
    if let Some(probe) = probe {
        probe.mark_load(competitor.root)?;
    }
    competitor.program.as_mut().map_or(Ok(()), Program::open_gate)?;
    competitor.once_it_runs().map(Some)
}

/// The same in the shell of a terminal, by `strike`, which types a line there. What it prints is seen.
pub fn start_typed(
    load: Load,
    terminal: &Program,
    probe: Option<&Probe>,
    strike: impl FnOnce(&str) -> Result<()>,
) -> Result<Option<Competitor>> {
    let Some(line) = command_line(load, "") else { return Ok(None) };
    let shell = children(terminal.pid()).first().copied();
    let root = shell.with_context(|| format!("{} has no shell to run the load in", terminal.name))?;
    if let Some(probe) = probe {
        probe.mark_load(root)?;
    }
    strike(&format!("{line}\n"))?;
    Competitor { load, root, program: None }.once_it_runs().map(Some)
}

/// What a shell runs; `quiet` is an argument of make's.
fn command_line(load: Load, quiet: &str) -> Option<String> {
    match load {
        Load::None | Load::Users(_) | Load::All => None,
        Load::Hogs(_) | Load::IdleHogs(_) => {
            let (program, n) = hogs(load)?;
            Some(format!("exec {program} --quiet --sync-start --cpu {n} --temp-path /tmp"))
        }
        Load::Build(n) => {
            Some(format!("cd {BUILD_DIR} && while make {quiet} clean && make {quiet} -j {n}; do :; done"))
        }
    }
}

/// What starts a load's hogs, and how many there are.
fn hogs(load: Load) -> Option<(&'static str, u32)> {
    match load {
        Load::Hogs(n) => Some(("stress-ng", n)),
        Load::IdleHogs(n) => Some(("chrt --idle 0 stress-ng", n)),
        Load::None | Load::Build(_) | Load::Users(_) | Load::All => None,
    }
}

/// What each of a load's processes runs where each has a group of its own: a hog, or a build by one compiler.
fn parts(load: Load) -> Vec<String> {
    match (hogs(load), load) {
        (Some((program, n)), _) => vec![format!("{program} --quiet --cpu 1 --temp-path /tmp"); n as usize],
        (None, Load::Build(n)) => {
            let again = |build| {
                let make = format!("make -s -C {BUILD_DIR}/{build}");
                format!("sh -c 'while {make} clean && {make}; do :; done'")
            };
            (0..n).map(again).collect()
        }
        (None, _) => Vec::new(),
    }
}

/// A shell's script that starts `parts`, each in a group of its own.
fn each_in_its_own(parts: &[String], scopes: Scopes) -> Result<String> {
    let mut script = String::new();
    for (number, part) in parts.iter().enumerate() {
        let Some(dir) = scopes.of(&format!("load-{number}"))? else { bail!("there are no groups to put a load into") };
        script.push_str(&format!("{TOOLS}/appease-guest enter --scope {} {part} & ", dir.display()));
    }
    Ok(script + "wait")
}

/// The load's first process, which waits for a line on its standard input.
fn at_gate(load: Load, starter: Starter<'_>, script: &str) -> Result<Competitor> {
    let Some((far, user)) = starter.user else {
        let shares = starter.first.filter(|_| starter.layout == Grouping::ScopesShared);
        let script = if starter.layout == Grouping::ScopesMany {
            each_in_its_own(&parts(load), starter.scopes)?
        } else {
            script.to_owned()
        };
        let launch = Launch::new("load", starter.scopes, &["sh", "-c", &script]);
        let program = Launch { gated: true, shares, ..launch }.start()?;
        return Ok(Competitor { load, root: program.pid(), program: Some(program) });
    };
    // One of an earlier round.
    let _ = fs::remove_file(SESSION_FILE);
    let command = format!("echo $$ >{SESSION_FILE} && read -r go && {script}");
    let mut program = far.client("load", user, &command).start()?;
    let deadline = Deadline::after_s(START_LIMIT_S);
    loop {
        let told = fs::read_to_string(SESSION_FILE).unwrap_or_default();
        if let Some(pid) = told.strip_suffix('\n') {
            let root = pid.parse().with_context(|| format!("{SESSION_FILE} says \"{pid}\""))?;
            starter.scopes.adopt(user, far.uid(user)?)?;
            return Ok(Competitor { load, program: Some(program), root });
        }
        program.must_run()?;
        if deadline.has_passed() {
            let error = program.complaint(&format!("did not log in within {START_LIMIT_S} s"));
            program.kill();
            return Err(stalled(error.to_string()));
        }
        clock::sleep_ms(20);
    }
}

impl Competitor {
    fn once_it_runs(mut self) -> Result<Self> {
        let deadline = Deadline::after_s(START_LIMIT_S);
        while !self.runs_wholly() {
            self.program.as_mut().map_or(Ok(()), Program::must_run)?;
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
            Load::None | Load::Users(_) | Load::All => true,
            Load::Hogs(n) | Load::IdleHogs(n) => {
                let is_hog = |child: &&u32| {
                    fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|comm| comm.trim() == HOG)
                };
                let started = children(self.root);
                let below = started.iter().flat_map(|child| children(*child)).collect::<Vec<u32>>();
                started.iter().chain(&below).filter(is_hog).count() >= n as usize
            }
            Load::Build(_) => has_compiled(Path::new(BUILD_DIR)),
        }
    }

    /// Fails when the load ended, which would make figures better than they are.
    pub fn must_still_run(&mut self) -> Result<()> {
        let Some(program) = &mut self.program else { return self.shell_must_be_busy() };
        match program.ended()? {
            None => Ok(()),
            Some(status) => {
                bail!("load {} ended during the measurement ({status}): {}", self.load, program.log_tail(8))
            }
        }
    }

    fn shell_must_be_busy(&self) -> Result<()> {
        let deadline = Deadline::after_s(GAP_LIMIT_S);
        while children(self.root).is_empty() {
            if deadline.has_passed() {
                bail!("load {} ended during the measurement: {}", self.load, self.log_tail());
            }
            clock::sleep_ms(10);
        }
        Ok(())
    }

    fn log_tail(&self) -> String {
        self.program.as_ref().map_or_else(|| "its terminal shows why".into(), |program| program.log_tail(5))
    }

    /// Ends the load and removes what it made. A session ends with its ssh client, and all in it with its terminal.
    pub fn stop(self) {
        match (self.program, Pid::from_raw(self.root.cast_signed())) {
            (Some(mut program), _) => program.kill(),
            // With its leader, what runs in a terminal is hung up on.
            (None, Some(shell)) => {
                let _ = kill_process(shell, Signal::HUP);
            }
            (None, None) => {}
        }
        if let Load::Build(_) = self.load {
            // What stays is compiled once more, or not: it is made anew before the next measurement.
            let _ = fs::remove_dir_all(BUILD_DIR);
        }
    }
}

/// Whether a compiler has left something in a folder, or in one of those in it.
fn has_compiled(dir: &Path) -> bool {
    let mut entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.any(|path| path.extension().is_some_and(|end| end == "o") || (path.is_dir() && has_compiled(&path)))
}

/// The children of a process's first thread.
fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}
