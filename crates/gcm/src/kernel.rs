// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel for processors with AVX-512, VAES and VPCLMULQDQ. All `unsafe` of the crate is below this module.
//!
//! # Layout of a packet
//! A register holds four blocks. The key stream begins with the block that masks the tag, E(J0), and GHASH begins with the (last) block of
//! additional data. So both streams have the same places:
//!
//! ```text
//! vector         0                    1                          last
//! lane           0    1    2    3     0    1    2    3           0 .. 3
//! counter        J0=1 2    3    4     5    6    7    8      ...
//! GHASH          AAD  C1   C2   C3    C4   C5   C6   C7     ...  Cn zeros
//! ```
//!
//! A text of n blocks takes ⌈(n+1)/4⌉ vectors. Vector `v` covers the bytes from `64v - 16` of the text. Only vector 0 and the last
//! one need masks. The block of lengths is multiplied apart.
//!
//! # Which code takes a packet
//! A packet of up to nine vectors (560 bytes) is one *group*: [`short`] takes it. Packets of one vector go four at a time and those of two go three
//! at a time, so that their chains of rounds hide each other's latency. More of them would not fit into the registers. Larger ones have enough chains
//! of their own. A longer packet goes alone through [`long`], in groups of eight vectors. [`run`] sorts the jobs of a batch by class first, so that
//! branches are predicted.
//!
//! # Speed
//! Sealing with AES-128, batches of 32, one key and 1,000 keys at random, nanoseconds per packet: 13 and 14 for 48 bytes, 18 and 18 for 64, 98 and 107 for 1,400. `ring` takes
//! 85, 86 and 264 with one key. (Intel Xeon of family 6, model 207, at 3 GHz, a virtual machine that others use; `cargo run --release -p junctor-gcm --example gcm_speed -- --least 48 64 1400`; November 2026.)
//! A round of AES takes port 0 for a cycle and a product port 5, so four blocks cost at least ten cycles: 77 ns for 1,400 bytes.
//!
//! # Inlining
//! Rust passes vectors between functions in memory, so all that is hot must be inlined. `#[target_feature]` and `#[inline(always)]` exclude each
//! other. So small functions have the features. Those that hold many vectors are `unsafe`, without features, and always inlined: in the end into
//! [`short::run`] and [`long::run`], which have the features. This is what "The caller has the features" in a safety comment means.
//!
//! Functions with target features are called only with a [`Key`], which only a [`Token`] can make; it proves that the processor has the instructions.

// Indices of packets and vectors run over several arrays at once.
#![allow(clippy::needless_range_loop)]

mod ghash;
mod key;
mod last;
mod long;
mod mixed;
mod short;
mod vector;

pub(crate) use key::{Key, Token};

use crate::Job;
use crate::key::Inner;

/// Jobs that are sorted together; an index of one fits in a byte.
const CHUNK: usize = 256;
/// Vectors of a group that is not the last one of its packet.
const GROUP: usize = 8;
/// Vectors of the longest packet that is one group. A last group has at least two, because the hash so far has four lanes, each of which needs a power of H.
const LONGEST: usize = GROUP + 1;
/// Size classes: of packets in one group by their vectors, and of longer ones by the vectors of their last group.
const SIZES: usize = LONGEST + GROUP;
/// The class of jobs whose keys are not ours.
const OTHERS: usize = 2 * SIZES;

