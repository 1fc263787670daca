//! The checks themselves, by what they are about.

mod abuse;
mod audio;
mod channels;
mod files;
mod guards;
mod locks;
mod mapped;
mod messages;
mod origins;
mod sockets;

use anyhow::Result;

use super::stage::Stage;

/// A check's name and what it does.
pub type Case = (String, Box<dyn FnOnce(&mut Stage) -> Result<()>>);

/// All checks, in order.
pub fn all() -> Vec<Case> {
    let parts = [
        channels::all(),
        audio::all(),
        mapped::all(),
        messages::all(),
        origins::all(),
        guards::all(),
        files::all(),
        sockets::all(),
        locks::all(),
        abuse::all(),
    ];
    parts.into_iter().flatten().collect()
}

/// Shorthand for a table of checks.
pub fn case(name: &str, steps: impl FnOnce(&mut Stage) -> Result<()> + 'static) -> Case {
    (name.to_owned(), Box::new(steps))
}
