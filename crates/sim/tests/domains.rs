//! Machines of several caches under `appease`, and the locks of their queues.
#![allow(clippy::unwrap_used)]

use appease_policy::{PLACEMENT_CPU_LOOKS, PLACEMENT_DOMAIN_LOOKS};
use appease_sim::{
    Outcome, Scenario, SchedulerName, Simulation,
    scale::{CPUS_OF_A_CACHE, Queues, placing},
    schedulers::locks::Locks,
};

/// Events of a measurement: at 4,096 CPUs, some for each.
const EVENTS: u64 = 60_000;
const MOST_CPUS: u64 = 4096;

/// Waiting that is left with queues for each cache, for each decision, ns. Its 64 CPUs have a lock for 3 µs each of their turns of
/// 3 ms, 7 % of the time. A CPU that finds it taken waits for half of that: 100 ns, and less than a quarter of one time that it is taken.
const MOST_WAITED_NS: f64 = Locks::REMOVE_NS as f64 / 4.0;
/// What 64 times as many CPUs may add to that: noise of a run of a fraction of a second, but no part of 64.
const FLAT_WAITING: f64 = 1.5;
/// With one set of queues, 4,096 CPUs want its lock for more than three times as long as there is. They wait for each other all the
/// time: thousands of times longer, of which a hundredth will do.
const ONE_LOCK_WAITS: f64 = 100.0;
/// What 64 times as many CPUs may do to the host's time for a decision: their state does not fit the host's caches any more, and a
/// miss takes ten times as long as a hit. Work that grows with CPUs would make 64 of it.
const FLAT_COST: f64 = 8.0;
/// What it may be of what a decision costs on 64 machines apart, which miss the host's caches more often. It was two thirds to five sixths
/// of that; the rest is noise.
const COST_OF_APART: f64 = 1.5;
/// Looks into other domains for each decision, at most: a clock moves at each turn of a CPU of its domain, and if these come by chance, it
/// is behind by more than what is due, which is such a turn, for 1/e of the time.
const MOST_DOMAIN_LOOKS: f64 = 0.37;
/// What a share of a cgroup may be off in two seconds, as scenario `shares` has it.
const SHARE_OFF: f64 = 0.05;
/// CPUs that one wake-up looks at, at most: two near it, those that do what nobody waits for, and those of its domain.
const MOST_LOOKS: u32 = 2 + PLACEMENT_CPU_LOOKS * PLACEMENT_DOMAIN_LOOKS + PLACEMENT_CPU_LOOKS;

fn run(text: &str) -> Outcome {
    let scenario = Scenario::parse(&format!("name = \"test\"\n{text}"), "test").unwrap();
    Simulation::new(&scenario, SchedulerName::Appease, None).run()
}

/// With queues for each cache, a decision costs no more, looks at no more CPUs and waits no longer for locks on 64 times as many
/// CPUs. With one set of queues it waits for all others.
#[test]
fn decisions_cost_the_same_on_every_machine() {
    let one_cache = placing(Queues::OfCaches, CPUS_OF_A_CACHE, EVENTS).unwrap();
    let all = placing(Queues::OfCaches, MOST_CPUS, EVENTS).unwrap();
    let one_lock = placing(Queues::OfAll, MOST_CPUS, EVENTS).unwrap();
    assert!(all.locked > 1.5, "locks are simulated: {all:?}");
    assert!(all.waited_ns < MOST_WAITED_NS, "{all:?}");
    assert!(all.waited_ns < FLAT_WAITING * one_cache.waited_ns, "{one_cache:?} and {all:?}");
    assert!(one_lock.waited_ns > ONE_LOCK_WAITS * all.waited_ns, "{all:?} and {one_lock:?}");
    assert!(all.cpu_looks < one_cache.cpu_looks + 1.0, "{one_cache:?} and {all:?}");
    assert!(all.most_cpu_looks <= MOST_LOOKS, "{all:?}");
    assert!(all.decision_ns < FLAT_COST * one_cache.decision_ns, "{one_cache:?} and {all:?}");
    assert!(all.decision_ns < COST_OF_APART * all.apart_ns, "{all:?}");
}

