//! Whom a weight is for, as people write it.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::PathBuf,
};

use super::Weight;
use crate::{
    channel::{Refusal, Who},
    seams::CustomerIs,
};

/// Bits of addresses.
const BITS_4: u8 = 32;
const BITS_6: u8 = 128;
/// Those before an IPv4 address that is written as one of IPv6.
const MAPPED_BITS: u8 = BITS_6 - BITS_4;

/// A weight, and whom it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    pub words: Words,
    pub weight: Weight,
}

/// A customer, or some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Words {
    /// Far ends whose addresses begin alike in so many bits; the rest is 0.
    Addresses(IpAddr, u8),
    /// Name or number of a user.
    User(String),
    /// A directory of the cgroup v2 hierarchy, from its root on.
    Cgroup(PathBuf),
    /// Whoever sits at the machine.
    Seat,
}

impl Words {
    pub(crate) fn address(text: &str) -> Result<Self, Refusal> {
        if let Some((address, _)) = text.split_once('/')
            && address.parse::<IpAddr>().is_ok()
        {
            return Err(Refusal::new(format!("address {text} is a prefix: write prefix = \"{text}\"")));
        }
        let address = address(text)?;
        if address.is_unspecified() || address.is_multicast() {
            return Err(Refusal::new(format!("nobody has the address {text}: name that of a far end")));
        }
        Self::addresses(address, if address.is_ipv4() { BITS_4 } else { BITS_6 })
    }

    pub(crate) fn prefix(text: &str) -> Result<Self, Refusal> {
        let shown: String = text.chars().take(80).collect();
        let (start, length) = text.split_once('/').ok_or_else(|| {
            Refusal::new(format!(
                "prefix {shown:?} has no length: write ADDRESS/BITS, like 192.0.2.0/24 or 2001:db8::/32"
            ))
        })?;
        let given: IpAddr = start.parse().map_err(|_| no_address(start))?;
        let most = if given.is_ipv4() { BITS_4 } else { BITS_6 };
        let bits = match length.parse::<u8>() {
            Ok(bits) if bits <= most && length.bytes().all(|byte| byte.is_ascii_digit()) => bits,
            _ => {
                let length: String = length.chars().take(40).collect();
                return Err(Refusal::new(format!(
                    "prefix {start}/{length} has no sensible length: allowed is 0 to {most}"
                )));
            }
        };
        let first = masked(given, bits);
        if first != given {
            return Err(Refusal::new(format!(
                "prefix {text} has bits beyond its length: write {first}/{bits}, or address = \"{start}\" for that one alone"
            )));
        }
        match (given.to_canonical(), bits.checked_sub(MAPPED_BITS)) {
            (address @ IpAddr::V4(_), Some(bits)) if given.is_ipv6() => Self::addresses(address, bits),
            _ => Self::addresses(given, bits),
        }
    }

    fn addresses(address: IpAddr, bits: u8) -> Result<Self, Refusal> {
        // All of 127/8 is this machine itself.
        let is_here = address.is_loopback() && (address.is_ipv6() || bits >= 8);
        if is_here {
            return Err(Refusal::new(format!(
                "{address} is this machine itself, which is no customer: name a user, who is one behind unix sockets"
            )));
        }
        Ok(Self::Addresses(address, bits))
    }

    pub(crate) fn user(text: &str) -> Result<Self, Refusal> {
        Who::parse(Some(text), None, None).map(|_| Self::User(text.to_owned()))
    }

    pub(crate) fn cgroup(text: &str) -> Result<Self, Refusal> {
        let cgroup = Who::parse(None, None, Some(text))?.cgroup;
        Ok(Self::Cgroup(cgroup.unwrap_or_default()))
    }

