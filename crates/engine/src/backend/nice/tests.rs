//! The backend on a machine made up of fakes: tasks with nice values and slices, and eyes that see what a test says.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    os::fd::BorrowedFd,
    rc::Rc,
    time::Duration,
};

use super::*;
use crate::seams::{Attention, Channel, Handler, Process, Raises, Request};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
const DEFAULT_NS: u64 = 2_800_000;
const ATTENTION_NS: u64 = 4 * SECOND;
/// As short as that of a process that is served.
const PROMPT_SLICE_NS: u64 = 300_000;

// Scheduling policies by number (linux/sched.h).
const OTHER: u32 = 0;
const FIFO: u32 = 1;
const IDLE: u32 = 5;
const DEADLINE: u32 = 6;

/// What a test machine has.
struct World {
    /// Thread: its process, its settings.
    tasks: RefCell<BTreeMap<u32, (u32, Setting)>>,
    /// What the kernel keeps with threads. Like that, it outlasts a backend.
    records: RefCell<BTreeMap<u32, Change>>,
    default_ns: u64,
    avenrun: Cell<u64>,
    /// What the daemon asked the kernel, reads and changes.
    calls: Cell<u64>,
    changes: Cell<u64>,
    processes: RefCell<BTreeMap<u32, Process>>,
    told: RefCell<BTreeSet<u32>>,
    changed: RefCell<BTreeSet<u32>>,
    /// CPU time that processes have had, and what of it was charged or was before.
    cpu_ns: RefCell<BTreeMap<u32, u64>>,
    charged_ns: RefCell<BTreeMap<u32, u64>>,
    news: RefCell<Vec<News>>,
    raises: Cell<Raises>,
}

#[derive(Clone)]
struct Fake(Rc<World>);

impl Fake {
    fn new(default_ns: u64) -> Self {
        Self(Rc::new(World {
            tasks: RefCell::default(),
            records: RefCell::default(),
            default_ns,
            avenrun: Cell::new(0),
            calls: Cell::new(0),
            changes: Cell::new(0),
            processes: RefCell::default(),
            told: RefCell::default(),
            changed: RefCell::default(),
            cpu_ns: RefCell::default(),
            charged_ns: RefCell::default(),
            news: RefCell::default(),
            raises: Cell::default(),
        }))
    }

    fn backend(&self, policy: Policy) -> Nice<Self> {
        let options = SenseOptions { policy, ..SenseOptions::default() };
        Nice::new(self.clone(), &options)
    }

    fn add(&self, tid: u32, tgid: u32, nice: i32, policy: u32) {
        let slice_ns = if [OTHER, 3].contains(&policy) { self.0.default_ns } else { 0 };
        self.0.tasks.borrow_mut().insert(tid, (tgid, Setting { policy, nice, slice_ns }));
    }

    /// A child, or a thread if `tgid` is the parent's: it has what its parent has.
    fn fork(&self, parent: u32, tid: u32, tgid: u32) {
        let parent_tgid = self.0.tasks.borrow()[&parent].0;
        self.fork_untold(parent, tid, tgid);
        if self.0.changed.borrow().contains(&parent_tgid) {
            self.0.changed.borrow_mut().insert(tgid);
            self.0.news.borrow_mut().push(News::Born { tgid, parent_tgid });
        }
    }

    /// The same, and nobody tells of it.
    fn fork_untold(&self, parent: u32, tid: u32, tgid: u32) {
        let setting = self.0.tasks.borrow()[&parent].1;
        self.0.tasks.borrow_mut().insert(tid, (tgid, setting));
        let record = self.0.records.borrow().get(&parent).copied();
        let inherited = record.map(|change| Change { is_inherited: true, ..change });
        self.0.records.borrow_mut().extend(inherited.map(|change| (tid, change)));
    }

    fn renice(&self, tid: u32, nice: i32) {
        self.0.tasks.borrow_mut().get_mut(&tid).expect("there").1.nice = nice;
    }

    fn at(&self, tid: u32) -> (i32, u64) {
        let setting = self.0.tasks.borrow()[&tid].1;
        (setting.nice, setting.slice_ns)
    }

    fn nice(&self, tid: u32) -> i32 {
        self.at(tid).0
    }

