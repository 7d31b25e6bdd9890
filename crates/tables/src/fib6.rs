// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPv6 forwarding table: which next hop does the longest matching prefix name?
//!
//! # Layout
//!
//! Routes of up to 64 bits cut the 2^64 upper halves of addresses into *runs*: stretches of keys with one answer. The table is
//! a B+tree over the starts of the runs. Its lower two levels are *chunks* of up to 176 runs, the units of change;
//! above them stands the *top*, whose last level is an array of slots, one for each chunk.
//!
//! ```text
//! root --> top: nodes of one cache line, 8 separators of 64 bits, 9 children, children found by counting
//!          +------------------+
//!          | s s s s s s s s  |          a slot, 32 bits: 26 line of the chunk, 6 shift
//!          +------------------+          +------+------+------+--
//!            |      |       +----------> | slot | slot | slot | ...
//!                                        +------+------+------+--
//!  chunk:                                   |
//!  +------+------------------------------+  |   key = (upper half >> shift) - base, 32 bits
//!  | base | 15 separators of 32 bits     |<-+
//!  +------+------------------------------+----------+
//!  | 10 separators of 32 bits | 11 leaves of 16 bits| x 1 to 16
//!  +--------------------------+---------------------+
//! leaf:  0 iiiiiiiiiiiiiii  next hop id; all ones: no route
//!        1 iiiiiiiiiiiiiii  the /64 may be divided by longer routes: search the lower half among the divided /64s,
//!                           else the id
//! ```
//!
//! A chunk's keys need 32 bits only, because all its runs begin at multiples of a power of two (usually 2^16: /48s) and
//! lie close together: so a line has 15 children instead of 9, and leaves stand in the line of their separators. Where the two
//! do not hold, chunks are cut smaller.
//!
//! A lookup of 32 addresses goes through four levels of the top (up to 6,561 chunks), a chunk's head and one leaf line, each
//! step for all 32 before the next. Only the latter two miss the first cache. No step branches.
//!
//! Ideas: runs in place of prefixes as in Lampson, Srinivasan and Varghese, *IP Lookups using Multiway and Multicolumn
//! Search* (INFOCOM 1998); trees without pointers in cache lines as in Rao and Ross, *Cache Conscious Indexing for Decision-Support in Main Memory* (VLDB 1999).
//!
//! # Size
//!
//! 6 bytes for each run and 7 % of heads and top. For the 246,175 routes of RIPE RIS AS3333 (2026-05-11, 256 next hops)
//! that makes 1.5 MB (bench `fib6`). The control side ([`Fib6Writer`]) keeps the routes besides, 16 bytes each.
//!
//! # Trade-offs
//!
//! * An update rebuilds one chunk (3.8 µs on a busy Xeon at 2.5 GHz, bench `fib6`) and publishes it with one store. A chunk that overflows is divided, which replaces
//!   the top: some microseconds. A short prefix rebuilds all chunks below it: the default route some milliseconds.
//! * Scattered runs of odd ends cost more: a lone /64 far from other routes makes two chunks of two lines each.
//! * Routes beyond /64 stand in one sorted list for each /64 ([`divided`](top::Divided)): exact, but a search for each such
//!   address by itself, and each change copies the list of its /64 and replaces the top.
//! * Next hop ids end at 32,766 ([`NextHopId::MAX`]).
//!
//! # Invariants
//!
//! 1. Every slot of a top that a reader can reach names a complete chunk, which is never changed while one does.
//! 2. A chunk's lines are used again only after a grace period since no slot of the current top names it.
//! 3. A failed update changes nothing: everything is built beside before the first is published.
//! 4. Each lookup answers as the table before or after any concurrent update, never a third thing. Different addresses in
//!    one batch may see different sides of it.
//! 5. Chunks cover all keys without gap or overlap; all starts of a chunk's runs but the first are multiples of
//!    2^shift, and its keys span less than 2^32 of these.
//!
//! # Ordering argument
//!
//! The writer fills a chunk's lines (Relaxed), then stores the slot (Release), or builds a new root and swaps it in
//! (`rcu::Cell`: Release). A reader loads the root (Acquire) and the slot (Acquire), then the lines: it sees them filled.
//!
//! For 2: a reader may hold an old root, whose slots are stored to no more and go on naming old chunks. The writer stamps a chunk's
//! grace period after the swap or store that took it out of the current top. A reader that reached the chunk did so before
//! its next quiescent state, and when the grace period is over every reader has had one since; from then on it finds the new root and the new slot.
//!
//! For 4: what an address finds depends on one root and one slot. If an update changes the divided /64s it replaces the root and the
//! slots together; else each address depends on one slot only, which is stored once.

