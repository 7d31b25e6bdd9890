// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPv4 forwarding table: which next hop does the longest matching prefix name?
//!
//! # Layout
//!
//! A lookup takes two steps, or three where routes longer than /24 are. The first sixteen bits of the address
//! choose a slot; the slot names an *object*; the next eight bits choose a *leaf* in it.
//!
//! ```text
//! slots: 65,536 x u32 (256 KiB)          lines: 64-byte cache lines
//! +-----+-----+-- --+-----+
//! |  17 |  17 | ... | 906 |--------> line 906 +---------------------------------------------------------+
//! +-----+-----+-- --+-----+                   | 16 groups of 16 third octets, 3 bytes each:   | 48 bytes|
//!    |     |                                  | run starts before the group, u8; 16 bits      |         |
//!    +-----+--> line 17: the object shared    | leaves 0..7, u16 each                         | 16 bytes|
//!               by all /16s that are wholly   +---------------------------------------------------------+
//!               one next hop                  | leaves 8..39                                  | 64 bytes| line 907
//!                                             +---------------------------------------------------------+
//! leaf, 16 bits:  0 iiiiiiiiiiiiiii  next hop id
//!                 1 ooooooooooooooo  the /24 is divided: an object of the same form, for the last octet, begins
//!                                    o lines after this object's first line
//!                 1 111111111111111  no route
//! ```
//!
//! A *run* is a stretch of neighbouring /24s with the same answer; it takes one leaf. Bit *i* says that a run starts at *i*, so the leaf's number is
//! the count of ones up to *i*. That is the population count of a part of its group plus the count before the group. Both come in one load of 32
//! bits, of which processors with gathers make sixteen at a time. There is no branch between the load of the slot and that of the leaf, so 32 or 64
//! lookups of a batch overlap their cache misses; whether any of them needs the third step is asked once for all.
//!
//! Ideas: run-compressed leaves with a population count as in Degermark et al., *Small Forwarding Tables for Fast Routing
//! Lookups* (SIGCOMM 1997) and Eatherton's tree bitmap (2004); two strides as in DIR-24-8 (Gupta et al., INFOCOM 1998).
//!
//! # Size
//!
//! 256 KiB of slots, and for each /16 that is not of one next hop a line or more: 2 bytes for each run, 48 of head. For the
//! 1,042,325 routes of RIPE RIS AS3333 (2026-05-11, 256 next hops) that makes 3.3 MB (bench `fib4`).
//! The control side ([`Fib4Writer`]) keeps the routes themselves besides: 6 bytes each, in one sorted list for each /16.
//!
//! # Trade-offs
//!
//! * An update rebuilds one object (about a microsecond) and publishes it with one store. A prefix of /16 or shorter
//!   rebuilds every /16 below it whose answer changes: the default route up to 65,536 of them, some 10 ms.
//! * DIR-24-8 is faster where few flows are hot (one load) and slower where many are (32 MB).
//! * Next hop ids end at 32,766 ([`NextHopId::MAX`]).
//! * Addresses whose /24 is divided (routes beyond /24) take one dependent load more.
//!
//! # Invariants
//!
//! 1. Every slot names a complete object at all times; an object is never changed while a slot names it.
//! 2. Lines of an object that no slot names are used again only after a grace period: a reader that holds the old line
//!    number may finish its batch.
//! 3. A failed update changes nothing: all objects are built apart before the first is published.
//! 4. Each lookup answers as the table before or after any concurrent update, never a third thing. Different addresses in
//!    one batch may see different sides of it.
//! 5. Equal neighbours never stand in two runs, and a divided /24 has two answers at least (the form is canonical).
//!
//! # Ordering argument
//!
//! The writer fills lines (Relaxed), then stores the slot (Release). A reader loads the slot (Acquire), then the lines:
//! it sees them filled. For 2: the writer stamps the grace period after the store of the slot; when it is over, each
//! reader has been quiescent since and its later loads of the slot see the newer line number; `sync::rcu` has the proof.

mod encode;
mod rib;
#[allow(unsafe_code)]
mod walk;

