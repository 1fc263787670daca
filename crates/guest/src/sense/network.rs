//! Connections to another machine: the network namespace at the far end of the wire.

use std::{
    fs::File,
    net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket},
    os::fd::{AsFd, OwnedFd},
};

use anyhow::{Context, Result, anyhow};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::object::{Kind, Link};
use crate::far::{self, NAMESPACE};

/// The wire's ends, IPv6 (addresses for documentation, RFC 3849).
pub const NEAR6: &str = "2001:db8::1";
pub const FAR6: &str = "2001:db8::2";

/// The other machine. One at a time.
pub struct Elsewhere(OwnedFd);

impl Elsewhere {
    /// Makes it, and the wire.
    pub fn new() -> Result<Self> {
        far::join()?;
        // Without looking whether somebody else has the address, which takes a second.
        far::ip(&format!("address add {NEAR6}/64 dev near nodad"))?;
        far::ip(&format!("-n {NAMESPACE} address add {FAR6}/64 dev far nodad"))?;
        far::ip(&format!("-n {NAMESPACE} link set lo up"))?;
        let path = format!("/run/netns/{NAMESPACE}");
        Ok(Self(File::open(&path).with_context(|| format!("open {path}"))?.into()))
    }

    /// Does something there: sockets stay where they were made.
    fn there<T: Send>(&self, act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let moved = || {
            move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network)).context("go elsewhere")?;
            act()
        };
        std::thread::scope(|scope| scope.spawn(moved).join()).unwrap_or_else(|_| Err(anyhow!("the thread failed")))
    }

    /// A connection from there to `port` of this machine, at one of its addresses; the writer is there. With the far end's
    /// address.
    pub fn calls(&self, here: &str, port: u16) -> Result<(Link, SocketAddr)> {
        let listener = TcpListener::bind((here, port)).with_context(|| format!("listen on {here} port {port}"))?;
        let client = self.there(|| connect((here, port)))?;
        let (server, from) = listener.accept().context("accept a connection")?;
        Ok((Link::of(Kind::Tcp, client, server), from))
    }

    /// A connection from here to `port` there; the writer is there.
    pub fn is_called(&self, there: &str, port: u16) -> Result<Link> {
        let listener = self.there(|| Ok(TcpListener::bind((there, port))?))?;
        let client = connect((there, port))?;
        let (server, _) = listener.accept().context("accept a connection")?;
        Ok(Link::of(Kind::Tcp, server, client))
    }

    /// A server for datagrams at `port` of this machine, and a client there; the writer is there.
    pub fn sends(&self, here: &str, port: u16) -> Result<(Link, SocketAddr)> {
        let any = if here.contains(':') { "::" } else { "0.0.0.0" };
        let server = UdpSocket::bind((any, port)).with_context(|| format!("bind to port {port}"))?;
        let client = self.there(|| {
            let client = UdpSocket::bind((any, 0))?;
            client.connect((here, port))?;
            Ok(client)
        })?;
        let from = client.local_addr()?;
        Ok((Link::of(Kind::UdpServer, client, server), from))
    }
}

/// A connection within this machine, by way of `address`: who reads accepted it, or else called.
pub fn local(address: &str, port: u16) -> Result<Link> {
    let listener = TcpListener::bind((address, port)).with_context(|| format!("listen on {address} port {port}"))?;
    let client = connect((address, port))?;
    Ok(Link::of(Kind::Tcp, client, listener.accept()?.0))
}

fn connect(to: impl ToSocketAddrs) -> Result<TcpStream> {
    let stream = TcpStream::connect(to).context("connect")?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        // The wire goes with either end.
        for words in ["link delete near".to_owned(), format!("netns delete {NAMESPACE}")] {
            if let Err(error) = far::ip(&words) {
                println!("# {error:#}");
            }
        }
    }
}
