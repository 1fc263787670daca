//! People at the far side: each has an ssh session, types a line, waits for its answer, and types the next.
//!
//! One realtime thread has everybody's hands and eyes: an instant is taken when the line is handed to ssh, and when the
//! prompt that follows has come through.

use std::{
    io::{Read, Write},
    process::{ChildStdin, ChildStdout},
};

use anyhow::{Context, Result, anyhow, bail};
use appease_scenario::Visit;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};

use crate::{
    app::Program,
    clock::{self, Deadline, MS, from_seconds, now_ns},
    ending::stalled,
};

/// People do not press Enter in the same instant: time from one visitor's first line to the next one's.
const STAGGER_NS: u64 = 237 * MS;
/// Time to log in and to be asked for the first line, in seconds of a busy CPU.
const LOGIN_LIMIT_S: u64 = 120;
/// How much of what came is shown when something went wrong.
const SHOWN: usize = 800;

/// A line that was typed.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// Application of the visitor.
    pub app: String,
    /// Name of the line.
    pub line: String,
    /// When it was sent.
    pub sent_ns: u64,
    /// When its answer had come; nothing if that was after the end.
    pub answered_ns: Option<u64>,
}

/// Somebody who wants to know when a line is at work.
pub trait Observer: Send {
    /// The line `line` of the application `app` is about to be sent.
    fn begins(&mut self, app: &str, line: &str) -> Result<()>;
    /// It was answered, or the time is over.
    fn ends(&mut self, app: &str, line: &str) -> Result<()>;
}

/// What a visitor does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Types the next line then.
    Types(u64),
    /// Waits for an answer to what was sent then.
    Waits(u64),
    /// Nothing more.
    Leaves,
}

/// One session.
struct Visitor {
    app: String,
    visit: Visit,
    program: Program,
    keyboard: ChildStdin,
    screen: ChildStdout,
    /// What came since the last line was sent.
    seen: Vec<u8>,
    typed: usize,
    next: Next,
}

impl Visitor {
    fn line(&self) -> &appease_scenario::Line {
        &self.visit.lines[self.typed % self.visit.lines.len()]
    }

    /// Reads what has come; whether the prompt is in it.
    fn is_asked(&mut self) -> Result<bool> {
        let mut bytes = [0; 16384];
        let count = self.screen.read(&mut bytes).with_context(|| format!("read from {}", self.program.name))?;
        if count == 0 {
            bail!("{}", self.complaint("was closed"));
        }
        self.seen.extend_from_slice(&bytes[..count]);
        let prompt = self.visit.prompt.as_bytes();
        Ok(self.seen.windows(prompt.len()).any(|window| window == prompt))
    }

    fn complaint(&self, what: &str) -> anyhow::Error {
        let shown = String::from_utf8_lossy(&self.seen[self.seen.len().saturating_sub(SHOWN)..]).into_owned();
        anyhow!("{}; on its screen: {shown:?}", self.program.complaint(what))
    }

    fn wait_for_prompt(&mut self) -> Result<()> {
        let deadline = Deadline::after_s(LOGIN_LIMIT_S);
        loop {
            let mut watched = [PollFd::new(&self.screen, PollFlags::IN)];
            match poll(&mut watched, Some(&clock::timespec(20 * MS))) {
                Ok(0) => {}
                Ok(_) if self.is_asked()? => return Ok(()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => bail!("wait for {}: {error}", self.program.name),
            }
            if deadline.has_passed() {
                let error = self.complaint(&format!("showed no \"{}\" within {LOGIN_LIMIT_S} s", self.visit.prompt));
                return Err(stalled(error.to_string()));
            }
        }
    }

    /// Types the next line; when.
    fn types(&mut self) -> Result<u64> {
        self.seen.clear();
        let text = format!("{}\r", self.line().text);
        let at_ns = now_ns();
        self.keyboard.write_all(text.as_bytes()).with_context(|| format!("type into {}", self.program.name))?;
        self.next = Next::Waits(at_ns);
        Ok(at_ns)
    }

    fn was_answered(&mut self, at_ns: u64) {
        self.typed += 1;
        let all = self.visit.rounds as usize * self.visit.lines.len();
        let pause_ns = from_seconds(self.visit.pause_ms / 1e3);
        self.next = if self.typed < all { Next::Types(at_ns + pause_ns) } else { Next::Leaves };
    }
}

/// Everybody who is logged in. Who is dropped is logged out.
#[derive(Default)]
pub struct Visitors(Vec<Visitor>);

impl Visitors {
    /// One more, who waits for the first prompt. `program` is an ssh client whose standard streams are ours.
    pub fn add(&mut self, app: &str, visit: &Visit, mut program: Program) -> Result<()> {
        let keyboard = program.input().with_context(|| format!("{} takes no input", program.name))?;
        let screen = program.output().with_context(|| format!("{} gives no output", program.name))?;
        let (app, visit) = (app.to_owned(), visit.clone());
        self.0.push(Visitor { app, visit, program, keyboard, screen, seen: Vec::new(), typed: 0, next: Next::Leaves });
        self.0.last_mut().map_or(Ok(()), Visitor::wait_for_prompt)
    }

