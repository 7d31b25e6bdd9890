// SPDX-License-Identifier: MIT OR Apache-2.0
//! From routes, which nest, to runs, which do not: one pass from the lowest key to the highest with a stack of the
//! routes that contain the current key. Where the runs are too many for a chunk, a second pass cuts them into pieces.

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

/// How much goes into a piece before the next is begun. Routes that begin at one key stay together, even if they are more.
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
    /// Behind one that is none. What follows the last is left over.
    runs: Vec<Run>,
    count: usize,
    /// The routes that contain the current key: their last keys and leaves.
    stack: Vec<(u64, u32)>,
    pub pieces: Vec<Piece>,
}

impl Sweep {
    /// The runs of the last pass.
    pub(super) fn runs(&self) -> &[Run] {
        &self.runs[1..self.count]
    }

    /// Sweeps the keys `start` to `last`, in which `routes` (sorted) begin and of which `covers` contain the first.
    pub(super) fn sweep(&mut self, start: u64, last: u64, covers: &[Route], routes: &[Route], fill: Fill) {
        self.flatten(start, last, covers, routes);
        self.pieces.clear();
        let runs = self.runs();
        let shift = shift_of(runs[1..].iter().fold(0, |bits, run| bits | run.start));
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
        self.runs[0] = Run::NOTHING;
        let mut found = Found { runs: &mut self.runs, count: 1, last: Run::NOTHING };
        let stack = &mut self.stack;
        stack.clear();
        stack.push((u64::MAX, LEAF_NONE.into()));
        stack.extend(covers.iter().map(|route| (route.last(), u32::from(route.leaf))));
        found.emit(start, stack[stack.len() - 1].1);
        for route in routes {
            let (_, above) = ended(stack, &mut found, route.key);
            let leaf = if route.len == MARKER { u32::from(DEEP) | above } else { route.leaf.into() };
            found.emit(route.key, leaf);
            stack.push((route.last(), leaf));
        }
        while let Some((end, _)) = stack.pop().filter(|(end, _)| *end < last) {
            found.emit(end + 1, stack[stack.len() - 1].1);
        }
        self.count = found.count;
    }

    /// Cuts the runs into pieces, each as full as may be.
    fn cut(&mut self, start: u64, last: u64, covers: &[Route], routes: &[Route], fill: Fill) {
        let runs = &self.runs[1..self.count];
        let mut cutter = Cutter { pieces: &mut self.pieces, routes, low_bits: 0 };
        cutter.open(start, 0, 0, covers.to_vec());
        // Routes that begin before the run at hand.
        let (mut at, mut from) = (1, 0);
        let mut opened = true;
        while at < runs.len() {
            if std::mem::take(&mut opened) {
                let skipped = cutter.skip(runs, at, last, fill);
                if skipped > at {
                    at = skipped;
                    let start = runs[at - 1].start;
                    from += routes[from..].iter().take(fill.routes).take_while(|r| r.key < start).count();
                    continue;
                }
            }
            let run = &runs[at];
            let before = from;
            while routes.get(from).is_some_and(|route| route.key < run.start) {
                from += 1;
            }
            cutter.cut_many(at, before..from, runs[at - 1].start, fill);
            let end = runs.get(at + 1).map_or(last, |next| next.start - 1);
            let piece = cutter.piece();
            let low_bits = cutter.low_bits | run.start;
            let room = at - piece.runs.start < fill.runs && from - piece.routes.start < fill.routes;
            if room && fits(piece.start, end, shift_of(low_bits)) {
                cutter.low_bits = low_bits;
            } else {
                cutter.next(run.start, at, at, from);
                opened = true;
            }
            at += 1;
        }
        let rest = from..routes.len();
        cutter.cut_many(runs.len(), rest, runs[runs.len() - 1].start, fill);
        cutter.close(runs.len(), routes.len());
    }
}

/// Takes the routes that end before `key` off the stack; the one that is on top then.
#[inline(always)]
fn ended(stack: &mut Vec<(u64, u32)>, found: &mut Found<'_>, key: u64) -> (u64, u32) {
    let mut top = stack[stack.len() - 1];
    while top.0 < key {
        stack.pop();
        let end = top.0;
        top = stack[stack.len() - 1];
        found.emit(end + 1, top.1);
    }
    top
}

