//! Runs one job in one machine and says how it ended; whatever happens, there is an outcome.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufRead, BufReader},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    process::Stdio,
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use appease_scenario::{Event, Job, Outcome, Run};

use super::{Console, Disk, Qemu, Spec, arguments, qmp::Qmp, tail, workspace};
use crate::host::{Interrupt, guarded};

/// How often everything is looked at.
const TICK: Duration = Duration::from_millis(100);
/// How long a machine may take to power off after its result.
const POWER_OFF: Duration = Duration::from_secs(30);
/// How long what a machine told before its end may be on its way.
const LAST_WORDS: Duration = Duration::from_secs(1);

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

/// Runs `job` in the machine `spec`, whose console, sockets and job disk are filled in here. A picture is saved to
/// `screenshot` when the guest asks for it.
///
/// # Errors
/// When the user interrupts, or the host cannot even try; all else is an outcome.
pub fn run(
    mut spec: Spec,
    job: &Job,
    limits: Limits,
    screenshot: Option<&Path>,
    interrupt: &Interrupt,
    progress: &dyn Fn(Progress),
) -> Result<Run> {
    let dir = workspace::create()?;
    let file = |name: &str| dir.path().join(name);
    fs::write(file("job"), job_disk(job)?).context("write the job disk")?;
    spec.disks.push(Disk::new("job", &file("job")));
    spec.console = Console::File(file("console"));
    let sockets = (file("events"), file("control"));
    let events = UnixListener::bind(&sockets.0).context("listen for the guest's events")?;
    let control = UnixListener::bind(&sockets.1).context("listen for QEMU's control")?;
    spec.sockets = Some(sockets.clone());

    let log = File::create(file("qemu")).context("create QEMU's log")?;
    let mut command = guarded("qemu-system-x86_64", "KILL");
    command.args(arguments(&spec)).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let mut machine = Machine {
        qemu: Qemu::start(command)?,
        control,
        qmp: None,
        screenshot: screenshot.map(Path::to_owned),
        notes: Vec::new(),
    };
    let ended = machine.follow(&listen(events), limits, interrupt, progress);
    drop(machine.qemu);
    // Should QEMU have ended before it connected, this ends the thread that waits for it.
    let _ = UnixStream::connect(&sockets.0);
    let ended = ended?;

    let mut run = Run {
        scheduler: job.scheduler.clone(),
        load: job.load,
        kernel: spec.kernel.release.clone(),
        machine: job.machine,
        outcome: Outcome::Ok,
        detail: String::new(),
        metrics: BTreeMap::new(),
    };
    let last_words = || {
        let parts = [tail(&file("qemu")), tail(&file("console"))];
        parts.iter().filter(|part| !part.is_empty()).map(|part| format!("\n{part}")).collect::<String>()
    };
    match ended {
        End::Result(Event::Result { outcome, detail, metrics, kernel }) => {
            (run.outcome, run.detail, run.metrics, run.kernel) = (outcome, detail, metrics, kernel);
            if run.outcome == Outcome::Ok && run.metrics.is_empty() && !job.scenario.meters.is_empty() {
                (run.outcome, run.detail) = (Outcome::Stalled, "the meters saw nothing".into());
            }
            if matches!(run.outcome, Outcome::Stalled | Outcome::Failed) {
                run.detail.push_str(&last_words());
            }
        }
        End::Result(_) => {}
        End::Silent(after) => {
            run.outcome = Outcome::Failed;
            run.detail = format!("no boot within {} s of host time{}", after.as_secs(), last_words());
        }
        End::TooLong(after, phase) => {
            run.outcome = Outcome::Stalled;
            run.detail = format!("no result within {} s of host time, after {phase}{}", after.as_secs(), last_words());
        }
        End::Died(how, phase) => {
            run.outcome = Outcome::Failed;
            run.detail = format!("the machine ended without a result ({how}), after {phase}{}", last_words());
        }
    }
    if run.outcome != Outcome::Ok {
        machine.notes.iter().for_each(|note| run.detail.push_str(&format!("\n{note}")));
    }
    Ok(run)
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
    Result(Event),
    Silent(Duration),
    TooLong(Duration, String),
    Died(String, String),
}

struct Machine {
    qemu: Qemu,
    control: UnixListener,
    qmp: Option<Qmp>,
    screenshot: Option<PathBuf>,
    notes: Vec<String>,
}

impl Machine {
    /// Follows the machine to its end.
    fn follow(
        &mut self,
        events: &Receiver<Result<Event, String>>,
        limits: Limits,
        interrupt: &Interrupt,
        progress: &dyn Fn(Progress),
    ) -> Result<End> {
        let begun = Instant::now();
        let mut phase: Option<String> = None;
        loop {
            interrupt.check()?;
            let after = || phase.clone().map_or("nothing was told".into(), |name| format!("phase {name}"));
            if phase.is_none() && begun.elapsed() > limits.boot {
                return Ok(End::Silent(limits.boot));
            }
            if begun.elapsed() > limits.total {
                return Ok(End::TooLong(limits.total, after()));
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
                    phase = Some(name);
                }
                Some(Event::Progress { fraction }) => progress(Progress::Fraction(fraction)),
                Some(Event::Screenshot) => {
                    if let Err(error) = self.take_screenshot() {
                        progress(Progress::Note(format!("{error:#}")));
                        self.notes.push(format!("{error:#}"));
                    }
                }
                Some(result @ Event::Result { .. }) => {
                    self.await_power_off(interrupt)?;
                    return Ok(End::Result(result));
                }
                None => {
                    if let Some(status) = self.qemu.exited()? {
                        // What it said last may still be on its way.
                        let rest = std::iter::from_fn(|| events.recv_timeout(LAST_WORDS).ok());
                        let last = rest.flatten().find(|event| matches!(event, Event::Result { .. }));
                        return Ok(last.map_or_else(|| End::Died(status.to_string(), after()), End::Result));
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
