// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compound classes whose bodies are written to order: a function gets a use's arguments and answers with a text.
//!
//! An `elementclass` has a fixed number of parts. A router with any number of interfaces has not, so its body is written
//! anew for every use. What's in it is placed, for messages, where the use stands: the user has never seen that text.

use crate::Options;
use crate::config::split_args;
use crate::diagnostic::{Diagnostic, Sink};
use crate::program::{BodyId, Program, Slot};
use crate::resolve::resolve_body;
use crate::source::{SourceMap, Span};

/// A compound class by its name, and the function that writes its bodies.
#[derive(Clone, Copy, Debug)]
pub struct Template {
    /// Class name.
    pub name: &'static str,
    /// Writes what stands between the braces of the class, for one use of it.
    pub write: fn(&Use<'_>) -> Result<String, Vec<Fault>>,
}

/// A use of a [`Template`].
#[derive(Clone, Copy, Debug)]
pub struct Use<'a> {
    /// Name of the element.
    pub name: &'a str,
    /// Its arguments, variables replaced.
    pub args: &'a [String],
    /// Its ports in use, inputs first: one more than the highest.
    pub ports: [u32; 2],
}

/// Why a [`Template`] writes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Number of the argument; `None` for all of them.
    pub argument: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub help: String,
}

impl Fault {
    /// A fault of one argument, or of all.
    #[must_use]
    pub fn new(argument: Option<usize>, message: impl Into<String>, help: impl Into<String>) -> Fault {
        Fault { argument, message: message.into(), help: help.into() }
    }

    pub(crate) fn diagnostic(self, class: &str, slot: &Slot, sources: &SourceMap) -> Diagnostic {
        let place = self.argument.and_then(|n| argument_span(slot, n, sources));
        Diagnostic::error("E0409", format!("{}: {}", slot.name, self.message))
            .at(place.or(slot.config_span).unwrap_or(slot.span))
            .label(format!("in the arguments of this {class}"))
            .help(self.help)
    }
}

/// The place of an argument; `None` if its bytes aren't those that stand there.
fn argument_span(slot: &Slot, number: usize, sources: &SourceMap) -> Option<Span> {
    let whole = slot.config_span?;
    let written = sources.snippet(whole);
    let args = split_args(written);
    let arg = args.get(number).filter(|_| args.len() == split_args(&slot.config).len())?;
    let start = whole.start + arg.start as u32;
    // With a comment in it, an argument is longer than its text.
    let mut len = arg.text.len();
    if !written[arg.start..].starts_with(&arg.text) {
        let end = args.get(number + 1).map_or(written.len(), |next| next.start);
        len = written[arg.start..end].trim_end().trim_end_matches(',').trim_end().len();
    }
    Some(Span { start, end: start + len as u32, ..whole })
}

/// Makes a body of a text, all of it placed at `span`.
pub(crate) fn body(
    program: &mut Program,
    sink: &mut Sink,
    options: &Options,
    class: &str,
    text: &str,
    span: Span,
) -> Option<BodyId> {
    let (mut sources, mut findings) = (SourceMap::new(), Sink::default());
    let file = sources.add(class, text);
    let first = program.bodies.len();
    let id = resolve_body(&mut sources, &mut findings, options, program, file, class);
    for body in &mut program.bodies[first..] {
        body.span = span;
        body.parameters.iter_mut().for_each(|p| p.span = span);
        body.defines.iter_mut().for_each(|d| d.span = span);
        body.wires.iter_mut().for_each(|w| w.span = span);
        for slot in &mut body.slots {
            (slot.span, slot.class_span, slot.config_span) = (span, span, None);
        }
    }
    if findings.errors() == 0 {
        return Some(id);
    }
    for found in findings.finish() {
        let line = found.span.map_or(0, |s| sources.location(s).line);
        let message = format!("the text written for '{class}' is wrong in line {line}: {}", found.message);
        sink.push(Diagnostic::error("E0410", message).at(span).note(None, text.to_owned()));
    }
    None
}
