// SPDX-License-Identifier: MIT OR Apache-2.0
//! How Junctor reports.
//!
//! * [`measure`] has the one form of measured values, for people and as JSON.
//! * A [`Document`] has the prose, tables and plots of a report. [`page`], [`text`] and [`markdown`] render it.
//! * [`progress`] shows how far long work has come, and [`busy`] that there is some.
//! * [`say`] writes to standard output and standard error.
//! * [`files`] writes a file whole or not at all.
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod busy;
pub mod files;
mod journal;
pub mod markdown;
pub mod measure;
pub mod page;
mod plot;
pub mod progress;
pub mod say;
pub mod text;

use serde_json::{Value, json};

use crate::measure::Measured;

/// All that a report says.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// Its heading.
    pub title: String,
    /// Of what or after whom, below the title.
    pub subtitle: String,
    /// What to know before the rest is read.
    pub notes: Vec<Note>,
    /// Whether each column says where its values come from.
    pub marks: bool,
    /// Its parts, in order.
    pub sections: Vec<Section>,
}

/// A list in a box.
#[derive(Clone, Debug)]
pub struct Note {
    /// `found`, or `lacks` for what is missing or wrong.
    pub class: &'static str,
    /// Its heading.
    pub head: String,
    /// One line each.
    pub items: Vec<String>,
}

/// One part of the report.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// Paragraphs before the figures.
    pub text: Vec<String>,
    /// Pictures, before the tables.
    pub plots: Vec<Plot>,
    /// The figures.
    pub tables: Vec<Table>,
    /// A configuration to be shown as it is, under its caption.
    pub code: Option<(String, String)>,
    /// Its tables are long, and shown when they are asked for.
    pub folded: bool,
}

/// Where a value comes from. The three never mix in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
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
    pub fn word(self) -> &'static str {
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
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// Heads, and where the values below each come from.
    pub columns: Vec<(String, Origin)>,
    /// As many cells each as there are columns.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    pub fn new(caption: impl Into<String>, columns: &[(&str, Origin)]) -> Table {
        let columns = columns.iter().map(|(head, origin)| ((*head).to_owned(), *origin)).collect();
        Table { caption: caption.into(), columns, rows: Vec::new() }
    }

    /// Adds a row, with a cell for each column.
    pub fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }
}

/// A value in a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// The value, or why there is none.
    pub text: String,
    /// From where to where it was found, over the rounds.
    pub spread: Option<String>,
    /// Whether it stands for a value that this machine cannot give.
    pub missing: bool,
}

impl Cell {
    /// This text.
    pub fn new(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), ..Cell::default() }
    }

    /// Why this machine has no such value.
    pub fn missing(why: impl Into<String>) -> Cell {
        Cell { text: why.into(), missing: true, ..Cell::default() }
    }

    /// A number of a fitting number of digits.
    pub fn number(value: f64) -> Cell {
        Cell::new(digits(value))
    }

    /// A measured quantity: the median, with the least and the greatest.
    pub fn measured(measured: &Measured) -> Cell {
        let (low, high) = measured.spread();
        let spread = (measured.runs.len() > 1).then(|| format!("{} to {}", digits(low), digits(high)));
        Cell { text: digits(measured.median()), spread, missing: false }
    }

    /// A share as a signed percentage.
    pub fn percent(share: f64) -> Cell {
        Cell::new(format!("{:+.1} %", 100.0 * share))
    }
}

/// A number with three digits that count, more or less.
pub fn digits(value: f64) -> String {
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
pub enum Plot {
    /// Values over others.
    Lines {
        /// What it shows.
        caption: String,
        /// The axis to the right.
        x: Axis,
        /// The axis upwards.
        y: Axis,
        /// The lines.
        series: Vec<Series>,
    },
    /// A bar for each value, longest possible first or as given.
    Bars {
        /// What it shows.
        caption: String,
        /// Unit of the values.
        unit: String,
        /// The bars, from top to bottom.
        bars: Vec<Bar>,
    },
}

/// One side of a plot.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Axis {
    /// What is measured along it, with the unit.
    pub name: String,
    /// How values are spread over it.
    pub scale: Scale,
}

impl Axis {
    /// An axis for this quantity.
    pub fn new(name: impl Into<String>, scale: Scale) -> Axis {
        Axis { name: name.into(), scale }
    }
}

/// How values are spread over an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
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
pub struct Series {
    /// What the legend calls it.
    pub name: String,
    /// Where its values come from.
    pub origin: Origin,
    /// Which colour; lines that belong together share it.
    pub colour: usize,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
}

/// A bar in a plot.
#[derive(Clone, Debug)]
pub struct Bar {
    /// What stands next to it.
    pub name: String,
    /// Where its value comes from.
    pub origin: Origin,
    /// Its length.
    pub value: f64,
    /// Least and greatest, if it was measured several times.
    pub spread: Option<(f64, f64)>,
}

impl Table {
    /// For programs.
    pub fn json(&self) -> Value {
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
