//! One daemon per machine.
//!
//! A process that can open the file can hold the lock, and then neither a daemon nor `appease restore` starts. So it is open to its owner alone, which is
//! root. The kernel is asked for the holder: what is written in the file may be of another process.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, ErrorKind, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

use crate::{Error, names::read_text};

const OWNER_ALONE: u32 = 0o600;

/// Held while the daemon runs. The kernel releases it with the process, so a crash leaves nothing stale; the
/// file itself stays, since removing it would let two daemons lock two files of one name.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Refuses if a daemon holds the lock in `dir`. Makes nothing.
    pub(crate) fn refuse_if_held(dir: &Path) -> Result<(), Error> {
        let path = dir.join("lock");
        match File::open(&path) {
            // A shared one is enough to learn it, and two that look do not hinder each other.
            Ok(file) => refusal(file.try_lock_shared(), &file, &path),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(failed("opening", &path)(error)),
        }
    }

    /// Takes the lock in `dir`, which is created when it is missing, and writes our process id into it.
    pub(crate) fn take(dir: &Path) -> Result<Self, Error> {
        if !dir.exists() {
            fs::create_dir_all(dir).map_err(failed("creating", dir))?;
            // Whatever the umask: everybody may ask the daemon.
            fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).map_err(failed("opening to all users", dir))?;
        }
        let path = dir.join("lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(OWNER_ALONE)
            .open(&path)
            .map_err(failed("opening", &path))?;
        // Former versions made one that everybody could open.
        file.set_permissions(fs::Permissions::from_mode(OWNER_ALONE)).map_err(failed("closing to others", &path))?;
        refusal(file.try_lock(), &file, &path)?;
        file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(failed("writing", &path))?;
        Ok(Self { _file: file })
    }
}

/// What became of locking `file`; if another process holds it, who.
fn refusal(locked: Result<(), TryLockError>, file: &File, path: &Path) -> Result<(), Error> {
    match locked {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let found = file.metadata().map_err(failed("looking at", path))?;
            let locks = Path::new("/proc/locks");
            let pid = holder(&fs::read_to_string(locks).map_err(failed("reading", locks))?, found.dev(), found.ino());
            let Some(pid) = pid else { return Err(Error::LockHeld { path: path.to_path_buf() }) };
            let comm = read_text(Path::new(&format!("/proc/{pid}/comm"))).unwrap_or_default();
            Err(Error::AlreadyRunning { pid, comm: comm.trim().to_owned() })
        }
        Err(TryLockError::Error(source)) => Err(failed("locking", path)(source)),
    }
}

/// The process that holds a lock of the whole file with this inode, by the text of `/proc/locks` (proc_locks(5)). Some file systems tell another
/// device there than stat(2) does, so the inode alone will do if there is no better.
pub(crate) fn holder(locks: &str, dev: u64, inode: u64) -> Option<u32> {
    let device = format!("{:02x}:{:02x}", rustix::fs::major(dev), rustix::fs::minor(dev));
    let held = locks.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        // A line of one that waits has an arrow before the kind.
        if words.next()? != "FLOCK" {
            return None;
        }
        let pid = words.nth(2)?.parse::<u32>().ok()?;
        let (on, of) = words.next()?.rsplit_once(':')?;
        (of.parse() == Ok(inode)).then(|| (on != device, pid))
    });
    held.min_by_key(|(is_elsewhere, _)| *is_elsewhere).map(|(_, pid)| pid)
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::File { what, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_exclusive_and_names_its_holder() {
        let dir = tempfile::tempdir().expect("a directory");
        Lock::refuse_if_held(dir.path()).expect("free");
        assert_eq!(fs::read_dir(dir.path()).expect("readable").count(), 0, "who only looks makes nothing");
        let held = Lock::take(dir.path()).expect("free");
        for refused in [Lock::take(dir.path()).map(drop), Lock::refuse_if_held(dir.path())] {
            let refused = refused.expect_err("held").to_string();
            assert!(refused.contains(&format!("process {} (", std::process::id())), "{refused}");
        }
        let mode = fs::metadata(dir.path().join("lock")).expect("a lock").mode();
        assert_eq!(mode & 0o777, OWNER_ALONE, "a process that can open it can hold it");
        drop(held);
        Lock::refuse_if_held(dir.path()).expect("free again");
        Lock::take(dir.path()).expect("free again");
    }

    #[test]
    fn a_longer_stale_pid_leaves_no_digits() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("lock");
        fs::write(&path, "99999999999\n").expect("write");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("set");
        let _held = Lock::take(dir.path()).expect("free");
        let text = fs::read_to_string(&path).expect("read");
        assert_eq!(text, format!("{}\n", std::process::id()));
        assert_eq!(fs::metadata(&path).expect("a lock").mode() & 0o777, OWNER_ALONE, "a former version's, too");
    }

    #[test]
    fn the_holder_is_the_kernels_word() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 00:1a:55 0 EOF\n2: FLOCK  ADVISORY  READ 811 00:1b:55 0 EOF\n\
                     3: FLOCK  ADVISORY  READ 812 00:1a:55 0 EOF\n3: -> FLOCK  ADVISORY  WRITE 900 00:1a:55 0 EOF\n";
        let holder = |minor, inode| holder(locks, rustix::fs::makedev(0, minor), inode);
        assert_eq!(holder(0x1a, 55), Some(812));
        assert_eq!(holder(0x1b, 55), Some(811));
        assert_eq!(holder(0x2c, 55), Some(811), "by the inode alone");
        assert_eq!(holder(0x1a, 56), None);
        assert_eq!(super::holder("4: FLOCK  ADVISORY", 0, 55), None);
    }
}
