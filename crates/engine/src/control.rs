//! The control socket: a varlink service named `appease.control` on `/run/appease/control`.
//!
//! Everybody may connect. The kernel tells who does (`SO_PEERCRED`), and reports about processes of others
//! are for root alone; so is every change.

mod client;
mod limits;
mod people;
mod server;
mod wire;

pub use client::{ChannelList, Client, ClientError, LatencyReport};
#[cfg(test)]
pub(crate) use server::answer_one;
pub(crate) use server::{Answer, Listener, Peer, Reports};
pub use wire::{
    Account, Attended, Chain, ChannelLatency, ChannelPage, ChannelRow, ChannelWords, Command, Confidence, ControlError,
    ControlProxy, Counter, CustomerName, CustomerRow, Handler, Handling, HopStep, LaneNs, LatencyPage, Lifted, Missing,
    Reloaded, RequestTotals, Responses, Standing, Status, Times, Why,
};
