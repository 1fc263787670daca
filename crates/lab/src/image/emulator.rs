//! The emulator: Debian's QEMU of the guest's release, unpacked with the libraries that it needs, so that every host
//! runs the same one, whatever it has installed.
//!
//! Before QEMU 8.1 a translated breakpoint could outlive its instruction: machines with several emulated CPUs then
//! died while their kernels patched themselves, as they do whenever a scheduler is attached.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::{
    debian::{Archive, RELEASE},
    host::{Layout, Program, Tool, free_space, guarded, require},
    store::{Store, remove},
};

/// Changes when the way of building does.
const RECIPE: &str = "emulator 1";
/// The package that has it.
const PACKAGE: &str = "qemu-system-x86";
/// Disk space for building it, MiB: downloads and unpacked tree.
const SPACE_MIB: u64 = 1024;

const PROGRAM: &str = "usr/bin/qemu-system-x86_64";
const LOADER: &str = "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2";
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
/// Devices that are libraries of their own.
const DEVICES: &str = "usr/lib/x86_64-linux-gnu/qemu";
/// Firmware.
const DATA: [&str; 2] = ["usr/share/qemu", "usr/share/seabios"];

/// Our plugin, as cargo names it.
const TURNS: &str = "libappease_turns.so";

/// An unpacked QEMU.
#[derive(Debug, Clone)]
pub struct Emulator {
    root: PathBuf,
    turns: PathBuf,
}

impl Emulator {
    /// The one that was unpacked at `root`, and the plugin for machines of several CPUs.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>, turns: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), turns: turns.into() }
    }

    /// The plugin that bounds the turns of a machine's CPUs (`crates/turns`).
    #[must_use]
    pub fn turns(&self) -> &Path {
        &self.turns
    }

    /// QEMU as a command that ends with us, without arguments.
    #[must_use]
    pub fn command(&self) -> Command {
        // By the loader of its own C library, which may be newer than the host's.
        let mut command = guarded(self.root.join(LOADER), "KILL");
        command.arg("--library-path").arg(self.root.join(LIBRARIES)).arg(self.root.join(PROGRAM));
        command.env("QEMU_MODULE_DIR", self.root.join(DEVICES));
        for dir in DATA {
            command.arg("-L").arg(self.root.join(dir));
        }
        command
    }
}

/// The emulator.
///
/// # Errors
/// When it is not there and cannot be fetched.
pub fn emulator(layout: &Layout, store: &Store) -> Result<Emulator> {
    let turns = layout.program(TURNS);
    ensure!(turns.is_file(), "the emulator's plugin is not built ({} is not there): run `make build`", turns.display());
    let root = store.get("emulator", &[RECIPE, RELEASE, PACKAGE].join("\n"), |part| {
        require(&[Program::APT])?;
        free_space(part, SPACE_MIB, "unpacking the emulator")?;
        let archive = Archive::open(layout)?;
        archive.update(store.steps())?;
        let packages = archive.closure(RELEASE, PACKAGE)?;
        let debs = archive.download(&packages, store.steps())?;
        let step = store.steps().begin("emulator");
        for deb in &debs {
            step.says(&deb.display().to_string());
            Tool::new("dpkg-deb", format!("unpack {}", deb.display()))
                .args(["-x".as_ref(), deb.as_os_str(), part.as_os_str()])
                .run(Some(&step))?;
        }
        keep_needed(part)?;
        let version = Emulator::at(part, &turns).command().arg("--version").output();
        let version = version.context("start the unpacked qemu-system-x86_64")?;
        ensure!(
            version.status.success(),
            "the unpacked qemu-system-x86_64 does not start: {}",
            String::from_utf8_lossy(&version.stderr).trim()
        );
        fs::write(part.join("version.txt"), version.stdout).context("write the emulator's version")?;
        step.done();
        Ok(())
    })?;
    Ok(Emulator::at(root, turns))
}

/// Removes all but libraries, firmware and the program.
fn keep_needed(root: &Path) -> Result<()> {
    for dir in ["etc", "var", "usr/sbin", "usr/share/doc", "usr/share/man", "usr/share/locale"] {
        remove(&root.join(dir))?;
    }
    Ok(())
}
