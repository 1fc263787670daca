//! A server of thousands of requests a second, for a customer at another machine: what the nice backend spends on it.
//!
//! The customer waits for each answer, and asks on when the next request is due, by a connection that stays. Every system call of
//! the daemon's is recorded by the kernel, which is part of what the daemon is found to cost.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::{
    Verdicts,
    task::{Task, nice_of},
    within,
};
use crate::{
    clock::{self, now_ns, to_ms},
    customer,
    far::{NAMESPACE, NEAR},
    recorder::{Recorder, must_be_whole},
    scheduler::{Kind, Scheduler},
    system::TOOLS,
};

const PORT: u16 = 7000;
/// Requests a second, and for how many seconds.
const EACH_S: u32 = 5000;
const SECONDS: u32 = 10;
/// Answered in that time, of those that were due, at least: a customer that waits longer asks less.
const LEAST_SHARE: f64 = 0.98;
/// The daemon's share of a CPU, per cent; what is allowed is 1.
const DAEMON_PCT: f64 = 1.0;
/// System calls of the daemon's, a second: some for each of ten looks, and those of what it does once a second anyway.
const CALLS_EACH_S: f64 = 300.0;
/// Of those the ones that change a thread: the server is raised once, and comes to wait for nobody.
const CHANGES: f64 = 4.0;
/// As the kernel numbers them on amd64: setpriority and sched_setattr.
const CHANGING: [u32; 2] = [141, 314];
/// Nice value of who is served, if its own is 0.
const SERVED: i32 = -20;
/// Bytes of a request, and of an answer.
const MESSAGE: usize = 64;
/// By then the hooks are attached that see responses, which is done once, when the first customer comes; and the server is served.
const BEFORE_S: u32 = 3;

/// `serve-requests PORT`: answers each message with one of as many bytes, one customer after the other.
pub fn serve(port: &str) -> Result<()> {
    let port: u16 = port.parse().with_context(|| format!("PORT is {port:?}"))?;
    let listener = TcpListener::bind((NEAR, port)).with_context(|| format!("listen at port {port}"))?;
    for customer in listener.incoming() {
        let mut customer = customer.context("take a customer")?;
        customer.set_nodelay(true)?;
        let mut message = [0; MESSAGE];
        while customer.read_exact(&mut message).is_ok() && customer.write_all(&message).is_ok() {}
    }
    Ok(())
}

/// `ask-requests PORT EACH_S SECONDS`: prints how many were answered.
pub fn ask(port: &str, each_s: &str, seconds: &str) -> Result<()> {
    let port: u16 = port.parse().with_context(|| format!("PORT is {port:?}"))?;
    let (each_s, seconds): (u64, u64) = (each_s.parse()?, seconds.parse()?);
    let mut server = TcpStream::connect((NEAR, port)).with_context(|| format!("connect to port {port}"))?;
    server.set_nodelay(true)?;
    let (begin_ns, pause_ns) = (now_ns(), clock::SECOND / each_s);
    let (end_ns, mut answered) = (begin_ns + seconds * clock::SECOND, 0);
    let mut due_ns = begin_ns;
    while now_ns() < end_ns {
        server.write_all(&[b'?'; MESSAGE]).context("ask")?;
        server.read_exact(&mut [0; MESSAGE]).context("be answered")?;
        answered += 1;
        due_ns += pause_ns;
        clock::sleep_until(due_ns);
    }
    println!("{answered}");
    Ok(())
}

pub fn check(verdicts: &mut Verdicts) -> Result<()> {
    customer::lay_wire(&[])?;
    let guest = format!("{TOOLS}/appease-guest");
    let server = Task::program("nice -n 0", &[&guest, "serve-requests", &PORT.to_string()])?;
    let ours = Scheduler::start(Kind::parse("appease@nice")?)?;
    ours.add_channels(&[format!("read accept :{PORT}")])?;
    let daemon = ours.pid().context("there is no daemon")?;
    let words = ["netns", "exec", NAMESPACE, "chrt", "--fifo", "25", &guest, "ask-requests"];
    let numbers = [PORT.to_string(), EACH_S.to_string(), (BEFORE_S + SECONDS).to_string()];

    let customer = Command::new("ip").args(words).args(numbers).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let customer = customer.context("start the customer")?;
    clock::sleep_ms(u64::from(BEFORE_S) * 1000);
    let nice = nice_of(server.pid())?;
    let record = Record::begin(daemon)?;
    let (begin_ns, ran_ns) = (now_ns(), ours.ran_ns());
    let out = customer.wait_with_output().context("wait for the customer")?;
    let (length_ns, ran_ns) = (now_ns() - begin_ns, ours.ran_ns() - ran_ns);
    let calls = record.end()?;

    let answered = String::from_utf8_lossy(&out.stdout).trim().parse::<f64>();
    let due = f64::from(EACH_S * (BEFORE_S + SECONDS));
    within(
        verdicts,
        "requests_answered",
        answered.context("the customer says no number")?,
        LEAST_SHARE * due,
        due + 1.0,
    );
    let is_served = || {
        ensure!(nice == SERVED, "the server has nice {nice}, and not {SERVED}");
        Ok(())
    };
    verdicts.tell("the server of many requests is served", is_served());
    within(verdicts, "daemon_pct", 100.0 * to_ms(ran_ns) / to_ms(length_ns), 0.0, DAEMON_PCT);
    let changes = calls.iter().filter(|call| CHANGING.contains(call)).count();
    within(verdicts, "daemon_changes", changes as f64, 0.0, CHANGES);
    let each_s = calls.len() as f64 * 1000.0 / to_ms(length_ns);
    within(verdicts, "daemon_calls_each_s", each_s, 1.0, CALLS_EACH_S);
    ours.end_by(Signal::TERM)?;
    Ok(())
}

/// The kernel's record of a process's system calls.
struct Record(Recorder);

const CALL: &str = "events/raw_syscalls/sys_enter/enable";

impl Record {
    fn begin(pid: u32) -> Result<Self> {
        let recorder = Recorder::own("requests")?;
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).context("list the daemon's threads")?.flatten();
        let tids: Vec<String> = tasks.map(|task| task.file_name().to_string_lossy().into_owned()).collect();
        recorder.set("buffer_size_kb", "8192")?;
        recorder.set("set_event_pid", &tids.join(" "))?;
        recorder.set(CALL, "1")?;
        Ok(Self(recorder))
    }

    /// The numbers of all calls.
    fn end(self) -> Result<Vec<u32>> {
        self.0.set(CALL, "0")?;
        let calls = calls(&self.0.text()?)?;
        self.0.remove()?;
        Ok(calls)
    }
}

/// The numbers of the system calls of a trace, which must be whole.
fn calls(trace: &str) -> Result<Vec<u32>> {
    must_be_whole(trace, "system calls")?;
    let numbers =
        trace.lines().filter_map(|line| line.split_once(": sys_enter: NR ")?.1.split(' ').next()?.parse().ok());
    Ok(numbers.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_calls_are_read_from_a_trace() {
        let trace = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 2/2   #P:1\n#\n\
                     \x20 appease-98 [000] ..... 8.2: sys_enter: NR 314 (0, 1, 2, 3, 4, 5)\n\
                     \x20 appease-98 [000] ..... 8.3: sys_enter: NR 232 (0, 1, 2, 3, 4, 5)\n";
        assert_eq!(calls(trace).expect("whole"), [314, 232]);
        assert!(calls(&trace.replace("2/2", "2/9")).is_err() && calls("").is_err());
    }
}
