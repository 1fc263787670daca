//! From a command line to a list of runs. Everything that can be wrong is found here, before anything starts.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use appease_scenario::{Grouping, Job, LONGEST_SETTLE_S, Load, Machine, Mode, Scenario};

use crate::{
    cli::{MachineArgs, RunArgs},
    debian::Wanted,
    host::{Layout, Program, free_space, require},
    scheduler::Scheduler,
    vm::{Limits, MEMORY_MIB},
};

/// Host time that every run may take, beside what its length allows.
const BASE_LIMIT_S: f64 = 400.0;
/// Host seconds that a virtual second may take. Busy ones take 3 to 4 where a host processor is free.
const HOST_PER_VIRTUAL: f64 = 15.0;
/// Host time until the guest tells anything, and more of it for each CPU, which all start one after another.
const BOOT_LIMIT: Duration = Duration::from_secs(180);
const BOOT_LIMIT_EACH_CPU: Duration = Duration::from_secs(5);
/// Most CPUs of a machine: more than 254 have no number on the old interrupt controller, and a cache takes a power of two of them.
const MOST_CPUS: u32 = 240;
/// Memory that a machine takes beyond its own: QEMU and its translated code, MiB.
const OVERHEAD_MIB: u64 = 768;
/// Disk space for runs, MiB: logs, results, pictures.
const RUN_SPACE_MIB: u64 = 64;

/// One machine's work: a run, or with `--same-boot` one for each scheduler.
#[derive(Debug, Clone)]
pub struct Planned {
    /// What the guest does.
    pub job: Job,
    /// On which kernel.
    pub kernel: Wanted,
    /// When it is given up.
    pub limits: Limits,
    /// Where its picture goes.
    pub screenshot: Option<PathBuf>,
    /// Where its trace goes.
    pub trace: Option<PathBuf>,
}

/// What shall run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The machines' runs, in the order of the results.
    pub runs: Vec<Planned>,
    /// The machine of all.
    pub machine: Machine,
    /// Machines at a time.
    pub jobs: usize,
    /// Files for /run/tools.
    pub tools: BTreeMap<String, PathBuf>,
}

impl Plan {
    /// Checks a command line and makes its list.
    ///
    /// # Errors
    /// Names what is wrong and the cure.
    pub fn new(layout: &Layout, args: &RunArgs) -> Result<Self> {
        let machine = machine(&args.machine, Mode::Exact)?;
        let scenarios = args.scenarios.iter().map(|name| scenario(layout, name)).collect::<Result<Vec<_>>>()?;
        let scenarios = scenarios.into_iter().map(|s| adapted(s, args)).collect::<Result<Vec<_>>>()?;
        let tools = tools(layout, &args.under)?;
        require(&[Program::SETPRIV])?;
        free_space(&layout.lab(""), RUN_SPACE_MIB, "running machines")?;
        free_space(&std::env::temp_dir(), RUN_SPACE_MIB, "running machines")?;
        if args.jobs == Some(0) {
            bail!("--jobs is 0: allowed is 1 or more");
        }
        if args.time_limit == Some(0) {
            bail!("--time-limit is 0: allowed is 1 or more");
        }
        if let Some(scheduler) = args.under.iter().find(|scheduler| args.same_boot && !scheduler.shares_boot()) {
            bail!("--same-boot: {scheduler} cannot share a machine with other schedulers: run it without --same-boot");
        }
        if let Some(out) = &args.out {
            let parent = out.parent().filter(|p| !p.as_os_str().is_empty());
            if parent.is_some_and(|dir| !dir.is_dir()) || out.is_dir() {
                bail!("--out {}: it is a directory, or its directory is not there: create it first", out.display());
            }
        }
        for (dir, what) in [(&args.screenshots, "screenshots"), (&args.trace, "traces")] {
            if let Some(dir) = dir {
                fs::create_dir_all(dir).with_context(|| format!("create {} for {what}", dir.display()))?;
            }
        }
        if let Some(layout) = args.layout.layout.map(Grouping::from)
            && let Some(scheduler) = args.under.iter().find(|scheduler| !scheduler.may_be_in(layout))
        {
            bail!("--layout {layout}: {scheduler} groups or raises programs itself: run it with --layout flat");
        }
        let mut runs = Vec::new();
        for scenario in &scenarios {
            for (scheduler, mix) in args.under.iter().filter_map(|scheduler| Some((scheduler, scheduler.mix()?))) {
                scenario.mix(mix).map_err(|reason| anyhow!("scheduler {scheduler}: {reason}"))?;
            }
            for kernel in &args.kernel {
                for load in if args.load.is_empty() { &scenario.loads } else { &args.load } {
                    scenario.accepts(*load).map_err(anyhow::Error::msg)?;
                    let together = if args.same_boot { args.under.len() } else { 1 };
                    for schedulers in args.under.chunks(together) {
                        runs.push(planned(scenario, kernel, *load, schedulers, machine, args)?);
                    }
                }
            }
        }
        let jobs = args.jobs.unwrap_or_else(|| default_jobs(machine)).min(runs.len());
        Ok(Self { runs, machine, jobs, tools })
    }
}

