//! Loading `sense.bpf.c`: the hooks that this kernel has now, and those of modules when they arrive.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    mem::MaybeUninit,
    os::fd::AsFd,
    path::Path,
    ptr,
    time::Duration,
};

use libbpf_rs::{
    Link, MapCore, MapFlags, ProgramInput,
    skel::{OpenSkel, Skel, SkelBuilder},
};
use tracing::debug;

use crate::{
    ConfidenceOptions, CustomerIs, Error, Handler, MissingHook, Policy, Process, Whom,
    abi::{raw, words},
    features::kernel_functions,
    hooks::{ESSENTIAL, HOOKS, Hook, LISTEN_END, LISTEN_START, TCP_ANSWER, Wanted},
    news::{Inbox, NEWS_BYTES},
    rules::Glance,
    skeletons::sense::{SenseSkel, SenseSkelBuilder},
};

/// How long after the last customer by a socket the hooks stay that see responses by TCP: to attach them takes a moment, in which
/// responses are not seen.
const CUSTOMERS_STAY: Duration = Duration::from_mins(10);

/// How attention is handed on and how long it lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SenseOptions {
    /// CPU time after which a request is batch work.
    pub budget: Duration,
    /// The same for who reads a terminal itself, until something is printed.
    pub quiet: Duration,
    /// How long a process counts as serving a request after its channel was read.
    pub attention: Duration,
    /// How long after the reading it is still lent a turn when it wakes up.
    pub retention: Duration,
    /// Hops after which attention is not handed on, at most 8.
    pub max_hops: u32,
    /// CPU time of a loan.
    pub loan: Duration,
    /// What follows from what is seen.
    pub policy: Policy,
    /// Whether a backend in user space is to be told of changes ([`Sensor::news`]).
    pub tells: bool,
    /// For policy rsio.
    pub confidence: ConfidenceOptions,
    /// What a customer is.
    pub customer_is: CustomerIs,
    /// For policy cas: what of its unhappiness a process keeps that waits for another, per mille, less than 500.
    pub alpha_pm: u32,
}

impl Default for SenseOptions {
    fn default() -> Self {
        Self {
            budget: Duration::from_secs(2),
            quiet: Duration::from_millis(300),
            attention: Duration::from_secs(4),
            retention: Duration::from_secs(8),
            max_hops: raw::APPEASE_MAX_HOPS,
            loan: Duration::from_millis(1),
            policy: Policy::default(),
            tells: false,
            confidence: ConfidenceOptions::default(),
            customer_is: CustomerIs::default(),
            alpha_pm: 0,
        }
    }
}

/// Open files that it takes when each hook is loaded by itself: each load has its own descriptors of all maps, about 30.
const FILES: libc::rlim_t = 4096;

/// The watching half: hooks in the kernel, attached as long as this lives.
pub struct Sensor {
    pub(crate) main: SenseSkel<'static>,
    /// Later loads of the same object: for the hooks of modules, for those that rest, and for each one where not all load.
    late: Vec<SenseSkel<'static>>,
    /// Hooks that are attached only at times and have programs, by index into [`HOOKS`]: in which of those; `None`: in `main`.
    loaded: HashMap<usize, Option<usize>>,
    options: SenseOptions,
    /// Hooks that are attached, by index into [`HOOKS`].
    attached: Vec<(usize, Link)>,
    /// Of those that cannot be attached.
    refused: Vec<(usize, String)>,
    /// Of those whose function is in the kernel itself, also where others have it in a module.
    in_kernel: Vec<usize>,
    /// Of those whose function has its former name here.
    renamed: Vec<usize>,
    /// What the kernel's side has to look for.
    pub(crate) glance: RefCell<Glance>,
    /// Whether a rule wants writes to sockets.
    socket_writes: bool,
    /// Of those for which others stand in.
    elsewhere: Vec<usize>,
    /// What user space is told.
    pub(crate) news: Option<Inbox>,
    /// Weights of customers that are in force, hundredths.
    pub(crate) weights: BTreeMap<Whom, u32>,
}

