// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text as it was written, for formatters and editors: its pieces in order, its scopes, and the names in them.
//!
//! Nothing is expanded, and no file is read. A text with errors has pieces and names too, as far as it can be read.
//!
//! ```
//! use junctor_lang::syntax::{NameKind, Syntax};
//!
//! let syntax = Syntax::of("define($N 5); q :: Queue($N); Idle -> q -> Discard;");
//! let used = syntax.at(38).expect("a name");
//! assert_eq!((syntax.text(used), syntax.names()[used].kind), ("q", NameKind::Element));
//! let declared = syntax.declaration(used).expect("declared");
//! assert_eq!(syntax.names()[declared].span.start, 14);
//! assert_eq!(syntax.uses(declared).count(), 2);
//! ```
//!
//! Scopes are those of the compiler: an element is known in its own body, a class from the end of its definition to the end of the body around
//! it, a variable in its body and in those inside.

use std::collections::HashMap;

use crate::diagnostic::{Diagnostic, Severity, Sink};
use crate::parser;
use crate::source::{SourceMap, Span};

mod index;

/// What a piece of text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceKind {
    /// A name or a number.
    Ident,
    /// `$name`
    Variable,
    /// `elementclass`, `require`, `define`, `provide`
    Keyword,
    /// An arrow, a bracket, or any other sign.
    Symbol,
    /// What stands between the parentheses of a declaration, without them; it may be empty.
    Config,
    /// `// ...`, without the end of the line.
    LineComment,
    /// `/* ... */`
    BlockComment,
    /// `# N "file"` or `#line N "file"`, without the end of the line.
    Directive,
}

/// A piece of text. Between pieces there is only white space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// What it is.
    pub kind: PieceKind,
    /// Where it is.
    pub span: Span,
    /// Whether a statement begins with it.
    pub starts_statement: bool,
}

/// What a name names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NameKind {
    /// An element.
    Element,
    /// An element class.
    Class,
    /// A variable; the name is without its `$`.
    Variable,
}

/// What a name does where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It declares what it names.
    Declares,
    /// It stands for it.
    Uses,
    /// A word of a configuration string that looks like the name of an element, or of one in a compound (`outer/q`).
    Mentions,
}

/// A name at its place.
#[derive(Clone, Debug)]
pub struct Name {
    /// The name itself.
    pub span: Span,
    /// What it names.
    pub kind: NameKind,
    /// What it does.
    pub role: Role,
    /// The scope it stands in; of a name behind a slash, as in `outer/q`, the body that declares it.
    pub scope: usize,
    /// All of a declaration: with its class and arguments, or with its body.
    pub whole: Span,
    /// The class of a declared element, as it is written; nothing for a compound without a name.
    pub class: Option<Span>,
    /// From where on a declaration counts.
    from: u32,
    /// The bodies of a declared class or compound.
    bodies: (usize, usize),
}

/// A body: the file's own, or one of a compound.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The scope around it.
    pub parent: Option<usize>,
    /// What lies between its braces.
    pub whole: Span,
}

/// A text, taken apart.
#[derive(Debug)]
pub struct Syntax {
    sources: SourceMap,
    pieces: Vec<Piece>,
    names: Vec<Name>,
    scopes: Vec<Scope>,
    /// Declarations by kind, scope and name, in order.
    declared: HashMap<(NameKind, usize, String), Vec<usize>>,
    diagnostics: Vec<Diagnostic>,
}

impl Syntax {
    /// Takes a text apart.
    #[must_use]
    pub fn of(text: &str) -> Syntax {
        let (mut sources, mut sink) = (SourceMap::new(), Sink::default());
        let file = sources.add("", text);
        let (statements, pieces) = parser::parse_pieces(&mut sources, &mut sink, file);
        let text = sources.shared_text(file);
        let index = index::Index::of(&text, &statements);
        let (names, scopes) = (index.names, index.scopes);
        let mut syntax =
            Syntax { sources, pieces, names, scopes, declared: HashMap::new(), diagnostics: sink.finish() };
        syntax.declare();
        let inside: Vec<Name> = index.paths.iter().flat_map(|path| syntax.inside(path)).collect();
        if !inside.is_empty() {
            syntax.names.extend(inside);
            syntax.names.sort_by_key(|name| (name.span.start, name.span.end));
            syntax.declare();
        }
        syntax
    }

    /// Makes the table of declarations.
    fn declare(&mut self) {
        self.declared.clear();
        for (number, name) in self.names.iter().enumerate().filter(|(_, n)| n.role == Role::Declares) {
            let key = (name.kind, name.scope, self.sources.snippet(name.span).to_owned());
            self.declared.entry(key).or_default().push(number);
        }
    }

