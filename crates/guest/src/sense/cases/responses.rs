//! When requests end: by their response, in silence, or by time.

use std::{
    fs::OpenOptions,
    net::SocketAddr,
    os::fd::{AsRawFd, OwnedFd},
    process::Command,
};

use anyhow::{Context, Result, anyhow, ensure};
use rustix::{
    io::{FdFlags, fcntl_setfd},
    time::{ClockId, clock_gettime, clock_settime},
};

use super::{
    Case, case,
    sockets::{OTHER_PORT, PORT, READ, by_peer},
};
use crate::{
    clock::{self, Deadline},
    far::NEAR,
    sense::{
        answer::{self, Origin},
        device::{self, Device, Shape},
        object::{Kind, Link},
        program::{self, Program},
        rule::Rule,
        stage::{Actor, SETTLE_MS, Stage},
        way::Way,
        wire::{End, Order},
    },
};

/// Reads that opened nothing, for want of a record.
const DENIED: &str = "requests not opened: no record";
/// A write back to where a server's request came from.
const ANSWER: Order = Order::Write(End::Input);
/// What attention lasts, and what the daemon takes to look, milliseconds.
const OVER_MS: u64 = 5500;
/// A server that others work for is done when nobody has worked for so long, milliseconds, and a look after that.
const QUIET_MS: u64 = 1500;

pub fn all() -> Vec<Case> {
    vec![
        case("response by tcp", |stage| answered(stage, &ANSWER)),
        case("response by sendfile", |stage| answered(stage, &Order::Give(End::Input, Way::Sendfile))),
        case("response, then more of it", more),
        case("response with others' help", shared),
        case("silence", silence),
        case("too late", too_late),
        case("response by the console", console),
        case("requests of two customers in one process", threads),
        case("the clock is set meanwhile", clock_steps),
        case("more requests than one customer may have", many),
    ]
}

/// How many requests ended how, since the daemon began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ends {
    answered: u64,
    silent: u64,
    timed_out: u64,
}

impl Ends {
    const NONE: Self = Self { answered: 0, silent: 0, timed_out: 0 };

    fn so_far() -> Result<Self> {
        Ok(Self {
            answered: answer::counter("requests ended by their response")?,
            silent: answer::counter("requests ended without one: nobody worked on them any more")?,
            timed_out: answer::counter("requests ended without one, while somebody still did")?,
        })
    }

    /// Once all earlier requests are over.
    fn settled() -> Result<Self> {
        clock::sleep_ms(OVER_MS);
        Self::so_far()
    }

    fn since(self, before: Self) -> Self {
        Self {
            answered: self.answered - before.answered,
            silent: self.silent - before.silent,
            timed_out: self.timed_out - before.timed_out,
        }
    }

    /// Fails unless just these requests have ended after so long.
    fn must_become(before: Self, expected: Self, after_ms: u64) -> Result<()> {
        let deadline = Deadline::after_s(after_ms.div_ceil(1000));
        loop {
            let found = Self::so_far()?.since(before);
            if found == expected {
                return Ok(());
            }
            ensure!(!deadline.has_passed(), "expected {expected:?}, found {found:?} after {after_ms} ms");
            clock::sleep_ms(100);
        }
    }
}

/// A server that reads a request of a customer elsewhere, and serves it until this is dropped.
struct Served {
    _rule: Rule,
    link: Link,
    peer: SocketAddr,
    server: Actor,
    customer: Actor,
}

impl Served {
    fn begin(stage: &mut Stage) -> Result<Self> {
        let rule = Rule::add(&format!("read accept :{PORT}"))?;
        let (link, peer) = stage.elsewhere()?.calls(NEAR, PORT)?;
        let mut server = stage.actor("server", Some(&link.reader), None)?;
        let mut customer = stage.actor("customer", None, Some(&link.writer))?;
        customer.writes(&link)?;
        server.reads()?;
        Ok(Self { _rule: rule, link, peer, server, customer })
    }
}

/// A server reads a request and answers it: then it is over for the server, and counted as answered.
fn answered(stage: &mut Stage, order: &Order) -> Result<()> {
    let before = Ends::settled()?;
    let mut served = Served::begin(stage)?;
    clock::sleep_ms(SETTLE_MS);
    stage.verdict("before the response", served.server.stands("current"));
    served.server.does(order)?;
    clock::sleep_ms(SETTLE_MS);
    stage.verdict("after the response", served.server.stands("answered"));
    stage.verdict("counted", Ends::must_become(before, Ends { answered: 1, ..Ends::NONE }, QUIET_MS));
    served.customer.writes(&served.link)?;
    served.server.reads()?;
    stage.verdict("the next request", served.server.stands("current"));
    Ok(())
}