fn planned(
    scenario: &Scenario,
    kernel: &Wanted,
    load: Load,
    schedulers: &[Scheduler],
    machine: Machine,
    args: &RunArgs,
) -> Result<Planned> {
    let mut names = schedulers.iter().map(ToString::to_string);
    let may_be = |layout| schedulers.iter().all(|scheduler| scheduler.may_be_in(layout));
    let own = if may_be(scenario.layout) { scenario.layout } else { Grouping::Flat };
    let scheduler = names.next().context("--under names no scheduler: write one")?;
    let each = match args.time_limit {
        Some(seconds) => Duration::from_secs(seconds),
        None => Duration::from_secs_f64(BASE_LIMIT_S + HOST_PER_VIRTUAL * (scenario.duration_s + scenario.settle_s)),
    };
    let total = each.saturating_mul(u32::try_from(schedulers.len() * scenario.turns(load).len())?);
    let cpus = if machine.cpus > 1 { format!("-{}cpus", machine.cpus) } else { String::new() };
    let parts = [("caches", machine.caches), ("threads", machine.threads), ("nodes", machine.nodes)];
    let cpus = parts.into_iter().filter(|(_, n)| *n > 1).fold(cpus, |name, (what, n)| format!("{name}-{n}{what}"));
    let name = format!("{}-{scheduler}-{load}-{kernel}{cpus}", scenario.name).replace([':', '/'], "_");
    // QEMU writes a picture, and has another working directory in mind than we.
    let place = |dir: &Option<PathBuf>, ending: &str| match dir {
        Some(dir) => {
            let dir = fs::canonicalize(dir).with_context(|| format!("find {}", dir.display()))?;
            anyhow::Ok(Some(dir.join(format!("{name}.{ending}"))))
        }
        None => Ok(None),
    };
    let (screenshot, trace) = (place(&args.screenshots, "png")?, place(&args.trace, "txt")?);
    Ok(Planned {
        job: Job {
            scenario: scenario.clone(),
            scheduler,
            then: names.collect(),
            load,
            machine: Machine { layout: args.layout.layout.map_or(own, Into::into), ..machine },
            screenshot: screenshot.is_some(),
            trace: trace.is_some(),
        },
        kernel: kernel.clone(),
        limits: Limits { boot: (BOOT_LIMIT + BOOT_LIMIT_EACH_CPU * machine.cpus).min(total), total },
        screenshot,
        trace,
    })
}

fn adapted(scenario: Scenario, args: &RunArgs) -> Result<Scenario> {
    if args.rounds.is_some() && scenario.rounds.is_none() {
        bail!("--rounds: scenario \"{}\" has no rounds", scenario.name);
    }
    let scenario = if args.short { scenario.shortened() } else { scenario };
    let mut scenario = scenario.repeated(args.rounds, args.seed);
    if let Some(seconds) = args.settle {
        if !(0.0..=LONGEST_SETTLE_S).contains(&seconds) {
            bail!("--settle is {seconds}: allowed is 0 to {LONGEST_SETTLE_S}");
        }
        scenario.settle_s = seconds;
    }
    if let Some(seconds) = args.duration {
        if !(seconds > 0.0 && seconds <= 3600.0) {
            bail!("--duration is {seconds}: allowed is above 0, up to 3600");
        }
        return Ok(scenario.lasting(seconds));
    }
    Ok(scenario)
}

/// How many numbers the interrupt controllers of QEMU's machine `pc` have for CPUs.
const APIC_NUMBERS: u32 = 255;

