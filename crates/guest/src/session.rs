//! One job from beginning to end: the machine is set up once, then there is a round of measuring for each scheduler.

mod apps;
mod figures;
mod parts;
mod players;
mod tasks;
mod visits;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::Command,
    sync::mpsc::{self, Sender},
    thread::JoinHandle,
};

use anyhow::{Context, Result, anyhow, bail};
use appease_scenario::{AppKind, Event, Job, Load, MeterKind, Metric, Outcome, WATCHDOG, scheduler_and_mix};

use self::{parts::Shares, players::Player, tasks::Task, visits::Visited};
use crate::{
    app::Program,
    clock::{self, SECOND, from_seconds, idle_ns, now_ns},
    ending::{Ending, outcome_of},
    far::FarSide,
    host::{self, Host},
    keyboard::Hands,
    load::{self, Competitor},
    meter::{self, Window},
    mix::{self, InForce},
    probe::{Observe, Probe, Seen},
    scheduler::{Kind, Scheduler},
    scope::Scopes,
    screen::{self, Screen},
    spinner::Spinner,
    system,
    trace::{Trace, Traced},
    typist::{self, Crew},
};

/// Realtime priorities: the session must end a measurement on time, typist and visitors must type on time.
const SESSION_PRIORITY: u32 = 20;
const TYPIST_PRIORITY: u32 = 30;
const VISITOR_PRIORITY: u32 = 30;
/// That of session and typist where a mix may have others that are realtime: above all of them.
const ABOVE_MIXES: u32 = 99;
/// How long before the measurement the players begin; a load may have been there for long by then.
const PLAY_BEFORE_NS: u64 = SECOND;
/// How often progress is told and the scheduler looked at.
const TICK_NS: u64 = SECOND;

const SCREEN_MODULES: &[&str] = &["evdev", "uinput"];
const SOUND_MODULES: &[&str] = &["snd-hda-intel", "snd-hda-codec-generic"];
const SOUND_NODE: &str = "/dev/snd/pcmC0D0p";
/// One camera, and nothing else of all that the module can be.
const CAMERA: &[&str] = &["vivid", "n_devs=1", "node_types=0x1", "num_inputs=1", "input_types=0x0", "no_error_inj=1"];
const CAMERA_NODE: &str = "/dev/video0";

type Metrics = BTreeMap<String, Metric>;

/// Carries out the job and tells the host how it ended.
pub fn run() -> Result<()> {
    let mut host = Host::open();
    host.phase("boot");
    match host::read_job() {
        Ok(job) => carry_out(&job, &mut host),
        Err(error) => tell_end(&mut host, Err(error), Metrics::new()),
    }
    Ok(())
}

/// One result for each of the job's schedulers, whatever happens to those before it.
fn carry_out(job: &Job, host: &mut Host) {
    let mut session = match Session::new(job.clone(), host) {
        Ok(session) => session,
        Err(error) => {
            let ending = Ending { outcome: outcome_of(&error), detail: format!("{error:#}") };
            for _ in job.schedulers() {
                tell_end(host, Err(ending.clone().into()), Metrics::new());
            }
            return;
        }
    };
    let mut left = job.schedulers().count();
    for scheduler in job.schedulers() {
        left -= 1;
        let mut metrics = Metrics::new();
        let mut done = Ok(());
        let mut round = Round::default();
        for (turn, scenario) in job.scenario.turns(job.load).into_iter().enumerate() {
            if turn > 0 {
                session.clear_up(std::mem::take(&mut round));
            }
            session.job.scenario = scenario;
            done = session.measure(scheduler, &mut round, &mut metrics);
            if done.is_err() {
                break;
            }
        }
        if done.as_ref().is_err_and(|error| outcome_of(error) == Outcome::Evicted)
            && let Some(watchdog_s) = round.scheduler.as_ref().and_then(Scheduler::watchdog_s)
        {
            metrics.insert(WATCHDOG.to_owned(), Metric::Scalar { value: watchdog_s });
        }
        tell_end(session.host, done, metrics);
        // After the last one the machine is switched off.
        if left > 0 {
            session.clear_up(round);
        }
    }
}

