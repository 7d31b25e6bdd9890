// SPDX-License-Identifier: MIT OR Apache-2.0
//! Batches: what elements exchange.
//!
//! A batch is a vector of packets. Its storage comes from and returns to a small per-thread stock, so making and
//! dropping batches allocates nothing after the first few, and moving one moves three words. Dropping a batch frees
//! its packets in one visit to the pool.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

use crate::memory::memory;
use crate::packet::{Packet, Rest8};
use crate::pool;

/// Packets a batch holds before its storage must grow.
const CAPACITY: usize = 256;
/// Empty storages a thread keeps.
const STOCK: usize = 64;
/// Bytes of a cache line.
const LINE: usize = 64;

thread_local! {
    static STORAGE: RefCell<Vec<Vec<Packet>>> = const { RefCell::new(Vec::new()) };
}

/// A vector of packets in order; derefs to [`Vec`].
#[derive(Debug)]
pub struct Batch {
    packets: Vec<Packet>,
}

impl Batch {
    /// An empty batch.
    #[inline]
    pub fn new() -> Batch {
        let stocked = STORAGE.try_with(|s| s.borrow_mut().pop()).ok().flatten();
        Batch { packets: stocked.unwrap_or_else(|| Vec::with_capacity(CAPACITY)) }
    }

    /// A batch of one.
    pub fn of(packet: Packet) -> Batch {
        let mut batch = Batch::new();
        batch.push(packet);
        batch
    }

    /// Removes and returns the first `n` packets, or all when there are fewer.
    pub fn split_front(&mut self, n: usize) -> Batch {
        let mut front = Batch::new();
        if n >= self.packets.len() {
            std::mem::swap(self, &mut front);
        } else {
            front.packets.extend(self.packets.drain(..n));
        }
        front
    }

    /// Appends a packet for each of `lines`, of the first `len` bytes of that line, after `headroom` bytes of headroom, marked as
    /// [having arrived](Packet::arrive) at `wall_ns`; returns how many there was memory for. The rest of a line comes to lie in the
    /// tailroom: a line is copied faster than its part.
    ///
    /// # Panics
    /// When a line has no `len` bytes, or does not fit a frame behind the headroom.
    #[inline]
    pub fn append_lines<'a>(
        &mut self,
        headroom: usize,
        len: usize,
        wall_ns: u64,
        lines: impl ExactSizeIterator<Item = &'a [u8; LINE]>,
    ) -> usize {
        // `begin_arrived` adds up to a kilobyte to the headroom.
        let fits = headroom <= 512 && headroom + 1024 + LINE <= memory().frame_size();
        assert!(len <= LINE && fits, "a line that does not fit its frame");
        let n = lines.len();
        self.packets.reserve(n);
        let before = self.packets.len();
        let taken = pool::take_small_into(self.packets.spare_capacity_mut(), n);
        let rest = Rest8::of_frames(memory().frame_size());
        let mut begun = before;
        for (frame, line) in self.packets.spare_capacity_mut()[..taken].iter_mut().zip(lines) {
            // SAFETY: there are `taken` frames behind the vector's end. Nobody else has them, and a buffer has room for a line,
            // as asserted.
            unsafe {
                let first = frame.assume_init_mut().begin_arrived(headroom, len, wall_ns, rest);
                first.cast::<[u8; LINE]>().write(*line);
            }
            begun += 1;
        }
        // SAFETY: so many are packets now. Were `lines` to panic, or to be shorter than it said, frames would be lost, and nobody
        // would see them.
        unsafe { self.packets.set_len(begun) };
        taken
    }

    /// Keeps the first `n` packets and returns the rest.
    pub fn split_off(&mut self, n: usize) -> Batch {
        let mut rest = Batch::new();
        rest.packets.extend(self.packets.drain(n..));
        rest
    }

    /// Moves all packets of `other` to this batch's end.
    #[inline]
    pub fn append(&mut self, other: &mut Batch) {
        self.packets.append(&mut other.packets);
    }

    /// Keeps the packets for which `keep` is true, in order, and hands each other one to `rejected`, in order.
    #[inline]
    pub fn partition(&mut self, mut keep: impl FnMut(&mut Packet) -> bool, mut rejected: impl FnMut(Packet)) {
        let Some(first) = self.packets.iter_mut().position(|p| !keep(p)) else { return };
        let (n, start) = (self.packets.len(), self.packets.as_mut_ptr());
        let mut kept = first;
        // SAFETY: each place below `n` is read at most once after it was asked for, and written to, further down, only when what was
        // there has left. While that goes on the vector counts only packets that stay where they are, so a panic leaks the others.
        unsafe {
            self.packets.set_len(first);
            rejected(start.add(first).read());
            for at in first + 1..n {
                if keep(&mut *start.add(at)) {
                    start.add(kept).write(start.add(at).read());
                    kept += 1;
                } else {
                    rejected(start.add(at).read());
                }
            }
            self.packets.set_len(kept);
        }
    }

    /// Frees all packets, and says how many bytes they had.
    #[inline]
    pub fn free_counting(&mut self) -> usize {
        let (bytes, plain) = Packet::bytes_and_plain(&self.packets);
        match plain {
            true => pool::release_plain(&mut self.packets),
            false => self.packets.clear(),
        }
        bytes
    }

    /// Frees all packets.
    #[inline]
    pub fn free_all(&mut self) {
        self.free_counting();
    }
}

