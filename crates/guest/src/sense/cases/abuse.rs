//! Nobody gains CPU time by tricks: a hog that uses one beside hogs that do not has the share that it has without.

use std::{
    fs,
    os::fd::AsRawFd,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, anyhow};
use rustix::fs::{OFlags, fcntl_setfl};

use super::{Case, case, files::Channel};
use crate::{
    check::figure,
    clock,
    hog::Hogs,
    sense::{
        cgroup::Cgroup,
        device::{Device, Shape},
        network::local,
        object::{Kind, Link},
        rule::Rule,
        stage::{Actor, Stage},
        wire::{End, Order},
    },
};

/// Honest hogs beside the one that tries.
const OTHERS: usize = 3;
/// What a trick may gain: its share of CPU time against that without it.
const GAIN: f64 = 1.05;
/// Shares are measured for so long, s. Somebody is served all the while: no policy forgets a customer within a second.
const MEASURED_S: u64 = 3;
/// Time in which all begin, ms.
const BEGIN_MS: u64 = 300;
/// What it burns between two attempts, ms.
const BURNT_MS: u32 = 1;
const PORT: u16 = 7200;

pub fn all() -> Vec<Case> {
    let own = [("pty", Kind::PtyInput), ("pipe", Kind::Pipe), ("unix", Kind::UnixStream), ("tcp", Kind::Tcp)];
    let own = own.into_iter().map(|(name, kind)| {
        case(&format!("abuse: {name} of its own"), move |stage| {
            let link = stage.link(kind)?;
            own_link(stage, name, &link)
        })
    });
    let more = [
        case("abuse: device without data", device),
        case("abuse: port fed by itself", fed_by_itself),
        case("abuse: port fed by a partner", |stage| fed_by_partner(stage, "partner", false)),
        case("abuse: port fed by a partner that is waited for", |stage| fed_by_partner(stage, "awaited_partner", true)),
        case("abuse: socket fed by its child", socket_fed_by_child),
        case("abuse: terminal of its own, by a rule", terminal),
        case("abuse: fifo of its own, by a rule", |stage| fifo(stage, "read")),
        case("abuse: fifo of its own that it writes", |stage| fifo(stage, "write")),
        case("abuse: fast forks", forks),
    ];
    own.chain(more).collect()
}

/// Compares what a party has with what as many honest hogs have in its place, which is measured once.
fn gain(stage: &mut Stage, name: &str, pids: &[u32], begin: impl FnOnce() -> Result<()>) -> Result<()> {
    let mut customer = stage.handler("customer", None, None)?;
    let known = stage.honest_shares.get(&pids.len()).copied();
    let without = known.map_or_else(|| honest_share(stage, &mut customer, pids.len()), Ok)?;
    stage.honest_shares.insert(pids.len(), without);
    let with = share(stage, &mut customer, pids, begin)?;
    figure(&format!("abuse_gain_{name}"), with / without);
    let holds =
        if with / without <= GAIN { Ok(()) } else { Err(anyhow!("{with:.3} of the CPU, {without:.3} without")) };
    stage.verdict("no more than without it", holds);
    Ok(())
}

/// Actors that burn CPU time and do something between.
fn try_orders(stage: &mut Stage, name: &str, actors: &mut [(&mut Actor, Vec<Order>)]) -> Result<()> {
    let pids: Vec<u32> = actors.iter().map(|(actor, _)| actor.pid).collect();
    gain(stage, name, &pids, || {
        actors.iter_mut().try_for_each(|(actor, orders)| {
            let orders = [Order::Burn(BURNT_MS)].into_iter().chain(orders.drain(..)).collect();
            actor.tell(&Order::Repeat(orders))
        })
    })
}

const GIVE: Order = Order::Write(End::Output);
const TAKE: Order = Order::Read(End::Input);

/// Who writes to itself and reads that.
fn own_link(stage: &mut Stage, name: &str, link: &Link) -> Result<()> {
    let mut hermit = stage.actor("hermit", Some(&link.reader), Some(&link.writer))?;
    try_orders(stage, name, &mut [(&mut hermit, vec![GIVE, TAKE])])
}