fn tell_end(host: &mut Host, done: Result<()>, metrics: Metrics) {
    let (outcome, detail) = match done {
        Ok(()) => (Outcome::Ok, String::new()),
        Err(error) => (outcome_of(&error), format!("{error:#}")),
    };
    if outcome != Outcome::Ok {
        eprintln!("appease-guest: {outcome:?}: {detail}");
    }
    host.phase("done");
    host.tell(&Event::Result { outcome, detail, metrics, kernel: system::kernel_release() });
}

/// What the machine holds while the job runs.
struct Session<'a> {
    /// With the scenario of this turn.
    job: Job,
    typist_priority: u32,
    host: &'a mut Host,
    scopes: Scopes,
    spinner: Option<Spinner>,
    hands: Option<Hands>,
    server: Option<Program>,
    far: Option<FarSide>,
    apps: BTreeMap<String, Program>,
    windows: BTreeMap<String, Window>,
    players: BTreeMap<String, Player>,
}

/// What is at work under one scheduler beside the applications.
#[derive(Default)]
struct Round {
    scheduler: Option<Scheduler>,
    competitor: Option<Competitor>,
    mix: Option<InForce>,
    /// Outlives the mix: to detach waits for threads of the kernel, which beneath realtime programs may never run.
    probe: Option<Probe>,
    actors: Actors,
}

/// Who acts of their own accord, and comes to an end.
#[derive(Default)]
struct Actors {
    typing: Option<JoinHandle<Result<typist::Log>>>,
    visiting: Option<JoinHandle<Result<Visited>>>,
}

impl Actors {
    fn are_there(&self) -> bool {
        self.typing.is_some() || self.visiting.is_some()
    }