    fn record(&self, tgid: u32, change: impl FnOnce(&mut Process)) {
        let mut processes = self.0.processes.borrow_mut();
        let empty = || Process {
            tgid,
            attention: None,
            loan_until_ns: 0,
            channel_read_ns: 0,
            lift: None,
            handler: None,
            raised_ns: [0; 2],
        };
        change(processes.entry(tgid).or_insert_with(empty));
        drop(processes);
        if self.0.told.borrow_mut().insert(tgid) {
            self.0.news.borrow_mut().push(News::Wanted { tgid });
        }
    }

    /// Somebody waits for the process from now on.
    fn request(&self, tgid: u32, now_ns: u64) {
        let request = Request {
            id: now_ns,
            opened_ns: now_ns,
            served_ns: 0,
            budget_ns: 2 * SECOND,
            channel: Channel::Inet,
            rule: 7,
            device: None,
            reader_tgid: tgid,
            peer: None,
            customer: 0,
            weight: 100,
            first_response_ns: None,
            last_response_ns: None,
            is_over: false,
        };
        let attention = Attention { request, since_ns: now_ns, until_ns: now_ns + ATTENTION_NS, path: vec![] };
        self.record(tgid, |process| process.attention = Some(attention));
    }

    /// A read from a unix socket.
    fn read(&self, tgid: u32, now_ns: u64) {
        if self.0.raises.get().unix {
            self.record(tgid, |process| process.raised_ns[0] = now_ns);
        }
    }

    fn count(&self) {
        self.0.calls.set(self.0.calls.get() + 1);
    }
}

impl Tasks for Fake {
    fn threads(&self, tgid: u32) -> Vec<u32> {
        self.count();
        self.0.tasks.borrow().iter().filter(|(_, task)| task.0 == tgid).map(|(tid, _)| *tid).collect()
    }

    fn setting(&self, tid: u32) -> Option<Setting> {
        self.count();
        self.0.tasks.borrow().get(&tid).map(|task| task.1)
    }

    fn set(&self, tid: u32, nice: i32, slice: Slice) -> io::Result<()> {
        self.count();
        self.0.changes.set(self.0.changes.get() + 1);
        let mut tasks = self.0.tasks.borrow_mut();
        // It obeys, also where the kernel would not: whom the backend leaves alone shall be its own doing.
        let Some((_, setting)) = tasks.get_mut(&tid) else { return Err(io::ErrorKind::NotFound.into()) };
        setting.nice = nice;
        setting.slice_ns = match slice {
            Slice::Absent => 0,
            Slice::Default => self.0.default_ns,
            Slice::Of(ns) => ns,
        };
        Ok(())
    }

    fn set_nice(&self, tid: u32, nice: i32) -> io::Result<()> {
        self.count();
        self.renice(tid, nice);
        Ok(())
    }

    fn change(&self, tid: u32) -> Option<Change> {
        self.count();
        self.0.records.borrow().get(&tid).copied()
    }

    fn note(&self, tid: u32, change: Change) -> Result<(), BpfError> {
        self.count();
        if !self.0.tasks.borrow().contains_key(&tid) {
            return Err(BpfError::NoSuchProcess(tid));
        }
        self.0.records.borrow_mut().insert(tid, change);
        Ok(())
    }

    fn erase(&self, tid: u32) {
        self.0.records.borrow_mut().remove(&tid);
    }

    fn changed(&self) -> Result<Vec<Changed>, BpfError> {
        self.count();
        let tasks = self.0.tasks.borrow();
        let of = |(tid, change): (&u32, &Change)| {
            tasks.get(tid).map(|one| Changed { tid: *tid, tgid: one.0, change: *change })
        };
        Ok(self.0.records.borrow().iter().filter_map(of).collect())
    }

    fn end(&self) {
        self.0.records.borrow_mut().clear();
    }

    fn process_time_ns(&self, tgid: u32) -> Option<u64> {
        self.count();
        let ran_ns = self.0.cpu_ns.borrow().get(&tgid).copied().unwrap_or(0);
        self.0.tasks.borrow().values().any(|task| task.0 == tgid).then_some(ran_ns)
    }

    fn default_slice_ns(&self) -> u64 {
        self.0.default_ns
    }

    fn avenrun(&self) -> u64 {
        self.0.avenrun.get()
    }
}

