//! What each scheduler is known for, in simulations.
#![allow(clippy::unwrap_used)]

use std::{fs, path::Path};

use appease_sim::{MS, Outcome, Scenario, SchedulerName, SchedulerName::*, Simulation};

fn scenario(text: &str) -> Scenario {
    Scenario::parse(&format!("name = \"test\"\n{text}"), "test").unwrap()
}

fn run(text: &str, under: SchedulerName) -> Outcome {
    Simulation::new(&scenario(text), under, None).run()
}

/// CPU time of a group, share of all CPUs.
fn share(outcome: &Outcome, id: &str) -> f64 {
    outcome.task(id).unwrap().ran_ns as f64 / (outcome.duration_ns * u64::from(outcome.cpus)) as f64
}

fn p99_ms(outcome: &Outcome, id: &str) -> f64 {
    outcome.response_ms(id).unwrap().p99
}

fn figures(outcome: &Outcome) -> String {
    format!("{:?} {:?} {}", outcome.metrics(), outcome.counts, outcome.mean_unhappiness_ns)
}

const MIXED: &str = r#"
cpus = 2
duration_s = 3
alpha = 0.2
load = 9
[[hog]]
id = "hogs"
number = 6
[[interactive]]
id = "typing"
number = 3
work_ms = { exponential = 2 }
pause_ms = { uniform = [20, 80] }
[[interactive]]
id = "build"
number = 4
work_ms = { pareto = { least = 1, shape = 1.5 } }
pause_ms = 3
attended = false
new_process = true
[[server]]
id = "web"
number = 3
work_ms = { exponential = 1 }
calls = [{ to = ["db", "cache"], then_ms = 0.5 }, { to = ["db"], then_ms = 0.2 }]
[[server]]
id = "db"
number = 2
work_ms = { lognormal = { median = 2, sigma = 0.5 } }
[[server]]
id = "cache"
work_ms = 0.2
[[customer]]
id = "users"
number = 5
to = "web"
arrivals = { open_ms = { exponential = 150 } }
[[customer]]
id = "vip"
weight = 4
to = "web"
arrivals = { closed_ms = { exponential = 30 } }
"#;

#[test]
fn the_same_seed_gives_the_same_run() {
    for under in SchedulerName::ALL {
        let scenario = scenario(MIXED);
        let with = |seed| figures(&Simulation::new(&scenario, under, Some(seed)).run());
        assert_eq!(with(7), with(7), "{under}");
        assert_ne!(with(7), with(8), "{under}");
    }
}

/// Every scheduler is faced with the same requests, and none wastes CPU time while somebody wants it.
#[test]
fn all_are_faced_with_the_same_and_waste_nothing() {
    let outcomes = SchedulerName::ALL.map(|under| run(MIXED, under));
    let sent = |outcome: &Outcome| outcome.customer("users").unwrap().sent;
    for outcome in &outcomes {
        let under = outcome.scheduler;
        assert_eq!(sent(outcome), sent(&outcomes[0]), "{under}");
        let used: u64 = outcome.tasks.iter().map(|tasks| tasks.ran_ns).sum();
        assert_eq!(used, outcome.duration_ns * 2, "{under}");
        assert!(outcome.customers.iter().all(|customers| customers.answered > 0), "{under}");
        assert!(outcome.mean_unhappiness_ns > 0.0, "{under}");
    }
}

/// A CPU more than there are tasks is idle, and nobody waits.
#[test]
fn who_finds_a_free_cpu_runs_at_once() {
    let text = "cpus = 5\nduration_s = 2\n[[hog]]\nid = \"hogs\"\nnumber = 3\n\
        [[interactive]]\nid = \"typing\"\nwork_ms = 2\npause_ms = { uniform = [5, 20] }\n";
    for under in SchedulerName::ALL {
        let outcome = run(text, under);
        assert_eq!(outcome.customer("typing").unwrap().latest.unwrap().unhappiness_ns, 0, "{under}");
        assert_eq!(outcome.task("hogs").unwrap().least_ns, outcome.duration_ns, "{under}");
    }
}

#[test]
fn turns_end_at_ticks_where_there_are_ticks() {
    let text = "cpus = 1\nduration_s = 1\n[[hog]]\nid = \"hogs\"\nnumber = 2\n";
    let turns = |tick: &str| run(&format!("{tick}\n{text}"), Eevdf).counts.turns_over;
    assert!(turns("") > 1000 && turns("tick_ms = 4") <= 250, "0.7 ms, and 4 ms");
}

