//! Our own reserve, where the kernel has none for sched_ext: before Linux 7.0.
//!
//! The scheduler tells which realtime thread locks others out of a CPU (`bpf/reserve.bpf.h`). A thread of ours that goes before all
//! realtime ones has it stand back for 10 ms of each 200 ms, behind all who wait: the twentieth that the kernel's own servers give. Then it gives
//! back what the thread had, unless somebody else has changed that meanwhile. What it started meanwhile has then what it would have inherited:
//! the scheduler tells of each. A start after a kill has only the kernel's list of children.
//!
//! That thread logs nothing and shares no lock: whoever holds one may be locked out itself, and would wait for us. Nothing is changed
//! of which there is no record: a daemon that is killed leaves it to its next start, or to `appease restore`.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    mem,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    thread::gettid,
    time::ClockId,
};
use tracing::{info, warn};

use crate::{
    Error, journal,
    names::{Names, TICK_NS},
    seams::{Class, Hog, HogNews, Hogs, Lockout, clock_ns, tasks},
};

/// For how long the others have the CPU. The scheduler finds out about a lock-out each 200 ms.
const TURN: Duration = Duration::from_millis(10);
/// When the others still have not had their turn, for the more who come, it is over anyway. Who comes behind another is told after
/// 50 ms (`UNSLEPT_NS`).
const LONGEST: Duration = Duration::from_millis(100);
/// What a child begins as whose parent resets on fork.
const USUAL: Class = Class { policy: 0, priority: 0, resets_on_fork: false };
/// Of a CPU, what our thread may have before realtime programs.
const RUNTIME: Duration = Duration::from_millis(2);
const PERIOD: Duration = Duration::from_millis(100);

/// The threads of a machine.
pub(crate) trait Threads {
    /// When a thread began, in ticks since the machine's start; `None` when it is gone.
    fn began(&self, tid: u32) -> Option<u64>;
    fn class(&self, tid: u32) -> Option<Class>;
    fn set_class(&self, tid: u32, class: Class) -> io::Result<()>;
    /// Children of a thread, and the other threads of its process.
    fn born(&self, tid: u32) -> Vec<u32>;
    /// Now, in ticks since the machine's start.
    fn now(&self) -> u64;
}

/// What the scheduler tells.
pub(crate) trait News {
    /// What is new.
    fn read(&self) -> Vec<Lockout>;
    /// Tell of this thread's children that begin in the class behind all others, and of theirs.
    fn follow(&self, tid: u32) -> io::Result<()>;
    fn unfollow(&self, tid: u32);
}

impl News for Hogs {
    fn read(&self) -> Vec<Lockout> {
        Hogs::read(self).unwrap_or_default()
    }

    fn follow(&self, tid: u32) -> io::Result<()> {
        Hogs::follow(self, tid).map_err(io::Error::other)
    }

    fn unfollow(&self, tid: u32) {
        Hogs::unfollow(self, tid);
    }
}

/// This machine's.
struct KernelThreads(Names);

impl KernelThreads {
    fn new() -> Self {
        Self(Names::new(Path::new("/")))
    }
}

impl Threads for KernelThreads {
    fn began(&self, tid: u32) -> Option<u64> {
        self.0.began(tid)
    }

    fn class(&self, tid: u32) -> Option<Class> {
        tasks::class(tid).ok()
    }

    fn set_class(&self, tid: u32, class: Class) -> io::Result<()> {
        tasks::set_class(tid, class)
    }

    fn born(&self, tid: u32) -> Vec<u32> {
        self.0.born(tid)
    }

    fn now(&self) -> u64 {
        // By this clock the kernel dates the beginnings of threads.
        clock_ns(ClockId::Boottime) / TICK_NS
    }
}

/// One who stands back, and what it had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub hog: Hog,
    pub class: Class,
    /// Since when, in ticks since the machine's start.
    pub since: u64,
}

impl Held {
    pub(crate) fn write(&self, line: &mut String) {
        let Self { hog, class, since } = self;
        let resets = u8::from(class.resets_on_fork);
        // A full file system may have left half of the line before, which ends here.
        let _ = writeln!(line, "\n{} {} {} {} {resets} {since}", hog.tid, hog.began, class.policy, class.priority);
    }