impl Witness for Fake {
    fn process(&self, pid: u32) -> Result<Option<Process>, BpfError> {
        self.count();
        Ok(self.0.processes.borrow().get(&pid).cloned())
    }

    fn news(&self) -> Result<Vec<News>, BpfError> {
        Ok(self.0.news.take())
    }

    fn news_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn take_on(&self, tgid: u32, total_ns: u64) -> Result<(), BpfError> {
        self.count();
        self.0.changed.borrow_mut().insert(tgid);
        self.0.charged_ns.borrow_mut().insert(tgid, total_ns);
        Ok(())
    }

    fn charge(&self, tgid: u32, total_ns: u64) -> Result<(), BpfError> {
        self.count();
        assert!(self.0.changed.borrow().contains(&tgid), "only who was taken on");
        let charged_ns = self.0.charged_ns.borrow_mut().insert(tgid, total_ns).unwrap_or(0);
        if let Some(attention) = self.0.processes.borrow_mut().get_mut(&tgid).and_then(|one| one.attention.as_mut()) {
            attention.request.served_ns += total_ns - charged_ns;
        }
        Ok(())
    }

    fn let_go(&self, tgid: u32, changed: bool) -> Result<(), BpfError> {
        self.count();
        self.0.told.borrow_mut().remove(&tgid);
        if !changed {
            self.0.changed.borrow_mut().remove(&tgid);
        }
        Ok(())
    }

    fn set_raises(&mut self, raises: Raises) {
        self.0.raises.set(raises);
    }
}

/// Acts whenever the backend wants to, from `from_ns` until `to_ns`.
fn run(backend: &mut Nice<Fake>, fake: &Fake, from_ns: u64, to_ns: u64) {
    let mut now_ns = from_ns;
    while now_ns <= to_ns {
        let again_ns = backend.act(&mut fake.clone(), now_ns);
        now_ns = again_ns.map_or(now_ns + SECOND, |ns| ns.max(now_ns + 5 * MS)).min(now_ns + SECOND);
    }
}

#[test]
fn who_is_attended_is_raised_with_all_threads_and_has_its_own_again() {
    let fake = Fake::new(DEFAULT_NS);
    fake.add(10, 10, 5, OTHER);
    fake.add(11, 10, 6, OTHER);
    fake.add(20, 20, 0, OTHER);
    let mut backend = fake.backend(Policy::Appease);
    fake.request(10, SECOND);
    backend.act(&mut fake.clone(), SECOND);
    assert_eq!((fake.nice(10), fake.nice(11)), (-15, -14));
    assert!(fake.at(10).1 < DEFAULT_NS / 2, "a short slice");
    // A thread that comes later has what the others have, from its parent.
    fake.fork(11, 12, 10);
    run(&mut backend, &fake, SECOND, 5 * SECOND - MS);
    assert_eq!((fake.nice(10), fake.nice(12)), (-15, -14));
    // For a while it gets the CPU at once, but no more of it.
    run(&mut backend, &fake, 5 * SECOND, 8 * SECOND);
    assert_eq!((fake.nice(10), fake.nice(11), fake.nice(12)), (5, 6, 6));
    assert!(fake.at(10).1 < DEFAULT_NS / 2);
    run(&mut backend, &fake, 8 * SECOND, 10 * SECOND);
    assert_eq!((fake.at(10), fake.at(11), fake.at(12)), ((5, DEFAULT_NS), (6, DEFAULT_NS), (6, DEFAULT_NS)));
    assert_eq!(fake.at(20), (0, DEFAULT_NS));
    // Nothing is left to be looked at, when the records are gone.
    run(&mut backend, &fake, 10 * SECOND, 18 * SECOND);
    assert!(fake.0.records.borrow().is_empty());
    assert_eq!(backend.act(&mut fake.clone(), 18 * SECOND), None);
}

