//! Policy rsio: who regularly gets something from a handler when it has read its channel is its cohandler.

use anyhow::{Result, anyhow};

use super::{Case, case};
use crate::{
    clock,
    sense::{
        answer::ask,
        object::Kind,
        stage::{SETTLE_MS, Stage},
        wire::{End, Order},
    },
};

/// Interactions after which a cohandler is found for certain.
const ROUNDS: usize = 6;

pub fn all() -> Vec<Case> {
    Kind::ALL.iter().map(|&kind| case(&format!("cohandler by {kind}"), move |stage| cohandler(stage, kind))).collect()
}

fn cohandler(stage: &mut Stage, kind: Kind) -> Result<()> {
    let (link, other) = (stage.link(kind)?, stage.link(Kind::Pipe)?);
    let mut handler = stage.handler("handler", None, Some(&link.writer))?;
    let mut reader = stage.actor("reader", Some(&link.reader), None)?;
    let mut nobodys = stage.actor("nobody's reader", Some(&other.reader), None)?;
    let mut writer = stage.actor("writer", None, Some(&other.writer))?;
    // At once after the reading: orders take longer to come than a handler's communication may take.
    handler.tell(&Order::Repeat(vec![Order::Read(End::Channel), link.message(End::Output)]))?;
    for actor in [&mut reader, &mut nobodys] {
        actor.waits_for(&Order::Repeat(vec![Order::Read(End::Input)]))?;
    }
    for _ in 0..ROUNDS {
        stage.touch_remote()?;
        writer.writes(&other)?;
        clock::sleep_ms(SETTLE_MS);
    }
    stage.verdict("who reads what it writes", is_cohandler(reader.pid, handler.pid, true));
    stage.verdict("who reads something else", is_cohandler(nobodys.pid, handler.pid, false));
    Ok(())
}

/// Whether the daemon says that this process is a cohandler of that one, now, as `expected`.
fn is_cohandler(pid: u32, of: u32, expected: bool) -> Result<()> {
    let answer = ask(&["why", &pid.to_string(), "--json"])?;
    let handlers = answer["handler"]["cohandler_of"].as_array();
    let found = answer["lane"] == "attended" && handlers.is_some_and(|all| all.iter().any(|one| one["pid"] == of));
    if found == expected { Ok(()) } else { Err(anyhow!("a cohandler of {of}: expected {expected}; found {answer}")) }
}
