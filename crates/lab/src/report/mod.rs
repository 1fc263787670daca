//! One HTML file from the result documents of `appease-lab run --json`: for each scenario, kernel and
//! machine the distribution of every metric per scheduler, the figure against load, ratios, what the
//! background work paid, and how runs ended.
//!
//! The file is complete in itself (SVG and style inline, no script), so that it can be mailed or kept.

mod axis;
mod contour;
mod league;
pub(crate) mod names;
mod page;
mod plot;
mod sections;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use appease_scenario::Report;
use maud::{Markup, html};

use crate::{
    bench::{document, league::Row},
    host::write_whole,
};

/// A screenshot that the report shows.
#[derive(Debug, Clone)]
pub struct Picture {
    /// What it shows.
    pub caption: String,
    /// The image, as PNG.
    pub png: Vec<u8>,
}

/// Reads result documents.
///
/// # Errors
/// When a file cannot be read, is no result document, or holds no run; the message names the file.
pub fn read(paths: &[PathBuf]) -> anyhow::Result<Vec<Report>> {
    if paths.is_empty() {
        bail!("no result file: name at least one, as written by `appease-lab run … --json`");
    }
    let mut reports = Vec::new();
    for path in paths {
        reports.extend(read_one(path)?);
    }
    Ok(reports)
}

/// A file holds one document, or an array of them where several scenarios were run.
fn read_one(path: &Path) -> anyhow::Result<Vec<Report>> {
    let shown = path.display();
    let text = std::fs::read(path).with_context(|| format!("read result file {shown}"))?;
    if let Some(format) = document::format_of(&text).filter(|format| *format != u64::from(document::FORMAT)) {
        bail!("{shown} has format {format}, and this program reads {}: measure anew", document::FORMAT);
    }
    let several = text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let reports: serde_json::Result<Vec<Report>> =
        if several { serde_json::from_slice(&text) } else { serde_json::from_slice(&text).map(|one| vec![one]) };
    let reports = reports.with_context(|| format!("{shown} is no result document of `appease-lab run … --json`"))?;
    if reports.iter().all(|report| report.runs.is_empty()) {
        bail!("{shown} holds no run: nothing to report");
    }
    Ok(reports)
}

/// Writes the report to `out`, replacing what was there only when it is complete.
///
/// # Errors
/// When there is nothing to report, a plot cannot be drawn, or `out` cannot be written.
pub fn write_html(reports: &[Report], out: &Path) -> anyhow::Result<()> {
    write_html_with(reports, &[], out)
}

/// As [`write_html`], with screenshots.
///
/// # Errors
/// As [`write_html`].
pub fn write_html_with(reports: &[Report], pictures: &[Picture], out: &Path) -> anyhow::Result<()> {
    let panels = html! { @for one in pictures { (page::picture(one)) } };
    let front = if pictures.is_empty() {
        Markup::default()
    } else {
        html! { div.panels { (panels) } }
    };
    write(reports, &front, out)
}

/// As [`write_html`], begun with who came in where, who did not, and the versions of all.
///
/// # Errors
/// As [`write_html`].
pub fn write_league(
    rows: &[Row],
    mishaps: &[String],
    versions: &BTreeMap<&str, Vec<&str>>,
    reports: &[Report],
    out: &Path,
) -> anyhow::Result<()> {
    write(reports, &league::front(rows, mishaps, versions), out)
}

fn write(reports: &[Report], front: &Markup, out: &Path) -> anyhow::Result<()> {
    if reports.iter().all(|report| report.runs.is_empty()) {
        bail!("report {}: there is no run to report", out.display());
    }
    let html = page::render(&sections::of(reports), front)?;
    if let Some(parent) = out.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent)
            .with_context(|| format!("create the folder {} of the report", parent.display()))?;
    }
    write_whole("report", out, &html)
}
