//! What goes over the control socket. Additions are compatible; the rest is an interface.

use std::fmt;

use serde::{Deserialize, Serialize};
use zlink::introspect;

/// CPU time by lane, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, introspect::CustomType)]
pub struct LaneNs {
    /// Kernel threads.
    pub kernel: u64,
    /// Processes that serve a request.
    pub attended: u64,
    /// All others.
    pub other: u64,
    /// Processes that asked for the idle class.
    pub idle: u64,
}

impl LaneNs {
    /// All lanes together.
    #[must_use]
    pub fn total(self) -> u64 {
        [self.kernel, self.attended, self.other, self.idle].into_iter().fold(0, u64::saturating_add)
    }

    /// In whole steps of so many nanoseconds.
    #[must_use]
    pub(crate) fn in_steps_of(self, step_ns: u64) -> Self {
        let whole = |ns: u64| ns - ns % step_ns;
        Self {
            kernel: whole(self.kernel),
            attended: whole(self.attended),
            other: whole(self.other),
            idle: whole(self.idle),
        }
    }

    /// Lane names and times, most urgent first.
    #[must_use]
    pub fn by_name(self) -> [(&'static str, u64); 4] {
        [("kernel", self.kernel), ("attended", self.attended), ("other", self.other), ("idle", self.idle)]
    }
}

impl From<[u64; 4]> for LaneNs {
    fn from([kernel, attended, other, idle]: [u64; 4]) -> Self {
        Self { kernel, attended, other, idle }
    }
}

/// The daemon and what it does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, introspect::CustomType)]
pub struct Status {
    /// Version of the daemon.
    pub version: String,
    /// Release of the kernel.
    pub kernel: String,
    /// What acts on the CPU: `scx`.
    pub backend: String,
    /// Order of the attended lane.
    pub policy: String,
    /// Process id of the daemon.
    pub pid: u32,
    /// How long it has been running, milliseconds.
    pub uptime_ms: u64,
    /// How often the scheduler was attached anew because the kernel asked for it.
    pub restarts: u64,
    /// Whether processes of others were left out, because the asker is not root.
    pub restricted: bool,
    /// Hooks that this kernel lacks.
    pub missing: Vec<Missing>,
    /// CPU time by lane since the scheduler was attached. Unless root asks, as it was at most a minute ago, and in whole seconds.
    pub lanes: LaneNs,
    /// What was counted. Empty unless root asks.
    pub counters: Vec<Counter>,
    /// Processes in the attended lane now, most unhappy first; so many of them.
    pub attended: Vec<Attended>,
    /// How many more there are.
    #[serde(default)]
    pub attended_left_out: u64,
    /// CPU time by command name, most first. Empty unless root asks.
    pub commands: Vec<Command>,
    /// Requests that are open, of the asker's own customers unless root asks; nothing under a policy that tells none apart.
    pub requests: Option<RequestTotals>,
}

/// Requests that are open, of several customers together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, introspect::CustomType)]
pub struct RequestTotals {
    /// How many.
    pub open: u64,
    /// How many customers wait for them.
    pub customers: u64,
    /// Unhappiness of the system (Customer Appeasement, eq. 5), nanoseconds.
    pub unhappiness_ns: u64,
}

/// A hook that this kernel lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, introspect::CustomType)]
pub struct Missing {
    /// The kernel's function.
    pub hook: String,
    /// What does not work without it.
    pub lost: String,
    /// The module that brings it, when it may yet come.
    pub waits_for_module: Option<String>,
    /// Why the kernel refuses it, when it does.
    #[serde(default)]
    pub refused: Option<String>,
}

impl From<appease_bpf::MissingHook> for Missing {
    fn from(hook: appease_bpf::MissingHook) -> Self {
        // What was refused has come.
        let waits_for_module = hook.module.filter(|_| hook.refused.is_none()).map(Into::into);
        Self { hook: hook.function.into(), lost: hook.lost.into(), waits_for_module, refused: hook.refused }
    }
}

/// A counter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, introspect::CustomType)]
pub struct Counter {
    /// What is counted.
    pub name: String,
    /// How often.
    pub value: u64,
}

/// CPU time of all processes with one command name, exited ones included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, introspect::CustomType)]
pub struct Command {
    /// The command name.
    pub comm: String,
    /// Its CPU time.
    pub lane_ns: LaneNs,
}

/// A process in the attended lane.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, introspect::CustomType)]
pub struct Attended {
    /// Process id.
    pub pid: u32,
    /// Command name.
    pub comm: String,
    /// Why; nothing when it is only on loan.
    pub chain: Option<Chain>,
    /// What is left of a loan, nanoseconds.
    pub loan_left_ns: u64,
}

/// Whether a process has attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, introspect::CustomType)]
#[serde(rename_all = "lowercase")]
#[zlink(rename_all = "lowercase")]
pub enum Standing {
    /// It serves a request.
    Current,
    /// It served one, too long ago.
    Expired,
    /// Its request has used up its CPU budget.
    Spent,
    /// Its request has been answered.
    Answered,
    /// No request ever reached it.
    None,
}

/// What is known of a process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, introspect::CustomType)]
pub struct Why {
    /// Process id.
    pub pid: u32,
    /// Command name.
    pub comm: String,
    /// Lane in which it runs: `kernel`, `attended`, `other`, `idle`; `realtime` or `foreign` when appease does not
    /// schedule it.
    pub lane: String,
    /// Whether it has attention.
    pub standing: Standing,
    /// From where; also when that is over.
    pub chain: Option<Chain>,
    /// What is left of a loan, nanoseconds; 0 for none.
    pub loan_left_ns: u64,
    /// How long ago it read from a channel itself, nanoseconds.
    pub channel_read_ago_ns: Option<u64>,
    /// Who waits for a lock that it holds.
    pub lift: Option<Lifted>,
    /// Policy rsio: what makes it part of an interaction, now or a while ago.
    pub handler: Option<Handling>,
    /// Its CPU time.
    pub lane_ns: LaneNs,
}

/// That a process runs for one who waits for its lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, introspect::CustomType)]
pub struct Lifted {
    /// Process that waits.
    pub pid: u32,
    /// Its command name; empty when it is gone.
    pub comm: String,
    /// For what: `file lock`, …
    pub lock: String,
}

/// Policy rsio: a handler, a cohandler, or both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, introspect::CustomType)]
pub struct Handling {
    /// How long it is part of an interaction yet, nanoseconds; negative when that ended so long ago.
    pub left_ns: i64,
    /// Channels that it handles itself, by their ids in `appease channel list`.
    pub channels: Vec<u32>,
    /// Processes whose cohandler it is.
    pub cohandler_of: Vec<Confidence>,
    /// Processes that communicated with it.
    pub candidates: Vec<Confidence>,
}

/// A process, and how sure one is of its part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, introspect::CustomType)]
pub struct Confidence {
    /// Process id.
    pub pid: u32,
    /// Its command name; empty when it is gone.
    pub comm: String,
    /// Of a candidate, from 0 to the ceiling.
    pub confidence: Option<u32>,
}

/// A request and how it came to a process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, introspect::CustomType)]
pub struct Chain {
    /// Id of the request.
    pub request: u64,
    /// Kind of channel: `evdev`, `tty`, …
    pub channel: String,
    /// Device node.
    pub node: String,
    /// The device's own name; empty when it has none.
    pub device: String,
    /// Process that read from it.
    pub reader_pid: u32,
    /// Its command name; empty when it is gone.
    pub reader: String,
    /// How long ago that opened the request, nanoseconds.
    pub opened_ago_ns: u64,
    /// CPU time spent on it by all processes together, nanoseconds.
    pub served_ns: u64,
    /// CPU time from which on it is batch work, nanoseconds.
    pub budget_ns: u64,
    /// Time since it was opened less CPU time spent on it, nanoseconds.
    pub unhappy_ns: i64,
    /// How long attention lasts yet, nanoseconds; negative when it ended that long ago.
    pub left_ns: i64,
    /// Whose request it is; nothing when that is not known any more.
    pub customer: Option<CustomerName>,
    /// Weight of customer and channel together.
    pub weight: f64,
    /// How long after its opening something was written back first, nanoseconds; nothing when nothing was.
    pub first_response_after_ns: Option<u64>,
    /// The same of the last time so far.
    pub last_response_after_ns: Option<u64>,
    /// From the reader to this process; empty for the reader itself.
    pub hops: Vec<HopStep>,
}

/// One step of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, introspect::CustomType)]
pub struct HopStep {
    /// What carried it: `unix`, `inet`, `pipe`, `pty`, `eventfd`, `fork`.
    pub object: String,
    /// Process that picked it up.
    pub pid: u32,
    /// Its command name; empty when it is gone.
    pub comm: String,
    /// How long ago, nanoseconds.
    pub ago_ns: u64,
}

/// A channel in words. Each is checked by the daemon.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, introspect::CustomType)]
pub struct ChannelWords {
    /// `read`, `write` or `both`.
    pub access: String,
    /// A path; `accept` or `connect` and an address; `class:` and a name.
    pub what: Vec<String>,
    /// Name or number of a user.
    pub user: Option<String>,
    /// Name or number of a group.
    pub group: Option<String>,
    /// A cgroup, from the root on.
    pub cgroup: Option<String>,
    /// How much its requests count, 0.01 to 100; 1 if nothing is said.
    pub weight: Option<String>,
}

/// Some of the channels that are in force, or wait for what they are about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, introspect::CustomType)]
pub struct ChannelPage {
    /// By id.
    pub channels: Vec<ChannelRow>,
    /// Whether hits and handlers were left out, because the asker is not root: they tell when somebody types.
    pub restricted: bool,
    /// Whether there are more after the last one.
    pub more: bool,
}

/// A channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, introspect::CustomType)]
pub struct ChannelRow {
    /// Its number while it is there.
    pub id: u32,
    /// `read`, `write` or `both`.
    pub access: String,
    /// Where, in the words that `appease channel add` takes.
    pub what: String,
    /// Only operations of this user count.
    pub user: Option<String>,
    /// Only operations of this group count.
    pub group: Option<String>,
    /// Only operations below this cgroup count.
    pub cgroup: Option<String>,
    /// How much its requests count: 1 if nobody said something else.
    pub weight: f64,
    /// `active` when there was a hit within the time that attention lasts, else `armed`; `waiting` for what is not there;
    /// `off` when it cannot be.
    pub state: String,
    /// What it waits for, or why it is off.
    pub reason: Option<String>,
    /// Operations that counted; nothing when left out.
    pub hits: Option<u64>,
    /// How long ago the last one was, nanoseconds.
    pub last_hit_ago_ns: Option<u64>,
    /// Who did them, latest first.
    pub handlers: Vec<Handler>,
    /// `built-in`, with the server's name if it is there because of one; file and line; or `added by command`.
    pub source: String,
}

/// A process that used a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, introspect::CustomType)]
pub struct Handler {
    /// Process id.
    pub pid: u32,
    /// Command name; empty when it is gone.
    pub comm: String,
}

/// What a reload changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, introspect::CustomType)]
pub struct Reloaded {
    /// Channels that are new.
    pub added: u64,
    /// Channels that are gone.
    pub removed: u64,
    /// Channels that have another weight.
    #[serde(default)]
    pub weighed: u64,
    /// Customers whose weight is new, another, or gone.
    #[serde(default)]
    pub customers: u64,
}

/// A customer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, introspect::CustomType)]
pub struct CustomerName {
    /// `seat`, `line`, `address`, `user`, `cgroup`, or `others` for those who are not told apart.
    pub kind: String,
    /// For people. The daemon knows users and cgroups by number; the client looks their names up.
    pub name: String,
    /// The user; of a seat, who is active there.
    pub uid: Option<u32>,
    /// The cgroup: the number of its directory's inode.
    pub cgroup_id: Option<u64>,
}

/// Some of the customers, and what came of their requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, introspect::CustomType)]
pub struct LatencyPage {
    /// All customers together that the asker may see; on the first page alone.
    pub total: Option<Account>,
    /// The same by channel; not unless root asks, for it tells when somebody types.
    pub channels: Vec<ChannelLatency>,
    /// Customers by id.
    pub customers: Vec<CustomerRow>,
    /// Bounds of what [`Times`] counts together, nanoseconds.
    pub edges_ns: Vec<u64>,
    /// Whether customers were left out, because the asker is not root.
    pub restricted: bool,
    /// From which id on there are more.
    pub next: Option<u32>,
}

/// A customer, and what came of its requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, introspect::CustomType)]
pub struct CustomerRow {
    /// Its number while it is remembered.
    pub id: u32,
    /// Who it is.
    pub customer: CustomerName,
    /// How much it counts: 1 if nobody said something else.
    pub weight: f64,
    /// Its requests.
    pub account: Account,
    /// The same by channel.
    pub channels: Vec<ChannelLatency>,
}

/// What came of requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, introspect::CustomType)]
pub struct Account {
    /// Requests in all.
    pub opened: u64,
    /// Of those, ended by their response.
    pub answered: u64,
    /// Ended without one, when nobody worked on them any more: there was nothing to answer.
    pub silent: u64,
    /// Ended without one, while somebody still did.
    pub timed_out: u64,
    /// Reads that opened none, since too many were open.
    pub denied: u64,
    /// CPU time spent on them, nanoseconds.
    pub served_ns: u64,
    /// Requests that are open now.
    pub open: u64,
    /// Unhappiness by those, by weight (Customer Appeasement, eq. 4 and 5), nanoseconds.
    pub unhappiness_ns: u64,
    /// What was answered.
    pub responses: Responses,
}

/// Requests by one channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, introspect::CustomType)]
pub struct ChannelLatency {
    /// Its number in `appease channel list`.
    pub id: u32,
    /// In the words that `appease channel add` takes.
    pub channel: String,
    /// How much its requests count.
    pub weight: f64,
    /// Requests that are open now.
    pub open: u64,
    /// Unhappiness by those, by weight of channel and customer, nanoseconds.
    pub unhappiness_ns: u64,
    /// What was answered.
    pub responses: Responses,
}

/// Requests that ended by their response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, introspect::CustomType)]
pub struct Responses {
    /// Times from the opening to the last write back.
    pub last: Times,
    /// To the first one.
    pub first: Times,
    /// Unhappiness at the last one: that time less CPU time that the request got.
    pub unhappiness: Times,
}

/// Times, nanoseconds. Quantiles are right to 4 %.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, introspect::CustomType)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// Together.
    pub sum_ns: u64,
    /// On the average.
    pub mean_ns: u64,
    /// Half of them were shorter.
    pub p50_ns: u64,
    /// Nine tenths were.
    pub p90_ns: u64,
    /// All but one in a hundred were.
    pub p99_ns: u64,
    /// The longest; what is longer than 64 s counts as that.
    pub max_ns: u64,
    /// How many were shorter than each bound ([`LatencyPage::edges_ns`]) and no shorter than the one before; at last, the rest.
    pub counts: Vec<u64>,
}

