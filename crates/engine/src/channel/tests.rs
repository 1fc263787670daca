//! Rules against a kernel that is made up, and real files, sockets and watches.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    fs, io,
    net::IpAddr,
    os::{
        fd::BorrowedFd,
        unix::{fs::MetadataExt, net::UnixListener},
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::{spec::tests::spec, *};
use crate::seams::{
    BpfError, Customer, Eyes, Hits, Latency, MissingHook, RULES_PER_TARGET, Request, Rule, Slot, Target, Whom,
};

/// Ten thousand of anything take a fraction of this on a busy machine; what grows with the square takes far more.
pub(crate) const AT_ONCE: Duration = Duration::from_secs(6);
/// Channels of a machine whose configuration says nothing: device classes and the port of ssh.
pub(crate) const BUILT_IN: usize = CLASSES.len() + 1;

/// The kernel's side: what it was told, and that it makes sense.
#[derive(Default)]
pub(crate) struct FakeKernel {
    pub rules: RefCell<BTreeMap<Slot, Rule>>,
    pub bound: RefCell<BTreeSet<(Target, Slot)>>,
    pub hits: RefCell<BTreeMap<Slot, Hits>>,
    /// How often it was asked to change something.
    pub calls: Cell<usize>,
    pub writes: Cell<bool>,
    pub adopted: Cell<bool>,
    /// Whether it will not have unix sockets with abstract names.
    pub refuses_abstract: Cell<bool>,
    /// Whether it will have no more than so many weights.
    pub weights_at_most: Cell<Option<usize>>,
    pub weights: RefCell<BTreeMap<Whom, u32>>,
    pub seat_user: Cell<Option<u32>>,
    pub swept: Cell<u32>,
    pub customers: RefCell<Vec<Customer>>,
    pub latencies: RefCell<Vec<Latency>>,
    pub requests: RefCell<Vec<Request>>,
    /// Whether it tells nothing of response times.
    pub hides_latencies: Cell<bool>,
}

impl FakeKernel {
    fn called(&self) {
        self.calls.set(self.calls.get() + 1);
    }

    fn targets(&self, slot: Slot) -> Vec<Target> {
        self.bound.borrow().iter().filter(|(_, of)| *of == slot).map(|(target, _)| target.clone()).collect()
    }

    pub(crate) fn put_weights(&self, weights: &BTreeMap<Whom, u32>) -> Result<(), BpfError> {
        self.called();
        if self.weights_at_most.get().is_some_and(|most| weights.len() > most) {
            return Err(BpfError::Refused { what: "set the weights of customers".into(), why: "no memory".into() });
        }
        self.weights.borrow_mut().clone_from(weights);
        Ok(())
    }
}

impl Eyes for FakeKernel {
    fn attach_new_modules(&mut self) -> Vec<&'static str> {
        Vec::new()
    }

    fn stand_down(&self) -> Result<(), BpfError> {
        Ok(())
    }

    fn listener_changes(&self) -> Option<u64> {
        None
    }

    fn missing(&self) -> Vec<MissingHook> {
        Vec::new()
    }

    fn counters(&self) -> Result<Vec<(&'static str, u64)>, BpfError> {
        Ok(Vec::new())
    }

    fn define(&self, slot: Slot, rule: &Rule) -> Result<(), BpfError> {
        self.called();
        assert_eq!(self.rules.borrow_mut().insert(slot, *rule), None, "slot {slot} is taken");
        self.hits.borrow_mut().insert(slot, Hits::default());
        Ok(())
    }

    fn forget(&self, slot: Slot) -> Result<(), BpfError> {
        self.called();
        assert_eq!(self.targets(slot), [], "targets still lead to slot {slot}");
        assert!(self.rules.borrow_mut().remove(&slot).is_some(), "slot {slot} is empty");
        Ok(())
    }

    fn bind(&self, slot: Slot, target: &Target) -> Result<(), BpfError> {
        self.called();
        assert!(self.rules.borrow().contains_key(&slot), "slot {slot} is empty");
        if self.refuses_abstract.get() && matches!(target, Target::UnixAbstract { .. }) {
            return Err(BpfError::Refused { what: "set a rule".into(), why: "no such thing".into() });
        }
        let mut bound = self.bound.borrow_mut();
        let others = bound.range((target.clone(), 0)..=(target.clone(), Slot::MAX)).count();
        assert!(others < RULES_PER_TARGET, "{target:?} leads to {others} rules");
        assert!(bound.insert((target.clone(), slot)), "{target:?} leads to slot {slot} already");
        Ok(())
    }

    fn unbind(&self, slot: Slot, target: &Target) -> Result<(), BpfError> {
        self.called();
        assert!(self.bound.borrow_mut().remove(&(target.clone(), slot)), "{target:?} does not lead to slot {slot}");
        Ok(())
    }

    fn hits(&self, slot: Slot) -> Result<Hits, BpfError> {
        Ok(self.hits.borrow().get(&slot).cloned().unwrap_or_default())
    }

    fn adopt_watches(&self, _: BorrowedFd<'_>) -> Result<(), BpfError> {
        self.adopted.set(true);
        Ok(())
    }

    fn inode_of(&self, file: BorrowedFd<'_>) -> Result<u64, BpfError> {
        Ok(rustix::fs::fstat(file).expect("open").st_ino)
    }

    fn set_write_rules(&mut self, sockets: bool) {
        self.writes.set(sockets);
    }

    fn weigh(&self, slot: Slot, weight: u32) -> Result<(), BpfError> {
        self.called();
        self.rules.borrow_mut().get_mut(&slot).expect("a rule").weight = weight;
        Ok(())
    }

    fn set_weights(&mut self, weights: &BTreeMap<Whom, u32>) -> Result<(), BpfError> {
        self.put_weights(weights)
    }

    fn set_seat_user(&mut self, user: Option<u32>) {
        self.seat_user.set(user);
    }

    fn sweep(&self) -> Result<(), BpfError> {
        self.swept.set(self.swept.get() + 1);
        Ok(())
    }

    fn customers(&self) -> Result<Vec<Customer>, BpfError> {
        Ok(self.customers.borrow().clone())
    }

    fn latencies(&self) -> Result<Vec<Latency>, BpfError> {
        if self.hides_latencies.get() {
            return Err(BpfError::Refused { what: "read response times".into(), why: "no such map".into() });
        }
        Ok(self.latencies.borrow().clone())
    }

    fn open_requests(&self) -> Result<Vec<Request>, BpfError> {
        Ok(self.requests.borrow().clone())
    }
}

