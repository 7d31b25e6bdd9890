// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the resolver hands to the expander: bodies of compound elements with every name resolved.

use crate::source::Span;
use crate::text::Text;

pub(crate) type TypeId = usize;
pub(crate) type BodyId = usize;

/// The body of the file itself.
pub(crate) const TOP: BodyId = 0;

/// What a class name can mean.
#[derive(Debug)]
pub(crate) enum Type {
    /// A class that the engine must know.
    Primitive(Text),
    /// The first of a chain of overloads.
    Compound(BodyId),
    /// Unknown, and complained about.
    Broken,
}

/// All types and bodies of a configuration.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub(crate) types: Vec<Type>,
    pub(crate) bodies: Vec<Body>,
}

/// A parameter of a compound element.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    /// Empty for a positional parameter.
    pub(crate) keyword: String,
    pub(crate) span: Span,
    /// Whether any expansion looked at it.
    pub(crate) used: bool,
}

/// One overload of a compound element, or the file.
#[derive(Debug)]
pub(crate) struct Body {
    /// Class name; empty for an anonymous compound.
    pub(crate) name: String,
    pub(crate) span: Span,
    /// 0 for the file, 1 for a compound written in it, and so on.
    pub(crate) depth: usize,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) defines: Vec<Definition>,
    /// Port counts, inputs first.
    pub(crate) ports: [u32; 2],
    /// What to try if this overload doesn't fit.
    pub(crate) next: Option<TypeId>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) wires: Vec<Wire>,
    pub(crate) expanded: bool,
}

/// `define($name value)`
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) span: Span,
}

/// What a slot of a body holds. Pseudo elements come in runs: a body starts with `Input, Output`, a group is
/// `Group, Input, Output`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SlotKind {
    Element(TypeId),
    #[default]
    Group,
    Input,
    Output,
}

/// An element of a body.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slot {
    pub(crate) name: Text,
    pub(crate) kind: SlotKind,
    /// As written: variables not yet replaced.
    pub(crate) config: Text,
    pub(crate) span: Span,
    pub(crate) class_span: Span,
    pub(crate) config_span: Option<Span>,
    /// Ports in use, inputs first: one more than the highest.
    pub(crate) ports: [u32; 2],
    /// The name is made up, and gives way to one that was written.
    pub(crate) anonymous: bool,
}

/// A connection between ports of slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire {
    pub(crate) from: (usize, u32),
    pub(crate) to: (usize, u32),
    pub(crate) span: Span,
}