    /// Of a line that was written to its end.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_suffix('\n')?.split(' ');
        let hog = Hog { tid: words.next()?.parse().ok()?, began: words.next()?.parse().ok()? };
        let (policy, priority) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let class = Class { policy, priority, resets_on_fork: words.next()? == "1" };
        let since = words.next()?.parse().ok()?;
        (words.next().is_none() && class.is_realtime()).then_some(Self { hog, class, since })
    }

    /// Whether it has back what it had. What somebody else has set meanwhile stays.
    fn give_back(&self, threads: &impl Threads) -> io::Result<bool> {
        let Hog { tid, began } = self.hog;
        if threads.began(tid) != Some(began) {
            return Ok(false);
        }
        let is_ours = threads.class(tid) == Some(self.class.last());
        if is_ours { threads.set_class(tid, self.class).map(|()| true) } else { Ok(false) }
    }

    /// What those have that begin as its children.
    fn due(&self) -> Class {
        if self.class.resets_on_fork { USUAL } else { self.class }
    }

    /// To its children that began meanwhile, when nobody has told of them.
    fn give_to_children(&self, threads: &impl Threads) {
        if threads.began(self.hog.tid) != Some(self.hog.began) {
            return;
        }
        for tid in threads.born(self.hog.tid) {
            if let Some(began) = threads.began(tid).filter(|began| *began >= self.since) {
                give_to_heir(threads, Hog { tid, began }, self.due());
            }
        }
    }
}

/// Gives a thread what it would have begun with, had its parent not stood back.
fn give_to_heir(threads: &impl Threads, heir: Hog, due: Class) {
    let inherited = Class { resets_on_fork: false, ..due.last() };
    if threads.began(heir.tid) == Some(heir.began) && threads.class(heir.tid) == Some(inherited) {
        // One that has ended needs nothing.
        let _ = threads.set_class(heir.tid, due);
    }
}

fn record(run_dir: &Path) -> PathBuf {
    run_dir.join("realtime")
}

/// What other threads may know of ours.
#[derive(Debug, Default)]
struct Account {
    turns: AtomicU64,
    /// Who stood back last.
    last: AtomicU32,
}

/// The file that names the threads that stand back.
fn open_record(run_dir: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(record(run_dir))
}

/// A turn of those who were locked out.
struct Turn<T, N> {
    threads: T,
    news: N,
    record: File,
    line: String,
    held: Vec<Held>,
    /// Lock-outs that nobody has looked at yet.
    lockouts: Vec<Lockout>,
    /// Threads that began meanwhile, each with the one that stood back.
    heirs: Vec<(u32, Hog)>,
    /// What children of these threads are due; of the last turn that has ended.
    due: BTreeMap<u32, Class>,
    account: Arc<Account>,
}

impl<T: Threads, N: News> Turn<T, N> {
    fn new(threads: T, news: N, record: File, account: Arc<Account>) -> Self {
        let (line, held, lockouts, heirs, due) = Default::default();
        Self { threads, news, record, line, held, lockouts, heirs, due, account }
    }

    /// Notes what is new.
    fn hear(&mut self) {
        for lockout in self.news.read() {
            match lockout {
                Lockout::Heir { of, heir } => self.heirs.push((of, heir)),
                other => self.lockouts.push(other),
            }
        }
    }

    /// Has a thread stand back; whether it does.
    fn hold_back(&mut self, hog: Hog) -> bool {
        if self.held.iter().any(|held| held.hog == hog) || self.threads.began(hog.tid) != Some(hog.began) {
            return false;
        }
        let Some(class) = self.threads.class(hog.tid).filter(Class::is_realtime) else { return false };
        let held = Held { hog, class, since: self.threads.now() };
        self.line.clear();
        held.write(&mut self.line);
        if self.record.write_all(self.line.as_bytes()).is_err() || self.news.follow(hog.tid).is_err() {
            return false;
        }
        if self.threads.set_class(hog.tid, class.last()).is_err() {
            self.news.unfollow(hog.tid);
            return false;
        }
        self.account.turns.fetch_add(u64::from(self.held.is_empty()), Ordering::Relaxed);
        self.account.last.store(hog.tid, Ordering::Relaxed);
        self.held.push(held);
        true
    }

