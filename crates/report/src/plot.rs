// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plots as SVG for a page: their colours are the page's, light or dark, so nothing here names one.

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Axis, Bar, Origin, Plot, Scale, Series, digits};

/// Colours of series there are.
pub(super) const COLOURS: usize = 8;

/// Size in units of which a letter has 14; on a narrow screen all of it shrinks.
const WIDTH: u32 = 560;
const HEIGHT: u32 = 340;
const LETTER: i32 = 14;
/// Numbers at the lower edge at most.
const LABELS: usize = 10;
/// Room that a bar and its label take.
const BAR_STEP: i32 = 46;

/// Stand-ins that are replaced by variables of the page.
const TEXT: RGBColor = RGBColor(1, 1, 1);
const GRID: RGBColor = RGBColor(1, 1, 2);

fn series_colour(n: usize) -> RGBColor {
    RGBColor(1, 2, (n % COLOURS) as u8)
}

/// The plot as an `svg` element.
pub(super) fn svg(plot: &Plot) -> String {
    let mut out = String::new();
    let drawn = match plot {
        Plot::Lines { x, y, series, .. } => lines(&mut out, x, y, series),
        Plot::Bars { bars, unit, .. } => draw_bars(&mut out, bars, unit),
    };
    // Drawing into memory has no way to fail; what was drawn until then is shown.
    drop(drawn);
    recolour(&out)
}

/// The stand-ins replaced by what the page defines.
fn recolour(svg: &str) -> String {
    let hex = |c: RGBColor| format!("\"#{:02X}{:02X}{:02X}\"", c.0, c.1, c.2);
    let mut svg = svg.replace(&hex(TEXT), "\"currentColor\"").replace(&hex(GRID), "\"var(--grid)\"");
    for n in 0..COLOURS {
        svg = svg.replace(&hex(series_colour(n)), &format!("\"var(--s{n})\""));
    }
    svg
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

fn lines(out: &mut String, x: &Axis, y: &Axis, series: &[Series]) -> Drawn {
    let all = || series.iter().flat_map(|s| &s.points);
    let (across, up) = (Range::of(x.scale, all().map(|p| p.0)), Range::of(y.scale, all().map(|p| p.1)));
    let root = SVGBackend::with_string(out, (WIDTH, HEIGHT)).into_drawing_area();
    {
        let mut chart = ChartBuilder::on(&root)
            .margin(8)
            .x_label_area_size(44)
            .y_label_area_size(58)
            .build_cartesian_2d(across.clone(), up.clone())?;
        let style = ("sans-serif", LETTER).into_font().color(&TEXT);
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(GRID)
            .x_desc(&x.name)
            .y_desc(&y.name)
            .axis_desc_style(style.clone())
            .label_style(style)
            .x_label_formatter(&|at| across.label(*at))
            .y_label_formatter(&|at| up.label(*at))
            .draw()?;
        for s in series {
            let place = |(x, y): &(f64, f64)| Some((across.place(*x)?, up.place(*y)?));
            let points: Vec<(f64, f64)> = s.points.iter().filter_map(place).collect();
            one_line(&mut chart, s, &points)?;
        }
    }
    root.present()?;
    Ok(())
}

/// What an axis shows, from where to where, and where its numbers stand.
#[derive(Clone)]
struct Range {
    scale: Scale,
    from: f64,
    to: f64,
    ticks: Vec<f64>,
}

impl Range {
    /// All of these values.
    fn of(scale: Scale, values: impl Iterator<Item = f64>) -> Range {
        let places = values.filter_map(|value| place(scale, value));
        let (low, high) =
            places.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), at| (low.min(at), high.max(at)));
        let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        let (from, to) = match scale {
            Scale::Whole => (0.5, high.max(1.0) + 0.5),
            Scale::Linear => (0.0, if high > 0.0 { high * 1.06 } else { 1.0 }),
            Scale::Percent => (0.0, 100.0),
            // Half as much and twice as much, so that one value has room, too.
            Scale::Log => (low - 0.3, high + 0.3),
            Scale::Quantile => (0.0, high.max(1.0) * 1.03),
        };
        Range { scale, from, to, ticks: ticks(scale, from, to) }
    }

    fn place(&self, value: f64) -> Option<f64> {
        place(self.scale, value)
    }

    /// A number with as many digits as tell it from its neighbours.
    fn apart(&self, at: f64) -> String {
        let step = self.ticks.get(1).map_or(1.0, |second| second - self.ticks[0]);
        match -step.log10().floor() as i32 {
            digits @ 3.. => format!("{at:.*}", digits as usize),
            _ => label(at),
        }
    }

    fn label(&self, at: f64) -> String {
        match self.scale {
            Scale::Whole | Scale::Linear | Scale::Percent => self.apart(at),
            Scale::Log => label(10_f64.powf(at)),
            Scale::Quantile if at < 1.0 => format!("{:.0} %", 100.0 * (1.0 - 10_f64.powf(-at))),
            Scale::Quantile => {
                let decimals = (at.round() - 2.0).max(0.0) as usize;
                format!("{:.decimals$} %", 100.0 * (1.0 - 10_f64.powf(-at)))
            }
        }
    }
}

