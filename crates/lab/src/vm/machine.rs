//! Runs one job in one machine and says how its runs ended; whatever happens, each has an outcome.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    process::Stdio,
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use appease_scenario::{Event, Job, Metric, Outcome, Run};

use super::{Console, Disk, Qemu, Spec, command, qmp::Qmp, tail, workspace};
use crate::host::Interrupt;

/// How often everything is looked at.
const TICK: Duration = Duration::from_millis(100);
/// How long a machine may take to power off after its result.
const POWER_OFF: Duration = Duration::from_secs(30);
/// How long what a machine told before its end may be on its way.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The guest's phase in which its X server takes clients, and the figure of how long that took.
const XORG_READY: (&str, &str) = ("xorg-ready", "xorg_ready_host_s");

/// Host times after which a machine is given up.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Until the guest tells anything.
    pub boot: Duration,
    /// Until the result.
    pub total: Duration,
}

/// What a run tells while it goes on.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// A stage is reached.
    Phase(String),
    /// Share of the measured part.
    Fraction(f64),
    /// Something a person should know.
    Note(String),
}

/// What a machine leaves beside its results.
#[derive(Debug, Clone, Copy, Default)]
pub struct Keepsakes<'a> {
    /// A picture of its screen, when the guest asks for it.
    pub screenshot: Option<&'a Path>,
    /// What its CPUs did while keys were answered.
    pub trace: Option<&'a Path>,
}

/// Runs `job` in the machine `spec`, whose console, cable, sockets and job disk are filled in here.
///
/// # Errors
/// When the user interrupts, or the host cannot even try; all else is an outcome.
pub fn run(
    mut spec: Spec,
    job: &Job,
    limits: Limits,
    keep: Keepsakes,
    interrupt: &Interrupt,
    progress: &dyn Fn(Progress),
) -> Result<Vec<Run>> {
    let dir = workspace::create()?;
    let file = |name: &str| dir.path().join(name);
    fs::write(file("job"), job_disk(job)?).context("write the job disk")?;
    spec.disks.push(Disk::new("job", &file("job")));
    spec.console = Console::File(file("console"));
    spec.cable = job.scenario.cable.then(|| file("cable"));
    let sockets = (file("events"), file("control"));
    let events = UnixListener::bind(&sockets.0).context("listen for the guest's events")?;
    let control = UnixListener::bind(&sockets.1).context("listen for QEMU's control")?;
    spec.sockets = Some(sockets.clone());

    let log = File::create(file("qemu")).context("create QEMU's log")?;
    let mut command = command(&spec);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let mut machine = Machine {
        qemu: Qemu::start(command)?,
        control,
        qmp: None,
        screenshot: keep.screenshot.map(Path::to_owned),
        trace: keep
            .trace
            .map(|path| File::create(path).with_context(|| format!("create {}", path.display())))
            .transpose()?,
        xorg_ready: None,
        results: Vec::new(),
        notes: Vec::new(),
    };
    let wanted = job.schedulers().count();
    let end = machine.follow(&listen(events), wanted, limits, interrupt, progress);
    drop(machine.qemu);
    // Should QEMU have ended before it connected, this ends the thread that waits for it.
    let _ = UnixStream::connect(&sockets.0);
    let end = end?;

    let last_words = || {
        let parts = [tail(&file("qemu")), tail(&file("console"))];
        parts.iter().filter(|part| !part.is_empty()).map(|part| format!("\n{part}")).collect::<String>()
    };
    let runs = runs_of(job, machine.results, &end, &spec.kernel.release).into_iter().map(|mut run| {
        if let Some(after) = machine.xorg_ready {
            run.metrics.insert(XORG_READY.1.to_owned(), Metric::Scalar { value: after.as_secs_f64() });
        }
        if run.outcome != Outcome::Ok {
            run.detail.push_str(&last_words());
            machine.notes.iter().for_each(|note| run.detail.push_str(&format!("\n{note}")));
        }
        run.detail = without_build_paths(&run.detail);
        run
    });
    Ok(runs.collect())
}

/// A run for each scheduler: what the guest told of it, or how the machine ended before. Without a kernel if that did not boot.
fn runs_of(job: &Job, results: Vec<Event>, end: &End, kernel: &str) -> Vec<Run> {
    let kernel = if end.has_booted() { kernel } else { "" };
    let mut results = results.into_iter();
    let run = |scheduler: &str| {
        let mut run = Run {
            scheduler: scheduler.to_owned(),
            load: job.load,
            kernel: kernel.to_owned(),
            machine: job.machine,
            outcome: Outcome::Ok,
            detail: String::new(),
            metrics: BTreeMap::new(),
        };
        if let Some(Event::Result { outcome, detail, metrics, kernel }) = results.next() {
            (run.outcome, run.detail, run.metrics, run.kernel) = (outcome, detail, metrics, kernel);
            if run.outcome == Outcome::Ok && run.metrics.is_empty() && !job.scenario.meters.is_empty() {
                (run.outcome, run.detail) = (Outcome::Stalled, "the meters saw nothing".into());
            }
        } else {
            (run.outcome, run.detail) = end.told();
        }
        run
    };
    job.schedulers().map(run).collect()
}

