//! Which CPU tasks wake up on under `appease`: near their cache, on a whole core, on a fast one.
#![allow(clippy::unwrap_used)]

use appease_policy::PLACEMENT_MOVE_NS;
use appease_sim::{MS, Outcome, Scenario, SchedulerName, Simulation};
use proptest::prelude::*;

fn run_under(text: &str, scheduler: SchedulerName) -> Outcome {
    let scenario = Scenario::parse(&format!("name = \"test\"\n{text}"), "test").unwrap();
    Simulation::new(&scenario, scheduler, None).run()
}

fn run(text: &str) -> Outcome {
    run_under(text, SchedulerName::Appease)
}

/// A pause that lasts for longer than any simulation, ms.
const ALWAYS: f64 = 1e8;

const MOVE_MS: f64 = PLACEMENT_MOVE_NS as f64 / MS as f64;

fn changes(outcome: &Outcome) -> u64 {
    outcome.tasks.iter().map(|tasks| tasks.domain_changes).sum()
}

fn ran_ms(outcome: &Outcome, id: &str) -> f64 {
    outcome.task(id).unwrap().ran_ns as f64 / MS as f64
}

/// A second of two CPUs with a cache each. A task works and pauses on the first one, and a hog begins there half a second later. The task
/// displaces it each time. The other CPU is idle, but for a moment after each pause of `idle_ms`.
fn beside_a_late_hog(times: &str, idle_ms: f64) -> Outcome {
    run(&format!(
        "cpus = 2\ncaches = 2\nduration_s = 1\n[[hog]]\nid = \"hog\"\nstart_ms = 500\n\
        [[interactive]]\nid = \"neighbour\"\nwork_ms = 0.01\npause_ms = {idle_ms}\nattended = false\n\
        [[interactive]]\nid = \"work\"\n{times}\npause_ms = {{ uniform = [20, 30] }}\nattended = false\n"
    ))
}

/// The hog waits for less than half a millisecond, and goes on where its data is, though the other cache's CPU is idle, and looks for work
/// ten times in a millisecond.
#[test]
fn short_waits_change_no_cache() {
    let outcome = beside_a_late_hog("work_ms = 0.4", 0.1);
    assert_eq!(changes(&outcome), 0);
    let displaced = outcome.counts.displaced;
    assert!(displaced > 10, "they met: {displaced}");
    assert_eq!(ran_ms(&outcome, "hog"), 500.0 - 0.4 * displaced as f64);
}

/// It would wait for longer: so it goes to the idle CPU after that time, and no later.
#[test]
fn long_waits_end_on_an_idle_cpu_of_another_cache() {
    let outcome = beside_a_late_hog("work_ms = 2", ALWAYS);
    assert_eq!((changes(&outcome), outcome.counts.displaced), (1, 1));
    assert_eq!(ran_ms(&outcome, "hog"), 500.0 - MOVE_MS);
}

/// No CPU is idle when the hog begins to wait, as both answer somebody. The second one is 0.2 ms later, and takes the hog another half
/// millisecond later.
#[test]
fn a_cpu_that_goes_idle_comes_later() {
    let outcome =
        run("cpus = 2\ncaches = 2\nduration_s = 1\n[[server]]\nid = \"first\"\nwork_ms = 50\nterminal = true\n\
        [[server]]\nid = \"second\"\nwork_ms = 1.2\n[[hog]]\nid = \"hog\"\n\
        [[customer]]\nid = \"one\"\nto = \"first\"\narrivals = { at_ms = [600] }\n\
        [[customer]]\nid = \"two\"\nto = \"second\"\narrivals = { at_ms = [599] }\n");
    assert_eq!((changes(&outcome), outcome.counts.displaced), (1, 1));
    assert_eq!(ran_ms(&outcome, "hog"), 1000.0 - 0.2 - MOVE_MS);
}

/// Two hogs wait in a domain when both CPUs of the other one go idle, of which one is called. It takes the first hog, and has the other CPU take
/// the second.
#[test]
fn a_cpu_that_comes_calls_the_next() {
    let answers = |nth: u32, at_ms: f64, work_ms: f64| {
        format!(
            "[[server]]\nid = \"server{nth}\"\nwork_ms = {work_ms}\nterminal = true\n\
            [[customer]]\nid = \"customer{nth}\"\nto = \"server{nth}\"\narrivals = {{ at_ms = [{at_ms}] }}\n"
        )
    };
    let outcome = run(&format!(
        "cpus = 4\ncaches = 2\nduration_s = 1\n[[hog]]\nid = \"hogs\"\nnumber = 2\n{}{}{}{}",
        answers(0, 600.0, 50.0),
        answers(1, 600.1, 50.0),
        answers(2, 599.0, 1.2),
        answers(3, 599.0, 1.3),
    ));
    assert_eq!((changes(&outcome), outcome.counts.displaced), (2, 2));
    let (first_ms, second_ms) = (0.2 + MOVE_MS, 0.1 + MOVE_MS);
    assert_eq!(ran_ms(&outcome, "hogs"), 2.0 * 1000.0 - first_ms - second_ms);
}