mod chunk;
mod prefix;
mod sweep;
mod top;
#[allow(unsafe_code)]
mod walk;

pub use crate::next_hop::NextHopId;
use crate::{
    arena::{Arena, NoBlock},
    fib6::{
        sweep::{Fill, MARKER, Piece, Route, Sweep},
        top::{Divided, Root, SHIFT_BITS, Top},
        walk::Walk,
    },
};
pub use crate::{
    fib4::Memory,
    fib6::prefix::{BadPrefix6, Prefix6},
};
use std::{
    collections::BTreeMap,
    fmt,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};
use sync::{
    lines::{Line, Lines},
    rcu,
};

/// No route, as a leaf.
const LEAF_NONE: u16 = (1 << 15) - 1;
/// The leaf's /64 may be divided.
const DEEP: u16 = 1 << 15;

const _: () = assert!(NextHopId::MAX.0 + 1 == LEAF_NONE as u32, "every id fits a leaf");

/// How large chunks are.
#[derive(Clone, Copy)]
struct Sizes {
    /// A chunk of more is cut.
    full: Fill,
    /// How full chunks are made, so that there is room for more.
    fresh: Fill,
    /// Two neighbours with no more routes than this become one.
    few_routes: usize,
}

/// Routes that a replacement sweeps at once.
const SEGMENT_ROUTES: usize = if cfg!(test) { 100 } else { 4096 };

const SIZES: Sizes = Sizes {
    full: Fill { routes: 256, runs: chunk::MAX_RUNS },
    fresh: Fill { routes: 128, runs: 12 * chunk::LINE_RUNS },
    few_routes: 64,
};

/// Why an update was refused. The table is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum Fib6Error {
    /// The id does not fit into a leaf.
    #[error("next hop id {id} for {prefix} is out of range: ids go from 0 to {max}", max = NextHopId::MAX.0)]
    NextHopRange {
        /// The route refused.
        prefix: Prefix6,
        /// Its next hop.
        id: u32,
    },
    /// The table has outgrown the lines it was made with.
    #[error(
        "no room for {wanted} more cache lines of routes: {used} of {capacity} are in use; make the table with more lines"
    )]
    Full {
        /// Lines the update needs.
        wanted: usize,
        /// Lines in use.
        used: usize,
        /// Lines there are.
        capacity: usize,
    },
    /// Room is there, but readers still hold it.
    #[error("{waiting} pieces of the table wait for readers that announce no quiescent state: {laggards:?}")]
    Stalled {
        /// Lines, or versions, waiting.
        waiting: usize,
        /// The readers behind.
        laggards: Vec<rcu::ReaderState>,
    },
    /// The memory for the table could not be had.
    #[error(transparent)]
    NoMemory(#[from] sync::lines::NoMemory),
}

impl From<NoBlock> for Fib6Error {
    fn from(why: NoBlock) -> Self {
        match why {
            NoBlock::Full { wanted, used, capacity } => Self::Full { wanted, used, capacity },
            NoBlock::Stalled { waiting, laggards } => Self::Stalled { waiting, laggards },
        }
    }
}

/// Instructions a lookup uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Those of any processor.
    Plain,
    /// AVX2, BMI2 and POPCNT.
    Avx2,
    /// AVX-512F besides.
    Avx512,
}

/// Looks addresses up. Cheap to clone; one for each worker.
#[derive(Clone)]
pub struct Fib6Reader {
    walk: Arc<Walk>,
    /// One that the processor has.
    variant: Variant,
}

impl Fib6Reader {
    /// The next hop for `addr` (host order).
    ///
    /// # Panics
    /// When `reader` belongs to another RCU domain than the table.
    #[inline]
    pub fn lookup(&self, reader: &rcu::Reader, addr: u128) -> NextHopId {
        let mut out = [0];
        self.lookup_batch(reader, &[addr], &mut out);
        NextHopId(out[0])
    }

