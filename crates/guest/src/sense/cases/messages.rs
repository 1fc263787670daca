//! One process reads a key and writes to the next: attention goes where the message goes, and nowhere else.

use anyhow::{Result, anyhow, bail};

use super::{Case, case};
use crate::sense::{
    object::Kind,
    stage::Stage,
    way::Way,
    wire::{End, Order},
};

pub fn all() -> Vec<Case> {
    let kinds = Kind::ALL.iter().map(|&kind| case(&kind.to_string(), move |stage| message(stage, kind)));
    let ends = [Kind::Pipe, Kind::UnixStream, Kind::Tcp];
    let ends = ends.into_iter().map(|kind| case(&format!("end of {kind}"), move |stage| end_of_file(stage, kind)));
    kinds
        .chain(ends)
        .chain([
            case("tcp by each call", by_each_call),
            case("unix by each call", taken_by_each_call),
            case("pipe by splice", spliced),
            case("fork", fork),
            case("chain", chain),
            case("echo", echo),
        ])
        .collect()
}

fn message(stage: &mut Stage, kind: Kind) -> Result<()> {
    let (link, beside) = (stage.link(kind)?, stage.link(kind)?);
    let mut first = stage.handler("first", None, Some(&link.writer))?;
    let mut second = stage.actor("second", Some(&link.reader), None)?;
    let sharer = stage.actor("sharer", Some(&link.reader), None)?;
    let mut writer = stage.actor("writer beside", None, Some(&beside.writer))?;
    let mut reader = stage.actor("reader beside", Some(&beside.reader), None)?;
    stage.attend(&mut first)?;
    let origin = stage.by_remote(&first);
    first.writes(&link)?;
    writer.writes(&beside)?;
    stage.verdict("who has not read yet", second.unattended());
    if kind.can_peek() {
        second.does(&Order::Peek(End::Input))?;
        stage.verdict("who only looked at it", second.unattended());
    }
    reader.reads()?;
    stage.verdict("who reads something else", reader.unattended());
    stage.verdict("who writes something else", writer.unattended());
    second.reads()?;
    let way = [(kind.object(), second.pid)];
    stage.verdict("who read it", second.attended(&origin, &way));
    stage
        .verdict(if kind.is_pty() { "who only shares the terminal" } else { "who only holds it" }, sharer.unattended());
    stage.verdict("who wrote it", first.attended(&origin, &[]));

    let before = second.why()?.chain.map(|chain| chain.request);
    second.waits_for(&Order::Read(End::Input))?;
    stage.attend(&mut first)?;
    first.writes(&link)?;
    second.done()?;
    stage.verdict("who waited for it", second.attended(&origin, &way));
    let after = second.why()?.chain.map(|chain| chain.request);
    stage.verdict(
        "is served for the later key",
        if after > before { Ok(()) } else { Err(anyhow!("{before:?}, then {after:?}")) },
    );
    Ok(())
}

/// Who sends by TCP is found by the call that sends: each names its socket somewhere.
fn by_each_call(stage: &mut Stage) -> Result<()> {
    for way in Way::SENDING {
        let (link, order) = (stage.link(Kind::Tcp)?, Order::Give(End::Output, way));
        let mut first = stage.handler("first", None, Some(&link.writer))?;
        let mut second = stage.actor("second", Some(&link.reader), None)?;
        stage.attend(&mut first)?;
        first.does(&order)?;
        second.reads()?;
        let origin = stage.by_remote(&first);
        stage.verdict(&order.to_string(), second.attended(&origin, &[(Kind::Tcp.object(), second.pid)]));
    }
    Ok(())
}

/// Who takes a message off a unix socket is found whatever the call; splice and sendfile go a way of their own.
fn taken_by_each_call(stage: &mut Stage) -> Result<()> {
    for way in [Way::Vector, Way::Socket, Way::SocketFrom, Way::Message, Way::Splice, Way::Sendfile] {
        let (link, order) = (stage.link(Kind::UnixStream)?, Order::Take(End::Input, way));
        let mut first = stage.handler("first", None, Some(&link.writer))?;
        let mut second = stage.actor("second", Some(&link.reader), None)?;
        let mut stranger = stage.actor("stranger", None, Some(&link.writer))?;
        let mut third = stage.actor("third", Some(&link.reader), None)?;
        stage.attend(&mut first)?;
        first.writes(&link)?;
        second.does(&order)?;
        let origin = stage.by_remote(&first);
        stage.verdict(&order.to_string(), second.attended(&origin, &[(Kind::UnixStream.object(), second.pid)]));
        stranger.writes(&link)?;
        third.does(&order)?;
        stage.verdict(&format!("{order} of what a stranger wrote"), third.unattended());
    }
    Ok(())
}

