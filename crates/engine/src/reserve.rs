//! What everybody else keeps beside a realtime program that never sleeps: the kernel's deadline server for sched_ext, which it has
//! since Linux 7.0, at work five times as often; before that, what a thread of ours holds ([`guard`]).
//!
//! By itself the server gives sched_ext a twentieth of each second, so a key waits for up to a second. Held here, it gives the same
//! twentieth of each fifth of a second, in which attended work goes first: a user still reaches a terminal. (Not oftener: a turn ends at a
//! tick of the clock, up to 4 ms late, which of each tenth of a second would be as much again.) Shares that an administrator
//! has set are kept, and a server that was switched off stays so. Where there is none, `kernel.sched_rt_runtime_us = -1` says as much.

pub(crate) mod guard;

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use tracing::{info, warn};

use crate::{Error, journal};

pub(crate) use guard::Guard;

/// Below the root: where an administrator says what part of a second is for realtime programs, µs; -1: all of it.
const REALTIME_PART: &str = "proc/sys/kernel/sched_rt_runtime_us";
/// Below the root: of each CPU, whether it is on. The first one may have no word on that.
const CPUS: &str = "sys/devices/system/cpu";
/// Below the root: a directory for each CPU. One that is off when the kernel boots gets no share, nor later when it comes.
const SERVERS: &str = "sys/kernel/debug/sched/ext_server";
/// The period in which the share is given, nanoseconds.
const PERIOD_NS: u64 = 200_000_000;

/// A CPU's server: so much in each period, nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    pub cpu: String,
    pub runtime_ns: u64,
    pub period_ns: u64,
}

impl Server {
    fn read(dir: &Path) -> Option<Self> {
        let number = |name: &str| fs::read_to_string(dir.join(name)).ok()?.trim().parse().ok();
        let cpu = dir.file_name()?.to_str()?.to_owned();
        Some(Self { cpu, runtime_ns: number("runtime")?, period_ns: number("period")? })
    }

    /// The same share in a shorter period; `None` where there is nothing to gain.
    pub(crate) fn hastened(&self) -> Option<Self> {
        if self.runtime_ns == 0 || self.period_ns <= PERIOD_NS {
            return None;
        }
        let runtime = u128::from(self.runtime_ns) * u128::from(PERIOD_NS) / u128::from(self.period_ns);
        let runtime_ns = u64::try_from(runtime).ok()?;
        Some(Self { cpu: self.cpu.clone(), runtime_ns, period_ns: PERIOD_NS })
    }

    /// Whether `found` is what we make of this one. Between the two writes a killed daemon leaves the runtime alone changed.
    fn is_ours(&self, found: &Self) -> bool {
        self.hastened().is_some_and(|ours| {
            let half_done = Self { period_ns: self.period_ns, ..ours.clone() };
            [ours, half_done].contains(found)
        })
    }

    /// The kernel takes no share beyond what CPUs have, not even between the two writes: so the lesser one comes first.
    fn write(&self, root: &Path, runtime_first: bool) -> std::io::Result<()> {
        let dir = root.join(SERVERS).join(&self.cpu);
        let runtime = || fs::write(dir.join("runtime"), self.runtime_ns.to_string());
        let period = || fs::write(dir.join("period"), self.period_ns.to_string());
        if runtime_first { runtime().and_then(|()| period()) } else { period().and_then(|()| runtime()) }
    }

    pub(crate) fn line(&self) -> String {
        format!("{} {} {}\n", self.cpu, self.runtime_ns, self.period_ns)
    }

    /// Of a line that was written to its end.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_suffix('\n')?.split(' ');
        let cpu = words.next()?.to_owned();
        let server = Self { cpu, runtime_ns: words.next()?.parse().ok()?, period_ns: words.next()?.parse().ok()? };
        // It is a part of a path.
        let is_number =
            |number: &str| number.parse::<u32>().is_ok() && number.bytes().all(|byte| byte.is_ascii_digit());
        let is_cpu = server.cpu.strip_prefix("cpu").is_some_and(is_number);
        (words.next().is_none() && is_cpu).then_some(server)
    }
}

