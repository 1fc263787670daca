//! Addresses of sockets as people write them.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    path::PathBuf,
};

use super::spec::{Refusal, path};
use crate::seams::{Protocol, Side};

/// Longest host name (RFC 1035), and longest part of one.
const HOST_MAX: usize = 253;
const LABEL_MAX: usize = 63;
/// What fits into a `sockaddr_un`, less the zero byte that ends or begins it.
const UNIX_MAX: usize = 107;

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// By address; never an IPv4 address in IPv6's clothes.
    Address(IpAddr),
    /// By name, in lower case.
    Name(String),
}

/// A TCP or UDP socket. Accept: host and port are its own. Connect: the far end's.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Inet {
    /// Its transport.
    pub protocol: Protocol,
    /// `None`: any.
    pub host: Option<Host>,
    /// `None`: any. Never 0.
    pub port: Option<u16>,
}

/// A unix socket.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unix {
    /// Bound to a path.
    Path(PathBuf),
    /// Bound to a name in the abstract name space, written with an `@` before it.
    Abstract(String),
}

/// A socket of either family.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Address {
    Inet(Inet),
    Unix(Unix),
}

impl Address {
    /// Understands `[tcp:|udp:][HOST][:PORT]`, `unix:/PATH` or `unix:@NAME`.
    pub(super) fn parse(side: Side, text: &str) -> Result<Self, Refusal> {
        if let Some(name) = text.strip_prefix("unix:") {
            return unix(name).map(Self::Unix);
        }
        let (protocol, rest) = match text.split_once(':') {
            Some(("udp", rest)) => (Protocol::Udp, rest),
            Some(("tcp", rest)) => (Protocol::Tcp, rest),
            _ => (Protocol::Tcp, text),
        };
        let (host, port) = split(rest)?;
        let host = host.map(|host| parse_host(host, side)).transpose()?.flatten();
        let port = port.map(|port| parse_port(port, text)).transpose()?;
        match (side, &host, port) {
            (Side::Accept, _, None) => {
                Err(Refusal::new(format!("accept {text} names no port: write accept {text}:22")))
            }
            (Side::Connect, None, None) => {
                Err(Refusal::new(format!("connect {text} names neither host nor port: write connect HOST:PORT")))
            }
            // Nobody who sits at this machine is behind just any other one.
            (Side::Connect, None, Some(port)) => Err(Refusal::new(format!(
                "connect {text} names no host, so whoever asks anybody at that port would have a customer: write connect HOST:{port}"
            ))),
            _ => Ok(Self::Inet(Inet { protocol, host, port })),
        }
    }
}

/// Host and port, either of which may be missing.
fn split(text: &str) -> Result<(Option<&str>, Option<&str>), Refusal> {
    let wrong = || {
        Refusal::new(format!("{text} is no address: write HOST, HOST:PORT or :PORT, and IPv6 in brackets, [::1]:22"))
    };
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(wrong)?;
        host.parse::<Ipv6Addr>().map_err(|_| Refusal::new(format!("[{host}] is no IPv6 address")))?;
        return match rest.strip_prefix(':') {
            Some(port) => Ok((Some(host), Some(port))),
            None if rest.is_empty() => Ok((Some(host), None)),
            None => Err(wrong()),
        };
    }
    match text.split_once(':') {
        Some((_, port)) if port.contains(':') => Err(wrong()),
        Some((host, port)) => Ok(((!host.is_empty()).then_some(host), Some(port))),
        None => Ok(((!text.is_empty()).then_some(text), None)),
    }
}

fn parse_port(port: &str, of: &str) -> Result<u16, Refusal> {
    match port.parse::<u16>() {
        Ok(number) if number > 0 && port.bytes().all(|byte| byte.is_ascii_digit()) => Ok(number),
        _ => Err(Refusal::new(format!("port \"{port}\" of {of} is none: allowed is 1 to 65535"))),
    }
}