/// Where cargo unpacks sources: behind it come a directory named after the registry, and the package.
const SOURCES: &str = "/registry/src/";

/// A text in which source files are named from their package on: peers log where they were built, which is a matter of this host.
fn without_build_paths(text: &str) -> String {
    let shortened = |word: &str| match word.split_once(SOURCES).and_then(|(_, rest)| rest.split_once('/')) {
        Some((_, file)) => file.to_owned(),
        None => word.to_owned(),
    };
    text.split_inclusive(char::is_whitespace).map(shortened).collect()
}

/// The job as the guest finds it on a disk: JSON, padded with NULs to whole blocks.
fn job_disk(job: &Job) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(job).context("write the job")?;
    bytes.resize(bytes.len().next_multiple_of(4096), 0);
    Ok(bytes)
}

/// How a machine ended.
#[derive(Debug)]
enum End {
    /// After its last result.
    Well,
    Silent(Duration),
    TooLong(Duration, Option<String>),
    Died(String, Option<String>),
}

impl End {
    /// Whether the guest told of a phase at least. Where it did not, the reason lies with us, not with a scheduler.
    fn has_booted(&self) -> bool {
        match self {
            Self::Well => true,
            Self::Silent(_) => false,
            Self::TooLong(_, phase) | Self::Died(_, phase) => phase.is_some(),
        }
    }

    /// Outcome and reason of a run without a result.
    fn told(&self) -> (Outcome, String) {
        let name =
            |phase: &Option<String>| phase.as_ref().map_or("nothing was told".into(), |name| format!("phase {name}"));
        match self {
            Self::Well => (Outcome::Failed, "the machine told no result: this is a defect of appease-lab".into()),
            Self::Silent(after) => (Outcome::Failed, format!("no boot within {} s of host time", after.as_secs())),
            Self::TooLong(after, phase) => (
                Outcome::Stalled,
                format!("no result within {} s of host time, after {}", after.as_secs(), name(phase)),
            ),
            Self::Died(how, phase) => {
                (Outcome::Failed, format!("the machine ended without a result ({how}), after {}", name(phase)))
            }
        }
    }
}

struct Machine {
    qemu: Qemu,
    control: UnixListener,
    qmp: Option<Qmp>,
    screenshot: Option<PathBuf>,
    trace: Option<File>,
    /// Host time from the start until then.
    xorg_ready: Option<Duration>,
    results: Vec<Event>,
    notes: Vec<String>,
}

impl Machine {
    /// Follows the machine to its end, which is due after so many results.
    fn follow(
        &mut self,
        events: &Receiver<Result<Event, String>>,
        wanted: usize,
        limits: Limits,
        interrupt: &Interrupt,
        progress: &dyn Fn(Progress),
    ) -> Result<End> {
        let begun = Instant::now();
        let mut phase: Option<String> = None;
        loop {
            interrupt.check()?;
            if phase.is_none() && begun.elapsed() > limits.boot {
                return Ok(End::Silent(limits.boot));
            }
            if begun.elapsed() > limits.total {
                return Ok(End::TooLong(limits.total, phase));
            }
            let event = match events.recv_timeout(TICK) {
                Ok(Ok(event)) => Some(event),
                Ok(Err(line)) => {
                    self.notes.push(line);
                    None
                }
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => {
                    std::thread::sleep(TICK);
                    None
                }
            };
            match event {
                Some(Event::Phase { name, .. }) => {
                    progress(Progress::Phase(name.clone()));
                    if name == XORG_READY.0 {
                        self.xorg_ready = Some(begun.elapsed());
                    }
                    phase = Some(name);
                }
                Some(Event::Progress { fraction }) => progress(Progress::Fraction(fraction)),
                Some(Event::Screenshot) => {
                    if let Err(error) = self.take_screenshot() {
                        progress(Progress::Note(format!("{error:#}")));
                        self.notes.push(format!("{error:#}"));
                    }
                }
                Some(Event::Trace { text }) => {
                    let written = self.trace.as_mut().map_or(Ok(()), |file| file.write_all(text.as_bytes()));
                    if let Err(error) = written {
                        self.notes.push(format!("the trace is not whole: {error}"));
                    }
                }
                Some(result @ Event::Result { .. }) => {
                    self.results.push(result);
                    if self.results.len() == wanted {
                        self.await_power_off(interrupt)?;
                        return Ok(End::Well);
                    }
                }
                None => {
                    if let Some(status) = self.qemu.exited()? {
                        // What it said last may still be on its way.
                        let rest = std::iter::from_fn(|| events.recv_timeout(LAST_WORDS).ok());
                        self.results.extend(rest.flatten().filter(|event| matches!(event, Event::Result { .. })));
                        let all = self.results.len() >= wanted;
                        return Ok(if all { End::Well } else { End::Died(status.to_string(), phase) });
                    }
                }
            }
        }
    }

