// SPDX-License-Identifier: MIT OR Apache-2.0
//! Batches: what elements exchange.
//!
//! A batch is a vector of packets. Its storage comes from and returns to a small per-thread stock, so making and
//! dropping batches allocates nothing after the first few, and moving one moves three words. Dropping a batch frees
//! its packets in one visit to the pool.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

use crate::packet::Packet;
use crate::pool;

/// Packets a batch holds before its storage must grow.
const CAPACITY: usize = 256;
/// Empty storages a thread keeps.
const STOCK: usize = 64;

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

    /// Moves all packets of `other` to this batch's end.
    #[inline]
    pub fn append(&mut self, other: &mut Batch) {
        self.packets.append(&mut other.packets);
    }

    /// Keeps the packets for which `keep` is true, in order, and hands each other one to `rejected`, in order.
    #[inline]
    pub fn partition(&mut self, mut keep: impl FnMut(&mut Packet) -> bool, rejected: impl FnMut(Packet)) {
        self.packets.extract_if(.., |p| !keep(p)).for_each(rejected);
    }

    /// Frees all packets.
    #[inline]
    pub fn free_all(&mut self) {
        if self.packets.iter().all(Packet::plain) {
            pool::release_small_bulk(self.packets.drain(..).rev().map(Packet::into_meta));
        } else {
            self.packets.clear();
        }
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
