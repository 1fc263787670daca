//! A login at a serial line; a cable leads from it to another line, which stands for the terminal at its far end.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    process::Command,
};

use anyhow::{Context, Result, bail};
use rustix::{fs::OFlags, io::ioctl_fionread};

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
/// Lengths of prompts, without the machine's name.
const LOGIN: usize = " login: ".len();
const PASSWORD: usize = "Password: ".len();
const SHELL: usize = "root@:~# ".len();
const PROMPT_LIMIT_S: u64 = 10;
/// A prompt has come to its end when nothing more came so many times.
const QUIET_LOOKS: u32 = 10;

pub fn all() -> Vec<Case> {
    vec![case("serial login", login)]
}

fn login(stage: &mut Stage) -> Result<()> {
    set_password()?;
    let mut terminal = Terminal::new()?;
    let mut getty = Command::new("setsid");
    getty.args(["agetty", "--local-line", "--noclear", SPEED, LINE, "vt100"]);
    // It becomes login, whose child is the shell.
    let _getty = Program::start(&mut getty, None, stage.dir.join("getty.log"))?;
    terminal.shows(LOGIN)?;
    terminal.types(USER)?;
    terminal.shows(USER.len() + PASSWORD)?;
    terminal.types(WORD)?;
    terminal.shows(SHELL)?;
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

/// A person's terminal at the far end.
struct Terminal {
    line: File,
    /// Bytes that had come by the last prompt.
    shown: usize,
}

impl Terminal {
    fn new() -> Result<Self> {
        let own = OFlags::NOCTTY.bits().cast_signed();
        let line = OpenOptions::new().read(true).write(true).custom_flags(own).open(TERMINAL);
        let line = line.with_context(|| format!("open {TERMINAL}: the scenario must have a cable"))?;
        run(Command::new("stty").args(["-F", TERMINAL, SPEED, "raw", "-echo"]))?;
        Ok(Self { line, shown: 0 })
    }

    fn types(&mut self, line: &str) -> Result<()> {
        self.line.write_all(format!("{line}\r").as_bytes()).with_context(|| format!("write to {TERMINAL}"))
    }

    /// Waits until so many bytes more have come, and no more are coming. Only counts them: who reads a line is attended.
    fn shows(&mut self, bytes: usize) -> Result<()> {
        let deadline = Deadline::after_s(PROMPT_LIMIT_S);
        let (mut last, mut same) = (0, 0);
        while same < QUIET_LOOKS || last < self.shown + bytes {
            if deadline.has_passed() {
                let said = last.saturating_sub(self.shown);
                bail!("{LINE} said {said} bytes within {PROMPT_LIMIT_S} s, at least {bytes} were expected");
            }
            clock::sleep_ms(20);
            let now = ioctl_fionread(&self.line).with_context(|| format!("look at {TERMINAL}"))?;
            let now = usize::try_from(now).context("a count of bytes")?;
            same = if now == last { same + 1 } else { 0 };
            last = now;
        }
        self.shown = last;
        Ok(())
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
