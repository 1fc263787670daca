//! Value contours: what parts of a scenario are worth at once, each against itself alone.
//!
//! Nieh, Hanko, Northcutt and Wall, "SVR4 UNIX Scheduler Unacceptable for Multimedia Applications" (1993), Figure 2: two bars for each
//! application, mean and standard deviation of its time alone by that beside the others. A full bar is as good as alone.

use anyhow::Context;
use appease_scenario::{Load, Metric, Outcome, Run, Summary, scheduler_and_mix};
use maud::{Markup, PreEscaped, html};

use super::{
    names::{self, figure, ratio, times},
    plot::{self, Look, Pillar},
    sections::{Section, Series, distribution},
};

/// How much of a part there was: what begins a part's metrics.
const COMPLETED: &str = "_completed";
/// What the others left of the CPU to a part that takes all it can get.
const LEFT: &str = "_left_cpu_pct";

/// A part under one scheduler.
struct Value<'a> {
    part: &'a str,
    /// Alone, under the same scheduler without a mix.
    alone: Option<&'a Summary>,
    /// Beside the others.
    beside: Option<&'a Summary>,
    /// How much was completed beside the others.
    completed: Option<f64>,
    /// What the CPU that the others left makes of the mean alone, ms.
    bound_ms: Option<f64>,
}

/// A scheduler's contour.
struct Row<'s, 'a> {
    series: &'s Series<'a>,
    run: &'a Run,
    values: Vec<Value<'a>>,
}

impl Value<'_> {
    /// Mean and standard deviation alone, by those beside the others, per cent.
    fn percents(&self) -> [Option<f64>; 2] {
        let percent = |of: fn(&Summary) -> f64| {
            let (alone, beside) = (of(self.alone?), of(self.beside?));
            ratio(alone, beside).map(|ratio| 100.0 * ratio)
        };
        [percent(|summary| summary.mean), percent(|summary| summary.sd)]
    }
}

fn scalar(metric: &Metric) -> Option<f64> {
    match metric {
        Metric::Scalar { value } => Some(*value),
        Metric::Distribution(_) => None,
    }
}

fn rows<'s, 'a>(section: &'s Section<'a>) -> Vec<Row<'s, 'a>> {
    let parts: Vec<&str> = section.metrics().into_iter().filter_map(|name| name.strip_suffix(COMPLETED)).collect();
    let row = |series: &'s Series<'a>| {
        let run = series.at(Load::All)?;
        let alone_under =
            |name: &str| section.series.iter().find(|other| other.scheduler == name && other.at(Load::None).is_some());
        let base = alone_under(scheduler_and_mix(series.scheduler).0).or_else(|| alone_under("eevdf"));
        let value = |part: &&'a str| {
            let part = *part;
            let time = format!("{part}_ms");
            let alone = base.and_then(|base| base.metric(Load::None, &time)).and_then(distribution);
            let left = run.metrics.get(&format!("{part}{LEFT}")).and_then(scalar);
            Value {
                part,
                alone,
                beside: run.metrics.get(&time).and_then(distribution),
                completed: run.metrics.get(&format!("{part}{COMPLETED}")).and_then(scalar),
                bound_ms: alone.zip(left).and_then(|(alone, left_pct)| ratio(100.0 * alone.mean, left_pct)),
            }
        };
        Some(Row { series, run, values: parts.iter().map(value).collect() })
    };
    section.series.iter().filter_map(row).collect()
}

/// Contours and their figures; nothing for a scenario without parts.
pub(super) fn render(section: &Section<'_>) -> anyhow::Result<Markup> {
    let rows = rows(section);
    if rows.is_empty() {
        return Ok(html! {});
    }
    let drawn = rows.iter().map(|row| Ok((caption(row), draw(row)?))).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(html! {
        h3 { "Value contours" }
        p {
            "For each part of the work two bars: the mean of its time alone by its mean beside the others, and likewise the standard "
            "deviation. 100 % is as good as alone; not all parts can have that at once. Alone is the same scheduler at load none, "
            "without the mix: for all of the kernel’s own mixes that is EEVDF, as for a scheduler that was not run without load. What stands over the scale is cut off at its top."
        }
        div.panels {
            @for (caption, svg) in drawn { figure { figcaption { (caption.0) " " span { (caption.1) } } (PreEscaped(svg)) } }
        }
        (table(&rows))
    })
}