impl Ranged for Range {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, at: &f64, (first, last): (i32, i32)) -> i32 {
        let share = (at - self.from) / (self.to - self.from);
        first + (share * f64::from(last - first)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // Lines between the numbers would have none.
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.from..self.to
    }
}

/// Where a value stands; nowhere, if the scale does not reach it.
fn place(scale: Scale, value: f64) -> Option<f64> {
    let at = match scale {
        Scale::Whole | Scale::Linear | Scale::Percent => value,
        Scale::Log => value.log10(),
        Scale::Quantile => -(1.0 - value).log10(),
    };
    at.is_finite().then_some(at)
}

/// Where numbers stand.
fn ticks(scale: Scale, from: f64, to: f64) -> Vec<f64> {
    let every = |step: f64| {
        let (first, last) = ((from / step).ceil() as i64, (to / step).floor() as i64);
        (first..=last).map(|n| n as f64 * step).collect()
    };
    match scale {
        Scale::Whole => every(step(to, LABELS).max(1.0)),
        Scale::Linear | Scale::Percent => every(step(to, 6)),
        Scale::Log if to - from > 2.5 => every(step(to - from, 8).max(1.0)),
        Scale::Log => {
            let decades = from.floor() as i32..=to.ceil() as i32;
            let all = decades.flat_map(|n| [1_f64, 2.0, 5.0].map(|digit| digit.log10() + f64::from(n)));
            all.filter(|at| (from..=to).contains(at)).collect()
        }
        Scale::Quantile => {
            let whole: Vec<f64> = every(1.0);
            let half = -(0.5_f64.log10());
            whole.into_iter().chain([half]).collect()
        }
    }
}

/// 1, 2 or 5 times a power of ten, of which at most `count` fit into `length`.
fn step(length: f64, count: usize) -> f64 {
    let least = length / count as f64;
    let decade = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|digit| digit * decade)
        .find(|step| *step >= least)
        .unwrap_or(10.0 * decade)
}

