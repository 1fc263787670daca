//! Long runs: nothing is left behind, and nothing breaks, however often our daemon is killed, starts and ends, CPUs go and come, and
//! whatever it lacks.
//!
//! A run has a number of rounds and a seed, from which all that is random comes: the same seed gives the same moments.

mod chance;
mod daemon;
mod faults;
mod hotplug;
mod kills;
mod reloads;
mod splats;
mod stage;
mod state;

use std::{fs::OpenOptions, io::Write};

use anyhow::{Context, Result, bail, ensure};

pub use self::chance::Chance;
use self::splats::Splats;
use crate::{
    check::{Verdicts, figure},
    classes::carry_out,
};

const CONSOLE: &str = "/dev/console";

/// How our scheduler acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// In the kernel.
    Scx,
    /// By nice values.
    Nice,
}

impl Backend {
    fn parse(word: &str) -> Result<Self> {
        match word {
            "scx" => Ok(Self::Scx),
            "nice" => Ok(Self::Nice),
            _ => bail!("backend \"{word}\" is not known: write scx or nice"),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Scx => "scx",
            Self::Nice => "nice",
        }
    }
}

/// How often something is done, and what is random about it.
struct Rounds {
    number: u32,
    chance: Chance,
}

impl Rounds {
    fn parse(number: &str, seed: &str) -> Result<Self> {
        let number = number.parse().with_context(|| format!("\"{number}\" is no number of rounds"))?;
        let seed = seed.parse().with_context(|| format!("\"{seed}\" is no seed"))?;
        ensure!(number > 0, "no rounds: one is the least");
        println!("{number} rounds from seed {seed}");
        Ok(Self { number, chance: Chance::new(seed) })
    }
}

/// `soak-kills BACKEND ROUNDS SEED`: the daemon is killed while it starts, runs and ends.
pub fn kills(backend: &str, rounds: &str, seed: &str) -> Result<()> {
    let (backend, rounds) = (Backend::parse(backend)?, Rounds::parse(rounds, seed)?);
    carry_out(|verdicts| without_splats(verdicts, |verdicts| kills::check(verdicts, backend, rounds)))
}

/// `soak-reloads ROUNDS SEED`: the scheduler is attached and detached.
pub fn reloads(rounds: &str, seed: &str) -> Result<()> {
    let rounds = Rounds::parse(rounds, seed)?;
    carry_out(|verdicts| without_splats(verdicts, |verdicts| reloads::check(verdicts, rounds)))
}

/// `soak-hotplug ROUNDS SEED`: CPUs go and come. Needs several.
pub fn hotplug(rounds: &str, seed: &str) -> Result<()> {
    let rounds = Rounds::parse(rounds, seed)?;
    carry_out(|verdicts| without_splats(verdicts, |verdicts| hotplug::check(verdicts, rounds)))
}

/// `check-faults BACKEND [PART]`: the daemon lacks what it needs, or is kept from running; only faults with `part` in their names.
pub fn faults(backend: &str, part: &str) -> Result<()> {
    let backend = Backend::parse(backend)?;
    carry_out(|verdicts| without_splats(verdicts, |verdicts| faults::check(verdicts, backend, part)))
}

/// Makes checks, and looks for what the kernel complained about meanwhile.
fn without_splats(verdicts: &mut Verdicts, checks: impl FnOnce(&mut Verdicts) -> Result<()>) -> Result<()> {
    let before = Splats::so_far()?;
    let made = checks(verdicts);
    verdicts.tell("the kernel has no complaint", before.none_since());
    made
}

/// Tells how far it is: on the machine's console, of which the laboratory shows the end when a run is given up.
fn progress(line: &str) {
    println!("{line}");
    if let Ok(mut console) = OpenOptions::new().write(true).open(CONSOLE) {
        let _ = writeln!(console, "{line}");
    }
}

/// What failed in many rounds, told as one verdict.
#[derive(Debug)]
struct Tally {
    name: &'static str,
    rounds: u32,
    failed: Vec<String>,
}

/// Failures that are told word for word.
const TOLD: usize = 4;

impl Tally {
    fn new(name: &'static str) -> Self {
        Self { name, rounds: 0, failed: Vec::new() }
    }

    /// Notes a round, and tells of it at once: the rest may take hours.
    fn note(&mut self, round: &str, holds: Result<()>) {
        self.rounds += 1;
        match holds {
            Ok(()) => progress(round),
            Err(error) => {
                progress(&format!("{round}: {error:#}"));
                self.failed.push(format!("{round}: {error:#}"));
            }
        }
    }

    fn tell(self, verdicts: &mut Verdicts) {
        figure(&format!("{}_rounds", self.name), self.rounds.into());
        let told = self.failed.iter().take(TOLD).cloned().collect::<Vec<_>>().join("; ");
        let holds = if self.failed.is_empty() {
            Ok(())
        } else {
            Err(anyhow::anyhow!("{} of {} rounds failed: {told}", self.failed.len(), self.rounds))
        };
        verdicts.tell(self.name, holds);
    }
}