/// A new process has nothing in a cache: it takes the idle CPU of the other one at once.
#[test]
fn new_tasks_take_any_idle_cpu() {
    let outcome = beside_a_late_hog("work_ms = 0.4\nnew_process = true", ALWAYS);
    assert_eq!((changes(&outcome), outcome.counts.displaced), (1, 0));
    assert_eq!(ran_ms(&outcome, "hog"), 500.0);
    assert_eq!(outcome.wait_ms("work").unwrap().max, 0.0);
}

/// Four tasks began on one of four CPUs with a cache each. They lose no more than half a millisecond at each wake-up.
#[test]
fn no_more_is_lost_than_the_waits() {
    let tasks: String = (0..4)
        .map(|nth| {
            format!(
                "[[interactive]]\nid = \"work{nth}\"\nwork_ms = 20\npause_ms = {{ uniform = [0.5, 1.5] }}\nattended = false\n\
                [[interactive]]\nid = \"sleepers{nth}\"\nnumber = 3\nwork_ms = 0.1\npause_ms = 100000000\n\
                attended = false\n"
            )
        })
        .collect();
    let outcome = run(&format!("cpus = 4\ncaches = 4\nduration_s = 5\nsettle_s = 0.1\n{tasks}"));
    let least = 20.0 / (20.0 + 1.5 + MOVE_MS);
    for nth in 0..4 {
        let share = outcome.task(&format!("work{nth}")).unwrap().ran_ns as f64 / outcome.duration_ns as f64;
        assert!(share > least, "{nth} had {share} of a CPU");
    }
}

/// The server and the hog are on the first of two CPUs with a cache each. The customer writes 20 requests of 0.3 ms.
fn beside_a_hog(terminal: bool) -> Outcome {
    let times: Vec<u64> = (1..=20).map(|nth| nth * 20).collect();
    run(&format!(
        "cpus = 2\ncaches = 2\nduration_s = 1\n[[server]]\nid = \"web\"\nwork_ms = 0.3\nterminal = {terminal}\n\
        [[server]]\nid = \"unused\"\nwork_ms = 1\n[[hog]]\nid = \"hog\"\n\
        [[customer]]\nid = \"customer\"\nto = \"web\"\narrivals = {{ at_ms = {times:?} }}\n"
    ))
}

/// Attended work displaces plain work of its own domain, which waits for it there; both find their caches warm. A message through a socket
/// wakes it synchronously, and then it takes the idle CPU of the other cache.
#[test]
fn attended_work_displaces_plain_work_of_its_cache() {
    let outcome = beside_a_hog(true);
    assert_eq!((changes(&outcome), outcome.counts.displaced), (0, 20));
    let brought = beside_a_hog(false);
    assert_eq!((changes(&brought), brought.counts.displaced), (1, 0));
    for outcome in [outcome, brought] {
        let response_ms = outcome.response_ms("customer").unwrap();
        assert!(response_ms.n == 20 && (response_ms.max - 0.3).abs() < 0.001, "{response_ms:?}");
    }
}

/// Where its own domain does attended work alone, attended work takes an idle CPU of another one at once.
#[test]
fn attended_work_displaces_no_attended_work_where_a_cpu_is_idle() {
    let outcome = run("cpus = 2\ncaches = 2\nduration_s = 1\n\
        [[server]]\nid = \"first\"\nwork_ms = 10\nterminal = true\n[[server]]\nid = \"unused\"\nwork_ms = 1\n\
        [[server]]\nid = \"second\"\nwork_ms = 1\nterminal = true\n\
        [[customer]]\nid = \"one\"\nto = \"first\"\narrivals = { at_ms = [100] }\n\
        [[customer]]\nid = \"two\"\nto = \"second\"\narrivals = { at_ms = [105] }\n");
    assert_eq!(["one", "two"].map(|id| outcome.customer(id).unwrap().latest.unwrap().response_ns / MS), [10, 1]);
    assert_eq!((outcome.task("second").unwrap().domain_changes, outcome.counts.displaced), (1, 0));
}