pub use crate::next_hop::NextHopId;
use crate::{
    arena::{Arena, NoBlock},
    fib4::{
        encode::{Encoder, LEAF_DIVIDED, LEAF_NONE},
        rib::Rib,
        walk::Walk,
    },
};
use std::{fmt, sync::Arc};
use sync::{lines::Lines, rcu};
use wire::Prefix4;

const SLOTS: usize = 1 << 16;
/// Lines: 9 at the top and 9 for each of 256 divided /24s.
const LARGEST_OBJECT: usize = 9 + 256 * 9;

const _: () = assert!(NextHopId::MAX.0 < LEAF_DIVIDED as u32, "every id fits a leaf");

/// Why an update was refused. The table is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum Fib4Error {
    /// The id does not fit into a leaf.
    #[error("next hop id {id} for {prefix} is out of range: ids go from 0 to {max}", max = NextHopId::MAX.0)]
    NextHopRange {
        /// The route refused.
        prefix: Prefix4,
        /// Its next hop.
        id: u32,
    },
    /// The table has outgrown the lines it was made with.
    #[error(
        "the table is full: routes need {wanted} more cache lines, and {used} of {capacity} are in use; aggregate routes, of which scattered host routes take most, or divide them among tables"
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
    #[error("{waiting} cache lines wait for readers that announce no quiescent state: {laggards:?}")]
    Stalled {
        /// Lines waiting.
        waiting: usize,
        /// The readers behind.
        laggards: Vec<rcu::ReaderState>,
    },
    /// The memory for the table could not be had.
    #[error(transparent)]
    NoMemory(#[from] sync::lines::NoMemory),
}

impl From<NoBlock> for Fib4Error {
    fn from(why: NoBlock) -> Self {
        match why {
            NoBlock::Full { wanted, used, capacity } => Self::Full { wanted, used, capacity },
            NoBlock::Stalled { waiting, laggards } => Self::Stalled { waiting, laggards },
        }
    }
}

/// A change of a route: its next hop from now on, or its end.
pub type Change = (Prefix4, Option<NextHopId>);

/// What the table occupies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes lookups can touch: slots and objects in use.
    pub lookup_bytes: usize,
    /// Bytes of objects replaced that wait for readers, or free for reuse.
    pub spare_bytes: usize,
    /// Bytes of the control side's list of routes.
    pub rib_bytes: usize,
}

struct Shared {
    domain: rcu::Domain,
    walk: Walk,
}

/// Looks addresses up. Cheap to clone; one for each worker.
#[derive(Clone)]
pub struct Fib4Reader {
    shared: Arc<Shared>,
}

impl Fib4Reader {
    /// The next hop for `addr` (host order).
    ///
    /// # Panics
    /// When `reader` belongs to another RCU domain than the table.
    #[inline]
    pub fn lookup(&self, reader: &rcu::Reader, addr: u32) -> NextHopId {
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
    pub fn lookup_batch(&self, reader: &rcu::Reader, addrs: &[u32], out: &mut [u32]) {
        assert_eq!(addrs.len(), out.len(), "one answer for each address");
        assert!(
            reader.belongs_to(&self.shared.domain),
            "the reader is registered with another domain than the table's"
        );
        #[allow(unsafe_code)]
        // SAFETY: `reader` is of the table's domain and stays borrowed until the end of this call.
        unsafe {
            self.shared.walk.lookup(addrs, out);
        }
    }

    /// The domain to register this table's readers with.
    pub fn domain(&self) -> &rcu::Domain {
        &self.shared.domain
    }
}

impl fmt::Debug for Fib4Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fib4Reader").finish_non_exhaustive()
    }
}

/// Changes the table. There is one for each table; lookups go on undisturbed.
pub struct Fib4Writer {
    shared: Arc<Shared>,
    rib: Rib,
    arena: Arena,
    owned: Box<[Owned; SLOTS]>,
    /// Objects of one run, by leaf: their line and how many slots name it.
    uniform: Vec<Uniform>,
    encoder: Encoder,
}

/// What a slot's object is to the writer.
#[derive(Clone, Copy, Debug)]
enum Owned {
    /// The shared object of this leaf.
    Uniform(u16),
    /// This many lines of its own.
    Lines(u16),
}

#[derive(Clone, Copy, Default)]
struct Uniform {
    line: u32,
    slots: u32,
}

