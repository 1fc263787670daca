//! What clock CPUs are asked for, and how power is saved: by the kernel's own word, a probe at the function that takes the wish. The
//! emulated machine has one clock alone, so what comes of a wish is not seen.

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::{
    Verdicts, shares, speed,
    task::{Task, put_on},
};
use crate::{
    check::figure,
    clock,
    recorder::Recorder,
    scheduler::Scheduler,
    sense::device::{Device, Shape},
    system,
};

/// Modules that bring input devices.
const MODULES: &[&str] = &["evdev", "uinput"];
/// Of our probe.
const EVENT: &str = "appease_clock";
/// The highest clock that can be asked for.
const HIGHEST: u32 = 1024;
/// What computes for a twentieth of the time, and sleeps: well below half of the highest clock.
const NAP_MS: (u64, u64) = (1, 19);
const LOW: u32 = HIGHEST / 4;
/// Some epochs, by which the clock of plain work goes.
pub(super) const EPOCHS_MS: u64 = 1000;
/// From a key until its reader runs.
pub(super) const SOON_MS: u64 = 50;
/// The device's hooks are attached when its module has come.
const HOOKS_MS: u64 = 1500;
/// Three that compute for a tenth of the time each, and together for less than a CPU has; where they are is looked up so often.
const LIGHT_MS: (u64, u64) = (2, 18);
const LIGHT: u32 = 3;
const LOOKS: u32 = 100;
const LOOK_EACH_MS: u64 = 10;
/// What each has at least of a CPU that it has for itself.
const MOSTLY_PCT: f64 = 90.0;
/// Least part of the looks at which all are on one CPU when power is saved, and the most when not.
const PACKED: f64 = 0.9;

pub fn check(verdicts: &mut Verdicts) -> Result<()> {
    system::load_modules(MODULES)?;
    let mut device = Device::new(Shape::Remote)?;
    let node = device.node("event")?;
    let wishes = Wishes::watch()?;
    {
        let ours = started(&["--clock", "always"], &mut device)?;
        let _bursts = napper_on(1, NAP_MS)?;
        clock::sleep_ms(EPOCHS_MS);
        figure("clock_of_bursts", f64::from(wishes.last(1)?));
        verdicts.tell("short bursts do not raise the clock", wishes.is_at_most(1, LOW));
        {
            let before = wishes.of(1)?.len();
            let _hog = Task::hog("taskset -c 1")?;
            clock::sleep_ms(EPOCHS_MS);
            verdicts.tell("a task that computes has the highest", wishes.is(1, HIGHEST));
            verdicts.tell("a task that computes keeps it", wishes.keeps_highest(1, before));
        }
        key_raises(verdicts, &wishes, (&mut device, &node), "")?;
        verdicts.tell("light tasks have a CPU each", light(|part| part < PACKED, "light_on_one_cpu"));
        ours.end_by(Signal::TERM)?;
    }
    let ours = started(&["--clock", "always", "--power-save"], &mut device)?;
    {
        let _hog = Task::hog("taskset -c 1")?;
        clock::sleep_ms(EPOCHS_MS);
        verdicts.tell("a task that computes raises nothing when power is saved", wishes.is(1, 0));
    }
    key_raises(verdicts, &wishes, (&mut device, &node), " when power is saved")?;
    verdicts
        .tell("light tasks share a CPU when power is saved", light(|part| part >= PACKED, "light_on_one_cpu_saving"));
    verdicts.tell("tasks that compute have a CPU each all the same", each_has_one());
    ours.end_by(Signal::TERM)?;
    speed::check(verdicts, &mut device, &node)
}

/// By the numbers of CPUs.
pub(super) const ALL: &str = "0-3";
pub(super) const LAST: &str = "3";

pub(super) fn started(words: &[&str], device: &mut Device) -> Result<Scheduler> {
    let ours = Scheduler::start_ours(words)?;
    clock::sleep_ms(HOOKS_MS);
    // A read that began before that is not seen: the next one is.
    device.touch()?;
    clock::sleep_ms(SOON_MS);
    Ok(ours)
}

/// Computes and sleeps, by turns, for so long.
pub(super) fn napper_on(cpu: u32, (busy_ms, sleep_ms): (u64, u64)) -> Result<Task> {
    Task::napper(&format!("taskset -c {cpu}"), busy_ms, sleep_ms)
}

/// Somebody presses a key, and its reader is on a CPU with a low clock: it has the highest at once, and others on the CPU have not.
fn key_raises(verdicts: &mut Verdicts, wishes: &Wishes, (device, node): (&mut Device, &str), when: &str) -> Result<()> {
    const CPU: u32 = 2;
    let _bursts = napper_on(CPU, NAP_MS)?;
    let _reader = Task::bearer(&format!("taskset -c {CPU}"), node)?;
    clock::sleep_ms(SOON_MS);
    // The first read began before the reader was known; the next one is the key's.
    device.touch()?;
    clock::sleep_ms(EPOCHS_MS);
    verdicts.tell(&format!("the clock is low before a key{when}"), wishes.is_at_most(CPU, LOW));
    let before = wishes.of(CPU)?.len();
    device.touch()?;
    clock::sleep_ms(SOON_MS);
    let asked = wishes.of(CPU)?.split_off(before);
    let raised = asked.contains(&HIGHEST).then_some(()).with_context(|| format!("CPU {CPU} was asked for {asked:?}"));
    verdicts.tell(&format!("a key raises it at once{when}"), raised);
    clock::sleep_ms(EPOCHS_MS);
    verdicts.tell(&format!("it is low again after a key{when}"), wishes.is_at_most(CPU, LOW));
    Ok(())
}

