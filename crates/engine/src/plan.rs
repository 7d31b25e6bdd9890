// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which workers run what: homes for tasks, and from them the workers that reach each element and how its
//! instances share.

use crate::element::{Element, Sharing, Tasks};
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
    /// Workers with an instance, the first one's first, which acts for an element without tasks; never empty. Ascending, until
    /// tasks are moved while the router runs.
    pub workers: Vec<usize>,
    /// How they share.
    pub mode: Mode,
    /// Workers that run the element's tasks: task `i` on `tasks[i]`.
    pub tasks: Vec<usize>,
    /// Workers that are woken when others leave packets here.
    pub drained_by: Vec<usize>,
    /// Workers that push packets into it.
    pub pushed_by: Vec<usize>,
    /// Workers that pull packets out of it.
    pub pulled_by: Vec<usize>,
}

impl Place {
    /// How many instances there are.
    pub fn instances(&self) -> usize {
        if self.mode == Mode::Locked { 1 } else { self.workers.len() }
    }

    /// The worker whose instance answers for the element.
    pub fn home(&self) -> usize {
        self.tasks.first().or(self.workers.first()).copied().unwrap_or(0)
    }
}

/// What an element allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    /// Its class's way, or [`Sharing::Serial`] if it asks for that.
    pub(crate) sharing: Sharing,
    /// Whether it gives further instances over its state.
    pub(crate) shares: bool,
}

impl How {
    pub(crate) fn of(checked: &Checked, e: usize, primary: &dyn Element) -> How {
        let sharing = match primary.one_order() {
            Some(_) => Sharing::Serial,
            None => checked.classes[e].sharing,
        };
        How { sharing, shares: primary.share().is_some() }
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
    how: &[How],
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
    let candidates = |e: usize, reach: &Reach| {
        let near = if fetches(e) { sources(checked, reach, e, workers) } else { Vec::new() };
        if near.is_empty() { (0..workers).collect() } else { near }
    };
    for e in (0..count).filter(|e| !fetches(*e)).chain((0..count).filter(|e| fetches(*e))) {
        homes[e] = match (tasks[e], &wished[e]) {
            (Tasks::None, _) => continue,
            (_, Some(wished)) => wished.clone(),
            (Tasks::Many(n), None) => choose(candidates(e, &reach), n, &load),
            (Tasks::One, None) => choose(candidates(e, &reach), 1, &load),
        };
        for w in &homes[e] {
            load[*w] += usize::from(wished[e].is_none());
            spread(checked, &mut reach, e, *w);
        }
    }
    (0..count).map(|e| place(&reach, e, &homes[e], how[e], workers)).collect()
}

/// The `n` of these workers that have the least to do, ascending; all if there are fewer.
fn choose(mut candidates: Vec<usize>, n: usize, load: &[usize]) -> Vec<usize> {
    candidates.sort_by_key(|w| (load[*w], *w));
    candidates.truncate(n);
    candidates.sort_unstable();
    candidates
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

/// The elements that a task of `element` reaches, itself first.
pub(crate) fn reached(checked: &Checked, element: usize) -> Vec<usize> {
    let none = || vec![vec![false]; checked.classes.len()];
    let mut reach = Reach { push: none(), pull: none() };
    spread(checked, &mut reach, element, 0);
    let others =
        (0..checked.classes.len()).filter(|e| *e != element && (reach.push[*e][0] || reach.pull[*e][0]));
    std::iter::once(element).chain(others).collect()
}

fn place(reach: &Reach, e: usize, homes: &[usize], how: How, workers: usize) -> Place {
    let (push, pull) = (&reach.push[e], &reach.pull[e]);
    let mut here: Vec<usize> = (0..workers).filter(|w| push[*w] || pull[*w] || homes.contains(w)).collect();
    if here.is_empty() {
        here.push(0);
    }
    let keeps = (0..workers).all(|w| !push[w] || pull[w]);
    let mode = match how.sharing {
        _ if here.len() == 1 => Mode::Single,
        Sharing::PerCore => Mode::PerCore,
        Sharing::Queue if keeps => Mode::PerCore,
        Sharing::Shared | Sharing::Queue if how.shares => Mode::Shared,
        _ => Mode::Locked,
    };
    let drained_by = match mode {
        Mode::Shared | Mode::Locked => (0..workers).filter(|w| pull[*w]).collect(),
        _ => Vec::new(),
    };
    let those = |set: &[bool]| (0..workers).filter(|w| set[*w]).collect();
    Place {
        workers: here,
        mode,
        tasks: homes.to_vec(),
        drained_by,
        pushed_by: those(push),
        pulled_by: those(pull),
    }
}
