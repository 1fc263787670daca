//! What processes and devices are called, from `/proc` and `/sys`.

use std::{
    fs, io,
    path::{Path, PathBuf},
    str::FromStr,
};

/// Owner and group leader of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Thread group leader: the process of which the id may name a thread.
    pub tgid: u32,
    /// The user, when real, effective and saved one are the same; a set-user-id program belongs to nobody.
    pub uid: Option<u32>,
}

/// How the kernel itself would schedule a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Class {
    /// Whether it is a kernel thread.
    pub kernel_thread: bool,
    /// `SCHED_OTHER` and so on, by number.
    pub policy: u32,
}

/// Flag of kernel threads in `/proc/PID/stat`.
const PF_KTHREAD: u32 = 0x0020_0000;
/// Unit of times there, the same on every machine.
pub(crate) const TICK_NS: u64 = 10_000_000;

/// A device node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Device {
    /// Path below `/dev`, or `char MAJOR:MINOR` when the device is gone.
    pub node: String,
    /// What its maker calls it; empty when it has no such name.
    pub name: String,
}

/// Looks names up below a root directory.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    root: PathBuf,
}

impl Names {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.into() }
    }

    /// The process that `pid`, a process or a thread, belongs to.
    pub(crate) fn identity(&self, pid: u32) -> Option<Identity> {
        identity(&read_text(&self.root.join(format!("proc/{pid}/status"))).ok()?)
    }

    /// The command name; empty when the process is gone.
    pub(crate) fn comm(&self, pid: u32) -> String {
        let comm = read_text(&self.root.join(format!("proc/{pid}/comm"))).unwrap_or_default();
        comm.trim_end_matches('\n').to_owned()
    }

    /// The command name of the process that began at `start_ns`, nanoseconds since the machine's start; empty when it is
    /// gone, nothing when its number is another's.
    pub(crate) fn comm_of(&self, pid: u32, start_ns: u64) -> Option<String> {
        match self.began(pid) {
            Some(ticks) if ticks != start_ns / TICK_NS => None,
            _ => Some(self.comm(pid)),
        }
    }

    /// When a thread began, in ticks since the machine's start; `None` when it is gone.
    pub(crate) fn began(&self, tid: u32) -> Option<u64> {
        self.stat(tid).and_then(|stat| stat_field(&stat, 22))
    }

    /// Children of a thread, and the other threads of its process.
    pub(crate) fn born(&self, tid: u32) -> Vec<u32> {
        let task = self.root.join(format!("proc/{tid}/task"));
        let children = fs::read_to_string(task.join(format!("{tid}/children"))).unwrap_or_default();
        let threads = fs::read_dir(task).into_iter().flatten().flatten();
        let threads =
            threads.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|thread| *thread != tid);
        children.split_whitespace().filter_map(|child| child.parse().ok()).chain(threads).collect()
    }

    /// Scheduling class of a process.
    pub(crate) fn class(&self, pid: u32) -> Option<Class> {
        class(&self.stat(pid)?)
    }

    fn stat(&self, pid: u32) -> Option<String> {
        read_text(&self.root.join(format!("proc/{pid}/stat"))).ok()
    }

    /// The active user of the machine's seat, as logind tells; `None`: nobody, or there is no logind.
    pub(crate) fn seat_user(&self) -> Option<u32> {
        let seat = fs::read_to_string(self.root.join("run/systemd/seats/seat0")).ok()?;
        seat.lines().find_map(|line| line.strip_prefix("ACTIVE_UID=")?.trim().parse().ok())
    }

    /// Ids of all processes.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let entries = fs::read_dir(self.root.join("proc")).into_iter().flatten().flatten();
        let mut pids: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        pids.sort_unstable();
        pids
    }

    /// Node and name of a character device.
    pub(crate) fn device(&self, major: u32, minor: u32) -> Device {
        let dir = self.root.join(format!("sys/dev/char/{major}:{minor}"));
        let uevent = read_text(&dir.join("uevent")).unwrap_or_default();
        let node = uevent
            .lines()
            .find_map(|line| line.strip_prefix("DEVNAME="))
            .map_or_else(|| format!("char {major}:{minor}"), |name| format!("/dev/{name}"));
        // Input devices have a name; sound cards have an id.
        let name =
            ["device/name", "device/id"].iter().find_map(|file| read_text(&dir.join(file)).ok()).unwrap_or_default();
        Device { node, name: name.trim().to_owned() }
    }

    /// Ids and command names of running processes whose command name is one of `wanted`.
    pub(crate) fn running(&self, wanted: &[&str]) -> Vec<(u32, String)> {
        let named = self.pids().into_iter().map(|pid| (pid, self.comm(pid)));
        named.filter(|(_, comm)| wanted.contains(&comm.as_str())).collect()
    }
}

