//! Sound that is fed without a call.

use std::process::Command;

use anyhow::{Result, anyhow};

use super::{Case, case};
use crate::{
    clock,
    sense::{
        answer::{Found, Origin, why},
        program::{self, Program},
        stage::Stage,
    },
    system,
};

const FEED: &[(&str, &str)] = &[("card.h", include_str!("../c/card.h")), ("feed.c", include_str!("../c/feed.c"))];
const PLAYBACK: &str = "/dev/snd/pcmC0D0p";
/// Longer than attention lasts: what comes with the start is over.
const WHILE_MS: u64 = 5000;

pub fn all() -> Vec<Case> {
    vec![case("sound mapped with its positions", feed), case("sound that never starts", never_starts)]
}

fn feed(stage: &mut Stage) -> Result<()> {
    system::wait_for_path(PLAYBACK, 20)?;
    let program = program::compile_files(&stage.dir, "feed", FEED)?;
    let mut player = Program::start(Command::new(program).arg(PLAYBACK), None, stage.dir.join("feed.log"))?;
    player.prints(1)?;
    clock::sleep_ms(WHILE_MS);
    let early = why(player.pid())?;
    stage.verdict("who plays", early.must_be_attended(&Origin::new("audio", PLAYBACK, player.pid()), &[]));
    clock::sleep_ms(500);
    let late = why(player.pid())?;
    let request = |found: &Found| found.current().map(|chain| chain.request);
    let renewed = request(&late) > request(&early);
    stage.verdict("each period is a request", if renewed { Ok(()) } else { Err(anyhow!("{early}, then {late}")) });
    player.output().map(drop)
}

/// Nobody will hear what is only prepared.
fn never_starts(stage: &mut Stage) -> Result<()> {
    system::wait_for_path(PLAYBACK, 20)?;
    let program = program::compile_files(&stage.dir, "feed", FEED)?;
    let mut command = Command::new(program);
    command.args([PLAYBACK, "prepared"]);
    let mut player = Program::start(&mut command, None, stage.dir.join("prepared.log"))?;
    player.prints(1)?;
    clock::sleep_ms(500);
    let begun = why(player.pid())?;
    stage.verdict("who is about to play", begun.must_be_attended(&Origin::new("audio", PLAYBACK, player.pid()), &[]));
    clock::sleep_ms(2 * WHILE_MS);
    stage.verdict("who never plays", why(player.pid())?.must_stand("expired"));
    player.output().map(drop)
}
