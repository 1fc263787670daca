//! Mixes: the scheduling classes and nice values that a user gives to the display server and to the applications.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::App;

/// Highest realtime priority in a mix; the one above it is the laboratory's, which must end a measurement and type on time.
const HIGHEST_PRIORITY: u32 = 98;

/// A scheduling class of the kernel's, written `other`, `nice:N`, `batch`, `idle`, `fifo:P` or `rr:P`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Class {
    /// `SCHED_OTHER` at this nice value; `other` is that at 0.
    Other(i32),
    /// `SCHED_BATCH`.
    Batch,
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_FIFO` at this priority.
    Fifo(u32),
    /// `SCHED_RR` at this priority.
    RoundRobin(u32),
}

/// A class that is not of one of the forms.
#[derive(Debug, thiserror::Error)]
#[error(
    "class \"{0}\" is not known: write other, nice:N with N from -20 to 19, batch, idle, or fifo:P or rr:P with P from 1 to \
     {HIGHEST_PRIORITY} (what is above is the laboratory's own)"
)]
pub struct ParseClassError(String);

impl Class {
    /// Whether it goes before all who are not realtime.
    #[must_use]
    pub fn is_realtime(self) -> bool {
        matches!(self, Self::Fifo(_) | Self::RoundRobin(_))
    }
}

impl FromStr for Class {
    type Err = ParseClassError;

    fn from_str(text: &str) -> Result<Self, ParseClassError> {
        let priority = |word: &str| word.parse().ok().filter(|priority| (1..=HIGHEST_PRIORITY).contains(priority));
        let class = match text.split_once(':') {
            None => match text {
                "other" => Some(Self::Other(0)),
                "batch" => Some(Self::Batch),
                "idle" => Some(Self::Idle),
                _ => None,
            },
            Some(("nice", nice)) => nice.parse().ok().filter(|nice| (-20..=19).contains(nice)).map(Self::Other),
            Some(("fifo", word)) => priority(word).map(Self::Fifo),
            Some(("rr", word)) => priority(word).map(Self::RoundRobin),
            Some(_) => None,
        };
        class.ok_or_else(|| ParseClassError(text.to_owned()))
    }
}

impl TryFrom<String> for Class {
    type Error = ParseClassError;

    fn try_from(text: String) -> Result<Self, ParseClassError> {
        text.parse()
    }
}

impl From<Class> for String {
    fn from(class: Class) -> Self {
        class.to_string()
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(0) => f.write_str("other"),
            Self::Other(nice) => write!(f, "nice:{nice}"),
            Self::Batch => f.write_str("batch"),
            Self::Idle => f.write_str("idle"),
            Self::Fifo(priority) => write!(f, "fifo:{priority}"),
            Self::RoundRobin(priority) => write!(f, "rr:{priority}"),
        }
    }
}

/// Classes for the display server and for applications. Whoever is not named keeps what it has; what an application starts
/// inherits from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// What stands after the `+` of a scheduler.
    pub name: String,
    /// The X server's.
    #[serde(default)]
    pub display: Option<Class>,
    /// Applications', by their ids.
    #[serde(default)]
    pub apps: BTreeMap<String, Class>,
    /// Whether the kernel keeps a part of each CPU for those who are not realtime, as it does by itself.
    #[serde(default = "yes")]
    pub protected: bool,
}

fn yes() -> bool {
    true
}

impl Mix {
    pub(crate) fn check(&self, apps: &[App]) -> Result<(), String> {
        let Self { name, .. } = self;
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
            return Err(format!("mix \"{name}\": a name is made of small letters, digits and \"-\""));
        }
        if let Some(unknown) = self.apps.keys().find(|id| !apps.iter().any(|app| app.id == **id)) {
            let known: Vec<&str> = apps.iter().map(|app| app.id.as_str()).collect();
            return Err(format!("mix \"{name}\": \"{unknown}\" is no application: there is {}", known.join(", ")));
        }
        if !self.protected && !self.apps.values().chain(&self.display).any(|class| class.is_realtime()) {
            return Err(format!("mix \"{name}\": protected is false, but nobody in it is realtime"));
        }
        Ok(())
    }
}

/// A scheduler's name and that of the mix that stands after it: `eevdf+fifo-video`.
#[must_use]
pub fn scheduler_and_mix(name: &str) -> (&str, Option<&str>) {
    name.split_once('+').map_or((name, None), |(scheduler, mix)| (scheduler, Some(mix)))
}

#[cfg(test)]
mod tests {
    use super::{Class, scheduler_and_mix};

    #[test]
    fn classes_are_understood_and_written_alike() {
        for text in ["other", "nice:-20", "nice:19", "batch", "idle", "fifo:1", "rr:98"] {
            assert_eq!(text.parse::<Class>().map(|class| class.to_string()).ok().as_deref(), Some(text));
        }
        assert_eq!("nice:0".parse::<Class>().ok(), Some(Class::Other(0)));
    }

    #[test]
    fn what_is_no_class_is_told_what_is_one() {
        for text in ["", "nice", "nice:-21", "nice:20", "fifo", "fifo:0", "fifo:99", "rr:100", "batch:3", "deadline:1"]
        {
            let told = text.parse::<Class>().err().map(|error| error.to_string()).unwrap_or_default();
            assert!(told.starts_with(&format!("class \"{text}\" is not known: write other, nice:N")), "{text}: {told}");
        }
    }

    #[test]
    fn a_mix_stands_after_its_scheduler() {
        assert_eq!(scheduler_and_mix("eevdf"), ("eevdf", None));
        assert_eq!(scheduler_and_mix("appease:rsio@nice+batch"), ("appease:rsio@nice", Some("batch")));
    }
}
