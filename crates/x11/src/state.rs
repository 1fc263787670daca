//! The file that says which priority is ours, for the next agent should this one be killed.

use std::{
    env, fs,
    io::{self, ErrorKind},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use tracing::warn;

use crate::{
    Error,
    agent::{Changed, Journal},
};

/// Nobody but the user may write where we keep it: what it says is done.
const OWN_DIR_MODE: u32 = 0o700;

/// One line, `WINDOW FORMER`; missing while nothing is changed.
#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
    is_there: bool,
}

impl StateFile {
    /// That of a display.
    pub(crate) fn of(display: &str) -> Result<Self, Error> {
        let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute() && dir.is_dir());
        let uid = nix::unistd::getuid().as_raw();
        let dir = match runtime {
            Some(dir) => dir,
            None => {
                let usual = PathBuf::from(format!("/run/user/{uid}"));
                if usual.is_dir() { usual } else { own_dir(&PathBuf::from(format!("/tmp/appease-x11-{uid}")), uid)? }
            }
        };
        Ok(Self::at(dir.join(format!("appease-x11{}", file_part(display)))))
    }

    fn at(path: PathBuf) -> Self {
        Self { path, is_there: true }
    }

    /// What is recorded. A file that makes no sense says nothing.
    pub(crate) fn read(&self) -> Result<Option<Changed>, Error> {
        let text = match fs::read(&self.path) {
            Ok(bytes) => text(bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(self.failed("reading")(source)),
        };
        let changed = parse(&text);
        if changed.is_none() {
            warn!("{} makes no sense, and is removed: {text:?}", self.path.display());
        }
        Ok(changed)
    }

    fn failed(&self, what: &'static str) -> impl FnOnce(io::Error) -> Error {
        let path = self.path.clone();
        move |source| Error::File { what, path, source }
    }
}

impl Journal for StateFile {
    fn record(&mut self, changed: Option<Changed>) -> Result<(), Error> {
        match changed {
            Some(changed) => {
                // Renamed into place: a half-written line could name another window.
                let part = self.path.with_extension("part");
                fs::write(&part, line(changed))
                    .and_then(|()| fs::rename(&part, &self.path))
                    .map_err(self.failed("writing"))?;
                self.is_there = true;
            }
            None if self.is_there => match fs::remove_file(&self.path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(self.failed("removing")(error)),
                _ => self.is_there = false,
            },
            None => {}
        }
        Ok(())
    }
}

/// What is no UTF-8 makes no sense, and keeps no agent from starting.
pub(crate) fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|wrong| String::from_utf8_lossy(wrong.as_bytes()).into_owned())
}

pub(crate) fn line(changed: Changed) -> String {
    format!("{:#x} {}\n", changed.window, changed.former)
}

pub(crate) fn parse(text: &str) -> Option<Changed> {
    let (window, former) = text.trim_end().split_once(' ')?;
    let window = u32::from_str_radix(window.strip_prefix("0x")?, 16).ok()?;
    Some(Changed { window, former: former.parse().ok()? })
}

/// A directory in `/tmp`, made when it is missing. Somebody else's of that name is refused.
fn own_dir(path: &Path, uid: u32) -> Result<PathBuf, Error> {
    let failed = |what: &'static str| move |source| Error::File { what, path: path.into(), source };
    match fs::DirBuilder::new().mode(OWN_DIR_MODE).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(failed("creating")(error)),
        _ => {}
    }
    // Not followed: a link would lead where others want it.
    let found = fs::symlink_metadata(path).map_err(failed("looking at"))?;
    if !found.is_dir() || found.uid() != uid || found.mode() & 0o777 != OWN_DIR_MODE {
        let source = io::Error::other("it is not a directory of yours alone");
        return Err(failed("using")(source));
    }
    Ok(path.into())
}

/// A display's name as a part of a file name: `:0` and `:0.0` are the same display.
pub(crate) fn file_part(display: &str) -> String {
    let (host, number) = display.rsplit_once(':').unwrap_or(("", display));
    let number = number.split('.').next().unwrap_or_default();
    let host = if host == "unix" { "" } else { host };
    let plain = |part: &str| part.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    if host.is_empty() { format!("-{}", plain(number)) } else { format!("-{}-{}", plain(host), plain(number)) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_recorded_is_read_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("state");
        let changed = Changed { window: 0x0140_000d, former: -2 };
        let mut state = StateFile::at(path.clone());
        state.record(None).expect("nothing to remove");
        state.record(Some(changed)).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("there"), "0x140000d -2\n");
        let mut next = StateFile::at(path);
        assert_eq!(next.read().expect("readable"), Some(changed));
        next.record(None).expect("removed");
        assert_eq!(next.read().expect("readable"), None);
        assert_eq!(fs::read_dir(dir.path()).expect("readable").count(), 0, "nothing is left");
    }

    #[test]
    fn nonsense_says_nothing() {
        for text in ["", "\n", "0x1", "1 0", "0x1 none", "0x123456789 0", "0x1 0 0"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_display_has_one_name() {
        for (display, part) in [
            (":0", "-0"),
            (":0.1", "-0"),
            ("unix:0", "-0"),
            ("far.example:10.0", "-far_example-10"),
            ("/../x:1", "-____x-1"),
        ] {
            assert_eq!(file_part(display), part);
        }
    }

    #[test]
    fn only_a_directory_of_ones_own_will_do() {
        let dir = tempfile::tempdir().expect("a directory");
        let uid = nix::unistd::getuid().as_raw();
        let (own, open, link) = (dir.path().join("own"), dir.path().join("open"), dir.path().join("link"));
        own_dir(&own, uid).expect("made");
        own_dir(&own, uid).expect("there");
        own_dir(&own, uid + 1).expect_err("another's");
        fs::create_dir(&open).expect("made");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).expect("opened");
        own_dir(&open, uid).expect_err("open to others");
        std::os::unix::fs::symlink(&own, &link).expect("linked");
        own_dir(&link, uid).expect_err("a link");
    }
}
