//! The plots, as SVG text whose colours are CSS variables of the page, so that they follow light and dark.

use anyhow::{Context, anyhow};
use appease_scenario::Summary;
use plotters::{
    coord::types::RangedCoordf64,
    element::{Drawable, PointCollection},
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::axis::{Axis, tick};

/// How a scheduler is drawn, everywhere the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    /// Index of its CSS colour, `--s0` to `--s8`.
    pub colour: u8,
    /// Index of its marker and dash pattern.
    pub shape: u8,
    pub bold: bool,
}

/// One line of an ECDF plot.
pub(super) struct Curve<'a> {
    pub look: Look,
    pub summary: &'a Summary,
}

/// One bar of a value contour.
pub(super) enum Pillar {
    /// What it was alone, by what it was beside others.
    Percent(f64),
    /// Nothing was completed.
    Nothing,
    /// There is nothing to compare it with.
    NoBase,
}

/// One figure of a plot against load.
pub(super) enum Mark<'a> {
    /// Median, p90 and largest.
    Range(&'a Summary),
    /// One value.
    Value(f64),
    /// The run gave none.
    Missing,
    /// There was no such run.
    NotRun,
}

/// The top of a value contour, per cent.
const CONTOUR_TOP: f64 = 125.0;

/// Colours that [`finish`] replaces by CSS variables; no picture uses them otherwise.
const INK: RGBColor = RGBColor(1, 2, 240);
const SOFT: RGBColor = RGBColor(1, 2, 241);
const GRID: RGBColor = RGBColor(1, 2, 242);
const PANEL: RGBColor = RGBColor(1, 2, 243);
const NAMED: [(RGBColor, &str); 4] = [(INK, "ink"), (SOFT, "soft"), (GRID, "grid"), (PANEL, "panel")];
const NR_COLOURS: u8 = 9;

/// Second byte of the stand-in colour of a line that is dashed, plus its shape.
const DASHED: u8 = 16;

/// SVG dash pattern of each shape; empty is a solid line.
const DASHES: [&str; 7] = ["", "", "10 4", "6 4", "2 3", "12 3 2 3", "4 6"];

const FONT_PX: f64 = 13.0;

impl Look {
    /// The look of the `index`th scheduler that has no look of its own yet.
    pub fn of(scheduler: &str, nth_other: u8) -> Self {
        const FIXED: [&str; 7] =
            ["eevdf", "appease", "eevdf-scopes", "scx_bpfland", "scx_lavd", "scx_flash", "scx_cosmos"];
        let bold = scheduler == "appease";
        match FIXED.iter().position(|name| *name == scheduler) {
            #[allow(clippy::cast_possible_truncation)] // seven
            Some(at) => Self { colour: at as u8, shape: at as u8, bold },
            None => Self { colour: 7 + nth_other % 2, shape: nth_other % 7, bold },
        }
    }

    fn colour(self) -> RGBColor {
        RGBColor(1, 2, self.colour)
    }

    fn line(self) -> ShapeStyle {
        self.colour().stroke_width(if self.bold { 3 } else { 2 })
    }

    /// As [`Look::line`], in the scheduler's dash pattern.
    fn dashed_line(self) -> ShapeStyle {
        RGBColor(1, DASHED + self.shape, self.colour).stroke_width(if self.bold { 3 } else { 2 })
    }
}

type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Draws onto a chart of the given size, with `below` pixels for labels under it, whose coordinates are `x` and 0 to 1
/// upwards.
fn chart(
    label: &str,
    size: (u32, u32),
    below: u32,
    x: std::ops::Range<f64>,
    draw: impl FnOnce(&mut Chart<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .margin_top(26)
            .margin_right(24)
            .x_label_area_size(below)
            .y_label_area_size(56)
            .build_cartesian_2d(x, 0.0..1.0)
            .map_err(|e| anyhow!("{e}"))
            .with_context(|| format!("lay out the plot \"{label}\""))?;
        draw(&mut chart).with_context(|| format!("draw the plot \"{label}\""))?;
        root.present().map_err(|e| anyhow!("{e}"))?;
    }
    Ok(finish(&svg, label))
}

