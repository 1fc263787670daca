//! Weights as people write them.

use std::fmt;

use crate::channel::Refusal;

/// Parts of a weight of 1, and the least and the most of them.
const PARTS: f64 = 100.0;
const LEAST: f64 = 0.01;
const MOST: f64 = 100.0;

/// How much a request counts, in hundredths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Weight(u32);

impl Default for Weight {
    fn default() -> Self {
        Self(appease_policy::POLICY_WEIGHT_DEFAULT)
    }
}

impl Weight {
    /// Understands a number.
    pub(crate) fn new(number: f64) -> Result<Self, Refusal> {
        // Not a number is in no range.
        if (LEAST..=MOST).contains(&number) {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let parts = (number * PARTS).round() as u32;
            Ok(Self(parts))
        } else {
            Err(refusal(&shown(number)))
        }
    }

    /// Understands a word.
    pub(crate) fn parse(text: &str) -> Result<Self, Refusal> {
        let number =
            text.parse::<f64>().map_err(|_| refusal(&format!("{:?}", text.chars().take(40).collect::<String>())))?;
        Self::new(number)
    }

    /// As the kernel has it.
    pub(crate) fn hundredths(self) -> u32 {
        self.0
    }

    /// As programs have it.
    pub(crate) fn number(self) -> f64 {
        f64::from(self.0) / PARTS
    }
}

fn refusal(given: &str) -> Refusal {
    Refusal::new(format!("weight is {given}: allowed is {LEAST} to {MOST}, and 1 is what all others have"))
}

/// A number as a person would write it, also one that is far off.
pub(crate) fn shown(number: f64) -> String {
    let size = number.abs();
    if size >= 1e9 || (size > 0.0 && size < 1e-4) { format!("{number:e}") } else { number.to_string() }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_shown_as_it_is_written() {
        for text in ["0.01", "0.25", "1", "2.5", "4", "33.33", "100"] {
            assert_eq!(Weight::parse(text).map(|weight| weight.to_string()), Ok(text.into()));
        }
        assert_eq!(Weight::parse("4").map(Weight::hundredths), Ok(400));
        assert_eq!(Weight::default().to_string(), "1");
    }

    #[test]
    fn nonsense_is_named_with_what_is_allowed() {
        let refusals =
            ["0", "-1", "-0.0", "0.009", "100.01", "1e300", "1e-300", "inf", "-inf", "NaN", "heavy", "", "4,5"]
                .map(|text| Weight::parse(text).expect_err(text).to_string());
        insta::assert_snapshot!(refusals.join("\n"), @r#"
        weight is 0: allowed is 0.01 to 100, and 1 is what all others have
        weight is -1: allowed is 0.01 to 100, and 1 is what all others have
        weight is -0: allowed is 0.01 to 100, and 1 is what all others have
        weight is 0.009: allowed is 0.01 to 100, and 1 is what all others have
        weight is 100.01: allowed is 0.01 to 100, and 1 is what all others have
        weight is 1e300: allowed is 0.01 to 100, and 1 is what all others have
        weight is 1e-300: allowed is 0.01 to 100, and 1 is what all others have
        weight is inf: allowed is 0.01 to 100, and 1 is what all others have
        weight is -inf: allowed is 0.01 to 100, and 1 is what all others have
        weight is NaN: allowed is 0.01 to 100, and 1 is what all others have
        weight is "heavy": allowed is 0.01 to 100, and 1 is what all others have
        weight is "": allowed is 0.01 to 100, and 1 is what all others have
        weight is "4,5": allowed is 0.01 to 100, and 1 is what all others have
        "#);
    }
}