/// The servers that were changed; given back what they had when this is dropped.
#[derive(Debug)]
pub(crate) struct Reserve {
    root: PathBuf,
    run_dir: PathBuf,
}

/// Which servers this kernel has.
fn servers(root: &Path) -> Vec<Server> {
    let dirs = fs::read_dir(root.join(SERVERS)).into_iter().flatten().flatten();
    let mut servers: Vec<_> = dirs.filter_map(|entry| Server::read(&entry.path())).collect();
    servers.sort_by(|a, b| a.cpu.cmp(&b.cpu));
    servers
}

/// Who keeps something for sched_ext beside realtime programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keeper {
    /// The kernel's servers.
    Kernel,
    /// A thread of the daemon's: the kernel has no servers.
    Daemon,
    /// Nobody: an administrator has switched it off.
    Nobody,
}

pub(crate) fn keeper(root: &Path) -> Keeper {
    match is_ours(root) {
        true if !is_waived(root) => Keeper::Daemon,
        false if servers(root).iter().any(|server| server.runtime_ns > 0) => Keeper::Kernel,
        _ => Keeper::Nobody,
    }
}

/// Whether a thread of ours has to keep it. What an administrator says of that may change at any time.
pub(crate) fn is_ours(root: &Path) -> bool {
    !root.join(SERVERS).exists()
}

/// Whether an administrator lets realtime programs have all.
fn is_waived(root: &Path) -> bool {
    fs::read_to_string(root.join(REALTIME_PART)).is_ok_and(|text| text.trim() == "-1")
}

fn record(run_dir: &Path) -> PathBuf {
    run_dir.join("reserve")
}

/// Has the kernel's servers work more often, from now on until the value is dropped.
pub(crate) fn hold(root: &Path, run_dir: &Path, is_partial: bool) -> Reserve {
    let reserve = Reserve { root: root.to_owned(), run_dir: run_dir.to_owned() };
    match keeper(root) {
        Keeper::Kernel => {}
        Keeper::Daemon if is_partial => {
            // The fair class is above ours then: who stands back in it is still before us.
            warn!(
                "nothing is kept for others beside a realtime program that never sleeps: this kernel cannot with --partial"
            );
            return reserve;
        }
        Keeper::Daemon => return reserve,
        Keeper::Nobody => {
            warn!("nothing is kept for others beside a realtime program that never sleeps: {}", switched_off(root));
            return reserve;
        }
    }
    let all = servers(root);
    let changes: Vec<_> = all.iter().filter_map(|server| Some((server, server.hastened()?))).collect();
    let was = changes.iter().fold(String::new(), |mut text, (server, _)| {
        let _ = write!(text, "{}", server.line());
        text
    });
    // Nothing is changed of which there is no record.
    if let Err(error) = fs::write(record(run_dir), was) {
        warn!("the reserve beside realtime programs stays the kernel's: no record of it can be kept: {error}");
        return reserve;
    }
    for (server, hastened) in &changes {
        if let Err(error) = hastened.write(root, true) {
            warn!("the reserve of {} stays the kernel's: {error}", server.cpu);
            let _ = server.write(root, false);
        }
    }
    info!("beside realtime programs, others keep {} of each CPU", share(root, &all));
    reserve
}

/// Why there is none, and the cure.
pub(crate) fn switched_off(root: &Path) -> &'static str {
    if is_ours(root) {
        "kernel.sched_rt_runtime_us is -1 (sysctl -w kernel.sched_rt_runtime_us=950000)"
    } else {
        "the kernel's deadline servers for sched_ext are switched off (runtime below /sys/kernel/debug/sched/ext_server)"
    }
}

