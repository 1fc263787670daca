//! A process under test: does what it is told, and nothing else that could carry attention.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use rustix::{
    buffer::spare_capacity,
    event::{EventfdFlags, PollFd, PollFlags, epoll, eventfd, poll},
    fs::{Mode, OFlags},
    io::{Errno, read, write},
    net::{RecvFlags, SendFlags, recv, sendto},
    pipe::{SpliceFlags, splice},
    process::{Signal, set_parent_process_death_signal},
    time::{ClockId, clock_gettime},
};

use super::{
    object::{Kind, Link},
    way::LINE,
    wire::{Answer, End, Order},
};

/// How often both sides look whether there is something new.
pub const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Where an actor's orders are.
pub fn orders_path(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.orders"))
}

/// Where its answers are.
pub fn answers_path(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.answers"))
}

/// The command that starts an actor.
pub fn command(dir: &Path, name: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["sense-actor".as_ref(), dir.as_os_str(), name.as_ref()]);
    command
}

/// The same by another program, of these words, which becomes the actor.
pub fn command_by(words: &[&str], dir: &Path, name: &str) -> Result<Command> {
    let (program, rest) = words.split_first().context("no program is named")?;
    let own = std::env::current_exe().context("look where this program is")?;
    let mut command = Command::new(program);
    command.args(rest).arg(own).args(["sense-actor".as_ref(), dir.as_os_str(), name.as_ref()]);
    Ok(command)
}

/// Lines of a growing file, each once.
pub struct Lines {
    file: File,
    pending: Vec<u8>,
}

impl Lines {
    /// Of this file, from its beginning.
    pub fn of(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
        Ok(Self { file, pending: Vec::new() })
    }

    /// The next whole line, if there is one.
    pub fn next(&mut self) -> Result<Option<String>> {
        self.file.read_to_end(&mut self.pending).context("read orders or answers")?;
        let Some(end) = self.pending.iter().position(|&byte| byte == b'\n') else { return Ok(None) };
        let line: Vec<u8> = self.pending.drain(..=end).collect();
        Ok(Some(String::from_utf8_lossy(&line[..end]).into_owned()))
    }
}

/// `sense-actor DIR NAME`: lives until its director ends.
pub fn run(dir: &str, name: &str) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("follow the director")?;
    let dir = Path::new(dir);
    let mut orders = Lines::of(&orders_path(dir, name))?;
    let path = answers_path(dir, name);
    let mut answers =
        OpenOptions::new().append(true).open(&path).with_context(|| format!("open {}", path.display()))?;
    let mut actor = Actor { dir: dir.to_owned(), channel: None, children: Vec::new() };
    loop {
        let Some(line) = orders.next()? else {
            std::thread::sleep(LOOK_EVERY);
            continue;
        };
        let answer = match line.parse::<Order>().and_then(|order| actor.obey(&order)) {
            Ok(number) => Answer::Done(number),
            Err(error) => Answer::Failed(format!("{error:#}")),
        };
        answers.write_all(format!("{answer}\n").as_bytes()).context("answer")?;
    }
}

struct Actor {
    dir: PathBuf,
    channel: Option<OwnedFd>,
    children: Vec<Child>,
}

