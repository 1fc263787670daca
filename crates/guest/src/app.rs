//! Programs that the session starts: where they log, in which cgroup they live, when they end.

use std::{
    fs::{self, File},
    io::{Read, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
};

use anyhow::{Context, Result, anyhow, bail};
use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open},
};

use crate::{
    clock::{self, Deadline},
    scope::Scopes,
    system::{RUN_DIR, tail},
};

/// How far an idle machine may leap.
const LEAP_NS: u64 = 20 * clock::MS;
/// Time for the members of a killed group to be gone, in seconds of a busy CPU.
const KILL_LIMIT_S: u64 = 20;

/// A program that runs.
pub struct Program {
    /// Name in messages and of its log.
    pub name: String,
    child: Child,
    log: PathBuf,
}

/// What is to be started.
pub struct Launch<'a> {
    /// Name in messages and of its log.
    pub name: &'a str,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Where it is put.
    pub scopes: Scopes,
    /// The application whose group it shares; none: it has its own.
    pub shares: Option<&'a str>,
    /// Keep it from running until [`Program::open_gate`].
    pub gated: bool,
    /// Have its standard input written by the session.
    pub typed_into: bool,
    /// Give its standard output to the session rather than to the log.
    pub piped: bool,
}

impl<'a> Launch<'a> {
    /// A program with its arguments.
    pub fn new<S: AsRef<str>>(name: &'a str, scopes: Scopes, argv: &[S]) -> Self {
        let argv = argv.iter().map(|word| word.as_ref().to_owned()).collect();
        Self { name, argv, scopes, shares: None, gated: false, typed_into: false, piped: false }
    }

    /// Starts it, in a session of its own.
    pub fn start(self) -> Result<Program> {
        let log = Path::new(RUN_DIR).join(format!("{}.log", self.name));
        let file = File::create(&log).with_context(|| format!("create {}", log.display()))?;
        let mut command = Command::new("/proc/self/exe");
        command.arg("enter");
        if let Some(scope) = self.scopes.of(self.shares.unwrap_or(self.name))? {
            command.arg("--scope").arg(scope);
        }
        if let Some(nice) = self.scopes.nice() {
            command.arg("--nice").arg(nice.to_string());
        }
        if self.gated {
            command.arg("--gate");
        }
        command.stdin(if self.gated || self.typed_into { Stdio::piped() } else { Stdio::null() });
        let errors = file.try_clone().with_context(|| format!("share {}", log.display()))?;
        command.args(&self.argv).env("DISPLAY", ":0").stderr(errors);
        command.stdout(if self.piped { Stdio::piped() } else { Stdio::from(file) });
        let child = command.spawn().with_context(|| format!("start {}", self.name))?;
        Ok(Program { name: self.name.to_owned(), child, log })
    }
}

impl Program {
    /// Its process id; also the id of its process group and session.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets a gated program run.
    pub fn open_gate(&mut self) -> Result<()> {
        let mut gate = self.child.stdin.take().with_context(|| format!("{} has no gate", self.name))?;
        gate.write_all(b"\n").with_context(|| format!("open the gate of {}", self.name))
    }

    /// Its standard input, if it is typed into; once.
    pub fn input(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Its standard output, if piped; once.
    pub fn output(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().with_context(|| format!("wait for {}", self.name))
    }

    /// Fails with the last lines of its log if it has ended.
    pub fn must_run(&mut self) -> Result<()> {
        match self.ended()? {
            None => Ok(()),
            Some(status) => Err(self.complaint(&format!("ended too early ({status})"))),
        }
    }

    /// An error that says what is wrong with it, with the last lines of its log.
    pub fn complaint(&self, what: &str) -> anyhow::Error {
        anyhow!("{} {what}: {}", self.name, self.log_tail(12))
    }

    /// The last lines of its log.
    pub fn log_tail(&self, lines: usize) -> String {
        tail(&self.log, lines)
    }

    /// All that it logged.
    pub fn log_text(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Waits for its end until `limit_ns`; `None` when it is still running then. With the time of the end.
    pub fn wait_until(&mut self, limit_ns: u64) -> Result<Option<(ExitStatus, u64)>> {
        let pid = Pid::from_child(&self.child);
        let handle = pidfd_open(pid, PidfdFlags::empty()).with_context(|| format!("watch {}", self.name))?;
        loop {
            // Short steps, because an idle emulated machine that waits for its disk leaps to the next timer.
            let left = limit_ns.saturating_sub(clock::now_ns());
            let mut watched = [PollFd::new(&handle, PollFlags::IN)];
            match poll(&mut watched, Some(&clock::timespec(left.min(LEAP_NS)))) {
                Ok(0) if left <= LEAP_NS => return Ok(None),
                Ok(0) => {}
                Ok(_) => {
                    let at_ns = clock::now_ns();
                    let status = self.child.wait().with_context(|| format!("wait for {}", self.name))?;
                    return Ok(Some((status, at_ns)));
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => bail!("wait for {}: {error}", self.name),
            }
        }
    }

    /// Asks it to end; whether it did within `seconds`.
    pub fn ends_when_asked(&mut self, seconds: u64) -> bool {
        if let Ok(Some(_)) = self.ended() {
            return true;
        }
        let _ = self.signal(Signal::TERM);
        matches!(self.wait_until(clock::now_ns() + seconds * clock::SECOND), Ok(Some(_)))
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(Pid::from_child(&self.child), signal).with_context(|| format!("send {} a signal", self.name))
    }

    /// Ends its whole process group, and waits until nothing of it is left.
    pub fn kill(&mut self) {
        let group = Pid::from_child(&self.child);
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
        let deadline = Deadline::after_s(KILL_LIMIT_S);
        while rustix::process::test_kill_process_group(group).is_ok() && !deadline.has_passed() {
            clock::sleep_ms(10);
        }
    }
}

/// `enter [--scope DIR] [--nice N] [--gate] PROGRAM [ARGUMENT...]`: moves itself where the program shall be,
/// waits for a byte on standard input if told so, then becomes the program. Thus the program's
/// first instruction already runs in its cgroup.
pub fn enter(words: &[&str]) -> Result<()> {
    let mut rest = words;
    let mut gated = false;
    loop {
        match rest {
            ["--scope", dir, tail @ ..] => {
                let file = Path::new(dir).join("cgroup.procs");
                fs::write(&file, "0").with_context(|| format!("enter {}", file.display()))?;
                rest = tail;
            }
            ["--nice", value, tail @ ..] => {
                let nice = value.parse().with_context(|| format!("enter: \"{value}\" is no nice value"))?;
                rustix::process::setpriority_process(None, nice).with_context(|| format!("set nice {nice}"))?;
                rest = tail;
            }
            ["--gate", tail @ ..] => {
                gated = true;
                rest = tail;
            }
            _ => break,
        }
    }
    let [program, arguments @ ..] = rest else { bail!("enter: no program given") };
    // Fails only for a process that leads a group already, and then there is nothing to do.
    let _ = rustix::process::setsid();
    if gated {
        let mut byte = [0];
        std::io::stdin().read_exact(&mut byte).context("wait at the gate")?;
    }
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("start {program}"))
}
