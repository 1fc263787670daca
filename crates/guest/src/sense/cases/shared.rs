//! Shared memory: no message tells what a wake-up is for, so only who is woken regularly at a customer's input is attended.

use std::{os::fd::OwnedFd, path::PathBuf, process::Command};

use anyhow::{Context, Result, anyhow};

use super::{Case, case};
use crate::{
    clock,
    sense::{
        answer::{counter, loans, why},
        program::{self, Program},
        stage::{SETTLE_MS, Stage},
    },
};

const SHARED: &str = include_str!("../c/shared.c");
/// Interactions after which a partner is found for certain: one more than its confidence must be above.
const ROUNDS: usize = 6;
/// A wake-up that has nothing to do with the customer's input comes so long after it.
const LATER_MS: u32 = 50;
/// Wake-ups between threads.
const TIMES: usize = 40;

pub fn all() -> Vec<Case> {
    vec![case("shared memory", partners), case("private memory", threads)]
}

/// The program, and the memory.
struct Memory {
    program: PathBuf,
    file: PathBuf,
    dir: PathBuf,
    started: usize,
}

impl Memory {
    fn new(stage: &Stage) -> Result<Self> {
        let program = program::compile(&stage.dir, "shared", SHARED)?;
        let file = stage.dir.join("memory");
        let _ = std::fs::remove_file(&file);
        Ok(Self { program, file, dir: stage.dir.clone(), started: 0 })
    }

    fn start(&mut self, words: &[&str], input: Option<&OwnedFd>) -> Result<Program> {
        self.started += 1;
        let output = self.dir.join(format!("shared-{}.out", self.started));
        let mut program = Program::start(Command::new(&self.program).arg(&self.file).args(words), input, output)?;
        program.prints(1)?;
        Ok(program)
    }
}

/// How many were woken, by the last line that the program printed.
fn woken(said: &str) -> Result<u64> {
    let last = said.lines().last().and_then(|line| line.strip_prefix("woke "));
    last.and_then(|number| number.parse().ok()).with_context(|| format!("the program said {said:?}"))
}

fn partners(stage: &mut Stage) -> Result<()> {
    let mut memory = Memory::new(stage)?;
    let partner = memory.start(&["wait", "0"], None)?;
    let stranger = memory.start(&["wait", "1"], None)?;
    let outsider = memory.start(&["wait", "2"], None)?;
    let later = LATER_MS.to_string();
    let mut handler = memory.start(&["wake", "0", "0"], Some(&stage.open_remote()?))?;
    let mut late = memory.start(&["wake", "1", &later], Some(&stage.open_remote()?))?;
    let link = stage.link(crate::sense::object::Kind::Pipe)?;
    let mut nobodys = memory.start(&["wake", "2", "0"], Some(&link.reader))?;
    let mut writer = stage.actor("writer", None, Some(&link.writer))?;
    clock::sleep_ms(SETTLE_MS);
    for round in 1..=ROUNDS {
        stage.touch_remote()?;
        writer.writes(&link)?;
        for (name, waker) in [("handler", &mut handler), ("late waker", &mut late), ("nobody's waker", &mut nobodys)] {
            let said = waker.prints(1 + round)?;
            if woken(&said)? != 1 {
                stage.verdict(name, Err(anyhow!("it woke nobody in round {round}: {said:?}")));
            }
        }
        clock::sleep_ms(SETTLE_MS);
        if round == 1 {
            stage.verdict("who was woken once", why(partner.pid())?.must_be_unattended());
        }
    }
    let origin = stage.opened_by(handler.pid());
    let found = why(partner.pid())?.must_be_attended(&origin, &[("shared", partner.pid())]);
    stage.verdict("who is woken each time", found);
    stage.verdict("who is woken at other times", why(stranger.pid())?.must_be_unattended());
    stage.verdict("who is woken by nobody's handler", why(outsider.pid())?.must_be_unattended());
    Ok(())
}

/// Threads of one process are all attended already.
fn threads(stage: &mut Stage) -> Result<()> {
    let mut memory = Memory::new(stage)?;
    let mut handler = memory.start(&["threads", &TIMES.to_string()], Some(&stage.open_remote()?))?;
    clock::sleep_ms(SETTLE_MS);
    let (lent, handed) = (loans()?, counter("stamps picked up")?);
    stage.touch_remote()?;
    let woken = woken(&handler.prints(2)?)?;
    let (lent, handed) = (loans()? - lent, counter("stamps picked up")? - handed);
    let all =
        if woken >= TIMES as u64 / 2 { Ok(()) } else { Err(anyhow!("{woken} of {TIMES} wake-ups woke a thread")) };
    stage.verdict("threads are woken", all);
    let origin = stage.opened_by(handler.pid());
    stage.verdict("who woke them", why(handler.pid())?.must_be_attended(&origin, &[]));
    let none = if lent < woken / 2 && handed == 0 { Ok(()) } else { Err(anyhow!("{lent} loans, {handed} handed on")) };
    stage.verdict("nothing is lent or handed on", none);
    Ok(())
}
