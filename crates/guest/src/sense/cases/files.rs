//! Files that a rule names: a FIFO, and a device without a class of its own.

use std::{fs, fs::File, os::fd::AsRawFd, process::Command};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::fs::{OFlags, fcntl_setfl};

use super::{Case, case};
use crate::{
    clock,
    sense::{
        answer::{Origin, why},
        object::{Kind, Link, fifo, fill},
        program::{self, Program},
        rule::Rule,
        stage::{Actor, SETTLE_MS, Stage},
        way::Way,
        wire::{End, Order},
    },
};

/// A program for calls that safe Rust has no words for.
pub const CALLS: &str = include_str!("../c/calls.c");
/// A device that always has something to read, of no class with hooks.
pub const DEVICE: &str = "/dev/urandom";

pub fn all() -> Vec<Case> {
    vec![
        case("fifo", by_fifo),
        case("fifo read by io_uring", by_uring),
        case("fifo that gives nothing", nothing_read),
        case("fifo at its end", end_of_file),
        case("fifo made anew", anew),
        case("fifo written", written),
        case("fifo written by io_uring", written_by_uring),
        case("fifo that takes nothing", nothing_written),
        case("device by path", device),
        case("rule removed", removed),
        case("readv while rules come and go", across_rules),
        case("fifo of one's own", own_fifo),
        case("terminal of one's own", own_terminal),
    ]
}

/// A FIFO that a rule is about.
pub struct Channel {
    rule: Rule,
    /// Both ends.
    pub link: Link,
    path: String,
}

impl Channel {
    /// One that counts when it is `access`ed: `read`, `write`.
    pub fn new(stage: &Stage, access: &str) -> Result<Self> {
        let path = stage.dir.join("channel").display().to_string();
        let link = Self::make(&path)?;
        Ok(Self { rule: Rule::add(&format!("{access} {path}"))?, link, path })
    }

    fn make(path: &str) -> Result<Link> {
        let (writer, reader) = fifo(path.as_ref())?;
        Ok(Link::of(Kind::Fifo, writer, reader))
    }

    /// A process that writes to it.
    pub fn writer(&self, stage: &mut Stage) -> Result<Actor> {
        stage.actor("writer", None, Some(&self.link.writer))
    }

    /// A process that reads from it.
    pub fn reader(&self, stage: &mut Stage) -> Result<Actor> {
        stage.actor("reader", Some(&self.link.reader), None)
    }

    /// That this process read from it, or wrote to it.
    fn by(&self, pid: u32) -> Origin {
        Origin::new("file", &self.rule.node(), pid)
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // Some checks have removed it.
        let _ = fs::remove_file(&self.path);
    }
}

/// All calls that read from a FIFO: of one, the kernel refuses sendfile().
fn reads() -> impl Iterator<Item = Order> {
    let ways = [Way::Vector, Way::VectorAt, Way::Splice].map(|way| Order::Take(End::Input, way));
    [Order::Read(End::Input)].into_iter().chain(ways)
}

fn by_fifo(stage: &mut Stage) -> Result<()> {
    let channel = Channel::new(stage, "read")?;
    let mut writer = channel.writer(stage)?;
    for order in reads() {
        let mut reader = channel.reader(stage)?;
        reader.waits_for(&order)?;
        stage.verdict(&format!("{order}: who waits"), reader.unattended());
        writer.writes(&channel.link)?;
        let bytes = reader.done()?;
        ensure!(bytes > 0, "{order} gave {bytes} bytes");
        stage.verdict(&order.to_string(), reader.attended(&channel.by(reader.pid), &[]));
    }
    stage.verdict("who writes", writer.unattended());
    let hits = channel.rule.hits()?;
    let all = if hits == 4 { Ok(()) } else { Err(anyhow!("{hits} hits of 4 reads")) };
    stage.verdict("each read is counted once", all);
    Ok(())
}

fn by_uring(stage: &mut Stage) -> Result<()> {
    let program = program::compile(&stage.dir, "calls", CALLS)?;
    let channel = Channel::new(stage, "read")?;
    let mut writer = channel.writer(stage)?;
    let output = stage.dir.join("calls.out");
    let start = |way: &str| Program::start(Command::new(&program).arg(way), Some(&channel.link.reader), output.clone());
    let mut waiter = start("uring")?;
    waiter.prints(1)?;
    clock::sleep_ms(SETTLE_MS);
    stage.verdict("who waits", why(waiter.pid())?.must_be_unattended());
    writer.writes(&channel.link)?;
    waiter.prints(2)?;
    stage.verdict("who waited for it", why(waiter.pid())?.must_be_attended(&channel.by(waiter.pid()), &[]));
    drop(waiter);
    writer.writes(&channel.link)?;
    let mut reader = start("uring")?;
    reader.prints(2)?;
    stage.verdict("who found it there", why(reader.pid())?.must_be_attended(&channel.by(reader.pid()), &[]));
    drop(reader);
    let mut hasty = start("uring-hasty")?;
    hasty.prints(2)?;
    stage.verdict("a read that found nothing", why(hasty.pid())?.must_be_unattended());
    Ok(())
}