#[test]
fn a_spent_budget_ends_it_and_a_reader_of_a_channel_stays_prompt() {
    let fake = Fake::new(DEFAULT_NS);
    fake.add(10, 10, 0, OTHER);
    let mut backend = fake.backend(Policy::Appease);
    fake.request(10, SECOND);
    backend.act(&mut fake.clone(), SECOND);
    assert_eq!(fake.nice(10), -20);
    fake.record(10, |process| {
        process.channel_read_ns = SECOND;
        process.attention.as_mut().expect("attended").request.served_ns = 2 * SECOND;
    });
    run(&mut backend, &fake, SECOND + LOOK_NS, 2 * SECOND);
    assert_eq!(fake.nice(10), 0);
    assert!(fake.at(10).1 < DEFAULT_NS / 2);
    // The next request is told, and it is raised again.
    fake.request(10, 100 * SECOND);
    backend.act(&mut fake.clone(), 100 * SECOND);
    assert_eq!(fake.nice(10), -20);
}

#[test]
fn who_spent_its_budget_and_reads_no_channel_has_all_of_its_own_again() {
    let fake = Fake::new(DEFAULT_NS);
    fake.add(10, 10, 0, OTHER);
    let mut backend = fake.backend(Policy::Appease);
    fake.request(10, SECOND);
    backend.act(&mut fake.clone(), SECOND);
    fake.record(10, |process| process.attention.as_mut().expect("attended").request.served_ns = 2 * SECOND);
    run(&mut backend, &fake, SECOND + LOOK_NS, 2 * SECOND);
    assert_eq!(fake.at(10), (0, DEFAULT_NS));
}

#[test]
fn who_is_served_pays_for_it_from_then_on() {
    let fake = Fake::new(DEFAULT_NS);
    fake.add(10, 10, 0, OTHER);
    let ran = |ns| fake.0.cpu_ns.borrow_mut().insert(10, ns);
    ran(100 * SECOND);
    let mut backend = fake.backend(Policy::Appease);
    fake.request(10, SECOND);
    backend.act(&mut fake.clone(), SECOND);
    ran(100 * SECOND + 1900 * MS);
    run(&mut backend, &fake, SECOND + LOOK_NS, 3 * SECOND);
    assert_eq!(fake.nice(10), -20, "what it had before is not on this account");
    ran(100 * SECOND + 2000 * MS);
    run(&mut backend, &fake, 3 * SECOND, 3 * SECOND + LOOK_NS);
    assert_eq!(fake.at(10), (0, DEFAULT_NS), "the budget is spent");
}

#[test]
fn what_somebody_else_sets_is_kept() {
    let fake = Fake::new(DEFAULT_NS);
    for nice in [7, -3] {
        fake.add(10, 10, 2, OTHER);
        let mut backend = fake.backend(Policy::Appease);
        fake.request(10, SECOND);
        backend.act(&mut fake.clone(), SECOND);
        assert_eq!(fake.nice(10), -18);
        fake.renice(10, nice);
        run(&mut backend, &fake, SECOND + LOOK_NS, 20 * SECOND);
        assert_eq!(fake.at(10), (nice, DEFAULT_NS));
        // That is its own from then on.
        fake.request(10, 30 * SECOND);
        backend.act(&mut fake.clone(), 30 * SECOND);
        assert_eq!(fake.nice(10), (nice - 20).max(-20));
        drop(backend);
        assert_eq!(fake.at(10), (nice, DEFAULT_NS));
        fake.0.told.borrow_mut().clear();
    }
}

#[test]
fn a_command_that_is_started_with_nice_is_as_much_worse_as_it_wants() {
    let fake = Fake::new(DEFAULT_NS);
    fake.add(10, 10, 1, OTHER);
    let mut backend = fake.backend(Policy::Appease);
    fake.request(10, SECOND);
    backend.act(&mut fake.clone(), SECOND);
    fake.fork(10, 30, 30);
    // It adds ten to what it finds, which is -19.
    fake.renice(30, -9);
    run(&mut backend, &fake, SECOND, 20 * SECOND);
    assert_eq!((fake.at(10), fake.at(30)), ((1, DEFAULT_NS), (11, DEFAULT_NS)));
}

#[test]
fn realtime_deadline_and_idle_tasks_are_never_touched() {
    let fake = Fake::new(DEFAULT_NS);
    for (tid, policy) in [(10, FIFO), (11, IDLE), (12, DEADLINE), (13, OTHER)] {
        fake.add(tid, 10, 4, policy);
    }
    let before = [10, 11, 12].map(|tid| fake.at(tid));
    let mut backend = fake.backend(Policy::Appease);
    fake.request(10, SECOND);
    backend.act(&mut fake.clone(), SECOND);
    assert_eq!(fake.nice(13), -16);
    assert_eq!([10, 11, 12].map(|tid| fake.at(tid)), before);
    drop(backend);
    assert_eq!([10, 11, 12].map(|tid| fake.at(tid)), before);
}

