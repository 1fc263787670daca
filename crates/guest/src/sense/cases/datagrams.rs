//! Datagrams by rules: where each goes and comes from is its own, whatever its socket is connected to.

use std::{
    net::{SocketAddr, UdpSocket},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr as UnixAddr, UnixDatagram},
    },
    process::Command,
};

use anyhow::{Context, Result, anyhow};

use super::{
    Case, case,
    files::CALLS,
    sockets::{OTHER_PORT, PORT, READ, bare, by_peer, opens, opens_nothing},
};
use crate::{
    far::{FAR, NEAR},
    sense::{
        answer::{Origin, why},
        network::{FAR6, NEAR6},
        object::{Kind, Link},
        program::{self, Program},
        rule::Rule,
        stage::{Actor, Stage},
        way::Way,
        wire::{End, Order},
    },
};

pub fn all() -> Vec<Case> {
    let inet = [("IPv4", NEAR, FAR), ("IPv6", NEAR6, FAR6)].into_iter().flat_map(|(family, here, there)| {
        [
            case(&format!("udp connected, {family}"), move |stage| connected(stage, there)),
            case(&format!("udp written, {family}"), move |stage| written(stage, here)),
        ]
    });
    let unix = ["path", "name"].into_iter().flat_map(|kind| {
        [
            case(&format!("unix datagrams by {kind}"), move |stage| unix(stage, kind)),
            case(&format!("unix datagrams to oneself, by {kind}"), move |stage| unix_to_oneself(stage, kind)),
        ]
    });
    inet.chain([case("udp to a group", to_group), case("udp written by sendmmsg", written_together)])
        .chain(unix)
        .collect()
}

fn connected(stage: &mut Stage, there: &'static str) -> Result<()> {
    let elsewhere = stage.elsewhere()?;
    let address = SocketAddr::new(there.parse().context("address")?, PORT);
    for words in [format!("udp:{address}"), format!("udp:{}", bare(there))] {
        let _rule = Rule::add(&format!("read connect {words}"))?;
        let link = elsewhere.is_sent_to(there, PORT)?;
        opens(stage, &words, &link, &READ, address)?;
    }
    let _rule = Rule::add(&format!("both connect udp:{address}"))?;
    let other = elsewhere.is_sent_to(there, OTHER_PORT)?;
    opens_nothing(stage, "another port", &other)?;
    let link = elsewhere.is_sent_to(there, PORT)?;
    let mut client = stage.actor("client", None, Some(&link.reader))?;
    client.does(&Order::Write(End::Output))?;
    stage.verdict("written", client.attended(&by_peer(address, &client), &[]));
    Ok(())
}

fn written(stage: &mut Stage, here: &'static str) -> Result<()> {
    let rule = Rule::add(&format!("write accept udp::{PORT}"))?;
    let other = Rule::add(&format!("write accept udp::{OTHER_PORT}"))?;
    let (link, peer) = stage.elsewhere()?.sends(here, PORT)?;
    let to = |to: SocketAddr| Order::SendTo(End::Output, to);
    let mut server = stage.actor("server", None, Some(&link.reader))?;
    server.does(&to(peer))?;
    stage.verdict("to whom it names", server.attended(&by_peer(peer, &server), &[]));
    let mut server = stage.actor("server", None, Some(&link.reader))?;
    server.does(&Order::SendLarge(End::Output, peer))?;
    stage.verdict("in several frames", server.attended(&by_peer(peer, &server), &[]));
    let mut inside = vec![here];
    inside.extend(if peer.is_ipv6() {
        ["::1", "::", "::ffff:127.0.0.1"].as_slice()
    } else {
        &["127.0.0.1", "0.0.0.0"]
    });
    let bound = UdpSocket::bind((here, OTHER_PORT))?.into();
    for (address, from, socket) in
        inside.into_iter().map(|address| (address, "any", &link.reader)).chain([(here, "the same", &bound)])
    {
        let mut hermit = stage.actor("hermit", None, Some(socket))?;
        hermit.does(&to(SocketAddr::new(address.parse()?, OTHER_PORT)))?;
        stage.verdict(&format!("to {address}, from {from}"), hermit.unattended());
    }
    let socket = UdpSocket::from(link.reader.try_clone()?);
    socket.connect(peer).context("answer one client only")?;
    let ways = [Way::Vector, Way::Socket, Way::Message].map(|way| Order::Give(End::Output, way));
    for order in [Order::Write(End::Output)].into_iter().chain(ways) {
        let mut server = stage.actor("server", None, Some(&link.reader))?;
        server.does(&order)?;
        stage.verdict(&order.to_string(), server.attended(&by_peer(peer, &server), &[]));
    }
    let mut beside = stage.actor("server of another port", None, Some(&bound))?;
    beside.does(&to(peer))?;
    stage.verdict("from another port", beside.attended(&by_peer(peer, &beside), &[]));
    let hits = (rule.hits()?, other.hits()?);
    let all = if hits == (6, 1) { Ok(()) } else { Err(anyhow!("{hits:?} hits of 6 writes and one")) };
    stage.verdict("each write is counted once", all);
    Ok(())
}

