//! One job from beginning to end.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    thread::JoinHandle,
};

use anyhow::{Context, Result, anyhow, bail};
use appease_scenario::{AppKind, Event, Job, Load, MeterKind, Metric, Outcome, Summary};

use crate::{
    app::{Launch, Program},
    check::Checks,
    clock::{self, Deadline, SECOND, from_seconds, idle_ns, now_ns, to_ms},
    ending::{Ending, outcome_of, stalled},
    events::Happening,
    host::{self, Host},
    keyboard::Hands,
    load,
    meter::{self, Answer, Window},
    probe::{Observe, Probe, Sched, Seen},
    scheduler::{Kind, Scheduler, lane_time},
    scope::Scopes,
    screen::{self, Screen},
    spinner::Spinner,
    system::{self, RUN_DIR, TOOLS},
    typist::{self, Crew},
};

/// Realtime priorities: the session must end a measurement on time, the typist must type on time.
const SESSION_PRIORITY: u32 = 20;
const TYPIST_PRIORITY: u32 = 30;
/// How often progress is told and the scheduler looked at.
const TICK_NS: u64 = SECOND;

const SCREEN_MODULES: &[&str] = &["bochs", "evdev", "uinput"];
const SOUND_MODULES: &[&str] = &["snd-hda-intel", "snd-hda-codec-generic"];

/// Frames after which a player's sound and picture go together.
const WARM_FRAMES: u64 = 40;
const PLAYER_LIMIT_S: u64 = 60;
const TASK_WARM_LIMIT_S: u64 = 600;

type Metrics = BTreeMap<String, Metric>;

/// Carries out the job and tells the host how it ended.
pub fn run() -> Result<()> {
    let mut host = Host::open();
    host.phase("boot");
    let mut metrics = Metrics::new();
    let done =
        host::read_job().and_then(|job| Session::new(job, &mut host).and_then(|session| session.run(&mut metrics)));
    let (outcome, detail) = match done {
        Ok(()) => (Outcome::Ok, String::new()),
        Err(error) => (outcome_of(&error), format!("{error:#}")),
    };
    if outcome != Outcome::Ok {
        eprintln!("appease-guest: {outcome:?}: {detail}");
    }
    host.phase("done");
    host.tell(&Event::Result { outcome, detail, metrics, kernel: system::kernel_release() });
    Ok(())
}

/// What the machine holds while the job runs.
struct Session<'a> {
    job: Job,
    host: &'a mut Host,
    scopes: Scopes,
    kind: Kind,
    hands: Option<Hands>,
    server: Option<Program>,
    apps: BTreeMap<String, Program>,
    windows: BTreeMap<String, Window>,
    player_commands: BTreeMap<String, File>,
    /// Frames that players had dropped when they were let play on.
    dropped_before: BTreeMap<String, u64>,
}

/// A shell application that is measured by its run: started when all else is there.
struct Task {
    id: String,
    run: String,
    works: bool,
    checks: bool,
}

impl<'a> Session<'a> {
    fn new(job: Job, host: &'a mut Host) -> Result<Self> {
        let kind = Kind::parse(&job.scheduler)?;
        set_realtime(rustix::process::getpid().as_raw_nonzero().get(), SESSION_PRIORITY)?;
        system::tune(kind == Kind::Autogroup);
        let scopes = Scopes::new(kind == Kind::Scopes)?;
        Ok(Self {
            job,
            host,
            scopes,
            kind,
            hands: None,
            server: None,
            apps: BTreeMap::new(),
            windows: BTreeMap::new(),
            player_commands: BTreeMap::new(),
            dropped_before: BTreeMap::new(),
        })
    }

