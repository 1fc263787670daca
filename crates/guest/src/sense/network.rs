//! Connections to another machine: the network namespace at the far end of the wire. And such as only look like it.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket},
    os::fd::{AsFd, OwnedFd},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, anyhow, bail};
use rustix::{
    net::{self, AddressFamily, SocketType, socket, sockopt::set_ip_multicast_if},
    thread::{LinkNameSpaceType, move_into_link_name_space},
};

use super::object::{Kind, Link};
use crate::{
    clock::{self, Deadline},
    far::{self, FAR, NAMESPACE, NEAR},
};

/// The wire's ends, IPv6 (addresses for documentation, RFC 3849).
pub const NEAR6: &str = "2001:db8::1";
pub const FAR6: &str = "2001:db8::2";
/// A group for examples (RFC 6676).
const GROUP: Ipv4Addr = Ipv4Addr::new(233, 252, 0, 1);
/// Ends of a wire that a user has laid for himself (addresses for examples, RFC 5737).
const OWN_NEAR: &str = "198.51.100.1";
const OWN_FAR: &str = "198.51.100.2";

/// A network namespace.
struct Namespace(OwnedFd);

impl Namespace {
    /// One that `ip netns` knows.
    fn named(name: &str) -> Result<Self> {
        let path = format!("/run/netns/{name}");
        Ok(Self(File::open(&path).with_context(|| format!("open {path}"))?.into()))
    }

    /// Does something there: sockets stay where they were made.
    fn within<T: Send>(&self, act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let moved = || {
            move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network)).context("go elsewhere")?;
            act()
        };
        std::thread::scope(|scope| scope.spawn(moved).join()).unwrap_or_else(|_| Err(anyhow!("the thread failed")))
    }
}

/// The other machine. One at a time.
pub struct Elsewhere(Namespace);

impl Elsewhere {
    /// Makes it, and the wire.
    pub fn new() -> Result<Self> {
        far::join()?;
        // Without looking whether somebody else has the address, which takes a second.
        far::ip(&format!("address add {NEAR6}/64 dev near nodad"))?;
        far::ip(&format!("-n {NAMESPACE} address add {FAR6}/64 dev far nodad"))?;
        far::ip(&format!("-n {NAMESPACE} link set lo up"))?;
        Namespace::named(NAMESPACE).map(Self)
    }

    /// A connection from there to `port` of this machine, at one of its addresses; the writer is there. With the far end's
    /// address.
    pub fn calls(&self, here: &str, port: u16) -> Result<(Link, SocketAddr)> {
        self.calls_at(&listen(here, port)?)
    }

    /// The same where somebody listens already.
    pub fn calls_at(&self, listener: &TcpListener) -> Result<(Link, SocketAddr)> {
        let to = listener.local_addr()?;
        accepted(listener, self.0.within(|| connect(to))?)
    }

    /// A connection from here to `port` there; the writer is there.
    pub fn is_called(&self, there: &str, port: u16) -> Result<Link> {
        let listener = self.0.within(|| listen(there, port))?;
        let client = connect((there, port))?;
        let (server, _) = listener.accept().context("accept a connection")?;
        Ok(Link::of(Kind::Tcp, server, client))
    }

    /// A server for datagrams at `port` of this machine, and a client there; the writer is there.
    pub fn sends(&self, here: &str, port: u16) -> Result<(Link, SocketAddr)> {
        let server = bind(any(here), port)?;
        let client = self.0.within(|| sender(any(here), (here, port)))?;
        let from = client.local_addr()?;
        Ok((Link::of(Kind::UdpServer, client, server), from))
    }

    /// A server for datagrams at `port` there, and a client here; the writer is there, and answers the client.
    pub fn is_sent_to(&self, there: &str, port: u16) -> Result<Link> {
        let server = self.0.within(|| bind(there, port))?;
        let client = sender(any(there), (there, port))?;
        server.connect(client.local_addr()?).context("answer a client")?;
        Ok(Link::of(Kind::Udp, server, client))
    }

    /// A member of a group at `port` of this machine, and two who send to the group: one there, and one in this machine.
    pub fn send_to_group(&self, port: u16) -> Result<(Link, Link)> {
        let (near, far): (Ipv4Addr, Ipv4Addr) = (NEAR.parse()?, FAR.parse()?);
        let member = bind(any(NEAR), port)?;
        member.join_multicast_v4(&GROUP, &near).context("join a group")?;
        let to_group = |from: Ipv4Addr| -> Result<UdpSocket> {
            let sender = UdpSocket::bind((from, 0))?;
            set_ip_multicast_if(&sender, &from).context("choose an interface")?;
            sender.connect((GROUP, port)).context("send to a group")?;
            Ok(sender)
        };
        let there = self.0.within(|| to_group(far))?;
        let to_member = |sender, member| Link::of(Kind::UdpServer, sender, member);
        Ok((to_member(there, member.try_clone()?), to_member(to_group(near)?, member)))
    }
}

/// Two machines that a user makes up: network namespaces in user namespaces of his own, and a wire between them.
pub struct MadeUp {
    here: Namespace,
    there: Namespace,
}

impl MadeUp {
    const HERE: &str = "made-up-here";
    const THERE: &str = "made-up-there";

    /// Makes both.
    pub fn new() -> Result<Self> {
        let made = Self { here: own_namespace(Self::HERE)?, there: own_namespace(Self::THERE)? };
        let (here, there) = (Self::HERE, Self::THERE);
        far::ip(&format!("link add own-near netns {here} type veth peer name own-far netns {there}"))?;
        for (name, end, address) in [(here, "own-near", OWN_NEAR), (there, "own-far", OWN_FAR)] {
            far::ip(&format!("-n {name} address add {address}/24 dev {end}"))?;
            far::ip(&format!("-n {name} link set {end} up"))?;
        }
        Ok(made)
    }