#[test]
fn all_is_given_back_at_the_end_also_to_who_was_not_known_yet() {
    for default_ns in [DEFAULT_NS, 0] {
        let fake = Fake::new(default_ns);
        fake.add(10, 10, 3, OTHER);
        let mut backend = fake.backend(Policy::Appease);
        fake.request(10, SECOND);
        backend.act(&mut fake.clone(), SECOND);
        assert_eq!(fake.nice(10), -17);
        fake.fork(10, 30, 30);
        assert_eq!(fake.nice(30), -17);
        drop(backend);
        assert_eq!((fake.at(10), fake.at(30)), ((3, default_ns), (3, default_ns)));
        assert!(fake.0.records.borrow().is_empty(), "no record is left");
    }
}

/// The daemon is killed.
fn killed(fake: &Fake) {
    let mut backend = fake.backend(Policy::Appease);
    fake.request(10, SECOND);
    backend.act(&mut fake.clone(), SECOND);
    fake.fork(10, 30, 30);
    backend.act(&mut fake.clone(), SECOND);
    fake.fork(30, 31, 31);
    std::mem::forget(backend);
    assert_eq!((fake.nice(10), fake.nice(11), fake.nice(30)), (-17, -16, -17));
}

#[test]
fn what_a_killed_one_left_is_taken_back_by_the_next() {
    for default_ns in [DEFAULT_NS, 0] {
        let fake = Fake::new(default_ns);
        fake.add(10, 10, 3, OTHER);
        fake.add(11, 10, 4, OTHER);
        fake.add(12, 10, 4, OTHER);
        killed(&fake);
        fake.renice(12, 9);
        // A command that a child of the served one starts by nice(1), when there is no daemon.
        fake.fork_untold(31, 32, 32);
        fake.renice(32, -7);
        let changed = if default_ns > 0 { 6 } else { 5 };
        assert_eq!(take_back(&fake).expect("readable"), changed);
        let own = |nice| (nice, default_ns);
        let found = [10, 11, 12, 30, 31, 32].map(|tid| fake.at(tid));
        assert_eq!(found, [own(3), own(4), own(9), own(3), own(3), own(13)]);
        assert_eq!(take_back(&fake).expect("readable"), 0);
    }
}

/// Whatever a user has set of its own: nothing that another can write says that a change is ours.
#[test]
fn nobody_is_given_anything_for_the_slice_that_it_has() {
    for slice_ns in [PROMPT_SLICE_NS, 298_004, MS, 6 * MS, 7 * MS, 8 * MS] {
        let fake = Fake::new(DEFAULT_NS);
        fake.add(10, 10, 0, OTHER);
        fake.add(20, 20, 0, OTHER);
        for tid in [10, 20] {
            fake.0.tasks.borrow_mut().get_mut(&tid).expect("there").1.slice_ns = slice_ns;
        }
        let mut backend = fake.backend(Policy::Appease);
        fake.request(10, SECOND);
        backend.act(&mut fake.clone(), SECOND);
        assert_eq!((fake.at(10), fake.at(20)), ((-20, slice_ns), (0, slice_ns)));
        std::mem::forget(backend);
        take_back(&fake).expect("readable");
        assert_eq!((fake.at(10), fake.at(20)), ((0, slice_ns), (0, slice_ns)));
        let backend = fake.backend(Policy::Appease);
        drop(backend);
        assert_eq!((fake.at(10), fake.at(20)), ((0, slice_ns), (0, slice_ns)));
    }
}

