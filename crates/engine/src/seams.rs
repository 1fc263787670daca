//! What the daemon needs of the world, as small traits: each has a fake in the tests.

use std::{collections::BTreeMap, io, net::IpAddr, os::fd::BorrowedFd, path::Path, sync::Arc, time::Duration};

use rustix::time::{ClockId, clock_gettime};
use tracing::{info, warn};

use crate::{
    Error,
    backend::nice::{self, KernelTasks, Nice},
    channel::hosts,
    clock,
    reserve::{self, Guard, Keeper},
    resolver,
};

use crate::config::{BackendKind, Config};

pub use appease_bpf::{
    Access, Attention, BUCKETS, Begun, Buckets, Cgroup, Change, Changed, Channel, Clock, ConfidenceOptions, Customer,
    CustomerId, CustomerIs, Error as BpfError, Exit, Filter, Handler, Hits, Hog, HogNews, Hogs, Hop, LaneTimes,
    Latency, Lift, Lock, Lockout, MAX_RULES, MAX_WEIGHTS, MissingHook, News, Object, Policy, Process, Protocol,
    RULES_PER_TARGET, Raises, Request, Rule, SchedOptions, Scheduler, SenseOptions, Sensor, Side, Slot, Target, Whom,
    cpus_of_list,
    features::{self, Features},
    tasks::{self, Class, Setting, Slice},
};

/// Knows who serves whom.
pub trait Eyes {
    /// Attaches the hooks of modules that arrived since the last call; names those.
    fn attach_new_modules(&mut self) -> Vec<&'static str>;
    /// Lets hooks rest when nobody has been served for a while; to be called about once a second.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn stand_down(&self) -> Result<(), BpfError>;
    /// How many times TCP sockets began or ceased to listen; `None` when that is not watched.
    fn listener_changes(&self) -> Option<u64>;
    /// Hooks that are not attached.
    fn missing(&self) -> Vec<MissingHook>;
    /// Counters by name.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn counters(&self) -> Result<Vec<(&'static str, u64)>, BpfError>;
    /// Puts a new rule into a free slot; it has no hits and no targets.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn define(&self, slot: Slot, rule: &Rule) -> Result<(), BpfError>;
    /// Takes a rule out of its slot, which has no targets any more.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn forget(&self, slot: Slot) -> Result<(), BpfError>;
    /// Lets `target` lead to a rule.
    ///
    /// # Errors
    /// When it leads to [`RULES_PER_TARGET`] rules already, or the kernel refuses.
    fn bind(&self, slot: Slot, target: &Target) -> Result<(), BpfError>;
    /// Takes [`Eyes::bind`] back.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn unbind(&self, slot: Slot, target: &Target) -> Result<(), BpfError>;
    /// What a rule has seen.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn hits(&self, slot: Slot) -> Result<Hits, BpfError>;
    /// Makes events of this inotify instance count, and of no other.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn adopt_watches(&self, inotify: BorrowedFd<'_>) -> Result<(), BpfError>;
    /// The kernel's identity of an inode, stable while a watch or a descriptor holds it.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn inode_of(&self, file: BorrowedFd<'_>) -> Result<u64, BpfError>;
    /// Says whether any rule wants writes to sockets: the hooks for them cost something, and are attached only then.
    fn set_write_rules(&mut self, sockets: bool);
    /// Changes the weight of a rule, hundredths; it keeps its hits.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn weigh(&self, slot: Slot, weight: u32) -> Result<(), BpfError>;
    /// Has these weights of customers count, hundredths, and no others; when that fails, those before do.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn set_weights(&mut self, weights: &BTreeMap<Whom, u32>) -> Result<(), BpfError>;
    /// Says who is the active user of the seat.
    fn set_seat_user(&mut self, user: Option<u32>);
    /// Ends requests whose time is over, and accounts for them; to be called about once a second.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn sweep(&self) -> Result<(), BpfError>;
    /// Those who sent requests.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn customers(&self) -> Result<Vec<Customer>, BpfError>;
    /// What came of requests that ended by their response.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn latencies(&self) -> Result<Vec<Latency>, BpfError>;
    /// Requests that somebody waits for.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn open_requests(&self) -> Result<Vec<Request>, BpfError>;
}

