// SPDX-License-Identifier: MIT OR Apache-2.0
//! A worker's tasks, by stride scheduling (Waldspurger and Weihl, 1995), and its timers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Nanos;
use element::{DEFAULT_TICKETS, MAX_TICKETS};
use element::{ElementId, Target};

/// What the schedules of workers on simulated time have in common: numbers of timers, and the pass of tasks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Common {
    sequence: Arc<AtomicU64>,
    pass: Arc<AtomicU64>,
}

impl Common {
    pub(crate) fn next_number(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn number(&self) -> u64 {
        self.sequence.load(Ordering::Relaxed)
    }

    pub(crate) fn pass(&self) -> u64 {
        self.pass.load(Ordering::Relaxed)
    }

    pub(crate) fn set_pass(&self, pass: u64) {
        self.pass.store(pass, Ordering::Relaxed);
    }
}

const STRIDE_1: u64 = 1 << 16;

#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) element: ElementId,
    pub(crate) scheduled: bool,
    pub(crate) tickets: u32,
    pass: u64,
    /// The pass with which it lies in the heap, if it does.
    queued: Option<u64>,
}

/// From so many tasks on, the next one is found by the heap.
const MANY: usize = 32;

/// The tasks of one worker. The next one of a few is found by looking at all, of many by a heap.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    /// Ascending by element.
    tasks: Vec<Task>,
    /// How many of them are scheduled.
    scheduled: usize,
    /// Passes and elements of the scheduled ones, if tasks are many. An entry of which the task has gone on, or out of line, is skipped.
    line: BinaryHeap<Reverse<(u64, ElementId)>>,
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

    pub(crate) fn add(&mut self, element: ElementId) {
        if self.find(element).is_none() {
            let pass = self.pass();
            self.insert(Task { element, scheduled: false, tickets: DEFAULT_TICKETS, pass, queued: None });
        }
    }

    /// In the order of elements: of tasks that are due alike, the first is next, also after some have come from elsewhere.
    fn insert(&mut self, task: Task) {
        let at = self.tasks.partition_point(|t| t.element < task.element);
        self.scheduled += usize::from(task.scheduled);
        self.tasks.insert(at, Task { queued: None, ..task });
        match self.tasks.len() {
            MANY => (0..MANY).for_each(|at| self.enqueue(at)),
            _ => self.enqueue(at),
        }
    }

    /// Puts the task in this place into the heap, if it is scheduled and not there.
    fn enqueue(&mut self, at: usize) {
        let many = self.tasks.len() >= MANY;
        let task = &mut self.tasks[at];
        if many && task.scheduled && task.queued != Some(task.pass) {
            task.queued = Some(task.pass);
            self.line.push(Reverse((task.pass, task.element)));
        }
    }

    fn place(&self, element: ElementId) -> Option<usize> {
        self.tasks.binary_search_by_key(&element, |t| t.element).ok()
    }

    /// Takes a task out, to be given to another worker.
    pub(crate) fn release(&mut self, element: ElementId) -> Option<Task> {
        let at = self.place(element)?;
        let task = self.tasks.remove(at);
        self.scheduled -= usize::from(task.scheduled);
        if self.tasks.len() < MANY {
            self.line.clear();
            self.tasks.iter_mut().for_each(|t| t.queued = None);
        }
        Some(task)
    }

    /// Takes over a task. It is neither ahead of those that are here, nor behind.
    pub(crate) fn adopt(&mut self, mut task: Task) {
        if self.common.is_none() {
            task.pass = self.pass;
        }
        self.release(task.element);
        self.insert(task);
    }

    /// Elements that have a task here.
    pub(crate) fn elements(&self) -> Vec<ElementId> {
        self.tasks.iter().map(|t| t.element).collect()
    }

    /// Goes on counting where another schedule has stopped.
    pub(crate) fn go_on_from(&mut self, other: &Tasks) {
        self.pass = other.pass;
    }

    pub(crate) fn find(&mut self, element: ElementId) -> Option<&mut Task> {
        let at = self.place(element)?;
        Some(&mut self.tasks[at])
    }

    /// Puts the task in line, or takes it out. Returns whether the element has a task here.
    pub(crate) fn set_scheduled(&mut self, element: ElementId, scheduled: bool) -> bool {
        let pass = self.pass();
        let Some(at) = self.place(element) else { return false };
        let task = &mut self.tasks[at];
        let before = std::mem::replace(&mut task.scheduled, scheduled);
        if scheduled && !before {
            task.pass = task.pass.max(pass);
        }
        self.scheduled = self.scheduled + usize::from(scheduled) - usize::from(before);
        self.enqueue(at);
        true
    }

    pub(crate) fn scheduled(&self) -> usize {
        self.scheduled
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
    pub(crate) fn peek(&mut self) -> Option<(u64, ElementId)> {
        let at = self.first()?;
        let task = &self.tasks[at];
        Some((task.pass, task.element))
    }

    /// Where the task lies that is due first.
    #[inline]
    fn first(&mut self) -> Option<usize> {
        if self.tasks.len() >= MANY {
            return self.first_of_many();
        }
        let scheduled = self.tasks.iter().enumerate().filter(|(_, t)| t.scheduled);
        scheduled.min_by_key(|(_, t)| t.pass).map(|(at, _)| at)
    }

    #[inline(never)]
    fn first_of_many(&mut self) -> Option<usize> {
        while let Some(Reverse((pass, element))) = self.line.peek().copied() {
            // Of entries with one pass, only that counts which the task knows of.
            let Some(at) = self.place(element).filter(|at| self.tasks[*at].queued == Some(pass)) else {
                self.line.pop();
                continue;
            };
            let task = &mut self.tasks[at];
            if task.scheduled && task.pass == pass {
                return Some(at);
            }
            task.queued = None;
            self.line.pop();
        }
        None
    }

    /// Elements whose tasks are in line.
    pub(crate) fn in_line(&self) -> Vec<ElementId> {
        self.tasks.iter().filter(|t| t.scheduled).map(|t| t.element).collect()
    }

    /// The element whose task is due, if any; charges it for one run.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<ElementId> {
        let at = self.first()?;
        let task = &mut self.tasks[at];
        match &self.common {
            None => self.pass = task.pass,
            Some(common) => common.set_pass(task.pass),
        }
        task.pass += STRIDE_1 / u64::from(task.tickets.clamp(1, MAX_TICKETS));
        let element = task.element;
        self.enqueue(at);
        Some(element)
    }
}

