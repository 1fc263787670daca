//! The analysis as one page.

use maud::{DOCTYPE, Markup, PreEscaped, html};

pub use crate::plot::PlotError;
use crate::{
    compare::Comparison,
    formula::{FINDINGS, Verdict},
    plot::{Chart, Marks, Series},
};

const STYLE: &str = "body{font:15px/1.5 sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
    table{border-collapse:collapse}td,th{padding:.2rem .6rem;text-align:left;vertical-align:top;border-bottom:1px solid #ccc}\
    td.n{text-align:right}figure{margin:1rem 0}figcaption{color:#555}svg{max-width:100%;height:auto}";

/// A file of a report.
#[derive(Debug, Clone)]
pub struct File {
    /// Its name.
    pub name: String,
    /// What is in it.
    pub content: String,
}

/// The page, which needs nothing beside it, and each picture as a file of its own.
///
/// # Errors
///
/// When a picture cannot be drawn.
pub fn report(comparisons: &[Comparison]) -> Result<Vec<File>, PlotError> {
    let mut files = Vec::new();
    let mut sections = Vec::new();
    for comparison in comparisons {
        let svg = picture(comparison)?;
        sections.push(section(comparison, &svg));
        files.push(File { name: format!("{}.svg", comparison.id), content: svg });
    }
    files.insert(0, File { name: "analysis.html".into(), content: page(&sections).into_string() });
    Ok(files)
}

fn picture(comparison: &Comparison) -> Result<String, PlotError> {
    let line = |name: &str, y: fn(&crate::compare::Point) -> f64| Series {
        name: name.into(),
        marks: Marks::Line(comparison.points.iter().map(|point| (point.x, y(point))).collect()),
    };
    let ranges = comparison.points.iter().map(|point| (point.x, point.least_ms, point.most_ms)).collect();
    let series = [
        line("as printed", |point| point.printed_ms),
        line("by section 2.2", |point| point.corrected_ms),
        Series { name: "simulated, least to largest".into(), marks: Marks::Ranges(ranges) },
    ];
    Chart { title: comparison.title, x: comparison.x, y: "unhappiness, ms", log_x: false, series: &series }.svg()
}

fn section(comparison: &Comparison, svg: &str) -> Markup {
    html! {
        h2 { (comparison.title) }
        figure {
            (PreEscaped(svg))
            figcaption {
                (comparison.setting) ". Farthest that the simulation is from the equation as printed: "
                (format!("{:.1}", comparison.printed_error_ms())) " ms; from what it should be: "
                (format!("{:.1}", comparison.corrected_error_ms())) " ms"
                @if comparison.corrected_is_bound() { ", which is never exceeded" }
                "."
            }
        }
    }
}

fn page(sections: &[Markup]) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { "Unhappiness by formula and by simulation" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Unhappiness by formula and by simulation" }
                p {
                    "Eq. 6 to 27 of Customer Appeasement Scheduling (TR-10-18, Carleton University, 2010). One CPU; one request, \
                     which finds N - 1 tasks that never sleep; α = 0."
                }
                table {
                    tr { th { "equation" } th { "verdict" } th { "why" } }
                    @for finding in &FINDINGS {
                        tr {
                            td { (finding.equation) }
                            td { (word(finding.verdict)) }
                            td { (finding.why) }
                        }
                    }
                }
                @for section in sections { (section) }
            }
        }
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::Bound => "a bound",
        Verdict::Wrong => "wrong",
    }
}