#[test]
fn equal_hogs_get_equal_shares() {
    for (under, slack_ms) in [(RoundRobin, 10), (Cfs, 6), (Eevdf, 2), (Rbpe, 6), (Appease, 6)] {
        let outcome = run("cpus = 1\nduration_s = 5\n[[hog]]\nid = \"hogs\"\nnumber = 7\n", under);
        let hogs = outcome.task("hogs").unwrap();
        assert!(hogs.most_ns - hogs.least_ns <= slack_ms * MS, "{under}: {} to {}", hogs.least_ns, hogs.most_ns);
    }
}

/// More tasks than CPUs, and no whole number of them for each: balancing evens it out.
#[test]
fn shares_are_even_across_cpus() {
    for under in [Cfs, Eevdf, Appease] {
        let outcome = run("cpus = 4\nduration_s = 10\n[[hog]]\nid = \"hogs\"\nnumber = 10\n", under);
        let hogs = outcome.task("hogs").unwrap();
        assert!(hogs.least_ns * 2 > hogs.most_ns, "{under}: {} to {}", hogs.least_ns, hogs.most_ns);
    }
}

#[test]
fn nice_values_have_their_weights() {
    let text = "cpus = 1\nduration_s = 20\n[[hog]]\nid = \"a\"\nnice = -1\n[[hog]]\nid = \"b\"\n[[hog]]\nid = \"c\"\nnice = 5\n";
    for under in [Cfs, Eevdf, Rbpe, Appease] {
        let outcome = run(text, under);
        let all = 1277.0 + 1024.0 + 335.0;
        for (id, weight) in [("a", 1277.0), ("b", 1024.0), ("c", 335.0)] {
            let (got, due) = (share(&outcome, id), weight / all);
            assert!((got - due).abs() < 0.01, "{under}: {id} has {got}, {due} is due");
        }
    }
}

/// A heavy task's deadlines are early ones. By them alone it would run for six milliseconds before a light one has a turn; but
/// after one it has had more than its share, and is not eligible.
#[test]
fn eevdf_runs_nobody_ahead_of_its_share() {
    let text =
        "cpus = 1\nduration_s = 0.0016\n[[hog]]\nid = \"heavy\"\nnice = -10\n[[hog]]\nid = \"light\"\nnumber = 9\n";
    let outcome = run(text, Eevdf);
    assert!(outcome.task("light").unwrap().ran_ns > 0 && outcome.task("heavy").unwrap().ran_ns > 0);
}

/// Who sleeps for a moment before its slice is over has some of its share left, brings that along, and so loses nothing by it.
#[test]
fn eevdf_keeps_lag_over_a_sleep() {
    let text = "cpus = 1\nduration_s = 5\n[[hog]]\nid = \"hogs\"\nnumber = 7\n\
        [[interactive]]\nid = \"napper\"\nwork_ms = 0.35\npause_ms = 0.01\nattended = false\n";
    let napper = share(&run(text, Eevdf), "napper");
    assert!(napper > 0.115 && napper < 0.13, "an eighth is due; without its lag it has a fifteenth: {napper}");
}

const DESK: &str = "cpus = 1\nduration_s = 10\nsettle_s = 2\nload = 16\n[[hog]]\nid = \"hogs\"\nnumber = 16\n\
    [[interactive]]\nid = \"typing\"\nwork_ms = 1\npause_ms = { uniform = [100, 300] }\n";

/// The paper's point, and ours: 16 hogs, and somebody types.
#[test]
fn who_is_waited_for_goes_first() {
    assert!(p99_ms(&run(DESK, RoundRobin), "typing") > 100.0, "it waits for a round");
    for under in [Mlfq, Cas, Appease] {
        let worst = p99_ms(&run(DESK, under), "typing");
        assert!(worst < 2.0, "{under}: {worst} ms");
    }
}

#[test]
fn feedback_queues_favour_who_begins_and_starve_who_goes_on() {
    let text = "cpus = 1\nduration_s = 5\n[[hog]]\nid = \"old\"\n\
        [[interactive]]\nid = \"new\"\nnumber = 8\nwork_ms = 9\npause_ms = 60\nattended = false\n";
    let outcome = run(text, Mlfq);
    assert!(share(&outcome, "old") < 0.05, "{}", share(&outcome, "old"));
    assert!(share(&run(text, Cfs), "old") > 0.09);
}

