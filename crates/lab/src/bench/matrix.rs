//! The races of `bench/league.toml`, and the runs that they need.

use std::{fmt, path::Path, str::FromStr};

use anyhow::{Context, Result, bail};
use appease_scenario::{Grouping, Load, Metric, Run};
use serde::{Deserialize, Deserializer, de::Error as _};

use crate::{debian::Wanted, scheduler::Scheduler};

/// The file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Matrix {
    /// Who races where a race does not say.
    #[serde(deserialize_with = "words")]
    schedulers: Vec<Scheduler>,
    /// Who of them is in the quick subset.
    #[serde(default, deserialize_with = "words")]
    quick_schedulers: Vec<Scheduler>,
    /// On which kernels, where a race does not say.
    #[serde(deserialize_with = "words")]
    kernels: Vec<Wanted>,
    /// In which layouts, where a race does not say.
    #[serde(default = "scopes")]
    layouts: Vec<Grouping>,
    #[serde(rename = "race")]
    races: Vec<Race>,
}

/// A scenario, and what counts in it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Race {
    /// The scenario's name.
    pub scenario: String,
    /// What is measured, for people.
    pub title: String,
    /// What competes, from light to heavy.
    #[serde(deserialize_with = "words")]
    pub loads: Vec<Load>,
    /// The load of an unloaded machine.
    #[serde(default = "none", deserialize_with = "word")]
    pub unloaded: Load,
    /// By what it is decided.
    #[serde(deserialize_with = "words")]
    pub measures: Vec<Measure>,
    /// What nobody may lose who is to count as the best here: whoever shows no frame answers keys soon.
    #[serde(default, deserialize_with = "maybe_word")]
    pub lossless: Option<Measure>,
    /// Loads of the quick subset.
    #[serde(default, deserialize_with = "words")]
    quick: Vec<Load>,
    /// Who races, if not everybody: the race has a table of its own then.
    #[serde(default, deserialize_with = "words")]
    schedulers: Vec<Scheduler>,
    #[serde(skip)]
    has_own_schedulers: bool,
    /// On which kernels, if not on all.
    #[serde(default, deserialize_with = "words")]
    kernels: Vec<Wanted>,
    /// In which layouts, if not in those of the league.
    #[serde(default)]
    layouts: Vec<Grouping>,
    /// On machines of how many CPUs.
    #[serde(default = "one_cpu")]
    cpus: Vec<u32>,
    /// How long the load is there before, seconds, if not as long as the scenario says.
    pub settle_s: Option<f64>,
}

/// A figure of a run: a metric, and which of its statistics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measure {
    /// The metric's name.
    pub metric: String,
    statistic: Option<Statistic>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Statistic {
    P50,
    P90,
    P99,
    Max,
    Mean,
    Sd,
}

const STATISTICS: [(&str, Statistic); 6] = [
    ("p50", Statistic::P50),
    ("p90", Statistic::P90),
    ("p99", Statistic::P99),
    ("max", Statistic::Max),
    ("mean", Statistic::Mean),
    ("sd", Statistic::Sd),
];

/// One run.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The scenario's name.
    pub scenario: String,
    /// Under whom.
    pub scheduler: Scheduler,
    /// Beside what.
    pub load: Load,
    /// On which kernel.
    pub kernel: Wanted,
    /// How programs are put into cgroups.
    pub layout: Grouping,
    /// CPUs of the machine.
    pub cpus: u32,
    /// How long the load is there before, seconds.
    pub settle_s: Option<f64>,
}

/// As systemd does it.
fn scopes() -> Vec<Grouping> {
    vec![Grouping::Scopes]
}

fn one_cpu() -> Vec<u32> {
    vec![1]
}

fn none() -> Load {
    Load::None
}

fn word<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(from: D) -> Result<T, D::Error> {
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

fn maybe_word<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(from: D) -> Result<Option<T>, D::Error> {
    word(from).map(Some)
}

fn words<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(from: D) -> Result<Vec<T>, D::Error> {
    Vec::<String>::deserialize(from)?.iter().map(|word| word.parse().map_err(D::Error::custom)).collect()
}

impl FromStr for Measure {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some((metric, statistic)) = text.split_once(' ') else {
            return Ok(Self { metric: text.into(), statistic: None });
        };
        let Some((_, statistic)) = STATISTICS.iter().find(|(name, _)| *name == statistic) else {
            let known: Vec<_> = STATISTICS.iter().map(|(name, _)| *name).collect();
            bail!("measure \"{text}\": a metric's name, and one of {}", known.join(", "));
        };
        Ok(Self { metric: metric.into(), statistic: Some(*statistic) })
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.metric)?;
        self.statistic().map_or(Ok(()), |name| write!(f, " {name}"))
    }
}

