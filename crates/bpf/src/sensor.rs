//! Loading `sense.bpf.c`: the hooks that this kernel has now, and those of modules when they arrive.

use std::{mem::MaybeUninit, os::fd::AsFd, path::Path, time::Duration};

use libbpf_rs::{
    Link, MapCore, MapFlags, ProgramInput,
    btf::{Btf, types::Func},
    skel::{OpenSkel, Skel, SkelBuilder},
};
use tracing::{debug, warn};

use crate::{
    Error, Process,
    abi::{raw, words},
    skeletons::sense::{SenseSkel, SenseSkelBuilder},
};

/// How attention is handed on and how long it lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SenseOptions {
    /// CPU time after which a request is batch work.
    pub budget: Duration,
    /// How long a process counts as serving a request after its channel was read.
    pub attention: Duration,
    /// How long after the reading it is still lent a turn when it wakes up.
    pub retention: Duration,
    /// Hops after which attention is not handed on, at most 8.
    pub max_hops: u32,
    /// CPU time of a loan.
    pub loan: Duration,
}

impl Default for SenseOptions {
    fn default() -> Self {
        Self {
            budget: Duration::from_secs(2),
            attention: Duration::from_secs(4),
            retention: Duration::from_secs(8),
            max_hops: raw::APPEASE_MAX_HOPS,
            loan: Duration::from_millis(1),
        }
    }
}

/// A hook that is not attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingHook {
    /// The kernel function.
    pub function: &'static str,
    /// What does not work without it.
    pub lost: &'static str,
    /// The module that brings the function; `None`: this kernel has no such function.
    pub module: Option<&'static str>,
}

/// A program of `sense.bpf.c`, and what it is for.
struct Hook {
    program: &'static str,
    function: &'static str,
    /// The function may be in this module instead of the kernel.
    module: Option<&'static str>,
    lost: &'static str,
}

const fn hook(program: &'static str, function: &'static str, module: Option<&'static str>, lost: &'static str) -> Hook {
    Hook { program, function, module, lost }
}

/// Every hook but those on tracepoints, which all supported kernels have.
const HOOKS: &[Hook] = &[
    hook("appease_evdev_event", "evdev_events", Some("evdev"), "prompt wake-up of readers of input devices"),
    hook("appease_evdev_event_end", "evdev_events", Some("evdev"), "prompt wake-up of readers of input devices"),
    hook("appease_evdev_read", "evdev_read", Some("evdev"), "keyboards, pointers and touch screens as channels"),
    hook(
        "appease_mouse_event",
        "mousedev_notify_readers",
        Some("mousedev"),
        "prompt wake-up of readers of /dev/input/mice",
    ),
    hook(
        "appease_mouse_event_end",
        "mousedev_notify_readers",
        Some("mousedev"),
        "prompt wake-up of readers of /dev/input/mice",
    ),
    hook("appease_mouse_read", "mousedev_read", Some("mousedev"), "/dev/input/mice as a channel"),
    hook("appease_joystick_event", "joydev_event", Some("joydev"), "prompt wake-up of readers of joysticks"),
    hook("appease_joystick_event_end", "joydev_event", Some("joydev"), "prompt wake-up of readers of joysticks"),
    hook("appease_joystick_read", "joydev_read", Some("joydev"), "joysticks as channels"),
    hook("appease_sound_ioctl", "snd_pcm_common_ioctl", Some("snd_pcm"), "players that map the sound buffer"),
    hook("appease_sound_transfer", "__snd_pcm_lib_xfer", Some("snd_pcm"), "players that write sound"),
    hook("appease_tty_read", "n_tty_read", None, "consoles, serial lines, and what is behind terminals"),
    hook("appease_pty_write", "pty_write", None, "what is behind terminals"),
    hook("appease_tty_deliver", "n_tty_receive_buf2", None, "prompt wake-up behind terminals"),
    hook("appease_tty_deliver_end", "n_tty_receive_buf2", None, "prompt wake-up behind terminals"),
    hook("appease_pipe_write", "anon_pipe_write", None, "what is behind pipes and FIFOs"),
    hook("appease_pipe_read", "anon_pipe_read", None, "what is behind pipes and FIFOs"),
    hook("appease_pipe_free", "free_pipe_info", None, "that a pipe's next owner starts afresh"),
    hook("appease_eventfd_release", "eventfd_release", None, "that an event counter's next owner starts afresh"),
    hook("appease_eventfd_write", "eventfd_write", None, "what is behind event counters"),
    hook("appease_eventfd_read", "eventfd_read", None, "what is behind event counters"),
    hook("appease_socket_deliver", "sock_def_readable", None, "what is behind unix sockets"),
    hook("appease_unix_stream_receive", "unix_stream_recvmsg", None, "what is behind unix sockets"),
    hook("appease_unix_dgram_receive", "unix_dgram_recvmsg", None, "what is behind unix datagram sockets"),
    hook("appease_unix_packet_receive", "unix_seqpacket_recvmsg", None, "what is behind unix packet sockets"),
    hook("appease_tcp_send", "tcp_sendmsg", None, "what is behind local TCP connections"),
    hook("appease_tcp_receive", "tcp_recvmsg", None, "what is behind local TCP connections"),
    hook("appease_udp_send", "udp_sendmsg", None, "what is behind local UDP sockets"),
    hook("appease_udp_sent", "udp_sendmsg", None, "what is behind local UDP sockets"),
    hook("appease_udp_receive", "udp_recvmsg", None, "what is behind local UDP sockets"),
    hook("appease_udp6_send", "udpv6_sendmsg", Some("ipv6"), "what is behind local UDP sockets over IPv6"),
    hook("appease_udp6_sent", "udpv6_sendmsg", Some("ipv6"), "what is behind local UDP sockets over IPv6"),
    hook("appease_udp6_receive", "udpv6_recvmsg", Some("ipv6"), "what is behind local UDP sockets over IPv6"),
];

