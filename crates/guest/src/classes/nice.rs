//! The backend that acts by nice values: whom it changes, whom not, and that everybody gets back what was theirs.

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;

use super::{
    Verdicts,
    leaving::{HOGS, SLEEPERS, are_as, ended_by},
    task::{Settings, Task, everybody, nice_of, slice_of},
    within,
};
use crate::{
    clock::{self, Deadline},
    scheduler::{self, Kind, Scheduler},
    sense::{
        answer,
        device::{Device, Shape},
    },
    system,
};

/// Modules that bring input devices.
const MODULES: &[&str] = &["evdev", "uinput"];
/// Nice value of who reads the device, and the one that it has while somebody waits for it.
const BASE: i32 = 3;
const SERVED: i32 = -17;
/// Nice value that somebody else gives.
const OTHERS: i32 = 7;
/// From a key press until its reader has a better nice value, ms.
const SOON_MS: u64 = 100;
/// How long attention lasts, and some time to take it back; how long slices may be short, ms.
const ATTENTION_MS: u64 = 4500;
const LIMIT_S: u64 = 20;
/// Slices that users may choose, ns: as short as that of a process that is served, one that looks much like it, and usual ones.
const SLICES_NS: [u64; 5] = [300_000, 298_004, 6_000_000, 7_000_000, 8_000_000];

/// A remote control, and who reads it.
struct Stage {
    device: Device,
    reader: Task,
    /// Somebody else sets another nice value for this one.
    other: Task,
    /// Its children begin without a better nice value than 0.
    resetting: Task,
    /// Of an ordinary user, each with a slice of the user's choice.
    strangers: Vec<(Task, u64)>,
}

pub fn check(verdicts: &mut Verdicts) -> Result<()> {
    system::load_modules(MODULES)?;
    let _sleepers = SLEEPERS.map(Task::sleeper).into_iter().collect::<Result<Vec<_>>>()?;
    let _hogs = HOGS.map(Task::hog).into_iter().collect::<Result<Vec<_>>>()?;
    let device = Device::new(Shape::Remote)?;
    let node = device.node("event")?;
    let by = format!("nice -n {BASE}");
    let strangers = SLICES_NS.map(|slice_ns| Ok((Task::sleeper(&with_slice(slice_ns))?, slice_ns)));
    let strangers = strangers.into_iter().collect::<Result<Vec<_>>>()?;
    let resetting = Task::bearer(&format!("chrt --reset-on-fork --other 0 {by}"), &node)?;
    let mut stage =
        Stage { device, reader: Task::bearer(&by, &node)?, other: Task::bearer(&by, &node)?, resetting, strangers };
    verdicts.tell("users have the slices that they chose", strangers_keep(&stage));

    for task in [&stage.reader, &stage.other, &stage.resetting] {
        let deadline = Deadline::after_s(LIMIT_S);
        while nice_of(task.pid())? != BASE && !deadline.has_passed() {
            clock::sleep_ms(5);
        }
    }
    let before = everybody()?;
    let ours = start(verdicts, &mut stage, "a daemon starts")?;
    verdicts.tell("nobody is changed by its start", are_as(&before, &[]));
    verdicts.tell("no slice is, either", strangers_keep(&stage));
    serve(verdicts, &mut stage, &before)?;
    let (_, status) = ours.end_by(Signal::TERM)?;
    verdicts.tell("SIGTERM ends the daemon as it should", ended_by(status, Signal::TERM));
    verdicts.tell("all is given back at its end", are_as(&before, &[stage.other.pid()]));
    verdicts.tell("slices, too", slices_are_alike(&stage));
    verdicts.tell("users keep the slices that they chose", strangers_keep(&stage));

    for (restores, name) in [(true, "appease restore"), (false, "the next daemon")] {
        let doomed = start(verdicts, &mut stage, &format!("a daemon starts, to be followed by {name}"))?;
        verdicts.tell("the next key serves its reader", press(&mut stage).map(drop));
        let (_, status) = doomed.end_by(Signal::KILL)?;
        verdicts.tell("SIGKILL ends the daemon", ended_by(status, Signal::KILL));
        verdicts.tell("a killed one gives nothing back", has(stage.reader.pid(), SERVED));
        // The daemon is gone, and its reader goes on.
        stage.device.touch()?;
        clock::sleep_ms(100);
        let next = if restores {
            answer::command(&["restore"]).map(|_| None)
        } else {
            start(verdicts, &mut stage, "that one starts").map(Some)
        }?;
        verdicts.tell(&format!("all is given back by {name}"), are_as(&before, &[stage.other.pid()]));
        verdicts.tell(&format!("also to children, by {name}"), children_have(&stage.reader, BASE));
        verdicts.tell(&format!("and to such as begin anew, by {name}"), children_have(&stage.resetting, BASE));
        if let Some(next) = next {
            next.end_by(Signal::TERM)?;
        }
        verdicts.tell(&format!("slices, too, by {name}"), slices_are_alike(&stage));
        verdicts.tell(&format!("users keep theirs, by {name}"), strangers_keep(&stage));
    }
    Ok(())
}

