// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets and bytes of a session, in 16 bytes and four bits: a session's record has no more room.
//!
//! Bytes are counted in units of a power of two, at first of one byte. When a count is full, the unit doubles. A packet's part of a unit is
//! rounded by its number, so that the parts of many packets add up.

use std::num::NonZeroU8;

/// The unit is a power of two up to this one.
const SCALE_MAX: u8 = 15;
const SCALE: u8 = 0b1111;
/// The session counts for the bond of its client.
const BOUND: u8 = 1 << 4;
/// Always set, so that there is a value for none.
const SET: u8 = 1 << 7;

/// Marks of a session: the unit of its bytes, and whether it counts for a bond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks(NonZeroU8);

impl Default for Marks {
    fn default() -> Marks {
        Marks::of(0)
    }
}

impl Marks {
    #[inline]
    fn of(bits: u8) -> Marks {
        Marks(NonZeroU8::MIN | (bits << 1) | SET)
    }

    #[inline]
    fn bits(self) -> u8 {
        (self.0.get() & !SET) >> 1
    }

    #[inline]
    fn scale(self) -> u8 {
        self.bits() & SCALE
    }

    /// Whether the session counts for the bond of its client.
    #[inline]
    pub(crate) fn is_bound(self) -> bool {
        self.bits() & BOUND != 0
    }

    /// The session counts for the bond of its client.
    pub(crate) fn bind(&mut self) {
        *self = Marks::of(self.bits() | BOUND);
    }
}

/// Packets and bytes from the client, and from the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    packets: [u32; 2],
    bytes: [u32; 2],
}

impl Tally {
    /// Counts a packet of a side.
    #[inline]
    pub(crate) fn note(&mut self, marks: &mut Marks, side: usize, length: u32) {
        let (number, scale) = (self.packets[side], marks.scale());
        let units = (length + (number & ((1 << scale) - 1))) >> scale;
        self.packets[side] = number.saturating_add(1);
        match self.bytes[side].checked_add(units) {
            Some(sum) => self.bytes[side] = sum,
            None => self.double_unit(marks, side, units),
        }
    }

    #[cold]
    fn double_unit(&mut self, marks: &mut Marks, side: usize, units: u32) {
        if marks.scale() == SCALE_MAX {
            self.bytes[side] = u32::MAX;
            return;
        }
        *marks = Marks::of(marks.bits() + 1);
        self.bytes = self.bytes.map(|bytes| bytes >> 1);
        self.bytes[side] += units >> 1;
    }

    /// Packets of both sides, at most 4,294,967,295.
    pub(crate) fn packets(&self) -> [u64; 2] {
        self.packets.map(u64::from)
    }

    /// Bytes of both sides.
    pub(crate) fn bytes(&self, marks: Marks) -> [u64; 2] {
        self.bytes.map(|bytes| u64::from(bytes) << marks.scale())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    /// Against plain sums, up to 1.2 TB.
    #[test]
    fn counts_are_nearly_exact() {
        let mut random = Rng::with_seed(7);
        for (low, high) in [(40, 60), (1400, 1500), (60_000, 65_535)] {
            let (mut tally, mut marks) = (Tally::default(), Marks::default());
            marks.bind();
            let (mut packets, mut bytes) = ([0u64; 2], [0u64; 2]);
            for n in 0..1_000_000 {
                // Each packet stands for so many of the first million's, once there is a unit to count in.
                let side = usize::from(n % 20 == 0);
                let length = random.u32(low..high);
                for _ in 0..20 {
                    tally.note(&mut marks, side, length);
                }
                packets[side] += 20;
                bytes[side] += 20 * u64::from(length);
            }
            assert_eq!(tally.packets(), packets);
            for (found, sum) in tally.bytes(marks).into_iter().zip(bytes) {
                assert!(found.abs_diff(sum) <= sum / 1000, "{found} for {sum}");
            }
            assert!(marks.is_bound() && (marks.scale() > 7) == (high == 65_535), "{marks:?}");
        }
        let (mut full, mut marks) =
            (Tally { packets: [u32::MAX; 2], bytes: [u32::MAX; 2] }, Marks::of(SCALE_MAX));
        full.note(&mut marks, 0, 65_535);
        assert_eq!((full.packets[0], full.bytes[0], marks), (u32::MAX, u32::MAX, Marks::of(SCALE_MAX)));
    }
}
