// SPDX-License-Identifier: MIT OR Apache-2.0
//! A worker's tasks, by stride scheduling (Waldspurger and Weihl, 1995), and its timers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::clock::Nanos;
use crate::turns::Common;

/// Tickets of a task unless set: a task with twice the tickets runs twice as often.
pub const DEFAULT_TICKETS: u32 = 1024;
/// The most tickets a task can have.
pub const MAX_TICKETS: u32 = 1 << 15;
const STRIDE_1: u64 = 1 << 16;

#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) element: u32,
    pub(crate) scheduled: bool,
    pub(crate) tickets: u32,
    pass: u64,
}

/// The tasks of one worker. Few, so the next one is found by looking at all.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    tasks: Vec<Task>,
    pass: u64,
    /// In place of `pass` where workers take turns.
    common: Option<Common>,
}

impl Tasks {
    /// Tasks of a worker that takes turns with others.
    pub(crate) fn in_common(common: Common) -> Tasks {
        Tasks { common: Some(common), ..Tasks::default() }
    }

    fn pass(&self) -> u64 {
        self.common.as_ref().map_or(self.pass, Common::pass)
    }

    pub(crate) fn add(&mut self, element: u32) {
        if self.find(element).is_none() {
            let pass = self.pass();
            self.insert(Task { element, scheduled: false, tickets: DEFAULT_TICKETS, pass });
        }
    }

    /// In the order of elements: of tasks that are due alike, the first is next, also after some have come from elsewhere.
    fn insert(&mut self, task: Task) {
        let at = self.tasks.partition_point(|t| t.element < task.element);
        self.tasks.insert(at, task);
    }

    /// Takes a task out, to be given to another worker.
    pub(crate) fn release(&mut self, element: u32) -> Option<Task> {
        let at = self.tasks.iter().position(|t| t.element == element)?;
        Some(self.tasks.remove(at))
    }

    /// Takes over a task. It is neither ahead of those that are here, nor behind.
    pub(crate) fn adopt(&mut self, mut task: Task) {
        if self.common.is_none() {
            task.pass = self.pass;
        }
        self.tasks.retain(|t| t.element != task.element);
        self.insert(task);
    }

    /// Elements that have a task here.
    pub(crate) fn elements(&self) -> Vec<u32> {
        self.tasks.iter().map(|t| t.element).collect()
    }

    /// Goes on counting where another schedule has stopped.
    pub(crate) fn go_on_from(&mut self, other: &Tasks) {
        self.pass = other.pass;
    }

    pub(crate) fn find(&mut self, element: u32) -> Option<&mut Task> {
        self.tasks.iter_mut().find(|t| t.element == element)
    }

    /// Puts the task in line, or takes it out. Returns whether the element has a task here.
    pub(crate) fn set_scheduled(&mut self, element: u32, scheduled: bool) -> bool {
        let pass = self.pass();
        let Some(task) = self.find(element) else { return false };
        if scheduled && !task.scheduled {
            task.pass = task.pass.max(pass);
        }
        task.scheduled = scheduled;
        true
    }

    pub(crate) fn scheduled(&self) -> usize {
        self.tasks.iter().filter(|t| t.scheduled).count()
    }

    /// Whether tasks get unequal shares.
    pub(crate) fn is_uneven(&self) -> bool {
        self.tasks.windows(2).any(|pair| pair[0].tickets != pair[1].tickets)
    }

    /// The fewest and the most tickets of a task.
    pub(crate) fn tickets(&self) -> Option<(u32, u32)> {
        let tickets = || self.tasks.iter().map(|t| t.tickets);
        tickets().min().zip(tickets().max())
    }

    /// The task that [`Tasks::next`] would choose: its pass and its element.
    pub(crate) fn peek(&self) -> Option<(u64, u32)> {
        let task = self.tasks.iter().filter(|t| t.scheduled).min_by_key(|t| t.pass)?;
        Some((task.pass, task.element))
    }

    /// Elements whose tasks are in line.
    pub(crate) fn in_line(&self) -> Vec<u32> {
        self.tasks.iter().filter(|t| t.scheduled).map(|t| t.element).collect()
    }

    /// The element whose task is due, if any; charges it for one run.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<u32> {
        let task = self.tasks.iter_mut().filter(|t| t.scheduled).min_by_key(|t| t.pass)?;
        match &self.common {
            None => self.pass = task.pass,
            Some(common) => common.set_pass(task.pass),
        }
        task.pass += STRIDE_1 / u64::from(task.tickets.clamp(1, MAX_TICKETS));
        Some(task.element)
    }
}

