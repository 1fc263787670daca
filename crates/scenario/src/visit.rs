//! Who works on the machine from afar: the lines that they type into an ssh session.

use serde::{Deserialize, Serialize};

/// Longest name of an account, so that a number fits behind it.
const LONGEST_USER: usize = 24;

/// Somebody who logs in with ssh and types line after line, each when the one before was answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Visit {
    /// Shell command that the session runs, in a pseudo-terminal and in the user's home directory.
    pub run: String,
    /// What it prints whenever it is ready for a line, and at no other time.
    pub prompt: String,
    /// The lines, typed in turn.
    #[serde(rename = "line")]
    pub lines: Vec<Line>,
    /// How often all lines are typed, at most.
    pub rounds: u32,
    /// Time from an answer to the next line, milliseconds.
    pub pause_ms: f64,
}

/// One line that is typed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Its metric is `NAME_ms`.
    pub name: String,
    /// What is typed, without the Enter.
    pub text: String,
}

impl Visit {
    /// What is wrong with the visit of `user`, if anything.
    pub(crate) fn check(&self, user: &str) -> Result<(), String> {
        check_user(user)?;
        if self.prompt.trim().len() < 2 {
            return Err(format!("\"{user}\": prompt \"{}\" is too short to be told from output", self.prompt));
        }
        if self.lines.is_empty() || self.rounds == 0 {
            return Err(format!("\"{user}\" types nothing: write lines, and rounds of 1 or more"));
        }
        if !(0.0..=60_000.0).contains(&self.pause_ms) {
            return Err(format!("\"{user}\": pause_ms is {}: allowed is 0 to 60000", self.pause_ms));
        }
        for line in &self.lines {
            if line.name.is_empty() || !line.name.chars().all(|c| c.is_ascii_lowercase() || c == '_') {
                return Err(format!("\"{user}\": line name \"{}\": allowed are a to z and _", line.name));
            }
            if self.lines.iter().filter(|other| other.name == line.name).count() > 1 {
                return Err(format!("\"{user}\": two lines have the name \"{}\"", line.name));
            }
            if line.text.is_empty() || line.text.chars().any(char::is_control) {
                return Err(format!("\"{user}\": line \"{}\" must be one line of text", line.name));
            }
            // The terminal shows what is typed.
            if line.text.contains(&self.prompt) {
                return Err(format!("\"{user}\": line \"{}\" holds the prompt, and would answer itself", line.name));
            }
        }
        Ok(())
    }
}

/// What is wrong with `name` as the name of an account, if anything.
pub(crate) fn check_user(name: &str) -> Result<(), String> {
    let good = name.len() <= LONGEST_USER
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    if good {
        return Ok(());
    }
    Err(format!("user \"{name}\": a name has up to {LONGEST_USER} letters a to z and -, a letter first"))
}