fn device(stage: &mut Stage) -> Result<()> {
    let device = Device::new(Shape::Remote)?;
    let mut reader = stage.actor("reader", None, None)?;
    reader.opens_nonblocking(&device.node("event")?)?;
    try_orders(stage, "device", &mut [(&mut reader, vec![Order::Read(End::Channel)])])
}

fn fed_by_itself(stage: &mut Stage) -> Result<()> {
    let _rule = Rule::add(&format!("read accept :{PORT}"))?;
    own_link(stage, "own_port", &local("127.0.0.1", PORT)?)
}

fn fed_by_partner(stage: &mut Stage, name: &str, waits: bool) -> Result<()> {
    let _rule = Rule::add(&format!("read accept :{PORT}"))?;
    let link = local("127.0.0.1", PORT)?;
    if !waits {
        fcntl_setfl(&link.reader, OFlags::NONBLOCK).context("make a socket not wait")?;
    }
    let mut writer = stage.actor("writer", None, Some(&link.writer))?;
    let mut reader = stage.actor("reader", Some(&link.reader), None)?;
    try_orders(stage, name, &mut [(&mut writer, vec![GIVE]), (&mut reader, vec![TAKE])])
}

/// A rule says who is a customer by a socket's name, but whoever serves by that name may call itself, by another process.
fn socket_fed_by_child(stage: &mut Stage) -> Result<()> {
    const NAME: &str = "fed";
    let _rule = Rule::add(&format!("read accept unix:@{NAME}"))?;
    let mut parent = stage.actor("parent", None, None)?;
    let mut child = stage.child_of(&mut parent, "child")?;
    parent.waits_for(&Order::Serve(NAME.into()))?;
    child.does(&Order::Call(NAME.into()))?;
    parent.done()?;
    let (give, take) = (Order::Write(End::Channel), Order::Read(End::Channel));
    try_orders(stage, "childs_socket", &mut [(&mut child, vec![give]), (&mut parent, vec![take])])
}

/// Who holds a terminal's master types: such a channel would be fed by whoever opened it.
fn terminal(stage: &mut Stage) -> Result<()> {
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

/// Both ends, each opened for itself.
fn fifo(stage: &mut Stage, access: &str) -> Result<()> {
    let channel = Channel::new(stage, access)?;
    own_link(stage, &format!("own_fifo_{access}"), &channel.link)
}

/// Its children do the work, each for a few milliseconds.
fn forks(stage: &mut Stage) -> Result<()> {
    const SCRIPT: &str = "while :; do (i=0; while [ $i -lt 1000 ]; do i=$((i + 1)); done); done";
    let gate = stage.dir.join("gate");
    let _ = fs::remove_file(&gate);
    let script = format!("until [ -e {} ]; do sleep 0.05; done; {SCRIPT}", gate.display());
    let mut shell = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).spawn().context("start sh")?;
    let begin = || fs::write(&gate, "").with_context(|| format!("write {}", gate.display()));
    let holds = gain(stage, "forks", &[shell.id()], begin);
    let _ = shell.kill();
    let _ = shell.wait();
    holds
}

/// What so many hogs have that do nothing else.
fn honest_share(stage: &mut Stage, customer: &mut Actor, number: usize) -> Result<f64> {
    let honest = Hogs::start(number)?;
    let pids: Vec<u32> = honest.pids().collect();
    share(stage, customer, &pids, || Ok(()))
}

/// Share of the CPU time that all have which these processes and their children have beside honest hogs.
fn share(stage: &mut Stage, customer: &mut Actor, pids: &[u32], begin: impl FnOnce() -> Result<()>) -> Result<f64> {
    let (party, others) = (Cgroup::new("party")?, Cgroup::new("others")?);
    let hogs = Hogs::start(OTHERS)?;
    pids.iter().try_for_each(|&pid| party.take(pid))?;
    hogs.pids().try_for_each(|pid| others.take(pid))?;
    begin()?;
    stage.attend(customer)?;
    clock::sleep_ms(BEGIN_MS);
    let before = (party.used_us()?, others.used_us()?);
    for _ in 0..MEASURED_S {
        stage.attend(customer)?;
        clock::sleep_ms(1000);
    }
    let (party, others) = (party.used_us()? - before.0, others.used_us()? - before.1);
    Ok(party / (party + others))
}
