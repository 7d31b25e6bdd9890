// SPDX-License-Identifier: MIT OR Apache-2.0
//! The four rings of an AF_XDP socket: single-producer, single-consumer, shared with the kernel.
//!
//! Order, by `Documentation/networking/af_xdp.rst` and `net/xdp/xsk_queue.h`:
//! 1. The producer writes entries, then its index with release; the consumer reads that index with acquire, so it
//!    sees the entries.
//! 2. The consumer reads entries, then writes its index with release; the producer reads that index with acquire, so
//!    it overwrites only what has been read.
//!
//! Each side keeps its own index in private and a copy of the other's, and touches the shared words once per batch.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::xdp_ring_offset;

use crate::sys::Map;

const NEED_WAKEUP: u32 = libc::XDP_RING_NEED_WAKEUP;

/// A mapped ring of entries `T`.
struct Ring<T> {
    map: Map,
    producer: usize,
    consumer: usize,
    flags: usize,
    entries: usize,
    mask: u32,
    kind: std::marker::PhantomData<fn(T) -> T>,
}

impl<T: Copy> Ring<T> {
    fn map(fd: &OwnedFd, size: u32, page_offset: i64, at: &xdp_ring_offset) -> io::Result<Ring<T>> {
        let len = at.desc as usize + size as usize * size_of::<T>();
        Ok(Ring {
            map: Map::new(fd, len, page_offset)?,
            producer: at.producer as usize,
            consumer: at.consumer as usize,
            flags: at.flags as usize,
            entries: at.desc as usize,
            mask: size - 1,
            kind: std::marker::PhantomData,
        })
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: the kernel placed an aligned 32-bit word there, which both sides touch atomically.
        unsafe { AtomicU32::from_ptr(self.map.at(at).cast()) }
    }

    fn entry(&self, index: u32) -> *mut T {
        self.map.at(self.entries + (index & self.mask) as usize * size_of::<T>()).cast()
    }
}

/// A ring that we fill: frames to receive into, or frames to send.
pub(super) struct Producer<T> {
    ring: Ring<T>,
    /// Our index, ahead of the shared one by what was not submitted.
    next: u32,
    /// The consumer's index, as last seen.
    seen: u32,
}

impl<T: Copy> Producer<T> {
    pub(super) fn map(fd: &OwnedFd, size: u32, page_offset: i64, at: &xdp_ring_offset) -> io::Result<Self> {
        Ok(Producer { ring: Ring::map(fd, size, page_offset, at)?, next: 0, seen: 0 })
    }

    /// Free entries; asks the kernel when fewer than `wanted` are known.
    #[inline]
    pub(super) fn free(&mut self, wanted: u32) -> u32 {
        let size = self.ring.mask + 1;
        let known = size - self.next.wrapping_sub(self.seen);
        if known >= wanted {
            return known;
        }
        self.seen = self.ring.word(self.ring.consumer).load(Ordering::Acquire);
        size - self.next.wrapping_sub(self.seen)
    }

    /// Writes one entry. The caller has seen that one is free.
    #[inline]
    pub(super) fn put(&mut self, value: T) {
        debug_assert!(self.next.wrapping_sub(self.seen) <= self.ring.mask);
        // SAFETY: a free entry inside the mapping; the kernel does not read it before `submit` (order 2).
        unsafe { self.ring.entry(self.next).write(value) };
        self.next = self.next.wrapping_add(1);
    }

    /// Shows the kernel what was put.
    #[inline]
    pub(super) fn submit(&mut self) {
        self.ring.word(self.ring.producer).store(self.next, Ordering::Release);
    }

    /// Entries that the kernel has not taken yet.
    pub(super) fn pending(&mut self) -> u32 {
        self.seen = self.ring.word(self.ring.consumer).load(Ordering::Acquire);
        self.next.wrapping_sub(self.seen)
    }

    /// Whether the kernel waits for a system call before it looks at the ring.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.word(self.ring.flags).load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }
}

/// A ring that the kernel fills: frames received, or frames sent.
pub(super) struct Consumer<T> {
    ring: Ring<T>,
    next: u32,
    seen: u32,
}

impl<T: Copy> Consumer<T> {
    pub(super) fn map(fd: &OwnedFd, size: u32, page_offset: i64, at: &xdp_ring_offset) -> io::Result<Self> {
        Ok(Consumer { ring: Ring::map(fd, size, page_offset, at)?, next: 0, seen: 0 })
    }

    /// Entries to take; asks the kernel when fewer than `wanted` are known.
    #[inline]
    pub(super) fn ready(&mut self, wanted: u32) -> u32 {
        let known = self.seen.wrapping_sub(self.next);
        if known >= wanted {
            return known;
        }
        self.seen = self.ring.word(self.ring.producer).load(Ordering::Acquire);
        self.seen.wrapping_sub(self.next)
    }

    /// Takes one entry. The caller has seen that one is ready.
    #[inline]
    pub(super) fn take(&mut self) -> T {
        debug_assert!(self.seen != self.next);
        // SAFETY: a ready entry inside the mapping; the kernel does not write it before `release` (order 1).
        let value = unsafe { self.ring.entry(self.next).read() };
        self.next = self.next.wrapping_add(1);
        value
    }

    /// Gives the entries taken back to the kernel.
    #[inline]
    pub(super) fn release(&mut self) {
        self.ring.word(self.ring.consumer).store(self.next, Ordering::Release);
    }
}
