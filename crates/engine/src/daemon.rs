//! The daemon's life: lock, load, attach, serve, and the ways in which that ends.

mod channels;
mod customers;

use std::{
    cell::{Cell, RefCell},
    future::Future,
    os::fd::{BorrowedFd, OwnedFd},
    rc::Rc,
    time::Duration,
};

use tokio::{
    io::{Interest, unix::AsyncFd},
    runtime,
    sync::{Notify, mpsc},
    task::LocalSet,
    time,
};
use tracing::{info, warn};

use crate::{
    Error,
    channel::{
        Channels,
        config::{self as channel_config, Requests},
        hosts::{Answer as HostAnswer, Passing},
    },
    config::{BackendKind, Config},
    control::{
        Answer, ChannelPage, ChannelRow, ChannelWords, Command, ControlError, Counter, LaneNs, LatencyPage, Listener,
        Missing, Peer, Reloaded, Reports, Status, Why,
    },
    customer::Weights,
    doctor, ejections, latency,
    lock::Lock,
    names::Names,
    report::Reporter,
    reserve,
    seams::Slot,
    seams::{
        Backend, BpfError, Customer, Eyes, Machine, Platform, Policy, Process, SenseOptions, Witness, features::Goal,
    },
    shutdown::{Hangups, Signals},
};

/// How soon an ejection is noticed.
const EXIT_POLL: Duration = Duration::from_millis(250);
/// What is due within so short a time is done together.
const LEAST_ACT: Duration = Duration::from_millis(5);
/// How soon the hooks of a new module are attached, and a node that came back is a channel again.
const WORLD_POLL: Duration = Duration::from_secs(1);

/// Runs the daemon on this machine until SIGINT or SIGTERM. SIGHUP has it read its configuration anew.
///
/// # Errors
/// When it cannot start, or the kernel ejects the scheduler.
pub fn run(config: &Config) -> Result<(), Error> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| Error::Runtime { what: "setting up the event loop", source })?;
    runtime.block_on(async {
        let (mut signals, mut hangups) = (Signals::register()?, Hangups::register()?);
        let stop = async move { info!("{} received: detaching", signals.next().await) };
        let reload = Notify::new();
        let forward = async {
            loop {
                hangups.next().await;
                reload.notify_one();
            }
        };
        tokio::select! {
            outcome = serve(config, &Machine, stop, &reload) => outcome,
            never = forward => never,
        }
    })
}

/// Runs the daemon on `platform` until `stop` completes; `reload` has it read its configuration anew.
pub(crate) async fn serve<P>(
    config: &Config,
    platform: &P,
    stop: impl Future<Output = ()>,
    reload: &Notify,
) -> Result<(), Error>
where
    P: Platform + Clone + 'static,
{
    let file = channel_config::read(config.file.as_deref())?;
    let requests = file.requests;
    let may_renice =
        config.backend == BackendKind::Auto && config.sense.policy != Policy::Steady && !config.sched.partial;
    let config = &customers::with_requests(choose_backend(config, platform), requests);
    let kernel =
        rule_out_obstacles(platform, config.backend, |error| !matches!(error, BpfError::OtherScheduler { .. }))?;
    // The other scheduler might be our own, and then the lock has the better message.
    Lock::refuse_if_held(&config.run_dir)?;
    rule_out_obstacles(platform, config.backend, |_| true)?;
    let _lock = Lock::take(&config.run_dir)?;
    platform.recover(&config.run_dir)?;
    let forgotten = ejections::begin(&config.run_dir, platform.now_ns());
    if forgotten > 0 {
        info!("the kernel ejected the scheduler {forgotten} times before, and it was started by hand: counting anew");
    }
    doctor::competitors(&Names::new(&config.root)).iter().for_each(|finding| warn!("{finding}"));

    // What can be known without the kernel's programs, before they are loaded.
    channels::check(config, &file)?;
    let listener = Listener::bind(&Config::socket(&config.run_dir))?;
    let (config, mut eyes, backend) = begin(config, platform, may_renice)?;
    report_missing(&eyes);
    let (channels, weights) = channels::start(&config, file, &mut eyes)?;
    let (passing, answers) = Passing::new(platform.lookup(&config));
    let is_partial = config.sched.partial;
    let _reserve =
        (config.backend == BackendKind::Scx).then(|| reserve::hold(&config.root, &config.run_dir, is_partial));
    let daemon = Rc::new(Daemon {
        config: config.clone(),
        kernel,
        platform: platform.clone(),
        started_ns: platform.now_ns(),
        names: Names::new(&config.root),
        live: RefCell::new(Live { eyes, backend: Some(backend), restarts: 0 }),
        channels: RefCell::new(channels),
        passing: RefCell::new(passing),
        requests,
        weights: RefCell::new(weights),
        seat_user: Cell::new(None),
        told_lanes: Cell::new(None),
    });
    info!("ready: policy {} on backend {}, kernel {}", config.sense.policy, config.backend.name(), daemon.kernel);
    // Nobody to notify is as good.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);

    let local = LocalSet::new();
    let reports: Rc<dyn Reports> = Rc::clone(&daemon) as Rc<dyn Reports>;
    let outcome = local
        .run_until(async {
            tokio::select! {
                () = stop => Ok(()),
                error = daemon.watch(answers, reload) => Err(error),
                never = listener.serve(reports) => match never {},
            }
        })
        .await;
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    // Detach first: connections that are still served may hold the daemon.
    daemon.live.borrow_mut().backend = None;
    drop(local);
    outcome
}

