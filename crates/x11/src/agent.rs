//! Who is raised now, and what has to be taken back: all that needs no X server.
//!
//! Invariants: at most one client is raised by us; whatever is raised was written into the journal before; a priority that
//! somebody else has set is never changed.

use tracing::debug;

use crate::Error;

/// A window's id, which also stands for the client that owns it.
pub type Window = u32;

/// Priority of a client that nobody has changed.
pub const NORMAL: i32 = 0;
/// Priority of the client with the focus. One step is enough: the X server serves the highest first.
pub const RAISED: i32 = 1;
/// Our own: a focused client that always has requests would else keep us from ever lowering it.
pub const OWN: i32 = 2;

/// Priorities are strict, so a focused client that floods the server would starve all others. In each period
/// it rests at its normal priority for a while.
pub const PERIOD_MS: u64 = 1000;
/// The rest of each period. It is about three pictures at 60 Hz, after each of which a server that waits for
/// the vertical blank serves one client.
pub const REST_MS: u64 = 50;
/// Without input for so long nobody is waiting, and nobody is raised.
pub const IDLE_MS: u64 = 2000;

/// What the agent needs of an X server.
pub trait Server {
    /// Number of the client that owns a window, the same for all its windows.
    fn client(&self, window: Window) -> u32;
    /// Priority of the client that owns a window; `None` when there is no such window any more.
    ///
    /// # Errors
    /// When the server is gone.
    fn priority(&self, window: Window) -> Result<Option<i32>, Error>;
    /// Sets it; nothing happens when the window is gone.
    ///
    /// # Errors
    /// When the server is gone.
    fn set_priority(&self, window: Window, priority: i32) -> Result<(), Error>;
    /// Sets it to `lower`, and back to `upper` after `for_ms`, which the server does by itself. What is asked for
    /// meanwhile waits.
    ///
    /// # Errors
    /// When the server is gone.
    fn rest(&self, window: Window, lower: i32, upper: i32, for_ms: u64) -> Result<(), Error>;
    /// Something else that the client owns which owned `window`, to call it by when that is gone.
    ///
    /// # Errors
    /// When the server is gone.
    fn stand_in(&self, window: Window) -> Result<Option<Window>, Error>;
}

/// A priority that is not what it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed {
    /// A window of the client.
    pub window: Window,
    /// Its priority before.
    pub former: i32,
}

/// What outlives the agent, should it be killed: the server keeps priorities until their clients end.
pub trait Journal {
    /// Replaces what is recorded.
    ///
    /// # Errors
    /// When it cannot be written.
    fn record(&mut self, changed: Option<Changed>) -> Result<(), Error>;
}

/// Raises the client with the focus while the user is active.
#[derive(Debug)]
pub struct Agent<'a, S, J> {
    server: &'a S,
    journal: J,
    focus: Option<Window>,
    active: bool,
    raised: Option<Changed>,
    rest_due_ms: Option<u64>,
}

impl<'a, S: Server, J: Journal> Agent<'a, S, J> {
    /// One that has raised nobody yet.
    pub fn new(server: &'a S, journal: J) -> Self {
        Self { server, journal, focus: None, active: false, raised: None, rest_due_ms: None }
    }

    /// Takes back what an agent that was killed has left: where the window is still there, and the priority still ours.
    ///
    /// # Errors
    /// When the server is gone, or the journal cannot be written.
    pub fn take_back(&mut self, left: Option<Changed>) -> Result<(), Error> {
        match left {
            Some(left) => self.lower(left),
            None => Ok(()),
        }
    }

    /// Whose window has the focus, if anybody's.
    ///
    /// # Errors
    /// When the server is gone, or the journal cannot be written.
    pub fn set_focus(&mut self, focus: Option<Window>, now_ms: u64) -> Result<(), Error> {
        if self.focus == focus {
            return Ok(());
        }
        self.focus = focus;
        self.settle(now_ms)
    }

    /// Whether the user is active.
    ///
    /// # Errors
    /// When the server is gone, or the journal cannot be written.
    pub fn set_active(&mut self, active: bool, now_ms: u64) -> Result<(), Error> {
        if self.active == active {
            return Ok(());
        }
        self.active = active;
        self.settle(now_ms)
    }

    /// When [`Agent::tick`] has something to do, if ever.
    pub fn next_tick_ms(&self) -> Option<u64> {
        self.rest_due_ms
    }

    /// Has the raised client rest when that is due.
    ///
    /// # Errors
    /// When the server is gone.
    pub fn tick(&mut self, now_ms: u64) -> Result<(), Error> {
        if let (Some(raised), Some(due_ms)) = (self.raised, self.rest_due_ms)
            && due_ms <= now_ms
        {
            self.server.rest(raised.window, raised.former, RAISED, REST_MS)?;
            self.rest_due_ms = Some(now_ms + PERIOD_MS);
        }
        Ok(())
    }

    /// Gives back what is changed; to be called before the end.
    ///
    /// # Errors
    /// When the server is gone, or the journal cannot be written.
    pub fn give_back(&mut self) -> Result<(), Error> {
        self.active = false;
        self.settle(0)
    }

    /// Records that nothing is changed any more, since the server is gone.
    ///
    /// # Errors
    /// When the journal cannot be written.
    pub fn forget(&mut self) -> Result<(), Error> {
        self.journal.record(None)
    }

    fn settle(&mut self, now_ms: u64) -> Result<(), Error> {
        let wanted = self.focus.filter(|_| self.active);
        if let Some(raised) = self.raised {
            match wanted {
                // The window by which we call the client shall be one that is there: the other may just have been closed.
                Some(window) if self.server.client(window) == self.server.client(raised.window) => {
                    let renamed = Changed { window, ..raised };
                    self.journal.record(Some(renamed))?;
                    self.raised = Some(renamed);
                }
                _ => {
                    self.raised = None;
                    self.lower(raised)?;
                }
            }
        }
        if let (Some(window), None) = (wanted, self.raised) {
            self.raise(window)?;
        }
        // Rests go on when the focus moves, or who is served by turns in two windows would never rest.
        self.rest_due_ms = self.raised.map(|_| self.rest_due_ms.unwrap_or(now_ms + PERIOD_MS - REST_MS));
        Ok(())
    }

    fn raise(&mut self, window: Window) -> Result<(), Error> {
        match self.server.priority(window)? {
            Some(NORMAL) => {
                let changed = Changed { window, former: NORMAL };
                self.journal.record(Some(changed))?;
                self.server.set_priority(window, RAISED)?;
                self.raised = Some(changed);
                debug!("window {window:#x} has the focus: its client is served first");
            }
            Some(set) => debug!("window {window:#x} has the focus, and a priority of {set}: left alone"),
            None => debug!("window {window:#x} has the focus, but is gone"),
        }
        Ok(())
    }

    fn lower(&mut self, changed: Changed) -> Result<(), Error> {
        let known = match self.server.priority(changed.window)? {
            Some(priority) => Some((changed.window, priority)),
            None => match self.server.stand_in(changed.window)? {
                Some(other) => self.server.priority(other)?.map(|priority| (other, priority)),
                None => None,
            },
        };
        match known {
            Some((window, RAISED)) => {
                self.server.set_priority(window, changed.former)?;
                debug!("the client of window {window:#x} has its former priority of {} back", changed.former);
            }
            Some((window, set)) => debug!("somebody set the priority of window {window:#x} to {set}: left alone"),
            None => debug!("the client of window {:#x} has ended", changed.window),
        }
        self.journal.record(None)
    }
}

#[cfg(test)]
mod tests;
