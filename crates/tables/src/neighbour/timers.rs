// SPDX-License-Identifier: MIT OR Apache-2.0
//! Timers of neighbours: lists by owner and kind.
//!
//! All timers of one kind take the same time, so the one that is set last expires last, and a list in order of expiry is kept by putting new ones at
//! its end. (Where times were changed, or clocks of workers differ by a little, a new one passes by those that expire later.)

use crate::slab::{Id, List, Slab};

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimerKind {
    /// To ask again.
    Retransmit,
    /// To ask a neighbour that may have said something in the meantime.
    Delay,
}

/// When a neighbour's timer expires, and in which list it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    pub(super) at_ns: u64,
    owner: Id,
    kind: TimerKind,
}

/// Whose place in a table has a timer.
pub(super) trait Timed {
    fn timer(&self) -> Option<Timer>;
    fn set_timer(&mut self, timer: Option<Timer>);
}

/// The ends of the lists; their links are those of number `LIST` in the places of a table.
#[derive(Debug)]
pub(super) struct Timers<const LIST: usize> {
    owners: Slab<u32, [List; 2], 0>,
}

impl<const LIST: usize> Timers<LIST> {
    pub(super) fn new(seed: u64) -> Self {
        Timers { owners: Slab::new(seed) }
    }

    /// Sets a timer of a place that has none.
    pub(super) fn set<K, V, const N: usize>(
        &mut self,
        places: &mut Slab<K, V, N>,
        id: Id,
        owner: u32,
        kind: TimerKind,
        at_ns: u64,
    ) where
        K: Copy + Eq + std::hash::Hash,
        V: Default + Timed,
    {
        let owner = match self.owners.find(owner) {
            Some(owner) => owner,
            None => {
                let new = self.owners.add(owner);
                self.owners[new] = Default::default();
                new
            }
        };
        let list = &mut self.owners[owner][kind as usize];
        let mut before = list.last();
        while let Some(later) = before
            && places[later].timer().is_some_and(|timer| timer.at_ns > at_ns)
        {
            before = places.previous(LIST, later);
        }
        places.link_after(LIST, list, before, id);
        places[id].set_timer(Some(Timer { at_ns, owner, kind }));
    }

    /// Stops the timer of a place, if it has one.
    pub(super) fn stop<K, V, const N: usize>(&mut self, places: &mut Slab<K, V, N>, id: Id)
    where
        K: Copy + Eq + std::hash::Hash,
        V: Default + Timed,
    {
        if let Some(Timer { owner, kind, .. }) = places[id].timer() {
            places[id].set_timer(None);
            places.unlink(LIST, &mut self.owners[owner][kind as usize], id);
        }
    }

    /// The next timer of an owner to expire, and when.
    pub(super) fn next<K, V, const N: usize>(&self, places: &Slab<K, V, N>, owner: u32) -> Option<(u64, Id)>
    where
        K: Copy + Eq + std::hash::Hash,
        V: Default + Timed,
    {
        let lists = self.owners[self.owners.find(owner)?];
        let firsts = lists.iter().filter_map(List::first);
        firsts.filter_map(|id| Some((places[id].timer()?.at_ns, id))).min_by_key(|(at_ns, _)| *at_ns)
    }

    pub(super) fn clear(&mut self) {
        self.owners.clear();
    }
}
