//! Rules are not in the kernel's programs yet: each is refused.

use std::os::fd::BorrowedFd;

use crate::{Error, Hits, Rule, Sensor, Slot, Target};

fn refused<T>() -> Result<T, Error> {
    Err(Error::libbpf("set up a channel", libbpf_rs::Error::from_raw_os_error(libc::EOPNOTSUPP)))
}

#[allow(missing_docs, clippy::missing_errors_doc)]
impl Sensor {
    pub fn define(&self, _: Slot, _: &Rule) -> Result<(), Error> {
        refused()
    }
    pub fn forget(&self, _: Slot) -> Result<(), Error> {
        refused()
    }
    pub fn bind(&self, _: Slot, _: &Target) -> Result<(), Error> {
        refused()
    }
    pub fn unbind(&self, _: Slot, _: &Target) -> Result<(), Error> {
        refused()
    }
    pub fn hits(&self, _: Slot) -> Result<Hits, Error> {
        refused()
    }
    pub fn adopt_watches(&self, _: BorrowedFd<'_>) -> Result<(), Error> {
        refused()
    }
    pub fn inode_of(&self, _: BorrowedFd<'_>) -> Result<u64, Error> {
        refused()
    }
    pub fn set_write_rules(&mut self, _: bool) -> Result<(), Error> {
        refused()
    }
}
