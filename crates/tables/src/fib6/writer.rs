// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control side of the table: its routes, and which chunks a change of them concerns.

use super::{
    Fib6Error, Fib6Reader, Memory, NextHopId, Root, Variant,
    build::Building,
    chunk::{self, Slot},
    directory::Directory,
    divided::Divided,
    sweep::{self, Fill, List, MARKER, Route, Sweep},
    walk::Walk,
};
use crate::arena::Arena;
use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};
use sync::{
    lines::{Line, Lines},
    rcu,
};
use wire::Prefix6;

/// How large chunks are.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    /// A chunk of more is cut.
    pub full: Fill,
    /// How full chunks are made at most, so that there is room for more.
    pub fresh: Fill,
    /// Two neighbours with no more routes than this become one.
    pub few_routes: usize,
}

pub(super) const SIZES: Sizes = Sizes {
    full: Fill { routes: 256, runs: chunk::MAX_RUNS },
    fresh: Fill { routes: 160, runs: 15 * chunk::LINE_RUNS },
    few_routes: 64,
};

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
    pub(super) walk: Arc<Walk>,
    pub(super) arena: Arena,
    /// By start; the first starts at 0.
    pub(super) chunks: Vec<Chunk>,
    /// The current root's.
    pub(super) directory: Arc<Directory>,
    pub(super) slots: Arc<[AtomicU32]>,
    /// Routes longer than /64, by upper half, with keys and lengths of the lower.
    pub(super) deep: BTreeMap<u64, Vec<Route>>,
    pub(super) divided: Divided,
    pub(super) count: usize,
    pub(super) sizes: Sizes,
    pub(super) sweep: Sweep,
    pub(super) touched: Touched,
}

/// A chunk as the writer knows it.
pub(super) struct Chunk {
    pub start: u64,
    /// Routes that contain `start` and begin before it, shortest first.
    pub covers: Vec<Route>,
    /// Routes that begin here.
    pub routes: List,
    pub block: Block,
}

/// A chunk's lines.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub line: u32,
    pub lines: u16,
    pub shift: u8,
}

impl Block {
    pub(super) fn slot(self) -> Slot {
        Slot::new(self.line, self.shift)
    }
}

/// What changes of routes have made stale.
#[derive(Default)]
pub(super) struct Touched {
    pub chunks: Vec<usize>,
    pub deep: Vec<u64>,
}

/// A change of a route: its next hop from now on, or its end.
pub type Change = (Prefix6, Option<NextHopId>);

