// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where names are declared and used, and other names for them.

use std::collections::BTreeMap;

use lang::syntax::{NameKind, Role, Syntax};
use lang::{SourceMap, Span};
use serde_json::{Value, json};

use crate::document::{Document, location_in};
use crate::position::Position;

/// The name at a place.
pub(crate) fn name_at(document: &Document, at: Position) -> Option<usize> {
    document.syntax().at(document.byte(at) as u32)
}

/// Where the name at a place is declared: here, or in a library that the configuration requires.
pub(crate) fn definition(document: &Document, at: Position) -> Option<Value> {
    let name = name_at(document, at)?;
    let syntax = document.syntax();
    match syntax.declaration(name) {
        Some(declared) => Some(document.location(syntax.names()[declared].span)),
        None if syntax.names()[name].kind == NameKind::Class => {
            in_libraries(&document.checked.as_ref()?.sources, syntax.text(name))
        }
        None => None,
    }
}

/// Where a library declares a class; the last one that does counts.
fn in_libraries(sources: &SourceMap, class: &str) -> Option<Value> {
    (1..sources.len() as u32).rev().find_map(|file| {
        let text = sources.text(file);
        let syntax = Syntax::of(text);
        let declared = syntax.find(NameKind::Class, class, 0, text.len() as u32)?;
        Some(location_in(sources.name(file), text, syntax.names()[declared].span))
    })
}

/// All places of what the name at a place names.
fn places(document: &Document, at: Position) -> Option<Vec<(Span, Role)>> {
    let name = name_at(document, at)?;
    let syntax = document.syntax();
    let found: Vec<usize> = match syntax.declaration(name) {
        Some(declared) => syntax.uses(declared).collect(),
        // Classes and variables may come from elsewhere.
        None => {
            let (kind, text) = (syntax.names()[name].kind, syntax.text(name));
            let is_same = |n: &usize| {
                let other = &syntax.names()[*n];
                other.kind == kind
                    && syntax.text(*n) == text
                    && syntax.declaration(*n).is_none()
                    && (kind != NameKind::Element || other.scope == syntax.names()[name].scope)
            };
            (0..syntax.names().len()).filter(is_same).collect()
        }
    };
    Some(found.into_iter().map(|n| (syntax.names()[n].span, syntax.names()[n].role)).collect())
}

/// The places of a name, with its declaration or without.
pub(crate) fn references(document: &Document, at: Position, with_declaration: bool) -> Option<Value> {
    let places = places(document, at)?;
    let wanted = places.iter().filter(|(_, role)| with_declaration || *role != Role::Declares);
    Some(wanted.map(|(span, _)| document.location(*span)).collect())
}

/// The places of a name, to be marked.
pub(crate) fn highlights(document: &Document, at: Position) -> Option<Value> {
    let mark = |(span, role): &(Span, Role)| {
        let kind = if *role == Role::Declares { 3 } else { 2 };
        json!({ "range": document.span(*span), "kind": kind })
    };
    Some(places(document, at)?.iter().map(mark).collect())
}

/// The name at a place, if it can be changed.
pub(crate) fn prepare_rename(document: &Document, at: Position) -> Result<Value, String> {
    let (syntax, name) = (document.syntax(), renamable(document, at)?);
    Ok(json!({ "range": document.span(syntax.names()[name].span), "placeholder": syntax.text(name) }))
}

fn renamable(document: &Document, at: Position) -> Result<usize, String> {
    let name = name_at(document, at).ok_or("there is no name here")?;
    let syntax = document.syntax();
    match syntax.declaration(name) {
        Some(_) => Ok(name),
        None => Err(format!("'{}' is not declared in this text", syntax.text(name))),
    }
}

/// Gives another name to what the name at a place names.
pub(crate) fn rename(document: &Document, at: Position, new: &str) -> Result<Value, String> {
    let name = renamable(document, at)?;
    let syntax = document.syntax();
    let kind = syntax.names()[name].kind;
    let new = if kind == NameKind::Variable { new.strip_prefix('$').unwrap_or(new) } else { new };
    check_name(kind, new)?;
    let Some(declared) = syntax.declaration(name) else { return Err("it is not declared here".to_owned()) };
    let scope = syntax.names()[declared].scope;
    let is_taken = |(n, other): (usize, &lang::syntax::Name)| {
        let is_declared = other.role == Role::Declares && other.kind == kind && other.scope == scope;
        is_declared && n != declared && syntax.text(n) == new && syntax.text(declared) != new
    };
    if syntax.names().iter().enumerate().any(is_taken) {
        return Err(format!("'{new}' already means something else here"));
    }
    let spans: Vec<Span> = syntax.uses(declared).map(|n| syntax.names()[n].span).collect();
    let mut text = String::new();
    let mut at = 0;
    for span in &spans {
        text.push_str(&syntax.source()[at..span.start as usize]);
        text.push_str(new);
        at = span.end as usize;
    }
    text.push_str(&syntax.source()[at..]);
    if meanings(syntax) != meanings(&Syntax::of(&text)) {
        return Err(format!("'{new}' already means something else here"));
    }
    let edits: Vec<Value> =
        spans.iter().map(|span| json!({ "range": document.span(*span), "newText": new })).collect();
    Ok(json!({ "changes": BTreeMap::from([(&document.uri, edits)]) }))
}

fn check_name(kind: NameKind, new: &str) -> Result<(), String> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let is_word = match kind {
        NameKind::Variable => new.bytes().all(is_plain),
        NameKind::Element | NameKind::Class => new.bytes().all(|b| is_plain(b) || b == b'@'),
    };
    if new.is_empty() || !is_word {
        return Err(format!("'{new}' is not a name: use letters, digits and '_'"));
    }
    if kind == NameKind::Variable {
        return Ok(());
    }
    let reserved = ["elementclass", "require", "define", "provide", "input", "output"];
    if reserved.contains(&new) {
        return Err(format!("'{new}' is a word of the language"));
    }
    if new.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("'{new}' would be taken for a number: add a letter"));
    }
    Ok(())
}

/// For each name what it is, and where it is declared. Words that may be names are left out: a new name may make more of them.
fn meanings(syntax: &Syntax) -> Vec<(NameKind, Role, Option<usize>)> {
    let certain: Vec<usize> =
        (0..syntax.names().len()).filter(|&n| syntax.names()[n].role != Role::Mentions).collect();
    let place = |n: usize| certain.binary_search(&n).ok();
    let meaning = |&n: &usize| {
        let name = &syntax.names()[n];
        (name.kind, name.role, syntax.declaration(n).and_then(place))
    };
    certain.iter().map(meaning).collect()
}
