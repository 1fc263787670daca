//! Players behind sound servers, which alone touch the card.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::Command,
};

use anyhow::{Context, Result};

use super::{START_IS_OVER_MS, Source, is_not_served, is_served};
use crate::{
    clock,
    sense::{
        cases::{Case, case},
        program::Program,
        stage::Stage,
    },
    system,
};

const PLAYBACK: &str = "/dev/snd/pcmC0D0p";
/// Longer than a check.
const SILENCE_S: u32 = 60;
const SAMPLES_PER_S: u32 = 8000;
/// The emulated card as PipeWire's only device: it would ask udev for devices, which knows of none here.
const PIPEWIRE_CARD: &str = r#"
context.objects = [ {
    factory = adapter
    args = { factory.name = api.alsa.pcm.sink, node.name = card, media.class = Audio/Sink, api.alsa.path = "hw:0,0" }
} ]
"#;

pub fn all() -> Vec<Case> {
    vec![case("PipeWire", pipewire), case("PulseAudio by PipeWire", pipewire_pulse), case("PulseAudio", pulseaudio)]
}

const fn by(server: &'static str) -> Source {
    Source { channel: "audio", node: PLAYBACK, reader: server }
}

/// Where sound servers and their clients meet.
struct Room {
    dir: PathBuf,
}

impl Room {
    fn new(stage: &Stage, name: &str) -> Result<Self> {
        system::wait_for_path(PLAYBACK, 20)?;
        let dir = stage.dir.join(name);
        let cards = dir.join("config/pipewire/pipewire.conf.d");
        fs::create_dir_all(&cards).with_context(|| format!("create {}", cards.display()))?;
        fs::set_permissions(&dir, Permissions::from_mode(0o700)).context("keep the directory to ourselves")?;
        fs::write(cards.join("card.conf"), PIPEWIRE_CARD).context("write PipeWire's configuration")?;
        fs::write(dir.join("silence.wav"), silence()).context("write a file to play")?;
        Ok(Self { dir })
    }

    fn start(&self, name: &str, words: &[&str]) -> Result<Program> {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("XDG_RUNTIME_DIR", &self.dir).env("XDG_CONFIG_HOME", self.dir.join("config"));
        Program::start(&mut command, None, self.dir.join(format!("{name}.log")))
    }

    /// Has a player play.
    fn plays(&self, player: &str) -> Result<Program> {
        self.start("player", &[player, &self.dir.join("silence.wav").display().to_string()])
    }

    /// Waits for a socket of this name.
    fn opens(&self, socket: &str) -> Result<()> {
        system::wait_for_path(&self.dir.join(socket).display().to_string(), 60)
    }

    /// PipeWire, and who connects players with its card.
    fn pipewire(&self) -> Result<[Program; 2]> {
        let server = self.start("pipewire", &["pipewire"])?;
        self.opens("pipewire-0")?;
        let manager = self.start("wireplumber", &["wireplumber", "--profile", "policy"])?;
        Ok([server, manager])
    }
}

/// A WAV file: one channel of bytes, which is silent at 128.
fn silence() -> Vec<u8> {
    let bytes = SILENCE_S * SAMPLES_PER_S;
    let mut file = b"RIFF".to_vec();
    file.extend((36 + bytes).to_le_bytes());
    file.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    file.extend(SAMPLES_PER_S.to_le_bytes());
    file.extend(SAMPLES_PER_S.to_le_bytes());
    file.extend(b"\x01\0\x08\0data");
    file.extend(bytes.to_le_bytes());
    file.resize(file.len() + usize::try_from(bytes).unwrap_or_default(), 128);
    file
}

fn pipewire(stage: &mut Stage) -> Result<()> {
    let room = Room::new(stage, "pipewire")?;
    let [server, _manager] = room.pipewire()?;
    let idler = room.start("idler", &["pw-mon"])?;
    let player = room.plays("pw-play")?;
    clock::sleep_ms(2 * START_IS_OVER_MS);
    stage.verdict("the server", is_served(server.pid(), &by("pipewire"), &[]));
    stage.verdict("the player", is_served(player.pid(), &by("pipewire"), &[("eventfd", player.pid())]));
    stage.verdict("a client that plays nothing", is_not_served(idler.pid()));
    Ok(())
}

/// A program that knows PulseAudio alone, one server further away.
fn pipewire_pulse(stage: &mut Stage) -> Result<()> {
    let room = Room::new(stage, "pipewire-pulse")?;
    let [server, _manager] = room.pipewire()?;
    let front = room.start("pipewire-pulse", &["pipewire-pulse"])?;
    room.opens("pulse/native")?;
    let idler = room.start("idler", &["pactl", "subscribe"])?;
    let player = room.plays("paplay")?;
    clock::sleep_ms(2 * START_IS_OVER_MS);
    let (front, player) = (front.pid(), player.pid());
    stage.verdict("the server", is_served(server.pid(), &by("pipewire"), &[]));
    stage.verdict("the server in front of it", is_served(front, &by("pipewire"), &[("eventfd", front)]));
    stage.verdict("the player", is_served(player, &by("pipewire"), &[("eventfd", front), ("unix", player)]));
    stage.verdict("a client that plays nothing", is_not_served(idler.pid()));
    Ok(())
}

fn pulseaudio(stage: &mut Stage) -> Result<()> {
    let room = Room::new(stage, "pulseaudio")?;
    let words = ["pulseaudio", "-n", "--daemonize=no", "--exit-idle-time=-1", "-L", "module-alsa-sink device=hw:0,0"];
    let server = room.start("pulseaudio", &[&words[..], &["-L", "module-native-protocol-unix"]].concat())?;
    room.opens("pulse/native")?;
    let idler = room.start("idler", &["pactl", "subscribe"])?;
    let player = room.plays("paplay")?;
    clock::sleep_ms(2 * START_IS_OVER_MS);
    stage.verdict("the server", is_served(server.pid(), &by("pulseaudio"), &[]));
    stage.verdict("the player", is_served(player.pid(), &by("pulseaudio"), &[("eventfd", player.pid())]));
    stage.verdict("a client that plays nothing", is_not_served(idler.pid()));
    Ok(())
}