    /// Refuses what no customer is.
    pub(crate) fn fits(&self, customer: CustomerIs) -> Result<(), Refusal> {
        let fits = match customer {
            CustomerIs::Auto => !matches!(self, Self::Cgroup(_)),
            CustomerIs::User => matches!(self, Self::User(_) | Self::Seat),
            CustomerIs::Cgroup => matches!(self, Self::Cgroup(_)),
        };
        if fits {
            return Ok(());
        }
        let name = customer_name(customer);
        let (customers, allowed) = match customer {
            CustomerIs::Auto => ("seats, lines, addresses and users", "address, prefix, user and seat"),
            CustomerIs::User => ("seats and users", "user and seat"),
            CustomerIs::Cgroup => ("cgroups", "cgroup"),
        };
        Err(Refusal::new(format!(
            "{self} is no customer: customers are {customers} while customer is \"{name}\"; allowed is {allowed}"
        )))
    }
}

/// Kinds of customers by name.
const KINDS: [(&str, CustomerIs); 3] =
    [("auto", CustomerIs::Auto), ("user", CustomerIs::User), ("cgroup", CustomerIs::Cgroup)];

/// What a customer is, by name.
pub(crate) fn customer_is(text: &str) -> Result<CustomerIs, Refusal> {
    KINDS.into_iter().find(|(name, _)| *name == text).map(|(_, kind)| kind).ok_or_else(|| {
        let shown: String = text.chars().take(40).collect();
        Refusal::new(format!("customer is {shown:?}: allowed is auto, user or cgroup"))
    })
}

/// The other way round.
pub(crate) fn customer_name(customer: CustomerIs) -> &'static str {
    KINDS.into_iter().find(|(_, kind)| *kind == customer).map_or("auto", |(name, _)| name)
}

/// As they are written: IPv4 in IPv6's clothes is IPv4.
fn address(text: &str) -> Result<IpAddr, Refusal> {
    text.parse::<IpAddr>().map(|address| address.to_canonical()).map_err(|_| no_address(text))
}

fn no_address(text: &str) -> Refusal {
    let shown: String = text.chars().take(80).collect();
    Refusal::new(format!(
        "{shown:?} is no address: write one like 192.0.2.4 or 2001:db8::4; names are not looked up here"
    ))
}

/// The first address of a prefix.
fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(u32::from(BITS_4 - bits)).unwrap_or(0);
            Ipv4Addr::from(u32::from(address) & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(u32::from(BITS_6 - bits)).unwrap_or(0);
            Ipv6Addr::from(u128::from(address) & mask).into()
        }
    }
}

