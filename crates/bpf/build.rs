//! Compiles the BPF objects, and generates their skeletons and the bindings of `bpf/abi.h`.

use std::{env, path::PathBuf};

const OBJECTS: [(&str, &str); 3] =
    [("../../bpf/sense.bpf.c", "sense"), ("../../bpf/sched.bpf.c", "sched"), ("../../bpf/changes.bpf.c", "changes")];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=../../bpf");
    let include = env::current_dir()?.join("../../bpf");
    for (source, name) in OBJECTS {
        let built = scx_cargo::BpfBuilder::new().and_then(|mut builder| {
            builder.add_include_path(&include.to_string_lossy()).enable_skel(source, name).build()
        });
        if let Err(error) = built {
            return Err(format!(
                "compiling {source}: {error:#}. clang 17 or later is needed: apt-get install clang-19, BPF_CLANG=clang-19"
            )
            .into());
        }
    }
    bindgen::Builder::default()
        .header("../../bpf/abi.h")
        .allowlist_type("appease_.*")
        .allowlist_var("APPEASE_.*|HISTOGRAM_BUCKETS")
        .prepend_enum_name(false)
        .derive_default(true)
        .generate()?
        .write_to_file(PathBuf::from(env::var("OUT_DIR")?).join("abi.rs"))?;
    Ok(())
}
