//! Sockets that a rule names: a customer is at the far end of the network, never in this machine.

use std::{
    net::SocketAddr,
    os::{
        fd::OwnedFd,
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr as UnixAddr, UnixListener, UnixStream},
    },
    process::Command,
};

use anyhow::{Context, Result, anyhow, ensure};
use rustix::net::{Shutdown, shutdown};

use super::{Case, case, files::CALLS};
use crate::{
    clock,
    far::{FAR, NEAR},
    sense::{
        answer::{Origin, loans, why},
        network::{FAR6, MadeUp, NEAR6, connection_between, local, sends_from_here},
        object::{Kind, Link, fill},
        program::{self, Program},
        rule::Rule,
        stage::{Actor, SETTLE_MS, Stage},
        way::Way,
        wire::{End, Order},
    },
};

pub const PORT: u16 = 7100;
pub const OTHER_PORT: u16 = 7101;
pub const READ: Order = Order::Read(End::Input);
/// After that nobody is remembered to have served somebody: 8 s, and a little.
const RETENTION_MS: u64 = 8200;

pub fn all() -> Vec<Case> {
    let accept = |family, here| {
        let (tcp, udp) = (format!("tcp accepted, {family}"), format!("udp accepted, {family}"));
        [case(&tcp, move |stage| tcp_accepted(stage, here)), case(&udp, move |stage| udp_accepted(stage, here))]
    };
    let connect = |family, there: &'static str| {
        case(&format!("tcp connected, {family}"), move |stage| tcp_connected(stage, there))
    };
    let unix = ["path", "name"].map(|kind| case(&format!("unix by {kind}"), move |stage| unix(stage, kind)));
    let v4 = accept("IPv4", NEAR).into_iter().chain([connect("IPv4", FAR)]);
    let v6 = accept("IPv6", NEAR6).into_iter().chain([connect("IPv6", FAR6)]);
    let more = [
        case("tcp from this machine", from_here),
        case("tcp, what gives nothing", nothing_read),
        case("tcp, what is lent", tcp_lends),
        case("udp, what is lent", udp_lends),
        case("tcp rule afterwards", afterwards),
        case("tcp by user", by_user),
        case("tcp written", written),
        case("tcp that takes nothing", nothing_written),
        case("unix that takes nothing", nothing_written_by_name),
        case("socket read by io_uring", uring_read),
        case("socket written by io_uring", uring_written),
        case("network of a user's own", made_up),
    ];
    v4.chain(v6).chain(more).chain(unix).chain([case("unix, given", given)]).collect()
}

/// That this process got something from a peer, or gave it something.
pub fn by_peer(peer: SocketAddr, reader: &Actor) -> Origin {
    Origin::new("inet", &peer.to_string(), reader.pid)
}

/// Has a new process read what a new one at the far end writes.
fn one_message(stage: &mut Stage, link: &Link, order: &Order) -> Result<Actor> {
    let mut writer = stage.actor("customer", None, Some(&link.writer))?;
    let mut reader = stage.actor("server", Some(&link.reader), None)?;
    writer.writes(link)?;
    let bytes = reader.does(order)?;
    ensure!(bytes > 0, "{order} gave {bytes} bytes");
    Ok(reader)
}

/// A message is an interaction with this peer.
pub fn opens(stage: &mut Stage, what: &str, link: &Link, order: &Order, peer: SocketAddr) -> Result<()> {
    let reader = one_message(stage, link, order)?;
    stage.verdict(what, reader.attended(&by_peer(peer, &reader), &[]));
    Ok(())
}

/// A message is none.
pub fn opens_nothing(stage: &mut Stage, what: &str, link: &Link) -> Result<()> {
    let reader = one_message(stage, link, &READ)?;
    stage.verdict(what, reader.unattended());
    Ok(())
}

