//! Which CPUs what somebody waits for runs on, where some are slow. Those of the emulated machine are alike, so the
//! scheduler is told which ones are fast.

use anyhow::{Result, ensure};
use rustix::process::Signal;

use super::{
    Verdicts,
    power::{ALL, EPOCHS_MS, LAST, SOON_MS, napper_on, started},
    task::{Task, put_on},
};
use crate::{check::figure, clock, sense::device::Device};

const FAST: &str = "0-1";
const FAST_CPUS: [u32; 2] = [0, 1];
const CPUS: u32 = 4;
/// Keys, each after one that is read on a slow CPU.
const KEYS: u32 = 20;
/// Two that have the fast CPUs for most of the time, and two that are light.
const BUSY_MS: (u64, u64) = (15, 5);
const LIGHT_MS: (u64, u64) = (2, 18);
const LOOKS: u32 = 100;
const LOOK_EACH_MS: u64 = 10;
/// Least part of the looks, and of the keys.
const MOSTLY: f64 = 0.9;

pub fn check(verdicts: &mut Verdicts, device: &mut Device, node: &str) -> Result<()> {
    let ours = started(&["--fast-cpus", FAST], device)?;
    put_on(std::process::id(), LAST)?;
    {
        let reader = Task::bearer("taskset -c 0-3", node)?;
        verdicts.tell("a key wakes a fast CPU", keys(&reader, device, "keys_on_fast_cpus"));
        let _hogs = (0..CPUS).map(|cpu| Task::hog(&format!("taskset -c {cpu}"))).collect::<Result<Vec<_>>>()?;
        verdicts.tell("a key takes a fast CPU from a hog", keys(&reader, device, "keys_on_fast_cpus_of_hogs"));
    }
    let reader = Task::bearer("taskset -c 0-3", node)?;
    verdicts.tell("others leave fast CPUs to keys", others(&reader, device));
    put_on(std::process::id(), ALL)?;
    ours.end_by(Signal::TERM)?;
    Ok(())
}

/// A key's reader is on a fast CPU, wherever it was.
fn keys(reader: &Task, device: &mut Device, name: &str) -> Result<()> {
    let mut on_fast = 0;
    for _ in 0..KEYS {
        put_on(reader.pid(), "2-3")?;
        device.touch()?;
        clock::sleep_ms(SOON_MS);
        put_on(reader.pid(), ALL)?;
        device.touch()?;
        clock::sleep_ms(SOON_MS);
        on_fast += u32::from(FAST_CPUS.contains(&reader.standing()?.cpu));
    }
    mostly(name, on_fast, KEYS)
}

/// Light tasks are on slow CPUs while keys come that find no fast one idle.
fn others(reader: &Task, device: &mut Device) -> Result<()> {
    let on_fast = |times| FAST_CPUS.into_iter().map(|cpu| napper_on(cpu, times)).collect::<Result<Vec<_>>>();
    let _busy = on_fast(BUSY_MS)?;
    let light = on_fast(LIGHT_MS)?;
    light.iter().try_for_each(|task| put_on(task.pid(), ALL))?;
    let mut on_slow = 0;
    let keys_until_ms = EPOCHS_MS / LOOK_EACH_MS;
    for look in 0..keys_until_ms + u64::from(LOOKS) {
        device.touch()?;
        clock::sleep_ms(LOOK_EACH_MS);
        let cpus = light.iter().map(|task| Ok(task.standing()?.cpu)).collect::<Result<Vec<u32>>>()?;
        if look >= keys_until_ms {
            on_slow += u32::from(cpus.iter().all(|cpu| !FAST_CPUS.contains(cpu)));
        }
    }
    ensure!(reader.ran_ns()? > 0, "nobody read the keys");
    mostly("others_on_slow_cpus", on_slow, LOOKS)
}

fn mostly(name: &str, found: u32, of: u32) -> Result<()> {
    let part = f64::from(found) / f64::from(of);
    figure(name, part);
    ensure!(part >= MOSTLY, "{found} of {of}");
    Ok(())
}