/// The machine that the arguments ask for, of mode `default` if they name none, its programs in the usual layout.
///
/// # Errors
/// When there is no such machine.
pub fn machine(args: &MachineArgs, default: Mode) -> Result<Machine> {
    let mode = args.mode.map_or(default, Mode::from);
    let cpus = match (mode, args.cpus) {
        (Mode::Exact, None) => 1,
        (Mode::Parallel, None) => 2,
        (_, Some(n)) if (1..=MOST_CPUS).contains(&n) => n,
        (_, Some(n)) => bail!("--cpus is {n}: allowed is 1 to {MOST_CPUS}"),
    };
    let caches = args.caches.unwrap_or(1);
    if caches == 0 || !cpus.is_multiple_of(caches) {
        bail!("--caches is {caches}: allowed is what divides the number of CPUs, {cpus}");
    }
    let threads = args.threads.unwrap_or(1);
    if !(1..=2).contains(&threads) || !(cpus / caches).is_multiple_of(threads) {
        bail!("--threads is {threads}: allowed is 1, or 2 where each cache has an even number of CPUs");
    }
    let nodes = args.nodes.unwrap_or(1);
    if nodes == 0 || !caches.is_multiple_of(nodes) {
        bail!("--nodes is {nodes}: allowed is what divides the number of caches, {caches}");
    }
    // QEMU numbers the CPUs of each socket anew, from a multiple of a power of two.
    let of_each = cpus / caches;
    let numbers = (caches - 1) * of_each.next_power_of_two() + of_each;
    if numbers > APIC_NUMBERS {
        bail!(
            "--caches is {caches}: {cpus} CPUs have numbers up to {numbers} then, and the machine has {APIC_NUMBERS}: take fewer \
             caches, or for each a number of CPUs that is a power of two"
        );
    }
    Ok(Machine { mode, cpus, caches, threads, nodes, layout: Grouping::default() })
}

/// A scenario by name, or by its file.
///
/// # Errors
/// When there is none, or its file is wrong.
pub fn scenario(layout: &Layout, name: &str) -> Result<Scenario> {
    let path = if name.contains('/') || name.ends_with(".toml") {
        PathBuf::from(name)
    } else {
        layout.scenarios().join(format!("{name}.toml"))
    };
    if !path.is_file() {
        let known = scenario_names(&layout.scenarios());
        bail!("scenario \"{name}\" is not known ({} is not there): there is {}", path.display(), known.join(", "));
    }
    Ok(Scenario::load(&path)?)
}

/// Names of the scenarios in a directory.
#[must_use]
pub fn scenario_names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".toml")?.to_owned()))
        .collect();
    names.sort();
    names
}

/// Our programs that the guest needs for these schedulers.
fn tools(layout: &Layout, schedulers: &[Scheduler]) -> Result<BTreeMap<String, PathBuf>> {
    let guest = layout.program("appease-guest");
    if !guest.is_file() {
        bail!("the guest's program is not built ({} is not there): run `make build`", guest.display());
    }
    let mut tools = BTreeMap::from([("appease-guest".to_owned(), guest)]);
    // Ours is there under others, too: a scenario may start it itself.
    let ours = layout.program("appease");
    if ours.is_file() {
        tools.insert("appease".to_owned(), ours);
    }
    for scheduler in schedulers {
        tools.extend(scheduler.program(layout)?);
    }
    Ok(tools)
}

/// One machine for each processor that it can have for itself, as memory allows.
pub(crate) fn default_jobs(machine: Machine) -> usize {
    // The CPUs of an exact machine take turns on one.
    let cpus = if machine.mode == Mode::Exact { 1 } else { machine.cpus };
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let by_processor = processors / usize::try_from(cpus).unwrap_or(usize::MAX).max(1);
    let by_memory = available_memory_mib()
        .map_or(usize::MAX, |mib| usize::try_from(mib / (MEMORY_MIB + OVERHEAD_MIB)).unwrap_or(usize::MAX));
    by_processor.min(by_memory).max(1)
}