    /// Writes the next hop id of each of `addrs` (host order) to `out`: [`NextHopId::NONE`]'s number where no route
    /// matches. Fastest for 32 and more at once.
    ///
    /// # Panics
    /// When the lengths differ, or `reader` belongs to another RCU domain than the table.
    #[inline]
    pub fn lookup_batch(&self, reader: &rcu::Reader, addrs: &[u128], out: &mut [u32]) {
        assert_eq!(addrs.len(), out.len(), "one answer for each address");
        #[allow(unsafe_code)]
        // SAFETY: `variant` is available, and a writer made root and chunks together, for the domain of the root's cell, to which
        // reading the cell holds `reader`.
        unsafe {
            self.walk.lookup(self.variant, reader, addrs, out);
        }
    }

    /// The domain to register this table's readers with.
    pub fn domain(&self) -> &rcu::Domain {
        self.walk.root.domain()
    }

    /// A reader that uses other instructions, to compare; none if the processor lacks them.
    pub fn with_variant(&self, variant: Variant) -> Option<Self> {
        variant.is_available().then(|| Self { walk: self.walk.clone(), variant })
    }
}

impl fmt::Debug for Fib6Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fib6Reader").field("variant", &self.variant).finish_non_exhaustive()
    }
}

/// Changes the table. There is one for each table; lookups go on undisturbed.
///
/// ```
/// use junctor_tables::fib6::{Fib6Writer, NextHopId};
/// let domain = sync::rcu::Domain::default();
/// let mut writer = Fib6Writer::new(&domain)?;
/// writer.insert("2001:db8::/32".parse()?, NextHopId(7))?;
/// writer.commit([("2001:db8::5/128".parse()?, Some(NextHopId(8))), ("::/0".parse()?, Some(NextHopId(9)))])?;
///
/// let (fib, reader) = (writer.reader(), domain.register("worker 0"));
/// let addr = |text: &str| text.parse::<std::net::Ipv6Addr>().map(u128::from);
/// assert_eq!(fib.lookup(&reader, addr("2001:db8::4")?), NextHopId(7));
/// assert_eq!(fib.lookup(&reader, addr("2001:db8::5")?), NextHopId(8));
/// assert_eq!(fib.lookup(&reader, addr("2001:db9::")?), NextHopId(9));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Fib6Writer {
    walk: Arc<Walk>,
    arena: Arena,
    /// By start; the first starts at 0.
    chunks: Vec<Chunk>,
    /// The current top's.
    slots: Arc<[AtomicU32]>,
    top_bytes: usize,
    /// Routes longer than /64, by upper half, with keys and lengths of the lower.
    deep: BTreeMap<u64, Vec<Route>>,
    divided: Divided,
    count: usize,
    sizes: Sizes,
    sweep: Sweep,
    touched: Touched,
}

/// A chunk as the writer knows it.
struct Chunk {
    start: u64,
    /// Routes that contain `start` and begin before it, shortest first.
    covers: Vec<Route>,
    /// Routes that begin here, in order.
    routes: Vec<Route>,
    block: Block,
}

/// A chunk's lines.
#[derive(Clone, Copy)]
struct Block {
    line: u32,
    lines: u16,
    shift: u8,
}

impl Block {
    fn slot(self) -> u32 {
        self.line << SHIFT_BITS | u32::from(self.shift)
    }
}

/// Chunks built to replace others.
struct Staged {
    /// The chunks replaced.
    old: Range<usize>,
    /// How the new ones divide the old ones' routes.
    new: Vec<(Piece, Block)>,
}

/// What changes of routes have made stale.
#[derive(Default)]
struct Touched {
    chunks: Vec<usize>,
    deep: Vec<u64>,
}

/// A change of a route: its next hop from now on, or its end.
pub type Change = (Prefix6, Option<NextHopId>);

/// Cache lines a table gets when not told otherwise: 128 MiB of address space, of which only what is used becomes
/// memory. The largest Internet tables use 1 to 2 MB, twice as much while being replaced.
pub const DEFAULT_LINES: usize = 2 << 20;

