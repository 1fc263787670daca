//! The league: every race of `bench/league.toml` under every scheduler, as many machines at once as there are processors. Each run is
//! kept when it is done, so an interrupted bench goes on where it was.

pub mod document;
pub mod league;
pub mod lost;
pub mod matrix;
pub mod table;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use anyhow::{Context, Result, bail, ensure};
use appease_scenario::{Grouping, Outcome, Report, Run};
use sha2::{Digest, Sha256};

use self::{
    document::Document,
    lost::Exceptions,
    matrix::{Cell, Matrix, Race},
};
use crate::{
    cli::{BenchArgs, LayoutArgs, MachineArgs, RunArgs},
    fleet,
    host::{Interrupt, Layout},
    plan::Plan,
    report,
    scheduler::Scheduler,
    store::Store,
};

/// Between these the table stands in the project's front page.
const MARKS: [&str; 2] = ["<!-- league: made by `make bench` -->\n", "<!-- end of the league -->\n"];

/// Runs what is missing, and writes the report.
///
/// # Errors
/// When a file is wrong, a program is missing, or the user interrupts. A run that fails is a row with its reason.
pub fn run(layout: &Layout, store: &Store, args: &BenchArgs, interrupt: &Interrupt) -> Result<()> {
    let matrix = Matrix::load(&layout.bench().join("league.toml"))?;
    let exceptions = Exceptions::load(&layout.exceptions())?;
    let races = matrix.races(args.quick, &args.scenarios)?;
    let short = args.short || args.quick;
    let out = args.out.clone().unwrap_or_else(|| layout.bench().join("results").join(name(args)));
    // Hours before it is written.
    args.readme.as_ref().map_or(Ok(()), |path| Readme::read(path).map(drop))?;
    fs::create_dir_all(&out).with_context(|| format!("create {} for results", out.display()))?;
    let mut bench = Bench { layout, out: &out, short, versions: BTreeMap::new() };
    let mut cells = matrix::cells(&races, args.quick);
    matrix::keep_only(&mut cells, "--under", &args.under, |cell| &cell.scheduler)?;
    matrix::keep_only(&mut cells, "--load", &args.load, |cell| &cell.load)?;
    matrix::keep_only(&mut cells, "--kernel", &args.kernel, |cell| &cell.kernel)?;
    let layouts: Vec<Grouping> = args.layout.iter().map(|layout| (*layout).into()).collect();
    matrix::keep_only(&mut cells, "--layout", &layouts, |cell| &cell.layout)?;
    matrix::keep_only(&mut cells, "--cpus", &args.cpus, |cell| &cell.cpus)?;
    for cell in &cells {
        bench.learn_version(&cell.scheduler)?;
    }
    let all = cells.len();
    let mut missing = Vec::new();
    for cell in cells.drain(..) {
        if !bench.is_done(&cell)? {
            missing.push(cell);
        }
    }
    store.steps().note(&format!("bench: {} of {all} runs are there, {} to go", all - missing.len(), missing.len()));
    if !missing.is_empty() {
        bench.run(store, &missing, args, interrupt)?;
    }
    // Those that were not asked for today are told, too.
    let races = matrix.races(args.quick, &[])?;
    let documents = documents(&out, &races)?;
    let rows = league::rows(&races, &documents);
    let reports: Vec<Report> = documents.iter().map(|document| document.report.clone()).collect();
    report::write_league(
        &rows,
        &league::mishaps(&documents),
        &league::versions(&documents),
        &reports,
        &out.join("report.html"),
    )?;
    let standing = lost::standing(&rows, &exceptions).markdown();
    let table = format!("{}\n\n{}{standing}", caption(args), table::markdown(&rows));
    fs::write(out.join("league.md"), &table).with_context(|| format!("write the table to {}", out.display()))?;
    if let Some(path) = &args.readme {
        Readme::read(path)?.write(&table)?;
    }
    store.steps().note(&format!("bench: {}", out.join("report.html").display()));
    Ok(())
}

/// Says which cells appease loses without a reason in the results of the short league that are there, or that there are too many.
///
/// # Errors
/// Names them, or the file that is wrong.
pub fn must_lose_few(layout: &Layout) -> Result<()> {
    let matrix = Matrix::load(&layout.bench().join("league.toml"))?;
    let exceptions = Exceptions::load(&layout.exceptions())?;
    let races = matrix.races(false, &[])?;
    let documents = documents(&layout.bench().join("results").join(SHORT), &races)?;
    let rows = league::rows(&races, &documents);
    let standing = lost::standing(&rows, &exceptions);
    ensure!(standing.is_kept(), "{}", standing.markdown());
    Ok(())
}

/// The folder of results: forms do not mix.
fn name(args: &BenchArgs) -> &'static str {
    match (args.quick, args.short) {
        (true, _) => "quick",
        (false, true) => SHORT,
        (false, false) => "league",
    }
}

/// What stands above the table.
fn caption(args: &BenchArgs) -> &'static str {
    match (args.quick, args.short) {
        (true, _) => "The quick subset of the league, short runs in exact mode; bold is the best:",
        (false, true) => "The league, short runs in exact mode; bold is the best:",
        (false, false) => "The league, in exact mode; bold is the best:",
    }
}

/// The folder of the short league.
const SHORT: &str = "league-short";

struct Bench<'a> {
    layout: &'a Layout,
    out: &'a Path,
    short: bool,
    /// By scheduler.
    versions: BTreeMap<String, String>,
}

