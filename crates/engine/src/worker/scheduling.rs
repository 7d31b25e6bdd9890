// SPDX-License-Identifier: MIT OR Apache-2.0
//! A worker's timers and tasks: which is due, and how elements set them, here and on other workers.

use std::sync::Arc;
use std::time::Duration;

use super::Worker;
use crate::clock::Nanos;
use crate::pulse::Doing;
use crate::schedule::Timer;
use crate::shared::{ALARM_TIMER, END_TIMER};
use element::timers::Due;
use element::{ElementId, Mode, Target};

impl Worker {
    /// Takes a timer that is due and was set before `mark`.
    #[inline]
    pub(super) fn due_timer(&mut self, mark: u64) -> Option<Timer> {
        self.timers.next_at()?;
        let now = self.clock.now();
        self.timers.pop_due(now, mark)
    }

    pub(super) fn run_timer(&mut self, Timer { of, timer }: Timer) {
        let Target::Element(element) = of else { return self.shared.on_timer(timer) };
        // An element of several workers has its timers in common, and may have changed them elsewhere.
        if let Some(timers) = &self.shared.elements[element].timers {
            match timers.due(timer, self.clock.now()) {
                Due::Now => {}
                Due::At(at) => return self.timers.set(element, timer, at),
                Due::Never => return,
            }
        }
        self.run_element(element, Doing::Timer, |instance, cx| {
            instance.run_timer(cx, timer);
            true
        });
    }

    /// Runs the timer that is next, if it is due; returns whose it was.
    pub(crate) fn run_due_timer(&mut self) -> Option<Target> {
        let timer = self.due_timer(u64::MAX)?;
        self.run_timer(timer);
        Some(timer.of)
    }

    /// When the next timer expires, and its number.
    pub(crate) fn next_timer(&mut self) -> Option<(Nanos, u64)> {
        self.timers.next()
    }

    /// Stops the router after so long, by its clock.
    pub(crate) fn stop_after(&mut self, limit: Duration) {
        // It may remember a time from its last run.
        self.clock.expire();
        self.set_router_timer(END_TIMER, limit);
    }

    /// Rings the router's alarm after so long, by its clock.
    pub(crate) fn set_alarm(&mut self, after: Duration) {
        self.set_router_timer(ALARM_TIMER, after);
    }

    pub(crate) fn clear_alarm(&mut self) {
        self.timers.clear(Target::Router, ALARM_TIMER);
    }

    fn set_router_timer(&mut self, timer: u32, after: Duration) {
        let at = self.clock.now().saturating_add(after.as_nanos() as u64);
        self.timers.set(Target::Router, timer, at);
    }

    /// Sets or clears a timer of an element.
    pub(super) fn set_timer(&mut self, element: ElementId, timer: u32, at: Option<Nanos>) {
        let is_common = self.shared.elements[element].timers.is_some();
        if is_common { self.set_common_timer(element, timer, at) } else { self.arm(element, timer, at) }
    }

    /// When a timer of an element expires.
    pub(super) fn timer(&self, element: ElementId, timer: u32) -> Option<Nanos> {
        match &self.shared.elements[element].timers {
            Some(common) => common.get(timer),
            None => self.timers.expiry(element, timer),
        }
    }

    /// Sets or clears a timer of an element that has them in common, on its home.
    fn set_common_timer(&mut self, element: ElementId, timer: u32, at: Option<Nanos>) {
        let shared = self.shared.clone();
        let Some(timers) = &shared.elements[element].timers else { return };
        timers.set(timer, at);
        let home = shared.home(element);
        if home == self.index {
            return self.arm(element, timer, at);
        }
        match self.peers.turns() {
            Some(turns) => {
                turns.with(home, |w| w.arm(element, timer, at));
            }
            None => {
                // The home reads the time when it reads this: it may have been changed again. A thread that moves the element to another home
                // meanwhile reads it, too.
                let meant = shared.clone();
                let message = Box::new(move |w: &mut Worker| {
                    if Arc::ptr_eq(&meant, &w.shared) {
                        let at = meant.elements[element].timers.as_ref().and_then(|t| t.get(timer));
                        w.arm(element, timer, at);
                    }
                });
                shared.mailboxes[home].post(message);
            }
        }
    }

    fn arm(&mut self, element: ElementId, timer: u32, at: Option<Nanos>) {
        match at {
            Some(at) => self.timers.set(element, timer, at),
            None => self.timers.clear(element, timer),
        }
    }

    /// Puts an element's task in line, or takes it out, wherever it is. Returns whether it has one.
    pub(super) fn set_scheduled(&mut self, element: ElementId, on: bool) -> bool {
        let place = &self.shared.elements[element].place;
        let home = place.home();
        if place.mode != Mode::Locked || home == self.index || place.tasks.is_empty() {
            return self.set_scheduled_here(element, on);
        }
        match self.peers.turns() {
            Some(turns) => turns.with(home, |w| w.set_scheduled_here(element, on)).is_some(),
            None => {
                let meant = self.shared.clone();
                let message = move |w: &mut Worker| {
                    if Arc::ptr_eq(&meant, &w.shared) {
                        w.set_scheduled_here(element, on);
                    } else if Arc::ptr_eq(&meant.lineage, &w.shared.lineage) {
                        // Its task has another home by now.
                        w.set_scheduled(element, on);
                    }
                };
                self.shared.mailboxes[home].post(Box::new(message))
            }
        }
    }

    fn set_scheduled_here(&mut self, element: ElementId, on: bool) -> bool {
        self.costs.set_scheduled(element, on);
        self.tasks.set_scheduled(element, on)
    }

    /// Tasks in line.
    pub(crate) fn scheduled(&self) -> usize {
        self.tasks.scheduled()
    }

    /// The task that is next: its pass and its element.
    pub(crate) fn peek_task(&mut self) -> Option<(u64, ElementId)> {
        self.tasks.peek()
    }

    /// The fewest and the most tickets of a task.
    pub(crate) fn tickets(&self) -> Option<(u32, u32)> {
        self.tasks.tickets()
    }

    /// Runs the task that is next.
    pub(crate) fn run_next_task(&mut self) -> bool {
        self.tasks.next().is_some_and(|element| self.run_task(element))
    }

    /// Runs every scheduled task once, without regard to tickets. Returns whether there was work.
    pub(crate) fn run_each_task(&mut self) -> bool {
        let tasks = self.tasks.in_line();
        tasks.into_iter().fold(false, |worked, element| self.run_task(element) | worked)
    }
}