/// A number without zeros behind its point.
fn label(value: f64) -> String {
    let text = digits(value);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Range, Range>>;

/// Measured values are a solid line with full dots, modelled ones a dashed line with rings, published ones rectangles on a
/// dotted line, and what the medium allows a dashed line without dots.
fn one_line(chart: &mut Chart<'_, '_>, series: &Series, points: &[(f64, f64)]) -> Drawn {
    let colour = series_colour(series.colour);
    let points = || points.iter().copied();
    let line = colour.stroke_width(2);
    match series.origin {
        Origin::Measured => {
            chart.draw_series(LineSeries::new(points(), line))?;
            chart.draw_series(points().map(|p| Circle::new(p, 4, colour.filled())))?;
        }
        Origin::Modelled => {
            chart.draw_series(DashedLineSeries::new(points(), 7, 5, line))?;
            chart.draw_series(points().map(|p| Circle::new(p, 4, line)))?;
        }
        Origin::Published => {
            chart.draw_series(DashedLineSeries::new(points(), 2, 4, line))?;
            let corner = |p| EmptyElement::at(p) + Rectangle::new([(-4, -4), (4, 4)], colour.filled());
            chart.draw_series(points().map(corner))?;
        }
        Origin::Theory => {
            chart.draw_series(DashedLineSeries::new(points(), 6, 4, TEXT.stroke_width(2)))?;
        }
        Origin::Name => {
            chart.draw_series(LineSeries::new(points(), GRID.stroke_width(2)))?;
        }
    }
    Ok(())
}

/// Each bar under its own label, so that long labels have room.
fn draw_bars(out: &mut String, bars: &[Bar], unit: &str) -> Drawn {
    let height = BAR_STEP * bars.len() as i32 + 8;
    let root = SVGBackend::with_string(out, (WIDTH, height as u32)).into_drawing_area();
    let highest = bars.iter().map(|b| b.spread.map_or(b.value, |s| s.1)).fold(f64::MIN_POSITIVE, f64::max);
    let (left, right) = (4, WIDTH as i32 - 8);
    let at = |value: f64| left + (f64::from(right - left) * value / highest) as i32;
    let style = ("sans-serif", LETTER).into_font().color(&TEXT);
    let end = style.clone().pos(Pos::new(HPos::Right, VPos::Top));
    for (i, bar) in bars.iter().enumerate() {
        let top = 4 + BAR_STEP * i as i32;
        let (from, to) = (top + LETTER + 6, top + LETTER + 22);
        let colour = series_colour(usize::from(bar.origin != Origin::Measured));
        root.draw(&Text::new(bar.name.clone(), (left, top), style.clone()))?;
        root.draw(&Text::new(format!("{} {unit}", digits(bar.value)), (right, top), end.clone()))?;
        let area = [(left, from), (at(bar.value).max(left + 1), to)];
        match bar.origin {
            // Nobody's achievement: a frame without content.
            Origin::Theory => root.draw(&Rectangle::new(area, TEXT.stroke_width(1)))?,
            _ => root.draw(&Rectangle::new(area, colour.filled()))?,
        }
        if let Some((low, high)) = bar.spread {
            let middle = (from + to) / 2;
            let line = TEXT.stroke_width(1);
            root.draw(&PathElement::new([(at(low), middle), (at(high), middle)], line))?;
            for x in [at(low), at(high)] {
                root.draw(&PathElement::new([(x, middle - 4), (x, middle + 4)], line))?;
            }
        }
    }
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_the_zeros_that_count() {
        let labels = [0.0, 0.5, 5.0, 20.0, 500.0, 1000.0].map(label);
        assert_eq!(labels, ["0", "0.5", "5", "20", "500", "1000"]);
    }

    #[test]
    fn numbers_stand_at_round_values() {
        let told = |scale, values: &[f64]| {
            let range = Range::of(scale, values.iter().copied());
            range.ticks.iter().map(|at| range.label(*at)).collect::<Vec<_>>()
        };
        assert_eq!(told(Scale::Whole, &[1.0, 4.0]), ["1", "2", "3", "4"]);
        assert_eq!(told(Scale::Linear, &[0.0, 14.88]), ["0", "5", "10", "15"]);
        assert_eq!(told(Scale::Linear, &[0.0, 0.0015]), ["0.0000", "0.0005", "0.0010", "0.0015"]);
        assert_eq!(told(Scale::Percent, &[40.0]), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(told(Scale::Log, &[2.0, 40.0]), ["2", "5", "10", "20", "50"]);
        assert_eq!(told(Scale::Log, &[1.0, 1e5]), ["1", "10", "100", "1000", "10000", "100000"]);
        assert_eq!(
            told(Scale::Quantile, &[0.0, 0.9999]),
            ["0 %", "90 %", "99 %", "99.9 %", "99.99 %", "50 %"]
        );
        // Without a value, and where the scale does not reach, there is an empty plot and no panic.
        assert_eq!(told(Scale::Quantile, &[1.0]), ["0 %", "90 %", "50 %"]);
        assert!(!told(Scale::Log, &[0.0]).is_empty() && !told(Scale::Linear, &[0.0]).is_empty());
    }

    #[test]
    fn plots_name_no_colour_and_hold_every_value() {
        let series = [Origin::Measured, Origin::Modelled, Origin::Published, Origin::Name].map(|origin| {
            Series { name: "a".into(), origin, colour: 2, points: vec![(1.0, 1.0), (2.0, 1.9)] }
        });
        let plot = Plot::Lines {
            caption: String::new(),
            x: Axis::new("cores", Scale::Whole),
            y: Axis::new("times", Scale::Linear),
            series: series.into(),
        };
        let svg = svg(&plot);
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("var(--s2)") && svg.contains("currentColor") && !svg.contains("\"#"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 4);
        let bar = |name: &str, value| Bar {
            name: name.into(),
            origin: Origin::Measured,
            value,
            spread: Some((value - 1.0, value + 1.0)),
        };
        let plot = Plot::Bars {
            caption: String::new(),
            unit: "Mpps".into(),
            bars: vec![bar("a<b", 9.0), bar("c", 3.0)],
        };
        let svg = super::svg(&plot);
        assert!(svg.contains("a&lt;b") && svg.contains("3.00 Mpps") && !svg.contains("\"#"), "{svg}");
    }
}
