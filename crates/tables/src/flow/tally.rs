// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets and bytes of flows.
//!
//! They are counted by those who share the table, and both directions of a flow may be counted by two workers at the same time. So the
//! counters of each direction lie apart, four flows to a line, and away from what readers share.
//!
//! A counter is loaded and stored, not added to in one step: where packets of one flow *and* direction come by several workers at the same time, some
//! may not be counted. A read-modify-write of the line would cost every packet more.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use sync::prefetch::prefetch;

#[derive(Debug, Default)]
struct Counters {
    packets: AtomicU32,
    bytes: AtomicU64,
}

/// The counters of all flows, by the numbers of their records ([`FlowTable::number`](super::FlowTable::number)): of packets there, and of those back.
#[derive(Debug, Default)]
pub struct Tally {
    sides: [Vec<Counters>; 2],
}

impl Tally {
    /// A flow begins with these counts.
    pub fn begin(&mut self, number: u32, packets: [u32; 2], bytes: [u64; 2]) {
        for ((side, packets), bytes) in self.sides.iter_mut().zip(packets).zip(bytes) {
            let at = number as usize;
            // Numbers are given in their order.
            if side.len() <= at {
                side.resize_with(at + 1, Counters::default);
            }
            side[at] = Counters { packets: packets.into(), bytes: bytes.into() };
        }
    }

    /// A flow goes on with the counts that another one has elsewhere.
    pub fn carry(&mut self, number: u32, other: &Tally, of: u32) {
        let (packets, bytes) = other.of(of);
        self.begin(number, packets, bytes);
    }

    /// Asks for the line of a flow's side, 0 for packets there.
    #[inline(always)]
    pub fn approach(&self, number: u32, side: usize) {
        self.sides[side].get(number as usize).into_iter().for_each(prefetch);
    }

    /// Counts a packet.
    #[inline(always)]
    pub fn count(&self, number: u32, side: usize, length: u32) {
        let Some(counters) = self.sides[side].get(number as usize) else { return };
        let packets = counters.packets.load(Relaxed);
        counters.packets.store(packets.saturating_add(1), Relaxed);
        counters.bytes.store(counters.bytes.load(Relaxed) + u64::from(length), Relaxed);
    }

    /// The packets and bytes of a flow.
    pub fn of(&self, number: u32) -> ([u32; 2], [u64; 2]) {
        let side = |side: usize| {
            let counters = self.sides[side].get(number as usize);
            counters.map_or((0, 0), |one| (one.packets.load(Relaxed), one.bytes.load(Relaxed)))
        };
        let (inside, outside) = (side(0), side(1));
        ([inside.0, outside.0], [inside.1, outside.1])
    }
}