/// Knows what is done for whom, and keeps the account of a backend in user space.
pub trait Witness {
    /// What is known of the process `pid`; `None` when nothing is.
    ///
    /// # Errors
    /// When there is no such process, or the kernel refuses.
    fn process(&self, pid: u32) -> Result<Option<Process>, BpfError>;
    /// What a backend in user space must know, since the last call.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn news(&self) -> Result<Vec<News>, BpfError>;
    /// Readable when there are news; `None` when none are told.
    fn news_fd(&self) -> Option<BorrowedFd<'_>>;
    /// Says that a process's threads are going to be changed, whose CPU time so far is not charged.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn take_on(&self, tgid: u32, total_ns: u64) -> Result<(), BpfError>;
    /// Charges the request that a process serves for what is new of its CPU time.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn charge(&self, tgid: u32, total_ns: u64) -> Result<(), BpfError>;
    /// Has the next reason to serve a process told again; whether it remains changed, which its children must be told of.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn let_go(&self, tgid: u32, changed: bool) -> Result<(), BpfError>;
    /// Policy rbpe: which reads raise the reader.
    fn set_raises(&mut self, raises: Raises);
}

/// Schedules; dropping it detaches it.
pub trait Backend {
    /// Acts on what the eyes have seen meanwhile. When it wants to be called again at the latest, ns; it is also when they have
    /// news, and once a second.
    fn act<W: Witness>(&mut self, witness: &mut W, now_ns: u64) -> Option<u64>;
    /// Why the kernel has detached it, when it has.
    fn exit(&self) -> Option<Exit>;
    /// CPU nanoseconds by lane since it was attached.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn lanes(&self) -> Result<LaneTimes, BpfError>;
    /// CPU nanoseconds by lane of the process `pid`.
    ///
    /// # Errors
    /// When there is no such process, or the kernel refuses.
    fn process_lanes(&self, pid: u32) -> Result<LaneTimes, BpfError>;
    /// CPU nanoseconds by lane and command name, exited processes included.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn commands(&self) -> Result<BTreeMap<String, LaneTimes>, BpfError>;
    /// Counters by name.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn counters(&self) -> Result<Vec<(&'static str, u64)>, BpfError>;
}

/// Where eyes and backends come from.
pub trait Platform {
    /// Its eyes.
    type Eyes: Eyes + Witness + 'static;
    /// Its backend.
    type Backend: Backend + 'static;

    /// What the kernel offers.
    fn features(&self) -> Features;
    /// Loads the eyes.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn sense(&self, options: &SenseOptions) -> Result<Self::Eyes, BpfError>;
    /// Takes back what a daemon that was killed has left changed.
    ///
    /// # Errors
    /// When there is a record of it that cannot be read.
    fn recover(&self, run_dir: &Path) -> Result<(), Error>;
    /// Attaches what acts.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn attach(&self, eyes: &Self::Eyes, config: &Config) -> Result<Self::Backend, BpfError>;
    /// Nanoseconds of `CLOCK_MONOTONIC`, which is also the clock of the BPF side.
    fn now_ns(&self) -> u64;
    /// What resolves host names.
    fn lookup(&self, config: &Config) -> Lookup;
}

/// Asks for the addresses of a host; may take long, so it is called on a thread of its own.
pub type Lookup = Arc<dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync>;

/// This machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Machine;

impl Platform for Machine {
    type Eyes = Sensor;
    type Backend = Acting;

    fn features(&self) -> Features {
        features::probe()
    }

    fn sense(&self, options: &SenseOptions) -> Result<Sensor, BpfError> {
        Sensor::load(options)
    }

    fn recover(&self, run_dir: &Path) -> Result<(), Error> {
        let found = nice::restore()?;
        if found > 0 {
            info!("{found} threads have back the nice value and slice that a daemon has left changed which was killed");
        }
        let (cpus, realtime) = reserve::take_back(Path::new("/"), run_dir)?;
        if realtime > 0 {
            info!("{realtime} threads are realtime again that a daemon has left changed which was killed");
        }
        if cpus > 0 {
            info!(
                "CPUs have back the reserve beside realtime programs that a daemon has left changed which was killed"
            );
        }
        Ok(())
    }