fn tcp_accepted(stage: &mut Stage, here: &'static str) -> Result<()> {
    let rule = Rule::add(&format!("read accept :{PORT}"))?;
    let elsewhere = stage.elsewhere()?;
    let (link, peer) = elsewhere.calls(here, PORT)?;
    let ways = [Way::Vector, Way::Socket, Way::SocketFrom, Way::Message, Way::Splice, Way::Sendfile];
    for order in [READ].into_iter().chain(ways.map(|way| Order::Take(End::Input, way))) {
        opens(stage, &order.to_string(), &link, &order, peer)?;
    }
    let hits = rule.hits()?;
    let all = if hits == 7 { Ok(()) } else { Err(anyhow::anyhow!("{hits} hits of 7 reads")) };
    stage.verdict("each read is counted once", all);
    let (other, _) = elsewhere.calls(here, OTHER_PORT)?;
    opens_nothing(stage, "another port", &other)?;
    Ok(())
}

fn udp_accepted(stage: &mut Stage, here: &'static str) -> Result<()> {
    let _rule = Rule::add(&format!("read accept udp::{PORT}"))?;
    let elsewhere = stage.elsewhere()?;
    let (link, peer) = elsewhere.sends(here, PORT)?;
    // The sender's address is known once it sends.
    let ways = [Way::Vector, Way::Socket, Way::SocketFrom, Way::Message];
    for order in [READ].into_iter().chain(ways.map(|way| Order::Take(End::Input, way))) {
        opens(stage, &order.to_string(), &link, &order, peer)?;
    }
    let program = program::compile(&stage.dir, "calls", CALLS)?;
    let output = stage.dir.join("calls.out");
    let mut reader = Program::start(Command::new(program).arg("many"), Some(&link.reader), output)?;
    reader.prints(1)?;
    stage.actor("customer", None, Some(&link.writer))?.writes(&link)?;
    reader.prints(2)?;
    let origin = Origin::new("inet", &peer.to_string(), reader.pid());
    stage.verdict("recvmmsg", why(reader.pid())?.must_be_attended(&origin, &[]));
    drop(link);
    let (other, _) = elsewhere.sends(here, OTHER_PORT)?;
    opens_nothing(stage, "another port", &other)?;
    Ok(())
}

fn tcp_connected(stage: &mut Stage, there: &'static str) -> Result<()> {
    let elsewhere = stage.elsewhere()?;
    let address = SocketAddr::new(there.parse().context("address")?, PORT);
    for words in [format!("{address}"), bare(there)] {
        let _rule = Rule::add(&format!("read connect {words}"))?;
        let link = elsewhere.is_called(there, PORT)?;
        opens(stage, &words, &link, &READ, address)?;
    }
    let _rule = Rule::add(&format!("read connect {address}"))?;
    let other = elsewhere.is_called(there, OTHER_PORT)?;
    opens_nothing(stage, "another port", &other)?;
    Ok(())
}

/// An address alone, as rules have it.
pub(super) fn bare(address: &str) -> String {
    if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
}

fn tcp_lends(stage: &mut Stage) -> Result<()> {
    let _rule = Rule::add(&format!("read accept :{PORT}"))?;
    let (far, _) = stage.elsewhere()?.calls(NEAR, PORT)?;
    let near = connection_between(NEAR, "127.0.0.1", PORT)?;
    lends_to_far_alone(stage, &far, &near)
}

fn udp_lends(stage: &mut Stage) -> Result<()> {
    let _rule = Rule::add(&format!("read accept udp::{PORT}"))?;
    let (far, _) = stage.elsewhere()?.sends(NEAR, PORT)?;
    let near = sends_from_here(&far, PORT)?;
    lends_to_far_alone(stage, &far, &near)
}

/// A server that waits for data is lent a turn when a customer sends some, and none when somebody of this machine does: else that one
/// would use up what is lent to it.
fn lends_to_far_alone(stage: &mut Stage, far: &Link, near: &Link) -> Result<()> {
    let mut customer = stage.actor("customer", None, Some(&far.writer))?;
    let mut neighbour = stage.actor("neighbour", None, Some(&near.writer))?;
    let mut server = stage.actor("server", Some(&far.reader), Some(&near.reader))?;
    customer.writes(far)?;
    server.does(&READ)?;
    // Nobody remembers any more whom it served.
    clock::sleep_ms(RETENTION_MS);
    let mut lent = [0; 2];
    for (lent, (writer, link, end)) in
        lent.iter_mut().zip([(&mut neighbour, near, End::Output), (&mut customer, far, End::Input)])
    {
        let before = loans()?;
        server.waits_for(&Order::Read(end))?;
        writer.writes(link)?;
        server.done()?;
        *lent = loans()? - before;
    }
    let [by_neighbour, by_customer] = lent;
    let told = (by_neighbour == 0 && by_customer > 0).then_some(());
    let told =
        told.ok_or_else(|| anyhow!("{by_neighbour} loans for one that is here, {by_customer} for one that is far"));
    stage.verdict("data from far away has it lent a turn, and no other", told);
    Ok(())
}

