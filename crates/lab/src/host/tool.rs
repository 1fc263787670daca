//! Running the host's programs so that none outlives us, and so that their errors name what was being done.

use std::{
    collections::VecDeque,
    ffi::OsStr,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::{interrupt::signalled, progress::Step};

/// Lines of a failed program's error output that are shown.
const SHOWN_LINES: usize = 12;

/// Whether a program is on PATH (or in an sbin directory, where mke2fs and depmod live).
#[must_use]
pub fn exists(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|dir| dir.join(program))
        .find(|file| file.is_file())
}

/// Whether files can be given to other users.
#[must_use]
pub fn am_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
}

/// A command that the kernel ends with `signal` when the thread that starts it ends, however that happens.
#[must_use]
pub fn guarded(program: impl AsRef<OsStr>, signal: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", signal, "--"]).arg(program);
    command
}

/// One run of a program.
pub struct Tool {
    purpose: String,
    command: Command,
    /// The signal that makes it end.
    stop: &'static str,
}

impl Tool {
    /// `purpose` completes "cannot …".
    #[must_use]
    pub fn new(program: &str, purpose: impl Into<String>) -> Self {
        let file = exists(program).unwrap_or_else(|| PathBuf::from(program));
        Self { purpose: purpose.into(), command: guarded(file, "TERM"), stop: "TERM" }
    }

    /// For programs that mount things or do not end when asked to: as root, it runs in process and mount namespaces
    /// of its own, so that its end is the end of all its processes and mounts.
    #[must_use]
    pub fn contained(program: &str, purpose: impl Into<String>) -> Self {
        if !am_root() {
            return Self::new(program, purpose);
        }
        let file = exists(program).unwrap_or_else(|| PathBuf::from(program));
        let mut command = guarded("unshare", "KILL");
        command.args(["--mount", "--pid", "--mount-proc", "--fork", "--kill-child=KILL", "--"]).arg(file);
        Self { purpose: purpose.into(), command, stop: "KILL" }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(key, value);
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Runs it and returns what it printed. What it says on standard error goes to `step` line by line.
    ///
    /// # Errors
    /// When it cannot be started or fails; the message has its last words.
    pub fn output(mut self, step: Option<&Step>) -> Result<String> {
        let mut child = self
            .command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot {}: start {:?}", self.purpose, self.command.get_program()))?;
        let errors = child.stderr.take();
        let output = child.stdout.take();
        let (pid, stop) = (child.id(), self.stop);
        let ended = AtomicBool::new(false);
        let (text, last) = std::thread::scope(|scope| {
            let watch = scope.spawn(|| stop_when_signalled(pid, stop, &ended));
            let text = scope.spawn(move || {
                let mut text = String::new();
                let read = output.map_or(Ok(0), |mut pipe| pipe.read_to_string(&mut text));
                read.map(|_| text)
            });
            let mut last = VecDeque::new();
            for line in errors.into_iter().flat_map(|pipe| BufReader::new(pipe).split(b'\n').map_while(Result::ok)) {
                let line = String::from_utf8_lossy(&line).trim_end().to_owned();
                if let Some(step) = step {
                    step.says(&line);
                }
                if last.len() == SHOWN_LINES {
                    last.pop_front();
                }
                last.push_back(line);
            }
            let text = text.join();
            ended.store(true, Ordering::SeqCst);
            watch.thread().unpark();
            (text, last)
        });
        let status = child.wait().with_context(|| format!("cannot {}", self.purpose))?;
        if !status.success() {
            let last: Vec<String> = last.into();
            bail!("cannot {}: {status}\n{}", self.purpose, last.join("\n"));
        }
        match text {
            Ok(read) => read.with_context(|| format!("cannot {}: its output", self.purpose)),
            Err(_) => bail!("cannot {}: its output was lost", self.purpose),
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// As [`Tool::output`].
    pub fn run(self, step: Option<&Step>) -> Result<()> {
        self.output(step).map(drop)
    }
}

/// Asks a program to end when we are asked: a signal that did not come from the terminal reached only us.
fn stop_when_signalled(pid: u32, stop: &str, ended: &AtomicBool) {
    while !ended.load(Ordering::SeqCst) {
        if signalled() {
            let _ = Command::new("kill").args(["-s", stop, &pid.to_string()]).status();
            return;
        }
        std::thread::park_timeout(Duration::from_millis(200));
    }
}

#[cfg(test)]
mod tests {
    use super::Tool;

    #[test]
    fn a_failure_names_the_purpose_and_the_last_words() {
        let error = Tool::new("sh", "boil water").args(["-c", "echo no kettle >&2; exit 3"]).run(None).err();
        let text = error.map(|e| e.to_string()).unwrap_or_default();
        insta::assert_snapshot!(text, @r"
        cannot boil water: exit status: 3
        no kettle
        ");
    }

    #[test]
    fn a_contained_program_leaves_no_process() -> anyhow::Result<()> {
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("late");
        let script = format!("(sleep 1; touch '{}') >/dev/null 2>&1 & exit 0", file.display());
        if super::am_root() {
            Tool::contained("sh", "leave a child").args(["-c", &script]).run(None)?;
            std::thread::sleep(std::time::Duration::from_millis(1500));
            assert!(!file.exists(), "the child lived on");
        }
        Ok(())
    }

    #[test]
    fn output_is_returned() {
        let text = Tool::new("sh", "speak").args(["-c", "echo words; echo noise >&2"]).output(None).ok();
        assert_eq!(text.as_deref(), Some("words\n"));
    }
}
