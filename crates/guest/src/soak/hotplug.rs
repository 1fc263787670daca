//! CPUs go and come under 64 hogs: the scheduler stays attached, and nobody who wants a CPU waits for one for long.

use anyhow::{Result, ensure};

use super::{Backend, Rounds, Tally, Verdicts, daemon::Daemon, stage::Stage, state::State};
use crate::{
    check::figure,
    classes::{cpus::set_online, task::Task},
    clock::{self, MS},
    scheduler,
};

const HOGS: usize = 64;
/// Every so manieth hog may run on one CPU alone.
const PINNED_EACH: usize = 16;
/// How long one may wait for the CPU.
const STRANDED_MS: u64 = 1000;
/// For how long CPUs stay as they are, ms.
const LEAST_MS: u64 = 20;
const STAYS_MS: u64 = 150;

pub fn check(verdicts: &mut Verdicts, mut rounds: Rounds) -> Result<()> {
    let cpus = u32::try_from(std::thread::available_parallelism()?.get())?;
    ensure!(cpus > 1, "one CPU cannot go: this needs several");
    let stage = Stage::set()?;
    let pids = stage.pids();
    let before = State::now(&pids)?;
    let mut daemon = Daemon::ready(Backend::Scx)?;
    let sequence = scheduler::sequence();
    let mut crowd = Crowd::of(cpus)?;
    let mut tally = Tally::new("stays_attached_and_all_run");
    let mut on = vec![true; cpus as usize];
    for round in 0..rounds.number {
        let cpu = 1 + u32::try_from(rounds.chance.below(u64::from(cpus) - 1))?;
        let is_on = &mut on[cpu as usize];
        *is_on = !*is_on;
        set_online(cpu, *is_on)?;
        clock::sleep_ms(LEAST_MS + rounds.chance.below(STAYS_MS));
        let (state, now) = (scheduler::state(), scheduler::sequence());
        let mut stays = || {
            ensure!(state == "enabled" && now == sequence, "state is {state}, attachment {now} after {sequence}");
            daemon.must_run()
        };
        let done = stays().and_then(|()| crowd.get_on());
        let failed = done.is_err();
        tally.note(&format!("round {round}, CPU {cpu} {}", if on[cpu as usize] { "came" } else { "went" }), done);
        if failed && state != "enabled" {
            println!("{}", daemon.log());
            break;
        }
    }
    tally.tell(verdicts);
    figure("longest_wait_ms", clock::to_ms(crowd.longest_ns));
    for cpu in 1..cpus {
        set_online(cpu, true)?;
    }
    drop(crowd);
    verdicts.tell("the daemon ends well", daemon.end());
    verdicts.tell("nothing is left behind", before.is_back(&pids));
    Ok(())
}

/// Hogs, and since when each has not run.
struct Crowd {
    hogs: Vec<(Task, u64, u64)>,
    longest_ns: u64,
}

impl Crowd {
    fn of(cpus: u32) -> Result<Self> {
        let start = |number: usize| {
            let by = match number % PINNED_EACH {
                0 => format!("taskset -c {}", number / PINNED_EACH % cpus as usize),
                _ => "nice -n 0".to_owned(),
            };
            let task = Task::hog(&by)?;
            let ran_ns = task.ran_ns()?;
            Ok((task, ran_ns, clock::now_ns()))
        };
        let mut hogs = (0..HOGS).map(start).collect::<Result<Vec<_>>>()?;
        // To start the others took longer than anybody may wait.
        let now_ns = clock::now_ns();
        hogs.iter_mut().for_each(|(_, _, since_ns)| *since_ns = now_ns);
        Ok(Self { hogs, longest_ns: 0 })
    }

    /// Whether each has run a short while ago.
    fn get_on(&mut self) -> Result<()> {
        let mut stranded = Vec::new();
        for (task, ran_ns, since_ns) in &mut self.hogs {
            let now_ns = clock::now_ns();
            let found_ns = task.ran_ns()?;
            let waited_ns = now_ns - *since_ns;
            if found_ns != *ran_ns {
                (*ran_ns, *since_ns) = (found_ns, now_ns);
                continue;
            }
            self.longest_ns = self.longest_ns.max(waited_ns);
            if waited_ns > STRANDED_MS * MS {
                stranded.push(format!(
                    "{} has waited for {} ms, CPU {}",
                    task.pid(),
                    waited_ns / MS,
                    task.standing()?.cpu
                ));
            }
        }
        ensure!(stranded.is_empty(), "{}", stranded.join(", "));
        Ok(())
    }
}
