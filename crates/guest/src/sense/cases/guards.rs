//! Attention ends: by time, by CPU time, by the length of the chain.

use anyhow::{Result, anyhow};

use super::{Case, case};
use crate::{
    clock::{self, MS, SECOND},
    sense::{
        answer::Found,
        object::{Kind, Link},
        stage::{Actor, Stage},
        wire::Order,
    },
};

/// As the daemon is set when it is not told otherwise.
pub(super) const ATTENTION_NS: u64 = 4 * SECOND;
/// As the daemon is set when it is not told otherwise.
pub(super) const BUDGET_MS: u32 = 2000;
/// As the daemon is set when it is not told otherwise.
const QUIET_MS: u32 = 300;
/// Most of that, twice as much as which is more than it.
const ANSWER_MS: u32 = QUIET_MS * 2 / 3;
/// As the daemon is set when it is not told otherwise.
const MAX_HOPS: usize = 8;

pub fn all() -> Vec<Case> {
    vec![
        case("hop limit", hop_limit),
        case("expiry", expiry),
        case("budget", budget),
        case("budget and answers", answers),
        case("budget of a pipeline", beside),
        case("budget of a command", command),
    ]
}

fn hop_limit(stage: &mut Stage) -> Result<()> {
    let links = (0..=MAX_HOPS).map(|_| stage.link(Kind::Pipe)).collect::<Result<Vec<Link>>>()?;
    let mut actors = vec![stage.handler("first", None, Some(&links[0].writer))?];
    for (at, link) in links.iter().enumerate() {
        let output = links.get(at + 1).map(|next| &next.writer);
        actors.push(stage.actor(&format!("{} hops away", at + 1), Some(&link.reader), output)?);
    }
    stage.attend(&mut actors[0])?;
    for (at, link) in links.iter().enumerate() {
        actors[at].writes(link)?;
        actors[at + 1].reads()?;
    }
    let origin = stage.by_remote(&actors[0]);
    let way: Vec<(&str, u32)> = actors[1..=MAX_HOPS].iter().map(|actor| ("pipe", actor.pid)).collect();
    stage.verdict("the last that counts", actors[MAX_HOPS].attended(&origin, &way));
    stage.verdict("the first that does not", actors[MAX_HOPS + 1].unattended());
    let child = stage.child_of(&mut actors[MAX_HOPS], "child of the last")?;
    stage.verdict("child of the last that counts", child.unattended());
    Ok(())
}

/// Two that keep each other busy do not keep attention.
fn expiry(stage: &mut Stage) -> Result<()> {
    let (there, back) = (stage.link(Kind::Pipe)?, stage.link(Kind::Pipe)?);
    let mut first = stage.handler("first", Some(&back.reader), Some(&there.writer))?;
    let mut second = stage.actor("second", Some(&there.reader), Some(&back.writer))?;
    stage.attend(&mut first)?;
    let opened_ns = clock::now_ns();
    round(&mut first, &mut second, &there, &back)?;
    let (of_first, of_second) = (first.why()?, second.why()?);
    stage.verdict("a process further away for as long", same_end(&of_first, &of_second));
    while clock::now_ns() < opened_ns + ATTENTION_NS / 2 {
        round(&mut first, &mut second, &there, &back)?;
        clock::sleep_ms(100);
    }
    stage.verdict("before", second.stands("current"));
    while clock::now_ns() < opened_ns + ATTENTION_NS + 100 * MS {
        round(&mut first, &mut second, &there, &back)?;
        clock::sleep_ms(100);
    }
    stage.verdict("handler after", first.stands("expired"));
    stage.verdict("the next after", second.stands("expired"));
    let child = stage.child_of(&mut second, "child of an expired one")?;
    stage.verdict("child of an expired one", child.unattended());
    let mut third = stage.actor("third", Some(&there.reader), None)?;
    first.writes(&there)?;
    third.reads()?;
    stage.verdict("reader of what an expired one writes", third.unattended());
    stage.attend(&mut first)?;
    stage.verdict("the next key renews it", first.stands("current"));
    Ok(())
}

fn round(first: &mut Actor, second: &mut Actor, there: &Link, back: &Link) -> Result<()> {
    first.writes(there)?;
    second.reads()?;
    second.writes(back)?;
    first.reads()
}

fn same_end(one: &Found, other: &Found) -> Result<()> {
    // Since the request was opened; what is asked later has less left.
    let length_ns = |found: &Found| found.current().map(|chain| chain.opened_ago_ns + chain.left_ns);
    match (length_ns(one), length_ns(other)) {
        (Some(a), Some(b)) if a == b && a == ATTENTION_NS.cast_signed() => Ok(()),
        (a, b) => Err(anyhow!("expected {ATTENTION_NS} ns for both; found {a:?} and {b:?} ({one}; {other})")),
    }
}

