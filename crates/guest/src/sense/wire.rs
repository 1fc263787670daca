//! What the director of a check tells its actors, one line each, and what they answer.
//!
//! Lines go through files of tmpfs that both sides look at again and again: everything by which processes
//! are usually told something (pipes, sockets, terminals) is what is under test, and would carry attention itself.

use std::{fmt, net::SocketAddr, str::FromStr};

use anyhow::{Context, Error, Result, bail};

use super::{object::Kind, way::Way};

/// Between orders that are repeated together.
const BETWEEN: &str = "; ";

/// A descriptor of an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Standard input: what it reads of others.
    Input,
    /// Standard output: what it writes to others.
    Output,
    /// The device that it opened.
    Channel,
}

/// What an actor shall do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Open a device for reading.
    Open {
        /// Its node.
        path: String,
        /// Whether reads shall fail rather than wait.
        nonblocking: bool,
    },
    /// Read once.
    Read(End),
    /// Read once, by such a system call.
    Take(End, Way),
    /// Write a line by such a system call.
    Give(End, Way),
    /// Read once, in another thread.
    ReadInThread(End),
    /// Look at a message without taking it.
    Peek(End),
    /// Wait until there is something to read, for at most so many milliseconds; answers 1 if there is.
    Poll(End, u32),
    /// The same by epoll.
    Epoll(End, u32),
    /// Write a line.
    Write(End),
    /// Add 1 to an event counter.
    Signal(End),
    /// Send a datagram there.
    SendTo(End, SocketAddr),
    /// Send a datagram there that fits no single frame.
    SendLarge(End, SocketAddr),
    /// Spend so many milliseconds of CPU time.
    Burn(u32),
    /// Sleep for so many milliseconds.
    Sleep(u32),
    /// Be another program from now on, of these words.
    Become(Vec<String>),
    /// Do this again and again, until killed.
    Repeat(Vec<Order>),
    /// Start another actor, known by this name; answers its process id.
    Spawn(String),
    /// Make such an object, write to it and read that.
    Own(Kind),
    /// Make so many such objects, write to each, and close them unread.
    Litter(Kind, u32),
    /// Make so many pipes, fill each from a file without a write, and read that.
    Splices(u32),
    /// Make so many event counters that are not at 0, and read them.
    Counters(u32),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Input => "input",
            Self::Output => "output",
            Self::Channel => "channel",
        })
    }
}

impl FromStr for End {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        [Self::Input, Self::Output, Self::Channel]
            .into_iter()
            .find(|end| end.to_string() == text)
            .with_context(|| format!("no such end: {text}"))
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { path, nonblocking: false } => write!(f, "open {path}"),
            Self::Open { path, nonblocking: true } => write!(f, "open-nonblocking {path}"),
            Self::Read(end) => write!(f, "read {end}"),
            Self::Take(end, way) => write!(f, "take {end} {way}"),
            Self::Give(end, way) => write!(f, "give {end} {way}"),
            Self::ReadInThread(end) => write!(f, "read-in-thread {end}"),
            Self::Peek(end) => write!(f, "peek {end}"),
            Self::Poll(end, ms) => write!(f, "poll {end} {ms}"),
            Self::Epoll(end, ms) => write!(f, "epoll {end} {ms}"),
            Self::Write(end) => write!(f, "write {end}"),
            Self::Signal(end) => write!(f, "signal {end}"),
            Self::SendTo(end, to) => write!(f, "send-to {end} {to}"),
            Self::SendLarge(end, to) => write!(f, "send-large {end} {to}"),
            Self::Burn(ms) => write!(f, "burn {ms}"),
            Self::Sleep(ms) => write!(f, "sleep {ms}"),
            Self::Become(words) => write!(f, "become {}", words.join(" ")),
            Self::Repeat(orders) => {
                let orders: Vec<String> = orders.iter().map(Self::to_string).collect();
                write!(f, "repeat {}", orders.join(BETWEEN))
            }
            Self::Spawn(name) => write!(f, "spawn {name}"),
            Self::Own(kind) => write!(f, "own {kind}"),
            Self::Litter(kind, number) => write!(f, "litter {kind} {number}"),
            Self::Splices(number) => write!(f, "splices {number}"),
            Self::Counters(number) => write!(f, "counters {number}"),
        }
    }
}

impl FromStr for Order {
    type Err = Error;

