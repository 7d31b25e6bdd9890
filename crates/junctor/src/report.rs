// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports of measurements: prose, tables and plots, before they are a page or anything else.
//!
//! `junctor lab` and `junctor test` make a [`Document`] of what they found; what becomes of it (a page for a browser, text, Markdown)
//! is the same for both.

pub(crate) mod markdown;
pub(crate) mod page;
mod plot;
pub(crate) mod text;

use serde_json::{Value, json};

use crate::measure::Measured;

/// All that a report says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Document {
    pub(crate) title: String,
    /// Of what or after whom, below the title.
    pub(crate) subtitle: String,
    /// What to know before the rest is read.
    pub(crate) notes: Vec<Note>,
    /// Whether each column says where its values come from.
    pub(crate) marks: bool,
    pub(crate) sections: Vec<Section>,
}

/// A list in a box.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    /// `found`, or `lacks` for what is missing or wrong.
    pub(crate) class: &'static str,
    pub(crate) head: String,
    pub(crate) items: Vec<String>,
}

/// One part of the report.
#[derive(Clone, Debug, Default)]
pub(crate) struct Section {
    pub(crate) title: String,
    /// Paragraphs before the figures.
    pub(crate) text: Vec<String>,
    pub(crate) plots: Vec<Plot>,
    pub(crate) tables: Vec<Table>,
    /// A configuration to be shown as it is, under its caption.
    pub(crate) code: Option<(String, String)>,
    /// Its tables are long, and shown when they are asked for.
    pub(crate) folded: bool,
}

/// Where a value comes from. The three never mix in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// No value but a name.
    Name,
    /// Measured here, now.
    Measured,
    /// Of a model, fed by what was measured here.
    Modelled,
    /// The study's.
    Published,
    /// What the medium allows.
    Theory,
}

impl Origin {
    /// One word for it; none for names.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Origin::Name => "",
            Origin::Measured => "measured",
            Origin::Modelled => "modelled",
            Origin::Published => "published",
            Origin::Theory => "theory",
        }
    }
}

/// A table whose columns say where their values come from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) caption: String,
    pub(crate) columns: Vec<(String, Origin)>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(caption: impl Into<String>, columns: &[(&str, Origin)]) -> Table {
        let columns = columns.iter().map(|(head, origin)| ((*head).to_owned(), *origin)).collect();
        Table { caption: caption.into(), columns, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }
}

/// A value in a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Cell {
    /// The value, or why there is none.
    pub(crate) text: String,
    /// From where to where it was found, over the rounds.
    pub(crate) spread: Option<String>,
    /// Whether it stands for a value that this machine cannot give.
    pub(crate) missing: bool,
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), ..Cell::default() }
    }

    /// Why this machine has no such value.
    pub(crate) fn missing(why: impl Into<String>) -> Cell {
        Cell { text: why.into(), missing: true, ..Cell::default() }
    }

    /// A number of a fitting number of digits.
    pub(crate) fn number(value: f64) -> Cell {
        Cell::new(digits(value))
    }

    /// A measured quantity: the median, with the least and the greatest.
    pub(crate) fn measured(measured: &Measured) -> Cell {
        let (low, high) = measured.spread();
        let spread = (measured.runs.len() > 1).then(|| format!("{} to {}", digits(low), digits(high)));
        Cell { text: digits(measured.median()), spread, missing: false }
    }

    /// A share as a signed percentage.
    pub(crate) fn percent(share: f64) -> Cell {
        Cell::new(format!("{:+.1} %", 100.0 * share))
    }
}

/// A number with three digits that count, more or less.
pub(crate) fn digits(value: f64) -> String {
    // Nothing is not less than nothing.
    let value = value + 0.0;
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.1 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A picture.
#[derive(Clone, Debug)]
pub(crate) enum Plot {
    /// Values over others.
    Lines { caption: String, x: Axis, y: Axis, series: Vec<Series> },
    /// A bar for each value, longest possible first or as given.
    Bars { caption: String, unit: String, bars: Vec<Bar> },
}

/// One side of a plot.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Axis {
    pub(crate) name: String,
    pub(crate) scale: Scale,
}

impl Axis {
    pub(crate) fn new(name: impl Into<String>, scale: Scale) -> Axis {
        Axis { name: name.into(), scale }
    }
}

/// How values are spread over an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scale {
    /// Whole numbers, with room for half of one at either end.
    Whole,
    /// From zero.
    Linear,
    /// From 0 to 100.
    Percent,
    /// By their logarithm.
    Log,
    /// Shares from 0 to 1, by how many nines they have: 0, 0.9, 0.99, ... at equal distances.
    Quantile,
}

/// A line in a plot.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) origin: Origin,
    /// Which colour; lines that belong together share it.
    pub(crate) colour: usize,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A bar in a plot.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) origin: Origin,
    pub(crate) value: f64,
    /// Least and greatest, if it was measured several times.
    pub(crate) spread: Option<(f64, f64)>,
}

impl Table {
    /// For programs.
    pub(crate) fn json(&self) -> Value {
        let columns = self.columns.iter().map(|(head, o)| json!({ "head": head, "origin": o.word() }));
        let cell = |cell: &Cell| json!({ "text": cell.text, "spread": cell.spread, "missing": cell.missing });
        let rows = self.rows.iter().map(|row| row.iter().map(cell).collect::<Value>());
        json!({ "caption": self.caption, "columns": columns.collect::<Value>(), "rows": rows.collect::<Value>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_digits_that_count() {
        for (value, want) in [
            (0.0, "0.00"),
            (-0.0, "0.00"),
            (0.0302, "0.030"),
            (0.302, "0.30"),
            (1.638, "1.64"),
            (43.51, "43.5"),
            (302.4, "302"),
        ] {
            assert_eq!(digits(value), want);
        }
        let cell = Cell::measured(&Measured::new("x", "ns", vec![3.0, 1.0, 2.0]));
        assert_eq!((cell.text.as_str(), cell.spread.as_deref()), ("2.00", Some("1.00 to 3.00")));
    }
}
