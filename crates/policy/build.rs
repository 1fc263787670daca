//! Compiles the policy headers natively and generates their bindings: the very code that BPF runs.

use std::{env, path::PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=../../bpf/policy");
    println!("cargo::rerun-if-changed=policy.h");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let wrappers = out.join("policy_wrappers.c");
    bindgen::Builder::default()
        .header("policy.h")
        .clang_arg("-I../../bpf/policy")
        .allowlist_file(".*/bpf/policy/.*")
        .derive_default(true)
        .wrap_static_fns(true)
        .wrap_static_fns_path(&wrappers)
        .generate()?
        .write_to_file(out.join("bindings.rs"))?;
    cc::Build::new()
        .file(&wrappers)
        .include(env::current_dir()?)
        .include("../../bpf/policy")
        .warnings(false)
        .compile("appease_policy");
    Ok(())
}
