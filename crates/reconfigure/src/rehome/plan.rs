// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a placement comes to: for each element, what becomes of its instances. Nothing is moved here.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use element::{Element, ElementId, ElementPlan, IndexVec, Mode, Sharing, Tasks};
use engine::{Shared, Wished};

use crate::placement::{MovedTask, PlaceError, Placement};

/// What becomes of an element's instances.
pub(super) struct Step {
    pub(super) place: Arc<ElementPlan>,
    pub(super) conveyance: Conveyance,
}

/// How they get to their workers.
pub(super) enum Conveyance {
    /// Instances go from worker to worker, further ones are made there, and what is left of some is given to the first.
    Instances { moves: Vec<(usize, usize)>, made: Vec<usize>, joined: Vec<usize> },
    /// One instance, behind a lock if several workers reach it.
    One,
    /// A device's: all are made anew and take over its queues.
    Device,
}

impl Step {
    /// The worker that an instance goes to.
    pub(super) fn goes_to(&self, from: usize) -> Option<usize> {
        match &self.conveyance {
            Conveyance::Instances { moves, .. } => moves.iter().find(|m| m.0 == from).map(|m| m.1),
            Conveyance::One => Some(self.place.home()),
            Conveyance::Device => None,
        }
    }
}

fn step(was: &Shared, e: ElementId, wanted: Arc<ElementPlan>) -> Step {
    let before = &was.elements[e].place;
    let how = was.how(e);
    let one = match how.sharing {
        Sharing::Serial => true,
        Sharing::Shared | Sharing::Queue => !how.shares,
        Sharing::PerCore => false,
    };
    if one {
        return Step { place: wanted, conveyance: Conveyance::One };
    }
    let alike = before.workers.len() == wanted.workers.len() && before.tasks.len() == wanted.tasks.len();
    if was.has_opened(e) && !(alike && before.mode == wanted.mode) {
        return Step { place: wanted, conveyance: Conveyance::Device };
    }
    let mut moves: Vec<(usize, usize)> = Vec::new();
    let mut left = before.workers.clone();
    let mut vacant = wanted.workers.clone();
    let tasks = before.tasks.iter().copied().zip(wanted.tasks.iter().copied());
    let stay = before.workers.iter().map(|w| (*w, *w));
    for (from, to) in tasks.chain(stay) {
        if left.contains(&from) && vacant.contains(&to) {
            left.retain(|w| *w != from);
            vacant.retain(|w| *w != to);
            moves.push((from, to));
        }
    }
    // A first one that has to go somewhere goes before the others.
    while !left.is_empty() && !vacant.is_empty() {
        moves.push((left.remove(0), vacant.remove(0)));
    }
    let own_queue = |place: &ElementPlan| how.sharing == Sharing::Queue && place.mode == Mode::PerCore;
    let mut joined = Vec::new();
    if own_queue(before) || own_queue(&wanted) {
        // The first one is the one that keeps what there is.
        joined = before.workers[1..].to_vec();
        let first = before.workers[0];
        let to = moves.iter().find(|m| m.0 == first).map_or(wanted.workers[0], |m| m.1);
        moves = vec![(first, to)];
        vacant = wanted.workers.iter().copied().filter(|w| *w != to).collect();
        left.clear();
    }
    moves.extend(left.iter().map(|w| (*w, *w)));
    let first = moves.iter().find(|m| m.0 == before.workers[0]).map_or(wanted.workers[0], |m| m.1);
    let mut workers: Vec<usize> = moves.iter().map(|m| m.1).chain(vacant.iter().copied()).collect();
    workers.sort_unstable();
    workers.retain(|w| *w != first);
    workers.insert(0, first);
    let mode = match (workers.len(), how.sharing) {
        (1, _) => Mode::Single,
        (_, Sharing::PerCore) => Mode::PerCore,
        (_, Sharing::Queue) if wanted.mode == Mode::PerCore => Mode::PerCore,
        _ => Mode::Shared,
    };
    let place = if workers == wanted.workers && mode == wanted.mode {
        wanted
    } else {
        Arc::new(ElementPlan { workers, mode, ..(*wanted).clone() })
    };
    Step { place, conveyance: Conveyance::Instances { moves, made: vacant, joined } }
}

