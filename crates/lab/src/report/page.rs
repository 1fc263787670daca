//! The page around the plots.

use anyhow::Context;
use appease_scenario::{Load, Metric, Outcome, Run, Summary};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{
    Picture,
    axis::Axis,
    contour,
    names::{self, Better, figure, ratio, times},
    plot::{self, Curve, Look, Mark},
    sections::{Section, Series, distribution},
};

/// From this ratio on, a table cell is marked as better or worse.
const NOTABLE_RATIO: f64 = 1.25;

/// The whole document; `front` goes before the sections.
pub(super) fn render(sections: &[Section<'_>], front: &Markup) -> anyhow::Result<String> {
    let bodies = sections.iter().enumerate().map(|(i, one)| section(i, one)).collect::<anyhow::Result<Vec<_>>>()?;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "appease: laboratory report" }
                style { (PreEscaped(include_str!("style.css"))) }
            }
            body {
                h1 { "What somebody waits for, by scheduler" }
                p {
                    "Real input, a real X server and real applications in a virtual machine; times from kernel timestamps. "
                    "In exact mode one executed instruction is one nanosecond, so milliseconds do not depend on the host; "
                    "parallel mode tells only ratios and order."
                }
                @if sections.len() > 1 {
                    nav { @for (i, one) in sections.iter().enumerate() { a href={ "#s" (i) } { (one.scenario) " · " (kernel(one)) } } }
                }
                (front)
                @for body in bodies { (body) }
            }
        }
    };
    Ok(page.into_string())
}

/// A screenshot with what it shows.
pub(super) fn picture(picture: &Picture) -> Markup {
    html! {
        figure {
            figcaption { (picture.caption) }
            img alt=(picture.caption) src={ "data:image/png;base64," (base64(&picture.png)) };
        }
    }
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().enumerate().fold(0u32, |word, (i, byte)| word | u32::from(*byte) << (16 - 8 * i));
        for i in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * i)) as usize & 63];
            text.push(if i <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

fn kernel<'a>(section: &Section<'a>) -> &'a str {
    if section.kernel.is_empty() { "did not boot" } else { section.kernel }
}

/// What each scheduler of a section looks like.
fn looks(section: &Section<'_>) -> Vec<Look> {
    let mut others = 0;
    section
        .series
        .iter()
        .map(|series| {
            let look = Look::of(series.scheduler, others);
            others += u8::from(look.colour >= 7);
            look
        })
        .collect()
}

