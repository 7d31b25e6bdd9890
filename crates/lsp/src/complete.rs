// SPDX-License-Identifier: MIT OR Apache-2.0
//! What may be written at a place.

use std::collections::BTreeSet;

use lang::syntax::{NameKind, PieceKind, Role, Syntax};
use serde_json::{Value, json};

use crate::classes::{self, Class, Classes};
use crate::document::Document;
use crate::position::Position;

/// Kinds of what is offered, as the protocol numbers them.
#[derive(Clone, Copy)]
enum Kind {
    Handler = 2,
    Variable = 6,
    Class = 7,
    Port = 12,
    Keyword = 14,
    Element = 18,
    Argument = 10,
}

/// What is offered at a place.
pub(crate) fn complete(document: &Document, classes: &Classes, at: Position) -> Value {
    let mut offer = Offer { syntax: document.syntax(), classes, byte: document.byte(at), items: Vec::new() };
    offer.fill();
    json!({ "isIncomplete": false, "items": offer.items })
}

/// Adds the manual to what was offered.
pub(crate) fn resolve(classes: &Classes, mut item: Value) -> Value {
    let class = item.get("label").and_then(Value::as_str).and_then(|label| classes.get(label));
    let is_class = item.get("kind").and_then(Value::as_u64) == Some(Kind::Class as u64);
    if let Some(class) = class.filter(|_| is_class) {
        item["documentation"] = json!({ "kind": "markdown", "value": class.manual });
    }
    item
}

/// The class of a declared element, if it has a name.
pub(crate) fn class_of(syntax: &Syntax, declared: usize) -> Option<&str> {
    Some(syntax.sources().snippet(syntax.names()[declared].class?))
}

/// Arguments around a place.
pub(crate) struct Arguments<'t> {
    /// The class, or `define` or `require`.
    pub(crate) class: &'t str,
    /// Where the string begins.
    start: usize,
}

/// The arguments that a byte is in.
pub(crate) fn arguments_at(syntax: &Syntax, byte: usize) -> Option<Arguments<'_>> {
    let pieces = syntax.pieces();
    let behind = pieces.partition_point(|piece| piece.span.start as usize <= byte);
    // An empty string begins where the parenthesis behind it does.
    let found = (0..behind)
        .rev()
        .take(2)
        .find(|&n| pieces[n].kind == PieceKind::Config && byte <= pieces[n].span.end as usize)?;
    let before = pieces[..found.checked_sub(1)?].iter().rev().find(|piece| {
        !matches!(piece.kind, PieceKind::LineComment | PieceKind::BlockComment | PieceKind::Directive)
    })?;
    let is_name = matches!(before.kind, PieceKind::Ident | PieceKind::Keyword);
    let class = if is_name { syntax.sources().snippet(before.span) } else { "" };
    Some(Arguments { class, start: pieces[found].span.start as usize })
}

struct Offer<'a> {
    syntax: &'a Syntax,
    classes: &'a Classes,
    byte: usize,
    items: Vec<Value>,
}

