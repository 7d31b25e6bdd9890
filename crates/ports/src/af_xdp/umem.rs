// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packet memory as the kernel sees it, and which of its frames the kernel holds.
//!
//! The memory's ordinary frames are registered as they are, so a frame that was received is a packet without a copy,
//! and a packet in such a frame is sent without one. Every frame lent to a socket is marked in a [`Lent`], which
//! makes two promises: what the kernel names is believed only if it was lent, and when a socket closes, every frame
//! it still held comes back.

use packet::{Batch, Packet, memory};

/// Largest chunk the kernel accepts in aligned mode: a page.
const CHUNK_MAX: usize = 4096;
/// The kernel keeps this much free before each received frame (XDP_PACKET_HEADROOM).
pub(super) const KERNEL_HEADROOM: usize = 256;

/// The shape of the registered region.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) start: u64,
    pub(super) len: u64,
    /// Bytes of a frame that the kernel uses.
    pub(super) chunk: usize,
    frame_shift: u32,
    pub(super) frames: usize,
}

impl Shape {
    pub(super) fn of_memory() -> Shape {
        let memory = memory();
        let frame = memory.frame_size();
        Shape {
            start: memory.region().0.as_ptr() as u64,
            len: (memory.frames() * frame) as u64,
            chunk: frame.min(CHUNK_MAX),
            frame_shift: frame.trailing_zeros(),
            frames: memory.frames(),
        }
    }

    /// Frame and offset within it of an address of the kernel's.
    #[inline]
    pub(super) fn place(&self, address: u64) -> (usize, usize) {
        let index = (address >> self.frame_shift) as usize;
        (index, (address & ((1 << self.frame_shift) - 1)) as usize)
    }

    #[inline]
    pub(super) fn address(&self, index: usize) -> u64 {
        (index as u64) << self.frame_shift
    }

    /// Address of a packet's first byte; `None` when it is not in one piece within a chunk that we may lend.
    #[inline]
    pub(super) fn lendable(&self, packet: &Packet) -> Option<u64> {
        packet.frame_index()?;
        let address = packet.as_ptr() as u64 - self.start;
        let within = (address as usize) & (self.chunk - 1);
        (within + packet.len() <= self.chunk).then_some(address)
    }
}

/// The frames that a socket holds in one direction.
#[derive(Debug)]
pub(super) struct Lent {
    bits: Vec<u64>,
    count: usize,
}

impl Lent {
    pub(super) fn none(frames: usize) -> Lent {
        Lent { bits: vec![0; frames.div_ceil(64)], count: 0 }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    #[inline]
    pub(super) fn lend(&mut self, index: usize) {
        debug_assert!(self.bits[index / 64] & 1 << (index % 64) == 0, "frame lent twice");
        self.bits[index / 64] |= 1 << (index % 64);
        self.count += 1;
    }

    /// Takes a frame back as a packet of these bytes; `None` when it was not lent or the bytes do not fit.
    #[inline]
    pub(super) fn back(&mut self, index: usize, offset: usize, len: usize) -> Option<Packet> {
        let bit = 1 << (index % 64);
        let word = self.bits.get_mut(index / 64)?;
        if *word & bit == 0 || offset + len > memory().frame_size() {
            return None;
        }
        *word &= !bit;
        self.count -= 1;
        // SAFETY: the bit says that the frame was given away by `into_frame`; the kernel has just returned it, or
        // the socket that held it is closed.
        Some(unsafe { Packet::from_frame(index, offset, len) })
    }

    /// Takes every frame back. Only after the kernel has let go of them.
    pub(super) fn all_back(&mut self) {
        let mut batch = Batch::new();
        for word in 0..self.bits.len() {
            while self.bits[word] != 0 {
                let index = word * 64 + self.bits[word].trailing_zeros() as usize;
                batch.extend(self.back(index, 0, 0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lent_frames_come_back_once() {
        crate::tests::alone(|| {
            let before = memory().usage().in_use();
            let shape = Shape::of_memory();
            let mut lent = Lent::none(shape.frames);
            let packet = Packet::copy_of(&[7; 100]).unwrap();
            let address = shape.lendable(&packet).unwrap();
            let index = packet.into_frame().unwrap();
            lent.lend(index);
            let (place, offset) = shape.place(address);
            assert_eq!((place, shape.address(index) + offset as u64), (index, address));
            assert!(lent.back(index ^ 1, 0, 0).is_none());
            assert!(lent.back(index, 2000, 100).is_none());
            assert!(lent.back(usize::MAX, 0, 0).is_none());
            assert_eq!(lent.back(index, offset, 100).unwrap().data(), [7; 100]);
            assert!(lent.back(index, offset, 100).is_none());
            for _ in 0..100 {
                lent.lend(Packet::alloc(0, 0).unwrap().into_frame().unwrap());
            }
            assert_eq!(memory().usage().in_use(), before + 100);
            lent.all_back();
            assert_eq!((lent.count(), memory().usage().in_use()), (0, before));
        });
    }

    #[test]
    fn only_sole_packets_of_ordinary_frames_are_lendable() {
        crate::tests::alone(|| {
            let shape = Shape::of_memory();
            let mut shared = Packet::copy_of(&[1; 60]).unwrap();
            let clone = shared.share();
            assert_eq!((shape.lendable(&shared), shape.lendable(clone.as_ref().unwrap())), (None, None));
            assert_eq!(shape.lendable(&Packet::alloc(128, 9000).unwrap()), None);
            assert!(shape.lendable(&Packet::alloc(128, 1500).unwrap()).is_some());
        });
    }
}
