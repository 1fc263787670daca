//! `appease-guest`: all that happens inside the laboratory's virtual machine.
//!
//! `init` is the machine's first process: it prepares the system, has a `session` carry out the
//! job that the host left on a disk, and powers the machine off. `enter` and `tree` are small tools
//! that the session and scenario files use.
#![forbid(unsafe_code)]

mod app;
mod asker;
mod check;
mod classes;
mod clock;
mod customer;
mod ending;
mod events;
mod far;
mod hog;
mod host;
mod init;
mod keyboard;
mod load;
mod meter;
mod migrations;
mod mix;
mod probe;
mod processes;
mod recorder;
mod scheduler;
mod scope;
mod screen;
mod sense;
mod session;
mod site;
mod soak;
mod spinner;
mod system;
mod trace;
mod tree;
mod typist;
mod verified;
mod visitor;
mod watchdog;

use std::process::ExitCode;

const USAGE: &str = "\
usage: appease-guest init                                  first process of a laboratory machine
       appease-guest session                               carry out the job on the job disk
       appease-guest enter [--scope DIR] [--nice N] [--gate] PROGRAM [ARGUMENT...]
                                                           run a program in a cgroup, or at a nice value
       appease-guest tree DIR FILES                        generate a C source tree to compile
       appease-guest site DIR ORIGIN                       generate a web page that asks ORIGIN for its parts
       appease-guest wire [ADDRESS...]                     join this machine to a network namespace, which is another one;
                                                           with these addresses beside its own
       appease-guest customer NAME ROUNDS PAUSE_MS COMMAND time a command; prints samples
       appease-guest ask NAME FROM URL closed:CONNECTIONS[:PAUSE_MS]|open:PER_SECOND:CONNECTIONS SECONDS [READY]
                                                           ask a web server again and again; prints samples
       appease-guest migrations NAME COMMAND               run a shell command; prints samples of its time, and of changes
                                                           of CPU and cache meanwhile
       appease-guest check-sensing [PART]                  check who gets attention; only checks with PART in their names
       appease-guest check-abuse [--short | PART]          check that nobody gains CPU time by tricks; in the short form some,
                                                           with PART only those with it in their names
       appease-guest check-guess                           check that a stranger guesses keys by chance alone
       appease-guest check-served [PART]                   the same behind programs that people use
       appease-guest check-programs                        check what the kernel's verifier had to do for ours
       appease-guest check-loads                           the same for each policy, and how long each takes to start
       appease-guest check-classes                         check shares by nice value and policy, and realtime classes
       appease-guest check-cpus                            check affinity, and a CPU that goes and comes
       appease-guest check-late                            check CPUs that come after our scheduler
       appease-guest check-gaps                            check CPUs whose numbers have gaps, or that have no tick
       appease-guest check-isolated                        check what is said where CPUs are isolated
       appease-guest check-reserve                         check what a realtime program starts while it stands back
       appease-guest check-clock                           check clocks, the saving of power, and fast CPUs
       appease-guest check-turns                           check that the machine's CPUs have equal parts of it
       appease-guest check-leaving                         check what our scheduler leaves behind
       appease-guest check-nice                            check whose nice values are changed, and given back
       appease-guest soak-kills BACKEND ROUNDS SEED        kill our daemon at random moments, and check what is left behind
       appease-guest soak-reloads ROUNDS SEED              attach and detach our scheduler again and again
       appease-guest soak-hotplug ROUNDS SEED              switch CPUs off and on under it
       appease-guest check-faults BACKEND [PART]           check what it does without files, memory, processes, time";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["init"] => return init::run(),
        ["session"] => session::run(),
        ["enter", rest @ ..] => app::enter(rest),
        ["tree", dir, files] => tree::command(dir, files),
        ["site", dir, origin] => site::generate(dir, origin),
        ["wire", more @ ..] => customer::lay_wire(more),
        ["customer", name, rounds, pause_ms, command] => customer::act(name, rounds, pause_ms, command),
        ["ask", name, from, url, how, seconds] => asker::act(name, from, url, how, seconds, None),
        ["ask", name, from, url, how, seconds, ready] => asker::act(name, from, url, how, seconds, Some(ready)),
        ["migrations", name, command] => migrations::command(name, command),
        ["check-sensing"] => sense::check(""),
        ["check-sensing", part] => sense::check(part),
        ["check-abuse"] => sense::abuse::check(false, ""),
        ["check-abuse", "--short"] => sense::abuse::check(true, ""),
        ["check-abuse", part] => sense::abuse::check(false, part),
        ["check-guess"] => sense::guess::check(),
        ["look-on", rest @ ..] => sense::guess::act(rest),
        ["check-served"] => sense::check_served(""),
        ["check-served", part] => sense::check_served(part),
        ["check-programs"] => verified::check(),
        ["check-loads"] => verified::check_loads(),
        ["check-classes"] => classes::check(),
        ["check-cpus"] => classes::check_cpus(),
        ["check-late"] => classes::check_late(),
        ["check-gaps"] => classes::check_gaps(),
        ["check-isolated"] => classes::check_isolated(),
        ["check-reserve"] => classes::check_reserve(),
        ["check-clock"] => classes::check_clock(),
        ["check-turns"] => classes::check_turns(),
        ["work", how @ ("plainly" | "with-timers")] => classes::work(how),
        ["check-leaving"] => classes::check_leaving(),
        ["check-nice"] => classes::check_nice(),
        ["soak-kills", backend, rounds, seed] => soak::kills(backend, rounds, seed),
        ["soak-reloads", rounds, seed] => soak::reloads(rounds, seed),
        ["soak-hotplug", rounds, seed] => soak::hotplug(rounds, seed),
        ["check-faults", backend] => soak::faults(backend, ""),
        ["check-faults", backend, part] => soak::faults(backend, part),
        ["burn"] => hog::burn(),
        ["bear", node] => classes::bear(node, "1000000"),
        ["bear", node, life_s] => classes::bear(node, life_s),
        ["serve-requests", port] => classes::serve_requests(port),
        ["ask-requests", port, each_s, seconds] => classes::ask_requests(port, each_s, seconds),
        ["nap", busy_ms, sleep_ms] => classes::nap(busy_ms, sleep_ms),
        ["sense-actor", dir, name] => sense::act(dir, name),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("appease-guest: {error:#}");
            ExitCode::FAILURE
        }
    }
}
