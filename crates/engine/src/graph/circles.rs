// SPDX-License-Identifier: MIT OR Apache-2.0
//! Circles in which a packet would be pushed round for ever.
//!
//! A circle of push connections is an error if every element on it surely forwards: it sends each packet to the next one, and asks
//! nothing of the packet ([`Class::forwards`](element::Class::forwards)). The first packet that entered would never leave, and its worker would never
//! do anything else. A circle is allowed if one element on it may end a packet, keep it, or send it another way: a queue ends the push,
//! DecIPTTL ends what has gone round too often, and a Classifier may let packets out. So the circle from a routing table by way of
//! ICMPError back to it, as in every IP router, is allowed.

use lang::{Diagnostic, Graph};

use super::{Checked, End};
use element::ports::{Processing, flows};
use element::{ElementId, IndexVec};

/// Circles that are reported.
const MOST: usize = 10;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Not,
    /// On the way that is being followed.
    OnWay,
    Done,
}

/// An input of an element, and the next of its ways onward to look at.
struct Step {
    element: ElementId,
    input: usize,
    next: usize,
}

struct Search<'a> {
    checked: &'a Checked,
    /// Of each element, where its inputs lie in `seen`.
    base: IndexVec<ElementId, usize>,
    seen: Vec<Seen>,
}

/// Reports circles in which every element surely forwards.
pub(super) fn check(graph: &Graph, checked: &Checked, errors: &mut Vec<Diagnostic>) {
    let mut base = IndexVec::with_capacity(checked.classes.len());
    let mut inputs = 0;
    for (_, ports) in checked.wiring.inputs.each() {
        base.push(inputs);
        inputs += ports.len();
    }
    let mut search = Search { checked, base, seen: vec![Seen::Not; inputs] };
    let mut found = 0;
    for element in checked.classes.ids() {
        for input in 0..checked.inputs(element).len() {
            if let Some(circle) = search.from(element, input).filter(|_| found < MOST) {
                found += 1;
                errors.push(describe(graph, &circle));
            }
        }
    }
}

impl Search<'_> {
    fn place(&self, element: ElementId, input: usize) -> usize {
        self.base[element] + input
    }

    /// Whether what is pushed into this input surely goes on.
    fn forwards(&self, element: ElementId, input: usize) -> bool {
        self.checked.classes[element].forwards
            && self.checked.inputs(element).processing()[input] == Processing::Push
    }

    /// The elements of the first circle that is met from here, if there is one.
    fn from(&mut self, element: ElementId, input: usize) -> Option<Vec<ElementId>> {
        let mut circle = None;
        let mut way = Vec::new();
        self.enter(element, input, &mut way);
        while let Some(step) = way.last_mut() {
            let (element, input, output) = (step.element, step.input, step.next);
            step.next += 1;
            let Some(port) = self.checked.outputs(element).get(output) else {
                let at = self.place(element, input);
                self.seen[at] = Seen::Done;
                way.pop();
                continue;
            };
            let follows = flows(self.checked.classes[element].flow, input, output);
            let Some(End { element: to, port: at }) = port.peers.first().copied().filter(|_| follows) else {
                continue;
            };
            if self.seen[self.place(to, at)] == Seen::OnWay {
                let first = way.iter().position(|s| (s.element, s.input) == (to, at)).unwrap_or(0);
                circle.get_or_insert_with(|| way[first..].iter().map(|s| s.element).collect());
            }
            self.enter(to, at, &mut way);
        }
        circle
    }

    /// Goes on into an input that nobody has been at, if what comes in surely goes on.
    fn enter(&mut self, element: ElementId, input: usize, way: &mut Vec<Step>) {
        let at = self.place(element, input);
        if self.seen[at] == Seen::Not && self.forwards(element, input) {
            self.seen[at] = Seen::OnWay;
            way.push(Step { element, input, next: 0 });
        }
    }
}

fn describe(graph: &Graph, circle: &[ElementId]) -> Diagnostic {
    let name = |e: &ElementId| format!("'{}'", graph.elements[e.index()].name);
    let mut names: Vec<String> = circle.iter().take(8).map(name).collect();
    if circle.len() > names.len() {
        names.push(format!("{} more", circle.len() - names.len()));
    }
    names.extend(circle.first().map(name));
    let first = circle.first().map_or(0, |e| e.index());
    Diagnostic::error("E0207", format!("packets would go round for ever: {}", names.join(" -> ")))
        .at(graph.elements[first].span)
        .label("no element of this circle ends a packet or lets it out")
        .help("open the circle, or put a Queue with an Unqueue into it, or an element that lets packets out such as DecIPTTL")
}
