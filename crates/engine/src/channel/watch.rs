//! Files that are channels, and directories in which such files may appear.
//!
//! Two inotify instances. The kernel's programs count what happens to the nodes of one. They are drained once a second, never
//! polled: else each key press would wake the daemon. Directories are asked about new names alone: any event of their children's
//! use, such as IN_ATTRIB, would make each read and write of `/dev/null` dearer for everybody.

use std::{
    collections::{BTreeSet, HashMap},
    ffi::OsString,
    io,
    mem::MaybeUninit,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    path::Path,
};

use rustix::{
    fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags},
    io::Errno,
};

use crate::seams::Slot;

/// Deep enough for any path, and an end to the race against somebody who makes and removes directories.
const ATTEMPTS: usize = 4096;
/// Room for some hundred events at a time.
const BUFFER: usize = 16 << 10;

/// The nodes and the directories that rules are about.
pub(super) struct Watches {
    nodes: OwnedFd,
    users: HashMap<i32, BTreeSet<Slot>>,
    places: OwnedFd,
    names: HashMap<i32, HashMap<OsString, BTreeSet<Slot>>>,
    expected: HashMap<Slot, Vec<(i32, OsString)>>,
}

impl Watches {
    pub(super) fn new() -> io::Result<Self> {
        let instance = || inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        Ok(Self {
            nodes: instance()?,
            users: HashMap::new(),
            places: instance()?,
            names: HashMap::new(),
            expected: HashMap::new(),
        })
    }

