// SPDX-License-Identifier: MIT OR Apache-2.0
//! From routes, which nest, to runs, which do not: one pass from the lowest key to the highest with a stack of the
//! routes that contain the current key. Where the runs are too many for a chunk, they are cut into pieces.

use super::{DEEP, LEAF_NONE};
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

/// Sorts; of equals the last remains.
pub(super) fn settle<T, K: Ord>(list: &mut Vec<T>, order: impl Fn(&T) -> K) {
    if !list.is_sorted_by(|a, b| order(a) < order(b)) {
        list.reverse();
        list.sort_by_key(&order);
        list.dedup_by_key(|item| order(item));
    }
}

/// Sets or clears a route in a list of routes that all contain one key, which is sorted by length.
pub(super) fn set_cover(covers: &mut Vec<Route>, route: Route, present: bool) {
    match (covers.binary_search_by_key(&route.len, |cover| cover.len), present) {
        (Ok(at), true) => covers[at] = route,
        (Ok(at), false) => _ = covers.remove(at),
        (Err(at), true) => covers.insert(at, route),
        (Err(_), false) => {}
    }
}

/// A stretch of keys with one answer; it ends where the next begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub start: u64,
    /// Sixteen bits; more only in what stands for "none before".
    leaf: u32,
}

impl Run {
    const NOTHING: Self = Self { start: 0, leaf: u32::MAX };

    pub(super) fn leaf(self) -> u16 {
        self.leaf as u16
    }
}

/// How much goes into a piece at most. Routes that begin at one key stay together, even if they are more.
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
    /// Its runs; the first may begin before the piece.
    pub runs: Range<usize>,
    /// All runs but the first begin at multiples of two to the power of this.
    pub shift: u8,
}

/// The result of a pass, and its working memory.
#[derive(Default)]
pub(super) struct Sweep {
    /// What follows the last is left over.
    runs: Vec<Run>,
    count: usize,
    pub pieces: Vec<Piece>,
}

impl Sweep {
    /// The runs of the last pass.
    pub(super) fn runs(&self) -> &[Run] {
        &self.runs[..self.count]
    }

    /// Sweeps the keys `start` to `last`, in which `routes` (sorted) begin and of which `covers` contain the first.
    pub(super) fn sweep(&mut self, start: u64, last: u64, covers: &[Route], routes: &[Route], fill: Fill) {
        self.flatten(start, last, covers, routes);
        self.pieces.clear();
        let runs = self.runs();
        let shift = shift_of(low_bits(&runs[1..]));
        if runs.len() <= fill.runs && routes.len() <= fill.routes && fits(start, last, shift) {
            let (routes, runs) = (0..routes.len(), 0..runs.len());
            self.pieces.push(Piece { start, covers: covers.to_vec(), routes, runs, shift });
        } else {
            self.cut(start, last, covers, routes, fill);
        }
    }

    /// Finds the runs. Neighbours have different leaves.
    pub(super) fn flatten(&mut self, start: u64, last: u64, covers: &[Route], routes: &[Route]) {
        let most = 2 + covers.len() + 2 * routes.len();
        if self.runs.len() < most {
            self.runs.resize(most, Run::NOTHING);
        }
        let mut found = Found { runs: &mut self.runs, count: 0, leaf: Run::NOTHING.leaf };
        let mut stack = Stack::new();
        covers.iter().for_each(|route| stack.push(route.last(), route.leaf.into()));
        let next_key = |at: usize| routes.get(at).map(|route| route.key);
        found.emit(start, stack.top.1, next_key(0) != Some(start));
        for (at, route) in routes.iter().enumerate() {
            while stack.top.0 < route.key {
                let end = stack.pop();
                found.emit(end + 1, stack.top.1, (end + 1 != route.key) & (stack.top.0 != end));
            }
            let above = stack.top.1;
            let leaf = if route.len == MARKER { u32::from(DEEP) | above } else { route.leaf.into() };
            found.emit(route.key, leaf, next_key(at + 1) != Some(route.key));
            stack.push(route.last(), leaf);
        }
        while stack.top.0 < last {
            let end = stack.pop();
            found.emit(end + 1, stack.top.1, stack.top.0 != end);
        }
        self.count = found.count;
    }

    /// Cuts the runs into pieces. Each begins at the roundest key between half full and full, so that few bits of a key find
    /// the piece it lies in.
    fn cut(&mut self, start: u64, last: u64, covers: &[Route], routes: &[Route], fill: Fill) {
        let runs = &self.runs[..self.count];
        let (mut start, mut covers) = (start, covers.to_vec());
        // The run that `start` lies in, and the first route that begins there or behind.
        let (mut run, mut route) = (0, 0);
        loop {
            let rest = Rest { runs: &runs[run..], routes: &routes[route..], start, last };
            let next = rest.piece_end(fill);
            let (runs_here, routes_here) = match next {
                Some(next) => (
                    rest.runs.partition_point(|run| run.start < next),
                    rest.routes.partition_point(|route| route.key < next),
                ),
                None => (rest.runs.len(), rest.routes.len()),
            };
            let (piece_runs, piece_routes) = (run..run + runs_here, route..route + routes_here);
            let shift = shift_of(low_bits(&runs[piece_runs.start + 1..piece_runs.end]));
            let known = covers.iter().chain(&routes[piece_routes.clone()]);
            let reach = |next: u64| -> Vec<Route> {
                known.filter(|route| route.len != MARKER && route.contains(next)).copied().collect()
            };
            let ahead = next.map(|next| (next, reach(next)));
            (run, route) = (piece_runs.end, piece_routes.end);
            self.pieces.push(Piece { start, covers, routes: piece_routes, runs: piece_runs, shift });
            let Some(ahead) = ahead else { return };
            (start, covers) = ahead;
            if runs.get(run).is_none_or(|run| run.start > start) {
                run -= 1;
            }
        }
    }
}

