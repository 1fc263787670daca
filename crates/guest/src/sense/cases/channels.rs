//! Who reads from a device opens a request; who only watches it does not.

use std::process::Command;

use anyhow::{Result, ensure};

use super::{Case, case};
use crate::{
    clock,
    sense::{
        answer::{self, Origin, why},
        device::{self, Device, Shape},
        hidraw::RawDevice,
        program::{self, Program},
        rule::Rule,
        stage::{Actor, Stage},
        wire::{End, Order},
    },
};

const FORGE: &str = include_str!("../c/forge.c");
/// Longer than what comes after a write counts as an answer.
const NO_ANSWER_MS: u64 = 300;

pub fn all() -> Vec<Case> {
    vec![
        case("evdev", |stage| {
            let mut device = Device::new(Shape::Remote)?;
            let node = device.node("event")?;
            channel(stage, || device.touch(), "evdev", &node)
        }),
        case("mouse", |stage| {
            let mut device = Device::new(Shape::Mouse)?;
            device.node("mouse")?;
            channel(stage, || device.touch(), "mouse", "/dev/input/mice")
        }),
        case("joystick", |stage| {
            let mut device = Device::new(Shape::Joystick)?;
            let node = device.node("js")?;
            channel(stage, || device.touch(), "joystick", &node)
        }),
        case("hidraw", |stage| {
            let mut device = RawDevice::new()?;
            let node = device.node()?;
            channel(stage, || device.touch(), "hidraw", &node)
        }),
        case("tty", |stage| {
            let mut device = Device::new(Shape::Keyboard)?;
            device.node("event")?;
            let node = device::console()?;
            channel(stage, || device.touch(), "tty", &node)
        }),
        case("unplugged and back", unplugged),
        case("thread", thread),
        case("two readers", two_readers),
        case("events made up", made_up),
        case("answers of a raw device", answers),
        case("security key", security_key),
    ]
}

pub(super) fn hooks(stage: &mut Stage) -> Result<()> {
    let missing = answer::missing_hooks()?;
    let holds = if missing.is_empty() { Ok(()) } else { Err(anyhow::anyhow!("missing: {}", missing.join(", "))) };
    stage.verdict("all attached", holds);
    Ok(())
}

fn channel(stage: &mut Stage, mut touch: impl FnMut() -> Result<()>, channel: &str, node: &str) -> Result<()> {
    let mut handler = stage.actor("handler", None, None)?;
    let mut watcher = stage.actor("watcher", None, None)?;
    let mut too_early = stage.actor("reader that came too early", None, None)?;
    for actor in [&mut handler, &mut watcher] {
        actor.opens(node)?;
        take_initial_state(actor, channel)?;
    }
    // A joystick tells its state to whoever opens it, so nobody can come too early.
    if channel != "joystick" {
        too_early.opens_nonblocking(node)?;
        too_early.fails(&Order::Read(End::Channel))?;
        stage.verdict("a read that found nothing", too_early.unattended());
    }
    // A joystick's state is read too, and opens a request: whether the next read does must be told from it.
    let before = handler.why()?.chain.map(|chain| chain.request);
    let mut bystanders = Vec::new();
    for order in [Order::Poll(End::Channel, 5000), Order::Epoll(End::Channel, 5000)] {
        let mut bystander = stage.actor("watcher that never read", None, None)?;
        bystander.opens(node)?;
        bystander.waits_for(&order)?;
        bystanders.push((order, bystander));
    }
    touch()?;
    let ready = bystanders.iter_mut().map(|(_, bystander)| bystander.done()).collect::<Result<Vec<_>>>()?;
    handler.does(&Order::Read(End::Channel))?;
    let ready = if ready == [1, 1] { Ok(()) } else { Err(anyhow::anyhow!("nothing to read within 5 s")) };
    stage.verdict("who waits is woken", ready);
    for (order, bystander) in &bystanders {
        stage.verdict(&format!("who only waits for it, {order}"), bystander.unattended());
    }
    stage.verdict("reader", handler.attended(&Origin::new(channel, node, handler.pid), &[]));
    let after = handler.why()?.chain.map(|chain| chain.request);
    let anew = if after > before { Ok(()) } else { Err(anyhow::anyhow!("request {before:?} became {after:?}")) };
    stage.verdict("a request of its own", anew);
    // The next event opens the next request.
    handler.waits_for(&Order::Read(End::Channel))?;
    touch()?;
    handler.done()?;
    let next = handler.why()?.current().map(|chain| chain.request);
    let anew = if next > after { Ok(()) } else { Err(anyhow::anyhow!("request {after:?} became {next:?}")) };
    stage.verdict("the next event opens the next request", anew);
    Ok(())
}

