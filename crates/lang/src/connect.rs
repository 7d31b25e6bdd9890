// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which ports an arrow joins.
//!
//! Each side of an arrow is a list of elements with port lists. If one side names a single port, it's joined to every port
//! of the other (fan in, fan out). Two lists are joined in pairs and need `=>`. One port list of an arrow may be
//! expandable (`[]`, `[3-]`, or with `=>` a lone element without ports): it takes as many ports as the other side has.

use crate::diagnostic::Diagnostic;
use crate::source::Span;

/// A slot and a port of it.
pub(crate) type Port = (usize, u32);

/// An element at one side of an arrow.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) slot: usize,
    /// Empty if no ports are written.
    pub(crate) ports: Vec<u32>,
    pub(crate) expandable: bool,
    pub(crate) span: Span,
}

impl End {
    fn port_count(&self) -> usize {
        self.ports.len().max(1)
    }

    /// The ports, `extra` of them past the list's end.
    fn push_ports(&self, extra: usize, out: &mut Vec<Port>) {
        out.extend(self.ports.iter().map(|&p| (self.slot, p)));
        if self.ports.is_empty() {
            out.push((self.slot, 0));
        }
        let last = self.ports.last().copied().unwrap_or(0);
        out.extend((1..=extra as u32).map(|i| (self.slot, last.saturating_add(i))));
    }
}

/// The pairs of ports that `outputs -> inputs` joins, and the finding if the arrow is wrong.
pub(crate) fn join(
    outputs: &[End],
    inputs: &[End],
    double: bool,
    arrow: Span,
) -> (Vec<(Port, Port)>, Option<Diagnostic>) {
    let mut problem = None;
    let sides = [inputs, outputs];
    let count = sides.map(|side| side.iter().map(End::port_count).sum::<usize>());
    let expandables = sides.map(|side| side.iter().filter(|e| e.expandable).count());
    let mut expandable = expandables.map(|n| n > 0);
    if expandables[0] + expandables[1] > 1 {
        problem = Some(too_many_expandable(sides, arrow));
        expandable[usize::from(count[0] < count[1])] = false;
    }
    if double {
        for k in 0..2 {
            if count[k] == 1 && count[1 - k] > 1 && sides[k][0].ports.is_empty() {
                expandable[k] = true;
            }
        }
    }
    let many = [0, 1].map(|k| count[k] > 1 || expandable[k]);
    if many[0] && many[1] {
        problem = problem.or_else(|| many_to_many(sides, count, expandable, double, arrow));
    }
    let mut lists = [Vec::new(), Vec::new()];
    for k in 0..2 {
        let mut extra = if expandable[k] { count[1 - k].saturating_sub(count[k]) } else { 0 };
        for end in sides[k] {
            let takes = end.expandable || (end.ports.is_empty() && count[k] == 1);
            end.push_ports(if takes { std::mem::take(&mut extra) } else { 0 }, &mut lists[k]);
        }
    }
    let [inputs, outputs] = lists;
    let pairs = match many {
        [true, true] => outputs.into_iter().zip(inputs).collect(),
        [true, false] => inputs.into_iter().map(|to| (outputs[0], to)).collect(),
        _ => outputs.into_iter().map(|from| (from, inputs[0])).collect(),
    };
    (pairs, problem)
}

fn too_many_expandable(sides: [&[End]; 2], arrow: Span) -> Diagnostic {
    let mut diagnostic = Diagnostic::error("E0303", "at most one expandable port allowed per connection")
        .at(arrow)
        .help("write out the ports of one list");
    for end in sides.into_iter().rev().flatten().filter(|e| e.expandable) {
        diagnostic = diagnostic.note(end.span, "expandable ports here");
    }
    diagnostic
}

