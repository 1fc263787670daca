//! Checks with programs that people use: who is found behind a sound server, a terminal multiplexer, a menu; and who
//! runs beside them and is not.

mod remote;
mod seat;
mod serial;
mod sound;

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};

use super::{
    answer::{self, Found},
    cases::Case,
};
use crate::clock::{self, Deadline};

/// Longer than attention lasts: what came with a program's start is over then.
const START_IS_OVER_MS: u64 = 4500;
/// How long what was typed may take to whoever it is for, busy seconds.
const ANSWER_LIMIT_S: u64 = 1;
/// How long a program may take to start, busy seconds.
const START_LIMIT_S: u64 = 20;

/// All checks, in order.
pub fn all() -> Vec<Case> {
    [sound::all(), remote::all(), serial::all(), seat::all()].into_iter().flatten().collect()
}

/// Where a request must have come from: the kind of channel, how its node's name begins, and the name of who read or
/// wrote there.
struct Source {
    channel: &'static str,
    node: &'static str,
    reader: &'static str,
}

/// Fails unless process `pid` soon serves a request from there that came to it by `hops`.
fn is_served(pid: u32, from: &Source, hops: &[(&str, u32)]) -> Result<()> {
    let deadline = Deadline::after_s(ANSWER_LIMIT_S);
    loop {
        let served = serves(pid, from, hops);
        if served.is_ok() || deadline.has_passed() {
            return served;
        }
        clock::sleep_ms(50);
    }
}

/// Fails unless it does so now.
fn serves(pid: u32, from: &Source, hops: &[(&str, u32)]) -> Result<()> {
    let found = answer::why(pid)?;
    let chain = found.current().filter(|_| found.lane == "attended");
    let fits = chain.is_some_and(|chain| {
        chain.origin.channel == from.channel
            && chain.origin.node.starts_with(from.node)
            && name_of(chain.origin.reader).is_ok_and(|name| name == from.reader)
            && chain.hops.iter().map(|(object, pid)| (object.as_str(), *pid)).eq(hops.iter().copied())
    });
    if !fits {
        bail!(
            "expected {} {}… by {}, {hops:?}; found {} {pid}: {found}",
            from.channel,
            from.node,
            from.reader,
            name_of(pid)?
        );
    }
    Ok(())
}

/// Fails if process `pid` serves anybody now; it may have done when it was started.
fn is_not_served(pid: u32) -> Result<()> {
    let found = answer::why(pid)?;
    if !serves_nobody(&found) {
        bail!("expected nobody to wait for {} {pid}; found {found}", name_of(pid)?);
    }
    Ok(())
}

fn serves_nobody(found: &Found) -> bool {
    found.current().is_none() && (found.lane != "attended" || found.on_loan)
}

/// A process's name, cut to 15 bytes by the kernel.
fn name_of(pid: u32) -> Result<String> {
    let path = format!("/proc/{pid}/comm");
    Ok(fs::read_to_string(&path).with_context(|| format!("read {path}"))?.trim_end().to_owned())
}

fn parent_of(pid: u32) -> Result<u32> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let after_name = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
    after_name.with_context(|| format!("{path} names no parent"))
}

/// The process that wrote its id to this file.
fn pid_in(file: &Path) -> Result<u32> {
    let deadline = Deadline::after_s(START_LIMIT_S);
    loop {
        let said = fs::read_to_string(file).unwrap_or_default();
        if said.ends_with('\n') {
            return said.trim().parse().with_context(|| format!("{}: no process id", file.display()));
        }
        if deadline.has_passed() {
            bail!("nobody wrote a process id to {} within {START_LIMIT_S} s", file.display());
        }
        clock::sleep_ms(20);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sense::answer::{Chain, Origin};

    #[test]
    fn what_was_served_once_serves_nobody_now() {
        let chain = Chain {
            request: 1,
            origin: Origin::new("audio", "/dev/snd/pcmC0D0p", 7),
            hops: Vec::new(),
            opened_ago_ns: 1,
            left_ns: -1,
        };
        let found = |standing: &str, lane: &str, on_loan| Found {
            standing: standing.into(),
            lane: lane.into(),
            on_loan,
            chain: Some(chain.clone()),
        };
        assert!(serves_nobody(&found("expired", "other", false)));
        assert!(serves_nobody(&found("expired", "attended", true)));
        assert!(!serves_nobody(&found("expired", "attended", false)));
        assert!(!serves_nobody(&found("current", "other", false)));
    }

    #[test]
    fn the_parent_is_found_and_named() {
        let own = std::process::id();
        assert_eq!(parent_of(own).expect("a parent"), std::os::unix::process::parent_id());
        assert!(!name_of(own).expect("a name").is_empty());
    }
}
