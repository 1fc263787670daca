//! Where attacks take place: a cgroup for the attacker, one for honest hogs, and somebody who is served all the while.

use std::{
    collections::BTreeMap,
    fs::{self, File, Permissions},
    os::unix::fs::{PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use super::kinds::{ATTACK, CUSTOMER, Kind};
use crate::{
    clock::{self, Deadline},
    hog::Hogs,
    sense::{
        cgroup::Cgroup,
        device::{Device, Shape},
        object::fifo,
        program::{self, Program},
        rule::Rule,
    },
    system,
};

/// Honest hogs beside the attacker.
const OTHERS: usize = 16;
/// Whose programs attack: nobody's.
const NOBODY: u32 = 65534;
/// Time in which all begin, ms.
const BEGIN_MS: u64 = 300;
/// Shares are measured for so long, ms.
const MEASURED_MS: u64 = 2000;
/// The customer presses a key so often, ms: no policy forgets him meanwhile.
const KEY_EACH_MS: u64 = 250;
/// How long an attack may take to prepare itself, busy seconds.
const PREPARE_S: u64 = 20;
/// An attack that has tried less often proves nothing.
const LEAST_TRIES: u64 = 20;
/// Where directories of attackers are, in that of the arena.
const ATTACKS: &str = "attacks";
const PORT: u16 = 7200;
const NAME: &str = "fed";
const PLAYBACK: &str = "/dev/snd/pcmC0D0p";

/// All that attacks need.
pub struct Arena {
    dir: PathBuf,
    attack: PathBuf,
    remote: Device,
    /// An input device that the attacker may use, and nobody touches.
    _untouched: Device,
    _customer: Program,
    _rules: Vec<Rule>,
    honest: BTreeMap<usize, f64>,
}

impl Arena {
    /// Builds it in this directory. Where no daemon of ours runs, nobody makes rules.
    pub fn new(dir: PathBuf, has_rules: bool) -> Result<Self> {
        let attacks = dir.join(ATTACKS);
        fs::create_dir_all(&attacks).with_context(|| format!("create {}", attacks.display()))?;
        let attack = program::compile_files(&dir, "attack", ATTACK)?;
        let server = program::compile_files(&dir, "customer", CUSTOMER)?;
        let (remote, untouched) = (Device::new(Shape::Remote)?, Device::new(Shape::Remote)?);
        let mut command = Command::new(server);
        command.arg(remote.node("event")?).arg(&dir);
        let customer = Program::start(&mut command, None, dir.join("customer.log"))?;
        system::wait_for_path(PLAYBACK, 20)?;
        lend(&untouched.node("event")?, &dir.join("input"))?;
        lend(PLAYBACK, &dir.join("sound"))?;
        let mut rules = Vec::new();
        let paths = ["read", "write"].map(|access| (access, dir.join(format!("fifo-{access}"))));
        for (access, path) in &paths {
            fifo(path)?;
            open_to_all(path)?;
            if has_rules {
                rules.push(Rule::add(&format!("{access} {}", path.display()))?);
            }
        }
        if has_rules {
            rules.push(Rule::add(&format!("read accept :{PORT}"))?);
            rules.push(Rule::add(&format!("read accept unix:@{NAME}"))?);
        }
        Ok(Self {
            dir,
            attack,
            remote,
            _untouched: untouched,
            _customer: customer,
            _rules: rules,
            honest: BTreeMap::new(),
        })
    }

    /// The attacker's part of the CPU, against that of as many honest hogs in its place, which is measured once.
    pub fn gain(&mut self, kind: &Kind) -> Result<f64> {
        let honest = match self.honest.get(&kind.processes) {
            Some(&known) => known,
            None => self.honest_share(kind.processes)?,
        };
        self.honest.insert(kind.processes, honest);
        Ok(self.attackers_share(kind)? / honest)
    }

    fn honest_share(&mut self, number: usize) -> Result<f64> {
        let party = Cgroup::weighted("party")?;
        let hogs = Hogs::start(number)?;
        hogs.pids().try_for_each(|pid| party.take(pid))?;
        self.share(&party, || Ok(()))
    }

    fn attackers_share(&mut self, kind: &Kind) -> Result<f64> {
        let party = Cgroup::weighted("party")?;
        party.delegate(NOBODY)?;
        let mut attacker = Attacker::start(&self.attack, &self.dir, kind, &party)?;
        let share = attacker.waits().and_then(|()| self.share(&party, || attacker.begins()));
        let faults = attacker.faults();
        // By its cgroup: some leave their parents.
        party.kill()?;
        attacker.end();
        faults?;
        share
    }

    /// Part of the CPU time of both cgroups that this one has.
    fn share(&mut self, party: &Cgroup, begin: impl FnOnce() -> Result<()>) -> Result<f64> {
        let others = Cgroup::weighted("others")?;
        let hogs = Hogs::start(OTHERS)?;
        hogs.pids().try_for_each(|pid| others.take(pid))?;
        begin()?;
        self.customer_comes(BEGIN_MS)?;
        let before = (party.used_us()?, others.used_us()?);
        self.customer_comes(MEASURED_MS)?;
        let (party, others) = (party.used_us()? - before.0, others.used_us()? - before.1);
        Ok(party / (party + others))
    }

    /// Presses keys for so long.
    fn customer_comes(&mut self, ms: u64) -> Result<()> {
        let until = clock::now_ns() + ms * clock::MS;
        while clock::now_ns() < until {
            self.remote.touch()?;
            clock::sleep_until(until.min(clock::now_ns() + KEY_EACH_MS * clock::MS));
        }
        Ok(())
    }
}

/// A program that attacks, in a directory of its own.
struct Attacker {
    process: Child,
    dir: PathBuf,
}

impl Attacker {
    fn start(program: &Path, arena: &Path, kind: &Kind, party: &Cgroup) -> Result<Self> {
        let dir = arena.join(ATTACKS).join(kind.name);
        fs::create_dir(&dir).with_context(|| format!("create {}", dir.display()))?;
        chown(&dir, Some(NOBODY), Some(NOBODY)).with_context(|| format!("give {} away", dir.display()))?;
        // Some are other users in a namespace of their own.
        fs::set_permissions(&dir, Permissions::from_mode(0o777)).with_context(|| format!("open {}", dir.display()))?;
        for name in ["input", "sound", "fifo-read", "fifo-write", "wanted"] {
            symlink(arena.join(name), dir.join(name)).with_context(|| format!("link {name}"))?;
        }
        let errors = File::create(dir.join("errors")).context("create a file for errors")?;
        let mut command = Command::new(program);
        command.arg(kind.name).arg(party.path()).arg(&dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        let process = command.spawn().with_context(|| format!("start {}", program.display()))?;
        Ok(Self { process, dir })
    }

    /// Waits until it has prepared all.
    fn waits(&mut self) -> Result<()> {
        let deadline = Deadline::after_s(PREPARE_S);
        while !self.dir.join("ready").exists() {
            self.faults_so_far()?;
            ensure!(!deadline.has_passed(), "it is not ready after {PREPARE_S} s");
            clock::sleep_ms(2);
        }
        Ok(())
    }

    fn begins(&self) -> Result<()> {
        fs::write(self.dir.join("go"), "").context("let it begin")
    }

    /// Nothing that it tried may have failed, and it must have tried.
    fn faults(&mut self) -> Result<()> {
        self.faults_so_far()?;
        let path = self.dir.join("tries");
        let tries = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        let tries = tries.try_into().map(u64::from_ne_bytes).unwrap_or_default();
        ensure!(tries >= LEAST_TRIES, "it has tried {tries} times");
        Ok(())
    }

    fn faults_so_far(&mut self) -> Result<()> {
        let said = fs::read_to_string(self.dir.join("errors")).unwrap_or_default();
        if let Some(status) = self.process.try_wait().context("look after the attacker")? {
            bail!("the attacker ended ({status}): {}", said.trim());
        }
        ensure!(said.is_empty(), "the attacker failed: {}", said.trim());
        Ok(())
    }

    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Whatever this process does, it does not go on without it.
impl Drop for Attacker {
    fn drop(&mut self) {
        self.end();
    }
}

/// A device that everybody may use, by a name.
fn lend(node: &str, name: &Path) -> Result<()> {
    open_to_all(Path::new(node))?;
    symlink(node, name).with_context(|| format!("link {node}"))
}

fn open_to_all(path: &Path) -> Result<()> {
    fs::set_permissions(path, Permissions::from_mode(0o666)).with_context(|| format!("open {} to all", path.display()))
}