/// The same configuration with the backend that acts in the end.
fn choose_backend<P: Platform>(config: &Config, platform: &P) -> Config {
    let features = platform.features();
    let backend = config.backend.choose(config.sense.policy, &features);
    if config.backend == BackendKind::Auto && backend == BackendKind::Nice && config.sense.policy != Policy::Rbpe {
        let why = features.obstacles(Goal::Schedule).first().map_or_else(String::new, ToString::to_string);
        info!("acting by nice values, as this kernel loads no sched_ext scheduler: {why}");
    }
    with_backend(config, backend)
}

fn with_backend(config: &Config, backend: BackendKind) -> Config {
    let tells = backend == BackendKind::Nice;
    Config { backend, sense: SenseOptions { tells, ..config.sense.clone() }, ..config.clone() }
}

/// Loads the kernel's programs. A kernel that has sched_ext may refuse the scheduler all the same, which only trying shows: then nice values
/// are the best that it offers, if whoever started the daemon wants that.
fn begin<P: Platform>(config: &Config, platform: &P, may_renice: bool) -> Result<(Config, P::Eyes, P::Backend), Error> {
    let of = |config: Config| {
        let eyes = platform.sense(&config.sense)?;
        let backend = platform.attach(&eyes, &config)?;
        Ok::<_, BpfError>((config, eyes, backend))
    };
    match of(config.clone()) {
        Err(refusal @ BpfError::SchedulerRefused { .. }) if may_renice => {
            rule_out_obstacles(platform, BackendKind::Nice, |_| true)?;
            warn!("{refusal}; until then the daemon acts by nice values");
            Ok(of(with_backend(config, BackendKind::Nice))?)
        }
        begun => Ok(begun?),
    }
}

/// Fails with the first obstacle to the backend that is `relevant`; else the kernel's release.
fn rule_out_obstacles<P: Platform>(
    platform: &P,
    backend: BackendKind,
    relevant: impl Fn(&BpfError) -> bool,
) -> Result<String, Error> {
    let features = platform.features();
    match features.obstacles(backend.goal()).into_iter().find(relevant) {
        Some(obstacle) => Err(obstacle.into()),
        None => Ok(features.kernel),
    }
}