    fn run(mut self, metrics: &mut Metrics) -> Result<()> {
        let tasks = self.tasks();
        let spinner = Spinner::start(self.job.machine.mode)?;
        if self.needs_screen() {
            self.start_screen()?;
        }
        self.start_apps(&tasks)?;
        load::prepare(self.job.load)?;
        // As on a machine that starts its scheduler at boot: before anybody types.
        let mut scheduler = Scheduler::start(self.kind.clone())?;
        self.host.phase("scheduler-ready");
        let crew = self.crew()?;
        self.warm_up_players()?;
        self.warm_up_tasks(&tasks)?;

        drop(spinner);
        let mut probe = self.probe(&tasks)?;
        let mut competitor = load::start(self.job.load, self.scopes, probe.as_ref())?;
        self.host.phase("load-ready");
        self.play()?;
        clock::sleep_until(now_ns() + from_seconds(self.job.scenario.settle_s));
        scheduler.must_be_in_charge()?;
        let lanes_before = self.lanes(&scheduler)?;

        let begin_ns = match &mut probe {
            Some(probe) => probe.begin()?,
            None => now_ns(),
        };
        self.host.phase("measuring");
        let limit_ns = begin_ns + from_seconds(self.job.scenario.duration_s);
        let typing = crew.map(|crew| start_typing(crew, begin_ns, limit_ns)).transpose()?;
        let mut findings = Vec::new();
        self.run_tasks(&tasks, limit_ns, metrics, &mut findings)?;
        let evicted = self.watch(typing.as_ref(), &tasks, begin_ns, limit_ns, &mut scheduler);
        // Typing that goes on beneath another scheduler says nothing; the machine is switched off.
        evicted?;
        let log = typing.map(|typing| typing.join().map_err(|_| anyhow!("the typist failed"))?).transpose()?;
        let end_ns = now_ns();
        let seen = probe.map(Probe::end).transpose()?;
        scheduler.must_be_in_charge()?;
        load::must_still_run(self.job.load, competitor.as_mut())?;
        for app in self.apps.values_mut().chain(&mut self.server) {
            app.must_run()?;
        }
        self.add_lanes(&scheduler, &lanes_before, metrics)?;

        if let Some(seen) = seen {
            self.add_screen(&seen, log.as_ref(), begin_ns, end_ns, metrics, &mut findings);
            if let Some(sched) = &seen.sched {
                add_sched(sched, &self.job, end_ns - begin_ns, metrics);
            }
        }
        if !scheduler.log_tail().is_empty() {
            eprintln!("scheduler's log:\n{}", scheduler.log_tail());
        }
        conclude(findings)
    }

    fn needs_screen(&self) -> bool {
        let shows = |kind: &AppKind| matches!(kind, AppKind::Xterm { .. } | AppKind::Mplayer { .. });
        self.job.scenario.apps.iter().any(|app| shows(&app.kind))
    }

    /// Shell applications with a Work or Checks meter, in the order of the file.
    fn tasks(&self) -> Vec<Task> {
        let scenario = &self.job.scenario;
        let has = |id: &str, kind| scenario.meters.iter().any(|meter| meter.app == id && meter.kind == kind);
        let shells = scenario.apps.iter().filter_map(|app| match &app.kind {
            AppKind::Shell { run } => Some(Task {
                id: app.id.clone(),
                run: run.clone(),
                works: has(&app.id, MeterKind::Work),
                checks: has(&app.id, MeterKind::Checks),
            }),
            _ => None,
        });
        shells.filter(|task| task.works || task.checks).collect()
    }