/// Each message of a call that sends several is one.
fn written_together(stage: &mut Stage) -> Result<()> {
    let program = program::compile(&stage.dir, "calls", CALLS)?;
    let (link, peer) = stage.elsewhere()?.sends(NEAR, PORT)?;
    // Since then the far end's hardware address is known; a datagram that waits for that does not count.
    opens_nothing(stage, "who reads, before there is a rule", &link)?;
    let rule = Rule::add(&format!("write accept udp::{PORT}"))?;
    UdpSocket::from(link.reader.try_clone()?).connect(peer).context("answer one client only")?;
    let output = stage.dir.join("calls.out");
    let mut server = Program::start(Command::new(program).arg("send-many"), Some(&link.reader), output)?;
    server.prints(2)?;
    let origin = Origin::new("inet", &peer.to_string(), server.pid());
    stage.verdict("who writes", why(server.pid())?.must_be_attended(&origin, &[]));
    let hits = rule.hits()?;
    stage.verdict("each is counted", if hits == 2 { Ok(()) } else { Err(anyhow!("{hits} hits of 2 messages")) });
    Ok(())
}

/// What is sent to a group comes back to the members in the sender's machine.
fn to_group(stage: &mut Stage) -> Result<()> {
    let _rule = Rule::add(&format!("read accept udp::{PORT}"))?;
    let (from_there, from_here) = stage.elsewhere()?.send_to_group(PORT)?;
    let peer = UdpSocket::from(from_there.writer.try_clone()?).local_addr()?;
    opens(stage, "from another machine", &from_there, &READ, peer)?;
    opens_nothing(stage, "from this machine", &from_here)
}

/// A service's socket, one of a client's, the words by which rules know the service.
struct Service {
    server: UnixDatagram,
    client: UnixDatagram,
    words: String,
    path: Option<std::path::PathBuf>,
}

impl Service {
    fn new(stage: &Stage, kind: &str) -> Result<Self> {
        let path = stage.dir.join("datagrams");
        let (words, address) = match kind {
            "path" => (format!("unix:{}", path.display()), UnixAddr::from_pathname(&path)?),
            _ => ("unix:@datagrams".to_owned(), UnixAddr::from_abstract_name("datagrams")?),
        };
        let server = UnixDatagram::bind_addr(&address).with_context(|| format!("bind to {words}"))?;
        let client = UnixDatagram::bind_addr(&UnixAddr::from_abstract_name("datagrams' client")?)?;
        client.connect_addr(&address).with_context(|| format!("connect to {words}"))?;
        Ok(Self { server, client, words, path: (kind == "path").then_some(path) })
    }

    /// To the server.
    fn link(&self) -> Result<Link> {
        Ok(Link::of(Kind::UnixDatagram, self.client.try_clone()?, self.server.try_clone()?))
    }

    /// To the client.
    fn answer(&self) -> Result<Link> {
        self.server.connect_addr(&self.client.local_addr()?).context("answer a client")?;
        Ok(Link::of(Kind::UnixDatagram, self.server.try_clone()?, self.client.try_clone()?))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn unix(stage: &mut Stage, kind: &str) -> Result<()> {
    let service = Service::new(stage, kind)?;
    let by = |rule: &Rule, actor: &Actor| Origin::new("unix", &rule.node(), actor.pid);
    let link = service.link()?;
    for access in ["read", "write"] {
        let rule = Rule::add(&format!("{access} accept {}", service.words))?;
        let mut client = stage.actor("client", None, Some(&link.writer))?;
        let mut server = stage.actor("server", Some(&link.reader), None)?;
        client.writes(&link)?;
        server.reads()?;
        stage.verdict(&format!("{access} accept: client"), client.unattended());
        let holds = if access == "read" { server.attended(&by(&rule, &server), &[]) } else { server.unattended() };
        stage.verdict(&format!("{access} accept: server"), holds);
    }
    let link = service.answer()?;
    for access in ["read", "write"] {
        let rule = Rule::add(&format!("{access} connect {}", service.words))?;
        let mut server = stage.actor("server", None, Some(&link.writer))?;
        let mut client = stage.actor("client", Some(&link.reader), Some(&link.reader))?;
        server.writes(&link)?;
        client.reads()?;
        stage.verdict(&format!("{access} connect: server"), server.unattended());
        let holds = if access == "read" { client.attended(&by(&rule, &client), &[]) } else { client.unattended() };
        stage.verdict(&format!("{access} connect: client reads"), holds);
        if access == "write" {
            client.does(&Order::Write(End::Output))?;
            stage.verdict("write connect: client writes", client.attended(&by(&rule, &client), &[]));
        }
    }
    Ok(())
}

/// Both ends belong to one process: it is no customer of its own.
fn unix_to_oneself(stage: &mut Stage, kind: &str) -> Result<()> {
    let service = Service::new(stage, kind)?;
    let _rule = Rule::add(&format!("read accept {}", service.words))?;
    let link = service.link()?;
    let mut hermit = stage.actor("hermit", Some(&link.reader), Some(&link.writer))?;
    hermit.writes(&link)?;
    hermit.reads()?;
    stage.verdict("who writes to itself", hermit.unattended());
    Ok(())
}
