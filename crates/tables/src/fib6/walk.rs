// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lookup itself, and the only `unsafe` of the table.
//!
//! Going down a node is one question: how many of a line's separators are below the key? A vector unit answers it with one
//! comparison (AVX-512) or two (AVX2) and a count of bits, and none of it branches, so the 32 walks of a batch
//! proceed side by side and wait for memory together. The separators of a node lie in the one line that the walk has to load anyway.
//!
//! Vector instructions have no safe form on memory that another thread wrote, hence the `unsafe` here; bench `fib6` has
//! the figures for each variant.
//!
//! What the unchecked loads rely on:
//!
//! * (a) Unused separators are below no key, so a walk through the top ends at a slot, and one through a chunk in a line of that chunk.
//! * (b) A slot names a complete chunk within the slab (invariant 1 of the parent).
//! * (c) The lines of a chunk are not written again while the caller's `Reader` is borrowed (invariant 2), and those of a top
//!   never: after the Acquire loads of the root and the slot there is no concurrent store to them, of whatever
//!   size, so loads of other sizes than the writer's stores are no race.

use super::{
    DEEP, Variant,
    chunk::{self, LEAVES_BYTE, LINE_RUNS},
    top::{self, FANOUT, Root, SHIFT_BITS},
};
use crate::next_hop::NextHopId;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use sync::{
    lines::{Line, Lines},
    prefetch::prefetch,
    rcu,
};

/// Addresses looked up side by side.
const BATCH: usize = 32;

/// What lookups read.
pub(super) struct Walk {
    pub root: rcu::Cell<Root>,
    /// Where the chunks are.
    pub lines: Lines,
}

/// How many separators of a line are below a key.
///
/// # Safety
/// For all functions: `line` is valid for reads of 64 bytes that nobody writes, and the processor has what the implementation needs.
trait Rank {
    /// Of eight of 64 bits.
    unsafe fn node(line: *const Line, key: i64) -> u32;
    /// Of 15 of 32 bits, behind the first word.
    unsafe fn head(line: *const Line, key: i32) -> u32;
    /// Of ten of 32 bits.
    unsafe fn leaves(line: *const Line, key: i32) -> u32;
}

/// For any processor.
struct Plain;

impl Plain {
    #[inline(always)]
    unsafe fn below<const FROM: usize, const TO: usize>(line: *const Line, key: i32) -> u32 {
        // SAFETY: the caller's promise; an `AtomicU32` may be read wherever 4 aligned bytes may.
        let words = unsafe { &*line.cast::<[AtomicU32; 16]>() };
        let below =
            |word: &AtomicU32| u32::from(u32::from_le(word.load(Ordering::Relaxed)).cast_signed() < key);
        words[FROM..TO].iter().map(below).sum()
    }
}

impl Rank for Plain {
    #[inline(always)]
    unsafe fn node(line: *const Line, key: i64) -> u32 {
        // SAFETY: the caller's promise.
        let words = unsafe { &*line.cast::<[AtomicU64; 8]>() };
        let below =
            |word: &AtomicU64| u32::from(u64::from_le(word.load(Ordering::Relaxed)).cast_signed() < key);
        words.iter().map(below).sum()
    }

