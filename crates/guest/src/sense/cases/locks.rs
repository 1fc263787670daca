//! Who holds what an attended process waits for is served like it, for as long as it waits.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::{
    Case, case,
    guards::{ATTENTION_NS, BUDGET_MS},
};
use crate::{
    clock::{self, MS},
    hog::{self, Hogs},
    sense::{
        answer::counter,
        program::{self, Program},
        stage::{Actor, Stage},
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
/// More than the budget of a request, ms of CPU time.
const BEYOND_BUDGET_MS: u32 = BUDGET_MS + 100;
/// A request is over by then, and nothing but its tasks' own record says that they worked for it.
const FORGOTTEN_MS: u64 = ATTENTION_NS / MS + 500;

/// All of them; `has_budgets`: requests have one under this policy.
pub fn all(has_budgets: bool) -> Vec<Case> {
    let mut cases: Vec<Case> = [
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
    .collect();
    if has_budgets {
        cases.push(case("lock of a build", of_build));
    }
    cases
}

/// How long the holder took for its work, ms: while somebody waited, and afterwards.
struct Took {
    waited_for: f64,
    alone: f64,
}

fn lock(stage: &mut Stage, kind: &str) -> Result<()> {
    let program = program::compile(&stage.dir, "locks", LOCKS)?;
    let (lifted, lifts) = held(stage, &program, kind, true)?;
    stage.verdict("its holder is lifted", at_most("ms", lifted.waited_for, LIFTED_MS));
    stage.verdict("that is counted", at_least("lifts", count(lifts), 1.0));
    stage.verdict("not when it has let go", at_least("ms", lifted.alone, SLOWER * lifted.waited_for));
    let (plain, lifts) = held(stage, &program, kind, false)?;
    stage.verdict("not for who is not attended", at_least("ms", plain.waited_for, SLOWER * lifted.waited_for));
    stage.verdict("nothing is counted then", at_most("lifts", count(lifts), 0.0));
    Ok(())
}

#[allow(clippy::cast_precision_loss)]
fn count(number: u64) -> f64 {
    number as f64
}

/// Work beyond a budget stays that when somebody has waited for its lock: it goes on in the customer's party, not in its cgroup's.
fn of_build(stage: &mut Stage) -> Result<()> {
    let program = program::compile(&stage.dir, "locks", LOCKS)?;
    let (file, output) = (new_lock(stage), stage.dir.join("locks.out"));
    fs::File::create(&output).with_context(|| format!("create {}", output.display()))?;
    let mut build = stage.handler("build", None, None)?;
    stage.attend(&mut build)?;
    build.does(&Order::Burn(BEYOND_BUDGET_MS))?;
    stage.verdict("its budget is spent", build.stands("spent"));
    let mut holder = stage.child_of(&mut build, "holder")?;
    let mut hogs = (0..HOGS).map(|_| stage.child_of(&mut build, "hog")).collect::<Result<Vec<Actor>>>()?;
    clock::sleep_ms(FORGOTTEN_MS);
    let hold = ["hold", &WORK_MS.to_string(), &output.display().to_string()];
    holder.tell(&Order::Become(words(&program, "flock", &file, &hold)))?;
    program::prints(&output, 1)?;
    let mut waiter = stage.handler("waiter", None, None)?;
    for hog in &mut hogs {
        hog.tell(&Order::Become(hog::words().into()))?;
    }
    stage.attend(&mut waiter)?;
    waiter.tell(&Order::Become(words(&program, "flock", &file, &["wait"])))?;
    let took = took(&program::prints(&output, 2)?)?;
    stage.verdict("its holder is lifted", at_most("ms", took.waited_for, LIFTED_MS));
    stage.verdict("not when it has let go", at_least("ms", took.alone, SLOWER * took.waited_for));
    Ok(())
}

/// A file to lock. What an earlier holder left in it would be taken for a lock.
fn new_lock(stage: &Stage) -> PathBuf {
    let file = stage.dir.join("lock");
    let _ = fs::remove_file(&file);
    let _ = fs::remove_dir_all(file.with_extension("d"));
    file
}

/// The program that holds a lock or waits for it, and its arguments.
fn words(program: &Path, kind: &str, file: &Path, part: &[&str]) -> Vec<String> {
    let (program, file) = (program.display().to_string(), file.display().to_string());
    [&program, kind, &file].into_iter().chain(part.iter().copied()).map(str::to_owned).collect()
}

/// A process takes the lock, and another one waits for it beside hogs. How long that took, and how many lifts were counted.
fn held(stage: &mut Stage, program: &Path, kind: &str, attended: bool) -> Result<(Took, u64)> {
    let file = new_lock(stage);
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
    waiter.tell(&Order::Become(words(program, kind, &file, &["wait"])))?;
    let said = holder.prints(2)?;
    drop(hogs);
    Ok((took(&said)?, counter(LIFTED)? - before))
}

/// What a holder said at its end.
fn took(said: &str) -> Result<Took> {
    let took = said.lines().nth(1).and_then(|line| line.split_once(' '));
    let (waited_for, alone) = took.with_context(|| format!("the holder said {said:?}"))?;
    let ms = |us: &str| us.parse::<f64>().map(|us| us / 1e3).with_context(|| format!("the holder said {said:?}"));
    Ok(Took { waited_for: ms(waited_for)?, alone: ms(alone)? })
}

fn at_most(unit: &str, figure: f64, limit: f64) -> Result<()> {
    if figure <= limit { Ok(()) } else { bail!("{figure:.1} {unit}; at most {limit:.1} are allowed") }
}

fn at_least(unit: &str, figure: f64, limit: f64) -> Result<()> {
    if figure >= limit { Ok(()) } else { bail!("{figure:.1} {unit}; at least {limit:.1} are expected") }
}
