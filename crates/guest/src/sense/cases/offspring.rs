//! Policy rsio: a child begins with its parent's standing, and who ends takes its own along.

use std::fs;

use anyhow::{Context, Result, bail, ensure};

use super::{Case, case};
use crate::{
    clock::MS,
    sense::{
        handling::{Part, is_listed, is_stranger, takes_part},
        stage::{Actor, Stage},
        wire::Order,
    },
};

/// How long a child has its parent's standing.
const FIRST_TURN_NS: u64 = 50 * MS;
/// What it has of that at least: it is told what to do a while after it was born.
const LEAST_NS: u64 = 10 * MS;
/// A slice may end so much later.
const LATE_NS: u64 = 20 * MS;
/// Work that outlasts the first turn, ms of CPU time.
const WORK_MS: u32 = 200;
/// So many generations outlast the first turn, and each is born in that of its parent.
const GENERATIONS: usize = 20;
/// Where the kernel says which process number it gave last.
const LAST_PID: &str = "/proc/sys/kernel/ns_last_pid";
/// How often another process may get the number first.
const TRIES: usize = 10;

/// For how long a child has its first turn, a scheduler of ours tells.
pub fn all(schedules: bool) -> Vec<Case> {
    let turns = || vec![case("first turn of a child", first_turn), case("first turns of generations", generations)];
    let mut all = if schedules { turns() } else { Vec::new() };
    all.push(case("number used anew", number_used_anew));
    all
}

fn first_turn(stage: &mut Stage) -> Result<()> {
    let mut parent = stage.handler("parent", None, None)?;
    let mut stranger = stage.actor("stranger", None, None)?;
    let elder = stage.child_of(&mut parent, "child from before")?;
    stage.attend(&mut parent)?;
    let mut child = stage.child_of(&mut parent, "child")?;
    child.does(&Order::Burn(WORK_MS))?;
    stage.verdict("child's first turn", attended(&child, LEAST_NS, FIRST_TURN_NS + LATE_NS));
    stage.verdict("child after it", takes_part(&child, false));
    let mut grandchild = stage.child_of(&mut child, "grandchild")?;
    grandchild.does(&Order::Burn(WORK_MS))?;
    stage.verdict("child of who is a stranger by then", attended(&grandchild, 0, 0));
    stage.verdict("their parent meanwhile", takes_part(&parent, true));
    stage.verdict("child from before", is_stranger(&elder));
    let mut other = stage.child_of(&mut stranger, "stranger's child")?;
    other.does(&Order::Burn(WORK_MS))?;
    stage.verdict("stranger's child", attended(&other, 0, 0));
    Ok(())
}

/// Of its work, so much was done as part of the interaction.
fn attended(actor: &Actor, least_ns: u64, most_ns: u64) -> Result<()> {
    let part = Part::of(actor)?;
    let (attended_ns, other_ns) = (part.lane_ns("attended")?, part.lane_ns("other")?);
    ensure!(
        attended_ns + other_ns >= u64::from(WORK_MS) * MS / 2,
        "{actor} ran for {attended_ns} + {other_ns} ns alone"
    );
    if attended_ns < least_ns || attended_ns > most_ns {
        bail!("{actor}: {attended_ns} ns attended, {other_ns} not; expected {least_ns} to {most_ns} attended");
    }
    Ok(())
}

/// Else a process that forks in time would be attended for ever.
fn generations(stage: &mut Stage) -> Result<()> {
    let mut first = stage.handler("first", None, None)?;
    stage.attend(&mut first)?;
    let mut line = vec![first];
    for generation in 1..=GENERATIONS {
        if let Some(parent) = line.last_mut() {
            let child = stage.child_of(parent, &format!("generation {generation}"))?;
            line.push(child);
        }
    }
    let Some(last) = line.last_mut() else { bail!("nobody was born") };
    last.does(&Order::Burn(WORK_MS))?;
    stage.verdict("the last of them", attended(last, 0, 0));
    stage.verdict("the first meanwhile", takes_part(&line[0], true));
    Ok(())
}

/// The next process of a handler's number has not its standing, and has used no channel.
fn number_used_anew(stage: &mut Stage) -> Result<()> {
    let mut handler = stage.handler("handler", None, None)?;
    stage.attend(&mut handler)?;
    stage.verdict("handler", takes_part(&handler, true));
    let number = handler.pid;
    stage.verdict("handler in the list of channels", is_listed(number, true));
    drop(handler);
    for _ in 0..TRIES {
        fs::write(LAST_PID, (number - 1).to_string()).with_context(|| format!("write to {LAST_PID}"))?;
        let next = stage.actor("next of its number", None, None)?;
        if next.pid == number {
            stage.verdict("next of its number", is_stranger(&next));
            stage.verdict("next of its number in the list of channels", is_listed(number, false));
            return Ok(());
        }
    }
    bail!("others got the number {number} {TRIES} times")
}
