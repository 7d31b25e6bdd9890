// SPDX-License-Identifier: MIT OR Apache-2.0
//! A report as one page that needs nothing else: no script, no font, no picture from elsewhere. It follows the reader's choice of
//! light or dark, fits narrow screens, and prints on white.

use std::fmt::Write as _;

use super::plot;
use super::report::{Cell, Origin, Plot, Report, Section, Series, Table};
use crate::measure;

const STYLE: &str = include_str!("page.css");

/// The whole page.
pub(super) fn render(report: &Report) -> String {
    let mut out = String::new();
    let title = escape(report.title);
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
    );
    let _ = writeln!(out, "<p class=\"study\">{}</p>", escape(report.study));
    list(&mut out, "found", "What was found", &report.findings);
    list(&mut out, "lacks", "What this machine lacks", &report.lacks);
    out.push_str(KEY);
    for section in &report.sections {
        write_section(&mut out, section);
    }
    out.push_str("<section>\n<h2>How it was measured</h2>\n");
    paragraphs(&mut out, &report.method);
    write_machine(&mut out);
    out.push_str("</section>\n</main>\n</body>\n</html>\n");
    out
}

/// What the marks of origin look like.
const KEY: &str = "<p class=\"key\"><span class=\"mark measured\">measured</span> on this machine, now; \
<span class=\"mark modelled\">modelled</span> from what was measured here; \
<span class=\"mark published\">published</span> by the study.</p>\n";

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn paragraphs(out: &mut String, all: &[String]) {
    for text in all {
        let _ = writeln!(out, "<p>{}</p>", escape(text));
    }
}

fn list(out: &mut String, class: &str, head: &str, items: &[String]) {
    if items.is_empty() {
        return;
    }
    let _ = writeln!(out, "<div class=\"box {class}\">\n<h2>{head}</h2>\n<ul>");
    for item in items {
        let _ = writeln!(out, "<li>{}</li>", escape(item));
    }
    out.push_str("</ul>\n</div>\n");
}

fn write_section(out: &mut String, section: &Section) {
    let _ = writeln!(out, "<section>\n<h2>{}</h2>", escape(&section.title));
    paragraphs(out, &section.text);
    for plot in &section.plots {
        write_plot(out, plot);
    }
    section.tables.iter().for_each(|t| write_table(out, t));
    if let Some((caption, code)) = &section.code {
        let (caption, code) = (escape(caption), escape(code));
        let _ = writeln!(out, "<figure>\n<figcaption>{caption}</figcaption>\n<pre>{code}</pre>\n</figure>");
    }
    out.push_str("</section>\n");
}

fn write_plot(out: &mut String, plot: &Plot) {
    let (caption, series): (_, &[Series]) = match plot {
        Plot::Lines { caption, series, .. } => (caption, series),
        Plot::Bars { caption, .. } => (caption, &[]),
    };
    let _ = writeln!(out, "<figure>\n<figcaption>{}</figcaption>", escape(caption));
    out.push_str(&plot::svg(plot));
    if !series.is_empty() {
        out.push_str("<ul class=\"legend\">\n");
        for s in series {
            let _ = writeln!(out, "<li>{}{}</li>", swatch(s), escape(&s.name));
        }
        out.push_str("</ul>\n");
    }
    out.push_str("</figure>\n");
}

/// A piece of the line, as it is drawn in the plot.
fn swatch(series: &Series) -> String {
    let colour = match series.origin {
        Origin::Name => "var(--grid)".to_owned(),
        _ => format!("var(--s{})", series.colour % plot::COLOURS),
    };
    let (dashes, dot) = match series.origin {
        Origin::Measured => ("", format!("<circle cx=\"17\" cy=\"7\" r=\"4\" fill=\"{colour}\"/>")),
        Origin::Modelled => (
            " stroke-dasharray=\"7 5\"",
            format!(
                "<circle cx=\"17\" cy=\"7\" r=\"4\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"
            ),
        ),
        Origin::Published => (
            " stroke-dasharray=\"2 4\"",
            format!("<rect x=\"13\" y=\"3\" width=\"8\" height=\"8\" fill=\"{colour}\"/>"),
        ),
        Origin::Name => ("", String::new()),
    };
    format!(
        "<svg width=\"34\" height=\"14\" aria-hidden=\"true\"><line x1=\"0\" y1=\"7\" x2=\"34\" y2=\"7\" \
         stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>{dot}</svg>"
    )
}

fn write_table(out: &mut String, table: &Table) {
    let _ = write!(
        out,
        "<figure class=\"table\">\n<figcaption>{}</figcaption>\n<div class=\"scroll\"><table>\n<thead><tr>",
        escape(&table.caption)
    );
    for (head, origin) in &table.columns {
        let mark = match origin.word() {
            "" => String::new(),
            word => format!("<br><span class=\"mark {word}\">{word}</span>"),
        };
        let class = if *origin == Origin::Name { "name" } else { origin.word() };
        let _ = write!(out, "<th scope=\"col\" class=\"{class}\">{}{mark}</th>", escape(head));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for (cell, (_, origin)) in row.iter().zip(&table.columns) {
            write_cell(out, cell, *origin);
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n</figure>\n");
}

fn write_cell(out: &mut String, cell: &Cell, origin: Origin) {
    let class = match origin {
        Origin::Name => "name",
        _ if cell.missing => "missing",
        _ => origin.word(),
    };
    let spread = cell.spread.as_ref().map(|s| format!("<br><small>{}</small>", escape(s)));
    let _ = write!(out, "<td class=\"{class}\">{}{}</td>", escape(&cell.text), spread.unwrap_or_default());
}

fn write_machine(out: &mut String) {
    let machine = measure::machine();
    let text = |key: &str| escape(machine[key].as_str().unwrap_or("unknown"));
    let _ = writeln!(
        out,
        "<p class=\"machine\">{}, {} cores, Linux {}; Junctor {}.</p>",
        text("cpu"),
        machine["cores"],
        text("kernel"),
        env!("CARGO_PKG_VERSION")
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_page_needs_nothing_else_and_says_where_values_come_from() {
        let mut table = Table::new("t", &[("a & b", Origin::Name), ("rate", Origin::Modelled)]);
        table.row(vec![Cell::new("<x>"), Cell::missing("2 cores here")]);
        let series =
            Series { name: "s".into(), origin: Origin::Published, colour: 1, points: vec![(1.0, 2.0)] };
        let plot = Plot::Lines { caption: "p".into(), x: "x".into(), y: "y".into(), series: vec![series] };
        let section =
            Section { title: "s".into(), plots: vec![plot], tables: vec![table], ..Section::default() };
        let report = Report {
            name: "test",
            title: "T",
            study: "S",
            findings: vec!["f".into()],
            lacks: vec!["l".into()],
            method: vec!["m".into()],
            conditions: json!({}),
            sections: vec![section],
            results: Vec::new(),
        };
        let page = render(&report);
        for part in [
            "a &amp; b",
            "&lt;x&gt;",
            "mark modelled",
            "class=\"missing\">2 cores here",
            "prefers-color-scheme",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
        // The one address that may stand there names the vocabulary of SVG and is never fetched.
        let page = page.replace("http://www.w3.org/2000/svg", "");
        for part in ["http:", "https:", "url(", "@import", "<script", "<link", "<img"] {
            assert!(!page.contains(part), "{part} in {page}");
        }
        assert_eq!(report.json()["tables"][0]["rows"][0][1]["missing"], true);
    }
}
