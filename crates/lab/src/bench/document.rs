//! Result files of the league: a file for each scenario, load and kernel, with the versions of what ran.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result, bail};
use appease_scenario::{Report, Run};
use serde::{Deserialize, Serialize};

use crate::host::write_whole;

/// Of the files that this program writes.
pub const FORMAT: u32 = 1;

/// A result file: a result document, and what it is of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Of the file.
    pub format: u32,
    /// Short form or not.
    pub short: bool,
    /// Versions of programs, by scheduler, and of the kernel.
    pub versions: BTreeMap<String, String>,
    /// The document itself.
    #[serde(flatten)]
    pub report: Report,
}

/// The format that a file of the league names; `None` of others.
#[must_use]
pub fn format_of(text: &[u8]) -> Option<u64> {
    serde_json::from_slice::<serde_json::Value>(text).ok()?.get("format")?.as_u64()
}

impl Document {
    /// Reads a file; `None` if it is not there.
    ///
    /// # Errors
    /// Names a file that is half written or of another version, with the cure.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        if !path.exists() {
            return Ok(None);
        }
        let shown = path.display();
        let text = fs::read(path).with_context(|| format!("read result file {shown}"))?;
        let cure = "remove it, and it is measured anew";
        match format_of(&text) {
            Some(format) if format != u64::from(FORMAT) => {
                bail!("{shown} has format {format}, and this program writes {FORMAT}: {cure}")
            }
            _ => {}
        }
        let document = serde_json::from_slice(&text);
        Ok(Some(document.with_context(|| format!("{shown} is half written, or no result file of the league: {cure}"))?))
    }

    /// Puts `run` in place of the one of its scheduler, and writes the file, whole or not at all.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(path: &Path, scenario: &str, short: bool, run: Run, versions: &BTreeMap<String, String>) -> Result<()> {
        let fresh = || Self {
            format: FORMAT,
            short,
            versions: BTreeMap::new(),
            report: Report { scenario: scenario.to_owned(), runs: Vec::new() },
        };
        let mut document = Self::read(path)?.unwrap_or_else(fresh);
        document.versions.extend(versions.clone());
        document.report.runs.retain(|other| other.scheduler != run.scheduler);
        document.report.runs.push(run);
        document.report.runs.sort_by(|a, b| a.scheduler.cmp(&b.scheduler));
        let text = serde_json::to_string_pretty(&document)?;
        write_whole("result file", path, &format!("{text}\n"))
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs};

    use anyhow::Result;
    use appease_scenario::{Load, Machine, Mode, Outcome, Run};

    use super::Document;

    fn run(scheduler: &str, detail: &str) -> Run {
        Run {
            scheduler: scheduler.into(),
            load: Load::None,
            kernel: "7.2.13".into(),
            machine: Machine::plain(Mode::Exact, 1),
            outcome: Outcome::Ok,
            detail: detail.into(),
            metrics: BTreeMap::new(),
        }
    }

    #[test]
    fn a_run_takes_the_place_of_its_scheduler() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("nap-none-default.json");
        let version = |word: &str| BTreeMap::from([("scx_b".to_owned(), word.to_owned())]);
        assert_eq!(Document::read(&path)?, None);
        Document::add(&path, "nap", true, run("scx_b", "first"), &version("1"))?;
        Document::add(&path, "nap", true, run("scx_a", ""), &BTreeMap::new())?;
        Document::add(&path, "nap", true, run("scx_b", "second"), &version("2"))?;
        let Some(document) = Document::read(&path)? else { anyhow::bail!("nothing was written") };
        let names: Vec<_> =
            document.report.runs.iter().map(|run| format!("{} {}", run.scheduler, run.detail)).collect();
        assert_eq!(names, ["scx_a ", "scx_b second"]);
        assert_eq!(document.versions, version("2"));
        assert_eq!(fs::read_dir(dir.path())?.count(), 1, "nothing else is left there");
        Ok(())
    }

    #[test]
    fn what_is_not_whole_or_of_another_version_is_refused_by_name() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("nap.json");
        let told = |text: &str| {
            fs::write(&path, text)?;
            let error = Document::read(&path).expect_err("refused");
            anyhow::Ok(error.to_string().replace(&dir.path().display().to_string(), "DIR"))
        };
        insta::assert_snapshot!(told(r#"{"format": 1, "scenario": "na"#)?, @"DIR/nap.json is half written, or no result file of the league: remove it, and it is measured anew");
        insta::assert_snapshot!(told(r#"{"scenario": "nap", "runs": []}"#)?, @"DIR/nap.json is half written, or no result file of the league: remove it, and it is measured anew");
        insta::assert_snapshot!(told(r#"{"format": 2, "scenario": "nap", "runs": []}"#)?, @"DIR/nap.json has format 2, and this program writes 1: remove it, and it is measured anew");
        Ok(())
    }
}
