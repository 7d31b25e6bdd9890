// SPDX-License-Identifier: MIT OR Apache-2.0
//! A report for a terminal.

use std::fmt::Write as _;

use super::report::{Cell, Origin, Report, Table};

/// The whole report, without its plots.
pub(super) fn render(report: &Report) -> String {
    let mut out = format!("{}\n{}\n", report.title, report.study);
    let mut list = |head: &str, items: &[String]| {
        if !items.is_empty() {
            out += &format!("\n{head}\n");
            items.iter().for_each(|item| out += &format!("  {item}\n"));
        }
    };
    list("What this machine lacks:", &report.lacks);
    list("Found:", &report.findings);
    for section in &report.sections {
        let _ = writeln!(out, "\n== {} ==", section.title);
        section.tables.iter().for_each(|t| table(&mut out, t));
    }
    out
}

fn shown(cell: &Cell) -> String {
    match &cell.spread {
        Some(spread) => format!("{} ({spread})", cell.text),
        None => cell.text.clone(),
    }
}

fn table(out: &mut String, table: &Table) {
    let _ = writeln!(out, "\n{}", table.caption);
    let heads: Vec<String> = table.columns.iter().map(|c| c.0.clone()).collect();
    let origins = table.columns.iter().map(|c| c.1.word().to_owned()).collect();
    let rows = table.rows.iter().map(|row| row.iter().map(shown).collect());
    let lines: Vec<Vec<String>> = [heads, origins].into_iter().chain(rows).collect();
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
