//! Making ext4 images from trees, without root and without loop mounts.

use std::{ffi::OsString, path::Path};

use anyhow::Result;

use crate::host::{Tool, am_root, exists, progress::Step};

/// No journal and no checksums: the images are only ever read, and each would cost emulated instructions.
const FEATURES: &str = "^has_journal,^resize_inode,^metadata_csum,^orphan_file";

/// What goes into an image.
#[derive(Debug, Clone, Copy, Default)]
pub struct Content {
    /// Bytes of all files.
    pub bytes: u64,
    /// Number of files, directories and links.
    pub entries: u64,
}

impl Content {
    /// Adds a file.
    pub fn add(&mut self, bytes: u64) {
        self.bytes += bytes.div_ceil(4096) * 4096;
        self.entries += 1;
    }

    /// Size of an image that holds it, MiB.
    #[must_use]
    pub fn image_mib(&self) -> u64 {
        // Inodes have 256 bytes; directories and extent blocks take up to a block each.
        let bytes = self.bytes + self.entries * (256 + 4096);
        bytes / (1 << 20) * 21 / 20 + 16
    }
}

/// Arguments of mke2fs.
fn arguments(tree: &Path, label: &str, image: &Path, content: Content) -> Vec<OsString> {
    let mut arguments: Vec<OsString> =
        ["-q", "-t", "ext4", "-b", "4096", "-m", "0", "-O", FEATURES, "-E", "root_owner=0:0", "-L", label]
            .map(OsString::from)
            .to_vec();
    arguments.extend(["-N".into(), (content.entries * 11 / 10 + 128).to_string().into(), "-d".into()]);
    arguments.extend([tree.into(), image.into(), format!("{}M", content.image_mib()).into()]);
    arguments
}

/// Makes an image of `tree`.
///
/// # Errors
/// When mke2fs fails, for example for want of disk space.
pub fn from_tree(tree: &Path, label: &str, image: &Path, content: Content, step: Option<&Step>) -> Result<()> {
    Tool::new("mke2fs", format!("make the {label} image")).args(arguments(tree, label, image, content)).run(step)
}

/// Makes an image of the members of a tar archive (all, or those that `list` names, one a line), with their owners.
/// `scratch` is a directory that need not exist; it is gone afterwards.
///
/// # Errors
/// When tar or mke2fs fail.
pub fn from_tar(
    tar: &Path,
    list: Option<&Path>,
    scratch: &Path,
    label: &str,
    image: &Path,
    content: Content,
    step: Option<&Step>,
) -> Result<()> {
    // Owners other than ourselves need root, or fakeroot around both programs.
    const SCRIPT: &str = r#"set -e
tar=$1 list=$2 scratch=$3
shift 3
mkdir -p "$scratch"
if [ -n "$list" ]; then
    # For tar, an empty list is none.
    [ ! -s "$list" ] || tar -x -f "$tar" -C "$scratch" --no-recursion --verbatim-files-from --files-from="$list"
else
    tar -x -f "$tar" -C "$scratch" --exclude='./dev/*'
fi
"$@"
rm -rf "$scratch"
"#;
    let mke2fs = exists("mke2fs").unwrap_or_else(|| "mke2fs".into());
    let purpose = format!("make the {label} image");
    let tool = if am_root() { Tool::new("sh", purpose) } else { Tool::new("fakeroot", purpose).args(["--", "sh"]) };
    tool.args(["-c", SCRIPT, "sh"])
        .args([tar, list.unwrap_or(Path::new("")), scratch, &mke2fs])
        .args(arguments(scratch, label, image, content))
        .run(step)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use anyhow::Result;

    use super::{Content, from_tar, from_tree};
    use crate::host::Tool;

    #[test]
    fn an_image_holds_its_tree() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let tree = dir.path().join("tree");
        fs::create_dir(&tree)?;
        fs::write(tree.join("hello"), "there")?;
        let mut content = Content::default();
        content.add(5);
        let image = dir.path().join("image");
        from_tree(&tree, "test", &image, content, None)?;
        let text =
            Tool::new("debugfs", "look into the image").args(["-R", "cat /hello"]).args([&image]).output(None)?;
        assert_eq!(text, "there");
        Ok(())
    }

    #[test]
    fn an_empty_list_gives_an_empty_image() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let (tar, list, image) = (dir.path().join("tar"), dir.path().join("list"), dir.path().join("image"));
        fs::write(dir.path().join("hello"), "there")?;
        Tool::new("tar", "make an archive")
            .args(["-C"])
            .args([dir.path()])
            .args(["-cf"])
            .args([&tar])
            .args(["./hello"])
            .run(None)?;
        fs::write(&list, "")?;
        from_tar(&tar, Some(&list), &dir.path().join("tree"), "test", &image, Content::default(), None)?;
        let text = Tool::new("debugfs", "look into the image").args(["-R", "ls -p /"]).args([&image]).output(None)?;
        assert!(!text.contains("hello"), "{text}");
        Ok(())
    }
}
