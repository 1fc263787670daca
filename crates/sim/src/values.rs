//! Numbers that must lie in a range, checked where they enter.

use appease_policy::{PROGRESS_WEIGHT_0, elevation_nice, progress_weight};
use serde::{Deserialize, Serialize};

/// A number out of its range, and which range that is.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ValueError {
    /// A weight.
    #[error("weight {0} is out of range: write a number from 0.01 to 100, where 1 is everybody's default")]
    Weight(f64),
    /// The α of eq. 1.
    #[error(
        "alpha {0} is out of range: write a number from 0 up to, but not including, 0.5: the share of unhappiness that \
         a process keeps while it waits for another one"
    )]
    Alpha(f64),
    /// A nice value.
    #[error("nice {0} is out of range: write a whole number from -20 (most CPU time) to 19 (least)")]
    Nice(i64),
}

/// Weight of a customer or of a request, W(c) and w of the paper; 1 unless somebody sets it.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Weight(f64);

impl Weight {
    /// Everybody's weight that nobody set.
    pub const ONE: Self = Self(1.0);

    /// The number.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }

    /// The same in hundredths, as the programs have it.
    #[must_use]
    pub fn hundredths(self) -> u32 {
        (self.0 * 100.0).round() as u32
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self::ONE
    }
}

impl TryFrom<f64> for Weight {
    type Error = ValueError;

    fn try_from(weight: f64) -> Result<Self, ValueError> {
        // Not a number is in no range.
        if (0.01..=100.0).contains(&weight) { Ok(Self(weight)) } else { Err(ValueError::Weight(weight)) }
    }
}

impl From<Weight> for f64 {
    fn from(weight: Weight) -> Self {
        weight.0
    }
}

/// Share of its unhappiness that a process keeps while it waits for a service, α of eq. 1.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Alpha(f64);

impl Alpha {
    /// The service takes all of it over.
    pub const ZERO: Self = Self(0.0);

    /// The number.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }

    /// Splits unhappiness into what stays and what goes; nothing is lost.
    #[must_use]
    pub fn split(self, unhappiness_ns: i64) -> (i64, i64) {
        let stays = (unhappiness_ns as f64 * self.0).round() as i64;
        (stays, unhappiness_ns - stays)
    }
}

impl TryFrom<f64> for Alpha {
    type Error = ValueError;

    fn try_from(alpha: f64) -> Result<Self, ValueError> {
        if (0.0..0.5).contains(&alpha) { Ok(Self(alpha)) } else { Err(ValueError::Alpha(alpha)) }
    }
}

impl From<Alpha> for f64 {
    fn from(alpha: Alpha) -> Self {
        alpha.0
    }
}

/// A nice value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "i64")]
pub struct Nice(i8);

impl Nice {
    /// Weight of nice 0.
    pub const WEIGHT_0: u32 = PROGRESS_WEIGHT_0;

    /// The number.
    #[must_use]
    pub fn get(self) -> i8 {
        self.0
    }

    /// So many levels better, as far as there are levels.
    #[must_use]
    pub fn better_by(self, levels: u32) -> Self {
        Self(elevation_nice(self.0.into(), levels) as i8)
    }

    /// The kernel's weight for it; 1024 at nice 0.
    #[must_use]
    pub fn weight(self) -> u32 {
        progress_weight(self.0.into())
    }
}

impl TryFrom<i64> for Nice {
    type Error = ValueError;

    fn try_from(nice: i64) -> Result<Self, ValueError> {
        i8::try_from(nice).ok().filter(|n| (-20..20).contains(n)).map(Self).ok_or(ValueError::Nice(nice))
    }
}

impl From<Nice> for i64 {
    fn from(nice: Nice) -> Self {
        nice.0.into()
    }
}
