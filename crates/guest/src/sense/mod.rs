//! Checks of sensing: small real processes, each doing one thing, and the daemon's own word about who of them
//! got attention, through what, and who did not.
//!
//! The director (this process) tells actors what to do through files, never through anything that is under
//! test, and never reads a channel: what it writes carries no attention. Every check presses a real key of a
//! uinput device, has a process read it, and follows it from there.

pub mod abuse;
mod actor;
pub mod answer;
mod cases;
mod cgroup;
pub mod device;
pub mod guess;
mod handling;
mod hidraw;
mod network;
mod object;
mod program;
mod programs;
mod rule;
mod stage;
mod way;
mod wire;

use anyhow::{Result, bail};

pub use actor::run as act;
use stage::Stage;

use crate::{
    clock::{self, Deadline},
    system,
};

/// Modules that bring channels, and a network to reach them by.
const MODULES: &[&str] = &[
    "evdev",
    "uinput",
    "mousedev",
    "joydev",
    "uhid",
    "hid-generic",
    "snd-hda-intel",
    "snd-hda-codec-generic",
    "veth",
    "drm",
];
/// As the daemon calls those with hooks.
const HOOKED: &[&str] = &["evdev", "mousedev", "joydev", "hid", "snd_pcm"];
/// How long the daemon may take to find out about a new module, busy seconds.
const HOOK_LIMIT_S: u64 = 60;

/// `check-sensing [PART]`: makes all checks whose names contain `part`, one line each verdict.
pub fn check(part: &str) -> Result<()> {
    carry_out(|schedules| Ok(cases::all(&answer::policy()?, schedules)), part)
}

/// `check-served [PART]`: the same with programs that people use.
pub fn check_served(part: &str) -> Result<()> {
    carry_out(|_| Ok(programs::all()), part)
}

fn carry_out(cases: impl FnOnce(bool) -> Result<Vec<cases::Case>>, part: &str) -> Result<()> {
    prepare(true)?;
    let schedules = answer::backend()? == "scx";
    let mut stage = Stage::new(schedules)?;
    for (name, steps) in cases(schedules)? {
        if name.contains(part) {
            stage.check(&name, steps);
        }
    }
    if stage.verdicts.made == 0 {
        bail!("no check is called {part}");
    }
    stage.verdicts.end()
}

/// Brings the channels.
fn prepare(has_daemon: bool) -> Result<()> {
    system::load_modules(MODULES)?;
    if has_daemon { wait_for_hooks() } else { Ok(()) }
}

/// The modules have come after the daemon: it hooks into them when it sees them.
fn wait_for_hooks() -> Result<()> {
    let deadline = Deadline::after_s(HOOK_LIMIT_S);
    loop {
        let waiting = answer::waiting_hooks(HOOKED)?;
        if waiting.is_empty() {
            return Ok(());
        }
        if deadline.has_passed() {
            bail!("appease has not hooked into {} within {HOOK_LIMIT_S} s after the modules came", waiting.join(", "));
        }
        clock::sleep_ms(200);
    }
}