    fn from_str(line: &str) -> Result<Self> {
        if let Some(orders) = line.strip_prefix("repeat ") {
            return orders.split(BETWEEN).map(str::parse).collect::<Result<_>>().map(Self::Repeat);
        }
        let words: Vec<&str> = line.split(' ').collect();
        Ok(match words.as_slice() {
            ["open", path] => Self::Open { path: (*path).to_owned(), nonblocking: false },
            ["open-nonblocking", path] => Self::Open { path: (*path).to_owned(), nonblocking: true },
            ["read", end] => Self::Read(end.parse()?),
            ["take", end, way] => Self::Take(end.parse()?, way.parse()?),
            ["give", end, way] => Self::Give(end.parse()?, way.parse()?),
            ["read-in-thread", end] => Self::ReadInThread(end.parse()?),
            ["peek", end] => Self::Peek(end.parse()?),
            ["poll", end, ms] => Self::Poll(end.parse()?, ms.parse()?),
            ["epoll", end, ms] => Self::Epoll(end.parse()?, ms.parse()?),
            ["write", end] => Self::Write(end.parse()?),
            ["signal", end] => Self::Signal(end.parse()?),
            ["send-to", end, to] => Self::SendTo(end.parse()?, to.parse()?),
            ["send-large", end, to] => Self::SendLarge(end.parse()?, to.parse()?),
            ["burn", ms] => Self::Burn(ms.parse()?),
            ["sleep", ms] => Self::Sleep(ms.parse()?),
            ["become", words @ ..] if !words.is_empty() => {
                Self::Become(words.iter().map(|word| (*word).to_owned()).collect())
            }
            ["spawn", name] => Self::Spawn((*name).to_owned()),
            ["own", kind] => Self::Own(kind.parse()?),
            ["litter", kind, number] => Self::Litter(kind.parse()?, number.parse()?),
            ["splices", number] => Self::Splices(number.parse()?),
            ["counters", number] => Self::Counters(number.parse()?),
            _ => bail!("no such order: {line}"),
        })
    }
}

/// What came of an order: a number (bytes, ready ends, a process id), or the name of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Done.
    Done(i64),
    /// Not done.
    Failed(String),
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done(number) => write!(f, "done {number}"),
            Self::Failed(why) => write!(f, "failed {}", why.replace('\n', " ")),
        }
    }
}

impl FromStr for Answer {
    type Err = Error;

    fn from_str(line: &str) -> Result<Self> {
        match line.split_once(' ') {
            Some(("done", number)) => Ok(Self::Done(number.parse().with_context(|| format!("answer: {line}"))?)),
            Some(("failed", why)) => Ok(Self::Failed(why.to_owned())),
            _ => bail!("no such answer: {line}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_understood() {
        let orders = [
            Order::Open { path: "/dev/input/event3".into(), nonblocking: false },
            Order::Open { path: "/dev/tty1".into(), nonblocking: true },
            Order::Read(End::Channel),
            Order::ReadInThread(End::Channel),
            Order::Peek(End::Input),
            Order::Poll(End::Channel, 500),
            Order::Epoll(End::Input, 10),
            Order::Write(End::Output),
            Order::Signal(End::Output),
            Order::SendTo(End::Output, ([127, 0, 0, 1], 4000).into()),
            Order::SendLarge(End::Output, ([127, 0, 0, 1], 4000).into()),
            Order::Burn(100),
            Order::Sleep(30),
            Order::Take(End::Input, Way::Splice),
            Order::Give(End::Output, Way::VectorAt),
            Order::Become(vec!["sh".into(), "-c".into(), "true".into()]),
            Order::Repeat(vec![Order::Burn(1), Order::Write(End::Output), Order::Read(End::Input)]),
            Order::Spawn("child".into()),
            Order::Litter(Kind::Pipe, 9),
            Order::Splices(3),
            Order::Counters(4),
        ];
        for order in orders.into_iter().chain(Kind::ALL.iter().map(|&kind| Order::Own(kind))) {
            let line = order.to_string();
            assert_eq!(line.parse::<Order>().ok(), Some(order), "{line}");
        }
        for answer in [Answer::Done(-1), Answer::Failed("EAGAIN, or so".into())] {
            assert_eq!(answer.to_string().parse::<Answer>().ok(), Some(answer));
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for line in
            ["", "read", "read elsewhere", "own goal", "burn much", "open a b", "take input away", "run", "repeat x"]
        {
            assert!(line.parse::<Order>().is_err(), "{line}");
        }
        assert!("maybe".parse::<Answer>().is_err());
    }
}
