// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a placement comes to: for each element, what becomes of its instances. Nothing is moved here.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use element::{Element, ElementId, ElementPlan, IndexVec, Mode, Sharing, Tasks};
use engine::{How, Shared, Wished};

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

/// What becomes of the instances of an element that is `before`, and should be `wanted`. `has_opened`: it holds a device.
///
/// Workers that have an instance and reach the element no more keep theirs, so the new place may have more workers than were wanted.
fn step(before: &ElementPlan, how: How, has_opened: bool, wanted: Arc<ElementPlan>) -> Step {
    let one = match how.sharing {
        Sharing::Serial => true,
        Sharing::Shared | Sharing::Queue => !how.shares,
        Sharing::PerCore => false,
    };
    if one {
        return Step { place: wanted, conveyance: Conveyance::One };
    }
    let alike = before.workers.len() == wanted.workers.len() && before.tasks.len() == wanted.tasks.len();
    if has_opened && !(alike && before.mode == wanted.mode) {
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
    // What is left over stays where it is, or goes where one has left if another has come to its worker.
    let mut free: Vec<usize> =
        before.workers.iter().copied().filter(|w| moves.iter().all(|m| m.1 != *w)).collect();
    left.sort_unstable_by_key(|w| !free.contains(w));
    for from in left {
        let at = free.iter().position(|w| *w == from).unwrap_or(0);
        moves.push((from, free.remove(at)));
    }
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
        let steps: IndexVec<ElementId, Step> = places
            .into_iter_enumerated()
            .map(|(e, place)| step(&was.elements[e].place, was.how(e), was.has_opened(e), place))
            .collect();
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
/// another number of workers what the router would have started with.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use proptest::sample::{select, subsequence};

    use super::*;

    const WORKERS: usize = 4;

    /// Where an element may be that works in some way: its workers in any order, tasks on some of them.
    fn place(sharing: Sharing) -> impl Strategy<Value = ElementPlan> {
        let workers = subsequence((0..WORKERS).collect::<Vec<_>>(), 1..=WORKERS).prop_shuffle();
        (workers, 0..=WORKERS, any::<bool>()).prop_map(move |(workers, tasks, own)| {
            let mode = match (workers.len(), sharing) {
                (1, _) => Mode::Single,
                (_, Sharing::PerCore) => Mode::PerCore,
                (_, Sharing::Queue) if own => Mode::PerCore,
                _ => Mode::Shared,
            };
            let tasks = workers.iter().copied().take(tasks).collect();
            ElementPlan {
                workers,
                mode,
                tasks,
                drained_by: Vec::new(),
                pushed_by: Vec::new(),
                pulled_by: Vec::new(),
            }
        })
    }

    /// A way to work that gives more than one instance, and two places.
    fn case() -> impl Strategy<Value = (Sharing, ElementPlan, ElementPlan)> {
        select(vec![Sharing::PerCore, Sharing::Shared, Sharing::Queue])
            .prop_flat_map(|sharing| (Just(sharing), place(sharing), place(sharing)))
    }

    proptest! {
        #[test]
        fn every_instance_goes_somewhere_and_every_worker_gets_one((sharing, before, wanted) in case()) {
            let how = How { sharing, shares: true };
            let Step { place, conveyance } = step(&before, how, false, Arc::new(wanted.clone()));
            let Conveyance::Instances { moves, made, joined } = conveyance else { panic!("several instances") };
            // Instances that are there move or are joined, once.
            let mut sources: Vec<usize> = moves.iter().map(|m| m.0).chain(joined.iter().copied()).collect();
            sources.sort_unstable();
            let mut there = before.workers.clone();
            there.sort_unstable();
            prop_assert_eq!(sources, there);
            // A worker gets one: from elsewhere, or a new one.
            let mut targets: Vec<usize> = moves.iter().map(|m| m.1).chain(made.iter().copied()).collect();
            targets.sort_unstable();
            let mut workers = place.workers.clone();
            workers.sort_unstable();
            prop_assert_eq!(&targets, &workers);
            let all: BTreeSet<usize> = workers.iter().copied().collect();
            prop_assert_eq!(all.len(), workers.len());
            prop_assert!(wanted.workers.iter().all(|w| all.contains(w)));
            // The first one stays the first one, wherever it is.
            let first = moves.iter().find(|m| m.0 == before.workers[0]).map(|m| m.1);
            prop_assert_eq!(first, Some(place.workers[0]));
            prop_assert_eq!(&place.tasks, &wanted.tasks);
        }

        #[test]
        fn what_stays_where_it_is_does_not_move((sharing, before, _) in case()) {
            prop_assume!(!(sharing == Sharing::Queue && before.mode == Mode::PerCore));
            let Step { place, conveyance } =
                step(&before, How { sharing, shares: true }, true, Arc::new(before.clone()));
            let Conveyance::Instances { moves, made, joined } = conveyance else { panic!("nothing is made anew") };
            prop_assert!(moves.iter().all(|m| m.0 == m.1));
            prop_assert_eq!((made, joined), (vec![], vec![]));
            prop_assert_eq!(BTreeSet::from_iter(&place.workers), BTreeSet::from_iter(&before.workers));
            prop_assert_eq!((place.workers[0], &place.tasks, place.mode), (before.workers[0], &before.tasks, before.mode));
        }

        #[test]
        fn a_device_with_other_workers_is_made_anew((sharing, before, wanted) in case()) {
            prop_assume!(before.workers.len() != wanted.workers.len());
            let Step { conveyance, .. } = step(&before, How { sharing, shares: true }, true, Arc::new(wanted));
            prop_assert!(matches!(conveyance, Conveyance::Device));
        }

        #[test]
        fn one_instance_goes_to_the_home((sharing, before, wanted) in case()) {
            let how = match sharing {
                Sharing::PerCore => How { sharing: Sharing::Serial, shares: true },
                other => How { sharing: other, shares: false },
            };
            let moved = step(&before, how, true, Arc::new(wanted.clone()));
            prop_assert!(matches!(moved.conveyance, Conveyance::One));
            prop_assert!((0..WORKERS).all(|w| moved.goes_to(w) == Some(wanted.home())));
        }
    }
}
