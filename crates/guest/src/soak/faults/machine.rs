//! Another scheduler, another version, cgroups that come and go.

use std::{fs, path::Path, thread};

use anyhow::{Context, Result, bail, ensure};

use super::{
    super::daemon::{Daemon, words},
    Backend, Ground, Group, Outcome, Started,
};
use crate::{classes::task::Task, clock, scheduler, scope, system::TOOLS};

/// Where another daemon has its lock and its socket.
const ELSEWHERE: &str = "/run/elsewhere";
/// Where a program lies that is replaced while it runs.
const INSTALLED: &str = "/run/installed";
/// How many cgroups go while they have work.
const GROUPS: u32 = 100;

/// Somebody else's scheduler is attached: ours refuses, and leaves that one alone. The other one is ours as well, in another directory, which
/// the kernel takes for any other.
pub(super) fn rival(ground: &Ground) -> Result<Outcome> {
    if ground.backend == Backend::Nice {
        return Ok(Outcome::Absent("nice values have no rival in the kernel"));
    }
    let mut elsewhere = words(ground.backend);
    elsewhere.extend(["--run-dir", ELSEWHERE].map(str::to_owned));
    let mut rival = Daemon::start_as("rival", ground.backend, &[], &elsewhere)?;
    rival.wait_until_ready()?;
    let sequence = scheduler::sequence();
    let Started::Refused(line) = refuses(ground)? else { bail!("it starts beside another scheduler") };
    let (state, now) = (scheduler::state(), scheduler::sequence());
    ensure!(state == "enabled" && now == sequence, "the other scheduler is {state}");
    rival.must_run()?;
    rival.end()?;
    fs::remove_dir_all(ELSEWHERE).with_context(|| format!("remove {ELSEWHERE}"))?;
    Ok(Outcome::Refused(line))
}

/// The other scheduler keeps the kernel's: this one has none to wait for.
fn refuses(ground: &Ground) -> Result<Started> {
    let mut daemon = Daemon::start_as("second", Backend::Nice, &[], &words(ground.backend))?;
    if daemon.ready_or_ended()?.is_none() {
        return Ok(Started::Ready(daemon));
    }
    daemon.must_refuse().map(Started::Refused)
}

/// Its program is replaced while it runs, as a package's upgrade does: it goes on and answers the new one, and the new one takes over.
pub(super) fn upgrade(ground: &Ground) -> Result<Outcome> {
    let program = format!("{INSTALLED}/appease");
    let install = || {
        let new = format!("{INSTALLED}/appease.new");
        fs::copy(format!("{TOOLS}/appease"), &new).and_then(|_| fs::rename(&new, &program)).context("install")
    };
    fs::create_dir_all(INSTALLED).with_context(|| format!("create {INSTALLED}"))?;
    install()?;
    let mut installed = words(ground.backend);
    if let Some(first) = installed.first_mut() {
        first.clone_from(&program);
    }
    let mut old = Daemon::start_as("old", ground.backend, &[], &installed)?;
    old.wait_until_ready()?;
    install()?;
    ground.is_at_work(&mut old).context("after its program was replaced")?;
    old.end()?;
    let mut new = Daemon::start_as("new", ground.backend, &[], &installed)?;
    new.wait_until_ready()?;
    ground.is_at_work(&mut new).context("the new program")?;
    new.end()?;
    fs::remove_dir_all(INSTALLED).with_context(|| format!("remove {INSTALLED}"))?;
    Ok(Outcome::Met)
}

/// Cgroups are made, filled and removed under load, nested ones too, by three at once.
pub(super) fn groups_that_go(ground: &Ground) -> Result<Outcome> {
    let mut daemon = ground.ready()?;
    let sequence = scheduler::sequence();
    let done: Vec<Result<()>> = thread::scope(|scope| {
        let started: Vec<_> = (0..3).map(|who| scope.spawn(move || come_and_go(who))).collect();
        started.into_iter().map(|thread| thread.join().unwrap_or_else(|_| bail!("it panicked"))).collect()
    });
    done.into_iter().collect::<Result<()>>()?;
    ground.is_at_work(&mut daemon)?;
    ensure!(scheduler::sequence() == sequence, "the scheduler was attached anew");
    daemon.end()?;
    Ok(Outcome::Met)
}

fn come_and_go(who: u32) -> Result<()> {
    for number in 0..GROUPS / 3 {
        let outer = Group::new(&format!("goes{who}"))?;
        outer.set("cgroup.subtree_control", "+cpu")?;
        let inner = Group::new(&format!("goes{who}/inner{number}"))?;
        inner.set("cpu.weight", &(1 + u64::from(number) * 7919 % 10_000).to_string())?;
        let hog = Task::hog("nice -n 0")?;
        scope::put(Path::new(&inner.0), &hog.pid().to_string())?;
        clock::sleep_ms(5);
        if number % 2 == 0 {
            // It leaves, rather than that it dies there.
            scope::put(Path::new(scope::ROOT), &hog.pid().to_string())?;
        }
        drop(hog);
        drop(inner);
        drop(outer);
    }
    Ok(())
}