/// A file's text. Threads, mounts and devices are called by whatever bytes somebody chose: those that are no UTF-8 are replaced, and all
/// else that the file says holds.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    fs::read(path).map(text)
}

/// The same of its bytes.
pub(crate) fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|wrong| String::from_utf8_lossy(wrong.as_bytes()).into_owned())
}

/// Of `/proc/PID/status`.
pub(crate) fn identity(status: &str) -> Option<Identity> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let tgid = field("Tgid:")?.trim().parse().ok()?;
    let mut uids = field("Uid:")?.split_whitespace().take(3);
    let first: u32 = uids.next()?.parse().ok()?;
    let uid = uids.all(|uid| uid.parse() == Ok(first)).then_some(first);
    Some(Identity { tgid, uid })
}

/// Of `/proc/PID/stat`.
pub(crate) fn class(stat: &str) -> Option<Class> {
    Some(Class { kernel_thread: stat_field::<u32>(stat, 9)? & PF_KTHREAD != 0, policy: stat_field(stat, 41)? })
}

/// A numbered field of `/proc/PID/stat`, from the third on.
pub(crate) fn stat_field<T: FromStr>(stat: &str, number: usize) -> Option<T> {
    // The command name, in parentheses, may hold anything; what follows the last of them is fields 3 and on.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(number - 3)?.parse().ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A root directory with these files.
    pub(crate) fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("create directory");
            fs::write(path, content).expect("write");
        }
        root
    }

    #[test]
    fn devices_by_node_and_name() {
        let root = root(&[
            ("sys/dev/char/13:69/uevent", "MAJOR=13\nMINOR=69\nDEVNAME=input/event5\n"),
            ("sys/dev/char/13:69/device/name", "AT Translated Set 2 keyboard\n"),
            ("sys/dev/char/4:1/uevent", "MAJOR=4\nMINOR=1\nDEVNAME=tty1\n"),
        ]);
        let names = Names::new(root.path());
        let keyboard = names.device(13, 69);
        assert_eq!(
            (keyboard.node.as_str(), keyboard.name.as_str()),
            ("/dev/input/event5", "AT Translated Set 2 keyboard")
        );
        assert_eq!(names.device(4, 1), Device { node: "/dev/tty1".into(), name: String::new() });
        assert_eq!(names.device(9, 9).node, "char 9:9");
    }

    #[test]
    fn classes_whatever_the_command_is_called() {
        let tail = "S 1 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 5 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 5 0 0 0";
        let root = root(&[("proc/10/stat", &format!("10 (a) b) (c) {tail}\n"))]);
        let class = Names::new(root.path()).class(10);
        assert_eq!(class, Some(Class { kernel_thread: false, policy: 5 }));
        // Of the real thing: this test runs as an ordinary process.
        let own = Names::new(Path::new("/")).class(std::process::id()).expect("our own");
        assert!(!own.kernel_thread);
    }

    /// Any thread may call itself so: prctl(2) takes bytes.
    #[test]
    fn what_is_called_by_bytes_is_seen_as_any_other() {
        let root = root(&[("proc/10/comm", "")]);
        let write =
            |file: &str, bytes: &[u8]| fs::write(root.path().join("proc/10").join(file), bytes).expect("written");
        write("comm", b"\xffsh\n");
        write("status", b"Name:\t\xffsh\nTgid:\t7\nUid:\t5\t5\t5\t5\n");
        write(
            "stat",
            b"10 (\xffsh) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 1 2 0 0 0\n",
        );
        let names = Names::new(root.path());
        assert_eq!(names.comm(10), "\u{fffd}sh");
        assert_eq!(names.identity(10), Some(Identity { tgid: 7, uid: Some(5) }));
        assert_eq!((names.began(10), names.class(10).map(|class| class.policy)), (Some(77), Some(2)));
    }

    #[test]
    fn owners_and_threads() {
        let root = root(&[
            ("proc/10/status", "Name:\tsh\nTgid:\t7\nUid:\t1000\t1000\t1000\t1000\n"),
            ("proc/11/status", "Name:\tsudo\nTgid:\t11\nUid:\t1000\t0\t0\t0\n"),
        ]);
        let names = Names::new(root.path());
        assert_eq!(names.identity(10), Some(Identity { tgid: 7, uid: Some(1000) }));
        assert_eq!(names.identity(11), Some(Identity { tgid: 11, uid: None }));
        assert_eq!(names.identity(12), None);
    }
}
