//! The lines by which a program says what it found: `ok NAME`, `not ok NAME: reason`, `figure NAME VALUE`, and
//! `sample NAME VALUE` for one of several.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

/// What a checking program has found so far.
#[derive(Debug, Default)]
pub struct Verdicts {
    /// Number of verdicts.
    pub made: u32,
    failed: u32,
}

impl Verdicts {
    /// Prints whether something holds.
    pub fn tell(&mut self, name: &str, holds: Result<()>) {
        self.made += 1;
        match holds {
            Ok(()) => println!("ok {name}"),
            Err(error) => {
                self.failed += 1;
                println!("not ok {name}: {error:#}");
            }
        }
    }

    /// An error if anything did not hold.
    pub fn end(&self) -> Result<()> {
        if self.failed > 0 {
            bail!("{} of {} verdicts are bad", self.failed, self.made);
        }
        Ok(())
    }
}

/// Prints a figure.
pub fn figure(name: &str, value: f64) {
    println!("figure {name} {value:.4}");
}

/// Prints one of several figures of this name.
pub fn sample(name: &str, value: f64) {
    println!("sample {name} {value:.6}");
}

/// What a program said.
#[derive(Debug, Default, PartialEq)]
pub struct Checks {
    /// Number of checks.
    pub total: u32,
    /// Those that failed, with reasons.
    pub failed: Vec<String>,
    /// What it measured, by name.
    pub figures: Vec<(String, f64)>,
    /// What it measured again and again.
    pub samples: BTreeMap<String, Vec<f64>>,
}

impl Checks {
    /// Reads a program's output; other lines are remarks.
    pub fn read(output: &str) -> Self {
        let mut checks = Self::default();
        for line in output.lines().map(str::trim) {
            if let Some(failure) = line.strip_prefix("not ok ") {
                checks.total += 1;
                checks.failed.push(failure.to_owned());
            } else if line.starts_with("ok ") {
                checks.total += 1;
            } else if let Some((name, value)) = named("figure ", line) {
                checks.figures.push((name.to_owned(), value));
            } else if let Some((name, value)) = named("sample ", line) {
                checks.samples.entry(name.to_owned()).or_default().push(value);
            }
        }
        checks
    }
}

fn named<'a>(kind: &str, line: &'a str) -> Option<(&'a str, f64)> {
    let (name, value) = line.strip_prefix(kind)?.split_once(' ')?;
    Some((name, value.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_names_failures() {
        let checks = Checks::read(
            "# remark\nok pipe\nnot ok fifo: nobody attended\nokay then\nfigure hops 3\nfigure of eight\n\
             sample wait_ms 1.5\nsample wait_ms 2\nsample\n",
        );
        let figures = vec![("hops".to_owned(), 3.0)];
        let samples = BTreeMap::from([("wait_ms".to_owned(), vec![1.5, 2.0])]);
        assert_eq!(checks, Checks { total: 2, failed: vec!["fifo: nobody attended".into()], figures, samples });
    }
}
