// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPv6 forwarding table: which next hop does the longest matching prefix name?
//!
//! # Layout
//!
//! Routes of up to 64 bits cut the 2^64 upper halves of addresses into *runs*: stretches of keys with one answer. *Chunks* of up to
//! 187 runs are the units of change, each a search tree of two levels; the *directory* above them finds the chunk of a key.
//!
//! ```text
//!  directory: first 16 bits    node: the first child, 15 separators of 32 bits
//!  +-----+-----+-----+--   +-------+---------------+       +-------+---------------+
//!  | node| node| node| --->| child | s s s s s s s |-+---->| child | s s s s s s s |-+--> slot of the chunk, 32 bits:
//!  +-----+-----+-----+--   +-------+---------------+       +-------+---------------+      26 line, 6 shift
//!                                                                                |
//!  chunk:                                    key = upper half >> shift, of which 32 bits
//!  +-------------------------------------+                                       |
//!  | 16 separators of 32 bits            |<--------------------------------------+
//!  +-------------------------------------+----------+
//!  | 10 separators of 32 bits | 11 leaves of 16 bits| x 1 to 17
//!  +--------------------------+---------------------+
//! leaf:  0 iiiiiiiiiiiiiii  next hop id
//!        1 111111111111111  no route
//!        either of these with its first bit turned over: the /64 may be divided by longer routes; search the lower half
//!                           among the divided /64s, else take what the leaf says with the bit turned back
//! ```
//!
//! A chunk's keys need 32 bits only, because all its runs begin at multiples of a power of two (usually 2^16: /48s) and
//! lie close together: so a line has 17 children instead of 9, and leaves stand in the line of their separators. Where the two
//! do not hold, chunks are cut smaller. They are cut at keys as round as may be, so that 32 bits behind the first 16 tell them apart, too.
//!
//! A lookup of 32 addresses takes one step for all 32 before the next one: a level of the directory, the next level, a chunk's head, one
//! leaf line. Only the latter two miss the first cache, and are asked for ahead. No step branches.
//!
//! Ideas: runs in place of prefixes as in Lampson, Srinivasan and Varghese, *IP Lookups using Multiway and Multicolumn Search* (INFOCOM 1998). They
//! also put a table of the first 16 bits before their search. Trees without pointers in cache lines are as in Rao and Ross, *Cache Conscious Indexing
//! for Decision-Support in Main Memory* (VLDB 1999).
//!
//! # Size
//!
//! 6 bytes for each run and 7 % of heads; 256 KB for the table of the first 16 bits, a node of the directory for 12 chunks. For the 246,175 routes
//! of RIPE RIS AS3333 (2026-05-11, 256 next hops) that makes 1.8 MB (bench `fib6`). The control side ([`Fib6Writer`])
//! keeps the routes besides, 12 bytes each, and twice at most once they change: a replaced table's routes stand in one list, of which the parts
//! that changes concern are copied.
//!
//! # Trade-offs
//!
//! * An update rebuilds one chunk and publishes it with one store. A chunk that overflows is divided, which replaces
//!   the directory: some ten microseconds. A short prefix rebuilds all chunks below it: the default route some milliseconds.
//! * Scattered runs of odd ends cost more: a lone /64 far from other routes makes two chunks of two lines each, and two nodes. More than 77 runs within one /48
//!   make the nodes of the directory wide, with eight children: a search of more levels for each lookup.
//! * Routes beyond /64 stand in one sorted list for each /64: exact, but a search for each such
//!   address by itself, and each change copies the list of its /64 and replaces the root.
//! * Next hop ids end at 32,766 ([`NextHopId::MAX`]).
//!
//! # Invariants
//!
//! 1. Every slot of a root that a reader can reach names a complete chunk, which is never changed while one does.
//! 2. A chunk's lines are used again only after a grace period since no slot of the current root names it.
//! 3. A failed update changes nothing: everything is built apart before the first is published.
//! 4. Each lookup answers as the table before or after any concurrent update, never a third thing. Different addresses in
//!    one batch may see different sides of it.
//! 5. Chunks cover all keys without gap or overlap; all starts of a chunk's runs but the first are multiples of
//!    2^shift, and all its keys are equal above 32 bits from there.
//!
//! # Ordering argument
//!
//! The writer fills a chunk's lines (Relaxed), then stores the slot (Release), or builds a new root and swaps it in
//! (`rcu::Cell`: Release). A reader loads the root (Acquire) and the slot (Acquire), then the lines: it sees them filled.
//!
//! For 2: a reader may hold an old root, whose slots are stored to no more and go on naming old chunks. The writer stamps a chunk's
//! grace period after the swap or store that took it out of the current root. A reader that reached the chunk did so before
//! its next quiescent state, and when the grace period is over every reader has had one since; from then on it finds the new root and the new slot.
//!
//! For 4: what an address finds depends on one root and one slot. If an update changes the divided /64s it replaces the root and the
//! slots together; else each address depends on one slot only, which is stored once.

mod build;
mod chunk;
mod directory;
mod divided;
mod sweep;
#[allow(unsafe_code)]
mod walk;
mod writer;

pub use crate::next_hop::NextHopId;
use crate::{
    arena::NoBlock,
    fib6::{directory::Directory, divided::Divided, walk::Walk},
};
pub use crate::{
    fib4::Memory,
    fib6::writer::{Change, DEFAULT_LINES, Fib6Writer},
};
use std::{
    fmt,
    sync::{Arc, atomic::AtomicU32},
};
use sync::rcu;
use wire::Prefix6;

/// No route, as a leaf.
const LEAF_NONE: u16 = u16::MAX;
/// Turned over in a leaf whose /64 may be divided.
const DEEP: u16 = 1 << 15;

const _: () = assert!(NextHopId::MAX.0 < (LEAF_NONE ^ DEEP) as u32, "every id fits a leaf");

/// One version of all that is replaced as a whole.
struct Root {
    directory: Arc<Directory>,
    /// The chunks, by the numbers that the directory gives them.
    slots: Arc<[AtomicU32]>,
    divided: Divided,
}

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
        &self.walk.domain
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

#[cfg(test)]
mod tests;
