//! One virtual machine: its command line, its process, and what it tells.

mod command;
mod console;
mod machine;
mod process;
mod qmp;
mod workspace;

pub use command::{Accelerator, Console, Disk, MEMORY_MIB, Spec, command, kvm_works};
pub use console::tail;
pub use machine::{Keepsakes, Limits, Progress, run};
pub use process::Qemu;
pub use workspace::sweep;
