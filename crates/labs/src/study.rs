// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a lab has to say, before it is a page or anything else.

use serde_json::{Value, json};

use report::measure::{self, Measured};
pub(super) use report::{Axis, Bar, Cell, Origin, Plot, Scale, Section, Series, Table, digits};
use report::{Document, Note};

/// Everything that a lab found.
pub struct Report {
    /// The lab, which names the files, too.
    pub name: &'static str,
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

impl Report {
    /// The object that `--json` prints.
    pub fn json(&self) -> Value {
        let tables = self.sections.iter().flat_map(|s| &s.tables).map(report::Table::json);
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

    /// As a page or text has it.
    pub fn document(&self) -> Document {
        let mut sections = self.sections.clone();
        let mut text = self.method.clone();
        text.push(measure::machine_line(&measure::machine(), env!("CARGO_PKG_VERSION")));
        sections.push(Section { title: "How it was measured".into(), text, ..Section::default() });
        let note =
            |class, head: &str, items: &[String]| Note { class, head: head.into(), items: items.to_vec() };
        let notes = vec![
            note("found", "What was found", &self.findings),
            note("lacks", "What this machine lacks", &self.lacks),
        ];
        let (title, subtitle) = (self.title.to_owned(), self.study.to_owned());
        Document { title, subtitle, notes, marks: true, sections }
    }
}