fn section(index: usize, section: &Section<'_>) -> anyhow::Result<Markup> {
    let looks = looks(section);
    let (cost, own): (Vec<_>, Vec<_>) = section.metrics().into_iter().partition(|name| names::is_cost(name));
    let draw =
        |names: &[&str]| names.iter().map(|name| metric(section, &looks, name)).collect::<anyhow::Result<Vec<_>>>();
    let (own, cost) = (draw(&own)?, draw(&cost)?);
    let contours = contour::render(section)?;
    let signs = looks.iter().map(|look| plot::swatch(*look)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(html! {
        h2 id={ "s" (index) } { (section.scenario) }
        div.where { "kernel " (kernel(section)) " · " (names::machine(section.machine)) }
        ul.legend {
            @for (series, sign) in section.series.iter().zip(signs) { li { (PreEscaped(sign)) (series.label()) } }
        }
        (outcomes(section))
        (contours)
        @for one in own { (one) }
        @if !cost.is_empty() {
            h3 { "What the background work got" }
            p { "The price of the figures above: what is given to whoever is waited for is taken from here." }
            @for one in cost { (one) }
        }
    })
}

/// Runs that gave no figures, with the reason; said even when there is none.
fn outcomes(section: &Section<'_>) -> Markup {
    let bad: Vec<&Run> = section.runs().filter(|run| run.outcome != Outcome::Ok).collect();
    let all = section.runs().count();
    html! {
        @if bad.is_empty() {
            p { "All " (all) " runs ended well: no scheduler was ejected, no meter saw nothing." }
        } @else {
            p { strong.bad { (bad.len()) " of " (all) " runs did not end well:" } }
            @for run in bad {
                details {
                    summary {
                        strong { (names::scheduler(&run.scheduler)) } " at " (run.load.to_string()) ": "
                        span.bad { (names::ending(run)) } " – " (run.detail.lines().next().unwrap_or("no reason given"))
                    }
                    pre { (run.detail) }
                }
            }
        }
    }
}

fn metric(section: &Section<'_>, looks: &[Look], name: &str) -> anyhow::Result<Markup> {
    let (title, unit) = (names::title(name), names::unit(name));
    let summaries: Vec<&Summary> =
        section.runs().filter_map(|run| run.metrics.get(name)).filter_map(distribution).collect();
    let spread = !summaries.is_empty();
    let axis = if spread {
        Axis::of(summaries.iter().flat_map(|summary| [summary.min, summary.max]), false)
    } else {
        Axis::of(section.runs().filter_map(|run| run.metrics.get(name)).map(typical), true)
    };
    let loads: Vec<String> = section.loads.iter().map(Load::to_string).collect();
    let series: Vec<_> = section
        .series
        .iter()
        .zip(looks)
        .map(|(series, look)| (*look, section.loads.iter().map(|load| mark(series, *load, name)).collect()))
        .collect();
    let label = format!("{title} against load, by scheduler");
    let against = plot::against_load(&label, unit, axis, &loads, &series).with_context(|| format!("metric {name}"))?;
    let panels = if spread {
        panels(section, looks, name, axis)?
    } else {
        html! {}
    };
    Ok(html! {
        h3 { (title) @if !unit.is_empty() { " (" (unit) ")" } }
        figure {
            figcaption {
                "Against load " span {
                    @if spread { "– marker: median; thick bar: 90th percentile; end of the line: largest" }
                    @match names::better(name) { Better::Less => " · less is better", Better::More => " · more is better", Better::Neither => {} }
                    @if series.iter().any(|(_, marks): &(Look, Vec<Mark<'_>>)| marks.iter().any(|m| matches!(m, Mark::Missing))) { " · ✕: no figure" }
                }
            }
            (PreEscaped(against))
        }
        (panels)
        @if spread { (spread_table(section, looks, name)) } @else { (value_table(section, looks, name)) }
    })
}

fn mark<'a>(series: &Series<'a>, load: Load, name: &str) -> Mark<'a> {
    match (series.at(load), series.metric(load, name)) {
        (None, _) => Mark::NotRun,
        (_, Some(Metric::Distribution(summary))) => Mark::Range(summary),
        (_, Some(Metric::Scalar { value })) => Mark::Value(*value),
        (Some(run), None) if run.outcome == Outcome::Ok => Mark::NotRun,
        (Some(_), None) => Mark::Missing,
    }
}

/// One ECDF for each load.
fn panels(section: &Section<'_>, looks: &[Look], name: &str, axis: Axis) -> anyhow::Result<Markup> {
    let mut panels = Vec::new();
    for load in &section.loads {
        let curves: Vec<Curve<'_>> = section
            .series
            .iter()
            .zip(looks)
            .filter_map(|(series, look)| {
                let summary = distribution(series.metric(*load, name)?)?;
                Some(Curve { look: *look, summary })
            })
            .collect();
        if !curves.is_empty() {
            let label = format!("{}: distribution at load {load}", names::title(name));
            panels.push((load.to_string(), plot::ecdf(&label, names::unit(name), axis, &curves)?));
        }
    }
    Ok(html! {
        div.panels { @for (load, svg) in panels { figure { figcaption { "Distribution at " (load) } (PreEscaped(svg)) } } }
    })
}

/// The one figure that stands for a metric: its median where it is a distribution.
fn typical(metric: &Metric) -> f64 {
    match metric {
        Metric::Distribution(summary) => summary.p50,
        Metric::Scalar { value } => *value,
    }
}

/// Rows of a table: each load, in it each scheduler that was run.
fn rows<'s, 'a>(section: &'s Section<'a>) -> impl Iterator<Item = (Load, usize, &'s Series<'a>, &'a Run, bool)> {
    section.loads.iter().flat_map(|load| {
        let runs = section.series.iter().enumerate().filter_map(|(at, series)| Some((at, series, series.at(*load)?)));
        runs.enumerate().map(|(i, (at, series, run))| (*load, at, series, run, i == 0))
    })
}

fn head_cells(load: Load, first: bool, look: Look, series: &Series<'_>) -> Markup {
    html! {
        td.text.load { @if first { (load.to_string()) } }
        td.text { span.key style={ "background:var(--s" (look.colour) ")" } {} (series.label()) }
    }
}

fn ours(series: &Series<'_>) -> bool {
    series.scheduler == "appease"
}

fn spread_table(section: &Section<'_>, looks: &[Look], name: &str) -> Markup {
    let better = names::better(name);
    let row = |load, at: usize, series: &Series<'_>, run: &Run, first| {
        let own = run.metrics.get(name).and_then(distribution);
        let unloaded = series.metric(Load::None, name).and_then(distribution);
        let eevdf = section.eevdf().and_then(|eevdf| eevdf.metric(load, name)).and_then(distribution);
        html! {
            tr.first[first].ours[ours(series)] {
                (head_cells(load, first, looks[at], series))
                @if let Some(own) = own {
                    td { (own.n) }
                    @for value in [own.min, own.p50, own.p90, own.p99, own.max] { td { (figure(value)) } }
                    @for base in [unloaded, eevdf] {
                        (ratio_cell(base.and_then(|base| ratio(own.p50, base.p50)), better, true))
                        (ratio_cell(base.and_then(|base| ratio(own.p90, base.p90)), better, false))
                        (ratio_cell(base.and_then(|base| ratio(own.max, base.max)), better, false))
                    }
                } @else {
                    td.bad.text colspan="12" { (outcome_or_nothing(run)) }
                }
            }
        }
    };
    html! {
        div.scroll { table {
            thead {
                tr {
                    th colspan="2" {} th.group colspan="6" { (names::unit(name)) }
                    th.group colspan="3" { "× own figure without load" } th.group colspan="3" { "× EEVDF at this load" }
                }
                tr {
                    th.text { "load" } th.text { "scheduler" }
                    th { "samples" } th { "least" } th { "p50" } th { "p90" } th { "p99" } th { "largest" }
                    @for _ in 0..2 { th.start { "p50" } th { "p90" } th { "largest" } }
                }
            }
            tbody { @for (load, at, series, run, first) in rows(section) { (row(load, at, series, run, first)) } }
        } }
    }
}

