// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packet classification: which is the first rule that a packet matches?
//!
//! # Rules
//!
//! A [`Rule`] is a box over the fields that filters mostly ask for: addresses (value and mask), two ports (least and greatest), and
//! protocol with its circumstances (value and mask). A rule with conditions beyond these is given as a box around them, with
//! [`Rule::asks`] set: a look-up then asks about each packet in the box. So any list of rules can be looked up, and the answer is always that of
//! the list read from its beginning.
//!
//! # Layout
//!
//! ```text
//! Rules: a few tables, one after the other              blocks: 8 rules side by side
//! +-------------------------------+                     +---------------------------------+
//! | src/24 dst/16 tcp   first:  3 |--> slots by hash -->| values, masks, ports, kinds     |
//! | dst/28              first:  7 |     of the key      | of 8 rules, and their tags      |
//! | dst/16 port/16      first: 90 |     under the mask  +---------------------------------+
//! +-------------------------------+                     | ...                             |
//! | the rest            first: 12 |-------------------->+---------------------------------+
//! +-------------------------------+
//! ```
//!
//! A *table* has a mask over all fields, and holds rules that look at all bits of it. So they can be found by a hash of the key under the
//! mask: a *bucket* is the rules that agree there, in order. All rules of a block are compared at once. A bucket with too many rules becomes
//! a structure of the same kind, with other masks. What no mask divides is compared block by block.
//!
//! Masks are chosen one after the other, by an estimate of what a look-up costs: long ones make small buckets, short ones take in more
//! rules, so that fewer tables follow. A mask may be shorter than the prefixes of the rules behind it. Tables stand in the order of
//! their first rules, and a look-up ends at the first table that has no earlier rule than the one found.
//!
//! Batches go through a table together, so that the cache misses of their packets overlap.
//!
//! Ideas: tuple space search (Srinivasan, Suri, Varghese, SIGCOMM 1999); tables for similar tuples (Daly et al., *TupleMerge*, IEEE/ACM ToN
//! 2019); order by priority (Yingchareonthawornchai et al., *PartitionSort*, ToN 2018).
//!
//! # Size and trade-offs
//!
//! A full block of IPv4 rules is 256 bytes; a bucket of one rule takes a block, too. A rule stands in one place only, so memory is linear in
//! the number of rules. The time for a look-up is not bounded so: rules of very many different shapes need many tables.
//!
//! A change means another structure. 100,000 rules take a fraction of a second, and look-ups in the old one go on meanwhile.

use std::array;

mod block;
mod build;
mod find;
#[cfg(test)]
mod tests;

use block::{Block, Tag};

/// The source or destination port is there.
pub const HAS_PORT: [u16; 2] = [0x200, 0x400];
/// The packet is not the first fragment.
pub const LATER_FRAGMENT: u16 = 0x100;
/// The protocol's bits of [`Key::kind`].
pub const PROTOCOL: u16 = 0xff;
/// No rule.
pub const NONE: u32 = u32::MAX >> 1;
/// Rules that a list may have at most.
pub const RULES_MAX: usize = 1 << 24;

/// A packet's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<const W: usize> {
    /// The source address and the destination address, half of the words each; and a word of the user's, if there is one more.
    pub words: [u32; W],
    /// Source and destination port; 0 where [`kind`](Key::kind) says that there is none.
    pub ports: [u16; 2],
    /// The [protocol](PROTOCOL), [`LATER_FRAGMENT`] and [`HAS_PORT`].
    pub kind: u16,
}

impl<const W: usize> Default for Key<W> {
    fn default() -> Key<W> {
        Key { words: [0; W], ports: [0; 2], kind: 0 }
    }
}

/// The bits of a word that must have a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ternary<T> {
    /// The value; bits outside the mask do not count.
    pub value: T,
    /// Ones for the bits that matter.
    pub mask: T,
}

/// The ports from the least to the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The least.
    pub low: u16,
    /// The greatest.
    pub high: u16,
}

impl Ports {
    /// All ports.
    pub const ALL: Ports = Ports { low: 0, high: u16::MAX };

    /// How many leading bits they all have in common.
    fn common(self) -> u32 {
        (self.low ^ self.high).leading_zeros()
    }
}

