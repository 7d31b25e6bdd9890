// SPDX-License-Identifier: MIT OR Apache-2.0
//! Timers of an element that is one instance for several workers ([`Mode::Locked`](crate::Mode::Locked)): wherever they are
//! set, they expire on the element's home, once.

use std::sync::{Mutex, MutexGuard};

use crate::clock::Nanos;

/// When each timer expires. Only who holds the element's lock changes them, except for [`CommonTimers::due`].
#[derive(Debug, Default)]
pub struct CommonTimers(Mutex<Vec<(u32, Nanos)>>);

/// What is to be done with a timer that has expired on the home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// It is due.
    Now,
    /// It has been set again.
    At(Nanos),
    /// It has been cleared.
    Never,
}

impl CommonTimers {
    fn all(&self) -> MutexGuard<'_, Vec<(u32, Nanos)>> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// When a timer expires, if it is set.
    pub fn get(&self, timer: u32) -> Option<Nanos> {
        self.all().iter().find(|(t, _)| *t == timer).map(|(_, at)| *at)
    }

    /// All that are set.
    pub fn list(&self) -> Vec<(u32, Nanos)> {
        self.all().clone()
    }

    /// Sets a timer, or stops it.
    pub fn set(&self, timer: u32, at: Option<Nanos>) {
        let mut all = self.all();
        all.retain(|(t, _)| *t != timer);
        all.extend(at.map(|at| (timer, at)));
    }

    /// Takes a timer if it is due at `now`.
    pub fn due(&self, timer: u32, now: Nanos) -> Due {
        let mut all = self.all();
        match all.iter().position(|(t, _)| *t == timer) {
            None => Due::Never,
            Some(i) if all[i].1 > now => Due::At(all[i].1),
            Some(i) => {
                all.swap_remove(i);
                Due::Now
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_expires_as_it_was_last_set() {
        let timers = CommonTimers::default();
        timers.set(0, Some(5));
        timers.set(1, Some(7));
        timers.set(0, Some(9));
        assert_eq!((timers.get(0), timers.get(1), timers.get(2)), (Some(9), Some(7), None));
        assert_eq!(
            (timers.due(0, 5), timers.due(1, 7), timers.due(1, 7)),
            (Due::At(9), Due::Now, Due::Never)
        );
        timers.set(0, None);
        assert_eq!(timers.due(0, 100), Due::Never);
    }
}
