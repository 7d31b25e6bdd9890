// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which task hands packets to which: what each put into the queues, and took out of them, in the runs that are timed.
//!
//! Elements count packets, not whose they are. So the counters of all connections that lead into a queue or out of one are noted before
//! a timed run, and what they grew by belongs to its task. All other runs cost nothing by it.

use std::collections::{BTreeMap, HashMap};
use std::ops::AddAssign;

use super::{PortStats, PortTable};
use crate::ports::Processing;
use crate::router::{ElementInfo, Shared};

/// What a task put into a queue, and took out of it, in timed runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handed {
    /// What it put in, whether or not there was room.
    pub given: PortStats,
    /// What it took out.
    pub taken: PortStats,
}

impl AddAssign for Handed {
    fn add_assign(&mut self, more: Handed) {
        self.given += more.given;
        self.taken += more.taken;
    }
}

/// Elements before a queue, whose pushes may end in it, or behind it, whose pulls may come to it; the next queue is the last.
pub fn around_queue(elements: &[ElementInfo], queue: usize, behind: bool) -> Vec<bool> {
    let mut seen = vec![false; elements.len()];
    let mut todo = vec![queue];
    while let Some(e) = todo.pop() {
        let (ports, works) = match behind {
            true => (elements[e].outputs(), Processing::Pull),
            false => (elements[e].inputs(), Processing::Push),
        };
        for (peer, _) in ports.iter().filter(|p| p.processing == works).flat_map(|p| p.peers) {
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
    queues: Vec<usize>,
    /// Connections into these, counted where packets are sent, and out of them, counted where they are fetched.
    into: Vec<Link>,
    out_of: Vec<Link>,
    /// By element, where it has tasks and has handed something over: by queue, ascending. One place for each pair would be as many as
    /// tasks times queues.
    handed: HashMap<usize, BTreeMap<usize, Handed>>,
    /// Elements with tasks.
    tasked: Vec<bool>,
}

impl Traffic {
    pub(super) fn new(shared: &Shared) -> Traffic {
        let queues: Vec<usize> =
            (0..shared.elements.len()).filter(|e| shared.elements[*e].stores()).collect();
        let links = |table: &PortTable| {
            let link = |(counter, edge): (usize, &super::Edge)| {
                let queue = queues.binary_search(&(edge.element as usize)).ok()?;
                Some(Link { counter, queue, before: PortStats::default() })
            };
            table.edges.iter().enumerate().filter_map(link).collect()
        };
        let (into, out_of) = (links(&shared.outputs), links(&shared.inputs));
        let tasked = shared.elements.iter().map(|e| !e.place.tasks.is_empty()).collect();
        Traffic { into, out_of, handed: HashMap::new(), tasked, queues }
    }

    /// A run begins.
    pub(super) fn note(&mut self, sent: &[PortStats], fetched: &[PortStats]) {
        for (links, counters) in [(&mut self.into, sent), (&mut self.out_of, fetched)] {
            links.iter_mut().for_each(|link| link.before = counters[link.counter]);
        }
    }

    /// It was one of `element`'s task, and has ended.
    pub(super) fn count(&mut self, element: usize, sent: &[PortStats], fetched: &[PortStats]) {
        // An element may have been told to run a task that it has not: it has no counts.
        if !self.tasked[element] {
            return;
        }
        for (links, counters, given) in [(&self.into, sent, true), (&self.out_of, fetched, false)] {
            for link in links {
                let more = counters[link.counter] - link.before;
                if more == PortStats::default() {
                    continue;
                }
                let handed = self.handed.entry(element).or_default().entry(link.queue).or_default();
                if given {
                    handed.given += more;
                } else {
                    handed.taken += more;
                }
            }
        }
    }

    /// What the tasks of `element` handed over, by queue.
    pub(crate) fn of(&self, element: usize) -> Vec<(usize, Handed)> {
        let handed = self.handed.get(&element).into_iter().flatten();
        handed.map(|(queue, handed)| (self.queues[*queue], *handed)).collect()
    }
}
