//! What the fuzz targets of all crates have in common.
//!
//! A target is a test of its crate with [`target!`] in it. An ordinary run takes each kept input, and some thousand mutations of them.
//! `make fuzz` builds the same tests for libFuzzer (feature `libfuzzer`), which looks for inputs that reach further. An input has a bound on memory, so
//! a test binary with targets counts what it allocates.

#[cfg(feature = "libfuzzer")]
mod libfuzzer;
mod mutations;

use std::{
    fs,
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
};

use mutations::Mutations;
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Memory that the check of one input may take at most.
pub const MEMORY_MAX: usize = 64 << 20;
/// Mutations that an ordinary run makes.
const MUTATIONS: u32 = 2_000;

/// Makes the test around it a fuzz target of this name, which is the only one of that name in the workspace. `check` is a `fn(&[u8])` that
/// panics when something is wrong. Kept inputs are the files of the crate's `fuzz/NAME`.
#[macro_export]
macro_rules! target {
    ($name:literal, $check:path) => {
        $crate::run($name, ::std::path::Path::new(env!("CARGO_MANIFEST_DIR")), $check)
    };
}

/// Runs a target of the crate in a directory.
///
/// # Panics
/// When an input is found for which `check` panics, or takes more memory than it may.
pub fn run(name: &str, of_crate: &Path, check: fn(&[u8])) {
    let dir = of_crate.join("fuzz").join(name);
    #[cfg(feature = "libfuzzer")]
    if libfuzzer::drives(check) {
        return;
    }
    let kept = kept(&dir);
    assert!(!kept.is_empty(), "target {name} has no kept inputs in {}", dir.display());
    for (path, input) in &kept {
        one(check, input, &|| format!("the kept input {}", path.display()));
    }
    let mut mutations = Mutations::of(kept.into_iter().map(|(_, input)| input).collect());
    for number in 0..MUTATIONS {
        let input = mutations.make();
        one(check, &input, &|| format!("mutation {number} of target {name}, b\"{}\"", input.escape_ascii()));
    }
}

/// Names the input when it is a bad one.
fn one(check: fn(&[u8]), input: &[u8], what: &dyn Fn() -> String) {
    if let Err(reason) = panic::catch_unwind(AssertUnwindSafe(|| measured(check, input))) {
        eprintln!("so it is with {}", what());
        panic::resume_unwind(reason);
    }
}

/// Runs `check`, and returns how much memory that took at most.
fn measured(check: fn(&[u8]), input: &[u8]) -> usize {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    check(input);
    let taken = ALLOCATOR.peak_usage().saturating_sub(before);
    assert!(taken <= MEMORY_MAX, "an input of {} bytes takes {taken} bytes of memory", input.len());
    taken
}

fn kept(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut paths: Vec<_> = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.into_iter().filter_map(|path| fs::read(&path).ok().map(|input| (path, input))).collect()
}

/// Takes numbers and parts off the front of an input, for targets that need more than bytes. Zeros when it is used up.
#[derive(Debug, Clone, Copy)]
pub struct Taken<'a>(&'a [u8]);

impl<'a> Taken<'a> {
    /// Of all of it.
    #[must_use]
    pub fn from(input: &'a [u8]) -> Self {
        Self(input)
    }

    /// So many bytes, or what is left.
    pub fn bytes(&mut self, number: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(number.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    /// A number of so many bytes, the lowest one first; 8 at most.
    pub fn number(&mut self, bytes: usize) -> u64 {
        self.bytes(bytes.min(8)).iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// What is left.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }
}

/// Whether a text can be shown on a terminal and in a log: it has no control characters but ends of lines.
#[must_use]
pub fn is_printable(text: &str) -> bool {
    !text.chars().any(|c| c.is_control() && c != '\n')
}