impl Sensor {
    /// Loads and attaches the hooks whose functions are there.
    ///
    /// # Errors
    /// When the kernel has no BTF, or refuses the programs.
    pub fn load(options: &SenseOptions) -> Result<Self, Error> {
        quiet_libbpf();
        allow_files(FILES);
        let names = HOOKS.iter().flat_map(|hook| [Some(hook.function), hook.former]).flatten();
        let there = kernel_functions(Path::new("/"), &names.collect())?;
        // Hooks of modules, and such as rest, are loaded apart: one that cannot be must not take the others with it.
        let has = |function: &str| there.iter().any(|name| name == function);
        let lacking = (0..HOOKS.len()).filter(|&i| !has(HOOKS[i].function) && HOOKS[i].former.is_some_and(has));
        // What a tracepoint would tell, a hook of another kind tells.
        let (elsewhere, renamed): (Vec<usize>, Vec<usize>) = lacking.partition(|&i| HOOKS[i].is_tracepoint());
        let is_there = |i: &usize| has(HOOKS[*i].function) || renamed.contains(i);
        let in_kernel: Vec<usize> = (0..HOOKS.len()).filter(is_there).collect();
        let wanted: Vec<usize> = in_kernel.iter().copied().filter(|&i| HOOKS[i].is_for_good(options)).collect();
        // To load one when it is wanted takes the better part of a second.
        let sees_answers = |&i: &usize| match HOOKS[i].wanted {
            Wanted::Responses => !elsewhere.contains(&i),
            Wanted::TcpWrites => !elsewhere.is_empty(),
            _ => false,
        };
        let at_times: Vec<usize> = if options.policy.has_requests() {
            in_kernel.iter().copied().filter(sees_answers).collect()
        } else {
            Vec::new()
        };
        let all: Vec<usize> = wanted.iter().chain(&at_times).copied().collect();
        // Where not all can be loaded together, nearly all of them can be by themselves.
        let (main, together) = match load_object(options, &all, &renamed, None) {
            Ok(main) => (main, true),
            Err(error) => {
                debug!(%error, "loading each hook by itself");
                (load_object(options, &[], &renamed, None)?, false)
            }
        };
        main.progs
            .appease_begin
            .test_run(ProgramInput::default())
            .map_err(|e| Error::libbpf("begin to keep confidence", e))?;
        let news = options.tells.then(|| Inbox::new(&main.maps.news)).transpose()?;
        let mut sensor = Self {
            main,
            news,
            renamed,
            late: Vec::new(),
            loaded: HashMap::new(),
            options: options.clone(),
            attached: Vec::new(),
            refused: Vec::new(),
            in_kernel,
            glance: RefCell::default(),
            socket_writes: false,
            elsewhere,
            weights: BTreeMap::new(),
        };
        if together {
            sensor.loaded.extend(at_times.into_iter().map(|index| (index, None)));
            for index in wanted {
                let link = attach_hook(&mut sensor.main, index);
                sensor.keep(index, link);
            }
        } else {
            sensor.attach_late(&wanted);
        }
        sensor.attach_new_modules();
        sensor.must_see()?;
        Ok(sensor)
    }

