//! The laboratory's host side: builds what a virtual machine boots from, runs scenarios in such machines, several
//! side by side, and collects what they measured.
//!
//! - [`host`]: the project's tree, the host's programs, signals, progress.
//! - [`debian`]: packages and kernels of Debian's archive.
//! - [`image`] and [`store`]: what is built, cached by its recipe.
//! - [`plan`]: a command line becomes a list of runs, checked before anything starts.
//! - [`vm`]: one machine. [`fleet`]: many.
//! - [`table`], [`report`], [`demo`], [`bench`](mod@bench): what people read.
#![forbid(unsafe_code)]

pub mod bench;
pub mod cli;
pub mod debian;
pub mod demo;
pub mod fleet;
pub mod host;
pub mod image;
pub mod peers;
pub mod plan;
pub mod report;
pub mod scheduler;
pub mod shell;
pub mod store;
pub mod table;
pub mod vm;
