// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bodies to one flat graph: compounds are replaced by what's in them, variables by their values.
//!
//! Expansion only copies: a compound's slots and wires are appended, and three nodes stay as tunnels, `x`, `x/input` and
//! `x/output`. Then [`crate::splice`] lays the connections through the tunnels.

use std::collections::HashMap;
use std::rc::Rc;

use crate::Options;
use crate::config::{assign, is_self_contained, join_args, quote_bytes, split_args, unquote};
use crate::diagnostic::{Diagnostic, Sink};
use crate::graph::Element;
use crate::program::{Body, BodyId, Program, Slot, SlotKind, TOP, Type, TypeId, Wire};
use crate::source::{SourceMap, Span};
use crate::template::{self, Template, Use};
use crate::text::Text;
use crate::variables::{Scope, expand};

/// Compounds are expanded inside each other this deep at most.
const MAX_DEPTH: usize = 128;
/// A graph has at most this many nodes, among them three for each compound. A million elements fit if a compound has three or more.
const MAX_NODES: usize = 1 << 21;
/// Bytes of text that expansion may produce, in addition to a multiple of the source's own length.
const TEXT_BUDGET: usize = 16 << 20;

/// A node of the graph under construction.
pub(crate) struct Node {
    pub(crate) slot: Slot,
    /// What arrives here goes on from that node: this one is an end of a tunnel.
    pub(crate) leads_to: Option<usize>,
    /// How messages call this compound or group, if it's one.
    pub(crate) tunnel_name: Text,
}

/// The expanded but not yet spliced graph.
#[derive(Default)]
pub(crate) struct Flat {
    pub(crate) nodes: Vec<Node>,
    pub(crate) wires: Vec<Wire>,
}

/// Expands the file's body.
pub(crate) fn expand_all(
    program: &mut Program,
    sink: &mut Sink,
    options: &Options,
    sources: &SourceMap,
    source_bytes: usize,
) -> Flat {
    let mut scope = Scope::default();
    for (name, value) in &options.defines {
        scope.define(name, value);
    }
    for define in &program.bodies[TOP].defines {
        scope.define(&define.name, &define.value);
    }
    let scope = Rc::new(scope);
    let slashes = program.bodies.iter().flat_map(|b| &b.slots).any(|s| s.name.contains('/'));
    let mut expander = Expander {
        program,
        sink,
        options,
        sources,
        flat: Flat::default(),
        names: slashes.then(HashMap::new),
        budget: TEXT_BUDGET + 64 * source_bytes,
        full: false,
    };
    expander.copy_body(TOP, "", &scope);
    for node in 0..expander.flat.nodes.len() {
        expander.expand_node(node, &scope, 0);
    }
    expander.settle();
    let flat = expander.flat;
    for define in &program.bodies[TOP].defines {
        if define.span.file == 0 && !scope.is_used(&define.name) {
            let message = format!("variable '${}' is never used", define.name);
            sink.push(Diagnostic::warning("W0202", message).at(define.span));
        }
    }
    flat
}

struct Expander<'a> {
    program: &'a mut Program,
    sink: &'a mut Sink,
    options: &'a Options,
    sources: &'a SourceMap,
    flat: Flat,
    /// Names so far, kept only if a written name contains a slash: else no two can come out the same.
    names: Option<HashMap<Text, usize>>,
    budget: usize,
    /// A limit was passed and reported: nothing more is expanded.
    full: bool,
}

/// What a compound's type comes to for given ports and arguments.
enum Choice {
    Body(BodyId, Vec<String>),
    Other(TypeId),
    None,
}

