//! A customer from afar: runs a command again and again, and says how long each run took. Started at the far side, with
//! realtime priority, it belongs to the outside world.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{
    check,
    clock::{self, now_ns, to_ms},
    far, system,
};

/// `wire [ADDRESS...]` on the command line: joins the two sides, also where an earlier run of this machine has done so. The far
/// side has the further addresses as well, each that of another customer.
pub fn lay_wire(more: &[&str]) -> Result<()> {
    system::load_modules(&["veth"])?;
    far::part()?;
    far::join()?;
    more.iter().try_for_each(|address| far::ip(&format!("-n {} address add {address}/24 dev far", far::NAMESPACE)))
}

/// `customer NAME ROUNDS PAUSE_MS COMMAND` on the command line: a sample NAME for each run of the shell command but the
/// first, after which all that it needs is in memory.
pub fn act(name: &str, rounds: &str, pause_ms: &str, command: &str) -> Result<()> {
    let rounds: u32 = rounds.parse().with_context(|| format!("ROUNDS is {rounds:?}"))?;
    let pause_ms: u64 = pause_ms.parse().with_context(|| format!("PAUSE_MS is {pause_ms:?}"))?;
    for round in 0..=rounds {
        let began_ns = now_ns();
        let status = Command::new("sh").args(["-c", command]).stdin(Stdio::null()).status().context("start sh")?;
        if !status.success() {
            bail!("{command}: {status}");
        }
        if round > 0 {
            check::sample(name, to_ms(now_ns() - began_ns));
        }
        clock::sleep_ms(pause_ms);
    }
    Ok(())
}