    #[inline(always)]
    unsafe fn head(line: *const Line, key: i32) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { Self::below::<1, 16>(line, key) }
    }

    #[inline(always)]
    unsafe fn leaves(line: *const Line, key: i32) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { Self::below::<0, { LINE_RUNS - 1 }>(line, key) }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{LINE_RUNS, Line, Rank};
    use std::arch::x86_64::*;

    pub(super) struct Avx2;
    pub(super) struct Avx512;

    impl Avx2 {
        /// Two bits for each of the line's 32-bit words in the order 0-3, 8-11, 4-7, 12-15: whether it is below the key.
        #[inline(always)]
        unsafe fn below(line: *const Line, key: i32) -> u32 {
            // SAFETY: the caller's promise: 64 readable bytes (lines are aligned to 64), AVX2.
            unsafe {
                let (words, key) = (line.cast::<__m256i>(), _mm256_set1_epi32(key));
                let low = _mm256_cmpgt_epi32(key, _mm256_load_si256(words));
                let high = _mm256_cmpgt_epi32(key, _mm256_load_si256(words.add(1)));
                _mm256_movemask_epi8(_mm256_packs_epi32(low, high)).cast_unsigned()
            }
        }
    }

    impl Rank for Avx2 {
        #[inline(always)]
        unsafe fn node(line: *const Line, key: i64) -> u32 {
            // SAFETY: as in `below`. Packing makes four bits of each separator.
            unsafe {
                let (words, key) = (line.cast::<__m256i>(), _mm256_set1_epi64x(key));
                let low = _mm256_cmpgt_epi64(key, _mm256_load_si256(words));
                let high = _mm256_cmpgt_epi64(key, _mm256_load_si256(words.add(1)));
                _mm256_movemask_epi8(_mm256_packs_epi32(low, high)).count_ones() / 4
            }
        }

        #[inline(always)]
        unsafe fn head(line: *const Line, key: i32) -> u32 {
            // SAFETY: the caller's promise.
            unsafe { (Self::below(line, key) & !0b11).count_ones() / 2 }
        }

        #[inline(always)]
        unsafe fn leaves(line: *const Line, key: i32) -> u32 {
            const { assert!(LINE_RUNS - 1 == 10, "words 0 to 7, 8 and 9") };
            // SAFETY: the caller's promise.
            unsafe { (Self::below(line, key) & 0x00ff_0fff).count_ones() / 2 }
        }
    }

    impl Rank for Avx512 {
        #[inline(always)]
        unsafe fn node(line: *const Line, key: i64) -> u32 {
            // SAFETY: the caller's promise: 64 readable bytes (lines are aligned to 64), AVX-512F.
            let below =
                unsafe { _mm512_cmpgt_epi64_mask(_mm512_set1_epi64(key), _mm512_load_si512(line.cast())) };
            u32::from(below).count_ones()
        }

        #[inline(always)]
        unsafe fn head(line: *const Line, key: i32) -> u32 {
            // SAFETY: as in `node`.
            let below =
                unsafe { _mm512_cmpgt_epi32_mask(_mm512_set1_epi32(key), _mm512_load_si512(line.cast())) };
            (u32::from(below) & !1).count_ones()
        }

        #[inline(always)]
        unsafe fn leaves(line: *const Line, key: i32) -> u32 {
            // SAFETY: as in `node`.
            let below =
                unsafe { _mm512_cmpgt_epi32_mask(_mm512_set1_epi32(key), _mm512_load_si512(line.cast())) };
            (u32::from(below) & ((1 << (LINE_RUNS - 1)) - 1)).count_ones()
        }
    }
}

impl Variant {
    /// The fastest that this processor has.
    pub fn best() -> Self {
        [Self::Avx512, Self::Avx2].into_iter().find(|variant| variant.is_available()).unwrap_or(Self::Plain)
    }

    /// Whether this processor has it.
    pub fn is_available(self) -> bool {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            let avx2 = is_x86_feature_detected!("popcnt")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("avx2");
            match self {
                Self::Plain => true,
                Self::Avx2 => avx2,
                Self::Avx512 => avx2 && is_x86_feature_detected!("avx512f"),
            }
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        matches!(self, Self::Plain)
    }
}

impl Walk {
    /// Looks up each of `addrs`.
    ///
    /// # Safety
    /// The processor has `variant`; `root` and the chunks are of one table, and `reader` is a member of its domain.
    #[inline]
    pub(super) unsafe fn lookup(
        &self,
        variant: Variant,
        reader: &rcu::Reader,
        addrs: &[u128],
        out: &mut [u32],
    ) {
        let root = self.root.read(reader);
        // SAFETY: the caller's promise; `reader` stays borrowed until the end of this call (c).
        unsafe {
            match variant {
                #[cfg(target_arch = "x86_64")]
                Variant::Avx512 => self.all_avx512(root, addrs, out),
                #[cfg(target_arch = "x86_64")]
                Variant::Avx2 => self.all_avx2(root, addrs, out),
                _ => self.all::<Plain>(root, addrs, out),
            }
        }
    }

