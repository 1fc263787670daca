//! A login at a serial line; a cable leads from it to another line, which stands for the terminal at its far end.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, bail};
use rustix::fs::OFlags;

use super::{START_IS_OVER_MS, Source, is_not_served, is_served, parent_of, pid_in};
use crate::{
    clock::{self, Deadline},
    sense::{
        cases::{Case, case},
        program::Program,
        stage::Stage,
    },
};

const LINE: &str = "ttyS1";
const TERMINAL: &str = "/dev/ttyS2";
const SPEED: &str = "115200";
const USER: &str = "root";
const WORD: &str = "correct horse";
const PROMPT_LIMIT_S: u64 = 10;
pub fn all() -> Vec<Case> {
    vec![case("serial login", login)]
}

fn login(stage: &mut Stage) -> Result<()> {
    set_password()?;
    let mut terminal = Terminal::new(&stage.dir.join("terminal.log"))?;
    let mut getty = Command::new("setsid");
    getty.args(["agetty", "--local-line", "--noclear", SPEED, LINE, "vt100"]);
    // It becomes login, whose child is the shell.
    let _getty = Program::start(&mut getty, None, stage.dir.join("getty.log"))?;
    terminal.shows("login: ")?;
    terminal.types(USER)?;
    terminal.shows("Password: ")?;
    terminal.types(WORD)?;
    terminal.shows("# ")?;
    let (front, job) = (stage.dir.join("serial-front"), stage.dir.join("serial-job"));
    terminal.types(&format!("sh -c 'echo $$ > {}; while :; do echo busy; sleep 0.5; done' &", job.display()))?;
    terminal.types(&format!("sh -c 'echo $$ > {}; exec cat'", front.display()))?;
    let (front, job) = (pid_in(&front)?, pid_in(&job)?);
    clock::sleep_ms(START_IS_OVER_MS);
    terminal.types("hello")?;
    let from = Source { channel: "tty", node: "/dev/ttyS1", reader: "cat" };
    stage.verdict("who reads the line", is_served(front, &from, &[]));
    stage.verdict("a background job that prints there", is_not_served(job));
    stage.verdict("the shell that waits", is_not_served(parent_of(front)?));
    Ok(())
}

/// And no news at login: the prompt shall be all that comes.
fn set_password() -> Result<()> {
    fs::write("/root/.hushlogin", "").context("write /root/.hushlogin")?;
    let account = format!("{USER}:{WORD}");
    run(Command::new("sh").args(["-c", "echo \"$1\" | chpasswd", "sh", &account]))
}

/// A person's terminal at the far end. What it shows is read by a program apart: who reads a line is attended.
struct Terminal {
    line: File,
    screen: Program,
    /// How much of the screen was looked at.
    seen: usize,
}

impl Terminal {
    fn new(screen: &Path) -> Result<Self> {
        let own = OFlags::NOCTTY.bits().cast_signed();
        let line = OpenOptions::new().write(true).custom_flags(own).open(TERMINAL);
        let line = line.with_context(|| format!("open {TERMINAL}: the scenario must have a cable"))?;
        run(Command::new("stty").args(["-F", TERMINAL, SPEED, "raw", "-echo"]))?;
        let screen = Program::start(Command::new("cat").arg(TERMINAL), None, screen.to_owned())?;
        Ok(Self { line, screen, seen: 0 })
    }

    fn types(&mut self, line: &str) -> Result<()> {
        self.line.write_all(format!("{line}\r").as_bytes()).with_context(|| format!("write to {TERMINAL}"))
    }

    /// Waits until it shows a prompt, after the last one.
    fn shows(&mut self, prompt: &str) -> Result<()> {
        let deadline = Deadline::after_s(PROMPT_LIMIT_S);
        loop {
            let said = self.screen.output()?;
            let new = said.get(self.seen..).unwrap_or_default();
            if let Some(at) = new.find(prompt) {
                self.seen += at + prompt.len();
                return Ok(());
            }
            if deadline.has_passed() {
                bail!("{LINE} showed no {prompt:?} within {PROMPT_LIMIT_S} s, but {new:?}");
            }
            clock::sleep_ms(20);
        }
    }
}

fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().display().to_string();
    let out = command.output().with_context(|| format!("start {program}"))?;
    if !out.status.success() {
        bail!("{program}: {}", String::from_utf8_lossy(&out.stderr).trim());
    }
    Ok(())
}
