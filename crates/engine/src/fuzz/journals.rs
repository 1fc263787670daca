//! Records that the next daemon, or `appease restore`, reads: they may end anywhere, or be damaged.

use std::{cell::RefCell, io};

use crate::{
    ejections::Ejection,
    names,
    reserve::{
        Server,
        guard::{Held, Threads, take_back_of},
    },
    seams::Class,
};

/// Whether `after` begins with what `before` says: the more of a record there is, the more it says.
fn grows<T: PartialEq>(before: &[T], after: &[T]) -> bool {
    after.starts_with(before)
}

/// The first half of an input's lines, to the end of the last one of them.
fn cut(text: &str) -> &str {
    let end = text.floor_char_boundary(text.len() / 2);
    &text[..text[..end].rfind('\n').map_or(0, |at| at + 1)]
}

/// What is noted is read back; what it says has no control characters.
pub(super) fn ejections(input: &[u8]) {
    let text = names::text(input.to_vec());
    let read = |text: &str| text.lines().filter_map(Ejection::parse).collect::<Vec<_>>();
    let all = read(&text);
    assert!(grows(&read(cut(&text)), &all));
    for one in &all {
        let line = one.line();
        assert_eq!(read(&line).as_slice(), std::slice::from_ref(one), "{line:?}");
    }
    let noted = Ejection::new(u64::MAX, &text);
    assert!(appease_fuzz::is_printable(&noted.reason) && noted.reason.chars().count() <= 200);
    assert_eq!(read(&noted.line()), [noted]);
}

/// What is read is of a CPU, and is written as it was.
pub(super) fn reserve(input: &[u8]) {
    let text = names::text(input.to_vec());
    let read = |text: &str| text.split_inclusive('\n').filter_map(Server::parse).collect::<Vec<_>>();
    let all = read(&text);
    assert!(grows(&read(cut(&text)), &all));
    for one in &all {
        assert_eq!(Server::parse(&one.line()).as_ref(), Some(one));
        assert_eq!(Server::parse(one.line().trim_end()), None, "half a line says nothing");
        // A file of that name is written.
        assert!(one.cpu.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{}", one.cpu);
        if let Some(hastened) = one.hastened() {
            assert!(hastened.period_ns < one.period_ns && hastened.runtime_ns <= one.runtime_ns);
        }
    }
}

/// Threads 1 to 9 stand back; each began at ten times its number.
struct StandBack(RefCell<Vec<(u32, Class)>>);

const BACK: Class = Class { policy: 5, priority: 0, resets_on_fork: true };

impl Threads for StandBack {
    fn began(&self, tid: u32) -> Option<u64> {
        (1..10).contains(&tid).then_some(u64::from(tid) * 10)
    }

    fn class(&self, tid: u32) -> Option<Class> {
        self.began(tid).map(|_| BACK)
    }

    fn set_class(&self, tid: u32, class: Class) -> io::Result<()> {
        self.0.borrow_mut().push((tid, class));
        Ok(())
    }

    fn born(&self, _: u32) -> Vec<u32> {
        Vec::new()
    }

    fn now(&self) -> u64 {
        100
    }
}

/// Nobody is changed of whom there is no whole line, and everybody of whom there is one.
pub(super) fn realtime(input: &[u8]) {
    let text = names::text(input.to_vec());
    let all: Vec<Held> = text.split_inclusive('\n').filter_map(Held::parse).collect();
    for one in &all {
        let mut line = String::new();
        one.write(&mut line);
        let read: Vec<Held> = line.split_inclusive('\n').filter_map(Held::parse).collect();
        assert_eq!(read.as_slice(), std::slice::from_ref(one), "{line:?}");
        assert!(one.class.is_realtime());
    }
    let threads = StandBack(RefCell::default());
    let given = take_back_of(&threads, &text);
    let due: Vec<(u32, Class)> = all
        .iter()
        .filter(|held| threads.class(held.hog.tid) == Some(held.class.last()))
        .filter(|held| threads.began(held.hog.tid) == Some(held.hog.began))
        .map(|held| (held.hog.tid, held.class))
        .collect();
    assert_eq!(given, due.len());
    assert_eq!(threads.0.into_inner(), due);
}