/// A child that is being started while its parent's is given back, and one of which nobody was told for want of room.
#[test]
fn what_children_have_is_given_back_also_if_nobody_told_of_them() {
    let fake = Fake::new(DEFAULT_NS);
    fake.add(10, 10, 3, OTHER);
    let mut backend = fake.backend(Policy::Appease);
    fake.request(10, SECOND);
    backend.act(&mut fake.clone(), SECOND);
    fake.fork_untold(10, 30, 30);
    let served = fake.at(10);
    run(&mut backend, &fake, SECOND, 10 * SECOND);
    assert_eq!((fake.at(10), fake.at(30)), ((3, DEFAULT_NS), (3, DEFAULT_NS)));
    // The kernel copies the settings first, and the record a moment later.
    let record = fake.0.records.borrow().get(&10).copied();
    assert!(record.is_some_and(|change| change.is_over), "{record:?}");
    fake.fork_untold(10, 31, 31);
    fake.0.tasks.borrow_mut().get_mut(&31).expect("there").1 =
        Setting { policy: OTHER, nice: served.0, slice_ns: served.1 };
    run(&mut backend, &fake, 10 * SECOND, 20 * SECOND);
    assert_eq!(fake.at(31), (3, DEFAULT_NS));
    assert!(fake.0.records.borrow().is_empty());
}

#[test]
fn a_slice_that_a_user_chose_is_kept() {
    let fake = Fake::new(DEFAULT_NS);
    fake.add(10, 10, 3, OTHER);
    fake.0.tasks.borrow_mut().get_mut(&10).expect("there").1.slice_ns = 5 * MS;
    let mut backend = fake.backend(Policy::Appease);
    fake.request(10, SECOND);
    backend.act(&mut fake.clone(), SECOND);
    assert_eq!(fake.at(10), (-17, 5 * MS));
    run(&mut backend, &fake, SECOND, 20 * SECOND);
    assert_eq!(fake.at(10), (3, 5 * MS));
}

/// A server of 5,000 requests a second, for ten seconds: it is changed once, and looked at now and then.
#[test]
fn requests_are_no_system_calls() {
    let fake = Fake::new(DEFAULT_NS);
    fake.add(10, 10, 0, OTHER);
    let mut backend = fake.backend(Policy::Appease);
    let mut acts_at = 0;
    for request in 0..50_000 {
        let now_ns = SECOND + request * SECOND / 5000;
        fake.request(10, now_ns);
        if !fake.0.news.borrow().is_empty() || now_ns >= acts_at {
            acts_at = backend.act(&mut fake.clone(), now_ns).unwrap_or(u64::MAX);
        }
    }
    let (calls, changes) = (fake.0.calls.get(), fake.0.changes.get());
    assert_eq!(changes, 1);
    assert!(calls < 10 * 50, "{calls} calls in ten seconds");
}

/// The same where each request has a process of its own, which ends within 10 ms.
#[test]
fn children_that_end_at_once_are_not_changed() {
    let fake = Fake::new(DEFAULT_NS);
    fake.add(10, 10, 0, OTHER);
    let mut backend = fake.backend(Policy::Appease);
    fake.request(10, SECOND);
    backend.act(&mut fake.clone(), SECOND);
    let before = fake.0.changes.get();
    let mut acts_at = 0;
    for request in 0..5000u32 {
        let now_ns = SECOND + u64::from(request) * SECOND / 5000;
        fake.fork(10, 100 + request, 100 + request);
        fake.0.tasks.borrow_mut().remove(&(100 + request).saturating_sub(50).max(100));
        if now_ns >= acts_at {
            acts_at = backend.act(&mut fake.clone(), now_ns).unwrap_or(u64::MAX);
        }
    }
    let (calls, changes) = (fake.0.calls.get(), fake.0.changes.get() - before);
    assert_eq!(changes, 0);
    assert!(calls < 5000 + 1000, "{calls} calls in a second");
}

#[test]
fn changes_have_a_limit() {
    let fake = Fake::new(DEFAULT_NS);
    let mut backend = fake.backend(Policy::Appease);
    for tgid in 10..5010 {
        fake.add(tgid, tgid, 0, OTHER);
        fake.request(tgid, SECOND);
    }
    run(&mut backend, &fake, SECOND, 2 * SECOND);
    let (changes, calls) = (fake.0.changes.get(), fake.0.calls.get());
    assert!((1000..=1000 + 600).contains(&changes), "{changes} in the first second");
    // Ten looks at each that is served; who waits for its turn costs nothing meanwhile.
    assert!(calls < 40 * changes, "{calls} calls for {changes} changes");
    // Who could not be helped at once is helped when there is room, as long as it is waited for.
    run(&mut backend, &fake, 2 * SECOND, 4 * SECOND);
    assert!(fake.0.changes.get() > changes + 800);
}

