//! The host: where the project lies, which programs it has, and how they are run.

mod interrupt;
mod layout;
pub mod progress;
mod require;
mod tool;
mod whole;

pub use interrupt::Interrupt;
pub use layout::Layout;
pub use progress::Steps;
pub use require::{PACKAGES, Program, free_space, require};
pub use tool::{Tool, am_root, exists, guarded};
pub use whole::write_whole;
