//! Steps of a build on standard error: a spinner with the tool's last line on a terminal, plain lines elsewhere.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// Width of the part of a tool's line that is shown.
const SAID_WIDTH: usize = 60;

/// Prints the steps of a longer work.
#[derive(Debug, Clone)]
pub struct Steps {
    bars: MultiProgress,
    terminal: bool,
}

impl Default for Steps {
    fn default() -> Self {
        Self { bars: MultiProgress::new(), terminal: std::io::stderr().is_terminal() }
    }
}

impl Steps {
    /// Begins a step.
    #[must_use]
    pub fn begin(&self, what: &str) -> Step {
        let bar = if self.terminal {
            let bar = self.bars.add(ProgressBar::new_spinner());
            bar.set_style(style("{spinner} {prefix} ({elapsed}) {wide_msg:.dim}"));
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        } else {
            eprintln!("{what} …");
            ProgressBar::hidden()
        };
        bar.set_prefix(what.to_owned());
        Step { bar, what: what.to_owned(), begun: Instant::now(), terminal: self.terminal, done: false }
    }

    /// The bars, so that others can be drawn among them.
    #[must_use]
    pub fn bars(&self) -> &MultiProgress {
        &self.bars
    }

    /// Whether somebody can see bars.
    #[must_use]
    pub fn on_terminal(&self) -> bool {
        self.terminal
    }

    /// Prints a line above the bars.
    pub fn note(&self, line: &str) {
        self.bars.suspend(|| eprintln!("{line}"));
    }
}

/// A style, or the default one where the template is wrong.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

/// A step that goes on until it is [done](Step::done) or dropped.
#[derive(Debug)]
pub struct Step {
    bar: ProgressBar,
    what: String,
    begun: Instant,
    terminal: bool,
    done: bool,
}

impl Step {
    /// Shows what the step's tool says.
    pub fn says(&self, line: &str) {
        let line = line.trim();
        if !line.is_empty() {
            self.bar.set_message(line.chars().take(SAID_WIDTH).collect::<String>());
        }
    }

    /// The step is complete.
    pub fn done(mut self) {
        self.done = true;
        let line = format!("{}: done in {:.1} s", self.what, self.begun.elapsed().as_secs_f64());
        self.bar.finish_and_clear();
        if self.terminal { self.bar.suspend(|| eprintln!("{line}")) } else { eprintln!("{line}") }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if !self.done {
            self.bar.finish_and_clear();
        }
    }
}
