//! What a root file system holds, entry by entry, so that two of them can be compared by content.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{BufReader, Read},
    path::Path,
};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use super::ext4::Content;

/// One entry of a tar archive.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    path: String,
    /// Kind, mode, owner, and digest or link target, in one text: equal texts, equal entries. Times do not count.
    nature: String,
    /// Target, where this is a hard link.
    hard_link: Option<String>,
    directory: bool,
    bytes: u64,
}

/// The entries of an archive.
#[derive(Debug, Clone, Default)]
pub struct Index(Vec<Entry>);

impl Index {
    /// Reads an archive.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of(tar: &Path) -> Result<Self> {
        let file = File::open(tar).with_context(|| format!("open {}", tar.display()))?;
        Self::read(BufReader::with_capacity(1 << 20, file)).with_context(|| format!("read {}", tar.display()))
    }

    fn read(reader: impl Read) -> Result<Self> {
        let mut archive = tar::Archive::new(reader);
        let mut entries = Vec::new();
        for entry in archive.entries()? {
            let mut entry = entry?;
            let header = entry.header();
            let kind = header.entry_type();
            let (mode, uid, gid) = (header.mode()?, header.uid()?, header.gid()?);
            let bytes = entry.size();
            let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            let link = entry.link_name_bytes().map(|name| String::from_utf8_lossy(&name).into_owned());
            let digest = if kind.is_file() {
                let mut sha = Sha256::new();
                std::io::copy(&mut entry, &mut Writer(&mut sha))?;
                sha.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
            } else {
                String::new()
            };
            let target = link.clone().unwrap_or_default();
            entries.push(Entry {
                nature: format!("{kind:?} {mode:o} {uid}:{gid} {digest}{target}"),
                hard_link: link.filter(|_| kind.is_hard_link()),
                directory: kind.is_dir(),
                path,
                bytes,
            });
        }
        Ok(Self(entries))
    }

    /// One line for each entry, for keeping.
    #[must_use]
    pub fn lines(&self) -> String {
        self.0.iter().map(|entry| line(entry) + "\n").collect()
    }

    /// Size of everything.
    #[must_use]
    pub fn content(&self) -> Content {
        let mut content = Content::default();
        self.0.iter().for_each(|entry| content.add(entry.bytes));
        content
    }

    /// Paths of this archive that are not the same in the file system whose [lines](Index::lines) are given, with
    /// the directories above them and the targets of hard links, in the archive's order.
    #[must_use]
    pub fn beyond(&self, base: &str) -> (Vec<&str>, Content) {
        let base: BTreeSet<&str> = base.lines().collect();
        let mut wanted: BTreeSet<&str> = BTreeSet::new();
        for entry in self.0.iter().filter(|e| !e.directory || e.path.len() > 2) {
            if !base.contains(line(entry).as_str()) && !entry.path.starts_with("./dev/") {
                wanted.insert(&entry.path);
                wanted.extend(entry.hard_link.as_deref());
            }
        }
        let parents: Vec<&str> = wanted.iter().flat_map(|path| parents(path)).collect();
        wanted.extend(parents);
        let mut content = Content::default();
        let paths = self
            .0
            .iter()
            .filter(|entry| wanted.contains(entry.path.as_str()))
            .map(|entry| {
                content.add(entry.bytes);
                entry.path.as_str()
            })
            .collect();
        (paths, content)
    }
}

fn line(entry: &Entry) -> String {
    format!("{} {}", entry.nature, entry.path)
}

/// `./usr/` and `./` of `./usr/bin`: directories end in a slash in the archives.
fn parents(path: &str) -> impl Iterator<Item = &str> {
    let inner = path.trim_end_matches('/').len();
    path.char_indices().filter(move |(at, c)| *c == '/' && *at < inner).map(|(at, _)| &path[..=at])
}

/// Feeds a hash.
struct Writer<'a>(&'a mut Sha256);

impl std::io::Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Result;
    use tar::{Builder, EntryType, Header};

    use super::Index;

    fn archive(entries: &[(&str, EntryType, &str)]) -> Result<Vec<u8>> {
        let mut builder = Builder::new(Vec::new());
        for (path, kind, content) in entries {
            let mut header = Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(0o755);
            header.set_uid(0);
            header.set_gid(0);
            // Debian's archives keep the leading `./`, which the builder's own functions would cut off.
            if let Some(gnu) = header.as_gnu_mut() {
                gnu.name[..path.len()].copy_from_slice(path.as_bytes());
            }
            let data = if *kind == EntryType::Regular { *content } else { "" };
            if *kind == EntryType::Link || *kind == EntryType::Symlink {
                header.set_link_name_literal(content)?;
            }
            header.set_size(data.len() as u64);
            header.set_cksum();
            builder.append(&header, data.as_bytes())?;
        }
        Ok(builder.into_inner()?)
    }

    #[test]
    fn only_what_differs_and_what_leads_to_it() -> Result<()> {
        use EntryType::{Directory, Link, Regular, Symlink};
        let base = archive(&[
            ("./", Directory, ""),
            ("./bin", Symlink, "usr/bin"),
            ("./usr/", Directory, ""),
            ("./usr/bin/", Directory, ""),
            ("./usr/bin/a", Regular, "a"),
            ("./usr/bin/b", Regular, "b"),
            ("./usr/lib/", Directory, ""),
            ("./usr/lib/l", Regular, "l"),
        ])?;
        let more = archive(&[
            ("./", Directory, ""),
            ("./bin", Symlink, "usr/bin"),
            ("./usr/", Directory, ""),
            ("./usr/bin/", Directory, ""),
            ("./usr/bin/a", Regular, "a"),
            ("./usr/bin/b", Regular, "changed"),
            ("./usr/bin/c", Link, "./usr/bin/a"),
            ("./usr/lib/", Directory, ""),
            ("./usr/lib/l", Regular, "l"),
            ("./usr/share/", Directory, ""),
        ])?;
        let lines = Index::read(base.as_slice())?.lines();
        let more = Index::read(more.as_slice())?;
        let (paths, content) = more.beyond(&lines);
        insta::assert_debug_snapshot!(paths, @r#"
        [
            "./",
            "./usr/",
            "./usr/bin/",
            "./usr/bin/a",
            "./usr/bin/b",
            "./usr/bin/c",
            "./usr/share/",
        ]
        "#);
        assert_eq!(content.entries, 7);
        Ok(())
    }
}