/// One line for each thing that a module may yet bring, and one for all that is lost for good.
fn report_missing(eyes: &impl Eyes) {
    let (mut waits, mut lost, mut why) = (Vec::new(), Vec::new(), Vec::new());
    for missing in eyes.missing() {
        if let (None, Some(module)) = (&missing.refused, missing.module) {
            if !waits.contains(&missing.lost) {
                waits.push(missing.lost);
                info!("waiting for module {module}: {}", missing.lost);
            }
            continue;
        }
        let reason = missing.refused.map_or_else(|| "not in this kernel".into(), |reason| format!("refused: {reason}"));
        if !lost.contains(&missing.lost) {
            lost.push(missing.lost);
        }
        if !why.contains(&reason) {
            why.push(reason);
        }
    }
    if !lost.is_empty() {
        warn!("hooks left out ({}): {}; \"appease doctor\" names each", why.join("; "), lost.join("; "));
    }
}

/// The running daemon.
struct Daemon<P: Platform> {
    config: Config,
    kernel: String,
    platform: P,
    started_ns: u64,
    names: Names,
    live: RefCell<Live<P>>,
    channels: RefCell<Channels>,
    passing: RefCell<Passing>,
    /// As they were at the start.
    requests: Requests,
    weights: RefCell<Weights>,
    /// As the eyes know it.
    seat_user: Cell<Option<u32>>,
    /// What others than root were told of the lanes, and when.
    told_lanes: Cell<Option<(u64, LaneNs)>>,
}

/// What holds the kernel. Borrowed between awaits only.
struct Live<P: Platform> {
    eyes: P::Eyes,
    /// Nothing while it is attached anew, and in the end.
    backend: Option<P::Backend>,
    restarts: u64,
}

/// Attended processes in one answer. It is written anew for each 256 bytes by which its buffer grows.
const ATTENDED_TOLD: usize = 256;

/// So long others than root are told the same of the lanes, and in whole seconds. Keys of a minute take a tenth of a second.
const LANES_TOLD_NS: u64 = 60 * NS_PER_S;
const NS_PER_S: u64 = 1_000_000_000;

impl<P: Platform> Daemon<P> {
    /// What others than root are told of the lanes: CPU time of what is served tells when somebody types, so it is told in coarse steps.
    fn told_lanes(&self, lanes: LaneNs) -> LaneNs {
        let now_ns = self.platform.now_ns();
        if let Some((at_ns, told)) = self.told_lanes.get()
            && now_ns.saturating_sub(at_ns) < LANES_TOLD_NS
        {
            return told;
        }
        let told = lanes.in_steps_of(NS_PER_S);
        self.told_lanes.set(Some((now_ns, told)));
        told
    }

    /// Keeps the eyes and the backend going until the kernel ejects the latter.
    async fn watch(&self, mut answers: mpsc::UnboundedReceiver<HostAnswer>, reload: &Notify) -> Error {
        let mut exit = time::interval(EXIT_POLL);
        let mut world = time::interval(WORLD_POLL);
        let mut stats = self.config.stats.map(time::interval);
        let news = match watch_news(self.live.borrow().eyes.news_fd()) {
            Ok(news) => news,
            Err(source) => return Error::Runtime { what: "watching the ring of news", source },
        };
        let mut act_at = None;
        loop {
            tokio::select! {
                () = told(news.as_ref()) => act_at = self.act(),
                () = sleep_until(act_at) => act_at = self.act(),
                _ = exit.tick() => if let Err(error) = self.restart_if_asked() {
                    return error;
                },
                _ = world.tick() => {
                    self.follow_channels();
                    self.follow_customers();
                    // After that, which may need other hooks.
                    self.look_after_eyes();
                    act_at = self.act();
                    // All that is done once a second was done. A unit's watchdog waits for that; without one nobody hears it.
                    let _ = sd_notify::notify(&[sd_notify::NotifyState::Watchdog]);
                }
                Some(answer) = answers.recv() => self.learn(answer),
                () = reload.notified() => drop(self.reload_file()),
                () = tick(&mut stats) => self.print_stats(),
            }
        }
    }

