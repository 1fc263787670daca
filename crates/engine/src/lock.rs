//! One daemon per machine.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use crate::Error;

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
            Ok(mut file) => refusal(file.try_lock_shared(), &mut file, &path),
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
            .open(&path)
            .map_err(failed("opening", &path))?;
        refusal(file.try_lock(), &mut file, &path)?;
        file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(failed("writing", &path))?;
        Ok(Self { _file: file })
    }
}

/// What became of locking `file`; if another process holds it, who.
fn refusal(locked: Result<(), TryLockError>, file: &mut File, path: &Path) -> Result<(), Error> {
    match locked {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            file.read_to_string(&mut pid).map_err(failed("reading", path))?;
            let pid = if pid.trim().is_empty() { "?".into() } else { pid.trim().into() };
            Err(Error::AlreadyRunning { pid })
        }
        Err(TryLockError::Error(source)) => Err(failed("locking", path)(source)),
    }
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
            assert!(refused.contains(&format!("process {}:", std::process::id())), "{refused}");
        }
        drop(held);
        Lock::refuse_if_held(dir.path()).expect("free again");
        Lock::take(dir.path()).expect("free again");
    }

    #[test]
    fn a_longer_stale_pid_leaves_no_digits() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("lock"), "99999999999\n").expect("write");
        let _held = Lock::take(dir.path()).expect("free");
        let text = fs::read_to_string(dir.path().join("lock")).expect("read");
        assert_eq!(text, format!("{}\n", std::process::id()));
    }
}
