// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which workers run what: homes for tasks, and from them the workers that reach each element and how its
//! instances share.

use std::collections::HashMap;
use std::sync::Arc;

use sync::heap::in_lines;

use crate::capability;
use crate::graph::Checked;
use crate::homes::Wished;
use element::ports::Processing;
use element::{Element, ElementId, ElementPlan, IndexVec, Mode, Sharing, Tasks, first_ids};

/// Where each element runs.
pub type Placed = IndexVec<ElementId, Arc<ElementPlan>>;

/// What an element allows.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Its class's way, or [`Sharing::Serial`] if it asks for that.
    pub sharing: Sharing,
    /// Whether it gives further instances over its state.
    pub shares: bool,
}

impl How {
    pub(crate) fn of(checked: &Checked, e: ElementId, primary: &dyn Element) -> How {
        let class = checked.classes[e];
        let sharing = match capability::one_order(class, primary) {
            Some(_) => Sharing::Serial,
            None => class.sharing,
        };
        How { sharing, shares: capability::share(class, primary).is_some() }
    }
}

/// A set of workers for each element.
#[derive(Clone, Debug)]
struct Sets {
    /// Words of a set.
    words: usize,
    bits: Vec<u64>,
}

impl Sets {
    fn new(count: usize, workers: usize) -> Sets {
        let words = workers.div_ceil(64);
        Sets { words, bits: vec![0; count * words] }
    }

    fn of(&self, element: ElementId) -> &[u64] {
        &self.bits[element.index() * self.words..(element.index() + 1) * self.words]
    }

    fn has(&self, element: ElementId, worker: usize) -> bool {
        contains(self.of(element), worker)
    }

    /// Puts a worker into the set of an element; returns whether it was there.
    fn insert(&mut self, element: ElementId, worker: usize) -> bool {
        let word = &mut self.bits[element.index() * self.words + worker / 64];
        let before = *word >> (worker % 64) & 1 != 0;
        *word |= 1 << (worker % 64);
        before
    }
}

fn contains(set: &[u64], worker: usize) -> bool {
    set[worker / 64] >> (worker % 64) & 1 != 0
}

/// Sets of workers that reach an element: by pushing into it, and by pulling from it.
#[derive(Clone, Debug)]
struct Reach {
    push: Sets,
    pull: Sets,
}

impl Reach {
    fn new(count: usize, workers: usize) -> Reach {
        Reach { push: Sets::new(count, workers), pull: Sets::new(count, workers) }
    }
}

/// Plans all elements for `workers` workers. `wished` has the workers for an element's tasks where somebody asked for them.
///
/// Elements that run alike share a [`ElementPlan`]: of a million, most do.
pub(crate) fn plan(
    checked: &Checked,
    tasks: &IndexVec<ElementId, Tasks>,
    wished: &Wished,
    how: &IndexVec<ElementId, How>,
    workers: usize,
) -> Placed {
    let count = checked.classes.len();
    let mut homes: IndexVec<ElementId, Vec<usize>> = IndexVec::filled(Vec::new(), count);
    let mut reach = Reach::new(count, workers);
    let mut load = vec![0usize; workers];
    // Others go where those that have a place leave room.
    for w in wished.iter().flatten().flatten() {
        load[*w] += 1;
    }
    // First those that bring most packets, then others that bring some, then those that fetch them: a fetching task goes where its
    // packets are. Devices with queues are spread before taps and sources, which have little to do.
    let fetches = |e: ElementId| checked.inputs(e).first().is_some_and(|p| p.processing == Processing::Pull);
    let mut upstream = Upstream { seen: IndexVec::filled(0, count), round: 0 };
    let mut candidates = |e: ElementId, reach: &Reach| {
        let near = if fetches(e) { upstream.sources(checked, reach, e, workers) } else { Vec::new() };
        if near.is_empty() { (0..workers).collect() } else { near }
    };
    let rank = |e: ElementId| match tasks[e] {
        _ if fetches(e) => 2,
        Tasks::Many(_) => 0,
        _ => 1,
    };
    for e in (0..3).flat_map(|turn| {
        first_ids(count).filter({
            let rank = &rank;
            move |e| rank(*e) == turn
        })
    }) {
        homes[e] = match (tasks[e], &wished[e]) {
            (Tasks::None, _) => continue,
            (_, Some(wished)) => wished.clone(),
            (Tasks::Many(n), None) => choose(candidates(e, &reach), n, &load),
            (Tasks::One, None) => choose(candidates(e, &reach), 1, &load),
        };
        for w in &homes[e] {
            load[*w] += usize::from(wished[e].is_none());
            spread(checked, e, |e, by_pull| match by_pull {
                true => reach.pull.insert(e, *w),
                false => reach.push.insert(e, *w),
            });
        }
    }
    let mut places = Places::default();
    first_ids(count).map(|e| places.get(&reach, e, &homes[e], how[e], workers)).collect()
}

/// The `n` of these workers that have the least to do, ascending; all if there are fewer.
fn choose(mut candidates: Vec<usize>, n: usize, load: &[usize]) -> Vec<usize> {
    candidates.sort_by_key(|w| (load[*w], *w));
    candidates.truncate(n);
    candidates.sort_unstable();
    candidates
}

