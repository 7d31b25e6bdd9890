// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which workers run what: homes for tasks, and from them the workers that reach each element and how its
//! instances share.

use crate::element::{Sharing, Tasks};
use crate::graph::Checked;
use crate::ports::Processing;

/// How an element's instances relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One worker reaches it.
    Single,
    /// Several workers, an independent instance each.
    PerCore,
    /// Several workers, an instance each over common state.
    Shared,
    /// Several workers, one instance behind a lock.
    Locked,
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Mode::Single => "single",
            Mode::PerCore => "per core",
            Mode::Shared => "shared",
            Mode::Locked => "locked",
        })
    }
}

/// The plan for one element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Workers with an instance, ascending; never empty.
    pub workers: Vec<usize>,
    /// How they share.
    pub mode: Mode,
    /// Workers that run the element's tasks: task `i` on `tasks[i]`.
    pub tasks: Vec<usize>,
    /// Workers that are woken when others leave packets here.
    pub drained_by: Vec<usize>,
}

impl Place {
    /// The worker whose instance answers for the element.
    pub fn home(&self) -> usize {
        self.tasks.first().or(self.workers.first()).copied().unwrap_or(0)
    }
}

/// Sets of workers that reach an element: by pushing into it, and by pulling from it.
#[derive(Clone, Debug)]
struct Reach {
    push: Vec<Vec<bool>>,
    pull: Vec<Vec<bool>>,
}

/// Plans all elements for `workers` workers. `wished` has the workers for an element's tasks where somebody asked for them.
pub(crate) fn plan(
    checked: &Checked,
    tasks: &[Tasks],
    wished: &[Option<Vec<usize>>],
    shares: &[bool],
    workers: usize,
) -> Vec<Place> {
    let count = checked.classes.len();
    let mut homes: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut reach =
        Reach { push: vec![vec![false; workers]; count], pull: vec![vec![false; workers]; count] };
    let mut load = vec![0usize; workers];
    // Others go where those that have a place leave room.
    for w in wished.iter().flatten().flatten() {
        load[*w] += 1;
    }
    // First those that bring packets, then those that fetch them: a fetching task goes where its packets are.
    let fetches = |e: usize| checked.inputs[e].first().is_some_and(|p| p.processing == Processing::Pull);
    for e in (0..count).filter(|e| !fetches(*e)).chain((0..count).filter(|e| fetches(*e))) {
        homes[e] = match (tasks[e], &wished[e]) {
            (Tasks::None, _) => continue,
            (_, Some(wished)) => wished.clone(),
            (Tasks::Many(n), None) => (0..n.min(workers)).collect(),
            (Tasks::One, None) => {
                let candidates = if fetches(e) { sources(checked, &reach, e, workers) } else { Vec::new() };
                let all = (0..workers).collect();
                let candidates = if candidates.is_empty() { all } else { candidates };
                candidates.into_iter().min_by_key(|w| load[*w]).into_iter().collect()
            }
        };
        for w in &homes[e] {
            load[*w] += usize::from(wished[e].is_none());
            spread(checked, &mut reach, e, *w);
        }
    }
    (0..count).map(|e| place(checked, &reach, e, &homes[e], shares[e], workers)).collect()
}

/// Workers that push into the queues from which `element` would pull.
fn sources(checked: &Checked, reach: &Reach, element: usize, workers: usize) -> Vec<usize> {
    let mut seen = vec![false; checked.classes.len()];
    let mut todo = vec![element];
    let mut found = vec![false; workers];
    while let Some(e) = todo.pop() {
        if std::mem::replace(&mut seen[e], true) {
            continue;
        }
        for (w, reached) in reach.push[e].iter().enumerate() {
            found[w] |= reached;
        }
        let pulls = checked.inputs[e].iter().filter(|p| p.processing == Processing::Pull);
        todo.extend(pulls.flat_map(|p| p.peers.iter().map(|peer| peer.0)));
    }
    (0..workers).filter(|w| found[*w]).collect()
}

/// Marks all that worker `w` reaches from a task of `element`.
fn spread(checked: &Checked, reach: &mut Reach, element: usize, w: usize) {
    // (element, whether it was reached by a pull)
    let mut todo = vec![(element, None)];
    while let Some((e, by_pull)) = todo.pop() {
        match by_pull {
            Some(true) if std::mem::replace(&mut reach.pull[e][w], true) => continue,
            Some(false) if std::mem::replace(&mut reach.push[e][w], true) => continue,
            _ => {}
        }
        for port in checked.outputs[e].iter().filter(|p| p.processing == Processing::Push) {
            todo.extend(port.peers.iter().map(|peer| (peer.0, Some(false))));
        }
        for port in checked.inputs[e].iter().filter(|p| p.processing == Processing::Pull) {
            todo.extend(port.peers.iter().map(|peer| (peer.0, Some(true))));
        }
    }
}

fn place(checked: &Checked, reach: &Reach, e: usize, homes: &[usize], shares: bool, workers: usize) -> Place {
    let (push, pull) = (&reach.push[e], &reach.pull[e]);
    let mut here: Vec<usize> = (0..workers).filter(|w| push[*w] || pull[*w] || homes.contains(w)).collect();
    if here.is_empty() {
        here.push(0);
    }
    let keeps = (0..workers).all(|w| !push[w] || pull[w]);
    let mode = match checked.classes[e].sharing {
        _ if here.len() == 1 => Mode::Single,
        Sharing::PerCore => Mode::PerCore,
        Sharing::Queue if keeps => Mode::PerCore,
        Sharing::Shared | Sharing::Queue if shares => Mode::Shared,
        _ => Mode::Locked,
    };
    let drained_by = match mode {
        Mode::Shared | Mode::Locked => (0..workers).filter(|w| pull[*w]).collect(),
        _ => Vec::new(),
    };
    Place { workers: here, mode, tasks: homes.to_vec(), drained_by }
}