/// The least that a CPU has which is on.
fn share(root: &Path, servers: &[Server]) -> String {
    let is_on = |server: &&Server| {
        fs::read_to_string(root.join(CPUS).join(&server.cpu).join("online")).map_or(true, |text| text.trim() != "0")
    };
    let parts = servers.iter().filter(is_on).map(|server| server.runtime_ns * 100 / server.period_ns.max(1));
    format!("{} %", parts.min().unwrap_or(0))
}

/// Gives back what a daemon has left changed; how many CPUs and threads.
///
/// # Errors
/// When there is a record of it that cannot be read.
pub(crate) fn take_back(root: &Path, run_dir: &Path) -> Result<(usize, usize), Error> {
    Ok((take_back_servers(root, run_dir)?, guard::take_back(run_dir)?))
}

fn take_back_servers(root: &Path, run_dir: &Path) -> Result<usize, Error> {
    let path = record(run_dir);
    let text = match journal::read(&path) {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(0),
        Err(source) => return Err(Error::File { what: "reading", path, source }),
    };
    let now = servers(root);
    let mut given = 0;
    for server in text.split_inclusive('\n').filter_map(Server::parse) {
        // What somebody else has set meanwhile stays.
        if now.iter().any(|found| server.is_ours(found)) {
            match server.write(root, false) {
                Ok(()) => given += 1,
                Err(error) => warn!("the reserve of {} could not be given back: {error}", server.cpu),
            }
        }
    }
    let _ = fs::remove_file(&path);
    Ok(given)
}