/// The way from elements up to the queues that they pull from.
struct Upstream {
    /// The round in which an element was met last.
    seen: IndexVec<ElementId, u32>,
    round: u32,
}

impl Upstream {
    /// Workers that push into the queues from which `element` would pull.
    fn sources(
        &mut self,
        checked: &Checked,
        reach: &Reach,
        element: ElementId,
        workers: usize,
    ) -> Vec<usize> {
        self.round += 1;
        let mut todo = vec![element];
        let mut found = vec![0u64; workers.div_ceil(64)];
        while let Some(e) = todo.pop() {
            if std::mem::replace(&mut self.seen[e], self.round) == self.round {
                continue;
            }
            for (found, reached) in found.iter_mut().zip(reach.push.of(e)) {
                *found |= reached;
            }
            let inputs = checked.inputs(e);
            let pulls = inputs.iter().filter(|p| p.processing == Processing::Pull);
            todo.extend(pulls.flat_map(|p| p.peers.iter().map(|peer| peer.element)));
        }
        (0..workers).filter(|w| contains(&found, *w)).collect()
    }
}

/// Calls `mark` with all that a task of `element` reaches, and whether by a pull, until it answers that it knew.
fn spread(checked: &Checked, element: ElementId, mut mark: impl FnMut(ElementId, bool) -> bool) {
    // (element, whether it was reached by a pull)
    let mut todo = vec![(element, None)];
    while let Some((e, by_pull)) = todo.pop() {
        if by_pull.is_some_and(|by_pull| mark(e, by_pull)) {
            continue;
        }
        for port in checked.outputs(e).iter().filter(|p| p.processing == Processing::Push) {
            todo.extend(port.peers.iter().map(|peer| (peer.element, Some(false))));
        }
        for port in checked.inputs(e).iter().filter(|p| p.processing == Processing::Pull) {
            todo.extend(port.peers.iter().map(|peer| (peer.element, Some(true))));
        }
    }
}

/// Finds the elements that tasks reach, one task after the other.
pub struct Reached<'a> {
    checked: &'a Checked,
    /// The round in which an element was met last, by pushes and by pulls.
    seen: [IndexVec<ElementId, u32>; 2],
    round: u32,
}

impl<'a> Reached<'a> {
    pub(crate) fn new(checked: &'a Checked) -> Reached<'a> {
        let none = IndexVec::filled(0, checked.classes.len());
        Reached { checked, seen: [none.clone(), none], round: 0 }
    }

    /// The elements that a task of `element` reaches, itself first.
    pub fn from(&mut self, element: ElementId) -> Vec<ElementId> {
        self.round += 1;
        let (seen, round) = (&mut self.seen, self.round);
        let mut others = Vec::new();
        spread(self.checked, element, |e, by_pull| {
            let before = std::mem::replace(&mut seen[usize::from(by_pull)][e], round) == round;
            if !before && e != element {
                others.push(e);
            }
            before
        });
        others.sort_unstable();
        others.dedup();
        std::iter::once(element).chain(others).collect()
    }
}

/// The places there are, by what makes them differ.
#[derive(Default)]
struct Places {
    known: HashMap<Vec<u64>, Arc<ElementPlan>>,
    key: Vec<u64>,
}

impl Places {
    fn get(
        &mut self,
        reach: &Reach,
        e: ElementId,
        homes: &[usize],
        how: How,
        workers: usize,
    ) -> Arc<ElementPlan> {
        self.key.clear();
        self.key.extend([how.sharing as u64, u64::from(how.shares)]);
        self.key.extend(reach.push.of(e).iter().chain(reach.pull.of(e)));
        self.key.extend(homes.iter().map(|w| *w as u64));
        if let Some(known) = self.known.get(self.key.as_slice()) {
            return known.clone();
        }
        // Workers look here whom to wake.
        let place = in_lines(|| Arc::new(place(reach, e, homes, how, workers)));
        self.known.insert(self.key.clone(), place.clone());
        place
    }
}

fn place(reach: &Reach, e: ElementId, homes: &[usize], how: How, workers: usize) -> ElementPlan {
    let push = |w: &usize| reach.push.has(e, *w);
    let pull = |w: &usize| reach.pull.has(e, *w);
    let mut here: Vec<usize> = (0..workers).filter(|w| push(w) || pull(w) || homes.contains(w)).collect();
    if here.is_empty() {
        here.push(0);
    }
    let keeps = (0..workers).all(|w| !push(&w) || pull(&w));
    let mode = match how.sharing {
        _ if here.len() == 1 => Mode::Single,
        Sharing::PerCore => Mode::PerCore,
        Sharing::Queue if keeps => Mode::PerCore,
        Sharing::Shared | Sharing::Queue if how.shares => Mode::Shared,
        _ => Mode::Locked,
    };
    let drained_by = match mode {
        Mode::Shared | Mode::Locked => (0..workers).filter(pull).collect(),
        _ => Vec::new(),
    };
    ElementPlan {
        workers: here,
        mode,
        tasks: homes.to_vec(),
        drained_by,
        pushed_by: (0..workers).filter(push).collect(),
        pulled_by: (0..workers).filter(pull).collect(),
    }
}
