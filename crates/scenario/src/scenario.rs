//! Scenario files: which applications run, who types what, and what is measured.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    path::Path,
};

use serde::{Deserialize, Serialize};

use crate::{Grouping, Line, Load, Mix, Part, Visit, visit::check_user};

/// One experiment, as written in `scenarios/NAME.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Same as the file's stem.
    pub name: String,
    /// One sentence for `appease-lab list`.
    pub summary: String,
    /// Debian packages beyond the base image.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Loads that are run when the command line names none.
    pub loads: Vec<Load>,
    /// Who starts the load: this user, in an ssh session of their own. Without one it starts locally.
    #[serde(default)]
    pub load_by: Option<String>,
    /// How often a shell application does what it does: its command has that as `$ROUNDS`, and as `$SEED` where random numbers begin.
    #[serde(default)]
    pub rounds: Option<NonZeroU32>,
    /// Length of the measured part, virtual seconds. Applications without an end of their own
    /// (a typist, a clip) run this long; actors that finish earlier end the run earlier.
    pub duration_s: f64,
    /// Virtual seconds between the start of the load and the first measured event.
    #[serde(default = "default_settle_s")]
    pub settle_s: f64,
    /// An xterm with an interactive shell, into which the load is typed before the measurement, rather than that it runs
    /// unseen: what it prints scrolls there.
    #[serde(default)]
    pub load_in: Option<String>,
    /// Channels beyond the built-in ones, for our own scheduler: arguments of `appease channel add`.
    #[serde(default)]
    pub channels: Vec<String>,
    /// The daemon's configuration file, for our own scheduler, word for word.
    #[serde(default)]
    pub config: Option<String>,
    /// Kernel parameters beyond those of every machine, as on its command line.
    #[serde(default)]
    pub kernel_parameters: String,
    /// How programs are put into cgroups where the command line does not say.
    #[serde(default = "default_layout")]
    pub layout: Grouping,
    /// Two more serial lines, ttyS1 and ttyS2, are joined by a cable: what is written to one is read from the other.
    #[serde(default)]
    pub cable: bool,
    /// A sound card is there before anything else begins. With an application that plays, it always is.
    #[serde(default)]
    pub sound: bool,
    /// Video clips that the host makes before the run.
    #[serde(default, rename = "clip")]
    pub clips: Vec<Clip>,
    /// Applications, started in this order before the load.
    #[serde(default, rename = "app")]
    pub apps: Vec<App>,
    /// Who types.
    #[serde(default, rename = "typist")]
    pub typists: Vec<Typist>,
    /// What is measured.
    #[serde(default, rename = "meter")]
    pub meters: Vec<Meter>,
    /// What is measured alone at load `none`, and all at once at load `all`.
    #[serde(default, rename = "part")]
    pub parts: Vec<Part>,
    /// Classes and nice values that `--under SCHEDULER+MIX` gives to what runs here.
    #[serde(default, rename = "mix")]
    pub mixes: Vec<Mix>,
    /// What `--short` changes.
    #[serde(default)]
    pub short: Option<Short>,
}

/// Longest time between the start of the load and the measured part, seconds: by then the load of the last minute is what it stays.
pub const LONGEST_SETTLE_S: f64 = 300.0;

/// As people have it today.
fn default_layout() -> Grouping {
    Grouping::Scopes
}

fn default_settle_s() -> f64 {
    1.0
}

/// A generated video with sound, the same bytes on every machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clip {
    /// Name by which an application refers to it.
    pub name: String,
    /// Pixels.
    pub width: u32,
    /// Pixels.
    pub height: u32,
    /// Frames per second.
    pub fps: u32,
    /// Length in seconds.
    pub seconds: u32,
}

/// An application on the guest's screen or in its background. In a file its kind's keys stand beside its `id` and `kind`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "crate::keys::Keys", into = "crate::keys::Keys")]
pub struct App {
    /// Name by which typists and meters refer to it.
    pub id: String,
    /// What it is.
    pub kind: AppKind,
}

