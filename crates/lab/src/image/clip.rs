//! Video clips, generated: the same picture and sound on every machine.

use std::path::PathBuf;

use anyhow::Result;
use appease_scenario::Clip;

use crate::{
    host::{Program, Tool, free_space, require},
    store::Store,
};

/// The file of a clip in its directory, and its extension on the tools disk.
pub const EXTENSION: &str = "avi";

/// Picture: a test pattern that circles over a plain ground, as MPEG-1. Sound: a tone without compression, at the
/// sound device's own rate. mplayer needs 29 % of exact mode's CPU for 1280×720 at 25 frames a second, 24 % of it for
/// decoding and 5 % for showing; MPEG-4 takes 31 %, a pattern that fills the picture 35 %.
fn arguments(clip: &Clip) -> Vec<String> {
    let Clip { width, height, fps, seconds, .. } = clip;
    let ground = format!("color=c=0x305070:size={width}x{height}:rate={fps}:duration={seconds}");
    let pattern = format!("testsrc2=size={}x{}:rate={fps}:duration={seconds}", width / 8 * 2, height / 8 * 2);
    let circle = "[0][1]overlay=x='(main_w-overlay_w)/2*(1+sin(t))':y='(main_h-overlay_h)/2*(1+cos(t))'";
    let sound = format!("sine=frequency=440:sample_rate=48000:duration={seconds}");
    let mut arguments: Vec<&str> = "-nostdin -hide_banner -loglevel error -y".split(' ').collect();
    for input in [&ground, &pattern, &sound] {
        arguments.extend(["-f", "lavfi", "-i", input]);
    }
    arguments.extend(["-filter_complex", circle]);
    arguments.extend("-c:v mpeg1video -q:v 5 -g 250 -bf 0 -pix_fmt yuv420p".split(' '));
    arguments.extend("-c:a pcm_s16le -ac 2 -threads 1 -flags +bitexact -fflags +bitexact -f avi".split(' '));
    arguments.into_iter().map(str::to_owned).collect()
}

/// Disk space that is enough for it, MiB. Its picture takes a byte for some 160 pixels, its sound 192 kB a second.
fn space_mib(clip: &Clip) -> u64 {
    const PIXELS_PER_BYTE: u64 = 64;
    const SOUND_BYTES: u64 = 192_000;
    let pixels = u64::from(clip.width) * u64::from(clip.height) * u64::from(clip.fps);
    u64::from(clip.seconds) * (pixels / PIXELS_PER_BYTE + SOUND_BYTES) / (1 << 20) + 1
}

/// The file of a clip.
///
/// # Errors
/// When it is not there and ffmpeg cannot make it.
pub fn clip(store: &Store, clip: &Clip) -> Result<PathBuf> {
    let arguments = arguments(clip);
    let name = format!("clip.{EXTENSION}");
    let dir = store.get("clip", &arguments.join(" "), |part| {
        require(&[Program::FFMPEG])?;
        free_space(part, space_mib(clip), &format!("making clip {}", clip.name))?;
        let step = store.steps().begin(&format!("clip {}", clip.name));
        Tool::new("ffmpeg", format!("make clip {}", clip.name))
            .args(&arguments)
            .args([part.join(&name)])
            .run(Some(&step))?;
        step.done();
        Ok(())
    })?;
    Ok(dir.join(name))
}
