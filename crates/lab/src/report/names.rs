//! How metrics, schedulers and figures are called in texts for people.

use appease_scenario::{Grouping, Machine, Metric, Mode, Outcome, Run, WATCHDOG, scheduler_and_mix};

/// What is known of a metric beyond its name.
pub(crate) struct Known {
    /// The metric's name in result documents.
    pub name: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// Whether more is better, less is better, or neither.
    pub better: Better,
}

/// In which direction a metric improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Less,
    More,
    Neither,
}

/// The metrics in the order in which reports show them; unknown ones follow by name.
const METRICS: &[Known] = &[
    known("key_to_screen_ms", "Key press to screen update", Better::Less),
    known("key_to_screen_unanswered", "Keys that the screen never answered", Better::Less),
    known("typing_ms", "Typing: key press to screen update", Better::Less),
    known("video_ms", "Video: time between two frames shown", Better::Less),
    known("compute_ms", "Computing: an iteration", Better::Less),
    known("typing_completed", "Keys whose character was shown", Better::More),
    known("video_completed", "Frames shown", Better::More),
    known("compute_completed", "Iterations computed", Better::More),
    known("typing_cpu_pct", "CPU share of typing", Better::Neither),
    known("video_cpu_pct", "CPU share of the video’s player", Better::Neither),
    known("compute_cpu_pct", "CPU share of computing", Better::Neither),
    known("display_cpu_pct", "CPU share of the X server", Better::Neither),
    known("capture_cpu_pct", "CPU share of the camera", Better::Neither),
    known("compute_left_cpu_pct", "CPU share that the others left to computing", Better::Neither),
    known("command_ms", "Enter to the command’s last screen update", Better::Less),
    known("command_unanswered", "Commands that the screen never answered", Better::Less),
    known("reload_ms", "Request to the page’s last screen update", Better::Less),
    known("video_dropped_pct", "Video frames dropped", Better::Less),
    known("video_fps", "Video frames shown", Better::More),
    known("video_worst_second_fps", "Video frames shown in the worst second", Better::More),
    known("frame_interval_ms", "Time between two frames shown", Better::Less),
    known("video_player_drops", "Frames dropped by the player’s own count", Better::Less),
    known("load_ms", "Enter of “load” to the next prompt, over ssh", Better::Less),
    known("short_ms", "Enter of a short command to the next prompt, over ssh", Better::Less),
    known("loop_ms", "Enter of the long loop to the next prompt, over ssh", Better::Less),
    known("long_ms", "Enter of a long command to the next prompt, over ssh", Better::Less),
    known("mirror_ms", "A tree of files fetched from a web server", Better::Less),
    known("transaction_ms", "A transaction of a database", Better::Less),
    known("alone_response_ms", "A customer’s request to its answer, alone", Better::Less),
    known("one_response_ms", "The same beside a customer with a thousand connections", Better::Less),
    known("many_response_ms", "That customer’s request to its answer", Better::Less),
    known("closed_light_response_ms", "Request to answer, customer of weight 1 by eight connections", Better::Less),
    known("closed_heavy_response_ms", "Request to answer, customer of weight 4 by eight connections", Better::Less),
    known("open_light_response_ms", "Due request to answer, customer of weight 1 at fixed times", Better::Less),
    known("open_heavy_response_ms", "Due request to answer, customer of weight 4 at fixed times", Better::Less),
    known("page_response_ms", "Request to answer of a web server in a container", Better::Less),
    known("page_answers", "Its answers", Better::More),
    known("first_sound_ms", "Start until sound is heard", Better::Less),
    known("gaps", "Gaps in what is heard", Better::Less),
    known("buffers_lost", "Times that a card had nothing to play, or no room for what it heard", Better::Less),
    known("least_left_ms", "Least that the card had to play", Better::More),
    known("first_sound_1024_ms", "Start until sound is heard, periods of 1,024 samples", Better::Less),
    known("late_1024", "Threads late, by the sound server’s count, periods of 1,024 samples", Better::Less),
    known("empty_1024", "Times that the card had nothing to play, periods of 1,024 samples", Better::Less),
    known("first_sound_256_ms", "Start until sound is heard, periods of 256 samples", Better::Less),
    known("late_256", "Threads late, by the sound server’s count, periods of 256 samples", Better::Less),
    known("empty_256", "Times that the card had nothing to play, periods of 256 samples", Better::Less),
    known(
        "requests_answered_pct",
        "Requests seen to end by their response, of those that did not end in silence",
        Better::More,
    ),
    known("responses_seen_pct", "Responses seen, of all that were due while it was measured", Better::More),
    known("requests_answered", "Requests seen to end by their response", Better::Neither),
    known("requests_open", "Requests open at the end", Better::Neither),
    known("requests_silent", "Requests that ended when nobody worked on them any more", Better::Neither),
    known("requests_timed_out", "Requests that ended without a response", Better::Less),
    known("cyclictest_us", "How late a timer’s thread runs (cyclictest)", Better::Less),
    known("hackbench_ms", "Processes that send each other messages (hackbench)", Better::Less),
    known("pipe_ms", "Two processes and a pipe (perf bench sched pipe)", Better::Less),
    known("messaging_ms", "Processes and sockets (perf bench sched messaging)", Better::Less),
    known("build_ms", "A build by four processes", Better::Less),
    known("compile_ms", "A build on all CPUs", Better::Less),
    known("compile_migrations", "Changes of CPU during it", Better::Less),
    known("compile_migrations_across_caches", "Changes of last-level cache during it", Better::Less),
    known("other_lane_pct", "CPU time given in the other lane", Better::Neither),
    known("wakeup_each_ns", "A wake-up", Better::Less),
    known("switch_each_ns", "A switch between two who give way", Better::Less),
    known("message_each_ns", "A message that wakes up its reader", Better::Less),
    known("work_ms", "Work, start to end", Better::Less),
    known("busy_ms", "CPU time of the machine during the work", Better::Less),
    known("daemon_ms", "CPU time of the scheduler’s daemon during the work", Better::Less),
    known("longest_wait_ms", "Longest wait of any runnable task for a CPU", Better::Less),
    known("work_conserving_pct", "Time without a CPU idle while a task waits", Better::More),
    known("checks", "Checks made", Better::Neither),
    known("checks_failed", "Checks failed", Better::Less),
    known("load_share_pct", "CPU share of the whole background load", Better::More),
    known("load_longest_gap_ms", "Longest time a process of the load waited for CPU", Better::Less),
    known("load_process_share_pct", "CPU share of each process of the load", Better::More),
    known("load_process_gap_ms", "Longest wait for CPU of each process of the load", Better::Less),
];