/// Channels of a machine whose `/proc` and `/sys` are empty.
struct Bench {
    machine: TempDir,
    dir: TempDir,
    kernel: FakeKernel,
    channels: Channels,
}

impl Bench {
    fn new() -> Self {
        let (machine, dir) = (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
        let channels = Channels::new(machine.path()).expect("watches");
        Self { machine, dir, kernel: FakeKernel::default(), channels }
    }

    /// With the built-in channels.
    fn started() -> Self {
        let mut bench = Self::new();
        bench.load("").expect("right");
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn load(&mut self, text: &str) -> Result<(usize, usize), String> {
        let path = self.path("config.toml");
        fs::write(&path, text).expect("written");
        let file = config::read(Some(&path)).map_err(|refusal| refusal.to_string());
        let shown = |refusal: Refusal| refusal.to_string();
        let changes = self.channels.load(file?, &path, &mut self.kernel).map_err(shown);
        // The directory is another one in each run.
        let here = format!("{}/", self.dir.path().display());
        changes.map(|changes| (changes.added, changes.removed)).map_err(|refusal| refusal.replace(&here, ""))
    }

    fn add(&mut self, line: &str) -> Result<Slot, String> {
        self.channels.add(spec(line), None, &mut self.kernel).map_err(|refusal| refusal.to_string())
    }

    /// Adds what must not be possible: nothing may change by it.
    fn refused(&mut self, line: &str) -> String {
        let state =
            |bench: &Self| (bench.shown(), bench.kernel.rules.borrow().clone(), bench.kernel.bound.borrow().clone());
        let before = state(self);
        let refusal = self.add(line).expect_err(line);
        assert_eq!(state(self), before, "{line}");
        refusal
    }

    fn remove(&mut self, line: &str) {
        let slot = self.channels.find(&spec(line)).expect(line);
        self.channels.remove(slot, &mut self.kernel).expect(line);
    }

    fn tick(&mut self) -> Vec<String> {
        self.channels.tick(&self.kernel);
        self.channels.due_names()
    }

    fn state(&self, slot: Slot) -> &State {
        &self.channels.entry(slot).expect("a rule").state
    }

    fn shown(&self) -> Vec<String> {
        let row =
            |(slot, entry): (Slot, &Entry)| format!("{slot} {} [{:?}] {:?}", entry.spec, entry.source, entry.state);
        self.channels.entries_after(0).map(row).collect()
    }

    fn fifo(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("made");
        path
    }

    /// Something listens on a port, for all or for nobody.
    fn listens(&self, server: Option<(&str, u16)>) {
        let proc = self.machine.path().join("proc");
        fs::create_dir_all(proc.join("net")).expect("made");
        let mut table = String::from("head\n");
        if let Some((comm, port)) = server {
            fs::create_dir_all(proc.join("10/fd")).expect("made");
            fs::write(proc.join("10/comm"), comm).expect("written");
            fs::write(proc.join("10/status"), "Tgid:\t10\nUid:\t0\t0\t0\t0\n").expect("written");
            let _ = fs::remove_file(proc.join("10/fd/3"));
            std::os::unix::fs::symlink(format!("socket:[{port}]"), proc.join("10/fd/3")).expect("linked");
            table += &format!("0: 00000000:{port:04X} 00000000:0000 0A 0:0 0:0 0 0 0 {port}\n");
        }
        fs::write(proc.join("net/tcp"), table).expect("written");
    }
}

#[test]
fn a_fresh_machine_has_the_built_in_channels() {
    let bench = Bench::started();
    insta::assert_snapshot!(bench.shown().join("\n"), @r"
    1 read class:evdev [BuiltIn] Armed
    2 read class:tty [BuiltIn] Armed
    3 read class:mouse [BuiltIn] Armed
    4 read class:joystick [BuiltIn] Armed
    5 read class:hidraw [BuiltIn] Armed
    6 write class:audio [BuiltIn] Armed
    7 read accept :22 [BuiltIn] Armed
    ");
    assert_eq!(bench.kernel.targets(6), [Target::Class(Channel::Audio)]);
    assert_eq!(bench.kernel.rules.borrow().len(), BUILT_IN);
    assert!(!bench.kernel.writes.get(), "playing sound is no write to a socket");
}

#[test]
fn a_file_that_goes_and_comes_back_works_again() {
    let mut bench = Bench::started();
    let path = bench.path("run/fifo");
    let slot = bench.add(&format!("read {}", path.display())).expect("armed for later");
    assert_eq!(*bench.state(slot), State::Waiting(path.display().to_string()));
    assert!(bench.kernel.targets(slot).is_empty());

    fs::create_dir(bench.path("run")).expect("made");
    bench.tick();
    assert_ne!(*bench.state(slot), State::Armed);
    let mut defined = None;
    for _ in 0..2 {
        bench.fifo("run/fifo");
        bench.tick();
        assert_eq!(*bench.state(slot), State::Armed);
        assert!(matches!(bench.kernel.targets(slot)[..], [Target::File { .. }]));
        // The rule is the same one all the time, and so are its hits.
        bench.kernel.hits.borrow_mut().get_mut(&slot).expect("defined").count += 1;
        defined = Some(bench.kernel.hits.borrow()[&slot].count);
        fs::remove_file(&path).expect("removed");
        bench.tick();
        assert_eq!(*bench.state(slot), State::Waiting(path.display().to_string()));
        assert!(bench.kernel.targets(slot).is_empty());
    }
    assert_eq!(defined, Some(2));

    fs::remove_dir(bench.path("run")).expect("removed");
    bench.tick();
    fs::create_dir(bench.path("run")).expect("made");
    bench.fifo("run/fifo");
    bench.tick();
    assert_eq!(*bench.state(slot), State::Armed, "also when its directory went");
}

#[test]
fn a_watch_is_bound_while_it_lasts_and_shared() {
    let mut bench = Bench::started();
    let path = bench.fifo("fifo").display().to_string();
    let one = bench.add(&format!("read {path}")).expect("added");
    let two = bench.add(&format!("both {path} --user root")).expect("added");
    assert_eq!(bench.kernel.targets(one), bench.kernel.targets(two));
    bench.remove(&format!("read {path}"));
    bench.tick();
    assert_eq!(*bench.state(two), State::Armed);
    assert_eq!(bench.kernel.targets(two).len(), 1);
}

#[test]
fn a_unix_socket_that_is_made_anew_is_bound_anew() {
    let mut bench = Bench::started();
    let path = bench.path("socket");
    let slot = bench.add(&format!("read accept unix:{}", path.display())).expect("armed for later");
    let mut seen = Vec::new();
    for _ in 0..2 {
        let listener = UnixListener::bind(&path).expect("bound");
        bench.tick();
        let inode = fs::metadata(&path).expect("there").ino();
        assert_eq!(bench.kernel.targets(slot), [Target::UnixPath { side: crate::seams::Side::Accept, inode }]);
        seen.push(listener);
        fs::rename(&path, bench.path("old")).expect("moved");
        bench.tick();
        assert!(matches!(bench.state(slot), State::Waiting(_)), "it is at another path");
    }
}

#[test]
fn what_is_no_channel_is_refused() {
    let mut bench = Bench::started();
    let here = format!("{}/", bench.dir.path().display());
    fs::write(bench.path("file"), "").expect("written");
    bench.fifo("fifo");
    fs::create_dir(bench.path("directory")).expect("made");
    let _listener = UnixListener::bind(bench.path("socket")).expect("bound");
    let refusals: Vec<String> = [
        format!("read {here}file"),
        format!("read {here}directory"),
        format!("read {here}socket"),
        format!("read accept unix:{here}fifo"),
        "read accept :22".into(),
        "both accept :22".into(),
        "read class:evdev --user root".into(),
        "read accept :80 --user no-such-user".into(),
        "read accept :80 --group no-such-group".into(),
        "read accept :80 --cgroup /a.slice".into(),
    ]
    .iter()
    .map(|line| bench.refused(line).replace(&here, ""))
    .collect();
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    file is a regular file: a channel is a device, a FIFO or a socket
    directory is a directory: a channel is a device, a FIFO or a socket
    socket is a unix socket: write accept unix:socket or connect unix:socket
    fifo is no unix socket: a device or FIFO is named without "unix:"
    read accept :22: channel 7 (read accept :22, built-in) has that: remove it first (appease channel remove 7)
    both accept :22: channel 7 (read accept :22, built-in) has that: remove it first (appease channel remove 7)
    read class:evdev --user root: channel 1 (read class:evdev, built-in) has that: remove it first (appease channel remove 1)
    there is no user "no-such-user": look for the name with "getent passwd", or give a number
    there is no group "no-such-group": look for the name with "getent group", or give a number
    cgroup /a.slice cannot be told apart: no cgroup v2 hierarchy is mounted (mount -t cgroup2 none /sys/fs/cgroup)
    "#);
}

#[test]
fn a_refused_channel_uses_up_no_number() {
    let mut bench = Bench::started();
    bench.kernel.refuses_abstract.set(true);
    let first = bench.add("read accept :80").expect("right");
    for _ in 0..3 {
        bench.refused("read accept unix:@x");
    }
    assert_eq!(bench.add("read accept :81"), Ok(first + 1));
}

#[test]
fn what_the_kernel_refuses_is_not_there() {
    let mut bench = Bench::started();
    bench.kernel.refuses_abstract.set(true);
    assert!(bench.refused("read accept unix:@x").contains("no such thing"));
    let kept = bench.load("[[channel]]\naccess = \"read\"\naccept = \":80\"\n");
    assert_eq!(kept, Ok((1, 0)));
    let before = bench.shown();
    let text =
        "[[channel]]\naccess = \"read\"\naccept = \":81\"\n\n[[channel]]\naccess = \"read\"\naccept = \"unix:@x\"\n";
    let refusal = bench.load(text).expect_err("refused");
    assert!(refusal.starts_with("config.toml, line 5: ") && refusal.contains("no such thing"), "{refusal}");
    assert_eq!(bench.shown(), before, "all of it, or nothing");
    assert_eq!(bench.kernel.rules.borrow().len(), before.len());
}

#[test]
fn a_refused_reload_leaves_hits_and_sources_as_they_were() {
    let mut bench = Bench::started();
    let channel = |accept: &str, access: &str| format!("[[channel]]\naccess = \"{access}\"\naccept = \"{accept}\"\n\n");
    bench.listens(Some(("Xvnc", 5901)));
    bench.load(&(channel(":80", "read") + &channel(":81", "read"))).expect("right");
    let kernel =
        |bench: &Bench| (bench.kernel.rules.borrow().clone(), bench.kernel.bound.borrow().clone(), bench.shown());
    for slot in bench.kernel.rules.borrow().keys() {
        bench.kernel.hits.borrow_mut().get_mut(slot).expect("defined").count = u64::from(*slot);
    }
    let before = kernel(&bench);
    bench.kernel.refuses_abstract.set(true);
    let refused = [channel(":81", "both"), channel(":5901", "read"), channel("unix:@x", "read")].concat();
    assert!(bench.load(&refused).expect_err("refused").starts_with("config.toml, line 9: "));
    assert_eq!(kernel(&bench), before);
    for (slot, hits) in bench.kernel.hits.borrow().iter().filter(|(slot, _)| before.0.contains_key(slot)) {
        assert_eq!(hits.count, u64::from(*slot), "hits of channel {slot}");
    }
    bench.listens(None);
    bench.tick();
    assert!(bench.channels.find(&spec("read accept :5901")).is_err(), "it was there because of the server alone");
}

#[test]
fn removal_of_what_is_not_there_is_refused() {
    let mut bench = Bench::started();
    let refusals = [
        bench.channels.remove(77, &mut bench.kernel).map(drop).expect_err("none"),
        bench.channels.find(&spec("read accept :80")).expect_err("none"),
        bench.channels.find(&spec("write accept :22")).expect_err("other access"),
    ]
    .map(|refusal| refusal.to_string());
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    there is no channel 77: see "appease channel list"
    there is no channel read accept :80: see "appease channel list"
    there is no channel write accept :22: channel 7 is read accept :22
    "#);
}

#[test]
fn a_reload_applies_differences_alone() {
    let mut bench = Bench::started();
    let command = bench.add("read accept :7000").expect("added");
    let channel = |accept: &str, access: &str| format!("[[channel]]\naccess = \"{access}\"\naccept = \"{accept}\"\n");
    assert_eq!(bench.load(&(channel(":80", "read") + &channel(":81", "read"))), Ok((2, 0)));
    let same = bench.channels.find(&spec("read accept :81")).expect("there");
    bench.kernel.hits.borrow_mut().get_mut(&same).expect("defined").count = 9;
    assert_eq!(bench.load(&(channel(":81", "read") + &channel(":82", "read"))), Ok((1, 1)));
    assert_eq!(bench.channels.find(&spec("read accept :81")), Ok(same));
    assert_eq!(bench.kernel.hits.borrow()[&same].count, 9);
    assert_eq!(bench.channels.entry(same).expect("there").source, Source::File(1));
    assert!(bench.channels.find(&spec("read accept :80")).is_err());
    assert_eq!(bench.channels.find(&spec("read accept :7000")), Ok(command), "those of the command stay");

    let calls = bench.kernel.calls.get();
    assert_eq!(bench.load(&(channel(":81", "read") + &channel(":82", "read"))), Ok((0, 0)));
    assert_eq!(bench.kernel.calls.get(), calls, "nothing to tell");
    assert_eq!(bench.load(&channel(":81", "both")), Ok((1, 2)));
    assert!(bench.kernel.writes.get());
    assert_eq!(bench.load(""), Ok((0, 1)));
    assert!(!bench.kernel.writes.get());
}

#[test]
fn what_is_there_twice_is_refused_with_both() {
    let mut bench = Bench::started();
    bench.add("read accept :7000").expect("added");
    let channel = |accept: &str| format!("[[channel]]\naccess = \"read\"\naccept = \"{accept}\"\n\n");
    let before = bench.shown();
    let refusals = [channel(":80") + &channel("tcp::80"), channel(":22"), channel(":7000")]
        .map(|text| bench.load(&text).expect_err("twice"));
    assert_eq!(bench.shown(), before);
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    config.toml, line 5: read accept :80: line 1 has it already: remove one of them
    config.toml, line 1: read accept :22: it is built in: remove the line, or take it out of "built-in"
    config.toml, line 1: read accept :7000: channel 8 (read accept :7000, added by command) has that: remove it first (appease channel remove 8)
    "#);
}

#[test]
fn built_in_channels_can_be_removed_until_a_reload_and_for_good() {
    let mut bench = Bench::started();
    bench.remove("read class:mouse");
    bench.remove("read accept :22");
    assert_eq!(bench.shown().len(), BUILT_IN - 2);
    assert!(!bench.kernel.rules.borrow().contains_key(&3));
    assert_eq!(bench.add("read class:mouse --user root"), Ok(3), "a class has its own slot");
    assert_eq!(bench.load(""), Ok((1, 0)), "the class is taken by command");
    assert_eq!(bench.load("built-in = [\"evdev\"]"), Ok((0, BUILT_IN - 2)));
    assert_eq!(bench.shown().len(), 2);
    assert_eq!(bench.load("built-in = []\n[[channel]]\naccess = \"read\"\naccept = \":22\"\n"), Ok((1, 1)));
}

#[test]
fn servers_bring_their_channels_and_take_them_along() {
    let mut bench = Bench::started();
    let line = "read accept :5901";
    let source = |bench: &Bench| {
        bench.channels.find(&spec(line)).ok().map(|slot| bench.channels.entry(slot).expect("there").source.clone())
    };
    let found = Some(Source::Found("Xvnc".into()));
    for _ in 0..2 {
        bench.listens(Some(("Xvnc", 5901)));
        bench.tick();
        assert_eq!(source(&bench), found);
        bench.listens(None);
        bench.tick();
        assert_eq!(source(&bench), None);
    }
    bench.listens(Some(("Xvnc", 5901)));
    bench.tick();
    bench.remove(line);
    bench.listens(None);
    bench.tick();
    bench.listens(Some(("Xvnc", 5901)));
    bench.tick();
    assert_eq!(source(&bench), None, "somebody removed it");
    bench.load("").expect("right");
    assert_eq!(source(&bench), found, "until the next reload");

    bench.add(line).expect("it is there because of a server alone");
    bench.listens(None);
    bench.tick();
    assert_eq!(source(&bench), Some(Source::Command));
    bench.remove(line);
    bench.listens(Some(("Xvnc", 5901)));
    bench.load("").expect("right");
    assert_eq!(source(&bench), found);
    bench.listens(None);
    bench.load("").expect("right");
    assert_eq!(source(&bench), None, "it went just before the reload");
    bench.listens(Some(("Xvnc", 5901)));
    bench.load("built-in = [\"ssh\"]").expect("right");
    assert_eq!(source(&bench), None, "not wanted");
}

#[test]
fn a_server_that_is_handed_its_socket_later_is_found_within_a_minute() {
    let mut bench = Bench::started();
    bench.listens(Some(("systemd", 2222)));
    bench.tick();
    assert!(bench.channels.find(&spec("read accept :2222")).is_err());
    bench.listens(Some(("sshd", 2222)));
    for _ in 0..60 {
        bench.tick();
    }
    let slot = bench.channels.find(&spec("read accept :2222")).expect("found");
    assert_eq!(bench.channels.entry(slot).expect("there").source, Source::Found("sshd".into()));
}

#[test]
fn what_an_added_channel_learns_of_a_host_serves_the_others() {
    let mut bench = Bench::started();
    bench.load("[[channel]]\naccess = \"read\"\nconnect = \"proxy.example:8080\"\n").expect("right");
    let waiting = bench.channels.find(&spec("read connect proxy.example:8080")).expect("there");
    assert!(matches!(bench.state(waiting), State::Waiting(_)));
    let addresses = vec!["192.0.2.1".parse().expect("an address")];
    bench
        .channels
        .add(spec("read connect proxy.example:3128"), Some(addresses), &mut bench.kernel)
        .expect("it resolves");
    assert_eq!(*bench.state(waiting), State::Armed);
}

#[test]
fn host_names_are_bound_anew_when_their_answer_changes() {
    let mut bench = Bench::started();
    let text = "[[channel]]\naccess = \"read\"\nconnect = \"proxy.example:8080\"\n";
    assert_eq!(bench.load(text), Ok((1, 0)), "the network may come later");
    let slot = bench.channels.find(&spec("read connect proxy.example:8080")).expect("there");
    assert_eq!(*bench.state(slot), State::Waiting("an address of proxy.example".into()));
    assert_eq!(bench.tick(), ["proxy.example"]);
    assert_eq!(bench.tick(), [""; 0], "asked about already");

    let mut answer = |addresses: io::Result<&[&str]>| {
        let addresses = addresses.map(|all| all.iter().map(|text| text.parse().expect("an address")).collect());
        bench.channels.learn("proxy.example", addresses, &bench.kernel);
        let address = |target: Target| match target {
            Target::Socket { address, port: Some(8080), .. } => address,
            other => panic!("{other:?}"),
        };
        bench
            .kernel
            .targets(slot)
            .into_iter()
            .filter_map(address)
            .map(|one: IpAddr| one.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(answer(Err(io::Error::other("no answer"))), [""; 0]);
    assert_eq!(answer(Ok(&["192.0.2.1", "2001:db8::1"])), ["192.0.2.1", "2001:db8::1"]);
    assert_eq!(answer(Ok(&["192.0.2.1", "192.0.2.9"])), ["192.0.2.1", "192.0.2.9"]);
    assert_eq!(answer(Err(io::Error::other("no answer"))), ["192.0.2.1", "192.0.2.9"], "better than none");
    let asked = (0..120).filter(|_| !bench.tick().is_empty()).count();
    assert_eq!(asked, 2, "once a minute");
}

#[test]
fn a_cgroup_that_is_made_anew_is_another_one() {
    let mut bench = Bench::started();
    let (hierarchy, proc) = (bench.path("cgroup"), bench.machine.path().join("proc"));
    let cgroup = hierarchy.join("a.slice");
    fs::create_dir_all(&cgroup).expect("made");
    fs::create_dir_all(&proc).expect("made");
    fs::write(proc.join("mounts"), format!("none {} cgroup2 rw 0 0\n", hierarchy.display())).expect("written");
    assert_eq!(
        bench.refused("read accept :80 --cgroup /b.slice"),
        "there is no cgroup /b.slice: look for it with systemd-cgls, or in /proc/PID/cgroup"
    );
    let slot = bench.add("read accept :80 --cgroup /a.slice").expect("added");
    let filter = |bench: &Bench| bench.kernel.rules.borrow()[&slot].filter.cgroup.expect("a cgroup");
    let first = filter(&bench);
    assert_eq!(first.level, 1);
    fs::rename(&cgroup, hierarchy.join("old")).expect("moved");
    fs::create_dir(&cgroup).expect("made");
    bench.tick();
    assert_ne!(filter(&bench), first);
    assert_eq!(filter(&bench).id, fs::metadata(&cgroup).expect("there").ino());
    assert_eq!(bench.kernel.targets(slot).len(), 1);
}

#[test]
fn one_thing_has_a_limited_number_of_rules() {
    let mut bench = Bench::started();
    for uid in 0..RULES_PER_TARGET {
        bench.add(&format!("read accept :80 --user {uid}")).expect("room");
    }
    let refusal = bench.refused("read accept :80 --user 4242");
    assert_eq!(refusal, "accept :80: 8 channels are about the same thing already: remove one of them");
    bench.remove("read accept :80 --user 0");
    bench.add("read accept :80 --user 4242").expect("room again");
}

#[test]
fn ten_thousand_channels_work_and_too_many_are_refused() {
    let mut bench = Bench::started();
    let text = |channels: u32| -> String {
        let one = |n| format!("[[channel]]\naccess = \"read\"\nconnect = \"10.1.{}.{}:80\"\n", n / 250, n % 250 + 1);
        (0..channels).map(one).collect()
    };
    let began = Instant::now();
    assert_eq!(bench.load(&text(10_000)), Ok((10_000, 0)));
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    bench.tick();
    assert_eq!(bench.kernel.bound.borrow().len(), BUILT_IN + 10_000);
    let before = bench.kernel.calls.get();
    assert_eq!(
        bench.load(&text(16_400)).expect_err("too many"),
        "config.toml: 16401 channels: there is room for 16377 channels beside the device classes: remove some first"
    );
    assert_eq!(bench.kernel.calls.get(), before);
    assert_eq!(bench.load(""), Ok((0, 10_000)));
    assert_eq!(bench.kernel.bound.borrow().len(), BUILT_IN);
}

#[test]
fn ten_thousand_files_work() {
    let mut bench = Bench::started();
    let here = bench.dir.path().display().to_string();
    let text: String =
        (0..10_000).map(|n| format!("[[channel]]\naccess = \"read\"\nfile = \"{here}/{n}\"\n")).collect();
    let began = Instant::now();
    assert_eq!(bench.load(&text), Ok((10_000, 0)));
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    bench.fifo("4711");
    let began = Instant::now();
    bench.tick();
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    let armed = bench.channels.entries_after(0).filter(|(_, entry)| entry.state == State::Armed).count();
    assert_eq!(armed, BUILT_IN + 1);
}

#[test]
fn devices_are_what_they_are() {
    let null = Path::new("/dev/null");
    let mut bench = Bench::started();
    let slot = bench.add(&format!("read {}", null.display())).expect("a device");
    assert!(matches!(bench.kernel.targets(slot)[..], [Target::File { .. }]));
    // The same node, on a machine that knows it as a console.
    let device = bench.machine.path().join("sys/devices/tty7");
    fs::create_dir_all(&device).expect("made");
    fs::create_dir_all(bench.machine.path().join("sys/dev/char")).expect("made");
    std::os::unix::fs::symlink("../../class/tty", device.join("subsystem")).expect("linked");
    std::os::unix::fs::symlink("../../devices/tty7", bench.machine.path().join("sys/dev/char/1:3")).expect("linked");
    bench.remove("read /dev/null");
    let slot = bench.add("read /dev/null").expect("a device");
    assert_eq!(bench.kernel.targets(slot), [Target::Device { major: 1, minor: 3 }]);
    let slot = bench.add("both /dev/null --user root").expect("a device");
    assert!(matches!(bench.kernel.targets(slot)[..], [Target::File { .. }]), "its class has no hook for writes");
    fs::remove_file(device.join("subsystem")).expect("removed");
    std::os::unix::fs::symlink("../../class/sound", device.join("subsystem")).expect("linked");
    fs::rename(&device, bench.machine.path().join("sys/devices/pcmC0D0p")).expect("renamed");
    fs::remove_file(bench.machine.path().join("sys/dev/char/1:3")).expect("removed");
    std::os::unix::fs::symlink("../../devices/pcmC0D0p", bench.machine.path().join("sys/dev/char/1:3"))
        .expect("linked");
    bench.remove("read /dev/null");
    assert_eq!(bench.refused("read /dev/null"), "/dev/null plays sound and cannot be read: write \"write /dev/null\"");
}

#[test]
fn a_weight_changes_nothing_else() {
    let mut bench = Bench::started();
    let channel =
        |accept: &str, weight: &str| format!("[[channel]]\naccess = \"read\"\naccept = \"{accept}\"\n{weight}\n\n");
    bench.load(&(channel(":80", "") + &channel(":81", "weight = 0.25"))).expect("right");
    let slot = |bench: &Bench, line: &str| bench.channels.find(&spec(line)).expect("there");
    let (one, two) = (slot(&bench, "read accept :80"), slot(&bench, "read accept :81"));
    let weights = |bench: &Bench| [one, two].map(|slot| bench.kernel.rules.borrow()[&slot].weight);
    assert_eq!(weights(&bench), [100, 25]);
    bench.kernel.hits.borrow_mut().get_mut(&two).expect("defined").count = 9;
    assert_eq!(bench.load(&(channel(":80", "weight = 4") + &channel(":81", ""))), Ok((0, 0)));
    assert_eq!(weights(&bench), [400, 100]);
    assert_eq!(bench.kernel.hits.borrow()[&two].count, 9, "its hits stay");
    assert_eq!(bench.channels.entry(one).expect("there").spec.to_string(), "read accept :80 --weight 4");

    // What is refused gives nobody another weight.
    bench.kernel.refuses_abstract.set(true);
    let text = channel(":80", "weight = 7") + &channel(":81", "weight = 7") + &channel("unix:@x", "");
    assert!(bench.load(&text).is_err());
    assert_eq!(weights(&bench), [400, 100]);

    let three = bench.add("read accept :82 --weight 2").expect("added");
    assert_eq!(bench.kernel.rules.borrow()[&three].weight, 200);
    assert!(
        bench.refused("read accept :82 --weight 3").contains("(read accept :82 --weight 2, added by command) has that")
    );
    bench.remove("read accept :82");

    // One that is there because of a server takes the weight of whoever wants it to stay.
    bench.listens(Some(("Xvnc", 5901)));
    bench.tick();
    let found = bench.add("read accept :5901 --weight 3").expect("it is there because of a server alone");
    assert_eq!(bench.kernel.rules.borrow()[&found].weight, 300);
}

#[test]
fn a_weight_is_kept_while_its_channel_waits() {
    let mut bench = Bench::started();
    let text =
        |weight: u32| format!("[[channel]]\naccess = \"read\"\nconnect = \"proxy.example:80\"\nweight = {weight}\n");
    bench.load(&text(2)).expect("right");
    bench.load(&text(3)).expect("right");
    let slot = bench.channels.find(&spec("read connect proxy.example:80")).expect("there");
    bench.channels.learn("proxy.example", Ok(vec![[192, 0, 2, 1].into()]), &bench.kernel);
    assert_eq!(bench.kernel.rules.borrow()[&slot].weight, 300);
}
