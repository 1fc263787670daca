//! What the kernel complains about: warnings, oopses, lock-ups.

use std::{fs, process::Command};

use anyhow::{Context, Result, bail};

const TAINTED: &str = "/proc/sys/kernel/tainted";
/// Marks of a kernel in which something went wrong (Documentation/admin-guide/tainted-kernels.rst): a bad page, a death, a warning, a soft lock-up.
const WRONG: u64 = 1 << 5 | 1 << 7 | 1 << 9 | 1 << 14;
/// How lines begin, after their time, that tell of it.
const WORDS: [&str; 9] = [
    "WARNING: ",
    "BUG: ",
    "kernel BUG at",
    "Oops",
    "general protection fault",
    "refcount_t: ",
    "list_add corruption",
    "list_del corruption",
    "INFO: task ",
];

/// What there was at a moment.
#[derive(Debug)]
pub struct Splats {
    taint: u64,
    lines: usize,
}

impl Splats {
    /// Until now.
    pub fn so_far() -> Result<Self> {
        Ok(Self { taint: taint()?, lines: complaints(&log()?).len() })
    }

    /// Whether there is none since then.
    pub fn none_since(&self) -> Result<()> {
        let new = taint()? & !self.taint & WRONG;
        let text = log()?;
        let all = complaints(&text);
        // The log is a ring: of what was there, some may have gone.
        let later = all.get(self.lines.min(all.len())..).unwrap_or_default();
        if new != 0 || !later.is_empty() {
            bail!("marks {new:#x}, lines {later:?}");
        }
        Ok(())
    }
}

fn taint() -> Result<u64> {
    let text = fs::read_to_string(TAINTED).with_context(|| format!("read {TAINTED}"))?;
    text.trim().parse().with_context(|| format!("{TAINTED} says \"{}\"", text.trim()))
}

fn log() -> Result<String> {
    let out = Command::new("dmesg").output().context("start dmesg")?;
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

fn complaints(log: &str) -> Vec<&str> {
    log.lines().filter(|line| WORDS.iter().any(|word| line.contains(word))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_told_from_the_rest() {
        let log = "[    1.0] sched_ext: BPF scheduler \"appease\" enabled\n\
                   [    2.0] WARNING: CPU: 1 PID: 7 at kernel/sched/ext.c:1\n\
                   [    3.0] sched_ext: BPF scheduler \"appease\" disabled (unregistered from user space)\n\
                   [    4.0] watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [hog:7]\n";
        let found = complaints(log);
        assert_eq!(found.len(), 2);
        assert!(found[0].contains("ext.c") && found[1].contains("lockup"));
    }
}
