//! Films and sound.

use anyhow::ensure;

use super::{
    BUILDS, Check, Extent,
    figures::{Layout, in_layout, no_frame_lost, none_failed, scopes, within},
};
use crate::machines::{Machines, Spec, value};

/// Sound that a script plays: until it is heard, against EEVDF with a cgroup for each program.
const SOUND_START_RATIO: f64 = 1.0;
/// The same behind PipeWire, and of a call.
const PIPEWIRE_START_RATIO: f64 = 1.0;
const CALL_START_RATIO: f64 = 1.0;
/// Scenarios with a film, and the frames that it has each second (6.4).
const MEDIA_FPS: [(&str, f64); 3] = [("media", 24.0), ("media-mpv", 24.0), ("media-mpv-720p", 25.0)];

/// Checks of films and sound.
pub(super) fn checks(extent: Extent) -> Vec<Check> {
    let mut checks = Vec::new();
    for kernel in extent.thorough() {
        for load in extent.of(&["hogs:16"], &["hogs:64"]) {
            checks.push(Check::at(kernel, load, "video_loses_no_frame", in_layout(scopes, video)));
        }
        if !extent.full {
            continue;
        }
        for load in ["hogs:64", "hogs:16"] {
            checks.push(Check::at(kernel, load, "video_in_one_cgroup_loses_no_frame", in_layout(Spec::flat, video)));
        }
        for load in ["hogs:64", "build:16"] {
            checks.push(Check::at(kernel, load, "sound_has_no_gap", sound));
            checks.push(Check::at(kernel, load, "sound_behind_a_server_has_no_gap", pipewire));
            checks.push(Check::at(kernel, load, "call_has_no_gap", call));
        }
        for load in BUILDS {
            checks.push(Check::at(kernel, load, "film_keeps_its_rate", |machines, kernel, load| {
                media(machines, kernel, load, "appease")
            }));
        }
        checks.push(Check::at(kernel, "build:64", "film_keeps_its_rate_by_rsio", |machines, kernel, load| {
            media(machines, kernel, load, "appease:rsio")
        }));
        checks.push(Check::at(kernel, "build:30", "film_of_cas_loses_no_frame", mplayer));
    }
    checks
}

fn video(machines: &Machines, kernel: &str, load: &'static str, layout: Layout) -> anyhow::Result<()> {
    let [run] = machines.good_runs([layout(Spec::new("video", "appease", load).on(kernel))])?;
    no_frame_lost(&run)
}

fn media(machines: &Machines, kernel: &str, load: &'static str, scheduler: &'static str) -> anyhow::Result<()> {
    let runs = machines.good_runs(MEDIA_FPS.map(|(scenario, _)| Spec::new(scenario, scheduler, load).on(kernel)))?;
    for (run, (scenario, fps)) in runs.iter().zip(MEDIA_FPS) {
        no_frame_lost(run)?;
        let worst = value(run, "video_worst_second_fps")?;
        ensure!(worst >= fps, "{scenario}: {worst} frames in the worst second; the film has {fps}");
    }
    Ok(())
}

fn mplayer(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    let [run] = machines.good_runs([Spec::new("mplayer-cif", "appease", load).on(kernel)])?;
    no_frame_lost(&run)
}

/// A script plays sound: no gap is heard in one cgroup with the load, and in one of its own; there it begins no later than under EEVDF.
fn sound(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    let spec = |scheduler| Spec::new("sound", scheduler, load).on(kernel);
    let [flat, scopes, eevdf] = machines.good_runs([spec("appease").flat(), spec("appease"), spec("eevdf")])?;
    none_failed(flat)?;
    let (ours, eevdf) = (value(&none_failed(scopes)?, "first_sound_ms")?, value(&eevdf, "first_sound_ms")?);
    within(
        &format!("time until sound is heard at {load}, against EEVDF's scopes, {kernel}"),
        ours,
        eevdf,
        SOUND_START_RATIO,
    )
}

/// Two players behind PipeWire: nobody is late, and the card always has something to play.
fn pipewire(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    let starts = ["first_sound_1024_ms", "first_sound_256_ms"];
    without_gaps(machines, ("pipewire", &starts), kernel, load, PIPEWIRE_START_RATIO)
}

/// What is captured comes back through a network, and is played.
fn call(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    without_gaps(machines, ("call", &["first_sound_ms"]), kernel, load, CALL_START_RATIO)
}

/// None of the scenario's own checks fails, and sound begins no later than under EEVDF, which may fail them, with a cgroup for each program.
fn without_gaps(
    machines: &Machines,
    (scenario, starts): (&'static str, &[&str]),
    kernel: &str,
    load: &'static str,
    ratio: f64,
) -> anyhow::Result<()> {
    let spec = |scheduler| Spec::new(scenario, scheduler, load).on(kernel);
    let [_, eevdf] = machines.runs([spec("appease"), spec("eevdf")])?;
    // Made once: this asks whether it went well.
    let [ours] = machines.good_runs([spec("appease")])?;
    let ours = none_failed(ours)?;
    for start in starts {
        let what = format!("{start} of {scenario} at {load}, against EEVDF's scopes, {kernel}");
        within(&what, value(&ours, start)?, value(&eevdf, start)?, ratio)?;
    }
    Ok(())
}
