//! Video clips, generated: the same picture and sound on every machine.

use std::path::PathBuf;

use anyhow::Result;
use appease_scenario::Clip;

use crate::{
    host::{Program, Tool, require},
    store::Store,
};

/// The file of a clip in its directory, and its extension on the tools disk.
pub const EXTENSION: &str = "avi";

/// Picture: a moving test pattern as MPEG-4 Part 2, at a quality at which mplayer needs about a quarter of the exact
/// mode's CPU for 1280×720 at 25 frames a second. Sound: a tone without compression, at the sound device's own rate.
fn arguments(clip: &Clip) -> Vec<String> {
    let Clip { width, height, fps, seconds, .. } = clip;
    let picture = format!("testsrc2=size={width}x{height}:rate={fps}:duration={seconds}");
    let sound = format!("sine=frequency=440:sample_rate=48000:duration={seconds}");
    [
        "-nostdin",
        "-hide_banner",
        "-loglevel",
        "error",
        "-y",
        "-f",
        "lavfi",
        "-i",
        &picture,
        "-f",
        "lavfi",
        "-i",
        &sound,
        "-c:v",
        "mpeg4",
        "-q:v",
        "5",
        "-g",
        "250",
        "-bf",
        "0",
        "-pix_fmt",
        "yuv420p",
        "-c:a",
        "pcm_s16le",
        "-ac",
        "2",
        "-threads",
        "1",
        "-flags",
        "+bitexact",
        "-fflags",
        "+bitexact",
        "-f",
        "avi",
    ]
    .map(str::to_owned)
    .to_vec()
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
