//! The control socket: a varlink service named `appease.control` on `/run/appease/control`.
//!
//! Everybody may connect. The kernel tells who does (`SO_PEERCRED`), and reports about processes of others
//! are for root alone.

mod client;
mod server;
mod wire;

pub use client::{Client, ClientError};
pub(crate) use server::{Listener, Peer, Reports};
pub use wire::{
    Attended, Chain, Command, ControlError, ControlProxy, Counter, HopStep, LaneNs, Missing, Standing, Status, Why,
};
