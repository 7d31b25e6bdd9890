// SPDX-License-Identifier: MIT OR Apache-2.0
//! The form of a chunk in cache lines: how it is written. `walk` reads it.
//!
//! A key within a chunk is 32 bits: those of the address's upper half that the shift in the chunk's slot leaves lowest; above them, all
//! keys of a chunk are equal.
//! A separator is stored as the first key behind it less one, so that "how many separators are below the key" needs no special value for
//! the unused ones: these are the greatest there is, and below no key.

use super::sweep::Run;
use std::sync::atomic::Ordering;
use sync::lines::{LINE_WORDS, Line};

/// Names a chunk: its head's line (26 bits) and the shift of its keys (6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(pub u32);

impl Slot {
    const SHIFT_BITS: u32 = 6;
    /// Lines that slots can name.
    pub(super) const LINES: usize = 1 << (u32::BITS - Self::SHIFT_BITS);

    pub(super) fn new(line: u32, shift: u8) -> Self {
        Self(line << Self::SHIFT_BITS | u32::from(shift))
    }

    /// Where the line begins, in bytes from the first.
    #[inline(always)]
    pub(super) fn line_byte(self) -> usize {
        const { assert!(1 << Self::SHIFT_BITS == size_of::<Line>()) };
        (self.0 & !(size_of::<Line>() as u32 - 1)) as usize
    }

    /// `key` shifted, of which 32 bits are enough.
    #[inline(always)]
    pub(super) fn key(self, key: u64) -> u32 {
        (key >> (self.0 % (1 << Self::SHIFT_BITS))) as u32
    }
}

/// Runs in a leaf line.
pub(super) const LINE_RUNS: usize = 11;
/// Leaf lines in a chunk: one more than its head has separators.
pub(super) const LEAF_LINES: usize = 17;
/// Runs in a chunk.
pub(super) const MAX_RUNS: usize = LINE_RUNS * LEAF_LINES;
/// Lines of the largest chunk.
pub(super) const MAX_LINES: usize = 1 + LEAF_LINES;
/// Where in a leaf line the leaves begin: behind the separators.
pub(super) const LEAVES_BYTE: usize = 4 * (LINE_RUNS - 1);

const _: () = assert!(LEAVES_BYTE + 2 * LINE_RUNS <= size_of::<Line>());
const _: () = assert!(4 * (LEAF_LINES - 1) == size_of::<Line>(), "the separators fill the head");

/// Above every key.
const UNUSED: u32 = u32::MAX;

/// Lines for a chunk of this many runs.
pub(super) fn lines_for(runs: usize) -> usize {
    1 + runs.div_ceil(LINE_RUNS)
}

/// Writes a chunk of `runs` (the first may begin before it), with keys shifted by `shift`, to `lines` (as [`lines_for`] says).
pub(super) fn write(runs: &[Run], shift: u8, lines: &[Line]) {
    let (head, leaves) = lines.split_first().expect("a chunk has a head");
    assert_eq!(lines.len(), lines_for(runs.len()), "the lines taken for this chunk");
    let mut words = [UNUSED; 16];
    for (word, runs) in words.iter_mut().zip(runs.chunks(LINE_RUNS).skip(1)) {
        *word = separator(&runs[0], shift);
    }
    store(head, &words);
    // Full lines apart, whose loops have a fixed length.
    let (full, rest) = runs.as_chunks::<LINE_RUNS>();
    for (line, runs) in leaves.iter().zip(full) {
        write_leaves(line, runs, shift);
    }
    if !rest.is_empty() {
        write_leaves(&leaves[full.len()], rest, shift);
    }
}

/// Writes a leaf line of up to [`LINE_RUNS`] runs.
#[inline(always)]
fn write_leaves(line: &Line, runs: &[Run], shift: u8) {
    let mut words = [UNUSED; 16];
    for (word, run) in words.iter_mut().zip(&runs[1..]) {
        *word = separator(run, shift);
    }
    let mut leaves = [0; 12];
    for (leaf, run) in leaves.iter_mut().zip(runs) {
        *leaf = run.leaf();
    }
    for (word, [low, high]) in words[LEAVES_BYTE / 4..].iter_mut().zip(leaves.as_chunks::<2>().0) {
        *word = u32::from(*low) | u32::from(*high) << 16;
    }
    store(line, &words);
}

/// A separator before a run.
#[inline(always)]
fn separator(run: &Run, shift: u8) -> u32 {
    ((run.start >> shift) as u32).wrapping_sub(1)
}

/// Stores 32-bit numbers in little-endian order.
fn store(line: &Line, words: &[u32; 2 * LINE_WORDS]) {
    for (word, pair) in line.0.iter().zip(words.as_chunks::<2>().0) {
        word.store((u64::from(pair[0]) | u64::from(pair[1]) << 32).to_le(), Ordering::Relaxed);
    }
}