    /// As [`Elsewhere::calls`].
    pub fn calls(&self, port: u16) -> Result<Link> {
        let listener = self.here.within(|| listen(OWN_NEAR, port))?;
        let client = self.there.within(|| connect((OWN_NEAR, port)))?;
        accepted(&listener, client).map(|(link, _)| link)
    }

    /// As [`Elsewhere::sends`].
    pub fn sends(&self, port: u16) -> Result<Link> {
        let server = self.here.within(|| bind(OWN_NEAR, port))?;
        let client = self.there.within(|| sender(OWN_FAR, (OWN_NEAR, port)))?;
        Ok(Link::of(Kind::UdpServer, client, server))
    }

    /// Does something in one of them.
    pub fn within<T: Send>(&self, act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.here.within(act)
    }
}

impl Drop for MadeUp {
    fn drop(&mut self) {
        clear(&[&format!("netns delete {}", Self::HERE), &format!("netns delete {}", Self::THERE)]);
    }
}

/// A network namespace as a user may have it who is root in a user namespace of his own only.
fn own_namespace(name: &str) -> Result<Namespace> {
    let words = ["--user", "--map-root-user", "--net", "sleep", "1000"];
    let mut holder = Command::new("unshare").args(words).stdin(Stdio::null()).spawn().context("start unshare")?;
    let attached = is_apart(&mut holder).and_then(|()| far::ip(&format!("netns attach {name} {}", holder.id())));
    // It stays by its name.
    let _ = holder.kill();
    let _ = holder.wait();
    attached?;
    Namespace::named(name)
}

/// Waits until a process has a network namespace other than ours.
fn is_apart(process: &mut Child) -> Result<()> {
    let network = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net"));
    let ours = network("self").context("look at a namespace")?;
    let deadline = Deadline::after_s(10);
    while network(&process.id().to_string()).is_ok_and(|theirs| theirs == ours) {
        if let Some(status) = process.try_wait().context("look after unshare")? {
            bail!("unshare ended ({status})");
        }
        if deadline.has_passed() {
            bail!("unshare made no network namespace within 10 s");
        }
        clock::sleep_ms(5);
    }
    Ok(())
}

/// A connection within this machine, by way of `address`: who reads accepted it, or else called.
pub fn local(address: &str, port: u16) -> Result<Link> {
    let listener = listen(address, port)?;
    accepted(&listener, connect((address, port))?).map(|(link, _)| link)
}

/// A connection within this machine, from one of its addresses to another one: who reads accepted it.
pub fn connection_between(from: &str, to: &str, port: u16) -> Result<Link> {
    let listener = listen(to, port)?;
    let family = if from.contains(':') { AddressFamily::INET6 } else { AddressFamily::INET };
    let client = socket(family, SocketType::STREAM, None).context("make a socket")?;
    net::bind(&client, &SocketAddr::new(from.parse()?, 0)).with_context(|| format!("bind to {from}"))?;
    net::connect(&client, &SocketAddr::new(to.parse()?, port)).with_context(|| format!("connect {from} to {to}"))?;
    let client = TcpStream::from(client);
    client.set_nodelay(true)?;
    accepted(&listener, client).map(|(link, _)| link)
}

/// One of this machine that sends to the server of `link` at `port`, whose reader is the same.
pub fn sends_from_here(link: &Link, port: u16) -> Result<Link> {
    let client = sender("127.0.0.1", ("127.0.0.1", port))?;
    Ok(Link::of(Kind::UdpServer, client, link.reader.try_clone().context("share a socket")?))
}

/// Two for datagrams within this machine: who reads is the server.
pub fn datagrams_between(from: &str, to: &str, port: u16) -> Result<Link> {
    let server = bind(to, port)?;
    let client = sender(from, (to, port))?;
    server.connect(client.local_addr()?).context("answer a client")?;
    Ok(Link::of(Kind::Udp, client, server))
}

/// Listens at `port` of an address.
pub fn listen(address: &str, port: u16) -> Result<TcpListener> {
    TcpListener::bind((address, port)).with_context(|| format!("listen on {address} port {port}"))
}

fn accepted(listener: &TcpListener, client: TcpStream) -> Result<(Link, SocketAddr)> {
    let (server, from) = listener.accept().context("accept a connection")?;
    Ok((Link::of(Kind::Tcp, client, server), from))
}

fn connect(to: impl ToSocketAddrs) -> Result<TcpStream> {
    let stream = TcpStream::connect(to).context("connect")?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Any address of the family that this one is of.
fn any(address: &str) -> &'static str {
    if address.contains(':') { "::" } else { "0.0.0.0" }
}

fn bind(address: &str, port: u16) -> Result<UdpSocket> {
    UdpSocket::bind((address, port)).with_context(|| format!("bind to {address} port {port}"))
}

fn sender(from: &str, to: (&str, u16)) -> Result<UdpSocket> {
    let socket = bind(from, 0)?;
    socket.connect(to).with_context(|| format!("connect to {} port {}", to.0, to.1))?;
    Ok(socket)
}

fn clear(all: &[&str]) {
    for words in all {
        if let Err(error) = far::ip(words) {
            println!("# {error:#}");
        }
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        // The wire goes with either end.
        clear(&["link delete near", &format!("netns delete {NAMESPACE}")]);
    }
}