/// The host; `None` when it stands for every address of this machine.
fn parse_host(host: &str, side: Side) -> Result<Option<Host>, Refusal> {
    if let Ok(address) = host.parse::<IpAddr>() {
        let address = address.to_canonical();
        return match (address.is_unspecified(), side) {
            (true, Side::Accept) => Ok(None),
            (true, Side::Connect) => Err(Refusal::new(format!("nobody has the address {host}: name the far end's"))),
            _ if address.is_loopback() => Err(is_this_machine(host)),
            _ => Ok(Some(Host::Address(address))),
        };
    }
    let name = host.to_ascii_lowercase();
    let labels = || name.strip_suffix('.').unwrap_or(&name).split('.');
    let is_label = |label: &str| {
        (1..=LABEL_MAX).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    // A name that ends in a number would be read as an address by some and not by others.
    let is_numeric = labels().next_back().is_some_and(|label| label.bytes().all(|byte| byte.is_ascii_digit()));
    if matches!(labels().next_back(), Some("localhost")) {
        return Err(is_this_machine(host));
    }
    if name.len() > HOST_MAX || is_numeric || !labels().all(is_label) {
        let shown: String = host.chars().take(HOST_MAX).collect();
        return Err(Refusal::new(format!("\"{shown}\" is neither a host name nor an address")));
    }
    Ok(Some(Host::Name(name)))
}

/// What processes of this machine tell each other is followed as it is, and comes from no customer.
fn is_this_machine(host: &str) -> Refusal {
    Refusal::new(format!(
        "{host} is this machine itself, which is no customer of its own: name an address that others use"
    ))
}

fn unix(name: &str) -> Result<Unix, Refusal> {
    let (bytes, socket) = match name.strip_prefix('@') {
        Some(name) => (name.len(), Unix::Abstract(name.to_owned())),
        None => (name.len(), Unix::Path(path(name, "a unix socket is unix:/PATH or unix:@NAME")?)),
    };
    match bytes {
        0 => Err(Refusal::new("unix:@ names no socket: write unix:@NAME")),
        1..=UNIX_MAX => Ok(socket),
        _ => Err(Refusal::new(format!("the name of a unix socket has at most {UNIX_MAX} bytes, and this one {bytes}"))),
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Address(address) => address.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Inet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.protocol == Protocol::Udp {
            f.write_str("udp:")?;
        }
        if let Some(host) = &self.host {
            host.fmt(f)?;
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Unix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "unix:{}", path.display()),
            Self::Abstract(name) => write!(f, "unix:@{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(side: Side, text: &str) -> String {
        match Address::parse(side, text) {
            Ok(Address::Inet(inet)) => inet.to_string(),
            Ok(Address::Unix(unix)) => unix.to_string(),
            Err(refusal) => panic!("{text}: {refusal}"),
        }
    }

    #[test]
    fn what_is_understood_is_shown_alike() {
        for (given, expected) in [
            (":22", ":22"),
            ("tcp::22", ":22"),
            ("udp::22", "udp::22"),
            ("0.0.0.0:22", ":22"),
            ("[::]:22", ":22"),
            ("192.0.2.1:22", "192.0.2.1:22"),
            ("udp:[2001:db8::1]:5000", "udp:[2001:db8::1]:5000"),
            ("[::ffff:192.0.2.1]:22", "192.0.2.1:22"),
            ("Desk.Example:5900", "desk.example:5900"),
            ("unix:/run//x.sock", "unix:/run/x.sock"),
            ("unix:@name", "unix:@name"),
        ] {
            assert_eq!(shown(Side::Accept, given), expected, "{given}");
        }
        for same in ["proxy.example", "proxy.example:8080", "[2001:db8::1]", "udp:192.0.2.1", "unix:@a b"] {
            assert_eq!(shown(Side::Connect, same), same);
        }
    }

    #[test]
    fn nonsense_is_named() {
        let of = |side, text: &str| Address::parse(side, text).expect_err(text).to_string();
        let long = format!("{}:22", "a.".repeat(200));
        let refusals: Vec<String> = [
            (Side::Accept, ":0"),
            (Side::Accept, ":70000"),
            (Side::Accept, ":+22"),
            (Side::Accept, ":"),
            (Side::Accept, "host"),
            (Side::Accept, "::1:22"),
            (Side::Accept, "[::1"),
            (Side::Accept, "[::1]22"),
            (Side::Accept, "[fe80::1%eth0]:22"),
            (Side::Accept, "1.2.3.400:22"),
            (Side::Accept, "ho st:22"),
            (Side::Accept, "a..b:22"),
            (Side::Connect, ""),
            (Side::Connect, ":80"),
            (Side::Connect, "0.0.0.0:80"),
            (Side::Accept, "udp:[::1]:5000"),
            (Side::Accept, "127.0.0.2:80"),
            (Side::Connect, "LocalHost:80"),
            (Side::Connect, "a.localhost."),
            (Side::Accept, "unix:run/x"),
            (Side::Accept, "unix:@"),
        ]
        .map(|(side, text)| of(side, text))
        .into();
        insta::assert_snapshot!(refusals.join("\n"), @r#"
        port "0" of :0 is none: allowed is 1 to 65535
        port "70000" of :70000 is none: allowed is 1 to 65535
        port "+22" of :+22 is none: allowed is 1 to 65535
        port "" of : is none: allowed is 1 to 65535
        accept host names no port: write accept host:22
        ::1:22 is no address: write HOST, HOST:PORT or :PORT, and IPv6 in brackets, [::1]:22
        [::1 is no address: write HOST, HOST:PORT or :PORT, and IPv6 in brackets, [::1]:22
        [::1]22 is no address: write HOST, HOST:PORT or :PORT, and IPv6 in brackets, [::1]:22
        [fe80::1%eth0] is no IPv6 address
        "1.2.3.400" is neither a host name nor an address
        "ho st" is neither a host name nor an address
        "a..b" is neither a host name nor an address
        connect  names neither host nor port: write connect HOST:PORT
        connect :80 names no host, so whoever asks anybody at that port would have a customer: write connect HOST:80
        nobody has the address 0.0.0.0: name the far end's
        ::1 is this machine itself, which is no customer of its own: name an address that others use
        127.0.0.2 is this machine itself, which is no customer of its own: name an address that others use
        LocalHost is this machine itself, which is no customer of its own: name an address that others use
        a.localhost. is this machine itself, which is no customer of its own: name an address that others use
        path "run/x" is not absolute: a unix socket is unix:/PATH or unix:@NAME, /like/this
        unix:@ names no socket: write unix:@NAME
        "#);
        assert!(of(Side::Accept, &long).contains("is neither a host name nor an address"));
        let longest = format!("unix:@{}", "x".repeat(UNIX_MAX));
        assert!(Address::parse(Side::Accept, &longest).is_ok());
        assert!(of(Side::Accept, &(longest + "x")).ends_with("at most 107 bytes, and this one 108"));
    }
}
