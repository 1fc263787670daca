//! What the daemon needs of the world, as small traits: each has a fake in the tests.

use std::{collections::BTreeMap, io, net::IpAddr, os::fd::BorrowedFd, sync::Arc, time::Duration};

use crate::channel::hosts;

use crate::config::{BackendKind, Config};

pub use appease_bpf::{
    Access, Attention, Begun, Cgroup, Channel, ConfidenceOptions, Error as BpfError, Exit, Filter, Handler, Hits, Hop,
    LaneTimes, Lift, Lock, MAX_RULES, MissingHook, Object, Policy, Process, Protocol, RULES_PER_TARGET, Request, Rule,
    SchedOptions, Scheduler, SenseOptions, Sensor, Side, Slot, Target,
    features::{self, Features},
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
    /// What is known of the process `pid`; `None` when nothing is.
    ///
    /// # Errors
    /// When there is no such process, or the kernel refuses.
    fn process(&self, pid: u32) -> Result<Option<Process>, BpfError>;
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
}

/// Schedules; dropping it detaches it.
pub trait Backend {
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
    type Eyes: Eyes + 'static;
    /// Its backend.
    type Backend: Backend + 'static;

    /// What the kernel offers.
    fn features(&self) -> Features;
    /// Loads the eyes.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn sense(&self, options: &SenseOptions) -> Result<Self::Eyes, BpfError>;
    /// Attaches what acts.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn attach(&self, eyes: &Self::Eyes, config: &Config) -> Result<Self::Backend, BpfError>;
    /// Nanoseconds of `CLOCK_MONOTONIC`, which is also the clock of the BPF side.
    fn now_ns(&self) -> u64;
    /// What resolves host names.
    fn lookup(&self) -> Lookup;
}

/// Asks for the addresses of a host; may take long, so it is called on a thread of its own.
pub type Lookup = Arc<dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync>;

/// This machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Machine;

impl Platform for Machine {
    type Eyes = Sensor;
    type Backend = Option<Scheduler>;

    fn features(&self) -> Features {
        features::probe()
    }

    fn sense(&self, options: &SenseOptions) -> Result<Sensor, BpfError> {
        Sensor::load(options)
    }

    fn attach(&self, eyes: &Sensor, config: &Config) -> Result<Option<Scheduler>, BpfError> {
        match config.backend {
            BackendKind::Auto | BackendKind::Scx => Scheduler::attach(eyes, &config.sense, &config.sched).map(Some),
            BackendKind::None => Ok(None),
        }
    }

    fn now_ns(&self) -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let since_boot = Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0));
        u64::try_from(since_boot.as_nanos()).unwrap_or(u64::MAX)
    }

    fn lookup(&self) -> Lookup {
        hosts::system()
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

    fn process(&self, pid: u32) -> Result<Option<Process>, BpfError> {
        Self::process(self, pid)
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
}

/// Nothing acts without one.
impl Backend for Option<Scheduler> {
    fn exit(&self) -> Option<Exit> {
        self.as_ref().and_then(Scheduler::exit)
    }

    fn lanes(&self) -> Result<LaneTimes, BpfError> {
        self.as_ref().map_or_else(|| Ok(LaneTimes::default()), Scheduler::lanes)
    }

    fn process_lanes(&self, pid: u32) -> Result<LaneTimes, BpfError> {
        self.as_ref().map_or_else(|| Ok(LaneTimes::default()), |scheduler| scheduler.process_lanes(pid))
    }

    fn commands(&self) -> Result<BTreeMap<String, LaneTimes>, BpfError> {
        self.as_ref().map_or_else(|| Ok(BTreeMap::default()), Scheduler::commands)
    }

    fn counters(&self) -> Result<Vec<(&'static str, u64)>, BpfError> {
        self.as_ref().map_or_else(|| Ok(Vec::new()), Scheduler::counters)
    }
}