/// What is to be cut still: the first run lies at `start` or reaches beyond it; the routes begin there or behind.
struct Rest<'a> {
    runs: &'a [Run],
    routes: &'a [Route],
    start: u64,
    last: u64,
}

impl Rest<'_> {
    /// Where the piece that begins at `start` ends; none if it takes all.
    fn piece_end(&self, fill: Fill) -> Option<u64> {
        // A piece ends behind `low` and not behind `high`.
        let mut high = self.runs.get(fill.runs).map(|run| run.start);
        if let Some(too_many) = self.routes.get(fill.routes) {
            let at = match too_many.key {
                key if key > self.start => Some(key),
                _ => self.routes[fill.routes..]
                    .iter()
                    .find(|route| route.key > self.start)
                    .map(|route| route.key),
            };
            high = high.into_iter().chain(at).min();
        }
        let before = |high: Option<u64>| {
            high.map_or(self.runs.len(), |high| self.runs.partition_point(|run| run.start < high))
        };
        let runs = &self.runs[..before(high)];
        let mut low = self.start;
        if high.is_some() {
            low = low.max(runs[runs.len() / 2].start);
            let routes = self.routes.partition_point(|route| Some(route.key) < high);
            low = self.routes[..routes].get(routes / 2).map_or(low, |route| low.max(route.key));
        }
        let end = high.map_or(self.last, |high| high - 1);
        if !fits(self.start, end, shift_of(low_bits(&runs[1..]))) {
            let (low, high) = self.narrow(runs);
            return Some(roundest(low, high));
        }
        high.map(|high| roundest(low, high))
    }

    /// Limits for the end of a piece of `runs`, as far as 32 bits tell its keys apart.
    fn narrow(&self, runs: &[Run]) -> (u64, u64) {
        // The greatest key of a piece that loses `shift` bits.
        let most = |shift: u8| self.start | !block(shift);
        let mut low = self.start;
        let mut bits = 0;
        for run in &runs[1..] {
            if run.start > most(shift_of(bits | run.start)) {
                // The next piece shall hold this run, for which it may begin no earlier than this.
                let first = run.start & block(shift_of(run.start));
                let high = run.start.min(most(shift_of(bits)).saturating_add(1));
                if (low + 1..=high).contains(&first) {
                    low = first - 1;
                }
                return (low, high);
            }
            bits |= run.start;
            low = low.max(run.start);
        }
        (low, most(shift_of(bits)).saturating_add(1))
    }
}

/// The multiple of the greatest power of two above `low` and not above `high`.
fn roundest(low: u64, high: u64) -> u64 {
    let differ = low ^ high;
    high & (u64::MAX << differ.ilog2())
}

/// All starts, or-ed.
fn low_bits(runs: &[Run]) -> u64 {
    runs.iter().fold(0, |bits, run| bits | run.start)
}

/// The routes that contain the current key: their last keys and leaves.
struct Stack {
    top: (u64, u32),
    below: [(u64, u32); Self::ROOM],
    depth: usize,
}

impl Stack {
    /// A power of two above the 66 that may contain a key.
    const ROOM: usize = 128;

    fn new() -> Self {
        Self { top: (u64::MAX, LEAF_NONE.into()), below: [(0, 0); Self::ROOM], depth: 0 }
    }

    #[inline(always)]
    fn push(&mut self, last: u64, leaf: u32) {
        self.below[self.depth % Self::ROOM] = self.top;
        self.depth += 1;
        self.top = (last, leaf);
    }

    /// Takes the top off; its last key.
    #[inline(always)]
    fn pop(&mut self) -> u64 {
        let (last, _) = self.top;
        self.depth -= 1;
        self.top = self.below[self.depth % Self::ROOM];
        last
    }
}

/// The runs of a pass so far.
struct Found<'a> {
    runs: &'a mut [Run],
    count: usize,
    /// The last one's.
    leaf: u32,
}

impl Found<'_> {
    /// From `start` on the answer is `leaf`, if nothing else is said of `start` later (`lasts`). Without branches: neither that nor
    /// whether it is another answer than before is predictable.
    #[inline(always)]
    fn emit(&mut self, start: u64, leaf: u32, lasts: bool) {
        self.runs[self.count] = Run { start, leaf };
        self.count += usize::from(lasts & (leaf != self.leaf));
        self.leaf = if lasts { leaf } else { self.leaf };
    }
}

/// The greatest shift that loses none of the bits.
fn shift_of(low_bits: u64) -> u8 {
    low_bits.trailing_zeros().min(63) as u8
}

/// Whether 32 bits tell the keys of a chunk apart.
fn fits(start: u64, last: u64, shift: u8) -> bool {
    (start ^ last) & block(shift) == 0
}

/// The bits above 32 that follow `shift` lost ones.
fn block(shift: u8) -> u64 {
    u64::MAX.checked_shl(u32::from(shift) + u32::BITS).unwrap_or(0)
}
