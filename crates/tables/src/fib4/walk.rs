// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lookup itself: the one place of this crate with `unsafe` in it, kept small for that reason.
//!
//! A lookup is about twenty-five instructions, so the two bounds checks and the shifting of leaves out of words, which safe
//! code needs, cost a fifth of the speed (bench `fib4`, Xeon at 2.5 GHz, ratio to DIR-24-8 in the same run: `rand` 1.07 safe,
//! 1.3 so; `pfx` 0.64 and 0.76; `zipf` 0.42 and 0.49).
//!
//! What the unchecked loads rely on:
//!
//! * (a) An object number comes from a slot, and slots name complete objects within the slab only (invariant 1 of the parent).
//! * (b) In a complete object the leaf of any entry, and the object a divided leaf names, lie within that object.
//! * (c) Its lines are not written again while the caller's `Reader` is borrowed (invariant 2): after the Acquire load of
//!   the slot there is no concurrent store to them, of whatever size, so loads of other sizes than the writer's stores are
//!   no race.
//!
//! The table is little-endian in memory, so that bytes and halves of words can be loaded by themselves.

use super::{NextHopId, SLOTS, encode};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use sync::lines::{Line, Lines};

/// Addresses looked up side by side.
const BATCH: usize = 32;
/// 16-bit units in a line.
const LINE_HALVES: u32 = size_of::<Line>() as u32 / 2;

/// What lookups read.
pub(super) struct Walk {
    pub slots: Box<[AtomicU32; SLOTS]>,
    pub lines: Lines,
    /// The processor has the instructions that `batch_bmi2` is compiled for.
    bmi2: bool,
}

impl Walk {
    pub(super) fn new(slots: Box<[AtomicU32; SLOTS]>, lines: Lines) -> Self {
        Self { slots, lines, bmi2: has_bmi2() }
    }

    /// Looks up each of `addrs`.
    ///
    /// # Safety
    /// A reader registered with the table's domain stays borrowed meanwhile (c).
    #[inline]
    pub(super) unsafe fn lookup(&self, addrs: &[u32], out: &mut [u32]) {
        #[cfg(target_arch = "x86_64")]
        if self.bmi2 {
            // SAFETY: `bmi2` is set only if the processor has POPCNT, BMI1 and BMI2, all that the function asks for; the
            // rest is the caller's promise.
            return unsafe { self.batch_bmi2(addrs, out) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.batch(addrs, out) }
    }

    /// # Safety
    /// As [`lookup`](Self::lookup).
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "popcnt,bmi1,bmi2")]
    unsafe fn batch_bmi2(&self, addrs: &[u32], out: &mut [u32]) {
        // SAFETY: the caller's promise.
        unsafe { self.batch(addrs, out) }
    }

    /// # Safety
    /// As [`lookup`](Self::lookup).
    #[inline(always)]
    pub(super) unsafe fn batch(&self, addrs: &[u32], out: &mut [u32]) {
        let (addr_chunks, addr_rest) = addrs.as_chunks::<BATCH>();
        let (out_chunks, out_rest) = out.as_chunks_mut::<BATCH>();
        for (addrs, out) in addr_chunks.iter().zip(out_chunks) {
            // SAFETY: the caller's promise.
            unsafe { self.batch_full(addrs, out) };
        }
        for (addr, out) in addr_rest.iter().zip(out_rest) {
            let object = self.object(*addr);
            // SAFETY: (a), (b); (c) by the caller.
            *out = unsafe { self.finish(object, self.leaf(self.place(object, *addr >> 8)), *addr) };
        }
    }

    /// Step by step over the whole batch, so that each step's cache misses overlap.
    ///
    /// # Safety
    /// As [`lookup`](Self::lookup).
    #[inline(always)]
    unsafe fn batch_full(&self, addrs: &[u32; BATCH], out: &mut [u32; BATCH]) {
        let mut objects = [0; BATCH];
        for (object, addr) in objects.iter_mut().zip(addrs) {
            *object = self.object(*addr);
        }
        let mut places = [0; BATCH];
        for ((place, object), addr) in places.iter_mut().zip(&objects).zip(addrs) {
            // SAFETY: (a); (c) by the caller.
            *place = unsafe { self.place(*object, *addr >> 8) };
        }
        let mut divided = 0;
        for (out, place) in out.iter_mut().zip(&places) {
            // SAFETY: (b); (c) by the caller.
            let leaf = unsafe { self.leaf(*place) };
            divided |= leaf;
            *out = answer(leaf);
        }
        if divided & encode::LEAF_DIVIDED != 0 {
            for ((out, place), (object, addr)) in out.iter_mut().zip(&places).zip(objects.iter().zip(addrs)) {
                // SAFETY: (a), (b); (c) by the caller.
                *out = unsafe { self.finish(*object, self.leaf(*place), *addr) };
            }
        }
    }

    #[inline(always)]
    fn object(&self, addr: u32) -> u32 {
        self.slots[(addr >> 16) as usize].load(Ordering::Acquire)
    }

    /// Where the leaf stands for the entry that the lowest octet of `entry` names, in 16-bit units from the slab's start.
    ///
    /// # Safety
    /// `object` is the first line of a level of an object, complete (a) and not being written (c).
    #[inline(always)]
    unsafe fn place(&self, object: u32, entry: u32) -> u32 {
        debug_assert!((object as usize) < self.lines.len());
        let word = (entry >> 6 & 3) as usize;
        // SAFETY: the line is within the slab (a); a line begins with four words of run starts and four bytes of
        // counts, `word` is below four, and there is no concurrent store (c).
        let (starts, before) = unsafe {
            let head = self.lines.as_ptr().add(object as usize);
            let starts = &*head.cast::<AtomicU64>().add(word);
            let before = &*head.cast::<AtomicU8>().add(encode::COUNTS_WORD * 8 + word);
            (u64::from_le(starts.load(Ordering::Relaxed)), before.load(Ordering::Relaxed))
        };
        let run = u32::from(before) + (starts << (!entry & 63)).count_ones();
        object * LINE_HALVES + encode::FIRST_LEAF_HALF + run
    }

    /// # Safety
    /// `place` is what [`place`](Self::place) gave, and (c) still holds.
    #[inline(always)]
    unsafe fn leaf(&self, place: u32) -> u16 {
        debug_assert!(((place / LINE_HALVES) as usize) < self.lines.len());
        // SAFETY: within the object (b), hence within the slab, and no concurrent store (c).
        let leaf = unsafe { &*self.lines.as_ptr().cast::<AtomicU16>().add(place as usize) };
        u16::from_le(leaf.load(Ordering::Relaxed))
    }

    /// Takes the third step where there is one.
    ///
    /// # Safety
    /// `leaf` is from the object `object`, and (c) still holds.
    #[inline(always)]
    unsafe fn finish(&self, object: u32, leaf: u16, addr: u32) -> u32 {
        if leaf & encode::LEAF_DIVIDED == 0 {
            return answer(leaf);
        }
        let lower = object + u32::from(leaf & !encode::LEAF_DIVIDED);
        // SAFETY: a divided leaf names a level of the same object (b); (c) by the caller.
        answer(unsafe { self.leaf(self.place(lower, addr)) })
    }
}

#[inline(always)]
fn answer(leaf: u16) -> u32 {
    if leaf == encode::LEAF_NONE { NextHopId::NONE.0 } else { u32::from(leaf) }
}

fn has_bmi2() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}
