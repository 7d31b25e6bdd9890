// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the tree to scopes and names.

use std::collections::HashSet;

use super::{Name, NameKind, Role, Scope};
use crate::ast::{BodyDef, Chain, ClassRef, CompoundDef, Config, Ident, Item, Stmt, What};
use crate::config::{is_space, shift_word, skip_comment, skip_quoted, split_args};
use crate::source::Span;
use crate::variables::mentions;

/// What stands for the outside in a compound, and is declared nowhere.
const PSEUDO: [&str; 2] = ["input", "output"];
/// How classes end whose arguments are words of their own languages, such as `tcp`, and never name an element.
const OWN_WORDS: [&str; 2] = ["Classifier", "Filter"];

/// A path in a configuration string, as `outer/q`: its parts, of which the first stands for an element of the scope.
pub(super) struct Path {
    pub(super) parts: Vec<Span>,
    pub(super) scope: usize,
}

pub(super) struct Index<'t> {
    text: &'t str,
    pub(super) names: Vec<Name>,
    pub(super) scopes: Vec<Scope>,
    pub(super) paths: Vec<Path>,
}

impl<'t> Index<'t> {
    pub(super) fn of(text: &'t str, statements: &[Stmt]) -> Index<'t> {
        let whole = Span { file: 0, start: 0, end: text.len() as u32 };
        let scopes = vec![Scope { parent: None, whole }];
        let mut index = Index { text, names: Vec::new(), scopes, paths: Vec::new() };
        index.statements(statements, 0);
        index.names.sort_by_key(|name| (name.span.start, name.span.end));
        index.settle();
        index
    }

    fn statements(&mut self, statements: &[Stmt], scope: usize) {
        for statement in statements {
            match statement {
                Stmt::Class(class) => {
                    let (end, bodies) = match &class.class {
                        ClassRef::Named(old) => {
                            self.add(old, NameKind::Class, Role::Uses, scope);
                            (old.span.end, (0, 0))
                        }
                        ClassRef::Compound(def) => self.compound(def, scope),
                    };
                    if class.name.text.is_empty() {
                        continue;
                    }
                    let whole = Span { end, ..class.name.span };
                    let name = self.add(&class.name, NameKind::Class, Role::Declares, scope);
                    (name.whole, name.from, name.bodies) = (whole, end, bodies);
                }
                Stmt::Require(_) => {}
                Stmt::Define(config) => self.define(config, scope),
                Stmt::Chain(chain) => self.chain(chain, scope),
            }
        }
    }

    fn add(&mut self, name: &Ident, kind: NameKind, role: Role, scope: usize) -> &mut Name {
        self.add_at(name.span, kind, role, scope)
    }

    fn add_at(&mut self, span: Span, kind: NameKind, role: Role, scope: usize) -> &mut Name {
        let from = self.scopes[scope].whole.start;
        self.names.push(Name { span, kind, role, scope, whole: span, class: None, from, bodies: (0, 0) });
        self.names.last_mut().expect("one was added")
    }

    /// Takes up the bodies of a compound: where the last one ends, and which they are.
    fn compound(&mut self, def: &CompoundDef, scope: usize) -> (u32, (usize, usize)) {
        let first = self.scopes.len();
        // Its own bodies have numbers in a row; those inside them come behind.
        self.scopes.extend(def.bodies.iter().map(|b| Scope { parent: Some(scope), whole: b.whole }));
        let end = self.scopes.len();
        for (number, body) in def.bodies.iter().enumerate() {
            self.body(body, first + number);
        }
        (def.bodies.last().map_or(def.span.end, |b| b.whole.end), (first, end))
    }

    fn body(&mut self, body: &BodyDef, scope: usize) {
        for formal in &body.formals {
            let keyword = formal.keyword.as_ref().map_or(formal.name.span, |k| k.span);
            let name = self.add(&formal.name, NameKind::Variable, Role::Declares, scope);
            name.whole = keyword.to(name.span);
        }
        self.statements(&body.statements, scope);
    }

    fn define(&mut self, config: &Config, scope: usize) {
        let written = &self.text[config.span.start as usize..config.span.end as usize];
        let mut declares = HashSet::new();
        for arg in split_args(written) {
            let name = shift_word(&arg.text).0.strip_prefix('$').unwrap_or_default();
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                continue;
            }
            let start = config.span.start + arg.start as u32;
            let span = Span { file: 0, start: start + 1, end: start + 1 + name.len() as u32 };
            let long =
                if written[arg.start..].starts_with(&arg.text) { arg.text.len() } else { name.len() + 1 };
            let declared = self.add_at(span, NameKind::Variable, Role::Declares, scope);
            declared.whole = Span { file: 0, start, end: start + long as u32 };
            declares.insert(span.start);
        }
        self.variables(config, scope, &declares);
    }

    /// The variables of a configuration string, but for those that it declares.
    fn variables(&mut self, config: &Config, scope: usize, declares: &HashSet<u32>) {
        let written = &self.text[config.span.start as usize..config.span.end as usize];
        for name in mentions(written) {
            let at = |n: usize| config.span.start + n as u32;
            let span = Span { file: 0, start: at(name.start), end: at(name.end) };
            if !declares.contains(&span.start) {
                self.add_at(span, NameKind::Variable, Role::Uses, scope);
            }
        }
    }

