// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lookup itself: the one place of this crate with `unsafe` in it, kept small for that reason.
//!
//! A lookup is some twenty instructions, so bounds checks and the shifting of leaves out of words, which safe
//! code needs, would cost a fifth of the speed. What costs more are cache misses: the objects of a full table take 3 MB, beyond
//! the second-level cache. So a batch goes step by step: all slots are read and the objects' first lines asked for, then
//! all leaves' places computed and their lines asked for, then all leaves read. Without the two prefetches the
//! processor's window holds some ten lookups, and as many misses (the workloads of bench `fib4`, Xeon at 2.5 GHz, best of 60
//! interleaved rounds: `rand` 8.0 ns without, 4.5 with; `pfx` 8.6 and 5.4; `zipf` 5.8 and 3.9).
//!
//! The arithmetic on addresses alone stands in a loop of its own, which compilers vectorize (3.9, 5.0, 3.7 ns with AVX2). Gathers
//! do not pay: of AVX-512, 6.3, 7.7 and 5.0 ns on the same machine, which has no vector population count; nor do huge
//! pages for 3 MB of objects, whose pages the second-level TLB holds.
//!
//! What the unchecked loads rely on:
//!
//! * (a) An object number comes from a slot, and slots name complete objects within the slab only (invariant 1 of the parent).
//! * (b) In a complete object the leaf of any entry, and the object a divided leaf names, lie within that object.
//! * (c) Its lines are not written again while the caller's `Reader` is borrowed (invariant 2): after the Acquire load of the slot there is no
//!   concurrent store to them. So ordinary loads, of other sizes than the writer's stores, are no race.
//!
//! The table is little-endian in memory, so that bytes and halves of words can be loaded by themselves.

use super::{SLOTS, encode};
use std::sync::atomic::{AtomicU32, Ordering};
use sync::lines::{Line, Lines};
use sync::prefetch::prefetch;

#[cfg(target_arch = "x86_64")]
mod gather;

/// Addresses looked up side by side.
const BATCH: usize = 32;
/// The same for what is left of a batch; the rest goes one by one.
const SMALL_BATCH: usize = 8;
/// The most lines a slab can have: slots count bytes in 32 bits.
pub(super) const MAX_LINES: usize = 1 << 26;

/// What lookups read.
pub(super) struct Walk {
    /// Where each slot's object begins, in bytes from the slab's start.
    slots: Box<[AtomicU32; SLOTS]>,
    pub lines: Lines,
    level: Level,
}

/// Which instructions the processor has.
#[derive(Clone, Copy)]
enum Level {
    /// What every processor of the target has.
    Base,
    /// POPCNT: x86-64-v2.
    #[cfg(target_arch = "x86_64")]
    Popcnt,
    /// AVX2, BMI1, BMI2: x86-64-v3.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 with a vector population count, and gathers that are worth it.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Walk {
    /// All slots name `line`, which must be a complete object before the first lookup.
    pub(super) fn new(lines: Lines, line: u32) -> Self {
        Self::with_level(lines, line, level())
    }

    fn with_level(lines: Lines, line: u32, level: Level) -> Self {
        let slots = super::boxed_array(|| AtomicU32::new(line * LINE_BYTES));
        Self { slots, lines, level }
    }

    /// The line where a slot's object begins.
    pub(super) fn line(&self, slot: usize) -> u32 {
        self.slots[slot].load(Ordering::Relaxed) / LINE_BYTES
    }

    /// Lets a slot name another object, which is complete.
    pub(super) fn point(&self, slot: usize, line: u32) {
        self.slots[slot].store(line * LINE_BYTES, Ordering::Release);
    }

    /// Looks up each of `addrs`.
    ///
    /// # Safety
    /// A reader registered with the table's domain stays borrowed meanwhile (c).
    #[inline]
    pub(super) unsafe fn lookup(&self, addrs: &[u32], out: &mut [u32]) {
        match self.level {
            // SAFETY: the caller's promise.
            Level::Base => unsafe { self.batches_base(addrs, out) },
            // SAFETY: `level` has found the feature; the rest is the caller's promise.
            #[cfg(target_arch = "x86_64")]
            Level::Popcnt => unsafe { self.batches_popcnt(addrs, out) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { self.batches_avx2(addrs, out) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { self.batches_avx512(addrs, out) },
        }
    }

    /// A function of its own, so that callers of lookups need no stack space for it.
    ///
    /// # Safety
    /// As [`lookup`](Self::lookup).
    #[inline(never)]
    unsafe fn batches_base(&self, addrs: &[u32], out: &mut [u32]) {
        // SAFETY: the caller's promise.
        unsafe { self.batches(addrs, out) }
    }

    /// # Safety
    /// As [`lookup`](Self::lookup).
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "popcnt,sse4.1")]
    unsafe fn batches_popcnt(&self, addrs: &[u32], out: &mut [u32]) {
        // SAFETY: the caller's promise.
        unsafe { self.batches(addrs, out) }
    }

