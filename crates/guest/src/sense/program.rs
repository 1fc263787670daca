//! Small C programs, for system calls and locks that safe Rust has no words for.

use std::{
    fs::{self, File},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::clock::{self, Deadline};

/// How long a program may take, busy seconds.
const LIMIT_S: u64 = 30;

/// Compiles a program; where it is.
pub fn compile(dir: &Path, name: &str, source: &str) -> Result<PathBuf> {
    compile_files(dir, name, &[(&format!("{name}.c"), source)])
}

/// The same of several files, by name and content: sources and headers.
pub fn compile_files(dir: &Path, name: &str, files: &[(&str, &str)]) -> Result<PathBuf> {
    let program = dir.join(name);
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-Wall", "-o"]).arg(&program);
    for (file, content) in files {
        let path = dir.join(file);
        fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
        if file.ends_with(".c") {
            gcc.arg(path);
        }
    }
    let out = gcc.output().context("start gcc")?;
    if !out.status.success() {
        bail!("gcc {name}: {}", String::from_utf8_lossy(&out.stderr).trim());
    }
    Ok(program)
}

/// A program that runs as long as this value lives.
///
/// What it prints goes to a file: a pipe would hand on the attention that it may have.
pub struct Program {
    child: Child,
    output: PathBuf,
}

impl Program {
    /// Starts it; `output` is where it prints.
    pub fn start(command: &mut Command, input: Option<&OwnedFd>, output: PathBuf) -> Result<Self> {
        let input = input.map_or(Ok(Stdio::null()), |input| input.try_clone().map(Stdio::from));
        let file = File::create(&output).with_context(|| format!("create {}", output.display()))?;
        Self::start_between(command.stdin(input.context("share an end")?).stdout(file), output)
    }

    /// Starts it with the input and the output that it was given; `output` is where it prints, if that is a file.
    pub fn start_between(command: &mut Command, output: PathBuf) -> Result<Self> {
        let child = command.spawn().with_context(|| format!("start {}", command.get_program().display()))?;
        Ok(Self { child, output })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed so far; an error if it failed.
    pub fn output(&mut self) -> Result<String> {
        let status = self.child.try_wait().context("look after a program")?;
        let said = fs::read_to_string(&self.output).with_context(|| format!("read {}", self.output.display()))?;
        match status {
            Some(status) if !status.success() => bail!("a program ended ({status}): {said}"),
            _ => Ok(said),
        }
    }

    /// Waits until it has printed `lines` lines.
    pub fn prints(&mut self, lines: usize) -> Result<String> {
        wait_for(lines, || self.output())
    }
}

/// Waits until a program has printed `lines` lines to a file.
pub fn prints(output: &Path, lines: usize) -> Result<String> {
    wait_for(lines, || fs::read_to_string(output).with_context(|| format!("read {}", output.display())))
}

fn wait_for(lines: usize, mut said: impl FnMut() -> Result<String>) -> Result<String> {
    let deadline = Deadline::after_s(LIMIT_S);
    loop {
        let said = said()?;
        if said.lines().count() >= lines && said.ends_with('\n') {
            return Ok(said);
        }
        if deadline.has_passed() {
            bail!("a program printed no {lines} lines within {LIMIT_S} s: {said:?}");
        }
        clock::sleep_ms(10);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