impl Fib6Writer {
    /// An empty table of [`DEFAULT_LINES`], read by the members of `domain`.
    ///
    /// # Errors
    /// [`Fib6Error::NoMemory`].
    pub fn new(domain: &rcu::Domain) -> Result<Self, Fib6Error> {
        Self::with_lines(domain, DEFAULT_LINES)
    }

    /// As [`new`](Self::new), with room for `lines` cache lines of chunks, and as many for routes beyond /64.
    ///
    /// # Errors
    /// [`Fib6Error::NoMemory`]; [`Fib6Error::Full`] when `lines` is below 2.
    pub fn with_lines(domain: &rcu::Domain, lines: usize) -> Result<Self, Fib6Error> {
        let lines = lines.min(1 << (u32::BITS - SHIFT_BITS));
        let slots: Arc<[AtomicU32]> = Arc::new([AtomicU32::new(0)]);
        let slab = Lines::zeroed(lines)?;
        let top = Top::new(&[0], slots.clone())?;
        let top_bytes = top.bytes();
        let root = Root { top, divided: Divided::new() };
        let mut writer = Self {
            walk: Arc::new(Walk { root: rcu::Cell::new(domain, root), lines: slab }),
            arena: Arena::new(lines, chunk::MAX_LINES),
            chunks: Vec::new(),
            slots,
            top_bytes,
            deep: BTreeMap::new(),
            divided: Divided::new(),
            count: 0,
            sizes: SIZES,
            sweep: Sweep::default(),
            touched: Touched::default(),
        };
        writer.sweep.sweep(0, u64::MAX, &[], &[], SIZES.fresh);
        let block = writer.take_blocks()?[0].1;
        writer.slots[0].store(block.slot(), Ordering::Release);
        writer.chunks.push(Chunk { start: 0, covers: Vec::new(), routes: Vec::new(), block });
        Ok(writer)
    }

    /// A handle for lookups.
    pub fn reader(&self) -> Fib6Reader {
        Fib6Reader { walk: self.walk.clone(), variant: Variant::best() }
    }

    /// Adds the route, or changes its next hop; returns the one it had.
    ///
    /// # Errors
    /// See [`Fib6Error`]; the table is unchanged then.
    pub fn insert(&mut self, prefix: Prefix6, id: NextHopId) -> Result<Option<NextHopId>, Fib6Error> {
        let leaf = checked(prefix, id)?;
        self.set(prefix, Some(leaf))
    }

    /// Takes the route out, and returns the next hop it had, if it was there.
    ///
    /// # Errors
    /// See [`Fib6Error`] (also a removal builds chunks); the table is unchanged then.
    pub fn remove(&mut self, prefix: Prefix6) -> Result<Option<NextHopId>, Fib6Error> {
        self.set(prefix, None)
    }

    /// Makes all the changes, or none; of several for one prefix the last counts. A chunk that several of them concern is rebuilt
    /// once, so this costs less than one by one.
    ///
    /// # Errors
    /// See [`Fib6Error`]; the table is unchanged then.
    pub fn commit<I: IntoIterator<Item = Change>>(&mut self, changes: I) -> Result<(), Fib6Error> {
        let checked = |(prefix, id): Change| Ok((prefix, id.map(|id| checked(prefix, id)).transpose()?));
        let changes = changes.into_iter().map(checked).collect::<Result<Vec<_>, Fib6Error>>()?;
        let undo: Vec<_> =
            changes.into_iter().map(|(prefix, leaf)| (prefix, self.note(prefix, leaf))).collect();
        self.publish().inspect_err(|_| {
            undo.into_iter().rev().for_each(|(prefix, old)| _ = self.note(prefix, old));
            self.touched.clear();
        })
    }

