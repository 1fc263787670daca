//! Players: their command lines, how they are paused, and what they say of their frames.

use std::{
    fs::{self, File, OpenOptions},
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use appease_scenario::{AppKind, Capture, Player as Film};
use serde_json::{Value, json};

use super::{CAMERA_NODE, Session};
use crate::{
    app::Program,
    clock::{self, Deadline},
    ending::stalled,
    meter,
    system::{RUN_DIR, TOOLS},
};

/// Frames after which a player's sound and picture go together.
const WARM_FRAMES: u64 = 40;
const PLAYER_LIMIT_S: u64 = 60;
/// How long mpv may take to answer, beneath a load, too.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// A player at work.
pub(super) struct Player {
    remote: Remote,
    /// Frames that it had dropped when it was let play on.
    dropped_before: u64,
}

/// By what it is told.
enum Remote {
    /// mplayer's command pipe; it answers in its log.
    Pipe(File),
    /// mpv's socket.
    Socket(PathBuf),
    /// Nothing: a camera goes on.
    Nothing,
}

impl Player {
    /// The player of an application, and its command line; `None` where the application is none.
    pub(super) fn of(id: &str, kind: &AppKind) -> Result<Option<(Self, Vec<String>)>> {
        let (remote, argv) = match kind {
            AppKind::Mplayer(film) => {
                let commands = PathBuf::from(format!("{RUN_DIR}/{id}.commands"));
                let argv = mplayer(id, film, &commands)?;
                (Remote::Pipe(command_pipe(&commands)?), argv)
            }
            AppKind::Mpv(film) => {
                let socket = PathBuf::from(format!("{RUN_DIR}/{id}.socket"));
                let argv = mpv(id, film, &socket)?;
                (Remote::Socket(socket), argv)
            }
            AppKind::Capture(capture) => (Remote::Nothing, camera(id, capture)?),
            _ => return Ok(None),
        };
        Ok(Some((Self { remote, dropped_before: 0 }, argv)))
    }

    fn pause(&mut self, paused: bool) -> Result<()> {
        match &mut self.remote {
            // It knows no other command than one that turns from the one to the other.
            Remote::Pipe(pipe) => pipe.write_all(b"pause\n").context("write to its command pipe"),
            Remote::Socket(socket) => ask(socket, &json!(["set_property", "pause", paused])).map(|_| ()),
            Remote::Nothing => Ok(()),
        }
    }

    /// Frames that it has decoded, shown or not.
    fn frames(&self, program: &Program) -> Option<u64> {
        match &self.remote {
            Remote::Pipe(_) | Remote::Nothing => meter::player_frames(&program.log_text()),
            Remote::Socket(socket) => property(socket, "estimated-frame-number"),
        }
    }

    /// Frames that it says it did not show.
    fn drops(&self, program: &Program) -> Option<u64> {
        match &self.remote {
            Remote::Pipe(_) => meter::player_drops(&program.log_text()),
            Remote::Socket(socket) => {
                Some(property(socket, "frame-drop-count")? + property(socket, "decoder-frame-drop-count")?)
            }
            // What it does not fetch in time, the camera drops.
            Remote::Nothing => None,
        }
    }
}

impl Session<'_> {
    /// Has players play until sound and picture go together, and hold there: their start, with all that
    /// has to be loaded for it, is not measured.
    pub(super) fn warm_up_players(&mut self) -> Result<()> {
        for id in self.players.keys().cloned().collect::<Vec<_>>() {
            self.wait_for_frames(&id, WARM_FRAMES)?;
        }
        self.pause_players(true)
    }

    /// Lets players play on, and waits until they do.
    pub(super) fn play(&mut self) -> Result<()> {
        let mut shown = Vec::new();
        for (id, player) in self.players.iter_mut().filter(|(_, player)| !matches!(player.remote, Remote::Nothing)) {
            let Some(program) = self.apps.get(id) else { continue };
            player.dropped_before = player.drops(program).unwrap_or(0);
            shown.push((id.clone(), player.frames(program).unwrap_or(0)));
        }
        self.pause_players(false)?;
        shown.iter().try_for_each(|(id, frames)| self.wait_for_frames(id, frames + 1))
    }

    /// Frames that a player says it dropped since it was let play on.
    pub(super) fn drops(&self, id: &str) -> Option<u64> {
        let (player, program) = (self.players.get(id)?, self.apps.get(id)?);
        player.drops(program).map(|drops| drops.saturating_sub(player.dropped_before))
    }

    fn pause_players(&mut self, paused: bool) -> Result<()> {
        for (id, player) in &mut self.players {
            player.pause(paused).with_context(|| format!("send {id} a command"))?;
        }
        Ok(())
    }

    fn wait_for_frames(&mut self, id: &str, number: u64) -> Result<()> {
        let deadline = Deadline::after_s(PLAYER_LIMIT_S);
        loop {
            let (Some(player), Some(program)) = (self.players.get(id), self.apps.get_mut(id)) else { return Ok(()) };
            if player.frames(program).is_some_and(|frames| frames >= number) {
                return Ok(());
            }
            program.must_run()?;
            if deadline.has_passed() {
                return Err(stalled(program.complaint(&format!("did not play within {PLAYER_LIMIT_S} s")).to_string()));
            }
            clock::sleep_ms(40);
        }
    }
}

