//! The lines by which a checking program says what holds: `ok NAME`, `not ok NAME: reason`, `figure NAME VALUE`.

/// What a checking program said.
#[derive(Debug, Default, PartialEq)]
pub struct Checks {
    /// Number of checks.
    pub total: u32,
    /// Those that failed, with reasons.
    pub failed: Vec<String>,
    /// What it measured, by name.
    pub figures: Vec<(String, f64)>,
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
            } else if let Some((name, value)) = line.strip_prefix("figure ").and_then(|rest| rest.split_once(' '))
                && let Ok(value) = value.parse()
            {
                checks.figures.push((name.to_owned(), value));
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
        let checks = Checks::read(
            "# remark\nok pipe\nnot ok fifo: nobody attended\nokay then\nfigure hops 3\nfigure of eight\n",
        );
        let figures = vec![("hops".to_owned(), 3.0)];
        assert_eq!(checks, Checks { total: 2, failed: vec!["fifo: nobody attended".into()], figures });
    }
}