/// What was taken for the whole response was not: the next part opens the request again.
fn more(stage: &mut Stage) -> Result<()> {
    let before = Ends::settled()?;
    let mut served = Served::begin(stage)?;
    served.server.does(&ANSWER)?;
    clock::sleep_ms(SETTLE_MS);
    stage.verdict("taken for answered", served.server.stands("answered"));
    // It computes all the time, and never sleeps and wakes up.
    served.server.tell(&Order::Repeat(vec![ANSWER, Order::Burn(10)]))?;
    clock::sleep_ms(SETTLE_MS);
    stage.verdict("who goes on with it", served.server.attended(&by_peer(served.peer, &served.server), &[]));
    drop(served);
    stage.verdict("counted once", Ends::must_become(before, Ends { answered: 1, ..Ends::NONE }, OVER_MS));
    Ok(())
}

/// A server asks another one: both serve until the answer is out and nobody works on it.
fn shared(stage: &mut Stage) -> Result<()> {
    let before = Ends::settled()?;
    let _rule = Rule::add(&format!("read accept :{PORT}"))?;
    let (link, peer) = stage.elsewhere()?.calls(NEAR, PORT)?;
    let asked = stage.link(Kind::UnixStream)?;
    let mut server = stage.actor("server", Some(&link.reader), Some(&asked.writer))?;
    let mut service = stage.actor("service", Some(&asked.reader), None)?;
    stage.actor("customer", None, Some(&link.writer))?.writes(&link)?;
    server.reads()?;
    server.writes(&asked)?;
    service.reads()?;
    server.does(&ANSWER)?;
    let origin = by_peer(peer, &server);
    stage.verdict("the service, after an early answer", service.attended(&origin, &[("unix", service.pid)]));
    // They look for orders all the time, which is work.
    for actor in [&mut server, &mut service] {
        actor.tell(&Order::Sleep(60_000))?;
    }
    clock::sleep_ms(QUIET_MS);
    stage.verdict("the service, when nobody works on it", service.stands("answered"));
    stage.verdict("the server", server.stands("answered"));
    stage.verdict("counted", Ends::must_become(before, Ends { answered: 1, ..Ends::NONE }, QUIET_MS));
    Ok(())
}

/// A key is let go: there is nothing to answer.
fn silence(stage: &mut Stage) -> Result<()> {
    let before = Ends::settled()?;
    let mut handler = stage.handler("handler", None, None)?;
    stage.attend(&mut handler)?;
    let expected = Ends { silent: 1, ..Ends::NONE };
    // It looks for orders all the time, which is work on its last request: so it ends.
    drop(handler);
    stage.verdict("counted", Ends::must_become(before, expected, OVER_MS + 1000));
    Ok(())
}

/// A request whose server computes for longer than attention lasts.
fn too_late(stage: &mut Stage) -> Result<()> {
    let before = Ends::settled()?;
    let _served = Served::begin(stage)?;
    // Its looking for orders is work, of little time.
    clock::sleep_ms(OVER_MS);
    stage.verdict("counted", Ends::must_become(before, Ends { timed_out: 1, ..Ends::NONE }, 1000));
    Ok(())
}

/// What the time of day is makes no difference: nobody loses attention by it, or is thought to have waited for a day.
fn clock_steps(stage: &mut Stage) -> Result<()> {
    let before = Ends::settled()?;
    let mut served = Served::begin(stage)?;
    for days in [1, -2, 1] {
        let mut time = clock_gettime(ClockId::Realtime);
        time.tv_sec += days * 24 * 3600;
        clock_settime(ClockId::Realtime, time).context("set the clock")?;
        clock::sleep_ms(SETTLE_MS);
        stage.verdict(&format!("attended after a step of {days} days"), served.server.stands("current"));
    }
    served.server.does(&ANSWER)?;
    stage.verdict("counted", Ends::must_become(before, Ends { answered: 1, ..Ends::NONE }, QUIET_MS));
    Ok(())
}

/// Who reads the console and writes to it.
fn console(stage: &mut Stage) -> Result<()> {
    let before = Ends::settled()?;
    let mut keyboard = Device::new(Shape::Keyboard)?;
    keyboard.node("event")?;
    let node = device::console()?;
    let terminal = OpenOptions::new().read(true).write(true).open(&node);
    let terminal: OwnedFd = terminal.with_context(|| format!("open {node}"))?.into();
    let mut shell = stage.actor("shell", Some(&terminal), Some(&terminal))?;
    shell.waits_for(&READ)?;
    keyboard.touch()?;
    shell.done()?;
    shell.does(&Order::Write(End::Output))?;
    clock::sleep_ms(SETTLE_MS);
    stage.verdict("attended still: more may follow", shell.stands("current"));
    drop(shell);
    stage.verdict("counted", Ends::must_become(before, Ends { answered: 1, ..Ends::NONE }, OVER_MS + 1000));
    Ok(())
}