/// What mpv answers to a command; nothing where it has no answer.
fn ask(socket: &Path, command: &Value) -> Result<Value> {
    let stream = UnixStream::connect(socket).with_context(|| format!("connect to {}", socket.display()))?;
    stream.set_read_timeout(Some(ANSWER_LIMIT)).context("set a time limit")?;
    writeln!(&stream, "{}", json!({ "command": command })).with_context(|| format!("write to {}", socket.display()))?;
    // It tells events on the same line.
    for line in BufReader::new(&stream).lines() {
        let line = line.with_context(|| format!("read from {}", socket.display()))?;
        if let Some(answer) = answer(&line) {
            return Ok(answer);
        }
    }
    bail!("mpv did not answer {command}")
}

/// The data of an answer; `None` for an event.
fn answer(line: &str) -> Option<Value> {
    let said: Value = serde_json::from_str(line).ok()?;
    said.get("error")?;
    Some(said.get("data").cloned().unwrap_or_default())
}

fn property(socket: &Path, name: &str) -> Option<u64> {
    ask(socket, &json!(["get_property", name])).ok()?.as_u64()
}

fn mplayer(id: &str, film: &Film, commands: &Path) -> Result<Vec<String>> {
    let input = format!("file={}", commands.display());
    let place = format!("{}:{}", film.x, film.y);
    let mut words = owned(&["mplayer", "-noconfig", "all", "-slave", "-input", &input, "-nolirc", "-nojoystick"]);
    words.extend(owned(&["-noconsolecontrols", "-vo", "x11", "-ao", "alsa", "-framedrop", "-osdlevel", "0"]));
    words.extend(owned(&["-geometry", &place, "-title", id]));
    if let Some((width, height)) = film.scaled {
        words.extend(owned(&["-zoom", "-x", &width.to_string(), "-y", &height.to_string()]));
    }
    words.push(clip_file(&film.clip)?);
    Ok(words)
}

/// The camera is told its size and rate first: mplayer asks for the size alone.
fn camera(id: &str, capture: &Capture) -> Result<Vec<String>> {
    let Capture { width, height, fps, x, y } = capture;
    let format = format!("--set-fmt-video=width={width},height={height},pixelformat=YU12");
    for setting in [format, format!("--set-parm={fps}")] {
        let out = Command::new("v4l2-ctl").args(["-d", CAMERA_NODE, &setting]).output().context("start v4l2-ctl")?;
        if !out.status.success() {
            bail!("v4l2-ctl {setting}: {}", String::from_utf8_lossy(&out.stderr).trim());
        }
    }
    let source =
        format!("driver=v4l2:device={CAMERA_NODE}:width={width}:height={height}:fps={fps}:outfmt=i420:noaudio");
    let place = format!("{x}:{y}");
    let mut words = owned(&["mplayer", "-noconfig", "all", "-nolirc", "-nojoystick", "-noconsolecontrols", "-nosound"]);
    words.extend(owned(&["-vo", "x11", "-osdlevel", "0", "-sws", "0", "-geometry", &place, "-title", id]));
    words.extend(owned(&["-tv", &source, "-vf", "scale,format=bgr8,scale", "tv://"]));
    Ok(words)
}

fn mpv(id: &str, film: &Film, socket: &Path) -> Result<Vec<String>> {
    let size = film.scaled.map(|(width, height)| format!("{width}x{height}")).unwrap_or_default();
    Ok(vec![
        "mpv".into(),
        "--no-config".into(),
        "--no-terminal".into(),
        // Its own set of options for output without a graphics card; with its other scaler 1280×720 takes a whole CPU.
        "--profile=sw-fast".into(),
        "--sws-allow-zimg=no".into(),
        "--vo=x11".into(),
        "--ao=alsa".into(),
        "--no-osc".into(),
        "--osd-level=0".into(),
        "--load-scripts=no".into(),
        "--no-keepaspect".into(),
        "--cursor-autohide=no".into(),
        format!("--geometry={size}+{}+{}", film.x, film.y),
        format!("--title={id}"),
        format!("--input-ipc-server={}", socket.display()),
        clip_file(&film.clip)?,
    ])
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// The file of a clip, read once: a disk that is slow in the host's time must not hold up the film in the guest's.
fn clip_file(clip: &str) -> Result<String> {
    let file = fs::read_dir(TOOLS)
        .with_context(|| format!("list {TOOLS}"))?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.file_stem().is_some_and(|stem| stem == clip))
        .with_context(|| format!("clip \"{clip}\" is not in {TOOLS}"))?;
    std::io::copy(&mut File::open(&file).with_context(|| format!("open {}", file.display()))?, &mut std::io::sink())
        .with_context(|| format!("read {}", file.display()))?;
    Ok(file.display().to_string())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mpvs_answers_are_told_from_its_events() {
        assert_eq!(answer(r#"{"data":57,"request_id":0,"error":"success"}"#), Some(json!(57)));
        assert_eq!(answer(r#"{"request_id":0,"error":"property unavailable"}"#), Some(Value::Null));
        assert_eq!(answer(r#"{"event":"playback-restart"}"#), None);
        assert_eq!(answer("no json"), None);
    }
}
