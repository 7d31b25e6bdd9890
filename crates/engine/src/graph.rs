// SPDX-License-Identifier: MIT OR Apache-2.0
//! The check of a flat graph against the element classes: classes exist, port numbers are allowed, push meets push
//! and pull meets pull, and every port is connected as often as it may be. All errors are gathered.

use lang::{Diagnostic, Graph};

use crate::element::{Class, Registry};
use crate::ports::{PortCounts, Processing, flows, processing};

mod circles;

/// One end of a connection: element and port.
pub(crate) type End = (usize, usize);

/// A checked graph.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) classes: Vec<&'static Class>,
    /// Per element, per input: how it works and what is connected to it.
    pub(crate) inputs: Vec<Vec<Port>>,
    /// The same for outputs.
    pub(crate) outputs: Vec<Vec<Port>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) processing: Processing,
    pub(crate) peers: Vec<End>,
}

impl Port {
    fn new() -> Port {
        Port { processing: Processing::Agnostic, peers: Vec::new() }
    }
}

/// Checks `graph`.
pub(crate) fn check(graph: &Graph, registry: &Registry) -> Result<Checked, Vec<Diagnostic>> {
    let mut errors = Vec::new();
    let classes = find_classes(graph, registry, &mut errors);
    let (mut inputs, mut outputs) = connect(graph);
    let known: Vec<Option<&'static Class>> = classes;
    check_counts(graph, &known, &mut inputs, &mut outputs, &mut errors);
    let Some(classes) = known.iter().copied().collect::<Option<Vec<_>>>() else { return Err(errors) };
    let mut checked = Checked { classes, inputs, outputs };
    resolve(graph, &mut checked, &mut errors);
    if errors.is_empty() {
        check_connected(graph, &checked, &mut errors);
    }
    if errors.is_empty() {
        circles::check(graph, &checked, &mut errors);
    }
    if errors.is_empty() { Ok(checked) } else { Err(errors) }
}

fn find_classes(
    graph: &Graph,
    registry: &Registry,
    errors: &mut Vec<Diagnostic>,
) -> Vec<Option<&'static Class>> {
    let mut reported = std::collections::HashSet::new();
    let mut find = |element: &lang::Element| {
        let class = registry.get(&element.class);
        if class.is_none() && reported.insert(element.class.clone()) {
            let unknown = |label: &str| {
                Diagnostic::error("E0201", format!("unknown element class '{}'", element.class))
                    .at(element.class_span)
                    .label(label)
            };
            let near = || lang::suggest(&element.class, registry.iter().map(|c| c.name));
            let d = match registry.foreign(&element.class) {
                Some(foreign) => unknown("this class is of Click's kernel module only").help(foreign.instead),
                None => unknown("no such class").help(match near() {
                    Some(near) => format!("did you mean '{near}'?"),
                    None => "'junctor elements' lists the classes there are".to_owned(),
                }),
            };
            errors.push(d);
        }
        class
    };
    graph.elements.iter().map(&mut find).collect()
}

fn connect(graph: &Graph) -> (Vec<Vec<Port>>, Vec<Vec<Port>>) {
    let mut inputs = vec![Vec::new(); graph.elements.len()];
    let mut outputs = inputs.clone();
    let add = |ports: &mut Vec<Port>, port: usize, peer: End| {
        if ports.len() <= port {
            ports.resize(port + 1, Port::new());
        }
        ports[port].peers.push(peer);
    };
    for c in &graph.connections {
        add(&mut outputs[c.from.element], c.from.port, (c.to.element, c.to.port));
        add(&mut inputs[c.to.element], c.to.port, (c.from.element, c.from.port));
    }
    (inputs, outputs)
}

