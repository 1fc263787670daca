//! Host names: asked off the event loop's thread, and again each minute.
//!
//! A unit's daemon asks a service without privilege (`resolver`); one that was started by hand asks the system itself.

use std::{
    collections::{HashMap, HashSet},
    io,
    net::{IpAddr, ToSocketAddrs},
    sync::Arc,
    thread,
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot},
    time,
};

use super::spec::Refusal;
use crate::{resolver::ADDRESSES_MAX, seams::Lookup};

/// How long an answer may take when somebody waits for it; less than the patience of clients.
const PATIENCE: Duration = Duration::from_secs(8);

/// An answer to a question asked in passing.
pub(crate) type Answer = (String, io::Result<Vec<IpAddr>>);

/// Asks the system's resolver.
pub(crate) fn system() -> Lookup {
    Arc::new(|name| Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect()))
}

pub(crate) fn ask(lookup: &Lookup, name: &str) -> io::Result<Vec<IpAddr>> {
    let mut addresses: Vec<IpAddr> = lookup(name)?.into_iter().map(|address| address.to_canonical()).collect();
    // To the kernel's side none stands for any, and a name server may say anything.
    addresses.retain(|address| !address.is_unspecified());
    addresses.sort_unstable();
    addresses.dedup();
    addresses.truncate(ADDRESSES_MAX);
    if addresses.is_empty() { Err(io::Error::other("it has no address")) } else { Ok(addresses) }
}

/// A thread that asks. That none can be started, as when there are no process ids left, is no reason to end.
fn resolver() -> thread::Builder {
    thread::Builder::new().name("appease-names".into())
}

/// The addresses of `name`, for somebody who waits.
pub(crate) async fn resolve(lookup: Lookup, name: String) -> Result<Vec<IpAddr>, Refusal> {
    let (tell, answer) = oneshot::channel();
    let asked = name.clone();
    // A thread of its own, not the runtime's: the daemon must be able to end while the resolver is silent.
    resolver().spawn(move || tell.send(ask(&lookup, &asked))).map_err(|error| {
        Refusal::new(format!(
            "host {name} is not asked about, for no thread can be started ({error}): try again, or give an address"
        ))
    })?;
    let reason = match time::timeout(PATIENCE, answer).await {
        Ok(Ok(Ok(addresses))) => return Ok(addresses),
        // It says how to have one.
        Ok(Ok(Err(error))) if is_absent(&error) => return Err(Refusal::new(format!("host {name}: {error}"))),
        Ok(Ok(Err(error))) => error.to_string(),
        Ok(Err(_)) | Err(_) => format!("no answer within {} s", PATIENCE.as_secs()),
    };
    Err(Refusal::new(format!(
        "host {name} does not resolve: {reason}; look with \"getent hosts {name}\", or give an address"
    )))
}

/// Whether there is nobody to ask.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotConnected
}

/// Asks about many names in passing; one thread at a time.
pub(crate) struct Passing {
    lookup: Lookup,
    tell: mpsc::UnboundedSender<Answer>,
    asking: Option<thread::JoinHandle<()>>,
}

impl Passing {
    pub(crate) fn new(lookup: Lookup) -> (Self, mpsc::UnboundedReceiver<Answer>) {
        let (tell, answers) = mpsc::unbounded_channel();
        (Self { lookup, tell, asking: None }, answers)
    }

    /// Whether it has done with the last names.
    pub(crate) fn is_free(&self) -> bool {
        self.asking.as_ref().is_none_or(thread::JoinHandle::is_finished)
    }

    pub(crate) fn ask(&mut self, names: Vec<String>) {
        self.ask_by(resolver(), names);
    }

    fn ask_by(&mut self, resolver: thread::Builder, names: Vec<String>) {
        if names.is_empty() {
            return;
        }
        let (lookup, tell, asked) = (Arc::clone(&self.lookup), self.tell.clone(), names.clone());
        let asking = resolver.spawn(move || {
            for name in asked {
                let answer = ask(&lookup, &name);
                if tell.send((name, answer)).is_err() {
                    return;
                }
            }
        });
        match asking {
            Ok(asking) => self.asking = Some(asking),
            // They are asked about again when it is time.
            Err(error) => names.into_iter().for_each(|name| {
                let no_thread = io::Error::new(error.kind(), format!("no thread can be started: {error}"));
                // Nobody is there to be told at the end.
                let _ = self.tell.send((name, Err(no_thread)));
            }),
        }
    }
}