/// A cgroup's virtual time passes as fast as CPUs run it, on 64 domains eight times as fast as on eight, and what is due elsewhere grows with
/// it. So a domain's clock seems behind for some of the time alone, and CPUs wait for locks no longer than without a cgroup.
#[test]
fn one_cgroup_is_seldom_looked_for_elsewhere() {
    let plain = placing(Queues::OfCaches, 8 * CPUS_OF_A_CACHE, EVENTS).unwrap();
    for cpus in [8 * CPUS_OF_A_CACHE, MOST_CPUS] {
        let of_cgroup = placing(Queues::OfCachesInCgroup, cpus, EVENTS).unwrap();
        assert!(of_cgroup.waited_ns < FLAT_WAITING * plain.waited_ns, "{plain:?} and {of_cgroup:?}");
        assert!(of_cgroup.domain_looks < MOST_DOMAIN_LOOKS, "{of_cgroup:?}");
    }
}

/// Also where all CPUs do attended work: a look at each would be 256.
#[test]
fn wake_ups_look_at_few_cpus() {
    let text = |caches: u32| {
        format!(
            "cpus = 256\ncaches = {caches}\nduration_s = 0.5\nsettle_s = 0.1\n[[hog]]\nid = \"hogs\"\nnumber = 256\n\
            [[server]]\nid = \"web\"\nnumber = 1000\nwork_ms = {{ exponential = 3 }}\n\
            [[customer]]\nid = \"customers\"\nnumber = 1000\nto = \"web\"\narrivals = {{ closed_ms = {{ exponential = 2 }} }}\n"
        )
    };
    for caches in [1, 4, 16] {
        let effort = run(&text(caches)).effort;
        assert!(
            effort.most_cpu_looks > PLACEMENT_CPU_LOOKS && effort.most_cpu_looks <= MOST_LOOKS,
            "{caches}: {effort:?}"
        );
    }
}

/// Locks, caches and all: the same seed gives the same run.
#[test]
fn the_same_seed_gives_the_same_run() {
    let text = "cpus = 16\ncaches = 4\nlocks = true\nduration_s = 1\n[[hog]]\nid = \"hogs\"\nnumber = 40\n\
        [[server]]\nid = \"web\"\nnumber = 20\nwork_ms = { exponential = 1 }\n\
        [[customer]]\nid = \"customers\"\nnumber = 40\nto = \"web\"\narrivals = { open_ms = { exponential = 10 } }\n";
    let figures = |outcome: &Outcome| format!("{:?} {:?} {:?}", outcome.metrics(), outcome.counts, outcome.effort);
    let outcome = run(text);
    assert_eq!(figures(&outcome), figures(&run(text)));
    assert!(outcome.effort.waited_ns > 0);
    assert_ne!(figures(&outcome), figures(&run(&text.replace("locks = true", "locks = false"))));
}

/// So many tasks that begin on the first of so many CPUs: the others there sleep.
fn on_the_first(tasks: u32, cpus: u32, times: &str) -> String {
    let sleepers = cpus - 1;
    (0..tasks)
        .map(|nth| {
            format!(
                "[[interactive]]\nid = \"work{nth}\"\n{times}\nattended = false\n\
                [[interactive]]\nid = \"sleepers{nth}\"\nnumber = {sleepers}\nwork_ms = 0.1\npause_ms = 100000000\n\
                attended = false\n"
            )
        })
        .collect()
}

/// No CPU is idle while a task waits in another domain: all begin in one of four, and there are at least as many as CPUs.
#[test]
fn no_cpu_is_idle_while_others_have_too_much() {
    let tasks = on_the_first(9, 4, "work_ms = { exponential = 5 }\npause_ms = { exponential = 0.001 }");
    let outcome = run(&format!("cpus = 4\ncaches = 4\nduration_s = 2\nsettle_s = 0.1\n{tasks}"));
    let ran_ns: u64 = outcome.tasks.iter().map(|tasks| tasks.ran_ns).sum();
    assert_eq!(ran_ns, outcome.duration_ns * 4);
}