    /// Replaces all routes by `routes` (the last one wins where a prefix comes twice). All addresses change from their
    /// old answers to their new ones at once.
    ///
    /// # Errors
    /// See [`Fib6Error`]; the table is unchanged then.
    pub fn replace_all<I>(&mut self, routes: I) -> Result<(), Fib6Error>
    where
        I: IntoIterator<Item = (Prefix6, NextHopId)>,
    {
        let routes = routes.into_iter();
        let (mut upper, mut lower) = (Vec::with_capacity(routes.size_hint().0), Vec::new());
        for (prefix, id) in routes {
            let (key, leaf) = (prefix.upper(), checked(prefix, id)?);
            match prefix.len().checked_sub(64).filter(|len| *len > 0) {
                Some(len) => {
                    upper.push(Route { key, len: MARKER, leaf: 0 });
                    lower.push((key, Route { key: prefix.lower(), len, leaf }));
                }
                None => upper.push(Route { key, len: prefix.len(), leaf }),
            }
        }
        sweep::settle(&mut upper, Route::order);
        sweep::settle(&mut lower, |(upper, route)| (*upper, route.order()));
        let (mut divided, mut deep) = (Divided::new(), BTreeMap::<u64, Vec<Route>>::new());
        for (key, route) in &lower {
            deep.entry(*key).or_default().push(*route);
        }
        for (key, routes) in &deep {
            divided.set(*key, routes, &mut self.sweep);
        }
        let count = upper.len() - deep.len() + lower.len();
        let new = self.build_all(&upper)?;
        let staged = vec![Staged { old: 0..self.chunks.len(), new }];
        self.swap_root(staged, divided, Some(&upper))?;
        self.deep = deep;
        self.count = count;
        Ok(())
    }

    /// The next hop of exactly this route.
    pub fn get(&self, prefix: Prefix6) -> Option<NextHopId> {
        let (list, key, len) = match prefix.len() {
            0..=64 => {
                (Some(&self.chunks[self.chunk_of(prefix.upper())].routes), prefix.upper(), prefix.len())
            }
            longer => (self.deep.get(&prefix.upper()), prefix.lower(), longer - 64),
        };
        let list = list?;
        let at = list.binary_search_by_key(&(key, len), Route::order).ok()?;
        Some(NextHopId(list[at].leaf.into()))
    }

    /// The route that decides about `addr` (host order).
    pub fn longest_match(&self, addr: u128) -> Option<(Prefix6, NextHopId)> {
        let (upper, lower) = ((addr >> 64) as u64, addr as u64);
        let best = |list: &[Route], key: u64| {
            let matching = list.iter().filter(|route| route.len != MARKER && route.contains(key));
            matching.max_by_key(|route| route.len).copied()
        };
        if let Some(route) = self.deep.get(&upper).and_then(|list| best(list, lower)) {
            return Some((join_deep(upper, route), NextHopId(route.leaf.into())));
        }
        let chunk = &self.chunks[self.chunk_of(upper)];
        let route = best(&chunk.routes, upper).or_else(|| best(&chunk.covers, upper))?;
        Some((join(route), NextHopId(route.leaf.into())))
    }