/// Attention of a peer in this machine is its own, if it has any.
fn from_here(stage: &mut Stage) -> Result<()> {
    let _accept = Rule::add(&format!("read accept :{PORT}"))?;
    let _connect = Rule::add(&format!("read connect {NEAR}:{PORT}"))?;
    let _connect6 = Rule::add(&format!("read connect {}:{PORT}", bare(NEAR6)))?;
    stage.elsewhere()?;
    for address in ["127.0.0.1", "127.0.0.2", "::1", NEAR, NEAR6] {
        let link = local(address, PORT)?;
        opens_nothing(stage, &format!("who accepted at {address}"), &link)?;
        let back = Link::of(Kind::Tcp, link.reader, link.writer);
        opens_nothing(stage, &format!("who called {address}"), &back)?;
    }
    let link = local("127.0.0.1", PORT)?;
    let mut first = stage.handler("first", None, Some(&link.writer))?;
    let mut second = stage.actor("second", Some(&link.reader), None)?;
    stage.attend(&mut first)?;
    first.writes(&link)?;
    second.reads()?;
    let origin = stage.by_remote(&first);
    stage.verdict("who reads of one that is served", second.attended(&origin, &[("inet", second.pid)]));
    Ok(())
}

fn nothing_read(stage: &mut Stage) -> Result<()> {
    let rule = Rule::add(&format!("read accept :{PORT}"))?;
    let (link, _) = stage.elsewhere()?.calls(NEAR, PORT)?;
    let mut writer = stage.actor("customer", Some(&link.writer), Some(&link.writer))?;
    let mut reader = stage.actor("server", Some(&link.reader), None)?;
    reader.does(&Order::Poll(End::Input, 10))?;
    reader.does(&Order::Epoll(End::Input, 10))?;
    writer.writes(&link)?;
    for order in [Order::Poll(End::Input, 1000), Order::Epoll(End::Input, 1000)] {
        let ready = reader.does(&order)?;
        ensure!(ready == 1, "{order}: nothing came");
        stage.verdict(&order.to_string(), reader.unattended());
    }
    reader.does(&Order::Peek(End::Input))?;
    stage.verdict("peek", reader.unattended());
    reader.does(&Order::Give(End::Input, Way::Socket))?;
    stage.verdict("who only answers", reader.unattended());
    // What is left unread would be an error of the connection, in place of its end.
    writer.reads()?;
    let mut other = stage.actor("other reader", Some(&link.reader), None)?;
    other.reads()?;
    drop((writer, other, link.writer));
    let end = reader.does(&READ)?;
    ensure!(end == 0, "{end} bytes were left over");
    stage.verdict("end of file", reader.unattended());
    let hits = rule.hits()?;
    stage.verdict("nothing else was counted", if hits == 1 { Ok(()) } else { Err(anyhow::anyhow!("{hits} hits")) });
    Ok(())
}

fn afterwards(stage: &mut Stage) -> Result<()> {
    let (link, peer) = stage.elsewhere()?.calls(NEAR, PORT)?;
    opens_nothing(stage, "before there is a rule", &link)?;
    let rule = Rule::add(&format!("read accept {NEAR}:{PORT}"))?;
    opens(stage, "as soon as there is one", &link, &READ, peer)?;
    drop(rule);
    opens_nothing(stage, "when it is gone", &link)?;
    let _elsewhere = Rule::add(&format!("read accept {FAR}:{PORT}"))?;
    opens_nothing(stage, "one for another address", &link)?;
    Ok(())
}

