// SPDX-License-Identifier: MIT OR Apache-2.0
//! The form of a chunk in cache lines: how it is written. `walk` reads it.
//!
//! A key within a chunk is 32 bits: the address's upper half shifted right by what the chunk's slot says, less the base.
//! A separator is stored as the first key behind it less one, so that "how many separators are below the key" needs no special value for
//! the unused ones: these are the greatest there is, and below no key. All are stored with the
//! top bit turned over, because vector instructions compare signed numbers.

use super::sweep::Run;
use std::sync::atomic::Ordering;
use sync::lines::{LINE_WORDS, Line};

/// Runs in a leaf line.
pub(super) const LINE_RUNS: usize = 11;
/// Leaf lines in a chunk: one more than its head has separators.
pub(super) const LEAF_LINES: usize = 16;
/// Runs in a chunk.
pub(super) const MAX_RUNS: usize = LINE_RUNS * LEAF_LINES;
/// Lines of the largest chunk.
pub(super) const MAX_LINES: usize = 1 + LEAF_LINES;
/// Where in a leaf line the leaves begin: behind the separators.
pub(super) const LEAVES_BYTE: usize = 4 * (LINE_RUNS - 1);

const _: () = assert!(LEAVES_BYTE + 2 * LINE_RUNS <= size_of::<Line>());
const _: () = assert!(4 * LEAF_LINES == size_of::<Line>(), "the base and 15 separators fill the head");

/// Turns the order of unsigned numbers into that of signed ones.
pub(super) const FLIP: u32 = 1 << 31;
/// Above every key.
const UNUSED: u32 = u32::MAX ^ FLIP;

/// Lines for a chunk of this many runs.
pub(super) fn lines_for(runs: usize) -> usize {
    1 + runs.div_ceil(LINE_RUNS)
}

/// Writes a chunk that starts at `start` (its first run may begin before), with keys shifted by `shift`, to `lines` (as [`lines_for`] says).
pub(super) fn write(runs: &[Run], start: u64, shift: u8, lines: &[Line]) {
    let base = (start >> shift) as u32;
    let separator = |run: &Run| ((run.start >> shift) as u32).wrapping_sub(base).wrapping_sub(1) ^ FLIP;
    let (head, leaves) = lines.split_first().expect("a chunk has a head");
    assert_eq!(lines.len(), lines_for(runs.len()), "the lines taken for this chunk");
    let mut words = [UNUSED; 16];
    words[0] = base;
    for (word, runs) in words[1..].iter_mut().zip(runs.chunks(LINE_RUNS).skip(1)) {
        *word = separator(&runs[0]);
    }
    store(head, &words);
    for (line, runs) in leaves.iter().zip(runs.chunks(LINE_RUNS)) {
        let mut words = [UNUSED; 16];
        words[LINE_RUNS - 1..].fill(0);
        for (word, run) in words.iter_mut().zip(&runs[1..]) {
            *word = separator(run);
        }
        for (at, run) in runs.iter().enumerate() {
            words[LEAVES_BYTE / 4 + at / 2] |= u32::from(run.leaf()) << (at % 2 * 16);
        }
        store(line, &words);
    }
}

/// Stores 32-bit numbers in little-endian order.
fn store(line: &Line, words: &[u32; 2 * LINE_WORDS]) {
    for (word, pair) in line.0.iter().zip(words.as_chunks::<2>().0) {
        word.store((u64::from(pair[0]) | u64::from(pair[1]) << 32).to_le(), Ordering::Relaxed);
    }
}