fn nothing_read(stage: &mut Stage) -> Result<()> {
    let channel = Channel::new(stage, "read")?;
    let mut writer = channel.writer(stage)?;
    let mut reader = channel.reader(stage)?;
    // Of the open file, which all share.
    fcntl_setfl(&channel.link.reader, OFlags::NONBLOCK).context("make a FIFO not wait")?;
    for order in reads().filter(|order| !matches!(order, Order::Take(_, Way::Splice))) {
        reader.fails(&order)?;
        stage.verdict(&format!("{order} of nothing"), reader.unattended());
    }
    reader.does(&Order::Poll(End::Input, 10))?;
    reader.does(&Order::Epoll(End::Input, 10))?;
    writer.writes(&channel.link)?;
    for order in [Order::Poll(End::Input, 1000), Order::Epoll(End::Input, 1000)] {
        let ready = reader.does(&order)?;
        ensure!(ready == 1, "{order}: nothing came");
        stage.verdict(&order.to_string(), reader.unattended());
    }
    reader.does(&Order::Take(End::Input, Way::Tee))?;
    stage.verdict("tee, which leaves it there", reader.unattended());
    stage.verdict("nothing was counted", none(channel.rule.hits()?));
    reader.reads()?;
    // One process that has both ends feeds itself.
    let mut hermit = stage.actor("hermit", Some(&channel.link.reader), Some(&channel.link.writer))?;
    hermit.does(&Order::Write(End::Output))?;
    hermit.reads()?;
    stage.verdict("who writes to itself", hermit.unattended());
    Ok(())
}

/// Whoever could write has gone: reads give nothing, and succeed.
fn end_of_file(stage: &mut Stage) -> Result<()> {
    let mut channel = Channel::new(stage, "read")?;
    channel.link.writer = File::open("/dev/null").context("open /dev/null")?.into();
    let mut reader = channel.reader(stage)?;
    for order in reads() {
        let bytes = reader.does(&order)?;
        ensure!(bytes == 0, "{order} gave {bytes} bytes");
        stage.verdict(&order.to_string(), reader.unattended());
    }
    stage.verdict("nothing was counted", none(channel.rule.hits()?));
    Ok(())
}

fn none(hits: u64) -> Result<()> {
    if hits == 0 { Ok(()) } else { bail!("{hits} hits") }
}

fn anew(stage: &mut Stage) -> Result<()> {
    let mut channel = Channel::new(stage, "read")?;
    for round in ["the first", "the next"] {
        let mut writer = channel.writer(stage)?;
        let mut reader = channel.reader(stage)?;
        writer.writes(&channel.link)?;
        reader.reads()?;
        stage.verdict(round, reader.attended(&channel.by(reader.pid), &[]));
        if round == "the first" {
            fs::remove_file(&channel.path).with_context(|| format!("remove {}", channel.path))?;
            channel.rule.becomes(true)?;
            channel.link = Channel::make(&channel.path)?;
            channel.rule.becomes(false)?;
        }
    }
    Ok(())
}

fn written(stage: &mut Stage) -> Result<()> {
    let channel = Channel::new(stage, "write")?;
    let mut reader = channel.reader(stage)?;
    let ways = [Way::Vector, Way::VectorAt, Way::Splice, Way::Sendfile].map(|way| Order::Give(End::Output, way));
    for order in [Order::Write(End::Output)].into_iter().chain(ways) {
        let mut writer = channel.writer(stage)?;
        writer.does(&order)?;
        stage.verdict(&order.to_string(), writer.attended(&channel.by(writer.pid), &[]));
        reader.reads()?;
    }
    stage.verdict("who reads", reader.unattended());
    Ok(())
}

fn written_by_uring(stage: &mut Stage) -> Result<()> {
    let program = program::compile(&stage.dir, "calls", CALLS)?;
    let channel = Channel::new(stage, "write")?;
    let output = stage.dir.join("calls.out");
    let mut writer = Program::start(Command::new(program).arg("uring-write"), Some(&channel.link.writer), output)?;
    writer.prints(2)?;
    stage.verdict("who writes", why(writer.pid())?.must_be_attended(&channel.by(writer.pid()), &[]));
    let mut reader = channel.reader(stage)?;
    reader.reads()?;
    stage.verdict("who reads", reader.unattended());
    Ok(())
}

