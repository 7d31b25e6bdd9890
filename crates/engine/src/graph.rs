// SPDX-License-Identifier: MIT OR Apache-2.0
//! The check of a flat graph against the element classes: classes exist, port numbers are allowed, push meets push
//! and pull meets pull, and every port is connected as often as it may be. All errors are gathered.

use lang::{Diagnostic, Graph};

use std::collections::HashMap;
use std::sync::Arc;

use element::ports::{PortCounts, Processing, flows_from, flows_to, processing};
use element::{Class, ElementId, IndexVec, Registry};

mod circles;
use element::wiring::{End, Ports, Side, Wiring};

/// Passes over all connections before the rest goes port by port.
const PASSES: usize = 8;

/// Errors of one kind that are reported of one element.
const MOST: usize = 10;

/// A checked graph.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) classes: IndexVec<ElementId, &'static Class>,
    /// Per element, per port: how it works and what is connected to it.
    pub(crate) wiring: Arc<Wiring>,
}

impl Checked {
    /// The inputs of an element.
    pub(crate) fn inputs(&self, element: ElementId) -> Ports<'_> {
        self.wiring.inputs.of(element)
    }

    /// The outputs of an element.
    pub(crate) fn outputs(&self, element: ElementId) -> Ports<'_> {
        self.wiring.outputs.of(element)
    }
}

/// Checks `graph`.
pub(crate) fn check(graph: &Graph, registry: &Registry) -> Result<Checked, Vec<Diagnostic>> {
    let mut errors = Vec::new();
    let known = find_classes(graph, registry, &mut errors);
    let mut used = used_ports(graph);
    check_counts(graph, &known, &mut used, &mut errors);
    check_sole(graph, &known, &mut errors);
    let Some(classes) = known.into_iter().collect::<Option<Vec<_>>>().map(IndexVec::from) else {
        return Err(errors);
    };
    let mut wiring = connect(graph, &used);
    resolve(graph, &classes, &mut wiring);
    report_conflicts(graph, &classes, &wiring, &mut errors);
    // What nobody decided is push, as in Click.
    for side in [&mut wiring.inputs, &mut wiring.outputs] {
        for port in side.all_processing_mut().iter_mut().filter(|p| **p == Processing::Agnostic) {
            *port = Processing::Push;
        }
    }
    let checked = Checked { classes, wiring: Arc::new(wiring) };
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
) -> IndexVec<ElementId, Option<&'static Class>> {
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

/// Reports elements whose first argument names what another element of their class has ([`Class::sole`]).
fn check_sole(
    graph: &Graph,
    classes: &IndexVec<ElementId, Option<&'static Class>>,
    errors: &mut Vec<Diagnostic>,
) {
    let mut owners: HashMap<(&str, String), &lang::Element> = HashMap::new();
    for (element, class) in graph.elements.iter().zip(classes) {
        let Some((class, what)) = class.and_then(|class| Some((class, class.sole?))) else { continue };
        let arguments = lang::config::split_args(&element.config);
        let Some(name) = arguments.first().map(|first| lang::config::unquote_string(&first.text)) else {
            continue;
        };
        let owner = *owners.entry((class.name, name.clone())).or_insert(element);
        if !std::ptr::eq(owner, element) {
            let text = format!("'{}' and '{}' both name the {what} '{name}'", owner.name, element.name);
            errors.push(
                Diagnostic::error("E0208", text)
                    .at(element.span)
                    .label(format!("'{}' has it already", owner.name))
                    .help(format!(
                        "a {what} serves one {} alone: give this one another, or join the two",
                        class.name
                    )),
            );
        }
    }
}

/// The ports in use of each element, inputs and outputs: one more than the highest.
struct Used {
    inputs: IndexVec<ElementId, usize>,
    outputs: IndexVec<ElementId, usize>,
}

fn used_ports(graph: &Graph) -> Used {
    let none = IndexVec::filled(0, graph.elements.len());
    let mut used = Used { inputs: none.clone(), outputs: none };
    for (from, to) in links(graph) {
        let (outputs, inputs) = (&mut used.outputs[from.element], &mut used.inputs[to.element]);
        *outputs = (*outputs).max(from.port + 1);
        *inputs = (*inputs).max(to.port + 1);
    }
    used
}

/// All connections: from an output to an input.
fn links(graph: &Graph) -> impl Iterator<Item = (End, End)> + Clone {
    graph.connections.iter().map(|c| (c.from.into(), c.to.into()))
}

fn connect(graph: &Graph, used: &Used) -> Wiring {
    Wiring {
        inputs: Side::new(&used.inputs, links(graph).map(|(from, to)| (to, from))),
        outputs: Side::new(&used.outputs, links(graph)),
    }
}

