// SPDX-License-Identifier: MIT OR Apache-2.0
//! The flat graph: what a configuration comes to when all of the language's conveniences are gone.

use crate::source::{SourceMap, Span};
use crate::text::Text;

/// Elements and connections, with the places they come from.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// In Click's order: the file's own elements, then those of each compound where it's expanded.
    pub elements: Vec<Element>,
    /// Ordered by source port, then by destination port; each once.
    pub connections: Vec<Connection>,
    /// In the order they were written.
    pub requirements: Vec<Requirement>,
    /// The configuration as it was written, without libraries and archives.
    pub text: std::sync::Arc<str>,
    /// Files that came in the same archive: name and content.
    pub archive: Vec<(String, Vec<u8>)>,
}

/// An element of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// Unique; inside compounds `outer/inner`, without a name of its own `Class@N`.
    pub name: Text,
    /// Element class, which the engine knows or not.
    pub class: Text,
    /// Configuration string with variables replaced; quotes and comments as written.
    pub config: Text,
    /// Place of the name or, without one, of the class.
    pub span: Span,
    /// Place of the class.
    pub class_span: Span,
    /// Place of the configuration string as written, between its parentheses.
    pub config_span: Option<Span>,
}

impl Element {
    /// The place of a part of [`Element::config`]; the whole configuration's if variables moved its bytes about.
    #[must_use]
    pub fn span_in_config(&self, sources: &SourceMap, start: usize, len: usize) -> Span {
        let Some(whole) = self.config_span else { return self.class_span };
        if sources.snippet(whole) == self.config && start.saturating_add(len) <= self.config.len() {
            return Span {
                start: whole.start + start as u32,
                end: whole.start + (start + len) as u32,
                ..whole
            };
        }
        whole
    }
}

/// A connection from an output port to an input port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Output.
    pub from: PortRef,
    /// Input.
    pub to: PortRef,
    /// Place of the arrow.
    pub span: Span,
}

/// A port of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRef {
    /// Index in [`Graph::elements`].
    pub element: usize,
    /// Port number.
    pub port: usize,
}

/// What the configuration says it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// `package` or `compact_config`.
    pub kind: String,
    /// Name of the package.
    pub value: String,
    /// Place of the statement's argument.
    pub span: Span,
}