fn by_user(stage: &mut Stage) -> Result<()> {
    let (link, peer) = stage.elsewhere()?.calls(NEAR, PORT)?;
    for filter in ["--user nobody", "--group nogroup"] {
        let _rule = Rule::add(&format!("read accept :{PORT} {filter}"))?;
        opens_nothing(stage, filter, &link)?;
    }
    for filter in ["--user root", "--group root", "--user 0 --cgroup /"] {
        let _rule = Rule::add(&format!("read accept :{PORT} {filter}"))?;
        opens(stage, filter, &link, &READ, peer)?;
    }
    Ok(())
}

fn written(stage: &mut Stage) -> Result<()> {
    let _rule = Rule::add(&format!("write accept :{PORT}"))?;
    let (link, peer) = stage.elsewhere()?.calls(NEAR, PORT)?;
    opens_nothing(stage, "who reads", &link)?;
    let ways = Way::SENDING.map(|way| Order::Give(End::Output, way));
    for order in [Order::Write(End::Output)].into_iter().chain(ways) {
        let mut server = stage.actor("server", None, Some(&link.reader))?;
        server.does(&order)?;
        stage.verdict(&order.to_string(), server.attended(&by_peer(peer, &server), &[]));
    }
    Ok(())
}

/// It tries to write to `end`, which must fail.
fn tries(stage: &mut Stage, what: &str, end: &OwnedFd) -> Result<()> {
    let mut server = stage.actor("server", None, Some(end))?;
    let ways = [Way::Vector, Way::Socket, Way::Message].map(|way| Order::Give(End::Output, way));
    for order in [Order::Write(End::Output)].into_iter().chain(ways) {
        server.fails(&order)?;
        stage.verdict(&format!("{what}: {order}"), server.unattended());
    }
    Ok(())
}

/// A connection that has no room, and one that is closed.
fn nothing_written(stage: &mut Stage) -> Result<()> {
    let elsewhere = stage.elsewhere()?;
    let ((full, _), (closed, _)) = (elsewhere.calls(NEAR, PORT)?, elsewhere.calls(NEAR, PORT)?);
    // Before there is a rule: this process must have no attention to hand on.
    fill(&full.reader)?;
    shutdown(&closed.reader, Shutdown::Write).context("close a connection for writing")?;
    let rule = Rule::add(&format!("write accept :{PORT}"))?;
    tries(stage, "without room", &full.reader)?;
    tries(stage, "closed", &closed.reader)?;
    let hits = rule.hits()?;
    stage.verdict("nothing was counted", if hits == 0 { Ok(()) } else { Err(anyhow::anyhow!("{hits} hits")) });
    let (link, peer) = elsewhere.calls(NEAR, PORT)?;
    let mut server = stage.actor("server", None, Some(&link.reader))?;
    server.does(&Order::Write(End::Output))?;
    stage.verdict("with room", server.attended(&by_peer(peer, &server), &[]));
    Ok(())
}

/// The same of unix sockets.
fn nothing_written_by_name(stage: &mut Stage) -> Result<()> {
    let name = "takes-nothing";
    let (full, closed) = (by_name(name)?, by_name(name)?);
    fill(&full.reader)?;
    drop(closed.writer);
    let rule = Rule::add(&format!("write accept unix:@{name}"))?;
    tries(stage, "without room", &full.reader)?;
    tries(stage, "closed", &closed.reader)?;
    let hits = rule.hits()?;
    stage.verdict("nothing was counted", if hits == 0 { Ok(()) } else { Err(anyhow::anyhow!("{hits} hits")) });
    let link = by_name(name)?;
    let mut server = stage.actor("server", None, Some(&link.reader))?;
    server.does(&Order::Write(End::Output))?;
    stage.verdict("with room", server.attended(&Origin::new("unix", &rule.node(), server.pid), &[]));
    Ok(())
}

/// A connection by an abstract name of a unix socket: who reads accepted it.
fn by_name(name: &str) -> Result<Link> {
    let address = UnixAddr::from_abstract_name(name)?;
    let listener = UnixListener::bind_addr(&address).with_context(|| format!("listen on @{name}"))?;
    let client = UnixStream::connect_addr(&address).with_context(|| format!("connect to @{name}"))?;
    Ok(Link::of(Kind::UnixStream, client, listener.accept().context("accept")?.0))
}

