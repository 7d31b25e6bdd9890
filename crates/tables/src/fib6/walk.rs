// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lookup itself, and the only `unsafe` of the table.
//!
//! Behind the table that the first 16 bits of an address choose from, going down is one question: how many of a line's separators are below
//! the key? A vector unit answers it with one comparison (AVX-512) or two (AVX2) and a count of bits, and none of it branches, so
//! the 32 walks of a batch proceed side by side and wait for memory together. The separators of a node lie in the one line that the walk
//! has to load anyway.
//!
//! Vector instructions have no safe form on memory that another thread wrote, hence the `unsafe` here; bench `fib6` has
//! the figures for each variant.
//!
//! What the unchecked loads rely on:
//!
//! * (a) Unused separators are below no key, so each step through a directory leads to one of its nodes, the last one to a chunk's
//!   number ([`Directory`]), and a walk through a chunk ends in a line of it.
//! * (b) A slot names a complete chunk within the slab (invariant 1 of the parent).
//! * (c) The lines of a chunk are not written again while the caller's `Reader` is borrowed (invariant 2): after the Acquire loads of the root and
//!   the slot there is no concurrent store to them, of any size. So loads of other sizes than the writer's stores are no race.

use super::{
    DEEP, LEAF_NONE, Root, Variant,
    chunk::{LEAVES_BYTE, LINE_RUNS, Slot},
    directory::{self, Directory, NODE_BYTES, Node, ROOT_BITS},
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

const _: () = assert!(size_of::<Node>() == size_of::<Line>() && align_of::<Node>() == align_of::<Line>());

/// What lookups read.
pub(super) struct Walk {
    /// Whose members read it.
    pub domain: rcu::Domain,
    pub root: rcu::Cell<Root>,
    /// Where the chunks are.
    pub lines: Lines,
}

/// How far a walk has come.
#[derive(Clone, Copy)]
struct Place {
    /// In the directory: the node to look at next, in bytes from the first.
    node: u32,
    /// In a chunk: the part of the key that is looked for there.
    key: u32,
    /// In a chunk: the head, then the line before the leaves.
    line: *const Line,
}

/// What the steps leave for each other, at the beginning of a cache line.
#[repr(align(64))]
struct Aligned<T>([T; BATCH]);

/// A loop over two slices of one length, four at a time, which leaves little of what the loop itself costs. No closure: the
/// compiler may make one a function of its own, without the vector instructions.
macro_rules! by_fours {
    (($a:pat, $b:pat) in ($many_a:expr, $many_b:expr) $body:block) => {
        let (fours_a, rest_a) = $many_a.as_chunks_mut::<4>();
        let (fours_b, rest_b) = $many_b.as_chunks::<4>();
        for (four_a, four_b) in fours_a.iter_mut().zip(fours_b) {
            for ($a, $b) in four_a.iter_mut().zip(four_b) $body
        }
        for ($a, $b) in rest_a.iter_mut().zip(rest_b) $body
    };
}

/// How many separators of a line are below a key.
///
/// # Safety
/// For all functions: `line` is valid for reads of 64 bytes that nobody writes, and the processor has what the implementation needs.
trait Rank: Copy {
    /// Of seven of 64 bits, behind the first two words.
    unsafe fn wide(self, line: *const Line, key: u64) -> u32;
    /// Of 15 of 32 bits, behind the first word.
    unsafe fn narrow(self, line: *const Line, key: u32) -> u32;
    /// Of 16 of 32 bits.
    unsafe fn head(self, line: *const Line, key: u32) -> u32;
    /// Of ten of 32 bits.
    unsafe fn leaves(self, line: *const Line, key: u32) -> u32;
}

/// For any processor.
#[derive(Clone, Copy)]
struct Plain;

impl Plain {
    #[inline(always)]
    unsafe fn below<const FROM: usize, const TO: usize>(line: *const Line, key: u32) -> u32 {
        // SAFETY: the caller's promise; an `AtomicU32` may be read wherever 4 aligned bytes may.
        let words = unsafe { &*line.cast::<[AtomicU32; 16]>() };
        words[FROM..TO].iter().map(|word| u32::from(u32::from_le(word.load(Ordering::Relaxed)) < key)).sum()
    }
}

impl Rank for Plain {
    #[inline(always)]
    unsafe fn wide(self, line: *const Line, key: u64) -> u32 {
        // SAFETY: the caller's promise.
        let words = unsafe { &*line.cast::<[AtomicU64; 8]>() };
        words[1..].iter().map(|word| u32::from(u64::from_le(word.load(Ordering::Relaxed)) < key)).sum()
    }

    #[inline(always)]
    unsafe fn narrow(self, line: *const Line, key: u32) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { Self::below::<1, 16>(line, key) }
    }

    #[inline(always)]
    unsafe fn head(self, line: *const Line, key: u32) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { Self::below::<0, 16>(line, key) }
    }

    #[inline(always)]
    unsafe fn leaves(self, line: *const Line, key: u32) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { Self::below::<0, { LINE_RUNS - 1 }>(line, key) }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{LINE_RUNS, Line, Rank};
    use std::{arch::x86_64::*, hint::black_box};

    #[derive(Clone, Copy)]
    pub(super) struct Avx2;

    /// Which words of a line hold separators, as masks of comparisons.
    #[derive(Clone, Copy)]
    pub(super) struct Avx512 {
        node: u16,
        leaves: u16,
    }

    impl Avx2 {
        /// Two bits for each of the line's 32-bit words in the order 0-3, 8-11, 4-7, 12-15: whether it is below the key.
        #[inline(always)]
        unsafe fn below(line: *const Line, key: u32) -> u32 {
            // SAFETY: the caller's promise: 64 readable bytes (lines are aligned to 64), AVX2.
            unsafe {
                // There is but a comparison of signed numbers: turned over, they have the order of unsigned ones.
                let flip = _mm256_set1_epi32(i32::MIN);
                let (words, key) = (line.cast::<__m256i>(), _mm256_set1_epi32(key.cast_signed() ^ i32::MIN));
                let low = _mm256_cmpgt_epi32(key, _mm256_xor_si256(_mm256_load_si256(words), flip));
                let high = _mm256_cmpgt_epi32(key, _mm256_xor_si256(_mm256_load_si256(words.add(1)), flip));
                _mm256_movemask_epi8(_mm256_packs_epi32(low, high)).cast_unsigned()
            }
        }
    }

    impl Rank for Avx2 {
        #[inline(always)]
        unsafe fn wide(self, line: *const Line, key: u64) -> u32 {
            // SAFETY: as in `below`. Packing makes four bits of each separator; the first four words' come first.
            unsafe {
                let flip = _mm256_set1_epi64x(i64::MIN);
                let (words, key) = (line.cast::<__m256i>(), _mm256_set1_epi64x(key.cast_signed() ^ i64::MIN));
                let low = _mm256_cmpgt_epi64(key, _mm256_xor_si256(_mm256_load_si256(words), flip));
                let high = _mm256_cmpgt_epi64(key, _mm256_xor_si256(_mm256_load_si256(words.add(1)), flip));
                let below = _mm256_movemask_epi8(_mm256_packs_epi32(low, high)).cast_unsigned();
                (below & !0b1111).count_ones() / 4
            }
        }

        #[inline(always)]
        unsafe fn narrow(self, line: *const Line, key: u32) -> u32 {
            // SAFETY: the caller's promise.
            unsafe { (Self::below(line, key) & !0b11).count_ones() / 2 }
        }

        #[inline(always)]
        unsafe fn head(self, line: *const Line, key: u32) -> u32 {
            // SAFETY: the caller's promise.
            unsafe { Self::below(line, key).count_ones() / 2 }
        }

        #[inline(always)]
        unsafe fn leaves(self, line: *const Line, key: u32) -> u32 {
            const { assert!(LINE_RUNS - 1 == 10, "words 0 to 7, 8 and 9") };
            // SAFETY: the caller's promise.
            unsafe { (Self::below(line, key) & 0x00ff_0fff).count_ones() / 2 }
        }
    }

    impl Avx512 {
        /// The compiler shall not know the masks: it would take constant ones out of the comparison, which has them for nothing, and
        /// make an instruction of each.
        #[inline(always)]
        pub(super) fn new() -> Self {
            Self { node: black_box(!1), leaves: black_box((1 << (LINE_RUNS - 1)) - 1) }
        }

        /// A bit for each of the line's 32-bit words that `which` names: whether it is below the key.
        #[inline(always)]
        unsafe fn below(which: u16, line: *const Line, key: u32) -> u32 {
            // SAFETY: the caller's promise: 64 readable bytes (lines are aligned to 64), AVX-512F.
            unsafe {
                let key = _mm512_set1_epi32(key.cast_signed());
                _mm512_mask_cmpgt_epu32_mask(which, key, _mm512_load_si512(line.cast())).into()
            }
        }
    }

    impl Rank for Avx512 {
        #[inline(always)]
        unsafe fn wide(self, line: *const Line, key: u64) -> u32 {
            // SAFETY: as in `below`.
            let below = unsafe {
                let key = _mm512_set1_epi64(key.cast_signed());
                _mm512_mask_cmpgt_epu64_mask(!1, key, _mm512_load_si512(line.cast()))
            };
            u32::from(below).count_ones()
        }

        #[inline(always)]
        unsafe fn narrow(self, line: *const Line, key: u32) -> u32 {
            // SAFETY: the caller's promise.
            unsafe { Self::below(self.node, line, key).count_ones() }
        }

        #[inline(always)]
        unsafe fn head(self, line: *const Line, key: u32) -> u32 {
            // SAFETY: the caller's promise.
            unsafe { Self::below(!0, line, key).count_ones() }
        }

        #[inline(always)]
        unsafe fn leaves(self, line: *const Line, key: u32) -> u32 {
            // SAFETY: the caller's promise.
            unsafe { Self::below(self.leaves, line, key).count_ones() }
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
                _ => self.all(Plain, root, addrs, out),
            }
        }
    }

    /// # Safety
    /// As [`lookup`](Self::lookup).
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "popcnt,bmi1,bmi2,avx2,avx512f")]
    unsafe fn all_avx512(&self, root: &Root, addrs: &[u128], out: &mut [u32]) {
        // SAFETY: the caller's promise.
        unsafe { self.all(x86::Avx512::new(), root, addrs, out) }
    }

    /// # Safety
    /// As [`lookup`](Self::lookup).
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "popcnt,bmi1,bmi2,avx2")]
    unsafe fn all_avx2(&self, root: &Root, addrs: &[u128], out: &mut [u32]) {
        // SAFETY: the caller's promise.
        unsafe { self.all(x86::Avx2, root, addrs, out) }
    }

    /// # Safety
    /// As [`lookup`](Self::lookup).
    #[inline(always)]
    unsafe fn all<R: Rank>(&self, rank: R, root: &Root, addrs: &[u128], out: &mut [u32]) {
        let (addr_chunks, addr_rest) = addrs.as_chunks::<BATCH>();
        let (out_chunks, out_rest) = out.as_chunks_mut::<BATCH>();
        for (addrs, out) in addr_chunks.iter().zip(out_chunks) {
            // SAFETY: the caller's promise.
            unsafe { self.batch(rank, root, addrs, out) };
        }
        if !addr_rest.is_empty() {
            // SAFETY: the caller's promise.
            unsafe { self.batch(rank, root, addr_rest, out_rest) };
        }
    }

    /// Step by step over up to [`BATCH`] addresses, so that each step's cache misses overlap, and so that no step is long: a
    /// processor waits for few instructions at once.
    ///
    /// # Safety
    /// As [`lookup`](Self::lookup).
    #[inline(always)]
    unsafe fn batch<R: Rank>(&self, rank: R, root: &Root, addrs: &[u128], out: &mut [u32]) {
        let mut places = Aligned([Place { node: 0, key: 0, line: std::ptr::null() }; BATCH]);
        let places = &mut places.0[..addrs.len().min(BATCH)];
        // SAFETY: the caller's promise.
        unsafe {
            match (root.directory.wide, root.directory.levels) {
                (false, 1) => self.heads::<R, false, 1>(rank, root, addrs, places),
                (false, 2) => self.heads::<R, false, 2>(rank, root, addrs, places),
                (false, _) => self.heads::<R, false, 0>(rank, root, addrs, places),
                (true, _) => self.heads::<R, true, 0>(rank, root, addrs, places),
            }
        }
        by_fours!((place, _) in (places, addrs) {
            // SAFETY: (b), (c): a head, and the leaf lines that follow.
            unsafe {
                place.line = place.line.add(rank.head(place.line, place.key) as usize);
                prefetch(&*place.line.add(1));
            }
        });
        let mut leaves = Aligned([0; BATCH]);
        let leaves = &mut leaves.0[..places.len()];
        by_fours!((leaf, place) in (leaves, places) {
            // SAFETY: (a), (b), (c); the rank is at most ten, and eleven leaves lie behind the separators.
            *leaf = unsafe {
                let line = place.line.add(1);
                let leaves = line.cast::<AtomicU16>().add(LEAVES_BYTE / 2);
                u16::from_le((*leaves.add(rank.leaves(line, place.key) as usize)).load(Ordering::Relaxed))
            };
        });
        let mut any = 0;
        for (out, leaf) in out.iter_mut().zip(leaves) {
            *out = answer(*leaf);
            any |= out.wrapping_add(1);
        }
        if any >= FIRST_DEEP {
            divided(root, addrs, out);
        }
    }

    /// The heads of the chunks that `addrs` lie in, by a directory whose nodes are `WIDE` and which has `LEVELS` of them (0: as many
    /// as it says). Begins to load them.
    ///
    /// # Safety
    /// As [`lookup`](Self::lookup).
    #[inline(always)]
    unsafe fn heads<R: Rank, const WIDE: bool, const LEVELS: u32>(
        &self,
        rank: R,
        root: &Root,
        addrs: &[u128],
        places: &mut [Place],
    ) {
        let Directory { roots, nodes, levels, .. } = &*root.directory;
        let levels = if LEVELS > 0 { LEVELS } else { *levels };
        // Pointers at hand: the compiler would load them anew for each address, because of the ordering of the slot's load.
        let (roots, nodes, slots) = (roots.as_ptr(), nodes.as_ptr(), root.slots.as_ptr());
        let lines = self.lines.as_ptr();
        by_fours!((place, addr) in (places, addrs) {
            let key = (*addr >> 64) as u64;
            // SAFETY: (a). There is a root for every 16 bits.
            place.node = unsafe {
                let tree = *roots.add((key >> (64 - ROOT_BITS)) as usize);
                if levels > 1 { NODE_BYTES * child::<R, WIDE>(rank, nodes, tree, key) } else { tree }
            };
        });
        for _ in 2..levels {
            by_fours!((place, addr) in (places, addrs) {
                // SAFETY: (a).
                place.node = unsafe { NODE_BYTES * child::<R, WIDE>(rank, nodes, place.node, (*addr >> 64) as u64) };
            });
        }
        by_fours!((place, addr) in (places, addrs) {
            let key = (*addr >> 64) as u64;
            // SAFETY: (a), (b).
            unsafe {
                let chunk = child::<R, WIDE>(rank, nodes, place.node, key);
                let slot = Slot((*slots.add(chunk as usize)).load(Ordering::Acquire));
                place.line = lines.byte_add(slot.line_byte());
                place.key = slot.key(key);
                prefetch(&*place.line);
            }
        });
    }
}

