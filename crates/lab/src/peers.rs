//! Building the schedulers that we are compared with, by cargo, from crates.io.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{
    host::{Layout, Steps, Tool, exists, free_space},
    scheduler::PEERS,
};

/// Oldest clang that compiles their BPF, and the newest that is looked for.
const CLANGS: std::ops::RangeInclusive<u32> = 17..=30;
/// The clang that is preferred: the one that they are tested with here.
const PREFERRED: u32 = 19;

/// Disk space for building them, MiB; cargo keeps what it compiled.
const SPACE_MIB: u64 = 2048;

/// Installs peers below `target/lab/peers`; what is there in the current version stays.
///
/// # Errors
/// When a compiler is missing, or cargo fails.
pub fn build(layout: &Layout, names: &[String], steps: &Steps) -> Result<()> {
    let names: Vec<&str> = if names.is_empty() { PEERS.to_vec() } else { names.iter().map(String::as_str).collect() };
    if let Some(bad) = names.iter().find(|n| !n.starts_with("scx_")) {
        bail!("peer \"{bad}\" is not known: write a crate of the sched_ext family, like {}", PEERS.join(", "));
    }
    if exists("cargo").is_none() {
        bail!("cargo is not installed: see https://rustup.rs");
    }
    let (clang, library) = clang()?;
    if names.iter().any(|name| !layout.peer(name).is_file()) {
        free_space(&layout.lab("peers"), SPACE_MIB, "building peers")?;
    }
    let step = steps.begin(&format!("peers {}", names.join(" ")));
    Tool::new("cargo", format!("build {}", names.join(", ")))
        .args(["install", "--locked", "--root"])
        .args([layout.lab("peers")])
        .args(["--target-dir".as_ref(), layout.lab("peers/target").as_os_str()])
        .args(&names)
        .env("BPF_CLANG", &clang)
        .env("LIBCLANG_PATH", &library)
        .run(Some(&step))?;
    step.done();
    Ok(())
}

/// A clang for BPF, and the directory of its library for bindgen.
fn clang() -> Result<(PathBuf, PathBuf)> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let candidates = std::iter::once(PREFERRED).chain(CLANGS.rev()).map(|n| (format!("clang-{n}"), n));
    let found = candidates.filter_map(|(name, n)| Some((exists(&name)?, n))).next();
    let (clang, version) = match (set("BPF_CLANG"), found) {
        (Some(clang), found) => (clang, found.map(|(_, n)| n)),
        (None, Some((clang, n))) => (clang, Some(n)),
        (None, None) => bail!(
            "no clang of version 17 or later: run `make deps`, or as root `apt-get install clang-19 libclang-19-dev`"
        ),
    };
    let library = set("LIBCLANG_PATH")
        .or_else(|| version.map(|n| PathBuf::from(format!("/usr/lib/llvm-{n}/lib"))).filter(|dir| has_libclang(dir)))
        .context("no libclang beside clang: run `make deps`, or set LIBCLANG_PATH")?;
    Ok((clang, library))
}

fn has_libclang(dir: &Path) -> bool {
    std::fs::read_dir(dir).into_iter().flatten().flatten().any(|entry| {
        entry.file_name().to_string_lossy().starts_with("libclang.so")
            || entry.file_name().to_string_lossy().starts_with("libclang-")
    })
}
