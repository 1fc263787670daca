//! Plots, as SVG text.

use plotters::prelude::*;

const SIZE: (u32, u32) = (760, 420);
/// Told apart by those who see fewer colours, too.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(70, 70, 70),
    RGBColor(170, 160, 60),
];

/// What is drawn of one thing.
pub(crate) enum Marks {
    Line(Vec<(f64, f64)>),
    /// From the second number to the third.
    Ranges(Vec<(f64, f64, f64)>),
}

pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) marks: Marks,
}

pub(crate) struct Chart<'a> {
    pub(crate) title: &'a str,
    pub(crate) x: &'a str,
    pub(crate) y: &'a str,
    /// Powers of ten along the x axis.
    pub(crate) log_x: bool,
    pub(crate) series: &'a [Series],
}

/// A picture that could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("drawing \"{title}\": {message}")]
pub struct PlotError {
    title: String,
    message: String,
}

impl Chart<'_> {
    pub(crate) fn svg(&self) -> Result<String, PlotError> {
        let mut svg = String::new();
        self.draw(&mut svg).map_err(|error| PlotError { title: self.title.to_owned(), message: error.to_string() })?;
        Ok(svg)
    }

    fn along(&self, x: f64) -> f64 {
        if self.log_x { x.log10() } else { x }
    }

    fn bounds(&self) -> (std::ops::Range<f64>, std::ops::Range<f64>) {
        let points = self.series.iter().flat_map(|series| match &series.marks {
            Marks::Line(points) => points.clone(),
            Marks::Ranges(ranges) => ranges.iter().flat_map(|&(x, from, to)| [(x, from), (x, to)]).collect(),
        });
        let mut bounds = (f64::INFINITY..f64::NEG_INFINITY, 0f64..0f64);
        for (x, y) in points {
            let x = self.along(x);
            bounds.0 = bounds.0.start.min(x)..bounds.0.end.max(x);
            bounds.1 = bounds.1.start.min(y)..bounds.1.end.max(y);
        }
        let room = |range: std::ops::Range<f64>| {
            let margin = ((range.end - range.start) * 0.04).max(1e-6);
            range.start - margin..range.end + margin
        };
        (room(bounds.0), room(bounds.1))
    }

    fn draw(&self, svg: &mut String) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
        let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        let (across, up) = self.bounds();
        let mut chart = ChartBuilder::on(&area)
            .caption(self.title, ("sans-serif", 16))
            .margin(10)
            .x_label_area_size(42)
            .y_label_area_size(64)
            .build_cartesian_2d(across, up)?;
        let label = |x: &f64| if self.log_x { format!("{:.0}", 10f64.powf(*x)) } else { format!("{x:.0}") };
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc(self.x)
            .y_desc(self.y)
            .x_label_formatter(&label)
            .draw()?;
        for (series, colour) in self.series.iter().zip(COLOURS.iter().cycle()) {
            let style = colour.stroke_width(2);
            let drawn = match &series.marks {
                Marks::Line(points) => {
                    let points: Vec<_> = points.iter().map(|&(x, y)| (self.along(x), y)).collect();
                    chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, colour.filled())))?;
                    chart.draw_series(LineSeries::new(points, style))?
                }
                Marks::Ranges(ranges) => chart.draw_series(ranges.iter().map(|&(x, from, to)| {
                    ErrorBar::new_vertical(self.along(x), from, f64::midpoint(from, to), to, style, 8)
                }))?,
            };
            drawn.label(&series.name).legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()?;
        area.present()
    }
}