/// All hooks, as if none were attached: what a kernel must have for all that we can sense.
#[must_use]
pub fn hooks() -> Vec<MissingHook> {
    let mut hooks: Vec<MissingHook> = HOOKS.iter().map(Hook::missing).collect();
    hooks.dedup();
    hooks
}

impl Hook {
    fn missing(&self) -> MissingHook {
        MissingHook { function: self.function, lost: self.lost, module: self.module }
    }
}

/// The watching half: hooks in the kernel, attached as long as this lives.
pub struct Sensor {
    pub(crate) main: SenseSkel<'static>,
    /// Later loads of the same object, for the hooks of modules.
    late: Vec<SenseSkel<'static>>,
    links: Vec<Link>,
    options: SenseOptions,
    /// Indices into [`HOOKS`] of those that are attached.
    attached: Vec<usize>,
    /// Of those that their module does not let us attach.
    refused: Vec<usize>,
}

impl Sensor {
    /// Loads and attaches the hooks whose functions are there.
    ///
    /// # Errors
    /// When the kernel has no BTF, or refuses the programs.
    pub fn load(options: &SenseOptions) -> Result<Self, Error> {
        quiet_libbpf();
        let kernel = Btf::from_vmlinux().map_err(|_| Error::NoBtf)?;
        // Hooks of modules are loaded apart: one that cannot be must not take the others with it.
        let wanted: Vec<usize> =
            (0..HOOKS.len()).filter(|&i| kernel.type_by_name::<Func<'_>>(HOOKS[i].function).is_some()).collect();
        let main = load_object(options, &wanted, None)?;
        let mut sensor = Self {
            main,
            late: Vec::new(),
            links: Vec::new(),
            options: options.clone(),
            attached: Vec::new(),
            refused: Vec::new(),
        };
        let fork =
            sensor.main.progs.appease_fork.attach().map_err(|e| Error::libbpf("attach to process creation", e))?;
        sensor.links.push(fork);
        for index in wanted {
            match attach(&mut sensor.main, HOOKS[index].program) {
                Ok(link) => {
                    sensor.links.push(link);
                    sensor.attached.push(index);
                }
                Err(error) => debug!(function = HOOKS[index].function, %error, "hook left out"),
            }
        }
        sensor.attach_new_modules();
        Ok(sensor)
    }

    /// Attaches hooks whose module has arrived meanwhile; returns their functions. One that the module does not have, or
    /// that the kernel refuses, is left out from then on.
    pub fn attach_new_modules(&mut self) -> Vec<&'static str> {
        let is_new = |i: &usize| !self.attached.contains(i) && !self.refused.contains(i) && module_is_there(&HOOKS[*i]);
        let new: Vec<usize> = (0..HOOKS.len()).filter(is_new).collect();
        let mut names = self.attach_late(&new);
        names.dedup();
        names
    }

