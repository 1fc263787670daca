//! The whole daemon in this process, on a machine made up of fakes.

use std::{
    cell::Cell,
    collections::BTreeMap,
    os::{
        fd::BorrowedFd,
        unix::fs::{MetadataExt, PermissionsExt},
    },
    path::PathBuf,
    rc::Rc,
};

use tokio::sync::oneshot;
use zlink::tokio::unix;

use super::*;
use crate::{
    config::Options,
    control::{ControlProxy, Standing},
    names::tests::root,
    seams::{
        Attention, Channel, Exit, Features, Hits, Hop, LaneTimes, MissingHook, Object, Request, Rule, SchedOptions,
        SenseOptions, Slot, Target,
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
            btf: Btf::Sound,
            sched_ext: self.0.sched_ext.clone().unwrap_or(SchedExt::Idle),
            lockdown: Lockdown::Off,
        }
    }

    fn sense(&self, _: &SenseOptions) -> Result<FakeEyes, BpfError> {
        Ok(FakeEyes(Rc::clone(&self.0)))
    }

    fn attach(&self, _: &FakeEyes, _: &SenseOptions, _: &SchedOptions) -> Result<FakeBackend, BpfError> {
        self.0.attachments.set(self.0.attachments.get() + 1);
        self.0.attached_now.set(self.0.attached_now.get() + 1);
        Ok(FakeBackend(Rc::clone(&self.0)))
    }

    fn now_ns(&self) -> u64 {
        NOW
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

    fn missing(&self) -> Vec<MissingHook> {
        vec![MissingHook { function: "joydev_read", lost: "joysticks as channels", module: Some("joydev") }]
    }

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
        };
        let path = if pid == 20 { vec![Hop { at_ns: NOW, tgid: 10, object: Object::Fork }] } else { vec![] };
        let attention = Attention { request, since_ns: NOW, until_ns: NOW + 1_000, path };
        let process = Process { tgid: pid, attention: Some(attention), loan_until_ns: 0, channel_read_ns: 0 };
        Ok((pid == 10 || pid == 20).then_some(process))
    }

    fn counters(&self) -> Result<Vec<(&'static str, u64)>, BpfError> {
        Ok(vec![("requests opened", 3)])
    }

    fn define(&self, _: Slot, _: &Rule) -> Result<(), BpfError> {
        Ok(())
    }

    fn forget(&self, _: Slot) -> Result<(), BpfError> {
        Ok(())
    }

    fn bind(&self, _: Slot, _: &Target) -> Result<(), BpfError> {
        Ok(())
    }

    fn unbind(&self, _: Slot, _: &Target) -> Result<(), BpfError> {
        Ok(())
    }

    fn hits(&self, _: Slot) -> Result<Hits, BpfError> {
        Ok(Hits::default())
    }

    fn adopt_watches(&self, _: BorrowedFd<'_>) -> Result<(), BpfError> {
        Ok(())
    }

    fn inode_of(&self, _: BorrowedFd<'_>) -> Result<u64, BpfError> {
        Ok(1)
    }

    fn set_write_rules(&mut self, _: bool) -> Result<(), BpfError> {
        Ok(())
    }
}

impl Backend for FakeBackend {
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
}

impl Setting {
    fn new(world: World) -> Self {
        let own = std::fs::metadata("/proc/self").expect("our own").uid();
        let status = |tgid, uid| format!("Tgid:\t{tgid}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n");
        let machine = root(&[
            ("proc/10/comm", "login\n"),
            ("proc/10/status", &status(10, 0)),
            ("proc/20/comm", "sh\n"),
            ("proc/20/status", &status(20, own)),
            ("sys/dev/char/4:1/uevent", "DEVNAME=tty1\n"),
        ]);
        Self { run_dir: tempfile::tempdir().expect("a directory"), machine, world: Rc::new(world) }
    }

    fn config(&self) -> Config {
        let options = Options { run_dir: self.run_dir.path().into(), ..Options::default() };
        Config { root: self.machine.path().into(), ..Config::new(&options).expect("valid") }
    }

    fn socket(&self) -> PathBuf {
        Config::socket(self.run_dir.path())
    }

    async fn serve(&self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        serve(&self.config(), &Fake(Rc::clone(&self.world)), stop).await
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
    let eyes = platform.sense(&config.sense).expect("eyes");
    let backend = platform.attach(&eyes, &config.sense, &config.sched).expect("a backend");
    Daemon {
        kernel: "7.2.13".into(),
        started_ns: NOW,
        names: Names::new(&config.root),
        live: RefCell::new(Live { eyes, backend: Some(backend), restarts: 0 }),
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
    assert!(
        refused.starts_with(&format!("appease is already running as process {}:", std::process::id())),
        "{refused}"
    );
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
    assert!(!setting.socket().exists());
}

#[test]
fn a_kernel_without_sched_ext_is_left_untouched() {
    let setting = Setting::new(World { sched_ext: Some(SchedExt::Absent), ..World::default() });
    let error = block_on(setting.serve(std::future::pending())).expect_err("impossible").to_string();
    assert!(error.contains("has no sched_ext"), "{error}");
    assert_eq!(std::fs::read_dir(setting.run_dir.path()).expect("readable").count(), 0, "no file is left");
}
