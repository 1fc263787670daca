//! Policy rsio: what the daemon says about a process's part in an interaction, and what a check expects it to say.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{answer::ask, stage::Actor, wire::Order};
use crate::clock::{MS, SECOND};

/// As the daemon is set when it is not told otherwise: how long a process is a handler after its last access.
pub const EXPIRE_NS: u64 = 2 * SECOND;
/// When it must still be one; the question takes a while.
pub const BEFORE_NS: u64 = EXPIRE_NS - 300 * MS;
/// When it must be none any more.
pub const AFTER_NS: u64 = EXPIRE_NS + 100 * MS;
/// Work that shows a process's lane, ms of CPU time.
const WORK_MS: u32 = 50;

/// The daemon's answer about one process.
pub struct Part(Value);

impl Part {
    /// What the daemon knows of `actor`.
    pub fn of(actor: &Actor) -> Result<Self> {
        ask(&["why", &actor.pid.to_string(), "--json"]).map(Self)
    }

    /// CPU time in this lane, ns.
    pub fn lane_ns(&self, lane: &str) -> Result<u64> {
        self.0["lane_ns"][lane].as_u64().with_context(|| format!("no CPU time in lane {lane}: {}", self.0))
    }

    /// Its confidence in the process `pid`, which communicated with it, is `expected`; `None`: it has none to judge.
    pub fn must_trust(&self, pid: u32, expected: Option<u64>) -> Result<()> {
        let candidates = self.0["handler"]["candidates"].as_array();
        let found = candidates.and_then(|all| all.iter().find(|one| one["pid"] == pid)?["confidence"].as_u64());
        if found != expected {
            bail!("confidence in {pid}: expected {expected:?}, found {found:?}: {}", self.0);
        }
        Ok(())
    }

    fn is_attended(&self) -> bool {
        self.0["lane"] == "attended"
    }

    fn is_cohandler_of(&self, of: &Actor) -> bool {
        let handlers = self.0["handler"]["cohandler_of"].as_array();
        self.is_attended() && handlers.is_some_and(|all| all.iter().any(|one| one["pid"] == of.pid))
    }
}

/// Whether it is part of an interaction now, as `expected`.
pub fn takes_part(actor: &Actor, expected: bool) -> Result<()> {
    let part = Part::of(actor)?;
    if part.is_attended() != expected {
        bail!("{actor} takes part: expected {expected}; found {}", part.0);
    }
    Ok(())
}

/// It neither is part of an interaction nor ever was.
pub fn is_stranger(actor: &Actor) -> Result<()> {
    let part = Part::of(actor)?;
    if part.is_attended() || !part.0["handler"].is_null() {
        bail!("{actor}: expected a stranger; found {}", part.0);
    }
    Ok(())
}

/// Whether it is a cohandler of that one, now, as `expected`.
pub fn is_cohandler(actor: &Actor, of: &Actor, expected: bool) -> Result<()> {
    let part = Part::of(actor)?;
    if part.is_cohandler_of(of) != expected {
        bail!("{actor} is a cohandler of {of}: expected {expected}; found {}", part.0);
    }
    Ok(())
}

/// Whether the process `pid` is named among those who used a channel, as `expected`.
pub fn is_listed(pid: u32, expected: bool) -> Result<()> {
    let list = ask(&["channel", "list", "--json"])?;
    let rows = list["channels"].as_array().context("appease channel list --json has no channels")?;
    let mut handlers = rows.iter().filter_map(|row| row["handlers"].as_array()).flatten();
    if handlers.any(|handler| handler["pid"] == pid) != expected {
        bail!("process {pid} among the handlers of channels: expected {expected}; found {list}");
    }
    Ok(())
}

/// What it does now is done in this lane: the scheduler's own word.
pub fn works_in(actor: &mut Actor, lane: &str) -> Result<()> {
    let before = Part::of(actor)?;
    actor.does(&Order::Burn(WORK_MS))?;
    let after = Part::of(actor)?;
    let ran = |lane: &str| -> Result<u64> { Ok(after.lane_ns(lane)? - before.lane_ns(lane)?) };
    let (there, all) = (ran(lane)?, ran("attended")? + ran("other")?);
    // It looks for orders, too, and the last slice may not be charged yet.
    if all < u64::from(WORK_MS) * MS / 2 || there < all - all / 10 {
        bail!("{actor}: {there} of {all} ns in lane {lane}");
    }
    Ok(())
}
