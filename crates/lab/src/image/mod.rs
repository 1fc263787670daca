//! What a machine runs on and boots from: emulator, root file system, package overlays, kernel, tools, clips.

mod clip;
mod emulator;
mod ext4;
mod index;
mod initramfs;
mod kernel;
mod rootfs;
mod tools;

pub use clip::{EXTENSION as CLIP_EXTENSION, clip};
pub use emulator::{Emulator, emulator};
pub use kernel::{KernelImages, kernel};
pub use rootfs::{base, overlay};
pub use tools::tools;
