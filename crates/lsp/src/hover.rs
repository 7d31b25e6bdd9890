// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is shown of the word at a place: a manual, a declaration, what an element is connected to.

use lang::syntax::{NameKind, Piece, PieceKind};
use lang::{Graph, PortRef, Span};
use serde_json::{Value, json};

use crate::classes::Classes;
use crate::complete::{arguments_at, class_of};
use crate::document::Document;
use crate::names::name_at;
use crate::position::Position;

/// Connections of an element that are shown, each way.
const CONNECTIONS_SHOWN: usize = 8;
/// Lines of a declaration that are shown.
const LINES_SHOWN: usize = 12;

/// What is shown at a place.
pub(crate) fn hover(document: &Document, classes: &Classes, at: Position) -> Option<Value> {
    let syntax = document.syntax();
    let Some(name) = name_at(document, at) else { return keyword(document, classes, at) };
    let (span, kind) = (syntax.names()[name].span, syntax.names()[name].kind);
    let declared = syntax.declaration(name);
    let shown = match (kind, declared) {
        (NameKind::Class, None) => classes.get(syntax.text(name))?.manual.to_owned(),
        (_, None) => return None,
        (NameKind::Class, Some(declared)) => declaration(document, declared, "elementclass "),
        (NameKind::Variable, Some(declared)) => declaration(document, declared, ""),
        (NameKind::Element, Some(declared)) => {
            let mut shown = declaration(document, declared, "");
            if let Some(class) = class_of(syntax, declared).and_then(|class| classes.get(class)) {
                shown.push_str(&format!("\n\n{}", class.purpose));
            }
            let graph = document.checked.as_ref().and_then(|checked| checked.graph.as_ref());
            if let Some(graph) = graph {
                shown.push_str(&connections(graph, syntax.names()[declared].span));
            }
            shown
        }
    };
    Some(json!({ "contents": { "kind": "markdown", "value": shown }, "range": document.span(span) }))
}

/// A declaration as it is written, with the comments right above it.
fn declaration(document: &Document, declared: usize, lead: &str) -> String {
    let syntax = document.syntax();
    let name = &syntax.names()[declared];
    let source = syntax.source();
    let whole = &source[name.whole.start.min(name.span.start) as usize..name.whole.end as usize];
    let mut written: Vec<&str> = whole.lines().take(LINES_SHOWN).collect();
    if whole.lines().nth(LINES_SHOWN).is_some() {
        written.push("...");
    }
    let comments: Vec<&str> = comments_above(syntax.pieces(), source, name.whole.start as usize)
        .into_iter()
        .map(|text| text.trim_start_matches('/').trim())
        .collect();
    let text = if comments.is_empty() { String::new() } else { format!("\n\n{}", comments.join("\n")) };
    format!("```click\n{lead}{}\n```{text}", written.join("\n"))
}

/// The comments in the lines right above a byte's line.
fn comments_above<'t>(pieces: &[Piece], source: &'t str, byte: usize) -> Vec<&'t str> {
    let mut line = source[..byte].rfind('\n').map_or(0, |n| n + 1);
    let before = pieces.partition_point(|piece| (piece.span.start as usize) < line);
    let mut found = Vec::new();
    for piece in pieces[..before].iter().rev() {
        let (start, end) = (piece.span.start as usize, piece.span.end as usize);
        let is_above = source[end..line].matches('\n').count() <= 1;
        let begins = source[..start].rfind('\n').map_or(0, |n| n + 1);
        if piece.kind != PieceKind::LineComment || !is_above || !source[begins..start].trim().is_empty() {
            break;
        }
        found.push(&source[start..end]);
        line = begins;
    }
    found.reverse();
    found
}

/// What an element is connected to.
fn connections(graph: &Graph, declared: Span) -> String {
    let Some(number) = graph.elements.iter().position(|e| e.span == declared) else { return String::new() };
    let name = |port: PortRef| graph.elements[port.element].name.as_str();
    let side = |title: &str, all: Vec<String>| match all.len() {
        0 => String::new(),
        n if n > CONNECTIONS_SHOWN => {
            format!(
                "\n\n{title}: {}, and {} more",
                all[..CONNECTIONS_SHOWN].join(", "),
                n - CONNECTIONS_SHOWN
            )
        }
        _ => format!("\n\n{title}: {}", all.join(", ")),
    };
    let from = graph.connections.iter().filter(|c| c.to.element == number);
    let from = from.map(|c| format!("`{}[{}] -> [{}]`", name(c.from), c.from.port, c.to.port)).collect();
    let to = graph.connections.iter().filter(|c| c.from.element == number);
    let to = to.map(|c| format!("`[{}] -> [{}]{}`", c.from.port, c.to.port, name(c.to))).collect();
    format!("{}{}", side("from", from), side("to", to))
}

/// What the manual says of a keyword of arguments.
fn keyword(document: &Document, classes: &Classes, at: Position) -> Option<Value> {
    let syntax = document.syntax();
    let byte = document.byte(at);
    let arguments = arguments_at(syntax, byte)?;
    let class = classes.get(arguments.class)?;
    let source = syntax.source();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let start = byte - source[..byte].chars().rev().take_while(|c| is_word(*c)).count();
    let end = byte + source[byte..].chars().take_while(|c| is_word(*c)).count();
    let word = &source[start..end];
    let (_, text) = class.keywords.iter().chain(&class.instructions).find(|(known, _)| known == word)?;
    Some(json!({ "contents": { "kind": "markdown", "value": text }, "range": document.range(start..end) }))
}
