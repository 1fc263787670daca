//! The lines by which a checking program says what holds: `ok NAME`, `not ok NAME: reason`.

/// What a checking program said.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// Number of checks.
    pub total: u32,
    /// Those that failed, with reasons.
    pub failed: Vec<String>,
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
            }
        }
        checks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_names_failures() {
        let checks = Checks::read("# remark\nok pipe\nnot ok fifo: nobody attended\nokay then\n");
        assert_eq!(checks, Checks { total: 2, failed: vec!["fifo: nobody attended".into()] });
    }
}
