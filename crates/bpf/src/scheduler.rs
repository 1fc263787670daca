//! Loading and attaching `sched.bpf.c`.

use std::{collections::BTreeMap, fs, mem::MaybeUninit, os::fd::AsFd, time::Duration};

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};
use scx_utils::{compat, scx_ops_load, scx_ops_open, uei_exited, uei_read};
use tracing::debug;

use crate::{
    Error, HogNews, LANES, LaneTimes, Sensor,
    abi::{pidfd, words},
    clock::Clock,
    domains::Domains,
    features,
    sensor::{SenseOptions, cpus_on, load_object, nanos, quiet_libbpf, read_counters},
    skeletons::{
        sched::{SchedSkel, SchedSkelBuilder},
        sense::SenseSkel,
    },
};

/// `SCX_OPS_SWITCH_PARTIAL` of the kernel's `sched_ext_ops`.
const SWITCH_PARTIAL: u64 = 1 << 3;

/// How the lanes share the CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedOptions {
    /// Longest turn of a task.
    pub slice: Duration,
    /// The other lane's guaranteed share of each epoch, per cent.
    pub other_share_pct: u32,
    /// Length of an epoch.
    pub epoch: Duration,
    /// A task of the other lane that waits longer than this runs next.
    pub longest_wait: Duration,
    /// Schedule only tasks that asked for it (`SCHED_EXT`).
    pub partial: bool,
    /// Tell of realtime programs that lock others out ([`Scheduler::hogs`]).
    pub guards: bool,
    /// By what the clock of CPUs is asked for.
    pub clock: Clock,
    /// Save power: keep plain work on few CPUs.
    pub packs: bool,
    /// How long a task may wait until the kernel's watchdog ejects us; at most 30 s, the kernel's default (`SCX_WATCHDOG_MAX_TIMEOUT`).
    pub watchdog: Duration,
    /// The fast CPUs; `None`: as the kernel tells.
    pub fast_cpus: Option<Vec<usize>>,
    /// Length of the debug dump when the kernel ejects us; 0: the kernel's default.
    pub exit_dump_len: u32,
}

impl Default for SchedOptions {
    fn default() -> Self {
        Self {
            slice: Duration::from_millis(3),
            other_share_pct: 5,
            epoch: Duration::from_millis(200),
            longest_wait: Duration::from_secs(1),
            partial: false,
            guards: false,
            clock: Clock::Left,
            packs: false,
            watchdog: Duration::from_secs(30),
            fast_cpus: None,
            exit_dump_len: 0,
        }
    }
}

/// Why the kernel detached the scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// In one line.
    pub reason: String,
    /// Whether it asks to be started again (CPU hotplug).
    pub restart: bool,
}

/// Whether this kernel takes the scheduler. Only trying shows what its verifier says.
///
/// # Errors
/// When it does not.
pub fn try_scheduler() -> Result<(), Error> {
    quiet_libbpf();
    let sense = SenseOptions::default();
    let sensing = load_object(&sense, &[], &[], None)?;
    Scheduler::load(&sensing, &sense, &SchedOptions::default()).map(drop)
}

/// The scheduling half: detached when dropped.
pub struct Scheduler {
    skel: SchedSkel<'static>,
    _link: Link,
    /// Of the program that notes what runs, where the kernel does not name it.
    _curr: Option<Link>,
}

/// The kernel's types.
const BTF: &str = "/sys/kernel/btf/vmlinux";
/// What reads them takes as much again for what it makes of them.
const BTF_TIMES: u64 = 2;

/// Whether there is memory for the kernel's types: `scx_utils` reads them when it is first asked about one, and panics without.
fn must_have_memory() -> Result<(), Error> {
    let bytes = fs::metadata(BTF).map_err(|_| Error::NoBtf)?.len() * BTF_TIMES;
    let wanted = usize::try_from(bytes).unwrap_or(usize::MAX);
    Vec::<u8>::new().try_reserve_exact(wanted).map_err(|_| Error::NoMemory { mib: bytes >> 20 })
}