fn caption(row: &Row<'_, '_>) -> (String, String) {
    let nothing = row.values.iter().filter(|value| value.beside.is_none());
    let words = nothing.map(|value| format!("{}: {}", value.part, missing(row.run, value)));
    (row.series.label(), words.collect::<Vec<_>>().join(" · "))
}

/// Why there is no bar.
fn missing(run: &Run, value: &Value<'_>) -> String {
    match (run.outcome, value.completed) {
        (Outcome::Ok, Some(0.0)) => "completed nothing: the machine did not answer".into(),
        (Outcome::Ok, Some(completed)) => format!("completed {completed:.0}, too few"),
        (Outcome::Ok, None) => "was not measured".into(),
        _ => names::ending(run),
    }
}

fn draw(row: &Row<'_, '_>) -> anyhow::Result<String> {
    let look = Look::of(scheduler_and_mix(row.series.scheduler).0, 0);
    let groups: Vec<(&str, [Pillar; 2])> = row
        .values
        .iter()
        .map(|value| {
            let pillars = value.percents().map(|percent| match percent {
                Some(percent) => Pillar::Percent(percent),
                None if value.beside.is_none() => Pillar::Nothing,
                None => Pillar::NoBase,
            });
            (value.part, pillars)
        })
        .collect();
    let label = format!("value contour of {}", row.series.label());
    plot::contour(&label, look, &groups).with_context(|| label.clone())
}

fn table(rows: &[Row<'_, '_>]) -> Markup {
    let parts: Vec<(&str, bool)> = rows.first().map_or_else(Vec::new, |first| {
        first.values.iter().enumerate().map(|(at, value)| (value.part, bounded(rows, at))).collect()
    });
    let cells = |value: &Value<'_>, run: &Run, bounded: bool| {
        let wide = if bounded { "7" } else { "5" };
        html! {
            @if let Some(beside) = value.beside {
                td.start { (value.completed.map_or_else(|| "–".into(), |completed| format!("{completed:.0}"))) }
                td { (figure(beside.mean)) } td { (figure(beside.sd)) }
                td { (times(value.alone.and_then(|alone| ratio(beside.mean, alone.mean)))) }
                td { (times(value.alone.and_then(|alone| ratio(beside.sd, alone.sd)))) }
                @if bounded {
                    td { (value.bound_ms.map_or_else(|| "–".into(), figure)) }
                    td { (times(value.bound_ms.and_then(|bound_ms| ratio(beside.mean, bound_ms)))) }
                }
            } @else {
                td.start.bad.text colspan=(wide) { (missing(run, value)) }
            }
        }
    };
    html! {
        div.scroll { table {
            thead {
                tr {
                    th {}
                    @for (part, bounded) in &parts {
                        th.group colspan=(if *bounded { "7" } else { "5" }) { (part) ", ms, and × alone" }
                    }
                }
                tr {
                    th.text { "scheduler" }
                    @for (_, bounded) in &parts {
                        th.start { "number" } th { "mean" } th { "sd" } th { "× mean" } th { "× sd" }
                        @if *bounded { th { "bound" } th { "× bound" } }
                    }
                }
            }
            tbody {
                @for row in rows {
                    tr.ours[row.series.scheduler == "appease"] {
                        td.text { (row.series.label()) }
                        @for (value, (_, bounded)) in row.values.iter().zip(&parts) { (cells(value, row.run, *bounded)) }
                    }
                }
            }
        } }
        @if parts.iter().any(|(_, bounded)| *bounded) {
            p { "Bound: the mean alone by the share of the CPU that all other parts, the display server and the camera left." }
        }
    }
}

/// Whether any row knows what the others left to this part.
fn bounded(rows: &[Row<'_, '_>], at: usize) -> bool {
    rows.iter().any(|row| row.values.get(at).is_some_and(|value| value.bound_ms.is_some()))
}
