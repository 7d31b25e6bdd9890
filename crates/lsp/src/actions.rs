// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fixes for what is wrong: names that were probably meant.

use std::collections::BTreeMap;

use lang::{Diagnostic, Span};
use serde_json::{Value, json};

use crate::document::{Checked, Document};
use crate::position::Position;

/// The fixes for what was found in a range.
pub(crate) fn actions(document: &Document, start: Position, end: Position) -> Value {
    let Some(checked) = &document.checked else { return json!([]) };
    let (start, end) = (document.byte(start) as u32, document.byte(end) as u32);
    let is_here = |found: &&Diagnostic| {
        found.span.is_some_and(|span| span.file == 0 && span.start <= end && start <= span.end)
    };
    let found = checked.diagnostics.iter().filter(is_here);
    found.filter_map(|found| action(document, checked, found)).collect()
}

fn action(document: &Document, checked: &Checked, found: &Diagnostic) -> Option<Value> {
    let meant = meant(found.help.as_deref()?)?;
    let span = place(checked, found)?;
    let written = checked.sources.snippet(span);
    let edit = json!({ "range": document.span(span), "newText": meant });
    Some(json!({
        "title": format!("replace '{written}' by '{meant}'"),
        "kind": "quickfix",
        "isPreferred": true,
        "diagnostics": [{
            "range": found.span.map(|span| document.span(span)),
            "message": found.message,
            "code": found.code,
        }],
        "edit": { "changes": BTreeMap::from([(&document.uri, [edit])]) },
    }))
}

/// The name that a help suggests: ``did you mean `x`?``, or without the marks.
fn meant(help: &str) -> Option<&str> {
    let (_, rest) = help.split_once("did you mean ")?;
    let name = rest.split('?').next()?.trim_matches(['`', '\'']);
    (!name.is_empty() && name.bytes().all(is_word)).then_some(name)
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"_-.@/$".contains(&b)
}

/// The word that is wrong: all that is marked, or the one word there that the message names between apostrophes.
fn place(checked: &Checked, found: &Diagnostic) -> Option<Span> {
    let span = found.span?;
    let marked = checked.sources.snippet(span);
    if !marked.is_empty() && marked.bytes().all(is_word) {
        return Some(span);
    }
    let named = found.message.split('\'').skip(1).step_by(2);
    for word in named.filter(|word| !word.is_empty() && word.bytes().all(is_word)) {
        let is_alone = |at: usize| {
            let s = marked.as_bytes();
            (at == 0 || !is_word(s[at - 1])) && s.get(at + word.len()).is_none_or(|b| !is_word(*b))
        };
        let mut places = marked.match_indices(word).filter(|(at, _)| is_alone(*at));
        if let (Some((at, _)), None) = (places.next(), places.next()) {
            let start = span.start + at as u32;
            return Some(Span { start, end: start + word.len() as u32, ..span });
        }
    }
    None
}