/// One core is at work, on its second CPU. The server's own CPU is the first one, but the other core is whole.
#[test]
fn whole_cores_go_before_idle_threads() {
    let text = |hogs: u32| {
        format!(
            "cpus = 4\nthreads = 2\nduration_s = 1\n[[server]]\nid = \"web\"\nwork_ms = 5\n\
            [[hog]]\nid = \"hogs\"\nnumber = {hogs}\n\
            [[customer]]\nid = \"customer\"\nto = \"web\"\narrivals = {{ at_ms = [100] }}\n"
        )
    };
    let response_ns = |hogs| run(&text(hogs)).customer("customer").unwrap().latest.unwrap().response_ns;
    assert_eq!(response_ns(1), 5 * MS);
    // The second hog has the other core, and half of a core does half as much.
    assert_eq!(response_ns(2), 10 * MS);
}

/// A hog and a server have a core each, and a second of work begins beside the hog. 35 ms later the server has answered, and
/// its core is idle: after two turns of 3 ms, one of the two that compute has that. Until then the work had half a core.
#[test]
fn computing_tasks_leave_a_shared_core() {
    let outcome = run("cpus = 4\nthreads = 2\nduration_s = 3\n[[server]]\nid = \"web\"\nwork_ms = 50\n\
        [[hog]]\nid = \"hog\"\nstart_ms = 990\n\
        [[interactive]]\nid = \"sleeper\"\nwork_ms = 0.1\npause_ms = 100000000\nattended = false\n\
        [[interactive]]\nid = \"work\"\nwork_ms = 1000\npause_ms = { uniform = [1000, 1001] }\nattended = false\n\
        [[customer]]\nid = \"customer\"\nto = \"web\"\narrivals = { at_ms = [985] }\n");
    assert_eq!(outcome.customer("customer").unwrap().latest.unwrap().response_ns, 50 * MS);
    let (shared_ms, ran_ms) = (35.0 + 2.0 * 3.0, ran_ms(&outcome, "work"));
    // Turns need not begin when the server's does.
    assert!((ran_ms - 1000.0 - shared_ms / 2.0).abs() < 3.0, "{ran_ms} ms for a second of work");
}

/// A CPU of half the capacity takes twice as long.
#[test]
fn slow_cpus_take_longer() {
    for scheduler in SchedulerName::ALL {
        let outcome = run_under(
            "cpus = 1\ncapacities = [512]\nduration_s = 1\n[[server]]\nid = \"web\"\nwork_ms = 5\n\
            [[customer]]\nid = \"customer\"\nto = \"web\"\narrivals = { at_ms = [100] }\n",
            scheduler,
        );
        let response_ns = outcome.customer("customer").unwrap().latest.unwrap().response_ns;
        assert!(response_ns.abs_diff(10 * MS) < 100, "{scheduler}: {response_ns}");
    }
}

/// The first of two CPUs is fast. The server ran on the slow one last. So many hogs are there.
fn beside_fast_hogs(hogs: u32) -> Outcome {
    let outcome = run(&format!(
        "cpus = 2\ncapacities = [1024, 512]\nduration_s = 1\n[[server]]\nid = \"unused\"\nwork_ms = 1\n\
        [[server]]\nid = \"web\"\nwork_ms = 5\n[[hog]]\nid = \"hogs\"\nnumber = {hogs}\n\
        [[customer]]\nid = \"customer\"\nto = \"web\"\narrivals = {{ at_ms = [100, 300, 500, 700] }}\n"
    ));
    let response_ms = outcome.response_ms("customer").unwrap();
    assert!(response_ms.n == 4 && (response_ms.max - 5.0).abs() < 0.01, "{response_ms:?}");
    outcome
}

/// A hog has the fast CPU. Attended work takes that, though the slow one is idle. The hog goes on there.
#[test]
fn attended_work_has_the_fast_cpu() {
    let outcome = beside_fast_hogs(1);
    assert_eq!((outcome.counts.displaced, ran_ms(&outcome, "hogs")), (1, 1000.0 - MOVE_MS));
}

/// Hogs have both CPUs. Attended work displaces the one on the fast CPU, and not the one where it ran last.
#[test]
fn attended_work_displaces_hogs_of_fast_cpus() {
    assert_eq!(beside_fast_hogs(2).counts.displaced, 4);
}

