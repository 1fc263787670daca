//! The BPF objects of appease: what they record, loading them, and reading their maps.
//!
//! [`Sensor`] watches; [`Scheduler`] schedules by what it saw and shares its maps. Both detach when dropped. This crate
//! and `policy` are the only ones with unsafe code.

mod abi;
mod changes;
mod channels;
mod clock;
mod customers;
mod domains;
mod error;
pub mod features;
#[cfg(test)]
mod fuzz;
mod hogs;
mod hooks;
mod news;
mod policy;
mod rules;
mod scheduler;
mod sensor;
pub mod tasks;

pub use abi::{Attention, Channel, Handler, Hop, LANES, Lane, LaneTimes, Lift, Lock, Object, Process, Request};
pub use changes::{Change, Changed, Changes};
pub use channels::*;
pub use clock::Clock;
pub use customers::*;
pub use domains::cpus_of_list;
pub use error::Error;
pub use hogs::{Hog, HogNews, Hogs, Lockout};
pub use hooks::{MissingHook, hooks};
pub use news::{News, Raises};
pub use policy::{ConfidenceOptions, Policy};
pub use scheduler::{Exit, SchedOptions, Scheduler, try_scheduler};
pub use sensor::{SenseOptions, Sensor, try_hooks};

/// The generated skeletons.
#[allow(missing_docs, dead_code, unused, clippy::all, clippy::pedantic, clippy::unwrap_used)]
#[allow(clippy::undocumented_unsafe_blocks)]
mod skeletons {
    pub mod sense {
        include!(concat!(env!("OUT_DIR"), "/sense_skel.rs"));
    }
    pub mod sched {
        include!(concat!(env!("OUT_DIR"), "/sched_skel.rs"));
    }
    pub mod changes {
        include!(concat!(env!("OUT_DIR"), "/changes_skel.rs"));
    }
}