    /// The names in the configuration string of an element of this class.
    fn config(&mut self, class: &str, config: &Config, scope: usize) {
        self.variables(config, scope, &HashSet::new());
        if OWN_WORDS.iter().any(|ending| class.ends_with(ending)) {
            return;
        }
        let (start, end) = (config.span.start as usize, config.span.end as usize);
        let span = |(at, word): (usize, usize)| Span {
            file: 0,
            start: (start + at) as u32,
            end: (start + at + word) as u32,
        };
        for words in paths(&self.text[start..end]) {
            let parts: Vec<Span> = words.into_iter().map(span).collect();
            self.add_at(parts[0], NameKind::Element, Role::Mentions, scope);
            if parts.len() > 1 {
                self.paths.push(Path { parts, scope });
            }
        }
    }

    fn chain(&mut self, chain: &Chain, scope: usize) {
        for set in &chain.sets {
            let last = set.last();
            for item in set {
                let spread = chain.spread.then_some(last).flatten();
                self.item(item, spread, scope);
            }
        }
    }

    /// Takes up an item. `spread`: the item whose class counts for this one, too.
    fn item(&mut self, item: &Item, spread: Option<&Item>, scope: usize) {
        let (mut end, mut bodies) = (item.span.end, (0, 0));
        match &item.class {
            Some(ClassRef::Named(class)) => _ = self.add(class, NameKind::Class, Role::Uses, scope),
            Some(ClassRef::Compound(def)) => {
                let (behind, found) = self.compound(def, scope);
                (end, bodies) = (end.max(behind), found);
            }
            None => {}
        }
        if let Some(config) = &item.config {
            let class = match (&item.class, &item.what) {
                (Some(ClassRef::Named(class)), _) | (None, What::Name(class)) => class.text.as_str(),
                _ => "",
            };
            self.config(class, config, scope);
            end = end.max(config.span.end + 1);
        }
        match &item.what {
            What::Implicit { .. } => {}
            What::Group(statements) => self.statements(statements, scope),
            What::Compound(def) => _ = self.compound(def, scope),
            What::Name(name) => {
                let class = item.class.as_ref().or(spread.and_then(|s| s.class.as_ref()));
                let named = match class {
                    Some(ClassRef::Named(class)) => Some(class.span),
                    _ => None,
                };
                let looks = item.config.is_some() || name.text.starts_with(|c: char| c.is_ascii_uppercase());
                let kind = if class.is_none() && looks { NameKind::Class } else { NameKind::Element };
                let role = if class.is_some() { Role::Declares } else { Role::Uses };
                if class.is_none() && PSEUDO.contains(&name.text.as_str()) {
                    return;
                }
                let end = end.min(self.text.len() as u32).max(name.span.end);
                let added = self.add(name, kind, role, scope);
                (added.class, added.bodies) = (named, bodies);
                added.whole = Span { end, ..name.span };
            }
        }
    }

    /// A name that looks like a class is an element if one of that name is declared in its body, unless it has arguments.
    /// Words of configuration strings stay only if they name an element of the body.
    fn settle(&mut self) {
        let declared: HashSet<(usize, &str)> = self
            .names
            .iter()
            .filter(|n| n.kind == NameKind::Element && n.role == Role::Declares)
            .map(|n| (n.scope, &self.text[n.span.start as usize..n.span.end as usize]))
            .collect();
        let text = self.text;
        let is_element =
            |n: &Name| declared.contains(&(n.scope, &text[n.span.start as usize..n.span.end as usize]));
        let has_arguments = |n: &Name| n.whole.end > n.span.end;
        let mut kept = std::mem::take(&mut self.names);
        for name in &mut kept {
            if name.kind == NameKind::Class
                && name.role == Role::Uses
                && !has_arguments(name)
                && is_element(name)
            {
                name.kind = NameKind::Element;
            }
        }
        kept.retain(|n| n.role != Role::Mentions || is_element(n));
        self.names = kept;
    }
}

/// Words of a configuration string that may name elements, as paths of words with slashes between them: where each word begins, and its length.
/// Inside quotes only those before a `.` count, as in `"write q.reset"`; outside, those that stand alone, too.
fn paths(config: &str) -> Vec<Vec<(usize, usize)>> {
    let s = config.as_bytes();
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'@';
    let length_at = |i: usize| s[i..].iter().take_while(|b| is_word(**b)).count();
    let (mut found, mut i, mut quoted) = (Vec::new(), 0, 0..0);
    while i < s.len() {
        let before = if i == 0 { b' ' } else { s[i - 1] };
        if !quoted.contains(&i) && matches!(s[i], b'"' | b'\'') {
            quoted = i..skip_quoted(s, i);
            i += 1;
        } else if !quoted.contains(&i) && s[i] == b'/' && matches!(s.get(i + 1), Some(b'/' | b'*')) {
            i = skip_comment(s, i);
        } else if is_word(s[i]) {
            let mut path = vec![(i, length_at(i))];
            i += length_at(i);
            while s.get(i) == Some(&b'/') && s.get(i + 1).is_some_and(|b| is_word(*b)) {
                path.push((i + 1, length_at(i + 1)));
                i += 1 + length_at(i + 1);
            }
            let next = s.get(i).copied().unwrap_or(b' ');
            let begins = is_space(before) || matches!(before, b',' | b'(' | b'"' | b'\'');
            let alone =
                !quoted.contains(&path[0].0) && (is_space(next) || matches!(next, b',' | b')' | b'/'));
            if begins && (alone || next == b'.') {
                found.push(path);
            }
        } else {
            i += 1;
        }
    }
    found
}