    /// Attaches hooks whose module has arrived meanwhile, and those that a rule needs now; detaches those that no rule
    /// needs any more. Returns the functions of those attached. One that cannot be is left out from then on.
    pub fn attach_new_modules(&mut self) -> Vec<&'static str> {
        let (files, unconnected) = (self.glance.borrow().files > 0, self.glance.borrow().has_unconnected());
        let options = &self.options;
        let rules_matter = options.policy.follows_attention();
        let answers = options.policy.has_requests() && self.has_inet_customers();
        let answers_elsewhere = self.elsewhere.iter().any(|&i| HOOKS[i].function == TCP_ANSWER);
        let is_wanted = |hook: &Hook| match hook.wanted {
            Wanted::Files => rules_matter && files,
            Wanted::Responses => answers,
            Wanted::TcpWrites => rules_matter && self.socket_writes || answers && answers_elsewhere,
            Wanted::OtherWrites => rules_matter && (self.socket_writes || unconnected),
            _ => hook.is_for_good(options),
        };
        let is_new = |&i: &usize| {
            let hook = &HOOKS[i];
            let is_late = !hook.is_for_good(options) && (hook.module.is_none() || self.in_kernel.contains(&i));
            is_wanted(hook)
                && (is_late || module_is_there(hook))
                && self.why_refused(i).is_none()
                && !self.attached.iter().any(|(attached, _)| *attached == i)
        };
        let new: Vec<usize> = (0..HOOKS.len()).filter(is_new).collect();
        let unwanted: Vec<usize> = (0..HOOKS.len()).filter(|&i| !is_wanted(&HOOKS[i])).collect();
        self.attached.retain(|(i, _)| !unwanted.contains(i));
        let mut names = self.attach_late(&new);
        names.dedup();
        names
    }

    /// Whether somebody came by a socket lately.
    fn has_inet_customers(&self) -> bool {
        let Some(armed) = self.main.maps.data_armed_data.as_deref() else { return false };
        // SAFETY: a live word of memory that the kernel's programs write, too.
        let latest = unsafe { ptr::from_ref(&armed.armed.inet_at_ns).read_volatile() };
        latest > 0 && now_ns().saturating_sub(latest) < nanos(CUSTOMERS_STAY)
    }

    /// Whether a rule wants writes to sockets: their hooks cost every writer a little. The next
    /// [`Sensor::attach_new_modules`] minds it.
    pub fn set_write_rules(&mut self, sockets: bool) {
        self.socket_writes = sockets;
    }

    /// Attaches hooks by an object of their own, or, when that cannot be loaded, each by one. Those that were attached
    /// before are loaded still.
    fn attach_late(&mut self, hooks: &[usize]) -> Vec<&'static str> {
        let (known, new): (Vec<usize>, Vec<usize>) = hooks.iter().partition(|&i| self.loaded.contains_key(i));
        let mut names: Vec<&'static str> = known.into_iter().filter_map(|i| self.attach_again(i)).collect();
        if new.is_empty() {
            return names;
        }
        let attached = load_object(&self.options, &new, &self.renamed, Some(&self.main)).and_then(|mut object| {
            let links = new.iter().map(|&i| attach_hook(&mut object, i)).collect::<Result<Vec<Link>, Error>>()?;
            Ok((object, links))
        });
        match (attached, new.as_slice()) {
            (Ok((object, links)), _) => {
                self.loaded.extend(new.iter().map(|&i| (i, Some(self.late.len()))));
                self.late.push(object);
                names.extend(new.iter().map(|&i| HOOKS[i].function));
                self.attached.extend(new.into_iter().zip(links));
            }
            (Err(error), &[one]) => self.refuse(one, &error),
            (Err(_), many) => names.extend(many.iter().flat_map(|&one| self.attach_late(&[one]))),
        }
        names
    }

    fn attach_again(&mut self, hook: usize) -> Option<&'static str> {
        let object = match *self.loaded.get(&hook)? {
            Some(late) => self.late.get_mut(late)?,
            None => &mut self.main,
        };
        let link = attach_hook(object, hook);
        self.keep(hook, link)
    }

    /// Keeps a hook that was attached, and returns its function; notes one that was refused.
    fn keep(&mut self, hook: usize, link: Result<Link, Error>) -> Option<&'static str> {
        match link {
            Ok(link) => {
                self.attached.push((hook, link));
                Some(HOOKS[hook].function)
            }
            Err(error) => {
                self.refuse(hook, &error);
                None
            }
        }
    }

    fn refuse(&mut self, hook: usize, error: &Error) {
        let Hook { function, lost, .. } = &HOOKS[hook];
        debug!(function, lost, %error, "hook refused");
        self.refused.push((hook, error.reason()));
    }

    /// Stands the scheduler and, but for policy rsio, the hooks down when nobody has been served for a while. To be called about once a second.
    ///
    /// # Errors
    /// When the kernel does not run it.
    pub fn stand_down(&self) -> Result<(), Error> {
        self.main
            .progs
            .appease_stand_down
            .test_run(ProgramInput::default())
            .map(|_| ())
            .map_err(|e| Error::libbpf("stand the hooks down", e))
    }

    /// How many times TCP sockets began or ceased to listen, in any network namespace; `None` when that is not watched.
    #[must_use]
    pub fn listener_changes(&self) -> Option<u64> {
        let is_watched = |function| self.attached.iter().any(|(attached, _)| HOOKS[*attached].function == function);
        let armed = self.main.maps.data_armed_data.as_deref()?;
        // SAFETY: a live word of memory that the kernel's programs write, too.
        let changes = unsafe { ptr::from_ref(&armed.armed.listeners).read_volatile() };
        (is_watched(LISTEN_START) && is_watched(LISTEN_END)).then_some(changes)
    }

    /// Hooks that are not attached, and what that costs.
    #[must_use]
    pub fn missing(&self) -> Vec<MissingHook> {
        let is_missing = |&i: &usize| {
            let rests = !HOOKS[i].is_for_good(&self.options) && self.why_refused(i).is_none();
            !rests && !self.elsewhere.contains(&i) && !self.attached.iter().any(|(attached, _)| *attached == i)
        };
        let mut missing: Vec<MissingHook> = (0..HOOKS.len())
            .filter(is_missing)
            .map(|i| MissingHook { refused: self.why_refused(i).map(str::to_owned), ..HOOKS[i].missing() })
            .collect();
        missing.dedup();
        missing
    }

    fn why_refused(&self, hook: usize) -> Option<&str> {
        self.refused.iter().find(|(refused, _)| *refused == hook).map(|(_, why)| why.as_str())
    }

    /// Fails where the kernel refuses a hook without which nobody who reaches the machine is known.
    fn must_see(&self) -> Result<(), Error> {
        let refused = self.refused.iter().find(|(hook, _)| ESSENTIAL.contains(&HOOKS[*hook].function));
        refused.map_or(Ok(()), |(hook, why)| {
            Err(Error::HooksRefused { function: HOOKS[*hook].function, reason: why.clone() })
        })
    }

    /// What is known of the process `pid`, if anything.
    ///
    /// # Errors
    /// [`Error::NoSuchProcess`], or when the kernel does not answer.
    pub fn process(&self, pid: u32) -> Result<Option<Process>, Error> {
        let pidfd = crate::abi::pidfd(pid, false)?;
        let bytes = self
            .main
            .maps
            .processes
            .lookup(&pidfd.key(), MapFlags::ANY)
            .map_err(|e| Error::libbpf("read the record of a process", e))?;
        let handler = self.handler(pid)?;
        let record = match bytes.as_deref().and_then(raw::appease_process::from_bytes) {
            Some(record) => record,
            None if handler.is_some() => raw::appease_process::default(),
            None => return Ok(None),
        };
        let request = self
            .main
            .maps
            .requests
            .lookup(&record.attention.slot.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| Error::libbpf("read a request", e))?;
        let request = request.as_deref().and_then(raw::appease_request::from_bytes);
        Ok(Some(Process { handler, ..record.resolve(pid, request.as_ref()) }))
    }

    /// Policy rsio: what makes the process `pid` part of an interaction.
    fn handler(&self, pid: u32) -> Result<Option<Handler>, Error> {
        if self.options.policy != Policy::Rsio {
            return Ok(None);
        }
        let bytes = self
            .main
            .maps
            .handlers
            .lookup(&pid.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| Error::libbpf("read the record of a handler", e))?;
        Ok(bytes.as_deref().and_then(raw::appease_handler::from_bytes))
    }

    /// Counters by name.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn counters(&self) -> Result<Vec<(&'static str, u64)>, Error> {
        const NAMES: [&str; raw::APPEASE_NR_COUNTERS as usize] = [
            "requests opened",
            "requests not opened: no record",
            "stamps left",
            "stamps picked up",
            "stamps refused: too many hops",
            "attention inherited",
            "loans",
            "loans refused",
            "records not made: no memory",
            "holders of locks lifted",
            "channel reads that came from this machine itself",
            "activations not judged: too many",
            "news not told: too many at once",
            "requests ended by their response",
            "requests ended without one: nobody worked on them any more",
            "requests ended without one, while somebody still did",
            "requests of customers who are not told apart: too many",
        ];
        read_counters(&self.main.maps.counters, &NAMES)
    }
}

