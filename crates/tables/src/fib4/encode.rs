// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the routes below a /16 to the words of its object. The form is drawn in the parent module.

use super::rib::Route;
use std::sync::atomic::Ordering;
use sync::lines::{LINE_WORDS, Line};

/// Leaf bit: the rest is where the next level's object begins, in lines from this object's first.
pub(super) const LEAF_DIVIDED: u16 = 0x8000;
/// Leaf: no route.
pub(super) const LEAF_NONE: u16 = u16::MAX;
/// Bytes of a group: how many runs start before it, then a bit for each of its entries, the first lowest.
pub(super) const GROUP_BYTES: usize = 3;
/// Entries of a group.
pub(super) const GROUP: usize = 16;
/// Where leaf 0 stands, in bytes from the object's start.
pub(super) const FIRST_LEAF: usize = ENTRIES / GROUP * GROUP_BYTES;

const ENTRIES: usize = 256;

/// Builds objects; keeps its buffers from one to the next.
pub(super) struct Encoder {
    top: Level,
    /// The level of the /24 being divided.
    last_octet: Level,
    /// All second levels, line by line.
    lower: Vec<u64>,
    top_words: Vec<u64>,
}

/// The answers for 256 entries, and their runs.
struct Level {
    entries: [u16; ENTRIES],
    starts: [u64; 4],
    leaves: [u16; ENTRIES],
    runs: usize,
}

impl Default for Encoder {
    fn default() -> Self {
        Self { top: Level::new(), last_octet: Level::new(), lower: Vec::new(), top_words: Vec::new() }
    }
}

impl Encoder {
    /// Computes the object for a /16 whose addresses have the answer `cover` but for `routes` (sorted by address, then
    /// length; each longer than /16).
    pub(super) fn encode(&mut self, cover: u16, routes: &[Route]) {
        self.lower.clear();
        self.top.entries.fill(cover);
        // In this order a route comes after those that contain it, so painting gives the longest match; and all
        // routes within a /24 come together, after every shorter one that covers it.
        let mut at = 0;
        while let Some(route) = routes.get(at) {
            let third_octet = usize::from(route.low >> 8);
            if route.len == 24 {
                self.top.entries[third_octet] = route.leaf; // most are
                at += 1;
            } else if route.len < 24 {
                self.top.entries[third_octet..][..1 << (24 - route.len)].fill(route.leaf);
                at += 1;
            } else {
                let inside = |r: &&Route| usize::from(r.low >> 8) == third_octet;
                let count = routes[at..].iter().take_while(inside).count();
                self.divide(third_octet, &routes[at..at + count]);
                at += count;
            }
        }
        self.top.find_runs();
        self.top_words.clear();
        self.top.words(&mut self.top_words, |leaf, lines| if is_divided(leaf) { leaf + lines } else { leaf });
    }

    /// Paints the routes longer than /24 in one /24.
    fn divide(&mut self, third_octet: usize, routes: &[Route]) {
        let level = &mut self.last_octet;
        level.entries.fill(self.top.entries[third_octet]);
        for route in routes {
            level.entries[usize::from(route.low & 0xff)..][..1 << (32 - route.len)].fill(route.leaf);
        }
        level.find_runs();
        self.top.entries[third_octet] = if level.runs == 1 {
            level.leaves[0]
        } else {
            // Relative to the first line after the top level, whose size is not known yet.
            let offset = self.lower.len() / LINE_WORDS;
            level.words(&mut self.lower, |leaf, _| leaf);
            LEAF_DIVIDED | u16::try_from(offset).expect("256 objects of at most 9 lines")
        };
    }

    /// The one answer for the whole /16, if it has but one.
    pub(super) fn uniform(&self) -> Option<u16> {
        let leaf = self.top.leaves[0];
        (self.top.runs == 1 && !is_divided(leaf)).then_some(leaf)
    }

    /// How many lines the object takes.
    pub(super) fn lines(&self) -> usize {
        (self.top_words.len() + self.lower.len()) / LINE_WORDS
    }

    /// Writes the object to `lines`, of which there are [`lines`](Self::lines).
    pub(super) fn write(&self, lines: &[Line]) {
        assert_eq!(lines.len(), self.lines(), "the lines taken for this object");
        let words = lines.iter().flat_map(|line| &line.0);
        for (word, value) in words.zip(self.top_words.iter().chain(&self.lower)) {
            word.store(value.to_le(), Ordering::Relaxed);
        }
    }
}

/// Eight bytes of 0 or 1 as eight bits, the first lowest: the product moves byte i's bit to bit 56 + i.
const fn gather_bits(bytes: [u8; 8]) -> u64 {
    u64::from_le_bytes(bytes).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// "No route" has the bit too, but no object is that large.
fn is_divided(leaf: u16) -> bool {
    leaf & LEAF_DIVIDED != 0 && leaf != LEAF_NONE
}

impl Level {
    fn new() -> Self {
        Self { entries: [LEAF_NONE; ENTRIES], starts: [0; 4], leaves: [LEAF_NONE; ENTRIES], runs: 1 }
    }

    fn find_runs(&mut self) {
        // All comparisons first, which compilers vectorize; then eight of their results a step.
        let mut differs = [0u8; ENTRIES];
        for (differs, pair) in differs[1..].iter_mut().zip(self.entries.windows(2)) {
            *differs = u8::from(pair[0] != pair[1]);
        }
        for (starts, differs) in self.starts.iter_mut().zip(differs.as_chunks::<64>().0) {
            let octets = differs.as_chunks::<8>().0.iter().map(|eight| gather_bits(*eight));
            *starts = octets.rev().fold(0, |bits, octet| bits << 8 | octet);
        }
        self.leaves[0] = self.entries[0];
        self.runs = 1;
        for (word, starts) in self.starts.iter().enumerate() {
            let mut left = *starts;
            while left != 0 {
                self.leaves[self.runs] = self.entries[64 * word + left.trailing_zeros() as usize];
                self.runs += 1;
                left &= left - 1;
            }
        }
    }

    /// Appends whole lines of words to `out`. Each leaf passes through `leaf`, which gets the level's size in lines too.
    fn words(&self, out: &mut Vec<u64>, leaf: impl Fn(u16, u16) -> u16) {
        let lines = (FIRST_LEAF + 2 * self.runs).div_ceil(LINE_WORDS * 8);
        let first = out.len();
        out.extend(self.groups().as_chunks::<8>().0.iter().map(|eight| u64::from_le_bytes(*eight)));
        out.resize(first + lines * LINE_WORDS, 0);
        let words = &mut out[first..];
        for (run, value) in self.leaves[..self.runs].iter().enumerate() {
            let half = FIRST_LEAF / 2 + run;
            words[half / 4] |= u64::from(leaf(*value, lines as u16)) << (half % 4 * 16);
        }
    }

    /// The groups: where runs start.
    fn groups(&self) -> [u8; FIRST_LEAF] {
        let mut groups = [0; FIRST_LEAF];
        let mut before = 0;
        for (at, group) in groups.as_chunks_mut::<GROUP_BYTES>().0.iter_mut().enumerate() {
            let starts = (self.starts[at / 4] >> (at % 4 * GROUP)) as u16;
            let [low, high] = starts.to_le_bytes();
            *group = [before, low, high];
            before += starts.count_ones() as u8;
        }
        groups
    }
}