/// An object built and not yet published.
#[derive(Clone, Copy)]
struct Staged {
    slot: usize,
    line: u32,
    owned: Owned,
}

/// Cache lines a table gets by default: 128 MiB of address space, of which only what is used becomes
/// memory. The largest Internet tables use 3 to 5 MB; a million scattered host routes use 64 MB and more, so not quite two
/// million of them fit, and half as many where a whole table takes the place of another.
pub const DEFAULT_LINES: usize = 2 << 20;

impl Fib4Writer {
    /// An empty table of [`DEFAULT_LINES`], read by the members of `domain`.
    ///
    /// # Errors
    /// [`Fib4Error::NoMemory`].
    pub fn new(domain: &rcu::Domain) -> Result<Self, Fib4Error> {
        Self::with_lines(domain, DEFAULT_LINES)
    }

    /// As [`new`](Self::new), with room for `lines` cache lines of objects.
    ///
    /// # Errors
    /// [`Fib4Error::NoMemory`]; [`Fib4Error::Full`] when `lines` is 0.
    pub fn with_lines(domain: &rcu::Domain, lines: usize) -> Result<Self, Fib4Error> {
        let lines = lines.min(walk::MAX_LINES);
        // The first line taken will be the object of "no route".
        let walk = Walk::new(Lines::zeroed(lines)?, 0);
        let shared = Shared { domain: domain.clone(), walk };
        let mut writer = Self {
            shared: Arc::new(shared),
            rib: Rib::new(),
            arena: Arena::new(lines, LARGEST_OBJECT),
            owned: boxed_array(|| Owned::Uniform(LEAF_NONE)),
            uniform: Vec::new(),
            encoder: Encoder::default(),
        };
        let line = writer.stage_uniform(LEAF_NONE)?;
        writer.uniform[uniform_index(LEAF_NONE)].slots = SLOTS as u32;
        (0..SLOTS).for_each(|slot| writer.shared.walk.point(slot, line));
        Ok(writer)
    }

    /// A handle for lookups.
    pub fn reader(&self) -> Fib4Reader {
        Fib4Reader { shared: self.shared.clone() }
    }

    /// Adds the route, or changes its next hop; returns the one it had.
    ///
    /// # Errors
    /// See [`Fib4Error`]; the table is unchanged then.
    pub fn insert(&mut self, prefix: Prefix4, id: NextHopId) -> Result<Option<NextHopId>, Fib4Error> {
        let leaf = checked(prefix, id)?;
        self.set(prefix, Some(leaf))
    }

    /// Takes the route out, and returns the next hop it had, if it was there.
    ///
    /// # Errors
    /// See [`Fib4Error`] (also a removal builds objects); the table is unchanged then.
    pub fn remove(&mut self, prefix: Prefix4) -> Result<Option<NextHopId>, Fib4Error> {
        if self.rib.get(prefix).is_none() {
            return Ok(None);
        }
        self.set(prefix, None)
    }

    /// Makes all the changes, or none; of several for one prefix the last counts. Returns what each one found: the next hop that
    /// its route had before. A /16 that several changes concern is rebuilt once, so this costs less than one by one.
    ///
    /// # Errors
    /// See [`Fib4Error`]; the table is unchanged then.
    pub fn commit(&mut self, changes: &[Change]) -> Result<Vec<Option<NextHopId>>, Fib4Error> {
        let leaf = |(prefix, id): &Change| id.map(|id| checked(*prefix, id)).transpose();
        let leaves = changes.iter().map(leaf).collect::<Result<Vec<_>, _>>()?;
        let mut found = Vec::with_capacity(changes.len());
        let mut changed = Vec::with_capacity(changes.len());
        for ((prefix, _), leaf) in changes.iter().zip(leaves) {
            let old = self.rib.set(*prefix, leaf);
            found.push(old);
            changed.extend((old != leaf).then_some(*prefix));
        }
        changed.sort_unstable();
        changed.dedup();
        let mut slots: Vec<usize> = changed.iter().flat_map(|prefix| self.affected(*prefix)).collect();
        slots.sort_unstable();
        slots.dedup();
        if let Err(error) = self.rebuild(slots) {
            for ((prefix, _), old) in changes.iter().zip(found).rev() {
                self.rib.set(*prefix, old);
            }
            return Err(error);
        }
        Ok(found.into_iter().map(|leaf| leaf.map(|leaf| NextHopId(leaf.into()))).collect())
    }

