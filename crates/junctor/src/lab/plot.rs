// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plots as SVG for a page: their colours are the page's, light or dark, so nothing here names one.

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::report::{Bar, Origin, Plot, Series, digits};

/// Colours of series there are.
pub(super) const COLOURS: usize = 5;

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

fn lines(out: &mut String, x: &str, y: &str, series: &[Series]) -> Drawn {
    let all = || series.iter().flat_map(|s| &s.points);
    let x_max = all().map(|p| p.0).fold(1.0, f64::max);
    let y_max = all().map(|p| p.1).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let root = SVGBackend::with_string(out, (WIDTH, HEIGHT)).into_drawing_area();
    {
        let mut chart = ChartBuilder::on(&root)
            .margin(8)
            .x_label_area_size(44)
            .y_label_area_size(52)
            .build_cartesian_2d(0.5..x_max + 0.5, 0.0..y_max * 1.06)?;
        let style = ("sans-serif", LETTER).into_font().color(&TEXT);
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(GRID)
            .x_desc(x)
            .y_desc(y)
            .axis_desc_style(style.clone())
            .label_style(style)
            .x_labels((x_max as usize + 1).min(LABELS))
            .x_label_formatter(&|x| if x.fract() == 0.0 { format!("{x:.0}") } else { String::new() })
            .y_labels(6)
            .y_label_formatter(&|y| label(*y))
            .draw()?;
        for s in series {
            one_line(&mut chart, s)?;
        }
    }
    root.present()?;
    Ok(())
}

/// A number without zeros behind its point.
fn label(value: f64) -> String {
    let text = digits(value);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Measured values are a solid line with full dots, modelled ones a dashed line with rings, published ones rectangles on a
/// dotted line.
fn one_line(chart: &mut Chart<'_, '_>, series: &Series) -> Drawn {
    let colour = series_colour(series.colour);
    let points = || series.points.iter().copied();
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
        root.draw(&Rectangle::new(area, colour.filled()))?;
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
    fn plots_name_no_colour_and_hold_every_value() {
        let series = [Origin::Measured, Origin::Modelled, Origin::Published, Origin::Name].map(|origin| {
            Series { name: "a".into(), origin, colour: 2, points: vec![(1.0, 1.0), (2.0, 1.9)] }
        });
        let plot = Plot::Lines {
            caption: String::new(),
            x: "cores".into(),
            y: "times".into(),
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
