// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which task hands packets to which: what each put into the queues, and took out of them, in the runs that are timed.
//!
//! Elements count packets, not whose they are. So the counters of all connections that lead into a queue or out of one are noted before
//! a timed run, and what they grew by belongs to its task. All other runs cost nothing by it.

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
            true => (&elements[e].outputs, Processing::Pull),
            false => (&elements[e].inputs, Processing::Push),
        };
        for (peer, _) in ports.iter().filter(|(p, _)| *p == works).flat_map(|(_, peers)| peers) {
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
    /// By element, where it has tasks, and queue.
    handed: Vec<Vec<Handed>>,
}

impl Traffic {
    pub(super) fn new(shared: &Shared) -> Traffic {
        let queues: Vec<usize> =
            (0..shared.elements.len()).filter(|e| shared.elements[*e].stores()).collect();
        let links = |table: &PortTable| {
            let link = |(counter, edge): (usize, &super::Edge)| {
                let queue = queues.iter().position(|q| *q == edge.element as usize)?;
                Some(Link { counter, queue, before: PortStats::default() })
            };
            table.edges.iter().enumerate().filter_map(link).collect()
        };
        let (into, out_of) = (links(&shared.outputs), links(&shared.inputs));
        let count = |tasks: bool| if tasks { queues.len() } else { 0 };
        let handed =
            shared.elements.iter().map(|e| vec![Handed::default(); count(!e.place.tasks.is_empty())]);
        let handed = handed.collect();
        Traffic { into, out_of, handed, queues }
    }

    /// A run begins.
    pub(super) fn note(&mut self, sent: &[PortStats], fetched: &[PortStats]) {
        for (links, counters) in [(&mut self.into, sent), (&mut self.out_of, fetched)] {
            links.iter_mut().for_each(|link| link.before = counters[link.counter]);
        }
    }

    /// It was one of `element`'s task, and has ended.
    pub(super) fn count(&mut self, element: usize, sent: &[PortStats], fetched: &[PortStats]) {
        let handed = &mut self.handed[element];
        let grow = |sum: &mut PortStats, link: &Link, counters: &[PortStats]| {
            *sum += counters[link.counter] - link.before;
        };
        // An element may have been told to run a task that it has not: it has no counts.
        for link in &self.into {
            handed.get_mut(link.queue).into_iter().for_each(|h| grow(&mut h.given, link, sent));
        }
        for link in &self.out_of {
            handed.get_mut(link.queue).into_iter().for_each(|h| grow(&mut h.taken, link, fetched));
        }
    }

    /// What the tasks of `element` handed over, by queue.
    pub(crate) fn of(&self, element: usize) -> Vec<(usize, Handed)> {
        let all = self.queues.iter().copied().zip(self.handed[element].iter().copied());
        all.filter(|(_, handed)| *handed != Handed::default()).collect()
    }
}
