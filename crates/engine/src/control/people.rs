//! Customers by name, for whoever asks: to look up a user may take long, and nobody else shall wait for that.

use std::{
    collections::HashMap,
    fs,
    os::unix::fs::DirEntryExt,
    path::{Path, PathBuf},
};

use nix::unistd::{Uid, User};

use super::wire::CustomerName;
use crate::channel;

/// Looks names up, each once.
#[derive(Debug)]
pub(super) struct People {
    root: PathBuf,
    users: HashMap<u32, Option<String>>,
    /// Paths by id, read when the first is asked for.
    cgroups: Option<HashMap<u64, PathBuf>>,
}

impl People {
    /// On the machine whose `/proc` is below `root`.
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.into(), users: HashMap::new(), cgroups: None }
    }

    /// Gives a customer the name that people know it by; what has none keeps its number.
    pub(super) fn name(&mut self, customer: &mut CustomerName) {
        match (customer.kind.as_str(), customer.uid, customer.cgroup_id) {
            ("seat", Some(uid), _) => {
                if let Some(user) = self.user(uid) {
                    customer.name = format!("seat0 ({user})");
                }
            }
            ("user", Some(uid), _) => {
                if let Some(user) = self.user(uid) {
                    customer.name = format!("user {user}");
                }
            }
            ("cgroup", _, Some(id)) => {
                let root = &self.root;
                let cgroups = self.cgroups.get_or_insert_with(|| cgroups(root));
                customer.name = match cgroups.get(&id) {
                    Some(path) => format!("cgroup {}", path.display()),
                    None => format!("cgroup {id} (gone)"),
                };
            }
            _ => {}
        }
    }

    fn user(&mut self, uid: u32) -> Option<&str> {
        let look = || User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name);
        self.users.entry(uid).or_insert_with(look).as_deref()
    }
}

/// All cgroups of the cgroup v2 hierarchy, from its root on, by inode number.
fn cgroups(root: &Path) -> HashMap<u64, PathBuf> {
    let mut found = HashMap::new();
    let Ok(top) = channel::cgroup_dir(root, Path::new("/")) else { return found };
    let mut dirs = vec![(top, PathBuf::from("/"))];
    while let Some((dir, path)) = dirs.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let path = path.join(entry.file_name());
                dirs.push((entry.path(), path.clone()));
                found.insert(entry.ino(), path);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::names::tests::root;

    #[test]
    fn users_and_cgroups_have_names() {
        let hierarchy = root(&[("a.slice/b.service/cgroup.procs", "")]);
        let mounts = format!("cgroup2 {} cgroup2 rw 0 0\n", hierarchy.path().display());
        let machine = root(&[("proc/mounts", &mounts)]);
        let mut people = People::new(machine.path());
        let mut name = |kind: &str, uid, cgroup_id| {
            let mut customer = CustomerName { kind: kind.into(), name: "as before".into(), uid, cgroup_id };
            people.name(&mut customer);
            customer.name
        };
        assert_eq!(name("seat", Some(0), None), "seat0 (root)");
        assert_eq!(name("user", Some(0), None), "user root");
        assert_eq!(name("user", Some(3_999_999_999), None), "as before");
        assert_eq!(name("seat", None, None), "as before");
        assert_eq!(name("address", None, None), "as before");
        let ino = fs::metadata(hierarchy.path().join("a.slice/b.service")).expect("there").ino();
        assert_eq!(name("cgroup", None, Some(ino)), "cgroup /a.slice/b.service");
        assert_eq!(name("cgroup", None, Some(1)), "cgroup 1 (gone)");
    }
}
