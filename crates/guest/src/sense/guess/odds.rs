//! How well numbers guess what happened.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};

/// What was seen, by the name of each number; a number may be missing at a look.
#[derive(Debug, Default)]
pub struct Looks {
    looks: usize,
    numbers: BTreeMap<String, Vec<Option<f64>>>,
}

/// The best guess.
#[derive(Debug, Clone, PartialEq)]
pub struct Guess {
    /// By which number, and whether by its value or by its change; or by how many.
    pub by: String,
    /// Part of the slots of the second half in which it was right.
    pub right: f64,
    /// How many numbers were tried.
    pub numbers: usize,
}

/// True from a value on, or up to it.
#[derive(Debug, Clone, Copy)]
struct Rule {
    threshold: f64,
    is_above: bool,
}

impl Rule {
    /// A number that is missing is less than all others.
    fn says(self, value: Option<f64>) -> bool {
        value.is_some_and(|value| value > self.threshold) == self.is_above
    }

    fn say_all(self, values: &[Option<f64>]) -> Vec<bool> {
        values.iter().map(|value| self.says(*value)).collect()
    }
}

impl Looks {
    /// Reads lines of numbers by their names, one for each look.
    pub fn parse(text: &str) -> Result<Self> {
        let mut all = Self::default();
        for line in text.lines() {
            let look: BTreeMap<String, f64> =
                serde_json::from_str(line).with_context(|| format!("look {} is cut off", all.looks))?;
            for (name, value) in look {
                let values = all.numbers.entry(name).or_default();
                values.resize(all.looks, None);
                values.push(Some(value));
            }
            all.looks += 1;
        }
        let looks = all.looks;
        all.numbers.values_mut().for_each(|values| values.resize(looks, None));
        Ok(all)
    }

    /// How many looks there were.
    pub fn number(&self) -> usize {
        self.looks
    }

    /// The number that fits the first half of the slots best guesses the second half. Where several fit equally well, most of them are
    /// believed: counters in a list change places, so that one of them alone may mean something else later. The first look was before the
    /// first slot.
    pub fn best_guess(&self, truth: &[bool]) -> Option<Guess> {
        let half = truth.len() / 2;
        let (first, second) = truth.split_at(half);
        let (mut fits_best, mut best) = (0.0, Vec::new());
        for (name, values) in &self.numbers {
            let changes: Vec<_> = values.windows(2).map(|two| Some(two[1]? - two[0]?)).collect();
            for (what, series) in [("value", &values[1..]), ("change", &changes[..])] {
                let (rule, fits) = fit(&series[..half], first);
                if fits > fits_best {
                    (fits_best, best) = (fits, Vec::new());
                }
                if fits == fits_best {
                    best.push((format!("the {what} of {name}"), rule.say_all(&series[half..])));
                }
            }
        }
        let others = best.len().checked_sub(1)?;
        let said = (0..second.len()).map(|slot| 2 * best.iter().filter(|(_, says)| says[slot]).count() > best.len());
        let by = if others > 0 { format!("{} and {others} others", best[0].0) } else { best[0].0.clone() };
        Some(Guess { by, right: agree(said, second), numbers: self.numbers.len() })
    }
}

/// Part of the slots in which what was said is true.
fn agree(said: impl Iterator<Item = bool>, truth: &[bool]) -> f64 {
    let right = said.zip(truth).filter(|(said, is)| said == *is).count();
    right as f64 / truth.len().max(1) as f64
}

/// The rule that is right most often, and how often it is.
fn fit(values: &[Option<f64>], truth: &[bool]) -> (Rule, f64) {
    let bits: BTreeSet<u64> = values.iter().flatten().map(|value| value.to_bits()).collect();
    let thresholds = bits.into_iter().map(f64::from_bits).chain([f64::NEG_INFINITY]);
    let rules = thresholds.flat_map(|threshold| [true, false].map(|is_above| Rule { threshold, is_above }));
    let rated = rules.map(|rule| (rule, agree(values.iter().map(|value| rule.says(*value)), truth)));
    let never = (Rule { threshold: f64::INFINITY, is_above: true }, 0.0);
    rated.fold(never, |best, one| if one.1 > best.1 { one } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(numbers: impl Fn(usize) -> Vec<(&'static str, f64)>, number: usize) -> Looks {
        let line = |look| serde_json::to_string(&numbers(look).into_iter().collect::<BTreeMap<_, _>>());
        let lines: Vec<_> = (0..number).map(|look| line(look).expect("numbers")).collect();
        Looks::parse(&lines.join("\n")).expect("looks")
    }

    /// Slots in no order that a number below follows.
    fn truth(slot: usize) -> bool {
        (slot * slot + slot / 3) % 7 < 3
    }

    #[test]
    fn a_number_that_follows_guesses_by_its_change_and_others_do_not() {
        let is: Vec<_> = (0..100).map(truth).collect();
        let so_far = |look: usize| is.iter().take(look).filter(|typed| **typed).count() as f64;
        let told = looks(|look| vec![("clock", look as f64), ("opened", so_far(look) * 4.0)], 101);
        let guess = told.best_guess(&is).expect("a guess");
        assert_eq!((guess.by.as_str(), guess.right, guess.numbers), ("the change of opened", 1.0, 2));
        let untold = looks(|look| vec![("clock", look as f64)], 101);
        assert!(untold.best_guess(&is).expect("a guess").right < 0.7);
        assert_eq!(Looks::default().best_guess(&is), None);
    }

    #[test]
    fn a_number_that_is_there_at_times_guesses_too() {
        let is: Vec<_> = (0..100).map(truth).collect();
        let seen = |look: usize| if look > 0 && is[look - 1] { vec![("request", 3.0)] } else { Vec::new() };
        let guess = looks(seen, 101).best_guess(&is).expect("a guess");
        assert_eq!((guess.by.as_str(), guess.right), ("the value of request", 1.0));
    }

    #[test]
    fn most_of_those_that_fit_equally_well_are_believed() {
        let is: Vec<_> = (0..100).map(truth).collect();
        let typed = |look: usize| if look > 0 && is[look - 1] { 1.0 } else { 0.0 };
        let seen = |look: usize| {
            let moved = if look > 50 { 0.0 } else { typed(look) };
            vec![("a counter that moves", moved), ("keys", typed(look)), ("reads", typed(look))]
        };
        let guess = looks(seen, 101).best_guess(&is).expect("a guess");
        assert_eq!((guess.by.as_str(), guess.right), ("the value of a counter that moves and 2 others", 1.0));
    }

    #[test]
    fn a_line_that_is_cut_off_is_said() {
        let error = Looks::parse("{\"a\":1}\n{\"a\":").expect_err("half a line");
        assert_eq!(error.to_string(), "look 1 is cut off");
    }
}
