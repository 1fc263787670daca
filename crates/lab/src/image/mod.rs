//! What a machine boots from: root file system, package overlays, kernel, tools, clips.

mod clip;
mod ext4;
mod index;
mod initramfs;
mod kernel;
mod rootfs;
mod tools;

pub use clip::{EXTENSION as CLIP_EXTENSION, clip};
pub use kernel::{KernelImages, kernel};
pub use rootfs::{base, overlay};
pub use tools::tools;