impl Default for Batch {
    fn default() -> Self {
        Batch::new()
    }
}

impl Drop for Batch {
    #[inline]
    fn drop(&mut self) {
        self.free_all();
        let storage = std::mem::take(&mut self.packets);
        if storage.capacity() >= CAPACITY {
            let _ = STORAGE.try_with(|s| {
                let mut stock = s.borrow_mut();
                if stock.len() < STOCK {
                    stock.push(storage);
                }
            });
        }
    }
}

impl Deref for Batch {
    type Target = Vec<Packet>;

    #[inline]
    fn deref(&self) -> &Vec<Packet> {
        &self.packets
    }
}

impl DerefMut for Batch {
    #[inline]
    fn deref_mut(&mut self) -> &mut Vec<Packet> {
        &mut self.packets
    }
}

impl FromIterator<Packet> for Batch {
    fn from_iter<I: IntoIterator<Item = Packet>>(packets: I) -> Batch {
        let mut batch = Batch::new();
        batch.packets.extend(packets);
        batch
    }
}

impl Extend<Packet> for Batch {
    fn extend<I: IntoIterator<Item = Packet>>(&mut self, packets: I) {
        self.packets.extend(packets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(bytes: &[u8]) -> Batch {
        bytes.iter().map(|b| Packet::copy_of(&[*b]).unwrap()).collect()
    }

    fn bytes(batch: &Batch) -> Vec<u8> {
        batch.iter().map(|p| p.data()[0]).collect()
    }

    #[test]
    fn partition_keeps_both_orders_and_asks_once() {
        crate::alone(|| {
            for len in 0..6u8 {
                for mask in 0..1u8 << len {
                    let all: Vec<u8> = (0..len).collect();
                    let mut b = batch(&all);
                    let (mut out, mut asked) = (Vec::new(), 0);
                    b.partition(
                        |p| {
                            asked += 1;
                            mask >> p.data()[0] & 1 == 1
                        },
                        |p| out.push(p.data()[0]),
                    );
                    let (kept, lost): (Vec<u8>, Vec<u8>) = all.iter().partition(|i| mask >> **i & 1 == 1);
                    assert_eq!((bytes(&b), out, asked), (kept, lost, all.len()));
                }
            }
        });
    }

    #[test]
    fn split_front_and_append_keep_order() {
        crate::alone(|| {
            let mut b = batch(&[1, 2, 3, 4]);
            let mut front = b.split_front(3);
            assert_eq!((bytes(&front), bytes(&b)), (vec![1, 2, 3], vec![4]));
            front.append(&mut b);
            assert_eq!(bytes(&front.split_front(9)), [1, 2, 3, 4]);
            assert!(front.is_empty());
        });
    }

    #[test]
    fn lines_become_clean_packets_whatever_their_frames_were() {
        crate::alone(|| {
            let before = crate::memory().usage().in_use();
            let mut b = Batch::new();
            let lines: Vec<[u8; 64]> = (0..700).map(|i| [i as u8; 64]).collect();
            for len in [0, 10, 64] {
                // More than a thread keeps, so that some come from the spill.
                assert_eq!(b.append_lines(128, len, 9, lines.iter()), 700);
                for (i, p) in b.iter_mut().enumerate() {
                    assert_eq!((p.paint(), p.timestamp_ns(), p.mac_offset()), (0, 9, Some(0)));
                    assert!(p.headroom() >= 128 && *p.data() == lines[i][..len]);
                    assert_eq!((p.network_offset(), p.transport_offset(), p.anno_u32(0)), (None, None, 0));
                    p.set_paint(9);
                    p.set_network(14, 20);
                    p.set_anno(0, [1; 4]);
                }
                let clones: Vec<Packet> = b.iter_mut().step_by(3).filter_map(Packet::share).collect();
                b.free_all();
                assert!(clones.iter().all(|p| p.paint() == 9 && p.len() == len));
            }
            drop(b);
            assert_eq!(crate::memory().usage().in_use(), before);
        });
    }

    #[test]
    fn a_dropped_batch_returns_every_frame() {
        crate::alone(|| {
            let before = crate::memory().usage().in_use();
            let mut b = batch(&[0; 300]);
            let clone = b[0].share().unwrap();
            b.push(clone);
            assert_eq!(crate::memory().usage().in_use(), before + 301);
            drop(b);
            assert_eq!(crate::memory().usage().in_use(), before);
        });
    }
}
