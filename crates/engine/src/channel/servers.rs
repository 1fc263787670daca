//! Servers that bring their own channels: remote desktops, and ssh on another port.
//!
//! Anybody can call a program like one of them, and would have attention for whatever comes to its ports. So it is root's or that of the
//! user at the seat, who may have no more than a few ports. All others are for the administrator to name.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{BufRead, BufReader},
    net::IpAddr,
    path::Path,
};

use super::config::BuiltIn;
use crate::names::Names;

/// Servers by command name (the kernel keeps 15 characters).
const SERVERS: [(&str, BuiltIn); 14] = [
    ("sshd", BuiltIn::Ssh),
    ("dropbear", BuiltIn::Ssh),
    ("Xvnc", BuiltIn::RemoteDesktop),
    ("Xtigervnc", BuiltIn::RemoteDesktop),
    ("Xtightvnc", BuiltIn::RemoteDesktop),
    ("x0tigervncserve", BuiltIn::RemoteDesktop),
    ("x11vnc", BuiltIn::RemoteDesktop),
    ("wayvnc", BuiltIn::RemoteDesktop),
    ("xrdp", BuiltIn::RemoteDesktop),
    ("gnome-remote-de", BuiltIn::RemoteDesktop),
    ("krdpserver", BuiltIn::RemoteDesktop),
    ("krfb", BuiltIn::RemoteDesktop),
    ("vino-server", BuiltIn::RemoteDesktop),
    ("weston", BuiltIn::RemoteDesktop),
];

/// Ports that the user at the seat may have so. A server of a remote desktop has one for each display.
const PORTS_OF_USER: usize = 16;

/// State of a listening socket in `/proc/net/tcp`.
const LISTENS: &str = "0A";

/// A listening socket of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    pub port: u16,
    pub comm: String,
    pub kind: BuiltIn,
    is_roots: bool,
}

/// Remembers which sockets listened when processes were last looked through, and who sat at the seat.
#[derive(Default)]
pub(super) struct Servers {
    listening: Option<BTreeSet<(u64, u16)>>,
    seat: Option<u32>,
    /// How many changes there had been when they were last looked at.
    changes: Option<u64>,
}

impl Servers {
    /// Servers that listen now; nothing when the same sockets listen as at the last call, and the same user is at the seat. When it is
    /// known that there were as many `changes` as then, no sockets are read: the kernel walks through all of its connections for that.
    pub(super) fn changed(&mut self, root: &Path, changes: Option<u64>) -> Option<Vec<Server>> {
        let names = Names::new(root);
        let seat = names.seat_user();
        let has_other_seat = std::mem::replace(&mut self.seat, seat) != seat;
        if changes.is_some() && changes == self.changes && !has_other_seat {
            return None;
        }
        self.changes = changes;
        let listening = listening(root);
        if self.listening.as_ref() == Some(&listening) && !has_other_seat {
            return None;
        }
        let mut servers: Vec<Server> = Vec::new();
        for (pid, comm) in names.running(&SERVERS.map(|(comm, _)| comm)) {
            let Some((_, kind)) = SERVERS.iter().find(|(name, _)| *name == comm) else {
                continue;
            };
            let owner = names.identity(pid).and_then(|identity| identity.uid);
            let is_roots = owner == Some(0);
            if !is_roots && (owner.is_none() || owner != seat) {
                continue;
            }
            for inode in sockets(root, pid) {
                let ports = listening.range((inode, 0)..=(inode, u16::MAX)).map(|(_, port)| *port);
                servers.extend(ports.map(|port| Server { port, comm: comm.clone(), kind: *kind, is_roots }));
            }
        }
        self.listening = Some(listening);
        // Root's first, so that nobody takes their place.
        servers.sort_unstable_by_key(|server| (server.port, !server.is_roots));
        servers.dedup_by_key(|server| server.port);
        let mut left = PORTS_OF_USER;
        servers.retain(|server| {
            let may = server.is_roots || left > 0;
            left -= usize::from(may && !server.is_roots);
            may
        });
        Some(servers)
    }
}

/// Inode and port of each TCP socket that listens for others than this machine itself.
fn listening(root: &Path) -> BTreeSet<(u64, u16)> {
    ["proc/net/tcp", "proc/net/tcp6"]
        .iter()
        .filter_map(|table| File::open(root.join(table)).ok())
        .flat_map(|table| listeners(BufReader::new(table)).collect::<Vec<_>>())
        .collect()
}

/// The same of one table.
pub(crate) fn listeners(table: impl BufRead) -> impl Iterator<Item = (u64, u16)> {
    // Listening sockets come first; those in use may be very many.
    table.lines().skip(1).map_while(Result::ok).map_while(|line| listener(&line)).flatten()
}

/// Of a line of the table: nothing when the socket does not listen, nothing inside when it does so on the loopback device
/// alone, where no customer can reach it.
fn listener(line: &str) -> Option<Option<(u64, u16)>> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (address, port) = fields.get(1)?.split_once(':')?;
    if *fields.get(3)? != LISTENS {
        return None;
    }
    let port = u16::from_str_radix(port, 16).ok()?;
    let inode = fields.get(9)?.parse().ok()?;
    Some((!is_loopback(address)).then_some((inode, port)))
}