/// Why a question is not answered.
#[derive(Debug, Clone, PartialEq, Eq, zlink::ReplyError, introspect::ReplyError)]
#[zlink(interface = "appease.control")]
pub enum ControlError {
    /// The process belongs to somebody else.
    NotPermitted {
        /// The process.
        pid: u32,
    },
    /// There is none.
    NoSuchProcess {
        /// Its id.
        pid: u32,
    },
    /// Only root may change something.
    RootOnly,
    /// What was asked for makes no sense; nothing was changed.
    Refused {
        /// What, why, and what is allowed.
        reason: String,
    },
    /// The daemon could not find out.
    Failed {
        /// Why.
        reason: String,
    },
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPermitted { pid } => {
                write!(f, "process {pid} belongs to another user: ask as root (sudo appease why {pid})")
            }
            Self::NoSuchProcess { pid } => write!(f, "there is no process {pid}: look for it with pgrep or ps"),
            Self::RootOnly => f.write_str("channels are changed by root alone: use sudo"),
            Self::Refused { reason } => f.write_str(reason),
            Self::Failed { reason } => write!(f, "the daemon could not find out: {reason}"),
        }
    }
}

impl std::error::Error for ControlError {}

/// The client's side.
#[zlink::proxy("appease.control")]
pub trait ControlProxy {
    /// The daemon and what it does.
    async fn status(&mut self) -> zlink::Result<Result<Status, ControlError>>;
    /// Why the process runs in its lane.
    async fn why(&mut self, pid: u32) -> zlink::Result<Result<Why, ControlError>>;
    /// The next channels after the one with this id; 0 for the first.
    async fn list_channels(&mut self, after: u32) -> zlink::Result<Result<ChannelPage, ControlError>>;
    /// Adds a channel.
    async fn add_channel(&mut self, channel: &ChannelWords) -> zlink::Result<Result<ChannelRow, ControlError>>;
    /// Removes a channel by its id.
    async fn remove_channel(&mut self, id: u32) -> zlink::Result<Result<ChannelRow, ControlError>>;
    /// Removes a channel by the words that it was added with.
    async fn remove_channel_by_words(
        &mut self,
        channel: &ChannelWords,
    ) -> zlink::Result<Result<ChannelRow, ControlError>>;
    /// Customers with this id and beyond, and what came of their requests.
    async fn latency(&mut self, from: u32) -> zlink::Result<Result<LatencyPage, ControlError>>;
    /// Reads the configuration file anew.
    async fn reload(&mut self) -> zlink::Result<Result<Reloaded, ControlError>>;
}
