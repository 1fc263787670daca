//! Where checks take place: actors, devices, and the list of verdicts.

use std::{
    fmt::Display,
    fs::{self, File, OpenOptions},
    io::Write,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    rc::Rc,
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::{
    actor::{self, LOOK_EVERY, Lines},
    answer::{self, Found, Origin},
    device::{Device, Shape},
    handling,
    network::Elsewhere,
    object::{Kind, Link},
    wire::{Answer, End, Order},
};
use crate::{
    check::Verdicts,
    clock::{self, Deadline},
    system::RUN_DIR,
};

/// How long an actor may take for one order, busy seconds.
const PATIENCE_S: u64 = 30;
/// Time in which whoever is told to wait for something does wait for it.
pub const SETTLE_MS: u64 = 60;

/// All that a check needs.
pub struct Stage {
    /// Where files may be.
    pub dir: PathBuf,
    elsewhere: Option<Rc<Elsewhere>>,
    remote: Device,
    remote_node: String,
    actors_so_far: u32,
    check: String,
    /// Whether a scheduler of ours says which lane work was done in.
    schedules: bool,
    /// What was found so far.
    pub verdicts: Verdicts,
}

impl Stage {
    /// An empty stage; all modules must be loaded. `schedules`: under a scheduler of ours.
    pub fn new(schedules: bool) -> Result<Self> {
        let dir = Path::new(RUN_DIR).join("sense");
        fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        let remote = Device::new(Shape::Remote)?;
        let remote_node = remote.node("event")?;
        Ok(Self {
            dir,
            elsewhere: None,
            remote,
            remote_node,
            actors_so_far: 0,
            check: String::new(),
            schedules,
            verdicts: Verdicts::default(),
        })
    }

    /// What the actor does now is done in this lane, where there are lanes.
    pub fn works_in(&mut self, what: &str, actor: &mut Actor, lane: &str) {
        if self.schedules {
            self.verdict(what, handling::works_in(actor, lane));
        }
    }

    /// Carries out one check.
    pub fn check(&mut self, name: &str, steps: impl FnOnce(&mut Self) -> Result<()>) {
        name.clone_into(&mut self.check);
        let before = self.verdicts.made;
        if let Err(error) = steps(self) {
            self.verdict("carried out", Err(error));
        } else if self.verdicts.made == before {
            self.verdict("carried out", Err(anyhow::anyhow!("it came to no verdict")));
        }
    }

    /// Notes one thing that holds or does not.
    pub fn verdict(&mut self, what: &str, holds: Result<()>) {
        self.verdicts.tell(&format!("{}: {what}", self.check), holds);
    }

    /// Where FIFOs may be.
    pub fn link(&self, kind: Kind) -> Result<Link> {
        Link::new(kind, &self.dir)
    }

    /// Another machine, the same for all checks.
    pub fn elsewhere(&mut self) -> Result<Rc<Elsewhere>> {
        if let Some(there) = &self.elsewhere {
            return Ok(Rc::clone(there));
        }
        let there = Rc::new(Elsewhere::new()?);
        self.elsewhere = Some(Rc::clone(&there));
        Ok(there)
    }

    /// Starts an actor; `role` says who it is in error messages.
    pub fn actor(&mut self, role: &str, input: Option<&OwnedFd>, output: Option<&OwnedFd>) -> Result<Actor> {
        let end = |end: Option<&OwnedFd>| end.map_or(Ok(Stdio::null()), |end| end.try_clone().map(Stdio::from));
        let (input, output) = (end(input).context("share an end")?, end(output).context("share an end")?);
        let name = self.files_for(role)?;
        let command = actor::command(&self.dir, &name);
        self.start(command, input, output, role, &name)
    }

    /// An actor that a program of these words becomes: one that changes what the kernel thinks of it.
    pub fn actor_by(&mut self, words: &[&str], role: &str) -> Result<Actor> {
        let name = self.files_for(role)?;
        let command = actor::command_by(words, &self.dir, &name)?;
        self.start(command, Stdio::null(), Stdio::null(), role, &name)
    }

    fn start(&self, mut command: Command, input: Stdio, output: Stdio, role: &str, name: &str) -> Result<Actor> {
        let child = command.stdin(input).stdout(output).spawn().with_context(|| format!("start {name}"))?;
        Actor::new(&self.dir, role, name, child.id(), Some(child))
    }

    /// An actor's child, which is an actor too.
    pub fn child_of(&mut self, parent: &mut Actor, role: &str) -> Result<Actor> {
        let name = self.files_for(role)?;
        let pid = parent.does(&Order::Spawn(name.clone()))?;
        Actor::new(&self.dir, role, &name, u32::try_from(pid).context("process id")?, None)
    }

    fn files_for(&mut self, role: &str) -> Result<String> {
        self.actors_so_far += 1;
        let name = format!("{}-{role}", self.actors_so_far).replace(' ', "-");
        actor::make_files(&self.dir, &name)?;
        Ok(name)
    }

    /// An actor that has the remote control open.
    pub fn handler(&mut self, role: &str, input: Option<&OwnedFd>, output: Option<&OwnedFd>) -> Result<Actor> {
        let mut actor = self.actor(role, input, output)?;
        actor.opens(&self.remote_node)?;
        Ok(actor)
    }

    /// The customer presses a key of the remote control, and `handler` reads that.
    pub fn attend(&mut self, handler: &mut Actor) -> Result<()> {
        // Within a few milliseconds it would be the same interaction.
        clock::sleep_ms(20);
        self.touch_remote()?;
        handler.does(&Order::Read(End::Channel)).map(drop)
    }

    /// The customer presses a key of the remote control.
    pub fn touch_remote(&mut self) -> Result<()> {
        self.remote.touch()
    }

    /// The remote control, for a program to read.
    pub fn open_remote(&self) -> Result<OwnedFd> {
        let file = File::open(&self.remote_node).with_context(|| format!("open {}", self.remote_node))?;
        Ok(file.into())
    }

    /// A request of the remote control that this process opened.
    pub fn by_remote(&self, handler: &Actor) -> Origin {
        self.opened_by(handler.pid)
    }

    /// As [`Stage::by_remote`], by process id.
    pub fn opened_by(&self, pid: u32) -> Origin {
        Origin::new("evdev", &self.remote_node, pid)
    }
}

/// A process under test, as long as this value lives.
pub struct Actor {
    /// Its process.
    pub pid: u32,
    role: String,
    dir: PathBuf,
    name: String,
    answers: Lines,
    child: Option<Child>,
}

impl Actor {
    fn new(dir: &Path, role: &str, name: &str, pid: u32, child: Option<Child>) -> Result<Self> {
        let answers = Lines::of(&actor::answers_path(dir, name))?;
        Ok(Self { pid, role: role.to_owned(), dir: dir.to_owned(), name: name.to_owned(), answers, child })
    }

    /// Has it begin with something.
    pub fn tell(&mut self, order: &Order) -> Result<()> {
        let path = actor::orders_path(&self.dir, &self.name);
        let mut file =
            OpenOptions::new().append(true).open(&path).with_context(|| format!("open {}", path.display()))?;
        file.write_all(format!("{order}\n").as_bytes()).with_context(|| format!("write to {}", path.display()))
    }

    /// Has it wait for something that has not happened yet.
    pub fn waits_for(&mut self, order: &Order) -> Result<()> {
        self.tell(order)?;
        clock::sleep_ms(SETTLE_MS);
        Ok(())
    }

    /// Waits for the answer to the oldest order that it has not answered.
    pub fn answer(&mut self) -> Result<Answer> {
        let deadline = Deadline::after_s(PATIENCE_S);
        loop {
            if let Some(line) = self.answers.next()? {
                return line.parse();
            }
            if let Some(child) = &mut self.child
                && let Some(status) = child.try_wait().with_context(|| format!("look after the {}", self.role))?
            {
                bail!("the {} ended ({status})", self.role);
            }
            if deadline.has_passed() {
                bail!("the {} did not answer within {PATIENCE_S} s", self.role);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits until it has done what it was told.
    pub fn done(&mut self) -> Result<i64> {
        match self.answer()? {
            Answer::Done(number) => Ok(number),
            Answer::Failed(why) => bail!("the {} failed: {why}", self.role),
        }
    }

    /// Has it do something.
    pub fn does(&mut self, order: &Order) -> Result<i64> {
        self.tell(order)?;
        self.done().with_context(|| order.to_string())
    }

    /// Has it try something that must fail.
    pub fn fails(&mut self, order: &Order) -> Result<()> {
        self.tell(order)?;
        match self.answer()? {
            Answer::Failed(_) => Ok(()),
            Answer::Done(number) => bail!("{order} by the {} should have failed, and gave {number}", self.role),
        }
    }

    /// Has it open a device.
    pub fn opens(&mut self, path: &str) -> Result<()> {
        self.does(&Order::Open { path: path.to_owned(), nonblocking: false }).map(drop)
    }

    /// Has it open a device so that reads do not wait.
    pub fn opens_nonblocking(&mut self, path: &str) -> Result<()> {
        self.does(&Order::Open { path: path.to_owned(), nonblocking: true }).map(drop)
    }

    /// Has it read from its input; there must be something.
    pub fn reads(&mut self) -> Result<()> {
        match self.does(&Order::Read(End::Input))? {
            bytes if bytes > 0 => Ok(()),
            bytes => bail!("the {} read {bytes} bytes", self.role),
        }
    }

    /// Has it write to its output, the writer's end of `link`.
    pub fn writes(&mut self, link: &Link) -> Result<()> {
        self.does(&link.message(End::Output)).map(drop)
    }

    /// What the daemon knows of it.
    pub fn why(&self) -> Result<Found> {
        answer::why(self.pid).with_context(|| format!("the {}", self.role))
    }

    /// It serves a request now.
    pub fn attended(&self, origin: &Origin, hops: &[(&str, u32)]) -> Result<()> {
        self.judge(|found| found.must_be_attended(origin, hops))
    }

    /// No request ever came to it.
    pub fn unattended(&self) -> Result<()> {
        self.judge(Found::must_be_unattended)
    }

    /// As [`Found::must_stand`].
    pub fn stands(&self, standing: &str) -> Result<()> {
        self.judge(|found| found.must_stand(standing))
    }

    fn judge(&self, judge: impl FnOnce(&Found) -> Result<()>) -> Result<()> {
        judge(&self.why()?).with_context(|| format!("{} {}", self.role, self.pid))
    }
}

impl Display for Actor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.role, self.pid)
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        match &mut self.child {
            Some(child) => {
                let _ = child.kill();
                let _ = child.wait();
            }
            // Whoever started it, or else the first process, reaps it.
            None => {
                if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
        }
    }
}
