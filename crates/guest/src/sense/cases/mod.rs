//! The checks themselves, by what they are about.

mod audio;
mod channels;
mod guards;
mod messages;
mod origins;

use anyhow::Result;

use super::stage::Stage;

/// A check's name and what it does.
pub type Case = (String, Box<dyn FnOnce(&mut Stage) -> Result<()>>);

/// All checks, in order.
pub fn all() -> Vec<Case> {
    [channels::all(), audio::all(), messages::all(), origins::all(), guards::all()].into_iter().flatten().collect()
}

/// Shorthand for a table of checks.
fn case(name: &str, steps: impl FnOnce(&mut Stage) -> Result<()> + 'static) -> Case {
    (name.to_owned(), Box::new(steps))
}