    fn end(&mut self) {
        let mut refused = false;
        self.due.clear();
        for held in mem::take(&mut self.held) {
            refused |= held.give_back(&self.threads).is_err();
            self.news.unfollow(held.hog.tid);
            self.due.insert(held.hog.tid, held.due());
        }
        // From here on only children of heirs begin behind all others.
        self.settle_all();
        // What the kernel refuses now stays on record for the next start.
        if !refused {
            let _ = self.record.set_len(0);
        }
    }

    /// Ends the turn and waits for children that were on their way: nobody listens after this.
    fn end_for_good(&mut self) {
        self.end();
        if !self.due.is_empty() {
            thread::sleep(TURN);
            self.settle_all();
        }
    }

    /// Until there is nothing new.
    fn settle_all(&mut self) {
        self.hear();
        while !self.heirs.is_empty() {
            self.settle();
            self.hear();
        }
    }

    /// Gives heirs what they are due, once the threads that stood back have their own again.
    fn settle(&mut self) {
        for (of, heir) in mem::take(&mut self.heirs) {
            if let Some(&due) = self.due.get(&of) {
                give_to_heir(&self.threads, heir, due);
                self.due.insert(heir.tid, due);
            }
            self.news.unfollow(heir.tid);
        }
    }
}

/// Gives turns until `stopped` is closed.
fn give_turns<T: Threads>(turn: &mut Turn<T, Hogs>, stopped: &UnixStream) {
    let own = gettid().as_raw_nonzero().get().unsigned_abs();
    let (mut began, mut ends) = (Instant::now(), None::<Instant>);
    loop {
        let left = ends.map(|end| end.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let hog_news = turn.news.fd();
        let mut polled = [PollFd::new(&hog_news, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        let is_stopped = poll(&mut polled, timeout.as_ref()).is_ok() && !polled[1].revents().is_empty();
        if is_stopped {
            return turn.end_for_good();
        }
        if ends.is_some_and(|end| end <= Instant::now()) {
            turn.end();
            ends = None;
        }
        turn.hear();
        for lockout in mem::take(&mut turn.lockouts) {
            let now = Instant::now();
            let Lockout::By(hog) = lockout else {
                ends = ends.map(|_| (now + TURN).min(began + LONGEST));
                continue;
            };
            // Only where the kernel did not let us go before all others.
            if hog.tid == own || (ends.is_none() && super::is_waived(Path::new("/"))) {
                continue;
            }
            if turn.hold_back(hog) {
                began = if ends.is_some() { began } else { now };
                ends = Some((now + TURN).min(began + LONGEST));
            }
        }
        // Late ones of the last turn.
        if ends.is_none() {
            turn.settle();
        }
    }
}

/// Gives turns as long as it lives.
#[derive(Debug)]
pub struct Guard {
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    account: Arc<Account>,
    run_dir: PathBuf,
    /// Whom the log has named.
    named: u32,
}

impl Guard {
    /// Listens to `news` from now on.
    pub(crate) fn start(news: HogNews, run_dir: &Path) -> io::Result<Self> {
        let account = Arc::<Account>::default();
        let (record, counts) = (open_record(run_dir)?, Arc::clone(&account));
        let (stop, stopped) = UnixStream::pair()?;
        let (begin, begun) = mpsc::sync_channel(1);
        let thread = thread::Builder::new().name("appease-guard".into()).spawn(move || {
            let hogs = match news.listen() {
                Ok(hogs) => hogs,
                Err(error) => return drop(begin.send(Err(io::Error::other(error)))),
            };
            let goes_first = tasks::go_first(RUNTIME, PERIOD);
            let may = goes_first.is_ok();
            let _ = begin.send(goes_first);
            drop(begin);
            if may {
                give_turns(&mut Turn::new(KernelThreads::new(), hogs, record, counts), &stopped);
            }
        })?;
        let guard = Self { stop: Some(stop), thread: Some(thread), account, run_dir: run_dir.into(), named: 0 };
        if !begun.recv().map_err(io::Error::other)?? {
            warn!(
                "the kernel reserves no time for the thread that holds the reserve beside realtime programs: those of priority 99 may keep it waiting. It must be allowed on all CPUs (taskset, cpusets)"
            );
        }
        Ok(guard)
    }

    /// How many turns there were.
    pub(crate) fn turns(&self) -> u64 {
        self.account.turns.load(Ordering::Relaxed)
    }

    /// Names in the log who stands back, when that is another than before.
    pub(crate) fn report(&mut self) {
        let last = self.account.last.load(Ordering::Relaxed);
        if last == self.named {
            return;
        }
        self.named = last;
        let comm = Names::new(Path::new("/")).comm(last);
        warn!(
            "{comm} (thread {last}) is realtime and keeps a CPU for which others wait: they have {} of each 200 ms; to end it: kill {last}",
            TURN.as_millis()
        );
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        match take_back(&self.run_dir) {
            Ok(0) => {}
            Ok(found) => info!("{found} realtime threads have back what they had"),
            Err(error) => warn!("{error}"),
        }
    }
}

/// Gives back what a daemon has left changed; how many threads.
///
/// # Errors
/// When there is a record of it that cannot be read.
pub(crate) fn take_back(run_dir: &Path) -> Result<usize, Error> {
    take_back_on(&KernelThreads::new(), run_dir)
}

fn take_back_on(threads: &impl Threads, run_dir: &Path) -> Result<usize, Error> {
    let path = record(run_dir);
    let text = match journal::read(&path) {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(0),
        Err(source) => return Err(Error::File { what: "reading", path, source }),
    };
    let given = take_back_of(threads, &text);
    let _ = fs::remove_file(&path);
    Ok(given)
}

/// Gives back what a record says; how many threads.
pub(crate) fn take_back_of(threads: &impl Threads, text: &str) -> usize {
    let mut given = 0;
    for held in text.split_inclusive('\n').filter_map(Held::parse) {
        match held.give_back(threads) {
            Ok(is_given) => {
                held.give_to_children(threads);
                given += usize::from(is_given);
            }
            Err(error) => warn!("thread {} has not got back its realtime priority: {error}", held.hog.tid),
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, collections::BTreeSet, io::ErrorKind, rc::Rc};

    use super::*;

    const FIFO: Class = Class { policy: 1, priority: 50, resets_on_fork: true };
    const DEADLINE: Class = Class { policy: 6, priority: 0, resets_on_fork: false };
    const HOG: Hog = Hog { tid: 7, began: 70 };

    /// When each began, and its class. All are one process, and it is tick 75.
    #[derive(Clone, Default)]
    struct Fake(Rc<RefCell<BTreeMap<u32, (u64, Class)>>>);

    impl Fake {
        fn with(hog: Hog, class: Class) -> Self {
            let fake = Self::default();
            fake.put(hog, class);
            fake
        }

        fn put(&self, hog: Hog, class: Class) {
            self.0.borrow_mut().insert(hog.tid, (hog.began, class));
        }
    }

    impl Threads for Fake {
        fn began(&self, tid: u32) -> Option<u64> {
            self.0.borrow().get(&tid).map(|(began, _)| *began)
        }

        fn class(&self, tid: u32) -> Option<Class> {
            self.0.borrow().get(&tid).map(|(_, class)| *class)
        }

        fn set_class(&self, tid: u32, class: Class) -> io::Result<()> {
            let mut threads = self.0.borrow_mut();
            threads.get_mut(&tid).ok_or(ErrorKind::NotFound)?.1 = class;
            Ok(())
        }

        fn born(&self, tid: u32) -> Vec<u32> {
            self.0.borrow().keys().copied().filter(|other| *other != tid).collect()
        }

        fn now(&self) -> u64 {
            75
        }
    }

    /// What the scheduler is about to tell at each look, and the threads that it follows.
    #[derive(Clone, Default)]
    struct Told {
        looks: Rc<RefCell<Vec<Vec<Lockout>>>>,
        followed: Rc<RefCell<BTreeSet<u32>>>,
    }

    impl News for Told {
        fn read(&self) -> Vec<Lockout> {
            let mut looks = self.looks.borrow_mut();
            if looks.is_empty() { Vec::new() } else { looks.remove(0) }
        }

        fn follow(&self, tid: u32) -> io::Result<()> {
            self.followed.borrow_mut().insert(tid);
            Ok(())
        }

        fn unfollow(&self, tid: u32) {
            self.followed.borrow_mut().remove(&tid);
        }
    }

    fn turn(fake: &Fake, run_dir: &Path) -> Turn<Fake, Told> {
        Turn::new(fake.clone(), Told::default(), open_record(run_dir).expect("a record"), Arc::default())
    }

    const IDLE: Class = Class { policy: 5, priority: 0, resets_on_fork: false };

    #[test]
    fn who_stands_back_gets_back_all_that_it_had() {
        let (fake, run_dir) = (Fake::with(HOG, FIFO), tempfile::tempdir().expect("a directory"));
        let mut turn = turn(&fake, run_dir.path());
        assert!(turn.hold_back(HOG) && !turn.hold_back(HOG), "once");
        assert_eq!(fake.class(7), Some(FIFO.last()));
        assert!(!FIFO.last().is_realtime() && FIFO.last().resets_on_fork);
        turn.end();
        assert_eq!(fake.class(7), Some(FIFO));
        assert_eq!(fs::read_to_string(record(run_dir.path())).expect("readable"), "");
        assert_eq!(turn.account.turns.load(Ordering::Relaxed), 1);
        assert!(turn.hold_back(HOG), "and again");
    }

    #[test]
    fn nobody_else_is_touched() {
        let (fake, run_dir) = (Fake::with(HOG, DEADLINE), tempfile::tempdir().expect("a directory"));
        let mut turn = turn(&fake, run_dir.path());
        assert!(!turn.hold_back(HOG), "a deadline task keeps what it has");
        fake.put(HOG, FIFO);
        assert!(!turn.hold_back(Hog { began: 69, ..HOG }), "it was another one of this number");
        assert!(!turn.hold_back(Hog { tid: 8, ..HOG }), "it is gone");
        assert_eq!(fake.class(7), Some(FIFO));
    }

    #[test]
    fn what_began_meanwhile_has_what_it_would_have_inherited() {
        for (resets_on_fork, due) in [(true, USUAL), (false, Class { resets_on_fork: false, ..FIFO })] {
            let fake = Fake::with(HOG, Class { resets_on_fork, ..FIFO });
            let run_dir = tempfile::tempdir().expect("a directory");
            let mut turn = turn(&fake, run_dir.path());
            assert!(turn.hold_back(HOG));
            assert!(turn.news.followed.borrow().contains(&7), "its children are told from now on");
            let heir = |tid| Hog { tid, began: 75 };
            for (tid, class) in [(8, IDLE), (9, DEADLINE), (10, IDLE), (11, IDLE), (12, IDLE)] {
                fake.put(heir(tid), class);
            }
            // One of another number before, one that began while the first were looked after, and one of another parent.
            let told = |of, heir| Lockout::Heir { of, heir };
            let first =
                vec![told(7, heir(8)), told(7, heir(9)), told(7, Hog { began: 74, ..heir(10) }), Lockout::GoesOn];
            let later = vec![told(8, heir(11)), told(6, heir(12)), Lockout::By(heir(12))];
            *turn.news.looks.borrow_mut() = vec![first, later];
            turn.end();
            let found = [7, 8, 9, 10, 11, 12].map(|tid| fake.class(tid));
            assert_eq!(found, [Class { resets_on_fork, ..FIFO }, due, DEADLINE, IDLE, due, IDLE].map(Some));
            assert!(turn.news.followed.borrow().is_empty(), "nobody is told any more");
            assert_eq!(turn.lockouts, [Lockout::GoesOn, Lockout::By(heir(12))], "what else was told is not lost");
        }
    }

    #[test]
    fn a_child_on_its_way_when_the_turn_ended_gets_it_too() {
        let (fake, run_dir) = (Fake::with(HOG, FIFO), tempfile::tempdir().expect("a directory"));
        let mut turn = turn(&fake, run_dir.path());
        assert!(turn.hold_back(HOG));
        turn.end();
        let heir = Hog { tid: 8, began: 76 };
        fake.put(heir, IDLE);
        *turn.news.looks.borrow_mut() = vec![vec![Lockout::Heir { of: 7, heir }]];
        turn.hear();
        assert_eq!(turn.lockouts, []);
        turn.settle();
        assert_eq!(fake.class(8), Some(USUAL));
    }

    #[test]
    fn a_child_on_its_way_when_the_daemon_ends_gets_it_too() {
        let (fake, run_dir) = (Fake::with(HOG, FIFO), tempfile::tempdir().expect("a directory"));
        let mut turn = turn(&fake, run_dir.path());
        assert!(turn.hold_back(HOG));
        let heir = Hog { tid: 8, began: 76 };
        fake.put(heir, IDLE);
        *turn.news.looks.borrow_mut() = vec![Vec::new(), vec![Lockout::Heir { of: 7, heir }]];
        turn.end_for_good();
        assert_eq!([7, 8].map(|tid| fake.class(tid)), [FIFO, USUAL].map(Some));
    }

    #[test]
    fn what_somebody_else_has_set_stays() {
        let (fake, run_dir) = (Fake::with(HOG, FIFO), tempfile::tempdir().expect("a directory"));
        let mut turn = turn(&fake, run_dir.path());
        assert!(turn.hold_back(HOG));
        fake.put(HOG, DEADLINE);
        turn.end();
        assert_eq!(fake.class(7), Some(DEADLINE));
    }

    #[test]
    fn what_a_killed_daemon_left_is_given_back() {
        let (fake, run_dir) = (Fake::with(HOG, FIFO), tempfile::tempdir().expect("a directory"));
        let other = Hog { tid: 8, began: 80 };
        fake.put(other, FIFO);
        let mut turn = turn(&fake, run_dir.path());
        assert!(turn.hold_back(HOG) && turn.hold_back(other));
        // What began meanwhile, and before.
        fake.put(Hog { tid: 9, began: 75 }, IDLE);
        fake.put(Hog { tid: 10, began: 74 }, IDLE);
        // A later thread of that number, which chose the same class.
        fake.put(Hog { began: 90, ..other }, FIFO.last());
        assert_eq!(take_back_on(&fake, run_dir.path()).ok(), Some(1));
        assert_eq!([7, 8, 9, 10].map(|tid| fake.class(tid)), [FIFO, FIFO.last(), USUAL, IDLE].map(Some));
        assert_eq!(fs::read_dir(run_dir.path()).expect("a directory").count(), 0, "the record goes");
        assert_eq!(take_back_on(&fake, run_dir.path()).ok(), Some(0));
    }

    #[test]
    fn half_a_record_spoils_no_other() {
        let (fake, run_dir) = (Fake::with(HOG, FIFO), tempfile::tempdir().expect("a directory"));
        let mut turn = turn(&fake, run_dir.path());
        fs::write(record(run_dir.path()), "8 80 1 5").expect("written");
        assert!(turn.hold_back(HOG));
        assert_eq!(take_back_on(&fake, run_dir.path()).ok(), Some(1));
        assert_eq!(fake.class(7), Some(FIFO));
    }

    #[test]
    fn half_a_record_says_nothing() {
        for text in
            ["", "\n", "7 70 1 50 1 75", "7 70 1 50 1\n", "7 70 1 50 1 75 2\n", "7 70 6 0 0 75\n", "x 70 1 50 1 75\n"]
        {
            assert_eq!(Held::parse(text), None, "{text:?}");
        }
        assert_eq!(Held::parse("7 70 1 50 1 75\n"), Some(Held { hog: HOG, class: FIFO, since: 75 }));
    }
}
