//! The initramfs: busybox, the few modules that reach the root file system, and a script. Uncompressed, since
//! unpacking would cost emulated instructions.

use std::io::{self, Write};

/// What runs first.
const INIT: &str = include_str!("init.sh");

/// Bits of a mode that tell what an entry is.
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;

/// Writes an archive in cpio's "newc" form (Linux Documentation/driver-api/early-userspace/buffer-format).
struct Cpio<W: Write> {
    to: W,
    inode: u32,
}

impl<W: Write> Cpio<W> {
    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        let too_large = |_| io::Error::other(format!("{name} is too large for an initramfs"));
        let size = u32::try_from(content.len()).map_err(too_large)?;
        let name_size = u32::try_from(name.len() + 1).map_err(too_large)?;
        // inode mode uid gid nlink mtime size dev(2) rdev(2) namesize check
        let fields = [self.inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        self.inode += 1;
        let mut header = String::from("070701");
        for field in fields {
            header.push_str(&format!("{field:08x}"));
        }
        self.to.write_all(header.as_bytes())?;
        self.to.write_all(name.as_bytes())?;
        self.to.write_all(&[0])?;
        self.pad(header.len() + name.len() + 1)?;
        self.to.write_all(content)?;
        self.pad(content.len())
    }

    fn pad(&mut self, written: usize) -> io::Result<()> {
        self.to.write_all(&[0; 3][..written.next_multiple_of(4) - written])
    }
}

/// A module: file name and content.
pub type Module = (String, Vec<u8>);

/// Writes the archive; `modules` are in the order in which they are loaded.
///
/// # Errors
/// When `to` cannot be written.
pub fn write(to: impl Write, busybox: &[u8], modules: &[Module]) -> io::Result<()> {
    let mut cpio = Cpio { to, inode: 1 };
    for dir in ["bin", "dev", "disk", "lib", "newroot", "proc", "run", "sys"] {
        cpio.entry(dir, DIRECTORY | 0o755, &[])?;
    }
    cpio.entry("bin/busybox", REGULAR | 0o755, busybox)?;
    cpio.entry("bin/sh", SYMLINK | 0o777, b"busybox")?;
    let mut order = String::new();
    for (name, content) in modules {
        cpio.entry(&format!("lib/{name}"), REGULAR | 0o644, content)?;
        order.push_str(name);
        order.push('\n');
    }
    cpio.entry("lib/order", REGULAR | 0o644, order.as_bytes())?;
    cpio.entry("init", REGULAR | 0o755, INIT.as_bytes())?;
    cpio.entry("TRAILER!!!", 0, &[])
}

/// The part of the recipe that this file is.
#[must_use]
pub fn recipe() -> &'static str {
    INIT
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use anyhow::{Context, Result};

    use super::write;

    #[test]
    fn cpio_can_read_it() -> Result<()> {
        let mut archive = Vec::new();
        write(&mut archive, b"program", &[("a.ko".into(), vec![1; 5]), ("b.ko".into(), vec![2; 8])])?;
        let mut child = Command::new("busybox")
            .args(["cpio", "-t"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        std::io::Write::write_all(&mut child.stdin.take().context("stdin")?, &archive)?;
        let output = child.wait_with_output()?;
        insta::assert_snapshot!(String::from_utf8(output.stdout)?, @r"
        bin
        dev
        disk
        lib
        newroot
        proc
        run
        sys
        bin/busybox
        bin/sh
        lib/a.ko
        lib/b.ko
        lib/order
        init
        ");
        Ok(())
    }
}
