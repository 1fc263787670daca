//! What `appease doctor` prints.

use std::process::ExitCode;

use appease_engine::doctor::{Finding, Level};

/// One line for each finding, and the verdict.
pub fn text(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.subject.len()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let mark = match finding.level {
            Level::Good => "ok  ",
            Level::Warning => "warn",
            Level::Obstacle => "FAIL",
        };
        text += &format!("{mark}  {:width$}  {}\n", finding.subject, finding.text);
    }
    text += match worst(findings) {
        Level::Obstacle => "\nappease cannot run here.\n",
        Level::Warning => "\nappease can run here, with the reservations above.\n",
        Level::Good => "\nappease can run here.\n",
    };
    text
}

/// Success when `appease run` would work.
pub fn verdict(findings: &[Finding]) -> ExitCode {
    if worst(findings) == Level::Obstacle { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn worst(findings: &[Finding]) -> Level {
    findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Good)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(level: Level, subject: &'static str, text: &str) -> Finding {
        Finding { level, subject, text: text.into() }
    }

    #[test]
    fn one_obstacle_decides() {
        let findings = [
            finding(Level::Good, "kernel", "6.12.48"),
            finding(Level::Obstacle, "sched_ext", "kernel 6.12.48 has none: boot another"),
            finding(Level::Warning, "privilege", "not root"),
        ];
        insta::assert_snapshot!(text(&findings), @r"
        ok    kernel     6.12.48
        FAIL  sched_ext  kernel 6.12.48 has none: boot another
        warn  privilege  not root

        appease cannot run here.
        ");
        assert_eq!(verdict(&findings), ExitCode::FAILURE);
        assert_eq!(verdict(&findings[2..]), ExitCode::SUCCESS);
        assert_eq!(verdict(&[]), ExitCode::SUCCESS);
    }
}
