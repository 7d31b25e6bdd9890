// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each word of a text is, for editors that colour it.

use lang::Span;
use lang::syntax::{NameKind, PieceKind};
use serde_json::{Value, json};

use crate::document::Document;

/// The kinds of words, in the order of their numbers.
pub(crate) const KINDS: [&str; 6] = ["class", "variable", "parameter", "keyword", "comment", "macro"];

/// The kinds of all words, five numbers each, as the protocol has them.
pub(crate) fn tokens(document: &Document) -> Value {
    let syntax = document.syntax();
    let names = syntax.names().iter().map(|name| {
        let kind = match name.kind {
            NameKind::Class => 0,
            NameKind::Element => 1,
            NameKind::Variable => 2,
        };
        (name.span, kind)
    });
    let pieces = syntax.pieces().iter().filter_map(|piece| {
        let kind = match piece.kind {
            PieceKind::Keyword => 3,
            PieceKind::LineComment | PieceKind::BlockComment => 4,
            PieceKind::Directive => 5,
            _ => return None,
        };
        Some((piece.span, kind))
    });
    let mut all: Vec<(Span, u32)> = names.chain(pieces).collect();
    all.sort_by_key(|(span, _)| span.start);
    let mut data = Vec::new();
    let (mut line, mut character) = (0, 0);
    for (span, kind) in
        all.iter().flat_map(|(span, kind)| lines(syntax.source(), *span).map(move |s| (s, *kind)))
    {
        let start = document.position(span.start as usize);
        let units: usize =
            syntax.source()[span.start as usize..span.end as usize].chars().map(char::len_utf16).sum();
        if start.line != line {
            character = 0;
        }
        data.extend([start.line - line, start.character - character, units as u32, kind, 0]);
        (line, character) = (start.line, start.character);
    }
    json!({ "data": data })
}

/// The parts of a span that lie in one line each.
fn lines(text: &str, span: Span) -> impl Iterator<Item = Span> {
    let mut start = span.start;
    text[span.start as usize..span.end as usize].split_inclusive(['\n', '\r']).filter_map(move |line| {
        let at = start;
        start += line.len() as u32;
        let end = at + line.trim_end_matches(['\n', '\r']).len() as u32;
        (end > at).then_some(Span { start: at, end, ..span })
    })
}
