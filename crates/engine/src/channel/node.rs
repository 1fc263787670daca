//! What a path leads to.

use std::{ffi::OsStr, fs, io, os::fd::OwnedFd, path::Path};

use rustix::fs::{FileType, Mode, OFlags, fstat, major, minor, open};

/// Major numbers of pseudo-terminals, which are no channels by themselves: masters and slaves, and the old BSD ones.
const PTYS: [std::ops::RangeInclusive<u32>; 2] = [128..=143, 2..=3];
/// Major number of `/dev/tty`, `/dev/console` and `/dev/ptmx`, which stand for other terminals; the second is no
/// pseudo-terminal.
const TTY_ALIASES: u32 = 5;
const CONSOLE: u32 = 1;

/// What is at a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A device whose class has hooks of its own.
    Classed { major: u32, minor: u32, playback: bool },
    /// Another device, or a FIFO.
    Watched,
    /// A unix socket.
    Socket,
    /// Anything else, by its name.
    Else(&'static str),
}

/// An inode, held by a descriptor that can neither be read nor written, so that opening has no effect on a device.
pub(super) struct Node {
    pub fd: OwnedFd,
    pub kind: Kind,
}

/// What is at `path`; `/sys` is below `root`.
pub(super) fn look(root: &Path, path: &Path) -> io::Result<Node> {
    let fd = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let stat = fstat(&fd)?;
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::CharacterDevice => character(root, major(stat.st_rdev), minor(stat.st_rdev)),
        FileType::BlockDevice | FileType::Fifo => Kind::Watched,
        FileType::Socket => Kind::Socket,
        FileType::RegularFile => Kind::Else("a regular file"),
        FileType::Directory => Kind::Else("a directory"),
        _ => Kind::Else("something unknown"),
    };
    Ok(Node { fd, kind })
}

/// A character device, by what the kernel calls it.
fn character(root: &Path, major: u32, minor: u32) -> Kind {
    let device = root.join(format!("sys/dev/char/{major}:{minor}"));
    let name = |link: io::Result<std::path::PathBuf>| {
        link.ok().and_then(|to| to.file_name().and_then(OsStr::to_str).map(str::to_owned)).unwrap_or_default()
    };
    let subsystem = name(fs::read_link(device.join("subsystem")));
    let name = name(fs::read_link(&device));
    let numbered =
        |prefix: &str| name.strip_prefix(prefix).is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()));
    let playback = subsystem == "sound" && name.starts_with("pcmC") && name.ends_with('p');
    let is_pty = major == TTY_ALIASES && minor != CONSOLE || PTYS.iter().any(|range| range.contains(&major));
    let has_hooks = match subsystem.as_str() {
        "input" => ["event", "mouse", "js"].into_iter().any(numbered) || name == "mice",
        "hidraw" => numbered("hidraw"),
        "tty" => major != TTY_ALIASES && !is_pty,
        _ => playback,
    };
    match (has_hooks, is_pty) {
        (true, _) => Kind::Classed { major, minor, playback },
        (_, true) => Kind::Else("a pseudo-terminal, whose other end is a process of this machine"),
        _ => Kind::Watched,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn classes_have_hooks_of_their_own() {
        let root = tempfile::tempdir().expect("a directory");
        for (number, subsystem, name) in [
            ("13:69", "input", "event5"),
            ("13:63", "input", "mice"),
            ("13:0", "input", "js0"),
            ("10:223", "misc", "uinput"),
            ("241:0", "hidraw", "hidraw0"),
            ("4:64", "tty", "ttyS0"),
            ("5:1", "tty", "console"),
            ("5:2", "tty", "ptmx"),
            ("136:0", "tty", "pts"),
            ("116:3", "sound", "pcmC0D0p"),
            ("116:4", "sound", "pcmC0D0c"),
        ] {
            let device = root.path().join("sys/devices").join(name);
            fs::create_dir_all(&device).expect("created");
            fs::create_dir_all(root.path().join("sys/dev/char")).expect("created");
            symlink(format!("../../class/{subsystem}"), device.join("subsystem")).expect("linked");
            symlink(format!("../../devices/{name}"), root.path().join("sys/dev/char").join(number)).expect("linked");
        }
        const PTY: Kind = Kind::Else("a pseudo-terminal, whose other end is a process of this machine");
        let classed = |major, minor, playback| Kind::Classed { major, minor, playback };
        for (major, minor, expected) in [
            (13, 69, classed(13, 69, false)),
            (13, 63, classed(13, 63, false)),
            (13, 0, classed(13, 0, false)),
            (10, 223, Kind::Watched),
            (241, 0, classed(241, 0, false)),
            (4, 64, classed(4, 64, false)),
            (5, 1, Kind::Watched),
            (5, 2, PTY),
            (136, 0, PTY),
            (116, 3, classed(116, 3, true)),
            (116, 4, Kind::Watched),
            (99, 9, Kind::Watched),
        ] {
            assert_eq!(character(root.path(), major, minor), expected, "{major}:{minor}");
        }
    }

    #[test]
    fn real_files_by_their_kind() {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("bound");
        let kind = |path: &Path| look(Path::new("/"), path).map(|node| node.kind);
        assert_eq!(kind(Path::new("/dev/null")).expect("there"), Kind::Watched);
        assert_eq!(kind(&socket).expect("there"), Kind::Socket);
        assert_eq!(kind(dir.path()).expect("there"), Kind::Else("a directory"));
        assert_eq!(kind(&dir.path().join("none")).expect_err("missing").kind(), io::ErrorKind::NotFound);
    }
}
