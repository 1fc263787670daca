//! Channels: where customers reach the machine, beside what everybody has.
//!
//! A [`Spec`] says what people wrote: operations, a file or socket, and whose. [`Channels`] holds the rules that are in force,
//! tells the kernel which targets lead to them, and follows the world: nodes that come and go, host names that change,
//! servers that start and stop.
//!
//! Invariants: no two rules have the same target in words and the same filter; a request that is refused changes nothing.

mod address;
pub(crate) mod config;
pub(crate) mod hosts;
mod node;
mod servers;
mod spec;
mod table;
mod watch;
mod who;
mod world;

pub use address::{Host, Inet, Unix};
#[cfg(test)]
pub(crate) use servers::listeners;
pub use spec::{Refusal, Spec, What, Who};
pub(crate) use table::{Channels, Entry, Source, State};
#[cfg(test)]
pub(crate) use who::hierarchy;
pub(crate) use who::{cgroup_dir, cgroup_id, uid};

pub use crate::customer::Weight;

use crate::seams::Channel;

/// Device classes with hooks of their own, in the order of their numbers, from 1 on.
const CLASSES: [Channel; 6] =
    [Channel::Evdev, Channel::Tty, Channel::Mouse, Channel::Joystick, Channel::Hidraw, Channel::Audio];

#[cfg(test)]
pub(crate) mod tests;
