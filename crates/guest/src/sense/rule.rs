//! Channels that a check adds, as long as it needs them.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::answer;
use crate::clock::{self, Deadline};

/// How long the daemon may take to notice that something came or went, busy seconds.
const NOTICE_S: u64 = 10;

/// A channel by rule. Dropped, it is removed.
pub struct Rule {
    id: u32,
}

impl Rule {
    /// `appease channel add`, with these words: `read accept :7000 --user nobody`.
    pub fn add(words: &str) -> Result<Self> {
        let all: Vec<&str> = ["channel", "add"].into_iter().chain(words.split(' ')).collect();
        let said = String::from_utf8_lossy(&answer::command(&all)?).into_owned();
        // "added channel 9: read accept :7000, armed"
        let id = said
            .strip_prefix("added channel ")
            .and_then(|rest| rest.split_once(':'))
            .and_then(|(id, _)| id.parse().ok());
        Ok(Self { id: id.with_context(|| format!("appease channel add {words}: unexpected answer {said:?}"))? })
    }

    /// What the daemon calls a channel that has neither device nor address.
    pub fn node(&self) -> String {
        format!("channel {}", self.id)
    }

    /// How often it was hit.
    pub fn hits(&self) -> Result<u64> {
        self.row()?["hits"].as_u64().context("a channel's hits are not told")
    }

    /// Waits until its state is, or is no longer, `waiting` for what it is about.
    pub fn becomes(&self, waiting: bool) -> Result<()> {
        notices(|| Ok((self.row()?["state"] == "waiting") == waiting))
    }

    fn row(&self) -> Result<Value> {
        let row = rows()?.into_iter().find(|row| row["id"] == self.id);
        row.with_context(|| format!("channel {} is not in the list", self.id))
    }
}

/// Waits until there is a channel about `what`, or none any more.
pub fn lists(what: &str, is_there: bool) -> Result<()> {
    notices(|| Ok(rows()?.iter().any(|row| row["what"] == what) == is_there))
}

fn rows() -> Result<Vec<Value>> {
    let mut list = answer::ask(&["channel", "list", "--json"])?;
    match list["channels"].take() {
        Value::Array(rows) => Ok(rows),
        _ => bail!("appease channel list --json has no channels"),
    }
}

/// Waits until the daemon has noticed what came or went.
fn notices(has_noticed: impl Fn() -> Result<bool>) -> Result<()> {
    let deadline = Deadline::after_s(NOTICE_S);
    while !has_noticed()? {
        if deadline.has_passed() {
            bail!("the daemon did not notice within {NOTICE_S} s what came or went: {:?}", rows()?);
        }
        clock::sleep_ms(100);
    }
    Ok(())
}

impl Drop for Rule {
    fn drop(&mut self) {
        if let Err(error) = answer::command(&["channel", "remove", &self.id.to_string()]) {
            println!("# {error:#}");
        }
    }
}