fn available_memory_mib() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib / 1024)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use anyhow::Result;
    use appease_scenario::{Grouping, Machine, Mode};

    use super::{MOST_CPUS, Plan, machine, scenario};
    use crate::{
        cli::{Cli, Command, MachineArgs, ModeName},
        host::Layout,
    };
    use clap::{CommandFactory, Parser};

    fn project(dir: &Path) -> Result<Layout> {
        for sub in ["scenarios", "crates/lab", "target/release", "target/lab/peers/bin"] {
            fs::create_dir_all(dir.join(sub))?;
        }
        fs::write(
            dir.join("scenarios/nap.toml"),
            "name = \"nap\"\nsummary = \"rest\"\nloads = [\"none\", \"hogs:4\"]\nduration_s = 10\n[short]\nduration_s = 2\ntimes = 1\n",
        )?;
        for program in ["release/appease-guest", "release/appease", "lab/peers/bin/scx_lavd"] {
            fs::write(dir.join("target").join(program), program)?;
        }
        Ok(Layout::with_target(dir, dir.join("target")))
    }

    fn plan(layout: &Layout, line: &str) -> Result<Plan> {
        let Command::Run(args) =
            Cli::try_parse_from(["appease-lab", "run"].into_iter().chain(line.split(' ')))?.command
        else {
            anyhow::bail!("not a run");
        };
        Plan::new(layout, &args)
    }

    fn told(layout: &Layout, dir: &Path, line: &str) -> String {
        let text = plan(layout, line).err().map(|e| format!("{e:#}")).unwrap_or_default();
        text.replace(&dir.display().to_string(), "PROJECT")
    }

    #[test]
    fn every_combination_once_in_order() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let layout = project(dir.path())?;
        let plan = plan(&layout, "nap --under eevdf,scx_lavd --kernel default,6.18 --short")?;
        let names: Vec<String> = plan
            .runs
            .iter()
            .map(|r| format!("{} {} {} {}", r.kernel, r.job.load, r.job.scheduler, r.job.scenario.duration_s))
            .collect();
        insta::assert_snapshot!(names.join("\n"), @r"
        default none eevdf 2
        default none scx_lavd 2
        default hogs:4 eevdf 2
        default hogs:4 scx_lavd 2
        6.18 none eevdf 2
        6.18 none scx_lavd 2
        6.18 hogs:4 eevdf 2
        6.18 hogs:4 scx_lavd 2
        ");
        assert_eq!(plan.tools.keys().collect::<Vec<_>>(), ["appease", "appease-guest", "scx_lavd"]);
        Ok(())
    }

    #[test]
    fn schedulers_share_a_boot_when_asked() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let layout = project(dir.path())?;
        let apart = plan(&layout, "nap --under eevdf,scx_lavd,appease")?;
        let line = "nap --under eevdf,scx_lavd,appease --same-boot";
        let together = plan(&layout, line)?;
        let names: Vec<Vec<&str>> = together.runs.iter().map(|run| run.job.schedulers().collect()).collect();
        assert_eq!(names, [["eevdf", "scx_lavd", "appease"]; 2], "one machine for each load");
        assert_eq!(together.runs[0].limits.total, apart.runs[0].limits.total * 3);
        assert_eq!(together.tools, apart.tools);
        let told = told(&layout, dir.path(), "nap --under eevdf,eevdf-scopes --same-boot");
        insta::assert_snapshot!(told, @"--same-boot: eevdf-scopes cannot share a machine with other schedulers: run it without --same-boot");
        Ok(())
    }

    #[test]
    fn errors_name_the_thing_and_the_cure() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let layout = project(dir.path())?;
        let told = |line: &str| told(&layout, dir.path(), line);
        insta::assert_snapshot!(told("work"), @r#"scenario "work" is not known (PROJECT/scenarios/work.toml is not there): there is nap"#);
        insta::assert_snapshot!(told("nap --under scx_flash"), @"scheduler scx_flash is not built (PROJECT/target/lab/peers/bin/scx_flash is not there): run `appease-lab peers scx_flash`");
        insta::assert_snapshot!(told("nap --cpus 241"), @"--cpus is 241: allowed is 1 to 240");
        insta::assert_snapshot!(told("nap --under eevdf-nice --layout scopes"), @"--layout scopes: eevdf-nice groups or raises programs itself: run it with --layout flat");
        insta::assert_snapshot!(told("nap --cpus 4 --caches 4 --threads 2"), @"--threads is 2: allowed is 1, or 2 where each cache has an even number of CPUs");
        insta::assert_snapshot!(told("nap --cpus 4 --caches 2 --nodes 4"), @"--nodes is 4: allowed is what divides the number of caches, 2");
        insta::assert_snapshot!(told("nap --cpus 4 --caches 3"), @"--caches is 3: allowed is what divides the number of CPUs, 4");
        insta::assert_snapshot!(told("nap --cpus 240 --caches 48"), @"--caches is 48: 240 CPUs have numbers up to 381 then, and the machine has 255: take fewer caches, or for each a number of CPUs that is a power of two");
        insta::assert_snapshot!(told("nap --duration 0"), @"--duration is 0: allowed is above 0, up to 3600");
        insta::assert_snapshot!(told("nap --settle 301"), @"--settle is 301: allowed is 0 to 300");
        insta::assert_snapshot!(told("nap --load users:3"), @r#"load users:3: scenario "nap" has no application of kind ssh"#);
        insta::assert_snapshot!(told("nap --under appease,eevdf+fifo"), @r#"scheduler eevdf+fifo: scenario "nap" has no mix "fifo": it has none"#);
        let mixed = "name = \"mixed\"\nsummary = \"\"\nloads = [\"none\"]\nduration_s = 1\n[[mix]]\nname = \"calm\"\n";
        fs::write(dir.path().join("scenarios/mixed.toml"), mixed)?;
        assert_eq!(plan(&layout, "mixed --under eevdf+calm,appease+calm")?.runs[1].job.scheduler, "appease+calm");
        insta::assert_snapshot!(told("mixed --under eevdf+calm,eevdf+clam"), @r#"scheduler eevdf+clam: scenario "mixed" has no mix "clam": there is calm"#);
        insta::assert_snapshot!(told("nap --jobs 0"), @"--jobs is 0: allowed is 1 or more");
        fs::write(dir.path().join("scenarios/bad.toml"), "name = \"bad\"\nsummary = 3\n")?;
        insta::assert_snapshot!(told("bad"), @r"
        scenario PROJECT/scenarios/bad.toml: TOML parse error at line 2, column 11
          |
        2 | summary = 3
          |           ^
        invalid type: integer `3`, expected a string
        ");
        fs::remove_file(dir.path().join("target/release/appease-guest"))?;
        insta::assert_snapshot!(told("nap"), @"the guest's program is not built (PROJECT/target/release/appease-guest is not there): run `make build`");
        Ok(())
    }

    #[test]
    fn a_load_may_be_older_than_the_scenario_says() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let layout = project(dir.path())?;
        let [young, old] = [plan(&layout, "nap")?, plan(&layout, "nap --duration 10 --settle 90")?];
        assert_eq!((young.runs[0].job.scenario.settle_s, old.runs[0].job.scenario.settle_s), (1.0, 90.0));
        assert!(old.runs[0].limits.total > young.runs[0].limits.total);
        let layouts = plan(&layout, "nap --under appease,eevdf-nice --load none")?.runs;
        let layouts: Vec<Grouping> = layouts.iter().map(|run| run.job.machine.layout).collect();
        assert_eq!(
            layouts,
            [Grouping::Scopes, Grouping::Flat],
            "as people have it, but where a scheduler groups by itself"
        );
        Ok(())
    }

    #[test]
    fn machines() -> Result<()> {
        let parallel = machine(&MachineArgs { mode: Some(ModeName::Parallel), ..MachineArgs::default() }, Mode::Exact)?;
        assert_eq!(parallel, Machine::plain(Mode::Parallel, 2));
        for (cpus, allowed) in [(0, false), (1, true), (MOST_CPUS, true), (MOST_CPUS + 1, false)] {
            let args = MachineArgs { mode: Some(ModeName::Parallel), cpus: Some(cpus), ..MachineArgs::default() };
            assert_eq!(machine(&args, Mode::Exact).is_ok(), allowed, "{cpus}");
        }
        let help = Cli::command().find_subcommand_mut("run").map(|run| run.render_long_help().to_string());
        assert!(help.is_some_and(|help| help.contains(&format!("1 to {MOST_CPUS}"))));
        Ok(())
    }

    #[test]
    fn a_scenario_may_be_named_by_its_file() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let layout = project(dir.path())?;
        let path = dir.path().join("scenarios/nap.toml");
        assert_eq!(scenario(&layout, &path.display().to_string())?.name, "nap");
        Ok(())
    }
}