fn start(verdicts: &mut Verdicts, stage: &mut Stage, what: &str) -> Result<Scheduler> {
    let ours = Scheduler::start(Kind::parse("appease@nice")?);
    verdicts.tell(what, ours.as_ref().map(drop).map_err(|error| anyhow::anyhow!("{error:#}")));
    let ours = ours?;
    // The device's hooks are attached when its module has come.
    clock::sleep_ms(1500);
    // A read that began before that is not seen: the next one is.
    stage.device.touch()?;
    clock::sleep_ms(SOON_MS);
    Ok(ours)
}

/// Somebody presses a key: who reads it is served for a while, and nobody else.
fn serve(verdicts: &mut Verdicts, stage: &mut Stage, before: &Settings) -> Result<()> {
    let soon_ms = press(stage)?;
    within(verdicts, "served_after_ms", soon_ms, 0.0, SOON_MS as f64);
    // It was started at the same moment.
    clock::sleep_ms(SOON_MS);
    verdicts.tell("its child is served, too", newest_child_has(&stage.reader, SERVED));
    let readers = [stage.reader.pid(), stage.other.pid(), stage.resetting.pid()];
    verdicts.tell("nobody else is changed", are_as(before, &readers));
    stage.other.renice(OTHERS)?;
    clock::sleep_ms(ATTENTION_MS);
    verdicts.tell("who is not waited for any more has its own again", has(stage.reader.pid(), BASE));
    verdicts.tell("its child has what its parent had at first", children_have(&stage.reader, BASE));
    verdicts.tell("a child that was to begin anew has no worse one", children_have(&stage.resetting, BASE));
    verdicts.tell("what somebody else has set is kept", has(stage.other.pid(), OTHERS));
    Ok(())
}

/// Presses a key; after how many ms its reader is served.
fn press(stage: &mut Stage) -> Result<f64> {
    let begin_ns = clock::now_ns();
    stage.device.touch()?;
    let deadline = Deadline::after_s(LIMIT_S);
    while nice_of(stage.reader.pid())? != SERVED {
        if deadline.has_passed() {
            let counters = scheduler::status()?["counters"].take();
            bail!("the reader has nice {} {LIMIT_S} s after a key; {counters}", nice_of(stage.reader.pid())?);
        }
        clock::sleep_ms(1);
    }
    Ok(clock::to_ms(clock::now_ns() - begin_ns))
}

fn has(pid: u32, nice: i32) -> Result<()> {
    let found = nice_of(pid)?;
    ensure!(found == nice, "task {pid} has nice {found}, and not {nice}");
    Ok(())
}

fn children_have(task: &Task, nice: i32) -> Result<()> {
    let children = task.children();
    ensure!(!children.is_empty(), "task {} has no children", task.pid());
    children.into_iter().try_for_each(|child| has(child, nice))
}

fn newest_child_has(task: &Task, nice: i32) -> Result<()> {
    has(*task.children().last().context("it has no child")?, nice)
}

/// The command that has an ordinary user's process begin with this slice, without words that contain spaces: `sched_setattr` is 314 on amd64.
fn with_slice(slice_ns: u64) -> String {
    let set = format!("$a=pack(\"LLQlLQQQ\",48,0,0,0,0,{slice_ns},0,0);syscall(314,0,$a,0)==0||die;exec(@ARGV)");
    format!("setpriv --reuid 65534 --clear-groups perl -e {set}")
}

/// Nothing that they have set is taken for a change of ours.
fn strangers_keep(stage: &Stage) -> Result<()> {
    for (task, slice_ns) in &stage.strangers {
        has(task.pid(), 0)?;
        let found = slice_of(task.pid());
        ensure!(
            found.is_none_or(|found| found == *slice_ns),
            "task {} chose slice {slice_ns}, and has {found:?}",
            task.pid()
        );
    }
    Ok(())
}

/// Readers and their children have the slice of who was never changed, where the kernel shows slices.
fn slices_are_alike(stage: &Stage) -> Result<()> {
    let own = slice_of(1);
    for pid in stage.reader.children().into_iter().chain([stage.reader.pid(), stage.other.pid()]) {
        let found = slice_of(pid);
        ensure!(found == own, "task {pid} has slice {found:?}, and not {own:?}");
    }
    Ok(())
}