/// What goes into a pipe without a write, or out of it without a read.
fn spliced(stage: &mut Stage) -> Result<()> {
    let (give, take) = (Order::Give(End::Output, Way::Splice), Order::Take(End::Input, Way::Splice));
    for (give, take) in [(&give, &Order::Read(End::Input)), (&Order::Write(End::Output), &take), (&give, &take)] {
        let link = stage.link(Kind::Pipe)?;
        let mut first = stage.handler("first", None, Some(&link.writer))?;
        let mut second = stage.actor("second", Some(&link.reader), None)?;
        let mut stranger = stage.actor("stranger", None, Some(&link.writer))?;
        let mut third = stage.actor("third", Some(&link.reader), None)?;
        stage.attend(&mut first)?;
        first.does(give)?;
        second.does(take)?;
        let way = [(Kind::Pipe.object(), second.pid)];
        stage.verdict(&format!("{give}, {take}"), second.attended(&stage.by_remote(&first), &way));
        stranger.does(give)?;
        third.does(take)?;
        stage.verdict(&format!("{give}, {take} of what a stranger gave"), third.unattended());
    }
    Ok(())
}

fn end_of_file(stage: &mut Stage, kind: Kind) -> Result<()> {
    let link = stage.link(kind)?;
    let mut first = stage.handler("first", None, Some(&link.writer))?;
    let mut second = stage.actor("second", Some(&link.reader), None)?;
    let mut late = stage.actor("reader of the end", Some(&link.reader), None)?;
    stage.attend(&mut first)?;
    first.writes(&link)?;
    second.reads()?;
    let way = [(kind.object(), second.pid)];
    stage.verdict("who read a message", second.attended(&stage.by_remote(&first), &way));
    drop(first);
    drop(link);
    match late.does(&Order::Read(End::Input))? {
        0 => stage.verdict("who read only the end", late.unattended()),
        bytes => bail!("{bytes} bytes were left over"),
    }
    Ok(())
}

fn fork(stage: &mut Stage) -> Result<()> {
    let mut first = stage.handler("first", None, None)?;
    let mut stranger = stage.actor("stranger", None, None)?;
    let elder = stage.child_of(&mut first, "child from before")?;
    stage.attend(&mut first)?;
    let origin = stage.by_remote(&first);
    let mut child = stage.child_of(&mut first, "child")?;
    stage.verdict("child", child.attended(&origin, &[("fork", child.pid)]));
    let grandchild = stage.child_of(&mut child, "grandchild")?;
    stage.verdict("grandchild", grandchild.attended(&origin, &[("fork", child.pid), ("fork", grandchild.pid)]));
    stage.verdict("child from before", elder.unattended());
    let other = stage.child_of(&mut stranger, "stranger's child")?;
    stage.verdict("stranger's child", other.unattended());
    Ok(())
}

/// As behind a window: display server, terminal, shell, command, and what that asks.
fn chain(stage: &mut Stage) -> Result<()> {
    let (unix, pty, pipe, tcp) =
        (stage.link(Kind::UnixStream)?, stage.link(Kind::PtyInput)?, stage.link(Kind::Pipe)?, stage.link(Kind::Tcp)?);
    let mut server = stage.handler("server", None, Some(&unix.writer))?;
    let mut terminal = stage.actor("terminal", Some(&unix.reader), Some(&pty.writer))?;
    let mut shell = stage.actor("shell", Some(&pty.reader), Some(&pipe.writer))?;
    let mut client = stage.actor("client", Some(&pipe.reader), Some(&tcp.writer))?;
    let mut service = stage.actor("service", Some(&tcp.reader), None)?;
    stage.attend(&mut server)?;
    server.writes(&unix)?;
    terminal.reads()?;
    terminal.writes(&pty)?;
    shell.reads()?;
    let mut command = stage.child_of(&mut shell, "command")?;
    command.writes(&pipe)?;
    client.reads()?;
    client.writes(&tcp)?;
    service.reads()?;
    let way = [
        ("unix", terminal.pid),
        ("pty", shell.pid),
        ("fork", command.pid),
        ("pipe", client.pid),
        ("inet", service.pid),
    ];
    let origin = stage.by_remote(&server);
    stage.verdict("five hops, five objects", service.attended(&origin, &way));
    stage.verdict("in the middle", command.attended(&origin, &way[..3]));
    Ok(())
}

/// A terminal gets back what it wrote, by the kernel's hand: that neither moves it away from the customer nor
/// makes it work for somebody else.
fn echo(stage: &mut Stage) -> Result<()> {
    let (pty, pipe) = (stage.link(Kind::PtyInput)?, stage.link(Kind::Pipe)?);
    let mut terminal = stage.handler("terminal", Some(&pty.writer), Some(&pipe.writer))?;
    let mut second = stage.actor("second", Some(&pipe.reader), None)?;
    stage.attend(&mut terminal)?;
    terminal.does(&Order::Write(End::Input))?;
    terminal.reads()?;
    let origin = stage.by_remote(&terminal);
    stage.verdict("who reads its own echo", terminal.attended(&origin, &[]));
    terminal.writes(&pipe)?;
    second.reads()?;
    stage.verdict("what it writes then", second.attended(&origin, &[("pipe", second.pid)]));
    Ok(())
}
