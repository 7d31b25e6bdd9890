// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which task hands packets to which: what each put into the queues, and took out of them, in the runs that are timed.
//!
//! Elements count packets, not whose they are. So the counters of all connections that lead into a queue or out of one are noted before
//! a timed run, and what they grew by belongs to its task. All other runs cost nothing by it.
//!
//! Where there are many such connections, a task's own are looked for when it is timed first, so that a run does not cost more the more
//! queues others have.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::ports::{Edge, Handed, PortStats, PortTable};
use crate::shared::Shared;
use element::ports::Processing;
use element::wiring::End;
use element::{ElementId, ElementInfo, IndexVec, first_ids};

/// Elements before a queue, whose pushes may end in it, or behind it, whose pulls may come to it; the next queue is the last.
pub fn around_queue(
    elements: &IndexVec<ElementId, ElementInfo>,
    queue: ElementId,
    behind: bool,
) -> IndexVec<ElementId, bool> {
    let mut seen = IndexVec::filled(false, elements.len());
    let mut todo = vec![queue];
    while let Some(e) = todo.pop() {
        let (ports, works) = match behind {
            true => (elements[e].outputs(), Processing::Pull),
            false => (elements[e].inputs(), Processing::Push),
        };
        for End { element: peer, .. } in ports.iter().filter(|p| p.processing == works).flat_map(|p| p.peers)
        {
            if !std::mem::replace(&mut seen[*peer], true) && !elements[*peer].stores() {
                todo.push(*peer);
            }
        }
    }
    seen
}

/// A connection to a queue.
#[derive(Clone, Copy, Debug)]
struct Link {
    /// The counter of what goes there.
    counter: usize,
    /// The queue, as an index of [`Traffic::queues`].
    queue: usize,
    /// What it counted before the run.
    before: PortStats,
}

/// Traffic from tasks to queues and from queues to tasks, on one worker.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// Elements that keep packets until others fetch them.
    queues: Vec<ElementId>,
    /// Connections into these, counted where packets are sent, and out of them, counted where they are fetched.
    into: Vec<Link>,
    out_of: Vec<Link>,
    /// By element, where it has tasks and has handed something over: by queue, ascending. One place for each pair would be as many as
    /// tasks times queues.
    handed: HashMap<ElementId, BTreeMap<usize, Handed>>,
    /// Elements with tasks.
    tasked: IndexVec<ElementId, bool>,
    /// Of many connections those that a task may use: by its element, into queues and out of them.
    own: HashMap<ElementId, Own>,
}

/// Some of the connections, by their places in [`Traffic::into`] and [`Traffic::out_of`].
#[derive(Debug, Default)]
struct Own {
    into: Box<[usize]>,
    out_of: Box<[usize]>,
}

/// From so many connections on, a task's own are looked for.
const MANY: usize = 256;
/// A task that may use more has none looked at.
const MOST: usize = 4096;

impl Traffic {
    pub(super) fn new(shared: &Shared) -> Traffic {
        let queues: Vec<ElementId> =
            first_ids(shared.elements.len()).filter(|e| shared.elements[*e].stores()).collect();
        let links = |table: &PortTable| {
            let link = |(counter, edge): (usize, &Edge)| {
                let queue = queues.binary_search(&edge.element).ok()?;
                Some(Link { counter, queue, before: PortStats::default() })
            };
            table.edges.iter().enumerate().filter_map(link).collect()
        };
        let (into, out_of) = (links(&shared.outputs), links(&shared.inputs));
        let tasked = shared.elements.iter().map(|e| !e.place.tasks.is_empty()).collect();
        Traffic { into, out_of, handed: HashMap::new(), tasked, queues, own: HashMap::new() }
    }

    /// A run of `element`'s task begins.
    pub(super) fn note(
        &mut self,
        element: ElementId,
        shared: &Shared,
        (sent, fetched): (&[PortStats], &[PortStats]),
    ) {
        let note = |link: &mut Link, counters: &[PortStats]| link.before = counters[link.counter];
        if self.into.len() + self.out_of.len() < MANY {
            self.into.iter_mut().for_each(|link| note(link, sent));
            self.out_of.iter_mut().for_each(|link| note(link, fetched));
            return;
        }
        if !self.own.contains_key(&element) {
            self.own.insert(element, self.find_own(element, shared));
        }
        let own = &self.own[&element];
        own.into.iter().for_each(|at| note(&mut self.into[*at], sent));
        own.out_of.iter().for_each(|at| note(&mut self.out_of[*at], fetched));
    }

    /// The connections that packets may take which a task of this element pushes and pulls.
    #[cold]
    #[inline(never)]
    fn find_own(&self, element: ElementId, shared: &Shared) -> Own {
        let place = |links: &[Link], counter: usize| links.binary_search_by_key(&counter, |l| l.counter).ok();
        let (mut into, mut out_of) = (Vec::new(), Vec::new());
        let mut seen = HashSet::from([element]);
        let mut todo = vec![element];
        while let Some(e) = todo.pop() {
            let info = &shared.elements[e];
            let sides = [
                (&shared.outputs, info.outputs(), Processing::Push, &self.into, &mut into),
                (&shared.inputs, info.inputs(), Processing::Pull, &self.out_of, &mut out_of),
            ];
            for (table, ports, works, links, found) in sides {
                let ports = ports.processing();
                for (port, _) in first_ids(ports.len()).zip(ports).filter(|(_, p)| **p == works) {
                    let Some(at) = table.at(e, port) else { continue };
                    let peer = table.edges[at].element;
                    match place(links, at) {
                        Some(link) => found.push(link),
                        None if seen.insert(peer) => todo.push(peer),
                        None => {}
                    }
                }
            }
            if into.len() + out_of.len() > MOST {
                return Own::default();
            }
        }
        Own { into: into.into(), out_of: out_of.into() }
    }

    /// It was one of `element`'s task, and has ended.
    pub(super) fn count(&mut self, element: ElementId, (sent, fetched): (&[PortStats], &[PortStats])) {
        // An element may have been asked to run a task that it has not: it has no counts.
        if !self.tasked[element] {
            return;
        }
        let Traffic { into, out_of, handed, own, .. } = self;
        let mut add = |link: &Link, counters: &[PortStats], given: bool| {
            let more = counters[link.counter] - link.before;
            if more == PortStats::default() {
                return;
            }
            let handed = handed.entry(element).or_default().entry(link.queue).or_default();
            if given {
                handed.given += more;
            } else {
                handed.taken += more;
            }
        };
        if into.len() + out_of.len() < MANY {
            into.iter().for_each(|link| add(link, sent, true));
            out_of.iter().for_each(|link| add(link, fetched, false));
        } else if let Some(own) = own.get(&element) {
            own.into.iter().for_each(|at| add(&into[*at], sent, true));
            own.out_of.iter().for_each(|at| add(&out_of[*at], fetched, false));
        }
    }

    /// What the tasks of `element` handed over, by queue.
    pub(crate) fn of(&self, element: ElementId) -> Vec<(ElementId, Handed)> {
        let handed = self.handed.get(&element).into_iter().flatten();
        handed.map(|(queue, handed)| (self.queues[*queue], *handed)).collect()
    }
}