    /// Attaches the scheduler anew if the kernel has detached it and wants that (a CPU came or went).
    fn restart_if_asked(&self) -> Result<(), Error> {
        let mut live = self.live.borrow_mut();
        let Some(exit) = live.backend.as_ref().and_then(Backend::exit) else {
            return Ok(());
        };
        live.backend = None;
        if !exit.restart {
            let reason = exit.reason.strip_prefix("EXIT: ").unwrap_or(&exit.reason).to_owned();
            let noted = ejections::note(&self.config.run_dir, self.platform.now_ns(), &reason);
            let all = noted.inspect_err(|error| warn!("an ejection is not on record: {error}")).unwrap_or_default();
            return Err(if ejections::are_too_many(&all) {
                Error::EjectedTooOften { reason }
            } else {
                Error::Ejected { reason }
            });
        }
        let backend = self.platform.attach(&live.eyes, &self.config)?;
        live.backend = Some(backend);
        live.restarts += 1;
        info!("the kernel let go of the scheduler and asked for it again ({}): attached anew", exit.reason);
        Ok(())
    }

    /// Lets the backend act; when it wants to again.
    fn act(&self) -> Option<time::Instant> {
        let live = &mut *self.live.borrow_mut();
        let now_ns = self.platform.now_ns();
        let again_ns = live.backend.as_mut()?.act(&mut live.eyes, now_ns)?;
        let wait = Duration::from_nanos(again_ns.saturating_sub(now_ns)).max(LEAST_ACT);
        Some(time::Instant::now() + wait)
    }

    fn look_after_eyes(&self) {
        let mut live = self.live.borrow_mut();
        let hooks = live.eyes.attach_new_modules();
        if !hooks.is_empty() {
            info!("a module arrived: attached to {}", hooks.join(", "));
        }
        if let Err(error) = live.eyes.stand_down() {
            warn!("{error}; hooks and wake-ups cost a little also when nobody is served");
        }
    }

    /// One line on standard output, for people and logs.
    fn print_stats(&self) {
        let live = self.live.borrow();
        let Some(Ok(lanes)) = live.backend.as_ref().map(Backend::lanes) else {
            return;
        };
        let lanes = LaneNs::from(lanes);
        let total = lanes.total().max(1);
        let shares =
            lanes.by_name().map(|(name, ns)| format!("{name} {}.{} %", ns * 100 / total, ns * 1000 / total % 10));
        println!("lanes: {}", shares.join(", "));
    }

    fn reporter<'a>(&'a self, customers: &'a [Customer]) -> Reporter<'a> {
        let partial = self.config.sched.partial;
        Reporter { now_ns: self.platform.now_ns(), names: &self.names, partial, customers }
    }
}

/// Something that becomes readable with news. What is deprecated is safe with an `OwnedFd`, which is the same descriptor for as
/// long as it lives; its successor is an unsafe function, and there is none of those here.
#[allow(deprecated)]
fn watch_news(fd: Option<BorrowedFd<'_>>) -> std::io::Result<Option<AsyncFd<OwnedFd>>> {
    let watch = |fd: BorrowedFd<'_>| AsyncFd::with_interest(fd.try_clone_to_owned()?, Interest::READABLE);
    fd.map(watch).transpose()
}

/// Waits for news; they are read by whoever acts then, all of them.
async fn told(news: Option<&AsyncFd<OwnedFd>>) {
    match news {
        Some(news) => {
            if let Ok(mut ready) = news.readable().await {
                ready.clear_ready();
            }
        }
        None => std::future::pending().await,
    }
}

