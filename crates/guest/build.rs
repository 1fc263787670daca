//! Compiles `bpf/meter.bpf.c` into an object that the binary carries.

use std::{env, path::PathBuf, process::Command};

use libbpf_cargo::SkeletonBuilder;

/// Versions of clang that are tried when `BPF_CLANG` is not set, newest first.
const CLANG_VERSIONS: std::ops::RangeInclusive<u32> = 16..=24;

fn main() {
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("../../bpf");
    let source = root.join("meter.bpf.c");
    let object = PathBuf::from(variable("OUT_DIR")).join("meter.bpf.o");
    println!("cargo:rerun-if-changed={}", source.display());
    println!("cargo:rerun-if-changed={}", root.join("meter.h").display());
    println!("cargo:rerun-if-env-changed=BPF_CLANG");
    let built = SkeletonBuilder::new()
        .source(&source)
        .obj(&object)
        .clang(clang())
        .clang_args(["-mcpu=v3", "-Wall", "-Werror"])
        .build();
    if let Err(error) = built {
        panic!("compile {}: {error:#}", source.display());
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// `BPF_CLANG`, else the newest clang on the path.
fn clang() -> String {
    if let Ok(chosen) = env::var("BPF_CLANG") {
        return chosen;
    }
    let works = |name: &String| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success());
    CLANG_VERSIONS
        .rev()
        .map(|version| format!("clang-{version}"))
        .chain(["clang".to_owned()])
        .find(works)
        .unwrap_or_else(|| panic!("no clang found to compile BPF programs with: install clang-19, or set BPF_CLANG"))
}
