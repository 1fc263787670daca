//! Distributions of times, written in milliseconds.

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution as _, Exp, LogNormal, Pareto, Uniform};
use rand_pcg::Pcg32;
use serde::{Deserialize, Serialize};

use crate::MS;

/// Longest time that is drawn, ms: a year. What is longer is as good as this.
const LONGEST_MS: f64 = 365.0 * 86_400_000.0;

/// A time, as a scenario says it: a number of milliseconds, or one of the tables below.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Words", into = "Words")]
pub struct Time(Words);

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "a time is a number, { exponential = MEAN }, { uniform = [LEAST, MOST] }, \
    { lognormal = { median = MEDIAN, sigma = SIGMA } } or { pareto = { least = LEAST, shape = SHAPE } }, all in milliseconds"
)]
enum Words {
    Constant(f64),
    Table(Table),
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Table {
    /// With this mean.
    Exponential(f64),
    /// Between these two.
    Uniform([f64; 2]),
    /// Whose logarithm is normal.
    Lognormal { median: f64, sigma: f64 },
    /// With a heavy tail.
    Pareto { least: f64, shape: f64 },
}

/// A time that cannot be.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TimeError {
    /// Negative, not a number, or beyond a year.
    #[error("{0} ms is no time: write a number from 0 to {LONGEST_MS}")]
    Range(f64),
    /// Smaller than the smallest, and so on.
    #[error("{0} makes no sense: {1}")]
    Shape(&'static str, &'static str),
}

impl Time {
    /// Always the same.
    #[must_use]
    pub fn constant_ns(ns: u64) -> Self {
        Self(Words::Constant(ns as f64 / MS as f64))
    }
}

impl TryFrom<Words> for Time {
    type Error = TimeError;

    fn try_from(words: Words) -> Result<Self, TimeError> {
        let in_range = |ms: f64| if (0.0..=LONGEST_MS).contains(&ms) { Ok(()) } else { Err(TimeError::Range(ms)) };
        let positive = |n: f64, error| if n > 0.0 && n.is_finite() { Ok(()) } else { Err(error) };
        match words {
            Words::Constant(ms) => in_range(ms)?,
            Words::Table(Table::Exponential(mean)) => {
                in_range(mean)?;
                positive(mean, TimeError::Shape("exponential", "its mean must be above 0"))?;
            }
            Words::Table(Table::Uniform([least, most])) => {
                in_range(least)?;
                in_range(most)?;
                positive(most - least, TimeError::Shape("uniform", "the second number must be above the first"))?;
            }
            Words::Table(Table::Lognormal { median, sigma }) => {
                in_range(median)?;
                positive(median, TimeError::Shape("lognormal", "its median must be above 0"))?;
                positive(sigma, TimeError::Shape("lognormal", "its sigma must be above 0"))?;
            }
            Words::Table(Table::Pareto { least, shape }) => {
                in_range(least)?;
                positive(least, TimeError::Shape("pareto", "the least must be above 0"))?;
                positive(shape, TimeError::Shape("pareto", "its shape must be above 0"))?;
            }
        }
        Ok(Self(words))
    }
}

impl From<Time> for Words {
    fn from(time: Time) -> Self {
        time.0
    }
}

/// Draws times, ns.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sampler {
    Constant(u64),
    Exponential(Exp<f64>),
    Uniform(Uniform<f64>),
    Lognormal(LogNormal<f64>),
    Pareto(Pareto<f64>),
}

impl Sampler {
    pub(crate) fn draw(&self, rng: &mut Pcg32) -> u64 {
        let ms = match self {
            Self::Constant(ns) => return *ns,
            Self::Exponential(times) => times.sample(rng),
            Self::Uniform(times) => times.sample(rng),
            Self::Lognormal(times) => times.sample(rng),
            Self::Pareto(times) => times.sample(rng),
        };
        nanos(ms)
    }

    /// The first of many, such that those who draw alike do not begin at once.
    pub(crate) fn first(&self, rng: &mut Pcg32) -> u64 {
        match self {
            Self::Constant(ns) => (*ns as f64 * rng.random::<f64>()) as u64,
            _ => self.draw(rng),
        }
    }
}

impl From<Time> for Sampler {
    fn from(time: Time) -> Self {
        // What the check has let pass makes a distribution; its middle stands in where a library thinks otherwise.
        match time.0 {
            Words::Constant(ms) => Self::Constant(nanos(ms)),
            Words::Table(Table::Exponential(mean)) => {
                Exp::new(1.0 / mean).map_or(Self::Constant(nanos(mean)), Self::Exponential)
            }
            Words::Table(Table::Uniform([least, most])) => {
                Uniform::new(least, most).map_or(Self::Constant(nanos(least)), Self::Uniform)
            }
            Words::Table(Table::Lognormal { median, sigma }) => {
                LogNormal::new(median.ln(), sigma).map_or(Self::Constant(nanos(median)), Self::Lognormal)
            }
            Words::Table(Table::Pareto { least, shape }) => {
                Pareto::new(least, shape).map_or(Self::Constant(nanos(least)), Self::Pareto)
            }
        }
    }
}

fn nanos(ms: f64) -> u64 {
    (ms.min(LONGEST_MS) * MS as f64).round() as u64
}

/// A stream of random numbers of its own for the `entity`th of those that draw: what one draws changes nobody else's.
pub(crate) fn stream(seed: u64, entity: u64) -> Pcg32 {
    // An odd number near 2^64 divided by the golden ratio spreads neighbours over all seeds.
    Pcg32::seed_from_u64(seed.wrapping_add(entity.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
}
