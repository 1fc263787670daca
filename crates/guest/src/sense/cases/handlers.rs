//! Policy rsio: who accesses a channel is its handler at once, until others took it over or it rests for too long.

use anyhow::{Result, ensure};

use super::{Case, case, channels::read_by_thread, files::Channel};
use crate::{
    clock,
    sense::{
        device::{Device, Shape},
        handling::{AFTER_NS, BEFORE_NS, EXPIRE_NS, is_stranger, takes_part},
        stage::Stage,
        wire::{End, Order},
    },
};

/// As the daemon is set when it is not told otherwise: the most confidence that a handler can have.
const MAX_CONF: usize = 5;
const READ: Order = Order::Read(End::Channel);

pub fn all() -> Vec<Case> {
    vec![
        case("handler", first_access),
        case("handler of a written channel", written),
        case("handler by its thread", thread),
        case("handlers one after the other", taken_over),
        case("handler of two channels", two_channels),
        case("handler that rests", expiry),
    ]
}

fn first_access(stage: &mut Stage) -> Result<()> {
    let mut device = Device::new(Shape::Remote)?;
    let node = device.node("event")?;
    let mut handler = stage.actor("handler", None, None)?;
    let mut watcher = stage.actor("watcher", None, None)?;
    let mut too_early = stage.actor("reader that came too early", None, None)?;
    too_early.opens_nonblocking(&node)?;
    too_early.fails(&READ)?;
    stage.verdict("a read that found nothing", is_stranger(&too_early));
    handler.opens(&node)?;
    watcher.opens(&node)?;
    stage.verdict("who only opened it", is_stranger(&handler));
    stage.works_in("its work then", &mut handler, "other");
    watcher.waits_for(&Order::Poll(End::Channel, 5000))?;
    device.touch()?;
    let ready = watcher.done()?;
    ensure!(ready == 1, "nothing to read within 5 s");
    handler.does(&READ)?;
    stage.verdict("who read it once", takes_part(&handler, true));
    stage.works_in("its work from then on", &mut handler, "attended");
    stage.verdict("who only waited for it", is_stranger(&watcher));
    stage.works_in("the watcher's work", &mut watcher, "other");
    Ok(())
}

/// Of a channel that is written, who writes is the handler, and who reads is not.
fn written(stage: &mut Stage) -> Result<()> {
    let channel = Channel::new(stage, "write")?;
    let (mut writer, mut reader) = (channel.writer(stage)?, channel.reader(stage)?);
    stage.verdict("who has not written yet", is_stranger(&writer));
    writer.writes(&channel.link)?;
    reader.reads()?;
    stage.verdict("who wrote", takes_part(&writer, true));
    stage.verdict("who read", is_stranger(&reader));
    Ok(())
}

/// The process goes on when the thread that read has ended.
fn thread(stage: &mut Stage) -> Result<()> {
    let handler = read_by_thread(stage)?;
    stage.verdict("the process of a thread that read", takes_part(&handler, true));
    Ok(())
}

/// Each interaction of one takes confidence from the other: as many as it had make it a stranger, and no fewer.
fn taken_over(stage: &mut Stage) -> Result<()> {
    let mut first = stage.handler("first", None, None)?;
    let mut second = stage.handler("second", None, None)?;
    stage.attend(&mut first)?;
    stage.attend(&mut second)?;
    stage.verdict("who read once, and then another", takes_part(&first, false));
    stage.verdict("who read after it", takes_part(&second, true));
    // Twice as often as counts.
    for _ in 0..2 * MAX_CONF {
        stage.attend(&mut first)?;
    }
    let rests_since_ns = clock::now_ns();
    for _ in 1..MAX_CONF {
        stage.attend(&mut second)?;
    }
    stage.verdict("who read often, after one interaction too few", takes_part(&first, true));
    stage.attend(&mut second)?;
    stage.verdict("who read often, after as many as count", takes_part(&first, false));
    stage.verdict("who took over", takes_part(&second, true));
    ensure!(clock::now_ns() < rests_since_ns + EXPIRE_NS, "that took so long that its time was over anyway");
    stage.attend(&mut first)?;
    stage.verdict("who comes back", takes_part(&first, true));
    Ok(())
}

/// Who hands one channel over handles the other one yet.
fn two_channels(stage: &mut Stage) -> Result<()> {
    let mut device = Device::new(Shape::Remote)?;
    let node = device.node("event")?;
    let mut both = stage.actor("handler of both", Some(&stage.open_remote()?), None)?;
    let mut one = stage.handler("handler of one", None, None)?;
    let mut other = stage.actor("handler of the other", None, None)?;
    both.opens(&node)?;
    other.opens(&node)?;
    stage.touch_remote()?;
    both.reads()?;
    device.touch()?;
    both.does(&READ)?;
    stage.attend(&mut one)?;
    stage.verdict("one taken over", takes_part(&both, true));
    other.does(&READ)?;
    stage.verdict("both taken over", takes_part(&both, false));
    stage.verdict("who took the one", takes_part(&one, true));
    stage.verdict("who took the other", takes_part(&other, true));
    Ok(())
}

/// Its own accesses count, to whatever channel; others' do not.
fn expiry(stage: &mut Stage) -> Result<()> {
    let mut device = Device::new(Shape::Remote)?;
    let node = device.node("event")?;
    let mut handler = stage.actor("handler", Some(&stage.open_remote()?), None)?;
    let mut other = stage.actor("handler of another channel", None, None)?;
    handler.opens(&node)?;
    other.opens(&node)?;
    stage.touch_remote()?;
    let before_ns = clock::now_ns();
    handler.reads()?;
    let after_ns = clock::now_ns();
    clock::sleep_until(before_ns + EXPIRE_NS / 2);
    device.touch()?;
    other.does(&READ)?;
    clock::sleep_until(before_ns + BEFORE_NS);
    stage.verdict("just before its time is over", takes_part(&handler, true));
    clock::sleep_until(after_ns + AFTER_NS);
    stage.verdict("after it", takes_part(&handler, false));
    stage.works_in("its work then", &mut handler, "other");
    stage.touch_remote()?;
    let again_ns = clock::now_ns();
    handler.reads()?;
    stage.verdict("its next access", takes_part(&handler, true));
    clock::sleep_until(again_ns + EXPIRE_NS / 2);
    handler.does(&READ)?;
    clock::sleep_until(again_ns + AFTER_NS);
    stage.verdict("who accessed another channel meanwhile", takes_part(&handler, true));
    Ok(())
}
