//! Processes that came from one, and the CPU time that they have had.

use std::{collections::BTreeMap, fs};

/// Ticks of `/proc/PID/stat` in a second: part of the kernel's interface on this machine.
const TICKS: u64 = 100;

/// What `/proc/PID/stat` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    parent: u32,
    /// Its own ticks, and those of children that it has waited for.
    ticks: u64,
}

/// The machine's processes at a moment.
#[derive(Debug, Default)]
pub struct Processes(BTreeMap<u32, (String, Stat)>);

impl Processes {
    /// As they are now.
    pub fn now() -> Self {
        let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let read = |pid| parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?);
        Self(pids.filter_map(|pid| Some((pid, read(pid)?))).collect())
    }

    /// A process, and all that came from it and still lives.
    pub fn tree(&self, root: u32) -> Vec<u32> {
        let mut tree = vec![root];
        let mut at = 0;
        while let Some(&parent) = tree.get(at) {
            tree.extend(self.0.iter().filter(|(_, (_, stat))| stat.parent == parent).map(|(pid, _)| *pid));
            at += 1;
        }
        tree.retain(|pid| self.0.contains_key(pid));
        tree
    }

    /// CPU time of all of them, with that of children that they have waited for, milliseconds.
    pub fn tree_ms(&self, root: u32) -> u64 {
        self.ms(self.tree(root).into_iter())
    }

    /// CPU time of processes whose name begins so, milliseconds.
    pub fn named_ms(&self, prefix: &str) -> u64 {
        self.ms(self.0.iter().filter(|(_, (name, _))| name.starts_with(prefix)).map(|(pid, _)| *pid))
    }

    fn ms(&self, pids: impl Iterator<Item = u32>) -> u64 {
        pids.filter_map(|pid| self.0.get(&pid)).map(|(_, stat)| stat.ticks * 1000 / TICKS).sum()
    }
}

/// Name and figures of a line of `/proc/PID/stat` (proc_pid_stat(5)). The name may hold anything, spaces and parentheses, too.
fn parse(line: &str) -> Option<(String, Stat)> {
    const PARENT: usize = 1;
    const TIMES: std::ops::Range<usize> = 11..15;
    let (before, after) = line.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let words: Vec<&str> = after.split_whitespace().collect();
    let times = words.get(TIMES)?.iter().map(|word| word.parse::<u64>());
    let ticks = times.sum::<Result<u64, _>>().ok()?;
    Some((name.to_owned(), Stat { parent: words.get(PARENT)?.parse().ok()?, ticks }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(pid: u32, name: &str, parent: u32, ticks: u64) -> String {
        format!("{pid} ({name}) S {parent} 7 7 0 -1 4194560 1 2 3 4 {ticks} 20 300 4000 20 0 1 0 99 1 2")
    }

    fn processes(lines: &[(u32, &str, u32, u64)]) -> Processes {
        let parsed = lines
            .iter()
            .filter_map(|(pid, name, parent, ticks)| Some((*pid, parse(&line(*pid, name, *parent, *ticks))?)));
        Processes(parsed.collect())
    }

    #[test]
    fn a_name_may_look_like_the_rest_of_the_line() {
        let (name, stat) = parse(&line(7, "a) R 1 (b", 3, 1)).expect("a line");
        assert_eq!((name.as_str(), stat), ("a) R 1 (b", Stat { parent: 3, ticks: 4321 }));
        assert_eq!(parse("7 (cut) S 1"), None);
    }

    #[test]
    fn what_came_from_a_process_counts_as_its_own() {
        let all = processes(&[(1, "init", 0, 0), (5, "xterm", 1, 1), (6, "vim", 5, 2), (9, "vivid-000", 2, 3)]);
        assert_eq!(all.tree(5), [5, 6]);
        assert_eq!(all.tree_ms(5), 2 * 43_200 + 30);
        assert_eq!(all.named_ms("vivid"), 43_230);
        assert_eq!(all.tree_ms(77), 0, "gone");
    }
}