fn value_table(section: &Section<'_>, looks: &[Look], name: &str) -> Markup {
    let better = names::better(name);
    let value = |metric: &Metric| typical(metric);
    let row = |load, at: usize, series: &Series<'_>, run: &Run, first| {
        let own = run.metrics.get(name).map(value);
        let unloaded = series.metric(Load::None, name).map(value);
        let eevdf = section.eevdf().and_then(|eevdf| eevdf.metric(load, name)).map(value);
        html! {
            tr.first[first].ours[ours(series)] {
                (head_cells(load, first, looks[at], series))
                @if let Some(own) = own {
                    td { (figure(own)) }
                    @for base in [unloaded, eevdf] { (ratio_cell(base.and_then(|base| ratio(own, base)), better, true)) }
                } @else {
                    td.bad.text colspan="3" { (outcome_or_nothing(run)) }
                }
            }
        }
    };
    html! {
        div.scroll { table.values {
            thead { tr {
                th.text { "load" } th.text { "scheduler" } th { (names::unit(name)) }
                th.start { "× own figure without load" } th.start { "× EEVDF at this load" }
            } }
            tbody { @for (load, at, series, run, first) in rows(section) { (row(load, at, series, run, first)) } }
        } }
    }
}

fn outcome_or_nothing(run: &Run) -> String {
    if run.outcome == Outcome::Ok { "does not apply".into() } else { names::ending(run) }
}

fn ratio_cell(ratio: Option<f64>, better: Better, start: bool) -> Markup {
    let (up, down) = match better {
        Better::Less => ("bad", "good"),
        Better::More => ("good", "bad"),
        Better::Neither => ("", ""),
    };
    let class = match ratio {
        Some(ratio) if ratio >= NOTABLE_RATIO => up,
        Some(ratio) if ratio <= 1.0 / NOTABLE_RATIO => down,
        _ => "",
    };
    let class = if start { format!("start {class}") } else { class.to_owned() };
    html! { td class=(class) { (times(ratio)) } }
}
