//! Policy rsio: who regularly communicates with a handler when that accesses its channel is its cohandler, if it does so in
//! the channel's direction.

use anyhow::Result;

use super::{Case, case, files::Channel};
use crate::{
    clock,
    sense::{
        handling::{AFTER_NS, Part, is_cohandler, takes_part},
        object::Kind,
        stage::{Actor, SETTLE_MS, Stage},
        wire::{End, Order},
    },
};

/// Interactions after which a cohandler is found for certain.
const ROUNDS: usize = 6;
/// As the daemon is set when it is not told otherwise: a cohandler has more confidence than this.
const CO_CONF: u64 = 2;
/// The most confidence that one can have.
const MAX_CONF: u64 = 5;
/// A communication so long before or after an access belongs to it, ms.
const NEAR_MS: u32 = 2;
/// One so long before or after belongs to none.
const FAR_MS: u32 = 30;

const READ_CHANNEL: Order = Order::Read(End::Channel);
const TAKE: Order = Order::Read(End::Input);
const GIVE: Order = Order::Write(End::Output);
const ANSWER: Order = Order::Write(End::Input);

pub fn all() -> Vec<Case> {
    let kinds =
        Kind::ALL.iter().map(|&kind| case(&format!("cohandler by {kind}"), move |stage| cohandler(stage, kind)));
    let more = [
        case("cohandler in time", in_time),
        case("cohandler by direction", by_direction),
        case("cohandler before a write", |stage| before_a_write(stage, NEAR_MS, true)),
        case("cohandler long before a write", |stage| before_a_write(stage, FAR_MS, false)),
        case("cohandler's cohandler", recursion),
        case("cohandler that ends", end),
    ];
    kinds.chain(more).collect()
}

fn cohandler(stage: &mut Stage, kind: Kind) -> Result<()> {
    let (link, other) = (stage.link(kind)?, stage.link(Kind::Pipe)?);
    let mut handler = stage.handler("handler", None, Some(&link.writer))?;
    let mut reader = stage.actor("reader", Some(&link.reader), None)?;
    let mut nobodys = stage.actor("nobody's reader", Some(&other.reader), None)?;
    let mut writer = stage.actor("writer", None, Some(&other.writer))?;
    // At once after the reading: orders take longer to come than a handler's communication may take.
    handler.tell(&Order::Repeat(vec![READ_CHANNEL, link.message(End::Output)]))?;
    for actor in [&mut reader, &mut nobodys] {
        actor.waits_for(&Order::Repeat(vec![TAKE]))?;
    }
    for _ in 0..ROUNDS {
        stage.touch_remote()?;
        writer.writes(&other)?;
        clock::sleep_ms(SETTLE_MS);
    }
    stage.verdict("who reads what it writes", is_cohandler(&reader, &handler, true));
    stage.verdict("who reads something else", is_cohandler(&nobodys, &handler, false));
    Ok(())
}

/// The customer presses a key so many times.
fn interact(stage: &mut Stage, times: usize) -> Result<()> {
    for _ in 0..times {
        stage.touch_remote()?;
        clock::sleep_ms(SETTLE_MS);
    }
    Ok(())
}

/// Once is not enough; and what comes too late never is.
fn in_time(stage: &mut Stage) -> Result<()> {
    let (prompt_link, late_link) = (stage.link(Kind::Pipe)?, stage.link(Kind::Pipe)?);
    let mut handler = stage.handler("handler", Some(&late_link.writer), Some(&prompt_link.writer))?;
    let mut prompt = stage.actor("prompt reader", Some(&prompt_link.reader), None)?;
    let mut late = stage.actor("late reader", Some(&late_link.reader), None)?;
    handler.tell(&Order::Repeat(vec![READ_CHANNEL, GIVE, Order::Sleep(FAR_MS), ANSWER]))?;
    for actor in [&mut prompt, &mut late] {
        actor.waits_for(&Order::Repeat(vec![TAKE]))?;
    }
    for so_far in 1..=CO_CONF {
        interact(stage, 1)?;
        stage.verdict(&format!("confidence after {so_far}"), Part::of(&handler)?.must_trust(prompt.pid, Some(so_far)));
        stage.verdict(&format!("reader after {so_far}"), takes_part(&prompt, false));
    }
    interact(stage, 1)?;
    stage.verdict("reader after one more", is_cohandler(&prompt, &handler, true));
    interact(stage, ROUNDS)?;
    let last_ns = clock::now_ns();
    let of_handler = Part::of(&handler)?;
    stage.verdict("the most confidence", of_handler.must_trust(prompt.pid, Some(MAX_CONF)));
    stage.verdict("confidence in who reads later", of_handler.must_trust(late.pid, Some(0)));
    stage.verdict("who reads later", is_cohandler(&late, &handler, false));
    clock::sleep_until(last_ns + AFTER_NS);
    stage.verdict("when its handler's time is over", takes_part(&prompt, false));
    Ok(())
}

