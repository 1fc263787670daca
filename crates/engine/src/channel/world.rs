//! What a rule is about at this moment: the targets that its words stand for.

use std::{
    collections::{BTreeSet, HashSet},
    fmt, fs, io,
    net::IpAddr,
    os::fd::{AsFd, BorrowedFd},
    path::{Path, PathBuf},
};

use super::{
    address::{Host, Inet, Unix},
    hosts::Hosts,
    node::{self, Kind, Node},
    servers::{Server, Servers},
    spec::{Refusal, Spec, What},
    watch::Watches,
    who,
};
use crate::seams::{Access, Cgroup, Eyes, Side, Slot, Target};

/// What a rule is about now.
#[derive(Debug, Default)]
pub(super) struct Aim {
    /// The cgroup of its filter.
    pub cgroup: Option<Cgroup>,
    /// What leads to it.
    pub targets: Vec<Target>,
    /// The watch that tells when its node goes.
    pub watch: Option<i32>,
    /// What it waits for; then there are no targets.
    pub waits_for: Option<String>,
}

/// Nodes, names and servers of this machine.
pub(super) struct World {
    root: PathBuf,
    watches: Watches,
    hosts: Hosts,
    servers: Servers,
}

impl World {
    /// Looks at the machine whose `/proc` and `/sys` are below `root`.
    pub(super) fn new(root: &Path) -> Result<Self, Refusal> {
        let watches = Watches::new().map_err(|error| {
            Refusal::new(format!("watching files: {error}; if there are too many users of inotify: sysctl -w fs.inotify.max_user_instances=1024"))
        })?;
        Ok(Self { root: root.into(), watches, hosts: Hosts::default(), servers: Servers::default() })
    }