/// The runs of a pass so far.
struct Found<'a> {
    runs: &'a mut [Run],
    count: usize,
    /// The last one, which the next step so need not wait to read.
    last: Run,
}

impl Found<'_> {
    /// From `start` on the answer is `leaf`, whatever was said of `start` before. Without branches: neither is predictable.
    #[inline(always)]
    fn emit(&mut self, start: u64, leaf: u32) {
        let again = self.last.start == start && self.last.leaf != Run::NOTHING.leaf;
        let before = self.runs[self.count.saturating_sub(2)];
        let below = if again { before } else { self.last };
        let (at, changes) = (self.count - usize::from(again), below.leaf != leaf);
        let run = Run { start, leaf };
        self.runs[at] = run;
        self.last = if changes { run } else { below };
        self.count = at + usize::from(changes);
    }
}

struct Cutter<'a> {
    pieces: &'a mut Vec<Piece>,
    routes: &'a [Route],
    /// All starts of the piece's runs but the first, or-ed.
    low_bits: u64,
}

impl Cutter<'_> {
    fn piece(&self) -> &Piece {
        self.pieces.last().expect("one is opened at the first key")
    }

    fn open(&mut self, start: u64, run: usize, from: usize, covers: Vec<Route>) {
        self.low_bits = 0;
        self.pieces.push(Piece { start, covers, routes: from..from, runs: run..run, shift: 0 });
    }

    fn close(&mut self, runs: usize, routes: usize) {
        let shift = shift_of(self.low_bits);
        let piece = self.pieces.last_mut().expect("one is opened at the first key");
        piece.routes.end = routes;
        piece.runs.end = runs;
        piece.shift = shift;
    }

    /// Ends the piece before `start`, with `runs` runs done, and begins the next with run `run` and route `from`.
    fn next(&mut self, start: u64, runs: usize, run: usize, from: usize) {
        self.close(runs, from);
        let piece = self.piece();
        let known = piece.covers.iter().chain(&self.routes[piece.routes.clone()]);
        let covers = known.filter(|route| route.len != MARKER && route.contains(start)).copied().collect();
        self.open(start, run, from, covers);
    }

    /// Where the runs from `at` on end that surely go into the piece, taken together: all that one by one would, or half of them, or a
    /// quarter... None of them needs a cut, for the routes before the last of them are fewer than a piece may have.
    fn skip(&mut self, runs: &[Run], at: usize, last: u64, fill: Fill) -> usize {
        let piece = self.piece();
        let (first, start) = (piece.routes.start, piece.start);
        let mut to = runs.len().min(piece.runs.start + fill.runs).max(at);
        if let Some(too_many) = self.routes.get(first + fill.routes - 1) {
            to = at + runs[at..to].partition_point(|run| run.start <= too_many.key);
        }
        while to > at {
            let low_bits = runs[at..to].iter().fold(self.low_bits, |bits, run| bits | run.start);
            let end = runs.get(to).map_or(last, |next| next.start - 1);
            if fits(start, end, shift_of(low_bits)) {
                self.low_bits = low_bits;
                break;
            }
            to = at + (to - at) / 2;
        }
        to
    }

    /// Cuts where too many routes begin within one run: the one before `at`, which begins at `start` and in which `inside` begin.
    fn cut_many(&mut self, at: usize, inside: Range<usize>, start: u64, fill: Fill) {
        for from in inside {
            let key = self.routes[from].key;
            let first = from == 0 || self.routes[from - 1].key != key;
            if first && key > start && from - self.piece().routes.start >= fill.routes {
                self.next(key, at, at - 1, from);
            }
        }
    }
}

/// The greatest shift that loses none of the bits.
fn shift_of(low_bits: u64) -> u8 {
    low_bits.trailing_zeros().min(63) as u8
}

/// Whether 32 bits tell the keys of a chunk apart.
fn fits(start: u64, last: u64, shift: u8) -> bool {
    (last >> shift) - (start >> shift) <= u64::from(u32::MAX)
}
