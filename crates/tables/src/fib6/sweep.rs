// SPDX-License-Identifier: MIT OR Apache-2.0
//! From routes, which nest, to runs, which do not: one pass from the lowest key to the highest with a stack of the
//! routes that contain the current key. On the way the runs are cut into pieces that fit a chunk.

use super::{DEEP, LEAF_NONE, chunk::MAX_RUNS};
use std::ops::Range;

/// A route within 64 bits of address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub key: u64,
    /// Up to 64; [`MARKER`] where `key` is a /64 that longer routes divide.
    pub len: u8,
    pub leaf: u16,
}

/// Sorts a divided /64 behind the route for just that /64.
pub(super) const MARKER: u8 = 65;

impl Route {
    pub(super) fn order(&self) -> (u64, u8) {
        (self.key, self.len)
    }

    /// Its greatest key.
    pub(super) fn last(&self) -> u64 {
        self.key | u64::MAX.checked_shr(self.len.into()).unwrap_or(0)
    }

    pub(super) fn contains(&self, key: u64) -> bool {
        (self.key..=self.last()).contains(&key)
    }
}

/// Sets or clears a route of a sorted list, and returns what it was.
pub(super) fn set(list: &mut Vec<Route>, key: u64, len: u8, leaf: Option<u16>) -> Option<u16> {
    match (list.binary_search_by_key(&(key, len), Route::order), leaf) {
        (Ok(at), Some(leaf)) => Some(std::mem::replace(&mut list[at].leaf, leaf)),
        (Ok(at), None) => Some(list.remove(at).leaf),
        (Err(at), Some(leaf)) => {
            list.insert(at, Route { key, len, leaf });
            None
        }
        (Err(_), None) => None,
    }
}

/// Sets or clears a route in a list of routes that all contain one key, which is sorted by length.
pub(super) fn set_cover(covers: &mut Vec<Route>, route: Route, present: bool) {
    match (covers.binary_search_by_key(&route.len, |cover| cover.len), present) {
        (Ok(at), true) => covers[at] = route,
        (Ok(at), false) => drop(covers.remove(at)),
        (Err(at), true) => covers.insert(at, route),
        (Err(_), false) => {}
    }
}

/// A stretch of keys with one answer; it ends where the next begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub start: u64,
    pub leaf: u16,
}

/// How much goes into a piece before the next is begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    pub routes: usize,
    pub runs: usize,
}

/// What one chunk is made of.
#[derive(Debug)]
pub(super) struct Piece {
    pub start: u64,
    /// The routes that contain `start` and begin before it, shortest first.
    pub covers: Vec<Route>,
    /// Those of the routes swept that begin in the piece.
    pub routes: Range<usize>,
    pub runs: Range<usize>,
    /// All runs but the first begin at multiples of two to the power of this.
    pub shift: u8,
}

/// The result of a pass, and its working memory.
#[derive(Default)]
pub(super) struct Sweep {
    pub runs: Vec<Run>,
    pub pieces: Vec<Piece>,
    stack: Vec<(u64, Route)>,
    /// All starts of the piece's runs but the first, or-ed.
    low_bits: u64,
}

impl Sweep {
    /// Sweeps the keys `start` to `last`, in which `routes` (sorted) begin and of which `covers` contain the first.
    pub(super) fn sweep(&mut self, start: u64, last: u64, covers: &[Route], routes: &[Route], fill: Fill) {
        debug_assert!(fill.runs <= MAX_RUNS || fill.runs == usize::MAX);
        self.runs.clear();
        self.pieces.clear();
        self.stack.clear();
        self.stack.extend(covers.iter().map(|route| (route.last(), *route)));
        let (mut key, mut at) = (start, 0);
        loop {
            while self.stack.last().is_some_and(|(last, _)| *last < key) {
                self.stack.pop();
            }
            let from = at;
            let mut leaf = self.stack.last().map_or(LEAF_NONE, |(_, route)| route.leaf);
            while let Some(route) = routes.get(at).filter(|route| route.key == key) {
                leaf = if route.len == MARKER { DEEP | leaf } else { route.leaf };
                at += 1;
            }
            // Up to here the answer stays.
            let mut end = match at > from {
                true => routes[at - 1].last(),
                false => self.stack.last().map_or(u64::MAX, |(last, _)| *last),
            }
            .min(last);
            if let Some(route) = routes.get(at) {
                end = end.min(route.key - 1);
            }
            self.boundary(key, end, leaf, from, fill);
            for route in &routes[from..at] {
                let leaf = if route.len == MARKER { leaf } else { route.leaf };
                self.stack.push((route.last(), Route { leaf, ..*route }));
            }
            if end == last {
                break;
            }
            key = end + 1;
        }
        self.close(routes.len());
    }

    /// At `key`, and until `end`, the answer is `leaf`; `from` is the first route not before `key`.
    fn boundary(&mut self, key: u64, end: u64, leaf: u16, from: usize, fill: Fill) {
        if let Some(piece) = self.pieces.last() {
            let changes = self.runs.last().is_none_or(|run| run.leaf != leaf);
            let low_bits = if changes { self.low_bits | key } else { self.low_bits };
            let room = (!changes || self.runs.len() - piece.runs.start < fill.runs)
                && from - piece.routes.start < fill.routes;
            if room && fits(piece.start, end, shift(low_bits)) {
                self.low_bits = low_bits;
                if changes {
                    self.runs.push(Run { start: key, leaf });
                }
                return;
            }
            self.close(from);
        }
        self.low_bits = 0;
        self.pieces.push(Piece {
            start: key,
            covers: self.stack.iter().map(|(_, route)| *route).collect(),
            routes: from..from,
            runs: self.runs.len()..self.runs.len(),
            shift: 0,
        });
        self.runs.push(Run { start: key, leaf });
    }

    fn close(&mut self, routes: usize) {
        let piece = self.pieces.last_mut().expect("a sweep opens a piece at its first key");
        piece.routes.end = routes;
        piece.runs.end = self.runs.len();
        piece.shift = shift(self.low_bits);
    }
}

fn shift(low_bits: u64) -> u8 {
    low_bits.trailing_zeros().min(63) as u8
}

/// Whether 32 bits tell the keys of a chunk apart.
fn fits(start: u64, last: u64, shift: u8) -> bool {
    (last >> shift) - (start >> shift) <= u64::from(u32::MAX)
}