    /// # Safety
    /// As [`lookup`](Self::lookup).
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "popcnt,bmi1,bmi2,avx2")]
    unsafe fn batches_avx2(&self, addrs: &[u32], out: &mut [u32]) {
        // SAFETY: the caller's promise.
        unsafe { self.batches(addrs, out) }
    }

    /// # Safety
    /// As [`lookup`](Self::lookup).
    #[inline(always)]
    pub(super) unsafe fn batches(&self, addrs: &[u32], out: &mut [u32]) {
        let (addr_chunks, addr_rest) = addrs.as_chunks::<BATCH>();
        let (out_chunks, out_rest) = out.as_chunks_mut::<BATCH>();
        for (addrs, out) in addr_chunks.iter().zip(out_chunks) {
            // SAFETY: the caller's promise.
            unsafe { self.batch(addrs, out) };
        }
        let (addr_chunks, addr_rest) = addr_rest.as_chunks::<SMALL_BATCH>();
        let (out_chunks, out_rest) = out_rest.as_chunks_mut::<SMALL_BATCH>();
        for (addrs, out) in addr_chunks.iter().zip(out_chunks) {
            // SAFETY: the caller's promise.
            unsafe { self.batch(addrs, out) };
        }
        for (addr, out) in addr_rest.iter().zip(out_rest) {
            // SAFETY: the caller's promise.
            unsafe { self.batch(&[*addr], std::array::from_mut(out)) };
        }
    }

    /// Step by step over the whole batch, so that each step's cache misses overlap.
    ///
    /// # Safety
    /// As [`lookup`](Self::lookup).
    #[inline(always)]
    unsafe fn batch<const N: usize>(&self, addrs: &[u32; N], out: &mut [u32; N]) {
        let groups: [u32; N] = std::array::from_fn(|at| group(addrs[at] >> 8));
        let starts: [u32; N] = std::array::from_fn(|at| kept(addrs[at] >> 8));
        let mut objects = [0; N];
        for at in 0..N {
            objects[at] = self.slots[(addrs[at] >> 16) as usize].load(Ordering::Acquire);
            // SAFETY: (a).
            prefetch(unsafe { &*self.at(objects[at]).cast::<Line>() });
        }
        let mut places = [0; N];
        for at in 0..N {
            // SAFETY: (a); (c) by the caller.
            places[at] = unsafe { self.place(objects[at], groups[at], starts[at]) };
            // SAFETY: (b).
            prefetch(unsafe { &*self.at(places[at]) });
        }
        for at in 0..N {
            // SAFETY: (b); (c) by the caller.
            out[at] = unsafe { self.leaf(places[at]) };
        }
        if out.iter().fold(false, |any, leaf| any | is_divided(*leaf)) {
            for at in 0..N {
                if is_divided(out[at]) {
                    let lower = objects[at] + LINE_BYTES * (out[at] & LEAF_LINES);
                    // SAFETY: a divided leaf names a level of the same object (b); (c) by the caller.
                    out[at] = unsafe { self.leaf(self.place(lower, group(addrs[at]), kept(addrs[at]))) };
                }
            }
        }
    }

    /// # Safety
    /// `offset` lies within the slab.
    #[inline(always)]
    unsafe fn at(&self, offset: u32) -> *const u8 {
        debug_assert!((offset / LINE_BYTES) as usize <= self.lines.len());
        // SAFETY: the caller's promise.
        unsafe { self.lines.as_ptr().cast::<u8>().add(offset as usize) }
    }

    /// Where the leaf for an entry stands, in bytes from the slab's start; the entry by its [`group`] and what is [`kept`] of it.
    ///
    /// # Safety
    /// At `object` begins a level of an object, complete (a) and not being written (c); `group` is that of an entry.
    #[inline(always)]
    unsafe fn place(&self, object: u32, group: u32, kept: u32) -> u32 {
        // SAFETY: the line is within the slab (a); the groups end before the line does, by more than the byte that is read
        // beyond the last one, and there is no concurrent store (c).
        let group = unsafe { self.at(object + group).cast::<u32>().read_unaligned() };
        let group = u32::from_le(group);
        let run = (group & 0xff) + (group & kept).count_ones();
        object + (encode::FIRST_LEAF as u32 + 2 * run)
    }

    /// The leaf, its sign spread: "no route" becomes the number of [`NextHopId::NONE`](super::NextHopId::NONE).
    ///
    /// # Safety
    /// `place` is what [`place`](Self::place) gave, and (c) still holds.
    #[inline(always)]
    unsafe fn leaf(&self, place: u32) -> u32 {
        // SAFETY: within the object (b), hence within the slab, at an even distance from its aligned start, and no
        // concurrent store (c).
        let leaf = unsafe { self.at(place).cast::<u16>().read() };
        i32::from(u16::from_le(leaf).cast_signed()).cast_unsigned()
    }
}