    fn are_done(&self) -> bool {
        self.typing.as_ref().is_none_or(JoinHandle::is_finished)
            && self.visiting.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl<'a> Session<'a> {
    fn new(job: Job, host: &'a mut Host) -> Result<Self> {
        let kind = Kind::parse(&job.scheduler)?;
        let mixed = job.schedulers().any(|scheduler| scheduler_and_mix(scheduler).1.is_some());
        let (own, typists) = if mixed { (ABOVE_MIXES, ABOVE_MIXES) } else { (SESSION_PRIORITY, TYPIST_PRIORITY) };
        set_realtime(rustix::process::getpid().as_raw_nonzero().get(), own)?;
        system::tune();
        let mut session = Self {
            scopes: if job.machine.layout.is_flat() { kind.scopes()? } else { Scopes::each_its_own()? },
            spinner: Some(Spinner::start(job.machine.mode)?),
            typist_priority: typists,
            job,
            host,
            hands: None,
            server: None,
            far: None,
            apps: BTreeMap::new(),
            windows: BTreeMap::new(),
            players: BTreeMap::new(),
        };
        if session.job.scenario.sound {
            system::load_modules(SOUND_MODULES)?;
            system::wait_for_path(SOUND_NODE, 20)?;
        }
        if session.needs_screen() {
            session.start_screen()?;
        }
        session.start_far_side()?;
        Ok(session)
    }

    /// Measures under one scheduler.
    fn measure(&mut self, scheduler: &str, round: &mut Round, metrics: &mut Metrics) -> Result<()> {
        let (_, mix) = scheduler_and_mix(scheduler);
        let mix = mix.map(|name| self.job.scenario.mix(name).cloned()).transpose().map_err(anyhow::Error::msg)?;
        let tasks = self.tasks();
        self.start_apps(&tasks)?;
        load::prepare(self.job.load, self.starter())?;
        // As on a machine that starts its scheduler at boot: before anybody types.
        let config = self.job.scenario.config.as_deref();
        let scheduler = round.scheduler.insert(Scheduler::start_with(Kind::parse(scheduler)?, config)?);
        scheduler.add_channels(&self.job.scenario.channels)?;
        if self.needs_screen() {
            scheduler.serve_display()?;
        }
        self.host.phase("scheduler-ready");
        let mut crew = self.crew()?;
        let visitors = self.visitors()?;
        self.warm_up_players()?;
        self.warm_up_tasks(&tasks)?;

        self.spinner = None;
        round.probe = self.probe(&tasks)?;
        round.competitor = self.start_load(round.probe.as_ref(), crew.as_mut())?;
        // Ready before there is a mix that it could have to wait for.
        let typist = crew.map(|crew| Typist::start(crew, self.typist_priority)).transpose()?;
        round.mix = mix.map(|mix| mix::apply(&mix, &self.roots(&mix))).transpose()?;
        self.host.phase("load-ready");
        let settled_ns = now_ns() + from_seconds(self.job.scenario.settle_s);
        clock::sleep_until(settled_ns.saturating_sub(PLAY_BEFORE_NS));
        self.play()?;
        clock::sleep_until(settled_ns);
        scheduler.must_be_in_charge()?;
        let lanes_before = self.lanes(scheduler)?;
        // Policy rsio knows no requests.
        let requests_before = if scheduler.is_ours() { figures::Requests::so_far().ok() } else { None };

        let trace = self.job.trace.then(Trace::begin).transpose()?;
        let begin_ns = match &mut round.probe {
            Some(probe) => probe.begin()?,
            None => now_ns(),
        };
        let spent = Shares::begin(self);
        self.open_gates()?;
        self.host.phase("measuring");
        let limit_ns = begin_ns + from_seconds(self.job.scenario.duration_s);
        let actors = &mut round.actors;
        actors.typing = typist.map(|typist| typist.go(begin_ns, limit_ns));
        let visits = visitors.map(|visitors| self.start_visits(visitors, scheduler, begin_ns, limit_ns));
        actors.visiting = visits.transpose()?;
        let mut findings = Vec::new();
        self.run_tasks(&tasks, limit_ns, scheduler, metrics, &mut findings)?;
        // Typing that goes on beneath another scheduler says nothing.
        self.watch(actors, &tasks, begin_ns, limit_ns, scheduler)?;
        let log = actors.typing.take().map(joined).transpose()?;
        let visited = actors.visiting.take().map(joined).transpose()?;
        let end_ns = now_ns();
        let traced = trace.map(Trace::end).transpose()?;
        // First what the loops have done: to read what the probe saw takes a while, in which they go on.
        self.add_loops(metrics, &mut findings);
        spent.add_to(self, metrics);
        let seen = round.probe.as_ref().map(Probe::read).transpose()?;
        round.mix.take().map_or(Ok(()), InForce::end)?;
        scheduler.must_be_in_charge()?;
        round.competitor.as_mut().map_or(Ok(()), Competitor::must_still_run)?;
        let servers = self.server.iter_mut().chain(self.far.as_mut().map(FarSide::server_mut));
        for app in self.apps.values_mut().chain(servers) {
            app.must_run()?;
        }
        self.add_lanes(scheduler, lanes_before.as_ref(), metrics)?;
        if scheduler.is_ours() {
            let let_go = log.as_ref().map_or(0, |log| log.presses.len());
            figures::add_requests(metrics, requests_before, let_go)
                .unwrap_or_else(|error| eprintln!("no figures of requests: {error:#}"));
        }

        if let Some(visited) = visited {
            self.add_visits(&visited, metrics, &mut findings);
        }
        if let Some(seen) = seen {
            if let Some(traced) = traced {
                self.tell_trace(&traced, &seen, log.as_ref(), end_ns);
            }
            self.add_screen(&seen, log.as_ref(), begin_ns, end_ns, metrics, &mut findings);
            if let Some(sched) = &seen.sched {
                figures::add_sched(sched, &self.job, end_ns - begin_ns, metrics);
            }
        }
        if !scheduler.log_tail().is_empty() {
            eprintln!("scheduler's log:\n{}", scheduler.log_tail());
        }
        conclude(findings)
    }

    /// Leaves the machine as it was before the round: nothing of it may weigh on the next scheduler.
    fn clear_up(&mut self, round: Round) {
        self.spinner = Spinner::start(self.job.machine.mode).ok();
        if let Some(Err(error)) = round.mix.map(InForce::end) {
            eprintln!("the mix stays: {error:#}");
        }
        drop(round.probe);
        if let Some(competitor) = round.competitor {
            competitor.stop();
        }
        if let Some(scheduler) = round.scheduler {
            scheduler.stop();
        }
        // Why they failed is told already.
        let _ = round.actors.typing.map(joined);
        let _ = round.actors.visiting.map(joined);
        for mut app in std::mem::take(&mut self.apps).into_values() {
            app.kill();
        }
        self.windows.clear();
        self.players.clear();
    }

    /// What the CPUs did while keys were answered.
    fn tell_trace(&mut self, traced: &Traced, seen: &Seen, log: Option<&typist::Log>, end_ns: u64) {
        let presses = meter::presses(&seen.records);
        let mut texts = Vec::new();
        for meter in &self.job.scenario.meters {
            let spans_of = match meter.kind {
                MeterKind::KeyToScreen => meter::echo_spans,
                MeterKind::Command => meter::output_spans,
                _ => continue,
            };
            let Some(window) = self.windows.get(&meter.app) else { continue };
            let waits = self.waits(&meter.app, log, &presses, end_ns);
            let (spans, _) = spans_of(&seen.records, window, &waits);
            texts.push(traced.told(&meter.app, &spans));
        }
        for text in texts {
            self.host.tell(&Event::Trace { text });
        }
    }

    fn needs_screen(&self) -> bool {
        self.job.scenario.apps.iter().any(|app| app.kind.needs_screen())
    }

    fn plays(&self) -> bool {
        !self.players.is_empty()
    }

    fn start_screen(&mut self) -> Result<()> {
        let apps = &self.job.scenario.apps;
        let with_sound = apps.iter().any(|app| app.kind.player().is_some());
        let with_camera = apps.iter().any(|app| matches!(app.kind, AppKind::Capture(_)));
        let mut modules = vec![screen::card_module()];
        modules.extend(SCREEN_MODULES);
        if with_sound {
            modules.extend(SOUND_MODULES);
        }
        system::load_modules(&modules)?;
        if with_camera {
            system::load_module(CAMERA)?;
        }
        self.host.phase("modules");
        system::wait_for_path("/dev/uinput", 10)?;
        let hands = Hands::new(screen::WIDTH, screen::HEIGHT)?;
        system::start_udev()?;
        let mut devices = hands.sys_paths()?;
        system::wait_for_path("/dev/dri/card0", 20)?;
        devices.push(PathBuf::from("/sys/class/drm/card0"));
        system::announce(&devices)?;
        self.host.phase("udev");
        self.server = Some(screen::start_server(self.scopes)?);
        let screen = Screen::connect()?;
        screen.wait_for_pointer(|at| hands.point(at))?;
        self.host.phase("xorg-ready");
        if with_sound {
            system::wait_for_path(SOUND_NODE, 20)?;
        }
        if with_camera {
            system::wait_for_path(CAMERA_NODE, 20)?;
        }
        self.hands = Some(hands);
        Ok(())
    }

    fn crew(&self) -> Result<Option<Crew>> {
        let typists = &self.job.scenario.typists;
        let Some(hands) = self.hands.clone().filter(|_| !typists.is_empty()) else { return Ok(None) };
        let windows: Vec<Window> = typists.iter().filter_map(|spec| self.windows.get(&spec.into).copied()).collect();
        let mut crew = Crew::new(hands, typists, &windows)?;
        // Shells and terminals shall have come to rest before something is typed.
        clock::sleep_ms(300);
        crew.type_preludes()?;
        wait_for_rest(self.job.machine.cpus);
        Ok(Some(crew))
    }

    /// The meter, unless nothing but the cost of work is wanted: then nothing may add to it.
    fn probe(&self, tasks: &[Task]) -> Result<Option<Probe>> {
        let screen = self.needs_screen();
        let visited = self.far.is_some();
        let sched = screen
            || visited
            || self.job.load != Load::None
            || !self.job.scenario.parts.is_empty()
            || tasks.iter().all(|task| !task.works) && !tasks.is_empty();
        if !screen && !sched {
            return Ok(None);
        }
        let requests = self.job.scenario.meters.iter().any(|meter| meter.kind == MeterKind::Reload);
        Probe::attach(Observe { screen, requests, sched, cpus: self.job.machine.cpus }).map(Some)
    }

    /// Starts what competes: unseen, or in the terminal that the scenario names for it.
    fn start_load(&self, probe: Option<&Probe>, crew: Option<&mut Crew>) -> Result<Option<Competitor>> {
        let Some(id) = &self.job.scenario.load_in else {
            return load::start(self.job.load, self.starter(), probe);
        };
        let (Some(terminal), Some(window), Some(crew)) = (self.apps.get(id), self.windows.get(id), crew) else {
            bail!("nobody can type the load into \"{id}\"");
        };
        load::start_typed(self.job.load, terminal, probe, |line| crew.type_line(*window, line))
    }

    /// Waits for the end of the measured part, keeping an eye on the scheduler.
    fn watch(
        &mut self,
        actors: &Actors,
        tasks: &[Task],
        begin_ns: u64,
        limit_ns: u64,
        scheduler: &mut Scheduler,
    ) -> Result<()> {
        // A player and a load have no end of their own; typists, visitors and tasks have.
        let plays = self.plays();
        let mut picture_due = self.job.screenshot;
        loop {
            scheduler.must_be_in_charge()?;
            let now = now_ns();
            let done = actors.are_done();
            let has_actors = actors.are_there() || !tasks.is_empty();
            if now >= limit_ns && done || has_actors && done && !plays {
                return Ok(());
            }
            #[allow(clippy::cast_precision_loss)]
            let fraction = (now - begin_ns) as f64 / (limit_ns - begin_ns).max(1) as f64;
            self.host.tell(&Event::Progress { fraction: fraction.min(1.0) });
            if picture_due && fraction >= 0.5 {
                picture_due = false;
                self.host.tell(&Event::Screenshot);
            }
            let next_ns = if now < limit_ns { limit_ns.min(now + TICK_NS) } else { now + TICK_NS / 20 };
            clock::sleep_until(next_ns);
        }
    }
}

/// One ending of all that was found wrong; the worst outcome names it.
fn conclude(findings: Vec<anyhow::Error>) -> Result<()> {
    if findings.is_empty() {
        return Ok(());
    }
    let failed = findings.iter().any(|finding| outcome_of(finding) == Outcome::Failed);
    let outcome = if failed { Outcome::Failed } else { Outcome::Stalled };
    let detail = findings.iter().map(|finding| format!("{finding:#}")).collect::<Vec<_>>().join("\n");
    Err(Ending { outcome, detail }.into())
}

/// Lets the machine finish what was typed ahead; an application that never rests is not waited for long.
fn wait_for_rest(cpus: u32) {
    const LOOK_MS: u64 = 100;
    const AT_MOST: u32 = 20;
    for _ in 0..AT_MOST {
        let before = idle_ns();
        clock::sleep_ms(LOOK_MS);
        if idle_ns() - before >= u64::from(cpus) * LOOK_MS * clock::MS * 9 / 10 {
            return;
        }
    }
}

/// The typist's thread, which waits for the word to begin.
struct Typist {
    thread: JoinHandle<Result<typist::Log>>,
    word: Sender<(u64, u64)>,
}

impl Typist {
    /// Starts it, and waits until it is realtime.
    fn start(crew: Crew, priority: u32) -> Result<Self> {
        let (word, begins) = mpsc::channel();
        let (ready, is_ready) = mpsc::channel();
        let thread = std::thread::Builder::new().name("typist".into()).spawn(move || {
            set_realtime(rustix::thread::gettid().as_raw_nonzero().get(), priority)?;
            let _ = ready.send(());
            // Without a word there is no measurement.
            begins
                .recv()
                .map_or_else(|_| Ok(typist::Log::default()), |(begin_ns, end_ns)| crew.perform(begin_ns, end_ns))
        });
        let typist = Self { thread: thread.context("start the typist")?, word };
        match is_ready.recv() {
            Ok(()) => Ok(typist),
            Err(_) => joined(typist.thread).and_then(|_| bail!("the typist ended before it began")),
        }
    }

    fn go(self, begin_ns: u64, end_ns: u64) -> JoinHandle<Result<typist::Log>> {
        // Should it have ended, whoever joins it hears why.
        let _ = self.word.send((begin_ns, end_ns));
        self.thread
    }
}

fn joined<T>(actor: JoinHandle<Result<T>>) -> Result<T> {
    let name = actor.thread().name().unwrap_or_default().to_owned();
    actor.join().map_err(|_| anyhow!("the thread {name} failed"))?
}

/// SCHED_FIFO for one thread; what it starts is normal again.
pub fn set_realtime(tid: i32, priority: u32) -> Result<()> {
    let out = Command::new("chrt")
        .args(["--reset-on-fork", "--fifo", "--pid", &priority.to_string(), &tid.to_string()])
        .output()
        .context("start chrt")?;
    if !out.status.success() {
        bail!("chrt: {}", String::from_utf8_lossy(&out.stderr).trim());
    }
    Ok(())
}