    /// The inotify instance in which uses of files count.
    pub(super) fn uses(&self) -> BorrowedFd<'_> {
        self.watches.nodes()
    }

    /// What the rule in `slot` is about now. From here on, a change of that makes [`World::changes`] name the slot.
    pub(super) fn aim(&mut self, slot: Slot, spec: &Spec, eyes: &impl Eyes) -> Result<Aim, Refusal> {
        let cgroup_path = spec.who.cgroup.as_deref();
        let cgroup_dir = cgroup_path.map(|path| who::cgroup_dir(&self.root, path)).transpose()?;
        let node = match &spec.what {
            What::File(path) | What::Unix(_, Unix::Path(path)) => Some(path.as_path()),
            _ => None,
        };
        let paths: Vec<&Path> = node.into_iter().chain(cgroup_dir.as_deref()).collect();
        // Before looking: what comes after is told.
        self.watches.expect(slot, &paths).map_err(|error| self.unwatchable(&error, &spec.what))?;

        let mut aim = Aim::default();
        if let (Some(path), Some(dir)) = (cgroup_path, cgroup_dir) {
            aim.cgroup =
                who::cgroup(&dir, path).map_err(|error| Refusal::new(format!("cgroup {}: {error}", path.display())))?;
            if aim.cgroup.is_none() {
                aim.waits_for = Some(format!("cgroup {}", path.display()));
                return Ok(aim);
            }
        }
        match &spec.what {
            What::Class(class) => aim.targets.push(Target::Class(*class)),
            What::Inet(side, inet) => self.sockets(*side, inet, &mut aim),
            What::Unix(side, Unix::Abstract(name)) => {
                aim.targets.push(Target::UnixAbstract { side: *side, name: name.clone().into_bytes() });
            }
            What::Unix(side, Unix::Path(path)) => {
                if let Some(found) = self.look(path, &mut aim)? {
                    self.unix(slot, *side, path, &found, eyes, &mut aim)?;
                }
            }
            What::File(path) => {
                if let Some(found) = self.look(path, &mut aim)? {
                    self.file(slot, spec.access, path, &found, &mut aim)?;
                }
            }
        }
        Ok(aim)
    }

    /// The rule needs the watch no longer.
    pub(super) fn release(&mut self, watch: i32, slot: Slot) {
        self.watches.release(watch, slot);
    }

    /// Nothing about this rule is to be told any more.
    pub(super) fn forget(&mut self, slot: Slot) {
        // Without paths nothing can fail.
        let _ = self.watches.expect(slot, &[]);
    }

    /// Rules whose files came or went.
    pub(super) fn changes(&mut self) -> BTreeSet<Slot> {
        self.watches.drain()
    }

    /// Servers that listen, if other sockets do than before.
    pub(super) fn servers(&mut self, eyes: &impl Eyes) -> Option<Vec<Server>> {
        self.servers.changed(&self.root, eyes.listener_changes())
    }

    /// Has [`World::servers`] tell all of them at the next call.
    pub(super) fn look_at_servers_anew(&mut self) {
        self.servers = Servers::default();
    }

    /// Takes the addresses of a host; whether they are news.
    pub(super) fn learn(&mut self, host: &str, addresses: Vec<IpAddr>) -> bool {
        self.hosts.learn(host, addresses)
    }

    /// Whether the host has addresses.
    pub(super) fn knows(&self, host: &str) -> bool {
        !self.hosts.addresses(host).is_empty()
    }

    /// Hosts that should be asked about.
    pub(super) fn due(&mut self, in_use: HashSet<&str>, time: bool) -> Vec<String> {
        self.hosts.due(in_use, time)
    }

    fn sockets(&self, side: Side, inet: &Inet, aim: &mut Aim) {
        let socket = |address| Target::Socket { protocol: inet.protocol, side, address, port: inet.port };
        match &inet.host {
            None => aim.targets.push(socket(None)),
            Some(Host::Address(address)) => aim.targets.push(socket(Some(*address))),
            Some(Host::Name(name)) => {
                let addresses = self.hosts.addresses(name);
                aim.targets.extend(addresses.iter().map(|address| socket(Some(*address))));
                if addresses.is_empty() {
                    aim.waits_for = Some(format!("an address of {name}"));
                }
            }
        }
    }

    /// What is at `path`; the rule waits for it when nothing is.
    fn look(&self, path: &Path, aim: &mut Aim) -> Result<Option<Node>, Refusal> {
        match node::look(&self.root, path) {
            Ok(found) => Ok(Some(found)),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                aim.waits_for = Some(path.display().to_string());
                Ok(None)
            }
            Err(error) => Err(self.unwatchable(&error, &path.display())),
        }
    }

    fn file(&mut self, slot: Slot, access: Access, path: &Path, found: &Node, aim: &mut Aim) -> Result<(), Refusal> {
        let path = path.display();
        let refused = |text: String| Err(Refusal::new(text));
        let device = match found.kind {
            Kind::Classed { playback: true, .. } if !access.write => {
                return refused(format!("{path} plays sound and cannot be read: write \"write {path}\""));
            }
            // Hooks of a class see the one thing that its devices are for.
            Kind::Classed { major, minor, playback } if playback || !access.write => {
                Some(Target::Device { major, minor })
            }
            Kind::Classed { .. } | Kind::Watched => None,
            Kind::Socket => {
                return refused(format!("{path} is a unix socket: write accept unix:{path} or connect unix:{path}"));
            }
            Kind::Else(kind) => {
                return refused(format!("{path} is {kind}: a channel is a device, a FIFO or a socket"));
            }
        };
        let watched = self.watches.watch(found.fd.as_fd(), slot, device.is_none());
        let wd = watched.map_err(|error| self.unwatchable(&error, &path))?;
        aim.targets.push(device.unwrap_or(Target::File { wd }));
        aim.watch = Some(wd);
        Ok(())
    }

    fn unix(
        &mut self,
        slot: Slot,
        side: Side,
        path: &Path,
        found: &Node,
        eyes: &impl Eyes,
        aim: &mut Aim,
    ) -> Result<(), Refusal> {
        let path = path.display();
        if found.kind != Kind::Socket {
            return Err(Refusal::new(format!("{path} is no unix socket: a device or FIFO is named without \"unix:\"")));
        }
        // The watch also keeps the inode, and with it its identity.
        let watched = self.watches.watch(found.fd.as_fd(), slot, false);
        let wd = watched.map_err(|error| self.unwatchable(&error, &path))?;
        match eyes.inode_of(found.fd.as_fd()) {
            Ok(inode) => aim.targets.push(Target::UnixPath { side, inode }),
            Err(error) => {
                self.watches.release(wd, slot);
                return Err(Refusal::new(format!("{path}: {error}")));
            }
        }
        aim.watch = Some(wd);
        Ok(())
    }

    /// Why a file cannot be watched, with the cure.
    fn unwatchable(&self, error: &io::Error, what: &impl fmt::Display) -> Refusal {
        // What inotify says when there are too many watches; no disk is concerned.
        if error.kind() != io::ErrorKind::StorageFull {
            return Refusal::new(format!("{what} cannot be watched: {error}"));
        }
        let limit = fs::read_to_string(self.root.join("proc/sys/fs/inotify/max_user_watches")).unwrap_or_default();
        Refusal::new(format!(
            "{what} cannot be watched: fs.inotify.max_user_watches is {}, and all are in use: raise it (sysctl -w \
             fs.inotify.max_user_watches=524288; for good in /etc/sysctl.d)",
            limit.trim()
        ))
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;
    use crate::names::tests::root;

    #[test]
    fn too_many_watches_are_told_with_the_cure() {
        let machine = root(&[("proc/sys/fs/inotify/max_user_watches", "8192\n")]);
        let world = World::new(machine.path()).expect("watches");
        let of = |error: Errno| world.unwatchable(&error.into(), &"/dev/x").to_string();
        let full = of(Errno::NOSPC);
        assert!(
            full.starts_with("/dev/x cannot be watched: fs.inotify.max_user_watches is 8192, and all are in use"),
            "{full}"
        );
        assert!(full.contains("sysctl -w"), "{full}");
        assert_eq!(of(Errno::ACCESS), "/dev/x cannot be watched: Permission denied (os error 13)");
    }
}
