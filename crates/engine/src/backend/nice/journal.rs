//! The file that says which threads have another nice value than their users gave them, where no mark can.
//!
//! A line is written before each change. Only a kill of the daemon is to be survived, not one of the machine: with that, the
//! threads are gone, too.

use std::{
    fmt::Write as _,
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Write as _},
    path::{Path, PathBuf},
};

use crate::Error;

/// Lines that are not looked at any more before the file is written anew.
const STALE_MOST: usize = 1000;

/// A changed thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its number.
    pub tid: u32,
    /// When it began, in the kernel's ticks since the machine's start: tells it from a later one of its number.
    pub began: u64,
    /// Nice value before.
    pub base: i32,
    /// The one that it is given.
    pub given: i32,
}

/// The file of the daemon whose directory is `run_dir`.
pub(crate) fn path(run_dir: &Path) -> PathBuf {
    run_dir.join("nice")
}

/// Its lines, in the order in which they were written; those that make no sense say nothing.
pub(crate) fn read(path: &Path) -> Result<Vec<Entry>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text.split_inclusive('\n').filter_map(parse).collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(Error::File { what: "reading", path: path.into(), source }),
    }
}

/// A line that was not written to its end has no newline, and its change was not made.
fn parse(line: &str) -> Option<Entry> {
    let mut words = line.strip_suffix('\n')?.split(' ');
    let entry = Entry {
        tid: words.next()?.parse().ok()?,
        began: words.next()?.parse().ok()?,
        base: words.next()?.parse().ok()?,
        given: words.next()?.parse().ok()?,
    };
    let is_nice = |nice| (-20..20).contains(&nice);
    (words.next().is_none() && is_nice(entry.base) && is_nice(entry.given)).then_some(entry)
}

fn line(entry: &Entry) -> String {
    format!("{} {} {} {}\n", entry.tid, entry.began, entry.base, entry.given)
}

/// Writes the file.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    /// Made when there is something to write.
    file: Option<File>,
    lines: usize,
}

impl Journal {
    /// One that begins anew.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, file: None, lines: 0 }
    }

    /// Notes a change that is about to be made. `live`: all that are to be kept, when too much else has gathered.
    pub(crate) fn note(&mut self, entry: &Entry, live: impl ExactSizeIterator<Item = Entry>) -> io::Result<()> {
        if self.lines > STALE_MOST + 2 * live.len() {
            self.rewrite(live)?;
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(OpenOptions::new().create(true).append(true).open(&self.path)?),
        };
        file.write_all(line(entry).as_bytes())?;
        self.lines += 1;
        Ok(())
    }

    /// Renamed into place: at no time is anything missing.
    fn rewrite(&mut self, live: impl Iterator<Item = Entry>) -> io::Result<()> {
        let (mut text, mut lines) = (String::new(), 0);
        for entry in live {
            let _ = text.write_str(&line(&entry));
            lines += 1;
        }
        let part = self.path.with_extension("part");
        fs::write(&part, text)?;
        fs::rename(&part, &self.path)?;
        (self.file, self.lines) = (None, lines);
        Ok(())
    }

    /// Nothing is changed any more.
    pub(crate) fn clear(&mut self) {
        (self.file, self.lines) = (None, 0);
        // That it is not there is as good.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(tid: u32) -> Entry {
        Entry { tid, began: 70, base: 3, given: -17 }
    }

    #[test]
    fn what_is_noted_is_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = path(dir.path());
        let mut journal = Journal::new(path.clone());
        assert_eq!(read(&path).expect("nothing"), []);
        journal.note(&entry(1), [].into_iter()).expect("written");
        journal.note(&entry(2), [entry(1)].into_iter()).expect("written");
        assert_eq!(read(&path).expect("readable"), [entry(1), entry(2)]);
        journal.clear();
        assert_eq!(fs::read_dir(dir.path()).expect("readable").count(), 0);
    }

    #[test]
    fn a_long_one_is_written_anew() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = path(dir.path());
        let mut journal = Journal::new(path.clone());
        for tid in 0..5000 {
            journal.note(&entry(tid), [entry(7)].into_iter()).expect("written");
        }
        let kept = read(&path).expect("readable");
        assert!(kept.len() < STALE_MOST + 10 && kept[0] == entry(7) && kept.last() == Some(&entry(4999)));
    }

    #[test]
    fn half_a_line_says_nothing() {
        for text in ["", "1 70 3 -17", "1 70 3\n", "1 70 3 -17 5\n", "1 70 3 -21\n", "x 70 3 -17\n"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
