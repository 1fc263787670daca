//! The checks themselves, by what they are about.

mod audio;
mod channels;
mod cohandlers;
mod configuration;
mod datagrams;
mod files;
mod filters;
mod guards;
mod handlers;
mod locks;
mod many;
mod mapped;
mod messages;
mod offspring;
mod origins;
mod responses;
mod shared;
mod sockets;
mod within;

use anyhow::Result;

use super::stage::Stage;

/// A check's name and what it does.
pub type Case = (String, Box<dyn FnOnce(&mut Stage) -> Result<()>>);

/// All checks of a policy, in order. What only a scheduler of ours does is left out where there is none (`schedules`).
pub fn all(policy: &str, schedules: bool) -> Vec<Case> {
    let own = match policy {
        // It keeps no attention, and is no default: what is its own is checked.
        "rsio" => vec![handlers::all(), offspring::all(schedules), cohandlers::all()],
        _ => vec![
            channels::all(),
            audio::all(),
            mapped::all(),
            messages::all(),
            origins::all(),
            guards::all(),
            files::all(),
            filters::all(),
            sockets::all(),
            responses::all(),
            datagrams::all(),
            within::all(),
            many::all(),
            configuration::all(),
            shared::all(),
        ],
    };
    let lifts = if schedules { locks::all(policy != "rsio") } else { Vec::new() };
    // What every policy promises.
    let hooks = vec![case("hooks", channels::hooks)];
    [hooks].into_iter().chain(own).chain([lifts]).flatten().collect()
}

/// Shorthand for a table of checks.
pub fn case(name: &str, steps: impl FnOnce(&mut Stage) -> Result<()> + 'static) -> Case {
    (name.to_owned(), Box::new(steps))
}
