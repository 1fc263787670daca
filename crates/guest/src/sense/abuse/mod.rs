//! Nobody gains CPU time by tricks: an attacker of a user's own, in a cgroup beside an equal one of honest hogs, has no more than
//! as many honest hogs would have in its place.
//!
//! The table of kinds is `kinds.h`, and what they do is in `c/`, a file for each family. They are C, because most of what they do
//! safe Rust has no words for.

mod arena;
mod kinds;

use std::path::Path;

use anyhow::{Result, anyhow, bail};

use super::{answer, prepare};
use crate::{
    check::{Verdicts, figure},
    system::RUN_DIR,
};
use arena::Arena;

/// What a trick may gain: its share of CPU time against that without it.
const GAIN: f64 = 1.05;

/// `check-abuse [--short | PART]`: makes the attacks of a form whose family and name, `own: pipe`, contain `part`.
pub fn check(is_short: bool, part: &str) -> Result<()> {
    let has_daemon = answer::backend().is_ok();
    prepare(has_daemon)?;
    let mut arena = Arena::new(Path::new(RUN_DIR).join("abuse"), has_daemon)?;
    let mut verdicts = Verdicts::default();
    for kind in kinds::all(is_short)? {
        let called = format!("{}: {}", kind.family, kind.name);
        if !called.contains(part) || (kind.needs_daemon() && !has_daemon) {
            continue;
        }
        let holds = arena.gain(&kind).and_then(|gain| {
            figure(&format!("abuse_gain_{}", kind.name), gain);
            if gain <= GAIN { Ok(()) } else { Err(anyhow!("{gain:.3} times what it has without, of {GAIN}")) }
        });
        verdicts.tell(&called, holds);
    }
    if verdicts.made == 0 {
        bail!("no attack is called {part}");
    }
    verdicts.end()
}