    fn start_screen(&mut self) -> Result<()> {
        let with_sound = self.job.scenario.apps.iter().any(|app| matches!(app.kind, AppKind::Mplayer { .. }));
        let mut modules = SCREEN_MODULES.to_vec();
        if with_sound {
            modules.extend(SOUND_MODULES);
        }
        system::load_modules(&modules)?;
        self.host.phase("modules");
        system::wait_for_path("/dev/uinput", 10)?;
        let mut hands = Hands::new(screen::WIDTH, screen::HEIGHT)?;
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
            system::wait_for_path("/dev/snd/pcmC0D0p", 20)?;
        }
        self.hands = Some(hands);
        Ok(())
    }

    fn start_apps(&mut self, tasks: &[Task]) -> Result<()> {
        let scenario = self.job.scenario.clone();
        let mut shown = Vec::new();
        for app in &scenario.apps {
            let id = app.id.as_str();
            let argv: Vec<String> = match &app.kind {
                AppKind::Xterm { run, x, y, columns, rows } => {
                    shown.push(id);
                    xterm(id, run, &format!("{columns}x{rows}+{x}+{y}"))
                }
                AppKind::Mplayer { clip, x, y } => {
                    shown.push(id);
                    let commands = PathBuf::from(format!("{RUN_DIR}/{id}.commands"));
                    let argv = mplayer(id, clip, &commands, *x, *y)?;
                    self.player_commands.insert(id.to_owned(), command_pipe(&commands)?);
                    argv
                }
                AppKind::Shell { .. } if tasks.iter().any(|task| task.id == id) => continue,
                AppKind::Shell { run } => vec!["sh".into(), "-c".into(), run.clone()],
            };
            self.apps.insert(id.to_owned(), Launch::new(id, self.scopes, &argv).start()?);
        }
        if shown.is_empty() {
            return Ok(());
        }
        let screen = Screen::connect()?;
        for id in shown {
            let Some(app) = self.apps.get_mut(id) else { continue };
            self.windows.insert(id.to_owned(), Window::new(screen.window(id, app)?));
        }
        self.host.phase("apps-ready");
        Ok(())
    }

    fn crew(&mut self) -> Result<Option<Crew>> {
        let typists = &self.job.scenario.typists;
        let Some(hands) = self.hands.take_if(|_| !typists.is_empty()) else { return Ok(None) };
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
        let sched = screen || self.job.load != Load::None || tasks.iter().all(|task| !task.works) && !tasks.is_empty();
        if !screen && !sched {
            return Ok(None);
        }
        Probe::attach(Observe { screen, sched, cpus: self.job.machine.cpus }).map(Some)
    }

    /// Has players play until sound and picture go together, and hold there: their start, with all that
    /// has to be loaded for it, is not measured.
    fn warm_up_players(&mut self) -> Result<()> {
        for id in self.player_commands.keys().cloned().collect::<Vec<_>>() {
            self.wait_for_frames(&id, WARM_FRAMES)?;
        }
        self.pause_or_play()
    }

    /// Lets players play on, and waits until they do.
    fn play(&mut self) -> Result<()> {
        let shown: Vec<(String, u64)> =
            self.player_commands.keys().map(|id| (id.clone(), self.frames(id).unwrap_or(0))).collect();
        for (id, _) in &shown {
            self.dropped_before.insert(id.clone(), self.drops(id).unwrap_or(0));
        }
        self.pause_or_play()?;
        shown.iter().try_for_each(|(id, frames)| self.wait_for_frames(id, frames + 1))
    }

    fn pause_or_play(&mut self) -> Result<()> {
        for (id, commands) in &mut self.player_commands {
            commands.write_all(b"pause\n").with_context(|| format!("send {id} a command"))?;
        }
        Ok(())
    }

    fn frames(&self, id: &str) -> Option<u64> {
        self.apps.get(id).and_then(|player| meter::player_frames(&player.log_text()))
    }

    fn drops(&self, id: &str) -> Option<u64> {
        self.apps.get(id).and_then(|player| meter::player_drops(&player.log_text()))
    }

    fn wait_for_frames(&mut self, id: &str, number: u64) -> Result<()> {
        let deadline = Deadline::after_s(PLAYER_LIMIT_S);
        while self.frames(id).is_none_or(|frames| frames < number) {
            let Some(player) = self.apps.get_mut(id) else { return Ok(()) };
            player.must_run()?;
            if deadline.has_passed() {
                return Err(stalled(player.complaint(&format!("did not play within {PLAYER_LIMIT_S} s")).to_string()));
            }
            clock::sleep_ms(40);
        }
        Ok(())
    }

    /// Runs what will be measured by its work once before, so that no disk is waited for then: an idle
    /// emulated machine leaps over that time.
    fn warm_up_tasks(&self, tasks: &[Task]) -> Result<()> {
        for task in tasks.iter().filter(|task| task.works) {
            let mut program = Launch::new(&task.id, self.scopes, &["sh", "-c", &task.run]).start()?;
            let deadline = Deadline::after_s(TASK_WARM_LIMIT_S);
            loop {
                match program.ended()? {
                    Some(status) if status.success() => break,
                    Some(status) => return Err(program.complaint(&format!("failed ({status})"))),
                    None if deadline.has_passed() => {
                        program.kill();
                        return Err(stalled(
                            program.complaint(&format!("was not done within {TASK_WARM_LIMIT_S} s")).to_string(),
                        ));
                    }
                    None => clock::sleep_ms(10),
                }
            }
        }
        Ok(())
    }

    fn run_tasks(
        &mut self,
        tasks: &[Task],
        limit_ns: u64,
        metrics: &mut Metrics,
        findings: &mut Vec<anyhow::Error>,
    ) -> Result<()> {
        let mut checks = Checks::default();
        let mut sum = (0.0, 0.0);
        for task in tasks {
            let (idle_before, start_ns) = (idle_ns(), now_ns());
            let mut program = Launch::new(&task.id, self.scopes, &["sh", "-c", &task.run]).start()?;
            let ended = program.wait_until(limit_ns)?;
            let idle_ms = to_ms(idle_ns().saturating_sub(idle_before));
            if task.checks {
                let said = Checks::read(&program.log_text());
                checks.total += said.total;
                checks.failed.extend(said.failed);
                eprintln!("{}:\n{}", task.id, program.log_tail(60));
            }
            let Some((status, end_ns)) = ended else {
                let error = stalled(program.complaint("was not done when the time was over").to_string());
                program.kill();
                return Err(error);
            };
            if !status.success() && !task.checks {
                return Err(program.complaint(&format!("failed ({status})")));
            }
            if !status.success() && checks.failed.is_empty() {
                findings.push(program.complaint(&format!("failed ({status})")));
            }
            if task.works {
                let work_ms = to_ms(end_ns - start_ns);
                let busy_ms = work_ms * f64::from(self.job.machine.cpus) - idle_ms;
                scalar(metrics, &format!("{}_work_ms", task.id), work_ms);
                scalar(metrics, &format!("{}_busy_ms", task.id), busy_ms);
                sum = (sum.0 + work_ms, sum.1 + busy_ms);
            }
        }
        if tasks.iter().any(|task| task.works) {
            scalar(metrics, "work_ms", sum.0);
            scalar(metrics, "busy_ms", sum.1);
        }
        if tasks.iter().any(|task| task.checks) {
            scalar(metrics, "checks", f64::from(checks.total));
            #[allow(clippy::cast_precision_loss)]
            scalar(metrics, "checks_failed", checks.failed.len() as f64);
            if checks.total == 0 {
                findings.push(anyhow!("not one check was made"));
            }
            if !checks.failed.is_empty() {
                findings.push(anyhow!("failed checks: {}", checks.failed.join("; ")));
            }
        }
        Ok(())
    }

    /// Waits for the end of the measured part, keeping an eye on the scheduler.
    fn watch(
        &mut self,
        typing: Option<&JoinHandle<Result<typist::Log>>>,
        tasks: &[Task],
        begin_ns: u64,
        limit_ns: u64,
        scheduler: &mut Scheduler,
    ) -> Result<()> {
        // A player and a load have no end of their own; a typist and a task have.
        let plays = self.job.scenario.apps.iter().any(|app| matches!(app.kind, AppKind::Mplayer { .. }));
        let mut picture_due = self.job.screenshot;
        loop {
            scheduler.must_be_in_charge()?;
            let now = now_ns();
            let typed = typing.is_none_or(JoinHandle::is_finished);
            let has_actors = typing.is_some() || !tasks.is_empty();
            if now >= limit_ns && typed || has_actors && typed && !plays {
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

    fn lanes(&self, scheduler: &Scheduler) -> Result<Option<serde_json::Value>> {
        let wanted = self.job.scenario.meters.iter().any(|meter| meter.kind == MeterKind::Lane);
        if wanted && scheduler.is_ours() { scheduler.status().map(Some) } else { Ok(None) }
    }

    fn add_lanes(
        &self,
        scheduler: &Scheduler,
        before: &Option<serde_json::Value>,
        metrics: &mut Metrics,
    ) -> Result<()> {
        let Some(before) = before else { return Ok(()) };
        let after = scheduler.status()?;
        for meter in self.job.scenario.meters.iter().filter(|meter| meter.kind == MeterKind::Lane) {
            let read = |status| lane_time(status, &meter.commands).context("appease status --json lists no commands");
            let (start, end) = (read(before)?, read(&after)?);
            let all = end.1 - start.1;
            if all <= 0.0 {
                return Err(stalled(format!("the lane meter saw no CPU time of {}", meter.commands.join(", "))));
            }
            scalar(metrics, "other_lane_pct", 100.0 * (end.0 - start.0) / all);
        }
        Ok(())
    }

    /// Metrics of meters that look at the screen.
    fn add_screen(
        &self,
        seen: &Seen,
        log: Option<&typist::Log>,
        begin_ns: u64,
        end_ns: u64,
        metrics: &mut Metrics,
        findings: &mut Vec<anyhow::Error>,
    ) {
        let presses = meter::presses(&seen.records);
        if let Some(log) = log {
            if presses.len() != log.presses.len() {
                findings.push(stalled(format!(
                    "{} keys were typed, the kernel saw {}",
                    log.presses.len(),
                    presses.len()
                )));
                return;
            }
            if log.unanswered > 0 {
                findings.push(stalled(format!("{} strokes were not answered in time", log.unanswered)));
            }
        }
        for meter in &self.job.scenario.meters {
            let Some(window) = self.windows.get(&meter.app) else { continue };
            let found = match meter.kind {
                MeterKind::KeyToScreen => {
                    self.add_answers(seen, log, &presses, &meter.app, window, Answer::First, end_ns, metrics)
                }
                MeterKind::Command => {
                    self.add_answers(seen, log, &presses, &meter.app, window, Answer::Last, end_ns, metrics)
                }
                MeterKind::Video => self.add_video(seen, &meter.app, window, begin_ns, end_ns, metrics),
                MeterKind::Lane | MeterKind::Work | MeterKind::Checks => Ok(()),
            };
            findings.extend(found.err());
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn add_answers(
        &self,
        seen: &Seen,
        log: Option<&typist::Log>,
        presses: &[u64],
        app: &str,
        window: &Window,
        which: Answer,
        end_ns: u64,
        metrics: &mut Metrics,
    ) -> Result<()> {
        let name = if which == Answer::First { "key_to_screen_ms" } else { "command_ms" };
        let typists = self.job.scenario.typists.iter().enumerate().filter(|(_, spec)| spec.into == app);
        let waits: Vec<_> = typists
            .flat_map(|(index, _)| log.map(|log| log.waits(index, presses, end_ns)).unwrap_or_default())
            .collect();
        let found = meter::answers(&seen.records, window, &waits, which);
        if found.unanswered > 0 {
            #[allow(clippy::cast_precision_loss)]
            scalar(metrics, &format!("{}_unanswered", name.trim_end_matches("_ms")), found.unanswered as f64);
        }
        let Some(summary) = Summary::of(&found.ms) else {
            let updates: Vec<_> =
                seen.records.iter().filter(|record| matches!(record.what, Happening::Update(_))).collect();
            eprintln!(
                "{app} is at {:?}; first of {} updates: {:?}",
                window.rect,
                updates.len(),
                updates.iter().take(5).collect::<Vec<_>>()
            );
            return Err(stalled(format!(
                "{name}: no screen update of \"{app}\" answered any of {} strokes",
                waits.len()
            )));
        };
        metrics.insert(name.to_owned(), Metric::Distribution(summary));
        Ok(())
    }

    fn add_video(
        &self,
        seen: &Seen,
        app: &str,
        window: &Window,
        begin_ns: u64,
        end_ns: u64,
        metrics: &mut Metrics,
    ) -> Result<()> {
        let fps = match self.job.scenario.app(app).map(|app| &app.kind) {
            Some(AppKind::Mplayer { clip, .. }) => self.job.scenario.clip(clip).map_or(25, |clip| clip.fps),
            _ => bail!("\"{app}\" is no player"),
        };
        let video = meter::video(&seen.records, window, fps, begin_ns, end_ns);
        let before = self.dropped_before.get(app).copied().unwrap_or(0);
        let drops = self.drops(app).map(|drops| drops.saturating_sub(before));
        eprintln!("{app}: {} frames shown of {} due; mplayer says that it dropped {drops:?}", video.shown, video.due);
        // That all frames are lost is believed if the player says so, too.
        if video.shown == 0 && drops.unwrap_or(0) == 0 {
            return Err(stalled(format!("the video meter saw no frame of \"{app}\"")));
        }
        scalar(metrics, "video_dropped_pct", video.dropped_pct);
        scalar(metrics, "video_fps", video.fps);
        if let Some(interval) = video.interval_ms {
            metrics.insert("frame_interval_ms".into(), Metric::Distribution(interval));
        }
        if let Some(drops) = drops {
            #[allow(clippy::cast_precision_loss)]
            scalar(metrics, "video_player_drops", drops as f64);
        }
        Ok(())
    }
}

fn add_sched(sched: &Sched, job: &Job, length_ns: u64, metrics: &mut Metrics) {
    let share = |ns: u64| 100.0 * to_ms(ns) / to_ms(length_ns.max(1)) / f64::from(job.machine.cpus);
    eprintln!("longest wait: {:.3} ms by {}", to_ms(sched.longest_wait_ns), sched.longest_wait_by);
    scalar(metrics, "longest_wait_ms", to_ms(sched.longest_wait_ns));
    if job.machine.cpus > 1 {
        scalar(
            metrics,
            "work_conserving_pct",
            100.0 - 100.0 * to_ms(sched.idle_while_waiting_ns) / to_ms(length_ns.max(1)),
        );
    }
    if job.load == Load::None {
        return;
    }
    scalar(metrics, "load_share_pct", share(sched.load_ran_ns));
    scalar(metrics, "load_longest_gap_ms", to_ms(sched.load_longest_wait_ns));
    if let Load::Hogs(_) = job.load {
        let hogs = || sched.load_tasks.iter().filter(|task| task.comm == "stress-ng-cpu" || task.ran_ns > 0);
        let shares: Vec<f64> = hogs().map(|task| share(task.ran_ns)).collect();
        let gaps: Vec<f64> = hogs().map(|task| to_ms(task.longest_wait_ns)).collect();
        for (name, samples) in [("load_process_share_pct", shares), ("load_process_gap_ms", gaps)] {
            if let Some(summary) = Summary::of(&samples) {
                metrics.insert(name.to_owned(), Metric::Distribution(summary));
            }
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

fn scalar(metrics: &mut Metrics, name: &str, value: f64) {
    metrics.insert(name.to_owned(), Metric::Scalar { value });
}

fn start_typing(crew: Crew, begin_ns: u64, end_ns: u64) -> Result<JoinHandle<Result<typist::Log>>> {
    std::thread::Builder::new()
        .name("typist".into())
        .spawn(move || {
            set_realtime(rustix::thread::gettid().as_raw_nonzero().get(), TYPIST_PRIORITY)?;
            crew.perform(begin_ns, end_ns)
        })
        .context("start the typist")
}

/// SCHED_FIFO for one thread; what it starts is normal again.
fn set_realtime(tid: i32, priority: u32) -> Result<()> {
    let out = Command::new("chrt")
        .args(["--reset-on-fork", "--fifo", "--pid", &priority.to_string(), &tid.to_string()])
        .output()
        .context("start chrt")?;
    if !out.status.success() {
        bail!("chrt: {}", String::from_utf8_lossy(&out.stderr).trim());
    }
    Ok(())
}

fn xterm(id: &str, run: &str, geometry: &str) -> Vec<String> {
    // The cursor looks the same with and without focus, so that a moving pointer redraws nothing.
    let words = [
        "xterm",
        "-title",
        id,
        "-geometry",
        geometry,
        "-ah",
        "-fn",
        "fixed",
        "-b",
        "2",
        "-xrm",
        "*pointerMode: 0",
        "-xrm",
        "*cursorBlink: false",
        "-xrm",
        "*allowTitleOps: false",
        "-e",
        "sh",
        "-c",
        run,
    ];
    words.iter().map(|&word| word.to_owned()).collect()
}

fn mplayer(id: &str, clip: &str, commands: &Path, x: u32, y: u32) -> Result<Vec<String>> {
    let file = fs::read_dir(TOOLS)
        .with_context(|| format!("list {TOOLS}"))?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.file_stem().is_some_and(|stem| stem == clip))
        .with_context(|| format!("clip \"{clip}\" is not in {TOOLS}"))?;
    // A disk that is slow in the host's time must not hold up the film in the guest's.
    std::io::copy(&mut File::open(&file).with_context(|| format!("open {}", file.display()))?, &mut std::io::sink())
        .with_context(|| format!("read {}", file.display()))?;
    let input = format!("file={}", commands.display());
    let place = format!("{x}:{y}");
    let file = file.display().to_string();
    let words = [
        "mplayer",
        "-noconfig",
        "all",
        "-slave",
        "-input",
        &input,
        "-nolirc",
        "-nojoystick",
        "-noconsolecontrols",
        "-vo",
        "x11",
        "-ao",
        "alsa",
        "-framedrop",
        "-osdlevel",
        "0",
        "-geometry",
        &place,
        "-title",
        id,
        &file,
    ];
    Ok(words.iter().map(|&word| word.to_owned()).collect())
}

/// A player's command pipe. It stays open at both ends, so that nothing blocks.
fn command_pipe(path: &Path) -> Result<File> {
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0)
        .with_context(|| format!("make {}", path.display()))?;
    OpenOptions::new().read(true).write(true).open(path).with_context(|| format!("open {}", path.display()))
}