/// The kinds of application that the guest can start. An X server runs when one of them needs it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum AppKind {
    /// An xterm.
    Xterm {
        /// Shell command that runs in it (`cat`, `sh`, a build).
        run: String,
        /// Left edge, pixels.
        x: u32,
        /// Top edge, pixels.
        y: u32,
        /// Width in characters.
        columns: u32,
        /// Height in lines.
        rows: u32,
    },
    /// mplayer, with sound.
    Mplayer(Player),
    /// mpv, with sound.
    Mpv(Player),
    /// mplayer, showing what a video camera sees, at once.
    Capture(Capture),
    /// Any other program with a window.
    Window {
        /// Shell command that becomes it.
        run: String,
        /// What its window's title contains.
        title: String,
    },
    /// A window manager; what is started after it finds it in charge. Keyboard focus must follow the pointer under it.
    WindowManager {
        /// Shell command that becomes it.
        run: String,
    },
    /// A shell command without a window; its exit ends the application.
    Shell {
        /// The command.
        run: String,
        /// A file that it makes when it is ready: what is after it in the file begins only then.
        #[serde(default)]
        ready: Option<String>,
    },
    /// Somebody who logs in from another machine. The `id` is the user's name; under load `users:N`, N users do the same.
    Ssh(Visit),
}

impl AppKind {
    /// The film and its place, where this is a player.
    #[must_use]
    pub fn player(&self) -> Option<&Player> {
        match self {
            Self::Mplayer(player) | Self::Mpv(player) => Some(player),
            _ => None,
        }
    }

    /// At which rate it shows frames, where that is known.
    #[must_use]
    pub fn frames_per_second(&self, clips: &[Clip]) -> Option<u32> {
        match self {
            Self::Capture(capture) => Some(capture.fps),
            kind => {
                clips.iter().find(|clip| Some(&clip.name) == kind.player().map(|film| &film.clip)).map(|clip| clip.fps)
            }
        }
    }

    /// Whether it needs an X server.
    #[must_use]
    pub fn needs_screen(&self) -> bool {
        !matches!(self, Self::Shell { .. } | Self::Ssh(_))
    }
}

/// A film in a window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Player {
    /// Name of a clip.
    pub clip: String,
    /// Left edge, pixels.
    pub x: u32,
    /// Top edge, pixels.
    pub y: u32,
    /// Width and height to which the picture is scaled, pixels; the clip's own where there are none.
    #[serde(default)]
    pub scaled: Option<(u32, u32)>,
}

/// A camera's picture in a window. The camera is the kernel's own virtual one (module `vivid`); each frame is dithered to
/// 8 bits a pixel on its way to the screen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capture {
    /// Pixels; the camera has pictures of 320×180, 640×360 and 640×480.
    pub width: u32,
    /// Pixels.
    pub height: u32,
    /// Frames per second: 1, 2, 4, 5, 10, 15 or 25.
    pub fps: u32,
    /// Left edge, pixels.
    pub x: u32,
    /// Top edge, pixels.
    pub y: u32,
}

/// Sizes that the camera has.
const CAMERA_SIZES: [(u32, u32); 3] = [(320, 180), (640, 360), (640, 480)];
/// Rates that it has at each size.
const CAMERA_RATES: [u32; 7] = [1, 2, 4, 5, 10, 15, 25];

impl Capture {
    fn check(&self) -> Result<(), String> {
        if !CAMERA_SIZES.contains(&(self.width, self.height)) {
            return Err(format!(
                "the camera has no picture of {}x{}: allowed is 320x180, 640x360 or 640x480",
                self.width, self.height
            ));
        }
        if !CAMERA_RATES.contains(&self.fps) {
            return Err(format!("fps is {}: allowed is 1, 2, 4, 5, 10, 15 or 25", self.fps));
        }
        Ok(())
    }
}

/// Somebody at the keyboard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Typist {
    /// Application into whose window is typed.
    pub into: String,
    /// What is typed before the measurement begins, Enter included if it ends in a newline.
    #[serde(default)]
    pub prelude: String,
    /// What is typed `times` times: one line, or single keys taken in turn. A stroke of more than one
    /// key is typed ahead of time, so that only its last key (the Enter) is measured.
    pub strokes: Vec<String>,
    /// Number of strokes.
    pub times: u32,
    /// Time from one measured key to the next, milliseconds.
    pub every_ms: f64,
    /// A file in the guest that grows when a stroke's work is done; the next stroke waits for it.
    #[serde(default)]
    pub waits_for: Option<String>,
    /// How long that work may take before the stroke counts as unanswered, seconds.
    #[serde(default = "patience_s")]
    pub patience_s: u32,
}

