//! Files of `/proc`, in which others are called as they like.

use std::path::PathBuf;

use appease_fuzz::Taken;

use crate::{
    backend::nice::avenrun,
    channel::{hierarchy, listeners},
    lock::holder,
    names::{self, Class, Identity, class, identity, stat_field},
};

/// Bytes of a command name.
const COMM_MAX: usize = 15;

/// A command name: whatever bytes, but no zero.
fn comm(taken: &mut Taken) -> Vec<u8> {
    let length = usize::from(taken.byte()) % (COMM_MAX + 1);
    taken.bytes(length).iter().copied().filter(|byte| *byte != 0).collect()
}

/// A word as the kernel writes it where it escapes some characters.
fn escaped(word: &[u8], characters: &[u8], octal: bool) -> Vec<u8> {
    let one = |byte: &u8| match (characters.contains(byte), octal, *byte) {
        (false, ..) => vec![*byte],
        (true, false, b'\n') => b"\\n".to_vec(),
        (true, false, byte) => vec![b'\\', byte],
        (true, true, byte) => format!("\\{byte:03o}").into_bytes(),
    };
    word.iter().flat_map(one).collect()
}

/// `/proc/PID/stat`: what a thread is called hides nothing.
pub(super) fn stat(input: &[u8]) {
    let raw = names::text(input.to_vec());
    let _: (_, Option<u64>) = (class(&raw), stat_field(&raw, 22));
    let _ = avenrun(&raw);
    let mut taken = Taken::from(input);
    let (is_kernels, policy, began) = (taken.byte() % 2 == 1, taken.byte(), taken.number(8));
    let flags = if is_kernels { 0x0020_0040 } else { 0x0040_0000 };
    let mut line = b"10 (".to_vec();
    line.extend(comm(&mut taken));
    line.extend(
        format!(
            ") S 1 1 1 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 {began} 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 {policy} 0 0 0\n"
        )
        .into_bytes(),
    );
    let line = names::text(line);
    assert_eq!(class(&line), Some(Class { kernel_thread: is_kernels, policy: policy.into() }), "{line:?}");
    assert_eq!(stat_field(&line, 22), Some(began), "{line:?}");
}

/// `/proc/PID/status`: what a process is called makes it nobody else's.
pub(super) fn status(input: &[u8]) {
    let raw = names::text(input.to_vec());
    let _ = identity(&raw);
    let mut taken = Taken::from(input);
    let word = |taken: &mut Taken| u32::try_from(taken.number(4)).unwrap_or(0);
    let (tgid, uid, saved) = (word(&mut taken), word(&mut taken), word(&mut taken));
    let mut text = b"Name:\t".to_vec();
    text.extend(escaped(&comm(&mut taken), b"\n\\", false));
    text.extend(format!("\nUmask:\t0022\nTgid:\t{tgid}\nUid:\t{uid}\t{uid}\t{saved}\t{uid}\n").into_bytes());
    let text = names::text(text);
    assert_eq!(identity(&text), Some(Identity { tgid, uid: (uid == saved).then_some(uid) }), "{text:?}");
}

/// `/proc/mounts`: what a user mounts is not taken for the cgroup v2 hierarchy, and does not hide it.
pub(super) fn mounts(input: &[u8]) {
    let raw = names::text(input.to_vec());
    let _ = hierarchy(&raw);
    let mut taken = Taken::from(input);
    let length = usize::from(taken.byte());
    let (source, point) = (taken.bytes(length), taken.rest());
    let name = |word: &[u8]| {
        let word: Vec<u8> = word.iter().copied().filter(|byte| *byte != 0).collect();
        escaped(&word, b" \t\n\\#", true)
    };
    let mut text = name(source);
    text.extend(b" /");
    text.extend(name(point));
    text.extend(b" fuse.x rw,nosuid,nodev 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
    let text = names::text(text);
    assert_eq!(hierarchy(&text), Some(PathBuf::from("/sys/fs/cgroup")), "{text:?}");
}

/// `/proc/net/tcp`: each listening socket, but not those that only this machine reaches.
pub(super) fn net(input: &[u8]) {
    let _ = listeners(input).count();
    let mut taken = Taken::from(input);
    let mut table =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n".to_owned();
    let mut expected = Vec::new();
    while !taken.rest().is_empty() {
        let (address, port, inode) = (taken.number(4), taken.number(2), taken.number(5));
        let address = u32::try_from(address).unwrap_or(0);
        table += &format!(
            "   0: {address:08X}:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 {inode} 1 0\n"
        );
        if address.to_ne_bytes()[0] != 127 {
            expected.push((inode, u16::try_from(port).unwrap_or(0)));
        }
    }
    assert_eq!(listeners(table.as_bytes()).collect::<Vec<_>>(), expected);
}

/// `/proc/locks`: who holds a lock is found among whatever else there is.
pub(super) fn locks(input: &[u8]) {
    let raw = names::text(input.to_vec());
    let _ = holder(&raw, 0, 55);
    let mut taken = Taken::from(input);
    let (pid, inode, minor) = (taken.number(3), taken.number(6), taken.number(1));
    let rest = names::text(taken.rest().to_vec());
    let own = format!("7: FLOCK  ADVISORY  WRITE {pid} 00:{minor:02x}:{inode} 0 EOF\n");
    let dev = rustix::fs::makedev(0, u32::try_from(minor).unwrap_or(0));
    let found = holder(&format!("{own}{rest}"), dev, inode);
    assert_eq!(found, u32::try_from(pid).ok(), "{own}{rest:?}");
}
