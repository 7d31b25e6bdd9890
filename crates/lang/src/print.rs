// SPDX-License-Identifier: MIT OR Apache-2.0
//! The flat graph as text that parses back to the same graph.

use std::fmt::Write as _;

use crate::config::quote;
use crate::graph::Graph;

impl Graph {
    /// The graph as a Click configuration without compounds, groups or variables.
    ///
    /// Laid out as Click lays out its `flatconfig`: requirements, declarations in the order of [`Graph::elements`], then
    /// connections in chains as long as they get, each arrow but the first on a line of its own.
    #[must_use]
    pub fn to_click(&self) -> String {
        let mut out = String::new();
        for r in &self.requirements {
            let _ = match r.kind.as_str() {
                "compact_config" => writeln!(out, "require(compact_config);"),
                kind => writeln!(out, "require({kind} {});", word(&r.value)),
            };
        }
        out.push_str(if self.requirements.is_empty() { "" } else { "\n" });
        for e in &self.elements {
            let _ = match e.config.as_str() {
                "" => writeln!(out, "{} :: {};", e.name, e.class),
                config => writeln!(out, "{} :: {}({config});", e.name, e.class),
            };
        }
        out.push_str(if self.elements.is_empty() { "" } else { "\n" });
        self.print_chains(&mut out);
        out
    }

    fn print_chains(&self, out: &mut String) {
        // Connections are sorted by source, so those that leave an element are a run.
        let mut order: Vec<usize> = (0..self.connections.len()).collect();
        order.sort_by_key(|&i| (self.connections[i].from, self.connections[i].to));
        let start_of =
            |element: usize| order.partition_point(|&i| self.connections[i].from.element < element);
        let mut next: Vec<usize> = (0..self.elements.len()).map(start_of).collect();
        let mut printed = vec![false; order.len()];
        let mut has_input = vec![false; self.elements.len()];
        self.connections.iter().for_each(|c| has_input[c.to.element] = true);
        // Chains from sources first, then what only circles reach.
        let source = |&i: &usize| !has_input[self.connections[order[i]].from.element];
        let (sources, others): (Vec<usize>, Vec<usize>) = (0..order.len()).partition(source);
        for position in sources.into_iter().chain(others) {
            if printed[position] {
                continue;
            }
            let (mut at, mut arrow) = (position, " -> ");
            out.push_str(&self.elements[self.connections[order[at]].from.element].name);
            loop {
                printed[at] = true;
                let port = self.connections[order[at]].from.port;
                let to = self.connections[order[at]].to;
                if port != 0 {
                    let _ = write!(out, " [{port}]");
                }
                out.push_str(std::mem::replace(&mut arrow, "\n    -> "));
                if to.port != 0 {
                    let _ = write!(out, "[{}] ", to.port);
                }
                out.push_str(&self.elements[to.element].name);
                let cursor = &mut next[to.element];
                while printed.get(*cursor).is_some_and(|&p| p) {
                    *cursor += 1;
                }
                match order.get(*cursor) {
                    Some(&i) if self.connections[i].from.element == to.element => at = *cursor,
                    _ => break,
                }
            }
            out.push_str(";\n");
        }
    }
}

/// A value as one word, quoted if it must be.
fn word(value: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-' | b'+' | b':');
    if !value.is_empty() && value.bytes().all(plain) { value.to_string() } else { quote(value) }
}
