//! Who types what, when.
//!
//! All typists of a scenario share one keyboard: one realtime thread with one timeline. Before a
//! stroke into another window the pointer moves there, and keyboard focus follows it.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use appease_scenario::Typist;
use rustix::{
    event::{PollFd, PollFlags, poll},
    fd::OwnedFd,
    fs::inotify,
    io::Errno,
    time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime},
};

use crate::{
    clock::{self, Deadline, MS, SECOND, now_ns, sleep_until},
    keyboard::{Hands, key_for},
    meter::{Wait, Window},
};

/// Time from one key to the next within a stroke, and from moving the pointer to the first key.
const KEY_GAP_NS: u64 = 25 * MS;
/// Time for which a key is held.
const HOLD_NS: u64 = 12 * MS;
/// When work was done late, the next stroke leaves this much time for its output to be shown: terminal,
/// kernel worker and display server may each wait long for the CPU.
const SHOW_NS: u64 = 2500 * MS;
/// Time for a prelude's work, in seconds of a busy CPU.
const PRELUDE_LIMIT_S: u64 = 3;
/// Unanswered strokes after which a typist gives up.
const GIVE_UP_AFTER: u32 = 2;

/// A key press as the typist made it; the n-th press here is the n-th that the kernel reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Press {
    /// Whose it is.
    pub typist: usize,
    /// Number of the stroke.
    pub stroke: u32,
    /// Whether it is the stroke's last key, the one that is measured.
    pub measured: bool,
}

/// What was typed.
#[derive(Debug, Default)]
pub struct Log {
    /// All presses, in order.
    pub presses: Vec<Press>,
    /// By typist and stroke, when its work was done; nothing where that is not awaited.
    pub answered: BTreeMap<(usize, u32), Option<u64>>,
    /// Strokes whose work was not done in time.
    pub unanswered: u32,
}

impl Log {
    /// For each measured press of one typist, when it was and until when an answer counts: the next
    /// press in that window, or the end. Strokes whose work was cut short by the end are left out.
    pub fn waits(&self, typist: usize, times: &[u64], end_ns: u64) -> Vec<Wait> {
        let own: Vec<(Press, u64)> = self
            .presses
            .iter()
            .copied()
            .zip(times.iter().copied())
            .filter(|(press, _)| press.typist == typist)
            .collect();
        let mut waits = Vec::new();
        for (at, (press, from_ns)) in own.iter().enumerate() {
            let Some(&done_ns) = self.answered.get(&(typist, press.stroke)) else { continue };
            if press.measured {
                let until_ns = own.get(at + 1).map_or(end_ns, |(_, next)| *next);
                waits.push(Wait { from_ns: *from_ns, until_ns, done_ns });
            }
        }
        waits
    }
}

/// One typist at work.
struct Actor {
    strokes: Vec<Vec<char>>,
    times: u32,
    every_ns: u64,
    window: Window,
    waits_for: Option<PathBuf>,
    /// A stroke whose work is not done after this time counts as unanswered.
    patience_ns: u64,
    typed: u32,
    /// When the next stroke's last key is due.
    due_ns: u64,
    /// Until when, and from which size of the file on, the work of the last stroke is awaited.
    awaiting: Option<(u64, u64)>,
    gave_up: u32,
}

impl Actor {
    fn new(spec: &Typist, window: Window) -> Self {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let every_ns = (spec.every_ms * 1e6) as u64;
        Self {
            strokes: spec.strokes.iter().map(|stroke| stroke.chars().collect()).collect(),
            times: spec.times,
            every_ns,
            window,
            waits_for: spec.waits_for.as_ref().map(PathBuf::from),
            patience_ns: u64::from(spec.patience_s) * SECOND,
            typed: 0,
            due_ns: 0,
            awaiting: None,
            gave_up: 0,
        }
    }

    fn next_stroke(&self) -> &[char] {
        &self.strokes[self.typed as usize % self.strokes.len()]
    }

    /// Time from the pointer's move to the stroke's last key.
    fn lead_ns(&self) -> u64 {
        KEY_GAP_NS * self.next_stroke().len() as u64
    }

    fn has_more(&self) -> bool {
        self.typed < self.times && self.gave_up < GIVE_UP_AFTER
    }

    fn is_ready(&self) -> bool {
        self.has_more() && self.awaiting.is_none()
    }
}

/// Everybody who types in a scenario.
pub struct Crew {
    hands: Hands,
    actors: Vec<Actor>,
    preludes: Vec<String>,
    log: Log,
    pointer_at: Option<usize>,
    timer: OwnedFd,
    watch: OwnedFd,
}

