//! The hooks of `sense.bpf.c`: program, kernel function, module, and what is lost without it.

use crate::{SenseOptions, policy::Policy};

/// A hook that is not attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingHook {
    /// The kernel function.
    pub function: &'static str,
    /// What does not work without it.
    pub lost: &'static str,
    /// The module that brings the function.
    pub module: Option<&'static str>,
    /// Why the kernel refuses it; `None`: the kernel, or its module, has no such function now.
    pub refused: Option<String>,
    /// What older kernels call the function; as good.
    pub former: Option<&'static str>,
}

/// When a hook is wanted; those that cost somebody something are attached only while they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Under every policy that watches.
    Always,
    /// Where attention is followed: under every policy but rbpe.
    Attention,
    /// The same, where a backend in user space accounts for CPU time.
    Told,
    /// Under policy rsio.
    Confidence,
    /// Under those policies that tell requests apart.
    Requests,
    /// While a rule names a file.
    Files,
    /// While customers come by sockets, to see their responses: everybody who sends pays for it.
    Responses,
    /// While a rule wants writes to sockets, and for responses by TCP where they are seen in no other way.
    TcpWrites,
    /// While a rule wants writes to sockets, or names one whose responses are seen in no other way.
    OtherWrites,
}

/// A program of `sense.bpf.c`, and what it is for.
pub(crate) struct Hook {
    pub(crate) program: &'static str,
    pub(crate) function: &'static str,
    /// What older kernels call it; of a tracepoint, the function by which others of our hooks see the same.
    pub(crate) former: Option<&'static str>,
    /// The function may be in this module instead of the kernel.
    pub(crate) module: Option<&'static str>,
    pub(crate) lost: &'static str,
    pub(crate) wanted: Wanted,
}

impl Hook {
    /// Whether it is wanted from the start to the end.
    pub(crate) fn is_for_good(&self, options: &SenseOptions) -> bool {
        match self.wanted {
            Wanted::Always => options.policy.watches(),
            Wanted::Attention => options.policy.follows_attention(),
            Wanted::Told => options.tells && options.policy.follows_attention(),
            Wanted::Confidence => options.policy == Policy::Rsio,
            Wanted::Requests => options.policy.has_requests(),
            Wanted::Files | Wanted::Responses | Wanted::TcpWrites | Wanted::OtherWrites => false,
        }
    }

    /// Whether it is a tracepoint, which goes by the function that calls its programs.
    pub(crate) fn is_tracepoint(&self) -> bool {
        self.function.starts_with("__traceiter_")
    }

    pub(crate) fn missing(&self) -> MissingHook {
        MissingHook {
            function: self.function,
            lost: self.lost,
            module: self.module,
            refused: None,
            former: self.former,
        }
    }
}

const fn hook(program: &'static str, function: &'static str, lost: &'static str) -> Hook {
    Hook { program, function, former: None, module: None, lost, wanted: Wanted::Attention }
}

const fn formerly(former: &'static str, hook: Hook) -> Hook {
    Hook { former: Some(former), ..hook }
}

const fn of_module(module: &'static str, hook: Hook) -> Hook {
    Hook { module: Some(module), ..hook }
}

const fn when(wanted: Wanted, hook: Hook) -> Hook {
    Hook { wanted, ..hook }
}

// What is lost without a hook; several hooks may be for the same.
const INPUT: &str = "keyboards, pointers and touch screens as channels";
const INPUT_WAKEUP: &str = "prompt wake-up of readers of input devices";
const MICE: &str = "/dev/input/mice as a channel";
const MICE_WAKEUP: &str = "prompt wake-up of readers of /dev/input/mice";
const JOYSTICKS: &str = "joysticks as channels";
const JOYSTICKS_WAKEUP: &str = "prompt wake-up of readers of joysticks";
const HIDRAW: &str = "raw HID devices as channels";
const HIDRAW_WAKEUP: &str = "prompt wake-up of readers of raw HID devices";
const HIDRAW_ANSWERS: &str = "that what a raw HID device answers is not taken for input";
const TERMINALS: &str = "what is behind terminals";
const TERMINALS_WAKEUP: &str = "prompt wake-up behind terminals";
const PIPES: &str = "what is behind pipes and FIFOs";
const SPLICES: &str = "what is spliced into pipes, and from them";
const COUNTERS: &str = "what is behind event counters";
const LISTENERS: &str = "to look at what listens only when that changed";
const UDP: &str = "UDP sockets as channels, and what is behind local ones";
const PI_FUTEX: &str = "that who holds a futex with priority inheritance is lifted by who waits for it";
const FUTEX: &str = "that who holds a mutex shared between processes is lifted by who waits for it";
const FILE_LOCK: &str = "that who holds a file lock is lifted by who waits for it";
const FAMILIES: &str = "that children serve what their parents serve";
const SHORT_LIVED: &str = "that commands which end at once are charged for their CPU time";
const EXITS: &str = "that a process has not the confidence of an earlier one of its number";
const KERNEL_LOCK: &str = "that who holds a lock inside the kernel is lifted by who waits for it";
const SOCKETS: &str = "sockets as channels, and what is behind local ones";
const READV: &str = "that a file channel's end is not taken for input by readv";
const TEE: &str = "that tee is not taken for reading a file channel";
const URING: &str = "that what fails in io_uring is not taken for access to a file channel";
const WRITES: &str = "writes to socket channels, and responses by them";
const RESPONSES: &str = "responses by TCP when they begin";
const PICTURES: &str = "when a screen shows the response to an input";
const POINTERS: &str = "when the pointer moves";