/// The timers of one worker.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Nanos, u64, u32, u32)>>,
    /// The valid entry of each (element, timer): its sequence number and time.
    armed: HashMap<(u32, u32), (u64, Nanos)>,
    sequence: u64,
    /// What [`Timers::next_at`] answered last, until something changes: it is asked once per round.
    next: Option<Option<Nanos>>,
    /// Gives the numbers where workers take turns.
    common: Option<Common>,
}

impl Timers {
    /// Timers of a worker that takes turns with others.
    pub(crate) fn in_common(common: Common) -> Timers {
        Timers { common: Some(common), ..Timers::default() }
    }

    /// Sets `timer` of `element` to expire at `at`, in place of its former time.
    pub(crate) fn set(&mut self, element: u32, timer: u32, at: Nanos) {
        self.sequence = self.common.as_ref().map_or(self.sequence + 1, Common::next_number);
        self.next = None;
        self.armed.insert((element, timer), (self.sequence, at));
        self.heap.push(Reverse((at, self.sequence, element, timer)));
    }

    pub(crate) fn clear(&mut self, element: u32, timer: u32) {
        self.armed.remove(&(element, timer));
        self.next = None;
    }

    pub(crate) fn expiry(&self, element: u32, timer: u32) -> Option<Nanos> {
        self.armed.get(&(element, timer)).map(|(_, at)| *at)
    }

    /// All that are set: number, element, timer, time.
    pub(crate) fn list(&self) -> Vec<(u64, u32, u32, Nanos)> {
        self.armed.iter().map(|((element, timer), (n, at))| (*n, *element, *timer, *at)).collect()
    }

    /// When the next timer expires.
    #[inline]
    pub(crate) fn next_at(&mut self) -> Option<Nanos> {
        match self.next {
            Some(known) => known,
            None => {
                let next = self.find_next();
                self.next = Some(next);
                next
            }
        }
    }

    /// When the next timer expires, and its number.
    pub(crate) fn next(&mut self) -> Option<(Nanos, u64)> {
        self.next_at()?;
        self.heap.peek().map(|Reverse(top)| (top.0, top.1))
    }

    fn find_next(&mut self) -> Option<Nanos> {
        while let Some(Reverse((at, sequence, element, timer))) = self.heap.peek() {
            if self.armed.get(&(*element, *timer)).is_some_and(|(s, _)| s == sequence) {
                return Some(*at);
            }
            self.heap.pop();
        }
        None
    }

    /// A mark before which all timers set so far lie, for [`Timers::pop_due`].
    pub(crate) fn mark(&self) -> u64 {
        self.common.as_ref().map_or(self.sequence, Common::number)
    }

    /// Takes one timer that has expired at `now`: element and timer. Timers set after `mark` wait for another time, or
    /// one that is set again and again for now would keep everything else from running.
    pub(crate) fn pop_due(&mut self, now: Nanos, mark: u64) -> Option<(u32, u32)> {
        if self.next_at()? > now || self.heap.peek().is_some_and(|Reverse(top)| top.1 > mark) {
            return None;
        }
        let Reverse((_, _, element, timer)) = self.heap.pop()?;
        self.next = None;
        self.armed.remove(&(element, timer));
        Some((element, timer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_are_shares() {
        let mut tasks = Tasks::default();
        for (element, tickets) in [(0, 1024), (1, 512), (2, 2048)] {
            tasks.add(element);
            tasks.set_scheduled(element, true);
            tasks.find(element).unwrap().tickets = tickets;
        }
        let mut runs = [0; 3];
        for _ in 0..700 {
            runs[tasks.next().unwrap() as usize] += 1;
        }
        for (ran, share) in runs.into_iter().zip([200i32, 100, 400]) {
            assert!((ran - share).abs() <= 2, "{runs:?}");
        }
        tasks.set_scheduled(2, false);
        assert!((0..100).all(|_| tasks.next() != Some(2)));
    }

    #[test]
    fn timers_expire_in_order_and_only_as_last_set() {
        let mut timers = Timers::default();
        timers.set(1, 0, 50);
        timers.set(2, 0, 10);
        timers.set(3, 0, 10);
        timers.set(1, 0, 20);
        timers.set(4, 7, 5);
        timers.clear(4, 7);
        assert_eq!(timers.next_at(), Some(10));
        assert_eq!((timers.pop_due(9, 99), timers.pop_due(10, 99)), (None, Some((2, 0))));
        assert_eq!((timers.pop_due(30, 99), timers.pop_due(30, 99)), (Some((3, 0)), Some((1, 0))));
        assert_eq!((timers.pop_due(99, 99), timers.next_at()), (None, None));
        let mark = timers.mark();
        timers.set(1, 0, 5);
        assert_eq!((timers.pop_due(9, mark), timers.pop_due(9, timers.mark())), (None, Some((1, 0))));
    }
}