/// Replaces the stand-in colours, and tells screen readers what the picture is.
fn finish(svg: &str, label: &str) -> String {
    let hex = |colour: RGBColor| format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2);
    let mut svg = svg.to_owned();
    for (colour, name) in NAMED {
        svg = svg.replace(&hex(colour), &format!("var(--{name})"));
    }
    for index in 0..NR_COLOURS {
        svg = svg.replace(&hex(RGBColor(1, 2, index)), &format!("var(--s{index})"));
    }
    for (shape, dash) in (DASHED..).zip(DASHES) {
        for index in 0..NR_COLOURS {
            let old = format!("stroke=\"{}\"", hex(RGBColor(1, shape, index)));
            svg = svg.replace(&old, &format!("stroke=\"var(--s{index})\" stroke-dasharray=\"{dash}\""));
        }
    }
    let label = label.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
    svg.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{label}\" "), 1)
}

fn put<'a, E>(chart: &mut Chart<'a>, element: E) -> anyhow::Result<()>
where
    for<'b> &'b E: PointCollection<'b, (f64, f64)>,
    E: Drawable<SVGBackend<'a>>,
{
    chart.draw_series(std::iter::once(element)).map(|_| ()).map_err(|e| anyhow!("{e}"))
}

/// Text at a place, moved by pixels.
fn text(
    chart: &mut Chart<'_>,
    at: (f64, f64),
    by: (i32, i32),
    words: &str,
    (horizontal, vertical): (HPos, VPos),
    colour: RGBColor,
) -> anyhow::Result<()> {
    let style = TextStyle::from(("sans-serif", FONT_PX).into_font()).color(&colour).pos(Pos::new(horizontal, vertical));
    put(chart, EmptyElement::at(at) + Text::new(words.to_owned(), by, style))
}

fn line(chart: &mut Chart<'_>, points: Vec<(f64, f64)>, style: impl Into<ShapeStyle>) -> anyhow::Result<()> {
    put(chart, PathElement::new(points, style))
}

/// A scheduler's marker at a place.
fn marker(chart: &mut Chart<'_>, at: (f64, f64), look: Look) -> anyhow::Result<()> {
    let r = if look.bold { 6 } else { 5 };
    let fill = look.colour().filled();
    let shape: &[(i32, i32)] = match look.shape {
        1 => return put(chart, Circle::new(at, r, fill)),
        0 => &[(-4, -4), (4, -4), (4, 4), (-4, 4)],
        2 => &[(0, -6), (6, 0), (0, 6), (-6, 0)],
        3 => &[(0, -6), (6, 5), (-6, 5)],
        4 => &[(0, 6), (6, -5), (-6, -5)],
        5 => &[
            (-6, -2),
            (-2, -2),
            (-2, -6),
            (2, -6),
            (2, -2),
            (6, -2),
            (6, 2),
            (2, 2),
            (2, 6),
            (-2, 6),
            (-2, 2),
            (-6, 2),
        ],
        _ => &[(-6, 0), (6, -6), (6, 6)],
    };
    put(chart, EmptyElement::at(at) + Polygon::new(shape.to_vec(), fill))
}

/// The legend's sign for a scheduler.
pub(super) fn swatch(look: Look) -> anyhow::Result<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (30, 14)).into_drawing_area();
        let mut chart = ChartBuilder::on(&root).build_cartesian_2d(0.0..1.0, 0.0..1.0).map_err(|e| anyhow!("{e}"))?;
        line(&mut chart, vec![(0.0, 0.5), (1.0, 0.5)], look.dashed_line())?;
        marker(&mut chart, (0.5, 0.5), look)?;
        root.present().map_err(|e| anyhow!("{e}"))?;
    }
    let svg = finish(&svg, "");
    Ok(svg.replacen("role=\"img\" aria-label=\"\"", "aria-hidden=\"true\"", 1))
}

