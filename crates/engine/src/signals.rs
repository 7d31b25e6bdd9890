// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which elements want which signals of the process.
//!
//! The engine catches no signals: the program does, and posts them by [`Control::signal`](crate::Control::signal).

use std::sync::{Mutex, MutexGuard};

use element::ElementId;

/// One element's interest in one signal. It stays in the list when it lapses, so that the program goes on catching
/// the signal and can do in the element's place what the signal does by default.
#[derive(Clone, Copy, Debug)]
struct Interest {
    signal: i32,
    element: ElementId,
    worker: usize,
    active: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Signals(Mutex<Vec<Interest>>);

impl Signals {
    fn list(&self) -> MutexGuard<'_, Vec<Interest>> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(crate) fn set(&self, signal: i32, element: ElementId, worker: usize, active: bool) {
        let mut list = self.list();
        match list.iter_mut().find(|i| i.signal == signal && i.element == element) {
            Some(interest) => interest.active = active,
            None => list.push(Interest { signal, element, worker, active }),
        }
    }

    /// The same for elements that have other homes.
    pub(crate) fn rehomed(&self, home: impl Fn(ElementId, usize) -> usize) -> Signals {
        let moved = |i: &Interest| Interest { worker: home(i.element, i.worker), ..*i };
        Signals(Mutex::new(self.list().iter().map(moved).collect()))
    }

    /// All signals that were ever of interest.
    pub(crate) fn known(&self) -> Vec<i32> {
        let mut signals: Vec<i32> = self.list().iter().map(|i| i.signal).collect();
        signals.sort_unstable();
        signals.dedup();
        signals
    }

    /// Elements that want a signal now, with their workers.
    pub(crate) fn takers(&self, signal: i32) -> Vec<(ElementId, usize)> {
        let list = self.list();
        list.iter().filter(|i| i.signal == signal && i.active).map(|i| (i.element, i.worker)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interest_comes_and_lapses() {
        let (signals, one, two) = (Signals::default(), ElementId::new(1), ElementId::new(2));
        signals.set(15, one, 0, true);
        signals.set(15, two, 1, true);
        signals.set(10, one, 0, true);
        signals.set(15, one, 0, false);
        assert_eq!((signals.known(), signals.takers(15)), (vec![10, 15], vec![(two, 1)]));
        signals.set(15, one, 0, true);
        assert_eq!((signals.takers(15), signals.takers(3)), (vec![(one, 0), (two, 1)], vec![]));
    }
}
