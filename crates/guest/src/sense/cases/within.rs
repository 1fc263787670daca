//! By whatever addresses of its own a machine talks to itself, no customer is at the far end.

use anyhow::{Result, anyhow};

use super::{
    Case, case,
    sockets::{PORT, bare, opens_nothing},
};
use crate::{
    far::{self, NEAR},
    sense::{
        network::{NEAR6, connection_between, datagrams_between},
        object::Link,
        rule::Rule,
        stage::Stage,
    },
};

/// More addresses of the near end of the wire.
const NEAR_TOO: &str = "192.0.2.3";
const NEAR6_TOO: &str = "2001:db8::3";

/// From where, to where.
const WAYS: [(&str, &str); 8] = [
    ("127.0.0.1", "127.0.0.1"),
    ("127.0.0.1", "127.0.0.2"),
    (NEAR, NEAR),
    (NEAR_TOO, NEAR),
    (NEAR, NEAR_TOO),
    ("127.0.0.1", NEAR),
    (NEAR, "127.0.0.2"),
    (NEAR6_TOO, NEAR6),
];

pub fn all() -> Vec<Case> {
    let of = |(from, to): (&'static str, &'static str)| {
        [
            case(&format!("tcp from {from} to {to}"), move |stage| {
                nobody(stage, "", (from, to), || connection_between(from, to, PORT))
            }),
            case(&format!("udp from {from} to {to}"), move |stage| {
                nobody(stage, "udp:", (from, to), || datagrams_between(from, to, PORT))
            }),
        ]
    };
    WAYS.into_iter().flat_map(of).collect()
}

/// An address of the near end, as long as this value lives.
struct Address(String);

impl Address {
    fn add(address: &str, more: &str) -> Result<Self> {
        far::ip(&format!("address add {address} dev near{more}"))?;
        Ok(Self(address.to_owned()))
    }
}

impl Drop for Address {
    fn drop(&mut self) {
        if let Err(error) = far::ip(&format!("address delete {} dev near", self.0)) {
            println!("# {error:#}");
        }
    }
}

/// Neither who reads at one end nor who reads at the other has a customer, be the writer another process or itself.
fn nobody(
    stage: &mut Stage,
    protocol: &str,
    (from, to): (&str, &str),
    connect: impl FnOnce() -> Result<Link>,
) -> Result<()> {
    stage.elsewhere()?;
    let _addresses = [
        Address::add(&format!("{NEAR_TOO}/24"), "")?,
        // Without looking whether somebody else has it, which takes a second.
        Address::add(&format!("{NEAR6_TOO}/64"), " nodad")?,
    ];
    let mut words = vec![format!("read accept {protocol}:{PORT}")];
    // A rule cannot name the loopback device's addresses, which are nobody's but this machine's.
    words.extend(
        [from, to]
            .iter()
            .filter(|end| !end.starts_with("127."))
            .map(|end| format!("read connect {protocol}{}:{PORT}", bare(end))),
    );
    words.dedup();
    let rules = words.iter().map(|words| Rule::add(words)).collect::<Result<Vec<_>>>()?;
    let link = connect()?;
    let mut hermit = stage.actor("hermit", Some(&link.reader), Some(&link.writer))?;
    hermit.writes(&link)?;
    hermit.reads()?;
    stage.verdict("who writes to itself", hermit.unattended());
    opens_nothing(stage, "who accepted", &link)?;
    opens_nothing(stage, "who called", &Link::of(link.kind, link.reader, link.writer))?;
    for rule in rules {
        let hits = rule.hits()?;
        stage.verdict("nothing was counted", if hits == 0 { Ok(()) } else { Err(anyhow!("{hits} hits")) });
    }
    Ok(())
}
