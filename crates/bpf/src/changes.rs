//! What the backend by nice values has changed of threads, kept by the kernel: `bpf/changes.bpf.c`.

use std::{
    fs,
    io::{ErrorKind, Read},
    mem::{self, MaybeUninit},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use libbpf_rs::{
    Iter, Link, MapCore, MapFlags,
    skel::{OpenSkel, SkelBuilder},
};

use crate::{
    Error,
    abi::{as_bytes, pidfd, raw, read},
    skeletons::changes::{ChangesSkel, ChangesSkelBuilder},
};

/// The kind of file system in which maps and hooks are pinned (linux/magic.h).
const BPFFS: i64 = 0xcafe_4a11;
/// The parts that are pinned, in a directory of their own.
const MAP: &str = "changes";
const HOOK: &str = "inherit";

/// What has been changed of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// Nice value before.
    pub base: i32,
    /// The one that it was given.
    pub given: i32,
    /// The one that it was given before that. A thread that it was starting meanwhile may have that still.
    pub former: i32,
    /// The slice that it was given in place of the kernel's own, ns; `None`: it kept its own.
    pub slice_ns: Option<u64>,
    /// Whether it has all that from its parent.
    pub is_inherited: bool,
    /// Whether all was given back. Children that were being started meanwhile may have it still.
    pub is_over: bool,
}

/// A thread, its process, and what has been changed of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed {
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// What has been changed.
    pub change: Change,
}

/// The records. They outlast this, and the process, until [`Changes::end`].
pub struct Changes {
    skeleton: ChangesSkel<'static>,
    /// Lists them.
    list: Link,
    dir: PathBuf,
}

impl Changes {
    /// Begins to keep records, pinned in `dir`, a directory in a BPF file system that is made.
    ///
    /// # Errors
    /// When there is no such file system, or the kernel refuses.
    pub fn begin(dir: &Path) -> Result<Self, Error> {
        let parent = dir.parent().unwrap_or(dir);
        if !is_bpffs(parent) {
            return Err(Error::NoBpfFs { path: parent.into() });
        }
        match fs::DirBuilder::new().mode(0o700).create(dir) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(Error::libbpf(&format!("create {}", dir.display()), error));
            }
            _ if !is_ours(dir) => return Err(Error::NotOurs { path: dir.into() }),
            _ => {}
        }
        let mut skeleton = load(None)?;
        let list = list(&skeleton)?;
        let failed = |what: &'static str| move |e| Error::libbpf(what, e);
        skeleton.maps.changes.pin(dir.join(MAP)).map_err(failed("pin the records of changes"))?;
        let hook = skeleton.progs.appease_inherit.attach().map_err(failed("attach hook sched_process_fork"));
        let pinned = hook.and_then(|mut hook| hook.pin(dir.join(HOOK)).map_err(failed("pin hook sched_process_fork")));
        let records = Self { skeleton, list, dir: dir.into() };
        if let Err(error) = pinned {
            records.end();
            return Err(error);
        }
        Ok(records)
    }

    /// The records that a daemon has left in `dir` that was killed; `None`: there are none.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn left(dir: &Path) -> Result<Option<Self>, Error> {
        let map = dir.join(MAP);
        // What others have pinned says nothing.
        if !map.try_exists().map_err(|e| Error::libbpf(&format!("look for {}", map.display()), e))? || !is_ours(dir) {
            return Ok(None);
        }
        let skeleton = load(Some(&map))?;
        let list = list(&skeleton)?;
        Ok(Some(Self { skeleton, list, dir: dir.into() }))
    }

    /// What has been changed of the thread `tid`.
    #[must_use]
    pub fn of(&self, tid: u32) -> Option<Change> {
        let key = pidfd(tid, true).ok()?;
        let bytes = self.skeleton.maps.changes.lookup(&key.key(), MapFlags::ANY).ok()??;
        read::<raw::appease_change>(&bytes).map(|raw| Change::from(&raw))
    }

    /// Notes that.
    ///
    /// # Errors
    /// When there is no such thread, or no memory.
    pub fn note(&self, tid: u32, change: Change) -> Result<(), Error> {
        let key = pidfd(tid, true)?;
        let record = raw::appease_change::from(change);
        self.skeleton
            .maps
            .changes
            .update(&key.key(), as_bytes(&record), MapFlags::ANY)
            .map_err(|e| Error::libbpf("note what is changed of a thread", e))
    }

    /// Nothing is changed of the thread `tid` any more.
    pub fn erase(&self, tid: u32) {
        if let Ok(key) = pidfd(tid, true) {
            // That there is none is as good.
            let _ = self.skeleton.maps.changes.delete(&key.key());
        }
    }

    /// All threads that have one.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn all(&self) -> Result<Vec<Changed>, Error> {
        let mut bytes = Vec::new();
        Iter::new(&self.list)
            .map_err(|e| Error::libbpf("list what is changed", e))?
            .read_to_end(&mut bytes)
            .map_err(|e| Error::libbpf("read what is changed", e))?;
        let records = bytes.chunks_exact(mem::size_of::<raw::appease_changed>());
        let changed = records.filter_map(read::<raw::appease_changed>);
        Ok(changed.map(|raw| Changed { tid: raw.tid, tgid: raw.tgid, change: Change::from(&raw.change) }).collect())
    }

    /// Nothing is changed any more.
    pub fn end(&self) {
        for part in [HOOK, MAP] {
            // That it is not there is as good.
            let _ = fs::remove_file(self.dir.join(part));
        }
        let _ = fs::remove_dir(&self.dir);
    }
}