    /// Whether there is nobody.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Types from `begin_ns` until everybody has typed all, at the latest until `end_ns`.
    pub fn perform(mut self, begin_ns: u64, end_ns: u64, observer: &mut dyn Observer) -> Result<Vec<Said>> {
        for (visitor, place) in self.0.iter_mut().zip(0..) {
            visitor.next = Next::Types(begin_ns + place * STAGGER_NS);
        }
        let mut said = Vec::new();
        while now_ns() < end_ns && self.0.iter().any(|visitor| visitor.next != Next::Leaves) {
            let now = now_ns();
            for visitor in self.0.iter_mut().filter(|visitor| matches!(visitor.next, Next::Types(at) if at <= now)) {
                observer.begins(&visitor.app, &visitor.line().name)?;
                visitor.types()?;
            }
            let due = self.0.iter().filter_map(|visitor| match visitor.next {
                Next::Types(at_ns) => Some(at_ns),
                _ => None,
            });
            let until_ns = due.min().unwrap_or(end_ns).min(end_ns);
            for (place, at_ns) in self.heard_until(until_ns)? {
                let visitor = &mut self.0[place];
                let Next::Waits(sent_ns) = visitor.next else { continue };
                let (app, line) = (visitor.app.clone(), visitor.line().name.clone());
                observer.ends(&app, &line)?;
                visitor.was_answered(now_ns());
                said.push(Said { app, line, sent_ns, answered_ns: Some(at_ns) });
            }
        }
        for visitor in &self.0 {
            let Next::Waits(sent_ns) = visitor.next else { continue };
            let (app, line) = (visitor.app.clone(), visitor.line().name.clone());
            observer.ends(&app, &line)?;
            said.push(Said { app, line, sent_ns, answered_ns: None });
        }
        Ok(said)
    }

    /// Waits until then, or until something came; who was given a prompt, and when.
    fn heard_until(&mut self, until_ns: u64) -> Result<Vec<(usize, u64)>> {
        let left = until_ns.saturating_sub(now_ns());
        let mut watched: Vec<PollFd<'_>> =
            self.0.iter().map(|visitor| PollFd::new(&visitor.screen, PollFlags::IN)).collect();
        match poll(&mut watched, Some(&clock::timespec(left))) {
            Ok(0) | Err(Errno::INTR) => return Ok(Vec::new()),
            Ok(_) => {}
            Err(error) => bail!("wait for answers: {error}"),
        }
        let at_ns = now_ns();
        let ready: Vec<usize> =
            watched.iter().enumerate().filter(|(_, fd)| !fd.revents().is_empty()).map(|(place, _)| place).collect();
        drop(watched);
        let mut asked = Vec::new();
        for place in ready {
            let visitor = &mut self.0[place];
            if visitor.is_asked()? {
                asked.push((place, at_ns));
            }
        }
        Ok(asked)
    }
}

impl Drop for Visitors {
    fn drop(&mut self) {
        for visitor in &mut self.0 {
            visitor.program.kill();
        }
    }
}