async fn sleep_until(at: Option<time::Instant>) {
    match at {
        Some(at) => time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

async fn tick(interval: &mut Option<time::Interval>) {
    match interval {
        Some(interval) => {
            interval.tick().await;
        }
        None => std::future::pending().await,
    }
}

impl<P: Platform> Reports for Daemon<P> {
    fn status(&self, peer: Peer) -> Result<Status, ControlError> {
        let live = self.live.borrow();
        let backend = live.backend.as_ref().ok_or_else(between)?;
        let visible = |pid: &u32| peer.uid == 0 || self.names.identity(*pid).is_some_and(|id| peer.may_see(id.uid));
        // A process may end between listing and looking.
        let processes: Vec<Process> =
            self.names.pids().into_iter().filter(visible).filter_map(|pid| live.eyes.process(pid).ok()?).collect();
        // What is counted tells when somebody types.
        let mut counters = Vec::new();
        if peer.uid == 0 {
            counters = live.eyes.counters().map_err(failed)?;
            counters.extend(backend.counters().map_err(failed)?);
        }
        let commands = if peer.uid == 0 { backend.commands().map_err(failed)? } else { Default::default() };
        let mut commands: Vec<Command> =
            commands.into_iter().map(|(comm, times)| Command { comm, lane_ns: times.into() }).collect();
        commands.sort_by_key(|command| std::cmp::Reverse(command.lane_ns.total()));
        let customers = live.eyes.customers().map_err(failed)?;
        let reporter = self.reporter(&customers);
        let attended = reporter.attended(&processes);
        let requests = if self.config.sense.policy.has_requests() {
            let mut open = live.eyes.open_requests().map_err(failed)?;
            if peer.uid != 0 {
                let own = customers.iter().filter(|customer| peer.may_see(latency::owner(customer.id)));
                latency::keep_open(&mut open, own);
            }
            Some(latency::totals(&open, self.platform.now_ns()))
        } else {
            None
        };
        let lanes = backend.lanes().map_err(failed)?.into();
        Ok(Status {
            version: env!("CARGO_PKG_VERSION").into(),
            kernel: self.kernel.clone(),
            backend: self.config.backend.name().into(),
            policy: self.config.sense.policy.to_string(),
            pid: std::process::id(),
            uptime_ms: reporter.now_ns.saturating_sub(self.started_ns) / 1_000_000,
            restarts: live.restarts,
            restricted: peer.uid != 0,
            missing: live.eyes.missing().into_iter().map(Missing::from).collect(),
            lanes: if peer.uid == 0 { lanes } else { self.told_lanes(lanes) },
            counters: counters.into_iter().map(|(name, value)| Counter { name: name.into(), value }).collect(),
            attended_left_out: attended.len().saturating_sub(ATTENDED_TOLD) as u64,
            attended: attended.into_iter().take(ATTENDED_TOLD).collect(),
            commands,
            requests,
        })
    }

    fn why(&self, peer: Peer, pid: u32) -> Result<Why, ControlError> {
        let identity = self.names.identity(pid).ok_or(ControlError::NoSuchProcess { pid })?;
        if !peer.may_see(identity.uid) {
            return Err(ControlError::NotPermitted { pid });
        }
        let live = self.live.borrow();
        let backend = live.backend.as_ref().ok_or_else(between)?;
        let looked =
            live.eyes.process(identity.tgid).and_then(|process| Ok((process, backend.process_lanes(identity.tgid)?)));
        match looked {
            Ok((process, lane_ns)) => {
                let customers = live.eyes.customers().map_err(failed)?;
                Ok(self.reporter(&customers).why(identity.tgid, process.as_ref(), lane_ns))
            }
            Err(BpfError::NoSuchProcess(_)) => Err(ControlError::NoSuchProcess { pid }),
            Err(error) => Err(failed(error)),
        }
    }

    fn list_channels(&self, peer: Peer, after: Slot) -> Result<ChannelPage, ControlError> {
        self.page(peer, after)
    }

    fn add_channel(&self, peer: Peer, channel: ChannelWords) -> Answer<'_, ChannelRow> {
        self.add(peer, channel)
    }

    fn remove_channel(&self, peer: Peer, id: Slot) -> Result<ChannelRow, ControlError> {
        self.remove(peer, id)
    }

    fn remove_channel_by_words(&self, peer: Peer, channel: &ChannelWords) -> Result<ChannelRow, ControlError> {
        self.remove_words(peer, channel)
    }

    fn latency(&self, peer: Peer, from: u32) -> Result<LatencyPage, ControlError> {
        self.latency_page(peer, from)
    }

    fn reload(&self, peer: Peer) -> Result<Reloaded, ControlError> {
        peer.must_be_root()?;
        self.reload_file().map_err(|refusal| ControlError::Refused { reason: refusal.to_string() })
    }
}

fn failed(error: BpfError) -> ControlError {
    ControlError::Failed { reason: error.to_string() }
}

fn between() -> ControlError {
    ControlError::Failed { reason: "the scheduler is being detached or attached anew: ask again".into() }
}

#[cfg(test)]
mod tests;
