// SPDX-License-Identifier: MIT OR Apache-2.0
//! A body under construction: its elements, their names, and what its pseudo elements are used for.

use std::collections::{BTreeSet, HashMap};

use foldhash::HashMapExt as _;

use crate::diagnostic::{Diagnostic, Sink};
use crate::program::{Body, Slot, SlotKind, Wire};
use crate::source::Span;
use crate::text::Text;

/// Slots by their names.
pub(super) type Names = foldhash::HashMap<Text, usize>;

/// A body under construction.
pub(super) struct Builder {
    pub(super) body: Body,
    pub(super) names: Names,
    /// Slots that `input` and `output` mean, innermost last: the compound's own, then those of open groups.
    pub(super) pseudo: Vec<[usize; 2]>,
    /// Ports in use of each pseudo element, and a place where it's used the wrong way round.
    pub(super) pseudo_use: HashMap<usize, (BTreeSet<u32>, Option<Span>)>,
    /// Slots that exist before the first element is numbered.
    pub(super) first_number: usize,
    /// Undeclared names, and the slots that stand in for them.
    pub(super) undeclared: HashMap<Text, usize>,
    /// Names taken for classes because they look like classes, where first.
    pub(super) guessed: HashMap<Text, Span>,
}

impl Builder {
    pub(super) fn new(name: &str, span: Span, depth: usize) -> Builder {
        let body = Body {
            name: name.to_string(),
            span,
            depth,
            parameters: Vec::new(),
            defines: Vec::new(),
            ports: [0, 0],
            next: None,
            slots: Vec::new(),
            wires: Vec::new(),
            expanded: false,
        };
        let mut builder = Builder {
            body,
            names: Names::new(),
            pseudo: Vec::new(),
            pseudo_use: HashMap::new(),
            first_number: 0,
            undeclared: HashMap::new(),
            guessed: HashMap::new(),
        };
        if depth > 0 {
            let pair = builder.add_pseudo(span);
            builder.pseudo.push(pair);
            builder.first_number = 2;
        }
        builder
    }

    pub(super) fn add(&mut self, name: Text, kind: SlotKind, span: Span) -> usize {
        self.body.slots.push(Slot {
            name,
            kind,
            config: Text::default(),
            span,
            class_span: span,
            config_span: None,
            ports: [0, 0],
            anonymous: false,
        });
        self.body.slots.len() - 1
    }

    pub(super) fn add_pseudo(&mut self, span: Span) -> [usize; 2] {
        let input = self.add("input".into(), SlotKind::Input, span);
        let output = self.add("output".into(), SlotKind::Output, span);
        self.pseudo_use.insert(input, Default::default());
        self.pseudo_use.insert(output, Default::default());
        [input, output]
    }

    pub(super) fn find(&self, name: &str) -> Option<usize> {
        match (name, self.pseudo.last()) {
            ("input", Some(pair)) => Some(pair[0]),
            ("output", Some(pair)) => Some(pair[1]),
            _ => self.names.get(name).copied(),
        }
    }

    pub(super) fn anonymous_name(&self, class: &str) -> String {
        format!("{class}@{}", self.body.slots.len() - self.first_number + 1)
    }

    pub(super) fn connect(&mut self, from: (usize, u32), to: (usize, u32), span: Span) {
        for (slot, port, side) in [(to.0, to.1, 0), (from.0, from.1, 1)] {
            let used = &mut self.body.slots[slot].ports[side];
            *used = (*used).max(port.saturating_add(1));
            let Some((ports, misuse)) = self.pseudo_use.get_mut(&slot) else { continue };
            let right_side = if self.body.slots[slot].kind == SlotKind::Input { 1 } else { 0 };
            if side == right_side {
                ports.insert(port);
            } else {
                misuse.get_or_insert(span);
            }
        }
        self.body.wires.push(Wire { from, to, span });
    }
}

/// The name for an anonymous element: the one made up for it, with a higher number if that's taken.
pub(super) fn free_name(taken: &Names, name: &Text) -> Text {
    if !taken.contains_key(name) {
        return name.clone();
    }
    let (prefix, number) = name.rsplit_once('@').unwrap_or((name.as_str(), "0"));
    let mut number: usize = number.parse().unwrap_or(0);
    loop {
        number += 1;
        let name = format!("{prefix}@{number}");
        if !taken.contains_key(name.as_str()) {
            return name.into();
        }
    }
}

/// Checks that `input` and `output` are used on their inner sides only, with no port left out.
pub(super) fn check_pseudo(sink: &mut Sink, builder: &Builder, pair: [usize; 2], name: &str, span: Span) {
    for (k, slot) in pair.into_iter().enumerate() {
        let (me, other) = if k == 0 { ("input", "output") } else { ("output", "input") };
        let Some((ports, misuse)) = builder.pseudo_use.get(&slot) else { continue };
        if let Some(place) = misuse {
            sink.push(
                Diagnostic::error(
                    "E0401",
                    format!("'{name}' pseudoelement '{me}' may only be used as {other}"),
                )
                .at(*place)
                .label(format!("`{me}` cannot stand on this side of an arrow")),
            );
        }
        let mut expected = 0;
        for &port in ports {
            if port > expected {
                let missing = if port == expected + 1 {
                    expected.to_string()
                } else {
                    format!("{expected}-{}", port - 1)
                };
                sink.push(
                    Diagnostic::error("E0402", format!("'{name}' {me} {missing} missing"))
                        .at(span)
                        .label(format!("{me} {port} is used, so those below it must be too")),
                );
            }
            expected = port + 1;
        }
    }
}