/// Whether the kernel calls a scheduler's callback of this name: those for cgroups, if it was built with `CONFIG_EXT_GROUP_SCHED`.
fn has_op(name: &str) -> bool {
    compat::struct_has_field("sched_ext_ops", name).unwrap_or(false)
}

/// Whether the kernel names the task that a CPU runs: since Linux 6.18.
fn names_what_runs() -> bool {
    compat::ksym_exists("scx_bpf_cpu_curr").unwrap_or(false)
}

impl Scheduler {
    /// Attaches the scheduler, which then schedules all tasks by what `sensor` sees.
    ///
    /// # Errors
    /// When the kernel has no sched_ext or unsound BTF, another scheduler is attached, or the programs are refused.
    pub fn attach(sensor: &Sensor, sense: &SenseOptions, options: &SchedOptions) -> Result<Self, Error> {
        if let Some(obstacle) = features::probe().obstacles(features::Goal::Schedule).into_iter().next() {
            return Err(obstacle);
        }
        let mut skel = Self::load(&sensor.main, sense, options)?;
        // Not scx_ops_attach!, which also attaches every tracing program of the object.
        let program = &mut skel.progs.appease_note_curr;
        let curr = program.autoload().then(|| program.attach()).transpose();
        let curr = curr.map_err(|e| Error::libbpf("attach the program that notes what runs", e))?;
        let link = skel.maps.appease_ops.attach_struct_ops().map_err(|e| Error::libbpf("attach the scheduler", e))?;
        Ok(Self { skel, _link: link, _curr: curr })
    }