/// A CPU is fast and another slow. Two customers ask at once: the second one's server has the slow CPU. Plain work of 5 ms begins when both
/// CPUs are idle again, after so many ms. Its CPU time, ms.
fn plain_after_two(ms: u32, second: bool) -> f64 {
    let other = if second { "[[customer]]\nid = \"two\"\nto = \"second\"\narrivals = { at_ms = [101] }\n" } else { "" };
    let outcome = run(&format!(
        "cpus = 2\ncapacities = [1024, 512]\nduration_s = {}\n[[server]]\nid = \"first\"\nwork_ms = 10\n\
        [[server]]\nid = \"second\"\nwork_ms = 2\n[[interactive]]\nid = \"work\"\nwork_ms = 5\n\
        pause_ms = {{ uniform = [{ms}, {ms}.1] }}\nattended = false\n\
        [[customer]]\nid = \"one\"\nto = \"first\"\narrivals = {{ at_ms = [100] }}\n{other}",
        f64::from(ms + 50) / 1000.0
    ));
    let answers = outcome.customers.iter().map(|customer| customer.latest.unwrap().response_ns / MS);
    assert_eq!(answers.collect::<Vec<_>>(), if second { vec![10, 4] } else { vec![10] });
    ran_ms(&outcome, "work")
}

/// For an epoch after fast CPUs were wanted, plain work leaves them alone.
#[test]
fn plain_work_leaves_fast_cpus_that_are_wanted() {
    assert_eq!(plain_after_two(120, true), 10.0);
    assert_eq!(plain_after_two(120, false), 5.0, "one alone had a fast one");
    assert_eq!(plain_after_two(320, true), 5.0, "the epoch of 200 ms is over");
}

/// Plain tasks of the test below work for 3 ms, and pause for as long. At the most each of their wake-ups costs half a millisecond of a CPU that
/// EEVDF, which moves tasks at once, would have used.
const LEAST_OF_EEVDF: f64 = 6.0 / (6.0 + MOVE_MS);
/// With as many hogs as CPUs none is idle. Of 4 s, each CPU may miss eight waits of half a millisecond after the start.
const LEAST_OF_FULL: f64 = 1.0 - 8.0 * MOVE_MS / 4000.0;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Whatever the machine is like, all get on, and CPUs are as busy as under a scheduler that leaves none idle.
    #[test]
    fn nobody_is_lost_on_any_machine(
        (caches, cores, threads) in (1..=5u32, 1..=3u32, 1..=3u32),
        slow in prop::collection::vec(any::<bool>(), 15),
        more in 0..12u32,
        seed in 0..1000u32,
    ) {
        let (cpus, slow) = (caches * cores * threads, &slow[..(caches * cores) as usize]);
        let capacities: Vec<u32> =
            slow.iter().flat_map(|&slow| vec![if slow { 300 } else { 1024 }; threads as usize]).collect();
        let hogs = cpus / 2 + 1 + more;
        let text = format!(
            "cpus = {cpus}\ncaches = {caches}\nthreads = {threads}\ncapacities = {capacities:?}\nduration_s = 4\n\
            seed = {seed}\n[[hog]]\nid = \"hogs\"\nnumber = {hogs}\n\
            [[server]]\nid = \"data\"\nwork_ms = 1\nterminal = true\n\
            [[server]]\nid = \"web\"\nnumber = 3\nwork_ms = 2\ncalls = [{{ to = [\"data\"], then_ms = 1 }}]\n\
            [[interactive]]\nid = \"plain\"\nnumber = {cpus}\nattended = false\n\
            work_ms = {{ exponential = 3 }}\npause_ms = {{ exponential = 3 }}\n\
            [[customer]]\nid = \"customers\"\nnumber = 3\nto = \"web\"\narrivals = {{ at_ms = [5, 10, 20, 500, 900] }}\n"
        );
        let [appease_ns, eevdf_ns] = [SchedulerName::Appease, SchedulerName::Eevdf].map(|scheduler| {
            let outcome = run_under(&text, scheduler);
            let customers = outcome.customer("customers").unwrap();
            assert_eq!((customers.sent, customers.answered), (15, 15), "{scheduler}");
            assert!(["hogs", "plain"].iter().all(|id| outcome.task(id).unwrap().least_ns > 0), "{scheduler}");
            outcome.tasks.iter().map(|tasks| tasks.ran_ns as f64).sum::<f64>()
        });
        prop_assert!(appease_ns > LEAST_OF_EEVDF * eevdf_ns, "{} of {} ns", appease_ns, eevdf_ns);
        let full_ns = 4000.0 * MS as f64 * f64::from(cpus);
        prop_assert!(hogs < cpus || appease_ns > LEAST_OF_FULL * full_ns, "{} of {} ns", appease_ns, full_ns);
    }
}
