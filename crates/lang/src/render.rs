// SPDX-License-Identifier: MIT OR Apache-2.0
//! Findings as text for people, as the lines that `click` prints, and as JSON.

use std::fmt::Write as _;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use serde_json::{Value, json};

use crate::diagnostic::{Diagnostic, Severity};
use crate::source::{SourceMap, Span};

/// Lines longer than this are shown in part, around the place in question.
const MAX_SHOWN_BYTES: usize = 4096;

/// All findings in the style of a compiler: the source line, a caret, the cause, and what may fix it.
#[must_use]
pub fn render(diags: &[Diagnostic], sources: &SourceMap, color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let mut out = String::new();
    for diag in diags {
        let level = match diag.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Note => Level::NOTE,
        };
        let mut first = Group::with_title(level.primary_title(diag.message.as_str()).id(diag.code));
        if let Some(span) = diag.span {
            first = first.element(snippet(sources, span, AnnotationKind::Primary, &diag.label));
        }
        let mut groups = Vec::new();
        for (span, text) in &diag.notes {
            match span {
                None => first = first.element(Level::NOTE.message(text.as_str())),
                Some(span) => groups.push(
                    Group::with_title(Level::NOTE.secondary_title(text.as_str())).element(snippet(
                        sources,
                        *span,
                        AnnotationKind::Primary,
                        "",
                    )),
                ),
            }
        }
        if let Some(help) = &diag.help {
            match groups.last_mut() {
                Some(_) => groups.push(Group::with_title(Level::HELP.secondary_title(help.as_str()))),
                None => first = first.element(Level::HELP.message(help.as_str())),
            }
        }
        groups.insert(0, first);
        let _ = writeln!(out, "{}\n", renderer.render(&groups));
    }
    out
}

/// The lines around a span with a mark under it.
fn snippet<'a>(
    sources: &'a SourceMap,
    span: Span,
    kind: AnnotationKind,
    label: &'a str,
) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
    let (mut lines, line) = sources.lines_around(span);
    let text = sources.text(span.file);
    let (start, end) = (span.start as usize, span.end as usize);
    if lines.len() > MAX_SHOWN_BYTES {
        let near = |at: usize| (0..=at).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
        let from = near(start.saturating_sub(MAX_SHOWN_BYTES / 2)).max(lines.start);
        // Only within the first line: the snippet's line number counts from there.
        let from = text[from..start].rfind(['\n', '\r']).map_or(from, |i| from + i + 1);
        lines = from..near((from + MAX_SHOWN_BYTES).min(lines.end));
    }
    let shown = &text[lines.clone()];
    let mark =
        start.clamp(lines.start, lines.end) - lines.start..end.clamp(lines.start, lines.end) - lines.start;
    let location = sources.location(span);
    let path = location.name.to_string();
    let annotation = kind.span(mark);
    let annotation = if label.is_empty() { annotation } else { annotation.label(label) };
    Snippet::source(shown).line_start(line as usize).path(path).annotation(annotation)
}

/// The findings as `click` prints them: `FILE:LINE: message`. What is wrong with an element's configuration stands, indented, behind a line
/// that names the element. Advice of ours (`W02..`) is left out.
#[must_use]
pub fn render_click(diags: &[Diagnostic], sources: &SourceMap) -> String {
    render_lines(diags, sources, true)
}

/// The findings a line each, laid out as by [`render_click`] but in our own words.
#[must_use]
pub fn render_short(diags: &[Diagnostic], sources: &SourceMap) -> String {
    render_lines(diags, sources, false)
}

fn render_lines(diags: &[Diagnostic], sources: &SourceMap, clicks_words: bool) -> String {
    let mut out = String::new();
    let place = |span: Option<Span>| match span {
        Some(span) => {
            let at = sources.location(span);
            format!("{}:{}: ", at.name, at.line)
        }
        None => String::new(),
    };
    let mut context = None;
    for diag in diags.iter().filter(|d| !d.code.starts_with("W02")) {
        if let Some((span, what, message)) = &diag.during {
            if context != Some((span, what)) {
                context = Some((span, what));
                let _ = writeln!(out, "{}{what}:", place(Some(*span)));
            }
            let mark = if diag.severity == Severity::Warning { "warning: " } else { "" };
            let message = if clicks_words { message } else { &diag.message };
            for line in message.lines() {
                let _ = writeln!(out, "{}  {mark}{line}", place(Some(*span)));
            }
            continue;
        }
        context = None;
        let mark = if diag.severity == Severity::Warning { "warning: " } else { "" };
        let _ = writeln!(out, "{}{mark}{}", place(diag.span), diag.message);
        for (span, text) in &diag.notes {
            let at = if span.is_some() { place(*span) } else { place(diag.span) };
            let _ = writeln!(out, "{at}  {text}");
        }
    }
    if diags.iter().any(|d| d.during.is_some() && d.severity == Severity::Error) {
        out.push_str("Router could not be initialized!\n");
    }
    out
}

fn place_json(span: Span, sources: &SourceMap) -> Value {
    let (start, end) = (sources.location(span), sources.location_of(span.file, span.end));
    json!({
        "file": &*start.name,
        "line": start.line,
        "column": start.column,
        "end_line": end.line,
        "end_column": end.column,
        "start_byte": span.start,
        "end_byte": span.end,
    })
}

/// The findings as a JSON array, one object each: `severity`, `code`, `message`, `label`, `help`, `place`, `notes`.
/// Lines and columns count from 1, columns in characters; `help` and `place` may be null.
#[must_use]
pub fn to_json(diags: &[Diagnostic], sources: &SourceMap) -> Value {
    let place = |span: Option<Span>| span.map_or(Value::Null, |span| place_json(span, sources));
    let notes = |d: &Diagnostic| {
        d.notes
            .iter()
            .map(|(span, text)| json!({ "message": text, "place": place(*span) }))
            .collect::<Vec<_>>()
    };
    diags
        .iter()
        .map(|d| {
            json!({
                "severity": d.severity.as_str(),
                "code": d.code,
                "message": d.message,
                "label": d.label,
                "help": d.help,
                "place": place(d.span),
                "notes": notes(d),
            })
        })
        .collect()
}
