//! The daemon lacks what it needs, is kept from running, or finds the machine another than it was. It goes on, or ends by itself with one line that
//! says why; and nothing is left behind.

mod lacks;
mod machine;
mod pauses;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use super::{
    Backend, Verdicts,
    daemon::{Daemon, restore, words},
    progress,
    stage::Stage,
    state::State,
};
use crate::{
    clock,
    scheduler::{self, status},
    scope::ROOT,
};

/// A fault: what happened, in words, if it is told; or that it cannot be had here.
type Fault = fn(&Ground) -> Result<Outcome>;

/// How a fault was met.
enum Outcome {
    /// The daemon went on, or was killed and all was given back.
    Met,
    /// It ended by itself, and said so.
    Refused(String),
    /// This kernel cannot do that.
    Absent(&'static str),
}

const FAULTS: &[(&str, Fault)] = &[
    ("full_run_at_the_start", lacks::full_run_at_the_start),
    ("full_run_later", lacks::full_run_later),
    ("no_processes", lacks::no_processes),
    ("little_memory_at_the_start", lacks::little_memory_at_the_start),
    ("no_address_space", lacks::no_address_space),
    ("allocations_fail", lacks::allocations_fail),
    ("killed_for_memory", lacks::killed_for_memory),
    ("no_files_at_the_start", lacks::no_files_at_the_start),
    ("no_files_later", lacks::no_files_later),
    ("no_inotify", lacks::no_inotify),
    ("no_watches", lacks::no_watches),
    ("frozen", pauses::frozen),
    ("stopped", pauses::stopped),
    ("suspended", pauses::suspended),
    ("clock_steps", pauses::clock_steps),
    ("a_rival", machine::rival),
    ("an_upgrade", machine::upgrade),
    ("cgroups_that_go", machine::groups_that_go),
];

pub fn check(verdicts: &mut Verdicts, backend: Backend, part: &str) -> Result<()> {
    let stage = Stage::set()?;
    let pids = stage.pids();
    let ground = Ground { backend };
    for controller in ["cpu", "memory", "pids"] {
        enable(controller)?;
    }
    for (name, fault) in FAULTS.iter().filter(|(name, _)| name.contains(part)) {
        let before = State::now(&pids)?;
        let begin_ns = clock::now_ns();
        match fault(&ground) {
            Ok(Outcome::Absent(why)) => {
                println!("{name}: {why}");
                continue;
            }
            Ok(Outcome::Met) => verdicts.tell(name, Ok(())),
            Ok(Outcome::Refused(line)) => {
                println!("{name}: it says \"{line}\"");
                verdicts.tell(name, Ok(()));
            }
            Err(error) => verdicts.tell(name, Err(error)),
        }
        // A daemon that was left is gone with the value that held it.
        let back = super::daemon::is_detached().and_then(|()| restore(&[])).and_then(|_| before.is_back(&pids));
        verdicts.tell(&format!("{name}_leaves_nothing_behind"), back);
        progress(&format!("{name} took {:.1} s", clock::to_ms(clock::now_ns() - begin_ns) / 1e3));
    }
    Ok(())
}

/// What faults are made with.
struct Ground {
    backend: Backend,
}

impl Ground {
    /// A daemon under a command that limits it: it must become ready, or refuse. With what it said then.
    fn start_under(&self, under: &[&str], more: &[&str]) -> Result<Started> {
        let mut words = words(self.backend);
        words.extend(more.iter().map(|word| (*word).to_owned()));
        let mut daemon = Daemon::start_as("limited", self.backend, under, &words)?;
        if daemon.ready_or_ended()?.is_none() {
            return Ok(Started::Ready(daemon));
        }
        daemon.must_refuse().map(Started::Refused)
    }

    fn ready(&self) -> Result<Daemon> {
        Daemon::ready(self.backend)
    }

    /// Whether it schedules and answers.
    fn is_at_work(&self, daemon: &mut Daemon) -> Result<()> {
        daemon.must_run()?;
        if self.backend == Backend::Scx {
            ensure!(scheduler::state() == "enabled", "sched_ext is {}: {}", scheduler::state(), daemon.log());
        }
        let told = status().with_context(|| format!("the daemon does not answer: {}", daemon.log()))?;
        ensure!(told["backend"] == self.backend.name(), "it acts by {}", told["backend"]);
        Ok(())
    }
}

/// How a start under a limit went.
enum Started {
    Ready(Daemon),
    Refused(String),
}

impl Started {
    /// Ends it well, if it is there.
    fn end(self) -> Result<Outcome> {
        match self {
            Self::Ready(daemon) => daemon.end().map(|()| Outcome::Met),
            Self::Refused(line) => Ok(Outcome::Refused(line)),
        }
    }
}

/// A cgroup for a daemon, as long as this value lives.
struct Group(PathBuf);

impl Group {
    fn new(name: &str) -> Result<Self> {
        let dir = Path::new(ROOT).join(name);
        fs::create_dir(&dir).with_context(|| format!("create cgroup {}", dir.display()))?;
        Ok(Self(dir))
    }

    fn set(&self, file: &str, text: &str) -> Result<()> {
        set(&self.0.join(file), text)
    }

    fn take(&self, daemon: &Daemon) -> Result<()> {
        self.set("cgroup.procs", &daemon.pid().to_string())
    }

    /// A command that runs another one in it.
    fn runs(&self) -> [String; 4] {
        let script = format!("echo 0 >{}/cgroup.procs && exec \"$@\"", self.0.display());
        ["sh".into(), "-c".into(), script, "sh".into()]
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Who was killed in it leaves a little later.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            clock::sleep_ms(20);
        }
        eprintln!("cgroup {} stays", self.0.display());
    }
}

fn enable(controller: &str) -> Result<()> {
    set(&Path::new(ROOT).join("cgroup.subtree_control"), &format!("+{controller}"))
}

fn set(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("write {text:?} to {}", file.display()))
}
