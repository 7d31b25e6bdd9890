// SPDX-License-Identifier: MIT OR Apache-2.0
//! A report for a terminal.

use std::fmt::Write as _;

use super::{Cell, Document, Origin, Table};

/// The whole report, without its plots and long tables.
pub fn render(document: &Document) -> String {
    let mut out = format!("{}\n{}\n", document.title, document.subtitle);
    for note in document.notes.iter().filter(|note| !note.items.is_empty()) {
        let _ = writeln!(out, "\n{}:", note.head);
        note.items.iter().for_each(|item| out += &format!("  {item}\n"));
    }
    for section in document.sections.iter().filter(|s| !s.folded && !s.tables.is_empty()) {
        let _ = writeln!(out, "\n== {} ==", section.title);
        section.tables.iter().for_each(|t| table(&mut out, t, document.marks));
    }
    out
}

/// A value with its spread.
pub(super) fn shown(cell: &Cell) -> String {
    match &cell.spread {
        Some(spread) => format!("{} ({spread})", cell.text),
        None => cell.text.clone(),
    }
}

fn table(out: &mut String, table: &Table, marks: bool) {
    let _ = writeln!(out, "\n{}", table.caption);
    let heads: Vec<String> = table.columns.iter().map(|c| c.0.clone()).collect();
    let origins = marks.then(|| table.columns.iter().map(|c| c.1.word().to_owned()).collect());
    let rows = table.rows.iter().map(|row| row.iter().map(shown).collect());
    let lines: Vec<Vec<String>> = [heads].into_iter().chain(origins).chain(rows).collect();
    let width = |i: usize| lines.iter().map(|line| line[i].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..table.columns.len()).map(width).collect();
    for line in &lines {
        let mut text = String::new();
        for ((value, width), (_, origin)) in line.iter().zip(&widths).zip(&table.columns) {
            match origin {
                Origin::Name => text += &format!("  {value:<width$}"),
                _ => text += &format!("  {value:>width$}"),
            }
        }
        let _ = writeln!(out, "{}", text.trim_end());
    }
}
