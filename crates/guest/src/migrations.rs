//! Changes of CPU while a command runs: those of all tasks of the machine, under any scheduler.
//!
//! Problem: a scheduler's own counters say nothing of another's, and those of one task (`/proc/PID/sched`) are gone with it; a compiler's
//! processes live a tenth of a second.
//!
//! Rule: the kernel's trace event `sched_migrate_task`, which `set_task_cpu()` makes for each change of a task's CPU. The kernel's own
//! scheduler and sched_ext both go through it. A new task's first CPU is none.
//!
//! Limits: some hundred instructions for each change, the same under all schedulers. What does not fit into the buffer is an error.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::{
    check,
    clock::{now_ns, to_ms},
    recorder::{Recorder, must_be_whole},
};

const EVENT: &str = "events/sched/sched_migrate_task/enable";
/// For each CPU: an event takes 60 bytes, and a build has some thousand in a second.
const BUFFER_KIB: &str = "8192";
const CPUS: &str = "/sys/devices/system/cpu";

/// `migrations NAME COMMAND` on the command line: samples of how long a shell command ran, and how often a task changed its CPU, or its
/// last-level cache, meanwhile.
pub fn command(name: &str, command: &str) -> Result<()> {
    let recorder = begin()?;
    let began_ns = now_ns();
    let status = Command::new("sh").args(["-c", command]).stdin(Stdio::null()).status().context("start sh")?;
    let took_ns = now_ns() - began_ns;
    let seen = end(&recorder)?;
    if !status.success() {
        bail!("{command}: {status}");
    }
    let mut across = 0_usize;
    for &(from, to) in &seen {
        across += usize::from(last_cache(from)? != last_cache(to)?);
    }
    check::sample(&format!("{name}_ms"), to_ms(took_ns));
    #[allow(clippy::cast_precision_loss)]
    for (what, number) in [("migrations", seen.len()), ("migrations_across_caches", across)] {
        check::sample(&format!("{name}_{what}"), number as f64);
    }
    Ok(())
}

fn begin() -> Result<Recorder> {
    let recorder = Recorder::own("migrations")?;
    for (file, value) in [("buffer_size_kb", BUFFER_KIB), ("trace", ""), (EVENT, "1"), ("tracing_on", "1")] {
        recorder.set(file, value)?;
    }
    Ok(recorder)
}

/// From which CPU to which, in no order.
fn end(recorder: &Recorder) -> Result<Vec<(u32, u32)>> {
    recorder.set("tracing_on", "0")?;
    recorder.set(EVENT, "0")?;
    let text = recorder.text()?;
    must_be_whole(&text, "migrations")?;
    Ok(text.lines().filter_map(migration).collect())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}

fn migration(line: &str) -> Option<(u32, u32)> {
    let (_, places) = line.rsplit_once(" orig_cpu=")?;
    let (from, to) = places.split_once(" dest_cpu=")?;
    Some((from.parse().ok()?, to.trim().parse().ok()?))
}

/// The CPUs that share a CPU's last-level cache, as the kernel lists them; nothing where it knows of no caches.
fn last_cache(cpu: u32) -> Result<String> {
    let Ok(entries) = fs::read_dir(format!("{CPUS}/cpu{cpu}/cache")) else { return Ok(String::new()) };
    let caches = entries.flatten().map(|entry| entry.path()).filter(|path| path.join("level").exists());
    let levels = caches.map(|path| Ok((read(&path.join("level"))?.trim().parse::<u32>()?, path)));
    let last = levels.collect::<Result<Vec<(u32, PathBuf)>>>()?.into_iter().max();
    last.map_or(Ok(String::new()), |(_, path)| read(&path.join("shared_cpu_list")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_are_read_from_a_trace() {
        let line = "  make-211 [001] d..2.  12.000250: sched_migrate_task: comm=a orig_cpu=7 b pid=9 prio=120 orig_cpu=0 dest_cpu=3";
        assert_eq!(migration(line), Some((0, 3)));
        assert_eq!(migration("#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION"), None);
    }
}