/// Four times what the scenarios' longest line takes beside a load; one that takes longer names its own.
const fn patience_s() -> u32 {
    40
}

/// One measured quantity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Meter {
    /// What is measured.
    pub kind: MeterKind,
    /// Application whose window or processes are observed.
    pub app: String,
    /// For [`MeterKind::Lane`]: command names (`comm`) whose CPU time counts.
    #[serde(default)]
    pub commands: Vec<String>,
    /// For [`MeterKind::Lane`] of an ssh application: only while this line of it is at work.
    #[serde(default)]
    pub line: Option<String>,
    /// For [`MeterKind::Work`]: how many operations the application does.
    #[serde(default)]
    pub operations: Option<NonZeroU32>,
}

/// The port of a server of pages.
pub const PAGE_PORT: u16 = 80;

/// The quantities that the guest can measure, each from kernel timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MeterKind {
    /// `key_to_screen_ms`: key press to the first screen update inside the window.
    KeyToScreen,
    /// `command_ms`: Enter to the last screen update inside the window before the next stroke there.
    Command,
    /// `video_dropped_pct`, `video_fps`, `video_worst_second_fps`, `frame_interval_ms`: screen updates of the player's
    /// window.
    Video,
    /// `reload_ms`: from a request for a page, which is one to [`PAGE_PORT`], to the last screen update inside the window
    /// before the next one. What belongs to a page comes from other ports.
    Reload,
    /// `other_lane_pct`: share of the CPU time of the processes with the meter's command names that our
    /// scheduler gave them in the other lane. Nothing under other schedulers.
    Lane,
    /// `NAME_ms` for each line of an ssh application: from the Enter to the prompt that follows, at the far side.
    Answer,
    /// `work_ms` of a shell application, start to exit, and `busy_ms`, the CPU time that the whole machine was
    /// not idle meanwhile; in exact mode a millisecond is a million instructions. With a number of operations `each_ns`, too:
    /// what each of them took of that CPU time.
    Work,
    /// A shell application that prints `ok NAME` or `not ok NAME: reason` lines: `checks`, `checks_failed`.
    /// The run fails when one fails or none is printed.
    Checks,
    /// A shell application that prints `sample NAME VALUE` lines: a distribution for each name. What it printed until the time
    /// is over counts.
    Samples,
}

/// Changes for the short form of a scenario, as tests run it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Short {
    /// Replaces `duration_s`.
    pub duration_s: f64,
    /// Replaces every typist's `times`, every visitor's `rounds` and the scenario's, where it is smaller.
    pub times: u32,
    /// Replaces `run` of shell applications, by their ids.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub run: BTreeMap<String, String>,
}

impl Short {
    fn check(&self, apps: &[App]) -> Result<(), String> {
        let is_shell = |id: &str| apps.iter().any(|app| app.id == id && matches!(app.kind, AppKind::Shell { .. }));
        match self.run.keys().find(|id| !is_shell(id)) {
            Some(id) => Err(format!("short.run names \"{id}\", which is no shell application")),
            None => Ok(()),
        }
    }
}

/// What is wrong with a scenario file.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error("scenario {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// Why; part of the message, hence not a `source()` that would be printed once more.
        r#source: std::io::Error,
    },
    /// The file is no TOML, or has an unknown key or a value of a wrong type.
    #[error("scenario {path}: {source}")]
    Syntax {
        /// The file.
        path: String,
        /// Where and why; part of the message, too.
        r#source: Box<toml::de::Error>,
    },
    /// A name or a number in it makes no sense.
    #[error("scenario {path}: {reason}")]
    Meaning {
        /// The file.
        path: String,
        /// What, and what is allowed.
        reason: String,
    },
}

