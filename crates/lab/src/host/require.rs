//! What the host must have. `packaging/host-packages.txt` is the one table of Debian packages; `make deps`
//! installs from the same file.

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::tool::{Tool, exists};

/// The Debian packages that building and running the laboratory needs, one a line.
pub const PACKAGES: &str = include_str!("../../../../packaging/host-packages.txt");

/// A program of the host, and the Debian package that brings it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// The package.
    pub package: &'static str,
}

impl Program {
    /// Writes ext4 images.
    pub const MKE2FS: Self = Self { name: "mke2fs", package: "e2fsprogs" };
    /// Assembles root file systems.
    pub const MMDEBSTRAP: Self = Self { name: "mmdebstrap", package: "mmdebstrap" };
    /// Makes clips.
    pub const FFMPEG: Self = Self { name: "ffmpeg", package: "ffmpeg" };
    /// The initramfs' only program.
    pub const BUSYBOX: Self = Self { name: "busybox", package: "busybox-static" };
    /// Orders modules.
    pub const DEPMOD: Self = Self { name: "depmod", package: "kmod" };
    /// Unpacks modules.
    pub const XZ: Self = Self { name: "xz", package: "xz-utils" };
    /// Ends children with their parent.
    pub const SETPRIV: Self = Self { name: "setpriv", package: "util-linux" };
    /// Reads the archive.
    pub const APT: Self = Self { name: "apt-get", package: "apt" };
    /// Keeps file owners in images when we are not root.
    pub const FAKEROOT: Self = Self { name: "fakeroot", package: "fakeroot" };
}

/// Checks that programs exist.
///
/// # Errors
/// Names every missing one and the cure.
pub fn require(programs: &[Program]) -> Result<()> {
    let missing: Vec<&Program> = programs.iter().filter(|p| exists(p.name).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|p| p.name).collect();
    let packages: Vec<&str> = missing.iter().map(|p| p.package).collect();
    bail!("not installed: {}; run `make deps`, or as root `apt-get install {}`", names.join(", "), packages.join(" "))
}

/// Checks that `dir` (or the nearest ancestor that exists) has `needed_mib` free.
///
/// # Errors
/// Says how much is missing, and where.
pub fn free_space(dir: &Path, needed_mib: u64, purpose: &str) -> Result<()> {
    let there = dir.ancestors().find(|d| d.exists()).unwrap_or(Path::new("/"));
    let text = Tool::new("df", format!("see the free space of {}", there.display()))
        .args(["--output=avail", "--block-size=1M"])
        .args([there])
        .output(None)?;
    let free: u64 = text
        .lines()
        .nth(1)
        .and_then(|line| line.trim().parse().ok())
        .with_context(|| format!("df said nothing of {}", there.display()))?;
    if free < needed_mib {
        let cure = match dir == std::env::temp_dir() {
            true => "or name another directory by TMPDIR",
            false => "for example with `rm -r target/lab/store`",
        };
        bail!("{purpose} needs {needed_mib} MiB of disk space, {} has {free} MiB: free some, {cure}", there.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{PACKAGES, Program, free_space, require};

    #[test]
    fn every_program_comes_from_the_table() {
        for program in
            [Program::MKE2FS, Program::MMDEBSTRAP, Program::FFMPEG, Program::BUSYBOX, Program::DEPMOD, Program::XZ]
        {
            assert!(PACKAGES.lines().any(|line| line == program.package), "{} is not in the table", program.package);
        }
    }

    #[test]
    fn missing_programs_are_named_with_the_cure() {
        let absent = [Program { name: "no-such-a", package: "pkg-a" }, Program { name: "no-such-b", package: "pkg-b" }];
        let text = require(&absent).err().map(|e| e.to_string()).unwrap_or_default();
        insta::assert_snapshot!(text, @"not installed: no-such-a, no-such-b; run `make deps`, or as root `apt-get install pkg-a pkg-b`");
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let told = |dir: &Path| free_space(dir, u64::MAX, "a test").err().map(|e| e.to_string()).unwrap_or_default();
        assert!(told(Path::new("/")).ends_with("free some, for example with `rm -r target/lab/store`"));
        assert!(told(&std::env::temp_dir()).ends_with("free some, or name another directory by TMPDIR"));
        assert!(free_space(Path::new("/tmp/not/there"), 0, "a test").is_ok());
    }
}
