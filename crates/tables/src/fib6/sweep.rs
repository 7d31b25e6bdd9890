// SPDX-License-Identifier: MIT OR Apache-2.0
//! From routes, which nest, to runs, which do not: one pass from the lowest key to the highest with a stack of the
//! routes that contain the current key. Where the runs are too many for a chunk, they are cut into pieces.

use super::{DEEP, LEAF_NONE};
use std::{
    ops::{Deref, Range},
    sync::Arc,
};

/// A route within 64 bits of address. Packed, because the time to replace a large table is largely that of its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, packed(4))]
pub(super) struct Route {
    pub key: u64,
    /// Up to 64; [`MARKER`] where `key` is a /64 that longer routes divide.
    pub len: u8,
    pub leaf: u16,
}

const _: () = assert!(size_of::<Route>() == 12);

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

/// The routes that begin in a chunk, in order. A replacement of the whole table copies none of its routes: each chunk has its part of one
/// list, until a change gives it a list of its own.
pub(super) enum List {
    Part { all: Arc<Vec<Route>>, part: Range<usize> },
    Own(Vec<Route>),
}

impl List {
    /// The list as one that can be changed.
    pub(super) fn own(&mut self) -> &mut Vec<Route> {
        if let Self::Part { .. } = self {
            *self = Self::Own(self.to_vec());
        }
        match self {
            Self::Own(list) => list,
            Self::Part { .. } => unreachable!("made an own list above"),
        }
    }
}

impl Default for List {
    fn default() -> Self {
        Self::Own(Vec::new())
    }
}

impl Deref for List {
    type Target = [Route];

    fn deref(&self) -> &[Route] {
        match self {
            Self::Part { all, part } => &all[part.clone()],
            Self::Own(list) => list,
        }
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
    stack: Stack,
    pub pieces: Vec<Piece>,
}

/// How far the runs of a pass are cut into pieces.
#[derive(Default)]
pub(super) struct Cut {
    /// Where the next piece starts, and the routes that contain this key and begin before it.
    start: u64,
    covers: Vec<Route>,
    /// The run that `start` lies in.
    run: usize,
    /// The first route that begins at `start` or behind.
    route: usize,
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
        let mut cut = Cut { start, covers: covers.to_vec(), ..Cut::default() };
        self.cut(&mut cut, Some(last), routes, fill);
    }

    /// Finds the runs. Neighbours have different leaves.
    pub(super) fn flatten(&mut self, start: u64, last: u64, covers: &[Route], routes: &[Route]) {
        self.begin(start, covers, routes.first().map(|route| route.key));
        self.extend(routes, None);
        self.finish(last);
    }

    /// Begins a pass at `start`, which `covers` contain, and of which the first route begins at `next`.
    pub(super) fn begin(&mut self, start: u64, covers: &[Route], next: Option<u64>) {
        self.stack.clear();
        covers.iter().for_each(|route| self.stack.push(route.last(), route.leaf.into()));
        self.runs.resize(self.runs.len().max(1), Run::NOTHING);
        let mut found = Found { runs: &mut self.runs, count: 0, leaf: Run::NOTHING.leaf };
        found.emit(start, self.stack.top.1, next != Some(start));
        self.count = found.count;
    }

    /// Goes on over `routes`, behind which one begins at `next`: another key than that of the last one. Afterwards all runs up to
    /// the last one's key are found.
    pub(super) fn extend(&mut self, routes: &[Route], next: Option<u64>) {
        let Some(last) = routes.last() else { return };
        // For each route a run at its start and one at its end, and those at the ends of the routes on the stack.
        let most = 1 + self.count + self.stack.depth + 2 * routes.len();
        if self.runs.len() < most {
            self.runs.resize(2 * most, Run::NOTHING);
        }
        let leaf = if self.count > 0 { self.runs[self.count - 1].leaf } else { Run::NOTHING.leaf };
        let mut found = Found { runs: &mut self.runs, count: self.count, leaf };
        for pair in routes.windows(2) {
            found.route(&mut self.stack, pair[0], pair[0].key != pair[1].key);
        }
        found.route(&mut self.stack, *last, next != Some(last.key));
        self.count = found.count;
    }

    /// Ends the pass at the key `last`.
    pub(super) fn finish(&mut self, last: u64) {
        let most = 1 + self.count + self.stack.depth;
        self.runs.resize(self.runs.len().max(most), Run::NOTHING);
        let leaf = if self.count > 0 { self.runs[self.count - 1].leaf } else { Run::NOTHING.leaf };
        let mut found = Found { runs: &mut self.runs, count: self.count, leaf };
        while self.stack.top.0 < last {
            let end = self.stack.pop();
            found.emit(end + 1, self.stack.top.1, self.stack.top.0 != end);
        }
        self.count = found.count;
    }