    /// Attaches hooks by an object of their own, or, when that cannot be loaded, each by one.
    fn attach_late(&mut self, hooks: &[usize]) -> Vec<&'static str> {
        if hooks.is_empty() {
            return Vec::new();
        }
        let attached = load_object(&self.options, hooks, Some(&self.main)).and_then(|mut object| {
            let links = hooks
                .iter()
                .map(|&i| {
                    let what = format!("attach to {}", HOOKS[i].function);
                    attach(&mut object, HOOKS[i].program).map_err(|e| Error::libbpf(&what, e))
                })
                .collect::<Result<Vec<Link>, Error>>()?;
            Ok((object, links))
        });
        match (attached, hooks) {
            (Ok((object, links)), _) => {
                self.late.push(object);
                self.links.extend(links);
                self.attached.extend(hooks);
                hooks.iter().map(|&i| HOOKS[i].function).collect()
            }
            (Err(error), &[one]) => {
                let Hook { function, lost, .. } = &HOOKS[one];
                warn!(function, lost, %error, "hook left out");
                self.refused.push(one);
                Vec::new()
            }
            (Err(_), many) => many.iter().flat_map(|&one| self.attach_late(&[one])).collect(),
        }
    }

    /// Stands the hooks down when nobody has been served for a while. To be called about once a second.
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

    /// Hooks that are not attached, and what that costs.
    #[must_use]
    pub fn missing(&self) -> Vec<MissingHook> {
        let mut missing: Vec<MissingHook> =
            (0..HOOKS.len()).filter(|i| !self.attached.contains(i)).map(|i| HOOKS[i].missing()).collect();
        missing.dedup();
        missing
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
        let Some(record) = bytes.as_deref().and_then(raw::appease_process::from_bytes) else {
            return Ok(None);
        };
        let request = self
            .main
            .maps
            .requests
            .lookup(&record.attention.slot.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| Error::libbpf("read a request", e))?;
        let request = request.as_deref().and_then(raw::appease_request::from_bytes);
        Ok(Some(record.resolve(pid, request.as_ref())))
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
fn load_object(
    options: &SenseOptions,
    wanted: &[usize],
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
        rodata.loan_ns = nanos(options.loan);
        rodata.max_hops = options.max_hops;
    }
    for mut program in open.open_object_mut().progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        let is_hook = HOOKS.iter().any(|h| h.program == name);
        let is_wanted = if is_hook { wanted.iter().any(|&i| HOOKS[i].program == name) } else { shared.is_none() };
        program.set_autoload(is_wanted);
    }
    if let Some(shared) = shared {
        let maps = &mut open.maps;
        let reused = maps
            .processes
            .reuse_fd(shared.maps.processes.as_fd())
            .and_then(|()| maps.requests.reuse_fd(shared.maps.requests.as_fd()))
            .and_then(|()| maps.handings.reuse_fd(shared.maps.handings.as_fd()))
            .and_then(|()| maps.armed_map.reuse_fd(shared.maps.armed_map.as_fd()))
            .and_then(|()| maps.counters.reuse_fd(shared.maps.counters.as_fd()))
            .and_then(|()| maps.stamps.reuse_fd(shared.maps.stamps.as_fd()))
            .and_then(|()| maps.doings.reuse_fd(shared.maps.doings.as_fd()))
            .and_then(|()| maps.scratch.reuse_fd(shared.maps.scratch.as_fd()));
        reused.map_err(|e| Error::libbpf("share the maps", e))?;
    }
    open.load().map_err(|e| Error::libbpf("load the sensing programs", e))
}

fn attach(object: &mut SenseSkel<'static>, name: &str) -> Result<Link, libbpf_rs::Error> {
    for program in object.object_mut().progs_mut() {
        if program.name().to_string_lossy() == name {
            return program.attach();
        }
    }
    Err(libbpf_rs::Error::from_raw_os_error(libc::ENOENT))
}

/// Nanoseconds; a time too long to count is as good as for ever.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
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