/// Share of samples up to each value, one line for each scheduler.
pub(super) fn ecdf(label: &str, unit: &str, axis: Axis, curves: &[Curve<'_>]) -> anyhow::Result<String> {
    chart(label, (400, 250), 44, 0.0..1.0, |chart| {
        for (share, name) in [(0.0, "0 %"), (0.25, ""), (0.5, "50 %"), (0.75, ""), (0.9, "90 %"), (1.0, "100 %")] {
            line(chart, vec![(0.0, share), (1.0, share)], GRID)?;
            text(chart, (0.0, share), (-8, 0), name, (HPos::Right, VPos::Center), SOFT)?;
        }
        for (value, labelled) in axis.ticks() {
            let at = axis.place(value);
            line(chart, vec![(at, 0.0), (at, 1.0)], GRID)?;
            if labelled {
                text(chart, (at, 0.0), (0, 7), &tick(value), (HPos::Center, VPos::Top), SOFT)?;
            }
        }
        text(chart, (1.0, 0.0), (0, 26), &axis.name(unit), (HPos::Right, VPos::Top), SOFT)?;
        text(chart, (0.0, 0.0), (0, 26), "samples up to …", (HPos::Left, VPos::Top), SOFT)?;
        curves.iter().try_for_each(|one| line(chart, steps(one.summary, axis), one.look.dashed_line()))
    })
}

/// The points of an ECDF. Where the samples were left out, straight lines join what the summary says.
fn steps(summary: &Summary, axis: Axis) -> Vec<(f64, f64)> {
    if summary.samples.is_empty() {
        let known =
            [(summary.min, 0.0), (summary.p50, 0.5), (summary.p90, 0.9), (summary.p99, 0.99), (summary.max, 1.0)];
        return known.map(|(value, share)| (axis.place(value), share)).to_vec();
    }
    let mut sorted = summary.samples.clone();
    sorted.sort_by(f64::total_cmp);
    #[allow(clippy::cast_precision_loss)]
    let share = |rank: usize| rank as f64 / sorted.len() as f64;
    let mut points = Vec::with_capacity(2 * sorted.len() + 1);
    for (rank, value) in sorted.iter().enumerate() {
        let at = axis.place(*value);
        points.push((at, share(rank)));
        points.push((at, share(rank + 1)));
    }
    points
}

/// For each part a bar of its mean and a lighter one of its standard deviation.
pub(super) fn contour(label: &str, look: Look, groups: &[(&str, [Pillar; 2])]) -> anyhow::Result<String> {
    const HALF: f64 = 0.17;
    #[allow(clippy::cast_precision_loss)]
    let width = groups.len() as f64;
    chart(label, (400, 230), 48, 0.0..width, |chart| {
        for (percent, name) in [(0.0, "0 %"), (50.0, "50 %"), (100.0, "100 %")] {
            let at = percent / CONTOUR_TOP;
            let style = if percent >= 100.0 { SOFT } else { GRID };
            line(chart, vec![(0.0, at), (width, at)], style)?;
            text(chart, (0.0, at), (-8, 0), name, (HPos::Right, VPos::Center), SOFT)?;
        }
        for (i, (part, pillars)) in groups.iter().enumerate() {
            #[allow(clippy::cast_precision_loss)]
            let middle = i as f64 + 0.5;
            text(chart, (middle, 0.0), (0, 26), part, (HPos::Center, VPos::Top), INK)?;
            let bars = [("mean", middle - 0.2, 1.0), ("sd", middle + 0.2, 0.55)];
            for ((name, x, strength), pillar) in bars.into_iter().zip(pillars) {
                text(chart, (x, 0.0), (0, 7), name, (HPos::Center, VPos::Top), SOFT)?;
                match pillar {
                    Pillar::Percent(percent) => {
                        let top = (percent / CONTOUR_TOP).clamp(0.0, 1.0);
                        let fill = look.colour().mix(strength).filled();
                        put(chart, Rectangle::new([(x - HALF, 0.0), (x + HALF, top)], fill))?;
                        text(chart, (x, top), (0, -4), &tick(*percent), (HPos::Center, VPos::Bottom), INK)?;
                    }
                    Pillar::Nothing => put(chart, Cross::new((x, 0.08), 5, look.colour().stroke_width(2)))?,
                    Pillar::NoBase => text(chart, (x, 0.0), (0, -4), "?", (HPos::Center, VPos::Bottom), SOFT)?,
                }
            }
        }
        Ok(())
    })
}

/// A figure against load: one group for each load, in it one mark for each scheduler.
pub(super) fn against_load(
    label: &str,
    unit: &str,
    axis: Axis,
    loads: &[String],
    series: &[(Look, Vec<Mark<'_>>)],
) -> anyhow::Result<String> {
    #[allow(clippy::cast_precision_loss)]
    let (nr_loads, nr_series) = (loads.len() as f64, series.len() as f64);
    let pitch = (0.8 / nr_series).min(0.16);
    chart(label, (1080, 330), 28, 0.0..nr_loads, |chart| {
        for (value, labelled) in axis.ticks() {
            let at = axis.place(value);
            line(chart, vec![(0.0, at), (nr_loads, at)], GRID)?;
            if labelled {
                text(chart, (0.0, at), (-8, 0), &tick(value), (HPos::Right, VPos::Center), SOFT)?;
            }
        }
        text(chart, (0.0, 1.0), (-52, -10), &axis.name(unit), (HPos::Left, VPos::Bottom), SOFT)?;
        for (i, load) in loads.iter().enumerate() {
            #[allow(clippy::cast_precision_loss)]
            let left = i as f64;
            if i > 0 {
                line(chart, vec![(left, 0.0), (left, 1.0)], SOFT.mix(0.6))?;
            }
            text(chart, (left + 0.5, 0.0), (0, 8), load, (HPos::Center, VPos::Top), INK)?;
            for (j, (look, marks)) in series.iter().enumerate() {
                #[allow(clippy::cast_precision_loss)]
                let x = left + 0.5 + (j as f64 - (nr_series - 1.0) / 2.0) * pitch;
                mark(chart, x, pitch, axis, *look, marks.get(i).unwrap_or(&Mark::NotRun))?;
            }
        }
        Ok(())
    })
}

fn mark(chart: &mut Chart<'_>, x: f64, pitch: f64, axis: Axis, look: Look, mark: &Mark<'_>) -> anyhow::Result<()> {
    match mark {
        Mark::NotRun => Ok(()),
        Mark::Missing => put(chart, Cross::new((x, 0.96), 5, look.colour().stroke_width(2))),
        Mark::Value(value) => {
            let (top, half) = (axis.place(*value), pitch * 0.36);
            put(
                chart,
                Rectangle::new([(x - half, axis.place(axis.low.max(0.0))), (x + half, top)], look.colour().filled()),
            )?;
            line(chart, vec![(x - half, top), (x + half, top)], look.colour().stroke_width(3))?;
            text(chart, (x, top), (0, -5), &tick(*value), (HPos::Center, VPos::Bottom), INK)
        }
        Mark::Range(summary) => {
            let [p50, p90, max] = [summary.p50, summary.p90, summary.max].map(|value| axis.place(value));
            let half = pitch * 0.3;
            line(chart, vec![(x, p50), (x, max)], look.line())?;
            line(chart, vec![(x - half, p90), (x + half, p90)], look.colour().stroke_width(3))?;
            line(chart, vec![(x - half / 2.0, max), (x + half / 2.0, max)], look.colour().stroke_width(1))?;
            marker(chart, (x, p50), look)
        }
    }
}