const fn known(name: &'static str, title: &'static str, better: Better) -> Known {
    Known { name, title, better }
}

/// Whether `metric` belongs to how a run ended, and is told there.
pub(crate) fn is_of_ending(metric: &str) -> bool {
    metric == WATCHDOG
}

/// What the interactive work is paid with. A line that an ssh user types may be called `load`, too.
const COSTS: [&str; 4] = ["load_share_pct", "load_longest_gap_ms", "load_process_share_pct", "load_process_gap_ms"];

/// Whether `metric` tells of the host, whose figures say nothing of a scheduler.
pub(crate) fn is_of_host(metric: &str) -> bool {
    metric.ends_with("_host_s")
}

/// Whether `metric` tells what the background load got.
pub(crate) fn is_cost(metric: &str) -> bool {
    COSTS.contains(&metric)
}

/// Sort key: the order of [`METRICS`], then by name.
pub(crate) fn rank(metric: &str) -> (usize, &str) {
    let place = METRICS.iter().position(|known| known.name == metric);
    (place.unwrap_or(METRICS.len()), metric)
}

/// Heading of a metric, without its unit.
pub(crate) fn title(metric: &str) -> String {
    if let Some(known) = METRICS.iter().find(|known| known.name == metric) {
        return known.title.to_owned();
    }
    let stem = split_unit(metric).0.replace('_', " ");
    let mut letters = stem.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// In which direction a metric improves.
pub(crate) fn better(metric: &str) -> Better {
    METRICS.iter().find(|known| known.name == metric).map_or(Better::Neither, |known| known.better)
}

/// Unit of a metric, empty for plain numbers.
pub(crate) fn unit(metric: &str) -> &'static str {
    split_unit(metric).1
}