/// Four tasks that never sleep began in one of two domains: two of them move.
#[test]
fn domains_share_out_what_waits() {
    let tasks = on_the_first(4, 2, "work_ms = 100000000\npause_ms = 1");
    let outcome = run(&format!("cpus = 2\ncaches = 2\nduration_s = 3\nsettle_s = 0.5\n{tasks}"));
    for nth in 0..4 {
        let share = outcome.task(&format!("work{nth}")).unwrap().ran_ns as f64 / outcome.duration_ns as f64;
        assert!((share - 0.5).abs() < 0.05, "task {nth} has {share} of a CPU");
    }
}

/// A lone CPU waits for no lock; what it spends there is its own.
#[test]
fn a_lone_cpu_waits_for_nobody() {
    let text = "cpus = 1\nlocks = true\nduration_s = 3\nsettle_s = 0.1\n[[hog]]\nid = \"hogs\"\nnumber = 2\n";
    let outcome = run(text);
    assert_eq!(outcome.effort.waited_ns, 0);
    // A turn of 3 ms, and 3.3 µs for the lock as one hog is queued and the other is taken.
    let share = outcome.task("hogs").unwrap().ran_ns as f64 / outcome.duration_ns as f64;
    let expected = 3_000_000.0 / (3_000_000 + Locks::INSERT_NS + Locks::REMOVE_NS) as f64;
    assert!((share - expected).abs() < 1e-4, "{share}, not {expected}");
}

/// What a cgroup of weight 100 has of its part beside one of weight 400, each with a hog for each CPU, in two seconds after half a second.
/// Turns end at ticks. The root's own tasks take CPUs for a moment, and each seed begins at another phase of the looks at queues.
fn light_of_part(cpus: u32, caches: u32, tick_ms: u32, seed: u32) -> f64 {
    let (settle_s, start_ms) = (0.5 + f64::from(seed * 37 % 100) / 1000.0, 5 + seed * 7 % 10);
    let outcome = run(&format!(
        "cpus = {cpus}\ncaches = {caches}\nseed = {seed}\ntick_ms = {tick_ms}\nsettle_s = {settle_s}\nduration_s = 2\n\
        [[hog]]\nid = \"light\"\nnumber = {cpus}\ncpu_weight = 100\n\
        [[hog]]\nid = \"heavy\"\nnumber = {cpus}\ncpu_weight = 400\nstart_ms = {start_ms}\n\
        [[interactive]]\nid = \"daemons\"\nnumber = {cpus}\nattended = false\n\
        work_ms = {{ exponential = 0.05 }}\npause_ms = {{ exponential = 10 }}\n"
    ));
    let [light, heavy] = ["light", "heavy"].map(|id| outcome.task(id).unwrap().ran_ns as f64);
    light / (light + heavy) / 0.2
}

/// Cgroups have their shares also where each has but one task for each CPU, so that a task of one in the wrong domain counts.
#[test]
fn cgroups_have_their_shares_on_several_caches() {
    for (cpus, caches) in [(4, 1), (4, 2), (4, 4), (8, 4), (8, 8), (64, 8), (128, 8), (256, 64)] {
        let runs = [1, 4].into_iter().flat_map(|tick_ms| (1..=20).map(move |seed| (tick_ms, seed)));
        let mut of_part: Vec<f64> = runs.map(|(tick_ms, seed)| light_of_part(cpus, caches, tick_ms, seed)).collect();
        of_part.sort_by(f64::total_cmp);
        let (least, most) = (of_part[0], of_part[of_part.len() - 1]);
        let is_fair = least > 1.0 - SHARE_OFF && most < 1.0 + SHARE_OFF;
        assert!(is_fair, "{cpus} CPUs, {caches} caches: {least} to {most} of its part");
    }
}
