//! Only a channel opens a request, and only a message that carries one hands it on.

use anyhow::{Context, Result, anyhow};

use super::{Case, case};
use crate::sense::{answer, object::Kind, stage::Stage, wire::Order};

/// So many objects that the kernel must use an address again.
const MANY: u32 = 300;

pub fn all() -> Vec<Case> {
    vec![
        case("context", context),
        case("own objects", own_objects),
        case("addresses used anew", addresses),
        case("director", director),
    ]
}

/// What a process writes after a message of somebody without a customer is for that one.
fn context(stage: &mut Stage) -> Result<()> {
    let (asked, answered) = (stage.link(Kind::UnixStream)?, stage.link(Kind::UnixStream)?);
    let mut stranger = stage.actor("stranger", None, Some(&asked.writer))?;
    let mut first = stage.handler("first", Some(&asked.reader), Some(&answered.writer))?;
    let mut second = stage.actor("second", Some(&answered.reader), None)?;
    stage.attend(&mut first)?;
    stranger.writes(&asked)?;
    first.reads()?;
    first.writes(&answered)?;
    second.reads()?;
    stage.verdict("reader of what is written for a stranger", second.unattended());
    stage.verdict("a stranger who wrote to an attended process", stranger.unattended());
    let origin = stage.by_remote(&first);
    stage.verdict("who turned to a stranger", first.attended(&origin, &[]));
    stage.attend(&mut first)?;
    first.writes(&answered)?;
    second.reads()?;
    stage.verdict("reader of what is written for the customer", second.attended(&origin, &[("unix", second.pid)]));
    // Then the stranger's answer is behind the customer's on the same socket.
    first.writes(&answered)?;
    stranger.writes(&asked)?;
    first.reads()?;
    first.writes(&answered)?;
    let mut late = stage.actor("late reader", Some(&answered.reader), None)?;
    late.reads()?;
    stage.verdict("reader of both at once", late.unattended());
    Ok(())
}

/// Talking to oneself is no interaction.
fn own_objects(stage: &mut Stage) -> Result<()> {
    let mut first = stage.handler("first", None, None)?;
    for &kind in Kind::ALL {
        let mut hermit = stage.actor("hermit", None, None)?;
        // Somebody is served, or there would be nothing to look at.
        stage.attend(&mut first)?;
        hermit.does(&Order::Own(kind))?;
        stage.verdict(&format!("{kind} of one's own"), hermit.unattended());
    }
    stage.attend(&mut first)?;
    let before = first.why()?;
    for &kind in Kind::ALL {
        first.does(&Order::Own(kind))?;
    }
    let after = first.why()?;
    let end = |found: &answer::Found| {
        found.current().map(|chain| (chain.request, chain.hops.len(), (chain.opened_ago_ns + chain.left_ns) / 1000))
    };
    let same = end(&before).is_some() && end(&before) == end(&after);
    stage.verdict(
        "an attended process renews nothing so",
        if same { Ok(()) } else { Err(anyhow!("{before}; then {after}")) },
    );
    Ok(())
}

/// What was left on an object that is gone is not found on the next one at its address.
fn addresses(stage: &mut Stage) -> Result<()> {
    for (kind, fresh) in [(Kind::Pipe, Order::Splices(MANY)), (Kind::Eventfd, Order::Counters(MANY))] {
        let mut first = stage.handler("first", None, None)?;
        let mut newcomer = stage.actor("newcomer", None, None)?;
        stage.attend(&mut first)?;
        first.does(&Order::Litter(kind, MANY))?;
        // The litterer dies too, and what it left is freed.
        drop(first);
        newcomer.does(&fresh)?;
        stage.verdict(&format!("{kind} at an address used before"), newcomer.unattended());
    }
    // A message that nobody read: its reader is killed, and the object goes with both.
    let link = stage.link(Kind::Pipe)?;
    let mut first = stage.handler("first", None, Some(&link.writer))?;
    let second = stage.actor("second", Some(&link.reader), None)?;
    stage.attend(&mut first)?;
    first.writes(&link)?;
    stage.verdict("a reader that has not read", second.unattended());
    let pid = second.pid;
    drop((first, second, link));
    let gone = answer::why(pid).err().context("a killed process is still known");
    stage.verdict("a killed reader is forgotten", gone.map(drop));
    let mut newcomer = stage.actor("newcomer", None, None)?;
    newcomer.does(&Order::Splices(MANY))?;
    stage.verdict("who comes after a killed reader", newcomer.unattended());
    Ok(())
}

fn director(stage: &mut Stage) -> Result<()> {
    let own = answer::why(std::process::id())?;
    stage.verdict("who only directs the checks", own.must_be_unattended());
    Ok(())
}
