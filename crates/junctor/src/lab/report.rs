// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a lab has to say, before it is a page or anything else.

use serde_json::{Value, json};

use crate::measure::{self, Measured};

/// Everything that a lab found.
pub(super) struct Report {
    /// The lab, which names the files, too.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// The study: authors, title, what it ran on.
    pub(super) study: &'static str,
    /// What was found, in a sentence each.
    pub(super) findings: Vec<String>,
    /// What the study had and this machine has not.
    pub(super) lacks: Vec<String>,
    /// How it was measured, in words.
    pub(super) method: Vec<String>,
    /// The same for programs.
    pub(super) conditions: Value,
    pub(super) sections: Vec<Section>,
    /// Every measured and modelled value, by its stable name.
    pub(super) results: Vec<Measured>,
}

/// One part of the experiment.
#[derive(Default)]
pub(super) struct Section {
    pub(super) title: String,
    /// Paragraphs before the figures.
    pub(super) text: Vec<String>,
    pub(super) plots: Vec<Plot>,
    pub(super) tables: Vec<Table>,
    /// A configuration to be shown as it is, under its caption.
    pub(super) code: Option<(String, String)>,
}

/// Where a value comes from. The three never mix in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// No value but a name.
    Name,
    /// Measured here, now.
    Measured,
    /// Of a model, fed by what was measured here.
    Modelled,
    /// The study's.
    Published,
}

impl Origin {
    /// One word for it; none for names.
    pub(super) fn word(self) -> &'static str {
        match self {
            Origin::Name => "",
            Origin::Measured => "measured",
            Origin::Modelled => "modelled",
            Origin::Published => "published",
        }
    }
}

/// A table whose columns say where their values come from.
#[derive(Default)]
pub(super) struct Table {
    pub(super) caption: String,
    pub(super) columns: Vec<(String, Origin)>,
    pub(super) rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(super) fn new(caption: impl Into<String>, columns: &[(&str, Origin)]) -> Table {
        let columns = columns.iter().map(|(head, origin)| ((*head).to_owned(), *origin)).collect();
        Table { caption: caption.into(), columns, rows: Vec::new() }
    }

    pub(super) fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }
}

/// A value in a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Cell {
    /// The value, or why there is none.
    pub(super) text: String,
    /// From where to where it was found, over the rounds.
    pub(super) spread: Option<String>,
    /// Whether it stands for a value that this machine cannot give.
    pub(super) missing: bool,
}

impl Cell {
    pub(super) fn new(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), ..Cell::default() }
    }

    /// Why this machine has no such value.
    pub(super) fn missing(why: impl Into<String>) -> Cell {
        Cell { text: why.into(), missing: true, ..Cell::default() }
    }

    /// A number of a fitting number of digits.
    pub(super) fn number(value: f64) -> Cell {
        Cell::new(digits(value))
    }

    /// A measured quantity: the median, with the least and the greatest.
    pub(super) fn measured(measured: &Measured) -> Cell {
        let (low, high) = measured.spread();
        let spread = (measured.runs.len() > 1).then(|| format!("{} to {}", digits(low), digits(high)));
        Cell { text: digits(measured.median()), spread, missing: false }
    }

    /// A share as a signed percentage.
    pub(super) fn percent(share: f64) -> Cell {
        Cell::new(format!("{:+.1} %", 100.0 * share))
    }
}

/// A number with three digits that count, more or less.
pub(super) fn digits(value: f64) -> String {
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
pub(super) enum Plot {
    /// Values over a whole number.
    Lines { caption: String, x: String, y: String, series: Vec<Series> },
    /// A bar for each value, longest possible first or as given.
    Bars { caption: String, unit: String, bars: Vec<Bar> },
}

/// A line in a plot.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) origin: Origin,
    /// Which colour; lines that belong together share it.
    pub(super) colour: usize,
    pub(super) points: Vec<(f64, f64)>,
}

/// A bar in a plot.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) origin: Origin,
    pub(super) value: f64,
    /// Least and greatest, if it was measured several times.
    pub(super) spread: Option<(f64, f64)>,
}

impl Report {
    /// The object that `--json` prints.
    pub(super) fn json(&self) -> Value {
        let tables = self.sections.iter().flat_map(|s| &s.tables).map(Table::json);
        let mut conditions = self.conditions.clone();
        conditions["lacks"] = json!(self.lacks);
        conditions["method"] = json!(self.method);
        let command = format!("lab {}", self.name);
        let mut object = measure::object(&command, &conditions, &self.results);
        object["study"] = json!(self.study);
        object["findings"] = json!(self.findings);
        object["tables"] = tables.collect();
        object
    }
}

impl Table {
    fn json(&self) -> Value {
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
