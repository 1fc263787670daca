//! Debian's archive, through the host's apt with a configuration and package lists of our own.

mod archive;
mod kernel;

pub use archive::{Archive, Listed, RELEASE, debian_mirror, source};
pub use kernel::{Candidate, Kernel, Wanted, choose, resolve};
