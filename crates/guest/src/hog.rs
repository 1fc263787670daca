//! Work that needs the CPU and nothing else: it calls nobody, and touches no memory.

use std::{
    hint::black_box,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result};

use crate::system::{TOOLS, take_name};

/// Of a hog's process.
pub const NAME: &str = "hog";

/// Its program and arguments.
pub fn words() -> [String; 2] {
    [format!("{TOOLS}/appease-guest"), "burn".into()]
}

/// `burn`: computes for ever.
///
/// A machine in exact mode emulates each instruction, and what one costs the host depends on those around it: long runs without a
/// branch or an access to memory are the cheapest. So the steps are written out.
pub fn burn() -> Result<()> {
    take_name(NAME)?;
    loop {
        compute(u64::MAX);
    }
}

/// So many times forty-eight steps.
pub fn compute(times: u64) {
    let mut state = 1_u64;
    for _ in 0..times {
        state = black_box(sixteen_steps(sixteen_steps(sixteen_steps(state))));
    }
}

#[inline(always)]
fn sixteen_steps(state: u64) -> u64 {
    four_steps(four_steps(four_steps(four_steps(state))))
}

#[inline(always)]
fn four_steps(state: u64) -> u64 {
    step(step(step(step(state))))
}

/// A step of Marsaglia's generator (Xorshift RNGs, 2003): nothing that a compiler can shorten.
#[inline(always)]
fn step(mut state: u64) -> u64 {
    state ^= state << 13;
    state ^= state >> 7;
    state ^ (state << 17)
}

/// Hogs, as long as this value lives.
pub struct Hogs(Vec<Child>);

impl Hogs {
    /// Starts so many.
    pub fn start(number: usize) -> Result<Self> {
        let [program, argument] = words();
        let mut hogs = Self(Vec::new());
        for _ in 0..number {
            let child = Command::new(&program).arg(&argument).stdin(Stdio::null()).spawn();
            hogs.0.push(child.with_context(|| format!("start {program}"))?);
        }
        Ok(hogs)
    }

    /// Their processes.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(Child::id)
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}
