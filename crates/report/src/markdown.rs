// SPDX-License-Identifier: MIT OR Apache-2.0
//! A report as Markdown, whose tables a terminal shows as well.

use std::fmt::Write as _;

use super::text::shown;
use super::{Document, Origin, Table};

/// The whole report, without its plots.
pub fn render(document: &Document) -> String {
    let mut out = format!("# {}\n\n{}\n", escape(&document.title), escape(&document.subtitle));
    for note in document.notes.iter().filter(|note| !note.items.is_empty()) {
        let _ = write!(out, "\n**{}**\n\n", escape(&note.head));
        note.items.iter().for_each(|item| out += &format!("- {}\n", escape(item)));
    }
    for section in &document.sections {
        if section.tables.is_empty() && section.text.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n## {}", escape(&section.title));
        section.text.iter().for_each(|text| out += &format!("\n{}\n", escape(text)));
        section.tables.iter().for_each(|t| table(&mut out, t, document.marks));
    }
    out
}

/// Text that means nothing to Markdown.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '\\' | '`' | '*' | '_' | '<' | '>' | '|' | '[' | ']' | '#') {
            out.push('\\');
        }
        out.push(if character == '\n' { ' ' } else { character });
    }
    out
}

fn table(out: &mut String, table: &Table, marks: bool) {
    let head = |(head, origin): &(String, Origin)| match origin.word() {
        word if marks && !word.is_empty() => format!("{} ({word})", escape(head)),
        _ => escape(head),
    };
    let heads: Vec<String> = table.columns.iter().map(head).collect();
    let rows = table.rows.iter().map(|row| row.iter().map(|cell| escape(&shown(cell))).collect());
    let lines: Vec<Vec<String>> = [heads].into_iter().chain(rows).collect();
    let width = |i: usize| lines.iter().map(|line| line[i].chars().count()).max().unwrap_or(0).max(3);
    let widths: Vec<usize> = (0..table.columns.len()).map(width).collect();
    let is_name = |i: usize| table.columns[i].1 == Origin::Name;
    let _ = write!(out, "\n{}\n\n", escape(&table.caption));
    for (number, line) in lines.iter().enumerate() {
        for (i, (value, width)) in line.iter().zip(&widths).enumerate() {
            let _ = if is_name(i) {
                write!(out, "| {value:<width$} ")
            } else {
                write!(out, "| {value:>width$} ")
            };
        }
        out.push_str("|\n");
        if number == 0 {
            for (i, width) in widths.iter().enumerate() {
                let dashes = "-".repeat(width - 1);
                let _ = if is_name(i) { write!(out, "| :{dashes} ") } else { write!(out, "| {dashes}: ") };
            }
            out.push_str("|\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cell, Section};
    use super::*;

    #[test]
    fn tables_are_aligned_and_text_means_nothing() {
        let mut rates = Table::new("a_b", &[("size", Origin::Name), ("Mpps", Origin::Measured)]);
        rates.row(vec![Cell::new("64"), Cell::number(14.88)]);
        rates.row(vec![Cell::new("a|b"), Cell::missing("none")]);
        let section = Section { title: "Rates".into(), tables: vec![rates], ..Section::default() };
        let document = Document { title: "T*".into(), sections: vec![section], ..Document::default() };
        let wanted = "# T\\*\n\n\n\n## Rates\n\na\\_b\n\n\
            | size | Mpps |\n| :--- | ---: |\n| 64   | 14.9 |\n| a\\|b | none |\n";
        assert_eq!(render(&document), wanted);
    }
}