const LINE_BYTES: u32 = size_of::<Line>() as u32;
/// What a divided leaf says of where the next level begins.
const LEAF_LINES: u32 = !encode::LEAF_DIVIDED as u32;

/// Where the group of the entry stands that the lowest octet of `bits` names, in bytes from its level's start.
#[inline(always)]
const fn group(bits: u32) -> u32 {
    ((bits / encode::GROUP as u32) & 15) * encode::GROUP_BYTES as u32
}

/// The starts in a group, behind its count.
const STARTS: u32 = 0xffff << 8;

/// The starts up to that entry.
#[inline(always)]
const fn kept(bits: u32) -> u32 {
    (STARTS >> (!bits & 15)) & STARTS
}

/// Whether a leaf, its sign spread, is negative and not "no route".
#[inline(always)]
const fn is_divided(leaf: u32) -> bool {
    leaf.cast_signed() < -1
}

fn level() -> Level {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("popcnt") && is_x86_feature_detected!("sse4.1") {
        let v3 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2");
        return match v3 {
            true if gather::pays() => Level::Avx512,
            true => Level::Avx2,
            false => Level::Popcnt,
        };
    }
    Level::Base
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fib4::{Fib4Writer, NextHopId};
    use sync::rcu::Domain;
    use wire::Prefix4;

    /// Every level of instructions that this processor has, and every length of batch, gives the same answers.
    #[test]
    fn levels_and_lengths_agree() {
        let domain = Domain::default();
        let mut fib = Fib4Writer::with_lines(&domain, 4096).expect("memory");
        for (id, text) in
            ["0.0.0.0/2", "10.0.0.0/8", "10.1.0.0/17", "10.1.2.0/24", "10.1.2.128/25", "10.1.2.3/32"]
                .iter()
                .enumerate()
        {
            fib.insert(text.parse::<Prefix4>().expect(text), NextHopId(id as u32)).expect("room");
        }
        let addrs: Vec<u32> = (0..75u32)
            .map(|at| [0x0a01_0203, 0x0a01_0200, 0xffff_ffff][at as usize % 3] ^ at << (at % 25))
            .collect();
        let want: Vec<u32> =
            addrs.iter().map(|addr| fib.longest_match(*addr).map_or(u32::MAX, |(_, id)| id.0)).collect();
        assert!((0..6).chain([u32::MAX]).all(|id| want.contains(&id)), "{want:?}");
        let walk = &fib.shared.walk;
        for len in 0..addrs.len() {
            let check = |name: &str, lookup: &dyn Fn(&[u32], &mut [u32])| {
                let mut got = vec![7; len];
                lookup(&addrs[..len], &mut got);
                assert_eq!(got, want[..len], "{name}");
            };
            // SAFETY: nobody changes the table meanwhile, and the features are there.
            unsafe {
                check("base", &|addrs, out| walk.batches(addrs, out));
                #[cfg(target_arch = "x86_64")]
                {
                    if !matches!(walk.level, Level::Base) {
                        check("popcnt", &|addrs, out| walk.batches_popcnt(addrs, out));
                    }
                    if matches!(walk.level, Level::Avx2 | Level::Avx512) {
                        check("avx2", &|addrs, out| walk.batches_avx2(addrs, out));
                    }
                    if gather::is_available() {
                        check("avx512", &|addrs, out| walk.batches_avx512(addrs, out));
                    }
                }
            }
        }
    }
}