impl From<&raw::appease_change> for Change {
    fn from(raw: &raw::appease_change) -> Self {
        Self {
            base: raw.base,
            given: raw.given,
            former: raw.former,
            slice_ns: (raw.slice_ns > 0).then_some(raw.slice_ns),
            is_inherited: raw.flags & raw::APPEASE_CHANGE_INHERITED != 0,
            is_over: raw.flags & raw::APPEASE_CHANGE_OVER != 0,
        }
    }
}

impl From<Change> for raw::appease_change {
    fn from(change: Change) -> Self {
        let bit = |is_set: bool, bit| if is_set { bit } else { 0 };
        Self {
            base: change.base,
            given: change.given,
            former: change.former,
            slice_ns: change.slice_ns.unwrap_or(0),
            flags: bit(change.is_inherited, raw::APPEASE_CHANGE_INHERITED)
                | bit(change.is_over, raw::APPEASE_CHANGE_OVER),
        }
    }
}

/// Loads the object; with `map`, on the records that are pinned there, to which the hook of another one is attached.
fn load(map: Option<&Path>) -> Result<ChangesSkel<'static>, Error> {
    // The skeleton borrows its storage. It lives as long as the daemon.
    let storage = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open =
        ChangesSkelBuilder::default().open(storage).map_err(|e| Error::libbpf("open the object of changes", e))?;
    if let Some(map) = map {
        open.progs.appease_inherit.set_autoload(false);
        let reused = open.maps.changes.reuse_pinned_map(map);
        reused.map_err(|e| Error::libbpf(&format!("open {}", map.display()), e))?;
    }
    open.load().map_err(|e| Error::libbpf("load the object of changes", e))
}

fn list(skeleton: &ChangesSkel<'static>) -> Result<Link, Error> {
    skeleton.progs.appease_changed.attach().map_err(|e| Error::libbpf("attach the list of changes", e))
}

fn is_bpffs(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|found| found.f_type == BPFFS)
}

/// Whether root alone can write there: some BPF file systems are open to everybody.
fn is_ours(dir: &Path) -> bool {
    fs::symlink_metadata(dir).is_ok_and(|found| found.is_dir() && found.uid() == 0 && found.mode() & 0o077 == 0)
}