    /// The names of a path behind its first slash, each with the body that declares it as its scope. A path ends where no body, or more than
    /// one, declares the next name.
    fn inside(&self, path: &index::Path) -> Vec<Name> {
        let mut names = Vec::new();
        let mut scope = path.scope;
        for two in path.parts.windows(2) {
            let (outer, span) = (self.sources.snippet(two[0]), two[1]);
            let Some(declared) = self.find(NameKind::Element, outer, scope, 0) else { break };
            let declares =
                |body: &usize| self.find(NameKind::Element, self.sources.snippet(span), *body, 0).is_some();
            let mut bodies = self.bodies_of(declared).filter(declares);
            let (Some(body), None) = (bodies.next(), bodies.next()) else { break };
            scope = body;
            let from = self.scopes[body].whole.start;
            let (kind, role, whole) = (NameKind::Element, Role::Mentions, span);
            names.push(Name { span, kind, role, scope, whole, class: None, from, bodies: (0, 0) });
        }
        names
    }

    /// The bodies of a declared element: its own, or those of its class.
    pub fn bodies_of(&self, element: usize) -> std::ops::Range<usize> {
        let name = &self.names[element];
        let class = name.class.and_then(|class| {
            self.find(NameKind::Class, self.sources.snippet(class), name.scope, name.span.start)
        });
        self.bodies(class.unwrap_or(element))
    }

    /// The text, without a byte order mark.
    #[must_use]
    pub fn source(&self) -> &str {
        self.sources.text(0)
    }

    /// The texts that spans refer to.
    #[must_use]
    pub fn sources(&self) -> &SourceMap {
        &self.sources
    }

    /// Its pieces, in order.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// All names, in order.
    #[must_use]
    pub fn names(&self) -> &[Name] {
        &self.names
    }

    /// All scopes; the first is the file's own.
    #[must_use]
    pub fn scopes(&self) -> &[Scope] {
        &self.scopes
    }

    /// What the parser found wrong or strange.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Whether it cannot be read as a configuration.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|d| d.severity == Severity::Error)
    }

    /// A name's text.
    #[must_use]
    pub fn text(&self, name: usize) -> &str {
        self.sources.snippet(self.names[name].span)
    }

    /// The name at a byte, or just before it.
    #[must_use]
    pub fn at(&self, byte: u32) -> Option<usize> {
        let behind = self.names.partition_point(|n| n.span.start <= byte);
        let before = (0..behind).rev().take(3);
        before.into_iter().find(|&n| byte <= self.names[n].span.end)
    }

    /// The innermost scope around a byte.
    #[must_use]
    pub fn scope_at(&self, byte: u32) -> usize {
        let around = |s: &&usize| {
            let whole = self.scopes[**s].whole;
            whole.start <= byte && byte <= whole.end
        };
        // An inner scope begins behind the outer one, and has a higher number.
        let all: Vec<usize> = (0..self.scopes.len()).collect();
        all.iter().rev().find(around).copied().unwrap_or(0)
    }

    /// The scopes around one, from itself to the file's own.
    pub fn around(&self, scope: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(scope), |&s| self.scopes[s].parent)
    }

    /// The bodies of a declared class or compound.
    #[must_use]
    pub fn bodies(&self, declaration: usize) -> std::ops::Range<usize> {
        let (first, end) = self.names[declaration].bodies;
        first..end
    }

    /// Where what a name names is declared in this text.
    #[must_use]
    pub fn declaration(&self, name: usize) -> Option<usize> {
        let this = &self.names[name];
        if this.role == Role::Declares && this.kind != NameKind::Variable {
            return Some(name);
        }
        self.find(this.kind, self.text(name), this.scope, this.span.start)
    }

    /// Where a name that stands at a byte of a scope is declared.
    #[must_use]
    pub fn find(&self, kind: NameKind, text: &str, scope: usize, byte: u32) -> Option<usize> {
        let of = |scope: usize| self.declared.get(&(kind, scope, text.to_owned()));
        match kind {
            NameKind::Element => of(scope)?.first().copied(),
            NameKind::Variable => self.around(scope).find_map(|s| of(s)?.first().copied()),
            // Of one body's classes, a later one counts from a later byte on.
            NameKind::Class => self.around(scope).find_map(|s| {
                let all = of(s)?;
                let count = all.partition_point(|&n| self.names[n].from <= byte);
                Some(all[count.checked_sub(1)?])
            }),
        }
    }

    /// All places of what a declaration declares, with the declaration.
    pub fn uses(&self, declaration: usize) -> impl Iterator<Item = usize> + '_ {
        let (kind, text) = (self.names[declaration].kind, self.text(declaration));
        (0..self.names.len()).filter(move |&n| {
            self.names[n].kind == kind && self.text(n) == text && self.declaration(n) == Some(declaration)
        })
    }
}
