// SPDX-License-Identifier: MIT OR Apache-2.0
//! Eight rules side by side, compared with a packet at once.
#![allow(unsafe_code)]

use sync::prefetch::prefetch_at;

use super::{Key, Rule};

/// Bytes of a cache line.
const LINE: usize = 64;
/// Rules of a block.
pub(super) const LANES: usize = 8;

/// No packet has this bit in its [`Key::kind`], so a lane that demands it matches nothing.
const NEVER: u32 = 0x8000;

/// A rule's number, with [`ASKS`] in it.
pub(super) type Tag = u32;

/// Marks the tag of a rule that holds for some packets of its box only. It is the lowest bit, so tags are in the order of numbers.
pub(super) const ASKS: Tag = 1;

/// Rules in ascending order of their tags; what is free matches nothing.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Block<const W: usize> {
    values: [[u32; LANES]; W],
    masks: [[u32; LANES]; W],
    /// Least and greatest ports: the source's in the low half, the destination's in the high half.
    low: [u32; LANES],
    high: [u32; LANES],
    /// Value and mask of the kind, in the low and the high half.
    kinds: [u32; LANES],
    tags: [Tag; LANES],
}

impl<const W: usize> Block<W> {
    const EMPTY: Block<W> = Block {
        values: [[0; LANES]; W],
        masks: [[0; LANES]; W],
        low: [0; LANES],
        high: [0; LANES],
        kinds: [NEVER << 16 | NEVER; LANES],
        tags: [Tag::MAX; LANES],
    };

    /// A block of at most [`LANES`] rules.
    pub(super) fn new<'a>(rules: impl IntoIterator<Item = (&'a Rule<W>, Tag)>) -> Block<W> {
        let mut block = Block::EMPTY;
        for (lane, (rule, tag)) in rules.into_iter().enumerate() {
            for (word, ternary) in rule.words.iter().enumerate() {
                block.values[word][lane] = ternary.value;
                block.masks[word][lane] = ternary.mask;
            }
            block.low[lane] = pair(rule.ports.map(|range| range.low));
            block.high[lane] = pair(rule.ports.map(|range| range.high));
            block.kinds[lane] = u32::from(rule.kind.value) | u32::from(rule.kind.mask) << 16;
            block.tags[lane] = tag;
        }
        block
    }

    /// Asks for all its lines.
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        let block = std::ptr::from_ref(self).cast::<u8>();
        (0..size_of::<Self>()).step_by(LINE).for_each(|at| prefetch_at(block.wrapping_add(at)));
    }

    /// The tag of the first rule.
    #[inline(always)]
    pub(super) fn first(&self) -> Tag {
        self.tags[0]
    }

    /// The tag in a lane.
    #[inline(always)]
    pub(super) fn tag(&self, lane: usize) -> Tag {
        self.tags[lane % LANES]
    }
}

/// Two ports in a word.
#[inline(always)]
pub(super) fn pair([source, destination]: [u16; 2]) -> u32 {
    u32::from(source) | u32::from(destination) << 16
}

/// How a block is compared.
pub(super) trait Compare {
    /// A bit for each lane whose rule's box holds the key.
    ///
    /// # Safety
    /// The processor has the instructions.
    unsafe fn matching<const W: usize>(block: &Block<W>, key: &Key<W>) -> u32;
}

/// One lane after the other.
pub(super) struct Portable;

impl Compare for Portable {
    #[inline(always)]
    unsafe fn matching<const W: usize>(block: &Block<W>, key: &Key<W>) -> u32 {
        let mut matching = 0;
        for lane in 0..LANES {
            let kind = block.kinds[lane];
            let mut wrong = (u32::from(key.kind) ^ kind) & kind >> 16;
            for (word, value) in key.words.iter().enumerate() {
                wrong |= (value ^ block.values[word][lane]) & block.masks[word][lane];
            }
            let within = |shift: u32, port: u16| {
                let half = |word: u32| (word >> shift) as u16;
                (half(block.low[lane])..=half(block.high[lane])).contains(&port)
            };
            let fits = wrong == 0 && within(0, key.ports[0]) && within(16, key.ports[1]);
            matching |= u32::from(fits) << lane;
        }
        matching
    }
}

/// All lanes at once, by AVX2.
#[cfg(target_arch = "x86_64")]
pub(super) struct Avx2;

#[cfg(target_arch = "x86_64")]
impl Compare for Avx2 {
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn matching<const W: usize>(block: &Block<W>, key: &Key<W>) -> u32 {
        use std::arch::x86_64::*;
        let load = |lanes: &[u32; LANES]| {
            // SAFETY: the array is 32 bytes.
            unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) }
        };
        let all = |word: u32| _mm256_set1_epi32(word.cast_signed());
        let kinds = load(&block.kinds);
        let mut wrong =
            _mm256_and_si256(_mm256_xor_si256(all(key.kind.into()), kinds), _mm256_srli_epi32::<16>(kinds));
        for (word, value) in key.words.iter().enumerate() {
            let differ = _mm256_xor_si256(all(*value), load(&block.values[word]));
            wrong = _mm256_or_si256(wrong, _mm256_and_si256(differ, load(&block.masks[word])));
        }
        let ports = all(pair(key.ports));
        // What is below the least port, and what is above the greatest, with saturation: nothing, if the port lies between them.
        wrong = _mm256_or_si256(wrong, _mm256_subs_epu16(load(&block.low), ports));
        wrong = _mm256_or_si256(wrong, _mm256_subs_epu16(ports, load(&block.high)));
        let fits = _mm256_cmpeq_epi32(wrong, _mm256_setzero_si256());
        _mm256_movemask_ps(_mm256_castsi256_ps(fits)).cast_unsigned()
    }
}