impl Expander<'_> {
    /// Reports that a limit is passed, once.
    fn overflow(&mut self, span: Span, what: &str) {
        if !self.full {
            self.full = true;
            self.sink.push(
                Diagnostic::error("E0505", format!("the configuration expands to more than {what}"))
                    .at(span)
                    .label("while this was expanded")
                    .help("look for compounds or variables that multiply each other"),
            );
        }
    }

    fn text(&mut self, text: &str, scope: &Scope, span: Span) -> String {
        match expand(text, scope, &mut self.budget) {
            Ok(text) => text,
            Err(_) => {
                self.overflow(span, "16 MiB of text");
                String::new()
            }
        }
    }

    /// Puts the configurations of primitive elements into a form that can be printed and read back unchanged.
    ///
    /// Values put side by side can make up a new `${x-default}`, which the reader would replace; so it's replaced here.
    /// And they can bring in lone parentheses or quotes, which matter to the parser but not to elements; the arguments
    /// that these stand in are quoted.
    fn settle(&mut self) {
        let nothing = Scope::default();
        for node in 0..self.flat.nodes.len() {
            let slot = &mut self.flat.nodes[node].slot;
            let primitive = matches!(slot.kind, SlotKind::Element(id) if matches!(self.program.types[id], Type::Primitive(_)));
            if !primitive || slot.config.is_empty() {
                continue;
            }
            let span = slot.config_span.unwrap_or(slot.span);
            // Most texts can stand as they are, and stay where they are.
            if !slot.config.contains("${") && is_self_contained(&slot.config) {
                continue;
            }
            let mut config = String::from(std::mem::take(&mut slot.config));
            while !self.full {
                let next =
                    if config.contains("${") { self.text(&config, &nothing, span) } else { config.clone() };
                let next = if is_self_contained(&next) { next } else { contained(&next) };
                if next == config {
                    break;
                }
                config = next;
            }
            self.flat.nodes[node].slot.config = config.into();
        }
    }

    /// Appends copies of a body's slots and wires, with names below `prefix`; returns where they start.
    fn copy_body(&mut self, body: BodyId, prefix: &str, scope: &Rc<Scope>) -> usize {
        let base = self.flat.nodes.len();
        let count = self.program.bodies[body].slots.len();
        if base + count > MAX_NODES {
            self.overflow(self.program.bodies[body].span, &format!("{MAX_NODES} elements"));
            return base;
        }
        for i in 0..count {
            let original = &mut self.program.bodies[body].slots[i];
            // The file's own body is copied once.
            let mut slot = if body == TOP { std::mem::take(original) } else { original.clone() };
            let (mut leads_to, mut tunnel_name) = (None, Text::default());
            match slot.kind {
                SlotKind::Group => {
                    leads_to = Some(base + i + 1);
                    tunnel_name = "<anonymous group>".into();
                }
                // The output end of a group lies two slots behind the group; that of a compound is set by the caller.
                SlotKind::Output if i >= 2 => leads_to = Some(base + i - 2),
                SlotKind::Output | SlotKind::Input => {}
                SlotKind::Element(_) => {
                    if !prefix.is_empty() {
                        slot.name = format!("{prefix}{}", slot.name).into();
                    }
                    if slot.config.contains('$') {
                        slot.config =
                            self.text(&slot.config, scope, slot.config_span.unwrap_or(slot.span)).into();
                    }
                    let before =
                        self.names.as_mut().and_then(|names| names.insert(slot.name.clone(), base + i));
                    if let Some(other) = before {
                        self.redeclared(&slot, other);
                    }
                    match self.budget.checked_sub(slot.name.len() + slot.config.len()) {
                        Some(left) => self.budget = left,
                        None => self.overflow(slot.span, "16 MiB of text"),
                    }
                }
            }
            self.flat.nodes.push(Node { slot, leads_to, tunnel_name });
        }
        if body == TOP {
            self.flat.wires = std::mem::take(&mut self.program.bodies[TOP].wires);
            return base;
        }
        self.flat.wires.extend(self.program.bodies[body].wires.iter().map(|w| Wire {
            from: (w.from.0 + base, w.from.1),
            to: (w.to.0 + base, w.to.1),
            span: w.span,
        }));
        base
    }

    fn redeclared(&mut self, slot: &Slot, other: usize) {
        self.sink.push(
            Diagnostic::error("E0202", format!("redeclaration of element '{}'", slot.name))
                .at(slot.span)
                .label("this is its name once the compound around it is expanded")
                .note(
                    self.flat.nodes[other].slot.span,
                    format!("element '{}' previously declared here", slot.name),
                ),
        );
    }

    /// Replaces a node by the body of its compound class, if it has one.
    fn expand_node(&mut self, node: usize, scope: &Rc<Scope>, depth: usize) {
        let slot = &self.flat.nodes[node].slot;
        let SlotKind::Element(id) = slot.kind else { return };
        let (span, name) = (slot.span, slot.name.clone());
        if self.full {
            return;
        }
        let written = match &self.program.types[id] {
            Type::Compound(first) => Ok(*first),
            Type::Primitive(class) => match self.options.templates.iter().find(|t| t.name == class) {
                Some(template) => Err(*template),
                None => return,
            },
            Type::Broken => return,
        };
        if depth >= MAX_DEPTH {
            self.full = true;
            self.sink.push(
                Diagnostic::error(
                    "E0105",
                    format!("compound elements expand more than {MAX_DEPTH} levels deep"),
                )
                .at(span),
            );
            return;
        }
        let args: Vec<String> = split_args(&slot.config).into_iter().map(|a| a.text).collect();
        let ports = slot.ports;
        let first = match written {
            Ok(first) => first,
            Err(template) => match self.write_body(template, node, &args) {
                Some(body) => return self.instantiate(node, body, Vec::new(), &name, scope, depth),
                None => return self.flat.nodes[node].slot.kind = SlotKind::Group,
            },
        };
        match self.choose(first, ports, &args, span) {
            Choice::Other(id) => {
                self.flat.nodes[node].slot.kind = SlotKind::Element(id);
                self.expand_node(node, scope, depth);
            }
            Choice::None => self.flat.nodes[node].slot.kind = SlotKind::Group,
            Choice::Body(body, values) => self.instantiate(node, body, values, &name, scope, depth),
        }
    }

    /// Has a template write the body for a node, or reports why it won't.
    fn write_body(&mut self, template: Template, node: usize, args: &[String]) -> Option<BodyId> {
        let slot = &self.flat.nodes[node].slot;
        let request = Use { name: &slot.name, args, ports: slot.ports };
        match (template.write)(&request) {
            Ok(text) => {
                let span = slot.span;
                match self.budget.checked_sub(text.len()) {
                    Some(left) => self.budget = left,
                    None => self.overflow(span, "16 MiB of text"),
                }
                template::body(self.program, self.sink, self.options, template.name, &text, span)
            }
            Err(faults) => {
                for fault in faults {
                    self.sink.push(fault.diagnostic(template.name, slot, self.sources));
                }
                None
            }
        }
    }

    fn instantiate(
        &mut self,
        node: usize,
        body: BodyId,
        values: Vec<String>,
        name: &Text,
        scope: &Rc<Scope>,
        depth: usize,
    ) {
        let inner = self.inner_scope(body, values, scope);
        let base = self.copy_body(body, &format!("{name}/"), &inner);
        if self.full {
            return;
        }
        let end = self.flat.nodes.len();
        self.flat.nodes[node].slot.kind = SlotKind::Group;
        self.flat.nodes[node].leads_to = Some(base);
        self.flat.nodes[node].tunnel_name = name.clone();
        self.flat.nodes[base + 1].leads_to = Some(node);
        for inside in base + 2..end {
            self.expand_node(inside, &inner, depth + 1);
        }
        let body = &mut self.program.bodies[body];
        body.expanded = true;
        for parameter in &mut body.parameters {
            parameter.used |= inner.is_used(&parameter.name);
        }
    }

    /// The scope in which a body is expanded: below the one its class was written in, not the one it's used in.
    fn inner_scope(&mut self, body: BodyId, values: Vec<String>, scope: &Rc<Scope>) -> Rc<Scope> {
        let outer = Scope::at_depth(scope, self.program.bodies[body].depth.saturating_sub(1));
        let mut inner = Scope::inside(&outer);
        for (parameter, value) in self.program.bodies[body].parameters.iter().zip(values) {
            inner.define(&parameter.name, &value);
        }
        for i in 0..self.program.bodies[body].defines.len() {
            let define = &self.program.bodies[body].defines[i];
            let (name, value, span) = (define.name.clone(), define.value.clone(), define.span);
            let value = self.text(&value, &inner, span);
            inner.define(&name, &value);
        }
        Rc::new(inner)
    }

    /// The overload that fits: the first with these ports and parameters. If there's but one class and only its ports
    /// differ, it's taken all the same: the messages about its ports tell more.
    fn choose(&mut self, first: BodyId, ports: [u32; 2], args: &[String], span: Span) -> Choice {
        let mut candidates: Vec<BodyId> = Vec::new();
        let mut closest = None;
        let mut next = Some(first);
        while let Some(id) = next {
            let body = &self.program.bodies[id];
            candidates.push(id);
            let keywords: Vec<&str> = body.parameters.iter().map(|p| p.keyword.as_str()).collect();
            match assign(args, &keywords) {
                Some(values) if body.ports == ports => return Choice::Body(id, values),
                Some(values) => closest = Some((id, values)),
                None => {}
            }
            next = match body.next.map(|t| (t, &self.program.types[t])) {
                Some((_, Type::Compound(body))) => Some(*body),
                Some((t, _)) => return Choice::Other(t),
                None => None,
            };
        }
        match closest {
            Some((id, values)) if candidates.len() == 1 => Choice::Body(id, values),
            _ => {
                self.no_match(&candidates, ports, args.len(), span);
                Choice::None
            }
        }
    }

    fn no_match(&mut self, candidates: &[BodyId], ports: [u32; 2], args: usize, span: Span) {
        let name = &self.program.bodies[candidates[0]].name;
        let wanted = if args > 0 { format!("{}, ", plural(args as u32, "argument")) } else { String::new() };
        let ports = format!("{}, {}", plural(ports[0], "input"), plural(ports[1], "output"));
        let name = if name.is_empty() { "<anonymous>" } else { name };
        let mut diagnostic =
            Diagnostic::error("E0403", format!("no match for '{name}[{wanted}{ports}]'")).at(span);
        if let [only] = candidates {
            diagnostic = diagnostic
                .label(format!("its arguments must be {}", parameters(&self.program.bodies[*only])));
        } else {
            diagnostic = diagnostic.label("no overload has these ports and takes these arguments");
        }
        for &candidate in candidates {
            let body = &self.program.bodies[candidate];
            diagnostic = diagnostic.note(body.span, format!("candidate: {}", signature(body)));
        }
        self.sink.push(diagnostic);
    }
}