/// Without any of these nobody who reaches the machine by a terminal or a socket is known, and nothing is followed. They are in every kernel.
pub(crate) const ESSENTIAL: [&str; 3] = ["__traceiter_sk_data_ready", "__traceiter_sock_recv_length", "tty_read"];

/// By these it is known when what listens changes.
pub(crate) const LISTEN_START: &str = "inet_csk_listen_start";
pub(crate) const LISTEN_END: &str = "inet_csk_listen_stop";

/// At this each piece of a response by TCP is seen.
pub(crate) const TCP_ANSWER: &str = "__traceiter_tcp_sendmsg_locked";

/// Every hook. A tracepoint goes by the function that calls its programs.
pub(crate) const HOOKS: &[Hook] = &[
    when(Wanted::Always, hook("appease_fork", "__traceiter_sched_process_fork", FAMILIES)),
    when(Wanted::Told, hook("appease_told_exit", "__traceiter_sched_process_exit", SHORT_LIVED)),
    when(Wanted::Confidence, hook("appease_process_exit", "__traceiter_sched_process_exit", EXITS)),
    hook("appease_contention", "__traceiter_contention_begin", KERNEL_LOCK),
    hook("appease_contention_end", "__traceiter_contention_end", KERNEL_LOCK),
    hook("appease_socket_deliver", "__traceiter_sk_data_ready", SOCKETS),
    when(Wanted::Always, hook("appease_socket_receive", "__traceiter_sock_recv_length", SOCKETS)),
    of_module("evdev", hook("appease_evdev_event", "evdev_events", INPUT_WAKEUP)),
    of_module("evdev", hook("appease_evdev_event_end", "evdev_events", INPUT_WAKEUP)),
    of_module("evdev", hook("appease_evdev_read", "evdev_read", INPUT)),
    of_module("mousedev", hook("appease_mouse_event", "mousedev_notify_readers", MICE_WAKEUP)),
    of_module("mousedev", hook("appease_mouse_event_end", "mousedev_notify_readers", MICE_WAKEUP)),
    of_module("mousedev", hook("appease_mouse_read", "mousedev_read", MICE)),
    of_module("joydev", hook("appease_joystick_event", "joydev_event", JOYSTICKS_WAKEUP)),
    of_module("joydev", hook("appease_joystick_event_end", "joydev_event", JOYSTICKS_WAKEUP)),
    of_module("joydev", hook("appease_joystick_read", "joydev_read", JOYSTICKS)),
    of_module("hid", hook("appease_hidraw_event", "hidraw_report_event", HIDRAW_WAKEUP)),
    of_module("hid", hook("appease_hidraw_event_end", "hidraw_report_event", HIDRAW_WAKEUP)),
    of_module("hid", hook("appease_hidraw_read", "hidraw_read", HIDRAW)),
    of_module("hid", hook("appease_hidraw_write", "hidraw_write", HIDRAW_ANSWERS)),
    of_module("snd_pcm", hook("appease_sound_ioctl", "snd_pcm_common_ioctl", "players that map the sound buffer")),
    of_module("snd_pcm", hook("appease_sound_poll", "snd_pcm_poll", "players that map its positions, too")),
    of_module("snd_pcm", hook("appease_sound_transfer", "__snd_pcm_lib_xfer", "players that write sound")),
    hook("appease_tty_read", "tty_read", "consoles, serial lines, and what is behind terminals"),
    hook("appease_pty_write", "pty_write", TERMINALS),
    hook("appease_tty_deliver", "n_tty_receive_buf2", TERMINALS_WAKEUP),
    hook("appease_tty_deliver_end", "n_tty_receive_buf2", TERMINALS_WAKEUP),
    // Until 6.14.
    formerly("pipe_write", hook("appease_pipe_write", "anon_pipe_write", PIPES)),
    formerly("pipe_read", hook("appease_pipe_read", "anon_pipe_read", PIPES)),
    hook("appease_splice", "do_splice", SPLICES),
    hook("appease_splice_end", "do_splice", SPLICES),
    hook("appease_pipe_free", "free_pipe_info", "that a pipe's next owner starts afresh"),
    hook("appease_eventfd_release", "eventfd_release", "that an event counter's next owner starts afresh"),
    hook("appease_eventfd_write", "eventfd_write", COUNTERS),
    hook("appease_eventfd_read", "eventfd_read", COUNTERS),
    when(Wanted::Always, hook("appease_unix_splice", "unix_stream_splice_read", "what is spliced from unix sockets")),
    hook("appease_listen", LISTEN_START, LISTENERS),
    hook("appease_listen_end", LISTEN_END, LISTENERS),
    when(Wanted::Always, hook("appease_tcp_splice", "tcp_splice_read", "what is spliced from TCP connections")),
    hook("appease_udp_send", "udp_sendmsg", UDP),
    hook("appease_udp_sent", "udp_sendmsg", UDP),
    when(Wanted::Always, hook("appease_udp_receive", "skb_consume_udp", UDP)),
    of_module("ipv6", hook("appease_udp6_send", "udpv6_sendmsg", "what is behind local UDP sockets over IPv6")),
    of_module("ipv6", hook("appease_udp6_sent", "udpv6_sendmsg", "what is behind local UDP sockets over IPv6")),
    hook("appease_pi_wait", "rt_mutex_wait_proxy_lock", PI_FUTEX),
    hook("appease_pi_wait_end", "rt_mutex_wait_proxy_lock", PI_FUTEX),
    hook("appease_futex_wait", "__futex_wait", FUTEX),
    hook("appease_futex_wait_end", "__futex_wait", FUTEX),
    hook("appease_file_lock_wait", "__locks_insert_block", FILE_LOCK),
    hook("appease_file_lock_wait_end", "__locks_delete_block", FILE_LOCK),
    when(Wanted::Requests, hook("appease_futex_wake", "futex_wake_mark", "what is behind shared memory")),
    // Until 6.15 the end of the call has to do.
    when(Wanted::Responses, formerly("tcp_sendmsg", hook("appease_tcp_answer", TCP_ANSWER, RESPONSES))),
    when(Wanted::Requests, of_module("drm", hook("appease_page_flip", "drm_mode_page_flip_ioctl", PICTURES))),
    when(Wanted::Requests, of_module("drm", hook("appease_atomic_commit", "drm_mode_atomic_ioctl", PICTURES))),
    when(Wanted::Requests, of_module("drm", hook("appease_dirty_picture", "drm_mode_dirtyfb_ioctl", PICTURES))),
    when(Wanted::Requests, of_module("drm", hook("appease_cursor", "drm_mode_cursor_ioctl", POINTERS))),
    when(Wanted::Requests, of_module("drm", hook("appease_cursor2", "drm_mode_cursor2_ioctl", POINTERS))),
    when(Wanted::Requests, hook("appease_console_write", "con_write", "responses on the console")),
    when(Wanted::Requests, hook("appease_serial_write", "uart_write", "responses by serial lines")),
    when(Wanted::Files, hook("appease_file_access", "inotify_handle_inode_event", "files as channels")),
    when(Wanted::Files, hook("appease_readv", "vfs_readv", READV)),
    when(Wanted::Files, hook("appease_readv_end", "vfs_readv", READV)),
    when(Wanted::Files, hook("appease_tee", "do_tee", TEE)),
    when(Wanted::Files, hook("appease_tee_end", "do_tee", TEE)),
    when(Wanted::Files, hook("appease_uring_done", "kiocb_done", URING)),
    when(Wanted::Files, hook("appease_uring_done_end", "kiocb_done", URING)),
    when(Wanted::Files, hook("appease_uring_complete", "io_req_rw_complete", URING)),
    when(Wanted::Files, hook("appease_uring_complete_end", "io_req_rw_complete", URING)),
    when(Wanted::TcpWrites, hook("appease_tcp_sent", "tcp_sendmsg", WRITES)),
    when(Wanted::OtherWrites, hook("appease_udp_write", "udp_sendmsg", WRITES)),
    when(Wanted::OtherWrites, hook("appease_udp_write_end", "udp_sendmsg", WRITES)),
    when(Wanted::OtherWrites, of_module("ipv6", hook("appease_udp6_write", "udpv6_sendmsg", WRITES))),
    when(Wanted::OtherWrites, of_module("ipv6", hook("appease_udp6_write_end", "udpv6_sendmsg", WRITES))),
    when(Wanted::OtherWrites, hook("appease_udp_written", "__traceiter_net_dev_queue", WRITES)),
    when(Wanted::OtherWrites, hook("appease_unix_stream_written", "unix_stream_sendmsg", WRITES)),
    when(Wanted::OtherWrites, hook("appease_unix_dgram_written", "unix_dgram_sendmsg", WRITES)),
];

/// All hooks, as if none were attached: what a kernel must have for all that we can sense.
#[must_use]
pub fn hooks() -> Vec<MissingHook> {
    let mut hooks: Vec<MissingHook> = HOOKS.iter().map(Hook::missing).collect();
    hooks.dedup();
    hooks
}