    fn attach(&self, eyes: &Sensor, config: &Config) -> Result<Acting, BpfError> {
        match config.backend {
            BackendKind::Auto | BackendKind::Scx => {
                let guards = reserve::is_ours(&config.root) && !config.sched.partial;
                let clock = clock::choose(config.clock, config.sched.packs, &config.root);
                let sched = SchedOptions { guards, clock, ..config.sched.clone() };
                let scheduler = Scheduler::attach(eyes, &config.sense, &sched)?;
                let guard = if guards { guard(&scheduler, config) } else { None };
                Ok(Acting::Scx { guard, scheduler: Box::new(scheduler) })
            }
            BackendKind::Nice => {
                let nice = Nice::new(KernelTasks::begin()?, &config.sense);
                be_prompt();
                Ok(Acting::Nice(Box::new(nice)))
            }
            BackendKind::None => Ok(Acting::Nothing),
        }
    }

    fn now_ns(&self) -> u64 {
        clock_ns(ClockId::Monotonic)
    }

    fn lookup(&self, config: &Config) -> Lookup {
        config.hosts.clone().map_or_else(hosts::system, resolver::asking)
    }
}

impl Eyes for Sensor {
    fn attach_new_modules(&mut self) -> Vec<&'static str> {
        Self::attach_new_modules(self)
    }

    fn stand_down(&self) -> Result<(), BpfError> {
        Self::stand_down(self)
    }

    fn listener_changes(&self) -> Option<u64> {
        Self::listener_changes(self)
    }

    fn missing(&self) -> Vec<MissingHook> {
        Self::missing(self)
    }

    fn counters(&self) -> Result<Vec<(&'static str, u64)>, BpfError> {
        Self::counters(self)
    }

    fn define(&self, slot: Slot, rule: &Rule) -> Result<(), BpfError> {
        Self::define(self, slot, rule)
    }

    fn forget(&self, slot: Slot) -> Result<(), BpfError> {
        Self::forget(self, slot)
    }

    fn bind(&self, slot: Slot, target: &Target) -> Result<(), BpfError> {
        Self::bind(self, slot, target)
    }

    fn unbind(&self, slot: Slot, target: &Target) -> Result<(), BpfError> {
        Self::unbind(self, slot, target)
    }

    fn hits(&self, slot: Slot) -> Result<Hits, BpfError> {
        Self::hits(self, slot)
    }

    fn adopt_watches(&self, inotify: BorrowedFd<'_>) -> Result<(), BpfError> {
        Self::adopt_watches(self, inotify)
    }

    fn inode_of(&self, file: BorrowedFd<'_>) -> Result<u64, BpfError> {
        Self::inode_of(self, file)
    }

    fn set_write_rules(&mut self, sockets: bool) {
        Self::set_write_rules(self, sockets);
    }

    fn weigh(&self, slot: Slot, weight: u32) -> Result<(), BpfError> {
        Self::weigh(self, slot, weight)
    }

    fn set_weights(&mut self, weights: &BTreeMap<Whom, u32>) -> Result<(), BpfError> {
        Self::set_weights(self, weights)
    }

    fn set_seat_user(&mut self, user: Option<u32>) {
        Self::set_seat_user(self, user);
    }

    fn sweep(&self) -> Result<(), BpfError> {
        Self::sweep(self)
    }

    fn customers(&self) -> Result<Vec<Customer>, BpfError> {
        Self::customers(self)
    }

    fn latencies(&self) -> Result<Vec<Latency>, BpfError> {
        Self::latencies(self)
    }

    fn open_requests(&self) -> Result<Vec<Request>, BpfError> {
        Self::open_requests(self)
    }
}

impl Witness for Sensor {
    fn process(&self, pid: u32) -> Result<Option<Process>, BpfError> {
        Self::process(self, pid)
    }

    fn news(&self) -> Result<Vec<News>, BpfError> {
        Self::news(self)
    }