/// A rule, or a part of one: the packets in a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule<const W: usize> {
    /// For the words of [`Key::words`].
    pub words: [Ternary<u32>; W],
    /// Where these are not all ports, `kind` must demand that there is one ([`HAS_PORT`]).
    pub ports: [Ports; 2],
    /// For [`Key::kind`].
    pub kind: Ternary<u16>,
    /// Whether some packets in the box do not match, so that a look-up must ask.
    pub asks: bool,
}

impl<const W: usize> Rule<W> {
    /// Every packet.
    pub fn any() -> Rule<W> {
        Rule {
            words: [Ternary { value: 0, mask: 0 }; W],
            ports: [Ports::ALL; 2],
            kind: Ternary { value: 0, mask: 0 },
            asks: false,
        }
    }

    /// Whether the box holds a key.
    pub fn holds(&self, key: &Key<W>) -> bool {
        let mut words = self.words.iter().zip(key.words);
        let mut ports = self.ports.iter().zip(key.ports);
        words.all(|(ternary, word)| (word ^ ternary.value) & ternary.mask == 0)
            && ports.all(|(range, port)| (range.low..=range.high).contains(&port))
            && (key.kind ^ self.kind.value) & self.kind.mask == 0
    }

    /// Whether no key is in it.
    pub fn is_empty(&self) -> bool {
        self.ports.iter().any(|range| range.low > range.high)
    }
}

/// A list of rules, for look-ups. `W` words hold the two addresses: 2 for IPv4, 8 for IPv6. With an odd number the last word is
/// the user's own, which blocks compare and tables do not look at.
#[derive(Clone, Debug)]
pub struct Rules<const W: usize> {
    tables: Box<[Table<W>]>,
    /// Buckets' rules, and then those of no table.
    blocks: Box<[Block<W>]>,
    /// Where those of no table begin.
    rest: usize,
    /// What is in the place of buckets with too many rules.
    children: Box<[Rules<W>]>,
}

impl<const W: usize> Default for Rules<W> {
    /// No rule.
    fn default() -> Rules<W> {
        Rules { tables: Box::default(), blocks: Box::default(), rest: 0, children: Box::default() }
    }
}

/// Rules with a mask in common.
#[derive(Clone, Debug)]
struct Table<const W: usize> {
    mask: Mask<W>,
    /// The tag of its first rule.
    first: Tag,
    /// A power of two of them, half of them free at least.
    slots: Box<[Slot]>,
}

/// The bits that a table looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mask<const W: usize> {
    words: [u32; W],
    /// As [`block::pair`].
    ports: u32,
    kind: u16,
}

/// A bucket: the rules whose keys under the mask have this hash.
#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u32,
    /// The tag of its first rule; [`Tag::MAX`] if it is free.
    first: Tag,
    /// The number of its first block, or of a child.
    start: u32,
    /// How many blocks; 0 for a child.
    blocks: u32,
}

impl Slot {
    const FREE: Slot = Slot { hash: 0, first: Tag::MAX, start: 0, blocks: 0 };
}

impl<const W: usize> Mask<W> {
    /// A hash of a key under the mask.
    #[inline(always)]
    fn hash(&self, key: &Key<W>) -> u32 {
        let rest = u64::from(block::pair(key.ports) & self.ports) | u64::from(key.kind & self.kind) << 32;
        let word = |n: usize| u64::from(key.words[n] & self.words[n]);
        let pairs: [u64; 4] =
            array::from_fn(|n| if 2 * n + 1 < W { word(2 * n) | word(2 * n + 1) << 32 } else { 0 });
        let mut hash = crate::hash::hash128(0, pairs[0], rest);
        if W > 3 {
            hash = crate::hash::hash128(hash, pairs[1], pairs[2] ^ pairs[3].rotate_left(19));
        }
        hash as u32
    }

    /// The slot in a table of so many where the search for a hash begins.
    #[inline(always)]
    fn at(hash: u32, slots: usize) -> usize {
        ((u64::from(hash) * slots as u64) >> 32) as usize
    }
}

impl<const W: usize> Rules<W> {
    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        let slots: usize = self.tables.iter().map(|table| size_of_val(&*table.slots)).sum();
        let children: usize = self.children.iter().map(Rules::bytes).sum();
        size_of::<Self>() + size_of_val(&*self.tables) + slots + size_of_val(&*self.blocks) + children
    }

    /// How many tables a look-up may go through, without those in the place of full buckets.
    pub fn tables(&self) -> usize {
        self.tables.len()
    }
}