fn many_to_many(
    sides: [&[End]; 2],
    count: [usize; 2],
    expandable: [bool; 2],
    double: bool,
    arrow: Span,
) -> Option<Diagnostic> {
    let [inputs, outputs] = count;
    let plural = |n: usize, what: &str| if n == 1 { format!("{n} {what}") } else { format!("{n} {what}s") };
    if !double {
        return Some(
            Diagnostic::error("E0301", "syntax error: many-to-many connections require '=>'")
                .at(arrow)
                .label(format!(
                    "{} on the left, {} on the right",
                    plural(outputs, "port"),
                    plural(inputs, "port")
                ))
                .help("`=>` joins them in pairs; to join all with all, write one chain for each"),
        );
    }
    let text = if !expandable[0] && !expandable[1] && inputs != outputs {
        format!("{outputs} outputs connected to {inputs} inputs")
    } else if !expandable[0] && inputs < outputs {
        format!("{outputs} or more outputs connected to {inputs} inputs")
    } else if !expandable[1] && outputs < inputs {
        format!("{outputs} outputs connected to {inputs} or more inputs")
    } else {
        return None;
    };
    let span = |side: &[End]| side.iter().map(|e| e.span).reduce(Span::to);
    Some(
        Diagnostic::error("E0302", format!("connection mismatch: {text}"))
            .at(arrow)
            .note(span(sides[1]), format!("{} here", plural(outputs, "output")))
            .note(span(sides[0]), format!("{} here", plural(inputs, "input"))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Span = Span { file: 0, start: 0, end: 0 };

    /// `"a[0,1] b"` reads as two elements; a trailing `-` in brackets is an expandable list.
    fn ends(text: &str) -> Vec<End> {
        let names = "abcdefgh";
        text.split(' ')
            .map(|word| {
                let (name, ports) = word.split_once('[').unwrap_or((word, ""));
                let ports = ports.trim_end_matches(']');
                let expandable = ports.ends_with('-');
                let ports = ports.trim_end_matches('-');
                End {
                    slot: names.find(name).unwrap(),
                    ports: ports.split(',').filter_map(|p| p.parse().ok()).collect(),
                    expandable,
                    span: AT,
                }
            })
            .collect()
    }

    fn check(left: &str, arrow: &str, right: &str, want: &str) {
        let (pairs, problem) = join(&ends(left), &ends(right), arrow == "=>", AT);
        let names: Vec<char> = "abcdefgh".chars().collect();
        let mut got: Vec<String> =
            pairs.iter().map(|&((f, p), (t, q))| format!("{}{p}-{q}{}", names[f], names[t])).collect();
        got.extend(problem.map(|p| p.code.to_string()));
        assert_eq!(got.join(" "), want, "{left} {arrow} {right}");
    }

    #[test]
    fn joins_ports() {
        check("a", "->", "b", "a0-0b");
        check("a[1]", "->", "b[2]", "a1-2b");
        check("a", "->", "b c", "a0-0b a0-0c");
        check("a b", "->", "c", "a0-0c b0-0c");
        check("a[0,2]", "->", "c", "a0-0c a2-0c");
        check("a", "->", "c[0,1]", "a0-0c a0-1c");
        check("a[0,1]", "=>", "b c", "a0-0b a1-0c");
        check("a b", "=>", "c[3,4]", "a0-3c b0-4c");
        check("a", "=>", "b c", "a0-0b a1-0c");
        check("a b", "=>", "c", "a0-0c b0-1c");
        check("a", "=>", "b", "a0-0b");
        check("a[1]", "=>", "b c", "a1-0b a1-0c");
    }

    #[test]
    fn expandable_ports_take_what_the_other_side_has() {
        check("a[0-]", "=>", "b c d", "a0-0b a1-0c a2-0d");
        check("a[1-]", "=>", "b c", "a1-0b a2-0c");
        check("a[0-]", "->", "b", "a0-0b");
        check("a b c", "=>", "d e[0-]", "a0-0d b0-0e c0-1e");
        check("a b c", "=>", "d[5,7-] e", "a0-5d b0-7d c0-0e");
        check("a[3]", "->", "b[0-]", "a3-0b");
    }

    #[test]
    fn mistakes() {
        check("a b", "->", "c d", "a0-0c b0-0d E0301");
        check("a b", "=>", "c d e", "a0-0c b0-0d E0302");
        check("a b c", "=>", "d e", "a0-0d b0-0e E0302");
        check("a[0-] b", "=>", "c", "a0-0c b0-1c");
        check("a[0-]", "=>", "b[0-]", "a0-0b E0303");
        check("a[0-] b[0-]", "=>", "c d e", "a0-0c a1-0d b0-0e E0303");
        check("a[0,1-]", "=>", "b", "a0-0b a1-1b");
    }
}