/// Two threads of one process serve two customers: what each writes for its own is stamped so.
fn threads(stage: &mut Stage) -> Result<()> {
    let _rules = [PORT, OTHER_PORT]
        .map(|port| Rule::add(&format!("read accept :{port}")))
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    let elsewhere = stage.elsewhere()?;
    let (one, first) = elsewhere.calls(NEAR, PORT)?;
    let (two, second) = elsewhere.calls(NEAR, OTHER_PORT)?;
    let (to_one, to_two) = (stage.link(Kind::UnixStream)?, stage.link(Kind::UnixStream)?);
    let inherited = |end: &OwnedFd| -> Result<String> {
        fcntl_setfd(end, FdFlags::empty()).context("let a program inherit an end")?;
        Ok(end.as_raw_fd().to_string())
    };
    let ends = [&one.reader, &to_one.writer, &two.reader, &to_two.writer];
    let ends = ends.into_iter().map(inherited).collect::<Result<Vec<_>>>()?;
    let program = program::compile(&stage.dir, "two", TWO)?;
    let mut server = Program::start(Command::new(program).args(ends), None, stage.dir.join("two.out"))?;
    server.prints(1)?;
    let mut behind_one = stage.actor("behind one", Some(&to_one.reader), None)?;
    let mut behind_two = stage.actor("behind two", Some(&to_two.reader), None)?;
    // The first one reads, then the other one; then both write.
    stage.actor("first customer", None, Some(&one.writer))?.writes(&one)?;
    clock::sleep_ms(SETTLE_MS);
    stage.actor("second customer", None, Some(&two.writer))?.writes(&two)?;
    behind_one.reads()?;
    behind_two.reads()?;
    let by = |peer: SocketAddr| Origin::new("inet", &peer.to_string(), server.pid());
    stage.verdict("behind the first thread", behind_one.attended(&by(first), &[("unix", behind_one.pid)]));
    stage.verdict("behind the second thread", behind_two.attended(&by(second), &[("unix", behind_two.pid)]));
    Ok(())
}

/// Reads from the first and third descriptor in a thread each, and half a second later writes to the one after it.
const TWO: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *serve(void *arg)
{
	char **ends = arg, line[64];
	ssize_t got = read(atoi(ends[0]), line, sizeof(line));

	usleep(500000);
	if (got > 0 && write(atoi(ends[1]), line, got) != got)
		return arg;
	pause();
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t one, two;

	pthread_create(&one, NULL, serve, argv + 1);
	pthread_create(&two, NULL, serve, argv + 3);
	puts("ready");
	fflush(stdout);
	pause();
	return 0;
}
"#;

/// One customer who has more open than it may gets no more attention for the newest; others do.
fn many(stage: &mut Stage) -> Result<()> {
    let denied = || answer::counter(DENIED);
    let before = denied()?;
    let _rules = [PORT, OTHER_PORT]
        .map(|port| Rule::add(&format!("read accept udp::{port}")))
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    let elsewhere = stage.elsewhere()?;
    let ((one, _), (two, _)) = (elsewhere.sends(NEAR, PORT)?, elsewhere.sends(NEAR, OTHER_PORT)?);
    let mut customer = stage.actor("customer", Some(&two.writer), Some(&one.writer))?;
    let mut server = stage.actor("server", Some(&two.reader), Some(&one.reader))?;
    // By turns from two ports, or what comes in quick succession would be one request.
    let both = |order: fn(End) -> Order| Order::Repeat(vec![order(End::Input), order(End::Output)]);
    customer.tell(&both(Order::Write))?;
    server.tell(&both(Order::Read))?;
    clock::sleep_ms(3000);
    let found = denied()? - before;
    let holds = if found > 0 { Ok(()) } else { Err(anyhow!("every read opened a request")) };
    stage.verdict("too many", holds);
    let mut handler = stage.handler("at the seat", None, None)?;
    stage.attend(&mut handler)?;
    stage.verdict("somebody else", handler.attended(&stage.by_remote(&handler), &[]));
    drop((customer, server));
    Ends::settled()?;
    let left = denied()?;
    let mut next = stage.actor("next server", Some(&one.reader), None)?;
    stage.actor("next customer", None, Some(&one.writer))?.writes(&one)?;
    next.reads()?;
    stage.verdict("when they are over", next.stands("current"));
    ensure!(denied()? == left, "the next one was denied");
    Ok(())
}
