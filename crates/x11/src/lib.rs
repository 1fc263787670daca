//! Has an X server serve the client with the keyboard focus first.
//!
//! An X server that draws by a kernel's mode setting serves one client between two pictures, and chooses by itself who that is.
//! No CPU scheduler has a say in it; priorities of clients have, which the extension SYNC offers to every client. So an
//! agent, an ordinary client of an ordinary user, raises whoever has the focus.
//!
//! It sleeps while nothing changes: of key presses, the first after a pause alone wakes it, a moment later. All decisions are in [`agent`], which needs no X server; [`display`]
//! and [`focus`] are the only modules that speak to one.
#![forbid(unsafe_code)]

pub mod agent;
mod display;
mod error;
mod focus;
#[cfg(test)]
mod fuzz;
mod state;

use std::{
    env,
    os::fd::AsFd,
    thread,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
    },
};
use tracing::{debug, info};

use crate::{agent::Agent, display::Display, focus::Focus, state::StateFile};

pub use crate::{display::SELECTION, error::Error};

/// What the server tells comes with a key: one that moves the focus, or the first after a pause. That one is still on its way, and nobody
/// waits for us, ms: without load it is on the screen after 1.4 milliseconds at most.
const ASIDE_MS: u64 = 5;

/// Serves a display, that of `DISPLAY` if none is named, until a signal asks it to end or the X server is gone. What it
/// changed is given back.
///
/// # Errors
/// When the display cannot be served; the message names the cure.
pub fn run(display: Option<&str>) -> Result<(), Error> {
    let name = display_name(display, |variable| env::var(variable).ok())?;
    // Before anything is changed: a signal must not come between a change and its undoing.
    let signals = Signals::take()?;
    let display = Display::connect(&name)?;
    let state = StateFile::of(&name)?;
    let left = state.read()?;
    let mut agent = Agent::new(&display, state);
    let served = agent.take_back(left).and_then(|()| serve(&name, &display, &mut agent, &signals));
    // An error of ours must not leave a client raised either.
    let given_back = agent.give_back().and_then(|()| display.finish());
    match served.and(given_back) {
        Err(Error::Lost(error)) => {
            // As at the end of each session: there are no priorities any more.
            info!("the X server on display {name} has gone: {error}");
            agent.forget()
        }
        ended => ended,
    }
}

/// Which display is meant.
fn display_name(asked: Option<&str>, env: impl Fn(&str) -> Option<String>) -> Result<String, Error> {
    let set = |variable| env(variable).filter(|value| !value.is_empty());
    match (asked.map(str::to_owned).or_else(|| set("DISPLAY")), set("WAYLAND_DISPLAY")) {
        (Some(name), _) => Ok(name),
        (None, Some(wayland)) => Err(Error::Wayland { wayland }),
        (None, None) => Err(Error::NoDisplay),
    }
}

fn serve(name: &str, display: &Display, agent: &mut Agent<Display, StateFile>, signals: &Signals) -> Result<(), Error> {
    let begin = Instant::now();
    let now_ms = || u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
    let mut focus = Focus::follow(display)?;
    let activity = display.watch_activity(name)?;
    if activity.is_none() {
        info!("display {name} has no counter IDLETIME: whoever has the focus is raised whether or not there is input");
    }
    let mut is_active = activity.as_ref().is_none_or(|activity| activity.at_first);
    let mut is_focus_old = true;
    info!("display {name}: the client with the keyboard focus is served first");
    loop {
        // An answer that was waited for may have brought events along, of which no poll tells: so it only sleeps after a round
        // in which nothing had to be asked.
        let mut is_quiet = true;
        while let Some(event) = display.event()? {
            is_quiet = false;
            if display.has_lost_selection(&event) {
                info!("another program took {SELECTION}: it serves display {name} now");
                return Ok(());
            }
            if let Some(active) = activity.as_ref().map_or(Ok(None), |activity| activity.says(&event))? {
                debug!("the user is {}", if active { "active" } else { "idle" });
                is_active = active;
            }
            is_focus_old |= focus.is_touched_by(&event)?;
        }
        if std::mem::take(&mut is_focus_old) {
            is_quiet = false;
            agent.set_focus(focus.window()?, now_ms())?;
        }
        agent.set_active(is_active, now_ms())?;
        agent.tick(now_ms())?;
        if !is_quiet {
            continue;
        }
        let wait = agent.next_tick_ms().map(|due_ms| Duration::from_millis(due_ms.saturating_sub(now_ms())));
        display.flush()?;
        if let Some(signal) = signals.wait_for_one_or(display, wait)? {
            info!("{signal}: priorities are given back");
            return Ok(());
        }
    }
}

/// The signals that end the agent, taken out of a file descriptor rather than by handlers.
struct Signals(SignalFd);

impl Signals {
    fn take() -> Result<Self, Error> {
        let mask: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
        mask.thread_block()?;
        Ok(Self(SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?))
    }

    /// Waits for a signal, whose name it returns, for the X server, or for so long.
    fn wait_for_one_or(&self, display: &Display, wait: Option<Duration>) -> Result<Option<&'static str>, Error> {
        // A millisecond more, or it would be called too early and spin.
        let timeout = wait.map_or(PollTimeout::NONE, |wait| {
            PollTimeout::try_from(wait + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
        });
        let mut watched =
            [PollFd::new(self.0.as_fd(), PollFlags::POLLIN), PollFd::new(display.as_fd(), PollFlags::POLLIN)];
        match poll(&mut watched, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let Some(info) = self.0.read_signal()? else {
            thread::sleep(Duration::from_millis(ASIDE_MS));
            return Ok(None);
        };
        let signal = i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok());
        debug!("signal {signal:?}");
        Ok(Some(signal.map_or("a signal", Signal::as_str)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(asked: Option<&str>, env: &[(&str, &str)]) -> String {
        let value = |name: &str| env.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned());
        display_name(asked, value).unwrap_or_else(|error| error.to_string())
    }

    #[test]
    fn the_display_is_asked_for_or_the_environments() {
        assert_eq!(told(Some(":1"), &[("DISPLAY", ":0")]), ":1");
        assert_eq!(told(None, &[("DISPLAY", ":0"), ("WAYLAND_DISPLAY", "wayland-0")]), ":0");
        insta::assert_snapshot!(told(None, &[("DISPLAY", ""), ("WAYLAND_DISPLAY", "wayland-0")]), @"wayland-0 is a display of Wayland, and there is none of X: a compositor decides itself whom it serves, so appease x11 is not needed; for an X server beside it, set DISPLAY");
        insta::assert_snapshot!(told(None, &[]), @"there is no X display: name one by --display or by DISPLAY, as in DISPLAY=:0");
    }

    #[test]
    fn a_display_that_is_not_there_is_named() {
        let error = run(Some(":4095")).expect_err("nobody has so many").to_string();
        assert!(error.contains("display :4095 cannot be reached") && error.contains("--display"), "{error}");
    }
}