impl Scenario {
    /// Reads and validates a scenario file.
    ///
    /// # Errors
    /// When it cannot be read, is not of this form, or refers to what it does not define.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        let shown = path.display().to_string();
        let text =
            std::fs::read_to_string(path).map_err(|source| ScenarioError::Read { path: shown.clone(), source })?;
        let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
        Self::parse(&text, stem, &shown)
    }

    /// Parses the text of a scenario file whose stem is `stem`; `shown` names it in errors.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn parse(text: &str, stem: &str, shown: &str) -> Result<Self, ScenarioError> {
        let scenario: Self = toml::from_str(text)
            .map_err(|source| ScenarioError::Syntax { path: shown.into(), source: Box::new(source) })?;
        scenario.check(stem).map_err(|reason| ScenarioError::Meaning { path: shown.into(), reason })?;
        Ok(scenario)
    }

    /// The short form, for tests.
    #[must_use]
    pub fn shortened(mut self) -> Self {
        if let Some(short) = self.short.clone() {
            self.duration_s = short.duration_s;
            for app in &mut self.apps {
                if let (AppKind::Shell { run, .. }, Some(other)) = (&mut app.kind, short.run.get(&app.id)) {
                    run.clone_from(other);
                }
            }
            self.rounds =
                self.rounds.map(|rounds| NonZeroU32::new(short.times).map_or(rounds, |times| rounds.min(times)));
            for typist in &mut self.typists {
                typist.times = typist.times.min(short.times);
            }
            for visit in self.visits_mut() {
                visit.rounds = visit.rounds.min(short.times);
            }
        }
        self
    }

    /// With so many rounds, if the scenario has any; its shell applications are told how many, and where random numbers begin.
    #[must_use]
    pub fn repeated(mut self, rounds: Option<NonZeroU32>, seed: u64) -> Self {
        let Some(rounds) = self.rounds.map(|own| rounds.unwrap_or(own)) else { return self };
        self.rounds = Some(rounds);
        for app in &mut self.apps {
            if let AppKind::Shell { run, .. } = &mut app.kind {
                run.insert_str(0, &format!("ROUNDS={rounds} SEED={seed}\n"));
            }
        }
        self
    }

    /// With a measured part of `seconds`; in a longer one typists type on and clips play on to its end.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn lasting(mut self, seconds: f64) -> Self {
        let (longer, more) = (seconds / self.duration_s, seconds - self.duration_s);
        if more > 0.0 {
            for typist in &mut self.typists {
                typist.times = (f64::from(typist.times) * longer).ceil() as u32;
            }
            for visit in self.visits_mut() {
                visit.rounds = (f64::from(visit.rounds) * longer).ceil() as u32;
            }
            for clip in &mut self.clips {
                clip.seconds += more.ceil() as u32;
            }
        }
        self.duration_s = seconds;
        self
    }

    /// The application with this id.
    #[must_use]
    pub fn app(&self, id: &str) -> Option<&App> {
        self.apps.iter().find(|app| app.id == id)
    }

    /// The clip with this name.
    #[must_use]
    pub fn clip(&self, name: &str) -> Option<&Clip> {
        self.clips.iter().find(|clip| clip.name == name)
    }

    /// The mix with this name.
    ///
    /// # Errors
    /// Names those that there are.
    pub fn mix(&self, name: &str) -> Result<&Mix, String> {
        self.mixes.iter().find(|mix| mix.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.mixes.iter().map(|mix| mix.name.as_str()).collect();
            let known = if known.is_empty() { "it has none".into() } else { format!("there is {}", known.join(", ")) };
            format!("scenario \"{}\" has no mix \"{name}\": {known}", self.name)
        })
    }

    /// Who logs in under `load`: names of users, and what each does. Under `users:N` they are numbered.
    #[must_use]
    pub fn visitors(&self, load: Load) -> Vec<(String, &App)> {
        let guests = self.apps.iter().filter(|app| matches!(app.kind, AppKind::Ssh(_)));
        match load {
            Load::Users(n) => guests.flat_map(|app| (1..=n).map(move |k| (format!("{}{k}", app.id), app))).collect(),
            _ => guests.map(|app| (app.id.clone(), app)).collect(),
        }
    }

    /// Whether the scenario can be run at `load`.
    ///
    /// # Errors
    /// Says what it lacks.
    pub fn accepts(&self, load: Load) -> Result<(), String> {
        self.parts_accept(load)?;
        if matches!(load, Load::Users(_)) && self.visitors(load).is_empty() {
            return Err(format!("load {load}: scenario \"{}\" has no application of kind ssh", self.name));
        }
        let looked_at = self.meters.iter().any(|meter| meter.line.is_some());
        if looked_at && self.visitors(load).len() > 1 {
            return Err(format!("load {load}: a lane meter of a line observes one visitor, not several"));
        }
        Ok(())
    }

    fn visits_mut(&mut self) -> impl Iterator<Item = &mut Visit> {
        self.apps.iter_mut().filter_map(|app| match &mut app.kind {
            AppKind::Ssh(visit) => Some(visit),
            _ => None,
        })
    }

    fn check_visits(&self) -> Result<(), String> {
        const NEEDED: [&str; 2] = ["openssh-client", "openssh-server"];
        let mut users = BTreeSet::new();
        let mut lines = BTreeSet::new();
        for app in &self.apps {
            let AppKind::Ssh(visit) = &app.kind else { continue };
            visit.check(&app.id)?;
            users.insert(app.id.as_str());
            if let Some(Line { name, .. }) = visit.lines.iter().find(|line| !lines.insert(&line.name)) {
                return Err(format!("\"{}\": line name \"{name}\" is another user's already", app.id));
            }
        }
        if let Some(user) = &self.load_by {
            check_user(user)?;
            if !users.insert(user) {
                return Err(format!("load_by is \"{user}\", who types already: name another user"));
            }
        }
        match NEEDED.iter().find(|needed| !self.packages.iter().any(|package| package == *needed)) {
            Some(missing) if !users.is_empty() => Err(format!("users log in, but packages lacks \"{missing}\"")),
            _ => Ok(()),
        }
    }

    fn check(&self, stem: &str) -> Result<(), String> {
        if self.name != stem {
            return Err(format!("name is \"{}\" but the file is called {stem}.toml", self.name));
        }
        if !(self.duration_s > 0.0 && self.duration_s <= 3600.0) {
            return Err(format!("duration_s is {}: allowed is above 0, up to 3600", self.duration_s));
        }
        if !(0.0..=LONGEST_SETTLE_S).contains(&self.settle_s) {
            return Err(format!("settle_s is {}: allowed is 0 to {LONGEST_SETTLE_S}", self.settle_s));
        }
        if self.loads.is_empty() {
            return Err("loads is empty: name at least \"none\"".into());
        }
        if let Some(bad) = self.packages.iter().find(|p| !is_package_name(p)) {
            return Err(format!("packages: \"{bad}\" is no Debian package name"));
        }
        // What its keys mean is the daemon's business, which tells it in the run; that it can be read at all is told here.
        if let Some(Err(error)) = self.config.as_deref().map(toml::from_str::<toml::Table>) {
            return Err(format!("config is no TOML: {error}"));
        }
        if let Some(short) = &self.short {
            short.check(&self.apps)?;
        }
        let mut ids = BTreeSet::new();
        for app in &self.apps {
            if !ids.insert(app.id.as_str()) {
                return Err(format!("two applications have the id \"{}\"", app.id));
            }
            if let AppKind::Shell { ready: Some(file), .. } = &app.kind
                && !file.starts_with('/')
            {
                return Err(format!(
                    "application \"{}\": ready is \"{file}\": allowed is a path from the root on",
                    app.id
                ));
            }
            if let AppKind::Capture(capture) = &app.kind {
                capture.check().map_err(|reason| format!("application \"{}\": {reason}", app.id))?;
            }
            if let Some(Player { clip, .. }) = app.kind.player()
                && self.clip(clip).is_none()
            {
                return Err(format!("application \"{}\" plays clip \"{clip}\", which is not defined", app.id));
            }
        }
        self.check_load_in()?;
        self.check_visits()?;
        for typist in &self.typists {
            match self.app(&typist.into).map(|app| &app.kind) {
                Some(AppKind::Xterm { .. }) => {}
                Some(_) => return Err(format!("typist types into \"{}\", which is no xterm", typist.into)),
                None => return Err(format!("typist types into \"{}\", which is not defined", typist.into)),
            }
            if typist.strokes.is_empty() || typist.strokes.iter().any(String::is_empty) {
                return Err(format!("typist into \"{}\": strokes must not be empty", typist.into));
            }
            if !(1.0..=60_000.0).contains(&typist.every_ms) {
                return Err(format!(
                    "typist into \"{}\": every_ms is {}: allowed is 1 to 60000",
                    typist.into, typist.every_ms
                ));
            }
            if !(1..=3600).contains(&typist.patience_s) {
                return Err(format!(
                    "typist into \"{}\": patience_s is {}: allowed is 1 to 3600",
                    typist.into, typist.patience_s
                ));
            }
            if let Some(key) = typist
                .strokes
                .iter()
                .chain([&typist.prelude])
                .flat_map(|s| s.chars())
                .find(|c| !(c.is_ascii_graphic() || matches!(c, ' ' | '\n')))
            {
                return Err(format!("typist into \"{}\": {key:?} is not on its keyboard", typist.into));
            }
        }
        for meter in &self.meters {
            let Some(app) = self.app(&meter.app) else {
                return Err(format!("meter observes \"{}\", which is not defined", meter.app));
            };
            let fits = match meter.kind {
                MeterKind::KeyToScreen | MeterKind::Command => {
                    matches!(app.kind, AppKind::Xterm { .. }) && self.typists.iter().any(|t| t.into == app.id)
                }
                MeterKind::Video => app.kind.frames_per_second(&self.clips).is_some(),
                MeterKind::Reload => matches!(app.kind, AppKind::Window { .. }),
                MeterKind::Work | MeterKind::Checks | MeterKind::Samples => matches!(app.kind, AppKind::Shell { .. }),
                MeterKind::Answer => matches!(app.kind, AppKind::Ssh(_)),
                MeterKind::Lane => !meter.commands.is_empty(),
            };
            if let Some(line) = &meter.line {
                let typed = matches!(&app.kind, AppKind::Ssh(visit) if visit.lines.iter().any(|l| l.name == *line));
                if meter.kind != MeterKind::Lane || !typed {
                    return Err(format!("meter {:?}: \"{}\" types no line \"{line}\"", meter.kind, meter.app));
                }
            }
            if meter.operations.is_some() && meter.kind != MeterKind::Work {
                return Err(format!(
                    "meter {:?} of \"{}\": only a meter of work has operations",
                    meter.kind, meter.app
                ));
            }
            let in_one_press = |t: &Typist| t.strokes.iter().all(|stroke| stroke.chars().count() == 1);
            let mut typists = self.typists.iter().filter(|typist| typist.into == app.id);
            if meter.kind == MeterKind::KeyToScreen && !typists.all(in_one_press) {
                return Err(format!("meter KeyToScreen of \"{}\": each stroke there must be one key", meter.app));
            }
            if !fits {
                return Err(format!("meter {:?} cannot observe \"{}\"", meter.kind, meter.app));
            }
        }
        self.check_parts()?;
        self.check_mixes()?;
        self.loads.iter().try_for_each(|&load| self.accepts(load))
    }

    fn check_load_in(&self) -> Result<(), String> {
        let Some(id) = &self.load_in else { return Ok(()) };
        match self.app(id).map(|app| &app.kind) {
            Some(AppKind::Xterm { .. }) => {}
            Some(_) => return Err(format!("load_in is \"{id}\", which is no xterm")),
            None => return Err(format!("load_in is \"{id}\", which is not defined")),
        }
        if self.load_by.is_some() {
            return Err(format!("load_in is \"{id}\", and load_by says that somebody starts the load elsewhere"));
        }
        if self.typists.is_empty() {
            return Err(format!("load_in is \"{id}\", but there is no typist to type the load there"));
        }
        Ok(())
    }
}

/// Whether `text` may be a Debian package name (policy 5.6.1), so that it is safe on a command line.
fn is_package_name(text: &str) -> bool {
    text.len() >= 2
        && text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c))
}
