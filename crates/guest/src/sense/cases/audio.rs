//! Who plays sound that somebody hears has a customer.

use std::{
    fs::File,
    os::fd::OwnedFd,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, anyhow, bail};

use super::{Case, case};
use crate::{
    clock,
    sense::{
        answer::{Found, Origin, why},
        object::Kind,
        stage::Stage,
    },
    system,
};

const PLAYBACK: &str = "/dev/snd/pcmC0D0p";
/// What the emulated card can do.
const FORMAT: &[&str] = &["-D", "hw:0,0", "-t", "raw", "-f", "S16_LE", "-r", "48000", "-c", "2"];

pub fn all() -> Vec<Case> {
    vec![
        case("sound written", |stage| plays(stage, &["aplay", "-q"])),
        case("sound mapped", |stage| plays(stage, &["aplay", "-q", "-M"])),
        case("sound recorded", records),
        case("sound's listener", listener),
        case("sound's feeders", feeders),
        case("sound's feeder from before", former_feeder),
    ]
}

/// A program that plays or records, as long as this value lives.
struct Program(Child);

impl Program {
    fn start(words: &[&str], file: &str, output: Option<&OwnedFd>) -> Result<Self> {
        Self::start_with(Stdio::null(), words, file, output)
    }

    fn start_with(input: Stdio, words: &[&str], file: &str, output: Option<&OwnedFd>) -> Result<Self> {
        system::wait_for_path(PLAYBACK, 20)?;
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(FORMAT).arg(file).stdin(input);
        // Level meters go to one of the two.
        if let Some(output) = output {
            command.stdout(output.try_clone()?).stderr(output.try_clone()?);
        } else {
            command.stdout(Stdio::null());
        }
        command.spawn().map(Self).with_context(|| format!("start {} (package alsa-utils)", words[0]))
    }

    fn why(&mut self) -> Result<Found> {
        if let Some(status) = self.0.try_wait()? {
            bail!("the player ended ({status})");
        }
        why(self.0.id())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn plays(stage: &mut Stage, words: &[&str]) -> Result<()> {
    let mut player = Program::start(words, "/dev/zero", None)?;
    let origin = Origin::new("audio", PLAYBACK, player.0.id());
    // Longer than attention lasts, so that what is seen is not left over from the start.
    clock::sleep_ms(5000);
    let early = player.why()?;
    stage.verdict("who plays", early.must_be_attended(&origin, &[]));
    clock::sleep_ms(700);
    let late = player.why()?;
    let request = |found: &Found| found.current().map(|chain| chain.request);
    let renewed = request(&late) > request(&early);
    stage.verdict("each period is a request", if renewed { Ok(()) } else { Err(anyhow!("{early}, then {late}")) });
    Ok(())
}

fn records(stage: &mut Stage) -> Result<()> {
    let mut recorder = Program::start(&["arecord", "-q"], "/dev/null", None)?;
    clock::sleep_ms(1500);
    stage.verdict("who only records", recorder.why()?.must_be_unattended());
    Ok(())
}

/// A program's meter, in step with its sound, goes to another: served for the same listener.
fn listener(stage: &mut Stage) -> Result<()> {
    let link = stage.link(Kind::Pipe)?;
    let mut second = stage.actor("meter's reader", Some(&link.reader), None)?;
    let player = Program::start(&["aplay", "-V", "stereo"], "/dev/zero", Some(&link.writer))?;
    let origin = Origin::new("audio", PLAYBACK, player.0.id());
    let until = clock::now_ns() + 2 * clock::SECOND;
    while clock::now_ns() < until {
        second.reads()?;
    }
    stage.verdict("who reads what a player writes", second.attended(&origin, &[("pipe", second.pid)]));
    Ok(())
}

/// What is played comes through two pipes, and nobody asks for it.
fn feeders(stage: &mut Stage) -> Result<()> {
    let (near, far, other) = (stage.link(Kind::Pipe)?, stage.link(Kind::Pipe)?, stage.link(Kind::Pipe)?);
    let cat = |input: Stdio, output: Stdio| -> Result<Program> {
        Command::new("cat").stdin(input).stdout(output).spawn().map(Program).context("start cat")
    };
    let zero = || File::open("/dev/zero").context("open /dev/zero");
    let source = cat(zero()?.into(), far.writer.try_clone()?.into())?;
    let filter = cat(far.reader.try_clone()?.into(), near.writer.try_clone()?.into())?;
    let nobodys = cat(zero()?.into(), other.writer.try_clone()?.into())?;
    let _reader = cat(other.reader.try_clone()?.into(), Stdio::null())?;
    let mut player = Program::start_with(near.reader.try_clone()?.into(), &["aplay", "-q"], "-", None)?;
    let origin = Origin::new("audio", PLAYBACK, player.0.id());
    clock::sleep_ms(5000);
    stage.verdict("who plays", player.why()?.must_be_attended(&origin, &[]));
    let hops = [("feed", filter.0.id()), ("feed", source.0.id())];
    stage.verdict("who fills the player's pipe", why(hops[0].1)?.must_be_attended(&origin, &hops[..1]));
    stage.verdict("who fills that one's", why(hops[1].1)?.must_be_attended(&origin, &hops));
    stage.verdict("who fills a pipe for nobody", why(nobodys.0.id())?.must_be_unattended());
    Ok(())
}

/// The process that fills the player's pipe wrote before anybody was served, and nothing since.
fn former_feeder(stage: &mut Stage) -> Result<()> {
    let link = stage.link(Kind::Pipe)?;
    let mut feeder = Command::new("sh");
    feeder.args(["-c", "head -c 60000 /dev/zero; sleep 60"]).stdout(link.writer.try_clone()?);
    let feeder = feeder.spawn().map(Program).context("start sh")?;
    // Longer than attention lasts: nobody is served when it writes, nor when the player starts.
    clock::sleep_ms(5000);
    let mut player = Program::start_with(link.reader.try_clone()?.into(), &["aplay", "-q"], "-", None)?;
    let origin = Origin::new("audio", PLAYBACK, player.0.id());
    clock::sleep_ms(1500);
    stage.verdict("the player", player.why()?.must_be_attended(&origin, &[]));
    let id = feeder.0.id();
    stage.verdict("its feeder", why(id)?.must_be_attended(&origin, &[("feed", id)]));
    Ok(())
}
