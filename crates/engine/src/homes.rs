// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wishes for where tasks run: gathered from the elements that make them, checked, and given to the plan.

use std::collections::HashMap;

use lang::{Diagnostic, Graph};

use crate::graph::Checked;
use element::{Element, ElementId, Home, IndexVec, PlacementRules, Tasks, first_ids};

/// By element, workers for its tasks if somebody asked for some.
pub type Wished = IndexVec<ElementId, Option<Vec<usize>>>;

/// The workers that are wished for each element's tasks; where several speak of one, the last.
pub(crate) fn gather(
    graph: &Graph,
    checked: &Checked,
    elements: &IndexVec<ElementId, Box<dyn Element>>,
    tasks: &IndexVec<ElementId, Tasks>,
    workers: usize,
) -> Result<Wished, Vec<Diagnostic>> {
    // Few configurations wish for anything.
    let index = std::cell::LazyCell::new(|| -> HashMap<&str, ElementId> {
        graph
            .elements
            .iter()
            .zip(first_ids(graph.elements.len()))
            .map(|(element, e)| (element.name.as_str(), e))
            .collect()
    });
    let (mut homes, mut errors) = (IndexVec::filled(None, elements.len()), Vec::new());
    for (who, (e, element)) in graph.elements.iter().zip(elements.iter_enumerated()) {
        let rules = checked.classes[e].capability::<dyn PlacementRules>(&**element);
        for home in rules.map_or(Vec::new(), |rules| rules.homes(workers)) {
            let meant = match lookup(&index, &home.element, &who.name) {
                Some(e) => vec![e],
                None => members(graph, &tasks_of(tasks), &home.element, &who.name),
            };
            if meant.is_empty() {
                errors.push(Wrong::NoElement.diagnostic(who, &home.element));
            }
            for e in meant {
                match judge(&home, tasks[e], workers) {
                    Ok(()) if tasks[e] != Tasks::None => homes[e] = Some(home.workers.clone()),
                    Ok(()) => {}
                    Err(why) => errors.push(why.diagnostic(who, &home.element)),
                }
            }
        }
    }
    if errors.is_empty() { Ok(homes) } else { Err(errors) }
}

/// The element that a name means, seen from the element `from`.
pub(crate) fn lookup(index: &HashMap<&str, ElementId>, name: &str, from: &str) -> Option<ElementId> {
    let mut scope = from;
    while let Some((outer, _)) = scope.rsplit_once('/') {
        if let Some(e) = index.get(format!("{outer}/{name}").as_str()) {
            return Some(*e);
        }
        scope = outer;
    }
    index.get(name).copied()
}

/// Which elements have tasks.
fn tasks_of(tasks: &IndexVec<ElementId, Tasks>) -> IndexVec<ElementId, bool> {
    tasks.iter().map(|t| *t != Tasks::None).collect()
}

/// The elements with tasks inside the compound that a name means, seen from the element `from`. A compound none of whose
/// elements has a task is represented by its first element.
fn members(graph: &Graph, has_task: &IndexVec<ElementId, bool>, name: &str, from: &str) -> Vec<ElementId> {
    let mut scope = from;
    loop {
        let outer = scope.rsplit_once('/').map(|(outer, _)| outer);
        let prefix = outer.map_or(format!("{name}/"), |outer| format!("{outer}/{name}/"));
        let inside: Vec<ElementId> =
            has_task.ids().filter(|e| graph.elements[e.index()].name.starts_with(&prefix)).collect();
        if let Some(first) = inside.first() {
            let tasked: Vec<ElementId> = inside.iter().copied().filter(|e| has_task[*e]).collect();
            return if tasked.is_empty() { vec![*first] } else { tasked };
        }
        match outer {
            Some(outer) => scope = outer,
            None => return Vec::new(),
        }
    }
}

/// Why a wish cannot be.
enum Wrong {
    NoElement,
    NoTask,
    TooMany { wished: usize, tasks: usize },
    NoWorker { wished: usize, last: usize },
}

fn judge(home: &Home, tasks: Tasks, workers: usize) -> Result<(), Wrong> {
    let tasks = match tasks {
        Tasks::None if home.strict => return Err(Wrong::NoTask),
        Tasks::None => return Ok(()),
        Tasks::One => 1,
        Tasks::Many(n) => n,
    };
    if home.workers.len() > tasks {
        return Err(Wrong::TooMany { wished: home.workers.len(), tasks });
    }
    match home.workers.iter().find(|w| **w >= workers) {
        Some(wished) => Err(Wrong::NoWorker { wished: *wished, last: workers - 1 }),
        None => Ok(()),
    }
}

impl Wrong {
    fn diagnostic(&self, who: &lang::Element, element: &str) -> Diagnostic {
        let (but, help) = match self {
            Wrong::NoElement => {
                (", and there is no such element".to_owned(), "name an element that has a task")
            }
            Wrong::NoTask => (
                ", which has none".to_owned(),
                "name the element that moves its packets: a source, a device, or an Unqueue",
            ),
            Wrong::TooMany { wished, tasks } => (
                format!(" on {wished} workers, and it has {tasks}"),
                "name no more workers than it has tasks",
            ),
            Wrong::NoWorker { wished, last } => (
                format!(" on worker {wished}, and the last one is {last}"),
                "name another, or give the router more workers (junctor run -j)",
            ),
        };
        let what = format!("'{}' places the task of '{element}'{but}", who.name);
        let error = Diagnostic::error("E0411", what).help(help);
        // What the command line added stands nowhere in the text.
        if who.span.start == who.span.end { error } else { error.at(who.span).label("asked for here") }
    }
}