/// Does all jobs whose keys are of this kernel, and returns whether there are others.
pub(crate) fn run<const SEAL: bool>(jobs: &mut [Job<'_>]) -> bool {
    let mut others = false;
    for chunk in jobs.chunks_mut(CHUNK) {
        others |= run_chunk::<SEAL>(chunk);
    }
    others
}

/// The class of a job: its key's kind, and its size.
#[inline]
pub(crate) fn class(key: &crate::Key, text_len: usize) -> u8 {
    let Inner::Wide(key) = &key.inner else { return OTHERS as u8 };
    let vectors = vectors(text_len);
    let size = if vectors <= LONGEST { vectors - 1 } else { LONGEST + (vectors - 2) % GROUP };
    (size + if key.is_256() { SIZES } else { 0 }) as u8
}

/// Vectors of a text of so many bytes.
#[inline]
fn vectors(text_len: usize) -> usize {
    (text_len + 16).div_ceil(64)
}

/// Indices in order, for jobs that need no sorting.
static IN_ORDER: [u8; CHUNK] = {
    let mut order = [0; CHUNK];
    let mut at = 0;
    while at < CHUNK {
        order[at] = at as u8;
        at += 1;
    }
    order
};

fn run_chunk<const SEAL: bool>(jobs: &mut [Job<'_>]) -> bool {
    let Some(first) = jobs.first().map(|job| job.class) else { return false };
    if jobs.iter().all(|job| job.class == first) {
        let order = &IN_ORDER[..jobs.len()];
        run_class::<SEAL>(first, jobs, order);
        return usize::from(first) == OTHERS;
    }
    let mut ends = [0u16; OTHERS + 1];
    for job in &*jobs {
        ends[usize::from(job.class)] += 1;
    }
    let mut sum = 0;
    for end in &mut ends {
        sum += *end;
        *end = sum - *end;
    }
    let mut order = [0u8; CHUNK];
    for (index, job) in jobs.iter().enumerate() {
        let end = &mut ends[usize::from(job.class)];
        order[usize::from(*end) % CHUNK] = index as u8;
        *end += 1;
    }
    let mut begin = 0;
    for (class, end) in ends.iter().enumerate() {
        let end = usize::from(*end);
        if begin < end {
            run_class::<SEAL>(class as u8, jobs, &order[begin..end]);
            begin = end;
        }
    }
    ends[OTHERS] > ends[OTHERS - 1]
}

/// Does the jobs at `order`, which are of this class. The indices are different.
fn run_class<const SEAL: bool>(class: u8, jobs: &mut [Job<'_>], order: &[u8]) {
    debug_assert!(order.iter().all(|at| jobs[usize::from(*at)].class == class));
    /// The arms of all sizes for one kind of key: `P` packets at a time, `K` vectors each or in their last group.
    macro_rules! arms {
        ($($rounds:literal $base:expr;)*) => {
            match usize::from(class) {
                $(
                    c if c == $base => short::run::<4, 1, $rounds, SEAL>(jobs, order),
                    c if c == $base + 1 => short::run::<3, 2, $rounds, SEAL>(jobs, order),
                    c if c == $base + 2 => short::run::<1, 3, $rounds, SEAL>(jobs, order),
                    c if c == $base + 3 => short::run::<1, 4, $rounds, SEAL>(jobs, order),
                    c if c == $base + 4 => short::run::<1, 5, $rounds, SEAL>(jobs, order),
                    c if c == $base + 5 => short::run::<1, 6, $rounds, SEAL>(jobs, order),
                    c if c == $base + 6 => short::run::<1, 7, $rounds, SEAL>(jobs, order),
                    c if c == $base + 7 => short::run::<1, 8, $rounds, SEAL>(jobs, order),
                    c if c == $base + 8 => short::run::<1, 9, $rounds, SEAL>(jobs, order),
                    c if c == $base + 9 => long::run::<2, $rounds, SEAL>(jobs, order),
                    c if c == $base + 10 => long::run::<3, $rounds, SEAL>(jobs, order),
                    c if c == $base + 11 => long::run::<4, $rounds, SEAL>(jobs, order),
                    c if c == $base + 12 => long::run::<5, $rounds, SEAL>(jobs, order),
                    c if c == $base + 13 => long::run::<6, $rounds, SEAL>(jobs, order),
                    c if c == $base + 14 => long::run::<7, $rounds, SEAL>(jobs, order),
                    c if c == $base + 15 => long::run::<8, $rounds, SEAL>(jobs, order),
                    c if c == $base + 16 => long::run::<9, $rounds, SEAL>(jobs, order),
                )*
                _ => {}
            }
        };
    }
    // SAFETY: the jobs' keys prove the processor's features; the class says their number of rounds and the texts' vectors; indices differ.
    unsafe {
        arms! { 10 0; 14 SIZES; }
    }
}