/// A request that has had its share behind a terminal without an answer is batch work, whoever spent it.
fn budget(stage: &mut Stage) -> Result<()> {
    let link = stage.link(Kind::PtyInput)?;
    let mut first = stage.handler("first", None, Some(&link.writer))?;
    let mut second = stage.actor("second", Some(&link.reader), None)?;
    stage.attend(&mut first)?;
    first.does(&Order::Burn(2 * QUIET_MS))?;
    stage.verdict("before it comes to the terminal", first.stands("current"));
    first.writes(&link)?;
    second.reads()?;
    second.does(&Order::Burn(QUIET_MS * 2 / 3))?;
    stage.verdict("for a little longer", second.stands("current"));
    second.does(&Order::Burn(QUIET_MS * 2 / 3))?;
    stage.verdict("who spent the rest", second.stands("spent"));
    stage.verdict("who began", first.stands("spent"));
    let child = stage.child_of(&mut second, "child of a spent one")?;
    stage.verdict("child of who spent it", child.stands("spent"));
    let mut third = stage.actor("third", Some(&link.reader), None)?;
    first.writes(&link)?;
    third.reads()?;
    stage.verdict("reader of what is written then", third.unattended());
    stage.attend(&mut first)?;
    stage.verdict("the next key renews it", first.stands("current"));
    Ok(())
}

/// What is answered goes on until the whole budget is spent, be the answer late.
fn answers(stage: &mut Stage) -> Result<()> {
    let (there, back) = (stage.link(Kind::PtyInput)?, stage.link(Kind::Pipe)?);
    let mut first = stage.handler("first", Some(&back.reader), Some(&there.writer))?;
    let mut second = stage.actor("second", Some(&there.reader), Some(&back.writer))?;
    stage.attend(&mut first)?;
    first.writes(&there)?;
    second.reads()?;
    second.does(&Order::Burn(2 * ANSWER_MS))?;
    stage.verdict("silent for too long", second.stands("spent"));
    second.writes(&back)?;
    first.reads()?;
    stage.verdict("its answer takes it up again", second.stands("current"));
    let turns = BUDGET_MS / ANSWER_MS;
    for _ in 0..turns / 2 {
        answer(&mut first, &mut second, &back)?;
    }
    stage.verdict("half of the budget spent", first.stands("current"));
    for _ in 0..turns / 2 + 2 {
        answer(&mut first, &mut second, &back)?;
    }
    stage.verdict("all of it spent", first.stands("spent"));
    stage.verdict("who answered", second.stands("spent"));
    Ok(())
}

fn answer(first: &mut Actor, second: &mut Actor, back: &Link) -> Result<()> {
    second.does(&Order::Burn(ANSWER_MS))?;
    second.writes(back)?;
    first.reads()
}

/// What those who are equally near to the customer tell each other is no answer, be it a pipeline at work.
fn beside(stage: &mut Stage) -> Result<()> {
    let (terminal, link) = (stage.link(Kind::PtyInput)?, stage.link(Kind::Pipe)?);
    let mut first = stage.handler("first", None, Some(&terminal.writer))?;
    let mut left = stage.actor("left", Some(&terminal.reader), Some(&link.writer))?;
    let mut right = stage.actor("right", Some(&link.reader), None)?;
    stage.attend(&mut first)?;
    first.writes(&terminal)?;
    left.reads()?;
    left.does(&Order::Burn(ANSWER_MS))?;
    left.writes(&link)?;
    right.reads()?;
    stage.verdict("before", right.stands("current"));
    left.does(&Order::Burn(ANSWER_MS))?;
    stage.verdict("who writes", left.stands("spent"));
    stage.verdict("who reads", right.stands("spent"));
    Ok(())
}

/// What a shell starts is waited for, also while it says nothing.
fn command(stage: &mut Stage) -> Result<()> {
    let terminal = stage.link(Kind::PtyInput)?;
    let mut first = stage.handler("first", None, Some(&terminal.writer))?;
    let mut shell = stage.actor("shell", Some(&terminal.reader), None)?;
    stage.attend(&mut first)?;
    first.writes(&terminal)?;
    shell.reads()?;
    let mut child = stage.child_of(&mut shell, "command")?;
    child.does(&Order::Burn(2 * QUIET_MS))?;
    stage.verdict("silent for longer than its shell may be", child.stands("current"));
    child.does(&Order::Burn(BUDGET_MS))?;
    stage.verdict("the whole budget spent", child.stands("spent"));
    Ok(())
}
