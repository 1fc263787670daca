//! The checks themselves, by what they are about.

mod abuse;
mod audio;
mod channels;
mod cohandlers;
mod datagrams;
mod files;
mod guards;
mod handlers;
mod locks;
mod many;
mod mapped;
mod messages;
mod offspring;
mod origins;
mod shared;
mod sockets;

use anyhow::Result;

use super::stage::Stage;

/// A check's name and what it does.
pub type Case = (String, Box<dyn FnOnce(&mut Stage) -> Result<()>>);

/// All checks of a policy, in order.
pub fn all(policy: &str) -> Vec<Case> {
    // It keeps no attention, and is no default: what is its own is checked.
    if policy == "rsio" {
        let parts = [handlers::all(), offspring::all(), cohandlers::all()];
        return parts.into_iter().flatten().collect();
    }
    let parts = [
        channels::all(),
        audio::all(),
        mapped::all(),
        messages::all(),
        origins::all(),
        guards::all(),
        files::all(),
        sockets::all(),
        datagrams::all(),
        many::all(),
        locks::all(),
        shared::all(),
        abuse::all(),
    ];
    parts.into_iter().flatten().collect()
}

/// Shorthand for a table of checks.
pub fn case(name: &str, steps: impl FnOnce(&mut Stage) -> Result<()> + 'static) -> Case {
    (name.to_owned(), Box::new(steps))
}
