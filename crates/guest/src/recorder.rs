//! The kernel's own tracing, as a directory of files: one of our own each time, so that nobody's settings are changed, or the one of
//! probes.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

const TRACING: &str = "/sys/kernel/tracing";

/// Where events are recorded.
pub struct Recorder(PathBuf);

impl Recorder {
    /// One of our own, which is there until it is removed.
    pub fn own(name: &str) -> Result<Self> {
        let dir = Path::new(TRACING).join("instances").join(name);
        fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        Ok(Self(dir))
    }

    /// The first one, where probes are made.
    pub fn first() -> Self {
        Self(TRACING.into())
    }

    pub fn has(&self, file: &str) -> bool {
        self.0.join(file).exists()
    }

    pub fn set(&self, file: &str, value: &str) -> Result<()> {
        let path = self.0.join(file);
        fs::write(&path, value).with_context(|| format!("write {value} to {}", path.display()))
    }

    /// What was recorded. A task's name in it may be any bytes.
    pub fn text(&self) -> Result<String> {
        let path = self.0.join("trace");
        let bytes = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Removes one of our own.
    pub fn remove(self) -> Result<()> {
        fs::remove_dir(&self.0).with_context(|| format!("remove {}", self.0.display()))
    }
}

/// Refuses a record whose buffer was too small for all events, which are `what`.
pub fn must_be_whole(record: &str, what: &str) -> Result<()> {
    let (kept, written) = kept(record).context("the trace does not say how much is in it")?;
    ensure!(kept == written, "{kept} of {written} {what} are left in the trace");
    Ok(())
}

/// How many events are in a record, and how many there were: `# entries-in-buffer/entries-written: 12/12   #P:4`.
fn kept(record: &str) -> Option<(u64, u64)> {
    let counts = record.lines().find_map(|line| line.strip_prefix("# entries-in-buffer/entries-written:"))?;
    let (kept, written) = counts.split_whitespace().next()?.split_once('/')?;
    Some((kept.parse().ok()?, written.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_says_whether_it_is_whole() {
        let head = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 12/15   #P:4\n#\n";
        assert_eq!(kept(head), Some((12, 15)));
        assert_eq!(kept("# tracer: nop"), None);
        assert!(must_be_whole(&head.replace("15", "12"), "events").is_ok());
        let refusal = must_be_whole(head, "events").map_err(|error| error.to_string());
        assert_eq!(refusal, Err("12 of 15 events are left in the trace".into()));
    }
}
