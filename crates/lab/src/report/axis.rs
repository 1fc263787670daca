//! Scales of plots: linear or logarithmic, with round figures at their ticks.

use super::names::figure;

/// From this ratio of largest to smallest on, a scale is logarithmic.
const LOG_FROM_RATIO: f64 = 6.0;

/// A scale of one axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Axis {
    /// The value at its beginning.
    pub low: f64,
    high: f64,
    log: bool,
}

impl Axis {
    /// A scale that holds all values; from zero if `from_zero`.
    pub fn of(values: impl Iterator<Item = f64>, from_zero: bool) -> Self {
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let mut low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let mut high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if values.is_empty() {
            (low, high) = (0.0, 1.0);
        }
        if !from_zero && low > 0.0 && high / low >= LOG_FROM_RATIO {
            return Self { low: round_log(low, false), high: round_log(high, true), log: true };
        }
        if from_zero || (low > 0.0 && low < 0.4 * high) {
            low = low.min(0.0);
        }
        if high - low < 1e-9 {
            high = low + if low == 0.0 { 1.0 } else { low.abs() * 0.1 };
            low -= if low == 0.0 { 0.0 } else { low.abs() * 0.1 };
        }
        let step = step(high - low);
        Self { low: (low / step).floor() * step, high: (high / step - 1e-9).ceil() * step, log: false }
    }

    /// Place of a value, 0 to 1.
    pub fn place(self, value: f64) -> f64 {
        let place = if self.log {
            (value / self.low).log10() / (self.high / self.low).log10()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        place.clamp(0.0, 1.0)
    }

    /// Where grid lines are, and whether they bear a label.
    pub fn ticks(self) -> Vec<(f64, bool)> {
        if !self.log {
            let step = step(self.high - self.low);
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // about five
            let count = ((self.high - self.low) / step).round() as u32;
            return (0..=count).map(|i| (self.low + f64::from(i) * step, true)).collect();
        }
        let decades = (self.high / self.low).log10();
        let mut ticks = Vec::new();
        #[allow(clippy::cast_possible_truncation)] // a few decades
        for exponent in self.low.log10().floor() as i32..=self.high.log10().ceil() as i32 {
            for factor in 1..10 {
                let value = f64::from(factor) * 10f64.powi(exponent);
                if value < self.low * 0.999 || value > self.high * 1.001 {
                    continue;
                }
                let labelled = factor == 1 || (decades < 2.6 && matches!(factor, 2 | 5));
                if labelled || decades < 3.2 {
                    ticks.push((value, labelled));
                }
            }
        }
        ticks
    }

    /// The unit, and whether the scale is logarithmic.
    pub fn name(self, unit: &str) -> String {
        if self.log { format!("{unit}, logarithmic") } else { unit.to_owned() }
    }
}

/// About five steps of 1, 2 or 5 times a power of ten.
fn step(span: f64) -> f64 {
    let power = 10f64.powf((span / 5.0).log10().floor());
    let wanted = span / 5.0 / power;
    power
        * if wanted <= 1.0 {
            1.0
        } else if wanted <= 2.0 {
            2.0
        } else if wanted <= 5.0 {
            5.0
        } else {
            10.0
        }
}

/// The next 1, 2 or 5 times a power of ten, below or above.
fn round_log(value: f64, up: bool) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let found = if up {
        steps.into_iter().find(|step| *step >= value * 0.9999)
    } else {
        steps.into_iter().rev().find(|step| *step <= value * 1.0001)
    };
    found.unwrap_or(value)
}

/// A figure at an axis, without zeros that say nothing.
pub(super) fn tick(value: f64) -> String {
    let text = figure(value);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}