    /// All routes by address, then length.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix6, NextHopId)> + '_ {
        self.chunks.iter().flat_map(|chunk| &chunk.routes).flat_map(|route| {
            let (whole, deep) = match route.len {
                MARKER => (None, self.deep.get(&route.key)),
                _ => (Some((join(*route), NextHopId(route.leaf.into()))), None),
            };
            let deep = deep.into_iter().flatten();
            let deep = deep.map(|low| (join_deep(route.key, *low), NextHopId(low.leaf.into())));
            whole.into_iter().chain(deep)
        })
    }

    /// Number of routes.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no route.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// What the table occupies.
    pub fn memory(&self) -> Memory {
        const LINE: usize = size_of::<Line>();
        let list = |list: &Vec<Route>| list.capacity() * size_of::<Route>();
        let chunks = self.chunks.iter().map(|chunk| list(&chunk.covers) + list(&chunk.routes));
        Memory {
            lookup_bytes: self.arena.used() * LINE + self.top_bytes + self.divided.bytes(),
            spare_bytes: self.arena.spare() * LINE,
            rib_bytes: chunks.chain(self.deep.values().map(list)).sum::<usize>()
                + self.chunks.capacity() * size_of::<Chunk>(),
        }
    }

    fn set(&mut self, prefix: Prefix6, leaf: Option<u16>) -> Result<Option<NextHopId>, Fib6Error> {
        let old = self.note(prefix, leaf);
        if let Err(error) = self.publish() {
            self.note(prefix, old);
            self.touched.clear();
            return Err(error);
        }
        Ok(old.map(|leaf| NextHopId(leaf.into())))
    }

    /// The chunk that `key` lies in.
    fn chunk_of(&self, key: u64) -> usize {
        self.chunks.partition_point(|chunk| chunk.start <= key) - 1
    }

    /// Changes the list of routes, and notes what has to be built anew.
    fn note(&mut self, prefix: Prefix6, leaf: Option<u16>) -> Option<u16> {
        let (key, len) = (prefix.upper(), prefix.len());
        let old = if len > 64 {
            self.note_deep(key, prefix.lower(), len - 64, leaf)
        } else {
            let route = Route { key, len, leaf: leaf.unwrap_or_default() };
            let first = self.chunk_of(key);
            let old = sweep::set(&mut self.chunks[first].routes, key, len, leaf);
            if old == leaf {
                return old;
            }
            self.touched.chunks.push(first);
            for at in first + 1..self.chunks.len() {
                let chunk = &mut self.chunks[at];
                if chunk.start > route.last() {
                    break;
                }
                sweep::set_cover(&mut chunk.covers, route, leaf.is_some());
                let longer = chunk.covers.last().filter(|cover| cover.len > len).map(Route::last);
                if longer.is_none_or(|last| self.chunks.get(at + 1).is_none_or(|next| next.start - 1 > last))
                {
                    self.touched.chunks.push(at);
                }
            }
            old
        };
        self.count = self.count + usize::from(leaf.is_some()) - usize::from(old.is_some());
        old
    }

    /// As [`note`](Self::note), for a route of the lower half.
    fn note_deep(&mut self, key: u64, low: u64, len: u8, leaf: Option<u16>) -> Option<u16> {
        let list = self.deep.entry(key).or_default();
        let before = list.is_empty();
        let old = sweep::set(list, low, len, leaf);
        let after = list.is_empty();
        if after {
            self.deep.remove(&key);
        }
        if old != leaf {
            self.touched.deep.push(key);
        }
        if before != after {
            let chunk = self.chunk_of(key);
            sweep::set(&mut self.chunks[chunk].routes, key, MARKER, (!after).then_some(0));
            self.touched.chunks.push(chunk);
        }
        old
    }

    /// Builds what is touched from the lists of routes, all of it, then publishes it.
    fn publish(&mut self) -> Result<(), Fib6Error> {
        let mut touched = std::mem::take(&mut self.touched);
        touched.chunks.sort_unstable();
        touched.chunks.dedup();
        touched.deep.sort_unstable();
        touched.deep.dedup();
        let done = self.publish_touched(&touched);
        touched.clear();
        self.touched = touched; // its memory serves again
        done
    }

    fn publish_touched(&mut self, touched: &Touched) -> Result<(), Fib6Error> {
        let staged = self.build(touched)?;
        let in_place = staged.iter().all(|staged| staged.old.len() == 1 && staged.new.len() == 1);
        if in_place && touched.deep.is_empty() {
            self.store_slots(staged);
            return Ok(());
        }
        let mut divided = self.divided.clone();
        for key in &touched.deep {
            divided.set(*key, self.deep.get(key).map_or(&[], Vec::as_slice), &mut self.sweep);
        }
        self.swap_root(staged, divided, None)
    }

    /// Builds the touched chunks.
    fn build(&mut self, touched: &Touched) -> Result<Vec<Staged>, Fib6Error> {
        let mut staged = Vec::with_capacity(touched.chunks.len());
        for (at, chunk) in touched.chunks.iter().enumerate() {
            let next_is_free = touched.chunks.get(at + 1) != Some(&(chunk + 1));
            match self.build_one(*chunk, next_is_free) {
                Ok(built) => staged.push(built),
                Err(error) => {
                    self.discard(staged);
                    return Err(error);
                }
            }
        }
        Ok(staged)
    }

    /// Builds one chunk: several if it has become too large, one for two if both have become small.
    fn build_one(&mut self, at: usize, next_is_free: bool) -> Result<Staged, Fib6Error> {
        let start = self.chunks[at].start;
        let covers = std::mem::take(&mut self.chunks[at].covers);
        let routes = std::mem::take(&mut self.chunks[at].routes);
        let end = |chunks: &[Chunk], at: usize| chunks.get(at + 1).map_or(u64::MAX, |next| next.start - 1);
        let mut old = at..at + 1;
        let mut built = None;
        if let Some(next) = self.chunks.get(at + 1).filter(|_| next_is_free)
            && routes.len() + next.routes.len() <= self.sizes.few_routes
        {
            let both = [&routes[..], &next.routes].concat();
            self.sweep.sweep(start, end(&self.chunks, at + 1), &covers, &both, self.sizes.fresh);
            if self.sweep.pieces.len() == 1 {
                old.end += 1;
                built = Some(self.take_blocks());
            }
        }
        let last = end(&self.chunks, at);
        let built = built.unwrap_or_else(|| {
            self.sweep.sweep(start, last, &covers, &routes, self.sizes.full);
            if self.sweep.pieces.len() > 1 {
                self.sweep.sweep(start, last, &covers, &routes, self.sizes.fresh);
            }
            self.take_blocks()
        });
        self.chunks[at].covers = covers;
        self.chunks[at].routes = routes;
        Ok(Staged { old, new: built? })
    }

    /// Builds chunks for all of `routes`, a segment at a time, so that the working memory stays in the cache.
    fn build_all(&mut self, routes: &[Route]) -> Result<Vec<(Piece, Block)>, Fib6Error> {
        let (mut new, mut covers): (Vec<(Piece, Block)>, Vec<Route>) = (Vec::new(), Vec::new());
        let (mut start, mut at) = (0, 0);
        loop {
            // Up to where the next route begins; routes that begin at one key stay together.
            let mut to = routes.len().min(at + SEGMENT_ROUTES);
            while to > 0 && routes.get(to).is_some_and(|next| next.key == routes[to - 1].key) {
                to += 1;
            }
            let last = routes.get(to).map_or(u64::MAX, |next| next.key - 1);
            self.sweep.sweep(start, last, &covers, &routes[at..to], self.sizes.fresh);
            match self.take_blocks() {
                Ok(built) => new.extend(built.into_iter().map(|(piece, block)| {
                    let routes = piece.routes.start + at..piece.routes.end + at;
                    (Piece { routes, ..piece }, block)
                })),
                Err(error) => {
                    new.iter().for_each(|(_, block)| give_back(&mut self.arena, *block));
                    return Err(error);
                }
            }
            if last == u64::MAX {
                return Ok(new);
            }
            start = last + 1;
            let known = covers.iter().chain(&routes[at..to]);
            covers = known.filter(|route| route.len != MARKER && route.contains(start)).copied().collect();
            at = to;
        }
    }

    /// Publishes chunks that take the places of others one by one.
    fn store_slots(&mut self, staged: Vec<Staged>) {
        for Staged { old, new } in staged {
            let block = new[0].1;
            self.slots[old.start].store(block.slot(), Ordering::Release);
            let old = std::mem::replace(&mut self.chunks[old.start].block, block);
            self.arena.retire(old.line, old.lines.into(), self.walk.root.domain());
        }
    }

    /// Publishes chunks and divided /64s with a new top. `routes` are the new chunks' if not those of the old ones.
    fn swap_root(
        &mut self,
        staged: Vec<Staged>,
        divided: Divided,
        routes: Option<&[Route]>,
    ) -> Result<(), Fib6Error> {
        let (starts, slots) = self.chunks_after(&staged);
        let published = self.check_room(&divided).and_then(|()| {
            let top = Top::new(&starts, slots.clone())?;
            let bytes = top.bytes();
            let root = Root { top, divided: divided.clone() };
            self.walk.root.publish_sized(root, self.top_bytes).map_err(|stalled| Fib6Error::Stalled {
                waiting: stalled.waiting_objects,
                laggards: stalled.laggards,
            })?;
            Ok(bytes)
        });
        match published {
            Ok(bytes) => self.top_bytes = bytes,
            Err(error) => {
                self.discard(staged);
                return Err(error);
            }
        }
        self.slots = slots;
        self.divided = divided;
        for Staged { old, new } in staged.into_iter().rev() {
            for chunk in &self.chunks[old.clone()] {
                let Block { line, lines, .. } = chunk.block;
                self.arena.retire(line, lines.into(), self.walk.root.domain());
            }
            if let ([(_, block)], 1, None) = (&new[..], old.len(), routes) {
                self.chunks[old.start].block = *block;
                continue;
            }
            let moved = match routes {
                Some(_) => Vec::new(),
                None => self.chunks[old.clone()].iter().flat_map(|chunk| &chunk.routes).copied().collect(),
            };
            let all = routes.unwrap_or(&moved);
            let chunk = |(piece, block): (Piece, Block)| {
                let Piece { start, covers, routes, .. } = piece;
                Chunk { start, covers, routes: all[routes].to_vec(), block }
            };
            self.chunks.splice(old, new.into_iter().map(chunk));
        }
        Ok(())
    }

    /// Starts and slots of all chunks once the staged ones have replaced theirs.
    fn chunks_after(&self, staged: &[Staged]) -> (Vec<u64>, Arc<[AtomicU32]>) {
        let kept = |chunk: &Chunk| (chunk.start, chunk.block.slot());
        let (mut after, mut at) = (Vec::with_capacity(self.chunks.len() + staged.len()), 0);
        for Staged { old, new } in staged {
            after.extend(self.chunks[at..old.start].iter().map(kept));
            after.extend(new.iter().map(|(piece, block)| (piece.start, block.slot())));
            at = old.end;
        }
        after.extend(self.chunks[at..].iter().map(kept));
        (
            after.iter().map(|(start, _)| *start).collect(),
            after.iter().map(|(_, slot)| AtomicU32::new(*slot)).collect(),
        )
    }

    /// Writes the pieces of the last sweep to lines of their own.
    fn take_blocks(&mut self) -> Result<Vec<(Piece, Block)>, Fib6Error> {
        let mut new = Vec::with_capacity(self.sweep.pieces.len());
        for piece in std::mem::take(&mut self.sweep.pieces) {
            let runs = &self.sweep.runs()[piece.runs.clone()];
            let lines = chunk::lines_for(runs.len());
            match self.arena.take(lines, self.walk.root.domain()) {
                Ok(line) => {
                    chunk::write(runs, piece.start, piece.shift, &self.walk.lines[line as usize..][..lines]);
                    let block = Block { line, lines: lines as u16, shift: piece.shift };
                    new.push((piece, block));
                }
                Err(why) => {
                    new.iter().for_each(|(_, block)| give_back(&mut self.arena, *block));
                    return Err(why.into());
                }
            }
        }
        Ok(new)
    }

    /// Undoes `build`. Nobody has seen the chunks, so their lines are free at once.
    fn discard(&mut self, staged: Vec<Staged>) {
        for (_, block) in staged.into_iter().flat_map(|staged| staged.new) {
            give_back(&mut self.arena, block);
        }
    }

    /// Holds routes beyond /64 to as much memory as chunks.
    fn check_room(&self, divided: &Divided) -> Result<(), Fib6Error> {
        let lines = |divided: &Divided| divided.list_bytes().div_ceil(size_of::<Line>());
        let (used, after, capacity) = (lines(&self.divided), lines(divided), self.walk.lines.len());
        if after > capacity && after > used {
            return Err(Fib6Error::Full { wanted: after - used, used, capacity });
        }
        Ok(())
    }
}

impl Touched {
    fn clear(&mut self) {
        self.chunks.clear();
        self.deep.clear();
    }
}

fn give_back(arena: &mut Arena, block: Block) {
    arena.give_back(block.line, block.lines.into());
}

impl fmt::Debug for Fib6Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fib6Writer").field("routes", &self.len()).field("memory", &self.memory()).finish()
    }
}

fn checked(prefix: Prefix6, id: NextHopId) -> Result<u16, Fib6Error> {
    match u16::try_from(id.0) {
        Ok(leaf) if id <= NextHopId::MAX => Ok(leaf),
        _ => Err(Fib6Error::NextHopRange { prefix, id: id.0 }),
    }
}

fn join(route: Route) -> Prefix6 {
    Prefix6::masked(u128::from(route.key) << 64, route.len)
}

fn join_deep(upper: u64, route: Route) -> Prefix6 {
    Prefix6::masked(u128::from(upper) << 64 | u128::from(route.key), 64 + route.len)
}

#[cfg(test)]
mod tests;