/// A program reads by io_uring what comes while it waits, or what has come before.
fn uring_read(stage: &mut Stage) -> Result<()> {
    let _tcp = Rule::add(&format!("read accept :{PORT}"))?;
    let _udp = Rule::add(&format!("read accept udp::{PORT}"))?;
    let program = program::compile(&stage.dir, "calls", CALLS)?;
    let elsewhere = stage.elsewhere()?;
    for (name, (link, peer)) in [("tcp", elsewhere.calls(NEAR, PORT)?), ("udp", elsewhere.sends(NEAR, PORT)?)] {
        for way in ["uring", "uring-recv"] {
            let output = stage.dir.join("calls.out");
            let start = || Program::start(Command::new(&program).arg(way), Some(&link.reader), output.clone());
            let mut customer = stage.actor("customer", None, Some(&link.writer))?;
            let mut waiter = start()?;
            waiter.prints(1)?;
            clock::sleep_ms(SETTLE_MS);
            stage.verdict(&format!("{name}, {way}: who waits"), why(waiter.pid())?.must_be_unattended());
            customer.writes(&link)?;
            waiter.prints(2)?;
            let by = |reader: &Program| Origin::new("inet", &peer.to_string(), reader.pid());
            let waited = why(waiter.pid())?.must_be_attended(&by(&waiter), &[]);
            stage.verdict(&format!("{name}, {way}: who waited"), waited);
            drop(waiter);
            customer.writes(&link)?;
            let mut reader = start()?;
            reader.prints(2)?;
            let found = why(reader.pid())?.must_be_attended(&by(&reader), &[]);
            stage.verdict(&format!("{name}, {way}: who found it there"), found);
        }
        let output = stage.dir.join("calls.out");
        let mut hasty = Program::start(Command::new(&program).arg("uring-hasty"), Some(&link.reader), output)?;
        hasty.prints(2)?;
        stage.verdict(&format!("{name}: a read that found nothing"), why(hasty.pid())?.must_be_unattended());
    }
    Ok(())
}

fn uring_written(stage: &mut Stage) -> Result<()> {
    let _rule = Rule::add(&format!("write accept :{PORT}"))?;
    let named = Rule::add("write accept unix:@written")?;
    let program = program::compile(&stage.dir, "calls", CALLS)?;
    let (tcp, peer) = stage.elsewhere()?.calls(NEAR, PORT)?;
    let unix = by_name("written")?;
    for (channel, node, link) in [("inet", peer.to_string(), &tcp), ("unix", named.node(), &unix)] {
        for way in ["uring-write", "uring-send"] {
            let output = stage.dir.join("calls.out");
            let mut server = Program::start(Command::new(&program).arg(way), Some(&link.reader), output)?;
            server.prints(2)?;
            let origin = Origin::new(channel, &node, server.pid());
            stage.verdict(&format!("{channel}, {way}"), why(server.pid())?.must_be_attended(&origin, &[]));
        }
    }
    let mut client = stage.actor("client", Some(&unix.writer), None)?;
    client.reads()?;
    stage.verdict("unix: who reads that", client.unattended());
    Ok(())
}

/// Who is root in a user namespace of his own lays wires as he likes: what comes by them is nobody's customer.
fn made_up(stage: &mut Stage) -> Result<()> {
    let _tcp = Rule::add(&format!("read accept :{PORT}"))?;
    let _udp = Rule::add(&format!("read accept udp::{PORT}"))?;
    let _written = Rule::add(&format!("write accept :{OTHER_PORT}"))?;
    let _name = Rule::add("read accept unix:@service")?;
    let network = MadeUp::new()?;
    let link = network.calls(PORT)?;
    opens_nothing(stage, "tcp", &link)?;
    opens_nothing(stage, "udp", &network.sends(PORT)?)?;
    let link = network.calls(OTHER_PORT)?;
    let mut server = stage.actor("server", None, Some(&link.reader))?;
    server.does(&Order::Write(End::Output))?;
    stage.verdict("tcp written", server.unattended());
    // Names are of the network namespace: there the service's is free.
    let address = UnixAddr::from_abstract_name("service")?;
    let (client, server) = network.within(|| {
        let listener = UnixListener::bind_addr(&address)?;
        let client = UnixStream::connect_addr(&address)?;
        Ok((client, listener.accept()?.0))
    })?;
    opens_nothing(stage, "unix by name", &Link::of(Kind::UnixStream, client, server))
}

