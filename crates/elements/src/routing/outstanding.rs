// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a table has not taken from a feed, to be tried again when there may be room.
//!
//! A route that was refused stays here until it is placed, or the feed says something else about its prefix. At most [`MOST`] are kept;
//! beyond that a replay is needed, which [`lacks_some`](Outstanding::lacks_some) says once the others have been placed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::{Duration, Instant};

use super::Family;
use super::fed::FedChange;

/// Changes that are kept.
const MOST: usize = 1 << 18;
/// Changes that are tried at a time.
pub(super) const AT_ONCE: usize = 1024;
/// The wait before the next attempt: the shortest, and the longest.
const WAITS: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(64)];

/// See the module.
pub(super) struct Outstanding<F: Family> {
    changes: BTreeMap<(u8, F::Prefix), Option<u32>>,
    /// Objects whose new meaning the table of next hops has not taken.
    objects: BTreeSet<u32>,
    /// Where the next attempt goes on, so that each has its turn.
    next: Option<(u8, F::Prefix)>,
    /// Changes were refused that are not kept.
    has_lost: bool,
}

impl<F: Family> Default for Outstanding<F> {
    fn default() -> Self {
        Outstanding { changes: BTreeMap::new(), objects: BTreeSet::new(), next: None, has_lost: false }
    }
}

impl<F: Family> Clone for Outstanding<F> {
    fn clone(&self) -> Self {
        let Outstanding { changes, objects, next, has_lost } = self;
        Outstanding { changes: changes.clone(), objects: objects.clone(), next: *next, has_lost: *has_lost }
    }
}

impl<F: Family> Outstanding<F> {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.changes.len() + self.objects.len()
    }

    /// Whether changes were refused that are not kept, while all others have been placed.
    pub(super) fn lacks_some(&self) -> bool {
        self.has_lost && self.changes.is_empty()
    }

    /// The feed says something else about a prefix.
    pub(super) fn forget(&mut self, key: (u8, F::Prefix)) {
        if !self.changes.is_empty() {
            self.changes.remove(&key);
        }
    }

    /// The newest change of a prefix was refused.
    pub(super) fn refuse(&mut self, (key, number): FedChange<F>) {
        if self.changes.len() < MOST || self.changes.contains_key(&key) {
            self.changes.insert(key, number);
        } else {
            self.has_lost = true;
        }
    }

    /// Changes were refused that are older than those noted meanwhile.
    pub(super) fn refuse_all(&mut self, changes: Vec<FedChange<F>>) {
        for (key, number) in changes {
            if !self.changes.contains_key(&key) {
                self.refuse((key, number));
            }
        }
    }

    /// Notes whether the table has the newest meaning of an object.
    pub(super) fn note_object(&mut self, id: u32, is_taken: bool) {
        if !is_taken {
            self.objects.insert(id);
        } else if !self.objects.is_empty() {
            self.objects.remove(&id);
        }
    }

    /// Objects whose meaning is to be tried again.
    pub(super) fn objects(&self) -> Vec<u32> {
        self.objects.iter().take(AT_ONCE).copied().collect()
    }

    /// Takes some changes out, to try them again.
    pub(super) fn take_some(&mut self) -> Vec<FedChange<F>> {
        let from = self.next.map_or(Bound::Unbounded, Bound::Excluded);
        let later = self.changes.range((from, Bound::Unbounded));
        let taken: Vec<FedChange<F>> = later.take(AT_ONCE).map(|(key, number)| (*key, *number)).collect();
        self.next = (taken.len() == AT_ONCE).then(|| taken[AT_ONCE - 1].0);
        for (key, _) in &taken {
            self.changes.remove(key);
        }
        taken
    }
}

/// When to try again: after what may have made room at once, else at ever longer intervals.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    wait: Duration,
    next: Option<Instant>,
}

impl Default for Pace {
    fn default() -> Self {
        Pace { wait: WAITS[0], next: None }
    }
}

impl Pace {
    /// Whether it is time.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.next.is_none_or(|next| next <= now)
    }

    /// There may be room now.
    pub(super) fn hasten(&mut self) {
        *self = Pace::default();
    }

    /// An attempt was made at `now`; whether it placed anything.
    pub(super) fn tried(&mut self, now: Instant, has_placed: bool) {
        self.wait = if has_placed { WAITS[0] } else { (self.wait * 2).min(WAITS[1]) };
        self.next = Some(now + self.wait);
    }
}