    fn news_fd(&self) -> Option<BorrowedFd<'_>> {
        Self::news_fd(self)
    }

    fn take_on(&self, tgid: u32, total_ns: u64) -> Result<(), BpfError> {
        Self::take_on(self, tgid, total_ns)
    }

    fn charge(&self, tgid: u32, total_ns: u64) -> Result<(), BpfError> {
        Self::charge(self, tgid, total_ns)
    }

    fn let_go(&self, tgid: u32, changed: bool) -> Result<(), BpfError> {
        Self::let_go(self, tgid, changed)
    }

    fn set_raises(&mut self, raises: Raises) {
        Self::set_raises(self, raises);
    }
}

/// What a clock of the kernel's says, nanoseconds.
pub(crate) fn clock_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    let since_boot = Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0));
    u64::try_from(since_boot.as_nanos()).unwrap_or(u64::MAX)
}

/// What acts on this machine.
pub enum Acting {
    /// A scheduler in the kernel.
    Scx {
        /// Holds a reserve for it beside realtime programs, where the kernel does not; it ends first.
        guard: Option<Guard>,
        /// That scheduler.
        scheduler: Box<Scheduler>,
    },
    /// This process, by nice values.
    Nice(Box<Nice<KernelTasks>>),
    /// The kernel's own scheduler alone.
    Nothing,
}

/// Without one, realtime programs that never sleep lock others out, as they do without us.
fn guard(scheduler: &Scheduler, config: &Config) -> Option<Guard> {
    let news = scheduler.hogs().map_err(io::Error::other);
    match news.and_then(|news| Guard::start(news, &config.run_dir)) {
        Ok(guard) => {
            if reserve::keeper(&config.root) == Keeper::Daemon {
                info!("beside realtime programs, others keep 5 % of each CPU, which this daemon holds for them");
            }
            Some(guard)
        }
        Err(error) => {
            warn!("nothing is kept for others beside a realtime program that never sleeps: {error}");
            None
        }
    }
}

/// Who waits for the CPU itself cannot give it to others in time.
fn be_prompt() {
    const NICE: i32 = -20;
    const SLICE_NS: u64 = 100_000;
    let slice = if tasks::default_slice_ns().is_some() { Slice::Of(SLICE_NS) } else { Slice::Absent };
    if let Err(error) = tasks::set(0, NICE, slice) {
        info!("the daemon keeps its nice value, and is late under load: {error}");
    }
}

impl Acting {
    fn scheduler(&self) -> Option<&Scheduler> {
        match self {
            Self::Scx { scheduler, .. } => Some(scheduler),
            Self::Nice(_) | Self::Nothing => None,
        }
    }
}

/// The kernel's own scheduler tells nothing of lanes.
impl Backend for Acting {
    fn act<W: Witness>(&mut self, witness: &mut W, now_ns: u64) -> Option<u64> {
        match self {
            Self::Nice(nice) => nice.act(witness, now_ns),
            Self::Scx { guard, .. } => {
                guard.iter_mut().for_each(Guard::report);
                None
            }
            Self::Nothing => None,
        }
    }

    fn exit(&self) -> Option<Exit> {
        self.scheduler().and_then(Scheduler::exit)
    }

    fn lanes(&self) -> Result<LaneTimes, BpfError> {
        self.scheduler().map_or_else(|| Ok(LaneTimes::default()), Scheduler::lanes)
    }

    fn process_lanes(&self, pid: u32) -> Result<LaneTimes, BpfError> {
        self.scheduler().map_or_else(|| Ok(LaneTimes::default()), |scheduler| scheduler.process_lanes(pid))
    }

    fn commands(&self) -> Result<BTreeMap<String, LaneTimes>, BpfError> {
        self.scheduler().map_or_else(|| Ok(BTreeMap::default()), Scheduler::commands)
    }

    fn counters(&self) -> Result<Vec<(&'static str, u64)>, BpfError> {
        match self {
            Self::Nice(nice) => Ok(nice.counters()),
            Self::Scx { guard: Some(guard), scheduler } => {
                let mut counters = scheduler.counters()?;
                counters.push(("turns beside realtime programs that never sleep", guard.turns()));
                Ok(counters)
            }
            _ => self.scheduler().map_or_else(|| Ok(Vec::new()), Scheduler::counters),
        }
    }
}
