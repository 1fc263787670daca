//! What a nice value and a cgroup's `cpu.weight` come to: the shares that the kernel's documentation promises.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::{Verdicts, shares, task::Task, within};
use crate::scope;

/// How far a share may be off, as a part of it.
const TOLERANCE: f64 = 0.05;
/// Sets of nice values, of which each has its share beside the others: apart, for the least shares would be a few turns.
const NICE_SETS: [[i32; 6]; 3] = [[-5, -1, 0, 1, 5, 9], [-20, -18, -16, -14, -12, -10], [9, 11, 13, 15, 17, 19]];
/// Turns are of some milliseconds, the least share is one of 70.
const WINDOW_MS: u64 = 9000;
/// Until what wants the CPU in each cgroup has been counted.
const SETTLE_MS: u64 = 500;

/// The kernel's weight of a nice value, within a hundredth: a quarter more for each.
fn weight(nice: i32) -> f64 {
    1024.0 * 1.25_f64.powi(-nice)
}

pub fn check(verdicts: &mut Verdicts) -> Result<()> {
    for set in NICE_SETS {
        let hogs = set.map(|nice| Task::hog(&format!("nice -n {nice}")));
        let hogs = hogs.into_iter().collect::<Result<Vec<_>>>()?;
        let all: f64 = set.into_iter().map(weight).sum();
        let expected: Vec<_> = set.into_iter().map(|nice| (format!("nice_{nice}"), weight(nice) / all)).collect();
        compare(verdicts, &hogs, &expected)?;
    }
    groups(verdicts)
}

/// Holds each task's share of what all had to what is expected of it.
fn compare(verdicts: &mut Verdicts, tasks: &[Task], expected: &[(String, f64)]) -> Result<()> {
    crate::clock::sleep_ms(SETTLE_MS);
    let found = shares(tasks, WINDOW_MS)?;
    let all: f64 = found.iter().sum();
    for ((name, expected), found) in expected.iter().zip(found) {
        let name = format!("{name}_share_pct");
        let pct = 100.0 * expected;
        within(verdicts, &name, 100.0 * found / all, pct * (1.0 - TOLERANCE), pct * (1.0 + TOLERANCE));
    }
    Ok(())
}

/// A cgroup, until it is dropped; whoever is in it must be gone by then.
struct Group(PathBuf);

impl Group {
    fn new(parent: &Path, name: &str, weight: u32) -> Result<Self> {
        let group = Self(parent.join(name));
        fs::create_dir(&group.0).with_context(|| format!("create cgroup {}", group.0.display()))?;
        group.weigh(weight)?;
        Ok(group)
    }

    fn weigh(&self, weight: u32) -> Result<()> {
        fs::write(self.0.join("cpu.weight"), weight.to_string()).with_context(|| format!("weigh {}", self.0.display()))
    }

    fn hog(&self, nice: i32) -> Result<Task> {
        let hog = Task::hog(&format!("nice -n {nice}"))?;
        self.take(&hog)?;
        Ok(hog)
    }

    fn take(&self, task: &Task) -> Result<()> {
        scope::put(&self.0, &task.pid().to_string())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Several in one, some in one inside another, one outside; then a weight is changed, and a task goes elsewhere.
fn groups(verdicts: &mut Verdicts) -> Result<()> {
    let root = scope::controlled_root()?;
    let (one, few) = (Group::new(root, "one", 100)?, Group::new(root, "few", 50)?);
    let outer = Group::new(root, "outer", 200)?;
    scope::control(&outer.0)?;
    let (light, heavy) = (Group::new(&outer.0, "light", 100)?, Group::new(&outer.0, "heavy", 300)?);
    let mut tasks = vec![Task::hog("nice -n 0")?, one.hog(0)?];
    for nice in [0, 0, 5] {
        tasks.push(few.hog(nice)?);
    }
    tasks.extend([light.hog(0)?, heavy.hog(0)?, heavy.hog(0)?]);
    // Of the root: a task and a cgroup as heavy, one half, one twice as heavy.
    let in_few = 2.0 * weight(0) + weight(5);
    let expect = |one: f64, few: [f64; 3], outer: [f64; 3]| {
        let all = 1.0 + one + 0.5 + 2.0;
        let names =
            ["outside", "in_one", "in_few", "in_few_too", "in_few_nice_5", "in_light", "in_heavy", "in_heavy_too"];
        let parts =
            [1.0, one, 0.5 * few[0], 0.5 * few[1], 0.5 * few[2], 2.0 * outer[0], 2.0 * outer[1], 2.0 * outer[2]];
        names.into_iter().zip(parts).map(|(name, part)| (name.to_owned(), part / all)).collect::<Vec<_>>()
    };
    let few_parts = [0, 0, 5].map(|nice| weight(nice) / in_few);
    compare(verdicts, &tasks, &expect(1.0, few_parts, [0.25, 0.375, 0.375]))?;
    one.weigh(300)?;
    light.take(&tasks[7])?;
    let renamed = |(name, share): (String, f64)| (format!("then_{name}"), share);
    let then = expect(3.0, few_parts, [0.125, 0.75, 0.125]);
    compare(verdicts, &tasks, &then.into_iter().map(renamed).collect::<Vec<_>>())
}
