// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lays connections through the tunnels that expanded compounds and groups left behind.
//!
//! What arrives at port *p* of a tunnel's end goes on along every wire from port *p* of the node it leads to. The ports
//! that each tunnel end reaches are computed once and shared. Circles of tunnels alone carry nothing and are left out.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use crate::diagnostic::{Diagnostic, Sink};
use crate::expand::Flat;
use crate::program::{SlotKind, Wire};
use crate::source::Span;

/// A graph has at most this many connections; the lists kept on the way are bounded by it too.
const MAX_CONNECTIONS: usize = 1 << 21;

type End = (usize, u32);

/// The connections between elements, by node.
pub(crate) fn splice(flat: &Flat, sink: &mut Sink) -> Vec<Wire> {
    let mut splicer = Splicer { flat, onward: HashMap::new(), reached: HashMap::new(), kept: 0 };
    for (i, wire) in flat.wires.iter().enumerate() {
        if !splicer.is_element(wire.from.0) {
            splicer.onward.entry(wire.from).or_default().push(i);
        }
    }
    let mut out: Vec<Wire> = Vec::new();
    for wire in &flat.wires {
        if !splicer.is_element(wire.from.0) {
            continue;
        }
        if splicer.is_element(wire.to.0) {
            out.push(*wire);
        } else {
            let Some(ends) = splicer.reach(wire.to) else {
                too_many(sink, wire.span);
                return Vec::new();
            };
            out.extend(ends.iter().map(|&to| Wire { to, ..*wire }));
        }
        if out.len() > MAX_CONNECTIONS {
            too_many(sink, wire.span);
            return Vec::new();
        }
    }
    out.sort_by_key(|w| (w.from, w.to, w.span.start));
    out.dedup_by_key(|w| (w.from, w.to));
    out
}

fn too_many(sink: &mut Sink, span: Span) {
    let message = format!("the configuration expands to more than {MAX_CONNECTIONS} connections");
    sink.push(Diagnostic::error("E0505", message).at(span));
}

struct Splicer<'a> {
    flat: &'a Flat,
    /// Wires by the tunnel port they start from.
    onward: HashMap<End, Vec<usize>>,
    /// Element ports reached from each tunnel port; empty while it's being computed.
    reached: HashMap<End, Rc<Vec<End>>>,
    kept: usize,
}

impl Splicer<'_> {
    fn is_element(&self, node: usize) -> bool {
        matches!(self.flat.nodes[node].slot.kind, SlotKind::Element(_))
    }

    /// Element ports that an arrival at a tunnel's end reaches, or `None` if there are too many. Tunnels may lead into
    /// tunnels for as long as the configuration likes, so the way is kept on the heap.
    fn reach(&mut self, end: End) -> Option<Rc<Vec<End>>> {
        struct Frame {
            end: End,
            next: usize,
            found: Vec<End>,
        }
        if let Some(known) = self.reached.get(&end) {
            return Some(Rc::clone(known));
        }
        self.reached.insert(end, Rc::default());
        let mut stack = vec![Frame { end, next: 0, found: Vec::new() }];
        while let Some(frame) = stack.last_mut() {
            let from = self.flat.nodes[frame.end.0].leads_to.map(|node| (node, frame.end.1));
            let wires = from.and_then(|from| self.onward.get(&from)).map_or(&[][..], Vec::as_slice);
            if let Some(&wire) = wires.get(frame.next) {
                frame.next += 1;
                let to = self.flat.wires[wire].to;
                if self.is_element(to.0) {
                    stack.last_mut()?.found.push(to);
                } else if let Some(known) = self.reached.get(&to) {
                    let known = Rc::clone(known);
                    stack.last_mut()?.found.extend(known.iter());
                } else {
                    self.reached.insert(to, Rc::default());
                    stack.push(Frame { end: to, next: 0, found: Vec::new() });
                }
                continue;
            }
            let Frame { end, mut found, .. } = stack.pop()?;
            found.sort_unstable();
            found.dedup();
            self.kept += found.len();
            if self.kept > MAX_CONNECTIONS {
                return None;
            }
            let found = Rc::new(found);
            if let Some(parent) = stack.last_mut() {
                parent.found.extend(found.iter());
            }
            self.reached.insert(end, found);
        }
        self.reached.get(&end).cloned()
    }
}

/// Compares what's used of each compound and group outside with what's used inside.
pub(crate) fn check_tunnels(flat: &Flat, sink: &mut Sink) {
    let mut used: HashMap<usize, [BTreeSet<u32>; 2]> = HashMap::new();
    let is_tunnel = |node: usize| !matches!(flat.nodes[node].slot.kind, SlotKind::Element(_));
    for wire in &flat.wires {
        for (side, (node, port)) in [wire.to, wire.from].into_iter().enumerate() {
            if is_tunnel(node) {
                used.entry(node).or_default()[side].insert(port);
            }
        }
    }
    let none = BTreeSet::new();
    let ports = |node: usize, side: usize| used.get(&node).map_or(&none, |sides| &sides[side]);
    for (index, node) in flat.nodes.iter().enumerate() {
        let (Some(inner), false) = (node.leads_to, node.tunnel_name.is_empty()) else { continue };
        let (name, span) = (&node.tunnel_name, node.slot.span);
        // Inputs: arrivals outside against departures inside. Outputs: the other way round, one node further.
        for (what, outside, inside) in
            [("input", ports(index, 0), ports(inner, 1)), ("output", ports(index, 1), ports(inner + 1, 0))]
        {
            if let Some(port) = outside.difference(inside).next() {
                sink.push(
                    Diagnostic::error("E0404", format!("'{name}' has no {what} {port}")).at(span).label(
                        format!(
                            "inside, `{what}` is used with {}",
                            match inside.len() {
                                0 => "no port".into(),
                                1 => "1 port".into(),
                                n => format!("{n} ports"),
                            }
                        ),
                    ),
                );
            }
            if let Some(port) = inside.difference(outside).next() {
                sink.push(
                    Diagnostic::error("E0405", format!("'{name}' {what} {port} unused"))
                        .at(span)
                        .label(format!("nothing is connected to {what} {port}, which is used inside")),
                );
            }
        }
    }
}
