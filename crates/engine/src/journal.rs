//! Records beside the daemon's socket, which the next daemon or `appease restore` reads: they may end anywhere, or be damaged.
//!
//! A line that makes no sense says nothing, and takes no other with it.

use std::{
    fs::File,
    io::{self, ErrorKind, Read},
    path::Path,
};

use crate::names;

/// Far above what is ever written.
const LENGTH_MAX: u64 = 4 << 20;

/// The text of a record; `None`: there is none.
pub(crate) fn read(path: &Path) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    match File::open(path).and_then(|file| file.take(LENGTH_MAX).read_to_end(&mut bytes)) {
        Ok(_) => Ok(Some(names::text(bytes))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