    fn take_screenshot(&mut self) -> Result<()> {
        let Some(path) = &self.screenshot else { return Ok(()) };
        let qmp = match &mut self.qmp {
            Some(qmp) => qmp,
            None => {
                let (stream, _) = self.control.accept().context("connect to QEMU")?;
                self.qmp.insert(Qmp::new(stream)?)
            }
        };
        qmp.screenshot(path)
    }

    fn await_power_off(&mut self, interrupt: &Interrupt) -> Result<()> {
        let end = Instant::now() + POWER_OFF;
        while Instant::now() < end && self.qemu.exited()?.is_none() {
            interrupt.check()?;
            std::thread::sleep(TICK);
        }
        Ok(())
    }
}

/// Reads events on a thread of its own, which ends with QEMU: its end of the socket closes then.
fn listen(listener: UnixListener) -> Receiver<Result<Event, String>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let Ok((stream, _)) = listener.accept() else { return };
        for line in lines(stream) {
            let event = serde_json::from_str(&line).map_err(|error| format!("not understood ({error}): {line}"));
            if sender.send(event).is_err() {
                return;
            }
        }
    });
    receiver
}

fn lines(stream: UnixStream) -> impl Iterator<Item = String> {
    BufReader::new(stream)
        .split(b'\n')
        .map_while(Result::ok)
        .map(|line| String::from_utf8_lossy(&line).trim().to_owned())
        .filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use appease_scenario::{Load, Machine, Metric, Mode, Scenario};

    use super::*;

    #[test]
    fn places_where_peers_were_built_are_not_kept() {
        let log = "INFO compat: /home/somebody/.cargo/registry/src/index.example-1949cf8c/scx_utils-1.1.4/src/compat.rs:564: features\n  none\n";
        assert_eq!(
            super::without_build_paths(log),
            "INFO compat: scx_utils-1.1.4/src/compat.rs:564: features\n  none\n"
        );
        assert_eq!(super::without_build_paths("a /run/tools/x\n"), "a /run/tools/x\n");
    }

    #[test]
    fn a_scheduler_without_a_result_has_the_machines_end() -> Result<()> {
        let text = "name = \"nap\"\nsummary = \"\"\nloads = [\"none\"]\nduration_s = 1\n";
        let job = Job {
            scenario: Scenario::parse(text, "nap", "nap.toml")?,
            scheduler: "eevdf".into(),
            then: vec!["scx_lavd".into(), "appease".into()],
            load: Load::None,
            machine: Machine::plain(Mode::Parallel, 2),
            screenshot: false,
            trace: false,
        };
        let result = |outcome, detail: &str| Event::Result {
            outcome,
            detail: detail.into(),
            metrics: BTreeMap::from([("checks".into(), Metric::Scalar { value: 1.0 })]),
            kernel: "1.2.3-told".into(),
        };
        let results = vec![result(Outcome::Ok, ""), result(Outcome::Evicted, "stall")];
        let end = End::Died("signal 9".into(), Some("measuring".into()));
        let runs = runs_of(&job, results, &end, "1.2.3-known");
        let lines = runs.iter().map(|run| {
            format!("{} {} {:?} {} {:?}", run.scheduler, run.kernel, run.outcome, run.metrics.len(), run.detail)
        });
        insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r#"
        eevdf 1.2.3-told Ok 1 ""
        scx_lavd 1.2.3-told Evicted 1 "stall"
        appease 1.2.3-known Failed 0 "the machine ended without a result (signal 9), after phase measuring"
        "#);
        let unborn = runs_of(&job, Vec::new(), &End::Died("exit status: 1".into(), None), "1.2.3-known");
        let unborn = unborn.first().map(|run| (run.kernel.as_str(), run.detail.as_str()));
        assert_eq!(unborn, Some(("", "the machine ended without a result (exit status: 1), after nothing was told")));
        Ok(())
    }
}