impl Crew {
    /// Takes their places; `windows` in the order of the typists.
    pub fn new(hands: Hands, typists: &[Typist], windows: &[Window]) -> Result<Self> {
        let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).context("inotify")?;
        let actors: Vec<Actor> = typists.iter().zip(windows).map(|(spec, window)| Actor::new(spec, *window)).collect();
        for path in actors.iter().filter_map(|actor| actor.waits_for.as_deref()) {
            // It must be there to be watched.
            File::options()
                .append(true)
                .create(true)
                .open(path)
                .with_context(|| format!("create {}", path.display()))?;
            inotify::add_watch(&watch, path, inotify::WatchFlags::MODIFY)
                .with_context(|| format!("watch {}", path.display()))?;
        }
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).context("make a timer")?;
        let preludes = typists.iter().map(|spec| spec.prelude.clone()).collect();
        Ok(Self { hands, actors, preludes, log: Log::default(), pointer_at: None, timer, watch })
    }

    /// Types what comes before the measurement, and leaves the pointer where the first stroke goes.
    pub fn type_preludes(&mut self) -> Result<()> {
        for typist in (0..self.actors.len()).rev() {
            let prelude = self.preludes[typist].clone();
            let size = self.actors[typist].waits_for.as_deref().map(size_of);
            self.move_to(typist)?;
            self.type_all(&prelude)?;
            if let Some(size) = size.filter(|_| !prelude.is_empty()) {
                self.wait_for_prelude(typist, size);
            }
        }
        Ok(())
    }

    /// Types a line into a window in which nobody types else, and goes back to where the first stroke goes.
    pub fn type_line(&mut self, window: Window, line: &str) -> Result<()> {
        self.hands.point(window.pointer)?;
        self.type_all(line)?;
        if let Some(typist) = self.pointer_at {
            self.move_to(typist)?;
        }
        Ok(())
    }

    /// Types where the pointer is, once a window manager has noticed that it is there.
    fn type_all(&self, text: &str) -> Result<()> {
        sleep_until(now_ns() + 2 * KEY_GAP_NS);
        let mut at_ns = now_ns();
        for character in text.chars() {
            self.strike(character, at_ns)?;
            at_ns += KEY_GAP_NS;
        }
        Ok(())
    }

    /// A prelude that does the strokes' work once, to have it all in memory, must be over before the
    /// first stroke, or its end would pass for that stroke's.
    fn wait_for_prelude(&self, typist: usize, size: u64) {
        let Some(path) = self.actors[typist].waits_for.as_deref() else { return };
        let deadline = Deadline::after_s(PRELUDE_LIMIT_S);
        while size_of(path) <= size && !deadline.has_passed() {
            clock::sleep_ms(20);
        }
    }

    /// Types from `begin_ns` until everybody is done, at the latest until `end_ns`.
    pub fn perform(mut self, begin_ns: u64, end_ns: u64) -> Result<Log> {
        for actor in &mut self.actors {
            actor.due_ns = begin_ns + 100 * MS + actor.lead_ns();
        }
        loop {
            let now = now_ns();
            self.note_done_work(now);
            let next = self.next_actor();
            let expiry = self.actors.iter().filter_map(|actor| actor.awaiting).map(|(until, _)| until).min();
            let wake_ns = match (next, expiry) {
                (None, None) => break,
                (None, Some(at)) => at,
                (Some((_, at)), None) => at,
                (Some((_, start)), Some(at)) => start.min(at),
            };
            if now >= end_ns {
                break;
            }
            if let Some((typist, start_ns)) = next
                && start_ns <= now
            {
                self.stroke(typist)?;
            } else {
                self.rest_until(wake_ns.min(end_ns))?;
            }
        }
        // The last strokes' answers shall be seen, too.
        let last_ns = self.actors.iter().map(|actor| actor.due_ns).max().unwrap_or(begin_ns);
        sleep_until(last_ns.min(end_ns));
        Ok(self.log)
    }

    /// Who strikes next, and when the pointer has to move for it.
    fn next_actor(&self) -> Option<(usize, u64)> {
        let ready = self.actors.iter().enumerate().filter(|(_, actor)| actor.is_ready());
        ready
            .map(|(typist, actor)| (typist, self.aligned(typist).saturating_sub(actor.lead_ns())))
            .min_by_key(|(_, at)| *at)
    }

    /// When a typist's stroke falls due: with a quicker typist at the same keyboard, midway between
    /// two of that one's strokes, so that neither disturbs the other's rhythm.
    fn aligned(&self, typist: usize) -> u64 {
        let actor = &self.actors[typist];
        let quickest = self
            .actors
            .iter()
            .enumerate()
            .filter(|(_, other)| other.has_more())
            .min_by_key(|(_, other)| other.every_ns);
        let Some((_, quickest)) = quickest.filter(|(index, other)| *index != typist && other.every_ns < actor.every_ns)
        else {
            return actor.due_ns;
        };
        let period = quickest.every_ns;
        let phase = (quickest.due_ns + period * 7 / 12) % period;
        let late = (actor.due_ns + period - phase) % period;
        if late == 0 { actor.due_ns } else { actor.due_ns + period - late }
    }

    fn note_done_work(&mut self, now: u64) {
        for (typist, actor) in self.actors.iter_mut().enumerate() {
            let Some((until, size)) = actor.awaiting else { continue };
            let stroke = actor.typed - 1;
            if actor.waits_for.as_deref().is_some_and(|path| size_of(path) > size) {
                actor.awaiting = None;
                let shown = now + SHOW_NS;
                actor.due_ns = if actor.has_more() { actor.due_ns.max(shown + actor.lead_ns()) } else { shown };
                // The typist may have noticed late, in the middle of somebody else's stroke.
                let done =
                    actor.waits_for.as_deref().and_then(since_written).map_or(now, |ago| now.saturating_sub(ago));
                self.log.answered.insert((typist, stroke), Some(done));
                actor.gave_up = 0;
            } else if now >= until {
                actor.awaiting = None;
                actor.due_ns = now + actor.lead_ns();
                actor.gave_up += 1;
                self.log.unanswered += 1;
            }
        }
    }

    fn stroke(&mut self, typist: usize) -> Result<()> {
        let keys = self.actors[typist].next_stroke().to_vec();
        let number = self.actors[typist].typed;
        let size = self.actors[typist].waits_for.as_deref().map(size_of);
        // A little late means a little late for every key: the rhythm within a stroke stays.
        let start_ns = now_ns().max(self.aligned(typist).saturating_sub(self.actors[typist].lead_ns()));
        sleep_until(start_ns);
        if self.pointer_at != Some(typist) {
            self.move_to(typist)?;
        }
        let mut at_ns = start_ns;
        for (place, character) in keys.iter().enumerate() {
            at_ns += KEY_GAP_NS;
            let measured = place + 1 == keys.len();
            self.log.presses.push(Press { typist, stroke: number, measured });
            self.strike(*character, at_ns)?;
        }
        let actor = &mut self.actors[typist];
        actor.typed += 1;
        actor.due_ns = at_ns + actor.every_ns;
        match size {
            Some(size) => actor.awaiting = Some((at_ns + actor.patience_ns, size)),
            None => {
                self.log.answered.insert((typist, number), None);
            }
        }
        Ok(())
    }

    fn strike(&self, character: char, at_ns: u64) -> Result<()> {
        let Some((code, shift)) = key_for(character) else { bail!("{character:?} is not on the keyboard") };
        if shift {
            sleep_until(at_ns.saturating_sub(HOLD_NS / 2));
            self.hands.key(evdev::KeyCode::KEY_LEFTSHIFT, true)?;
        }
        sleep_until(at_ns);
        self.hands.key(code, true)?;
        sleep_until(at_ns + HOLD_NS);
        self.hands.key(code, false)?;
        if shift {
            self.hands.key(evdev::KeyCode::KEY_LEFTSHIFT, false)?;
        }
        Ok(())
    }

    fn move_to(&mut self, typist: usize) -> Result<()> {
        self.hands.point(self.actors[typist].window.pointer)?;
        self.pointer_at = Some(typist);
        Ok(())
    }

    /// Sleeps until then, or until a file grew that somebody waits for.
    fn rest_until(&self, at_ns: u64) -> Result<()> {
        let value = clock::timespec(at_ns.max(1));
        let once = Itimerspec { it_interval: clock::timespec(0), it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once).context("set the timer")?;
        let mut watched = [PollFd::new(&self.timer, PollFlags::IN), PollFd::new(&self.watch, PollFlags::IN)];
        match poll(&mut watched, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => bail!("wait for the next key: {error}"),
        }
        let mut buffer = [0; 4096];
        while rustix::io::read(&self.watch, &mut buffer).is_ok_and(|n| n > 0) {}
        Ok(())
    }
}

/// How long ago a file was written to, to within a tick, nanoseconds.
fn since_written(path: &Path) -> Option<u64> {
    let ago = std::fs::metadata(path).ok()?.modified().ok()?.elapsed().ok()?;
    u64::try_from(ago.as_nanos()).ok()
}

fn size_of(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |data| data.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(typist: usize, stroke: u32, measured: bool) -> Press {
        Press { typist, stroke, measured }
    }

    #[test]
    fn a_stroke_waits_until_the_next_press_in_its_own_window() {
        let log = Log {
            presses: vec![
                press(0, 0, true),
                press(1, 0, false),
                press(1, 0, true),
                press(0, 1, true),
                press(1, 1, true),
            ],
            answered: BTreeMap::from([((0, 0), None), ((0, 1), None), ((1, 0), Some(35))]),
            unanswered: 0,
        };
        let times = [10, 20, 30, 40, 50];
        let wait = |from_ns, until_ns, done_ns| Wait { from_ns, until_ns, done_ns };
        assert_eq!(log.waits(0, &times, 99), [wait(10, 40, None), wait(40, 99, None)]);
        assert_eq!(log.waits(1, &times, 99), [wait(30, 50, Some(35))], "stroke 1 was cut off");
    }
}