impl Offer<'_> {
    fn fill(&mut self) {
        let pieces = self.syntax.pieces();
        let is_aside = |kind: PieceKind| {
            matches!(kind, PieceKind::LineComment | PieceKind::BlockComment | PieceKind::Directive)
        };
        let inside = |piece: &&lang::syntax::Piece| {
            let goes_on = usize::from(piece.kind != PieceKind::BlockComment);
            (piece.span.start as usize) < self.byte && self.byte < piece.span.end as usize + goes_on
        };
        if pieces.iter().filter(|piece| is_aside(piece.kind)).any(|piece| inside(&piece)) {
            return;
        }
        match arguments_at(self.syntax, self.byte) {
            Some(arguments) => self.arguments(&arguments),
            None => self.statement(),
        }
    }

    fn add(&mut self, label: &str, kind: Kind, detail: &str) {
        let order = match kind {
            Kind::Element | Kind::Variable | Kind::Argument | Kind::Handler | Kind::Port => '0',
            Kind::Class => '1',
            Kind::Keyword => '2',
        };
        let mut item = json!({ "label": label, "kind": kind as u32, "sortText": format!("{order}{label}") });
        if !detail.is_empty() {
            item["detail"] = detail.into();
        }
        self.items.push(item);
    }

    /// The word that is being written: what stands of it before the place.
    fn word(&self, is_part: impl Fn(char) -> bool) -> &str {
        let before = &self.syntax.source()[..self.byte];
        &before[before.trim_end_matches(is_part).len()..]
    }

    fn scope(&self) -> usize {
        self.syntax.scope_at(self.byte as u32)
    }

    fn statement(&mut self) {
        let word = self.word(|c| c.is_ascii_alphanumeric() || "_@/$".contains(c)).len();
        if self.syntax.source()[..self.byte - word].ends_with('$') || self.word(|c| c == '$').len() == 1 {
            return;
        }
        let pieces = self.syntax.pieces();
        let begin = self.byte - word;
        let behind = pieces.partition_point(|piece| (piece.span.start as usize) < begin);
        let before = pieces[..behind].iter().rev().find(|piece| {
            !matches!(piece.kind, PieceKind::LineComment | PieceKind::BlockComment | PieceKind::Directive)
        });
        let text = before.map_or("", |piece| self.syntax.sources().snippet(piece.span));
        match text {
            "elementclass" => {}
            "::" => self.all_classes(),
            "[" => self.ports(),
            "->" | "=>" | "," | "]" => {
                self.elements();
                self.all_classes();
            }
            _ => {
                self.elements();
                self.all_classes();
                for word in ["elementclass", "define", "require"] {
                    self.add(word, Kind::Keyword, "");
                }
            }
        }
    }

    fn elements(&mut self) {
        let scope = self.scope();
        self.elements_of(scope);
        if self.syntax.scopes()[scope].parent.is_some() {
            self.add("input", Kind::Element, "");
            self.add("output", Kind::Element, "");
        }
    }

    /// The elements that a body declares.
    fn elements_of(&mut self, scope: usize) {
        let mut seen = BTreeSet::new();
        for (number, name) in self.syntax.names().iter().enumerate() {
            let is_wanted =
                name.kind == NameKind::Element && name.role == Role::Declares && name.scope == scope;
            let text = self.syntax.text(number);
            if is_wanted && seen.insert(text) {
                let class = class_of(self.syntax, number).unwrap_or_default();
                self.add(text, Kind::Element, class);
            }
        }
    }

    fn all_classes(&mut self) {
        let scope = self.scope();
        let mut own = BTreeSet::new();
        for (number, name) in self.syntax.names().iter().enumerate() {
            let text = self.syntax.text(number);
            let is_known = name.kind == NameKind::Class
                && name.role == Role::Declares
                && self.syntax.find(NameKind::Class, text, scope, self.byte as u32).is_some();
            if is_known && own.insert(text) {
                self.add(text, Kind::Class, "elementclass of this text");
            }
        }
        let classes = self.classes;
        for (name, class) in classes.iter().filter(|(name, _)| !own.contains(name)) {
            self.add(name, Kind::Class, &class.purpose);
        }
    }

    /// Numbers of ports: outputs of the element before the bracket, inputs of one behind it.
    fn ports(&mut self) {
        let pieces = self.syntax.pieces();
        let open = pieces.partition_point(|piece| (piece.span.start as usize) < self.byte);
        let Some(open) = (0..open).rev().find(|&n| self.syntax.sources().snippet(pieces[n].span) == "[")
        else {
            return;
        };
        let element = |n: Option<usize>| {
            let piece = pieces.get(n?).filter(|piece| piece.kind == PieceKind::Ident)?;
            let text = self.syntax.sources().snippet(piece.span);
            let declared = self.syntax.find(NameKind::Element, text, self.scope(), self.byte as u32);
            let class = declared.and_then(|declared| class_of(self.syntax, declared)).unwrap_or(text);
            self.classes.get(class)
        };
        let close = (open..pieces.len().min(open + 8))
            .find(|&n| self.syntax.sources().snippet(pieces[n].span) == "]");
        let count = match (element(open.checked_sub(1)), element(close.map(|n| n + 1))) {
            (Some(class), _) => class.ports(true),
            (None, Some(class)) => class.ports(false),
            (None, None) => 1,
        };
        for port in 0..count {
            let item = json!({ "label": port.to_string(), "kind": Kind::Port as u32, "sortText": format!("{port:03}") });
            self.items.push(item);
        }
    }

    fn arguments(&mut self, arguments: &Arguments<'_>) {
        let word = self.word(|c| c.is_ascii_alphanumeric() || "_@/.$".contains(c)).to_owned();
        if let Some((path, _)) = word.rsplit_once('.') {
            return self.handlers(path);
        }
        if word.contains('$') {
            return self.variables();
        }
        if let Some((path, _)) = word.rsplit_once('/') {
            return self.inside(path);
        }
        let written = &self.syntax.source()[arguments.start..self.byte - word.len()];
        let argument = lang::config::split_args(&format!("{written}x")).pop().map(|arg| arg.text);
        match arguments.class {
            "define" => {}
            "require" => {
                for kind in ["library", "package", "compact_config"] {
                    self.add(kind, Kind::Argument, "");
                }
            }
            class => {
                if argument.is_some_and(|text| text == "x") {
                    self.keywords(class);
                }
                self.elements();
            }
        }
    }

    fn keywords(&mut self, class: &str) {
        let classes = self.classes;
        if let Some(class) = classes.get(class) {
            for (word, text) in class.keywords.iter().chain(&class.instructions) {
                self.add(word, Kind::Argument, text);
            }
            return;
        }
        // A class of the text: the keywords of its parameters.
        let Some(declared) = self.syntax.find(NameKind::Class, class, self.scope(), self.byte as u32) else {
            return;
        };
        for scope in self.syntax.bodies(declared) {
            for (number, name) in self.syntax.names().iter().enumerate() {
                let keyword =
                    self.syntax.sources().snippet(name.whole).split([' ', '\t', '\n', '\r', '$']).next();
                let is_parameter =
                    name.scope == scope && name.kind == NameKind::Variable && name.role == Role::Declares;
                let is_parameter = is_parameter && name.whole != name.span;
                match keyword {
                    Some(keyword) if is_parameter && !keyword.is_empty() && keyword != "__REST__" => {
                        let detail = format!("${}", self.syntax.text(number));
                        self.add(keyword, Kind::Argument, &detail);
                    }
                    _ => {}
                }
            }
        }
    }

    fn variables(&mut self) {
        let around: Vec<usize> = self.syntax.around(self.scope()).collect();
        let mut seen = BTreeSet::new();
        for (number, name) in self.syntax.names().iter().enumerate() {
            let is_known = name.kind == NameKind::Variable
                && name.role == Role::Declares
                && around.contains(&name.scope);
            let text = self.syntax.text(number);
            if is_known && seen.insert(text) {
                self.add(text, Kind::Variable, self.syntax.sources().snippet(name.whole));
            }
        }
    }

    /// The element that a path from here names, as its declaration.
    fn element_at(&self, path: &str) -> Option<usize> {
        let mut scopes = vec![self.scope()];
        let mut element = None;
        for part in path.split('/') {
            let find = |&scope: &usize| self.syntax.find(NameKind::Element, part, scope, self.byte as u32);
            let declared = scopes.iter().find_map(find)?;
            scopes = self.syntax.bodies_of(declared).collect();
            element = Some(declared);
        }
        element
    }

    /// The elements in a compound, given by its path from here.
    fn inside(&mut self, path: &str) {
        let Some(compound) = self.element_at(path) else { return };
        for scope in self.syntax.bodies_of(compound) {
            self.elements_of(scope);
        }
    }

    /// The handlers of an element, given by its path from here.
    fn handlers(&mut self, path: &str) {
        let Some(declared) = self.element_at(path) else { return };
        let class: Option<&Class> = class_of(self.syntax, declared).and_then(|name| self.classes.get(name));
        for (name, access) in class.into_iter().flat_map(|class| &class.handlers) {
            self.add(name, Kind::Handler, classes::access(*access));
        }
    }
}
