//! The control socket: a varlink service named `appease.control` on `/run/appease/control`.
//!
//! Everybody may connect. The kernel tells who does (`SO_PEERCRED`), and reports about processes of others
//! are for root alone; so is every change.

mod client;
mod server;
mod wire;

pub use client::{ChannelList, Client, ClientError};
pub(crate) use server::{Answer, Listener, Peer, Reports};
pub use wire::{
    Attended, Chain, ChannelPage, ChannelRow, ChannelWords, Command, Confidence, ControlError, ControlProxy, Counter,
    Handler, Handling, HopStep, LaneNs, Lifted, Missing, Reloaded, Standing, Status, Why,
};
