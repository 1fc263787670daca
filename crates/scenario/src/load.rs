//! What competes with the measured applications.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A background load, written `none`, `hogs:N`, `idle:N`, `build:N`, `users:N` or `all`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Load {
    /// Nothing beside the scenario's own applications.
    None,
    /// `stress-ng --cpu N`: N processes that never block.
    Hogs(u32),
    /// The same processes in class `SCHED_IDLE`: CPUs are as busy, and nobody has to be waited for.
    IdleHogs(u32),
    /// `make -j N` over a generated C tree, begun again whenever it is done.
    Build(u32),
    /// N users log in from the far side, and each does what the scenario's ssh application says: they compete with each
    /// other.
    Users(u32),
    /// All parts of the scenario at once: they compete with each other. At `none` each of them is there alone, by turns.
    All,
}

/// A load that is not of one of the six forms.
#[derive(Debug, thiserror::Error)]
#[error("load \"{0}\" is not known: write none, all, hogs:N, idle:N, build:N or users:N with N from 1 to 1024")]
pub struct ParseLoadError(String);

impl FromStr for Load {
    type Err = ParseLoadError;

    fn from_str(text: &str) -> Result<Self, ParseLoadError> {
        let wrong = || ParseLoadError(text.to_owned());
        match text {
            "none" => return Ok(Self::None),
            "all" => return Ok(Self::All),
            _ => {}
        }
        let (kind, count) = text.split_once(':').ok_or_else(wrong)?;
        let count = count.parse().ok().filter(|n| (1..=1024).contains(n)).ok_or_else(wrong)?;
        match kind {
            "hogs" => Ok(Self::Hogs(count)),
            "idle" => Ok(Self::IdleHogs(count)),
            "build" => Ok(Self::Build(count)),
            "users" => Ok(Self::Users(count)),
            _ => Err(wrong()),
        }
    }
}

impl TryFrom<String> for Load {
    type Error = ParseLoadError;

    fn try_from(text: String) -> Result<Self, ParseLoadError> {
        text.parse()
    }
}

impl From<Load> for String {
    fn from(load: Load) -> Self {
        load.to_string()
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Hogs(n) => write!(f, "hogs:{n}"),
            Self::IdleHogs(n) => write!(f, "idle:{n}"),
            Self::Build(n) => write!(f, "build:{n}"),
            Self::Users(n) => write!(f, "users:{n}"),
            Self::All => f.write_str("all"),
        }
    }
}
