//! What the daemon says about a process, and what a check expects it to say.

use std::{fmt, process::Command};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::system::TOOLS;

/// The daemon's answer about one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// `current`, `expired`, `spent`, `none`.
    pub standing: String,
    /// Lane in which it runs.
    pub lane: String,
    /// Whether a turn is lent to it.
    pub on_loan: bool,
    /// From where attention came; also when it is over.
    pub chain: Option<Chain>,
}

/// How a request came to a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// Id of the request.
    pub request: u64,
    /// Where it came from.
    pub origin: Origin,
    /// What carried it, and who picked it up.
    pub hops: Vec<(String, u32)>,
    /// How long ago it was opened, ns.
    pub opened_ago_ns: i64,
    /// How long attention lasts yet, ns.
    pub left_ns: i64,
}

/// Who read what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Kind of channel.
    pub channel: String,
    /// Its device node.
    pub node: String,
    /// Process that read it.
    pub reader: u32,
}

impl Origin {
    /// This process read from that channel.
    pub fn new(channel: &str, node: &str, reader: u32) -> Self {
        Self { channel: channel.to_owned(), node: node.to_owned(), reader }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} read by {}", self.channel, self.node, self.reader)
    }
}

/// A chain's steps, as messages show them.
struct Hops<'a>(&'a [(String, u32)]);

impl fmt::Display for Hops<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(object, pid)| write!(f, ", {object} to {pid}"))
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, lane {}", self.standing, self.lane)?;
        if self.on_loan {
            write!(f, " on loan")?;
        }
        let Some(chain) = &self.chain else { return Ok(()) };
        write!(f, ": {}{}, {} ms left", chain.origin, Hops(&chain.hops), chain.left_ns / 1_000_000)
    }
}

impl Found {
    fn parse(answer: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let pid = |value: &Value| value.as_u64().and_then(|pid| u32::try_from(pid).ok());
        let chain = match &answer["chain"] {
            Value::Null => None,
            chain => Some(Chain {
                request: chain["request"].as_u64()?,
                origin: Origin {
                    channel: text(&chain["channel"])?,
                    node: text(&chain["node"])?,
                    reader: pid(&chain["reader_pid"])?,
                },
                hops: chain["hops"]
                    .as_array()?
                    .iter()
                    .map(|hop| Some((text(&hop["object"])?, pid(&hop["pid"])?)))
                    .collect::<Option<_>>()?,
                opened_ago_ns: chain["opened_ago_ns"].as_i64()?,
                left_ns: chain["left_ns"].as_i64()?,
            }),
        };
        Some(Self {
            standing: text(&answer["standing"])?,
            lane: text(&answer["lane"])?,
            on_loan: answer["loan_left_ns"].as_u64()? > 0,
            chain,
        })
    }

    /// The chain of a process that has attention now.
    pub fn current(&self) -> Option<&Chain> {
        self.chain.as_ref().filter(|_| self.standing == "current")
    }

    /// Fails unless it serves, now, a request of this origin that came to it this way.
    pub fn must_be_attended(&self, origin: &Origin, hops: &[(&str, u32)]) -> Result<()> {
        let hops: Vec<(String, u32)> = hops.iter().map(|(object, pid)| ((*object).to_owned(), *pid)).collect();
        let fits = self.current().is_some_and(|chain| chain.origin == *origin && chain.hops == hops);
        if !fits || self.lane != "attended" {
            bail!("expected current, lane attended: {origin}{}; found {self}", Hops(&hops));
        }
        Ok(())
    }

    /// Fails if a request ever came to it.
    pub fn must_be_unattended(&self) -> Result<()> {
        if self.standing != "none" || self.chain.is_some() || self.lane == "attended" && !self.on_loan {
            bail!("expected no attention; found {self}");
        }
        Ok(())
    }

    /// Fails unless it is as `standing` says.
    pub fn must_stand(&self, standing: &str) -> Result<()> {
        if self.standing != standing || self.lane == "attended" && standing != "current" && !self.on_loan {
            bail!("expected {standing}; found {self}");
        }
        Ok(())
    }
}

/// What the daemon knows of a process.
pub fn why(pid: u32) -> Result<Found> {
    let answer = ask(&["why", &pid.to_string(), "--json"])?;
    Found::parse(&answer).with_context(|| format!("appease why {pid} --json: unexpected form: {answer}"))
}

/// The policy in force.
pub fn policy() -> Result<String> {
    in_status("policy")
}

/// What acts by it.
pub fn backend() -> Result<String> {
    in_status("backend")
}

fn in_status(key: &str) -> Result<String> {
    let status = ask(&["status", "--json"])?;
    let word = status[key].as_str().map(str::to_owned);
    word.with_context(|| format!("appease status --json has no {key}: {status}"))
}

