//! The store of built things: one directory for each recipe, named by the hash of what it was made from.
//!
//! A thing is built under a temporary name and renamed when it is whole, so what has its final name can be used.
//! A lock file per thing keeps two processes from building it twice.

use std::{
    fs::{self, File, FileTimes},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::host::{Interrupt, Layout, Steps};

/// Prefix of what is not yet whole.
const PART: &str = ".part-";

/// The store, below `target/lab/store`.
#[derive(Debug, Clone)]
pub struct Store {
    dir: PathBuf,
    interrupt: Interrupt,
    steps: Steps,
}

/// Hash over parts, each delimited, as 16 hexadecimal digits.
#[must_use]
pub fn hash<T: AsRef<[u8]>>(parts: impl IntoIterator<Item = T>) -> String {
    let mut sha = Sha256::new();
    for part in parts {
        let part = part.as_ref();
        sha.update((part.len() as u64).to_le_bytes());
        sha.update(part);
    }
    sha.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

impl Store {
    /// Opens the store of a project.
    #[must_use]
    pub fn new(layout: &Layout, interrupt: &Interrupt, steps: &Steps) -> Self {
        Self { dir: layout.lab("store"), interrupt: interrupt.clone(), steps: steps.clone() }
    }

    /// Where progress is shown.
    #[must_use]
    pub fn steps(&self) -> &Steps {
        &self.steps
    }

    /// Whether the user wants to stop.
    #[must_use]
    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// The directory of the thing `kind` made by `recipe`; `build` fills it when it is not there. The recipe is
    /// kept beside it.
    ///
    /// # Errors
    /// When it cannot be built; nothing is left then.
    pub fn get(&self, kind: &str, recipe: &str, build: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        let path = self.path(kind, recipe);
        if !path.is_dir() {
            fs::create_dir_all(&self.dir).with_context(|| format!("create {}", self.dir.display()))?;
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let _lock = self.lock(&name)?;
            if !path.is_dir() {
                let part = self.dir.join(format!("{PART}{name}"));
                // Under the lock, a part of this name is the remains of an interrupted build.
                remove(&part)?;
                let built = self.build(&part, &path, recipe, build);
                if built.is_err() {
                    remove(&part)?;
                }
                built?;
            }
        }
        touch(&path);
        Ok(path)
    }

    fn build(&self, part: &Path, path: &Path, recipe: &str, build: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        self.interrupt.check()?;
        fs::create_dir(part).with_context(|| format!("create {}", part.display()))?;
        build(part)?;
        self.interrupt.check()?;
        fs::write(part.join("recipe.txt"), recipe).context("write the recipe")?;
        for entry in fs::read_dir(part).context("list what was built")? {
            let file = entry.context("list what was built")?.path();
            if file.is_file() {
                File::open(&file).and_then(|f| f.sync_all()).with_context(|| format!("sync {}", file.display()))?;
            }
        }
        fs::rename(part, path).with_context(|| format!("rename {} into place", path.display()))
    }

    /// Removes all but the `keep` last used things of a kind, and those used within `recent`.
    pub fn prune(&self, kind: &str, keep: usize, recent: Duration) {
        let prefix = format!("{kind}-");
        let mut found: Vec<(SystemTime, PathBuf)> = fs::read_dir(&self.dir)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        found.sort();
        for (used, path) in found.iter().rev().skip(keep) {
            // A machine that runs has its images open. A league looks its own up once, and starts machines for hours.
            if used.elapsed().is_ok_and(|ago| ago >= recent) {
                let _ = remove(path);
            }
        }
    }

    fn path(&self, kind: &str, recipe: &str) -> PathBuf {
        self.dir.join(format!("{kind}-{}", hash([recipe])))
    }

    fn lock(&self, name: &str) -> Result<File> {
        let path = self.dir.join(format!(".lock-{name}"));
        let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
        file.lock().with_context(|| format!("lock {}", path.display()))?;
        Ok(file)
    }
}

fn touch(path: &Path) {
    if let Ok(dir) = File::open(path) {
        let _ = dir.set_times(FileTimes::new().set_modified(SystemTime::now()));
    }
}

/// Removes a file or a tree; what is not there is fine.
///
/// # Errors
/// When it is there and stays.
pub fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() && !path.is_symlink() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, fs, path::Path, time::Duration};

    use anyhow::{Result, bail};

    use super::{Store, hash};
    use crate::host::{Interrupt, Layout, Steps};

    fn store(dir: &Path) -> (Store, Interrupt) {
        let interrupt = Interrupt::default();
        (Store { dir: dir.join("store"), ..Store::new(&Layout::at(dir), &interrupt, &Steps::default()) }, interrupt)
    }

    fn entries(store: &Store) -> usize {
        let visible = |name: &str| !name.starts_with(".lock");
        fs::read_dir(&store.dir)
            .map_or(0, |dir| dir.flatten().filter(|e| visible(&e.file_name().to_string_lossy())).count())
    }

    #[test]
    fn a_thing_is_built_once_for_a_recipe() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let (store, _) = store(dir.path());
        let built = Cell::new(0);
        for recipe in ["a", "a", "b"] {
            let path = store.get("thing", recipe, |part| {
                built.set(built.get() + 1);
                Ok(fs::write(part.join("content"), recipe)?)
            })?;
            assert_eq!(fs::read_to_string(path.join("content"))?, recipe);
        }
        assert_eq!(built.get(), 2);
        Ok(())
    }

    #[test]
    fn a_failed_or_interrupted_build_leaves_nothing() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let (store, interrupt) = store(dir.path());
        let failed = store.get("thing", "a", |part| {
            fs::write(part.join("half"), "")?;
            bail!("no space")
        });
        assert!(failed.is_err());
        assert_eq!(entries(&store), 0);
        let interrupted = store.get("thing", "a", |part| {
            fs::write(part.join("half"), "")?;
            interrupt.set();
            Ok(())
        });
        assert!(interrupted.is_err());
        assert_eq!(entries(&store), 0);
        Ok(())
    }

    #[test]
    fn remains_of_a_killed_build_are_not_used() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let (store, _) = store(dir.path());
        let name = format!(".part-thing-{}", hash(["a"]));
        fs::create_dir_all(store.dir.join(&name))?;
        fs::write(store.dir.join(&name).join("half"), "")?;
        let path = store.get("thing", "a", |_| Ok(()))?;
        assert!(!path.join("half").exists());
        assert!(!store.dir.join(&name).exists());
        Ok(())
    }

    #[test]
    fn prune_keeps_the_last_used() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let (store, _) = store(dir.path());
        for recipe in ["a", "b", "c", "a"] {
            store.get("thing", recipe, |_| Ok(()))?;
            std::thread::sleep(Duration::from_millis(20));
        }
        store.prune("thing", 2, Duration::from_secs(3600));
        assert!(store.path("thing", "b").is_dir());
        store.prune("thing", 2, Duration::ZERO);
        let kept = ["a", "b", "c"].map(|recipe| store.path("thing", recipe).is_dir());
        assert_eq!(kept, [true, false, true]);
        Ok(())
    }

    #[test]
    fn hash_delimits_its_parts() {
        assert_ne!(hash(["ab", "c"]), hash(["a", "bc"]));
    }
}
