//! The whole daemon in this process, on a machine made up of fakes.

use std::{
    cell::Cell,
    collections::BTreeMap,
    os::{
        fd::BorrowedFd,
        unix::fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::oneshot;
use zlink::tokio::unix;

use super::*;
use crate::{
    channel::tests::{AT_ONCE, BUILT_IN, FakeKernel},
    config::Options,
    control::{Client, ControlProxy, Standing},
    latency::tests::{customer, latency, request},
    names::tests::root,
    seams::{
        Attention, Begun, Channel, Customer, CustomerId, Exit, Features, Hits, Hop, LaneTimes, Latency, Lookup,
        MissingHook, News, Object, Raises, Request, Rule, SenseOptions, Slot, Target, Whom, Witness,
        features::{Btf, Lockdown, SchedExt},
    },
};

const NOW: u64 = 100_000_000_000;

/// What the tests look at and change while the daemon runs.
#[derive(Default)]
struct World {
    sched_ext: Option<SchedExt>,
    exit: Cell<Option<(&'static str, bool)>>,
    attachments: Cell<u32>,
    attached_now: Cell<u32>,
    stood_down: Cell<u32>,
    acts: Cell<u32>,
    recovered: Cell<u32>,
    kernel: FakeKernel,
    lookups: Arc<AtomicUsize>,
    /// Whether its verifier refuses the scheduler.
    refuses: bool,
}

#[derive(Clone)]
struct Fake(Rc<World>);

struct FakeEyes(Rc<World>);

struct FakeBackend(Rc<World>);

impl Drop for FakeBackend {
    fn drop(&mut self) {
        self.0.attached_now.set(self.0.attached_now.get() - 1);
    }
}

impl Platform for Fake {
    type Eyes = FakeEyes;
    type Backend = FakeBackend;

    fn features(&self) -> Features {
        Features {
            kernel: "7.2.13".into(),
            privileged: true,
            renices: true,
            btf: Btf::Sound,
            sched_ext: self.0.sched_ext.clone().unwrap_or(SchedExt::Idle),
            isolated: String::new(),
            lockdown: Lockdown::Off,
        }
    }

    fn sense(&self, _: &SenseOptions) -> Result<FakeEyes, BpfError> {
        Ok(FakeEyes(Rc::clone(&self.0)))
    }

    fn recover(&self, _: &Path) -> Result<(), Error> {
        self.0.recovered.set(self.0.recovered.get() + 1);
        Ok(())
    }

    fn attach(&self, _: &FakeEyes, config: &Config) -> Result<FakeBackend, BpfError> {
        assert_eq!(config.sense.tells, config.backend == BackendKind::Nice, "only it is told");
        if self.0.refuses && config.backend == BackendKind::Scx {
            return Err(BpfError::SchedulerRefused { kernel: "6.16.12".into(), reason: "Permission denied".into() });
        }
        self.0.attachments.set(self.0.attachments.get() + 1);
        self.0.attached_now.set(self.0.attached_now.get() + 1);
        Ok(FakeBackend(Rc::clone(&self.0)))
    }

    fn now_ns(&self) -> u64 {
        NOW
    }

    fn lookup(&self, _: &Config) -> Lookup {
        let lookups = Arc::clone(&self.0.lookups);
        Arc::new(move |name| {
            lookups.fetch_add(1, Ordering::Relaxed);
            match name {
                "near.example" => Ok(vec![[192, 0, 2, 1].into()]),
                _ => Err(std::io::Error::other(format!("nobody knows {name}"))),
            }
        })
    }
}

impl Eyes for FakeEyes {
    fn attach_new_modules(&mut self) -> Vec<&'static str> {
        Vec::new()
    }

    fn stand_down(&self) -> Result<(), BpfError> {
        self.0.stood_down.set(self.0.stood_down.get() + 1);
        Ok(())
    }

    fn listener_changes(&self) -> Option<u64> {
        None
    }

    fn missing(&self) -> Vec<MissingHook> {
        vec![MissingHook {
            function: "joydev_read",
            lost: "joysticks as channels",
            module: Some("joydev"),
            refused: None,
            former: None,
        }]
    }

    fn counters(&self) -> Result<Vec<(&'static str, u64)>, BpfError> {
        Ok(vec![("requests opened", 3)])
    }

    fn define(&self, slot: Slot, rule: &Rule) -> Result<(), BpfError> {
        self.0.kernel.define(slot, rule)
    }

    fn forget(&self, slot: Slot) -> Result<(), BpfError> {
        self.0.kernel.forget(slot)
    }

    fn bind(&self, slot: Slot, target: &Target) -> Result<(), BpfError> {
        self.0.kernel.bind(slot, target)
    }

    fn unbind(&self, slot: Slot, target: &Target) -> Result<(), BpfError> {
        self.0.kernel.unbind(slot, target)
    }

    fn hits(&self, slot: Slot) -> Result<Hits, BpfError> {
        self.0.kernel.hits(slot)
    }

    fn adopt_watches(&self, inotify: BorrowedFd<'_>) -> Result<(), BpfError> {
        self.0.kernel.adopt_watches(inotify)
    }

    fn inode_of(&self, file: BorrowedFd<'_>) -> Result<u64, BpfError> {
        self.0.kernel.inode_of(file)
    }

    fn set_write_rules(&mut self, sockets: bool) {
        self.0.kernel.writes.set(sockets);
    }

    fn weigh(&self, slot: Slot, weight: u32) -> Result<(), BpfError> {
        self.0.kernel.weigh(slot, weight)
    }

    fn set_weights(&mut self, weights: &BTreeMap<Whom, u32>) -> Result<(), BpfError> {
        self.0.kernel.put_weights(weights)
    }

    fn set_seat_user(&mut self, user: Option<u32>) {
        self.0.kernel.seat_user.set(user);
    }

    fn sweep(&self) -> Result<(), BpfError> {
        self.0.kernel.sweep()
    }

    fn customers(&self) -> Result<Vec<Customer>, BpfError> {
        self.0.kernel.customers()
    }

    fn latencies(&self) -> Result<Vec<Latency>, BpfError> {
        self.0.kernel.latencies()
    }

    fn open_requests(&self) -> Result<Vec<Request>, BpfError> {
        self.0.kernel.open_requests()
    }
}

impl Witness for FakeEyes {
    fn process(&self, pid: u32) -> Result<Option<Process>, BpfError> {
        let request = Request {
            id: 1,
            opened_ns: NOW - 5_000_000,
            served_ns: 1_000_000,
            budget_ns: 2_000_000_000,
            channel: Channel::Tty,
            rule: 2,
            device: Some((4, 1)),
            reader_tgid: 10,
            peer: None,
            customer: 0,
            weight: 100,
            first_response_ns: None,
            last_response_ns: None,
            is_over: false,
        };
        let path = if pid == 20 { vec![Hop { at_ns: NOW, tgid: 10, object: Object::Fork }] } else { vec![] };
        let attention = Attention { request, since_ns: NOW, until_ns: NOW + 1_000, path };
        let process = Process {
            tgid: pid,
            attention: Some(attention),
            loan_until_ns: 0,
            channel_read_ns: 0,
            lift: None,
            handler: None,
            raised_ns: [0; 2],
        };
        Ok((pid == 10 || pid == 20).then_some(process))
    }

    fn news(&self) -> Result<Vec<News>, BpfError> {
        Ok(Vec::new())
    }

    fn news_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn take_on(&self, _: u32, _: u64) -> Result<(), BpfError> {
        Ok(())
    }

    fn charge(&self, _: u32, _: u64) -> Result<(), BpfError> {
        Ok(())
    }

    fn let_go(&self, _: u32, _: bool) -> Result<(), BpfError> {
        Ok(())
    }

    fn set_raises(&mut self, _: Raises) {}
}

impl Backend for FakeBackend {
    fn act<W: Witness>(&mut self, _: &mut W, now_ns: u64) -> Option<u64> {
        self.0.acts.set(self.0.acts.get() + 1);
        Some(now_ns)
    }

    fn exit(&self) -> Option<Exit> {
        // An exit is told once: a scheduler that is attached anew has none.
        let (reason, restart) = self.0.exit.take()?;
        Some(Exit { reason: reason.into(), restart })
    }

    fn lanes(&self) -> Result<LaneTimes, BpfError> {
        Ok([1, 2, 3, 4])
    }

    fn process_lanes(&self, _: u32) -> Result<LaneTimes, BpfError> {
        Ok([0, 7, 8, 0])
    }

    fn commands(&self) -> Result<BTreeMap<String, LaneTimes>, BpfError> {
        Ok(BTreeMap::from([("cc1".into(), [0, 1, 99, 0]), ("xterm".into(), [0, 500, 0, 0])]))
    }

    fn counters(&self) -> Result<Vec<(&'static str, u64)>, BpfError> {
        Ok(vec![("queued as attended", 5)])
    }
}

/// A daemon's directory and its machine.
struct Setting {
    run_dir: tempfile::TempDir,
    machine: tempfile::TempDir,
    world: Rc<World>,
    reload: Notify,
}

impl Setting {
    fn new(world: World) -> Self {
        let own = std::fs::metadata("/proc/self").expect("our own").uid();
        let stat = |start: u64| format!("10 (login) S {} {start} 0", ["0"; 18].join(" "));
        let status = |tgid, uid| format!("Tgid:\t{tgid}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n");
        let machine = root(&[
            ("config.toml", ""),
            ("proc/10/comm", "login\n"),
            ("proc/10/stat", &stat(70)),
            ("proc/10/status", &status(10, 0)),
            ("proc/20/comm", "sh\n"),
            ("proc/20/status", &status(20, own)),
            ("sys/dev/char/4:1/uevent", "DEVNAME=tty1\n"),
        ]);
        Self {
            run_dir: tempfile::tempdir().expect("a directory"),
            machine,
            world: Rc::new(world),
            reload: Notify::new(),
        }
    }

    fn config(&self) -> Config {
        let file = Some(self.file());
        let options = Options { run_dir: self.run_dir.path().into(), file, ..Options::default() };
        Config { root: self.machine.path().into(), ..Config::new(&options).expect("valid") }
    }

    /// The configuration.
    fn file(&self) -> PathBuf {
        self.machine.path().join("config.toml")
    }

    fn socket(&self) -> PathBuf {
        Config::socket(self.run_dir.path())
    }

    async fn serve(&self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        serve(&self.config(), &Fake(Rc::clone(&self.world)), stop, &self.reload).await
    }

    /// Runs the daemon as long as `client` takes.
    async fn during<T>(&self, client: impl Future<Output = T>) -> T {
        let (done, stop) = oneshot::channel();
        let client = async {
            let answer = client.await;
            done.send(()).expect("the daemon still runs");
            answer
        };
        let (ended, answer) = tokio::join!(self.serve(async { stop.await.expect("the client ends") }), client);
        ended.expect("ended well");
        answer
    }

    /// Connects, as soon as the daemon listens.
    async fn connect(&self) -> unix::Connection {
        for _ in 0..200 {
            if let Ok(connection) = unix::connect(self.socket()).await {
                return connection;
            }
            time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the daemon does not listen");
    }
}

/// Fails rather than hangs.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { time::timeout(Duration::from_secs(30), future).await.expect("done in time") })
}

#[test]
fn answers_over_its_socket() {
    let setting = Setting::new(World::default());
    let (status, why) = block_on(setting.during(async {
        let mut client = setting.connect().await;
        let status = client.status().await.expect("conversation").expect("answer");
        (status, client.why(20).await.expect("conversation"))
    }));
    assert_eq!((status.kernel.as_str(), status.policy.as_str(), status.backend.as_str()), ("7.2.13", "appease", "scx"));
    assert_eq!(status.lanes, LaneNs { kernel: 1, attended: 2, other: 3, idle: 4 });
    assert_eq!(status.counters.len(), 2);
    assert_eq!(status.missing[0].waits_for_module.as_deref(), Some("joydev"));
    let why = why.expect("our own process");
    assert_eq!((why.standing, why.lane.as_str(), why.lane_ns.other), (Standing::Current, "attended", 8));
    let chain = why.chain.expect("a chain");
    assert_eq!((chain.node.as_str(), chain.reader.as_str(), chain.hops[0].comm.as_str()), ("/dev/tty1", "login", "sh"));
    assert_eq!(setting.world.attached_now.get(), 0, "detached in the end");
    assert!(!setting.socket().exists(), "socket removed in the end");
}

#[test]
fn everybody_may_connect_and_unknown_processes_are_named() {
    let setting = Setting::new(World::default());
    let (mode, refused) = block_on(setting.during(async {
        let mut client = setting.connect().await;
        let mode = std::fs::metadata(setting.socket()).expect("a socket").permissions().mode();
        (mode, client.why(4_000_000).await.expect("conversation"))
    }));
    assert_eq!(mode & 0o777, 0o666);
    assert_eq!(refused, Err(ControlError::NoSuchProcess { pid: 4_000_000 }));
}

/// A daemon as the control socket sees it, without a socket: the kernel would tell who asks.
fn daemon(setting: &Setting) -> Daemon<Fake> {
    let config = setting.config();
    let platform = Fake(Rc::clone(&setting.world));
    let mut eyes = platform.sense(&config.sense).expect("eyes");
    let file = channel_config::read(config.file.as_deref()).expect("right");
    let requests = file.requests;
    let (channels, weights) = channels::start(&config, file, &mut eyes).expect("channels");
    let (channels, weights) = (RefCell::new(channels), RefCell::new(weights));
    let passing = RefCell::new(Passing::new(platform.lookup(&config)).0);
    let backend = platform.attach(&eyes, &config).expect("a backend");
    Daemon {
        kernel: "7.2.13".into(),
        started_ns: NOW,
        names: Names::new(&config.root),
        live: RefCell::new(Live { eyes, backend: Some(backend), restarts: 0 }),
        channels,
        passing,
        requests,
        weights,
        seat_user: Cell::new(None),
        told_lanes: Cell::new(None),
        platform,
        config,
    }
}

#[test]
fn what_others_do_is_for_root_alone() {
    let setting = Setting::new(World::default());
    std::fs::write(setting.machine.path().join("proc/20/status"), "Tgid:\t20\nUid:\t1000\t1000\t1000\t1000\n")
        .expect("write");
    let daemon = daemon(&setting);
    let (root, owner, stranger) = (Peer { uid: 0 }, Peer { uid: 1000 }, Peer { uid: 1001 });
    assert!(daemon.why(root, 10).is_ok());
    assert!(daemon.why(root, 20).is_ok());
    assert_eq!(daemon.why(owner, 10), Err(ControlError::NotPermitted { pid: 10 }));
    assert!(daemon.why(owner, 20).is_ok());
    assert_eq!(daemon.why(stranger, 20), Err(ControlError::NotPermitted { pid: 20 }));

    let pids = |peer| {
        let status = daemon.status(peer).expect("an answer");
        (status.attended.iter().map(|one| one.pid).collect::<Vec<_>>(), status.commands.len(), status.restricted)
    };
    assert_eq!(pids(root), (vec![10, 20], 2, false));
    assert_eq!(pids(owner), (vec![20], 0, true));
    assert_eq!(pids(stranger), (vec![], 0, true));
}

#[test]
fn a_second_daemon_is_refused_and_the_first_goes_on() {
    let setting = Setting::new(World::default());
    let refused = block_on(setting.during(async {
        drop(setting.connect().await);
        let refused = setting.serve(std::future::pending()).await.expect_err("the second");
        setting.connect().await.status().await.expect("conversation").expect("the first answers");
        refused.to_string()
    }));
    assert!(refused.starts_with(&format!("appease is already running: process {} (", std::process::id())), "{refused}");
    assert_eq!(setting.world.attachments.get(), 1);
}

#[test]
fn an_ejection_ends_the_daemon_with_the_kernels_reason() {
    let setting = Setting::new(World { exit: Cell::new(Some(("runnable task stall", false))), ..World::default() });
    let error = block_on(setting.serve(std::future::pending())).expect_err("ejected");
    assert!(matches!(&error, Error::Ejected { reason } if reason == "runnable task stall"), "{error}");
    assert_eq!((setting.world.attachments.get(), setting.world.attached_now.get()), (1, 0));
}

#[test]
fn the_third_ejection_is_the_last_until_somebody_starts_it_by_hand() {
    let mut run_dir = tempfile::tempdir().expect("a directory");
    for is_the_last in [false, false, true, false] {
        let world = World { exit: Cell::new(Some(("runnable task stall", false))), ..World::default() };
        let setting = Setting { run_dir, ..Setting::new(world) };
        let error = block_on(setting.serve(std::future::pending())).expect_err("ejected");
        assert_eq!(matches!(error, Error::EjectedTooOften { .. }), is_the_last, "{error}");
        run_dir = setting.run_dir;
    }
}

#[test]
fn a_restart_is_done_when_the_kernel_asks_for_it() {
    let setting = Setting::new(World { exit: Cell::new(Some(("cpu hotplug", true))), ..World::default() });
    let status = block_on(setting.during(async {
        let mut client = setting.connect().await;
        while setting.world.attachments.get() < 2 {
            time::sleep(Duration::from_millis(10)).await;
        }
        client.status().await.expect("conversation").expect("answer")
    }));
    assert_eq!(status.restarts, 1);
    assert!(setting.world.stood_down.get() > 0);
}

#[test]
fn another_scheduler_keeps_ours_out() {
    let attached = SchedExt::Attached { name: "bpfland_1.0".into() };
    let setting = Setting::new(World { sched_ext: Some(attached), ..World::default() });
    let error = block_on(setting.serve(std::future::pending())).expect_err("busy").to_string();
    assert!(error.contains("bpfland_1.0"), "{error}");
    assert_eq!(setting.world.attachments.get(), 0);
    assert_eq!(std::fs::read_dir(setting.run_dir.path()).expect("readable").count(), 0, "no file is left");
}

#[test]
fn a_kernel_without_sched_ext_has_nice_values() {
    let setting = Setting::new(World { sched_ext: Some(SchedExt::Absent), ..World::default() });
    let status = block_on(setting.during(async {
        let status = setting.connect().await.status().await.expect("conversation").expect("answer");
        while setting.world.acts.get() < 3 {
            time::sleep(Duration::from_millis(10)).await;
        }
        status
    }));
    assert_eq!(status.backend, "nice");
    assert_eq!(setting.world.recovered.get(), 1, "what an earlier one left is taken back first");
}

#[test]
fn a_kernel_that_refuses_the_scheduler_has_nice_values() {
    let setting = Setting::new(World { refuses: true, ..World::default() });
    let status = block_on(
        setting.during(async { setting.connect().await.status().await.expect("conversation").expect("answer") }),
    );
    assert_eq!(status.backend, "nice");
    assert_eq!((setting.world.attachments.get(), setting.world.attached_now.get()), (1, 0));
}

#[test]
fn a_refused_scheduler_is_the_end_where_no_other_is_wanted() {
    let setting = Setting::new(World { refuses: true, ..World::default() });
    let with = |change: fn(&mut Config)| {
        let mut config = setting.config();
        change(&mut config);
        let platform = Fake(Rc::clone(&setting.world));
        let ended = block_on(serve(&config, &platform, std::future::pending(), &setting.reload));
        let error = ended.expect_err("refused").to_string();
        assert!(error.contains("kernel 6.16.12 refuses the scheduler (Permission denied)"), "{error}");
        assert_eq!(setting.world.attachments.get(), 0);
    };
    with(|config| config.backend = BackendKind::Scx);
    with(|config| config.sense.policy = Policy::Steady);
    with(|config| config.sched.partial = true);
}

#[test]
fn a_kernel_without_sched_ext_is_left_untouched_where_that_is_wanted() {
    let setting = Setting::new(World { sched_ext: Some(SchedExt::Absent), ..World::default() });
    let config = Config { backend: BackendKind::Scx, ..setting.config() };
    let platform = Fake(Rc::clone(&setting.world));
    let serving = serve(&config, &platform, std::future::pending(), &setting.reload);
    let error = block_on(serving).expect_err("impossible").to_string();
    assert!(error.contains("has no sched_ext"), "{error}");
    assert_eq!(std::fs::read_dir(setting.run_dir.path()).expect("readable").count(), 0, "no file is left");
}

fn words(access: &str, what: &[&str]) -> ChannelWords {
    let what = what.iter().map(|word| (*word).to_owned()).collect();
    ChannelWords { access: access.into(), what, ..ChannelWords::default() }
}

#[test]
fn everybody_sees_channels_and_root_alone_their_use() {
    let setting = Setting::new(World::default());
    let daemon = daemon(&setting);
    assert!(setting.world.kernel.adopted.get());
    let begun = |pid, ticks: u64| Begun { pid, start_ns: ticks * 10_000_000 + 5 };
    let hits = Hits {
        count: 3,
        last_ns: Some(NOW - 1_000_000_000),
        handlers: vec![begun(10, 70), begun(99, 80), begun(10, 60)],
    };
    setting.world.kernel.hits.borrow_mut().insert(2, hits);
    let rows = |peer| daemon.list_channels(peer, 0).expect("an answer");
    let root = rows(Peer { uid: 0 });
    assert_eq!((root.channels.len(), root.restricted), (BUILT_IN, false));
    let tty = &root.channels[1];
    assert_eq!((tty.what.as_str(), tty.state.as_str(), tty.hits), ("class:tty", "active", Some(3)));
    assert_eq!(tty.last_hit_ago_ns, Some(1_000_000_000));
    let handlers: Vec<_> = tty.handlers.iter().map(|one| (one.pid, one.comm.as_str())).collect();
    assert_eq!(handlers, [(10, "login"), (99, "")]);
    assert_eq!(root.channels[0].state, "armed");

    let other = rows(Peer { uid: 1000 });
    assert_eq!((other.channels.len(), other.restricted), (BUILT_IN, true));
    let tty = &other.channels[1];
    assert_eq!((tty.state.as_str(), tty.hits, tty.last_hit_ago_ns, tty.handlers.len()), ("armed", None, None, 0));
}

#[test]
fn channels_are_changed_by_root_alone() {
    let setting = Setting::new(World::default());
    let daemon = daemon(&setting);
    let (root, other) = (Peer { uid: 0 }, Peer { uid: 1000 });
    let channel = words("read", &["accept", ":80"]);
    // A name, which must not even be looked up for them.
    let named = words("read", &["connect", "host.example:80"]);
    assert_eq!(block_on(daemon.add_channel(other, named.clone())), Err(ControlError::RootOnly));
    assert_eq!(setting.world.lookups.load(Ordering::Relaxed), 0);
    assert_eq!(daemon.remove_channel(other, 1), Err(ControlError::RootOnly));
    assert_eq!(daemon.remove_channel_by_words(other, &channel), Err(ControlError::RootOnly));
    assert_eq!(daemon.reload(other), Err(ControlError::RootOnly));

    let added = block_on(daemon.add_channel(root, channel.clone())).expect("added");
    assert_eq!(
        (added.what.as_str(), added.state.as_str(), added.source.as_str()),
        ("accept :80", "armed", "added by command")
    );
    let removed = daemon.remove_channel_by_words(root, &channel).expect("removed");
    assert_eq!(removed.id, added.id);
    let refused = daemon.remove_channel(root, added.id);
    let reason = format!("there is no channel {}: see \"appease channel list\"", added.id);
    assert_eq!(refused, Err(ControlError::Refused { reason }));

    let refused = block_on(daemon.add_channel(root, named)).expect_err("unknown").to_string();
    assert_eq!(
        refused,
        "host host.example does not resolve: nobody knows host.example; look with \"getent hosts host.example\", or give an address"
    );
    let local = block_on(daemon.add_channel(root, words("read", &["connect", "near.example:80"]))).expect("added");
    assert_eq!(local.state, "armed");
}

#[test]
fn a_policy_that_watches_nothing_takes_no_channel() {
    let setting = Setting::new(World::default());
    let mut daemon = daemon(&setting);
    daemon.config.sense.policy = Policy::Steady;
    let refused = block_on(daemon.add_channel(Peer { uid: 0 }, words("read", &["accept", ":80"])));
    assert_eq!(
        refused.expect_err("refused").to_string(),
        "policy steady watches no channel: run the daemon with another policy, say appease"
    );
}

#[test]
fn a_reload_is_asked_for_or_signalled() {
    let setting = Setting::new(World::default());
    let write = |text: &str| std::fs::write(setting.file(), text).expect("written");
    let (first, second) = block_on(setting.during(async {
        let mut client = setting.connect().await;
        let mut count = async |wanted: usize| {
            for _ in 0..200 {
                let list = client.list_channels(0).await.expect("conversation").expect("answer");
                if list.channels.len() == wanted {
                    return list.channels;
                }
                time::sleep(Duration::from_millis(10)).await;
            }
            panic!("never {wanted} channels");
        };
        write("[[channel]]\naccess = \"read\"\nconnect = \"near.example:80\"\n");
        setting.reload.notify_one();
        let mut first = count(BUILT_IN + 1).await;
        // Its name is looked up in passing.
        while first[BUILT_IN].state != "armed" {
            first = count(BUILT_IN + 1).await;
        }
        write("[[channel]]\naccess = \"read\"\naccept = \":0\"\n");
        setting.reload.notify_one();
        time::sleep(Duration::from_millis(50)).await;
        (first, count(BUILT_IN + 1).await)
    }));
    assert_eq!(first[BUILT_IN].source, format!("{}:1", setting.file().display()));
    assert_eq!(second.last().map(|row| row.what.as_str()), Some("connect near.example:80"), "the old one stays");
}

#[test]
fn a_wrong_configuration_is_refused_before_anything_else() {
    let setting = Setting::new(World { sched_ext: Some(SchedExt::Absent), ..World::default() });
    std::fs::write(setting.file(), "channels = 1").expect("written");
    let error = block_on(setting.serve(std::future::pending())).expect_err("wrong").to_string();
    assert_eq!(
        error,
        format!(
            "{}, line 1: unknown field `channels`, expected one of `built-in`, `requests`, `channel`, `customer`",
            setting.file().display()
        )
    );
    assert_eq!(std::fs::read_dir(setting.run_dir.path()).expect("readable").count(), 0, "no file is left");
}

#[test]
fn root_changes_channels_over_the_socket() {
    let is_root = std::fs::metadata("/proc/self").expect("our own").uid() == 0;
    let setting = Setting::new(World::default());
    let (added, reloaded, removed) = block_on(setting.during(async {
        let mut client = setting.connect().await;
        let channel = words("both", &["accept", "udp:[2001:db8::1]:5000"]);
        let added = client.add_channel(&channel).await.expect("conversation");
        let reloaded = client.reload().await.expect("conversation");
        (added, reloaded, client.remove_channel_by_words(&channel).await.expect("conversation"))
    }));
    if is_root {
        assert_eq!(
            reloaded,
            Ok(Reloaded { added: 0, removed: 0, weighed: 0, customers: 0 }),
            "those of the command stay"
        );
        assert_eq!(removed.expect("removed").id, added.expect("added").id);
    } else {
        assert_eq!(
            (added, reloaded, removed),
            (Err(ControlError::RootOnly), Err(ControlError::RootOnly), Err(ControlError::RootOnly))
        );
    }
}

#[test]
fn ten_thousand_channels_are_listed() {
    let setting = Setting::new(World::default());
    let one = |port| format!("[[channel]]\naccess = \"read\"\naccept = \":{port}\"\n");
    std::fs::write(setting.file(), (1000..11_000).map(one).collect::<String>()).expect("written");
    let began = std::time::Instant::now();
    let socket = setting.socket();
    let list = block_on(setting.during(async {
        drop(setting.connect().await);
        let ask = move || Client::connect(&socket).expect("it listens").channels().expect("an answer");
        tokio::task::spawn_blocking(ask).await.expect("no panic")
    }));
    let ids: Vec<u32> = list.channels.iter().map(|row| row.id).collect();
    assert_eq!(ids, (1..).take(BUILT_IN + 10_000).collect::<Vec<_>>());
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
}

#[test]
fn a_reload_puts_all_in_force_or_nothing() {
    let setting = Setting::new(World::default());
    let write = |text: &str| std::fs::write(setting.file(), text).expect("written");
    let customer = |weight: &str| format!("[[customer]]\nseat = true\nweight = {weight}\n");
    write(&customer("2"));
    let daemon = daemon(&setting);
    let kernel = &setting.world.kernel;
    let seat = || kernel.weights.borrow().get(&Whom::Seat).copied();
    assert_eq!(seat(), Some(200));

    let root = Peer { uid: 0 };
    let channel = "[[channel]]\naccess = \"read\"\naccept = \":80\"\nweight = 3\n";
    write(&(customer("4") + channel));
    assert_eq!(daemon.reload(root), Ok(Reloaded { added: 1, removed: 0, weighed: 0, customers: 1 }));
    assert_eq!(seat(), Some(400));
    write(&(customer("4") + &channel.replace('3', "5")));
    assert_eq!(daemon.reload(root), Ok(Reloaded { added: 0, removed: 0, weighed: 1, customers: 0 }));

    // A channel that the kernel refuses takes the weights with it.
    kernel.refuses_abstract.set(true);
    write(&(customer("7") + "[[channel]]\naccess = \"read\"\naccept = \"unix:@x\"\n"));
    assert!(daemon.reload(root).is_err());
    assert_eq!(seat(), Some(400));

    // So does what counts at the start alone.
    write(&(String::from("[requests]\nalpha = 0.1\n") + &customer("7")));
    let refused = daemon.reload(root).expect_err("refused").to_string();
    let file = setting.file();
    assert!(refused.starts_with(&format!("{}, line 2: alpha is 0.1, and 0 is in force", file.display())), "{refused}");
    assert_eq!(seat(), Some(400));
}

#[test]
fn the_seat_is_followed_and_requests_are_swept() {
    let setting = Setting::new(World::default());
    let daemon = daemon(&setting);
    let seat = setting.machine.path().join("run/systemd/seats/seat0");
    let user = |text: Option<&str>| {
        match text {
            Some(text) => std::fs::write(&seat, text).expect("written"),
            None => std::fs::remove_file(&seat).expect("removed"),
        }
        daemon.follow_customers();
        setting.world.kernel.seat_user.get()
    };
    daemon.follow_customers();
    assert_eq!(setting.world.kernel.seat_user.get(), None);
    std::fs::create_dir_all(seat.parent().expect("a parent")).expect("made");
    assert_eq!(user(Some("IS_SEAT0=1\nACTIVE=c2\nACTIVE_UID=1000\n")), Some(1000));
    assert_eq!(user(Some("IS_SEAT0=1\n")), None, "nobody logged in");
    assert_eq!(user(Some("ACTIVE_UID=many\n")), None);
    assert_eq!(user(Some("ACTIVE_UID=0\n")), Some(0));
    assert_eq!(user(None), None);
    assert_eq!(setting.world.kernel.swept.get(), 6);
}

#[test]
fn requests_are_as_the_file_has_them_at_the_start() {
    let setting = Setting::new(World::default());
    std::fs::write(setting.file(), "[requests]\ncustomer = \"cgroup\"\nalpha = 0.25\n").expect("written");
    let file = channel_config::read(Some(&setting.file())).expect("right");
    let config = customers::with_requests(setting.config(), file.requests);
    assert_eq!((config.sense.customer_is, config.sense.alpha_pm), (crate::seams::CustomerIs::Cgroup, 250));
}

#[test]
fn others_than_root_learn_of_their_own_requests_alone() {
    let setting = Setting::new(World::default());
    std::fs::write(setting.file(), "[[channel]]\naccess = \"read\"\naccept = \":80\"\nweight = 2\n").expect("written");
    let daemon = daemon(&setting);
    let kernel = &setting.world.kernel;
    let far = CustomerId::Address([192, 0, 2, 4].into());
    let (alice, bob) = (CustomerId::Seat(Some(1000)), CustomerId::User(1001));
    let slot = daemon.list_channels(Peer { uid: 0 }, 0).expect("an answer").channels[BUILT_IN].id;
    kernel.customers.replace(vec![customer(0, far), customer(3, alice), customer(9, bob)]);
    kernel.latencies.replace(vec![latency(far, slot, &[10, 20]), latency(alice, 1, &[1]), latency(bob, 4321, &[5])]);
    let opened = NOW - 10_000_000;
    kernel.requests.replace(vec![request(0, slot, opened, 1_000_000, 200), request(3, 1, NOW + 7, 0, 100)]);

    let page = |uid| daemon.latency(Peer { uid }, 0).expect("an answer");
    let root = page(0);
    assert_eq!((root.restricted, root.next, root.channels.len()), (false, None, 3));
    let told: Vec<_> =
        root.customers.iter().map(|row| (row.id, row.customer.name.as_str(), row.account.open)).collect();
    assert_eq!(told, [(0, "192.0.2.4", 1), (3, "seat0 (user 1000)", 1), (9, "user 1001", 0)]);
    let channel = &root.customers[0].channels[0];
    assert_eq!(
        (channel.channel.as_str(), channel.weight, channel.unhappiness_ns),
        ("read accept :80", 2.0, 18_000_000)
    );
    assert_eq!(root.customers[2].channels[0].channel, "channel 4321 (gone)");
    let total = root.total.expect("totals");
    assert_eq!((total.opened, total.responses.last.count, total.unhappiness_ns), (30, 4, 18_000_000));

    // Whose customers they are, or nobody's.
    for (uid, wanted) in [(1000, vec![3]), (1001, vec![9]), (1002, vec![])] {
        let other = page(uid);
        assert_eq!(other.customers.iter().map(|row| row.id).collect::<Vec<_>>(), wanted);
        assert_eq!((other.restricted, other.channels.len()), (true, 0));
        let (own, total) = (other.customers.first().map(|row| row.account.opened), other.total.expect("totals"));
        assert_eq!(total.opened, own.unwrap_or(0));
    }
    let rest = daemon.latency(Peer { uid: 0 }, 4).expect("an answer");
    assert_eq!((rest.total, rest.customers.len(), rest.channels.len()), (None, 1, 0));
    for (uid, open) in [(0, 2), (1000, 1), (1001, 0), (1002, 0)] {
        let status = daemon.status(Peer { uid }).expect("an answer");
        assert_eq!(status.requests.expect("totals").open, open, "user {uid}");
        assert_eq!(status.counters.is_empty(), uid != 0, "user {uid}");
    }
}

#[test]
fn others_than_root_learn_of_lanes_in_coarse_steps() {
    let setting = Setting::new(World::default());
    let daemon = daemon(&setting);
    let lanes = |uid| daemon.status(Peer { uid }).expect("an answer").lanes;
    let exact = lanes(0);
    let told = lanes(1000);
    assert_eq!(told, exact.in_steps_of(1_000_000_000));
    assert_ne!(told, exact, "the world's lanes are no whole seconds");
    daemon.told_lanes.set(daemon.told_lanes.get().map(|(at_ns, _)| (at_ns, LaneNs::default())));
    assert_eq!(lanes(1000), LaneNs::default(), "for a minute they hear the same");
    daemon.told_lanes.set(Some((NOW - LANES_TOLD_NS, LaneNs::default())));
    assert_eq!(lanes(1000), told);
}

#[test]
fn what_cannot_be_read_is_told_and_the_rest_answered() {
    let setting = Setting::new(World::default());
    let daemon = daemon(&setting);
    setting.world.kernel.hides_latencies.set(true);
    let failed = daemon.latency(Peer { uid: 0 }, 0).expect_err("hidden").to_string();
    assert!(failed.contains("read response times") && failed.contains("no such map"), "{failed}");
    assert!(daemon.status(Peer { uid: 0 }).is_ok());
}

#[test]
fn a_policy_without_requests_says_so() {
    let setting = Setting::new(World::default());
    let mut daemon = daemon(&setting);
    daemon.config.sense.policy = Policy::Rsio;
    let refused = daemon.latency(Peer { uid: 0 }, 0).expect_err("refused").to_string();
    assert_eq!(refused, "policy rsio tells no requests apart: response times are those of appease and cas");
    assert_eq!(daemon.status(Peer { uid: 0 }).expect("an answer").requests, None);
}

#[test]
fn all_customers_that_there_can_be_are_listed() {
    let setting = Setting::new(World::default());
    let id = |slot: u32| CustomerId::Address(std::net::Ipv6Addr::from(u128::from(slot) + 1).into());
    let kernel = &setting.world.kernel;
    kernel.customers.replace((0..1024).map(|slot| customer(slot, id(slot))).collect());
    kernel.latencies.replace((0..512).map(|slot| latency(id(slot), slot % 7 + 1, &[1, 2, 3, 50, 700])).collect());
    kernel.requests.replace((0..4096).map(|at| request(at % 1024, at % 7 + 1, NOW - 1000, 0, 100)).collect());
    let socket = setting.socket();
    let began = std::time::Instant::now();
    let report = block_on(setting.during(async {
        drop(setting.connect().await);
        let ask = move || Client::connect(&socket).expect("it listens").latency().expect("an answer");
        tokio::task::spawn_blocking(ask).await.expect("no panic")
    }));
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    assert_eq!((report.total.open, report.total.unhappiness_ns, report.total.answered), (4096, 4096 * 1000, 7 * 1024));
    let is_root = std::fs::metadata("/proc/self").expect("our own").uid() == 0;
    assert_eq!(report.restricted, !is_root);
    let ids: Vec<u32> = report.customers.iter().map(|row| row.id).collect();
    assert_eq!(ids, if is_root { (0..1024).collect::<Vec<_>>() } else { vec![] });
}