/// Sums of a per-CPU array of counters, by name.
pub(crate) fn read_counters(map: &impl MapCore, names: &[&'static str]) -> Result<Vec<(&'static str, u64)>, Error> {
    (0u32..)
        .zip(names)
        .map(|(index, &name)| {
            let values = map
                .lookup_percpu(&index.to_ne_bytes(), MapFlags::ANY)
                .map_err(|e| Error::libbpf("read counters", e))?
                .unwrap_or_default();
            Ok((name, values.iter().filter_map(|value| words(value).next()).sum()))
        })
        .collect()
}

/// Attaches hooks of each kind for a moment, to see whether the kernel lets this process.
///
/// # Errors
/// When it does not, or has no BTF.
pub fn try_hooks() -> Result<(), Error> {
    quiet_libbpf();
    let there = kernel_functions(Path::new("/"), &ESSENTIAL.into_iter().collect())?;
    let tried = |hook: &(usize, &Hook)| {
        ESSENTIAL.contains(&hook.1.function) && there.iter().any(|name| name == hook.1.function)
    };
    for (index, Hook { function, .. }) in HOOKS.iter().enumerate().filter(tried) {
        let refused = |error: Error| Error::HooksRefused { function, reason: error.reason() };
        let mut object = load_object(&SenseOptions::default(), &[index], &[], None).map_err(refused)?;
        drop(attach_hook(&mut object, index).map_err(refused)?);
    }
    Ok(())
}

/// Whether the module that brings the hook's function is loaded, and has done with its own start: before that the kernel
/// lets nobody attach to it.
fn module_is_there(hook: &Hook) -> bool {
    hook.module.is_some_and(|module| {
        let state = Path::new("/sys/module").join(module).join("initstate");
        Path::new("/sys/kernel/btf").join(module).exists()
            && std::fs::read_to_string(state).is_ok_and(|state| state.trim() == "live")
    })
}

/// Loads `sense.bpf.c` with only the wanted hooks; on the maps of `shared`, if given.
pub(crate) fn load_object(
    options: &SenseOptions,
    wanted: &[usize],
    renamed: &[usize],
    shared: Option<&SenseSkel<'static>>,
) -> Result<SenseSkel<'static>, Error> {
    // The skeleton borrows its storage. It lives as long as the daemon, and there are a handful.
    let storage = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open =
        SenseSkelBuilder::default().open(storage).map_err(|e| Error::libbpf("open the sensing object", e))?;
    if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
        rodata.attention_ns = nanos(options.attention);
        rodata.retention_ns = nanos(options.retention);
        rodata.budget_ns = nanos(options.budget);
        rodata.quiet_ns = nanos(options.quiet);
        rodata.loan_ns = nanos(options.loan);
        rodata.max_hops = options.max_hops;
        rodata.policy = options.policy as u32;
        rodata.tells = options.tells;
        rodata.max_conf = options.confidence.max_conf;
        rodata.co_conf = options.confidence.co_conf;
        rodata.sys_expire_ns = nanos(options.confidence.sys_expire);
        rodata.co_delta_ns = nanos(options.confidence.co_delta);
        rodata.customer_is = options.customer_is as u32;
        rodata.alpha_pm = options.alpha_pm;
        rodata.cpus_on = cpus_on();
        rodata.tick_us = tick_us();
    }
    for mut program in open.open_object_mut().progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        let is_hook = HOOKS.iter().any(|h| h.program == name);
        let is_wanted = if is_hook { wanted.iter().any(|&i| HOOKS[i].program == name) } else { shared.is_none() };
        program.set_autoload(is_wanted);
        let former = renamed.iter().map(|&i| &HOOKS[i]).find(|hook| hook.program == name).and_then(|hook| hook.former);
        if let Some(former) = former {
            program
                .set_attach_target(0, Some(former.into()))
                .map_err(|e| Error::libbpf(&format!("choose {former} for {name}"), e))?;
        }
    }
    if options.tells && shared.is_none() {
        open.maps.news.set_max_entries(NEWS_BYTES).map_err(|e| Error::libbpf("make room for news", e))?;
    }
    if let Some(shared) = shared {
        let maps = &mut open.maps;
        let theirs = &shared.maps;
        let reused = [
            maps.processes.reuse_fd(theirs.processes.as_fd()),
            maps.requests.reuse_fd(theirs.requests.as_fd()),
            maps.handings.reuse_fd(theirs.handings.as_fd()),
            maps.data_armed.reuse_fd(theirs.data_armed.as_fd()),
            maps.counters.reuse_fd(theirs.counters.as_fd()),
            maps.stamps.reuse_fd(theirs.stamps.as_fd()),
            maps.socket_stamps.reuse_fd(theirs.socket_stamps.as_fd()),
            maps.doings.reuse_fd(theirs.doings.as_fd()),
            maps.scratch.reuse_fd(theirs.scratch.as_fd()),
            maps.rules.reuse_fd(theirs.rules.as_fd()),
            maps.targets.reuse_fd(theirs.targets.as_fd()),
            maps.unix_names.reuse_fd(theirs.unix_names.as_fd()),
            maps.unix_name_scratch.reuse_fd(theirs.unix_name_scratch.as_fd()),
            maps.data_watched.reuse_fd(theirs.data_watched.as_fd()),
            maps.last_at.reuse_fd(theirs.last_at.as_fd()),
            maps.handlers.reuse_fd(theirs.handlers.as_fd()),
            maps.channel_handlers.reuse_fd(theirs.channel_handlers.as_fd()),
            maps.ends_map.reuse_fd(theirs.ends_map.as_fd()),
            maps.socket_ends.reuse_fd(theirs.socket_ends.as_fd()),
            maps.activations.reuse_fd(theirs.activations.as_fd()),
            maps.judge_timers.reuse_fd(theirs.judge_timers.as_fd()),
            maps.handler_scratches.reuse_fd(theirs.handler_scratches.as_fd()),
            maps.news.reuse_fd(theirs.news.as_fd()),
            maps.threads.reuse_fd(theirs.threads.as_fd()),
            maps.customers.reuse_fd(theirs.customers.as_fd()),
            maps.customer_slots.reuse_fd(theirs.customer_slots.as_fd()),
            maps.weights.reuse_fd(theirs.weights.as_fd()),
            maps.latencies.reuse_fd(theirs.latencies.as_fd()),
            maps.latency_slots.reuse_fd(theirs.latency_slots.as_fd()),
            maps.latency_scratch.reuse_fd(theirs.latency_scratch.as_fd()),
            maps.latest_by.reuse_fd(theirs.latest_by.as_fd()),
            maps.connections.reuse_fd(theirs.connections.as_fd()),
            maps.unshown.reuse_fd(theirs.unshown.as_fd()),
            maps.written_devices.reuse_fd(theirs.written_devices.as_fd()),
            maps.streams.reuse_fd(theirs.streams.as_fd()),
        ];
        let reused = reused.into_iter().collect::<Result<(), _>>();
        reused.map_err(|e| Error::libbpf("share the maps", e))?;
    }
    open.load().map_err(|e| Error::libbpf("load the sensing programs", e))
}

