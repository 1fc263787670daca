//! What acts on the CPU, beside the kernel's own programs.

pub mod nice;