/// The child to which `key` belongs, of the node that begins `at` so many bytes: a node's number, or on the lowest level a chunk's.
///
/// # Safety
/// (a); and as for [`Rank`].
#[inline(always)]
unsafe fn child<R: Rank, const WIDE: bool>(rank: R, nodes: *const Node, at: u32, key: u64) -> u32 {
    // SAFETY: the caller's promise.
    unsafe {
        let node = nodes.byte_add(at as usize);
        let below =
            if WIDE { rank.wide(node.cast(), key) } else { rank.narrow(node.cast(), directory::narrow(key)) };
        u32::from_le((*node).0[0]) + below
    }
}

/// Looks up the lower halves where the upper ones are divided.
#[inline(never)]
fn divided(root: &Root, addrs: &[u128], out: &mut [u32]) {
    for (out, addr) in out.iter_mut().zip(addrs) {
        if out.wrapping_add(1) >= FIRST_DEEP {
            *out = answer(root.divided.lookup(*addr).unwrap_or(*out as u16 ^ DEEP));
        }
    }
}

/// The answer that a leaf holds: as a signed number of more bits, it is the next hop's id, or [`NextHopId::NONE`]. Plus one (which makes
/// 0 of the latter) it is less than [`FIRST_DEEP`], unless the leaf is turned over.
#[inline(always)]
fn answer(leaf: u16) -> u32 {
    i32::from(leaf.cast_signed()).cast_unsigned()
}

const FIRST_DEEP: u32 = DEEP as u32;

const _: () = assert!(LEAF_NONE.cast_signed() == -1 && NextHopId::NONE.0.cast_signed() == -1);