#[test]
fn rbpe_is_silent_at_low_load_and_strong_at_high_load() {
    let text = |load: f64, hogs: u32| {
        format!(
            "load = {load}\ncpus = 1\nduration_s = 4\n[[hog]]\nid = \"hogs\"\nnumber = {hogs}\n\
            [[interactive]]\nid = \"player\"\nwork_ms = 12\npause_ms = 28\n"
        )
    };
    // Until the load is looked at first, it is 0.5, and both are one.
    let short = text(0.5, 4);
    assert_eq!(figures(&run(&short, Rbpe)), figures(&run(&short, Cfs)));
    let (cfs, rbpe) = (run(&text(16.0, 12), Cfs), run(&text(16.0, 12), Rbpe));
    assert!(p99_ms(&rbpe, "player") * 2.0 < p99_ms(&cfs, "player"));
    let unhappiness = |outcome: &Outcome| outcome.unhappiness_ms("player").unwrap().mean;
    assert!(unhappiness(&rbpe) * 2.0 < unhappiness(&cfs));
}

/// Table 1 has more for who reads a unix socket than for who reads a network socket.
#[test]
fn rbpe_prefers_local_customers() {
    let text = |socket: &str| {
        format!(
            "load = 16\ncpus = 1\nduration_s = 5\n[[hog]]\nid = \"hogs\"\nnumber = 12\n\
            [[server]]\nid = \"web\"\nwork_ms = 20\n[[customer]]\nid = \"one\"\nto = \"web\"\nsocket = \"{socket}\"\n\
            arrivals = {{ closed_ms = 100 }}\n"
        )
    };
    let mean = |socket: &str| run(&text(socket), Rbpe).response_ms("one").unwrap().mean;
    assert!(mean("unix") * 1.3 < mean("network"), "{} and {}", mean("unix"), mean("network"));
}

const TWO_QUEUES: &str = "cpus = 1\nduration_s = 5\n[[hog]]\nid = \"hog\"\n\
    [[server]]\nid = \"web\"\nnumber = 40\nwork_ms = { exponential = 5 }\n\
    [[customer]]\nid = \"light\"\nnumber = 20\nto = \"web\"\narrivals = { closed_ms = { exponential = 10 } }\n\
    [[customer]]\nid = \"heavy\"\nnumber = 20\nweight = 4\nto = \"web\"\narrivals = { closed_ms = { exponential = 10 } }\n";

/// Q0 before Q1 whatever comes, and the larger weight before the smaller.
#[test]
fn cas_has_two_queues_and_weights() {
    let outcome = run(TWO_QUEUES, Cas);
    assert!(share(&outcome, "hog") < 0.02, "{}", share(&outcome, "hog"));
    let mean = |id: &str| outcome.response_ms(id).unwrap().mean;
    assert!(mean("heavy") * 2.0 < mean("light"), "{} and {}", mean("heavy"), mean("light"));
}

/// Of equal requests, who came first is the unhappiest whenever all got as much, and is answered first; the last of them when
/// all the work is done.
#[test]
fn cas_serves_the_unhappiest_first() {
    let text = "cpus = 1\nduration_s = 1\n[[server]]\nid = \"web\"\nnumber = 3\nwork_ms = 30\n\
        [[customer]]\nid = \"a\"\nto = \"web\"\narrivals = { at_ms = [100] }\n\
        [[customer]]\nid = \"b\"\nto = \"web\"\narrivals = { at_ms = [101] }\n\
        [[customer]]\nid = \"c\"\nto = \"web\"\narrivals = { at_ms = [102] }\n";
    let outcome = run(text, Cas);
    let done = |id: &str, sent: u64| outcome.customer(id).unwrap().latest.unwrap().response_ns + sent * MS;
    let (a, b, c) = (done("a", 100), done("b", 101), done("c", 102));
    assert!(a < b && b < c, "{a}, {b}, {c}");
    assert_eq!(c, 190 * MS);
}