    /// Cuts the runs into pieces. Each begins at the roundest key between half full and full, so that few bits of a key find
    /// the piece it lies in. If the pass has not come to its end (no `last`), only pieces to which nothing can be added are cut.
    pub(super) fn cut(&mut self, cut: &mut Cut, last: Option<u64>, routes: &[Route], fill: Fill) {
        let runs = &self.runs[..self.count];
        loop {
            let rest = Rest { runs: &runs[cut.run..], routes: &routes[cut.route..], start: cut.start };
            let next = match (rest.full(fill), last) {
                (None, None) => return,
                (None, Some(last)) => rest.piece_end(None, last),
                (Some(full), _) => rest.piece_end(Some(full), full - 1),
            };
            let (runs_here, routes_here) = match next {
                Some(next) => (
                    rest.runs.partition_point(|run| run.start < next),
                    rest.routes.partition_point(|route| route.key < next),
                ),
                None => (rest.runs.len(), rest.routes.len()),
            };
            let piece_runs = cut.run..cut.run + runs_here;
            let piece_routes = cut.route..cut.route + routes_here;
            let shift = shift_of(low_bits(&runs[piece_runs.start + 1..piece_runs.end]));
            let known = cut.covers.iter().chain(&routes[piece_routes.clone()]);
            // A route that contains a key behind its own is shorter than that key; nearly all are longer, and not looked at further.
            let reach = |next: u64| -> Vec<Route> {
                let most = (64 - next.trailing_zeros()) as u8;
                known.filter(|route| route.len < most && route.contains(next)).copied().collect()
            };
            let ahead = next.map(|next| (next, reach(next)));
            (cut.run, cut.route) = (piece_runs.end, piece_routes.end);
            let (start, covers) = (cut.start, std::mem::take(&mut cut.covers));
            self.pieces.push(Piece { start, covers, routes: piece_routes, runs: piece_runs, shift });
            let Some(ahead) = ahead else { return };
            (cut.start, cut.covers) = ahead;
            if runs.get(cut.run).is_none_or(|run| run.start > cut.start) {
                cut.run -= 1;
            }
        }
    }

    /// Forgets the pieces, and the runs before those that are not cut yet.
    pub(super) fn forget(&mut self, cut: &mut Cut) {
        self.pieces.clear();
        self.runs.copy_within(cut.run..self.count, 0);
        self.count -= cut.run;
        cut.run = 0;
    }
}

/// What is to be cut still: the first run lies at `start` or reaches beyond it; the routes begin there or behind.
struct Rest<'a> {
    runs: &'a [Run],
    routes: &'a [Route],
    start: u64,
}

impl Rest<'_> {
    /// Behind which key a piece that begins at `start` would have too many runs or routes.
    fn full(&self, fill: Fill) -> Option<u64> {
        let runs = self.runs.get(fill.runs).map(|run| run.start);
        let behind = self.routes.get(fill.routes..).unwrap_or_default();
        let routes = behind.iter().map(|route| route.key).find(|key| *key > self.start);
        runs.into_iter().chain(routes).min()
    }

    /// Where the piece that begins at `start` ends, if not at `last` with all that is left; `full` if that is too much.
    fn piece_end(&self, full: Option<u64>, last: u64) -> Option<u64> {
        // A piece ends behind `low` and not behind `full`.
        let before = full.map_or(self.runs.len(), |full| self.runs.partition_point(|run| run.start < full));
        let runs = &self.runs[..before];
        if !fits(self.start, last, shift_of(low_bits(&runs[1..]))) {
            let (low, high) = self.narrow(runs);
            return Some(roundest(low, high));
        }
        let full = full?;
        let routes = &self.routes[..self.routes.partition_point(|route| route.key < full)];
        let low = self.start.max(runs[runs.len() / 2].start);
        Some(roundest(routes.get(routes.len() / 2).map_or(low, |route| low.max(route.key)), full))
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
    /// Under all: no route.
    const BOTTOM: (u64, u32) = (u64::MAX, LEAF_NONE as u32);

    fn clear(&mut self) {
        (self.top, self.depth) = (Self::BOTTOM, 0);
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

impl Default for Stack {
    fn default() -> Self {
        Self { top: Self::BOTTOM, below: [(0, 0); Self::ROOM], depth: 0 }
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

    /// The runs up to the start of a route, behind those that end before it; it is the last one that begins there (`lasts`) or not.
    #[inline(always)]
    fn route(&mut self, stack: &mut Stack, route: Route, lasts: bool) {
        while stack.top.0 < route.key {
            let end = stack.pop();
            self.emit(end + 1, stack.top.1, (end + 1 != route.key) & (stack.top.0 != end));
        }
        let above = stack.top.1;
        let leaf = if route.len == MARKER { u32::from(DEEP) ^ above } else { route.leaf.into() };
        self.emit(route.key, leaf, lasts);
        stack.push(route.last(), leaf);
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