    /// # Safety
    /// As [`lookup`](Self::lookup).
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "popcnt,bmi1,bmi2,avx2,avx512f")]
    unsafe fn all_avx512(&self, root: &Root, addrs: &[u128], out: &mut [u32]) {
        // SAFETY: the caller's promise.
        unsafe { self.all::<x86::Avx512>(root, addrs, out) }
    }

    /// # Safety
    /// As [`lookup`](Self::lookup).
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "popcnt,bmi1,bmi2,avx2")]
    unsafe fn all_avx2(&self, root: &Root, addrs: &[u128], out: &mut [u32]) {
        // SAFETY: the caller's promise.
        unsafe { self.all::<x86::Avx2>(root, addrs, out) }
    }

    /// # Safety
    /// As [`lookup`](Self::lookup).
    #[inline(always)]
    unsafe fn all<R: Rank>(&self, root: &Root, addrs: &[u128], out: &mut [u32]) {
        let (addr_chunks, addr_rest) = addrs.as_chunks::<BATCH>();
        let (out_chunks, out_rest) = out.as_chunks_mut::<BATCH>();
        for (addrs, out) in addr_chunks.iter().zip(out_chunks) {
            // SAFETY: the caller's promise.
            unsafe { self.batch::<R>(root, addrs, out) };
        }
        if !addr_rest.is_empty() {
            // SAFETY: the caller's promise.
            unsafe { self.batch::<R>(root, addr_rest, out_rest) };
        }
    }

    /// Step by step over up to [`BATCH`] addresses, so that each step's cache misses overlap.
    ///
    /// # Safety
    /// As [`lookup`](Self::lookup).
    #[inline(always)]
    unsafe fn batch<R: Rank>(&self, root: &Root, addrs: &[u128], out: &mut [u32]) {
        let count = addrs.len().min(BATCH);
        let (mut places, mut keys) = ([0; BATCH], [0; BATCH]);
        let (places, keys) = (&mut places[..count], &mut keys[..count]);
        for level in &root.top.levels {
            for (place, addr) in places.iter_mut().zip(addrs) {
                // SAFETY: (a), (c).
                *place = unsafe {
                    let node = root.top.lines.as_ptr().add((*level + *place) as usize);
                    *place * FANOUT as u32 + R::node(node, ((addr >> 64) as u64 ^ top::FLIP).cast_signed())
                };
            }
        }
        for ((place, key), addr) in places.iter_mut().zip(&mut *keys).zip(addrs) {
            // SAFETY: (a).
            let slot = unsafe { root.top.slots.get_unchecked(*place as usize) }.load(Ordering::Acquire);
            *place = slot >> SHIFT_BITS;
            *key = ((addr >> 64) as u64 >> (slot % (1 << SHIFT_BITS))) as u32;
            // SAFETY: (b).
            prefetch(unsafe { self.lines.get_unchecked(*place as usize) });
        }
        for (place, key) in places.iter_mut().zip(&mut *keys) {
            // SAFETY: (b), (c); a head begins with the base.
            unsafe {
                let head = self.lines.as_ptr().add(*place as usize);
                let base = u32::from_le((*head.cast::<AtomicU32>()).load(Ordering::Relaxed));
                *key = key.wrapping_sub(base) ^ chunk::FLIP;
                *place += 1 + R::head(head, key.cast_signed());
                prefetch(&*self.lines.as_ptr().add(*place as usize));
            }
        }
        let mut deep = 0;
        for ((place, key), out) in places.iter().zip(keys).zip(&mut *out) {
            // SAFETY: (a), (b), (c); the rank is at most ten, and eleven leaves lie behind the separators.
            let leaf = unsafe {
                let line = self.lines.as_ptr().add(*place as usize);
                let leaf = line
                    .cast::<AtomicU16>()
                    .add(LEAVES_BYTE / 2 + R::leaves(line, key.cast_signed()) as usize);
                u16::from_le((*leaf).load(Ordering::Relaxed))
            };
            deep |= leaf;
            *out = leaf.into();
        }
        if deep & DEEP != 0 {
            divided(root, addrs, out);
        }
        for leaf in out {
            *leaf = answer(*leaf);
        }
    }
}

/// Looks up the lower halves where the upper ones are divided.
#[cold]
#[inline(never)]
fn divided(root: &Root, addrs: &[u128], out: &mut [u32]) {
    let deep = u32::from(DEEP);
    for (leaf, addr) in out.iter_mut().zip(addrs).filter(|(leaf, _)| **leaf & deep != 0) {
        *leaf = root.divided.lookup(*addr).map_or(*leaf & !deep, u32::from);
    }
}

/// The next hop id that a leaf holds.
#[inline(always)]
fn answer(leaf: u32) -> u32 {
    // No branch: ids are a fifteen-bit number, "no route" is all ones of it.
    if leaf == u32::from(super::LEAF_NONE) { NextHopId::NONE.0 } else { leaf }
}