/// One request asks five services at once, another was sent a bit earlier and works alone. Five processes wait for the former, so
/// its total is the larger, and its services go first.
#[test]
fn cas_counts_all_processes_of_a_request() {
    let text = "cpus = 1\nduration_s = 1\n[[server]]\nid = \"wide\"\ncalls = [{ to = [\"part\", \"part\", \"part\", \
        \"part\", \"part\"] }]\nwork_ms = 0.1\n[[server]]\nid = \"part\"\nnumber = 5\nwork_ms = 10\n\
        [[server]]\nid = \"alone\"\nwork_ms = 50\n\
        [[customer]]\nid = \"one\"\nto = \"alone\"\narrivals = { at_ms = [100] }\n\
        [[customer]]\nid = \"other\"\nto = \"wide\"\narrivals = { at_ms = [101] }\n";
    let outcome = run(text, Cas);
    let response = |id: &str| outcome.customer(id).unwrap().latest.unwrap().response_ns;
    assert!(response("other") < 54 * MS && response("one") > 95 * MS, "{} {}", response("other"), response("one"));
}

/// Section 4, step 8: a new process need not wait for a round of all others.
#[test]
fn cas_gives_new_processes_a_start() {
    let text = |new: bool| {
        format!(
            "cpus = 1\nduration_s = 5\n[[hog]]\nid = \"hogs\"\nnumber = 16\n\
            [[interactive]]\nid = \"commands\"\nwork_ms = 2\npause_ms = 200\nattended = false\nnew_process = {new}\n"
        )
    };
    let wait = |new: bool, under| run(&text(new), under).wait_ms("commands").unwrap().p50;
    assert!(wait(true, Cas) < 0.1, "{}", wait(true, Cas));
    assert!(wait(true, Cfs) > 5.0, "{}", wait(true, Cfs));
}

/// Attended work that never ends leaves the others 5 % of the CPU. A single hog gets it late: at the end of an epoch it takes
/// turns with attended tasks, since it is not queued while its slice ends, and what is missing is carried on.
#[test]
fn appease_keeps_a_share_for_the_others() {
    let hog = share(&run(&format!("settle_s = 3\n{TWO_QUEUES}"), Appease), "hog");
    assert!(hog > 0.049 && hog < 0.06, "{hog}");
    assert!(share(&run(DESK, Appease), "hogs") > 0.9);
}

/// What wakes up seldom was owed all that had become due while it slept, before whoever was served at that moment.
#[test]
fn appease_owes_nothing_for_time_in_which_nobody_wanted_it() {
    let text = r#"
cpus = 1
duration_s = 60
[[server]]
id = "display"
work_ms = 0.1
calls = [{ to = ["terminal"], then_ms = 0.1 }]
[[server]]
id = "terminal"
work_ms = 0.1
[[customer]]
id = "keys"
to = "display"
arrivals = { open_ms = 53 }
[[interactive]]
id = "seldom"
work_ms = 8
pause_ms = 230
attended = false
"#;
    let outcome = run(text, Appease);
    let longest = outcome.response_ms("keys").unwrap().max;
    assert!(longest < 0.5, "a key waited {longest} ms behind what wakes up now and then");
    assert!(share(&outcome, "seldom") > 0.03);
}

/// A request that takes more than its budget is batch work, so a key press goes before it, and hogs have their share.
#[test]
fn appease_takes_a_long_request_for_batch_work() {
    let text = "cpus = 1\nduration_s = 6\n[[hog]]\nid = \"hog\"\n[[server]]\nid = \"octave\"\nwork_ms = 100000\n\
        [[customer]]\nid = \"user\"\nto = \"octave\"\narrivals = { at_ms = [0] }\n";
    let under_appease = share(&run(text, Appease), "octave");
    // 2 s with 95 % of the CPU, then half of it.
    assert!(under_appease > 0.6 && under_appease < 0.72, "{under_appease}");
    assert!(share(&run(text, Cas), "octave") > 0.99);
}

/// Behind a terminal the budget is 0.3 s: only what reads a message of another process is behind one.
#[test]
fn appease_gives_silent_work_behind_a_terminal_less() {
    let text = |terminal: bool| {
        format!(
            "cpus = 1\nduration_s = 6\n[[hog]]\nid = \"hog\"\n\
            [[server]]\nid = \"sshd\"\nwork_ms = 0.1\ncalls = [{{ to = [\"octave\"] }}]\n\
            [[server]]\nid = \"octave\"\nwork_ms = 100000\nterminal = {terminal}\n\
            [[customer]]\nid = \"user\"\nto = \"sshd\"\narrivals = {{ at_ms = [0] }}\n"
        )
    };
    let octave = |terminal| share(&run(&text(terminal), Appease), "octave");
    assert!(octave(false) > 0.6 && octave(true) < 0.55, "{} and {}", octave(false), octave(true));
}