/// A metric's name without its unit, and that.
pub(crate) fn split_unit(metric: &str) -> (&str, &'static str) {
    const UNITS: &[(&str, &str)] =
        &[("_ms", "ms"), ("_s", "s"), ("_pct", "%"), ("_fps", "frames/s"), ("_us", "µs"), ("_ns", "ns")];
    UNITS
        .iter()
        .find_map(|(suffix, unit)| metric.strip_suffix(suffix).map(|stem| (stem, *unit)))
        .unwrap_or((metric, ""))
}

/// A scheduler's name as people write it.
pub(crate) fn scheduler(name: &str) -> String {
    if let (base, Some(mix)) = scheduler_and_mix(name) {
        return format!("{} + {mix}", scheduler(base));
    }
    match name {
        "eevdf" => "EEVDF".into(),
        "eevdf-autogroup" => "EEVDF, grouped by session".into(),
        "eevdf-scopes" => "EEVDF, one cgroup per app".into(),
        "eevdf-nice" => "EEVDF, everybody at nice −10".into(),
        other => other.into(),
    }
}

/// A layout in words.
pub(crate) fn layout(layout: Grouping) -> &'static str {
    match layout {
        Grouping::Scopes => "a cgroup for each program",
        Grouping::Flat => "all in one cgroup",
        Grouping::ScopesMany => "a cgroup for each process of the load",
        Grouping::ScopesShared => "the load in the cgroup of the first program",
    }
}

/// The machine in words.
pub(crate) fn machine(machine: Machine) -> String {
    let cpus = if machine.cpus == 1 { "1 CPU".into() } else { format!("{} CPUs", machine.cpus) };
    let cpus = if machine.caches == 1 { cpus } else { format!("{cpus} with {} caches", machine.caches) };
    let cpus = if machine.nodes == 1 { cpus } else { format!("{cpus} on {} nodes", machine.nodes) };
    let cpus = if machine.threads == 1 { cpus } else { format!("{cpus}, {} to a core", machine.threads) };
    let cpus = format!("{cpus}, {}", layout(machine.layout));
    match machine.mode {
        Mode::Exact => format!("exact mode, {cpus}"),
        Mode::Parallel => format!("parallel mode, {cpus}: only ratios and order mean something"),
    }
}

/// How a run ended, in words.
fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => "ok",
        Outcome::Evicted => "ejected by the kernel",
        Outcome::Stalled => "stalled",
        Outcome::Failed => "failed",
    }
}

/// How a run ended, in words; of an ejected scheduler, how long its watchdog let a task wait.
pub(crate) fn ending(run: &Run) -> String {
    match run.metrics.get(WATCHDOG) {
        Some(Metric::Scalar { value }) if run.outcome == Outcome::Evicted => {
            format!("{} (watchdog: {value} s)", outcome(run.outcome))
        }
        _ => outcome(run.outcome).into(),
    }
}

/// A figure with about three digits that count, and thousands apart.
pub(crate) fn figure(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "–".into();
    }
    let digits = if size == 0.0 || size >= 100.0 {
        0
    } else if size >= 10.0 {
        1
    } else if size >= 0.1 {
        2
    } else if size >= 0.01 {
        3
    } else {
        4
    };
    let text = format!("{value:.digits$}");
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), None), |(w, f)| (w, Some(f)));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |rest| ("−", rest));
    let mut grouped = String::from(sign);
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if let Some(fraction) = fraction {
        grouped.push('.');
        grouped.push_str(fraction);
    }
    grouped
}

/// `value` as a multiple of `base`, `None` where that means nothing.
pub(crate) fn ratio(value: f64, base: f64) -> Option<f64> {
    (base > 0.0 && value.is_finite()).then_some(value / base)
}

/// A ratio with its sign.
pub(crate) fn times(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "–".into(), |ratio| format!("{} ×", figure(ratio)))
}