impl Actor {
    fn end(&self, end: End) -> Result<BorrowedFd<'_>> {
        match end {
            End::Input => Ok(rustix::stdio::stdin()),
            End::Output => Ok(rustix::stdio::stdout()),
            End::Channel => self.channel.as_ref().map(AsFd::as_fd).context("no channel is open"),
        }
    }

    fn obey(&mut self, order: &Order) -> Result<i64> {
        match order {
            Order::Open { path, nonblocking } => {
                let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
                let flags = if *nonblocking { flags | OFlags::NONBLOCK } else { flags };
                self.channel =
                    Some(rustix::fs::open(path, flags, Mode::empty()).with_context(|| format!("open {path}"))?);
                Ok(0)
            }
            Order::Read(end) => read_once(self.end(*end)?),
            Order::Take(end, way) => number(way.take(self.end(*end)?)?),
            Order::Give(end, way) => number(way.give(self.end(*end)?, &self.dir)?),
            Order::ReadInThread(end) => {
                let end = self.end(*end)?;
                std::thread::scope(|scope| scope.spawn(|| read_once(end)).join())
                    .unwrap_or_else(|_| bail!("the thread failed"))
            }
            Order::Peek(end) => {
                let (bytes, _) = recv(self.end(*end)?, &mut [0; 64], RecvFlags::PEEK)?;
                number(bytes)
            }
            Order::Poll(end, ms) => {
                let mut watched = [PollFd::from_borrowed_fd(self.end(*end)?, PollFlags::IN)];
                let limit = Duration::from_millis((*ms).into()).try_into().context("limit")?;
                number(poll(&mut watched, Some(&limit))?)
            }
            Order::Epoll(end, ms) => {
                let watch = epoll::create(epoll::CreateFlags::CLOEXEC)?;
                epoll::add(&watch, self.end(*end)?, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
                let limit = Duration::from_millis((*ms).into()).try_into().context("limit")?;
                let mut ready = Vec::with_capacity(1);
                number(epoll::wait(&watch, spare_capacity(&mut ready), Some(&limit))?)
            }
            Order::Write(end) | Order::Signal(end) | Order::SendTo(end, _) | Order::SendLarge(end, _) => {
                write_message(self.end(*end)?, order)
            }
            Order::Burn(ms) => {
                let start = cpu_time();
                while cpu_time() - start < Duration::from_millis((*ms).into()) {}
                Ok(0)
            }
            Order::Sleep(ms) => {
                std::thread::sleep(Duration::from_millis((*ms).into()));
                Ok(0)
            }
            Order::Become(words) => {
                let (program, rest) = words.split_first().context("no program is named")?;
                Err(Command::new(program).args(rest).exec()).with_context(|| format!("become {program}"))
            }
            Order::Repeat(orders) => loop {
                // What cannot be done just now is done another time.
                for order in orders {
                    let _ = self.obey(order);
                }
            },
            Order::Spawn(name) => {
                let child = command(&self.dir, name).spawn().context("start a child")?;
                let pid = child.id().into();
                self.children.push(child);
                Ok(pid)
            }
            Order::Own(kind) => {
                let link = Link::new(*kind, &self.dir)?;
                write_message(&link.writer, &link.message(End::Output))?;
                read_once(&link.reader)
            }
            Order::Litter(kind, times) => {
                // All stay open until the end, so that each has an address of its own.
                let links = (0..*times).map(|_| Link::new(*kind, &self.dir)).collect::<Result<Vec<_>>>()?;
                for link in &links {
                    write_message(&link.writer, &link.message(End::Output))?;
                }
                number(links.len())
            }
            Order::Splices(times) => {
                let path = self.dir.join("spliced");
                fs::write(&path, LINE).with_context(|| format!("write {}", path.display()))?;
                let links = (0..*times).map(|_| Link::new(Kind::Pipe, &self.dir)).collect::<Result<Vec<_>>>()?;
                for link in &links {
                    let file = File::open(&path).with_context(|| format!("open {}", path.display()))?;
                    splice(&file, None, &link.writer, None, LINE.len(), SpliceFlags::empty()).context("splice")?;
                    read_once(&link.reader)?;
                }
                number(links.len())
            }
            Order::Counters(times) => {
                let counters: Vec<OwnedFd> =
                    (0..*times).map(|_| eventfd(1, EventfdFlags::CLOEXEC)).collect::<Result<_, Errno>>()?;
                for counter in &counters {
                    read_once(counter)?;
                }
                number(counters.len())
            }
        }
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// One read, of whatever size; the bytes.
pub fn read_once(end: impl AsFd) -> Result<i64> {
    let mut buffer = [0; 4096];
    loop {
        match read(&end, &mut buffer) {
            Ok(bytes) => return number(bytes),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Carries out one of the orders that write.
pub fn write_message(end: impl AsFd, order: &Order) -> Result<i64> {
    let bytes = match order {
        Order::Signal(_) => write(end, &1u64.to_ne_bytes())?,
        Order::SendTo(_, to) => sendto(end, LINE, SendFlags::empty(), to)?,
        Order::SendLarge(_, to) => sendto(end, &[b'x'; 4000], SendFlags::empty(), to)?,
        _ => write(end, LINE)?,
    };
    number(bytes)
}

fn number(count: usize) -> Result<i64> {
    i64::try_from(count).context("count")
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Makes the two files of an actor, empty.
pub fn make_files(dir: &Path, name: &str) -> Result<()> {
    for path in [orders_path(dir, name), answers_path(dir, name)] {
        fs::write(&path, "").with_context(|| format!("create {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_and_once() {
        let path = std::env::temp_dir().join(format!("appease-lines-{}", std::process::id()));
        fs::write(&path, "one\ntw").expect("write");
        let mut lines = Lines::of(&path).expect("open");
        assert_eq!(lines.next().expect("read").as_deref(), Some("one"));
        assert_eq!(lines.next().expect("read"), None);
        OpenOptions::new().append(true).open(&path).expect("open").write_all(b"o\nthree\n").expect("write");
        assert_eq!(lines.next().expect("read").as_deref(), Some("two"));
        assert_eq!(lines.next().expect("read").as_deref(), Some("three"));
        assert_eq!(lines.next().expect("read"), None);
        fs::remove_file(&path).expect("remove");
    }
}