/// As [`attach`], by index into [`HOOKS`].
fn attach_hook(object: &mut SenseSkel<'static>, hook: usize) -> Result<Link, Error> {
    let what = || format!("attach to {}", HOOKS[hook].function);
    attach(object, HOOKS[hook].program).map_err(|e| Error::libbpf(&what(), e))
}

fn attach(object: &mut SenseSkel<'static>, name: &str) -> Result<Link, libbpf_rs::Error> {
    for program in object.object_mut().progs_mut() {
        if program.name().to_string_lossy() == name {
            return program.attach();
        }
    }
    Err(libbpf_rs::Error::from_raw_os_error(libc::ENOENT))
}

/// Lets this process have so many files open at least; where it must not, hooks may be left out later, which say so.
fn allow_files(number: libc::rlim_t) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: getrlimit writes a live record of the type that it expects.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } < 0 || limit.rlim_cur >= number {
        return;
    }
    let more = libc::rlimit { rlim_cur: number, rlim_max: limit.rlim_max.max(number) };
    // SAFETY: setrlimit reads a live record of the type that it expects.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const more) } < 0 {
        let error = std::io::Error::last_os_error();
        debug!(%error, "no more than {} open files", limit.rlim_cur);
    }
}

/// Nanoseconds of the monotonic clock.
fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a live timespec; this clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// CPUs that are on, as far as this process may use them.
pub(crate) fn cpus_on() -> u32 {
    std::thread::available_parallelism().map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX))
}

/// Nanoseconds; a time too long to count is as good as for ever.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Time between two ticks of the kernel's clock, which coarse clocks have for their resolution; µs.
fn tick_us() -> u32 {
    let tick = rustix::time::clock_getres(rustix::time::ClockId::MonotonicCoarse);
    u32::try_from(tick.tv_nsec / 1000).unwrap_or(0).max(1)
}

/// libbpf's messages go where ours go; it says much that is no news (each ops member that a kernel lacks).
pub(crate) fn quiet_libbpf() {
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Info, |level, message| {
        let message = message.trim_end();
        match level {
            libbpf_rs::PrintLevel::Warn => debug!(target: "libbpf", "{message}"),
            _ => tracing::trace!(target: "libbpf", "{message}"),
        }
    })));
}