/// Cache lines a table gets by default: 128 MiB of address space, of which only what is used becomes
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
        let lines = lines.min(Slot::LINES);
        let slots: Arc<[AtomicU32]> = Arc::new([AtomicU32::new(0)]);
        let slab = Lines::zeroed(lines)?;
        let directory = Arc::new(Directory::new(&[0]));
        let root = Root { directory: directory.clone(), slots: slots.clone(), divided: Divided::new() };
        let mut writer = Self {
            walk: Arc::new(Walk { domain: domain.clone(), root: rcu::Cell::new(domain, root), lines: slab }),
            arena: Arena::new(lines, chunk::MAX_LINES),
            chunks: Vec::new(),
            directory,
            slots,
            deep: BTreeMap::new(),
            divided: Divided::new(),
            count: 0,
            sizes: SIZES,
            sweep: Sweep::default(),
            touched: Touched::default(),
        };
        writer.sweep.sweep(0, u64::MAX, &[], &[], SIZES.fresh);
        let block = writer.take_blocks()?[0].1;
        writer.slots[0].store(block.slot().0, Ordering::Release);
        writer.chunks.push(Chunk { start: 0, covers: Vec::new(), routes: List::default(), block });
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

    /// Makes all the changes, or none; of several for one prefix the last counts. Returns what each one found: the next hop that
    /// its route had before. A chunk that several of them concern is rebuilt once, so this costs less than one by one.
    ///
    /// # Errors
    /// See [`Fib6Error`]; the table is unchanged then.
    pub fn commit<I: IntoIterator<Item = Change>>(
        &mut self,
        changes: I,
    ) -> Result<Vec<Option<NextHopId>>, Fib6Error> {
        let checked = |(prefix, id): Change| Ok((prefix, id.map(|id| checked(prefix, id)).transpose()?));
        let changes = changes.into_iter().map(checked).collect::<Result<Vec<_>, Fib6Error>>()?;
        let undo: Vec<_> =
            changes.into_iter().map(|(prefix, leaf)| (prefix, self.note(prefix, leaf))).collect();
        if let Err(error) = self.publish() {
            undo.into_iter().rev().for_each(|(prefix, old)| _ = self.note(prefix, old));
            self.touched.clear();
            return Err(error);
        }
        Ok(undo.into_iter().map(|(_, old)| old.map(|leaf| NextHopId(leaf.into()))).collect())
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
        let mut routes = routes.into_iter();
        let mut given = Given::new(routes.size_hint().0);
        let mut building = Building::default();
        // Chunks are built while the routes come in: waiting for these takes as long as building.
        while given.take(&mut routes).inspect_err(|_| self.abandon(std::mem::take(&mut building)))? {
            if given.sorted {
                self.build_on(&mut building, &given.upper, false)?;
            }
        }
        let Given { mut upper, mut lower, sorted, .. } = given;
        if sorted {
            self.build_on(&mut building, &upper, true)?;
        } else {
            self.abandon(building);
            sweep::settle(&mut upper, Route::order);
            building = self.build_all(&upper)?;
        }
        sweep::settle(&mut lower, |(upper, route)| (*upper, route.order()));
        let (mut divided, mut deep) = (Divided::new(), BTreeMap::<u64, Vec<Route>>::new());
        for (key, route) in &lower {
            deep.entry(*key).or_default().push(*route);
        }
        for (key, routes) in &deep {
            divided.set(*key, routes, &mut self.sweep);
        }
        let count = upper.len() - deep.len() + lower.len();
        self.replace_chunks(building, upper, divided)?;
        self.deep = deep;
        self.count = count;
        Ok(())
    }

    /// The next hop of exactly this route.
    pub fn get(&self, prefix: Prefix6) -> Option<NextHopId> {
        let (list, key, len) = match prefix.len() {
            0..=64 => (Some(&*self.chunks[self.chunk_of(upper(prefix))].routes), upper(prefix), prefix.len()),
            longer => (self.deep.get(&upper(prefix)).map(Vec::as_slice), lower(prefix), longer - 64),
        };
        let list = list?;
        let at = list.binary_search_by_key(&(key, len), Route::order).ok()?;
        Some(NextHopId(list[at].leaf.into()))
    }

    /// The route that decides about `addr` (host order).
    pub fn longest_match(&self, addr: u128) -> Option<(Prefix6, NextHopId)> {
        let (upper, lower) = ((addr >> 64) as u64, addr as u64);
        let best = |list: &[Route], key: u64| {
            // Of those that begin no later, the last one that reaches as far is the longest.
            let begun = &list[..list.partition_point(|route| { route.key } <= key)];
            begun.iter().rev().find(|route| route.len != MARKER && route.contains(key)).copied()
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
        self.range(0, u64::MAX)
    }

    /// The routes the upper halves of whose addresses are from `from` to `to`, both included, by address, then length.
    pub fn range(&self, from: u64, to: u64) -> impl Iterator<Item = (Prefix6, NextHopId)> + '_ {
        let routes = self.chunks[self.chunk_of(from)..].iter().flat_map(|chunk| &*chunk.routes);
        let routes =
            routes.skip_while(move |route| { route.key } < from).take_while(move |route| { route.key } <= to);
        routes.flat_map(|route| {
            let (whole, deep) = match route.len {
                MARKER => (None, self.deep.get(&{ route.key })),
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

    /// Bytes that lookups can touch, which is known without counting.
    pub fn lookup_bytes(&self) -> usize {
        self.arena.used() * size_of::<Line>() + self.root_bytes() + self.divided.bytes()
    }

    /// What the table occupies.
    pub fn memory(&self) -> Memory {
        const LINE: usize = size_of::<Line>();
        let list = |list: &Vec<Route>| list.capacity() * size_of::<Route>();
        let mut shared = None;
        let chunks = self.chunks.iter().map(|chunk| {
            let routes = match &chunk.routes {
                List::Own(routes) => list(routes),
                List::Part { all, .. } => shared.replace(all).map_or(list(all), |_| 0),
            };
            list(&chunk.covers) + routes
        });
        Memory {
            lookup_bytes: self.lookup_bytes(),
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
        let (key, len) = (upper(prefix), prefix.len());
        let old = if len > 64 {
            self.note_deep(key, lower(prefix), len - 64, leaf)
        } else {
            let route = Route { key, len, leaf: leaf.unwrap_or_default() };
            let first = self.chunk_of(key);
            let old = sweep::set(self.chunks[first].routes.own(), key, len, leaf);
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
            sweep::set(self.chunks[chunk].routes.own(), key, MARKER, (!after).then_some(0));
            self.touched.chunks.push(chunk);
        }
        old
    }
}

/// Routes of a replacement as far as they have been taken.
struct Given {
    upper: Vec<Route>,
    /// Routes longer than /64, with the upper halves of their addresses.
    lower: Vec<(u64, Route)>,
    /// Whether each of `upper` stands behind the one before. Most callers have them in order.
    sorted: bool,
    last: Option<(u64, u8)>,
}

impl Given {
    /// Routes taken at once: so few that the next ones come into the cache while chunks are built of these.
    const AT_ONCE: usize = 16;

    fn new(capacity: usize) -> Self {
        Self { upper: Vec::with_capacity(capacity), lower: Vec::new(), sorted: true, last: None }
    }

    /// Takes some more; whether there were any.
    fn take(&mut self, routes: &mut impl Iterator<Item = (Prefix6, NextHopId)>) -> Result<bool, Fib6Error> {
        let mut any = false;
        for (prefix, id) in routes.take(Self::AT_ONCE) {
            any = true;
            let (key, leaf) = (upper(prefix), checked(prefix, id)?);
            let route = match prefix.len().checked_sub(64).filter(|len| *len > 0) {
                None => Route { key, len: prefix.len(), leaf },
                Some(len) => {
                    self.lower.push((key, Route { key: lower(prefix), len, leaf }));
                    Route { key, len: MARKER, leaf: 0 }
                }
            };
            let order = Some(route.order());
            if route.len == MARKER && self.last == order {
                continue; // another of one divided /64
            }
            self.sorted &= self.last < order;
            self.last = order;
            self.upper.push(route);
        }
        Ok(any)
    }
}

impl Touched {
    pub(super) fn clear(&mut self) {
        self.chunks.clear();
        self.deep.clear();
    }
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

/// The network part of the lowest address.
pub(super) const fn upper(prefix: Prefix6) -> u64 {
    (prefix.bits() >> 64) as u64
}

/// The interface part of the lowest address.
const fn lower(prefix: Prefix6) -> u64 {
    prefix.bits() as u64
}

fn join(route: Route) -> Prefix6 {
    Prefix6::from_bits(u128::from(route.key) << 64, route.len).expect("it was a prefix")
}

fn join_deep(upper: u64, route: Route) -> Prefix6 {
    Prefix6::from_bits(u128::from(upper) << 64 | u128::from(route.key), 64 + route.len)
        .expect("it was a prefix")
}