/// One that is full, and one that nobody reads any more.
fn nothing_written(stage: &mut Stage) -> Result<()> {
    let program = program::compile(&stage.dir, "calls", CALLS)?;
    let path = stage.dir.join("channel").display().to_string();
    let link = Channel::make(&path)?;
    // Before there is a rule: this process must have no attention to hand on.
    fill(&link.writer)?;
    let mut channel = Channel { rule: Rule::add(&format!("write {path}"))?, link, path };
    let mut writer = channel.writer(stage)?;
    let ways = [Way::Vector, Way::VectorAt, Way::Splice].map(|way| Order::Give(End::Output, way));
    for order in [Order::Write(End::Output)].into_iter().chain(ways) {
        writer.fails(&order)?;
        stage.verdict(&format!("{order} without room"), writer.unattended());
    }
    let output = stage.dir.join("calls.out");
    let mut hasty = Program::start(Command::new(program).arg("uring-write-hasty"), Some(&channel.link.writer), output)?;
    hasty.prints(2)?;
    stage.verdict("io_uring without room", why(hasty.pid())?.must_be_unattended());
    stage.verdict("nothing was counted", none(channel.rule.hits()?));
    let mut reader = channel.reader(stage)?;
    reader.reads()?;
    writer.writes(&channel.link)?;
    stage.verdict("who finds room", writer.attended(&channel.by(writer.pid), &[]));
    drop(reader);
    // Another writer, or it would be taken for one's own.
    let _other = File::options().write(true).open(&channel.path).context("open a FIFO for writing")?;
    channel.link.reader = File::open("/dev/null").context("open /dev/null")?.into();
    let mut late = channel.writer(stage)?;
    late.fails(&Order::Write(End::Output))?;
    stage.verdict("who writes to nobody", late.unattended());
    Ok(())
}

fn device(stage: &mut Stage) -> Result<()> {
    let rule = Rule::add(&format!("read {DEVICE}"))?;
    let mut reader = stage.actor("reader", None, None)?;
    reader.opens(DEVICE)?;
    stage.verdict("who only opened it", reader.unattended());
    reader.does(&Order::Read(End::Channel))?;
    stage.verdict("who read it", reader.attended(&Origin::new("file", &rule.node(), reader.pid), &[]));
    let both =
        File::options().read(true).write(true).open(DEVICE).with_context(|| format!("open {DEVICE} for both"))?;
    let both = both.into();
    let mut asker = stage.actor("asker", Some(&both), Some(&both))?;
    asker.does(&Order::Write(End::Output))?;
    asker.reads()?;
    stage.verdict("who asked it and read it", asker.attended(&Origin::new("file", &rule.node(), asker.pid), &[]));
    Ok(())
}

fn removed(stage: &mut Stage) -> Result<()> {
    let path = stage.dir.join("no-channel").display().to_string();
    let link = Channel::make(&path)?;
    let rule = Rule::add(&format!("read {path}"))?;
    let mut writer = stage.actor("writer", None, Some(&link.writer))?;
    let mut reader = stage.actor("reader", Some(&link.reader), None)?;
    drop(rule);
    writer.writes(&link)?;
    reader.reads()?;
    stage.verdict("who reads then", reader.unattended());
    fs::remove_file(&path).with_context(|| format!("remove {path}"))
}

/// The hooks go and come while a readv waits, so that its end is not seen: what else the process reads counts all the same.
fn across_rules(stage: &mut Stage) -> Result<()> {
    let path = stage.dir.join("channel").display().to_string();
    let link = Channel::make(&path)?;
    let rule = Rule::add(&format!("read {path}"))?;
    let mut writer = stage.actor("writer", None, Some(&link.writer))?;
    let mut reader = stage.actor("reader", Some(&link.reader), None)?;
    reader.opens(DEVICE)?;
    reader.waits_for(&Order::Take(End::Input, Way::Vector))?;
    drop(rule);
    let rule = Rule::add(&format!("read {DEVICE}"))?;
    writer.writes(&link)?;
    reader.done()?;
    reader.does(&Order::Read(End::Channel))?;
    stage.verdict("reader", reader.attended(&Origin::new("file", &rule.node(), reader.pid), &[]));
    fs::remove_file(&path).with_context(|| format!("remove {path}"))
}

/// Who has both ends of a FIFO gives to nobody.
fn own_fifo(stage: &mut Stage) -> Result<()> {
    let mut channel = Channel::new(stage, "write")?;
    let both = File::options().read(true).write(true).open(&channel.path).context("open a FIFO for both")?;
    channel.link = Link::of(Kind::Fifo, both.try_clone()?, both);
    let mut hermit = stage.actor("hermit", Some(&channel.link.reader), Some(&channel.link.writer))?;
    hermit.does(&Order::Write(End::Output))?;
    stage.verdict("who writes to itself", hermit.unattended());
    let mut reader = stage.actor("reader", None, None)?;
    reader.opens(&channel.path)?;
    reader.does(&Order::Read(End::Channel))?;
    hermit.does(&Order::Write(End::Output))?;
    let origin = channel.by(hermit.pid);
    stage.verdict("who writes to somebody", hermit.attended(&origin, &[]));
    Ok(())
}

/// Who holds a terminal's master types: such a channel would be fed by whoever opened it.
fn own_terminal(stage: &mut Stage) -> Result<()> {
    let link = stage.link(Kind::PtyInput)?;
    let node = fs::read_link(format!("/proc/self/fd/{}", link.reader.as_raw_fd())).context("name a terminal")?;
    let refused = match Rule::add(&format!("read {}", node.display())) {
        Err(error) if format!("{error:#}").contains("is a pseudo-terminal") => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(anyhow!("{} is a channel", node.display())),
    };
    stage.verdict("a rule for it is refused", refused);
    Ok(())
}