/// A device is gone and back, at the same node: a rule for that counts again, as does the class when there is none.
fn unplugged(stage: &mut Stage) -> Result<()> {
    let mut device = Device::new(Shape::Remote)?;
    let node = device.node("event")?;
    let rule = Rule::add(&format!("read {node}"))?;
    for (so_far, round) in [(1, "before"), (2, "after")] {
        let mut reader = stage.actor("reader", None, None)?;
        reader.opens(&node)?;
        device.touch()?;
        reader.does(&Order::Read(End::Channel))?;
        stage.verdict(&format!("{round}: reader"), reader.attended(&Origin::new("evdev", &node, reader.pid), &[]));
        let hits = rule.hits()?;
        let counted = if hits == so_far { Ok(()) } else { Err(anyhow::anyhow!("{hits} hits of {so_far} reads")) };
        stage.verdict(&format!("{round}: by the rule"), counted);
        if round == "before" {
            drop(device);
            rule.becomes(true)?;
            reader.fails(&Order::Read(End::Channel))?;
            device = Device::new(Shape::Remote)?;
            let now = device.node("event")?;
            ensure!(now == node, "the device that was at {node} came back at {now}");
            rule.becomes(false)?;
        }
    }
    drop(rule);
    drop(device);
    let mut device = Device::new(Shape::Remote)?;
    let node = device.node("event")?;
    let mut reader = stage.actor("reader", None, None)?;
    reader.opens(&node)?;
    device.touch()?;
    reader.does(&Order::Read(End::Channel))?;
    stage.verdict("by its class", reader.attended(&Origin::new("evdev", &node, reader.pid), &[]));
    Ok(())
}

fn take_initial_state(actor: &mut Actor, channel: &str) -> Result<()> {
    if channel == "joystick" {
        actor.does(&Order::Read(End::Channel))?;
    }
    Ok(())
}

/// A process whose thread has read a channel, and ended.
pub fn read_by_thread(stage: &mut Stage) -> Result<Actor> {
    let mut handler = stage.handler("handler", None, None)?;
    handler.waits_for(&Order::ReadInThread(End::Channel))?;
    stage.touch_remote()?;
    handler.done()?;
    Ok(handler)
}

fn thread(stage: &mut Stage) -> Result<()> {
    let handler = read_by_thread(stage)?;
    stage.verdict("the process of a thread that read", handler.attended(&stage.by_remote(&handler), &[]));
    Ok(())
}

fn two_readers(stage: &mut Stage) -> Result<()> {
    let mut one = stage.handler("one reader", None, None)?;
    let mut two = stage.handler("other reader", None, None)?;
    stage.attend(&mut one)?;
    stage.verdict("who read", one.attended(&stage.by_remote(&one), &[]));
    stage.verdict("who has not read yet", two.unattended());
    two.does(&Order::Read(End::Channel))?;
    stage.verdict("who read later", two.attended(&stage.by_remote(&two), &[]));
    Ok(())
}

/// A user who may write to a device reads what it made up itself. The device's real events count as before.
fn made_up(stage: &mut Stage) -> Result<()> {
    let mut device = Device::new(Shape::Remote)?;
    let node = device.node("event")?;
    let mut forger = forge(stage, "event", &node)?;
    forger.prints(1)?;
    clock::sleep_ms(1000);
    stage.verdict("who makes up events", why(forger.pid())?.must_be_unattended());
    drop(forger);
    let mut reader = stage.actor("reader", None, None)?;
    reader.opens(&node)?;
    // It may have left the key pressed: of a press and a release, one changes something.
    device.touch()?;
    device.touch()?;
    reader.does(&Order::Read(End::Channel))?;
    stage.verdict("who reads real ones", reader.attended(&Origin::new("evdev", &node, reader.pid), &[]));
    Ok(())
}

/// What comes soon after a write is the device's answer, and no person's doing.
fn answers(stage: &mut Stage) -> Result<()> {
    let mut device = RawDevice::new()?;
    let node = device.node()?;
    let mut asker = forge(stage, "raw", &node)?;
    asker.prints(1)?;
    device.touch()?;
    asker.prints(2)?;
    stage.verdict("who is answered", why(asker.pid())?.must_be_unattended());
    clock::sleep_ms(NO_ANSWER_MS);
    device.touch()?;
    asker.prints(3)?;
    let origin = Origin::new("hidraw", &node, asker.pid());
    stage.verdict("who reads later", why(asker.pid())?.must_be_attended(&origin, &[]));
    Ok(())
}

fn security_key(stage: &mut Stage) -> Result<()> {
    let mut device = RawDevice::security_key()?;
    let node = device.node()?;
    let mut reader = stage.actor("reader", None, None)?;
    reader.opens(&node)?;
    device.touch()?;
    reader.does(&Order::Read(End::Channel))?;
    stage.verdict("its reader", reader.unattended());
    Ok(())
}

fn forge(stage: &Stage, how: &str, node: &str) -> Result<Program> {
    let program = program::compile(&stage.dir, "forge", FORGE)?;
    let output = stage.dir.join(format!("forge.{how}.log"));
    Program::start(Command::new(program).args([how, node]), None, output)
}