/// Of a channel that is read: who reads of its handler, not who writes to it, be it all the time.
fn by_direction(stage: &mut Stage) -> Result<()> {
    let (from, to) = (stage.link(Kind::Pipe)?, stage.link(Kind::Pipe)?);
    let mut handler = stage.handler("handler", Some(&to.reader), Some(&from.writer))?;
    let mut reader = stage.actor("reader", Some(&from.reader), None)?;
    let mut writer = stage.actor("writer", None, Some(&to.writer))?;
    handler.tell(&Order::Repeat(vec![READ_CHANNEL, TAKE, GIVE]))?;
    reader.waits_for(&Order::Repeat(vec![TAKE]))?;
    writer.waits_for(&Order::Repeat(vec![GIVE, Order::Sleep(NEAR_MS)]))?;
    interact(stage, ROUNDS)?;
    stage.verdict("who reads of it", is_cohandler(&reader, &handler, true));
    stage.verdict("who writes to it", is_cohandler(&writer, &handler, false));
    stage.verdict("confidence in who writes", Part::of(&handler)?.must_trust(writer.pid, None));
    Ok(())
}

/// Of a channel that is written: who writes to its handler before, not who reads of it then.
fn before_a_write(stage: &mut Stage, before_ms: u32, expected: bool) -> Result<()> {
    let channel = Channel::new(stage, "write")?;
    let link = stage.link(Kind::UnixStream)?;
    let mut handler = stage.actor("handler", Some(&link.reader), Some(&channel.link.writer))?;
    let mut writer = stage.actor("writer", None, Some(&link.writer))?;
    let mut reader = stage.actor("reader", Some(&link.writer), None)?;
    handler.tell(&Order::Repeat(vec![TAKE, ANSWER, Order::Sleep(before_ms), GIVE]))?;
    reader.waits_for(&Order::Repeat(vec![TAKE]))?;
    for _ in 0..ROUNDS {
        writer.writes(&link)?;
        clock::sleep_ms(SETTLE_MS);
    }
    stage.verdict("handler", takes_part(&handler, true));
    stage.verdict("who writes to it", is_cohandler(&writer, &handler, expected));
    stage.verdict("who reads of it", is_cohandler(&reader, &handler, false));
    stage.verdict("confidence in who reads", Part::of(&handler)?.must_trust(reader.pid, None));
    Ok(())
}

/// Who hands on what it gets to the next.
fn relay(actor: &mut Actor) -> Result<()> {
    actor.waits_for(&Order::Repeat(vec![TAKE, GIVE]))
}

/// As a handler has cohandlers, these have some; a stranger has none. All of them end with the handler.
fn recursion(stage: &mut Stage) -> Result<()> {
    let links = [Kind::Pipe, Kind::UnixStream, Kind::Pipe, Kind::UnixStream];
    let [first, second, aside, behind] = links.map(|kind| stage.link(kind));
    let (first, second, aside, behind) = (first?, second?, aside?, behind?);
    let mut handler = stage.handler("handler", None, Some(&first.writer))?;
    let mut near = stage.actor("cohandler", Some(&first.reader), Some(&second.writer))?;
    let mut far = stage.actor("its cohandler", Some(&second.reader), None)?;
    let mut stranger = stage.actor("stranger", Some(&aside.reader), Some(&behind.writer))?;
    let mut strangers = stage.actor("stranger's reader", Some(&behind.reader), None)?;
    let mut writer = stage.actor("writer", None, Some(&aside.writer))?;
    handler.tell(&Order::Repeat(vec![READ_CHANNEL, GIVE]))?;
    for actor in [&mut near, &mut stranger] {
        relay(actor)?;
    }
    for actor in [&mut far, &mut strangers] {
        actor.waits_for(&Order::Repeat(vec![TAKE]))?;
    }
    // The next one is judged when the one before it is found.
    for _ in 0..2 * ROUNDS {
        stage.touch_remote()?;
        writer.writes(&aside)?;
        clock::sleep_ms(SETTLE_MS);
    }
    let last_ns = clock::now_ns();
    stage.verdict("who reads of the handler", is_cohandler(&near, &handler, true));
    stage.verdict("who reads of that one", is_cohandler(&far, &near, true));
    stage.verdict("not of the handler itself", is_cohandler(&far, &handler, false));
    stage.verdict("who reads of a stranger", takes_part(&strangers, false));
    clock::sleep_until(last_ns + AFTER_NS);
    stage.verdict("the one when the handler's time is over", takes_part(&near, false));
    stage.verdict("the other then", takes_part(&far, false));
    Ok(())
}

/// Who ends is off its handler's list.
fn end(stage: &mut Stage) -> Result<()> {
    let link = stage.link(Kind::Pipe)?;
    let mut handler = stage.handler("handler", None, Some(&link.writer))?;
    let mut reader = stage.actor("reader", Some(&link.reader), None)?;
    handler.tell(&Order::Repeat(vec![READ_CHANNEL, GIVE]))?;
    reader.waits_for(&Order::Repeat(vec![TAKE]))?;
    interact(stage, ROUNDS)?;
    stage.verdict("before", is_cohandler(&reader, &handler, true));
    let number = reader.pid;
    drop(reader);
    stage.verdict("after", Part::of(&handler)?.must_trust(number, None));
    Ok(())
}