/// Hooks that wait for one of these modules.
pub fn waiting_hooks(modules: &[&str]) -> Result<Vec<String>> {
    let status = ask(&["status", "--json"])?;
    let missing =
        status["missing"].as_array().with_context(|| format!("appease status --json has no missing: {status}"))?;
    let waits = missing.iter().filter(|hook| hook["waits_for_module"].as_str().is_some_and(|m| modules.contains(&m)));
    Ok(waits.filter_map(|hook| hook["hook"].as_str().map(str::to_owned)).collect())
}

/// Hooks that are missing for good, and what that costs.
pub fn missing_hooks() -> Result<Vec<String>> {
    let status = ask(&["status", "--json"])?;
    let missing =
        status["missing"].as_array().with_context(|| format!("appease status --json has no missing: {status}"))?;
    Ok(missing
        .iter()
        .map(|hook| format!("{} ({})", hook["hook"].as_str().unwrap_or("?"), hook["lost"].as_str().unwrap_or("?")))
        .collect())
}

/// What the kernel's programs counted under this name.
pub fn counter(name: &str) -> Result<u64> {
    let status = ask(&["status", "--json"])?;
    let counters = status["counters"].as_array().into_iter().flatten();
    let mut named = counters.filter(|counter| counter["name"] == name);
    named
        .next()
        .and_then(|counter| counter["value"].as_u64())
        .with_context(|| format!("appease status --json has no counter {name:?}: {status}"))
}

/// How often a turn was lent, or would have been to one that is not in debt.
pub fn loans() -> Result<u64> {
    Ok(counter("loans")? + counter("loans refused")?)
}

/// The daemon's answer to a question, as JSON.
pub fn ask(words: &[&str]) -> Result<Value> {
    let shown = words.join(" ");
    let out = command(words)?;
    serde_json::from_slice(&out).with_context(|| format!("appease {shown}: no JSON"))
}

/// Runs the command `appease`; what it printed.
pub fn command(words: &[&str]) -> Result<Vec<u8>> {
    let shown = words.join(" ");
    let out = Command::new(format!("{TOOLS}/appease"))
        .args(words)
        .output()
        .with_context(|| format!("start {TOOLS}/appease: it must be built, and the scheduler appease chosen"))?;
    if !out.status.success() {
        bail!("appease {shown}: {}", String::from_utf8_lossy(&out.stderr).trim());
    }
    Ok(out.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATTENDED: &str = r#"{"pid": 12, "comm": "cat", "lane": "attended", "standing": "current", "loan_left_ns": 0,
        "chain": {"request": 7, "channel": "evdev", "node": "/dev/input/event1", "device": "", "reader_pid": 10,
        "reader": "x", "opened_ago_ns": 1000, "served_ns": 5, "budget_ns": 9, "unhappy_ns": 5, "left_ns": 3000000,
        "hops": [{"object": "unix", "pid": 11, "comm": "x", "ago_ns": 1}, {"object": "pty", "pid": 12, "comm": "x", "ago_ns": 1}]}}"#;

    fn found(text: &str) -> Found {
        Found::parse(&serde_json::from_str(text).expect("JSON")).expect("an answer")
    }

    #[test]
    fn attention_is_told_from_its_absence() {
        let attended = found(ATTENDED);
        let origin = Origin::new("evdev", "/dev/input/event1", 10);
        let way = [("unix", 11), ("pty", 12)];
        assert!(attended.must_be_attended(&origin, &way).is_ok());
        assert!(attended.must_be_attended(&origin, &way[..1]).is_err());
        assert!(attended.must_be_attended(&Origin::new("evdev", "/dev/input/event2", 10), &way).is_err());
        assert!(attended.must_be_attended(&origin, &[("pipe", 11), ("pty", 12)]).is_err());
        assert!(attended.must_be_unattended().is_err());
        assert!(attended.must_stand("current").is_ok() && attended.must_stand("expired").is_err());
        let other = found(&ATTENDED.replace("\"attended\"", "\"other\""));
        assert!(other.must_be_attended(&origin, &way).is_err());
    }

    #[test]
    fn a_loan_is_no_attention() {
        let lent = found(r#"{"lane": "attended", "standing": "none", "loan_left_ns": 9, "chain": null}"#);
        assert!(lent.must_be_unattended().is_ok());
        let odd = found(r#"{"lane": "attended", "standing": "none", "loan_left_ns": 0, "chain": null}"#);
        assert!(odd.must_be_unattended().is_err());
    }

    #[test]
    fn messages_say_what_was_expected_and_found() {
        let error = found(ATTENDED).must_be_attended(&Origin::new("tty", "/dev/tty1", 9), &[]).expect_err("differs");
        insta::assert_snapshot!(error, @"expected current, lane attended: tty /dev/tty1 read by 9; found current, lane attended: evdev /dev/input/event1 read by 10, unix to 11, pty to 12, 3 ms left");
        let error = found(ATTENDED).must_be_unattended().expect_err("attended");
        insta::assert_snapshot!(error, @"expected no attention; found current, lane attended: evdev /dev/input/event1 read by 10, unix to 11, pty to 12, 3 ms left");
    }
}
