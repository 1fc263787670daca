//! Who changes its CPU while a command runs: all tasks of the machine, whoever schedules.
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
};

const INSTANCE: &str = "/sys/kernel/tracing/instances/migrations";
const EVENT: &str = "events/sched/sched_migrate_task/enable";
/// For each CPU: an event takes 60 bytes, and a build has some thousand in a second.
const BUFFER_KIB: &str = "8192";
const CPUS: &str = "/sys/devices/system/cpu";

/// `migrations NAME COMMAND` on the command line: samples of how long a shell command ran, and how often a task changed its CPU, or its
/// last-level cache, meanwhile.
pub fn command(name: &str, command: &str) -> Result<()> {
    begin()?;
    let began_ns = now_ns();
    let status = Command::new("sh").args(["-c", command]).stdin(Stdio::null()).status().context("start sh")?;
    let took_ns = now_ns() - began_ns;
    let seen = end()?;
    if !status.success() {
        bail!("{command}: {status}");
    }
    let across = seen.iter().map(|&(from, to)| Ok(last_cache(from)? != last_cache(to)?));
    let across = across.filter(|crosses| !matches!(crosses, Ok(false))).collect::<Result<Vec<bool>>>()?;
    check::sample(&format!("{name}_ms"), to_ms(took_ns));
    #[allow(clippy::cast_precision_loss)]
    for (what, number) in [("migrations", seen.len()), ("migrations_across_caches", across.len())] {
        check::sample(&format!("{name}_{what}"), number as f64);
    }
    Ok(())
}

fn begin() -> Result<()> {
    fs::create_dir_all(INSTANCE).with_context(|| format!("create {INSTANCE}"))?;
    for (file, value) in [("buffer_size_kb", BUFFER_KIB), ("trace", ""), (EVENT, "1"), ("tracing_on", "1")] {
        set(file, value)?;
    }
    Ok(())
}

/// From which CPU to which, in no order.
fn end() -> Result<Vec<(u32, u32)>> {
    set("tracing_on", "0")?;
    set(EVENT, "0")?;
    let text = read(&Path::new(INSTANCE).join("trace"))?;
    let (found, written) = kept(&text).context("the trace does not say how many events it has")?;
    if found != written {
        bail!("{} of {written} migrations did not fit into the buffer", written - found);
    }
    Ok(text.lines().filter_map(migration).collect())
}

fn set(file: &str, value: &str) -> Result<()> {
    let path = Path::new(INSTANCE).join(file);
    fs::write(&path, value).with_context(|| format!("write {value} to {}", path.display()))
}

fn read(path: &Path) -> Result<String> {
    // A task's name may be any bytes.
    let bytes = fs::read(path).with_context(|| format!("read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// How many events are in a trace, and how many there were: `# entries-in-buffer/entries-written: 12/12   #P:4`.
fn kept(trace: &str) -> Option<(u64, u64)> {
    let line = trace.lines().find_map(|line| line.strip_prefix("# entries-in-buffer/entries-written:"))?;
    let (found, written) = line.split_whitespace().next()?.split_once('/')?;
    Some((found.parse().ok()?, written.parse().ok()?))
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
    fn reads_who_moved_where() {
        let line = "  make-211 [001] d..2.  12.000250: sched_migrate_task: comm=a orig_cpu=7 b pid=9 prio=120 orig_cpu=0 dest_cpu=3";
        assert_eq!(migration(line), Some((0, 3)));
        assert_eq!(migration("#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION"), None);
        let head = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 12/15   #P:4\n#\n";
        assert_eq!(kept(head), Some((12, 15)));
        assert_eq!(kept("# tracer: nop"), None);
    }
}
