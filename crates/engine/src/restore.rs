//! `appease restore`: takes back what a daemon that was killed has left changed.

use std::path::Path;

use crate::{Error, backend::nice, lock::Lock, reserve};

/// How many threads, and CPUs, were given back what they had.
///
/// # Errors
/// When a daemon runs, which does that itself, or its directory cannot be read.
pub fn run(run_dir: &Path) -> Result<usize, Error> {
    Lock::refuse_if_held(run_dir)?;
    let (cpus, realtime) = reserve::take_back(Path::new("/"), run_dir)?;
    Ok(nice::restore()? + cpus + realtime)
}
