// SPDX-License-Identifier: MIT OR Apache-2.0
//! A report as one page that needs nothing else: no script, no font, no picture from elsewhere. It follows the reader's choice of
//! light or dark, fits narrow screens, and prints on white.

use std::fmt::Write as _;

use super::plot;
use super::{Cell, Document, Note, Origin, Plot, Section, Series, Table};

/// Text of more bytes is set as a sentence.
const SENTENCE: usize = 50;
const STYLE: &str = include_str!("page.css");

/// The whole page.
pub fn render(document: &Document) -> String {
    let mut out = String::new();
    let title = escape(&document.title);
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
    );
    let _ = writeln!(out, "<p class=\"study\">{}</p>", escape(&document.subtitle));
    document.notes.iter().for_each(|note| list(&mut out, note));
    if document.marks {
        out.push_str(KEY);
    }
    for section in &document.sections {
        write_section(&mut out, section, document.marks);
    }
    out.push_str("</main>\n</body>\n</html>\n");
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

fn list(out: &mut String, note: &Note) {
    if note.items.is_empty() {
        return;
    }
    let _ = writeln!(out, "<div class=\"box {}\">\n<h2>{}</h2>\n<ul>", note.class, escape(&note.head));
    for item in &note.items {
        let _ = writeln!(out, "<li>{}</li>", escape(item));
    }
    out.push_str("</ul>\n</div>\n");
}

fn write_section(out: &mut String, section: &Section, marks: bool) {
    let _ = writeln!(out, "<section>\n<h2>{}</h2>", escape(&section.title));
    paragraphs(out, &section.text);
    for plot in &section.plots {
        write_plot(out, plot);
    }
    for table in &section.tables {
        if section.folded {
            let _ = writeln!(out, "<details>\n<summary>{}</summary>", escape(&table.caption));
            write_table(out, table, marks, false);
            out.push_str("</details>\n");
        } else {
            write_table(out, table, marks, true);
        }
    }
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
    out.push_str("<figure>\n");
    if !caption.is_empty() {
        let _ = writeln!(out, "<figcaption>{}</figcaption>", escape(caption));
    }
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
        Origin::Theory => "currentColor".to_owned(),
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
        Origin::Theory => (" stroke-dasharray=\"6 4\"", String::new()),
        Origin::Name => ("", String::new()),
    };
    format!(
        "<svg width=\"34\" height=\"14\" aria-hidden=\"true\"><line x1=\"0\" y1=\"7\" x2=\"34\" y2=\"7\" \
         stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>{dot}</svg>"
    )
}

fn write_table(out: &mut String, table: &Table, marks: bool, captioned: bool) {
    out.push_str("<figure class=\"table\">\n");
    if captioned {
        let _ = writeln!(out, "<figcaption>{}</figcaption>", escape(&table.caption));
    }
    out.push_str("<div class=\"scroll\"><table>\n<thead><tr>");
    // Sentences are not figures, wherever they come from.
    let is_prose = |column: usize| {
        table.rows.iter().any(|row| row.get(column).is_some_and(|cell| cell.text.len() > SENTENCE))
    };
    let prose: Vec<bool> = (0..table.columns.len()).map(is_prose).collect();
    for ((head, origin), prose) in table.columns.iter().zip(&prose) {
        let mark = match origin.word() {
            word if marks && !word.is_empty() => format!("<br><span class=\"mark {word}\">{word}</span>"),
            _ => String::new(),
        };
        let class = if *origin == Origin::Name { "name" } else { origin.word() };
        let class = if *prose { format!("{class} prose") } else { class.to_owned() };
        let _ = write!(out, "<th scope=\"col\" class=\"{class}\">{}{mark}</th>", escape(head));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for ((cell, (_, origin)), prose) in row.iter().zip(&table.columns).zip(&prose) {
            write_cell(out, cell, *origin, *prose);
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n</figure>\n");
}

fn write_cell(out: &mut String, cell: &Cell, origin: Origin, prose: bool) {
    let class = match origin {
        Origin::Name if cell.missing => "name missing",
        Origin::Name => "name",
        _ if cell.missing => "missing",
        _ => origin.word(),
    };
    let class = if prose { format!("{class} prose") } else { class.to_owned() };
    let lines = |text: &String| text.split("; ").map(escape).collect::<Vec<_>>().join("<br>");
    let spread = cell.spread.as_ref().map(|s| format!("<br><small>{}</small>", lines(s)));
    let _ = write!(out, "<td class=\"{class}\">{}{}</td>", escape(&cell.text), spread.unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Scale};
    use super::*;

    #[test]
    fn a_page_needs_nothing_else_and_says_where_values_come_from() {
        let mut table = Table::new("t", &[("a & b", Origin::Name), ("rate", Origin::Modelled)]);
        table.row(vec![Cell::new("<x>"), Cell::missing("2 cores here")]);
        let series =
            Series { name: "s".into(), origin: Origin::Published, colour: 1, points: vec![(1.0, 2.0)] };
        let axis = |name| Axis::new(name, Scale::Whole);
        let plot = Plot::Lines { caption: "p".into(), x: axis("x"), y: axis("y"), series: vec![series] };
        let section =
            Section { title: "s".into(), plots: vec![plot], tables: vec![table], ..Section::default() };
        let folded = Section { folded: true, ..section.clone() };
        let note = Note { class: "lacks", head: "Lacks".into(), items: vec!["l".into()] };
        let document = Document {
            title: "T".into(),
            subtitle: "S".into(),
            notes: vec![note],
            marks: true,
            sections: vec![section, folded],
        };
        let page = render(&document);
        for part in [
            "a &amp; b",
            "&lt;x&gt;",
            "mark modelled",
            "class=\"missing\">2 cores here",
            "prefers-color-scheme",
            "<summary>t</summary>",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
        // The one address that may stand there names the vocabulary of SVG and is never fetched.
        let page = page.replace("http://www.w3.org/2000/svg", "");
        for part in ["http:", "https:", "url(", "@import", "<script", "<link", "<img"] {
            assert!(!page.contains(part), "{part} in {page}");
        }
        let plain = render(&Document { marks: false, ..document });
        assert!(!plain.contains("<span class=\"mark"), "{plain}");
    }
}
