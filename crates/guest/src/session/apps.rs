//! The scenario's applications: their command lines, their windows, and players at rest and at play.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use appease_scenario::AppKind;

use super::{Session, Task};
use crate::{
    app::Launch,
    clock::{self, Deadline},
    ending::stalled,
    meter::{self, Window},
    screen::Screen,
    system::{RUN_DIR, TOOLS},
};

/// Frames after which a player's sound and picture go together.
const WARM_FRAMES: u64 = 40;
const PLAYER_LIMIT_S: u64 = 60;

impl Session<'_> {
    pub(super) fn start_apps(&mut self, tasks: &[Task]) -> Result<()> {
        let scenario = self.job.scenario.clone();
        let mut shown = Vec::new();
        for app in &scenario.apps {
            let id = app.id.as_str();
            let argv: Vec<String> = match &app.kind {
                AppKind::Xterm { run, x, y, columns, rows } => {
                    shown.push(id);
                    xterm(id, run, &format!("{columns}x{rows}+{x}+{y}"))
                }
                AppKind::Mplayer { clip, x, y } => {
                    shown.push(id);
                    let commands = PathBuf::from(format!("{RUN_DIR}/{id}.commands"));
                    let argv = mplayer(id, clip, &commands, *x, *y)?;
                    self.player_commands.insert(id.to_owned(), command_pipe(&commands)?);
                    argv
                }
                // They log in when the scheduler is there.
                AppKind::Ssh(_) => continue,
                AppKind::Shell { .. } if tasks.iter().any(|task| task.id == id) => continue,
                AppKind::Shell { run } => vec!["sh".into(), "-c".into(), run.clone()],
            };
            self.apps.insert(id.to_owned(), Launch::new(id, self.scopes, &argv).start()?);
        }
        if shown.is_empty() {
            return Ok(());
        }
        let screen = Screen::connect()?;
        for id in shown {
            let Some(app) = self.apps.get_mut(id) else { continue };
            self.windows.insert(id.to_owned(), Window::new(screen.window(id, app)?));
        }
        self.host.phase("apps-ready");
        Ok(())
    }

    /// Has players play until sound and picture go together, and hold there: their start, with all that
    /// has to be loaded for it, is not measured.
    pub(super) fn warm_up_players(&mut self) -> Result<()> {
        for id in self.player_commands.keys().cloned().collect::<Vec<_>>() {
            self.wait_for_frames(&id, WARM_FRAMES)?;
        }
        self.pause_or_play()
    }

    /// Lets players play on, and waits until they do.
    pub(super) fn play(&mut self) -> Result<()> {
        let shown: Vec<(String, u64)> =
            self.player_commands.keys().map(|id| (id.clone(), self.frames(id).unwrap_or(0))).collect();
        for (id, _) in &shown {
            self.dropped_before.insert(id.clone(), self.drops(id).unwrap_or(0));
        }
        self.pause_or_play()?;
        shown.iter().try_for_each(|(id, frames)| self.wait_for_frames(id, frames + 1))
    }

    fn pause_or_play(&mut self) -> Result<()> {
        for (id, commands) in &mut self.player_commands {
            commands.write_all(b"pause\n").with_context(|| format!("send {id} a command"))?;
        }
        Ok(())
    }

    fn frames(&self, id: &str) -> Option<u64> {
        self.apps.get(id).and_then(|player| meter::player_frames(&player.log_text()))
    }

    pub(super) fn drops(&self, id: &str) -> Option<u64> {
        self.apps.get(id).and_then(|player| meter::player_drops(&player.log_text()))
    }

    fn wait_for_frames(&mut self, id: &str, number: u64) -> Result<()> {
        let deadline = Deadline::after_s(PLAYER_LIMIT_S);
        while self.frames(id).is_none_or(|frames| frames < number) {
            let Some(player) = self.apps.get_mut(id) else { return Ok(()) };
            player.must_run()?;
            if deadline.has_passed() {
                return Err(stalled(player.complaint(&format!("did not play within {PLAYER_LIMIT_S} s")).to_string()));
            }
            clock::sleep_ms(40);
        }
        Ok(())
    }
}

fn xterm(id: &str, run: &str, geometry: &str) -> Vec<String> {
    // The cursor looks the same with and without focus, so that a moving pointer redraws nothing.
    let words = [
        "xterm",
        "-title",
        id,
        "-geometry",
        geometry,
        "-ah",
        "-fn",
        "fixed",
        "-b",
        "2",
        "-xrm",
        "*pointerMode: 0",
        "-xrm",
        "*cursorBlink: false",
        "-xrm",
        "*allowTitleOps: false",
        "-e",
        "sh",
        "-c",
        run,
    ];
    words.iter().map(|&word| word.to_owned()).collect()
}

fn mplayer(id: &str, clip: &str, commands: &Path, x: u32, y: u32) -> Result<Vec<String>> {
    let file = fs::read_dir(TOOLS)
        .with_context(|| format!("list {TOOLS}"))?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.file_stem().is_some_and(|stem| stem == clip))
        .with_context(|| format!("clip \"{clip}\" is not in {TOOLS}"))?;
    // A disk that is slow in the host's time must not hold up the film in the guest's.
    std::io::copy(&mut File::open(&file).with_context(|| format!("open {}", file.display()))?, &mut std::io::sink())
        .with_context(|| format!("read {}", file.display()))?;
    let input = format!("file={}", commands.display());
    let place = format!("{x}:{y}");
    let file = file.display().to_string();
    let words = [
        "mplayer",
        "-noconfig",
        "all",
        "-slave",
        "-input",
        &input,
        "-nolirc",
        "-nojoystick",
        "-noconsolecontrols",
        "-vo",
        "x11",
        "-ao",
        "alsa",
        "-framedrop",
        "-osdlevel",
        "0",
        "-geometry",
        &place,
        "-title",
        id,
        &file,
    ];
    Ok(words.iter().map(|&word| word.to_owned()).collect())
}

/// A player's command pipe. It stays open at both ends, so that nothing blocks.
fn command_pipe(path: &Path) -> Result<File> {
    if path.exists() {
        fs::remove_file(path).with_context(|| format!("remove {}", path.display()))?;
    }
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0)
        .with_context(|| format!("make {}", path.display()))?;
    OpenOptions::new().read(true).write(true).open(path).with_context(|| format!("open {}", path.display()))
}