/// A service of this machine by its socket: the rule says itself that who is at the other end is a customer.
fn unix(stage: &mut Stage, kind: &str) -> Result<()> {
    let path = stage.dir.join("service").display().to_string();
    let (name, address) = match kind {
        "path" => (format!("unix:{path}"), UnixAddr::from_pathname(&path)?),
        _ => ("unix:@service".to_owned(), UnixAddr::from_abstract_name("service")?),
    };
    let listener = UnixListener::bind_addr(&address).with_context(|| format!("listen on {name}"))?;
    let connection = || -> Result<Link> {
        let client = UnixStream::connect_addr(&address).with_context(|| format!("connect to {name}"))?;
        Ok(Link::of(Kind::UnixStream, client, listener.accept().context("accept")?.0))
    };
    for side in ["accept", "connect"] {
        let rule = Rule::add(&format!("read {side} {name}"))?;
        let link = connection()?;
        let mut client = stage.actor("client", Some(&link.writer), Some(&link.writer))?;
        let mut server = stage.actor("server", Some(&link.reader), Some(&link.reader))?;
        client.writes(&link)?;
        server.reads()?;
        let by = |reader: &Actor| Origin::new("unix", &rule.node(), reader.pid);
        if side == "accept" {
            stage.verdict("accept: server", server.attended(&by(&server), &[]));
            stage.verdict("accept: client", client.unattended());
        } else {
            stage.verdict("connect: server", server.unattended());
            server.writes(&link)?;
            client.reads()?;
            stage.verdict("connect: client", client.attended(&by(&client), &[]));
        }
    }
    if kind == "path" {
        std::fs::remove_file(&path).with_context(|| format!("remove {path}"))?;
    }
    Ok(())
}

/// Who gives its customer something by itself speaks for him to its servers, whatever they say; and they to nobody. What a
/// server hears from its clients is for them.
fn given(stage: &mut Stage) -> Result<()> {
    let name = "picture";
    let listener = UnixListener::bind_addr(&UnixAddr::from_abstract_name(name)?).context("listen on a name")?;
    let connection = || -> Result<Link> {
        let client = UnixStream::connect_addr(&UnixAddr::from_abstract_name(name)?).context("connect to a name")?;
        Ok(Link::of(Kind::UnixStream, client, listener.accept().context("accept")?.0))
    };
    {
        let rule = Rule::add(&format!("write connect unix:@{name}"))?;
        let (link, onward) = (connection()?, stage.link(Kind::Pipe)?);
        let mut giver = stage.actor("giver", Some(&link.writer), Some(&link.writer))?;
        let mut answers = stage.actor("server's answers", None, Some(&link.reader))?;
        let mut server = stage.actor("server", Some(&link.reader), Some(&onward.writer))?;
        let mut behind = stage.actor("behind the server", Some(&onward.reader), None)?;
        giver.writes(&link)?;
        server.reads()?;
        answers.writes(&link)?;
        giver.reads()?;
        giver.writes(&link)?;
        server.reads()?;
        let origin = Origin::new("unix", &rule.node(), giver.pid);
        stage.verdict("a giver's server", server.attended(&origin, &[("unix", server.pid)]));
        server.writes(&onward)?;
        behind.reads()?;
        stage.verdict("who is behind it", behind.unattended());
    }
    let _rule = Rule::add(&format!("write accept unix:@{name}"))?;
    let link = connection()?;
    let mut asker = stage.actor("asker", Some(&link.writer), Some(&link.writer))?;
    let mut giver = stage.actor("giver that is asked", Some(&link.reader), Some(&link.reader))?;
    for _ in 0..2 {
        asker.writes(&link)?;
        giver.reads()?;
        giver.writes(&link)?;
        asker.reads()?;
    }
    stage.verdict("who asks a giver", asker.unattended());
    Ok(())
}