/// Whether the part of the time in which light tasks are all on one CPU is as expected.
fn light(is_expected: impl Fn(f64) -> bool, name: &str) -> Result<()> {
    // A task that wakes up while this realtime process has the first CPU goes to another one.
    put_on(std::process::id(), LAST)?;
    // Each begins on a CPU of its own, and may then go where it likes.
    let tasks = (0..LIGHT).map(|cpu| napper_on(cpu, LIGHT_MS)).collect::<Result<Vec<_>>>()?;
    clock::sleep_ms(SOON_MS);
    tasks.iter().try_for_each(|task| put_on(task.pid(), ALL))?;
    clock::sleep_ms(EPOCHS_MS);
    let mut together = 0_u32;
    for _ in 0..LOOKS {
        clock::sleep_ms(LOOK_EACH_MS);
        let cpus = tasks.iter().map(|task| Ok(task.standing()?.cpu)).collect::<Result<Vec<u32>>>()?;
        together += u32::from(cpus.iter().all(|cpu| *cpu == cpus[0]));
    }
    let part = f64::from(together) / f64::from(LOOKS);
    figure(name, part);
    put_on(std::process::id(), ALL)?;
    ensure!(is_expected(part), "all are on one CPU in {part:.2} of all looks");
    Ok(())
}

/// As many hogs as CPUs have one each, by what they ran: where they are at a look says little, for the look itself has a CPU, from which
/// one of them moves.
fn each_has_one() -> Result<()> {
    const CPUS: usize = 4;
    let hogs = (0..CPUS).map(|_| Task::hog("nice -n 0")).collect::<Result<Vec<_>>>()?;
    clock::sleep_ms(SOON_MS);
    let found = shares(&hogs, EPOCHS_MS)?;
    figure("least_of_those_that_compute_pct", found.iter().copied().fold(100.0, f64::min));
    ensure!(found.iter().all(|pct| *pct >= MOSTLY_PCT), "they have {found:.0?} % of a CPU");
    Ok(())
}

/// What the kernel was asked for since the probe was set.
struct Wishes(Recorder);

impl Wishes {
    fn watch() -> Result<Self> {
        let recorder = Recorder::first();
        recorder.set("kprobe_events", &format!("p:{EVENT} scx_bpf_cpuperf_set cpu=%di:s32 clock=%si:u32"))?;
        recorder.set(&format!("events/kprobes/{EVENT}/enable"), "1")?;
        recorder.set("tracing_on", "1")?;
        Ok(Self(recorder))
    }

    /// All wishes for a CPU, oldest first.
    fn of(&self, cpu: u32) -> Result<Vec<u32>> {
        let text = self.0.text()?;
        let number = |line: &str, name: &str| -> Option<u32> {
            line.split_whitespace().find_map(|word| word.strip_prefix(name))?.parse().ok()
        };
        let wishes = text.lines().filter(|line| line.contains(EVENT) && number(line, "cpu=") == Some(cpu));
        Ok(wishes.filter_map(|line| number(line, "clock=")).collect())
    }

    /// The last one; a CPU that was asked for nothing has the highest clock.
    fn last(&self, cpu: u32) -> Result<u32> {
        Ok(self.of(cpu)?.last().copied().unwrap_or(HIGHEST))
    }

    fn is(&self, cpu: u32, clock: u32) -> Result<()> {
        let last = self.last(cpu)?;
        ensure!(last == clock, "CPU {cpu} was asked for {last} of {HIGHEST} last, and not for {clock}");
        Ok(())
    }

    /// Whether all wishes after the first so many are for the highest from the first one on that is.
    fn keeps_highest(&self, cpu: u32, before: usize) -> Result<()> {
        let asked = self.of(cpu)?.split_off(before);
        let mut high = asked.iter().skip_while(|clock| **clock != HIGHEST);
        ensure!(high.all(|clock| *clock == HIGHEST), "CPU {cpu} was asked for {asked:?}");
        Ok(())
    }

    fn is_at_most(&self, cpu: u32, clock: u32) -> Result<()> {
        let last = self.last(cpu)?;
        ensure!(last <= clock, "CPU {cpu} was asked for {last} of {HIGHEST} last; at most {clock} is expected");
        Ok(())
    }
}

impl Drop for Wishes {
    fn drop(&mut self) {
        // The machine ends soon.
        let _ = self.0.set(&format!("events/kprobes/{EVENT}/enable"), "0");
    }
}
