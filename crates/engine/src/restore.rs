//! `appease restore`: takes back what a daemon that was killed has left changed.

use std::path::Path;

use crate::{Error, backend::nice, lock::Lock, reserve};

/// How many threads, and CPUs, were given back what they had.
///
/// # Errors
/// For others than root, who may change nothing; when a daemon runs, which does that itself; or when its directory cannot be read.
pub fn run(run_dir: &Path) -> Result<usize, Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::RestoreNeedsRoot);
    }
    Lock::refuse_if_held(run_dir)?;
    let (cpus, realtime) = reserve::take_back(Path::new("/"), run_dir)?;
    Ok(nice::restore()? + cpus + realtime)
}
