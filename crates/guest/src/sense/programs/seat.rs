//! Programs of who sits at the machine: a joystick's reader, a voice, a menu that starts something.

use std::{fs, process::Command};

use anyhow::{Context, Result};

use super::{START_IS_OVER_MS, Source, is_not_served, is_served, pid_in};
use crate::{
    clock,
    keyboard::{self, Hands},
    screen,
    sense::{
        cases::{Case, case},
        device::{Device, Shape},
        object::Kind,
        program::Program,
        stage::Stage,
    },
    system,
};

/// So that it is still speaking when its start is over.
const SPEECH: &str = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen";
const TIMES_SPOKEN: usize = 6;

pub fn all() -> Vec<Case> {
    vec![case("jstest", joystick), case("espeak-ng", voice), case("dmenu", menu)]
}

/// Its reader prints each event: whoever reads that serves the player, too.
fn joystick(stage: &mut Stage) -> Result<()> {
    let (mut device, other) = (Device::new(Shape::Joystick)?, Device::new(Shape::Joystick)?);
    let (node, left_alone) = (device.node("js")?, other.node("js")?);
    let game = |node: &str| -> Result<Program> {
        let log = stage.dir.join(format!("jstest-{}.log", node.trim_start_matches("/dev/input/")));
        Program::start(Command::new("jstest").args(["--event", node]), None, log)
    };
    let (played, idle) = (game(&node)?, game(&left_alone)?);
    // The state that both were told at first was a request, too.
    clock::sleep_ms(START_IS_OVER_MS);
    device.touch()?;
    let from = Source { channel: "joystick", node: "/dev/input/js", reader: "jstest" };
    stage.verdict("who reads it", is_served(played.pid(), &from, &[]));
    stage.verdict("the reader of another one", is_not_served(idle.pid()));
    Ok(())
}

/// Who speaks is heard; what was started beside it is not.
fn voice(stage: &mut Stage) -> Result<()> {
    let (speaker, beside) = (stage.dir.join("speaker"), stage.dir.join("beside"));
    let text = [SPEECH; TIMES_SPOKEN].join(" ");
    let script = format!(
        "espeak-ng '{text}' & echo $! > {}
         sh -c 'echo $$ > {}; while :; do sleep 0.2; done'",
        speaker.display(),
        beside.display()
    );
    let _shell = Program::start(Command::new("sh").args(["-c", &script]), None, stage.dir.join("voice.log"))?;
    let (speaker, beside) = (pid_in(&speaker)?, pid_in(&beside)?);
    clock::sleep_ms(2 * START_IS_OVER_MS);
    let from = Source { channel: "audio", node: "/dev/snd/pcmC0D0p", reader: "espeak-ng" };
    stage.verdict("the voice", is_served(speaker, &from, &[]));
    stage.verdict("what was started beside it", is_not_served(beside));
    Ok(())
}

/// Keyboard, X server, menu, the shell that it prints to, and what that starts.
fn menu(stage: &mut Stage) -> Result<()> {
    let chosen = stage.dir.join("chosen");
    let program = stage.dir.join("calculator");
    fs::write(&program, format!("echo $$ > {}; exec sleep 60\n", chosen.display())).context("write a program")?;
    let hands = Hands::new(screen::WIDTH, screen::HEIGHT)?;
    system::announce(&hands.sys_paths()?)?;

    let link = stage.link(Kind::Pipe)?;
    let shell = Program::start(Command::new("sh").arg("-s"), Some(&link.reader), stage.dir.join("menu-shell.log"))?;
    let items = format!("editor\nsh {} &\nviewer\n", program.display());
    let list = stage.dir.join("items");
    fs::write(&list, items).context("write the menu's items")?;
    // From suckless-tools.
    let mut dmenu = Command::new("dmenu");
    dmenu.env("DISPLAY", ":0").stdin(fs::File::open(&list).context("open the menu's items")?);
    let menu = Program::start_between(dmenu.stdout(link.writer.try_clone()?), stage.dir.join("menu.log"))?;
    clock::sleep_ms(START_IS_OVER_MS);
    for character in "calc\n".chars() {
        let (key, _) = keyboard::key_for(character).context("no such key")?;
        hands.key(key, true)?;
        hands.key(key, false)?;
        clock::sleep_ms(50);
    }
    let chosen = pid_in(&chosen)?;
    let from = Source { channel: "evdev", node: "/dev/input/event", reader: "Xorg" };
    let to_shell = [("unix", menu.pid()), ("pipe", shell.pid())];
    stage.verdict("the shell that the menu tells", is_served(shell.pid(), &from, &to_shell));
    let to_program = [to_shell[0], to_shell[1], ("fork", chosen)];
    stage.verdict("the program that was chosen", is_served(chosen, &from, &to_program));
    stage.verdict("a terminal that nobody types into", is_not_served(pid_in("/run/scroller".as_ref())?));
    Ok(())
}