/// Of an address in hexadecimal, as 32-bit words in the machine's order: `0100007F` is 127.0.0.1.
fn is_loopback(address: &str) -> bool {
    let word = |at: usize| u32::from_str_radix(address.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    let bytes: Option<Vec<[u8; 4]>> = (0..address.len()).step_by(8).map(word).collect();
    let address = match bytes.unwrap_or_default().as_flattened() {
        [a, b, c, d] => IpAddr::from([*a, *b, *c, *d]),
        bytes => match <[u8; 16]>::try_from(bytes) {
            Ok(bytes) => IpAddr::from(bytes),
            Err(_) => return false,
        },
    };
    address.to_canonical().is_loopback()
}

/// Inodes of the sockets that a process has open.
fn sockets(root: &Path, pid: u32) -> Vec<u64> {
    let fds = fs::read_dir(root.join(format!("proc/{pid}/fd"))).into_iter().flatten().flatten();
    fds.filter_map(|fd| {
        let link = fs::read_link(fd.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::names::tests::root;

    const HEAD: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

    fn line(local: &str, state: &str, inode: u64) -> String {
        format!(
            "   0: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  1000        0 {inode} 1 0\n"
        )
    }

    /// A process with these sockets.
    fn runs(root: &Path, pid: u32, comm: &str, uid: u32, sockets: &[u64]) {
        let dir = root.join(format!("proc/{pid}"));
        fs::create_dir_all(dir.join("fd")).expect("made");
        fs::write(dir.join("comm"), format!("{comm}\n")).expect("written");
        fs::write(dir.join("status"), format!("Tgid:\t{pid}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")).expect("written");
        for inode in sockets {
            symlink(format!("socket:[{inode}]"), dir.join(format!("fd/{inode}"))).expect("linked");
        }
    }

    #[test]
    fn servers_come_and_go() {
        let tcp = |lines: &[String]| HEAD.to_owned() + &lines.concat();
        let (vnc, ssh, web) =
            (line("00000000:170C", "0A", 71), line("00000000:08AE", "0A", 72), line("00000000:0050", "0A", 73));
        let root = root(&[
            ("proc/net/tcp", &tcp(&[vnc.clone(), ssh.clone(), web])),
            ("proc/net/tcp6", &tcp(&[line("00000000000000000000000000000000:170C", "0A", 74)])),
        ]);
        runs(root.path(), 10, "x11vnc", 0, &[71, 74]);
        runs(root.path(), 11, "sshd", 0, &[72]);
        runs(root.path(), 12, "nginx", 0, &[73]);
        let mut servers = Servers::default();
        let mut shown = |changes| {
            let found = servers.changed(root.path(), changes)?;
            Some(found.iter().map(|one| format!("{} {}", one.comm, one.port)).collect::<Vec<_>>())
        };
        assert_eq!(shown(None), Some(vec!["sshd 2222".to_owned(), "x11vnc 5900".to_owned()]));
        assert_eq!(shown(None), None, "nothing new");
        assert_eq!(shown(Some(7)), None, "nothing new");
        fs::write(root.path().join("proc/net/tcp"), tcp(&[ssh])).expect("written");
        fs::write(root.path().join("proc/net/tcp6"), HEAD).expect("written");
        assert_eq!(shown(Some(7)), None, "not read");
        assert_eq!(shown(Some(8)), Some(vec!["sshd 2222".to_owned()]));
        fs::write(root.path().join("proc/net/tcp"), HEAD).expect("written");
        assert_eq!(servers.changed(root.path(), Some(8)), None, "not read");
    }

    #[test]
    fn a_server_is_roots_or_the_seats() {
        let ports: Vec<u64> = (1..=u64::try_from(PORTS_OF_USER).expect("few") + 2).collect();
        let lines: Vec<String> =
            ports.iter().map(|port| line(&format!("00000000:{:04X}", 7000 + port), "0A", *port)).collect();
        let own = line("00000000:170C", "0A", 71);
        let root = root(&[("proc/net/tcp", &(HEAD.to_owned() + &own + &lines.concat()))]);
        runs(root.path(), 10, "x11vnc", 0, &[71]);
        runs(root.path(), 11, "x11vnc", 1000, &ports);
        let mut servers = Servers::default();
        let mut found = |root: &Path| servers.changed(root, Some(1)).map(|found| found.len());
        assert_eq!(found(root.path()), Some(1), "anybody can call a program so");
        fs::create_dir_all(root.path().join("run/systemd/seats")).expect("made");
        let seat = root.path().join("run/systemd/seats/seat0");
        fs::write(&seat, "ACTIVE_UID=1000\n").expect("written");
        assert_eq!(found(root.path()), Some(1 + PORTS_OF_USER), "who sits there now has some ports");
        assert_eq!(found(root.path()), None);
        fs::write(&seat, "ACTIVE_UID=1001\n").expect("written");
        assert_eq!(found(root.path()), Some(1), "and has left");
    }

    #[test]
    fn what_only_this_machine_reaches_is_left_out() {
        assert_eq!(listener(&line("0100007F:170C", "0A", 5)), Some(None));
        assert_eq!(listener(&line("0102000A:170C", "0A", 5)), Some(Some((5, 5900))));
        assert_eq!(listener(&line("00000000000000000000000001000000:170C", "0A", 5)), Some(None));
        assert_eq!(listener(&line("0000000000000000FFFF00000100007F:170C", "0A", 5)), Some(None));
        assert_eq!(listener(&line("0000000000000000FFFF00000102000A:170C", "0A", 5)), Some(Some((5, 5900))));
        assert_eq!(listener(&line("00000000:170C", "01", 5)), None, "a connection");
    }

    #[test]
    fn real_listeners_are_seen() {
        let listener = std::net::TcpListener::bind("0.0.0.0:0").expect("bound");
        let port = listener.local_addr().expect("an address").port();
        let own = sockets(Path::new("/"), std::process::id());
        assert!(listening(Path::new("/")).iter().any(|(inode, at)| *at == port && own.contains(inode)));
    }
}
