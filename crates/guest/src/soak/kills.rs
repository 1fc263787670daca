//! The daemon is killed at random moments: while it runs, while it starts, and while it ends. After `appease restore`, which the unit runs
//! after each end, or after the next start, all is as it was.

use std::fmt;

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::{
    Backend, Rounds, Tally, Verdicts,
    daemon::{Daemon, restore, since_ms},
    stage::Stage,
    state::State,
};
use crate::{check::figure, clock};

/// For how long it runs at most before it is killed, ms.
const RUNS_MS: u64 = 1500;
/// So much longer than what a start or an end took at first, moments may be chosen, per cent.
const BEYOND_PCT: u64 = 115;
/// One in so many is followed by another start, and not by `appease restore`.
const NOT_RESTORED: u64 = 4;

/// What the daemon does when it is killed. Half of the moments are of a start or an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Runs,
    Starts,
    Ends,
}

impl Doing {
    fn of_round(round: u32) -> Self {
        match round % 4 {
            1 => Self::Starts,
            3 => Self::Ends,
            _ => Self::Runs,
        }
    }
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Runs => "runs",
            Self::Starts => "starts",
            Self::Ends => "ends",
        })
    }
}

/// How long a start and an end take, ms.
struct Lengths {
    start_ms: u64,
    end_ms: u64,
}

pub fn check(verdicts: &mut Verdicts, backend: Backend, mut rounds: Rounds) -> Result<()> {
    let stage = Stage::set()?;
    let pids = stage.pids();
    let before = State::now(&pids)?;
    let lengths = measure(backend)?;
    verdicts.tell("one that is not killed leaves nothing behind", before.is_back(&pids));
    figure("start_ms", lengths.start_ms as f64);
    figure("end_ms", lengths.end_ms as f64);

    let (mut before, mut given_back) = (before, 0);
    let mut tallies = [Doing::Runs, Doing::Starts, Doing::Ends].map(|doing| (doing, Tally::new(name_of(doing))));
    for round in 0..rounds.number {
        let doing = Doing::of_round(round);
        let at_ms = rounds.chance.below(match doing {
            Doing::Runs => RUNS_MS,
            Doing::Starts => lengths.start_ms * BEYOND_PCT / 100,
            Doing::Ends => lengths.end_ms * BEYOND_PCT / 100 + 1,
        });
        // The last one is looked at for certain.
        let restores = rounds.chance.below(NOT_RESTORED) > 0 || round + 1 == rounds.number;
        let mut done = kill(backend, doing, at_ms);
        if restores && done.is_ok() {
            done = restore(&[]).map(|found| given_back += found).and_then(|()| before.is_back(&pids));
        }
        if done.is_err() {
            // Each later round is to tell of itself.
            let _ = restore(&[]);
            before = State::now(&pids)?;
        }
        let what = format!("round {round}, killed {at_ms} ms after it {doing}");
        if let Some((_, tally)) = tallies.iter_mut().find(|(of, _)| *of == doing) {
            tally.note(&what, done);
        }
    }
    tallies.into_iter().filter(|(_, tally)| tally.rounds > 0).for_each(|(_, tally)| tally.tell(verdicts));
    figure("given_back_by_restore", given_back.into());
    verdicts.tell("another daemon starts after all of them", Daemon::ready(backend).and_then(Daemon::end));
    verdicts.tell("and leaves nothing behind", before.is_back(&pids));
    Ok(())
}

fn name_of(doing: Doing) -> &'static str {
    match doing {
        Doing::Runs => "killed_while_it_runs",
        Doing::Starts => "killed_while_it_starts",
        Doing::Ends => "killed_while_it_ends",
    }
}

fn measure(backend: Backend) -> Result<Lengths> {
    let begin_ns = clock::now_ns();
    let daemon = Daemon::ready(backend).context("the first daemon")?;
    let start_ms = since_ms(begin_ns);
    let begin_ns = clock::now_ns();
    daemon.end()?;
    Ok(Lengths { start_ms, end_ms: since_ms(begin_ns) })
}

/// Kills a daemon so long after it began what it does.
fn kill(backend: Backend, doing: Doing, at_ms: u64) -> Result<()> {
    let daemon = if doing == Doing::Starts { Daemon::start(backend) } else { Daemon::ready(backend) }?;
    if doing == Doing::Ends {
        daemon.signal(Signal::TERM)?;
    }
    clock::sleep_ms(at_ms);
    daemon.kill()
}
