//! Users, groups and cgroups by name.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use nix::unistd::{Group, User};

use super::spec::{Refusal, Who};
use crate::{names::read_text, seams::Cgroup};

/// Real user and group of a rule, by number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Owners {
    pub uid: Option<u32>,
    pub gid: Option<u32>,
}

/// Looks up the user and the group of `who`.
pub(super) fn owners(who: &Who) -> Result<Owners, Refusal> {
    let group = |name: &str| Group::from_name(name).map(|group| group.map(|group| group.gid.as_raw()));
    Ok(Owners {
        uid: who.user.as_deref().map(uid).transpose()?,
        gid: who.group.as_deref().map(|name| number("group", name, "getent group", group)).transpose()?,
    })
}

/// A user by name or number.
pub(crate) fn uid(name: &str) -> Result<u32, Refusal> {
    let user = |name: &str| User::from_name(name).map(|user| user.map(|user| user.uid.as_raw()));
    number("user", name, "getent passwd", user)
}

/// Id of the cgroup `path`, on the machine whose `/proc` is below `root`; `None` when there is none.
pub(crate) fn cgroup_id(root: &Path, path: &Path) -> Result<Option<u64>, Refusal> {
    let found = cgroup(&cgroup_dir(root, path)?, path);
    Ok(found.map_err(|error| Refusal::new(format!("cgroup {}: {error}", path.display())))?.map(|cgroup| cgroup.id))
}

fn number(
    kind: &str,
    name: &str,
    command: &str,
    look_up: impl Fn(&str) -> nix::Result<Option<u32>>,
) -> Result<u32, Refusal> {
    match (look_up(name), name.parse::<u32>()) {
        (Ok(Some(id)), _) => Ok(id),
        // The highest number is the kernel's "nobody in particular".
        (_, Ok(id)) if id < u32::MAX => Ok(id),
        (Ok(None), _) => Err(Refusal::new(format!(
            "there is no {kind} {name:?}: look for the name with \"{command}\", or give a number"
        ))),
        (Err(error), _) => Err(Refusal::new(format!("looking up {kind} {name:?}: {error}"))),
    }
}

/// Directory of the cgroup `path`, wherever the cgroup v2 hierarchy is mounted below `root`.
pub(crate) fn cgroup_dir(root: &Path, path: &Path) -> Result<PathBuf, Refusal> {
    let mount = read_text(&root.join("proc/mounts")).ok().and_then(|mounts| hierarchy(&mounts)).ok_or_else(|| {
        Refusal::new(format!(
            "cgroup {} cannot be told apart: no cgroup v2 hierarchy is mounted (mount -t cgroup2 none /sys/fs/cgroup)",
            path.display()
        ))
    })?;
    Ok(mount.join(path.strip_prefix("/").unwrap_or(path)))
}

/// Where `/proc/mounts` says that the cgroup v2 hierarchy is.
pub(crate) fn hierarchy(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        // The kernel puts one space between fields. Others are part of a name, which any user of FUSE chooses.
        let mut fields = line.split(' ');
        let point = fields.nth(1)?;
        (fields.next()? == "cgroup2").then(|| PathBuf::from(point))
    })
}

/// The cgroup `path`, whose directory is `dir`, as the kernel knows it; `None` when there is none.
pub(super) fn cgroup(dir: &Path, path: &Path) -> io::Result<Option<Cgroup>> {
    match fs::metadata(dir) {
        Ok(found) if found.is_dir() => {
            // The root itself is a component too.
            let level = path.components().count().saturating_sub(1);
            Ok(Some(Cgroup { id: found.ino(), level: u32::try_from(level).unwrap_or(u32::MAX) }))
        }
        Ok(_) => Ok(None),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::tests::root;

    fn who(user: Option<&str>, group: Option<&str>) -> Who {
        Who { user: user.map(Into::into), group: group.map(Into::into), cgroup: None }
    }

    #[test]
    fn users_and_groups_by_name_and_number() {
        assert_eq!(owners(&who(Some("root"), Some("root"))), Ok(Owners { uid: Some(0), gid: Some(0) }));
        assert_eq!(owners(&who(Some("4242"), None)), Ok(Owners { uid: Some(4242), gid: None }));
        let of = |user, group| owners(&who(user, group)).expect_err("unknown").to_string();
        assert_eq!(
            of(Some("no-such-user"), None),
            "there is no user \"no-such-user\": look for the name with \"getent passwd\", or give a number"
        );
        assert!(of(None, Some("4294967295")).starts_with("there is no group \"4294967295\""));
    }

    #[test]
    fn cgroups_by_directory() {
        let hierarchy = root(&[("a.slice/b.service/cgroup.procs", "")]);
        let mounts = format!("proc /proc proc rw 0 0\ncgroup2 {} cgroup2 rw 0 0\n", hierarchy.path().display());
        let machine = root(&[("proc/mounts", &mounts)]);
        let of = |path: &str| {
            let path = Path::new(path);
            let dir = cgroup_dir(machine.path(), path).expect("mounted");
            cgroup(&dir, path).expect("readable").map(|cgroup| (cgroup.id, cgroup.level))
        };
        let ino = |path: &str| fs::metadata(hierarchy.path().join(path)).expect("there").ino();
        assert_eq!(of("/a.slice/b.service"), Some((ino("a.slice/b.service"), 2)));
        assert_eq!(of("/"), Some((ino(""), 0)));
        assert_eq!(of("/a.slice/c.service"), None);
        let nothing = root(&[("proc/mounts", "proc /proc proc rw 0 0\n")]);
        let refusal = cgroup_dir(nothing.path(), Path::new("/a")).expect_err("not mounted").to_string();
        assert!(refusal.contains("no cgroup v2 hierarchy is mounted"), "{refusal}");
    }
}
