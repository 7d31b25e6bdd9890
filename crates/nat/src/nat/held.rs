// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks of ports that a subscriber gave back a short time ago. They are nobody else's for a while (RFC 6888, REQ-8).
//!
//! The subscriber itself may have its block back at any time. A subscriber that comes and goes therefore holds no more blocks than one that stays.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// A block that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeldBlock {
    /// Since when.
    pub(super) since_ns: u64,
    /// Who had it, by the name that people know.
    pub(super) owner: IpAddr,
    pub(super) outside: u32,
    pub(super) first: u16,
    pub(super) size: u16,
}

impl HeldBlock {
    fn key(&self) -> (u32, u16) {
        (self.outside, self.first)
    }

    pub(super) fn range(&self) -> (u16, u16) {
        (self.first, self.first + (self.size - 1))
    }
}

/// All of them. Each has its ports marked in the space of its outside address, so there are no more than blocks.
#[derive(Debug, Default)]
pub(super) struct Held {
    all: BTreeMap<(u32, u16), HeldBlock>,
    by_time: BTreeSet<(u64, u32, u16)>,
    by_owner: BTreeSet<(IpAddr, u32, u16)>,
    /// The oldest of an outside address first.
    by_address: BTreeSet<(u32, u64, u16)>,
}

impl Held {
    /// Holds a block.
    pub(super) fn put(&mut self, block: HeldBlock) {
        let (outside, first) = block.key();
        self.by_time.insert((block.since_ns, outside, first));
        self.by_owner.insert((block.owner, outside, first));
        self.by_address.insert((outside, block.since_ns, first));
        self.all.insert(block.key(), block);
    }

    /// Holds a block no longer.
    pub(super) fn take(&mut self, block: &HeldBlock) {
        let (outside, first) = block.key();
        self.all.remove(&block.key());
        self.by_time.remove(&(block.since_ns, outside, first));
        self.by_owner.remove(&(block.owner, outside, first));
        self.by_address.remove(&(outside, block.since_ns, first));
    }

    /// The oldest one.
    pub(super) fn oldest(&self) -> Option<HeldBlock> {
        let (_, outside, first) = *self.by_time.first()?;
        self.all.get(&(outside, first)).copied()
    }

    /// A block that a subscriber has had, of any outside address or of this one.
    pub(super) fn of(&self, owner: IpAddr, outside: Option<u32>) -> Option<HeldBlock> {
        let (low, high) = outside.map_or((0, u32::MAX), |outside| (outside, outside));
        let (_, outside, first) = *self.by_owner.range((owner, low, 0)..=(owner, high, u16::MAX)).next()?;
        self.all.get(&(outside, first)).copied()
    }

    /// The oldest of an outside address.
    pub(super) fn oldest_on(&self, outside: u32) -> Option<HeldBlock> {
        let (_, _, first) = *self.by_address.range((outside, 0, 0)..=(outside, u64::MAX, u16::MAX)).next()?;
        self.all.get(&(outside, first)).copied()
    }

    /// All of them, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = HeldBlock> + '_ {
        self.by_time.iter().filter_map(|(_, outside, first)| self.all.get(&(*outside, *first)).copied())
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn blocks_are_found_by_time_owner_and_address() {
        let block = |since_ns, owner: u8, outside, first| HeldBlock {
            since_ns,
            owner: Ipv4Addr::new(10, 0, 0, owner).into(),
            outside,
            first,
            size: 8,
        };
        let all = [block(3, 1, 7, 1024), block(2, 2, 7, 1032), block(2, 1, 9, 1024), block(5, 3, 9, 1032)];
        let mut held = Held::default();
        all.iter().for_each(|block| held.put(*block));
        assert_eq!(held.iter().collect::<Vec<_>>(), [all[1], all[2], all[0], all[3]]);
        assert_eq!(held.oldest(), Some(all[1]));
        assert_eq!([7, 9, 8].map(|outside| held.oldest_on(outside)), [Some(all[1]), Some(all[2]), None]);
        assert_eq!(held.of(all[0].owner, None), Some(all[0]));
        assert_eq!(held.of(all[0].owner, Some(9)), Some(all[2]));
        assert_eq!(held.of(all[1].owner, Some(9)), None);
        all.iter().for_each(|block| held.take(block));
        assert_eq!((held.oldest(), held.of(all[0].owner, None), held.oldest_on(7)), (None, None, None));
        assert!(held.by_time.is_empty() && held.by_owner.is_empty() && held.by_address.is_empty());
    }
}