impl Measure {
    /// Its statistic's name, if the metric has any.
    #[must_use]
    pub fn statistic(&self) -> Option<&'static str> {
        STATISTICS.iter().find(|(_, statistic)| Some(*statistic) == self.statistic).map(|(name, _)| *name)
    }

    /// The figure of a run, if it has it.
    #[must_use]
    pub fn of(&self, run: &Run) -> Option<f64> {
        match (run.metrics.get(&self.metric)?, self.statistic) {
            (Metric::Scalar { value }, None) => Some(*value),
            (Metric::Distribution(summary), Some(statistic)) => Some(match statistic {
                Statistic::P50 => summary.p50,
                Statistic::P90 => summary.p90,
                Statistic::P99 => summary.p99,
                Statistic::Max => summary.max,
                Statistic::Mean => summary.mean,
                Statistic::Sd => summary.sd,
            }),
            _ => None,
        }
    }
}

impl Matrix {
    /// Reads the file.
    ///
    /// # Errors
    /// Names the file, the place and what is wrong.
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        let matrix: Self = toml::from_str(&text).with_context(|| format!("{} is no league", path.display()))?;
        for race in &matrix.races {
            let stray = race.quick.iter().find(|load| !race.loads.contains(load));
            if let Some(load) = stray {
                bail!("{}: scenario {}: quick load {load} is none of its loads", path.display(), race.scenario);
            }
            if race.measures.is_empty() || race.loads.is_empty() || race.cpus.is_empty() {
                bail!(
                    "{}: scenario {}: write at least one load, one measure and one number of CPUs",
                    path.display(),
                    race.scenario
                );
            }
        }
        Ok(matrix)
    }

    /// The races, as far as they are `quick`, and of these `scenarios` if any are named.
    ///
    /// # Errors
    /// When one of `scenarios` has no race.
    pub fn races(&self, quick: bool, scenarios: &[String]) -> Result<Vec<Race>> {
        let known = |name: &&String| !self.races.iter().any(|race| race.scenario == **name);
        if let Some(name) = scenarios.iter().find(known) {
            let mut all: Vec<_> = self.races.iter().map(|race| race.scenario.as_str()).collect();
            all.dedup();
            bail!("scenario \"{name}\" is not in the league: there is {}", all.join(", "));
        }
        let wanted = self.races.iter().filter(|race| scenarios.is_empty() || scenarios.contains(&race.scenario));
        let of = |race: &Race| {
            let is_of_few = quick && !self.quick_schedulers.is_empty();
            let has_own_schedulers = !is_of_few && !race.schedulers.is_empty();
            let common = if is_of_few { &self.quick_schedulers } else { &self.schedulers };
            let layouts = if race.layouts.is_empty() { &self.layouts } else { &race.layouts };
            let machines = if quick { 1 } else { usize::MAX };
            Race {
                loads: if quick { race.quick.clone() } else { race.loads.clone() },
                schedulers: if has_own_schedulers { &race.schedulers } else { common }.clone(),
                has_own_schedulers,
                kernels: if race.kernels.is_empty() { self.kernels.clone() } else { race.kernels.clone() },
                layouts: layouts.iter().copied().take(machines).collect(),
                cpus: race.cpus.iter().copied().take(machines).collect(),
                ..race.clone()
            }
        };
        Ok(wanted.map(of).filter(|race| !race.loads.is_empty()).collect())
    }
}

impl Race {
    /// Who races.
    #[must_use]
    pub fn schedulers(&self) -> &[Scheduler] {
        &self.schedulers
    }

    /// Its kernels.
    #[must_use]
    pub fn kernels(&self) -> &[Wanted] {
        &self.kernels
    }

    /// Whether they are not those of the league.
    #[must_use]
    pub fn has_own_schedulers(&self) -> bool {
        self.has_own_schedulers
    }

    /// The machines: layouts, and numbers of CPUs.
    pub fn machines(&self) -> impl Iterator<Item = (Grouping, u32)> {
        self.layouts.iter().flat_map(|layout| self.cpus.iter().map(|cpus| (*layout, *cpus)))
    }

    /// What the race needs on its `nth` kernel: the runs of the table's rows, and those of others without load, by which alone the best
    /// unloaded machine is known. There, a mix is none, for it is of programs that run at once; a quick race has none of them.
    fn cells(&self, nth: usize, quick: bool) -> [Vec<Cell>; 2] {
        let Some(kernel) = self.kernels.get(nth) else { return [Vec::new(), Vec::new()] };
        let mut cells = [Vec::new(), Vec::new()];
        for (layout, cpus) in self.machines() {
            let cell = |scheduler: &Scheduler, load| Cell {
                scenario: self.scenario.clone(),
                scheduler: scheduler.clone(),
                load,
                kernel: kernel.clone(),
                layout,
                cpus,
                settle_s: self.settle_s,
            };
            let all: Vec<&Scheduler> = self.schedulers.iter().filter(|scheduler| scheduler.may_be_in(layout)).collect();
            let (first, others) = all.split_at(all.len().min(1));
            let base = first.iter().map(|scheduler| cell(scheduler, self.unloaded));
            let loaded = self.loads.iter().flat_map(|load| all.iter().map(|scheduler| cell(scheduler, *load)));
            let unloaded = others.iter().filter(|scheduler| !quick && scheduler.mix().is_none());
            cells[0].extend(base.chain(loaded));
            cells[1].extend(unloaded.map(|scheduler| cell(scheduler, self.unloaded)));
        }
        cells
    }
}

