//! The daemon behind `appease run`, and what its clients share with it.
//!
//! [`daemon::run`] loads the eyes (`sense`), attaches the scheduler, answers on the control socket and polls
//! for new modules until it is told to stop or the kernel ejects the scheduler. Everything that touches the
//! kernel is behind the traits of [`seams`], so that the daemon is tested whole, in-process, with fakes.
//!
//! Invariants: nothing is changed before the lock is held and every known obstacle is ruled out; whatever
//! way the daemon ends, dropping what it holds detaches the scheduler and leaves the kernel's own.
#![forbid(unsafe_code)]

mod backend;
pub mod channel;
mod clock;
pub mod config;
pub mod control;
mod customer;
pub mod daemon;
pub mod doctor;
mod ejections;
mod error;
#[cfg(test)]
mod fuzz;
mod journal;
mod latency;
mod lock;
mod names;
mod report;
mod reserve;
pub mod resolver;
pub mod restore;
pub mod seams;
mod shutdown;

pub use appease_bpf::tasks::be_patient;
pub use error::Error;