/// Attention follows messages over processes: who works for a customer two hops away is not behind hogs.
#[test]
fn appease_follows_messages() {
    let text = "cpus = 1\nduration_s = 5\nsettle_s = 1\n[[hog]]\nid = \"hogs\"\nnumber = 16\n\
        [[server]]\nid = \"web\"\nwork_ms = 0.5\ncalls = [{ to = [\"app\"], then_ms = 0.1 }]\n\
        [[server]]\nid = \"app\"\nwork_ms = 0.5\ncalls = [{ to = [\"db\"], then_ms = 0.1 }]\n\
        [[server]]\nid = \"db\"\nwork_ms = 20\n\
        [[customer]]\nid = \"user\"\nto = \"web\"\narrivals = { closed_ms = { uniform = [50, 150] } }\n";
    let (ours, rr) = (p99_ms(&run(text, Appease), "user"), p99_ms(&run(text, RoundRobin), "user"));
    assert!(ours < 24.0 && rr > 400.0, "21.2 ms of work: {ours} and {rr}");
}

/// A crowd of requests at once does not keep a short one waiting for all of them.
#[test]
fn appease_lets_a_short_request_pass_long_ones() {
    let text = "cpus = 1\nduration_s = 5\n[[server]]\nid = \"builds\"\nnumber = 10\nwork_ms = 250\n\
        [[customer]]\nid = \"builders\"\nnumber = 10\nto = \"builds\"\narrivals = { at_ms = [1000] }\n\
        [[server]]\nid = \"shell\"\nwork_ms = 1\n\
        [[customer]]\nid = \"warm\"\nto = \"shell\"\narrivals = { at_ms = [500] }\n\
        [[customer]]\nid = \"typist\"\nto = \"shell\"\narrivals = { at_ms = [1500] }\n";
    let response = |under| run(text, under).customer("typist").unwrap().latest.unwrap().response_ns;
    assert!(response(Appease) < 40 * MS, "{}", response(Appease));
    assert!(response(Cas) > 1000 * MS, "its lead is kept by who once waited: {}", response(Cas));
}

/// Of customers who always want more than there is, one of weight 4 gets four times as much as one of weight 1: with equal
/// closed loops, it waits a quarter as long.
#[test]
fn appease_gives_customers_their_parts() {
    let outcome = run(&format!("settle_s = 2\n{TWO_QUEUES}").replace("duration_s = 5", "duration_s = 10"), Appease);
    let mean = |id: &str| outcome.response_ms(id).unwrap().mean;
    let ratio = mean("light") / mean("heavy");
    assert!(ratio > 3.0 && ratio < 5.0, "{} ms and {} ms: {ratio}", mean("light"), mean("heavy"));
}

/// Who seldom asks does not notice twenty who ask all the time, but for a turn of the other lane.
#[test]
fn appease_spares_who_seldom_asks() {
    let text = |crowd: &str| {
        format!(
            "cpus = 1\nduration_s = 20\nsettle_s = 2\n[[hog]]\nid = \"hog\"\n\
            [[server]]\nid = \"web\"\nnumber = 30\nwork_ms = 5\n\
            [[customer]]\nid = \"one\"\nto = \"web\"\narrivals = {{ closed_ms = {{ uniform = [150, 450] }} }}\n{crowd}"
        )
    };
    let crowd =
        "[[customer]]\nid = \"crowd\"\nnumber = 20\nto = \"web\"\narrivals = { closed_ms = { exponential = 10 } }\n";
    let (alone, beside) = (p99_ms(&run(&text(""), Appease), "one"), p99_ms(&run(&text(crowd), Appease), "one"));
    assert!(beside <= 1.3 * alone + 1.0, "{alone} ms alone, {beside} ms beside a crowd");
}