impl Bench<'_> {
    /// Its program's own word, and for ours what the program is, for that changes more often.
    fn learn_version(&mut self, scheduler: &Scheduler) -> Result<()> {
        let name = scheduler.to_string();
        if self.versions.contains_key(&name) {
            return Ok(());
        }
        let version = match scheduler.program(self.layout)? {
            None => "the kernel's".into(),
            Some((program, path)) => {
                let output = Command::new(&path).arg("--version").output();
                let output = output.with_context(|| format!("ask {} for its version", path.display()))?;
                let text = String::from_utf8_lossy(&output.stdout);
                let word = text.lines().next().unwrap_or_default().trim().to_owned();
                if program == "appease" { format!("{word}, {}", digest(&path)?) } else { word }
            }
        };
        self.versions.insert(name, version);
        Ok(())
    }

    /// Whether its run is there, by the same program.
    fn is_done(&self, cell: &Cell) -> Result<bool> {
        let Some(document) = Document::read(&path(self.out, cell))? else { return Ok(false) };
        let name = cell.scheduler.to_string();
        let is_there = document.report.runs.iter().any(|run| run.scheduler == name);
        Ok(is_there && document.short == self.short && document.versions.get(&name) == self.versions.get(&name))
    }

    fn run(&self, store: &Store, cells: &[Cell], args: &BenchArgs, interrupt: &Interrupt) -> Result<()> {
        let plans = cells.iter().map(|cell| Plan::new(self.layout, &self.args(cell, args)));
        let mut plans = plans.collect::<Result<Vec<_>>>()?.into_iter();
        let mut plan = plans.next().context("nothing to run")?;
        for other in plans {
            plan.runs.extend(other.runs);
            plan.tools.extend(other.tools);
        }
        plan.jobs = args.jobs.unwrap_or_else(|| crate::plan::default_jobs(plan.machine)).min(plan.runs.len());
        let (begun, done, lock) = (Instant::now(), AtomicUsize::new(0), Mutex::new(()));
        let keep = |index: usize, runs: &[Run]| -> Result<()> {
            let (cell, _guard) = (&cells[index], lock.lock());
            for run in runs {
                let name = cell.scheduler.to_string();
                let version = self.versions.get(&name).cloned().unwrap_or_default();
                let versions = BTreeMap::from([(name, version), ("kernel".into(), run.kernel.clone())]);
                // One that failed for a reason of ours is tried again by the next bench.
                if run.outcome != Outcome::Failed || !run.kernel.is_empty() {
                    Document::add(&path(self.out, cell), &cell.scenario, self.short, run.clone(), &versions)?;
                }
            }
            let count = done.fetch_add(1, Ordering::SeqCst) + 1;
            #[allow(clippy::cast_precision_loss)]
            let left_s = begun.elapsed().as_secs_f64() / count as f64 * (cells.len() - count) as f64;
            store.steps().note(&format!("bench: {count} of {}, about {:.0} min left", cells.len(), left_s / 60.0));
            Ok(())
        };
        fleet::run_each(self.layout, store, &plan, interrupt, false, &keep).map(drop)
    }

    /// As if it had been typed.
    fn args(&self, cell: &Cell, args: &BenchArgs) -> RunArgs {
        RunArgs {
            scenarios: vec![cell.scenario.clone()],
            under: vec![cell.scheduler.clone()],
            same_boot: false,
            load: vec![cell.load],
            kernel: vec![cell.kernel.clone()],
            machine: MachineArgs { cpus: Some(cell.cpus), ..MachineArgs::default() },
            layout: LayoutArgs { layout: Some(cell.layout.into()) },
            json: false,
            out: None,
            jobs: args.jobs,
            short: self.short,
            rounds: None,
            seed: 1,
            duration: None,
            settle: cell.settle_s,
            screenshots: None,
            trace: None,
            time_limit: None,
            verbose: false,
        }
    }
}

/// The file of a cell's runs.
fn path(out: &Path, cell: &Cell) -> PathBuf {
    let load = cell.load.to_string().replace(':', "_");
    let settled = cell.settle_s.map(|seconds| format!("-settled_{seconds}")).unwrap_or_default();
    let layout = if cell.layout.is_flat() { String::new() } else { format!("-{}", cell.layout) };
    let cpus = if cell.cpus > 1 { format!("-{}cpus", cell.cpus) } else { String::new() };
    out.join(format!("{}-{load}{settled}-{}{layout}{cpus}.json", cell.scenario, cell.kernel))
}

fn documents(out: &Path, races: &[Race]) -> Result<Vec<Document>> {
    let mut seen = BTreeSet::new();
    let paths = matrix::cells(races, false).into_iter().map(|cell| path(out, &cell));
    let found = paths.filter(|path| seen.insert(path.clone())).filter_map(|path| Document::read(&path).transpose());
    let documents = found.collect::<Result<Vec<_>>>()?;
    if documents.is_empty() {
        bail!("no run left a result in {}", out.display());
    }
    Ok(documents)
}

fn digest(path: &Path) -> Result<String> {
    let program = fs::read(path).with_context(|| format!("read {}", path.display()))?;
    Ok(Sha256::digest(&program).iter().take(6).map(|byte| format!("{byte:02x}")).collect())
}

/// The front page, and where the table stands in it.
#[derive(Debug)]
struct Readme {
    path: PathBuf,
    before: String,
    after: String,
}

impl Readme {
    fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        let parts = text.split_once(MARKS[0]).and_then(|(before, rest)| Some((before, rest.split_once(MARKS[1])?.1)));
        let Some((before, after)) = parts else {
            bail!("{} has no place for the league: write the lines {:?} and {:?}", path.display(), MARKS[0], MARKS[1]);
        };
        Ok(Self { path: path.to_owned(), before: before.into(), after: after.into() })
    }

    fn write(&self, table: &str) -> Result<()> {
        let text = format!("{}{}{table}{}{}", self.before, MARKS[0], MARKS[1], self.after);
        fs::write(&self.path, text).with_context(|| format!("write {}", self.path.display()))
    }
}
