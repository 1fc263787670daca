//! Who holds what an attended process waits for is served like it, for as long as it waits.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, bail};

use super::{Case, case};
use crate::{
    hog::Hogs,
    sense::{
        answer::counter,
        program::{self, Program},
        stage::Stage,
        wire::Order,
    },
};

const LOCKS: &str = include_str!("../c/locks.c");
const LIFTED: &str = "holders of locks lifted";
/// What the holder has to do before it lets go, ms of CPU time.
const WORK_MS: u64 = 50;
/// The most that this may take with somebody attended waiting, ms.
const LIFTED_MS: f64 = 100.0;
/// Beside so many hogs.
const HOGS: usize = 16;
/// How many times longer it takes otherwise, at least.
const SLOWER: f64 = 5.0;

pub fn all() -> Vec<Case> {
    [
        ("flock", "flock"),
        ("fcntl", "fcntl lock"),
        ("mutex", "mutex of two processes"),
        ("robust", "robust mutex of two processes"),
        ("thread", "mutex held by another thread"),
        ("pi", "mutex with priority inheritance"),
        ("inode", "file that is being written"),
        ("directory", "directory that is being read"),
        ("queue", "file that several wait for"),
    ]
    .into_iter()
    .map(|(kind, name)| case(name, move |stage| lock(stage, kind)))
    .collect()
}

/// How long the holder took for its work, ms: while somebody waited, and afterwards.
struct Took {
    waited_for: f64,
    alone: f64,
    lifts: u64,
}

fn lock(stage: &mut Stage, kind: &str) -> Result<()> {
    let program = program::compile(&stage.dir, "locks", LOCKS)?;
    let lifted = held(stage, &program, kind, true)?;
    stage.verdict("its holder is lifted", at_most("ms", lifted.waited_for, LIFTED_MS));
    stage.verdict("that is counted", at_least("lifts", count(lifted.lifts), 1.0));
    stage.verdict("not when it has let go", at_least("ms", lifted.alone, SLOWER * lifted.waited_for));
    let plain = held(stage, &program, kind, false)?;
    stage.verdict("not for who is not attended", at_least("ms", plain.waited_for, SLOWER * lifted.waited_for));
    stage.verdict("nothing is counted then", at_most("lifts", count(plain.lifts), 0.0));
    Ok(())
}

#[allow(clippy::cast_precision_loss)]
fn count(number: u64) -> f64 {
    number as f64
}

/// A process takes the lock, and another one waits for it beside hogs.
fn held(stage: &mut Stage, program: &Path, kind: &str, attended: bool) -> Result<Took> {
    let file = stage.dir.join("lock");
    // What an earlier holder left in it would be taken for a lock.
    let _ = fs::remove_file(&file);
    let _ = fs::remove_dir_all(file.with_extension("d"));
    let mut command = Command::new(program);
    command.arg(kind).arg(&file).arg("hold").arg(WORK_MS.to_string());
    let mut holder = Program::start(&mut command, None, stage.dir.join("locks.out"))?;
    holder.prints(1)?;
    let mut waiter = stage.handler("waiter", None, None)?;
    let mut other = stage.handler("somebody else", None, None)?;
    let before = counter(LIFTED)?;
    let hogs = Hogs::start(HOGS)?;
    // Somebody is served, or there would be nothing to look at.
    stage.attend(if attended { &mut waiter } else { &mut other })?;
    let words = [program.display().to_string(), kind.into(), file.display().to_string(), "wait".into()];
    waiter.tell(&Order::Become(words.into()))?;
    let said = holder.prints(2)?;
    drop(hogs);
    let lifts = counter(LIFTED)? - before;
    let took = said.lines().nth(1).and_then(|line| line.split_once(' '));
    let (waited_for, alone) = took.with_context(|| format!("the holder said {said:?}"))?;
    let ms = |us: &str| us.parse::<f64>().map(|us| us / 1e3).with_context(|| format!("the holder said {said:?}"));
    Ok(Took { waited_for: ms(waited_for)?, alone: ms(alone)?, lifts })
}

fn at_most(unit: &str, figure: f64, limit: f64) -> Result<()> {
    if figure <= limit { Ok(()) } else { bail!("{figure:.1} {unit}; at most {limit:.1} are allowed") }
}

fn at_least(unit: &str, figure: f64, limit: f64) -> Result<()> {
    if figure >= limit { Ok(()) } else { bail!("{figure:.1} {unit}; at least {limit:.1} are expected") }
}