/// While customers want more records than there are, for requests that are not answered, the next one still finds one.
#[test]
fn appease_keeps_records_for_who_comes() {
    // Each of the front's processes waits for a single one behind, which never answers.
    let text = |customers: u32| {
        let times: Vec<String> = (0..100).map(|nth| (1 + nth * 10).to_string()).collect();
        format!(
            "cpus = 1\nduration_s = 4.8\n[[hog]]\nid = \"hogs\"\nnumber = 9\n\
            [[server]]\nid = \"front\"\nnumber = 5000\nwork_ms = 0.05\ncalls = [{{ to = [\"behind\"] }}]\n\
            [[server]]\nid = \"behind\"\nwork_ms = 100000\n\
            [[server]]\nid = \"shell\"\nwork_ms = 50\n\
            [[customer]]\nid = \"many\"\nnumber = {customers}\nto = \"front\"\narrivals = {{ at_ms = [{}] }}\n\
            [[customer]]\nid = \"one\"\nto = \"shell\"\narrivals = {{ at_ms = [3500] }}\n",
            times.join(", ")
        )
    };
    let response = |customers| run(&text(customers), Appease).customer("one").unwrap().latest.unwrap().response_ns;
    let (within, beyond) = (response(40), response(50));
    assert!(within < 100 * MS && beyond < 100 * MS, "{within} and {beyond}");
}

/// A request has its record until the customer's next one, if it was answered, and not for four seconds: those of customers
/// who ask six thousand times a second do not take up all of them.
#[test]
fn appease_frees_the_records_of_what_was_answered() {
    let text = "cpus = 1\nduration_s = 4.8\n[[hog]]\nid = \"hogs\"\nnumber = 9\n\
        [[server]]\nid = \"web\"\nnumber = 60\nwork_ms = 0.05\n[[server]]\nid = \"shell\"\nwork_ms = 50\n\
        [[customer]]\nid = \"many\"\nnumber = 60\nto = \"web\"\narrivals = { closed_ms = 10 }\n\
        [[customer]]\nid = \"one\"\nto = \"shell\"\narrivals = { at_ms = [3500] }\n";
    let outcome = run(text, Appease);
    let (response_ns, answered) =
        (outcome.customer("one").unwrap().latest.unwrap().response_ns, outcome.customer("many").unwrap().answered);
    assert!(answered > 20_000 && response_ns < 150 * MS, "{response_ns} beside {answered}");
}

/// Who wants less than a part has it at once beside hogs, also where a video player, who wants less than a part, too, works for longer at a
/// time, but for the half millisecond in which one who has just begun is kept, for a slice; the player loses nothing by that.
#[test]
fn steady_runs_first_who_wants_the_least() {
    let text = "cpus = 1\nduration_s = 20\n[[hog]]\nid = \"hogs\"\nnumber = 2\n\
        [[interactive]]\nid = \"typing\"\nwork_ms = 0.5\npause_ms = { uniform = [100, 200] }\n\
        [[interactive]]\nid = \"video\"\nwork_ms = 6\npause_ms = 34\n";
    let outcome = run(text, Steady);
    let (key, frame) = (outcome.response_ms("typing").unwrap(), p99_ms(&outcome, "video"));
    assert!(key.p90 < 0.6 && key.p99 < 3.6 && frame < 13.0, "a key takes {key:?}, a frame {frame} ms");
    let key_in_turn = run(text, RoundRobin).response_ms("typing").unwrap().p90;
    assert!(key_in_turn > 10.0 * key.p90, "in turn a key takes {key_in_turn} ms");
}

#[test]
fn machines_may_be_large() {
    let text = "cpus = 4096\nduration_s = 0.01\n[[hog]]\nid = \"hogs\"\nnumber = 20000\n\
        [[interactive]]\nid = \"typing\"\nnumber = 1000\nwork_ms = 1\npause_ms = { exponential = 20 }\n";
    for under in SchedulerName::ALL {
        let outcome = run(text, under);
        let used: u64 = outcome.tasks.iter().map(|tasks| tasks.ran_ns).sum();
        assert_eq!(used, outcome.duration_ns * 4096, "{under}");
    }
}

/// Every scenario that is delivered runs; its summary is one sentence.
#[test]
fn delivered_scenarios_run() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut found = 0;
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let short: String = text.lines().filter(|line| !line.starts_with("settle_s")).collect::<Vec<_>>().join("\n");
        let scenario = Scenario::parse(&short.replace("duration_s = ", "duration_s = 0.0"), "short").unwrap();
        assert_eq!(scenario.name, path.file_stem().unwrap().to_str().unwrap());
        assert!(!scenario.summary.is_empty());
        for under in SchedulerName::ALL {
            assert!(Simulation::new(&scenario, under, None).run().counts.events() > 0, "{}", scenario.name);
        }
        found += 1;
    }
    assert!(found >= 3);
}
