// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tree that the parser builds: what was written, nothing resolved yet.

pub(crate) use crate::lexer::Config;
use crate::source::Span;
use crate::text::Text;

/// A name and its place.
#[derive(Clone, Debug)]
pub(crate) struct Ident {
    pub(crate) text: Text,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) enum Stmt {
    /// `elementclass NAME ...`
    Class(ClassDef),
    /// `require(...)`
    Require(Config),
    /// `define(...)`
    Define(Config),
    /// A declaration or a chain of connections.
    Chain(Chain),
}

#[derive(Debug)]
pub(crate) struct ClassDef {
    pub(crate) name: Ident,
    pub(crate) class: ClassRef,
}

/// A class by its name or by its definition.
#[derive(Debug)]
pub(crate) enum ClassRef {
    Named(Ident),
    Compound(Box<CompoundDef>),
}

/// `{ ... || ... || ... }`: one body for each overload.
#[derive(Debug)]
pub(crate) struct CompoundDef {
    pub(crate) bodies: Vec<BodyDef>,
    /// Place of the `...` that says: what fits none of these, fits what the name meant before.
    pub(crate) extends: Option<Span>,
    /// Place of the opening brace.
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) struct BodyDef {
    pub(crate) formals: Vec<Formal>,
    pub(crate) statements: Vec<Stmt>,
    pub(crate) span: Span,
    /// All of it, from behind the brace or bar before to the brace or bar behind.
    pub(crate) whole: Span,
}

/// A parameter, `$name` or `KEYWORD $name`.
#[derive(Debug)]
pub(crate) struct Formal {
    pub(crate) keyword: Option<Ident>,
    pub(crate) name: Ident,
}

/// Element lists joined by arrows; `links` is one shorter than `sets`.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) sets: Vec<Vec<Item>>,
    pub(crate) links: Vec<Link>,
    /// `a, b :: C(x)`, which declares all its names alike.
    pub(crate) spread: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// `=>` rather than `->`.
    pub(crate) double: bool,
    pub(crate) span: Span,
}

/// `[ports] element :: Class(config) [ports]`
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) inputs: Option<Box<Ports>>,
    pub(crate) what: What,
    pub(crate) class: Option<ClassRef>,
    pub(crate) config: Option<Config>,
    pub(crate) outputs: Option<Box<Ports>>,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) enum What {
    /// An element or a class.
    Name(Ident),
    /// `input` or `output` left out at an end of a chain.
    Implicit {
        output: bool,
    },
    Compound(Box<CompoundDef>),
    Group(Vec<Stmt>),
}

/// `[0, 1, 4-7, 9-]`
#[derive(Clone, Debug)]
pub(crate) struct Ports {
    /// Never empty.
    pub(crate) list: Vec<u32>,
    /// The list goes on as long as the other side needs.
    pub(crate) expandable: bool,
    pub(crate) span: Span,
}