    /// The instance that has the nodes.
    pub(super) fn nodes(&self) -> BorrowedFd<'_> {
        self.nodes.as_fd()
    }

    /// Watches an inode for a rule: for its end, and when asked for, for its `uses`. Its watch is the same for all rules.
    pub(super) fn watch(&mut self, node: BorrowedFd<'_>, slot: Slot, uses: bool) -> io::Result<i32> {
        const USES: WatchFlags = WatchFlags::ACCESS.union(WatchFlags::MODIFY);
        const END: WatchFlags = WatchFlags::ATTRIB.union(WatchFlags::DELETE_SELF).union(WatchFlags::MOVE_SELF);
        // Never less than another rule has asked for.
        let events = WatchFlags::MASK_ADD | if uses { USES | END } else { END };
        // The inode that was looked at, whatever is at its path by now.
        let path = format!("/proc/self/fd/{}", node.as_raw_fd());
        let wd = inotify::add_watch(&self.nodes, path, events)?;
        self.users.entry(wd).or_default().insert(slot);
        Ok(wd)
    }

    /// The rule needs the watch no longer.
    pub(super) fn release(&mut self, wd: i32, slot: Slot) {
        if let Some(users) = self.users.get_mut(&wd) {
            users.remove(&slot);
            if users.is_empty() {
                self.users.remove(&wd);
                // It may have gone with its inode.
                let _ = inotify::remove_watch(&self.nodes, wd);
            }
        }
    }

    /// Tells when something appears at one of `paths`, in place of what the rule expected before. Where the directory is missing too,
    /// the nearest one that is there is watched.
    pub(super) fn expect(&mut self, slot: Slot, paths: &[&Path]) -> io::Result<()> {
        let before = self.expected.remove(&slot).unwrap_or_default();
        let mut now = Vec::new();
        let outcome = paths.iter().try_for_each(|path| {
            if let Some((wd, name)) = self.nearest(path)? {
                self.names.entry(wd).or_default().entry(name.clone()).or_default().insert(slot);
                now.push((wd, name));
            }
            Ok(())
        });
        for (wd, name) in before.into_iter().filter(|old| !now.contains(old)) {
            self.forget_name(wd, &name, slot);
        }
        if !now.is_empty() {
            self.expected.insert(slot, now);
        }
        outcome
    }

    /// Watch of the nearest directory above `path` that is there, and the name to wait for in it.
    fn nearest(&self, path: &Path) -> io::Result<Option<(i32, OsString)>> {
        const APPEARS: WatchFlags = WatchFlags::CREATE.union(WatchFlags::MOVED_TO).union(WatchFlags::ONLYDIR);
        let mut child = path;
        for _ in 0..ATTEMPTS {
            let (Some(dir), Some(name)) = (child.parent(), child.file_name()) else {
                return Ok(None);
            };
            match inotify::add_watch(&self.places, dir, APPEARS) {
                // It came between two looks: look once more, from the end.
                Ok(_) if child != path && child.is_dir() => child = path,
                Ok(wd) => return Ok(Some((wd, name.to_owned()))),
                Err(Errno::NOENT | Errno::NOTDIR) => child = dir,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    fn forget_name(&mut self, wd: i32, name: &OsString, slot: Slot) {
        let Some(names) = self.names.get_mut(&wd) else {
            return;
        };
        if let Some(slots) = names.get_mut(name) {
            slots.remove(&slot);
            if slots.is_empty() {
                names.remove(name);
            }
        }
        if names.is_empty() {
            self.names.remove(&wd);
            let _ = inotify::remove_watch(&self.places, wd);
        }
    }

    /// Rules that must be looked at anew, since something came or went. Never waits.
    pub(super) fn drain(&mut self) -> BTreeSet<Slot> {
        let mut changed = BTreeSet::new();
        for (wd, event, _) in events(&self.nodes) {
            if event.contains(ReadFlags::QUEUE_OVERFLOW) {
                changed.extend(self.users.values().flatten());
            } else if event
                .intersects(ReadFlags::ATTRIB | ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED)
            {
                changed.extend(self.users.get(&wd).into_iter().flatten());
            }
        }
        for (wd, event, name) in events(&self.places) {
            if event.contains(ReadFlags::QUEUE_OVERFLOW) {
                changed.extend(self.expected.keys());
            } else if event.contains(ReadFlags::IGNORED) {
                changed.extend(self.names.get(&wd).into_iter().flat_map(HashMap::values).flatten());
            } else {
                changed.extend(self.names.get(&wd).and_then(|names| names.get(&name)).into_iter().flatten());
            }
        }
        changed
    }
}

/// What waits in an inotify instance.
fn events(instance: &OwnedFd) -> Vec<(i32, ReadFlags, OsString)> {
    let mut buffer = [MaybeUninit::uninit(); BUFFER];
    let mut reader = Reader::new(instance, &mut buffer);
    let mut events = Vec::new();
    while let Ok(event) = reader.next() {
        // Reads and writes were counted in the kernel.
        if !event.events().intersects(ReadFlags::ACCESS | ReadFlags::MODIFY) {
            let name = event.file_name().map(|name| OsString::from_vec(name.to_bytes().to_vec())).unwrap_or_default();
            events.push((event.wd(), event.events(), name));
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use std::{fs, fs::File};

    use super::*;

    #[test]
    fn a_path_is_awaited_from_the_nearest_directory() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a/b/c");
        let mut watches = Watches::new().expect("instances");
        let mut step = |make: &dyn Fn()| {
            watches.expect(7, &[&path]).expect("watched");
            make();
            watches.drain().len()
        };
        assert_eq!(step(&|| fs::write(dir.path().join("b"), "").expect("written")), 0, "another name");
        assert_eq!(step(&|| fs::create_dir(dir.path().join("a")).expect("made")), 1);
        assert_eq!(step(&|| fs::create_dir(dir.path().join("a/b")).expect("made")), 1);
        assert_eq!(step(&|| fs::write(&path, "").expect("written")), 1);
        assert_eq!(step(&|| drop(fs::read(&path).expect("read"))), 0);
        assert_eq!(step(&|| fs::remove_dir_all(dir.path().join("a")).expect("removed")), 1);
        watches.expect(7, &[]).expect("forgotten");
        assert!(watches.names.is_empty() && watches.expected.is_empty());
    }

    /// What is watched, as the kernel has it.
    fn masks(watches: &Watches) -> Vec<u32> {
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", watches.nodes.as_raw_fd())).expect("ours");
        let mask =
            |line: &str| line.strip_prefix("inotify ")?.split_once("mask:")?.1.split(' ').next().map(str::to_owned);
        info.lines().filter_map(mask).map(|mask| u32::from_str_radix(&mask, 16).expect("a number")).collect()
    }

    #[test]
    fn one_watch_for_all_rules_of_an_inode() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("node");
        fs::write(&path, "x").expect("written");
        let file = File::open(&path).expect("opened");
        let mut watches = Watches::new().expect("instances");
        let wd = watches.watch(file.as_fd(), 1, true).expect("watched");
        // IN_ATTRIB, IN_DELETE_SELF, IN_MOVE_SELF.
        let end = 0x4 | 0x400 | 0x800;
        assert_eq!(watches.watch(file.as_fd(), 2, true).expect("watched"), wd);
        fs::read(&path).expect("read");
        assert!(watches.drain().is_empty(), "uses are counted elsewhere");
        assert_eq!(masks(&watches), [end | 0x3], "reads and writes");
        watches.watch(file.as_fd(), 3, false).expect("watched");
        assert_eq!(masks(&watches), [end | 0x3], "as the others want it");
        watches.release(wd, 3);
        watches.release(wd, 1);
        fs::remove_file(&path).expect("removed");
        assert_eq!(watches.drain(), BTreeSet::from([2]));
        watches.release(wd, 2);
        assert_eq!(masks(&watches), [0; 0]);
    }
}
