// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that somebody follows through the router (`junctor trace`), to their end.
//!
//! The number lies in bits of the descriptor that nothing else uses and that every new packet begins with as zeros, so it costs a
//! packet nothing that nobody follows. What copies annotations copies it, too: clones, fragments, and a packet that moves to a
//! larger frame stay followed.

use super::{COLD, Packet};

/// Where the number lies among the flags.
const SHIFT: u32 = 5;
/// The number's bits.
const NUMBER: u8 = 7 << SHIFT;
/// What goes with the annotations from one packet to another.
pub(super) const WITH_ANNOTATIONS: u8 = COLD | NUMBER;

/// Numbers that there are.
pub const NUMBERS: u8 = 7;

impl Packet {
    /// The number under which somebody follows this packet, from 1 to [`NUMBERS`]; 0 if nobody does.
    #[inline]
    pub fn followed(&self) -> u8 {
        self.meta().flags >> SHIFT
    }

    /// Follows this packet, and copies made of it from now on, under a number from 1 to [`NUMBERS`]; 0 ends it.
    ///
    /// # Panics
    /// There is no such number.
    pub fn follow(&mut self, number: u8) {
        assert!(number <= NUMBERS, "a number from 0 to {NUMBERS}");
        let m = self.meta_mut();
        m.flags = (m.flags & !NUMBER) | number << SHIFT;
    }

    /// Distinguishes this packet from all others that exist at the time.
    pub fn id(&self) -> usize {
        self.0.as_ptr() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_followed_and_new_packets_are_not() {
        let mut packet = Packet::copy_of(&[1; 60]).unwrap();
        assert_eq!(packet.followed(), 0);
        packet.follow(5);
        packet.set_anno_u8(crate::anno::AGGREGATE, 9);
        let mut clone = packet.share().unwrap();
        clone.data_mut()[0] = 2;
        let copy = packet.duplicate().unwrap();
        let mut large = packet.duplicate().unwrap();
        large.put(3000).unwrap();
        assert_eq!([&packet, &clone, &copy, &large].map(|p| p.followed()), [5; 4]);
        assert_ne!(packet.id(), clone.id());
        packet.follow(0);
        assert_eq!((packet.followed(), packet.anno_u8(crate::anno::AGGREGATE)), (0, 9));
        drop((packet, clone, copy, large));
        let again: Vec<Packet> = (0..8).map(|_| Packet::copy_of(&[1; 60]).unwrap()).collect();
        assert!(again.iter().all(|p| p.followed() == 0));
    }
}