fn check_counts(
    graph: &Graph,
    classes: &[Option<&'static Class>],
    inputs: &mut [Vec<Port>],
    outputs: &mut [Vec<Port>],
    errors: &mut Vec<Diagnostic>,
) {
    for (i, (element, class)) in graph.elements.iter().zip(classes).enumerate() {
        let Some(class) = class else { continue };
        let Some(counts) = PortCounts::parse(class.ports) else { continue };
        let used = (inputs[i].len(), outputs[i].len());
        let allowed = counts.nearest(used.0, used.1);
        let mut report = |what: &str, used: usize, allowed: usize, describe: String| {
            if used > allowed {
                errors.push(
                    Diagnostic::error("E0202", format!("'{}' has no {what} {}", element.name, used - 1))
                        .at(element.span)
                        .label(format!("{} has {describe}", class.name)),
                );
            }
        };
        report("input", used.0, allowed.0, counts.describe_inputs());
        report("output", used.1, allowed.1, counts.describe_outputs());
        // Ports that must be there but are not used: left unconnected, reported below.
        inputs[i].resize(allowed.0.max(used.0), Port::new());
        outputs[i].resize(allowed.1.max(used.1), Port::new());
    }
}

/// Resolves agnostic ports: a port takes the processing of what it is connected to, and of the ports of its own
/// element that packets flow to or from.
fn resolve(graph: &Graph, checked: &mut Checked, errors: &mut Vec<Diagnostic>) {
    for (i, class) in checked.classes.iter().enumerate() {
        for (p, port) in checked.inputs[i].iter_mut().enumerate() {
            port.processing = processing(class.processing, false, p);
        }
        for (p, port) in checked.outputs[i].iter_mut().enumerate() {
            port.processing = processing(class.processing, true, p);
        }
    }
    loop {
        let mut changed = false;
        for c in &graph.connections {
            let (from, to) = ((c.from.element, c.from.port), (c.to.element, c.to.port));
            let (Some(a), Some(b)) = (get(&checked.outputs, from), get(&checked.inputs, to)) else {
                continue;
            };
            changed |= set(&mut checked.outputs, from, b) | set(&mut checked.inputs, to, a);
        }
        for (i, class) in checked.classes.iter().enumerate() {
            for input in 0..checked.inputs[i].len() {
                for output in 0..checked.outputs[i].len() {
                    let agnostic = processing(class.processing, false, input) == Processing::Agnostic
                        && processing(class.processing, true, output) == Processing::Agnostic;
                    if agnostic && flows(class.flow, input, output) {
                        let (a, b) =
                            (checked.inputs[i][input].processing, checked.outputs[i][output].processing);
                        changed |= set(&mut checked.outputs, (i, output), a);
                        changed |= set(&mut checked.inputs, (i, input), b);
                    }
                }
            }
        }
        if !changed {
            break;
        }
    }
    report_conflicts(graph, checked, errors);
    // What nobody decided is push, as in Click.
    for port in checked.inputs.iter_mut().chain(&mut checked.outputs).flatten() {
        if port.processing == Processing::Agnostic {
            port.processing = Processing::Push;
        }
    }
}

fn get(ports: &[Vec<Port>], (element, port): End) -> Option<Processing> {
    Some(ports[element].get(port)?.processing)
}

/// Gives an agnostic port a processing; returns whether it changed.
fn set(ports: &mut [Vec<Port>], (element, port): End, to: Processing) -> bool {
    let port = &mut ports[element][port];
    let change = port.processing == Processing::Agnostic && to != Processing::Agnostic;
    if change {
        port.processing = to;
    }
    change
}

fn report_conflicts(graph: &Graph, checked: &Checked, errors: &mut Vec<Diagnostic>) {
    for c in &graph.connections {
        let (Some(from), Some(to)) = (
            get(&checked.outputs, (c.from.element, c.from.port)),
            get(&checked.inputs, (c.to.element, c.to.port)),
        ) else {
            continue;
        };
        if from == to || from == Processing::Agnostic || to == Processing::Agnostic {
            continue;
        }
        let (a, b) = (&graph.elements[c.from.element], &graph.elements[c.to.element]);
        let mend = match from {
            Processing::Push => "put a Queue between them",
            _ => "put an Unqueue between them",
        };
        errors.push(
            Diagnostic::error(
                "E0203",
                format!(
                    "'{}' {from} output {} is connected to '{}' {to} input {}",
                    a.name, c.from.port, b.name, c.to.port
                ),
            )
            .at(c.span)
            .label(format!("{from} meets {to}"))
            .help(mend),
        );
    }
    report_internal_conflicts(graph, checked, errors);
}

/// An agnostic path through an element whose ends were decided differently.
fn report_internal_conflicts(graph: &Graph, checked: &Checked, errors: &mut Vec<Diagnostic>) {
    for (i, class) in checked.classes.iter().enumerate() {
        let pairs =
            (0..checked.inputs[i].len()).flat_map(|a| (0..checked.outputs[i].len()).map(move |b| (a, b)));
        for (input, output) in pairs {
            let agnostic = processing(class.processing, false, input) == Processing::Agnostic
                && processing(class.processing, true, output) == Processing::Agnostic;
            let (a, b) = (checked.inputs[i][input].processing, checked.outputs[i][output].processing);
            if agnostic && flows(class.flow, input, output) && a != b {
                let name = &graph.elements[i].name;
                errors.push(
                    Diagnostic::error(
                        "E0204",
                        format!(
                            "agnostic '{name}' in mixed context: input {input} is {a}, output {output} is {b}"
                        ),
                    )
                    .at(graph.elements[i].span)
                    .label("one path through this element is both push and pull")
                    .help("put a Queue (push to pull) or an Unqueue (pull to push) before or behind it"),
                );
            }
        }
    }
}

fn check_connected(graph: &Graph, checked: &Checked, errors: &mut Vec<Diagnostic>) {
    for (i, element) in graph.elements.iter().enumerate() {
        let sides = [(&checked.inputs[i], false), (&checked.outputs[i], true)];
        for (ports, is_output) in sides {
            for (p, port) in ports.iter().enumerate() {
                let what = if is_output { "output" } else { "input" };
                // Exactly one who acts: a push output or a pull input acts on one peer.
                let single = (port.processing == Processing::Push) == is_output;
                if port.peers.is_empty() {
                    let d = Diagnostic::error(
                        "E0205",
                        format!("'{}' {} {what} {p} is not connected", element.name, port.processing),
                    )
                    .at(element.span)
                    .label(format!("{what} {p} must be connected"));
                    errors.push(if is_output {
                        d.help(format!("to throw its packets away, write: {}[{p}] -> Discard;", element.name))
                    } else {
                        d.help(format!("to leave it idle, write: Idle -> [{p}]{};", element.name))
                    });
                } else if single && port.peers.len() > 1 {
                    let mend = if is_output {
                        "a Tee copies packets to several"
                    } else {
                        "a scheduler such as RoundRobinSched merges several"
                    };
                    errors.push(
                        Diagnostic::error(
                            "E0206",
                            format!(
                                "'{}' {} {what} {p} is connected {} times",
                                element.name,
                                port.processing,
                                port.peers.len()
                            ),
                        )
                        .at(element.span)
                        .label("may be connected only once")
                        .help(mend),
                    );
                }
            }
        }
    }
}