/// Reports ports that a class does not have, and adds those that must be there but are not used: left unconnected, reported below.
fn check_counts(
    graph: &Graph,
    classes: &IndexVec<ElementId, Option<&'static Class>>,
    all: &mut Used,
    errors: &mut Vec<Diagnostic>,
) {
    for (element, (i, class)) in graph.elements.iter().zip(classes.iter_enumerated()) {
        let Some(class) = class else { continue };
        let Some(counts) = PortCounts::parse(class.ports) else { continue };
        let used = (all.inputs[i], all.outputs[i]);
        let allowed = counts.nearest(used.0, used.1);
        let mut report = |what: &str, used: usize, describe: String| {
            errors.push(
                Diagnostic::error("E0202", format!("'{}' has no {what} {}", element.name, used - 1))
                    .at(element.span)
                    .label(format!("{} has {describe}", class.name)),
            );
        };
        if used.0 > allowed.0 {
            report("input", used.0, counts.describe_inputs());
        }
        if used.1 > allowed.1 {
            report("output", used.1, counts.describe_outputs());
        }
        all.inputs[i] = allowed.0.max(used.0);
        all.outputs[i] = allowed.1.max(used.1);
    }
}

/// Resolves agnostic ports: a port takes the processing of what it is connected to, and of the ports of its own
/// element that packets flow to or from.
fn resolve(graph: &Graph, classes: &IndexVec<ElementId, &'static Class>, wiring: &mut Wiring) {
    for (i, class) in classes.iter_enumerated() {
        for (p, port) in wiring.inputs.processing_mut(i).iter_mut().enumerate() {
            *port = processing(class.processing, false, p);
        }
        for (p, port) in wiring.outputs.processing_mut(i).iter_mut().enumerate() {
            *port = processing(class.processing, true, p);
        }
    }
    // Most configurations are resolved when all connections have been looked at in order a few times.
    for _ in 0..PASSES {
        let mut changed = false;
        for (from, to) in links(graph) {
            changed |= join(wiring, from, to);
        }
        for (i, class) in classes.iter_enumerated() {
            changed |= flow(class, wiring, i);
        }
        if !changed {
            return;
        }
    }
    // What is left goes from port to port, or a chain against the order of its elements would take as many passes as it is long.
    Spreading::new(classes, wiring).run(wiring);
}

/// Gives both ends of a connection the processing of the other, if they have none; returns whether one had.
fn join(wiring: &mut Wiring, from: End, to: End) -> bool {
    let (a, b) = (wiring.outputs.processing(from), wiring.inputs.processing(to));
    let (Some(a), Some(b)) = (a, b) else { return false };
    set(&mut wiring.outputs, from, b) | set(&mut wiring.inputs, to, a)
}

/// Gives a port without processing this one; returns whether it changed.
fn set(side: &mut Side, end: End, to: Processing) -> bool {
    let port = &mut side.processing_mut(end.element)[end.port];
    let change = *port == Processing::Agnostic && to != Processing::Agnostic;
    if change {
        *port = to;
    }
    change
}

/// Whether packets may pass through a port either way.
fn is_agnostic(class: &Class, is_output: bool, port: usize) -> bool {
    processing(class.processing, is_output, port) == Processing::Agnostic
}

/// Lets the ports of an element decide each other along its flow; returns whether one changed.
fn flow(class: &Class, wiring: &mut Wiring, e: ElementId) -> bool {
    let (inputs, outputs) = (wiring.inputs.of(e).len(), wiring.outputs.of(e).len());
    let mut changed = false;
    for input in (0..inputs).filter(|p| is_agnostic(class, false, *p)) {
        // Where everything flows everywhere, what is decided already need not be compared port by port.
        let decided = |side: &Side| !side.of(e).processing().contains(&Processing::Agnostic);
        if decided(&wiring.inputs) && decided(&wiring.outputs) {
            break;
        }
        for output in flows_to(class.flow, input, outputs) {
            if is_agnostic(class, true, output) {
                let a = wiring.inputs.processing_mut(e)[input];
                let b = wiring.outputs.processing_mut(e)[output];
                let ends = [output, input].map(|port| End { element: e, port });
                changed |= set(&mut wiring.outputs, ends[0], a) | set(&mut wiring.inputs, ends[1], b);
            }
        }
    }
    changed
}