/// Every run that `races` need, each once: kernel by kernel, what the table needs before what only plots show. Races of a quick
/// league are run on their first kernel.
#[must_use]
pub fn cells(races: &[Race], quick: bool) -> Vec<Cell> {
    let kernels = races.iter().map(|race| race.kernels.len()).max().unwrap_or_default();
    let mut cells: Vec<Cell> = Vec::new();
    for nth in 0..if quick { 1 } else { kernels } {
        let (table, plots): (Vec<_>, Vec<_>) =
            races.iter().map(|race| race.cells(nth, quick)).map(<[_; 2]>::into).unzip();
        for cell in table.into_iter().chain(plots).flatten() {
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        }
    }
    cells
}

/// Keeps the cells that have one of `wanted`, all when there is none. `option` is where these come from.
///
/// # Errors
/// When no cell has one of them.
pub fn keep_only<T: PartialEq + fmt::Display>(
    cells: &mut Vec<Cell>,
    option: &str,
    wanted: &[T],
    of: impl Fn(&Cell) -> &T,
) -> Result<()> {
    if let Some(stray) = wanted.iter().find(|one| !cells.iter().any(|cell| of(cell) == *one)) {
        let mut all: Vec<String> = Vec::new();
        for name in cells.iter().map(|cell| of(cell).to_string()) {
            if !all.contains(&name) {
                all.push(name);
            }
        }
        bail!("{option} {stray}: no such run is in what is asked of the league: there is {}", all.join(", "));
    }
    cells.retain(|cell| wanted.is_empty() || wanted.contains(of(cell)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use anyhow::Result;
    use appease_scenario::Grouping;

    use super::{Matrix, cells, keep_only};
    use crate::{host::Layout, plan, report::names};

    const SMALL: &str = r#"
schedulers = ["eevdf", "scx_lavd", "appease"]
quick_schedulers = ["eevdf", "appease"]
kernels = ["7.2", "6.18"]
[[race]]
scenario = "nap"
title = "a nap"
loads = ["hogs:4", "hogs:16"]
measures = ["nap_ms p90"]
quick = ["hogs:16"]
[[race]]
scenario = "nap"
title = "a nap in classes"
loads = ["hogs:4"]
measures = ["nap_ms p90"]
schedulers = ["eevdf", "eevdf+batch", "appease"]
kernels = ["7.2"]
"#;

    fn matrix(text: &str) -> Result<Matrix> {
        let dir = tempfile::tempdir()?;
        fs::write(dir.path().join("league.toml"), text)?;
        Matrix::load(&dir.path().join("league.toml"))
    }

    /// Without load, too, but no mix; of the quick subset under the first scheduler alone, and on the first kernel. What the table
    /// needs comes first, and what two races need is run once.
    #[test]
    fn every_run_of_a_race() -> Result<()> {
        let matrix = matrix(SMALL)?;
        let cells = |quick: bool| -> Result<Vec<String>> {
            let races = matrix.races(quick, &[])?;
            let cells = cells(&races, quick);
            assert!(cells.iter().all(|cell| cell.layout == Grouping::Scopes && cell.cpus == 1));
            Ok(cells.iter().map(|cell| format!("{} {} {}", cell.load, cell.scheduler, cell.kernel)).collect())
        };
        insta::assert_snapshot!(cells(false)?.join("\n"), @r"
        none eevdf 7.2
        hogs:4 eevdf 7.2
        hogs:4 scx_lavd 7.2
        hogs:4 appease 7.2
        hogs:16 eevdf 7.2
        hogs:16 scx_lavd 7.2
        hogs:16 appease 7.2
        hogs:4 eevdf+batch 7.2
        none scx_lavd 7.2
        none appease 7.2
        none eevdf 6.18
        hogs:4 eevdf 6.18
        hogs:4 scx_lavd 6.18
        hogs:4 appease 6.18
        hogs:16 eevdf 6.18
        hogs:16 scx_lavd 6.18
        hogs:16 appease 6.18
        none scx_lavd 6.18
        none appease 6.18
        ");
        insta::assert_snapshot!(cells(true)?.join("\n"), @r"
        none eevdf 7.2
        hogs:16 eevdf 7.2
        hogs:16 appease 7.2
        ");
        Ok(())
    }

    /// What puts programs into groups itself is not in a layout that does, where it would be EEVDF once more.
    #[test]
    fn layouts_and_numbers_of_cpus_multiply() -> Result<()> {
        let more = SMALL
            .replace("\"scx_lavd\"", "\"eevdf-scopes\"")
            .replace("title = \"a nap\"", "title = \"a nap\"\nlayouts = [\"scopes\", \"flat\"]\ncpus = [1, 4]");
        let races = matrix(&more)?.races(false, &[])?;
        let cells = cells(&races[..1], false);
        let of = |kernel: &str| {
            let at = cells.iter().filter(|cell| cell.load.to_string() == "hogs:4" && cell.kernel.to_string() == kernel);
            let told = at.map(|cell| format!("{} {} {}", cell.layout, cell.cpus, cell.scheduler));
            told.collect::<Vec<_>>().join("\n")
        };
        insta::assert_snapshot!(of("7.2"), @r"
        scopes 1 eevdf
        scopes 1 appease
        scopes 4 eevdf
        scopes 4 appease
        flat 1 eevdf
        flat 1 eevdf-scopes
        flat 1 appease
        flat 4 eevdf
        flat 4 eevdf-scopes
        flat 4 appease
        ");
        assert_eq!(of("6.18"), of("7.2"));
        let quick = matrix(&more)?.races(true, &[])?;
        let machines: Vec<_> = quick[0].machines().collect();
        assert_eq!(machines, [(Grouping::Scopes, 1)], "the first ones");
        Ok(())
    }

    #[test]
    fn nonsense_is_named() {
        let told = |from: &str, to: &str| {
            let text = matrix(&SMALL.replace(from, to)).err().map(|error| format!("{error:#}")).unwrap_or_default();
            text.rsplit_once("league").map(|(_, rest)| rest.to_owned()).unwrap_or_default()
        };
        assert!(told("\"hogs:16\"]\nmeasures", "\"hogs:many\"]\nmeasures").contains("hogs:many"));
        assert!(told("scx_lavd", "cfs").contains("scheduler \"cfs\" is not known"));
        assert!(told("p90", "p95").contains("measure \"nap_ms p95\": a metric's name, and one of p50, p90"));
        assert!(
            told("quick = [\"hogs:16\"]", "quick = [\"hogs:8\"]").contains("quick load hogs:8 is none of its loads")
        );
        assert!(told("title", "heading").contains("unknown field `heading`"));
        let stray = matrix(SMALL).and_then(|matrix| matrix.races(false, &["walk".into()]));
        assert_eq!(
            stray.err().map(|error| error.to_string()).as_deref(),
            Some("scenario \"walk\" is not in the league: there is nap")
        );
    }

    /// The project's own league names scenarios and loads that there are, and metrics of which it is known what is better.
    #[test]
    fn the_league_is_sound() -> Result<()> {
        let layout = Layout::at(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
        let matrix = Matrix::load(&layout.bench().join("league.toml"))?;
        for race in matrix.races(false, &[])? {
            let scenario = plan::scenario(&layout, &race.scenario)?;
            for load in &race.loads {
                scenario.accepts(*load).map_err(anyhow::Error::msg)?;
            }
            let unknown: Vec<_> = race
                .measures
                .iter()
                .filter(|measure| names::better(&measure.metric) == names::Better::Neither)
                .collect();
            assert!(unknown.is_empty(), "{}: {unknown:?}", race.scenario);
        }
        Ok(())
    }

    #[test]
    fn a_part_of_the_league_is_run_by_name() -> Result<()> {
        let mut cells = cells(&matrix(SMALL)?.races(false, &[])?, false);
        let all = cells.clone();
        keep_only(&mut cells, "--under", &[], |cell| &cell.scheduler)?;
        assert_eq!(cells, all);
        keep_only(&mut cells, "--load", &["hogs:4".parse()?], |cell| &cell.load)?;
        keep_only(&mut cells, "--under", &["eevdf".parse()?, "appease".parse()?], |cell| &cell.scheduler)?;
        assert!(cells.iter().all(|cell| all.contains(cell)));
        let left = cells.iter().map(|cell| format!("{} {} {}", cell.load, cell.scheduler, cell.kernel));
        assert_eq!(
            left.collect::<Vec<_>>(),
            ["hogs:4 eevdf 7.2", "hogs:4 appease 7.2", "hogs:4 eevdf 6.18", "hogs:4 appease 6.18"]
        );
        let wrong = keep_only(&mut cells, "--kernel", &["6.12".parse()?], |cell| &cell.kernel);
        assert_eq!(
            wrong.map_err(|error| error.to_string()),
            Err("--kernel 6.12: no such run is in what is asked of the league: there is 7.2, 6.18".into())
        );
        Ok(())
    }
}
