//! Keys that a stranger guesses from all that our scheduler lets it see: no better than by chance.
//!
//! Time is cut into slots. In each of them a customer presses keys at another device, or does not, as a coin falls. At the end of each, a
//! stranger looks at everything: answers of the control socket, files, counters, and what the kernel tells everybody about our processes.
//! Each number in that is a guess, by its value or by how it changed. The one that fits the first half of the slots best guesses
//! the second half; of those that fit equally well, most are believed.
//!
//! The same is done as root, who sees more: where that guesses no better, the check is blind, and says nothing of the stranger.
//!
//! Not looked at: how long the stranger's own turns take. docs/security.md says why.

mod odds;
mod onlooker;

use std::{
    fs,
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

pub use onlooker::act;

use super::{
    device::{Device, Shape},
    prepare,
};
use crate::{
    check::{Verdicts, figure},
    clock,
    soak::Chance,
    system::{RUN_DIR, TOOLS},
};
use odds::Looks;

/// Slots, ms; a look at all takes some of one.
const SLOT_MS: u64 = 500;
/// A guess among 100 slots of the second half is right in 0.65 of them at most, by chance alone (three standard deviations).
const SLOTS: usize = 200;
const KEYS: u64 = 4;
/// Keys come up to here, and the look after it, ms.
const KEYS_END_MS: u64 = 300;
const SEED: u64 = 1;
const NOBODY: u32 = 65534;
/// By what root sees, so many of its guesses are right.
const ROOT_GUESSES: f64 = 0.95;

/// `check-guess`.
pub fn check() -> Result<()> {
    prepare(true)?;
    let dir = Path::new(RUN_DIR).join("guess");
    fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    let mut device = Device::new(Shape::Remote)?;
    let mut reader = read_all(&device.node("event")?)?;
    let begin_ns = clock::now_ns() + SLOT_MS * clock::MS;
    let mut stranger = Onlooker::start(&dir, "stranger", NOBODY, reader.id(), begin_ns)?;
    let mut root = Onlooker::start(&dir, "root", 0, reader.id(), begin_ns)?;
    let truth = press(&mut device, begin_ns);
    let found = truth.and_then(|truth| Ok((stranger.guesses(&truth)?, root.guesses(&truth)?)));
    reader.kill().context("end the customer's program")?;
    reader.wait().context("wait for the customer's program")?;
    let (stranger, root) = found?;
    let mut verdicts = Verdicts::default();
    for (name, guess) in [("stranger", &stranger), ("root", &root)] {
        figure(&format!("guess_of_{name}"), guess.right);
        println!("{name}: by {}, of {} numbers", guess.by, guess.numbers);
    }
    let chance = 0.5 + 3.0 * (0.25 / (SLOTS / 2) as f64).sqrt();
    verdicts.tell("a stranger guesses keys by chance alone", at_most(&stranger, chance));
    verdicts.tell("root, who sees more, guesses them", at_least(&root, ROOT_GUESSES));
    verdicts.end()
}

fn at_most(guess: &odds::Guess, most: f64) -> Result<()> {
    ensure!(guess.right <= most, "{:.3} are right, of {most:.3}: by {}", guess.right, guess.by);
    Ok(())
}

fn at_least(guess: &odds::Guess, least: f64) -> Result<()> {
    ensure!(guess.right >= least, "{:.3} are right, of {least:.3}, by {}: the check is blind", guess.right, guess.by);
    Ok(())
}

/// The customer's program, which reads a channel.
fn read_all(node: &str) -> Result<Child> {
    let mut command = Command::new("cat");
    command.arg(node).stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().with_context(|| format!("start a program that reads {node}"))
}

/// Presses keys in some slots; in which.
fn press(device: &mut Device, begin_ns: u64) -> Result<Vec<bool>> {
    let mut chance = Chance::new(SEED);
    let mut truth = Vec::with_capacity(SLOTS);
    for slot in 0..SLOTS as u64 {
        let types = chance.below(2) == 1;
        for key in 0..KEYS {
            clock::sleep_until(begin_ns + (slot * SLOT_MS + (key + 1) * KEYS_END_MS / (KEYS + 1)) * clock::MS);
            if types {
                device.touch()?;
            }
        }
        truth.push(types);
    }
    clock::sleep_until(begin_ns + (SLOTS as u64 + 1) * SLOT_MS * clock::MS);
    Ok(truth)
}

/// Somebody who looks.
struct Onlooker {
    process: Child,
    seen: PathBuf,
}

impl Onlooker {
    fn start(dir: &Path, name: &str, uid: u32, customer: u32, begin_ns: u64) -> Result<Self> {
        let own = dir.join(name);
        fs::create_dir_all(&own).with_context(|| format!("create {}", own.display()))?;
        chown(&own, Some(uid), Some(uid)).with_context(|| format!("give {} away", own.display()))?;
        let seen = own.join("seen");
        let mut command = Command::new(Path::new(TOOLS).join("appease-guest"));
        let when =
            [customer.into(), begin_ns, SLOT_MS, KEYS_END_MS, SLOTS as u64].map(|number: u64| number.to_string());
        command.arg("look-on").args(when).arg(&seen).uid(uid).gid(uid);
        let process = command.spawn().with_context(|| format!("start the onlooker {name}"))?;
        Ok(Self { process, seen })
    }

    fn guesses(&mut self, truth: &[bool]) -> Result<odds::Guess> {
        let status = self.process.wait().context("wait for an onlooker")?;
        ensure!(status.success(), "an onlooker ended with {status}");
        let text = fs::read_to_string(&self.seen).with_context(|| format!("read {}", self.seen.display()))?;
        let looks = Looks::parse(&text)?;
        if looks.number() != truth.len() + 1 {
            bail!("an onlooker looked {} times, of {}", looks.number(), truth.len() + 1);
        }
        looks.best_guess(truth).context("there is nothing to guess by")
    }
}

/// Whatever happens to this process, it does not go on.
impl Drop for Onlooker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