/// As it is written in the configuration.
impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addresses(address, bits) if *bits == if address.is_ipv4() { BITS_4 } else { BITS_6 } => {
                write!(f, "address {address}")
            }
            Self::Addresses(address, bits) => write!(f, "prefix {address}/{bits}"),
            Self::User(user) => write!(f, "user {user}"),
            Self::Cgroup(path) => write!(f, "cgroup {}", path.display()),
            Self::Seat => f.write_str("seat"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_prefixes() {
        for text in ["192.0.2.4", "2001:db8::4"] {
            assert_eq!(Words::address(text).map(|words| words.to_string()), Ok(format!("address {text}")));
        }
        for text in ["192.0.2.0/24", "0.0.0.0/0", "10.0.0.0/8", "2001:db8::/32", "::/0"] {
            assert_eq!(Words::prefix(text).map(|words| words.to_string()), Ok(format!("prefix {text}")));
        }
        // One address is one address, however it is written.
        let one = Words::address("192.0.2.4");
        assert_eq!(Words::prefix("192.0.2.4/32"), one);
        assert_eq!(Words::address("::ffff:192.0.2.4"), one);
        assert_eq!(Words::prefix("::ffff:192.0.2.4/128"), one);
        assert_eq!(Words::prefix("::ffff:192.0.2.0/120"), Words::prefix("192.0.2.0/24"));
    }

    #[test]
    fn nonsense_is_named_with_what_is_allowed() {
        let addresses = ["", "192.0.2", "192.0.2.0/24", "host.example", "0.0.0.0", "127.0.0.1", "::1", "[2001:db8::1]"];
        let prefixes = [
            "192.0.2.0",
            "192.0.2.0/",
            "192.0.2.0/33",
            "192.0.2.0/+8",
            "192.0.2.0/-1",
            "192.0.2.4/24",
            "2001:db8::/129",
            "2001:db8::1/32",
            "127.0.0.0/8",
            "net/8",
        ];
        let refusals: Vec<String> = addresses
            .iter()
            .map(|text| Words::address(text).expect_err(text).to_string())
            .chain(prefixes.iter().map(|text| Words::prefix(text).expect_err(text).to_string()))
            .collect();
        insta::assert_snapshot!(refusals.join("\n"), @r#"
        "" is no address: write one like 192.0.2.4 or 2001:db8::4; names are not looked up here
        "192.0.2" is no address: write one like 192.0.2.4 or 2001:db8::4; names are not looked up here
        address 192.0.2.0/24 is a prefix: write prefix = "192.0.2.0/24"
        "host.example" is no address: write one like 192.0.2.4 or 2001:db8::4; names are not looked up here
        nobody has the address 0.0.0.0: name that of a far end
        127.0.0.1 is this machine itself, which is no customer: name a user, who is one behind unix sockets
        ::1 is this machine itself, which is no customer: name a user, who is one behind unix sockets
        "[2001:db8::1]" is no address: write one like 192.0.2.4 or 2001:db8::4; names are not looked up here
        prefix "192.0.2.0" has no length: write ADDRESS/BITS, like 192.0.2.0/24 or 2001:db8::/32
        prefix 192.0.2.0/ has no sensible length: allowed is 0 to 32
        prefix 192.0.2.0/33 has no sensible length: allowed is 0 to 32
        prefix 192.0.2.0/+8 has no sensible length: allowed is 0 to 32
        prefix 192.0.2.0/-1 has no sensible length: allowed is 0 to 32
        prefix 192.0.2.4/24 has bits beyond its length: write 192.0.2.0/24, or address = "192.0.2.4" for that one alone
        prefix 2001:db8::/129 has no sensible length: allowed is 0 to 128
        prefix 2001:db8::1/32 has bits beyond its length: write 2001:db8::/32, or address = "2001:db8::1" for that one alone
        127.0.0.0 is this machine itself, which is no customer: name a user, who is one behind unix sockets
        "net" is no address: write one like 192.0.2.4 or 2001:db8::4; names are not looked up here
        "#);
    }

    #[test]
    fn who_is_no_customer_is_refused() {
        let all = [
            Words::address("192.0.2.4"),
            Words::prefix("192.0.2.0/24"),
            Words::user("alice"),
            Words::cgroup("/a.slice"),
            Ok(Words::Seat),
        ];
        let refusals: Vec<String> = KINDS
            .iter()
            .flat_map(|(_, kind)| all.iter().filter_map(|words| words.as_ref().expect("right").fits(*kind).err()))
            .map(|refusal| refusal.to_string())
            .collect();
        insta::assert_snapshot!(refusals.join("\n"), @r#"
        cgroup /a.slice is no customer: customers are seats, lines, addresses and users while customer is "auto"; allowed is address, prefix, user and seat
        address 192.0.2.4 is no customer: customers are seats and users while customer is "user"; allowed is user and seat
        prefix 192.0.2.0/24 is no customer: customers are seats and users while customer is "user"; allowed is user and seat
        cgroup /a.slice is no customer: customers are seats and users while customer is "user"; allowed is user and seat
        address 192.0.2.4 is no customer: customers are cgroups while customer is "cgroup"; allowed is cgroup
        prefix 192.0.2.0/24 is no customer: customers are cgroups while customer is "cgroup"; allowed is cgroup
        user alice is no customer: customers are cgroups while customer is "cgroup"; allowed is cgroup
        seat is no customer: customers are cgroups while customer is "cgroup"; allowed is cgroup
        "#);
    }
}