/// Processing on its way from port to port.
struct Spreading<'a> {
    classes: &'a IndexVec<ElementId, &'static Class>,
    /// Decided ports whose neighbours have not been looked at: whether it is an output, and which.
    todo: Vec<(bool, End)>,
    /// Elements whose inputs, and whose outputs, have decided all ports across from them.
    passed: [IndexVec<ElementId, bool>; 2],
}

impl<'a> Spreading<'a> {
    fn new(classes: &'a IndexVec<ElementId, &'static Class>, wiring: &Wiring) -> Spreading<'a> {
        let mut todo = Vec::new();
        for (is_output, side) in [(false, &wiring.inputs), (true, &wiring.outputs)] {
            for (element, ports) in side.each() {
                let decided = ports.iter().enumerate().filter(|(_, p)| p.processing != Processing::Agnostic);
                todo.extend(decided.map(|(port, _)| (is_output, End { element, port })));
            }
        }
        let none = IndexVec::filled(false, classes.len());
        Spreading { classes, todo, passed: [none.clone(), none] }
    }

    fn run(&mut self, wiring: &mut Wiring) {
        while let Some((is_output, here)) = self.todo.pop() {
            let (own, other) = match is_output {
                true => (&mut wiring.outputs, &mut wiring.inputs),
                false => (&mut wiring.inputs, &mut wiring.outputs),
            };
            let Some(port) = own.of(here.element).get(here.port) else { continue };
            for peer in port.peers {
                if set(other, *peer, port.processing) {
                    self.todo.push((!is_output, *peer));
                }
            }
            let class = self.classes[here.element];
            let passed = std::mem::replace(
                &mut self.passed[usize::from(is_output)][here.element],
                class.flow == "x/x",
            );
            if passed || !is_agnostic(class, is_output, here.port) {
                continue;
            }
            for port_across in across(class, is_output, here.port, other.of(here.element).len()) {
                let across = End { port: port_across, ..here };
                if is_agnostic(class, !is_output, across.port) && set(other, across, port.processing) {
                    self.todo.push((!is_output, across));
                }
            }
        }
    }
}

/// The ports of the other side, of `n`, that packets flow to or from.
fn across(class: &Class, is_output: bool, port: usize, n: usize) -> impl Iterator<Item = usize> {
    let (to, from) = match is_output {
        false => (Some(flows_to(class.flow, port, n)), None),
        true => (None, Some(flows_from(class.flow, port, n))),
    };
    to.into_iter().flatten().chain(from.into_iter().flatten())
}

fn report_conflicts(
    graph: &Graph,
    classes: &IndexVec<ElementId, &'static Class>,
    wiring: &Wiring,
    errors: &mut Vec<Diagnostic>,
) {
    for c in &graph.connections {
        let from = wiring.outputs.processing(c.from.into());
        let to = wiring.inputs.processing(c.to.into());
        let (Some(from), Some(to)) = (from, to) else { continue };
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
    for (i, class) in classes.iter_enumerated() {
        report_internal_conflicts(
            &graph.elements[i.index()],
            class,
            (wiring.inputs.of(i), wiring.outputs.of(i)),
            errors,
        );
    }
}

/// An agnostic path through an element whose ends were decided differently.
fn report_internal_conflicts(
    element: &lang::Element,
    class: &Class,
    (inputs, outputs): (Ports<'_>, Ports<'_>),
    errors: &mut Vec<Diagnostic>,
) {
    let mut all = inputs.processing().iter().chain(outputs.processing());
    let first = all.next();
    if all.all(|p| Some(p) == first) {
        return;
    }
    let agnostic = (0..inputs.len()).filter(|p| is_agnostic(class, false, *p));
    let pairs = agnostic.flat_map(|input| {
        let outputs = flows_to(class.flow, input, outputs.len());
        outputs.filter(|output| is_agnostic(class, true, *output)).map(move |output| (input, output))
    });
    let differ = pairs.filter(|(i, o)| inputs.processing()[*i] != outputs.processing()[*o]);
    for (input, output) in differ.take(MOST) {
        let (name, a, b) = (&element.name, inputs.processing()[input], outputs.processing()[output]);
        errors.push(
            Diagnostic::error(
                "E0204",
                format!("agnostic '{name}' in mixed context: input {input} is {a}, output {output} is {b}"),
            )
            .at(element.span)
            .label("one path through this element is both push and pull")
            .help("put a Queue (push to pull) or an Unqueue (pull to push) before or behind it"),
        );
    }
}

fn check_connected(graph: &Graph, checked: &Checked, errors: &mut Vec<Diagnostic>) {
    for (element, i) in graph.elements.iter().zip(checked.classes.ids()) {
        let sides = [(checked.inputs(i), false), (checked.outputs(i), true)];
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