#[test]
fn handlers_have_ten_levels() {
    let fake = Fake::new(DEFAULT_NS);
    let handler = Handler { primary_until_ns: 3 * SECOND, ..Handler::default() };
    let cohandler = Handler { co_until_ns: 3 * SECOND, ..Handler::default() };
    for (tgid, handler) in [(10, handler), (20, cohandler)] {
        fake.add(tgid, tgid, 2, OTHER);
        let mut backend = fake.backend(Policy::Rsio);
        fake.record(tgid, |process| process.handler = Some(handler));
        backend.act(&mut fake.clone(), SECOND);
        assert_eq!(fake.nice(tgid), -8);
        assert!(fake.at(tgid).1 < DEFAULT_NS / 2, "a short slice");
        run(&mut backend, &fake, SECOND, 3 * SECOND - MS);
        assert_eq!(fake.nice(tgid), -8, "as long as it is one");
        run(&mut backend, &fake, 3 * SECOND - MS, 4 * SECOND);
        assert_eq!(fake.at(tgid), (2, DEFAULT_NS));
    }
}

#[test]
fn rbpe_raises_by_the_load_and_lowers_by_time() {
    let fake = Fake::new(DEFAULT_NS);
    fake.add(10, 10, 2, OTHER);
    let mut backend = fake.backend(Policy::Rbpe);
    backend.act(&mut fake.clone(), 0);
    fake.read(10, SECOND);
    assert_eq!((fake.0.raises.get(), fake.0.news.borrow().len()), (Raises::default(), 0), "silent at low load");

    fake.0.avenrun.set(20_000);
    backend.act(&mut fake.clone(), 2 * SECOND);
    fake.read(10, 2 * SECOND);
    backend.act(&mut fake.clone(), 2 * SECOND);
    assert_eq!(fake.nice(10), -13);
    assert_eq!(fake.at(10).1, DEFAULT_NS, "the slice is what it was");
    // A child has what its parent has, and loses it with it.
    fake.fork(10, 30, 30);
    run(&mut backend, &fake, 2 * SECOND, 2 * SECOND + 1250 * MS);
    assert_eq!((fake.nice(10), fake.nice(30)), (-11, -11));
    // The next read is told, since a level was lost, and begins anew.
    fake.read(10, 3300 * MS);
    backend.act(&mut fake.clone(), 3300 * MS);
    assert_eq!((fake.nice(10), fake.nice(30)), (-13, -11));
    run(&mut backend, &fake, 3300 * MS, 20 * SECOND);
    assert_eq!((fake.at(10), fake.at(30)), ((2, DEFAULT_NS), (2, DEFAULT_NS)));
}

/// Reads in quick succession renew the levels, at no cost but one look for each delay.
#[test]
fn rbpe_does_not_act_on_each_read() {
    let fake = Fake::new(DEFAULT_NS);
    fake.add(10, 10, 0, OTHER);
    fake.0.avenrun.set(20_000);
    let mut backend = fake.backend(Policy::Rbpe);
    let mut acts_at = 0;
    for read in 0..50_000 {
        let now_ns = SECOND + read * SECOND / 5000;
        if !fake.0.news.borrow().is_empty() || now_ns >= acts_at {
            acts_at = backend.act(&mut fake.clone(), now_ns).unwrap_or(u64::MAX);
        }
        fake.read(10, now_ns);
    }
    let (calls, changes) = (fake.0.calls.get(), fake.0.changes.get());
    assert_eq!((changes, fake.nice(10)), (1, -15));
    assert!(calls < 10 * 20, "{calls} calls in ten seconds");
}

#[test]
fn the_limit_is_kept_over_time() {
    let mut changes = Changes { left: CHANGES_AT_ONCE, at_ns: 0 };
    let mut taken = 0;
    for ms in 0..10_000 {
        taken += u64::from(changes.take(7, ms * MS)) * 7;
    }
    let most = CHANGES_AT_ONCE + CHANGES_EACH_S * Duration::from_millis(10_000).as_secs();
    assert!((most - 20..=most).contains(&taken), "{taken} of {most}");
    // A process of more threads than there can ever be room for is not left out for ever.
    assert!(!changes.take(5000, 10_000 * MS) && changes.take(5000, 20_000 * MS));
}