    /// Replaces all routes by `routes` (the last one wins where a prefix comes twice). Each address changes from its
    /// old answer to its new one at once; nothing is withdrawn in between.
    ///
    /// # Errors
    /// See [`Fib4Error`]; the table is unchanged then.
    pub fn replace_all<I>(&mut self, routes: I) -> Result<(), Fib4Error>
    where
        I: IntoIterator<Item = (Prefix4, NextHopId)>,
    {
        let mut rib = Rib::new();
        for (prefix, id) in routes {
            rib.push(prefix, checked(prefix, id)?);
        }
        rib.settle();
        let old = std::mem::replace(&mut self.rib, rib);
        self.rebuild(0..SLOTS).inspect_err(|_| self.rib = old)
    }

    /// The next hop of exactly this route.
    pub fn get(&self, prefix: Prefix4) -> Option<NextHopId> {
        self.rib.get(prefix).map(|leaf| NextHopId(leaf.into()))
    }

    /// The route that decides about `addr` (host order).
    pub fn longest_match(&self, addr: u32) -> Option<(Prefix4, NextHopId)> {
        self.rib.longest_match(addr).map(|(prefix, leaf)| (prefix, NextHopId(leaf.into())))
    }

    /// All routes: those of up to 16 bits by length, then the others by address.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix4, NextHopId)> + '_ {
        self.rib.iter().map(|(prefix, leaf)| (prefix, NextHopId(leaf.into())))
    }

    /// The routes whose addresses are from `from` to `to`, both included, in the order of [`iter`](Self::iter). Costs as much as the range
    /// is long, regardless of the number of all routes.
    pub fn range(&self, from: u32, to: u32) -> impl Iterator<Item = (Prefix4, NextHopId)> + '_ {
        self.rib.range(from, to).map(|(prefix, leaf)| (prefix, NextHopId(leaf.into())))
    }

    /// Number of routes.
    pub fn len(&self) -> usize {
        self.rib.len()
    }

    /// Whether there is no route.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that lookups can touch, which is known without counting.
    pub fn lookup_bytes(&self) -> usize {
        size_of::<[u32; SLOTS]>() + self.arena.used() * size_of::<sync::lines::Line>()
    }

    /// What the table occupies.
    pub fn memory(&self) -> Memory {
        const LINE: usize = size_of::<sync::lines::Line>();
        Memory {
            lookup_bytes: self.lookup_bytes(),
            spare_bytes: self.arena.spare() * LINE,
            rib_bytes: self.rib.bytes(),
        }
    }

    fn set(&mut self, prefix: Prefix4, leaf: Option<u16>) -> Result<Option<NextHopId>, Fib4Error> {
        let old = self.rib.set(prefix, leaf);
        if old != leaf
            && let Err(error) = self.rebuild_below(prefix)
        {
            self.rib.set(prefix, old);
            return Err(error);
        }
        Ok(old.map(|leaf| NextHopId(leaf.into())))
    }

    /// Rebuilds the slots that `prefix` decides about.
    fn rebuild_below(&mut self, prefix: Prefix4) -> Result<(), Fib4Error> {
        let slots: Vec<usize> = self.affected(prefix).collect();
        self.rebuild(slots)
    }

    /// The slots that a change of `prefix` concerns: those below it that no longer route covers.
    fn affected(&self, prefix: Prefix4) -> impl Iterator<Item = usize> {
        let first = (prefix.bits() >> 16) as usize;
        let slots = first..first + (1 << 16u8.saturating_sub(prefix.len()));
        let is_hidden = move |slot| self.rib.covering_len(slot).is_some_and(|len| len > prefix.len());
        slots.filter(move |slot| prefix.len() >= 16 || !is_hidden(*slot))
    }

    /// Builds objects for `slots` from the RIB, all of them, then publishes them.
    fn rebuild(&mut self, slots: impl IntoIterator<Item = usize>) -> Result<(), Fib4Error> {
        let slots = slots.into_iter();
        let mut staged = Vec::with_capacity(slots.size_hint().0);
        for slot in slots {
            match self.stage(slot) {
                Ok(object) => staged.extend(object),
                Err(error) => {
                    staged.into_iter().for_each(|object| self.discard(object));
                    return Err(error);
                }
            }
        }
        staged.into_iter().for_each(|object| self.publish(object));
        Ok(())
    }

    /// Builds the object for `slot`, unless the slot already names the shared object it would be.
    fn stage(&mut self, slot: usize) -> Result<Option<Staged>, Fib4Error> {
        let (cover, routes) = (self.rib.covering(slot), self.rib.below(slot));
        let uniform = if routes.is_empty() {
            Some(cover) // most of the slots that a short prefix covers
        } else {
            self.encoder.encode(cover, routes);
            self.encoder.uniform()
        };
        if let Some(leaf) = uniform {
            if matches!(self.owned[slot], Owned::Uniform(now) if now == leaf) {
                return Ok(None);
            }
            let line = self.stage_uniform(leaf)?;
            self.uniform[uniform_index(leaf)].slots += 1;
            return Ok(Some(Staged { slot, line, owned: Owned::Uniform(leaf) }));
        }
        let count = self.encoder.lines();
        let line = self.arena.take(count, &self.shared.domain)?;
        self.encoder.write(&self.shared.walk.lines[line as usize..line as usize + count]);
        let count = u16::try_from(count).expect("an object has at most 9 + 256 * 9 lines");
        Ok(Some(Staged { slot, line, owned: Owned::Lines(count) }))
    }

    /// The line of the shared object for `leaf`, made if there is none; the caller counts its use.
    fn stage_uniform(&mut self, leaf: u16) -> Result<u32, Fib4Error> {
        let index = uniform_index(leaf);
        if self.uniform.len() <= index {
            self.uniform.resize(index + 1, Uniform::default());
        }
        if self.uniform[index].slots == 0 {
            let line = self.arena.take(1, &self.shared.domain)?;
            self.encoder.encode(leaf, &[]);
            self.encoder.write(&self.shared.walk.lines[line as usize..=line as usize]);
            self.uniform[index].line = line;
        }
        Ok(self.uniform[index].line)
    }

    fn publish(&mut self, Staged { slot, line, owned }: Staged) {
        let old = self.shared.walk.line(slot);
        self.shared.walk.point(slot, line);
        let old_owned = std::mem::replace(&mut self.owned[slot], owned);
        if let Some(count) = self.release(old_owned) {
            self.arena.retire(old, count, &self.shared.domain);
        }
    }

    /// Undoes `stage`. Nobody has seen the object, so its lines are free at once.
    fn discard(&mut self, Staged { line, owned, .. }: Staged) {
        if let Some(count) = self.release(owned) {
            self.arena.give_back(line, count);
        }
    }

    /// Gives up one use of an object; the lines to free, if it was the last.
    fn release(&mut self, owned: Owned) -> Option<usize> {
        match owned {
            Owned::Lines(count) => Some(count.into()),
            Owned::Uniform(leaf) => {
                let uniform = &mut self.uniform[uniform_index(leaf)];
                uniform.slots -= 1;
                (uniform.slots == 0).then_some(1)
            }
        }
    }
}

impl fmt::Debug for Fib4Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fib4Writer").field("routes", &self.len()).field("memory", &self.memory()).finish()
    }
}

fn checked(prefix: Prefix4, id: NextHopId) -> Result<u16, Fib4Error> {
    match u16::try_from(id.0) {
        Ok(leaf) if id <= NextHopId::MAX => Ok(leaf),
        _ => Err(Fib4Error::NextHopRange { prefix, id: id.0 }),
    }
}

/// Where an answer stands among the uniform objects: ids at their place, "no route" behind them.
fn uniform_index(leaf: u16) -> usize {
    usize::from(leaf & !LEAF_DIVIDED)
}

/// An array too large for the stack.
fn boxed_array<T: fmt::Debug, const N: usize>(value: impl FnMut() -> T) -> Box<[T; N]> {
    std::iter::repeat_with(value).take(N).collect::<Vec<_>>().try_into().expect("N values")
}

#[cfg(test)]
mod tests;
