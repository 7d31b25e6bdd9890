// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checking a configuration: against the element classes, and the arguments of each element. Nothing is opened.

use lang::{Diagnostic, Graph};
use sync::heap::in_lines;

use crate::fuse::{self, FusedChain};
use crate::graph::{self, Checked};
use crate::plan::How;
use crate::ports::port_table;
use element::args::{Args, Names};
use element::ports::Processing;
use element::{Element, ElementId, IndexVec, Registry, Sharing, first_ids};

/// A configuration that has been checked against the classes, with its placement if it can be known without opening
/// devices.
pub struct Check {
    /// What will probably not do what it was meant to.
    pub warnings: Vec<Diagnostic>,
    pub(crate) checked: Checked,
    pub(crate) primaries: IndexVec<ElementId, Box<dyn Element>>,
}

impl Check {
    /// The chains of elements that will run as one pass wherever the workers that reach them each have their own instances.
    pub fn fused(&self, registry: &Registry) -> Vec<FusedChain> {
        let outputs = port_table(&self.checked.wiring.outputs, |_| false);
        let at = |e: ElementId| -> Option<&dyn Element> {
            let pushed = self.checked.inputs(e).first().is_some_and(|p| p.processing == Processing::Push);
            let how = How::of(&self.checked, e, &*self.primaries[e]);
            let own = how.sharing != Sharing::Serial;
            (pushed && own).then(|| &*self.primaries[e])
        };
        let all = self.primaries.ids();
        let mut row = fuse::Row::default();
        let found = all.filter_map(|e| fuse::find(e, registry, &outputs, &at, &mut row));
        fuse::longest(found.map(|f| f.describe()))
    }
}

/// Checks a configuration: classes, ports, push and pull, and every element's arguments. Opens nothing.
///
/// # Errors
/// All that is wrong.
pub fn check(graph: &Graph, registry: &Registry) -> Result<Check, Vec<Diagnostic>> {
    check_in(graph, registry, sync::rcu::Domain::default())
}

pub(crate) fn check_in(
    graph: &Graph,
    registry: &Registry,
    rcu: sync::rcu::Domain,
) -> Result<Check, Vec<Diagnostic>> {
    let names = Names::gather(graph);
    let checked = match graph::check(graph, registry) {
        Ok(checked) => checked,
        Err(mut errors) => {
            errors.extend(argument_errors(graph, registry, &names));
            return Err(errors);
        }
    };
    let mut found = Vec::new();
    let primaries = first_ids(graph.elements.len())
        .map(|e| configured(graph, &checked, &names, &rcu, e, &mut found))
        .collect();
    if found.iter().any(is_error) { Err(found) } else { Ok(Check { warnings: found, checked, primaries }) }
}

pub(crate) fn is_error(found: &Diagnostic) -> bool {
    found.severity == lang::Severity::Error
}

/// Errors in the arguments of a graph that is wrong otherwise too, so that the user sees all at once.
fn argument_errors(graph: &Graph, registry: &Registry, names: &Names) -> Vec<Diagnostic> {
    let mut ports = vec![(0, 0); graph.elements.len()];
    for c in &graph.connections {
        let inputs = &mut ports[c.to.element].0;
        *inputs = (*inputs).max(c.to.port + 1);
        let outputs = &mut ports[c.from.element].1;
        *outputs = (*outputs).max(c.from.port + 1);
    }
    let known =
        graph.elements.iter().zip(ports).filter_map(|(e, ports)| Some((e, registry.get(&e.class)?, ports)));
    known
        .flat_map(|(element, class, ports)| {
            let names = names.seen_by(&element.name);
            let mut args = Args::new(&element.config, &element.name, ports, &names);
            (class.make)().configure(&mut args);
            args.finish(element, class.secrets)
        })
        .collect()
}

pub(crate) fn configured(
    graph: &Graph,
    checked: &Checked,
    names: &Names,
    rcu: &sync::rcu::Domain,
    e: ElementId,
    found: &mut Vec<Diagnostic>,
) -> Box<dyn Element> {
    let element = &graph.elements[e.index()];
    let (inputs, outputs) = (checked.inputs(e), checked.outputs(e));
    let names = names.seen_by(&element.name);
    let mut args = Args::new(&element.config, &element.name, (inputs.len(), outputs.len()), &names)
        .with_processing(inputs.processing(), outputs.processing())
        .with_rcu(rcu);
    // What one worker's instances write must not share a cache line with what another's read.
    let mut instance = in_lines(checked.classes[e].make);
    sync::lock::naming(&element.name, || in_lines(|| instance.configure(&mut args)));
    found.extend(args.finish(element, checked.classes[e].secrets));
    instance
}