/// A placement that can come.
pub(super) struct Plan {
    pub(super) was: Arc<Shared>,
    pub(super) steps: IndexVec<ElementId, Step>,
    pub(super) active: usize,
    /// Copies for workers that reach an element they did not reach before.
    pub(super) spares: HashMap<ElementId, Vec<Box<dyn Element>>>,
    pub(super) pinned: IndexVec<ElementId, bool>,
    pub(super) tasks: Vec<MovedTask>,
}

impl Plan {
    pub(super) fn new(was: Arc<Shared>, placement: &Placement) -> Result<Plan, PlaceError> {
        let count = was.workers();
        let active = placement.active.unwrap_or(was.active_workers());
        if !(1..=count).contains(&active) {
            return Err(PlaceError::Active(count));
        }
        let mut wished: Wished = was.elements.ids().map(|e| kept(&was, e, active)).collect();
        for (e, workers) in &placement.homes {
            judge(&was, *e, workers, count)?;
            wished[*e] = Some(workers.clone());
        }
        let places = was.places(&wished, active);
        let steps: IndexVec<ElementId, Step> =
            places.into_iter_enumerated().map(|(e, place)| step(&was, e, place)).collect();
        let names = was.names();
        let (mut spares, mut tasks) = (HashMap::new(), Vec::new());
        for (e, step) in steps.iter_enumerated() {
            let info = &was.elements[e];
            if info.place.tasks != step.place.tasks {
                let (before, now) = (info.place.tasks.clone(), step.place.tasks.clone());
                tasks.push(MovedTask { name: info.name.to_string(), before, now });
            }
            let Conveyance::Instances { made, .. } = &step.conveyance else { continue };
            let written = info.touched.load(Ordering::Relaxed);
            let owns = step.place.mode == Mode::PerCore || info.class.handlers.iter().any(|h| h.everywhere);
            if !made.is_empty() && written && owns {
                return Err(PlaceError::Settings(info.name.to_string()));
            }
            if step.place.mode == Mode::PerCore {
                spares.insert(e, was.copies(e, made.len(), &names));
            }
        }
        let mut pinned = was.pinned().clone();
        placement.pins.iter().for_each(|(e, pin)| pinned[*e] = *pin);
        Ok(Plan { was, steps, active, spares, pinned, tasks })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.active == self.was.active_workers() && self.pinned == *self.was.pinned()
    }
}

/// The workers of an element's tasks if `active` workers are to take part and nobody says otherwise: where they are, or with
/// another number of workers what the router would have begun with.
fn kept(was: &Shared, e: ElementId, active: usize) -> Option<Vec<usize>> {
    let now = &was.elements[e].place.tasks;
    if active != was.active_workers() && !was.is_pinned(e) {
        return was.wished(e).cloned();
    }
    (!now.is_empty()).then(|| now.clone())
}

pub(super) fn judge(was: &Shared, e: ElementId, workers: &[usize], active: usize) -> Result<(), PlaceError> {
    let info = &was.elements[e];
    let tasks = match was.tasks(e) {
        Tasks::None => return Err(PlaceError::NoTask(info.name.to_string())),
        Tasks::One => 1,
        Tasks::Many(n) => n,
    };
    let twice = workers.iter().enumerate().any(|(i, w)| workers[..i].contains(w));
    let last = active - 1;
    if workers.is_empty() || workers.len() > tasks || twice || workers.iter().any(|w| *w > last) {
        let wished: Vec<String> = workers.iter().map(usize::to_string).collect();
        return Err(PlaceError::NoWorker {
            element: info.name.to_string(),
            wished: wished.join(","),
            tasks,
            last,
            most: was.workers() - 1,
        });
    }
    Ok(())
}