    /// Has the kernel look at the programs, on the maps of `sensing`. Nothing is attached.
    fn load(
        sensing: &SenseSkel<'static>,
        sense: &SenseOptions,
        options: &SchedOptions,
    ) -> Result<SchedSkel<'static>, Error> {
        must_have_memory()?;
        let storage = Box::leak(Box::new(MaybeUninit::uninit()));
        let no_options = None::<libbpf_rs::libbpf_sys::bpf_object_open_opts>;
        let mut open = scx_ops_open!(SchedSkelBuilder::default(), storage, appease_ops, no_options)
            .map_err(|e| Error::libbpf("open the scheduler", e))?;
        open.progs.scx_lib_init_probe.set_autoload(false);
        open.progs.appease_note_curr.set_autoload(!names_what_runs());
        let nr_cpus = u32::try_from(scx_utils::NR_CPU_IDS.to_owned()).unwrap_or(1);
        let sized = open.maps.cpu_timers.set_max_entries(nr_cpus);
        sized
            .and_then(|()| open.maps.stay_timers.set_max_entries(nr_cpus))
            .and_then(|()| open.maps.compare_timers.set_max_entries(nr_cpus))
            .and_then(|()| open.maps.lockouts.set_max_entries(nr_cpus))
            .map_err(|e| Error::libbpf("size a map by CPUs", e))?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.attention_ns = nanos(sense.attention);
            rodata.retention_ns = nanos(sense.retention);
            rodata.loan_ns = nanos(sense.loan);
            rodata.max_hops = sense.max_hops;
            rodata.policy = sense.policy as u32;
            rodata.alpha_pm = sense.alpha_pm;
            rodata.cpus_on = cpus_on();
            rodata.slice_ns = nanos(options.slice);
            rodata.epoch_ns = nanos(options.epoch);
            rodata.longest_wait_ns = nanos(options.longest_wait);
            rodata.watchdog_ns = nanos(options.watchdog);
            rodata.other_share_pct = options.other_share_pct;
            rodata.is_partial = options.partial;
            rodata.guards = options.guards;
            rodata.clock_by = options.clock as u32;
            rodata.packs = options.packs;
            rodata.nr_cpus = nr_cpus;
            let domains = Domains::of_machine(nr_cpus, options.fast_cpus.as_deref());
            rodata.fast_domains = domains.fast;
            rodata.nr_domains = domains.number;
            rodata.domain_of_cpus = *domains.of_cpus;
            rodata.late_cpus = *domains.late;
            rodata.next_in_core = *domains.next_in_core;
            rodata.is_smt = domains.next_in_core.iter().zip(0..).any(|(next, cpu)| *next != cpu);
            rodata.asks_for_idle = has_op("cgroup_set_weight") && !has_op("cgroup_set_idle");
        }
        let ops = open.struct_ops.appease_ops_mut();
        ops.exit_dump_len = options.exit_dump_len;
        ops.timeout_ms = u32::try_from(options.watchdog.as_millis()).unwrap_or(u32::MAX);
        if options.partial {
            ops.flags |= SWITCH_PARTIAL;
        }
        if !has_op("cgroup_set_weight") {
            debug!("this kernel's sched_ext knows no cgroups: their weights do not count");
            ops.cgroup_init = std::ptr::null_mut();
            ops.cgroup_exit = std::ptr::null_mut();
            ops.cgroup_move = std::ptr::null_mut();
            ops.cgroup_set_weight = std::ptr::null_mut();
            let progs = &mut open.progs;
            progs.appease_cgroup_init.set_autoload(false);
            progs.appease_cgroup_exit.set_autoload(false);
            progs.appease_cgroup_move.set_autoload(false);
            progs.appease_cgroup_set_weight.set_autoload(false);
        }
        if !has_op("cgroup_set_bandwidth") {
            debug!("this kernel's sched_ext is not told of cpu.max");
            ops.cgroup_set_bandwidth = std::ptr::null_mut();
            open.progs.appease_cgroup_set_bandwidth.set_autoload(false);
        }
        if !has_op("cgroup_set_idle") {
            debug!("this kernel's sched_ext is not told of cpu.idle: it looks itself");
            ops.cgroup_set_idle = std::ptr::null_mut();
            open.progs.appease_cgroup_set_idle.set_autoload(false);
        }
        let shared = &sensing.maps;
        let maps = &mut open.maps;
        let reused = maps
            .processes
            .reuse_fd(shared.processes.as_fd())
            .and_then(|()| maps.requests.reuse_fd(shared.requests.as_fd()))
            .and_then(|()| maps.handings.reuse_fd(shared.handings.as_fd()))
            .and_then(|()| maps.handlers.reuse_fd(shared.handlers.as_fd()))
            .and_then(|()| maps.threads.reuse_fd(shared.threads.as_fd()))
            .and_then(|()| maps.customers.reuse_fd(shared.customers.as_fd()))
            .and_then(|()| maps.data_armed.reuse_fd(shared.data_armed.as_fd()))
            .and_then(|()| maps.counters.reuse_fd(shared.counters.as_fd()));
        reused.map_err(|e| Error::libbpf("share the maps", e))?;
        scx_ops_load!(open, appease_ops, uei)
            .map_err(|e| Error::SchedulerRefused { kernel: features::probe().kernel, reason: format!("{e:#}") })
    }

    /// Why the kernel has detached us, if it has.
    #[must_use]
    pub fn exit(&self) -> Option<Exit> {
        if !uei_exited!(&self.skel, uei) {
            return None;
        }
        let info = uei_read!(&self.skel, uei);
        let restart = info.should_restart();
        let reason = match info.report() {
            Ok(()) => "detached by the kernel".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        Some(Exit { reason, restart })
    }

    /// CPU time by lane since the scheduler was attached.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn lanes(&self) -> Result<LaneTimes, Error> {
        let cpus = self
            .skel
            .maps
            .cpu_ctxs
            .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| Error::libbpf("read the CPU time by lane", e))?;
        let mut sum = LaneTimes::default();
        for cpu in cpus.iter().flatten() {
            add(&mut sum, times(cpu));
        }
        Ok(sum)
    }

    /// Counters by name.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn counters(&self) -> Result<Vec<(&'static str, u64)>, Error> {
        const NAMES: [&str; 14] = [
            "put on an idle CPU at once",
            "queued as attended",
            "queued as other or idle",
            "displaced by attended wake-ups",
            "turns that the other lane's share was due for",
            "tasks that waited too long",
            "brought back after realtime work",
            "displaced in the other lane by who had less",
            "displaced inside a program, which they left first",
            "kept from running by cpu.max of their cgroups",
            "times that a CPU was asked for another clock",
            "left a core that they shared for an idle one",
            "opened no further CPU, to save power",
            "realtime programs that never sleep not told: too many at once",
        ];
        read_counters(&self.skel.maps.sched_counters, &NAMES)
    }

    /// What it tells of realtime programs that lock others out, if it was asked to ([`SchedOptions::guards`]).
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn hogs(&self) -> Result<HogNews, Error> {
        let share =
            |map| MapHandle::try_from(map).map_err(|e| Error::libbpf("share what is told of realtime programs", e));
        let maps = &self.skel.maps;
        Ok(HogNews { ring: share(&maps.hogs)?, standing_back: share(&maps.standing_back)? })
    }

    /// CPU time by lane of the process `pid`, all its living threads together.
    ///
    /// # Errors
    /// [`Error::NoSuchProcess`], or when the kernel does not answer.
    pub fn process_lanes(&self, pid: u32) -> Result<LaneTimes, Error> {
        let mut sum = LaneTimes::default();
        let threads = fs::read_dir(format!("/proc/{pid}/task")).map_err(|_| Error::NoSuchProcess(pid))?;
        for thread in threads.flatten() {
            let Some(tid) = thread.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            add(&mut sum, self.thread_lanes(tid)?);
        }
        Ok(sum)
    }

    /// CPU time by lane and command name, of all tasks that ran since the scheduler was attached.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn commands(&self) -> Result<BTreeMap<String, LaneTimes>, Error> {
        let mut commands = BTreeMap::new();
        for key in self.skel.maps.commands.keys() {
            let Ok(Some(value)) = self.skel.maps.commands.lookup(&key, MapFlags::ANY) else { continue };
            add(commands.entry(name_of(&key)).or_default(), times(&value));
        }
        for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
            if !process.file_name().to_str().is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit())) {
                continue;
            }
            for thread in fs::read_dir(process.path().join("task")).into_iter().flatten().flatten() {
                let Some(tid) = thread.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
                let Ok(comm) = fs::read(thread.path().join("comm")) else { continue };
                add(commands.entry(name_of(comm.trim_ascii_end())).or_default(), self.thread_lanes(tid)?);
            }
        }
        commands.retain(|_, times: &mut LaneTimes| times.iter().any(|&t| t > 0));
        Ok(commands)
    }

    /// Zero for a thread that is gone, or not scheduled by us.
    fn thread_lanes(&self, tid: u32) -> Result<LaneTimes, Error> {
        let Ok(handle) = pidfd(tid, true) else { return Ok(LaneTimes::default()) };
        match self.skel.maps.task_ctxs.lookup(&handle.key(), MapFlags::ANY) {
            Ok(Some(bytes)) => Ok(times(&bytes)),
            // The thread went between the two calls.
            Ok(None) | Err(_) => Ok(LaneTimes::default()),
        }
    }
}

fn add(sum: &mut LaneTimes, more: LaneTimes) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum += more;
    }
}

/// The lane times at the head of a record.
fn times(bytes: &[u8]) -> LaneTimes {
    let mut times = LaneTimes::default();
    for (time, word) in times.iter_mut().zip(words(bytes).take(LANES.len())) {
        *time = word;
    }
    times
}

/// A command name as the kernel keeps it: up to the first NUL.
pub(crate) fn name_of(comm: &[u8]) -> String {
    let end = comm.iter().position(|&b| b == 0).unwrap_or(comm.len());
    String::from_utf8_lossy(&comm[..end]).into_owned()
}