fn plural(n: u32, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// A body's parameters, as messages show them.
fn parameters(body: &Body) -> String {
    let list: Vec<String> = body
        .parameters
        .iter()
        .map(|p| match p.keyword.as_str() {
            "" => format!("${}", p.name),
            "__REST__" => "...".into(),
            keyword => format!("{keyword} ${}", p.name),
        })
        .collect();
    format!("({})", list.join(", "))
}

fn signature(body: &Body) -> String {
    let name = if body.name.is_empty() { "<anonymous>" } else { &body.name };
    let parameters = if body.parameters.is_empty() { String::new() } else { parameters(body) };
    format!("{name}{parameters}[{}, {}]", plural(body.ports[0], "input"), plural(body.ports[1], "output"))
}

/// The element that a node becomes; `None` for ends of tunnels and for what was in error.
pub(crate) fn element(program: &Program, slot: Slot) -> Option<Element> {
    let SlotKind::Element(id) = slot.kind else { return None };
    let Type::Primitive(class) = &program.types[id] else { return None };
    Some(Element {
        name: slot.name,
        class: class.clone(),
        config: slot.config,
        span: slot.span,
        class_span: slot.class_span,
        config_span: slot.config_span,
    })
}

/// A configuration with those arguments quoted that couldn't be read back.
fn contained(config: &str) -> String {
    let quoted = |text: String| if is_self_contained(&text) { text } else { quote_bytes(&unquote(&text)) };
    join_args(&split_args(config).into_iter().map(|a| quoted(a.text)).collect::<Vec<_>>())
}
