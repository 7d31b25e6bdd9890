// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a worker has decided by rules alone, without changing anything that others look at.
//!
//! Each worker has counters of its own for all rules, on lines that no other worker writes to. A counter is loaded and stored, since nobody else stores to
//! it. Who shows counts holds the firewall exclusively, and takes them over into those of the rules ([`Firewall::collect`]).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::Firewall;

#[derive(Debug, Default)]
struct Hit {
    packets: AtomicU64,
    bytes: AtomicU64,
    last_ns: AtomicU64,
}

/// A line: what lies before and behind belongs to others.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Pair([Hit; 2]);

/// What a worker has counted, by the slots of rules. See [`Firewall::decide_shared`].
#[derive(Debug, Default)]
pub struct Hits(Vec<Pair>);

impl Hits {
    /// Counts a packet that the rule of a slot has decided on.
    #[inline]
    pub(super) fn count(&self, slot: u32, length: u32, now_ns: u64) {
        let Some(pair) = self.0.get(slot as usize / 2) else { return };
        let hit = &pair.0[slot as usize % 2];
        hit.packets.store(hit.packets.load(Relaxed) + 1, Relaxed);
        hit.bytes.store(hit.bytes.load(Relaxed) + u64::from(length), Relaxed);
        hit.last_ns.store(now_ns, Relaxed);
    }

    /// Takes out what was counted, slot by slot: packets, bytes, and when the last one came.
    pub(super) fn take(&mut self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let take = |hit: &mut Hit| {
            let Hit { packets, bytes, last_ns } = std::mem::take(hit);
            (packets.into_inner(), bytes.into_inner(), last_ns.into_inner())
        };
        self.0.iter_mut().flat_map(|pair| &mut pair.0).map(take)
    }
}

impl Firewall {
    /// Takes over what a worker has counted. Rules that came later have room in it from then on: call it for each worker when its counters begin, after
    /// [`replace`](Self::replace), and before. Otherwise packets are not counted, or counted for another rule.
    pub fn collect(&mut self, hits: &mut Hits) {
        self.book.collect(hits);
        hits.0.resize_with(self.book.slots().div_ceil(2), Pair::default);
    }
}
