//! Sorts runs into what may be compared: one section for each scenario, kernel and machine.

use std::collections::BTreeSet;

use appease_scenario::{Load, Machine, Metric, Report, Run, Summary, scheduler_and_mix};

use super::names;

/// Runs of one scenario on one kernel and machine.
pub(super) struct Section<'a> {
    pub scenario: &'a str,
    pub kernel: &'a str,
    pub machine: Machine,
    /// Schedulers, the plain kernel's first, ours last, in between as they came.
    pub series: Vec<Series<'a>>,
    /// Loads, lightest first.
    pub loads: Vec<Load>,
}

/// The runs under one scheduler.
pub(super) struct Series<'a> {
    /// The scheduler's name.
    pub scheduler: &'a str,
    /// 1, or higher for figures taken again.
    pub repeat: usize,
    pub runs: Vec<&'a Run>,
}

impl<'a> Section<'a> {
    /// Names of the metrics that any run has, in the order of the report.
    pub fn metrics(&self) -> Vec<&'a str> {
        let names: BTreeSet<&str> = self.runs().flat_map(|run| run.metrics.keys().map(String::as_str)).collect();
        let mut names: Vec<_> =
            names.into_iter().filter(|name| !names::is_of_host(name) && !names::is_of_ending(name)).collect();
        names.sort_by_key(|name| names::rank(name));
        names
    }

    /// All runs.
    pub fn runs(&self) -> impl Iterator<Item = &'a Run> {
        self.series.iter().flat_map(|series| series.runs.iter().copied())
    }

    /// The plain kernel's series, which others are compared with.
    pub fn eevdf(&self) -> Option<&Series<'a>> {
        self.series.iter().find(|series| series.scheduler == "eevdf")
    }
}

impl<'a> Series<'a> {
    /// The run at a load.
    pub fn at(&self, load: Load) -> Option<&'a Run> {
        self.runs.iter().copied().find(|run| run.load == load)
    }

    /// A metric at a load.
    pub fn metric(&self, load: Load, metric: &str) -> Option<&'a Metric> {
        self.at(load)?.metrics.get(metric)
    }

    /// Its name for people.
    pub fn label(&self) -> String {
        let name = names::scheduler(self.scheduler);
        if self.repeat == 1 { name } else { format!("{name} (taken again, {})", self.repeat) }
    }
}

/// The distribution in a metric, if it is one.
pub(super) fn distribution(metric: &Metric) -> Option<&Summary> {
    match metric {
        Metric::Distribution(summary) => Some(summary),
        Metric::Scalar { .. } => None,
    }
}

/// Sorts the runs of all documents.
pub(super) fn of(reports: &[Report]) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    for report in reports {
        for run in &report.runs {
            let same = |section: &&mut Section<'_>| {
                section.scenario == report.scenario && section.kernel == run.kernel && section.machine == run.machine
            };
            if let Some(section) = sections.iter_mut().find(same) {
                add(section, run);
            } else {
                let mut section = Section {
                    scenario: &report.scenario,
                    kernel: &run.kernel,
                    machine: run.machine,
                    series: Vec::new(),
                    loads: Vec::new(),
                };
                add(&mut section, run);
                sections.push(section);
            }
        }
    }
    for section in &mut sections {
        section.loads.sort_by_key(|load| weight(*load));
        section.series.sort_by_key(|series| order(series.scheduler));
    }
    sections
}

fn add<'a>(section: &mut Section<'a>, run: &'a Run) {
    if !section.loads.contains(&run.load) {
        section.loads.push(run.load);
    }
    // A figure taken again goes into a series of its own: neither hides the other.
    let mut repeat = 1;
    for series in &mut section.series {
        if series.scheduler == run.scheduler {
            if series.at(run.load).is_none() {
                series.runs.push(run);
                return;
            }
            repeat += 1;
        }
    }
    section.series.push(Series { scheduler: &run.scheduler, repeat, runs: vec![run] });
}

fn weight(load: Load) -> (u8, u32) {
    match load {
        Load::None => (0, 0),
        Load::Hogs(n) => (1, n),
        Load::IdleHogs(n) => (2, n),
        Load::Build(n) => (3, n),
        Load::Users(n) => (4, n),
        Load::All => (5, 0),
    }
}

fn order(scheduler: &str) -> u8 {
    match scheduler_and_mix(scheduler) {
        ("eevdf", None) => 0,
        ("eevdf", Some(_)) => 1,
        ("eevdf-autogroup" | "eevdf-scopes", _) => 2,
        ("eevdf-nice", _) => 3,
        (ours, _) if ours == "appease" || ours.starts_with("appease:") => 5,
        _ => 4,
    }
}