/// What is known of the names in use.
#[derive(Default)]
pub(super) struct Hosts {
    known: HashMap<String, Vec<IpAddr>>,
    asked: HashSet<String>,
}

impl Hosts {
    /// Addresses of `name`; none while it never resolved.
    pub(super) fn addresses(&self, name: &str) -> &[IpAddr] {
        self.known.get(name).map_or(&[], Vec::as_slice)
    }

    /// Takes an answer; whether it is news.
    pub(super) fn learn(&mut self, name: &str, addresses: Vec<IpAddr>) -> bool {
        self.asked.insert(name.to_owned());
        let news = self.known.get(name) != Some(&addresses);
        self.known.insert(name.to_owned(), addresses);
        news
    }

    /// Those of the names in use that should be asked about: all of them when it is `time`, else those that never were. Forgets
    /// names that are no longer in use.
    pub(super) fn due(&mut self, in_use: HashSet<&str>, time: bool) -> Vec<String> {
        self.known.retain(|name, _| in_use.contains(name.as_str()));
        self.asked.retain(|name| in_use.contains(name.as_str()));
        let due: Vec<String> =
            in_use.into_iter().filter(|name| time || !self.asked.contains(*name)).map(str::to_owned).collect();
        self.asked.extend(due.iter().cloned());
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_in_order_and_without_disguise() {
        let lookup: Lookup = Arc::new(|_| {
            Ok(["::ffff:192.0.2.7", "2001:db8::1", "192.0.2.7"].map(|text| text.parse().expect("an address")).into())
        });
        let shown: Vec<String> = ask(&lookup, "x").expect("addresses").iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["192.0.2.7", "2001:db8::1"]);
        // The kernel's side would take these for any.
        let any: Lookup =
            Arc::new(|_| Ok(["0.0.0.0", "::", "::ffff:0.0.0.0"].map(|text| text.parse().expect("an address")).into()));
        assert_eq!(ask(&any, "x").expect_err("none").to_string(), "it has no address");
        let nothing: Lookup = Arc::new(|_| Ok(Vec::new()));
        assert_eq!(ask(&nothing, "x").expect_err("none").to_string(), "it has no address");
    }

    #[test]
    fn names_have_an_answer_where_no_thread_can_be_started() {
        let (mut passing, mut answers) = Passing::new(system());
        // No machine has so much memory for a stack.
        passing.ask_by(resolver().stack_size(1 << 60), vec!["a".into(), "b".into()]);
        for name in ["a", "b"] {
            let (asked, answer) = answers.try_recv().expect("told at once");
            assert_eq!(asked, name);
            assert!(answer.expect_err("not asked").to_string().starts_with("no thread can be started: "));
        }
        assert!(passing.is_free());
    }

    #[test]
    fn the_systems_resolver_knows_this_machine() {
        let addresses = ask(&system(), "localhost").expect("resolved");
        assert!(addresses.iter().all(IpAddr::is_loopback), "{addresses:?}");
    }

    #[test]
    fn names_are_asked_about_once_until_it_is_time() {
        let mut hosts = Hosts::default();
        assert_eq!(hosts.due(HashSet::from(["a"]), false), ["a"]);
        assert_eq!(hosts.due(HashSet::from(["a"]), false), [""; 0]);
        assert_eq!(hosts.due(HashSet::from(["a"]), true), ["a"]);
        let address = || vec![IpAddr::from([192, 0, 2, 1])];
        assert!(hosts.learn("a", address()));
        assert!(!hosts.learn("a", address()), "no news");
        assert_eq!(hosts.due(HashSet::from(["b"]), false), ["b"]);
        assert!(hosts.addresses("a").is_empty(), "out of use");
    }
}