impl Drop for Reserve {
    fn drop(&mut self) {
        if let Err(error) = take_back_servers(&self.root, &self.run_dir) {
            warn!("{error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::{Keeper, REALTIME_PART, SERVERS, hold, keeper, servers, share, take_back_servers};
    use crate::names::tests::root;

    const RUNTIME: &str = "sys/kernel/debug/sched/ext_server/cpu0/runtime";
    const PERIOD: &str = "sys/kernel/debug/sched/ext_server/cpu0/period";

    fn figures(root: &Path) -> (u64, u64) {
        let server = &servers(root)[0];
        (server.runtime_ns, server.period_ns)
    }

    #[test]
    fn the_share_is_kept_and_given_back() {
        let root = root(&[(RUNTIME, "50000000\n"), (PERIOD, "1000000000\n")]);
        let run_dir = tempfile::tempdir().expect("a directory");
        let held = hold(root.path(), run_dir.path(), false);
        assert_eq!(figures(root.path()), (10_000_000, 200_000_000));
        assert_eq!(keeper(root.path()), Keeper::Kernel);
        drop(held);
        assert_eq!(figures(root.path()), (50_000_000, 1_000_000_000));
        assert_eq!(fs::read_dir(run_dir.path()).expect("a directory").count(), 0, "the record goes");
    }

    #[test]
    fn cpus_that_are_off_have_no_share() {
        const OTHER: [&str; 2] =
            ["sys/kernel/debug/sched/ext_server/cpu1/runtime", "sys/kernel/debug/sched/ext_server/cpu1/period"];
        const ONLINE: &str = "sys/devices/system/cpu/cpu1/online";
        for (online, found) in [("0\n", "5 %"), ("1\n", "0 %")] {
            let files =
                [(RUNTIME, "50000000\n"), (PERIOD, "1000000000\n"), (OTHER[0], "0\n"), (OTHER[1], "1000000000\n")];
            let root = root(&[files.as_slice(), &[(ONLINE, online)]].concat());
            assert_eq!(share(root.path(), &servers(root.path())), found);
        }
    }

    /// As after a kill; what somebody else has set since is theirs.
    #[test]
    fn what_a_killed_daemon_left_is_given_back() {
        let root = root(&[(RUNTIME, "50000000\n"), (PERIOD, "1000000000\n")]);
        let run_dir = tempfile::tempdir().expect("a directory");
        std::mem::forget(hold(root.path(), run_dir.path(), false));
        assert_eq!(take_back_servers(root.path(), run_dir.path()).ok(), Some(1));
        assert_eq!(figures(root.path()), (50_000_000, 1_000_000_000));
        std::mem::forget(hold(root.path(), run_dir.path(), false));
        fs::write(root.path().join(RUNTIME), "20000000\n").expect("written");
        assert_eq!(take_back_servers(root.path(), run_dir.path()).ok(), Some(0));
        assert_eq!(figures(root.path()), (20_000_000, 200_000_000));
        assert_eq!(take_back_servers(root.path(), run_dir.path()).ok(), Some(0), "nothing is recorded any more");
    }

    /// A kill between the two writes of a change, or of its undoing.
    #[test]
    fn half_a_change_is_given_back() {
        let root = root(&[(RUNTIME, "50000000\n"), (PERIOD, "1000000000\n")]);
        let run_dir = tempfile::tempdir().expect("a directory");
        std::mem::forget(hold(root.path(), run_dir.path(), false));
        fs::write(root.path().join(PERIOD), "1000000000\n").expect("written");
        assert_eq!(take_back_servers(root.path(), run_dir.path()).ok(), Some(1));
        assert_eq!(figures(root.path()), (50_000_000, 1_000_000_000));
    }

    #[test]
    fn what_an_administrator_has_set_stays() {
        for (runtime, period) in [("0\n", "1000000000\n"), ("1000000\n", "10000000\n")] {
            let root = root(&[(RUNTIME, runtime), (PERIOD, period)]);
            let run_dir = tempfile::tempdir().expect("a directory");
            let _held = hold(root.path(), run_dir.path(), false);
            let found = [RUNTIME, PERIOD].map(|file| fs::read_to_string(root.path().join(file)).unwrap_or_default());
            assert_eq!(found, [runtime, period]);
        }
    }

    #[test]
    fn the_daemon_keeps_it_where_the_kernel_does_not() {
        for (files, found) in [
            ([(REALTIME_PART, "950000\n")].as_slice(), Keeper::Daemon),
            (&[(REALTIME_PART, "-1\n")], Keeper::Nobody),
            (&[(REALTIME_PART, "-1\n"), (RUNTIME, "50000000\n"), (PERIOD, "1000000000\n")], Keeper::Kernel),
            (&[(RUNTIME, "0\n"), (PERIOD, "1000000000\n")], Keeper::Nobody),
        ] {
            assert_eq!(keeper(root(files).path()), found, "{files:?}");
        }
    }

    #[test]
    fn a_damaged_line_takes_no_other_with_it() {
        let root = root(&[(RUNTIME, "10000000\n"), (PERIOD, "200000000\n")]);
        let run_dir = tempfile::tempdir().expect("a directory");
        let record = b"cpu\xff 5 6\ncpu0 50000000 1000000000\n";
        fs::write(run_dir.path().join("reserve"), record).expect("written");
        assert_eq!(take_back_servers(root.path(), run_dir.path()).ok(), Some(1));
        assert_eq!(figures(root.path()), (50_000_000, 1_000_000_000));
    }

    #[test]
    fn half_a_record_says_nothing() {
        let root = root(&[(RUNTIME, "10000000\n"), (PERIOD, "200000000\n")]);
        let run_dir = tempfile::tempdir().expect("a directory");
        for text in ["cpu0 50000000 1000000000", "cpu0 50000000\n", "../x 5 6\n", "cpu0 5 6 7\n"] {
            fs::write(run_dir.path().join("reserve"), text).expect("written");
            assert_eq!(take_back_servers(root.path(), run_dir.path()).ok(), Some(0), "{text}");
            assert_eq!(figures(root.path()), (10_000_000, 200_000_000));
        }
        assert!(!root.path().join(SERVERS).join("cpu1").exists());
    }
}
