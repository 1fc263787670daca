//! The tools disk: our own programs, peers and clips, for one set of runs.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};

use super::ext4::{self, Content};
use crate::{
    host::free_space,
    store::{Store, hash},
};

/// How many tools disks are kept: each build of a program makes a new one.
const KEPT: usize = 12;
/// So long at least: a league of all schedulers takes the better part of a day.
const RECENT: Duration = Duration::from_secs(24 * 3600);

/// The image with these files, by the names they have in /run/tools.
///
/// # Errors
/// When a file cannot be read or the image cannot be made.
pub fn tools(store: &Store, files: &BTreeMap<String, PathBuf>) -> Result<PathBuf> {
    let mut recipe = String::from("tools 1\n");
    let mut content = Content::default();
    for (name, path) in files {
        let bytes = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        content.add(bytes.len() as u64);
        recipe.push_str(&format!("{name} {}\n", hash([bytes])));
    }
    let dir = store.get("tools", &recipe, |part| {
        // The tree and the image hold each of them once.
        free_space(part, 2 * content.image_mib(), "making the tools disk")?;
        let tree = part.join("tree");
        fs::create_dir(&tree).context("create the tools' tree")?;
        for (name, path) in files {
            copy(path, &tree.join(name))?;
        }
        ext4::from_tree(&tree, "tools", &part.join("tools.ext4"), content, None)?;
        fs::remove_dir_all(&tree).context("remove the tools' tree")
    })?;
    store.prune("tools", KEPT, RECENT);
    Ok(dir.join("tools.ext4"))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).map(drop).with_context(|| format!("copy {} to {}", from.display(), to.display()))
}