/// A timer: whose it is, and which of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timer {
    /// Whose it is.
    pub of: Target,
    /// Its number there.
    pub timer: u32,
}

/// A timer that is set. Those with the lower numbers were set first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Armed {
    /// Rises with each timer that is set.
    pub number: u64,
    /// Which one.
    pub timer: Timer,
    /// When it expires.
    pub at: Nanos,
}

/// The timers of one worker.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Nanos, u64, Timer)>>,
    /// The valid entry of each timer: its sequence number and time.
    armed: HashMap<Timer, (u64, Nanos)>,
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

    /// Sets a timer to expire at `at`, in place of its former time.
    pub(crate) fn set(&mut self, of: impl Into<Target>, timer: u32, at: Nanos) {
        let timer = Timer { of: of.into(), timer };
        self.sequence = self.common.as_ref().map_or(self.sequence + 1, Common::next_number);
        self.next = None;
        self.armed.insert(timer, (self.sequence, at));
        self.heap.push(Reverse((at, self.sequence, timer)));
    }

    pub(crate) fn clear(&mut self, of: impl Into<Target>, timer: u32) {
        self.armed.remove(&Timer { of: of.into(), timer });
        self.next = None;
    }

    pub(crate) fn expiry(&self, of: impl Into<Target>, timer: u32) -> Option<Nanos> {
        self.armed.get(&Timer { of: of.into(), timer }).map(|(_, at)| *at)
    }

    /// All that are set.
    pub(crate) fn list(&self) -> Vec<Armed> {
        let armed = self.armed.iter();
        armed.map(|(timer, (number, at))| Armed { number: *number, timer: *timer, at: *at }).collect()
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
        while let Some(Reverse((at, sequence, timer))) = self.heap.peek() {
            if self.armed.get(timer).is_some_and(|(s, _)| s == sequence) {
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

    /// Takes one timer that has expired at `now`. Timers set after `mark` wait for another time, or
    /// one that is set again and again for now would keep everything else from running.
    pub(crate) fn pop_due(&mut self, now: Nanos, mark: u64) -> Option<Timer> {
        if self.next_at()? > now || self.heap.peek().is_some_and(|Reverse(top)| top.1 > mark) {
            return None;
        }
        let Reverse((_, _, timer)) = self.heap.pop()?;
        self.next = None;
        self.armed.remove(&timer);
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use element::first_ids;

    fn timer(element: usize, timer: u32) -> Option<Timer> {
        Some(Timer { of: Target::Element(ElementId::new(element)), timer })
    }

    #[test]
    fn tickets_are_shares() {
        let mut tasks = Tasks::default();
        for (element, tickets) in [(0, 1024), (1, 512), (2, 2048)] {
            let element = ElementId::new(element);
            tasks.add(element);
            tasks.set_scheduled(element, true);
            tasks.find(element).unwrap().tickets = tickets;
        }
        let mut runs = [0; 3];
        for _ in 0..700 {
            runs[tasks.next().unwrap().index()] += 1;
        }
        for (ran, share) in runs.into_iter().zip([200i32, 100, 400]) {
            assert!((ran - share).abs() <= 2, "{runs:?}");
        }
        tasks.set_scheduled(ElementId::new(2), false);
        assert!((0..100).all(|_| tasks.next() != Some(ElementId::new(2))));
    }

    /// The heap of many tasks gives the order that looking at all gives.
    #[test]
    fn many_tasks_run_in_the_order_of_few() {
        let mut tasks = Tasks::default();
        let mut plain: Vec<(u64, bool, u64)> = Vec::new();
        let stride = |tickets: u64| STRIDE_1 / tickets;
        let mut random = fastrand::Rng::with_seed(1);
        for element in first_ids(3 * MANY) {
            let tickets = random.u64(1..2000);
            tasks.add(element);
            tasks.find(element).unwrap().tickets = tickets as u32;
            plain.push((0, false, tickets));
        }
        let mut pass = 0;
        for _ in 0..20_000 {
            let element = random.usize(0..plain.len());
            let on = random.bool();
            tasks.set_scheduled(ElementId::new(element), on);
            let task = &mut plain[element];
            task.0 = if on && !task.1 { task.0.max(pass) } else { task.0 };
            task.1 = on;
            let due = plain.iter_mut().enumerate().filter(|(_, t)| t.1).min_by_key(|(_, t)| t.0);
            let expected = due.map(|(e, t)| {
                pass = t.0;
                t.0 += stride(t.2);
                ElementId::new(e)
            });
            assert_eq!(tasks.next(), expected);
            assert_eq!(tasks.scheduled(), plain.iter().filter(|t| t.1).count());
        }
        assert!(tasks.line.len() <= 2 * plain.len(), "{} entries", tasks.line.len());
        for element in first_ids::<ElementId>(2 * MANY + 1) {
            let task = tasks.release(element).expect("a task");
            plain[element.index()].1 = false;
            assert_eq!(task.element, element);
        }
        assert_eq!(tasks.scheduled(), plain.iter().filter(|t| t.1).count());
        assert!(tasks.line.is_empty());
    }

    #[test]
    fn timers_expire_in_order_and_only_as_last_set() {
        let mut timers = Timers::default();
        timers.set(ElementId::new(1), 0, 50);
        timers.set(ElementId::new(2), 0, 10);
        timers.set(ElementId::new(3), 0, 10);
        timers.set(ElementId::new(1), 0, 20);
        timers.set(ElementId::new(4), 7, 5);
        timers.clear(ElementId::new(4), 7);
        assert_eq!(timers.next_at(), Some(10));
        assert_eq!((timers.pop_due(9, 99), timers.pop_due(10, 99)), (None, timer(2, 0)));
        assert_eq!((timers.pop_due(30, 99), timers.pop_due(30, 99)), (timer(3, 0), timer(1, 0)));
        assert_eq!((timers.pop_due(99, 99), timers.next_at()), (None, None));
        let mark = timers.mark();
        timers.set(ElementId::new(1), 0, 5);
        assert_eq!((timers.pop_due(9, mark), timers.pop_due(9, timers.mark())), (None, timer(1, 0)));
    }
}
